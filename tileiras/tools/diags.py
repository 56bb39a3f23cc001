"""What the commands can have to say beside diagnostics of the compiler: CLI is said by several, RUN by tileiras-run."""

from __future__ import annotations

from tileiras.diag import ERROR, EXIT_CONFIGURATION, Diag, UsageError, suggestion

UNKNOWN_OPTION = Diag("CLI-0001", ERROR, "unknown option '{option}'{hint}")
"""
cause: The command has no option of that name: it is misspelled, or belongs to another command.
remedy: Take the spelling that the message suggests, or one of those that the command's --help lists.

- $ tileiras-opt k.tileir --no-such-option
+ $ tileiras-opt k.tileir
  cuda_tile.module @m { entry @k() { return } }
"""

NEEDS_VALUE = Diag("CLI-0002", ERROR, "option '{option}' needs a value")
"""
cause: The option is the last word of the command line, and its value is missing.
remedy: Write the value behind the option, as a word of its own or behind "=".

- $ tileiras-opt k.tileir -o
+ $ tileiras-opt k.tileir -o out.txt
  cuda_tile.module @m { entry @k() { return } }
"""

MORE_INPUTS = Diag("CLI-0003", ERROR, "more than one input: '{first}' and '{second}'")
"""
cause: The command reads one file, and two were named; a value that lost its option is read as a file, too.
remedy: Name one file; write OPTION=VALUE where a value stands alone.

- $ tileiras-opt k.tileir other.tileir
+ $ tileiras-opt k.tileir
  cuda_tile.module @m { entry @k() { return } }
"""

NUL_IN_ARGUMENT = Diag("CLI-0004", ERROR, "an argument has a NUL byte in it: {word!r}")
r"""
cause: A file of arguments (@FILE) is binary, or was written in an encoding with two bytes a letter.
remedy: Write the file as UTF-8, one argument a line.

  $ printf 'compile\0\n' > binary.txt
- $ tileiras-build compile @binary.txt
+ $ tileiras-build compile k.tileir --arch sm_90 --tilebc k.out
  cuda_tile.module @m { entry @k() { return } }
"""

CANNOT_READ = Diag("CLI-0005", ERROR, "cannot read '{path}': {why}")
"""
cause: A file of arguments, a report or an array could not be read, for the reason that follows.
remedy: Correct the name, or make the file readable; for arrays: .npy and .npz as numpy.save and numpy.savez write
them.

- $ tileiras-build compile @missing.txt
+ $ tileiras-build compile k.tileir --arch sm_90 --tilebc k.out
  cuda_tile.module @m { entry @k() { return } }
"""

CHOICE = Diag(
    "CLI-0006", ERROR, "option '{option}': '{value}' is not one of {known}", exit_code=EXIT_CONFIGURATION
)
"""
cause: The option takes one of the words that the message lists.
remedy: Take one of them, in this spelling.

- $ tileiras-build compile k.tileir --arch sm_90 --tilebc k.out --launch-abi simd
+ $ tileiras-build compile k.tileir --arch sm_90 --tilebc k.out --launch-abi simt
  cuda_tile.module @m { entry @k() { return } }
"""

PYTHON_FAILED = Diag("CLI-0007", ERROR, "'{path}' cannot be imported: {why}")
"""
cause: The file was run as `import` would, and raised the exception that follows.
remedy: Correct the line, or install the package that is missing for this Python.

- $ tileiras-build export k.py --entry k --signature "f32[1]" -o k.out
+ $ tileiras-build export k.py --entry k --signature "f32[1]" -o k.out
- import no_such_module
  import cuda.tile as ct
  @ct.kernel
  def k(x):
      pass
"""

OS_ERROR = Diag("CLI-0008", ERROR, "{why}{place}", exit_code=2)
"""
cause: The operating system refused to read or write a file, for the reason and at the place in the message.
remedy: Make the place accessible, or name another.

- $ tileiras-config --toolkit-view k.tileir/view
+ $ tileiras-config --toolkit-view view
  cuda_tile.module @m { entry @k() { return } }
"""

CANNOT_WRITE = Diag("CLI-0009", ERROR, "cannot write '{path}': {why}")
"""
cause: The file could not be written, for the reason that follows.
remedy: Name a file in a folder that exists and can be written.

- $ tileiras-nvcc -cubin -arch=sm_90 k.tileir -o missing/k.cubin
+ $ tileiras-nvcc -cubin -arch=sm_90 k.tileir -o k.cubin
  cuda_tile.module @m { entry @k() { return } }
"""

