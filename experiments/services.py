"""What a service with an ONNX file instead of skhash finds by Hamming distance, and how long it takes for a code.

    pip install onnx onnxscript onnxruntime
    export SKHASH_DATA=FOLDER
    python experiments/services.py                            # what is stored is not measured again
    python experiments/services.py --lengths 128 --seeds 0
    python experiments/services.py table                      # table of the stored results

FOLDER has wordnet_minilm384.npz, whose vectors are split as in neighbors.py, with 20,000 items. onnxruntime encodes the
queries, and 5,000 items, whose codes are compared with those of skhash. Times are CPU times of one core, for an item
alone and for each of a hundred.

The results are in experiments/results/services.json, the table in services.md.
"""

import argparse
import tempfile
import time
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
N_ITEMS, N_COMPARED, N_BATCH, K = 20_000, 5000, 100, 10


def open_file(hasher, queries):
    """A function of samples that runs the file of a hasher on one core."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "hasher.onnx")
        to_onnx(hasher, path, queries=queries)
        session = onnxruntime.InferenceSession(path, options)
    return lambda samples: session.run(["queries" if queries else "codes"], {"X": samples})[0]


def milliseconds(encode, X, n, n_repeats):
    """CPU time per item of n items, the median of some times."""
    times = []
    for i in range(n_repeats):
        start = time.process_time()
        encode(X[i * n : (i + 1) * n])
        times.append(time.process_time() - start)
    return round(float(np.median(times)) * 1000 / n, 4)


def measure(nbits, hamming, seed):
    """Recall of the ten nearest by Hamming distance, bits that are not those of skhash, and times."""
    vectors, _ = vectors_of("wordnet", seed, N_ITEMS)
    items, queries = (X / np.linalg.norm(X, axis=1, keepdims=True) for X in (vectors.items, vectors.queries))
    hasher = EmbeddingHasher(nbits, hamming=hamming, random_state=seed).fit(items)
    encode, ask = open_file(hasher, queries=False), open_file(hasher, queries=True)
    result = {"nbits": nbits, "hamming": hamming, "seed": seed}
    parts = [encode(items[start : start + N_BATCH]) for start in range(0, N_COMPARED, N_BATCH)]
    differs = np.unpackbits(np.concatenate(parts) ^ hasher.encode(items[:N_COMPARED]), axis=1)
    result |= {"other_bits": float(differs.mean()), "other_codes": float(differs.any(axis=1).mean())}
    nearest = np.argsort(-(queries @ items.T), axis=1)[:, :K]
    index = HammingNeighbors(nbits=nbits, n_neighbors=K).fit(hasher.encode(items))
    for name, codes in {"codes": encode(queries), "signs": np.packbits(ask(queries) >= 0, axis=1)}.items():
        found = index.kneighbors(codes, return_distance=False)
        result[name] = round(float((found[:, :, None] == nearest[:, None]).any(axis=2).mean()), 4)
    for name, encode_some in {"skhash": hasher.encode, "onnx": encode}.items():
        result[f"{name}_ms"] = milliseconds(encode_some, items, 1, 200)
        result[f"{name}_batch_ms"] = milliseconds(encode_some, items, N_BATCH, 5)
    return result


def make_table(results):
    """Markdown of the means over the seeds."""
    times = ["alone (ms)", "one of 100 (ms)", "skhash (ms)"]
    lines = [["bits", "`hamming`", "codes", "signs of real queries", "other bits", *times]]
    for nbits, hamming in sorted({(result["nbits"], result["hamming"]) for result in results}):
        rows = [result for result in results if (result["nbits"], result["hamming"]) == (nbits, hamming)]
        means = {name: np.mean([row[name] for row in rows]) for name in rows[0]}
        recalls = (f"{means[name]:.3f}" for name in ("codes", "signs"))
        times = [f"{means[name]:.2g}" for name in ("onnx_ms", "onnx_batch_ms", "skhash_ms", "skhash_batch_ms")]
        times[2:] = [", ".join(times[2:])]
        lines.append([str(nbits), str(hamming), *recalls, f"{means['other_bits']:.4%}", *times])
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
