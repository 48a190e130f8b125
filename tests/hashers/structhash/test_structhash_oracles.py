"""StructHash's lists, losses and most violated rankings, against the enumeration of all rankings."""

import itertools
import warnings
from functools import partial

import _oracles as oracles
import numpy as np
import pytest
from _oracles import LOSSES, interleavings, real_items
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.metrics import average_precision_score, ndcg_score, roc_auc_score

from skhash.affinity import ClassAffinity, DistanceAffinity, PrecomputedAffinity, SharedLabelsAffinity
from skhash.hashers._lists import RankingLists, draw_lists
from skhash.hashers.structhash._losses import ap_gain, auc_gain, ndcg_gain, precision_gain
from skhash.hashers.structhash._oracles import Cut, RankingOracle, gain_table
from skhash.metrics import average_precision, histogram_from_distances, ndcg, roc_auc

each_loss = pytest.mark.parametrize("name", LOSSES)


def margin(misordered, s, n_relevant):
    """w' delta-psi: what the misordered pairs (..., j, k) take from the score of the true ranking."""
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


def cases(n=300, most=6, seed=0):
    """Lists of all sizes in one batch; few bits of few weights, so that many scores are tied; no two scales alike."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, most + 1, (n, 2))
    lists = RankingLists(np.arange(n), np.zeros((n, 2 * most), dtype=int), sizes, n)
    differences = rng.integers(0, 2, (n, 5, 2 * most)).astype(np.uint8)
    weights = np.array([0.0, 0.25, 0.5, 0.5, 1.7]) * rng.choice([0.1, 0.3, 1])
    scores = -np.einsum("r,irj->ij", weights, differences)
    return lists, differences, weights, [s[real_items(size, most)] for s, size in zip(scores, sizes, strict=True)]


# --- the most violated ranking


@each_loss
@pytest.mark.parametrize("seed", range(3))
def test_the_oracle_is_the_best_of_all_interleavings(name, seed):
    gain, measure = LOSSES[name]
    lists, differences, weights, scores = cases(seed=seed)
    cut, violation = RankingOracle(lists, gain)(differences, weights)
    best, losses = [], []
    for s, size, counts in zip(scores, lists.sizes, cut.misordered.astype(int), strict=True):
        best.append(most_violated(measure, s, size[0]))
        counts = counts[real_items(size, 6)]
        losses.append(1 - measure(ranking_of(counts, size[0])[None])[0])
        assert losses[-1] + 2 / size.prod() * (counts @ s) == pytest.approx(best[-1], abs=1e-12)
    assert len({*map(tuple, lists.sizes)}) == 36
    assert violation == pytest.approx(np.mean(best), abs=1e-12)
    assert cut.offset == pytest.approx(np.mean(losses), abs=1e-12)
    assert violation > 0


@pytest.mark.parametrize("name", ["ap", "auc", "reciprocal rank", "precision 2", "ndcg None log2", "ndcg 5 structhash"])
def test_no_order_of_all_items_is_worse_than_order_by_score_inside_the_kinds(name):
    measure = LOSSES[name][1]
    rng = np.random.default_rng(0)
    for n_relevant, n_irrelevant in itertools.product(range(1, 5), repeat=2):
        n = n_relevant + n_irrelevant
        s = rng.integers(0, 5, n) / rng.choice([2, 4, 10])
        ranks = np.argsort(oracles._permutations(n), axis=1)
        rankings = (oracles._permutations(n) < n_relevant).astype(int)
        misordered = ranks[:, :n_relevant, None] > ranks[:, None, n_relevant:]
        best = (1 - measure(rankings) - margin(misordered, s, n_relevant)).max()
        assert best == pytest.approx(most_violated(measure, s, n_relevant), abs=1e-12)


def test_auc_swaps_the_pairs_less_than_one_half_apart():
    lists, differences, weights, scores = cases()
    weights = weights * 1.013  # no difference is 1/2
    cut, violation = RankingOracle(lists, auc_gain)(differences, weights)
    violations = []
    for s, size, counts in zip(scores, lists.sizes, cut.misordered.astype(int), strict=True):
        apart = 1.013 * (s[: size[0], None] - s[None, size[0] :])
        violations.append(np.maximum(1 - 2 * apart, 0).mean())
        expected = np.concatenate([-(apart < 0.5).sum(axis=1), (apart < 0.5).sum(axis=0)])
        assert_array_equal(counts[real_items(size, 6)], expected)
    assert violation == pytest.approx(np.mean(violations), abs=1e-12)


def violation_of_precision(s, n_relevant, k):
    """For each number of relevant items in the top k, those of each kind with the best scores."""
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
def test_precision_takes_the_best_of_each_kind_to_the_top(k):
    lists, differences, weights, scores = cases(seed=1)
    # lists of fewer than k items lose nothing by k: those are all relevant ones on top
    expected = [
        violation_of_precision(s, size[0], min(len(s), size[0] if k is None else k))
        for s, size in zip(scores, lists.sizes, strict=True)
        if k is None or k <= len(s)
    ]
    kept = [i for i, s in enumerate(scores) if k is None or k <= len(s)]
    lists = RankingLists(lists.queries[kept], lists.items[kept], lists.sizes[kept], lists.n_rows)
    _, violation = RankingOracle(lists, partial(precision_gain, k=k))(differences[kept], weights)
    assert violation == pytest.approx(np.mean(expected), abs=1e-12)


@each_loss
def test_reversed_rankings_are_the_loss_without_weights(name):
    gain, measure = LOSSES[name]
    lists, differences, weights, _ = cases()
    oracle = RankingOracle(lists, gain)
    cut = oracle.reversed_rankings()
    expected = [1 - measure(np.repeat([[0, 1]], size[::-1], axis=1))[0] for size in lists.sizes]
    assert cut.offset == pytest.approx(np.mean(expected), abs=1e-12)
    assert oracle(differences, 0 * weights)[1] == pytest.approx(cut.offset, abs=1e-12)
    for size, counts in zip(lists.sizes, cut.misordered, strict=True):
        assert_array_equal(counts[real_items(size, 6)], np.repeat([-size[1], size[0]], size))
        assert np.abs(counts).sum() == 2 * size.prod()


@each_loss
def test_the_first_pair_matrix_is_the_mean_of_the_mildest_worst_rankings(name):
    gain, measure = LOSSES[name]
    lists, *_ = cases(60, most=4)
    lists = RankingLists(lists.queries, 60 + np.arange(480).reshape(60, 8), lists.sizes, 540)
    A = RankingOracle(lists, gain).first_pair_matrix().toarray()
    seen = np.zeros_like(A)
    for query, items, size in zip(lists.queries, lists.items, lists.sizes, strict=True):
        rankings, misordered = interleavings(*size)
        values = measure(rankings)
        fewest = misordered[values <= values.min() + 1e-12].sum(axis=(1, 2)).min()
        # no item of a kind comes before another one of it, in the mean
        expected = 2 / (60 * size.prod()) * np.repeat([-fewest, fewest] / size, size)
        seen[query, items[real_items(size, 4)]] = expected
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


def test_a_batch_is_its_lists_one_by_one():
    lists, differences, weights, _ = cases(n=20)
    cut, violation = RankingOracle(lists, ap_gain)(differences, weights)
    violations = []
    for i, size in enumerate(lists.sizes):
        real = real_items(size, 6)
        alone = RankingLists(lists.queries[[i]], lists.items[[i]][:, real], size[None], lists.n_rows)
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


@pytest.mark.parametrize(("most", "dtype"), [((127, 90), np.int8), ((128, 90), np.int32), ((90, 300), np.int32)])
def test_long_lists(most, dtype):
    rng = np.random.default_rng(0)
    sizes = np.array([most, (3, 2)])
    items = rng.integers(0, 40, (2, sum(most)))
    lists = RankingLists(np.arange(2), items, sizes, 40)
    bits = rng.integers(0, 2, (40, 6)).astype(np.uint8)
    differences = np.stack([lists.differences(b) for b in bits.T], axis=1)
    weights = rng.random(6)
    oracle = RankingOracle(lists, auc_gain)
    cut, violation = oracle(differences, weights)
    assert cut.misordered.dtype == dtype
    expected, coefficients = [], np.zeros(6)
    for d, size in zip(differences, sizes, strict=True):
        d = d[:, real_items(size, most[0])].astype(float)
        s = -weights @ d
        apart = s[: size[0], None] - s[None, size[0] :]
        expected.append(np.maximum(1 - 2 * apart, 0).mean())
        phi = -d[:, : size[0], None] + d[:, None, size[0] :]
        coefficients += (phi * (apart < 0.5)).mean(axis=(1, 2))  # 2/(PN), half of it for the mean of two lists
    assert violation == pytest.approx(np.mean(expected), abs=1e-12)
    assert_allclose(oracle.coefficients(cut, differences), coefficients, atol=1e-12)
    full = oracle.reversed_rankings()
    assert_array_equal(np.unique(full.misordered), sorted({0, -most[1], most[0], -2, 3}))
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
            real = real_items(size, lists.sizes[:, 0].max())
            apart = np.abs(h[query] - h[items[real]])
            for j, k in np.argwhere(misordered_pairs(counts[real].astype(int), size[0])):
                total += dual * 2 / size.prod() * (apart[size[0] + k] - apart[j]) / len(lists.queries)
    return total


@pytest.mark.parametrize("name", ["ap", "auc", "precision None", "ndcg 5 log2"])
def test_a_bit_meets_the_cuts_as_it_meets_the_pairs(name):
    rng = np.random.RandomState(0)
    y = rng.randint(0, 4, 30)
    lists = draw_lists(ClassAffinity(), y, 7, 5, 20, rng)
    oracle = RankingOracle(lists, LOSSES[name][0])
    bits = rng.randint(0, 2, (30, 6)).astype(np.uint8)
    differences = np.stack([lists.differences(b) for b in bits.T], axis=1)
    cuts = [oracle.reversed_rankings(), *(oracle(differences, rng.rand(6) * scale)[0] for scale in (0, 0.1, 0.5, 2))]
    duals = rng.rand(5) * [1, 0, 1, 1, 1]
    A = oracle.pair_matrix(cuts, duals)
    assert A.shape == (30, 30)
    coefficients = np.array([oracle.coefficients(cut, differences) for cut in cuts])
    for r, h in enumerate(bits.astype(float).T):
        by_matrix = sum(value * abs(h[i] - h[j]) for (i, j), value in np.ndenumerate(A.toarray()))
        assert by_matrix == pytest.approx(duals @ coefficients[:, r], abs=1e-12)
        assert by_matrix == pytest.approx(sum_of_pairs(lists, cuts, duals, h), abs=1e-12)


def test_a_cut_is_met_by_the_weights_as_by_the_rankings():
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


def test_cuts_without_a_dual_leave_no_trace():
    lists, _, _, _ = cases(n=5)
    A = RankingOracle(lists, ap_gain).pair_matrix([Cut(np.ones((5, 12), dtype=np.int8), 0.5)], [0.0])
    assert abs(A).sum() == 0


# --- losses


@each_loss
def test_the_true_ranking_loses_nothing(name):
    for n_relevant, n_irrelevant in itertools.product([1, 2, 7, 60], repeat=2):
        table = gain_table(LOSSES[name][0], n_relevant, n_irrelevant)
        assert table.shape == (n_relevant, n_irrelevant + 1)
        assert table[:, 0].sum() == pytest.approx(1)
        assert (np.diff(table, axis=1) <= 1e-15).all()


def random_rankings(n=30):
    rng = np.random.default_rng(0)
    for _ in range(n):
        ranking = rng.permutation(np.repeat([1, 0], rng.integers(1, 12, 2)))
        yield ranking, histogram_from_distances([np.arange(len(ranking))], [1], ranking)


def measure_of(gain, ranking):
    """The sum of the gains of a ranking."""
    ranks = 1 + np.flatnonzero(ranking)
    return gain(np.arange(1, len(ranks) + 1), ranks, len(ranks), len(ranking) - len(ranks)).sum()


def test_gains_add_up_to_the_metrics():
    for ranking, H in random_rankings():
        assert measure_of(ap_gain, ranking) == pytest.approx(average_precision(H))
        assert measure_of(auc_gain, ranking) == pytest.approx(roc_auc(H))
        for k, discount in itertools.product((None, 1, 2, 5, 30), ("log2", "structhash")):
            options = {"k": k, "discount": discount}
            assert measure_of(partial(ndcg_gain, **options), ranking) == pytest.approx(ndcg(H, **options))


def test_gains_add_up_to_the_metrics_of_sklearn():
    for ranking, _ in random_rankings():
        scores = -np.arange(len(ranking))
        assert measure_of(ap_gain, ranking) == pytest.approx(average_precision_score(ranking, scores))
        assert measure_of(auc_gain, ranking) == pytest.approx(roc_auc_score(ranking, scores))
        for k in (None, 1, 4):
            expected = ndcg_score([ranking], [scores], k=k)
            assert measure_of(partial(ndcg_gain, k=k, discount="log2"), ranking) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("gain", "message"),
    [
        pytest.param(lambda g, t, p, n: t[:, 0] / t.sum(), r"shape \(3,\) for ranks of shape \(3, 5\)", id="shape"),
        pytest.param(lambda g, t, p, n: 1 / p, r"shape \(\) for ranks", id="scalar"),
        pytest.param(lambda g, t, p, n: t / (p * g), "never grow with the rank", id="growing"),
        pytest.param(lambda g, t, p, n: 0.5 * ap_gain(g, t, p, n), "gives 0.5 to the true ranking", id="half"),
        pytest.param(lambda g, t, p, n: np.where(t == t, np.nan, t), "gives nan", id="nan"),
    ],
)
def test_gains_that_make_no_loss_are_refused(gain, message):
    with pytest.raises(ValueError, match=message):
        gain_table(gain, 3, 4)


def test_gains_that_are_nan_at_some_rank_are_refused():
    with pytest.raises(ValueError, match="loss gives"):
        gain_table(lambda g, t, p, n: np.where(t == g, 1 / p, np.nan), 3, 4)


# --- lists


def test_lists_hold_other_rows_of_the_right_kind_once():
    rng = np.random.RandomState(0)
    y = rng.choice([0, 1, 2], 60, p=[0.2, 0.2, 0.6])
    lists = draw_lists(ClassAffinity(), y, 13, 9, 40, rng)
    assert len(lists.queries) == 40 == len(set(lists.queries))
    assert lists.n_rows == 60
    assert lists.items.shape == (40, 13 + 9)
    for query, items, size in zip(lists.queries, lists.items, lists.sizes, strict=True):
        others = (y == y[query]).sum() - 1
        assert tuple(size) == (min(13, others), 9)
        relevant, padding, irrelevant = np.split(items, [size[0], 13])
        assert (y[relevant] == y[query]).all()
        assert (y[irrelevant] != y[query]).all()
        assert query not in relevant
        assert len(set(relevant)) + len(set(irrelevant)) == sum(size)
        assert (padding == query).all()
    assert len({*map(tuple, lists.sizes)}) > 1


def test_all_rows_are_queries_if_there_are_no_more_of_them():
    for n_queries in (6, 100):
        lists = draw_lists(ClassAffinity(), np.array([0, 0, 0, 1, 1, 1]), 50, 50, n_queries, np.random.RandomState(0))
        assert_array_equal(lists.queries, range(6))
        assert_array_equal(lists.sizes, [[2, 3]] * 6)
        assert_array_equal(np.sort(lists.items[1]), [0, 2, 3, 4, 5])


def test_a_row_that_is_not_relevant_to_itself_is_not_in_its_list_either():
    levels = np.arange(8)[:, None] % 2 == np.arange(8) % 2
    affinity = PrecomputedAffinity(levels & ~np.eye(8, dtype=bool))
    lists = draw_lists(affinity, np.arange(8), 8, 8, 8, np.random.RandomState(0))
    assert_array_equal(lists.sizes, [[3, 4]] * 8)
    assert not (lists.items == lists.queries[:, None]).any()


def test_lists_are_drawn_at_random():
    y = np.arange(600) % 6  # more than one block of queries
    first, again, other = (draw_lists(ClassAffinity(), y, 4, 4, 500, np.random.RandomState(s)) for s in (0, 0, 1))
    assert_array_equal(first.items, again.items)
    assert_array_equal(first.queries, again.queries)
    assert (first.queries != other.queries).any()
    assert len(np.unique(first.items)) > 570


def test_queries_that_lack_a_kind_are_left_out():
    y = np.array([0, 0, 0, 1, 2, 2])
    with pytest.warns(UserWarning, match="1 of 6 training queries lack relevant or irrelevant rows") as warned:
        lists = draw_lists(ClassAffinity(), y, 5, 5, 6, np.random.RandomState(0))
    assert len(warned) == 1
    assert_array_equal(lists.queries, [0, 1, 2, 4, 5])
    assert_array_equal(lists.sizes, [[2, 3]] * 3 + [[1, 4]] * 2)


@pytest.mark.parametrize("y", [[0, 0, 0], [0, 1, 2]])
def test_nothing_to_rank_is_an_error(y):
    with pytest.raises(ValueError, match="nothing can be ranked"):
        draw_lists(ClassAffinity(), np.array(y), 5, 5, 5, np.random.RandomState(0))


@pytest.mark.parametrize("convert", [np.array, sparse.csr_array])
def test_any_shared_label_is_relevant(convert):
    rng = np.random.RandomState(0)
    y = rng.randint(0, 2, (40, 3))
    y[:, 0] |= y.sum(axis=1) == 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # rows with every label have no irrelevant ones
        lists = draw_lists(SharedLabelsAffinity(), convert(y), 40, 40, 40, rng)
    assert 5 < len(lists.queries) < 40
    for query, items, size in zip(lists.queries, lists.items, lists.sizes, strict=True):
        shared = (y @ y[query]) > 0
        shared[query] = False
        assert_array_equal(np.sort(items[: size[0]]), np.flatnonzero(shared))


def test_near_rows_are_relevant_under_a_distance_affinity():
    rng = np.random.RandomState(0)
    X = rng.randn(30, 2)
    affinity = DistanceAffinity((30, 10), (1, 2)).fit(X)
    lists = draw_lists(affinity, X, 30, 30, 30, rng)
    for query, items, size in zip(lists.queries, lists.items, lists.sizes, strict=True):
        distances = np.linalg.norm(X[items] - X[query], axis=1)
        most = lists.sizes[:, 0].max()
        assert distances[: size[0]].max() < distances[most : most + size[1]].min()


def test_differences_are_those_of_the_query():
    lists = RankingLists(np.array([2, 0]), np.array([[0, 1], [1, 2]]), np.array([[1, 1], [1, 1]]), 3)
    differences = lists.differences(np.array([1, 0, 0], dtype=np.uint8))
    assert_array_equal(differences, [[1, 0], [1, 1]])
    assert differences.dtype == np.uint8
