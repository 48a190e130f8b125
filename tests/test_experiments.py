"""Experiments and benchmarks: their scripts can be imported, and the stored results are consistent."""

import ast
import importlib
import json
import sys
from pathlib import Path
from statistics import mean, stdev

import numpy as np
import pytest

EXPERIMENTS = Path(__file__).parents[1] / "experiments"
SCRIPTS = sorted(EXPERIMENTS.glob("[a-z]*.py"))
BENCHMARKS = sorted((EXPERIMENTS.parent / "benchmarks").glob("*.py"))
RESULTS = sorted(EXPERIMENTS.glob("results/**/*.json"))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_docstrings_of_scripts_name_the_command(path):
    source = path.read_text(encoding="utf-8")
    assert f"python experiments/{path.name}" in ast.get_docstring(ast.parse(source))
    assert 'if __name__ == "__main__":\n    main()\n' in source


@pytest.mark.parametrize("path", SCRIPTS + BENCHMARKS, ids=lambda path: path.stem)
def test_scripts_can_be_imported(path, monkeypatch):
    monkeypatch.syspath_prepend(str(path.parent))
    try:
        importlib.import_module(path.stem)
    except ModuleNotFoundError as error:
        if error.name.partition(".")[0] == "skhash":
            raise
        pytest.skip(f"{error.name} is not installed")


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_stored_results_are_consistent(path):
    content = json.loads(path.read_text(encoding="utf-8"))
    results = content["rows"] if isinstance(content, dict) else content
    assert results
    for result in results:
        for metric in ("ap", "ndcg"):
            if result.get(f"{metric}_worst") is not None:
                assert result[f"{metric}_worst"] <= result[metric] <= result[f"{metric}_best"]
        if "random" in result:  # AP of random orders of the ties
            bounds = ("ap_worst", "random_lowest", "random", "random_highest", "ap_best")
            assert sorted(bounds, key=result.get) == list(bounds)
            assert abs(result["random"] - result["ap"]) < result["random_spread"], "AP_T is the mean over all orders"
    assert path.stat().st_size < 150_000


def test_tables_of_published_values_follow_from_the_results(monkeypatch):
    pytest.importorskip("faiss")
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    comparators = importlib.import_module("comparators")
    results = json.loads(comparators.PATH.read_text(encoding="utf-8"))
    assert comparators.make_tables(results) == comparators.PATH.with_suffix(".md").read_text(encoding="utf-8")


def test_tables_of_embeddings_follow_from_the_results(monkeypatch):
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    tables = importlib.import_module("_embedding_tables")
    paths = [EXPERIMENTS / "results" / f"{name}.json" for name in ("embeddings", "embeddings_choice")]
    text = tables.make_tables(*(json.loads(path.read_text(encoding="utf-8")) for path in paths))
    assert text == paths[0].with_suffix(".md").read_text(encoding="utf-8")


def test_tables_of_late_interaction_follow_from_the_results(monkeypatch):
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    late = importlib.import_module("late_interaction")
    assert late.make_table(late.read(late.PATH)) == late.TABLE.read_text(encoding="utf-8")


def test_tables_of_defaults_follow_from_the_results(monkeypatch):
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    defaults = importlib.import_module("defaults")
    assert defaults.make_tables(defaults.read_all()) == defaults.TABLES.read_text(encoding="utf-8")


def test_tables_of_drift_follow_from_the_results(monkeypatch):
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    drift = importlib.import_module("drift")
    tables = drift.make_tables(json.loads(drift.PATH.read_text(encoding="utf-8")))
    paths = (drift.PATH.with_suffix(".md"), drift.FROZEN)
    assert tables == tuple(path.read_text(encoding="utf-8") for path in paths)


def test_tables_of_prefixes_follow_from_the_results(monkeypatch):
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    prefixes = importlib.import_module("prefixes")
    for path, make_table in ((prefixes.PATH, prefixes.make_table), (prefixes.BY_CLASSES, prefixes.make_class_table)):
        text = make_table(json.loads(path.read_text(encoding="utf-8")))
        assert text == path.with_suffix(".md").read_text(encoding="utf-8")


def test_the_table_of_neighbors_follows_from_the_results(monkeypatch):
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    neighbors = importlib.import_module("neighbors")
    assert neighbors.make_table() == neighbors.TABLE.read_text(encoding="utf-8")


