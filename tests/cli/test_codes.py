"""``skhash encode``, ``search`` and ``export``, through `main`."""

import csv
import io
import itertools
import os
import re
import shutil
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.frozen import FrozenEstimator

from skhash import EmbeddingHasher, ITQHasher, LSHHasher, StructHashHasher, TALRHasher
from skhash.cli import main
from skhash.neighbors import HammingNeighbors
from skhash.persistence import load, save
from skhash.stores import from_duckdb, from_faiss, from_lancedb, from_parquet, from_sqlite_vec, from_usearch, to_parquet


@pytest.fixture(scope="module")
def files(digits, tmp_path_factory):
    """A saved hasher, items and queries in files."""
    folder = tmp_path_factory.mktemp("files")
    save(ITQHasher(12, random_state=0).fit(digits.X), folder / "itq")
    np.save(folder / "items.npy", digits.X)
    np.savez(folder / "items.npz", X=(2 * digits.X).astype(np.uint8), scale=0.5)
    np.save(folder / "queries.npy", digits.X_query[:15])
    assert main(["encode", f"{folder}/itq", f"{folder}/items.npy", "--out", f"{folder}/codes.npz"]) == 0
    return folder


@pytest.fixture(scope="module")
def itq(digits):
    return ITQHasher(12, random_state=0).fit(digits.X)


# --- encode


@pytest.mark.parametrize("name", ["items.npy", "items.npz"])
def test_codes_are_those_of_encode(name, files, itq, digits, tmp_path, capsys):
    out, X = tmp_path / "codes.npz", np.tile(digits.X, (9, 1))  # more than one batch
    np.save(tmp_path / "items.npy", X)
    np.savez(tmp_path / "items.npz", X=(2 * X).astype(np.uint8), scale=0.5)
    assert main(["encode", f"{files}/itq", f"{tmp_path}/{name}", "--out", str(out)]) == 0
    assert capsys.readouterr().out == f"4,500 codes of 12 bits: {out}\n"
    with np.load(out) as found:
        assert_array_equal(found["codes"], itq.encode(X))
        assert (found["codes"].dtype, int(found["nbits"])) == (np.uint8, 12)


def test_parquet_has_a_column_of_lists(files, itq, digits, tmp_path):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path, out = str(tmp_path / "items.parquet"), str(tmp_path / "codes.npz")
    columns = {"n": range(500), "a": list(digits.X), "b": list(digits.X[::-1])}
    parquet.write_table(arrow.table(columns), path, row_group_size=90)
    assert main(["encode", f"{files}/itq", path, "--columns", "b", "--out", out]) == 0
    assert_array_equal(np.load(out)["codes"], itq.encode(digits.X[::-1]))
    parquet.write_table(arrow.table({"n": range(500), "a": list(digits.X)}), path)
    assert main(["encode", f"{files}/itq", path, "--out", out]) == 0
    assert_array_equal(np.load(out)["codes"], itq.encode(digits.X))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int8])
@pytest.mark.parametrize("kind", ["tensor", "list", "large_list", "fixed_size_list"])
def test_a_column_of_parquet_may_be_of_any_lists_or_tensors(kind, dtype, files, itq, digits, tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    X = digits.X.astype(dtype)
    value = arrow.from_numpy_dtype(dtype)
    if kind == "tensor":
        column = arrow.FixedShapeTensorArray.from_numpy_ndarray(X)
    else:
        types = {"list": arrow.list_(value), "large_list": arrow.large_list(value)}
        column = arrow.array(list(X), types.get(kind, arrow.list_(value, 64)))
    path, out = str(tmp_path / "items.parquet"), str(tmp_path / "codes.npz")
    parquet.write_table(arrow.table({"id": range(500), "x": column}), path, row_group_size=90)
    assert main(["encode", f"{files}/itq", path, "--out", out]) == 0
    assert_array_equal(np.load(out)["codes"], itq.encode(X))
    assert main(["search", f"{files}/itq", path, path, "--k", "1"]) == 0


def test_tensors_of_parquet_keep_their_axes(tmp_path, capsys):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    images, path = np.random.default_rng(0).normal(size=(20, 3, 2, 4)), str(tmp_path / "images.parquet")
    hasher = TALRHasher(8, n_epochs=1, random_state=0).fit(images, np.arange(20) % 2)
    save(hasher, tmp_path / "hasher")
    command = ["encode", f"{tmp_path}/hasher", path, "--out", f"{tmp_path}/codes.npz"]
    make = arrow.FixedShapeTensorArray.from_numpy_ndarray
    parquet.write_table(arrow.table({"x": make(images)}), path, row_group_size=2)
    assert main(command) == 0
    assert_array_equal(np.load(tmp_path / "codes.npz")["codes"], hasher.encode(images))
    parquet.write_table(arrow.table({"x": make(images.transpose(0, 3, 1, 2))}), path)  # pyarrow mixes up such ones
    assert main(command) == 1
    error = capsys.readouterr().err
    assert "must have tensors in x whose axes are in order. " in error
    assert "ascontiguousarray" in error


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"a": [[1.0] * 64, [2.0] * 32, [3.0] * 96]}, "must have lists of one length without gaps in a."),
        ({"a": [[1.0] * 64, None]}, "must have lists of one length without gaps in a."),
        ({"a": [[1.0] * 64, [None] * 64]}, "must have lists of one length without gaps in a."),
    ],
)
def test_a_parquet_file_without_samples_of_one_length_is_refused(columns, message, files, tmp_path, capsys):
    arrow = pytest.importorskip("pyarrow")
    path = tmp_path / "items.parquet"
    pytest.importorskip("pyarrow.parquet").write_table(arrow.table(columns), path)
    assert main(["encode", f"{files}/itq", str(path), "--out", f"{tmp_path}/codes.npz"]) == 1
    assert capsys.readouterr().err.endswith(f"skhash: error: {path} {message}\n")


