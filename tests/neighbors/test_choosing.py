"""The length of codes and the candidates that find the nearest vectors, against brute force and on further queries."""

import dataclasses
import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from sklearn.base import BaseEstimator, clone
from sklearn.datasets import load_digits
from sklearn.frozen import FrozenEstimator
from sklearn.neighbors import NearestNeighbors
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skhash import EmbeddingHasher, ITQCCAHasher, ITQHasher, LSHHasher, PCAHasher, StructHashHasher
from skhash.base import BaseHasher
from skhash.codes import hamming_distances, signs
from skhash.exceptions import DegenerateCodesWarning
from skhash.neighbors import ChosenCode, HammingNeighbors, HammingNeighborsTransformer, choose_code
from skhash.neighbors.choosing import _lower_bound as lower_bound
from skhash.unwrap import find_hasher

X, y = load_digits(return_X_y=True)
ORDER = np.random.default_rng(0).permutation(len(X))
X, y = X[ORDER] + np.random.default_rng(1).normal(scale=1e-3, size=X.shape), y[ORDER]  # no ties of distances
QUERIES, ITEMS = X[:100], X[100:700]
LSH, ITQ = LSHHasher(random_state=0), ITQHasher(n_iter=5, random_state=0)


def choose(hasher=LSH, X=ITEMS, y=None, **options):
    defaults = {"nbits": (16, 32), "candidates": (10, 50, 200), "queries": QUERIES, "target_recall": 0.5}
    return choose_code(hasher, X, y, **defaults | {"random_state": 0} | options)


def expected_recall(distances, truth, n):
    """Mean share of true neighbors among the first n items, each tie shared by its items."""
    shares = []
    for row, true in zip(distances, truth, strict=True):
        edge = np.sort(row)[n - 1]
        p = np.where(row < edge, 1.0, np.where(row == edge, (n - (row < edge).sum()) / (row == edge).sum(), 0.0))
        shares.append(p[true].mean())
    return np.mean(shares)


@pytest.mark.parametrize("query", ["code", "real"])
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_recall_equals_brute_force(query, metric):
    chosen = choose(query=query, metric=metric)
    truth = NearestNeighbors(n_neighbors=10, metric=metric).fit(ITEMS).kneighbors(QUERIES, return_distance=False)
    for nbits in (16, 32):
        hasher = LSHHasher(32, random_state=0).fit(ITEMS).prefix(nbits)  # there is one fit
        items = hasher.transform(ITEMS)
        real = -(hasher.project_queries(QUERIES) @ signs(items).T)
        distances = real if query == "real" else hamming_distances(hasher.transform(QUERIES), items)
        rows = [code for code in chosen.table if code.nbits == nbits]
        assert [code.candidates for code in rows] == [10, 50, 200]
        for code in rows:
            assert code.recall == pytest.approx(expected_recall(distances, truth, code.candidates), abs=1e-6)
            assert code.lower_bound < code.recall
            assert code.bytes_per_item == nbits // 8


def test_a_search_with_the_choice_has_its_recall():
    options = {"query": "real", "rerank": "euclidean", "candidates": range(10, 200, 10), "k": 5}
    chosen = choose(nbits=(48, 64), **options)  # so many bits have no ties of real queries
    assert chosen.bytes_per_item == chosen.nbits // 8 + ITEMS[0].nbytes
    options = {"n_neighbors": 5, "query": chosen.query, "candidates": chosen.candidates, "rerank": chosen.rerank}
    index = HammingNeighbors(FrozenEstimator(chosen.hasher), **options).fit(ITEMS)
    truth = NearestNeighbors(n_neighbors=5).fit(ITEMS).kneighbors(QUERIES, return_distance=False)
    found = index.kneighbors(QUERIES, return_distance=False)
    recall = np.mean([len(np.intersect1d(*pair)) / 5 for pair in zip(truth, found, strict=True)])
    assert recall == pytest.approx(chosen.recall, abs=1e-9)


