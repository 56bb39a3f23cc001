"""Passes of another installed package: found by name, run at their place, dumped and skipped like ours, blamed by name."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from cmake_project import find_ninja

from tests.fixtures import BYTECODE

ROOT = Path(__file__).resolve().parents[2]
KERNEL = BYTECODE / "axpy_f32.tilebc"

PROJECT = """\
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[project]
name = "tile-lint"
version = "1.2"
[tool.setuptools]
packages = ["tile_lint_more"]
py-modules = ["tile_lint"]
[project.entry-points."tileiras.passes"]
LintLoads = "tile_lint:LintLoads"
MarkSeen = "tile_lint:MarkSeen"
Breaks = "tile_lint:Breaks"
Leaves = "tile_lint:Leaves"
Malformed = "tile_lint:Malformed"
Unmade = "tile_lint:Unmade"
Unanchored = "tile_lint:Unanchored"
InPackage = "tile_lint_more.passes:InPackage"
TileASSelectAtoms = "tile_lint:Taken"
Nowhere = "tile_lint:Nowhere"
"""
SOURCE = '''\
from tileiras.compiler.ir.passes import Pass


class LintLoads(Pass):
    NAME = "LintLoads"
    SUMMARY = "Mark every load"
    AFTER = "ConvertTileAAToTileAS"
    OPTIONS = (("mark", "seen", "what to write"),)
    __slots__ = ()

    def run(self, func, context):
        for op in func.walk():
            if op.spec.name == "load_view_tko" or op.spec.name == "load_ptr_tko":
                op.attrs = {**op.attrs, "lint.mark": self.options["mark"]}
        return True


class MarkSeen(Pass):
    """Behind LintLoads at the same place; an op of its making changes the code."""

    NAME = "MarkSeen"
    AFTER = "ConvertTileAAToTileAS"
    __slots__ = ()

    def run(self, func, context):
        marked = [op for op in func.walk() if op.attrs.get("lint.mark")]
        func.attrs["lint.loads"] = len(marked)
        func.attrs["nvvm.maxnreg"] = 77
        return True


class Breaks(Pass):
    NAME = "Breaks"
    AFTER = "TileASPlaceShared"
    __slots__ = ()

    def run(self, func, context):
        return func.no_such_thing


class Leaves(Breaks):
    NAME = "Leaves"
    __slots__ = ()

    def run(self, func, context):
        raise SystemExit(0)


class Malformed(Breaks):
    NAME = "Malformed"
    __slots__ = ()

    def run(self, func, context):
        from tileiras.compiler.dialects.nv_tileas import ops
        from tileiras.compiler.ir.build import create

        create(ops.BY_NAME["negi"])
        return True


class Unmade(Breaks):
    NAME = "Unmade"
    __slots__ = ()

    def __init__(self):
        raise ValueError("not today")


class Unanchored(Breaks):
    NAME = "Unanchored"
    ANCHOR = "modul"
    __slots__ = ()


class Taken(Breaks):
    NAME = "TileASSelectAtoms"
    __slots__ = ()


class Nowhere(Breaks):
    NAME = "Nowhere"
    AFTER = "TileASMisspelled"
    __slots__ = ()
'''

IN_PACKAGE = """\
from tileiras.compiler.ir.passes import Pass

from .number import NUMBER


