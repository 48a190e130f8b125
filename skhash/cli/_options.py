"""The options of the command line, their checks, and the lists in the help."""

import argparse
import csv
import math
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any, NoReturn

from skhash import __version__
from skhash.registry import (
    COMPARED,
    CONV,
    FOR_NEIGHBORS,
    GROUPS,
    METHODS,
    PAPER,
    VARIANTS,
    installed_methods,
    load_method,
)

_METHODS_HEAD = "methods, with the endings of their variants, such as talr-mlp:"
#: where codes can be exported to
EXPORTS = ("faiss", "usearch", "lancedb", "pgvector", "sqlite-vec", "duckdb", "parquet", "ubinary", "binary")
_DATA = (
    "name of a data set, or samples in an .npy file, an .npz file with X, or a CSV or Parquet file with columns of "
    "numbers; or pictures: a folder, a CSV file with columns path and label, or one picture"
)
_ITEMS = f"items: {_DATA}; or codes from skhash encode"
_COMPARE = """Fit several methods on one or more data sets and print a table for each.
Commas or spaces separate the items of a list."""
_DISTANCES = ("cosine", "euclidean", "inner")  # of vectors
_LEARNS_FROM = {"labels": "labels", "relevance": "relevance", "samples": "no labels"}


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, and whose epilog is computed when the help is shown."""

    make_epilog: Callable[[], str] | None = None

    def __init__(self, **options: Any) -> None:
        super().__init__(**options, allow_abbrev=False)  # an abbreviation would change its meaning with a new option

    def format_help(self) -> str:
        """Help with the epilog."""
        if self.make_epilog is not None:
            self.epilog = self.make_epilog()
        return super().format_help()

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Parse, and exit for unknown arguments, so that the usage is that of the command."""
        options, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return options, unknown

    def error(self, message: str) -> NoReturn:
        """Print one line and exit."""
        self.exit(2, f"skhash: error: {message.removesuffix('.')}. See {self.prog} --help.\n")


