"""Write a comparison: results as JSON, tables as Markdown, and an HTML page without other files."""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from platform import python_version
from typing import Any

from skhash import __version__
from skhash.comparison._page import render_page
from skhash.comparison.results import Record, Result, as_results, read_list, read_records
from skhash.comparison.tables import absences, group_by, head_of, layout_of, markdown_table
from skhash.exceptions import InvalidFileError
from skhash.persistence._writing import write_atomically, write_json
from skhash.registry import FOR_NEIGHBORS, VARIANTS

_TUNED = (
    "for every method with parameters to tune, {budget} candidates including the default were compared by {metric} "
    "on a fifth of the training samples, separately for each data set, number of bits and seed (of unsupervised "
    "methods, too, by the targets of these samples); the queries were not used"
)


def write_results(folder: str | os.PathLike[str], results: Iterable[Mapping[str, Any]]) -> None:
    """Write ``results.json``: the results without their curves, which are in the files of the folder ``rows``.

    Parameters
    ----------
    folder : str or Path
        An existing folder.
    results : iterable of Result or of dict
        Results.

    Examples
    --------
    >>> import json, tempfile
    >>> from pathlib import Path
    >>> from skhash.comparison import compare, write_results
    >>> results, description = compare(methods=["pca"], nbits=[8], n_seeds=1)
    >>> folder = Path(tempfile.mkdtemp())
    >>> write_results(folder, results)
    >>> json.loads((folder / "results.json").read_text())[0]["method"]
    'pca'
    """
    write_json(Path(folder) / "results.json", [dict(result) for result in as_results(results)])


def write_report(folder: str | os.PathLike[str], results: Iterable[Mapping[str, Any]], description: str = "") -> Path:
    """Write ``results.json``, ``results.md`` and ``report.html``.

    Parameters
    ----------
    folder : str or Path
        Created if necessary. If the results are stored there, the page names their
        commands, versions and tuning.
    results : iterable of Result or of dict
        Results, or entries of a ``results.json``.
    description : str, default=""
        The split in a sentence, for results without one.

    Returns
    -------
    Path
        The folder.

    Raises
    ------
    ValueError
        If there are no results.
    InvalidFileError
        If a result that is stored there is damaged.

    Examples
    --------
    >>> import tempfile
    >>> from skhash.comparison import compare, write_report
    >>> results, description = compare(methods=["pca"], nbits=[8], n_seeds=1)
    >>> sorted(path.name for path in write_report(tempfile.mkdtemp(), results).iterdir())
    ['report.html', 'results.json', 'results.md']
    """
    completed = [replace(result, description=result.description or description) for result in as_results(results)]
    if not completed:
        raise ValueError("`results` must hold at least one result. Got none.")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_results(folder, completed)
    with write_atomically(folder / "results.md") as file:
        file.write(_markdown_report(completed).encode())
    _write_page(folder, completed, _records_of(folder, completed))
    return folder


def rebuild_page(folder: str | os.PathLike[str]) -> Path:
    """Write ``report.html`` again from the results in a folder, without fitting anything.

    Parameters
    ----------
    folder : str or Path
        The `folder` of :func:`compare` or :func:`write_report`.

    Returns
    -------
    Path
        The page.

    Raises
    ------
    FileNotFoundError
        If there are no results.
    InvalidFileError
        If a file of results is damaged.

    Examples
    --------
    >>> import tempfile
    >>> from skhash.comparison import compare, rebuild_page
    >>> folder = tempfile.mkdtemp()
    >>> results, description = compare(methods=["pca"], nbits=[8], n_seeds=1, folder=folder)
    >>> rebuild_page(folder).name
    'report.html'
    """
    return _write_page(Path(folder), *_read(folder))


def read_results(folder: str | os.PathLike[str]) -> list[Result]:
    """Results of ``results.json``, with their curves and the values of each query, which are stored beside it.

    Parameters
    ----------
    folder : str or Path
        The `folder` of :func:`compare`.

    Returns
    -------
    list of Result
        In the order of ``results.json``, which is that of the last comparison.

    Raises
    ------
    FileNotFoundError
        If there are no results.
    InvalidFileError
        If a file of results is damaged.

    Examples
    --------
    >>> import tempfile
    >>> from skhash.comparison import compare, read_results
    >>> folder = tempfile.mkdtemp()
    >>> results, description = compare(methods=["pca"], nbits=[8], n_seeds=1, folder=folder)
    >>> [len(result.per_query["ap"]) for result in read_results(folder)]
    [359]
    """
    return _read(folder)[0]


