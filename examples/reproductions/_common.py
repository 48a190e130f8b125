"""What the reproductions share: a small and a full form, stored results, and tables beside the values of a paper.

Without arguments a reproduction runs on the digits of scikit-learn in seconds, and shows the
results of earlier full runs. With ``--full`` it runs on the data sets in the folder SKHASH_DATA and
stores each result in experiments/results/reproductions/NAME.json, with the day of the measurement.
Stored results are shown and not measured again, so that an interrupted run continues; the first
line says how many there are and from when. ``--full --fresh`` measures them again, and stores the
results in the folder fresh_results of the working directory, or in that of ``--out FOLDER``. To
continue an interrupted fresh run, give this folder by ``--out`` without ``--fresh``. ``--only
mnist`` runs the settings that contain this word, ``--methods itq,lsh --bits 32,64`` those of these
methods and numbers of bits.
"""

import argparse
import importlib
import itertools
import json
import re
import sys
import textwrap
import time
from datetime import date
from pathlib import Path

from skhash.comparison import mean_and_spread, tie_range

ROOT = Path(__file__).resolve().parents[2]
NOT_AVAILABLE, NOT_RUN = "not available", "not run"
# words for data that cannot be fetched, or are not in the folder SKHASH_DATA
FROM_FOLDER = ("NUS-WIDE", "ImageNet", "MS-COCO")  # plot_image_folders.py reads these
ABSENT = (*FROM_FOLDER, "isolet", "stl10", "LabelMe")
# what the samples of our data sets are, for headings
FEATURES = {
    "cifar_gist": "CIFAR-10 GIST",
    "cifar10": "CIFAR-10",
    "cifar10_efficientnet1280": "CIFAR-10, EfficientNet-Lite0",
    "mnist": "MNIST pixels",
    "usps": "USPS pixels",
    "mirflickr": "MIRFlickr tags",
}


def load_script(path):
    """Module of a script of this repository, by its path without ``.py``."""
    folder = str((ROOT / path).parent)
    if folder not in sys.path:
        sys.path.append(folder)  # the scripts import each other
    return importlib.import_module(Path(path).name)


def heading(dataset):
    """Name of a data set with what its samples are, and the rest of the name."""
    name, comma, rest = dataset.partition(",")
    return FEATURES.get(name, name) + comma + rest


_results = load_script("experiments/_results")
rank = _results.rank


def make_parser(title):
    """Parser of the options that all reproductions have."""
    parser = argparse.ArgumentParser(description=title, allow_abbrev=False)
    parser.add_argument(
        "--full",
        action="store_true",
        help="run on the real data sets, store the results, and show stored ones",
    )
    parser.add_argument(
        "--only", default="", help="with --full: settings that contain this word"
    )
    parser.add_argument(
        "--methods",
        type=_split_words,
        help="with --full: only these methods, NAME,NAME",
    )
    parser.add_argument(
        "--bits",
        type=_split_words,
        help="with --full: only these numbers of bits, N,N",
    )
    parser.add_argument(
        "--seeds", type=int, default=3, help="with --full: number of random splits"
    )
    parser.add_argument(
        "--fresh",
        action="store_true",
        help="with --full: measure stored results again, and store them elsewhere",
    )
    parser.add_argument(
        "--out",
        metavar="FOLDER",
        help="with --full: folder of the results (default: that of the repository, "
        "with --fresh: fresh_results in the working directory)",
    )
    return parser


