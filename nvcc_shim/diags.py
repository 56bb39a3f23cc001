"""What the nvcc shim can have to say, in nvcc's words where nvcc says the same."""

from __future__ import annotations

from tileiras.diag import ERROR, Diag

GPU = Diag("NVC-0001", ERROR, "Unsupported gpu architecture '{name}'")
"""
cause: nvcc has no architecture of that name (-arch, -code or -gencode).
remedy: Write sm_90, compute_90 or one of all, all-major, native.

- $ tileiras-nvcc -c k.tileir -arch=sm90 --dryrun
+ $ tileiras-nvcc -c k.tileir -arch=sm_90 --dryrun
  cuda_tile.module @m { entry @k() { return } }
"""

INCOMPATIBLE = Diag("NVC-0002", ERROR, "Incompatible code generation requested: arch='{arch}', code='{code}'")
"""
cause: Code for a GPU older than the virtual architecture cannot be made from it.
remedy: Give `code` an architecture of at least the number of `arch`.

- $ tileiras-nvcc -c k.tileir -gencode=arch=compute_90,code=sm_80 --dryrun
+ $ tileiras-nvcc -c k.tileir -gencode=arch=compute_80,code=sm_90 --dryrun
  cuda_tile.module @m { entry @k() { return } }
"""

VIRTUAL = Diag("NVC-0003", ERROR, "Value of -arch option ('{arch}') must be a virtual code architecture")
"""
cause: Beside -code, -arch names the virtual architecture that code is made from.
remedy: Write -arch=compute_90 -code=sm_90.

- $ tileiras-nvcc -c k.tileir -arch=sm_90 -code=sm_90,sm_100 --dryrun
+ $ tileiras-nvcc -c k.tileir -arch=compute_90 -code=sm_90,sm_100 --dryrun
  cuda_tile.module @m { entry @k() { return } }
"""

STRAY = Diag("NVC-0004", ERROR, "Stray '{char}' character")
"""
cause: A bracket of -gencode, or a quotation mark in an options file, has no partner.
remedy: Add its partner, or remove it.

- $ tileiras-nvcc -c k.tileir -gencode=arch=compute_90,code=[sm_90 --dryrun
+ $ tileiras-nvcc -c k.tileir -gencode=arch=compute_90,code=[sm_90] --dryrun
  cuda_tile.module @m { entry @k() { return } }
"""

KEYWORD_VALUE = Diag("NVC-0005", ERROR, "'{part}' is not in 'keyword=value' format")
"""
cause: -gencode takes arch=... and code=..., with a comma between them.
remedy: Write -gencode=arch=compute_90,code=sm_90.

- $ tileiras-nvcc -c k.tileir -gencode=compute_90,code=sm_90 --dryrun
+ $ tileiras-nvcc -c k.tileir -gencode=arch=compute_90,code=sm_90 --dryrun
  cuda_tile.module @m { entry @k() { return } }
"""

KEYWORD = Diag("NVC-0006", ERROR, "Keyword '{key}' is not defined for option 'generate-code'")
"""
see: NVC-0005

- $ tileiras-nvcc -c k.tileir -gencode=arc=compute_90,code=sm_90 --dryrun
+ $ tileiras-nvcc -c k.tileir -gencode=arch=compute_90,code=sm_90 --dryrun
  cuda_tile.module @m { entry @k() { return } }
"""

KEYWORD_TWICE = Diag("NVC-0007", ERROR, "redefinition of keyword '{key}'")
"""
see: NVC-0005

- $ tileiras-nvcc -c k.tileir -gencode=arch=compute_90,arch=compute_90 --dryrun
+ $ tileiras-nvcc -c k.tileir -gencode=arch=compute_90,code=sm_90 --dryrun
  cuda_tile.module @m { entry @k() { return } }
"""

KEYWORD_MISSING = Diag("NVC-0008", ERROR, "Option '--generate-code {text}', missing {word}")
"""
see: NVC-0005

- $ tileiras-nvcc -c k.tileir -gencode=arch=compute_90 --dryrun
+ $ tileiras-nvcc -c k.tileir -gencode=arch=compute_90,code=sm_90 --dryrun
  cuda_tile.module @m { entry @k() { return } }
"""

