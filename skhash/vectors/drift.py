r"""Drift: whether new samples still look like those that a hasher was fitted to.

A fit keeps three things. Held-out samples, which the codes are not learned from, have the relative errors of
reconstruction e = |x - r(b)|^2 / |x|^2, and recalls at a fixed number of items. Some of all training samples have
their codes: how often a bit is 1 is not biased by learning, unlike the errors, so there can be more of them.

New samples have drifted if their mean error is larger, or if their bits are 1 more or less often, by a permutation test
of the sum over all bits of the squared differences of the means. This sum finds shifts of many bits, where the largest
difference alone is lost in the noise. The mean error is compared, by a one-sided t test, with the upper end of the
interval of 95 % of that of the held-out samples. These are few, and stay: with a test of two means, such as Welch's, a
hasher whose held-out samples happen to have small errors would raise false alarms again and again. Both p-values are
adjusted by Holm's method. Bits that tell a norm are left out: learning does bias them.
"""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import stdtr, stdtrit
from sklearn.utils import check_random_state, gen_batches

from skhash._ids import as_ids
from skhash._validation import Array, check_activations, evenly_spaced
from skhash.codes import threshold, unpack
from skhash.codes.codes import Codes, check_packed
from skhash.codes.queries import terms_of_items

N_CODES = 4096  # largest number of codes that a fit keeps
N_ITEMS = 200  # largest number of items that a query ranks
N_NEIGHBORS = 10
N_MAX_SAMPLES = 10_000  # largest number of new samples that are compared
N_PERMUTATIONS = 999
N_AT_ONCE = 100  # permutations
LEVEL = 0.05

FloatArray = npt.NDArray[np.floating]


@dataclass(frozen=True, repr=False)
class Drift:
    """How new samples differ from those that a hasher was fitted to, see :meth:`skhash.EmbeddingHasher.drift`.

    Parameters
    ----------
    alarm : bool
        Whether one of the two p-values is at most 0.05, and the loss of recall can exceed the tolerance.
    n_samples : int
        Number of samples that were compared: with groups, one of each.
    error, reference_error : float
        Mean relative error of reconstruction, of the new samples and of the held-out samples of the fit. For codes that
        are the signs of a map: the error of the signs for its values.
    error_pvalue : float
        P-value of a larger error, adjusted for two tests.
    largest_shift : float
        Largest difference between the share of the new samples in which a bit is 1, and that of training samples.
    shift_pvalue : float
        P-value of a shift of the bits, adjusted for two tests.
    recall, reference_recall : float or None
        Share of the ten nearest samples that a real query finds among its first ten, out of a fixed number of samples:
        of the new samples among each other, and of the held-out ones. None with too few samples, and after
        :meth:`~skhash.EmbeddingHasher.prefix`.
    recall_loss_interval : tuple of two floats or None
        Interval of 95 % for ``reference_recall - recall``.

    Examples
    --------
    >>> from skhash.vectors import Drift
    >>> drift = Drift(False, 500, 0.21, 0.2, 0.3, 0.08, 1.0, 0.91, 0.92, (-0.01, 0.03))
    >>> drift.alarm
    False
    """

    alarm: bool
    n_samples: int
    error: float
    reference_error: float
    error_pvalue: float
    largest_shift: float
    shift_pvalue: float
    recall: float | None
    reference_recall: float | None
    recall_loss_interval: tuple[float, float] | None

    def __repr__(self) -> str:
        lines = (f"    {field.name}={_rounded(getattr(self, field.name))}," for field in fields(self))
        return "\n".join([f"{type(self).__name__}(", *lines, ")"])


def _rounded(value: Any) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_rounded, value))})"
    return f"{value:.3g}" if isinstance(value, float) else repr(value)


# --- what a fit keeps


def reference_of(hasher: Any, X: Any, held_out: npt.NDArray[np.int64]) -> dict[str, Any]:
    """What a fit keeps of its samples, some of which were held out."""
    held_out = np.random.default_rng(0).permutation(held_out)  # near samples may be neighbors in X
    samples, n_items = X[held_out], min(N_ITEMS, len(held_out) - 1)
    return {
        "codes": hasher._map(X[evenly_spaced(len(X), N_CODES)], hasher._packed, is_valid=True),
        "errors": _errors(hasher, samples).astype(np.float32),
        "recalls": _recalls(hasher, samples, n_items).astype(np.float32),
        "n_items": n_items,
    }


def cut_reference(reference: dict[str, Any], nbits: int) -> dict[str, Any]:
    """What is known of the first bits."""
    codes = reference["codes"]
    return {"codes": Codes(codes, 8 * codes.shape[1]).first(nbits).rows, "errors": reference["errors"]}


