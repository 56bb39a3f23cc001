"""An nvvm module is legal when the NVVM IR verifier accepts its code; it names what it finds itself."""

from __future__ import annotations

from tileiras.compiler.ir.verify import Rules

RULES = Rules()