def _read(folder: str | os.PathLike[str]) -> tuple[list[Result], list[Record | None]]:
    """Results of ``results.json`` with what is stored of them, and their records."""
    listed = read_list(folder)
    if not listed:
        raise FileNotFoundError(f"{folder} has no results of a comparison (results.json).")
    records = _records_of(folder, listed)
    results = [
        result if record is None else replace(record.result, metrics=result.metrics)
        for result, record in zip(listed, records, strict=True)
    ]
    return results, records


def check_own_results(folder: str | os.PathLike[str]) -> None:
    """Raise ValueError if a comparison would replace results of methods that skhash does not have."""
    try:
        found = read_list(Path(folder))
    except (OSError, InvalidFileError):  # there is nothing to lose
        return
    names = dict.fromkeys(result.method for result in found)
    if own := [name for name in names if name not in VARIANTS and name not in FOR_NEIGHBORS]:
        raise ValueError(
            f"{folder} must have results of methods of skhash only. Got {', '.join(own)}, which would be lost. Choose "
            "another folder."
        )


def _records_of(folder: str | os.PathLike[str], results: Sequence[Result]) -> list[Record | None]:
    """Stored record of each result, whatever its metrics; None of one that is not stored."""
    stored = {_key(record.result): record for record in read_records(folder)}
    return [stored.get(_key(result)) for result in results]


def _key(result: Result) -> str:
    return json.dumps({name: value for name, value in result.items() if name not in result.metrics})


def _write_page(folder: Path, results: Sequence[Result], records: Sequence[Record | None]) -> Path:
    with write_atomically(folder / "report.html") as file:
        file.write(render_page(results, _provenance([record for record in records if record is not None])).encode())
    return folder / "report.html"


def _markdown_report(results: Sequence[Result]) -> str:
    """Markdown section for each data set: split, table, what the marks mean, methods without results."""
    sections = []
    for (dataset, protocol), part in group_by(results, "dataset", "protocol").items():
        n_seeds, layout = len({result.seed for result in part}), layout_of(part)
        remarks = "\n".join(f"- {sentence}" for sentence in absences(part))
        table = markdown_table(part)
        legend = layout.legend(table).replace("*", r" \*")
        note = f"Means over {n_seeds} seeds, ± their standard deviation; {layout.note}.{legend}"
        parts = (f"# {dataset}, protocol {protocol}", part[0].description, table, remarks, note)
        sections.append("\n\n".join(filter(None, parts)) + "\n")
    return "\n".join(sections)


def _provenance(records: Sequence[Record]) -> dict[str, Any]:
    """Commands, versions and tuning of stored results, for the page; the versions of now if nothing was stored."""
    found = [record.settings["versions"] for record in records] or [versions()]
    sentences = [_describe_tuning(record.settings["tuning"]) for record in records]
    last = max((record.finished for record in records), default=None)
    return {
        "commands": list(dict.fromkeys(record.command for record in records if record.command)),
        "versions": {name: ", ".join(dict.fromkeys(each[name] for each in found)) for name in found[0]},
        "finished": last and last[:16].replace("T", " ") + " UTC",
        "tuning": "; ".join(dict.fromkeys(sentences)),
    }


def _describe_tuning(tuning: Mapping[str, Any] | None) -> str:
    if tuning is None:
        return "the defaults of every method"
    return _TUNED.format(budget=tuning["budget"], metric=head_of(tuning["metric"]))


@lru_cache(maxsize=1)
def versions() -> dict[str, str]:
    """Versions of Python, skhash and the libraries below it."""
    libraries = ("numpy", "scipy", "scikit-learn", "torch", "numba", "cvxpy")
    return {"python": python_version(), "skhash": __version__} | {name: version(name) for name in libraries}
