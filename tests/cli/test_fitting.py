"""``skhash fit``, and the chain from samples to a search, through `main`."""

import json
import re
import sys

import numpy as np
import pytest
from _helpers import needs_callbacks
from numpy.testing import assert_array_equal
from sklearn.datasets import load_digits
from sklearn.pipeline import Pipeline

from skhash import PCAHasher, TALRHasher
from skhash.cli import main
from skhash.persistence import load

ALL = {"--held-out": "0", "--bits": "12"}


def fit(data, out, method="pca", more=(), **changes):
    """Status of a command; by default all samples are learned from."""
    options = ALL | {f"--{name.replace('_', '-')}": str(value) for name, value in changes.items()}
    words = [word for pair in options.items() for word in pair]
    return main(["fit", str(data), "--method", method, *words, *more, "--out", str(out)])


@pytest.fixture(scope="module")
def files(digits, tmp_path_factory):
    """Samples of digits in files, with and without labels."""
    folder = tmp_path_factory.mktemp("files")
    np.savez(folder / "items.npz", X=digits.X, y=digits.y)
    np.savez(folder / "words.npz", X=(2 * digits.X).astype(np.uint8), scale=0.5, y=digits.y.astype(str))
    np.savez(folder / "tags.npz", X=digits.X, y=np.eye(10, dtype=int)[digits.y])
    np.save(folder / "items.npy", digits.X)
    np.save(folder / "queries.npy", digits.X_query[:15])
    return folder


def test_from_samples_to_a_store(files, digits, tmp_path, monkeypatch, capsys):
    """The chain of commands, with a scaler in the file of the hasher."""
    monkeypatch.chdir(tmp_path)
    options = ["--set", "n_epochs=3", "--set", "objective=ndcg", "--scale", "--seed", "5"]
    assert fit(files / "items.npz", "model", "talr", options, bits=32, held_out=0.1) == 0
    output = capsys.readouterr()
    lines = output.err.splitlines()
    assert lines[0] == "talr, 32 bits: 450 samples, 50 held out"
    if hasattr(TALRHasher, "set_callbacks"):  # from scikit-learn 1.9 on
        assert [re.sub(r", loss.*", "", line) for line in lines[1:]] == [
            f"talr, 32 bits: epoch {epoch} of 3" for epoch in (1, 2, 3)
        ]
    lines = re.sub(r"\d+\.\d s", "0 s", output.out).splitlines()
    assert lines[0] == "talr, 32 bits, fitted to 450 samples in 0 s: model"
    form = (
        r"AP_T (0\.\d{3}), tie range \[(0\.\d{3}), (0\.\d{3})\]: 50 held-out queries against the 450 training samples"
    )
    score, worst, best = map(float, re.fullmatch(form, lines[1]).groups())
    assert 0.5 < worst <= score <= best
    assert len(lines) == 2

    model = load("model")
    assert isinstance(model, Pipeline)
    hasher = model[-1]
    assert (type(hasher), hasher.objective, hasher.n_epochs, hasher.random_state) == (TALRHasher, "ndcg", 3, 5)
    expected = hasher.encode(model[:-1].transform(digits.X))
    assert main(["encode", "model", str(files / "items.npy"), "--out", "codes.npz"]) == 0
    assert_array_equal(np.load("codes.npz")["codes"], expected)
    for items in ("codes.npz", str(files / "items.npy")):
        assert main(["search", "model", items, str(files / "queries.npy"), "--k", "3", "--out", "found.npz"]) == 0
        found = np.load("found.npz")["ids"]
        assert np.mean(digits.y[found] == digits.y_query[:15, None]) > 0.8
    assert main(["search", "model", "codes.npz", str(files / "queries.npy"), "--query", "real"]) == 0
    assert main(["export", "codes.npz", "--to", "ubinary", "--out", "codes.npy"]) == 0
    assert_array_equal(np.load("codes.npy"), expected)
    np.save("narrow.npy", np.zeros((5, 3)))
    capsys.readouterr()
    assert main(["encode", "model", "narrow.npy", "--out", "x.npz"]) == 2
    assert capsys.readouterr().err.startswith("skhash: error: narrow.npy: X has 3 features, but StandardScaler is")


@pytest.mark.parametrize("name", ["items.npz", "words.npz", "tags.npz", "items.npy"])
def test_the_hasher_is_that_of_python(name, files, digits, tmp_path, capsys):
    assert fit(files / name, tmp_path / "model") == 0
    assert_array_equal(
        load(tmp_path / "model").encode(digits.X), PCAHasher(12, random_state=0).fit(digits.X).encode(digits.X)
    )
    assert len(capsys.readouterr().out.splitlines()) == 1  # no score


@pytest.mark.parametrize("name", ["words.npz", "tags.npz"])
def test_labels_of_every_kind_are_learned_from_and_scored(name, files, tmp_path, capsys):
    assert fit(files / name, tmp_path / "model", "itq-cca", held_out=0.2) == 0
    assert float(re.search(r"AP_T (\S+),", capsys.readouterr().out)[1]) > 0.5


