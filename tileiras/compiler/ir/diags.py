"""What the text parser and the generic verifier say, in MLIR's words."""

from __future__ import annotations

from tileiras.diag import ERROR, NOTE, Diag

SYNTAX = Diag("IR-0001", ERROR, "{text}", src="own")
UNREGISTERED = Diag("IR-0002", ERROR, "unregistered dialect: {name}", src="frontend contract, dialect list")
UNKNOWN_OP = Diag("IR-0003", ERROR, "unknown operation '{name}'", src="own")
UNKNOWN_CUSTOM_OP = Diag(
    "IR-0004", ERROR, "custom op '{name}' is unknown (tried '{dialect}.{name}' as well)", src="MLIR parser"
)
NOTE_TEXT = Diag("IR-0005", NOTE, "{text}", src="real verifier")
