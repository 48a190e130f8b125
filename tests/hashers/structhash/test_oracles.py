"""StructHash's ranking losses against metrics, and its separation oracle against the enumeration of all rankings."""

import itertools
from functools import partial

import _oracles as oracles
import numpy as np
import pytest
from _oracles import interleavings, losses_of, without_padding
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import average_precision_score, ndcg_score, roc_auc_score

from skhash.affinity import ClassAffinity, Relevance
from skhash.hashers.ranking_lists import RankingLists, draw_ranking_lists
from skhash.hashers.structhash._losses import GAINS, ap_gain, auc_gain, ndcg_gain, precision_gain
from skhash.hashers.structhash._oracles import Cut, RankingOracle, gain_table
from skhash.metrics import average_precision, histogram_from_distances, ndcg, roc_auc

LOSSES = losses_of(GAINS)
each_loss = pytest.mark.parametrize("name", LOSSES)


# --- losses


@each_loss
def test_the_loss_of_the_true_ranking_is_zero(name):
    for n_relevant, n_irrelevant in itertools.product([1, 2, 7, 60], repeat=2):
        table = gain_table(LOSSES[name][0], n_relevant, n_irrelevant)
        assert table.shape == (n_relevant, n_irrelevant + 1)
        assert table[:, 0].sum() == pytest.approx(1)
        assert (np.diff(table, axis=1) <= 1e-15).all()


def random_rankings(n=15):
    rng = np.random.default_rng(0)
    for _ in range(n):
        ranking = rng.permutation(np.repeat([1, 0], rng.integers(1, 12, 2)))
        yield ranking, histogram_from_distances([np.arange(len(ranking))], levels=[ranking])


def metric_of(gain, ranking):
    """The sum of the gains of a ranking."""
    ranks = 1 + np.flatnonzero(ranking)
    return gain(np.arange(1, len(ranks) + 1), ranks, len(ranks), len(ranking) - len(ranks)).sum()


def test_gains_add_up_to_the_metrics():
    for ranking, H in random_rankings():
        assert metric_of(ap_gain, ranking) == pytest.approx(average_precision(H))
        assert metric_of(auc_gain, ranking) == pytest.approx(roc_auc(H))
        for k, discount in itertools.product((None, 1, 2, 5, 30), ("log2", "delayed_log2")):
            options = {"k": k, "discount": discount}
            assert metric_of(partial(ndcg_gain, **options), ranking) == pytest.approx(ndcg(H, **options))


def eq_20_precision(ranking, K):
    return sum(ranking[:K]) / K


def eq_21_ndcg(ranking, K):
    S = [1.0] + [1 / np.log2(i) for i in range(2, K + 1)]
    return sum(S[i] * relevant for i, relevant in enumerate(ranking[:K])) / sum(S)


def test_gains_are_equations_20_and_21_with_the_smaller_of_k_and_the_number_of_relevant_items():
    """As printed, the true ranking scores below 1 where K is larger than this number."""
    for ranking, _ in random_rankings():
        true = np.sort(ranking)[::-1]
        for K in range(1, len(ranking) + 1):
            for gain, printed in ((precision_gain, eq_20_precision), (ndcg_gain, eq_21_ndcg)):
                assert metric_of(partial(gain, k=K), true) == pytest.approx(1)
                value = printed(ranking, K) / printed(true, K)
                assert metric_of(partial(gain, k=K), ranking) == pytest.approx(value, abs=1e-12)
                assert (printed(true, K) < 1) == (ranking.sum() < K)


def test_gains_are_equations_19_and_22():
    for ranking, _ in random_rankings():
        relevant, irrelevant = np.flatnonzero(ranking), np.flatnonzero(1 - ranking)
        auc = np.mean([[i < j for j in irrelevant] for i in relevant])
        ap = sum(eq_20_precision(ranking, i + 1) for i in relevant) / len(relevant)
        assert metric_of(auc_gain, ranking) == pytest.approx(auc)
        assert metric_of(ap_gain, ranking) == pytest.approx(ap)


