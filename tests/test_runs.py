"""Runs and qrels of search engines: equal to other tools without ties, and to all orders of the items with ties."""

import gzip
import itertools
import re

import _oracles as oracles
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from skhash.exceptions import InvalidFileError
from skhash.metrics import Metric, RelevanceHistogram, evaluate_histograms
from skhash.trec import histogram_of_run, provider, read_qrels, read_run

#: measure of trec_eval, measure of ir_measures, and metric of skhash
MEASURES = [
    ("map", "AP", "ap"),
    ("map_cut_10", "AP @ 10", "ap_at_10"),
    ("ndcg", "nDCG", "ndcg_linear"),
    ("ndcg_cut_5", "nDCG @ 5", "ndcg_at_5_linear"),
    ("P_5", "P @ 5", "precision_at_5"),
    ("P_100", "P @ 100", "precision_at_100"),
    ("recall_10", "R @ 10", "recall_at_10"),
    ("Rprec", "Rprec", "r_precision"),
    ("recip_rank", "RR", "reciprocal_rank"),
]


def random_run(seed, n_queries=12):
    """A run without ties and its qrels, in which queries lack items, judgments, relevant items, or each other.

    pytrec_eval crashes at levels below -1, and at queries all of whose levels are.
    """
    rng = np.random.default_rng(seed)
    names = [f"d{i}" for i in range(60)]
    qrels, run = {}, {}
    for query in range(n_queries):
        judged = rng.choice(names, rng.integers(1, 30), replace=False)
        found = rng.choice(names, rng.integers(1, 50), replace=False)
        qrels[f"q{query}"] = dict(zip(judged, rng.integers(-1, 4, len(judged)).tolist(), strict=True)) | {"d0": 0}
        scores = rng.permutation(len(found)) / 4 - 5  # whole numbers in 32 bits, which trec_eval has
        run[f"q{query}"] = dict(zip(found, scores.tolist(), strict=True))
    qrels["q0"] = dict.fromkeys(qrels["q0"], 0)
    qrels["of no run"], run["of no qrels"] = {"d1": 2, "d2": 0}, {"d1": 1.0}
    return run, qrels


@pytest.mark.parametrize("seed", range(3))
def test_equals_pytrec_eval_without_ties(seed):
    pytrec_eval = pytest.importorskip("pytrec_eval")
    run, qrels = random_run(seed)
    measures = {name for name, _, _ in MEASURES}
    found = pytrec_eval.RelevanceEvaluator(qrels, measures).evaluate(run)
    H = histogram_of_run(run, qrels, empty="skip")
    for name, _, metric in MEASURES:
        expected = [found[query][name] for query in qrels if query in run]
        for order in ("average", "best", "worst"):
            values = Metric.parse(metric).with_ties(order)(H, empty="zero", average=False)
            assert_allclose(values, expected, rtol=0, atol=1e-12, err_msg=f"{name} {order}")


@pytest.mark.parametrize("seed", range(3))
def test_equals_ir_measures_without_ties(seed):
    ir_measures = pytest.importorskip("ir_measures")
    run, qrels = random_run(seed)
    measures = [measure_of(name) for _, name, _ in MEASURES]
    expected = ir_measures.calc_aggregate(measures, qrels, run)  # a query that the run lacks counts 0
    H = histogram_of_run(run, qrels)
    values = evaluate_histograms([H], [metric for _, _, metric in MEASURES], empty="zero")
    assert list(values.values()) == pytest.approx([expected[measure] for measure in measures], abs=1e-12)
    found = ir_measures.providers.registry[provider().NAME].calc_aggregate(measures, qrels, run)
    assert found == pytest.approx(expected, abs=1e-12)


def measure_of(text):
    """Measure of ir_measures from its name; its parser warns of numbers in later versions of Python."""
    import ir_measures

    name, _, cutoff = text.partition(" @ ")
    measure = ir_measures.parse_measure(name)
    return measure @ int(cutoff) if cutoff else measure


def runs_of_all_orders(run):
    """Runs without ties, one for each order of the items of equal score of a query."""
    items = list(run)
    for order in itertools.permutations(items):
        if all(run[a] >= run[b] for a, b in itertools.pairwise(order)):
            yield {item: float(len(items) - rank) for rank, item in enumerate(order)}


