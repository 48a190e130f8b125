"""The stages of ``skhash search``: candidates, real queries and original vectors, against brute force."""

import numpy as np
import pytest
from _helpers import structhash
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.frozen import FrozenEstimator

from skhash import EmbeddingHasher, ITQHasher
from skhash.cli import main
from skhash.neighbors import HammingNeighbors
from skhash.persistence import save

N_QUERIES = 15


@pytest.fixture(scope="module")
def itq(digits):
    return ITQHasher(12, random_state=0).fit(digits.X)


@pytest.fixture(scope="module")
def files(digits, itq, tmp_path_factory):
    """A saved hasher, two indexes of the same items, and files of items, codes and queries."""
    folder = tmp_path_factory.mktemp("files")
    save(itq, folder / "itq")
    save(HammingNeighbors(FrozenEstimator(itq)).fit(digits.X, ids=np.arange(500) + 7), folder / "index")
    options = {"rerank": "euclidean", "candidates": 30, "query": "real"}
    save(HammingNeighbors(FrozenEstimator(itq), **options).fit(digits.X), folder / "reranked")
    save(structhash().fit(digits.X, digits.y), folder / "weighted")
    factors = EmbeddingHasher(16, metric="euclidean", factors=True, n_epochs=1, random_state=0)
    save(factors.fit(digits.X), folder / "factors")
    np.save(folder / "items.npy", digits.X)
    np.savez(folder / "items.npz", X=(2 * digits.X).astype(np.uint8), scale=0.5)
    np.save(folder / "short.npy", digits.X[:-1])
    np.save(folder / "queries.npy", digits.X_query[:N_QUERIES])
    np.savez(folder / "codes.npz", codes=itq.encode(digits.X), nbits=12)
    return folder


def search(files, tmp_path, arguments):
    """Distances and identifiers that the command writes."""
    words = [f"{files}/{word}" if (files / word).exists() else word for word in arguments.split()]
    assert main(["search", *words, "--k", "4", "--out", f"{tmp_path}/found.npz"]) == 0
    with np.load(tmp_path / "found.npz") as found:
        return found["distances"], found["ids"]


def hamming(itq, items, queries):
    return (itq.transform(queries)[:, None] != itq.transform(items)[None]).sum(axis=2)


def minus_scores(itq, items, queries):
    return -itq.project_queries(queries) @ (2.0 * itq.transform(items) - 1).T


def of_vectors(metric, items, queries):
    if metric == "euclidean":
        return np.linalg.norm(queries[:, None] - items[None], axis=2)
    if metric == "inner":
        return -queries @ items.T
    items, queries = (X / np.linalg.norm(X, axis=1, keepdims=True) for X in (items, queries))
    return 1 - queries @ items.T


def in_two_stages(first, last, n_candidates):
    """Smallest values of the last stage among those with the smallest values of the first; lowest indices first."""
    distances, indices = [], []
    for a, b in zip(first, last, strict=True):
        shortlist = np.sort(np.argsort(a, kind="stable")[:n_candidates])
        best = shortlist[np.argsort(b[shortlist], kind="stable")[:4]]
        indices.append(best)
        distances.append(b[best])
    return np.array(distances), np.array(indices)


@pytest.mark.parametrize("metric", ["cosine", "euclidean", "inner"])
@pytest.mark.parametrize("data", ["items.npy", "items.npz", "codes.npz"])
def test_vectors_order_the_candidates_of_the_codes(metric, data, files, itq, digits, tmp_path):
    queries = digits.X_query[:N_QUERIES]
    expected = in_two_stages(hamming(itq, digits.X, queries), of_vectors(metric, digits.X, queries), 20)
    vectors = "--vectors items.npy" if data == "codes.npz" else ""
    found = search(files, tmp_path, f"itq {data} queries.npy --candidates 20 --rerank {metric} {vectors}")
    assert_allclose(found[0], expected[0], rtol=1e-9, atol=1e-9)
    assert_array_equal(found[1], expected[1])


