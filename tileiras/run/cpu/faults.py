"""Faults that code notes as it runs, and what a launch with `check` looks for in front of accesses and divisions."""

from __future__ import annotations

from .code import REGISTER
from .runtime import DIVISION, PLAIN
from .space import identity
from .tiles import Node, Uniform

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tileiras.compiler.ir.core import Op


class Faults:
    """The part of a lowering that tests. `c` and the rest belong to the lowering."""

    c: Any
    check: bool
    sites: list[Op]  # ops that can fault, by number

    def fault(
        self, op: Op, condition: str | None, element: str = "0", value: str = "0", kind: int = PLAIN
    ) -> None:
        """Notes a fault of an op where the condition holds (None: always)."""
        c, number = self.c, self.site(op) + (kind << 32)
        done = None
        if condition is not None:
            bad, done = c.new_label("bad"), c.new_label("fine")
            c.branch(condition, bad, done)
            c.begin(bad)
        c.do(
            f"call void @tile.fault(ptr %launch, i64 {number}, i32 %x, i32 %y, i32 %z, i64 {element}, i64 {value})"
        )
        if done is not None:
            c.jump(done)
            c.begin(done)

    def check_divisor(self, op: Op, divisor: Node) -> None:
        """With check: notes every element that divides by zero."""
        map, c = identity(divisor.bits), self.c

        def body(chunk: Any) -> None:
            value = divisor.get(self, chunk, map)
            bad = c.cmp("eq", REGISTER[divisor.name], 1, value, "false" if divisor.name == "i1" else "0")
            self.fault(op, bad, chunk.offset(map), kind=DIVISION)

        if isinstance(divisor, Uniform):
            bad = c.cmp(
                "eq", REGISTER[divisor.name], 1, divisor.value, "false" if divisor.name == "i1" else "0"
            )
            self.fault(op, bad, kind=DIVISION)
        else:
            self.walk(divisor.bits, 0, set(), body, False)

    def check_access(
        self, op: Op, bits: int, size: int, write: bool, place: Callable[[Any], tuple[str, str | None]]
    ) -> None:
        """With check: ends the tile block before an access that leaves the memory which was passed."""
        if not self.check:
            return
        c, number = self.c, self.site(op)

        def body(chunk: Any) -> None:
            address, mask = place(chunk)
            bad = c.alloca("i1", 1)
            c.do(f"store i1 false, ptr {bad}, align 1")
            element = chunk.offset(identity(bits))

            def look() -> None:
                found = c.op(
                    f"call i1 @tile.check(ptr %launch, i64 {number}, i32 %x, i32 %y, i32 %z, i64 {element}, "
                    f"i64 {address}, i64 {size}, i1 {'true' if write else 'false'})"
                )
                c.do(f"store i1 {found}, ptr {bad}, align 1")

            if mask is None:
                look()
            else:
                with c.when(mask):
                    look()
            go = c.new_label("go")
            c.branch(c.op(f"load i1, ptr {bad}, align 1"), "exit", go)
            c.begin(go)

        self.walk(bits, 0, set(), body, False)

    def stop_here(self) -> None:
        """Ends the tile block when the launch is given up: Ctrl-C, a failure elsewhere."""
        c = self.c
        at = c.at_entry("getelementptr i64, ptr %launch, i64 5")
        stop = c.op(f"load atomic volatile i64, ptr {at} monotonic, align 8")
        go = c.new_label("go")
        c.branch(c.op(f"icmp ne i64 {stop}, 0"), "exit", go)
        c.begin(go)

    def site(self, op: Op) -> int:
        if op not in self.sites:
            self.sites.append(op)
        return self.sites.index(op)
