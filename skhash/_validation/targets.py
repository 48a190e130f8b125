"""The error of a supervised hasher that is fitted without y."""

from typing import Any

from skhash.registry import METHODS

_DISTANCES = (
    "from skhash.affinity import DistanceAffinity; hasher = {name}(nbits={nbits}, affinity=DistanceAffinity()).fit(X)"
)


def missing_targets(hasher: Any) -> ValueError:
    """ValueError for a supervised hasher that is fitted without y; its message ends in a line of code to copy."""
    name = type(hasher).__name__
    message = f"This {name} estimator requires y to be passed, but the target y is None. "
    if not isinstance(hasher.affinity, str):
        return ValueError(f"{message}Pass the targets that {hasher.affinity!r} compares.")
    message += "Pass class labels or a 0/1 matrix of labels as y. "
    learn_labels = {method.class_name for method in METHODS.values() if method.needs_labels}
    if learn_labels.intersection(base.__name__ for base in type(hasher).__mro__):
        return ValueError(f"{message}Without labels use a hasher that learns from X alone, such as ITQHasher.")
    line = _DISTANCES.format(name=name, nbits=hasher.nbits)
    return ValueError(f"{message}Without labels learn from the distances between samples:\n{line}")
