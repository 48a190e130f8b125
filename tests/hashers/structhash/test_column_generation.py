"""Column generation: what StructHash and CGHash have in common."""

import pickle
from functools import partial
from operator import attrgetter

import cvxpy
import numpy as np
import pytest
from _helpers import assert_same_hasher, cghash, history_of, structhash
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from skhash import CGHashHasher, StructHashHasher
from skhash.affinity import DistanceAffinity, PrecomputedAffinity
from skhash.callbacks import RetrievalMonitor
from skhash.metrics import average_precision, relevance_histogram
from skhash.persistence import load, save

each_hasher = pytest.mark.parametrize("make", [structhash, cghash], ids=["structhash", "cghash"])
FAMILIES = ["kernel", "linear", "stump", "trees", LogisticRegression(C=0.01)]
FAMILY_IDS = [*FAMILIES[:-1], "logistic"]
each_family = pytest.mark.parametrize("family", FAMILIES, ids=FAMILY_IDS)


def assert_same_fit(a, b, X):
    assert history_of(a) == history_of(b)
    for name in ("bit_weights_", "bit_weights_path_", "effective_bits_", "C_", "optimal_", "database_.codes.rows"):
        assert_array_equal(attrgetter(name)(a), attrgetter(name)(b))
    assert_array_equal(a.encode(X), b.encode(X))


# --- prefix


@pytest.mark.parametrize(
    ("make", "family"),
    [(structhash, "kernel"), (cghash, "linear"), (structhash, "stump"), (cghash, "trees"), (structhash, FAMILIES[-1])],
    ids=FAMILY_IDS,
)
def test_prefix_gives_what_fewer_bits_would_have_been(few, fitted, make, family):
    longer = fitted(make, family)
    before = pickle.dumps(longer)
    shorter, short = longer.prefix(2), make(nbits=2, hash_function=family).fit(few.X, few.y)
    assert pickle.dumps(longer) == before
    assert_same_fit(shorter, short, few.X_query)
    assert shorter.get_params().keys() == short.get_params().keys()
    assert shorter.nbits == 2
    assert_array_equal(shorter.database_.y, short.database_.y)
    assert shorter.score(few.X_query, few.y_query) == short.score(few.X_query, few.y_query)
    assert_array_equal(longer.prefix(4).encode(few.X), longer.encode(few.X))


def test_prefix_without_a_stored_database(few):
    hasher = cghash(hash_function="stump", nbits=2, store_database=False).fit(few.X, few.y)
    assert hasher.database_ is None
    assert hasher.prefix(1).database_ is None


# --- the end of the search


@pytest.mark.parametrize("family", ["linear", "stump"])
def test_the_search_ends_if_no_bit_improves(family):
    X, y = (part[::2] for part in load_iris(return_X_y=True))
    hasher = structhash(nbits=12, hash_function=family).fit(X, y)
    n = len(hasher.history_)
    assert n < 12
    assert hasher.optimal_
    assert not hasher.bit_weights_[n:].any()
    assert hasher.bit_weights_path_.shape == (12, 12)
    assert_array_equal(hasher.bit_weights_path_[n - 1 :], [hasher.bit_weights_] * (13 - n))
    bits = hasher.transform(X)
    assert bits.shape == (len(X), 12)
    assert (bits[:, n:] == 1).all()
    assert (bits[:, :n].min(axis=0) < bits[:, :n].max(axis=0)).all()
    assert hasher.prefix(n + 1).optimal_
    assert not hasher.prefix(n).optimal_
    assert hasher.prefix(n).score(X, y) == hasher.score(X, y) > 0.8


# --- errors before and during the fit


@each_hasher
def test_an_unknown_solver_is_an_error_before_any_work(make):
    with pytest.raises(ValueError, match=r"`solver` must be an installed one of .*HIGHS.*\. Got 'NONE' instead"):
        make(solver="NONE").fit(np.ones((8, 3)), [0, 0, 0, 0, 1, 1, 1, 1])  # samples without a useful bit


@each_hasher
def test_equal_samples_are_an_error(make):
    with pytest.raises(ValueError, match=r"`X` must .* Got no bit that brings relevant samples nearer"):
        make(hash_function="stump").fit(np.ones((8, 3)), [0, 0, 0, 0, 1, 1, 1, 1])


@each_hasher
def test_a_c_too_small_for_the_first_bit_is_an_error(few, fitted, make):
    smallest = fitted(make, "stump").C_ / (15 if make is structhash else 4)  # as the docs say
    with pytest.raises(ValueError, match=r"`C` must be well above \d.*, or the first bit has weight 0\. Got \d"):
        make(hash_function="stump", C=0.999 * smallest).fit(few.X, few.y)


