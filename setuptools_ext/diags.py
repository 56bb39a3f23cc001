"""What the setuptools extension can have to say."""

from __future__ import annotations

from tileiras.diag import ERROR, Diag

LIST_OF_STRINGS = Diag("PY-0001", ERROR, "{what} is a list of strings, not {value!r}")
"""
cause: The keyword takes several values.
remedy: Write a list of strings: ["..."].

  $ python k.py
  from tileiras.setuptools_ext import TileKernels
- TileKernels("p", ["k.tileir"], entries=[1])
+ TileKernels("p", ["k.tileir"], entries=["k"])
"""

TRUE_OR_FALSE = Diag("PY-0002", ERROR, "{what} is true or false, not {value!r}")
"""
cause: The keyword is a switch.
remedy: True or False (true or false in pyproject.toml).

  $ python k.py
  from tileiras.setuptools_ext import TileKernels
- TileKernels("p", ["k.tileir"], lineinfo="yes")
+ TileKernels("p", ["k.tileir"], lineinfo=True)
"""

WHOLE_NUMBER = Diag("PY-0003", ERROR, "{what} is a whole number, not {value!r}")
"""
cause: The keyword takes a number without a fraction.
remedy: Write digits, without quotation marks.

  $ python k.py
  from tileiras.setuptools_ext import TileKernels
- TileKernels("p", ["k.tileir"], opt_level="3")
+ TileKernels("p", ["k.tileir"], opt_level=3)
"""

SIZE = Diag("PY-0004", ERROR, "{what} is a size such as 49152 or '48K', not {value!r}")
"""
cause: The keyword takes a number of bytes, or a text with K or M behind it.
remedy: 49152 or "48K".

  $ python k.py
  from tileiras.setuptools_ext import TileKernels
- TileKernels("p", ["k.tileir"], max_shared=[48])
+ TileKernels("p", ["k.tileir"], max_shared="48K")
"""

STRING = Diag("PY-0005", ERROR, "{what} is a string, not {value!r}")
"""
cause: The keyword takes one text.
remedy: Write it in quotation marks.

  $ python k.py
  from tileiras.setuptools_ext import TileKernels
- TileKernels("p", ["k.tileir"], compiler=1)
+ TileKernels("p", ["k.tileir"], compiler="builtin")
"""

CHOICE = Diag("PY-0006", ERROR, "{what}: '{value}' is not one of {known}")
"""
cause: The keyword takes one of the words in the message.
remedy: Take one of them.

  $ python k.py
  from tileiras.setuptools_ext import TileKernels
- TileKernels("p", ["k.tileir"], compiler="gcc")
+ TileKernels("p", ["k.tileir"], compiler="builtin")
"""

NO_SOURCES = Diag("PY-0007", ERROR, "TileKernels of '{package}' has no sources")
"""
cause: There is nothing to compile for the package.
remedy: Name sources=["k.tileir"].

! A build of setuptools; tests/integration/test_setuptools.py has projects.
"""

SOURCE_NAMES = Diag(
    "PY-0008",
    ERROR,
    "{what}: the sources '{first}' and '{second}' are both named '{name}', and so would be what is made of them; rename one",
)
"""
cause: Images are named after their sources without folders, so that one would overwrite the other.
remedy: Rename one of the files.

! A build of setuptools; tests/integration/test_setuptools.py has projects.
"""

ONE_SOURCE = Diag("PY-0009", ERROR, "{what}: {name} '{value}' is for one source, and there are {count}")
"""
cause: A name for one header or one prefix is given to several kernels.
remedy: Give each source a TileKernels of its own, or leave the name out.

! A build of setuptools; tests/integration/test_setuptools.py has projects.
"""

NO_PACKAGE = Diag("PY-0010", ERROR, "TileKernels: this project has no package '{package}'{hint}")
"""
cause: Images are installed into a package, and the project has none of that name.
remedy: Correct the name, or add the package to `packages`.

! A build of setuptools; tests/integration/test_setuptools.py has projects.
"""

NOT_COPIED = Diag("PY-0011", ERROR, "'{source}' is not there to be copied to '{target}'")
"""
cause: The compiler reported success, but one of its files is not there.
remedy: Build again from clean: python -m build; report it if it stays.

! It needs a file that goes away during a build.
"""

PTX_COMPILER = Diag("PY-0012", ERROR, "formats: 'ptx' needs the compiler 'builtin', NVIDIA's writes none")
"""
cause: NVIDIA's `tileiras` makes machine code directly.
remedy: compiler="builtin", or leave 'ptx' out of the formats.

! A build of setuptools; tests/integration/test_setuptools.py has projects.
"""

TWO_FILES = Diag(
    "PY-0013",
    ERROR,
    "'{target}' would be two files that differ, of {owner} and of {name}: '{path}'; rename a source",
)
"""
cause: Two extensions would install different files under one name.
remedy: Rename a source, or give the extensions different packages.

! A build of setuptools; tests/integration/test_setuptools.py has projects.
"""

