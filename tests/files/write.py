"""Write one file of each kind into a folder: ``python tests/files/write.py FOLDER``, which read.py reads.

Before a minor version such as 0.1 is released, its files go to tests/files/0.1, without talr_mlp.safetensors, which has
2 MB. Later versions must read them with the same codes and neighbors.
"""

import contextlib
import io
import os
import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skhash import EmbeddingHasher, ITQHasher, StructHashHasher, TALRHasher
from skhash.affinity import DistanceAffinity
from skhash.cli import main
from skhash.comparison import compare
from skhash.neighbors import HammingNeighbors
from skhash.persistence import save
from skhash.unwrap import find_hasher

HASHERS = {
    "talr": TALRHasher(16, n_epochs=2, affinity=DistanceAffinity(), random_state=0),
    "talr_mlp": TALRHasher(16, backbone="mlp", n_epochs=2, store_database=False, random_state=0),
    "itq": make_pipeline(StandardScaler(), ITQHasher(16, random_state=0)),
    "structhash": StructHashHasher(6, store_database=False, random_state=0),
    "embedding": EmbeddingHasher(16, n_epochs=2, store_database=False, random_state=0),
}


def write(folder):
    """Write all files, and what they must give for some digits."""
    X, y = load_digits(return_X_y=True)
    X = X.astype(np.float32)
    folder.mkdir(exist_ok=True)
    names = np.array(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])[y]
    expected = {"X": X[500:600], "y": names[500:600]}
    for name, hasher in HASHERS.items():
        hasher.fit(X[:500], X[:500, 18:22] if name == "talr" else names[:500])
        save(hasher, folder / f"{name}.safetensors")
        expected[name] = np.packbits(hasher.transform(X[500:600]), axis=1)
        expected[f"{name}_fingerprint"] = find_hasher(hasher).fingerprint_
    expected["talr_score"] = HASHERS["talr"].score(X[550:600], X[550:600, 18:22])
    expected["itq_score"] = HASHERS["itq"].score(X[550:600], names[550:600])
    index = HammingNeighbors(HASHERS["embedding"], query="real").fit(X[:100], ids=np.arange(1000, 1100))
    save(index.remove([1003]), folder / "index.safetensors")
    expected["distances"], expected["neighbors"] = index.kneighbors(X[500:600], 5)
    np.savez_compressed(folder / "expected.npz", **expected)
    os.chdir(folder)
    np.save("X.npy", X[500:600])
    with contextlib.redirect_stdout(io.StringIO()):
        main(["encode", "talr.safetensors", "X.npy", "--out", "codes.npz"])
    os.remove("X.npy")
    compare("digits", methods=["lsh"], nbits=[8], n_seeds=1, folder="comparison", per_query=False)


if __name__ == "__main__":
    write(Path(sys.argv[1]).absolute())
