"""What tileiras-build and its verbs can have to say; what `test` says is in `tools/kernel_test_diags.py`, what
matrices of kernels are refused for, in `matrix_diags.py`."""

from __future__ import annotations

from tileiras.diag import ERROR, EXIT_CONFIGURATION, Diag

NO_VALUE = Diag("BLD-0001", ERROR, "option '{option}' takes no value")
"""
cause: The option is a switch: it is there or not.
remedy: Write it without "=".

- $ tileiras-build compile k.tileir --arch sm_90 --tilebc k.out --verbose=1
+ $ tileiras-build compile k.tileir --arch sm_90 --tilebc k.out
  cuda_tile.module @m { entry @k() { return } }
"""

NEEDS_VALUE = Diag(
    "BLD-0002", ERROR, "option '{option}' needs a value (one that begins with '-' as {option}=VALUE)"
)
"""
cause: The option is the last word of the line, or the word behind it is an option itself.
remedy: Write the value behind it; one that begins with a dash needs the form with "=".

- $ tileiras-build compile k.tileir --arch --tilebc k.out
+ $ tileiras-build compile k.tileir --arch sm_90 --tilebc k.out
  cuda_tile.module @m { entry @k() { return } }
"""

EMPTY = Diag("BLD-0103", ERROR, "option '{option}': its value is empty", exit_code=EXIT_CONFIGURATION)
"""
cause: The option names a file, a tool or a version, and has no text behind "=": often a variable that is not set.
remedy: Set the variable, or leave the option out.

- $ tileiras-build compile k.tileir --arch sm_90 --tilebc k.out --toolkit-root=
+ $ tileiras-build compile k.tileir --arch sm_90 --tilebc k.out
  cuda_tile.module @m { entry @k() { return } }
"""

ONE_INPUT_AND_O = Diag("BLD-0003", ERROR, "one input and -o are needed")
"""
cause: The verb turns one module into one file of bytecode.
remedy: `tileiras-build bytecode IN -o OUT.tilebc`.

- $ tileiras-build bytecode k.tileir
+ $ tileiras-build bytecode k.tileir -o k.tilebc
  cuda_tile.module @m { entry @k() { return } }
"""

TWO_OUTPUTS = Diag("BLD-0004", ERROR, "'{path}' is named as two outputs", exit_code=EXIT_CONFIGURATION)
"""
cause: Two options name one file, and the later output would replace the earlier.
remedy: Give each output a name of its own.

- $ tileiras-build compile k.tileir --arch sm_90 --tilebc k.out --ptx k.out
+ $ tileiras-build compile k.tileir --arch sm_90 --tilebc k.out
  cuda_tile.module @m { entry @k() { return } }
"""

INPUT_IS_OUTPUT = Diag("BLD-0005", ERROR, "'{path}' is both input and output", exit_code=EXIT_CONFIGURATION)
"""
cause: The output would overwrite the source.
remedy: Give the output another name.

- $ tileiras-build compile k.tileir --arch sm_90 --tilebc k.tileir
+ $ tileiras-build compile k.tileir --arch sm_90 --tilebc k.out
  cuda_tile.module @m { entry @k() { return } }
"""

ONE_INPUT = Diag("BLD-0006", ERROR, "one input is needed, {count} were given")
"""
cause: `compile` compiles one module; several are the matter of `kernels`.
remedy: Name one file; for several: tileiras-build kernels.

- $ tileiras-build compile --arch sm_90 --tilebc k.out
+ $ tileiras-build compile k.tileir --arch sm_90 --tilebc k.out
  cuda_tile.module @m { entry @k() { return } }
"""

NO_ARCH = Diag("BLD-0007", ERROR, "no GPU architecture given (--arch sm_90)", exit_code=2)
"""
cause: Machine code is for one GPU, and there is no default.
remedy: --arch sm_90, compute_90 for PTX, or cpu.

- $ tileiras-build compile k.tileir --tilebc k.out
+ $ tileiras-build compile k.tileir --arch sm_90 --tilebc k.out
  cuda_tile.module @m { entry @k() { return } }
"""

REPORT_OF_CPU = Diag("BLD-0008", ERROR, "--report explains code for GPUs, not for --arch cpu", exit_code=2)
"""
cause: A report shows warps, memory transactions and machine code of a GPU.
remedy: Leave --report out, or compile for a GPU as well.

- $ tileiras-build compile k.tileir --arch cpu --kernels-json k.json --report r.html
+ $ tileiras-build compile k.tileir --arch sm_90 --tilebc k.out --report r.html
  cuda_tile.module @m { entry @k() { return } }
"""

PTX_TWICE = Diag(
    "BLD-0009", ERROR, "for a virtual architecture -o receives the PTX: --ptx is one name too many"
)
"""
cause: PTX is what compute_NN is compiled to, so that -o and --ptx name the same text.
remedy: Leave --ptx out.

- $ tileiras-build compile k.tileir --arch compute_90 -o k.ptx --ptx other.ptx
+ $ tileiras-build compile k.tileir --arch compute_90 -o k.ptx
  cuda_tile.module @m { entry @k() { return } }
"""

NO_OUTPUT = Diag("BLD-0010", ERROR, "no output asked for (-o, --ptx, --tilebc or --kernels-json)")
"""
cause: Nothing says what to make.
remedy: Add -o for the image, or one of the others.

- $ tileiras-build compile k.tileir --arch sm_90
+ $ tileiras-build compile k.tileir --arch sm_90 --tilebc k.out
  cuda_tile.module @m { entry @k() { return } }
"""

