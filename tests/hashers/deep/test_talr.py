"""TALR: the loss is the metric, and minimizing it makes better codes."""

from functools import partial
from itertools import product

import mpmath
import numpy as np
import pytest
import torch
from _helpers import draw, loss_of
from numpy.testing import assert_allclose, assert_array_equal
from pytorch_metric_learning import losses
from scipy import sparse
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.utils import get_tags
from torch.nn.functional import normalize

from skhash import ITQHasher, StructHashHasher, TALRHasher
from skhash.affinity import ClassAffinity, DistanceAffinity, Relevance, SharedLabelsAffinity
from skhash.hashers.deep import soft_metric
from skhash.hashers.deep._early_stopping import split_indices
from skhash.hashers.deep._objectives import MAX_LEVELS, HistogramObjective
from skhash.hashers.deep.talr import TALRObjective
from skhash.metrics import (
    RelevanceHistogram,
    RetrievalScorer,
    average_precision,
    ndcg,
    precision,
    relevance_histogram,
)
from skhash.metrics.soft_histogram import soft_histogram
from skhash.persistence import load, save

OBJECTIVES, RELAXATIONS = ("ap", "ndcg"), ("exact", "paper", "simplified")
quick = partial(TALRHasher, nbits=16, n_epochs=4, batch_size=100, random_state=0)


