"""CPU time to hash one sample, beside PCA of scikit-learn on the same sample, both with validation.

    python benchmarks/one_sample.py

Medians of interleaved measurements in one run, and their ratios to PCA.
"""

import time
import warnings

import numpy as np
from sklearn.decomposition import PCA

from skhash import ITQHasher, TALRHasher

NBITS, N_REPEATS, N_CALLS = 32, 25, 40


def estimators(X, y):
    """Return fitted estimators by name. What they have learned does not matter here."""
    options = {"n_epochs": 1, "random_state": 0}
    return {
        "PCA": PCA(NBITS).fit(X),
        "itq": ITQHasher(NBITS, random_state=0).fit(X),
        "talr": TALRHasher(NBITS, **options).fit(X, y),
        "talr-mlp": TALRHasher(NBITS, backbone="mlp", **options).fit(X, y),
    }


def main():
    print(f"{'features':>8} {'method':>9} {'microseconds':>12} {'times PCA':>9}")
    rng = np.random.default_rng(0)
    for n_features in (64, 784):
        y = rng.integers(10, size=2000)
        X = rng.standard_normal((10, n_features))[y] + rng.standard_normal((2000, n_features))
        fitted = estimators(X, y)
        times = {name: [] for name in fitted}
        for _ in range(N_REPEATS):
            for name, estimator in fitted.items():
                estimator.transform(X[:1])  # caches are warm
                start = time.process_time()
                for _ in range(N_CALLS):
                    estimator.transform(X[:1])
                times[name].append((time.process_time() - start) / N_CALLS * 1e6)
        medians = {name: np.median(values) for name, values in times.items()}
        for name, median in medians.items():
            print(f"{n_features:>8} {name:>9} {median:>12.0f} {median / medians['PCA']:>9.2f}")


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # codes of one epoch
        main()
