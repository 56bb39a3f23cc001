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
NOT_BYTECODE = Diag(
    "BC-0002",
    ERROR,
    "input does not correspond to Tile IR bytecode{hint}",
    src="driver-not-tileir",
    word=WORD_REMARK,
)
BAD_VERSION = Diag(
    "BC-0003",
    ERROR,
    "unsupported Tile version {major}.{minor}.{patch}, this reader supports versions [13.1 - 13.5]",
    src="frontend contract, container",
    word=WORD_REMARK,
)
REAL_VERSION = Diag(
    "BC-0004", NOTE, "unsupported Tile IR bytecode version: {major}.{minor}", src="real reader"
)
DAMAGED = Diag("BC-0006", ERROR, "error at offset {offset}: {what}", src="real reader", word=WORD_REMARK)
NON_CANONICAL = Diag(
    "BC-0007", ERROR, "non-canonical VarInt", src="frontend contract, container", word=WORD_REMARK
)
UNKNOWN_TAG = Diag(
    "BC-0008", ERROR, "unknown attribute tag {tag}", src="frontend contract, attributes", word=WORD_REMARK
)
AT_OFFSET = Diag("BC-0009", NOTE, "error at offset {offset}: {what}", src="real reader")
PREVIEW = Diag(
    "BC-0010",
    ERROR,
    "preview content of bytecode version 13.5 is not supported: {content}",
    src="own",
    word=WORD_REMARK,
)
NOT_EXPRESSIBLE = Diag(
    "BC-0011",
    ERROR,
    "{what} requires bytecode version 13.{since}+, but targeting 13.{minor}",
    src="real writer",
)
OP_TOO_NEW = Diag(
    "BC-0015", ERROR, "operation '{name}' is not available in bytecode version 13.{minor}", src="real writer"
)
OPTIONAL_TOO_NEW = Diag(
    "BC-0016",
    ERROR,
    "optional {what} is provided but requires bytecode version 13.{since}, targeting 13.{minor}",
    src="real writer",
)
RESULT_TOO_NEW = Diag(
    "BC-0017",
    ERROR,
    "result '{name}' requires bytecode version 13.{since} but is being used and targeting 13.{minor}",
    src="real writer",
)
TYPE_TOO_NEW = Diag(
    "BC-0018",
    ERROR,
    "type '{name}' requires bytecode version 13.{since}+, targeting 13.{minor}",
    src="real writer",
)
CONSTANT_GLOBAL = Diag(
    "BC-0019",
    ERROR,
    "constant global `{name}` cannot be encoded in bytecode version 13.{minor} (the `constant` attribute requires "
    "bytecode 13.3+)",
    src="real writer",
)
PRIVATE_GLOBAL = Diag(
    "BC-0020",
    ERROR,
    "global `{name}` uses non-public symbol visibility, which cannot be encoded in bytecode version 13.{minor} "
    "(requires bytecode 13.3+)",
    src="real writer",
)
FOREIGN_OP = Diag("BC-0021", ERROR, "only ops from the 'cuda_tile' dialect are allowed", src="real writer")
INVALID_OP = Diag("BC-0024", REMARK, "invalid op: {name}", src="real writer", kind="analysis")
UNSUPPORTED_LOCATION = Diag(
    "BC-0025", ERROR, "unsupported location, got {kind}, expected DILocAttr or CallSiteLoc", src="real writer"
)
UNSUPPORTED_TYPE = Diag("BC-0022", ERROR, "unsupported type in bytecode writer: '{type}'", src="real writer")
BAD_TARGET = Diag(
    "BC-0023",
    ERROR,
    "Invalid argument '{major}.{minor}': the supported versions are [13.1 - 13.5]",
    src="real writer",
)
NOT_WRITABLE = Diag("BC-0012", ERROR, "cannot be written as Tile IR bytecode: {what}", src="own")
TOO_DEEP = Diag(
    "BC-0013",
    ERROR,
    "error at offset {offset}: nesting is deeper than {limit} levels",
    src="own",
    word=WORD_REMARK,
)

MLIR_HINT = " (it looks like MLIR bytecode instead)"
EMPTY_BLOCK = Diag("BC-0014", ERROR, "expect non-empty block", src="verifiers, regions")
