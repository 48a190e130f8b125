"""What all stores share: strings of bits, checks, and errors where a library is missing."""

import sys

import numpy as np
import pytest

from skhash import stores
from skhash.stores import bit_strings

LIBRARIES = {
    "to_duckdb": ("duckdb", "duckdb"),
    "to_faiss": ("faiss", "faiss-cpu"),
    "to_lancedb": ("pyarrow", "pyarrow"),
    "to_parquet": ("pyarrow", "pyarrow"),
    "to_pgvector": ("psycopg", r"psycopg\[binary\]"),
    "to_sqlite_vec": ("sqlite_vec", "sqlite-vec"),
    "to_usearch": ("usearch", "usearch"),
}


def test_bit_strings_of_bits_and_of_packed_codes():
    packed = np.array([[0b01101101, 0b10000000]], dtype=np.uint8)
    assert bit_strings([[0, 1, 1] * 3]) == bit_strings(packed, nbits=9) == ["011011011"]


@pytest.mark.parametrize("function", LIBRARIES)
def test_a_missing_library_is_named(function, monkeypatch):
    module, package = LIBRARIES[function]
    for name in [name for name in sys.modules if name.split(".")[0] == module]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    place = () if function in ("to_faiss", "to_usearch") else (None,)
    with pytest.raises(ImportError, match=f"{module} must be installed for {function}.*: pip install {package}"):
        getattr(stores, function)([[0, 1]], *place)


def test_a_library_that_fails_to_import_is_not_called_missing(tmp_path, monkeypatch):
    (tmp_path / "usearch").mkdir()
    (tmp_path / "usearch/__init__.py").write_text("raise ImportError('its own error')")
    for name in [name for name in sys.modules if name.split(".")[0] == "usearch"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ImportError, match=r"^its own error$"):
        stores.to_usearch([[0, 1]])


@pytest.mark.parametrize(
    ("store", "name", "module"), [("to_faiss", "FAISS", "faiss"), ("to_usearch", "usearch", "usearch")]
)
def test_stores_without_text_say_so(store, name, module):
    pytest.importorskip(module)
    with pytest.raises(
        ValueError, match=rf"`ids` must be ints in {name}\. Got text, such as 'a'\. Pass None, and keep"
    ):
        getattr(stores, store)([[0, 1], [1, 1]], ids=["a", "b"])


def test_the_list_is_complete():
    names = {name.removeprefix("to_") for name in stores.__all__ if name.startswith("to_")}
    assert names == {name.removeprefix("from_") for name in stores.__all__ if name.startswith("from_")}
    assert len(names) == 8
