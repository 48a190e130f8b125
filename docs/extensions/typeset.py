r"""Typeset the plain-text formulas of skhash's docstrings.

In this notation ``n_d`` and ``N_{d-1}`` have subscripts, ``2^v`` and ``V^T`` have superscripts,
``n+`` and ``n-`` have a sign as superscript, ``x~`` and ``x^`` have accents, ``X'`` has a prime, and
Greek letters are written by their names.

>>> "".join(piece.astext() for piece in typeset("the sum of lambda_i, i <= k"))
'the sum of λi, i ≤ k'
>>> [type(piece).__name__ for piece in typeset("N_{d-1}^2", block=True)]
['emphasis', 'subscript', 'superscript']
"""

import re
from collections.abc import Callable

from docutils import nodes

GREEK = {
    name: chr(code)
    for names, start in (
        ("alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho", 0x3B1),
        ("sigma tau upsilon phi chi psi omega", 0x3C3),
    )
    for code, name in enumerate(names.split(), start)
}
GREEK |= {"Gamma": "Γ", "Delta": "Δ", "Lambda": "Λ", "Sigma": "Σ", "Phi": "Φ", "lam": "λ", "eps": "ε"}
SIGNS = {"<=": "≤", ">=": "≥", "!=": "≠", "->": "→", "<-": "←", "*": "·", "-": "−", "sum": "∑", "sqrt": "√"}
ACCENTS = {"~": "\u0303", "^": "\u0302"}

_letter = "|".join(sorted(GREEK, key=len, reverse=True))
_group = r"\{(?:[^{}]|\{[^{}]*\})*\}"
_TOKEN = re.compile(
    rf"""
    (?P<operator>\b(?:sum|min|max|softmax))_(?P<range>{_group}|[^\s(]+)
  | (?P<identifier>\b[a-z]{{3,}}_[a-z]{{3,}}\w*)
  | (?P<abbreviation>\bs\.t\.)
  | _(?P<below>{_group}|[A-Za-z0-9]+(?:<-[a-z])?)
  | \^(?P<above>{_group}|\([^()]*\)|-?[A-Za-z0-9]+(?:/[0-9]+)?)
  | (?P<change>delta-(?=psi))
  | (?<![A-Za-z])(?<![A-Za-z]{{2}}')
    (?P<name>{_letter}|[A-Za-z])(?P<number>[0-9]+)?(?P<mark>[+~^-](?=[\s_),.;:\]|]|$))?(?![A-Za-z])
    (?P<prime>'(?![a-z]{{2}}))?
  | (?P<tick>(?<=_[A-Za-z0-9])')
  | (?P<sign><=|>=|!=|->|<-|(?<=\s)[*-](?=\s)|(?<=[\s({{\[,])-(?=[\w\[(|])|\bsum\b(?=\s)|\bsqrt\b)
  | (?P<inner><(?![=\s-])[^<>]*,[^<>]*>)
    """,
    re.VERBOSE,
)
_ARTICLE = re.compile(r"\s+[A-Za-z]")  # follows "a" where it is an article, not a variable


def typeset(text: str, block: bool = False) -> list[nodes.Node]:
    """Docutils nodes of plain text that contains formulas.

    Parameters
    ----------
    text : str
        Plain text with formulas.
    block : bool, default=False
        Whether the whole text is a formula, so that each single letter is a variable.

    Returns
    -------
    list of docutils.nodes.Node
        Text, variables, subscripts and superscripts.
    """
    pieces, end = [], 0
    for match in _TOKEN.finditer(text):
        pieces += [nodes.Text(text[end : match.start()]), *_nodes_of(match, block)]
        end = match.end()
    return [piece for piece in [*pieces, nodes.Text(text[end:])] if piece.astext()]


def _nodes_of(match: re.Match[str], block: bool) -> list[nodes.Node]:
    found = {name: text for name, text in match.groupdict().items() if text}
    match found:
        case {"operator": operator, "range": below}:
            return [nodes.Text(SIGNS.get(operator, operator)), _script(nodes.subscript, below)]
        case {"identifier": text}:
            return [nodes.literal(text=text)]
        case {"below": text}:
            return [_script(nodes.subscript, text)]
        case {"above": text}:
            return [_script(nodes.superscript, text)]
        case {"change": _}:
            return [nodes.Text("Δ")]
        case {"tick": _}:
            return [nodes.Text("′")]
        case {"sign": "sum"} if not block:
            return [nodes.Text("sum")]
        case {"sign": text}:
            return [nodes.Text(SIGNS[text])]
        case {"inner": text}:
            return [nodes.Text("⟨"), *typeset(text[1:-1], block=True), nodes.Text("⟩")]
        case {"name": "a" | "A" as text} if not block and _ARTICLE.match(match.string, match.end()):
            return [nodes.Text(text)]
        case {"name": text}:
            return _variable(text, found.get("number", ""), found.get("mark", ""), "prime" in found)
    return [nodes.Text(match[0])]


def _variable(name: str, number: str, mark: str, primed: bool) -> list[nodes.Node]:
    letter = nodes.emphasis(text=GREEK.get(name, name) + ACCENTS.get(mark, ""), classes=["variable"])
    below = [nodes.subscript(text=number)] if number else []
    above = [nodes.superscript(text=mark.replace("-", "−"))] if mark in ("+", "-") else []
    return [letter, *below, *above, *([nodes.Text("′")] if primed else [])]


def _script(kind: Callable[..., nodes.Element], text: str) -> nodes.Element:
    text = text[1:-1] if text[0] in "{(" else text
    text = text.replace("<-", "←").replace("-", "−").replace(" x ", " × ")
    if re.fullmatch("[a-z]{2,3}", text):  # several indices
        return kind("", "", nodes.emphasis(text=text, classes=["variable"]))
    return kind("", "", *typeset(text, block=True))
