"""The registry agrees with the classes that it names: what they learn from, and their papers."""

import importlib
import inspect
import re

import pytest
from sklearn.utils import get_tags

from skhash.registry import AFFINITIES, FIRST_STEPS, FUNCTIONS, HASHERS, INDEXES, METHODS, import_class

FAMILIES = {"deep", "shallow", "structhash", "vectors"}


@pytest.fixture(params=METHODS)
def method(request):
    return METHODS[request.param]


@pytest.fixture
def hasher_class(method):
    return getattr(importlib.import_module(method.module), method.class_name)


@pytest.mark.parametrize("path", [*(HASHERS | INDEXES | AFFINITIES | FUNCTIONS).values(), *FIRST_STEPS.values()])
def test_a_dotted_name_is_that_of_its_class(path):
    """Files name classes by them, and an object is saved only if its class has the name of its entry."""
    kind = import_class(path)
    assert f"{kind.__module__}.{kind.__qualname__}" == path


@pytest.mark.parametrize("names", [HASHERS, INDEXES, AFFINITIES, FUNCTIONS])
def test_a_file_names_a_class_by_its_last_part(names):
    assert all(path.rpartition(".")[2] == name for name, path in names.items())


def test_what_a_method_learns_from(method, hasher_class):
    """tests/comparison/test_methods.py fits each method to see whether it needs labels."""
    assert method.learns_from in {"labels", "relevance", "samples"}
    assert (method.learns_from != "samples") == get_tags(hasher_class()).target_tags.required
    assert method.needs_labels == (method.learns_from == "labels")
    assert method.family in FAMILIES


def test_the_paper_is_one_that_the_docstring_cites(method, hasher_class):
    authors, venue = method.paper.split(", ")
    first, _, second = authors.removesuffix(" et al.").partition(" and ")
    references = inspect.getdoc(hasher_class).split("References")[1].split("Examples")[0]
    (reference,) = (
        reference
        for reference in re.split(r"\n\s*\n", references)
        if re.search(rf"\b{first}\b.*\b{second}", reference, flags=re.DOTALL) and venue in reference.replace("\n", " ")
    )
    n_authors = reference.split(":")[0].count(",") + 1
    assert n_authors == (2 if second else 1) or (n_authors > 2 and authors.endswith(" et al."))


def test_the_advice_is_one_short_line(method):
    assert 0 < len(method.use_for) <= 75
    assert method.use_for == method.use_for.strip().rstrip(".")