def targets(kind, n=30):
    """Targets of n samples, and their fitted affinity; to some samples nothing is relevant."""
    rng = np.random.default_rng(3)
    y, affinity = {
        "classes": (np.arange(n) // 3 % 9, ClassAffinity()),
        "labels": (rng.integers(0, 2, (n, 3)), SharedLabelsAffinity()),
        "distances": (rng.normal(size=(n, 2)), DistanceAffinity(percentiles=(40, 10), levels=(1, 2.5))),
    }[kind]
    return y, affinity.fit(y)


# --- the objective


@pytest.mark.filterwarnings("ignore:.* have no relevant item")
@pytest.mark.parametrize("k", [None, 4])
@pytest.mark.parametrize("kind", ["classes", "labels", "distances"])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_on_hard_codes_the_objective_is_the_metric(objective, kind, k):
    y, affinity = targets(kind)
    activations = 100 * draw(len(y), 6).sign()  # tanh takes them to -1 and 1
    codes = (activations >= 0).numpy().astype(np.uint8)
    H = relevance_histogram(codes, codes, y, affinity=affinity, exclude_self=True)
    metric = ndcg(H, k=k) if objective == "ndcg" else average_precision(H, k=k, normalizer="min")
    loss = loss_of(TALRObjective(objective, k=k), activations, y, affinity)
    assert 1 - loss.item() == pytest.approx(metric, abs=1e-12)


@pytest.mark.parametrize("n_bins", [None, 3])
@pytest.mark.parametrize(("relaxation", "k"), [("exact", None), ("exact", 4), ("paper", None), ("simplified", None)])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_gradients(objective, relaxation, k, n_bins):
    y, affinity = targets("labels", n=6)
    loss = TALRObjective(objective, relaxation, k, 0.7, n_bins)
    activations = draw(6, 4).requires_grad_()
    assert torch.autograd.gradcheck(lambda a: loss_of(loss, a, y, affinity), activations, eps=1e-7, atol=1e-5)


@pytest.mark.parametrize("n_bins", [None, 3])
@pytest.mark.parametrize("alpha", [0.3, 1, 5])
@pytest.mark.parametrize("objective", [*OBJECTIVES, "fast_ap"])
def test_the_loss_and_gradient_equal_the_definition(objective, alpha, n_bins):
    y, affinity = targets("labels", n=40)
    loss = TALRObjective(objective, alpha=alpha, n_bins=n_bins)
    activations, relevance = draw(40, 6).float().requires_grad_(), Relevance.of(y, affinity)
    value, gradient = loss.loss_and_gradient(activations.detach().numpy(), relevance)
    defined = HistogramObjective.ranking_loss(loss, torch.tanh(alpha * activations), *loss._levels(relevance))
    (expected,) = torch.autograd.grad(defined, activations)
    assert value == pytest.approx(defined.item(), abs=1e-7)
    np.testing.assert_allclose(gradient, expected, rtol=0, atol=1e-6 * expected.abs().max().item())


@pytest.mark.parametrize(
    "options", [{}, {"relaxation": "paper"}, {"k": 3}, {"n_bins": 3}, {"objective": "ndcg"}], ids=str
)
def test_the_loss_with_prefixes_is_the_mean_over_the_lengths(options):
    y, affinity = targets("labels", n=40)
    activations, relevance = draw(40, 7).float().requires_grad_(), Relevance.of(y, affinity)
    lengths = [loss_of(TALRObjective(**options), activations[:, :n], y, affinity) for n in (2, 5, 7)]
    expected = sum(lengths) / 3
    objective = TALRObjective(**options, prefixes=(2, 5))
    loss = loss_of(objective, activations, y, affinity)
    assert loss.item() == pytest.approx(expected.item(), abs=1e-6)
    (gradient,) = torch.autograd.grad(expected, activations)
    pairs = [(loss.item(), torch.autograd.grad(loss, activations)[0].numpy())]
    if objective.loss_and_gradient is not None:
        pairs.append(objective.loss_and_gradient(activations.detach().numpy(), relevance))
    for value, slopes in pairs:
        assert value == pytest.approx(expected.item(), abs=1e-6)
        assert_allclose(slopes, gradient, rtol=0, atol=1e-6)


def test_the_loss_and_gradient_of_nan_are_nan():
    y, affinity = targets("classes", n=5)
    assert np.isnan(
        TALRObjective().loss_and_gradient(np.full((5, 3), np.nan, np.float32), Relevance.of(y, affinity))[0]
    )
    assert all(TALRObjective(**other).loss_and_gradient is None for other in ({"relaxation": "paper"}, {"k": 3}))


def plain_ap(n, p, relaxation):
    """AP_r and AP_s of one query, item counts n and relevant counts p of its ties, by the head of talr.py."""
    total = before = relevant_before = 0.0
    for c, c_plus in zip(n, p, strict=True):
        after = before + c
        if relaxation == "simplified":
            total += c_plus * (2 * relevant_before + c_plus + 1) / (before + after + 1)
        elif c > 1e-9:
            r = 0 if c == 1 else min(max((c_plus - 1) / (c - 1), 0), 1)
            log = mpmath.log(after / before) if before >= 1 else mpmath.psi(0, after + 1) - mpmath.psi(0, before + 1)
            total += c_plus / c * (r * c + (relevant_before + 1 - r * (before + 1)) * float(log))
        before, relevant_before = after, relevant_before + c_plus
    return total / sum(p)


def plain_dcg(n, gains, relaxation):
    """DCG_r and DCG_s of one query, item counts n and sums of gains of its ties."""
    total = before = 0.0
    for c, gain in zip(n, gains, strict=True):
        after = before + c
        if relaxation == "simplified":
            total += gain / np.log2(before + (c + 1) / 2 + 1)
        elif c > 1e-9 and before >= 1:
            total += gain / c * np.log(2) * float(mpmath.li(after + 1) - mpmath.li(before + 1))
        elif c > 1e-9:
            total += gain / c * (discounts_up_to(after) - discounts_up_to(before))
        before = after
    return total


def discounts_up_to(x):
    whole = int(x)
    return sum(1 / np.log2(t + 1) for t in range(1, whole + 1)) + (x - whole) / np.log2(whole + 2)


@pytest.mark.parametrize("relaxation", ["paper", "simplified"])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_relaxations_follow_their_formulas(objective, relaxation):
    y, affinity = targets("labels")
    phi = torch.tanh(0.7 * draw(len(y), 6))
    levels = affinity(y, y) * (1 - np.eye(len(y), dtype=int))
    H = soft_histogram((6 - phi @ phi.T) / 2, torch.from_numpy(levels), np.arange(levels.max() + 1), max_distance=6)
    gain_of_level = 2.0**H.levels - 1
    values = []
    for q, counts in enumerate(H.counts.numpy()):
        if not levels[q].any():
            continue
        n, p = counts.sum(1), counts[:, 1:].sum(1)
        if objective == "ap":
            values.append(plain_ap(n, p, relaxation))
        else:
            gains = -np.sort(-gain_of_level[np.delete(levels[q], q)])
            ideal = sum(gain / np.log2(t + 1) for t, gain in enumerate(gains, start=1))
            values.append(plain_dcg(n, counts @ gain_of_level, relaxation) / ideal)
    loss = loss_of(TALRObjective(objective, relaxation, alpha=0.7), draw(len(y), 6), y, affinity)
    assert 1 - loss.item() == pytest.approx(np.mean(values), abs=1e-9)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_samples_without_a_relevant_one_do_not_count(objective):
    loss = TALRObjective(objective)
    codes = torch.ones(6, 8)
    codes[2:] = -1
    assert loss_of(loss, 100 * codes, np.array([0, 0, 1, 2, 3, 4])).item() == pytest.approx(0)  # two perfect rankings
    assert loss_of(loss, 100 * codes, np.arange(6)).item() == 1  # nothing to rank: no gradient, and no NaN


@pytest.mark.parametrize("relaxation", RELAXATIONS)
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("kind", ["classes", "labels"])
def test_nan_shows_in_the_loss(kind, objective, relaxation):
    y, affinity = targets(kind)
    activations = draw(len(y), 6)
    activations[3] = torch.nan
    assert loss_of(TALRObjective(objective, relaxation), activations, y, affinity).isnan()


@pytest.mark.parametrize("relaxation", ["exact", "paper", "simplified"])
def test_ndcg_of_high_levels_is_that_of_lower_ones(relaxation):
    counts = torch.tensor(np.random.default_rng(0).uniform(0, 2, (4, 6, 3)))
    high, low = (
        soft_metric(RelevanceHistogram(counts, np.array(levels)), "ndcg", relaxation)
        for levels in ([0, 1022, 1023], [0, 511, 512])
    )
    assert torch.isfinite(high).all()
    torch.testing.assert_close(high, low, rtol=1e-9, atol=0)


# --- the hasher


@pytest.fixture(scope="module")
def itq(digits):
    return ITQHasher(nbits=16, random_state=0).fit(digits.X, digits.y)


@pytest.mark.parametrize("relaxation", RELAXATIONS)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_learns_digits_better_than_itq(digits, itq, objective, relaxation):
    hasher = quick(objective=objective, relaxation=relaxation, n_epochs=12).fit(digits.X, digits.y)
    ap, of_itq = (RetrievalScorer("ap")(each, digits.X_query, digits.y_query) for each in (hasher, itq))
    assert ap > of_itq + 0.05
    losses = [entry["loss"] for entry in hasher.history_]
    assert len(losses) == hasher.n_epochs_ == 12
    assert losses[-1] < losses[0]


@pytest.fixture(scope="module")
def plain(digits):
    """Each objective with default options."""
    return {objective: quick(objective=objective).fit(digits.X, digits.y) for objective in OBJECTIVES}


@pytest.mark.parametrize(("given", "meant"), [("AP_T", "ap"), ("NDCG_T", "ndcg"), ("map", "ap")])
def test_the_error_for_an_objective_names_the_one_that_is_meant(digits, given, meant):
    hint = rf"Got '{given}' \(did you mean '{meant}'\?\) instead\."
    for hasher in (quick(objective=given), StructHashHasher(16, objective=given)):
        with pytest.raises(
            ValueError, match=rf"The 'objective' parameter of {type(hasher).__name__} must be .* {hint}"
        ):
            hasher.fit(digits.X, digits.y)
    H = RelevanceHistogram(torch.ones(1, 3, 2), np.array([0, 1]))
    with pytest.raises(ValueError, match=f"`objective` must be one of 'ap', 'ndcg', 'fast_ap'. {hint}"):
        soft_metric(H, given)


def test_score_is_average_precision_whatever_is_trained(digits, plain):
    hasher = plain["ndcg"]
    codes, queries = hasher.transform(digits.X), hasher.transform(digits.X_query)
    H = relevance_histogram(queries, codes, digits.y_query, digits.y)
    assert hasher.score(digits.X_query, digits.y_query) == pytest.approx(average_precision(H), abs=1e-14)
    assert average_precision(H) < ndcg(H) - 0.01


@pytest.mark.parametrize(("objective", "metric"), [("ap", "ap"), ("ndcg", "ndcg"), ("fast_ap", "ap")])
def test_early_stopping_measures_the_metric_that_is_trained(digits, objective, metric):
    options = {"objective": objective, "early_stopping": True, "n_epochs": 1, "validation_fraction": 0.3}
    hasher = quick(**options).fit(digits.X, digits.y)
    seed = np.random.default_rng(np.random.RandomState(0).randint(np.iinfo(np.int32).max))
    learned, held_out = split_indices(len(digits.X), 0.3, seed)
    codes = hasher.transform(digits.X)
    H = relevance_histogram(codes[held_out], codes[learned], digits.y[held_out], digits.y[learned])
    values = {"ap": average_precision(H), "ndcg": ndcg(H)}
    assert hasher.history_[0]["validation"] == pytest.approx(values[metric], abs=1e-14)


def test_a_search_without_scoring_compares_objectives_by_average_precision(digits):
    objectives, cv = ["ap", "ndcg", "fast_ap"], StratifiedKFold(2, shuffle=True, random_state=0)
    search = GridSearchCV(TALRHasher(16, n_epochs=3, random_state=0), {"objective": objectives}, cv=cv)
    search.fit(digits.X, digits.y)
    means = {objective: {"ap": [], "ndcg": []} for objective in objectives}
    for objective, (train, test) in product(objectives, cv.split(digits.X, digits.y)):
        hasher = TALRHasher(16, n_epochs=3, objective=objective, random_state=0).fit(digits.X[train], digits.y[train])
        codes = hasher.transform(digits.X)
        H = relevance_histogram(codes[test], codes[train], digits.y[test], digits.y[train])
        for name, metric in (("ap", average_precision), ("ndcg", ndcg)):
            means[objective][name].append(metric(H))
    of_ap = {objective: np.mean(values["ap"]) for objective, values in means.items()}
    assert search.best_params_ == {"objective": max(of_ap, key=of_ap.get)}
    assert search.best_score_ == pytest.approx(max(of_ap.values()), abs=1e-14)
    # NDCG is higher than AP for the same codes: compared with it, "ndcg" would win
    assert np.mean(means["ndcg"]["ndcg"]) > search.best_score_
    assert search.best_params_ != {"objective": "ndcg"}


@pytest.mark.parametrize("kind", ["classes", "column", "words", "labels", "sparse labels", "distances", "function"])
def test_kinds_of_targets(digits, kind):
    labels = np.column_stack([digits.y % 2, digits.y < 5, digits.y > 2]).astype(int)
    y, affinity = {
        "classes": (digits.y, "auto"),
        "column": (digits.y[:, None], "auto"),
        "words": (np.array([f"digit {label}" for label in digits.y]), "auto"),
        "labels": (labels, "auto"),
        "sparse labels": (sparse.csr_array(labels), "auto"),
        "distances": (None, DistanceAffinity()),
        "function": (digits.y / 10, lambda a, b: np.abs(a[:, None] - b) < 0.15),
    }[kind]
    hasher = quick(affinity=affinity, objective="ndcg", n_epochs=2)
    assert get_tags(hasher).target_tags.required == (y is not None)
    hasher.fit(digits.X, y)
    assert 0.3 < hasher.score(digits.X, y) <= 1
    if kind in ("column", "words", "sparse labels"):
        plain = quick(objective="ndcg", n_epochs=2).fit(digits.X, labels if kind == "sparse labels" else digits.y)
        assert_array_equal(hasher.encode(digits.X), plain.encode(digits.X))


@pytest.mark.parametrize("options", [{"k": 10}, {"k": 10, "objective": "ndcg"}, {"n_bins": 8}, {"alpha": 2.0}], ids=str)
def test_options_of_the_objective(digits, plain, options):
    hasher, other = quick(**options).fit(digits.X, digits.y), plain[options.get("objective", "ap")]
    assert hasher.score(digits.X_query, digits.y_query) > other.score(digits.X_query, digits.y_query) - 0.1
    assert hasher.history_[0]["loss"] != other.history_[0]["loss"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 10, "relaxation": "paper"}, "`relaxation` must be 'exact' with k=10. Got 'paper' instead"),
        ({"objective": "fast_ap", "relaxation": "paper"}, "`relaxation` must be 'exact' with objective='fast_ap'"),
        ({"objective": "fast_ap", "k": 10}, "`k` must be None with objective='fast_ap'. Got 10 instead"),
        (
            {"prefixes": (8, 4)},
            r"`prefixes` must be ascending numbers of bits below 16, .* Got \(8, 4\)",
        ),
        ({"prefixes": [16]}, r"`prefixes` must be ascending numbers of bits below 16, the bits of a code. Got \[16\]"),
    ],
    ids=str,
)
def test_options_that_do_not_go_together(digits, options, message):
    with pytest.raises(ValueError, match=message):
        quick(**options).fit(digits.X, digits.y)


