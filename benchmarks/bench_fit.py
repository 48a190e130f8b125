"""Time of a linear TALR fit on MNIST with protocol "5k" at 32 bits, best of three.

SKHASH_DATA=FOLDER python benchmarks/bench_fit.py
"""

import time

from skhash import TALRHasher
from skhash.datasets import load_dataset


def main():
    data = load_dataset("mnist", protocol="5k")
    seconds = []
    for seed in range(3):
        start = time.perf_counter()
        TALRHasher(32, random_state=seed).fit(data.X_train, data.y_train)
        seconds.append(time.perf_counter() - start)
    times = ", ".join(f"{second:.1f} s" for second in seconds)
    print(f"fits of {len(data.X_train):,} samples: {times}; best {min(seconds):.1f} s")
    assert min(seconds) < 15


if __name__ == "__main__":
    main()
