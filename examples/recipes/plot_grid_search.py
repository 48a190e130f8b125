"""
Tune a hasher with GridSearchCV
===============================

Hashers are transformers, so they can be steps of a pipeline. `RetrievalScorer` makes scorers
from tie-aware metrics, so that scikit-learn's searches can choose the hyperparameters of a
hasher.
"""

# %%
# A pipeline, a grid and a scorer
# -------------------------------
#
# In each fold, the scorer uses the held-out samples as queries and ranks the samples that the
# hasher was fitted on. A list of metrics needs a single ranking, and gives one column of
# results per metric; `refit` names the metric that decides. The folds are stratified and
# shuffled, because a fold without some class cannot be scored on this class.

import matplotlib.pyplot as plt
import numpy as np
from skhash import TALRHasher
from skhash.metrics import RetrievalScorer
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV, StratifiedKFold, train_test_split
from sklearn.pipeline import make_pipeline

X, y = load_digits(return_X_y=True)
X_train, X_query, y_train, y_query = train_test_split(
    X, y, test_size=300, stratify=y, random_state=0
)

pipeline = make_pipeline(
    PCA(40, random_state=0), TALRHasher(n_epochs=8, random_state=0)
)
grid = {"talrhasher__nbits": [8, 16, 32], "talrhasher__learning_rate": [0.01, 0.1, 0.3]}
search = GridSearchCV(
    pipeline,
    grid,
    scoring=RetrievalScorer(["ap", "ap_worst", "ap_best", "ndcg", "precision_at_100"]),
    refit="ap",
    cv=StratifiedKFold(2, shuffle=True, random_state=0),
).fit(X_train, y_train)
print(search.best_params_)

# %%
# Learning rate and number of bits, with tie ranges
# -------------------------------------------------
#
# Short codes have many ties. Each bar goes from the worst to the best order of the ties. A
# difference smaller than a bar means little.

results, all_nbits = search.cv_results_, grid["talrhasher__nbits"]
figure, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
for rate in grid["talrhasher__learning_rate"]:
    chosen = results["param_talrhasher__learning_rate"] == rate
    ap, worst, best = (
        results[f"mean_test_{name}"][chosen] for name in ("ap", "ap_worst", "ap_best")
    )
    position = np.array(all_nbits) * (1 + 0.06 * np.log10(rate / 0.1))  # side by side
    ax.errorbar(
        position,
        ap,
        (ap - worst, best - ap),
        marker="o",
        capsize=4,
        label=f"learning rate {rate}",
    )
ax.set_xscale("log", base=2)
ax.set_xticks(all_nbits, [str(nbits) for nbits in all_nbits])
ax.set(xlabel="bits", ylabel="cross-validated AP and its tie range")
ax.legend(frameon=False)
plt.show()

# %%
# New queries
# -----------
#
# The search is now a hasher itself, refitted on all training samples: `transform` returns bits,
# and the scorer accepts it.

ap = RetrievalScorer("ap")(search, X_query, y_query)
print(f"AP_T of {len(X_query)} new queries: {ap:.3f}")
print("codes:", search.transform(X_query).shape, search.transform(X_query).dtype)
