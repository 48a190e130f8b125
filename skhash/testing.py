"""The checks that every hasher passes, one of skhash or your own."""

import copy
import pickle
import random
import tempfile
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any
from unittest import SkipTest

import joblib
import numpy as np
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.utils import Bunch, estimator_checks

from skhash.base import BaseHasher
from skhash.exceptions import DegenerateCodesWarning
from skhash.metrics import average_precision, relevance_histogram
from skhash.persistence import load, save

_N_SAMPLES = 280  # digits
_QUERIES = 2 / 7  # share of the samples that are queries, and not learned from
_MOST_FLIPPED = 2e-3  # share of bits near 0 that products of other shapes may round to the other side
#: checks of scikit-learn that `check_estimator` leaves out
MORE_CHECKS = (
    "check_dataframe_column_names_consistency",
    "check_inplace_ensure_writeable",
    "check_set_output_transform",
    "check_transformer_get_feature_names_out",
    "check_transformer_get_feature_names_out_pandas",
)


def check_hasher(estimator: Any, X: Any = None, y: Any = None, *, scikit_learn: bool = True) -> list[str]:
    """Names of the checks that a hasher passes: all that apply to it.

    It is cloned and fitted some 15 times, and with `scikit_learn` some 100 times more, to few samples. Give a method
    that trains for long parameters that make it quick, such as ``n_epochs=1``.

    Parameters
    ----------
    estimator : BaseHasher
        The hasher, not fitted.
    X : ndarray of shape (n_samples, ...), default=None
        Samples, of which the last two sevenths are queries; None takes 280 of scikit-learn's digits.
    y : ndarray of shape (n_samples, ...), default=None
        Their targets; None takes the digits.
    scikit_learn : bool, default=True
        Whether to run scikit-learn's :func:`~sklearn.utils.estimator_checks.check_estimator` as well, on its own
        samples.

    Returns
    -------
    list of str
        Names of the checks. Those that do not apply are left out: `check_files` if the hasher cannot be saved, and
        `check_prefix` for a single bit.

    Raises
    ------
    AssertionError
        If the hasher fails a check, which the message names.
    TypeError
        If the estimator does not derive from BaseHasher.

    Examples
    --------
    >>> from skhash import LSHHasher
    >>> from skhash.testing import check_hasher
    >>> check_hasher(LSHHasher(8), scikit_learn=False)
    ['check_codes', 'check_single_samples', 'check_seeds', 'check_generators',
     'check_copies', 'check_files', 'check_score', 'check_prefix']

    Each check is a test of its own with pytest:

    >>> import pytest
    >>> from skhash.testing import CHECKS
    >>> @pytest.mark.parametrize("check", CHECKS)
    ... def test_mine(check):
    ...     check(LSHHasher(8))
    """
    if not isinstance(estimator, BaseHasher):
        raise TypeError(
            f"`estimator` must be a hasher that derives from skhash.base.BaseHasher. Got {estimator!r} instead."
        )
    passed = []
    for check in (*CHECKS, check_estimator) if scikit_learn else CHECKS:
        try:
            check(estimator, X, y)
        except SkipTest:
            continue
        except AssertionError as error:
            raise AssertionError(f"{check.__name__}: {error}") from error
        except Exception as error:
            error.add_note(f"This happens in {check.__name__} of skhash.testing.")
            raise
        passed.append(check.__name__)
    return passed


def _divided(X: Any, y: Any) -> Bunch:
    """Samples to learn from, and queries."""
    if X is None:
        X, y = (array[:_N_SAMPLES] for array in load_digits(return_X_y=True))
    n = X.shape[0] - round(_QUERIES * X.shape[0])
    y, y_query = (None, None) if y is None else (y[:n], y[n:])
    return Bunch(X=X[:n], y=y, X_query=X[n:], y_query=y_query)


def _fit(estimator: Any, data: Bunch, **parameters: Any) -> Any:
    """Clone with the parameters that it has, fitted to the samples to learn from."""
    hasher = clone(estimator)
    parameters = {"random_state": 0, "store_database": True} | parameters
    known = hasher.get_params(deep=False)
    hasher.set_params(**{name: value for name, value in parameters.items() if name in known})
    return hasher.fit(data.X, data.y)


