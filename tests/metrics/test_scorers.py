"""Scorers: what cross-validation and searches see of the metrics."""

import pickle
import warnings
from unittest.mock import patch

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.model_selection import (
    GridSearchCV,
    HalvingGridSearchCV,
    KFold,
    StratifiedKFold,
    cross_val_score,
    cross_validate,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skhash import ITQHasher, TALRHasher
from skhash.affinity import PrecomputedAffinity, SharedLabelsAffinity
from skhash.metrics import (
    Metric,
    Ranking,
    RetrievalScorer,
    average_precision,
    ndcg,
    precision,
    relevance_histogram,
)

NAMES = ["ap", "ap_worst", "ap_best", "ndcg", "precision_at_100", "precision_radius_2"]
AP_DIVISORS = ["relevant", "min", "retrieved"]

folds = StratifiedKFold(2, shuffle=True, random_state=0)


@pytest.fixture(scope="module")
def labels():
    """Rows with several labels."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, (120, 4))
    y[:, 0] |= ~y.any(axis=1)
    return y + rng.normal(scale=0.3, size=y.shape), y


def test_equals_the_metrics_themselves(itq, digits):
    queries, database = itq.transform(digits.X_query), itq.transform(digits.X)
    H = relevance_histogram(queries, database, digits.y_query, digits.y)
    expected = {
        "ap": average_precision(H),
        "ap_worst": average_precision(H, ties="worst"),
        "ap_best": average_precision(H, ties="best"),
        "ndcg": ndcg(H),
        "precision_at_100": precision(H, k=100),
        "precision_radius_2": precision(H, radius=2),
    }
    scores = RetrievalScorer(NAMES)(itq, digits.X_query, digits.y_query)
    assert scores == pytest.approx(expected, abs=1e-14)
    assert itq.score(digits.X_query, digits.y_query) == scores["ap"]
    singles = {name: RetrievalScorer(name)(itq, digits.X_query, digits.y_query) for name in scores}
    assert singles == scores


def test_a_name_gives_a_float_and_a_list_a_dict(itq, digits):
    assert type(RetrievalScorer("ap")(itq, digits.X_query, digits.y_query)) is float
    scores = RetrievalScorer(["ap"])(itq, digits.X_query, digits.y_query)
    assert {name: type(value) for name, value in scores.items()} == {"ap": float}


def test_keys_have_the_cutoff_as_names_of_metrics_have_it(itq, digits):
    names = ["ap", "ap_retrieved", "ndcg@10", "precision@7_worst", "recall_worst", "precision_radius_2", "roc_auc"]
    values = RetrievalScorer(names, k=5)(itq, digits.X_query, digits.y_query)
    assert list(values) == [
        "ap_at_5",
        "ap_at_5_retrieved",
        "ndcg_at_10",
        "precision_at_7_worst",
        "recall_at_5_worst",
        "precision_radius_2",
        "roc_auc",
    ]
    for key, value in values.items():
        assert Metric.parse(key).name == key
        assert value == RetrievalScorer(key)(itq, digits.X_query, digits.y_query)


@pytest.mark.parametrize("n_jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_refit_and_keys_without_the_cutoff_are_an_error_that_names_the_key(digits, n_jobs):
    scorer, grid = RetrievalScorer(["ap", "ndcg@10", "roc_auc"], k=5), {"nbits": [4, 8]}
    options = {"scoring": scorer, "cv": folds, "n_jobs": n_jobs}
    for refit, key in (("ap", "ap_at_5"), ("ndcg@10", "ndcg_at_10")):
        with pytest.raises(ValueError, match=f"`refit`, or a key, must be '{key}'. Got '{refit}' instead"):
            GridSearchCV(ITQHasher(random_state=0), grid, refit=refit, **options).fit(digits.X, digits.y)
        search = GridSearchCV(ITQHasher(random_state=0), grid, refit=key, **options).fit(digits.X, digits.y)
        assert search.best_score_ == search.cv_results_[f"mean_test_{key}"].max()
    with pytest.raises(ValueError, match="refit must be set to a scorer key"):
        GridSearchCV(ITQHasher(random_state=0), grid, refit="ap_at_6", **options).fit(digits.X, digits.y)
    values = scorer(search, digits.X_query, digits.y_query)
    with pytest.raises(KeyError, match=r"must be 'ap_at_5'\. Got 'ap' instead"):
        values["ap"]
    with pytest.raises(KeyError, match=r"must be one of ap_at_5, ndcg_at_10, roc_auc\. Got 'ndcg' instead"):
        values["ndcg"]
    assert values == pickle.loads(pickle.dumps(values)) == dict(values)
    assert "roc_auc" in values
    assert "ndcg" not in values


def test_database_may_be_of_fit_or_of_the_fold_or_given(itq, digits):
    X, y = digits.X_query, digits.y_query
    codes = itq.transform(X)
    fold = average_precision(relevance_histogram(codes, codes, y, exclude_self=True))
    assert RetrievalScorer(database="fold")(itq, X, y) == pytest.approx(fold, abs=1e-14)
    given = RetrievalScorer(database=(digits.X, digits.y))
    assert given(itq, X, y) == RetrievalScorer(database="fit")(itq, X, y)


def test_a_fold_of_one_sample_is_named(itq, digits):
    with pytest.raises(ValueError, match=r'`X` must have at least 2 queries with database="fold".* Got 1 instead'):
        RetrievalScorer(database="fold")(itq, digits.X_query[:1], digits.y_query[:1])


def test_cutoff_and_empty_queries(itq, digits):
    H = relevance_histogram(itq.transform(digits.X_query), itq.transform(digits.X), digits.y_query, digits.y)
    for name, metric in (("ap", average_precision), ("ndcg", ndcg), ("precision", precision)):
        assert RetrievalScorer(name, k=20)(itq, digits.X_query, digits.y_query) == pytest.approx(metric(H, k=20))
    assert RetrievalScorer("ap_at_20", k=7)(itq, digits.X_query, digits.y_query) == average_precision(H, k=20)
    strange = np.where(np.arange(len(digits.y_query)) < 30, 10, digits.y_query)  # no digit is a ten
    zero, one = (RetrievalScorer(empty=empty)(itq, digits.X_query, strange) for empty in ("zero", "one"))
    assert one - zero == pytest.approx(30 / len(strange))
    with pytest.warns(UserWarning, match="30 of 300 queries have no relevant item"):
        RetrievalScorer()(itq, digits.X_query, strange)


@pytest.mark.parametrize("weighted", [False, True])
def test_queries_without_relevant_items_give_one_warning_per_evaluation(digits, weighted):
    hasher = ITQHasher(nbits=8, random_state=0).fit(digits.X, digits.y)
    if weighted:
        hasher.bit_weights_ = np.linspace(1, 2, 8)
    strange = np.where(np.arange(len(digits.y_query)) < 30, 10, digits.y_query)
    names = [*NAMES, "ndcg_worst", "ndcg_best", "roc_auc", "roc_auc_best", "fast_ap"]
    with pytest.warns(UserWarning, match="queries have no") as warned:
        RetrievalScorer(names)(hasher, digits.X_query, strange)
    assert len(warned) == 1
    assert str(warned[0].message) == (
        "30 of 300 queries have no relevant item, and 30 of 300 queries have no pair of a relevant and an irrelevant "
        "item in the database and are left out of the mean (empty='skip')."
    )
    assert warned[0].filename == __file__


def test_the_divisors_are_those_of_the_guide(digits):
    """Training itself is in test_talr.py: its loss on codes is one minus AP@k with the divisor "min"."""
    hasher = TALRHasher(8, k=10, n_epochs=1, early_stopping=True, random_state=0).fit(digits.X, digits.y)
    H = relevance_histogram(*map(hasher.transform, (digits.X_query, digits.X)), digits.y_query, digits.y)
    query = digits.X_query, digits.y_query
    everything = average_precision(H, k=len(digits.y), normalizer="relevant")
    assert hasher.score(*query) == RetrievalScorer()(hasher, *query) == pytest.approx(everything, abs=1e-12)
    at_10 = {normalizer: average_precision(H, k=10, normalizer=normalizer) for normalizer in AP_DIVISORS}
    assert RetrievalScorer("ap", k=10)(hasher, *query) == RetrievalScorer("ap@10")(hasher, *query) == at_10["relevant"]
    for normalizer in AP_DIVISORS:
        assert RetrievalScorer(f"ap_at_10_{normalizer}")(hasher, *query) == at_10[normalizer]
    assert len({everything, *at_10.values()}) == 4


# --- folds of labels in order


def in_order(digits):
    order = np.argsort(digits.y, kind="stable")
    return digits.X[order], digits.y[order]


@pytest.mark.parametrize("scoring", [None, RetrievalScorer(), RetrievalScorer(["roc_auc", "ndcg"])])
def test_folds_of_labels_in_order_are_an_error_that_names_the_splitter(digits, scoring):
    X, y = in_order(digits)
    options = {"cv": 3, "scoring": scoring}
    message = (
        r"`y` must have classes of .* Got \d+ of \d+ queries whose class it lacks.*StratifiedKFold\(shuffle=True\)"
    )
    with pytest.raises(ValueError, match=message):
        cross_validate(ITQHasher(8, random_state=0), X, y, error_score="raise", **options)
    # scikit-learn's default makes a warning of each error
    with pytest.warns(UserWarning, match="StratifiedKFold") as warned:
        scores = cross_validate(ITQHasher(8, random_state=0), X, y, **options)
    assert len(warned) == 3
    assert np.isnan(scores["test_score"]).all()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        search = GridSearchCV(ITQHasher(random_state=0), {"nbits": [4, 8]}, refit=False, **options).fit(X, y)
    assert ["StratifiedKFold" in str(w.message) for w in warned] == [True] * 6 + [False]  # the last: all are NaN
    assert np.isnan(search.cv_results_["mean_test_score"]).all()


@pytest.mark.parametrize("empty", ["skip", "zero"])
def test_queries_without_their_class_are_as_asked_if_empty_is_given(digits, empty):
    X, y = in_order(digits)
    options = {"cv": 3, "scoring": RetrievalScorer(empty=empty), "error_score": "raise"}
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        scores = cross_val_score(ITQHasher(8, random_state=0), X, y, **options)
    assert np.isfinite(scores).all()
    assert ["are left out of the mean" in str(w.message) for w in warned] == ([True] * 3 if empty == "skip" else [])


def test_roc_auc_in_a_database_of_a_single_class_is_no_lack_of_classes(digits):
    hasher = ITQHasher(8, random_state=0).fit(digits.X, np.ones(len(digits.X), dtype=int))
    with pytest.warns(UserWarning, match="single class"), pytest.warns(UserWarning, match="have no pair of a relevant"):
        assert np.isnan(RetrievalScorer("roc_auc")(hasher, digits.X_query, np.ones(len(digits.X_query), dtype=int)))


def test_shuffled_folds_of_classes_are_no_error(digits):
    scores = cross_val_score(ITQHasher(8, random_state=0), *in_order(digits), cv=folds, error_score="raise")
    assert (scores > 0.2).all()


@pytest.mark.parametrize("kind", ["half", "tags", "instances", "matrix"])
def test_other_queries_without_relevant_items_are_left_out_with_a_warning(digits, kind):
    """Half of the queries, shared labels, items that are alone in their class, and an affinity of one's own."""
    n, n_queries = len(digits.y), len(digits.y_query)
    y, query_y, affinity = digits.y, digits.y_query, "auto"
    if kind == "half":
        query_y = np.where(np.arange(n_queries) < n_queries // 2, 10, query_y)
    elif kind == "tags":
        y, query_y = np.eye(11, dtype=int)[y], np.eye(11, dtype=int)[np.where(query_y < 9, 10, query_y)]
    elif kind == "instances":
        y, query_y = np.arange(n), n - 10 + np.arange(n_queries)
    else:
        affinity = PrecomputedAffinity(np.eye(n + n_queries))
        y, query_y = np.arange(n), n - 10 + np.arange(n_queries)
    hasher = ITQHasher(8, affinity=affinity, random_state=0).fit(digits.X, y)
    with pytest.warns(UserWarning, match="queries have no relevant item") as warned:
        assert hasher.score(digits.X_query, query_y) > 0
    assert len(warned) == 1


def test_affinity_may_be_another_than_that_of_fit(labels):
    X, y = labels
    hasher = ITQHasher(nbits=8, random_state=0).fit(X, y)
    codes = hasher.transform(X)
    for affinity in (SharedLabelsAffinity(binary=True), lambda a, b: 3 * (a[:, None, 0] == b[None, :, 0])):
        expected = ndcg(relevance_histogram(codes, codes, y, affinity=affinity))
        assert RetrievalScorer("ndcg", affinity=affinity)(hasher, X, y) == pytest.approx(expected, abs=1e-14)


def test_several_metrics_cost_one_encoding_and_one_histogram(itq, digits):
    histograms = [relevance_histogram([[0]], [[0], [1]], [0], [0, 1])]
    with (
        patch.object(ITQHasher, "encode", autospec=True, side_effect=ITQHasher.encode) as encode,
        patch.object(Ranking, "histograms", side_effect=lambda **options: iter(histograms)) as count,
    ):
        RetrievalScorer(NAMES)(itq, digits.X_query, digits.y_query)
    assert encode.call_count == count.call_count == 1


def test_values_do_not_depend_on_the_memory_at_hand(itq, digits):
    whole = RetrievalScorer(NAMES)(itq, digits.X_query, digits.y_query)
    with sklearn.config_context(working_memory=0.01):
        chunked = RetrievalScorer(NAMES)(itq, digits.X_query, digits.y_query)
    assert chunked == pytest.approx(whole, abs=1e-12)


@pytest.mark.parametrize("routing", [False, True])
def test_grid_search_with_two_metrics(digits, routing):
    pipeline = make_pipeline(StandardScaler(), ITQHasher(random_state=0))
    grid = {"itqhasher__nbits": [4, 16]}
    with sklearn.config_context(enable_metadata_routing=routing):
        search = GridSearchCV(pipeline, grid, scoring=RetrievalScorer(["ap", "ndcg"]), refit="ap", cv=folds)
        search.fit(digits.X, digits.y)
    assert search.best_params_ == {"itqhasher__nbits": 16}
    assert {"mean_test_ap", "mean_test_ndcg"} <= search.cv_results_.keys()
    scores = search.score(digits.X_query, digits.y_query)
    assert scores == search.best_estimator_.score(digits.X_query, digits.y_query)
    assert RetrievalScorer()(search, digits.X_query, digits.y_query) == scores


@pytest.mark.parametrize("database", ["fit", "fold"])
def test_cross_validation(digits, database):
    scorer = RetrievalScorer("ap", database=database)
    scores = cross_val_score(ITQHasher(nbits=16, random_state=0), digits.X, digits.y, cv=folds, scoring=scorer)
    several = RetrievalScorer(["ap", "ap_worst"], database=database)
    result = cross_validate(ITQHasher(nbits=16, random_state=0), digits.X, digits.y, cv=folds, scoring=several)
    assert list(result["test_ap"]) == list(scores)
    assert (result["test_ap_worst"] < result["test_ap"]).all()


def test_halving_search_takes_one_metric(digits):
    search = HalvingGridSearchCV(
        ITQHasher(random_state=0), {"nbits": [2, 16]}, scoring=RetrievalScorer("ndcg"), cv=folds, random_state=0
    )
    assert search.fit(digits.X, digits.y).best_params_ == {"nbits": 16}


def test_nested_cross_validation(digits):
    search = GridSearchCV(ITQHasher(random_state=0), {"nbits": [4, 16]}, scoring=RetrievalScorer("ap"), cv=folds)
    assert (cross_val_score(search, digits.X, digits.y, scoring=RetrievalScorer("ap"), cv=folds) > 0.3).all()


def test_multi_label_rows_under_kfold(labels):
    X, y = labels
    cv = KFold(3, shuffle=True, random_state=0)
    scores = cross_validate(ITQHasher(nbits=8, random_state=0), X, y, cv=cv, scoring=RetrievalScorer(["ap", "ndcg"]))
    hasher = TALRHasher(nbits=8, objective="ndcg", n_epochs=3, random_state=0)
    assert (scores["test_ndcg"] > 0.7).all()
    ap = cross_val_score(hasher, X, y, cv=cv, scoring=RetrievalScorer("ap"))
    assert list(cross_val_score(hasher, X, y, cv=cv)) == list(ap)


def test_row_numbers_of_a_precomputed_affinity_survive_cross_validation(digits):
    affinity = PrecomputedAffinity(digits.y[:, None] == digits.y)
    options = {"cv": KFold(3), "scoring": RetrievalScorer("ap")}
    given = cross_val_score(
        ITQHasher(nbits=16, affinity=affinity, random_state=0), digits.X, np.arange(len(digits.X)), **options
    )
    assert list(given) == list(cross_val_score(ITQHasher(nbits=16, random_state=0), digits.X, digits.y, **options))


def test_can_be_copied_and_shown():
    scorer = RetrievalScorer(["ap", "ndcg"], database=([[0.0]], [0]), k=5, empty="zero")
    options = "affinity='auto', k=5, empty='zero', weighted=True"
    assert repr(scorer) == f"RetrievalScorer(['ap', 'ndcg'], database=(X, y), {options})"
    search = clone(GridSearchCV(ITQHasher(), {}, scoring=pickle.loads(pickle.dumps(scorer))))
    assert repr(search.scoring) == repr(scorer)


def test_database_not_stored(digits):
    hasher = ITQHasher(nbits=8, store_database=False, random_state=0).fit(digits.X, digits.y)
    with pytest.raises(ValueError, match=r"store_database=False .*database=\(X, y\)"):
        hasher.score(digits.X_query, digits.y_query)
    given = RetrievalScorer(database=(digits.X, digits.y))(hasher, digits.X_query, digits.y_query)
    assert given == ITQHasher(nbits=8, random_state=0).fit(digits.X, digits.y).score(digits.X_query, digits.y_query)


def test_fitted_without_targets(digits):
    hasher = ITQHasher(nbits=8, random_state=0).fit(digits.X)
    with pytest.raises(ValueError, match=r"fitted without y.*y=X to score neighbor_recall"):
        hasher.score(digits.X_query, digits.y_query)
    with pytest.raises(ValueError, match=r"`y` must be given for the affinity 'auto'.*with y=X"):
        hasher.score(digits.X_query)
    assert RetrievalScorer(database="fold")(hasher, digits.X_query, digits.y_query) > 0.3


def test_database_of_a_single_class_gives_a_warning(digits):
    one = digits.y == 1
    hasher = ITQHasher(nbits=8, random_state=0).fit(digits.X[one], digits.y[one])
    with pytest.warns(UserWarning, match=r"single class.*StratifiedKFold"):
        RetrievalScorer(empty="zero")(hasher, digits.X_query, digits.y_query)


def test_training_fold_of_a_single_class_gives_a_warning(digits):
    sorted_rows = np.concatenate([np.flatnonzero(digits.y == c) for c in (0, 1)])
    X, y = digits.X[sorted_rows], digits.y[sorted_rows]
    y[:] = np.arange(len(y)) >= len(y) / 2  # the first of two unshuffled folds is one class
    scorer = RetrievalScorer(empty="zero")
    with pytest.warns(UserWarning, match=r"single class.*StratifiedKFold"):
        cross_val_score(ITQHasher(nbits=8, random_state=0), X, y, cv=KFold(2), scoring=scorer)
    with pytest.raises(ValueError, match=r"at least two classes.*StratifiedKFold"):
        cross_val_score(TALRHasher(nbits=8), X, y, cv=KFold(2), scoring=scorer, error_score="raise")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"metric": "map"},
            r"`metric` must be one of ap, ndcg, fast_ap, precision, .* Got 'map' \(did you mean 'ap'\?\) instead. "
            r"The mAP@K of papers on hashing is 'ap_at_K_retrieved', with another divisor\.$",
        ),
        ({"metric": "mAP@5"}, r"The mAP@5 of papers on hashing is 'ap_at_5_retrieved', with another divisor\.$"),
        ({"metric": "NDCG_T"}, r"Got 'NDCG_T' \(did you mean 'ndcg'\?\) instead\.$"),
        ({"metric": 5}, "Got 5 instead"),
        ({"metric": []}, "`metric` must have at least one name"),
        ({"metric": ["ap", "mrr"]}, "Got 'mrr' instead"),
        ({"metric": "precision"}, "precision_at_100, precision_radius_2, or the parameter k"),
        ({"metric": "ap_radius_2"}, "`metric` .* Got 'ap_radius_2': ap has no radius"),
        ({"metric": "roc_auc_at_5"}, "`metric` .* Got 'roc_auc_at_5': roc_auc has no k"),
        (
            {"database": "train"},
            r"`database` must be .* a tuple \(X, y\) or \(X, y, groups\). Got 'train'",
        ),
        ({"database": [1, 2]}, r"`database` must be 'fit', 'fold' or a tuple .* Got a list"),
        ({"empty": "ignore"}, "`empty` must be one of 'skip', 'zero', 'one', 'nan', None. Got 'ignore'"),
        ({"k": 0}, "`k` must be None or an int >= 1. Got 0"),
        (
            {"k": 5, "metric": ["roc_auc", "precision_radius_2"]},
            "`k` must be None for metrics without a cutoff",
        ),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_unknown_options(arguments, message):
    with pytest.raises(ValueError, match=message):
        RetrievalScorer(**arguments)


