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
FIXTURES = Path(__file__).parent / "fixtures"

# Each part may import itself and those above it; ENGINE_FREE, ENGINE_NEEDS and LEAVES restrict some further.
PARTS = [
    *(
        "registry",
        "exceptions",
        "_compat",
        "_compiler",
        "_libraries",
        "_progress",
        "_threads",
        "_validation",
        "_ids",
        "codes",
        "functions",
        "unwrap",
        "persistence",
        "affinity",
    ),
    *("_encoding", "metrics", "base"),
    *(
        "engine",
        "hashers._ranking_lists",
        "hashers.shallow",
        "hashers.structhash",
        "hashers.deep",
        "hashers",
        "__init__",
    ),
    *(
        "neighbors",
        "dask",
        "mteb",
        "trec",
        "stores",
        "displays",
        "callbacks",
        "datasets",
        "comparison",
        "features",
        "onnx",
        "cli",
        "__main__",
    ),
]
ENGINE_FREE = {"hashers._ranking_lists", "hashers.shallow", "hashers.structhash"}
ENGINE_NEEDS = {"exceptions", "_compiler", "_libraries", "_threads", "_validation", "persistence"}
# they import no other part but exceptions and _compat
LEAVES = {"registry", "exceptions", "_compat", "_compiler", "_libraries", "_progress", "_threads"}
modules = {
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(PACKAGE.rglob("*.py"))
}


def part_of(module):
    """Name the part of a dotted module: the longest name in PARTS that it begins with."""
    name = module.partition(".")[2] or "__init__"
    return max((part for part in PARTS if f"{name}.".startswith(f"{part}.")), key=len)


@cache
def imported_modules(path):
    """List the skhash modules that a file imports, at its head or inside of functions; not for type checkers alone."""
    names, nodes = [], [ast.parse(path.read_text(encoding="utf-8"))]
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        nodes += ast.iter_child_nodes(node)
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name} line {node.lineno}: imports are absolute"
            dotted = [f"{node.module}.{alias.name}" for alias in node.names]
            names += [name if name in modules else node.module for name in dotted]
    return {name for name in names if name in modules}


@pytest.mark.parametrize("module", modules)
def test_imports_point_one_way(module):
    part = part_of(module)
    allowed = set(PARTS[: PARTS.index(part) + 1])
    allowed -= {"engine"} if part in ENGINE_FREE else set()
    allowed = {part, "_compat", "exceptions"} if part in LEAVES else allowed
    allowed = ENGINE_NEEDS | {part} if part == "engine" else allowed
    assert {part_of(name) for name in imported_modules(modules[module])} <= allowed


def test_no_import_cycle():
    graph = {module: imported_modules(path) - {module} for module, path in modules.items()}
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
    files |= {"pyproject.toml", "CHANGELOG.md", "CONTRIBUTING.md", "README.md", "SECURITY.md"}
    assert {path.split("/")[0] for path in output.splitlines()} == folders | files


def test_the_page_of_contributors_names_every_part():
    page = (PACKAGE.parent / "docs" / "contributing.rst").read_text(encoding="utf-8")
    parts = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert [part for part in sorted(parts - {"__init__", "__main__", "hashers"}) if f"``{part}" not in page] == []


def test_folders_are_at_most_two_deep():
    assert max(len(path.relative_to(PACKAGE).parts) for path in modules.values()) <= 3


def test_functions_are_short():
    for module, path in modules.items():
        if path.name in ("_kernels.py", "_listwise.py"):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                docstring = node.body[0] if ast.get_docstring(node) is not None else None
                n_documented = docstring.end_lineno - docstring.lineno + 1 if docstring else 0
                n_lines = node.end_lineno - node.lineno + 1 - n_documented
                assert n_lines <= 60, f"{module}.{node.name} has {n_lines} lines of code"


def test_the_imports_for_type_checkers_are_those_of_the_registry():
    for package in (skhash, skhash.hashers):
        tree = ast.parse(Path(package.__file__).read_text(encoding="utf-8"))
        found = {
            alias.name: f"{node.module}.{alias.name}"
            for block in ast.walk(tree)
            if isinstance(block, ast.If)
            for node in block.body
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        assert found == HASHERS


def test_every_place_in_plots_is_taken_once():
    assert sorted(method.style for method in METHODS.values()) == list(range(len(METHODS)))


HEAVY = {"torch", "cvxpy", "numba", "matplotlib"}
LOAD = f"from skhash.persistence import load; load({str(FIXTURES / 'format_2_itq.safetensors')!r})"
#: statements, one after another in one process, and what each of them must not load
LOADS = {
    "import skhash": HEAVY,
    "import skhash.registry": HEAVY,
    "import sklearn": HEAVY,  # loads scipy.stats itself
    "import skhash.metrics": HEAVY | {"scipy.stats"},
    LOAD: HEAVY | {"sklearn.decomposition", "skhash.neighbors"},
    "from skhash import ITQHasher": HEAVY,
    "import skhash.displays": HEAVY,
    "from skhash.displays import *": HEAVY,
    "import skhash.comparison": HEAVY,
    f"{LOAD}.encode([[0.0] * 64])": HEAVY - {"numba"},
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
    assert names <= {"skhash.registry", "skhash.hashers"}


def test_every_public_name_is_there():
    assert set(skhash.__all__) <= set(dir(skhash))
    assert set(skhash.__all__) == {*skhash.hashers.__all__, "__version__"}
    assert skhash.hashers.__all__ == list(HASHERS)
    for name in skhash.hashers.__all__:
        assert getattr(skhash, name) is getattr(skhash.hashers, name)
    for module in (skhash, skhash.hashers):
        with pytest.raises(AttributeError, match="no attribute 'NoHasher'"):
            module.NoHasher  # noqa: B018