def smallest(table, target):
    """Code with the fewest bytes, then candidates, of those whose bound and all with more candidates reach a target."""
    reached = [
        code
        for code in table
        if all(
            other.lower_bound >= target
            for other in table
            if other.nbits == code.nbits and other.candidates >= code.candidates
        )
    ]
    return min(reached, key=lambda code: (code.bytes_per_item, code.candidates, code.nbits))


def test_bytes_decide_before_candidates():
    options = {"nbits": (10, 16, 32), "candidates": range(10, 100, 10)}  # 10 and 16 bits take the same bytes
    measured = choose(target_recall=0.01, **options).table
    found = set()
    for target in np.arange(0.2, max(code.lower_bound for code in measured), 0.03):
        chosen, expected = choose(target_recall=float(target), **options), smallest(measured, target)
        assert (chosen.nbits, chosen.candidates) == (expected.nbits, expected.candidates)
        assert chosen.interval == (expected.lower_bound, 1.0)
        found.add(chosen.nbits)
    assert found == {16, 32}


def test_lengths_share_the_error():
    (alone,) = choose(ITQ, nbits=16, candidates=50, target_recall=0.1).table
    (strict,) = choose(ITQ, nbits=16, candidates=50, target_recall=0.1, confidence=0.975).table
    several = choose(ITQ, nbits=(16, 32), candidates=50, target_recall=0.1).table
    assert several[0].lower_bound == pytest.approx(strict.lower_bound)
    assert strict.lower_bound < alone.lower_bound


