"""What the first bits of a code find, against a fit with so many bits: the nearest vectors, and samples of a class.

    export SKHASH_DATA=FOLDER
    python experiments/prefixes.py                            # what is stored is not measured again
    python experiments/prefixes.py --sets text --seeds 0 --methods embedding
    python experiments/prefixes.py table                      # table of the stored results

FOLDER has the vectors of the sets as in neighbors.py, whose splits these are, with 20,000 items at most. Of each method
there is one fit of 384 bits, as many as there are dimensions, and one of each shorter length. "embedding-prefixes" is
EmbeddingHasher(384, prefixes=(64, 128, 256)), and "embedding-two-prefixes" has (128, 256), beside the same fits of each
length. The results are in experiments/results/prefixes.json, the table in prefixes.md.

The sets "usps", "mnist" and "cifar_gist" rank by classes, protocol "5k". "talr" is TALRHasher(64) and fits of 16 and
32 bits, "talr-prefixes" is TALRHasher(64, prefixes=(16, 32)). With "-mlp" they have two hidden layers. Their results
are in prefixes_by_classes.json, the table in prefixes_by_classes.md.
"""

import argparse
import itertools

import numpy as np
from _results import RESULTS, as_markdown, rank, read, store
from neighbors import vectors_of

from skhash.comparison._neighbors import HasherIndex, search_recalls
from skhash.comparison.methods import make_hasher
from skhash.datasets import load_dataset
from skhash.registry import METHODS

PATH = RESULTS / "prefixes.json"
NBITS = 384
LENGTHS = (64, 128, 256)
N_ITEMS = 20_000
SETS = {"text": "text", "wordnet": "WordNet"}
WITH_PREFIXES = {"embedding-prefixes": LENGTHS, "embedding-two-prefixes": LENGTHS[1:]}
KINDS = ("lsh", "pca", "itq", "embedding", *WITH_PREFIXES)
KEYS = ("set", "method", "nbits", "fitted_nbits", "seed")
BY_CLASSES = RESULTS / "prefixes_by_classes.json"
CLASS_LENGTHS = (16, 32, 64)
CLASS_SETS = {"usps": "USPS", "mnist": "MNIST", "cifar_gist": "CIFAR-10 GIST"}
CLASS_KINDS = ("talr", "talr-prefixes", "talr-mlp", "talr-mlp-prefixes")


def recalls(hasher, vectors):
    """R@10 by Hamming distance and by real queries."""
    index = HasherIndex(hasher)
    index.add(vectors.items)
    searches = {"hamming": index.search_codes, "real": index.search}
    return {name: round(search_recalls(search, vectors)[0].mean(), 5) for name, search in searches.items()}


def measure(name, method, seed):
    """Results of the prefixes of a long code, and of codes of their lengths."""
    vectors, _ = vectors_of(name, seed, N_ITEMS)
    parameters = {"metric": vectors.metric} if method.startswith("embedding") else {}
    prefixes = WITH_PREFIXES.get(method, ())
    if prefixes:
        parameters["prefixes"] = prefixes
    lengths = (NBITS,) if prefixes else (*LENGTHS, NBITS)
    fitted = {n: make_hasher(own_fit(method), n, seed, "auto", **parameters).fit(vectors.items) for n in lengths}
    hashers = {(n, n): hasher for n, hasher in fitted.items()}
    hashers |= {(n, NBITS): fitted[NBITS].prefix(n) for n in prefixes or LENGTHS}
    return [
        {"set": name, "method": method, "nbits": nbits, "fitted_nbits": n, "seed": seed} | recalls(hasher, vectors)
        for (nbits, n), hasher in sorted(hashers.items())
    ]


def own_fit(method):
    """Method that is fitted to each length by itself."""
    return "embedding" if method in WITH_PREFIXES else method