DEPFILE_TARGET = Diag("BLD-0011", ERROR, "--depfile needs --depfile-target where there is no {option}")
"""
cause: A depfile says what an output depends on, and no output can be named.
remedy: Add --depfile-target NAME, the output as the build system calls it.

- $ tileiras-build compile k.tileir --arch sm_90 --tilebc k.out --depfile k.d
+ $ tileiras-build compile k.tileir --arch sm_90 --tilebc k.out --depfile k.d --depfile-target k.out
  cuda_tile.module @m { entry @k() { return } }
"""

REMARKS_OUTPUT = Diag("BLD-0012", ERROR, "--remarks-output needs --remarks")
"""
cause: A file for remarks is named, but no kind of remark is asked for.
remedy: Add --remarks all, or a kind that --help lists.

- $ tileiras-build compile k.tileir --arch sm_90 --tilebc k.out --remarks-output r.yaml
+ $ tileiras-build compile k.tileir --arch sm_90 --ptx k.out --remarks all --remarks-output r.yaml
  cuda_tile.module @m { entry @k() { return } }
"""

REPORT_NAME = Diag("BLD-0013", ERROR, "option '--report': {problem}")
"""
cause: The form of a report follows from the end of its name, and this one says none.
remedy: Name it FILE.html for the page or FILE.json for the data.

- $ tileiras-build compile k.tileir --arch sm_90 --ptx k.out --report r.txt
+ $ tileiras-build compile k.tileir --arch sm_90 --ptx k.out --report r.json
  cuda_tile.module @m { entry @k() { return } }
"""

COMPILER = Diag("BLD-0014", ERROR, "TILEIRAS_COMPILER: '{compiler}' is not one of {known}", exit_code=2)
"""
cause: The environment variable chooses the compiler, and names none that there is.
remedy: Set it to `builtin` or `nvidia`, or unset it.

- $ TILEIRAS_COMPILER=gcc tileiras-build compile k.tileir --arch sm_90 --tilebc k.out
+ $ TILEIRAS_COMPILER=builtin tileiras-build compile k.tileir --arch sm_90 --tilebc k.out
  cuda_tile.module @m { entry @k() { return } }
"""

PREFIX_MAP = Diag("BLD-0015", ERROR, "{option}: '{word}' is not of the form OLD=NEW")
"""
cause: The option replaces the beginning of source names in debug information, and needs both parts.
remedy: --file-prefix-map=/build/tree= or --file-prefix-map=OLD=NEW.

- $ tileiras-build compile k.tileir --arch sm_90 --tilebc k.out --file-prefix-map /build
+ $ tileiras-build compile k.tileir --arch sm_90 --tilebc k.out --file-prefix-map /build=
  cuda_tile.module @m { entry @k() { return } }
"""

DEBUG_LEVEL = Diag(
    "BLD-0016", ERROR, "--debug needs --opt-level 0: optimised debugging is not supported", exit_code=2
)
"""
cause: Debug information tells where each variable is, which optimised code does not keep.
remedy: Add --opt-level 0; for lines in profilers use --lineinfo at any level.

- $ tileiras-build compile k.tileir --arch sm_90 --ptx k.out --debug --opt-level 3
+ $ tileiras-build compile k.tileir --arch sm_90 --ptx k.out --debug --opt-level 0
  cuda_tile.module @m { entry @k() { return } }
"""

VIRTUAL_BUDGET = Diag(
    "BLD-0017",
    ERROR,
    "{arch}: registers are the driver's choice; budgets need an image (sm_{label})",
    exit_code=2,
)
"""
cause: PTX has no registers of a machine yet, so that a budget cannot be checked.
remedy: Compile for sm_NN, or leave the budget out.

- $ tileiras-build compile k.tileir --arch compute_90 -o k.ptx --no-spills
+ $ tileiras-build compile k.tileir --arch compute_90 -o k.ptx
  cuda_tile.module @m { entry @k() { return } }
"""

TENSOR_MAPS_ABI = Diag(
    "BLD-0018",
    ERROR,
    "--tensor-maps launcher needs --launch-abi simt: others know the source's parameters only",
    exit_code=2,
)
"""
cause: Descriptors of tensors are parameters behind those of the source, which only a launcher of ours passes.
remedy: Add --launch-abi simt and launch with the generated launcher, or leave --tensor-maps out.

- $ tileiras-build compile k.tileir --arch sm_90 --ptx k.out --tensor-maps launcher --launch-abi tile
+ $ tileiras-build compile k.tileir --arch sm_90 --ptx k.out --tensor-maps launcher --launch-abi simt
  cuda_tile.module @m { entry @k() { return } }
"""

NVIDIA_PTX = Diag(
    "BLD-0019", ERROR, "NVIDIA's compiler gives no PTX ({what}); use --compiler builtin", exit_code=2
)
"""
cause: NVIDIA's `tileiras` makes machine code directly.
remedy: Use --compiler builtin for what needs PTX.

- $ tileiras-build compile k.tileir --arch compute_90 -o k.ptx --compiler nvidia
+ $ tileiras-build compile k.tileir --arch compute_90 -o k.ptx --compiler builtin
  cuda_tile.module @m { entry @k() { return } }
"""

NVIDIA_SIMT = Diag(
    "BLD-0020",
    ERROR,
    "NVIDIA's compiler makes images of launch ABI tile only; use --compiler builtin for simt",
    exit_code=2,
)
"""
cause: The launch ABI simt, one thread a thread, is ours.
remedy: Use --compiler builtin, or --launch-abi tile.

- $ tileiras-build compile k.tileir --arch sm_100 -o k.out --compiler nvidia --launch-abi simt
+ $ tileiras-build compile k.tileir --arch sm_100 --ptx k.out --compiler builtin --launch-abi simt
  cuda_tile.module @m { entry @k() { return } }
"""

