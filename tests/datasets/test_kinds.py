"""What a path names, by its ending and the beginning of the file."""

import numpy as np
import pytest

import skhash
from skhash.datasets.kinds import kind_of
from skhash.neighbors import HammingNeighbors
from skhash.persistence import save
from skhash.stores import to_parquet


def test_kinds_of_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SKHASH_DATA", str(tmp_path / "data"))
    (tmp_path / "data").mkdir()
    np.savez("data/mine.npz", X=np.ones((3, 2)))
    np.savez("codes.npz", codes=np.ones((3, 1), np.uint8), nbits=8)
    np.savez("X.npz", X=np.ones((3, 2)))
    to_parquet(np.ones((3, 1), np.uint8), "codes.parquet", nbits=8)
    save(HammingNeighbors().fit(np.eye(8, dtype=np.uint8)), "index.npz")
    for name, content in {"table": "path,height", "paths": "\ufeff Path;label", "bad": ""}.items():
        (tmp_path / f"{name}.CSV").write_text(f"{content}\n", encoding="utf-8")
    (tmp_path / "numbers.tsv").write_text("height\tpaths\n1\t2\n")
    (tmp_path / "damaged.npz").write_text("no archive")
    expected = {
        **dict.fromkeys(("mnist", "mirflickr", "mine", "mine.npz"), ("name", "samples")),
        "data": ("folder", "pictures"),
        "missing.PNG": ("picture", "pictures"),
        **dict.fromkeys(("table.CSV", "paths.CSV"), ("csv", "pictures")),
        **dict.fromkeys(("bad.CSV", "numbers.tsv", "missing.csv"), ("csv", "samples")),
        "codes.parquet": ("parquet", "codes"),
        "missing.parquet": ("parquet", "samples"),
        "codes.npz": ("npz", "codes"),
        **dict.fromkeys(("X.npz", "damaged.npz", "missing.npz"), ("npz", "samples")),
        "missing.npy": ("npy", "samples"),
        "index.npz": ("other", "index"),
        **dict.fromkeys(("talr", "16,32", ""), ("other", "samples")),
    }
    assert {path: tuple(kind_of(path)) for path in expected} == expected


@pytest.mark.parametrize("name", ["model", "model.safetensors"])
def test_a_hasher_is_no_index(name, tmp_path):
    save(skhash.LSHHasher(8, random_state=0).fit(np.eye(4)), tmp_path / name)
    assert kind_of(str(tmp_path / name)).holds == "samples"
