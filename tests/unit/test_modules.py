"""Modules found by their cached bytecode are the ones that the usual import finds, and stale bytecode is left to it."""

import os
import py_compile
import subprocess
import sys
from pathlib import Path

import pytest

from tileiras import modules

ROOT = Path(__file__).resolve().parent.parent.parent
TAIL = f".{sys.implementation.cache_tag}.pyc"


@pytest.fixture
def package(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "pycache_prefix", None)
    (tmp_path / "inner").mkdir()
    for name in ("plain.py", "inner/__init__.py"):
        (tmp_path / name).write_text("x = 1\n")
        py_compile.compile(str(tmp_path / name), doraise=True)
    return tmp_path


def find(folder, name):
    return modules.Finder.find_spec(f"tileiras.{name}", [str(folder)])


def test_a_module_is_found_with_all_that_importlib_says_of_it(package):
    from importlib.machinery import PathFinder

    for name in ("plain", "inner"):
        got, want = find(package, name), PathFinder.find_spec(f"tileiras.{name}", [str(package)])
        for field in ("name", "origin", "cached", "has_location", "submodule_search_locations", "parent"):
            assert getattr(got, field) == getattr(want, field), field
        assert got.loader.get_filename() == want.loader.get_filename()
        assert got.loader.get_source(f"tileiras.{name}") == "x = 1\n"
        assert got.loader.get_code(got.name).co_consts == got.loader.get_code(got.name).co_consts, (
            "twice, too"
        )


def test_other_packages_and_what_is_not_there_are_left_to_the_usual_import(package):
    assert modules.Finder.find_spec("tileirasx.plain", [str(package)]) is None
    assert modules.Finder.find_spec("tileiras", None) is None
    assert find(package, "missing") is None


def _shorter(package):
    (package / "plain.py").write_text("x=2\n")
    os.utime(package / "plain.py", (1, 1))


def _touched(package):
    os.utime(package / "plain.py", (7, 7))


def _cut(package):
    cached = package / "__pycache__" / ("plain" + TAIL)
    cached.write_bytes(cached.read_bytes()[:-9])


def _other_interpreter(package):
    cached = package / "__pycache__" / ("plain" + TAIL)
    cached.write_bytes(b"\0" + cached.read_bytes()[1:])


def _by_hash(package):
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    py_compile.compile(str(package / "plain.py"), doraise=True, invalidation_mode=mode)


def _no_bytecode(package):
    (package / "__pycache__" / ("plain" + TAIL)).unlink()


@pytest.mark.parametrize("change", [_shorter, _touched, _cut, _other_interpreter, _by_hash, _no_bytecode])
def test_bytecode_that_is_not_of_this_source_is_left_to_the_usual_import(package, change):
    assert find(package, "plain") is not None
    change(package)
    assert find(package, "plain") is None


def test_a_command_loads_its_modules_this_way_and_leaves_no_finder_behind(tmp_path):
    import shutil

    shutil.copytree(ROOT / "tileiras", tmp_path / "tileiras", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "k.mlir").write_text("cuda_tile.module @m { entry @k() { return } }")
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from tileiras.cli import main\n"
        "status = main(['k.mlir', '--gpu-name', 'sm_90', '--emit=ptx', '-o', 'k.ptx'])\n"
        "found = [type(m.__loader__).__module__ for n, m in sys.modules.items() if n.startswith('tileiras.compiler')]\n"
        "left = [f for f in sys.meta_path if f.__module__ == 'tileiras.modules']\n"
        "print(status, len(found), found.count('tileiras.modules'), left)"
    )
    said = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", code], cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        said.append(done.stdout.split(maxsplit=3))
    (_, count, first, _), (status, again, second, left) = said
    assert status == "0" and int(count) == int(again) == int(second) > 50 and left.strip() == "[]"
    assert int(first) == 0, "there was no bytecode yet"


# modules of the standard library that cost a compile more than what they would be used for
HEAVY = {
    "collections",
    "dataclasses",
    "enum",
    "functools",
    "inspect",
    "json",
    "pathlib",
    "re",
    "subprocess",
    "typing",
}


@pytest.mark.parametrize("gpu", ["sm_80", "sm_100"])
def test_a_compile_loads_no_heavy_module(gpu, tmp_path):
    from tests.fixtures import BYTECODE

    source = sorted(BYTECODE.glob("*matmul*.tilebc"))[0]
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); from tileiras.cli import main; "
        f"assert main([{str(source)!r}, '--gpu-name={gpu}', '--emit=ptx', '-o', {str(tmp_path / 'k.ptx')!r}]) == 0; "
        "print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())
    assert "tileiras.compiler.layout.linear" in loaded and loaded & HEAVY == set()
