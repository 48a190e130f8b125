"""A callback of ours: the exact metric on validation rows, epoch by epoch.

scikit-learn's own callbacks work with every hasher: ``ProgressBar`` shows the epochs,
``ScoringMonitor`` scores the training rows. What they lack is a look at other rows.
"""

from skhash.codes import is_count
from skhash.metrics.scorers import RetrievalScorer


class RetrievalMonitor:
    """Score validation rows after each epoch, and stop when they no longer gain.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Validation queries, as the hasher receives rows.
    y : array-like of shape (n_samples, ...), default=None
        Their targets.
    scoring : str or RetrievalScorer, default="ap"
        A metric's name, or a scorer that gives a float.
    patience : int, default=None
        Stop after that many epochs without a better value, 1 at least; None never stops.

    Attributes
    ----------
    log_ : list of dict
        Epoch and score, from 1 on; emptied when a fit begins.

    Raises
    ------
    ValueError
        For an unknown `scoring`, one of several metrics, or a `patience` below 1.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skhash import TALRHasher
    >>> from skhash.callbacks import RetrievalMonitor
    >>> X, y = load_digits(return_X_y=True)
    >>> monitor = RetrievalMonitor(X[1500:], y[1500:])
    >>> hasher = TALRHasher(nbits=16, n_epochs=3, random_state=0).set_callbacks(monitor).fit(X[:1500], y[:1500])
    >>> [entry["epoch"] for entry in monitor.log_]
    [1, 2, 3]
    >>> monitor.log_[-1]["score"] == hasher.score(X[1500:], y[1500:])
    True
    """

    def __init__(self, X, y=None, *, scoring="ap", patience=None):
        self.X = X
        self.y = y
        self.scoring = scoring
        self.patience = patience
        self.log_ = []
        if not (patience is None or is_count(patience)):
            raise ValueError(f"patience={patience!r}; None or an integer of at least 1 is wanted.")
        self._scorer = scoring if callable(scoring) else RetrievalScorer(scoring)
        if not isinstance(getattr(self._scorer, "metric", ""), str):
            raise ValueError(f"scoring has the metrics {self._scorer.metric}; a single one is wanted.")

    def setup(self, estimator, context):
        """Begin a new log."""
        self.log_ = []

    def teardown(self, estimator, context):
        """Keep the log."""

    def on_fit_task_begin(self, estimator, context):
        """Do nothing before an epoch."""

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        """Score the hasher as it is after an epoch; say whether to stop."""
        if fitted_estimator is None:
            return False
        self.log_.append({"epoch": len(self.log_) + 1, "score": self._scorer(fitted_estimator, self.X, self.y)})
        best = max(self.log_, key=lambda entry: entry["score"])["epoch"]
        return self.patience is not None and len(self.log_) - best >= self.patience