def parser() -> argparse.ArgumentParser:
    """Parser of the command line; `job` of what it parses is the name of the command."""
    top = _Parser(
        prog="skhash",
        description="Learning to hash, with exact tie-aware metrics.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.make_epilog = lambda: "\n".join([_METHODS_HEAD, *(f"  {line}" for line in method_lines())])
    top.add_argument("--version", action="version", version=f"skhash {__version__}, learning to hash (scikit-hash)")
    commands = top.add_subparsers(dest="job", required=True, metavar="COMMAND", parser_class=_Parser)
    _add_compare(commands)
    commands.add_parser("methods", help="list the methods, one per line")
    report = commands.add_parser(
        "report",
        help="write the report again",
        description="Write report.html and results.md from the finished results of a comparison, without fitting "
        "anything.",
    )
    report.add_argument("folder", metavar="FOLDER", help="the folder of --out")
    _add_tables(report)
    _add_fit(commands)
    _add_encode(commands)
    _add_index(commands)
    _add_search(commands)
    _add_export(commands)
    _add_browse(commands)
    _add_duplicates(commands)
    _add_evaluate(commands)
    for job in commands.choices.values():
        job.add_argument(
            "-q", "--quiet", action="store_true", help="no progress and no remarks, only results, warnings and errors"
        )
    return top


def _add_compare(commands: "argparse._SubParsersAction[_Parser]") -> None:
    job = commands.add_parser(
        "compare",
        help="fit several methods on data sets and print a table of their metrics",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description=_COMPARE,
    )
    job.make_epilog = _lists
    several: dict[str, Any] = {"nargs": "+", "action": "extend"}
    job.add_argument(
        "datasets",
        nargs="*",
        metavar="DATASET",
        help="data sets (default digits), your own .npz files with X and y, .npy files with X, CSV and Parquet files, "
        "folders of pictures",
    )
    job.add_argument(
        "--task",
        choices=("relevance", "neighbors"),
        help="find what is relevant by labels (default), or keep the 10 nearest neighbors of the vectors",
    )
    job.add_argument("--protocol", metavar="NAME", help="how samples are split; each data set has a default")
    job.add_argument(
        "--methods",
        metavar="NAME",
        help=f"methods or groups of methods (default {','.join(COMPARED['relevance'])}; for neighbors "
        f"{','.join(COMPARED['neighbors'])}); a class of your own is module:Class",
        **several,
    )
    job.add_argument("--bits", metavar="N", help="numbers of bits (default 16,32,64)", **several)
    job.add_argument(
        "--bytes", metavar="N", help="numbers of bytes in place of bits (default for neighbors 8,16,32,64)", **several
    )
    job.add_argument(
        "--metrics",
        metavar="NAME",
        help="metrics, the first of which orders the methods, such as ap,ndcg_at_10,recall_radius_2; an unknown name "
        "lists all (default ap with its tie range, ndcg, precision_at_100, precision_radius_2)",
        **several,
    )
    job.add_argument("--seeds", type=_count, metavar="N", help="number of random splits (default 3, for neighbors 1)")
    job.add_argument(
        "--tune",
        type=lambda text: _count(text, 2),
        metavar="BUDGET",
        help="compare BUDGET candidates for the parameters of every method, including the defaults, on held-out "
        "training samples; without it, all methods use their defaults",
    )
    job.add_argument("--tune-metric", metavar="NAME", help="metric that compares candidates: ap (default), ndcg, ...")
    job.add_argument(
        "--scale", action="store_true", help="scale features to variance 1 by the training samples of each split"
    )
    job.add_argument("--jobs", type=_count, default=1, metavar="N", help="number of processes (default 1)")
    _add_folder(job)
    _add_samples(job, has_model=False)


def _add_folder(job: "_Parser") -> None:
    """Add the options of what ``skhash compare`` writes."""
    job.add_argument(
        "--out",
        metavar="FOLDER",
        help="write results.json, results.md and report.html there; a stopped run continues where it stopped, and the "
        "results of other methods, bits, seeds and data sets stay; methods that are not named are listed apart",
    )
    _add_tables(job)
    job.add_argument(
        "--keep-models",
        action="store_true",
        help="save each fitted hasher in FOLDER/models, for skhash encode and search; of pictures also write a page "
        "that searches them with the hashers of the first split",
    )
    job.add_argument("--fresh", action="store_true", help="discard the results of an earlier run in FOLDER")


def _add_tables(job: argparse.ArgumentParser) -> None:
    job.add_argument(
        "--baseline", metavar="NAME", help="method that the others are tested against over the queries (default best)"
    )
    job.add_argument(
        "--format",
        nargs="+",
        action="extend",
        default=[],
        metavar="NAME",
        help="also write results.csv or results.tex: csv,latex",
    )


def _add_fit(commands: "argparse._SubParsersAction[_Parser]") -> None:
    job = commands.add_parser(
        "fit",
        help="fit a hasher to a data set or a file, and save it",
        description="Fit a hasher to a data set or a file, score it on held-out samples, and save it for skhash encode "
        "and skhash search.",
    )
    job.add_argument("data", metavar="DATA", help=f"{_DATA}; labels are y of the .npz file, or columns: --labels")
    job.add_argument(
        "--method", metavar="NAME", required=True, help="one of those that skhash methods lists, or module:Class"
    )
    job.add_argument("--bits", type=_count, default=32, metavar="N", help="number of bits (default 32)")
    job.add_argument("--out", metavar="MODEL", required=True, help="the file to write, usually *.safetensors")
    job.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a parameter of the hasher, as in Python, or text; may be given several times",
    )
    job.add_argument(
        "--scale", action="store_true", help="standardize features: MODEL is a Pipeline that also scales new samples"
    )
    job.add_argument(
        "--held-out",
        type=_share,
        default=0.1,
        metavar="SHARE",
        help="share of the samples to hold out and score the hasher with (default 0.1); 0 for none",
    )
    job.add_argument(
        "--seed", type=lambda text: _count(text, 0), default=0, metavar="N", help="random seed (default 0)"
    )
    job.add_argument(
        "--fine-tune",
        action="store_true",
        help="train the network of --backbone with the pictures, together with the bits of a deep method; this takes "
        "more time, and searches find more",
    )
    _add_samples(job, has_model=False)


