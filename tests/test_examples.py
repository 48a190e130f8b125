"""Examples: their form, and what the reproductions share. The build of the documentation runs every script."""

import ast
import importlib.util
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.utils import Bunch

from skhash import ITQHasher, StructHashHasher
from skhash.comparison import evaluate_hasher
from skhash.datasets import load_dataset

EXAMPLES = Path(__file__).parents[1] / "examples"
RECIPES, REPRODUCTIONS = (sorted((EXAMPLES / kind).glob("plot_*.py")) for kind in ("recipes", "reproductions"))
SCRIPTS = RECIPES + REPRODUCTIONS
RESULTS = sorted((EXAMPLES.parent / "experiments/results/reproductions").glob("*.json"))
MACHINE_PATH = re.compile(r"""["'\s=](/(work|home|root|tmp|mnt|Users)/|[A-Z]:\\)""")


def load_common():
    spec = importlib.util.spec_from_file_location("_common", EXAMPLES / "reproductions" / "_common.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


common = load_common()


def test_there_are_scripts():
    assert len(RECIPES) >= 5
    assert len(REPRODUCTIONS) >= 9


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_scripts_compile_and_begin_with_a_title(path):
    source = path.read_text(encoding="utf-8")
    compile(source, path.name, "exec")
    title, underline, blank, *rest = ast.get_docstring(ast.parse(source)).splitlines()
    assert underline == "=" * len(title)
    assert not blank
    assert rest
    assert source.count("\n# %%\n") >= 2
    assert not MACHINE_PATH.search(source)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_headings_are_underlined_in_full(path):
    for heading, underline in re.findall(r"^# (.+)\n# (-{3,})$", path.read_text(encoding="utf-8"), flags=re.MULTILINE):
        assert len(heading) == len(underline), heading


@pytest.mark.parametrize("path", REPRODUCTIONS, ids=lambda path: path.stem)
def test_reproductions_name_the_command_of_their_full_form(path):
    head = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    assert f"python examples/reproductions/{path.name} --full" in head
    assert re.search(r"about\s+\d+\s+minutes", head)
    (name,) = re.findall(r'^study = Study\("(\w+)"', path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert path.stem == f"plot_{name}"


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_stored_results_belong_to_a_reproduction(path):
    assert (EXAMPLES / "reproductions" / f"plot_{path.stem}.py").exists()
    assert all("dataset" in result for result in json.loads(path.read_text(encoding="utf-8")))


@pytest.fixture
def study(monkeypatch, tmp_path):
    """A study in its full form, with a file of its own."""
    monkeypatch.setattr(common, "ROOT", tmp_path)

    def make(*arguments):
        monkeypatch.setattr(sys, "argv", ["plot_it.py", *arguments])
        return common.Study("it", "A study")

    return make


def measured(calls):
    def function(dataset, seed, method):
        calls.append((dataset, seed, method))
        return {"ap": 0.5 + seed / 10, "ap_worst": 0.4, "ap_best": 0.9}

    return function


def test_the_small_form_stores_nothing(study, tmp_path):
    small, calls = study("--f=kernel.json"), []  # a notebook passes arguments of its own
    small.run(measured(calls), dataset=["digits"], seed=small.seeds, method=["itq", "lsh"])
    assert calls == [("digits", 0, "itq"), ("digits", 0, "lsh")]
    assert {row["dataset"] for row in small.measured} == {"digits"}
    assert not list(tmp_path.iterdir())


def test_an_interrupted_full_run_continues(study):
    calls = []
    for arguments in (["--only", "ITQ"], [], []):
        full = study("--full", "--seeds", "2", *arguments)
        full.run(measured(calls), dataset=["usps"], seed=full.seeds, method=["itq", "lsh"])
    assert calls == [("usps", seed, "itq") for seed in (0, 1)] + [("usps", seed, "lsh") for seed in (0, 1)]
    assert [row["ap"] for row in full.select(method="lsh")] == [0.5, 0.6]
    again = study("--full", "--seeds", "1", "--fresh", "--only", "lsh")
    again.run(measured(calls), dataset=["usps"], seed=again.seeds, method=["itq", "lsh"])
    assert calls[4:] == [("usps", 0, "lsh")]
    assert len(again.select()) == len(json.loads(again.path.read_text())) == 4


def test_a_table_shows_the_values_of_the_paper_beside_ours(study, capsys):
    full = study("--full", "--seeds", "2")
    full.run(
        lambda nbits, **setting: measured([])(**setting), dataset=["usps"], nbits=[16], seed=full.seeds, method=["itq"]
    )
    capsys.readouterr()
    paper = {"usps": {"itq": {16: 0.25}, "ksh": {}}, "isolet": {"itq": {16: 0.75}}}
    full.table("ap", ties=True, paper=paper, note="Other data.")
    usps, isolet, note, _ = capsys.readouterr().out.split("\n\n")
    cells = [re.split(r"\s{2,}", line.strip()) for line in usps.splitlines()]
    assert cells == [
        ["ap, usps", "16"],
        ["itq", "0.550 ± 0.071"],
        ["tie range", "0.400 to 0.900"],
        ["paper", "0.250"],
        ["ksh (paper)", "not available"],
    ]
    assert "0.750" in isolet
    assert note == "Other data."
    full.table(["ap", "ap_best"])
    assert capsys.readouterr().out.split()[:3] == ["usps", "ap", "ap_best"]


def test_rank_has_the_values_of_the_library():
    data = load_dataset("digits")
    expected = evaluate_hasher(ITQHasher(16, random_state=0), data)
    hasher = ITQHasher(16, random_state=0).fit(data.X_train)
    metrics = common.rank(hasher, data, ["ap", "ap_worst", "ap_at_9999", "ap_at_9999_retrieved"])
    assert metrics["ap"] == pytest.approx(expected["ap"], abs=1e-12)
    assert metrics["ap_worst"] == pytest.approx(expected["ap_worst"], abs=1e-12)
    # a cutoff behind the last item changes nothing, whatever the normalizer
    assert metrics["ap_at_9999"] == pytest.approx(metrics["ap"], abs=1e-12)
    assert metrics["ap_at_9999_retrieved"] == pytest.approx(metrics["ap"], abs=1e-12)


def test_rank_uses_the_weights_of_the_bits_by_default():
    data = load_dataset("digits")
    data = Bunch(**data | {"X_train": data.X_train[:200], "y_train": data.y_train[:200]})
    hasher = StructHashHasher(6, n_relevant=5, n_irrelevant=5, random_state=0)
    weighted = evaluate_hasher(hasher, data)
    assert common.rank(hasher, data, ["ap"])["ap"] == pytest.approx(weighted["ap"], abs=1e-12)
    assert common.rank(hasher, data, ["ap"], weighted=False)["ap"] != pytest.approx(weighted["ap"], abs=1e-6)


def test_a_zero_shot_split_shares_no_class():
    path = EXAMPLES / "reproductions" / "plot_hashnet_zero_shot.py"
    (function,) = (
        node
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if getattr(node, "name", "") == "zero_shot_split"
    )
    names = {"np": np, "Bunch": Bunch}
    exec(compile(ast.Module([function], []), path.name, "exec"), names)
    data = load_dataset("digits")
    split = names["zero_shot_split"](data, n_unseen=4, random_state=1)
    assert len(split.unseen) == 4
    assert set(split.y_query) == set(split.unseen)
    assert set(split.y_train) == set(range(10)) - set(split.unseen)
    assert len(split.X_train) == len(split.y_train)
    assert len(split.X_query) == len(split.y_query)
    assert split.X_database is data.X_database
    assert len(data.y_train) > len(split.y_train), "the given split is not changed"
