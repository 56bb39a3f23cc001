"""``tileiras --explain CODE``: why a diagnostic is given and what to do. Loaded for that alone.

Causes and remedies stand in explanations.txt, examples in examples.txt: a kernel or a script with the lines that are refused
and those that take their place, or the reason why no input brings the diagnostic about.
"""

from __future__ import annotations

import os

UNREACHED = "! "  # begins the one line of a code that has a reason in place of an example
COMMAND = "tileiras k.tileir --gpu-name=sm_90 --emit=ptx"


def _sections(name: str) -> dict[str, str]:
    """code -> what stands below it in a file of this package."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), name)
    with open(path, encoding="utf-8") as stream:
        text = stream.read()
    found: dict[str, str] = {}
    for section in text.split("\n[")[1:]:
        codes, _, body = section.partition("]")
        for code in codes.split():
            found[code] = body.strip("\n")
    return found


def table() -> dict[str, str]:
    """code -> its explanation: the paragraphs `cause: ...` and `remedy: ...`."""
    return _sections("explanations.txt")


def examples() -> dict[str, str]:
    """code -> lines that begin with `- ` (refused), `+ ` (in their place) or two blanks (both); or one after `! `: why none."""
    return _sections("examples.txt")


def sides(example: str) -> tuple[tuple[str, str], tuple[str, str]]:
    """(command, kernel) that is refused, and the same with the remedy."""
    found = []
    for mark in "-+":
        lines = [line[2:] for line in example.split("\n") if line[:1] in (mark, " ", "")]
        commands = [line[2:] for line in lines if line.startswith("$ ")]
        kernel = "\n".join(line for line in lines if not line.startswith("$ ")) + "\n"
        found.append((commands[0] if commands else COMMAND, kernel))
    return found[0], found[1]


def explain(code: str) -> tuple[str, str]:
    """(what to print, problem): one of them is empty. Letters of either case will do."""
    known = table()
    by_name = {name.lower(): name for name in known}
    name = by_name.get(code.strip().lower())
    if name is not None:
        example = examples().get(name, "")
        shown = ""
        if example.startswith(UNREACHED):
            shown = f"no example: {example.removeprefix(UNREACHED)}\n"
        elif example:
            shown = f"example, said with -, not with +:\n{example}\n"
        return f"{name}\n{known[name]}\n{shown}", ""
    from difflib import get_close_matches

    near = get_close_matches(code.strip().lower(), list(by_name), 1, 0.5)
    hint = f"; did you mean {by_name[near[0]]}?" if near else f"; codes look like {next(iter(known))}"
    return "", f"no diagnostic has the code '{code}'{hint}"