def check_codes(estimator: Any, X: Any = None, y: Any = None) -> None:
    """Check that bits are the signs of `project`, codes the packed bits, and the database the codes of the samples.

    Parameters
    ----------
    estimator : BaseHasher
        The hasher, not fitted.
    X, y : ndarray, default=None
        Samples and targets, as in :func:`check_hasher`.
    """
    data = _divided(X, y)
    hasher = _fit(estimator, data)
    bits, codes, activations = (f(data.X_query) for f in (hasher.transform, hasher.encode, hasher.project))
    assert bits.dtype == codes.dtype == np.uint8, "transform and encode must return uint8"
    assert np.issubdtype(activations.dtype, np.floating), "project must return floats"
    assert bits.shape == activations.shape == (len(data.X_query), estimator.nbits), "a column per bit"
    assert_array_equal(bits, activations >= 0, "a bit is 1 where its activation is >= 0")
    assert_array_equal(codes, np.packbits(bits, axis=1), "encode must pack the bits of transform")
    assert_array_equal(
        hasher.database_.codes.rows, hasher.encode(data.X), "the database holds the codes of the samples"
    )
    if data.y is not None:
        assert_array_equal(hasher.database_.y, data.y, "the database holds the targets of the samples")


def check_single_samples(estimator: Any, X: Any = None, y: Any = None) -> None:
    """Check that the code of a sample depends on no other sample; products of other shapes may round differently.

    Parameters
    ----------
    estimator : BaseHasher
        The hasher, not fitted.
    X, y : ndarray, default=None
        Samples and targets, as in :func:`check_hasher`.
    """
    data = _divided(X, y)
    hasher = _fit(estimator, data)
    one_by_one = np.concatenate([hasher.transform(sample[None]) for sample in data.X_query])
    flipped = np.mean(one_by_one != hasher.transform(data.X_query))
    assert flipped < _MOST_FLIPPED, f"{flipped:.1%} of the bits differ between single samples and a batch of them"


def check_seeds(estimator: Any, X: Any = None, y: Any = None) -> None:
    """Check that the same `random_state` gives the same activations, bit for bit.

    Parameters
    ----------
    estimator : BaseHasher
        The hasher, not fitted.
    X, y : ndarray, default=None
        Samples and targets, as in :func:`check_hasher`.
    """
    data = _divided(X, y)
    seeds: dict[str, Callable[[], Any]] = {"an int": int, "a RandomState": partial(np.random.RandomState, 5)}
    for name, make in seeds.items():
        one, two = (_fit(estimator, data, random_state=make()).project(data.X_query) for _ in range(2))
        assert_array_equal(one, two, f"fits with the same seed, {name}, must give the same activations")


def check_generators(estimator: Any, X: Any = None, y: Any = None) -> None:
    """Check that `fit` and `transform` neither draw from nor seed the global generators of Python, numpy and torch.

    Parameters
    ----------
    estimator : BaseHasher
        The hasher, not fitted.
    X, y : ndarray, default=None
        Samples and targets, as in :func:`check_hasher`.
    """
    import torch

    def states() -> dict[str, Any]:
        numpy = pickle.dumps(np.random.get_state())  # noqa: NPY002
        return {"Python": random.getstate(), "numpy": numpy, "torch": torch.get_rng_state().tolist()}

    data, before = _divided(X, y), states()
    _fit(estimator, data).transform(data.X_query)
    changed = [name for name, state in states().items() if state != before[name]]
    assert not changed, f"the global generator of {' and '.join(changed)} has another state after fit and transform"


def check_copies(estimator: Any, X: Any = None, y: Any = None) -> None:
    """Check that copies and pickles give the same codes and the same score, and so does a clone that is fitted.

    Parameters
    ----------
    estimator : BaseHasher
        The hasher, not fitted.
    X, y : ndarray, default=None
        Samples and targets, as in :func:`check_hasher`.
    """
    data = _divided(X, y)
    hasher = _fit(estimator, data)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "hasher.joblib")
        joblib.dump(hasher, path)
        copies = {
            "joblib": joblib.load(path),
            "joblib, memory-mapped": joblib.load(path, mmap_mode="r"),
            "pickle": pickle.loads(pickle.dumps(hasher)),
            "deepcopy": copy.deepcopy(hasher),
            "copy": copy.copy(hasher),
            "clone": clone(hasher).fit(data.X, data.y),
        }
        for name, other in copies.items():
            _check_same(other, hasher, data, name)
        copies.clear()  # the folder cannot be removed while a file in it is mapped


