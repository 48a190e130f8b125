"""Original vectors must be those of the items whose codes are stored; others are refused, rounded ones are not."""

import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skhash import EmbeddingHasher, ITQHasher, KSHHasher, LSHHasher, SphericalHasher, TALRHasher
from skhash.neighbors import HammingNeighbors
from skhash.persistence import load, save
from skhash.unwrap import items_of

RNG = np.random.default_rng(0)
X = (RNG.normal(size=(600, 24)) @ np.diag(np.linspace(2, 0.3, 24)) + 1).astype(np.float32)
HASHERS = {
    "linear": LSHHasher(64, random_state=0),
    "rotation": ITQHasher(20, random_state=0),
    "pipeline": make_pipeline(StandardScaler(), ITQHasher(20, random_state=0)),
    "search for bits": EmbeddingHasher(64, n_epochs=1, random_state=0),
    "kernel": KSHHasher(16, random_state=0),
    "spheres": SphericalHasher(16, random_state=0),
    "network": TALRHasher(16, n_epochs=2, random_state=0),
}


def refused():
    return pytest.raises(ValueError, match=r"`vectors` must be those of the items, in their order\. Got \d+ of 32")


@pytest.fixture(scope="module", params=HASHERS)
def hasher(request):
    return FrozenEstimator(HASHERS[request.param].fit(X, (X[:, 0] > X[:, 1]).astype(int) + 2 * (X[:, 2] > 1)))


@pytest.mark.filterwarnings("ignore::skhash.exceptions.DegenerateCodesWarning")
def test_vectors_of_others_are_refused_and_rounded_ones_are_not(hasher):
    index = HammingNeighbors(hasher, rerank="euclidean", n_neighbors=3)
    for right in (X, X.astype(np.float16), np.asfortranarray(X), X.astype(np.float64)):
        index.fit(X, vectors=right)
    for wrong in (X[::-1], np.roll(X, 1, axis=0), RNG.permutation(X)):
        with refused():
            HammingNeighbors(hasher, rerank="euclidean").fit(X, vectors=wrong)
        with refused():
            index.fit(items_of(hasher, X), vectors=wrong)
    assert index.vectors_.dtype == np.float64  # the fit before is kept


@pytest.mark.parametrize("scale", [1, 4], ids=["of the space", "with a scale of its own"])
def test_int8_passes(scale):
    images = 30 * RNG.random((400, 32))
    whole = (scale * images).round().astype(np.int8)
    index = HammingNeighbors(EmbeddingHasher(64, n_epochs=1, random_state=0), rerank="cosine")
    index.fit(images, vectors=whole).add(images[:3], vectors=whole[:3])
    assert index.remove([0, 1, 2]).kneighbors(images[:3], 1)[1].ravel().tolist() == [400, 401, 402]


def test_vectors_of_more_items_are_compared_with_their_codes():
    index = HammingNeighbors(HASHERS["linear"], rerank="cosine").fit(X[:300])
    for wrong in (X[:200][::-1], np.roll(X[:200], 1, axis=0)):
        with pytest.raises(ValueError, match="`vectors` must be those of the items"):
            index.add(X[300:500], vectors=wrong)
    with pytest.raises(ValueError, match=r"Got 1 of 1 that were compared"):
        index.add(X[500:501], vectors=X[:1])
    assert index.n_samples_fit_ == 300
    assert index.add(X[300:500], vectors=X[300:500].astype(np.float16)).add(X[500:501]).n_samples_fit_ == 501


@pytest.mark.parametrize("position", [0, 100, 200, 300, 400, 570, 598])
def test_vectors_of_yesterday_are_refused_by_the_first_search_that_reads_them(position, tmp_path):
    np.save(tmp_path / "yesterday.npy", X[:599])
    index = HammingNeighbors(HASHERS["linear"], rerank="cosine", n_neighbors=3).fit(X[:599])
    index.remove([position]).add(X[599:])
    save(index, tmp_path / "index")
    np.save(tmp_path / "today.npy", index.vectors_)
    loaded = load(tmp_path / "index", vectors=np.load(tmp_path / "yesterday.npy", mmap_mode="r"))
    for _ in range(2):
        with refused():
            loaded.kneighbors(X[:5])
    assert loaded.set_params(rerank=None).kneighbors(X[:5])[1].shape == (5, 3)  # reads none
    again = load(tmp_path / "index", vectors=np.load(tmp_path / "today.npy", mmap_mode="r"))
    for found, expected in zip(again.kneighbors(X[:5]), index.kneighbors(X[:5]), strict=True):
        assert_array_equal(found, expected)


def test_a_change_does_not_make_vectors_known(tmp_path):
    index = HammingNeighbors(HASHERS["linear"], rerank="cosine", n_neighbors=3).fit(X[:500])
    save(index, tmp_path / "index")
    for change in (
        lambda index: index.add(X[500:]),
        lambda index: index.remove(index.ids_[:10]),
        lambda index: index.remove(index.ids_[:400]),
        lambda index: index if index.vectors_ is not None else None,
    ):
        for vectors in (X[:500], X[:500][::-1]):
            loaded = change(load(tmp_path / "index", vectors=vectors))
            if vectors[0, 0] == X[0, 0]:
                assert loaded.kneighbors(X[490:495], 1)[1].ravel().tolist() == [490, 491, 492, 493, 494]
            else:
                with pytest.raises(ValueError, match="`vectors` must be those of the items"):
                    loaded.kneighbors(X[490:495], 1)


def test_names_of_features_and_missing_values_do_not_matter():
    frame = pd.DataFrame(X).rename(columns="feature {}".format)
    vectors = X.copy()
    vectors[:, 3] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        index = HammingNeighbors(HASHERS["pipeline"], rerank="cosine").fit(frame, vectors=X)
        HammingNeighbors(HASHERS["pipeline"], rerank="cosine").fit(frame, vectors=vectors)
    with refused():
        index.fit(frame, vectors=X[::-1])
    few = HammingNeighbors(FrozenEstimator(clone(HASHERS["linear"]).fit(X)), rerank="cosine").fit(X[:1], vectors=X[:1])
    assert few.kneighbors(X[:1], 1)[1].tolist() == [[0]]
