"""Depfiles that GNU Make and Ninja both read back as what was meant.

Escapes: a backslash before blank, ``#``, ``:`` and ``|``, ``$`` doubled.  A backslash is written as it is, except
that a run of them before an escaped character is doubled: that is Make's rule, and Ninja's.  A newline, a semicolon
and a backslash at the end cannot be written at all.  Make takes ``out: a=b`` for a variable of its own, but only
where the first word has the ``=``.

No text means a target with ``=`` or ``%`` to both: Ninja takes it as it is, Make reads a variable or a pattern. Names with
``|``, ``*`` and ``?`` Ninja cannot read at all. ``--depfile-for make`` writes what Make alone reads.
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
    return _escaped(path, " \t#:|")


def escape_for_make(path: str, is_target: bool) -> str:
    """`path` as one word of a rule of GNU Make: a target or a prerequisite."""
    word = _escaped(path, " \t#:%" if is_target else " \t#:|*?[")
    word = word.replace("=", "$(or =)")  # Make looks for assignments outside of references only
    return "$(or ~)" + word[1:] if word.startswith("~") else word


def _escaped(path: str, special: str) -> str:
    _refuse(path)
    out = []
    backslashes = 0
    for char in path:
        if char == "\\":
            backslashes += 1
            out.append(char)
            continue
        if char in special:
            out.append("\\" * backslashes + "\\" + char)
        else:
            out.append("$$" if char == "$" else char)
        backslashes = 0
    return "".join(out)


def _refuse(path: str) -> None:
    for what, found in (
        ("a line break", "\n" in path or "\r" in path),
        ("a NUL", "\0" in path),
        ("a semicolon", ";" in path),
        ("a backslash at its end", path.endswith("\\")),
    ):
        if found:
            raise UnwritableDepfile(f"a path with {what} cannot stand in a depfile: {path!r}")


def write_depfile(target: str, prerequisites: Iterable[str], reader: str | None = None) -> str:
    """The text: `target` exactly as the build system spelled it, prerequisites absolute, without repeats.

    `reader`: "make" for names that not both Make and Ninja can read.
    """
    paths = list(dict.fromkeys(os.path.abspath(path) for path in prerequisites))
    if not paths:
        raise UnwritableDepfile("a depfile needs a prerequisite: Ninja would rebuild for ever")
    if reader == "make":
        words = " \\\n  ".join(escape_for_make(path, False) for path in paths)
        return f"{escape_for_make(target, True)}: {words}\n"
    if "=" in paths[0]:
        # Something that the output does depend on: the compiler, the interpreter.
        for plain in (*paths, _COMPILER, os.__file__):
            if "=" not in plain:
                paths = list(dict.fromkeys([plain, *paths]))
                break
    return f"{escape(target)}: " + " \\\n  ".join(escape(path) for path in paths) + "\n"
