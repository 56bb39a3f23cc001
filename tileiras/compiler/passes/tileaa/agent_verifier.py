"""TileAA agent verifier (layer 3): agents of a warp-specialised function add up to its warps.

Accepts: `agent {id = 0, num_warps = 1}` next to `agent {id = 1, num_warps = 3}` in a function of four warps.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileaa import diags as D
from tileiras.compiler.ir.passes import Context, Pass
from tileiras.compiler.target.cost import CostModel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

WARPGROUP = 4  # warps
LAST_BARRIER = 15  # of a block
BEGIN_AND_END = ("turns.begin", "turns.take", "turns.end")


class AgentVerifier(Pass):
    NAME = "TileAAAgentVerifier"
    SUMMARY = "Agents: distinct, side by side, as many warps as the kernel has, registers in steps of 8"
    """
    does: layer 3, warp-specialised functions only: agents add up to the warps of the kernel
    without: not checked
    """
    LAYER = 3
    KEEPS_ANALYSES = True
    __slots__ = ()

    def run(self, func: Any, context: Context) -> bool:
        emit = context.sink.emit
        errors = context.sink.errors
        seen: set[int] = set()
        warps = 0
        agents = [op for op in func.walk() if op.spec.name == "agent"]
        for op in agents:
            parent = op.parent
            while parent is not None and parent is not func:
                if parent.spec.name == "agent":
                    emit(D.AGENT_NESTED, loc=op.loc, id=op.attrs["id"])
                    break
                parent = parent.parent
            if op.attrs["id"] in seen:
                emit(D.AGENT_TWICE, loc=op.loc, id=op.attrs["id"], function=context.function)
            seen.add(op.attrs["id"])
            warps += op.attrs["num_warps"]
            registers = op.attrs.get("registers")
            least, most = CostModel.granted_registers
            if registers is not None and (
                registers % CostModel.register_unit or not least <= registers <= most
            ):
                emit(D.AGENT_REGISTERS, loc=op.loc, id=op.attrs["id"], got=registers)
        want = getattr(func.attrs.get("nv_tileaa.kernel_spec"), "num_warps", None)
        if agents and want is not None and warps != want:
            emit(D.AGENT_WARPS, loc=func.loc, function=context.function, got=warps, want=want)
        return context.sink.errors == errors


class RolesVerifier(AgentVerifier):
    """The same where warps have registers and barriers of their own: before threads are told apart."""

    NAME = "TileASAgentVerifier"
    SUMMARY = "Agents as before; those with registers of their own are warpgroups, and the block's registers suffice"
    """
    does: layer 3: agents with registers of their own are warpgroups, and the block's registers suffice
    without: not checked
    """
    __slots__ = ()

    def run(self, func: Any, context: Context) -> bool:
        emit = context.sink.emit
        errors = context.sink.errors
        super().run(func, context)
        agents = [op for op in func.walk() if op.spec.name == "agent"]
        first = held = 0
        start = func.attrs.get("nvvm.maxnreg")
        for op in agents:
            warps, registers = op.attrs["num_warps"], op.attrs.get("registers")
            issuing = op.attrs.get("issuing_warps")
            last = first + warps - 1
            if registers is not None and (first % WARPGROUP or warps % WARPGROUP):
                emit(D.AGENT_GROUPS, loc=op.loc, id=op.attrs["id"], first=first, last=last)
            if issuing is not None and not 1 <= issuing <= warps:
                emit(D.AGENT_ISSUING, loc=op.loc, id=op.attrs["id"], want=warps, got=issuing)
            if not 0 <= op.attrs["id"] <= LAST_BARRIER - 1:
                emit(D.AGENT_ID, loc=op.loc, id=op.attrs["id"], last=LAST_BARRIER - 1)
            held += 32 * warps * (registers if registers is not None else start or 0)
            first = last + 1
        for op in func.walk():
            if op.spec.name.startswith("turns."):
                why = out_of_turn(op, agents)
                if why is not None:
                    emit(D.AGENT_TURNS, loc=op.loc, name=op.spec.name, reason=why)
        if start is not None and held > 32 * first * -(-start // 8) * 8:
            emit(D.AGENT_SUM, loc=func.loc, function=context.function, got=held, want=32 * first * start)
        return context.sink.errors == errors


def out_of_turn(op: Any, agents: list[Any]) -> str | None:
    """What is wrong with where two warpgroups take turns; None when nothing is."""
    around = op.parent
    while around is not None and around.spec.name != "agent":
        around = around.parent
    if around is None or around is not agents[0] or around.attrs["num_warps"] != 2 * WARPGROUP:
        return "only the two warpgroups of a kernel's first agent take turns"
    first = op.attrs["barrier"]
    if not max(agent.attrs["id"] for agent in agents) + 1 < first < LAST_BARRIER:
        return f"barriers {first} and {first + 1} are none that agents leave"
    name = op.spec.name
    order = [other.spec.name for other in op.block.ops if other.spec.name.startswith("turns.")]
    if name in ("turns.begin", "turns.end") or "turns.begin" in order:
        if order[: len(BEGIN_AND_END)] * (len(order) // 3) != order or tuple(order[:3]) != BEGIN_AND_END:
            return "around a loop it is begin, take and end"
    elif order != ["turns.give", "turns.take"] * (len(order) // 2):
        return "in a loop each turn that is given away is taken again"
    return None
