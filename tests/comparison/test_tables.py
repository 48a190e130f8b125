"""Tables in Markdown."""

from dataclasses import replace

from skhash.comparison import Result, markdown_table
from skhash.comparison.tables import absences, summarize


def test_a_table_has_one_line_per_method_and_number_of_bits(results):
    lines = markdown_table(results).splitlines()
    assert len(lines) == 2 + 4
    assert len({line.count("|") for line in lines}) == 1
    assert "±" in lines[2]


def test_several_data_sets_have_a_table_each(results):
    others = [replace(result, dataset="other") for result in results]
    table = markdown_table(results)
    expected = f"digits, protocol holdout\n\n{table}\n\nother, protocol holdout\n\n{table}"
    assert markdown_table(results + others) == expected


def test_cells_of_a_table(hand_made):
    assert summarize(hand_made({"a": [0.25, 0.75], "b": [None]})) == [
        ["a", "16", "0.500 ± 0.354 *", "0.500 to 0.500", "0.500 ± 0.354 *", "0.500 *", "0.500 *", "0.5", "0"],
        ["b", "16", "failed", "", "", "", "", "", ""],
    ]


def test_leaders_have_a_mark_in_every_column_of_a_metric(hand_made):
    at_8 = hand_made({"a": [0.25], "b": [0.25], "c": [0.125]}, nbits=8)
    at_16 = [*hand_made({"a": [0.5]}, precision_at_100=0.75), *hand_made({"b": [0.75]}, ap=0.25)]
    marked = [[i for i, cell in enumerate(line) if "!" in cell] for line in summarize([*at_8, *at_16], "!{}".format)]
    assert marked == [[2, 4, 5, 6], [2, 4, 5, 6], [], [2, 5], [4, 5, 6]]


def test_a_single_method_has_no_mark(hand_made):
    assert not any("*" in cell for line in summarize(hand_made({"a": [0.5, 0.25]})) for cell in line)


def test_dicts_do_as_well(results):
    assert markdown_table([dict(result) for result in results]) == markdown_table(results)


def test_a_failure_names_its_seeds(hand_made):
    failed = hand_made({"c": [None, None]})
    assert absences(failed) == ["c (16 bits, seed 0, 1): failed: ValueError: <no> & no."]
    assert absences([replace(failed[0], error=None, not_applicable="no labels")]) == ["c: not applicable: no labels."]


def test_other_metrics_have_columns_and_a_tie_range():
    metrics = {"ndcg_at_10": 0.5, "ndcg_at_10_worst": 0.25, "ndcg_at_10_best": 0.75, "r_precision": 0.5, "mine": 2.0}
    results = [
        Result(method=name, nbits=8, seed=0, metrics=metrics, fit_seconds=1, codes_per_second=1) for name in "ab"
    ]
    assert markdown_table(results).splitlines()[::2] == [
        "| method | bits | NDCG_T@10 | tie range      | R-precision | mine    | fit s | codes/s |",
        "| a      | 8    | 0.500 *   | 0.250 to 0.750 | 0.500 *     | 2.000 * | 1.0   | 1       |",
    ]