def check_files(estimator: Any, X: Any = None, y: Any = None) -> None:
    """Check that a hasher is the same after `save` and `load`; SkipTest if it cannot be saved.

    Parameters
    ----------
    estimator : BaseHasher
        The hasher, not fitted.
    X, y : ndarray, default=None
        Samples and targets, as in :func:`check_hasher`.
    """
    data = _divided(X, y)
    hasher = _fit(estimator, data)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "hasher.safetensors")
        try:
            save(hasher, path)
        except TypeError as error:
            raise SkipTest(str(error)) from error
        loaded = load(path, classes=[type(hasher)])
    assert type(loaded) is type(hasher), "load must return a hasher of the same class"
    _check_same(loaded, hasher, data, "save and load")


def _check_same(other: Any, hasher: Any, data: Bunch, name: str) -> None:
    """Raise AssertionError unless two hashers have the same activations, codes and score."""
    for method in ("project", "encode"):
        one, two = (getattr(each, method)(data.X_query) for each in (other, hasher))
        assert_array_equal(one, two, f"{name} must give the same result of {method}")
    if data.y is not None:
        assert other.score(data.X_query, data.y_query) == hasher.score(data.X_query, data.y_query), f"score: {name}"


def check_score(estimator: Any, X: Any = None, y: Any = None) -> None:
    """Check that `score` is the mean AP over all orders of tied samples, by the histogram; SkipTest without `y`.

    Parameters
    ----------
    estimator : BaseHasher
        The hasher, not fitted.
    X, y : ndarray, default=None
        Samples and targets, as in :func:`check_hasher`.
    """
    data = _divided(X, y)
    if data.y is None:
        raise SkipTest("no sample has a target")
    hasher = _fit(estimator, data)
    H = relevance_histogram(
        hasher.transform(data.X_query),
        hasher.transform(data.X),
        data.y_query,
        data.y,
        affinity="auto" if hasher.affinity_ is None else hasher.affinity_,
        bit_weights=getattr(hasher, "bit_weights_", None),
    )
    score = hasher.score(data.X_query, data.y_query)
    assert_allclose(score, average_precision(H), rtol=1e-9, err_msg="score must be the mean AP_T")
    worst, best = (average_precision(H, ties=ties) for ties in ("worst", "best"))
    assert 0 <= worst <= score + 1e-9 <= best + 2e-9 <= 1 + 3e-9, "score must lie in its tie range"


def check_prefix(estimator: Any, X: Any = None, y: Any = None) -> None:
    """Check that the bits of `prefix` are the first bits; SkipTest for a single bit.

    Parameters
    ----------
    estimator : BaseHasher
        The hasher, not fitted.
    X, y : ndarray, default=None
        Samples and targets, as in :func:`check_hasher`.
    """
    n = estimator.nbits // 2
    if n == 0:
        raise SkipTest("a single bit has no prefix")
    data = _divided(X, y)
    hasher = _fit(estimator, data)
    expected, first = hasher.transform(data.X_query)[:, :n], hasher.prefix(n)
    assert_array_equal(first.transform(data.X_query), expected, "prefix must give the first bits")
    assert_array_equal(hasher.transform(data.X_query)[:, :n], expected, "prefix must not change its hasher")


def check_estimator(estimator: Any, X: Any = None, y: Any = None) -> None:
    """Run the checks of scikit-learn, and those in `MORE_CHECKS`, which it leaves out.

    Parameters
    ----------
    estimator : BaseHasher
        The hasher, not fitted.
    X, y : ndarray, default=None
        Not used: scikit-learn has its own samples.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X (has|does not have valid) feature names")  # frames and arrays
        warnings.simplefilter("ignore", DegenerateCodesWarning)  # of a few samples
        estimator_checks.check_estimator(clone(estimator), on_skip=None)
        for name in MORE_CHECKS:
            with suppress(SkipTest):  # without pandas
                getattr(estimator_checks, name)(type(estimator).__name__, clone(estimator))


#: the checks of `check_hasher` but those of scikit-learn, each of which takes a hasher and optionally X and y
CHECKS: tuple[Callable[..., None], ...] = (
    check_codes,
    check_single_samples,
    check_seeds,
    check_generators,
    check_copies,
    check_files,
    check_score,
    check_prefix,
)
