"""NSH: softly sorted latents against the formulas written out, and codes from unlabeled samples."""

import math
import warnings
from functools import partial

import numpy as np
import pytest
import torch
from _helpers import CPU, NBITS, WIDTH, Head, StopAfter, draw
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

from skhash import NSHHasher
from skhash.engine.runtime import seeded
from skhash.exceptions import DegenerateCodesWarning
from skhash.hashers.deep import nsh
from skhash.hashers.deep.nsh import (
    _VARIANTS,
    NSHObjective,
    OwnViews,
    _count_found,
    _nearest_draw,
    _own_view_first,
    _quantization_loss,
    _soft_permutation,
    _sorted_nce,
    _tied_levels,
    _weaken,
)
from skhash.metrics import RetrievalScorer

N_LATENT = 4
quick = partial(NSHHasher, nbits=16, n_epochs=4, batch_size=50, random_state=0)


def make(variant="full", n=12, seed=0, **options):
    """An objective on fixed views, its encoder, and the two views."""
    views = draw(n, WIDTH, seed=seed + 1), draw(n, WIDTH, seed=seed + 2)
    calls = iter(range(10**6))
    with seeded(seed, CPU):
        objective = NSHObjective(lambda X: views[next(calls) % 2], WIDTH, WIDTH, N_LATENT, variant=variant, **options)
        objective.trained.double()
        return objective, Head(mean=0.0, scale=1.0), views


def loss_of(objective, encoder, X):
    return objective(encoder, X, None, np.arange(len(X)))


def views_of(objective, encoder, views):
    """Codes b and latents z of the two views, as plain arrays."""
    with torch.no_grad():
        h = [torch.tanh(encoder.head(view)).numpy() for view in views]
        z = [objective.trained["latent"](view).numpy() for view in views]
    return h, [np.where(a >= 0, 1, -1) for a in h], [unit(a) for a in z]


def unit(rows):
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def whole_soft_permutation(similarities, nbits, tau=1.0):
    """All rows of the soft permutation of each anchor, by its definition; similarities in [0, 1], (anchors, items)."""
    n_anchors, n_items = similarities.shape
    P = np.zeros((n_anchors, n_items, n_items))
    for i in range(n_anchors):
        for k, value in enumerate(sorted(similarities[i], reverse=True)):
            weights = [np.exp(-nbits * abs(value - other) / tau) for other in similarities[i]]
            P[i, k] = np.array(weights) / sum(weights)
    return P


def plain_sorted_nce(E, z, m, tau, multi_label=False):
    """SortedNCE of unit rows E (anchors, ranks, latents), written out."""
    total = 0.0
    for rows, anchor in zip(E, z, strict=True):
        kappa = [np.exp(row @ anchor / tau) for row in rows]
        for j in range(m):
            others = sum(kappa) - kappa[j] if multi_label else sum(kappa[m:])
            total -= np.log(kappa[j] / (kappa[j] + others))
    return total / (m * len(z))


# --- the soft sort


def distances_with_ties(n=9, nbits=NBITS, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).integers(0, nbits + 1, (n, n)).astype(float))


def test_levels_are_the_different_distances_in_ascending_order():
    distances = distances_with_ties()
    levels, counts = _tied_levels(distances, NBITS)
    for row, values, repeats in zip(distances.numpy(), levels.numpy(), counts.numpy(), strict=True):
        expected, expected_counts = np.unique(row, return_counts=True)
        assert_array_equal(values[: len(expected)], expected)
        assert_array_equal(repeats[: len(expected)], expected_counts)
        assert not repeats[len(expected) :].any()


@pytest.mark.parametrize("tau", [0.3, 1.0, 4.0])
def test_rows_are_those_of_the_soft_permutation(tau):
    distances = distances_with_ties()
    levels, counts = _tied_levels(distances, NBITS)
    P = _soft_permutation(levels, distances, tau)
    repeated = [np.repeat(p, c, axis=0) for p, c in zip(P.numpy(), counts.long().numpy(), strict=True)]
    assert_allclose(repeated, whole_soft_permutation(1 - distances.numpy() / NBITS, NBITS, tau), atol=1e-14)


