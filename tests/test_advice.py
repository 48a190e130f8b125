"""Advice in messages: each option of the command line, and each parameter, that a message names is there."""

import ast
import inspect
import re
from functools import cache
from pathlib import Path

import pandas as pd
import pytest
from _public import annotations_of, public_callables

import skhash
from skhash import TALRHasher
from skhash.cli import main
from skhash.cli._options import parser
from skhash.datasets import load_images, load_table
from skhash.features import PretrainedFeatures
from skhash.stores import to_duckdb

PACKAGE = Path(skhash.__file__).parent
#: commands of the modules of the command line; the other ones serve several, which are walked with tables below
COMMANDS = {
    "_fitting": ["fit"],
    "_codes": ["encode", "index", "export", "search"],
    "_searching": ["search"],
    "_browsing": ["browse"],
    "_duplicates": ["duplicates"],
    "_evaluating": ["evaluate"],
}
OPTION = re.compile(r"(?<![\w-])--[a-z]+(?:-[a-z]+)*")
CALL = re.compile(r"\b([A-Z]\w+|order_shortlist|load|choose_code)\(([^()]*)\)")
ADVICE = re.compile(r"\b([Pp]ass|[Ss]et|[Uu]se|[Ff]it|with) ")
PARAMETER = re.compile(r"(?<![\w.`-])([a-z]\w*)=(?=[\w'\"(])")
#: options of pip in advice
OF_PIP = {"--index-url"}
#: parameters of scikit-learn and numpy in advice, and of command lines of other programs
OF_OTHERS = {"shuffle"}
KEYWORD = re.compile(r"(?:^|, )(\w+)=")


@cache
def options_of(command):
    """Options of a command."""
    return {option for action in subparsers()[command]._actions for option in action.option_strings}


@cache
def subparsers():
    """Parsers of the commands by their names."""
    return next(action.choices for action in parser()._actions if action.dest == "job")


def texts(path):
    """Texts in the code of a module, without docstrings, with {} in place of values."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    left_out = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            left_out.add(node.value)
        if isinstance(node, ast.JoinedStr):
            left_out.update(node.values)
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in left_out:
            yield node.value


MODULES = sorted(PACKAGE.rglob("*.py"))


def test_options_in_messages_are_those_of_the_command():
    n_found = 0
    for path in MODULES:
        if path.stem == "_options":  # the parser itself
            continue
        in_cli = path.parent.name == "cli"
        commands = COMMANDS.get(path.stem, [*subparsers()]) if in_cli else [*subparsers()]
        known = {"--help", "--version", *OF_PIP}.union(*map(options_of, commands))
        for text in texts(path):
            # a message may name another command, whose options follow
            for other in re.findall(r"skhash ([a-z]+)", text):
                known |= options_of(other) if other in subparsers() else set()
            unknown = set(OPTION.findall(text)) - known
            assert not unknown, f"{path.name}: {unknown} in {text!r}, of {commands}"
            n_found += bool(OPTION.findall(text))
    assert n_found >= 50


def test_parameters_in_messages_about_tables_are_there():
    tree_names, of_stores = set(), set()
    for path in MODULES:
        names = of_stores if path.parent.name == "stores" else tree_names
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            is_call = isinstance(node, ast.Call) and getattr(node.func, "id", "") == "parameter"
            if is_call and isinstance(node.args[0], ast.Constant):
                names.add(node.args[0].value)
    assert len(tree_names) >= 7
    assert tree_names <= inspect.signature(load_table).parameters.keys()
    assert of_stores <= inspect.signature(to_duckdb).parameters.keys()
    # pictures have no columns of features
    of_pictures = {"labels", "encoding", "separator", "label_separator"}
    assert of_pictures <= inspect.signature(load_images).parameters.keys()


def test_parameters_in_advice_are_those_of_the_call_or_of_a_public_callable():
    named = {name.rpartition(".")[2]: set(annotations_of(value)) for name, value in public_callables().items()}
    more = (set(annotations_of(value)) for value in (TALRHasher.fit, PretrainedFeatures))
    everywhere = set().union(*named.values(), *more) | OF_OTHERS
    n_found = 0
    for path in MODULES:
        if path.stem == "_parameters":  # docstrings
            continue
        for text in texts(path):
            for name, arguments in CALL.findall(text):
                given = set(KEYWORD.findall(arguments))
                assert given <= named.get(name, given), f"{path.name}: {name} has not all of {given} in {text!r}"
            if ADVICE.search(text):
                given = set(PARAMETER.findall(text))
                n_found += len(given)
                assert given <= everywhere, f"{path.name}: {given - everywhere} in {text!r}"
    assert n_found > 40


#: tables that cannot be read as they are, with an option that helps
BAD_TABLES = {
    "an id": "id,a,b\n1,0.5,1\n2,1.5,3\n",
    "labels": "label,a,b\nx,0.5,1\ny,1.5,3\n",
    "text": "a,b,note\n1,2,x\n3,4,y\n",
    "separator": "a;b\n1;2\n3;4\n",
    "decimal comma": 'a,b\n"0,5",1\n"1,5",2\n',
    "thousands": 'a,b\n"1,500",1\n"2,500",2\n',
    "gaps": "a,b\n1,\n3,4\n",
    "latin": "a,größe\n1,2\n3,4\n".encode("latin-1"),
    "utf-16": "a,b\n1,2\n3,4\n".encode("utf-16"),
    "large": "a,b\n9007199254740993,2\n3,4\n",
    "several labels": 'label,a,b\nx;y,0.5,1\ny;z,1.5,3\n"x",2,4\n',
}


@pytest.mark.parametrize("command", ["fit", "encode", "index", "search", "duplicates", "compare"])
def test_advice_about_tables_names_options_of_the_command(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    good = pd.DataFrame({"a": [0.5, 1.5, 2.0] * 4, "b": [1.0, 3.0, 2.0] * 4})
    good.to_csv("good.csv", index=False)
    assert main(["fit", "good.csv", "--method", "lsh", "--bits", "4", "--held-out", "0", "--out", "model"]) == 0
    assert main(["encode", "model", "good.csv", "--out", "codes.npz"]) == 0
    good.drop(columns="b").to_csv("other.csv", index=False)
    import numpy as np

    np.savez("two.npz", X=good.to_numpy())
    assert main(["fit", "two.npz", "--method", "lsh", "--bits", "4", "--held-out", "0", "--out", "unnamed"]) == 0
    capsys.readouterr()
    calls = {
        "fit": ["fit", "bad.csv", "--method", "lsh", "--bits", "4", "--out", "out"],
        "encode": ["encode", "unnamed", "bad.csv", "--out", "out.npz"],
        "index": ["index", "unnamed", "bad.csv", "--out", "out"],
        "search": ["search", "unnamed", "codes.npz", "two.npz", "--rerank", "cosine", "--vectors", "bad.csv"],
        "duplicates": ["duplicates", "codes.npz", "--max-distance", "1", "--vectors", "bad.csv"],
        "compare": ["compare", "bad.csv", "--methods", "lsh", "--bits", "4", "--seeds", "1"],
    }
    n_found = 0
    for name, content in BAD_TABLES.items():
        Path("bad.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
        main(calls[command])
        message = capsys.readouterr().err
        named = set(OPTION.findall(message))
        assert named <= options_of(command), f"{name}: {message}"
        n_found += bool(named)
    assert n_found >= len(BAD_TABLES) - 2
