"""What a launch on the reference interpreter can report. Codes are stable; texts give facts."""

from __future__ import annotations

from tileiras.diag import ERROR, Diag
from tileiras.run.errors import (
    ASSERT_FAILED,
    DEADLOCK,
    MISALIGNED,
    MORE,
    NEAREST,
    OUT_OF_BOUNDS,
    READ_ONLY,
    UNDEFINED,
)

__all__ = [
    "ASSERT_FAILED",
    "DEADLOCK",
    "MISALIGNED",
    "MORE",
    "NEAREST",
    "OUT_OF_BOUNDS",
    "READ_ONLY",
    "UNDEFINED",
]

SRC = "reference interpreter"

ASSUME_FALSE = Diag(
    "RUN-0006",
    ERROR,
    "the assumption {predicate} does not hold: {what} (tile block {block}, element {element})",
    SRC,
)
"""
cause: The kernel assumes something of a value that is not so in this launch; compiled code would be wrong there.
remedy: Pass arguments for which it holds, or weaken the assumption (divisibility, range).

in: script(%n: tile<i32>)
      %a = assume div_by<4>, %n : tile<i32>
      %b = addi %a, %a : tile<i32>
- tileiras.launch(kernel, "k", 1, [6], check=True)
+ tileiras.launch(kernel, "k", 1, [8], check=True)
"""

RACE_TOKENS = Diag(
    "RUN-0013", ERROR,
    "data race in tile block {block}: no token orders this {kind} after an earlier {other} of address {address} "
    "(element {element})",
    SRC,
)  # fmt: skip
"""
cause: Two accesses touch one address, at least one writes, and nothing orders them.
remedy: Join their tokens within a block; between blocks use atomics or release and acquire; let no two elements of
a store share an address.

in: script(%p: tile<ptr<f32>>)
      %one = constant <f32: 1.0> : tile<f32>
      %s = store_ptr_tko weak %p, %one : tile<ptr<f32>>, tile<f32> -> token
-     %x, %t = load_ptr_tko weak %p : tile<ptr<f32>> -> tile<f32>, token
+     %x, %t = load_ptr_tko weak %p token=%s : tile<ptr<f32>> -> tile<f32>, token
  a = np.zeros(8, np.float32)
  tileiras.launch(kernel, "k", 1, [a], check=True)
"""

RACE_BLOCKS = Diag(
    "RUN-0014", ERROR,
    "data race between tile blocks: nothing orders this {kind} in tile block {block} and a {other} of address {address} "
    "in another one (element {element})",
    SRC,
)  # fmt: skip
"""
see: RUN-0013

in: script(%p: tile<ptr<f32>>)
      %c = constant <f32: 1.0> : tile<f32>
      %t = store_ptr_tko weak %p, %c : tile<ptr<f32>>, tile<f32> -> token
  a = np.zeros(8, np.float32)
- tileiras.launch(kernel, "k", 2, [a], check=True)
+ tileiras.launch(kernel, "k", 1, [a], check=True)
"""

RACE_ELEMENTS = Diag(
    "RUN-0016", ERROR,
    "data race in tile block {block}: elements {other} and {element} of this store both write address {address}", SRC,
)  # fmt: skip
"""
see: RUN-0013

in: script(%p: tile<ptr<f32>>)
      %i = iota : tile<2xi32>
      %two = constant <i32: 2> : tile<2xi32>
-     %j = divi %i, %two signed : tile<2xi32>
+     %j = muli %i, %two : tile<2xi32>
      %q = reshape %p : tile<ptr<f32>> -> tile<1xptr<f32>>
      %r = broadcast %q : tile<1xptr<f32>> -> tile<2xptr<f32>>
      %a = offset %r, %j : tile<2xptr<f32>>, tile<2xi32> -> tile<2xptr<f32>>
      %v = constant <f32: [1.0, 2.0]> : tile<2xf32>
      %t = store_ptr_tko weak %a, %v : tile<2xptr<f32>>, tile<2xf32> -> token
  a = np.zeros(8, np.float32)
  tileiras.launch(kernel, "k", 1, [a], check=True)
"""

UNSPECIFIED = Diag(
    "RUN-0015", ERROR, "{what} a value that was never specified (tile block {block}, element {element})", SRC
)
"""
see: RUN-0007

in: script(%p: tile<ptr<f32>>)
      %q = reshape %p : tile<ptr<f32>> -> tile<1xptr<f32>>
      %off = constant <i1: false> : tile<1xi1>
      %zero = constant <f32: 0.0> : tile<1xf32>
-     %x, %t = load_ptr_tko weak %q, %off : tile<1xptr<f32>>, tile<1xi1> -> tile<1xf32>, token
+     %x, %t = load_ptr_tko weak %q, %off, %zero : tile<1xptr<f32>>, tile<1xi1>, tile<1xf32> -> tile<1xf32>, token
      %s = store_ptr_tko weak %q, %x token=%t : tile<1xptr<f32>>, tile<1xf32> -> token
  a = np.zeros(8, np.float32)
  tileiras.launch(kernel, "k", 1, [a], check=True)
"""

UNSUPPORTED = Diag("RUN-0012", ERROR, "has no meaning in the reference interpreter: {why}", SRC)
"""
see: RUN-0107

! The interpreter meets an operation that it does not know; it knows all that the reader and the parser make.
"""
