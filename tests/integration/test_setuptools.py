"""setuptools projects with Tile kernels: what is built, when it is built again, what is packed, how it fails."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import shutil
import signal
import sys
import tarfile
import time
from pathlib import Path

import peers
import pytest
from build_support import KERNEL, Installed, ok, run
from setuptools_support import Project, c_module, install_metadata, need_bdist_wheel

from tileiras.toolchain.view import make_view

pytest.importorskip("setuptools", minversion="64")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    made = Installed(tmp_path_factory.mktemp("installed"))
    install_metadata(made)
    return made


@pytest.fixture
def project(installed: Installed, tmp_path: Path) -> Project:
    return Project(tmp_path / "pro ject", installed)


# --- what is built


def test_tileir_among_the_sources_of_a_plain_extension(project: Project) -> None:
    """`_k.c` beside `_k.tileir`: two objects, both linked once."""
    project.kernel("_k.tileir")
    project.write("pkg/_k.c", c_module("_k", "_k"))
    project.setup("Extension('pkg._k', ['pkg/_k.c', 'pkg/_k.tileir'])")
    project.build(TILEIRAS_CUDA_ARCHS="90-real")
    assert project.ask("import pkg._k; print(pkg._k.sizes()[0] > 1000)") == "True"
    names = sorted(path.name for path in (project.root / "build").rglob("*.o"))
    assert names == ["_k.o", "_k.tileir.o"]


def test_a_module_of_tile_sources_alone(project: Project) -> None:
    project.kernel("one.tileir")
    project.kernel("two.tilebc", "axpy_f16")
    project.setup(
        "TileExtension('pkg._only', ['pkg/one.tileir', 'pkg/two.tilebc'], archs=['sm_90', 'compute_90'])"
    )
    project.build()
    answer = project.ask("import pkg._only as m, json; one = m.images['one']; "
                         "print(sorted(m.images), one.readonly, bytes(one[:4]).hex(), "
                         "[k['name'] for i in json.loads(m.tables['two'])['images'] for k in i['kernels']])")  # fmt: skip
    assert answer.startswith("['one', 'two'] True 50ed55ba ['")


def test_two_extensions_share_a_source_with_different_options(project: Project) -> None:
    project.kernel("k.tileir")
    project.setup("TileExtension('pkg._a', ['pkg/k.tileir'], archs='sm_90', opt_level=0), "
                  "TileExtension('pkg._b', ['pkg/k.tileir'], archs=['sm_90', 'sm_100'])")  # fmt: skip
    project.build("-j4")
    sizes = project.ask("import pkg._a as a, pkg._b as b; print(len(a.images['k']) < len(b.images['k']))")
    assert sizes == "True"
    assert len(project.stamps()) == 3


def test_names_with_every_kind_of_letter(project: Project) -> None:
    project.kernel("my k#1$é.tileir")
    project.write("pkg/_m.c", c_module("_m", "my k#1$é").replace("my k#1$é_image", "my_k_1___image"))
    project.setup("TileExtension('pkg._m', ['pkg/_m.c', 'pkg/my k#1$é.tileir'], archs='sm_90', package_data=True), "
                  "TileExtension('pkg._o', ['pkg/my k#1$é.tileir'], archs='sm_90')")  # fmt: skip
    project.build()
    assert (
        project.ask("import pkg._m, pkg._o; print(pkg._m.sizes()[0] == len(pkg._o.images['my k#1$é']))")
        == "True"
    )
    before = project.stamps()
    project.build()
    assert project.stamps() == before
    os.utime(project.package / "my k#1$é.tileir")
    project.build()
    assert len(changed(project, before)) == 2


def test_options_reach_the_compiler(project: Project) -> None:
    project.kernel("k.tileir")
    project.setup("TileExtension('pkg._a', ['pkg/k.tileir'], archs='sm_90', lineinfo=True, opt_level=1, prefix='my_k', "
                  "header='my.h', extra_compile_args={'tileiras': ['--lineinfo']})")  # fmt: skip
    done = project.build("-v")
    line = next(one for one in done.stdout.splitlines() if one.startswith("tileiras-build compile"))
    for word in (
        "--compiler=nvidia",
        "--opt-level=1",
        "--lineinfo",
        "--option=--lineinfo",
        "--host-arch x86_64",
        "--arch sm_90",
    ):
        assert word in line
    assert "my_k_image" in next((project.root / "build").rglob("my.h")).read_text()


def test_the_projects_own_build_ext_stays_in_charge(project: Project) -> None:
    project.kernel("k.tileir")
    project.write("pkg/c.c", c_module("c"))
    project.setup("Extension('pkg.c', ['pkg/c.c']), TileExtension('pkg._k', ['pkg/k.tileir'], archs='sm_90')",
                  "cmdclass={'build_ext': Mine}",
                  "from setuptools.command.build_ext import build_ext\nclass Mine(build_ext):\n"
                  "    def build_extension(self, ext):\n        print('mine', ext.name)\n"
                  "        super().build_extension(ext)\n")  # fmt: skip
    assert re.findall(r"mine (\S+)", project.build().stdout) == ["pkg.c", "pkg._k"]


def test_projects_without_tile_sources_are_left_alone(project: Project) -> None:
    project.write("pkg/c.c", c_module("c"))
    project.setup("Extension('pkg.c', ['pkg/c.c'])", "cmdclass={'build_ext': Mine}",
                  "from setuptools.command.build_ext import build_ext\nclass Mine(build_ext):\n"
                  "    def run(self):\n        print('bases', [one.__name__ for one in type(self).__mro__])\n"
                  "        super().run()\n")  # fmt: skip
    done = project.build()
    assert "'Mine'" in done.stdout and "Tile" not in done.stdout


def test_cutile_python_is_exported_by_the_users_cuda_tile(project: Project, tmp_path: Path) -> None:
    if run([sys.executable, "-c", "import cuda.tile"]).returncode:
        peers.missing("cuda-tile in the running interpreter")
    project.write("pkg/vadd.py", KERNEL.format(helper="vadd_helper"))
    helper = project.write("pkg/vadd_helper.py", "def combine(x, y):\n    return x + y\n")
    project.setup("TileExtension('pkg._v', ['pkg/vadd.py'], archs='sm_90', entries=['vadd'], "
                  "signature='f32[1],f32[1],f32[1],=128', lineinfo=True)")  # fmt: skip
    project.build()
    # cuTile writes the source's path into the bytecode; a wheel must not name the folder it was built in.
    made = [
        path
        for path in (project.root / "build").rglob("vadd.*")
        if path.suffix in (".tilebc", ".cubin", ".fatbin")
    ]
    assert len(made) == 3 and not any(str(project.root).encode() in path.read_bytes() for path in made)
    before = project.stamps()
    project.build()
    assert project.stamps() == before
    time.sleep(0.02)
    helper.write_text(
        "def combine(x, y):\n    return x - y\n"
    )  # an imported module, known by the depfile alone
    project.build()
    assert project.stamps() != before


def test_a_matrix_of_signatures_is_a_dependency_and_a_source(project: Project) -> None:
    if run([sys.executable, "-c", "import cuda.tile"]).returncode:
        peers.missing("cuda-tile in the running interpreter")
    project.write("pkg/vadd.py", KERNEL.format(helper="vadd_helper"))
    project.write("pkg/vadd_helper.py", "def combine(x, y):\n    return x + y\n")
    matrix = {"values": {"t": ["f32", "f16"]}, "signature": "{t}[1],{t}[1],{t}[1],=128", "symbol": "vadd_{t}"}
    project.write("pkg/matrix.json", json.dumps(matrix))
    project.setup(
        "TileExtension('pkg._v', ['pkg/vadd.py'], archs='sm_90', entries=['vadd'], matrix='pkg/matrix.json')"
    )
    project.build()
    code = "import pkg._v as v, json; print(sorted(k['symbol'] for k in json.loads(v.tables['vadd'])['images'][0]['kernels']))"
    assert project.ask(code) == "['vadd_f16', 'vadd_f32']"
    project.write("pkg/matrix.json", json.dumps({**matrix, "values": {"t": ["f32"]}}))
    project.build()
    assert project.ask(code) == "['vadd_f32']"
    ok(project.run("sdist"))
    with tarfile.open(next((project.root / "dist").glob("*.tar.gz"))) as archive:
        assert any(name.endswith("pkg/matrix.json") for name in archive.getnames())


# --- when it is built again


def two_kernels(project: Project) -> None:
    project.kernel("a.tileir")
    project.kernel("b.tileir", "axpy_f16")
    project.write("pkg/dep.txt", "1")
    project.write("pkg/_m.c", c_module("_m", "a", "b"))
    project.setup("TileExtension('pkg._m', ['pkg/_m.c', 'pkg/a.tileir', 'pkg/b.tileir'], archs=['sm_90'])")


def changed(project: Project, before: dict[str, int], pattern: str = "*.cubin") -> list[str]:
    return sorted(
        Path(path).name for path, stamp in project.stamps(pattern).items() if before.get(path) != stamp
    )


def test_only_what_changed_is_built_again(project: Project) -> None:
    two_kernels(project)
    project.build()
    cubins, objects, linked = project.stamps(), project.stamps("*.o"), project.stamps("*.so")
    project.build()
    assert (project.stamps(), project.stamps("*.o"), project.stamps("*.so")) == (cubins, objects, linked)
    time.sleep(0.02)
    os.utime(project.package / "a.tileir")
    project.build()
    assert changed(project, cubins) == ["a.sm_90.cubin"]
    time.sleep(0.02)
    size = project.ask("import pkg._m; print(pkg._m.sizes())")
    project.kernel("b.tileir", "add_2d_f16")
    project.build()
    assert changed(project, objects, "*.o") == ["_m.o", "b.tileir.o"]
    assert project.ask("import pkg._m; print(pkg._m.sizes())") != size


def test_an_option_the_environment_or_a_dependency_rebuilds(project: Project, tmp_path: Path) -> None:
    two_kernels(project)
    project.setup(
        "TileExtension('pkg._m', ['pkg/_m.c', 'pkg/a.tileir', 'pkg/b.tileir'], depends=['pkg/dep.txt'])"
    )
    project.build(TILEIRAS_CUDA_ARCHS="90-real")
    before = project.stamps()
    project.write("pkg/dep.txt", "22")
    project.build(TILEIRAS_CUDA_ARCHS="90-real")
    assert changed(project, before) == ["a.sm_90.cubin", "b.sm_90.cubin"]
    before = project.stamps("*.fatbin")
    project.build(TILEIRAS_CUDA_ARCHS="90-real;100-real")
    assert changed(project, before, "*.fatbin") == ["a.fatbin", "b.fatbin"]
    before = project.stamps()
    other = tmp_path / "other toolkit"  # the same tools, but for a ptxas with a byte more
    make_view(str(peers.require_toolkit()), str(other))
    (other / "bin").unlink()
    shutil.copytree(peers.require_toolkit() / "bin", other / "bin", copy_function=os.symlink)
    (other / "bin" / "ptxas").unlink()
    (other / "bin" / "ptxas").write_bytes(peers.require("ptxas").read_bytes() + b"\0")
    (other / "bin" / "ptxas").chmod(0o755)
    more = {"TILEIRAS_CUDA_ARCHS": "90-real;100-real", "TILEIRAS_TOOLKIT_ROOT": str(other)}
    project.build(**more)
    assert len(changed(project, before)) == 4
    before = project.stamps()
    project.build("--force", **more)
    assert len(changed(project, before)) == 4


def test_a_lost_output_is_made_again(project: Project) -> None:
    two_kernels(project)
    project.build()
    next((project.root / "build").rglob("a.fatbin")).unlink()
    next((project.root / "build").rglob("b_tile.h")).write_text("")
    project.build()
    assert "b_image" in next((project.root / "build").rglob("b_tile.h")).read_text()
    assert list((project.root / "build").rglob("a.fatbin"))


# --- how it fails


def test_a_failing_kernel_stops_the_build_and_leaves_nothing_stale(project: Project) -> None:
    two_kernels(project)
    project.build()
    (project.package / "a.tileir").write_bytes(b"\x7fTileIR\x00 broken")
    done = project.run("build_ext")
    assert done.returncode != 0
    assert "exit code 3" in done.stderr and done.stderr.count("pkg/a.tileir: tileiras-build compile") == 1
    assert not list((project.root / "build").rglob("*.so")) and not list(
        (project.root / "build").rglob("a.*.cubin")
    )
    project.kernel("a.tileir")
    project.build()


def test_an_optional_extension_is_skipped_with_a_warning(project: Project) -> None:
    (project.package / "bad.tileir").write_bytes(b"\x7fTileIR\x00 broken")
    project.kernel("good.tileir")
    project.setup("TileExtension('pkg._bad', ['pkg/bad.tileir'], archs='sm_90', optional=True), "
                  "TileExtension('pkg._good', ['pkg/good.tileir'], archs='sm_90')")  # fmt: skip
    done = project.build("-j2")
    assert 'building extension "pkg._bad" failed' in done.stdout + done.stderr
    assert [path.name.partition(".")[0] for path in project.package.glob("*.so")] == ["_good"]


def test_no_architecture_is_an_error_that_says_what_to_do(project: Project) -> None:
    project.kernel("k.tileir")
    project.setup("Extension('pkg._k', ['pkg/k.tileir'])")
    done = project.run("build_ext")
    assert done.returncode != 0 and "TILEIRAS_CUDA_ARCHS" in done.stderr


def test_a_budget_fails_the_build(project: Project) -> None:
    project.kernel("k.tileir")
    project.setup("TileExtension('pkg._k', ['pkg/k.tileir'], archs='sm_90', max_registers=2)")
    done = project.run("build_ext")
    assert done.returncode != 0 and "register" in done.stderr


def test_a_killed_compiler_is_named(project: Project, tmp_path: Path) -> None:
    project.kernel("k.tileir")
    project.setup("TileExtension('pkg._k', ['pkg/k.tileir'], archs='sm_90')")
    root = tmp_path / "toolkit" / "bin"
    root.mkdir(parents=True)
    real = peers.require_toolkit("13.4")
    for name in ("ptxas", "fatbinary"):
        (root / name).symlink_to(real / "bin" / name)
    (root / "tileiras").write_text("#!/bin/sh\nkill -KILL $$\n")
    (root / "tileiras").chmod(0o755)
    done = project.run("build_ext", TILEIRAS_TOOLKIT_ROOT=str(root.parent), TILEIRAS_CACHE="0")
    assert done.returncode != 0 and f"exit code {128 + signal.SIGKILL}" in done.stderr
    assert not list((project.root / "build").rglob("*.cubin"))


# --- what is packed


def check_record(files: dict[str, bytes]) -> None:
    record = next(name for name in files if name.endswith("/RECORD"))
    rows = [line.rsplit(",", 2) for line in files[record].decode().splitlines()]
    assert {row[0].strip('"') for row in rows} == set(files)
    for name, digest, _ in rows:
        if digest:
            data = hashlib.sha256(files[name.strip('"')]).digest()
            assert digest == "sha256=" + base64.urlsafe_b64encode(data).decode().rstrip("=")


def test_a_wheel_of_data_kernels_fits_every_python_of_the_platform(project: Project) -> None:
    project.kernel("a.tileir")
    project.kernel("b.tilebc", "axpy_f16")
    project.setup("TileKernels('pkg', ['pkg/a.tileir', 'pkg/b.tilebc'], archs=['90', '100-real'], "
                  "formats=['fatbin', 'cubin', 'json'])")  # fmt: skip
    name, files = project.wheel(CC="/no/compiler/is/needed")
    assert re.fullmatch(r"pkg-1\.0-py3-none-linux_x86_64\.whl", name)
    expected = {
        f"pkg/{stem}.{form}"
        for stem in "ab"
        for form in ("fatbin", "kernels.json", "sm_90.cubin", "sm_100.cubin")
    }
    assert expected | {"pkg/tile_kernels.py", "pkg/__init__.py"} <= set(files)
    assert json.loads(files["pkg/a.kernels.json"])["images"]
    check_record(files)
    assert not any(str(project.root).encode() in data for data in files.values())
    project.build()
    code = (
        "from pkg import tile_kernels as t; print(t.names(), t.image('a')[:4].hex(), t.table('b')['version'])"
    )
    assert project.ask(code) == "['a', 'b'] 50ed55ba 1"


def test_a_wheel_with_a_module_names_python_and_platform_and_no_build_path(project: Project) -> None:
    project.kernel("k.tileir")
    project.write("pkg/_m.c", c_module("_m", "k"))
    project.setup("TileExtension('pkg._m', ['pkg/_m.c', 'pkg/k.tileir'], archs='sm_90', package_data=True)")
    name, files = project.wheel()
    assert re.fullmatch(r"pkg-1\.0-cp3\d+-cp3\d+\w*-linux_x86_64\.whl", name)
    assert "pkg/k.fatbin" in files and "pkg/k.kernels.json" in files
    check_record(files)
    assert not any(str(project.root).encode() in data for data in files.values())


def test_a_limited_api_wheel(project: Project) -> None:
    project.kernel("k.tileir")
    project.setup("TileExtension('pkg._m', ['pkg/k.tileir'], archs='sm_90', py_limited_api=True, "
                  "define_macros=[('Py_LIMITED_API', '0x030a0000')])",
                  "options={'bdist_wheel': {'py_limited_api': 'cp310'}}")  # fmt: skip
    name, files = project.wheel()
    assert "-cp310-abi3-linux_x86_64" in name
    assert any(path.endswith(".abi3.so") for path in files)


def test_the_sdist_has_the_sources_and_no_images(project: Project) -> None:
    two_kernels(project)
    project.write("pkg/_m.c", c_module("_m", "a"))
    project.setup("TileExtension('pkg._m', ['pkg/_m.c', 'pkg/a.tileir'], archs='sm_90', depends=['pkg/dep.txt']), "
                  "TileKernels('pkg', ['pkg/b.tileir'], archs='sm_90')")  # fmt: skip
    project.build()
    ok(project.run("sdist"))
    with tarfile.open(next((project.root / "dist").glob("*.tar.gz"))) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pkg/_m.c", "pkg/a.tileir", "pkg/b.tileir", "pkg/dep.txt"} <= names
    assert not any(name.endswith((".cubin", ".fatbin", ".so", ".o")) for name in names)


PYPROJECT = """\
[build-system]
requires = ["setuptools>=64", "tileiras"]
build-backend = "setuptools.build_meta"
[project]
name = "pkg"
version = "1.0"
[tool.setuptools]
packages = ["pkg"]
[tool.tileiras]
archs = ["sm_90"]
[[tool.tileiras.kernels]]
package = "pkg"
sources = ["pkg/*.tileir"]
"""


def hook(project: Project, name: str, target: Path) -> None:
    """Calls a build hook as a frontend does, in the project's folder."""
    need_bdist_wheel()
    target.mkdir(exist_ok=True)
    code = f"import setuptools.build_meta as b; print(b.{name}({str(target)!r}))"
    ok(run([sys.executable, "-c", code], project.root, project.env, timeout=600))


