"""Check that an affinity has relevant and irrelevant pairs among the training samples."""

from typing import Any

import numpy as np
from sklearn.utils import gen_batches

from skhash.affinity._levels import small_level_indices

BATCH_SIZE = 16  # samples that are compared with all others at a time; the first ones are usually enough


def check_pairs(affinity: Any, targets: Any) -> None:
    """Raise ValueError unless the fitted affinity has relevant and irrelevant pairs of different samples."""
    relevant = irrelevant = False
    for batch in gen_batches(targets.shape[0], BATCH_SIZE):
        indices, _ = small_level_indices(affinity, targets[batch], targets)
        others = np.ones(indices.shape, dtype=bool)
        others[np.arange(len(indices)), np.arange(batch.start, batch.stop)] = False
        relevant |= bool((indices[others] > 0).any())
        irrelevant |= bool((indices[others] == 0).any())
        if relevant and irrelevant:
            return
    if not getattr(affinity, "requires_y", True):
        raise ValueError(
            "`affinity` must make some pairs of different samples relevant, and others not. Got "
            f"{affinity!r}, with which {'all' if relevant else 'no'} pairs are."
        )
    if relevant:
        raise ValueError(
            "`y` must have at least two classes. Got targets that make every pair of samples relevant. In "
            "cross-validation sorted labels do this: use StratifiedKFold(shuffle=True)."
        )
    raise ValueError(
        "`y` must have at least one class of two samples. Got targets that make no pair of different samples relevant."
    )
