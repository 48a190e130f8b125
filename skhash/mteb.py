"""Retrieval tasks of mteb, evaluated on codes: documents are codes, and queries may stay real.

mteb encodes texts and computes the metrics. An index of :class:`skhash.neighbors.HammingNeighbors` searches in between.
mteb must be installed (``pip install mteb``).
"""

from itertools import cycle
from typing import Any

import joblib
import numpy as np
import numpy.typing as npt
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from skhash import __version__
from skhash._libraries import library
from skhash.neighbors import HammingNeighbors
from skhash.unwrap import find_hasher

__all__ = ["code_search"]


def code_search(model: Any, index: HammingNeighbors) -> Any:
    """Model for ``mteb.evaluate`` that searches codes of the embeddings of another model.

    For each task, a clone of the index is fitted to the embeddings of the documents. To learn from other texts, give
    it a fitted hasher in a :class:`sklearn.frozen.FrozenEstimator`.

    mteb orders documents of equal score by their identifiers. Many have the same Hamming distance, few the same score
    of a real query.

    Parameters
    ----------
    model : encoder of mteb or SentenceTransformer
        Model that encodes documents and queries.
    index : HammingNeighbors
        How documents are stored and searched: a hasher, real queries or codes, candidates, and re-ranking. With
        `candidates`, a query finds only these, also where mteb asks for 1,000 documents.

    Returns
    -------
    mteb.models.SearchEncoderWrapper
        Model for tasks of retrieval and re-ranking. mteb stores its results under the name of `model`, as an
        experiment: apart from the results of the vectors, and of indexes with other parameters.

    Raises
    ------
    ImportError
        If mteb is not installed.
    TypeError
        If `index` is no index.
    ValueError
        If it has no hasher, one that learns from labels and is not frozen, or a parameter that is out of range.

    Examples
    --------
    >>> import mteb
    >>> from mteb.mocks.mock_tasks.retrieval import MockRetrievalTask
    >>> from skhash import LSHHasher
    >>> from skhash.mteb import code_search
    >>> from skhash.neighbors import HammingNeighbors
    >>> encoder = mteb.get_model("mteb/baseline-random-encoder")
    >>> index = HammingNeighbors(LSHHasher(64, random_state=0), query="real")
    >>> results = mteb.evaluate(
    ...     code_search(encoder, index), MockRetrievalTask(), cache=None
    ... )
    >>> round(float(results[0].get_score()), 3)  # nDCG of the first ten
    0.815
    """
    _check_index(index)
    models = library("mteb.models", "mteb", "skhash.mteb.code_search")
    if not hasattr(model, "mteb_model_meta"):
        model = models.SentenceTransformerEncoderWrapper(model)
    search = models.SearchEncoderWrapper(model, index_backend=_CodeIndex(index))
    meta = model.mteb_model_meta
    experiment = {**(meta.experiment_kwargs or {}), "skhash": __version__, **_identity(index)}
    search.mteb_model_meta = meta.model_copy(update={"experiment_kwargs": experiment})
    return search


def _check_index(index: Any) -> None:
    """Raise an error for what is no index of embeddings, before mteb embeds the texts."""
    if not isinstance(index, HammingNeighbors):
        raise TypeError(
            f"`index` must be a HammingNeighbors. Got a {type(index).__name__} instead. Pass HammingNeighbors(hasher)."
        )
    index._check_parameters()
    if index.hasher is None:
        raise ValueError(
            "`index` must have a hasher, which makes the codes of embeddings. Got hasher=None instead. Pass "
            "HammingNeighbors(hasher)."
        )
    if isinstance(index.hasher, FrozenEstimator):
        check_is_fitted(index.hasher)
    elif find_hasher(index.hasher).__sklearn_tags__().target_tags.required:
        raise ValueError(
            f"`index` must have a hasher that learns without labels. Got {find_hasher(index.hasher)!r} instead. Pass a "
            "fitted one: HammingNeighbors(FrozenEstimator(hasher))."
        )


class _CodeIndex:
    """Search backend of mteb (its ``IndexEncoderSearchProtocol``) on an index of codes."""

    def __init__(self, index: HammingNeighbors) -> None:
        self.index = index
        self.fitted: HammingNeighbors | None = None

    def add_documents(self, embeddings: Any, idxs: list[str]) -> None:
        """Fit to the documents of a task, all of which mteb adds at once."""
        self.fitted = clone(self.index).fit(_as_array(embeddings), ids=list(idxs))

    def search(
        self,
        embeddings: Any,
        top_k: int,
        similarity_fn: Any,
        top_ranked: dict[str, list[str]] | None = None,
        query_idx_to_id: dict[int, str] | None = None,
    ) -> tuple[list[list[float]], list[list[int]]]:
        """Scores and positions of the best documents, for re-ranking among those of each query in `top_ranked`."""
        assert self.fitted is not None
        queries = _as_array(embeddings)
        if top_ranked is None:
            return _scores(self.fitted, queries, top_k)
        names = query_idx_to_id or {}
        return _scores(self.fitted, queries[list(names)], top_k, [top_ranked[name] for name in names.values()])

    def clear(self) -> None:
        """Forget the documents."""
        self.fitted = None


def _identity(index: HammingNeighbors) -> dict[str, str]:
    """Parameters of an index as text, and their digest, which also counts what a frozen hasher has learned."""
    return {"index": " ".join(repr(index).split()), "digest": str(joblib.hash(clone(index)))}


def _as_array(embeddings: Any) -> npt.NDArray[np.float32]:
    """Embeddings, which mteb has as arrays or as tensors of any device, as an array."""
    import torch

    return torch.as_tensor(embeddings).float().numpy(force=True)


def _scores(
    index: HammingNeighbors, queries: npt.NDArray[np.float32], top_k: int, among: list[list[str]] | None = None
) -> tuple[list[list[float]], list[list[int]]]:
    """Scores, the largest first, and positions of the nearest documents of each query, in its own list or among all."""
    n = index.n_samples_fit_ if among is None else max(map(len, among))
    k = min(top_k, n, index.candidates or top_k)
    distances, found = index.kneighbors(queries, k, among=among)
    documents = [index.ids_.tolist()] if among is None else among
    position = [{document: i for i, document in enumerate(listed)} for listed in documents]
    are_found = np.isfinite(distances)
    scores = [(-row[is_found]).tolist() for row, is_found in zip(distances, are_found, strict=True)]
    rows = zip(found, are_found, cycle(position), strict=False)
    return scores, [[place[document] for document in row[is_found].tolist()] for row, is_found, place in rows]