def test_samples_are_held_out_and_the_seed_decides():
    chosen = choose_code(LSH, X[:600], nbits=32, target_recall=0.5, n_queries=150, random_state=3)
    assert len(chosen.hasher.database_.codes.rows) == 450
    again = choose_code(LSH, X[:600], nbits=[32], target_recall=0.5, n_queries=150, random_state=3)
    assert (again.table, again.interval) == (chosen.table, chosen.interval)
    other = choose_code(LSH, X[:600], nbits=32, target_recall=0.5, n_queries=150, random_state=4)
    assert other.table != chosen.table
    assert [code.candidates for code in chosen.table] == [10, 20, 30, 40, 50, 60, 80, 100, 150, 200]
    assert len(choose_code(LSH, X[:600], nbits=32, target_recall=0.5).hasher.database_.codes.rows) == 480
    assert isinstance(chosen, ChosenCode)
    assert chosen.interval == (min(c.lower_bound for c in chosen.table if c.candidates == chosen.candidates), 1.0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        chosen.nbits = 8


class Near(LSHHasher):
    """LSH that keeps the angles."""

    metric = "cosine"


def test_pipelines_labels_and_metrics_of_hashers():
    scaled = choose(make_pipeline(StandardScaler(), LSH))
    outer = choose(make_pipeline("passthrough", make_pipeline(StandardScaler(), LSH)))
    assert scaled.table == outer.table
    assert scaled.hasher[-1].nbits == scaled.nbits
    assert LSH.nbits == LSHHasher().nbits
    supervised = choose(ITQCCAHasher(random_state=0), y=y[100:700], nbits=8, candidates=300)
    assert supervised.hasher.database_.y.tolist() == y[100:700].tolist()
    near = Near(random_state=0)
    assert choose(near).table == choose(metric="cosine").table  # the hasher says what is near
    assert choose(near, metric="euclidean").table == choose().table
    assert choose(near, rerank="euclidean").recall == choose(rerank="euclidean").recall


def test_queries_have_a_map_of_their_own():
    embedding = EmbeddingHasher(n_epochs=1, metric="euclidean", random_state=0)
    order = np.random.RandomState(0).permutation(len(QUERIES))
    learned, queries = QUERIES[order[:50]], QUERIES[order[50:]]  # half of them are learned from
    chosen = choose(embedding, query="real", nbits=32)
    assert chosen.hasher.history_ == clone(embedding).set_params(nbits=32).fit(ITEMS, queries=learned).history_
    scores = chosen.hasher.project_queries(queries) @ signs(chosen.hasher.transform(ITEMS)).T
    truth = NearestNeighbors(n_neighbors=10).fit(ITEMS).kneighbors(queries, return_distance=False)
    assert chosen.table[0].recall == pytest.approx(expected_recall(-scores, truth, 10), abs=1e-6)


def test_earlier_steps_transform_the_queries_that_are_learned_from():
    embedding = EmbeddingHasher(n_epochs=1, metric="euclidean", random_state=0)
    scaler = StandardScaler().fit(ITEMS)
    plain = choose(embedding, X=scaler.transform(ITEMS), queries=scaler.transform(QUERIES), nbits=32)
    for pipe in (
        make_pipeline(StandardScaler(), embedding),
        make_pipeline("passthrough", make_pipeline(StandardScaler(), embedding)),
    ):
        piped = choose(pipe, nbits=32)
        assert find_hasher(piped.hasher).history_ == plain.hasher.history_


def test_both_kinds_of_queries_share_the_fits(monkeypatch):
    fits = []
    fit = BaseHasher._run_fit
    monkeypatch.setattr(BaseHasher, "_run_fit", lambda self, *data: fits.append(self.nbits) or fit(self, *data))
    both = choose(ITQ, query=("real", "code"))
    assert fits == [32, 16]
    alone = {query: choose(ITQ, query=query, confidence=0.975) for query in ("code", "real")}
    for query, chosen in alone.items():
        assert tuple(code for code in both.table if code.query == query) == chosen.table  # they share the error
    assert both.query == "real"  # it finds more
    assert both.candidates == alone["real"].candidates <= alone["code"].candidates
    message = r"are 0\.\d+ with 16 bits, 0\.\d+ with 32 bits\. Pass longer `nbits` or more `candidates`\.$"
    with pytest.raises(ValueError, match=message):
        choose(ITQ, query=("real", "code"), candidates=20, target_recall=0.999)


def rounded(vectors, bits):
    """Vectors in plain loops, with features rounded to 2 ** bits values between their extremes."""
    columns = []
    for column in vectors.T:
        step = (column.max() - column.min()) / (2**bits - 1) or 1.0
        columns.append([column.min() + round((value - column.min()) / step) * step for value in column])
    return np.array(columns).T


@pytest.mark.parametrize("metric", ["euclidean", "cosine", "inner"])
def test_rounded_vectors_take_fewer_bytes_and_find_no_less_than_it_says(metric):
    kinds, numbers = ("int4", "float", "int8"), (20, 50, 150)
    options = {"nbits": 32, "rerank": metric, "candidates": numbers, "target_recall": 0.05, "query": "real"}
    chosen = choose(vectors=kinds, **options)
    assert (chosen.vectors, chosen.vector_bytes, chosen.bytes_per_item) == ("int4", 32, 4 + 32)
    assert {code.vectors: code.vector_bytes for code in chosen.table} == {"float": 64 * 8, "int8": 64, "int4": 32}
    assert all(code.bytes_per_item == 4 + code.vector_bytes for code in chosen.table)
    by_kind = {kind: [code.recall for code in chosen.table if code.vectors == kind] for kind in kinds}
    assert by_kind["float"] == [code.recall for code in choose(**options).table]
    similarities = {
        "euclidean": 2 * QUERIES @ ITEMS.T - (ITEMS**2).sum(1),
        "inner": QUERIES @ ITEMS.T,
        "cosine": QUERIES @ ITEMS.T / np.linalg.norm(ITEMS, axis=1),
    }
    true = np.argsort(-similarities[metric], axis=1)[:, :10]
    for kind, bits in (("int8", 8), ("int4", 4)):
        for recall, n in zip(by_kind[kind], numbers, strict=True):
            options = {"query": "real", "candidates": n, "rerank": metric}
            index = HammingNeighbors(FrozenEstimator(chosen.hasher), **options).fit(ITEMS, vectors=rounded(ITEMS, bits))
            found = index.kneighbors(QUERIES, 10, return_distance=False)
            measured = np.mean([np.isin(a, b).mean() for a, b in zip(true, found, strict=True)])
            assert measured - 0.03 < recall < measured + 1e-6
    assert by_kind["int4"][-1] < by_kind["int8"][-1] <= by_kind["float"][-1]


def test_factors_are_counted_and_ranked_by():
    plain = EmbeddingHasher(n_epochs=1, metric="euclidean", random_state=0)
    factors = clone(plain).set_params(factors=True)
    chosen, without = (choose(hasher, query="real", nbits=24, candidates=(10, 100)) for hasher in (factors, plain))
    assert (chosen.bytes_per_item, without.bytes_per_item) == (3 + 8, 3)  # too short for digits of the norm
    assert chosen.table[0].recall > without.table[0].recall
    piped = make_pipeline(StandardScaler(), factors)
    options = {"query": "real", "nbits": 12, "candidates": 300, "rerank": "euclidean"}
    assert choose(piped, **options).bytes_per_item == 2 + 8 + 64 * 8


def test_an_unreachable_target_says_what_was_found():
    with pytest.raises(ValueError, match="`target_recall` must be at most") as caught:
        choose(target_recall=0.999, candidates=20)
    message = str(caught.value)
    bound = float(re.search(r"at most ([\d.]+)", message)[1])
    recalls = {code.nbits: code.recall for code in choose(target_recall=bound - 0.01, candidates=20).table}
    assert f"with 20 candidates are {recalls[16]:.3f} with 16 bits, {recalls[32]:.3f} with 32 bits" in message
    assert message.endswith("Pass longer `nbits`, more `candidates`, or query='real'.")
    with pytest.raises(ValueError, match=r"Pass longer `nbits` or more `candidates`\.$"):
        choose(target_recall=0.999, candidates=20, query="real")
    with pytest.raises(ValueError, match=r"for so few queries: pass more `n_queries` or `queries`\.$"):
        choose(target_recall=0.9, candidates=600, queries=QUERIES[:10])


class Unfitted(BaseEstimator):
    """A hasher that must not be fitted."""

    def __init__(self, nbits=8):
        self.nbits = nbits

    def fit(self, X, y=None):
        raise AssertionError


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"target_recall": 1.0}, ValueError, r"`target_recall` must be a number in \(0, 1\). Got 1.0 instead"),
        ({"confidence": "high"}, ValueError, r"`confidence` must be a number in \(0, 1\). Got 'high' instead"),
        ({"k": 0}, ValueError, "`k` must be an int >= 1. Got 0 instead"),
        ({"k": 601, "candidates": None}, ValueError, "`k` must be at most 600, the number of items. Got 601"),
        ({"nbits": ()}, ValueError, r"`nbits` must be an int from 1 to .* Got \(\) instead"),
        ({"nbits": (8, 0)}, ValueError, r"`nbits` must be an int from 1 to .* Got \(8, 0\) instead"),
        ({"candidates": 9}, ValueError, "`candidates` must be None, an int from k=10 to 600.* Got 9 instead"),
        ({"candidates": [10, 601]}, ValueError, r"`candidates` must be None.* Got \[10, 601\] instead"),
        ({"query": "float"}, ValueError, "`query` must be one of 'code', 'real'. Got 'float' instead"),
        ({"query": ()}, ValueError, r"`query` must be one of 'code', 'real'. Got \(\) instead"),
        ({"vectors": "int2", "rerank": "inner"}, ValueError, "`vectors` must be one of 'float', 'int8', 'int4'. Got"),
        ({"vectors": "int8"}, ValueError, "`vectors` must be 'float' unless `rerank` is a distance. Got 'int8'"),
        ({"rerank": "l2"}, ValueError, "`rerank` must be one of 'euclidean', 'cosine', 'inner'. Got 'l2' instead"),
        ({"rerank": "inner", "metric": "cosine"}, ValueError, "`metric` must be None or equal to `rerank`"),
        ({"n_queries": 5}, ValueError, "`n_queries` must be None with given `queries`. Got 5 instead"),
        ({"queries": None, "n_queries": 600}, ValueError, "`n_queries` must be None or an int from 1 to 599"),
        ({"queries": QUERIES[:, :9]}, ValueError, "`queries` must have the 64 features of X. Got 9 instead"),
        ({"queries": QUERIES * np.nan}, ValueError, "Input queries contains NaN"),
        ({"X": ITEMS * np.nan}, ValueError, "Input X contains NaN"),
        ({"X": ITEMS[:, 0]}, ValueError, r"Expected 2D array.*: X.reshape\(1, -1\)"),
        ({"queries": QUERIES[0]}, ValueError, r"Expected 2D array.*: queries.reshape\(1, -1\)"),
        ({"y": y[:9]}, ValueError, "inconsistent numbers of samples"),
        ({"hasher": StandardScaler()}, ValueError, "`hasher` must be a hasher with the parameter `nbits`.* StandardSc"),
        ({"hasher": FrozenEstimator(LSH)}, ValueError, "`hasher` must be a hasher with the parameter `nbits`"),
        ({"hasher": LSHHasher}, ValueError, "`hasher` must be a hasher with the parameter `nbits`"),
        ({"hasher": HammingNeighbors(LSH)}, ValueError, "`hasher` must be a hasher.* Got HammingNeighbors"),
        ({"hasher": HammingNeighborsTransformer()}, ValueError, "`hasher` must be a hasher.* Got HammingNeighborsT"),
        ({"random_state": "a"}, ValueError, "cannot be used to seed"),
    ],
)
def test_bad_arguments_are_refused_before_any_fit(options, error, message):
    with pytest.raises(error, match=message):
        choose(**{"hasher": Unfitted(), "X": ITEMS} | options)


