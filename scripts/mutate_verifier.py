#!/usr/bin/env python3
"""Breaks the verifier one check at a time and says which breaks no test notices.

Each mutant is a function whose code is replaced in a forked process that already has everything imported: a check is
deleted, a bound moved by one, an alternative dropped, two neighbouring checks swapped, or a message changed. The tests
of the verifier run until the first failure; a mutant that survives them all is printed with its line.

    scripts/mutate_verifier.py                  all of it, minutes
    scripts/mutate_verifier.py verify_mma       one file
    scripts/mutate_verifier.py --kind=never     deleted checks only (kinds: never, bound, without, before, text)
    scripts/mutate_verifier.py --list           the mutants, without running them

Some survivors are equal to the original (a check that an earlier one already covers): read before writing a test.
"""

from __future__ import annotations

import ast
import copy
import io
import os
import sys
import time
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(REPOSITORY), str(REPOSITORY / "tests")]
PACKAGE = "tileiras.compiler"
FILES = (
    "ir.verify",
    *(f"dialects.cuda_tile.{n}" for n in ("verify", "verify_control", "verify_memory", "verify_mma")),
)
DIAGS = "dialects.cuda_tile.diags"
UNIT = "tests/unit/test_verify_rules.py"
FAMILY = {
    "verify": "arith shapes released",
    "verify_control": "regions control released",
    "verify_memory": "memory released",
    "verify_mma": "mma",
}
ALL = "arith shapes regions control memory mma ladder released"
SWAPS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
}


class Mutant:
    """One change: where, what, and how to make it in this process."""

    def __init__(
        self,
        module: str,
        line: int,
        what: str,
        function: str = "",
        code: CodeType | None = None,
        diag: str = "",
    ) -> None:
        self.module = module
        self.line = line
        self.what = what
        self.function = function
        self.code = code
        self.diag = diag

    def __str__(self) -> str:
        return f"{self.module}:{self.line}: {self.what}"

    def apply(self) -> None:
        module = import_module(f"{PACKAGE}.{self.module}")
        if self.diag:
            getattr(module, self.diag).text += "."
            return
        function = getattr(module, self.function)
        assert isinstance(function, FunctionType) and self.code is not None
        function.__code__ = self.code
        engine: Any = import_module(f"{PACKAGE}.ir.verify")
        for cache in (engine.PASSED, engine.CHECKED_TYPES, engine.CONSTRAINTS):
            cache.clear()


def refuses(body: list[ast.stmt]) -> bool:
    """Whether a branch ends in a refusal."""
    last = body[-1]
    if isinstance(last, ast.Raise):
        return True
    if isinstance(last, ast.Return) and isinstance(last.value, ast.Call):
        return getattr(last.value.func, "id", "") in ("Invalid", "wrong", "broken")
    return (
        isinstance(last, ast.Expr)
        and isinstance(last.value, ast.Call)
        and getattr(last.value.func, "id", "") == "refuse"
    )


def changes(function: ast.FunctionDef) -> Iterator[tuple[int, str, ast.FunctionDef]]:
    """Each way to break a function, as a copy of it."""
    nodes = list(ast.walk(function))

    def variant(index: int, change: Any) -> ast.FunctionDef:
        other = copy.deepcopy(function)
        change(list(ast.walk(other))[index])
        return other

    for i, node in enumerate(nodes):
        if isinstance(node, ast.If) and refuses(node.body):
            yield (
                node.lineno,
                f"never: if {ast.unparse(node.test)}",
                variant(i, lambda n: setattr(n, "test", ast.Constant(False))),
            )
        if isinstance(node, ast.Compare):
            text = ast.unparse(node)
            for k, op in enumerate(node.ops):
                new = SWAPS.get(type(op))
                if new is not None:
                    yield (
                        node.lineno,
                        f"bound: {text}",
                        variant(i, lambda n, k=k, new=new: n.ops.__setitem__(k, new())),
                    )
            right = node.comparators[-1]
            if (
                isinstance(node.ops[-1], (ast.In, ast.NotIn))
                and isinstance(right, ast.Tuple)
                and len(right.elts) > 1
            ):
                for k in range(len(right.elts)):
                    yield (
                        node.lineno,
                        f"without {ast.unparse(right.elts[k])}: {text}",
                        variant(i, lambda n, k=k: n.comparators[-1].elts.pop(k)),
                    )
        if isinstance(node, ast.BoolOp):
            for k in range(len(node.values)):
                what = f"without {ast.unparse(node.values[k])}: {ast.unparse(node)}"
                neutral = ast.Constant(isinstance(node.op, ast.And))
                yield (
                    node.lineno,
                    what,
                    variant(i, lambda n, k=k, neutral=neutral: n.values.__setitem__(k, neutral)),
                )
        for field in ("body", "orelse"):
            block = getattr(node, field, None)
            if not isinstance(block, list):
                continue
            for k in range(len(block) - 1):
                first, second = block[k], block[k + 1]
                if (
                    isinstance(first, ast.If)
                    and isinstance(second, ast.If)
                    and refuses(first.body)
                    and refuses(second.body)
                ):
                    yield (
                        second.lineno,
                        f"before its neighbour: if {ast.unparse(second.test)}",
                        variant(i, lambda n, f=field, k=k: flip(getattr(n, f), k)),
                    )
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("broken", "wrong") and node.args:
            yield node.lineno, f"text: {ast.unparse(node.args[0])[:80]}", variant(i, longer)


