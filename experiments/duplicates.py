"""How many planted copies of pictures near pairs of codes find, and how many other pairs.

    export SKHASH_DATA=FOLDER      # with cifar10_jpeg_bytes.npz
    python experiments/duplicates.py                     # 1,500 pictures, twelve of which are copies
    python experiments/duplicates.py --copies 300 --pictures 1800
    python experiments/duplicates.py --codes perceptual  # without a network
    python experiments/duplicates.py table               # table of the stored results

Random pictures of CIFAR-10 are written to a folder. A third of the copies are resized, from 32 to 24 or 64 pixels, a
third have JPEG quality 40 in place of 75, and a third are 10 % brighter. "perceptual" is what `skhash duplicates` does.
The others are codes of features of EfficientNet-Lite0. The results are in experiments/results/duplicates.json, the
table in duplicates.md.
"""

import argparse
import os
import tempfile
from pathlib import Path

import numpy as np
from _results import RESULTS, as_markdown, read, store
from PIL import Image, ImageEnhance

from skhash import ITQHasher, LSHHasher
from skhash.datasets import load_images
from skhash.features import PretrainedFeatures, perceptual_codes
from skhash.neighbors import HammingNeighbors
from skhash.neighbors.duplicates import NearVectors

PATH = RESULTS / "duplicates.json"
RADII = range(9)
SHOWN = (0, 2, 3, 4, 6, 8)  # in the table, which has to fit a page
HASHERS = {"itq": ITQHasher(64, random_state=0), "lsh": LSHHasher(64, random_state=0)}
KEYS = ("codes", "n_pictures", "n_copies", "radius")
COLOR_DISTANCE = 48


def write_pictures(folder, n_pictures, n_copies):
    """Write pictures and copies of some of them, and return the names of the pairs."""
    with np.load(Path(os.environ["SKHASH_DATA"], "cifar10_jpeg_bytes.npz")) as file:
        data, offsets = file["data"], file["offsets"]
    rng = np.random.default_rng(0)
    originals = rng.choice(len(offsets) - 1, n_pictures - n_copies, replace=False)
    for number, row in enumerate(originals):
        Path(folder, f"{number:05}.jpg").write_bytes(data[offsets[row] : offsets[row + 1]].tobytes())
    pairs = set()
    for i, number in enumerate(rng.choice(len(originals), n_copies, replace=False)):
        names = f"{number:05}.jpg", f"{number:05}_copy.jpg"
        with Image.open(Path(folder, names[0])) as image:
            copy = image.convert("RGB")
        kind, quality = i % 3, 90
        if kind == 0:
            copy = copy.resize([(24, 24), (64, 64)][i % 2], Image.Resampling.BICUBIC)
        elif kind == 1:
            quality = 40
        else:
            copy = ImageEnhance.Brightness(copy).enhance(1.1)
        copy.save(Path(folder, names[1]), quality=quality)
        pairs.add(names)
    return pairs


def measure(n_pictures, n_copies, kinds):
    """Found copies and other pairs of some codes at all radii."""
    with tempfile.TemporaryDirectory() as folder:
        copies = write_pictures(folder, n_pictures, n_copies)
        images = load_images(folder, size=32)
        perceptual, colors = perceptual_codes(images)
        if set(kinds) & set(HASHERS):
            features = PretrainedFeatures(verbose=True).fit_transform(images.resized(224))
    results = []
    for name in kinds:
        hasher = HASHERS.get(name)
        packed = perceptual if hasher is None else hasher.fit(features).encode(features)
        near = NearVectors(colors, len(colors), "euclidean", COLOR_DISTANCE) if name == "perceptual" else None
        found = {}
        for left, right, distances in HammingNeighbors(nbits=64).fit(packed).radius_pairs(max(RADII)):
            kept = np.ones(len(left), bool) if near is None else near.distances(left, right) <= near.max_distance
            pairs = zip(left[kept].tolist(), right[kept].tolist(), distances[kept], strict=True)
            found |= {(images.names[i], images.names[j]): distance for i, j, distance in pairs}
        for radius in RADII:
            is_copy = [pair in copies for pair, distance in found.items() if distance <= radius]
            counts = {"n_found": sum(is_copy), "n_others": len(is_copy) - sum(is_copy)}
            results.append(dict(zip(KEYS, (name, n_pictures, n_copies, radius), strict=True)) | counts)
    return results


def make_table(results):
    """Markdown: found copies and, after a plus sign, other pairs."""
    lines = [["pictures", "copies", "codes", *(f"radius {radius}" for radius in SHOWN)]]
    for n_pictures, n_copies in sorted({(result["n_pictures"], result["n_copies"]) for result in results}):
        for name in ("perceptual", *HASHERS):
            rows = [
                result for result in results if tuple(result[key] for key in KEYS[:3]) == (name, n_pictures, n_copies)
            ]
            cells = {result["radius"]: f"{result['n_found']} + {result['n_others']}" for result in rows}
            head = name.upper() if name in HASHERS else name
            lines.append([f"{n_pictures:,}", str(n_copies), head, *(cells[radius] for radius in SHOWN)])
    return as_markdown(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", nargs="?", choices=["measure", "table"], default="measure")
    parser.add_argument("--pictures", type=int, default=1500)
    parser.add_argument("--copies", type=int, default=12)
    parser.add_argument("--codes", nargs="+", default=["perceptual", *HASHERS], choices=["perceptual", *HASHERS])
    options = parser.parse_args()
    if options.command == "measure":
        store(PATH, measure(options.pictures, options.copies, options.codes), KEYS)
    table = make_table(read(PATH))
    (RESULTS / "duplicates.md").write_text(table, encoding="utf-8")
    print(table)


if __name__ == "__main__":
    main()