def test_row_one_is_the_most_similar_item():
    rng = np.random.default_rng(0)
    distances = torch.from_numpy(np.stack([rng.permutation(20) for _ in range(5)]).astype(float))
    levels, _ = _tied_levels(distances, 20)
    P = _soft_permutation(levels, distances)
    assert_array_equal(P[:, 0].argmax(1), distances.argmin(1))
    assert_array_equal(P.argmax(2), distances.argsort(1))  # and so on down to the least similar one
    assert P[:, 0].max() > 0.6


def test_equal_similarities_share_the_mean_of_their_items():
    distances = torch.tensor([[5.0, 0.0, 5.0, 30.0]])
    levels, counts = _tied_levels(distances, 32)
    assert_array_equal(counts, [[1, 2, 1]])
    assert_allclose(_soft_permutation(levels, distances)[0, 1], [0.5, 0.0, 0.5, 0.0], atol=0.01)
    assert_allclose(_soft_permutation(levels, distances, 0.01)[0], [[0, 1, 0, 0], [0.5, 0, 0.5, 0], [0, 0, 0, 1]])


def test_chunks_of_anchors_change_nothing(monkeypatch):
    losses, gradients = [], []
    for bound in (nsh._MAX_WEIGHTS, 200):  # 200: a few anchors at a time
        monkeypatch.setattr(nsh, "_MAX_WEIGHTS", bound)
        objective, encoder, views = make()
        loss = loss_of(objective, encoder, views[0])
        loss.backward()
        losses.append(loss.item())
        gradients.append(
            torch.cat([p.grad.flatten() for p in (*encoder.parameters(), *objective.trained.parameters())])
        )
    assert losses[0] == pytest.approx(losses[1], abs=1e-12)
    torch.testing.assert_close(*gradients)


# --- the losses


# The paper's equations as they are printed, on tensors. Eq. 1 names no direction of the sort; `descending` is False in
# NSHHasher. Eq. 6 is read with a logarithm, since algorithm 1 calls a cross entropy. The temperature of eq. 1 divides
# similarities between 0 and 1: 1 / nbits there is `sort_temperature=1`.


def eq_1_softsort(scores, tau_s, descending=False):
    sorted_scores = scores.sort(descending=descending).values
    return torch.softmax(-(sorted_scores[:, None] - scores[None, :]).abs() / tau_s, dim=1)


def eq_3_similarity(b, b_hat):
    return b @ b_hat.T / (2 * b.shape[1]) + 0.5


def eq_4_permutations(S, tau_s, **options):
    return [eq_1_softsort(-s, tau_s, **options) for s in S]


def eq_5_sorted_latents(P, Z):
    return [p @ Z for p in P]


def eq_6_sorted_nce(E, Z_hat, m, tau_c, multi_label=False):
    total = 0.0
    for rows, anchor in zip(E, Z_hat, strict=True):
        kappa = torch.exp(nn.functional.cosine_similarity(rows, anchor[None]) / tau_c)
        for j in range(m):
            others = kappa.sum() - kappa[j] if multi_label else kappa[m:].sum()
            total = total - torch.log(kappa[j] / (kappa[j] + others))
    return total / (m * len(E))


def written_out(objective, encoder, views, query_view="anchor", m=2, tau_c=0.2, multi_label=False):
    """SortedNCE of a batch by eqs. 2 to 6, with the gradient of eq. 2, db / dh = 1."""
    h = [torch.tanh(encoder.head(view)) for view in views]
    b = [a + (torch.where(a >= 0, 1.0, -1.0) - a).detach() for a in h]
    Z = [
        a / a.norm(dim=1, keepdim=True)
        for a in (map(objective.trained["latent"], views) if "latent" in objective.trained else b)
    ]
    S = eq_3_similarity(*b)
    P = eq_4_permutations(S if query_view == "items" else S.T, 1 / NBITS)
    return eq_6_sorted_nce(eq_5_sorted_latents(P, Z[0]), Z[1], m, tau_c, multi_label)


