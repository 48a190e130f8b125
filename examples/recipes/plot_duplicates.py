"""
Find copies of pictures
=======================

A folder of photos often holds the same picture several times: resized, compressed again, or a little
brighter. Their files differ, and so do their pixels, but their perceptual codes are almost equal. No
file is deleted here; :doc:`/guide/duplicates` shows the command line.
"""

# %%
# A folder with copies
# --------------------

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
from PIL import Image, ImageEnhance
from skhash.datasets import load_images
from skhash.features import perceptual_codes
from skhash.neighbors import HammingNeighbors, duplicate_groups
from sklearn.datasets import load_sample_images

folder = Path(tempfile.mkdtemp())
for name, pixels in zip(("china", "flower"), load_sample_images().images, strict=True):
    for row in range(2):
        for column in range(3):
            top, left = 210 * row, 210 * column
            part = Image.fromarray(pixels[top : top + 210, left : left + 210])
            part.save(folder / f"{name}_{row}{column}.png")

part = Image.open(folder / "flower_01.png")
part.resize((120, 120)).save(folder / "small.png")
part.save(folder / "compressed.jpg", quality=20)
ImageEnhance.Brightness(Image.open(folder / "china_00.png")).enhance(0.8).save(
    folder / "darker.png"
)

# %%
# Groups of near codes
# --------------------
#
# Two pictures are a pair if at most 6 of their 64 bits differ, and if their colors are near: a root
# mean square difference of at most 48 levels. Pairs connect groups.

images = load_images(folder, size=32)
codes, colors = perceptual_codes(images)
index = HammingNeighbors(nbits=64).fit(codes)
groups = duplicate_groups(
    index, radius=6, vectors=colors, metric="euclidean", max_distance=48
)
for group in groups:
    print([images.names[item] for item in group])

# %%
# Which one to keep
# -----------------
#
# Here it is the file with the most bytes.

figure, axes = plt.subplots(len(groups), 3, figsize=(7.5, 5.4), layout="constrained")
for line, group in zip(axes, groups, strict=True):
    sizes = {item: Path(images.paths[item]).stat().st_size for item in group}
    for ax, item in zip(line, sorted(sizes, key=sizes.get, reverse=True), strict=False):
        is_kept = sizes[item] == max(sizes.values())
        ax.imshow(Image.open(images.paths[item]))
        kept = "keep " if is_kept else ""
        ax.set_title(
            f"{kept}{images.names[item]}\n{sizes[item] / 1000:.0f} kB", fontsize=10
        )
for ax in axes.flat:
    ax.set_axis_off()
plt.show()
