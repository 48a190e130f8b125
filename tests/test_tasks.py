"""Each task is defined once, in the Makefile: `.ci/run`, the workflows and the contributing pages name its targets."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
RECIPES = dict(re.findall(r"^(\w+):.*\n((?:\t.*\n| {4}.*\n)+)", MAKEFILE, flags=re.MULTILINE))
CALLERS = [ROOT / ".ci" / "run", *sorted((ROOT / ".github" / "workflows").glob("*.yml"))]
PAGES = [ROOT / "CONTRIBUTING.md", ROOT / "docs" / "contributing.rst"]


def commands(path):
    """Lines that a shell runs, without comments."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line.strip().removeprefix("- ").removeprefix("run: ").partition(" #")[0] for line in lines]


def targets(text):
    """Targets of the Makefile of this folder that `make` is called with."""
    found = re.findall(r"\bmake((?: [a-z]+\b(?!=))+)", text)
    return {target for names in found for target in names.split()}


def test_every_target_is_phony():
    (phony,) = re.findall(r"^\.PHONY: (.*)", MAKEFILE, flags=re.MULTILINE)
    assert phony.split() == list(RECIPES)


@pytest.mark.parametrize("path", CALLERS, ids=lambda path: path.name)
def test_continuous_integration_defines_no_task_of_its_own(path):
    tools = re.compile(r"(pytest|ruff|mypy|actionlint|twine|sphinx-build|pre-commit|python -m (pytest|build|sphinx))\b")
    assert [line for line in commands(path) if tools.match(line)] == []
    assert targets("\n".join(commands(path))) <= set(RECIPES)


def test_a_fresh_environment_is_given_all_that_must_be_green():
    lines = commands(ROOT / ".ci" / "run")
    assert targets("\n".join(lines)) == {"dependencies", "test", "slow", "bare", "lint", "docs"}
    assert 'python3 -m venv --upgrade-deps "$venv"' in lines


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_pages_of_contributors_name_every_target(path):
    assert targets(path.read_text(encoding="utf-8")) == set(RECIPES)


def test_the_recipe_of_conda_has_the_requirements_of_the_project():
    table = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    project, extras = table["project"], table["project"]["optional-dependencies"]
    recipe = (ROOT / ".ci" / "conda" / "recipe.yaml").read_text(encoding="utf-8")

    def listed(section):
        lines = re.search(rf"^  {section}:\n((?: {{4}}- .*\n)+)", recipe, flags=re.MULTILINE)[1]
        return re.findall(r"- ([\w-]+ >=[\d.]+)$", lines, flags=re.MULTILINE)

    def of_conda(names):
        return [name.replace(">=", " >=").replace("torch ", "pytorch ") for name in names]

    assert listed("host") == of_conda(table["build-system"]["requires"])
    assert listed("run") == of_conda(project["dependencies"])
    assert listed("run_constraints") == of_conda(extras["deep"] + extras["structhash"] + extras["tables"])
    assert f'python_min: "{project["requires-python"].removeprefix(">=")}"' in recipe
