"""What a search by 128 bits, and then by all 384, loses of the ten nearest vectors against one by 384 bits alone.

    export SKHASH_DATA=FOLDER
    python experiments/cascade.py                             # what is stored is not measured again
    python experiments/cascade.py table                       # table of the stored results

FOLDER has wordnet_minilm384.npz. 500 glosses are queries, which stay real, and the others are items. A million items
are these and mixtures of two of them, .85 of the one and .53 of the other, divided by the norm. The hashers learn from
the glosses alone. The 128 bits are the first ones of the whole codes, without and with prefixes=(128,), or those of
a fit of their own.
The results are in experiments/results/cascade.json, the table in cascade.md.
"""

import argparse
import os
from pathlib import Path

import numpy as np
from _results import RESULTS, as_markdown, read, store
from sklearn.preprocessing import normalize

from skhash import EmbeddingHasher
from skhash.neighbors import HammingNeighbors, order_shortlist

PATH = RESULTS / "cascade.json"
KEYS = ("n_items", "short", "n_candidates", "seed")
NBITS, N_SHORT, K = 384, 128, 10
SIZES = (117_159, 1_000_000)
SHORT = {
    "first": f"the first {N_SHORT} bits",
    "trained": f"the first {N_SHORT} bits, prefixes=({N_SHORT},)",
    "own": f"a fit of {N_SHORT} bits",
}
N_CANDIDATES = (100, 300, 1000, 3000)


def read_vectors(seed):
    """Glosses that are items, and those that are queries."""
    with np.load(Path(os.environ["SKHASH_DATA"]) / "wordnet_minilm384.npz") as file:
        X = normalize(file["X"].astype(np.float32))
    order = np.random.default_rng(seed).permutation(len(X))
    return X[order[500:]], X[order[:500]]


def with_mixtures(items, n_items, seed):
    """Items with mixtures of two of them, `n_items` in all."""
    rng = np.random.default_rng(seed)
    one, other = rng.integers(0, len(items), (2, n_items - len(items)))
    mixtures = np.float32(0.85) * items[one] + np.float32(0.53) * items[other]
    return np.concatenate([items, mixtures / np.linalg.norm(mixtures, axis=1, keepdims=True)])


def nearest_vectors(items, queries):
    """Places of the nearest items of each query by cosine."""
    similarities = [queries @ part.T for part in np.array_split(items, 10)]
    return np.argpartition(-np.concatenate(similarities, axis=1), K, axis=1)[:, :K]


def recall(truth, found):
    """Mean share of the nearest items of each query among the first ones that were found."""
    return float(np.mean([np.isin(near, row[:K]).mean() for near, row in zip(truth, found, strict=True)]))


def measure(whole, short, items, queries):
    """Recall of the whole codes, and with each number of candidates of each short code."""
    truth, codes = nearest_vectors(items, queries), whole.encode(items)
    index = HammingNeighbors(nbits=NBITS).fit(codes).with_queries(whole)
    of_whole = recall(truth, index.kneighbors(queries, K, return_distance=False))
    for name, hasher in short.items():
        first = HammingNeighbors(nbits=N_SHORT).fit(hasher.encode(items)).with_queries(hasher)
        found = first.kneighbors(queries, max(N_CANDIDATES), return_distance=False)
        for n in N_CANDIDATES:
            _, ordered = order_shortlist(queries, found[:, :n], codes=codes[found[:, :n]], hasher=whole)
            yield {"short": name, "n_candidates": n, "recall": recall(truth, ordered), "whole": of_whole}


def fit_hashers(items, names, seed):
    """Hashers of whole codes, each with the short ones whose candidates it puts in order."""

    def fit(nbits, **parameters):
        return EmbeddingHasher(nbits, random_state=seed, store_database=False, **parameters).fit(items)

    if "first" in names or "own" in names:
        whole = fit(NBITS)
        yield whole, {"first": whole.prefix(N_SHORT), "own": fit(N_SHORT)}
    if "trained" in names:
        whole = fit(NBITS, prefixes=(N_SHORT,))
        yield whole, {"trained": whole.prefix(N_SHORT)}


def make_table(results):
    """Markdown of the table: what is lost with each number of candidates."""
    lines = [
        ["items", "first search", f"R@{K} of {NBITS} bits", *(f"lost with {n:,} candidates" for n in N_CANDIDATES)]
    ]
    for n_items in SIZES:
        for short, text in SHORT.items():
            rows = [row for row in results if (row["n_items"], row["short"]) == (n_items, short)]
            if rows:
                lost = {n: [r["whole"] - r["recall"] for r in rows if r["n_candidates"] == n] for n in N_CANDIDATES}
                cells = [f"{np.mean(values):.3f}" for values in lost.values()]
                lines.append([f"{n_items:,}", text, f"{np.mean([row['whole'] for row in rows]):.3f}", *cells])
    return as_markdown(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", nargs="?", choices=["measure", "table"], default="measure")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    options = parser.parse_args()
    for seed in options.seeds if options.command == "measure" else ():
        missing = SHORT.keys() - {row["short"] for row in read(PATH) if row["seed"] == seed}
        if not missing:
            continue
        items, queries = read_vectors(seed)
        for whole, short in fit_hashers(items, missing, seed):
            for n_items in SIZES:
                rows = list(measure(whole, short, with_mixtures(items, n_items, seed), queries))
                store(PATH, [{"n_items": n_items, "seed": seed} | row for row in rows], KEYS)
                print(*rows, sep="\n", flush=True)
    table = make_table(read(PATH))
    PATH.with_suffix(".md").write_text(table, encoding="utf-8")
    print(f"written: {PATH.with_suffix('.md')}\n\n{table}")


if __name__ == "__main__":
    main()
