"""StructHash: hash functions that maximise a sum of pairs, and the hasher made of them."""

import functools
import pickle
from functools import partial
from types import SimpleNamespace

import numba
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.optimize import check_grad
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import Bunch
from test_persistence import assert_same_hasher

from skhash import StructHashHasher
from skhash.affinity import DistanceAffinity
from skhash.callbacks import RetrievalMonitor
from skhash.codes import binarize
from skhash.hashers.structhash import estimator
from skhash.hashers.structhash.estimator import best_new_bit
from skhash.hashers.structhash.functions import (
    ClassifierFunctions,
    KernelFunctions,
    LinearFunctions,
    StumpFunctions,
    descend,
    symmetric,
)
from skhash.hashers.structhash.lists import draw_lists
from skhash.hashers.structhash.losses import LOSSES, ap_gain
from skhash.hashers.structhash.master import Master
from skhash.hashers.structhash.oracles import RankingOracle
from skhash.metrics import average_precision, ndcg, relevance_histogram
from skhash.persistence import load, save

quick = partial(StructHashHasher, nbits=4, n_relevant=4, n_irrelevant=4, tol=0.01, random_state=0)
logistic = LogisticRegression(C=0.01)
every_family = pytest.mark.parametrize(
    "family", ["kernel", "linear", "stump", "trees", pytest.param(logistic, id="logistic")]
)


@pytest.fixture(scope="module")
def few(digits):
    return Bunch(X=digits.X[:80], y=digits.y[:80], X_query=digits.X_query[:60], y_query=digits.y_query[:60])


@pytest.fixture(scope="module")
def fitted(few):
    """Four bits of a family, fitted once."""
    return functools.cache(lambda family: quick(hash_function=family).fit(few.X, few.y))


def pairs(n=40, seed=0, density=0.3):
    """A pair matrix, as sparse and as lopsided as those of the master."""
    rng = np.random.RandomState(seed)
    return sparse.csr_array(sparse.random(n, n, density, random_state=rng, data_rvs=rng.standard_normal))


def gain_of(A, bits):
    """The sum of A_ij |h_i - h_j|."""
    h = np.asarray(bits, dtype=float)
    return (A.toarray() * np.abs(h[:, None] - h)).sum()


def families(X, rng):
    return {
        "linear": LinearFunctions(X, 0.1, 3),
        "kernel": KernelFunctions(X, 0.1, 3, 15, None, rng),
        "stump": StumpFunctions(X),
        "classifier": ClassifierFunctions(X, logistic, 3),
    }


each_kind = pytest.mark.parametrize("kind", ["linear", "kernel", "stump", "classifier"])


def gaussian(n=40, n_features=5, seed=0):
    return np.random.RandomState(seed).standard_normal((n, n_features))


# --- hash functions


@each_kind
def test_functions_give_the_bits_that_were_proposed(kind):
    X = gaussian()
    for seed in range(5):
        rng = np.random.RandomState(seed)
        functions = families(X, rng)[kind]
        proposed = list(functions.propose(pairs(seed=seed), rng))
        activations = functions.activations(functions.collect([found for _, found in proposed]), X)
        assert_array_equal(binarize(activations), np.stack([bits for bits, _ in proposed], axis=1))


def test_functions_of_rows_without_full_rank_give_the_bits_that_were_proposed():
    for seed in range(30):
        rng = np.random.RandomState(seed)
        X = rng.randint(0, 2, (30, 2)).astype(float)  # four kinds of rows, ten anchors
        functions = KernelFunctions(X, 0.1, 2, 10, None, rng)
        for bits, found in functions.propose(pairs(30, seed), rng):
            assert_array_equal(binarize(functions.activations(functions.collect([found]), X))[:, 0], bits)


@each_kind
def test_the_generator_alone_decides(kind):
    X, A = gaussian(), pairs()
    first, again = (
        list(families(X, rng)[kind].propose(A, rng)) for rng in (np.random.RandomState(1), np.random.RandomState(1))
    )
    assert len(first) == len(again) > 0
    for (a, found), (b, found_again) in zip(first, again, strict=True):
        assert_array_equal(a, b)
        assert pickle.dumps(found) == pickle.dumps(found_again)


@each_kind
def test_more_starts_propose_no_fewer(kind):
    X, A = gaussian(), pairs()
    functions = families(X, np.random.RandomState(0))[kind]
    few, many = (
        max(gain_of(A, bits) for bits, _ in functions.propose(A, np.random.RandomState(0), more)) for more in (1, 5)
    )
    assert many >= few


