"""A callback that evaluates validation samples after each epoch.

scikit-learn's own callbacks work with every hasher: ``ProgressBar`` shows the epochs,
``ScoringMonitor`` scores the training samples. Before 1.9 scikit-learn has no callbacks, and hashers have no
``set_callbacks``.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator

from skhash._validation import as_count_or_none
from skhash.metrics.scorers import RetrievalScorer


class RetrievalMonitor:
    """Score validation samples after each epoch, and stop when the score no longer improves.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features), or torch Dataset
        Validation queries, in the form that the hasher receives.
    y : array-like of shape (n_samples, ...), default=None
        Targets of the queries. None takes those of a Dataset, or the queries themselves for an
        affinity that compares samples.
    scoring : str or RetrievalScorer, default="ap"
        Name of a metric, or a scorer that returns a float.
    patience : int, default=None
        Stop after this many epochs without a better value, at least 1. None never stops. The hasher
        keeps the weights of its last epoch. After a resume, the epochs before it do not count.

    Attributes
    ----------
    log_ : list of dict
        Number (from 1) and score of each epoch of the last fit; after a resume, of the remaining epochs.

    Raises
    ------
    ValueError
        If `scoring` is unknown or has several metrics, or `patience` is below 1.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skhash import TALRHasher
    >>> from skhash.callbacks import RetrievalMonitor
    >>> X, y = load_digits(return_X_y=True)
    >>> monitor = RetrievalMonitor(X[1500:], y[1500:])
    >>> hasher = TALRHasher(nbits=16, n_epochs=3, random_state=0).set_callbacks(monitor)
    >>> hasher = hasher.fit(X[:1500], y[:1500])
    >>> [entry["epoch"] for entry in monitor.log_]
    [1, 2, 3]
    >>> monitor.log_[-1]["score"] == hasher.score(X[1500:], y[1500:])
    True
    """

    def __init__(
        self, X: npt.ArrayLike, y: npt.ArrayLike | None = None, *, scoring: Any = "ap", patience: int | None = None
    ) -> None:
        self.X = X
        self.y = y
        self.scoring = scoring
        self.patience = as_count_or_none(patience, "patience")
        self.log_: list[dict[str, Any]] = []
        self._scorer = scoring if callable(scoring) else RetrievalScorer(scoring)
        metric = getattr(self._scorer, "metric", "")
        if not isinstance(metric, str):
            raise ValueError(f"`scoring` must have a single metric. Got {metric!r} instead.")

    def setup(self, estimator: BaseEstimator, context: Any) -> None:
        """Begin a new log."""
        self.log_ = []

    def teardown(self, estimator: BaseEstimator, context: Any) -> None:
        """Keep the log."""

    def on_fit_task_begin(self, estimator: BaseEstimator, context: Any) -> None:
        """Do nothing before an epoch."""

    def on_fit_task_end(self, estimator: BaseEstimator, context: Any, *, fitted_estimator: Any = None) -> bool:
        """Score the hasher after an epoch, and return whether to stop."""
        if fitted_estimator is None:
            return False
        epoch = len(fitted_estimator.history_)  # not the length of the log, which begins again at a resume
        self.log_.append({"epoch": epoch, "score": self._scorer(fitted_estimator, self.X, self.y)})
        scores = [entry["score"] for entry in self.log_]
        best: int = self.log_[np.argmax(np.nan_to_num(scores, nan=-np.inf))]["epoch"]  # NaN is no score
        return self.patience is not None and epoch - best >= self.patience
