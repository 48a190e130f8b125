"""Compiled kernels of codes that reconstruct vectors, imported at first use. They release the GIL."""

import numba as nb
import numpy as np

from skhash._compiler import kernel


@nb.njit(nogil=True, error_model="numpy")
def _energies_of_groups(gram, first):
    """``s @ gram @ s / 2`` of all settings s of each group; bit i of a number is 1 where s[i] is 1."""
    n_settings = 1 << np.diff(first).max()
    energies = np.zeros((len(first) - 1, n_settings), np.float32)
    for g in range(len(first) - 1):
        start, size = first[g], first[g + 1] - first[g]
        for setting in range(1 << size):
            for i in range(size):
                for j in range(size):
                    is_equal = (setting >> i & 1) == (setting >> j & 1)
                    part = gram[start + i, start + j] / 2
                    energies[g, setting] += part if is_equal else -part
    return energies


@nb.njit(nogil=True, error_model="numpy")
def _best_setting(gram, field, bit, start, energies, rest):
    """Number of the best setting of a group that begins at a bit, given all other bits; `rest` is room."""
    size = len(rest)
    for i in range(size):
        rest[i] = field[start + i]
        for j in range(size):
            rest[i] += gram[start + i, start + j] * bit[start + j]
    best, lowest = 0, np.float32(np.inf)
    for setting in range(1 << size):
        energy = energies[setting]
        for i in range(size):
            energy -= rest[i] if setting >> i & 1 else -rest[i]
        if energy < lowest:
            best, lowest = setting, energy
    return best


@nb.njit(nogil=True, error_model="numpy", inline="always")
def _set_bit(gram, field, bit, i, value):
    """Set a bit, and the fields of all bits with it."""
    change, row = value - bit[i], gram[i]
    for j in range(len(bit)):
        field[j] -= change * row[j]
    bit[i] = value


@kernel
def descend_bits(gram, fields, bits, n_sweeps):
    """Minimize ``b @ gram @ b / 2 - b @ h`` over `bits` b of -1 and 1, in place; `fields` are ``h - bits @ gram``."""
    for k in range(len(bits)):
        field, bit = fields[k], bits[k]
        for _ in range(n_sweeps):
            changed = False
            for i in range(len(bit)):
                value = np.float32(1) if field[i] + bit[i] * gram[i, i] >= 0 else np.float32(-1)
                if value != bit[i]:
                    _set_bit(gram, field, bit, i, value)
                    changed = True
            if not changed:
                break


@kernel
def perturb_bits(gram, fields, bits, n_sweeps, changed_bits):
    """Change the bits of a row of `changed_bits`, continue as `descend_bits` does, and keep what is better; each row.

    A bit that is twice in a row stays.
    """
    n = bits.shape[1]
    field, bit = np.empty(n, np.float32), np.empty(n, np.float32)
    for k in range(len(bits)):
        for changed in changed_bits:
            field[:], bit[:] = fields[k], bits[k]
            energy = np.float32(0)
            for i in changed:
                energy += _flip(gram, field, bit, i)
            for _ in range(n_sweeps):
                has_changed = False
                for i in range(n):
                    if field[i] * bit[i] + gram[i, i] < 0:
                        energy += _flip(gram, field, bit, i)
                        has_changed = True
                if not has_changed:
                    break
            if energy < 0:
                fields[k], bits[k] = field, bit


@nb.njit(nogil=True, error_model="numpy", inline="always")
def _flip(gram, field, bit, i):
    """Change a bit, and the fields of all bits with it; return what is added to ``b @ gram @ b / 2 - b @ h``."""
    energy = 2 * (field[i] * bit[i] + gram[i, i])
    _set_bit(gram, field, bit, i, -bit[i])
    return energy


@kernel
def choose_settings(gram, first, fields, bits):
    """Set each group of `bits` to its best values, as if all others were 0."""
    energies = _energies_of_groups(gram, first)
    room, none = np.empty(energies.shape[1], np.float32), np.zeros(bits.shape[1], np.float32)
    for k in range(len(bits)):
        for g in range(len(first) - 1):
            start, stop = first[g], first[g + 1]
            best = _best_setting(gram, fields[k], none, start, energies[g], room[: stop - start])
            for i in range(start, stop):
                bits[k, i] = np.float32(1) if best >> (i - start) & 1 else np.float32(-1)


@kernel
def descend_groups(gram, first, fields, bits, n_sweeps):
    """Minimize as `descend_bits` does, with the bits from first[g] to first[g + 1] set together."""
    energies = _energies_of_groups(gram, first)
    room = np.empty(energies.shape[1], np.float32)
    for k in range(len(bits)):
        field, bit = fields[k], bits[k]
        for _ in range(n_sweeps):
            changed = False
            for g in range(len(first) - 1):
                start, stop = first[g], first[g + 1]
                best = _best_setting(gram, field, bit, start, energies[g], room[: stop - start])
                for i in range(start, stop):
                    value = np.float32(1) if best >> (i - start) & 1 else np.float32(-1)
                    if value != bit[i]:
                        _set_bit(gram, field, bit, i, value)
                        changed = True
            if not changed:
                break