OPT_PIPELINE_TO = Diag(
    "OPT-0002", ERROR, "'--pipeline-to' takes {known}, not '{value}'", exit_code=EXIT_CONFIGURATION
)
"""
cause: The pipeline can be left at the stages that the message lists, which the value is none of.
remedy: Name a stage; for one pass use --pass, for all passes docs/passes.md.

- $ tileiras-opt k.tileir --gpu-name sm_90 --pipeline-to sass
+ $ tileiras-opt k.tileir --gpu-name sm_90 --pipeline-to ptx
  cuda_tile.module @m { entry @k() { return } }
"""

OPT_TENSOR_MAPS = Diag(
    "OPT-0004", ERROR, "unknown tensor maps '{value}', expected {known}", exit_code=EXIT_CONFIGURATION
)
"""
cause: --tensor-maps says who makes the descriptors of bulk tensor copies, and knows the words in the message.
remedy: `none`, or `launcher` where what launches the kernel encodes them; docs/passes.md.

- $ tileiras-opt k.tileir --gpu-name sm_90 --pipeline-to tileaa --tensor-maps host
+ $ tileiras-opt k.tileir --gpu-name sm_90 --pipeline-to tileaa --tensor-maps none
  cuda_tile.module @m { entry @k() { return } }
"""

OPT_PASS_OR_PIPELINE = Diag("OPT-0005", ERROR, "--pass and --pipeline-to exclude each other")
"""
cause: --pass runs the passes that it names, --pipeline-to all of them up to a stage.
remedy: Leave one of them out.

- $ tileiras-opt k.tileir --gpu-name sm_90 --pass TileAAGenerateKernelSpec --pipeline-to tileaa
+ $ tileiras-opt k.tileir --gpu-name sm_90 --pipeline-to tileaa
  cuda_tile.module @m { entry @k() { return } }
"""

OPT_PLUGIN_PIPELINE = Diag("OPT-0006", ERROR, "--plugin needs --pipeline-to: it adds passes to the pipeline")
"""
cause: A pass of another package has its place in the pipeline, and no pipeline was asked for.
remedy: Add --pipeline-to STAGE, or run that pass alone with --pass.

- $ tileiras-opt k.tileir --plugin other
+ $ tileiras-opt k.tileir
  cuda_tile.module @m { entry @k() { return } }
"""

OPT_SKIP_PIPELINE = Diag(
    "OPT-0007", ERROR, "--skip needs --pipeline-to: it leaves passes of the pipeline out"
)
"""
cause: Passes can only be left out of the pipeline, and no pipeline was asked for.
remedy: Add --pipeline-to STAGE.

- $ tileiras-opt k.tileir --skip TileAACutLongChains
+ $ tileiras-opt k.tileir --gpu-name sm_90 --skip TileAACutLongChains --pipeline-to tileaa
  cuda_tile.module @m { entry @k() { return } }
"""

OPT_UNKNOWN_PASS = Diag(
    "OPT-0008", ERROR, "unknown pass '{name}' (--list-passes prints them){hint}", exit_code=EXIT_CONFIGURATION
)
"""
cause: The pipeline has no pass of that name, and no installed package offers one.
remedy: Take a name from `tileiras-opt --list-passes` or docs/passes.md; letters of either case count.

- $ tileiras-opt k.tileir --gpu-name sm_90 --skip NoSuchPass --pipeline-to tileaa
+ $ tileiras-opt k.tileir --gpu-name sm_90 --pipeline-to tileaa
  cuda_tile.module @m { entry @k() { return } }
"""

OPT_UNKNOWN_PART = Diag(
    "OPT-0009", ERROR, "unknown part '{part}', expected {known}{hint}", exit_code=EXIT_CONFIGURATION
)
"""
cause: --disable or TILEIRAS_DISABLE leaves out a part of the code generator that the message does not list.
remedy: Name one or more of the listed parts, with commas between them.

- $ tileiras-opt k.tileir --gpu-name sm_90 --disable wgma --pipeline-to tileas
+ $ tileiras-opt k.tileir --gpu-name sm_90 --disable wgmma --pipeline-to tileas
  cuda_tile.module @m { entry @k() { return } }
"""

