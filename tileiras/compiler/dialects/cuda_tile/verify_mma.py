"""Rules of matrix products, in the contract's order: rank of A, shared rank, K, M and N, shapes, element types."""

from __future__ import annotations

from tileiras.compiler.ir import types as T
from tileiras.compiler.ir.verify import Invalid, broken, tname
from tileiras.diag import Catalogue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op

D = Catalogue("tileiras.compiler.dialects.cuda_tile.diags")
# Accumulator element types by operand element type.
PAIRS = {
    T.F8E4M3FN: (T.F16, T.F32), T.F8E5M2: (T.F16, T.F32), T.F16: (T.F16, T.F32), T.BF16: (T.F32,), T.TF32: (T.F32,),
    T.F32: (T.F32,), T.F64: (T.F64,),
}  # fmt: skip
MMAF_OPERANDS = "f16 or bf16 or f32 or f64 or tf32 or f8E4M3FN or f8E5M2"


def shape_text(shape: Any) -> str:
    return f"({', '.join(map(str, shape))})"


def mismatch(a: str, x: int, sa: Any, b: str, y: int, sb: Any) -> str:
    head = f" shape error: dim {x} of {a} ({sa[x]}) and dim {y} of {b} ({sb[y]}) must match, but got "
    return f"{head}{a} shape {shape_text(sa)} and {b} shape {shape_text(sb)}"


def check_shapes(op: Op) -> None:
    lhs, rhs, acc = (v.type.shape for v in op.operands[:3])
    result = op.results[0].type.shape
    rank = len(lhs)
    names = "{lhs, rhs, acc}"
    if rank not in (2, 3):
        same = len(rhs) == rank == len(acc)
        real = (
            "operands must be 2D or 3D tiles"
            if same
            else f"failed to verify that all of {names} have same rank"
        )
        raise Invalid(D.MMA_RANK, real)
    if len(rhs) != rank or len(acc) != rank or len(result) != rank:
        raise Invalid(D.MMA_SHARE_RANK, f"failed to verify that all of {names} have same rank")
    m, k = rank - 2, rank - 1
    if lhs[k] != rhs[m]:
        raise Invalid(D.MMA_K, mismatch("lhs", k, lhs, "rhs", m, rhs))
    if rank == 3 and lhs[0] != rhs[0]:
        raise Invalid(D.MMA_MN, mismatch("lhs", 0, lhs, "rhs", 0, rhs))
    if rank == 3 and lhs[0] != acc[0]:
        raise Invalid(D.MMA_MN, mismatch("lhs", 0, lhs, "acc", 0, acc))
    if lhs[m] != acc[m]:
        raise Invalid(D.MMA_MN, mismatch("lhs", m, lhs, "acc", m, acc))
    if rhs[k] != acc[k]:
        raise Invalid(D.MMA_MN, mismatch("rhs", k, rhs, "acc", k, acc))
    if acc != result:
        raise Invalid(D.MMA_ACC_SHAPE, "failed to verify that all of {acc, result} have same type")


def check_mmai(op: Op) -> None:
    check_shapes(op)
    for name in ("signedness_lhs", "signedness_rhs"):
        if name not in op.attrs:
            raise Invalid(D.MMAI_SIGNEDNESS, f"requires attribute '{name}'")
    lhs, rhs, acc = (v.type for v in op.operands)
    result = op.results[0].type
    inputs, outputs = ("mmai operand", T.I8), ("mmai acc/result", T.I32)
    sides = (
        (lhs, "operand #0", inputs), (rhs, "operand #1", inputs), (acc, "operand #2", outputs),
        (result, "result #0", outputs),
    )  # fmt: skip
    wrong = [
        f"{where} must be {what} tile type of {elem} values, but got '{tname(type)}'"
        for type, where, (what, elem) in sides
        if type.elem is not elem
    ]
    if acc.elem is not T.I32 or result.elem is not T.I32:
        raise Invalid(D.MMAI_ACC, wrong[0])  # the real verifier goes from left to right
    if wrong:
        raise Invalid(D.MMAI_INPUTS, wrong[0])


