"""Plot of the front page and of the README: AP_T against the number of bits, with tie ranges.

The results are those of ``skhash compare digits --bits 8,16,32,64 --out report/`` in
``report/results.json``. ``make -C docs picture`` makes the copy of the README.
"""

import sys

import matplotlib.pyplot as plt
import numpy as np
from results import ROOT, read_results

METHODS = {"talr": "#0a7d91", "itq": "#d9480f", "lsh": "#6b7280"}

results = read_results(ROOT / "experiments/results/digits.json")
NBITS = sorted({result["nbits"] for result in results})
_, axes = plt.subplots(figsize=(5.6, 3.4), layout="constrained")
for shift, (method, color) in zip((-0.12, 0, 0.12), METHODS.items(), strict=True):
    for x, nbits in enumerate(NBITS):
        chosen = [result for result in results if (result["method"], result["nbits"]) == (method, nbits)]
        worst, mean, best = (np.mean([result[key] for result in chosen]) for key in ("ap_worst", "ap", "ap_best"))
        axes.plot([x + shift] * 2, [worst, best], color=color, lw=7, alpha=0.3, solid_capstyle="butt")
        axes.plot(x + shift, mean, "o", color=color, label=method.upper() if x == 0 else None)
axes.set_xticks(np.arange(len(NBITS)), [f"{nbits} bits" for nbits in NBITS])
axes.set(ylabel="average precision", ylim=(0, 1))
axes.legend(frameon=False, ncols=3, loc="lower right", title="point: AP_T; bar: worst to best order")
if "--save" in sys.argv:
    axes.spines[["top", "right"]].set_visible(False)
    plt.savefig(ROOT / "docs/_static/overview.png", dpi=150)
