"""Exact tie-aware retrieval metrics on relevance histograms, and scorers that use them."""

from skhash.metrics.average_precision import average_precision
from skhash.metrics.evaluation import Ranking, evaluate_histograms, evaluate_queries, evaluate_ranking
from skhash.metrics.fast_ap import fast_ap
from skhash.metrics.histogram import RelevanceHistogram, histogram_from_distances, iter_histograms, relevance_histogram
from skhash.metrics.metric import Metric
from skhash.metrics.ndcg import ndcg
from skhash.metrics.neighbor_recall import neighbor_recall
from skhash.metrics.precision import precision
from skhash.metrics.precision_recall_curve import precision_recall_curve
from skhash.metrics.r_precision import r_precision
from skhash.metrics.recall import recall
from skhash.metrics.reciprocal_rank import reciprocal_rank
from skhash.metrics.roc_auc import roc_auc
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
    "evaluate_queries",
    "evaluate_ranking",
    "fast_ap",
    "histogram_from_distances",
    "iter_histograms",
    "ndcg",
    "ndcg_scorer",
    "neighbor_recall",
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