runs = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 2).map(float), min_size=1, max_size=5)
judgments = st.dictionaries(st.sampled_from("abcdefghij"), st.integers(-1, 3), min_size=1, max_size=8)


@settings(max_examples=60, deadline=None)
@given(run=runs, qrels=judgments.filter(lambda qrels: max(qrels.values()) > 0))
def test_equals_all_orders_of_items_of_equal_score(run, qrels):
    lost = np.array([max(level, 0) for item, level in qrels.items() if item not in run], dtype=int)
    values = []
    for one in runs_of_all_orders(run):
        ranking = sorted(one, key=one.get, reverse=True)
        values.append(oracles.of_a_part(np.array([max(qrels.get(item, 0), 0) for item in ranking]), lost))
    H = histogram_of_run({"q": run}, {"q": qrels})
    for name in values[0]:
        for ties, summary in oracles.OVER_ORDERS.items():
            expected = summary([value[name] for value in values])
            for part in (H, H.by_ranks(), RelevanceHistogram.from_bytes(H.to_bytes())):
                assert Metric.parse(name).with_ties(ties)(part) == pytest.approx(expected, abs=1e-12), (name, ties)


@settings(max_examples=20, deadline=None)
@given(run=runs.filter(lambda run: len(run) < 5), qrels=judgments.filter(lambda qrels: max(qrels.values()) >= 0))
def test_the_provider_averages_the_measures_of_ir_measures_over_all_orders(run, qrels):
    ir_measures = pytest.importorskip("ir_measures")
    provider()
    averaged = ir_measures.providers.registry["skhash"]
    measures = [measure_of(name) for name in ("AP", "AP @ 3", "nDCG @ 3", "P @ 2", "R @ 2", "RR", "Rprec")]
    pairs = [(measure, measure) for measure in (*measures, ir_measures.AP(rel=2), ir_measures.P(rel=3) @ 3)]
    pairs.append((ir_measures.nDCG(dcg="exp-log2") @ 4, ir_measures.nDCG(gains={1: 1, 2: 3, 3: 7}) @ 4))
    orders = [{"q": one} for one in runs_of_all_orders(run)]
    for measure, of_an_order in pairs:
        values = [of_an_order.calc_aggregate({"q": qrels}, one) for one in orders]
        ranges = {ties: in_order(measure, ties) for ties in oracles.OVER_ORDERS}
        found = averaged.calc_aggregate(ranges.values(), {"q": qrels}, {"q": run})
        for ties, summary in oracles.OVER_ORDERS.items():
            assert found[ranges[ties]] == pytest.approx(summary(values), abs=1e-12), (measure, ties)


def in_order(measure, ties):
    """The measure that has the value of an order."""
    import ir_measures

    return measure if ties == "average" else ir_measures.parse_measure(f"{measure.NAME}_{ties}")(**measure.params)


def test_the_provider_names_what_it_computes():
    ir_measures = pytest.importorskip("ir_measures")
    averaged = provider()
    assert averaged is provider() is ir_measures.providers.registry["skhash"]
    assert str(ir_measures.parse_measure("nDCG_worst") @ 10) == "nDCG_worst@10"
    per_query = averaged.iter_calc([ir_measures.RR], {"7": {"a": 1}, "8": {"a": 1}}, {"7": {"a": 0.5}})
    assert {(value.query_id, value.value) for value in per_query} == {("7", 1.0), ("8", 0.0)}
    for other in (ir_measures.Bpref, ir_measures.RR @ 10, ir_measures.P(judged_only=True) @ 5):
        with pytest.raises(ValueError, match=rf"`measures` must be among AP, .*\. Got {re.escape(str(other))}"):
            averaged.calc_aggregate([other], {"7": {"a": 1}}, {"7": {"a": 0.5}})


RUN = {"7": {"cat": 0.5, "dog": -1.0}, "ü": {"fox": 2.0}}
QRELS = {"7": {"cat": 2, "cow": -1}, "ü": {"fox": 0}}
LINES = [
    "7 Q0 cat 1 0.5 engine\n7 Q0 dog 2 -1 engine\nü Q0 fox 1 2e0 engine\n",
    "7 0 cat 2\n7 0 cow -1\nü 0 fox 0\n",
]
ROWS = [
    [(query, item, value) for query, of_query in x.items() for item, value in of_query.items()] for x in (RUN, QRELS)
]