def test_only_ndcg_limits_the_number_of_levels():
    def loss(objective, n):  # samples of n levels
        return loss_of(TALRObjective(objective), draw(n, 4), np.arange(n), lambda a, b: np.abs(a[:, None] - b))

    assert loss("ndcg", MAX_LEVELS) > 0
    assert loss("ap", MAX_LEVELS + 1) >= 0
    with pytest.raises(
        ValueError, match=f"`affinity` must give at most {MAX_LEVELS} levels in a batch. Got 257 levels"
    ):
        loss("ndcg", 257)


def test_small_classes_stay_together_in_batches(digits):
    n_batches, y = 5, np.repeat(np.arange(100), 2)
    relevance, rng = Relevance.of(y), np.random.default_rng(0)
    batches = TALRObjective().batches(None, y, relevance, n_batches, rng)
    assert_array_equal(np.sort(np.concatenate(batches)), np.arange(200))
    assert {len(batch) for batch in batches} == {40}
    assert all((y[batch][:, None] == y[batch]).sum() == 80 for batch in batches)  # each sample meets the other one
    again = TALRObjective().batches(None, y, relevance, n_batches, rng)
    assert not np.array_equal(batches[0], again[0])
    # a random batch has relevant samples, or a batch would have few classes
    for others, n_batches in ((digits.y, 5), (np.repeat(np.arange(30), 10), 20)):
        random = TALRObjective().batches(None, others, Relevance.of(others), n_batches, np.random.default_rng(0))
        assert_array_equal(np.concatenate(random), np.random.default_rng(0).permutation(len(others)))


