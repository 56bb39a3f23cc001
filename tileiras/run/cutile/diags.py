"""What running cuTile scripts can have to say."""

from __future__ import annotations

from tileiras.diag import ERROR, Diag

TARGET = Diag("CUT-0001", ERROR, "unknown target '{target}': expected {known} or {last}", exit_code=2)
"""
cause: cuTile kernels run on the targets that the message lists.
remedy: Name one of them: `tileiras-cutile --target reference script.py`.

  $ python k.py
  from tileiras.run.cutile.settings import parse_variable
- parse_variable("gpu2")
+ parse_variable("reference")
"""

CPU_NEEDS_LLVMLITE = Diag(
    "CUT-0002",
    ERROR,
    "the target cpu needs llvmlite: pip install 'tileiras[cpu]', or choose reference",
    exit_code=2,
)
"""
cause: Native code for the CPU is made by LLVM, and the package llvmlite is not installed here.
remedy: `pip install 'tileiras[cpu]'`, or run on the target reference or emulator.

! It depends on which packages are installed.
"""

GPU_NAME = Diag("CUT-0003", ERROR, "unknown GPU '{gpu}': expected sm_NN, such as sm_90", exit_code=2)
"""
cause: The name of the GPU to compile for is not of the form sm_NN.
remedy: --gpu-name sm_90, or any other that `tileiras --help` lists.

  $ python k.py
  from tileiras.run.cutile.settings import parse_variable
- parse_variable("emulator:sm_hopper")
+ parse_variable("emulator:sm_90")
"""

SETTING = Diag(
    "CUT-0004", ERROR, "unknown word '{word}': expected TARGET[:sm_NN][:check][:map-cuda]", exit_code=2
)
"""
cause: TILEIRAS_CUTILE or --tileiras-target has a word that says neither target nor GPU, nor one of the two
switches.
remedy: Write it as in `reference`, `emulator:sm_90` or `reference:check`.

  $ python k.py
  from tileiras.run.cutile.settings import parse_variable
- parse_variable("reference:chek")
+ parse_variable("reference:check")
"""

IMPORTED_EARLY = Diag("CUT-0005", ERROR, "cuda.tile was imported before its target was chosen", exit_code=2)
"""
cause: cuTile reads its driver when it is imported, so that a target chosen afterwards would come too late.
remedy: Call tileiras.run.cutile.activate, or set TILEIRAS_CUTILE, before the first `import cuda.tile`.

! It depends on the order of imports in one process, which a fresh example cannot have had.
"""

NO_SCRIPT = Diag("CUT-0006", ERROR, "a script is needed")
"""
cause: `tileiras-cutile` runs a script of yours, and none was named.
remedy: `tileiras-cutile SCRIPT.py ARGUMENTS`, or -m MODULE.

- $ tileiras-cutile --target reference
+ $ tileiras-cutile --target reference k.py
  pass
"""

NEEDS_NUMPY = Diag(
    "CUT-0007",
    ERROR,
    "running kernels needs NumPy and ml_dtypes: pip install 'tileiras[run]' ({why})",
    exit_code=2,
)
"""
cause: Arrays are NumPy's, and NumPy or ml_dtypes is not installed for this Python.
remedy: `pip install 'tileiras[run]'` with the same Python.

! It depends on which packages are installed.
"""

REPORT_NAME = Diag("CUT-0008", ERROR, "--report: {problem}")
"""
cause: The form of a report follows from the end of its name, and this one says none.
remedy: Name it FILE.html for the page or FILE.json for the data.

- $ tileiras-cutile --report r.txt k.py
+ $ tileiras-cutile --report r.json k.py
  pass
"""

GPU_BY_SCRIPT = Diag(
    "CUT-0009",
    ERROR,
    "a kernel of a Python file is launched on a GPU by its own script: see tileiras-cutile --help",
)
"""
cause: `tileiras-run` launches cuTile kernels on the interpreter, the emulator and the CPU; a GPU belongs to the
script.
remedy: `tileiras-cutile --target gpu SCRIPT.py`, or --target reference, emulator or cpu.

- $ tileiras-run k.py --target gpu
+ $ tileiras-run k.py --list
  import cuda.tile as ct
+ @ct.kernel
+ def k(x):
+     pass
"""

NEEDS_CUTILE = Diag("CUT-0010", ERROR, "cuda-tile cannot be imported in {python}: {why}", exit_code=2)
"""
cause: Kernels of Python files are compiled by cuTile Python, which this Python cannot import.
remedy: `pip install cuda-tile` with the Python that the message names.

! It depends on which packages are installed.
"""

NO_KERNEL = Diag("CUT-0011", ERROR, "no kernel named '{entry}' in '{path}': it has {listed}")
"""
cause: No kernel of that name stands at the top level of the file.
remedy: Take one of the names in the message.

- $ tileiras-run k.py --entry q
+ $ tileiras-run k.py --entry k
  import cuda.tile as ct
  @ct.kernel
  def k():
      pass
"""

ARGUMENT_COUNT = Diag("CUT-0012", ERROR, "kernel '{name}' takes {count} arguments ({wanted}), got {got}")
"""
cause: The launch passes more or fewer values than the kernel has parameters.
remedy: Give one --arg or --tensor for each parameter in the message.

- $ tileiras-run k.py --arg 1
+ $ tileiras-run k.py
  import cuda.tile as ct
  @ct.kernel
  def k():
      pass
"""

CUTILE_REFUSES = Diag("CUT-0013", ERROR, "{kind}: {what}", exit_code=5)
"""
cause: cuTile Python refuses the kernel; its own message, with the line, follows.
remedy: Correct that line; cuTile's documentation has the rules of its language.

- $ tileiras-run k.py --arg zeros:f32:16
+ $ tileiras-run k.py
  import cuda.tile as ct
  @ct.kernel
- def k(x):
-     ct.store(x, index=(0,), tile=ct.no_such_thing)
+ def k():
+     pass
"""

CUTILE_ARGUMENT = Diag("CUT-0014", ERROR, "kernel '{name}': {why}")
"""
cause: cuTile Python does not take a value as an argument of the kernel; its reason follows.
remedy: Pass arrays, numbers and, for parameters annotated as constants, the values that cuTile takes.

- $ tileiras-run k.py --arg null
+ $ tileiras-run k.py --arg zeros:f32:16
  import cuda.tile as ct
  @ct.kernel
  def k(x):
      pass
"""

ONLY_GPU = Diag("CUT-0015", ERROR, "{options} have no meaning for --target gpu", exit_code=2)
"""
cause: On a GPU the script runs as it is; what checks, maps or reports belongs to targets of ours.
remedy: Leave those options out, or name --target reference, emulator or cpu.

- $ tileiras-cutile --target gpu --check k.py
+ $ tileiras-cutile --target reference --check k.py
  pass
"""

COMMAND_LINE = Diag("CUT-0016", ERROR, "{text}")
"""
cause: The command line has a word, an option or a value that the message names and --help does not have.
remedy: Correct that word; options of the script itself stand behind its name.

- $ tileiras-cutile --targt reference k.py
+ $ tileiras-cutile --target reference k.py
  pass
"""