@pytest.mark.parametrize("kind", ["linear", "kernel"])
def test_the_search_beats_random_functions(kind):
    X, A = gaussian(n=200), pairs(200, density=0.05)
    rng = np.random.RandomState(0)
    functions = families(X, rng)[kind]
    best = max(gain_of(A, bits) for bits, _ in functions.propose(A, rng))
    by_chance = [gain_of(A, X @ direction >= 0) for direction in rng.standard_normal((200, 5))]
    assert best > max(by_chance)


def stump_data(seed):
    """Features with many ties, without any, of neighbouring floats, of one value, of huge and of tiny ones."""
    rng = np.random.RandomState(seed)
    near = 1 + np.finfo(float).eps * rng.randint(0, 4, 30)
    huge, tiny = rng.choice([-1e300, 0, 1e300], 30), rng.choice([0, 5e-324, 1e-323], 30)
    return np.column_stack([rng.randint(0, 4, 30), rng.standard_normal(30), near, np.full(30, 7.0), huge, tiny])


@pytest.mark.parametrize("only", [slice(None), [0], [1], [2], [3, 4], [5]])
def test_the_stump_is_the_best_of_all(only):
    n_tried = 0
    for seed in range(15):
        X, A = stump_data(seed)[:, only], pairs(30, seed)
        best = max(gain_of(A, x >= value) for x in X.T for value in np.unique(x)[1:])
        if best > 0:
            functions = StumpFunctions(X)
            bits, found = next(functions.propose(A, None))
            assert gain_of(A, bits) == pytest.approx(best, abs=1e-12)
            assert_array_equal(binarize(functions.activations(functions.collect([found]), X))[:, 0], bits)
            n_tried += 1
    assert n_tried > 5


def test_a_threshold_is_halfway_between_two_values():
    X = np.array([[0.0], [1.0], [3.0]])
    A = sparse.csr_array(np.diag([1.0], 2) + np.diag([-1.0, 1.0], 1))
    _, found = next(StumpFunctions(X).propose(A, None))
    assert found == {"feature": 0, "threshold": 2.0}


def test_the_best_new_stump_is_found():
    X, A = gaussian(), pairs()
    stumps = np.array([x >= value for x in X.T for value in np.unique(x)[1:]])
    gains = [gain_of(A, h) for h in stumps]
    order = np.argsort(gains)
    known = 2.0 * stumps[order[-1:]].T - 1
    gain, bits, _ = best_new_bit(StumpFunctions(X), A, known, np.random.RandomState(0))
    assert gain == pytest.approx(gains[order[-2]])
    assert_array_equal(bits, stumps[order[-2]])


def objective(A, bits):
    s = 2.0 * np.asarray(bits) - 1
    return s @ (A @ s)


def test_no_flip_improves_where_the_descent_ends():
    for seed in range(20):
        rng = np.random.RandomState(seed)
        A = symmetric(pairs(12, seed, density=0.5))
        A += sparse.diags_array(rng.standard_normal(12))
        start = rng.randint(0, 2, 12).astype(np.uint8)
        end = descend(A.tocsr(), start.copy())
        assert end.dtype == np.uint8
        assert objective(A, end) <= objective(A, start) + 1e-12
        for i in range(12):
            flipped = end.copy()
            flipped[i] ^= 1
            assert objective(A, flipped) >= objective(A, end) - 1e-9


def test_the_descent_ends_at_the_best_of_all_from_some_start():
    A = symmetric(pairs(6, 3, density=0.8)).tocsr()
    starts = (np.arange(64)[:, None] >> np.arange(6) & 1).astype(np.uint8)
    best = min(objective(A, bits) for bits in starts)
    assert min(objective(A, descend(A, start)) for start in starts) == pytest.approx(best)


def test_the_descent_stays_where_nothing_is_to_gain():
    start = np.array([0, 1, 1], dtype=np.uint8)
    assert_array_equal(descend(sparse.csr_array((3, 3)), start), start)


def test_gradient_of_the_relaxed_objective():
    functions, A = LinearFunctions(gaussian(), 0.1, 2), symmetric(pairs())
    for seed in range(3):
        v = np.random.RandomState(seed).standard_normal(6)
        error = check_grad(
            lambda v: functions._relaxed(v, A)[0], lambda v: functions._relaxed(v, A)[1], v, epsilon=1e-6
        )
        assert error < 1e-4 * np.linalg.norm(functions._relaxed(v, A)[1])
        far = functions._relaxed(1e9 * v, A)[0]
        bits = binarize(functions._Z @ v[:-1] + v[-1])
        assert far == pytest.approx(objective(A, bits))