def test_labels_of_a_parquet_file_are_a_column(files, digits, tmp_path, capsys):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path, out = tmp_path / "items.parquet", tmp_path / "model"
    words = arrow.array([f"digit {label}" for label in digits.y]).dictionary_encode()
    tags = np.eye(10)[digits.y]
    parquet.write_table(arrow.table({"x": list(digits.X), "y": digits.y, "word": words, "tags": list(tags)}), path)
    codes = []
    for labels in ([], ["--labels", "y"], ["--labels", "word"]):
        assert fit(path, out, "itq-cca", [*labels, "--columns", "x"], held_out=0.1) == 0
        assert "AP_T" in capsys.readouterr().out
        codes.append(load(out).encode(digits.X))
    assert_array_equal(codes[0], codes[1])
    assert_array_equal(codes[0], codes[2])
    assert fit(path, out, "itq-cca", ["--labels", "tags"]) == 0  # which are no samples then
    assert fit(path, out, "itq-cca", ["--labels", "z"]) == 2
    assert "--labels must be columns of it, x, y, word, tags. Got 'z' instead." in capsys.readouterr().err


def test_a_data_set_with_a_name_goes_through_the_chain(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    X, y = load_digits(return_X_y=True)
    np.savez("mine.npz", X=X[:300], y=y[:300])
    monkeypatch.setenv("SKHASH_DATA", str(tmp_path))
    for name, items in (("digits", X), ("mine", X[:300])):
        assert fit(name, "model") == 0
        assert main(["encode", "model", name, "--out", f"{name}_codes.npz"]) == 0
        assert_array_equal(np.load(f"{name}_codes.npz")["codes"], PCAHasher(12).fit(items).encode(items))
        assert main(["search", "model", name, name, "--k", "2"]) == 0


def test_without_labels_the_score_is_the_recall_of_neighbors(files, tmp_path, capsys):
    assert fit(files / "items.npy", tmp_path / "model", "itq", ["--scale"], held_out=0.2) == 0
    form = r"R@10 0\.\d+, tie range \[0\.\d+, 0\.\d+\]: 100 held-out queries against the 400 training samples\n"
    assert re.search(form, capsys.readouterr().out)


@needs_callbacks
def test_every_epoch_or_bit_has_a_line(files, tmp_path, capsys):
    assert fit(files / "items.npz", tmp_path / "model", "cghash", ["--set", "n_anchors=20"], bits=3) == 0
    assert [line.partition(",")[2][:19] for line in capsys.readouterr().err.splitlines()[1:]] == [
        f" 3 bits: bit {bit} of 3" for bit in (1, 2, 3)
    ]


@pytest.mark.filterwarnings("always")
def test_a_warning_names_the_fit(tmp_path, capsys):
    np.save(tmp_path / "flat.npy", np.zeros((30, 4)))
    fit(tmp_path / "flat.npy", tmp_path / "model", "lsh")
    assert "skhash: warning: lsh, 12 bits: The codes of all 30 training samples are equal" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(("-3", -3), ("-1e-3", -1e-3), ("True", True), ("false", False), ("null", None), ("None", None), ("'3'", "3")),
        *(("mlp", "mlp"), ("[1, 2]", [1, 2]), ("(1, 2)", (1, 2)), ("", ""), ("a b", "a b"), ("cuda:0", "cuda:0")),
    ],
)
def test_values_are_literals_or_text(text, value, tmp_path, capsys):
    assert fit("digits", tmp_path / "model", "itq", ["--set", f"n_iter={text}"]) == 2  # which takes positive ints
    assert capsys.readouterr().err.endswith(f" Got {value!r} instead.\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{items}", "--method", "tarl"], "Got 'tarl' (did you mean 'talr'?)"),
        (["{items}", "--method", "pq"], "`method` must be module:Class, or one that `skhash methods` lists. Got 'pq'"),
        (
            ["{items}", "--method", "itq", "--set", "niter=3"],
            "--set must be name=value with a parameter of itq: affinity, n_iter, store_database. "
            "Got 'niter' (did you mean 'n_iter'?) instead.",
        ),
        (["{items}", "--method", "itq", "--set", "n_iter"], "Got 'n_iter' instead."),
        (["{items}", "--method", "itq", "--set", "nbits=3"], "Got 'nbits' instead."),
        (["{items}", "--method", "itq", "--set", "n_iter=x"], "The 'n_iter' parameter of ITQHasher must be"),
        (["{items}", "--method", "talr", "--bits", "99999999"], "The 'nbits' parameter of TALRHasher must be"),
        (["{plain}", "--method", "talr"], "--method talr must have labels to learn from. Got none in {plain}: write X"),
        (["nowhere.npy", "--method", "itq"], "There is no file nowhere.npy."),
        (["digit", "--method", "itq"], "There is no file digit."),
        (["{items}", "--method", "itq", "--labels", "y"], "--labels must be used with a CSV or Parquet file"),
        (["{items}", "--method", "itq", "--out", "no/model"], "Create the folder first: 'no"),
        (["{items}", "--method", "itq", "--out", "{items}"], "--out must not be a file that the command reads."),
        (["{gaps}", "--method", "itq"], "{gaps}: Input X contains NaN."),
    ],
)
def test_errors_of_the_user_get_one_line(arguments, message, files, digits, tmp_path, monkeypatch, capsys):
    np.save(tmp_path / "gaps.npy", np.where(np.arange(50)[:, None] < 49, digits.X[:50], np.nan))
    names = {"items": files / "items.npz", "plain": files / "items.npy", "gaps": tmp_path / "gaps.npy"}
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    out = [] if "--out" in arguments else ["--out", "model"]
    assert main(["fit", *(word.format(**names) for word in arguments), *out]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert message.format(**names) in output.err
    assert output.err.splitlines()[-1].startswith("skhash: error: ")
    assert sorted(tmp_path.iterdir()) == before


def test_labels_of_another_length_are_a_fault_of_the_file(tmp_path, digits, capsys):
    np.savez(tmp_path / "x.npz", X=digits.X, y=digits.y[1:])
    assert fit(tmp_path / "x.npz", tmp_path / "model") == 1
    assert "x.npz cannot be used: `y` must have one entry for each of the 500 samples" in capsys.readouterr().err


@pytest.mark.parametrize("share", ["1", "-0.1", "x", "nan"])
def test_a_share_is_below_1(share, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["fit", "digits", "--method", "itq", "--out", "x", f"--held-out={share}"])
    assert f"argument --held-out: must be a number >= 0 and < 1. Got '{share}' instead." in capsys.readouterr().err


# --- the hashers of a comparison


@pytest.mark.parametrize("task", [["--bits", "8"], ["--task", "neighbors", "--bytes", "2"]])
def test_a_comparison_keeps_its_hashers(task, files, digits, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # pictures take most of the time
    monkeypatch.chdir(tmp_path)
    methods = "lsh,sign" if "neighbors" in task else "lsh,pca"
    command = ["compare", str(files / "items.npz"), "--methods", methods, *task, "--seeds", "1", "--out", "report"]
    assert main(command) == 0
    assert "model" not in json.loads((tmp_path / "report/results.json").read_text())[0]
    capsys.readouterr()
    assert main([*command, "--keep-models"]) == 0  # which those results lack
    assert capsys.readouterr().err.count("; reused") == methods.count("sign")
    entries = json.loads((tmp_path / "report/results.json").read_text())
    kept = [entry["model"] for entry in entries if "model" in entry]
    assert len(kept) == 2 - methods.count("sign")
    assert re.fullmatch(r"models/items_[\w-]+_lsh_(8|16)_0_\w{16}\.safetensors", kept[0])
    assert main([*command, "--keep-models"]) == 0
    output = capsys.readouterr()
    assert output.err.count("; reused") == 2
    assert [line for line in output.out.splitlines() if line.startswith("Model: ")] == [
        f"Model: {tmp_path.joinpath('report', path).relative_to(tmp_path)}" for path in kept
    ]
    assert main(["encode", f"report/{kept[0]}", str(files / "items.npy"), "--out", "codes.npz"]) == 0
    assert main(["search", f"report/{kept[0]}", "codes.npz", str(files / "queries.npy")]) == 0
    assert main(["report", "report"]) == 0
    (tmp_path / "report" / kept[0]).unlink()
    assert main([*command, "--keep-models"]) == 0
    assert (tmp_path / "report" / kept[0]).exists()
    assert main([*command, "--fresh"]) == 0
    assert list((tmp_path / "report/models").iterdir()) == []


def test_hashers_are_kept_in_a_folder(capsys):
    assert main(["compare", "--keep-models"]) == 2
    assert "--keep-models needs --out FOLDER" in capsys.readouterr().err


def test_several_labels_of_a_table(tmp_path, capsys):
    rng = np.random.default_rng(0)
    rows = [f"{i % 5 + rng.normal():.3f},{rng.normal():.3f},{('a;b', 'b', 'a', 'c;b', 'c')[i % 5]}" for i in range(100)]
    (tmp_path / "t.csv").write_text("\n".join(["x,y2,label", *rows]) + "\n")
    words = ["fit", f"{tmp_path}/t.csv", "--method", "talr", "--bits", "4", "--set", "n_epochs=1", "--labels", "label"]
    words += ["--out", f"{tmp_path}/model"]
    assert main(words) == 2
    assert "Pass --label-separator ';' to divide them" in capsys.readouterr().err
    assert main([*words, "--label-separator", ";", "--set", "store_database=True"]) == 0
    assert load(tmp_path / "model").database_.y.shape == (90, 3)
