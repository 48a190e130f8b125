"""Plot of the page of the comparison: AP_T and its tie range at 32 bits, one panel per data set, the best on top."""

import matplotlib.pyplot as plt
import numpy as np
from results import ROOT, read_results

SETS = {"usps": "USPS", "mnist": "MNIST", "cifar_gist": "CIFAR-10 GIST", "mirflickr": "MIRFlickr tags"}
METHODS = [
    "talr-mlp",
    "dtsh-mlp",
    "greedyhash-mlp",
    "hashnet-mlp",
    "talr",
    "sdh",
    "structhash",
    "cibhash",
    "itq",
    "lsh",
]

_, panels = plt.subplots(2, 2, figsize=(7, 6), layout="constrained")
for ax, (name, title) in zip(panels.flat, SETS.items(), strict=True):
    results = [r for r in read_results(ROOT / f"experiments/results/comparison/{name}.json") if r["nbits"] == 32]
    of_method = {method: [r for r in results if r["method"] == method] for method in METHODS}
    means = {
        method: [np.mean([r[key] for r in rows]) for key in ("ap_worst", "ap", "ap_best")]
        for method, rows in of_method.items()
        if rows
    }
    names = sorted(means, key=lambda method: means[method][1])
    for y, method in enumerate(names):
        worst, mean, best = means[method]
        color = "#6b7280" if method in ("cibhash", "itq", "lsh") else "#0a7d91"
        ax.plot([worst, best], [y, y], color=color, lw=6, alpha=0.3, solid_capstyle="butt")
        ax.plot(mean, y, "o", color=color)
    ax.set_yticks(range(len(names)), names)
    ax.set(title=title, xlabel="AP_T and its tie range")
