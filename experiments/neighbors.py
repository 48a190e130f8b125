"""Recall of the ten nearest vectors against bytes, of hashers and of what is deployed.

    python experiments/neighbors.py                                    # digits
    export SKHASH_DATA=FOLDER
    python experiments/neighbors.py --set fashion_mnist --items 10000 --bytes 8,16,32
    python experiments/neighbors.py --methods embedding,embedding-factors   # measure these again

It is ``skhash compare SET --task neighbors``, with an upper limit for the number of items. FOLDER has the file
fashion_mnist.npz with the images in X. The results are in experiments/results/neighbors.json; `--folder` keeps each
finished fit, so that a stopped run continues.
"""

import argparse
from dataclasses import replace

from _results import RESULTS, store

from skhash.comparison import compare, markdown_table
from skhash.datasets import PROTOCOLS

METHODS = "lsh,baselines,itq,embedding,embedding-factors"
KEPT = ("dataset", "description", "method", "nbits", "seed", "bytes_per_item")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--set", default="digits")
    parser.add_argument("--bytes", default="8,16,32")
    parser.add_argument("--methods", default=METHODS)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--items", type=int, help="largest number of items; all by default")
    parser.add_argument("--folder", help="keeps finished fits")
    options = parser.parse_args()
    protocol = PROTOCOLS["neighbors"]
    if options.items:
        protocol = replace(protocol, n_samples=options.items + protocol.max_query)
    results, _ = compare(
        options.set,
        protocol=protocol,
        methods=options.methods.split(","),
        nbits=[8 * int(n) for n in options.bytes.split(",")],
        n_seeds=options.seeds,
        folder=options.folder,
        report=print,
    )
    metrics = [name for name in results[0] if "neighbor_recall" in name]
    done = [result for result in results if result["real_neighbor_recall_at_10"] is not None]
    results = [{name: result[name] for name in (*KEPT, *metrics)} for result in done]
    store(RESULTS / "neighbors.json", results, ("dataset", "nbits", "method"))
    print(results[0].description, markdown_table(results), sep="\n\n")


if __name__ == "__main__":
    main()