def test_gains_add_up_to_the_metrics_of_sklearn():
    for ranking, _ in random_rankings():
        scores = -np.arange(len(ranking))
        assert metric_of(ap_gain, ranking) == pytest.approx(average_precision_score(ranking, scores))
        assert metric_of(auc_gain, ranking) == pytest.approx(roc_auc_score(ranking, scores))
        for k in (None, 1, 4):
            expected = ndcg_score([ranking], [scores], k=k)
            assert metric_of(partial(ndcg_gain, k=k, discount="log2"), ranking) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("gain", "message"),
    [
        pytest.param(
            lambda g, t, p, n: t[:, 0] / t.sum(), r"one gain per rank, of shape \(3, 5\)\. Got shape \(3,\)", id="shape"
        ),
        pytest.param(lambda g, t, p, n: 1 / p, r"Got shape \(\)", id="scalar"),
        pytest.param(lambda g, t, p, n: t / (p * g), "never grow with the rank", id="growing"),
        pytest.param(
            lambda g, t, p, n: 0.5 * ap_gain(g, t, p, n), "sum to 1 for the true ranking. Got 0.5 instead", id="half"
        ),
        pytest.param(lambda g, t, p, n: np.where(t == t, np.nan, t), "Got nan instead", id="nan"),
    ],
)
def test_gains_of_no_ranking_loss_are_an_error(gain, message):
    with pytest.raises(ValueError, match=message):
        gain_table(gain, 3, 4)


def test_a_gain_of_nan_is_an_error():
    with pytest.raises(ValueError, match=r"`objective` must return gains that never grow .* or NaN"):
        gain_table(lambda g, t, p, n: np.where(t == g, 1 / p, np.nan), 3, 4)


# --- rankings


def margin(misordered, s, n_relevant):
    """w' delta-psi: how much the misordered pairs (..., j, k) lower the score of the true ranking."""
    s, t = s[:n_relevant, None], s[None, n_relevant:]
    return 2 / (s.size * t.size) * (misordered * (s - t)).sum(axis=(-2, -1))


def by_score(s, n_relevant):
    return np.concatenate([-np.sort(-s[:n_relevant]), -np.sort(-s[n_relevant:])])


def most_violated(measure, s, n_relevant):
    """The largest loss - margin of all interleavings."""
    rankings, misordered = interleavings(n_relevant, len(s) - n_relevant)
    return (1 - measure(rankings) - margin(misordered, by_score(s, n_relevant), n_relevant)).max()


def ranking_of(counts, n_relevant):
    """The ranking whose items have these numbers of misordered partners, relevant items first, negative."""
    before, behind = np.sort(-counts[:n_relevant]), -np.sort(-counts[n_relevant:])
    ranking = np.zeros(len(counts), dtype=int)
    ranking[before + np.arange(n_relevant)] = 1
    assert_array_equal(behind, (before[:, None] > np.arange(len(behind))).sum(axis=0))
    return ranking