def test_real_queries_order_the_candidates_of_the_codes(files, itq, digits, tmp_path):
    queries = digits.X_query[:N_QUERIES]
    expected = in_two_stages(hamming(itq, digits.X, queries), minus_scores(itq, digits.X, queries), 20)
    found = search(files, tmp_path, "itq codes.npz queries.npy --candidates 20 --query real")
    assert_allclose(found[0], expected[0], atol=1e-6)
    assert np.mean(found[1] == expected[1]) > 0.9  # equal codes have equal scores, except for rounding
    alike = np.take_along_axis(minus_scores(itq, digits.X, queries), found[1], axis=1)
    assert_allclose(alike, expected[0], atol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "meaning"),
    [
        ("itq codes.npz queries.npy", "Hamming distance"),
        ("weighted items.npy queries.npy", "weighted Hamming distance"),
        ("itq codes.npz queries.npy --query real", "minus the score of the real query"),
        ("factors items.npy queries.npy --query real", "estimated squared Euclidean distance of the vectors"),
        ("factors items.npy queries.npy --rerank cosine", "1 - cosine of the vectors"),
        ("index queries.npy --rerank inner --vectors items.npy", "minus the inner product of the vectors"),
        ("reranked queries.npy --vectors items.npy", "Euclidean distance of the vectors"),
    ],
)
def test_a_line_says_what_the_distances_are(arguments, meaning, files, tmp_path, capsys):
    search(files, tmp_path, arguments)
    assert f"\nIn parentheses: {meaning}.\n" in capsys.readouterr().out


def test_vectors_without_candidates_order_everything(files, digits, tmp_path):
    queries = digits.X_query[:N_QUERIES]
    distances = of_vectors("euclidean", digits.X, queries)
    found = search(files, tmp_path, "itq items.npy queries.npy --rerank euclidean")
    assert_array_equal(found[1], np.argsort(distances, axis=1, kind="stable")[:, :4])


def test_an_index_takes_its_vectors_from_a_file(files, itq, digits, tmp_path):
    queries = digits.X_query[:N_QUERIES]
    expected = in_two_stages(hamming(itq, digits.X, queries), of_vectors("cosine", digits.X, queries), 20)
    found = search(files, tmp_path, "index queries.npy --candidates 20 --rerank cosine --vectors items.npy")
    assert_allclose(found[0], expected[0], atol=1e-9)
    assert_array_equal(found[1], expected[1] + 7)
    first = minus_scores(itq, digits.X, queries)
    for metric, option in (("euclidean", ""), ("inner", "--rerank inner")):  # the saved distance, and another
        expected = in_two_stages(first, of_vectors(metric, digits.X, queries), 30)
        found = search(files, tmp_path, f"reranked queries.npy {option} --vectors items.npy")
        assert_allclose(found[0], expected[0], rtol=1e-9)
        assert_array_equal(found[1], expected[1])


def test_an_index_with_candidates_is_searched_by_its_codes_alone(files, itq, digits, tmp_path):
    save(HammingNeighbors(FrozenEstimator(itq), query="real", candidates=3).fit(digits.X), files / "real")
    distances = hamming(itq, digits.X, digits.X_query[:N_QUERIES])
    found = search(files, tmp_path, "real queries.npy --query code")
    assert_array_equal(found[1], np.argsort(distances, axis=1, kind="stable")[:, :4])