OPT_PASS_OPTION = Diag("OPT-0010", ERROR, "pass '{name}' has no option {option}")
"""
cause: The option in braces behind the name of a pass is none of that pass.
remedy: Take one that docs/passes.md lists for the pass, or leave the braces out.

- $ tileiras-opt k.tileir --gpu-name sm_90 --pass=ConvertCudaTileToTileAA{depth=3}
+ $ tileiras-opt k.tileir --gpu-name sm_90 --pass=ConvertCudaTileToTileAA
  cuda_tile.module @m { entry @k() { return } }
"""

RED_NO_INPUT = Diag("RED-0001", ERROR, "no input file")
"""
cause: The command line names no kernel to make smaller.
remedy: `tileiras-reduce k.tilebc -- COMMAND {}`.

- $ tileiras-reduce -- test -e {}
+ $ tileiras-reduce k.tileir -- test -e {}
  cuda_tile.module @m { entry @k() { return } }
"""

RED_NO_COMMAND = Diag(
    "RED-0002", ERROR, "no command: write it behind --, with {} for the file of a candidate"
)
"""
cause: Nothing says whether a candidate still shows the fault.
remedy: Behind `--`, write the command that exits with 0 for a kernel that shows it; docs/reduce.md has examples.

- $ tileiras-reduce k.tileir
+ $ tileiras-reduce k.tileir -- test -e {}
  cuda_tile.module @m { entry @k() { return } }
"""

RED_NO_PLACE = Diag(
    "RED-0003", ERROR, "the command does not have {}, which stands for the file of a candidate"
)
"""
cause: The command would run for every candidate on the same words, without its file.
remedy: Write {} where the file of the candidate belongs.

- $ tileiras-reduce k.tileir -- false
+ $ tileiras-reduce k.tileir -- test -e {}
  cuda_tile.module @m { entry @k() { return } }
"""

RED_POSITIVE = Diag("RED-0004", ERROR, "option '{option}' takes a positive number, not '{value}'")
"""
cause: A time limit, a count of runs or of jobs is zero, negative or no number.
remedy: Give a positive number.

- $ tileiras-reduce k.tileir --timeout 0 -- test -e {}
+ $ tileiras-reduce k.tileir --timeout 10 -- test -e {}
  cuda_tile.module @m { entry @k() { return } }
"""

RED_CANNOT_RUN = Diag("RED-0005", ERROR, "cannot run '{program}': {why}")
"""
cause: The command behind `--` could not be started, for the reason that follows.
remedy: Correct its name or path and make it executable; shell syntax needs `sh -c '...'`.

- $ tileiras-reduce k.tileir -- ./no-such-script {}
+ $ tileiras-reduce k.tileir -- test -e {}
  cuda_tile.module @m { entry @k() { return } }
"""

RED_OVERWRITTEN = Diag("RED-0006", ERROR, "'{path}' would be overwritten: name another output with -o")
"""
cause: The smaller kernel would take the place of the one that it is made from.
remedy: -o OTHER.tilebc.

- $ tileiras-reduce k.tileir -o k.tilebc -- true {}
+ $ tileiras-reduce k.tileir -o small.tilebc -- test -e {}
  cuda_tile.module @m { entry @k() { return } }
"""

RED_NOT_INTERESTING = Diag("RED-0007", ERROR, "'{path}' is not interesting: the command {what}")
"""
cause: The command does not end with 0 for the kernel as it is, so that nothing tells the fault from its absence.
remedy: Run the command by hand on the kernel; `!` or `grep -q` in a script turns a failure into a success.

- $ tileiras-reduce k.tileir -- false {}
+ $ tileiras-reduce k.tileir -- test -e {}
  cuda_tile.module @m { entry @k() { return } }
"""

REP_DIFF_TWO = Diag("REP-0001", ERROR, "diff takes two reports")
"""
cause: `tileiras-report diff` compares two reports, and more or fewer were named.
remedy: `tileiras-report diff BEFORE.json AFTER.json`; pages (.html) will do, too.

  $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx --report=a.json
- $ tileiras-report diff a.json
+ $ tileiras-report diff a.json a.json
  cuda_tile.module @m { entry @k() { return } }
"""

REP_HTML_ONE = Diag("REP-0002", ERROR, "html takes one report, and -o with the page to write")
"""
cause: `tileiras-report html` draws the page of one report, and the report or the page's name is missing.
remedy: `tileiras-report html REPORT.json -o PAGE.html`.

  $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx --report=a.json
- $ tileiras-report html a.json
+ $ tileiras-report html a.json -o a.html
  cuda_tile.module @m { entry @k() { return } }
"""

