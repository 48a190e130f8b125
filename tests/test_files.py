"""Atomic writes: whole files, links and permissions that stay, and errors that name the file."""

import errno
import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from skhash._files import write_atomically

NEW, OLD = b"new", b"old"


def write(path, content=NEW):
    with write_atomically(path) as file:
        file.write(content)


def write_half(path, error):
    with write_atomically(path) as file:
        file.write(NEW)
        raise error


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def umask():
    """The umask 0o027 during a test."""
    before = os.umask(0o027)
    yield
    os.umask(before)


def test_a_file_is_written_and_replaced(tmp_path):
    path = tmp_path / "file"
    for content in (OLD, NEW):
        write(path, content)
        assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]


def test_a_name_may_have_any_length(tmp_path):
    write(tmp_path / ("n" * 255))
    assert (tmp_path / ("n" * 255)).read_bytes() == NEW


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_of_the_body_leaves_the_old_file_alone(tmp_path, error):
    path = tmp_path / "file"
    write(path, OLD)
    with pytest.raises(error):
        write_half(path, error)
    assert path.read_bytes() == OLD
    assert list(tmp_path.iterdir()) == [path]


def test_the_old_file_can_be_read_until_the_new_one_is_complete(tmp_path):
    path = tmp_path / "file"
    write(path, OLD)
    with write_atomically(path) as file:
        file.write(NEW)
        file.flush()
        assert path.read_bytes() == OLD
    assert path.read_bytes() == NEW


# --- permissions and links


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o664, 0o750])
def test_the_mode_of_an_old_file_stays(tmp_path, umask, mode):
    path = tmp_path / "file"
    write(path, OLD)
    path.chmod(mode)
    with write_atomically(path) as file:
        (partial,) = set(tmp_path.iterdir()) - {path}
        assert mode_of(partial) == mode
        file.write(NEW)
    assert mode_of(path) == mode
    assert path.read_bytes() == NEW


def test_a_new_file_has_the_mode_of_the_umask(tmp_path, umask):
    write(tmp_path / "file")
    (tmp_path / "plain").write_bytes(NEW)
    assert mode_of(tmp_path / "file") == mode_of(tmp_path / "plain") == 0o640


@pytest.mark.parametrize("exists", [True, False])
def test_a_link_stays_and_its_file_is_replaced(tmp_path, exists):
    (tmp_path / "there").mkdir()
    path, link = tmp_path / "there" / "file", tmp_path / "link"
    if exists:
        write(path, OLD)
    link.symlink_to(path)
    write(link)
    assert link.is_symlink()
    assert path.read_bytes() == NEW
    assert {entry.name for entry in tmp_path.rglob("*")} == {"there", "file", "link"}


def test_names_of_partial_files_do_not_depend_on_the_process(tmp_path, monkeypatch):
    monkeypatch.setattr("os.getpid", lambda: 1)
    with write_atomically(tmp_path / "file") as first, write_atomically(tmp_path / "file") as second:
        assert len(list(tmp_path.iterdir())) == 2
        first.write(OLD)
        second.write(NEW)
    assert (tmp_path / "file").read_bytes() == OLD  # the last one to finish


# --- errors


@pytest.mark.skipif(os.name != "posix", reason="needs pipes")
def test_what_is_not_a_file_is_refused(tmp_path):
    with pytest.raises(IsADirectoryError, match=f"Nothing was changed. .*{tmp_path.name}"):
        write(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match=r"Not a regular file.*pipe"):
        write(tmp_path / "pipe")
    with pytest.raises(FileNotFoundError, match=r"Create the folder first: .*none/file"):
        write(tmp_path / "none" / "file")
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]


@pytest.mark.skipif(os.name != "posix", reason="needs devices")
def test_a_device_is_not_replaced():
    with pytest.raises(OSError, match="Not a regular file"):
        write("/dev/null")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


@pytest.fixture
def tmp_path_for_all():
    """A folder that everybody may read, unlike those of pytest."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


AS_NOBODY = """
import os, sys
from skhash._files import write_atomically
os.setgid(65534)
os.setuid(65534)
for path in sys.argv[1:]:
    try:
        with write_atomically(path) as file:
            file.write(b"new")
        print("written")
    except PermissionError as error:
        print(error)
"""


@pytest.mark.skipif(
    not hasattr(os, "getuid") or os.getuid() != 0, reason="needs root to become somebody without permission"
)
def test_missing_permissions_are_named(tmp_path_for_all):
    tmp_path = tmp_path_for_all
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    for path in (tmp_path / "closed", tmp_path / "open" / "closed"):
        path.write_bytes(OLD)
    paths = [tmp_path / "closed", tmp_path / "new", tmp_path / "open" / "closed"]
    command = [sys.executable, "-c", AS_NOBODY, str(tmp_path / "open" / "new"), *map(str, paths)]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.stderr == ""
    first, *lines = run.stdout.splitlines()
    assert first == "written"
    assert [line.split(". ")[0][11:] for line in lines] == [
        "The file is read-only",
        "Permission denied",
        "The file is read-only",
    ]
    for path, line in zip(paths, lines, strict=True):
        assert line.endswith(f"Nothing was changed. Choose a file and a folder that you may write to: '{path}'")
    assert (tmp_path / "closed").read_bytes() == (tmp_path / "open" / "closed").read_bytes() == OLD


@pytest.fixture
def small_files():
    """A limit of 64 KB on the size of files, which the system enforces as it does a full disk."""
    resource = pytest.importorskip("resource", reason="needs the limits of POSIX")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def write_big(file):
    file.write(bytes(1 << 20))


def write_pieces(file):
    for _ in range(1 << 10):
        file.write(bytes(1 << 7))


def run_in_write(path, body):
    with write_atomically(path) as file:
        body(file)


@pytest.mark.parametrize("body", [write_big, write_pieces])
def test_a_file_that_does_not_fit_is_named(tmp_path, small_files, body):
    path = tmp_path / "file"
    write(path, OLD)
    with pytest.raises(OSError, match=r"Nothing was changed\. Free some space, or choose another folder: ") as caught:
        run_in_write(path, body)
    assert (caught.value.errno, caught.value.filename) == (errno.EFBIG, str(path))
    assert path.read_bytes() == OLD
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("function", ["fsync", "replace"])
def test_a_full_disk_is_named_wherever_it_shows(tmp_path, monkeypatch, function):
    path = tmp_path / "file"
    write(path, OLD)

    def fail(*args, **options):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, function, fail)
    with pytest.raises(OSError, match=rf"\[Errno {errno.ENOSPC}\] No space left on device. Nothing .*: '{path}'"):
        write(path)
    monkeypatch.undo()
    assert path.read_bytes() == OLD
    assert list(tmp_path.iterdir()) == [path]
