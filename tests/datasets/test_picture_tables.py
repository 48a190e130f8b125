"""Tables of pictures: what their cells mean, and what is refused."""

import os
import warnings

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from PIL import Image

from skhash import ITQHasher, TALRHasher
from skhash.affinity import SharedLabelsAffinity
from skhash.datasets import load_images
from skhash.exceptions import InvalidFileError
from skhash.metrics import RetrievalScorer

N = 12


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Pictures 0.png to 11.png, and one in a folder."""
    folder = tmp_path_factory.mktemp("pictures")
    (folder / "more").mkdir()
    for i in range(N):
        Image.new("RGB", (8, 8), (20 * i, 0, 0)).save(folder / f"{i}.png")
    Image.new("RGB", (8, 8)).save(folder / "more" / "0.png")
    return folder


def load(folder, text, **options):
    content = text if isinstance(text, bytes) else text.encode()
    (folder / "table.csv").write_bytes(content)
    return load_images(folder / "table.csv", size=8, **options)


def labels_of(folder, text, **options):
    images = load(folder, text, **options)
    return dict(zip(images.names, images.targets.tolist(), strict=True))


@pytest.mark.parametrize("header", ["path,label", "path, label", "Path,LABEL", " PATH , Label ", "\ufeffpath,label"])
def test_case_and_spaces_of_names_do_not_count(folder, header):
    assert labels_of(folder, f"{header}\n0.png,cat\n1.png, dog\n") == {"0.png": "cat", "1.png": "dog"}


@pytest.mark.parametrize(
    ("cell", "label"),
    [
        ("NA", "NA"),
        ("None", "None"),
        ("nan", "nan"),
        ("null", "null"),
        ("007", "007"),
        ("1.50", "1.50"),
        ("true", "true"),
        (" cat ", "cat"),
        ('"a, b"', "a, b"),
        (' "cat"', "cat"),
        ('"say ""cat"""', 'say "cat"'),
        ('"two\nlines"', "two\nlines"),
        ("café", "café"),
    ],
)
def test_labels_are_text_as_written(folder, cell, label):
    assert labels_of(folder, f"path,label\n0.png,{cell}\n1.png,x\n") == {"0.png": label, "1.png": "x"}


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_empty_rows_are_left_out(folder, ending):
    text = ending.join(["path,label", "", "0.png,cat", ",", "1.png,dog", ",", " , ", ""])
    assert labels_of(folder, text) == {"0.png": "cat", "1.png": "dog"}


def test_other_columns_are_named_in_one_warning(folder):
    text = "path,label, split,Class\n0.png,cat,train,x\n"
    with pytest.warns(UserWarning, match="that are not read") as seen:
        assert load(folder, text).targets.tolist() == ["cat"]
    (warning,) = seen
    assert str(warning.message).startswith(f"Columns of {folder / 'table.csv'} that are not read: split, Class. To")
    assert 'name it: labels="split"' in str(warning.message)
    assert warning.filename == __file__
    with pytest.warns(UserWarning, match="not read: labels. There is no column named label, so that the"):
        assert load(folder, "path,labels\n0.png,cat\n").targets is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load(folder, text, labels="class").targets.tolist() == ["x"]
        assert load(folder, "path,label,\n0.png,cat,\n").targets.tolist() == ["cat"]
        assert load(folder, text, labels=[]).targets is None


def test_labels_choose_columns_or_are_an_array(folder):
    text = "path,label,cat,Dog \n" + "".join(f"{i}.png,x{i},{i % 2},{1 - i % 2}.0\n" for i in range(4))
    images = load(folder, text, labels=["cat", "dog"])
    assert_array_equal(images.targets, np.array([[0, 1], [1, 0], [0, 1], [1, 0]]))
    assert images.targets.dtype == np.uint8
    assert images.label_names == ["cat", "Dog"]
    assert images.part([1]).label_names == images.resized(4).label_names == ["cat", "Dog"]
    assert load(folder, text, labels="cat").targets.tolist() == ["0", "1", "0", "1"]
    with pytest.warns(UserWarning, match="that are not read"):
        images = load(folder, text, labels=np.array(["a", "b", "c", "d"]))
    assert images.targets.tolist() == ["a", "b", "c", "d"]
    assert images.label_names is None
    with pytest.raises(ValueError, match=r"`labels` must name columns of .*path, label, cat, Dog .*Got 'a' instead"):
        load(folder, text, labels=["a", "b", "c", "d"])
    with pytest.raises(InvalidFileError, match=r"must have 0 or 1 in the column 'label', .* Got 'x0' in line 2"):
        load(folder, text, labels=["cat", "label"])


def test_labels_of_a_list_with_gaps_are_not_text(folder):
    paths = [folder / "0.png", folder / "1.png"]
    assert load_images(paths, labels=["cat", float("nan")], size=8).targets[1] != "nan"
    with pytest.raises(ValueError, match=r"Got none for 1 of 2, the first of which is .*1\.png"):
        TALRHasher(8, backbone="conv", n_epochs=1).fit(load_images(paths, labels=["cat", None], size=8))