def test_linear_functions_do_not_depend_on_where_the_features_are():
    X, A = gaussian(), pairs()
    here, there = (LinearFunctions(rows, 0.1, 3).propose(A, np.random.RandomState(0)) for rows in (X, X + 100))
    for (a, _), (b, _) in zip(here, there, strict=True):
        assert min(np.mean(a != b), np.mean(a == b)) < 0.1  # rounding may turn an eigenvector, and L-BFGS


def proposing(*bits):
    candidates = [(np.array(b, dtype=np.uint8), {"number": i}) for i, b in enumerate(bits)]
    return SimpleNamespace(propose=lambda A, rng, more=1: iter(candidates), best_first=False)


def test_no_bit_is_taken_that_is_there_or_constant():
    A = pairs(4, density=0.9)
    there, complement, zeros, ones, new = [0, 1, 1, 0], [1, 0, 0, 1], [0] * 4, [1] * 4, [0, 0, 0, 1]
    known = 2.0 * np.array([there]).T - 1
    gain, bits, found = best_new_bit(proposing(there, complement, zeros, ones, new), A, known, None)
    assert_array_equal(bits, new)
    assert found == {"number": 4}
    assert gain == pytest.approx(gain_of(A, new))
    assert best_new_bit(proposing(there, complement, zeros, ones), A, known, None) == (-np.inf, None, None)


def test_the_best_of_the_new_bits_is_taken():
    A = pairs(6, 1, density=0.9)
    candidates = np.random.RandomState(0).randint(0, 2, (8, 6))
    gain, bits, _ = best_new_bit(proposing(*candidates), A, np.zeros((6, 0)), None)
    assert gain == pytest.approx(max(gain_of(A, bits) for bits in candidates))
    assert gain == pytest.approx(gain_of(A, bits))


def test_more_starts_are_tried_only_where_no_bit_is_enough():
    asked = []

    def propose(A, rng, more=1):
        asked.append(more)
        yield np.array([0, 1], dtype=np.uint8), {}

    A = sparse.csr_array([[0.0, 1.5], [0.0, 0.0]])
    for enough in (1.0, 2.0):
        best_new_bit(SimpleNamespace(propose=propose, best_first=False), A, np.zeros((2, 0)), None, enough)
    assert asked == [1, 1, estimator.MORE_STARTS]


# --- the hasher


def history_of(hasher):
    return [{name: value for name, value in entry.items() if name != "seconds"} for entry in hasher.history_]


@every_family
def test_every_bit_is_worth_it_and_its_weights_are_optimal(few, fitted, family):
    hasher = fitted(family)
    assert [entry["bit"] for entry in hasher.history_] == [1, 2, 3, 4]
    for m, entry in enumerate(hasher.history_, 1):
        weights = hasher.bit_weights_path_[m - 1]
        assert entry["column_gain"] > 1
        assert entry["loss"] - entry["xi"] <= 0.01
        assert entry["violation"] == pytest.approx(entry["loss"] - entry["xi"])
        assert entry["bound"] <= entry["objective"]
        assert entry["gap"] == pytest.approx(entry["objective"] - entry["bound"])
        assert entry["gap"] <= hasher.C_ * 0.01
        assert entry["objective"] == pytest.approx(weights.sum() + hasher.C_ * entry["loss"])
        assert (weights[:m] >= 0).all()
        assert not weights[m:].any()
        assert entry["effective_bits"] == pytest.approx(weights.sum() ** 2 / (weights**2).sum())
        assert entry["n_nonzero"] == (weights > 1e-6 * weights.max()).sum()
    assert (np.diff([entry["objective"] for entry in hasher.history_]) <= 0).all()
    assert_array_equal(hasher.bit_weights_, hasher.bit_weights_path_[-1])
    assert not hasher.optimal_
    assert hasher.score(few.X_query, few.y_query) > 0.4