class Study:
    """Results of one reproduction: those of this run, and those stored by full runs.

    A result is a dict of a setting and of metrics, which are floats, or lists for
    curves. Each setting names its data set.

    Parameters
    ----------
    name : str
        Name of the file of results.
    title : str
        What is reproduced.
    options : dict of str to str, default=None
        Further options on the command line, and their help. Each takes one value.
    path : str, default=None
        File of the results in the repository, if not that of the reproduction.
    """

    def __init__(self, name, title, options=None, path=None):
        parser = make_parser(title)
        for option, text in (options or {}).items():
            parser.add_argument(option, help=text)
        in_notebook = Path(sys.argv[0]).stem == "ipykernel_launcher"
        self.options = parser.parse_args([] if in_notebook else None)
        self.full = self.options.full
        if not self.full:
            _refuse_options_of_full_runs(parser, self.options)
        self.seeds = range(self.options.seeds if self.full else 1)
        self.path = ROOT / (path or f"experiments/results/reproductions/{name}.json")
        if self.options.fresh or self.options.out:
            self.path = Path(self.options.out or "fresh_results") / self.path.name
        self.measured, self._names = [], {}
        if self.full:
            self._print_stored()

    @property
    def stored(self):
        """Results of full runs."""
        return (
            json.loads(self.path.read_text(encoding="utf-8"))
            if self.path.exists()
            else []
        )

    def select(self, **setting):
        """Results of this run and of full runs that have the values of a setting."""
        return [
            result for result in self.measured + self.stored if _has(result, setting)
        ]

    def panels(self, height=4, **setting):
        """Results of each data set, with the Axes of a figure to plot them on."""
        from matplotlib import pyplot

        results = self.select(**setting)
        for dataset in dict.fromkeys(result["dataset"] for result in results):
            figure = pyplot.figure(figsize=(6.4, height), layout="constrained")
            ax = figure.add_subplot()
            ax.set_title(heading(dataset))
            yield self.select(dataset=dataset, **setting), ax

    def run(self, function, **grid):
        """Measure each combination of values.

        Parameters
        ----------
        function : callable
            Takes one value per name in `grid`. Returns metrics as a dict, or a list of
            dicts for several results.
        **grid : iterable
            Values. Those of the last name vary fastest.
        """
        self._names |= dict.fromkeys(grid)
        for values in itertools.product(*grid.values()):
            setting = dict(zip(grid, values, strict=True))
            if self.full and not (self.is_selected(setting) and self._is_due(setting)):
                continue
            start = time.process_time()
            metrics = function(**setting)
            results = [
                setting | values
                for values in (metrics if isinstance(metrics, list) else [metrics])
            ]
            results[0]["cpu_seconds"] = time.process_time() - start
            if self.full:
                self._store(setting, results)
            else:
                self.measured += results

    def table(
        self,
        metric,
        *,
        line="method",
        column="nbits",
        ties=False,
        paper=None,
        note=None,
        planned=None,
        columns=(),
        missing=NOT_RUN,
        absent=ABSENT,
        digits=3,
        seeds=None,
        **setting,
    ):
        """Print a table of each data set: means over the seeds ± standard deviation.

        Parameters
        ----------
        metric : str or list of str
            Metric in the results. A list has one column per metric.
        line, column : str
            Keys of the results whose values make the lines and the columns.
        ties : bool, default=False
            Whether to add the range between the worst and the best order of ties.
        paper : dict, default=None
            Values of the paper by data set, line and column. A line without values is
            not available.
        note : str, default=None
            How the values of the paper differ from ours.
        planned : dict, default=None
            Lines of the full form by data set. A cell without a result is "not run".
        columns : iterable or dict of str to iterable, default=()
            Columns of the full form, for all data sets or by data set, if stored
            results may lack some.
        missing : str, default="not run"
            What the table says of a planned data set without results.
        absent : tuple of str, default=ABSENT
            Words in the data sets of the paper that we do not have.
        digits : int, default=3
            Digits of our values after the point.
        seeds : collection of int, default=None
            Splits whose results count, so that all lines have the same. None takes all.
        **setting : str or int
            Values that the results must have.
        """
        results, paper = self.select(**setting), paper or {}
        planned = planned or {}
        if seeds is not None:
            results = [result for result in results if result.get("seed") in seeds]
        if isinstance(metric, list):
            results = [
                result | {"metric": name, "value": result[name]}
                for result in results
                for name in metric
                if name in result
            ]
            metric, column, title = "value", "metric", ""
        else:
            results, title = (
                [result for result in results if metric in result],
                f"{metric}, ",
            )
        found = (result["dataset"] for result in results)
        for dataset in dict.fromkeys([*found, *planned, *paper]):
            printed = paper.get(dataset, {})
            cells = {name: {} for name in planned.get(dataset, ())}
            for result in results:
                if result["dataset"] == dataset:
                    cells.setdefault(result[line], {}).setdefault(
                        result[column], []
                    ).append(result)
            if dataset in planned and not any(cells.values()):
                print(f"{title}{heading(dataset)}: {missing}\n")
                continue
            head = title + heading(dataset) if cells else dataset
            planned_columns = columns if dataset in planned else ()
            if isinstance(columns, dict):
                planned_columns = columns.get(dataset, ())
            lines = _table_lines(
                head, cells, printed, metric, ties, planned_columns, digits
            )
            if not cells and any(word in dataset for word in absent):
                lines.append(["ours: data not available"])
                if any(word in dataset for word in FROM_FOLDER):
                    lines.append(["see plot_image_folders.py"])
            _print_aligned(lines)
        if note:
            print(f"{textwrap.fill(note, 88)}\n")

    def discard(self, is_outdated):
        """Remove stored results for which a function is true, to measure them again."""
        results = [result for result in self.stored if not is_outdated(result)]
        if len(results) < len(self.stored):
            _results.write(self.path, results)

    def print_cost(self):
        """Print the CPU time of the stored results, and how many have none."""
        results = [result for result in self.stored if "cpu_seconds" in result]
        if results:
            hours = sum(result["cpu_seconds"] for result in results) / 3600
            n_fits = f"{len(results)} stored fits with their evaluation"
            print(f"CPU time of {n_fits}: {hours:.2f} hours.")
        # one fit can have several results, of which the first has the time
        fits = {self._fit_of(result) for result in self.stored}
        others = len(fits - {self._fit_of(result) for result in results})
        if others:
            older = "older" if results else "stored"
            print(f"The CPU time of {others} {older} fits was not recorded.")
        if fits:
            print("A value without ± is of one random split.")

    def _print_stored(self):
        """Print how many results are stored, from when, and what will be measured."""
        days = [result.get("measured") for result in self.stored]
        known = sorted(filter(None, days))
        if not days:
            print(f"No stored results in {self.path}: all are measured.", flush=True)
            return
        when = "of unknown date"
        if known:
            when = f"measured from {known[0]} to {known[-1]}"
            if len(known) < len(days):
                when += f" ({len(days) - len(known)} of unknown date)"
        rest = "Only what is missing is measured; --fresh measures all."
        if self.options.fresh:
            rest = "--fresh measures them again."
        text = f"Shows {len(days)} stored results {when}, of {self.path}."
        print(text, rest, flush=True)

    def _fit_of(self, result):
        return tuple(result.get(name) for name in self._names)

    def is_selected(self, setting):
        """Whether --only, --methods and --bits leave a setting in."""
        word = self.options.only.lower()
        named = any(word in str(value).lower() for value in setting.values())
        lists = {"method": self.options.methods, "nbits": self.options.bits}
        listed = all(
            words is None or name not in setting or str(setting[name]) in words
            for name, words in lists.items()
        )
        return named and listed

    def _is_due(self, setting):
        return self.options.fresh or not any(
            _has(result, setting) for result in self.stored
        )

    def _store(self, setting, results):
        for result in results:
            result |= {
                key: round(value, 6)
                for key, value in result.items()
                if isinstance(value, float)
            }
            values = (
                f"{value:.3f} {key}" if isinstance(value, float) else value
                for key, value in result.items()
                if not isinstance(value, list)  # a curve
            )
            print(*values, flush=True)
            result["measured"] = date.today().isoformat()
        _results.store(self.path, results, list(setting))


