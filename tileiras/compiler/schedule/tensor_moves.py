"""How accumulators go between registers and tensor memory: registers of a thread that one instruction moves, and whether factors
are tested before they scale a sum."""

from __future__ import annotations

from tileiras.compiler.target.cost import CostModel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tileiras.compiler.ir.core import Op


def moved(op: Op) -> dict[str, Any]:
    return {"most": CostModel.chunk_registers}


def scaled(op: Op) -> dict[str, Any]:
    """`tested`: 1 where a thread has so few factors that comparing them costs less than scaling by ones."""
    factors: Any = op.operands[2].type
    return {
        "most": CostModel.chunk_registers,
        "tested": int(factors.layout.num_regs <= CostModel.tested_factors),
    }


PIECES: dict[str, Callable[[Op], dict[str, Any]]] = {
    "tensor_memory.store": moved, "tensor_memory.load": moved, "tensor_memory.scale": scaled,
}  # fmt: skip
