"""Answers that are kept: of pure functions, above all of layouts, which a compile asks the same few questions again and again.

`functools.lru_cache` does the same; loading functools, with collections behind it, costs more than all layouts of a small kernel.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Hashable
    from typing import Any, TypeVar

    F = TypeVar("F", bound=Callable[..., Any])


def remembered(most: int) -> Callable[[F], F]:
    """Keeps up to `most` answers of a function of positional, hashable arguments; when they are more, it forgets them all."""

    def keep(function: F) -> F:
        known: dict[tuple[Hashable, ...], Any] = {}

        def answer(*arguments: Hashable) -> Any:
            try:
                return known[arguments]
            except KeyError:
                pass
            found = function(*arguments)
            if len(known) >= most:
                known.clear()
            known[arguments] = found
            return found

        answer.__doc__, answer.__name__ = function.__doc__, function.__name__
        answer.__module__ = function.__module__
        return answer  # type: ignore[return-value]

    return keep