def test_of_two_level_methods_both_are_bold(monkeypatch):
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    neighbors = importlib.import_module("neighbors")

    def compare(our, their, nbytes=16):
        rows = [("embedding-real", 16, our), ("pq", nbytes, their), ("opq", 32, [1.0] * 3)]
        return neighbors.compare_with_best(
            [
                {"method": method, "bytes_per_item": n, "seed": seed, "real_neighbor_recall_at_10": recall}
                for method, n, recalls in rows
                for seed, recall in enumerate(recalls)
            ],
            16,
        )

    assert compare([0.5, 0.6, 0.7], [0.4, 0.5, 0.6]) == ["**0.600 ± 0.100**", "0.500 ± 0.100 pq", "+0.100 ± 0.000"]
    assert compare([0.5, 0.5, 0.5], [0.6, 0.6, 0.6], 8)[:2] == ["0.500 ± 0.000", "**0.600 ± 0.000** pq, 8 bytes"]
    assert compare([0.5, 0.6, 0.7], [0.6, 0.6, 0.6])[:2] == ["**0.600 ± 0.100**", "**0.600 ± 0.000** pq"]
    assert compare([0.5, 0.6], [0.6, 0.6, 0.6]) is None  # two splits


def test_the_table_of_relaxations_follows_from_the_results(monkeypatch):
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    quality = importlib.import_module("quality")
    path = EXPERIMENTS / "results" / "relaxations.json"
    text = quality.make_table_of_relaxations(json.loads(path.read_text(encoding="utf-8")))
    assert text == path.with_suffix(".md").read_text(encoding="utf-8")


def test_the_table_of_query_views_follows_from_the_results(monkeypatch):
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    nsh = importlib.import_module("nsh")
    text = nsh.make_table_of_views(json.loads(nsh.QUERY_VIEWS.read_text(encoding="utf-8")))
    assert text == nsh.QUERY_VIEWS.with_suffix(".md").read_text(encoding="utf-8")


def test_the_table_of_the_cascade_follows_from_the_results(monkeypatch):
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    cascade = importlib.import_module("cascade")
    text = cascade.make_table(json.loads(cascade.PATH.read_text(encoding="utf-8")))
    assert text == cascade.PATH.with_suffix(".md").read_text(encoding="utf-8")


def test_the_table_of_memory_and_disk_follows_from_the_results(monkeypatch):
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    memory_and_disk = importlib.import_module("memory_and_disk")
    paths = memory_and_disk.PATH, EXPERIMENTS / "results" / "neighbors" / "wordnet.json"
    text = memory_and_disk.make_table(*(json.loads(path.read_text(encoding="utf-8")) for path in paths))
    assert text == memory_and_disk.PATH.with_suffix(".md").read_text(encoding="utf-8")


def test_the_table_of_services_follows_from_the_results(monkeypatch):
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    services = importlib.import_module("services")
    text = services.make_table(json.loads(services.PATH.read_text(encoding="utf-8")))
    assert text == services.PATH.with_suffix(".md").read_text(encoding="utf-8")


def test_the_table_of_a_new_model_follows_from_the_results(monkeypatch):
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    new_model = importlib.import_module("new_model")
    text = new_model.make_table(json.loads(new_model.PATH.read_text(encoding="utf-8")))
    assert text == new_model.PATH.with_suffix(".md").read_text(encoding="utf-8")


def grouped(name, *keys):
    """Results of a file by the values of some keys."""
    groups = {}
    for result in json.loads((EXPERIMENTS / "results" / name).read_text(encoding="utf-8")):
        groups.setdefault(tuple(result[key] for key in keys), []).append(result)
    return groups


def differences(results, others, metric):
    """Differences of a metric on the same splits, and the standard error of their mean."""
    of_others = {result["seed"]: result[metric] for result in others}
    values = [result[metric] - of_others[result["seed"]] for result in results]
    return mean(values), stdev(values) / len(values) ** 0.5


