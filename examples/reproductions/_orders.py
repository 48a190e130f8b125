"""Orders of methods that differ between our results and the tables of a paper."""

import textwrap
from itertools import combinations

import numpy as np
from _common import heading

# our names of methods in the papers, if they differ by more than case and "*"
NAMES = {
    "SH": "spectral",
    "TALR-AP": "talr",
    "GreedyHash": "greedyhash-unsupervised",
}


def print_orders(results, metric, paper, title, column="nbits"):
    """Print the pairs of methods whose order differs from the paper, by data set.

    Parameters
    ----------
    results : list of dict
        Results, as ``Study.select`` returns them.
    metric : str
        Metric of ours that is compared.
    paper : dict
        Values by method and number of bits.
    title : str
        Name of the table of the paper.
    column : str, default="nbits"
        Key of the results for the columns of the paper.
    """
    for dataset in dict.fromkeys(
        result["dataset"] for result in results if metric in result
    ):
        ours = values_of(results, dataset, metric, column)
        differ, n_pairs = differences(ours, paper)
        if n_pairs:
            n_equal = n_pairs - sum(map(len, differ.values()))
            text = f"{metric}, {heading(dataset)}, beside {title}: {n_equal} of "
            text += f"{n_pairs} pairs of methods have the order of the paper."
            if differ:
                text += " In another order: " + "; ".join(
                    f"{first} above {second} ({', '.join(map(str, columns))})"
                    for (first, second), columns in differ.items()
                )
            print(textwrap.fill(text + ("" if not differ else "."), 88), end="\n\n")


def print_gains(results, metric, method, rivals, column="nbits"):
    """Print by how much a method is above others, with each split paired.

    Parameters
    ----------
    results : list of dict
        Results, as ``Study.select`` returns them.
    metric : str
        Metric of ours that is compared.
    method : str
        The method.
    rivals : list of str
        The other methods.
    column : str, default="nbits"
        Key of the results that has a difference for each of its values.
    """
    for dataset in dict.fromkeys(
        result["dataset"] for result in results if metric in result
    ):
        values = values_of(results, dataset, metric, column)
        if method not in values:
            continue
        for rival in (name for name in rivals if name in values):
            print(f"{metric}, {heading(dataset)}, {method} less {rival}:")
            for key in sorted(values[method].keys() & values[rival].keys()):
                first, second = values[method][key], values[rival][key]
                gains = [first[seed] - second[seed] for seed in first.keys() & second]
                text = f"{np.mean(gains):+.4f}" if gains else "no split of both"
                if len(gains) > 1:
                    error = np.std(gains, ddof=1) / np.sqrt(len(gains))
                    text += f" ± {error:.4f} (standard error, {len(gains)} splits)"
                print(f"  {key}: {text}")
            print()


def values_of(results, dataset, metric, column="nbits"):
    """Values by method, column and seed."""
    values = {}
    for result in results:
        if result["dataset"] == dataset and metric in result:
            by_column = values.setdefault(_plain(result["method"]), {})
            by_column.setdefault(result[column], {})[result["seed"]] = result[metric]
    return values


def differences(ours, paper):
    """Columns in which pairs of methods have another order, and the number of pairs.

    Two methods are compared by their means over the seeds that both have.

    Parameters
    ----------
    ours : dict
        Values by method, column and seed.
    paper : dict
        Values by method and column. The names are translated.

    Returns
    -------
    differ : dict of (str, str) to list
        Methods, the better one of ours first, to the columns.
    n_pairs : int
        Number of compared pairs, each column counted. Equal values of the paper are
        left out.
    """
    printed = {
        NAMES.get(name, name.rstrip("*").lower()): values
        for name, values in paper.items()
    }
    differ, n_pairs = {}, 0
    for first, second in combinations([name for name in ours if name in printed], 2):
        for key in sorted(ours[first].keys() & ours[second].keys()):
            if not (key in printed[first] and key in printed[second]):
                continue
            of_paper = printed[first][key] - printed[second][key]
            by_seed, others = ours[first][key], ours[second][key]
            seeds = by_seed.keys() & others.keys()
            if not seeds:
                continue
            of_ours = np.mean([by_seed[seed] - others[seed] for seed in seeds])
            n_pairs += of_paper != 0
            if of_paper * of_ours < 0:
                pair = (first, second) if of_ours > 0 else (second, first)
                differ.setdefault(pair, []).append(key)
    return differ, n_pairs


def _plain(method):
    return method.lower().removesuffix("-mlp")