def gradients_of(loss, encoder):
    return torch.autograd.grad(loss, list(encoder.parameters()))


@pytest.mark.parametrize("query_view", ["items", "anchor"])
@pytest.mark.parametrize("variant", ["full", "multi_label", "single_bottleneck"])
@pytest.mark.parametrize(("m", "tau"), [(1, 0.2), (2, 0.1), (5, 0.5)])
def test_loss_is_that_of_equations_3_to_6(variant, query_view, m, tau):
    options = {"query_view": query_view, "n_positives": m, "temperature": tau, "quantization_weight": 0.0}
    objective, encoder, views = make(variant, **options)
    expected = written_out(objective, encoder, views, query_view, m, tau, variant == "multi_label")
    assert loss_of(objective, encoder, views[0]).item() == pytest.approx(expected.item(), abs=1e-10)


@pytest.mark.parametrize("query_view", ["items", "anchor"])
@pytest.mark.parametrize("variant", ["full", "single_bottleneck"])
def test_gradient_is_that_of_equations_3_to_6(variant, query_view):
    """In a batch without a tie at rank m, where ours shares the gradient and a sort does not."""
    options = {"n": 4, "query_view": query_view, "n_positives": 2, "quantization_weight": 0.0}
    made = next(made for seed in range(100) if separated(*(made := make(variant, seed=seed, **options)), query_view))
    expected = gradients_of(written_out(*made, query_view), made[1])
    assert max(gradient.abs().max() for gradient in expected) > 1e-3
    for gradient, other in zip(gradients_of(loss_of(*made[:2], made[2][0]), made[1]), expected, strict=True):
        torch.testing.assert_close(gradient, other, rtol=1e-8, atol=1e-10)


def separated(objective, encoder, views, query_view, m=2):
    """Whether each query has different similarities at the ranks m and m + 1."""
    S = eq_3_similarity(*(torch.where(encoder.head(view) >= 0, 1.0, -1.0).double() for view in views))
    ranked = (S if query_view == "items" else S.T).sort(descending=True).values
    return bool((ranked[:, m - 1] > ranked[:, m]).all())


def test_row_one_of_equation_4_is_the_most_similar_item_if_the_sort_ascends():
    scores = torch.rand(20, generator=torch.Generator().manual_seed(0))
    (ascending,), (descending,) = (eq_4_permutations([scores], 0.01, descending=way) for way in (False, True))
    assert ascending[0].argmax() == scores.argmax()
    assert descending[0].argmax() == scores.argmin()
    levels, _ = _tied_levels((20 - scores.argsort().argsort())[None].double(), 20)
    assert _soft_permutation(levels, levels)[0, 0].argmax() == 0


def test_quantization_loss_is_the_mean_of_norms_of_rows():
    """The paper prints norms of matrices over 2n: with equal rows sqrt(n) times less than the mean of norms."""
    n, H = 50, [draw(1, NBITS, seed=seed).tanh().expand(50, NBITS) for seed in (0, 1)]
    B = [torch.where(h >= 0, 1.0, -1.0) for h in H]
    rows = sum(torch.linalg.vector_norm(b - h, dim=1).sum() for b, h in zip(B, H, strict=True)) / (2 * n)
    matrices = sum(torch.linalg.matrix_norm(b - h) for b, h in zip(B, H, strict=True)) / (2 * n)
    assert _quantization_loss(torch.cat(H)).item() == pytest.approx(rows.item(), rel=1e-12)
    assert rows.item() == pytest.approx(math.sqrt(n) * matrices.item(), rel=1e-12)


