"""Affinities: which samples are relevant to which, and how much.

An affinity is a callable on *targets*: ``affinity(y_a, y_b)`` returns the levels, a
matrix (len a, len b) of numbers >= 0, where 0 means irrelevant. Any function of
that form is an affinity. The classes here also say whether they need a target
(`requires_y`), learn from the training samples (`fit`), and list the levels that
can occur (`possible_levels`).
"""

from skhash.affinity._labels import ClassAffinity, SharedLabelsAffinity
from skhash.affinity._precomputed import PrecomputedAffinity
from skhash.affinity._vectors import DistanceAffinity, NeighborAffinity
from skhash.affinity.relevance import Relevance, label_matrix

__all__ = [
    "ClassAffinity",
    "DistanceAffinity",
    "NeighborAffinity",
    "PrecomputedAffinity",
    "Relevance",
    "SharedLabelsAffinity",
    "label_matrix",
]

for _public in (
    ClassAffinity,
    DistanceAffinity,
    NeighborAffinity,
    PrecomputedAffinity,
    Relevance,
    SharedLabelsAffinity,
):
    _public.__module__ = __name__  # pickles and checkpoints name the public path
