"""Pictures of folders, tables and lists."""

import os

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from PIL import Image
from sklearn.model_selection import train_test_split

from skhash import TALRHasher
from skhash.datasets import load_images
from skhash.exceptions import InvalidFileError


@pytest.fixture
def folder(tmp_path):
    """Two folders of pictures of all kinds, two broken files and some that are no pictures."""
    rng = np.random.default_rng(0)
    for name in ("cats/deep/1.jpg", "cats/2.JPEG", "dogs/3.png", "dogs/4.webp"):
        path = tmp_path / "pictures" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (30, 40, 3), dtype=np.uint8)).save(path)
    pictures = tmp_path / "pictures"
    Image.fromarray(np.full((20, 20), 40000, np.uint16)).save(pictures / "dogs/5.png")
    Image.new("RGBA", (20, 20), (0, 0, 0, 0)).save(pictures / "dogs/6.png")
    Image.new("L", (20, 20), 70).save(pictures / "dogs/7.jpg")
    turned = Image.new("RGB", (20, 20))
    turned.paste("white", (0, 0, 20, 10))  # the upper half
    exif = turned.getexif()
    exif[0x0112] = 3  # upside down
    turned.save(pictures / "dogs/8.jpg", exif=exif)
    (pictures / "cats/.hidden.jpg").write_bytes(b"no")
    (pictures / ".thumbnails").mkdir()
    (pictures / ".thumbnails/1.jpg").write_bytes(b"no")
    (pictures / "notes.txt").write_text("no picture")
    return pictures


NAMES = ["cats/2.JPEG", "cats/deep/1.jpg", *(f"dogs/{name}" for name in ("3.png", "4.webp", "5.png", "6.png"))]
NAMES += ["dogs/7.jpg", "dogs/8.jpg"]


