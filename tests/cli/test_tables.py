"""CSV and Parquet files of numbers in each command, through `main`."""

import csv
import shutil

import numpy as np
import pandas as pd
import pytest
from _tables import features, make_frame
from numpy.testing import assert_array_equal

from skhash import ITQHasher
from skhash.cli import main
from skhash.datasets import load_table
from skhash.persistence import load

NAMED = ["--labels", "label", "--ids", "id"]


@pytest.fixture(scope="module")
def frame():
    return make_frame()


@pytest.fixture(scope="module")
def written(frame, tmp_path_factory):
    """A folder with the table in files of every kind."""
    folder = tmp_path_factory.mktemp("tables")
    frame.to_csv(folder / "t.csv", index=False)
    frame.to_parquet(folder / "t.parquet")
    mixed = frame[list(np.random.default_rng(1).permutation(frame.columns))].assign(note="text")
    windows = {"sep": ";", "decimal": ",", "encoding": "utf-8-sig", "lineterminator": "\r\n"}
    mixed.to_csv(folder / "mixed.csv", index=False, **windows)
    np.savez(folder / "t.npz", X=features(frame).to_numpy(), y=frame["label"].to_numpy(str))
    return folder


@pytest.fixture
def folder(written, tmp_path, monkeypatch):
    """A copy of these files, in the current folder."""
    monkeypatch.chdir(tmp_path)
    return shutil.copytree(written, tmp_path, dirs_exist_ok=True)


def fit(data, *more, out="model", method="itq"):
    return main(["fit", data, "--method", method, "--bits", "16", "--held-out", "0", *more, "--out", out])


def codes(data, *more, model="model"):
    assert main(["encode", model, data, *more, "--out", "codes.npz"]) == 0
    return np.load("codes.npz")


def test_the_same_codes_from_every_kind_of_file_and_in_python(frame, folder, capsys):
    expected = ITQHasher(16, random_state=0).fit(features(frame), frame["label"]).encode(features(frame))
    of_csv = ["--separator", ";", "--decimal", ","]
    for data, more in (("t.csv", NAMED), ("t.parquet", NAMED), ("t.npz", [])):
        assert fit(data, *more) == 0
        if more:
            assert f"{data}: 20 features: x0, x1, x2, " in capsys.readouterr().err
            assert load("model").feature_names_in_.tolist() == list(features(frame).columns)
            assert_array_equal(codes("mixed.csv", *of_csv)["codes"], expected)
            assert "; left out: " in capsys.readouterr().err
        for other, options in (("t.csv", NAMED), ("t.parquet", NAMED), ("t.npz", [])):
            assert_array_equal(codes(other, *options)["codes"], expected)
    table = load_table("t.csv", columns=list(features(frame).columns))
    assert_array_equal(load("model").encode(table.data), expected)


def test_a_scaler_in_front_keeps_the_names(frame, folder):
    assert fit("t.csv", *NAMED, "--scale", method="talr", out="scaled") == 0
    assert load("scaled").feature_names_in_.tolist() == list(features(frame).columns)
    of_mixed = codes("mixed.csv", "--separator", ";", "--decimal", ",", model="scaled")["codes"]
    assert_array_equal(of_mixed, codes("t.parquet", model="scaled")["codes"])
    model = load("scaled")
    assert_array_equal(of_mixed, model[-1].encode(model[:-1].transform(features(frame))))


def test_ids_and_labels_travel_to_codes_indexes_and_results(frame, folder):
    assert fit("t.csv", *NAMED) == 0
    found = codes("t.parquet", *NAMED)
    assert_array_equal(found["ids"], frame["id"])
    assert_array_equal(found["labels"], frame["label"].astype(str))
    assert "labels" not in codes("t.parquet")  # it is left out
    assert main(["index", "model", "t.csv", "--ids", "id", "--out", "index"]) == 0
    assert_array_equal(load("index").ids_, frame["id"])
    codes("t.csv", "--ids", "id")
    frame.assign(id="row " + frame["id"].astype(str))[:50].to_csv("queries.csv", index=False)
    for items in (["index"], ["model", "codes.npz"], ["model", "t.parquet"]):
        assert main(["search", *items, "queries.csv", "--ids", "id", "--k", "3", "--out", "found.csv"]) == 0
        with open("found.csv", newline="") as file:
            rows = list(csv.DictReader(file))
        assert len(rows) == 150
        assert {row["query"] for row in rows} == {f"row {number}" for number in frame["id"][:50]}
        assert {int(row["id"]) for row in rows} <= set(frame["id"])
        first = [row for row in rows if row["rank"] == "1"]
        assert all(float(row["distance"]) == 0 for row in first)