REP_UNKNOWN_VERB = Diag("REP-0003", ERROR, "unknown verb '{verb}'")
"""
cause: `tileiras-report` knows `diff` and `html`.
remedy: Begin with one of them; a report itself is made by `tileiras --report=FILE`.

  $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx --report=a.json
- $ tileiras-report compare a.json a.json
+ $ tileiras-report diff a.json a.json
  cuda_tile.module @m { entry @k() { return } }
"""

REP_NO_VERB = Diag("REP-0004", ERROR, "no verb: diff or html")
"""
see: REP-0003

  $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx --report=a.json
- $ tileiras-report
+ $ tileiras-report diff a.json a.json
  cuda_tile.module @m { entry @k() { return } }
"""

TRN_TO_FORM = Diag("TRN-0001", ERROR, "'--to' takes text or bytecode, not '{value}'")
"""
cause: A module is written as text or as bytecode.
remedy: --to=text or --to=bytecode; for PTX and cubins use `tileiras`.

- $ tileiras-translate k.tileir --to ptx -o out
+ $ tileiras-translate k.tileir --to bytecode -o out
  cuda_tile.module @m { entry @k() { return } }
"""

CFG_TWO_ACTIONS = Diag("CFG-0001", ERROR, "'{first}' and '{second}' are two actions")
"""
cause: `tileiras-config` answers one question at a time.
remedy: Ask twice, or use --json, which has all answers.

- $ tileiras-config --version --cmake-dir
+ $ tileiras-config --cmake-dir
  cuda_tile.module @m { entry @k() { return } }
"""

RUN_NEEDS_ML_DTYPES = Diag("RUN-0601", ERROR, "type {name} needs ml_dtypes: pip install 'tileiras[run]'")
"""
cause: NumPy has no such type; the package ml_dtypes adds it, and is not installed for this Python.
remedy: `pip install 'tileiras[run]'`.

! It depends on which packages are installed.
"""

RUN_ELEMENT_TYPE = Diag("RUN-0602", ERROR, "unknown element type '{name}'")
"""
cause: The name is neither a Tile IR element type nor one of NumPy's.
remedy: Write i1 i8 i16 i32 i64 f16 bf16 f32 tf32 f64 f8E4M3FN f8E5M2 f8E8M0FNU f4E2M1FN, or a NumPy name such as
uint8.

- $ tileiras-run k.tileir --arg zeros:flaot:16
+ $ tileiras-run k.tileir --arg zeros:f32:16
  cuda_tile.module @m { entry @k(%p : tile<ptr<f32>>) { return } }
"""

RUN_SHAPE = Diag("RUN-0603", ERROR, "shape '{text}': expected extents joined by x, such as 4x8")
"""
cause: A shape is numbers with x between them.
remedy: Write 1024 for one dimension, 4x8 for two.

- $ tileiras-run k.tileir --arg zeros:f32:4,4
+ $ tileiras-run k.tileir --arg zeros:f32:4x4
  cuda_tile.module @m { entry @k(%p : tile<ptr<f32>>) { return } }
"""

RUN_NEGATIVE_EXTENT = Diag("RUN-0604", ERROR, "shape '{text}': negative extent")
"""
cause: An array cannot have fewer than no elements.
remedy: Give extents from 0 on.

- $ tileiras-run k.tileir --arg zeros:f32:4x-4
+ $ tileiras-run k.tileir --arg zeros:f32:4x4
  cuda_tile.module @m { entry @k(%p : tile<ptr<f32>>) { return } }
"""

RUN_NO_ARRAY_MADE = Diag("RUN-0605", ERROR, "'{text}': {why}")
"""
cause: NumPy cannot make the array: it is too large for memory or address space, or its value does not fit.
remedy: Make it smaller, or choose a type that its values fit.

- $ tileiras-run k.tileir --arg zeros:f32:99999999999999999999
+ $ tileiras-run k.tileir --arg zeros:f32:16
  cuda_tile.module @m { entry @k(%p : tile<ptr<f32>>) { return } }
"""

RUN_ARRAY_FORM = Diag("RUN-0606", ERROR, "'{text}': expected {form}")
"""
cause: An array that is made on the command line lacks a part of its description, or has one too many.
remedy: Write it as in the message: kind, element type, shape; for `full` the value, for `random` and `normal`
perhaps a seed.

- $ tileiras-run k.tileir --arg zeros:f32
+ $ tileiras-run k.tileir --arg zeros:f32:16
  cuda_tile.module @m { entry @k(%p : tile<ptr<f32>>) { return } }
"""

