"""Names of methods, groups of them, and what the registry says of each."""

import numpy as np
import pytest

from skhash import hashers
from skhash.affinity import DistanceAffinity
from skhash.comparison import GROUPS, VARIANTS, expand_methods, make_hasher
from skhash.comparison.tuning import _centers, _draw_parameters, _fitted_value, _scale
from skhash.registry import METHODS as REGISTERED
from skhash.registry import LogUniform


@pytest.mark.parametrize("method", VARIANTS)
def test_every_method_can_be_built(method):
    assert make_hasher(method, 12, 3, "auto").nbits == 12


def test_names_of_variants_are_those_of_methods_with_a_suffix():
    assert list(VARIANTS)[:4] == ["talr", "talr-mlp", "talr-ndcg", "talr-ndcg-mlp"]
    assert VARIANTS["fastap-mlp"].parameters == {"objective": "fastap", "backbone": "mlp"}
    assert {variant.method.name for variant in VARIANTS.values()} == set(REGISTERED)


def test_groups_divide_the_methods():
    groups = {name: expand_methods([name]) for name in GROUPS}
    assert groups["all"] == list(VARIANTS)
    assert sorted(groups["deep"] + groups["shallow"]) == sorted(VARIANTS)
    assert sorted(groups["supervised"] + groups["unsupervised"]) == sorted(VARIANTS)
    assert {"talr-mlp", "nsh"} <= set(groups["deep"])
    assert {"talr", "lsh"} <= set(groups["shallow"])
    assert {"nsh", "itq"} <= set(groups["unsupervised"])
    assert expand_methods(["lsh", "all", "lsh"]) == ["lsh", *(method for method in VARIANTS if method != "lsh")]


def test_unknown_methods_are_all_named():
    with pytest.raises(
        ValueError, match=r"`skhash methods` lists. Got 'tarl' \(did you mean 'talr'\?\), 'magic' instead"
    ):
        expand_methods(["lsh", "tarl", "magic"])


def quick_hasher(name, affinity):
    """A hasher that fits quickly."""
    hasher = getattr(hashers, name)(4, affinity=affinity)
    short = {"random_state": 0, "n_epochs": 1, "n_relevant": 5, "n_irrelevant": 5, "n_anchors": 20}
    return hasher.set_params(**{key: value for key, value in short.items() if key in hasher.get_params()})


@pytest.mark.parametrize("name", [name for name, method in REGISTERED.items() if not method.parameters])
def test_methods_that_need_labels_are_marked_and_search_spaces_fit(name):
    method = REGISTERED[name]
    X = np.random.default_rng(0).standard_normal((120, 6)).astype(np.float32)
    affinity, y = DistanceAffinity(percentiles=(30,), levels=(1,)), X
    if method.needs_labels:
        with pytest.raises(ValueError, match="labels"):
            quick_hasher(method.class_name, affinity).fit(X, X)
        affinity, y = "auto", (X[:, 0] > 0).astype(int)
    hasher = quick_hasher(method.class_name, affinity).fit(X, y)
    space = method.search_space
    centers = _centers(hasher, space)
    assert set(centers) == {name for name, values in space.items() if isinstance(values, LogUniform)}
    assert all(center > 0 for center in centers.values())
    for draw in _draw_parameters(space, 10, 0):
        chosen = {name: _scale(centers[name], v) if name in centers else v for name, v in draw.items()}
        hasher.set_params(**chosen)._validate_params()


@pytest.mark.parametrize("name", ["structhash", "cghash"])
def test_the_ridge_is_searched_around_that_of_kernels(name):
    method = REGISTERED[name]
    assert method.search_space["ridge"].center == getattr(hashers, method.class_name)._default_ridges["kernel"]


def test_a_fitted_value_is_found_wherever_a_hasher_stores_it():
    hasher = hashers.KSHHasher(nbits=4).fit([[0.0], [1.0], [5.0], [6.0]], [0, 0, 1, 1])
    assert (_fitted_value(hasher, "gamma"), _fitted_value(hasher, "n_anchors")) == (hasher.gamma_, 300)
    with pytest.raises(LookupError, match="KSHHasher does not store its value of random_state"):
        _fitted_value(hasher, "random_state")


def test_scaled_values_have_three_digits_and_ints_stay_ints():
    assert (_scale(300, 0.5), _scale(0.1, 1.23456), _scale(1, 0.1)) == (150, 0.123, 1)
