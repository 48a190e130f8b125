"""Results of an experiment: stored in its file, and averaged in a line of text."""

import json
from pathlib import Path

from skhash.comparison.store import write_json
from skhash.comparison.tables import mean_and_spread, tie_range

RESULTS = Path(__file__).parent / "results"


def keep(path, new, by):
    """Add rows to a file, in place of those that `new` measures again.

    Parameters
    ----------
    path : Path
        A JSON list of rows; written anew if it is not there.
    new : list of dict
        Rows.
    by : sequence of str
        What tells measurements apart: old rows that agree with a new one in these go.
    """
    measured = {tuple(row[name] for name in by) for row in new}
    rows = json.loads(path.read_text()) if path.exists() else []
    rows = [row for row in rows if tuple(row[name] for name in by) not in measured] + new
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, rows)


def figure(rows, name="ap", digits=4):
    """Mean of a figure over the splits, its standard deviation, and for AP_T its tie range."""
    text = mean_and_spread([row[name] for row in rows], digits)
    if name == "ap":
        text += f" ({tie_range(rows, name, digits)})"
    return text
