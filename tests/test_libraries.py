"""Optional libraries: imported, or an error that says what to install."""

import json
import sys

import pytest

from skhash._libraries import library


def test_a_library_is_imported():
    assert library("json", "json", "tests") is json
    assert library("json.decoder", "json", "tests") is json.decoder


def test_a_missing_library_is_named_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "absent.part", None)
    with pytest.raises(ImportError, match=r"^absent must be installed for tests: pip install absent\[all\]$"):
        library("absent.part", "absent[all]", "tests")


def test_a_library_that_fails_to_import_is_not_called_missing(tmp_path, monkeypatch):
    (tmp_path / "broken_library.py").write_text("raise ImportError('its own error')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ImportError, match=r"^its own error$"):
        library("broken_library", "broken", "tests")