NO_ARCH = Diag("NVC-0009", ERROR, "-arch option not specified")
"""
cause: -code says for which GPUs, but not which virtual architecture the code comes from.
remedy: Add -arch=compute_90, or use -arch=sm_90 alone.

- $ tileiras-nvcc -c k.tileir -code=sm_90 --dryrun
+ $ tileiras-nvcc -c k.tileir -arch=sm_90 --dryrun
  cuda_tile.module @m { entry @k() { return } }
"""

ARCH_AND_CODE = Diag("NVC-0010", ERROR, "Cannot use '-arch={arch}' with '--gpu-code (-code)'")
"""
cause: all, all-major and native already say which code is made.
remedy: Leave -code out.

- $ tileiras-nvcc -c k.tileir -arch=all -code=sm_90 --dryrun
+ $ tileiras-nvcc -c k.tileir -arch=sm_90 --dryrun
  cuda_tile.module @m { entry @k() { return } }
"""

NO_TILE_ARCH = Diag(
    "NVC-0011",
    ERROR,
    "Tile IR input requires at least one architecture supporting Tile output ({reason}); supported: {supported}",
)
"""
cause: No architecture of the line is one that Tile IR is compiled for.
remedy: Name one of those in the message: -arch=sm_90.

- $ TILEIRAS_COMPILER=nvidia tileiras-nvcc -c k.tileir -arch=sm_75 --dryrun
+ $ tileiras-nvcc -c k.tileir -arch=sm_90 --dryrun
  cuda_tile.module @m { entry @k() { return } }
"""

NO_ARGUMENT = Diag("NVC-0012", ERROR, "no argument expected after '{option}'")
"""
cause: The option is a switch.
remedy: Write it without "=".

- $ tileiras-nvcc -c k.tileir -arch=sm_90 --dryrun=1
+ $ tileiras-nvcc -c k.tileir -arch=sm_90 --dryrun
  cuda_tile.module @m { entry @k() { return } }
"""

NUMBER = Diag("NVC-0013", ERROR, "'{text}': expected a number")
"""
cause: The option takes a whole number.
remedy: Write digits.

- $ tileiras-nvcc -c k.tileir -arch=sm_90 --dryrun -t many
+ $ tileiras-nvcc -c k.tileir -arch=sm_90 --dryrun -t 2
  cuda_tile.module @m { entry @k() { return } }
"""

ARGUMENT = Diag("NVC-0014", ERROR, "argument expected after '{option}'")
"""
cause: The option is the last word of the line, and its value is missing.
remedy: Write the value behind it.

- $ tileiras-nvcc -c k.tileir -arch=sm_90 --dryrun -o
+ $ tileiras-nvcc -c k.tileir -arch=sm_90 --dryrun -o k.o
  cuda_tile.module @m { entry @k() { return } }
"""

OPTIONS_LOOP = Diag("NVC-0015", ERROR, "Options file '{name}' includes itself")
r"""
cause: A file of --options-file names itself, or a file that leads back to it.
remedy: Remove that line from the file.

  $ printf -- '--options-file flags.txt\n' > flags.txt
- $ tileiras-nvcc -c k.tileir -arch=sm_90 --dryrun --options-file flags.txt
+ $ tileiras-nvcc -c k.tileir -arch=sm_90 --dryrun
  cuda_tile.module @m { entry @k() { return } }
"""

OPTIONS_FILE = Diag("NVC-0016", ERROR, "Could not open options file '{name}'")
"""
cause: A file of --options-file is not there, or cannot be read.
remedy: Correct its name, relative to the folder that nvcc runs in.

- $ tileiras-nvcc -c k.tileir -arch=sm_90 --dryrun --options-file missing.txt
+ $ tileiras-nvcc -c k.tileir -arch=sm_90 --dryrun
  cuda_tile.module @m { entry @k() { return } }
"""

TRUE_OR_FALSE = Diag("NVC-0017", ERROR, "'{value}': expected true or false")
"""
cause: The option takes true or false.
remedy: Write one of them.

- $ tileiras-nvcc -c k.tileir -arch=sm_90 --dryrun --fmad=perhaps
+ $ tileiras-nvcc -c k.tileir -arch=sm_90 --dryrun
  cuda_tile.module @m { entry @k() { return } }
"""

VALUE = Diag("NVC-0018", ERROR, "Value '{value}' is not defined for option '{option}'")
"""
cause: The option takes one of a few words, and this is none of them.
remedy: Take one that `nvcc --help` lists for the option.

- $ tileiras-nvcc -c k.tileir -arch=sm_90 --dryrun --tileiras-compiler=gcc
+ $ tileiras-nvcc -c k.tileir -arch=sm_90 --dryrun --tileiras-compiler=builtin
  cuda_tile.module @m { entry @k() { return } }
"""

