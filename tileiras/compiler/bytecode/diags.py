"""What the bytecode reader and writer say. Texts of the contract and of the real reader, letter for letter."""

from __future__ import annotations

from tileiras.diag import ERROR, NOTE, REMARK, WORD_REMARK, Diag

BAD_MAGIC = Diag(
    "BC-0001",
    ERROR,
    "invalid magic number at position {position}",
    src="frontend contract, container",
    word=WORD_REMARK,
)
"""
cause: The file does not begin as Tile IR bytecode or text does: it is something else, or empty.
remedy: Look at what wrote it; the note behind the message says what the file seems to be. Tile IR comes from
`cuda.tile`, from `nvcc --tile-only -tilebc`, or from `tileiras-translate`.

- modul { cuda_tile.modul { cuda_tile.entry @noop() { cuda_tile.return } } }
+ module { cuda_tile.module { cuda_tile.entry @noop() { cuda_tile.return } } }
"""

NOT_BYTECODE = Diag(
    "BC-0002",
    ERROR,
    "input does not correspond to Tile IR bytecode{hint}",
    src="driver-not-tileir",
    word=WORD_REMARK,
)
"""
see: BC-0001

  $ python k.py
  import tileiras

  kernel = "cuda_tile.module @m { entry @k() { return } }"
  data = bytearray(tileiras.load(kernel).to_bytecode())
- data[0] = 0
  tileiras.load(bytes(data))
"""

BAD_VERSION = Diag(
    "BC-0003",
    ERROR,
    "unsupported Tile version {major}.{minor}.{patch}, this reader supports versions [13.1 - 13.5]",
    src="frontend contract, container",
    word=WORD_REMARK,
)
"""
cause: The bytecode is of a version that this release does not read or write.
remedy: Write one of 13.1 to 13.5 (`tileiras-translate --version`), or use a newer release of tileiras.

  $ python k.py
  import tileiras

  kernel = "cuda_tile.module @m { entry @k() { return } }"
  data = bytearray(tileiras.load(kernel).to_bytecode())
- data[9] = 9
+ data[9] = 1
  tileiras.load(bytes(data))
"""

REAL_VERSION = Diag(
    "BC-0004", NOTE, "unsupported Tile IR bytecode version: {major}.{minor}", src="real reader"
)
"""
see: BC-0003

  $ python k.py
  import tileiras

  kernel = "cuda_tile.module @m { entry @k() { return } }"
  data = bytearray(tileiras.load(kernel).to_bytecode())
- data[9] = 9
+ data[9] = 1
  tileiras.load(bytes(data))
"""

DAMAGED = Diag("BC-0006", ERROR, "error at offset {offset}: {what}", src="real reader", word=WORD_REMARK)
"""
cause: The bytecode is damaged or cut off at the offset named, or a producer encoded something wrongly.
remedy: Write the file again; compare its size with that of the original after a copy or download. If it is fresh,
the producer has a defect.

  $ python k.py
  import tileiras

  kernel = "cuda_tile.module @m { entry @k() { return } }"
  data = bytearray(tileiras.load(kernel).to_bytecode())
- data = data[:-4]
  tileiras.load(bytes(data))
"""

NON_CANONICAL = Diag(
    "BC-0007", ERROR, "non-canonical VarInt", src="frontend contract, container", word=WORD_REMARK
)
"""
see: BC-0006

  $ python k.py
  import tileiras

  kernel = "cuda_tile.module @m { entry @k() { return } }"
  data = bytearray(tileiras.load(kernel).to_bytecode())
- data[13:14] = [data[13] | 0x80, 0]  # a length in one byte more than it needs
  tileiras.load(bytes(data))
"""

UNKNOWN_TAG = Diag(
    "BC-0008", ERROR, "unknown attribute tag {tag}", src="frontend contract, attributes", word=WORD_REMARK
)
r'''
see: BC-0006

  $ python k.py
  import tileiras

  kernel = """cuda_tile.module @m { entry @k() optimization_hints = <sm_90 = {occupancy = 2}> { return } }"""
  data = tileiras.load(kernel).to_bytecode()
- data = data.replace(b"\x0b\x01\x01\x0a", b"\x0d\x01\x01\x0a")  # the tag of the hints
  tileiras.load(data)
'''

AT_OFFSET = Diag("BC-0009", NOTE, "error at offset {offset}: {what}", src="real reader")
"""
see: BC-0006

  $ python k.py
  import tileiras

  kernel = "cuda_tile.module @m { entry @k() { return } }"
  data = bytearray(tileiras.load(kernel).to_bytecode())
- data[13:14] = [data[13] | 0x80, 0]  # a length in one byte more than it needs
  tileiras.load(bytes(data))
"""