BLANK = "path,label\n" + "".join(f"{i}.png,{('cat', 'dog')[i // 2 % 2] if i % 2 else ''}\n" for i in range(N))


def test_a_blank_label_is_missing_and_no_class(folder):
    images = load(folder, BLANK)
    assert images.targets[:4].tolist() == [None, "cat", None, "dog"]
    message = r"All pictures must have labels. Got none for 6 of 12, the first of which is 0\.png"
    with pytest.raises(ValueError, match=message):
        TALRHasher(8, backbone="conv", n_epochs=1).fit(images)
    X = np.stack([image.ravel() for image in images]).astype(float)
    message = "Got missing values .* for 6 of 12 samples instead, the first of which is sample 0"
    for learn in (
        lambda: TALRHasher(8, n_epochs=1).fit(X, images.targets),
        lambda: ITQHasher(2).fit(X, images.targets),
        lambda: RetrievalScorer("ap", (X, images.targets))(ITQHasher(2).fit(X), X, images.targets),
    ):
        with pytest.raises(ValueError, match=message):
            learn()
    assert ITQHasher(2).fit(X).transform(X).shape == (N, 2)
    keep = np.flatnonzero([target is not None for target in images.targets])
    hasher = TALRHasher(8, backbone="conv", n_epochs=1, random_state=0).fit(images.part(keep))
    assert hasher.database_.y.tolist() == ["cat", "dog"] * 3


@pytest.mark.parametrize("missing", [{"label_separator": ";"}, {"labels": ["a", "b"]}])
def test_a_blank_label_is_missing_in_a_matrix(folder, missing):
    rows = ["a;b,1,1", "a,1,0", ",,", "b,0,1"] if "labels" in missing else ["a;b", "a", "", "b"]
    head = "path,label,a,b" if "labels" in missing else "path,label"
    images = load(folder, "\n".join([head, *(f"{i}.png,{row}" for i, row in enumerate(rows))]), **missing)
    assert_array_equal(images.targets, np.array([[1, 1], [1, 0], [np.nan, np.nan], [0, 1]]))
    with pytest.raises(ValueError, match=r"Got none for 1 of 4, the first of which is 2\.png"):
        TALRHasher(8, backbone="conv", n_epochs=1).fit(images)
    X = np.arange(8.0).reshape(4, 2)
    with pytest.raises(ValueError, match=r"for 1 of 4 samples .* sample 2.*\.all\(axis=1\)"):
        TALRHasher(8, n_epochs=1).fit(X, images.targets)


SEVERAL = ["sky;sea", "sea", "sky ; tree", "tree;"]


@pytest.mark.parametrize("mark", [";", "|", " / "])
def test_several_labels_of_a_cell(folder, mark):
    text = "path,label\n" + "".join(f"{i}.png,{row.replace(';', mark)}\n" for i, row in enumerate(SEVERAL))
    images = load(folder, text, label_separator=mark.strip())
    assert images.label_names == ["sea", "sky", "tree"]
    assert_array_equal(images.targets, [[1, 1, 0], [1, 0, 0], [0, 1, 1], [0, 0, 1]])
    assert images.targets.dtype == np.uint8
    assert SharedLabelsAffinity()(images.targets, images.targets)[0].tolist() == [2, 1, 1, 0]
    assert load(folder, text, label_separator=None).targets.tolist()[1] == "sea"
    if mark == " / ":
        return
    message = f"several labels in a cell: .* in line 2, and 's.*' in other rows. Pass label_separator=\"[{mark}]\""
    with pytest.raises(InvalidFileError, match=message):
        load(folder, text)


@pytest.mark.parametrize("labels", [["n01|tench", "n02|shark", "x"], ["a;b", "c;d", "e"], ["AC/DC", "Lions;", "x"]])
def test_labels_with_a_mark_that_are_single(folder, labels):
    rows = "".join(f"{i}.png,{label}\n" for i, label in enumerate(labels))
    assert load(folder, f"path,label\n{rows}").targets.tolist() == labels


@pytest.mark.parametrize(
    ("encoding", "options"),
    [
        ("latin-1", {"encoding": "latin-1"}),
        ("cp1252", {"encoding": "cp1252"}),
        ("utf-16", {"encoding": "utf-16"}),
        ("utf-8-sig", {}),
    ],
)
def test_encodings(folder, encoding, options):
    content = "path,label\n0.png,café\n".encode(encoding)
    assert load(folder, content, **options).targets.tolist() == ["café"]
    if options:
        with pytest.raises(InvalidFileError, match=r"table\.csv is .*Pass .*encoding="):
            load(folder, content)


def test_separator(folder):
    assert load(folder, "path;label\n0.png;a,b\n", separator=";").targets.tolist() == ["a,b"]
    assert load(folder, "path\tlabel\n0.png\tcat\n", separator="\t").targets.tolist() == ["cat"]
    with pytest.raises(InvalidFileError, match=r'table\.csv has one column, .* separator=";"'):
        load(folder, "path;label\n0.png;cat\n")