def test_pyproject_alone_is_enough(project: Project, tmp_path: Path) -> None:
    project.kernel("k.tileir")
    project.write("pyproject.toml", PYPROJECT)
    hook(project, "build_wheel", tmp_path / "dist")
    name, files = Project.read_wheel(tmp_path / "dist")
    assert name == "pkg-1.0-py3-none-linux_x86_64.whl"
    assert {"pkg/k.fatbin", "pkg/k.kernels.json", "pkg/tile_kernels.py"} <= set(files)


def test_pyproject_mistakes_stop_the_build_with_the_keys_name(project: Project, tmp_path: Path) -> None:
    project.kernel("k.tileir")
    project.write("pyproject.toml", PYPROJECT.replace("archs", "arches"))
    code = f"import setuptools.build_meta as b; b.build_wheel({str(tmp_path)!r})"
    done = run([sys.executable, "-c", code], project.root, project.env)
    assert done.returncode != 0 and "did you mean 'archs'?" in done.stderr


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ("archs =", "arches =", "did you mean 'archs'?"),
        ('package = "pkg"', 'pakage = "pkg"', "did you mean 'package'?"),
        ('package = "pkg"', 'package = "pgk"', "this project has no package 'pgk'; did you mean 'pkg'?"),
        ("sources =", "source =", "did you mean 'sources'?"),
        ('["sm_90"]', '["sm_9x"]', "sm_9x"),
        ('["pkg/*.tileir"]', '["pkg/*.tielir"]', "pkg/*.tielir"),
        ('["pkg/*.tileir"]', "3", "sources"),
        ("[[tool.tileiras.kernels]]", "[[tool.tileiras.kernel]]", "did you mean 'kernels'?"),
        ("[[tool.tileiras.kernels]]", "[tool.tileiras.kernels]", "kernels"),
    ],
    ids=lambda words: str(words)[:24],
)
def test_pyproject_mistakes_are_one_line_without_a_traceback(
    right: str, wrong: str, said: str, project: Project, tmp_path: Path
) -> None:
    project.kernel("k.tileir")
    assert right in PYPROJECT
    project.write("pyproject.toml", PYPROJECT.replace(right, wrong))
    before = {path.name for path in project.root.iterdir()}
    code = f"import setuptools.build_meta as b; b.build_wheel({str(tmp_path)!r})"
    done = run([sys.executable, "-c", code], project.root, project.env)
    assert done.returncode != 0 and said in done.stderr and "Traceback" not in done.stderr, done.stderr
    assert (
        len([line for line in done.stderr.splitlines() if said in line]) == 1 and done.stderr.count("\n") < 6
    )
    left = {path.name for path in project.root.iterdir()} - before
    assert not list(tmp_path.glob("*.whl")) and "pgk" not in left


