"""The error of a launch: like a compile error, it carries diagnostics; its exit code is that of the stage.

A launch that the machine would trap (an access outside of memory, a misaligned one, a failed assertion, a
deadlock) or that `check=True` finds fault with raises `LaunchError` with exit code 5; arguments that do not
fit the entry raise it with exit code 1. `diagnostics` has one entry per finding.
"""

from __future__ import annotations

from tileiras.diag import ERROR, EXIT_COMPILE, NOTE, CompileError, Diag, Emitted

# What both the reference interpreter and native code say.
SRC = "launch"
BAD_STEP = "the step of a loop is not positive"

OUT_OF_BOUNDS = Diag(
    "RUN-0001", ERROR,
    "{verb} {size} bytes at {address} outside of all memory passed to the launch "
    "(tile block {block}, element {element})",
    SRC,
)  # fmt: skip
"""
cause: The kernel reads or writes outside of all arrays of the launch: a missing mask, wrong strides, or a grid
larger than the data.
remedy: Mask the last tile or use a view with padding, and compare extents and grid. The note names the nearest
array and the distance.

in: script(%p: tile<ptr<f32>>, %n: tile<i32>)
      %q = offset %p, %n : tile<ptr<f32>>, tile<i32> -> tile<ptr<f32>>
      %x, %t = load_ptr_tko weak %q : tile<ptr<f32>> -> tile<f32>, token
  a = np.zeros(8, np.float32)
- tileiras.launch(kernel, "k", 1, [a, 8])
+ tileiras.launch(kernel, "k", 1, [a, 7])
"""

NEAREST = Diag("RUN-0002", NOTE, "nearest memory: {label}, {distance}", SRC)
"""
see: RUN-0001

in: script(%p: tile<ptr<f32>>, %n: tile<i32>)
      %q = offset %p, %n : tile<ptr<f32>>, tile<i32> -> tile<ptr<f32>>
      %x, %t = load_ptr_tko weak %q : tile<ptr<f32>> -> tile<f32>, token
  a = np.zeros(8, np.float32)
- tileiras.launch(kernel, "k", 1, [a, 8])
+ tileiras.launch(kernel, "k", 1, [a, 7])
"""

MISALIGNED = Diag(
    "RUN-0003", ERROR,
    "{verb} {size} bytes at misaligned address {address} (tile block {block}, element {element})", SRC,
)  # fmt: skip
"""
see: RUN-0108

in: script(%p: tile<ptr<f32>>)
      %i = ptr_to_int %p : tile<ptr<f32>> -> tile<i64>
-     %c = constant <i64: 2> : tile<i64>
+     %c = constant <i64: 4> : tile<i64>
      %j = addi %i, %c : tile<i64>
      %q = int_to_ptr %j : tile<i64> -> tile<ptr<f32>>
      %x, %t = load_ptr_tko weak %q : tile<ptr<f32>> -> tile<f32>, token
  a = np.zeros(8, np.float32)
  tileiras.launch(kernel, "k", 1, [a])
"""

READ_ONLY = Diag("RUN-0004", ERROR, "writes to read-only memory: {label} (tile block {block})", SRC)
"""
cause: The kernel writes to an array that was passed as read-only.
remedy: Pass a writable array (or a copy), or correct the order of the arguments.

in: script(%p: tile<ptr<f32>>)
      %c = constant <f32: 1.0> : tile<f32>
      %t = store_ptr_tko weak %p, %c : tile<ptr<f32>>, tile<f32> -> token
  a = np.zeros(8, np.float32)
- a.flags.writeable = False
  tileiras.launch(kernel, "k", 1, [a])
"""

ASSERT_FAILED = Diag("RUN-0005", ERROR, "assertion failed: {message} (tile block {block}, {where})", SRC)
"""
cause: An assertion of the kernel does not hold for this launch.
remedy: The message names the block and place: check the arguments it is about.

in: script(%n: tile<i32>)
      %z = constant <i32: 0> : tile<i32>
      %c = cmpi less_than %z, %n, signed : tile<i32> -> tile<i1>
      assert %c, "n must be positive" : tile<i1>
- tileiras.launch(kernel, "k", 1, [0])
+ tileiras.launch(kernel, "k", 1, [1])
"""

MORE = Diag("RUN-0011", NOTE, "{count} more of these", SRC)
"""
cause: There are more findings of the kind above than are printed.
remedy: Correct the first ones; the others often have the same cause.

in: script(%n: tile<i32>)
      %b, %y, %z = get_tile_block_id : tile<i32>
      %c = constant <i32: 0> : tile<i32>
      %d = cmpi equal %b, %n, signed : tile<i32> -> tile<i1>
      assert %d, "one tile block only" : tile<i1>
- tileiras.launch(kernel, "k", 99, [-1])
+ tileiras.launch(kernel, "k", 1, [0])
"""

UNDEFINED = Diag(
    "RUN-0007", ERROR, "undefined behaviour: {what} (tile block {block}, element {element})", SRC
)
"""
cause: The kernel computes something without a defined result: a division by zero, a step that is not positive, a
value that was never given.
remedy: Guard the operation with a select or a mask, and give masked loads a padding value.

in: script(%n: tile<i32>)
      %c = constant <i32: 1> : tile<i32>
      %d = divi %c, %n signed : tile<i32>
- tileiras.launch(kernel, "k", 1, [0], check=True)
+ tileiras.launch(kernel, "k", 1, [1], check=True)
"""

DEADLOCK = Diag(
    "RUN-0008",
    ERROR,
    "no tile block of kernel '{kernel}' makes progress: {count} of {total} tile blocks wait here or elsewhere for a change",
    SRC,
)
"""
cause: Blocks wait for each other and none can go on: a flag that nobody sets, or a lock that is never given back.
remedy: Check that the store that others wait for comes before the wait, with release there and acquire here.

in: script(%p: tile<ptr<i32>>)
      %one = constant <i32: 1> : tile<i32>
      loop {
      %v, %t = load_ptr_tko acquire device %p : tile<ptr<i32>> -> tile<i32>, token
      %go = cmpi equal %v, %one, signed : tile<i32> -> tile<i1>
      if %go {
      break
      }
      continue
      }
- flag = np.zeros(1, np.int32)
+ flag = np.ones(1, np.int32)
  tileiras.launch(kernel, "k", 1, [flag])
"""

WAITS = Diag(
    "RUN-0017",
    NOTE,
    "tile block {block} waits for a change at address {address}; none came in {seconds:g} s",
    SRC,
)
"""
see: RUN-0008

in: script(%p: tile<ptr<i32>>)
      %one = constant <i32: 1> : tile<i32>
      loop {
      %v, %t = load_ptr_tko acquire device %p : tile<ptr<i32>> -> tile<i32>, token
      %go = cmpi equal %v, %one, signed : tile<i32> -> tile<i1>
      if %go {
      break
      }
      continue
      }
  import os
  os.environ["TILEIRAS_CPU_TIMEOUT"] = "1"
- flag = np.zeros(1, np.int32)
+ flag = np.ones(1, np.int32)
  tileiras.launch(kernel, "k", 1, [flag], target="cpu")
"""


class LaunchError(CompileError):
    """A launch failed. `exit_code` and `diagnostics` as in `CompileError`."""

    def __init__(self, diagnostics: list[Emitted], exit_code: int = EXIT_COMPILE) -> None:
        super().__init__(exit_code, diagnostics)