@pytest.mark.slow
def test_the_target_is_met_on_further_queries():
    """100 splits of held-out queries in validation and test."""
    options = {"X": X[800:], "nbits": (32, 64, 128), "candidates": range(10, 301, 10)}
    rng, met, met_by_means = np.random.default_rng(0), 0, 0
    for _ in range(100):
        order = rng.permutation(800)
        chosen = choose(queries=X[order[:300]], target_recall=0.9, **options)
        further = {(c.nbits, c.candidates): c.recall for c in choose(queries=X[order[300:]], **options).table}
        naive = smallest([dataclasses.replace(code, lower_bound=code.recall) for code in chosen.table], 0.9)
        met += further[chosen.nbits, chosen.candidates] >= 0.9
        met_by_means += further[naive.nbits, naive.candidates] >= 0.9
    assert met >= 95
    assert met_by_means < 95  # so the splits tell a bound from a mean


def test_verbose_prints_a_line_before_and_after_each_fit(capsys):
    silent = choose(ITQ)
    assert capsys.readouterr().out == ""
    assert choose(ITQ, verbose=1).table == silent.table
    lines = re.sub(r"in \d+\.\d s", "in 0.0 s", capsys.readouterr().out).splitlines()
    recalls = [f"{code.recall:.3f}" for code in silent.table if code.candidates == 200]
    assert lines == [
        "[choose_code] find the 10 nearest of 600 items for 100 queries",
        "[choose_code 1/2] 32 bits: fit on 600 items",
        "[choose_code 1/2] 32 bits: fitted in 0.0 s",
        f"[choose_code 1/2] 32 bits: measured in 0.0 s, recall {recalls[1]} with 200 candidates",
        "[choose_code 2/2] 16 bits: fit on 600 items",
        "[choose_code 2/2] 16 bits: fitted in 0.0 s",
        f"[choose_code 2/2] 16 bits: measured in 0.0 s, recall {recalls[0]} with 200 candidates",
    ]
    real = choose(query=("code", "real"), verbose=1)
    lines = re.sub(r"in \d+\.\d s", "in 0.0 s", capsys.readouterr().out).splitlines()
    recalls = {(code.nbits, code.query): f"{code.recall:.3f}" for code in real.table if code.candidates == 200}
    assert lines[-2:] == [
        "[choose_code 2/2] 16 bits: cut in 0.0 s",
        f"[choose_code 2/2] 16 bits: measured in 0.0 s, recall {recalls[16, 'code']} and {recalls[16, 'real']} by real "
        "queries with 200 candidates",
    ]


