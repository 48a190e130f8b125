"""A loaded hasher equals the saved one."""

from functools import cache

import numpy as np
import pytest
import torch
from _helpers import Dataset, Stop, assert_same_hasher, every_hasher, same
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from torch import nn

from skhash import ITQHasher, LSHHasher, PCAHasher, TALRHasher
from skhash.affinity import ClassAffinity, DistanceAffinity, PrecomputedAffinity, SharedLabelsAffinity


@pytest.fixture(scope="module")
def fitted(few):
    """A function that fits each hasher once."""

    @cache
    def fit(make):
        return make(nbits=8).fit(few.X, few.y)

    return fit


@every_hasher
def test_a_loaded_hasher_is_the_one_that_was_saved(make, fitted, few, copy):
    hasher = fitted(make)
    loaded = copy(hasher)
    assert_same_hasher(loaded, hasher, few.X_query, few.y_query)
    codes = loaded.fit(few.X, few.y).encode(few.X_query)
    assert_array_equal(codes, hasher.encode(few.X_query))


@pytest.mark.filterwarnings("ignore:.* queries have no relevant item")
@pytest.mark.parametrize("Hasher", [PCAHasher, TALRHasher])
@pytest.mark.parametrize(
    ("affinity", "targets"),
    [
        pytest.param("auto", lambda X, y: np.array(list("abcdefghij"))[y], id="strings"),
        pytest.param("auto", lambda X, y: np.array(list("äöüß€xyz-+"), dtype=object)[y], id="objects"),
        pytest.param("auto", lambda X, y: y[:, None] % 3 == 0, id="bool"),
        pytest.param("auto", lambda X, y: y.astype(np.float16), id="float16"),
        pytest.param("auto", lambda X, y: np.eye(10, dtype=np.int8)[y], id="multi-hot"),
        pytest.param("auto", lambda X, y: sparse.csr_matrix(np.eye(10)[y]), id="sparse matrix"),
        pytest.param("auto", lambda X, y: sparse.csr_array(np.eye(10)[y]), id="sparse array"),
        pytest.param(ClassAffinity(), lambda X, y: y, id="ClassAffinity"),
        pytest.param(SharedLabelsAffinity(binary=True), lambda X, y: np.eye(10)[y], id="SharedLabelsAffinity"),
        pytest.param(DistanceAffinity(), lambda X, y: None, id="DistanceAffinity on X"),
        pytest.param(DistanceAffinity((9, 2), [1, 3]), lambda X, y: X[:, 20:30], id="DistanceAffinity"),
        pytest.param(PrecomputedAffinity(np.eye(10)), lambda X, y: y, id="PrecomputedAffinity"),
        pytest.param(
            PrecomputedAffinity(sparse.csr_array(np.eye(10))), lambda X, y: y, id="sparse PrecomputedAffinity"
        ),
    ],
)
def test_targets_and_affinities(Hasher, affinity, targets, digits, copy):
    hasher = Hasher(nbits=8, affinity=affinity)
    if Hasher is TALRHasher:
        hasher.set_params(n_epochs=1, random_state=0)
    hasher.fit(digits.X, targets(digits.X, digits.y))
    loaded = copy(hasher)
    assert_same_hasher(loaded, hasher, digits.X_query, targets(digits.X_query, digits.y_query))
    if hasattr(affinity, "matrix"):  # which may be big: it is in the file, and in memory, once
        assert loaded.affinity.matrix is loaded.affinity_.matrix or sparse.issparse(affinity.matrix)


VALUES = {
    "plain": [None, True, -3, 10**30, 0.1, float("inf"), float("nan"), "ä\ud800\0", "", []],
    "nested": {"a": (1, (2, [3.0, {"b": ()}]), None), "c d": {}},
    "keys": {1: "a", (2, 3): "b", "$array": "c", None: {"$tuple": [1]}},
    "arrays": [np.arange(6).astype(dtype).reshape(2, 3) for dtype in "?bBhHiIlLqQefdgFD"],
    "big endian": np.arange(3, dtype=">i4"),
    "Fortran order": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "no rows": np.zeros((0, 3), order="F"),
    "no axes": np.array(2.5),
    "not finite": np.array([np.nan, -np.inf, -0.0]),
    "strings": np.array([["a", "bcd"], ["ü", ""]]),
    "bytes": np.array([b"a", b"bcd"]),
    "dates": np.array(["2018-06-18", "NaT"], dtype="datetime64[s]"),
    "objects": np.array([["a", 1], [None, 0.5]], dtype=object),
    "scalars": [np.float32(0.1), np.float64(0.1), np.int8(-1), np.uint64(2**64 - 1), np.bool_(True), np.str_("a")],
    "arrays inside": {"a": [np.arange(2), {"b": (np.arange(3),)}], "a.0": np.arange(4)},
    "sparse": sparse.random(5, 4, 0.5, format="csr", random_state=0, dtype=np.float32),
}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_every_kind_of_data_comes_back(value, digits, copy, extra):
    hasher = LSHHasher(nbits=4, random_state=0).fit(digits.X)
    hasher.extra_ = value
    assert same(copy(hasher).extra_, value)


