"""Text form of the cute_nvgpu dialect."""

from __future__ import annotations

from tileiras.compiler.ir.asm import Dialect

from . import atoms
from .ops import BY_NAME

DIALECT = Dialect("cute_nvgpu", BY_NAME)
DIALECT.attrs = {"copy_atom": atoms.parse_copy, "mma_atom": atoms.parse_mma, "tma_atom": atoms.parse_tma}
