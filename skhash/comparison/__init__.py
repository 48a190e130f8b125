"""Compare methods under one protocol: fit, encode, rank, and tabulate with the tie range."""

from skhash.comparison.evaluation import FIGURES, evaluate_hasher
from skhash.comparison.leaders import find_lead
from skhash.comparison.methods import GROUPS, METHODS, expand_methods, make_hasher
from skhash.comparison.report import rebuild_page, write_report, write_results
from skhash.comparison.run import compare
from skhash.comparison.tables import markdown_table, summarize

__all__ = [
    "FIGURES",
    "GROUPS",
    "METHODS",
    "compare",
    "evaluate_hasher",
    "expand_methods",
    "find_lead",
    "make_hasher",
    "markdown_table",
    "rebuild_page",
    "summarize",
    "write_report",
    "write_results",
]
