"""The parts of the setuptools integration that need no build: options, schema, pyproject, jobs, texts, depfiles."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import stub_drivers
from build_support import REPOSITORY, map_checkout

pytest.importorskip("setuptools")
map_checkout()
from setuptools.errors import CompileError, OptionError  # noqa: E402
from tileiras.setuptools_ext import TileExtension, TileKernels, build, jobs, module, options, pyproject  # noqa: E402

MIB = 1 << 20


def read(text: str, root: Path) -> tuple[dict[str, object], int | None, list[object]]:
    (root / "pyproject.toml").write_text(text)
    table = pyproject.load_table(str(root / "pyproject.toml"))
    assert table is not None
    return pyproject.read_project(table, str(root))


def test_schema_file_is_what_the_table_says() -> None:
    kept = json.loads((REPOSITORY / "setuptools_ext" / "tileiras.schema.json").read_text())
    assert kept == pyproject.schema(), "write it again: python -m tileiras.setuptools_ext.pyproject"


def test_a_whole_table(tmp_path: Path) -> None:
    for name in ("b.tileir", "a.tileir", "c.tilebc"):
        (tmp_path / name).touch()
    defaults, count, extensions = read(
        """
[tool.tileiras]
archs = "90;100-virtual"
opt-level = 2
jobs = 3
[[tool.tileiras.kernels]]
package = "p.q"
sources = ["*.tileir", "a.tileir"]
formats = ["cubin"]
loader = "kernels"
max-shared = "100K"
[[tool.tileiras.extensions]]
name = "p._m"
sources = ["m.c", "c.tilebc"]
extra-compile-args = { cxx = ["-O1"], tileiras = ["--lineinfo"] }
define-macros = [["A"], ["B", "1"]]
""",
        tmp_path,
    )
    assert defaults == {"archs": ["90;100-virtual"], "opt_level": 2} and count == 3
    kernels, extension = extensions
    assert isinstance(kernels, TileKernels) and isinstance(extension, TileExtension)
    assert kernels.name == "p.q.kernels" and kernels.sources == ["a.tileir", "b.tileir"]
    assert kernels.tile_options == {"formats": ["cubin"], "max_shared": "100K"}
    assert extension.extra_compile_args == ["-O1"] and extension.tile_compile_args["tileiras"] == [
        "--lineinfo"
    ]
    assert extension.define_macros == [("A", None), ("B", "1")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[tool.tileiras]\narch = ['sm_90']", "[tool.tileiras] has no key 'arch'; did you mean 'archs'?"),
        ("[tool.tileiras]\nopt_level = 1", "has no key 'opt_level'; did you mean 'opt-level'?"),
        ("[tool.tileiras]\nprefix = 'x'", "[tool.tileiras] has no key 'prefix'"),
        ("[tool.tileiras]\nopt-level = 'high'", "opt-level is a whole number, not 'high'"),
        ("[tool.tileiras]\njobs = 0", "tool.tileiras.jobs is at least 1, not 0"),
        ("[tool.tileiras]\njobs = true", "tool.tileiras.jobs is an integer, not True"),
        ("[tool.tileiras]\ncompiler = 'gcc'", "compiler: 'gcc' is not one of builtin, nvidia"),
        ("[tool.tileiras]\nkernels = {}", "an array of tables: [[tool.tileiras.kernels]]"),
        ("[[tool.tileiras.kernels]]\npackage = 'p'", "[[tool.tileiras.kernels]] needs 'sources'"),
        ("[[tool.tileiras.kernels]]\npackage = 'p'\nsources = ['*.tileir']", "no file matches '*.tileir'"),
        ("[[tool.tileiras.kernels]]\npackage = 'p'\nsources = ['a']\nsorces = []",
         "has no key 'sorces'; did you mean 'sources'?"),
        ("[[tool.tileiras.kernels]]\npackage = 'p'\nsources = 'a'", "tool.tileiras.kernels.sources is an array, not 'a'"),
        ("[[tool.tileiras.extensions]]\nname = 'p'\nsources = ['a']\nextra-compile-args = {gcc = []}",
         "tool.tileiras.extensions.extra-compile-args has an unexpected value"),
    ],
)  # fmt: skip
def test_mistakes_are_named(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(OptionError) as caught:
        read(text, tmp_path)
    assert message in str(caught.value)


def test_keywords_are_checked_too() -> None:
    with pytest.raises(options.OptionError, match=r"TileExtension\('m'\): opt_level is a whole number"):
        TileExtension("m", ["k.tileir"], opt_level="3")
    with pytest.raises(TypeError, match="unknown keyword 'optlevel'; did you mean 'opt_level'"):
        TileKernels("p", ["k.tileir"], optlevel=3)
    with pytest.raises(options.OptionError, match="extra_compile_args has the keys cxx, nvcc, tileiras"):
        TileExtension("m", ["k.tileir"], extra_compile_args={"gcc": []})


def test_every_option_reaches_the_command_line_or_another_tool() -> None:
    samples = {options.WORDS: ["v"], options.FLAG: True}
    values = {one.name: samples.get(one.kind, 1) for one in options.OPTIONS}
    words = options.compile_words(values)
    assert {word.partition("=")[0] for word in words} == {one.flag for one in options.OPTIONS if one.flag}
    assert options.compile_words({"debug": False, "options": ["-O1"]}) == ["--option=-O1"]


@pytest.mark.parametrize(
    ("parallel", "environ", "memory", "expected"),
    [
        (3, {"TILEIRAS_JOBS": "5"}, MIB, 3),
        (None, {"TILEIRAS_JOBS": "5", "MAX_JOBS": "6"}, MIB, 5),
        (True, {"MAX_JOBS": "6", "CMAKE_BUILD_PARALLEL_LEVEL": "7"}, MIB, 6),
        (None, {"CMAKE_BUILD_PARALLEL_LEVEL": "7"}, MIB, 7),
        (None, {"TILEIRAS_JOBS": "none", "MAX_JOBS": "0"}, MIB, 1),
        (None, {}, MIB, 1),
    ],
)
def test_jobs(parallel: int | None, environ: dict[str, str], memory: int, expected: int) -> None:
    assert jobs.count_jobs(parallel, environ, memory) == expected


def test_jobs_follow_processors_where_memory_allows() -> None:
    assert jobs.count_jobs(None, {}, 1 << 50) == len(os.sched_getaffinity(0))


def test_makes_jobserver(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    holder = os.open(fifo, os.O_RDWR)
    os.write(holder, b"ab")
    server = jobs.Jobserver.connect({"MAKEFLAGS": f"-j --jobserver-auth=fifo:{fifo}"})
    assert server is not None
    tokens = [server.try_acquire() for _ in range(3)]
    assert tokens == [b"a", b"b", None]
    server.release(b"a")
    assert server.try_acquire() == b"a"
    read, write = os.pipe()
    assert jobs.Jobserver.connect({"MAKEFLAGS": f"--jobserver-auth={read},{write}"}) is not None
    for flags in (
        "",
        "-j4",
        "--jobserver-auth=-2,-2",
        "--jobserver-auth=900,901",
        "--jobserver-auth=fifo:/no/such",
    ):
        assert jobs.Jobserver.connect({"MAKEFLAGS": flags}) is None


def test_an_architecture_is_asked_for_as_it_is_spelled() -> None:
    """The suffix says which instructions there may be: `.target sm_120` under the name sm_120f would lack them."""
    archs, _ = build.find_archs(["90a-real", "sm_100", "120f"], {}, "builtin", lambda text: None)
    unit = build.Unit("k.tileir", "out", {"compiler": "builtin"}, archs, [], [], ("x86_64", "linux"), False)
    asked = [argv[argv.index("--arch") + 1] for argv in (c.argv for c in unit.commands()) if "--arch" in argv]
    assert asked == [str(arch) for arch in archs] == ["sm_90a", "sm_100", "sm_120f", "compute_120f"]


def test_archs_come_from_the_option_then_the_environment_and_never_from_nowhere() -> None:
    said: list[str] = []

    def find(option: list[str] | None, **environ: str) -> list[str]:
        return [str(arch) for arch in build.find_archs(option, environ, "builtin", said.append)[0]]

    assert find(["90a-real"], TILEIRAS_CUDA_ARCHS="80") == ["sm_90a"]
    assert find(None, TILEIRAS_CUDA_ARCHS="80-real", TORCH_CUDA_ARCH_LIST="9.0") == ["sm_80"]
    assert find(None, TORCH_CUDA_ARCH_LIST="9.0 10.0+PTX", CUDAARCHS="80") == [
        "sm_90",
        "sm_100",
        "compute_100",
    ]
    assert find(None, CUDAARCHS="90") == ["sm_90", "compute_90"]
    assert said == []
    assert find(None, TORCH_CUDA_ARCH_LIST="7.0;9.0") == ["sm_90"]
    assert len(said) == 1 and "TORCH_CUDA_ARCH_LIST" in said[0] and "sm_70" in said[0]
    with pytest.raises(CompileError, match="no GPU architecture is named"):
        find(None)
    with pytest.raises(CompileError, match="CUDAARCHS: "):
        find(None, CUDAARCHS="bogus")


@pytest.mark.parametrize(
    "name", ["plain", "a b", "a#b", "a$b", "a\\b", "a\\ b", "é", "a\\\\#b", "a:b", "a=b", "a;b", "a\\;b", "a\\\\;b", "a\\",
             "a\\\\", "a ", "a\nb", "a\tb", "a\rb", "a\r", "a\\$b", "a\\=b", "a|*?[%'\"&<>^`~b", "$(or =)x", "(b"]
)  # fmt: skip
def test_depfiles_are_read_as_they_are_written(name: str, tmp_path: Path) -> None:
    from tileiras.tools.build.depfile import write_depfile

    (tmp_path / "d").write_text(write_depfile("t x", ["/" + name, "/other"], "make"), newline="")
    assert sorted(build.read_depfile(str(tmp_path / "d"))) == sorted(["/" + name, "/other"])


def test_c_strings_survive_a_c_compiler(tmp_path: Path) -> None:
    text = 'é "quoted" \\ ??/ trigraph\n\ttab \x01 ' + "x" * 200
    (tmp_path / "s.c").write_text(
        f"#include <stdio.h>\nint main(void) {{ fputs({module.c_string(text)}, stdout); return 0; }}\n"
    )
    subprocess.run(["cc", "-trigraphs", "-o", "s", "s.c"], cwd=tmp_path, check=True)
    assert subprocess.run(["./s"], cwd=tmp_path, capture_output=True, check=True).stdout.decode() == text


def test_the_loader_chooses_the_image_that_the_driver_takes(tmp_path: Path) -> None:
    (tmp_path / "loader.py").write_text(module.write_loader("p.loader", {"k": "k.fatbin"}))
    code = """
