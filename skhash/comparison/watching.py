"""What a running comparison reports: the plan before the first fit, and the steps within a fit."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Plan:
    """What will be computed. Its string says the protocol of each data set in a line.

    Parameters
    ----------
    descriptions : list of str
        The split of each data set in a sentence.
    n_tasks : int
        Number of results.
    """

    descriptions: list[str]
    n_tasks: int

    def __str__(self) -> str:
        return "\n".join(self.descriptions)


@dataclass(frozen=True)
class Step:
    """An epoch or a bit that a fit has learned. Its string is a line to print.

    Parameters
    ----------
    position : int
        Index of the result among all results.
    label : str
        Method and number of bits.
    unit : str
        "epoch" or "bit".
    n_done, n_steps : int
        Number of learned epochs or bits, and of all.
    seconds : float, default=None
        Time of all fits of this result at this speed. None after the first epoch or bit, which
        may compile and load.
    seconds_left : float, default=0.0
        Estimated time until the end of the last of them.
    loss : float, default=None
        Loss of the epoch, if the method has one.
    fit, n_fits : int, default=1
        Which fit it is, and how many the result takes: each candidate of its tuning, and the last.
    n_tasks : int, default=0
        Number of results; 0 for a fit that is no part of a comparison.
    total_seconds_left : float, default=0.0
        Estimated time until the end of the comparison.
    """

    position: int
    label: str
    unit: str
    n_done: int
    n_steps: int
    seconds: float | None = None
    seconds_left: float = 0.0
    loss: float | None = None
    fit: int = 1
    n_fits: int = 1
    n_tasks: int = 0
    total_seconds_left: float = 0.0

    def __str__(self) -> str:
        text = f"[{self.position + 1}/{self.n_tasks}] {self.label}" if self.n_tasks else self.label
        text += f", candidate {self.fit} of {self.n_fits - 1}" if self.fit < self.n_fits else ""
        text += f": {self.unit} {self.n_done} of {self.n_steps}"
        text += "" if self.loss is None else f", loss {self.loss:.3g}"
        if self.seconds is None:
            return text
        times = (self.seconds_left, self.total_seconds_left)  # short, so that 80 columns are enough
        left, total = (format_seconds(seconds).removeprefix("about ") for seconds in times)
        return f"{text}; {left} left, {total} in all" if self.n_tasks else f"{text}; {left} left"


def format_seconds(seconds: float) -> str:
    """A time in words, such as 'about 41 s' or 'about 2.5 h'."""
    if seconds < 90:
        return f"about {seconds:.0f} s"
    return f"about {seconds / 60:.0f} min" if seconds < 5400 else f"about {seconds / 3600:.1f} h"