def _add_pictures(job: "_Parser", has_model: bool) -> None:
    """Add the options of pictures; those of the network belong to MODEL."""
    group = job.add_argument_group("pictures")
    if has_model:
        group.add_argument(
            "--backbone",
            metavar="FILE.py:CLASS",
            help="the network of MODEL, if it is your own: as given to skhash fit",
        )
    else:
        group.add_argument(
            "--backbone",
            default="efficientnet-lite0",
            metavar="NAME",
            help="pretrained network that turns pictures into features: efficientnet-lite0 (default), timm/NAME, "
            "torchvision/NAME, or FILE.py:CLASS for one of your own, a torch.nn.Module that is made without arguments",
        )
        group.add_argument(
            "--size",
            type=_count,
            metavar="N",
            help="height and width in pixels (default: those of the pretraining, or the attribute input_size of a "
            "network of your own, or 224)",
        )
        group.add_argument(
            "--channels",
            type=int,
            choices=(1, 3, 4),
            default=3,
            help="channels of pictures for a network of your own: gray, RGB (default), or RGBA",
        )
    group.add_argument(
        "--broken",
        choices=["skip", "raise"],
        default="skip",
        help="leave out pictures that cannot be read, and name them (default), or stop",
    )
    group.add_argument(
        "--features",
        metavar="FOLDER",
        help="keep the features of the pictures there, so that each is computed once (default: in the folder that the "
        "environment variable SKHASH_CACHE names, or the user's cache folder)",
    )


def _add_encode(commands: "argparse._SubParsersAction[_Parser]") -> None:
    job = commands.add_parser(
        "encode",
        help="encode the samples of a file with a saved hasher",
        description="Encode the samples of a file with a saved hasher, batch by batch.",
    )
    _add_encoding(job, _DATA, "CODES", "an .npz file with codes and nbits, to write")
    job.add_argument("--fresh", action="store_true", help="replace CODES also if they are those of another hasher")


def _add_index(commands: "argparse._SubParsersAction[_Parser]") -> None:
    job = commands.add_parser(
        "index",
        help="save codes together with their hasher, to be searched without the samples",
        description="Save an index: the codes of items, their hasher, and of pictures the paths and labels. skhash "
        "search, browse and export take it in place of MODEL and DATA, and skhash.persistence.load reads it in Python.",
    )
    _add_encoding(job, _ITEMS, "INDEX", "the file to write, usually *.safetensors")


def _add_encoding(job: "_Parser", data: str, out: str, out_help: str) -> None:
    """Add the arguments of a command that encodes DATA with MODEL and writes a file."""
    job.add_argument("model", metavar="MODEL", help="file of skhash.persistence.save")
    job.add_argument("data", metavar="DATA", help=data)
    job.add_argument("--out", metavar=out, required=True, help=out_help)
    _add_samples(job, has_model=True)


def _add_search(commands: "argparse._SubParsersAction[_Parser]") -> None:
    job = commands.add_parser(
        "search",
        help="find the nearest items of queries by their codes",
        description="Find the nearest items of queries, exactly. The items are those of a saved index, or DATA.",
    )
    job.add_argument("model", metavar="MODEL", help="file of skhash.persistence.save: a hasher, or an index")
    job.add_argument("data", metavar="DATA", nargs="?", help=f"{_ITEMS}. Not with an index")
    job.add_argument("queries", metavar="QUERIES", help="queries: a file like DATA")
    job.add_argument(
        "--k",
        type=_count,
        metavar="N",
        help="number of items for each query (default 10, or that of the index; at most the candidates)",
    )
    job.add_argument(
        "--query", choices=["code", "real"], help="compare the codes of queries (default), or their real activations"
    )
    job.add_argument(
        "--candidates",
        type=_count,
        metavar="N",
        help="number of candidates that codes find, and --query real or --rerank orders; with both options, real "
        "queries find them (default: all items)",
    )
    job.add_argument(
        "--rerank",
        choices=_DISTANCES,
        help="order the candidates by this distance of the original vectors",
    )
    job.add_argument(
        "--vectors",
        metavar="FILE",
        help="original vectors of the items for --rerank: a file like DATA, which is put in the order of the ids if it "
        "has --ids, or the pictures of the codes, found by their paths (default DATA, unless it holds codes)",
    )
    job.add_argument(
        "--among",
        metavar="FILE",
        help="find only the items of this file: an .npy file of their ids, or of a bool for each item, or a text file "
        "with an id, or the path of a picture, in each line",
    )
    job.add_argument("--out", metavar="FILE", help="a .csv or .npz file with all results, or a .run for TREC, to write")
    _add_table(job)
    _add_pictures(job, has_model=True)


