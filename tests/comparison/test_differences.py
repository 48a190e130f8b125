"""Differences over queries: the interval, the test, Holm's correction, and the tables that show them."""

import csv
import io
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
from scipy.stats import permutation_test

from skhash.cli import main
from skhash.comparison import (
    Result,
    compare,
    csv_table,
    differences_table,
    find_differences,
    latex_table,
    read_results,
    write_report,
)
from skhash.comparison.differences import holm


def make_results(values, nbits=16):
    """Results from the values of the queries by method, one array for each seed."""
    return [
        Result(
            dataset="d_1",
            protocol="p",
            method=method,
            nbits=nbits,
            seed=seed,
            metrics={"ap": float(np.nanmean(of_queries))},
            per_query={"ap": np.asarray(of_queries, dtype=float)},
        )
        for method, of_method in values.items()
        for seed, of_queries in enumerate(of_method)
    ]


def few_draws():
    """Context manager: a tenth of the samples and sign flips, where neither decides what is tested."""
    return patch.multiple("skhash.comparison.differences", _N_DRAWS=999, _N_FLIPS=999)


def draw(rng, shift, n=(7, 5)):
    return [rng.random(k) + shift for k in n]


def test_p_values_are_those_of_all_sign_flips():
    rng = np.random.default_rng(0)
    values = {"a": draw(rng, 0.3), "b": draw(rng, 0.0)}
    (difference,) = find_differences(make_results(values))
    parts = [b - a for a, b in zip(values["a"], values["b"], strict=True)]
    weighted = np.concatenate([part / len(part) / 2 for part in parts])
    assert difference.mean == pytest.approx(weighted.sum())
    assert difference.spread == pytest.approx(np.std([part.mean() for part in parts], ddof=1))
    exact = permutation_test(  # 2 ** 12 flips
        (weighted, np.zeros(12)), lambda a, b, axis: (a - b).sum(axis), permutation_type="samples", n_resamples=np.inf
    )
    assert difference.p_value == pytest.approx(exact.pvalue, abs=0.015)
    assert (difference.method, difference.baseline, difference.n_splits, difference.n_queries) == ("b", "a", 2, 12)


def test_intervals_are_near_those_of_the_normal_distribution():
    rng = np.random.default_rng(1)
    values = {"a": draw(rng, 0.0, (4000, 1000)), "b": draw(rng, 0.1, (4000, 1000))}
    (difference,) = find_differences(make_results(values), baseline="a")
    parts = [b - a for a, b in zip(values["a"], values["b"], strict=True)]
    error = np.sqrt(sum(part.var(ddof=1) / len(part) for part in parts)) / 2  # splits count alike
    assert [difference.low, difference.high] == pytest.approx(
        difference.mean + 1.96 * error * np.array([-1, 1]), abs=0.2 * error
    )
    assert difference.is_significant


def test_queries_without_values_are_left_out():
    a, b = [0.5, np.nan, 0.25, 0.75], [0.25, 0.5, 0.25, np.nan]
    (difference,) = find_differences(make_results({"a": [a], "b": [b]}))
    assert (difference.method, difference.n_queries, difference.mean) == ("b", 2, -0.125)
    assert np.isnan(difference.spread)


def test_equal_methods_do_not_differ():
    a = [0.5, 0.25, 0.75]
    (difference,) = find_differences(make_results({"a": [a], "b": [a]}))
    assert (difference.mean, difference.low, difference.high, difference.p_value) == (0, 0, 0, 1)


def test_methods_without_all_splits_of_the_baseline_are_left_out():
    rng = np.random.default_rng(0)
    results = make_results({"a": draw(rng, 0.5), "b": draw(rng, 0.2), "c": draw(rng, 0.0)})
    assert [each.method for each in find_differences(results[:3] + results[4:])] == ["c"]
    flat = [dict(result) for result in results]  # as in results.json
    assert find_differences(flat) == []
    assert differences_table([]) == ""
    failed = Result(method="a", nbits=16, seed=0, metrics={"ap": None}, error="no")
    assert find_differences([*results[2:], failed], baseline="a") == []
    assert find_differences(make_results({"a": [[0.5]], "b": [[0.75]]})) == []  # of a single query