def _refuse_options_of_full_runs(parser, options):
    """Stop with an error if an option is given that only a full run has."""
    for name in ("only", "methods", "bits", "seeds", "fresh", "out"):
        if getattr(options, name) != parser.get_default(name):
            parser.error(f"--{name} needs --full")


def _split_words(text):
    return re.split(",(?! )", text)  # "structhash, linear" is one name


def _table_lines(head, cells, printed, metric, ties, planned_columns=(), n_digits=3):
    """Lines of a table: our results of each method, then the values of the paper."""
    columns = dict.fromkeys(
        key
        for keys in [planned_columns, *cells.values(), *printed.values()]
        for key in keys
    )
    columns = sorted(
        columns, key=lambda key: key if isinstance(key, int) else 0
    )  # names stay in their order
    of_paper = [value for values in printed.values() for value in values.values()]
    # as many digits as the paper prints
    digits = 3 if all(value == round(value, 3) for value in of_paper) else 4
    lines = [[head, *map(str, columns)]]
    for name in dict.fromkeys([*cells, *printed]):
        ours = [cells.get(name, {}).get(key) for key in columns]
        if name in cells:
            lines.append(
                [
                    name,
                    *(
                        mean_and_spread(
                            [result[metric] for result in results], n_digits
                        )
                        if results
                        else NOT_RUN
                        for results in ours
                    ),
                ]
            )
        if any(ours) and ties:
            lines.append(
                ["  tie range", *(_range(results, metric) for results in ours)]
            )
        if name in printed:
            values = [
                "-" if key not in printed[name] else f"{printed[name][key]:.{digits}f}"
                for key in columns
            ]
            label = "  paper" if name in cells else f"{name} (paper)"
            lines.append([label, *(values if printed[name] else [NOT_AVAILABLE])])
    return lines


def _range(results, metric):
    known = results and f"{metric}_worst" in results[0]
    return tie_range(results, metric, 3) if known else "-"


def _has(result, setting):
    return all(result.get(name) == value for name, value in setting.items())


def _print_aligned(lines, width=88):
    """Print columns below each other; those that do not fit follow in another block."""
    name, *columns = itertools.zip_longest(*lines, fillvalue="")
    while columns:
        block = [name, columns.pop(0)]
        while columns and _width([*block, columns[0]]) <= width:
            block.append(columns.pop(0))
        widths = [max(map(len, cells)) for cells in block]
        for cells in zip(*block, strict=True):
            line = (cell.ljust(n) for cell, n in zip(cells, widths, strict=True))
            print("  ".join(line).rstrip())
        print()


def _width(columns):
    return sum(max(map(len, cells)) + 2 for cells in columns) - 2
