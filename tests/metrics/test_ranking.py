"""ROC AUC and reciprocal rank, and what all metrics share: empty queries, layouts, namespaces, imports."""

import functools
import subprocess
import sys
import warnings

import _oracles as oracles
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from numpy.testing import assert_allclose
from sklearn.metrics import average_precision_score, roc_auc_score

from skhash.metrics import (
    RelevanceHistogram,
    average_precision,
    fast_ap,
    histogram_from_distances,
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
    "ndcg structhash": functools.partial(ndcg, discount="structhash"),
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


@pytest.mark.parametrize("metric", ["roc_auc", "reciprocal_rank"])
@settings(deadline=None, max_examples=60)
@given(items=oracles.tied_items(max_level=2))
def test_equals_enumeration_of_all_orders(metric, items):
    expected = getattr(oracles, metric)(oracles.all_rankings(items))
    for ties, summary in oracles.OVER_ORDERS.items():
        value = METRICS[metric](oracles.histogram(items), ties=ties, empty="zero")
        assert value == pytest.approx(summary(expected), abs=1e-12)


def test_agrees_with_sklearn_on_scores():
    rng = np.random.default_rng(0)
    relevant = rng.integers(0, 2, (5, 60))
    scores = rng.normal(size=(5, 60)) + relevant  # without ties, which sklearn's average precision does not average
    H = histogram_from_distances(-scores, np.arange(5), np.arange(60), affinity=lambda a, b: relevant)
    for metric, reference in ((roc_auc, roc_auc_score), (average_precision, average_precision_score)):
        expected = [reference(r, s) for r, s in zip(relevant, scores, strict=True)]
        assert_allclose(metric(H, average=False), expected, rtol=1e-12)
        assert metric(H) == pytest.approx(np.mean(expected), rel=1e-12)
    rounded = histogram_from_distances(-scores.round(), np.arange(5), np.arange(60), affinity=lambda a, b: relevant)
    expected = [roc_auc_score(r, s) for r, s in zip(relevant, scores.round(), strict=True)]
    assert_allclose(roc_auc(rounded, average=False), expected, rtol=1e-12)


def test_reciprocal_rank_of_a_tie_of_thousands():
    n, p, before = 5000, 3, 7
    chances = np.cumprod(1 - p / (n - np.arange(n - p + 1)))  # no relevant item among the first j + 1
    at = -np.diff(np.concatenate([[1], chances]))
    counts = np.array([[[before, 0], [n - p, p]]])
    expected = at @ (1 / (before + 1 + np.arange(len(at))))
    assert reciprocal_rank(RelevanceHistogram(counts, np.arange(2))) == pytest.approx(expected, rel=1e-10)


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


def test_roc_auc_of_a_query_without_an_irrelevant_item_is_undefined():
    H = oracles.histogram([(0, 1), (1, 1)], [(0, 1), (1, 0)])
    with pytest.warns(UserWarning, match="1 of 2 queries have no pair of a relevant and an irrelevant item"):
        assert roc_auc(H) == 1
    assert np.isnan(roc_auc(H, average=False)[0])


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


def test_metrics_import_no_heavy_library():
    program = """
import sys, sklearn  # which itself imports scipy.stats
before = set(sys.modules)
import skhash.metrics
print([m for m in ("torch", "numba", "cvxpy", "scipy.stats", "matplotlib") if m in set(sys.modules) - before])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
