"""Vectors of many items in the code that numba generates; LLVM splits or joins them as the CPU can.

Addresses are words: a kernel takes them from its arrays, which it must keep.
"""

from typing import Any

import numba as nb
import numpy as np
from llvmlite import ir
from numba.core import cgutils

BYTE, HALF, INT, WORD = (ir.IntType(bits) for bits in (8, 16, 32, 64))


@nb.njit(nogil=True, error_model="numpy", inline="always")
def address(array):
    """Address of the first value of an array."""
    return np.uint64(array.ctypes.data)


def load(builder: Any, kind: Any, address: Any, place: int = 0) -> Any:
    """Load a value from an address plus a number of bytes."""
    return builder.load(builder.inttoptr(builder.add(address, WORD(place)), kind.as_pointer()), align=1)


def store(builder: Any, value: Any, address: Any, place: int = 0) -> None:
    """Store a value at an address plus a number of bytes."""
    builder.store(value, builder.inttoptr(builder.add(address, WORD(place)), value.type.as_pointer()), align=1)


def shuffle(builder: Any, vector: Any, lanes: list[int], other: Any = None) -> Any:
    """Vector of some lanes of a vector and of another one."""
    return builder.shuffle_vector(vector, other or vector, ir.VectorType(INT, len(lanes))(lanes))


def in_all_lanes(builder: Any, value: Any, size: int) -> Any:
    """Vector with a value in each of its lanes."""
    first = builder.insert_element(ir.VectorType(value.type, size)(ir.Undefined), value, INT(0))
    return shuffle(builder, first, [0] * size)


def mask(builder: Any, parts: list[Any]) -> Any:
    """Word with a bit for each lane of all parts, which are vectors of bits."""
    word = WORD(0)
    for number, part in enumerate(parts):
        bits = builder.bitcast(part, ir.IntType(part.type.count))
        bits = bits if bits.type == WORD else builder.zext(bits, WORD)
        word = builder.or_(word, builder.shl(bits, WORD(number * part.type.count)))
    return word


def table_lookup(context: Any, builder: Any) -> tuple[int, Any]:
    """Number of items whose values the machine looks up at once, and a function of a table and a vector of indices."""
    triple, _, features = context.codegen().magic_tuple()
    size, name = 16, None
    if "+avx512bw" in features:
        size, name = 64, "llvm.x86.avx512.pshuf.b.512"
    elif "+avx2" in features:
        size, name = 32, "llvm.x86.avx2.pshuf.b"
    elif "+ssse3" in features:
        name = "llvm.x86.ssse3.pshuf.b.128"
    elif triple.startswith(("aarch64", "arm64")):
        name = "llvm.aarch64.neon.tbl1.v16i8"
    codes = ir.VectorType(BYTE, size)

    def by_instruction(table: Any, indices: Any) -> Any:
        function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(codes, [codes, codes]), name)
        return builder.call(function, [shuffle(builder, table, [i % 16 for i in range(size)]), indices])

    def one_by_one(table: Any, indices: Any) -> Any:
        values = codes(ir.Undefined)
        for lane in map(INT, range(size)):
            value = builder.extract_element(table, builder.extract_element(indices, lane))
            values = builder.insert_element(values, value, lane)
        return values

    return size, by_instruction if name else one_by_one