def frame(rows, *columns):
    return pd.DataFrame(rows, columns=columns)


def test_files_are_read(tmp_path):
    for read, expected, text in ((read_run, RUN, LINES[0]), (read_qrels, QRELS, LINES[1])):
        variants = [text.encode(), text.replace("\n", "\r\n").encode(), text.replace(" ", "\t\t").encode() + b"\n\n"]
        variants += [gzip.compress(text.encode()), b"\xef\xbb\xbf" + text.encode()]
        for content in variants:
            (tmp_path / "file").write_bytes(content)
            assert read(tmp_path / "file") == read(str(tmp_path / "file")) == expected
    (tmp_path / "latin").write_bytes(b"7 0 caf\xe9 1\n")
    assert list(read_qrels(tmp_path / "latin")["7"]) == ["caf\udce9"]  # as write_qrels writes it again


def test_frames_dicts_and_iterators_are_read():
    ir_measures = pytest.importorskip("ir_measures")
    sources = {
        "dicts": (RUN, QRELS),
        "frames": (frame(ROWS[0], "query_id", "doc_id", "score"), frame(ROWS[1], "query_id", "doc_id", "relevance")),
        "pyterrier": (frame(ROWS[0], "qid", "docno", "score"), frame(ROWS[1], "qid", "docno", "label").assign(x=1)),
        "iterators": (itertools.starmap(ir_measures.ScoredDoc, ROWS[0]), itertools.starmap(ir_measures.Qrel, ROWS[1])),
    }
    sources["polars"] = tuple(map(pl.from_pandas, sources["frames"]))
    sources["arrow"] = tuple(map(pa.Table.from_pandas, sources["frames"]))
    for name, (run, qrels) in sources.items():
        found = read_run(run), read_qrels(qrels)
        assert found == (RUN, QRELS), name
        assert {type(value) for value in found[0]["7"].values()} == {float}, name


def test_identifiers_are_compared_as_text():
    frames = frame([(7, 10, 0.5), (7, 11, 0.5)], "query_id", "doc_id", "score"), {np.int64(7): {10: 1}}
    H = histogram_of_run(*frames)
    assert (H.counts.tolist(), H.unretrieved.tolist()) == ([[1, 1]], [[0, 0]])
    with pytest.raises(ValueError, match=r"`run` must be ints or text. Got NaN"):
        read_run(frame([(7, np.nan, 0.5)], "query_id", "doc_id", "score"))


def test_a_histogram_has_the_queries_of_the_qrels():
    run, qrels = random_run(0)
    H, kept = histogram_of_run(run, qrels), histogram_of_run(run, qrels, empty="skip")
    assert (H.n_queries, kept.n_queries) == (len(qrels), len(qrels) - 1)
    assert H.levels.tolist() == [0, 1, 2, 3]
    for row, (query, judged) in enumerate(qrels.items()):
        found = run.get(query, {})
        ties = slice(*H.indptr[row : row + 2])
        assert -H.distances[ties] == pytest.approx(sorted(found.values(), reverse=True))
        levels = [max(judged.get(item, 0), 0) for item in sorted(found, key=found.get, reverse=True)]
        assert_array_equal(H.counts[ties], np.eye(4)[levels] if levels else np.empty((0, 4)))
        others = [level for item, level in judged.items() if level > 0 and item not in found]
        assert_array_equal(H.unretrieved[row], np.bincount(others, minlength=4))


def test_parts_of_a_collection_add_up():
    rng = np.random.default_rng(0)
    run = {f"q{q}": {f"d{i}": float(rng.integers(0, 5)) for i in rng.permutation(40)[:25]} for q in range(6)}
    qrels = {query: {f"d{i}": int(rng.integers(-1, 3)) for i in rng.permutation(40)[:15]} for query in run}

    def part(of, is_in):
        return {query: {item: v for item, v in items.items() if is_in(int(item[1:]))} for query, items in of.items()}

    halves = [[part(of, is_in) for of in (run, qrels)] for is_in in (lambda i: i < 20, lambda i: i >= 20)]
    together, H = sum(histogram_of_run(*half) for half in halves), histogram_of_run(run, qrels)
    oracles.assert_same_histogram(together, H)
    assert_array_equal(together.unretrieved, H.unretrieved)


