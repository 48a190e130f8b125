"""The command line: compare methods, list them, write a report again; fit, encode, search, export, evaluate a run."""

import _thread
import gc
import io
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stderr
from types import FrameType
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:  # main imports the rest, so that Ctrl-C during an import shows no traceback
    import argparse

    from skhash.cli._pictures import PictureSource
    from skhash.comparison import Result
    from skhash.comparison.progress import Progress

#: environment variable that shows where an error comes from
_TRACEBACK = "SKHASH_TRACEBACK"
#: modules of commands, imported at first use; a function of the same name takes the options and returns the exit status
_MODULES = {
    "fit": "_fitting",
    "encode": "_codes",
    "index": "_codes",
    "search": "_searching",
    "export": "_codes",
    "browse": "_browsing",
    "duplicates": "_duplicates",
    "evaluate": "_evaluating",
}
#: modules that are unsafe to interrupt, with all that they call: imports, and the loading of compiled kernels
_UNSAFE = ("importlib._bootstrap", "_frozen_importlib", "llvmlite.")
_PAUSE = 0.05  # seconds until a Ctrl-C at an unsafe moment is repeated


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    arguments : list of str, default=None
        Arguments. None takes those of the process.

    Returns
    -------
    int
        Exit status: 0; 1 if a fit failed, a file is invalid or anything else went wrong; 2 for
        wrong arguments; 130 if interrupted.

    Examples
    --------
    >>> from skhash.cli import main
    >>> main(["compare", "nowhere.npz"])  # prints the error to stderr
    2
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    out, unfinished = None, None
    try:
        with _interruptible(), _printable(), _few_full_collections(), warnings.catch_warnings():
            import shlex
            from functools import partial
            from importlib import import_module

            warnings.showwarning = partial(_show_warning, sys.stderr)
            warnings.filterwarnings("ignore", "X does not have valid feature names")  # columns are read by name

            from skhash.cli import _options
            from skhash.exceptions import named_as_options

            options = _options.parser().parse_args(arguments)
            _options.expand_homes(options)
            options.command = shlex.join(["skhash", *arguments])
            out = options.out if options.job == "compare" else None
            unfinished = f"{options.out}.part" if options.job == "encode" else None
            options.stderr = sys.stderr
            with named_as_options(), _quiet() if options.quiet else nullcontext():
                if options.job in _MODULES:
                    _check_out(options)
                    module = import_module(f"skhash.cli.{_MODULES[options.job]}")
                    status: int = getattr(module, options.job)(options)
                    return status
                return {"compare": _compare, "report": _report, "methods": _methods}[options.job](options)
    except BrokenPipeError:  # the reader, such as head, has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        out = unfinished if unfinished and os.path.exists(unfinished) else out
        kept = f" Finished results are in {out}; the same command continues from there." if out else ""
        print(f"skhash: Interrupted.{kept}", file=sys.stderr)
        return 130
    except Exception as error:
        if os.environ.get(_TRACEBACK):
            raise
        return _report_error(error)