NO_PROGRAM = Diag("NVC-0019", ERROR, "{how} names '{value}', which is no program")
"""
cause: The nvcc that is named is not there, or cannot be executed.
remedy: Name the program itself, with its folder; without a name the one on PATH is taken.

- $ tileiras-nvcc --tileiras-nvcc=/missing/nvcc k.cu
+ $ tileiras-nvcc -c k.tileir -arch=sm_90 --dryrun
  cuda_tile.module @m { entry @k() { return } }
"""

NO_PROGRAM_BUT_US = Diag("NVC-0020", ERROR, "{how} names '{value}', which is this shim itself")
"""
cause: The shim would start itself.
remedy: Name NVIDIA's nvcc, in the folder of the toolkit.

! It depends on where the shim is installed; tests/integration/test_nvcc_shim.py names it.
"""

NO_NVCC = Diag("NVC-0021", ERROR, "no nvcc found{where}")
"""
cause: Sources of CUDA C++ need NVIDIA's nvcc, and the search ended as the message says.
remedy: `pip install nvidia-cuda-nvcc`, or TILEIRAS_NVCC=/path/to/nvcc.

! It depends on what is installed; tests/integration/test_nvcc_shim.py has an empty PATH.
"""

NO_PROFILE = Diag(
    "NVC-0022", ERROR, "{path} has no nvcc.profile beside it, so it cannot be told to use this assembler"
)
"""
cause: nvcc is told by a file beside it where its tools are; what was found is a wrapper.
remedy: Name the nvcc inside of the toolkit by TILEIRAS_NVCC.

! It depends on which nvcc is found; tests/integration/test_nvcc_shim.py has a wrapper.
"""

CANNOT_START = Diag("NVC-0023", ERROR, "cannot start '{path}': {why}")
"""
cause: The operating system refused to start the program, for the reason that follows.
remedy: See that it is for this machine and may be executed.

! It depends on the program that is found; tests/integration/test_nvcc_shim.py has one that cannot start.
"""

NO_FOLDER = Diag("NVC-0024", ERROR, "no folder for what makes nvcc use this assembler: {why}{place}")
"""
cause: nvcc gets a folder with our assembler in place of NVIDIA's, and no folder could be made.
remedy: Point TMPDIR or TILEIRAS_CACHE_DIR to a folder that can be written.

! It depends on the disk; tests/integration/test_nvcc_shim.py has folders that cannot be written.
"""

COMPILER = Diag("NVC-0025", ERROR, "TILEIRAS_COMPILER is '{compiler}', not 'builtin' or 'nvidia'")
"""
cause: The environment variable chooses the compiler, and names none that there is.
remedy: Set it to `builtin` or `nvidia`, or unset it.

- $ TILEIRAS_COMPILER=gcc tileiras-nvcc -c k.tileir -arch=sm_90 --dryrun
+ $ TILEIRAS_COMPILER=builtin tileiras-nvcc -c k.tileir -arch=sm_90 --dryrun
  cuda_tile.module @m { entry @k() { return } }
"""

NO_INPUT_FILE = Diag("NVC-0026", ERROR, "cannot open Tile IR input '{path}': {why}")
"""
cause: The input is not there, or is a pipe or device, which several steps could not read one after the other.
remedy: Name a regular file.

- $ tileiras-nvcc -c other.tileir -arch=sm_90 --dryrun
+ $ tileiras-nvcc -c k.tileir -arch=sm_90 --dryrun
  cuda_tile.module @m { entry @k() { return } }
"""

OUTPUT_IS_INPUT = Diag("NVC-0027", ERROR, "The output file '{path}' is also an input file")
"""
cause: The output would overwrite a source.
remedy: Give the output another name.

- $ tileiras-nvcc -c k.tileir -arch=sm_90 --dryrun -o k.tileir
+ $ tileiras-nvcc -c k.tileir -arch=sm_90 --dryrun -o k.o
  cuda_tile.module @m { entry @k() { return } }
"""

TILE_NVCC = Diag("NVC-0028", ERROR, "Option '{option}' needs nvcc 13.3 or newer; '{path}' is {version}")
"""
cause: CUDA C++ with tile functions is compiled by NVIDIA's front end, which came with release 13.3.
remedy: Name a newer nvcc by TILEIRAS_NVCC.

! It depends on the release that is found; tests/integration/test_nvcc_shim.py uses 13.1.
"""

