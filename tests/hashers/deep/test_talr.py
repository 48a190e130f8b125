"""TALR: the loss is the metric, and minimising it makes better codes."""

import pickle
from functools import partial

import mpmath
import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.callback import ProgressBar, ScoringMonitor
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold
from sklearn.utils import get_tags
from torch import nn

from skhash import ITQHasher, TALRHasher
from skhash.affinity import ClassAffinity, DistanceAffinity, SharedLabelsAffinity
from skhash.hashers.deep._early_stopping import EarlyStopping
from skhash.hashers.deep.talr import MAX_LEVELS, TALRObjective, soft_metric
from skhash.metrics import RelevanceHistogram, ap_scorer, average_precision, ndcg, relevance_histogram
from skhash.metrics.soft_histogram import soft_histogram

OBJECTIVES, RELAXATIONS = ("ap", "ndcg"), ("exact", "paper", "simplified")
quick = partial(TALRHasher, nbits=16, n_epochs=4, batch_size=100, random_state=0)


def targets(kind, n=30):
    """Targets of n rows, and their fitted affinity; some rows have nothing relevant."""
    rng = np.random.default_rng(3)
    y, affinity = {
        "classes": (np.arange(n) // 3 % 9, ClassAffinity()),
        "labels": (rng.integers(0, 2, (n, 3)), SharedLabelsAffinity()),
        "distances": (rng.normal(size=(n, 2)), DistanceAffinity(percentiles=(40, 10), levels=(1, 2.5))),
    }[kind]
    return y, affinity.fit(y)


def loss_of(objective, activations, y):
    """The loss of one batch whose rows are the activations themselves."""
    return objective(nn.Identity(), activations, y, np.arange(len(activations)))


def draw(n, nbits, seed=0):
    return torch.randn(n, nbits, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


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
    loss = loss_of(TALRObjective(affinity, objective, k=k), activations, y)
    assert 1 - loss.item() == pytest.approx(metric, abs=1e-12)


@pytest.mark.parametrize("n_bins", [None, 3])
@pytest.mark.parametrize(("relaxation", "k"), [("exact", None), ("exact", 4), ("paper", None), ("simplified", None)])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_gradients(objective, relaxation, k, n_bins):
    y, affinity = targets("labels", n=8)
    loss = TALRObjective(affinity, objective, relaxation, k, 0.7, n_bins)
    activations = draw(8, 5).requires_grad_()
    assert torch.autograd.gradcheck(lambda a: loss_of(loss, a, y), activations, eps=1e-7, atol=1e-5)


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
    loss = loss_of(TALRObjective(affinity, objective, relaxation, alpha=0.7), draw(len(y), 6), y)
    assert 1 - loss.item() == pytest.approx(np.mean(values), abs=1e-9)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_rows_without_a_relevant_one_do_not_count(objective):
    loss = TALRObjective(ClassAffinity(), objective)
    codes = torch.ones(6, 8)
    codes[2:] = -1
    assert loss_of(loss, 100 * codes, np.array([0, 0, 1, 2, 3, 4])).item() == pytest.approx(0)  # two perfect rankings
    assert loss_of(loss, 100 * codes, np.arange(6)).item() == 1  # nothing to rank: no gradient, and no NaN


@pytest.mark.parametrize("relaxation", RELAXATIONS)
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("kind", ["classes", "labels"])
def test_a_number_that_is_none_shows_in_the_loss(kind, objective, relaxation):
    y, affinity = targets(kind)
    activations = draw(len(y), 6)
    activations[3] = torch.nan
    assert loss_of(TALRObjective(affinity, objective, relaxation), activations, y).isnan()


# --- the hasher


@pytest.mark.parametrize("relaxation", RELAXATIONS)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_learns_digits_better_than_itq(digits, objective, relaxation):
    hasher = quick(objective=objective, relaxation=relaxation, n_epochs=20).fit(digits.X, digits.y)
    itq = ITQHasher(nbits=16, random_state=0).fit(digits.X, digits.y)
    assert ap_scorer(hasher, digits.X_query, digits.y_query) > ap_scorer(itq, digits.X_query, digits.y_query) + 0.05
    losses = [entry["loss"] for entry in hasher.history_]
    assert len(losses) == hasher.n_epochs_ == 20
    assert losses[-1] < losses[0]


def test_score_is_the_metric_of_training(digits):
    hasher = quick(objective="ndcg").fit(digits.X, digits.y)
    codes, queries = hasher.transform(digits.X), hasher.transform(digits.X_query)
    H = relevance_histogram(queries, codes, digits.y_query, digits.y)
    assert hasher.score(digits.X_query, digits.y_query) == pytest.approx(ndcg(H), abs=1e-14)


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
def test_options_of_the_objective(digits, options):
    hasher, plain = (
        quick(**o).fit(digits.X, digits.y) for o in (options, {"objective": options.get("objective", "ap")})
    )
    assert hasher.score(digits.X_query, digits.y_query) > plain.score(digits.X_query, digits.y_query) - 0.1
    assert hasher.history_[0]["loss"] != plain.history_[0]["loss"]


def test_a_cutoff_wants_the_exact_objective(digits):
    with pytest.raises(ValueError, match="k=10 with relaxation='paper'"):
        quick(k=10, relaxation="paper").fit(digits.X, digits.y)


def test_only_ndcg_limits_the_number_of_levels():
    def loss(objective, n):  # rows of n levels
        return loss_of(TALRObjective(lambda a, b: np.abs(a[:, None] - b), objective), draw(n, 4), np.arange(n))

    assert loss("ndcg", MAX_LEVELS) > 0
    assert loss("ap", MAX_LEVELS + 1) >= 0
    with pytest.raises(ValueError, match=f"gives 257 levels in a batch; at most {MAX_LEVELS} are wanted"):
        loss("ndcg", 257)


def test_starts_from_itq(digits):
    untrained = {"learning_rate": 1e-12, "n_epochs": 1}
    itq, rotation = (quick(init=init, **untrained).fit(digits.X, digits.y) for init in ("itq", "rotation"))
    reference = ITQHasher(nbits=16, random_state=0).fit(digits.X, digits.y)
    scores = [h.score(digits.X_query, digits.y_query) for h in (itq, reference, rotation)]
    assert scores[0] == pytest.approx(scores[1], abs=0.05)
    assert scores[0] > scores[2] + 0.05
    with pytest.raises(ValueError, match="init='itq'"):
        quick(init="itq", backbone="mlp").fit(digits.X, digits.y)


# --- backbones and optimizers


def small_backbone():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 32, bias=False), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.1))