@pytest.mark.parametrize("backbone", ["mlp", "module"])
def test_the_hash_layer_of_a_backbone_starts_from_itq_of_its_outputs(digits, backbone):
    network = torch.nn.Sequential(torch.nn.Linear(64, 40), torch.nn.ReLU()) if backbone == "module" else backbone
    untrained = {"backbone": network, "learning_rate": 1e-12, "n_epochs": 1, "init": "itq"}
    untrained |= {"input_dropout": 0.0, "hidden_dropout": 0.0}
    hasher = quick(**untrained).fit(digits.X, digits.y)
    if backbone == "module":  # it has no batch norm, whose statistics the epoch changes
        assert_allclose(hasher.project(digits.X).mean(axis=0), 0, atol=1e-3)
    rotation = quick(**untrained | {"init": "rotation"}).fit(digits.X, digits.y)
    scores = [each.score(digits.X_query, digits.y_query) for each in (hasher, rotation)]
    assert scores[0] > scores[1]


def test_starts_from_itq(digits, itq):
    untrained = {"learning_rate": 1e-12, "n_epochs": 1}
    started, rotation = (quick(init=init, **untrained).fit(digits.X, digits.y) for init in ("itq", "rotation"))
    scores = [hasher.score(digits.X_query, digits.y_query) for hasher in (started, itq, rotation)]
    assert scores[0] == pytest.approx(scores[1], abs=0.05)
    assert scores[0] > scores[2] + 0.05


