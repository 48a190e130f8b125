"""Real data sets, and the named protocols that papers split them by.

Two results compare only if queries, training samples, database, cut-off and relevance rule
are the same. A `Protocol` holds all of these, `split` applies one to any arrays, and
`load_dataset` does both for a data set. `load_nus_wide`, `load_ms_coco` and
`load_imagenet100` read images from folders. `load_images` reads any pictures, and `load_table` a
table of numbers, without a split.
"""

from skhash.datasets.image_folders import load_imagenet100, load_ms_coco, load_nus_wide
from skhash.datasets.images import load_images
from skhash.datasets.loading import load_dataset
from skhash.datasets.protocols import PROTOCOLS, Protocol
from skhash.datasets.splitting import split
from skhash.datasets.tables import load_table

__all__ = [
    "PROTOCOLS",
    "Protocol",
    "load_dataset",
    "load_imagenet100",
    "load_images",
    "load_ms_coco",
    "load_nus_wide",
    "load_table",
    "split",
]
