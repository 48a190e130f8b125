"""Does the test over queries hold what it says? Made systems of known difference.

    python experiments/differences.py        # 10 minutes of CPU time

The values of a query are drawn from a beta distribution, whose mean, the difficulty of the query, all methods share. A
method that is better by a difference has it at every query on average. Three splits of 100 queries each, 2,000 trials:
the share of trials with p < .05 (the size if nothing differs, else the power), the share with a significant difference
among four methods of which none differs, and the share of intervals that cover the true difference. The results are
in experiments/results/differences.json.
"""

import numpy as np
from _results import RESULTS, store

from skhash.comparison import Result, find_differences

PATH = RESULTS / "differences.json"
N_TRIALS, N_SPLITS, N_QUERIES = 2000, 3, 100
SETTINGS = [(0.0, 1), (0.01, 1), (0.02, 1), (0.04, 1), (0.0, 4)]  # difference, number of methods beside the baseline


def make_results(rng, difference, n_methods):
    """Results of a baseline and of methods that differ from it."""
    results = []
    for seed in range(N_SPLITS):
        means = rng.beta(3, 2, size=N_QUERIES) * 0.9 + 0.05  # of the queries, as difficult for all methods
        for i in range(n_methods + 1):
            values = rng.beta(8 * means, 8 * (1 - means)) + difference * (i > 0)  # the means shift, the spread stays
            name = f"method {i}" if i else "baseline"
            metrics = {"ap": float(values.mean())}
            results.append(Result(method=name, nbits=32, seed=seed, metrics=metrics, per_query={"ap": values}))
    return results


def measure(difference, n_methods):
    """Shares over the trials."""
    rng = np.random.default_rng(0)
    n_significant = n_covered = 0
    for trial in range(N_TRIALS):
        found = find_differences(make_results(rng, difference, n_methods), baseline="baseline", random_state=trial)
        n_significant += any(each.is_significant for each in found)
        n_covered += sum(each.low <= difference <= each.high for each in found)
    return {"significant": n_significant / N_TRIALS, "covered": n_covered / (N_TRIALS * n_methods)}


def main():
    for difference, n_methods in SETTINGS:
        result = {"difference": difference, "n_methods": n_methods, **measure(difference, n_methods)}
        store(PATH, [result], ("difference", "n_methods"))
        print(result, flush=True)


if __name__ == "__main__":
    main()
