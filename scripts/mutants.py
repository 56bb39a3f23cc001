"""The changes that scripts/mutate.py makes: each breaks one place, by the syntax tree of a Python file, or by patterns in C."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

SWAPS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
NAMES = {
    "EXIT_USAGE": "EXIT_COMPILE", "EXIT_COMPILE": "EXIT_BYTECODE", "EXIT_BYTECODE": "EXIT_COMPILE",
    "EXIT_CONFIGURATION": "EXIT_COMPILE", "EXIT_HANDLE_STATE": "EXIT_COMPILE", "EXIT_SUCCESS": "EXIT_COMPILE",
    "WORD_ERROR": "WORD_CONFIG", "WORD_CONFIG": "WORD_ERROR", "WORD_REMARK": "WORD_ERROR", "ERROR": "WARNING",
    "REMARK": "WARNING",
}  # fmt: skip


class Mutant:
    """One change of a file: the line, what it is, and the whole file with it (a tree, or a text for C)."""

    __slots__ = ("kind", "line", "make", "path", "what")

    def __init__(self, path: str, line: int, kind: str, what: str, make: Callable[[], Any]) -> None:
        self.path = path
        self.line = line
        self.kind = kind
        self.what = what
        self.make = make

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.kind}: {self.what}"


# ---- Python


def python_mutants(path: str, source: str) -> Iterator[Mutant]:
    tree = ast.parse(source)
    nodes = list(ast.walk(tree))
    parents: dict[ast.AST, ast.AST] = {child: node for node in nodes for child in ast.iter_child_nodes(node)}
    guarded = {
        inner
        for node in nodes
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }

    def changed(
        index: int, change: Callable[[Any, dict[ast.AST, ast.AST]], None]
    ) -> Callable[[], ast.Module]:
        def make() -> ast.Module:
            other = copy.deepcopy(tree)
            flat = list(ast.walk(other))
            up = {child: node for node in flat for child in ast.iter_child_nodes(node)}
            change(flat[index], up)
            return ast.fix_missing_locations(other)

        return make

    for i, node in enumerate(nodes):
        if node in guarded or annotation(node, parents) or of_class(node, parents):
            continue
        for kind, what, change in changes(node, parents):
            line = node.target.lineno if isinstance(node, ast.comprehension) else getattr(node, "lineno", 0)
            yield Mutant(path, line, kind, what, changed(i, change))


def annotation(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> bool:
    """Whether it is part of a type hint, an import, a docstring, or a list of slots."""
    while node in parents:
        parent = parents[node]
        if isinstance(parent, (ast.Import, ast.ImportFrom)):
            return True
        if isinstance(parent, ast.AnnAssign) and parent.annotation is node:
            return True
        if isinstance(parent, ast.arg) and parent.annotation is node:
            return True
        if isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef)) and parent.returns is node:
            return True
        if isinstance(parent, ast.Expr) and isinstance(node, ast.Constant):
            return True
        if isinstance(parent, ast.Assign) and ast.unparse(parent.targets[0]) in (
            "__slots__",
            "__all__",
            "__match_args__",
        ):
            return True
        node = parent
    return False


def of_class(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> bool:
    """Whether it is run once, when its class is made: members of an enumeration, say."""
    while node in parents and not isinstance(node, ast.FunctionDef):
        node = parents[node]
        if isinstance(node, ast.ClassDef):
            return True
    return False


def changes(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> Iterator[tuple[str, str, Any]]:
    """Each way to break one node: kind, words, and what to do to its copy."""
    parent = parents.get(node)
    if isinstance(node, (ast.If, ast.While, ast.IfExp)):
        yield "negate", f"if {short(node.test)}", negate
    if isinstance(node, ast.comprehension):
        for k, test in enumerate(node.ifs):
            yield "unfiltered", f"if {short(test)}", lambda n, up, k=k: n.ifs.pop(k)
    if isinstance(node, ast.Compare):
        whole = isinstance(parent, (ast.If, ast.While, ast.IfExp)) and len(node.ops) == 1
        for k, op in enumerate(node.ops):
            new = SWAPS.get(type(op))
            bound = isinstance(op, (ast.Lt, ast.LtE, ast.Gt, ast.GtE))
            if new is not None and (bound or not whole):
                yield "compare", short(node), lambda n, up, k=k, new=new: n.ops.__setitem__(k, new())
    if isinstance(node, ast.BoolOp):
        for k, value in enumerate(node.values):
            yield "without", f"{short(value)} in {short(node)}", lambda n, up, k=k: drop_operand(n, up, k)
    if isinstance(node, ast.Constant):
        held: Any = node.value
        if isinstance(held, bool):
            yield "constant", f"{held}", lambda n, up, held=held: setattr(n, "value", not held)
        elif isinstance(held, int):
            new_value = held + 1
            yield "constant", f"{held} in {short(parent)}", lambda n, up, v=new_value: setattr(n, "value", v)
        elif (
            isinstance(held, str)
            and (" " in held.strip() or isinstance(parent, ast.JoinedStr))
            and held.strip()
        ):
            yield "text", repr(held)[:90], lambda n, up, v=held: setattr(n, "value", misspelled(v))
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in NAMES:
        yield "code", f"{node.id} in {short(parent)}", lambda n, up: setattr(n, "id", NAMES[n.id])
    if (
        isinstance(node, ast.Tuple)
        and isinstance(node.ctx, ast.Load)
        and len(node.elts) > 1
        and isinstance(parent, ast.Compare)
    ):
        for k, item in enumerate(node.elts):
            yield "without", f"{short(item)} in {short(parent)}", lambda n, up, k=k: n.elts.pop(k)
    if (
        isinstance(node, ast.UnaryOp)
        and isinstance(node.op, ast.Not)
        and not isinstance(parent, (ast.If, ast.While, ast.IfExp))
    ):
        yield "negate", short(node), lambda n, up: replace(n, n.operand, up)
    dropped = isinstance(node, (ast.Raise, ast.AugAssign, ast.Continue, ast.Break))
    if isinstance(node, ast.Expr) and not isinstance(node.value, ast.Constant):
        dropped = True
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], (ast.Attribute, ast.Subscript)):
        dropped = True
    if isinstance(node, ast.Return) and not last_of_function(node, parents):
        dropped = True
    if dropped:
        yield "drop", short(node), lambda n, up: replace(n, ast.Pass(), up)
    if (
        isinstance(node, ast.BinOp)
        and isinstance(node.op, (ast.Add, ast.Sub))
        and not isinstance(node.right, ast.Constant)
    ):
        yield (
            "sign",
            short(node),
            lambda n, up: setattr(n, "op", ast.Sub() if isinstance(n.op, ast.Add) else ast.Add()),
        )


def last_of_function(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> bool:
    parent = parents.get(node)
    return isinstance(parent, ast.FunctionDef) and parent.body[-1] is node and len(parent.body) == 1


def negate(node: Any, up: dict[ast.AST, ast.AST]) -> None:
    node.test = ast.UnaryOp(ast.Not(), node.test)


def drop_operand(node: Any, up: dict[ast.AST, ast.AST], k: int) -> None:
    node.values[k] = ast.Constant(isinstance(node.op, ast.And))


def replace(node: ast.AST, other: ast.AST, up: dict[ast.AST, ast.AST]) -> None:
    parent = up[node]
    for field, value in ast.iter_fields(parent):
        if value is node:
            setattr(parent, field, other)
        elif isinstance(value, list) and node in value:
            value[value.index(node)] = other


def misspelled(text: str) -> str:
    """One letter changed: never a placeholder's."""
    depth = 0
    for i, char in enumerate(text):
        depth += (char == "{") - (char == "}")
        if depth == 0 and char.isalpha():
            return text[:i] + chr(ord(char) ^ 32) + text[i + 1 :]
    return text + "."


