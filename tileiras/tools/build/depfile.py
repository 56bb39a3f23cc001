"""Depfiles that GNU Make and Ninja both read back as what was meant.

Escapes: a backslash before blank and ``#``, ``$`` doubled.  A backslash is written as it is, except that a
run of them before an escaped character is doubled: that is Make's rule, and Ninja's.  A newline cannot be
written at all.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


class UnwritableDepfile(ValueError):
    """Something that no depfile can say."""


def escape(path: str) -> str:
    """`path` as one word of a depfile."""
    if "\n" in path or "\r" in path:
        raise UnwritableDepfile(f"a path with a line break cannot stand in a depfile: {path!r}")
    out = []
    backslashes = 0
    for char in path:
        if char == "\\":
            backslashes += 1
            out.append(char)
            continue
        if char in " \t#":
            out.append("\\" * backslashes + "\\" + char)
        elif char == "$":
            out.append("$$")
        else:
            out.append(char)
        backslashes = 0
    if backslashes:
        # A backslash at the end of a word would escape the blank that follows.
        out.append("\\" * backslashes)
    return "".join(out)


def write_depfile(target: str, prerequisites: Iterable[str]) -> str:
    """The text: `target` exactly as the build system spelled it, prerequisites absolute, without repeats."""
    paths = list(dict.fromkeys(os.path.abspath(path) for path in prerequisites))
    if not paths:
        raise UnwritableDepfile("a depfile needs a prerequisite: Ninja would rebuild for ever")
    return f"{escape(target)}: " + " \\\n  ".join(escape(path) for path in paths) + "\n"
