"""Claims of the pages: ranges of differences and typed tables agree with the stored results, and commands exist.

A measurement that is repeated changes its tables by itself, but not what the text says of them.
"""

import ast
import doctest
import io
import re
from contextlib import redirect_stdout, suppress
from functools import cache
from pathlib import Path
from statistics import mean, stdev

import pytest
from results import read_results

from skhash.cli import main
from skhash.registry import METHODS, VARIANTS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
RESULTS = ROOT / "experiments" / "results"
BITS = (16, 32, 64)
CLASSES = ("usps", "mnist", "cifar_gist")
PAGES = [ROOT / "README.md", *(path for path in DOCS.rglob("*.rst") if not {"_build", "auto_examples"} & {*path.parts})]
COMMAND = re.compile(r"python (?:experiments|benchmarks|examples)/[\w/]+\.py|skhash [a-z]+ .*--")


def text_of(page):
    return " ".join((DOCS / page).read_text(encoding="utf-8").split())


def mean_ap(dataset, method, nbits):
    rows = read_results(RESULTS / "comparison" / f"{dataset}.json")
    return mean(row["ap"] for row in rows if (row["method"], row["nbits"]) == (method, nbits))


def differences(datasets, first, second):
    return [mean_ap(data, first, n) - mean_ap(data, second, n) for data in datasets for n in BITS]


def below_the_highest(method):
    names = {row["method"] for row in read_results(RESULTS / "comparison" / "usps.json")}
    return [max(mean_ap(data, name, n) for name in names) - mean_ap(data, method, n) for data in CLASSES for n in BITS]


def span(values, digits=3):
    return f"{min(values):.{digits}f} to {max(values):.{digits}f}"


def gain_over_the_paper(default, dataset="usps"):
    """Difference of AP_T between our default of a method and its paper's setting."""
    rows = [row for row in read_results(RESULTS / "papers.json") if row["dataset"] == dataset]
    ours, paper = (
        mean(row["ap"] for row in rows if row["method"] == name)
        for name in (default, f"{default.removesuffix('-mlp')}-paper")
    )
    return f"{ours - paper:.3f}"


GIST, TAGS, SIMPLE = ["cifar_gist"], ["mirflickr"], ["usps", "mnist"]
RANGES = {
    "methods/fastap.rst": [
        lambda: f"CIFAR GIST, by {span(differences(GIST, 'fastap', 'talr'))}",
        lambda: f"on USPS, by {span(differences(['usps'], 'talr', 'fastap'))}",
    ],
    "methods/mihash.rst": [
        lambda: f"above on MNIST, by {span(differences(['mnist'], 'mihash-mlp', 'talr-mlp'))}.",
        lambda: f"lower by {span(differences(GIST, 'talr-mlp', 'mihash-mlp'), 2)}, on tags by",
        lambda: f"on tags by {span(differences(TAGS, 'talr-mlp', 'mihash-mlp'), 2)}.",
        lambda: f"it is {span(differences(SIMPLE + GIST + TAGS, 'talr', 'mihash'))} below",
    ],
    "methods/cghash.rst": [
        lambda: f"USPS and MNIST, by {span(differences(SIMPLE, 'cghash', 'structhash'))}",
        lambda: f"GIST features and tags, by {span(differences(GIST + TAGS, 'structhash', 'cghash'))}",
    ],
    "methods/greedyhash_unsupervised.rst": [
        lambda: f"AP_T is {span(differences(SIMPLE, 'greedyhash-unsupervised-mlp', 'itq'), 2)} above",
    ],
    "methods/bihalf.rst": [
        lambda: f"ITQ, by {span(differences(SIMPLE + GIST, 'bihalf', 'itq'), 2)}, and below CIBHash",
        lambda: f"below ITQ, by {span(differences(TAGS, 'itq', 'bihalf'))}",
    ],
    "methods/tbh.rst": [lambda: f"lower by {span(differences(['usps'], 'itq', 'tbh'), 2)}"],
    "methods/talr.rst": [
        lambda: f"by {span(differences(CLASSES, 'talr', 'talr-ndcg'))}",
        lambda: f"Our defaults are {gain_over_the_paper('talr-mlp')} above it.",
    ],
    "methods/nsh.rst": [lambda: f"Our defaults are {gain_over_the_paper('nsh', 'digits')} above it, on two splits."],
    "methods/hashnet.rst": [lambda: f"Our defaults are {gain_over_the_paper('hashnet-mlp')} above it."],
    "methods/structhash.rst": [lambda: f"Our default is {gain_over_the_paper('structhash')} above it."],
    "methods/csq.rst": [lambda: "AP_T is {:.3f} to {:.2f} below".format(*sorted(below_the_highest("csq-mlp"))[::8])],
    "results/comparison.rst": [
        lambda: f"linear hashers, by {span(differences(GIST, 'fastap', 'talr'))}",
        lambda: f"USPS and MNIST, by {span(differences(SIMPLE, 'greedyhash-unsupervised-mlp', 'itq'), 2)}",
    ],
}


