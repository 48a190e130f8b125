"""Saved hashers: the same after loading, in files that run no code, of every format there ever was."""

import collections
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from _helpers import assert_same_hasher, every_hasher, same
from numpy.testing import assert_array_equal
from safetensors.numpy import load_file, safe_open, save_file
from scipy import sparse
from sklearn.callback import ProgressBar
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

from skhash import ITQHasher, LSHHasher, PCAHasher, TALRHasher, persistence
from skhash.affinity import ClassAffinity, DistanceAffinity, PrecomputedAffinity, SharedLabelsAffinity
from skhash.persistence import load, save

FIXTURES = Path(__file__).parent / "fixtures"


def write_fixtures():
    """Write the files of the present format that are not there yet: ``python tests/test_persistence.py``."""
    X, y = load_digits(return_X_y=True)
    names = np.array(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])
    hashers = {
        "itq": ITQHasher(nbits=8, random_state=0).fit(X[:500], names[y[:500]]),
        "talr": TALRHasher(nbits=8, n_epochs=5, affinity=DistanceAffinity(), device="cpu", random_state=0).fit(
            X[:500], X[:500, 18:22]
        ),
    }
    for name, hasher in hashers.items():
        path = FIXTURES / f"format_{persistence.FORMAT}_{name}.safetensors"
        if not path.exists():
            save(hasher, path)
            np.save(path.with_suffix(".npy"), hasher.encode(X[500:800]))


@pytest.fixture
def copy(tmp_path):
    """Saves and loads."""

    def through_a_file(hasher, **options):
        save(hasher, tmp_path / "hasher.safetensors")
        return load(tmp_path / "hasher.safetensors", **options)

    return through_a_file


@every_hasher
def test_a_loaded_hasher_is_the_one_that_was_saved(make, digits, copy):
    hasher = make(nbits=12).fit(digits.X, digits.y)
    loaded = copy(hasher)
    assert_same_hasher(loaded, hasher, digits.X_query, digits.y_query)
    codes = loaded.fit(digits.X, digits.y).encode(digits.X_query)
    assert_array_equal(codes, hasher.encode(digits.X_query))


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


def test_a_matrix_that_is_there_twice_is_stored_once(digits, tmp_path):
    affinity = PrecomputedAffinity(np.eye(200))
    save(PCAHasher(nbits=8, affinity=affinity).fit(digits.X[:200], np.arange(200)), tmp_path / "hasher")
    assert (tmp_path / "hasher").stat().st_size < 1.5 * affinity.matrix.nbytes


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
    "records": np.array([(1, 2.0, "a")], dtype=[("x", "i4"), ("y", "f8"), ("z", "U2")]),
    "objects": np.array([["a", 1], [None, 0.5]], dtype=object),
    "scalars": [np.float32(0.1), np.float64(0.1), np.int8(-1), np.uint64(2**64 - 1), np.bool_(True), np.str_("a")],
    "arrays inside": {"a": [np.arange(2), {"b": (np.arange(3),)}], "a.0": np.arange(4)},
    "sparse": sparse.random(5, 4, 0.5, format="csr", random_state=0, dtype=np.float32),
    "generator": np.random.RandomState(5),
}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_every_kind_of_data_comes_back(value, digits, copy):
    hasher = LSHHasher(nbits=4, random_state=0).fit(digits.X)
    hasher.extra_ = value
    assert same(copy(hasher).extra_, value)


def test_an_array_is_a_copy_of_the_file(digits, copy):
    hasher = LSHHasher(nbits=4, random_state=0).fit(digits.X)
    hasher.slice_ = np.arange(12)[::3]
    loaded = copy(hasher)
    assert_array_equal(loaded.slice_, hasher.slice_)
    loaded.mean_ += 1  # no view of the file, nor read-only
    assert_array_equal(copy(hasher).mean_, hasher.mean_)


