"""Depfiles that GNU Make and Ninja both read back as what was meant.

Escapes: a backslash before blank, ``#``, ``:`` and ``|``, ``$`` doubled.  A backslash is written as it is, except
that a run of them before an escaped character is doubled: that is Make's rule, and Ninja's.  A newline, a semicolon
and a backslash at the end cannot be written at all.  Make takes ``out: a=b`` for a variable of its own, but only
where the first word has the ``=``.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


_COMPILER = os.path.abspath(__file__)


class UnwritableDepfile(ValueError):
    """Something that no depfile can say."""


def escape(path: str) -> str:
    """`path` as one word of a depfile."""
    for what, found in (
        ("a line break", "\n" in path or "\r" in path),
        ("a NUL", "\0" in path),
        ("a semicolon", ";" in path),
        ("a backslash at its end", path.endswith("\\")),
    ):
        if found:
            raise UnwritableDepfile(f"a path with {what} cannot stand in a depfile: {path!r}")
    out = []
    backslashes = 0
    for char in path:
        if char == "\\":
            backslashes += 1
            out.append(char)
            continue
        if char in " \t#:|":
            out.append("\\" * backslashes + "\\" + char)
        elif char == "$":
            out.append("$$")
        else:
            out.append(char)
        backslashes = 0
    return "".join(out)


def write_depfile(target: str, prerequisites: Iterable[str]) -> str:
    """The text: `target` exactly as the build system spelled it, prerequisites absolute, without repeats."""
    paths = list(dict.fromkeys(os.path.abspath(path) for path in prerequisites))
    if not paths:
        raise UnwritableDepfile("a depfile needs a prerequisite: Ninja would rebuild for ever")
    if "=" in paths[0]:
        # Something that the output does depend on: the compiler, the interpreter.
        for plain in (*paths, _COMPILER, os.__file__):
            if "=" not in plain:
                paths = list(dict.fromkeys([plain, *paths]))
                break
    return f"{escape(target)}: " + " \\\n  ".join(escape(path) for path in paths) + "\n"
