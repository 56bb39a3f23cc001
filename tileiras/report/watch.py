"""Follows one compile for a report: which op became which line of every level, and what the lowering did for it.

The driver calls a watch where it passes by; nothing of what it compiles depends on it. Each op of the input gets a
location object of its own, so that whatever the passes make carries the number of the op it stems from.
"""

from __future__ import annotations

import copy

from tileiras.compiler.lower.tileas_to_nvvm.remarks import Observer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tileiras.compiler.ir.core import Op
    from tileiras.diag import Diag, Emitted


class Remark:
    """What the lowering said of an op of nv_tileas."""

    __slots__ = ("diag", "facts", "op")

    def __init__(self, diag: Diag, op: Op, facts: dict[str, Any]) -> None:
        self.diag = diag
        self.op = op
        self.facts = facts


class Follower(Observer):
    """Notes which op made which instruction; says the remarks that were asked for, and keeps all of them."""

    __slots__ = ("watch_",)

    def __init__(self, lowering: Any, asked: dict[str, str], watch: Watch) -> None:
        super().__init__(lowering, asked)
        self.watch_ = watch

    def watch(self, op: Op, rule: Callable[[Any, Op], None]) -> None:
        b = self.lowering.b
        code, start, before = b.code, len(b.code), len(b.prologue)
        super().watch(op, rule)
        owners = self.watch_.owners
        if b.code is code:
            for record in code[start:]:  # ops inside have claimed theirs
                owners.setdefault(id(record), (record, op))
        for record in b.prologue[before:]:
            owners.setdefault(id(record), (record, op))

    def replaced(self, records: list[tuple[Any, Any]]) -> None:
        owners = self.watch_.owners
        for old, new in records:
            if id(old) in owners:
                owners[id(new)] = (new, owners[id(old)][1])

    def say(self, diag: Diag, op: Op, **facts: object) -> None:
        self.watch_.remarks.append(Remark(diag, op, {"function": self.lowering.fn.name, **facts}))
        super().say(diag, op, **facts)


class Watch:
    """What one compile leaves for its report. `module`: the input; `tree`: the last nv_tileaa or nv_tileas module;
    `code`: per-thread code; `owners`: id of a record -> (record, op); `origin`: id of a location -> op of the input."""

    def __init__(self, data: bytes | str = b"", file: str = "") -> None:
        self.data = data
        self.file = file
        self.module: Any = None
        self.program: Any = None
        self.tree: Any = None
        self.code: Any = None
        self.ptx = ""
        self.stage = "reading"
        self.owners: dict[int, tuple[Any, Op]] = {}
        self.origin: dict[int, Op] = {}
        self.remarks: list[Remark] = []
        self.unasked: list[Emitted] = []  # remarks of passes that nobody but a report asked for
        self.resources: dict[str, Any] = {}  # of ptxas, by kernel
        self.tool: Any = None  # the ptxas that assembled
        self.finished = False

    def loaded(self, module: Any) -> None:
        """The input was read."""
        self.module = module
        for op in module.walk():
            op.loc = copy.copy(op.loc)
            self.origin[id(op.loc)] = op

    def begins(self, program: Any) -> None:
        self.program = program
        self.stage = "verification"

    def unheard(self, emitted: Emitted) -> None:
        """A remark that nobody else asked for."""
        self.unasked.append(emitted)

    def after(self, name: str, ir: Any) -> None:
        """Behind a pass."""
        self.stage = name
        if name == "ptx":
            self.ptx = ir
        elif hasattr(ir, "walk"):
            self.tree = ir
        else:
            self.code = ir

    def done(self, tool: Any) -> None:
        """The compile succeeded."""
        self.tool = tool
        self.finished = True

    def observer(self, lowering: Any, asked: dict[str, str] | None) -> Follower:
        return Follower(lowering, asked or {}, self)

    def op_of(self, loc: Any) -> Op | None:
        """The op of the input that a location belongs to."""
        return self.origin.get(id(loc))