@pytest.mark.parametrize(
    "value",
    [
        {1, 2},
        object(),
        b"bytes",
        len,
        collections.namedtuple("Point", "x y")(1, 2),
        collections.OrderedDict(),
        np.array([object()]),
        np.ma.array([1, 2]),
        np.array([(None,)], dtype=[("x", object)]),
        np.random.default_rng(0),
        np.random.RandomState(np.random.PCG64(0)),
        sparse.coo_array(np.eye(2)),
        torch.zeros(2),
        nn.Linear(2, 2),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_not_data_is_refused_by_its_place(value, digits, tmp_path):
    hasher = LSHHasher(nbits=4).fit(digits.X)
    hasher.extra_ = {"a": [0, value]}
    with pytest.raises(TypeError, match=r"extra_\.a\.1.* is a"):
        save(hasher, tmp_path / "hasher")
    assert list(tmp_path.iterdir()) == []


def test_a_generator_goes_on_where_it_was(digits, copy):
    hasher = ITQHasher(nbits=8, random_state=np.random.RandomState(3)).fit(digits.X)
    loaded = copy(hasher)
    assert_array_equal(loaded.fit(digits.X).encode(digits.X), hasher.fit(digits.X).encode(digits.X))


def test_columns_and_the_output_container_are_kept(digits, copy):
    pd = pytest.importorskip("pandas")
    X = pd.DataFrame(digits.X, columns=[f"pixel {i}" for i in range(64)])
    hasher = ITQHasher(nbits=8, random_state=0).set_output(transform="pandas").fit(X)
    pd.testing.assert_frame_equal(copy(hasher).transform(X), hasher.transform(X))


def test_a_backbone_is_handed_in_again(digits, copy):
    def network(width=16):
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(64, width), nn.BatchNorm1d(width), nn.ReLU())

    with torch.random.fork_rng():
        first, second, wider = network(), network(), network(17)
    hasher = TALRHasher(nbits=8, backbone=first, n_epochs=2, random_state=0).fit(digits.X, digits.y)
    with pytest.raises(ValueError, match=r"backbone=torch\.nn\.modules\.container\.Sequential.*load\(path, backbone="):
        copy(hasher)
    with pytest.raises(ValueError, match=r"backbone does not take the weights"):
        copy(hasher, backbone=wider)
    loaded = copy(hasher, backbone=second)
    assert loaded.backbone is second
    assert same(loaded.weights_, hasher.weights_)
    for _ in range(2):
        assert_array_equal(loaded.project(digits.X_query), hasher.project(digits.X_query))
        loaded.fit(digits.X, digits.y)


@pytest.mark.parametrize("name", ["backbone", "affinity"])
def test_what_the_file_holds_is_not_handed_in(name, digits, copy):
    hasher = TALRHasher(nbits=8, n_epochs=1).fit(digits.X, digits.y)
    with pytest.raises(ValueError, match=f"wants no {name}"):
        copy(hasher, **{name: nn.ReLU()})


def nearby(a, b):
    return np.abs(np.subtract.outer(a, b)) <= 1


class Wide(DistanceAffinity):
    """An affinity that learns, and is not ours."""


@pytest.mark.filterwarnings("ignore:.* queries have no relevant item")
def test_an_affinity_of_ones_own_is_handed_in_again(digits, copy):
    hasher = TALRHasher(nbits=8, affinity=nearby, n_epochs=1, random_state=0).fit(digits.X, digits.y)
    for options in ({}, {"affinity": "auto"}):
        with pytest.raises(ValueError, match=r"affinity=.*test_persistence\.nearby.*load\(path, affinity="):
            copy(hasher, **options)
    assert_same_hasher(copy(hasher, affinity=nearby), hasher, digits.X_query, digits.y_query)
    hasher.set_params(affinity=Wide()).fit(digits.X)
    loaded = copy(hasher, affinity=hasher.affinity_)
    assert loaded.score(digits.X_query) == hasher.score(digits.X_query)


def test_functions_for_training_alone_go_back_to_the_default(digits, copy):
    hasher = TALRHasher(
        nbits=8,
        n_epochs=1,
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1),
        lr_schedule=torch.optim.lr_scheduler.StepLR,
        augment=nn.Dropout(0.1),
        random_state=0,
    )
    hasher.set_params(lr_schedule=lambda optimizer: torch.optim.lr_scheduler.StepLR(optimizer, 5))
    hasher.set_callbacks(ProgressBar()).fit(digits.X, digits.y)
    with pytest.warns(UserWarning) as warned:  # noqa: PT030 (three of them, looked at below)
        loaded = copy(hasher)
    said = " ".join(str(warning.message) for warning in warned)
    for default in ("optimizer is 'adam' now", "lr_schedule is 'cosine' now", "augment is None now"):
        assert default in said
    assert "augment=torch.nn.modules.dropout.Dropout" in said
    assert "_skl_callbacks" not in vars(loaded)
    assert_array_equal(loaded.project(digits.X_query), hasher.project(digits.X_query))


def test_paths_and_devices_become_strings(digits, copy, tmp_path):
    hasher = TALRHasher(nbits=8, n_epochs=1, checkpoint=tmp_path / "run", device=torch.device("cpu"))
    loaded = copy(hasher.fit(digits.X, digits.y))
    assert (loaded.checkpoint, loaded.device) == (str(tmp_path / "run"), "cpu")