@pytest.fixture
def slow_clock(monkeypatch):
    """Let 100 seconds pass between two looks at the clock: progress is shown after every batch."""
    monkeypatch.setattr("time.monotonic", itertools.count(0, 100).__next__)


def test_progress_says_what_is_left(files, digits, tmp_path, slow_clock, capsys):
    items = tmp_path / "items.npy"
    np.save(items, np.tile(digits.X, (20, 1)))
    assert main(["encode", f"{files}/itq", str(items), "--out", f"{tmp_path}/codes.npz"]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert re.fullmatch(rf"Encoding {items}: 4,096 of 10,000 samples; about \d+ min left", lines[0])
    assert re.fullmatch(rf"Encoding {items}: 8,192 of 10,000 samples; about \d+ (min|s) left", lines[1])
    assert lines[2:] == [f"Encoding {items}: 10,000 of 10,000 samples"]


class FailingTerminal(io.StringIO):
    """A stderr that raises an error where progress says that two batches are encoded."""

    def __init__(self, error):
        super().__init__()
        self.error = error

    def write(self, text):
        if "8,192 of" in text:
            raise self.error("no space")
        return super().write(text) if "samples; about" not in text else 0


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_a_stopped_command_leaves_the_old_file_and_goes_on(
    error, files, itq, digits, tmp_path, monkeypatch, slow_clock
):
    items, folder = tmp_path / "items.npy", tmp_path / "codes"
    folder.mkdir()
    out, X = folder / "codes.npz", np.tile(digits.X, (20, 1))
    out.write_bytes(b"old")
    np.save(items, X)
    command = ["encode", f"{files}/itq", str(items), "--out", str(out)]
    with monkeypatch.context() as patch:
        patch.setattr("sys.stderr", terminal := FailingTerminal(error))
        assert main(command) == {OSError: 1}.get(error, 130)
    kept = f"Finished results are in {out}.part; the same command continues from there."
    message = {KeyboardInterrupt: f"skhash: Interrupted. {kept}\n", OSError: "skhash: error: no space\n"}[error]
    assert terminal.getvalue() == message
    assert out.read_bytes() == b"old"
    assert sorted(path.name for path in folder.iterdir()) == ["codes.npz", "codes.npz.part"]

    changed = X.copy()
    changed[:4096] *= -1  # the first batch is not encoded again; the last finished one is, and is compared
    np.save(items, changed)
    assert main(command) == 0
    assert_array_equal(np.load(out)["codes"], itq.encode(X))
    assert [path.name for path in folder.iterdir()] == ["codes.npz"]


def test_the_same_samples_give_the_same_bytes_from_any_file(files, digits, tmp_path):
    hasher = EmbeddingHasher(16, factors=True, n_epochs=1, random_state=0).fit(digits.X)
    save(hasher, tmp_path / "hasher")
    np.savez_compressed(tmp_path / "zipped.npz", X=digits.X)
    np.savez(tmp_path / "columns.npz", X=np.asfortranarray(digits.X))
    contents = set()
    for data in (files / "items.npy", tmp_path / "zipped.npz", tmp_path / "columns.npz"):
        assert main(["encode", f"{tmp_path}/hasher", str(data), "--out", f"{tmp_path}/codes.npz"]) == 0
        contents.add((tmp_path / "codes.npz").read_bytes())
    assert len(contents) == 1


# --- search


@pytest.mark.parametrize("query", ["code", "real"])
@pytest.mark.parametrize("data", ["items.npy", "codes.npz"])
def test_neighbors_are_those_of_the_class(data, query, files, itq, digits, tmp_path, capsys):
    expected = HammingNeighbors(FrozenEstimator(itq), query=query).fit(digits.X).kneighbors(digits.X_query[:15], 4)
    command = ["search", f"{files}/itq", f"{files}/{data}", f"{files}/queries.npy", "--k", "4", "--query", query]
    assert main([*command, "--out", str(tmp_path / "found.npz")]) == 0
    found = np.load(tmp_path / "found.npz")
    assert_array_equal(found["distances"], expected[0])
    assert_array_equal(found["ids"], expected[1])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split("  ")[0] == "query"
    is_tied = (expected[0][0] == expected[0][0, 0]).sum() > 1
    assert lines[1].split()[:3] == ["0", str(expected[1][0, 0]), f"({expected[0][0, 0]:.4g}{'=' * int(is_tied)})"]
    meaning = {"code": "Hamming distance", "real": "minus the score of the real query"}[query]
    assert lines[11:13] == ["... and 5 more queries", f"In parentheses: {meaning}."]
    assert lines[-2:] == ["", f"File: {tmp_path / 'found.npz'}"]

    assert main([*command, "--out", str(tmp_path / "found.csv")]) == 0
    with open(tmp_path / "found.csv", newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["query", "rank", "id", "distance"]
    numbers = np.array(rows[1:], dtype=float)
    assert_array_equal(numbers[:, :2], [(q, rank) for q in range(15) for rank in (1, 2, 3, 4)])
    assert_array_equal(numbers[:, 2].reshape(15, 4), expected[1])
    assert_array_equal(numbers[:, 3].reshape(15, 4), expected[0])


@pytest.mark.parametrize("query", ["code", "real"])
def test_factors_are_stored_beside_the_codes(query, files, digits, tmp_path, capsys):
    hasher = EmbeddingHasher(16, factors=True, n_epochs=1, random_state=0).fit(digits.X)
    save(hasher, tmp_path / "hasher")
    codes, found = f"{tmp_path}/codes.npz", f"{tmp_path}/found.npz"
    assert main(["encode", f"{tmp_path}/hasher", f"{files}/items.npy", "--out", codes]) == 0
    assert_array_equal(np.load(codes)["factors"], hasher.encode_factors(digits.X))
    assert main(["export", str(codes), "--to", "ubinary", "--out", f"{tmp_path}/x.npy"]) == 0
    assert f"500 codes of 16 bits, without their factors: {tmp_path}/x.npy" in capsys.readouterr().out
    expected = HammingNeighbors(FrozenEstimator(hasher), query=query).fit(digits.X).kneighbors(digits.X_query[:15])
    command = ["search", f"{tmp_path}/hasher", codes, f"{files}/queries.npy", "--query", query, "--out", found]
    assert main(command) == 0
    assert_array_equal(np.load(found)["distances"], expected[0])
    assert_array_equal(np.load(found)["ids"], expected[1])
    save(ITQHasher(16, random_state=0).fit(digits.X), tmp_path / "other")
    assert main(["search", f"{tmp_path}/other", *command[2:]]) == 2
    assert f"{codes} must be codes of {tmp_path}/other. Got factors" in capsys.readouterr().err
    np.savez(codes, codes=hasher.encode(digits.X), nbits=16)
    assert main(command) == {"code": 0, "real": 2}[query]
    assert ("must have factors for real queries" in capsys.readouterr().err) == (query == "real")


def test_an_index_has_its_items(files, itq, digits, tmp_path, capsys):
    index = HammingNeighbors(FrozenEstimator(itq), n_neighbors=3).fit(digits.X, ids=np.arange(500) + 1000)
    save(index, tmp_path / "index")
    command = ["search", f"{tmp_path}/index", f"{files}/queries.npy", "--k", "3", "--out", f"{tmp_path}/found.npz"]
    for query in ("code", "real"):
        assert main([*command, "--query", query]) == 0
        expected = index.set_params(query=query).kneighbors(digits.X_query[:15])
        found = np.load(tmp_path / "found.npz")
        assert_array_equal(found["distances"], expected[0])
        assert_array_equal(found["ids"], expected[1])
    capsys.readouterr()
    assert main(["search", f"{tmp_path}/index", f"{files}/items.npy", f"{files}/queries.npy"]) == 2
    assert "DATA must not be given with an index, which has its own items." in capsys.readouterr().err
    assert main(["encode", f"{tmp_path}/index", f"{files}/items.npy", "--out", f"{tmp_path}/x.npz"]) == 2
    assert "index, a HammingNeighbors: save its hasher_." in capsys.readouterr().err
    save(HammingNeighbors(FrozenEstimator(itq), rerank="cosine").fit(digits.X), tmp_path / "reranked")
    assert main(["encode", f"{tmp_path}/reranked", f"{files}/items.npy", "--out", f"{tmp_path}/x.npz"]) == 2
    assert "MODEL must be the file of a hasher. Got " in capsys.readouterr().err  # and not that vectors are missing


def test_weights_of_bits_count(files, digits, tmp_path):
    hasher = StructHashHasher(8, n_relevant=5, n_irrelevant=5, random_state=0).fit(digits.X[:60], digits.y[:60])
    save(hasher, tmp_path / "hasher")
    command = ["search", f"{tmp_path}/hasher", f"{files}/items.npy", f"{files}/queries.npy"]
    assert main([*command, "--out", str(tmp_path / "found.npz")]) == 0
    expected = HammingNeighbors(FrozenEstimator(hasher)).fit(digits.X).kneighbors(digits.X_query[:15])
    assert_array_equal(np.load(tmp_path / "found.npz")["distances"], expected[0])
    assert len(set(hasher.bit_weights_)) > 1


# --- export


def test_text_identifiers_go_from_a_parquet_file_to_all_results(files, itq, digits, tmp_path, capsys):
    pytest.importorskip("pyarrow")
    codes, index, names = tmp_path / "codes.parquet", tmp_path / "index", [f"bild {i}" for i in range(500)]
    to_parquet(itq.encode(digits.X), codes, nbits=12, ids=names)
    expected = HammingNeighbors(FrozenEstimator(itq)).fit(digits.X, ids=names).kneighbors(digits.X_query[:15], 3)
    assert main(["index", f"{files}/itq", str(codes), "--out", str(index)]) == 0
    places = [str(index)], [f"{files}/itq", str(codes)]
    for place, out in itertools.product(places, ("found.csv", "found.npz")):
        assert main(["search", *place, f"{files}/queries.npy", "--k", "3", "--out", str(tmp_path / out)]) == 0
        assert f"{expected[1][0, 0]} ({expected[0][0, 0]:g}" in capsys.readouterr().out
    with open(tmp_path / "found.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["id"] for row in rows] == expected[1].ravel().tolist()
    found = np.load(tmp_path / "found.npz")  # without pickle
    assert_array_equal(found["ids"], expected[1])
    assert main(["search", *places[0], f"{files}/queries.npy", "--out", str(tmp_path / "found.run")]) == 2
    assert "--out must be a .csv or .npz file for ids with spaces, or an empty one. Got " in capsys.readouterr().err
    assert main(["export", str(codes), "--to", "faiss", "--out", str(tmp_path / "x")]) == 2
    assert "--to must be a store with a column of text, such as parquet or duckdb" in capsys.readouterr().err
    assert main(["export", str(index), "--to", "parquet", "--out", str(tmp_path / "again.parquet")]) == 0
    assert from_parquet(tmp_path / "again.parquet").ids.tolist() == names


def test_text_identifiers_in_a_run(files, itq, digits, tmp_path):
    pytest.importorskip("pyarrow")
    codes, names = tmp_path / "codes.parquet", [f"bild-ä-{i}" for i in range(500)]
    to_parquet(itq.encode(digits.X), codes, nbits=12, ids=names)
    arguments = [f"{files}/itq", str(codes), f"{files}/queries.npy", "--out", str(tmp_path / "found.run")]
    assert main(["search", *arguments, "--k", "3"]) == 0
    found = [line.split()[2] for line in (tmp_path / "found.run").read_text("utf-8").splitlines()]
    index = HammingNeighbors(FrozenEstimator(itq)).fit(digits.X, ids=names)
    assert found == index.kneighbors(digits.X_query[:15], 3)[1].ravel().tolist()


def test_text_identifiers_of_queries_in_a_run(files, digits, tmp_path, capsys):
    columns = {f"x{i}": column for i, column in enumerate(digits.X_query[:3].T.astype(float))}
    command = ["search", f"{files}/itq", f"{files}/items.npy", f"{tmp_path}/queries.csv", "--ids", "name", "--k", "2"]
    for names in (["ä-1", "a%20b", "7"], ["a b", "c", "d"]):
        pd.DataFrame({"name": names} | columns).to_csv(tmp_path / "queries.csv", index=False)
        status = main([*command, "--out", f"{tmp_path}/found.run"])
        if status == 0:
            lines = (tmp_path / "found.run").read_text(encoding="utf-8").splitlines()
            assert [line.split()[0] for line in lines[::2]] == names
    assert status == 2
    assert "--out must be a .csv or .npz file for ids with spaces" in capsys.readouterr().err


def test_paths_come_back_from_a_run(files, itq, digits, tmp_path):
    paths = [f"a b/{i}%20.png" for i in range(499)] + [os.fsdecode(b"caf\xe9.png")]
    np.savez(tmp_path / "codes.npz", codes=itq.encode(digits.X), nbits=12, paths=np.array(paths))
    command = ["search", f"{files}/itq", f"{tmp_path}/codes.npz", f"{files}/queries.npy", "--k", "500"]
    assert main([*command, "--out", f"{tmp_path}/found.run"]) == 0
    lines = (tmp_path / "found.run").read_text(encoding="utf-8").splitlines()
    assert {unquote(line.split()[2], errors="surrogateescape") for line in lines} == set(paths)


def test_formats_of_sentence_transformers(files, tmp_path):
    packed = np.load(files / "codes.npz")["codes"]
    for name, shift in (("ubinary", 0), ("binary", 128)):
        out = tmp_path / f"{name}.npy"
        assert main(["export", f"{files}/codes.npz", "--to", name, "--out", str(out)]) == 0
        assert_array_equal(np.load(out).astype(int) + shift, packed)


def test_parquet_files_are_files_of_codes(files, tmp_path):
    pytest.importorskip("pyarrow")
    packed = np.load(files / "codes.npz")["codes"]
    out = str(tmp_path / "codes.parquet")
    command = ["export", f"{files}/codes.npz", "--to", "parquet", "--out", out]
    assert main(command) == 0
    assert main(command) == 0
    assert main([*command, "--if-exists", "fail"]) == 2
    stored = from_parquet(out)
    assert stored.nbits == 12
    assert_array_equal(stored.rows, packed)
    assert main(["export", out, "--to", "ubinary", "--out", str(tmp_path / "again.npy")]) == 0
    assert_array_equal(np.load(tmp_path / "again.npy"), packed)
    assert main(["search", f"{files}/itq", out, f"{files}/queries.npy"]) == 0


def test_codes_of_another_hasher_are_refused(files, itq, digits, tmp_path, capsys):
    pytest.importorskip("pyarrow")
    codes, parquet, other = f"{files}/codes.npz", f"{tmp_path}/codes.parquet", f"{tmp_path}/other"
    assert main(["export", codes, "--to", "parquet", "--out", parquet]) == 0
    assert main(["index", f"{files}/itq", codes, "--out", f"{tmp_path}/index"]) == 0
    assert main(["export", f"{tmp_path}/index", "--to", "parquet", "--out", f"{tmp_path}/again.parquet"]) == 0
    fingerprint = str(np.load(codes)["fingerprint"])
    assert fingerprint == itq.fingerprint_ == load(f"{tmp_path}/index").hasher_.fingerprint_
    assert from_parquet(parquet).fingerprint == from_parquet(f"{tmp_path}/again.parquet").fingerprint == fingerprint
    hasher = ITQHasher(12, random_state=0).fit(digits.X[9:])
    save(hasher, other)
    capsys.readouterr()
    for data in (codes, parquet):
        for command in (
            ["search", other, data, f"{files}/queries.npy"],
            ["index", other, data, "--out", f"{tmp_path}/new"],
        ):
            assert main(command) == 2
            assert capsys.readouterr().err == (
                f"skhash: error: {data} must have the codes of {other}, which has the fingerprint "
                f"{hasher.fingerprint_}. Got those of a hasher with {fingerprint}. Encode the samples again: "
                f"skhash encode {other} DATA --out CODES.\n"
            )
        assert main(["search", f"{files}/itq", data, f"{files}/queries.npy"]) == 0
    with np.load(codes) as arrays:
        plain = {name: arrays[name] for name in ("codes", "nbits")}
    np.savez(f"{tmp_path}/plain.npz", **plain)
    assert main(["search", other, f"{tmp_path}/plain.npz", f"{files}/queries.npy"]) == 0


def test_a_file_of_another_hasher_is_replaced_if_it_is_said(files, itq, digits, tmp_path, capsys):
    out, other = tmp_path / "codes.npz", LSHHasher(12, random_state=0).fit(digits.X)
    save(other, tmp_path / "other")
    command = ["encode", f"{tmp_path}/other", f"{files}/items.npy", "--out", str(out)]
    assert main(["encode", f"{files}/itq", *command[2:]]) == 0
    before = out.read_bytes()
    capsys.readouterr()
    assert main(command) == 2
    assert capsys.readouterr().err == (
        f"skhash: error: --out must not be a file with the codes of another hasher. Got {out} with those of one with "
        f"the fingerprint {itq.fingerprint_}, and {tmp_path}/other has {other.fingerprint_}. Choose another file, or "
        "replace it with --fresh.\n"
    )
    assert out.read_bytes() == before
    assert main([*command, "--fresh"]) == 0
    assert str(np.load(out)["fingerprint"]) == other.fingerprint_
    assert main(command) == 0


@pytest.mark.parametrize("store", ["faiss", "usearch"])
def test_the_fingerprint_of_a_file_without_text_is_beside_it(store, files, itq, tmp_path, capsys):
    pytest.importorskip(store)
    out, beside = f"{tmp_path}/index", tmp_path / "index.fingerprint"
    assert main(["export", f"{files}/codes.npz", "--to", store, "--out", out]) == 0
    assert beside.read_text() == itq.fingerprint_
    assert f"Fingerprint of the hasher: {beside}\n" in capsys.readouterr().out
    with np.load(files / "codes.npz") as arrays:
        np.savez(tmp_path / "plain.npz", codes=arrays["codes"], nbits=arrays["nbits"])
    assert main(["export", f"{tmp_path}/plain.npz", "--to", store, "--out", out]) == 0
    assert not beside.exists()


def test_faiss_file(files, tmp_path):
    faiss = pytest.importorskip("faiss")
    packed = np.load(files / "codes.npz")["codes"]
    out = str(tmp_path / "index")
    assert main(["export", f"{files}/codes.npz", "--to", "faiss", "--out", out]) == 0
    assert_array_equal(from_faiss(faiss.read_index_binary(out), nbits=12).rows, packed)


def test_usearch_file(files, tmp_path):
    usearch = pytest.importorskip("usearch.index")
    packed, out = np.load(files / "codes.npz")["codes"], str(tmp_path / "index")
    assert main(["export", f"{files}/codes.npz", "--to", "usearch", "--out", out]) == 0
    assert_array_equal(from_usearch(usearch.Index.restore(out)).rows, packed)


@pytest.mark.parametrize("store", ["duckdb", "sqlite-vec", "lancedb"])
def test_tables(store, files, itq, tmp_path, capsys):
    library = pytest.importorskip({"sqlite-vec": "apsw"}.get(store, store))
    out = str(tmp_path / "db")
    command = ["export", f"{files}/codes.npz", "--to", store, "--out", out]
    assert main([*command, "--table", "mine"]) == 0
    assert capsys.readouterr().out == f"500 codes of 12 bits: {out}\n"
    assert main([*command, "--table", "mine"]) == 2
    assert "Pass --if-exists append to add the codes, or --if-exists replace" in capsys.readouterr().err
    assert main([*command, "--table", "mine", "--if-exists", "append"]) == 2
    assert "`ids` must not be in 'mine' yet. Got 0, which is" in capsys.readouterr().err
    assert main([*command, "--table", "mine", "--if-exists", "replace"]) == 0
    assert main(command) == 0
    packed = np.load(files / "codes.npz")["codes"]
    if store == "duckdb":
        with library.connect(out) as connection:
            stored = from_duckdb(connection, "mine")
    elif store == "sqlite-vec":
        stored = from_sqlite_vec(library.Connection(out), "mine", nbits=12)
    else:
        stored = from_lancedb(library.connect(out), "mine")
    assert_array_equal(stored.rows, packed)
    assert stored.fingerprint == itq.fingerprint_


@pytest.mark.parametrize("store", ["duckdb", "sqlite-vec"])
def test_a_failed_export_leaves_no_file(store, files, tmp_path, monkeypatch, capsys):
    pytest.importorskip({"sqlite-vec": "apsw"}.get(store, store))

    def fail(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(f"skhash.stores.{store.replace('-', '_')}.quoted", fail)
    assert main(["export", f"{files}/codes.npz", "--to", store, "--out", str(tmp_path / "db")]) == 130
    assert capsys.readouterr().err == "skhash: Interrupted.\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("store", ["duckdb", "sqlite-vec"])
def test_a_database_that_cannot_be_written_is_named_with_the_remedy(store, files, tmp_path, capsys):
    pytest.importorskip({"sqlite-vec": "apsw"}.get(store, store))
    command = ["export", f"{files}/codes.npz", "--to", store, "--out"]
    for place, message in (("nowhere/db", "Create the folder first: "), ("", "Is a directory. Nothing was changed.")):
        assert main([*command, str(tmp_path / place)]) in (1, 2)
        error = capsys.readouterr().err
        assert message in error
        assert str(tmp_path / place) in error
    assert main([*command, str(tmp_path / "db"), "--table", ""]) == 2
    assert "`table` must be the name of a table. Got '' instead." in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("store", ["duckdb", "sqlite-vec"])
def test_a_file_that_is_no_database_is_named(store, files, tmp_path, capsys):
    pytest.importorskip({"sqlite-vec": "apsw"}.get(store, store))
    other = tmp_path / "notes.txt"
    other.write_text("neither of the two " * 1000)
    assert main(["export", f"{files}/codes.npz", "--to", store, "--out", str(other)]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"skhash: error: {other} cannot be written: ")
    assert "SKHASH_TRACEBACK" not in error
    assert other.read_text().startswith("neither")


@pytest.mark.parametrize("store", ["duckdb", "sqlite-vec"])
@pytest.mark.parametrize("place", ["", ":memory:"])
def test_a_database_that_would_vanish_is_refused(store, place, files, capsys):
    pytest.importorskip({"sqlite-vec": "apsw"}.get(store, store))
    assert main(["export", f"{files}/codes.npz", "--to", store, "--out", place]) == 2
    assert f"--out must be a file, since memory is not kept. Got {place!r} instead." in capsys.readouterr().err


def test_an_address_that_is_none_is_an_error_of_the_user(files, capsys):
    pytest.importorskip("psycopg")
    assert main(["export", f"{files}/codes.npz", "--to", "pgvector", "--out", "nonsense"]) == 2
    assert "error: --out must be the address of a database with --to pgvector" in capsys.readouterr().err


# --- errors


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["encode", "{itq}", "{items}", "--out", "codes.txt"], "--out must be an .npz file. Got codes.txt instead."),
        (["encode", "{itq}", "nowhere.npy", "--out", "x.npz"], "There is no file nowhere.npy."),
        (["encode", "nowhere", "{items}", "--out", "x.npz"], "nowhere"),
        (["encode", "{itq}", "{itq}", "--out", "x.npz"], "Files of samples must be .npy, .npz, .csv, .tsv, .parquet."),
        (
            ["encode", "{itq}", "{items}", "--columns", "a", "--out", "x.npz"],
            "--columns must be used with a CSV or Parquet file",
        ),
        (["encode", "{itq}", "{narrow}", "--out", "{folder}/x.npz"], "{narrow}: X has 3 features, but ITQHasher"),
        (["encode", "{itq}", "{gaps}", "--out", "{folder}/x.npz"], "{gaps}: Input X contains NaN."),
        (["encode", "{itq}", "{early}", "--out", "{folder}/x.npz"], "{early}: Input X contains NaN."),
        (
            ["search", "{itq}", "{items}", "{items}", "--out", "{folder}/no/x.npz"],
            "Create the folder first: '{folder}/no",
        ),
        (["search", "{itq}", "{narrow}", "{items}"], "{narrow}: X has 3 features, but ITQHasher is expecting 64"),
        (["search", "{itq}", "{items}", "{narrow}"], "{narrow}: X has 3 features, but ITQHasher is expecting 64"),
        (["search", "{itq}", "{items}", "{gaps}"], "{gaps}: Input X contains NaN."),
        (["search", "{itq}", "{items}"], "DATA must be given: {itq} is a hasher, which has no items."),
        (
            ["search", "{itq}", "{items}", "{items}", "--out", "x"],
            "--out must be a .csv, .npz or .run file. Got x instead.",
        ),
        (["search", "{itq}", "{items}", "{items}", "--k", "501"], "--k must be at most 500, the number of items."),
        (["search", "{lsh}", "{codes}", "{items}"], "must have the same number of bits. Got 12 and 16 instead."),
        (["export", "{items}", "--to", "faiss", "--out", "x"], "Files of codes must be .npz or .parquet, or an index."),
        (["export", "{items}", "--to", "faiss", "--out", "x"], "{items} instead. Write one with skhash encode."),
        (["export", "{codes}", "--to", "pgvector", "--out", "x"], "--out must be the address of a database"),
        (["export", "{codes}", "--to", "faiss", "--table", "t", "--out", "x"], "--table must be used with lancedb"),
    ],
)
def test_errors_of_the_user_get_one_line(arguments, message, files, digits, tmp_path, monkeypatch, capsys):
    np.save(tmp_path / "narrow.npy", np.zeros((5, 3)))
    save(LSHHasher(16, random_state=0).fit(digits.X), tmp_path / "lsh")
    names = {"itq": files / "itq", "items": files / "items.npy", "codes": files / "codes.npz", "folder": tmp_path}
    np.save(tmp_path / "gaps.npy", np.where(np.arange(50)[:, None] < 49, digits.X[:50], np.nan))
    np.save(tmp_path / "early.npy", np.where(np.arange(50)[:, None] == 3, np.nan, digits.X[:50]))
    names |= {name: tmp_path / f"{name}.npy" for name in ("narrow", "gaps", "early")} | {"lsh": tmp_path / "lsh"}
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    assert main([word.format(**names) for word in arguments]) == 2
    out, error = capsys.readouterr()
    assert out == ""  # before any work
    assert error.startswith("skhash: error: ")
    assert message.format(**names) in error
    assert error.count("\n") == 1
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    "arguments",
    [
        ["encode", "itq", "items.npz", "--out", "items.npz"],
        ["search", "itq", "codes.npz", "items.npy", "--out", "./codes.npz"],
        ["search", "itq", "items.npy", "items.npz", "--out", "items.npz"],
        ["export", "codes.npz", "--to", "faiss", "--out", "codes.npz"],
    ],
)
def test_no_file_that_is_read_is_replaced(arguments, files, digits, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(shutil.copytree(files, tmp_path / "files"))
    np.savez("items.npz", X=digits.X)
    before = {path.name: path.read_bytes() for path in Path().iterdir()}
    assert main(arguments) == 2
    assert "--out must not be a file that the command reads. Got " in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in Path().iterdir()} == before


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            {"X": np.ones((3, 64))},
            "must hold arrays named codes and nbits. Got X instead. Write it with skhash encode.",
        ),
        ({"codes": np.ones((3, 2), np.uint8)}, "has no codes: `nbits` must be an int. Write it with skhash encode."),
        ({"codes": np.ones((3, 2), np.uint8), "nbits": 17}, "has no codes: `codes` must hold packed codes of 17 bits"),
        (
            {"codes": np.ones((3, 1), np.uint8), "nbits": 8, "factors": np.ones(3)},
            "has no codes: `factors` must have two numbers per code, shape (3, 2).",
        ),
        (
            {"codes": np.ones((3, 1), np.uint8), "nbits": 8, "groups": np.array([1, 1])},
            "has no codes: `groups` must be ints of shape (3,), or text. Got shape (2,) instead.",
        ),
        ({"codes": np.ones((3, 2), np.uint8), "nbits": 12}, "has no codes: `codes` must have zeros after bit 12"),
    ],
)
def test_a_file_without_codes_gives_one_line_and_status_1(content, message, tmp_path, capsys):
    np.savez(tmp_path / "codes.npz", **content)
    assert main(["export", f"{tmp_path}/codes.npz", "--to", "ubinary", "--out", f"{tmp_path}/x.npy"]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"skhash: error: {tmp_path / 'codes.npz'} {message}")
    assert error.count("\n") == 1


