"""The tables of the documentation follow from the stored results."""

import importlib.util
from pathlib import Path

import pytest

EXPERIMENTS = Path(__file__).parents[1] / "experiments"


def load(name):
    spec = importlib.util.spec_from_file_location(f"experiments_{name}", EXPERIMENTS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


tables = load("tables")


@pytest.mark.parametrize("name", tables.TABLES)
def test_tables_of_the_comparison_follow_from_its_results(name):
    assert tables.make_table(tables.TABLES[name]) == (tables.FOLDER / name).read_text(encoding="utf-8")
