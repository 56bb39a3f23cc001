"""Data flows one way: the import table of ARCHITECTURE.md, held against the import statements of every file."""

from __future__ import annotations

import ast
import re
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tests.fixtures import BYTECODE

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "tileiras"
PAGE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")


def table() -> dict[str, set[str]]:
    """By room, the rooms that it may import, as ARCHITECTURE.md has them (imports for type checkers do not count)."""
    text = PAGE.split("\n## Who may import whom\n", 1)[1].split("\n## ", 1)[0]
    found: dict[str, set[str]] = {}
    for rooms, allowed in re.findall(r"^\| (`.*`) \| (.*) \|$", text, re.MULTILINE):
        for room in re.findall("`([^`]+)`", rooms):
            assert room not in found
            found[room] = set(re.findall("`([^`]+)`", allowed))
    return found


MAY_IMPORT = table()


def room_of(module: str) -> str:
    """The room a dotted module name belongs to."""
    parts = module.split(".")[1:]
    if not parts:
        return "tileiras"
    if parts[0] == "compiler":
        rest = parts[1:]
        if not rest:
            return "compiler"
        if rest[0] in ("dialects", "lower", "passes"):
            return "/".join(rest[:2])
        return rest[0]
    if parts[0] == "run" and len(parts) > 1 and parts[1] in ("reference", "emulator", "cpu"):
        return f"run/{parts[1]}"
    return parts[0]


def real_module(name: str) -> str:
    """The longest prefix of a dotted name that is a file or a folder."""
    while name:
        path = ROOT / name.replace(".", "/")
        if path.is_dir() or path.with_suffix(".py").exists():
            return name
        name = name.rpartition(".")[0]
    return ""


def imports_of(path: Path) -> set[str]:
    """Modules of ours that a file imports at run time, lazily or not."""
    tree = ast.parse(path.read_text())
    typing_only: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            typing_only.update(ast.walk(node))
    relative = path.relative_to(ROOT).with_suffix("")
    package = ".".join(relative.parts[:-1])
    found = set()
    for node in ast.walk(tree):
        if node in typing_only:
            continue
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = package.split(".")
                base = ".".join(
                    [*parts[: len(parts) - node.level + 1], *([node.module] if node.module else [])]
                )
            names = [f"{base}.{alias.name}" for alias in node.names]
        else:
            continue
        found.update(real_module(name) for name in names if name.split(".")[0] == "tileiras")
    return found - {""}


FILES = sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_a_file_imports_only_what_its_room_may(path: Path) -> None:
    parts = path.relative_to(ROOT).with_suffix("").parts
    room = room_of(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    if room not in MAY_IMPORT:
        return
    allowed = MAY_IMPORT[room] | {room, "tileiras", "compiler", "dialects", "lower", "passes", "version"}
    strangers = {module for module in imports_of(path) if room_of(module) not in allowed}
    assert not strangers, f"{room} may import {sorted(MAY_IMPORT[room])}"


def test_every_room_of_the_compiler_is_in_the_table() -> None:
    rooms = {
        room_of(".".join(p.relative_to(ROOT).with_suffix("").parts[:-1]))
        for p in (PACKAGE / "compiler").rglob("*/*.py")
    }
    assert rooms - {"compiler", "tileiras"} <= set(MAY_IMPORT)


def test_the_table_names_rooms_that_are_there() -> None:
    there = {room_of(".".join(path.relative_to(ROOT).with_suffix("").parts)) for path in FILES}
    there |= {room_of(".".join(path.relative_to(ROOT).parts[:-1])) for path in FILES}
    assert set(MAY_IMPORT) | set().union(*MAY_IMPORT.values()) <= there
    assert MAY_IMPORT["ir"] == {"diag"} and MAY_IMPORT["run/emulator"] == {"diag"} and not MAY_IMPORT["diag"]


COMPILE_PATH_MODULES = {
    "numpy",
    "ml_dtypes",
    "dataclasses",
    "typing",
    "argparse",
    "logging",
    "subprocess",
    "re",
    "json",
    "pathlib",
}


def test_a_compile_imports_the_standard_library_only_and_no_slow_part_of_it(tmp_path: Path) -> None:
    import subprocess
    import sys

    kernel = BYTECODE / "axpy_f32.tilebc"
    script = (
        "import sys; from tileiras.cli import main; "
        "code = main([sys.argv[1], '--gpu-name=sm_90', '--emit=ptx', '-o', sys.argv[2]]); "
        "print(code, *sorted(m for m in sys.modules if '.' not in m))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r}); {script}", kernel,
         tmp_path / "k.ptx"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    code, *modules = done.stdout.split()
    assert code == "0", done.stderr
    assert not COMPILE_PATH_MODULES & set(modules)


def imported_on_load(path: Path, package: str, modules: set[str]) -> set[str]:
    """Modules of the tree that loading `path` loads: imports of functions and of type checkers do not count."""
    found: set[str] = set()
    todo: list[ast.AST] = list(ast.parse(path.read_text()).body)
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".")
            base = ".".join(parts[: len(parts) - node.level + 1]) if node.level else ""
            base = ".".join(filter(None, (base, node.module)))
            found.update(f"{base}.{a.name}" if f"{base}.{a.name}" in modules else base for a in node.names)
        elif isinstance(node, (ast.If, ast.Try)) and "TYPE_CHECKING" not in ast.unparse(
            getattr(node, "test", ast.Constant(0))
        ):
            todo += ast.iter_child_nodes(node)
    return found & modules


def test_no_file_imports_itself_through_others() -> None:
    paths: dict[str, Path] = {}
    for room in (PACKAGE, ROOT / "setuptools_ext", ROOT / "nvcc_shim"):
        for path in room.rglob("*.py"):
            parts = path.relative_to(ROOT).with_suffix("").parts
            paths[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    graph = {
        name: imported_on_load(
            path, name if path.name == "__init__.py" else name.rpartition(".")[0], set(paths)
        )
        - {name}
        for name, path in paths.items()
    }
    assert sum(map(len, graph.values())) > 500
    TopologicalSorter(graph).prepare()  # names the circle


def test_the_map_names_every_module_that_a_stranger_meets_first() -> None:
    rooms = PAGE[PAGE.index("## The rooms") : PAGE.index("## Who may import whom")]
    folders = (PACKAGE, PACKAGE / "compiler", PACKAGE / "run")
    there = [path for folder in folders for path in sorted(folder.iterdir()) if path.name[:2] != "__"]
    names = [
        p.name if p.suffix == ".py" else f"{p.name}/"
        for p in there
        if p.suffix == ".py" or (p / "__init__.py").is_file()
    ]
    assert [name for name in names if name not in rooms] == []
