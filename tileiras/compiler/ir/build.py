"""Builder: makes ops at an insertion point with a current location."""

from __future__ import annotations

from tileiras.diag import UNKNOWN

from .core import Block, Op, Region, Value
from .spec import OPTIONAL, REQUIRED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from tileiras.diag import Loc

    from .spec import OpSpec
    from .types import Type


def make_op(
    spec: OpSpec,
    groups: Iterable[Value | None | list[Value]],
    result_types: Iterable[Type],
    attrs: dict[str, Any] | None = None,
    regions: Iterable[Region] = (),
    loc: Loc | None = None,
) -> Op:
    """An op from operand groups, one entry per operand field: a Value, None (absent optional), or a list."""
    flat: list[Value] = []
    sizes: list[int] = []
    for arg, group in zip(spec.operands, groups):
        if arg.mode == REQUIRED:
            flat.append(group)  # type: ignore[arg-type]
            sizes.append(1)
        elif arg.mode == OPTIONAL and not isinstance(group, list):
            if group is not None:
                flat.append(group)
            sizes.append(0 if group is None else 1)
        else:
            flat.extend(group)  # type: ignore[arg-type]
            sizes.append(len(group))  # type: ignore[arg-type]
    return Op(spec, flat, result_types, attrs, regions, loc, tuple(sizes) if spec.varies else None)


class Builder:
    """Appends ops to `block`; `loc` is given to every op made."""

    __slots__ = ("block", "loc")

    def __init__(self, block: Block, loc: Loc = UNKNOWN) -> None:
        self.block = block
        self.loc = loc

    def op(
        self,
        spec: OpSpec,
        groups: Iterable[Value | None | list[Value]] = (),
        result_types: Iterable[Type] = (),
        attrs: dict[str, Any] | None = None,
        regions: Iterable[Region] = (),
    ) -> Op:
        return self.block.append(make_op(spec, groups, result_types, attrs, regions, self.loc))
