"""Encode a data set with Ray Data, and choose parameters on its workers.

    python examples/encode_on_ray.py            # pip install "ray[data]"

An actor loads the hasher once, and encodes batch after batch. Only samples and codes
move between processes. A search runs on the same workers through the joblib backend of Ray.
"""

import os
import tempfile

import joblib
import numpy as np
import ray
from ray.util.joblib import register_ray
from skhash import ITQHasher
from skhash.metrics import RetrievalScorer
from skhash.persistence import load, save
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV

NBITS = 32


class Encode:
    """Batches of samples to batches of codes; every actor loads the hasher once."""

    def __init__(self, path):
        self.hasher = load(path)

    def __call__(self, batch):
        """Keep the ids: batches come in any order."""
        return {"id": batch["id"], "code": self.hasher.encode(batch["vector"])}


def encode(X, path):
    """Codes of samples, in their order."""
    # a large data set: ray.data.read_parquet("s3://bucket/vectors"), and write_parquet
    samples = ray.data.from_items(
        [{"id": i, "vector": vector} for i, vector in enumerate(X)],
        override_num_blocks=4,
    )
    codes = samples.map_batches(
        Encode,
        fn_constructor_args=(path,),
        batch_size=500,
        batch_format="numpy",
        compute=ray.data.ActorPoolStrategy(size=2),
    )
    rows = sorted(codes.take_all(), key=lambda row: row["id"])
    return np.stack([row["code"] for row in rows])


def search(X, y):
    """Result of a grid search whose fits run on the workers of Ray."""
    register_ray()
    scorer = RetrievalScorer("ap")
    grid = GridSearchCV(
        ITQHasher(random_state=0), {"nbits": [8, 16]}, scoring=scorer, cv=2
    )
    with joblib.parallel_backend("ray"):
        return grid.fit(X, y)


def main():
    """Compare with one process."""
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    X, y = load_digits(return_X_y=True)
    hasher = ITQHasher(NBITS, random_state=0).fit(X)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "hasher.safetensors")
        save(hasher, path)
        codes = encode(X, path)
    n_differing = int(np.bitwise_count(codes ^ hasher.encode(X)).sum())
    found = search(X, y)
    ray.shutdown()

    print(f"ray {ray.__version__}")
    print(f"bits that differ from one process: {n_differing} of {codes.size * 8:,}")
    with joblib.parallel_backend("threading"):
        alone = GridSearchCV(**found.get_params(deep=False)).fit(X, y)
    name = "mean_test_score"
    same = bool((found.cv_results_[name] == alone.cv_results_[name]).all())
    print(f"scores of the search: {found.cv_results_[name]}; as in one process: {same}")
    if n_differing or not same:
        raise SystemExit("Ray has computed something else.")


if __name__ == "__main__":
    main()
