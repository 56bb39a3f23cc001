"""Ops that make, move and select elements, and the matrix products.

Products of f16, bf16, tf32, f32 and 8-bit and 4-bit floats are exact in float64; a product matrix is summed
in float64, added to the accumulator and rounded once to the accumulator's type. Integer products are exact
too.
"""

from __future__ import annotations

import numpy as np

from .floats import F32, F64, FORMATS, decode64, encode, storage_dtype
from .ints import as_signed, as_unsigned
from .registry import elem_name, pure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op
    from tileiras.compiler.ir.types import Dense


def shape_of(op: Op) -> tuple[int, ...]:
    return op.result.type.shape  # type: ignore[attr-defined]


def dense_to_array(dense: Dense) -> Any:
    """The elements of constant data, a splat repeated."""
    elem, shape = dense.type.elem, dense.type.shape
    count = 1
    for extent in shape:
        count *= extent
    data = dense.data
    if elem.name == "i1":
        if len(data) == (count + 7) // 8:
            values = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little", count=count).astype(
                np.bool_
            )
        else:
            values = np.full(count, data[0] & 1, np.bool_)
    elif elem.name == "tf32":  # 19 bits in 3 bytes: the upper bits of a float32
        raw = np.frombuffer(data, np.uint8).reshape(-1, 3).astype(np.uint32)
        values = ((raw[:, 0] | raw[:, 1] << np.uint32(8) | raw[:, 2] << np.uint32(16)) << np.uint32(13)).view(
            np.float32
        )
    else:
        values = np.frombuffer(data, storage_dtype(elem))
    if values.size == 1 and count != 1:
        return np.broadcast_to(values, shape)
    return values.reshape(shape)


@pure("constant", elementwise=True)
def build_constant(op: Op) -> Any:
    value = dense_to_array(op.attr("value"))
    value = value[()] if value.ndim == 0 else value
    return lambda: value


@pure("iota")
def build_iota(op: Op) -> Any:
    (count,) = shape_of(op)
    dtype = storage_dtype(op.result.type.elem)  # type: ignore[attr-defined]
    value = np.arange(count).astype(dtype)
    return lambda: value


@pure("reshape")
def build_reshape(op: Op) -> Any:
    shape = shape_of(op)
    return lambda a: a.reshape(shape)


@pure("broadcast")
def build_broadcast(op: Op) -> Any:
    shape = shape_of(op)
    return lambda a: np.broadcast_to(a, shape)


@pure("permute")
def build_permute(op: Op) -> Any:
    permutation = tuple(op.attr("permutation"))
    return lambda a: a.transpose(permutation)


@pure("cat")
def build_cat(op: Op) -> Any:
    dim = op.attr("dim")
    return lambda a, b: np.concatenate((a, b), axis=dim)


def block_slices(
    shape: tuple[int, ...], whole: tuple[int, ...], indices: tuple[Any, ...]
) -> tuple[slice, ...]:
    """Where block `indices` of `shape` lies in `whole`; an index out of range is taken modulo the grid."""
    out = []
    for extent, total, index in zip(shape, whole, indices):
        start = int(index) % (total // extent) * extent
        out.append(slice(start, start + extent))
    return tuple(out)


@pure("extract")
def build_extract(op: Op) -> Any:
    shape, whole = shape_of(op), op.operands[0].type.shape  # type: ignore[attr-defined]
    return lambda a, *indices: a[block_slices(shape, whole, indices)] if shape else a


@pure("insert")
def build_insert(op: Op) -> Any:
    shape, whole = op.operands[0].type.shape, shape_of(op)  # type: ignore[attr-defined]

    def insert(source: Any, destination: Any, *indices: Any) -> Any:
        out = np.array(destination)
        out[block_slices(shape, whole, indices)] = source
        return out

    return insert


@pure("select", elementwise=True)
def build_select(op: Op) -> Any:
    return lambda c, a, b: np.where(c, a, b)


@pure("mmaf")
def build_mmaf(op: Op) -> Any:
    fmt, acc = FORMATS[elem_name(op.operands[0])], FORMATS[elem_name(op.result)]
    if fmt is F64:
        return lambda a, b, c: np.matmul(a, b) + c
    return lambda a, b, c: encode(np.matmul(decode64(a, fmt), decode64(b, fmt)) + decode64(c, acc), acc)


@pure("mmai")
def build_mmai(op: Op) -> Any:
    left = as_signed if op.attr("signedness_lhs") == "signed" else as_unsigned
    right = as_signed if op.attr("signedness_rhs") == "signed" else as_unsigned

    def product(a: Any, b: Any, c: Any) -> Any:
        exact = np.matmul(left(a, "i8").astype(np.float64), right(b, "i8").astype(np.float64))  # below 2**53
        return (exact.astype(np.int64) + c).astype(np.int32)

    return product


@pure("mmaf_scaled")
def build_mmaf_scaled(op: Op) -> Any:
    """Block by block: the products are summed unscaled in f32, then scaled and added with one rounding."""
    fmt, scale = FORMATS[elem_name(op.operands[0])], FORMATS[elem_name(op.operands[3])]

    def product(a: Any, b: Any, c: Any, sa: Any, sb: Any) -> Any:
        x, y, left, right = decode64(a, fmt), decode64(b, fmt), decode64(sa, scale), decode64(sb, scale)
        size = a.shape[-1] // sa.shape[-1]
        total = c
        for n in range(sa.shape[-1]):
            at = slice(n * size, (n + 1) * size)
            part = decode64(encode(np.matmul(x[..., at], y[..., at, :]), F32), F32)
            factor = left[..., n : n + 1] * right[..., n : n + 1, :]
            total = encode(part * factor + decode64(total, F32), F32)
        return total

    return product
