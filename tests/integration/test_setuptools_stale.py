"""setuptools: what an earlier build, another build or a second entry left must never be packed or imported as new."""

from __future__ import annotations

import json
import tarfile
import time
from pathlib import Path

import pytest
from build_support import Installed
from setuptools_support import Project, c_module, install_metadata

pytest.importorskip("setuptools", minversion="64")
ELF_MACHINES = {62: "x86_64", 183: "aarch64"}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    made = Installed(tmp_path_factory.mktemp("installed"))
    install_metadata(made)
    return made


@pytest.fixture
def project(installed: Installed, tmp_path: Path) -> Project:
    return Project(tmp_path / "pro ject", installed)


def images(project: Project) -> list[str]:
    return sorted(path.name for path in project.package.iterdir() if path.suffix not in (".pyc", ".tileir"))


def test_entries_of_one_package_share_its_loader(project: Project) -> None:
    project.kernel("a.tileir")
    project.kernel("b.tileir", "axpy_f16")
    project.setup(
        "TileKernels('pkg', ['pkg/a.tileir'], archs='sm_90'), TileKernels('pkg', ['pkg/b.tileir'], archs='sm_80')"
    )
    project.build()
    code = "from pkg import tile_kernels as t; print(t.names(), [i['arch'] for n in 'ab' for i in t.table(n)['images']])"
    assert project.ask(code) == "['a', 'b'] ['sm_90', 'sm_80']"


def test_the_loader_reads_what_is_installed_whatever_formats_say(project: Project) -> None:
    project.kernel("a.tileir")
    project.setup("TileKernels('pkg', ['pkg/a.tileir'], archs='sm_90', formats=['cubin'])")
    project.build()
    assert (
        project.ask(
            "from pkg import tile_kernels as t; print(len(t.image('a')) > 0 and t.table('a')['version'])"
        )
        == "1"
    )
    assert (project.package / "a.sm_90.cubin").is_file()


@pytest.mark.parametrize(
    ("extensions", "said"),
    [
        ("TileKernels('pkg', ['a/k.tileir'], archs='sm_90'), TileKernels('pkg', ['b/k.tileir'], archs='sm_80', loader='two')",
         "k.fatbin' would be two files that differ"),
        ("TileKernels('pkg', ['a/k.tileir', 'b/k.tileir'], archs='sm_90')", "are both named 'k'"),
        ("TileExtension('pkg._m', ['a/k.tileir', 'b/k.tileir'], archs='sm_90')", "are both named 'k'"),
        ("TileExtension('pkg._m', ['a/k-1.tileir', 'a/k_1.tileir'], archs='sm_90')", "are both named 'k_1'"),
        ("TileExtension('pkg._m', ['a/k.tileir', 'a/k_1.tileir'], archs='sm_90', prefix='p')", "prefix 'p' is for one source"),
        ("TileKernels('pkg', ['a/k.tileir'], archs='sm_90', loader='__init__')", "'__init__' is no name for a module"),
        ("TileKernels('pkg', ['a/k.tileir'], archs='sm_90', loader='a/b')", "'a/b' is no name for a module"),
        ("TileKernels('pkg', ['a/k.tileir'], archs='sm_90', loader='mine')", "mine.py' is a module of yours"),
        ("TileKernels('pkg', ['a/k.tileir'], archs='sm_90', max_register=8)", "did you mean 'max_registers'"),
        ("TileExtension('pkg._m', ['a/k.tileir'], archs='sm_90', max_register=8)", "did you mean 'max_registers'"),
        ("TileKernels('pkg', ['a/k.tileir'], archs='sm_90', formats=['ptx'])", "'ptx' needs the compiler 'builtin'"),
        ("TileKernels('pkg', ['a/k.tileir'], archs='sm_90', bytecode_version='12.0')", "'12.0' is not one of 13.1"),
    ],
    ids=lambda text: None if "(" in text else text,
)  # fmt: skip
def test_names_that_would_hide_each_other_are_refused(extensions: str, said: str, project: Project) -> None:
    for folder in "ab":
        (project.root / folder).mkdir()
    project.kernel("../a/k.tileir")
    project.kernel("../a/k-1.tileir")
    project.kernel("../a/k_1.tileir")
    project.kernel("../b/k.tileir", "axpy_f16")
    project.write("pkg/mine.py", "KEEP = 1\n")
    project.setup(extensions)
    done = project.run("build_ext", "--inplace")
    assert done.returncode and said in done.stderr
    assert images(project) == ["__init__.py", "mine.py"]
    assert (project.package / "mine.py").read_text() == "KEEP = 1\n"


