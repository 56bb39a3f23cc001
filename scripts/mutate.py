#!/usr/bin/env python3
"""Breaks the checked code one change at a time and says which changes no test notices.

    scripts/mutate.py                              every file below, hours
    scripts/mutate.py tileiras/driver.py           one file (or several)
    scripts/mutate.py --kind=text tileiras/driver.py
    scripts/mutate.py --every=5 --seed=1           a fifth of the changes, drawn by chance
    scripts/mutate.py --list tileiras/outputs.py   the changes, without running them

A condition is negated, a bound moved by one, an alternative or a statement dropped, a constant, an exit code or a
letter of a message changed; in C the same by patterns. The tests of a file are collected once, in a process that has
everything loaded; they run to learn which of them reach which line, and each change is made in a fork that runs those
until the first failure. What runs in processes of its own must find the change on disk: files of the command and of the
C library are changed in a copy of the tracked files, and all of their tests run there.

Some survivors are equal to the original (a check that an earlier one covers): read before writing a test.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from mutants import Mutant, c_mutants, python_mutants

REPOSITORY = Path(__file__).resolve().parents[1]
CONTRACT = "tests/contract/test_"
UNIT = "tests/unit/test_"


def tests(contract: str = "", unit: str = "") -> tuple[str, ...]:
    return (*(f"{CONTRACT}{n}.py" for n in contract.split()), *(f"{UNIT}{n}.py" for n in unit.split()))


LADDER = "layers passes handshake nvvm verify_ladder exit_codes"
VERIFY = "verify_arith verify_shapes verify_regions verify_control verify_memory verify_mma verify_released verify_ladder"
READER = tests(
    "bytecode exit_codes malformed_bytecode", "bytecode_container bytecode_roundtrip bytecode_fuzz"
)
COMMAND = tests("malformed_commands exit_codes driver", "outputs cli_flags")
# File or folder, and the tests that are to notice; the first entry that fits counts.
ROOMS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "tileiras/diag.py",
        tests("diag_engine diag_record diag_classes exit_codes malformed_commands verify_ladder"),
    ),
    ("tileiras/capi/record.py", tests("diag_record capi")),
    ("tileiras/capi/", tests("capi capi_hosts")),
    ("tileiras/serve.py", tests("capi capi_hosts", "serve")),
    ("tileiras/program.py", tests("exit_codes diag_record driver diag_engine")),
    (
        "tileiras/driver.py",
        tests("driver exit_codes frontend_shell nvvm layers malformed_commands", "compiler_regressions"),
    ),
    ("tileiras/outputs.py", COMMAND),
    ("tileiras/signals.py", COMMAND),
    ("tileiras/cli.py", COMMAND),
    ("tileiras/options.py", COMMAND),
    ("tileiras/compiler/bytecode/", READER),
    ("tileiras/compiler/ir/verify.py", tests(VERIFY, "verify_rules")),
    ("tileiras/compiler/ir/passes.py", tests("passes layers handshake", "pass_manager")),
    ("tileiras/compiler/dialects/cuda_tile/verify", tests(VERIFY, "verify_rules")),
    ("tileiras/compiler/dialects/cuda_tile/dense.py", tests(VERIFY, "verify_rules")),
    ("tileiras/compiler/dialects/cuda_tile/hints.py", tests("", "verify_hints")),
    ("tileiras/compiler/dialects/", tests(f"{LADDER} {VERIFY}", "verify_rules verify_tensors")),
    ("tileiras/compiler/passes/", tests(LADDER + " handshake_reasons launch_bounds")),
    ("tileiras/compiler/nvvm/", tests(LADDER + " frontend_shell", "verify_tensors")),
)
OUTSIDE = (
    "tileiras/cli.py",
    "tileiras/outputs.py",
    "tileiras/signals.py",
    "tileiras/serve.py",
    "tileiras/options.py",
)
DEFAULT = (
    *(f"tileiras/{n}.py" for n in ("diag", "driver", "options", "outputs", "signals", "cli", "program", "serve")),
    "tileiras/capi/record.py", "tileiras/capi/tileiras.c", "tileiras/capi/worker.c",
    *(f"tileiras/compiler/bytecode/{n}.py" for n in ("wire", "reader", "read_tables", "read_body", "plan")),
    "tileiras/compiler/ir/verify.py", "tileiras/compiler/ir/passes.py", "tileiras/compiler/nvvm/verify.py",
    "tileiras/compiler/nvvm/sizer.py", "tileiras/compiler/nvvm/directives.py",
    *(f"tileiras/compiler/dialects/cuda_tile/{n}.py" for n in (
        "verify", "verify_control", "verify_memory", "verify_mma", "diags")),
    *(f"tileiras/compiler/dialects/{n}/verify.py" for n in ("nv_tileaa", "nv_tileas", "cute", "cute_nvgpu")),
    *(f"tileiras/compiler/passes/tileas/{n}.py" for n in (
        "lower_tma", "lower_pipelines", "materialize_async", "materialize_convert_layout", "materialize_schedule",
        "modulo_schedule", "operation_analysis", "optimize_pipeline_region", "pipeline_loop", "schedule_analysis",
        "unspecialized_pipeline")),
    "tileiras/compiler/passes/tileaa/agent_verifier.py", "tileiras/compiler/passes/conversions.py",
    *(f"tileiras/compiler/passes/nvvm/{n}.py" for n in ("ir_verifier", "kernel_attr", "module_verifier")),
)  # fmt: skip
SECONDS = 30  # of one change: a loop without end is noticed, too


class Copy:
    """The tracked files in a folder of their own, and processes that run tests there."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="tileiras-mutants-"))
        listed = subprocess.run(
            ["git", "ls-files", "-z"], cwd=REPOSITORY, capture_output=True, text=True, check=True
        )
        for name in filter(None, listed.stdout.split("\0")):
            source, target = REPOSITORY / name, self.folder / name
            if source.is_file():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, target)
        subprocess.run(
            [sys.executable, "-m", "compileall", "-q", "tileiras", "tests/contract", "tests/unit"],
            cwd=self.folder,
            check=False,
        )
        subprocess.run(["git", "init", "-q"], cwd=self.folder, check=False)

    def run(self, names: list[str], body: Callable[[list[str]], int]) -> int:
        """Runs `body` on pytest's words in a fork, silently; its status, 124 when it took too long."""
        child = os.fork()
        if child == 0:
            os.setpgid(0, 0)
            os.chdir(self.folder)
            sys.path[:0] = [str(self.folder), str(self.folder / "tests")]
            os.environ.update(PYTHONDONTWRITEBYTECODE="1", PYTHONPATH=str(self.folder))
            sys.dont_write_bytecode = True
            with open(os.devnull, "r+") as null:
                for stream in range(3):
                    os.dup2(null.fileno(), stream)
            flags = [
                "-q",
                "-x",
                "--no-header",
                "-p",
                "no:cacheprovider",
                "-p",
                "no:randomly",
                "--rootdir",
                str(self.folder),
            ]
            try:
                status = body([*flags, *names])
            except BaseException:
                status = 70
            os._exit(int(status))
        end = time.monotonic() + SECONDS
        while True:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                result = os.waitstatus_to_exitcode(status)
                break
            if time.monotonic() > end:
                os.killpg(child, signal.SIGKILL)
                os.waitpid(child, 0)
                return 124
            time.sleep(0.01)
        try:
            os.killpg(child, signal.SIGKILL)  # what it started
        except ProcessLookupError:
            pass
        return result

    def survives(self, mutant: Mutant, names: list[str]) -> bool:
        """Whether the tests pass with the change."""
        path = self.folder / mutant.path
        kept = path.read_bytes()
        cached = list((path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"))
        for old in cached:
            old.unlink()
        try:
            made = mutant.make()
            path.write_text(made if isinstance(made, str) else ast.unparse(made), encoding="utf-8")

            def body(words: list[str]) -> int:
                import pytest

                return int(pytest.main(words))

            return self.run(names, body) == 0
        finally:
            path.write_bytes(kept)


class Loaded:
    """A pytest plugin: the tests are collected, and every change is tried on them in a fork."""

    def __init__(self, mutants: dict[str, list[Mutant]], tell: Callable[[Mutant | None, str], None]) -> None:
        self.mutants = mutants
        self.tell = tell
        self.spans = {
            path: function_span((REPOSITORY / path).read_text(encoding="utf-8")) for path in mutants
        }
        # Who reads a name of a module: files of its folder. It means what its readers make of it.
        folders = {(REPOSITORY / path).parent for path in mutants}
        self.watched = sorted(
            str(path.relative_to(REPOSITORY)) for folder in folders for path in folder.glob("*.py")
        )
        self.readers: dict[str, set[tuple[str, int]]] = {}
        for path in self.watched:
            for node in ast.walk(ast.parse((REPOSITORY / path).read_text(encoding="utf-8"))):
                name = getattr(node, "id", None) or getattr(node, "attr", None)
                if isinstance(name, str) and isinstance(node, (ast.Name, ast.Attribute)):
                    places = {(path, line) for line in range(node.lineno - 3, node.lineno + 1)}
                    self.readers.setdefault(name, set()).update(places)

    def pytest_runtestloop(self, session: Any) -> bool:
        items = {item.nodeid: item for item in session.items}
        reached, good = self.reached(list(items.values()))
        for path, mutants in self.mutants.items():
            names_of = assigned((REPOSITORY / path).read_text(encoding="utf-8"))
            for mutant in mutants:
                span = self.spans[path].get(mutant.line)
                exact = reached.get((path, mutant.line)) if span is not None else None
                near = exact or {t: None for n in span or () for t in reached.get((path, n), {})}
                if span is None:
                    places = self.readers.get(names_of.get(mutant.line, ""), set())
                    near = {t: None for place in sorted(places) for t in reached.get(place, {})}
                chosen = [items[name] for name in near if name in good][:300]
                if not chosen:
                    self.tell(mutant, "no test reaches")
                else:
                    self.tell(mutant, "survives" if self.survives(mutant, chosen) else "")
        return True

    def reached(self, items: list[Any]) -> tuple[dict[tuple[str, int], dict[str, None]], set[str]]:
        """(file, line) -> the tests that execute it, fastest first; and the tests that pass."""
        watched = {str(REPOSITORY / path): path for path in self.watched}
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            quiet()
            found: dict[tuple[str, int], dict[str, None]] = {}
            test = ""

            def trace(frame: FrameType, event: str, argument: Any) -> Any:
                path = watched.get(frame.f_code.co_filename)
                if path is None:
                    return None
                mark = test

                def local(frame: FrameType, event: str, argument: Any) -> Any:
                    found.setdefault((path, frame.f_lineno), {})[mark] = None
                    return local

                return local(frame, event, argument)

            seconds: dict[str, float] = {}
            with os.fdopen(write, "w") as out:
                runs = passing(items)
                for item in items:
                    test = item.nodeid
                    start = time.monotonic()
                    sys.settrace(trace)
                    threading.settrace(trace)
                    passes = next(runs)[1]
                    sys.settrace(None)
                    if passes:
                        seconds[test] = time.monotonic() - start
                out.write("\t".join(sorted(seconds, key=seconds.__getitem__)) + "\n")
                for (path, line), names in found.items():
                    fast = sorted(names, key=lambda name: seconds.get(name, 1e9))
                    out.write("\t".join([path, str(line), *fast]) + "\n")
            os._exit(0)
        os.close(write)
        with os.fdopen(read) as lines:
            good = next(lines, "").rstrip("\n").split("\t")
            rows = [line.rstrip("\n").split("\t") for line in lines]
        os.waitpid(child, 0)
        failing = [item.nodeid for item in items if item.nodeid not in good]
        if failing:
            self.tell(None, f"left out, they fail without any change: {' '.join(failing[:9])}")
        return {(row[0], int(row[1])): dict.fromkeys(row[2:]) for row in rows}, set(good)

    def survives(self, mutant: Mutant, items: list[Any]) -> bool:
        tree = mutant.make()

        def body() -> int:
            apply(mutant, tree)
            return int(not all(passes for _, passes in passing(items)))

        return forked(body) == 0


def assigned(source: str) -> dict[int, str]:
    """Line -> the name of the module that gets its value there."""
    found: dict[int, str] = {}
    for node in ast.parse(source).body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if isinstance(target, ast.Name):
            found.update(dict.fromkeys(range(node.lineno, (node.end_lineno or node.lineno) + 1), target.id))
    return found


def quiet() -> None:
    with open(os.devnull, "r+") as null:
        for stream in range(3):
            os.dup2(null.fileno(), stream)


def passing(items: list[Any]) -> Iterator[tuple[Any, bool]]:
    """Each collected test, and whether it passes."""
    from _pytest.runner import runtestprotocol

    for item, following in zip(items, [*items[1:], None]):
        yield item, all(r.outcome != "failed" for r in runtestprotocol(item, nextitem=following, log=False))


def forked(body: Callable[[], int]) -> int:
    """The status of a function in a process of its own, 124 when it takes too long."""
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        quiet()
        try:
            status = body()
        except BaseException:
            status = 70
        os._exit(status)
    end = time.monotonic() + SECONDS
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done or time.monotonic() > end:
            break
        time.sleep(0.005)
    try:
        os.killpg(child, signal.SIGKILL)  # itself, or what it started
    except ProcessLookupError:
        pass
    if not done:
        os.waitpid(child, 0)
        return 124
    return os.waitstatus_to_exitcode(status)


def apply(mutant: Mutant, tree: ast.Module) -> None:
    """Makes the change in this process: in the code of the function it is in, or in the value of a name of the module."""
    name = mutant.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    module: Any = importlib.import_module(name)
    code = compile(tree, str(REPOSITORY / mutant.path), "exec")
    holder: Any = module
    for node in tree.body:
        if not node.lineno <= mutant.line <= (node.end_lineno or node.lineno):
            continue
        while isinstance(node, ast.ClassDef):
            code = next(c for c in code.co_consts if isinstance(c, CodeType) and c.co_name == node.name)
            holder = vars(holder)[node.name]
            inner = [n for n in node.body if n.lineno <= mutant.line <= (n.end_lineno or n.lineno)]
            node = inner[0] if inner else ast.Pass()
        if isinstance(node, ast.FunctionDef):
            new = next(c for c in code.co_consts if isinstance(c, CodeType) and c.co_name == node.name)
            function = vars(holder)[node.name]
            function = getattr(function, "fget", None) or getattr(function, "__func__", function)
            inspect.unwrap(function).__code__ = new
        elif holder is module:
            change_value(module, node)
        break
    for other in list(sys.modules.values()):  # what a check has answered already
        if getattr(other, "__name__", "").startswith("tileiras.compiler.ir.verify"):
            for cache in ("PASSED", "CHECKED_TYPES", "CONSTRAINTS"):
                getattr(other, cache).clear()


def change_value(module: Any, node: ast.stmt) -> None:
    """Names of the module get their values anew, everywhere they were imported to; an object keeps its identity."""
    before = dict(vars(module))
    exec(compile(ast.Module([node], []), module.__file__, "exec"), vars(module))
    for name, old in before.items():
        new = vars(module)[name]
        if new is old:
            continue
        slots = [s for kind in type(old).__mro__ for s in getattr(kind, "__slots__", ())]
        if slots and type(old).__name__ in ("Diag", "Loc"):
            for slot in slots:
                setattr(old, slot, getattr(new, slot))
            setattr(module, name, old)
            continue
        for other in list(sys.modules.values()):
            if getattr(other, "__dict__", {}).get(name) is old:
                setattr(other, name, new)


def tests_of(path: str) -> tuple[str, ...]:
    found = next((names for prefix, names in ROOMS if path.startswith(prefix)), ())
    return tuple(name for name in found if (REPOSITORY / name).exists())


def function_span(source: str) -> dict[int, range]:
    """Line -> the lines of the innermost function around it."""
    spans: dict[int, range] = {}
    for node in ast.walk(ast.parse(source)):  # outer ones first
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            span = range(node.lineno, (node.end_lineno or node.lineno) + 1)
            spans.update(dict.fromkeys(range(node.body[0].lineno, span.stop), span))
    return spans


def main(argv: list[str]) -> int:
    options = dict(word[2:].partition("=")[::2] for word in argv if word.startswith("--"))
    paths = [
        os.path.relpath(a, REPOSITORY) if os.path.isabs(a) else a for a in argv if not a.startswith("-")
    ] or list(DEFAULT)
    chance = random.Random(int(options.get("seed", "0")))
    found: dict[str, list[Mutant]] = {}
    for path in paths:
        source = (REPOSITORY / path).read_text(encoding="utf-8")
        make = c_mutants if path.endswith(".c") else python_mutants
        each = [m for m in make(path, source) if options.get("kind", m.kind) == m.kind]
        found[path] = [m for m in each if chance.randrange(int(options.get("every", "1"))) == 0]
    if "list" in options:
        print(*(m for each in found.values() for m in each), sep="\n")
        return 0
    import hypothesis  # noqa: F401 - loaded once, for every fork
    import pytest

    start, done, left = time.monotonic(), 0, 0

    def tell(mutant: Mutant | None, fate: str) -> None:
        nonlocal done, left
        if mutant is None:
            print(fate, file=out, flush=True)
            return
        done += 1
        if fate:
            left += 1
            print(f"{fate}: {mutant}", file=out, flush=True)

    out = os.fdopen(os.dup(1), "w")
    rooms: dict[tuple[str, ...], list[str]] = {}
    for path in paths:
        rooms.setdefault(tests_of(path), []).append(path)
    copied = [path for path in paths if path in OUTSIDE or path.endswith(".c")]
    if copied:
        tree = Copy()
        try:
            for path in copied:
                for mutant in found[path]:
                    tell(mutant, "survives" if tree.survives(mutant, list(tests_of(path))) else "")
        finally:
            shutil.rmtree(tree.folder, ignore_errors=True)
    os.chdir(REPOSITORY)
    sys.path[:0] = [str(REPOSITORY), str(REPOSITORY / "tests")]
    for names, members in rooms.items():
        mutants = {path: found[path] for path in members if path not in copied}
        if not mutants:
            continue
        child = os.fork()  # one collection a process
        if child == 0:
            quiet()
            flags = ["-q", "-p", "no:cacheprovider", "-p", "no:randomly"]
            status = pytest.main([*flags, *names], plugins=[Loaded(mutants, tell)])
            if status > 1:
                print(f"pytest ends with {status}", file=out)
            out.flush()
            print(f"{', '.join(mutants)}: {done - left} of {done} changes are noticed", file=out, flush=True)
            os._exit(min(left, 1))
        _, status = os.waitpid(child, 0)
        left += os.waitstatus_to_exitcode(status)
    print(f"{time.monotonic() - start:.0f} s", file=out, flush=True)
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
