"""The public checks of a hasher: they find what is wrong, and name the check."""

import random

import numpy as np
import pytest
import torch
from sklearn.preprocessing import StandardScaler

from skhash import ITQHasher, LSHHasher
from skhash.codes import pack
from skhash.functions import LinearFunction
from skhash.hashers.deep import DeepHasher, pairwise_loss
from skhash.hashers.shallow import LinearHasher
from skhash.testing import CHECKS, check_estimator, check_hasher

NAMES = [check.__name__ for check in CHECKS]


class Good(LinearHasher):
    def _learn_map(self, X, relevance, rng):
        return rng.standard_normal((X.shape[1], self.nbits))


class StrictlyPositive(Good):
    def transform(self, X):
        return (self.project(X) > 1).astype(np.uint8)


class LittleEndian(Good):
    def encode(self, X, **options):
        return np.packbits(self.transform(X), axis=1, bitorder="little")


class CentersABatch(Good):
    def project(self, X):
        activations = super().project(X)
        return activations - activations.mean(axis=0)

    def transform(self, X):
        return (self.project(X) >= 0).astype(np.uint8)

    def encode(self, X, **options):
        return pack(self.transform(X))


class Unseeded(Good):
    def _learn_map(self, X, relevance, rng):
        return np.random.default_rng().standard_normal((X.shape[1], self.nbits))


class Draws(Good):
    draw = staticmethod(lambda: None)

    def _learn_map(self, X, relevance, rng):
        type(self).draw()
        return super()._learn_map(X, relevance, rng)


class DrawsFromNumpy(Draws):
    draw = staticmethod(lambda: np.random.rand())  # noqa: NPY002


class DrawsFromPython(Draws):
    draw = staticmethod(random.random)


class DrawsFromTorch(Draws):
    draw = staticmethod(lambda: torch.rand(1))


class ForgetsWhenCopied(Good):
    def __getstate__(self):
        state = dict(super().__getstate__())
        if "function_" in state:
            function = state["function_"]
            state["function_"] = LinearFunction(function.mean, -function.projection)
        return state


class AddsWhenLoaded(Good):
    def _set_database(self, *args, **options):
        super()._set_database(*args, **options)
        self.function_.projection[:] += 1


class Optimistic(Good):
    def score(self, X, y=None):
        return 1.0


class CutsTheEnd(Good):
    def _cut(self, nbits):
        function = self.function_
        super()._cut(nbits)
        self.function_ = LinearFunction(function.mean, function.projection[:, -nbits:])


class WithOwnFunction(Good):
    class Function(LinearFunction):
        pass

    def _learn(self, X, relevance, rng):
        function = super()._learn(X, relevance, rng)
        return self.Function(function.mean, function.projection)


class NoNames(Good):
    def get_feature_names_out(self, input_features=None):
        return np.array(["a"] * self.nbits, dtype=object)


class Failing(Good):
    def _learn_map(self, X, relevance, rng):
        raise KeyError("gone")


class Deep(DeepHasher):
    _supervised = True

    def __init__(self, nbits=16, *, weight=0.5, learning_rate=0.01, **shared):
        super().__init__(nbits, learning_rate=learning_rate, **shared)
        self.weight = weight

    def _objective(self):
        from skhash.engine import Objective

        weight = self.weight

        class Pairs(Objective):
            def forward(self, encoder, X, relevance, indices):
                return pairwise_loss(encoder(X), relevance.levels()[0] > 0, scale=weight)

        return Pairs()


@pytest.mark.parametrize(
    ("Hasher", "name"),
    [
        (StrictlyPositive, "check_codes: .*a bit is 1 where"),
        (LittleEndian, "check_codes: .*encode must pack"),
        (CentersABatch, "check_codes: .*the codes of the samples|check_single_samples"),
        (Unseeded, "check_seeds: .*the same seed"),
        (DrawsFromNumpy, "check_generators: the global generator of numpy has"),
        (DrawsFromPython, "check_generators: the global generator of Python has"),
        (DrawsFromTorch, "check_generators: the global generator of torch has"),
        (ForgetsWhenCopied, "check_copies: .*joblib must give"),
        (AddsWhenLoaded, "check_files: .*save and load must give"),
        (Optimistic, "check_score: .*score must be the mean AP_T"),
        (CutsTheEnd, "check_prefix: .*prefix must give the first bits"),
    ],
)
def test_what_is_wrong_is_found_and_named(Hasher, name):
    with pytest.raises(AssertionError, match=f"(?s){name}"):
        check_hasher(Hasher(8), scikit_learn=False)


def test_a_shallow_method_passes():
    assert check_hasher(Good(8)) == [*NAMES, "check_estimator"]


def test_a_deep_method_passes():
    assert check_hasher(Deep(8, n_epochs=1, device="cpu"), scikit_learn=False) == NAMES


def test_what_does_not_apply_is_left_out():
    assert check_hasher(WithOwnFunction(8), scikit_learn=False) == [name for name in NAMES if name != "check_files"]
    assert "check_prefix" not in check_hasher(Good(1), scikit_learn=False)
    X = np.random.default_rng(0).standard_normal((70, 5))
    assert "check_score" not in check_hasher(ITQHasher(3), X, scikit_learn=False)


def test_the_checks_of_sklearn_are_run():
    with pytest.raises(AssertionError, match="check_estimator: "):
        check_hasher(NoNames(8))
    assert "check_estimator" not in check_hasher(NoNames(8), scikit_learn=False)
    check_estimator(LSHHasher(4))


def test_an_error_says_where_it_happens():
    with pytest.raises(KeyError) as caught:
        check_hasher(Failing(8))
    assert caught.value.__notes__ == ["This happens in check_codes of skhash.testing."]


def test_other_estimators_are_refused():
    with pytest.raises(TypeError, match=r"must be a hasher that derives from .* Got StandardScaler\(\)"):
        check_hasher(StandardScaler())
