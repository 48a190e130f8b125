"""Codes slice by slice: equal to those of all samples at once, in little memory, and resumed after a kill."""

import signal
import time
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from _helpers import quick, run_python
from _writers import encode_slowly, start
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.exceptions import NotFittedError

from skhash import ITQHasher, LSHHasher
from skhash.persistence import save

BATCH = 4096  # samples of a slice by default


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(0).standard_normal((2 * BATCH + 9, 16), dtype=np.float32)


@pytest.fixture(scope="module")
def hasher(X):
    return ITQHasher(12, random_state=0).fit(X[:300])


@pytest.fixture(scope="module")
def codes(hasher, X):
    """Codes of one product, without slices."""
    batches = [X[start : start + BATCH] for start in range(0, len(X), BATCH)]
    return np.packbits(np.concatenate([hasher.project(batch) >= 0 for batch in batches]), axis=1)


class StopError(Exception):
    """An end that the tests choose."""


def stop_after(n):
    def stop(n_done, _):
        if n_done >= n:
            raise StopError

    return stop


def test_memory_memmap_and_blocks_give_the_same_codes(hasher, X, codes, tmp_path):
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    out = np.empty_like(codes)
    for found in (hasher.encode(X), hasher.encode(mapped), hasher.encode(iter([X[:5000], X[5000:]]))):
        assert_array_equal(found, codes)
        assert type(found) is np.ndarray
    assert hasher.encode(mapped, out=out) is out
    assert_array_equal(out, codes)
    for name, samples in (("a", X), ("b", mapped), ("c", iter([X[:5000], X[5000:]])), ("d", X.tolist()[:30])):
        found = hasher.encode(samples, out=tmp_path / f"{name}.npy")
        assert isinstance(found, np.memmap)
        np.save(tmp_path / "expected.npy", codes[: len(found)])
        assert (tmp_path / f"{name}.npy").read_bytes() == (tmp_path / "expected.npy").read_bytes()
    assert_array_equal(hasher.transform(mapped), np.unpackbits(codes, axis=1, count=12))


@pytest.mark.parametrize("n", [1, 5, BATCH - 1, BATCH, BATCH + 1])
def test_few_samples_have_the_codes_of_a_call_of_their_own(n, hasher, X, tmp_path):
    expected = hasher.encode(X[:n])
    assert_array_equal(hasher.encode(iter([X[:n]])), expected)
    assert_array_equal(hasher.encode(X[:n], out=tmp_path / "a.npy"), expected)


@pytest.mark.parametrize("dtype", [np.float64, np.uint8, np.int32, np.float16, bool])
def test_each_dtype_has_the_codes_of_a_whole_conversion(dtype, X, tmp_path):
    X = np.maximum(8 * X, 0).astype(dtype)
    hasher = ITQHasher(12, random_state=0).fit(X[:300])
    converted = X.astype(np.float64)
    assert_array_equal(hasher.encode(X), hasher.encode(converted))
    assert_array_equal(hasher.encode(X[::-1][:5000], out=tmp_path / "a.npy"), hasher.encode(converted[::-1][:5000]))


def test_sparse_samples_and_images(X, tmp_path):
    hasher, few = LSHHasher(12, random_state=0).fit(sparse.csr_array(X[:50])), sparse.csr_array(X[:900])
    found = hasher.encode(few, out=tmp_path / "a.npy", batch_size=100)
    assert_array_equal(found, hasher.encode(few))
    images = np.random.default_rng(0).integers(0, 256, (60, 1, 6, 6), dtype=np.uint8)
    np.save(tmp_path / "images.npy", images)
    hasher = quick("TALRHasher", n_epochs=1).fit(images, np.arange(60) % 3)
    mapped = np.load(tmp_path / "images.npy", mmap_mode="r")
    assert_array_equal(hasher.encode(mapped, out=tmp_path / "b.npy", batch_size=16), hasher.encode(images))
    assert_array_equal(hasher.encode(iter([images[:40], images[40:]]), batch_size=16), hasher.encode(images))


def test_an_iterator_of_sparse_blocks_is_named():
    X = sparse.csr_array(np.eye(9))
    with pytest.raises(ValueError, match=r"`X` must yield dense blocks\. Got a sparse one"):
        LSHHasher(12, random_state=0).fit(X).encode(X[i : i + 3] for i in range(0, 9, 3))


def test_a_dataset_is_encoded_in_slices(X, tmp_path):
    import torch

    X = X[:300].astype(np.float32)
    targets = torch.arange(len(X)) % 3
    dataset = torch.utils.data.TensorDataset(torch.from_numpy(X), targets)
    hasher = quick("TALRHasher").fit(dataset)
    codes = hasher.encode(X, batch_size=64)
    assert_array_equal(hasher.encode(dataset, batch_size=64), codes)
    assert_array_equal(hasher.encode(dataset, out=tmp_path / "codes.npy", batch_size=64), codes)


