"""The parts of the package: imports point one way, without a cycle, and heavy libraries wait until they are needed."""

import ast
import subprocess
import sys
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import skhash
from skhash.registry import HASHERS, METHODS

PACKAGE = Path(skhash.__file__).parent
FILES = Path(__file__).parent / "files" / "0.1"

#: modules that all rooms may import, and that import each other alone; their underscore keeps them from users
GROUND = {"registry", "exceptions", "_compat", "_compiler", "_files", "_ids", "_libraries", "_progress", "_threads"}
GROUND |= {"_names", "_slices", "_validation"}
#: each room to the rooms that it may import beside GROUND; None: all that stand above it in this list
ROOMS: dict[str, set[str] | None] = {
    "codes": set(),
    "unwrap": {"codes"},
    "functions": {"codes"},
    "affinity": {"codes"},
    "metrics": {"codes", "unwrap", "affinity"},
    "persistence": {"codes", "unwrap", "functions", "affinity"},
    "base": None,
    "engine": set(),
    "functions.network": {"codes", "functions", "engine"},
    "hashers.ranking_lists": None,
    "hashers.shallow": None,
    "hashers.structhash": None,
    "hashers.deep": None,
    "hashers": None,
    "neighbors": None,
    "stores": None,
    "vectors": None,
    "__init__": None,
    "dask": None,
    "mteb": None,
    "trec": None,
    "features": None,
    "onnx": None,
    "datasets": None,
    "displays": None,
    "callbacks": None,
    "comparison": None,
    "testing": None,
    "cli": None,
    "__main__": None,
}
WITHOUT_ENGINE = {"hashers.ranking_lists", "hashers.shallow", "hashers.structhash"}
#: modules that import a class by a dotted name which is no constant: the registry's, or one of their own room
IMPORT_BY_NAME = {"registry", "_libraries", "__init__", "engine", "displays", "cli"}
modules = {
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(PACKAGE.rglob("*.py"))
}


def room_of(module):
    """Name the room of a dotted module: the longest name of a room that it begins with."""
    name = module.partition(".")[2] or "__init__"
    return max((room for room in (*GROUND, *ROOMS) if f"{name}.".startswith(f"{room}.")), key=len)


@cache
def imported_names(path, for_type_checkers=True):
    """Dotted names of skhash that a file imports: at its head, in functions, by ``import_module``, for type checkers.

    ``skhash.__version__`` is none of them: it is there before any module of skhash is.
    """
    names, nodes = [], [ast.parse(path.read_text(encoding="utf-8"))]
    while nodes:
        node = nodes.pop()
        is_for_types = isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        if is_for_types and not for_type_checkers:
            continue
        nodes += ast.iter_child_nodes(node)
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name} line {node.lineno}: imports are absolute"
            names += [f"{node.module}.{alias.name}" for alias in node.names]
        elif is_import_by_name(node) and isinstance(node.args[0], ast.Constant):
            names.append(node.args[0].value)
    return {name for name in names if f"{name}.".startswith("skhash.") and name != "skhash.__version__"}


def is_import_by_name(node):
    """Whether a node calls ``import_module``, under any name of it, or ``__import__``."""
    function = node.func if isinstance(node, ast.Call) else None
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return name in ("import_module", "__import__")


def module_of(name):
    """The module of a dotted name: itself, or the one that holds it."""
    return name if name in modules else name.rpartition(".")[0]


@pytest.mark.parametrize("module", modules)
def test_imports_point_one_way(module):
    room = room_of(module)
    found = {room_of(module_of(name)) for name in imported_names(modules[module])} - {room} - GROUND
    rooms = list(ROOMS)
    allowed = set() if room in GROUND else ROOMS[room]
    allowed = set(rooms[: rooms.index(room)]) if allowed is None else allowed
    allowed -= {"engine", "functions.network"} if room in WITHOUT_ENGINE else set()
    assert found <= allowed


@pytest.mark.parametrize("module", modules)
def test_an_underscore_is_for_its_own_room(module):
    room = room_of(module)
    private = set()
    for name in imported_names(modules[module]):
        other, parts = room_of(module_of(name)), name.split(".")[1:]
        if other != room and any(part.startswith("_") for part in parts[other in GROUND :]):
            private.add(name)
    assert private == set()


def test_classes_are_found_by_names_of_the_registry_alone():
    for module, path in modules.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if is_import_by_name(node) and not isinstance(node.args[0], ast.Constant):
                assert room_of(module) in IMPORT_BY_NAME, f"{module} line {node.lineno}"