NVIDIA_REPORT = Diag(
    "BLD-0021",
    ERROR,
    "NVIDIA's compiler does not tell what a report shows; use --compiler builtin",
    exit_code=2,
)
"""
cause: A report follows each op through the passes of our compiler.
remedy: Use --compiler builtin, or leave --report out.

- $ tileiras-build compile k.tileir --arch sm_100 -o k.out --compiler nvidia --report r.json
+ $ tileiras-build compile k.tileir --arch sm_100 --ptx k.out --compiler builtin --report r.json
  cuda_tile.module @m { entry @k() { return } }
"""

NVIDIA_DISABLE = Diag(
    "BLD-0022", ERROR, "NVIDIA's compiler has no parts to disable; use --compiler builtin", exit_code=2
)
"""
cause: --disable leaves out parts of our code generator.
remedy: Use --compiler builtin, or leave --disable out.

- $ tileiras-build compile k.tileir --arch sm_100 -o k.out --compiler nvidia --disable tcgen05
+ $ tileiras-build compile k.tileir --arch sm_100 --ptx k.out --compiler builtin --disable tcgen05
  cuda_tile.module @m { entry @k() { return } }
"""

NVIDIA_TENSOR_MAPS = Diag(
    "BLD-0023",
    ERROR,
    "NVIDIA's compiler takes no tensor maps from a launcher; use --compiler builtin",
    exit_code=2,
)
"""
cause: NVIDIA's compiler makes descriptors inside of the kernel.
remedy: Use --compiler builtin with --launch-abi simt, or leave --tensor-maps out.

- $ tileiras-build compile k.tileir --arch sm_100 -o k.out --compiler nvidia --tensor-maps launcher
+ $ tileiras-build compile k.tileir --arch sm_100 --ptx k.out --launch-abi simt --tensor-maps launcher
  cuda_tile.module @m { entry @k() { return } }
"""

NVIDIA_PTXAS = Diag(
    "BLD-0024", ERROR, "NVIDIA's compiler takes no ptxas options; use --compiler builtin", exit_code=2
)
"""
cause: NVIDIA's `tileiras` starts the assembler itself and passes nothing on.
remedy: Use --compiler builtin, or leave --ptxas-option out.

- $ tileiras-build compile k.tileir --arch sm_100 -o k.out --compiler nvidia --ptxas-option=-v
+ $ tileiras-build compile k.tileir --arch sm_100 --ptx k.out --compiler builtin
  cuda_tile.module @m { entry @k() { return } }
"""

NVIDIA_CPU = Diag(
    "BLD-0025", ERROR, "NVIDIA's compiler makes no code for the CPU; use --compiler builtin", exit_code=2
)
"""
cause: The target cpu is ours.
remedy: Use --compiler builtin.

- $ tileiras-build compile k.tileir --arch cpu --kernels-json k.json --compiler nvidia
+ $ tileiras-build compile k.tileir --arch sm_90 --ptx k.out --compiler builtin
  cuda_tile.module @m { entry @k() { return } }
"""

NO_KERNEL = Diag("BLD-0026", ERROR, "no kernel '{name}' in '{source}'; its kernels: {there}")
"""
cause: --entry names a kernel that the module does not have.
remedy: Take one of the names in the message; letters of either case count.

- $ tileiras-build compile k.tileir --arch sm_90 --ptx k.out --entry q
+ $ tileiras-build compile k.tileir --arch sm_90 --ptx k.out --entry k
  cuda_tile.module @m { entry @k() { return } }
"""

NO_NUMBER = Diag("BLD-0027", ERROR, "option '{option}': '{text}' is no number")
"""
cause: The option takes a whole number.
remedy: Write it in digits.

- $ tileiras-build compile k.tileir --arch sm_90 --ptx k.out --max-registers many
+ $ tileiras-build compile k.tileir --arch sm_90 --ptx k.out
  cuda_tile.module @m { entry @k() { return } }
"""

NO_SIZE = Diag("BLD-0028", ERROR, "option '{option}': '{text}' is no size")
"""
cause: The option takes a number of bytes, or one with K or M behind it.
remedy: Write 49152 or 48K.

- $ tileiras-build compile k.tileir --arch sm_90 --ptx k.out --max-shared 48kilo
+ $ tileiras-build compile k.tileir --arch sm_90 --ptx k.out
  cuda_tile.module @m { entry @k() { return } }
"""

CPU_BUDGET = Diag("BLD-0029", ERROR, "{flag}: budgets are for images of a GPU, not for the CPU", exit_code=2)
"""
cause: Registers, spills and shared memory are resources of a GPU.
remedy: Leave the budget out, or set it for the GPU's image only.

- $ tileiras-build compile k.tileir --arch cpu --kernels-json k.json --no-spills
+ $ tileiras-build compile k.tileir --arch sm_90 --ptx k.out
  cuda_tile.module @m { entry @k() { return } }
"""

CPU_OPTION = Diag("BLD-0030", ERROR, "{flag} has no meaning for --arch cpu")
"""
cause: The option concerns images of GPUs, PTX or the assembler, which code for the CPU does not go through.
remedy: Leave it out.

- $ tileiras-build compile k.tileir --arch cpu --kernels-json k.json --ptx k.ptx
+ $ tileiras-build compile k.tileir --arch sm_90 --ptx k.out
  cuda_tile.module @m { entry @k() { return } }
"""

CPU_TABLE = Diag("BLD-0031", ERROR, "--arch cpu makes a kernel table: --kernels-json is needed")
"""
cause: Code for the CPU travels in the kernel table, and `header` puts it into the program.
remedy: Add --kernels-json FILE.

- $ tileiras-build compile k.tileir --arch cpu
+ $ tileiras-build compile k.tileir --arch sm_90 --ptx k.out
  cuda_tile.module @m { entry @k() { return } }
"""

