"""What a class of hashers lacks is an error where it is defined."""

from abc import ABC, abstractmethod

import numpy as np
import pytest

from skhash import TALRHasher
from skhash.base import BaseHasher
from skhash.functions import LinearFunction
from skhash.hashers.deep import DeepHasher, LabelsMixin, QuantizedDeepHasher
from skhash.hashers.shallow import KernelHasher, LinearHasher


def init(self, nbits=8, *, affinity="auto", store_database=True):
    self.nbits, self.affinity, self.store_database = nbits, affinity, store_database


def init_without_bits(self, *, affinity="auto", store_database=True):
    self.affinity, self.store_database = affinity, store_database


def init_without_weight(self, nbits=8, **shared):
    DeepHasher.__init__(self, nbits, **shared)


def init_of_deep_without_shared(self, nbits=8, *, affinity="auto"):
    DeepHasher.__init__(self, nbits, affinity=affinity)


def learn(self, X, relevance, rng):
    return LinearFunction(X.mean(axis=0), np.eye(X.shape[1], self.nbits))


@pytest.mark.parametrize(
    ("base", "parts", "message"),
    [
        (BaseHasher, {"__init__": init}, r"Mine must define `_learn`: function learned from .*list abc\.ABC among"),
        (LinearHasher, {}, r"Mine must define `_learn_map`: map of centered samples, of shape \(n_features, nbits\)\."),
        (KernelHasher, {}, "Mine must define `_learn_map`: "),
        (DeepHasher, {}, r"Mine must define `_objective`: objective to minimize\."),
        (QuantizedDeepHasher, {}, "Mine must define `_objective`: objective to minimize, a QuantizedObjective"),
        (BaseHasher, {"_learn": learn}, r"Mine\.__init__ must have the parameter `nbits`"),
        (BaseHasher, {"_learn": learn, "__init__": init_without_bits}, "must have the parameter `nbits`"),
        (
            QuantizedDeepHasher,
            {"_objective": learn, "__init__": init_without_weight},
            "must have the parameter `quantization_weight`",
        ),
        (
            DeepHasher,
            {"_objective": learn, "__init__": init_of_deep_without_shared},
            "must have the parameter `store_database`",
        ),
    ],
)
def test_what_is_missing_is_named(base, parts, message):
    with pytest.raises(TypeError, match=message):
        type("Mine", (base,), parts)


def test_bases_and_mixins_are_spared():
    class Base(LinearHasher, ABC):
        pass

    class Partial(DeepHasher):
        @abstractmethod
        def _loss(self):
            """Loss of my methods."""

        def _objective(self):
            return self._loss()

    class WithoutLearning(BaseHasher):  # as QueryAdapter
        def fit(self, X, y=None):
            return self

    class Labels(LabelsMixin):
        pass

    with pytest.raises(TypeError, match="Mine must define `_learn_map`"):
        type("Mine", (Base,), {})
    with pytest.raises(TypeError, match=r"Mine must define `_loss`: loss of my methods\."):
        type("Mine", (Partial,), {})
    with pytest.raises(TypeError, match="Mine must define `_objective`"):
        type("Mine", (Labels, DeepHasher), {})
    assert issubclass(type("Mine", (WithoutLearning,), {}), BaseHasher)


def test_whole_classes_are_accepted(few_digits):
    class AboveMean(BaseHasher):
        __init__, _learn = init, learn

    class Fixed(BaseHasher):  # what it does not let users choose is an attribute
        affinity, store_database = "auto", False

        def __init__(self, nbits=8):
            self.nbits = nbits

        _learn = learn

    class Renamed(TALRHasher):
        pass

    for Hasher in (AboveMean, Fixed):
        assert Hasher(3).fit(few_digits.X).transform(few_digits.X).shape == (len(few_digits.X), 3)
    assert Renamed(4, n_epochs=1, random_state=0).fit(few_digits.X, few_digits.y).n_epochs_ == 1


def test_defaults_of_a_deep_method(few_digits):
    from skhash.engine import Objective

    class Spread(Objective):
        def forward(self, encoder, X, relevance, indices):
            return -encoder(X).tanh().var(dim=0).mean()

    class SpreadHasher(DeepHasher):
        def __init__(self, nbits=8, *, learning_rate=0.5, **shared):
            super().__init__(nbits, learning_rate=learning_rate, **shared)

        def _objective(self):
            return Spread()

    assert SpreadHasher().get_params()["learning_rate"] == 0.5
    hasher = SpreadHasher(4, n_epochs=1, random_state=0).fit(few_digits.X)
    settings = {"batch_size": 256, "learning_rate": 0.5, "weight_decay": 0.5, "n_epochs": 1}
    assert settings.items() <= hasher.settings_.items()
    deep = SpreadHasher(4, n_epochs=1, learning_rate=None, backbone="mlp", random_state=0).fit(few_digits.X)
    assert (deep.settings_["learning_rate"], deep.settings_["weight_decay"]) == (0.003, 0.1)


@pytest.fixture
def few_digits(digits):
    return type(digits)(X=digits.X[:60], y=digits.y[:60])
