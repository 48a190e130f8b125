"""How often drift raises an alarm, with and without new categories, and what a hasher loses that is not fitted again.

    export SKHASH_DATA=FOLDER
    python experiments/drift.py                               # what is stored is not measured again
    python experiments/drift.py --parts frozen --seeds 0
    python experiments/drift.py table                         # tables of the stored results

FOLDER has wordnet_minilm384.npz, with the vectors in X and the 45 categories of WordNet in y. A hasher of 384 bits is
fitted to 20,000 samples of some of the categories.

Part "alarms": nine random categories are left out of the fit. Each draw has 1,000 samples: others of the categories of
the fit, or with 200 of the categories left out. In every tenth draw, the same bits are tested by their largest shift
alone, and 250 samples come four times each, with noise.

Part "frozen": 22 random categories are left out. The hasher encodes 20,000 samples of these, and 500 others are
queries. Another hasher is fitted to the 20,000 samples themselves.

The results are in experiments/results/drift.json, the tables in drift.md and drift_frozen.md.
"""

import argparse
import os
from pathlib import Path

import numpy as np
from _results import RESULTS, as_markdown, read, store

from skhash import EmbeddingHasher
from skhash.codes import unpack
from skhash.comparison._neighbors import HasherIndex, Vectors, search_recalls

PATH, FROZEN = RESULTS / "drift.json", RESULTS / "drift_frozen.md"
KEYS = ("part", "seed")
NBITS, N_ITEMS, N_SAMPLES, N_QUERIES = 384, 20_000, 1000, 500
N_DRAWS, N_PERMUTATIONS, NOISE, N_COPIES = 50, 199, 0.02, 4
EVERY, RARE = 10, ("unseen_largest", "copies", "groups")  # measured in every tenth draw
TOLERANCES = (0.0, 0.005, 0.01)


def load(n_unseen, rng):
    """Vectors, and the indices of those in seen and in unseen categories, in random order."""
    with np.load(Path(os.environ["SKHASH_DATA"]) / "wordnet_minilm384.npz") as arrays:
        X, y = arrays["X"].astype(np.float32), arrays["y"]
    is_unseen = np.isin(y, rng.permutation(np.unique(y))[:n_unseen])
    seen, unseen = (rng.permutation(np.flatnonzero(chosen)) for chosen in (~is_unseen, is_unseen))
    return X / np.linalg.norm(X, axis=1, keepdims=True), seen, unseen


def largest_pvalue(hasher, X, training, rng):
    """P-value of the largest shift of a bit, by permutations."""
    codes = np.concatenate([hasher.encode(X), hasher.encode(training)])
    bits = unpack(codes, NBITS)[:, hasher.function_.digits == 0].astype(np.float32)
    bits -= bits.mean(axis=0)
    is_new = np.zeros((N_PERMUTATIONS + 1, len(bits)), np.float32)
    is_new[0, : len(X)] = 1
    for row in is_new[1:]:
        row[rng.choice(len(bits), len(X), replace=False)] = 1
    largest = np.abs(is_new @ bits).max(axis=1)
    return (largest >= largest[0] * (1 - 1e-6)).mean()