DEPFILE_PATH = Diag("BLD-0032", ERROR, "a path with a NUL cannot stand in a depfile: {path!r}", exit_code=2)
"""
cause: No file system has such a name, and neither Make nor Ninja a way to write it.
remedy: Correct the name.

! A command line cannot hold a NUL; tests/unit/test_depfile.py asks for it from Python.
"""

DEPFILE_READER = Diag(
    "BLD-0033", ERROR, "{reader} cannot read a path with {what} in a depfile: {path!r}", exit_code=2
)
"""
cause: The tool that reads the depfile has no way to write such a name.
remedy: Rename the file or the folder; --depfile-for tells who reads it, and GNU Make reads more names than Ninja.

  $ cp k.tileir 'a;b.tileir'
- $ tileiras-build compile 'a;b.tileir' --arch sm_90 --tilebc k.out --depfile k.d --depfile-target k.out --depfile-for ninja
+ $ tileiras-build compile k.tileir --arch sm_90 --tilebc k.out --depfile k.d --depfile-target k.out --depfile-for ninja
  cuda_tile.module @m { entry @k() { return } }
"""

DEPFILE_BOTH = Diag("BLD-0034", ERROR, "{ninja}; {make}", exit_code=2)
"""
see: BLD-0033

! The names that neither reader takes are in tests/unit/test_depfile.py.
"""

DEPFILE_EMPTY = Diag(
    "BLD-0035", ERROR, "a depfile needs a prerequisite: Ninja would rebuild for ever", exit_code=2
)
"""
cause: An output that depends on nothing is out of date at all times.
remedy: Nothing of yours brings this about; report it with the command line.

! Every verb that writes a depfile has read an input.
"""

EXPORT_WORDS = Diag("BLD-0036", ERROR, "one Python file, --entry and -o are needed")
"""
cause: `export` turns one kernel of one Python file into bytecode.
remedy: `tileiras-build export k.py --entry NAME --signature ... -o k.tilebc`.

- $ tileiras-build export k.py
+ $ tileiras-build export k.py --entry k --signature "f32[1]" -o k.out
  import cuda.tile as ct
  @ct.kernel
  def k(x):
      pass
"""

EXPORT_SIGNATURE = Diag("BLD-0037", ERROR, "--signature or --matrix is needed")
"""
cause: A cuTile kernel is compiled for the types of its arguments, which nothing says.
remedy: --signature 'f32[1],f32[1],=16': one entry for each parameter; docs/build-command.md has the forms.

- $ tileiras-build export k.py --entry k -o k.out
+ $ tileiras-build export k.py --entry k --signature "f32[1]" -o k.out
  import cuda.tile as ct
  @ct.kernel
  def k(x):
      pass
"""

EXPORT_MATRIX = Diag(
    "BLD-0038", ERROR, "with --matrix there is one --signature, in which @name@ stands for a value"
)
"""
cause: A matrix makes many kernels from one signature, by putting values in place of the names.
remedy: Give one --signature with @name@ in it, or none where the matrix has it.

  $ printf '{"n": [1, 2]}' > m.json
- $ tileiras-build export k.py --entry k --matrix m.json --signature "(1)" --signature "(2)" -o k.out
+ $ tileiras-build export k.py --entry k --signature "f32[1]" -o k.out
  import cuda.tile as ct
  @ct.kernel
  def k(x):
      pass
"""

EXPORT_SYMBOLS = Diag("BLD-0039", ERROR, "as many --symbol as --signature are needed")
"""
cause: Each signature makes a kernel, and each kernel needs a name of its own.
remedy: Give one --symbol for each --signature, or none at all.

- $ tileiras-build export k.py --entry k --signature "f32[1]" --symbol a --symbol b -o k.out
+ $ tileiras-build export k.py --entry k --signature "f32[1]" --symbol a -o k.out
  import cuda.tile as ct
  @ct.kernel
  def k(x):
      pass
"""

PYTHON_DIED = Diag("BLD-0040", ERROR, "{python}: {how}")
"""
cause: The Python that was named ended with an error or by a signal; what it printed stands above.
remedy: Correct what it says; see that tileiras and cuda-tile are installed for that Python.

- $ tileiras-build export k.py --entry k --signature "f32[1]" --python missing/python -o k.out
+ $ tileiras-build export k.py --entry k --signature "f32[1]" -o k.out
  import cuda.tile as ct
  @ct.kernel
  def k(x):
      pass
"""

PYTHON_SILENT = Diag("BLD-0041", ERROR, "{python} ended without an error and without '{path}'")
"""
cause: What --python names is no Python interpreter, or one that does not run what it is given.
remedy: Name the interpreter of the environment that has cuda-tile.

- $ tileiras-build export k.py --entry k --signature "f32[1]" --python /bin/true -o k.out
+ $ tileiras-build export k.py --entry k --signature "f32[1]" -o k.out
  import cuda.tile as ct
  @ct.kernel
  def k(x):
      pass
"""

NEEDS_CUTILE = Diag(
    "BLD-0043",
    ERROR,
    "cuda-tile is not importable in {python} ({why}); install it or use --python",
    exit_code=2,
)
"""
cause: Kernels of Python files are compiled by cuTile Python, which this Python cannot import.
remedy: `pip install cuda-tile`, or --python with the interpreter that has it.

! It depends on which packages are installed.
"""