def _add_export(commands: "argparse._SubParsersAction[_Parser]") -> None:
    job = commands.add_parser(
        "export",
        help="write codes into a store, such as FAISS or PostgreSQL",
        description="Write codes into a store. FAISS, usearch, Parquet and the formats of sentence-transformers are "
        "files (the last two .npy), sqlite-vec and DuckDB a table in a file, LanceDB a table in a folder, "
        "pgvector a table of a database, whose address is postgresql://...",
    )
    job.add_argument("codes", metavar="CODES", help="codes from skhash encode, a Parquet file of codes, or an index")
    job.add_argument("--to", choices=EXPORTS, metavar="STORE", required=True, help=", ".join(EXPORTS))
    job.add_argument("--out", metavar="PLACE", required=True, help="file, folder or address")
    job.add_argument("--table", metavar="NAME", help="name of the table (default codes)")
    job.add_argument(
        "--if-exists",
        choices=("fail", "replace", "append"),
        help="what to do if there is such a table (default fail) or Parquet file (default replace)",
    )


def _add_browse(commands: "argparse._SubParsersAction[_Parser]") -> None:
    job = commands.add_parser(
        "browse",
        help="write a page that searches pictures by their codes",
        description="Write a page, in one file, where you choose a picture and see what its code finds, for each "
        "file of codes.",
    )
    job.add_argument(
        "codes", metavar="INDEX", nargs="+", help="codes of pictures from skhash encode, or the file of an index"
    )
    job.add_argument("--images", metavar="FOLDER", required=True, help="folder of the pictures")
    job.add_argument("--out", metavar="PAGE", required=True, help="the file to write, usually *.html")
    job.add_argument(
        "--bits", metavar="N", help="numbers of bits, such as 16,32: the first bits of the codes (default all of them)"
    )
    job.add_argument(
        "--labels-from", metavar="FILE", help="CSV file with columns path and label (default: those of the codes)"
    )
    _add_labels(job)
    _add_label_separator(job)
    _add_csv(job)
    job.add_argument("--link", action="store_true", help="show the files of FOLDER, and not thumbnails in the page")
    job.add_argument("--title", default="Pictures by Hamming distance", metavar="TEXT", help="title of the page")


