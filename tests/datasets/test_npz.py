"""Files of arrays that are damaged or do not fit: one error that begins with the path."""

import io
import zipfile

import numpy as np
import pytest

from skhash.datasets import load_dataset
from skhash.exceptions import InvalidFileError

X, Y = np.arange(60.0).reshape(30, 2), np.arange(30) % 2


@pytest.fixture
def path(tmp_path):
    return tmp_path / "mine.npz"


def refusal(path):
    """The message without the path."""
    with pytest.raises(InvalidFileError) as caught:
        load_dataset(path)
    message = str(caught.value)
    assert message.startswith(f"{path} ")
    assert "\n" not in message
    return message.removeprefix(f"{path} ")


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_arrays_are_read(save, path):
    big = X[::-1].astype(">f8", order="F")  # another byte order, columns first
    save(path, X=big, y=np.where(Y, "a", "b"), scale=2.0, test=Y == 1)
    data = load_dataset(path, protocol="s2")
    np.testing.assert_array_equal(data.X_query, 2 * big[Y == 1])
    np.testing.assert_array_equal(np.sort(data.X_database, axis=0), np.sort(2 * big[Y == 0], axis=0))
    assert (set(data.y_query), set(data.y_database)) == ({"a"}, {"b"})


def test_arrays_that_are_ignored_are_named(path):
    np.savez(path, X=X, labels=Y, ids=Y)
    with pytest.warns(
        UserWarning, match="arrays that are ignored: labels, ids. Only X, y, scale, test are read."
    ) as seen:
        load_dataset(path)
    assert [warning.filename for warning in seen] == [__file__]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"data": X, "target": Y}, "must hold an array named X, and y if there are labels. Got data, target instead"),
        ({}, "must hold an array named X, and y if there are labels. Got no array instead"),
        (
            {"X": np.array([{}])},
            r"must hold plain arrays. Got Python objects in X, which only pickle can load: write X.as",
        ),
        ({"X": X, "y": np.array(["a", None] * 15)}, "must hold plain arrays. Got Python objects in y"),
        ({"X": np.where(X > 3, X, np.nan), "y": Y}, "cannot be used: Input X contains NaN."),
        ({"X": np.where(X > 3, X, np.inf), "y": Y}, "cannot be used: Input X contains infinity"),
        ({"X": X, "y": np.where(Y, 1, np.nan)}, "cannot be used: `y` must hold a target for each sample"),
        ({"X": X, "y": Y, "scale": np.nan}, "cannot be used: `scale` must be finite. Got nan instead."),
        ({"X": X, "y": Y, "scale": [1, 2, 3]}, "cannot be used: `scale` must be a number or an array of shape (2,)"),
        (
            {"X": X, "y": Y[1:]},
            "cannot be used: `y` must have one entry for each of the 30 samples of X. Got shape (29,)",
        ),
        ({"X": X[0]}, "cannot be used: `X` must have shape (n_samples, n_features, ...). Got shape (2,) instead."),
        ({"X": X.astype(str), "y": Y}, "cannot be used: "),
    ],
)
def test_arrays_that_cannot_be_used(arrays, message, path):
    np.savez(path, **arrays)
    assert refusal(path).startswith(message)


@pytest.mark.parametrize("content", [b"", b"X, y\n", b"PK\3\4" + bytes(100)])
def test_other_files(content, path):
    path.write_bytes(content)
    assert refusal(path).startswith("must be an .npz archive of arrays: ")


def test_a_single_array_is_not_an_archive(path):
    with open(path, "wb") as file:
        np.save(file, X)
    assert "Write it with numpy.savez(path, X=X, y=y)." in refusal(path)


def test_an_encrypted_archive_says_so(path):
    np.savez(path, X=X, y=Y)
    data = bytearray(path.read_bytes())
    for signature, offset in ((b"PK\3\4", 6), (b"PK\1\2", 8)):  # bit 0 of the flags of each header
        position = data.find(signature)
        while position >= 0:
            data[position + offset] |= 1
            position = data.find(signature, position + 1)
    path.write_bytes(data)
    assert refusal(path).startswith("cannot be read: its array X is damaged or encrypted (File ")
    assert "is encrypted, password required" in refusal(path)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_a_flipped_bit_is_found(save, path):
    """Only the end of a member compares its checksum; a flip that changes no array is none."""
    save(path, X=X, y=Y, scale=2.0)
    data, rng = path.read_bytes(), np.random.default_rng(0)
    whole = load_dataset(path, protocol="holdout")
    refused = []
    for position in rng.integers(8 * len(data), size=300):
        flipped = bytearray(data)
        flipped[position // 8] ^= 1 << position % 8
        path.write_bytes(flipped)
        try:
            found = load_dataset(path, protocol="holdout")
        except InvalidFileError as error:
            refused.append(str(error).startswith(f"{path} "))
        else:
            for part in ("X_query", "X_database", "y_query", "y_database"):
                np.testing.assert_array_equal(found[part], whole[part])
    assert len(refused) > 200
    assert all(refused)


def test_two_arrays_of_one_name_are_refused(path):
    member = io.BytesIO()
    np.save(member, X)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("X.npy", member.getvalue())
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("X.npy", member.getvalue())
    assert refusal(path).startswith("must have one array of each name. Got X, X.")


def test_a_header_that_promises_too_much_allocates_nothing(path):
    member = io.BytesIO()
    np.save(member, X)
    promised = member.getvalue().replace(b"(30, 2), }" + b" " * 9, b"(30, 2000000000), }")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("X.npy", promised)
    assert "which is not the size of an array of shape (30, 2000000000)" in refusal(path)
