"""What all metrics share: queries without a value, layouts, namespaces, refused input, imports."""

import functools
import warnings

import _oracles as oracles
import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from skhash.metrics import (
    RelevanceHistogram,
    average_precision,
    fast_ap,
    ndcg,
    precision,
    r_precision,
    recall,
    reciprocal_rank,
    relevance_histogram,
    roc_auc,
)

METRICS = {
    "ap": average_precision,
    "ap at 3": functools.partial(average_precision, k=3),
    "ap at 3, min": functools.partial(average_precision, k=3, normalizer="min"),
    "ap at 3, retrieved": functools.partial(average_precision, k=3, normalizer="retrieved"),
    "ndcg": ndcg,
    "ndcg at 3": functools.partial(ndcg, k=3),
    "ndcg delayed_log2": functools.partial(ndcg, discount="delayed_log2"),
    "precision at 3": functools.partial(precision, k=3),
    "precision in radius 2": functools.partial(precision, radius=2),
    "recall at 3": functools.partial(recall, k=3),
    "recall in radius 2": functools.partial(recall, radius=2),
    "r_precision": r_precision,
    "reciprocal_rank": reciprocal_rank,
    "roc_auc": roc_auc,
    "fast_ap": fast_ap,
}


SOFT = [name for name in METRICS if name not in ("ap at 3, retrieved", "reciprocal_rank")]


every_metric = pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)


@every_metric
@pytest.mark.parametrize(("empty", "value"), [("skip", np.nan), ("zero", 0), ("one", 1), ("nan", np.nan)])
def test_empty_queries_follow_the_policy(metric, empty, value):
    good, other = [(0, 1), (1, 0), (2, 2)], [(1, 1), (3, 0)]
    H = oracles.histogram(good, [(0, 0), (1, 0)], [(0, 0)], other)
    first, last = metric(oracles.histogram(good, other), average=False)
    assert_allclose(metric(H, empty=empty, average=False), [first, value, value, last], rtol=1e-15)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        mean = metric(H, empty=empty)
    kept = [first, last] if empty == "skip" else [first, value, value, last]
    assert mean == pytest.approx(np.mean(kept), nan_ok=True)
    assert len(caught) == (empty == "skip")
    assert not caught or str(caught[0].message).startswith("2 of 4 queries have no ")


@every_metric
@pytest.mark.parametrize(("empty", "value"), [("skip", np.nan), ("zero", 0), ("one", 1), ("nan", np.nan)])
@pytest.mark.filterwarnings("ignore:2 of 2 queries")
def test_all_queries_empty(metric, empty, value):
    H = oracles.histogram([(0, 0)], [(1, 0), (1, 0)])
    assert metric(H, empty=empty) == pytest.approx(value, nan_ok=True)
    assert_allclose(metric(H, empty=empty, average=False), [value, value])


@every_metric
def test_mean_is_a_python_float_of_the_values(metric):
    H = oracles.histogram([(0, 1), (1, 0), (2, 2)], [(1, 1), (1, 0)])
    values = metric(H, average=False)
    assert (values.shape, values.dtype, type(metric(H))) == ((2,), np.float64, float)
    assert metric(H) == values.mean()


@every_metric
def test_weights_of_one_change_the_layout_and_no_metric(metric):
    rng = np.random.default_rng(0)
    queries, database = rng.integers(0, 2, (12, 5)), rng.integers(0, 2, (40, 5))
    labels = [rng.integers(0, 2, (n, 4)) for n in (12, 40)]
    dense = relevance_histogram(queries, database, *labels)
    ragged = relevance_histogram(queries, database, *labels, bit_weights=np.ones(5))
    assert (dense.is_ragged, ragged.is_ragged) == (False, True)
    assert_allclose(*(metric(H, empty="zero", average=False) for H in (dense, ragged)), rtol=1e-12)


@pytest.mark.parametrize("name", SOFT)
def test_torch_soft_counts_give_the_value_of_numpy(name):
    counts = np.random.default_rng(0).uniform(0, 2.5, (4, 6, 3))
    H, T = (RelevanceHistogram(c, np.arange(3)) for c in (counts, torch.tensor(counts)))
    assert_allclose(METRICS[name](T, average=False).numpy(), METRICS[name](H, average=False), rtol=1e-10)
    assert METRICS[name](T).item() == pytest.approx(METRICS[name](H), rel=1e-10)


@pytest.mark.parametrize("metric", [average_precision, ndcg, precision, reciprocal_rank])
def test_metrics_need_a_histogram(metric):
    with pytest.raises(TypeError, match=r"`H` must be a RelevanceHistogram.*relevance_histogram.*-scores.* Got list"):
        metric([0, 1], **({"k": 1} if metric is precision else {}))


def test_a_histogram_of_no_query_is_refused():
    with pytest.raises(ValueError, match=r"`H` must have at least one query"):
        precision(RelevanceHistogram(np.zeros((0, 9, 2)), np.array([0, 1])), k=1)
