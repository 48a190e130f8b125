"""QueryAdapter: queries of a new model find the items whose codes an old one has made, in indexes, stores and files."""

import pickle
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import Bunch

from skhash import BiHalfHasher, EmbeddingHasher, ITQHasher, SphericalHasher
from skhash._validation import evenly_spaced
from skhash.codes import pack
from skhash.neighbors import HammingNeighbors, order_shortlist
from skhash.persistence import load, save
from skhash.stores import from_parquet, to_parquet
from skhash.vectors import QueryAdapter


def vectors_of(rng, n, map_to_old, map_to_new):
    """Vectors of the same items by two models, each of which adds something of its own."""
    latent = rng.normal(size=(n, len(map_to_old))) * np.linspace(2, 0.5, len(map_to_old))
    return tuple(
        latent @ to + 0.1 * rng.normal(size=(n, to.shape[1])) + np.linspace(0, 0.5, to.shape[1])
        for to in (map_to_old, map_to_new)
    )


@pytest.fixture(scope="module")
def models():
    """Items and queries of an old model with 24 dimensions and of a new one with 40, and a hasher of the old one."""
    rng = np.random.default_rng(0)
    maps = [np.linalg.qr(rng.normal(size=(width, 16)))[0].T for width in (24, 40)]
    old, new = vectors_of(rng, 1000, *maps)
    old_queries, queries = vectors_of(rng, 50, *maps)
    hasher = EmbeddingHasher(64, n_epochs=1, random_state=0).fit(old)
    index = HammingNeighbors(FrozenEstimator(hasher), query="real").fit(old)
    adapter = QueryAdapter(random_state=0).fit(new[:600], index.codes_[:600], hasher=hasher)
    return Bunch(
        old=old, new=new, old_queries=old_queries, queries=queries, hasher=hasher, index=index, adapter=adapter
    )


def similarities(queries, items, metric):
    if metric == "euclidean":
        return 2 * queries @ items.T - (items**2).sum(axis=1)
    if metric == "cosine":
        queries, items = (X / np.linalg.norm(X, axis=1, keepdims=True) for X in (queries, items))
    return queries @ items.T


def recall(found, queries, items, metric="cosine"):
    """Share of the ten nearest items of queries, all of whose vectors are known, among those that were found."""
    nearest = np.argsort(-similarities(queries, items, metric), axis=1)[:, :10]
    return float((found[:, :, None] == nearest[:, None]).any(axis=2).mean())


@pytest.mark.parametrize("metric", ["cosine", "inner", "euclidean"])
def test_queries_of_the_new_model_find_nearly_what_new_codes_find(models, metric):
    hasher = EmbeddingHasher(64, metric=metric, n_epochs=1, random_state=0)
    old = HammingNeighbors(hasher, query="real").fit(models.old)
    again = HammingNeighbors(hasher, query="real").fit(models.new).kneighbors(models.queries, return_distance=False)
    adapter = QueryAdapter(metric=metric, random_state=0)
    adapter.fit(models.new[:600], old.codes_[:600], hasher=old.hasher_)
    assert adapter.project_queries(models.queries).shape == (50, 64)
    found = old.with_queries(adapter).kneighbors(models.queries, return_distance=False)
    ceiling = recall(again, models.queries, models.new, metric)
    assert 0.8 * ceiling < recall(found, models.queries, models.new, metric) < ceiling


def test_signs_of_the_queries_serve_a_store(models):
    signs = pack(models.adapter.transform(models.queries))
    store = HammingNeighbors(nbits=64).fit(models.index.codes_)
    ids = store.kneighbors(signs, 100, return_distance=False)
    by_code = recall(ids[:, :10], models.queries, models.new)
    own = models.hasher.encode(models.old_queries)
    assert by_code > 0.8 * recall(store.kneighbors(own, return_distance=False), models.old_queries, models.old)
    codes = models.index.codes_.rows[ids]
    _, ordered = order_shortlist(models.queries, ids, codes=codes, hasher=models.adapter)
    assert recall(ordered[:, :10], models.queries, models.new) > by_code