@every_family
def test_truncated_is_what_fewer_bits_would_have_been(few, fitted, family):
    longer = fitted(family)
    before = pickle.dumps(longer)
    shorter, short = longer.truncate(2), quick(nbits=2, hash_function=family).fit(few.X, few.y)
    assert pickle.dumps(longer) == before
    assert history_of(shorter) == history_of(short)
    assert shorter.get_params().keys() == short.get_params().keys()
    assert shorter.nbits == 2
    for name in ("bit_weights_", "bit_weights_path_", "effective_bits_", "C_", "optimal_"):
        assert_array_equal(getattr(shorter, name), getattr(short, name))
    for name in ("database_codes_", "database_y_"):
        assert_array_equal(getattr(shorter, name), getattr(short, name))
    assert_array_equal(shorter.encode(few.X_query), short.encode(few.X_query))
    assert shorter.score(few.X_query, few.y_query) == short.score(few.X_query, few.y_query)
    assert longer.truncate(4).encode(few.X).tolist() == longer.encode(few.X).tolist()


@pytest.mark.parametrize("nbits", [0, 5, 2.0, True, None])
def test_only_as_many_bits_as_there_are(fitted, nbits):
    with pytest.raises(ValueError, match=r"nbits=.*; an integer from 1 to 4 is wanted"):
        fitted("stump").truncate(nbits)


def test_what_is_not_fitted_cannot_be_truncated():
    with pytest.raises(NotFittedError):
        quick().truncate(2)


def test_without_a_database_there_is_none_to_truncate(few):
    hasher = quick(hash_function="stump", store_database=False).fit(few.X, few.y)
    assert hasher.database_codes_ is None
    assert hasher.truncate(2).database_codes_ is None


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return Bunch(X=X[::2], y=y[::2])


@every_family
def test_the_search_ends_where_no_bit_improves(iris, family):
    hasher = quick(nbits=12, hash_function=family).fit(iris.X, iris.y)
    n = len(hasher.history_)
    assert n < 12
    assert hasher.optimal_
    assert not hasher.bit_weights_[n:].any()
    assert hasher.bit_weights_path_.shape == (12, 12)
    assert_array_equal(hasher.bit_weights_path_[n - 1 :], [hasher.bit_weights_] * (13 - n))
    bits = hasher.transform(iris.X)
    assert bits.shape == (len(iris.X), 12)
    assert (bits[:, n:] == 1).all()
    assert (bits[:, :n].min(axis=0) < bits[:, :n].max(axis=0)).all()
    assert hasher.truncate(n + 1).optimal_
    assert not hasher.truncate(n).optimal_
    assert hasher.truncate(n).score(iris.X, iris.y) == hasher.score(iris.X, iris.y) > 0.8


def test_the_end_of_stumps_is_the_optimum_over_all_stumps(iris):
    hasher = quick(nbits=20, hash_function="stump", tol=1e-3).fit(iris.X, iris.y)
    assert hasher.optimal_
    lists = draw_lists(hasher.affinity_, iris.y, 4, 4, len(iris.y), np.random.RandomState(0))
    stumps = np.unique([x >= value for x in iris.X.T for value in np.unique(x)[1:]], axis=0).astype(np.uint8)
    oracle = RankingOracle(lists, LOSSES["ndcg"])
    master = Master(oracle, len(stumps), hasher.C_, 1e-3, 500, "HIGHS")
    for stump in stumps:
        master.add_bit(stump)
    master.optimize()
    assert hasher.history_[-1]["bound"] / (1 + 1e-3) <= master.solution.objective
    assert hasher.history_[-1]["objective"] >= master.solution.bound - 1e-6


def test_a_small_c_is_an_error_that_names_one(few):
    with pytest.raises(ValueError, match=r"C=1e-05 leaves all bit weights at 0; a C well above \d"):
        quick(C=1e-5).fit(few.X, few.y)


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"C": 1.005}, id="C barely enough"),
        pytest.param({"C": 1.3, "max_iter": 1, "tol": 1e-4}, id="too few cuts"),
        pytest.param({"loss": "precision", "k": 8}, id="k = all items"),
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_weights_that_are_all_zero_are_an_error(few, fitted, options):
    if "C" in options:
        options = options | {"C": options["C"] * fitted("stump").C_ / estimator.SLACK}
    with pytest.raises(ValueError):
        quick(hash_function="stump", **options).fit(few.X, few.y)


def test_an_unknown_solver_is_refused_before_any_work(few, monkeypatch):
    monkeypatch.setattr(estimator, "draw_lists", None)
    with pytest.raises(ValueError, match=r"solver='NONE' is not installed; one of .*HIGHS.* is wanted"):
        quick(solver="NONE").fit(few.X, few.y)


def test_rows_that_are_all_equal_are_refused():
    with pytest.raises(ValueError, match="no bit that brings relevant rows nearer"):
        quick(hash_function="stump").fit(np.ones((8, 3)), [0, 0, 0, 0, 1, 1, 1, 1])