def break_two(folder):
    (folder / "cats/3.png").write_text("no picture")
    content = (folder / "cats/deep/1.jpg").read_bytes()
    (folder / "dogs/9.jpg").write_bytes(content[: len(content) // 2])


def test_pictures_of_a_folder(folder):
    images = load_images(folder, size=16)
    assert [name.replace(os.sep, "/") for name in images.names] == NAMES
    assert images.paths == [str(folder / name) for name in NAMES]
    assert images.targets.tolist() == ["cats"] * 2 + ["dogs"] * 6
    assert {(image.shape, image.dtype) for image in images} == {((3, 16, 16), np.dtype(np.uint8))}
    deep, transparent, gray, turned = (images[i] for i in (4, 5, 6, 7))
    assert (deep == round(40000 / 257)).all()
    assert (transparent == 255).all()
    assert abs(gray.astype(int) - 70).max() <= 2
    assert turned[:, :4].max() < 50 < 200 < turned[:, -4:].min()


def test_a_large_jpeg_is_decoded_at_a_fraction_of_its_size(tmp_path):
    pixels = np.linspace(0, 255, 600 * 800).reshape(600, 800).astype(np.uint8)
    for name in ("1.jpg", "2.png"):
        Image.fromarray(pixels).convert("RGB").rotate(20).save(tmp_path / name, quality=95)
    jpeg, png = load_images(tmp_path, size=20)
    assert abs(jpeg.astype(int) - png).max() <= 8


@pytest.mark.filterwarnings("ignore:2 of 2 classes have the code")  # after one epoch of a few pictures
def test_a_hasher_learns_from_them(folder):
    images = load_images(folder, size=16)
    hasher = TALRHasher(8, backbone="conv", n_epochs=1, random_state=0).fit(images)
    assert_array_equal(hasher.encode(images), hasher.encode(np.stack(list(images))))
    assert hasher.database_.y.tolist() == images.targets.tolist()


def test_broken_pictures(folder):
    break_two(folder)
    images = load_images(folder, size=16)
    with pytest.raises(InvalidFileError, match=r"3\.png must be an image"):
        list(images)
    expected = [str(folder / "cats/3.png"), str(folder / "dogs/9.jpg")]
    with pytest.warns(UserWarning, match=r"2 broken pictures are left out: .*3\.png, .*9\.jpg"):
        images = load_images(folder, size=16, broken="skip")
    assert [name.replace(os.sep, "/") for name in images.names] == NAMES
    assert images.skipped == expected
    assert len(images.targets) == len(list(images)) == 8
    with pytest.raises(InvalidFileError, match=r"3\.png and all other 1 files cannot be read"):
        load_images(expected[:1], broken="skip")


def test_gray_pictures_and_opacity(folder):
    gray, rgb, rgba = (load_images(folder, size=16, channels=channels) for channels in (1, 3, 4))
    assert (gray.shape, rgba.shape) == ((8, 1, 16, 16), (8, 4, 16, 16))
    for image, colors, opaque in zip(gray, rgb, rgba, strict=True):
        assert (image.shape, opaque.shape) == ((1, 16, 16), (4, 16, 16))
        assert abs(image[0] - np.tensordot([0.299, 0.587, 0.114], colors, 1)).max() < 2
    assert_array_equal(gray[4][0], rgb[4][0])  # of 16 bits
    assert (rgba[5][3] == 0).all()  # transparent
    assert_array_equal(rgba[0], [*rgb[0], np.full((16, 16), 255)])
    assert load_images(folder / "cats/2.JPEG", size=16).file_keys() != gray[:1].file_keys() != rgba[:1].file_keys()


def test_they_are_picked_as_an_array_is(folder):
    images = load_images(folder, size=16)
    for key in ([3, 1], np.array([3, 1]), slice(1, 4), images.targets == "cats", (np.array([3, 1]), ...)):
        part = images[key]
        rows = key[0] if isinstance(key, tuple) else key
        assert part.names == np.array(images.names)[rows].tolist()
        assert part.targets.tolist() == images.targets[rows].tolist()
        assert part.file_keys() == np.array(images.file_keys(), object)[rows].tolist()
        assert_array_equal(part[0], images[np.arange(len(images))[rows][0]])
    assert len(images[[]]) == 0
    ids = np.array([[1, 0], [7, 1]])  # of the neighbors of two queries
    assert images.names[ids].tolist() == [[images.names[i] for i in row] for row in ids]
    assert images.names[:2] == list(images.names)[:2]
    train, test, y, _ = train_test_split(images, images.targets, random_state=0)
    assert (train.shape, test.shape) == ((6, 3, 16, 16), (2, 3, 16, 16))
    assert train.targets.tolist() == y.tolist()
    with pytest.raises(IndexError, match=r"A mask must have shape \(8,\). Got \(2,\)"):
        images[np.array([True, False])]


@pytest.mark.parametrize("limit", [500, 1000])  # Pillow raises from twice its limit; before, it warns
def test_a_picture_that_is_too_large_is_not_called_damaged(folder, monkeypatch, limit):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
    too_large = "is too large: .*exceeds limit.*Save it with fewer pixels, or raise PIL.Image.MAX_IMAGE_PIXELS"
    images = load_images(folder, size=16)
    with pytest.raises(InvalidFileError, match=too_large) as caught:
        images[0]
    assert "damaged" not in str(caught.value)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 500)
    (folder / "cats/3.png").write_text("no picture")
    with pytest.warns(UserWarning, match="left out") as warned:
        images = load_images(folder, size=16, broken="skip")
    broken, large = (str(warning.message) for warning in warned)
    assert broken.startswith("1 broken pictures are left out: ")
    assert large.startswith("4 pictures that are too large are left out: ")
    assert "PIL.Image.MAX_IMAGE_PIXELS" in large
    assert len(images) == 4
    assert len(images.skipped) == 5


def test_pictures_beside_folders_have_no_labels(folder):
    Image.new("RGB", (20, 20)).save(folder / "0.png")
    images = load_images(folder, size=16)
    assert images.targets is None
    with pytest.raises(ValueError, match="`y` must be given for a Dataset without targets"):
        TALRHasher(8, backbone="conv", n_epochs=1).fit(images)


def test_a_table_a_list_and_one_picture(folder):
    table = folder / "table.csv"
    table.write_text("path,label\ndogs/7.jpg,dog\ncats/2.JPEG,cat\n")
    images = load_images(table, size=16)
    assert (images.names, images.targets.tolist()) == (["dogs/7.jpg", "cats/2.JPEG"], ["dog", "cat"])
    whole = load_images(folder, size=16)
    assert_array_equal(images[1], whole[0])
    some = load_images([folder / "dogs/7.jpg", folder / "cats/2.JPEG"], labels=[[0, 1], [1, 0]], size=16)
    assert_array_equal(some[1], whole[0])
    assert some.targets.tolist() == [[0, 1], [1, 0]]
    (one,) = load_images(folder / "cats/2.JPEG", size=16)
    assert_array_equal(one, whole[0])
    part = whole.part(slice(1, 3))
    assert (part.names, part.targets.tolist()) == (NAMES[1:3], ["cats", "dogs"])


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        ("nothing", {}, "`source` must be a folder, a CSV file or a picture. There is no"),
        ("empty", {}, "`source` must have pictures, files that end with .bmp, .*. Got none in"),
        ("dogs", {"labels": [1]}, "`labels` must have one label for each of the 6 pictures. Got 1"),
        ("dogs", {"size": 0}, "`size` must be an int >= 1"),
        ("dogs", {"channels": 2}, r"`channels` must be 1 \(gray\), 3 \(RGB\) or 4 \(RGBA\). Got 2 instead"),
        ("dogs", {"broken": "ignore"}, "`broken` must be 'raise' or 'skip'. Got 'ignore'"),
        ("table.csv", {}, "must have a column named path. Got file, label"),
    ],
)
def test_errors(folder, source, options, message):
    (folder / "empty").mkdir()
    (folder / "table.csv").write_text("file,label\n")
    with pytest.raises((ValueError, FileNotFoundError, InvalidFileError), match=message):
        load_images(folder / source, **options)