@pytest.mark.parametrize("page", RANGES)
def test_ranges_of_differences_are_those_of_the_comparison(page):
    text = text_of(page)
    for claim in RANGES[page]:
        assert claim() in text


def groups_of(name, *keys):
    groups = {}
    for row in read_results(RESULTS / f"{name}.json"):
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    return groups


def spread(values):
    return f"{mean(values):.4f} ± {stdev(values):.4f}"


def lines_of_smoothing():
    lines = {}
    for (data, method, metric, _), rows in groups_of("smoothing", "data", "method", "objective", "smoothing").items():
        lines.setdefault((data, method, metric), []).append(spread([row[metric] for row in rows]))
    return [" - ".join(cells) for cells in lines.values()]


def lines_of_losses():
    lines = []
    for rows in groups_of("structhash_losses", "dataset").values():
        losses = [[row["ndcg"] for row in rows if row["method"] == f"{name} loss"] for name in ("ndcg", "auc")]
        gains = [first - second for first, second in zip(*losses, strict=True)]
        error = stdev(gains) / len(gains) ** 0.5
        lines.append(" - ".join(map(spread, losses)) + f" - {mean(gains):+.4f} ({error:.4f})")
    return lines


def lines_of_code_lengths():
    lines = []
    for rows in groups_of("code_lengths", "set", "method", "query", "target").values():
        chosen, alone = sorted(rows, key=lambda row: row["chosen_by"])
        if (chosen["set"], chosen["method"]) == ("fashion_mnist", "itq"):
            line = "- {query} - {target} - {nbits} bits, {candidates} candidates - {mean:.3f}, {lowest:.3f}"
            lines.append(f"{line} - {{n_met}} of 100 - {alone['n_met']} of 100".format(**chosen))
    return lines


TABLES = {
    "smoothing": ("methods/talr.rst", lines_of_smoothing),
    "structhash_losses": ("methods/structhash.rst", lines_of_losses),
    "code_lengths": ("guide/neighbors.rst", lines_of_code_lengths),
}


@pytest.mark.parametrize("name", TABLES)
def test_typed_tables_are_those_of_the_stored_rows(name):
    page, lines_of = TABLES[name]
    text, lines = text_of(page), lines_of()
    assert len(lines) > 2
    for line in lines:
        assert re.sub(r"\s*- ", " - ", f" {line}") in text


@pytest.mark.parametrize("method", ["talr", "hashnet", "nsh", "structhash"])
def test_the_call_of_a_papers_setting_has_the_parameters_of_the_registry(method):
    """The page shows it, and skhash compare measures it."""
    text = (DOCS / "methods" / f"{method}.rst").read_text(encoding="utf-8")
    section = text.partition("The paper's setting\n---")[2].partition("\n---")[0]
    (call,) = (
        node
        for example in doctest.DocTestParser().get_examples(section)
        for node in ast.walk(ast.parse(example.source))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == METHODS[method].class_name
    )
    given = {keyword.arg: eval(ast.unparse(keyword.value)) for keyword in call.keywords}
    assert given.pop("nbits") == 32
    assert given == VARIANTS[f"{method}-paper"].parameters


def commands():
    for page in PAGES:
        text = page.read_text(encoding="utf-8").replace("```", "")
        shown = [" ".join(literal.split()) for literal in re.findall(r"`([^`]+)`", text)]
        shown += re.findall(r"^ +(?::command: )?((?:python|skhash) .*)", text, flags=re.MULTILINE)
        for command in filter(COMMAND.match, shown):
            yield page.relative_to(ROOT).as_posix(), command.partition(" #")[0].rstrip("\\ ").split()


@cache
def help_of(command):
    with redirect_stdout(io.StringIO()) as text, suppress(SystemExit):
        main([command, "--help"])
    return text.getvalue()


def options_of(words):
    if words[0] == "skhash":
        return re.findall(r"--[a-z][\w-]*", help_of(words[1]))
    source = (ROOT / words[1]).read_text(encoding="utf-8")
    if words[1].startswith("examples/reproductions"):
        source += (ROOT / "examples/reproductions/_common.py").read_text(encoding="utf-8")
    return re.findall(r'"(--[a-z][\w-]*)"', source)


def test_commands_of_the_pages_exist_and_have_the_options_that_are_named():
    found = list(commands())
    assert len(found) > 40
    for page, words in found:
        unknown = {word for word in words if word.startswith("--")} - {*options_of(words)}
        assert not unknown, (page, words)


def test_a_table_of_one_line_compares_the_columns_of_this_line():
    """The best of a column with one cell is this cell, whatever is beside it."""
    for page in PAGES:
        for body in re.findall(r"results-table:: .*\n((?: +:.*\n)+)", page.read_text(encoding="utf-8")):
            if ":across:" in body and ":best-in-line:" not in body:
                by, where = (re.search(rf":{name}: (.*)", body)[1] for name in ("by", "where"))
                fixed = {part.split("=")[0].strip() for part in where.split(";") if "|" not in part}
                assert not set(by.split()) <= fixed | {"n_items"}, (page, body)
