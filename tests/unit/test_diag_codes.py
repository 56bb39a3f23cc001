"""A code names one diagnostic."""

from __future__ import annotations

import ast
import importlib
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_no_code_is_given_to_two_diagnostics() -> None:
    found: dict[str, list[str]] = defaultdict(list)
    for path in (ROOT / "tileiras").rglob("*.py"):
        text = path.read_text()
        for node in ast.walk(ast.parse(text)) if "Diag(" in text else ():
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


def test_rows_that_are_asked_for_by_name_are_there() -> None:
    """A catalogue is a module that is loaded when a row is needed: a name that it has not is an exception for the user."""
    asked = 0
    for room, package in (
        ("tileiras", "tileiras"),
        ("nvcc_shim", "tileiras.nvcc_shim"),
        ("setuptools_ext", "tileiras.setuptools_ext"),
    ):
        for path in (ROOT / room).rglob("*.py"):
            text = path.read_text()
            if "Catalogue(" not in text:
                continue
            tree = ast.parse(text)
            catalogues: dict[str, list[object]] = defaultdict(list)
            for node in ast.walk(tree):
                call = getattr(node, "value", None)
                if (
                    isinstance(node, ast.Assign)
                    and getattr(getattr(call, "func", None), "id", "") == "Catalogue"
                ):
                    named = call.args[0]
                    module = named.value if isinstance(named, ast.Constant) else f"{package}.diags"
                    catalogues[ast.unparse(node.targets[0])].append(importlib.import_module(str(module)))
            for node in ast.walk(tree):  # what a function imports under the same name
                if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                    for name in {alias.name for alias in node.names} & {"diags"} & set(catalogues):
                        catalogues[name].append(importlib.import_module(f"{node.module}.{name}"))
            for node in ast.walk(tree):
                if isinstance(node, ast.Attribute) and ast.unparse(node.value) in catalogues:
                    asked += 1
                    known = catalogues[ast.unparse(node.value)]
                    assert any(hasattr(one, node.attr) for one in known), f"{path}:{node.lineno}: {node.attr}"
    assert asked > 400
