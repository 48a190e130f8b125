"""What the tests of saved files share."""

from typing import Any

import pytest
from sklearn.utils import Bunch

from skhash import LSHHasher
from skhash.persistence import load, save


@pytest.fixture(scope="session")
def few(digits):
    """Digits that every hasher fits quickly."""
    return Bunch(X=digits.X[:120], y=digits.y[:120], X_query=digits.X_query[:100], y_query=digits.y_query[:100])


@pytest.fixture
def copy(tmp_path):
    """A function that saves and loads a hasher."""

    def through_a_file(hasher, **options):
        save(hasher, tmp_path / "hasher.safetensors")
        return load(tmp_path / "hasher.safetensors", **options)

    return through_a_file


@pytest.fixture
def extra(monkeypatch):
    """LSHHasher may have a fitted attribute `extra_` of any kind."""
    monkeypatch.setitem(LSHHasher.__annotations__, "extra_", Any)
