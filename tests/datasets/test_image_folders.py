"""NUS-WIDE, MS-COCO and ImageNet100 from folders: made miniatures in the layout of the originals."""

import json
import os
import sys
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from skhash import ITQHasher, TALRHasher
from skhash.affinity import ClassAffinity, SharedLabelsAffinity
from skhash.datasets import PROTOCOLS, load_imagenet100, load_ms_coco, load_nus_wide
from skhash.exceptions import InvalidFileError

NUS_WIDE = replace(PROTOCOLS["nus-wide"], n_query=8, n_train=12)
MS_COCO = replace(PROTOCOLS["ms-coco"], n_query=6, n_train=10)
IMAGENET = replace(PROTOCOLS["imagenet100"], n_train=9)
CATEGORIES = {7: "train", 1: "person", 90: "toothbrush", 18: "dog"}
CONCEPTS = ["airport", "beach", "clouds", "dog", "earthquake"]


def write_image(path, value, size=(12, 8)):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, (value, 0, 255 - value)).save(path)


@pytest.fixture
def nus_wide(tmp_path):
    """40 images of five concepts; image i has the red value i. Returns the folder and all labels."""
    rng = np.random.default_rng(0)
    labels = (rng.random((40, 5)) < [0.05, 0.5, 0.4, 0.3, 0.0]).astype(int)
    labels[:3] = 0
    names = [f"{'actor' if i % 2 else 'zoo'}\\{i:04}_{7 * i}.png" for i in range(40)]
    for name in ("ConceptsList", "ImageList", "Groundtruth/AllLabels"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "ConceptsList/Concepts81.txt").write_text("\n".join(CONCEPTS) + "\n")
    (tmp_path / "ImageList/Imagelist.txt").write_text("\r\n".join(names) + "\r\n")
    for concept, column in zip(CONCEPTS, labels.T, strict=True):
        (tmp_path / f"Groundtruth/AllLabels/Labels_{concept}.txt").write_text("".join(f"{bit}\n" for bit in column))
    for i, name in enumerate(names):
        write_image(tmp_path / "Flickr" / name.replace("\\", "/"), i)
    return tmp_path, labels


@pytest.fixture
def imagenet(tmp_path):
    """Three classes with six images each in train, and two in val; the red value tells class and part."""
    for c, label in enumerate(("n03", "n01", "n02")):
        for i in range(8):
            part, ending = ("val", "png") if i < 2 else ("train", "PNG")
            write_image(tmp_path / part / label / f"{label}_{i}.{ending}", 50 * c + i)
    return tmp_path


@pytest.fixture
def ms_coco(tmp_path):
    """20 images of train2014 and 12 of val2014; image i has the red value i. Returns the folder and ids by image.

    As in the original, ids have gaps and no order, an image has several objects of a category, and some have none.
    """
    rng = np.random.default_rng(0)
    labels_of = {i: set(rng.choice(list(CATEGORIES), rng.integers(0, 4)).tolist()) for i in range(32)}
    labels_of[3], labels_of[25] = set(), set()
    (tmp_path / "annotations").mkdir()
    for part, numbers in (("train2014", range(20)), ("val2014", range(20, 32))):
        images, annotations = [], []
        for i in rng.permutation(numbers).tolist():
            name = f"COCO_{part}_{1000 - i:012}.png"
            write_image(tmp_path / part / name, i)
            images.append({"id": 1000 - i, "file_name": name, "height": 8, "license": 3})
            for number in [*labels_of[i], *list(labels_of[i])[:1]]:
                outline = [[1.5, 2.0, 3.0, 4.5]] if i % 2 else {"counts": [5, 1], "size": [2, 3]}
                annotations.append({"image_id": 1000 - i, "category_id": number, "segmentation": outline, "iscrowd": 0})
        rng.shuffle(annotations)
        categories = [{"id": number, "name": name, "supercategory": "all"} for number, name in CATEGORIES.items()]
        content = {"info": {}, "images": images, "annotations": annotations, "categories": categories}
        (tmp_path / f"annotations/instances_{part}.json").write_text(json.dumps(content))
    return tmp_path, labels_of


def red(images):
    return [int(image[0, 0, 0]) for image in images]