@pytest.mark.parametrize("mode", ["lenient", "strict"])
def test_an_editable_install_has_the_images_in_place(mode: str, project: Project, tmp_path: Path) -> None:
    need_bdist_wheel()
    project.kernel("k.tileir")
    project.kernel("m.tileir", "axpy_f16")
    project.write("pyproject.toml", PYPROJECT.replace('"pkg/*.tileir"', '"pkg/k.tileir"') + (
        '[[tool.tileiras.extensions]]\nname = "pkg._m"\nsources = ["pkg/m.tileir"]\n'))  # fmt: skip
    settings = {"editable_mode": mode}
    code = f"import setuptools.build_meta as b; b.build_editable({str(tmp_path)!r}, {settings!r})"
    ok(run([sys.executable, "-c", code], project.root, project.env, timeout=600))
    (path,) = tmp_path.glob("*.whl")
    site = tmp_path / "site"
    ok(run([sys.executable, "-m", "zipfile", "-e", path, site]))
    code = ("import sys, site; site.addsitedir(sys.argv[1]); from pkg import tile_kernels as t, _m; "
            "print(t.names(), t.image('k')[:4].hex(), sorted(_m.images))")  # fmt: skip
    env = {name: value for name, value in project.env.items() if name != "PYTHONPATH"}
    assert ok(run([sys.executable, "-c", code, site], tmp_path, env)).stdout.strip() == "['k'] 50ed55ba ['m']"


