"""What was found out about functions, kept until a pass changes what it rests on.

An analysis is a function of (function op, Analyses) without side effects; it may ask for others. Passes ask
`context.analyses.get(facts_of, func)`. Behind each pass the manager drops what is known of the function that it ran on, or
of all behind a pass of the module; a pass with KEEPS_ANALYSES drops it itself where it changes the IR, so that what changes
nothing costs nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from .core import Op

    Found = TypeVar("Found")


class Analyses:
    """Results by analysis and function, for one target."""

    __slots__ = ("_found", "target")

    def __init__(self, target: Any) -> None:
        self.target = target
        self._found: dict[tuple[Any, Op], Any] = {}

    def get(self, analysis: Callable[[Op, Analyses], Found], func: Op) -> Found:
        """The result on a function, found now where it is not known."""
        key = (analysis, func)
        if key not in self._found:
            self._found[key] = analysis(func, self)
        found: Found = self._found[key]
        return found

    def known(self, analysis: Callable[[Op, Analyses], Found], func: Op) -> Found | None:
        """The result on a function if somebody asked for it since the IR changed last."""
        return self._found.get((analysis, func))

    def drop(self, func: Op | None = None) -> None:
        """A function has changed; None: all of them."""
        if func is None:
            self._found.clear()
        else:
            self._found = {key: value for key, value in self._found.items() if key[1] is not func}
