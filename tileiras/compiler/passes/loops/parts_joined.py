"""The sum of the parts that warps have of a product, as a reduction of their dimension."""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileaa import ops as tileaa
from tileiras.compiler.ir.build import create
from tileiras.compiler.ir.core import Block, Op, Region, Value
from tileiras.compiler.ir.types import F32, FloatAttr, IntegerAttr, TensorType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ROUNDED = {"rounding_mode": "nearest_even"}


def joined(parts: Value, whole: Any, before: Op) -> Value:
    """The sum of parts, f32 or i32, along the first dimension, of type `whole`, in front of an op."""
    elem = whole.elem
    inner, one = Block(), TensorType(elem, (), None)
    args = (inner.add_arg(one), inner.add_arg(one))
    name, how = ("addf", ROUNDED) if elem is F32 else ("addi", {"overflow": "none"})
    add = inner.append(create(tileaa.BY_NAME[name], args, (one,), dict(how), (), before.loc))
    inner.append(create(tileaa.BY_NAME["yield"], (add.result,), (), {}, (), before.loc, (1,)))
    attrs = {"dim": 0, "identities": (FloatAttr(F32, 0) if elem is F32 else IntegerAttr(elem, 0),)}
    made = create(tileaa.BY_NAME["reduce"], (parts,), (whole,), attrs, [Region([inner])], before.loc, (1,))
    assert before.block is not None
    return before.block.insert_before(before, made).result
