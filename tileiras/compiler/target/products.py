"""Names of the ops that tensor cores multiply for, in every dialect that has them, and of the operands they multiply."""

from __future__ import annotations

SCALED = "mma_block_scaled"
PRODUCTS = frozenset(("mmaf", "mmai", SCALED))
SIDES = ("lhs", "rhs")
