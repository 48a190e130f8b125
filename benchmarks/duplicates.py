"""CPU time and memory of the search for all near pairs of codes, and of the groups that they connect.

    python benchmarks/duplicates.py                  # a table; each line is measured in a process of its own
    python benchmarks/duplicates.py 100000 64 2      # so many random codes of so many bits, up to this radius
    python benchmarks/duplicates.py 10000 64 2 equal
    python benchmarks/duplicates.py 10000000 64 4 planted     # 1 % are copies of others with up to 2 bits flipped

The memory is that of the whole process, at its peak. Kernels are compiled before the time is taken.
"""

import os
import resource
import subprocess
import sys

import numpy as np

from skhash.neighbors import HammingNeighbors, duplicate_groups

CASES = [
    "100000 64 2",
    "100000 64 8",
    "100000 256 8",
    "10000 64 2 equal",
    "2000000 64 2 planted",
    "10000000 64 4 planted",
]


def cpu_time():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def run_case(n, nbits, radius, kind="random"):
    codes = np.random.default_rng(0).integers(0, 256, (int(n), int(nbits) // 8), dtype=np.uint8)
    for n_first in (2, 40_000):  # in blocks, and by parts of the codes
        list(HammingNeighbors(nbits=int(nbits)).fit(codes[:n_first]).radius_pairs())
    if kind == "equal":
        codes[:] = codes[0]
    if kind == "planted":
        n_copies = len(codes) // 100
        bits = np.unpackbits(codes[:n_copies], axis=1)
        for seed in range(2):
            bits[np.arange(n_copies), np.random.default_rng(seed).integers(0, int(nbits), n_copies)] ^= 1
        codes[-n_copies:] = np.packbits(bits, axis=1)
    index = HammingNeighbors(nbits=int(nbits)).fit(codes)
    start = cpu_time()
    n_pairs = sum(len(i) for i, _, _ in index.radius_pairs(float(radius)))
    middle = cpu_time()
    groups = duplicate_groups(index, float(radius))
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    times = f"{middle - start:9.1f} {cpu_time() - middle:10.1f}"
    print(
        f"{n} {nbits} {radius} {kind}".ljust(24), f"{n_pairs:12,} {len(groups):8,} {times} {megabytes:8.0f}", flush=True
    )


def main(arguments):
    if arguments:
        run_case(*arguments)
        return
    print("codes, bits, radius".ljust(24), f"{'pairs':>12} {'groups':>8} {'pairs, s':>9} {'groups, s':>10} {'MB':>8}")
    for case in CASES:
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        subprocess.run([sys.executable, __file__, *case.split()], env=environment, check=True)


if __name__ == "__main__":
    main(sys.argv[1:])
