"""Exact tie-aware retrieval metrics on relevance histograms, and scorers made of them."""

from skhash.metrics.average_precision import average_precision
from skhash.metrics.counting import histogram_from_distances, iter_histograms, relevance_histogram
from skhash.metrics.evaluation import Ranking, evaluate_histograms, evaluate_ranking, evaluate_with_curve
from skhash.metrics.histogram import RelevanceHistogram
from skhash.metrics.metric import Metric
from skhash.metrics.ndcg import ndcg
from skhash.metrics.precision_recall import precision, precision_recall_curve, r_precision, recall
from skhash.metrics.ranking import reciprocal_rank, roc_auc
from skhash.metrics.scorers import (
    RetrievalScorer,
    ap_scorer,
    ndcg_scorer,
    precision_at_100_scorer,
    precision_radius_2_scorer,
)

__all__ = [
    "Metric",
    "Ranking",
    "RelevanceHistogram",
    "RetrievalScorer",
    "ap_scorer",
    "average_precision",
    "evaluate_histograms",
    "evaluate_ranking",
    "evaluate_with_curve",
    "histogram_from_distances",
    "iter_histograms",
    "ndcg",
    "ndcg_scorer",
    "precision",
    "precision_at_100_scorer",
    "precision_radius_2_scorer",
    "precision_recall_curve",
    "r_precision",
    "recall",
    "reciprocal_rank",
    "relevance_histogram",
    "roc_auc",
]
