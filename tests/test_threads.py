import os
import subprocess
import sys

import numpy as np
import pytest
from _helpers import quick
from numpy.testing import assert_array_equal
from threadpoolctl import threadpool_limits

import skhash
from skhash.hashers.deep._base import DeepHasher

SHALLOW = [name for name in skhash.hashers.__all__ if not issubclass(getattr(skhash, name), DeepHasher)]

SCRIPT = """
import hashlib, numpy as np, skhash
rng = np.random.default_rng(0)
y = rng.integers(0, 5, 3000)
X = rng.standard_normal((5, 300))[y] + rng.standard_normal((3000, 300))
makers = {name: lambda name=name: getattr(skhash, name)(nbits=24) for name in skhash.hashers.__all__}
makers["TALR mlp"] = lambda: skhash.TALRHasher(24, backbone="mlp", random_state=0)
makers["TALR itq"] = lambda: skhash.TALRHasher(24, init="itq", objective="ndcg", random_state=0)
makers["conv"] = lambda: skhash.HashNetHasher(24, backbone="conv", random_state=0)
for name, make in makers.items():
    hasher = make()
    if hasattr(hasher, "random_state"):
        hasher.set_params(random_state=0)
    if hasattr(hasher, "n_epochs"):
        hasher.set_params(n_epochs=2)
    rows = X[:600, :192].reshape(600, 3, 8, 8) if name == "conv" else X
    codes = hasher.fit(rows, y[: len(rows)]).encode(rows)
    print(name, hashlib.sha256(codes.tobytes()).hexdigest())
"""


def codes_by_threads(n):
    threads = {name: str(n) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=os.environ | threads, capture_output=True, text=True, check=True
    )
    return done.stdout


@pytest.mark.slow
def test_codes_do_not_depend_on_the_number_of_threads():
    codes = codes_by_threads(1)
    assert len(codes.splitlines()) >= 9
    assert codes == codes_by_threads(2)


@pytest.mark.parametrize("name", SHALLOW)
def test_activations_do_not_depend_on_the_number_of_threads(name):
    """Nor does what was learned: to the last bit, so that rows at the border between two codes keep their side."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 5, 2000)
    X = rng.standard_normal((5, 784))[y] + rng.standard_normal((2000, 784))
    n_learned = 100 if name in ("BREHasher", "CGHashHasher", "StructHashHasher") else 2000
    activations = []
    for n in (1, 2):
        with threadpool_limits(n):
            activations.append(quick(name, nbits=8, n_iter=5).fit(X[:n_learned], y[:n_learned]).project(X))
    assert_array_equal(*activations)