# --- what is learned from


@each_hasher
def test_score_ranks_by_weighted_distances(few, fitted, make):
    # the first four weights of CGHash are equal
    hasher = fitted(make, "linear") if make is structhash else cghash(nbits=12).fit(few.X, few.y)
    codes = hasher.transform(few.X_query), hasher.transform(few.X)
    weighted = relevance_histogram(*codes, few.y_query, few.y, bit_weights=hasher.bit_weights_)
    plain = relevance_histogram(*codes, few.y_query, few.y)
    assert hasher.score(few.X_query, few.y_query) == average_precision(weighted) != average_precision(plain)


def test_equivalent_affinities_give_the_same_codes(few):
    make = partial(cghash, nbits=1, hash_function="linear")
    codes = make().fit(few.X, few.y).transform(few.X)
    one_hot = np.eye(10, dtype=int)[few.y]
    for affinity, targets in [
        ("auto", one_hot),
        ("auto", sparse.csr_array(one_hot)),
        (PrecomputedAffinity(few.y[:, None] == few.y), np.arange(80)),
        (lambda a, b: 3.5 * (a[:, None] == b), few.y),
    ]:
        assert_array_equal(make(affinity=affinity).fit(few.X, targets).transform(few.X), codes)


@pytest.mark.filterwarnings("ignore:.* queries (have|lack)")
def test_several_labels_per_sample(few):
    labels = np.column_stack([few.y % 2 == 0, few.y % 2 == 1, few.y < 5, few.y == 3]).astype(int)
    dense, csr = (
        cghash(nbits=2, hash_function="linear").fit(few.X, y).encode(few.X) for y in (labels, sparse.csr_matrix(labels))
    )
    assert_array_equal(dense, csr)


@pytest.mark.filterwarnings("ignore:.* queries (have|lack)")
def test_a_distance_affinity_needs_no_targets(few):
    hasher, again = (cghash(nbits=2, affinity=DistanceAffinity((15,), (1,))).fit(few.X, y) for y in (None, few.X))
    assert_array_equal(hasher.encode(few.X_query), again.encode(few.X_query))
    assert 0.3 < hasher.score(few.X_query) <= 1


def test_float32_samples_are_hashed_as_float64(few):
    X = few.X.astype(np.float32)
    for family in ("kernel", "linear", "stump"):
        hasher = cghash(nbits=2, hash_function=family).fit(X, few.y)
        assert_array_equal(hasher.database_.codes.rows, hasher.encode(X))
        assert_array_equal(hasher.transform(X), hasher.transform(X.astype(np.float64)))


def test_grid_search_over_c_in_a_pipeline(few):
    pipeline = make_pipeline(StandardScaler(), cghash(nbits=1, hash_function="linear"))
    folds = StratifiedKFold(2, shuffle=True, random_state=0)
    search = GridSearchCV(pipeline, {"cghashhasher__C": [1.0, 10.0]}, cv=folds, error_score="raise")
    search.fit(few.X, few.y % 3)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.best_params_["cghashhasher__C"] == search.best_estimator_[-1].C_
    assert search.score(few.X_query, few.y_query % 3) > 0.3


# --- copies


@each_family
@each_hasher
def test_pickled_hashers_are_equal(few, fitted, make, family):
    hasher = fitted(make, family)
    again = pickle.loads(pickle.dumps(hasher))
    assert_array_equal(again.project(few.X_query), hasher.project(few.X_query))
    assert again.score(few.X_query, few.y_query) == hasher.score(few.X_query, few.y_query)
    assert_array_equal(again.prefix(1).encode(few.X), hasher.prefix(1).encode(few.X))


@pytest.mark.parametrize("family", ["kernel", "linear", "stump"])
@each_hasher
def test_saved_hashers_are_equal(few, fitted, make, family, tmp_path):
    hasher = fitted(make, family)
    save(hasher, tmp_path / "hasher")
    loaded = load(tmp_path / "hasher")
    assert_same_hasher(loaded, hasher, few.X_query, few.y_query)
    assert_array_equal(loaded.prefix(1).encode(few.X), hasher.prefix(1).encode(few.X))


@pytest.mark.parametrize("family", FAMILIES[3:], ids=["trees", "logistic"])
def test_hashers_with_classifiers_cannot_be_saved(fitted, family, tmp_path):
    with pytest.raises(TypeError, match=r"(function_|hash_function)"):
        save(fitted(structhash, family), tmp_path / "hasher")
    assert list(tmp_path.iterdir()) == []


# --- callbacks