RUN_SEED = Diag("RUN-0607", ERROR, "seed '{text}' is no number from 0 on")
"""
cause: The last part of `random` or `normal` is the seed of the generator, a whole number from 0 on.
remedy: Give such a number, or leave it out.

- $ tileiras-run k.tileir --arg random:f32:16:today
+ $ tileiras-run k.tileir --arg random:f32:16:7
  cuda_tile.module @m { entry @k(%p : tile<ptr<f32>>) { return } }
"""

RUN_NO_VALUE = Diag(
    "RUN-0608", ERROR, "'{text}' is neither a number nor a file nor one of the forms of --help"
)
"""
cause: The value of an argument could not be read in any of the forms there are.
remedy: Write a number, true, false, null, FILE.npy, FILE.npz:KEY, or an array such as zeros:f32:16; `tileiras-run
--help` has all.

- $ tileiras-run k.tileir --arg zeroes:f32:16
+ $ tileiras-run k.tileir --arg zeros:f32:16
  cuda_tile.module @m { entry @k(%p : tile<ptr<f32>>) { return } }
"""

RUN_NO_INTEGER = Diag("RUN-0609", ERROR, "'{text}': {value} is not an integer")
"""
cause: A number with a fraction stands where the type is an integer.
remedy: Give a whole number, or another type.

- $ tileiras-run k.tileir --arg full:i32:16:1.5
+ $ tileiras-run k.tileir --arg full:f32:16:1.5
  cuda_tile.module @m { entry @k(%p : tile<ptr<f32>>) { return } }
"""

RUN_DOES_NOT_FIT = Diag("RUN-0610", ERROR, "'{text}': {number} does not fit {name}")
"""
cause: The number is outside of the range of the type.
remedy: Give a number in its range, or a wider type.

- $ tileiras-run k.tileir --arg full:i8:16:300
+ $ tileiras-run k.tileir --arg full:i16:16:300
  cuda_tile.module @m { entry @k(%p : tile<ptr<i16>>) { return } }
"""

RUN_ARCHIVE = Diag("RUN-0611", ERROR, "'{path}' is an archive: name one array as {path}:KEY ({known})")
"""
cause: An .npz file holds several arrays.
remedy: Name one of those in the message behind a colon.

  $ python3 -c "import numpy; numpy.savez('a.npz', x=numpy.zeros(4, 'f4'))"
- $ tileiras-run k.tileir --arg a.npz
+ $ tileiras-run k.tileir --arg a.npz:x
  cuda_tile.module @m { entry @k(%p : tile<ptr<f32>>) { return } }
"""

RUN_ARCHIVE_KEY = Diag("RUN-0612", ERROR, "'{path}' has no array '{key}' ({known})")
"""
cause: The .npz file holds other arrays.
remedy: Name one of those in the message.

  $ python3 -c "import numpy; numpy.savez('a.npz', x=numpy.zeros(4, 'f4'))"
- $ tileiras-run k.tileir --arg a.npz:y
+ $ tileiras-run k.tileir --arg a.npz:x
  cuda_tile.module @m { entry @k(%p : tile<ptr<f32>>) { return } }
"""

RUN_REINTERPRET = Diag("RUN-0613", ERROR, "'{path}' has elements of {size} bytes, {name} has {wanted}")
"""
cause: The type behind the file's name says how its bytes are read, and its elements have another size.
remedy: Name a type of the size in the message, or store the array in another type.

  $ python3 -c "import numpy; numpy.save('a.npy', numpy.zeros(4, 'f4'))"
- $ tileiras-run k.tileir --arg a.npy:bf16
+ $ tileiras-run k.tileir --arg a.npy:f32
  cuda_tile.module @m { entry @k(%p : tile<ptr<f32>>) { return } }
"""

RUN_NO_EARLIER = Diag("RUN-0614", ERROR, "'{text}': no earlier argument of that name")
"""
cause: @NAME passes the array of an argument that stands before it, and none has that name or number.
remedy: Name arguments as in --arg x=zeros:f32:16, or use their number, counted from 0.

- $ tileiras-run k.tileir --arg @x
+ $ tileiras-run k.tileir --arg x=zeros:f32:16
  cuda_tile.module @m { entry @k(%p : tile<ptr<f32>>) { return } }
"""