def measure_by_classes(name, method, seed):
    """AP_T of the prefixes of a TALRHasher; without trained prefixes also of fits of their lengths."""
    data, *shorter, most = load_dataset(name, protocol="5k", random_state=seed), *CLASS_LENGTHS
    kind, is_trained = method.removesuffix("-prefixes"), method.endswith("-prefixes")
    parameters = {"prefixes": tuple(shorter)} if is_trained else {}
    fitted = {
        n: make_hasher(kind, n, seed, data.affinity, **parameters).fit(data.X_train, data.y_train)
        for n in ([most] if is_trained else CLASS_LENGTHS)
    }
    hashers = {(n, n): hasher for n, hasher in fitted.items()} | {(n, most): fitted[most].prefix(n) for n in shorter}
    return [
        dict(zip(KEYS, (name, method, *lengths, seed), strict=True)) | rank(hasher, data, ["ap"])
        for lengths, hasher in sorted(hashers.items())
    ]


def make_class_table(results):
    """Markdown of the table: AP_T of prefixes, and in parentheses that of own fits, means over the seeds."""
    aps = {}
    for result in results:
        aps.setdefault(tuple(result[key] for key in KEYS[:4]), []).append(result["ap"])
    means, (*_, most) = {key: f"{np.mean(found):.3f}" for key, found in aps.items()}, CLASS_LENGTHS
    lines = [["data", "hasher", *(f"{n} bits" for n in CLASS_LENGTHS)]]
    for name, method in itertools.product(CLASS_SETS, CLASS_KINDS):
        own, is_trained = method.removesuffix("-prefixes"), method.endswith("-prefixes")
        if (name, method, most, most) in means:
            cells = [f"{means[name, method, n, most]} ({means[name, own, n, n]})" for n in CLASS_LENGTHS[:-1]]
            whole = f" ({means[name, own, most, most]})" if is_trained else ""
            title = "TALRHasher" + (', "mlp"' if "mlp" in method else "")
            title += f", prefixes={CLASS_LENGTHS[:-1]}" if is_trained else ""
            lines.append([CLASS_SETS[name], title, *cells, means[name, method, most, most] + whole])
    return as_markdown(lines) + "\n"


def make_table(results):
    """Markdown of the table: R@10 of prefixes, and in parentheses that of own fits, means over the seeds."""
    values = {}
    for result in results:
        for search in ("hamming", "real"):
            values.setdefault((*(result[k] for k in KEYS[:4]), search), []).append(result[search])
    means = {key: f"{np.mean(found):.3f}" for key, found in values.items()}
    lines = [["data", "method", "search", *(f"{n} bits" for n in LENGTHS), f"{NBITS} bits"]]
    for name, method, search in itertools.product(SETS, KINDS, ("hamming", "real")):
        own, prefixes = own_fit(method), WITH_PREFIXES.get(method, ())
        if (name, method, NBITS, NBITS, search) in means:
            cells = [
                f"{means[name, method, n, NBITS, search]} ({means[name, own, n, n, search]})"
                if (name, method, n, NBITS, search) in means
                else ""
                for n in LENGTHS
            ]
            whole = means[name, method, NBITS, NBITS, search]
            if prefixes:
                whole += f" ({means[name, own, NBITS, NBITS, search]})"
            title = METHODS[own].class_name + (f", prefixes={prefixes}" if prefixes else "")
            lines.append([SETS[name], title, search, *cells, whole])
    return as_markdown(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", nargs="?", choices=["measure", "table"], default="measure")
    sets, kinds = [*SETS, *CLASS_SETS], [*KINDS, *CLASS_KINDS]
    parser.add_argument("--sets", nargs="+", default=sets, choices=sets)
    parser.add_argument("--methods", nargs="+", default=kinds, choices=kinds)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    options = parser.parse_args()
    cells = itertools.product(options.seeds, options.sets, options.methods) if options.command == "measure" else ()
    for seed, name, method in cells:
        path, function = (PATH, measure) if name in SETS else (BY_CLASSES, measure_by_classes)
        stored = {(result["set"], result["method"], result["seed"]) for result in read(path)}
        if (name in SETS) == (method in KINDS) and (name, method, seed) not in stored:
            results = function(name, method, seed)
            store(path, results, KEYS)
            print(*results, sep="\n", flush=True)
    for path, table in ((PATH, make_table(read(PATH))), (BY_CLASSES, make_class_table(read(BY_CLASSES)))):
        path.with_suffix(".md").write_text(table, encoding="utf-8")
        print(f"written: {path.with_suffix('.md')}\n\n{table}")


if __name__ == "__main__":
    main()
