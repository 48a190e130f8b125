"""Training time of StructHash against the number of queries, of items per query and of bits; peak memory.

    python benchmarks/structhash_growth.py                 # 64 bits, 2,000 queries x (50 + 50) items
    python benchmarks/structhash_growth.py FIGURE.png      # and the growth, with a plot
    python benchmarks/structhash_growth.py --memory        # peak memory of 5,000 queries, 64 bits

Samples have 256 features and are from ten overlapping Gaussian classes. Hash functions are linear.
"""

import argparse
import resource
import time

import numpy as np

from skhash import StructHashHasher

N_QUERIES = [500, 1000, 2000, 4000]
N_ITEMS = [10, 20, 50, 100, 200]
NBITS = 64


def draw_samples(n, n_features=256, seed=0):
    """Samples and classes."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 10, n)
    centers = rng.standard_normal((10, n_features))
    return 0.5 * centers[y] + rng.standard_normal((n, n_features)) * np.linspace(2, 0.5, n_features), y


def fit(n_queries=2000, n_items=50, nbits=NBITS):
    """Seconds of a fit, and the hasher."""
    X, y = draw_samples(n_queries)
    options = {"n_relevant": n_items, "n_irrelevant": n_items, "n_queries": n_queries, "hash_function": "linear"}
    hasher = StructHashHasher(nbits, store_database=False, random_state=0, **options)
    start = time.perf_counter()
    hasher.fit(X, y)
    return time.perf_counter() - start, hasher


def report(label, seconds, hasher):
    last = hasher.history_[-1]
    learned, cuts = len(hasher.history_), sum(entry["n_iter"] for entry in hasher.history_)
    print(
        f"{label:36} {seconds:6.1f} s  {learned} bits, {cuts} oracle calls, loss {last['loss']:.4f}, "
        f"largest violation {max(entry['violation'] for entry in hasher.history_):.1e}",
        flush=True,
    )


def growth():
    """Seconds by number of queries, of items per query, and of bits."""
    seconds = {"queries": [], "items": []}
    for n in N_QUERIES:
        taken, hasher = fit(n_queries=n)
        seconds["queries"].append(taken)
        report(f"{n:,} queries x (50 + 50)", taken, hasher)
    for n in N_ITEMS:
        taken, hasher = fit(n_queries=1000, n_items=n)
        seconds["items"].append(taken)
        report(f"1,000 queries x ({n} + {n})", taken, hasher)
    for name, sizes in (("queries", N_QUERIES), ("items", N_ITEMS)):
        exponent = np.polyfit(np.log(sizes[-3:]), np.log(seconds[name][-3:]), 1)[0]
        print(f"time ~ {name}^{exponent:.2f} over the last three sizes")
    seconds["bits"] = np.cumsum([entry["seconds"] for entry in hasher.history_])
    return seconds


def draw(seconds, path):
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(11, 3.5), layout="constrained")
    axes[0].plot(N_QUERIES, seconds["queries"], "o-")
    axes[0].set(xlabel="queries, 50 + 50 items each", ylabel="seconds for 64 bits")
    axes[1].plot(N_ITEMS, seconds["items"], "o-")
    axes[1].set(xlabel="items of each kind, 1,000 queries")
    axes[2].plot(range(1, len(seconds["bits"]) + 1), seconds["bits"])
    axes[2].set(xlabel=f"bits, 1,000 queries x ({N_ITEMS[-1]} + {N_ITEMS[-1]})")
    for axis in axes:
        axis.set_xlim(left=0)
        axis.set_ylim(bottom=0)
    figure.suptitle("Training time of StructHash")
    figure.savefig(path, dpi=120)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("figure", nargs="?")
    parser.add_argument("--memory", action="store_true", help="peak memory of 5,000 queries")
    options = parser.parse_args()
    fit(n_queries=100, nbits=2)  # compiles the kernels
    n = 5000 if options.memory else 2000
    report(f"{n:,} queries x (50 + 50), 64 bits", *fit(n_queries=n))
    if options.memory:
        print(f"peak memory of the process {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB")
    if options.figure:
        draw(growth(), options.figure)


if __name__ == "__main__":
    main()
