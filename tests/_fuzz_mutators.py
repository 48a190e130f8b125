"""Seeded mutations of files: of their bytes, and of the tree of dicts, lists, values and arrays inside of them."""

import copy
import json

import numpy as np

#: strings that `to_json` replaces by what json.dumps cannot write
DEEP, DIGITS = "@deep@", "@digits@"
PLAIN = [
    *(None, True, False, 0, -1, 1, 7, 2**31, 2**63, 2**64, 10**18, -(10**30), 10**400, 0.5, 1e308, -1e-308),
    *(float("nan"), float("inf"), float("-inf"), "", "x", "auto", "../../outside", "\0", "é" * 2000, DEEP, DIGITS),
    *([], {}, [[]], [None], {"": None}, [1] * 1000, {"$tuple": DEEP}, {"$array": "x", "order": "C"}),
]


def to_json(tree):
    """JSON of a tree of mutated values, with nesting and digits beyond what json.dumps writes."""
    text = json.dumps(tree)
    text = text.replace(f'"{DEEP}"', "[" * 20000 + "]" * 20000)
    return text.replace(f'"{DIGITS}"', "9" * 5000)


# --- bytes: functions of (data, rng, others), where `others` are the other files of the same kind


def flip_one_bit(data, rng, others):
    place = int(rng.integers(len(data)))
    return data[:place] + bytes([data[place] ^ (1 << int(rng.integers(8)))]) + data[place + 1 :]


def flip_bits(data, rng, others):
    for _ in range(int(rng.integers(2, 20))):
        data = flip_one_bit(data, rng, others)
    return data


def flip_in_head(data, rng, others):
    head = min(len(data), 64)
    return flip_one_bit(data[:head], rng, others) + data[head:]


def cut(data, rng, others):
    return data[: rng.integers(len(data))]


def cut_out(data, rng, others):
    start, stop = _range(data, rng)
    return data[:start] + data[stop:]


def zero(data, rng, others):
    start, stop = _range(data, rng)
    return data[:start] + bytes(stop - start) + data[stop:]


def overwrite(data, rng, others):
    start, stop = _range(data, rng)
    return data[:start] + rng.bytes(stop - start) + data[stop:]


def fill(data, rng, others):
    start = int(rng.integers(len(data)))
    return data[:start] + b"\xff" * 8 + data[start + 8 :]


def repeat(data, rng, others):
    start, stop = _range(data, rng)
    return data[:stop] + data[start:stop] * int(rng.integers(1, 10)) + data[stop:]


def append(data, rng, others):
    return data + rng.bytes(int(rng.integers(1, 1000)))


def splice(data, rng, others):
    other = others[int(rng.integers(len(others)))]
    return data[: rng.integers(len(data))] + other[rng.integers(len(other)) :]


def change_digit(data, rng, others):
    """Change one digit: a number of a JSON text, mostly."""
    digits = [i for i, byte in enumerate(data[:4000]) if 48 <= byte < 58]
    if not digits:
        return flip_one_bit(data, rng, others)
    place = digits[int(rng.integers(len(digits)))]
    return data[:place] + bytes([48 + int(rng.integers(10))]) + data[place + 1 :]


def _range(data, rng):
    start = int(rng.integers(len(data)))
    return start, min(len(data), start + int(2 ** rng.uniform(0, 12)))


BYTES = (
    *(flip_one_bit, flip_one_bit, flip_bits, flip_in_head, cut, cut_out, zero, overwrite),
    *(fill, repeat, append, splice, change_digit),
)


def mutate_bytes(data, rng, others):
    """Bytes after one to three mutations."""
    for _ in range(int(rng.choice([1, 1, 1, 2, 3]))):
        data = BYTES[int(rng.integers(len(BYTES)))](data, rng, others) or b"\0"
    return data


# --- trees


def mutate_tree(tree, rng):
    """Copy of a tree after one to three mutations."""
    tree = copy.deepcopy(tree)
    for _ in range(int(rng.choice([1, 1, 1, 2, 3]))):
        places = list(_places(tree))
        if places:
            # a long array of values is one thing, so that it does not draw all the mutations
            holder, key = places[int(rng.integers(len(places)))]
            _mutate_place(holder, key, places, rng)
    return tree


def _places(tree):
    """Pairs (holder, key) of all values inside of a tree; of a long list only the first ten."""
    if isinstance(tree, dict):
        keys = list(tree)
    elif isinstance(tree, list):
        keys = range(min(len(tree), 10))
    else:
        return
    for key in keys:
        yield tree, key
        yield from _places(tree[key])


def _mutate_place(holder, key, places, rng):
    value = holder[key]
    if isinstance(value, np.ndarray | np.generic) and rng.random() < 0.8:
        holder[key] = mutate_array(np.asarray(value), rng)
        return
    match int(rng.integers(8)):
        case 0 | 1 | 2:
            holder[key] = copy.deepcopy(PLAIN[int(rng.integers(len(PLAIN)))])
        case 3:
            del holder[key]
        case 4 if isinstance(holder, dict):  # a name that is not known, or that of another value
            names = [other for holder, other in places if isinstance(other, str)]
            names += ["transform", "__class__", "fit", "_nbits", "nbits_", "$given"]
            holder[names[int(rng.integers(len(names)))]] = holder.pop(key)
        case 5:  # swap
            other, place = places[int(rng.integers(len(places)))]
            other[place], holder[key] = copy.deepcopy(value), copy.deepcopy(other[place])
        case 6 if isinstance(value, int | float) and not isinstance(value, bool):
            real = float(value) if abs(value) < 1e300 else 1e300  # an int may be longer than any float
            holder[key] = [value + 1, value - 1, -value, value * 1000, str(value), real][int(rng.integers(6))]
        case 7 if isinstance(value, list):
            holder[key] = value * int(rng.integers(2, 50)) if rng.random() < 0.5 else value[: rng.integers(3)]
        case _:
            holder[key] = [copy.deepcopy(value)] * int(rng.choice([1, 2, 10]))


def mutate_array(array, rng):
    """Array with other values, another dtype or another shape."""
    array = array.copy()
    match int(rng.integers(9)):
        case 0 if array.size and array.dtype.kind == "f":
            array.flat[int(rng.integers(array.size))] = rng.choice([np.nan, np.inf, -np.inf, 1e30])
        case 1 if array.size and array.dtype.kind in "iu":
            limits = np.iinfo(array.dtype)
            array.flat[int(rng.integers(array.size))] = rng.choice([limits.min, limits.max, 0])
        case 2 if array.ndim:
            return array[: int(rng.integers(len(array) + 1))]
        case 3:
            return array.ravel() if array.ndim > 1 else array[None]
        case 4:
            return array.T.copy() if array.ndim > 1 else array.reshape(-1, 1)
        case 5:
            kinds = ["U1", "S2", "O"] if array.dtype.kind in "USO" else ["u1", "i8", "f2", "f4", "f8", "?"]
            return array.astype(kinds[int(rng.integers(len(kinds)))], casting="unsafe")
        case 6 if array.ndim:
            return np.concatenate([array, array])
        case 7:
            return np.zeros([(), (0,), (3,), (1, 1), (0, 5)][int(rng.integers(5))], dtype=array.dtype)
        case _:
            return np.zeros_like(array)
    return array
