"""Factors of EmbeddingHasher: rankings and distances against their formulas, computed pair by pair."""

import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skhash import EmbeddingHasher
from skhash.metrics import RetrievalScorer, average_precision, histogram_from_distances
from skhash.neighbors import HammingNeighbors
from skhash.neighbors.items import Items
from skhash.persistence import load, save
from skhash.vectors.codes import QueryFunction, ReconstructionFunction
from skhash.vectors.queries import HeldOutQueries

METRICS = ["cosine", "inner", "euclidean"]
OPTIONS = {"factors": True, "n_epochs": 3, "learning_rate": 1e-3, "batch_size": 100, "random_state": 0}


def encoder_of(hasher):
    """The encoder as it was trained."""
    return hasher._new_encoder(hasher.weights_).eval()


def plain_distances(hasher, items, queries):
    """Distance of each pair: slope * <q, r> is the inner product, where r = D^T b is what the code reconstructs.

    The slope 1 is the best guess for any q, and |P x|^2 / <x, r> is exact for q = x. Training changes D for queries.
    Codes that reconstruct nothing have the estimate of RaBitQ.
    """
    encoder = encoder_of(hasher)
    if encoder.codes is None:
        return rabitq_distances(hasher, items, queries)
    if hasher.metric == "cosine":
        items, queries = (X / np.linalg.norm(X, axis=1, keepdims=True) for X in (items, queries))
    D, scale, c = encoder.codes.decoder.double().numpy(), encoder.scale.item(), encoder.mean.double().numpy()
    unit = np.mean(np.sum(D**2, axis=1)) * scale
    of_queries = encoder.queries.weight.detach().double().numpy() * unit
    bias = encoder.queries.bias.detach().double().numpy() * unit * scale
    seen = np.linalg.svd(D, full_matrices=False)[2][: np.linalg.matrix_rank(D)]
    distances = np.empty((len(queries), len(items)))
    for j, (x, code) in enumerate(zip(items - c, 2.0 * hasher.transform(items) - 1, strict=True)):
        inside, along = np.sum((seen @ x) ** 2), x @ (scale * D.T @ code)
        slope = 0.25 + 0.75 * inside / max(along, inside / 2)
        for i, q in enumerate(queries - c):
            product = slope * ((of_queries @ q + bias) @ code)
            of_mean = slope * (of_queries @ c @ code)
            squared = x @ x + q @ q - 2 * product
            of_metric = {"euclidean": squared, "cosine": squared / 2, "inner": -(product + of_mean + (q + c) @ c)}
            distances[i, j] = of_metric[hasher.metric]
    return distances


def rabitq_distances(hasher, items, queries):
    """Distance of each pair as RaBitQ estimates it, with o = (x - c) / |x - c| and the unit code s / sqrt(nbits)."""
    if hasher.metric == "cosine":
        items, queries = (X / np.linalg.norm(X, axis=1, keepdims=True) for X in (items, queries))
    encoder = encoder_of(hasher)
    A = encoder.queries.weight.detach().double().numpy() / encoder.scale.item()
    a, c = encoder.queries.bias.detach().double().numpy(), encoder.mean.double().numpy()
    _, values, vectors = np.linalg.svd(A, full_matrices=False)
    seen = vectors[values > 1e-6 * values[0]]  # with fewer bits than features, codes see a part of the space
    codes = (2.0 * hasher.transform(items) - 1) / np.sqrt(hasher.nbits)
    distances = np.empty((len(queries), len(items)))
    for j, (x, code) in enumerate(zip(items, codes, strict=True)):
        norm = np.linalg.norm(seen @ (x - c))
        o_bar_o = (A @ (x - c) + a) / norm @ code
        for i, q in enumerate(queries):
            product = norm * ((A @ (q - c) + a) @ code) / o_bar_o
            squared = np.linalg.norm(x - c) ** 2 + np.linalg.norm(q - c) ** 2 - 2 * product
            of_mean = norm * (A @ c @ code) / o_bar_o  # <c, x - c>
            of_metric = {"euclidean": squared, "cosine": squared / 2, "inner": -(product + of_mean + q @ c)}
            distances[i, j] = of_metric[hasher.metric]
    return distances


