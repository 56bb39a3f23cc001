"""A code names one diagnostic."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_no_code_is_given_to_two_diagnostics() -> None:
    found: dict[str, list[str]] = defaultdict(list)
    for path in (ROOT / "tileiras").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.Call)
                and getattr(node.func, "id", "") == "Diag"
                and node.args
                and isinstance(node.args[0], ast.Constant)
                and node.args[0].value
            ):
                found[node.args[0].value].append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert len(found) > 200
    assert {code: where for code, where in found.items() if len(where) > 1} == {}