def measure_alarms(seed):
    """Shares of the draws with an alarm."""
    rng = np.random.default_rng(seed)
    X, seen, unseen = load(9, rng)
    hasher = EmbeddingHasher(NBITS, n_epochs=1, random_state=seed).fit(X[seen[:N_ITEMS]])  # the codes are those of any
    training, fresh = X[seen[: N_ITEMS : N_ITEMS // 4000]], seen[N_ITEMS:]
    alarms, losses = {}, {"none": [], "unseen": []}

    def note(name, is_alarm):
        alarms.setdefault(name, []).append(is_alarm)

    groups = np.arange(N_SAMPLES // N_COPIES).repeat(N_COPIES)
    for draw in range(N_DRAWS):
        samples = X[rng.choice(fresh, N_SAMPLES, replace=False)]
        mixed = samples.copy()
        mixed[: N_SAMPLES // 5] = X[rng.choice(unseen, N_SAMPLES // 5, replace=False)]
        for name, drawn in {"none": samples, "unseen": mixed}.items():
            drift = hasher.drift(drawn, tolerance=None, random_state=draw)
            losses[name].append(drift.reference_recall - drift.recall)
            note(name, drift.alarm)
            for tolerance in TOLERANCES:
                note(f"{name}_{tolerance}", drift.alarm and drift.recall_loss_interval[1] > tolerance)
            note(f"{name}_error", drift.error_pvalue <= 0.05)
            note(f"{name}_bits", drift.shift_pvalue <= 0.05)
        if draw % EVERY == 0:
            note("unseen_largest", largest_pvalue(hasher, mixed, training, rng) <= 0.025)
            copies = samples[: N_SAMPLES // N_COPIES].repeat(N_COPIES, axis=0)
            copies += NOISE * rng.standard_normal(copies.shape).astype(np.float32) / X.shape[1] ** 0.5
            note("copies", hasher.drift(copies, tolerance=None, random_state=draw).alarm)
            note("groups", hasher.drift(copies, groups=groups, tolerance=None, random_state=draw).alarm)
    shares = {name: round(float(np.mean(values)), 4) for name, values in alarms.items()}
    shares |= {f"{name}_loss": round(float(np.mean(values)), 4) for name, values in losses.items()}
    return {"part": "alarms", "seed": seed, "n_draws": N_DRAWS} | shares


def measure_frozen(seed):
    """R@10 of a hasher that is fitted to other categories, and of one that is fitted to the items."""
    rng = np.random.default_rng(seed)
    X, seen, unseen = load(22, rng)
    vectors = Vectors(X[unseen[:N_ITEMS]], X[unseen[N_ITEMS:][:N_QUERIES]], "cosine")
    recalls = {}
    for name, items in {"frozen": X[seen[:N_ITEMS]], "fitted": vectors.items}.items():
        index = HasherIndex(EmbeddingHasher(NBITS, random_state=seed)).fit(items)
        index.add(vectors.items)
        real = search_recalls(index.search, vectors).mean(axis=1)
        hamming = search_recalls(index.search_codes, vectors)[0].mean()
        recalls |= {f"{name}_real": real[0], f"{name}_of_50": real[3], f"{name}_hamming": hamming}
    return {"part": "frozen", "seed": seed} | {name: round(float(value), 4) for name, value in recalls.items()}


PARTS = {"alarms": measure_alarms, "frozen": measure_frozen}
SAMPLES = {
    "none_0.0": "samples like those of the fit",
    "unseen_0.0": "a fifth of them in unseen categories",
    "unseen_error": "... found by the errors of reconstruction",
    "unseen_bits": "... found by the bits",
    "unseen_largest": "... found by the largest shift of a bit alone",
    "unseen_0.01": "... with `tolerance=0.01`",
    "copies": "250 samples, four copies each",
    "groups": "... with `groups`",
}
SEARCHES = {"real": "real queries", "of_50": "first 50 of real queries, in exact order", "hamming": "Hamming distance"}


def make_tables(results):
    """Markdown of the alarms, and of what a frozen hasher finds, means over the seeds."""
    alarms, frozen = ([result for result in results if result["part"] == part] for part in PARTS)
    n_draws = sum(result["n_draws"] for result in alarms)
    lines = [["1,000 samples", "draws", "alarms"]]
    for name, text in SAMPLES.items():
        n = n_draws // EVERY if name in RARE else n_draws
        lines.append([text, str(n), f"{np.average([result[name] for result in alarms]):.1%}"])
    searches = [["recall of ten", "frozen hasher", "fitted to the items"]]
    for name, text in SEARCHES.items():
        means = (np.mean([result[f"{kind}_{name}"] for result in frozen]) for kind in ("frozen", "fitted"))
        searches.append([text, *(f"{mean:.3f}" for mean in means)])
    return as_markdown(lines) + "\n", as_markdown(searches) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", nargs="?", choices=["measure", "table"], default="measure")
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--seeds", default="0,1,2,3,4,5,6,7")
    options = parser.parse_args()
    if options.command == "measure":
        for part in options.parts.split(","):
            for seed in map(int, options.seeds.split(",")):
                if (part, seed) not in {tuple(result[key] for key in KEYS) for result in read(PATH)}:
                    result = PARTS[part](seed)
                    store(PATH, [result], KEYS)
                    print(result, flush=True)
    for path, table in zip((PATH.with_suffix(".md"), FROZEN), make_tables(read(PATH)), strict=True):
        path.write_text(table, encoding="utf-8")
        print(table)


if __name__ == "__main__":
    main()
