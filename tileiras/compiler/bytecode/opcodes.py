"""Opcode numbers of the bytecode: what the rows of ops say, and the one number that stands for a preview."""

from __future__ import annotations

from tileiras.compiler.dialects.cuda_tile.ops import SPECS

OPCODES: dict[str, int] = {**{spec.name: spec.number for spec in SPECS}, "preview$call": 16386}
NAMES: dict[int, str] = {number: name for name, number in OPCODES.items()}

# Newest opcode of each 13.x version, for "unsupported opcode N for bytecode version 13.x".
MAX_OPCODE: dict[int, int] = {
    minor: max(spec.number for spec in SPECS if spec.since <= minor) for minor in range(1, 6)
}
