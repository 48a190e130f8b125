"""
NSH, figure 4: very short codes, the temperature and the positives
==================================================================

Figure 4 of Yu, Shen, Wang, Zhang and Torr (IJCAI 2022) changes one thing at a time: it
shortens the codes to a few bits, and it varies the temperature tau_c of the contrast and
the number m of leading items that count as positives.

The paper does so with a pretrained ResNet-50 and photographs, and its values are not at
hand; here a small network learns MNIST from scratch. Without arguments this runs on
scikit-learn's digits; the full form takes about 35 minutes on two cores (``--only length``,
``--only tau_c`` and ``--only positives`` split it)::

    SKHASH_DATA=FOLDER python examples/reproductions/plot_nsh_figure_4.py --full
"""

# %%
# One thing at a time
# -------------------

import matplotlib.pyplot as plt
import numpy as np
import torch
from _common import Study, load_script, mean_and_deviation, rank

from skhash.datasets import load_dataset

study = Study("nsh_figure_4", "NSH, figure 4")
benchmark = load_script("experiments/nsh")

DATASET, N_EPOCHS, NBITS = "mnist", benchmark.ABLATION_EPOCHS, 32
LENGTHS, TEMPERATURES, POSITIVES = [4, 6, 8, 12, 16], [0.1, 0.2, 0.5, 1.0], [1, 2, 3, 5, 10]
if not study.full:
    DATASET, N_EPOCHS, NBITS = "digits", 3, 16
    LENGTHS, TEMPERATURES, POSITIVES = [4, 8, 16], [0.2, 1.0], [1, 5]
CHANGES = {
    "length": {f"nbits {n}": {"nbits": n} for n in LENGTHS},
    "tau_c": {f"tau_c {tau}": {"temperature": tau} for tau in TEMPERATURES},
    "positives": {f"m {m}": {"n_positives": m} for m in POSITIVES},
}


def measure(change, dataset, seed, value, method):
    """Fit NSH with one setting changed, or ITQ with as many bits, and rank the database."""
    as_images = dataset == "mnist" and method == "nsh"
    data = benchmark.load(dataset, as_images, seed) if dataset == "mnist" else load_dataset(dataset, random_state=seed)
    with torch.random.fork_rng():
        torch.manual_seed(seed)  # a module that is handed in brings its first weights
        hasher = benchmark.make("full" if method == "nsh" else "itq", as_images, N_EPOCHS, seed)
        hasher.set_params(**{"nbits": NBITS} | CHANGES[change][value])
        return rank(hasher.fit(data.X_train), data, ["ap", "ap_worst", "ap_best"])


for change, values in CHANGES.items():
    methods = ["nsh", "itq"] if change == "length" else ["nsh"]
    study.run(measure, change=[change], dataset=[DATASET], seed=study.seeds, value=values, method=methods)
    study.table("ap", column="value", ties=True, change=change)

# %%
# Figure 4
# --------
#
# The fewer bits, the more of a ranking is ties: the band between the worst and the best order
# inside them says how much of the figure is chance.

figure, axes = plt.subplots(1, 3, figsize=(12, 3.8), sharey=True, layout="constrained")
for ax, change in zip(axes, CHANGES, strict=True):
    rows = study.select(dataset="mnist", change=change) or study.select(change=change)
    for method in dict.fromkeys(row["method"] for row in rows):
        groups = {}
        for row in rows:
            if row["method"] == method:
                groups.setdefault(row["value"].split()[1], []).append(row)
        means, spreads = np.transpose([mean_and_deviation([row["ap"] for row in group]) for group in groups.values()])
        worst, best = (
            [np.mean([row[name] for row in group]) for group in groups.values()] for name in ("ap_worst", "ap_best")
        )
        line = ax.errorbar(list(groups), means, spreads, marker="o", capsize=3, label=method)
        ax.fill_between(list(groups), worst, best, color=line[0].get_color(), alpha=0.15)
    ax.set(xlabel=next(iter(CHANGES[change])).split()[0], title=", ".join({row["dataset"] for row in rows}))
axes[0].set_ylabel("AP$_T$, and its range over the ties")
axes[0].legend(frameon=False)
plt.show()
