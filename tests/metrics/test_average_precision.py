import _oracles as oracles
import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.stats import hypergeom

from skhash.metrics import Metric, RelevanceHistogram, average_precision, histogram_from_distances

NORMALIZERS = ("relevant", "min", "retrieved")
cutoffs = st.none() | st.integers(1, 10)


def soft(counts):
    return RelevanceHistogram(counts, np.arange(counts.shape[-1]))


@pytest.mark.parametrize("normalizer", NORMALIZERS)
@settings(max_examples=60)
@given(items=oracles.tied_items(max_level=2), k=cutoffs)
def test_average_over_ties_is_the_mean_over_all_orders(normalizer, items, k):
    expected = oracles.average_precision(oracles.all_rankings(items), k, normalizer).mean()
    value = average_precision(oracles.histogram(items), k=k, normalizer=normalizer, empty="zero")
    assert value == pytest.approx(expected, abs=1e-12)


def eq_6_contribution(n, relevant, before, relevant_before, all_relevant):
    """AP_T of one tie as the paper prints it; of one item the ratio is 0 / 0, and its factor t - N - 1 is 0."""
    ratio = (relevant - 1) / (n - 1) if n > 1 else 0.0
    ranks = range(before + 1, before + n + 1)
    return relevant / (n * all_relevant) * sum((relevant_before + (t - before - 1) * ratio + 1) / t for t in ranks)


def test_is_equation_6_of_the_paper():
    counts = np.random.default_rng(0).integers(0, 6, (5, 9, 2))
    counts[:, 4] = (1, 1)
    expected = []
    for query in counts:
        n, relevant = query.sum(axis=1), query[:, 1]
        before, relevant_before = np.cumsum(n) - n, np.cumsum(relevant) - relevant
        ties = zip(n, relevant, before, relevant_before, strict=True)
        expected.append(sum(eq_6_contribution(*map(int, tie), int(relevant.sum())) for tie in ties if tie[0]))
    assert_allclose(average_precision(soft(counts), average=False), expected, rtol=1e-14)


@pytest.mark.parametrize("normalizer", NORMALIZERS)
@settings(max_examples=60)
@given(items=oracles.tied_items(max_level=2), k=cutoffs)
def test_best_and_worst_are_the_extremes_over_all_orders(normalizer, items, k):
    expected = oracles.average_precision(oracles.all_rankings(items), k, normalizer)
    H = oracles.histogram(items)
    options = {"k": k, "normalizer": normalizer, "empty": "zero"}
    worst, mean, best = (average_precision(H, ties=ties, **options) for ties in ("worst", "average", "best"))
    assert_allclose((worst, best), (expected.min(), expected.max()), rtol=0, atol=1e-12)
    assert worst - 1e-12 <= mean <= best + 1e-12


def test_the_order_with_relevant_items_last_is_not_the_worst_over_retrieved():
    items = [(2, 0), (2, 0), (2, 1), (0, 1)]  # last in their tie, they are outside of the cutoff, and nothing divides
    last = oracles.average_precision(oracles.one_ranking(items, "worst"), 3, "retrieved")[0]
    H = oracles.histogram(items)
    values = [average_precision(H, k=3, normalizer="retrieved", ties=ties) for ties in ("worst", "average", "best")]
    assert last == 1
    assert_allclose(values, (5 / 6, 17 / 18, 1), rtol=1e-12)


@pytest.mark.parametrize("k", [1, 700, 4000, 6985])
def test_a_boundary_tie_is_weighted_by_the_hypergeometric_distribution(k):
    ties = np.array([[7000, 300], [6990, 7], [7000, 7000], [6999, 0]])  # a query each, all its items in one tie
    H = soft(np.stack([ties[:, 0] - ties[:, 1], ties[:, 1]], axis=-1)[:, None, :])
    harmonic = np.cumsum(1 / np.arange(1, k + 1))[-1]
    expected = []
    for n, p in ties[:3]:  # with r of the k items relevant, as the formula of AP_T has it for one tie
        r = np.arange(max(0, k - (n - p)), min(k, p) + 1)
        of_tie = r / k * (harmonic + (k - harmonic) * (r - 1) / max(k - 1, 1))
        expected.append(hypergeom.pmf(r, n, p, k) @ np.divide(of_tie, r, out=np.zeros(len(r)), where=r > 0))
    values = average_precision(H, k=k, normalizer="retrieved", average=False, empty="zero")
    assert_allclose(values, [*expected, 0], rtol=1e-10)


def test_a_boundary_tie_of_thousands_agrees_with_sampled_orders():
    rng = np.random.default_rng(0)
    n, p, k = 1500, 350, 50
    ties = [(1, 1, 0, 0, 0), np.arange(n) < p]
    rankings = np.hstack([rng.permuted(np.tile(tie, (2000, 1)), axis=1) for tie in ties])
    counts = np.array([[[3, 2], [n - p, p]]])
    for normalizer in NORMALIZERS:
        sampled = oracles.average_precision(rankings, k, normalizer)
        standard_error = sampled.std() / np.sqrt(len(sampled))
        assert abs(average_precision(soft(counts), k=k, normalizer=normalizer) - sampled.mean()) < 4 * standard_error