# --- prefixes


@pytest.mark.parametrize(("backbone", "gain"), [(None, 0.03), ("mlp", 0.01)])
def test_trained_prefixes_rank_better_than_cut_ones(digits, backbone, gain):
    def fit(nbits, **options):
        return quick(nbits=nbits, n_epochs=30, backbone=backbone, **options).fit(digits.X, digits.y)

    def score(hasher):
        return hasher.score(digits.X_query, digits.y_query)

    usual, whole = fit(32), fit(32, prefixes=(8, 16))
    assert score(whole.prefix(8)) > score(usual.prefix(8)) + gain
    for n in (8, 16):
        assert score(whole.prefix(n)) > score(fit(n)) - 0.08
    assert score(whole) > score(usual) - 0.05


def test_a_prefix_keeps_the_shorter_ones(digits, tmp_path):
    whole = quick(nbits=24, prefixes=[6, 12]).fit(digits.X, digits.y)
    save(whole, tmp_path / "hasher.safetensors")
    loaded = load(tmp_path / "hasher.safetensors")
    for hasher in (whole, loaded):
        shorter = hasher.prefix(12)
        assert (shorter.nbits, shorter.prefixes, hasher.prefix(20).prefixes) == (12, (6,), (6, 12))
        assert_array_equal(shorter.transform(digits.X_query), whole.transform(digits.X_query)[:, :12])
        with pytest.raises(ValueError, match="prefixes"):
            hasher.prefix(12).set_params(prefixes=(4,)).partial_fit(digits.X, digits.y)
        before = shorter.history_[-1]["epoch"]
        assert shorter.partial_fit(digits.X, digits.y).history_[-1]["epoch"] == before + 1


