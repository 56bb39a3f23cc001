"""Layer 1: ops that are verified when they are made, for lowerings and passes.

`create` checks the op's own fields before anything can be linked to it and raises Malformed, which the pass manager
reports at the op's location and takes as a failure of the pass. Readers make ops by `core.Op`: what they read is
verified as a whole afterwards.
"""

from __future__ import annotations

from _thread import get_ident

from .core import Op
from .spec import OPTIONAL, REQUIRED
from .verify import Invalid, check_op

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from tileiras.diag import Loc

    from .core import Region, Value
    from .spec import OpSpec
    from .types import Type


class Record:
    """What a pass makes: names of ops, and who is told of each (`tell`)."""

    __slots__ = ("names", "tell")

    def __init__(self, tell: Callable[[Op], Any] | None = None) -> None:
        self.names: set[str] = set()
        self.tell = tell


RECORDS: dict[int, Record] = {}  # thread -> the record of the pass that runs in it


class Malformed(Exception):
    """An op that was refused at construction, and why; it is in no block and in no list of uses."""

    def __init__(self, op: Op, problem: Invalid) -> None:
        super().__init__(f"{op.spec.full_name}: {problem}")
        self.op = op
        self.problem = problem


def create(
    spec: OpSpec,
    operands: Iterable[Value] = (),
    result_types: Iterable[Type] = (),
    attrs: dict[str, Any] | None = None,
    regions: Iterable[Region] = (),
    loc: Loc | None = None,
    segments: tuple[int, ...] | None = None,
) -> Op:
    """A verified op, in no block yet; its regions are complete. Arguments as of `Op`. Errors: Malformed."""
    op = Op(spec, operands, result_types, attrs, regions, loc, segments)
    record = RECORDS.get(get_ident())
    if record is not None:
        record.names.add(spec.name)
        if record.tell is not None:
            record.tell(op)
    try:
        check_op(op)
    except Invalid as problem:
        op.drop_operands()
        raise Malformed(op, problem) from None
    return op


def make_op(
    spec: OpSpec,
    groups: Iterable[Value | None | list[Value]],
    result_types: Iterable[Type],
    attrs: dict[str, Any] | None = None,
    regions: Iterable[Region] = (),
    loc: Loc | None = None,
) -> Op:
    """`create` from operand groups, one entry per operand field: a Value, None (absent optional), or a list."""
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
    return create(spec, flat, result_types, attrs, regions, loc, tuple(sizes) if spec.varies else None)