def test_the_device(digits, copy):
    hasher = TALRHasher(nbits=8, n_epochs=1, device="cpu", random_state=0).fit(digits.X, digits.y)
    hasher.set_params(device="cuda:99")
    assert copy(hasher).device == "auto"
    assert copy(hasher, device="cpu").device == "cpu"
    with pytest.raises(ValueError, match="device='cuda:98' is not available"):
        copy(hasher, device="cuda:98")
    assert copy(hasher.set_params(device="cpu")).device == "cpu"
    with pytest.raises(ValueError, match="wants no device, and 'cpu' came; device=None is wanted"):
        copy(LSHHasher().fit(digits.X), device="cpu")


class OwnHasher(LSHHasher):
    """Not ours, under any name."""


@pytest.mark.parametrize(
    "make",
    [
        OwnHasher,
        type("LSHHasher", (LSHHasher,), {}),
        lambda: make_pipeline(StandardScaler(), LSHHasher()),
        StandardScaler,
        lambda: LSHHasher,
    ],
    ids=["subclass", "subclass of the same name", "pipeline", "scaler", "class"],
)
def test_other_estimators_are_refused(make, tmp_path):
    with pytest.raises(TypeError, match=r"LSHHasher.* is wanted; for other classes and pipelines use skops or joblib"):
        save(make(), tmp_path / "hasher")


def test_an_unfitted_hasher_is_refused(tmp_path):
    with pytest.raises(NotFittedError):
        save(LSHHasher(), tmp_path / "hasher")


