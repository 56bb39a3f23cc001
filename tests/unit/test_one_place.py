"""What it takes to add something: one row that everything else follows (CONTRIBUTING.md, "How to add")."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tileiras import archs
from tileiras.compiler.bytecode.opcodes import OPCODES
from tileiras.compiler.dialects.cuda_tile.ops import BY_NAME, SPECS
from tileiras.compiler.dialects.nv_tileas import ops as nv_tileas
from tileiras.compiler.ir.spec import part_of

ROOT = Path(__file__).resolve().parents[2]

# ---- an op: a row, and a function for each of those who run it

FRAME = {"module", "entry", "global"}
STRUCTURE = FRAME | {"return", "continue", "break", "yield"}
LIFTED = {"mmaf_scaled"}  # ConvertCudaTileToTileAA makes other ops of it
# of objects that several devices share: read, printed, verified, and refused by name
REFUSED = {"multimem_load_reduce_view_tko", "multimem_reduce_view_tko", "multimem_store_view_tko"}


def test_opcodes_stand_in_the_rows_and_are_frozen() -> None:
    """Files hold these numbers for good, so a new op's is behind all of those before it."""
    rows = sorted(SPECS, key=lambda spec: spec.number)
    numbers = [spec.number for spec in rows]
    assert len(set(numbers)) == len(numbers) and numbers[0] == 0
    since = [spec.since for spec in rows]
    assert since == sorted(since), "an op of a later release has a later number"
    assert OPCODES.keys() - BY_NAME.keys() == {"preview$call"}


def test_every_op_has_a_form_of_its_own() -> None:
    assert [spec.name for spec in SPECS if not spec.text] == []


def test_elementwise_follows_from_the_fields() -> None:
    yes = ("addf", "fma", "cmpf", "select", "offset", "ftof", "atan2", "fpowi", "negi", "assume")
    no = (
        "reshape",
        "broadcast",
        "permute",
        "mmaf",
        "cat",
        "insert",
        "extract",
        "pack",
        "iota",
        "constant",
        "reduce",
    )
    assert [BY_NAME[name].elementwise for name in (*yes, *no)] == [True] * len(yes) + [False] * len(no)
    assert part_of(nv_tileas.BY_NAME["cmpf"], "cuda_tile.cmpf").elementwise


@pytest.mark.parametrize("dialect", ["nv_tileaa", "nv_tileas"])
def test_an_op_is_elementwise_in_every_dialect_that_has_it(dialect: str) -> None:
    later = importlib.import_module(f"tileiras.compiler.dialects.{dialect}.ops").BY_NAME
    assert {
        name
        for name, spec in BY_NAME.items()
        if name in later and later[name].elementwise != spec.elementwise
    } == set()


def test_every_op_is_run_by_the_interpreter_and_has_code() -> None:
    pytest.importorskip("numpy")
    pytest.importorskip("ml_dtypes")
    from tileiras.compiler.lower import tileas_to_nvvm as gpu
    from tileiras.run.reference import compile as reference

    assert reference.PURE.keys() | reference.EFFECT.keys() == BY_NAME.keys() - FRAME - REFUSED
    for family in set(gpu.LAZY.values()):
        __import__(f"{gpu.__name__}.{family}")
        gpu.LOWER.update(sys.modules[f"{gpu.__name__}.{family}"].LOWER)
    assert BY_NAME.keys() - STRUCTURE - gpu.LOWER.keys() == REFUSED | LIFTED


def test_an_op_needs_no_word_beside_the_function_of_its_family(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table of families puts off loads; an op that it does not name is found all the same."""
    import tileiras
    from tileiras.compiler.lower import tileas_to_nvvm as gpu

    monkeypatch.delitem(gpu.LAZY, "atan2")
    monkeypatch.delitem(gpu.LOWER, "atan2", raising=False)
    text = """cuda_tile.module @m { entry @k(%p: tile<ptr<f32>>, %x: tile<f32>) {
      %r = atan2 %x, %x : tile<f32>
      %t = store_ptr_tko weak %p, %r : tile<ptr<f32>>, tile<f32> -> token
      return } }"""
    assert "div.rn.f32" in tileiras.compile(tileiras.load(text), "sm_90", emit="ptx").ptx


def test_every_op_has_code_for_the_cpu() -> None:
    pytest.importorskip("llvmlite")
    from tileiras.run.cpu import lower
    from tileiras.run.cpu.registry import ELEMENTWISE

    assert BY_NAME.keys() - STRUCTURE - ELEMENTWISE.keys() - lower.OPS.keys() == LIFTED
    assert {name for name in ELEMENTWISE if not BY_NAME[name].elementwise} == set()


# ---- a target: a row of archs.py

# files that may know the number of an architecture, and why
KNOW_NUMBERS = {
    "tileiras/archs.py": "the table",
    "tileiras/compiler/target/sm.py": "where features begin",
    "tileiras/compiler/target/cost.py": "measured rates; others have a usual one",
    "tileiras/report/model.py": "whitepapers of the modelled GPUs; the nearest stands for others",
    "tileiras/advice.py": "names of products",
}


def named_architectures(path: Path) -> list[str]:
    """Comparisons with, and tables by, the number of an architecture."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            about = any(
                isinstance(n, (ast.Name, ast.Attribute))
                and getattr(n, "id", getattr(n, "attr", "")) in ("number", "arch", "sm", "wanted", "major")
                for side in sides
                for n in ast.walk(side)
            )
            values = [n.value for side in sides for n in ast.walk(side) if isinstance(n, ast.Constant)]
            if about and not set(archs.NUMBERS).isdisjoint(v for v in values if type(v) is int):
                found.append(ast.unparse(node))
        if isinstance(node, ast.Dict):
            keys = {k.value for k in node.keys if isinstance(k, ast.Constant) and type(k.value) is int}
            if len(keys & set(archs.NUMBERS)) > 1 and keys <= {*archs.NUMBERS, *archs.WITHOUT_TILE}:
                found.append(ast.unparse(node))
    return found


