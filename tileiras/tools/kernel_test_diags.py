"""What `tileiras-build test` can have to say."""

from __future__ import annotations

from tileiras.diag import ERROR, Diag

NO_NAME_OF_TYPE = Diag(
    "TST-0001", ERROR, "{key}: .npz keeps no name for its type: store it as integers under '{name}:<type>'"
)
"""
cause: NumPy stores types that it does not know, such as bfloat16, as bytes without a name.
remedy: numpy.savez(f, **{"arg0:bfloat16": a.view("u2")}).

! The case file comes from a program; tests/unit/test_kernel_test.py has one.
"""

UNKNOWN_TYPE = Diag("TST-0002", ERROR, "{key}: unknown type '{dtype}' (NumPy and ml_dtypes were asked)")
"""
cause: Behind the colon of a key stands a type that neither package has.
remedy: Write it as they do: bfloat16, float8_e4m3fn, uint8.

  $ python3 -c "import numpy; a = numpy.zeros(4, 'f4'); numpy.savez('good.npz', arg0=a, expected0=a)"
  $ python3 -c "import numpy; numpy.savez('bad.npz', **{'arg0:bfloat': numpy.zeros(4, 'u2'), 'expected0': numpy.zeros(4, 'u2')})"
- $ tileiras-build test k.tileir --entry k --data bad.npz
+ $ tileiras-build test k.tileir --entry k --data good.npz --target reference
  cuda_tile.module @m { entry @k(%p : tile<ptr<f32>>) { return } }
"""

VIEW_SIZE = Diag("TST-0003", ERROR, "{key}: elements of {size} bytes cannot be viewed as {dtype}")
"""
cause: The integers in the file and the type behind the colon have different sizes.
remedy: Store the array as integers as wide as the type.

  $ python3 -c "import numpy; a = numpy.zeros(4, 'f4'); numpy.savez('good.npz', arg0=a, expected0=a)"
  $ python3 -c "import numpy; numpy.savez('bad.npz', **{'arg0:bfloat16': numpy.zeros(4, 'u4'), 'expected0': numpy.zeros(4, 'u4')})"
- $ tileiras-build test k.tileir --entry k --data bad.npz
+ $ tileiras-build test k.tileir --entry k --data good.npz --target reference
  cuda_tile.module @m { entry @k(%p : tile<ptr<f32>>) { return } }
"""  # noqa: E501

CASE_FILE = Diag("TST-0004", ERROR, "{path}: {why}")
"""
cause: The file of --data could not be read as .npz, for the reason that follows.
remedy: Write it with numpy.savez; --help says what is in it.

  $ python3 -c "import numpy; a = numpy.zeros(4, 'f4'); numpy.savez('good.npz', arg0=a, expected0=a)"
  $ printf 'no archive' > bad.npz
- $ tileiras-build test k.tileir --entry k --data bad.npz
+ $ tileiras-build test k.tileir --entry k --data good.npz --target reference
  cuda_tile.module @m { entry @k(%p : tile<ptr<f32>>) { return } }
"""

CASE_KEY = Diag("TST-0005", ERROR, "{path}: '{name}' is neither arg<i>, expected<i> nor grid")
"""
cause: The file holds an array under a name that means nothing to a test.
remedy: Name arrays arg0, arg1, ..., expected0, ..., grid.

  $ python3 -c "import numpy; a = numpy.zeros(4, 'f4'); numpy.savez('good.npz', arg0=a, expected0=a)"
  $ python3 -c "import numpy; numpy.savez('bad.npz', **{'x': numpy.zeros(4)})"
- $ tileiras-build test k.tileir --entry k --data bad.npz
+ $ tileiras-build test k.tileir --entry k --data good.npz --target reference
  cuda_tile.module @m { entry @k(%p : tile<ptr<f32>>) { return } }
"""

MISSING_ARGUMENT = Diag("TST-0006", ERROR, "{path}: arg0 to arg{last} are not all there")
"""
cause: Arguments are counted from 0 without gaps, and one is missing.
remedy: Store all arguments of the kernel.

  $ python3 -c "import numpy; a = numpy.zeros(4, 'f4'); numpy.savez('good.npz', arg0=a, expected0=a)"
  $ python3 -c "import numpy; numpy.savez('bad.npz', **{'arg1': numpy.zeros(4, 'f4'), 'expected1': numpy.zeros(4, 'f4')})"
- $ tileiras-build test k.tileir --entry k --data bad.npz
+ $ tileiras-build test k.tileir --entry k --data good.npz --target reference
  cuda_tile.module @m { entry @k(%p : tile<ptr<f32>>) { return } }
"""