def check_reference(hasher: Any, lengths: dict[str, int]) -> None:
    """Raise ValueError for a reference in a file that no fit makes."""
    reference = hasher._reference
    if not hasattr(hasher.function_, "errors"):
        raise ValueError("`_reference` must be missing for a function without errors of reconstruction.")
    names = {"codes", "errors"}
    if not names <= reference.keys() <= names | {"recalls", "n_items"} or len(reference) == 3:
        raise ValueError(f"`_reference` must have codes, errors, recalls and n_items. Got {sorted(reference)} instead.")
    lengths = {name: lengths[name] for name in ("nbits", "n_bytes")}
    Array("n_codes n_bytes", "u").check("_reference.codes", reference["codes"], lengths)
    check_packed(reference["codes"], lengths["nbits"], "_reference.codes")
    Array("n_held_out", minimum=0).check("_reference.errors", reference["errors"], lengths)
    if min(lengths["n_codes"], lengths["n_held_out"]) < 2:
        raise ValueError("`_reference` must have two samples or more.")
    if "recalls" in reference:
        Array("n_held_out", minimum=0).check("_reference.recalls", reference["recalls"], lengths)
        n_items = reference["n_items"]
        if type(n_items) is not int or not 1 <= n_items < lengths["n_held_out"]:
            raise ValueError(f"`_reference.n_items` must be from 1 to {lengths['n_held_out'] - 1}. Got {n_items!r}.")


# --- the comparison


def compare(hasher: Any, X: Any, groups: Any, tolerance: float | None, random_state: Any) -> Drift:
    """Drift of validated samples."""
    rng, reference, nbits = check_random_state(random_state), hasher._reference, hasher._n_features_out
    chosen = _one_per_group(len(X), groups, rng)
    samples = X[chosen]
    errors, old_errors = _errors(hasher, samples), reference["errors"].astype(np.float64)
    is_content = getattr(hasher.function_, "digits", np.zeros(nbits))[:nbits] == 0
    codes = hasher._map(samples, hasher._packed, is_valid=True)
    bits, old_bits = (unpack(part, nbits)[:, is_content] for part in (codes, reference["codes"]))
    error_pvalue, shift_pvalue = _holm(_error_pvalue(errors, old_errors), _shift_pvalue(bits, old_bits, rng))
    recall = old_recall = interval = None
    if len(samples) > reference.get("n_items", N_MAX_SAMPLES):
        recalls, old_recalls = _recalls(hasher, samples, reference["n_items"]), reference["recalls"].astype(np.float64)
        recall, old_recall = float(recalls.mean()), float(old_recalls.mean())
        interval = _welch_interval(old_recalls, recalls)
    may_cost = tolerance is None or interval is None or interval[1] > tolerance
    return Drift(
        alarm=min(error_pvalue, shift_pvalue) <= LEVEL and may_cost,
        n_samples=len(samples),
        error=float(errors.mean()),
        reference_error=float(old_errors.mean()),
        error_pvalue=error_pvalue,
        largest_shift=float(np.abs(bits.mean(axis=0) - old_bits.mean(axis=0)).max(initial=0)),
        shift_pvalue=shift_pvalue,
        recall=recall,
        reference_recall=old_recall,
        recall_loss_interval=interval,
    )


def _one_per_group(n: int, groups: Any, rng: np.random.RandomState) -> npt.NDArray[np.int64]:
    """Indices of a random sample of each group, in random order; of each sample without groups."""
    order = rng.permutation(n)
    if groups is not None:
        names = as_ids(groups, "groups")
        if names.shape != (n,):
            raise ValueError(f"`groups` must have one value per sample, shape ({n},). Got {names.shape} instead.")
        _, first = np.unique(names[order], return_index=True)
        order = order[np.sort(first)]
    if len(order) < 2:
        raise ValueError(f"`X` must have at least 2 samples, of different groups. Got {len(order)} instead.")
    return order[:N_MAX_SAMPLES]


def _error_pvalue(errors: FloatArray, old_errors: FloatArray) -> float:
    """P-value of a mean above the upper end of the interval of the old mean."""
    upper = old_errors.mean() + _variance_of_mean(old_errors) ** 0.5 * stdtrit(len(old_errors) - 1, 1 - LEVEL)
    return float(stdtr(len(errors) - 1, (upper - errors.mean()) / _variance_of_mean(errors) ** 0.5))


def _variance_of_mean(values: FloatArray) -> float:
    return max(float(values.var(ddof=1)) / len(values), 1e-24)


