"""Which rules of contract.toml a test proves: `@rule("diag-body-size-208")` on a test function.

The catalogue is a copy of the specification's. `covered()` reads the decorators of every test file without importing
it; test_catalogue.py holds it against the catalogue, and scripts/contract_page.py writes docs/reference/contract-rules.md
from both.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

HERE = Path(__file__).resolve().parent
TESTS = HERE.parent
CATALOGUE = HERE / "contract.toml"
OPEN = HERE / "open_rules.txt"

F = TypeVar("F", bound=Callable[..., Any])


def rule(*ids: str) -> Callable[[F], F]:
    """Names the rules that a test proves. Unknown ids fail when the test file is loaded."""
    unknown = [name for name in ids if name not in known()]
    if unknown or not ids:
        raise ValueError(f"no such rule: {unknown}")
    return lambda test: test


_ids: set[str] = set()


def known() -> set[str]:
    """Every id of the catalogue."""
    if not _ids:
        _ids.update(row["id"] for row in catalogue())
    return _ids


def catalogue() -> list[dict[str, Any]]:
    """The rules, in the order of the file."""
    try:
        import tomllib
    except ImportError:  # Python 3.10
        import tomli as tomllib
    return tomllib.loads(CATALOGUE.read_text(encoding="utf-8"))["rule"]


def open_rules() -> list[str]:
    """Rules that no test proves yet."""
    lines = OPEN.read_text(encoding="utf-8").splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def covered() -> dict[str, list[str]]:
    """Rule id -> tests that name it, as `tests/contract/test_x.py::test_y`."""
    found: dict[str, list[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        source = path.read_text(encoding="utf-8")
        if "@rule(" not in source:
            continue
        where = path.relative_to(TESTS.parent).as_posix()
        for node in ast.walk(ast.parse(source)):
            if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) or not node.name.startswith(
                "test_"
            ):
                continue
            for decorator in node.decorator_list:
                if (
                    isinstance(decorator, ast.Call)
                    and isinstance(decorator.func, ast.Name)
                    and decorator.func.id == "rule"
                ):
                    for argument in decorator.args:
                        if isinstance(argument, ast.Constant):
                            found.setdefault(argument.value, []).append(f"{where}::{node.name}")
    return found
