import json

import numpy as np
import pytest

from skhash.cli import main
from skhash.comparison import FIGURES, METHODS, compare, evaluate_hasher, make_hasher, markdown_table, write_report
from skhash.datasets import load_dataset

COLUMNS = {"dataset", "protocol", "method", "nbits", "seed", *FIGURES, "fit_seconds", "codes_per_second"}


@pytest.fixture(scope="module")
def rows():
    return compare(methods=["itq", "lsh"], nbits=[8, 16], n_seeds=2)[0]


def test_rows_hold_the_documented_figures(rows):
    assert len(rows) == 8
    assert all(row.keys() == COLUMNS for row in rows)
    for row in rows:
        assert row["ap_worst"] <= row["ap"] <= row["ap_best"]
        assert row["codes_per_second"] > 0


def test_itq_beats_lsh(rows):
    def mean(method):
        return np.mean([row["ap"] for row in rows if row["method"] == method])

    assert mean("itq") > mean("lsh")


def test_a_seed_decides_the_figures(rows):
    again = compare(methods=["itq"], nbits=[8], n_seeds=1)[0][0]
    before = next(row for row in rows if (row["method"], row["nbits"], row["seed"]) == ("itq", 8, 0))
    assert {name: again[name] for name in FIGURES} == {name: before[name] for name in FIGURES}


def test_table_has_one_line_a_method_and_length(rows):
    lines = markdown_table(rows).splitlines()
    assert len(lines) == 2 + 4
    assert len({line.count("|") for line in lines}) == 1
    assert "±" in lines[2]


def test_report_can_be_read_back(rows, tmp_path):
    folder = write_report(tmp_path / "new" / "report", rows, "A sentence.")
    assert json.loads((folder / "results.json").read_text()) == rows
    assert markdown_table(rows) in (folder / "results.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("method", METHODS)
def test_every_method_can_be_built(method):
    assert make_hasher(method, 12, 3, "auto").nbits == 12


def test_unknown_method_lists_the_known_ones():
    with pytest.raises(ValueError, match=r"method 'magic' is unknown; known ones are talr, .*lsh"):
        compare(methods=["magic"])


def test_command_line_shows_progress_prints_the_table_and_writes(tmp_path, capsys):
    status = main(["compare", "digits", "--methods", "itq,lsh", "--bits", "8", "--seeds", "1", "--out", str(tmp_path)])
    output = capsys.readouterr()
    assert status == 0
    assert "[2/2] lsh, 8 bits, seed 0" in output.err
    assert "tie range" in output.out
    assert len(json.loads((tmp_path / "results.json").read_text())) == 2


def test_users_own_file(tmp_path, capsys):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 200)
    np.savez(tmp_path / "mine.npz", X=rng.standard_normal((3, 8))[y] + 0.1 * rng.standard_normal((200, 8)), y=y)
    assert main(["compare", str(tmp_path / "mine.npz"), "--methods", "itq", "--bits", "8", "--seeds", "1"]) == 0
    assert "itq" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["compare", "nothing.npz"], "nothing.npz"),
        (["compare", "digits", "--protocol", "mirflickr"], "mirflickr"),
    ],
)
def test_mistakes_get_one_line(arguments, message, capsys):
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("skhash: error: ")
    assert message in error


@pytest.mark.parametrize("arguments", [["--methods", "magic"], ["--bits", "0"], ["--bits", "x"], ["--seeds", "0"]])
def test_bad_options_are_refused_by_the_parser(arguments, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["compare", *arguments])
    assert arguments[0] in capsys.readouterr().err


def test_a_radius_counts_bits_whatever_they_weigh():
    data = load_dataset("digits")
    plain, weighted = make_hasher("itq", 16, 0, "auto"), make_hasher("itq", 16, 0, "auto")
    weighted.bit_weights_ = np.linspace(0.01, 0.02, 16)
    plain, weighted = (evaluate_hasher(hasher, data) for hasher in (plain, weighted))
    assert set(plain) == set(weighted) >= set(FIGURES)
    assert weighted["precision_radius_2"] == plain["precision_radius_2"]
    assert weighted["ap_best"] - weighted["ap_worst"] < 0.2 * (plain["ap_best"] - plain["ap_worst"])
