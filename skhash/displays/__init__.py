"""Displays: plots in scikit-learn's manner. Each is imported at first use, matplotlib when it first draws.

``Display.from_...`` computes, with :mod:`skhash.metrics`, and draws; ``Display(...)`` holds numbers that
are there already, and its ``plot`` draws them. Both return the display: ``ax_``, ``figure_`` and the
artists are its attributes.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skhash.displays.bit_balance import BitBalanceDisplay
    from skhash.displays.code_map import CodeMapDisplay
    from skhash.displays.gap import GapDisplay
    from skhash.displays.metric_by_bits import MetricByBitsDisplay
    from skhash.displays.precision_at_n import PrecisionAtNDisplay
    from skhash.displays.precision_recall import PrecisionRecallDisplay
    from skhash.displays.quantization import QuantizationDisplay
    from skhash.displays.retrieved_images import RetrievedImagesDisplay
    from skhash.displays.tie_range import TieRangeDisplay

_MODULES = {
    "BitBalanceDisplay": "bit_balance",
    "CodeMapDisplay": "code_map",
    "MetricByBitsDisplay": "metric_by_bits",
    "GapDisplay": "gap",
    "PrecisionAtNDisplay": "precision_at_n",
    "PrecisionRecallDisplay": "precision_recall",
    "QuantizationDisplay": "quantization",
    "RetrievedImagesDisplay": "retrieved_images",
    "TieRangeDisplay": "tie_range",
}
__all__ = [
    "BitBalanceDisplay",
    "CodeMapDisplay",
    "GapDisplay",
    "MetricByBitsDisplay",
    "PrecisionAtNDisplay",
    "PrecisionRecallDisplay",
    "QuantizationDisplay",
    "RetrievedImagesDisplay",
    "TieRangeDisplay",
]


def __getattr__(name):
    if name in _MODULES:
        return getattr(import_module(f"skhash.displays.{_MODULES[name]}"), name)
    raise AttributeError(f"module 'skhash.displays' has no attribute {name!r}")


def __dir__():
    return [*globals(), *__all__]
