"""What displays read from fitted hashers."""

from sklearn.utils.validation import check_is_fitted

from skhash.displays._base import pyplot
from skhash.metrics import RetrievalScorer
from skhash.metrics.histogram import concatenate
from skhash.metrics.scorers import find_hasher, hasher_input


def estimator_name(estimator):
    """Name of the method of a hasher: its class without "Hasher"."""
    return type(find_hasher(estimator)).__name__.removesuffix("Hasher")


def ranked_histogram(estimator, X, y):
    """Histogram of the rows of fit as its `score` ranks them, for metrics of ranks."""
    pyplot()  # missing, it is better missed before the ranking
    ranking = RetrievalScorer().ranking(estimator, X, y)
    return concatenate(H.by_ranks() for H in ranking.histograms())


def activations(estimator, X):
    """Activations of the hasher at the end of `estimator`."""
    hasher = find_hasher(estimator)
    return hasher.project(X if hasher is estimator else hasher_input(estimator, X))


def history(estimator, keys, wanted):
    """Columns of the entries of `history_` that have all `keys`.

    Parameters
    ----------
    estimator : estimator
        A fitted hasher, or a Pipeline or search that ends in one.
    keys : tuple of str
        Names of the columns.
    wanted : str
        What keeps such a history, for the message.

    Returns
    -------
    list of list
        One a key.

    Raises
    ------
    ValueError
        If there is no such entry.
    """
    pyplot()
    check_is_fitted(estimator)
    hasher = find_hasher(estimator)
    entries = [entry for entry in getattr(hasher, "history_", []) if entry.keys() >= set(keys)]
    if not entries:
        raise ValueError(
            f"{type(hasher).__name__} has no history_ with {', '.join(map(repr, keys))}; {wanted} keeps one."
        )
    return [[entry[key] for entry in entries] for key in keys]
