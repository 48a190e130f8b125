"""Deep comparators: each loss against plain loops in Python, gradients, and better codes than ITQ's."""

import itertools
import math

import numpy as np
import pytest
import torch
from _helpers import StopAfter
from numpy.testing import assert_array_equal
from torch import nn

from skhash import DHNHasher, DPSHHasher, DTSHHasher, GreedyHashHasher, ITQHasher, MIHashHasher
from skhash.affinity import ClassAffinity, DistanceAffinity, PrecomputedAffinity, SharedLabelsAffinity
from skhash.hashers.deep.dhn import DHNObjective
from skhash.hashers.deep.dpsh import PairwiseObjective
from skhash.hashers.deep.dtsh import DTSHObjective
from skhash.hashers.deep.greedyhash import GreedyHashObjective
from skhash.hashers.deep.mihash import MIHashObjective

HASHERS = [DHNHasher, DPSHHasher, DTSHHasher, GreedyHashHasher, MIHashHasher]
every_comparator = pytest.mark.parametrize("Hasher", HASHERS)
CASES = {
    "classes": [0, 0, 1, 1, 2, 2, 2, 3],
    "several labels": [[1, 0, 0], [1, 1, 0], [1, 1, 1], [0, 0, 1], [0, 1, 1], [0, 0, 0]],
    "no similar pair": [0, 1, 2, 3],
    "no dissimilar pair": [4, 4, 4, 4],
}
every_case = pytest.mark.parametrize("case", CASES)
NBITS = 5


