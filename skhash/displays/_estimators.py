"""What displays read from fitted hashers."""

from sklearn.utils.validation import check_is_fitted

from skhash._estimators import find_hasher, hasher_input
from skhash.displays._base import pyplot
from skhash.metrics import RetrievalScorer
from skhash.metrics.histogram import concatenate


def estimator_name(estimator):
    """Name of the method of a hasher: its class without "Hasher"."""
    return type(find_hasher(estimator)).__name__.removesuffix("Hasher")


def ranked_histogram(estimator, X, y):
    """Histogram of the training samples as `score` ranks them, for metrics of ranks."""
    pyplot()  # an error about matplotlib must come before the ranking, which takes time
    ranking = RetrievalScorer().ranking(estimator, X, y)
    return concatenate(H.by_ranks() for H in ranking.histograms())


def activations(estimator, X):
    """Activations of shape (n_samples, nbits) of the hasher at the end of `estimator`."""
    return find_hasher(estimator).project(hasher_input(estimator, X))


def history(estimator, keys, source):
    """Columns of the entries of `history_` with all `keys`; ValueError, naming `source`, if there are none."""
    pyplot()
    check_is_fitted(estimator)
    hasher = find_hasher(estimator)
    entries = [entry for entry in getattr(hasher, "history_", []) if entry.keys() >= set(keys)]
    if not entries:
        raise ValueError(
            f"`estimator` must have a history_ with {', '.join(map(repr, keys))}, as a {source} has. "
            f"Got an instance of {type(hasher).__name__} instead."
        )
    return [[entry[key] for entry in entries] for key in keys]