def test_scores_of_trec_eval_have_32_bits():
    pytrec_eval = pytest.importorskip("pytrec_eval")
    run, qrels = {"q": {"a": 1 + 1e-8, "b": 1.0}}, {"q": {"a": 1, "b": 0}}
    assert evaluate_histograms([histogram_of_run(run, qrels)], ["ap_worst"]) == {"ap_worst": 1.0}
    assert pytrec_eval.RelevanceEvaluator(qrels, {"map"}).evaluate(run)["q"]["map"] == 0.5  # b before a, by name


def test_real_levels_are_kept():
    H = histogram_of_run({"q": {"a": 1, "b": 1}}, {"q": {"a": 0.5, "c": 1.5}})
    assert (H.levels.tolist(), H.counts.tolist(), H.unretrieved.tolist()) == ([0, 0.5, 1.5], [[1, 1, 0]], [[0, 0, 1]])


@pytest.mark.parametrize(
    ("run", "qrels", "message"),
    [
        (3, QRELS, r"`run` must be the path of a file, a dict of dicts, .* Got a int instead"),
        ({"7": [1]}, QRELS, r"`run` must be the path of a file, a dict of dicts, .* Got a dict instead"),
        ([("7", "cat", 0.5)], QRELS, r"an iterable of ir_measures.ScoredDoc. Got a list instead"),
        (
            RUN,
            frame(ROWS[0], "query_id", "doc_id", "score"),
            r"columns query_id, doc_id, relevance, .* Got a DataFrame",
        ),
        (RUN, None, r"`qrels` must be the path of a file"),
        (frame(ROWS[0][:1] * 2, "query_id", "doc_id", "score"), QRELS, r"once for a query, .* Got 'cat' .* query '7'"),
        ({"7": {"cat": float("nan")}}, QRELS, r"`run` must have scores that are numbers. Got NaN for query '7'"),
        ({"7": {"cat": None}}, QRELS, r"`run` must be an array of numbers"),
        (RUN, {"7": {"cat": float("nan")}}, r"`qrels` must have levels that are numbers. Got NaN"),
        (RUN, {"7": {"cat": "2"}}, r"`qrels` must be an array of numbers"),
        (RUN, {"8": {"cat": 1}}, r"`run` must have queries of `qrels`. Got no common one: '7', 'ü' in the run, '8' in"),
        (RUN, {}, r"`run` must have queries of `qrels`"),
    ],
)
def test_other_values_are_refused(run, qrels, message):
    with pytest.raises(ValueError, match=message):
        histogram_of_run(run, qrels)
    with pytest.raises(ValueError, match=r"`empty` must be one of 'zero', 'skip'"):
        histogram_of_run(RUN, QRELS, empty="nan")


@pytest.mark.parametrize(
    ("read", "content", "message"),
    [
        (
            read_run,
            b"7 Q0 cat 1 0.5\n",
            r"must have the columns query Q0 item rank score name in each line. .* line 1: 5",
        ),
        (read_run, b"7 Q0 cat 1 x engine\n", r"line 1: could not convert string to float: 'x'"),
        (read_qrels, b"7 0 cat 1\n\n7 0 dog 0.5\n", r"line 3: invalid literal for int\(\)"),
        (
            read_qrels,
            gzip.compress(b"".join(b"7 0 %d 1\n" % i for i in range(1000)))[:-9],
            r"is damaged or cut short: Compressed file ended",
        ),
        (read_qrels, b"\x1f\x8b7 0 cat 1\n", r"is damaged or cut short"),
    ],
    ids=["columns", "score", "level", "cut short", "no gzip"],  # a gzip file holds the second in which it was written
)
def test_other_files_are_refused(read, content, message, tmp_path):
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(InvalidFileError, match=message):
        read(tmp_path / "file")
    (tmp_path / "file").write_bytes(b"7 0 cat 1\n7 0 cat 2\n")
    with pytest.raises(ValueError, match=r"`qrels` must have an item once for a query"):
        read_qrels(tmp_path / "file")
    with pytest.raises(FileNotFoundError):
        read_run(tmp_path / "nowhere")
