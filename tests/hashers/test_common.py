"""The contract of every hasher: scikit-learn's, by all of its checks, and the library's own."""

import inspect
import pickle
from functools import cache, partial
from types import FunctionType, MethodType

import joblib
import numpy as np
import pandas as pd
import pytest
from _helpers import StopAfter, every_hasher, global_states, quick
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import Bunch, estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks

from skhash import TALRHasher
from skhash.codes import pack
from skhash.registry import HASHERS
from skhash.testing import CHECKS, MORE_CHECKS, check_codes

# Twelve fits each that repeat check_set_output_transform with containers, which are made in one place for all hashers.
REPEATED_CHECKS = [
    "check_global_output_transform_pandas",
    "check_global_set_output_transform_polars",
    "check_set_output_transform_pandas",
    "check_set_output_transform_polars",
]

# Tests of the interface need no good codes, and nor do scikit-learn's checks.
TINY = {"n_latent": 4, "n_epochs": 1, "n_starts": 1, "n_queries": 8, "n_relevant": 2, "n_irrelevant": 2, "tol": 0.2}
FEWER_BITS = {"CGHashHasher": 2, "StructHashHasher": 2}  # they solve programs for each bit


def tiny(name):
    return quick(name, nbits=FEWER_BITS.get(name, 4), **TINY)


@pytest.fixture(scope="module")
def few(digits):
    """200 digits to learn from and 80 queries."""
    return Bunch(X=digits.X[:200], y=digits.y[:200], X_query=digits.X_query[:80], y_query=digits.y_query[:80])


@pytest.fixture(scope="module")
def less(few):
    """100 of these digits to learn from, and the queries."""
    return Bunch(X=few.X[:100], y=few.y[:100], X_query=few.X_query, y_query=few.y_query)


@pytest.fixture(scope="module")
def fitted(few):
    """A fitted hasher of each class, as bytes: a test that changes it has its own copy."""

    @cache
    def fit(Hasher):
        return pickle.dumps(quick(Hasher.__name__).fit(few.X, few.y))

    return lambda make: pickle.loads(fit(type(make())))


@pytest.fixture(scope="module")
def tiny_on_less(less):
    """A tiny hasher of each class, fitted to the 100 digits."""
    return cache(lambda make: make(**TINY).fit(less.X, less.y))


@parametrize_with_checks([tiny(name) for name in HASHERS])
def test_passes_every_check_of_sklearn(estimator, check):
    check(estimator)


@pytest.mark.filterwarnings("ignore:X (has|does not have valid) feature names")  # some checks mix frames and arrays
@pytest.mark.parametrize("check", [*MORE_CHECKS, "check_param_validation"])  # the last one, for constraints of all
@every_hasher
def test_passes_the_checks_that_sklearn_leaves_out(make, check):
    name = type(make()).__name__
    getattr(estimator_checks, check)(name, tiny(name))


@pytest.mark.filterwarnings("ignore:X (has|does not have valid) feature names")
@pytest.mark.parametrize("check", REPEATED_CHECKS)
@pytest.mark.parametrize(
    "name",
    [  # of one shallow hasher and of one deep one; of all others with the slow tests
        pytest.param(name, marks=() if name in ("ITQHasher", "TALRHasher") else pytest.mark.slow) for name in HASHERS
    ],
)
def test_passes_the_checks_that_repeat_others(name, check):
    getattr(estimator_checks, check)(name, tiny(name))


@pytest.mark.parametrize("check", CHECKS)
@every_hasher
def test_passes_every_check_of_skhash(make, check):
    check(make(**TINY))


@pytest.mark.parametrize("nbits", [1, 70])  # 70: more than there are features
@every_hasher
def test_codes(make, few, nbits):
    check_codes(make(nbits=nbits, **TINY), few.X[:84], few.y[:84])


@every_hasher
def test_more_bits_than_samples(make, few):
    chosen = np.argsort(few.y, kind="stable")[[0, 1, -2, -1]]
    hasher = make(nbits=13).fit(few.X[chosen], few.y[chosen])
    assert hasher.transform(few.X).shape == (len(few.X), 13)


@every_hasher
def test_random_state_alone_decides(make, few):
    X, y = few.X[:80, 20:24], few.y[:80]  # fewer features than bits: PCA draws at random as well
    make = partial(make, nbits=6, **TINY)
    first, again = (make().fit(X, y) for _ in range(2))
    for hasher in (first, again):
        for entry in getattr(hasher, "history_", []):
            entry.pop("seconds", None)
    assert joblib.hash(first) == joblib.hash(again)
    if hasattr(first, "random_state"):
        other = make(random_state=1).fit(X, y)
        assert (first.transform(X) != other.transform(X)).any()


@every_hasher
def test_without_a_seed_numpy_alone_gives_one(make, few):
    (torch_before, _, python_before) = global_states()
    np.random.seed(0)  # noqa: NPY002 - with other seeds NSH warns that one epoch is too short
    make(**TINY, random_state=None).fit(few.X[:80], few.y[:80]).transform(few.X[:80])
    (torch_after, _, python_after) = global_states()
    assert (torch_after, python_after) == (torch_before, python_before)


def parts(value):
    """All objects inside a value."""
    yield value
    if isinstance(value, dict):
        children = [*value.keys(), *value.values()]
    elif isinstance(value, list | tuple | set):
        children = list(value)
    else:
        children = list(getattr(value, "__dict__", {}).values())
    for child in children:
        yield from parts(child)


