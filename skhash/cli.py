"""The command line: ``skhash compare`` is the main job, ``skhash report`` writes its page again."""

import argparse
import os
import shlex
import sys
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from skhash import __version__
from skhash.comparison.methods import GROUPS, METHODS
from skhash.comparison.progress import progress_line
from skhash.comparison.provenance import provenance
from skhash.comparison.report import rebuild_page, write_report, write_results
from skhash.comparison.run import plan, run_tasks
from skhash.comparison.store import Store
from skhash.comparison.tables import absences, by_dataset, leader_sentences, markdown_table
from skhash.comparison.tasks import Tuning
from skhash.datasets import PROTOCOLS


def main(arguments=None):
    """Run the command line.

    Parameters
    ----------
    arguments : list of str, default=None
        Arguments; None takes those of the process.

    Returns
    -------
    int
        Exit status: 0; 1 if a method failed, the others being done; 2 for what the user can mend; 130 if interrupted.

    Examples
    --------
    >>> from skhash.cli import main
    >>> main(["compare", "nowhere.npz"])  # a line on stderr says what is wrong
    2
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    options = _parser().parse_args(arguments)
    try:
        return options.job(options, shlex.join(["skhash", *arguments]))
    except BrokenPipeError:  # the reader, a pager or head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (ValueError, TypeError, OSError, ImportError, FloatingPointError, BrokenProcessPool) as error:
        print(f"skhash: error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("skhash: interrupted; with --out the same command goes on from here", file=sys.stderr)
        return 130


def _compare(options, command):
    if options.fresh and options.out is None:
        raise ValueError("--fresh without --out: nothing of an earlier run is used; name its folder by --out.")
    if options.tune_metric is not None and options.tune is None:
        raise ValueError(f"--tune-metric {options.tune_metric} without --tune: nothing is tuned; give --tune a budget.")
    store = Store(options.out)  # its folder had better not fail after the last fit
    tuning = None if options.tune is None else Tuning(options.tune, options.tune_metric or "ap")
    tasks = plan(
        _datasets(options.datasets), options.protocol, options.methods, options.bits, options.seeds, tuning, command
    )
    rows: list = [None] * len(tasks)
    for position, row, kept in run_tasks(tasks, store, n_jobs=options.jobs, fresh=options.fresh):
        rows[position] = row
        print(progress_line(tasks, rows, row, options.jobs, kept), file=sys.stderr, flush=True)
        if options.out and not kept:  # those are in a file that holds more
            write_results(options.out, [row for row in rows if row is not None])
    for part in by_dataset(rows).values():
        sentences = "\n".join([*leader_sentences(part), *absences(part)])
        print(f"\n{part[0]['description']}\n\n{markdown_table(part)}\n\n{sentences}")
    if options.out:
        about = provenance([store.read("rows", task.settings) for task in tasks])
        folder = write_report(options.out, rows, about=about)
        written = ", ".join(str(folder / name) for name in ("results.json", "results.md", "report.html"))
        print(f"\nWritten: {written}")
    failed = sum(row["error"] is not None for row in rows)
    if failed:
        print(f"skhash: {failed} of {len(rows)} fits failed, see above", file=sys.stderr)
    return 1 if failed else 0


def _report(options, command):
    print(f"Written: {rebuild_page(options.folder)}")
    return 0


def _parser():
    parser = argparse.ArgumentParser(prog="skhash", description="Learning to hash, with exact tie-aware figures.")
    parser.add_argument("--version", action="version", version=f"skhash {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    job = commands.add_parser(
        "compare",
        help="fit several methods on one or more data sets and print a table of each",
        description="Fit several methods on one or more data sets, each under its protocol, and print a table of each. "
        "SKHASH_DATA names a folder of .npz data sets. With --out a run that was stopped goes on where it was.",
    )
    job.set_defaults(job=_compare)
    job.add_argument(
        "datasets",
        nargs="*",
        default=["digits"],
        metavar="DATASET",
        help="digits (no download, the default), mnist, usps, cifar_gist, mirflickr, or your own .npz with X and y; "
        "several with commas or spaces between",
    )
    job.add_argument(
        "--protocol", choices=list(PROTOCOLS), help="how rows are split; each data set has its own default"
    )
    job.add_argument(
        "--methods",
        type=_names,
        default=["talr", "itq", "lsh"],
        metavar="A,B",
        help=f"of {', '.join(METHODS)}; or the groups {', '.join(GROUPS)} (default talr,itq,lsh)",
    )
    job.add_argument(
        "--bits", type=_lengths, default=[16, 32, 64], metavar="N,N", help="code lengths (default 16,32,64)"
    )
    job.add_argument("--seeds", type=_count, default=3, metavar="N", help="number of random splits (default 3)")
    job.add_argument(
        "--tune",
        type=_budget,
        metavar="BUDGET",
        help="compare that many candidates for the parameters of every method on held-out training rows, the defaults "
        "among them, for every split and code length; without it the defaults are taken",
    )
    job.add_argument("--tune-metric", metavar="NAME", help="what candidates are compared by: ap (default), ndcg, ...")
    job.add_argument("--jobs", type=_count, default=1, metavar="N", help="number of processes (default 1)")
    job.add_argument("--out", metavar="FOLDER", help="also write report.html, results.md and results.json there")
    job.add_argument("--fresh", action="store_true", help="do anew what an earlier run left in the folder of --out")
    page = commands.add_parser(
        "report",
        help="write report.html again from the rows that are finished",
        description="Write report.html again from the finished rows of a comparison, without fitting anything.",
    )
    page.set_defaults(job=_report)
    page.add_argument("folder", metavar="FOLDER", help="what --out was")
    return parser


def _datasets(texts):
    """Names and paths, separated by commas unless a file is called so."""
    return [
        name.strip() for text in texts for name in ([text] if Path(text).is_file() else text.split(",")) if name.strip()
    ]


def _names(text):
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names or set(names) - METHODS.keys() - GROUPS.keys():
        known = ", ".join([*METHODS, *GROUPS])
        raise argparse.ArgumentTypeError(f"{text!r}: a comma-separated list of {known} is wanted")
    return names


def _lengths(text):
    try:
        return [_count(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r}: a comma-separated list of lengths, as 16,32,64, is wanted"
        ) from None


def _count(text, least=1):
    number = int(text)
    if number < least:
        raise argparse.ArgumentTypeError(f"{text!r}: a number of at least {least} is wanted")
    return number


def _budget(text):
    return _count(text, 2)
