"""HashNet: the ablations of the paper's table 3, and the quantization gap.

    export SKHASH_DATA=FOLDER
    python experiments/hashnet.py                    # every task, three random splits
    python experiments/hashnet.py --tasks linear     # the tasks whose name contains linear
    python experiments/hashnet.py --tasks numbers    # when do the weights of the pairs gain?
    python experiments/hashnet.py --convergence      # the loss L of the codes after each epoch, one split

32 bits, protocol "5k", default settings. In the "imbalanced" tasks the training set keeps a
proportion of 0.6 ** c of the samples of class c. quality.py runs TALR on the same splits with the
same encoders. In the "numbers" tasks a sample is two digits of USPS side by side. Its class is the
number, one of 100, or the first digit, one of 10, so that 1 or 10 % of the pairs are similar. They
have 30 epochs. "mean_activation" is the mean size of the activations of the training samples. The
results are in experiments/results/hashnet.json.

"--convergence" measures the loss L of the codes (eqs. 2 and 4, over the sum of the weights) after each of 50 epochs, on
1,000 training samples of USPS. The theorems of the paper say that L does not change between two stages and decreases
within a stage. The results are in experiments/results/hashnet_convergence.json.
"""

import argparse

import numpy as np
from _results import RESULTS, mean_text, store
from _splits import join_digits, keep_tens, thin_out

from skhash import HashNetHasher
from skhash.comparison import evaluate_hasher
from skhash.datasets import load_dataset

NBITS = 32
VARIANTS = {
    "full": {},
    "no continuation": {"n_stages": 1},
    "unweighted": {"class_ratio": 1.0},
    "steady rise to 20": {"max_beta": 20.0, "last_beta": 20.0},
}
LAST_STAGE = ("beta", "relaxed_loss", "binary_loss", "quantization_gap")
CHANGES = {"imbalanced": thin_out, "numbers": join_digits, "first digits": keep_tens}
EPOCHS = {"numbers": 30, "first digits": 30}
#: name, data set, backbone, change of the split, variants
TASKS = [
    ("mnist linear", "mnist", None, None, ["full", "no continuation"]),
    ("mnist mlp", "mnist", "mlp", None, ["full", "no continuation", "steady rise to 20"]),
    ("mnist mlp imbalanced", "mnist", "mlp", "imbalanced", ["full", "unweighted"]),
    ("cifar gist linear", "cifar_gist", None, None, ["full", "no continuation"]),
    ("cifar gist mlp", "cifar_gist", "mlp", None, ["full", "no continuation", "unweighted", "steady rise to 20"]),
    ("cifar gist mlp imbalanced", "cifar_gist", "mlp", "imbalanced", ["full", "unweighted"]),
    ("usps numbers, 100 classes", "usps", "mlp", "numbers", ["full", "unweighted"]),
    ("usps numbers, 10 classes", "usps", "mlp", "first digits", ["full", "unweighted"]),
]

#: name, variant, options
CONVERGENCE = [
    ("usps linear", "full", {}),
    ("usps linear", "last beta 100", {"last_beta": 100.0}),
    ("usps mlp", "full", {"backbone": "mlp"}),
]


def share_of_similar_pairs(y):
    """Share of the pairs of different samples that have the same class."""
    counts = np.unique(y, return_counts=True)[1]
    return float(np.sum(counts * (counts - 1)) / (len(y) * (len(y) - 1)))