@pytest.fixture(scope="module", params=METRICS)
def fitted(request, digits):
    """Hashers of 300 digits whose codes reconstruct them, and two of linear codes; with fewer and more features."""
    X = digits.X[:300] + 2.0
    hashers = [EmbeddingHasher(40, metric=request.param, **OPTIONS).fit(X, X)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HeldOutQueries, "recalls", maps_are_best)
        hashers += [EmbeddingHasher(nbits, metric=request.param, **OPTIONS).fit(X, X) for nbits in (24, 70)]
    assert [type(hasher.function_) for hasher in hashers] == [ReconstructionFunction, QueryFunction, QueryFunction]
    return hashers, X, digits.X_query[:30] + 2.0


def maps_are_best(held_out, encoder):
    """Recalls that let a fit keep the signs of a map."""
    return (float(encoder.codes is None),) * 2


def test_search_ranks_by_the_estimated_distances(fitted):
    hashers, X, queries = fitted
    for hasher in hashers:
        expected = plain_distances(hasher, X, queries)
        index = HammingNeighbors(FrozenEstimator(hasher), query="real", n_neighbors=len(X)).fit(X)
        distances, found = index.kneighbors(queries)
        atol = 1e-4 * np.abs(expected).max()
        assert_allclose(distances, np.sort(expected, axis=1), atol=atol)
        assert_allclose(np.take_along_axis(expected, found, axis=1), distances, atol=atol)
        ranks = np.argsort(expected, axis=1, kind="stable")
        assert (ranks[:, :10] == found[:, :10]).mean() > 0.99
        first = index.kneighbors(queries, n_neighbors=7, return_ties=True)
        assert_array_equal(first[0], distances[:, :7])
        assert_array_equal(first[1], found[:, :7])
        assert_array_equal(first[2], 1)


def test_scorers_rank_by_these_distances(fitted, digits):
    hashers, X, queries = fitted
    hasher, y, query_y = hashers[0], digits.y[:300], digits.y_query[:30]
    expected = average_precision(histogram_from_distances(plain_distances(hasher, X, queries), query_y, y))
    scorer = RetrievalScorer(database=(X, y), query="real")
    assert scorer(hasher, queries, query_y) == pytest.approx(expected, abs=1e-6)
    plain = EmbeddingHasher(**hasher.get_params()).set_params(factors=False)
    plain.__dict__.update({name: value for name, value in vars(hasher).items() if name not in plain.__dict__})
    assert scorer(plain, queries, query_y) != scorer(hasher, queries, query_y)
    # the database of fit has the factors of fit
    fit, given = (
        RetrievalScorer("neighbor_recall_at_10", database, query="real")(hasher, queries, queries)
        for database in ("fit", (X, X))
    )
    assert fit == given
    X, y = X[:60], y[:60]
    fold = RetrievalScorer(database="fold", query="real")(hasher, X, y)
    own = plain_distances(hasher, X, X)
    assert fold == pytest.approx(average_precision(histogram_from_distances(own, y, y, exclude_self=True)), abs=1e-4)


def test_a_shortlist_is_ordered_by_these_distances(fitted):
    hashers, X, queries = fitted
    hasher = hashers[0]
    expected = plain_distances(hasher, X, queries)
    index = HammingNeighbors(FrozenEstimator(hasher), query="real", n_neighbors=20, candidates=20).fit(X)
    distances, found = index.kneighbors(queries)
    by_code = HammingNeighbors(FrozenEstimator(hasher), n_neighbors=20).fit(X).kneighbors(queries)[1]
    assert_array_equal(np.sort(found), np.sort(by_code))
    assert_allclose(distances, np.take_along_axis(expected, found, axis=1), atol=1e-4 * np.abs(expected).max())
    # in a scorer the other items follow, by their codes
    everything = RetrievalScorer("neighbor_recall_at_20", (X, X), query="real")(hasher, queries, queries)
    short = [
        RetrievalScorer("neighbor_recall_at_20", (X, X), query="real", candidates=n)(hasher, queries, queries)
        for n in (20, 300)
    ]
    by_code = RetrievalScorer("neighbor_recall_at_20", (X, X))(hasher, queries, queries)
    assert short[1] == everything
    assert short[0] <= everything
    assert by_code > 0


