"""Experiments: their scripts can be run as their docstrings say, and their stored results are consistent."""

import ast
import json
from pathlib import Path

import pytest

EXPERIMENTS = Path(__file__).parents[1] / "experiments"
SCRIPTS = sorted(EXPERIMENTS.glob("[a-z]*.py"))
RESULTS = sorted(EXPERIMENTS.glob("results/**/*.json"))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_docstrings_of_scripts_name_the_command(path):
    source = path.read_text(encoding="utf-8")
    assert f"python experiments/{path.name}" in ast.get_docstring(ast.parse(source))
    assert 'if __name__ == "__main__":\n    main()\n' in source


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_stored_results_are_consistent(path):
    content = json.loads(path.read_text(encoding="utf-8"))
    results = content["rows"] if isinstance(content, dict) else content
    assert results
    for result in results:
        for metric in ("ap", "ndcg"):
            if result.get(f"{metric}_worst") is not None:
                assert result[f"{metric}_worst"] <= result[metric] <= result[f"{metric}_best"]
    assert path.stat().st_size < 150_000