def test_callbacks_of_the_hasher_see_each_fit():
    class Seen:
        fits = []

        def setup(self, estimator, context):
            self.fits.append(estimator.nbits)

        def teardown(self, estimator, context):
            pass

        def on_fit_task_begin(self, estimator, context):
            pass

        on_fit_task_end = on_fit_task_begin

    choose(clone(ITQ).set_callbacks(Seen()))
    assert Seen.fits == [32, 16]


def test_prefixes_that_are_as_good_are_not_fitted(monkeypatch):
    fits = []
    fit = BaseHasher._run_fit
    monkeypatch.setattr(BaseHasher, "_run_fit", lambda self, *data: fits.append(self.nbits) or fit(self, *data))
    nbits = (8, 16, 32)
    for pca in (PCAHasher(), make_pipeline("passthrough", make_pipeline(StandardScaler(), PCAHasher()))):
        chosen, piped = choose(pca, nbits=nbits, candidates=300), hasattr(pca, "steps")
        assert fits == [32]
        hasher = find_hasher(chosen.hasher)
        samples = StandardScaler().fit_transform(ITEMS) if piped else ITEMS
        assert hasher.nbits == chosen.nbits == 8
        assert_array_equal(hasher.database_.codes.rows, PCAHasher(8).fit(samples).encode(samples))
        assert_array_equal(chosen.hasher.transform(ITEMS), hasher.transform(samples))
        fits.clear()
    choose(PCAHasher(random_state=0), nbits=(32, 70, 80))  # there are 64 components, the others are mixed
    assert fits == [80, 70, 32]
    fits.clear()
    choose(
        StructHashHasher(n_relevant=3, n_irrelevant=3, n_queries=20, random_state=0),
        y=y[100:700],
        nbits=(2, 4),
        target_recall=0.1,
    )
    assert fits == [4]


