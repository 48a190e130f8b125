"""
Classify by the nearest codes
=============================

A k-nearest-neighbour classifier keeps its training set in memory. Codes keep it in a few
bytes an item, and `KNeighborsClassifier` counts the bits that differ with
``metric="hamming"``.
"""

# %%
# A hasher in front of the classifier
# -----------------------------------
#
# `transform` gives one uint8 for each bit, which is what scikit-learn's metric takes; an
# index would store them packed, eight in a byte. The hasher learns from the same labels as
# the classifier.

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from skhash import ITQHasher, LSHHasher, TALRHasher

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=500, stratify=y, random_state=0)

floats = KNeighborsClassifier(5).fit(X_train, y_train)
accuracy = {"float32 vectors": {4 * X.shape[1]: floats.score(X_test, y_test)}}

LENGTHS = (8, 16, 32, 64)
for nbits in LENGTHS:
    hashers = [
        TALRHasher(nbits, n_epochs=20, random_state=0),
        ITQHasher(nbits, random_state=0),
        LSHHasher(nbits, random_state=0),
    ]
    for hasher in hashers:
        model = make_pipeline(hasher, KNeighborsClassifier(5, metric="hamming")).fit(X_train, y_train)
        name = f"{type(hasher).__name__.removesuffix('Hasher')} codes"
        accuracy.setdefault(name, {})[nbits // 8] = model.score(X_test, y_test)

# %%
# Accuracy beside memory
# ----------------------

print(f"{'':16} {'bytes an item':>13}  {'training set':>12}  accuracy")
for name, by_size in accuracy.items():
    for size, value in by_size.items():
        print(f"{name:16} {size:13}  {size * len(X_train) / 1024:8.1f} KiB  {value:8.3f}")

figure, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
for name, by_size in accuracy.items():
    ax.plot(list(by_size), list(by_size.values()), "o-", label=name)
ax.set_xscale("log", base=2)
ax.set_xticks([1, 2, 4, 8, 256], ["1", "2", "4", "8", "256"])
ax.set(xlabel="bytes per item", ylabel="accuracy of 5 nearest neighbours")
ax.grid(color="0.9")
ax.legend(frameon=False)
plt.show()

# %%
# Sixteen bits that were learned from the labels hold most of what 64 floats tell about the
# class; codes learned without labels need more of them.
