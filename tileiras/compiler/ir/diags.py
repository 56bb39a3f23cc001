"""What the text parser and the generic verifier say, in MLIR's words."""

from __future__ import annotations

from tileiras.diag import ERROR, NOTE, REMARK, Diag

SYNTAX = Diag("IR-0001", ERROR, "{text}", src="own")
"""
cause: The text is not in the form of Tile IR at this place, or an operation breaks a rule that all operations
share.
remedy: Look at the place that the caret marks and at the form of the operation; `tileiras-translate` prints correct
text of any bytecode.

in: kernel
-     %x = constant <f32: 1.0> : tensor<8xf32>
+     %x = constant <f32: 1.0> : tile<8xf32>
"""

UNREGISTERED = Diag("IR-0002", ERROR, "unregistered dialect: {name}", src="frontend contract, dialect list")
"""
see: IR-0001

- builtin.modul { modul { entry @noop() { return } } }
+ module @named { cuda_tile.module { entry @noop() { return } } }
"""

UNKNOWN_OP = Diag("IR-0003", ERROR, "unknown operation '{name}'", src="own")
"""
see: IR-0001

in: kernel
-     %x = cuda_tile.sinus
+     %y = constant <f32: 1.0> : tile<8xf32>
+     %x = cuda_tile.sin %y : tile<8xf32>
"""

UNKNOWN_CUSTOM_OP = Diag(
    "IR-0004", ERROR, "custom op '{name}' is unknown (tried '{dialect}.{name}' as well)", src="MLIR parser"
)
"""
see: IR-0001

in: kernel
-     %x = sinus
+     %y = constant <f32: 1.0> : tile<8xf32>
+     %x = sin %y : tile<8xf32>
"""

NOTE_TEXT = Diag("IR-0005", NOTE, "{text}", src="real verifier")
"""
see: IR-0001

in: kernel
-     %i = iota : tile<100xi32>
+     %i = iota : tile<128xi32>
"""

RULE = Diag("IR-0006", ERROR, "{text}", src="MLIR verifier")
"""
cause: An operation breaks one of its own rules: the message names the operand, result, attribute or region, what it
must be and what it is.
remedy: Change what the message names; docs/reference/ops.md has the operands, types and attributes of every operation.

  cuda_tile.module @m {
+   global @h <f32: [1.0, 2.0]> : tile<2xf32>
    entry @k() {
      %a = get_global @h : tile<ptr<f32>>
      return
    }
  }
"""

NOT_LAST = Diag(
    "IR-0007", ERROR, "'{name}' op must be the last operation in the parent block", src="MLIR verifier"
)
"""
see: IR-0001

  cuda_tile.module {
    entry @k() {
      return
-     return
    }
  }
"""

REDEFINED = Diag("IR-0008", ERROR, "redefinition of symbol named '{name}'", src="MLIR verifier")
"""
see: IR-0001

  cuda_tile.module @m {
    entry @k() {
      return
    }
-   entry @k() {
+   entry @other() {
      return
    }
  }
"""

PRIOR_USE = Diag("IR-0009", NOTE, "prior use here", src="MLIR parser")
"""
see: IR-0001

in: kernel
  $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx
      %a = constant <i32: 1> : tile<i32>
-   %b = addf %a, %a : tile<f32>
+   %b = addi %a, %a : tile<i32>
"""

IN_FILE = Diag("IR-0010", NOTE, "this is {place}", src="own")
"""
see: IR-0001

  $ python k.py
  import tileiras

- body = "%b = reshape %a : tile<i32> -> tile<2xi32>"
+ body = "%b = reshape %a : tile<i32> -> tile<1xi32>"
  kernel = "cuda_tile.module @m { entry @k() { %a = constant <i32: 1> : tile<i32> " + body + " return } }"
  code = tileiras.load(kernel).to_bytecode()  # without debug information: a place in it has no line
  tileiras.compile(code, "sm_90", emit="ptx")
"""

INVALID_OP = Diag("IR-0011", REMARK, "invalid op: {name}", src="real writer", kind="analysis")
"""
see: IR-0001

- module { cuda_tile.module { cuda_tile.module { } } }
+ module { cuda_tile.module { entry @k() { return } } }
"""

STATIC_SHAPE = Diag("IR-0012", ERROR, "{text}", src="MLIR parser")
"""
cause: A tile has an extent that is not a number: tiles have their size at compile time, only arrays and views may
have a `?`.
remedy: Write a power of two that is at least as large as the data, and mask what lies outside; or take tiles of a
fixed size in a loop.

in: kernel
-     %i = iota : tile<?xi32>
+     %i = iota : tile<128xi32>
"""