def test_mlp_backbone(digits):
    hasher = quick(backbone="mlp", learning_rate=1e-3, n_epochs=6).fit(digits.X, digits.y)
    assert hasher.score(digits.X_query, digits.y_query) > 0.5


def test_a_given_backbone_is_copied(digits):
    with torch.random.fork_rng():
        backbone = small_backbone().eval()
    before = pickle.dumps(backbone.state_dict())
    hasher = quick(backbone=backbone).fit(digits.X, digits.y)
    assert hasher.backbone is backbone
    assert not backbone.training
    assert pickle.dumps(backbone.state_dict()) == before
    assert all(parameter.grad is None for parameter in backbone.parameters())
    codes = hasher.encode(digits.X_query)
    for copy in (pickle.loads(pickle.dumps(hasher)), clone(hasher).fit(digits.X, digits.y)):
        assert_array_equal(copy.encode(digits.X_query), codes)
    nn.init.zeros_(backbone[0].weight)  # what becomes of the module is of no concern to the fitted hasher
    assert_array_equal(pickle.loads(pickle.dumps(hasher)).encode(digits.X_query), codes)


def test_a_backbone_may_be_frozen(digits):
    with torch.random.fork_rng():
        backbone = small_backbone()
    frozen, trained = (quick(backbone=backbone, backbone_lr_scale=s).fit(digits.X, digits.y) for s in (0, 1))
    given = backbone[0].weight.detach().numpy()
    assert_array_equal(frozen.weights_["backbone.0.weight"], given)
    assert (trained.weights_["backbone.0.weight"] != given).any()


def test_optimizer_and_schedule_may_be_factories(digits):
    n_steps = 4 * 5  # epochs, batches

    def adam(groups):
        return torch.optim.AdamW(groups)

    def cosine(optimizer):
        return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=n_steps)

    named, made = (
        quick(optimizer=o, lr_schedule=s).fit(digits.X, digits.y) for o, s in (("adam", "cosine"), (adam, cosine))
    )
    assert_array_equal(named.encode(digits.X), made.encode(digits.X))
    assert named.history_ == made.history_


@pytest.mark.parametrize("options", [{"optimizer": "sgd"}, {"lr_schedule": "constant"}, {"weight_decay": 0.0}], ids=str)
def test_options_of_the_optimizer(digits, options):
    hasher, plain = (quick(**o).fit(digits.X, digits.y) for o in (options, {}))
    assert hasher.score(digits.X_query, digits.y_query) > plain.score(digits.X_query, digits.y_query) - 0.1
    assert hasher.history_ != plain.history_


def test_a_loss_that_is_no_number(digits):
    class Overflowing(nn.Module):
        def forward(self, X):
            return X * 1e38 * 1e38

    hasher = quick(backbone=Overflowing(), learning_rate=0.5)
    with pytest.raises(
        FloatingPointError, match=r"nan in epoch 1. Lower `learning_rate` \(now 0.5\), or .* values in X"
    ):
        hasher.fit(digits.X, digits.y)


# --- early stopping and callbacks


class Callback:
    """Records the hasher of each epoch, and may stop the training."""

    def __init__(self, stop_at=None):
        self.stop_at, self.epochs, self.fits = stop_at, [], []

    def setup(self, estimator, context): ...

    def teardown(self, estimator, context): ...

    def on_fit_task_begin(self, estimator, context): ...

    def on_fit_task_end(self, estimator, context, *, fitted_estimator):
        (self.epochs if context.task_name == "epoch" else self.fits).append(fitted_estimator)
        return len(self.epochs) == self.stop_at


