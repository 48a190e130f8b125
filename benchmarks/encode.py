"""Encode more samples than memory should hold: CPU time against the bare product, and memory beyond the mapped pages.

    python benchmarks/encode.py                        # 20,000,000 samples of 128 features: 10 GB on disk
    python benchmarks/encode.py --samples 1000000      # fewer
    python benchmarks/encode.py --folder /mnt/large --bits 64

The bare product reads the same memmap in the same batches, multiplies, compares with 0 and packs the bits; once as
it is, and once with the mean subtracted, which is a part of what ITQHasher computes. The encoding also checks the
samples and writes the codes to a file. Each of the three runs in a process of its own, with
one thread for BLAS. They run in turn, forward and backward, and the ratio is the median of those of each turn: on a
shared machine the time of one process varies by a fifth within minutes.
"""

import argparse
import filecmp
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

N_FEATURES, BATCH_SIZE, KINDS = 128, 4096, ("bare", "centered", "encode")
#: samples that are written at a time
BLOCK = 100_000


def main():
    """Print one line for each kind."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--samples", type=int, default=20_000_000)
    parser.add_argument("--bits", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--folder", default=None, help="where the samples are written; default a temporary folder")
    parser.add_argument("--case", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        print(json.dumps(run_case(*options.case)))
        return
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        write_samples(Path(folder), options.samples, options.bits)
        runs = {kind: [] for kind in KINDS}
        for turn in range(options.repeats):
            for kind in KINDS[:: -1 if turn % 2 else 1]:
                runs[kind].append(run(kind, folder))
        same = filecmp.cmp(*(Path(folder) / f"{kind}.npy" for kind in KINDS[1:]), shallow=False)
    print(f"{options.samples:,} x {N_FEATURES} float32, {options.bits} bits, batches of {BATCH_SIZE}")
    names = ("CPU s", "wall s", "to bare", "lowest", "highest", "anonymous MiB", "resident MiB")
    print(f"{'':9}" + "".join(f"{name:>14}" for name in names))
    for kind, ones in runs.items():
        ratios = [one["cpu"] / bare["cpu"] for one, bare in zip(ones, runs["bare"], strict=True)]
        seconds = [np.median([one[name] for one in ones]) for name in ("cpu", "wall")]
        peaks = [max(one[name] for one in ones) for name in ("anonymous", "resident")]
        numbers = (*seconds, np.median(ratios), min(ratios), max(ratios), *peaks)
        print(f"{kind:9}" + "".join(f"{number:14.2f}" for number in numbers))
    print(f"codes equal to those of the centered product: {same}")


def write_samples(folder, n, nbits):
    """Write the samples and a hasher."""
    from skhash import ITQHasher
    from skhash.persistence import save

    rng = np.random.default_rng(0)
    X = np.lib.format.open_memmap(folder / "X.npy", "w+", np.float32, (n, N_FEATURES))
    for start in range(0, n, BLOCK):
        X[start : start + BLOCK] = rng.standard_normal((len(X[start : start + BLOCK]), N_FEATURES), dtype=np.float32)
    X.flush()
    hasher = ITQHasher(nbits, random_state=0, store_database=False).fit(np.array(X[:5000]))
    save(hasher, folder / "hasher")


def run(kind, folder):
    """Seconds and MiB of one process."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    command = [sys.executable, __file__, "--case", kind, str(folder)]
    done = subprocess.run(command, env=os.environ | threads, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def run_case(kind, folder):
    from skhash.persistence import load

    folder = Path(folder)
    hasher = load(folder / "hasher")
    hasher.encode(np.zeros((BATCH_SIZE + 1, N_FEATURES), np.float32), out=folder / "small.npy")  # imports
    X = np.load(folder / "X.npy", mmap_mode="r")
    peaks, is_done = {"RssAnon": 0.0, "VmRSS": 0.0}, threading.Event()

    def watch():
        while not is_done.wait(0.2):
            for name, value in memory().items():
                peaks[name] = max(peaks[name], value)

    before, thread = memory()["RssAnon"], threading.Thread(target=watch)
    thread.start()
    start, cpu = time.perf_counter(), time.process_time()
    if kind == "encode":
        hasher.encode(X, out=folder / "encode.npy")
    else:
        multiply(
            np.asarray(X), hasher.projection_, hasher.mean_ if kind == "centered" else None, folder / f"{kind}.npy"
        )
    cpu, wall = time.process_time() - cpu, time.perf_counter() - start
    is_done.set()
    thread.join()
    return {"cpu": cpu, "wall": wall, "anonymous": peaks["RssAnon"] - before, "resident": peaks["VmRSS"]}


def multiply(X, projection, mean, path):
    """Pack the signs of the bare product, batch by batch."""
    codes = np.lib.format.open_memmap(path, "w+", np.uint8, (len(X), -(-projection.shape[1] // 8)))
    for start in range(0, len(X), BATCH_SIZE):
        batch = X[start : start + BATCH_SIZE]
        activations = (batch if mean is None else batch - mean) @ projection
        codes[start : start + BATCH_SIZE] = np.packbits(activations >= 0, axis=1)
    codes.flush()


def memory():
    """MiB of the process: anonymous, and with the mapped pages."""
    with open("/proc/self/status") as file:
        lines = dict(line.split(":", 1) for line in file)
    return {name: int(lines[name].split()[0]) / 1024 for name in ("RssAnon", "VmRSS")}


if __name__ == "__main__":
    main()
