"""What scorers read from Pipelines and searches."""

import warnings

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
)
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Binarizer, MinMaxScaler, StandardScaler

from skhash import ITQHasher
from skhash.affinity import DistanceAffinity
from skhash.codes import hamming_distances
from skhash.codes.queries import Queries, Sums
from skhash.displays import TieRangeDisplay
from skhash.metrics import (
    RetrievalScorer,
    average_precision,
    histogram_from_distances,
    ndcg,
    relevance_histogram,
)
from skhash.neighbors import HammingNeighbors
from skhash.unwrap import named_warnings


class FirstBitTwice(Sums):
    """Number of bits that differ, of which the first one counts twice."""

    def __init__(self, codes):
        bits, weights = codes.bits().astype(np.int64), np.r_[2, np.ones(codes.nbits - 1, np.int64)]
        super().__init__(weights * bits, weights * (1 - bits), np.ones((len(codes), 1)))


def test_a_new_kind_of_queries_by_code_is_chosen_in_one_place(digits, monkeypatch):
    monkeypatch.setattr(Queries, "of", lambda codes, bit_weights=None: FirstBitTwice(codes))
    hasher = ITQHasher(16, random_state=0).fit(digits.X, digits.y)
    index = HammingNeighbors(FrozenEstimator(hasher)).fit(digits.X)
    codes = hasher.transform(digits.X_query), hasher.transform(digits.X)
    weights = np.r_[2, np.ones(15)]
    distances = hamming_distances(*codes, bit_weights=weights)
    nearest = np.argsort(distances, axis=1, kind="stable")[:, :7]
    np.testing.assert_array_equal(index.kneighbors(digits.X_query, 7)[1], nearest)
    for query, found in enumerate(index.radius_neighbors(digits.X_query, 3)[1]):
        np.testing.assert_array_equal(found, np.flatnonzero(distances[query] <= 3))
    H = histogram_from_distances(distances, digits.y_query, digits.y)
    assert RetrievalScorer("ap")(hasher, digits.X_query, digits.y_query) == average_precision(H)


def test_a_given_database_passes_through_the_pipeline(digits):
    pipeline = make_pipeline(StandardScaler(), ITQHasher(nbits=16, random_state=0)).fit(digits.X, digits.y)
    given = RetrievalScorer(database=(digits.X, digits.y))
    assert given(pipeline, digits.X_query, digits.y_query) == pipeline.score(digits.X_query, digits.y_query)


@pytest.mark.parametrize("scaled", [False, True], ids=["alone", "after a scaler"])
def test_no_targets_under_distances(digits, scaled):
    affinity = DistanceAffinity(percentiles=(50, 10), levels=(1, 2))
    hasher = ITQHasher(nbits=16, affinity=affinity, random_state=0)
    pipeline = make_pipeline(StandardScaler() if scaled else "passthrough", hasher)
    search = GridSearchCV(
        pipeline, {}, scoring=RetrievalScorer(["ap", "ndcg"], empty="zero"), refit="ndcg", cv=KFold(2)
    )
    search.fit(digits.X)
    assert search.cv_results_["mean_test_ndcg"][0] > 0.5

    received = search.best_estimator_[0].transform if scaled else np.asarray  # the rows that the hasher sees
    rows, queries = received(digits.X), received(digits.X_query)
    codes, query_codes = search.transform(digits.X), search.transform(digits.X_query)
    fitted = affinity.fit(rows)
    fit = ndcg(relevance_histogram(query_codes, codes, queries, rows, affinity=fitted), empty="zero")
    fold = ndcg(
        relevance_histogram(query_codes, query_codes, queries, affinity=fitted, exclude_self=True), empty="zero"
    )
    for database, expected in (("fit", fit), ("fold", fold), ((digits.X, None), fit)):
        value = RetrievalScorer("ndcg", database=database, empty="zero")(search, digits.X_query)
        assert value == pytest.approx(expected, abs=1e-14)


@pytest.mark.filterwarnings("ignore:.*have no relevant item")
def test_rows_reach_the_hasher_through_pipelines_within_pipelines(digits):
    affinity = DistanceAffinity(percentiles=(30,), levels=(1,))
    steps = MinMaxScaler(), StandardScaler(), ITQHasher(nbits=8, affinity=affinity, random_state=0)
    flat = make_pipeline(*steps).fit(digits.X)
    nested = make_pipeline(steps[0], make_pipeline(make_pipeline(*steps[1:]))).fit(digits.X)
    scorer = RetrievalScorer("ap")
    assert scorer(nested, digits.X_query) == scorer(flat, digits.X_query) == nested.score(digits.X_query)


def test_an_estimator_that_is_not_a_hasher(digits):
    pca = PCA(4).fit(digits.X)
    with pytest.raises((TypeError, ValueError), match="PCA"):
        RetrievalScorer()(pca, digits.X_query, digits.y_query)
    classifier = make_pipeline(PCA(8), KNeighborsClassifier()).fit(digits.X, digits.y)
    with pytest.raises(TypeError, match=r"`estimator` must be a hasher, .* Got KNeighborsClassifier"):
        RetrievalScorer()(classifier, digits.X_query, digits.y_query)
    binary = make_pipeline(PCA(8, random_state=0), Binarizer()).fit(digits.X)  # whose transform gives bits
    assert RetrievalScorer(database="fold")(binary, digits.X_query, digits.y_query) > 0.2
    with pytest.raises(TypeError, match=r"database='fold'.*.*for a display a histogram.* Got Binarizer"):
        TieRangeDisplay.from_estimator(binary, digits.X_query, digits.y_query)


def test_a_warning_has_the_names_of_its_fits_also_if_one_fails():
    def fit():
        with named_warnings("outer"), named_warnings(ITQHasher(8), ", candidate 1"):
            for _ in range(2):  # the second one is shown, too: it may be of another fit
                warnings.warn("look", DeprecationWarning, stacklevel=1)
            raise ValueError("no")

    message = "^outer: ITQHasher, 8 bits, candidate 1: look$"
    with pytest.warns(DeprecationWarning, match=message) as seen, pytest.raises(ValueError, match="no"):
        fit()
    assert [warning.filename for warning in seen] == [__file__] * 2
