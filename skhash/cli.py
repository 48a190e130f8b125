"""The command line: ``skhash compare`` compares methods, ``skhash report`` writes its report again."""

import argparse
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from textwrap import fill

from skhash import __version__
from skhash.registry import GROUPS, VARIANTS


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    arguments : list of str, default=None
        Arguments. None takes those of the process.

    Returns
    -------
    int
        Exit status: 0; 1 if a method failed and the others finished; 2 for errors that the
        user can fix; 130 if interrupted.

    Examples
    --------
    >>> from skhash.cli import main
    >>> main(["compare", "nowhere.npz"])  # prints the error to stderr
    2
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    options = _parser().parse_args(arguments)
    try:
        status: int = options.job(options, shlex.join(["skhash", *arguments]))
        return status
    except BrokenPipeError:  # the reader, such as head, has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (ValueError, TypeError, OSError, ImportError, FloatingPointError, BrokenProcessPool) as error:
        print(f"skhash: error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("skhash: interrupted; with --out the same command continues from here", file=sys.stderr)
        return 130


def _compare(options: argparse.Namespace, command: str) -> int:
    from skhash.comparison import absences, compare, leader_sentences, markdown_table, write_report
    from skhash.comparison._groups import by_dataset

    if options.fresh and options.out is None:
        raise ValueError("--fresh needs --out FOLDER, whose results it discards.")
    if options.tune_metric is not None and options.tune is None:
        raise ValueError("--tune-metric needs --tune BUDGET.")
    results, _ = compare(
        _datasets(options.datasets),
        protocol=options.protocol,
        methods=options.methods,
        nbits=options.bits,
        n_seeds=options.seeds,
        report=lambda progress: print(progress, file=sys.stderr, flush=True),
        tune=options.tune,
        tune_metric=options.tune_metric or "ap",
        n_jobs=options.jobs,
        folder=options.out,
        fresh=options.fresh,
        command=command,
    )
    for part in by_dataset(results).values():
        sentences = "\n".join([*leader_sentences(part), *absences(part)])
        print(f"\n{part[0].description}\n\n{markdown_table(part)}\n\n{sentences}")
    if options.out:
        folder = write_report(options.out, results)
        print("\nFiles:", ", ".join(str(folder / name) for name in ("results.json", "results.md", "report.html")))
    n_failed = sum(result.error is not None for result in results)
    if n_failed:
        print(f"skhash: {n_failed} of {len(results)} fits failed, see above", file=sys.stderr)
    return 1 if n_failed else 0


def _report(options: argparse.Namespace, command: str) -> int:
    from skhash.comparison import rebuild_page

    print("File:", rebuild_page(options.folder))
    return 0


class _Parser(argparse.ArgumentParser):
    """A parser whose epilog is computed when the help is shown."""

    make_epilog: Callable[[], str] | None = None

    def format_help(self) -> str:
        """Help with the epilog."""
        if self.make_epilog is not None:
            self.epilog = self.make_epilog()
        return super().format_help()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="skhash", description="Learning to hash, with exact tie-aware metrics.")
    parser.add_argument("--version", action="version", version=f"skhash {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=_Parser)
    _add_compare(commands)
    report = commands.add_parser(
        "report",
        help="write report.html again",
        description="Write report.html again from the finished results of a comparison, without fitting anything.",
    )
    report.set_defaults(job=_report)
    report.add_argument("folder", metavar="FOLDER", help="the folder of --out")
    return parser


def _add_compare(commands: "argparse._SubParsersAction[_Parser]") -> None:
    job = commands.add_parser(
        "compare",
        help="fit several methods on data sets and print a table of their metrics",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Fit several methods on one or more data sets and print a table for each.",
    )
    job.make_epilog = _lists
    job.set_defaults(job=_compare)
    job.add_argument(
        "datasets",
        nargs="*",
        default=["digits"],
        metavar="DATASET",
        help="data sets (default digits), or your own .npz files with X and y; separated by commas or spaces",
    )
    job.add_argument(
        "--protocol",
        type=_protocol,
        metavar="NAME",
        help="how samples are split; each data set has a default",
    )
    job.add_argument(
        "--methods",
        type=_names,
        default=["talr", "itq", "lsh"],
        metavar="A,B",
        help="methods or groups of methods (default talr,itq,lsh)",
    )
    job.add_argument("--bits", type=_bits, default=[16, 32, 64], metavar="N,N", help="bits (default 16,32,64)")
    job.add_argument("--seeds", type=_count, default=3, metavar="N", help="number of random splits (default 3)")
    job.add_argument(
        "--tune",
        type=_budget,
        metavar="BUDGET",
        help="compare BUDGET candidates for the parameters of every method, including the defaults, on held-out "
        "training samples; without it, all methods use their defaults",
    )
    job.add_argument("--tune-metric", metavar="NAME", help="metric that compares candidates: ap (default), ndcg, ...")
    job.add_argument("--jobs", type=_count, default=1, metavar="N", help="number of processes (default 1)")
    job.add_argument(
        "--out",
        metavar="FOLDER",
        help="write results.json, results.md and report.html there; a stopped run continues where it stopped",
    )
    job.add_argument("--fresh", action="store_true", help="discard the results of an earlier run in FOLDER")


def _lists() -> str:
    """Data sets, protocols, methods and groups, one per line."""
    from skhash.datasets import PROTOCOLS  # imports scikit-learn

    variants: dict[str, list[str]] = {}
    for name, variant in VARIANTS.items():
        variants.setdefault(variant.method.name, []).append(name)
    lines = ["data sets: digits, mnist, usps, cifar_gist, mirflickr; all but digits need a"]
    lines += ["download, or a file in the folder that SKHASH_DATA names", "", "protocols:"]
    lines += [
        fill(f"{name:14}{protocol.description}", 79, initial_indent="  ", subsequent_indent=16 * " ")
        for name, protocol in PROTOCOLS.items()
    ]
    lines += ["", "methods:"]
    lines += [f"  {', '.join(names)}" for names in variants.values()]
    lines += ["", "groups of methods:"]
    lines += [f"  {name:14}{meaning}" for name, meaning in GROUPS.items()]
    return "\n".join(lines)


def _datasets(texts: Sequence[str]) -> list[str]:
    """Names and paths, separated by commas except in the name of an existing file."""
    return [
        name.strip() for text in texts for name in ([text] if Path(text).is_file() else text.split(",")) if name.strip()
    ]


def _protocol(text: str) -> str:
    from skhash.datasets import PROTOCOLS

    if text not in PROTOCOLS:
        raise argparse.ArgumentTypeError(f"must be one of {', '.join(PROTOCOLS)}. Got {text!r} instead.")
    return text


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in VARIANTS and name not in GROUPS]
    if unknown or not names:
        raise argparse.ArgumentTypeError(
            f"must be names of methods or groups with commas between, see --help. Got {text!r} instead."
        )
    return names


def _bits(text: str) -> list[int]:
    try:
        return [_count(part) for part in text.split(",")]
    except (ValueError, argparse.ArgumentTypeError):
        raise argparse.ArgumentTypeError(f"must be ints >= 1, such as 16,32,64. Got {text!r} instead.") from None


def _count(text: str, least: int = 1) -> int:
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if number < least:
        raise argparse.ArgumentTypeError(f"must be an int >= {least}. Got {text!r} instead.")
    return number


def _budget(text: str) -> int:
    return _count(text, 2)