@pytest.mark.parametrize("loss", ["ndcg", "ap", "auc", "precision", ap_gain])
def test_score_ranks_by_weighted_distances(few, loss):
    hasher = quick(loss=loss, hash_function="linear").fit(few.X, few.y)
    H = relevance_histogram(
        hasher.transform(few.X_query),
        hasher.transform(few.X),
        few.y_query,
        few.y,
        bit_weights=hasher.bit_weights_,
    )
    metric = ndcg if loss == "ndcg" else average_precision
    assert hasher.score(few.X_query, few.y_query) == metric(H) > 0.35


def test_a_callable_loss_is_the_loss_of_that_name(few):
    named, called = (quick(nbits=2, loss=loss, hash_function="linear").fit(few.X, few.y) for loss in ("ap", ap_gain))
    assert history_of(named) == history_of(called)
    assert_array_equal(named.bit_weights_, called.bit_weights_)


@pytest.mark.parametrize(
    "options",
    [
        {"loss": "ap"},
        {"loss": "auc"},
        {"loss": "precision"},
        {"k": 2},
        {"discount": "log2"},
        {"C": 10.0},
        {"n_relevant": 2},
        {"n_irrelevant": 2},
        {"n_queries": 30},
        {"hash_function": "linear"},
        {"n_anchors": 10},
        {"gamma": 1e-4},
        {"ridge": 10.0},
        {"n_starts": 5},
        {"fully_corrective": False},
        {"tol": 0.1},
    ],
    ids=str,
)
def test_every_option_matters(few, fitted, options):
    hasher = quick(nbits=2, **options).fit(few.X, few.y)
    assert history_of(hasher) != history_of(fitted("kernel").truncate(2))
    assert hasher.score(few.X_query, few.y_query) > 0.2


@pytest.mark.filterwarnings("ignore:.* queries (have|lack)")
def test_rows_alone_teach_a_distance_affinity(few):
    affinity = DistanceAffinity((15,), (1,))
    hasher = quick(nbits=2, affinity=affinity).fit(few.X)
    again = quick(nbits=2, affinity=affinity).fit(few.X, few.X)
    assert_array_equal(hasher.encode(few.X_query), again.encode(few.X_query))
    assert 0.3 < hasher.score(few.X_query) <= 1


def test_labels_may_be_many(few):
    labels = np.column_stack([few.y % 2 == 0, few.y % 2 == 1, few.y < 5, few.y == 3]).astype(int)
    dense, csr = (
        quick(nbits=2, hash_function="linear").fit(few.X, y).encode(few.X) for y in (labels, sparse.csr_matrix(labels))
    )
    assert_array_equal(dense, csr)


def test_a_grid_search_over_c_in_a_pipeline(few):
    pipeline = make_pipeline(StandardScaler(), quick(nbits=2, hash_function="linear"))
    folds = StratifiedKFold(2, shuffle=True, random_state=0)
    search = GridSearchCV(pipeline, {"structhashhasher__C": [10.0, 100.0]}, cv=folds, error_score="raise")
    search.fit(few.X, few.y % 3)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.best_params_["structhashhasher__C"] == search.best_estimator_[-1].C_
    assert search.score(few.X_query, few.y_query % 3) > 0.35


@every_family
def test_copies_by_file_and_by_pickle(few, fitted, family, tmp_path):
    hasher = fitted(family)
    again = pickle.loads(pickle.dumps(hasher))
    assert_array_equal(again.project(few.X_query), hasher.project(few.X_query))
    assert again.score(few.X_query, few.y_query) == hasher.score(few.X_query, few.y_query)
    assert_array_equal(again.truncate(1).encode(few.X), hasher.truncate(1).encode(few.X))
    if family in ("kernel", "linear", "stump"):
        save(hasher, tmp_path / "hasher")
        loaded = load(tmp_path / "hasher")
        assert_same_hasher(loaded, hasher, few.X_query, few.y_query)
        assert_array_equal(loaded.truncate(1).encode(few.X), hasher.truncate(1).encode(few.X))
    else:
        with pytest.raises(TypeError, match=r"(functions_\.classifiers\.0|hash_function) is a sklearn\..*code"):
            save(hasher, tmp_path / "hasher")
        assert list(tmp_path.iterdir()) == []


