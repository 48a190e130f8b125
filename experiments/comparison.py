"""Store what skhash compare has measured for the pages: rows of each data set, and differences over the queries.

    skhash compare usps,mnist,cifar_gist,mirflickr --methods all --bits 16,32,64 --seeds 3 --out report/
    python experiments/comparison.py report/       # replaces the rows of the same data sets, methods, bits and seeds

    skhash compare usps,mnist --methods talr-conv,talr-mlp,hashnet-conv,hashnet-mlp --bits 32 --seeds 1 --out images/
    python experiments/comparison.py images/ images             # one file for all data sets
    skhash compare usps,mnist,cifar_gist --methods hashnet-mlp,hashnet-paper --bits 32 --seeds 3 --out report/
    python experiments/comparison.py report/       # a paper's setting beside our defaults: all rows are in papers.json

The rows are in experiments/results/comparison/<data set>.json. The differences are those to the best method at 32 bits,
in experiments/results/comparison/differences.json; there are none for the rows of several data sets in one file. Rows
with a paper's setting are in experiments/results/papers.json.
"""

import argparse
import json

from _results import RESULTS, read, store

from skhash._files import write_atomically
from skhash.comparison import METRICS, find_differences, read_results
from skhash.comparison.tables import group_by
from skhash.registry import PAPER

FOLDER = RESULTS / "comparison"
FILES = {"cifar10_gist512": "cifar_gist", "mirflickr25k_tags1386": "mirflickr"}
KEYS = ("dataset", "protocol", "method", "nbits", "seed")
DIGITS = dict.fromkeys(METRICS, 6) | {"fit_seconds": 4, "codes_per_second": 2}


def replace_rows(path, rows):
    """Replace rows of the same fits, in their places, or add them at the end; one line for each."""
    found = {tuple(row[key] for key in KEYS): row for row in [*read(path), *rows]}
    lines = ",\n".join(map(json.dumps, found.values()))
    with write_atomically(path) as file:
        file.write(f"[\n{lines}\n]\n".encode())


def rows_of(results):
    """What is stored of results."""
    return [
        {key: result[key] for key in KEYS} | {key: round(result[key], n) for key, n in DIGITS.items()}
        for result in results
        if result.is_done
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", help="folder of --out")
    parser.add_argument("name", nargs="?", help="name of one file for all data sets; by default each has its own")
    options = parser.parse_args()
    results = read_results(options.folder)
    if any(result.method.endswith(PAPER) for result in results):
        replace_rows(RESULTS / "papers.json", rows_of(results))
        return
    for (dataset, _), part in group_by(results, "dataset", "protocol").items():
        name = options.name or FILES.get(dataset, dataset)
        rows = rows_of(part)
        replace_rows(FOLDER / f"{name}.json", rows)
        print(dataset, len(rows), "rows")
        if options.name:
            continue
        found = find_differences([result for result in part if result.nbits == 32], "ap")
        differences = [vars(each) | {"dataset": name} for each in found]
        store(FOLDER / "differences.json", differences, ("dataset", "method", "nbits", "metric"))
        print(*(f"{each.method} {each.mean:+.4f} p {each.p_value:.4f}" for each in found))


if __name__ == "__main__":
    main()
