"""Plots of the page on baselines: recall of the nearest vectors against bytes, one line per method."""

from results import ROOT, read_results

from skhash.displays import RecallByBytesDisplay

#: methods that no one should take, and that would hide the others
OMITTED = ("sign", "float32", "float16", "lsh", "faiss-lsh")


def _plot(name, sizes):
    stored = read_results(ROOT / f"experiments/results/neighbors/{name}.json")
    results = [r for r in stored if r["bytes_per_item"] in sizes and r["method"] not in OMITTED]
    best = {}
    for result in sorted(results, key=lambda result: result["nbits"]):
        best[result["method"]] = result["nbits"], result["real_neighbor_recall_at_10"]
    RecallByBytesDisplay.from_results(sorted(results, key=lambda result: best[result["method"]], reverse=True))


def fashion_mnist():
    """Plot Fashion-MNIST."""
    _plot("fashion_mnist", (16, 32, 64))


def wordnet():
    """Plot WordNet."""
    _plot("wordnet", (16, 48, 96, 192))