NOTHING_EXPECTED = Diag("TST-0007", ERROR, "{path}: no expected<i>: the test could not fail")
"""
cause: The file says nothing about what the launch should leave.
remedy: Store what argument i must hold afterwards as expected<i>.

  $ python3 -c "import numpy; a = numpy.zeros(4, 'f4'); numpy.savez('good.npz', arg0=a, expected0=a)"
  $ python3 -c "import numpy; numpy.savez('bad.npz', **{'arg0': numpy.zeros(4, 'f4')})"
- $ tileiras-build test k.tileir --entry k --data bad.npz
+ $ tileiras-build test k.tileir --entry k --data good.npz --target reference
  cuda_tile.module @m { entry @k(%p : tile<ptr<f32>>) { return } }
"""

EXPECTED_SHAPE = Diag("TST-0008", ERROR, "{path}: expected{index} has not the type and shape of arg{index}")
"""
cause: The result is compared with an argument of another type or shape.
remedy: Store both with the same type and shape.

  $ python3 -c "import numpy; a = numpy.zeros(4, 'f4'); numpy.savez('good.npz', arg0=a, expected0=a)"
  $ python3 -c "import numpy; numpy.savez('bad.npz', **{'arg0': numpy.zeros(4, 'f4'), 'expected0': numpy.zeros(5, 'f4')})"
- $ tileiras-build test k.tileir --entry k --data bad.npz
+ $ tileiras-build test k.tileir --entry k --data good.npz --target reference
  cuda_tile.module @m { entry @k(%p : tile<ptr<f32>>) { return } }
"""

BUILT = Diag("TST-0009", ERROR, "option '--built' needs a kernel table and a source")
"""
cause: The option takes two words.
remedy: --built k.sm_90.kernels.json k.tilebc.

  $ python3 -c "import numpy; a = numpy.zeros(4, 'f4'); numpy.savez('good.npz', arg0=a, expected0=a)"
- $ tileiras-build test k.tileir --entry k --data good.npz --built k.json
+ $ tileiras-build test k.tileir --entry k --data good.npz --target reference
  cuda_tile.module @m { entry @k(%p : tile<ptr<f32>>) { return } }
"""

UNKNOWN_OPTION = Diag("TST-0010", ERROR, "unknown option '{option}'; known: {known}")
"""
cause: The test command has no option of that name.
remedy: Take one of those in the message.

  $ python3 -c "import numpy; a = numpy.zeros(4, 'f4'); numpy.savez('good.npz', arg0=a, expected0=a)"
- $ tileiras-build test k.tileir --entri k --data good.npz
+ $ tileiras-build test k.tileir --entry k --data good.npz --target reference
  cuda_tile.module @m { entry @k(%p : tile<ptr<f32>>) { return } }
"""

ONE_KERNEL = Diag("TST-0011", ERROR, "one kernel at a time, not '{first}' and '{second}'")
"""
cause: Two files are named.
remedy: Write a test for each.

  $ python3 -c "import numpy; a = numpy.zeros(4, 'f4'); numpy.savez('good.npz', arg0=a, expected0=a)"
- $ tileiras-build test k.tileir other.tileir --entry k --data good.npz
+ $ tileiras-build test k.tileir --entry k --data good.npz --target reference
  cuda_tile.module @m { entry @k(%p : tile<ptr<f32>>) { return } }
"""

TOLERANCE = Diag("TST-0012", ERROR, "option '{option}': '{text}' is no number from 0 on")
"""
cause: A tolerance is a number that is not negative.
remedy: Write it as in 1e-3.

  $ python3 -c "import numpy; a = numpy.zeros(4, 'f4'); numpy.savez('good.npz', arg0=a, expected0=a)"
- $ tileiras-build test k.tileir --entry k --data good.npz --rtol -1
+ $ tileiras-build test k.tileir --entry k --data good.npz --target reference --rtol 1e-3
  cuda_tile.module @m { entry @k(%p : tile<ptr<f32>>) { return } }
"""