def test_a_kernel_that_left_the_project_leaves_build_and_sources(project: Project) -> None:
    project.kernel("a.tileir")
    project.kernel("b.tileir", "axpy_f16")
    project.setup("TileKernels('pkg', ['pkg/a.tileir', 'pkg/b.tileir'], archs='sm_90')")
    project.build()
    project.setup("TileKernels('pkg', ['pkg/a.tileir'], archs='sm_90', loader='other')")
    project.build()
    assert images(project) == ["__init__.py", "__pycache__", "a.fatbin", "a.kernels.json", "other.py"] or images(project) == [
        "__init__.py", "a.fatbin", "a.kernels.json", "other.py"]  # fmt: skip
    _, files = project.wheel()
    assert sorted(name for name in files if name.startswith("pkg/")) == [
        "pkg/__init__.py", "pkg/a.fatbin", "pkg/a.kernels.json", "pkg/other.py"]  # fmt: skip


def test_a_file_that_somebody_wrote_over_ours_is_not_removed(project: Project) -> None:
    project.kernel("a.tileir")
    project.kernel("b.tileir", "axpy_f16")
    project.setup("TileKernels('pkg', ['pkg/a.tileir', 'pkg/b.tileir'], archs='sm_90')")
    project.build()
    (project.package / "b.fatbin").write_bytes(b"kept by hand")
    project.setup("TileKernels('pkg', ['pkg/a.tileir'], archs='sm_90')")
    project.build()
    assert (project.package / "b.fatbin").read_bytes() == b"kept by hand"
    assert not (project.package / "b.kernels.json").exists()


def test_two_builds_of_one_source_tree_each_leave_their_own_image(project: Project) -> None:
    """As two Pythons do: the second's image in the sources is newer than the first's, and not what the first made."""
    project.kernel("a.tileir")
    project.setup("TileKernels('pkg', ['pkg/a.tileir'])")
    one, two = (
        ["--build-temp=build/t1", "--build-lib=build/l1"],
        ["--build-temp=build/t2", "--build-lib=build/l2"],
    )
    project.build(*one, TILEIRAS_CUDA_ARCHS="90-real")
    first = (project.package / "a.fatbin").read_bytes()
    time.sleep(0.02)
    project.build(*two, TILEIRAS_CUDA_ARCHS="80-real")
    assert (project.package / "a.fatbin").read_bytes() != first
    project.build(*one, TILEIRAS_CUDA_ARCHS="90-real")
    assert (project.package / "a.fatbin").read_bytes() == first


def test_a_damaged_copy_is_made_again(project: Project) -> None:
    project.kernel("a.tileir")
    project.setup("TileKernels('pkg', ['pkg/a.tileir'], archs='sm_90')")
    project.build()
    good = (project.package / "a.fatbin").read_bytes()
    time.sleep(0.02)
    (project.package / "a.fatbin").write_bytes(b"junk")
    next((project.root / "build").glob("lib*/pkg/a.fatbin")).write_bytes(b"junk")
    project.build()
    assert (project.package / "a.fatbin").read_bytes() == good


def test_a_failure_leaves_nothing_to_import_in_place(project: Project) -> None:
    project.kernel("a.tileir")
    project.kernel("b.tileir", "axpy_f16")
    project.setup(
        "TileExtension('pkg._m', ['pkg/a.tileir'], archs='sm_90'), TileKernels('pkg', ['pkg/b.tileir'], archs='sm_90')"
    )
    project.build()
    for name, left in (("b.tileir", "_m."), ("a.tileir", "b.fatbin")):
        kept = (project.package / name).read_bytes()
        (project.package / name).write_bytes(b"\x7fTileIR\x00 broken")
        assert project.run("build_ext", "--inplace").returncode
        found = [one for one in images(project) if not one.startswith("__")]
        assert any(one.startswith(left) for one in found)
        assert not any(one.startswith("b." if name == "b.tileir" else "_m.") for one in found), found
        (project.package / name).write_bytes(kept)
        project.build()


def test_every_failing_kernel_is_named(project: Project) -> None:
    for name in "abc":
        project.kernel(f"{name}.tileir")
    for name in "ac":
        (project.package / f"{name}.tileir").write_bytes(b"\x7fTileIR\x00 broken")
    project.setup("TileKernels('pkg', ['pkg/a.tileir', 'pkg/b.tileir', 'pkg/c.tileir'], archs='sm_90')")
    done = project.run("build_ext", "-j2")
    assert done.returncode
    assert [done.stderr.count(f"pkg/{name}.tileir: tileiras-build") for name in "abc"] == [1, 0, 1]


def test_an_option_or_a_source_that_leaves_links_again(project: Project) -> None:
    project.kernel("a.tileir")
    project.kernel("b.tileir", "axpy_f16")
    project.write("pkg/_m.c", c_module("_m", "a"))
    sources = "['pkg/_m.c', 'pkg/a.tileir', 'pkg/b.tileir']"
    project.setup(f"TileExtension('pkg._m', {sources}, archs='sm_90')")
    project.build()
    assert b"b_image_hash" in next(project.package.glob("*.so")).read_bytes()
    images_before = project.stamps()
    project.setup(f"TileExtension('pkg._m', {sources}, archs='sm_90', define_macros=[('NDEBUG', '2')])")
    before = project.stamps("*.so")
    project.build()
    assert project.stamps("*.so") != before
    project.setup(f"TileExtension('pkg._m', {sources}, archs='sm_90')".replace(", 'pkg/b.tileir'", ""))
    project.build()
    assert b"b_image_hash" not in next(project.package.glob("*.so")).read_bytes()
    assert project.stamps() == images_before
    before = project.stamps("*.so")
    project.build()
    assert project.stamps("*.so") == before


