"""Queries of a new embedding model for codes of an old one: adapters, against encoding all items again.

    export SKHASH_DATA=FOLDER
    python experiments/vectors.py wordnet-mpnet               # vectors of the new model, beside those of the old one
    python experiments/new_model.py                           # what is stored is not measured again
    python experiments/new_model.py table                     # table of the stored results

The items are 5,000 synsets of WordNet, and the queries are example sentences of 1,000 of them. The old model is
all-MiniLM-L6-v2 with 384 dimensions, the new one all-mpnet-base-v2 with 768. EmbeddingHasher has learned the codes from
the old vectors of all items. The adapters learn from pairs: random items, none of them the synset of a query, with
both vectors, or the new vector and the code. Training queries are the new vectors of 3,000 other sentences, without
codes. "hit@10": the synset of the sentence is among the first ten items. "R@10": share of the ten items that are
nearest by the new vectors. The seed draws the pairs.
The results are in experiments/results/new_model.json, the table in new_model.md.
"""

import argparse
import itertools
import os
from functools import partial
from pathlib import Path

import numpy as np
import torch
from _results import RESULTS, as_markdown, read, store
from sklearn.linear_model import RidgeCV
from sklearn.preprocessing import normalize

from skhash import EmbeddingHasher
from skhash.codes import signs
from skhash.vectors import QueryAdapter

PATH = RESULTS / "new_model.json"
KEYS = ("code", "method", "n_pairs", "seed")
CODES = {"48 bytes": 384, "16 bytes": 128}
N_PAIRS = (3500, 1000)
METHODS = {
    "exact": "exact search by the new vectors",
    "again": "all items encoded again",
    "old": "queries of the old model",
    "adapter": "QueryAdapter",
    "queries": "QueryAdapter, with training queries",
    "procrustes": "orthogonal map to old vectors",
    "vectors": "the same, without codes: exact old vectors",
    "ridge": "ridge regression to old vectors",
    "residual": "residual network to old vectors (Drift-Adapter)",
}


def read_vectors():
    """Old and new vectors of the items and of the queries, new ones for training, and the item of each query."""
    folder = Path(os.environ["SKHASH_DATA"])
    with np.load(folder / "wordnet_minilm384.npz") as old, np.load(folder / "wordnet_mpnet768.npz") as new:
        items, rows = new["items"], new["query_rows"]
        vectors = old["X"][items], old["queries"][rows], new["X"], new["queries"], new["train_queries"]
        places = np.argsort(items)[np.searchsorted(np.sort(items), old["query_item"][rows])]
    return (*(normalize(X.astype(np.float32)) for X in vectors), places)


def procrustes(new, old):
    """Orthogonal map of the centered vectors."""
    left, _, right = np.linalg.svd((new - new.mean(0)).T @ (old - old.mean(0)), full_matrices=False)
    return lambda queries: (queries - new.mean(0)) @ (left @ right) + old.mean(0)


def ridge(new, old):
    """Ridge regression, whose penalty is chosen by cross-validation."""
    return RidgeCV(len(new) * 10.0 ** np.arange(-7, -1)).fit(new, old).predict


def residual(new, old, seed, width=256, n_epochs=60, batch_size=256):
    """Linear map, which starts from ridge regression, plus a network with one hidden layer (arXiv 2509.23471).

    A tenth of the pairs is held out to choose the epoch.
    """
    generator = torch.Generator().manual_seed(seed)
    X, Y, order = torch.tensor(new), torch.tensor(old), torch.randperm(len(new), generator=generator)
    held_out, learned = order[: len(X) // 10], order[len(X) // 10 :]
    start = RidgeCV(len(learned) * 10.0 ** np.arange(-7, -1)).fit(X[learned], Y[learned])
    linear = torch.nn.Linear(new.shape[1], old.shape[1])
    inner, outer = torch.nn.Linear(new.shape[1], width), torch.nn.Linear(width, old.shape[1])
    with torch.no_grad():
        linear.weight.copy_(torch.tensor(start.coef_))
        linear.bias.copy_(torch.tensor(start.intercept_))
        inner.weight.normal_(0, new.shape[1] ** -0.5, generator=generator)
        for zero in (inner.bias, outer.weight, outer.bias):
            zero.zero_()
    network = torch.nn.ModuleList([linear, inner, outer])
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3, weight_decay=0.01)

    def apply(X):
        return linear(X) + outer(torch.nn.functional.gelu(inner(X)))

    best, kept = np.inf, None
    for _ in range(n_epochs):
        with torch.no_grad():
            error = (apply(X[held_out]) - Y[held_out]).square().mean().item()
        if error < best:
            best, kept = error, {name: value.clone() for name, value in network.state_dict().items()}
        for part in learned[torch.randperm(len(learned), generator=generator)].split(batch_size):
            optimizer.zero_grad()
            (apply(X[part]) - Y[part]).square().sum(1).mean().backward()
            optimizer.step()
    network.load_state_dict(kept)

    @torch.no_grad()
    def mapped(queries):
        return apply(torch.tensor(queries)).numpy()

    return mapped