# --- torch


TORCH = "from torch.utils.cpp_extension import BuildExtension, CppExtension"


@pytest.mark.full
@pytest.mark.parametrize("ninja", [True, False])
def test_torch_build_extension(ninja: bool, project: Project) -> None:
    if run([sys.executable, "-c", TORCH]).returncode:
        peers.missing("torch")
    project.kernel("k.tileir")
    project.write("pkg/_m.cpp", '#include <torch/extension.h>\n#include "k_tile.h"\n'
                  'PYBIND11_MODULE(_m, m) { m.def("size", [] { return (long)k_image_size; }); }\n')  # fmt: skip
    project.setup("Extension('pkg._m', ['pkg/_m.cpp', 'pkg/k.tileir'], include_dirs=include_paths(), language='c++', "
                  "library_dirs=library_paths(), libraries=['c10', 'torch', 'torch_cpu', 'torch_python'])",
                  f"cmdclass={{'build_ext': BuildExtension.with_options(use_ninja={ninja})}}",
                  TORCH + "\nfrom torch.utils.cpp_extension import include_paths, library_paths")  # fmt: skip
    project.build(TILEIRAS_CUDA_ARCHS="90-real", MAX_JOBS="1")
    assert project.ask("import torch, pkg._m; print(pkg._m.size() > 1000)") == "True"


def test_a_build_ext_that_patches_the_compiler(project: Project) -> None:
    """What torch does without torch: the compiler's `compile` is replaced, and takes only its own languages."""
    project.kernel("k.tileir")
    project.write("pkg/_m.c", c_module("_m", "k"))
    project.setup("TileExtension('pkg._m', ['pkg/_m.c', 'pkg/k.tileir'], archs='sm_90', "
                  "extra_compile_args={'cxx': ['-DX'], 'tileiras': ['-w']})",
                  "cmdclass={'build_ext': Patched}",
                  "from setuptools.command.build_ext import build_ext\nclass Patched(build_ext):\n"
                  "    def build_extensions(self):\n        old = self.compiler.compile\n"
                  "        def compile(sources, *words, **keywords):\n"
                  "            assert all(one.endswith('_m.c') for one in sources), sources\n"
                  "            print('patched', keywords['extra_postargs'])\n"
                  "            return old(sources, *words, **keywords)\n"
                  "        self.compiler.compile = compile\n        super().build_extensions()\n")  # fmt: skip
    assert "patched ['-DX', '-ffile-prefix-map=" in project.build().stdout
    assert project.ask("import pkg._m; print(pkg._m.sizes()[0] > 1000)") == "True"
