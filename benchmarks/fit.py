"""CPU time and AP_T of a linear TALR fit on MNIST with protocol "5k" at 32 bits, three seeds.

SKHASH_DATA=FOLDER OMP_NUM_THREADS=1 python benchmarks/fit.py
"""

import time

import numpy as np

from skhash import TALRHasher
from skhash.datasets import load_dataset
from skhash.metrics import average_precision, relevance_histogram


def main():
    TALRHasher(8, n_epochs=1).fit(np.eye(4), [0, 0, 1, 1])  # compile the kernels
    seconds, aps = [], []
    for seed in range(3):
        data = load_dataset("mnist", protocol="5k", random_state=seed)
        start = time.process_time()
        hasher = TALRHasher(32, random_state=seed).fit(data.X_train, data.y_train)
        seconds.append(time.process_time() - start)
        codes = hasher.transform(data.X_query), hasher.transform(data.X_database)
        aps.append(average_precision(relevance_histogram(*codes, data.y_query, data.y_database)))
    times = ", ".join(f"{second:.1f} s" for second in seconds)
    print(f"CPU time of fits of {len(data.X_train):,} samples: {times}; AP_T {np.mean(aps):.4f} +- {np.std(aps):.4f}")
    assert min(seconds) < 10


if __name__ == "__main__":
    main()
