r"""FastAP, deep metric learning to rank (Cakir, He, Xia, Kulis, Sclaroff, CVPR 2019).

Of the items of a query c_d lie at distance d, relevant ones c+_d, and C_d = c_0 + ... + c_d. Where TALR
averages over the orders inside each tie, FastAP takes the precision C+_d / C_d at the end of the tie for
all its relevant items:

    FastAP = (1 / C+) sum_d c+_d C+_d / C_d

This is the mean over the relevant items of the precision within the Hamming radius at which they lie, and
without ties AP. Put last in their tie, the relevant items have that precision at the last of them and no
larger one before: FastAP is at least the AP of the worst order, and equal to it where no tie holds two relevant
items. No order bounds it from above: p relevant items that tie behind N irrelevant ones count p / (N + p) each,
where every order gives them 1 / (N + 1), 2 / (N + 2), ... It is an objective of
:class:`skhash.TALRHasher`, on the soft counts of :mod:`skhash.metrics.soft_histogram`; what is
reported of codes remains AP_T.
"""

from skhash.metrics._ties import divide, items_before


def fast_ap(n, p):
    """Compute FastAP of tied rankings.

    Parameters
    ----------
    n : array or tensor of shape (n_queries, n_ties)
        Items of each tie, nearest first, see :func:`skhash.metrics._ties.tied_ranking`; counts or
        soft counts.
    p : array or tensor of shape (n_queries, n_ties)
        Relevant ones.

    Returns
    -------
    array or tensor of shape (n_queries,)
        Values in [0, 1], 0 for a query without relevant items.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.metrics.fastap import fast_ap
    >>> n, p = np.array([[2.0, 2.0]]), np.array([[1.0, 2.0]])  # the relevant items are 1 of 2, then 2 of 2
    >>> float(fast_ap(n, p)[0])  # (1/2 + 3/4 + 3/4) / 3
    0.666...
    """
    precision = divide(items_before(p) + p, items_before(n) + n)
    return divide((p * precision).sum(-1), p.sum(-1))
