"""Defaults of deep hashers, searched for all methods alike, on data that no comparison ranks.

    export SKHASH_DATA=FOLDER
    python experiments/defaults.py                             # what is stored is not measured again
    python experiments/defaults.py --methods dpsh --sets usps
    python experiments/defaults.py table                       # tables of the stored results

All hashers have two hidden layers and 32 bits. Only training samples are used, of protocol "5k" ("holdout" for
digits, WordNet and the features of EfficientNet, "mirflickr" for MIRFlickr): 1,000 to learn from, and at most 1,000
others that are ranked for each other. Five sets have few samples per class: in "digit_pairs" a sample is two digits
side by side, of 100 classes, and WordNet has 45. In "mnist_imbalanced" class c has 0.6 ** c times as many as class 0.

All methods have the same candidates, which change the earlier defaults of the method, and three seeds. A candidate is
adopted if the median of its gains over the sets is above 0, their mean is above its standard error, and no set loses
0.01; a weight decay or dropout of hidden units only if it gains 0.01 beyond the dropout of features. "left out" is the
mean gain if the other sets choose the candidate of each set.

The results are in experiments/results/defaults/<method>.json, the tables in experiments/results/defaults.md.
"""

import argparse
import time
import warnings

import numpy as np
from _results import RESULTS, as_markdown, rank, read, store
from _splits import join_digits, rank_held_out, take_per_class, thin_out
from sklearn.model_selection import train_test_split

from skhash.comparison import make_hasher
from skhash.datasets import load_dataset

NBITS, N_TRAIN, N_RANKED, N_PER_CLASS = 32, 1000, 1000, 30
MOST_BEHIND = 0.05
FOLDER, TABLES = RESULTS / "defaults", RESULTS / "defaults.md"
#: set to its name and its protocol
LARGE_SETS = {
    "digits": ("digits", "holdout"),
    "usps": ("USPS", "5k"),
    "mnist": ("MNIST", "5k"),
    "cifar_gist": ("CIFAR-10 GIST", "5k"),
    "fashion_mnist": ("Fashion-MNIST", "5k"),
    "mirflickr": ("MIRFlickr", "mirflickr"),
}
#: set of few samples to its name, the set it is taken from, its protocol, and its number of samples to learn from
SMALL_SETS = {
    "usps_few": ("USPS, 20 per class", "usps", "5k", 200),
    "fashion_few": ("Fashion-MNIST, 50 per class", "fashion_mnist", "5k", 500),
    "efficientnet_few": ("CIFAR-10 EfficientNet, 50 per class", "cifar10_efficientnet1280", "holdout", 500),
    "wordnet_few": ("WordNet, 30 per class", "wordnet_minilm384", "holdout", 1350),
    "digit_pairs": ("pairs of digits", "digits", "holdout", 2000),
    "mnist_imbalanced": ("MNIST, imbalanced", "mnist", "5k", 4000),
}
SETS = LARGE_SETS | SMALL_SETS
TITLES = {name: values[0] for name, values in SETS.items()}
METHODS = ("talr", "hashnet", "dpsh", "dtsh", "dhn", "greedyhash", "orthohash", "mihash", "fastap", "csq")
#: earlier defaults; "bound" is the largest ratio p / (1 - p) of the dropout of features
EARLIER = {method: {"weight_decay": 0.1, "hidden_dropout": 0.3, "bound": 3.0} for method in METHODS} | {
    "hashnet": {"weight_decay": 3.0, "hidden_dropout": 0.3, "bound": 3.0},
    "mihash": {"weight_decay": 0.1, "hidden_dropout": 0.0, "bound": 3.0},
}
#: changes of the earlier defaults; None stands for the present defaults
CANDIDATES = {
    "earlier": {},
    "bound 1": {"bound": 1.0},
    "bound 1, decay 1": {"bound": 1.0, "weight_decay": 1.0},
    "bound 1, hidden 0.1": {"bound": 1.0, "hidden_dropout": 0.1},
    "bound 1, decay 1, hidden 0.1": {"bound": 1.0, "weight_decay": 1.0, "hidden_dropout": 0.1},
    "defaults": None,
}
#: changes that were measured with one seed; "slope" has the effective number of features in place of their number
ONE_SEED = {
    "decay 1": {"weight_decay": 1.0},
    "learning rate 0.001": {"learning_rate": 0.001},
    "bound 1, effective features": {"bound": 1.0, "slope": 30.0},
}
KEYS = ("set", "method", "candidate", "seed")