@pytest.mark.parametrize("query_view", ["items", "anchor"])
def test_hard_sort_gathers_by_argsort(query_view):
    objective, encoder, views = make("hard_sort", query_view=query_view, quantization_weight=0.3)
    h, b, z = views_of(objective, encoder, views)
    S = b[0] @ b[1].T / (2 * NBITS) + 0.5
    E = z[0][np.argsort(-(S if query_view == "items" else S.T), axis=1, kind="stable")]
    n = len(views[0])
    L_R = sum(np.linalg.norm(b[v][i] - h[v][i]) for v in (0, 1) for i in range(n)) / (2 * n)
    expected = plain_sorted_nce(E, z[1], 2, 0.2) + 0.3 * L_R
    assert loss_of(objective, encoder, views[0]).item() == pytest.approx(expected, abs=1e-10)


def test_simclr_of_weighted_codes_follows_its_formula():
    objective, encoder, views = make("no_softsort", quantization_weight=0.0, temperature=0.5)
    codes = [np.where(encoder.head(view).detach().numpy() >= 0, 1.0, -1.0) for view in views]
    S = codes[0] @ codes[1].T / (2 * NBITS) + 0.5
    E = unit(np.concatenate([S @ codes[0], S @ codes[1]]))
    n, total = len(S), 0.0
    for i in range(2 * n):
        kappa = np.exp(E @ E[i] / 0.5)
        total -= np.log(kappa[(i + n) % (2 * n)] / (kappa.sum() - kappa[i]))
    assert loss_of(objective, encoder, views[0]).item() == pytest.approx(total / (2 * n), abs=1e-10)


def test_sorted_nce_bears_a_low_temperature():
    cosines = torch.tensor([[1.0, 0.5, -1.0]])
    assert _sorted_nce(cosines, torch.ones(1, 3), 1, 1e-3).item() == pytest.approx(0, abs=1e-6)
    assert _sorted_nce(-cosines, torch.ones(1, 3), 1, 1e-3).item() == pytest.approx(2000)


def test_gradients_of_the_smooth_parts():
    distances = (distances_with_ties(6) + 0.2 * draw(6, 6).tanh()).requires_grad_()
    items, anchors = nn.functional.normalize(draw(6, 4)), nn.functional.normalize(draw(6, 4, seed=1))

    def smooth(distances, items, anchors):
        levels, counts = _tied_levels(distances, NBITS)
        return _sorted_nce(nsh._soft_cosines(levels, distances, items, anchors, 1.0), counts, 2)

    inputs = (distances, items.requires_grad_(), anchors.requires_grad_())
    assert torch.autograd.gradcheck(smooth, inputs, eps=1e-7, atol=1e-5)
    assert torch.autograd.gradcheck(_quantization_loss, draw(5, 4).requires_grad_())


def test_tied_items_at_rank_m_share_the_gradient():
    """As the mean over the orders of the tied items: no order of the rows is preferred."""
    distances = torch.tensor([[1.0, 1.0, 1.0, 4.0]], dtype=torch.float64, requires_grad=True)
    levels, counts = _tied_levels(distances, NBITS)
    items = nn.functional.normalize(torch.tensor([[1.0, 0], [1, 0], [1, 0], [0, 1]], dtype=torch.float64))
    _sorted_nce(nsh._soft_cosines(levels, distances, items, items[:1], 1.0), counts, 1).backward()
    assert_allclose(distances.grad[0, :3], distances.grad[0, 0].expand(3))
    assert distances.grad[0, 0] != 0


@pytest.mark.parametrize("variant", _VARIANTS)
def test_two_samples_are_enough_and_nan_shows(variant):
    objective, encoder, views = make(variant, n=2, n_positives=5)
    loss = loss_of(objective, encoder, views[0])
    loss.backward()
    assert loss.isfinite()
    assert all(p.grad.isfinite().all() for p in encoder.parameters())
    views[1][1] = torch.nan
    assert loss_of(objective, encoder, views[0]).isnan()


def test_without_quantization_is_a_weight_of_zero():
    cases = (("no_quantization", 1.0), ("full", 0.0), ("full", 1.0))
    losses = [loss_of(*make(v, quantization_weight=w)[:2], draw(12, WIDTH)).item() for v, w in cases]
    assert losses[0] == losses[1] < losses[2]