def test_a_uint8_memmap_is_converted_slice_by_slice(tmp_path):
    samples = np.random.default_rng(0).integers(0, 256, (40_000, 128), dtype=np.uint8)
    np.save(tmp_path / "X.npy", samples)
    hasher = ITQHasher(16, random_state=0).fit(samples[:300])
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    for out in (None, tmp_path / "few.npy"):
        hasher.encode(mapped[:5000], out=out)  # imports and kernels take memory of their own
    slice_bytes = BATCH * 128 * 8  # 4 MB in float64; all samples take 41 MB
    for out in (None, tmp_path / "codes.npy"):
        tracemalloc.start()
        hasher.encode(mapped, out=out)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 4 * slice_bytes


def test_progress_counts_samples(hasher, X):
    seen = []
    hasher.encode(X, progress=lambda *numbers: seen.append(numbers))
    assert seen == [(4096, len(X)), (8192, len(X)), (len(X), len(X))]
    seen.clear()
    hasher.encode(iter([X]), batch_size=5000, progress=lambda *numbers: seen.append(numbers))
    assert seen == [(5000, None), (len(X), None)]


def test_a_finished_slice_is_not_encoded_again(hasher, X, codes, tmp_path):
    changed = np.concatenate([-X[:BATCH], X[BATCH:]])  # the last finished slice is encoded again, and compared
    for make in (lambda X: X, lambda X: iter([X[:100], X[100:]])):
        with pytest.raises(StopError):
            hasher.encode(make(X), out=tmp_path / "a.npy", progress=stop_after(8192))
        assert [path.name for path in tmp_path.iterdir()] == ["a.npy.part"]
        assert_array_equal(hasher.encode(make(changed), out=tmp_path / "a.npy"), codes)
        for path in tmp_path.iterdir():
            path.unlink()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda X, h: (X[:-1], h, {}), "it has another number or type of samples"),
        (lambda X, h: (X.astype(float), h, {}), "it has another number or type of samples"),
        (lambda X, h: (iter([X]), h, {}), "it has another number or type of samples"),
        (lambda X, h: (X[::-1], h, {}), "the samples from 4,096 to 8,191 have other codes"),
        (lambda X, h: (X, h, {"batch_size": 4000}), "it has another `batch_size`"),
        (lambda X, h: (X, ITQHasher(12, random_state=1).fit(X[:300]), {}), "it has another hasher"),
        (lambda X, h: (X, LSHHasher(12, random_state=0).fit(X[:300]), {}), "it has another hasher"),
    ],
)
def test_the_unfinished_part_of_another_encoding_is_refused(change, reason, hasher, X, codes, tmp_path):
    with pytest.raises(StopError):
        hasher.encode(X, out=tmp_path / "a.npy", progress=stop_after(8192))
    samples, other, options = change(X, hasher)
    with pytest.raises(ValueError, match="`out` has an unfinished part of another encoding: ") as caught:
        other.encode(samples, out=tmp_path / "a.npy", **options)
    assert reason in str(caught.value)
    assert f"Remove {tmp_path / 'a.npy.part'}" in str(caught.value)
    assert_array_equal(hasher.encode(X, out=tmp_path / "a.npy"), codes)


@pytest.mark.parametrize("n_bytes", [0, 1, 3, 128, 130, 128 + 2 * 4096 - 1, 128 + 2 * 4096 + 5])
def test_a_part_that_ends_anywhere_goes_on(n_bytes, hasher, X, codes, tmp_path):
    with pytest.raises(StopError):
        hasher.encode(X, out=tmp_path / "a.npy", progress=stop_after(8192))
    part = tmp_path / "a.npy.part"
    part.write_bytes(part.read_bytes()[:n_bytes])
    assert_array_equal(hasher.encode(X, out=tmp_path / "a.npy"), codes)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.npy", "a.npy.fingerprint"]


def test_a_resumed_encoding_reports_progress_from_where_it_resumes(hasher, X, tmp_path):
    with pytest.raises(StopError):
        hasher.encode(X, out=tmp_path / "a.npy", batch_size=1000, progress=stop_after(6000))
    seen = []
    hasher.encode(X, out=tmp_path / "a.npy", batch_size=1000, progress=lambda n, _: seen.append(n))
    assert seen == [6000, 7000, 8000, len(X)]