RUN_GRID = Diag("RUN-0615", ERROR, "--grid '{text}': expected one to three positive numbers, such as 8,1,1")
"""
cause: The grid has one to three dimensions of at least one tile block.
remedy: Write 8 or 8,1,1.

- $ tileiras-run k.tileir --grid 0 --arg zeros:f32:16
+ $ tileiras-run k.tileir --grid 1 --arg zeros:f32:16
  cuda_tile.module @m { entry @k(%p : tile<ptr<f32>>) { return } }
"""

RUN_TENSOR = Diag("RUN-0616", ERROR, "--tensor {text}: not an array")
"""
cause: --tensor passes pointer, extents and strides of an array, and the value is a scalar.
remedy: Use --arg for scalars and pointers alone.

- $ tileiras-run k.tileir --tensor 1
+ $ tileiras-run k.tileir --arg zeros:f32:16
  cuda_tile.module @m { entry @k(%p : tile<ptr<f32>>) { return } }
"""

RUN_NO_ARRAY = Diag("RUN-0617", ERROR, "'{text}' is not an array")
"""
cause: --memory, --expect, --save and --show work on arrays, and the value or argument is a scalar.
remedy: Name an argument that is an array.

- $ tileiras-run k.tileir --arg zeros:f32:16 --memory 1
+ $ tileiras-run k.tileir --arg zeros:f32:16 --memory zeros:f32:4
  cuda_tile.module @m { entry @k(%p : tile<ptr<f32>>) { return } }
"""

RUN_NO_ARGUMENT = Diag("RUN-0618", ERROR, "no argument '{name}'; there are {known}")
"""
cause: --expect, --save or --show names an argument that the line does not have.
remedy: Use a name given as in --arg x=VALUE, or the number, counted from 0.

- $ tileiras-run k.tileir --arg zeros:f32:16 --show x
+ $ tileiras-run k.tileir --arg x=zeros:f32:16 --show x
  cuda_tile.module @m { entry @k(%p : tile<ptr<f32>>) { return } }
"""

RUN_PAIR = Diag("RUN-0619", ERROR, "{option} '{text}': expected ARG=...")
"""
cause: The option takes an argument's name or number, "=", and what belongs to it.
remedy: Write --expect x=VALUE or --save x=FILE.npy.

- $ tileiras-run k.tileir --arg zeros:f32:16 --save out.npy
+ $ tileiras-run k.tileir --arg zeros:f32:16 --save 0=out.npy
  cuda_tile.module @m { entry @k(%p : tile<ptr<f32>>) { return } }
"""

RUN_ARGUMENT_TYPE = Diag("RUN-0621", ERROR, "argument {number} of '{entry}' is {wanted}, not {name}")
"""
cause: The scalar was given with a type, TYPE:VALUE, and the kernel's parameter has another one.
remedy: Give the type in the message, or none.

- $ tileiras-run k.tileir --arg f32:1
+ $ tileiras-run k.tileir --arg i32:1
  cuda_tile.module @m { entry @k(%n : tile<i32>) { return } }
"""

RUN_WHICH_ENTRY = Diag("RUN-0622", ERROR, "--entry is needed: '{path}' has {known}")
"""
cause: The module has several entries, or none, so that the one to launch is not clear.
remedy: Name one of those in the message: --entry NAME.

- $ tileiras-run k.tileir
+ $ tileiras-run k.tileir --entry k
  cuda_tile.module @m {
    entry @k() { return }
    entry @other() { return }
  }
"""

RUN_PROFILE_TARGET = Diag("RUN-0623", ERROR, "--profile needs --target emulator, not {target}")
"""
cause: Instructions and bytes are counted by the emulator only.
remedy: Add --target emulator, or leave --profile out.

- $ tileiras-run k.tileir --arg zeros:f32:16 --profile
+ $ tileiras-run k.tileir --arg zeros:f32:16 --profile --target emulator
  cuda_tile.module @m { entry @k(%p : tile<ptr<f32>>) { return } }
"""

RUN_MEMORY_OF_PYTHON = Diag(
    "RUN-0624", ERROR, "--memory is for Tile IR: a cuTile kernel takes lists of arrays"
)
"""
cause: Memory that is reached through stored pointers is passed to cuTile kernels as a list of arrays, which this
command does not make.
remedy: Launch the kernel from its own script with tileiras-cutile.

- $ tileiras-run k.py --memory zeros:f32:4
+ $ tileiras-run k.py
  import cuda.tile as ct
  @ct.kernel
  def k():
      pass
"""

