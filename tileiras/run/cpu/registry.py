"""The tables of ops: elementwise ones say how to compute one vector of the result, the others are lowered as a whole."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

ELEMENTWISE: dict[str, Callable[..., str]] = {}


def elementwise(*names: str) -> Callable[[Any], Any]:
    """Registers f(code, lanes, op, *operands) -> result for ops of these names."""

    def register(function: Any) -> Any:
        for name in names:
            ELEMENTWISE[name] = function
        return function

    return register


OPS: dict[str, Callable[[Any, Any], None]] = {}


def lowers(*names: str) -> Callable[[Any], Any]:
    """Registers f(lower, op) for ops of these names."""

    def register(function: Any) -> Any:
        for name in names:
            OPS[name] = function
        return function

    return register


class Unsupported(Exception):
    """An op that the CPU target does not take: (op, why)."""
