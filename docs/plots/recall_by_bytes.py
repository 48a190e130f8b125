"""Plots of the page on baselines: recall of the nearest vectors against bytes, one line per method."""

from matplotlib import pyplot as plt
from results import ROOT, read_results

from skhash.displays import RecallByBytesDisplay
from skhash.displays._base import color_and_marker

#: methods that no one should take, and that would hide the others
OMITTED = ("sign", "float32", "float16", "lsh", "faiss-lsh")
#: the methods of the plot of all sets
SHOWN = ("embedding-real", "ash", "rabitq", "eden", "turboquant", "opq", "pq", "rq", "itq")
SETS = {
    "wordnet": ("WordNet", (8, 16, 32, 48, 96, 192)),
    "text": ("text", (8, 16, 32, 48, 96, 192)),
    "glove": ("GloVe", (8, 16, 24)),
    "cifar10_gist512": ("CIFAR-10 GIST", (8, 16, 32, 64, 128)),
    "cifar10_efficientnet1280": ("EfficientNet", (16, 32, 64)),
    "mnist": ("MNIST", (16, 32, 64)),
    "fashion_mnist": ("Fashion-MNIST", (8, 16, 32, 64)),
}


def _results(name, sizes):
    stored = read_results(ROOT / f"experiments/results/neighbors/{name}.json")
    return [r for r in stored if r["bytes_per_item"] in sizes and r["method"] not in OMITTED]


def _plot(name, sizes):
    results = _results(name, sizes)
    best = {}
    for result in sorted(results, key=lambda result: result["nbits"]):
        best[result["method"]] = result["nbits"], result["real_neighbor_recall_at_10"]
    RecallByBytesDisplay.from_results(sorted(results, key=lambda result: best[result["method"]], reverse=True))


def wordnet():
    """Plot WordNet."""
    _plot("wordnet", (16, 48, 96, 192))


def all_sets():
    """Plot every set, with one legend."""
    axes = plt.figure(figsize=(11, 6), layout="constrained").subplots(2, 4, sharey=True)
    entries = {}
    for ax, (name, (title, sizes)) in zip(axes.flat, SETS.items(), strict=False):
        results = [result for result in _results(name, sizes) if result["method"] in SHOWN]
        results.sort(key=lambda result: SHOWN.index(result["method"]))
        # some of these methods share a color in the registry
        for line in RecallByBytesDisplay.from_results(results, ax=ax).lines_:
            name = line.get_label().partition(" (")[0]  # without the number of seeds, which the page says
            color, marker = color_and_marker(SHOWN.index(name))
            line.set(color=color, marker=marker, label=name)
        lines, names = ax.get_legend_handles_labels()
        entries |= dict(zip(names, lines, strict=True))
        ax.get_legend().remove()
        ax.set(title=title, ylabel="Recall of the 10 nearest" if ax in axes[:, 0] else "")
    axes[-1, -1].axis("off")
    axes[-1, -1].legend(entries.values(), entries.keys(), loc="center", frameon=False)