def test_tables_in_pages_follow_from_the_results():
    pages = {name: (EXPERIMENTS.parent / f"docs/methods/{name}.rst").read_text() for name in ("talr", "structhash")}
    for setting, results in grouped("smoothing.json", "data", "method", "objective", "smoothing").items():
        values = [result["ndcg" if result["objective"] == "ndcg" else "ap"] for result in results]
        assert f" {mean(values):.4f} ± {stdev(values):.4f}\n" in pages["talr"], setting
    losses = grouped("structhash_losses.json", "dataset", "method")
    for dataset in {dataset for dataset, _ in losses}:
        both = [losses[dataset, loss] for loss in ("ndcg loss", "auc loss")]
        cells = [f"{mean(v):.4f} ± {stdev(v):.4f}" for v in ([result["ndcg"] for result in loss] for loss in both)]
        cells.append("{:+.4f} ({:.4f})".format(*differences(*both, "ndcg")))
        cells.append(", ".join(f"{mean(result['hinge'] for result in results):.3f}" for results in both))
        assert "\n     - ".join(cells) + "\n" in pages["structhash"], dataset


def test_a_left_out_set_does_not_choose_its_settings(monkeypatch):
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    defaults = importlib.import_module("defaults")
    n_sets = len(defaults.SETS)
    aps = {"earlier": np.full(n_sets, 0.5), "other": np.full(n_sets, 0.48), "defaults": np.full(n_sets, 0.9)}
    aps["earlier"][0], aps["other"][0] = 0.1, 0.9
    # without the first set the earlier defaults are best, without another one the other candidate
    assert defaults.left_out_gain(aps) == pytest.approx(-0.02 * (n_sets - 1) / n_sets)


def test_differences_of_embeddings_are_paired_over_splits(monkeypatch):
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    tables = importlib.import_module("_embedding_tables")
    measured = {"learned_real": [0.5, 0.6, 0.9], "itq_real": [0.4, 0.3], "pq": [0.6, 0.8], "rabitq": [0.5]}
    results = [
        {"set": "mnist", "method": method, "nbits": 784 if method == "rabitq" else 64, "seed": seed, "r": value}
        for method, values in measured.items()
        for seed, value in enumerate(values)
    ]
    *_, line = tables.difference_table(results, "r", "R").splitlines()
    cells = ["MNIST", "8", "0.667 ± 0.120 (3)", "+0.200 ± 0.100 (2)", "**-0.150 ± 0.050 (2)**", "", "+0.000 (1)"]
    assert line == f"| {' | '.join(cells)} |"


def test_new_results_replace_those_of_the_same_measurement(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    module, path = importlib.import_module("_results"), tmp_path / "new" / "results.json"
    old = [{"task": task, "seed": seed, "ap": 0.25} for task in "ab" for seed in (0, 1)]
    new = [{"task": "a", "seed": 0, "ap": 0.5}]
    module.store(path, old, ("task", "seed"))
    module.store(path, new, ("task",))
    assert json.loads(path.read_text()) == old[2:] + new


def test_mean_text_shows_the_deviation_over_the_seeds_and_the_tie_range(monkeypatch):
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    module = importlib.import_module("_results")
    results = [{"ap": ap, "ap_worst": ap - 0.2, "ap_best": ap + 0.1, "ndcg": ap} for ap in (0.25, 0.75)]
    assert module.mean_text(results, digits=3) == "0.500 ± 0.354 (0.300 to 0.600)"
    assert module.mean_text(results[:1], "ndcg", digits=2) == "0.25"


def test_one_command_runs_all_reproductions(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    module = importlib.import_module("reproductions")
    scripts = module.find_scripts()
    assert list(scripts.values()) == sorted(scripts.values())
    assert {path.name for path in scripts} == {path.name for path in module.FOLDER.glob("plot_*.py")}
    paths = [tmp_path / name for name in ("plot_a.py", "plot_b.py", "plot_c.py")]
    for path in paths:
        fails = path.name == "plot_b.py"
        path.write_text(
            "import sys, pathlib\n"
            f"pathlib.Path('{path.stem}.txt').write_text(' '.join(sys.argv[1:]))\n"
            f"sys.exit({int(fails)})\n"
        )
    monkeypatch.chdir(tmp_path)
    assert module.run_scripts(paths, ["--only", "usps"]) == ["plot_b.py"]
    assert {path.with_suffix(".txt").read_text() for path in paths} == {"--full --only usps"}


def test_the_command_of_all_reproductions_refuses_unknown_options(monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    module = importlib.import_module("reproductions")
    monkeypatch.setattr(module, "run_scripts", lambda scripts, options: pytest.fail("ran"))
    monkeypatch.setattr(sys, "argv", ["reproductions.py", "--frehs"])
    with pytest.raises(SystemExit, match="2"):
        module.main()
    assert "unrecognized arguments: --frehs" in capsys.readouterr().err