RUN_TENSOR_MAPS_OF_PYTHON = Diag(
    "RUN-0625", ERROR, "--tensor-maps is for Tile IR: export the kernel to bytecode first"
)
"""
cause: The command compiles kernels of a Python file through cuTile, which passes no such option on.
remedy: `tileiras-build export k.py --entry k --signature ... -o k.tilebc`, then launch k.tilebc.

- $ tileiras-run k.py --tensor-maps launcher
+ $ tileiras-run k.py
  import cuda.tile as ct
  @ct.kernel
  def k():
      pass
"""

RUN_PROFILE_OF_PYTHON = Diag(
    "RUN-0626", ERROR, "--profile is for Tile IR: export the kernel to bytecode first"
)
"""
see: RUN-0625

- $ tileiras-run k.py --profile --target emulator
+ $ tileiras-run k.py
  import cuda.tile as ct
  @ct.kernel
  def k():
      pass
"""

RUN_NEEDS_NUMPY = Diag("RUN-0627", ERROR, "launching needs NumPy: pip install 'tileiras[run]'")
"""
cause: Arrays are NumPy's, which is not installed for this Python.
remedy: `pip install 'tileiras[run]'` with the same Python.

! It depends on which packages are installed.
"""

RUN_COMMAND_LINE = Diag("RUN-0628", ERROR, "{text}")
"""
cause: The command line has a word, an option or a value that the message names and --help does not have.
remedy: Correct that word; `tileiras-run --help` and `tileiras-cutile --help` list the options with their values.

- $ tileiras-run k.tileir --targt reference --arg zeros:f32:16
+ $ tileiras-run k.tileir --target reference --arg zeros:f32:16
  cuda_tile.module @m { entry @k(%p : tile<ptr<f32>>) { return } }
"""

BZL_PARAMETER_FILE = Diag("BZL-0001", ERROR, "{path}: {why}")
"""
cause: A file that a rule names (of parameters, inputs or results) could not be read or written, for the reason that
follows.
remedy: See that the target which makes the file is among the rule's inputs.

- $ tile-build @missing.params
+ $ tile-build compile k.tileir --arch sm_90 --tilebc k.out
  cuda_tile.module @m { entry @k() { return } }
"""

BZL_NO_VERB = Diag("BZL-0002", ERROR, "a verb is needed")
"""
cause: The command of Bazel's actions was started without saying what to do.
remedy: The rules of tileiras do so; in a rule of your own write the verb first: compile, export, fatbin, header.

- $ tile-build
+ $ tile-build compile k.tileir --arch sm_90 --tilebc k.out
  cuda_tile.module @m { entry @k() { return } }
"""

BZL_NO_OUTPUT = Diag("BZL-0003", ERROR, "-o FILE is needed")
"""
cause: An action of Bazel's rules has no output.
remedy: The rules of tileiras name it; in a rule of your own add -o FILE.

- $ tile-build bazel-sizes k.tileir
+ $ tile-build bazel-sizes -o sizes.json k.tileir
  cuda_tile.module @m { entry @k() { return } }
"""

BZL_NOT_JSON = Diag("BZL-0004", ERROR, "{path}: not JSON: {why}")
"""
cause: A kernel table is damaged, or another kind of file was named in its place.
remedy: Let the rule that makes the table run again; `bazel clean` when its cache is damaged.

- $ tile-build bazel-sizes -o sizes.json k.json
+ $ tile-build bazel-sizes -o sizes.json k.json
- { "kernels": [
+ { "kernels": [], "arch": "sm_90" }
"""

BZL_NO_TABLE = Diag("BZL-0005", ERROR, "{path}: no kernel table")
"""
cause: The file is JSON, but no kernel table as `tileiras-build compile --kernels-json` writes it.
remedy: Name the table that the rule made.

- $ tile-build bazel-sizes -o sizes.json k.json
+ $ tile-build bazel-sizes -o sizes.json k.json
- { "version": 1 }
+ { "kernels": [], "arch": "sm_90" }
"""

BZL_NO_PTXAS = Diag("BZL-0006", ERROR, "{root} holds no ptxas")
"""
cause: The toolkit that the repository rule names has no assembler.
remedy: Name the folder that holds bin/ptxas, or leave the name out to have one found.

- $ tile-build bazel-toolchain --toolkit-root=.
+ $ tile-build bazel-sizes -o sizes.json k.tileir
  cuda_tile.module @m { entry @k() { return } }
"""

