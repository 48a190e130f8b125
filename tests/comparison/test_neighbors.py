"""The comparison of neighbors: recalls, baselines, and whole runs."""

import itertools
import json
import sys
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from threadpoolctl import threadpool_info

from skhash import EmbeddingHasher, ITQHasher
from skhash.affinity import NeighborAffinity
from skhash.cli import main
from skhash.cli._options import check, parser
from skhash.codes import hamming_distances
from skhash.comparison import (
    compare,
    differences_table,
    expand_methods,
    find_differences,
    read_results,
    write_report,
)
from skhash.comparison._baselines import make_baseline, nearest_numbers, why_not
from skhash.comparison._neighbors import HasherIndex, Vectors, _query_times, evaluate_method, search_recalls
from skhash.comparison.tables import CODE_METRICS, REAL_METRICS
from skhash.datasets import PROTOCOLS
from skhash.metrics import RetrievalScorer
from skhash.neighbors import HammingNeighbors
from skhash.registry import BASELINES

QUICK = ["--task", "neighbors", "--methods", "lsh,int8", "--bytes", "8", "--seeds", "1"]


@pytest.fixture(scope="module")
def vectors():
    """700 correlated vectors of 24 features, 60 of them queries; some items are equal."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((700, 24)) @ rng.standard_normal((24, 24)) + 3
    X[600:650] = X[550:600]
    return Vectors(X[60:], X[:60])


def rewritten(folder):
    """The page that is written again from a folder."""
    return write_report(folder, read_results(folder)) / "report.html"


def recalls_by_brute_force(distances, truth):
    """Means over 300 random orders of the ties, the worst and the best order, and the mean among 50."""
    is_true = np.stack([np.isin(np.arange(distances.shape[1]), near) for near in truth])
    rng = np.random.default_rng(0)

    def first(order):
        """True neighbors among the first k and the first 50; distances are whole, so that halves order ties alone."""
        found = np.take_along_axis(is_true, np.argsort(distances + order / 2, axis=1)[:, :50], axis=1)
        return (np.minimum(found[:, :n].sum(axis=1), k).mean() for n in (k, 50))

    k = 10
    mean, mean_of_50 = np.mean([[*first(rng.random(distances.shape))] for _ in range(300)], axis=0)
    return np.array([mean, next(first(is_true)), next(first(~is_true)), mean_of_50]) / k


def distances_from(search, vectors):
    """Distances of all pairs, by a search that returns all items."""
    distances, items = search(vectors.queries, len(vectors.items))
    result = np.empty(distances.shape)
    np.put_along_axis(result, items, distances, axis=1)
    return result


def fitted(name, nbits, vectors, **parameters):
    baseline = make_baseline(name, nbits, 0, **parameters)
    index = HasherIndex(baseline) if hasattr(baseline, "encode") else baseline
    index.fit(vectors.items)
    index.add(vectors.items)
    return index


def assert_is_nearest(truth, distances):
    """Check the ten items with the smallest distances, and those that are as near as the tenth."""
    last = np.sort(distances, axis=1)[:, 9]
    for near, of_query, largest in zip(truth, distances, last, strict=True):
        assert_array_equal(near, np.flatnonzero(of_query <= largest + 1e-9 * abs(largest)))


def test_truth_is_the_nearest_vectors(vectors):
    squared = np.square(vectors.queries[:, None].astype(float) - vectors.items).sum(axis=2)
    assert_is_nearest(vectors.truth, squared)


@pytest.mark.parametrize("nbits", [3, 16])  # three bits tie hundreds of items, beyond the fiftieth
def test_recalls_are_means_over_the_orders_of_ties(vectors, nbits):
    index = fitted("rotated-sign", nbits, vectors)
    expected = recalls_by_brute_force(distances_from(index.search_codes, vectors), vectors.truth)
    found = search_recalls(index.search_codes, vectors).mean(axis=1)
    assert_allclose(found[1:3], expected[1:3], rtol=1e-12)
    assert_allclose(found[[0, 3]], expected[[0, 3]], atol=0.004)


def test_recalls_of_a_hasher_are_those_of_the_scorer(vectors):
    values, _ = evaluate_method("itq", 12, 0, vectors)
    hasher = ITQHasher(12, random_state=0).fit(vectors.items)
    names = [name for name in CODE_METRICS if name in values]
    for metrics, query in ((CODE_METRICS, "code"), (REAL_METRICS, "real")):
        scorer = RetrievalScorer(names, (vectors.items, vectors.items), affinity=NeighborAffinity(10), query=query)
        expected = scorer(hasher, vectors.queries, vectors.queries)
        assert_allclose([values[name] for name in metrics], list(expected.values()), rtol=1e-12)
    assert values["bytes_per_item"] == 2


def test_factors_count_as_bytes_and_rank_as_in_the_index(vectors):
    values, _ = evaluate_method("embedding-factors", 64 + 16, 0, vectors, metric="euclidean", n_epochs=1)
    hasher = EmbeddingHasher(16, metric="euclidean", factors=True, n_epochs=1, random_state=0)
    search = HammingNeighbors(hasher, n_neighbors=10, query="real").fit(vectors.items)
    found = search.kneighbors(vectors.queries, return_distance=False)
    recall = np.mean([np.isin(*pair).mean() for pair in zip(found, vectors.truth, strict=True)])
    assert values[REAL_METRICS[0]] == pytest.approx(recall, abs=0.01)  # ties are averaged there
    assert (values["bytes_per_item"], values["parameters"]["factors"]) == (10, True)
    assert why_not("embedding-factors", 64, 24, 640) == "8 bytes leave no bits beside its 8 bytes of factors"


def test_one_bit_of_rabitq_estimates_distances_by_signs_and_two_factors(vectors):
    index = fitted("rabitq", 64 + 24, vectors)
    items, queries = index._map_items(vectors.items), index._map_queries(vectors.queries)
    assert index.index_.code_size == (64 + 24) // 8
    signs, squares = np.where(items >= 0, 1, -1), np.square(items).sum(axis=1)
    products = queries @ signs.T * squares / np.abs(items).sum(axis=1)
    expected = np.square(queries).sum(axis=1, keepdims=True) + squares - 2 * products
    found = distances_from(index.search, vectors)
    assert_allclose(found, np.maximum(expected, 0), atol=0.03)  # FAISS rounds queries, and shows no negative estimates


@pytest.mark.parametrize("name", ["rabitq", "eden", "turboquant"])
def test_more_bits_of_a_number_estimate_distances_better(vectors, name):
    errors, exact = [], np.square(vectors.queries[:, None] - vectors.items).sum(axis=2)
    for bits in (1, 2, 3, 4):
        index = fitted(name, 64 + 24 * 8, vectors, bits=bits)
        mapped = index._map_items(vectors.items), index._map_queries(vectors.queries)
        assert index.index_.code_size <= 32
        assert mapped[0].shape == (len(vectors.items), 24)  # all features: a rotation keeps distances
        assert_allclose(np.square(mapped[1][:, None] - mapped[0]).sum(axis=2) * index.scale_**2, exact, rtol=1e-3)
        errors.append(np.abs(distances_from(index.search, vectors) * index.scale_**2 - exact).mean())
    assert errors == sorted(errors, reverse=True)


@pytest.mark.parametrize("bits", [1, 2, 3])
def test_numbers_of_ash_have_the_smallest_angle_of_all_roundings(bits):
    values = np.random.default_rng(0).standard_normal((50, 3)).astype(np.float32)
    values[0, 1] = 0
    levels = np.arange(2 ** (bits - 1)) + 0.5
    codes = np.array(list(itertools.product([*-levels, *levels], repeat=3)))
    best = (values @ codes.T / np.linalg.norm(codes, axis=1)).max(axis=1)
    found = nearest_numbers(values, bits)
    assert_allclose((values * found).sum(axis=1) / np.linalg.norm(found, axis=1), best, rtol=1e-5)
    assert np.isin(np.abs(found), levels).all()


def test_ash_learns_axes_that_suit_its_numbers_and_stores_two_more(vectors):
    errors, exact = [], np.square(vectors.queries[:, None] - vectors.items).sum(axis=2)
    for bits in (1, 2, 3, 4):
        index = fitted("ash", 40 + 24 * bits, vectors, bits=bits)
        assert_allclose(index.map_.T @ index.map_, np.eye(24), atol=1e-5)
        centered = vectors.items - index.mean_
        norms = np.linalg.norm(centered, axis=1, keepdims=True)
        codes = nearest_numbers(centered / norms @ index.map_, bits)
        expected = codes * norms / np.linalg.norm(codes, axis=1, keepdims=True)
        assert_allclose(index.stored_, expected, rtol=1e-3)  # scales are of float16
        constants = np.square(vectors.queries - index.mean_).sum(axis=1, keepdims=True)
        errors.append(np.abs(distances_from(index.search, vectors) + constants - exact).mean())
    assert errors == sorted(errors, reverse=True)
    learned = fitted("ash", 40 + 24, vectors).map_
    drawn = fitted("rotated-sign", 24, vectors, axes="components").hasher.map_
    cosines = [np.abs(centered / norms @ axes).sum(axis=1).mean() for axes in (learned, drawn)]
    assert cosines[0] > 1.02 * cosines[1]  # of the directions and their signs, times the same number


@pytest.mark.parametrize("name", ["rq", "lsq"])
def test_additive_codes_have_distances_of_decoded_items(vectors, name):
    index = fitted(name, 32, vectors)
    assert index.index_.code_size == 4  # three codebooks, and a byte of the norm
    decoded = index.index_.reconstruct_n(0, len(vectors.items))
    expected = np.square((vectors.queries - index.mean_)[:, None] - decoded).sum(axis=2)
    step = np.ptp(np.square(decoded).sum(axis=1)) / 255
    assert_allclose(distances_from(index.search, vectors), expected, rtol=1e-3, atol=step)


@pytest.fixture(scope="module")
def by_product(vectors):
    """The same vectors far from the origin, and the largest inner products."""
    return Vectors(vectors.items + 20, vectors.queries + 20, "inner")


def test_truth_is_the_largest_inner_products(by_product):
    products = by_product.queries.astype(float) @ by_product.items.T
    assert_is_nearest(by_product.truth, -products)


@pytest.mark.parametrize(
    ("name", "nbits", "recall"),
    [
        ("centered-sign", 24, 0.2),
        ("int8", 192, 0.9),
        ("rabitq", 88, 0.4),
        ("eden", 160, 0.6),
        ("turboquant", 96, 0.7),
        ("ash", 40 + 96, 0.7),
        ("pq", 96, 0.8),
        ("opq", 32, 0.5),
        ("rq", 32, 0.5),
        ("lsq", 32, 0.5),
    ],
)
def test_baselines_rank_by_inner_products(by_product, name, nbits, recall):
    values, baseline = evaluate_method(name, nbits, 0, by_product)
    assert values[REAL_METRICS[0]] > recall
    is_hasher = hasattr(baseline, "encode")
    index = fitted(name, nbits, by_product, metric="inner") if is_hasher else baseline  # some are slow to train
    products = by_product.queries.astype(float) @ by_product.items.T
    estimates = -distances_from(index.search, by_product)
    for query in range(3):
        assert np.corrcoef(products[query], estimates[query])[0, 1] > recall


def test_a_comparison_by_inner_products(by_product):
    assert evaluate_method("embedding", 8, 0, by_product, n_epochs=1)[0]["parameters"]["metric"] == "inner"
    results, description = compare(protocol="neighbors-inner", methods=["int8"], nbits=[512], n_seeds=1)
    assert "relevance = the 10 samples with the largest inner product" in description
    assert results[0].task == "neighbors"
    assert results[0][REAL_METRICS[0]] > 0.95


@pytest.mark.parametrize("rotate", [False, True])
def test_pq_compares_queries_with_decoded_items(vectors, rotate):
    index = fitted("opq" if rotate else "pq", 32, vectors)
    values = index._map_queries(vectors.queries), index.index_.reconstruct_n(0, len(vectors.items))
    expected = np.square(values[0][:, None] - values[1]).sum(axis=2)
    assert_allclose(distances_from(index.search, vectors), expected, rtol=1e-3, atol=1e-2)
    assert index.index_.code_size == 4


def test_lsh_of_faiss_has_its_hamming_distances(vectors):
    ours = fitted("faiss-lsh", 32, vectors)
    index = ours.hasher.index_
    index.add(vectors.items - ours.hasher.mean_)
    theirs, items = index.search(vectors.queries - ours.hasher.mean_, len(vectors.items))
    codes = ours.hasher.encode(vectors.queries), ours.hasher.encode(vectors.items)
    assert_array_equal(np.take_along_axis(hamming_distances(*codes, nbits=32), items, axis=1), theirs)


@pytest.mark.parametrize(("name", "numbers"), [("float32", 2), ("float16", 4), ("int8", 8)])
def test_truncation_keeps_as_many_numbers_as_fit(vectors, name, numbers):
    for axes in ("features", "components"):
        index = fitted(name, 64, vectors, axes=axes)
        assert index.stored_.shape == (len(vectors.items), numbers)
        error = np.abs(index.stored_ - index._map_items(vectors.items))
        assert (error <= {"float32": 0, "float16": 0.01, "int8": index.step_.max() / 2 + 1e-4}[name]).all()
    assert_array_equal(fitted("float32", 64, vectors).stored_, vectors.items[:, :2])


def test_a_baseline_has_its_better_setting(vectors):
    scores = {
        axes: search_recalls(fitted("int8", 32, vectors, axes=axes).search, vectors)[0].mean()
        for axes in ("features", "components")
    }
    values, _ = evaluate_method("int8", 32, 0, vectors)
    assert values["parameters"] == {"dtype": "uint8", "axes": "components"}
    assert values[REAL_METRICS[0]] == max(scores.values())


def test_bits_of_a_number_are_chosen_on_held_out_items(vectors):
    values, _ = evaluate_method("turboquant", 24, 0, vectors)
    recalls = {}
    for bits in (1, 2, 3, 4):
        index = make_baseline("turboquant", 24, 0, bits=bits).fit(vectors.held_out.items)
        index.add(vectors.held_out.items)
        assert index.index_.d == index.n_stored == 24 // bits
        recalls[bits] = search_recalls(index.search, vectors.held_out)[0].mean()
    assert values["parameters"] == {"code": "SQtqmse", "bits": max(recalls, key=recalls.get)}
    assert min(values["single_query_ms"], values["batch_query_ms"]) > 0


@pytest.mark.parametrize(
    ("name", "nbits", "reason"),
    [
        ("rabitq", 64, "8 bytes leave no numbers of 4 bits"),
        ("turboquant", 192, "24 bytes hold 48 numbers of 4 bits, more than the 24 features"),
        ("turboquant", 184, None),
        ("sign", 32, "4 bytes hold 32 bits, more than the 24 features"),
        ("float32", 16, "2 bytes leave no float32 numbers"),
        ("pq", 8, "it learns from at least 256 items, and there are 200"),
        ("ash", 40, "5 bytes leave no numbers of 4 bits"),
        ("rq", 144, "at most 16 codebooks are learned, because the time grows with the square of their number"),
        ("lsq", 24, "it learns from at least 512 items, and there are 200"),
        ("int8", 12, "its size is a whole number of bytes"),
        ("faiss-lsh", 32, None),
    ],
)
def test_what_a_baseline_cannot_store_is_said(name, nbits, reason):
    assert why_not(name, nbits, 24, 200) == reason


def test_groups_of_the_task():
    assert expand_methods(["baselines"], "neighbors") == list(BASELINES)
    everything = expand_methods(["all"], "neighbors")
    assert {"itq", "embedding", "embedding-factors", *BASELINES} < set(everything)
    assert not {"talr", "sdh"} & set(everything)
    assert expand_methods(["baselines"]) == []


def test_vectors_without_labels_from_a_plain_array(tmp_path):
    X = np.random.default_rng(0).standard_normal((300, 16)).astype(np.float32)
    np.save(tmp_path / "mine.npy", X)
    np.savez(tmp_path / "same.npz", X=X, y=np.arange(300) % 3)
    options = {"methods": ["lsh", "centered-sign"], "nbits": [16], "n_seeds": 1}
    results, description = compare(tmp_path / "mine.npy", task="neighbors", **options)
    labeled = compare(tmp_path / "same.npz", protocol="neighbors", **options)[0]
    assert [result.task for result in results + labeled] == ["neighbors"] * 4
    assert "60 queries against 240 database samples" in description
    for ours, theirs in zip(results, labeled, strict=True):
        assert ours["real_neighbor_recall_at_10"] == theirs["real_neighbor_recall_at_10"] > 0.2
        assert "ap" not in ours


def test_cosine_neighbors_are_those_of_vectors_of_unit_length(tmp_path):
    X = np.random.default_rng(0).standard_normal((300, 16)) * np.arange(1, 301)[:, None]
    np.save(tmp_path / "mine.npy", X)
    results = compare(tmp_path / "mine.npy", protocol="neighbors-cosine", methods=["lsh"], nbits=[16], n_seeds=1)[0]
    np.save(tmp_path / "mine.npy", X / np.linalg.norm(X, axis=1, keepdims=True))
    scaled = compare(tmp_path / "mine.npy", task="neighbors", methods=["lsh"], nbits=[16], n_seeds=1)[0]
    assert results[0][CODE_METRICS[0]] == pytest.approx(scaled[0][CODE_METRICS[0]], abs=0.002)


def test_an_interrupted_run_continues(tmp_path, monkeypatch):
    options = {"task": "neighbors", "methods": ["lsh", "float16", "int8"], "nbits": [64], "n_seeds": 1}
    expected = compare(**options)[0]

    def interrupt(name, *args, **parameters):
        if name == "int8":
            raise KeyboardInterrupt
        return make_baseline(name, *args, **parameters)

    with monkeypatch.context() as patch:
        patch.setattr("skhash.comparison._neighbors.make_baseline", interrupt)
        with pytest.raises(KeyboardInterrupt):
            compare(**options, folder=tmp_path)
    reused = []
    results, _ = compare(**options, folder=tmp_path, report=lambda progress: reused.append(progress.reused))
    assert reused == [True, True, False]
    assert [result[REAL_METRICS[0]] for result in results] == [result[REAL_METRICS[0]] for result in expected]


def test_recalls_of_queries_give_differences(tmp_path):
    options = {"task": "neighbors", "methods": ["lsh", "int8"], "nbits": [128], "n_seeds": 2}
    results, _ = compare(**options, folder=tmp_path)
    for result in results:
        for name, recalls in result.per_query.items():
            assert recalls.shape == (359,)
            assert recalls.mean() == pytest.approx(result[name], rel=1e-12)
    (difference,) = find_differences(results, REAL_METRICS[0])
    assert difference == find_differences(read_results(tmp_path), REAL_METRICS[0])[0]
    assert (difference.method, difference.baseline, difference.n_queries) == ("lsh", "int8", 718)
    means = [np.mean([each[REAL_METRICS[0]] for each in results if each.method == name]) for name in ("lsh", "int8")]
    assert difference.mean == pytest.approx(means[0] - means[1])
    head, _, line, *_ = differences_table([difference]).splitlines()
    assert "| bytes | against | difference of R@10 |" in head
    assert line.startswith("| lsh    | 16    | int8 ")


def test_the_report_shows_the_winner_and_the_picture(tmp_path, capsys):
    assert main(["compare", *QUICK, "--bytes", "16", "--out", str(tmp_path), "--baseline", "int8"]) == 0
    output = capsys.readouterr()
    assert "| lsh    | 16    | int8    | -0." in output.out
    assert "R@10, codes" in output.out
    winner = next(line for line in output.out.splitlines() if line.startswith("| int8") and "| 16 " in line)
    assert "*" in winner
    rows = json.loads((tmp_path / "results.json").read_text())
    assert [row["bytes_per_item"] for row in rows] == [8, 8, 16, 16]
    page = (tmp_path / "report.html").read_text()
    assert "R@10 against bytes" in page
    assert "8 and 16 bytes" in page
    assert "AP_T" not in page
    (tmp_path / "report.html").unlink()
    assert rewritten(tmp_path).read_text().count("<figure>") == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--methods", "talr,sdh"], "`methods` must need no labels for the task 'neighbors'. Got talr, sdh instead."),
        (["--methods", "pqq"], "Got 'pqq' (did you mean 'pq'?) instead"),
        (
            ["--protocol", "5k"],
            "`protocol` must be one of neighbors, neighbors-cosine, neighbors-inner for the task 'neighbors'.",
        ),
        (["--tune", "2"], "`tune` must be None for the task 'neighbors'. Got 2 instead."),
        (["--bytes", "x"], "--bytes must be ints >= 1, such as 8,16,32. Got 'x' instead."),
        (["--bytes", "8", "--bits", "64"], "--bits and --bytes must not be given together: each replaces the other."),
    ],
)
def test_bad_options_give_one_line(arguments, message, capsys):
    assert main(["compare", "--task", "neighbors", *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_baselines_need_the_task(capsys):
    assert main(["compare", "--methods", "pq"]) == 2
    assert "`methods` must be hashers, or the task must be 'neighbors'" in capsys.readouterr().err
    with pytest.raises(ValueError, match=r"`task` must be None or one of relevance, neighbors\. Got 'n' instead"):
        compare(task="n")
    with pytest.raises(ValueError, match=r"`protocol` must be one of holdout.* for the task 'relevance'"):
        compare(task="relevance", protocol=replace(PROTOCOLS["neighbors"], name="own"))


def test_without_faiss_its_rows_say_so_and_the_rest_runs(monkeypatch, capsys, tmp_path):
    command = ["compare", "--task", "neighbors", "--methods", "int8,pq,opq,faiss-lsh", "--bytes", "8", "--seeds", "1"]
    command += ["--out", str(tmp_path)]
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "faiss", None)
        assert main(command) == 0
        output = capsys.readouterr()
        assert [output.out.count(f"| {name} | 8 ") for name in ("int8     ", "pq       ")] == [1, 1]
        assert output.out.count(" | needs faiss-cpu | ") == 3
        assert "\npq: not applicable: needs faiss-cpu.\n" in output.out
        entries = json.loads((tmp_path / "results.json").read_text())
        assert [entry["not_applicable"] for entry in entries] == [None, *3 * ["needs faiss-cpu"]]
        assert entries[0]["real_neighbor_recall_at_10"] > 0.5
        assert "needs faiss-cpu" in (tmp_path / "results.md").read_text(encoding="utf-8")
        assert main(command) == 0
        assert capsys.readouterr().err.count("; reused") == 4
        rewritten(tmp_path)
        assert "needs faiss-cpu" in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert main(command) == 0  # now it is installed
    output = capsys.readouterr()
    assert output.err.count("; reused") == 1
    assert "needs" not in output.out
    rewritten(tmp_path)
    assert "needs faiss-cpu" not in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_by_default_a_handful_of_methods_is_compared_once():
    options = parser().parse_args(["compare", "--task", "neighbors"])
    check(options)
    assert (options.methods, options.seeds) == (["embedding", "itq", "pq", "opq", "rabitq"], 1)
    n_others = len(expand_methods(["all"], "neighbors")) - 5
    assert options.note == (
        f"Compared are embedding, itq, pq, opq, rabitq; --methods all adds {n_others} others. "
        "There is one split; --seeds 3 shows how much a result depends on it."
    )
    options = parser().parse_args(["compare", "--protocol", "neighbors-cosine", "--methods", "itq", "--seeds", "2"])
    check(options)
    assert (options.methods, options.seeds, options.note) == (["itq"], 2, "")
    options = parser().parse_args(["compare"])
    check(options)
    assert (options.methods, options.seeds, options.note) == (["talr", "itq", "lsh"], 3, "")


@pytest.mark.parametrize(("task", "n_methods"), [("neighbors", 5), ("relevance", 3)])
def test_python_compares_the_same_methods(task, n_methods):
    plans = []

    def stop(plan):
        plans.append(plan)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compare("digits", task=task, n_seeds=2, watch=stop)
    assert plans[0].n_tasks == 2 * n_methods


def test_what_is_left_out_is_said(tmp_path, capsys):
    np.save(tmp_path / "X.npy", np.random.default_rng(0).standard_normal((300, 8)))
    command = ["compare", f"{tmp_path}/X.npy", "--task", "neighbors", "--methods", "itq", "--bits", "8"]
    assert main(command) == 0
    assert capsys.readouterr().err.count("There is one split; --seeds 3 shows how much") == 1


def test_the_time_of_a_query_is_that_of_one_thread_in_the_fastest_round(monkeypatch):
    clock, threads, slowness = [0.0], set(), iter([9, 7, 3, 8, 9, 9])

    def search(queries, k):
        threads.update(library["num_threads"] for library in threadpool_info())
        clock[0] += slow[0] * len(queries) / (100 if len(queries) > 1 else 1)
        if len(queries) > 1:  # the last search of a round
            slow[0] = next(slowness)

    slow = [next(slowness)]
    monkeypatch.setattr("skhash.comparison._neighbors.time.process_time", lambda: clock[0])
    times = _query_times(search, Vectors(np.zeros((30, 2)), np.zeros((200, 2))))
    assert times == {"single_query_ms": 3000, "batch_query_ms": 30}
    assert threads == {1}