def test_searches_of_an_index_agree(models):
    index = models.index.with_queries(models.adapter)
    distances, found = index.kneighbors(models.queries)
    scores = models.adapter.project_queries(models.queries) @ (2.0 * models.hasher.transform(models.old) - 1).T
    assert_allclose(distances, np.sort(-scores, axis=1)[:, :10], rtol=1e-4)
    shortlisted = index.set_params(candidates=1000).kneighbors(models.queries, return_distance=False)
    assert_array_equal(shortlisted, found)
    by_code = index.set_params(query="code", candidates=None).kneighbors(models.queries, return_distance=False)
    store = HammingNeighbors(nbits=64).fit(models.index.codes_)
    signs = pack(models.adapter.transform(models.queries))
    assert_array_equal(by_code, store.kneighbors(signs, return_distance=False))


def test_training_queries_of_their_own(models):
    pairs, train = (models.new[:600], models.index.codes_[:600]), models.new[600:]
    adapter = QueryAdapter(random_state=0).fit(*pairs, hasher=models.hasher, queries=train)
    found = models.index.with_queries(adapter).kneighbors(models.queries, return_distance=False)
    assert recall(found, models.queries, models.new) > 0.6
    assert (adapter.project_queries(models.queries) != models.adapter.project_queries(models.queries)).any()
    with pytest.raises(ValueError, match="X has 7 features, but QueryAdapter is expecting 40"):
        adapter.fit(*pairs, hasher=models.hasher, queries=np.ones((5, 7)))


def test_equal_seeds_give_equal_queries(models):
    again = clone(models.adapter).fit(models.new[:600], models.index.codes_[:600], hasher=models.hasher)
    assert_array_equal(*(adapter.project_queries(models.queries) for adapter in (again, models.adapter)))


@pytest.mark.parametrize("metric", ["cosine", "inner", "euclidean"])
@pytest.mark.parametrize("n", [100, 600])
def test_pairs_that_do_not_belong_together_are_refused(models, metric, n):
    codes, adapter = models.index.codes_[:n].rows, QueryAdapter(metric=metric, random_state=0)
    for wrong in (np.roll(codes, 1, axis=0), codes[::-1]):
        with pytest.raises(ValueError, match="`y` must be the codes of the items of `X`, in their order"):
            adapter.fit(models.new[:n], wrong, hasher=models.hasher)
    assert not hasattr(adapter, "function_")


def test_recall_tells_the_codes_of_another_hasher(models):
    other = EmbeddingHasher(64, n_epochs=1, random_state=1).fit(models.old[::-1][:400] + 0.3)
    with pytest.raises(ValueError, match=f"`y` must be codes of `hasher`.*Got those .* {other.fingerprint_}"):
        QueryAdapter().fit(models.new[:600], other.codes(models.old[:600]), hasher=models.hasher)
    adapter = QueryAdapter(random_state=0).fit(models.new[:600], other.encode(models.old[:600]), hasher=models.hasher)
    assert 0 < adapter.recall_ < models.adapter.recall_ - 0.02 < 1
    few = QueryAdapter(random_state=0).fit(models.new[:99], models.index.codes_[:99], hasher=models.hasher)
    assert few.recall_ is None


def test_recall_is_measured_on_pairs_that_are_not_learned(models):
    codes = models.index.codes_[:600].rows.copy()
    held = evenly_spaced(600, 120)
    codes[held] = np.roll(codes[held], 1, axis=0)  # only these do not belong together
    with pytest.raises(ValueError, match="of 120 pairs that were held out"):
        QueryAdapter(random_state=0).fit(models.new[:600], codes, hasher=models.hasher)


@pytest.mark.parametrize("n", [2, 15, 40])
def test_few_pairs_are_enough_for_a_start(models, n):
    adapter = QueryAdapter(random_state=0).fit(models.new[:n], models.index.codes_[:n], hasher=models.hasher)
    assert np.isfinite(adapter.project_queries(models.queries)).all()


@pytest.mark.parametrize("make", [SphericalHasher, partial(BiHalfHasher, backbone="mlp", n_epochs=2)])
def test_codes_of_a_hasher_without_linear_queries(models, make):
    hasher = make(32, random_state=0).fit(models.old)
    index = HammingNeighbors(FrozenEstimator(hasher)).fit(models.old)
    own = recall(index.kneighbors(models.old_queries, return_distance=False), models.old_queries, models.old)
    adapter = QueryAdapter(random_state=0).fit(models.new[:600], index.codes_[:600], hasher=hasher)
    found = index.with_queries(adapter).kneighbors(models.queries, return_distance=False)
    assert recall(found, models.queries, models.new) > 0.9 * own


