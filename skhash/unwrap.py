"""Hasher inside a Pipeline or search, its codes and real queries, from any estimator that has them."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sklearn.frozen import FrozenEstimator

from skhash.codes.codes import Codes
from skhash.codes.queries import Estimates, Real


def codes_of(estimator: Any, X: Any) -> Codes:
    """Codes of samples, from `encode` if the hasher has it, else from `transform`."""
    hasher = find_hasher(estimator)
    if hasattr(hasher, "encode") and hasattr(hasher, "_n_features_out"):
        return Codes(hasher.encode(hasher_input(estimator, X)), int(hasher._n_features_out))
    return Codes.of(estimator.transform(X), name=f"{type(hasher).__name__}.transform(X)")


def training_database(hasher: Any) -> tuple[Codes, Any]:
    """Codes and targets of the training samples of a hasher."""
    if not hasattr(hasher, "database_"):
        raise TypeError(
            "`estimator` must be a hasher of skhash, which stores a database, or use "
            "RetrievalScorer(database='fold' or (X, y)), and for a display a histogram of its codes. "
            f"Got {type(hasher).__name__} instead."
        )
    if hasher.database_ is None:
        raise ValueError(
            f"`estimator` must store a database to rank. Got a {type(hasher).__name__} that was fitted with "
            "store_database=False instead: fit with store_database=True, or use RetrievalScorer(database=(X, y))."
        )
    if hasher.database_.y is None:
        raise ValueError(
            f"`estimator` must have targets of its database. Got a {type(hasher).__name__} that was fitted without y "
            "instead: fit with y, or with y=X to score neighbor_recall."
        )
    return hasher.database_.codes, hasher.database_.y


def items_of(estimator: Any, X: Any) -> Codes:
    """Codes of items, with what their hasher stores beside them."""
    hasher, samples = find_hasher(estimator), hasher_input(estimator, X)
    codes = codes_of(hasher, samples)
    return hasher._completed(codes, samples) if hasattr(hasher, "_completed") else codes


def without_database(estimator: Any) -> Any:
    """Estimator whose hasher does not store the codes of its training samples, since an index stores them."""
    hasher = find_hasher(estimator)
    if hasher is None or isinstance(hasher, str):
        raise ValueError(
            "`hasher` must be a hasher, or a Pipeline that ends in one. "
            f"Got a Pipeline that ends in {hasher!r} instead."
        )
    if not isinstance(estimator, FrozenEstimator) and "store_database" in hasher.get_params(deep=False):
        hasher.set_params(store_database=False)
    return estimator


def check_has_real_queries(estimator: Any) -> None:
    """Raise ValueError unless an estimator ends in a hasher with real queries."""
    hasher = find_hasher(estimator)
    if not hasattr(hasher, "project_queries"):
        raise ValueError(
            "`hasher` must be a hasher of skhash, or a Pipeline that ends in one, with query='real'. Got a "
            f"{type(hasher).__name__} instead, which has no `project_queries`: make it an earlier step."
        )


def check_encodes_items(estimator: Any) -> None:
    """Raise ValueError if an estimator ends in one whose function has the fingerprint of another, for queries alone."""
    hasher = find_hasher(estimator)
    if hasattr(getattr(hasher, "function_", None), "fingerprint"):
        kind = type(getattr(hasher, "estimator", hasher))  # behind a FrozenEstimator
        raise ValueError(
            f"`hasher` must make codes of items. Got a {kind.__name__} instead, which makes queries alone: "
            "encode items with the hasher that has made the other codes, then call `with_queries` again."
        )


def makes_factors(estimator: Any) -> bool:
    """Whether a hasher makes factors of the items, by which its real queries estimate distances."""
    return bool(getattr(find_hasher(estimator), "factors", False))


def lacks_factors(estimator: Any, codes: Codes) -> bool:
    """Whether the real queries of a hasher estimate distances by factors that the codes of the items do not have."""
    return codes.factors is None and makes_factors(estimator)


def real_queries(estimator: Any, X: Any, items: Any) -> Real:
    """Real queries, which estimate distances if the items, Codes or their factors alone, have factors."""
    check_has_real_queries(estimator)
    hasher, samples = find_hasher(estimator), hasher_input(estimator, X)
    factors = items.factors if isinstance(items, Codes) else items
    if factors is None:
        return Real(hasher.project_queries(samples))
    activations, constants = hasher._queries_for_factors(samples)
    return Real(activations, Estimates(factors, hasher.metric, constants))


@contextmanager
def named_warnings(fit: Any, more: str = "") -> Iterator[None]:
    """Context manager that begins each warning with the name of a fit, and shows it at the end, also after an error.

    `fit` is the name, or an estimator with a class and a number of bits.
    """
    if isinstance(fit, str):
        name = fit
    else:
        hasher = find_hasher(fit)
        nbits = getattr(hasher, "nbits", None)
        name = f"{type(hasher).__name__}{'' if nbits is None else f', {nbits} bits'}"
    caught: list[warnings.WarningMessage] = []
    try:
        with warnings.catch_warnings(record=True) as caught:
            yield
    finally:
        for each in caught:
            message = each.category(f"{name}{more}: {each.message}")
            warnings.showwarning(message, each.category, each.filename, each.lineno)  # filters have let it pass


def find_hasher(estimator: Any) -> Any:
    """Hasher inside an estimator, which may be a hasher, or a fitted Pipeline or search that ends in one."""
    if hasattr(estimator, "best_estimator_"):
        return find_hasher(estimator.best_estimator_)
    return find_hasher(estimator.steps[-1][1]) if hasattr(estimator, "steps") else estimator


def find_function(estimator: Any) -> Any:
    """Function of the hasher inside an estimator; None if it is not one of skhash."""
    return getattr(find_hasher(estimator), "function_", None)


def first_step(estimator: Any) -> Any:
    """What takes the samples in an estimator: the first step of a fitted Pipeline or search, or a hasher itself."""
    if hasattr(estimator, "best_estimator_"):
        return first_step(estimator.best_estimator_)
    return first_step(estimator.steps[0][1]) if hasattr(estimator, "steps") else estimator


def hasher_input(estimator: Any, X: Any) -> Any:
    """Samples after the earlier steps of a Pipeline or search; `X` itself, such as a data frame, if there are none."""
    if hasattr(estimator, "best_estimator_"):
        return hasher_input(estimator.best_estimator_, X)
    if not hasattr(estimator, "steps"):
        return X
    earlier, last = estimator[:-1], estimator.steps[-1][1]
    return hasher_input(last, earlier.transform(X) if len(earlier) else X)