NO_PYTHON_FILE = Diag("BLD-0044", ERROR, "'{path}' is no Python file")
"""
cause: Python has no way to import a file of that name.
remedy: Name a file that ends in .py.

  $ cp k.py k2.txt
- $ tileiras-build export k2.txt --entry k --signature "f32[1]" -o k.out
+ $ tileiras-build export k.py --entry k --signature "f32[1]" -o k.out
  import cuda.tile as ct
  @ct.kernel
  def k(x):
      pass
"""

NO_ENTRY = Diag("BLD-0045", ERROR, "'{path}' has no '{entry}'")
"""
cause: No kernel of that name stands at the top level of the file.
remedy: Correct --entry, or the name behind `def`.

- $ tileiras-build export k.py --entry q --signature "f32[1]" -o k.out
+ $ tileiras-build export k.py --entry k --signature "f32[1]" -o k.out
  import cuda.tile as ct
  @ct.kernel
  def k(x):
      pass
"""

CALLING_CONVENTION = Diag("BLD-0046", ERROR, "this cuda-tile has no calling convention '{name}'", exit_code=2)
"""
cause: The installed cuTile does not know that calling convention.
remedy: Leave --calling-convention out, or install a release that has it.

- $ tileiras-build export k.py --entry k --signature "f32[1]" --calling-convention none -o k.out
+ $ tileiras-build export k.py --entry k --signature "f32[1]" -o k.out
  import cuda.tile as ct
  @ct.kernel
  def k(x):
      pass
"""

EXPORT_REFUSED = Diag("BLD-0047", ERROR, "cuda-tile could not export '{entry}': {why}", exit_code=5)
"""
cause: cuTile Python refuses the kernel; its own message, with the line, follows.
remedy: Correct that line; cuTile's documentation has the rules of its language.

- $ tileiras-build export k.py --entry k --signature "f32[1]" -o k.out
+ $ tileiras-build export k.py --entry k --signature "f32[1]" -o k.out
  import cuda.tile as ct
  @ct.kernel
  def k(x):
-     ct.no_such_thing()
+     pass
"""

SIGNATURE_COUNT = Diag(
    "BLD-0048",
    ERROR,
    "cuda-tile could not export '{entry}': signature '{signature}' has {count} parameters, "
    "and the kernel {wanted}: {entry}({names})",
    exit_code=5,
)
"""
cause: The signature has more or fewer entries than the kernel has parameters.
remedy: Write one entry for each parameter in the message, in their order.

- $ tileiras-build export k.py --entry k --signature "f32[1],f32[1]" -o k.out
+ $ tileiras-build export k.py --entry k --signature "f32[1]" -o k.out
  import cuda.tile as ct
  @ct.kernel
  def k(x):
      pass
"""

SIGNATURE = Diag("BLD-0049", ERROR, "signature '{signature}': {why}")
"""
cause: An entry of the signature cannot be read; cuTile's reason follows.
remedy: Correct it; docs/build-command.md has the forms.

- $ tileiras-build export k.py --entry k --signature "[oops]" -o k.out
+ $ tileiras-build export k.py --entry k --signature "f32[1]" -o k.out
  import cuda.tile as ct
  @ct.kernel
  def k(x):
      pass
"""

SIGNATURE_CONSTANT = Diag("BLD-0050", ERROR, "signature '{signature}': '{word}' is no constant")
"""
cause: An entry is neither a type nor a number or text that Python reads.
remedy: Correct it; docs/build-command.md has the forms.

- $ tileiras-build export k.py --entry k --signature "=oops" -o k.out
+ $ tileiras-build export k.py --entry k --signature "f32[1]" -o k.out
  import cuda.tile as ct
  @ct.kernel
  def k(x):
      pass
"""

SIGNATURE_ARRAY = Diag(
    "BLD-0051", ERROR, "signature '{signature}': '{word}' is not of the form f32[2] or f32[2]:16"
)
"""
cause: The entry of an array is its element type and rank, perhaps with the divisor of its strides and pointer.
remedy: Write f32[2], or f32[2]:16 where all is a multiple of 16 bytes.

- $ tileiras-build export k.py --entry k --signature "f32[two]" -o k.out
+ $ tileiras-build export k.py --entry k --signature "f32[1]" -o k.out
  import cuda.tile as ct
  @ct.kernel
  def k(x):
      pass
"""

SIGNATURE_RANK = Diag(
    "BLD-0052", ERROR, "signature '{signature}': no array has the rank or the divisor of '{word}'"
)
"""
cause: The rank or the divisor is not one that arrays have.
remedy: Give a rank from 1 on and a divisor that is a power of two.

- $ tileiras-build export k.py --entry k --signature "f32[100]" -o k.out
+ $ tileiras-build export k.py --entry k --signature "f32[1]" -o k.out
  import cuda.tile as ct
  @ct.kernel
  def k(x):
      pass
"""

SIGNATURE_TYPE = Diag("BLD-0053", ERROR, "signature '{signature}': cuda-tile has no type '{name}'")
"""
cause: cuTile has no element type of that name.
remedy: Write f32, f16, bf16, i32, u8 and so on; docs/build-command.md lists them.

- $ tileiras-build export k.py --entry k --signature "f33[1]" -o k.out
+ $ tileiras-build export k.py --entry k --signature "f32[1]" -o k.out
  import cuda.tile as ct
  @ct.kernel
  def k(x):
      pass
"""

NO_CONTAINER = Diag("BLD-0054", ERROR, "no output given (-o)")
"""
cause: The container that the images go into has no name.
remedy: Add -o OUT.fatbin.

  $ tileiras-build compile k.tileir --arch compute_90 -o k.ptx
- $ tileiras-build fatbin --ptx compute_90=k.ptx
+ $ tileiras-build fatbin --ptx compute_90=k.ptx -o k.out
  cuda_tile.module @m { entry @k() { return } }
"""

