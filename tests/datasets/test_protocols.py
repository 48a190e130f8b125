"""The named protocols and their sizes."""

import pytest

from skhash.datasets import PROTOCOLS


@pytest.mark.parametrize(
    ("n", "sizes"),
    [
        (22_000, (22_000, 2_000, 5_000)),
        (22_019, (22_019, 2_000, 5_000)),  # the paper's own file
        (22_999, (22_999, 2_000, 5_000)),
        (60_000, (22_000, 2_000, 5_000)),
        (2_200, (2_200, 200, 500)),
    ],
)
def test_labelme_sizes(n, sizes):
    assert PROTOCOLS["labelme"].sizes(n) == sizes


NEIGHBORS = ["neighbors", "neighbors-cosine", "neighbors-inner"]


def test_protocols_say_what_they_are():
    assert list(PROTOCOLS) == [
        *("holdout", "5k", "s2", "unseen", "struct", "labelme", "mirflickr"),
        *("nus-wide", "ms-coco", "imagenet100", *NEIGHBORS),
    ]
    assert all(name == protocol.name == str(protocol) for name, protocol in PROTOCOLS.items())
    assert [name for name, protocol in PROTOCOLS.items() if not protocol.requires_y] == [
        "labelme",
        *NEIGHBORS,
    ]
    assert PROTOCOLS["5k"].sizes(70_000) == (70_000, 1_000, 5_000)
    assert PROTOCOLS["neighbors"].sizes(1_000) == (1_000, 200, 800)
    assert PROTOCOLS["neighbors"].sizes(70_000) == (70_000, 500, 69_500)
    assert PROTOCOLS["struct"].sizes(9_298) == (9_298, 2_000, 2_000)
    assert PROTOCOLS["mirflickr"].sizes(20_015) == (20_015, 2_000, 5_000)
    assert PROTOCOLS["s2"].sizes(60_000, 10_000) == (60_000, 10_000, 50_000)
    assert PROTOCOLS["nus-wide"].sizes(195_834) == (195_834, 2_100, 10_500)
    assert PROTOCOLS["ms-coco"].sizes(122_218) == (122_218, 5_000, 10_000)
    assert PROTOCOLS["imagenet100"].sizes(135_000, 5_000) == (135_000, 5_000, 13_000)
