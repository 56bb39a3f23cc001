"""Python packages whose kernels were built for the CPU, too: extensions, modules of Tile sources alone, data kernels."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from build_support import Installed
from cpu_kernels import DOUBLE, environment
from setuptools_support import Project, install_metadata

pytest.importorskip("setuptools", minversion="64")
pytest.importorskip("llvmlite")

USE = """
import ctypes, os
from array import array
def twice(launch):
    x = array("f", [1.5] * 300)
    launch(x.buffer_info()[0])
    return list(x) == [3.0] * 300
"""
EXTENSION = r"""
#include <Python.h>
#include "twice_tile.h"
static PyObject *twice(PyObject *self, PyObject *text) {
  float x[300];
  int i, n = 300, status;
  float *p = x;
  void *args[] = {&p, &n};
  tileirasGrid grid = {3, 1, 1};
  for (i = 0; i < 300; ++i) x[i] = 1.5f;
  status = twice_launch(twice_twice, grid, NULL, args);
  (void)self;
  (void)text;
  return Py_BuildValue("id", status, (double)x[299]);
}
static PyMethodDef methods[] = {{"twice", twice, METH_NOARGS, ""}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_m", NULL, -1, methods, NULL, NULL, NULL, NULL};
PyMODINIT_FUNC PyInit__m(void) { return PyModule_Create(&definition); }
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    made = Installed(tmp_path_factory.mktemp("installed"))
    install_metadata(made)
    return made


@pytest.fixture
def project(installed: Installed, tmp_path: Path) -> Project:
    made = Project(tmp_path / "pro ject", installed)
    made.env["TILEIRAS_COMPILER"] = "builtin"
    made.env["LD_LIBRARY_PATH"] = environment()["LD_LIBRARY_PATH"]
    (made.package / "twice.tileir").write_text(DOUBLE)
    return made


def test_an_extension_launches_on_the_cpu(project: Project) -> None:
    project.write("pkg/m.c", EXTENSION)
    project.setup("Extension('pkg._m', ['pkg/m.c', 'pkg/twice.tileir'])")
    project.build(TILEIRAS_CUDA_ARCHS="90-real;cpu")
    assert project.ask("import pkg._m; print(pkg._m.twice())") == "(0, 3.0)"
    before = project.stamps("*.cpu.kernels.json")
    assert len(before) == 1
    project.build(TILEIRAS_CUDA_ARCHS="90-real;cpu")
    assert project.stamps("*.cpu.kernels.json") == before


@pytest.mark.parametrize("archs", ["['sm_90', 'cpu']", "'cpu'"])
def test_a_module_of_tile_sources_alone_has_launchers(project: Project, archs: str) -> None:
    project.setup(f"TileExtension('pkg._only', ['pkg/twice.tileir'], archs={archs})")
    project.build()
    code = (
        USE
        + """
import pkg._only as m
class Grid(ctypes.Structure):
    _fields_ = [("x", ctypes.c_uint), ("y", ctypes.c_uint), ("z", ctypes.c_uint)]
function = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint, Grid, ctypes.c_void_p, ctypes.c_void_p)(m.launchers["twice"])
def launch(pointer):
    values = ctypes.c_void_p(pointer), ctypes.c_int(300)
    pointers = (ctypes.c_void_p * 2)(*map(ctypes.addressof, values))
    assert function(0, Grid(3, 1, 1), None, pointers) == 0
print(sorted(m.images), twice(launch), "assembly" in m.tables["twice"])
"""
    )
    images = "['twice']" if "90" in archs else "[]"
    assert project.ask(code) == f"{images} True False"


@pytest.mark.parametrize("archs", ["['sm_90', 'cpu']", "['cpu']"])
def test_data_kernels_are_loaded_without_a_driver(project: Project, archs: str) -> None:
    project.setup(f"TileKernels('pkg', ['pkg/twice.tileir'], archs={archs})")
    name, files = project.wheel()
    assert name.startswith("pkg-1.0-py3-none-") and "any" not in name
    assert "pkg/twice.cpu.so" in files and ("pkg/twice.fatbin" in files) == ("90" in archs)
    table = json.loads(files["pkg/twice.kernels.json"])
    assert [image["arch"] for image in table["images"]][-1] == "cpu"
    assert b"assembly" not in files["pkg/twice.kernels.json"]
    project.build()
    code = (
        USE
        + """
from pkg import tile_kernels
kernel = tile_kernels.load("twice")["twice"]
print(tile_kernels.names(), twice(lambda p: kernel.launch((3,), [p, 300])))
class Array:
    shape = (300,)
    def __init__(self):
        self.x = array("f", [-1.0] * 300)
        self.__array_interface__ = {"data": (self.x.buffer_info()[0], False)}
try:
    kernel.launch((3, 1, 1), [Array(), 300])
except tile_kernels.DriverError as error:
    print(error.code)
for where in "gpu", "nonsense":
    os.environ["TILEIRAS_DEVICE"] = where
    try:
        tile_kernels.load("twice")
    except (OSError, ValueError, LookupError) as error:
        print(type(error).__name__)
"""
    )
    assert project.ask(code).splitlines() == ["['twice'] True", "710", "OSError", "ValueError"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("compiler='nvidia'", "'cpu' needs the compiler 'builtin'"),
        ("no_spills=True", "no_spills: budgets are for images of a GPU"),
        ("max_registers=64", "max_registers: budgets are for images of a GPU"),
    ],
)
def test_what_the_cpu_has_not_stops_the_build_before_anything_is_compiled(
    project: Project, options: str, says: str
) -> None:
    project.setup(f"TileExtension('pkg._k', ['pkg/twice.tileir'], archs=['sm_90', 'cpu'], {options})")
    done = project.run("build_ext", "--inplace")
    assert done.returncode and says in done.stdout + done.stderr
    assert not list((project.root / "build").rglob("*.kernels.json"))
