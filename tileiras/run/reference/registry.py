"""The tables that ops register in: what a pure op computes, and how an op with effects is compiled.

A pure row maps an op to a function of its operand values; it must work for any broadcast shape where the op
is elementwise, because bodies of reduce and scan run on whole tiles. An effect row gets the compiler and
returns a closure over the frame: a list of slots whose slot 0 holds the state of the tile block.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tileiras.compiler.ir.core import Op, Value

    from .compile import Compiler

    Frame = list[Any]
    Step = Callable[[Frame], Any]

PURE: dict[str, Callable[[Op], Callable[..., Any]]] = {}
EFFECT: dict[str, Callable[[Compiler, Op], Step]] = {}
ELEMENTWISE: set[str] = set()  # pure ops that may run on any broadcast shape


def pure(*names: str, elementwise: bool = False) -> Callable[[Any], Any]:
    def register(build: Any) -> Any:
        for name in names:
            PURE[name] = build
            if elementwise:
                ELEMENTWISE.add(name)
        return build

    return register


def effect(*names: str) -> Callable[[Any], Any]:
    def register(build: Any) -> Any:
        for name in names:
            EFFECT[name] = build
        return build

    return register


def elem_name(value: Value) -> str:
    """Name of the element type of a tile value, "ptr" for pointers."""
    return getattr(value.type.elem, "name", "ptr")  # type: ignore[attr-defined]
