"""Names of methods, groups of them, and what the registry says of each."""

import numpy as np
import pytest
from _helpers import history_of
from sklearn.utils import Bunch

import skhash
from skhash.affinity import ClassAffinity, DistanceAffinity, Relevance
from skhash.comparison import VARIANTS, expand_methods, make_hasher
from skhash.comparison.tuning import tune
from skhash.registry import GROUPS, LogUniform
from skhash.registry import METHODS as REGISTERED

PAPERS = ["talr-paper", "hashnet-paper", "nsh-paper", "structhash-paper"]


@pytest.mark.parametrize("method", VARIANTS)
def test_every_method_can_be_built(method):
    assert make_hasher(method, 12, 3, "auto").nbits == 12


def test_names_of_variants_are_those_of_methods_with_a_suffix():
    assert list(VARIANTS)[:5] == ["talr", "talr-mlp", "talr-ndcg", "talr-ndcg-mlp", "talr-conv"]
    assert VARIANTS["fastap-mlp"].parameters == {"objective": "fast_ap", "backbone": "mlp"}
    assert {variant.method.name for variant in VARIANTS.values()} == set(REGISTERED)


def test_groups_divide_the_methods():
    groups = {name: expand_methods([name]) for name in GROUPS}
    assert groups["all"] == [method for method in VARIANTS if not method.endswith(("-conv", "-paper"))]
    assert sorted(groups["deep"] + groups["shallow"]) == sorted(groups["all"])
    assert sorted(groups["supervised"] + groups["unsupervised"]) == sorted(groups["all"])
    assert {"talr-mlp", "nsh"} <= set(groups["deep"])
    assert {"talr", "lsh"} <= set(groups["shallow"])
    assert {"nsh", "itq"} <= set(groups["unsupervised"])
    assert expand_methods(["lsh", "all", "lsh"]) == ["lsh", *(method for method in groups["all"] if method != "lsh")]
    assert expand_methods(["hashnet-conv", "lsh"]) == ["hashnet-conv", "lsh"]


@pytest.mark.parametrize("task", ["relevance", "neighbors"])
def test_groups_do_not_have_the_settings_of_papers(task):
    assert not {*PAPERS} & {*expand_methods(GROUPS, task)}
    assert expand_methods(["nsh-paper", "itq"], task) == ["nsh-paper", "itq"]


def test_unknown_methods_are_all_named():
    with pytest.raises(
        ValueError, match=r"`skhash methods` lists. Got 'tarl' \(did you mean 'talr'\?\), 'magic' instead"
    ):
        expand_methods(["lsh", "tarl", "magic"])


def quick_hasher(name, affinity):
    """A hasher that fits quickly."""
    hasher = getattr(skhash, name)(4, affinity=affinity)
    short = {"random_state": 0, "n_epochs": 1, "n_relevant": 5, "n_irrelevant": 5, "n_anchors": 20}
    return hasher.set_params(**{key: value for key, value in short.items() if key in hasher.get_params()})


@pytest.mark.parametrize("name", [name for name, method in REGISTERED.items() if not method.parameters])
def test_methods_that_need_labels_are_marked_and_search_spaces_fit(name):
    method = REGISTERED[name]
    X = np.random.default_rng(0).standard_normal((120, 6)).astype(np.float32)
    affinity, y = DistanceAffinity(percentiles=(50,), levels=(1,)), X
    if method.needs_labels:
        with pytest.raises(ValueError, match="labels"):
            quick_hasher(method.class_name, affinity).fit(X, X)
        affinity, y = "auto", (X[:, 0] > 0).astype(int)
    data = Bunch(X_train=X, y_train=y, affinity=Relevance.of(y, affinity).affinity)
    space = method.search_space
    candidates = tune(lambda **given: quick_hasher(method.class_name, affinity).set_params(**given), space, data, 3)
    centers = candidates[0].centers
    assert set(centers) == {name for name, values in space.items() if isinstance(values, LogUniform)}
    assert all(center > 0 for center in centers.values())
    assert [candidate.error for candidate in candidates] == [None] * len(candidates)


@pytest.mark.parametrize("name", ["structhash", "cghash"])
def test_the_ridge_is_searched_around_that_of_kernels(name):
    method = REGISTERED[name]
    X = np.random.default_rng(0).standard_normal((40, 6))
    y, ridges = np.arange(40) % 4, (None, method.search_space["ridge"].center)
    default, center = (quick_hasher(method.class_name, "auto").set_params(ridge=ridge).fit(X, y) for ridge in ridges)
    assert history_of(default) == history_of(center)


def tune_ksh(space, **options):
    X = np.random.default_rng(0).standard_normal((60, 3))
    data = Bunch(X_train=X, y_train=(X[:, 0] > 0).astype(int), affinity=ClassAffinity())
    return tune(lambda **given: skhash.KSHHasher(4, max_iter=1, **options).set_params(**given), space, data, 5)


def test_candidates_lie_around_what_a_hasher_stores():
    candidates = tune_ksh({"gamma": LogUniform(2), "n_anchors": LogUniform(2)}, random_state=0)
    assert candidates[0].centers["n_anchors"] == 300
    assert candidates[0].centers["gamma"] > 0
    for candidate in candidates[1:]:
        for name, value in candidate.parameters.items():
            assert 0.49 <= value / candidates[0].centers[name] <= 2.01
        assert type(candidate.parameters["n_anchors"]) is int
        assert candidate.parameters["gamma"] == float(f"{candidate.parameters['gamma']:.3g}")
    few = [candidate.parameters["n_anchors"] for candidate in tune_ksh({"n_anchors": LogUniform(10, center=1)})[1:]]
    assert min(few) == 1
    assert all(type(n) is int for n in few)


def test_a_parameter_that_a_hasher_does_not_store_has_no_center():
    with pytest.raises(LookupError, match="KSHHasher does not store its value of random_state"):
        tune_ksh({"random_state": LogUniform(2)})
