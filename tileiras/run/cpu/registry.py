"""The table of elementwise ops: how each computes one vector of its result from vectors of its operands."""

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