IMAGE_FORM = Diag("BLD-0055", ERROR, "'{word}': images are given as --elf, --tileir or --ptx ARCH=FILE")
"""
cause: Each image has a kind and an architecture, which a bare file name does not tell.
remedy: Write --elf sm_90=k.cubin.

  $ tileiras-build compile k.tileir --arch compute_90 -o k.ptx
- $ tileiras-build fatbin k.ptx -o k.out
+ $ tileiras-build fatbin --ptx compute_90=k.ptx -o k.out
  cuda_tile.module @m { entry @k() { return } }
"""

NO_IMAGES = Diag("BLD-0056", ERROR, "no image given (--elf, --tileir or --ptx)")
"""
cause: A container without an image is of no use.
remedy: Name at least one.

  $ tileiras-build compile k.tileir --arch compute_90 -o k.ptx
- $ tileiras-build fatbin -o k.out
+ $ tileiras-build fatbin --ptx compute_90=k.ptx -o k.out
  cuda_tile.module @m { entry @k() { return } }
"""

TWO_IMAGES = Diag("BLD-0057", ERROR, "two {kind} images for {arch}")
"""
cause: A container has one image of a kind for an architecture.
remedy: Leave one of them out.

  $ tileiras-build compile k.tileir --arch compute_90 -o k.ptx
- $ tileiras-build fatbin --ptx compute_90=k.ptx --ptx compute_90=k.ptx -o k.out
+ $ tileiras-build fatbin --ptx compute_90=k.ptx -o k.out
  cuda_tile.module @m { entry @k() { return } }
"""

NO_TOOLKIT = Diag(
    "BLD-0058",
    ERROR,
    "{root} (option --toolkit-root) is no CUDA toolkit: there is no such folder",
    exit_code=2,
)
"""
cause: The folder that --toolkit-root names does not exist.
remedy: Name the folder that holds bin/ptxas and bin/fatbinary, or leave the option out.

  $ tileiras-build compile k.tileir --arch compute_90 -o k.ptx
- $ tileiras-build fatbin --ptx compute_90=k.ptx -o k.out --toolkit-root missing
+ $ tileiras-build fatbin --ptx compute_90=k.ptx -o k.out
  cuda_tile.module @m { entry @k() { return } }
"""

ARCH_IS_FILE = Diag("BLD-0059", ERROR, "--{kind}: '{entry}' is not of the form ARCH=FILE")
"""
cause: The architecture, the file or the "=" between them is missing.
remedy: Write --elf sm_90=k.cubin, --ptx compute_90=k.ptx.

  $ tileiras-build compile k.tileir --arch compute_90 -o k.ptx
- $ tileiras-build fatbin --ptx k.ptx -o k.out
+ $ tileiras-build fatbin --ptx compute_90=k.ptx -o k.out
  cuda_tile.module @m { entry @k() { return } }
"""

ARCH_OF_IMAGE = Diag("BLD-0060", ERROR, "--{kind}: '{name}' does not name one {prefix}NN architecture")
"""
cause: Cubins are for real architectures (sm_NN), PTX and Tile IR for virtual ones (compute_NN).
remedy: Write the architecture in the form of the message.

  $ tileiras-build compile k.tileir --arch compute_90 -o k.ptx
- $ tileiras-build fatbin --ptx sm_90=k.ptx -o k.out
+ $ tileiras-build fatbin --ptx compute_90=k.ptx -o k.out
  cuda_tile.module @m { entry @k() { return } }
"""

IS_NEEDED = Diag("BLD-0061", ERROR, "{option} is needed")
"""
cause: The verb cannot do without that option.
remedy: Add it; the verb's --help shows all of a line.

- $ tileiras-build header --json k.json --source-out k.c
+ $ tileiras-build compile k.tileir --arch sm_90 --tilebc k.out
  cuda_tile.module @m { entry @k() { return } }
"""

UNEXPECTED = Diag("BLD-0062", ERROR, "unexpected '{word}'")
"""
cause: The word is no option, and this verb takes no input without one.
remedy: Put the option before it (--json FILE, --image FILE), or leave it out.

- $ tileiras-build header --prefix k --header-out k.h --source-out k.c k.json
+ $ tileiras-build compile k.tileir --arch sm_90 --tilebc k.out
  cuda_tile.module @m { entry @k() { return } }
"""

NOTHING_EMBEDDED = Diag("BLD-0063", ERROR, "--embed incbin: there is no image to embed{rest}")
"""
cause: Only code for the CPU is there, which is compiled into the program and needs no image.
remedy: Use --embed array or none, or add an image of a GPU.

- $ tileiras-build kernels --folder . --arch cpu --embed incbin -- k.tileir k k
+ $ tileiras-build compile k.tileir --arch sm_90 --tilebc k.out
  cuda_tile.module @m { entry @k() { return } }
"""

PREFIX = Diag("BLD-0064", ERROR, "--prefix: '{prefix}' is no C identifier")
"""
cause: The prefix begins every C name that is made.
remedy: Take letters, digits and underscores, no digit first.

- $ tileiras-build header --prefix 2k --json k.json --header-out k.h --source-out k.c
+ $ tileiras-build compile k.tileir --arch sm_90 --tilebc k.out
  cuda_tile.module @m { entry @k() { return } }
"""

NAMESPACE = Diag("BLD-0065", ERROR, "--namespace: '{namespace}' is no C++ namespace")
"""
cause: A part of the namespace is no identifier, or a word of the language.
remedy: Write it as in `mine` or `mine::kernels`.

- $ tileiras-build header --prefix k --namespace my-kernels --json k.json --header-out k.h --source-out k.c
+ $ tileiras-build compile k.tileir --arch sm_90 --tilebc k.out
  cuda_tile.module @m { entry @k() { return } }
"""

