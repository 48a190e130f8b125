import math

import _oracles as oracles
import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import ndcg_score

from skhash.metrics import RelevanceHistogram, ndcg

TABLE = 2**20  # discounts are summed one by one up to this rank
cutoffs = st.none() | st.integers(1, 10)


@settings(max_examples=100)
@given(items=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 10)), min_size=2, max_size=40), k=cutoffs)
def test_equals_sklearn_on_the_gains(items, k):
    distances, levels = np.transpose(items)
    for gain, gains in {"exponential": 2.0**levels - 1, "linear": levels}.items():
        expected = ndcg_score([gains], [-distances], k=k)
        assert ndcg(oracles.histogram(items), k=k, gain=gain, empty="zero") == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("options", [{}, {"discount": "delayed_log2"}, {"gain": "linear"}], ids=str)
@settings(max_examples=60)
@given(items=oracles.tied_items(max_level=3), k=cutoffs)
def test_equals_enumeration_of_all_orders(options, items, k):
    expected = oracles.ndcg(oracles.all_rankings(items), k, **options)
    for ties, summary in oracles.OVER_ORDERS.items():
        value = ndcg(oracles.histogram(items), k=k, ties=ties, **options, empty="zero")
        assert value == pytest.approx(summary(expected), abs=1e-12)


def test_is_equation_7_over_the_maximum_of_equation_5():
    counts, levels = np.random.default_rng(0).integers(0, 6, (5, 9, 4)), np.arange(4)

    def eq_7(n):  # DCG_T of ties of n_{d,v} items
        before, total = 0, 0.0
        for tie in n:
            ranks = range(before + 1, before + tie.sum() + 1)
            if len(ranks):
                gains = sum((2.0**v - 1) * tie[v] / tie.sum() for v in levels)
                total += gains * sum(1 / math.log2(t + 1) for t in ranks)
            before += tie.sum()
        return total

    expected = [eq_7(n) / eq_7(np.diag(n.sum(axis=0))[::-1]) for n in counts]  # the best ranking has levels descending
    assert ndcg(RelevanceHistogram(counts, levels), average=False) == pytest.approx(expected, rel=1e-14)


def test_delayed_discount_is_a_plain_sum_of_its_own():
    items = [(0, 1), (1, 0), (2, 3), (3, 2)]  # relevant at the ranks 1, 3, 4
    gain, gain_at_3, ideal = 1 + 1 / np.log2(3) + 1 / 2, 1 + 1 / np.log2(3), 1 + 1 + 1 / np.log2(3)
    assert ndcg(oracles.histogram(items), discount="delayed_log2") == pytest.approx(gain / ideal, abs=1e-15)
    assert ndcg(oracles.histogram(items), discount="delayed_log2", k=3) == pytest.approx(gain_at_3 / ideal, abs=1e-15)


def test_gains_do_not_saturate_and_levels_may_be_real():
    ten_first, ten_last = (oracles.ndcg(np.array([levels])) for levels in ([10, 9], [9, 10]))
    assert ndcg(oracles.histogram([(0, 9), (1, 10)])) == pytest.approx(ten_last[0], abs=1e-15)
    assert ten_first[0] == 1
    H = RelevanceHistogram(np.array([[[0, 1, 0], [1, 0, 1]]], dtype=np.int8), np.array([0, 0.5, 10]))
    assert ndcg(H) == pytest.approx(oracles.ndcg(np.array([[0.5, 10, 0], [0.5, 0, 10]])).mean(), abs=1e-12)
    counts = np.array([[[900, 40], [800, 30], [0, 30]]])
    low, high = (ndcg(RelevanceHistogram(counts, [0, level])) for level in (1, 1023))  # sums above the largest float
    assert high == pytest.approx(low, abs=1e-12)


@pytest.mark.parametrize("k", [None, 5])
@pytest.mark.parametrize("discount", ["log2", "delayed_log2"])
def test_soft_counts_interpolate_the_sum_of_discounts(discount, k):
    counts = np.random.default_rng(0).uniform(0.1, 2, (6, 3))
    ranks = np.arange(1, 40)
    discounts = 1 / np.log2(ranks + 1 if discount == "log2" else np.maximum(ranks, 2))
    gains = np.array([0, 1, 3] if discount == "log2" else [0, 1, 1])

    def dcg(ties):
        until = np.minimum(np.cumsum([0, *ties.sum(axis=1)]), k or np.inf)
        return np.diff(np.interp(until, [0, *ranks], [0, *discounts.cumsum()])) @ (ties @ gains / ties.sum(axis=1))

    expected = dcg(counts) / dcg(np.diag(counts.sum(axis=0))[::-1])
    for as_array in (np.array, torch.tensor):
        H = RelevanceHistogram(as_array(counts[None]), np.arange(3))
        assert float(ndcg(H, k=k, discount=discount)) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("discount", ["log2", "delayed_log2"])
def test_ranks_beyond_the_table_are_summed_as_well(discount):
    shift, n, largest = int(discount == "log2"), 1_500_000, 10**12
    discounts = 1 / np.log2(np.maximum(np.arange(1, n + 1) + shift, 2))
    few, table, many = (math.fsum(discounts[:x]) for x in (1000, TABLE, n))
    with mpmath.workdps(30):  # by more terms of Euler and Maclaurin
        all_discounts = table + float(mpmath.sumem(lambda t: mpmath.ln2 / mpmath.log(t + shift), [TABLE + 1, largest]))
    for n_items, expected in [(TABLE, table), (n, many), (largest, all_discounts)]:
        H = RelevanceHistogram(np.array([[[n_items - 1000, 1000]]]), np.array([0, 1]))  # one tie
        assert ndcg(H, discount=discount) == pytest.approx(1000 / n_items * expected / few, rel=1e-12)


@pytest.mark.parametrize("options", [{}, {"k": 5}, {"k": 2}, {"discount": "delayed_log2", "k": 5}], ids=str)
def test_gradient_with_respect_to_soft_counts(options):
    counts = torch.tensor(np.random.default_rng(0).uniform(0.2, 3, (3, 5, 3)), requires_grad=True)
    levels = np.array([0, 1, 2])
    assert torch.autograd.gradcheck(lambda c: ndcg(RelevanceHistogram(c, levels), average=True, **options), counts)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 0}, "`k` must be None or an int >= 1. Got 0"),
        ({"discount": "ln"}, "`discount` must be one of 'log2', 'delayed_log2'. Got 'ln'"),
        ({"gain": "log"}, "`gain` must be one of 'exponential', 'linear'. Got 'log'"),
        ({"gain": "linear", "discount": "delayed_log2"}, "`gain` must be 'exponential' with discount='delayed_log2'"),
        ({"ties": "random"}, "`ties` must be one of 'average', 'best', 'worst'. Got 'random'"),
    ],
)
def test_unknown_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        ndcg(oracles.histogram([(0, 1)]), **options)


def test_gains_that_overflow_are_refused():
    with pytest.raises(ValueError, match=r"`H` must have levels up to 1023.* Got a level of 1100"):
        ndcg(RelevanceHistogram(np.ones((1, 2, 2), dtype=int), np.array([0, 1100])))
