"""Which loops take half of their rows at a time: those whose scores and sums do not fit the registers together.

a warpgroup has 2 x 64 rows          sums  128 registers    scores  128    both  256    none is left
one half of the rows after the other       128                       64          192
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileaa.kernel_spec import KEY
from tileiras.compiler.ir.dense import num_elements
from tileiras.compiler.ir.types import TensorType
from tileiras.compiler.target import wgmma
from tileiras.compiler.target.cost import CostModel
from tileiras.compiler.target.registers import registers_of_element

from .kernel_spec import registers_of
from .products import reaches, warpgroup_products

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.analyses import Analyses
    from tileiras.compiler.ir.core import Op, Value


def wanted(func: Op, loop: Op, analyses: Analyses) -> list[Value]:
    """The sums that a loop carries and its scores leave no room for, where warpgroups multiply half of their rows as well; none
    where all fit."""
    body = loop.regions[0].block
    grouped = analyses.get(warpgroup_products, func)
    products = [op for op in body.ops if op in grouped]
    scores = [op for op in products if op.operands[2].owner is not body and reaches(op.result)[0]]
    if not scores:
        return []
    spec: Any = func.attrs[KEY]
    sums = [v for v in body.args[1:] if len(getattr(v.type, "shape", ())) == 2 and elements(v) > 1]
    rows = scores[0].result.type.shape[0]  # type: ignore[attr-defined]
    sums = [v for v in sums if v.type.shape[0] == rows and v.type.shape[1] > 1]  # type: ignore[attr-defined]
    threads = 32 * spec.num_warps
    held = sum(elements(v) for v in sums) + max(elements(op.result) for op in scores)
    if held // threads <= registers_of(spec) - CostModel.loop_registers:
        return []
    return sums if rows // 2 >= wgmma.M * max(1, spec.num_warps // CostModel.least_warps) else []


def elements(value: Value) -> int:
    """32-bit registers of all threads that a tile takes."""
    type: Any = value.type
    return num_elements(type.shape) * registers_of_element(type.elem) if isinstance(type, TensorType) else 0
