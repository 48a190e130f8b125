"""The tables of the documentation: means, ranges, order and bold cells, by hand."""

import json

import pytest
from results import Cell, as_markdown, make_table, read_results, select


def results_of(task, method, aps, **more):
    return [
        {"task": task, "method": method, "nbits": 16, "seed": seed, "ap": ap, "ap_worst": ap - 0.1, "ap_best": ap + 0.1}
        | more
        for seed, ap in enumerate(aps)
    ]


@pytest.fixture
def results():
    return [
        *results_of("a", "itq", [0.25, 0.75]),
        *results_of("a", "lsh", [0.25]),
        *results_of("b", "lsh", [0.5]),
        *results_of("b", "itq", [0.125]),
    ]


def test_one_line_per_combination_with_the_best_of_each_group(results):
    table = make_table(results, ["task", "method", "nbits"], ["ap", "tie_range"], best_within=["task"])
    assert table == [
        [Cell("task"), Cell("method"), Cell("bits"), Cell("AP_T"), Cell("tie range")],
        [Cell("a"), Cell("itq"), Cell("16"), Cell("0.500 ± 0.354", best=True), Cell("0.400 to 0.600")],
        [Cell("a"), Cell("lsh"), Cell("16"), Cell("0.250"), Cell("0.150 to 0.350")],
        [Cell("b"), Cell("lsh"), Cell("16"), Cell("0.500", best=True), Cell("0.400 to 0.600")],
        [Cell("b"), Cell("itq"), Cell("16"), Cell("0.125"), Cell("0.025 to 0.225")],
    ]


def test_random_orders_have_their_own_deviation():
    rows = results_of("a", "itq", [0.25, 0.75], random=0.5, random_spread=0.0125)
    assert make_table(rows, ["task"], ["random"])[1] == [Cell("a"), Cell("0.500 ± 0.013")]


def test_means_within_two_standard_errors_are_bold():
    """Differences per seed: 0.01, 0.02, 0.03 have standard error 0.0058, and 0.01, 0.02, 0.06 have 0.0153."""
    best = [0.5, 0.6, 0.7]
    results = [
        *results_of("a", "itq", best),
        *results_of("a", "near", [0.49, 0.58, 0.64]),
        *results_of("a", "far", [0.49, 0.58, 0.67]),
        *results_of("a", "other seeds", best[:2]),
        *results_of("b", "one seed", [0.9]),
        *results_of("b", "below", [0.899]),
    ]
    table = make_table(results, ["task", "method"], ["ap"], best_within=["task"])
    assert {line[1].text: line[2].best for line in table[1:]} == {
        "itq": True,
        "near": True,
        "far": False,
        "other seeds": False,
        "one seed": True,
        "below": False,
    }


def test_equal_printed_means_are_both_best(results):
    column = [line[-1].best for line in make_table(results, ["task", "method"], ["ap"])[1:]]
    assert column == [True, False, True, False]


def test_one_column_per_value(results):
    table = make_table(results, ["task"], ["ap_and_range"], across="method")
    assert [cell.text for cell in table[0]] == ["task", "itq", "lsh"]
    assert [cell.text for cell in table[1]] == ["a", "0.500 ± 0.354 (0.400 to 0.600)", "0.250 (0.150 to 0.350)"]


def test_the_best_of_a_column_and_of_a_line_differ():
    results = [*results_of("a", "itq", [0.1]), *results_of("a", "lsh", [0.2]), *results_of("b", "lsh", [0.3])]
    best_of_columns = make_table(results, ["task"], ["ap"], across="method")
    best_of_lines = make_table(results, ["task"], ["ap"], across="method", best_in_line=True)
    assert [[cell.best for cell in line[1:]] for line in best_of_columns[1:]] == [[True, False], [False, True]]
    assert [[cell.best for cell in line[1:]] for line in best_of_lines[1:]] == [[False, True], [False, True]]
    assert best_of_lines[2][1] == Cell("")  # nothing was measured there


def test_conditions_select_results_and_order_them(results):
    chosen = select(results, {"task": ["b", "a"], "method": ["lsh"], "nbits": ["16"]})
    assert [result["task"] for result in chosen] == ["b", "a"]
    assert select(results, {"task": ["c"]}) == []


def test_results_are_read_in_their_order(tmp_path, results):
    (tmp_path / "results.json").write_text(json.dumps(results))
    assert read_results(tmp_path / "results.json") == results


def test_markdown(results):
    table = make_table(results[:3], ["method"], ["ap"])
    assert as_markdown(table) == "| method | AP_T |\n| --- | --- |\n| itq | **0.500 ± 0.354** |\n| lsh | 0.250 |"
