"""What a service with an ONNX file of real queries finds by Hamming distance, beside codes of the queries.

    pip install onnx onnxscript onnxruntime
    export SKHASH_DATA=FOLDER
    python experiments/services.py                            # what is stored is not measured again
    python experiments/services.py --lengths 128 --seeds 0
    python experiments/services.py table                      # table of the stored results

FOLDER has wordnet_minilm384.npz, whose vectors are split as in neighbors.py, with 20,000 items. skhash encodes the
items, and onnxruntime asks with the signs of the real queries.

The results are in experiments/results/services.json, the table in services.md.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
from _results import RESULTS, as_markdown, read, store
from neighbors import vectors_of
from threadpoolctl import threadpool_limits

from skhash import EmbeddingHasher
from skhash.neighbors import HammingNeighbors
from skhash.onnx import to_onnx

PATH = RESULTS / "services.json"
KEYS = ("nbits", "hamming", "seed")
LENGTHS = (128, 384)
N_ITEMS, K = 20_000, 10


def open_file(hasher):
    """A function of samples that computes their real queries with a file of a hasher."""
    import onnxruntime

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "queries.onnx")
        to_onnx(hasher, path, queries=True)
        session = onnxruntime.InferenceSession(path)
    return lambda samples: session.run(["queries"], {"X": samples})[0]


def measure(nbits, hamming, seed):
    """Recall of the ten nearest by Hamming distance."""
    vectors, _ = vectors_of("wordnet", seed, N_ITEMS)
    items, queries = (X / np.linalg.norm(X, axis=1, keepdims=True) for X in (vectors.items, vectors.queries))
    hasher = EmbeddingHasher(nbits, hamming=hamming, random_state=seed).fit(items)
    result, ask = {"nbits": nbits, "hamming": hamming, "seed": seed}, open_file(hasher)
    nearest = np.argsort(-(queries @ items.T), axis=1)[:, :K]
    index = HammingNeighbors(nbits=nbits, n_neighbors=K).fit(hasher.encode(items))
    for name, codes in {"codes": hasher.encode(queries), "signs": np.packbits(ask(queries) >= 0, axis=1)}.items():
        found = index.kneighbors(codes, return_distance=False)
        result[name] = round(float((found[:, :, None] == nearest[:, None]).any(axis=2).mean()), 4)
    return result


def make_table(results):
    """Markdown of the means over the seeds."""
    lines = [["bits", "`hamming`", "codes", "signs of real queries"]]
    for nbits, hamming in sorted({(result["nbits"], result["hamming"]) for result in results}):
        rows = [result for result in results if (result["nbits"], result["hamming"]) == (nbits, hamming)]
        recalls = (f"{np.mean([row[name] for row in rows]):.3f}" for name in ("codes", "signs"))
        lines.append([str(nbits), str(hamming), *recalls])
    return as_markdown(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", nargs="?", choices=["measure", "table"], default="measure")
    parser.add_argument("--lengths", default=",".join(map(str, LENGTHS)))
    parser.add_argument("--seeds", default="0,1")
    options = parser.parse_args()
    stored = {tuple(result[key] for key in KEYS) for result in read(PATH)}
    if options.command == "measure":
        for seed in map(int, options.seeds.split(",")):
            for nbits in map(int, options.lengths.split(",")):
                for hamming in (True, False):
                    if (nbits, hamming, seed) not in stored:
                        with threadpool_limits(1):
                            result = measure(nbits, hamming, seed)
                        store(PATH, [result], KEYS)
                        print(result, flush=True)
    table = make_table(read(PATH))
    PATH.with_suffix(".md").write_text(table, encoding="utf-8")
    print(table)


if __name__ == "__main__":
    main()
