"""Whether the choice of choose_code reaches its target on further queries.

    export SKHASH_DATA=FOLDER
    python experiments/code_lengths.py                                       # Fashion-MNIST, ITQ
    python experiments/code_lengths.py --set mnist --targets 0.8 --splits 20

FOLDER has one .npz file per set, with the vectors in X. Of each set 4,000 samples are held out as queries, and the
others are items. Each length is fitted once. Then the queries are split at random, 100 times, into 1,000 for
validation and 3,000 for the test. The validation queries choose bits and candidates, with a one-sided 95 % bound. The
target is met if the recall of the choice on the test queries reaches it. "means" chooses by the mean recall, without
a bound.
The results are in experiments/results/code_lengths.json.
"""

import argparse
import os
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
from _results import RESULTS, store

from skhash import EmbeddingHasher, ITQHasher
from skhash.neighbors.choosing import _HeldOut, _measured_table, _recalls, _smallest_code, _true_neighbors, _Way
from skhash.unwrap import items_of

N_QUERIES = 4000
N_VALIDATION = 1000
K = 10
CANDIDATES = range(K, 20 * K + 1, 5)
METHODS = {
    "itq": lambda nbits: ITQHasher(nbits, random_state=0, store_database=False),
    "embedding": lambda nbits: EmbeddingHasher(nbits, metric="euclidean", random_state=0, store_database=False),
}


def load(name, n_items):
    """Held-out queries and items of a set."""
    X = np.load(Path(os.environ["SKHASH_DATA"]) / f"{name}.npz")["X"]
    X = X.reshape(len(X), -1).astype(np.float32)
    X = X[np.random.default_rng(0).permutation(len(X))]
    queries, items = X[:N_QUERIES], X[N_QUERIES:][:n_items]
    return _HeldOut(queries, queries, items, items, np.arange(len(items)))


def resplit(recalls, targets, n_splits):
    """Choices of random validation queries for each target, and their recall on the other queries."""
    sizes, rng = {way: (-(-way.nbits // 8), 0) for way in recalls}, np.random.default_rng(0)
    chosen = {(target, name): [] for target in targets for name in ("bound", "means")}
    for _ in range(n_splits):
        order = rng.permutation(N_QUERIES)
        validation = {way: values[:, order[:N_VALIDATION]] for way, values in recalls.items()}
        table = _measured_table(validation, CANDIDATES, sizes, 0.95)
        tables = {"bound": table, "means": [replace(code, lower_bound=code.recall) for code in table]}
        for target, name in chosen:
            code = _smallest_code(tables[name], target)
            if code is None:
                raise SystemExit(f"No code reaches {target}: pass longer --bits.")
            measured = recalls[_Way(code.nbits, code.query, None)][CANDIDATES.index(code.candidates)]
            test = measured[order[N_VALIDATION:]].mean()
            chosen[target, name].append((code.nbits, code.candidates, float(test)))
    return chosen


def summary(codes, target):
    """How often a target is met, and the choice that is made most often."""
    tests = [test for *_, test in codes]
    (nbits, candidates), _ = Counter(code[:2] for code in codes).most_common(1)[0]
    result = {"n_met": sum(test >= target for test in tests), "nbits": nbits, "candidates": candidates}
    return result | {"mean": float(np.mean(tests)), "lowest": min(tests)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--set", default="fashion_mnist")
    parser.add_argument("--method", default="itq", choices=METHODS)
    parser.add_argument("--bits", default="32,64,128,256,512")
    parser.add_argument("--queries", default="code,real", help="code, real, or both")
    parser.add_argument("--targets", default="0.7,0.8,0.9")
    parser.add_argument("--items", type=int, help="largest number of items; all by default")
    parser.add_argument("--splits", type=int, default=100)
    options = parser.parse_args()
    data = load(options.set, options.items)
    truths = {None: _true_neighbors(data, K, "euclidean")}
    hashers = {nbits: METHODS[options.method](nbits).fit(data.items) for nbits in map(int, options.bits.split(","))}
    for query in options.queries.split(","):
        recalls = {
            _Way(n, query, None): _recalls(hasher, items_of(hasher, data.items), data, truths, CANDIDATES, query)[None]
            for n, hasher in hashers.items()
        }
        targets = [float(target) for target in options.targets.split(",")]
        for (target, name), codes in resplit(recalls, targets, options.splits).items():
            result = {"set": options.set, "method": options.method, "query": query, "n_items": len(data.items)}
            result |= {"target": target, "chosen_by": name, "n_splits": options.splits} | summary(codes, target)
            print(", ".join(f"{key} {value}" for key, value in result.items()), flush=True)
            store(RESULTS / "code_lengths.json", [result], ("set", "method", "query", "n_items", "target", "chosen_by"))


if __name__ == "__main__":
    main()
