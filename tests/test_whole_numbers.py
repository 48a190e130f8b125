"""Whole numbers of numpy, small and unsigned ones: every public parameter takes them as it takes Python's int."""

import inspect
import re
import warnings
from itertools import chain
from numbers import Integral

import numpy as np
import pytest
from _helpers import quick
from _public import annotations_of, public_callables
from matplotlib import pyplot
from sklearn.base import clone

import skhash
from skhash import affinity, codes, comparison, datasets, displays, engine, metrics, neighbors, stores, vectors
from skhash._compat import Interval
from skhash._validation import evenly_spaced
from skhash.base import BaseHasher
from skhash.callbacks import RetrievalMonitor
from skhash.engine.runtime import seeded
from skhash.features import PretrainedFeatures
from skhash.hashers.deep import HistogramObjective
from skhash.hashers.structhash._column_generation import ColumnGenerationHasher
from skhash.registry import HASHERS

#: types, and values whose double overflows the type; a type of more bits would need too much work in most places
KINDS = {np.int8: 100, np.uint8: 200, np.int16: 100, np.uint16: 200, np.int32: 100, np.uint32: 200, np.uint64: 200}

rng = np.random.default_rng(0)
X, y = rng.normal(size=(260, 12)).astype(np.float32), np.arange(260) % 3
bits = rng.integers(0, 2, (260, 24), dtype=np.uint8)
images = rng.integers(0, 256, (210, 3, 4, 4), dtype=np.uint8)
hasher = skhash.LSHHasher(260, random_state=0).fit(X, y)


def packed_of(nbits):
    return codes.pack(np.tile(bits, (1, 11))[:, : int(nbits)])


def histogram():
    return metrics.relevance_histogram(bits[:5], bits, y[:5], y)


def numbers_of(value):
    """A result as nested lists, which are compared exactly."""
    if isinstance(value, list | tuple):
        return [numbers_of(item) for item in value]
    if isinstance(value, metrics.RelevanceHistogram):
        return numbers_of(value.counts)
    return np.asarray(value).tolist()


def search(n, **params):
    index = neighbors.HammingNeighbors(hasher, query="real", **params).fit(X)
    return index.kneighbors(X[:2], n)


def found(items, **params):
    return neighbors.HammingNeighbors(**params).fit(items).kneighbors()


def chosen(**options):
    simple = skhash.LSHHasher(random_state=0)
    found = vectors.choose_code(
        simple, X, **({"k": 3, "nbits": [12], "random_state": 0, "target_recall": 0.3} | options)
    )
    return found.nbits, found.candidates, found.recall


def compared(**options):
    results, _ = comparison.compare("digits", methods=["lsh"], **({"nbits": [8], "n_seeds": 1} | options))
    return [(result["nbits"], result["seed"], result["ap"]) for result in results]


def scored(**options):
    scorer = metrics.RetrievalScorer("ndcg", database=(X, y), **options)
    return scorer(hasher, X[:5], y[:5])


def written(n, tmp_path):
    """What a store has of packed codes."""
    path = tmp_path / f"{type(n).__name__}.parquet"
    stores.to_parquet(packed_of(n), path, nbits=n)
    return stores.from_parquet(path).rows


def browsed(n, tmp_path):
    from PIL import Image

    Image.new("RGB", (8, 8)).save(tmp_path / "0.png")
    pictures = datasets.load_images(tmp_path / "0.png", size=8)
    displays.write_image_browser(tmp_path / "page.html", pictures, {"code": codes.Codes.of(packed_of(n)[:1], n)})
    return (tmp_path / "page.html").read_text()


def loaded(size, tmp_path):
    from PIL import Image

    Image.new("RGB", (300, 260), "red").save(tmp_path / "0.png")
    return datasets.load_images(tmp_path / "0.png", size=size)[0]


def trained(**options):
    schedule = engine.Schedule(**({"n_epochs": 2, "batch_size": 100, "learning_rate": 0.1} | options))
    n_batches = engine.count_batches(500, schedule.batch_size)
    return n_batches, [schedule.stage(epoch) for epoch in range(int(schedule.n_epochs))]


def drawn(seed):
    import torch

    with seeded(seed, torch.device("cpu")):
        return torch.rand(2).tolist()