NO_TABLE = Diag("BLD-0066", ERROR, "'{path}' is no kernel table: {why}")
"""
cause: The file of --json is not JSON.
remedy: Name the table that `tileiras-build compile --kernels-json` wrote.

- $ tileiras-build header --prefix k --json k.tileir --header-out k.h --source-out k.c
+ $ tileiras-build compile k.tileir --arch sm_90 --tilebc k.out
  cuda_tile.module @m { entry @k() { return } }
"""

NO_TABLES = Diag("BLD-0067", ERROR, "no kernel table given (--json)")
"""
cause: The header declares the kernels that tables list, and no table is named.
remedy: Add --json FILE for each architecture.

- $ tileiras-build header --prefix k --header-out k.h --source-out k.c
+ $ tileiras-build compile k.tileir --arch sm_90 --tilebc k.out
  cuda_tile.module @m { entry @k() { return } }
"""

TWO_CPU_TABLES = Diag("BLD-0068", ERROR, "two tables hold code for the CPU")
"""
cause: A program has one copy of a kernel's code for the CPU.
remedy: Leave one of the tables out.

  $ printf '{"version": 1, "arch": "cpu", "kernels": []}' > k.json
- $ tileiras-build header --prefix k --json k.json --json k.json --header-out k.h --source-out k.c
+ $ tileiras-build compile k.tileir --arch sm_90 --tilebc k.out
  cuda_tile.module @m { entry @k() { return } }
"""

TABLE_VERSION = Diag(
    "BLD-0069", ERROR, "a kernel table is of an unknown version; write it again with this tileiras-build"
)
"""
cause: The table was written by another release, or the file is JSON of another kind.
remedy: Run the compile again that makes it.

  $ printf '{"version": 7, "kernels": []}' > k.json
- $ tileiras-build header --prefix k --json k.json --header-out k.h --source-out k.c
+ $ tileiras-build compile k.tileir --arch sm_90 --tilebc k.out
  cuda_tile.module @m { entry @k() { return } }
"""

OTHER_PARAMETERS = Diag("BLD-0070", ERROR, "kernel '{symbol}' has other parameters for {arch}")
"""
cause: One launcher serves all architectures, and two of them take other arguments.
remedy: Make both tables from the same source, or give the kernels other names.

  $ printf 'cuda_tile.module @m { entry @k(%%n : tile<i32>) { return } }' > other.tileir
  $ tileiras-build compile k.tileir --arch compute_90 -o k.ptx --kernels-json a.json
  $ tileiras-build compile other.tileir --arch compute_100 -o k.ptx --kernels-json b.json
- $ tileiras-build header --prefix k --json a.json --json b.json --header-out k.h --source-out k.c
+ $ tileiras-build compile k.tileir --arch sm_90 --tilebc k.out
  cuda_tile.module @m { entry @k() { return } }
"""

TABLE_TWICE = Diag("BLD-0071", ERROR, "two tables describe kernel '{symbol}' for {arch}")
"""
cause: A kernel has one image for an architecture, and two tables name it.
remedy: Leave one of the tables out.

  $ tileiras-build compile k.tileir --arch compute_90 -o k.ptx --kernels-json a.json
- $ tileiras-build header --prefix k --json a.json --json a.json --header-out k.h --source-out k.c
+ $ tileiras-build compile k.tileir --arch sm_90 --tilebc k.out
  cuda_tile.module @m { entry @k() { return } }
"""

TWO_ABIS = Diag("BLD-0072", ERROR, "images of different launch ABIs (tile, simt) cannot share one loader")
"""
cause: The loader passes arguments in one way, and the images expect two.
remedy: Compile all with the same --launch-abi.

  $ printf '{"version":1,"arch":"sm_80","launch_abi":"tile","kernels":[]}' > a.json
  $ printf '{"version":1,"arch":"sm_90","launch_abi":"simt","kernels":[]}' > b.json
- $ tileiras-build header --prefix k --json a.json --json b.json --image k.tileir --header-out k.h --source-out k.c
+ $ tileiras-build compile k.tileir --arch sm_90 --tilebc k.out
  cuda_tile.module @m { entry @k() { return } }
"""

JSON_WORDS = Diag("BLD-0073", ERROR, "one cubin and -o are needed")
"""
cause: `json` reads one cubin and writes its kernel table.
remedy: `tileiras-build json k.cubin -o k.json`, or -o - for standard output.

- $ tileiras-build json k.tileir
+ $ tileiras-build compile k.tileir --arch sm_90 --tilebc k.out
  cuda_tile.module @m { entry @k() { return } }
"""

THREE_WORDS = Diag("BLD-0074", ERROR, "three words for each kernel are needed: SOURCE STEM PREFIX")
"""
cause: Behind `--` each kernel has its source, the beginning of its files' names and that of its C names.
remedy: Write all three for each kernel.

- $ tileiras-build kernels --folder . --arch compute_90 --launch-abi simt -- k.tileir k
+ $ tileiras-build kernels --folder . --arch compute_90 --launch-abi simt -- k.tileir k k
  cuda_tile.module @m { entry @k() { return } }
"""

FOLDER_AND_ARCH = Diag("BLD-0075", ERROR, "--folder and --arch are needed")
"""
cause: Nothing says where the files go, or what they are for.
remedy: Add --folder DIR and at least one --arch.

- $ tileiras-build kernels --arch compute_90 -- k.tileir k k
+ $ tileiras-build kernels --folder . --arch compute_90 --launch-abi simt -- k.tileir k k
  cuda_tile.module @m { entry @k() { return } }
"""