def test_items_are_added_and_removed_with_their_factors(fitted):
    hashers, X, queries = fitted
    hasher = FrozenEstimator(hashers[0])
    whole = HammingNeighbors(hasher, query="real").fit(X)
    grown = HammingNeighbors(hasher, query="real").fit(X[:100]).add(X[100:])
    for index in (grown, pickle.loads(pickle.dumps(grown))):
        (distances, found), (expected, nearest) = index.kneighbors(queries), whole.kneighbors(queries)
        assert_array_equal(found, nearest)
        assert_allclose(distances, expected, rtol=1e-5)  # factors of other batches are rounded differently
    gone = whole.kneighbors(queries[:1])[1][0, :3]
    kept = np.setdiff1d(np.arange(300), gone)
    rest = HammingNeighbors(hasher, query="real").fit(X[kept], ids=kept)
    assert_array_equal(grown.remove(gone).kneighbors(queries)[1], rest.kneighbors(queries)[1])


def test_a_query_has_its_own_vector_at_its_own_distance(fitted):
    hashers, X, _ = fitted
    hasher = hashers[2]  # the estimate is exact for the item itself
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    expected = {"cosine": 0.0 * X[:, 0], "euclidean": 0.0 * X[:, 0], "inner": -(X**2).sum(axis=1)}[hasher.metric]
    distances = np.diag(plain_distances(hasher, X[:50], X[:50]))
    if hasher.metric != "inner":  # whose mean is estimated
        assert_allclose(distances, expected[:50], atol=1e-3 * np.var(unit if hasher.metric == "cosine" else X) * 64)
    norms, products = hasher.encode_factors(X).T
    centered = (unit if hasher.metric == "cosine" else X) - hasher.function_.mean
    assert_allclose(norms, np.linalg.norm(centered, axis=1), rtol=1e-5)
    own = (hasher.project_queries(X) * (2.0 * hasher.transform(X) - 1)).sum(axis=1)
    assert_allclose(products, own, rtol=1e-4)


def test_factors_find_more_neighbors(digits, monkeypatch):
    X, scores = digits.X[:400] * np.random.default_rng(0).uniform(0.3, 1.7, (400, 1)), []
    monkeypatch.setattr(HeldOutQueries, "recalls", maps_are_best)
    for factors in (False, True):  # the same linear codes
        options = {"metric": "euclidean", "factors": factors, "n_epochs": 1, "random_state": 0}
        hasher = EmbeddingHasher(64, **options).fit(X, X)
        scores.append(RetrievalScorer("neighbor_recall_at_10", query="real")(hasher, X[:100] * 1.05, X[:100] * 1.05))
    assert scores[1] > scores[0] + 0.05


def test_they_find_more_neighbors_than_rabitq(digits):
    """With as many bits and bytes; RaBitQ is computed here, behind a random rotation."""
    items, queries = digits.X[:500], digits.X_query[:100]
    true = np.argsort((items**2).sum(axis=1) - 2 * queries @ items.T, axis=1)[:, :10]

    def recall(found):
        return np.mean([len(set(a) & set(b)) / 10 for a, b in zip(true, found, strict=True)])

    rotation = np.linalg.qr(np.random.default_rng(0).normal(size=(64, 64)))[0]
    x, q = ((X - items.mean(axis=0)) @ rotation for X in (items, queries))
    squared, along = (x**2).sum(axis=1), np.abs(x).sum(axis=1)
    rabitq = recall(np.argsort(squared - 2 * q @ np.sign(x).T * squared / along, axis=1)[:, :10])
    hasher = EmbeddingHasher(64, metric="euclidean", factors=True, n_epochs=2, random_state=0)
    found = HammingNeighbors(hasher, query="real").fit(items).kneighbors(queries)[1]
    assert recall(found) > rabitq + 0.05


def test_held_out_queries_measure_what_a_search_finds(fitted):
    hashers, X, _ = fitted
    hasher = hashers[0]
    encoder, indices = encoder_of(hasher), np.arange(0, 300, 7)
    measured = HeldOutQueries(X, indices, 5).measure(encoder)
    items = X / np.linalg.norm(X, axis=1, keepdims=True) if hasher.metric == "cosine" else X
    similarities = 2 * items[indices] @ items.T - (hasher.metric == "euclidean") * (items**2).sum(axis=1)
    distances = plain_distances(hasher, X, X[indices])
    similarities[:, indices], distances[:, indices] = -np.inf, np.inf
    true, found = (np.argsort(values, axis=1)[:, :10] for values in (-similarities, distances))
    expected = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(true, found, strict=True)])
    assert measured == pytest.approx(expected, abs=3 / (10 * len(indices)))  # ties of digits, and float32


