"""Files of finished results: found by their settings, named when damaged, and those of earlier versions."""

import json
import os
import shutil

import numpy as np
import pytest
from _helpers import without_times

from skhash.comparison import METRICS, compare
from skhash.comparison.store import Record, Store, read_candidates, read_record
from skhash.datasets import load_dataset
from skhash.exceptions import InvalidFileError

DIGITS = {"methods": ["lsh"], "nbits": [8], "n_seeds": 1}


def test_other_data_of_the_same_name_are_other_settings(own_file, tmp_path):
    options = DIGITS | {"folder": tmp_path / "out"}
    first = compare(own_file, **options)[0]
    np.savez(own_file, X=np.random.default_rng(1).standard_normal((600, 8)))
    assert compare(own_file, **options)[0][0].ap != first[0].ap


def test_other_training_samples_outside_of_the_database_are_other_settings(tmp_path):
    rng, y = np.random.default_rng(0), np.repeat(np.arange(8), 10)
    X, file = rng.standard_normal((80, 4)), tmp_path / "mine.npz"
    options = {"protocol": "unseen", "methods": ["pca"], "nbits": [4], "n_seeds": 1, "folder": tmp_path / "out"}
    np.savez(file, X=X, y=y)
    before = compare(file, **options)[0][0]
    seen = np.isin(y, load_dataset(file, protocol="unseen").y_train)
    np.savez(file, X=np.where(seen[:, None], rng.standard_normal((80, 4)), X), y=y)
    assert compare(file, **options)[0][0].codes_sha256 != before.codes_sha256


def test_a_file_as_a_folder_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError, match=r"must be a folder\. Got the file .*file instead"):
        Store(tmp_path / "file")


def test_without_a_folder_nothing_is_stored(results):
    assert Store().records() == []


# a file of the first version: name and content
OLD_NAME = "usps_5k_fastap-mlp_32_0_{}.json"
OLD_SETTINGS = {
    "dataset": "usps",
    "protocol": "5k",
    "description": "usps, protocol '5k': 1,000 queries against 8,298 database rows, 5,000 of them for training; "
    "relevance = same class.",
    "data": "5e29e25090fbaeb2aa39da623ac9604e",
    "method": "fastap-mlp",
    "nbits": 32,
    "seed": 0,
    "class": "TALRHasher",
    "method_parameters": {"objective": "fastap", "backbone": "mlp"},
    "tuning": {"budget": 4, "figure": "ap"},
    "versions": {
        "python": "3.11.7",
        "skhash": "0.1.0.dev0",
        "numpy": "2.4.6",
        "scipy": "1.17.1",
        "scikit-learn": "1.9.1",
        "torch": "2.13.0+cpu",
        "numba": "0.68.1",
        "cvxpy": "1.9.3",
    },
}
OLD_CANDIDATES = [{"parameters": {}, "score": 0.97, "error": None, "centres": {"alpha": 0.7}, "seconds": 19.6}]


def test_files_of_earlier_versions_are_found_and_read(tmp_path):
    store = Store(tmp_path)
    record = {"settings": OLD_SETTINGS, "command": None, "finished": "2026-11-20T22:59:21.666859+00:00"}
    record["row"] = {key: OLD_SETTINGS[key] for key in ("dataset", "protocol", "method", "nbits", "seed")}
    record["row"] |= dict.fromkeys(METRICS, 0.97) | {"fit_seconds": 19.6, "codes_per_second": 1e6, "error": None}
    candidates = {"settings": OLD_SETTINGS | {"tuning": "ap"}, "candidates": OLD_CANDIDATES}
    (tmp_path / "rows" / OLD_NAME.format("c4815c7dcbb5d290")).write_text(json.dumps(record))
    (tmp_path / "tuning" / OLD_NAME.format("2164e2e9de2570c6")).write_text(json.dumps(candidates))
    settings = Record.from_dict(record).settings
    assert settings.to_dict() == OLD_SETTINGS
    assert store.read_result(settings).ap == 0.97
    assert store.read_candidates(settings)[0].centers == {"alpha": 0.7}
    assert store.records()[0].to_dict()["settings"] == OLD_SETTINGS


# --- damaged files


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """The folder of a tuned comparison, and its results."""
    folder = tmp_path_factory.mktemp("stored")
    options = {"methods": ["itq-cca"], "nbits": [8], "n_seeds": 1, "tune": 2}
    return folder, options, compare(**options, folder=folder)[0]


@pytest.fixture
def copy(stored, tmp_path):
    """A copy of that folder, its options, and the files of the result and of its candidates."""
    folder = shutil.copytree(stored[0], tmp_path / "copy")
    (row,), (tuning,) = (folder / "rows").iterdir(), (folder / "tuning").iterdir()
    return folder, stored[1] | {"folder": folder}, row, tuning


def edit(change):
    """A damage that changes the values of a file and keeps its checksum."""

    def damage(path):
        values = json.loads(path.read_text())
        change(values)
        path.write_text(json.dumps(values))

    return damage


def forge(change):
    """A damage that no checksum shows, since it is gone."""

    def with_change(values):
        del values["sha256"]
        change(values)

    return edit(with_change)