@pytest.mark.filterwarnings("ignore:.* was saved with loss=")
def test_a_loaded_hasher_scores_as_it_did_before(few, tmp_path):
    hasher = quick(nbits=2, loss=ap_gain, hash_function="stump").fit(few.X, few.y)
    save(hasher, tmp_path / "hasher")
    assert load(tmp_path / "hasher").score(few.X_query, few.y_query) == hasher.score(few.X_query, few.y_query)


def test_a_monitor_sees_every_bit(few, fitted):
    monitor = RetrievalMonitor(few.X_query, few.y_query, scoring="ndcg")
    hasher = quick(hash_function="linear").set_callbacks(monitor).fit(few.X, few.y)
    scores = [hasher.truncate(m).score(few.X_query, few.y_query) for m in range(1, 5)]
    assert [entry["score"] for entry in monitor.log_] == scores
    assert scores[-1] == hasher.score(few.X_query, few.y_query)
    assert_array_equal(hasher.encode(few.X), fitted("linear").encode(few.X))
    assert_array_equal(hasher.bit_weights_, fitted("linear").bit_weights_)


def test_patience_leaves_the_other_bits_without_weight(few, fitted):
    scores = iter([0.5, 0.6, 0.4])
    monitor = RetrievalMonitor(few.X, few.y, scoring=lambda *_: next(scores), patience=1)
    hasher = quick(nbits=8, hash_function="linear").set_callbacks(monitor).fit(few.X, few.y)
    assert len(monitor.log_) == len(hasher.history_) == 3
    assert not hasher.bit_weights_[3:].any()
    assert not hasher.optimal_
    assert (hasher.transform(few.X_query)[:, 3:] == 1).all()
    assert_array_equal(hasher.bit_weights_[:3], fitted("linear").truncate(3).bit_weights_)


def test_an_interrupted_refit_keeps_the_last_fit(few, fitted):
    def interrupt(hasher, X, y):
        if len(hasher.history_) == 2:
            raise KeyboardInterrupt
        return 0.0

    hasher = pickle.loads(pickle.dumps(fitted("stump")))
    before = {name: value for name, value in vars(hasher).items() if name.endswith("_")}
    hasher.set_callbacks(RetrievalMonitor(few.X, few.y, scoring=interrupt))
    with pytest.raises(KeyboardInterrupt):
        hasher.fit(few.X[::-1], few.y[::-1])
    assert all(vars(hasher)[name] is value for name, value in before.items())
    assert_array_equal(hasher.encode(few.X), fitted("stump").encode(few.X))


@pytest.fixture
def two_threads():
    if numba.config.NUMBA_NUM_THREADS < 2:
        pytest.skip("numba was started with one thread")
    before = numba.get_num_threads()
    yield
    numba.set_num_threads(before)


@pytest.mark.parametrize("family", ["kernel", "linear", "stump", logistic])
@pytest.mark.usefixtures("two_threads")
def test_neither_threads_nor_runs_change_a_bit(few, fitted, family):
    first = fitted(family)
    state = pickle.dumps(np.random.get_state())  # noqa: NPY002
    for n_threads in (1, 2):
        numba.set_num_threads(n_threads)
        again = quick(hash_function=family).fit(few.X, few.y)
        assert history_of(again) == history_of(first)
        assert_array_equal(again.encode(few.X_query), first.encode(few.X_query))
        assert_array_equal(again.bit_weights_, first.bit_weights_)
    assert pickle.dumps(np.random.get_state()) == state  # noqa: NPY002


def test_a_pipeline_as_classifier_draws_from_the_given_seed(few):
    classifier = make_pipeline(StandardScaler(), SGDClassifier(max_iter=5, tol=None))
    state = pickle.dumps(np.random.get_state())  # noqa: NPY002
    quick(nbits=2, hash_function=classifier).fit(few.X, few.y)
    assert pickle.dumps(np.random.get_state()) == state  # noqa: NPY002


def test_rows_of_less_precision(few):
    X = few.X.astype(np.float32)
    for family in ("kernel", "linear", "stump"):
        hasher = quick(nbits=2, hash_function=family).fit(X, few.y)
        assert_array_equal(hasher.database_codes_, hasher.encode(X))
        assert_array_equal(hasher.transform(X), hasher.transform(X.astype(np.float64)))


def test_newest_weights_alone_leave_the_others_on_the_path(few):
    hasher = quick(hash_function="linear", fully_corrective=False).fit(few.X, few.y)
    expected = np.tril(np.ones((4, 4))) * hasher.bit_weights_
    assert_allclose(hasher.bit_weights_path_, expected)
    assert (np.diff([entry["objective"] for entry in hasher.history_]) <= 0).all()
