"""Plots of the page on baselines: recall of the nearest vectors against bytes, one line per method."""

from results import ROOT, read_rows

from skhash.displays import RecallByBytesDisplay


def _plot(dataset):
    rows = [row for row in read_rows(ROOT / "experiments/results/neighbors.json") if row["dataset"] == dataset]
    last = max(row["nbits"] for row in rows)
    order = {row["method"]: -row["real_neighbor_recall_at_10"] for row in rows if row["nbits"] == last}
    RecallByBytesDisplay.from_results(sorted(rows, key=lambda row: order.get(row["method"], 0)))


def fashion_mnist():
    """Plot Fashion-MNIST."""
    _plot("fashion_mnist")