# --- FastAP


quick_fastap = partial(TALRHasher, nbits=16, objective="fast_ap", n_epochs=4, batch_size=100, random_state=0)


def plain_fastap(distances, relevant, width, n_bins):
    """FastAP of one query by its definition: each item in each bin by the triangular kernel."""
    total = items = relevant_items = 0.0
    for center in (width * i for i in range(n_bins + 1)):
        shares = [max(0.0, 1 - abs(distance - center) / width) for distance in distances]
        items += sum(shares)
        here = sum(share for share, is_relevant in zip(shares, relevant, strict=True) if is_relevant)
        relevant_items += here
        if here:
            total += here * relevant_items / items
    return total / sum(relevant)


@pytest.mark.parametrize("n_bins", [None, 3, 9])
@pytest.mark.parametrize("kind", ["classes", "several labels"])
def test_fastap_is_the_double_loop(kind, n_bins):
    labels = np.random.default_rng(3).integers(0, 2, (20, 3))
    y, affinity = {
        "classes": (np.r_[8, 9, np.arange(18) // 2 % 7], ClassAffinity()),
        "several labels": (np.r_[0 * labels[:2], labels[2:]], SharedLabelsAffinity()),
    }[kind]  # nothing is relevant to the first two rows
    phi, relevant = torch.tanh(0.7 * draw(20, 6)).numpy(), affinity(y, y) > 0
    values = []
    for q in range(20):
        others = [i for i in range(20) if i != q]
        if relevant[q, others].any():
            distances = [(6 - sum(phi[q] * phi[i])) / 2 for i in others]
            values.append(plain_fastap(distances, relevant[q, others], 6 / (n_bins or 6), n_bins or 6))
    assert len(values) < 20
    loss = loss_of(TALRObjective("fast_ap", alpha=0.7, n_bins=n_bins), draw(20, 6), y, affinity)
    assert 1 - loss.item() == pytest.approx(np.mean(values), abs=1e-12)


@pytest.mark.parametrize("n_bins", [5, 10, 32])
def test_loss_and_gradient_are_those_of_pytorch_metric_learning(n_bins):
    """On unit embeddings, whose squared distances in [0, 4] fall into the same bins."""
    y = torch.from_numpy(np.arange(25) // 2 % 8)
    theirs, ours = (draw(25, 6).requires_grad_() for _ in range(2))
    units = normalize(ours, dim=1)
    relevant = (y[:, None] == y).long().fill_diagonal_(0)
    H = soft_histogram(2 - 2 * units @ units.T, relevant, [0, 1], max_distance=4, n_bins=n_bins)
    loss, expected = TALRObjective("fast_ap").loss(H), losses.FastAPLoss(num_bins=n_bins)(theirs, y)
    assert loss.item() == pytest.approx(expected.item(), abs=1e-12)
    loss.backward()
    expected.backward()
    assert_allclose(ours.grad, theirs.grad, atol=1e-12)


def codes_and_classes():
    return (draw(30, 5) >= 0).numpy().astype(np.uint8), np.arange(30) % 4


def test_on_codes_it_is_the_mean_precision_within_the_radius_of_each_relevant_item():
    codes, y = codes_and_classes()
    H = relevance_histogram(codes, codes, y, exclude_self=True)
    within = np.stack([precision(H, radius=r, average=False) for r in range(6)], axis=1)
    relevant = H.counts[:, :, 1]
    expected = (relevant * within).sum(1) / relevant.sum(1)
    soft = soft_histogram(
        torch.from_numpy((codes[:, None] != codes).sum(-1)).double(),
        torch.from_numpy((y[:, None] == y).astype(np.int64)),
        [0, 1],
        max_distance=5,
    )
    assert_allclose(soft_metric(soft, "fast_ap"), expected, atol=1e-14)
    loss = loss_of(TALRObjective("fast_ap"), 100 * torch.from_numpy(2.0 * codes - 1), y)
    assert 1 - loss.item() == pytest.approx(expected.mean(), abs=1e-12)
    assert (expected >= average_precision(H, ties="worst", average=False) - 1e-12).all()


@pytest.mark.parametrize("n_bins", [None, 3])
def test_gradients_of_fastap(n_bins):
    y = np.array([0, 0, 1, 1, 2, 2, 2, 3])
    objective = TALRObjective("fast_ap", alpha=0.7, n_bins=n_bins)
    activations = draw(8, 5).requires_grad_()
    assert torch.autograd.gradcheck(lambda a: loss_of(objective, a, y), activations, eps=1e-7, atol=1e-5)


def test_rows_without_a_relevant_one_do_not_count_for_fastap():
    objective = TALRObjective("fast_ap")
    codes = torch.ones(6, 8)
    codes[2:] = -1
    assert loss_of(objective, 100 * codes, np.array([0, 0, 1, 2, 3, 4])).item() == pytest.approx(0)
    alone = (100 * codes).requires_grad_()
    loss = loss_of(objective, alone, np.arange(6))
    loss.backward()
    assert loss.item() == 1
    assert_array_equal(alone.grad, torch.zeros(6, 8))
    codes[3, 0] = torch.nan
    assert loss_of(objective, codes, np.array([0, 0, 1, 1, 2, 2])).isnan()


@pytest.mark.parametrize("backbone", [None, "mlp"])
def test_fastap_learns_digits_better_than_itq(digits, backbone):
    hasher = quick_fastap(n_epochs=20, backbone=backbone).fit(digits.X, digits.y)
    itq = ITQHasher(nbits=16, random_state=0).fit(digits.X, digits.y)
    query = digits.X_query, digits.y_query
    assert hasher.score(*query) > itq.score(*query) + 0.1
    assert hasher.history_[-1]["loss"] < hasher.history_[0]["loss"]


def test_scores_and_validation_of_fastap_are_ap(digits):
    hasher = quick_fastap(early_stopping=True).fit(digits.X, digits.y)
    H = relevance_histogram(hasher.codes(digits.X_query), hasher.database_.codes, digits.y_query, digits.y)
    assert hasher.score(digits.X_query, digits.y_query) == pytest.approx(average_precision(H), abs=1e-14)
    plain = quick_fastap(objective="ap", early_stopping=True, learning_rate=1e-12, n_epochs=1).fit(digits.X, digits.y)
    hasher = quick_fastap(early_stopping=True, learning_rate=1e-12, n_epochs=1).fit(digits.X, digits.y)
    assert hasher.history_[0]["validation"] == plain.history_[0]["validation"]  # the same first codes
    assert hasher.history_[0]["loss"] != plain.history_[0]["loss"]


def test_grades_count_as_relevant_or_not_for_fastap(digits):
    graded, plain = (
        quick_fastap(affinity=DistanceAffinity(percentiles=p, levels=levels)).fit(digits.X)
        for p, levels in (((5, 1), (1, 2)), ((5,), (1,)))
    )
    assert_array_equal(graded.database_.codes.rows, plain.database_.codes.rows)
