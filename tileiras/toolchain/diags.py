"""What the toolchain can have to say. Codes are ours; the last line of a failed compile is NVIDIA's
wording."""

from __future__ import annotations

from tileiras.diag import ERROR, NOTE, WARNING, WORD_CONFIG, WORD_ERROR, CompileError, Diag, Emitted

TOOL_MISSING = Diag("TC-0001", ERROR, "{tool} not found", src="own", word=WORD_CONFIG)
"""
cause: A tool of the CUDA toolkit was not found where it was looked for; the notes list the places.
remedy: `pip install 'tileiras[toolkit]'`, or name a toolkit with --toolkit-root, CUDA_HOME or PATH. --emit=ptx
needs none.

! NVIDIA's tool is in none of the places where it is looked for: it depends on the installation.
"""

TOOL_SEARCHED = Diag("TC-0002", NOTE, "searched {place}: {outcome}")
"""
see: TC-0001

! A note of TC-0001, one for each place: it depends on the installation.
"""

TOOL_ADVICE = Diag("TC-0003", NOTE, "{advice}")
"""
see: TC-0001

! A note of TC-0001 and TC-0005 on what to install: it depends on the installation.
"""

TOOL_TOO_OLD = Diag(
    "TC-0005",
    ERROR,
    "{tool} {version} ({path}) cannot {need}; release {needed} or later is needed",
    word=WORD_CONFIG,
)
'''
cause: A tool of the toolkit is too old for the GPU, differs in release from another one, or does not tell its
release.
remedy: Use one toolkit of a release that the message names for all tools; `tileiras-config` shows which are found.

  $ python k.py
  import os
  import tileiras

- with open("ptxas", "w") as script:  # stands for an assembler that fails so
-     script.write("""#!/bin/sh
- [ "$1" = --version ] && echo "Cuda compilation tools, release 10.1, V10.1.1" && exit
- exit 0
- """)
- os.chmod("ptxas", 0o755)
- chosen = "./ptxas"
+ chosen = None
  kernel = "cuda_tile.module @m { entry @k() { return } }"
  tileiras.compile(kernel, "sm_90", ptxas=chosen)
'''

RELEASES_DIFFER = Diag(
    "TC-0006",
    WARNING,
    "{first} {first_version} ({first_path}) and {second} {second_version} ({second_path}) differ in release",
    src="own",
)
"""
see: TC-0005

! Two tools of one build come from different releases: it depends on what is installed.
"""

TOOL_UNUSABLE = Diag("TC-0008", ERROR, "{tool} ('{path}') cannot be run: {why}", word=WORD_CONFIG)
"""
cause: The file that --ptxas (or `ptxas=`) names is not there, is a folder, or may not be executed.
remedy: Name the program itself, with its path; --toolkit-root takes the folder of a whole toolkit.

- $ tileiras k.tileir --gpu-name=sm_90 --emit=cubin --ptxas=no/such/ptxas
+ $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx
  cuda_tile.module @m { entry @k() { return } }
"""

ROOT_INVALID = Diag("TC-0007", ERROR, "{path} ({how}) is no CUDA toolkit: it has no {tool}", word=WORD_CONFIG)
"""
see: TC-0001

- $ tileiras k.tileir --gpu-name=sm_90 --toolkit-root=.
+ $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx
  cuda_tile.module @m { entry @k() { return } }
"""


PTXAS_FAILED = Diag("TC-0101", ERROR, "ptxas ({path}, target {target}) failed: {how}")
"""
cause: ptxas refused the PTX, or failed; its own words stand in the messages beside this one.
remedy: Where it ran out of a resource, use smaller tiles. Otherwise report the kernel, made small with
`tileiras-reduce`: PTX of ours that ptxas refuses is a defect.

- $ tileiras k.tileir --gpu-name=sm_90 --emit=cubin --ptxas-options=--nonsense
+ $ tileiras k.tileir --gpu-name=sm_90 --emit=cubin --ptxas-options=--verbose
  cuda_tile.module @m { entry @k() { return } }
"""

PTXAS_SAID = Diag("TC-0102", ERROR, "{text}")
"""
see: TC-0101

- $ tileiras k.tileir --gpu-name=sm_90 --emit=cubin --ptxas-options=--nonsense
+ $ tileiras k.tileir --gpu-name=sm_90 --emit=cubin --ptxas-options=--verbose
  cuda_tile.module @m { entry @k() { return } }
"""

PTXAS_WARNED = Diag("TC-0103", WARNING, "{text}")
"""
cause: ptxas warns of something in the PTX, in its own words.
remedy: Mostly about registers and spills: smaller tiles or more warps help. -w hides it.

in: kernel(%p: tile<ptr<f64>>)
- $ tileiras k.tileir --gpu-name=sm_90 --emit=cubin --ptxas-options=--warn-on-double-precision-use
+ $ tileiras k.tileir --gpu-name=sm_90 --emit=cubin
      %x, %t = load_ptr_tko weak %p : tile<ptr<f64>> -> tile<f64>, token
      %y = addf %x, %x : tile<f64>
      %s = store_ptr_tko weak %p, %y token = %t : tile<ptr<f64>>, tile<f64> -> token
"""