def _add_duplicates(commands: "argparse._SubParsersAction[_Parser]") -> None:
    job = commands.add_parser(
        "duplicates",
        help="find items that are almost equal, such as copies of pictures",
        description="Find pairs of items whose codes are near, and the groups that they connect. No file is deleted or "
        "changed: the table and the page say which item of each group to keep.",
    )
    job.add_argument(
        "data",
        metavar="INDEX|CODES|PHOTOS",
        help="the file of an index, codes from skhash encode, or pictures: a folder, or a CSV file with a column path. "
        "Pictures without --model get codes that find resized, compressed and brighter copies",
    )
    job.add_argument(
        "--radius",
        type=lambda text: _number(text, 0),
        metavar="R",
        help="largest number of bits that differ in a pair (default 2; of pictures without --model 6 of 64)",
    )
    job.add_argument(
        "--out", metavar="FILE", help="a .csv file with the pairs, their groups and what to keep, to write"
    )
    job.add_argument(
        "--keep",
        choices=["first", "largest"],
        help="which item of a group to keep: the first one, or the picture with the most pixels, then the most bytes "
        "(default largest for pictures, else first)",
    )
    job.add_argument("--page", metavar="PAGE", help="a page that shows the groups of pictures side by side, to write")
    job.add_argument("--title", default="Almost equal pictures", metavar="TEXT", help="title of the page")
    job.add_argument("--images", metavar="FOLDER", help="folder of the pictures of an index or of codes")
    job.add_argument("--model", metavar="MODEL", help="a hasher of pictures, whose codes are compared")
    job.add_argument(
        "--max-distance",
        type=_number,
        metavar="D",
        help="keep a pair only if its vectors are at most this far from each other: the features of --model, those of "
        "--vectors, or without them the colors of pictures, from 0 to 255 (default 48)",
    )
    job.add_argument(
        "--vectors",
        metavar="FILE",
        help="original vectors of the items of an index or of codes, for --max-distance; a table with --ids is put in "
        "the order of their ids",
    )
    job.add_argument(
        "--metric",
        choices=_DISTANCES,
        default="cosine",
        help="distance of the vectors (default cosine)",
    )
    _add_table(job)
    _add_pictures(job, has_model=True)


def _add_evaluate(commands: "argparse._SubParsersAction[_Parser]") -> None:
    job = commands.add_parser(
        "evaluate",
        help="metrics of a run of any search engine, averaged over its ties",
        description="Print metrics of a TREC run: the mean over all orders of items of equal score, and the worst and "
        "the best order.",
    )
    job.add_argument("run", metavar="RUN", help="what an engine found: query Q0 item rank score name in each line")
    job.add_argument(
        "qrels", metavar="QRELS", help="what is relevant: query 0 item level; gzip may compress both files"
    )
    job.add_argument(
        "--metrics",
        metavar="NAME",
        nargs="+",
        action="extend",
        help="metrics, such as ap,ndcg_at_10 (default ap,ndcg_at_10_linear, with the gain of trec_eval); an unknown "
        "name lists all",
    )
    job.add_argument(
        "--empty",
        choices=("zero", "skip"),
        default="zero",
        help="a query without items in the run, or without relevant items, counts 0 (default), or is left out",
    )


def _add_label_separator(job: argparse.ArgumentParser) -> None:
    job.add_argument(
        "--label-separator",
        type=lambda text: None if text == "none" else text,
        default="auto",
        metavar="TEXT",
        help='separator of several labels in a cell of a CSV file, such as ";"; none if each cell is one label '
        "(default: none, but cells that seem to have several labels are an error)",
    )


def _add_samples(job: "_Parser", has_model: bool) -> None:
    """Add the options of tables and of pictures, and of their labels."""
    _add_table(job)
    _add_pictures(job, has_model)
    _add_label_separator(job)


def _add_table(job: "_Parser") -> None:
    """Add the options of CSV and Parquet files."""
    group = job.add_argument_group("tables")
    _add_labels(group)
    group.add_argument("--ids", metavar="NAME", help="column of identifiers, which are written beside results")
    group.add_argument(
        "--columns",
        type=_column_names,
        metavar="NAME",
        help="columns of the features, or the column of lists or tensors (default: those of MODEL, or all that no "
        "other option names)",
    )
    group.add_argument("--drop", type=_column_names, metavar="NAME", help="columns to leave out")
    _add_csv(group)
    group.add_argument("--decimal", metavar="C", help="decimal point of a CSV file, such as , (default .)")


def _add_labels(job: "argparse._ActionsContainer") -> None:
    job.add_argument(
        "--labels", type=_column_names, metavar="NAME", help="column of the labels, or several columns of 0 and 1: a,b"
    )


def _add_csv(job: "argparse._ActionsContainer") -> None:
    job.add_argument("--encoding", metavar="NAME", help="encoding of a CSV file, such as latin-1 (default utf-8)")
    job.add_argument(
        "--separator",
        type=lambda text: text.replace("\\t", "\t"),
        metavar="C",
        help="separator of the cells of a CSV file, such as ';' or '\\t' (default ,)",
    )