def draw(n, seed=0, scale=1.0):
    return scale * torch.randn(n, NBITS, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def kinds(case):
    """Targets, their affinity, and which pairs are similar."""
    y = np.array(CASES[case])
    if y.ndim == 1:
        return y, ClassAffinity(), [[a == b for b in y] for a in y]
    return y, SharedLabelsAffinity(), [[bool((a & b).any()) for b in y] for a in y]


def loss_of(objective, f, y):
    """The loss of one batch for which the encoder gives f."""
    return objective(nn.Identity(), f, y, np.arange(len(f)))


def softplus(x):
    return math.log1p(math.exp(-abs(x))) + max(x, 0.0)


def half_product(u, v):
    return sum(a * b for a, b in zip(u, v, strict=True)) / 2


def mean(values):
    values = list(values)
    return sum(values) / len(values) if values else 0.0


def squared_gap(u):
    return mean(((1.0 if a >= 0 else -1.0) - a) ** 2 for row in u for a in row)


def pairwise(u, similar):
    pairs = itertools.permutations(range(len(u)), 2)
    thetas = ((half_product(u[i], u[j]), similar[i][j]) for i, j in pairs)
    return mean(-(theta * s - math.log1p(math.exp(theta))) for theta, s in thetas)


def triplets(u, similar, margin):
    ordered = itertools.permutations(range(len(u)), 3)
    valid = [(q, p, n) for q, p, n in ordered if similar[q][p] and not similar[q][n]]
    return mean(softplus(-(half_product(u[q], u[p]) - half_product(u[q], u[n]) - margin)) for q, p, n in valid)


def information(phi, similar, n_bins):
    """Mutual information by its definition, bins by their triangular kernel."""
    n, nbits = len(phi), len(phi[0])
    values = []
    for q in range(n):
        joint = {(bin_, kind): 0.0 for bin_ in range(n_bins + 1) for kind in (False, True)}
        for i in range(n):
            if i != q:
                position = (nbits - 2 * half_product(phi[q], phi[i])) / 2 * n_bins / nbits
                for bin_ in range(n_bins + 1):
                    joint[bin_, similar[q][i]] += max(0.0, 1 - abs(position - bin_)) / (n - 1)
        shares = {kind: sum(p for (_, k), p in joint.items() if k == kind) for kind in (False, True)}
        if min(shares.values()) < 1e-12:
            continue
        of_bin = [joint[bin_, False] + joint[bin_, True] for bin_ in range(n_bins + 1)]
        values.append(
            sum(p * math.log(p / (of_bin[bin_] * shares[kind])) for (bin_, kind), p in joint.items() if p > 0)
        )
    return mean(values)


# --- the objectives


@every_case
def test_dpsh_is_the_double_loop(case):
    y, affinity, similar = kinds(case)
    u = draw(len(y), scale=1.5)
    expected = pairwise(u.tolist(), similar) + 0.3 * squared_gap(u.tolist())
    assert loss_of(PairwiseObjective(affinity, 0.3), u, y).item() == pytest.approx(expected, abs=1e-12)


@every_case
def test_dhn_is_the_double_loop(case):
    y, affinity, similar = kinds(case)
    f = draw(len(y), seed=1, scale=1.5)
    z = torch.tanh(f).tolist()
    prior = mean(math.log(math.cosh(abs(a) - 1)) for row in z for a in row)
    expected = pairwise(z, similar) + 0.3 * prior
    assert loss_of(DHNObjective(affinity, 0.3), f, y).item() == pytest.approx(expected, abs=1e-12)


@every_case
def test_dtsh_is_the_triple_loop(case):
    y, affinity, similar = kinds(case)
    u = draw(len(y), seed=2, scale=1.5)
    expected = triplets(u.tolist(), similar, 2.5) + 0.3 * squared_gap(u.tolist())
    assert loss_of(DTSHObjective(affinity, 0.3, 2.5), u, y).item() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("n_bins", [None, 3])
@every_case
def test_mihash_is_the_information_by_definition(case, n_bins):
    y, affinity, similar = kinds(case)
    f = draw(len(y), seed=3)
    expected = information(torch.tanh(0.8 * f).tolist(), similar, n_bins or NBITS)
    assert -loss_of(MIHashObjective(affinity, 0.8, n_bins), f, y).item() == pytest.approx(expected, abs=1e-12)


@every_case
def test_greedyhash_is_the_loop_over_classes(case):
    y, affinity, _ = kinds(case)
    classes = np.unique(y) if y.ndim == 1 else np.eye(3, dtype=int)
    objective = GreedyHashObjective(affinity, 0.3, NBITS, classes).double()
    weight, bias = objective.classifier.weight.tolist(), objective.classifier.bias.tolist()
    u = draw(len(y), seed=4)
    losses = []
    for row, target in zip(u.tolist(), y, strict=True):
        code = [1.0 if a >= 0 else -1.0 for a in row]
        logits = [2 * half_product(w, code) + c for w, c in zip(weight, bias, strict=True)]
        if y.ndim == 1:
            true = logits[list(classes).index(target)]
            losses.append(math.log(sum(map(math.exp, logits))) - true)
        else:
            losses += [softplus(-logit if label else logit) for logit, label in zip(logits, target, strict=True)]
    expected = mean(losses) + 0.3 * mean(abs(abs(a) - 1) ** 3 for row in u.tolist() for a in row)
    assert loss_of(objective, u, y).item() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("case", ["classes", "several labels"])
@pytest.mark.parametrize("name", ["dpsh", "dhn", "dtsh", "mihash"])
def test_gradients(name, case):
    y, affinity, _ = kinds(case)
    objective = {
        "dpsh": PairwiseObjective(affinity, 0.3),
        "dhn": DHNObjective(affinity, 0.3),
        "dtsh": DTSHObjective(affinity, 0.3, 2.5),
        "mihash": MIHashObjective(affinity, 0.8),
    }[name]
    f = draw(len(y), seed=5).requires_grad_()
    assert torch.autograd.gradcheck(lambda f: loss_of(objective, f, y), (f,))


@pytest.mark.parametrize("case", ["classes", "several labels"])
def test_gradients_of_greedyhash_pass_the_sign(case):
    y, affinity, _ = kinds(case)
    classes = np.unique(y) if y.ndim == 1 else np.eye(3, dtype=int)
    objective = GreedyHashObjective(affinity, 0.0, NBITS, classes).double()
    u = draw(len(y), seed=6).requires_grad_()
    codes = torch.where(u >= 0, 1.0, -1.0).double().detach().requires_grad_()
    loss_of(objective, u, y).backward()
    through = u.grad.clone()
    # at a code the sign is the identity, so that there the gradients are those of the classifier
    loss = loss_of(objective, codes, y)
    torch.testing.assert_close(torch.autograd.grad(loss, codes)[0], through)
    weights = tuple(objective.classifier.parameters())
    assert all((gradient != 0).any() for gradient in torch.autograd.grad(loss_of(objective, u, y), weights))
    penalized = GreedyHashObjective(affinity, 1.0, NBITS, classes)
    assert torch.autograd.gradcheck(lambda u: penalized.penalty(u.abs() - 1).mean(), (u,))


def test_a_part_of_many_triplets_is_drawn():
    y = np.repeat([0, 1], 8)
    u = draw(16, seed=7)
    full, part = DTSHObjective(ClassAffinity(), 0.0, 2.0), DTSHObjective(ClassAffinity(), 0.0, 2.0, max_triplets=64)
    torch.manual_seed(0)
    losses = [loss_of(part, u, y).item() for _ in range(300)]
    assert len(set(losses)) > 100
    assert np.mean(losses) == pytest.approx(loss_of(full, u, y).item(), abs=4 * np.std(losses) / math.sqrt(300))


@pytest.mark.parametrize("f", [torch.full((4, 64), 50.0), torch.zeros(4, 64), 50.0 * torch.eye(4, 64)])
@pytest.mark.parametrize("name", ["dpsh", "dhn", "dtsh", "mihash", "greedyhash"])
def test_extreme_activations_stay_finite(name, f):
    affinity, y = ClassAffinity(), np.array([0, 0, 1, 1])
    objective = {
        "dpsh": PairwiseObjective(affinity, 1.0),
        "dhn": DHNObjective(affinity, 1.0),
        "dtsh": DTSHObjective(affinity, 1.0, 32.0),
        "mihash": MIHashObjective(affinity),
        "greedyhash": GreedyHashObjective(affinity, 1.0, 64, np.array([0, 1])),
    }[name]
    f = f.clone().requires_grad_()
    loss = loss_of(objective, f, y)
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(f.grad).all()
    assert loss_of(objective, torch.full((4, 64), torch.nan), y).isnan()  # for the training loop to report


# --- the hashers


@every_comparator
def test_learns_digits_better_than_itq(digits, Hasher):
    hasher = Hasher(16, random_state=0).fit(digits.X, digits.y)
    itq = ITQHasher(16, random_state=0).fit(digits.X, digits.y)
    query = digits.X_query, digits.y_query
    assert hasher.score(*query) > itq.score(*query) + 0.05
    assert hasher.history_[-1]["loss"] < hasher.history_[0]["loss"]


@every_comparator
def test_learns_with_hidden_layers_and_sgd(digits, Hasher):
    hasher = Hasher(16, backbone="mlp", n_epochs=15, batch_size=100, random_state=0).fit(digits.X, digits.y)
    assert hasher.score(digits.X_query, digits.y_query) > 0.7
    hasher = Hasher(16, optimizer="sgd", n_epochs=20, random_state=0).fit(digits.X, digits.y)
    assert hasher.score(digits.X_query, digits.y_query) > 0.55


@every_comparator
def test_several_labels(digits, Hasher):
    y = np.column_stack([digits.y % 2, digits.y < 5, digits.y > 2]).astype(int)
    hasher = Hasher(16, n_epochs=10, random_state=0).fit(digits.X, y)
    untrained = ITQHasher(16, random_state=0).fit(digits.X, y)
    assert hasher.score(digits.X, y) > untrained.score(digits.X, y)


@pytest.mark.parametrize(
    ("Hasher", "options"),
    [
        (DPSHHasher, {"quantization_weight": 3.0}),
        (DHNHasher, {"quantization_weight": 30.0}),
        (DTSHHasher, {"quantization_weight": 30.0}),
        (DTSHHasher, {"margin": 0.5}),
        (GreedyHashHasher, {"quantization_weight": 30.0}),
        (MIHashHasher, {"alpha": 3.0}),
        (MIHashHasher, {"n_bins": 5}),
    ],
)
def test_every_option_matters(digits, Hasher, options):
    codes, other = (
        Hasher(16, n_epochs=3, random_state=0, **o).fit(digits.X, digits.y).database_codes_ for o in ({}, options)
    )
    assert (codes != other).any()


# --- labels for Greedy Hash


@pytest.mark.parametrize(
    ("affinity", "y"),
    [
        (DistanceAffinity(), None),
        (PrecomputedAffinity(np.eye(500) + np.eye(500, k=1) + np.eye(500, k=-1)), np.arange(500)),
        (lambda a, b: np.abs(a[:, None] - b) < 3, np.arange(500)),
    ],
    ids=["distances", "a matrix", "a function"],
)
def test_greedyhash_wants_labels(digits, affinity, y):
    with pytest.raises(ValueError, match=r"affinity=.*gives no labels"):
        GreedyHashHasher(8, affinity=affinity).fit(digits.X, y)


@pytest.mark.parametrize("form", ["words", "column", "given"])
def test_greedyhash_takes_labels_of_any_form(digits, form):
    y = {"words": np.array(list("abcdefghij"))[digits.y], "column": digits.y[:, None], "given": digits.y}[form]
    plain = GreedyHashHasher(8, n_epochs=2, random_state=0).fit(digits.X, digits.y)
    hasher = GreedyHashHasher(8, n_epochs=2, random_state=0, affinity=ClassAffinity() if form == "given" else "auto")
    hasher.fit(digits.X, y)
    assert_array_equal(hasher.database_codes_, plain.database_codes_)
    assert_array_equal(hasher.classes_, np.unique(y))


def test_greedyhash_knows_the_classes_of_a_stream_from_its_first_rows(digits):
    hasher = GreedyHashHasher(8, batch_size=50, random_state=0)
    few = digits.y < 7
    hasher.partial_fit(digits.X[few], digits.y[few])
    classifier = hasher._stream["objective"]["classifier.weight"].copy()
    hasher.partial_fit(digits.X[few][:100], digits.y[few][:100])
    assert (hasher._stream["objective"]["classifier.weight"] != classifier).any()
    with pytest.raises(ValueError, match="y holds classes that the first rows did not"):
        hasher.partial_fit(digits.X, digits.y)
    assert_array_equal(hasher.classes_, np.arange(7))


def test_greedyhash_resumes_with_its_classifier(digits, tmp_path):
    def make(folder=None):
        return GreedyHashHasher(8, n_epochs=4, batch_size=50, checkpoint=folder, random_state=0)

    with pytest.raises(KeyboardInterrupt):
        make(tmp_path).set_callbacks(StopAfter(2)).fit(digits.X, digits.y)
    resumed = make(tmp_path).fit(digits.X, digits.y, resume=True)
    unbroken = make().fit(digits.X, digits.y)
    assert resumed.history_ == unbroken.history_
    assert_array_equal(resumed.database_codes_, unbroken.database_codes_)
