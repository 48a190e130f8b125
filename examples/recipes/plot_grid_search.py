"""
Search hyper-parameters with GridSearchCV
=========================================

Hashers are transformers: they stand in pipelines, and `RetrievalScorer` turns tie-aware
metrics into scorers, so that scikit-learn's searches choose among them.
"""

# %%
# A pipeline, a grid, a scorer
# ----------------------------
#
# In each fold the scorer ranks the rows that the hasher was fitted on for each of the rows
# that were left out. A list of metrics costs one ranking, and gives one column of results
# for each; `refit` says which of them decides. Folds are stratified and shuffled, for a
# fold without some class could not be scored on it.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV, StratifiedKFold, train_test_split
from sklearn.pipeline import make_pipeline

from skhash import TALRHasher
from skhash.metrics import RetrievalScorer

X, y = load_digits(return_X_y=True)
X_train, X_query, y_train, y_query = train_test_split(X, y, test_size=300, stratify=y, random_state=0)

pipeline = make_pipeline(PCA(40, random_state=0), TALRHasher(n_epochs=8, random_state=0))
grid = {"talrhasher__nbits": [8, 16, 32], "talrhasher__learning_rate": [0.01, 0.1, 1.0]}
search = GridSearchCV(
    pipeline,
    grid,
    scoring=RetrievalScorer(["ap", "ap_worst", "ap_best", "ndcg", "precision_at_100"]),
    refit="ap",
    cv=StratifiedKFold(2, shuffle=True, random_state=0),
).fit(X_train, y_train)
print(search.best_params_)

# %%
# The step size and the length, with the ties in sight
# ----------------------------------------------------
#
# Short codes tie often. The bars reach from the worst to the best order inside the ties: a difference
# that is smaller than a bar says little, however many digits it has.

results, lengths = search.cv_results_, grid["talrhasher__nbits"]
figure, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
for rate in grid["talrhasher__learning_rate"]:
    chosen = results["param_talrhasher__learning_rate"] == rate
    ap, worst, best = (results[f"mean_test_{name}"][chosen] for name in ("ap", "ap_worst", "ap_best"))
    shift = np.array(lengths) * (1 + 0.06 * np.log10(rate / 0.1))  # side by side
    ax.errorbar(shift, ap, (ap - worst, best - ap), marker="o", capsize=4, label=f"step size {rate}")
ax.set_xscale("log", base=2)
ax.set_xticks(lengths, [str(n) for n in lengths])
ax.set(xlabel="bits", ylabel="AP, cross-validated, and its range over the ties")
ax.legend(frameon=False)
plt.show()

# %%
# Queries that the search has not seen
# ------------------------------------
#
# The search is itself a hasher now, refitted on all training rows: `transform` gives bits, the last
# step packed codes, and the scorer takes it as it is.

print(f"AP_T of {len(X_query)} new queries: {RetrievalScorer('ap')(search, X_query, y_query):.3f}")
print("codes:", search.transform(X_query).shape, search.transform(X_query).dtype)
