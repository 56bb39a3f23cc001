"""Depfiles that GNU Make and Ninja read back as what was meant.

Both: backslash before blank and ``#``, with a run of backslashes before a blank doubled; ``$`` doubled; any other backslash
as it is. For most names that is one text. Where it is not:

- Ninja takes one backslash more before ``#`` and ``:``, Make the run doubled, and ``\\$`` as it is; a name that
  ends in a backslash is as it is to Ninja (an odd number only in a target), to Make doubled.
- Make alone reads ``;``, line breaks, other control characters, ``|``, ``*``, ``<``, ``>``, ``^`` and a backquote; Ninja before
  1.12 neither ``&``, ``?`` and quotes. What Make would take for something of its own (``;`` ``=`` ``&``) stands in ``$(or ...)``,
  as Make looks for such outside of references only, and a line break is a variable.
- Ninja alone reads ``x(y)``, a member of an archive to Make, and a target with ``=`` or ``%`` as it is.

A depfile for nobody in particular is what Ninja reads, where it can, else what Make reads. All of this was tried with
GNU Make 4.3 and Ninja 1.11; tests/unit/test_depfile.py tries it again.
"""

from __future__ import annotations

import os

from tileiras.diag import Catalogue, Refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tileiras.tools.build.arguments import Arguments

diags = Catalogue("tileiras.tools.build.diags")

READERS = ("both", "make", "ninja")
_COMPILER = os.path.abspath(__file__)
_NEWLINE = "tileiras_newline"
_NO_END = ("\\", " ", "\t", "\r", "\n")
_NINJA_STOPS_AT = "*;<>^`|\x7f" + "".join(map(chr, range(1, 32)))


class UnwritableDepfile(Refusal, ValueError):
    """Something that a depfile cannot say."""


def escape(path: str) -> str:
    """`path` as one word of a depfile for nobody in particular. Errors: UnwritableDepfile."""
    try:
        return for_ninja(path, False)
    except UnwritableDepfile:
        if "\n" in path:  # a rule that is completed by others has no place for a variable
            raise
        return for_make(path, False)


def for_ninja(path: str, is_target: bool) -> str:
    """`path` as one word for Ninja. Errors: UnwritableDepfile."""
    _refuse(path, "Ninja", ((_name(char), char in path) for char in _NINJA_STOPS_AT))
    backslashes = len(path) - len(path.rstrip("\\"))
    if not is_target:
        _refuse(path, "Ninja", [("an odd number of backslashes at its end", backslashes % 2 == 1)])
        _refuse(path, "Ninja", [("a colon at its end", path.endswith(":"))])
    return _escaped(path, {" ": "\\ ", "$": "$$"}, " ", {"#": "\\#", ":": "\\:"}, True)


def for_make(path: str, is_target: bool) -> str:
    """`path` as one word of a rule of GNU Make. Errors: UnwritableDepfile."""
    inside = path.find("(", 1)
    _refuse(
        path,
        "Make",
        [
            ("the form of an archive's member", 0 < inside < len(path) - 2 and path.endswith(")")),
            ("a tabulator", is_target and "\t" in path),
            ("a percent sign", is_target and "%" in path),
            ("the home of a user in front", os.path.expanduser(path) != path),
            ("a backslash before a line break", "\\\n" in path),
            ("a line break at an end", is_target and path.strip("\n") != path),
        ],
    )
    special = {char: "\\" + char for char in (" #:" if is_target else " \t#:*?[|")}
    word = _escaped(path, {**special, ";": "$(or \\;)"}, "".join(special) + ";",
                    {"$": "$$", "=": "$(or =)", "\n": f"$({_NEWLINE})"})  # fmt: skip
    if is_target and word.endswith("&"):
        word = word[:-1] + "$(or &)"
    if word.endswith((" ", "\t")):
        word += "$(or )"
    return word + "\\" * (len(path) - len(path.rstrip("\\")))


def _escaped(
    path: str, special: dict[str, str], doubling: str, plain: dict[str, str], literal_dollar: bool = False
) -> str:
    """`path` with characters replaced; a run of backslashes before one of `doubling` is doubled."""
    out = []
    backslashes = 0
    for char in path:
        if char in doubling:
            out.append("\\" * backslashes)
        word = special.get(char) or plain.get(char) or char
        out.append("$" if word == "$$" and backslashes and literal_dollar else word)
        backslashes = backslashes + 1 if char == "\\" else 0
    return "".join(out)


def _refuse(path: str, reader: str, found: Iterable[tuple[str, bool]]) -> None:
    if "\0" in path:
        raise UnwritableDepfile(diags.DEPFILE_PATH, path=path)
    for what, is_there in found:
        if is_there:
            raise UnwritableDepfile(diags.DEPFILE_READER, reader=reader, what=what, path=path)


def _name(char: str) -> str:
    named = {"\n": "a line break", "\t": "a tabulator", ";": "a semicolon"}.get(char)
    return named or (repr(char) if " " < char < "\x7f" else "a control character")


def text_of(arguments: Arguments, output: str, prerequisites: Iterable[str]) -> bytes:
    """The depfile that a verb's line asks for, nothing where it does not. Errors: UnwritableDepfile."""
    if not arguments.depfile:
        return b""
    text = write_depfile(arguments.depfile_target or output, prerequisites, arguments.depfile_for)
    return text.encode("utf-8", "surrogateescape")


def write_depfile(target: str, prerequisites: Iterable[str], reader: str | None = None) -> str:
    """The text: `target` exactly as the build system spelled it, prerequisites absolute, without repeats.

    `reader`: "make" or "ninja" for what that one reads; without, what both do, or else one of them.
    Errors: UnwritableDepfile, a ValueError.
    """
    paths = list(dict.fromkeys(os.path.abspath(path) for path in prerequisites))
    if not paths:
        raise UnwritableDepfile(diags.DEPFILE_EMPTY)
    if reader == "make":
        return _for_make(target, paths)
    try:
        return _for_ninja(target, paths)
    except UnwritableDepfile as problem:
        if reader == "ninja":
            raise
        try:
            return _for_make(target, paths)
        except UnwritableDepfile as other:
            if str(problem) == str(other):
                raise
            raise UnwritableDepfile(diags.DEPFILE_BOTH, ninja=problem, make=other) from None


def _for_ninja(target: str, paths: list[str]) -> str:
    if "=" in paths[0]:  # Make would read `out: a=b` as a variable of its own
        paths = _with(paths, lambda path: "=" not in path, 0)
    return _rule(for_ninja(target, True), [for_ninja(path, False) for path in paths])


def _for_make(target: str, paths: list[str]) -> str:
    if paths[-1].endswith(_NO_END):  # these end a name only where another one follows
        paths = _with(paths, lambda path: not path.endswith(_NO_END), len(paths))
    text = _rule(for_make(target, True), [for_make(path, False) for path in paths])
    return f"define {_NEWLINE}\n\n\nendef\n{text}" if _NEWLINE in text else text


def _with(paths: list[str], fits: Callable[[str], bool], place: int) -> list[str]:
    """`paths` with one that fits at a place: one of them, or else what the output does depend on as well."""
    for path in (*paths, _COMPILER, os.__file__):
        if fits(path):
            paths = [other for other in paths if other != path]
            paths.insert(place, path)
            break
    return paths


def _rule(target: str, words: list[str]) -> str:
    return f"{target}: " + " \\\n  ".join(words) + "\n"
