"""Tables in Markdown."""

from dataclasses import replace

from skhash.comparison import absences, markdown_table, summarize


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
        ["a", "16", "0.500 ± 0.354", "0.500 to 0.500", "0.500 ± 0.354", "0.500", "0.500", "0.5", "0"],
        ["b", "16", "failed", "", "", "", "", "", ""],
    ]


def test_dicts_do_as_well(results):
    assert markdown_table([result.to_dict() for result in results]) == markdown_table(results)


def test_a_failure_names_its_seeds(hand_made):
    failed = hand_made({"c": [None, None]})
    assert absences(failed) == ["c (16 bits, seed 0, 1): failed: ValueError: <no> & no."]
    assert absences([replace(failed[0], error=None, not_applicable="no labels")]) == ["c: not applicable: no labels."]