def test_decoding_learns_to_reconstruct():
    objective, encoder, views = make("decoding", quantization_weight=0.0)
    parameters = [*encoder.parameters(), *objective.trained.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=0.01)
    losses = []
    for _ in range(60):
        losses.append(loss_of(objective, encoder, views[0]))
        optimizer.zero_grad()
        losses[-1].backward()
        optimizer.step()
    assert losses[-1] < 0.5 * losses[0]
    assert objective.trained["latent"].weight.grad.abs().sum() > 0


# --- the hasher


def test_learns_more_than_its_random_first_layers(digits):
    few, many = (quick(n_epochs=n, learning_rate=lr).fit(digits.X, digits.y) for n, lr in ((1, 1e-9), (8, 2e-3)))
    assert many.score(digits.X_query, digits.y_query) > few.score(digits.X_query, digits.y_query) + 0.05


def test_pipeline_and_search(digits):
    search = GridSearchCV(
        make_pipeline(StandardScaler(), quick(n_epochs=1)),
        {"nshhasher__n_positives": [1, 3]},
        scoring=RetrievalScorer(["ap", "ndcg"], database="fold"),
        refit="ap",
        cv=StratifiedKFold(2, shuffle=True, random_state=0),
    )
    search.fit(digits.X, digits.y)
    assert search.best_estimator_.transform(digits.X_query).shape == (len(digits.X_query), 16)
    assert 0.2 < search.best_score_ < 1
    assert len(set(search.cv_results_["mean_test_ap"])) == 2


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("variant", "soft"),
        ("n_latent", 0),
        ("n_positives", 0),
        ("temperature", 0.0),
        ("sort_temperature", -1.0),
        ("quantization_weight", -0.1),
        ("augment", None),
        ("own_view", "last"),
        ("query_view", "both"),
    ],
)
def test_bad_options(digits, name, value):
    with pytest.raises(ValueError, match=f"'{name}' parameter of NSHHasher must be .* Got {value!r} instead"):
        NSHHasher(**{name: value}).fit(digits.X)


def test_the_papers_temperature_of_the_sort_is_b_for_similarities(digits):
    """A similarity is 1 - d / b, so that b for similarities is b ** 2 for Hamming distances."""
    first, second = (
        quick(n_epochs=2, sort_temperature=tau).fit(digits.X).encode(digits.X_query) for tau in ("paper", 16.0**2)
    )
    assert_array_equal(first, second)
    assert (first != quick(n_epochs=2).fit(digits.X).encode(digits.X_query)).any()


def test_another_seed_gives_other_codes(digits):
    codes = [quick(n_epochs=1, random_state=seed).fit(digits.X).encode(digits.X_query) for seed in (0, 0, 1)]
    assert_array_equal(codes[0], codes[1])
    assert (codes[0] != codes[2]).any()


def test_variants_differ(digits):
    codes = set()
    for variant in _VARIANTS:
        hasher = quick(variant=variant, n_epochs=1).fit(digits.X[:200], digits.y[:200])
        codes.add(hasher.encode(digits.X_query).tobytes())
        assert hasher.score(digits.X_query, digits.y_query) > 0.15
    assert len(codes) == len(_VARIANTS)


# --- own views: always the first positive, learned by the codes, and counted


def draw_distances(n=7, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).integers(0, NBITS + 1, (n, n)).astype(float))


def test_own_view_precedes_all_others_which_keep_their_order():
    distances = draw_distances()
    moved = _own_view_first(distances)
    others = ~torch.eye(len(distances), dtype=torch.bool)
    assert (moved.diagonal()[:, None] < moved).masked_select(others).all()
    assert_allclose(moved[others], distances[others] + 1)
    assert moved.min() >= 0


def test_moving_the_own_view_keeps_the_gradient():
    distances, weights = draw_distances().requires_grad_(), draw(7, 7)
    (_own_view_first(distances) * weights).sum().backward()
    torch.testing.assert_close(distances.grad, weights)


