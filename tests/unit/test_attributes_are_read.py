"""No attribute is written that nobody reads: the compiler's sources, names written against names that stand anywhere else."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2] / "tileiras"
MAKERS = {"create", "make", "put", "append", "build", "Op"}


def is_attrs(node: ast.AST) -> bool:
    return (isinstance(node, ast.Attribute) and node.attr == "attrs") or (
        isinstance(node, ast.Name) and node.id in ("attrs", "attributes")
    )


def written(tree: ast.AST) -> list[ast.Constant]:
    """The names in `op.attrs[NAME] =`, `{**op.attrs, NAME: ..}` and `create(.., {NAME: ..})`."""
    dicts = []
    found: list[ast.expr | None] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict) and any(
            k is None and is_attrs(v) for k, v in zip(node.keys, node.values)
        ):
            dicts.append(node)
        elif isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            values = [*node.args, *(k.value for k in node.keywords)]
            dicts += [v for v in values if isinstance(v, ast.Dict) and name in MAKERS]
        elif isinstance(node, ast.Assign):
            found += [t.slice for t in node.targets if isinstance(t, ast.Subscript) and is_attrs(t.value)]
    found += [key for d in dicts for key in d.keys]
    return [key for key in found if isinstance(key, ast.Constant) and isinstance(key.value, str)]


def unread(sources: dict[str, str]) -> dict[str, list[str]]:
    """Names that are written and stand nowhere else -> where."""
    writes: dict[str, list[str]] = defaultdict(list)
    elsewhere: set[str] = set()
    for file, source in sources.items():
        tree = ast.parse(source)
        keys = {id(key): key for key in written(tree)}
        for key in keys.values():
            writes[key.value].append(f"{file}:{key.lineno}")
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in keys:
                elsewhere.add(node.value)
    assert len(writes) > 40 or len(sources) < 3
    return {name: where for name, where in writes.items() if name not in elsewhere}


def test_every_attribute_that_is_written_is_read_or_in_an_op_table() -> None:
    files = (ROOT / "compiler").rglob("*.py")
    assert unread({str(p.relative_to(ROOT)): p.read_text() for p in files}) == {}


def test_one_that_nobody_reads_is_found() -> None:
    source = 'op.attrs = {**op.attrs, "read": 1, "lost": 2}\nop.attrs["gone"] = 3\nx = op.attr("read")\n'
    assert unread({"a.py": source}) == {"lost": ["a.py:1"], "gone": ["a.py:2"]}
