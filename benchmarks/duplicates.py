"""CPU time and memory of the search for all near pairs of codes, and of the groups that they connect.

    python benchmarks/duplicates.py                  # a table; each line is measured in a process of its own
    python benchmarks/duplicates.py 100000 64 2      # so many random codes of so many bits, up to this radius
    python benchmarks/duplicates.py 10000 64 2 equal
    python benchmarks/duplicates.py 10000000 64 4 planted     # 1 % are copies of others with up to 2 bits flipped
    SKHASH_DATA=FOLDER python benchmarks/duplicates.py 2000000 64 2 wordnet

"wordnet" repeats the ITQ codes of the vectors in wordnet_minilm384.npz, each with up to 4 bits flipped. The memory is
that of the whole process, at its peak. Kernels are compiled before the time is taken.

The last column is the CPU time of `hammingbird.find_pairs_self`, which must find as many pairs. It is measured for
planted pairs and for WordNet, with one thread, where `pip install hammingbird` works: PyPI has its sources only, so
that cargo has to reach the crates they need.
"""

import importlib.util
import os
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np

from skhash import ITQHasher
from skhash.neighbors import HammingNeighbors, duplicate_groups

CASES = [
    "100000 64 2",
    "100000 64 8",
    "100000 256 8",
    "10000 64 2 equal",
    "2000000 64 2 planted",
    "2000000 64 2 wordnet",
    "10000000 64 4 planted",
]
N_TRAINING = 20_000  # vectors that ITQ learns from


def cpu_time():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def flipped(codes, n_flips, rng, share=1.0):
    """Codes of which each has so many bits flipped, each with a probability; a bit can be flipped back."""
    bits, rows = np.unpackbits(codes, axis=1), np.arange(len(codes))
    for _ in range(n_flips):
        bits[rows, rng.integers(0, bits.shape[1], len(codes))] ^= rng.random(len(codes)) < share
    return np.packbits(bits, axis=1)


def make_codes(n, nbits, kind):
    """Packed codes."""
    rng = np.random.default_rng(0)
    if kind == "wordnet":
        with np.load(Path(os.environ["SKHASH_DATA"], "wordnet_minilm384.npz")) as arrays:
            X = arrays["X"].astype(np.float32)
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        hasher = ITQHasher(nbits, random_state=0).fit(X[rng.choice(len(X), N_TRAINING, replace=False)])
        codes = hasher.encode(X)
        return flipped(codes[rng.integers(0, len(codes), n)], 4, rng, share=0.5)
    codes = rng.integers(0, 256, (n, nbits // 8), dtype=np.uint8)
    if kind == "equal":
        codes[:] = codes[0]
    if kind == "planted":
        codes[-(n // 100) :] = flipped(codes[: n // 100], 2, rng)
    return codes


def by_hammingbird(codes, radius, n_pairs):
    """CPU seconds of the same search, or why there are none."""
    if importlib.util.find_spec("hammingbird") is None:
        return "not installed"
    import hammingbird

    n_bytes = codes.shape[1]
    find = hammingbird.find_pairs_self if radius < n_bytes else hammingbird.find_pairs_self_bit
    start = cpu_time()
    n_found = len(find(codes, int(radius)))
    taken = cpu_time() - start
    return f"{taken:.1f}" if n_found == n_pairs else f"{n_found:,} pairs"


def run_case(n, nbits, radius, kind="random"):
    n, nbits, radius = int(n), int(nbits), int(radius)
    codes = make_codes(n, nbits, kind)
    of_warmup = np.random.default_rng(1).integers(0, 256, (40_000, nbits // 8), dtype=np.uint8)
    for n_first in (2, len(of_warmup)):  # in blocks, and by parts of the codes
        list(HammingNeighbors(nbits=nbits).fit(of_warmup[:n_first]).radius_pairs())
    index = HammingNeighbors(nbits=nbits).fit(codes)
    start = cpu_time()
    n_pairs = sum(len(i) for i, _, _ in index.radius_pairs(radius))
    middle = cpu_time()
    groups = duplicate_groups(index, radius)
    end, megabytes = cpu_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    other = by_hammingbird(codes, radius, n_pairs) if kind in ("planted", "wordnet") else "-"
    print(
        f"{n} {nbits} {radius} {kind}".ljust(24),
        f"{n_pairs:12,} {len(groups):8,} {middle - start:9.1f} {end - middle:10.1f} {megabytes:8.0f} {other:>15}",
        flush=True,
    )


def main(arguments):
    if arguments:
        run_case(*arguments)
        return
    head = f"{'pairs':>12} {'groups':>8} {'pairs, s':>9} {'groups, s':>10} {'MB':>8} {'hammingbird, s':>15}"
    print("codes, bits, radius".ljust(24), head)
    for case in CASES:
        if "wordnet" in case and "SKHASH_DATA" not in os.environ:
            print(case.ljust(24), "SKHASH_DATA is not set")
            continue
        environment = os.environ | {"OMP_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1"}
        subprocess.run([sys.executable, __file__, *case.split()], env=environment, check=True)


if __name__ == "__main__":
    main(sys.argv[1:])
