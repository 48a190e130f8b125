"""The command line: ``skhash compare`` is the main job."""

import argparse
import sys
from pathlib import Path

from skhash import __version__
from skhash.comparison import METHODS, compare, markdown_table, write_report, write_rows
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
        Exit status: 0, or 2 for what the user can mend.
    """
    options = _parser().parse_args(arguments)
    try:
        _compare(options)
    except (ValueError, TypeError, OSError, ImportError, FloatingPointError) as error:
        print(f"skhash: error: {error}", file=sys.stderr)
        return 2
    return 0


def _compare(options):
    total = len(options.methods) * len(options.bits) * options.seeds
    done: list = []
    if options.out:
        Path(options.out).mkdir(parents=True, exist_ok=True)  # better now than after the last fit

    def report(row):
        done.append(row)
        print(
            f"[{len(done)}/{total}] {row['method']}, {row['nbits']} bits, seed {row['seed']}: "
            f"AP_T {row['ap']:.3f}, NDCG_T {row['ndcg']:.3f}, fitted in {row['fit_seconds']:.1f} s",
            file=sys.stderr,
            flush=True,
        )
        if options.out:
            write_rows(options.out, done)

    rows, description = compare(
        options.dataset,
        protocol=options.protocol,
        methods=options.methods,
        nbits=options.bits,
        n_seeds=options.seeds,
        report=report,
    )
    print(f"\n{description}\n\n{markdown_table(rows)}")
    if options.out:
        folder = write_report(options.out, rows, description)
        print(f"\nWritten: {folder / 'results.json'}, {folder / 'results.md'}")


def _parser():
    parser = argparse.ArgumentParser(prog="skhash", description="Learning to hash, with exact tie-aware figures.")
    parser.add_argument("--version", action="version", version=f"skhash {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    job = commands.add_parser(
        "compare",
        help="fit several methods on one data set and print one table",
        description="Fit several methods on one data set under one protocol and print one table. "
        "SKHASH_DATA names a folder of .npz data sets.",
    )
    job.add_argument(
        "dataset",
        nargs="?",
        default="digits",
        help="digits (no download, the default), mnist, usps, cifar_gist, mirflickr, or your own .npz with X and y",
    )
    job.add_argument(
        "--protocol", choices=list(PROTOCOLS), help="how rows are split; each data set has its own default"
    )
    job.add_argument(
        "--methods", type=_names, default=["talr", "itq", "lsh"], metavar="A,B", help=f"of {', '.join(METHODS)}"
    )
    job.add_argument("--bits", type=_lengths, default=[16, 32, 64], metavar="16,32", help="code lengths")
    job.add_argument("--seeds", type=_count, default=3, metavar="N", help="number of random splits (default 3)")
    job.add_argument("--out", metavar="FOLDER", help="also write results.json and results.md there")
    return parser


def _names(text):
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names or set(names) - METHODS.keys():
        raise argparse.ArgumentTypeError(f"{text!r}: a comma-separated list of {', '.join(METHODS)} is wanted")
    return names


def _lengths(text):
    try:
        return [_count(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r}: a comma-separated list of lengths, as 16,32,64, is wanted"
        ) from None


def _count(text):
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: a number of at least 1 is wanted")
    return number