def make_cell(name, method, candidate, seed):
    """What identifies a measurement."""
    return dict(zip(KEYS, (name, method, candidate, seed), strict=True))


def list_candidates(method, n_seeds):
    """Candidates of a method, each with the seeds that measure it."""
    for candidate in CANDIDATES:
        if not (method == "mihash" and "hidden" in candidate):  # it has no dropout of hidden units
            yield from ((candidate, seed) for seed in range(n_seeds))
    yield from ((candidate, 0) for candidate in ONE_SEED)


def make_parameters(method, candidate, X):
    """Parameters of a candidate for the training samples X."""
    change = (CANDIDATES | ONE_SEED)[candidate]
    if change is None:
        return {}
    parameters = EARLIER[method] | change
    slope, bound = parameters.pop("slope", None), parameters.pop("bound")
    n_features = 4 * X.shape[1] if slope is None else slope * count_effective_features(X)
    noise = min(n_features / len(X), bound)
    return parameters | {"input_dropout": noise / (1 + noise)}


def count_effective_features(X):
    """(tr C)^2 / tr C^2 of the covariance matrix C: features that are correlated count less."""
    variances = np.linalg.eigvalsh(np.cov(X.T))
    return variances.sum() ** 2 / (variances**2).sum()


def load(name, seed):
    """Split of the training samples alone."""
    source, protocol, n_train = SMALL_SETS[name][1:] if name in SMALL_SETS else (name, LARGE_SETS[name][1], N_TRAIN)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the queries of WordNet are not read
        data = load_dataset(source, protocol=protocol, random_state=seed)
    if name == "wordnet_few":  # its classes have 42 to 14,435 samples
        learned, rest = take_per_class(data.y_train, N_PER_CLASS, seed)
    else:
        options = {"random_state": seed, "stratify": data.y_train if data.y_train.ndim == 1 else None}
        n_images = len(data.X_train) // 2 if name == "digit_pairs" else n_train
        learned, rest = train_test_split(np.arange(len(data.X_train)), train_size=n_images, **options)
    data = rank_held_out(data.X_train, data.y_train, learned, rest[:N_RANKED], data.affinity)
    if name == "mnist_imbalanced":
        thin_out(data, np.random.default_rng(seed))
    if name == "digit_pairs":  # of other images for each part
        join_digits(data, np.random.default_rng(seed), N_RANKED, N_RANKED, n_train)
        data.X_query, data.y_query = data.X_database, data.y_database
    return data


def measure(name, method, candidate, seed):
    """AP_T of one fit on held-out training samples."""
    data = load(name, seed)
    parameters = make_parameters(method, candidate, data.X_train)
    hasher = make_hasher(f"{method}-mlp", NBITS, seed, data.affinity, **parameters)
    start = time.process_time()
    hasher.fit(data.X_train, data.y_train)
    seconds = round(time.process_time() - start, 1)
    return make_cell(name, method, candidate, seed) | {"cpu_seconds": seconds} | rank(hasher, data, ["ap"])


def path_of(method):
    """File of the results of a method."""
    return FOLDER / f"{method}.json"


def read_all():
    """Results of all methods."""
    return [result for method in METHODS for result in read(path_of(method))]


def is_stored(name, method, candidate, seed):
    """Whether a result is stored."""
    cell = make_cell(name, method, candidate, seed)
    return any(cell.items() <= result.items() for result in read(path_of(method)))


def mean_aps(results, method, candidates):
    """Mean AP_T over the seeds of each candidate, by set, of those that were measured on all sets."""
    aps = {}
    for result in results:
        if result["method"] == method and result["candidate"] in candidates:
            aps.setdefault(result["candidate"], {}).setdefault(result["set"], []).append(result["ap"])
    return {
        candidate: np.array([np.mean(aps[candidate][name]) for name in SETS])
        for candidate in candidates
        if set(aps.get(candidate, ())) == set(SETS)
    }