def test_weights_of_bits_are_used_unless_told_otherwise(digits):
    hasher = ITQHasher(nbits=8, random_state=0).fit(digits.X, digits.y)
    plain = RetrievalScorer("ap")(hasher, digits.X_query, digits.y_query)
    hasher.bit_weights_ = np.r_[np.ones(4), np.zeros(4)]
    assert RetrievalScorer("ap", weighted=False)(hasher, digits.X_query, digits.y_query) == plain
    codes, database = (hasher.transform(rows)[:, :4] for rows in (digits.X_query, digits.X))
    H = relevance_histogram(codes, database, digits.y_query, digits.y)
    assert RetrievalScorer("ap")(hasher, digits.X_query, digits.y_query) == pytest.approx(average_precision(H))
    assert average_precision(H) < plain


def test_a_radius_counts_bits_whatever_they_weigh(digits):
    hasher = ITQHasher(nbits=8, random_state=0).fit(digits.X, digits.y)
    plain = RetrievalScorer("precision_radius_2")(hasher, digits.X_query, digits.y_query)
    hasher.bit_weights_ = np.full(8, 0.1)  # a ball of radius 2 in weighted distances would hold everything
    assert RetrievalScorer("precision_radius_2")(hasher, digits.X_query, digits.y_query) == plain
    values = RetrievalScorer(["recall_radius_1", "ap"])(hasher, digits.X_query, digits.y_query)
    assert list(values) == ["recall_radius_1", "ap"]
    assert values["ap"] == pytest.approx(RetrievalScorer("ap")(hasher, digits.X_query, digits.y_query))
