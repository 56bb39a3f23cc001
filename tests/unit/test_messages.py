"""What commands and front ends say is said by rows of a catalogue: none is a text at the place where it is raised."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from functools import cache

from tests.unit.test_explain import ROOMS, ROOT, catalogue

# Classes whose text a user reads, and the functions that print one.
RAISED = {
    "BadSettings", "Failed", "Missing", "OptionError", "OutputError", "Refusal", "TestError", "UnwritableDepfile", "Usage",
    "UsageError",
}  # fmt: skip
PRINTED = {"complain", "write", "say", "print", "fail"}
OF_COMMANDS = ("tileiras/tools", "nvcc_shim", "setuptools_ext", "tileiras/run/cutile", "tileiras/pytest.py")

# (file, text) -> why it has no row.
EXCEPTIONS = {
    ("setuptools_ext/pyproject.py", "pyproject.toml: "): "a place before a text that has its own row",
    ("tileiras/pytest.py", "--tileiras-target: "): "a place before a text that has its own row",
    ("tileiras/tools/disasm.py", "error: "): "the words of NVIDIA's disassembler, which has no codes; its reader's note has one",
    ("tileiras/tools/pieces.py", "fatal error: "): "the words of report_fatal_error, behind which nothing may run",
    ("tileiras/tools/pieces.py", ":"): "a difference that --verify-diagnostics finds, at its line",
}  # fmt: skip


@cache
def trees() -> dict[str, ast.Module]:
    return {
        str(path.relative_to(ROOT)): ast.parse(path.read_text())
        for room in ROOMS
        for path in sorted(room.rglob("*.py"))
    }


def literal(node: ast.AST) -> str:
    """The first literal part of a text, or nothing."""
    if isinstance(node, ast.BinOp):
        return literal(node.left) or literal(node.right)
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    return next(
        (
            p.value
            for p in parts
            if isinstance(p, ast.Constant) and isinstance(p.value, str) and p.value.strip()
        ),
        "",
    )


def name_of(call: ast.Call) -> str:
    return getattr(call.func, "id", getattr(call.func, "attr", ""))


def test_nothing_is_raised_with_a_text_of_its_own() -> None:
    found = []
    used = set()
    for file, tree in trees().items():
        if not file.startswith(OF_COMMANDS):
            continue
        for call in (n for n in ast.walk(tree) if isinstance(n, ast.Call) and n.args):
            text = next(filter(None, map(literal, call.args)), "")
            if not text or (
                name_of(call) not in RAISED and not (name_of(call) in PRINTED and "error: " in said(call))
            ):
                continue
            if any(file == place and text.startswith(head) for place, head in EXCEPTIONS):
                used.add(next(key for key in EXCEPTIONS if file == key[0] and text.startswith(key[1])))
            else:
                found.append(f"{file}:{call.lineno}: {text}")
    assert found == []
    assert used == set(EXCEPTIONS)


def said(call: ast.Call) -> str:
    return "".join(
        node.value
        for arg in call.args
        for node in ast.walk(arg)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def rows() -> dict[tuple[str, str], ast.Call]:
    """(file, name) -> the row."""
    return {
        (file, statement.targets[0].id): statement.value
        for file, tree in trees().items()
        for statement in tree.body
        if isinstance(statement, ast.Assign)
        and isinstance(statement.targets[0], ast.Name)
        and isinstance(statement.value, ast.Call)
        and name_of(statement.value) == "Diag"
    }


def test_every_row_is_said_somewhere() -> None:
    names = defaultdict(int)
    for tree in trees().values():
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) or (
                isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
            ):
                names[getattr(node, "attr", getattr(node, "id", ""))] += 1
    assert [key for key in rows() if not names[key[1]]] == []


def test_what_is_said_of_a_catalogue_is_there() -> None:
    """A misspelled row would be an AttributeError when its mistake is made."""
    known = {name for _, name in rows()} | {"unknown_option", "fail", "one"}
    missing = []
    for file, tree in trees().items():
        if not file.startswith(OF_COMMANDS):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") in (
                "diags",
                "common",
                "texts",
                "driver",
            ):
                if node.attr not in known and node.attr.isupper():
                    missing.append(f"{file}:{node.lineno}: {node.attr}")
    assert missing == []


def test_the_facts_are_those_of_the_text() -> None:
    """A fact that is missing would be a KeyError when the mistake is made."""
    by_name = defaultdict(set)
    for (_, name), row in rows().items():
        text = row.args[2]
        if isinstance(text, ast.Constant):
            plain = text.value.replace("{{", "").replace("}}", "")
            by_name[name].add(frozenset(re.findall(r"\{(\w+)", plain)))
    wrong = []
    for file, tree in trees().items():
        for call in (n for n in ast.walk(tree) if isinstance(n, ast.Call) and n.args):
            row = getattr(call.args[0], "attr", "")
            if (
                name_of(call) in RAISED | {"told"}
                and row in by_name
                and not any(k.arg is None for k in call.keywords)
            ):
                given = {k.arg for k in call.keywords} - {"of_line", "exit_code"}
                if given not in by_name[row]:
                    wrong.append(f"{file}:{call.lineno}: {row} takes {by_name[row]}, not {given}")
    assert wrong == []


# Texts of the contract, said by two rules of it.
TWO_RULES = {"error at offset {}: {}", "invalid op: {}", "failed to compile Tile IR program"}


def test_a_text_has_one_code() -> None:
    texts = defaultdict(set)
    for row in rows().values():
        code, text = row.args[0], row.args[2]
        if isinstance(code, ast.Constant) and isinstance(text, ast.Constant):
            shape = re.sub(r"\{\w+[^}]*\}", "{}", text.value)
            if re.search("[a-z]{3}", shape):  # more than a form for texts of others
                texts[shape].add(code.value)
    assert {text for text, codes in texts.items() if len(codes) > 1} == TWO_RULES


def test_the_catalogue_is_whole() -> None:
    assert len(catalogue()) > 500