import loader
assert loader.names() == ["k"]
class K(loader.Kernel):
    def __init__(self, archs, here):
        self._rows, self.here = [(arch, arch) for arch in archs], here
    def _call(self, name, target=None, attribute=None, device=None):
        if name == "cuDeviceGetAttribute":
            target._obj.value = self.here // 10 if attribute == 75 else self.here % 10
def row(here, *archs):
    return K(archs, here)._row()
assert row(90, "sm_80", "sm_90", "compute_80") == "sm_90"
assert row(89, "sm_80", "sm_86", "sm_90", "compute_80") == "sm_86"
assert row(120, "sm_90", "compute_80", "compute_90") == "compute_90"
assert row(103, "sm_100", "compute_90") == "sm_100"
"""
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)


@pytest.mark.parametrize("kind", stub_drivers.KINDS)
def test_the_loader_says_what_a_machine_without_a_driver_lacks(kind: str, tmp_path: Path) -> None:
    """And takes the code for the CPU where there is some."""
    (tmp_path / "p.so").write_bytes(b"")
    (tmp_path / "k.fatbin").write_bytes(b"image")
    (tmp_path / "k.kernels.json").write_text('{"images": []}')
    loader = module.write_loader("p.loader", {"k": "k.fatbin"}, {"k": ("p.so", "p")})
    (tmp_path / "loader.py").write_text(loader)
    code = """