def test_an_array_is_a_copy_of_the_file(digits, copy, extra):
    hasher = LSHHasher(nbits=4, random_state=0).fit(digits.X)
    hasher.extra_ = np.arange(12)[::3]
    loaded = copy(hasher)
    assert_array_equal(loaded.extra_, hasher.extra_)
    loaded.mean_[:] += 1  # no view of the file, nor read-only
    assert_array_equal(copy(hasher).mean_, hasher.mean_)


def test_a_generator_is_reset(digits, copy):
    hasher = ITQHasher(nbits=8, random_state=np.random.RandomState(3)).fit(digits.X)
    with pytest.warns(UserWarning, match=r"which is not saved\. random_state is now None"):
        loaded = copy(hasher)
    assert_array_equal(loaded.encode(digits.X), hasher.encode(digits.X))


def test_columns_and_the_output_container_are_kept(digits, copy):
    pd = pytest.importorskip("pandas")
    X = pd.DataFrame(digits.X, columns=[f"pixel {i}" for i in range(64)])
    hasher = ITQHasher(nbits=8, random_state=0).set_output(transform="pandas").fit(X)
    pd.testing.assert_frame_equal(copy(hasher).transform(X), hasher.transform(X))


@pytest.mark.filterwarnings("ignore:.*constant")
@pytest.mark.parametrize("first", ["vectors", "images", "dataset of vectors", "dataset of images"])
@pytest.mark.parametrize("second", ["vectors", "images", "dataset of vectors", "dataset of images"])
def test_a_hasher_of_other_samples_than_before_is_saved(first, second, few, copy):
    samples = {"vectors": few.X.astype(np.float32), "images": few.X.astype(np.float32).reshape(-1, 1, 8, 8)}
    hasher = TALRHasher(8, n_epochs=1, random_state=0)
    for kind in (first, second):
        X = samples[kind.removeprefix("dataset of ")]
        given = Dataset(X, few.y) if kind.startswith("dataset") else X
        hasher.set_params(backbone="mlp" if X.ndim == 2 else "conv").fit(given, few.y)
    loaded = copy(hasher)
    assert_array_equal(loaded.encode(given), hasher.encode(X))
    assert_array_equal(loaded.encode(X), hasher.encode(X))
    assert getattr(loaded, "n_features_in_", None) == (64 if X.ndim == 2 else None)
    if X.ndim > 2:
        hasher.n_features_in_ = 64  # as before, in files that exist
        assert_array_equal(copy(hasher).encode(X), hasher.encode(X))


def test_a_backbone_must_be_given_again(digits, copy):
    def network(width=16):
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(64, width), nn.BatchNorm1d(width), nn.ReLU())

    with torch.random.fork_rng():
        first, second, wider = network(), network(), network(17)
    hasher = TALRHasher(nbits=8, backbone=first, n_epochs=2, random_state=0).fit(digits.X, digits.y)
    with pytest.raises(
        ValueError, match=r"`backbone` must be given, as load\(path, backbone=.*container\.Sequential, is code"
    ):
        copy(hasher)
    with pytest.raises(ValueError, match=r"`backbone` does not fit the weights"):
        copy(hasher, backbone=wider)
    loaded = copy(hasher, backbone=second)
    assert loaded.backbone is second
    assert same(loaded.weights_, hasher.weights_)
    for _ in range(2):
        assert_array_equal(loaded.project(digits.X_query), hasher.project(digits.X_query))
        loaded.fit(digits.X, digits.y)