ARCH_TWICE = Diag("BLD-0076", ERROR, "option '--arch': {name} is given twice")
"""
cause: One architecture would be compiled for two times, into the same files.
remedy: Leave one of them out.

- $ tileiras-build kernels --folder . --arch compute_90 --arch compute_90 -- k.tileir k k
+ $ tileiras-build kernels --folder . --arch compute_90 --launch-abi simt -- k.tileir k k
  cuda_tile.module @m { entry @k() { return } }
"""

EMPTY_STEM = Diag("BLD-0077", ERROR, "the STEM of '{source}' is empty")
"""
cause: The second word of a kernel, the beginning of its files' names, is empty.
remedy: Give one, such as the name of the source without its ending.

- $ tileiras-build kernels --folder . --arch compute_90 -- k.tileir "" k
+ $ tileiras-build kernels --folder . --arch compute_90 --launch-abi simt -- k.tileir k k
  cuda_tile.module @m { entry @k() { return } }
"""

MADE_TWICE = Diag("BLD-0078", ERROR, "'{path}' would be made of both '{other}' and '{source}'")
"""
cause: Two kernels have one STEM, so that one would overwrite the files of the other.
remedy: Give each kernel a STEM of its own.

- $ tileiras-build kernels --folder . --arch compute_90 -- k.tileir k a k.tileir k b
+ $ tileiras-build kernels --folder . --arch compute_90 --launch-abi simt -- k.tileir k a k.tileir l b
  cuda_tile.module @m { entry @k() { return } }
"""

PREFIX_TWICE = Diag(
    "BLD-0079", ERROR, "the C names of both '{other}' and '{source}' would begin with '{prefix}_'"
)
"""
cause: Two headers with one PREFIX would define the same names.
remedy: Give each kernel a PREFIX of its own.

- $ tileiras-build kernels --folder . --arch compute_90 --header -- k.tileir k a k.tileir l a
+ $ tileiras-build kernels --folder . --arch compute_90 --launch-abi simt -- k.tileir k a k.tileir l b
  cuda_tile.module @m { entry @k() { return } }
"""

TOOL_FAILED = Diag("BLD-0080", ERROR, "{path}: {how}")
"""
cause: NVIDIA's compiler ended with an error or by a signal; what it printed stands above.
remedy: Correct what it says; with --compiler builtin our compiler may tell more.

! It depends on NVIDIA's compiler; tests/integration/test_build_compile.py has one that fails.
"""

TOOL_SILENT = Diag("BLD-0081", ERROR, "{path} reported success but wrote no image", exit_code=5)
"""
cause: NVIDIA's compiler ended without an error and without its output.
remedy: See that the disk has room and that the program is NVIDIA's tileiras; else report it to NVIDIA.

! It depends on NVIDIA's compiler; tests/integration/test_build_compile.py has one that does so.
"""

OBJECT_WORDS = Diag("BLD-0082", ERROR, "-o, --prefix and --image are needed, and nothing else")
"""
cause: `object` puts one image under one prefix into one object file.
remedy: `tileiras-build object --prefix P --image FATBIN -o OUT.o`.

- $ tileiras-build object --image k.tileir -o k.out
+ $ tileiras-build object --prefix k --image k.tileir -o k.out
  cuda_tile.module @m { entry @k() { return } }
"""

OBJECT_ARCH = Diag(
    "BLD-0083", ERROR, "unsupported host architecture '{arch}'; use 'header --embed array'", exit_code=2
)
"""
cause: Object files are written for x86_64 and aarch64.
remedy: `tileiras-build header --embed array` writes a source that any C compiler takes.

- $ tileiras-build object --prefix k --image k.tileir --host-arch riscv64 -o k.out
+ $ tileiras-build object --prefix k --image k.tileir -o k.out
  cuda_tile.module @m { entry @k() { return } }
"""

INTERNAL = Diag(
    "BLD-0084",
    ERROR,
    "internal error in tileiras-build {verb}; please report it with the lines above",
    exit_code=5,
)
"""
cause: An exception that nobody foresaw stopped the verb; its trace stands above.
remedy: Report it with the trace, the command line and the input.

! It is a defect, and those that are known are mended.
"""

UNKNOWN_VERB = Diag("BLD-0085", ERROR, "unknown verb '{verb}'; one of: {known}")
"""
cause: The first word of the line says what to do, and this one is none of the verbs.
remedy: `tileiras-build --help` lists the verbs.

- $ tileiras-build compil k.tileir --arch sm_90 --tilebc k.out
+ $ tileiras-build compile k.tileir --arch sm_90 --tilebc k.out
  cuda_tile.module @m { entry @k() { return } }
"""

REGISTERS = Diag(
    "BLD-0086", ERROR, "kernel '{name}' ({arch}) uses {count} registers, more than the {most} allowed"
)
"""
cause: A kernel needs more registers or shared memory than its budget, or spills where it must not.
remedy: Make its tiles smaller, set num_worker_warps or occupancy by hints, or raise the budget; --report shows what
needs registers.

! It needs ptxas; tests/integration/test_build_command.py has kernels beyond their budget.
"""

SPILLS = Diag("BLD-0087", ERROR, "kernel '{name}' ({arch}) spills {count} bytes of registers to local memory")
"""
see: BLD-0086

! It needs ptxas; tests/integration/test_build_command.py has kernels beyond their budget.
"""

SHARED = Diag(
    "BLD-0088",
    ERROR,
    "kernel '{name}' ({arch}) uses {count} bytes of shared memory, more than the {most} allowed",
)
"""
see: BLD-0086

! It needs ptxas; tests/integration/test_build_command.py has kernels beyond their budget.
"""
