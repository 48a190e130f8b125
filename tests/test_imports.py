"""The rooms of the house: imports point one way, and heavy libraries wait until they are needed."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import skhash

HOUSE = Path(skhash.__file__).parent

# Each room may import itself and those above it; the engine knows torch and, but for files, no other room.
ROOMS = [
    "_compat",
    "_files",
    "_kernels",
    "_threads",
    "codes",
    "rows",
    "affinity",
    "metrics",
    "base",
    "engine",
    "hashers",
]
ROOMS += ["search", "displays", "callbacks", "datasets", "persistence", "comparison", "cli", "__main__"]
ALONE = {"_compat": set(), "_files": set(), "_kernels": set(), "_threads": set(), "engine": {"_files", "_threads"}}
modules = sorted(path for path in HOUSE.rglob("*.py") if path != HOUSE / "__init__.py")


def room_of(dotted):
    return dotted.split(".")[1] if "." in dotted else "hashers"  # the top level only passes the hashers on


def imported_rooms(path):
    """Rooms that a module imports, at its head or inside of functions."""
    names = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name} line {node.lineno}: imports are absolute"
            whole = node.module == "skhash"
            names += [f"skhash.{alias.name}" for alias in node.names] if whole else [node.module]
    rooms = {room_of(name) for name in names if name.split(".")[0] == "skhash"}
    return {room if room in ROOMS else "hashers" for room in rooms}


@pytest.mark.parametrize("path", modules, ids=lambda path: str(path.relative_to(HOUSE)))
def test_imports_point_one_way(path):
    room = path.relative_to(HOUSE).parts[0].removesuffix(".py")
    assert room in ROOMS, f"{room} is a new room: give it its place in ROOMS"
    allowed = {room} | ALONE[room] if room in ALONE else set(ROOMS[: ROOMS.index(room) + 1])
    assert imported_rooms(path) <= allowed


def test_the_house_is_at_most_two_folders_deep():
    assert max(len(path.relative_to(HOUSE).parts) for path in modules) <= 3


def loaded_by(statement):
    code = f"import sys\n{statement}\nprint(*sys.modules)"
    run = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


@pytest.mark.parametrize(
    "statement", ["import skhash", "import skhash.metrics", "from skhash import ITQHasher", "import skhash.displays"]
)
def test_heavy_libraries_are_loaded_at_first_use(statement):
    assert not loaded_by(statement) & {"torch", "cvxpy", "numba", "matplotlib"}


def test_every_public_name_is_there():
    assert set(skhash.__all__) <= set(dir(skhash))
    assert set(skhash.__all__) == {*skhash.hashers.__all__, "__version__"}
    assert skhash.hashers.__all__ == list(skhash.hashers._MODULES)
    for name in skhash.hashers.__all__:
        assert getattr(skhash, name) is getattr(skhash.hashers, name)
    for module in (skhash, skhash.hashers):
        with pytest.raises(AttributeError, match="no attribute 'NoHasher'"):
            module.NoHasher  # noqa: B018
