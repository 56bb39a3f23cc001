"""Layer 1 inside passes: a builder whose `create` verifies an op before it is linked, and the walk over patterns.

`create` returns None for an op that breaks a rule; the diagnostic stands at the location of the op that is being
rewritten. A pattern that then leaves no replacement fails the walk even if it says nothing itself.
"""

from __future__ import annotations

from tileiras.diag import ERROR, WORD_ERROR, Diag

from .build import Malformed, make_op
from .verify import report

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from .core import Block, Op, Region
    from .passes import Context
    from .spec import OpSpec

NO_REPLACEMENT = Diag(
    "PM-0004",
    ERROR,
    "'{name}' was not replaced by the pattern for it",
    "layer-1-create-returns-null",
    WORD_ERROR,
)
"""
cause: A conversion met an operation for which it has no rule at this point.
remedy: Give the pass the dialect that `tileiras-opt --help` names for it. In a normal compile this is a defect:
report the kernel, made small with `tileiras-reduce`.

! A rewriting pattern returns nothing where a value is needed: a defect of the pattern, here or in a pass of one's
own.
"""


class Rewriter:
    """Inserts before `anchor` in its block, or at the end of `block`."""

    __slots__ = ("anchor", "block", "context", "failed")

    def __init__(self, context: Context, anchor: Op | None = None, block: Block | None = None) -> None:
        self.context = context
        self.anchor = anchor
        self.block = block if block is not None else (anchor.block if anchor is not None else None)
        self.failed = False

    def create(
        self, spec: OpSpec, groups: Iterable[Any] = (), result_types: Iterable[Any] = (),
        attrs: dict[str, Any] | None = None, regions: Iterable[Region] = (), loc: Any = None,
    ) -> Op | None:  # fmt: skip
        """The op, verified and inserted; None when it is malformed (layer 1 has said why)."""
        if loc is None and self.anchor is not None:
            loc = self.anchor.loc
        try:
            op = make_op(spec, groups, result_types, attrs, regions, loc)
        except Malformed as refused:
            report(refused.problem, refused.op, self.context.sink)
            self.failed = True
            return None
        if self.anchor is not None:
            assert self.anchor.block is not None
            return self.anchor.block.insert_before(self.anchor, op)
        assert self.block is not None
        return self.block.append(op)

    def replace(self, op: Op, values: Iterable[Any]) -> None:
        """All uses of op's results by `values`; the op goes."""
        for old, new in zip(list(op.results), list(values)):
            old.replace_all_uses_with(new)
        op.erase()


def rewrite(root: Op, name: str, pattern: Callable[[Op, Rewriter], Any], context: Context) -> bool:
    """Applies `pattern` to every op of the full name `name`. False when one of them is still there: its create failed,
    or it made no replacement."""
    ok = True
    for op in [op for op in root.walk() if op.spec.full_name == name]:
        rewriter = Rewriter(context, op)
        errors = context.sink.errors
        pattern(op, rewriter)
        if op.block is None:
            continue
        ok = False
        if context.sink.errors == errors:
            context.sink.emit(NO_REPLACEMENT, loc=op.loc, name=name)
    return ok
