"""LimitRegisters: no more registers than a full SM has for each thread, where a loop needs fewer.

Before: `func @k {nvvm.reqntid = [128, 1, 1]}`, 26 words alive at once. After: `{nvvm.maxnreg = 32, ..}`: 65,536 registers
for 2,048 threads.

ptxas unrolls loops, issues loads early and takes registers for it: now and then a step more than a full SM has for each
thread, and a quarter of the blocks are gone. Told that there is no need to, it finds a schedule of as many instructions, if
few enough words are alive. Straight code gains nothing, and may grow. What is asked for already stays: an occupancy, or
registers of the kernel's own. Products have their own rules, see `schedule/kernel_spec.py`.
"""

from __future__ import annotations

from tileiras.compiler.ir.passes import Context, Pass
from tileiras.compiler.nvvm import diags as D
from tileiras.compiler.nvvm.code import Label
from tileiras.compiler.nvvm.directives import cluster_dim
from tileiras.compiler.nvvm.pressure import pressure
from tileiras.compiler.target.cost import CostModel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.nvvm.code import Function

ASKED = {"nvvm.maxnreg", "nvvm.minctasm"}  # registers were decided already
MOST_RECORDS = 4096  # looked at: a thread that does more has no registers to spare
# Calls, and f64, whose division and roots are subroutines, take registers unseen.
_OTHERS = ("mma", "wgmma", "tcgen05", "setmaxnreg", "call", "launch")


class LimitRegisters(Pass):
    NAME = "LimitRegisters"
    SUMMARY = "Keep what needs few registers at as many as a full SM has"
    """
    does: a thread whose loop needs few registers gets no more than a full SM has for each (`nvvm.maxnreg`)
    without: ptxas takes more for loads that it issues early, and an SM holds fewer blocks
    acts: fft_four_step on sm_90
    """
    __slots__ = ()

    def run(self, fn: Any, context: Context) -> bool:
        limit = None if fn.attrs.keys() & ASKED else full_sm(fn, context.target)
        if limit is None:
            return True
        alive = pressure(fn.code)
        least, most = CostModel.limited_registers
        if least <= alive <= most:
            fn.attrs["nvvm.maxnreg"] = limit
            context.remark(D.LIMITED, fn, limit=limit, alive=alive)
        return True


def full_sm(fn: Function, target: Any) -> int | None:
    """The registers of a thread when its blocks fill an SM; None: they cannot, or what takes registers is not to be seen."""
    cost = CostModel
    threads = 1
    for n in fn.attrs.get("nvvm.reqntid") or fn.block:  # type: ignore[attr-defined]
        threads *= n
    most = target.threads_per_sm
    if threads < 1 or most % threads or cluster_dim(fn) != (1, 1, 1) or len(fn.code) > MOST_RECORDS:
        return None
    if (fn.shared_bytes + cost.shared_of_block) * (
        most // threads
    ) > target.smem_bytes_max + cost.shared_of_block:
        return None
    return cost.register_file // most & -cost.register_unit if _plain_loop(fn.code) else None


def _plain_loop(code: list[Any]) -> bool:
    """Whether there is a loop, and nothing whose registers are not to be seen."""
    behind: set[int] = set()
    loop = False
    for record in code:
        if record.__class__ is Label:
            behind.add(record.id)
        elif record[0].startswith(_OTHERS) or ".f64" in record[0]:
            return False
        elif record[0].startswith("bra"):
            loop = loop or any(x.__class__ is Label and x.id in behind for x in record[2])
    return loop
