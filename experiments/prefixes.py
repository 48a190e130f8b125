"""How many of the ten nearest vectors the first bits of a code find, against a fit with so many bits.

    export SKHASH_DATA=FOLDER
    python experiments/prefixes.py                            # what is stored is not measured again
    python experiments/prefixes.py --sets text --seeds 0 --methods embedding
    python experiments/prefixes.py table                      # table of the stored results

FOLDER has the vectors of the sets as in neighbors.py, whose splits these are, with 20,000 items at most. Of each method
there is one fit of 384 bits, as many as there are dimensions, and one of each shorter length. "embedding-prefixes" is
EmbeddingHasher(384, prefixes=(64, 128, 256)), and "embedding-two-prefixes" has (128, 256), beside the same fits of each
length.
The results are in experiments/results/prefixes.json, the table in prefixes.md.
"""

import argparse
import itertools

import numpy as np
from _results import RESULTS, as_markdown, read, store
from neighbors import vectors_of

from skhash.comparison._neighbors import HasherIndex, search_recalls
from skhash.comparison.methods import make_hasher
from skhash.registry import METHODS

PATH = RESULTS / "prefixes.json"
NBITS = 384
LENGTHS = (64, 128, 256)
N_ITEMS = 20_000
SETS = {"text": "text", "wordnet": "WordNet"}
WITH_PREFIXES = {"embedding-prefixes": LENGTHS, "embedding-two-prefixes": LENGTHS[1:]}
KINDS = ("lsh", "pca", "itq", "embedding", *WITH_PREFIXES)
KEYS = ("set", "method", "nbits", "fitted_nbits", "seed")


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
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    parser.add_argument("--methods", nargs="+", default=list(KINDS), choices=KINDS)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    options = parser.parse_args()
    for seed in options.seeds if options.command == "measure" else ():
        for name in options.sets:
            for method in options.methods:
                stored = {(result["set"], result["method"], result["seed"]) for result in read(PATH)}
                if (name, method, seed) not in stored:
                    results = measure(name, method, seed)
                    store(PATH, results, KEYS)
                    print(*results, sep="\n", flush=True)
    table = make_table(read(PATH))
    PATH.with_suffix(".md").write_text(table, encoding="utf-8")
    print(f"written: {PATH.with_suffix('.md')}\n\n{table}")


if __name__ == "__main__":
    main()