class Measure:
    """Recall of scores of all items."""

    def __init__(self, items, queries, places):
        self.places, self.nearest = places, self._first(queries @ items.T)

    @staticmethod
    def _first(scores):
        return np.argpartition(-scores, 10, axis=1)[:, :10]

    def __call__(self, scores):
        found = self._first(scores)
        hit = (found == self.places[:, None]).any(1).mean()
        return {"hit_at_10": round(float(hit), 4), "recall": round(self._recall(found), 4)}

    def _recall(self, found):
        return float((found[:, :, None] == self.nearest[:, None]).any(2).mean())


def searched(measure, hasher, queries, codes):
    """Recalls of real queries, and of their codes by Hamming distance."""
    return {
        "real": measure(hasher.project_queries(queries) @ codes.T),
        "hamming": measure(signs(hasher.transform(queries)) @ codes.T),
    }


def measure(codes, seeds, done):
    """Results of all methods, without those that are stored."""
    old, old_queries, new, new_queries, train_queries, places = read_vectors()
    measured, free = Measure(new, new_queries, places), np.setdiff1d(np.arange(len(new)), places)
    hashers = {}
    for code in codes:
        options = {"nbits": CODES[code], "random_state": 0, "store_database": False}
        hasher = EmbeddingHasher(**options).fit(old)
        hashers[code] = hasher, signs(hasher.transform(old)).astype(np.float32)
        if (code, "again", 0, 0) not in done:
            again = EmbeddingHasher(**options).fit(new)
            new_codes = signs(again.transform(new)).astype(np.float32)
            names = {"code": code, "n_pairs": 0, "seed": 0}
            yield names | {"method": "exact", "real": measured(new_queries @ new.T)}
            yield names | {"method": "old"} | searched(measured, hasher, old_queries, hashers[code][1])
            yield names | {"method": "again"} | searched(measured, again, new_queries, new_codes)
    for seed, n_pairs, (code, (hasher, bits)) in itertools.product(seeds, N_PAIRS, hashers.items()):
        pairs = np.random.default_rng(seed).permutation(free)[:n_pairs]
        X, Y, names = new[pairs], old[pairs], {"code": code, "n_pairs": n_pairs, "seed": seed}
        for method, queries in {"adapter": None, "queries": train_queries}.items():
            if (code, method, n_pairs, seed) not in done:
                adapter = QueryAdapter(random_state=seed).fit(X, hasher.encode(Y), hasher=hasher, queries=queries)
                yield names | {"method": method} | searched(measured, adapter, new_queries, bits)
        baselines = {"procrustes": procrustes, "ridge": ridge, "residual": partial(residual, seed=seed)}
        for method, learn in baselines.items():
            if (code, method, n_pairs, seed) not in done:
                mapped = learn(X, Y)(new_queries)
                yield names | {"method": method} | searched(measured, hasher, mapped, bits)
                if method == "procrustes":
                    yield names | {"method": "vectors", "real": measured(normalize(mapped) @ old.T)}


def make_table(results):
    """Markdown of the table: hit@10 and R@10 by real queries, and hit@10 by Hamming distance, means over the draws."""
    lines = [["codes", "pairs", "method", "hit@10", "R@10", "hit@10, Hamming", "R@10, Hamming"]]
    groups = {}
    for result in results:
        groups.setdefault((result["code"], result["n_pairs"], result["method"]), []).append(result)
    for code in CODES:
        for n_pairs in (0, *N_PAIRS):
            for method, text in METHODS.items():
                if group := groups.get((code, n_pairs, method)):
                    cells = [
                        f"{np.mean([result[kind][name] for result in group]):.3f}" if kind in group[0] else ""
                        for kind in ("real", "hamming")
                        for name in ("hit_at_10", "recall")
                    ]
                    lines.append([code, f"{n_pairs:,}" if n_pairs else "", text, *cells])
    return as_markdown(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", nargs="?", choices=["measure", "table"], default="measure")
    parser.add_argument("--codes", nargs="+", default=list(CODES), choices=list(CODES))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    options = parser.parse_args()
    done = {tuple(result[key] for key in KEYS) for result in read(PATH)}
    for result in measure(options.codes, options.seeds, done) if options.command == "measure" else ():
        store(PATH, [result], KEYS)
        print(result, flush=True)
    text = make_table(read(PATH))
    PATH.with_suffix(".md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
