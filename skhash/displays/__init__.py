"""Displays: plots in scikit-learn's style. Each is imported at first use, matplotlib when it first draws.

``Display.from_...`` computes values with :mod:`skhash.metrics` and plots them. ``Display(...)``
holds values that are already computed, and its ``plot`` plots them. Both return the display,
whose attributes are ``ax_``, ``figure_`` and the artists. `write_image_browser` writes a page.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # type checkers read imports, not the dict below; a test compares the two
    from skhash.displays.bit_balance import BitBalanceDisplay as BitBalanceDisplay
    from skhash.displays.code_map import CodeMapDisplay as CodeMapDisplay
    from skhash.displays.gap import GapDisplay as GapDisplay
    from skhash.displays.image_browser import write_image_browser as write_image_browser
    from skhash.displays.metric_by_bits import MetricByBitsDisplay as MetricByBitsDisplay
    from skhash.displays.precision_at_n import PrecisionAtNDisplay as PrecisionAtNDisplay
    from skhash.displays.precision_recall import PrecisionRecallDisplay as PrecisionRecallDisplay
    from skhash.displays.quantization import QuantizationDisplay as QuantizationDisplay
    from skhash.displays.recall_by_bytes import RecallByBytesDisplay as RecallByBytesDisplay
    from skhash.displays.recall_by_candidates import RecallByCandidatesDisplay as RecallByCandidatesDisplay
    from skhash.displays.retrieved_images import RetrievedImagesDisplay as RetrievedImagesDisplay
    from skhash.displays.tie_range import TieRangeDisplay as TieRangeDisplay

#: each display to its module in this package
_MODULES = {
    "BitBalanceDisplay": "bit_balance",
    "CodeMapDisplay": "code_map",
    "GapDisplay": "gap",
    "MetricByBitsDisplay": "metric_by_bits",
    "PrecisionAtNDisplay": "precision_at_n",
    "PrecisionRecallDisplay": "precision_recall",
    "QuantizationDisplay": "quantization",
    "RecallByBytesDisplay": "recall_by_bytes",
    "RecallByCandidatesDisplay": "recall_by_candidates",
    "RetrievedImagesDisplay": "retrieved_images",
    "TieRangeDisplay": "tie_range",
    "write_image_browser": "image_browser",
}
__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"skhash.displays.{_MODULES[name]}"), name)
    raise AttributeError(f"module 'skhash.displays' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *__all__]
