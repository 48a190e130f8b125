"""What tests of metrics share."""

import numpy as np
import pytest

from skhash import ITQHasher
from skhash.metrics import histogram_from_distances


@pytest.fixture(scope="session")
def itq(digits):
    return ITQHasher(nbits=16, random_state=0).fit(digits.X, digits.y)


@pytest.fixture(scope="module")
def problem():
    """Real distances of 6 queries to 15 items, with ties, and their relevance; query 0 is far from everything."""
    rng = np.random.default_rng(0)
    distances = rng.integers(0, 8, (6, 15)) / 2
    distances[0] += 10
    relevant = rng.integers(0, 2, (6, 15))
    return distances, relevant, histogram_from_distances(distances, levels=relevant)
