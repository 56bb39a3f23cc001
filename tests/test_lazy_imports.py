"""An import inside a function of the compiler puts off a load, and says so by being necessary.

A kernel pays for the modules that it uses, so imports in functions are many. Two kinds are none of that: of a module that the
file's own imports load anyway, and of one that imports the file back, which hides a circle. The latter must be in EXCEPTIONS.
And a name that only a function imports must be there, or the first kernel that needs it would find out.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COMPILER = ROOT / "tileiras" / "compiler"

# (file, what it loads late) -> why it is not at the top although what it loads imports the file
EXCEPTIONS = {
    ("pipeline", "plugins"): "most compiles have none; a plugin's place is told by rows of the pipeline",
    (
        "lower.tileas_to_nvvm.block_scaled",
        "lower.tileas_to_nvvm.scaled_halves",
    ): "one of two ways; the other's base class",
    ("schedule.products", "schedule.tensor_memory"): "only some targets; it starts from the products",
    ("schedule.products", "schedule.few_rows"): "products of few rows alone; it starts from the products",
    ("schedule.products", "schedule.shared_depth"): "scores of few rows beside products of warpgroups alone",
    ("passes.tileas.channels", "passes.tileas.queue"): "few loops; a kind of channel",
    ("passes.tileas.channels", "passes.tileas.steps"): "fewer loops; a kind of queue",
    ("passes.tileas.channels", "passes.tileas.refilled"): "fewer loops; a kind of channel",
}


@cache
def files() -> dict[str, Path]:
    """Module name -> file, of the whole package."""
    found = {}
    for path in sorted((ROOT / "tileiras").rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def tree(module: str) -> ast.Module:
    return ast.parse(files()[module].read_text())


def loaded_by(module: str, node: ast.Import | ast.ImportFrom) -> set[str]:
    """Modules of the package that an import statement of a module names."""
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    else:
        base = node.module or ""
        if node.level:
            parts = module.split(".")
            keep = len(parts) - node.level + (files()[module].name == "__init__.py")
            base = ".".join([*parts[:keep], *filter(None, [node.module])])
        names = [f"{base}.{a.name}" if f"{base}.{a.name}" in files() else base for a in node.names]
    return {name for name in names if name in files()}


def statements(node: ast.AST, late: bool = False):
    """(import statement, whether it is in a function), without those for type checkers."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.Import, ast.ImportFrom)):
            yield child, late
        elif not (isinstance(child, ast.If) and getattr(child.test, "id", "") == "TYPE_CHECKING"):
            inside = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
            yield from statements(child, late or inside)


@cache
def imports(module: str) -> tuple[frozenset[str], tuple[tuple[str, int], ...]]:
    """What a module imports when it is loaded, and what its functions import, with lines."""
    top: set[str] = set()
    late: list[tuple[str, int]] = []
    for node, inside in statements(tree(module)):
        if inside:
            late += [(name, node.lineno) for name in sorted(loaded_by(module, node))]
        else:
            top |= loaded_by(module, node)
    return frozenset(top), tuple(late)


@cache
def reached(module: str) -> frozenset[str]:
    """All that is loaded with a module."""
    found: set[str] = set()
    rest = [module]
    while rest:
        for name in imports(rest.pop())[0] - found:
            found.add(name)
            rest.append(name)
    return frozenset(found)


MODULES = [name for name, path in files().items() if path.is_relative_to(COMPILER)]


def test_an_import_in_a_function_puts_off_a_load() -> None:
    needless = [
        f"{module}, line {line}: {name}"
        for module in MODULES
        for name, line in imports(module)[1]
        if name in reached(module) and name != module
    ]
    assert not needless, "loaded with the file anyway: belongs at its top"


def circles() -> set[tuple[str, str]]:
    short = "tileiras.compiler."
    return {
        (module.removeprefix(short), name.removeprefix(short))
        for module in MODULES
        for name, _ in imports(module)[1]
        if module in reached(name)
    }


def test_circles_that_a_function_hides_are_those_with_a_reason() -> None:
    assert circles() == set(EXCEPTIONS)


@cache
def defined(module: str) -> frozenset[str]:
    """What a module has at its top, branches and loops included, but for what type checkers alone see."""
    found: set[str] = set()
    rest: list[ast.AST] = [tree(module)]
    while rest:
        for node in ast.iter_child_nodes(rest.pop()):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                found.add(node.name)
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                found |= {(a.asname or a.name).split(".")[0] for a in node.names}
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                found.add(node.id)
            elif not (isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"):
                rest.append(node)
    return frozenset(found)


def absent() -> list[str]:
    """Names that an import statement takes from a module of the package which does not have them."""
    found = []
    for module in files():
        for node, _ in statements(tree(module)):
            if not isinstance(node, ast.ImportFrom):
                continue
            for alias in node.names:
                one = ast.ImportFrom(node.module, [alias], node.level)
                for source in loaded_by(module, one):
                    is_module = source.rpartition(".")[2] == alias.name
                    if not is_module and not {alias.name, "__getattr__"} & defined(source):
                        found.append(f"{module}, line {node.lineno}: {alias.name} of {source}")
    return found


def test_what_is_imported_is_there() -> None:
    assert not absent()


def test_both_kinds_would_be_seen(tmp_path, monkeypatch) -> None:
    for name, text in {
        "a": "import tileiras.b\ndef f():\n    import tileiras.c\n",
        "b": "import tileiras.c\n",
        "c": "def g():\n    from tileiras import a\n    from tileiras.b import gone\n",
        "__init__": "",
    }.items():
        path = tmp_path / "tileiras" / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    for known in (files, tree, imports, reached, defined):
        known.cache_clear()
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    try:
        assert "tileiras.c" in reached("tileiras.a") and imports("tileiras.a")[1] == (("tileiras.c", 3),)
        assert imports("tileiras.c")[1] == (("tileiras.a", 2), ("tileiras.b", 3))
        assert absent() == ["tileiras.c, line 3: gone of tileiras.b"]
    finally:
        for known in (files, tree, imports, reached, defined):
            known.cache_clear()