@pytest.mark.parametrize("name", ["a.npy", "link.npy"])
def test_a_finished_file_of_another_hasher_is_kept(name, hasher, X, codes, tmp_path):
    hasher.encode(X, out=tmp_path / "a.npy")
    if name != "a.npy":
        (tmp_path / name).symlink_to("a.npy")
    other = LSHHasher(12, random_state=0).fit(X[:300])
    with pytest.raises(ValueError, match="`out` must not be a file with the codes of another hasher") as caught:
        other.encode(Unread(X), out=tmp_path / name)
    assert all(text in str(caught.value) for text in (hasher.fingerprint_, other.fingerprint_, "overwrite=True"))
    assert_array_equal(np.load(tmp_path / "a.npy"), codes)
    assert_array_equal(hasher.encode(X[:9], out=tmp_path / name), codes[:9])  # the same hasher replaces its file
    assert_array_equal(other.encode(X, out=tmp_path / name, overwrite=True), other.encode(X))
    assert (tmp_path / "a.npy.fingerprint").read_text() == other.fingerprint_
    (tmp_path / "a.npy").unlink()
    hasher.encode(X[:9], out=tmp_path / "a.npy")  # what is not there is not replaced
    np.save(tmp_path / "own.npy", X)
    hasher.encode(X[:9], out=tmp_path / "own.npy")  # a file of an unknown hasher, or of another program


def test_two_writers_do_not_mix(hasher, X, codes, tmp_path):
    def write_too(n_done, _):
        with pytest.raises(OSError, match="Another process writes the file"):
            hasher.encode(X, out=tmp_path / "a.npy")

    assert_array_equal(hasher.encode(X, out=tmp_path / "a.npy", progress=write_too), codes)


class Unread:
    """Samples in a file that nobody may read yet."""

    def __init__(self, X):
        self.shape, self.dtype = X.shape, X.dtype

    def __getitem__(self, where):
        raise AssertionError("read")

    __array__ = __getitem__


def test_bad_arguments_are_named_before_any_work(hasher, X, tmp_path):
    X, n_bytes = Unread(X), (len(X), 2)
    for options, error, message in (
        ({"batch_size": 0}, ValueError, "`batch_size` must be None or an int >= 1. Got 0 instead."),
        ({"batch_size": True}, ValueError, "`batch_size` must be None or an int >= 1. Got True instead."),
        ({"progress": 3}, TypeError, "`progress` must be None or callable. Got int instead."),
        ({"out": "codes.bin"}, ValueError, "`out` must be a path that ends with .npy, or an array. Got codes.bin"),
        ({"out": [1]}, ValueError, "`out` must be None, a path that ends with .npy, or a uint8 array of shape"),
        ({"out": np.empty(n_bytes)}, ValueError, f"{n_bytes}. Got float64 of shape {n_bytes} instead."),
        ({"out": np.empty((3, 2), np.uint8)}, ValueError, f"{n_bytes}. Got uint8 of shape (3, 2) instead."),
        ({"out": np.broadcast_to(np.uint8(0), n_bytes)}, ValueError, "that is read-only instead."),
        ({"out": tmp_path / "nowhere" / "a.npy"}, OSError, "Create the folder first"),
        ({"out": tmp_path / "folder.npy"}, OSError, "Is a directory"),
    ):
        (tmp_path / "folder.npy").mkdir(exist_ok=True)
        with pytest.raises(error) as caught:
            hasher.encode(X, **options)
        assert message in str(caught.value)
    with pytest.raises(NotFittedError):
        ITQHasher(12).encode(X, out=tmp_path / "a.npy")
    assert [path.name for path in tmp_path.iterdir()] == ["folder.npy"]


def test_the_file_of_the_samples_is_not_replaced(hasher, X, tmp_path, monkeypatch):
    np.save(tmp_path / "X.npy", X)
    (tmp_path / "link.npy").symlink_to("X.npy")
    monkeypatch.chdir(tmp_path)
    mapped = np.load("X.npy", mmap_mode="r")
    for samples, out in (
        (mapped, "X.npy"),
        (mapped[10:], tmp_path / "link.npy"),
    ):
        with pytest.raises(ValueError, match="`out` must not be the file of X"):
            hasher.encode(samples, out=out)
    assert_array_equal(np.load("X.npy"), X)


def test_a_feature_may_be_called_filename(X, tmp_path):
    frame = pd.DataFrame(X).rename(columns={0: "filename"}).rename(columns=str)
    hasher = ITQHasher(12, random_state=0).fit(frame)
    assert_array_equal(hasher.encode(frame, out=tmp_path / "a.npy"), hasher.encode(frame))


def test_slices_of_a_data_frame_keep_its_names(X, tmp_path):
    frame = pd.DataFrame(X[:300]).rename(columns="feature {}".format)
    hasher = ITQHasher(12, random_state=0).fit(frame)
    expected = hasher.encode(frame)  # a warning of missing names is an error here
    for options in ({"batch_size": 300}, {"progress": print}, {"out": tmp_path / "a.npy"}):
        assert_array_equal(hasher.encode(frame, **options), expected)
    with pytest.raises(ValueError, match="feature names"):
        hasher.encode(frame.rename(columns=str.upper), batch_size=100)


