"""A flag table and its parser: argparse would cost more start-up than the rest of the command.

Accepted spellings: ``--name value``, ``--name=value``, a switch by its bare name.  A value that begins with a
dash needs the ``=`` form, so that a forgotten value is noticed.  ``@FILE`` reads more words from a file, one
a line.
"""

from __future__ import annotations

from tileiras.diag import Catalogue, UsageError, suggestion

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

common = Catalogue("tileiras.tools.diags")
diags = Catalogue("tileiras.tools.build.diags")

_NAMED = ("ARCH", "ARCH=FILE", "DIR", "EXE", "FILE", "NAME", "V", "X")  # what an empty word cannot be

SWITCH, ONE, MANY = "switch", "one", "many"


class Flag:
    """One row: spelling, how many values it takes, what it is for, the values it allows."""

    __slots__ = ("choices", "default", "help", "key", "kind", "metavar", "name")

    def __init__(
        self,
        name: str,
        kind: str,
        help: str,
        metavar: str = "",
        choices: tuple[str, ...] = (),
        default: str | None = None,
    ) -> None:
        self.name = name
        self.key = name.lstrip("-").replace("-", "_")  # "kernels_json" for "--kernels-json"
        self.kind = kind
        self.help = help
        self.metavar = metavar
        self.choices = choices
        self.default = default


class Arguments:
    """The values by key: bool for a switch, str or None for one, list for many; `inputs` are the other
    words."""

    def __init__(self) -> None:
        self.inputs: list[str] = []
        self.words: list[str] = []

    def __getattr__(self, name: str):  # type: ignore[no-untyped-def]
        raise AttributeError(name)


def parse(flags: Sequence[Flag], words: Sequence[str]) -> Arguments:
    """`words` read by the table. Errors: UsageError that names the word; code 2 for one that its option does not take."""
    by_name = {flag.name: flag for flag in flags}
    found = Arguments()
    for flag in flags:
        empty: object = {SWITCH: False, ONE: flag.default, MANY: []}[flag.kind]
        setattr(found, flag.key, empty)
    queue = _expand(words)
    found.words = list(queue)
    at = 0
    while at < len(queue):
        word = queue[at]
        at += 1
        if not word.startswith("-") or word == "-":
            found.inputs.append(word)
            continue
        if word == "--":
            found.inputs += queue[at:]
            break
        name, equals, value = word.partition("=")
        if name not in by_name:
            raise UsageError(common.UNKNOWN_OPTION, option=name, hint=suggestion(name, by_name))
        flag = by_name[name]
        if flag.kind == SWITCH:
            if equals:
                raise UsageError(diags.NO_VALUE, option=name)
            setattr(found, flag.key, True)
            continue
        if not equals:
            if at == len(queue) or (queue[at].startswith("-") and queue[at] != "-"):
                raise UsageError(diags.NEEDS_VALUE, option=name)
            value = queue[at]
            at += 1
        if not value and flag.metavar in _NAMED and not flag.choices:
            raise UsageError(diags.EMPTY, option=name)
        if flag.choices and value not in flag.choices:
            raise UsageError(common.CHOICE, option=name, value=value, known=", ".join(flag.choices))
        if flag.kind == ONE:
            setattr(found, flag.key, value)
        else:
            getattr(found, flag.key).append(value)
    return found


def _expand(words: Sequence[str]) -> list[str]:
    queue: list[str] = []
    for word in words:
        if word.startswith("@") and len(word) > 1:
            try:
                with open(word[1:], encoding="utf-8", errors="surrogateescape") as file:
                    queue += [line for line in file.read().splitlines() if line]
            except (OSError, ValueError) as error:
                why = getattr(error, "strerror", None) or str(error)
                raise UsageError(common.CANNOT_READ, path=word[1:], why=why) from error
        else:
            queue.append(word)
    for word in queue:
        if "\0" in word:
            raise UsageError(common.NUL_IN_ARGUMENT, word=word[:80])
    return queue


def help_text(verb: str, synopsis: str, flags: Sequence[Flag]) -> str:
    """The page `--help` prints."""
    rows = []
    for flag in flags:
        value = "" if flag.kind == SWITCH else " " + ("|".join(flag.choices) or flag.metavar or "VALUE")
        again = "..." if flag.kind == MANY else ""
        rows.append((f"{flag.name}{value}{again}", flag.help))
    width = min(40, max(len(left) for left, _ in rows))
    lines = [f"  {left.ljust(width)}  {right}" for left, right in rows]
    return f"usage: tileiras-build {verb} {synopsis}\n\n" + "\n".join(lines)