def test_no_file_but_the_tables_knows_an_architecture() -> None:
    knowing = {}
    for room in ("tileiras", "nvcc_shim", "setuptools_ext"):
        for path in sorted((ROOT / room).rglob("*.py")):
            name = str(path.relative_to(ROOT))
            if not name.startswith("tileiras/run/emulator/") and (found := named_architectures(path)):
                knowing[name] = found
    assert {name: found for name, found in knowing.items() if name not in KNOW_NUMBERS} == {}


INVENTED = """
import pathlib, sys, types
import tileiras
path = pathlib.Path(tileiras.__file__).with_name("archs.py")
row = '    (130, 227, 2048, (13, 5), (("", (9, 4), (13, 5)), ("a", (9, 4), (13, 5)), ("f", (9, 4), (13, 5)))),\\n'
head, mark, tail = path.read_text().partition(")  # fmt: skip")
module = types.ModuleType("tileiras.archs")
exec(compile(head + row + mark + tail, str(path), "exec"), module.__dict__)
sys.modules["tileiras.archs"] = tileiras.archs = module
"""
COMPILER = """
from tileiras.cli import main
code = main([sys.argv[1], "--gpu-name", sys.argv[2], "--emit=ptx", "-o", sys.argv[3]])
raise SystemExit(code)
"""
SHIM = """
from tileiras.nvcc_shim.arch import parse_name
from tileiras.toolchain.arch import parse_archs
assert parse_name("sm_130a") == ("sm", 130, "a"), parse_name("sm_130a")
assert [str(a) for a in parse_archs("13.0f+PTX")[0]] == ["sm_130f", "compute_130f"]
assert "sm_130" in [str(a) for a in parse_archs("all-major")[0]]
from tileiras.report.loops import modelled_gpu
assert modelled_gpu(130) == 120
assert '"121", "130"]' in module.bzl()
"""


def invented(program: str, *words: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INVENTED + program, *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("spelling", ["sm_130", "sm_130a", "sm_130f"])
def test_a_row_is_a_target_of_the_compiler(spelling: str, tmp_path: Path) -> None:
    from tests.corpus.export import bytecode_path
    from tests.corpus.registry import CASES

    out = tmp_path / "k.ptx"
    invented(COMPILER, str(bytecode_path(CASES["staged_f16_nt"])), spelling, str(out))
    assert f".target {spelling}\n" in out.read_text()


def test_a_row_is_a_target_of_every_front() -> None:
    invented(SHIM)


# ---- a pass: a row of the pipeline, and its own file


def test_every_pass_says_what_it_does_in_its_file() -> None:
    """docs/passes.md is made of that, and `test_skip.py` runs the kernels that are named there."""
    from scripts import passes_page

    assert passes_page.PAGE.read_text(encoding="utf-8") == passes_page.page(), "run scripts/generate.py"


# ---- files that are made from tables


def test_one_script_writes_what_tables_say() -> None:
    from scripts import generate

    assert (ROOT / "README.md").read_text(encoding="utf-8") == generate.readme()


# ---- what nobody uses goes

BY_OTHERS = {
    "pytest_addoption": "pytest", "pytest_load_initial_conftests": "pytest", "pytest_report_header": "pytest",
    "elapsed_time": "torch.cuda.Event",
}  # fmt: skip


def test_every_function_is_named_where_it_is_not_defined() -> None:
    """A function or class whose name stands once in all that is not a test is used by tests only, or by nobody. Decorated ones
    are rows of a table."""
    words: Counter[str] = Counter()
    for folder in (
        "tileiras",
        "benchmarks",
        "scripts",
        "setuptools_ext",
        "nvcc_shim",
        "bazel",
        "cmake",
        "examples",
        "docs",
    ):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in (".py", ".bzl", ".bazel", ".cmake", ".in", ".toml", ".md"):
                words.update(re.findall(r"\w+", path.read_text(encoding="utf-8", errors="replace")))
    alone = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"
        for path in sorted((ROOT / "tileiras").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, (ast.FunctionDef, ast.ClassDef))
        and words[node.name] == 1
        and not node.decorator_list
        and not node.name.startswith("__")
        and node.name not in BY_OTHERS
    ]
    assert alone == []