import os, loader
os.environ["TILEIRAS_DEVICE"] = "gpu"
try:
    loader.load("k")
except (OSError, loader.DriverError) as error:
    print(type(error).__name__, error)
os.environ["TILEIRAS_DEVICE"] = "auto"
loader._on_cpu = lambda name: {"one": "on the CPU"}
print(loader.load("k"))
"""
    env = stub_drivers.environment(tmp_path, kind)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=env, check=True, capture_output=True, text=True
    )
    said, fallen_back = done.stdout.splitlines()
    assert fallen_back == "{'one': 'on the CPU'}"
    if kind == "no device":
        assert said == "DriverError cuInit failed with CUresult 100 (CUDA_ERROR_NO_DEVICE)"
        return
    why = {"missing": "libcuda.so.1: cannot open shared object file: No such file or directory",
           "no library": f"{tmp_path}/libcuda.so.1: file too short",
           "not the driver": f"{tmp_path}/libcuda.so.1: undefined symbol: cuInit",
           "too old": f"{tmp_path}/libcuda.so.1: undefined symbol: cuLibraryLoadData"}[kind]  # fmt: skip
    assert said == (
        "OSError launching these kernels needs an NVIDIA GPU and its driver, and this machine has no usable "
        f"libcuda.so.1 ({why}); names(), image() and table() work without one"
    )


def test_hooks_import_next_to_nothing() -> None:
    code = ("import sys; sys.path.insert(0, sys.argv[1]); import tileiras; before = set(sys.modules)\n"
            "import tileiras.setuptools_ext.hooks\n"
            "print(sorted(name for name in set(sys.modules) - before if not name.startswith('tileiras')))")  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, str(REPOSITORY)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
