"""The check that several processes fit the same hasher to the same samples."""

from typing import Any

from skhash.engine import evenly_spaced
from skhash.engine.processes import gather, n_processes
from skhash.hashers.deep._checkpoints import FREE
from skhash.persistence._identity import identify

N_COMPARED = 1000  # samples at most


def check_same_training(hasher: Any, X: Any, targets: Any) -> None:
    """Raise ValueError in every process unless all have the same parameters and samples.

    At most 1,000 samples are compared.
    """
    if n_processes() == 1:
        return
    params = {name: value for name, value in hasher.get_params(deep=False).items() if name not in FREE}
    plain = {name: value for name, value in params.items() if isinstance(value, bool | int | float | str | None)}
    chosen = evenly_spaced(len(X), N_COMPARED)
    some = None if targets is None else targets[chosen]
    settings = {"hasher": type(hasher), "n_samples": len(X)} | plain | hasher.settings_
    identity = identify(settings, X[chosen], some)
    for rank, other in enumerate(gather(identity)):
        if rank == 0:
            first = other
        elif differing := sorted(name for name in first | other if first.get(name) != other.get(name)):
            raise ValueError(
                "Processes that train one hasher must be given the same parameters, X and y, since each takes its "
                f"part of every batch by itself. Process {rank} differs from process 0 in: {', '.join(differing)}."
            )
