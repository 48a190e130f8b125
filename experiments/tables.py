"""The documentation's tables of many methods, made from the results of `skhash compare`.

    python experiments/tables.py

Reads experiments/results/comparison/DATASET.json and usps_tuned.json (one row per method,
number of bits and seed) and writes results.md and tuned.md beside them.
"""

import json
from pathlib import Path

from skhash.comparison.report import markdown_report

FOLDER = Path(__file__).parent / "results" / "comparison"
#: data set to its split in one sentence, in the order of the tables
DATASETS = {
    "usps": "1,000 queries against 8,298 database samples, 5,000 of them for training; relevance = same class.",
    "mnist": "1,000 queries against 69,000 database samples, 5,000 of them for training; relevance = same class.",
    "cifar_gist": "1,000 queries against 59,000 database samples, 5,000 of them for training; relevance = same class.",
    "mirflickr": "2,000 queries against 18,015 database samples, 5,000 of them for training; relevance = number of "
    "shared labels.",
}
TABLES = {"results.md": [(name, name) for name in DATASETS], "tuned.md": [("usps_tuned", "usps")]}


def load_rows(name):
    """Results of one comparison, a list of dict."""
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


def make_table(parts):
    """Markdown of one table.

    Parameters
    ----------
    parts : list of (str, str)
        Name of a file of results, and of its data set.

    Returns
    -------
    str
    """
    return "\n".join(markdown_report(load_rows(name), DATASETS[dataset]) for name, dataset in parts)


def main():
    for name, parts in TABLES.items():
        (FOLDER / name).write_text(make_table(parts), encoding="utf-8")
        print(f"written: {FOLDER / name}")


if __name__ == "__main__":
    main()