PREVIEW = Diag(
    "BC-0010",
    ERROR,
    "preview content of bytecode version 13.5 is not supported: {content}",
    src="own",
    word=WORD_REMARK,
)
r'''
cause: The file uses content of bytecode 13.5 that is marked as preview.
remedy: Have the frontend write 13.4, or leave the feature out.

  $ python k.py
  import tileiras

  kernel = """cuda_tile.module @m { entry @k() { return } }"""
  data = tileiras.load(kernel).to_bytecode("13.5")
- data = data.replace(b"\x01\x00\x00\x02\x00", b"\x01\x00\x00\x00\x00")  # a function that is no entry
  tileiras.load(data)
'''

NOT_EXPRESSIBLE = Diag(
    "BC-0011",
    ERROR,
    "{what} requires bytecode version 13.{since}+, but targeting 13.{minor}",
    src="real writer",
)
"""
cause: The module has something that the bytecode version asked for cannot hold; it came with a later version.
remedy: Ask for the version that the message names, or for none: the oldest that holds everything is taken then.

in: kernel
- $ tileiras-translate k.tileir --version 13.1 -o k.tilebc
+ $ tileiras-translate k.tileir --version 13.3 -o k.tilebc
      %a = constant <f32: 1.0> : tile<8xf32>
      %b = tanh %a rounding<approx> : tile<8xf32>
"""

OP_TOO_NEW = Diag(
    "BC-0015", ERROR, "operation '{name}' is not available in bytecode version 13.{minor}", src="real writer"
)
"""
see: BC-0011

in: kernel
- $ tileiras-translate k.tileir --version 13.1 -o k.tilebc
+ $ tileiras-translate k.tileir --version 13.2 -o k.tilebc
      %a = constant <f32: 1.0> : tile<8xf32>
      %b = atan2 %a, %a : tile<8xf32>
"""

OPTIONAL_TOO_NEW = Diag(
    "BC-0016",
    ERROR,
    "optional {what} is provided but requires bytecode version 13.{since}, targeting 13.{minor}",
    src="real writer",
)
"""
see: BC-0011

in: kernel
- $ tileiras-translate k.tileir --version 13.1 -o k.tilebc
+ $ tileiras-translate k.tileir --version 13.2 -o k.tilebc
      %a = constant <i32: 0> : tile<i32>
      for unsigned %i in (%a to %a, step %a) : tile<i32> {
        continue
      }
"""

RESULT_TOO_NEW = Diag(
    "BC-0017",
    ERROR,
    "result '{name}' requires bytecode version 13.{since} but is being used and targeting 13.{minor}",
    src="real writer",
)
"""
see: BC-0011

in: kernel
- $ tileiras-translate k.tileir --version 13.1 -o k.tilebc
+ $ tileiras-translate k.tileir --version 13.2 -o k.tilebc
      %a = constant <f32: 1.0> : tile<8xf32>
      %t = print_tko "%f", %a : tile<8xf32> -> token
      %j = join_tokens %t, %t : token
"""

TYPE_TOO_NEW = Diag(
    "BC-0018",
    ERROR,
    "type '{name}' requires bytecode version 13.{since}+, targeting 13.{minor}",
    src="real writer",
)
"""
see: BC-0011

in: kernel
- $ tileiras-translate k.tileir --version 13.1 -o k.tilebc
+ $ tileiras-translate k.tileir --version 13.2 -o k.tilebc
      %a = constant <f8E8M0FNU: 1.0> : tile<8xf8E8M0FNU>
"""

CONSTANT_GLOBAL = Diag(
    "BC-0019",
    ERROR,
    "constant global `{name}` cannot be encoded in bytecode version 13.{minor} (the `constant` attribute requires "
    "bytecode 13.3+)",
    src="real writer",
)
"""
see: BC-0011

- $ tileiras-translate k.tileir --version 13.1 -o k.tilebc
+ $ tileiras-translate k.tileir --version 13.3 -o k.tilebc
  cuda_tile.module @m {
    global constant @g <f32: [1.0, 2.0]> : tile<2xf32>
    entry @k() {

      return
    }
  }
"""

PRIVATE_GLOBAL = Diag(
    "BC-0020",
    ERROR,
    "global `{name}` uses non-public symbol visibility, which cannot be encoded in bytecode version 13.{minor} "
    "(requires bytecode 13.3+)",
    src="real writer",
)
"""
see: BC-0011

- $ tileiras-translate k.tileir --version 13.1 -o k.tilebc
+ $ tileiras-translate k.tileir --version 13.3 -o k.tilebc
  cuda_tile.module @m {
    global private @g <f32: [1.0, 2.0]> : tile<2xf32>
    entry @k() {

      return
    }
  }
"""