@pytest.mark.parametrize("tau", [0.5, 1.0, 3.0])
def test_loss_is_the_likelihood_of_the_first_row_of_the_soft_permutation(tau):
    distances = draw_distances()
    first = _soft_permutation(distances.min(1, keepdim=True).values, distances, tau)[:, 0]
    expected = -np.mean([math.log(first[i, i]) for i in range(len(first))])
    _, loss = OwnViews(torch.neg, first=True, weight=2.0).sort(distances, 2, tau)
    assert loss.item() == pytest.approx(2 * expected, abs=1e-12)


@pytest.mark.parametrize("m", [1, 2, 5])
def test_count_is_that_of_a_double_loop(m):
    distances = draw_distances()
    found = sum(sum(other < row[i] for other in row) < m for i, row in enumerate(distances.tolist()))
    assert _count_found(distances, m) == found


def make_objective(**options):
    views = draw(12, WIDTH, seed=1), draw(12, WIDTH, seed=2)
    calls = iter(range(100))
    torch.manual_seed(0)
    objective = NSHObjective(lambda X: views[next(calls) % 2].repeat(len(X) // 12, 1), WIDTH, WIDTH, 4, **options)
    objective.trained.double()
    return objective, views[0]


def test_first_adds_the_loss_and_sorted_does_not():
    with torch.random.fork_rng():
        losses = []
        for own_view, weight in (("first", 0.0), ("first", 2.0), ("sorted", 2.0), ("sorted", 0.0)):
            objective, X = make_objective(own_view=own_view, own_view_weight=weight)
            losses.append(objective(Head(mean=0.0, scale=1.0), X, None, np.arange(12)).item())
    assert losses[2] == losses[3] != losses[0] < losses[1]


def test_own_views_are_counted_per_epoch():
    own_views = OwnViews(torch.neg, first=False, weight=1.0)
    for _ in range(2):
        own_views.sort(draw_distances(), 2, 1.0)
    assert own_views.shares() == {"own_views_found": _count_found(draw_distances(), 2).item() / 7}
    own_views.start_epoch()
    assert own_views.shares() == {}


def test_views_of_another_shape_are_not_mixed():
    images = torch.rand(5, 3, 4, 4)
    assert _weaken(lambda batch: batch[..., :2], torch.tensor(0.5), images).shape == (5, 3, 4, 2)


def replace(batch):
    return batch.mean(0) + 100 * torch.randn_like(batch)  # a view that has nothing of the sample


@pytest.mark.parametrize("own_view", ["first", "sorted"])
def test_a_view_that_cannot_be_found_warns_and_keeps_the_fit(digits, own_view):
    hasher = NSHHasher(16, augment=replace, own_view=own_view, n_epochs=2, batch_size=50, random_state=0)
    with pytest.warns(UserWarning, match="for only [0-9]+ % of the samples.*Weaken `augment`") as caught:
        hasher.fit(digits.X[:200])
    assert caught[0].filename == __file__
    assert hasher.history_[-1]["own_views_found"] < 0.9
    assert hasher.transform(digits.X[:2]).shape == (2, 16)


def test_an_error_of_the_warning_loses_nothing(digits):
    hasher = NSHHasher(16, augment=replace, own_view="sorted", n_epochs=1, batch_size=50, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", DegenerateCodesWarning)
        with pytest.raises(UserWarning, match="Weaken `augment`"):
            hasher.fit(digits.X[:200])
    assert hasher.transform(digits.X[:2]).shape == (2, 16)


def test_only_the_last_count_warns():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for history in (
            [{"own_views_found": 0.1}, {"own_views_found": 0.9}, {"loss": 1.0}],
            [{"loss": 1.0}],
            [{"own_views_found": 0.8, "augment_strength": 0.3}],
        ):
            hasher = NSHHasher()
            hasher.history_ = history
            hasher._warn_of_training(stacklevel=1)


def test_strength_follows_the_share_of_own_views_found():
    own_views = OwnViews(torch.neg, first=True, weight=1.0)
    for n_far, bound in ((0, 1.0), (1, 0.1)):  # of ten own views: all of them, and 80 %, are found
        for n_steps in (1, 500):
            before = own_views.state.strength.item()
            for _ in range(n_steps):
                own_views.sort(1 - torch.eye(10) + torch.diag(torch.arange(10) < 2 * n_far) * 3, 1, 1.0)
            assert (own_views.state.strength.item() > before) == (bound == 1)
        assert own_views.state.strength.item() == pytest.approx(bound)


def test_weakened_views_lie_between_the_samples_and_their_views():
    X, views = draw(5, WIDTH), draw(5, WIDTH, seed=1)
    weak = _weaken(lambda copies: views.repeat(4, 1), torch.tensor(0.125, dtype=X.dtype), X)
    torch.testing.assert_close(weak, 0.75 * X + 0.25 * views)


@pytest.mark.parametrize("n_draws", [1, 4, 11])
@pytest.mark.parametrize("shape", [(WIDTH,), (2, 3, 4)])
@pytest.mark.parametrize("scale", [2.0**90, 1.0, 2.0**-90])
def test_nearest_draw_of_each_sample_is_that_of_a_double_loop(shape, n_draws, scale):
    X, drawn = scale * torch.rand(5, *shape), []

    def augment(copies):
        versions = copies + scale * torch.randn_like(copies)
        drawn.extend(versions.split(5))
        return versions

    views = _nearest_draw(augment, n_draws, X)
    assert len(drawn) == n_draws
    for i in range(5):
        expected = min((draw[i] for draw in drawn), key=lambda view: (view - X[i]).double().square().sum().item())
        assert torch.equal(views[i], expected)


@pytest.mark.parametrize(("strength", "sizes"), [(0.1, 8 * [20]), (0.5, 8 * [20]), (0.75, 4 * [20] + [5]), (1.0, [5])])
def test_a_weak_augmentation_takes_the_nearest_of_more_draws(strength, sizes):
    calls = []
    _weaken(lambda batch: calls.append(len(batch)) or 2 * batch, torch.tensor(strength), draw(5, WIDTH))
    assert calls == sizes


def test_full_strength_is_the_augmentation_itself():
    X = draw(5, WIDTH)
    assert torch.equal(_weaken(torch.neg, torch.tensor(1.0), X), -X)


@pytest.mark.parametrize(
    ("augment", "own_view", "expected"),
    [
        (torch.neg, None, "first"),
        (torch.neg, "sorted", "sorted"),
        ("auto", None, "sorted"),
        ("auto", "first", "first"),
    ],
)
def test_own_view_is_the_first_by_default_with_a_given_augmentation(digits, augment, own_view, expected):
    options = {"augment": augment, "n_epochs": 1, "batch_size": 50, "random_state": 0, "store_database": False}
    hashers = [NSHHasher(16, own_view=value, **options).fit(digits.X[:200]) for value in (own_view, expected)]
    assert [hasher.settings_["own_view"] for hasher in hashers] == [expected, expected]
    assert ("augment_strength" in hashers[0].history_[-1]) == (expected == "first")
    assert_array_equal(*(hasher.transform(digits.X[:20]) for hasher in hashers))


def test_strength_is_continued_by_a_resume(digits, tmp_path):
    options = {
        "augment": torch.neg,
        "own_view": "first",
        "batch_size": 50,
        "n_epochs": 4,
        "random_state": 0,
        "nbits": 16,
    }
    whole = NSHHasher(**options).fit(digits.X[:200])
    with pytest.raises(KeyboardInterrupt):
        NSHHasher(**options, checkpoint=tmp_path).set_callbacks(StopAfter(2)).fit(digits.X[:200])
    resumed = NSHHasher(**options, checkpoint=tmp_path).fit(digits.X[:200], resume=True)
    assert resumed.history_ == whole.history_


def test_default_noise_is_found(digits):
    hasher = NSHHasher(16, n_epochs=2, batch_size=50, random_state=0).fit(digits.X[:500])
    assert hasher.history_[-1]["own_views_found"] > 0.5