def flip(block: list[ast.stmt], k: int) -> None:
    block[k], block[k + 1] = block[k + 1], block[k]


def longer(call: ast.AST) -> None:
    assert isinstance(call, ast.Call)
    call.args[0] = ast.BinOp(call.args[0], ast.Add(), ast.Constant("."))


def mutants(names: list[str]) -> Iterator[Mutant]:
    for name in FILES:
        if names and name not in names and not (name != "ir.verify" and name.rpartition(".")[2] in names):
            continue
        module: Any = import_module(f"{PACKAGE}.{name}")
        path = Path(module.__file__)
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if not isinstance(node, ast.FunctionDef) or node.name in (
                "verify",
                "verify_op",
                "report",
                "verify_or_fail",
                "rules_of",
            ):
                continue
            for line, what, changed in changes(node):
                future = ast.parse("from __future__ import annotations").body
                tree = ast.fix_missing_locations(ast.Module([*future, changed], []))
                code = next(c for c in compile(tree, str(path), "exec").co_consts if isinstance(c, CodeType))
                yield Mutant(name, line, what, node.name, code)
    if not names or "diags" in names:
        module = import_module(f"{PACKAGE}.{DIAGS}")
        for key, value in vars(module).items():
            if type(value).__name__ == "Diag":
                yield Mutant(DIAGS, 0, f"text of {key}", diag=key)


def tests_for(mutant: Mutant | None) -> list[str]:
    """The verifier's tests; those of the mutant's family first, and alone unless the whole engine is concerned."""
    family = mutant is not None and "cuda_tile" in mutant.module and mutant.function != "reword"
    name = mutant.module.rpartition(".")[2] if mutant is not None and family else ""
    return [UNIT, *(f"tests/contract/test_verify_{part}.py" for part in FAMILY.get(name, ALL).split())]


def survives(mutant: Mutant | None) -> bool:
    """Runs the tests in a fork; whether they all pass."""
    child = os.fork()
    if child == 0:
        import pytest

        os.chdir(REPOSITORY)
        try:
            if mutant is not None:
                mutant.apply()
            with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
                flags = ["-q", "-x", "--no-header", "-p", "no:cacheprovider", "-k", "not command"]
                status = pytest.main([*flags, *tests_for(mutant)])
        except BaseException:
            os._exit(70)
        os._exit(int(status))
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) == 0


def main(argv: list[str]) -> int:
    names = [a for a in argv if not a.startswith("-")]
    kinds = [a.partition("=")[2] for a in argv if a.startswith("--kind=")]
    found = [m for m in mutants(names) if not kinds or m.what.startswith(kinds[0])]
    if "--list" in argv:
        print(*found, sep="\n")
        return 0
    import_module("contract.verify_kit")
    if not survives(None):
        print("the tests fail without any change", file=sys.stderr)
        return 1
    start, left = time.monotonic(), []
    for mutant in found:
        if survives(mutant):
            left.append(mutant)
            print(f"survives: {mutant}", flush=True)
    print(f"{len(found) - len(left)} of {len(found)} mutants are noticed ({time.monotonic() - start:.0f} s)")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