def test_early_stopping_keeps_the_best_epoch(digits):
    callback = Callback()
    hasher = quick(early_stopping=True, n_iter_no_change=2, n_epochs=30, learning_rate=0.5)
    hasher.set_callbacks(callback).fit(digits.X, digits.y)
    values = [entry["validation"] for entry in hasher.history_]
    best = int(np.argmax(values))
    assert len(values) == hasher.n_epochs_ == min(best + 1 + 2, 30)
    assert_array_equal(hasher.project(digits.X_query), callback.epochs[best].project(digits.X_query))
    assert (hasher.project(digits.X_query) != callback.epochs[-1].project(digits.X_query)).any()
    assert len(hasher.database_y_) == len(digits.y)  # held-out rows can be found, too


def test_held_out_rows_that_find_nothing_relevant_count_as_zero(digits):
    hasher = quick(n_epochs=2).fit(digits.X, digits.y)
    rows, y = digits.X_query[:100], np.where(np.arange(100) < 50, digits.y_query[:100], 10)

    def validate(i):
        entry = {"epoch": 1}
        held_out = EarlyStopping(rows[i], y[i], digits.X, digits.y, hasher.affinity_, "ap", 10)
        held_out.improves(hasher._module(), entry)
        return entry["validation"]

    values = [validate(i) for i in np.split(np.arange(100), 2)]
    assert values[0] > 0.2
    assert values[1] == 0
    assert validate(slice(None)) == pytest.approx(values[0] / 2)


def test_early_stopping_stops_when_nothing_improves(digits):
    hasher = quick(early_stopping=True, n_iter_no_change=2, learning_rate=1e-12, validation_fraction=0.3)
    assert hasher.fit(digits.X, digits.y).n_epochs_ == 3


def test_early_stopping_without_targets(digits):
    hasher = quick(affinity=DistanceAffinity(), objective="ndcg", early_stopping=True).fit(digits.X)
    assert all(0 < entry["validation"] <= 1 for entry in hasher.history_)


def test_each_epoch_is_shown_to_callbacks(digits):
    callback, plain = Callback(), quick().fit(digits.X, digits.y)
    hasher = quick().set_callbacks(callback).fit(digits.X, digits.y)
    assert_array_equal(hasher.encode(digits.X), plain.encode(digits.X))  # looking on changes nothing
    assert len(callback.epochs) == 4
    assert len(callback.fits) == 1
    assert_array_equal(callback.epochs[-1].encode(digits.X_query), hasher.encode(digits.X_query))
    assert [len(epoch.history_) for epoch in callback.epochs] == [1, 2, 3, 4]


def test_a_callback_may_stop_the_training(digits):
    hasher = quick(n_epochs=10).set_callbacks(Callback(stop_at=3)).fit(digits.X, digits.y)
    assert hasher.n_epochs_ == len(hasher.history_) == 3


def test_scoring_monitor(digits):
    monitor = ScoringMonitor(scoring={"ap": ap_scorer})
    hasher = quick().set_callbacks(monitor).fit(digits.X, digits.y)
    values = [row["ap"] for row in monitor.get_logs().data if row["task_name"] == "epoch"]
    assert len(values) == 4
    assert values[-1] == hasher.score(digits.X, digits.y)


def test_progress_bar(digits, capsys):
    pytest.importorskip("rich")
    quick().set_callbacks(ProgressBar()).fit(digits.X, digits.y)
    shown = capsys.readouterr().out
    assert "TALRHasher - fit" in shown
    assert "100%" in shown


def test_callbacks_inside_a_search(digits, capsys):
    pytest.importorskip("rich")
    search = GridSearchCV(quick(), {"nbits": [4, 16]}, cv=StratifiedKFold(2)).set_callbacks(ProgressBar(None))
    search.fit(digits.X, digits.y)
    assert search.best_params_ == {"nbits": 16}
    assert "TALRHasher - fit" in capsys.readouterr().out
    stopped = quick(early_stopping=True).set_callbacks(Callback(stop_at=2))
    search = GridSearchCV(stopped, {"alpha": [0.5, 1.0]}, cv=KFold(2), n_jobs=2).fit(digits.X, digits.y)
    assert search.best_estimator_.n_epochs_ == 2


@pytest.mark.parametrize("relaxation", ["exact", "paper", "simplified"])
def test_ndcg_of_high_levels_is_that_of_lower_ones(relaxation):
    counts = torch.tensor(np.random.default_rng(0).uniform(0, 2, (4, 6, 3)))
    high, low = (
        soft_metric(RelevanceHistogram(counts, np.array(levels)), "ndcg", relaxation)
        for levels in ([0, 1022, 1023], [0, 511, 512])
    )
    assert torch.isfinite(high).all()
    torch.testing.assert_close(high, low, rtol=1e-9, atol=0)