PTXAS_LINE = Diag("TC-0106", NOTE, "PTX line {number}: {text}")
'''
see: TC-0101

  $ python k.py
  import os
  import tileiras

- with open("ptxas", "w") as script:  # stands for an assembler that fails so
-     script.write("""#!/bin/sh
- [ "$1" = --version ] && echo "Cuda compilation tools, release 13.4, V13.4.1" && exit
- echo "ptxas /dev/stdin, line 7; error   : Unknown symbol" >&2
- exit 255
- """)
- os.chmod("ptxas", 0o755)
- chosen = "./ptxas"
+ chosen = None
  kernel = "cuda_tile.module @m { entry @k() { return } }"
  tileiras.compile(kernel, "sm_90", ptxas=chosen)
'''

PTXAS_NO_OUTPUT = Diag(
    "TC-0104", ERROR, "ptxas ({path}, target {target}) reported success but wrote no image"
)
'''
see: TC-0101

  $ python k.py
  import os
  import tileiras

- with open("ptxas", "w") as script:  # stands for an assembler that fails so
-     script.write("""#!/bin/sh
- [ "$1" = --version ] && echo "Cuda compilation tools, release 13.4, V13.4.1" && exit
- exit 0
- """)
- os.chmod("ptxas", 0o755)
- chosen = "./ptxas"
+ chosen = None
  kernel = "cuda_tile.module @m { entry @k() { return } }"
  tileiras.compile(kernel, "sm_90", ptxas=chosen)
'''

PTXAS_KEPT = Diag("TC-0105", NOTE, "the PTX was kept; repeat with: {command}")
"""
see: TC-0101

- $ TILEIRAS_KEEP_PTX=k.ptx tileiras k.tileir --gpu-name=sm_90 --emit=cubin --ptxas-options=--nonsense
+ $ TILEIRAS_KEEP_PTX=k.ptx tileiras k.tileir --gpu-name=sm_90 --emit=cubin
  cuda_tile.module @m { entry @k() { return } }
"""

COMPILE_FAILED = Diag("TC-0199", ERROR, "failed to compile Tile IR program", src="own", word=WORD_ERROR)
"""
see: DRV-0005

- $ tileiras k.tileir --gpu-name=sm_90 --emit=cubin --ptxas-options=--nonsense
+ $ tileiras k.tileir --gpu-name=sm_90 --emit=cubin --ptxas-options=--verbose
  cuda_tile.module @m { entry @k() { return } }
"""


CUBIN_MALFORMED = Diag("TC-0201", ERROR, "{name} is not a cubin: {why}")
"""
cause: The file is no cubin or fatbin, or is damaged.
remedy: Check which file was passed, and build it again.

  $ python k.py
  import tileiras
  from tileiras.toolchain.fatbin import Image, make_fatbin, read_fatbin

- image = b"hello"
+ image = tileiras.compile("cuda_tile.module @m { entry @k() { return } }", "sm_90").cubin  # needs ptxas
  make_fatbin([Image("elf", "90", image)])
"""


ARCH_UNKNOWN = Diag("TC-0301", ERROR, "'{text}' is no GPU architecture", src="own", word=WORD_CONFIG)
"""
cause: The list of architectures is empty, or names one that is unknown, not supported or not present here.
remedy: Name targets like sm_90 or 90; `native` needs a GPU in this machine. `tileiras-config` lists what is
supported.

  $ python k.py
  from tileiras.toolchain.arch import parse_arch, parse_archs

- parse_archs("sm_66")
+ parse_archs("sm_86")
"""

ARCH_UNSUPPORTED = Diag("TC-0302", WARNING, "ignoring architectures without Tile IR support: {archs}")
"""
see: TC-0301

  $ python k.py
  from tileiras.toolchain.arch import parse_arch, parse_archs

- archs, warnings = parse_archs("52;80")
+ archs, warnings = parse_archs("80")
  for one in warnings:
      print(one.render())
"""

ARCH_NONE_LEFT = Diag(
    "TC-0303", ERROR, "no supported architecture in '{text}'; supported: {supported}", word=WORD_CONFIG
)
"""
see: TC-0301

  $ python k.py
  from tileiras.toolchain.arch import parse_arch, parse_archs

- parse_archs("sm_70")
+ parse_archs("sm_80")
"""

ARCH_EMPTY = Diag("TC-0304", ERROR, "the list of architectures is empty", word=WORD_CONFIG)
"""
see: TC-0301

  $ python k.py
  from tileiras.toolchain.arch import parse_arch, parse_archs

- parse_archs("")
+ parse_archs("90")
"""

ARCH_NOT_ONE = Diag("TC-0306", ERROR, "'{text}' does not name one architecture", word=WORD_CONFIG)
"""
see: TC-0301

  $ python k.py
  from tileiras.toolchain.arch import parse_arch, parse_archs

- parse_arch("80;90")
+ parse_arch("90")
"""

