"""Formulas as MathML, which browsers show without scripts, fonts or network access."""

from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator

logger = logging.getLogger(__name__)


def visit_math(translator: HTML5Translator, node: nodes.Element) -> None:
    """Write a formula inside a line."""
    translator.body.append(_mathml(node, as_block=False))
    raise nodes.SkipNode


def visit_display_math(translator: HTML5Translator, node: nodes.Element) -> None:
    """Write a displayed formula."""
    translator.body.append(f'<div class="math">{_mathml(node, as_block=True)}</div>\n')
    raise nodes.SkipNode


def _mathml(node: nodes.Element, as_block: bool) -> str:
    try:
        return str(tex2mathml(node.astext(), as_block=as_block))
    except MathError as error:
        logger.warning("formula %r: %s", node.astext(), error, location=node)
        return ""


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the renderer, which conf.py selects by ``html_math_renderer``."""
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_display_math, None))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