def _welch_interval(first: FloatArray, second: FloatArray) -> tuple[float, float]:
    """Welch's interval of the difference of two means."""
    parts = [_variance_of_mean(values) for values in (first, second)]
    dof = sum(parts) ** 2 / sum(p**2 / (len(values) - 1) for p, values in zip(parts, (first, second), strict=True))
    difference, margin = float(first.mean() - second.mean()), sum(parts) ** 0.5 * float(stdtrit(dof, 1 - LEVEL / 2))
    return difference - margin, difference + margin


def _shift_pvalue(bits: npt.NDArray[np.uint8], old_bits: npt.NDArray[np.uint8], rng: np.random.RandomState) -> float:
    """P-value of the sum of the squared differences of the means, by random permutations of old and new."""
    pooled = np.concatenate([bits, old_bits]).astype(np.float32)
    pooled -= pooled.mean(axis=0)  # now the sums of old and new differ by their sign alone
    n, n_new = len(pooled), len(bits)
    least = np.square(pooled[:n_new].sum(axis=0, dtype=np.float64)).sum() * (1 - 1e-6)
    n_larger = 0
    for batch in gen_batches(N_PERMUTATIONS, N_AT_ONCE):
        is_new = np.zeros((batch.stop - batch.start, n), np.float32)
        for row in is_new:
            row[rng.choice(n, n_new, replace=False)] = 1
        n_larger += int((np.square(is_new @ pooled).sum(axis=1) >= least).sum())
    return (1 + n_larger) / (1 + N_PERMUTATIONS)


def _holm(first: float, second: float) -> tuple[float, float]:
    """Two p-values adjusted for each other by Holm's method."""
    smaller = min(1.0, 2 * min(first, second))
    larger = max(smaller, first, second)
    return (smaller, larger) if first <= second else (larger, smaller)


# --- what is measured


def _errors(hasher: Any, X: Any) -> npt.NDArray[np.float64]:
    """Relative errors of reconstruction of validated samples."""
    errors = hasher._map(X, lambda samples: check_activations(hasher.function_.errors(samples), hasher), is_valid=True)
    return np.asarray(errors[:, 0], np.float64)


def _recalls(hasher: Any, X: Any, n_items: int) -> npt.NDArray[np.float64]:
    """Recall of each sample as a real query, among the samples that follow it in a circle; more than `n_items`."""
    truth, estimate = _similarity_terms(hasher, X), _score_terms(hasher, X)
    n, k = len(X), min(N_NEIGHBORS, n_items)
    values = np.empty(n)
    for batch in gen_batches(n, n_items):
        rows = np.arange(batch.start, batch.stop)
        items = np.arange(batch.start + 1, batch.stop + n_items) % n
        window = np.arange(len(rows))[:, None] + np.arange(n_items)
        similarities, scores = (
            np.take_along_axis(queries[rows] @ vectors[items].T - offsets[items], window, 1)
            for queries, vectors, offsets in (truth, estimate)
        )
        least = np.partition(similarities, -k, axis=1)[:, [-k]]
        found = np.take_along_axis(similarities, np.argpartition(scores, -k, axis=1)[:, -k:], 1)
        values[rows] = (found >= least - 1e-9 * np.abs(least)).mean(axis=1)  # copies have equal similarities
    return values


def _similarity_terms(hasher: Any, X: Any) -> tuple[Any, Any, Any]:
    """Queries, vectors and offsets; ``queries @ vectors.T - offsets`` are the similarities of samples."""
    function = hasher.function_
    if hasher.metric == "euclidean":
        vectors = function.features(X[:]).astype(np.float64)
        return 2 * vectors, vectors, (vectors**2).sum(axis=1)
    vectors = (function.read(X[:]) if hasher.metric == "cosine" else X[:].reshape(len(X), -1)).astype(np.float64)
    return vectors, vectors, np.zeros(len(vectors))


def _score_terms(hasher: Any, X: Any) -> tuple[Any, Any, Any]:
    """Queries, vectors and offsets of the scores of samples."""
    signs = hasher._map(X, lambda samples: 2.0 * threshold(hasher._activations(samples)) - 1, is_valid=True)
    if not hasher.factors:
        queries = hasher._map(X, hasher._real_queries, is_valid=True)
        return queries.astype(np.float64), signs, np.zeros(len(signs))
    with hasher._environment():
        queries, _ = hasher.function_.estimates(X[:], hasher.metric)
    factors = hasher._map(X, hasher._factors, is_valid=True)
    slopes, offsets = terms_of_items(factors, hasher.metric)
    return queries.astype(np.float64), slopes[:, None] * signs, offsets
