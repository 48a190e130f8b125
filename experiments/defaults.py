"""Defaults of deep hashers on data that did not choose them: settings chosen on all sets but one, measured on that one.

    export SKHASH_DATA=FOLDER
    python experiments/defaults.py                             # what is stored is not measured again
    python experiments/defaults.py --methods dpsh --sets usps
    python experiments/defaults.py table                       # tables of the stored results

All hashers have two hidden layers and 32 bits. Only training samples are used, of protocol "5k" ("holdout" for digits,
WordNet and the features of EfficientNet, "mirflickr" for MIRFlickr): 1,000 to learn from, and at most 1,000 others that
are ranked for each other. Five sets have few samples per class: in "digit_pairs" a sample is two digits side by side, of
100 classes, and WordNet has 45. In "mnist_imbalanced" class c has 0.6 ** c times the samples of class 0. The first
candidate of a method is its defaults; all methods have the same others, and three seeds. For each set, the candidate
with the best mean AP_T on the other sets is chosen, so that no set chooses the settings that are measured on it.

The results are in experiments/results/defaults.json, the tables in defaults.md.
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
PATH = RESULTS / "defaults.json"
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
SHARED = [{}, {"weight_decay": 1.0}]
#: candidates of each method, the defaults first
CANDIDATES = {
    "hashnet": [*SHARED, {"weight_decay": 0.1, "scale": 10 / NBITS}, {"last_beta": 5.0}, {"learning_rate": 1e-3}],
    "talr": [*SHARED, {"learning_rate": 1e-3}],
    "dpsh": SHARED,
    "dtsh": SHARED,
    "dhn": SHARED,
    "greedyhash": SHARED,
    "orthohash": SHARED,
    "mihash": SHARED,
    "fastap": SHARED,
    "csq": SHARED,
}


def make_cell(name, method, parameters, seed):
    """What identifies a measurement."""
    candidate = ", ".join(f"{key}={value}" for key, value in parameters.items()) or "defaults"
    n_train = SMALL_SETS[name][3] if name in SMALL_SETS else N_TRAIN
    return {"set": name, "method": method, "candidate": candidate, "n_train": n_train, "seed": seed}


def load(name, seed):
    """Split of the training samples alone."""
    source, protocol, n_train = SMALL_SETS[name][1:] if name in SMALL_SETS else (name, LARGE_SETS[name][1], N_TRAIN)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the queries of WordNet are not read
        data = load_dataset(source, protocol=protocol, random_state=seed)
    options = {"random_state": seed, "stratify": data.y_train if data.y_train.ndim == 1 else None}
    n_images = len(data.X_train) // 2 if name == "digit_pairs" else n_train
    learned, rest = train_test_split(np.arange(len(data.X_train)), train_size=n_images, **options)
    if name == "wordnet_few":  # its classes have 42 to 14,435 samples
        learned, rest = take_per_class(data.y_train, N_PER_CLASS, seed)
    data = rank_held_out(data.X_train, data.y_train, learned, rest[:N_RANKED], data.affinity)
    if name == "mnist_imbalanced":
        thin_out(data, np.random.default_rng(seed))
    if name == "digit_pairs":  # of other images for each part
        join_digits(data, np.random.default_rng(seed), N_RANKED, N_RANKED, n_train)
        data.X_query, data.y_query = data.X_database, data.y_database
    return data


def measure(name, method, parameters, seed):
    """AP_T of one fit on held-out training samples."""
    data = load(name, seed)
    hasher = make_hasher(f"{method}-mlp", NBITS, seed, data.affinity, **parameters)
    start = time.process_time()
    hasher.fit(data.X_train, data.y_train)
    seconds = round(time.process_time() - start, 1)
    return make_cell(name, method, parameters, seed) | {"cpu_seconds": seconds} | rank(hasher, data, ["ap"])


def is_stored(name, method, parameters, seed):
    """Whether a result is stored."""
    cell = make_cell(name, method, parameters, seed)
    return any(cell.items() <= result.items() for result in read(PATH))


def mean_aps(results, method):
    """Mean AP_T over the seeds, by candidate and set, of the candidates that were measured on all sets."""
    values = {}
    for result in results:
        if result["method"] == method:
            values.setdefault(result["candidate"], {}).setdefault(result["set"], []).append(result["ap"])
    return {
        candidate: {name: float(np.mean(by_set[name])) for name in SETS}
        for candidate, by_set in values.items()
        if all(name in by_set for name in SETS)
    }


def left_out(aps, name):
    """Candidate that the other sets choose; its AP_T on this set, and its mean on the others."""
    elsewhere = {c: float(np.mean([by_set[s] for s in SETS if s != name])) for c, by_set in aps.items()}
    chosen = max(elsewhere, key=elsewhere.__getitem__)
    return chosen, aps[chosen][name], elsewhere[chosen]


def make_tables(results):
    """Markdown of the tables of all methods that were measured on all sets."""
    measured = {method: mean_aps(results, method) for method in CANDIDATES}
    measured = {method: aps for method, aps in measured.items() if len(aps) == len(CANDIDATES[method])}
    tables = [candidate_table(measured), left_out_table(measured)]
    if {"talr", "hashnet"} <= measured.keys():
        tables.append(lead_table(measured))
    return "\n\n".join(tables) + "\n"


def candidate_table(measured):
    """AP_T of all candidates."""
    rows = [["method", "settings", *TITLES.values(), "mean"]]
    for method, aps in measured.items():
        for candidate, by_set in aps.items():
            values = [*by_set.values(), np.mean(list(by_set.values()))]
            rows.append([method, candidate, *(f"{value:.3f}" for value in values)])
    return "AP_T of each candidate on held-out training samples:\n\n" + as_markdown(rows)


def left_out_table(measured):
    """AP_T on each left-out set of the candidate that the others choose, and its difference from the defaults."""
    rows = [["method", *TITLES.values(), "mean minus the defaults", "settings chosen"]]
    for method, aps in measured.items():
        chosen = {name: left_out(aps, name)[0] for name in SETS}
        gains = {name: aps[chosen[name]][name] - aps["defaults"][name] for name in SETS}
        cells = [
            f"{aps[chosen[name]][name]:.3f}" + ("" if chosen[name] == "defaults" else f" ({gains[name]:+.3f})")
            for name in SETS
        ]
        settings = ", ".join(dict.fromkeys(chosen.values()))
        rows.append([method, *cells, f"{np.mean(list(gains.values())):+.3f}", settings])
    head = "AP_T on each left-out set, with the settings that the other sets choose (in parentheses what they gain):"
    return f"{head}\n\n{as_markdown(rows)}"


def lead_table(measured):
    """Lead of TALR over HashNet on each left-out set and on the sets that choose."""
    rows = [["left out", "TALR minus HashNet", "mean on the other sets", "larger by"]]
    for name, title in TITLES.items():
        (_, talr, talr_elsewhere), (_, hashnet, hashnet_elsewhere) = (
            left_out(measured[method], name) for method in ("talr", "hashnet")
        )
        lead, elsewhere = talr - hashnet, talr_elsewhere - hashnet_elsewhere
        rows.append([title, *(f"{value:+.3f}" for value in (lead, elsewhere, lead - elsewhere))])
    return "TALR minus HashNet on each left-out set, and on the sets that choose the settings:\n\n" + as_markdown(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", nargs="?", choices=["measure", "table"], default="measure")
    parser.add_argument("--methods", nargs="+", default=list(CANDIDATES), choices=list(CANDIDATES))
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    parser.add_argument("--candidates", type=int, help="number of candidates of each method, all by default")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    cells = [
        (name, method, parameters, seed)
        for seed in range(options.seeds)
        for method in options.methods
        for parameters in CANDIDATES[method][: options.candidates]
        for name in options.sets
    ]
    for cell in cells if options.command == "measure" else ():
        if not is_stored(*cell):
            result = measure(*cell)
            store(PATH, [result], ("set", "method", "candidate", "n_train", "seed"))
            print(result, flush=True)
    tables = make_tables(read(PATH))
    PATH.with_suffix(".md").write_text(tables, encoding="utf-8")
    print(f"written: {PATH.with_suffix('.md')}\n\n{tables}")


if __name__ == "__main__":
    main()