def test_a_file_appears_whole_or_not_at_all(digits, tmp_path, monkeypatch):
    path = tmp_path / "hasher.safetensors"
    hasher = LSHHasher(nbits=4, random_state=0).fit(digits.X)
    save(hasher, str(path))
    umask = os.umask(0)
    os.umask(umask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~umask  # another user may read it

    def full(file):
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space left"):
        save(LSHHasher(nbits=8).fit(digits.X), path)
    assert list(tmp_path.iterdir()) == [path]
    assert_array_equal(load(path).encode(digits.X), hasher.encode(digits.X))


def test_equal_hashers_give_equal_files(digits, tmp_path):
    for name in "ab":
        save(ITQHasher(nbits=4, random_state=0).fit(digits.X, digits.y), tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.fixture
def edited(tmp_path, digits):
    """Writes a file whose header went through a function; tensors can be dropped or added."""
    path = tmp_path / "hasher.safetensors"
    save(ITQHasher(nbits=8, random_state=0).fit(digits.X, digits.y), path)

    def write(edit, tensors=lambda tensors: tensors):
        with safe_open(path, framework="numpy") as file:
            header = json.loads(file.metadata()["skhash"])
        save_file(tensors(load_file(path)), path, {"skhash": json.dumps(edit(header) or header)})
        return path

    return write


def put(*keys, value):
    def edit(header):
        for key in keys[:-1]:
            header = header[key]
        header[keys[-1]] = value

    return edit


@pytest.mark.parametrize(
    ("edit", "match"),
    [
        (put("format", value=2), r"format 2, written by skhash 0\..*reads format 1"),
        (put("class", value="Pipeline"), "holds a 'Pipeline'; one of .*ITQHasher"),
        (put("class", value="__name__"), "holds a '__name__'"),
        (put("class", value=["ITQHasher"]), "holds a"),
        (put("bit_order", value="little"), "bit_order='little'; 'big' is wanted"),
        (put("params", "n_bits", value=8), "written by skhash .* does not suit .*n_bits"),
        (put("params", value=None), "is damaged"),
        (put("fitted", value="mean_"), "is damaged|dictionary"),
        (put("fitted", "mean_", value={"$array": "nothing", "order": "C"}), "is damaged .*nothing"),
        (put("fitted", "mean_", value={"$call": "os.system"}), r"is damaged .*\$call"),
        (put("params", "affinity", value={"$affinity": "resolve_affinity", "fields": {}}), r"is damaged .*\$affinity"),
        (put("params", "affinity", value={"$affinity": "ClassAffinity", "fields": {"x": 1}}), "is damaged"),
        (put("fitted", "mean_", value={"$sparse": "coo_matrix", "shape": [1, 1], "parts": []}), "is damaged"),
        (lambda header: {"nothing": 1}, "another safetensors file"),
        (lambda header: {key: header[key] for key in ("format", "class", "params")}, "lacks.*'bit_order', 'fitted'"),
        (lambda header: [1], "another safetensors file"),
    ],
)
def test_files_that_cannot_be_right(edited, edit, match):
    with pytest.raises(ValueError, match=match):
        load(edited(edit))


def test_a_file_without_a_tensor(edited):
    path = edited(lambda header: None, lambda tensors: {"mean_": tensors["mean_"]})
    with pytest.raises(ValueError, match=r"is damaged .*projection_"):
        load(path)


def test_indices_outside_of_a_sparse_matrix(edited):
    parts = [{"$array": name, "order": "C"} for name in ("mean_", "columns", "ends")]
    more = {"mean_": np.ones(1), "columns": np.array([9]), "ends": np.array([0, 1])}
    path = edited(
        put("fitted", "database_y_", value={"$sparse": "csr_array", "shape": [1, 2], "parts": parts}),
        lambda tensors: tensors | more,
    )
    with pytest.raises(ValueError, match="ind"):
        load(path)


class Bomb:
    def __reduce__(self):
        return pytest.fail, ("code was run",)


def test_a_pickle_inside_is_not_opened(edited, tmp_path):
    np.save(tmp_path / "bomb.npy", np.array([Bomb()]), allow_pickle=True)
    bomb = np.fromfile(tmp_path / "bomb.npy", dtype=np.uint8)
    path = edited(put("fitted", "mean_", value={"$npy": "bomb"}), lambda tensors: tensors | {"bomb": bomb})
    with pytest.raises(ValueError, match="Object arrays cannot be loaded"):
        load(path)


@pytest.mark.parametrize("content", [b"", b"hello, this is text", None])
def test_files_of_another_kind(content, tmp_path, digits):
    path = tmp_path / "hasher"
    save(LSHHasher().fit(digits.X), path)
    path.write_bytes(path.read_bytes()[:-10] if content is None else content)
    with pytest.raises(ValueError, match=r"cannot be read .*persistence\.save"):
        load(path)


@pytest.mark.parametrize("metadata", [None, {"format": "pt"}, {"skhash": "{"}])
def test_other_safetensors_files(metadata, tmp_path):
    save_file({"weight": np.ones(2)}, tmp_path / "model", metadata)
    with pytest.raises(ValueError, match=r"(another safetensors file|cannot be read).*persistence\.save"):
        load(tmp_path / "model")


def test_no_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "nothing")
    with pytest.raises(FileNotFoundError):
        save(LSHHasher().fit(np.eye(3)), tmp_path / "no folder" / "hasher")


@pytest.mark.parametrize("name", ["format_1_itq", "format_1_talr"])
def test_every_format_ever_written(name):
    """Never to be written again: these are the files that users have."""
    X, _ = load_digits(return_X_y=True)
    hasher = load(FIXTURES / f"{name}.safetensors")
    assert_array_equal(hasher.encode(X[500:800]), np.load(FIXTURES / f"{name}.npy"))
    assert_array_equal(hasher.encode(X[:500]), hasher.database_codes_)
    if name == "format_1_itq":
        assert hasher.score(X[0:3], ["zero", "one", "two"]) > 0.4
    else:
        assert hasher.score(X[:100], X[:100, 18:22]) > 0.1
        assert len(hasher.history_) == 5


def test_torch_is_not_needed_for_a_linear_hasher():
    code = (
        "import sys; from skhash.persistence import load; "
        f"load({str(FIXTURES / 'format_1_itq.safetensors')!r}).encode([[0.0] * 64]); print(*sys.modules)"
    )
    run = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert not set(run.stdout.split()) & {"torch", "cvxpy", "matplotlib"}


@every_hasher
def test_skops(make, digits, tmp_path):
    """The way to store whole pipelines: of our types only the hasher's own, and an affinity, ask for trust."""
    skops = pytest.importorskip("skops.io")
    pipeline = make_pipeline(StandardScaler(), make(nbits=8)).fit(digits.X, digits.y)
    skops.dump(pipeline, tmp_path / "pipeline.skops")
    untrusted = skops.get_untrusted_types(file=tmp_path / "pipeline.skops")
    assert all(name.startswith("skhash.") for name in untrusted)
    loaded = skops.load(tmp_path / "pipeline.skops", trusted=untrusted)
    assert_array_equal(loaded.transform(digits.X_query), pipeline.transform(digits.X_query))
    assert loaded.score(digits.X_query, digits.y_query) == pipeline.score(digits.X_query, digits.y_query)


if __name__ == "__main__":
    write_fixtures()
