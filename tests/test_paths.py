"""Paths: ~ means the home wherever a path is taken, and a missing folder is an error before any work."""

import argparse
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from _public import annotations_of, public_callables
from PIL import Image
from torch import nn

from skhash import LSHHasher, TALRHasher, comparison, datasets, displays, stores, trec
from skhash.cli import _options, main
from skhash.engine import load_network
from skhash.features import PretrainedFeatures
from skhash.persistence import load, save

rng = np.random.default_rng(0)
X, y = rng.normal(size=(60, 8)), np.arange(60) % 3
network = nn.Sequential(nn.Flatten(), nn.Linear(192, 4))
FEW = {"methods": ["lsh"], "nbits": [8], "n_seeds": 1}


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home and another working folder, in which nothing must appear."""
    for name in ("home", "here"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("USERPROFILE", str(tmp_path / "home"))
    yield tmp_path / "home"
    assert os.listdir(tmp_path / "here") == []


def picture(path):
    path.parent.mkdir(exist_ok=True)
    Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(path)


def images(home):
    picture(home / "photos" / "0.png")
    return datasets.load_images(home / "photos", size=8)


def to_onnx(home, path):
    pytest.importorskip("onnxscript")
    from skhash.onnx import to_onnx

    to_onnx(LSHHasher(8).fit(X), path)


def to_parquet(home, path):
    pytest.importorskip("pyarrow")
    stores.to_parquet(y[:, None] % 2, path)


#: what is written, by the parameter that takes the path, which is the last argument
WRITTEN = {
    "compare.folder": lambda home, path: comparison.compare(X_of(home), folder=path, **FEW),
    "write_report.folder": lambda home, path: comparison.write_report(path, comparison.compare(X_of(home), **FEW)[0]),
    "write_image_browser.path": lambda home, path: displays.write_image_browser(
        path, images(home), {"8": np.zeros((1, 8), int)}
    ),
    "checkpoint": lambda home, path: TALRHasher(8, n_epochs=1, checkpoint=path).fit(X, y),
    "PretrainedFeatures.cache": lambda home, path: PretrainedFeatures(network, cache=path).fit_transform(images(home)),
    "BaseHasher.encode.out": lambda home, path: LSHHasher(8).fit(X).encode(X, out=f"{path}.npy"),
    "save.path": lambda home, path: save(LSHHasher(8).fit(X), path),
    "to_onnx.path": to_onnx,
    "to_parquet.path": to_parquet,
    "write_run.path": lambda home, path: trec.write_run(path, [[0.0]], [[3]]),
    "write_qrels.path": lambda home, path: trec.write_qrels(path, [0], [0, 1]),
}
FOLDERS = ("compare.folder", "write_report.folder", "checkpoint", "PretrainedFeatures.cache")  # made with their parents


def X_of(home):
    np.savez(home / "data.npz", X=X, y=y)
    return home / "data.npz"


def read_network(home):
    pytest.importorskip("efficientnet_lite_pytorch")
    torch.save({}, home / "weights.pt")
    with pytest.raises(ValueError, match=r"weights\.pt"):  # another network: the file is found
        load_network("efficientnet-lite0", weights="~/weights.pt")
    return True


def read_table(home):
    pytest.importorskip("pyarrow")
    (home / "table.csv").write_text("a,b\n1,2\n")
    return datasets.load_table("~/table.csv")


def written_then(write, read):
    def both(home):
        write(home)
        return read()

    return both


#: what is read from the home
READ = {
    "compare.dataset": written_then(X_of, lambda: comparison.compare("~/data.npz", **FEW)),
    "load_dataset.name": written_then(X_of, lambda: datasets.load_dataset("~/data.npz")),
    "load_dataset.data_home": written_then(X_of, lambda: datasets.load_dataset("data", data_home="~")),
    "read_results.folder": written_then(
        lambda home: comparison.compare(X_of(home), folder=home / "out", **FEW),
        lambda: comparison.read_results("~/out"),
    ),
    "load_images.source": written_then(images, lambda: datasets.load_images("~/photos", size=8)),
    "load_images.source of a list": written_then(images, lambda: datasets.load_images(["~/photos/0.png"], size=8)),
    "load_table.path_or_frame": read_table,
    "load_network.weights": read_network,
    "load.path": written_then(
        lambda home: save(LSHHasher(8).fit(X), home / "model"),
        lambda: load("~/model"),
    ),
    "read_run.run": written_then(
        lambda home: trec.write_run(home / "found", [[0.0]], [[3]]), lambda: trec.read_run("~/found")
    ),
    "read_qrels.qrels": written_then(
        lambda home: trec.write_qrels(home / "found", [0], [0, 1]), lambda: trec.read_qrels("~/found")
    ),
    "from_parquet.path": written_then(
        lambda home: to_parquet(home, home / "codes.parquet"), lambda: stores.from_parquet("~/codes.parquet")
    ),
}
#: folders of data sets that are not here: the error names the home
MISSING = {
    "load_nus_wide.folder": datasets.load_nus_wide,
    "load_ms_coco.folder": datasets.load_ms_coco,
    "load_imagenet100.folder": datasets.load_imagenet100,
}


def test_every_public_path_is_tried_below():
    paths = set()
    for name, function in public_callables().items():
        for parameter, annotation in annotations_of(function).items():
            if "PathLike" in annotation:
                paths.add("checkpoint" if parameter == "checkpoint" else f"{name}.{parameter}")
    assert paths - {"DeepHasher.checkpoint"} <= WRITTEN.keys() | READ.keys() | MISSING.keys()


@pytest.mark.parametrize("name", WRITTEN)
def test_a_tilde_is_the_home_of_what_is_written(name, home):
    WRITTEN[name](home, "~/written")
    assert [path for path in home.iterdir() if path.name.startswith("written")]


@pytest.mark.parametrize("name", sorted(WRITTEN.keys() - set(FOLDERS)))
def test_a_missing_folder_is_said_before_any_work(name, home, monkeypatch):
    with pytest.raises(OSError, match=r"Nothing was changed\. Create the folder first"):
        WRITTEN[name](home, home / "missing" / "written")


@pytest.mark.parametrize("name", READ)
def test_a_tilde_is_the_home_of_what_is_read(name, home):
    assert READ[name](home) is not None


@pytest.mark.parametrize("name", MISSING)
def test_a_tilde_is_the_home_of_a_folder_that_is_not_there(name, home):
    with pytest.raises(FileNotFoundError, match=str(home / "nowhere")):
        MISSING[name]("~/nowhere")


def test_a_variable_may_name_a_folder_of_the_home(home, monkeypatch):
    X_of(home)
    monkeypatch.setenv("SKHASH_DATA", "~")
    assert datasets.load_dataset("data").name == "data"


def test_a_tilde_is_the_home_in_every_option():
    (commands,) = (a for a in _options.parser()._actions if isinstance(a, argparse._SubParsersAction))
    for command, parser in commands.choices.items():
        for action in parser._actions:
            if action.type is not None or action.choices is not None or action.nargs == 0:
                continue
            value = ["~/a", "~/b"] if action.nargs in ("*", "+") else "~/a"
            options = argparse.Namespace(**{action.dest: value})
            _options.expand_homes(options)
            expected = [os.path.expanduser(path) for path in value] if isinstance(value, list) else Path("~/a")
            expected = expected if isinstance(value, list) or action.dest == "title" else str(expected.expanduser())
            assert getattr(options, action.dest) == (value if action.dest == "title" else expected), command


def test_the_command_line_writes_into_the_home(home):
    np.save(home / "X.npy", X)
    assert main(["fit", "~/X.npy", "--method", "lsh", "--bits", "8", "--out=~/model"]) == 0
    assert main(["encode", "~/model", "~/X.npy", "--out=~/codes.npz"]) == 0
    assert main(["search", "~/model", "~/codes.npz", "~/X.npy", "--out=~/found.csv"]) == 0
    np.savez(home / "data.npz", X=X, y=y)
    few = ["--methods", "lsh", "--bits", "8", "--seeds", "1"]
    assert main(["compare", "digits,~/data.npz", *few, "--out=~/report"]) == 0
    assert {"model", "codes.npz", "found.csv", "report"} < set(os.listdir(home))
    assert isinstance(load("~/model"), LSHHasher)