def run_task(task, dataset, backbone, change, variants, n_seeds):
    """Results of one task, one per variant and seed."""
    results = []
    for seed in range(n_seeds):
        data = load_dataset(dataset, protocol="5k", random_state=seed)
        if change:
            CHANGES[change](data, np.random.default_rng(seed))
        for variant in variants:
            options = {"affinity": data.affinity, "random_state": seed, "store_database": False}
            options |= {"backbone": backbone, "n_epochs": EPOCHS.get(change)} | VARIANTS[variant]
            hasher = HashNetHasher(NBITS, **options)
            result = {"task": task, "variant": variant, "seed": seed, "n_train": len(data.X_train)}
            result |= evaluate_hasher(hasher, data)
            result["similar_pairs"] = share_of_similar_pairs(data.y_train)
            result["mean_activation"] = float(np.abs(hasher.project(data.X_train)).mean())
            last = hasher.history_[-1]
            results.append(result | {name: last[name] for name in LAST_STAGE})
    for variant in variants:
        chosen = [result for result in results if result["variant"] == variant]
        line = f"{task:26} {variant:16} AP_T {mean_text(chosen)}"
        line += f"  similar pairs {chosen[0]['similar_pairs']:.1%}"
        line += f"  mean activation {np.mean([result['mean_activation'] for result in chosen]):.3f}"
        gaps = [100 * abs(result["quantization_gap"]) / result["binary_loss"] for result in chosen]
        print(f"{line}  gap {np.mean(gaps):.2f} % (at most {max(gaps):.2f} %) of L", flush=True)
    return results


def loss_of_codes(codes, y, scale):
    """L of codes of -1 and 1: eq. 4 with the weights of eq. 2, over the sum of the weights."""
    similar = y[:, None] == y
    different = ~np.eye(len(y), dtype=bool)
    n_similar = np.count_nonzero(similar & different)
    ratio = (len(y) * (len(y) - 1) - n_similar) / n_similar
    weights = different * np.where(similar, ratio, 1.0)
    theta = scale * codes @ codes.T
    return float((weights * (np.logaddexp(0, theta) - similar * theta)).sum() / weights.sum())


class LossPerEpoch:
    """Callback that measures L of training samples after each epoch."""

    def __init__(self, X, y):
        self.X, self.y, self.log_ = X, y, []

    def setup(self, estimator, context):
        """Begin a new log."""
        self.log_ = []

    def teardown(self, estimator, context):
        """Keep the log."""

    def on_fit_task_begin(self, estimator, context):
        """Do nothing before an epoch."""

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        """Measure one epoch, and never stop."""
        if fitted_estimator is not None:  # not at the end of the fit
            codes = np.where(fitted_estimator.project(self.X) >= 0, 1.0, -1.0)
            self.log_.append(loss_of_codes(codes, self.y, fitted_estimator._objective().scale))
        return False


def run_convergence(n_epochs=50):
    """Store L after each epoch, the number and the largest of its rises, and the share of |g| >= 0.99 at the end."""
    data = load_dataset("usps", protocol="5k", random_state=0)
    for task, variant, options in CONVERGENCE:
        log = LossPerEpoch(data.X_train[:1000], data.y_train[:1000])
        hasher = HashNetHasher(NBITS, n_epochs=n_epochs, random_state=0, store_database=False, **options)
        result = {"task": task, "variant": variant, "seed": 0}
        result |= evaluate_hasher(hasher.set_callbacks(log), data)
        g = np.tanh(hasher.history_[-1]["beta"] * hasher.project(log.X))
        rises = [float(rise) for rise in np.diff(log.log_) if rise > 0]
        result |= {"loss_per_epoch": log.log_, "first_loss": log.log_[0], "last_loss": log.log_[-1]}
        result |= {"n_rises": len(rises), "largest_rise": max(rises, default=0.0)}
        result |= {"saturated": float(np.mean(np.abs(g) >= 0.99)), "last_beta": hasher.history_[-1]["beta"]}
        print(f"{task:12} {variant:14} AP_T {mean_text([result])}  L {log.log_[0]:.4f} to {log.log_[-1]:.4f}", end="")
        print(f"  {len(rises)} of {n_epochs - 1} rise, by at most {result['largest_rise']:.1e}", end="")
        print(f"  |g| >= 0.99: {result['saturated']:.0%}", flush=True)
        store(RESULTS / "hashnet_convergence.json", [result], ("task", "variant"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", default="", help="only tasks whose name contains this")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--convergence", action="store_true", help="measure the loss of the codes after each epoch")
    options = parser.parse_args()
    if options.convergence:
        run_convergence()
        return
    for task in TASKS:
        if options.tasks in task[0]:
            store(RESULTS / "hashnet.json", run_task(*task, options.seeds), ("task", "variant"))


if __name__ == "__main__":
    main()
