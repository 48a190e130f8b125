"""
Show the retrieved images
=========================

A metric such as AP = 0.9 does not show which errors a hasher makes. This example shows the ten
nearest images of some queries, with the wrong ones marked, for codes learned with and without
labels.
"""

# %%
# Two hashers of 16 bits
# ----------------------

import matplotlib.pyplot as plt
import numpy as np
from skhash import ITQHasher, TALRHasher
from skhash.datasets import load_dataset
from skhash.displays import RetrievedImagesDisplay
from skhash.metrics import average_precision, relevance_histogram

data = load_dataset("digits")
hashers = {
    "TALR, with labels": TALRHasher(16, n_epochs=30, random_state=0).fit(
        data.X_train, data.y_train
    ),
    "ITQ, without labels": ITQHasher(16, random_state=0).fit(data.X_train),
}

# %%
# Queries with the largest difference
# -----------------------------------
#
# With ``average=False`` a metric returns one value per query. The figures show the two queries
# where ITQ is better than TALR by the largest difference, and the three where TALR is.


def ap_of_queries(hasher):
    """AP_T of each query on the codes of a hasher."""
    codes = hasher.transform(data.X_query), hasher.transform(data.X_database)
    return average_precision(
        relevance_histogram(*codes, data.y_query, data.y_database), average=False
    )


ap = {name: ap_of_queries(hasher) for name, hasher in hashers.items()}
talr, itq = ap.values()
shown = np.argsort(talr - itq)[[0, 1, -3, -2, -1]]

for name, hasher in hashers.items():
    display = RetrievedImagesDisplay.from_estimator(
        hasher,
        data.X_query[shown],
        data.y_query[shown],
        data.X_database,
        data.y_database,
        image_shape=(8, 8),
        n_neighbors=10,
    )
    display.figure_.suptitle(f"{name}: AP$_T$ {ap[name].mean():.3f} over all queries")
plt.show()

# %%
# ITQ compares how images look: its errors look like the query. TALR moves the images of a class
# together, however they look. If it assigns a query to another class, it finds almost no image
# of the right one. Many distances are equal, and the order of tied images is arbitrary. This is
# why the metrics average over all orders of the ties.