def cases(n=200, max_items=6, seed=0):
    """Lists of all sizes in one batch, with few bits and weights, so that many scores are tied."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, max_items + 1, (n, 2))
    lists = RankingLists(np.arange(n), np.zeros((n, 2 * max_items), dtype=int), sizes, n)
    differences = rng.integers(0, 2, (n, 5, 2 * max_items)).astype(np.uint8)
    weights = np.array([0.0, 0.25, 0.5, 0.5, 1.7]) * rng.choice([0.1, 0.3, 1])
    scores = -np.einsum("r,irj->ij", weights, differences)
    return (
        lists,
        differences,
        weights,
        [s[without_padding(size, max_items)] for s, size in zip(scores, sizes, strict=True)],
    )


# --- the most violated ranking


@each_loss
def test_the_oracle_finds_the_best_of_all_interleavings(name):
    gain, measure = LOSSES[name]
    lists, differences, weights, scores = cases()
    cut, violation = RankingOracle(lists, gain)(differences, weights)
    best, losses = [], []
    for s, size, counts in zip(scores, lists.sizes, cut.misordered.astype(int), strict=True):
        best.append(most_violated(measure, s, size[0]))
        counts = counts[without_padding(size, 6)]
        losses.append(1 - measure(ranking_of(counts, size[0])[None])[0])
        assert losses[-1] + 2 / size.prod() * (counts @ s) == pytest.approx(best[-1], abs=1e-12)
    assert len({*map(tuple, lists.sizes)}) == 36
    assert violation == pytest.approx(np.mean(best), abs=1e-12)
    assert cut.offset == pytest.approx(np.mean(losses), abs=1e-12)
    assert violation > 0


@pytest.mark.parametrize(
    "name", ["ap", "auc", "reciprocal rank", "precision 2", "ndcg None log2", "ndcg 5 delayed_log2"]
)
def test_the_items_of_each_kind_are_in_order_of_their_scores_in_the_best_of_all_orders(name):
    measure = LOSSES[name][1]
    rng = np.random.default_rng(0)
    for n_relevant, n_irrelevant in itertools.product(range(1, 5), repeat=2):
        n = n_relevant + n_irrelevant
        s = rng.integers(0, 5, n) / rng.choice([2, 4, 10])
        ranks = np.argsort(oracles.permutations(n), axis=1)
        rankings = (oracles.permutations(n) < n_relevant).astype(int)
        misordered = ranks[:, :n_relevant, None] > ranks[:, None, n_relevant:]
        best = (1 - measure(rankings) - margin(misordered, s, n_relevant)).max()
        assert best == pytest.approx(most_violated(measure, s, n_relevant), abs=1e-12)


def test_auc_misorders_the_pairs_less_than_one_half_apart():
    lists, differences, weights, scores = cases()
    weights = weights * 1.013  # no difference is 1/2
    cut, violation = RankingOracle(lists, auc_gain)(differences, weights)
    violations = []
    for s, size, counts in zip(scores, lists.sizes, cut.misordered.astype(int), strict=True):
        apart = 1.013 * (s[: size[0], None] - s[None, size[0] :])
        violations.append(np.maximum(1 - 2 * apart, 0).mean())
        expected = np.concatenate([-(apart < 0.5).sum(axis=1), (apart < 0.5).sum(axis=0)])
        assert_array_equal(counts[without_padding(size, 6)], expected)
    assert violation == pytest.approx(np.mean(violations), abs=1e-12)


def violation_of_precision(s, n_relevant, k):
    """The largest violation over the numbers of relevant items in the top k, each kind in order of scores."""
    relevant, irrelevant = np.split(by_score(s, n_relevant), [n_relevant])
    worst = []
    for a in range(max(0, k - len(irrelevant)), min(n_relevant, k) + 1):
        j_below, k_on_top = np.arange(n_relevant) >= a, np.arange(len(irrelevant)) < k - a
        same_side = j_below[:, None] != k_on_top
        misordered = np.where(same_side, relevant[:, None] < irrelevant, j_below[:, None])
        margin_of_it = margin(misordered, np.concatenate([relevant, irrelevant]), n_relevant)
        worst.append(1 - a / min(k, n_relevant) - margin_of_it)
    return max(worst)


@pytest.mark.parametrize("k", [None, 1, 3, 4])
def test_precision_moves_the_best_of_each_kind_to_the_top(k):
    lists, differences, weights, scores = cases(seed=1)
    # lists of fewer than k items have no cutoff, and are tested with the other losses
    expected = [
        violation_of_precision(s, size[0], min(len(s), size[0] if k is None else k))
        for s, size in zip(scores, lists.sizes, strict=True)
        if k is None or k <= len(s)
    ]
    kept = [i for i, s in enumerate(scores) if k is None or k <= len(s)]
    lists = RankingLists(lists.queries[kept], lists.items[kept], lists.sizes[kept], lists.n_samples)
    _, violation = RankingOracle(lists, partial(precision_gain, k=k))(differences[kept], weights)
    assert violation == pytest.approx(np.mean(expected), abs=1e-12)


@each_loss
def test_the_first_cut_has_the_largest_loss_by_the_fewest_misordered_pairs(name):
    gain, measure = LOSSES[name]
    lists, differences, weights, _ = cases()
    oracle = RankingOracle(lists, gain)
    cut, losses = oracle.first_cut(), []
    for size, counts in zip(lists.sizes, cut.misordered, strict=True):
        rankings, misordered = interleavings(*size)
        values = measure(rankings)
        losses.append(1 - values.min())
        counts = counts[without_padding(size, 6)]
        assert np.maximum(counts, 0).sum() == misordered[values <= values.min() + 1e-12].sum(axis=(1, 2)).min()
        assert 1 - measure(ranking_of(counts.astype(int), size[0])[None])[0] == pytest.approx(losses[-1], abs=1e-12)
    assert cut.offset == pytest.approx(np.mean(losses), abs=1e-12)
    assert oracle(differences, 0 * weights)[1] == pytest.approx(cut.offset, abs=1e-12)


@each_loss
def test_the_first_pair_matrix_has_the_fewest_misordered_pairs_of_the_largest_loss(name):
    gain, measure = LOSSES[name]
    lists, *_ = cases(60, max_items=4)
    lists = RankingLists(lists.queries, 60 + np.arange(480).reshape(60, 8), lists.sizes, 540)
    A = RankingOracle(lists, gain).first_pair_matrix().toarray()
    seen = np.zeros_like(A)
    for query, items, size in zip(lists.queries, lists.items, lists.sizes, strict=True):
        rankings, misordered = interleavings(*size)
        values = measure(rankings)
        fewest = misordered[values <= values.min() + 1e-12].sum(axis=(1, 2)).min()
        # in the mean over these rankings all items of one kind are equal
        expected = 2 / (60 * size.prod()) * np.repeat([-fewest, fewest] / size, size)
        seen[query, items[without_padding(size, 4)]] = expected
    assert_allclose(A, seen, atol=1e-15)


@each_loss
def test_padding_does_not_matter(name):
    lists, differences, weights, _ = cases()
    oracle = RankingOracle(lists, LOSSES[name][0])
    cut, violation = oracle(differences, weights)
    place = np.arange(12)
    padding = (place >= lists.sizes[:, :1]) & (place < 6) | (place >= 6 + lists.sizes[:, 1:])
    garbage = np.where(padding[:, None], 1 - differences, differences)
    again, same = oracle(garbage, weights)
    assert_array_equal(again.misordered, cut.misordered)
    assert (again.offset, same) == (cut.offset, violation)
    assert (cut.misordered[padding] == 0).all()
    assert_array_equal(oracle.coefficients(cut, garbage), oracle.coefficients(cut, differences))


@pytest.mark.parametrize(("n", "max_items"), [(20, 6), (200, 2)])  # few and many lists of the same sizes
def test_a_batch_equals_its_lists_one_by_one(n, max_items):
    lists, differences, weights, _ = cases(n, max_items)
    cut, violation = RankingOracle(lists, ap_gain)(differences, weights)
    violations = []
    for i, size in enumerate(lists.sizes):
        real = without_padding(size, max_items)
        alone = RankingLists(lists.queries[[i]], lists.items[[i]][:, real], size[None], lists.n_samples)
        one, value = RankingOracle(alone, ap_gain)(np.ascontiguousarray(differences[[i]][:, :, real]), weights)
        assert_array_equal(one.misordered[0], cut.misordered[i, real])
        violations.append(value)
    assert violation == pytest.approx(np.mean(violations), abs=1e-15)


def test_true_rankings_are_left_out_of_the_cut():
    sizes = np.array([[2, 3], [2, 3]])
    lists = RankingLists(np.arange(2), np.zeros((2, 5), dtype=int), sizes, 2)
    differences = np.array([[[0, 0, 1, 1, 1]], [[1, 1, 0, 0, 0]]], dtype=np.uint8)
    cut, violation = RankingOracle(lists, ap_gain)(differences, np.array([10.0]))
    assert not cut.misordered[0].any()
    assert cut.offset == pytest.approx((1 - (1 / 4 + 2 / 5) / 2) / 2)
    assert violation == pytest.approx(cut.offset + 10)


@pytest.mark.parametrize(("n_items", "dtype"), [((127, 90), np.int8), ((128, 90), np.int32), ((90, 300), np.int32)])
def test_long_lists_are_counted_without_overflow(n_items, dtype):
    rng = np.random.default_rng(0)
    sizes = np.array([n_items, (3, 2)])
    items = rng.integers(0, 40, (2, sum(n_items)))
    lists = RankingLists(np.arange(2), items, sizes, 40)
    bits = rng.integers(0, 2, (40, 6)).astype(np.uint8)
    differences = np.stack([lists.differences(b) for b in bits.T], axis=1)
    weights = rng.random(6)
    oracle = RankingOracle(lists, auc_gain)
    cut, violation = oracle(differences, weights)
    assert cut.misordered.dtype == dtype
    expected, coefficients = [], np.zeros(6)
    for d, size in zip(differences, sizes, strict=True):
        d = d[:, without_padding(size, n_items[0])].astype(float)
        s = -weights @ d
        apart = s[: size[0], None] - s[None, size[0] :]
        expected.append(np.maximum(1 - 2 * apart, 0).mean())
        phi = -d[:, : size[0], None] + d[:, None, size[0] :]
        coefficients += (phi * (apart < 0.5)).mean(axis=(1, 2))  # 2/(PN), half of it for the mean of two lists
    assert violation == pytest.approx(np.mean(expected), abs=1e-12)
    assert_allclose(oracle.coefficients(cut, differences), coefficients, atol=1e-12)
    full = oracle.first_cut()
    assert_array_equal(np.unique(full.misordered), sorted({0, -n_items[1], n_items[0], -2, 3}))
    total = oracle.coefficients(full, differences[:, :1])[0]
    assert total == pytest.approx(sum_of_pairs(lists, [full], [1.0], bits[:, 0]), abs=1e-12)


def misordered_pairs(counts, n_relevant):
    """Pairs (j, k) that have these numbers of partners."""
    relevant, irrelevant = np.split(counts, [n_relevant])
    place = np.argsort(np.argsort(-irrelevant, kind="stable"), kind="stable")
    pairs = -relevant[:, None] > place
    assert_array_equal(pairs.sum(axis=0), irrelevant)
    return pairs


def sum_of_pairs(lists, cuts, duals, h):
    """sum of lambda (1/m) sum_i 2/(PN) sum of misordered (j, k) of phi_j - phi_k, pair by pair."""
    total, h = 0.0, h.astype(float)
    for cut, dual in zip(cuts, duals, strict=True):
        for query, items, size, counts in zip(lists.queries, lists.items, lists.sizes, cut.misordered, strict=True):
            real = without_padding(size, lists.sizes[:, 0].max())
            apart = np.abs(h[query] - h[items[real]])
            for j, k in np.argwhere(misordered_pairs(counts[real].astype(int), size[0])):
                total += dual * 2 / size.prod() * (apart[size[0] + k] - apart[j]) / len(lists.queries)
    return total


@pytest.mark.parametrize("name", ["ap", "auc", "precision None", "ndcg 5 log2"])
def test_coefficients_are_sums_over_misordered_pairs(name):
    rng = np.random.RandomState(0)
    y = rng.randint(0, 4, 30)
    lists = draw_ranking_lists(Relevance.of(y, ClassAffinity()), 7, 5, 20, rng)
    oracle = RankingOracle(lists, LOSSES[name][0])
    bits = rng.randint(0, 2, (30, 6)).astype(np.uint8)
    differences = np.stack([lists.differences(b) for b in bits.T], axis=1)
    cuts = [oracle.first_cut(), *(oracle(differences, rng.rand(6) * scale)[0] for scale in (0, 0.1, 0.5, 2))]
    duals = rng.rand(5) * [1, 0, 1, 1, 1]
    A = oracle.pair_matrix(cuts, duals)
    assert A.shape == (30, 30)
    coefficients = np.array([oracle.coefficients(cut, differences) for cut in cuts])
    for r, h in enumerate(bits.astype(float).T):
        by_matrix = sum(value * abs(h[i] - h[j]) for (i, j), value in np.ndenumerate(A.toarray()))
        assert by_matrix == pytest.approx(duals @ coefficients[:, r], abs=1e-12)
        assert by_matrix == pytest.approx(sum_of_pairs(lists, cuts, duals, h), abs=1e-12)


def test_a_cut_is_tight_at_its_weights_and_valid_at_others():
    lists, differences, weights, _ = cases()
    oracle = RankingOracle(lists, ap_gain)
    cut, violation = oracle(differences, weights)
    assert violation == pytest.approx(cut.offset - weights @ oracle.coefficients(cut, differences), abs=1e-12)
    for other in (0 * weights, 2 * weights, weights[::-1].copy()):
        violation = oracle(differences, other)[1]
        assert violation >= cut.offset - other @ oracle.coefficients(cut, differences) - 1e-12


@pytest.mark.parametrize("dtype", [np.int8, np.int32])
def test_coefficients_are_weighted_counts_of_differing_bits(dtype):
    lists, differences, _, _ = cases(n=40)
    misordered = np.random.default_rng(0).integers(-127, 128, lists.items.shape).astype(dtype)
    scale = 2 / (40 * lists.sizes.prod(axis=1))
    expected = np.einsum("i,ij,irj->r", scale, misordered.astype(int), differences)
    coefficients = RankingOracle(lists, ap_gain).coefficients(Cut(misordered, 0.5), differences)
    assert_allclose(coefficients, expected, atol=1e-12)


def test_cuts_without_a_dual_add_nothing_to_the_pair_matrix():
    lists, _, _, _ = cases(n=5)
    A = RankingOracle(lists, ap_gain).pair_matrix([Cut(np.ones((5, 12), dtype=np.int8), 0.5)], [0.0])
    assert abs(A).sum() == 0
