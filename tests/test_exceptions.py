"""Errors and warnings of skhash."""

import pickle
import warnings

import pytest

from skhash.exceptions import DegenerateCodesWarning, InvalidFileError


def test_invalid_file_error_names_the_file(tmp_path):
    error = InvalidFileError(tmp_path / "a.npz", "is cut short.")
    assert str(error) == f"{tmp_path / 'a.npz'} is cut short."
    assert error.path == str(tmp_path / "a.npz")
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.path) == (str(error), error.path)
    with pytest.raises(ValueError, match="is cut short"):
        raise error


def test_degenerate_codes_can_be_filtered():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("error")
        warnings.simplefilter("always", DegenerateCodesWarning)
        warnings.warn("bit 3 is constant", DegenerateCodesWarning, stacklevel=1)
    assert len(caught) == 1