def test_splits_with_the_same_queries_count_them_once():
    rng = np.random.default_rng(0)
    values = {"a": [rng.random(40) + 0.1 for _ in range(3)], "b": [rng.random(40) for _ in range(3)]}
    fixed = [replace(result, protocol="mirflickr") for result in make_results(values)]
    (difference,) = find_differences(fixed)
    averaged = make_results({name: [np.mean(of_method, axis=0)] for name, of_method in values.items()})
    (expected,) = find_differences(averaged)
    assert (difference.n_splits, difference.n_queries) == (3, 40)
    assert (difference.mean, difference.p_value) == (pytest.approx(expected.mean), expected.p_value)


def test_a_method_that_failed_in_a_split_or_has_no_values_hides_no_others():
    rng = np.random.default_rng(0)
    results = make_results({"best": draw(rng, 0.5), "b": draw(rng, 0.2), "c": draw(rng, 0.0)})
    nothing = replace(results[-1], method="d", per_query={"ap": np.full(5, np.nan)})
    failed = Result(dataset="d_1", protocol="p", method="best", nbits=16, seed=1, metrics={"ap": None}, error="no")
    (difference,) = find_differences([results[0], failed, *results[2:], nothing])
    assert (difference.method, difference.baseline) == ("c", "b")


def test_a_data_set_without_the_baseline_has_no_differences(tmp_path):
    results = make_results({"a": [[0.5, 0.25]], "b": [[0.25, 0.5]]})
    others = [replace(result, dataset="other") for result in make_results({"c": [[0.5, 0.25]]})]
    assert ",other," not in csv_table([*results, *others], baseline="a")
    write_report(tmp_path, [*results, *others], baseline="a")
    with pytest.raises(ValueError, match="`baseline` must be one of a, b, c"):
        latex_table([*results, *others], baseline="d")


def test_a_baseline_must_be_compared():
    with pytest.raises(ValueError, match="`baseline` must be one of a, b"):
        find_differences(make_results({"a": [[0.5]], "b": [[0.25]]}), baseline="c")


def test_each_number_of_bits_has_its_best_method():
    rng = np.random.default_rng(0)
    results = make_results({"a": draw(rng, 1), "b": draw(rng, 0)}, 32) + make_results(
        {"a": [[0.5, 0]], "b": [[0.75, 0]]}, 8
    )
    assert [(each.nbits, each.baseline) for each in find_differences(results)] == [(8, "b"), (32, "a")]


@pytest.mark.parametrize(
    ("p_values", "corrected"),
    [([0.01, 0.04, 0.03], [0.03, 0.06, 0.06]), ([0.2], [0.2]), ([0.9, 0.5], [1, 1]), ([], [])],
)
def test_holm_follows_its_definition(p_values, corrected):
    assert holm(p_values) == pytest.approx(np.array(corrected))


def test_draws_depend_on_the_seed_alone():
    results = make_results({"a": draw(np.random.default_rng(0), 0.1), "b": draw(np.random.default_rng(1), 0.0)})
    assert find_differences(results) == find_differences(results) != find_differences(results, random_state=1)


@pytest.mark.slow
def test_the_size_of_the_test_and_the_cover_of_intervals_are_as_stated():
    rng = np.random.default_rng(0)
    with few_draws():
        trials = [find_differences(make_results({"a": draw(rng, 0, (60, 40)), "b": draw(rng, 0, (60, 40))}), "ap", "a")
                  for _ in range(2000)]  # fmt: skip
    assert np.mean([each.is_significant for (each,) in trials]) == pytest.approx(0.05, abs=0.01)
    assert np.mean([each.low <= 0 <= each.high for (each,) in trials]) == pytest.approx(0.95, abs=0.015)