def test_blocks_that_are_data_frames_keep_their_names(X, tmp_path):
    frame = pd.DataFrame(X[:300]).rename(columns="feature {}".format)
    hasher = ITQHasher(12, random_state=0).fit(frame)
    blocks = [frame[:120], frame[120:120], frame[120:]]
    for options in ({}, {"batch_size": 64}, {"out": tmp_path / "a.npy"}):
        assert_array_equal(hasher.encode(iter(blocks), **options), hasher.encode(frame))
    with pytest.raises(ValueError, match="The feature names should match those that were passed during fit"):
        hasher.encode(iter([frame[:120], frame[frame.columns[::-1]]]))


def test_samples_that_do_not_suit_leave_nothing_behind(hasher, X, tmp_path):
    bad = X.copy()
    bad[5000, 3] = np.nan
    for samples, message in ((X[:, :5], "X has 5 features"), (iter([X[:, :5]]), "X has 5 features")):
        with pytest.raises(ValueError, match=message):
            hasher.encode(samples, out=tmp_path / "a.npy")
    for out in (None, np.empty((len(X), 2), np.uint8)):
        with pytest.raises(ValueError, match="contains NaN"):
            hasher.encode(bad, out=out)
    with pytest.raises(ValueError, match="must have values between"):
        hasher.encode(np.where(np.isnan(bad), np.float32(1e31), bad))
    for n_out, given in ((len(X) - 1, "more than 8,200"), (len(X) + 1, "8,201")):
        with pytest.raises(ValueError, match=f"`out` must have one entry per sample. .* for {given} samples"):
            hasher.encode(iter([X]), out=np.empty((n_out, 2), np.uint8))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "make", [lambda X: X[:0], lambda X: iter([X[:0]]), lambda X: iter([X[:0]] * 2), lambda X: iter([])]
)
def test_no_samples_are_refused(make, hasher, X, tmp_path):
    for options in ({}, {"batch_size": 3}, {"out": tmp_path / "a.npy"}, {"out": np.empty((0, 2), np.uint8)}):
        with pytest.raises(ValueError, match=r"(`X` must yield at least one sample|Found array with 0 sample\(s\))"):
            hasher.encode(make(X), **options)
    assert list(tmp_path.iterdir()) == []


def test_loaded_hashers_go_on_in_another_process(digits, tmp_path):
    names = ["ITQHasher", "KSHHasher", "SphericalHasher", "TALRHasher", "StructHashHasher"]
    hashers = {name: quick(name).fit(digits.X[:80], digits.y[:80]) for name in names}
    np.save(tmp_path / "X.npy", digits.X)
    for name, hasher in hashers.items():
        save(hasher, tmp_path / name)
        with pytest.raises(StopError):
            hasher.encode(digits.X, out=tmp_path / f"{name}.npy", batch_size=50, progress=stop_after(150))
    run_python(
        "import numpy as np; from skhash.persistence import load\n"
        f"for name in {names}: load(name).encode(np.load('X.npy'), out=name + '.npy', batch_size=50)",
        cwd=tmp_path,
    )
    for name, hasher in hashers.items():
        assert_array_equal(np.load(tmp_path / f"{name}.npy"), hasher.encode(digits.X, batch_size=50))


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL on this system")
def test_ten_kills_while_encoding(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40_000, 16), dtype=np.float32)
    np.save(tmp_path / "X.npy", X)
    hasher = ITQHasher(16, random_state=0).fit(X[:500])
    save(hasher, tmp_path / "hasher")
    log, out = tmp_path / "log", tmp_path / "codes.npy"
    n_killed, n_finished = 0, []
    log.touch()
    while not out.exists():
        process = start(encode_slowly, tmp_path / "hasher", tmp_path / "X.npy", out, 100, log)
        if n_killed < 10:
            before = log.read_bytes().count(b"\n")
            while log.read_bytes().count(b"\n") < before + 1 and process.is_alive():
                time.sleep(0.001)
            time.sleep(rng.uniform(0, 0.2))
            process.kill()
        process.join()
        n_killed += process.exitcode == -signal.SIGKILL
        part = tmp_path / "codes.npy.part"
        n_finished.append((part.stat().st_size - 128) // 200 if part.exists() else 400)
    assert n_killed == 10
    assert n_finished == sorted(set(n_finished))  # each run went on
    done = [int(line) for line in log.read_text().split()]
    assert len(set(done)) == len(done)  # what progress has told is not encoded again
    assert len(done) >= 400 - 10  # a kill may come after a slice is written and before it is told
    np.save(tmp_path / "expected.npy", hasher.encode(X, batch_size=100))
    assert out.read_bytes() == (tmp_path / "expected.npy").read_bytes()
