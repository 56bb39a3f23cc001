"""What the text parser and the generic verifier say, in MLIR's words."""

from __future__ import annotations

from tileiras.diag import ERROR, NOTE, REMARK, Diag

SYNTAX = Diag("IR-0001", ERROR, "{text}", src="own")
UNREGISTERED = Diag("IR-0002", ERROR, "unregistered dialect: {name}", src="frontend contract, dialect list")
UNKNOWN_OP = Diag("IR-0003", ERROR, "unknown operation '{name}'", src="own")
UNKNOWN_CUSTOM_OP = Diag(
    "IR-0004", ERROR, "custom op '{name}' is unknown (tried '{dialect}.{name}' as well)", src="MLIR parser"
)
NOTE_TEXT = Diag("IR-0005", NOTE, "{text}", src="real verifier")
RULE = Diag("IR-0006", ERROR, "{text}", src="MLIR verifier")
NOT_LAST = Diag(
    "IR-0007", ERROR, "'{name}' op must be the last operation in the parent block", src="MLIR verifier"
)
REDEFINED = Diag("IR-0008", ERROR, "redefinition of symbol named '{name}'", src="MLIR verifier")
PRIOR_USE = Diag("IR-0009", NOTE, "prior use here", src="MLIR parser")
IN_FILE = Diag("IR-0010", NOTE, "this is {place}", src="own")
INVALID_OP = Diag("IR-0011", REMARK, "invalid op: {name}", src="real writer", kind="analysis")
STATIC_SHAPE = Diag("IR-0012", ERROR, "{text}", src="MLIR parser")