def test_a_warning_names_its_fit():
    with pytest.warns(DegenerateCodesWarning) as seen:
        choose(ITQ, np.zeros((300, 64)), target_recall=0.1)
    assert [str(warning.message).partition(": ")[0] for warning in seen] == ["ITQHasher, 32 bits", "ITQHasher, 16 bits"]


# --- the lower bound of a mean, against its definition in plain loops and by simulation


def largest_capital(values, mean, alpha):
    """The largest capital of bets against a mean, value by value."""
    capital = largest = 1.0
    total, squares, variance = 0.5, 0.25, 0.25
    for i, x in enumerate(values, 1):
        bet = min(math.sqrt(2 * math.log(1 / alpha) / (len(values) * variance)), 0.75 / mean)
        capital *= 1 + bet * (x - mean)
        largest = max(largest, capital)
        total += x
        squares += (x - total / (i + 1)) ** 2
        variance = squares / (i + 1)
    return largest


@given(st.lists(st.integers(0, 10), min_size=1, max_size=60), st.sampled_from([0.5, 0.95, 0.999]))
def test_capital_reaches_the_threshold_at_the_bound(tenths, confidence):
    values = np.array(tenths) / 10
    bound = lower_bound(values, confidence)
    assert 0 <= bound < 1
    assert largest_capital(values, bound + 1e-6, 1 - confidence) <= 1 / (1 - confidence)
    if bound > 0:
        assert largest_capital(values, bound - 1e-6, 1 - confidence) >= 1 / (1 - confidence)


def test_bounds_of_simple_values():
    assert lower_bound(np.zeros(50), 0.95) == 0
    assert lower_bound(np.ones(1), 0.95) == 0
    bounds = [lower_bound(np.ones(n), 0.95) for n in (10, 100, 1000)]
    assert bounds == sorted(bounds)
    assert bounds[-1] > 0.99
    values = np.random.default_rng(0).random(500)
    assert lower_bound(values, 0.99) < lower_bound(values, 0.9) < values.mean()


@pytest.mark.parametrize("n", [50, 200])
def test_it_holds_where_a_normal_bound_fails(n):
    rng, mean, n_draws = np.random.default_rng(0), 0.97, 1000
    draws = (rng.random((n_draws, n)) < mean).astype(float)  # most recalls are 1, and few are 0
    normal = draws.mean(1) - 1.645 * draws.std(1, ddof=1) / math.sqrt(n)
    assert np.mean(normal > mean) > 0.08
    # a draw whose bound is above the mean is one whose capital against it reaches 1 / alpha
    assert np.mean([lower_bound(values, 0.95) > mean for values in draws[:300]]) <= 0.05