def encoded(shape=12, nbits=8, n_directions=0):
    import torch

    with seeded(0, torch.device("cpu")):
        encoder = engine.Encoder(shape, nbits, n_directions=n_directions)
    return [parameter.shape for parameter in encoder.parameters()]


def own_protocol(**options):
    return datasets.Protocol("own", "own", **({"n_query": 20, "n_train": 50} | options))


def split_of(**options):
    return own_protocol(**options).sizes(260, 20)


def features(**options):
    from torch import nn

    return PretrainedFeatures(nn.Flatten(), **options).fit(images)


def views(**options):
    return features().views(images[:2], **({"n_views": 1, "random_state": 0} | options)).versions


def code_map(**options):
    display = displays.CodeMapDisplay.from_codes(
        codes.pack(bits[:40]), y[:40], perplexity=5, **({"nbits": 24} | options)
    )
    return display.embedding


#: parameters of functions and of classes that are no hashers: what to compare for a value
RECIPES = {
    "DistanceAffinity max_samples": lambda n: affinity.DistanceAffinity(max_samples=n).fit(X).thresholds,
    "NeighborAffinity n_neighbors": lambda n: affinity.NeighborAffinity(n_neighbors=n)(X[:5], X),
    "RetrievalMonitor patience": lambda n: RetrievalMonitor(X, y, patience=n).patience,
    "Codes.of nbits": lambda n: codes.Codes.of(packed_of(n), n).bits(),
    "Codes.first nbits": lambda n: codes.Codes.of(np.tile(bits, 9)).first(n).bits(),
    "bit_balance nbits": lambda n: codes.bit_balance(packed_of(n), nbits=n),
    "bit_correlation nbits": lambda n: codes.bit_correlation(packed_of(n)[:9, :], nbits=n),
    "hamming_distances nbits": lambda n: codes.hamming_distances(packed_of(n)[:5], packed_of(n), nbits=n),
    "quantize_weights nbits": lambda n: codes.bits.quantize_weights(np.ones(int(n)), n),
    "unpack nbits": lambda n: codes.unpack(packed_of(n), n),
    "compare nbits": lambda n: compared(nbits=[type(n)(100)]),
    "compare n_jobs": lambda n: compared(n_jobs=type(n)(1)),
    "compare n_seeds": lambda n: compared(n_seeds=type(n)(2)),
    "compare tune": lambda n: compared(tune=type(n)(2)),
    "find_differences random_state": lambda n: comparison.find_differences([], "ap", random_state=n),
    "make_hasher nbits": lambda n: comparison.make_hasher("lsh", n, 0, "auto").fit(X).encode(X[:3]),
    "make_hasher seed": lambda n: comparison.make_hasher("lsh", 8, n, "auto").fit(X).encode(X[:3]),
    "mean_and_spread digits": lambda n: comparison.mean_and_spread([0.123456, 0.2], digits=type(n)(3)),
    "tie_range digits": lambda n: comparison.tie_range([{"ap_worst": 0.1, "ap_best": 0.2}], digits=type(n)(3)),
    "Protocol cutoff": lambda n: split_of(cutoff=n),
    "Protocol max_query": lambda n: split_of(n_query=0.9, max_query=n),
    "Protocol n_query": lambda n: split_of(n_query=n),
    "Protocol n_samples": lambda n: split_of(n_samples=n),
    "Protocol n_train": lambda n: split_of(n_train=n),
    "load_dataset random_state": lambda n: datasets.load_dataset("digits", random_state=n).y_query,
    "split random_state": lambda n: datasets.split(X, y, protocol=own_protocol(), random_state=n).y_query,
    "Encoder n_directions": lambda n: encoded(n_directions=n),
    "Encoder nbits": lambda n: encoded(nbits=n),
    "Encoder shape": lambda n: encoded(shape=n),
    "Schedule batch_size": lambda n: trained(batch_size=n),
    "Schedule n_epochs": lambda n: trained(n_epochs=n),
    "Schedule n_stages": lambda n: trained(n_epochs=250, n_stages=n),
    "count_batches batch_size": lambda n: engine.count_batches(1000, n),
    "count_batches n_samples": lambda n: engine.count_batches(n, 3),
    "evenly_spaced n_max": lambda n: evenly_spaced(1000, n),
    "evenly_spaced n_samples": lambda n: evenly_spaced(n, 7),
    "seeded seed": drawn,
    "HistogramObjective n_bins": lambda n: HistogramObjective(n_bins=n).n_bins,
    "Metric k": lambda n: metrics.Metric.parse("ap", k=n)(histogram()),
    "Metric candidates": lambda n: metrics.Metric.parse(f"neighbor_recall_at_3_of_{n}").candidates,
    "RetrievalScorer candidates": lambda n: scored(query="real", candidates=n),
    "RetrievalScorer k": lambda n: scored(k=n),
    "average_precision k": lambda n: metrics.average_precision(histogram(), k=n, average=False),
    "Ranking candidates": lambda n: list(
        metrics.Ranking(
            codes.Codes.of(packed_of(24), 24)[:5],
            codes.Codes.of(packed_of(24), 24),
            affinity.Relevance.between(y[:5], y),
            query_activations=bits[:5] - 0.5,
            candidates=n,
        ).histograms()
    ),
    "ndcg k": lambda n: metrics.ndcg(histogram(), k=n, average=False),
    "neighbor_recall candidates": lambda n: metrics.neighbor_recall(histogram(), k=50, candidates=n),
    "neighbor_recall k": lambda n: metrics.neighbor_recall(histogram(), k=n),
    "precision k": lambda n: metrics.precision(histogram(), k=n, average=False),
    "recall k": lambda n: metrics.recall(histogram(), k=n, average=False),
    "relevance_histogram nbits": lambda n: metrics.relevance_histogram(
        packed_of(n)[:5], packed_of(n), y[:5], y, nbits=n
    ),
    "HammingNeighbors candidates": lambda n: search(3, candidates=n),
    "HammingNeighbors n_jobs": lambda n: neighbors.HammingNeighbors(n_jobs=type(n)(2)).fit(bits).kneighbors(),
    "HammingNeighbors n_neighbors": lambda n: neighbors.HammingNeighbors(n_neighbors=n).fit(bits).kneighbors(),
    "HammingNeighbors nbits": lambda n: neighbors.HammingNeighbors(nbits=n).fit(packed_of(n)).kneighbors(),
    "HammingNeighbors.kneighbors n_neighbors": lambda n: search(n, candidates=250),
    "HammingNeighbors.kneighbors_graph n_neighbors": lambda n: (
        neighbors.HammingNeighbors().fit(bits).kneighbors_graph(bits[:5], n).toarray()
    ),
    "HammingNeighborsTransformer n_neighbors": lambda n: (
        neighbors.HammingNeighborsTransformer(n_neighbors=n).fit_transform(bits).toarray()
    ),
    "choose_code candidates": lambda n: chosen(candidates=n),
    "choose_code k": lambda n: chosen(k=n),
    "choose_code n_queries": lambda n: chosen(n_queries=n),
    "choose_code nbits": lambda n: chosen(nbits=n),
    "choose_code verbose": lambda n: chosen(verbose=type(n)(0)),
    "merge_neighbors n_neighbors": lambda n: neighbors.merge_neighbors(
        [neighbors.HammingNeighbors().fit(bits).kneighbors(bits[:2], 250)], n
    ),
    "QueryAdapter random_state": lambda n: (
        vectors.QueryAdapter(random_state=n).fit(X, hasher.encode(X), hasher=hasher).project_queries(X[:5])
    ),
    "bit_strings nbits": lambda n: stores.bit_strings(packed_of(n), nbits=n),
    "to_sentence_transformers nbits": lambda n: stores.to_sentence_transformers(packed_of(n), "ubinary", nbits=n),
    "to_faiss nbits": lambda n: stores.from_faiss(stores.to_faiss(packed_of(n), nbits=n), nbits=n).rows,
    "PretrainedFeatures batch_size": lambda n: features(batch_size=n).transform(images),
    "PretrainedFeatures.views n_views": lambda n: views(n_views=type(n)(3)),
    "PretrainedFeatures.views random_state": lambda n: features().views(images[:2], 1, random_state=n).versions,
    "BaseHasher.encode batch_size": lambda n: hasher.encode(X, batch_size=n),
    "BaseHasher.prefix nbits": lambda n: hasher.prefix(n).encode(X),
    "CodeMapDisplay.from_codes random_state": lambda n: code_map(random_state=n),
    "CodeMapDisplay.from_codes nbits": lambda n: code_map(nbits=type(n)(24)),
    "write_image_browser codes": browsed,
    "load_images size": loaded,
    "to_parquet nbits": written,
}

