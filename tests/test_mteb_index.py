"""What ``skhash.mteb.code_search`` checks before mteb embeds any text. mteb need not be installed."""

import pytest
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skhash import HashNetHasher, LSHHasher
from skhash.mteb import code_search
from skhash.neighbors import HammingNeighbors


@pytest.mark.parametrize(
    ("index", "kind", "message"),
    [
        (LSHHasher(16), TypeError, r"`index` must be a HammingNeighbors. Got a LSHHasher .*HammingNeighbors\(hasher\)"),
        (None, TypeError, "`index` must be a HammingNeighbors. Got a NoneType"),
        (HammingNeighbors(), ValueError, "`index` must have a hasher"),
        (HammingNeighbors(nbits=8), ValueError, "`index` must have a hasher"),
        (HammingNeighbors(LSHHasher(16), candidates=5), ValueError, "`candidates` must be None unless"),
        (HammingNeighbors(LSHHasher(16), query="no"), ValueError, "'query' parameter"),
        (HammingNeighbors(FrozenEstimator(LSHHasher(16))), NotFittedError, "not fitted"),
        (HammingNeighbors(HashNetHasher(16)), ValueError, "a hasher that learns without labels. Got HashNetHasher"),
        (
            HammingNeighbors(make_pipeline(StandardScaler(), HashNetHasher(16))),
            ValueError,
            r"a hasher that learns without labels. .*HammingNeighbors\(FrozenEstimator\(hasher\)\)",
        ),
    ],
)
def test_an_index_that_cannot_be_searched_is_an_error_before_any_text_is_embedded(index, kind, message):
    with pytest.raises(kind, match=message):
        code_search(object(), index)
