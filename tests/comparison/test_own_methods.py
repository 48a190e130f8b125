"""Comparisons of methods of the user, on samples of the user."""

import sys

import numpy as np
import pytest
from _helpers import without_times
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import Bunch

from skhash import ITQHasher, LSHHasher
from skhash.affinity import DistanceAffinity
from skhash.comparison import compare, make_hasher, markdown_table, read_results, write_report
from skhash.comparison.progress import estimate_seconds_left
from skhash.datasets import load_dataset, split

MODULE = """
import numpy as np
from skhash.hashers.shallow import LinearHasher

class Mine(LinearHasher):
    def _learn_map(self, X, relevance, rng):
        return rng.standard_normal((X.shape[1], self.nbits))
"""
ONCE = {"nbits": [8], "n_seeds": 1}


class Signs(TransformerMixin, BaseEstimator):
    """An estimator that knows nothing of skhash; `width` is how many bits it returns."""

    def __init__(self, nbits=8, width=None):
        self.nbits, self.width = nbits, width

    def fit(self, X, y=None):
        self.mean_ = X.mean(axis=0)
        return self

    def transform(self, X):
        return np.greater(X, self.mean_)[:, : self.width or self.nbits]


@pytest.fixture
def module(tmp_path, monkeypatch):
    """The path of a module with the class Mine, which can be imported."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_method", raising=False)
    path = tmp_path / "own_method.py"
    path.write_text(MODULE)
    yield path
    sys.modules.pop("own_method", None)


@pytest.fixture(scope="module")
def samples(digits):
    return digits.X, digits.y


def metrics_of(results):
    return [dict(result.metrics) for result in results]


def test_an_estimator_has_the_results_of_the_method_that_it_is(samples):
    methods = {"mine": LSHHasher(), "lsh": "lsh", "renamed": "lsh"}
    mine, lsh, renamed = compare(samples, methods=methods, **ONCE)[0]
    assert [result.method for result in (mine, lsh, renamed)] == ["mine", "lsh", "renamed"]
    assert mine.codes_sha256 == lsh.codes_sha256 == renamed.codes_sha256
    assert metrics_of([mine]) == metrics_of([lsh])
    assert (mine.parameters, lsh.parameters) == ({"estimator": "LSHHasher()"}, {})


def test_estimators_without_skhash_and_pipelines(samples):
    methods = {"signs": Signs(), "scaled": make_pipeline(StandardScaler(), ITQHasher(n_iter=3))}
    results = compare(samples, methods=methods, **ONCE | {"nbits": [4, 8]})[0]
    assert [(result.method, result.nbits, result.error) for result in results] == [
        ("signs", 4, None),
        ("scaled", 4, None),
        ("signs", 8, None),
        ("scaled", 8, None),
    ]
    assert "Pipeline(" in results[1].parameters["estimator"]


def test_what_is_set_in_an_estimator():
    given = make_pipeline(PCA(random_state=7), LSHHasher(random_state=7))
    made = make_hasher(given, 16, 3, affinity := DistanceAffinity())
    expected = {"nbits": 16, "random_state": 3, "affinity": affinity, "store_database": False}
    assert made[-1].get_params() == expected
    assert made[0].random_state == given[-1].random_state == 7
    assert make_hasher(LSHHasher(affinity=affinity), 16, 0, "auto").affinity.levels == affinity.levels


def test_samples_are_a_pair_or_a_split(digits):
    X, y = digits.X, digits.y
    (pair,), about = compare((X, y), methods=["lsh"], **ONCE)
    (given,), _ = compare(split(X, y), methods=["lsh"], **ONCE)
    assert about.startswith("data, protocol 'holdout'")
    assert metrics_of([pair]) == metrics_of([given])
    assert (pair.source, pair.dataset) == (None, "data")
    named = compare([split(X, y, name="few"), (X, None)], methods=["lsh"], **ONCE)[0]
    assert [(result.dataset, result.protocol) for result in named] == [("few", "holdout"), ("data", "labelme")]
    both = compare(split(X, y), methods=["lsh"], nbits=[8], n_seeds=2, scale=True)[0]
    assert both[0].dataset == "data, scaled"
    assert both[0].codes_sha256 != both[1].codes_sha256  # of one split, by two seeds of the method


def test_neighbors_of_samples_in_memory(digits):
    methods = {"mine": LSHHasher(), "lsh": "lsh"}
    mine, lsh = compare((digits.X, None), task="neighbors", methods=methods, **ONCE)[0]
    assert metrics_of([mine]) == metrics_of([lsh])
    assert mine.parameters == {"estimator": "LSHHasher()"}
    given = split(digits.X, protocol="neighbors")
    assert metrics_of(compare(given, methods=methods, **ONCE)[0]) == metrics_of([mine, lsh])


def test_stored_results_are_reused_if_the_source_is_the_same(samples, module, tmp_path):
    import own_method

    seen = []
    options = ONCE | {"folder": tmp_path / "out", "report": lambda progress: seen.append(progress.reused)}

    def run(**params):
        compare(samples, methods={"mine": own_method.Mine(**params)}, **options)
        return seen.pop()

    assert [run(), run()] == [False, True]
    assert run(affinity=DistanceAffinity()) is False
    assert run() is True
    module.write_text(MODULE + "# another line\n")
    assert run() is False
    (listed,) = read_results(tmp_path / "out")
    assert listed.per_query is not None


def test_a_class_without_a_source_is_computed_again(samples, tmp_path):
    class Local(Signs):
        pass

    seen = []
    for _ in range(2):
        methods = {"mine": Local()}
        compare(samples, methods=methods, folder=tmp_path, report=lambda step: seen.append(step.reused), **ONCE)
    assert seen == [False, False]


def test_classes_are_found_by_module_and_name(samples, module):
    results = compare(samples, methods=["own_method:Mine", "lsh"], **ONCE)[0]
    assert [result.method for result in results] == ["own_method:Mine", "lsh"]
    assert results[0].codes_sha256 == results[1].codes_sha256


def test_two_processes_give_the_results_of_one(samples, module):
    options = {"methods": {"mine": "own_method:Mine", "signs": Signs()}, "nbits": [8], "n_seeds": 2}
    one, two = (compare(samples, n_jobs=n_jobs, **options)[0] for n_jobs in (1, 2))
    assert without_times(one) == without_times(two)


def test_tables_and_the_report_show_the_name(samples, tmp_path):
    results = compare(samples, methods={"mine": Signs(), "lsh": "lsh"}, folder=tmp_path, **ONCE)[0]
    assert "| mine " in markdown_table(results)
    folder = write_report(tmp_path, read_results(tmp_path), formats=["csv", "latex"])
    for name in ("report.html", "results.md", "results.csv", "results.tex"):
        assert "mine" in (folder / name).read_text(encoding="utf-8")
    assert "load_dataset(" not in (folder / "report.html").read_text(encoding="utf-8")  # they are in memory


def test_fresh_discards_results_of_comparisons_alone(samples, tmp_path):
    compare(samples, methods={"mine": Signs()}, folder=tmp_path, **ONCE)
    compare(samples, methods=["lsh"], folder=tmp_path, fresh=True, **ONCE)
    assert [result.method for result in read_results(tmp_path)] == ["lsh"]


def test_the_time_of_a_method_of_the_user_says_nothing_of_others(samples):
    (mine,) = compare(samples, methods={"mine": Signs()}, **ONCE)[0]
    assert estimate_seconds_left(["mine", "talr", "lsh"], {0: mine}) == 0
    assert estimate_seconds_left(["mine", "mine"], {0: mine}) == mine.seconds


@pytest.mark.parametrize(
    ("methods", "error", "message"),
    [
        ({"mine": Signs}, TypeError, "Got the class Signs instead. Pass Signs()"),
        ({"mine": PCA()}, ValueError, "must have the parameter `nbits`.* Got a PCA without it"),
        ({"mine": make_pipeline(ITQHasher(), PCA())}, ValueError, r"Got a Pipeline that ends in PCA\(\) without it"),
        ({"mine": 3}, TypeError, "must be an estimator with `fit`.* Got a int"),
        ({"itq": ITQHasher()}, ValueError, "another name .* than 'itq'"),
        ({"": ITQHasher()}, TypeError, "must have names as keys. Got ''"),
        ({"mine": "itk"}, ValueError, "Got 'itk'"),
        ([ITQHasher()], ValueError, "a dict of names and estimators.* Got 'ITQHasher"),
        (["nowhere_at_all:Mine"], ValueError, "'nowhere_at_all:Mine' cannot be imported: No module named"),
        (["json:Nothing"], ValueError, "'json:Nothing' cannot be imported: .*no attribute 'Nothing'"),
        (["json:decoder"], ValueError, "must be a class. Got 'json:decoder', a module"),
        (["json:"], ValueError, "must be written module:Class. Got 'json:'"),
    ],
)
def test_other_methods_are_refused(methods, error, message):
    with pytest.raises(error, match=message):
        compare(methods=methods)


@pytest.mark.parametrize(
    ("dataset", "error", "message"),
    [
        (np.eye(3), TypeError, "`dataset` must be a name.* Got numpy.ndarray"),
        ((np.eye(3), None, None), TypeError, "Got a tuple"),
        ([np.eye(3)], TypeError, "Got numpy.ndarray"),
        (Bunch(data=np.eye(3), target=[0, 1, 2]), ValueError, r"without X_train, .* pass the tuple \(X, y\)"),
        ([(np.eye(30), None), (np.eye(30), None)], ValueError, "different names. Got data, data"),
        ([], ValueError, "must name at least one data set"),
    ],
)
def test_other_data_sets_are_refused(dataset, error, message):
    with pytest.raises(error, match=message):
        compare(dataset, methods=["lsh"])


def test_a_split_has_its_protocol_and_its_task(digits):
    data = split(digits.X, digits.y)
    with pytest.raises(ValueError, match="`protocol` must be None for a Bunch"):
        compare(data, methods=["lsh"], protocol="holdout")
    with pytest.raises(ValueError, match="`task` must be None or that of each Bunch"):
        compare(data, methods=["lsh"], task="neighbors")
    with pytest.raises(ValueError, match="need no labels for the task 'neighbors'"):
        compare((digits.X, None), methods={"signs": Signs()}, task="neighbors")


def test_another_number_of_bits_is_an_error_of_the_result(samples):
    (result,) = compare(samples, methods={"wide": Signs(width=10)}, **ONCE)[0]
    assert result.error == "ValueError: `hasher` must return nbits=8 bits. Got 10 instead."


def test_a_method_that_cannot_be_saved_is_named(samples, tmp_path):
    methods = {"signs": Signs(), "lsh": "lsh"}
    with pytest.warns(UserWarning, match="`keep_models` keeps no model of signs"):
        signs, lsh = compare(samples, methods=methods, folder=tmp_path, keep_models=True, **ONCE)[0]
    assert signs.model is None
    assert (tmp_path / lsh.model).is_file()
    assert signs.is_done


def test_the_data_sets_of_names_stay_the_same(digits):
    (named,), (given,) = (compare(data, methods=["lsh"], **ONCE)[0] for data in ("digits", load_dataset("digits")))
    assert metrics_of([named]) == metrics_of([given])
    assert (named.source, given.source) == ("digits", None)