@each_hasher
def test_a_monitor_scores_every_bit(few, fitted, make):
    monitor = RetrievalMonitor(few.X_query, few.y_query)
    hasher = make(hash_function="linear").set_callbacks(monitor).fit(few.X, few.y)
    scores = [hasher.prefix(m).score(few.X_query, few.y_query) for m in range(1, 5)]
    assert [entry["score"] for entry in monitor.log_] == scores
    assert_same_fit(hasher, fitted(make, "linear"), few.X)


def test_bits_after_an_early_stop_have_no_weight(few, fitted):
    scores = iter([0.5, 0.6, 0.4])
    monitor = RetrievalMonitor(few.X, few.y, scoring=lambda *_: next(scores), patience=1)
    hasher = cghash(nbits=8, hash_function="linear").set_callbacks(monitor).fit(few.X, few.y)
    assert len(monitor.log_) == len(hasher.history_) == 3
    assert not hasher.bit_weights_[3:].any()
    assert not hasher.optimal_
    assert (hasher.transform(few.X_query)[:, 3:] == 1).all()
    assert_array_equal(hasher.bit_weights_[:3], fitted(cghash, "linear").prefix(3).bit_weights_)


def test_an_interrupted_refit_keeps_the_last_fit(few, fitted):
    def interrupt(hasher, X, y):
        if len(hasher.history_) == 2:
            raise KeyboardInterrupt
        return 0.0

    hasher = pickle.loads(pickle.dumps(fitted(structhash, "stump")))
    before = {name: value for name, value in vars(hasher).items() if name.endswith("_")}
    hasher.set_callbacks(RetrievalMonitor(few.X, few.y, scoring=interrupt))
    with pytest.raises(KeyboardInterrupt):
        hasher.fit(few.X[::-1], few.y[::-1])
    assert all(vars(hasher)[name] is value for name, value in before.items())
    assert_array_equal(hasher.encode(few.X), fitted(structhash, "stump").encode(few.X))


# --- random numbers


@pytest.mark.parametrize("family", ["kernel", "stump", FAMILIES[-1]], ids=["kernel", "stump", "logistic"])
def test_the_same_seed_gives_the_same_fit_on_one_thread_or_several(few, fitted, family):
    state = pickle.dumps(np.random.get_state())  # noqa: NPY002
    with threadpool_limits(3, user_api="openmp"):
        again = structhash(nbits=2, hash_function=family).fit(few.X, few.y)
    assert_same_fit(again, fitted(structhash, family).prefix(2), few.X_query)
    assert pickle.dumps(np.random.get_state()) == state  # noqa: NPY002


def test_a_pipeline_as_classifier_draws_from_random_state(few):
    classifier = make_pipeline(StandardScaler(), SGDClassifier(max_iter=5, tol=None))
    state = pickle.dumps(np.random.get_state())  # noqa: NPY002
    cghash(nbits=2, hash_function=classifier).fit(few.X, few.y)
    assert pickle.dumps(np.random.get_state()) == state  # noqa: NPY002


@pytest.mark.parametrize("Hasher", [StructHashHasher, CGHashHasher])
def test_codes_do_not_depend_on_the_order_in_memory(Hasher):
    X = np.random.default_rng(0).standard_normal((1300, 24)).astype(np.float32)
    X[:, 3] *= 50
    y = 2 * (X[:, 0] > 0) + (X[:, 1] > 0)
    by_features = np.asfortranarray(X)  # as in a data frame
    codes = (Hasher(8, random_state=0).fit(samples, y).encode(X) for samples in (X, by_features))
    assert_array_equal(*codes)


# --- the solver


@each_hasher
def test_clarabel_takes_over_from_a_solver_that_fails(few, fitted, make, monkeypatch):
    working, expected = cvxpy.Problem.solve, fitted(make, "stump")

    def fail_or_solve(problem, solver):
        if solver == "HIGHS":
            raise cvxpy.SolverError("HIGHS gave up.\nMore details")
        return working(problem, solver=solver)

    monkeypatch.setattr(cvxpy.Problem, "solve", fail_or_solve)
    with pytest.warns(UserWarning, match=r"solved by CLARABEL instead: HIGHS ended with status 'HIGHS gave up\.'"):
        hasher = make(nbits=1, hash_function="stump").fit(few.X, few.y)
    assert hasher.bit_weights_[0] == pytest.approx(expected.bit_weights_path_[0, 0], rel=0.05)
    monkeypatch.setattr(cvxpy.Problem, "solve", lambda problem, solver: fail_or_solve(problem, "HIGHS"))
    with pytest.raises(RuntimeError, match=r"HIGHS ended with .*CLARABEL ended with .*gave up.*Try another solver"):
        make(nbits=1, hash_function="stump").fit(few.X, few.y)
