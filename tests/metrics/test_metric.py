"""Metrics by name."""

import pytest

from skhash.metrics import (
    Metric,
)


@pytest.mark.parametrize(
    ("name", "function", "options"),
    [
        ("ap", "average_precision", {}),
        ("ap_at_100", "average_precision", {"k": 100}),
        ("ap_worst", "average_precision", {"ties": "worst"}),
        ("ndcg_at_10_best", "ndcg", {"k": 10, "ties": "best"}),
        ("ndcg_at_100_delayed_log2", "ndcg", {"k": 100, "discount": "delayed_log2"}),
        ("ndcg_at_10_worst_linear", "ndcg", {"k": 10, "ties": "worst", "gain": "linear"}),
        ("ap_at_100_retrieved", "average_precision", {"k": 100, "normalizer": "retrieved"}),
        ("ap_at_5_worst_min", "average_precision", {"k": 5, "ties": "worst", "normalizer": "min"}),
        ("precision_radius_2", "precision", {"radius": 2.0}),
        ("recall_radius_2.5_worst", "recall", {"radius": 2.5, "ties": "worst"}),
        ("r_precision", "r_precision", {}),
        ("reciprocal_rank_best", "reciprocal_rank", {"ties": "best"}),
        ("roc_auc", "roc_auc", {}),
        ("fast_ap", "fast_ap", {}),
    ],
)
def test_names(name, function, options):
    metric = Metric.parse(name)
    assert (metric.name, metric.function.__name__, metric.options) == (name, function, options)
    if name != "fast_ap":
        assert metric.with_ties(metric.ties) == metric


@pytest.mark.parametrize(
    ("short", "name"),
    [("ndcg@10", "ndcg_at_10"), ("ap@5_worst_min", "ap_at_5_worst_min"), ("neighbor_recall@1_of_5", None)],
)
def test_a_cutoff_is_also_written_with_an_at_sign(short, name):
    assert Metric.parse(short) == Metric.parse(name or "neighbor_recall_at_1_of_5")


@pytest.mark.parametrize(
    "name",
    [
        "",
        "@5",
        "ap@",
        "ap@5@5",
        "AP",
        "ap_",
        "ap_at_",
        "ap_at_0",
        "ap_at_-1",
        "ap_best_at_5",
        "mean_ap",
        "ap_at_5_radius_2",
        "ap_delayed_log2",
        "ap_linear",
        "ap_retrieved",
        "ap_relevant",
        "ndcg_at_5_relevant",
        "ndcg_at_5_min",
        "precision_at_5_retrieved",
        "ap_at_5_retrieved_min",
    ],
)
def test_names_that_say_no_metric(name):
    with pytest.raises(ValueError, match=rf"`metric` must .* Got '{name}'"):
        Metric.parse(name)


@pytest.mark.parametrize(
    ("name", "best", "label"),
    [
        ("ap", "ap_best", "AP"),
        ("ap_at_10_worst", "ap_at_10_best", "AP@10 of all relevant, worst order of ties"),
        ("ap_at_10_relevant", "ap_at_10_best", "AP@10 of all relevant"),
        ("ap_at_10_min", "ap_at_10_best_min", "AP@10 of min(relevant, 10)"),
        ("ap_at_9_retrieved", "ap_at_9_best_retrieved", "AP@9 of relevant retrieved"),
        ("ndcg_at_5_delayed_log2", "ndcg_at_5_best_delayed_log2", "NDCG@5, delayed log2"),
        ("ndcg_linear", "ndcg_best_linear", "NDCG, linear gain"),
        ("precision_radius_2.5", "precision_radius_2.5_best", "Precision within radius 2.5"),
        ("roc_auc", "roc_auc_best", "Area under the ROC curve"),
    ],
)
def test_another_order_of_ties_has_its_own_name(name, best, label):
    metric = Metric.parse(name)
    assert metric.with_ties("best") == Metric.parse(best)
    assert metric.label() == label


def test_fast_ap_has_no_order_of_ties():
    with pytest.raises(ValueError, match=r"`metric` must depend on the order of ties. Got 'fast_ap'"):
        Metric.parse("fast_ap").with_ties("best")
    with pytest.raises(ValueError, match="fast_ap has no ties"):
        Metric.parse("fast_ap_best")


def test_an_order_of_ties_that_is_not_there():
    with pytest.raises(ValueError, match=r"`ties` must be one of 'average', 'best', 'worst'. Got 'no such order'"):
        Metric.parse("ap").with_ties("no such order")


def test_a_cutoff_may_be_given_apart_from_the_name():
    assert Metric.parse("ap", 10).with_ties("worst") == Metric.parse("ap_at_10_worst")
    assert Metric.parse("ap", 10).name == "ap_at_10"
    assert Metric.parse("ap_worst_retrieved", 10) == Metric.parse("ap_at_10_worst_retrieved")
    assert Metric.parse("neighbor_recall", 10).name == "neighbor_recall_at_10"
    assert Metric.parse("ap_at_5", 10).name == "ap_at_5"
    assert Metric.parse("recall_radius_2", 10).name == "recall_radius_2"
    assert Metric.parse("roc_auc", 10) == Metric.parse("roc_auc")


def test_the_default_normalizer_has_a_name_of_its_own():
    metric = Metric.parse("ap_at_10_relevant")
    assert (metric.name, metric.options) == ("ap_at_10_relevant", Metric.parse("ap_at_10").options)


@pytest.mark.parametrize(("name", "hint"), [("map_at_50", "ap_at_50_retrieved"), ("mAP@50", "ap_at_50_retrieved")])
def test_the_names_of_papers_are_translated(name, hint):
    with pytest.raises(ValueError, match=f"papers on hashing is '{hint}'"):
        Metric.parse(name)