MODULE_OF_YOURS = Diag(
    "PY-0014",
    ERROR,
    "'{path}' is a module of yours, and the loader module of '{package}' would be the same: name another by loader=",
)
"""
cause: The module that loads the kernels would overwrite one of the project.
remedy: loader="another_name".

! A build of setuptools; tests/integration/test_setuptools.py has projects.
"""

COMPILE_ARGS = Diag("PY-0015", ERROR, "{where}: extra_compile_args has the keys {known}, not {key!r}")
"""
cause: Arguments are given for each compiler, under its name.
remedy: Use the keys in the message.

  $ python k.py
  from tileiras.setuptools_ext import TileExtension
- TileExtension("m", ["k.cpp"], extra_compile_args={"gcc": []})
+ TileExtension("m", ["k.cpp"], extra_compile_args={"cxx": []})
"""

LOADER_NAME = Diag("PY-0016", ERROR, "{where}: loader '{name}' is no name for a module of its own")
"""
cause: The loader becomes a module of the package, and the name is no identifier, or that of a file which is made
beside it.
remedy: Take another name.

  $ python k.py
  from tileiras.setuptools_ext import TileKernels
- TileKernels("p", ["k.tileir"], loader="my-loader")
+ TileKernels("p", ["k.tileir"], loader="my_loader")
"""

KERNELS_LIST = Diag("PY-0017", ERROR, "setup(): {keyword} is a list of TileKernels")
"""
cause: The keyword of setup() takes a list, and each member is a TileKernels or TileExtension.
remedy: tile_kernels=[TileKernels(...)].

  $ python k.py
  from setuptools import Distribution
  from tileiras.setuptools_ext.hooks import check_tile_kernels
- check_tile_kernels(Distribution(), "tile_kernels", "k.tileir")
+ check_tile_kernels(Distribution(), "tile_kernels", [])
"""

TABLE = Diag("PY-0018", ERROR, "pyproject.toml: tool.tileiras is a table")
'''
cause: pyproject.toml gives `tool.tileiras` a value.
remedy: Begin a table: [tool.tileiras].

  $ python k.py
  from pathlib import Path
  from tileiras.setuptools_ext.pyproject import load_table, read_project
  Path("pyproject.toml").write_text("""
- tool = {tileiras = 1}
+ [tool.tileiras]
  """)
  read_project(load_table("pyproject.toml") or {}, ".")
'''

KEY = Diag("PY-0019", ERROR, "pyproject.toml: {where} has no key '{key}'{hint}")
'''
cause: The key is misspelled, or stands in the wrong table.
remedy: Take the spelling that the message suggests, or one of docs/setuptools.md.

  $ python k.py
  from pathlib import Path
  from tileiras.setuptools_ext.pyproject import load_table, read_project
  Path("pyproject.toml").write_text("""
- [tool.tileiras]
- arch = ["sm_90"]
+ [tool.tileiras]
+ archs = ["sm_90"]
  """)
  read_project(load_table("pyproject.toml") or {}, ".")
'''

UNEXPECTED = Diag("PY-0020", ERROR, "pyproject.toml: {what} has an unexpected value: {value!r}")
'''
cause: The key takes values of several forms, and this is none of them.
remedy: docs/setuptools.md has the forms of each key.

  $ python k.py
  from pathlib import Path
  from tileiras.setuptools_ext.pyproject import load_table, read_project
  Path("pyproject.toml").write_text("""
- [tool.tileiras]
- [[tool.tileiras.extensions]]
- name = "m"
- sources = ["k.py"]
- extra-compile-args = 1
+ [[tool.tileiras.extensions]]
+ name = "m"
+ sources = ["k.py"]
+ extra-compile-args = ["-O2"]
  """)
  read_project(load_table("pyproject.toml") or {}, ".")
'''

OF_TYPE = Diag("PY-0021", ERROR, "pyproject.toml: {what} is {names}, not {value!r}")
'''
cause: The value is of another type than the key's.
remedy: Write a value of the type in the message.

  $ python k.py
  from pathlib import Path
  from tileiras.setuptools_ext.pyproject import load_table, read_project
  Path("pyproject.toml").write_text("""
- [tool.tileiras]
- jobs = "many"
+ [tool.tileiras]
+ jobs = 2
  """)
  read_project(load_table("pyproject.toml") or {}, ".")
'''

AT_LEAST = Diag("PY-0022", ERROR, "pyproject.toml: {what} is at least {least}, not {value}")
'''
cause: The number is smaller than the key allows.
remedy: Write a larger one.

  $ python k.py
  from pathlib import Path
  from tileiras.setuptools_ext.pyproject import load_table, read_project
  Path("pyproject.toml").write_text("""
- [tool.tileiras]
- jobs = 0
+ [tool.tileiras]
+ jobs = 1
  """)
  read_project(load_table("pyproject.toml") or {}, ".")
'''

