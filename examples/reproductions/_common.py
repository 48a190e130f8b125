"""What the reproductions share: a small and a full form, measurements that resume, tables beside a paper's figures.

Without arguments a reproduction runs on scikit-learn's digits in seconds, and shows what
full runs have measured before. With ``--full`` it measures on the data sets in the folder
that SKHASH_DATA names and keeps every row in experiments/results/reproductions/NAME.json.
What is there already is not measured again: an interrupted run goes on where it was, and
``--only mnist`` or ``--only itq`` measures the settings that have this word in them.
"""

import argparse
import importlib
import itertools
import json
import sys
from pathlib import Path

import numpy as np

from skhash.comparison.store import write_json
from skhash.comparison.tables import mean_and_spread, tie_range
from skhash.metrics import evaluate_histograms, iter_histograms

ROOT = Path(__file__).resolve().parents[2]
NOT_AT_HAND = "not at hand"


class Study:
    """The rows of one reproduction: measured now, and kept from full runs.

    A row is a dict of a setting, whose values are names and numbers of bits or seeds, and of
    figures, which are floats. Every setting names its data set.

    Parameters
    ----------
    name : str
        Name of its file of rows.
    title : str
        What is reproduced.
    """

    def __init__(self, name, title):
        parser = argparse.ArgumentParser(description=title, allow_abbrev=False)
        parser.add_argument("--full", action="store_true", help="the real data sets; kept in a file")
        parser.add_argument("--only", default="", help="of the full form: settings that have this word in them")
        parser.add_argument("--seeds", type=int, default=3, help="of the full form: number of random splits")
        parser.add_argument("--fresh", action="store_true", help="of the full form: measure again what is kept")
        self.options, _ = parser.parse_known_args()  # a notebook has arguments of its own
        self.title = title
        self.path = ROOT / "experiments" / "results" / "reproductions" / f"{name}.json"
        self.measured = []

    @property
    def full(self):
        """Whether the full form runs."""
        return self.options.full

    @property
    def seeds(self):
        """Seeds of the random splits."""
        return range(self.options.seeds if self.full else 1)

    @property
    def kept(self):
        """Rows of full runs."""
        return json.loads(self.path.read_text(encoding="utf-8"))["rows"] if self.path.exists() else []

    @property
    def rows(self):
        """Rows of this small run and of all full ones."""
        return self.measured + self.kept

    def select(self, **setting):
        """Rows of a setting, or of several.

        Parameters
        ----------
        **setting : str or int
            Values that a row must have.

        Returns
        -------
        list of dict
            Rows.
        """
        return [row for row in self.rows if _has(row, setting)]

    def panels(self, width=6.4, height=4.4, **setting):
        """Axes for the rows of each data set, two side by side.

        Parameters
        ----------
        width, height : float, default=6.4, 4.4
            Size of a panel, in inches.
        **setting : str or int
            Only rows that have these values.

        Yields
        ------
        rows : list of dict
            Rows of one data set.
        ax : Axes
            With the name of the data set as title.
        """
        from matplotlib import pyplot

        datasets = list(dict.fromkeys(row["dataset"] for row in self.select(**setting)))
        n = max(1, len(datasets))
        columns, lines = min(2, n), -(-n // 2)
        figure = pyplot.figure(figsize=(width * columns, height * lines), layout="constrained")
        for place, dataset in enumerate(datasets, 1):
            ax = figure.add_subplot(lines, columns, place)
            ax.set_title(dataset)
            yield self.select(dataset=dataset, **setting), ax

    def run(self, function, **grid):
        """Measure each combination of the values in `grid`.

        Parameters
        ----------
        function : callable
            Takes a value of each name in `grid`; returns figures, a dict, or a list of dicts
            for several rows.
        **grid : iterable
            Values; those of the last name vary fastest.
        """
        for values in itertools.product(*grid.values()):
            setting = dict(zip(grid, values, strict=True))
            if self.full and not self._is_wanted(setting):
                continue
            figures = function(**setting)
            rows = [setting | row for row in (figures if isinstance(figures, list) else [figures])]
            if self.full:
                self._keep(setting, rows)
            else:
                self.measured += rows

    def table(self, figure, *, line="method", column="nbits", ties=False, paper=None, note=None, **setting):
        """Print a table of a figure for each data set: means over the seeds ± their standard deviation.

        Parameters
        ----------
        figure : str or list of str
            Its name in the rows; several take a column each.
        line, column : str
            What lines and columns stand for.
        ties : bool, default=False
            Add the range between the worst and the best order inside the ties.
        paper : dict, default=None
            For each data set and line, what the paper prints, by column; nothing if that is not
            at hand.
        note : str, default=None
            In what the paper's figures differ from ours.
        **setting : str or int
            Only rows that have these values.
        """
        rows, paper = self.select(**setting), paper or {}
        if isinstance(figure, list):
            rows = [row | {"figure": name, "value": row[name]} for row in rows for name in figure if name in row]
            figure, column, title = "value", "figure", ""
        else:
            rows, title = [row for row in rows if figure in row], f"{figure}, "
        for dataset in dict.fromkeys([*(row["dataset"] for row in rows), *paper]):
            ours, printed = [row for row in rows if row["dataset"] == dataset], paper.get(dataset, {})
            cells = {name: {} for name in [*(row[line] for row in ours), *printed]}
            for row in ours:
                cells[row[line]].setdefault(row[column], []).append(row)
            columns = dict.fromkeys(c for by_column in [*cells.values(), *printed.values()] for c in by_column)
            columns = sorted(columns, key=lambda c: c if isinstance(c, int) else 0)  # names stay in their order
            lines = [[title + dataset if ours else dataset, *map(str, columns)]]
            for name, by_column in cells.items():
                if by_column:
                    lines.append([name, *(_spread(by_column.get(c), figure) for c in columns)])
                if by_column and ties:
                    lines.append(["  tie range", *(_tie_range(by_column.get(c), figure) for c in columns)])
                if name in printed:
                    known = [_cell(printed[name].get(c)) for c in columns] if printed[name] else [NOT_AT_HAND]
                    lines.append(["  paper" if by_column else f"{name} (paper)", *known])
            _print_aligned(lines)
        if note:
            print(f"{note}\n")

    def _is_wanted(self, setting):
        word = self.options.only.lower()
        named = any(word in str(value).lower() for value in setting.values())
        return named and (self.options.fresh or not any(_has(row, setting) for row in self.kept))

    def _keep(self, setting, new):
        """Print rows and add them to the file, in place of those of the same setting."""
        new = [
            {key: round(value, 6) if isinstance(value, float) else value for key, value in row.items()} for row in new
        ]
        for row in new:
            print(
                *(f"{value:.3f} {key}" if isinstance(value, float) else value for key, value in row.items()), flush=True
            )
        rows = [row for row in self.kept if not _has(row, setting)] + new
        self.path.parent.mkdir(parents=True, exist_ok=True)
        content = {"title": self.title, "summary": summarize(rows), "rows": rows}
        write_json(self.path, content)


def rank(hasher, data, names, weighted=True):
    """Rank the database of a split for its queries by the codes of a fitted hasher.

    Parameters
    ----------
    hasher : BaseHasher
        Fitted.
    data : Bunch
        As :func:`skhash.datasets.load_dataset` returns it.
    names : list of str
        Metrics as :meth:`skhash.metrics.Metric.parse` reads them.
    weighted : bool, default=True
        Use the weights of its bits, if the hasher has learned any.

    Returns
    -------
    dict of str to float
        Means over the queries that something is relevant to.
    """
    codes = hasher.encode(data.X_query), hasher.encode(data.X_database)
    options = {"affinity": data.affinity, "nbits": hasher.nbits}
    if weighted:
        options["bit_weights"] = getattr(hasher, "bit_weights_", None)
    return evaluate_histograms(iter_histograms(*codes, data.y_query, data.y_database, **options), names)


def summarize(rows):
    """Average the figures of each setting over the seeds.

    Parameters
    ----------
    rows : list of dict
        Rows of a study.

    Returns
    -------
    list of dict
        Settings with "n_seeds", and for each figure its "mean" and "std".
    """
    groups = {}
    for row in rows:
        setting = tuple((k, v) for k, v in row.items() if k != "seed" and not isinstance(v, float))
        groups.setdefault(setting, []).append(row)
    summary = []
    for setting, group in groups.items():
        entry = dict(setting) | {"n_seeds": len(group)}
        for name in (k for k, v in group[0].items() if isinstance(v, float)):
            entry[name] = dict(zip(("mean", "std"), mean_and_deviation([row[name] for row in group]), strict=True))
        summary.append(entry)
    return summary


def mean_and_deviation(values):
    """Average values over the seeds; their standard deviation is 0 where there is a single one."""
    return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else 0.0


def load_script(path):
    """Import a script of this repository, whose functions and settings a reproduction shares.

    Parameters
    ----------
    path : str
        Its path below the repository, without ``.py``.

    Returns
    -------
    module
    """
    folder, name = (ROOT / path).parent, Path(path).name
    if str(folder) not in sys.path:
        sys.path.append(str(folder))  # the scripts import each other
    return importlib.import_module(name)


def _has(row, setting):
    return all(row.get(name) == value for name, value in setting.items())


def _cell(value):
    return "-" if value is None else f"{value:.3f}"


def _spread(rows, figure):
    return mean_and_spread([row[figure] for row in rows]) if rows else "-"


def _tie_range(rows, figure):
    if not rows or f"{figure}_worst" not in rows[0]:
        return "-"
    return tie_range(rows, figure)


def _print_aligned(lines):
    widths = [max(map(len, cells)) for cells in itertools.zip_longest(*lines, fillvalue="")]
    for cells in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=False)).rstrip())
    print()