#: parameters that need no test of their own: why, and patterns of their names
NOT_TESTED = {
    "records of what was computed": [
        r"^(Difference|Drift|Plan|Progress|Result|Step|ChosenCode|MeasuredCode|Codes|Network) ",
        r"^RecallByCandidatesDisplay ",
    ],
    "called by the library alone": [
        r" (shape|stage|n_stages|epoch|n_features|n_directions|n_batches)$",
        r"^Protocol\.(sizes|draw_query|draw_train) |Function\.(first|uses_threads) |^soft_metric k",
        r"^Array\.check ",
    ],
    "passed on to what is tested": [
        r"^kneighbors |^(to|from)_\w+ nbits|\.(from_codes|from_results) nbits|\.from_estimator |^Metric\.parse k",
        r"^load_(nus_wide|ms_coco|imagenet100) |^HammingNeighborsTransformer",
    ],
}


def public_parameters():
    """Whole numbers of all public functions, classes and methods, but of the constructors of hashers."""
    return {
        f"{name} {parameter}"
        for name, function in public_callables().items()
        if not (inspect.isclass(function) and issubclass(function, BaseHasher))
        for parameter, text in annotations_of(function).items()
        if re.search(r"\bint\b", re.sub(r"Callable\[\[.*?\]|bool(, | \| )int\1float\1complex", "", text))  # ArrayLike
    }