DAMAGES = {
    "empty": lambda path: path.write_bytes(b""),
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-40]),
    "no text": lambda path: path.write_bytes(b"\xff\xfe\x00"),
    "nested": lambda path: path.write_text("[" * 200_000),
    "a list": lambda path: path.write_text("[]"),
    "foreign": lambda path: path.write_text('{"a": 1}'),
    "large": lambda path: path.write_text('{"a": "' + "a" * (1 << 23) + '"}'),
    "a digit": edit(lambda values: values["settings"].update(seed=7)),
    "the name of the checksum": edit(lambda values: values.update(sha257=values.pop("sha256"))),
    "half of a character": edit(lambda values: values["settings"].update(description="\ud800")),
    "settings": forge(lambda values: values.update(settings=[])),
    "no settings": forge(lambda values: values.pop("settings")),
    "no data": forge(lambda values: values["settings"].pop("data")),
    "more settings": forge(lambda values: values["settings"].update(more=1)),
    "seed": forge(lambda values: values["settings"].update(seed=True)),
    "tuning": forge(lambda values: values["settings"].update(tuning=3)),
    "tuned metric": forge(lambda values: values["settings"].update(tuning={"budget": 4, "figure": "x"})),
}


def of_row(**change):
    return forge(lambda values: values["row"].update(change))


OF_RESULTS = DAMAGES | {
    "no result": forge(lambda values: values.update(row=None)),
    "date": forge(lambda values: values.update(finished="yesterday")),
    "command": forge(lambda values: values.update(command=1)),
    "another seed": of_row(seed=7),
    "bits": of_row(nbits=2**70),
    "metric": of_row(ap=1.5),
    "text": of_row(ap="0.5"),
    "infinite": of_row(seconds=float("inf")),
    "missing metric": of_row(ndcg=None),
    "missing time": of_row(fit_seconds=None),
    "no metrics": of_row(ap=None),
    "curves": of_row(curves={"ranks": [1]}),
    "short curves": of_row(
        curves={key: [1.0] for key in ("ranks", "rank_precision", "radius_precision", "radius_recall")}
    ),
    "parameters": of_row(parameters=[1]),
}
OF_CANDIDATES = DAMAGES | {
    "candidates": forge(lambda values: values.update(candidates=1)),
    "candidate": forge(lambda values: values["candidates"].append(1)),
    "score": forge(lambda values: values["candidates"][0].update(score="0.5")),
    "centers": forge(lambda values: values["candidates"][0].update(centers={"a": "b"})),
    "unknown": forge(lambda values: values["candidates"][0].update(unknown=1)),
}


@pytest.mark.parametrize("name", OF_RESULTS)
def test_a_damaged_result_is_named(copy, name):
    folder, _, path, _ = copy
    before = read_record(path)
    OF_RESULTS[name](path)
    with pytest.raises(InvalidFileError, match=f"^{path} is damaged: .*Delete it, or run the comparison again"):
        read_record(path)
    with pytest.raises(InvalidFileError, match=f"^{path} is damaged"):
        Store(folder).records()
    with pytest.warns(UserWarning, match=f"^{path} is damaged: .*It is left out"):
        assert Store(folder).intact_records() == []
    with pytest.warns(UserWarning, match=f"^{path} is damaged: .*Its content is computed again"):
        assert Store(folder).read_result(before.settings) is None


@pytest.mark.parametrize("name", OF_CANDIDATES)
def test_damaged_candidates_are_named(copy, name):
    folder, _, row, path = copy
    settings = read_record(row).settings
    assert len(Store(folder).read_candidates(settings)) == len(read_candidates(path)) == 2
    OF_CANDIDATES[name](path)
    with pytest.warns(UserWarning, match=f"^{path} is damaged: .*Its content is computed again"):
        assert Store(folder).read_candidates(settings) == []


def test_damaged_files_are_computed_again(copy, stored):
    _, options, *paths = copy
    before = [path.read_bytes() for path in paths]
    for path in paths:
        path.write_bytes(path.read_bytes()[:100])
    with pytest.warns(UserWarning, match="is damaged") as seen:
        results = compare(**options)[0]
    assert [str(path) in str(warning.message) for path, warning in zip(paths, seen, strict=True)] == [True, True]
    assert without_times(results) == without_times(stored[2])
    assert [len(path.read_bytes()) > 0.9 * len(old) for path, old in zip(paths, before, strict=True)] == [True, True]
    assert without_times(compare(**options)[0]) == without_times(results)


def test_a_copy_of_a_result_is_not_counted_twice(copy):
    folder, _, path, _ = copy
    shutil.copy(path, path.with_name("copy.json"))
    with pytest.raises(InvalidFileError, match=rf"copy\.json is a copy of {path.name}.*Delete the copy"):
        Store(folder).records()


def test_what_is_not_a_file_is_not_waited_for(copy):
    folder, options, path, _ = copy
    for make in (os.mkfifo, os.mkdir):
        path.unlink()
        make(path)
        for read in (Store(folder).records, lambda: compare(**options)):
            with pytest.raises(InvalidFileError, match=f"^{path} must be a regular file. Move"):
                read()
        if make is os.mkdir:
            path.rmdir()
