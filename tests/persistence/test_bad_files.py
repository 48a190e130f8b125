"""Damaged files and files of other programs."""

import json

import numpy as np
import pytest
from _helpers import sealed
from safetensors.numpy import load_file, safe_open, save_file

from skhash import ITQHasher, LSHHasher
from skhash.persistence import load, save


@pytest.fixture
def edited(tmp_path, digits):
    """Writes a file whose header went through a function; tensors can be dropped or added."""
    path = tmp_path / "hasher.safetensors"
    save(ITQHasher(nbits=8, random_state=0).fit(digits.X, digits.y), path)

    def write(edit, tensors=lambda tensors: tensors):
        with safe_open(path, framework="numpy") as file:
            header = json.loads(file.metadata()["skhash"])
        path.write_bytes(sealed(edit(header) or header, tensors(load_file(path))))
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
        (put("format", value=1), r"must have format 2 .*Got format 1, written by skhash 0\."),
        (put("class", value="Pipeline"), "must hold one of .*ITQHasher.* Got 'Pipeline'"),
        (put("class", value="__name__"), "Got '__name__'"),
        (put("class", value=["ITQHasher"]), r"Got \['ITQHasher'\]"),
        (put("bit_order", value="little"), "must have the bit order 'big'. Got 'little'"),
        (put("params", "n_bits", value=8), "written by skhash .* does not suit .*n_bits"),
        (put("params", value=None), "is damaged"),
        (put("fitted", value="mean_"), "is damaged|dictionary"),
        (put("fitted", "mean_", value={"$array": "nothing", "order": "C"}), "is damaged .*nothing"),
        (put("fitted", "mean_", value={"$call": "os.system"}), r"is damaged .*\$call"),
        (put("params", "affinity", value={"$affinity": "resolve_affinity", "fields": {}}), r"is damaged .*\$affinity"),
        (put("params", "affinity", value={"$affinity": "ClassAffinity", "fields": {"x": 1}}), "is damaged"),
        (put("fitted", "mean_", value={"$sparse": "coo_matrix", "shape": [1, 1], "parts": []}), "is damaged"),
        (lambda header: {"nothing": 1}, "another safetensors file"),
        (
            lambda header: {key: header[key] for key in ("format", "class", "params")},
            "must have the keys .*'bit_order', 'class', 'fitted'",
        ),
        (lambda header: [1], "another safetensors file"),
    ],
)
def test_bad_headers(edited, edit, match):
    with pytest.raises(ValueError, match=match):
        load(edited(edit))


def test_a_file_without_a_tensor(edited):
    path = edited(lambda header: None, lambda tensors: {"function_.mean": tensors["function_.mean"]})
    with pytest.raises(ValueError, match=r"is damaged .*projection"):
        load(path)


def test_indices_outside_of_a_sparse_matrix(edited):
    parts = [{"$array": name, "order": "C"} for name in ("function_.mean", "columns", "ends")]
    more = {"function_.mean": np.ones(1), "columns": np.array([9]), "ends": np.array([0, 1])}
    path = edited(
        put("fitted", "database_", "y", value={"$sparse": "csr_array", "shape": [1, 2], "parts": parts}),
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
    path = edited(
        put("fitted", "mean_", value={"$array": "bomb", "order": "C", "dtype": "|O8", "shape": [1]}),
        lambda tensors: tensors | {"bomb": bomb},
    )
    with pytest.raises(ValueError, match="cannot be in a file"):
        load(path)


@pytest.mark.parametrize("content", [b"", b"hello, this is text", None])
def test_files_of_another_kind(content, tmp_path, digits):
    path = tmp_path / "hasher"
    save(LSHHasher().fit(digits.X), path)
    path.write_bytes(path.read_bytes()[:-10] if content is None else content)
    with pytest.raises(ValueError, match="hasher cannot be read as a file of skhash"):
        load(path)


@pytest.mark.parametrize(("ending", "reader"), [(".npy", "numpy.load"), (".csv", "skhash.datasets.load_table")])
def test_a_file_of_samples_is_told_from_that_of_a_hasher(ending, reader, tmp_path):
    path = tmp_path / f"items{ending}"
    path.write_bytes(b"1,2,3,4,5,6,7,8,9\n")
    with pytest.raises(ValueError, match=f"{ending} cannot be read as a file of skhash, but with {reader}:"):
        load(path)


@pytest.mark.parametrize("metadata", [None, {"format": "pt"}, {"skhash": "{"}])
def test_other_safetensors_files(metadata, tmp_path):
    save_file({"weight": np.ones(2)}, tmp_path / "model", metadata)
    with pytest.raises(ValueError, match=r"model (must be|cannot be read as) a file of skhash"):
        load(tmp_path / "model")


def test_no_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "nothing")
    with pytest.raises(FileNotFoundError):
        save(LSHHasher().fit(np.eye(3)), tmp_path / "no folder" / "hasher")
