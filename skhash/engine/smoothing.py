"""Smoothing of features that occur together, as tags do: see Smoothing for the map.

A linear hasher of smoothed rows is a linear hasher still: the map changes the metric in
which its weights are learned, and folds into them afterwards. A rare tag then moves with
the tags beside which it stands, instead of on its own.
"""

import numpy as np
import torch
from torch import nn

DIRECTIONS = 128  # r at most; half of the features, or of the rows, if these are fewer
LEARNED_FROM = 5000  # rows that the directions are learned from, at most
MOST = 1000.0  # largest ratio of variances
TAGS = 0.05  # rows of tags are those with a smaller share of entries that are not zero


def are_tags(rows):
    """Tell whether rows are tags: nearly all entries are zero.

    Parameters
    ----------
    rows : ndarray of shape (n, n_features)
        Some rows.

    Returns
    -------
    bool
        Whether fewer than one entry in twenty is not zero.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.engine.smoothing import are_tags
    >>> are_tags(np.eye(30)), are_tags(np.eye(10))
    (True, False)
    """
    return bool(np.count_nonzero(rows) < TAGS * rows.size)


class Smoothing(nn.Module):
    r"""A linear map of rows that stretches them along their leading principal directions.

    Parameters
    ----------
    n_features : int
        Width of a row.
    n_directions : int
        How many directions are stretched, r.

    Notes
    -----
    With the principal directions :math:`v_i` of some rows, their variances :math:`\lambda_i`, the mean
    :math:`\tau` of the variances beyond the r largest and the exponent p,

    .. math::

       x \mapsto c \Bigl[x + \sum_{i \le r} \bigl((\lambda_i / \tau)^p - 1\bigr) v_i \langle v_i, x \rangle\Bigr],

    c keeping the mean variance. The ratio stops at 1000, and rows that span no more than r
    dimensions say nothing of the others: they leave the map the identity, as it begins.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> from skhash.engine.smoothing import Smoothing
    >>> X = torch.tensor([[3.0, 3.0], [-3.0, -3.0], [1.0, -1.0], [-1.0, 1.0]])
    >>> smoothing = Smoothing(2, 1).learn(X, 0.5, np.random.RandomState(0))
    >>> (smoothing(X)[0] / smoothing(X)[2]).abs()  # 3 times as long before
    tensor([9., 9.])
    """

    def __init__(self, n_features, n_directions):
        super().__init__()
        self.directions = nn.Buffer(torch.zeros(n_directions, n_features))
        self.gains = nn.Buffer(torch.zeros(n_directions))
        self.factor = nn.Buffer(torch.ones(()))

    def forward(self, X):
        """Smooth rows.

        Parameters
        ----------
        X : tensor of shape (n, n_features)
            Rows.

        Returns
        -------
        tensor of shape (n, n_features)
            The smoothed rows.
        """
        return self.factor * (X + (X @ self.directions.T * self.gains) @ self.directions)

    def learn(self, X, exponent, rng):
        """Take the directions and their variances from rows.

        Parameters
        ----------
        X : tensor of shape (n, n_features)
            Rows.
        exponent : float
            The exponent p.
        rng : numpy.random.RandomState
            Source of the randomized decomposition.

        Returns
        -------
        self : Smoothing
            The module, changed in place.
        """
        from sklearn.decomposition import PCA

        rows = X.double().numpy()
        total = rows.var(axis=0, ddof=1).sum()
        n_rest = min(len(rows) - 1, rows.shape[1]) - len(self.gains)  # centred rows span one dimension less
        if total == 0 or n_rest < 1:
            return self
        pca = PCA(len(self.gains), svd_solver="randomized", random_state=rng).fit(rows)
        leading = pca.explained_variance_
        rest = (total - leading.sum()) / n_rest
        if rest <= 1e-9 * total:
            return self
        scales = np.minimum(leading / rest, MOST) ** exponent
        self.directions.copy_(torch.from_numpy(pca.components_))
        self.gains.copy_(torch.from_numpy(scales - 1))
        self.factor.fill_((total / (total + ((scales**2 - 1) * leading).sum())) ** 0.5)
        return self
