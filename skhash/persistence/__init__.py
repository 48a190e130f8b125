"""Save a fitted hasher in one file, and load it without running code from the file.

The file is a safetensors file. Arrays are its tensors. Everything else is JSON, in its
metadata under the key "skhash":

    {"format": 1, "version": "0.1.0", "class": "ITQHasher", "nbits": 32, "bit_order": "big",
     "params": {name: value}, "fitted": {name: value}, "sha256": checksum}

A Pipeline of a StandardScaler and a hasher has the JSON of the hasher, and "scaler" with "params" and
"fitted" of the scaler, and "names" of the two steps.

What JSON lacks is an object with a key that begins with "$":

    {"$array": tensor, "order": "C" or "F"}    "F": the array is the transpose of the tensor
    {"$npy": tensor}                           the bytes of an .npy file, for strings and rare dtypes
    {"$objects": tensor, "shape": [...]}       JSON in UTF-8, for arrays of dtype object
    {"$sparse": class, "shape": [...], "parts": [data, indices, indptr]}
    {"$scalar": value, "dtype": dtype}         {"$tuple": [...]}         {"$dict": [[key, value], ...]}
    {"$affinity": class, "fields": {...}}      {"$random_state": state of a RandomState}
    {"$given": class, "name": parameter}       a module or affinity that must be passed to `load`
    {"$default": class}                        a function for training alone: the parameter's default
"""

from skhash._files import write_atomically
from skhash.persistence._loading import load
from skhash.persistence._saving import save

__all__ = ["load", "save", "write_atomically"]
