"""Write a comparison down: rows as JSON, tables as Markdown, and a page that stands alone."""

from pathlib import Path

from skhash._files import atomic_write
from skhash.comparison.page import render_page
from skhash.comparison.provenance import newest, provenance
from skhash.comparison.store import Store, write_json
from skhash.comparison.tables import NOTE, absences, by_dataset, leader_sentences, markdown_table


def write_results(folder, rows):
    """Write ``results.json``: the rows but for their curves, which are in the files below ``rows``.

    Parameters
    ----------
    folder : str or Path
        An existing folder.
    rows : list of dict
        As :func:`compare` returns them.

    Examples
    --------
    >>> import json, tempfile
    >>> from pathlib import Path
    >>> from skhash.comparison import compare, write_results
    >>> rows, description = compare(methods=["pca"], nbits=[8], n_seeds=1)
    >>> folder = Path(tempfile.mkdtemp())
    >>> write_results(folder, rows)
    >>> json.loads((folder / "results.json").read_text())[0]["method"]
    'pca'
    """
    kept = [{name: value for name, value in row.items() if name != "curves"} for row in rows]
    write_json(Path(folder) / "results.json", kept)


def write_report(folder, rows, description="", about=None):
    """Write ``results.json``, ``results.md`` and ``report.html``.

    Parameters
    ----------
    folder : str or Path
        Created if need be.
    rows : list of dict
        As :func:`compare` returns them.
    description : str, default=""
        The protocol in a sentence, for rows that do not hold it.
    about : dict, default=None
        What :func:`skhash.comparison.provenance.provenance` returns.

    Returns
    -------
    Path
        The folder.

    Raises
    ------
    ValueError
        If there are no rows.

    Examples
    --------
    >>> import tempfile
    >>> from skhash.comparison import compare, write_report
    >>> rows, description = compare(methods=["pca"], nbits=[8], n_seeds=1)
    >>> sorted(path.name for path in write_report(tempfile.mkdtemp(), rows, description).iterdir())
    ['report.html', 'results.json', 'results.md']
    """
    if not rows:
        raise ValueError(f"rows={rows!r}; at least one row of a comparison is wanted.")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_results(folder, rows)
    with atomic_write(folder / "results.md") as file:
        file.write(markdown_report(rows, description).encode())
    _write_page(folder, rows, description, about)
    return folder


def rebuild_page(folder):
    """Write ``report.html`` anew from the finished rows below a folder, without fitting anything.

    Parameters
    ----------
    folder : str or Path
        What :func:`compare` was given as `folder`.

    Returns
    -------
    Path
        The page.

    Raises
    ------
    FileNotFoundError
        If there are no rows.

    Examples
    --------
    >>> import tempfile
    >>> from skhash.comparison import compare, rebuild_page
    >>> folder = tempfile.mkdtemp()
    >>> rows, description = compare(methods=["pca"], nbits=[8], n_seeds=1, folder=folder)
    >>> rebuild_page(folder).name
    'report.html'
    """
    if not (Path(folder) / "rows").is_dir() or not (records := Store(folder).records()):
        raise FileNotFoundError(f"{folder} has no rows of a comparison (files rows/*.json).")
    chosen = newest(records)
    about = provenance(chosen)
    if len(chosen) < len(records):
        left_out = len(records) - len(chosen)
        about["notes"].append(f"{left_out} rows of earlier runs with other settings are in the folder and left out.")
    return _write_page(Path(folder), [record["row"] for record in chosen], "", about)


def _write_page(folder, rows, description, about):
    with atomic_write(folder / "report.html") as file:
        file.write(render_page(rows, description, about).encode())
    return folder / "report.html"


def markdown_report(rows, description=""):
    """Lay out a section a data set: the protocol, the table, who leads, and what is missing.

    Parameters
    ----------
    rows : list of dict
        As :func:`compare` returns them.
    description : str, default=""
        The protocol in a sentence, for rows that do not hold it.

    Returns
    -------
    str
        Markdown.
    """
    sections = []
    for (dataset, protocol), part in by_dataset(rows).items():
        n_seeds = len({row["seed"] for row in part})
        remarks = "\n".join(f"- {sentence}" for sentence in (*leader_sentences(part), *absences(part)))
        note = f"Means over {n_seeds} seeds, ± their standard deviation; {NOTE}."
        sentence = part[0].get("description") or description
        parts = (f"# {dataset}, protocol {protocol}", sentence, markdown_table(part), remarks, note)
        sections.append("\n\n".join(parts) + "\n")
    return "\n".join(sections)