ARCH_NO_GPU = Diag(
    "TC-0305",
    ERROR,
    "'native' needs a GPU in this machine, and none was found; name an architecture",
    word=WORD_CONFIG,
)
"""
see: TC-0301

  $ python k.py
  from tileiras.toolchain.arch import parse_arch, parse_archs

- parse_archs("No CUDA devices found.")
+ parse_archs("90")  # what CMake finds for `native` where there is no GPU
"""


FATBINARY_FAILED = Diag("TC-0401", ERROR, "fatbinary ({path}) failed: {how}")
r"""
cause: A fatbin cannot be made of what was given: an image of another kind or GPU, a tool that is missing or that
failed.
remedy: Pass images for the architectures that they are labelled with, and install NVIDIA's fatbinary for
compression.

  $ python k.py
  import os

  from tileiras.toolchain.fatbin import Image, make_fatbin
  from tileiras.toolchain.locate import Tool

  image = Image("ptx", "90", b".version 8.0\n.target sm_90\n.address_size 64\n")
  with open("fatbinary", "w") as script:  # stands for NVIDIA's
-     script.write("#!/bin/sh\necho no space left >&2; exit 1\n")
+     script.write('#!/bin/sh\nfor word; do case "$word" in --create=*) echo > "${word#--create=}";; esac; done\n')
  os.chmod("fatbinary", 0o755)
  make_fatbin([image], "size", Tool("fatbinary", os.path.abspath("fatbinary"), ".", "given", "13.4.1", "given"))
"""

FATBIN_NO_COMPRESSION = Diag(
    "TC-0403",
    ERROR,
    "'{mode}' needs NVIDIA's fatbinary, not found",
    word=WORD_CONFIG,
)
r"""
see: TC-0401

  $ python k.py
  from tileiras.toolchain.fatbin import Image, make_fatbin

  image = Image("ptx", "90", b".version 8.0\n.target sm_90\n.address_size 64\n")
- make_fatbin([image], "size", fatbinary=None)
+ make_fatbin([image], "none", fatbinary=None)
"""

FATBIN_WRONG_ARCH = Diag("TC-0404", ERROR, "the image given for {label} is for {found}")
"""
see: TC-0401

  $ python k.py
  import tileiras
  from tileiras.toolchain.fatbin import Image, make_fatbin, read_fatbin

  program = tileiras.compile("cuda_tile.module @m { entry @k() { return } }", "sm_90")  # needs ptxas
- label = "80"
+ label = "90"
  make_fatbin([Image("elf", label, program.cubin)])
"""

FATBIN_NOT_TILEIR = Diag("TC-0405", ERROR, "the Tile IR given for {label} is no Tile IR bytecode")
"""
see: TC-0401

  $ python k.py
  import tileiras
  from tileiras.toolchain.fatbin import Image, make_fatbin, read_fatbin

- code = b"hello"
+ code = tileiras.load("cuda_tile.module @m { entry @k() { return } }").to_bytecode()
  make_fatbin([Image("tileir", "120", code)])
"""

FATBIN_NOT_PTX = Diag("TC-0406", ERROR, "the PTX given for {label} has no .version that a container can name")
r"""
see: TC-0401

  $ python k.py
  from tileiras.toolchain.fatbin import Image, make_fatbin, read_fatbin

- ptx = b"hello"
+ ptx = b".version 8.0\n.target sm_90\n.address_size 64\n"
  make_fatbin([Image("ptx", "90", ptx)])
"""

FATBIN_MALFORMED = Diag("TC-0407", ERROR, "{name} is not a fatbin: {why}")
r"""
see: TC-0201

  $ python k.py
  from tileiras.toolchain.fatbin import Image, make_fatbin, read_fatbin

  image = make_fatbin([Image("ptx", "90", b".version 8.0\n.target sm_90\n.address_size 64\n")])
- image = image[:-8]  # cut short on its way
  read_fatbin(image)
"""

TOOL_SAID = Diag("TC-0402", ERROR, "{text}")
r"""
see: TC-0401

  $ python k.py
  import os

  from tileiras.toolchain.fatbin import Image, make_fatbin
  from tileiras.toolchain.locate import Tool

  image = Image("ptx", "90", b".version 8.0\n.target sm_90\n.address_size 64\n")
  with open("fatbinary", "w") as script:  # stands for NVIDIA's
-     script.write("#!/bin/sh\necho no space left >&2; exit 1\n")
+     script.write('#!/bin/sh\nfor word; do case "$word" in --create=*) echo > "${word#--create=}";; esac; done\n')
  os.chmod("fatbinary", 0o755)
  make_fatbin([image], "size", Tool("fatbinary", os.path.abspath("fatbinary"), ".", "given", "13.4.1", "given"))
"""


def fail(exit_code: int, *emitted: Emitted) -> CompileError:
    """The exception to raise for these diagnostics."""
    return CompileError(exit_code, list(emitted))


def one(diag: Diag, **facts: object) -> Emitted:
    """An occurrence of `diag`."""
    return Emitted(diag, facts=facts.items())
