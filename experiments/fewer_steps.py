"""Default linear TALR against a training of 0.4 times as many steps, on held-out training samples.

    export SKHASH_DATA=FOLDER
    OMP_NUM_THREADS=1 python experiments/fewer_steps.py                  # what is stored is not measured again
    OMP_NUM_THREADS=1 python experiments/fewer_steps.py --sets usps --seeds 0
    python experiments/fewer_steps.py table                              # table of the stored results

32 bits; 80 % of the training samples of protocol "5k" ("holdout" for digits, "mirflickr" for MIRFlickr) learn, and
the others, at most 1,000, are ranked for each other. The queries of the protocols are not used.

"short" trains for 1,000 steps, and at most 50 epochs, with the learning rate 0.8 / sqrt(n_features), the weight decay
sqrt(n_features) / 16, and the mean of the weights after each of the last 40 % of the epochs. It is the best of the
shorter trainings that were tried, and loses AP_T on some sets, so that it is not the default.

The results are in experiments/results/fewer_steps.json, the table in fewer_steps.md.
"""

import argparse
import math
import time

import numpy as np
from _results import RESULTS, as_markdown, rank, read, store
from _splits import rank_held_out
from defaults import LARGE_SETS
from sklearn.model_selection import train_test_split
from torch.optim.swa_utils import AveragedModel

from skhash import TALRHasher
from skhash.comparison import mean_and_spread
from skhash.datasets import load_dataset
from skhash.engine import count_batches

NBITS, N_RANKED = 32, 1000
PATH = RESULTS / "fewer_steps.json"


class ShortTALRHasher(TALRHasher):
    """TALRHasher in fewer epochs, with the mean of the last weights."""

    def _resolve_defaults(self, X):
        super()._resolve_defaults(X)
        n_epochs = int(np.clip(math.ceil(1000 / count_batches(len(X), self.settings_["batch_size"])), 30, 50))
        rate = 0.8 / math.sqrt(X.shape[1])
        self.settings_ |= {"n_epochs": n_epochs, "learning_rate": rate, "weight_decay": 0.05 / rate}

    def _build_trainer(self, encoder, *args, **changes):
        trainer = super()._build_trainer(encoder, *args, **changes)
        n_epochs, run_epoch, mean = trainer.schedule.n_epochs, trainer.run_epoch, AveragedModel(encoder)

        def run_averaged_epoch():
            loss = run_epoch()
            if trainer.n_epochs_done > n_epochs - round(0.4 * n_epochs):
                mean.update_parameters(encoder)
            if trainer.n_epochs_done == n_epochs:
                encoder.load_state_dict(mean.module.state_dict())
            return loss

        trainer.run_epoch = run_averaged_epoch
        return trainer


HASHERS = {"default": TALRHasher, "short": ShortTALRHasher}


def load(name, seed):
    """Split of the training samples alone."""
    data = load_dataset(name, protocol=LARGE_SETS[name][1], random_state=seed)
    options = {"test_size": 0.2, "stratify": data.y_train if data.y_train.ndim == 1 else None, "random_state": seed}
    learned, rest = train_test_split(np.arange(len(data.X_train)), **options)
    return rank_held_out(data.X_train, data.y_train, learned, rest[:N_RANKED], data.affinity)


def measure(name, seed):
    """AP_T and CPU seconds of both hashers."""
    data = load(name, seed)
    results = []
    for kind, Hasher in HASHERS.items():
        hasher = Hasher(NBITS, affinity=data.affinity, random_state=seed, store_database=False)
        start = time.process_time()
        hasher.fit(data.X_train, data.y_train)
        cell = {"set": name, "seed": seed, "hasher": kind, "cpu_seconds": round(time.process_time() - start, 2)}
        results.append(cell | rank(hasher, data, ["ap"]))
    return results


def make_table(results):
    """Markdown of the table: means over the seeds."""
    rows = [["data", "seeds", "AP_T default", "AP_T short", "difference", "CPU s default", "CPU s short", "ratio"]]
    for name, (title, _) in LARGE_SETS.items():
        of_set = [
            [result for result in results if (result["set"], result["hasher"]) == (name, kind)] for kind in HASHERS
        ]
        if of_set[1]:
            aps = [np.array([result["ap"] for result in results_of]) for results_of in of_set]
            default, short = (np.mean([result["cpu_seconds"] for result in results_of]) for results_of in of_set)
            texts = [mean_and_spread(values, 4) for values in (*aps, aps[1] - aps[0])]
            rows.append([title, str(len(aps[0])), *texts, f"{default:.2f}", f"{short:.2f}", f"{default / short:.1f}"])
    return as_markdown(rows) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", nargs="?", choices=["measure", "table"], default="measure")
    parser.add_argument("--sets", nargs="+", default=list(LARGE_SETS), choices=list(LARGE_SETS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    options = parser.parse_args()
    if options.command == "measure":
        TALRHasher(8, n_epochs=1).fit(np.eye(4), [0, 0, 1, 1])  # compile the kernels
    for seed in options.seeds if options.command == "measure" else ():
        for name in options.sets:
            if not any((result["set"], result["seed"]) == (name, seed) for result in read(PATH)):
                results = measure(name, seed)
                store(PATH, results, ("set", "seed", "hasher"))
                print(*results, sep="\n", flush=True)
    table = make_table(read(PATH))
    PATH.with_suffix(".md").write_text(table, encoding="utf-8")
    print(f"written: {PATH.with_suffix('.md')}\n\n{table}")


if __name__ == "__main__":
    main()
