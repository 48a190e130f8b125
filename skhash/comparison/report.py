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
from skhash.comparison.results import Record, Result, Store, as_results
from skhash.comparison.tables import absences, by_dataset, head_of, layout_of, markdown_table
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
    _write_page(folder, completed, _provenance(_records_of(folder, completed)))
    return folder


def rebuild_page(folder: str | os.PathLike[str]) -> Path:
    """Write ``report.html`` again from the results stored in a folder, without fitting anything.

    Parameters
    ----------
    folder : str or Path
        The `folder` of :func:`compare`.

    Returns
    -------
    Path
        The page.

    Raises
    ------
    FileNotFoundError
        If there are no results.
    InvalidFileError
        If a stored result is damaged.
    ValueError
        If ``results.json`` has results of other methods, which are not stored and would be missing from the page.

    Examples
    --------
    >>> import tempfile
    >>> from skhash.comparison import compare, rebuild_page
    >>> folder = tempfile.mkdtemp()
    >>> results, description = compare(methods=["pca"], nbits=[8], n_seeds=1, folder=folder)
    >>> rebuild_page(folder).name
    'report.html'
    """
    records = _stored_records(folder)
    check_own_results(folder, "the page would leave out. Call skhash.comparison.write_report with all results.")
    chosen = _newest(records)
    notes = []
    if len(chosen) < len(records):
        notes.append(f"Left out: {len(records) - len(chosen)} results of earlier runs with other settings.")
    return _write_page(Path(folder), [record.result for record in chosen], _provenance(chosen, notes))


def read_results(folder: str | os.PathLike[str]) -> list[Result]:
    """Results stored in a folder, with their curves and the values of each query, which ``results.json`` leaves out.

    Parameters
    ----------
    folder : str or Path
        The `folder` of :func:`compare`.

    Returns
    -------
    list of Result
        In the order of their files: by data set, protocol, method, number of bits and seed. Earlier runs with other
        settings are left out.

    Raises
    ------
    FileNotFoundError
        If there are no results.
    InvalidFileError
        If a stored result is damaged.

    Examples
    --------
    >>> import tempfile
    >>> from skhash.comparison import compare, read_results
    >>> folder = tempfile.mkdtemp()
    >>> results, description = compare(methods=["pca"], nbits=[8], n_seeds=1, folder=folder)
    >>> [len(result.per_query["ap"]) for result in read_results(folder)]
    [359]
    """
    return [record.result for record in _newest(_stored_records(folder))]


def _stored_records(folder: str | os.PathLike[str]) -> list[Record]:
    """Records of a folder; FileNotFoundError if there are none."""
    if not (Path(folder) / "rows").is_dir() or not (records := Store(folder).records()):
        raise FileNotFoundError(
            f"{folder} has no results of a comparison (files rows/*.json). "
            "For results of your own call skhash.comparison.write_report."
        )
    return records


def check_own_results(folder: str | os.PathLike[str], loss: str) -> None:
    """Raise ValueError if ``results.json`` has results of methods that skhash does not have.

    `loss` ends the message: what would happen to these results, and the remedy.
    """
    path = Path(folder) / "results.json"
    names = dict.fromkeys(str(entry.get("method")) for entry in _entries(path))
    if lost := [name for name in names if name not in VARIANTS and name not in FOR_NEIGHBORS]:
        raise ValueError(f"{path} must have results of methods of skhash only. Got {', '.join(lost)}, which {loss}")


def _entries(path: Path) -> list[dict[str, Any]]:
    """Entries of a ``results.json``; none of one that is missing or damaged, which a comparison replaces."""
    try:
        entries = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return []
    return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []


def _write_page(folder: Path, results: Sequence[Result], about: Mapping[str, Any]) -> Path:
    with write_atomically(folder / "report.html") as file:
        file.write(render_page(results, about).encode())
    return folder / "report.html"