@pytest.mark.parametrize("k", [None, 1000])
def test_soft_counts_follow_the_closed_form(k):
    n = np.random.default_rng(0).uniform(0.05, 3, (40, 6))
    p = n * np.random.default_rng(1).uniform(0, 1, n.shape)
    counts = np.stack([n - p, p], axis=-1)
    with mpmath.workdps(50):
        expected = [float(oracles.closed_form_ap([[mpmath.mpf(c) for c in tie] for tie in query])) for query in counts]
    assert_allclose(average_precision(soft(counts), k=k, average=False), expected, rtol=1e-9)
    assert_allclose(average_precision(soft(torch.tensor(counts)), k=k, average=False), expected, rtol=1e-9)


@pytest.mark.parametrize("normalizer", ["relevant", "min"])
@pytest.mark.parametrize("k", [None, 2, 5])
def test_gradient_with_respect_to_soft_counts(k, normalizer):
    counts = torch.tensor(np.random.default_rng(0).uniform(0.2, 3, (3, 5, 3)), requires_grad=True)
    assert torch.autograd.gradcheck(lambda c: average_precision(soft(c), k=k, normalizer=normalizer), counts)


@pytest.mark.parametrize("share", [0, 0.3, 0.9, 1])
@pytest.mark.parametrize("before", [0.7, 3, 250.25])
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("excess", [0, 1e-9, 1e-6, 1e-4, 9.999e-4, 1.0001e-3, 1e-2])
def test_value_and_gradient_at_the_removable_pole_of_one_item(excess, sign, before, share):
    n = 1 + sign * excess
    counts = np.array([[0.4 * before, 0.6 * before], [n * (1 - share), n * share], [2.5, 1.25]])
    with mpmath.workdps(90):
        exact = [[mpmath.mpf(c) for c in tie] for tie in counts]
        exact[1][0] += 0 if excess else mpmath.mpf("1e-30")  # the closed form itself has no value at the pole
        value, gradient = oracles.closed_form_ap(exact), oracles.exact_gradient(oracles.closed_form_ap, exact, "1e-35")
    tensor = torch.tensor(counts[None], requires_grad=True)
    objective = average_precision(soft(tensor))
    objective.backward()
    assert float(objective.detach()) == pytest.approx(float(value), rel=1e-9)
    assert average_precision(soft(counts[None])) == pytest.approx(float(value), rel=1e-9)
    assert abs(tensor.grad[0].numpy() - gradient).max() < 1e-6 * abs(gradient).max()


def test_first_tie_of_one_item_too():
    counts = np.array([[0.25, 0.75], [1.5, 0.75], [0.75, 2.0]])
    with mpmath.workdps(90):
        exact = [[mpmath.mpf(c) for c in tie] for tie in counts]
        exact[0][0] += mpmath.mpf("1e-30")
        gradient = oracles.exact_gradient(oracles.closed_form_ap, exact, "1e-35")
    tensor = torch.tensor(counts[None], requires_grad=True)
    average_precision(soft(tensor)).backward()
    assert_allclose(tensor.grad[0].numpy(), gradient, rtol=1e-9)


def test_empty_ties_get_a_finite_gradient():
    counts = torch.tensor([[[0.0, 0.0], [1.0, 1.0], [0.0, 0.0], [3.0, 1.0]]], dtype=torch.float64, requires_grad=True)
    average_precision(soft(counts)).backward()
    assert torch.isfinite(counts.grad).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 0}, "`k` must be None or an int >= 1. Got 0"),
        ({"k": 2.0}, "`k` must be None or an int >= 1. Got 2.0"),
        ({"k": True}, "`k` must be None or an int >= 1. Got True"),
        ({"normalizer": "max"}, "`normalizer` must be one of 'relevant', 'min', 'retrieved'. Got 'max'"),
        ({"ties": "random"}, "`ties` must be one of 'average', 'best', 'worst'. Got 'random'"),
        ({"empty": "drop"}, "`empty` must be one of 'skip', 'zero', 'one', 'nan'. Got 'drop'"),
    ],
)
def test_unknown_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        average_precision(oracles.histogram([(0, 1)]), **options)


@pytest.mark.parametrize("as_array", [np.array, torch.tensor])
def test_retrieved_refuses_soft_counts(as_array):
    with pytest.raises(ValueError, match=r"`H` must have whole counts for normalizer='retrieved'"):
        average_precision(soft(as_array([[[0.5, 0.5]]])), k=1, normalizer="retrieved")


def map_of_hashing_scripts(relevant, k):
    """mAP@k as the scripts of papers on hashing compute it: the mean over the relevant items that were retrieved."""
    top = relevant[:k]
    n = int(top.sum())
    return float(np.mean(np.arange(1, n + 1) / (np.flatnonzero(top) + 1))) if n else 0.0


def map_cut_of_trec_eval(relevant, k):
    """map_cut_k of trec_eval: the sum of the precisions until rank k over the number of all relevant items."""
    total = found = 0.0
    for rank, is_relevant in enumerate(relevant[:k], start=1):
        found += is_relevant
        total += is_relevant * found / rank
    return total / relevant.sum()


@pytest.mark.parametrize(
    ("program", "name"), [(map_of_hashing_scripts, "ap_at_{k}_retrieved"), (map_cut_of_trec_eval, "ap_at_{k}")]
)
@pytest.mark.parametrize("k", [1, 3, 10, 100])
def test_names_of_other_programs(program, name, k):
    rng = np.random.default_rng(k)
    relevant = rng.random((20, 60)) < 0.2
    relevant[:, 59] = True
    for ranking in relevant:
        H = histogram_from_distances(np.arange(60)[None], levels=ranking[None])
        assert Metric.parse(name.format(k=k))(H) == pytest.approx(program(ranking, k), abs=1e-12)
