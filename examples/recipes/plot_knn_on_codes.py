"""
Classify by the nearest codes
=============================

A k-nearest-neighbors classifier stores its training set. With codes, each sample needs only a few
bytes, and `KNeighborsClassifier` with ``metric="hamming"`` counts the bits that differ.
"""

# %%
# A hasher before the classifier
# ------------------------------
#
# `transform` returns one uint8 per bit, as scikit-learn's metric needs it; an index would store
# packed codes, with eight bits per byte. The hasher learns from the same labels as the
# classifier.

import matplotlib.pyplot as plt
from skhash import ITQHasher, LSHHasher, TALRHasher
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(
    X, y, test_size=500, stratify=y, random_state=0
)

floats = KNeighborsClassifier(5).fit(X_train, y_train)
accuracy = {"float32 vectors": {4 * X.shape[1]: floats.score(X_test, y_test)}}

for nbits in (8, 16, 32, 64):
    hashers = [
        TALRHasher(nbits, n_epochs=20, random_state=0),
        ITQHasher(nbits, random_state=0),
        LSHHasher(nbits, random_state=0),
    ]
    for hasher in hashers:
        model = make_pipeline(hasher, KNeighborsClassifier(5, metric="hamming")).fit(
            X_train, y_train
        )
        name = f"{type(hasher).__name__.removesuffix('Hasher')} codes"
        accuracy.setdefault(name, {})[nbits // 8] = model.score(X_test, y_test)

# %%
# Accuracy and memory
# -------------------

print(f"{'':16} {'bytes/sample':>12}  {'training set':>12}  accuracy")
for name, by_size in accuracy.items():
    for size, value in by_size.items():
        print(
            f"{name:16} {size:12}  {size * len(X_train) / 1024:8.1f} KiB  {value:8.3f}"
        )

figure, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
for name, by_size in accuracy.items():
    ax.plot(list(by_size), list(by_size.values()), "o-", label=name)
ax.set_xscale("log", base=2)
ax.set_xticks([1, 2, 4, 8, 256], ["1", "2", "4", "8", "256"])
ax.set(xlabel="bytes per sample", ylabel="accuracy of 5 nearest neighbors")
ax.grid(color="0.9")
ax.legend(frameon=False)
plt.show()

# %%
# With 16 bits learned from the labels, the accuracy is close to that of 64 floats. Codes learned
# without labels need more bits.
