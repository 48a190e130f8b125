"""The best method at one number of bits, and those that are level with it."""

import pytest

from skhash.comparison import find_leaders


@pytest.mark.parametrize(
    ("values", "leaders"),
    [
        # talr - itq: 0.3, 0.25, 0.35, mean 0.3, s / sqrt(3) = 0.029
        ({"itq": [0.6, 0.55, 0.5], "talr": [0.9, 0.8, 0.85], "lsh": [0.3, 0.2, 0.1]}, ["talr"]),
        # b - a: -0.1, 0.4, mean 0.15, s / sqrt(2) = 0.25
        ({"a": [0.5, 0.3], "b": [0.4, 0.7]}, ["b", "a"]),
        # the splits differ by 0.3, the methods by 0.01, 0.02, 0.03, mean 0.02, s / sqrt(3) = 0.006: pairing counts
        ({"a": [0.2, 0.5, 0.8], "b": [0.19, 0.48, 0.77]}, ["a"]),
        # mean 0.0203, s / sqrt(3) = 0.0097; then mean 0.0167, s / sqrt(3) = 0.0088
        ({"a": [0.5, 0.5, 0.5], "b": [0.499, 0.47, 0.47]}, ["a"]),
        ({"a": [0.5, 0.5, 0.5], "b": [0.5, 0.48, 0.47]}, ["a", "b"]),
        ({"a": [0.5, 0.25], "b": [0.25, 0.5]}, ["a", "b"]),
        ({"a": [0.5]}, ["a"]),
        ({"a": [0.5], "b": [0.499]}, ["a"]),
        ({"a": [0.5], "b": [0.25], "c": [0.5]}, ["a", "c"]),
        ({"a": [0.5, 0.5], "b": [0.499, 0.499]}, ["a"]),
        ({"a": [None]}, []),
        ({"good": [0.9, 0.9, None], "itq": [0.6, 0.5, 0.5], "lsh": [0.1, 0.2, 0.3]}, ["itq"]),
    ],
)
def test_leaders_are_within_two_standard_errors_of_the_best(values, leaders, hand_made):
    results = hand_made(values)
    assert find_leaders(results) == leaders
    assert find_leaders([dict(result) for result in results]) == leaders


def test_each_metric_has_its_own_leader(hand_made):
    results = [*hand_made({"a": [0.5]}), *hand_made({"b": [0.25]}, ndcg=0.75)]
    assert (find_leaders(results), find_leaders(results, "ndcg")) == (["a"], ["b"])
