"""``tileiras --explain CODE``: why a diagnostic is given and what to do. Loaded for that alone.

The text stands below the diagnostic's row in the source, as a string that Python drops: cause and remedy, or the code that
shares them (`see: AA-0101`); then an example, a kernel or a script with the lines that are refused and those that take their
place, or after `! ` the reason why no input brings the diagnostic about. `in: NAME` puts it into a kernel of `example_frames.py`.
"""

from __future__ import annotations

import ast
import os

from .example_frames import framed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

UNREACHED = "! "  # begins the one line of a code that has a reason in place of an example
COMMAND = "tileiras k.tileir --gpu-name=sm_90 --emit=ptx"
_BESIDE = ("tileiras.setuptools_ext", "tileiras.nvcc_shim")  # packages that a checkout has in other folders


def _sources() -> Iterator[str]:
    """The text of each module of the package that has rows."""
    from importlib.util import find_spec

    folders = [os.path.dirname(os.path.abspath(__file__))]
    for name in _BESIDE:
        spec = find_spec(name)
        folders += spec.submodule_search_locations or [] if spec else []
    for folder in dict.fromkeys(map(os.path.realpath, folders)):
        for place, _, names in os.walk(folder):
            for name in sorted(names):
                if name.endswith(".py"):
                    with open(os.path.join(place, name), encoding="utf-8") as stream:
                        text = stream.read()
                    if "\ncause: " in text or "\nsee: " in text:
                        yield text


def _told(module: ast.Module) -> Iterator[tuple[str, str]]:
    """(code, the string below its row): rows are `NAME = Diag("TC-0001", ...)`, or of a helper that numbers a room's."""
    prefixes: dict[str, str] = {}
    code = ""
    for statement in module.body:
        value = getattr(statement, "value", None)
        if isinstance(statement, ast.FunctionDef):
            made = statement.body[-1]
            if isinstance(made, ast.Return) and isinstance(made.value, ast.Call) and made.value.args:
                if isinstance(made.value.args[0], ast.JoinedStr):
                    prefixes[statement.name] = made.value.args[0].values[0].value  # type: ignore[assignment]
        elif isinstance(statement, ast.Assign) and isinstance(value, ast.Call) and value.args:
            name, first = getattr(value.func, "id", ""), getattr(value.args[0], "value", None)
            code = (
                f"{prefixes[name]}{first:04d}" if name in prefixes else str(first) if name == "Diag" else ""
            )
        elif isinstance(statement, ast.Expr) and isinstance(value, ast.Constant) and code:
            yield code, str(value.value).strip("\n")
            code = ""


def _parts(text: str) -> tuple[str, str]:
    """(cause and remedy, example), their paragraphs on one line each."""
    above, _, example = text.partition("\n\n")
    said = above.replace("\n", " ").replace(" remedy: ", "\nremedy: ")
    return said, example.replace("\n", " ") if example.startswith(UNREACHED) else framed(example)


def catalogue() -> dict[str, tuple[str, str]]:
    """code -> (the paragraphs `cause: ...` and `remedy: ...`, example)."""
    found = {code: _parts(text) for text in _sources() for code, text in _told(ast.parse(text))}
    return {
        code: (found[said.removeprefix("see: ")][0] if said.startswith("see: ") else said, example)
        for code, (said, example) in sorted(found.items())
    }


def table() -> dict[str, str]:
    """code -> its explanation: the paragraphs `cause: ...` and `remedy: ...`."""
    return {code: said for code, (said, _) in catalogue().items()}


def examples() -> dict[str, str]:
    """code -> lines that begin with `- ` (refused), `+ ` (in their place) or two blanks (both); or one after `! `: why none."""
    return {code: example for code, (_, example) in catalogue().items()}


def sides(example: str) -> tuple[tuple[list[str], str], tuple[list[str], str]]:
    """(commands, kernel) that are refused, and the same with the remedy; the last command is meant, those before prepare it."""
    found = []
    for mark in "-+":
        lines = [line[2:] for line in example.split("\n") if line[:1] in (mark, " ", "")]
        commands = [line[2:] for line in lines if line.startswith("$ ")]
        kernel = "\n".join(line for line in lines if not line.startswith("$ ")) + "\n"
        found.append((commands or [COMMAND], kernel))
    return found[0], found[1]


def explain(code: str) -> tuple[str, str]:
    """(what to print, problem): one of them is empty. Letters of either case will do."""
    known = catalogue()
    by_name = {name.lower(): name for name in known}
    name = by_name.get(code.strip().lower())
    if name is not None:
        said, example = known[name]
        shown = ""
        if example.startswith(UNREACHED):
            shown = f"no example: {example.removeprefix(UNREACHED)}\n"
        elif example:
            shown = f"example; lines with - bring it about, those with + do not:\n{example}\n"
        return f"{name}\n{said}\n{shown}", ""
    from difflib import get_close_matches

    near = get_close_matches(code.strip().lower(), list(by_name), 1, 0.5)
    hint = (
        f"; did you mean {by_name[near[0]]}?" if near else f"; codes look like {next(iter(by_name.values()))}"
    )
    return "", f"no diagnostic has the code '{code}'{hint}"
