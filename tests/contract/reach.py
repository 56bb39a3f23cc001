"""How a rule is reached from the command, and what a test goes through: the table reach.toml, and calls read from the source.

`reach()` gives rule -> (by, because) for the listed ones. `runs_passes_only(test)` follows the names that a test uses
through its file and the kits, without running anything.
"""

from __future__ import annotations

import ast
import functools
from pathlib import Path
from typing import Any

from contract.rules import HERE, TESTS

TABLE = HERE / "reach.toml"
# Names whose use means that a whole compile, the reader or a library ran.
WHOLE = frozenset(
    ("api", "cli", "command", "compile_", "compile_module", "driver", "program", "ptx_of", "reader")
)


@functools.cache
def groups() -> tuple[dict[str, Any], ...]:
    """The table as it stands."""
    try:
        import tomllib
    except ImportError:  # Python 3.10
        import tomli as tomllib
    return tuple(tomllib.loads(TABLE.read_text(encoding="utf-8"))["group"])


def reach() -> dict[str, tuple[str, str]]:
    """Rule -> ("tileiras-opt" or "", why not from the command)."""
    return {name: (group["by"], group["because"]) for group in groups() for name in group["rules"]}


def said(name: str) -> str:
    """The cell of the page: yes, by tileiras-opt only, or no, with the reason."""
    found = reach().get(name)
    if found is None:
        return "yes"
    by, because = found
    return f"by {by} only: {because}" if by else f"no: {because}"


@functools.cache
def _file(path: Path) -> tuple[dict[str, ast.AST], dict[str, tuple[Path, str]]]:
    """Definitions at the top of a file, and what it imports from files beside it."""
    own: dict[str, ast.AST] = {}
    imported: dict[str, tuple[Path, str]] = {}
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            own[node.name] = node
        elif isinstance(node, ast.Assign):
            own.update(
                (name.id, node)
                for target in node.targets
                for name in ast.walk(target)
                if isinstance(name, ast.Name)
            )
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("contract."):
            source = HERE / f"{str(node.module).partition('.')[2]}.py"
            imported.update((alias.asname or alias.name, (source, alias.name)) for alias in node.names)
    return own, imported


def _uses(path: Path, name: str, seen: set[tuple[Path, str]]) -> set[tuple[str, str]]:
    """(file, name) of all that a definition leads to."""
    if (path, name) in seen:
        return set()
    seen.add((path, name))
    own, imported = _file(path)
    if name in imported:
        source, original = imported[name]
        return {(source.stem, original)} | (_uses(source, original, seen) if source.exists() else set())
    if name not in own:
        return {("", name)}
    out = {(path.stem, name)}
    for node in ast.walk(own[name]):
        word: Any = (
            node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else None
        )
        if word:
            out |= _uses(path, word, seen)
    return out


def runs_passes_only(test: str) -> bool:
    """Whether a test, "tests/x/test_y.py::test_z", runs passes on text and nothing that a user starts."""
    file, _, name = test.partition("::")
    found = _uses(TESTS.parent / file, name, set())
    return ("tileas", "run") in found and not WHOLE & {word for place, word in found if place in ("", "kit")}
