"""What the tests of comparisons share: small data, finished results, and results made by hand."""

import numpy as np
import pytest

from skhash.comparison import METRICS, VARIANTS, Result, compare
from skhash.registry import METHODS as REGISTERED
from skhash.registry import Variant


@pytest.fixture
def own_file(tmp_path):
    """The path of a data set without labels."""
    np.savez(tmp_path / "mine.npz", X=np.random.default_rng(0).standard_normal((600, 8)))
    return str(tmp_path / "mine.npz")


@pytest.fixture(scope="session")
def results():
    """Two methods at two numbers of bits, on two splits of digits."""
    return compare(methods=["itq", "lsh"], nbits=[8, 16], n_seeds=2)[0]


@pytest.fixture(scope="session")
def hand_made():
    """A function that makes results of one column: method to its values, one per seed; None is a failed fit."""

    def make(values, **more):
        return [
            Result.from_dict(
                {"dataset": "d", "protocol": "p", "method": method, "nbits": 16, "seed": seed}
                | dict.fromkeys((*METRICS, "fit_seconds", "codes_per_second"), value)
                | {"error": "ValueError: <no> & no" if value is None else None}
                | more
            )
            for method, of_method in values.items()
            for seed, value in enumerate(of_method)
        ]

    return make


@pytest.fixture
def set_broken(monkeypatch):
    """A function that adds the method "broken", ITQ with a number of iterations, which may be invalid."""

    def set_n_iter(n_iter):
        variant = Variant(REGISTERED["itq"], {"n_iter": n_iter})
        monkeypatch.setitem(VARIANTS, "broken", variant)

    return set_n_iter
