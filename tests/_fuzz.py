"""Runs hostile files in processes with limits, and says what came of each.

A `Target` is one kind of file. Each case is one mutated file, which depends on the seed and
its number alone. A worker reads it; the limits are 2 seconds of CPU time and 500 MB beyond
the start. What can come of it:

    same       the file reads as the original
    refused    an InvalidFileError whose message begins with the path
    another    a forged file (a mutated tree, written and sealed as the library writes it) is a valid one, or the bytes
               hold a whole other original, since archives may begin with other bytes

and what must not:

    silent     damaged bytes read as something else than the original
    nameless   an InvalidFileError that does not begin with the path
    error      any other error
    hang, memory, crash
"""

import contextlib
import dataclasses
import multiprocessing
import os
import signal
import tempfile
import traceback
import warnings
import zlib
from collections import Counter
from collections.abc import Callable
from os import _exit
from pathlib import Path
from typing import Any

import numpy as np
from _fuzz_mutators import mutate_bytes, mutate_tree

from skhash.exceptions import InvalidFileError

SECONDS, BYTES = 2.0, 500 * 2**20
GOOD = ("same", "refused", "another")


@dataclasses.dataclass(frozen=True)
class Target:
    """One kind of file.

    All functions are at the top level of a module, since workers get them by name.
    `originals` makes valid files, by name. `read` reads a file and uses it as a user would,
    and returns what must not change silently: arrays, plain values, tuples, lists, dicts of
    these. Where there is a tree in the files, `unpack` returns it and `pack` makes the file of
    a tree, with the checksum that it needs.
    """

    name: str
    suffix: str
    originals: Callable[[], dict[str, bytes]]
    read: Callable[[Path], Any]
    unpack: Callable[[bytes], Any] | None = None
    pack: Callable[[Any], bytes] | None = None


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What came of one case."""

    target: str
    number: int
    original: str
    kind: str
    message: str = ""

    def __str__(self):
        return f"{self.kind}: {self.target} {self.number} ({self.original}) {self.message}".rstrip()


def make_case(target, originals, number, seed=0):
    """Name of the original, whether the file is forged, and its bytes."""
    rng = np.random.default_rng([seed, zlib.crc32(target.name.encode()), number])
    names = list(originals)
    name = names[int(rng.integers(len(names)))]
    if target.unpack is not None and number % 2:
        tree = mutate_tree(target.unpack(originals[name]), rng)
        with contextlib.suppress(Exception):  # some trees cannot be written: then there is no case
            return name, True, target.pack(tree)
    return name, False, mutate_bytes(originals[name], rng, list(originals.values()))


class Runner:
    """A process in which the cases of some targets run; use it in a with statement.

    It forks a worker after everything is imported. If the worker dies it forks the next one.
    """

    def __init__(self, targets, seed=0):
        self.targets = {target.name: target for target in targets}
        self.seed = seed
        originals = {target.name: target.originals() for target in targets}
        self.connection, theirs = multiprocessing.Pipe()
        arguments = (theirs, self.targets, originals, seed)
        self.process = multiprocessing.get_context("spawn").Process(target=_fork_workers, args=arguments)
        self.process.start()
        theirs.close()
        self.worker = self.connection.recv()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.connection.send(None)
        self.process.join()

    def run(self, target, number, data=None, patience=600):
        """Outcome of one case, or of a file of these bytes; `patience` is in seconds."""
        self.connection.send((target, number, data))
        answer = self.connection.recv() if self.connection.poll(patience) else None
        if answer is None:  # it waits for something, and uses no CPU time
            os.kill(self.worker, signal.SIGKILL)
            answer = self.connection.recv()
        if isinstance(answer, Outcome):
            return answer
        self.worker = self.connection.recv()
        hung = answer in (signal.SIGPROF, signal.SIGKILL)
        return Outcome(target, number, "", "hang" if hung else "crash", f"signal or exit status {answer}")


def run_cases(targets, n_cases, seed=0, runner=None):
    """Outcomes of this number of cases, spread evenly over the targets."""
    with contextlib.nullcontext(runner) if runner else Runner(targets, seed) as runner:
        return [runner.run(targets[i % len(targets)].name, i // len(targets)) for i in range(n_cases)]


def failures(outcomes):
    """Outcomes that must not be."""
    return [outcome for outcome in outcomes if outcome.kind not in GOOD]


def table(outcomes):
    """Number of outcomes of each kind for each target, as text."""
    counts = Counter((outcome.target, outcome.kind) for outcome in outcomes)
    kinds = [*GOOD, "silent", "nameless", "error", "hang", "memory", "crash"]
    lines = [f"{'':14}" + "".join(f"{kind:>10}" for kind in kinds)]
    for target in sorted({target for target, _ in counts}):
        lines.append(f"{target:14}" + "".join(f"{counts[target, kind]:10}" for kind in kinds))
    return "\n".join(lines)


# --- in the process of a runner


def _fork_workers(connection, targets, originals, seed):
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory(prefix="fuzz") as folder:
        expected = {}
        for name, files in originals.items():
            for original, data in files.items():
                path = Path(folder, f"original{targets[name].suffix}")
                path.write_bytes(data)
                expected[name, original] = targets[name].read(path)
        status = 1
        while status:
            worker = os.fork()
            if not worker:
                try:
                    _run_worker(connection, targets, originals, expected, seed, folder)
                    status = 0
                finally:  # an error that passed here would remove the folder of all workers
                    _exit(status)
            status = os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1])
            if status:
                connection.send(abs(status))


def _run_worker(connection, targets, originals, expected, seed, folder):
    connection.send(os.getpid())
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # libraries that abort say so
    while (case := connection.recv()) is not None:
        name, number, data = case
        target = targets[name]
        original, forged, mutated = make_case(target, originals[name], number, seed)
        path = Path(folder, f"case{target.suffix}")
        path.write_bytes(mutated if data is None else data)
        kind, message, value = _classify(target, path, expected[name, original], forged and data is None)
        if kind == "silent" and any(_equal(value, expected[name, other]) for other in originals[name]):
            kind = "another"
        connection.send(Outcome(name, number, original, kind, message))


def _classify(target, path, expected, forged):
    """Kind of outcome, its message, and the value that was read."""
    import resource  # not on Windows

    start = _memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins here
    unlimited = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (_memory("VmSize") + BYTES, unlimited[1]))
    signal.setitimer(signal.ITIMER_PROF, SECONDS)  # its signal ends the process
    try:
        value = target.read(path)
    except Exception as error:
        failure: BaseException | None = error
    else:
        failure = None
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_AS, unlimited)
    if _memory("VmHWM") - start > BYTES or _is_out_of_memory(failure):
        return "memory", repr(failure), None
    if failure is None:
        same = _equal(value, expected)
        return ("same" if same else "another" if forged else "silent"), "", value
    if isinstance(failure, InvalidFileError):
        return ("refused" if str(failure).startswith(str(path)) else "nameless"), str(failure), None
    return "error", "".join(traceback.format_exception(failure)[-3:]), None


def _memory(field):
    """Bytes of a field of /proc/self/status."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return 1024 * int(line.split()[1])
    raise KeyError(field)


def _is_out_of_memory(error):
    while error is not None:
        if isinstance(error, MemoryError) or "allocate memory" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


def _equal(a, b):
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return list(a) == list(b) and all(_equal(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(_equal, a, b))
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    return bool(a == b or (a != a and b != b))
