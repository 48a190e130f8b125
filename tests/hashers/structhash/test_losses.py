"""StructHash: ranking losses against the metrics of skhash and of scikit-learn."""

import itertools
from functools import partial

import numpy as np
import pytest
from _oracles import LOSSES
from sklearn.metrics import average_precision_score, ndcg_score, roc_auc_score

from skhash.hashers.structhash._losses import ap_gain, auc_gain, ndcg_gain
from skhash.hashers.structhash._oracles import gain_table
from skhash.metrics import average_precision, histogram_from_distances, ndcg, roc_auc


@pytest.mark.parametrize("name", LOSSES)
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
        yield ranking, histogram_from_distances([np.arange(len(ranking))], [1], ranking)


def metric_of(gain, ranking):
    """The sum of the gains of a ranking."""
    ranks = 1 + np.flatnonzero(ranking)
    return gain(np.arange(1, len(ranks) + 1), ranks, len(ranks), len(ranking) - len(ranks)).sum()


def test_gains_add_up_to_the_metrics():
    for ranking, H in random_rankings():
        assert metric_of(ap_gain, ranking) == pytest.approx(average_precision(H))
        assert metric_of(auc_gain, ranking) == pytest.approx(roc_auc(H))
        for k, discount in itertools.product((None, 1, 2, 5, 30), ("log2", "structhash")):
            options = {"k": k, "discount": discount}
            assert metric_of(partial(ndcg_gain, **options), ranking) == pytest.approx(ndcg(H, **options))


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
    with pytest.raises(ValueError, match=r"`loss` must return gains that never grow .* or NaN"):
        gain_table(lambda g, t, p, n: np.where(t == g, 1 / p, np.nan), 3, 4)
