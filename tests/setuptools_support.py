"""Small setuptools projects with Tile kernels, and questions about what their builds made.

The package under test is laid out as a wheel installs it, entry points included, and found through PYTHONPATH; projects
are built by the setuptools of the running interpreter. Whether a kernel was compiled again is read off its outputs.
"""

from __future__ import annotations

import os
import shutil
import sys
import zipfile
from pathlib import Path
from subprocess import CompletedProcess

import peers
from build_support import REPOSITORY, Installed, clean_environ, ok, run

from tests.fixtures import BYTECODE

C_MODULE = """\
#include <Python.h>
{includes}
static PyObject *sizes(PyObject *self, PyObject *unused) {{ return Py_BuildValue("[{formats}]"{values}); }}
static PyMethodDef methods[] = {{ {{"sizes", sizes, METH_NOARGS, ""}}, {{0}} }};
static struct PyModuleDef definition = {{ PyModuleDef_HEAD_INIT, "{name}", 0, -1, methods }};
PyMODINIT_FUNC PyInit_{name}(void) {{ return PyModule_Create(&definition); }}
"""


def install_metadata(installed: Installed) -> None:
    """Adds what a wheel's metadata says: setuptools finds plugins by it."""
    text = (REPOSITORY / "pyproject.toml").read_text()
    groups, current = [], ""
    for line in text.splitlines():
        if line.startswith('[project.entry-points."'):
            current = line.split('"')[1]
            groups.append(f"\n[{current}]")
        elif line.startswith("["):
            current = ""
        elif current and "=" in line and not line.startswith("#"):
            name, _, value = line.partition("=")
            groups.append(f"{name.strip()} = {value.strip().strip(chr(34))}")
    folder = installed.site / "tileiras-0.1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: tileiras\nVersion: 0.1.0\n")
    (folder / "entry_points.txt").write_text("\n".join(groups) + "\n")


def c_module(name: str, *prefixes: str) -> str:
    return C_MODULE.format(
        name=name, includes="\n".join(f'#include "{one}_tile.h"' for one in prefixes), formats="n" * len(prefixes),
        values="".join(f", (Py_ssize_t){one}_image_size" for one in prefixes))  # fmt: skip


def need_bdist_wheel() -> None:
    """Skips the calling test where neither setuptools nor `wheel` can pack a wheel."""
    import pytest

    if run([sys.executable, "-c", "import setuptools.command.bdist_wheel"]).returncode:
        pytest.importorskip("wheel")


class Project:
    """One project folder with a package `pkg`."""

    def __init__(self, root: Path, installed: Installed) -> None:
        self.root = root
        self.package = root / "pkg"
        self.package.mkdir(parents=True)
        (self.package / "__init__.py").touch()
        self.env = clean_environ(PYTHONPATH=str(installed.site), TILEIRAS_COMPILER="nvidia",
                                 TILEIRAS_TOOLKIT_ROOT=str(peers.require_toolkit("13.4")),
                                 TILEIRAS_CACHE_DIR=os.environ["TILEIRAS_CACHE_DIR"])  # fmt: skip

    def kernel(self, name: str, source: str = "add_2d_f32") -> Path:
        target = self.package / name
        shutil.copyfile(BYTECODE / f"{source}.tilebc", target)
        return target

    def write(self, name: str, text: str) -> Path:
        path = self.root / name
        path.write_text(text)
        return path

    def setup(self, extensions: str, more: str = "", imports: str = "") -> None:
        """Writes setup.py; `extensions` is the text of the list ext_modules."""
        self.write("setup.py", "from setuptools import Extension, setup\nfrom tileiras.setuptools_ext import TileExtension, "
                   f"TileKernels\n{imports}\nsetup(name='pkg', version='1.0', packages=['pkg'], ext_modules=[{extensions}], "
                   f"{more})\n")  # fmt: skip

    def run(self, *words: str, **env: str) -> CompletedProcess[str]:
        return run([sys.executable, "setup.py", *words], self.root, {**self.env, **env}, timeout=600)

    def build(self, *words: str, **env: str) -> CompletedProcess[str]:
        return ok(self.run("build_ext", "--inplace", *words, **env))

    def ask(self, code: str) -> str:
        """Returns what the code prints, with the project's folder to import from."""
        env = {**self.env, "PYTHONPATH": str(self.root)}
        return ok(run([sys.executable, "-c", code], self.root, env)).stdout.strip()

    def stamps(self, pattern: str = "*.cubin") -> dict[str, int]:
        return {
            str(path.relative_to(self.root)): path.stat().st_mtime_ns
            for path in (self.root / "build").rglob(pattern)
        }

    def wheel(self, *words: str, **env: str) -> tuple[str, dict[str, bytes]]:
        """Returns (file name, contents) of the wheel that bdist_wheel makes."""
        need_bdist_wheel()
        shutil.rmtree(self.root / "dist", ignore_errors=True)
        ok(self.run("bdist_wheel", *words, **env))
        return self.read_wheel(self.root / "dist")

    @staticmethod
    def read_wheel(folder: Path) -> tuple[str, dict[str, bytes]]:
        (path,) = folder.glob("*.whl")
        with zipfile.ZipFile(path) as archive:
            return path.name, {name: archive.read(name) for name in archive.namelist()}
