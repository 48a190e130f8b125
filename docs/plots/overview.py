"""The picture of the front page: the digits of scikit-learn, three methods, and what luck could have added."""

import matplotlib.pyplot as plt
import numpy as np

from skhash import ITQHasher, LSHHasher, TALRHasher
from skhash.datasets import load_dataset
from skhash.metrics import average_precision, relevance_histogram

BITS = [8, 16, 32, 64]
METHODS = {
    "TALR": (TALRHasher, {"n_epochs": 20}, "#0a7d91"),
    "ITQ": (ITQHasher, {}, "#d9480f"),
    "LSH": (LSHHasher, {}, "#6b7280"),
}

data = load_dataset("digits")
_, axes = plt.subplots(figsize=(7.2, 3.6), layout="constrained")
for shift, (name, (Hasher, parameters, colour)) in zip((-0.12, 0, 0.12), METHODS.items(), strict=True):
    for x, nbits in enumerate(BITS):
        hasher = Hasher(nbits, random_state=0, **parameters).fit(data.X_train, data.y_train)
        codes, database = hasher.transform(data.X_query), hasher.transform(data.X_database)
        H = relevance_histogram(codes, database, data.y_query, data.y_database)
        worst, mean, best = (average_precision(H, ties=ties) for ties in ("worst", "average", "best"))
        axes.plot([x + shift] * 2, [worst, best], color=colour, lw=7, alpha=0.3, solid_capstyle="butt")
        axes.plot(x + shift, mean, "o", color=colour, label=name if x == 0 else None)
axes.set_xticks(np.arange(len(BITS)), [f"{nbits} bits" for nbits in BITS])
axes.set(ylabel="average precision", ylim=(0, 1))
axes.legend(frameon=False, ncols=3, loc="lower right", title="point: AP_T; bar: worst to best order of the ties")