NO_MATCH = Diag("PY-0023", ERROR, "pyproject.toml: {where}: no file matches '{pattern}'")
'''
cause: A pattern of `sources` or `includes` finds no file below the project.
remedy: Correct it; patterns are relative to pyproject.toml.

  $ python k.py
  from pathlib import Path
  from tileiras.setuptools_ext.pyproject import load_table, read_project
  Path("pyproject.toml").write_text("""
- [[tool.tileiras.kernels]]
- package = "p"
- sources = ["q*.tileir"]
+ [[tool.tileiras.kernels]]
+ package = "p"
+ sources = ["k*.py"]
  """)
  read_project(load_table("pyproject.toml") or {}, ".")
'''

ARRAY_OF_TABLES = Diag(
    "PY-0024", ERROR, "pyproject.toml: tool.tileiras.{group} is an array of tables: [[tool.tileiras.{group}]]"
)
'''
cause: Several of these may stand in a project, so that each begins with two brackets.
remedy: Write [[...]] as in the message.

  $ python k.py
  from pathlib import Path
  from tileiras.setuptools_ext.pyproject import load_table, read_project
  Path("pyproject.toml").write_text("""
- [tool.tileiras.kernels]
- package = "p"
+ [tool.tileiras]
  """)
  read_project(load_table("pyproject.toml") or {}, ".")
'''

MISSING_KEY = Diag("PY-0025", ERROR, "pyproject.toml: {where} needs '{key}'")
'''
cause: The table lacks a key that it cannot do without.
remedy: Add it.

  $ python k.py
  from pathlib import Path
  from tileiras.setuptools_ext.pyproject import load_table, read_project
  Path("pyproject.toml").write_text("""
- [[tool.tileiras.kernels]]
- sources = ["k.py"]
+ [[tool.tileiras.kernels]]
+ package = "p"
+ sources = ["k.py"]
  """)
  read_project(load_table("pyproject.toml") or {}, ".")
'''

CONFIG_FAILED = Diag("PY-0026", ERROR, "tileiras-config failed with exit code {code}: {text}")
"""
cause: The command that says where tools are failed; its own message follows.
remedy: Run `tileiras-config` with the same Python and correct what it says.

! It depends on the installation.
"""

NO_ARCH = Diag(
    "PY-0027",
    ERROR,
    "no GPU architecture is named: give archs=['sm_90', ...] or [tool.tileiras] archs, or set {known}",
)
"""
cause: Machine code is for one GPU, and there is no default.
remedy: Name architectures in one of the three ways.

  $ python k.py
  from tileiras.setuptools_ext.build import find_archs
- find_archs([], {}, "builtin", print)
+ find_archs(["sm_90"], {}, "builtin", print)
"""

OF_ARCHS = Diag("PY-0028", ERROR, "{origin}: {why}")
"""
cause: The list of architectures, which came from where the message says, has a name that is none.
remedy: Correct it: sm_90, compute_90, native, all or all-major.

  $ python k.py
  from tileiras.setuptools_ext.build import find_archs
- find_archs(["sm90x"], {}, "builtin", print)
+ find_archs(["sm_90"], {}, "builtin", print)
"""

CPU_COMPILER = Diag(
    "PY-0029", ERROR, "archs: 'cpu' needs the compiler 'builtin': NVIDIA's makes no code for the CPU"
)
"""
cause: The target cpu is ours.
remedy: compiler="builtin", or leave 'cpu' out.

! A build of setuptools; tests/integration/test_setuptools_cpu.py has projects.
"""

CPU_BUDGET = Diag("PY-0030", ERROR, "{name}: budgets are for images of a GPU, not with 'cpu' among the archs")
"""
cause: Registers, spills and shared memory are resources of a GPU.
remedy: Leave the budget out, or 'cpu'.

! A build of setuptools; tests/integration/test_setuptools_cpu.py has projects.
"""

CPU_EMBED = Diag("PY-0031", ERROR, "embed: there is no image to embed where 'cpu' is the only architecture")
"""
cause: Code for the CPU is compiled into the program.
remedy: embed="array" or "none", or add a GPU.

! A build of setuptools; tests/integration/test_setuptools_cpu.py has projects.
"""

ONE_ENTRY = Diag("PY-0032", ERROR, "{source}: a cuTile Python source needs exactly one name in `entries`")
"""
cause: One kernel of a Python file is exported to one image.
remedy: entries=["name"]; for several kernels write several TileKernels.

! A build of setuptools; tests/integration/test_setuptools.py has projects.
"""

CANNOT_START = Diag("PY-0033", ERROR, "{source}: cannot start {program}: {why}")
"""
cause: The operating system refused to start the compiler, for the reason that follows.
remedy: See that `tileiras` is installed for the Python that builds.

! It depends on the installation.
"""
