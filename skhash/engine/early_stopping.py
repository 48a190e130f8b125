"""Early stopping: the epoch with the best value on held-out samples is kept."""

import math
from abc import ABC, abstractmethod
from typing import Any

from skhash.engine.runtime import from_first

#: assumed standard deviation of the gain of a query; a mean gain below its standard error is noise
SPREAD = 0.1


class BestEpoch(ABC):
    """The epoch with the best value on held-out queries; `best` is the value to exceed and its epoch."""

    def __init__(self, n_queries: int, n_iter_no_change: int) -> None:
        self.n_queries, self.n_iter_no_change = n_queries, n_iter_no_change
        self.best: tuple[float, int] = (-math.inf, 0)

    @abstractmethod
    def measure(self, encoder: Any) -> float:
        """Value of an encoder."""

    def keep_start(self, value: float) -> None:
        """Keep the initial weights, which have this value, unless an epoch is better by more than a standard error."""
        self.best = (value + self.error, 0)

    @property
    def error(self) -> float:
        """Standard error of a mean gain of the held-out queries."""
        return SPREAD / math.sqrt(max(self.n_queries, 1))

    def improves(self, encoder: Any, entry: dict[str, Any]) -> bool:
        """Add the value of an epoch to its entry of the history; return whether it is the best so far."""
        entry["validation"] = from_first(self.measure(encoder))  # several processes stop together
        if entry["validation"] <= self.best[0]:
            return False
        self.best = (entry["validation"], entry["epoch"])
        return True

    def should_stop(self, n_epochs: int) -> bool:
        """Whether the last epochs brought no better value."""
        return n_epochs - self.best[1] >= self.n_iter_no_change
