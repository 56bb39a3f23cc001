"""What the bytecode reader and writer say. Texts of the contract and of the real reader, letter for letter."""

from __future__ import annotations

from tileiras.diag import ERROR, NOTE, Diag

BAD_MAGIC = Diag("BC-0001", ERROR, "invalid magic number at position {position}", src="frontend contract, container")
NOT_BYTECODE = Diag("BC-0002", NOTE, "input does not correspond to Tile IR bytecode{hint}", src="real reader")
BAD_VERSION = Diag("BC-0003", ERROR, "unsupported Tile version {major}.{minor}.{patch}", src="frontend contract, container")
REAL_VERSION = Diag("BC-0004", NOTE, "unsupported Tile IR bytecode version: {major}.{minor}", src="real reader")
SUPPORTED = Diag("BC-0005", NOTE, "this reader supports versions [13.1 - 13.5]", src="own")
DAMAGED = Diag("BC-0006", ERROR, "error at offset {offset}: {what}", src="real reader")
NON_CANONICAL = Diag("BC-0007", ERROR, "non-canonical VarInt", src="frontend contract, container")
UNKNOWN_TAG = Diag("BC-0008", ERROR, "unknown attribute tag {tag}", src="frontend contract, attributes")
AT_OFFSET = Diag("BC-0009", NOTE, "error at offset {offset}: {what}", src="real reader")
PREVIEW = Diag("BC-0010", ERROR, "preview content of bytecode version 13.5 is not supported: {what}", src="own")
NOT_EXPRESSIBLE = Diag("BC-0011", ERROR, "{what} requires bytecode version 13.{since}+, file version is 13.{minor}", src="real reader")
NOT_WRITABLE = Diag("BC-0012", ERROR, "cannot be written as Tile IR bytecode: {what}", src="own")
TOO_DEEP = Diag("BC-0013", ERROR, "error at offset {offset}: nesting is deeper than {limit} levels", src="own")

MLIR_HINT = " (it looks like MLIR bytecode instead)"
EMPTY_BLOCK = Diag("BC-0014", ERROR, "expect non-empty block", src="cuda-tile-verifiers, regions")