FOREIGN_OP = Diag("BC-0021", ERROR, "only ops from the 'cuda_tile' dialect are allowed", src="real writer")
"""
cause: The module has an operation, type or location that Tile IR bytecode has no form for.
remedy: Keep to the cuda_tile dialect in what is written as bytecode; print anything else as text.

in: kernel
  $ tileiras-translate k.tileir --allow-unregistered-dialect -o k.tilebc
-     "test.other"() : () -> ()
"""

INVALID_OP = Diag("BC-0024", REMARK, "invalid op: {name}", src="real writer", kind="analysis")
"""
cause: An operation stands where only some are allowed: bodies of reduce and scan take pure arithmetic only.
remedy: Move loads, stores and prints out of the body.

in: kernel
  $ tileiras-translate k.tileir --allow-unregistered-dialect -o k.tilebc
-     "test.other"() : () -> ()
"""

UNSUPPORTED_LOCATION = Diag(
    "BC-0025", ERROR, "unsupported location, got {kind}, expected DILocAttr or CallSiteLoc", src="real writer"
)
"""
see: BC-0021

in: kernel
  $ tileiras-translate k.tileir -o k.tilebc
-     %a = constant <i32: 1> : tile<i32> loc("name")
+     %a = constant <i32: 1> : tile<i32> loc("k.py":1:2)
"""

UNSUPPORTED_TYPE = Diag("BC-0022", ERROR, "unsupported type in bytecode writer: '{type}'", src="real writer")
"""
see: BC-0021

  $ tileiras-translate k.tileir --no-verify -o k.tilebc
  cuda_tile.module @m {
-   entry @k(%a: tensor<2xi16>) {
+   entry @k(%a: tile<i16>) {
      return
    }
  }
"""

BAD_TARGET = Diag(
    "BC-0023",
    ERROR,
    "Invalid argument '{version}': the supported versions are [13.1 - 13.5]",
    src="real writer",
)
"""
see: BC-0003

in: kernel
- $ tileiras-translate k.tileir --version 13.9 -o k.tilebc
+ $ tileiras-translate k.tileir --version 13.5 -o k.tilebc

"""

NOT_WRITABLE = Diag("BC-0012", ERROR, "cannot be written as Tile IR bytecode: {what}", src="own")
"""
see: BC-0021

in: kernel
  $ tileiras-translate k.tileir --no-verify -o k.tilebc
-     %c = "cuda_tile.constant"() : () -> tile<f32>
+     %c = constant <f32: 5.0> : tile<f32>
"""

TOO_DEEP = Diag(
    "BC-0013",
    ERROR,
    "error at offset {offset}: nesting is deeper than {limit} levels",
    src="own",
    word=WORD_REMARK,
)
r"""
cause: Regions or values are nested more deeply than the reader allows, so that no input can exhaust the stack.
remedy: Generate flatter code: long chains of nested branches can become selects or a loop.

  $ python k.py
  import tileiras


  def number(n):
      return bytes([n]) if n < 128 else bytes([n % 128 + 128]) + number(n // 128)


- depth = 20000
+ depth = 20
  kernel = "cuda_tile.module @m { entry @k() { loop { break } return } }"
  data = tileiras.load(kernel).to_bytecode()
  head, body = data[: data.index(b"\x82")], data[data.index(b"\x41") :]
  code = body[:7] * depth + body[7:-1]  # a loop in a loop in a loop
  functions = b"\x01\x00\x00\x02\x00" + number(len(code)) + code
  head += b"\x82" + number(len(functions)) + b"\x08"
  tileiras.load(head + b"\xcb" * (-len(head) % 8) + functions + b"\x00")
"""


MLIR_HINT = " (it looks like MLIR bytecode instead)"
EMPTY_BLOCK = Diag("BC-0014", ERROR, "expect non-empty block", src="verifiers, regions")
r'''
cause: A region or block has no operations.
remedy: End every block with its terminator: return, yield, continue or break.

  $ python k.py
  import tileiras

  kernel = """cuda_tile.module @m { entry @k() { loop { break } return } }"""
  data = tileiras.load(kernel).to_bytecode()
- data = data.replace(b"\x01\x01\x00\x01\x0a", b"\x01\x01\x00\x00\x0a")  # a loop with a block of no operations
  tileiras.load(data)
'''