NO_INPUTS = Diag("NVC-0029", ERROR, "No input files specified; use option --help for more information")
"""
cause: The line has options only.
remedy: Name a source.

! Lines without Tile IR input are nvcc's, which says so itself; tests/unit/test_nvcc_shim_plan.py plans such a line.
"""

ONE_OUTPUT = Diag(
    "NVC-0030", ERROR, "A single input file is required for a non-link phase when an outputfile is specified"
)
"""
cause: -o names one file, and each of several sources is compiled to a file of its own.
remedy: Leave -o out, or compile one source at a time.

  $ cp k.tileir k2.tileir
- $ tileiras-nvcc -c k.tileir k2.tileir -arch=sm_90 --dryrun -o k.o
+ $ tileiras-nvcc -c k.tileir -arch=sm_90 --dryrun -o k.o
  cuda_tile.module @m { entry @k() { return } }
"""

TWO_TO_ONE = Diag("NVC-0031", ERROR, "Two input files would be compiled to '{path}'")
"""
cause: Two sources have one name in different folders, and their objects too.
remedy: Rename one, or compile them apart with -o.

  $ mkdir -p sub
  $ cp k.tileir sub/k.tileir
- $ tileiras-nvcc -c k.tileir sub/k.tileir -arch=sm_90 --dryrun
+ $ tileiras-nvcc -c k.tileir -arch=sm_90 --dryrun
  cuda_tile.module @m { entry @k() { return } }
"""

UNKNOWN = Diag("NVC-0032", ERROR, "Unknown option '{option}'{hint}")
"""
cause: Neither nvcc nor this shim has the option, and there is Tile IR input.
remedy: Correct it; `nvcc --help` lists nvcc's options, docs/nvcc-shim.md ours.

- $ tileiras-nvcc -c k.tileir -arch=sm_90 --dryrun --no-such-option
+ $ tileiras-nvcc -c k.tileir -arch=sm_90 --dryrun
  cuda_tile.module @m { entry @k() { return } }
"""

NOT_WITH_TILE = Diag(
    "NVC-0033", ERROR, "Option '{option}' is not allowed when compiling Tile IR input '{input}'"
)
"""
cause: The option asks for a form, or a treatment, that Tile IR has not: it is no C++ source.
remedy: Leave it out, or compile the Tile IR in a command of its own; docs/nvcc-shim.md lists each option.

- $ tileiras-nvcc -E k.tileir -arch=sm_90 --dryrun
+ $ tileiras-nvcc -c k.tileir -arch=sm_90 --dryrun
  cuda_tile.module @m { entry @k() { return } }
"""

DEPENDENCY_FILE = Diag(
    "NVC-0034",
    ERROR,
    "Option '--dependency-file' requires one of '-M', '-MM', '-MD' or '-MMD' to be specified",
)
"""
cause: A name for a depfile is given, but no depfile asked for.
remedy: Add -MD.

- $ tileiras-nvcc -c k.tileir -arch=sm_90 --dryrun -MF k.d
+ $ tileiras-nvcc -c k.tileir -arch=sm_90 --dryrun -MD -MF k.d
  cuda_tile.module @m { entry @k() { return } }
"""

SANITIZE = Diag(
    "NVC-0035", ERROR, "Argument for --fdevice-sanitize (-fdevice-sanitize) can only be 'memcheck'"
)
"""
cause: nvcc instruments for one tool only.
remedy: -fdevice-sanitize=memcheck.

- $ tileiras-nvcc -c k.tileir -arch=sm_90 --dryrun -fdevice-sanitize=racecheck
+ $ tileiras-nvcc -c k.tileir -arch=sm_90 --dryrun
  cuda_tile.module @m { entry @k() { return } }
"""

VIRTUAL_ONLY = Diag(
    "NVC-0036", ERROR, "Option '{option}' is not allowed when compiling for a virtual compute architecture"
)
"""
cause: The option makes a file for one GPU, and the line names a virtual architecture.
remedy: Name a real one: -arch=sm_90.

- $ tileiras-nvcc -cubin k.tileir -arch=compute_90 --dryrun
+ $ tileiras-nvcc -cubin k.tileir -arch=sm_90 --dryrun
  cuda_tile.module @m { entry @k() { return } }
"""

