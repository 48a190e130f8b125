"""Exact tie-aware retrieval metrics on relevance histograms, and scorers that use them."""

from skhash.metrics.average_precision import average_precision
from skhash.metrics.evaluation import evaluate_histograms, evaluate_ranking
from skhash.metrics.fast_ap import fast_ap
from skhash.metrics.histogram import Ranking, RelevanceHistogram, histogram_from_distances, relevance_histogram
from skhash.metrics.metric import Metric
from skhash.metrics.ndcg import ndcg
from skhash.metrics.neighbor_recall import neighbor_recall
from skhash.metrics.precision import precision
from skhash.metrics.precision_recall_curve import precision_recall_curve
from skhash.metrics.r_precision import r_precision
from skhash.metrics.recall import recall
from skhash.metrics.reciprocal_rank import reciprocal_rank
from skhash.metrics.roc_auc import roc_auc
from skhash.metrics.scorers import RetrievalScorer

__all__ = [
    "Metric",
    "Ranking",
    "RelevanceHistogram",
    "RetrievalScorer",
    "average_precision",
    "evaluate_histograms",
    "evaluate_ranking",
    "fast_ap",
    "histogram_from_distances",
    "ndcg",
    "neighbor_recall",
    "precision",
    "precision_recall_curve",
    "r_precision",
    "recall",
    "reciprocal_rank",
    "relevance_histogram",
    "roc_auc",
]