class InPackage(Pass):
    NAME = "InPackage"
    AFTER = "ConvertTileAAToTileAS"
    __slots__ = ()

    def run(self, func, context):
        func.attrs["nvvm.maxnreg"] = NUMBER
        return True
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which pip has installed a package that knows nothing of this checkout."""
    pytest.importorskip("setuptools")
    project = tmp_path_factory.mktemp("tile_lint")
    (project / "pyproject.toml").write_text(PROJECT)
    (project / "tile_lint.py").write_text(SOURCE)
    (project / "tile_lint_more").mkdir()
    (project / "tile_lint_more" / "__init__.py").write_text("")
    (project / "tile_lint_more" / "number.py").write_text("NUMBER = 77\n")
    (project / "tile_lint_more" / "passes.py").write_text(IN_PACKAGE)
    target = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation",
         "--disable-pip-version-check", "--target", target, project],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return target


def tool(package: Path | None, module: str, *words: object) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(package) if package else "", "TILEIRAS_SERVER": "off"}
    return subprocess.run(
        [sys.executable, "-m", module, *map(str, words)],
        capture_output=True,
        text=True,
        env=environment,
        cwd=ROOT,
    )


def opt(package: Path | None, *words: object) -> subprocess.CompletedProcess[str]:
    return tool(package, "tileiras.tools.opt", KERNEL, "--gpu-name=sm_90", *words)


def test_it_runs_at_its_place_and_is_dumped(package: Path) -> None:
    done = opt(package, "--pipeline-to=ptx", "--plugin=LintLoads,MarkSeen", "--print-ir-after-all")
    assert done.returncode == 0, done.stderr
    dumps = [
        line.split()[-3] for line in done.stderr.splitlines() if line.startswith("// -----// IR dump after")
    ]
    at = dumps.index("ConvertTileAAToTileAS")
    assert dumps[at + 1 : at + 3] == ["LintLoads", "MarkSeen"], "behind the row, in the order of the line"
    before, behind = (
        done.stderr.split("IR dump after LintLoads")[0],
        done.stderr.split("IR dump after LintLoads")[1],
    )
    assert "lint.mark" not in before and 'lint.mark = "seen"' in behind
    assert "lint.loads = 2" in behind.split("IR dump after MarkSeen")[1]
    assert ".maxnreg 77" in done.stdout
    only = opt(package, "--pipeline-to=ptx", "--plugin", "LintLoads", "--print-ir-after=LintLoads")
    assert only.stderr.count("IR dump after") == 1 and "lint.mark" in only.stderr


def test_it_is_left_out_and_named_alone(package: Path, tmp_path: Path) -> None:
    done = opt(package, "--pipeline-to=ptx", "--plugin=MarkSeen", "--plugin=LintLoads", "--skip=MarkSeen")
    plain = opt(None, "--pipeline-to=ptx")
    assert done.returncode == plain.returncode == 0, done.stderr + plain.stderr
    assert done.stdout == plain.stdout, "marks alone change no code"
    text = opt(None, "--pipeline-to=tileas")
    file = tmp_path / "k.mlir"
    file.write_text(text.stdout)
    alone = tool(package, "tileiras.tools.opt", file, "--pass=LintLoads{mark=here}")
    assert text.returncode == alone.returncode == 0, alone.stderr
    assert alone.stdout.count('lint.mark = "here"') == 2


def test_the_command_and_the_library_run_it(package: Path, tmp_path: Path) -> None:
    out = tmp_path / "k.ptx"
    words = (KERNEL, "--gpu-name=sm_90", "--emit=ptx", "-o", out)
    done = tool(package, "tileiras", *words, "--plugin=MarkSeen")
    assert done.returncode == 0 and ".maxnreg 77" in out.read_text(), done.stderr
    script = (
        "import sys, tileiras; print('.maxnreg 77' in "
        "tileiras.compile(sys.argv[1], 'sm_90', emit='ptx', plugins=('MarkSeen',)).ptx)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, KERNEL], capture_output=True, text=True, cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(package)},
    )  # fmt: skip
    assert done.stdout == "True\n", done.stderr
    assert tool(package, "tileiras", *words).returncode == 0
    assert ".maxnreg" not in out.read_text(), "who is installed and not named does nothing"


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        ("Breaks", 5, "the pass Breaks, which is not of this package, failed: AttributeError: "),
        ("Leaves", 5, "the pass Leaves, which is not of this package, failed: SystemExit: 0"),
        ("Malformed", 5, "'nv_tileas.negi' op expected 1 operands, but found 0"),
        ("Unmade", 2, "the pass 'Unmade' of tile-lint 1.2 cannot be used: ValueError: not today"),
        (
            "Unanchored",
            2,
            "the pass 'Unanchored' of tile-lint 1.2 cannot be used: its ANCHOR is 'modul', which is neither func nor module",
        ),
        (
            "TileASSelectAtoms",
            2,
            "the name of the pass 'TileASSelectAtoms' of tile-lint 1.2 is taken by the pipeline",
        ),
        (
            "Nowhere",
            2,
            "the pass 'Nowhere' of tile-lint 1.2 cannot be used: its AFTER is 'TileASMisspelled', which is no row",
        ),
        (
            "Unheard",
            2,
            "no installed package offers a pass 'Unheard' (entry points of the group tileiras.passes)",
        ),
    ],
)
def test_what_cannot_be_is_one_error_that_names_it(
    package: Path, tmp_path: Path, name: str, code: int, said: str
) -> None:
    out = tmp_path / "k.ptx"
    done = tool(package, "tileiras", KERNEL, "--gpu-name=sm_90", "--emit=ptx", "-o", out, f"--plugin={name}")
    assert done.returncode == code, done.stderr
    errors = [line for line in done.stderr.splitlines() if "error:" in line]
    assert said in errors[0] and len(errors) == 1 + errors.count("error: failed to compile Tile IR program")
    assert name in errors[0] or f"note: after the pass {name}" in done.stderr
    assert not out.exists() and "Traceback" not in done.stderr


def test_caches_know_package_version_and_content(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tileiras.compiler.plugins import identity

    monkeypatch.syspath_prepend(str(package))
    first = identity("LintLoads")
    assert first.startswith("tile-lint 1.2 tile_lint:LintLoads ")
    file = package / "tile_lint.py"
    source = file.read_text()
    file.write_text(source + "# another\n")
    try:
        assert identity("LintLoads") != first
    finally:
        file.write_text(source)
    assert identity("Unheard") == ""


@pytest.mark.parametrize(
    "words", [("--option=--plugin=InPackage",), ("--option=--plugin", "--option=InPackage")], ids=len
)
def test_a_pass_that_was_edited_is_not_answered_by_the_cache(
    package: Path, tmp_path: Path, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILEIRAS_CACHE_DIR", str(tmp_path / "cache"))
    out = tmp_path / "k.ptx"
    line = ("tileiras.tools.build", "compile", "--arch=compute_90", KERNEL, "-o", out, *words)
    number = package / "tile_lint_more" / "number.py"
    source = number.read_text()
    try:
        assert tool(package, *line).returncode == 0
        assert ".maxnreg 77" in out.read_text()
        # As long and of the same second, so that the module which Python has compiled looks current.
        seconds = number.stat().st_mtime
        number.write_text("NUMBER = 99\n")
        os.utime(number, (seconds, seconds))
        done = tool(package, *line)
        assert done.returncode == 0 and ".maxnreg 99" in out.read_text(), done.stderr
    finally:
        number.write_text(source)


def test_depfiles_name_the_modules_of_the_package(package: Path, tmp_path: Path) -> None:
    modules = {str(package / "tile_lint_more" / name) for name in ("__init__.py", "number.py", "passes.py")}
    kernel, out, depfile = tmp_path / "k.tilebc", tmp_path / "k.ptx", tmp_path / "k.d"
    shutil.copy(KERNEL, kernel)
    lines = [
        ("tileiras", kernel, "--gpu-name=sm_90", "--emit=ptx", "-o", out, "--plugin=InPackage", f"--depfile={depfile}"),
        ("tileiras.tools.build", "compile", "--arch=compute_90", kernel, "-o", out, "--option=--plugin=InPackage",
         "--depfile", depfile),
        ("tileiras.tools.build", "kernels", "--arch=compute_90", "--folder", tmp_path, "--stamp", tmp_path / "stamp",
         "--option=--plugin=InPackage", "--depfile", depfile, "--", kernel, "k", "k"),
    ]  # fmt: skip
    for line in lines:
        done = tool(package, *line)
        assert done.returncode == 0, done.stderr
        named = depfile.read_text().replace("\\\n", " ").split(": ", 1)[1].split()
        assert set(named) == {str(kernel), *modules}, line[0]
        depfile.unlink()
    assert tool(package, *lines[1][:-3], "--depfile", depfile).returncode == 0
    assert "tile_lint" not in depfile.read_text(), "who is not named is no prerequisite"


@pytest.mark.parametrize("builder", ["make", "ninja"])
@pytest.mark.parametrize("verb", ["compile", "kernels"])
def test_a_build_system_runs_again_when_a_module_changes(
    package: Path, tmp_path: Path, builder: str, verb: str
) -> None:
    runner = find_ninja() if builder == "ninja" else shutil.which(builder)
    if runner is None:
        pytest.skip("needs make")
    shutil.copy(KERNEL, tmp_path / "k.tilebc")
    command = f"{shlex.quote(sys.executable)} -m tileiras.tools.build {verb} --arch=compute_90 "
    command += "--option=--plugin=InPackage --depfile k.d "
    command += "k.tilebc -o k.ptx" if verb == "compile" else "--folder . --stamp stamp -- k.tilebc k k"
    target = "k.ptx" if verb == "compile" else "stamp"
    if builder == "make":
        (tmp_path / "Makefile").write_text(f"{target}: k.tilebc\n\t{command}\n-include k.d\n")
    else:
        (tmp_path / "build.ninja").write_text(
            f"rule r\n command = {command}\n depfile = k.d\n deps = gcc\nbuild {target}: r k.tilebc\n"
        )
    environment = {**os.environ, "PYTHONPATH": f"{package}:{ROOT}"}
    ptx = tmp_path / ("k.ptx" if verb == "compile" else "k.compute_90.ptx")

    def build() -> str:
        done = subprocess.run([runner], cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    number = package / "tile_lint_more" / "number.py"
    source = number.read_text()
    os.utime(number, (10**9, 10**9))  # an edit has another time also where it comes within the same second
    try:
        assert "--plugin" in build() and ".maxnreg 77" in ptx.read_text()
        assert "--plugin" not in build(), "nothing has changed"
        number.write_text("NUMBER = 99\n")
        build()
        assert ".maxnreg 99" in ptx.read_text()
    finally:
        number.write_text(source)


def test_a_package_whose_sources_are_edited_in_their_place_is_found(package: Path, tmp_path: Path) -> None:
    """pip install -e: a .pth file says where it is, which Python does not read for the commands (-S)."""
    site, sources = tmp_path / "site-packages", tmp_path / "sources"
    site.mkdir()
    shutil.copytree(package / "tile_lint_more", sources / "tile_lint_more")
    (info,) = package.glob("tile_lint-*.dist-info")
    shutil.copytree(info, site / info.name)
    (site / "tile_lint.pth").write_text(f"{sources}\n")
    start = f"import sys; sys.path[:0] = [{str(ROOT)!r}, {str(site)!r}]; from tileiras.cli import main; "
    start += "sys.exit(main(sys.argv[1:]))"
    out, depfile = tmp_path / "k.ptx", tmp_path / "k.d"
    words = [
        KERNEL,
        "--gpu-name=sm_90",
        "--emit=ptx",
        "-o",
        out,
        f"--depfile={depfile}",
        "--plugin=InPackage",
    ]
    done = subprocess.run([sys.executable, "-I", "-S", "-c", start, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (
        ".maxnreg 77" in out.read_text()
        and str(sources / "tile_lint_more" / "number.py") in depfile.read_text()
    )
