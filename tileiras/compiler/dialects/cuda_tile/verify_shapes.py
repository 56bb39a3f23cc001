"""Shapes of cuda_tile: what ops that move elements make of them, and which constants fill them."""

from __future__ import annotations

from tileiras.compiler.ir import types as T
from tileiras.compiler.ir.verify import Invalid, broken
from tileiras.diag import Catalogue

from .dense import check_dense
from .verify_types import listed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tileiras.compiler.ir.core import Op

D = Catalogue("tileiras.compiler.dialects.cuda_tile.diags")


def count_of(type: Any) -> int:
    count = 1
    for d in type.shape:
        count *= d
    return count


def check_reshape(op: Op) -> None:
    source, result = count_of(op.operands[0].type), count_of(op.results[0].type)
    if source != result:
        real = "expected source tile and result tile to have the same number of elements"
        raise Invalid(D.RESHAPE_COUNT, real, source=source, result=result)


def check_broadcast(op: Op) -> None:
    source, result = op.operands[0].type.shape, op.results[0].type.shape
    if any(s not in (r, 1) for s, r in zip(source, result)):
        text = "expects the shape of source tile to be compatible with that of the result tile, but got: "
        raise broken(text + f"{listed(source)} and {listed(result)}")


def check_extract(op: Op) -> None:
    source, result = op.operands[0].type, op.results[0].type
    if source.elem is not result.elem:
        raise broken("source and result element type do not match")
    indices = len(op.operands) - 1
    if indices != len(source.shape):
        raise broken(f"expected {len(source.shape)} indices, but got {indices}")
    for i, (s, r) in enumerate(zip(source.shape, result.shape)):
        if s % r:
            raise broken(
                f"source dimension {i} size ({s}) must be evenly divisible by result dimension {i} size ({r})"
            )


def check_insert(op: Op) -> None:
    source, target = op.operands[0].type, op.operands[1].type
    if source.elem is not target.elem:
        raise broken("source and result element type do not match")
    indices = len(op.operands) - 2
    if indices != len(target.shape):
        raise broken(f"expected {len(target.shape)} indices, but got {indices}")
    for i, (s, d) in enumerate(zip(source.shape, target.shape)):
        if d % s:
            raise broken(
                f"result dimension {i} size ({d}) must be evenly divisible by source dimension {i} size ({s})"
            )


def check_cat(op: Op) -> None:
    lhs, rhs, result = op.operands[0].type.shape, op.operands[1].type.shape, op.results[0].type.shape
    dim = op.attrs["dim"]
    if not 0 <= dim < len(lhs):
        raise broken(f"expect dim to be [0, {len(lhs)}), but got: {dim}")
    for i, (a, b, c) in enumerate(zip(lhs, rhs, result)):
        if i == dim:
            if a + b != c:
                raise broken(f"invalid concat at position {i}, expected: {a + b} but got: {c}")
            continue
        for name, side, other in (("lhs and result", a, c), ("rhs and result", b, c)):
            if side != other:
                text = f"expect {name} shapes to match at non-concat position {i}, expected: {side} but got: {other}"
                raise broken(text)


def check_permute(op: Op) -> None:
    source, result = op.operands[0].type.shape, op.results[0].type.shape
    permutation = op.attrs["permutation"]
    rank = len(source)
    if rank < 2:
        raise broken(f"expects at least rank 2, but got: {rank}")
    if len(permutation) != rank:
        raise broken(f"expect permutation size ({len(permutation)}) to equal the rank of the source ({rank})")
    for i, p in enumerate(permutation):
        if not 0 <= p < rank:
            raise broken(f"permutation element at index {i} ({p}) is out of bound [0, {rank})")
    if len(set(permutation)) != rank:
        raise broken("expect permutation elements to be unique")
    for i, p in enumerate(permutation):
        if result[i] != source[p]:
            raise broken(f"result shape invalid at index {i}, expected: {source[p]}, but got: {result[i]}")


def check_iota(op: Op) -> None:
    type = op.results[0].type
    if len(type.shape) != 1:
        raise broken("expects result type to be 1-d tile")
    if type.shape[0] > 1 << type.elem.bits:
        raise broken(
            f"the number of elements {type.shape[0]} exceeds the maximum value of element type '{type.elem}'"
        )


def byte_size(type: Any) -> int:
    bits = 32 if type.elem is T.TF32 else type.elem.bits
    return (count_of(type) * bits + 7) // 8


def check_pack(op: Op) -> None:
    source, result = op.operands[0].type, op.results[0].type
    if len(source.shape) != 1 or len(result.shape) != 1:
        raise broken("expects source and result to be rank-1 tiles")
    if source.elem.bits == result.elem.bits:
        raise broken("expects source and result to have different element type widths")
    a, b = byte_size(source), byte_size(result)
    if a != b:
        sizes = f"source tile size {a} bytes and result tile size {b} bytes"
        raise broken(f"expects source and result to have the same size in bytes, but got {sizes}")


def check_select(op: Op) -> None:
    if op.results[0].type.elem is T.F4E2M1FN:
        raise broken("cannot operate on sub-byte type F4E2M1FN")


def check_constant(op: Op) -> None:
    value = op.attrs["value"]
    if type(value) is not T.Dense:
        raise broken("attribute 'value' failed to satisfy constraint: dense elements attribute")
    if value.type is not op.results[0].type:
        raise broken("failed to verify that all of {value, result} have same type")
    problem = check_dense(value.type, value.data)
    if problem is not None:
        raise broken(problem)


CHECKS: dict[str, Callable[[Op], None]] = {
    "reshape": check_reshape,
    "broadcast": check_broadcast,
    "extract": check_extract,
    "insert": check_insert,
    "cat": check_cat,
    "permute": check_permute,
    "iota": check_iota,
    "pack": check_pack,
    "unpack": check_pack,
    "select": check_select,
    "constant": check_constant,
}