def test_nus_wide_has_the_images_of_the_most_frequent_concepts(nus_wide):
    folder, labels = nus_wide
    data = load_nus_wide(folder, protocol=NUS_WIDE, n_concepts=3, size=6)
    assert data.label_names == ["beach", "clouds", "dog"]
    kept = np.flatnonzero(labels[:, 1:4].any(axis=1))
    assert sorted(red(data.X_query) + red(data.X_database)) == kept.tolist()
    for part in ("query", "database", "train"):
        assert data[f"X_{part}"][0].shape == (3, 6, 6)
        np.testing.assert_array_equal(data[f"y_{part}"], labels[red(data[f"X_{part}"]), 1:4])
    assert (len(data.X_query), len(data.X_train)) == (8, 12)
    assert set(red(data.X_train)) <= set(red(data.X_database))
    assert isinstance(data.affinity, SharedLabelsAffinity)
    assert data.DESCR.startswith("nus_wide, protocol 'nus-wide': 8 queries against ")
    every = load_nus_wide(folder, protocol=NUS_WIDE, n_concepts=None)
    assert every.label_names == CONCEPTS
    assert len(every.X_database) == labels.any(axis=1).sum() - 8


def test_ms_coco_has_the_images_with_a_category_of_both_parts(ms_coco):
    folder, labels_of = ms_coco
    data = load_ms_coco(folder, protocol=MS_COCO, size=6)
    assert data.label_names == ["person", "train", "dog", "toothbrush"]
    values = {part: red(data[f"X_{part}"]) for part in ("query", "database", "train")}
    assert sorted(values["query"] + values["database"]) == [i for i in range(32) if labels_of[i]]
    for part, numbers in values.items():
        assert data[f"X_{part}"][0].shape == (3, 6, 6)
        expected = [[number in labels_of[i] for number in (1, 7, 18, 90)] for i in numbers]
        np.testing.assert_array_equal(data[f"y_{part}"], np.array(expected, int))
    assert (len(data.X_query), len(data.X_train)) == (6, 10)
    assert set(values["train"]) <= set(values["database"])
    np.testing.assert_array_equal(values["train"], np.array(values["database"])[data.train_index])
    assert isinstance(data.affinity, SharedLabelsAffinity)
    assert data.DESCR.endswith("relevance = number of shared labels; the paper cuts rankings at 5000.")
    others = load_ms_coco(folder, protocol=MS_COCO, random_state=1)
    assert set(red(others.X_query)) != set(values["query"])
    assert others.checksum == data.checksum