GRID_FORM = Diag("TST-0013", ERROR, "option '--grid': '{text}' is not of the form X,Y,Z")
"""
cause: The grid is one to three whole numbers with commas between them.
remedy: Write 8 or 8,1,1.

  $ python3 -c "import numpy; a = numpy.zeros(4, 'f4'); numpy.savez('good.npz', arg0=a, expected0=a)"
- $ tileiras-build test k.tileir --entry k --data good.npz --grid "8;1"
+ $ tileiras-build test k.tileir --entry k --data good.npz --target reference --grid 8,1
  cuda_tile.module @m { entry @k(%p : tile<ptr<f32>>) { return } }
"""

GRID_SIZE = Diag("TST-0014", ERROR, "a grid of {shape} blocks")
"""
cause: A grid has at most three dimensions, none of them negative.
remedy: Correct --grid, or `grid` in the case file.

  $ python3 -c "import numpy; a = numpy.zeros(4, 'f4'); numpy.savez('good.npz', arg0=a, expected0=a)"
- $ tileiras-build test k.tileir --entry k --data good.npz --grid 1,1,1,1
+ $ tileiras-build test k.tileir --entry k --data good.npz --target reference --grid 1,1,1
  cuda_tile.module @m { entry @k(%p : tile<ptr<f32>>) { return } }
"""

NOT_BUILT = Diag("TST-0015", ERROR, "nothing that was built has a kernel '{entry}'; there are: {known}")
"""
cause: The tables behind --built list other kernels.
remedy: Correct the entry, or depend on the target that builds it.

  $ python3 -c "import numpy; a = numpy.zeros(4, 'f4'); numpy.savez('good.npz', arg0=a, expected0=a)"
  $ printf '{"version":1,"arch":"sm_90","launch_abi":"tile","kernels":[]}' > k.json
- $ tileiras-build test k.tileir --entry k --data good.npz --built k.json k.tileir
+ $ tileiras-build test k.tileir --entry k --data good.npz --target reference
  cuda_tile.module @m { entry @k(%p : tile<ptr<f32>>) { return } }
"""

NOT_THERE = Diag("TST-0016", ERROR, "{path}: {why}; build its target first")
"""
cause: A file that the build should have made is not there.
remedy: Build the target that makes it; CMake and Bazel do so before the test.

  $ python3 -c "import numpy; a = numpy.zeros(4, 'f4'); numpy.savez('good.npz', arg0=a, expected0=a)"
- $ tileiras-build test k.tileir --entry k --data good.npz --built missing.json k.tileir
+ $ tileiras-build test k.tileir --entry k --data good.npz --target reference
  cuda_tile.module @m { entry @k(%p : tile<ptr<f32>>) { return } }
"""

NEEDS_NUMPY = Diag("TST-0017", ERROR, "this Python ({python}) has no NumPy: pip install 'tileiras[run]'")
"""
cause: Arrays are NumPy's, which is not installed for the Python that runs the test.
remedy: `pip install 'tileiras[run]'` with that Python.

! It depends on which packages are installed.
"""

TARGET = Diag("TST-0018", ERROR, "option '--target': '{target}' is not one of emulator, reference, cpu, gpu")
"""
cause: The test runs on one of the targets in the message.
remedy: Take one of them.

  $ python3 -c "import numpy; a = numpy.zeros(4, 'f4'); numpy.savez('good.npz', arg0=a, expected0=a)"
- $ tileiras-build test k.tileir --entry k --data good.npz --target simulator
+ $ tileiras-build test k.tileir --entry k --data good.npz --target reference
  cuda_tile.module @m { entry @k(%p : tile<ptr<f32>>) { return } }
"""

NO_KERNEL_FILE = Diag("TST-0019", ERROR, "{path}: no such file")
"""
cause: The kernel to launch is not there.
remedy: Correct the name, or build the target that makes it.

  $ python3 -c "import numpy; a = numpy.zeros(4, 'f4'); numpy.savez('good.npz', arg0=a, expected0=a)"
- $ tileiras-build test other.tileir --entry k --data good.npz
+ $ tileiras-build test k.tileir --entry k --data good.npz --target reference
  cuda_tile.module @m { entry @k(%p : tile<ptr<f32>>) { return } }
"""
