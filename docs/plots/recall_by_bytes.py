"""Plots of the page on baselines: recall of the nearest vectors against bytes, one line per method."""

from results import ROOT, read_results

from skhash.displays import RecallByBytesDisplay


def _plot(dataset):
    stored = read_results(ROOT / "experiments/results/neighbors.json")
    results = [result for result in stored if result["dataset"] == dataset]
    last = max(result["nbits"] for result in results)
    order = {result["method"]: -result["real_neighbor_recall_at_10"] for result in results if result["nbits"] == last}
    RecallByBytesDisplay.from_results(sorted(results, key=lambda result: order.get(result["method"], 0)))


def fashion_mnist():
    """Plot Fashion-MNIST."""
    _plot("fashion_mnist")
