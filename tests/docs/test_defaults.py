"""The defaults in docstrings are those of the code."""

import ast
import inspect
import re

import pytest
from _public import public_callables

import skhash

DEFAULT = re.compile(r"^ *(\w+(?:, \w+)*) : .*\bdefault=(.+)$", re.MULTILINE)
CALLABLES = public_callables() | {name: getattr(skhash, name) for name in skhash.__all__}


def documented_defaults(function):
    """Name and text of each default in a docstring."""
    found = DEFAULT.findall(inspect.getdoc(function) or "")
    return [(name, text) for names, text in found for name in names.split(", ")]


@pytest.mark.parametrize("name", sorted(name for name, value in CALLABLES.items() if documented_defaults(value)))
def test_documented_defaults_are_those_of_the_signature(name):
    parameters = inspect.signature(CALLABLES[name]).parameters
    for parameter, text in documented_defaults(CALLABLES[name]):
        found = parameters[parameter].default
        if repr(found) == "<factory>":  # of a field of a dataclass
            continue
        try:
            expected = ast.literal_eval(text)
        except (ValueError, SyntaxError):  # the name of a constant or a value in words
            continue
        assert (found, type(found)) == (expected, type(expected)), parameter


def test_the_defaults_of_an_estimator_are_found():
    assert dict(documented_defaults(skhash.EmbeddingHasher))["n_iter_no_change"] == "50"
