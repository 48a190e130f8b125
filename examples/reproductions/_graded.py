"""Table 3 of TALR: the settings among which each method chooses, by the same number of candidates.

Relevance that is graded by distance has no classes. A recipe for classes is a poor baseline there: ITQ
is good already, and a long training overfits. TALR has a recipe of its own for this. So each other deep
method may have the same: the start from ITQ, batches of 500, a small learning rate and a large weight
decay. Methods that learn from relevant and irrelevant pairs may also have another threshold.
"""

import torch
from skhash.affinity import DistanceAffinity
from skhash.comparison import make_hasher
from skhash.hashers.deep._initial_maps import itq_map

# what TALR has as defaults if its affinity compares samples
RECIPE = {
    "start": "itq",
    "n_epochs": 100,
    "batch_size": 500,
    "learning_rate": 0.02,
    "weight_decay": 2.0,
}
RECIPE_OF_MIHASH = RECIPE | {"alpha": 0.7}
# all levels but 0 are relevant to methods with pairs, as in the paper: the nearest 5 %
NEAREST_5, NEAREST_2, NEAREST_1 = ({"percentiles": (p,)} for p in (5, 2, 1))
# more levels than the metric has, whose gains differ less from one level to the next
FINE_LEVELS = {"percentiles": (10, 5, 2, 1, 0.5, 0.2, 0.1)}
LONG_LISTS = {"C": 250.0, "ridge": 3.0, "n_relevant": 100, "n_irrelevant": 100}

# methods without candidates have nothing that matters here
CANDIDATES = {
    "talr-ndcg": [{}, {"weight_decay": 1.0}, FINE_LEVELS],
    "talr": [{}, NEAREST_2, NEAREST_1],
    "mihash": [NEAREST_5, RECIPE_OF_MIHASH, RECIPE_OF_MIHASH | {"n_bins": "nbits"}],
    "hashnet": [NEAREST_5, RECIPE, RECIPE | NEAREST_2],
    "dpsh": [NEAREST_5, RECIPE, RECIPE | NEAREST_2],
    "dtsh": [NEAREST_5, RECIPE, RECIPE | NEAREST_2],
    "structhash": [NEAREST_5, NEAREST_2, NEAREST_5 | LONG_LISTS],
    "bre": [NEAREST_5, NEAREST_2, {"reconstruct": "distances"}],
    "ksh": [NEAREST_5, NEAREST_2, NEAREST_5 | {"max_samples": 2000}],
    "agh": [{}, {"n_layers": 1}, {"n_neighbors": 5}],
}


def make(method, nbits, seed, affinity, start=None, percentiles=None, **parameters):
    """Hasher of a candidate, not fitted.

    Parameters
    ----------
    method : str
        Name of a method.
    nbits, seed : int
        Number of bits, and random_state.
    affinity : callable
        Affinity of the protocol.
    start : "itq", default=None
        Start from ITQ, for a deep hasher that has no such parameter. None leaves its
        own.
    percentiles : tuple of float, default=None
        Shares of the nearest training pairs, in percent, descending, that have the
        levels 1, 2, ... None takes `affinity`.
    **parameters
        Parameters of the hasher. ``n_bins="nbits"`` is one bin per bit.
    """
    if percentiles is not None:
        levels = tuple(range(1, len(percentiles) + 1))
        affinity = DistanceAffinity(percentiles, levels)
    if parameters.get("n_bins") == "nbits":
        parameters["n_bins"] = nbits
    hasher = make_hasher(method, nbits, seed, affinity, **parameters)
    if start == "itq":
        hasher._initialize = _start_from_itq
    return hasher


@torch.no_grad()
def _start_from_itq(encoder, X, rng):
    encoder.hash.weight.copy_(torch.as_tensor(itq_map(encoder, X, slice(None), rng).T))