@pytest.mark.filterwarnings("ignore:4 of 4 classes have the code")  # they lie on a line, which ITQ-CCA cuts once
def test_several_columns_of_labels(frame, folder):
    tags = pd.get_dummies(frame["label"])
    pd.concat([features(frame), tags], axis=1).to_csv("tags.csv", index=False)
    assert fit("tags.csv", "--labels", "ant,bee, cat,dog", method="itq-cca") == 0
    assert fit("t.csv", *NAMED, method="itq-cca", out="other") == 0
    assert_array_equal(codes("tags.csv")["codes"], codes("t.csv", model="other")["codes"])
    assert_array_equal(codes("tags.csv", "--labels", "ant,bee,cat,dog")["labels"], tags)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["t.csv"], "t.csv: label, id would leak into the features. Say what they are: --labels label, --ids id."),
        (["t.csv", "--labels", "label"], "t.csv: id would leak into the features. Say what it is: --ids id."),
        (["t.csv", "--ids", "id"], "label would leak into the features. Say what it is: --labels label."),
        (["t.csv", "--labels", "lable"], "must be columns of it, id, x0, x1, x2, label and 17 more. Got 'lable'"),
        (["text.csv"], "Got city (text in 2 of 2 cells, such as 'Bern'). Fill or convert it"),
        (["text.csv", "--drop", "city"], "Got x (blank or NaN in 1 cell, see line 3). Fill or convert it"),
        (["decimal.csv"], "decimal.csv: column a is text such as '1,5'. Pass --decimal ,."),
        (["semicolon.csv"], "semicolon.csv has one column, 'a;b'. Pass the separator of its cells: --separator ';'."),
        (["tab.csv"], r"tab.csv has one column, 'a\tb'. Pass the separator of its cells: --separator '\t'."),
        (["latin.csv"], "latin.csv is not UTF-8, see line 1. Pass the encoding"),
        (["utf16.csv"], "utf16.csv is UTF-16 and not UTF-8. Pass --encoding utf-16."),
        (["t.npz", "--ids", "id"], "--ids must be used with a CSV or Parquet file of numbers. Got t.npz."),
        (["t.parquet", "--decimal", ","], "--decimal must be used with a CSV file. Got ','"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_names_the_option(arguments, message, frame, folder, capsys):
    folder.joinpath("text.csv").write_text("city,x\nBern,1\nRom,\n")
    folder.joinpath("decimal.csv").write_text('a,b\n"1,5",2\n')
    folder.joinpath("semicolon.csv").write_text("a;b\n1,5;2\n")
    folder.joinpath("tab.csv").write_text("a\tb\n1\t2\n")
    folder.joinpath("latin.csv").write_text("größe,b\n1,2\n", encoding="latin-1")
    folder.joinpath("utf16.csv").write_text("a,b\n1,2\n", encoding="utf-16")
    assert fit(*arguments) in (1, 2)
    output = capsys.readouterr()
    assert message in output.err
    assert output.err.count("\n") == 1
    assert not folder.joinpath("model").exists()


def test_missing_columns_are_refused_and_others_are_named(frame, folder, capsys):
    assert fit("t.csv", *NAMED) == 0
    frame.drop(columns=["x3", "x7"]).to_csv("less.csv", index=False)
    assert main(["encode", "model", "less.csv", "--out", "codes.npz"]) == 2
    assert "--columns must be columns of it, id, x0, x1, x2, label and 15 more. Got 'x3'" in capsys.readouterr().err
    assert main(["encode", "model", "t.csv", "--columns", "x1,x2", "--out", "codes.npz"]) == 2
    assert "--columns must be the features of MODEL" in capsys.readouterr().err
    codes("t.csv")
    assert "; left out: id, label\n" in capsys.readouterr().err


@pytest.mark.parametrize("scale", [[], ["--scale"]])
@pytest.mark.parametrize("data", ["t.csv", "t.parquet"])
def test_compare_takes_tables(data, scale, frame, folder, capsys):
    command = ["compare", data, *NAMED, "--methods", "lsh", "--bits", "8", "--seeds", "1", *scale, "--out", "report"]
    assert main([*command, "--keep-models"]) == 0
    output = capsys.readouterr()
    name = "t, scaled" if scale else "t"
    assert f"lsh, 8 bits, seed 0 of {name}: AP_T" in output.err
    assert f"{data}: 20 features: x0, x1" in output.err
    (kept,) = folder.glob("report/models/*")
    model = load(kept)
    assert model.feature_names_in_.tolist() == list(features(frame).columns)
    assert hasattr(model, "steps") == bool(scale)
    of_mixed = codes("mixed.csv", "--separator", ";", "--decimal", ",", model=str(kept))["codes"]
    assert_array_equal(of_mixed, codes("t.npz", model=str(kept))["codes"])


def test_compare_has_no_scale_for_neighbors_and_pictures(folder, capsys):
    assert main(["compare", "t.npz", "--task", "neighbors", "--scale"]) == 2
    assert "must be False for the task 'neighbors'" in capsys.readouterr().err
    assert main(["compare", "t.npz", "--labels", "y"]) == 2
    assert "--labels must be used with a CSV or Parquet file of numbers. Got t.npz." in capsys.readouterr().err


# --- names of rows


@pytest.fixture
def indexed(folder):
    """The folder with a model, an index, codes and ten queries."""
    assert fit("t.csv", *NAMED) == 0
    assert main(["index", "model", "t.csv", *NAMED, "--out", "index"]) == 0
    assert main(["encode", "model", "t.csv", *NAMED, "--out", "codes.npz"]) == 0
    pd.read_csv("t.csv")[:10].to_csv("queries.csv", index=False)
    return folder


def found(*arguments):
    rerank = ["--rerank", "cosine", "--candidates", "2000", "--k", "1"]
    assert main(["search", *arguments, *NAMED, *rerank, "--out", "found.csv"]) == 0
    with open("found.csv") as file:
        return [(row["query"], row["id"]) for row in csv.DictReader(file)]


@pytest.mark.parametrize("items", [["index"], ["model", "codes.npz"]])
def test_vectors_are_put_in_the_order_of_the_ids(items, indexed, capsys):
    table = pd.read_csv("t.csv")
    table.sample(frac=1, random_state=3).to_parquet("exported.parquet")
    pairs = found(*items, "queries.csv", "--vectors", "exported.parquet")
    assert [query for query, _ in pairs] == [item for _, item in pairs]
    table.assign(id=table["id"] + 5000 * (table.index == 7)).to_csv("other.csv", index=False)
    arguments = ["search", *items, "queries.csv", "--rerank", "cosine", "--vectors", "other.csv", *NAMED]
    assert main(arguments) == 2
    message = capsys.readouterr().err.splitlines()[-1]
    assert "other.csv of --vectors must have a row for each of the 2,000 ids of" in message
    assert "to_numpy" not in message


def test_vectors_of_duplicates_are_put_in_the_order_of_the_ids(indexed):
    table = pd.read_csv("t.csv")
    table.sample(frac=1, random_state=3).to_csv("exported.csv", index=False)
    pairs = []
    for vectors in ("t.csv", "exported.csv"):
        limit = ["--radius", "0", "--max-distance", "0.9", "--vectors", vectors, *NAMED]
        assert main(["duplicates", "codes.npz", *limit, "--out", "pairs.csv"]) == 0
        pairs.append(pd.read_csv("pairs.csv"))
    assert len(pairs[0]) > 0
    pd.testing.assert_frame_equal(*pairs)


@pytest.mark.parametrize("name", ["allowed.csv", "net.py"])
def test_out_must_not_be_a_file_that_is_read(name, indexed, capsys):
    content = "1000000001\n" if name == "allowed.csv" else "import torch\n"
    (indexed / name).write_text(content)
    more = ["--among", name] if name == "allowed.csv" else ["--backbone", f"{name}:Net"]
    assert main(["search", "index", "queries.csv", *NAMED, *more, "--out", name]) == 2
    assert f"--out must not be a file that the command reads. Got {name}" in capsys.readouterr().err
    assert (indexed / name).read_text() == content


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig", "utf-8"])
def test_lists_of_ids_from_other_shells(encoding, indexed):
    ids = pd.read_csv("t.csv")["id"][:20]
    (indexed / "ids.txt").write_bytes("\r\n".join([*map(str, ids), ""]).encode(encoding))
    assert main(["search", "index", "queries.csv", *NAMED, "--k", "1", "--among", "ids.txt", "--out", "f.csv"]) == 0
    assert set(pd.read_csv("f.csv")["id"]) <= set(ids)


def test_lists_of_ids_that_cannot_be_read(indexed, capsys):
    np.save("ids.npy", np.array(["a", "b"], dtype=object))
    (indexed / "ids.txt").write_bytes("1000000001\n".encode("utf-16-le"))
    for name, message in (("ids.npy", "write X.astype(str) if X is text"), ("ids.txt", "has NUL bytes. Save it as")):
        assert main(["search", "index", "queries.csv", *NAMED, "--among", name]) == 1
        assert message in capsys.readouterr().err


def test_ids_that_would_fill_the_file_are_refused(indexed, capsys):
    table = pd.read_csv("t.csv").assign(id=lambda table: table["id"].astype(str))
    table.loc[5, "id"] = "x" * 100_000
    table.to_csv("long.csv", index=False)
    assert main(["encode", "model", "long.csv", *NAMED, "--out", "long.npz"]) == 2
    assert "long.npz would hold 200,000,000 characters" in capsys.readouterr().err
