"""Files of earlier versions, of which tests/files keeps one of each kind."""

import importlib.util
from pathlib import Path

import pytest

HERE = Path(__file__).parent / "files"


def of_script(name):
    spec = importlib.util.spec_from_file_location(name, HERE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("version", sorted(path.parent.name for path in HERE.glob("*/expected.npz")))
def test_files_of_an_earlier_version_are_read_with_the_same_codes_and_neighbors(version):
    of_script("read").read(HERE / version)
