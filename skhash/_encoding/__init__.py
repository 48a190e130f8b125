"""Codes of samples that need not fit into memory."""

from skhash._encoding._packing import binarize_and_pack
from skhash._encoding._slices import (
    ENCODE_BATCH_SIZE,
    N_PROBED,
    Converter,
    Slice,
    encode_block,
    encode_samples,
    into_file,
    map_batches,
    map_samples,
)
from skhash._encoding._sources import Source

__all__ = [
    "ENCODE_BATCH_SIZE",
    "N_PROBED",
    "Converter",
    "Slice",
    "Source",
    "binarize_and_pack",
    "encode_block",
    "encode_samples",
    "into_file",
    "map_batches",
    "map_samples",
]
