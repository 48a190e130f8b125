"""The README: its commands, its code and its table of results."""

import re
from pathlib import Path

import pytest
from results import as_markdown, make_table, read_results, select

import skhash

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
DEEP = ["talr-mlp", "dtsh-mlp", "mihash-mlp", "greedyhash-mlp", "fastap-mlp"]
METHODS = [*DEEP, "talr", "sdh", "structhash", "cibhash", "itq"]


def blocks_of(language):
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def results_table():
    files = [
        ROOT / f"experiments/results/comparison/{name}.json" for name in ("usps", "mnist", "cifar_gist", "mirflickr")
    ]
    results = [result for file in files for result in read_results(file)]
    return as_markdown(make_table(select(results, {"method": METHODS, "nbits": ["32"]}), ["method"], ["ap"], "dataset"))


def test_it_is_short():
    assert len(README.splitlines()) <= 90


def test_the_table_of_methods_is_that_of_the_registry():
    _, methods = README.split("## Methods")
    rows = re.findall(r"^\| [a-z, ]+ \| ([^|]+) \| [A-Z`]", methods, flags=re.MULTILINE)
    assert sorted(name.lower() for row in rows for name in row.strip().split(", ")) == sorted(skhash.registry.METHODS)


def test_the_python_block_prints_the_average_precision_of_good_codes_and_finds_items(capsys):
    (code,) = blocks_of("python")
    names = {}
    exec(compile(code, "README.md", "exec"), names)
    score, found = capsys.readouterr().out.splitlines()
    label, value = score.split()
    assert label == "AP_T"
    assert 0.9 < float(value) <= 1
    assert names["codes"].shape == (1347, 32)
    assert found == "a query of class 2 finds items of the classes [2 2 2 2 2]"
    assert (names["y_db"][names["found"]] == names["y_query"][:, None]).mean() > 0.95


def test_the_results_are_those_of_the_experiments():
    assert results_table() in README


def test_one_command_runs_the_main_job_and_one_the_tests():
    main, tests = blocks_of("bash")
    assert main.endswith('pip install -c constraints.txt ".[all,progress]" && skhash compare digits --bits 16,32\n')
    assert tests.endswith('pip install -c constraints.txt -e ".[all,test,pretrained]" && pytest -q -n 2\n')


def test_the_makefile_has_the_test_command():
    install, run = re.search(r"(pip install -c \S+ -e \S+) && (pytest .*)\n", README).groups()
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert f"\ndependencies:\n\t{install}\n" in makefile.replace("$(EXTRAS)", "all,test,pretrained")
    assert f"\ntest:\n\t{run}\n" in makefile
    assert f"\nslow:\n\t{run} -m slow --dist worksteal\n" in makefile


@pytest.mark.parametrize("path", [".ci/run", ".github/workflows/tests.yml"])
def test_continuous_integration_runs_the_test_command_and_the_slow_tests(path):
    text = (ROOT / path).read_text(encoding="utf-8")
    assert "make dependencies EXTRAS=all,test,pretrained\n" in text
    assert re.search(r"^ *(- run: )?make test\n(.*\n)*? *(- run: )?make slow\b", text, flags=re.MULTILINE)


@pytest.mark.parametrize("target", re.findall(r"\]\(([^)]+)\)", README))
def test_links_lead_somewhere(target):
    assert (ROOT / target).exists()
