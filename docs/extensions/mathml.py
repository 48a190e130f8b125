"""Formulas as MathML, which every browser draws itself: no script, no font, no network."""

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

logger = logging.getLogger(__name__)


def visit_math(translator, node):
    """Write a formula inside a line."""
    translator.body.append(_mathml(node, as_block=False))
    raise nodes.SkipNode


def visit_display_math(translator, node):
    """Write a formula of its own."""
    translator.body.append(f'<div class="math">{_mathml(node, as_block=True)}</div>\n')
    raise nodes.SkipNode


def _mathml(node, as_block):
    try:
        return tex2mathml(node.astext(), as_block=as_block)
    except MathError as error:
        logger.warning("formula %r: %s", node.astext(), error, location=node)
        return ""


def setup(app):
    """Register the renderer; conf.py chooses it by ``html_math_renderer``."""
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_display_math, None))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