METRICS = ["ap", "ndcg_at_10", "precision_at_5", "recall_at_100"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Files of skhash compare with the formats."""
    folder = tmp_path_factory.mktemp("formats")
    options = ["--metrics", ",".join(METRICS), "--methods", "itq,lsh,pca", "--bits", "8,16", "--seeds", "2"]
    with few_draws():
        assert main(["compare", "digits", *options, "--out", str(folder), "--format", "latex,csv"]) == 0
    return folder


def test_csv_has_the_metrics_that_were_asked_for(folder):
    lines = list(csv.DictReader(io.StringIO((folder / "results.csv").read_text(encoding="utf-8"))))
    results = read_results(folder)
    assert {(line["method"], int(line["nbits"]), line["metric"]) for line in lines} == {
        (result.method, result.nbits, metric) for result in results for metric in METRICS
    }
    assert len(lines) == 24
    with few_draws():
        found = {metric: find_differences(results, metric) for metric in METRICS}
    for line in lines:
        key = line["method"], int(line["nbits"])
        values = [result[line["metric"]] for result in results if (result.method, result.nbits) == key]
        assert float(line["mean"]) == pytest.approx(np.mean(values))
        assert float(line["std"]) == pytest.approx(np.std(values, ddof=1))
        own = [each for each in found[line["metric"]] if (each.method, each.nbits) == key]
        assert (line["p_value"] == "") == (own == [])
        if own:
            assert float(line["p_value"]) == own[0].p_value
            assert float(line["low"]) <= float(line["difference"]) <= float(line["high"])


def test_latex_has_the_metrics_that_were_asked_for(folder):
    lines = (folder / "results.tex").read_text(encoding="utf-8").splitlines()
    assert lines[1] == r"\begin{table}"
    assert lines[3].startswith(r"\caption{digits, protocol 'holdout': 359 queries against 1,438 database samples")
    assert r"Means over 2 seeds, $\pm$ their standard deviation. Bold: the best mean" in lines[3]
    assert lines[4] == r"\begin{tabular}{lrllll}"
    assert lines[6] == r"method & bits & AP$_T$ & NDCG$_T$@10 & Precision@5 & Recall@100 \\"
    body = [line.removesuffix(r" \\").split(" & ") for line in lines if line.startswith(("itq", "lsh", "pca"))]
    assert [cells[:2] for cells in body] == [[name, bits] for bits in ("8", "16") for name in ("itq", "lsh", "pca")]
    results = read_results(folder)
    itq = [result["ap"] for result in results if (result.method, result.nbits) == ("itq", 16)]
    assert rf"{np.mean(itq):.3f} $\pm$ {np.std(itq, ddof=1):.3f}" in body[3][2]
    assert r"\textbf{" in body[3][2]
    assert body[4][2].endswith(r"$^\dagger$")  # lsh
    assert lines[-2:] == [r"\end{tabular}", r"\end{table}"]
    assert r"\bottomrule" in lines


def test_latex_escapes_names_and_marks_missing_values():
    results = make_results({"own_method": [[0.5]]})
    failed = {"ap": None}
    text = latex_table([*results, Result(dataset="d_1", protocol="p", method="50%", nbits=16, seed=0, metrics=failed)])
    assert "own\\_method & 16 & \\textbf{0.500} \\\\" in text
    assert "50\\% & 16 & -- \\\\" in text


def test_tables_show_tie_ranges():
    results = compare(methods=["itq"], nbits=[8], n_seeds=1)[0]
    (ap, *_) = csv.DictReader(io.StringIO(csv_table(results)))
    assert (float(ap["worst"]), float(ap["best"])) == (results[0]["ap_worst"], results[0]["ap_best"])


def test_reports_have_the_differences(folder, tmp_path):
    results = read_results(folder)
    with few_draws():
        write_report(tmp_path, results, baseline="lsh")
        assert main(["report", str(folder), "--format", "csv", "--baseline", "pca"]) == 0
    markdown = (tmp_path / "results.md").read_text(encoding="utf-8")
    assert "| itq    | 16   | lsh     | +" in markdown
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<h3>Differences over queries</h3>" in page
    assert "718 queries, 2 splits." in page
    assert not (tmp_path / "results.csv").exists()
    assert ",pca," in (folder / "results.csv").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--format", "excel", "--out", "x"], "`formats` must be csv or latex. Got 'excel' instead."),
        (["--format", "csv"], "--format needs --out FOLDER, where it writes the tables."),
        (["--baseline", "talr", "--task", "neighbors"], "--baseline must be one of embedding, itq, pq, "),
        (["--baseline", "sdh"], "--baseline must be one of talr, itq, lsh. Got 'sdh' instead."),
    ],
)
def test_options_are_checked_before_any_work(options, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["compare", "digits", *options]) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
