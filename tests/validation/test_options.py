"""Options: one of the allowed values, or an error that lists them."""

import re

import pytest

from skhash._validation import VECTOR_METRICS, check_option
from skhash.affinity import NeighborAffinity


def test_allowed_values_pass():
    for metric in VECTOR_METRICS:
        check_option("metric", metric, VECTOR_METRICS)


@pytest.mark.parametrize("value", ["l2", "Cosine", None, 1])
def test_other_values_are_refused_in_the_same_words_everywhere(value):
    message = f"`metric` must be one of 'euclidean', 'cosine', 'inner'. Got {value!r} instead."
    with pytest.raises(ValueError, match=re.escape(message)):
        check_option("metric", value, VECTOR_METRICS)
    with pytest.raises(ValueError, match=re.escape(message)):
        NeighborAffinity(3, metric=value)