def test_codes_with_the_digits_of_the_norm_have_no_factors(digits):
    hasher = EmbeddingHasher(32, metric="euclidean", n_epochs=1, validation_fraction=1e-9).fit(digits.X[:100])
    with pytest.raises(ValueError, match="`factors` must be True when the hasher is fitted"):
        hasher.encode_factors(digits.X[:5])


def test_factors_are_stored_and_persist(fitted, tmp_path):
    hashers, X, queries = fitted
    hasher = hashers[0]
    assert_array_equal(hasher.database_.codes.factors, hasher.encode_factors(X))
    assert hasher.database_.codes.factors.dtype == np.float32
    save(hasher, tmp_path / "hasher.skhash")
    loaded = load(tmp_path / "hasher.skhash")
    assert_array_equal(loaded.database_.codes.factors, hasher.database_.codes.factors)
    assert_array_equal(loaded.encode_factors(queries), hasher.encode_factors(queries))
    small = clone(hasher).set_params(store_database=False).fit(X)
    assert small.database_ is None
    assert clone(hasher).set_params(factors=False).fit(X).database_.codes.factors is None
    refitted = clone(hasher).fit(X).set_params(factors=False).fit(X)
    assert refitted.database_.codes.factors is None


def test_a_data_frame_is_fitted_without_a_warning_of_missing_names(digits):
    X = pd.DataFrame(digits.X[:60]).rename(columns="pixel {}".format)
    hasher = EmbeddingHasher(16, factors=True, n_epochs=1, random_state=0).fit(X)  # a warning is an error here
    assert_array_equal(hasher.database_.codes.factors, hasher.encode_factors(X))


def test_an_index_is_saved_with_its_factors(fitted, tmp_path):
    hashers, X, queries = fitted
    index = HammingNeighbors(FrozenEstimator(hashers[0]), query="real").fit(X)
    save(index, tmp_path / "index.skhash")
    loaded = load(tmp_path / "index.skhash")
    for a, b in zip(loaded.kneighbors(queries), index.kneighbors(queries), strict=True):
        assert_array_equal(a, b)
    assert_array_equal(loaded.add(queries).factors_, index.add(queries).factors_)
    codes, ids = index._items.codes, index.ids_
    for factors in (None, index.factors_[:-1], index.factors_ * np.nan):  # of another index
        index._items = Items.of(codes, ids, factors)
        with pytest.raises(ValueError, match="factors_"):
            save(index, tmp_path / "index.skhash")


def test_pipelines_have_factors(digits):
    X, queries = digits.X[:200], digits.X_query[:10]
    double = FunctionTransformer(lambda values: 2 * values)
    options = OPTIONS | {"metric": "euclidean"}
    piped = HammingNeighbors(make_pipeline(double, EmbeddingHasher(16, **options)), query="real").fit(X)
    plain = HammingNeighbors(EmbeddingHasher(16, **options), query="real").fit(2 * X)
    assert_allclose(piped.kneighbors(queries)[0], plain.kneighbors(2 * queries)[0])
    later = HammingNeighbors(EmbeddingHasher(16, **options)).fit(2 * X).set_params(query="real")
    assert_array_equal(later.kneighbors(2 * queries)[0], plain.kneighbors(2 * queries)[0])


def test_far_and_equal_samples_have_finite_factors(digits):
    X = digits.X[:60]
    far = EmbeddingHasher(8, metric="euclidean", **OPTIONS).fit(X + 1e6)
    near = EmbeddingHasher(8, metric="euclidean", **OPTIONS).fit(X)
    assert_allclose(far.encode_factors(X + 1e6), near.encode_factors(X), rtol=1e-2, atol=1e-2)
    mean = near.encode_factors(X.mean(axis=0, keepdims=True))
    assert np.isfinite(mean).all()
    index = HammingNeighbors(FrozenEstimator(near), query="real", n_neighbors=1).fit(X.mean(axis=0, keepdims=True))
    assert_allclose(index.kneighbors(X[:1])[0], [[((X[0] - X.mean(axis=0)) ** 2).sum()]], rtol=1e-4)
