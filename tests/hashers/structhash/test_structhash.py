"""StructHash: the hasher made of hash functions that are found one by one."""

import functools
import pickle
from functools import partial

import numba
import numpy as np
import pytest
from _helpers import assert_same_hasher
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import Bunch

from skhash import StructHashHasher
from skhash.affinity import DistanceAffinity
from skhash.callbacks import RetrievalMonitor
from skhash.hashers._lists import draw_lists
from skhash.hashers.structhash import _columns as columns
from skhash.hashers.structhash import structhash as estimator
from skhash.hashers.structhash._losses import LOSSES, ap_gain
from skhash.hashers.structhash._master import Master
from skhash.hashers.structhash._oracles import RankingOracle
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
    with pytest.raises(ValueError, match=r"C=1e-05 leaves the first bit at weight 0; a C well above \d"):
        quick(C=1e-5).fit(few.X, few.y)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        pytest.param({"C": 1.005}, r"all bits, \d so far, at 0 .* no other bit improves on that", id="C barely enough"),
        pytest.param({"loss": "precision", "k": 8}, "is 0 for reversed rankings", id="k = all items"),
        pytest.param(
            {"k": 1, "nbits": 1}, "all bits, 1 so far, at 0 .* more bits", id="one bit does not settle the first"
        ),
    ],
)
def test_weights_that_are_all_zero_are_an_error(few, fitted, options, match):
    if "C" in options:
        options = options | {"C": options["C"] * fitted("stump").C_ / estimator.SLACK}
    with pytest.raises(ValueError, match=match):
        quick(hash_function="stump", **options).fit(few.X, few.y)


def test_a_stop_before_any_weight_is_told(few):
    monitor = RetrievalMonitor(few.X_query, few.y_query, scoring=lambda *_: 0.5, patience=1)
    with pytest.raises(ValueError, match=r"all bits, 2 so far, .* a callback stopped the fit"):
        quick(k=1, hash_function="stump", nbits=12).set_callbacks(monitor).fit(few.X, few.y)


def test_c_is_scaled_by_the_mildest_of_the_worst_rankings(few):
    whole_list = quick(hash_function="stump").fit(few.X, few.y)
    # one of four irrelevant items on top is all that the loss of the first rank can ask for
    first_rank = quick(k=1, hash_function="stump", nbits=12).fit(few.X, few.y)
    assert pytest.approx(4 * whole_list.C_) == first_rank.C_
    with pytest.raises(ValueError, match="leaves the first bit at weight 0"):
        first_rank.set_params(C=first_rank.C_ / estimator.SLACK / 1.01).fit(few.X, few.y)


def test_stage_wise_ends_only_where_all_weights_leave_nothing_to_improve(iris):
    hasher = quick(nbits=20, hash_function="stump", tol=1e-3, fully_corrective=False).fit(iris.X, iris.y)
    best = quick(nbits=20, hash_function="stump", tol=1e-3).fit(iris.X, iris.y)
    assert hasher.optimal_
    lists = draw_lists(hasher.affinity_, iris.y, 4, 4, len(iris.y), np.random.RandomState(0))
    bits = hasher.transform(iris.X)
    differences = np.stack([lists.differences(bit) for bit in bits.T.astype(np.uint8)], axis=1)
    loss = RankingOracle(lists, LOSSES["ndcg"])(differences, hasher.bit_weights_)[1]
    objective = hasher.bit_weights_.sum() + hasher.C_ * loss
    assert objective <= best.history_[-1]["objective"] + 2e-3 * hasher.C_
    assert {entry["all_weights"] for entry in best.history_} == {True}
    assert not hasher.history_[1]["all_weights"]


def test_with_a_cut_off_the_first_bit_waits_for_others(few):
    monitor = RetrievalMonitor(few.X_query, few.y_query)
    hasher = quick(k=1, hash_function="stump", nbits=12).set_callbacks(monitor).fit(few.X, few.y)
    n_weighted = [entry["n_nonzero"] for entry in hasher.history_]
    assert n_weighted[0] == 0 < n_weighted[-1]
    assert hasher.history_[0]["effective_bits"] == 0 < hasher.effective_bits_
    assert hasher.score(few.X_query, few.y_query) > 0.3
    bits, bits_query = (hasher.transform(X)[:, :1] for X in (few.X, few.X_query))
    plain = average_precision(relevance_histogram(bits_query, bits, few.y_query, few.y))
    assert monitor.log_[0]["score"] == pytest.approx(plain)
    assert n_weighted[1] == 0
    assert monitor.log_[1]["score"] != monitor.log_[0]["score"]
    first = n_weighted.count(0) + 1
    assert hasher.truncate(first).bit_weights_.any()
    with pytest.raises(ValueError, match=f"nbits={first - 1}; the first {first - 1} bits have no weight"):
        hasher.truncate(first - 1)


def test_an_unknown_solver_is_refused_before_any_work(few, monkeypatch):
    monkeypatch.setattr(columns, "draw_lists", None)
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