@every_hasher
def test_fitted_state_is_plain_data(make, fitted, few):
    hasher = fitted(make)
    hasher.transform(few.X)  # fills a cache
    types = {type(part) for part in parts(hasher.__getstate__())}
    assert [t for t in types if t.__module__.split(".")[0] in ("torch", "numba", "cvxpy")] == []
    assert not types & {FunctionType, MethodType}


@pytest.mark.parametrize(
    "refit",
    [
        pytest.param(lambda hasher, X, y: hasher.fit(X[:, :5], y[1:]), id="y of another length"),
        pytest.param(lambda hasher, X, y: hasher.fit(X[:, :5] * np.nan, y), id="NaN"),
        pytest.param(lambda hasher, X, y: hasher.set_params(nbits=0).fit(X[:, :5], y), id="nbits=0"),
        pytest.param(lambda hasher, X, y: hasher.set_callbacks(StopAfter(1)).fit(X[:, :5], y), id="Ctrl-C"),
    ],
)
@every_hasher
def test_a_failed_refit_keeps_the_last_fit(make, fitted, few, refit):
    hasher = fitted(make)
    before = {name: value for name, value in vars(hasher).items() if name.endswith("_") or name == "_nbits"}
    codes, score = hasher.encode(few.X_query), hasher.score(few.X_query, few.y_query)
    with pytest.raises((ValueError, KeyboardInterrupt)):
        refit(hasher, few.X[::-1], few.y[::-1])
    assert_array_equal(hasher.encode(few.X_query), codes)
    assert hasher.score(few.X_query, few.y_query) == score
    assert all(vars(hasher)[name] is value for name, value in before.items())
    assert "_callback_fit_ctx" not in vars(hasher)


@every_hasher
def test_an_interrupted_first_fit(make, few):
    hasher = make()
    with pytest.raises(KeyboardInterrupt):
        hasher.set_callbacks(StopAfter(1)).fit(few.X, few.y)
    if hasattr(hasher, "n_epochs"):  # a deep one keeps its best epoch
        assert hasher.n_epochs_ == 1
        assert hasher.score(few.X_query, few.y_query) > 0.15
    else:
        assert [name for name in vars(hasher) if name.endswith("_")] == []
    assert "_callback_fit_ctx" not in vars(hasher)


@pytest.mark.parametrize("kind", ["float32", "memmap", "DataFrame", "list", "Fortran order"])
@every_hasher
def test_kinds_of_input(make, tiny_on_less, less, kind, tmp_path):
    def memmap(X):
        path = tmp_path / f"{len(X)}.npy"
        np.save(path, X)
        return np.load(path, mmap_mode="r")

    convert = {
        "float32": np.float32,
        "memmap": memmap,
        "DataFrame": lambda X: pd.DataFrame(X, columns=[f"pixel{i}" for i in range(X.shape[1])]),
        "list": np.ndarray.tolist,
        "Fortran order": np.asfortranarray,
    }[kind]
    expected = tiny_on_less(make)
    hasher = make(**TINY).fit(convert(less.X), less.y)
    if kind in ("float32", "Fortran order"):  # sums may round differently, and an optimum may then differ, too
        assert hasher.score(convert(less.X_query), less.y_query) == pytest.approx(
            expected.score(less.X_query, less.y_query), abs=0.1
        )
    else:
        assert_array_equal(hasher.transform(convert(less.X_query)), expected.transform(less.X_query))


@every_hasher
def test_inside_a_pipeline(make, few):
    pipeline = make_pipeline(StandardScaler(), make(nbits=6, **TINY)).set_output(transform="pandas")
    codes = pipeline.fit(few.X, few.y).transform(few.X_query)
    assert isinstance(codes, pd.DataFrame)
    assert list(codes.columns) == list(pipeline[-1].get_feature_names_out())
    assert set(codes.dtypes) == {np.dtype("uint8")}
    assert 0 < pipeline.score(few.X_query, few.y_query) <= 1
    assert_array_equal(pack(codes), pipeline[-1].encode(pipeline[:-1].transform(few.X_query)))


@every_hasher
def test_a_classifier_downstream(make, few):
    pipeline = make_pipeline(make(nbits=16), KNeighborsClassifier(metric="hamming"))
    assert pipeline.fit(few.X, few.y).score(few.X_query, few.y_query) > 0.45


@every_hasher
def test_cross_validation_without_a_scorer(make, few):
    scores = cross_val_score(make(), few.X, few.y, cv=2)
    assert (scores > 0.15).all()


@every_hasher
def test_documents_itself(make):
    Hasher = type(make())
    for name in inspect.signature(Hasher).parameters:
        assert f"\n    {name} : " in Hasher.__doc__
    assert "References" in Hasher.__doc__
    assert "Examples" in Hasher.__doc__


def test_fits_in_threads_give_the_codes_of_fits_in_a_row(digits):
    """The generators that torch draws from belong to the process: fits must take turns."""
    hasher = TALRHasher(nbits=16, n_epochs=3, random_state=0)

    def codes():
        return clone(hasher).fit(digits.X, digits.y).encode(digits.X_query)

    for threaded in joblib.Parallel(n_jobs=2, backend="threading")(joblib.delayed(codes)() for _ in range(3)):
        assert_array_equal(threaded, codes())