@contextmanager
def _interruptible() -> Iterator[None]:
    """Context manager that repeats a Ctrl-C where an import or C code would lose it, or numba would crash."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return

    def on_signal(number: int, frame: FrameType | None) -> None:
        while frame is not None:
            if frame.f_globals.get("__name__", "").startswith(_UNSAFE):
                return try_again()
            frame = frame.f_back
        raise KeyboardInterrupt

    def on_ignored(ignored: "sys.UnraisableHookArgs") -> None:
        try_again() if issubclass(ignored.exc_type, KeyboardInterrupt) else show_ignored(ignored)

    def try_again() -> None:
        _thread.start_new_thread(interrupt_later, ())  # a threading.Timer needs locks that the code may hold

    def interrupt_later() -> None:
        time.sleep(_PAUSE)
        while signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # while processes start, it would be lost again
            time.sleep(_PAUSE)
        if signal.getsignal(signal.SIGINT) is on_signal:
            _thread.interrupt_main()

    show_ignored, sys.unraisablehook = sys.unraisablehook, on_ignored
    signal.signal(signal.SIGINT, on_signal)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.unraisablehook = show_ignored


@contextmanager
def _printable() -> Iterator[None]:
    """Context manager that prints characters that stdout cannot encode as escapes, such as those of file names."""
    stdout = sys.stdout
    if not isinstance(stdout, io.TextIOWrapper) or stdout.errors != "strict":
        yield
        return
    stdout.reconfigure(errors="backslashreplace")
    try:
        yield
    finally:
        stdout.reconfigure(errors="strict")


@contextmanager
def _few_full_collections() -> Iterator[None]:
    """Context manager with a tenth of the full garbage collections, since the many objects that imports make stay."""
    young, middle, old = gc.get_threshold()
    gc.set_threshold(young, middle, 10 * old)
    try:
        yield
    finally:
        gc.set_threshold(young, middle, old)


@contextmanager
def _quiet() -> Iterator[None]:
    """Context manager that drops all that is written to sys.stderr: progress and remarks."""
    with open(os.devnull, "w", encoding="utf-8") as nothing, redirect_stderr(nothing):
        yield


def _check_out(options: "argparse.Namespace") -> None:
    """Raise ValueError if the file to write is also a file to read, since writing would replace it."""
    names = ("model", "data", "queries", "vectors", "among", "labels_from")
    paths = [getattr(options, name, None) for name in names]
    paths.append((getattr(options, "backbone", None) or "").rpartition(":")[0])  # of FILE.py:CLASS
    codes = getattr(options, "codes", None)
    paths += codes if isinstance(codes, list) else [codes]
    for name in ("page", "out"):
        written = getattr(options, name, None)
        if written and os.path.realpath(written) in [os.path.realpath(path) for path in paths if path]:
            raise ValueError(f"--{name} must not be a file that the command reads. Got {written}, which would be lost.")
        paths.append(written)


def _show_warning(file: TextIO, message: Warning | str, *_: Any, **__: Any) -> None:
    """Print a warning as one line, without the line of code that it comes from."""
    print(f"skhash: warning: {' '.join(str(message).split())}", file=file)


def _report_error(error: Exception) -> int:
    """Print an error as one line, and return the exit status."""
    from concurrent.futures.process import BrokenProcessPool

    from skhash.exceptions import InvalidFileError

    expected = (ValueError, TypeError, OSError, ImportError, FloatingPointError, BrokenProcessPool)
    text = " ".join(str(error).split())
    if not isinstance(error, expected):
        text = f"{type(error).__name__}: {text} (set {_TRACEBACK}=1 to see where)"
    print(f"skhash: error: {text}", file=sys.stderr)
    is_usage = isinstance(error, ValueError | TypeError | FileNotFoundError | NotADirectoryError)
    return 2 if is_usage and not isinstance(error, InvalidFileError) else 1


def _compare(options: "argparse.Namespace") -> int:
    from skhash._progress import LiveLine
    from skhash.cli._options import check
    from skhash.cli._pictures import as_files
    from skhash.comparison import Plan, compare, read_results
    from skhash.comparison.report import import_jinja2
    from skhash.datasets.kinds import kind_of

    check(options)
    if options.out and all(kind_of(path).holds != "pictures" for path in options.datasets):
        import_jinja2()  # for pictures, as_files checks it together with other packages
    finished: dict[int, Result] = {}
    with as_files(options) as sources:
        with LiveLine(sys.stderr) as live, _shown_if_interrupted(finished, options):

            def report(event: "Progress") -> None:
                finished[event.position] = event.result
                live.write(event)

            def watch(event: object) -> None:
                if not isinstance(event, Plan):
                    live.show(event)
                    return
                live.write(event)
                if options.note:
                    live.write(options.note)

            results, _ = compare(
                [source.file for source in sources],
                task=options.task,
                protocol=options.protocol,
                methods=options.methods,
                nbits=options.bits,
                n_seeds=options.seeds,
                metrics=options.metrics,
                report=report,
                watch=watch,
                tune=options.tune,
                tune_metric=options.tune_metric or "ap",
                n_jobs=options.jobs,
                folder=options.out,
                fresh=options.fresh,
                keep_models=options.keep_models,
                command=options.command,
                scale=options.scale,
            )
        together = read_results(options.out) if options.out else results  # those of earlier runs, too
        _print_tables(together, options.baseline)
        if options.out:
            _write_files(options, sources, together)
    n_failed = sum(result.error is not None for result in results)
    if n_failed:
        print(f"skhash: {n_failed} of {len(results)} fits failed, see above", file=options.stderr)
    return 1 if n_failed else 0


@contextmanager
def _shown_if_interrupted(finished: "dict[int, Result]", options: "argparse.Namespace") -> Iterator[None]:
    """Context manager that prints the finished results, by their positions, if its body is interrupted."""
    try:
        yield
    except KeyboardInterrupt:
        if finished:
            _print_tables([finished[position] for position in sorted(finished)], options.baseline)
        raise


def _print_tables(results: "Sequence[Result]", baseline: str | None) -> None:
    """Print the table and the tests over queries of each data set."""
    from skhash.comparison import differences_table, find_differences, markdown_table
    from skhash.comparison.tables import absences, group_by, layout_of

    for part in group_by(results, "dataset", "protocol").values():
        table = markdown_table(part)
        layout = layout_of(part)
        remarks = filter(None, [layout.legend(table), *absences(part)])
        print("\n".join(["", part[0].description, "", table, "", *remarks]).rstrip())
        reference = baseline if any(result.method == baseline for result in part) else None
        if differences := find_differences(part, layout.headline, reference):
            print(f"\n{differences_table(differences)}")
        elif reference:
            print("\nNo test over queries: it needs the values of each query of two methods, for up to 10,000 queries.")


def _write_files(
    options: "argparse.Namespace", sources: "Sequence[PictureSource]", results: "Sequence[Result]"
) -> None:
    """Write the report and the pages of pictures, and print what is in the folder."""
    from skhash.cli._pictures import complete_models, write_pages
    from skhash.comparison import write_report
    from skhash.comparison.formats import FORMATS

    folder = write_report(options.out, results, baseline=options.baseline, formats=options.format)
    endings = [FORMATS[name][1] for name in options.format]
    names = ("results.json", "results.md", "report.html", *(f"results.{ending}" for ending in endings))
    print("\nFiles:", ", ".join(str(folder / name) for name in names))
    complete_models(options, sources, results)
    for result in results:
        if result.model:
            print(f"Model: {folder / result.model}")
    for page in write_pages(options, sources, results):
        print(f"Page of pictures: {page}")
    _print_missing_part()


def _report(options: "argparse.Namespace") -> int:
    from skhash.cli._options import split
    from skhash.comparison import read_results, write_report
    from skhash.comparison.formats import check_formats

    formats = check_formats(split(options.format))
    results = read_results(options.folder)
    print("File:", write_report(options.folder, results, baseline=options.baseline, formats=formats) / "report.html")
    _print_missing_part()
    return 0


def _print_missing_part() -> None:
    from skhash.comparison.report import missing_part

    if missing := missing_part():
        print(f"skhash: report.html: {missing}", file=sys.stderr)


def _methods(options: "argparse.Namespace") -> int:
    from skhash.cli import _options

    print("\n".join([*_options.method_lines(), *_options.installed_lines()]))
    return 0
