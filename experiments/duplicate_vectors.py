"""How large a radius finds the pairs of near vectors by their codes.

    export SKHASH_DATA=FOLDER
    python experiments/duplicate_vectors.py                      # WordNet, 20,000 samples
    python experiments/duplicate_vectors.py --set books_minilm384

FOLDER has one .npz file per set, with the vectors in X. All pairs of samples up to a cosine distance d are found by
brute force. Two vectors at this distance have the angle arccos(1 - d), and a random hyperplane separates them with the
probability p = arccos(1 - d) / pi. So of n bits about n * p differ. The radius is this number plus two standard
deviations. The recall is the share of the pairs whose codes, by ITQ, are within the radius.
"""

import argparse
import os
from pathlib import Path

import numpy as np

from skhash import ITQHasher
from skhash.neighbors import HammingNeighbors

N_SAMPLES, BATCH = 20_000, 1000
DISTANCES, NBITS = (0.1, 0.2), (64, 128, 256)


def near_pairs(X, largest):
    """Pairs of rows up to a cosine distance, as numbers i * len(X) + j with i < j, and their distances."""
    pairs, distances = [], []
    for start in range(0, len(X), BATCH):
        cosines = X[start : start + BATCH] @ X.T
        i, j = np.nonzero(np.triu(cosines, start + 1) >= 1 - largest)
        pairs.append((i + start) * len(X) + j)
        distances.append(1 - cosines[i, j])
    return np.concatenate(pairs), np.concatenate(distances)


def main():
    """Print one line for each number of bits and each distance."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--set", default="wordnet_minilm384")
    with np.load(Path(os.environ["SKHASH_DATA"]) / f"{parser.parse_args().set}.npz") as arrays:
        X = arrays["X"].astype(np.float32)
    X = X[np.random.default_rng(0).permutation(len(X))[:N_SAMPLES]]
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    pairs, distances = near_pairs(X, max(DISTANCES))
    print(f"{len(X):,} samples")
    for nbits in NBITS:
        index = HammingNeighbors(ITQHasher(nbits, random_state=0)).fit(X)
        for largest in DISTANCES:
            p = np.arccos(1 - largest) / np.pi
            radius = round(nbits * p + 2 * np.sqrt(nbits * p * (1 - p)))
            found = np.concatenate([i * len(X) + j for i, j, _ in index.radius_pairs(radius)])
            near = pairs[distances <= largest]
            recall = np.isin(near, found).mean()
            print(
                f"{nbits:4} bits, distance {largest}: {len(near):5,} pairs, radius {radius:3}, recall {recall:.3f}; "
                f"{len(found):9,} pairs of codes"
            )


if __name__ == "__main__":
    main()
