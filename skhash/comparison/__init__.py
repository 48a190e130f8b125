"""Compare methods under one protocol: fit, encode, rank, and write tables and a report."""

from skhash.comparison.compare import compare
from skhash.comparison.differences import Difference, differences_table, find_differences
from skhash.comparison.evaluation import METRICS, evaluate_hasher
from skhash.comparison.formats import csv_table, latex_table
from skhash.comparison.methods import expand_methods, make_hasher
from skhash.comparison.progress import Plan, Progress, Step
from skhash.comparison.report import write_report
from skhash.comparison.results import Result, read_results
from skhash.comparison.tables import find_leaders, markdown_table, mean_and_spread, tie_range
from skhash.registry import VARIANTS

__all__ = [
    "METRICS",
    "VARIANTS",
    "Difference",
    "Plan",
    "Progress",
    "Result",
    "Step",
    "compare",
    "csv_table",
    "differences_table",
    "evaluate_hasher",
    "expand_methods",
    "find_differences",
    "find_leaders",
    "latex_table",
    "make_hasher",
    "markdown_table",
    "mean_and_spread",
    "read_results",
    "tie_range",
    "write_report",
]