def test_as_many_candidates_as_there_are_items(files, digits, tmp_path):
    queries = digits.X_query[:N_QUERIES]
    np.save(files / "few.npy", digits.X[:5])
    expected = np.argsort(of_vectors("cosine", digits.X[:5], queries), axis=1, kind="stable")
    save_found = str(tmp_path / "found.npz")
    command = ["search", f"{files}/itq", f"{files}/few.npy", f"{files}/queries.npy", "--rerank", "cosine"]
    assert main([*command, "--candidates", "5", "--out", save_found]) == 0  # fewer items than the default of --k
    assert_array_equal(np.load(save_found)["ids"], expected)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            "itq items.npy queries.npy --candidates 20",
            "--candidates must be used with --query real or --rerank, which order them. Got 20.",
        ),
        (
            "itq items.npy queries.npy --candidates 9 --query real --k 10",
            "error: --k must be at most 9, the number of candidates. Got 10 instead.",
        ),
        (
            "reranked queries.npy --vectors items.npy --k 31",
            "error: --k must be at most 30, the number of candidates. Got 31 instead.",
        ),
        ("itq codes.npz queries.npy --rerank cosine", "--vectors must be given to re-rank: codes.npz has only codes."),
        ("reranked queries.npy", "--vectors must be given to re-rank: reranked has only codes."),
        ("itq codes.npz queries.npy --vectors items.npy", "--vectors must be used with --rerank. Got items.npy."),
        (
            "itq codes.npz queries.npy --rerank cosine --vectors short.npy",
            "--vectors must have shape (500, 64), of the items and the queries. Got (499, 64) in short.npy instead.",
        ),
    ],
)
def test_errors_get_one_line(arguments, message, files, monkeypatch, capsys):
    monkeypatch.chdir(files)
    before = sorted(files.iterdir())
    assert main(["search", *arguments.split(), "--out", "found.npz"]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert sorted(files.iterdir()) == before


@pytest.mark.parametrize("model", ["itq codes.npz", "index", "reranked"])
def test_vectors_of_other_items_are_named(model, files, digits, tmp_path, monkeypatch, capsys):
    path = tmp_path / "yesterday.npy"
    np.save(path, np.roll(digits.X, 1, axis=0))
    monkeypatch.chdir(files)
    assert main(["search", *model.split(), "queries.npy", "--rerank", "cosine", "--vectors", str(path)]) == 2
    assert f"skhash: error: {path}: `vectors` must be those of the items" in capsys.readouterr().err


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_vectors_that_are_not_finite_are_named(value, files, digits, tmp_path, capsys):
    X = digits.X.copy()
    X[499, 63] = value
    path = tmp_path / "gaps.npy"
    np.save(path, X)
    command = ["search", f"{files}/itq", f"{files}/codes.npz", f"{files}/queries.npy", "--rerank", "cosine"]
    assert main([*command, "--vectors", str(path)]) == 1
    error = f"skhash: error: {path} must have finite vectors. Got NaN or infinity. Replace them by numbers.\n"
    assert capsys.readouterr().err == error


# --- some items


def among(files, tmp_path, arguments, given, name="among.txt"):
    """Distances and identifiers that the command writes among the items of a file."""
    if isinstance(given, str):
        (files / name).write_text(given, encoding="utf-8", newline="")
    else:
        np.save(files / name, given)
    return search(files, tmp_path, f"{arguments} --among {name}")


def test_some_items(files, itq, digits, tmp_path, capsys):
    chosen = np.arange(20, 500, 9)
    distances = hamming(itq, digits.X[chosen], digits.X_query[:N_QUERIES])
    order = np.argsort(distances, axis=1, kind="stable")[:, :4]
    for data, ids in (("itq codes.npz", chosen), ("itq items.npy", chosen), ("index", chosen + 7)):
        for given in ("\n".join(map(str, ids)), "\ufeff" + "\r\n".join(map(str, ids[::-1])) + "\r\n\r\n"):
            found = among(files, tmp_path, f"{data} queries.npy", given)
            assert_array_equal(found[1], ids[order])
        for given in (ids, np.isin(np.arange(500), chosen)):
            found = among(files, tmp_path, f"{data} queries.npy", given, "among.npy")
            assert_array_equal(found[1], ids[order])
            assert_array_equal(found[0], np.take_along_axis(distances, order, axis=1))
    assert "more tied" in capsys.readouterr().out


def test_some_items_are_reranked(files, digits, tmp_path):
    chosen = np.arange(20, 500, 9)
    distances = of_vectors("euclidean", digits.X[chosen], digits.X_query[:N_QUERIES])
    found = among(files, tmp_path, "itq items.npy queries.npy --rerank euclidean", chosen, "among.npy")
    assert_array_equal(found[1], chosen[np.argsort(distances, axis=1, kind="stable")[:, :4]])


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("among.txt", "8\n9\n10", "--k must be at most 3, the number of items in --among. Got 4 instead."),
        ("among.txt", "8\n9\n3\n900", "--among must be in the index. Got [3, 900], which are not. The file is"),
        ("among.txt", "8\nnine", "--among must have a whole number in each line, as the ids are. Got 'nine' in"),
        ("among.txt", "\n", "--among must have ids of items, or a bool for each. Got shape (0,) in"),
        ("among.npy", np.zeros((2, 500), bool), "Got shape (2, 500) in"),
        ("among.npy", np.zeros(9, bool), "--among must be a mask of shape (500,)"),
        ("among.npy", np.zeros(500, bool), "--among must have at least one item. Got none in"),
        ("among.npy", np.arange(500) % 2, "--among must be a mask of bools, or ids. Got ints that are 0 or 1"),
        ("among.npy", np.array([1.5]), "--among must be ints or text. Got 1.5 instead."),
        ("nothing.txt", None, "There is no file"),
    ],
)
def test_a_wrong_file_of_items(name, given, message, files, tmp_path, capsys):
    if isinstance(given, str):
        (tmp_path / name).write_text(given)
    elif given is not None:
        np.save(tmp_path / name, given)
    words = ["search", f"{files}/index", f"{files}/queries.npy", "--k", "4", "--among", f"{tmp_path}/{name}"]
    assert main(words) == 2
    assert message in capsys.readouterr().err