def test_a_tsv_file(folder):
    (folder / "table.tsv").write_text("path\tlabel\n0.png\ta,b\n")
    assert load_images(folder / "table.tsv", size=8).targets.tolist() == ["a,b"]


def test_a_label_separator_needs_one_column(folder):
    for text, labels in (("path,a,b\n0.png,1,0\n", ["a", "b"]), ("path\n0.png\n", None)):
        with pytest.raises(ValueError, match="`label_separator` must be used with one column of labels"):
            load(folder, text, labels=labels, label_separator=";")


def test_a_path_in_two_spellings(folder):
    with pytest.raises(InvalidFileError, match="must name each picture once"):
        load(folder, f"path\n0.png\n{folder / '0.png'}\n")


def test_spellings_of_paths(folder):
    written = ["./0.png", " 1.png ", "more\\0.png" if os.sep == "/" else "more/0.png", str(folder / "2.png")]
    images = load(folder, "path\n" + "\n".join(written) + "\n")
    assert images.names == ["0.png", "1.png", "more/0.png", str(folder / "2.png")]
    assert len(list(images)) == 4


@pytest.mark.skipif(os.name == "nt", reason="names are Unicode there")
def test_names_that_are_not_utf8(folder, tmp_path):
    name = os.fsdecode(b"caf\xe9, 1 .png")
    Image.new("RGB", (8, 8)).save(tmp_path / name)
    images = load(tmp_path, b'path,label\n"caf\xe9, 1 .png",x\n')
    assert images.names == [name]
    assert images[0].shape == (3, 8, 8)
    with pytest.raises(InvalidFileError, match="is not UTF-8, see line 2"):
        load(folder, b"path,label\ncaf\xe9.png,x\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("path,label\n0.png,red, big\n", "must have 2 cells in each row. Got 3 in line 2: '0.png,red, big'. Quote"),
        ("path,label\na, b.png,red\n", "must have 2 cells in each row. Got 3 in line 2"),
        ("path,label\n0.png\n", "must have 2 cells in each row. Got 1 in line 2"),
        ('path,label\n\n"0.png",a\n0.png,a\n', "must name each picture once. Got 0.png in line 3 and in line 4"),
        ("path,label\n0.png,a\n./more/../0.png,b\n", "must name each picture once"),
        ("path,label\n,a\n", "has no path in line 2"),
        ("path,label\n  ,a\n", "has no path in line 2"),
        ("path,Label,LABEL\n0.png,a,b\n", "must have one column named label. Got 'Label' and 'LABEL'"),
        ("file,label\n0.png,a\n", "must have a column named path. Got file, label. Rename"),
        ("path,path\n0.png,a\n", "must have columns of different names. Got 'path' twice"),
        ('path,label\n0.png,"a\n1.png,b\n', "has a quote in line 2 that is never closed"),
        ("", "is empty"),
    ],
)
@pytest.mark.parametrize("broken", ["raise", "skip"])
def test_tables_that_are_refused(folder, text, message, broken):
    with pytest.raises(InvalidFileError, match=f"table.csv {message}"):
        load(folder, text, broken=broken)


@pytest.mark.parametrize("broken", ["raise", "skip"])
def test_a_missing_file_is_missing(folder, broken):
    message = r"2 of 3 pictures of .*table\.csv are missing. The first is no\.png, in line 3. Paths begin at the folder"
    with pytest.raises(FileNotFoundError, match=message):
        load(folder, "path,label\n0.png,a\nno.png,b\nmore,c\n", broken=broken)
    with pytest.raises(FileNotFoundError, match=r"1 of 2 pictures of `source` are missing. The first is .*no\.png"):
        load_images([folder / "0.png", folder / "no.png"], broken=broken)


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        ("table.csv", {"label_separator": ""}, "`label_separator` must be a separator of labels, .*Got ''"),
        ("table.csv", {"labels": "path"}, "`labels` must name columns of .*Got 'path'"),
        ("table.csv", {"encoding": "no"}, "`encoding` must be one that Python knows"),
        (".", {"labels": "label"}, "`labels` must be used with a CSV file. Got 'label'"),
        (".", {"encoding": "latin-1"}, "`encoding` must be used with a CSV file. Got 'latin-1'"),
        (".", {"separator": ";"}, "`separator` must be used with a CSV file. Got ';'"),
        (".", {"label_separator": ";"}, "`label_separator` must be used with a CSV file. Got ';'"),
    ],
)
def test_arguments(folder, source, options, message):
    (folder / "table.csv").write_text("path,label\n0.png,a\n")
    with pytest.raises(ValueError, match=message):
        load_images(folder / source, size=8, **options)


def test_a_table_without_rows(folder):
    with pytest.raises(ValueError, match="`source` must have pictures"):
        load(folder, "path,label\n")
