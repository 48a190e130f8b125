"""Files of finished results: found by their settings, named when damaged, and those of earlier versions."""

import json

import numpy as np
import pytest

from skhash.comparison import compare
from skhash.comparison.store import Record, Store

DIGITS = {"methods": ["lsh"], "nbits": [8], "n_seeds": 1}


def test_a_damaged_file_is_named(tmp_path):
    compare(**DIGITS, folder=tmp_path)
    path = next((tmp_path / "rows").iterdir())
    path.write_text("{")
    with pytest.raises(ValueError, match=f"{path.name} is not valid JSON"):
        compare(**DIGITS, folder=tmp_path)


def test_other_data_of_the_same_name_are_other_settings(own_file, tmp_path):
    options = DIGITS | {"folder": tmp_path / "out"}
    first = compare(own_file, **options)[0]
    np.savez(own_file, X=np.random.default_rng(1).standard_normal((600, 8)))
    assert compare(own_file, **options)[0][0].ap != first[0].ap


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
    record["row"] |= {"ap": 0.97, "ndcg": None, "error": None}
    candidates = {"settings": OLD_SETTINGS | {"tuning": "ap"}, "candidates": OLD_CANDIDATES}
    (tmp_path / "rows" / OLD_NAME.format("c4815c7dcbb5d290")).write_text(json.dumps(record))
    (tmp_path / "tuning" / OLD_NAME.format("2164e2e9de2570c6")).write_text(json.dumps(candidates))
    settings = Record.from_dict(record).settings
    assert settings.to_dict() == OLD_SETTINGS
    assert store.read_result(settings).ap == 0.97
    assert store.read_candidates(settings)[0].centers == {"alpha": 0.7}
    assert store.records()[0].to_dict()["settings"] == OLD_SETTINGS
