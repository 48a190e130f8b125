"""Recall of the ten nearest glosses of WordNet by the bytes of an item in memory, and those on a disk.

    export SKHASH_DATA=FOLDER
    python experiments/memory_and_disk.py                     # what is stored is not measured again
    python experiments/memory_and_disk.py table               # table of the stored results

FOLDER has wordnet_minilm384.npz. Queries and items are those of ``neighbors.py --set wordnet``. The codes in memory
find candidates, by real queries or by Hamming distance, and vectors on a disk put them in order: int8 or int4, whose
features are rounded to equally spaced values between their smallest and largest ones. "signs" are those of the centered
vectors.

The results are in experiments/results/memory_and_disk.json, the table in memory_and_disk.md. Its rows without a disk
are those of experiments/results/neighbors/wordnet.json.
"""

import argparse
import itertools

import numpy as np
from _results import RESULTS, as_markdown, read, store
from cascade import nearest_vectors, recall
from neighbors import vectors_of
from sklearn.preprocessing import normalize

from skhash import EmbeddingHasher
from skhash.hashers.shallow import LinearHasher
from skhash.neighbors import HammingNeighbors, order_shortlist
from skhash.neighbors.choosing import _rounded

PATH = RESULTS / "memory_and_disk.json"
KEYS = ("codes", "nbits", "query", "vectors", "n_candidates", "seed")
CODES = {"EmbeddingHasher": (128, 256, 384), "signs": (384,)}
QUERIES = {"real": "real queries", "code": "Hamming distance"}
VECTORS = {"int8": 8, "int4": 4}  # bits of a feature
N_CANDIDATES, N_FEATURES = (50, 100, 200), 384
#: methods of the rows without a disk
IN_MEMORY = ("embedding-real", "ash", "eden", "rabitq", "turboquant", "pq")


class SignHasher(LinearHasher):
    """Signs of the centered vectors."""

    def _learn_map(self, X, relevance, rng):
        return np.eye(X.shape[1], self.nbits)


def candidates_of(codes, nbits, seed, items, queries):
    """Places of the candidates of each query, for each kind of queries."""
    if codes == "signs":
        hasher = SignHasher(nbits, store_database=False)
    else:
        hasher = EmbeddingHasher(nbits, metric="cosine", random_state=seed, store_database=False)
    index = HammingNeighbors(nbits=nbits).fit(hasher.fit(items).encode(items))
    n = max(N_CANDIDATES)
    return {
        "real": index.with_queries(hasher).kneighbors(queries, n, return_distance=False),
        "code": index.kneighbors(hasher.encode(queries), n, return_distance=False),
    }


def measure(seed):
    """Recall of each combination of codes, queries, vectors and number of candidates."""
    vectors, description = vectors_of("wordnet", seed, None)
    print(description, flush=True)
    items, queries = normalize(vectors.items), normalize(vectors.queries)
    truth = nearest_vectors(items, queries)
    stored = {name: _rounded(items, bits) for name, bits in VECTORS.items()}
    for codes, nbits in ((codes, nbits) for codes, lengths in CODES.items() for nbits in lengths):
        for query, found in candidates_of(codes, nbits, seed, items, queries).items():
            alone = round(recall(truth, found), 5)
            for name, n in itertools.product(stored, N_CANDIDATES):
                shortlist = found[:, :n]
                _, ordered = order_shortlist(queries, shortlist, vectors=stored[name][shortlist], metric="cosine")
                setting = dict(zip(KEYS, (codes, nbits, query, name, n, seed), strict=True))
                yield setting | {"alone": alone, "recall": round(recall(truth, ordered), 5)}


def make_table(results, in_memory):
    """Markdown of the table, by the bytes in memory and then on the disk."""
    lines = {}
    for row in results:
        what = "signs" if row["codes"] == "signs" else f"bits of {row['codes']}"
        disk = N_FEATURES * VECTORS[row["vectors"]] // 8
        key = row["nbits"] // 8, disk, f"{row['nbits']} {what}, {QUERIES[row['query']]}; {row['vectors']}"
        cells = lines.setdefault(key, {})
        cells.setdefault("alone", []).append(row["alone"])
        cells.setdefault(row["n_candidates"], []).append(row["recall"])
    for row in in_memory:
        if row["method"] in IN_MEMORY and row["bytes_per_item"] in (48, 96, 192):
            cells = lines.setdefault((row["bytes_per_item"], 0, row["method"]), {})
            cells.setdefault("alone", []).append(row["real_neighbor_recall_at_10"])
    columns = ("alone", *N_CANDIDATES)
    head = ["bytes in memory", "on disk", "what", "without the disk", *(f"{n} candidates" for n in N_CANDIDATES)]
    body = [
        [str(memory), str(disk), what, *(f"{np.mean(cells[n]):.3f}" if n in cells else "" for n in columns)]
        for (memory, disk, what), cells in sorted(lines.items())
    ]
    return as_markdown([head, *body]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", nargs="?", choices=["measure", "table"], default="measure")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    stored = {row["seed"] for row in read(PATH)}
    for seed in range(options.seeds) if options.command == "measure" else ():
        if seed not in stored:
            rows = list(measure(seed))
            store(PATH, rows, KEYS)
            print(*rows, sep="\n", flush=True)
    table = make_table(read(PATH), read(RESULTS / "neighbors" / "wordnet.json"))
    PATH.with_suffix(".md").write_text(table, encoding="utf-8")
    print(f"written: {PATH.with_suffix('.md')}\n\n{table}")


if __name__ == "__main__":
    main()
