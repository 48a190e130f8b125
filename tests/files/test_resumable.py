"""Records that are written slice by slice: what is finished stays, and belongs to one identity and its samples."""

import io

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from skhash._files._resumable import ResumableRecords, _write

SLICES = [np.arange(n * 3, dtype=np.uint8).reshape(n, 3) + n for n in (4, 4, 2)]
IDENTITY = {"the hasher": "A"}


def fill(path, n_slices, identity=IDENTITY):
    """Number of slices that had to be appended."""
    records, n_appended = ResumableRecords(path, 3, identity), 0
    for content in SLICES[:n_slices]:
        if not records.holds(len(content), f"sum {content.sum()}"):
            records.append(content, f"sum {content.sum()}")
            n_appended += 1
    records.finish() if n_slices == 3 else records.close()
    return n_appended


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("n_first", [0, 1, 2])
def test_the_file_is_that_of_numpy(n_first, tmp_path):
    assert fill(tmp_path / "a.npy", n_first) == n_first
    assert names(tmp_path) == (["a.npy.journal", "a.npy.part"] if n_first else [])
    assert fill(tmp_path / "a.npy", 3) == 3 - n_first
    assert names(tmp_path) == ["a.npy"]
    np.save(tmp_path / "b.npy", np.concatenate(SLICES))
    assert (tmp_path / "a.npy").read_bytes() == (tmp_path / "b.npy").read_bytes()


@pytest.mark.parametrize("n_bytes", range(1, 80, 6))
def test_a_torn_journal_loses_the_slice_that_it_tears(n_bytes, tmp_path):
    fill(tmp_path / "a.npy", 2)
    journal = tmp_path / "a.npy.journal"
    journal.write_bytes(journal.read_bytes()[:-n_bytes])
    assert fill(tmp_path / "a.npy", 3) in (2, 3)
    assert_array_equal(np.load(tmp_path / "a.npy"), np.concatenate(SLICES))


@pytest.mark.parametrize("damage", ["short", "changed", "missing"])
def test_records_that_never_reached_the_disk_are_written_again(damage, tmp_path):
    fill(tmp_path / "a.npy", 2)
    part = tmp_path / "a.npy.part"
    content = part.read_bytes()
    if damage == "missing":
        part.unlink()
    else:
        part.write_bytes(content[:-1] if damage == "short" else content[:-1] + b"\xff")
    assert fill(tmp_path / "a.npy", 3) == (3 if damage == "missing" else 2)
    assert_array_equal(np.load(tmp_path / "a.npy"), np.concatenate(SLICES))


def test_a_kill_between_the_name_and_the_journal_loses_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(ResumableRecords, "discard", lambda self: self.close())
    fill(tmp_path / "a.npy", 3)
    assert names(tmp_path) == ["a.npy", "a.npy.journal"]
    monkeypatch.undo()
    assert fill(tmp_path / "a.npy", 3) == 0
    assert names(tmp_path) == ["a.npy"]
    assert_array_equal(np.load(tmp_path / "a.npy"), np.concatenate(SLICES))


def test_another_identity_or_other_samples_are_refused(tmp_path):
    fill(tmp_path / "a.npy", 2)
    message = r"`out` has an unfinished part of another encoding: the hasher is A there and B here\. Remove "
    with pytest.raises(ValueError, match=message):
        fill(tmp_path / "a.npy", 3, {"the hasher": "B"})
    records = ResumableRecords(tmp_path / "a.npy", 3, IDENTITY)
    assert records.holds(4, f"sum {SLICES[0].sum()}")
    with pytest.raises(ValueError, match=r"the samples from 4 to 7 have other values\. Remove "):
        records.holds(4, "sum 0")
    records.close()
    (tmp_path / "a.npy.journal").write_bytes(b"\xff\n")
    with pytest.raises(ValueError, match="its journal cannot be read"):
        fill(tmp_path / "a.npy", 3)


def test_one_writer_at_a_time(tmp_path):
    records = ResumableRecords(tmp_path / "a.npy", 3, IDENTITY)
    with pytest.raises(OSError, match="Another process writes the file"):
        ResumableRecords(tmp_path / "a.npy", 3, IDENTITY)
    records.close()
    assert fill(tmp_path / "a.npy", 3) == 3


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(OSError, match="Create the folder first"):
        ResumableRecords(tmp_path / "nowhere" / "a.npy", 3, IDENTITY)


def test_a_file_that_takes_a_part_at_a_time_gets_all(tmp_path):
    class Parts(io.FileIO):
        def write(self, content):
            return super().write(content[:5])

    with Parts(tmp_path / "a", "w") as file:
        _write(file, memoryview(bytes(range(12))))
    assert (tmp_path / "a").read_bytes() == bytes(range(12))