def short(node: ast.AST | None) -> str:
    text = " ".join(ast.unparse(node).split()) if node is not None else ""
    return text if len(text) < 100 else text[:97] + "..."


# ---- C, by lines

C_CHANGES: tuple[tuple[str, str, str], ...] = (
    (r"\bif \((.+)\)$", r"if (!(\1))", "negate"),
    (r"\bif \((.+)\) \{$", r"if (!(\1)) {", "negate"),
    (r"0x([1-5])0([0-9])\b", r"0x\g<1>1\2", "constant"),
    (r"(?<![\w.])([1-9][0-9]*)(?![\w.])", r"(\1 + 1)", "constant"),
    (r"TILEIRAS_ERROR_COMPILE", "TILEIRAS_ERROR_CONFIGURATION", "code"),
    (r"TILEIRAS_ERROR_CONFIGURATION", "TILEIRAS_ERROR_COMPILE", "code"),
    (r"TILEIRAS_ERROR_HANDLE_STATE", "TILEIRAS_ERROR_COMPILE", "code"),
    (r"TILEIRAS_ERROR_ALLOCATION", "TILEIRAS_ERROR_COMPILE", "code"),
    (r"&& ([^&|]+)\)$", ")", "without"),
    (r"\((.*) \|\| ", "(", "without"),
    (
        r"^(  +)((?:memcpy|free|close|pthread_mutex_unlock|posix_spawnattr_set\w+|sigaddset|drop|tileiras_say)\(.*;)$",
        r"\1;",
        "drop",
    ),
    (r"^(  +)([\w>*\[\].-]+(?:\+\+|--);)$", r"\1;", "drop"),
    (r"^(  +)([\w>*\[\].-]+ [+-]?= .*;)$", r"\1;", "drop"),
)


def c_mutants(path: str, source: str) -> Iterator[Mutant]:
    lines = source.split("\n")
    comment = False
    for number, line in enumerate(lines):
        if line.lstrip().startswith("/*"):
            comment = True
        if not comment and not line.startswith(("#", " *", "extern", "static const")):
            for pattern, new, kind in C_CHANGES:
                for found in re.finditer(pattern, line):
                    text = line[: found.start()] + found.expand(new) + line[found.end() :]
                    if text != line:
                        whole = "\n".join([*lines[:number], text, *lines[number + 1 :]])
                        yield Mutant(
                            path, number + 1, kind, f"{line.strip()}  ->  {text.strip()}", partial(str, whole)
                        )
        if "*/" in line:
            comment = False
