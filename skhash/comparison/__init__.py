"""Compare methods under one protocol: fit, encode, rank, and write tables and a report."""

from skhash.comparison._layouts import mean_and_spread, tie_range
from skhash.comparison.evaluation import METRICS, evaluate_hasher
from skhash.comparison.leaders import find_leaders
from skhash.comparison.methods import METHODS, expand_methods, make_hasher
from skhash.comparison.progress import Progress
from skhash.comparison.report import rebuild_page, write_report, write_results
from skhash.comparison.results import Result
from skhash.comparison.run import compare
from skhash.comparison.tables import absences, lay_out, markdown_table, summarize
from skhash.comparison.watching import Plan, Step
from skhash.registry import GROUPS, VARIANTS

__all__ = [
    "GROUPS",
    "METHODS",
    "METRICS",
    "VARIANTS",
    "Plan",
    "Progress",
    "Result",
    "Step",
    "absences",
    "compare",
    "evaluate_hasher",
    "expand_methods",
    "find_leaders",
    "lay_out",
    "make_hasher",
    "markdown_table",
    "mean_and_spread",
    "rebuild_page",
    "summarize",
    "tie_range",
    "write_report",
    "write_results",
]