def _column_names(text: str) -> list[str]:
    """Names between commas; one that holds a comma stands in quotes."""
    return next(csv.reader([text], skipinitialspace=True), [])


def expand_homes(options: argparse.Namespace) -> None:
    """Replace a leading ~ of each path by the home folder, which no shell does in --out=~/codes.npz or in a script.

    Names and numbers do not begin with ~, so every text but a title counts as a path.
    """
    for name, value in vars(options).items():
        if isinstance(value, str) and name != "title":
            setattr(options, name, os.path.expanduser(value))
        elif isinstance(value, list):
            setattr(options, name, [os.path.expanduser(text) for text in value])


def check(options: argparse.Namespace) -> None:
    """Split the lists of ``skhash compare`` and set defaults. Raise ValueError for options that do not fit."""
    from skhash.datasets.kinds import kind_of

    datasets = list(options.datasets)  # and those in the lists, which take all words up to the next option
    if options.bits and options.bytes:
        raise ValueError("--bits and --bytes must not be given together: each replaces the other.")
    is_neighbors = options.task == "neighbors" or (options.protocol or "").startswith("neighbors")
    task = "neighbors" if is_neighbors else "relevance"
    defaults = {"methods": ",".join(COMPARED[task]), "bits": "16,32,64", "bytes": "", "metrics": "", "format": ""}
    if is_neighbors:
        defaults |= {"bits": "", "bytes": "8,16,32,64"}
    if options.bits or options.bytes:
        defaults |= {"bits": "", "bytes": ""}
    for name, default in defaults.items():
        words = getattr(options, name) or [default]
        found = [word for word in words if kind_of(word).format not in ("folder", "picture", "other")]
        datasets += found
        setattr(options, name, split([word for word in words if word not in found]))
    options.datasets = [name for word in datasets or ["digits"] for name in _split_paths(word)]
    for name, example in (("bits", "16,32,64"), ("bytes", "8,16,32")):
        if wrong := [text for text in getattr(options, name) if not _is_count(text)]:
            raise ValueError(
                f"--{name} must be ints >= 1, such as {example}. Got {', '.join(map(repr, wrong))} instead."
            )
    _check_tables(options, task)
    options.note = _left_out(options) if is_neighbors else ""
    options.seeds = options.seeds or (1 if is_neighbors else 3)
    options.metrics = options.metrics or None
    options.bits = [int(text) for text in options.bits] + [8 * int(text) for text in options.bytes]
    if options.out == "":  # from an empty variable of a script; nothing would be written
        raise ValueError("--out must be a folder. Got '' instead.")
    if options.fresh and options.out is None:
        raise ValueError("--fresh needs --out FOLDER, whose results it discards.")
    if options.keep_models and options.out is None:
        raise ValueError("--keep-models needs --out FOLDER, where it saves them.")
    if options.tune_metric is not None and options.tune is None:
        raise ValueError("--tune-metric needs --tune BUDGET.")


def _check_tables(options: argparse.Namespace, task: str) -> None:
    """Split the formats. Raise ValueError if one is unknown or has no folder, or the baseline is not compared."""
    from skhash.comparison import expand_methods
    from skhash.comparison.formats import check_formats

    check_formats(options.format)
    if options.format and options.out is None:
        raise ValueError("--format needs --out FOLDER, where it writes the tables.")
    import_from_here(options.methods)
    methods = expand_methods(options.methods, task)
    if options.baseline not in (None, *methods):
        raise ValueError(f"--baseline must be one of {', '.join(methods)}. Got {options.baseline!r} instead.")


def _left_out(options: argparse.Namespace) -> str:
    """Sentences about what a comparison of neighbors leaves out by default."""
    from skhash.comparison import expand_methods

    notes = []
    if options.methods == [*COMPARED["neighbors"]]:
        n_others = len(expand_methods(["all"], "neighbors")) - len(options.methods)
        notes.append(f"Compared are {', '.join(options.methods)}; --methods all adds {n_others} others.")
    if options.seeds is None:
        notes.append("There is one split; --seeds 3 shows how much a result depends on it.")
    return " ".join(notes)