def test_imagenet_asks_the_images_of_val(imagenet):
    data = load_imagenet100(imagenet, protocol=IMAGENET, size=4)
    assert data.label_names == ["n01", "n02", "n03"]
    assert (len(data.X_query), len(data.X_database), len(data.X_train)) == (6, 18, 9)
    np.testing.assert_array_equal(np.bincount(data.y_train), [3, 3, 3])
    for part in ("query", "database", "train"):
        values = np.array(red(data[f"X_{part}"]))
        np.testing.assert_array_equal((values // 50 - 1) % 3, data[f"y_{part}"])
        assert ((values % 50 < 2) == (part == "query")).all()
    assert isinstance(data.affinity, ClassAffinity)
    two = load_imagenet100(imagenet, protocol=replace(IMAGENET, n_train=4), classes=["n03", "n02"])
    assert two.label_names == ["n03", "n02"]
    assert set(np.array(red(two.X_query)) // 50) == {0, 2}


def test_an_image_is_resized_and_cropped_in_the_middle(imagenet):
    pixels = np.zeros((4, 12, 3), np.uint8)
    pixels[:, :4, 0], pixels[:, 4:8, 1], pixels[:, 8:, 2] = 255, 255, 255
    Image.fromarray(pixels).save(imagenet / "val/n01/n01_0.png")
    gray = Image.fromarray(np.full((9, 5), 77, np.uint8))
    gray.save(imagenet / "val/n01/n01_1.png")
    data = load_imagenet100(imagenet, protocol=IMAGENET, size=4)
    first, second = (data.X_query[i] for i in np.flatnonzero(data.y_query == 0))
    np.testing.assert_array_equal(first, np.array([0, 255, 0])[:, None, None] * np.ones((3, 4, 4)))
    assert first.dtype == np.uint8
    assert (second == 77).all()


def query_image(folder, image, size=4, **options):
    """Save an image as the first query, and return its pixels as they are read, with the channels last."""
    image.save(folder / "val/n01/n01_0.png", **({"format": "PNG"} | options))
    data = load_imagenet100(folder, protocol=IMAGENET, size=size)
    return data.X_query[np.flatnonzero(data.y_query == 0)[0]].transpose(1, 2, 0)


GRAY = np.arange(0, 256, 17, dtype=np.uint8).reshape(4, 4)
COLORS = np.stack([GRAY, GRAY.T, 255 - GRAY], axis=2)


@pytest.mark.parametrize(("file_format", "dtype"), [("PNG", "<u2"), ("TIFF", "<u2"), ("TIFF", ">u2")])
def test_16_bits_of_gray_become_8(imagenet, file_format, dtype):
    deep = Image.fromarray((GRAY.astype(np.uint16) * 257 + (GRAY == 17) * 128).astype(dtype))
    found = query_image(imagenet, deep, format=file_format)
    np.testing.assert_array_equal(found, np.dstack([GRAY] * 3))


@pytest.mark.parametrize("mode", ["I", "F"])
def test_an_image_whose_range_is_not_known_is_refused(imagenet, mode):
    with pytest.raises(InvalidFileError, match=f"n01_0.png must have at most 16 bits .* mode {mode}. Save it with 8"):
        query_image(imagenet, Image.fromarray(COLORS).convert(mode), format="TIFF")


@pytest.mark.parametrize("pixels", [GRAY, COLORS])
def test_alpha_is_laid_over_white(imagenet, pixels):
    image = Image.fromarray(pixels)
    image.putalpha(Image.fromarray(np.repeat(np.array([[0, 0, 255, 255]], np.uint8), 4, axis=0)))
    expected = np.array(Image.fromarray(pixels).convert("RGB"))
    expected[:, :2] = 255
    np.testing.assert_array_equal(query_image(imagenet, image), expected)
    half = Image.new("RGBA", (4, 4), (200, 100, 0, 51))
    assert (query_image(imagenet, half) == [244, 224, 204]).all()


@pytest.mark.parametrize("bits", [1, 8, 16, "RGB", "P", "P with alpha"])
def test_a_transparent_color_is_white(imagenet, bits):
    if bits == 1:
        image, color, expected = Image.fromarray(GRAY > 99), 0, np.full((4, 4, 3), 255)
    elif bits == "RGB":
        image, color, expected = Image.fromarray(COLORS), tuple(COLORS[1, 2].tolist()), COLORS.copy()
        expected[1, 2] = 255
    elif bits in (8, 16):
        scale = 257 if bits == 16 else 1
        image, color = Image.fromarray(GRAY.astype(f"u{bits // 8}") * scale), int(GRAY[1, 2]) * scale
        expected = np.dstack([np.where(GRAY[1, 2] == GRAY, 255, GRAY)] * 3)
    else:
        image, color = Image.fromarray(COLORS).quantize(16), 3
        indices = np.asarray(image)
        expected = np.asarray(image.convert("RGB")).copy()
        expected[indices == 3] = 255
        color = color if bits == "P" else bytes(0 if i == 3 else 255 for i in range(16))
    np.testing.assert_array_equal(query_image(imagenet, image, transparency=color), expected)


def test_other_modes_are_converted_by_pillow(imagenet):
    for mode in ("1", "P"):
        image = Image.fromarray(COLORS).convert(mode)
        np.testing.assert_array_equal(query_image(imagenet, image), np.asarray(image.convert("RGB")))
    query_image(imagenet, Image.fromarray(COLORS).convert("CMYK"), format="JPEG")
    with Image.open(imagenet / "val/n01/n01_0.png") as image:
        assert image.mode == "CMYK"
        expected = np.asarray(image.convert("RGB"))
    data = load_imagenet100(imagenet, protocol=IMAGENET, size=4)
    assert any((image.transpose(1, 2, 0) == expected).all() for image in data.X_query)


def test_of_an_animation_the_first_image_is_read(imagenet):
    image = Image.fromarray(COLORS).quantize(16)
    found = query_image(imagenet, image, format="GIF", save_all=True, append_images=[Image.new("P", (4, 4))])
    np.testing.assert_array_equal(found, np.asarray(image.convert("RGB")))


@pytest.mark.parametrize("orientation", range(10))
@pytest.mark.parametrize("deep", [False, True])
def test_an_image_is_turned_upright_before_it_is_cropped(imagenet, orientation, deep):
    wide = np.arange(28, dtype=np.uint8).reshape(4, 7)
    shown = {2: wide[:, ::-1], 3: wide[::-1, ::-1], 4: wide[::-1], 5: wide.T, 6: wide[::-1].T}
    shown |= {7: wide[::-1, ::-1].T, 8: wide.T[::-1]}
    expected = shown.get(orientation, wide)
    exif = Image.Exif()
    exif[0x0112], exif[0x010F] = orientation, "a maker"
    image = Image.fromarray(wide.astype(np.uint16) * 257 if deep else wide)
    found = query_image(imagenet, image, exif=exif)
    upright = query_image(imagenet, Image.fromarray(expected))
    np.testing.assert_array_equal(found, upright)
    assert orientation in (0, 1, 9) or (found != query_image(imagenet, Image.fromarray(wide))).any()


def test_names_that_begin_with_a_dot_are_no_classes_and_no_images(imagenet):
    before = load_imagenet100(imagenet, protocol=IMAGENET)
    write_image(imagenet / "train/.ipynb_checkpoints/n01_0-checkpoint.png", 0)
    (imagenet / "val/.ipynb_checkpoints").mkdir()
    (imagenet / "train/.DS_Store").write_bytes(b"\0\0\0\1Bud1")
    (imagenet / "train/n01/._n01_2.PNG").write_bytes(b"\0\5\x16\7")
    data = load_imagenet100(imagenet, protocol=IMAGENET)
    assert (data.label_names, data.checksum) == (before.label_names, before.checksum)
    for part in ("train", "val"):
        for path in (imagenet / part / "n01").glob("*n*"):
            path.rename(path.with_name(f".{path.name}"))
    with pytest.raises(FileNotFoundError, match=r"must hold images \(.jpg, .jpeg, .png\) in train/n01"):
        load_imagenet100(imagenet, protocol=IMAGENET)


@pytest.mark.filterwarnings("ignore::skhash.exceptions.DegenerateCodesWarning")
def test_deep_hashers_learn_from_the_images(imagenet):
    data = load_imagenet100(imagenet, protocol=IMAGENET, size=8)
    hasher = TALRHasher(8, backbone="conv", n_epochs=1, random_state=0).fit(data.X_train, data.y_train)
    assert hasher.transform(data.X_query).shape == (6, 8)
    with pytest.raises(TypeError, match="Dataset"):
        ITQHasher(8).fit(data.X_train)


def test_the_checksum_is_of_names_sizes_and_labels(imagenet, nus_wide):
    first = load_imagenet100(imagenet, protocol=IMAGENET)
    assert len(first.checksum) == 64
    again = load_imagenet100(imagenet, protocol=IMAGENET, random_state=1, size=8, checksum=first.checksum)
    assert again.checksum == first.checksum
    (imagenet / "train/n01/n01_5.PNG").rename(imagenet / "train/n02/n01_5.PNG")
    with pytest.raises(InvalidFileError, match=rf"`checksum` {first.checksum}. Got .* Get the files again"):
        load_imagenet100(imagenet, protocol=IMAGENET, checksum=first.checksum)
    folder, _ = nus_wide
    before = load_nus_wide(folder, protocol=NUS_WIDE).checksum
    labels = folder / "Groundtruth/AllLabels/Labels_airport.txt"
    labels.write_text(labels.read_text().replace("0\n", "1\n"))
    assert load_nus_wide(folder, protocol=NUS_WIDE).checksum != before


@pytest.mark.parametrize(
    "name", ["ImageList/Imagelist.txt", "ConceptsList/Concepts81.txt", "Groundtruth/AllLabels/Labels_dog.txt"]
)
def test_a_list_that_is_missing_is_named(nus_wide, name):
    folder, _ = nus_wide
    (folder / name).unlink()
    with pytest.raises(FileNotFoundError, match=f"`folder` must hold {name}. There is none in "):
        load_nus_wide(folder, protocol=NUS_WIDE)


@pytest.mark.parametrize(("content", "n"), [("0\n1\n", 2), ("0\n" * 39 + "2\n", 40), ("", 0)])
def test_labels_that_do_not_fit_are_refused(nus_wide, content, n):
    folder, _ = nus_wide
    path = folder / "Groundtruth/AllLabels/Labels_dog.txt"
    path.write_text(content)
    with pytest.raises(InvalidFileError, match=f"Labels_dog.txt must have 0 or 1 for each of the 40 .* Got {n} values"):
        load_nus_wide(folder, protocol=NUS_WIDE)


def test_an_empty_list_is_refused(nus_wide):
    folder, _ = nus_wide
    (folder / "ImageList/Imagelist.txt").write_text("\n\n")
    with pytest.raises(InvalidFileError, match=r"Imagelist.txt must have a name per line. Got an empty file"):
        load_nus_wide(folder, protocol=NUS_WIDE)


def change(path, edit):
    content = json.loads(path.read_text())
    edit(content)
    path.write_text(json.dumps(content))


def test_the_checksum_of_ms_coco_covers_both_parts(ms_coco):
    folder, labels_of = ms_coco
    first = load_ms_coco(folder, protocol=MS_COCO).checksum
    label = {"image_id": 1000 - 25, "category_id": 1}  # image 25 has had none
    change(folder / "annotations/instances_val2014.json", lambda content: content["annotations"].append(label))
    with pytest.raises(InvalidFileError, match=f"`checksum` {first}. Got .* Get the files again"):
        load_ms_coco(folder, protocol=MS_COCO, checksum=first)
    n_images = sum(map(bool, labels_of.values())) + 1
    data = load_ms_coco(folder, protocol=MS_COCO)
    assert len(data.X_query) + len(data.X_database) == n_images
    next((folder / "train2014").glob("*.png")).unlink()
    with pytest.raises(FileNotFoundError, match=rf"must hold all {n_images} images.* no train2014/COCO_.* lacks 1 in"):
        load_ms_coco(folder, protocol=MS_COCO)


def rename_images(content, name):
    for image in content["images"]:
        image["file_name"] = name


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (lambda content: content.pop("annotations"), "Got KeyError: 'annotations'"),
        (lambda content: content.pop("categories"), "Got KeyError: 'categories'"),
        (lambda content: content["annotations"].append({"image_id": 5, "category_id": 1}), "Got KeyError: 5"),
        (lambda content: content["annotations"][0].update(category_id=2), "Got KeyError: 2"),
        (lambda content: content["images"][0].update(file_name=9), "Got TypeError: "),
        (lambda content: content.update(images=3), "Got TypeError: "),
        (lambda content: content["images"].append(content["images"][0]), "no annotation, or an id twice"),
        (lambda content: content["categories"].append({"id": 1, "name": "x"}), "no annotation, or an id twice"),
        (lambda content: content["annotations"].clear(), "no annotation, or an id twice"),
    ],
)
@pytest.mark.parametrize("part", ["train2014", "val2014"])
def test_annotations_that_do_not_fit_are_refused(ms_coco, part, edit, reason):
    folder, _ = ms_coco
    change(folder / f"annotations/instances_{part}.json", edit)
    with pytest.raises(InvalidFileError, match=rf"_{part}.json must be JSON with .*{reason}.* Get the file again"):
        load_ms_coco(folder, protocol=MS_COCO)


@pytest.mark.parametrize("name", ["\x00.jpg", "\ud800.jpg", "a/b.jpg"])
def test_a_name_that_no_file_can_have_is_missing(ms_coco, name):
    folder, _ = ms_coco
    change(folder / "annotations/instances_val2014.json", lambda content: rename_images(content, name))
    (folder / "val2014/a").write_bytes(b"")
    with pytest.raises(FileNotFoundError, match=r"has no val2014/.* and lacks \d+ in all"):
        load_ms_coco(folder, protocol=MS_COCO)


@pytest.mark.parametrize("content", [b'{"images": [', b"", b"[]", b"\xff\xfe\x00", b"[" * 100_000])
def test_annotations_that_are_not_json_are_refused(ms_coco, content):
    folder, _ = ms_coco
    (folder / "annotations/instances_train2014.json").write_bytes(content)
    with pytest.raises(InvalidFileError, match=r"instances_train2014.json must be JSON with images, annotations and"):
        load_ms_coco(folder, protocol=MS_COCO)


def test_parts_of_ms_coco_must_have_the_same_categories(ms_coco):
    folder, _ = ms_coco
    path = folder / "annotations/instances_val2014.json"
    change(path, lambda content: content["categories"].append({"id": 91, "name": "hair brush"}))
    with pytest.raises(InvalidFileError, match=r"val2014.json must have the 4 categories of .* Got 5 that are not the"):
        load_ms_coco(folder, protocol=MS_COCO)
    path.unlink()
    with pytest.raises(FileNotFoundError, match=r"`folder` must hold annotations/instances_val2014.json. There is"):
        load_ms_coco(folder, protocol=MS_COCO)
    with pytest.raises(ValueError, match="`protocol` must be one with labels"):
        load_ms_coco(folder, protocol="labelme")


def test_missing_images_are_counted(nus_wide, imagenet):
    folder, labels = nus_wide
    for path in sorted((folder / "Flickr/actor").iterdir())[-4:]:
        path.unlink()
    n_missing = labels[[33, 35, 37, 39]].any(axis=1).sum()
    with pytest.raises(FileNotFoundError, match=rf"has no Flickr/actor/.* and lacks {n_missing} in all"):
        load_nus_wide(folder, protocol=NUS_WIDE)
    for path in (imagenet / "val/n02").iterdir():
        path.rename(path.with_suffix(".txt"))
    with pytest.raises(FileNotFoundError, match=r"must hold images \(.jpg, .jpeg, .png\) in val/n02"):
        load_imagenet100(imagenet, protocol=IMAGENET)
    with pytest.raises(FileNotFoundError, match="must hold the folder train/n09"):
        load_imagenet100(imagenet, protocol=IMAGENET, classes=["n01", "n09"])
    with pytest.raises(FileNotFoundError, match=r"must hold the folder train\. There is none in nowhere"):
        load_imagenet100("nowhere")


def test_folders_without_classes_are_named(tmp_path):
    for part in ("train", "val"):
        (tmp_path / part).mkdir()
    with pytest.raises(FileNotFoundError, match="`folder` must hold a folder for each class in train and val"):
        load_imagenet100(tmp_path, protocol=IMAGENET)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse names that are not Unicode")
def test_a_name_may_be_of_another_encoding(imagenet):
    before = load_imagenet100(imagenet, protocol=IMAGENET)
    expected = sorted(red(before.X_query))
    folder = os.fsencode(imagenet / "val/n01")
    os.rename(folder + b"/n01_0.png", folder + b"/\xe9_0.png")
    data = load_imagenet100(imagenet, protocol=IMAGENET)
    assert sorted(red(data.X_query)) == expected
    assert data.checksum != before.checksum


def test_a_damaged_image_is_named_when_it_is_read(imagenet):
    path = imagenet / "val/n01/n01_0.png"
    path.write_bytes(path.read_bytes()[:40])
    data = load_imagenet100(imagenet, protocol=IMAGENET)
    with pytest.raises(InvalidFileError, match=r"n01_0.png must be an image: .* Get the file again"):
        red(data.X_query)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 0}, "`size` must be an int >= 1.* Got 0 instead"),
        ({"size": 2.5}, "`size` must be an int >= 1.* Got 2.5 instead"),
        ({"protocol": "labelme"}, "`protocol` must be one with labels.* Got 'labelme' instead"),
        ({"protocol": "nus_wide"}, "`protocol` must be one of"),
        ({"classes": ["n01", "n01"]}, "`classes` must be None or a list of names that differ"),
        ({"classes": "n01"}, "`classes` must be None or a list of names that differ"),
        ({"classes": []}, r"`classes` must be None or a list of names that differ. Got \[\] instead"),
        ({}, "too few samples for protocol 'imagenet100', which needs 6 queries and 13,000 other samples"),
    ],
)
def test_bad_options(imagenet, options, message):
    with pytest.raises(ValueError, match=message):
        load_imagenet100(imagenet, **options)


@pytest.mark.parametrize("n_concepts", [0, 1.5, True, "21"])
def test_the_number_of_concepts_is_checked(nus_wide, n_concepts):
    with pytest.raises(ValueError, match="`n_concepts` must be None or an int >= 1"):
        load_nus_wide(nus_wide[0], n_concepts=n_concepts)


def test_pillow_is_asked_for(imagenet, monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(ImportError, match="PIL must be installed for images of a folder: pip install pillow"):
        load_imagenet100(imagenet, protocol=IMAGENET)