def test_an_index_keeps_the_groups_of_a_file_of_codes(files, digits, tmp_path, capsys):
    groups = np.arange(len(digits.X)) // 3
    with np.load(files / "codes.npz") as codes:
        np.savez(tmp_path / "codes.npz", **codes, groups=groups)
    assert main(["index", f"{files}/itq", f"{tmp_path}/codes.npz", "--out", f"{tmp_path}/index"]) == 0
    found = load(tmp_path / "index").kneighbors(digits.X_query[:5], 3)
    expected = HammingNeighbors(FrozenEstimator(load(files / "itq"))).fit(digits.X, groups=groups)
    for one, other in zip(found, expected.kneighbors(digits.X_query[:5], 3), strict=True):
        assert_array_equal(one, other)
    capsys.readouterr()
    for arguments in ([f"{tmp_path}/index"], [f"{files}/itq", f"{tmp_path}/codes.npz"]):
        assert main(["search", *arguments, f"{files}/queries.npy"]) == 2
        assert "must have no groups" in capsys.readouterr().err
    assert main(["export", f"{tmp_path}/index", "--to", "ubinary", "--out", f"{tmp_path}/codes.npy"]) == 0
    assert "codes of 12 bits, without their groups: " in capsys.readouterr().out


def test_no_codes_are_not_searched(files, tmp_path, capsys):
    np.savez(tmp_path / "codes.npz", codes=np.empty((0, 2), np.uint8), nbits=12)
    assert main(["search", f"{files}/itq", f"{tmp_path}/codes.npz", f"{files}/queries.npy"]) == 1
    assert capsys.readouterr().err == f"skhash: error: {tmp_path / 'codes.npz'} has no codes.\n"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.npy", np.ones(3), "must hold numbers of shape (n, n_features). Got float64 of shape (3,)."),
        ("x.npy", np.array([["a", "b"]]), "must hold numbers of shape (n, n_features). Got <U1 of shape (1, 2)."),
        ("x.npy", np.ones((0, 64)), "has no samples."),
        ("x.npy", None, "must be an .npy file of numbers: "),
        ("x.npz", None, "must be an .npz archive of arrays"),
        ("x.npz", np.array([[None, 1]]), "must hold plain arrays. Got Python objects in X"),
    ],
)
def test_a_damaged_file_gives_one_line_and_status_1(name, content, message, files, tmp_path, capsys):
    path = tmp_path / name
    if content is None:
        path.write_bytes(b"\x93NUMPY damaged")
    elif name == "x.npz":
        np.savez(path, X=content)
    else:
        np.save(path, content)
    assert main(["encode", f"{files}/itq", str(path), "--out", f"{tmp_path}/codes.npz"]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"skhash: error: {path} {message}")
    assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == [path]