def check_mmaf(op: Op) -> None:
    check_shapes(op)
    lhs, rhs, acc = (v.type for v in op.operands)
    for i, type in enumerate((lhs, rhs)):
        if type.elem not in PAIRS:
            real = f"operand #{i} must be mmaf operand tile type of {MMAF_OPERANDS} values, but got '{tname(type)}'"
            raise Invalid(D.MMAF_PAIR, real)
    if lhs.elem is not rhs.elem:
        raise Invalid(D.MMAF_PAIR, "failed to verify that all of {lhs, rhs} have the same element type")
    if acc.elem not in (T.F16, T.F32, T.F64):
        real = f"operand #2 must be mmaf acc/result tile type of f16 or f32 or f64 values, but got '{tname(acc)}'"
        raise Invalid(D.MMAF_PAIR, real)
    if acc.elem not in PAIRS[lhs.elem]:
        allowed = ", ".join(f"'{t}'" for t in PAIRS[lhs.elem])
        head = f"unsupported combination of element types. Input type '{lhs.elem}' expects accumulator/result type to be one of"
        raise Invalid(D.MMAF_PAIR, f"{head} {{{allowed}}}, but got '{acc.elem}'")
    if op.results[0].type is not acc:
        raise Invalid(D.MMAF_ACC_TYPE, "failed to verify that all of {acc, result} have same type")


def check_mmaf_scaled(op: Op) -> None:
    lhs, rhs, acc, lhs_scale, rhs_scale = (v.type for v in op.operands)
    rank = len(lhs.shape)
    if rank not in (2, 3):
        raise Invalid(D.MMA_RANK, "operands must be 2D or 3D tiles")
    m, k = rank - 2, rank - 1
    a, b, c = lhs.shape, rhs.shape, acc.shape
    sa, sb = lhs_scale.shape, rhs_scale.shape
    if a[k] != b[m]:
        raise Invalid(D.MMA_K, mismatch("lhs", k, a, "rhs", m, b))
    batch = range(rank - 2)
    pairs = [("lhs", i, a, "rhs", i, b) for i in batch] + [("lhs", i, a, "acc", i, c) for i in batch]
    for pair in (*pairs, ("lhs", m, a, "acc", m, c), ("rhs", k, b, "acc", k, c)):
        if pair[2][pair[1]] != pair[5][pair[4]]:
            raise Invalid(D.MMA_MN, mismatch(*pair))
    check_scale_types(lhs, lhs_scale)
    scale_pairs = [("lhs", i, a, "lhs_scale", i, sa) for i in batch] + [
        ("rhs", i, b, "rhs_scale", i, sb) for i in batch
    ]
    scale_pairs += [
        ("lhs", m, a, "lhs_scale", m, sa),
        ("rhs", k, b, "rhs_scale", k, sb),
        ("lhs_scale", k, sa, "rhs_scale", m, sb),
    ]
    for pair in scale_pairs:
        if pair[2][pair[1]] != pair[5][pair[4]]:
            raise broken(mismatch(*pair))
    check_block_factor(lhs.elem, lhs_scale.elem, a[k], sa[k])


def check_scale_types(lhs: Any, scale: Any) -> None:
    if scale.elem is T.F8E4M3FN and lhs.elem is not T.F4E2M1FN:
        head = f"unsupported combination of element types. Scale type '{scale.elem}' expects lhs and rhs element types to be"
        raise broken(f"{head} 'f4E2M1FN', but got '{lhs.elem}'")
    if scale.elem is T.FNV8E5M3FNU and lhs.elem is not T.F4E2M1FN:
        head = f"unsupported combination of element types. Scale type '{scale.elem}' expects lhs and rhs element types to be"
        raise broken(f"{head} 'f4E2M1FN', but got '{lhs.elem}'")


def check_block_factor(elem: Any, scale: Any, k: int, s: int) -> None:
    if k % s:
        raise broken(f" shape error: K dimension ({k}) must be divisible by the scale dimension ({s})")
    factor = k // s
    who = "block scale factor of lhs_scale and rhs_scale to be"
    if elem is not T.F4E2M1FN:
        if factor != 32:
            raise broken(f" shape error: f8 element type requires {who} 32, but got {factor}")
    elif scale is T.F8E4M3FN:
        if factor != 16:
            raise broken(
                f" shape error: f4E2M1FN element type with f8E4M3FN scales requires {who} 16, but got {factor}"
            )
    elif factor not in (16, 32):
        raise broken(
            f" shape error: f4E2M1FN element type with {scale} scales requires {who} 16 or 32, but got {factor}"
        )