def test_each_public_whole_number_has_a_test():
    patterns = "|".join(chain.from_iterable(NOT_TESTED.values()))
    untested = {name for name in public_parameters() - RECIPES.keys() if not re.search(patterns, name)}
    assert untested == set()


@pytest.mark.parametrize("name", RECIPES)
def test_functions_take_whole_numbers_of_numpy(name, tmp_path):
    recipe = RECIPES[name]
    more = [tmp_path] if "tmp_path" in inspect.signature(recipe).parameters else []
    for value in (100, 200):
        expected = numbers_of(recipe(value, *more))
        for kind in (kind for kind, used in KINDS.items() if used == value):
            assert numbers_of(recipe(kind(value), *more)) == expected, kind
    pyplot.close("all")  # tests of displays count the open ones


def whole_parameters(Hasher):
    """Whole numbers of a hasher by its constraints."""
    return [
        name
        for name, constraints in Hasher._parameter_constraints.items()
        if any(isinstance(one, Interval) and one.type is Integral for one in constraints)
    ] + ["random_state"] * ("random_state" in inspect.signature(Hasher).parameters)


#: values of parameters that take long, or have another range
SMALL = {
    "n_iter": 2,
    "max_iter": 2,
    "n_stages": 2,
    "n_updates": 2,
    "n_starts": 2,
    "n_layers": 2,
    "n_iter_no_change": 1,
    "n_epochs": 2,
}


@pytest.mark.parametrize("name", HASHERS)
@pytest.mark.parametrize("kind", [np.uint8, pytest.param(np.int8, marks=pytest.mark.slow)])
def test_hashers_take_whole_numbers_of_numpy(name, kind):
    Hasher = getattr(skhash, name)
    by_column = issubclass(Hasher, ColumnGenerationHasher)  # each bit takes long
    others = {"nbits": 2} if by_column else {"n_epochs": 2}

    def codes_of(parameter, value):
        more = {"objective": "ndcg"} if by_column and parameter == "k" else {}
        simple = clone(quick(name, **(others | more | {parameter: value})))
        given = simple.get_params()[parameter]  # a copy with some versions of numpy
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a few random samples teach nothing
            fitted = simple.fit(X[:220], y[:220])
        assert simple.get_params()[parameter] is given
        return fitted.encode(X)

    for parameter in whole_parameters(Hasher):
        value = 3 if by_column and parameter == "nbits" else SMALL.get(parameter, KINDS[kind])
        expected = codes_of(parameter, value)
        np.testing.assert_array_equal(codes_of(parameter, kind(value)), expected, err_msg=f"{parameter}, {kind}")
