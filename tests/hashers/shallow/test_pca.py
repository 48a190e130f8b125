"""PCA hashing against scikit-learn's PCA."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.decomposition import PCA

from skhash import PCAHasher


@pytest.mark.parametrize("nbits", [1, 5, 24])
def test_pca_bits_are_the_signs_of_sklearn_up_to_flips(digits, nbits):
    bits = PCAHasher(nbits=nbits).fit(digits.X).transform(digits.X_query)
    signs = PCA(nbits, svd_solver="full").fit(digits.X).transform(digits.X_query) >= 0
    agreement = (bits == signs).mean(axis=0)
    assert_array_equal(np.maximum(agreement, 1 - agreement), 1)
