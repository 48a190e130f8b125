"""How the plots of the gallery look: large letters, and a page of any color behind them."""

from typing import Any

#: parameters of matplotlib for every plot of the documentation; the style sheet inverts plots on dark pages
STYLE = {
    "font.size": 12,  # large enough on a phone, and in the small pictures of the gallery
    "legend.fontsize": 10,
    "lines.linewidth": 2.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "savefig.transparent": True,
}


def set_style(gallery_conf: dict[str, Any], name: str) -> None:
    """Set the style before an example runs."""
    import matplotlib as mpl

    mpl.rcParams.update(STYLE)
