"""The recall of the codes that choose_code measures."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from skhash.displays import RecallByCandidatesDisplay
from skhash.neighbors import choose_code


@pytest.fixture(scope="module")
def chosen(itq, digits):
    options = {"target_recall": 0.5, "candidates": (10, 50, 100), "queries": digits.X_query, "random_state": 0}
    return choose_code(itq, digits.X, nbits=(8, 12), **options)


def test_the_display_shows_the_table(chosen):
    display = RecallByCandidatesDisplay.from_choice(chosen)
    for nbits, line, area in zip((8, 12), display.lines_, display.ax_.collections, strict=True):
        rows = [code for code in chosen.table if code.nbits == nbits]
        assert_array_equal(line.get_xydata(), [(code.candidates, code.recall) for code in rows])
        assert line.get_label() == f"{nbits} bits, {-(-nbits // 8)} byte" + "s" * (nbits > 8)
        lowest = area.get_paths()[0].vertices[:, 1].min()
        assert lowest == min(code.lower_bound for code in rows)
    assert_array_equal(display.chosen_.get_xydata(), [(chosen.candidates, chosen.recall)])
    labels = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert labels == ["8 bits, 1 byte", "12 bits, 2 bytes", "target 0.5", "chosen"]


def test_only_what_is_given_is_drawn():
    display = RecallByCandidatesDisplay([10, 20], [[0.5, 0.7]], [32], [4]).plot()
    assert display.chosen_ is None
    assert len(display.ax_.lines) == 1
    assert not display.ax_.collections
    assert [text.get_text() for text in display.ax_.get_xticklabels()] == ["10", "20"]


def test_many_candidates_have_few_ticks():
    display = RecallByCandidatesDisplay(np.arange(10, 200), [np.linspace(0, 1, 190)], [32], [4]).plot()
    assert len(display.ax_.get_xticks()) < 12
