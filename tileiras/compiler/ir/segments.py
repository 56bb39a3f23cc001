"""Operand groups of ops in generic form: sizes for flat operands, where the text does not give them."""

from __future__ import annotations

from . import types as T
from .spec import OPTIONAL, REQUIRED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .core import Value
    from .spec import OpSpec


def guess_segments(spec: OpSpec, operands: list[Value]) -> tuple[int, ...] | None:
    """Group sizes of flat operands: by constraint where an optional operand may be absent."""
    if not spec.varies:
        return None
    variadic = [i for i, a in enumerate(spec.operands) if a.mode == 2]
    optional = [i for i, a in enumerate(spec.operands) if a.mode == OPTIONAL]
    if not optional and len(variadic) == 1:
        rest = len(operands) - (len(spec.operands) - 1)
        if rest < 0:
            return None
        return tuple(rest if a.mode == 2 else 1 for a in spec.operands)
    sizes = [0] * len(spec.operands)
    position = 0
    for i, arg in enumerate(spec.operands):
        after = sum(1 for a in spec.operands[i + 1 :] if a.mode == REQUIRED)
        left = len(operands) - position - after
        if arg.mode == REQUIRED:
            if left < 1:
                return None
            sizes[i] = 1
        elif arg.mode == OPTIONAL:
            if left > 0 and fits(operands[position].type, arg.constraint):
                sizes[i] = 1
        else:
            while left > sizes[i] and fits(operands[position + sizes[i]].type, arg.constraint):
                sizes[i] += 1
        position += sizes[i]
    return tuple(sizes) if position == len(operands) else None


def clamp_segments(spec: OpSpec, operands: list[Value]) -> tuple[int, ...]:
    """Some sizes that add up, for an op whose own are wrong."""
    sizes = [1 if a.mode == REQUIRED else 0 for a in spec.operands]
    extra = len(operands) - sum(sizes)
    for i, arg in enumerate(spec.operands):
        if arg.mode != REQUIRED and extra > 0:
            sizes[i] = extra if arg.mode == 2 else 1
            extra -= sizes[i]
    if extra > 0 and sizes:
        sizes[-1] += extra
    for i in range(len(sizes) - 1, -1, -1):
        if extra < 0 and sizes[i]:
            take = min(sizes[i], -extra)
            sizes[i] -= take
            extra += take
    return tuple(sizes)


def fits(type: Any, constraint: str) -> bool:
    """Whether a value may stand in a field: a coarse look that tells masks, tokens and indices apart."""
    if constraint == "token":
        return type is T.TOKEN
    if constraint.startswith(("tile:", "scalar:")):
        if not isinstance(type, T.TileType):
            return False
        what = constraint.partition(":")[2]
        if what == "i1":
            return type.elem is T.I1
        if what == "int":
            return isinstance(type.elem, T.Scalar) and not type.elem.is_float
        return True
    return type is not T.TOKEN


def same_typed(spec: OpSpec, operands: list[Value]) -> list[Any]:
    """Types of the results where each has the type of an operand, else nothing."""
    if spec.varies or len(operands) != len(spec.operands):
        return []
    types = []
    for result in spec.results:
        names = next((group for group in spec.same_type if result.name in group), ())
        types += [v.type for arg, v in zip(spec.operands, operands) if arg.name in names][:1]
    return types if len(types) == len(spec.results) else []