def test_the_length_of_a_cosine_query_does_not_matter(models):
    assert_allclose(*(models.adapter.project_queries(c * models.queries) for c in (1, 100)), rtol=1e-4, atol=1e-5)


def test_any_codes_have_an_adapter(models):
    """Codes of any hasher, as bits or packed, of any number of bits."""
    hasher = ITQHasher(20, random_state=0).fit(models.old)
    adapters = [
        QueryAdapter(random_state=0).fit(models.new, codes, hasher=hasher)
        for codes in (hasher.encode(models.old), hasher.transform(models.old))
    ]
    assert_array_equal(*(adapter.project_queries(models.queries) for adapter in adapters))
    index = HammingNeighbors(nbits=20).fit(hasher.encode(models.old)).with_queries(adapters[0])
    assert recall(index.kneighbors(models.queries, return_distance=False), models.queries, models.new) > 0.3


def test_steps_before_an_adapter_and_names_of_features(models):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(models.new).rename(columns=str)
    model = make_pipeline(StandardScaler(), QueryAdapter(metric="euclidean"))
    model.fit(frame[:600], models.index.codes_[:600], queryadapter__hasher=models.hasher)
    index = models.index.with_queries(model)
    queries = pandas.DataFrame(models.queries).rename(columns=str)
    assert index.kneighbors(queries, return_distance=False).shape == (50, 10)
    with pytest.raises(ValueError, match="feature names should match"):
        index.kneighbors(queries.rename(columns=lambda name: f"x{name}"))


# --- the fingerprint of the hasher that made the codes


def test_an_adapter_has_the_fingerprint_of_the_codes(models, tmp_path):
    pytest.importorskip("pyarrow")
    assert models.adapter.fingerprint_ == models.hasher.fingerprint_
    to_parquet(models.index.codes_, tmp_path / "codes.parquet", nbits=64, fingerprint=models.hasher.fingerprint_)
    stored = from_parquet(tmp_path / "codes.parquet", fingerprint=models.adapter.fingerprint_)
    index = HammingNeighbors(nbits=stored.nbits).fit(stored.rows, ids=stored.ids).with_queries(models.adapter)
    found = models.index.with_queries(models.adapter).kneighbors(models.queries, return_distance=False)
    assert_array_equal(index.kneighbors(models.queries, return_distance=False), found)


def test_an_index_refuses_queries_for_other_codes(models):
    other = EmbeddingHasher(64, n_epochs=1, random_state=1).fit(models.old)
    adapter = QueryAdapter().fit(models.new, other.encode(models.old), hasher=other)
    for queries in (adapter, other):
        with pytest.raises(ValueError, match=r"`hasher` must be the hasher that made the codes of the index, with the"):
            models.index.with_queries(queries)
    with pytest.raises(ValueError, match=r"must have the same number of bits. Got 64 and 20 instead"):
        HammingNeighbors(nbits=20).fit(np.zeros((5, 3), np.uint8)).with_queries(models.adapter)


def test_items_have_no_codes_by_an_adapter(models):
    index = models.index.with_queries(models.adapter)
    match = r"`hasher` must make codes of items. Got a QueryAdapter instead, which makes queries alone: encode items"
    with pytest.raises(ValueError, match=match):
        index.add(models.new[:5])
    with pytest.raises(ValueError, match=match):
        HammingNeighbors(FrozenEstimator(models.adapter)).fit(models.new)
    assert index.n_samples_fit_ == len(models.old)


def test_an_index_with_queries_shares_the_items_of_that_moment(models):
    index = HammingNeighbors(FrozenEstimator(models.hasher), rerank="cosine").fit(models.old[:900])
    before = index.with_queries(models.adapter)
    index.add(models.old[900:])
    after = index.with_queries(models.adapter)
    assert (before.n_samples_fit_, after.n_samples_fit_) == (900, 1000)
    assert (after.query, after.rerank, after.vectors_, index.rerank) == ("real", None, None, "cosine")
    assert (index.n_features_in_, after.n_features_in_) == (24, 40)
    assert index.kneighbors(models.old_queries, return_distance=False).shape == (50, 10)


