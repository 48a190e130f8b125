"""Progress of work on the samples of a file."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy.typing as npt

from skhash._encoding import ENCODE_BATCH_SIZE
from skhash.cli._samples import Samples
from skhash.comparison.progress import LiveLine, format_seconds


@dataclass(frozen=True)
class Part:
    """Number of samples that are done, whose string is a line to print."""

    label: str
    n_done: int
    n: int
    started: float  # by time.monotonic
    now: float = field(default_factory=time.monotonic)
    position: int = 0

    def __str__(self) -> str:
        text = f"{self.label}: {self.n_done:,} of {self.n:,} samples"
        if not 0 < self.n_done < self.n:
            return text
        left = (self.now - self.started) / self.n_done * (self.n - self.n_done)
        return f"{text}; {format_seconds(left)} left"


def in_batches(samples: Samples, label: str) -> Iterator[npt.NDArray[Any]]:
    """Samples in the batches of ``encode``, with progress on stderr after each."""
    n_done = 0
    with progress(label, samples.n) as show:
        for batch in samples.batches(ENCODE_BATCH_SIZE):
            yield batch
            n_done += len(batch)
            show(n_done)


@contextmanager
def progress(label: str, n: int) -> Iterator[Callable[[int], None]]:
    """Context manager of a function that takes the number of samples done, of n, and shows it on stderr."""
    started = time.monotonic()
    with LiveLine(sys.stderr) as line:
        yield lambda n_done: line.show(Part(label, n_done, n, started))
