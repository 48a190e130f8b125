"""Peak memory of fits and of evaluations, beyond what was in memory before, each in a process of its own.

    python benchmarks/memory.py                          # everything: a table
    python benchmarks/memory.py fit 60000 784 itq sdh    # fits of these methods on so many samples and features
    python benchmarks/memory.py metric 100 1000000 weighted plain    # evaluations of so many queries and items

Samples are float32. Each process first does the same on small data, so that imports and compiled
kernels do not count.
"""

import hashlib
import os
import resource
import subprocess
import sys
import time

import numpy as np

NBITS = 32
#: method to parameters that make it quick and leave its memory as it is
QUICK = {
    "bre": {"max_iter": 2},
    "cghash": {"nbits": 2},
    "structhash": {"nbits": 2},
    "talr": {"n_epochs": 1},
}
SHALLOW = [
    *("itq-cca", "ksh", "sdh", "bre", "agh", "itq", "pca", "spectral", "spherical", "lsh"),
    *("structhash", "cghash"),
]
CASES = [
    *(["fit", str(n), str(d), *SHALLOW, "talr"] for n, d in ((60_000, 784), (64_000, 384))),
    ["metric", "100", "1000000", "plain", "weighted", "weighted-histogram"],
    ["metric", "10000", "1000000", "plain"],
]


def main(arguments):
    if arguments and arguments[0] == "--case":
        print(*run_case(*arguments[1:]))
        return
    print(f"{'case':42} {'data, MB':>9} {'peak, MB':>9} {'ratio':>6} {'s':>6}  digest of the codes, or AP")
    for what, first, second, *names in [arguments] if arguments else CASES:
        for name in names:
            case = [what, first, second, name]
            command = [sys.executable, __file__, "--case", *case]
            done = subprocess.run(command, env=os.environ | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True)
            if done.returncode:
                print(f"{' '.join(case):42} {done.stderr.strip().splitlines()[-1:]}", flush=True)
                continue
            held, peak, seconds, result = done.stdout.split()[-4:]
            numbers = f"{float(held):9.0f} {float(peak):9.0f} {float(peak) / float(held):6.1f} {float(seconds):6.1f}"
            print(f"{' '.join(case):42} {numbers}  {result}", flush=True)


def run_case(what, first, second, name):
    """Megabytes of the data, megabytes beyond them at the peak, seconds, and a result that tells changes."""
    make, run = {"fit": (fit_data, run_fit), "metric": (metric_data, run_metric)}[what]
    run(name, *make(*((1000, 20) if what == "fit" else (20, 1000))))
    data = make(int(first), int(second))
    before, start = resident(), time.perf_counter()
    result = run(name, *data)
    seconds, peak = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
    return sum(array.nbytes for array in data) / 1e6, peak / 1e6, seconds, result


def resident():
    """Bytes of memory that the process holds now."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def fit_data(n, d):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 10, n)
    return rng.standard_normal((n, d), dtype=np.float32), y


def run_fit(name, X, y):
    import skhash
    from skhash.registry import VARIANTS

    variant = VARIANTS[name]
    hasher = getattr(skhash, variant.method.class_name)(**variant.parameters)
    options = {"nbits": NBITS, "random_state": 0} | QUICK.get(name, {})
    hasher.set_params(**{key: value for key, value in options.items() if key in hasher.get_params()})
    return hashlib.sha256(hasher.fit(X, y).database_.codes.rows.tobytes()).hexdigest()[:12]


def metric_data(n_queries, n_items):
    rng = np.random.default_rng(0)
    codes = [rng.integers(0, 256, (n, 8), dtype=np.uint8) for n in (n_queries, n_items)]
    return *codes, *(rng.integers(0, 10, n) for n in (n_queries, n_items))


def run_metric(name, query, database, query_y, database_y):
    from skhash.affinity import Relevance
    from skhash.codes import Codes
    from skhash.metrics import Ranking, average_precision, evaluate_ranking, relevance_histogram

    weights = None if name == "plain" else np.random.default_rng(1).uniform(0.5, 2, 64)
    if name == "weighted-histogram":
        H = relevance_histogram(query, database, query_y, database_y, bit_weights=weights, nbits=64)
        return repr(average_precision(H))
    ranking = Ranking(Codes.of(query, 64), Codes.of(database, 64), Relevance.between(query_y, database_y), weights)
    return repr(evaluate_ranking(ranking, ["ap"])["ap"])


if __name__ == "__main__":
    main(sys.argv[1:])