BZL_GOLDEN_WORDS = Diag("BZL-0007", ERROR, "an image and --golden are needed")
"""
cause: A golden test compares an image with the text that it should have, and one of the two is missing.
remedy: In tile_golden_test give `src` and `golden`.

- $ tile-build bazel-golden k.ptx
+ $ tile-build bazel-golden k.ptx --golden k.ptx
  .version 9.0
"""

BZL_BLESS_WITH_RUN = Diag("BZL-0008", ERROR, "--bless works with `bazel run`, which names the workspace")
"""
cause: The golden file stands in the workspace, which only `bazel run` tells the test.
remedy: `bazel run //the:test -- --bless`.

- $ tile-build bazel-golden k.ptx --golden k.ptx --bless
+ $ tile-build bazel-golden k.ptx --golden k.ptx
  .version 9.0
"""

BZL_GOLDEN_KIND = Diag("BZL-0009", ERROR, "kind '{kind}' is not one of ptx, sass, tileir")
"""
cause: The attribute `kind` of tile_golden_test says what is compared.
remedy: Take one of the three.

- $ tile-build bazel-golden k.ptx --golden k.ptx --kind asm
+ $ tile-build bazel-golden k.ptx --golden k.ptx --kind ptx
  .version 9.0
"""

BZL_NVDISASM = Diag("BZL-0010", ERROR, "nvdisasm '{path}': {why}", exit_code=2)
"""
cause: NVIDIA's disassembler, which shows the machine code to compare, could not be started.
remedy: Install it (`pip install nvidia-cuda-nvdisasm`), or compare PTX with kind = "ptx".

- $ tile-build bazel-golden k.ptx --golden k.ptx --kind sass --nvdisasm ./missing
+ $ tile-build bazel-golden k.ptx --golden k.ptx
  .version 9.0
"""

BZL_NVDISASM_SAID = Diag("BZL-0011", ERROR, "{text}", exit_code=2)
r"""
cause: NVIDIA's disassembler refused the image, in the words that follow.
remedy: See that the image is a cubin for one GPU, and the disassembler of the release that assembled it.

  $ printf '#!/bin/sh\necho refused >&2\nexit 1\n' > nvdisasm
  $ chmod +x nvdisasm
- $ tile-build bazel-golden k.ptx --golden k.ptx --kind sass --nvdisasm ./nvdisasm
+ $ tile-build bazel-golden k.ptx --golden k.ptx
  .version 9.0
"""

BZL_UNDECLARED = Diag(
    "BZL-0012", ERROR, "{source} reads {path}, which the rule does not declare: add it to `hdrs`"
)
"""
cause: The Python source imports a file that Bazel does not know it depends on, so that a change of it would build
nothing.
remedy: Add the file to `hdrs` of the rule.

! It needs Bazel's sandbox and its list of declared files; tests/unit/test_bazel_worker.py has the case.
"""

BZL_PARAMETERS_DIFFER = Diag("BZL-0013", ERROR, "{label}: {problem}", exit_code=5)
"""
cause: Kernels of one name have other parameters for another architecture, so that no one launcher fits them.
remedy: Give the kernels of one rule the same parameters on all architectures, or another name.

- $ tile-build bazel-validate -o stamp --label //k k.json
+ $ tile-build bazel-validate -o stamp --label //k k.json
- { "kernels": [], "arch": "sm_90" }
+ { "kernels": [{"name": "k", "params": []}], "arch": "sm_90" }
"""

BZL_BAD_REQUEST = Diag("BZL-0014", ERROR, "{what}")
"""
cause: What Bazel sent to the persistent worker is no work request.
remedy: Restart the workers with `bazel shutdown`; if that does not help, build with --strategy=Tile=local and
report it.

! It depends on what Bazel sends; tests/unit/test_bazel_worker.py damages requests.
"""


def unknown_option(word: str, usage: str) -> UsageError:
    """For a word that is none of the options in the command's help."""
    import re

    known = re.findall(r"--[a-z][a-z-]+", usage)
    return UsageError(UNKNOWN_OPTION, option=word, hint=suggestion(word.partition("=")[0], known))


def unread(text: str, usage: str) -> str:
    """What argparse says of words that it cannot read, with the option that was probably meant."""
    import re

    word = re.search(r"^unrecognized arguments: (--[\w-]+)", text)
    known = re.findall(r"--[a-z][a-z-]+", usage)
    return text + suggestion(word[1], known) if word else text