def _records_of(folder: Path, results: Sequence[Result]) -> list[Record]:
    """Stored records of the results, in their order."""
    if not (folder / "rows").is_dir():
        return []
    stored: dict[tuple[Any, ...], list[Record]] = {}
    for record in Store(folder).records(intact=True):
        stored.setdefault(_key(record.result), []).append(record)
    return [
        record for result in results for record in stored.get(_key(result), ()) if dict(record.result) == dict(result)
    ]


def _key(result: Result) -> tuple[Any, ...]:
    return result.dataset, result.protocol, result.method, result.nbits, result.seed


def _newest(records: Sequence[Record]) -> list[Record]:
    """Records of each data set and protocol with the shared settings of the newest one, in the order of a table."""
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in sorted(records, key=lambda record: record.finished):
        groups.setdefault((record.result.dataset, record.result.protocol), []).append(record)
    order = {method: i for i, method in enumerate((*VARIANTS, *FOR_NEIGHBORS))}
    chosen = []
    for group in groups.values():
        latest = {_key(record.result): record for record in group if _shared(record) == _shared(group[-1])}
        chosen += sorted(latest.values(), key=lambda record: _place(record, order))
    return chosen


def _shared(record: Record) -> dict[str, Any]:
    """The settings that all results of one table have in common."""
    own = ("method", "nbits", "seed", "class", "parameters")
    return {name: value for name, value in record.settings.items() if name not in own}


def _place(record: Record, order: Mapping[str, int]) -> tuple[int, int, int]:
    """Number of bits, position of the method, seed."""
    result = record.result
    return result.nbits, order.get(result.method, len(order)), result.seed


def _markdown_report(results: Sequence[Result]) -> str:
    """Markdown section for each data set: split, table, what the marks mean, methods without results."""
    sections = []
    for (dataset, protocol), part in by_dataset(results).items():
        n_seeds, layout = len({result.seed for result in part}), layout_of(part)
        remarks = "\n".join(f"- {sentence}" for sentence in absences(part))
        table = markdown_table(part)
        legend = layout.legend(table).replace("*", r" \*")
        note = f"Means over {n_seeds} seeds, ± their standard deviation; {layout.note}.{legend}"
        parts = (f"# {dataset}, protocol {protocol}", part[0].description, table, remarks, note)
        sections.append("\n\n".join(filter(None, parts)) + "\n")
    return "\n".join(sections)


def _provenance(records: Sequence[Record], notes: Sequence[str] = ()) -> dict[str, Any]:
    """Commands, versions and tuning of stored results, for the page; the versions of now if nothing was stored."""
    found: dict[str, dict[str, None]] = {}
    for name, number in (item for record in records for item in record.settings["versions"].items()):
        found.setdefault(name, {})[number] = None
    sentences = [_describe_tuning(record.settings["tuning"]) for record in records]
    fixed = dict.fromkeys(record.result.method for record in records if not _is_tunable(record.result.method))
    if fixed and any(record.settings["tuning"] for record in records):
        sentences.append(f"nothing to tune: {', '.join(fixed)}")
    last = max((record.finished for record in records), default=None)
    return {
        "commands": list(dict.fromkeys(record.command for record in records if record.command)),
        "versions": {name: ", ".join(several) for name, several in found.items()} or versions(),
        "finished": last and last[:16].replace("T", " ") + " UTC",
        "tuning": "; ".join(dict.fromkeys(sentences)),
        "notes": list(notes),
    }


def _is_tunable(method: str) -> bool:
    return method in VARIANTS and bool(VARIANTS[method].method.search_space)


def _describe_tuning(tuning: Mapping[str, Any] | None) -> str:
    if tuning is None:
        return "the defaults of every method"
    return _TUNED.format(budget=tuning["budget"], metric=head_of(tuning["metric"]))


@lru_cache(maxsize=1)
def versions() -> dict[str, str]:
    """Versions of Python, skhash and the libraries below it."""
    libraries = ("numpy", "scipy", "scikit-learn", "torch", "numba", "cvxpy")
    return {"python": python_version(), "skhash": __version__} | {name: version(name) for name in libraries}
