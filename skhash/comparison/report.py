"""Write a comparison: results as JSON, tables as Markdown, and an HTML page without other files."""

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
from skhash.comparison.results import Record, Result, as_results, key_of, read_list, read_records, write_list
from skhash.comparison.tables import absences, group_by, head_of, layout_of, markdown_table
from skhash.persistence._writing import write_atomically

_TUNED = (
    "for every method with parameters to tune, {budget} candidates including the default were compared by {metric} "
    "on a fifth of the training samples, separately for each data set, number of bits and seed (of unsupervised "
    "methods, too, by the targets of these samples); the queries were not used"
)


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
    stored = read_records(folder)
    records = [stored[key] for key in map(key_of, completed) if key in stored]
    page = render_page(completed, _provenance(records))
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_list(folder, completed)
    for name, text in (("results.md", _markdown_report(completed)), ("report.html", page)):
        with write_atomically(folder / name) as file:
            file.write(text.encode())
    return folder


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
    listed = read_list(folder)
    if not listed:
        raise FileNotFoundError(f"{folder} has no results of a comparison (results.json).")
    stored = read_records(folder)
    return [
        replace(stored[key].result, metrics=result.metrics) if (key := key_of(result)) in stored else result
        for result in listed
    ]


def _markdown_report(results: Sequence[Result]) -> str:
    """Markdown section for each data set: split, table, what the marks mean, methods without results."""
    sections = []
    for (dataset, protocol), part in group_by(results, "dataset", "protocol").items():
        n_seeds, layout = len({result.seed for result in part}), layout_of(part)
        remarks = "\n".join(f"- {sentence}" for sentence in absences(part))
        table = markdown_table(part)
        about = [f"Means over {n_seeds} seed{'s' * (n_seeds > 1)}, ± their standard deviation.", *layout.notes]
        about += [layout.legend(table).replace("*", r"\*")]
        parts = (
            f"# {dataset}, protocol {protocol}",
            part[0].description,
            table,
            remarks,
            " ".join(filter(None, about)),
        )
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
