"""What the order of equal scores does to the figures of a run: examples of WordNet find their glosses by 32 bits.

    export SKHASH_DATA=FOLDER      # with wordnet_minilm384.npz
    python experiments/equal_scores.py             # three seeds; what is stored is not measured again
    python experiments/equal_scores.py table       # the table of the stored results

5,000 example sentences are queries, and the glosses of all 117,659 synsets are items, one of which is relevant to a
query. A hasher learns from the glosses alone. The run of a query has the 100 nearest glosses by Hamming distance, and
all that tie with the last one. It is ranked by a stable sort, with the file in three orders; by trec_eval, which orders
equal scores by name, from the last to the first, with names of two kinds; and averaged over all orders. The results are
in experiments/results/equal_scores.json, the table in experiments/results/equal_scores.md.
"""

import argparse
import os
from itertools import product
from pathlib import Path

import numpy as np
import pytrec_eval
from _results import RESULTS, as_markdown, measure_missing, read, write_table
from sklearn.preprocessing import normalize

from skhash import ITQHasher, LSHHasher
from skhash.codes import hamming_distances
from skhash.comparison import mean_and_spread
from skhash.metrics import evaluate_histograms
from skhash.trec import histogram_of_run

NBITS, N_NEAREST = 32, 100
PATH, TABLE = RESULTS / "equal_scores.json", RESULTS / "equal_scores.md"
KEYS = ("method", "seed")
METHODS = {"itq": ITQHasher, "lsh": LSHHasher}
METRICS = ("ap", "recall_at_10")
#: what orders equal scores: key of the results to its text
RULES = {
    "first": "a stable sort, the relevant glosses first in the file",
    "file": "a stable sort, the file as it is",
    "last": "a stable sort, the relevant glosses last in the file",
    "numbers": "trec_eval, names are 7, 123, ...",
    "padded": "trec_eval, names are 000007, 000123, ...",
    "average": "the mean over all orders",
    "worst": "the worst order",
    "best": "the best order",
}


def load():
    """Glosses, examples, and the gloss of each example."""
    with np.load(Path(os.environ["SKHASH_DATA"], "wordnet_minilm384.npz")) as file:
        glosses, examples = (normalize(file[name].astype(np.float32)) for name in ("X", "queries"))
        return glosses, examples, file["query_item"]


def search(hasher, glosses, examples):
    """Items of each query that are as near as the 100th, and their distances."""
    items, queries = hasher.encode(glosses), hasher.encode(examples)
    for start in range(0, len(queries), 250):
        distances = hamming_distances(queries[start : start + 250], items, nbits=NBITS)
        for of_query in distances:
            found = np.flatnonzero(of_query <= np.partition(of_query, N_NEAREST - 1)[N_NEAREST - 1])
            yield found, of_query[found]


def by_position(found, position):
    """A run without ties: by distance, then by the position in a file."""
    run = {}
    for query, (items, distances) in enumerate(found):
        ranked = items[np.lexsort((position[items], distances))]
        run[query] = dict(zip(ranked.tolist(), range(0, -len(ranked), -1), strict=True))
    return run


def by_trec_eval(run, qrels):
    """AP and recall, with the rule of trec_eval for equal scores."""
    found = pytrec_eval.RelevanceEvaluator(qrels, {"map", "recall_10"}).evaluate(run)
    return [float(np.mean([values[name] for values in found.values()])) for name in ("map", "recall_10")]


def measure(method, seed):
    """AP and recall under each rule, by hashers that see the glosses alone."""
    glosses, examples, synsets = load()
    found = list(search(METHODS[method](NBITS, random_state=seed).fit(glosses), glosses, examples))
    qrels = {query: {int(item): 1} for query, item in enumerate(synsets)}
    position = np.arange(len(glosses))
    is_relevant = np.isin(position, synsets)
    files = {
        "file": position,
        "first": position - len(glosses) * is_relevant,
        "last": position + len(glosses) * is_relevant,
    }
    result = {}
    for rule, order in files.items():
        H = histogram_of_run(by_position(found, order), qrels)
        result[rule] = list(evaluate_histograms([H], METRICS).values())
    for rule, name in {"numbers": "{}", "padded": "{:06}"}.items():
        named = {
            str(query): dict(zip(map(name.format, items.tolist()), (-distances).tolist(), strict=True))
            for query, (items, distances) in enumerate(found)
        }
        result[rule] = by_trec_eval(named, {str(query): {name.format(item): 1} for query, item in enumerate(synsets)})
    of_distances = {query: dict(zip(items, -distances, strict=True)) for query, (items, distances) in enumerate(found)}
    H = histogram_of_run(of_distances, qrels)
    for ties in ("average", "worst", "best"):
        names = [metric if ties == "average" else f"{metric}_{ties}" for metric in METRICS]
        result[ties] = list(evaluate_histograms([H], names).values())
    return result | {"items": float(H.counts.sum() / H.n_queries), "distances": float(np.diff(H.indptr).mean())}


def make_table(results):
    """Markdown of the means over the seeds."""
    head = [
        "order of equal scores",
        *(f"{method.upper()}, {name}" for method, name in product(METHODS, ("AP", "recall@10"))),
    ]
    rows = [head]
    for rule, text in RULES.items():
        cells = []
        for method, place in product(METHODS, range(len(METRICS))):
            cells.append(mean_and_spread([r[rule][place] for r in results if r["method"] == method], 3))
        rows.append([text, *cells])
    return as_markdown(rows) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", nargs="?", choices=["measure", "table"], default="measure")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    if options.command == "measure":
        measure_missing(PATH, KEYS, product(METHODS, range(options.seeds)), measure)
    write_table(TABLE, make_table(read(PATH)))


if __name__ == "__main__":
    main()