def left_out_gain(aps):
    """Mean over the sets of the gain of the candidate that the other sets choose."""
    table = np.array([values for candidate, values in aps.items() if candidate != "defaults"])
    chosen = [np.delete(table, i, axis=1).mean(axis=1).argmax() for i in range(len(SETS))]
    return float((table[chosen, range(len(SETS))] - aps["earlier"]).mean())


def make_tables(results):
    """Markdown of the tables of all methods that were measured on all sets."""
    measured = {method: mean_aps(results, method, CANDIDATES) for method in METHODS}
    measured = {method: aps for method, aps in measured.items() if {"earlier", "defaults"} <= aps.keys()}
    first = [result for result in results if result["seed"] == 0]
    tables = [defaults_table(measured), gains_table(measured), one_seed_table(first), behind_table(measured)]
    return "\n\n".join(tables) + "\n"


def defaults_table(measured):
    """AP_T with the earlier and the present defaults."""
    rows = [["method", "settings", *TITLES.values(), "mean"]]
    best = {c: np.max([aps[c] for aps in measured.values()], axis=0) for c in ("earlier", "defaults")}
    for method, aps in measured.items():
        for candidate, highest in best.items():
            values = aps[candidate]
            cells = np.where(values == highest, [f"**{v:.3f}**" for v in values], [f"{v:.3f}" for v in values])
            rows.append([method, candidate, *cells, f"{values.mean():.3f}"])
    head = "AP_T on held-out training samples, means over the seeds (bold: the best method with these settings):"
    return f"{head}\n\n{as_markdown(rows)}"


def gains_table(measured):
    """Gains of each candidate over the earlier defaults: over the sets, and on the set that loses most."""
    rows = [["method", "settings", "mean gain", "median", "smallest", "on"]]
    for method, aps in measured.items():
        for candidate, values in aps.items():
            if candidate != "earlier":
                rows.append([method, candidate, *describe_gains(values - aps["earlier"])])
        rows.append([method, "left out", f"{left_out_gain(aps):+.4f}", "", "", ""])
    return "Gains over the earlier defaults, with the standard error over the sets:\n\n" + as_markdown(rows)


def describe_gains(gains):
    """Mean and its standard error, median, and the smallest gain with its set."""
    error = gains.std(ddof=1) / np.sqrt(len(gains))
    worst = int(gains.argmin())
    mean = f"{gains.mean():+.4f} ± {error:.4f}"
    return [mean, f"{np.median(gains):+.4f}", f"{gains[worst]:+.4f}", list(TITLES.values())[worst]]


def one_seed_table(results):
    """Gains of the candidates with one seed."""
    rows = [["method", "settings", "mean gain", "median", "smallest", "on"]]
    for method in METHODS:
        aps = mean_aps(results, method, ["earlier", *ONE_SEED])
        rows += [[method, name, *describe_gains(aps[name] - aps["earlier"])] for name in ONE_SEED if name in aps]
    return "Settings with one seed, not adopted:\n\n" + as_markdown(rows)


def behind_table(measured):
    """Methods that are more than 0.05 below the best of a set."""
    best = np.max([aps["defaults"] for aps in measured.values()], axis=0)
    rows = [["method", "more than 0.05 below the best on"]]
    for method, aps in measured.items():
        behind = zip(TITLES.values(), best - aps["defaults"], strict=True)
        rows.append([method, ", ".join(f"{title} ({gap:.3f})" for title, gap in behind if gap > MOST_BEHIND)])
    rows = [row for row in rows if row[1]]
    return "Methods that are far below the best with the defaults:\n\n" + as_markdown(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", nargs="?", choices=["measure", "table"], default="measure")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    cells = [
        (name, method, candidate, seed)
        for method in options.methods
        for candidate, seed in list_candidates(method, options.seeds)
        for name in options.sets
    ]
    for cell in cells if options.command == "measure" else ():
        if not is_stored(*cell):
            result = measure(*cell)
            store(path_of(result["method"]), [result], KEYS)
            print(result, flush=True)
    tables = make_tables(read_all())
    TABLES.write_text(tables, encoding="utf-8")
    print(f"written: {TABLES}\n\n{tables}")


if __name__ == "__main__":
    main()
