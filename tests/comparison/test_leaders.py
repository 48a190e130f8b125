"""The best method at each number of bits, and whether its lead is significant."""

import numpy as np
import pytest

from skhash.comparison import Lead, find_lead, leader_sentences

VALUES = {"talr": [0.9, 0.8, 0.85], "itq": [0.6, 0.55, 0.5], "lsh": [0.3, 0.2, 0.1]}
HEADS = ("AP_T", "NDCG_T", "P@100", "P@radius 2")


def test_the_lead_is_the_mean_of_paired_differences(hand_made):
    # differences 0.3, 0.25, 0.35: mean 0.3, s = 0.05, s / sqrt(3) = 0.028868
    lead, left_out = find_lead(hand_made(VALUES))
    assert (lead.leader, lead.runner_up, left_out) == ("talr", "itq", [])
    assert lead.value == pytest.approx(0.85)
    assert lead.lead == pytest.approx(0.3)
    assert lead.standard_error == pytest.approx(0.05 / np.sqrt(3))
    assert lead.is_clear
    metrics = ", ".join(f"{head} (0.300 above itq, standard error 0.029)" for head in HEADS)
    assert leader_sentences(hand_made(VALUES)) == [f"16 bits: talr is best in {metrics}."]


def test_pairing_removes_what_the_splits_share(hand_made):
    # the splits differ by 0.3, the methods by 0.01, 0.02, 0.03: mean 0.02, s / sqrt(3) = 0.01 / sqrt(3)
    lead, _ = find_lead(hand_made({"a": [0.2, 0.5, 0.8], "b": [0.19, 0.48, 0.77]}))
    assert (lead.lead, lead.standard_error) == (pytest.approx(0.02), pytest.approx(0.01 / np.sqrt(3)))
    assert lead.is_clear


@pytest.mark.parametrize(
    ("values", "detail"),
    [
        # differences -0.1, 0.4: mean 0.15, s = 0.35355, s / sqrt(2) = 0.25
        (
            {"talr": [0.5, 0.3], "ksh": [0.4, 0.7]},
            "ksh is best in AP_T (0.150 above talr, standard error 0.250, not sig",
        ),
        ({"a": [0.5]}, "a is best in AP_T, NDCG_T"),
        ({"a": [0.5], "b": [0.25]}, "a is best in AP_T (0.250 above b, one seed)"),
        ({"a": [0.5, 0.5], "b": [0, 0]}, "a is best in AP_T (0.500 above b, standard error < 0.001)"),
        ({"a": [0.5, 0.25], "b": [0.25, 0.5]}, "a is best in AP_T (equal to b)"),
        ({"a": [None]}, "no method has results."),
    ],
)
def test_a_sentence_says_how_sure_the_lead_is(values, detail, hand_made):
    assert f"16 bits: {detail}" in leader_sentences(hand_made(values))[0]


def test_each_metric_has_its_own_leader(hand_made):
    results = [*hand_made({"a": [0.5]}), *hand_made({"b": [0.25]}, ndcg=0.75)]
    assert leader_sentences(results)[0].endswith("; b is best in NDCG_T (0.250 above a, one seed).")


@pytest.mark.parametrize(("errors", "is_clear"), [(1.5, False), (2.5, True)])
def test_a_clear_lead_exceeds_two_standard_errors(errors, is_clear):
    assert Lead("ap", "a", 0.5, "b", errors * 0.1, 0.1).is_clear is is_clear
    assert not Lead("ap", "a", 0.5, "b", 0.25).is_clear


def test_methods_without_results_for_every_seed_are_left_out(hand_made):
    results = hand_made({"good": [0.9, 0.9, None], "itq": [0.6, 0.5, 0.5], "lsh": [0.1, 0.2, 0.3]})
    lead, left_out = find_lead(results)
    assert (lead.leader, left_out) == ("itq", ["good"])
    assert leader_sentences(results)[0].endswith("Left out, since some of their seeds are missing: good.")


def test_dicts_do_as_well(hand_made):
    results = hand_made(VALUES)
    assert leader_sentences([result.to_dict() for result in results]) == leader_sentences(results)
