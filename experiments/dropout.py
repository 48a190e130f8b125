"""The default dropout of features of linear TALR, on held-out training samples.

    export SKHASH_DATA=FOLDER
    OMP_NUM_THREADS=1 python experiments/dropout.py                  # what is stored is not measured again
    OMP_NUM_THREADS=1 python experiments/dropout.py --sets usps --seeds 0
    python experiments/dropout.py table                              # table of the stored results

The ratio p / (1 - p) of dropout is min(slope * n_features / n_samples, bound), with the same slope and bound for all
data sets. The splits are those of fewer_steps.py, without the queries of the protocols.

The results are in experiments/results/dropout.json, the table in dropout.md.
"""

import argparse

import numpy as np
from _results import RESULTS, as_markdown, rank, read, store
from defaults import LARGE_SETS
from fewer_steps import NBITS, load

from skhash import TALRHasher
from skhash.comparison import mean_and_spread

SETTINGS = ((1.5, 1.0), (3.0, 0.6), (3.0, 1.0), (6.0, 1.0))  # slope, bound
PATH = RESULTS / "dropout.json"


def measure(name, seed):
    """AP_T with each slope and bound."""
    data, results = load(name, seed), []
    for slope, bound in SETTINGS:
        ratio = min(slope * data.X_train.shape[1] / len(data.X_train), bound)
        options = {"affinity": data.affinity, "random_state": seed, "store_database": False}
        hasher = TALRHasher(NBITS, input_dropout=ratio / (1 + ratio), **options).fit(data.X_train, data.y_train)
        results.append({"set": name, "seed": seed, "slope": slope, "bound": bound} | rank(hasher, data, ["ap"]))
    return results


def make_table(results):
    """Markdown of the table: means over the seeds."""
    rows = [["data", "seeds", *(f"slope {slope:g}, bound {bound:g}" for slope, bound in SETTINGS)]]
    for name, (title, _) in LARGE_SETS.items():
        of_set = [
            [
                result["ap"]
                for result in results
                if (result["set"], result["slope"], result["bound"]) == (name, *setting)
            ]
            for setting in SETTINGS
        ]
        if of_set[0]:
            rows.append([title, str(len(of_set[0])), *(mean_and_spread(np.array(aps), 4) for aps in of_set)])
    return as_markdown(rows) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", nargs="?", choices=["measure", "table"], default="measure")
    parser.add_argument("--sets", nargs="+", default=list(LARGE_SETS), choices=list(LARGE_SETS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1])
    options = parser.parse_args()
    for seed in options.seeds if options.command == "measure" else ():
        for name in options.sets:
            if not any((result["set"], result["seed"]) == (name, seed) for result in read(PATH)):
                results = measure(name, seed)
                store(PATH, results, ("set", "seed", "slope", "bound"))
                print(name, seed, *(f"{result['ap']:.4f}" for result in results), flush=True)
    table = make_table(read(PATH))
    PATH.with_suffix(".md").write_text(table, encoding="utf-8")
    print(table)


if __name__ == "__main__":
    main()