@pytest.mark.parametrize("name", ["backbone", "affinity"])
def test_what_the_file_holds_must_not_be_given(name, digits, copy):
    hasher = TALRHasher(nbits=8, n_epochs=1).fit(digits.X, digits.y)
    with pytest.raises(
        ValueError, match=f"`{name}` must be None: the hasher in .*hasher.safetensors needs none. Got torch"
    ):
        copy(hasher, **{name: nn.ReLU()})


def nearby(a, b):
    return np.abs(np.subtract.outer(a, b)) <= 1


class Wide(DistanceAffinity):
    """An affinity that learns, and is not part of skhash."""


@pytest.mark.filterwarnings("ignore:.* queries have no relevant item")
def test_a_custom_affinity_must_be_given_again(digits, copy):
    hasher = TALRHasher(nbits=8, affinity=nearby, n_epochs=1, random_state=0).fit(digits.X, digits.y)
    for options in ({}, {"affinity": "auto"}):
        with pytest.raises(
            ValueError, match=r"`affinity` must be given, as load\(path, affinity=.*test_loading\.nearby"
        ):
            copy(hasher, **options)
    assert_same_hasher(copy(hasher, affinity=nearby), hasher, digits.X_query, digits.y_query)
    hasher.set_params(affinity=Wide()).fit(digits.X)
    loaded = copy(hasher, affinity=hasher.affinity_)
    assert loaded.score(digits.X_query) == hasher.score(digits.X_query)


def test_functions_for_training_are_reset_to_the_default(digits, copy):
    hasher = TALRHasher(
        nbits=8,
        n_epochs=1,
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1),
        lr_schedule=torch.optim.lr_scheduler.StepLR,
        augment=nn.Dropout(0.1),
        random_state=0,
    )
    hasher.set_params(lr_schedule=lambda optimizer: torch.optim.lr_scheduler.StepLR(optimizer, 5))
    if hasattr(hasher, "set_callbacks"):  # from scikit-learn 1.9 on
        hasher.set_callbacks(Stop())
    hasher.fit(digits.X, digits.y)
    with pytest.warns(UserWarning) as warned:  # noqa: PT030 (three of them, looked at below)
        loaded = copy(hasher)
    said = " ".join(str(warning.message) for warning in warned)
    for default in ("optimizer is now 'adam'", "lr_schedule is now 'cosine'", "augment is now None"):
        assert default in said
    assert "augment=torch.nn.modules.dropout.Dropout" in said
    assert "_skl_callbacks" not in vars(loaded)
    assert_array_equal(loaded.project(digits.X_query), hasher.project(digits.X_query))


def test_paths_and_devices_become_strings(digits, copy, tmp_path):
    hasher = TALRHasher(nbits=8, n_epochs=1, checkpoint=tmp_path / "run", device=torch.device("cpu"))
    loaded = copy(hasher.fit(digits.X, digits.y))
    assert (loaded.checkpoint, loaded.device) == (None, "cpu")  # a folder of this machine stays here


def test_the_device(digits, copy):
    hasher = TALRHasher(nbits=8, n_epochs=1, device="cpu", random_state=0).fit(digits.X, digits.y)
    hasher.set_params(device="cuda:99")
    assert copy(hasher).device == "auto"
    assert copy(hasher, device="cpu").device == "cpu"
    with pytest.raises(ValueError, match=r"`device` must be available, .* Got 'cuda:98'"):
        copy(hasher, device="cuda:98")
    assert copy(hasher.set_params(device="cpu")).device == "cpu"
    with pytest.raises(ValueError, match=r"`device` must be None: .*hasher.safetensors has no device. Got 'cpu'"):
        copy(LSHHasher().fit(digits.X), device="cpu")


@every_hasher
def test_skops(make, fitted, few, tmp_path):
    """The way to store whole pipelines: of our types only the hasher's own, and an affinity, ask for trust."""
    skops = pytest.importorskip("skops.io")
    pipeline = make_pipeline(FunctionTransformer().fit(few.X), fitted(make))
    skops.dump(pipeline, tmp_path / "pipeline.skops")
    untrusted = skops.get_untrusted_types(file=tmp_path / "pipeline.skops")
    assert all(name.startswith("skhash.") for name in untrusted)
    loaded = skops.load(tmp_path / "pipeline.skops", trusted=untrusted)
    assert_array_equal(loaded.transform(few.X_query), pipeline.transform(few.X_query))
    assert loaded.score(few.X_query, few.y_query) == pipeline.score(few.X_query, few.y_query)