SEVERAL_ARCHS = Diag(
    "NVC-0037", ERROR, "Option '{option}' is not allowed when compiling for multiple GPU architectures"
)
"""
cause: The option makes one file for one GPU, and the line names several.
remedy: Name one architecture, or use -fatbin.

- $ tileiras-nvcc -cubin k.tileir -arch=all-major --dryrun
+ $ tileiras-nvcc -cubin k.tileir -arch=sm_90 --dryrun
  cuda_tile.module @m { entry @k() { return } }
"""

NVIDIA_PTX = Diag("NVC-0038", ERROR, "Option '{option}' needs the compiler 'builtin': NVIDIA's writes no PTX")
"""
cause: NVIDIA's `tileiras` makes machine code directly.
remedy: --tileiras-compiler=builtin.

- $ tileiras-nvcc -ptx k.tileir -arch=sm_90 --dryrun --tileiras-compiler=nvidia
+ $ tileiras-nvcc -ptx k.tileir -arch=sm_90 --dryrun --tileiras-compiler=builtin
  cuda_tile.module @m { entry @k() { return } }
"""

X_AND_LIB = Diag(
    "NVC-0039",
    ERROR,
    "Option '-x' cannot be combined with Tile IR inputs and '-lib' here: nvcc would compile the objects",
)
"""
cause: -x gives all inputs one language, the objects made of Tile IR among them.
remedy: Compile first (-c), make the library in a second command.

- $ tileiras-nvcc -lib -x c++ k.tileir a.cpp -arch=sm_90 --dryrun -o k.a
+ $ tileiras-nvcc -c k.tileir -arch=sm_90 --dryrun
  cuda_tile.module @m { entry @k() { return } }
"""

LOOP = Diag(
    "NVC-0040",
    ERROR,
    "this shim starts itself again and again; name the real nvcc by TILEIRAS_NVCC=/path/to/nvcc or --tileiras-nvcc=/path/to/nvcc",
)
"""
cause: Two wrappers of nvcc name each other.
remedy: Name NVIDIA's nvcc, as the message says.

- $ TILEIRAS_NVCC_DEPTH=xxxxxxxx tileiras-nvcc -c k.tileir -arch=sm_90 --dryrun
+ $ tileiras-nvcc -c k.tileir -arch=sm_90 --dryrun
  cuda_tile.module @m { entry @k() { return } }
"""

NO_STEP_OUTPUT = Diag("NVC-0041", ERROR, "'{name}' reported success, but there is no '{output}'")
"""
cause: A step ended without an error and without its output.
remedy: Repeat with --dryrun, which shows all steps, and run that step alone; see that the disk has room.

! It depends on the tools; tests/integration/test_nvcc_shim.py has tools that fail so.
"""

SIGNAL = Diag("NVC-0042", ERROR, "'{name}' died due to signal {number} ({what})")
"""
cause: A tool was ended from outside, or crashed.
remedy: Signal 9 mostly says that memory ran out: run fewer jobs at once. A crash of a tool is a report to its
authors.

! It depends on the tools; tests/integration/test_nvcc_shim.py has tools that fail so.
"""

OS_ERROR = Diag("NVC-0043", ERROR, "{path}: {why}")
"""
cause: The operating system refused to read or write a file, for the reason in the message.
remedy: Make the place accessible, or point TMPDIR elsewhere.

! It depends on the tools; tests/integration/test_nvcc_shim.py has tools that fail so.
"""

IS_DIRECTORY = Diag("NVC-0044", ERROR, "the output '{output}' is a directory")
"""
cause: The name of the output is that of a folder.
remedy: Name a file, or remove the folder.

  $ mkdir -p folder
- $ tileiras-nvcc -ptx k.tileir -arch=compute_90 -o folder
+ $ tileiras-nvcc -ptx k.tileir -arch=compute_90 -o k.ptx
  cuda_tile.module @m { entry @k() { return } }
"""

NO_TILECUBIN = Diag(
    "NVC-0045",
    ERROR,
    "nvcc reported success and wrote no '{output}': -tilecubin takes one real architecture, "
    "named first (-arch=sm_100, or code=[sm_100,compute_100])",
)
"""
cause: nvcc takes the first architecture of a list, and makes nothing when it is a virtual one.
remedy: Name a real architecture first, as the message shows.

! It depends on the tools; tests/integration/test_nvcc_shim.py has tools that fail so.
"""