def import_from_here(methods: Sequence[str]) -> None:
    """Let ``module:Class`` name a module in the working folder, as ``python -m`` does."""
    if any(":" in method for method in methods) and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())


def own_classes(methods: Sequence[str]) -> list[type]:
    """Classes of the methods ``module:Class``, which no entry point names to `load`."""
    return [load_method(method) for method in methods if ":" in method]


def installed_lines() -> list[str]:
    """A head and a line per method of another package; empty if there is none."""
    lines = [f"  {name:18}{entry.value}" for name, entry in sorted(installed_methods().items())]
    return lines and ["", "methods of other packages:", *lines]


def method_lines() -> list[str]:
    """Column heads, then one line per method: name and variants, family, what it learns from, paper."""
    lines = [("method and variants", "family", "needs", "paper")]
    for name, method in METHODS.items():
        names = " ".join([name, *(ending for ending in method.variants if ending not in ("", CONV, PAPER))])
        lines.append((names, method.family, _LEARNS_FROM[method.learns_from], method.paper))
    return [f"{names:29}{family:11}{needs:10}{paper}" for names, family, needs, paper in lines]


def _lists() -> str:
    """Data sets, protocols, methods and groups, one per line."""
    from skhash.datasets import PROTOCOLS  # imports scikit-learn
    from skhash.datasets.loading import sources

    def wrapped(text: str, indent: int = 20) -> str:
        return fill(text, 79, initial_indent="  ", subsequent_indent=indent * " ")

    parts = {
        "data sets:": [wrapped(f"{', '.join(names)}: {source}", 4) for source, names in sources().items()],
        "protocols:": [wrapped(f"{name:18}{protocol.description}") for name, protocol in PROTOCOLS.items()],
        _METHODS_HEAD: [f"  {line}" for line in method_lines()],
        "groups of methods:": [f"  {name:14}{meaning}" for name, meaning in GROUPS.items()],
        "with a network of convolutions, for images, and in no group:": [
            wrapped(", ".join(name for name in VARIANTS if name.endswith(CONV)), 4)
        ],
        "with the settings of their papers, and in no group:": [
            wrapped(", ".join(name for name in VARIANTS if name.endswith(PAPER)), 4)
        ],
        "more methods, for --task neighbors:": [
            wrapped(f"{name:18}{variant.method.use_for}") for name, variant in FOR_NEIGHBORS.items()
        ],
    }
    return "\n\n".join("\n".join([head, *lines]) for head, lines in parts.items())


def split(words: Sequence[str]) -> list[str]:
    """Items between commas and spaces."""
    return [item for word in words for item in word.replace(",", " ").split()]


def _split_paths(word: str) -> list[str]:
    """Names and paths between commas; spaces separate names, and the name of an existing file may hold both."""
    if Path(word).is_file():
        return [word]
    from skhash.datasets.kinds import kind_of

    parts = [part.strip() for part in word.split(",") if part.strip()]
    return [
        os.path.expanduser(name)
        for part in parts
        for name in ([part] if Path(part).suffix in (".npz", ".npy") or kind_of(part).is_table else part.split())
    ]


def _is_count(text: str, least: int = 1) -> bool:
    return text.isascii() and text.isdigit() and int(text) >= least


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 <= share < 1:
        raise argparse.ArgumentTypeError(f"must be a number >= 0 and < 1. Got {text!r} instead.")
    return share


def _number(text: str, least: float = float("-inf")) -> float:
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if not (math.isfinite(number) and number >= least):
        what = "a finite number" if least == float("-inf") else f"a finite number >= {least:g}"
        raise argparse.ArgumentTypeError(f"must be {what}. Got {text!r} instead.")
    return number


def _count(text: str, least: int = 1) -> int:
    if not _is_count(text, least):
        raise argparse.ArgumentTypeError(f"must be an int >= {least}. Got {text!r} instead.")
    return int(text)
