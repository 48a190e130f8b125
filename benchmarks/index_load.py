"""Time and memory from a file to the first found items: load, encode and search one query in a new process.

    python benchmarks/index_load.py

The kernels were compiled by an earlier process. Libraries that are used for the first time in a process initialize
themselves: numba registers its functions, threadpoolctl lists the loaded libraries, scikit-learn looks for data frames.
This is counted apart, as are imports. The best of 7 processes is shown, in CPU time and in wall time.
"""

import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from sklearn.frozen import FrozenEstimator

from skhash import ITQHasher
from skhash.codes import Codes
from skhash.neighbors import HammingNeighbors
from skhash.neighbors.items import Items
from skhash.persistence import save

N_ITEMS, N_FEATURES, N_PROCESSES = 1_000_000, 384, 7
FIRST_SEARCH = """
import json, resource, sys, time, tracemalloc
import numpy as np
import numba, safetensors, skhash.codes.bit_kernels
from numba.core.registry import cpu_target
from skhash import ITQHasher
from skhash.persistence import load

path, is_traced = sys.argv[1], sys.argv[2] == "traced"
query = np.random.default_rng(1).normal(size=(1, 384))
start = time.process_time()
cpu_target.target_context.refresh()
ITQHasher(2, random_state=0).fit(np.eye(3)).encode(np.eye(3))
libraries = time.process_time() - start
if is_traced:
    tracemalloc.start()
memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
start, cpu = time.perf_counter(), time.process_time()
index = load(path)
loaded = time.process_time()
index.kneighbors(query)
print(json.dumps({
    "libraries": 1e3 * libraries,
    "load": 1e3 * (loaded - cpu),
    "cpu": 1e3 * (time.process_time() - cpu),
    "wall": 1e3 * (time.perf_counter() - start),
    "resident": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory) / 1024,
    "allocated": tracemalloc.get_traced_memory()[1] / 2**20 if is_traced else None,
}))
"""


def first_search(path, kind):
    """Milliseconds and MiB of one process."""
    done = subprocess.run(
        [sys.executable, "-c", FIRST_SEARCH, str(path), kind], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def main():
    """Print one line for each length of the codes."""
    rng = np.random.default_rng(0)
    columns = ("libraries", "load", "cpu", "wall", "allocated", "resident")
    print(
        "ms: libraries at first use; load; load, encode and search in CPU and in wall time. "
        "MiB: allocated; resident, with mapped pages"
    )
    print("".join(f"{name:>12}" for name in ("bits", "codes MiB", *columns)))
    for nbits in (64, 256):
        hasher = ITQHasher(nbits, store_database=False, random_state=0).fit(rng.normal(size=(2000, N_FEATURES)))
        index = HammingNeighbors(FrozenEstimator(hasher)).fit(rng.normal(size=(10, N_FEATURES)))
        codes = rng.integers(0, 256, (N_ITEMS, nbits // 8), dtype=np.uint8)
        index._items = Items.of(Codes(codes, nbits).blocks(), np.arange(N_ITEMS))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "index.safetensors"
            save(index, path)
            first_search(path, "plain")  # compiles
            runs = [first_search(path, "plain") for _ in range(N_PROCESSES)]
            runs.append(first_search(path, "traced") | dict.fromkeys(("libraries", "load", "cpu", "wall"), math.inf))
            best = [min(run[name] for run in runs if run[name] is not None) for name in columns]
        print("".join(f"{value:12.1f}" for value in (nbits, index.codes_.rows.nbytes / 2**20, *best)))


if __name__ == "__main__":
    main()