def test_factors_belong_to_the_queries_of_their_hasher(models):
    hasher = EmbeddingHasher(64, factors=True, n_epochs=1, random_state=0).fit(models.old)
    index = HammingNeighbors(FrozenEstimator(hasher), query="real").fit(models.old)
    adapter = QueryAdapter().fit(models.new[:600], index.codes_[:600], hasher=hasher)
    adapted = index.with_queries(adapter)
    assert adapted.factors_ is None
    assert recall(adapted.kneighbors(models.queries, return_distance=False), models.queries, models.new) > 0.4
    again = index.with_queries(hasher)
    assert_array_equal(again.factors_, index.factors_)
    with pytest.raises(ValueError, match="`hasher` must have factors=False for items without factors"):
        HammingNeighbors(nbits=64).fit(index.codes_.rows).with_queries(hasher)


# --- files


def test_an_adapter_comes_back(models, tmp_path):
    save(models.adapter, tmp_path / "adapter.safetensors")
    for again in (load(tmp_path / "adapter.safetensors"), pickle.loads(pickle.dumps(models.adapter))):
        assert again.recall_ == models.adapter.recall_
        assert repr(again) == repr(models.adapter)
        assert again.fingerprint_ == models.adapter.fingerprint_
        assert_array_equal(*(adapter.project_queries(models.queries) for adapter in (again, models.adapter)))
    index = models.index.with_queries(models.adapter)
    save(index, tmp_path / "index.safetensors")
    again = load(tmp_path / "index.safetensors")
    assert_array_equal(*(searched.kneighbors(models.queries)[1] for searched in (again, index)))


@pytest.mark.parametrize("value", [np.zeros(7, np.uint8), np.zeros(8), np.full(8, 256, np.uint16), None])
def test_a_file_with_another_fingerprint_is_refused(models, value):
    arrays = models.adapter.function_.arrays() | {"fingerprint": value}
    with pytest.raises(ValueError, match=r"`function_.fingerprint` must|bytes must be in range"):
        type(models.adapter.function_).from_arrays({name: v for name, v in arrays.items() if v is not None})


def test_onnx_has_the_queries(models, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    from skhash.onnx import to_onnx

    samples = models.queries.astype(np.float32)
    expected = models.adapter.project_queries(samples)
    to_onnx(models.adapter, tmp_path / "adapter.onnx", queries=True)
    session = onnxruntime.InferenceSession(tmp_path / "adapter.onnx")
    assert_allclose(session.run(None, {"X": samples})[0], expected, rtol=1e-3, atol=1e-4 * np.abs(expected).max())
    assert session.get_modelmeta().custom_metadata_map["skhash.fingerprint"] == models.hasher.fingerprint_
    with pytest.raises(ValueError, match="`queries` must be True for a QueryAdapter"):
        to_onnx(models.adapter, tmp_path / "adapter.onnx")


# --- errors


def test_wrong_pairs_are_refused_and_the_previous_fit_is_kept(models):
    adapter = clone(models.adapter).fit(models.new[:600], models.index.codes_[:600], hasher=models.hasher)
    before = adapter.project_queries(models.queries)
    codes = models.index.codes_.rows
    for X, y, hasher, match in (
        (models.new[:5], codes[:4], models.hasher, "`y` must have one code per sample. Got 4 codes for 5 samples"),
        (models.new, codes[:, :3], models.hasher, "`y` must"),
        (models.new, codes, StandardScaler(), "`hasher` must be a hasher of skhash"),
        (models.new[:, 0], codes, models.hasher, "Expected 2D array"),
        (np.full_like(models.new, np.nan), codes, models.hasher, "NaN"),
    ):
        with pytest.raises(ValueError, match=match):
            adapter.fit(X, y, hasher=hasher)
        assert_array_equal(adapter.project_queries(models.queries), before)
    with pytest.raises(NotFittedError):
        adapter.fit(models.new, codes, hasher=ITQHasher(64))
    with pytest.raises(ValueError, match="The 'metric' parameter of QueryAdapter must be"):
        QueryAdapter(metric="dot").fit(models.new, codes, hasher=models.hasher)
    with pytest.raises(NotFittedError):
        QueryAdapter().project_queries(models.new)