def test_no_import_cycle():
    graph = {
        module: {module_of(name) for name in imported_names(path, for_type_checkers=False)} - {module}
        for module, path in modules.items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_the_top_level_has_only_what_belongs_there():
    folder = PACKAGE.parent
    if not (folder / ".git").exists():
        pytest.skip("this is not a checkout of git")
    output = subprocess.run(["git", "ls-files"], cwd=folder, capture_output=True, text=True, check=True).stdout
    folders = {".ci", ".github", "benchmarks", "docs", "examples", "experiments", "skhash", "tests"}
    files = {".gitignore", ".pre-commit-config.yaml", "CITATION.cff", "LICENSE", "Makefile", "constraints.txt"}
    files |= {".zenodo.json", "pyproject.toml", "CHANGELOG.md", "CONTRIBUTING.md", "README.md", "SECURITY.md"}
    assert {path.split("/")[0] for path in output.splitlines()} == folders | files


def test_the_page_of_contributors_names_every_part():
    page = (PACKAGE.parent / "docs" / "contributing.rst").read_text(encoding="utf-8")
    parts = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert [part for part in sorted(parts - {"__init__", "__main__", "hashers"}) if f"``{part}" not in page] == []


def test_folders_are_at_most_two_deep():
    assert max(len(path.relative_to(PACKAGE).parts) for path in modules.values()) <= 3


def test_functions_are_short():
    for module, path in modules.items():
        if path.stem.endswith("kernels") or path.name == "_listwise.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                docstring = node.body[0] if ast.get_docstring(node) is not None else None
                n_documented = docstring.end_lineno - docstring.lineno + 1 if docstring else 0
                n_lines = node.end_lineno - node.lineno + 1 - n_documented
                assert n_lines <= 100, f"{module}.{node.name} has {n_lines} lines of code"


def test_the_imports_for_type_checkers_are_those_of_the_registry():
    trees = [ast.parse(Path(module.__file__).read_text(encoding="utf-8")) for module in (skhash, skhash.hashers)]
    found = {
        alias.name: f"{node.module}.{alias.name}"
        for tree in trees
        for block in ast.walk(tree)
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.name != "*"
    }
    assert found == HASHERS


def test_every_place_in_plots_is_taken_once():
    assert sorted(method.style for method in METHODS.values()) == list(range(len(METHODS)))


HEAVY = {"torch", "cvxpy", "numba", "matplotlib"}
LOAD = f"from skhash.persistence import load; load({str(FILES / 'itq.safetensors')!r})"
FIT = """
import tempfile
from sklearn.datasets import load_digits
X, y = load_digits(return_X_y=True)
for optimizer in ("adam", "sgd"):
    hasher = skhash.TALRHasher(8, backbone="mlp", optimizer=optimizer, n_epochs=2, random_state=0)
    with tempfile.TemporaryDirectory() as folder:
        hasher.set_params(checkpoint=folder).fit(X[:200], y[:200]).fit(X[:200], y[:200], resume=True)
"""
#: statements, one after another in one process, and what each of them must not load
LOADS = {
    "import skhash": HEAVY,
    "import skhash.registry": HEAVY,
    "import sklearn": HEAVY,  # loads scipy.stats itself
    "import skhash.metrics": HEAVY | {"scipy.stats"},
    LOAD: HEAVY | {"sklearn.decomposition", "skhash.neighbors"},
    "from skhash import ITQHasher": HEAVY,
    "from skhash.hashers.deep import *": HEAVY,
    "from skhash import TALRHasher, CSQHasher, NSHHasher, TBHHasher, CIBHashHasher": HEAVY,
    "import skhash.displays": HEAVY,
    "from skhash.displays import *": HEAVY,
    "import skhash.comparison": HEAVY,
    "import skhash.vectors": HEAVY,
    f"{LOAD}[-1].encode([[0.0] * 64])": HEAVY - {"numba"},
    FIT: {"torch._dynamo"},
}


@pytest.fixture(scope="module")
def loaded():
    """The modules that each of the statements loads."""
    lines = ["import sys; before = set(sys.modules)"]
    for statement in LOADS:
        lines += [statement, "print(*set(sys.modules) - before); before = set(sys.modules)"]
    command = [sys.executable, "-W", "error", "-c", "\n".join(lines)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    return {statement: set(line.split()) for statement, line in zip(LOADS, run.stdout.splitlines(), strict=True)}


@pytest.mark.parametrize("statement", LOADS)
def test_heavy_libraries_are_loaded_at_first_use(statement, loaded):
    assert not loaded[statement] & LOADS[statement]


def test_the_registry_imports_nothing_of_the_package(loaded):
    names = {name for name in loaded["import skhash"] | loaded["import skhash.registry"] if name.startswith("skhash.")}
    assert names <= {"skhash.registry"}


def test_every_public_name_is_there():
    assert set(skhash.__all__) <= set(dir(skhash))
    assert set(skhash.__all__) == {*HASHERS, "__version__"}
    assert [*skhash.hashers.__all__, "EmbeddingHasher"] == sorted(HASHERS, key="EmbeddingHasher".__eq__)
    for name in skhash.hashers.__all__:
        assert getattr(skhash, name) is getattr(skhash.hashers, name)
    for module in (skhash, skhash.hashers):
        with pytest.raises(AttributeError, match="no attribute 'NoHasher'"):
            module.NoHasher  # noqa: B018
