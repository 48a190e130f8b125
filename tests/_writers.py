"""Writers of one file, as functions for threads and as a program for processes: `_writers.py KIND HOW PATH N SEED`."""

import hashlib
import multiprocessing
import os
import stat
import sys
import time

from skhash._files import write_atomically


def content_of(seed, i):
    """Bytes that begin with their own hash."""
    payload = f"{seed} {i} ".encode() * (1000 + 100 * (i % 7))
    return hashlib.sha256(payload).digest() + payload


def is_whole(data):
    return hashlib.sha256(data[32:]).digest() == data[:32]


def write_content(path, seed, i):
    """Write such bytes: whether that failed."""
    try:
        with write_atomically(path) as file:
            file.write(content_of(seed, i))
    except OSError as error:
        print(error, file=sys.stderr)
        return True
    return False


def make_hasher(seed):
    """A small hasher, which depends on the seed."""
    import numpy as np

    from skhash import PCAHasher

    return PCAHasher(8).fit(np.random.default_rng(seed).normal(size=(100, 16)))


def save_hasher(path, hasher):
    """Save a hasher: whether that failed."""
    from skhash.persistence import save

    try:
        save(hasher, path)
    except OSError as error:
        print(error, file=sys.stderr)
        return True
    return False


def start(target, *arguments):
    """Start a function in a process that has imported the library already."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        ["skhash.comparison", "skhash.persistence", "skhash.hashers.deep.dpsh", "skhash.engine.training"]
    )
    process = context.Process(target=target, args=arguments)
    process.start()
    return process


def slow_down_the_disk():
    """Let most of the time of a process be that of the bytes of a partial file, so that kills hit it."""
    sync = os.fsync

    def sync_slowly(descriptor):
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):  # a folder is synchronized after its file is whole
            time.sleep(0.04)
        sync(descriptor)

    os.fsync = sync_slowly


def save_forever(path):
    """Save two hashers in turn until somebody kills the process."""
    slow_down_the_disk()
    hashers = [make_hasher(seed) for seed in (1, 2)]
    while True:
        for hasher in hashers:
            save_hasher(path, hasher)


def compare_slowly(folder, options):
    """Run a comparison on a slow disk."""
    from skhash.comparison import compare

    slow_down_the_disk()
    compare(**options, folder=folder)


def fit(folder, out, n_epochs):
    """Resume a training, and write its codes."""
    import numpy as np
    from sklearn.datasets import load_digits

    from skhash import DPSHHasher

    X, y = load_digits(return_X_y=True)
    hasher = DPSHHasher(16, n_epochs=n_epochs, batch_size=100, checkpoint=folder, random_state=0)
    np.save(out, hasher.fit(X[:300], y[:300], resume=True).database_.codes.rows)


def fit_slowly(folder, out, n_epochs):
    """Resume a training on a slow disk."""
    slow_down_the_disk()
    fit(folder, out, n_epochs)


def encode_slowly(hasher, data, out, batch_size, log):
    """Encode a memmap on a slow machine, and log the samples after each slice that was not finished before."""
    import numpy as np

    from skhash.persistence import load

    part = out.with_name(f"{out.name}.part")
    n_before = (part.stat().st_size - 128) // 2 if part.exists() else 0  # two bytes per sample

    def wait(n_done, _):
        if n_done > n_before:
            with open(log, "a") as file:
                file.write(f"{n_done}\n")
            time.sleep(0.005)

    load(hasher).encode(np.load(data, mmap_mode="r"), out=out, batch_size=batch_size, progress=wait)


def main(kind, how, path, n, seed):
    """Write n times, and print the number of the process and that of failed writes."""
    if how == "same number":
        os.getpid = lambda: 1
    if kind == "hashers":
        hasher = make_hasher(int(seed))
        n_failed = sum(save_hasher(path, hasher) for _ in range(int(n)))
    else:
        n_failed = sum(write_content(path, int(seed), i) for i in range(int(n)))
    print(os.getpid(), n_failed)


if __name__ == "__main__":
    main(*sys.argv[1:])
