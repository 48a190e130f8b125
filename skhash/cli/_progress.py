"""Progress of work on the samples of a file."""

import time
from dataclasses import dataclass, field

from skhash.comparison.watching import format_seconds


@dataclass(frozen=True)
class Part:
    """How many samples are done. Its string is a line to print.

    Parameters
    ----------
    label : str
        What is done with the samples.
    n_done, n : int
        Number of samples that are done, and of all.
    started : float
        When the work began, by ``time.monotonic``.
    """

    label: str
    n_done: int
    n: int
    started: float
    now: float = field(default_factory=time.monotonic)
    position: int = 0

    def __str__(self) -> str:
        text = f"{self.label}: {self.n_done:,} of {self.n:,} samples"
        if not 0 < self.n_done < self.n:
            return text
        left = (self.now - self.started) / self.n_done * (self.n - self.n_done)
        return f"{text}; {format_seconds(left)} left"