def test_a_wheel_for_another_machine_has_that_machines_host_code(project: Project) -> None:
    project.kernel("a.tileir")
    project.setup("TileKernels('pkg', ['pkg/a.tileir'], archs='sm_90', formats=['cubin'], loader=False)")
    for words, env in (
        (["--plat-name", "linux_aarch64"], {}),
        ([], {"_PYTHON_HOST_PLATFORM": "linux-aarch64"}),
        ([], {}),
    ):
        name, files = project.wheel(*words, **env)
        cubin = files["pkg/a.sm_90.cubin"]
        host = cubin[cubin.index(b"\x7fELF", 4) :]
        assert name.endswith(f"-linux_{ELF_MACHINES[int.from_bytes(host[18:20], 'little')]}.whl")


def test_only_the_users_force_compiles_again(project: Project) -> None:
    """torch's BuildExtension sets `force` with ninja, in every build; a kernel that takes minutes must not pay for it."""
    project.kernel("a.tileir")
    project.setup("Extension('pkg._m', ['pkg/a.tileir'])", "cmdclass={'build_ext': Forced}",
                  "from setuptools.command.build_ext import build_ext\nclass Forced(build_ext):\n"
                  "    __module__ = 'torch.utils.cpp_extension'\n    def finalize_options(self):\n"
                  "        super().finalize_options()\n        self.force = True\n")  # fmt: skip
    archs = {"TILEIRAS_CUDA_ARCHS": "90-real"}
    project.build(**archs)
    before = project.stamps(), project.stamps("*.tileir.o")
    project.build(**archs)
    assert (project.stamps(), project.stamps("*.tileir.o")) == before
    project.build("--force", **archs)
    assert project.stamps() != before[0]


def test_an_sdist_after_an_in_place_build_holds_sources_alone(project: Project) -> None:
    project.kernel("a.tileir")
    project.write("pkg/kept.fatbin", "shipped as it is")
    project.setup("TileKernels('pkg', ['pkg/a.tileir'], archs='sm_90'), "
                  "TileExtension('pkg._m', ['pkg/a.tileir'], archs='sm_90', package_data=True, formats=['cubin'])",
                  "package_data={'pkg': ['*.fatbin', '*.cubin', '*.json', '*.tileir']}, include_package_data=True")  # fmt: skip
    project.build()
    assert {"a.fatbin", "a.sm_90.cubin", "tile_kernels.py"} <= set(images(project))
    assert project.run("sdist").returncode == 0
    with tarfile.open(next((project.root / "dist").glob("*.tar.gz"))) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {one for one in names if one.startswith("pkg/")} == {
        "pkg/__init__.py", "pkg/a.tileir", "pkg/kept.fatbin"}  # fmt: skip


def test_the_record_of_what_was_installed_is_no_path_of_this_machine(project: Project) -> None:
    project.kernel("a.tileir")
    project.setup("TileKernels('pkg', ['pkg/a.tileir'], archs='sm_90')")
    project.build()
    for name in ("in-place", "library"):
        record = json.loads(next((project.root / "build").rglob(f"{name}.json")).read_text())
        assert record and not any(path.startswith("/") for path in record)


PASS = """\
from tileiras.compiler.ir.passes import Pass


class Mark(Pass):
    NAME = "Mark"
    AFTER = "ConvertTileAAToTileAS"
    __slots__ = ()

    def run(self, func, context):
        func.attrs["nvvm.maxnreg"] = NUMBER
        return True
"""


def test_a_pass_of_another_package_is_found_and_watched(project: Project, tmp_path: Path) -> None:
    """It may be anywhere on the path of the build, which the commands do not have."""
    site = tmp_path / "other" / "site-packages"
    (site / "mark-1.dist-info").mkdir(parents=True)
    (site / "mark-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: mark\nVersion: 1\n")
    (site / "mark-1.dist-info" / "entry_points.txt").write_text("[tileiras.passes]\nMark = mark:Mark\n")
    module = site / "mark.py"
    module.write_text(PASS.replace("NUMBER", "40"))
    project.env["PYTHONPATH"] += f":{site}"
    project.kernel("k.tileir")
    project.setup(
        "TileKernels('pkg', ['pkg/k.tileir'], archs='compute_90', compiler='builtin', options=['--plugin=Mark'], formats=['ptx'])"
    )
    (ptx,) = [project.package / "k.compute_90.ptx"]
    project.build()
    assert ".maxnreg 40" in ptx.read_text()
    before = ptx.stat().st_mtime_ns
    project.build()
    assert ptx.stat().st_mtime_ns == before, "nothing has changed"
    module.write_text(PASS.replace("NUMBER", "128"))
    project.build()
    assert ".maxnreg 128" in ptx.read_text()
