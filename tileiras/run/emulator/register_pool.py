"""setmaxnreg: registers that warpgroups give back to their CTA and take from it.

A CTA starts with as many registers a thread as .maxnreg says, else as the register file has for the threads that .reqntid or
.maxntid allow; without either ptxas ignores the instruction, and so does this. What a warpgroup gives back waits for one
that asks for more; an .inc that finds too few waits. Registers of warps that have exited come back to nobody.

By the ISA registers belong to a warp, .sync waits for a warp, and all threads of a warpgroup execute the same instruction. Triton
gives warps of one group two instructions with the same count, CUTLASS (example 77) such with other counts, and GPUs go on: that
goes on here too once all warps of the group have come, and is a finding where there are checks.
"""

from __future__ import annotations

import numpy as np

from .access import Fault

FILE = 65536  # registers of an SM
GROUP = 128  # threads of a warpgroup
LEAST, MOST, UNIT = 24, 256, 8  # that a thread may have


def launched_with(directives: dict, threads: int) -> int | None:
    """Registers a thread at the start; None where nothing says."""
    words = directives.get(".maxnreg")
    if words:
        return -(-int(words[0]) // UNIT) * UNIT
    words = directives.get(".reqntid") or directives.get(".maxntid")
    if not words:
        return None
    most = max(threads, int(np.prod([int(w) for w in words])))
    blocks = directives.get(".minnctapersm")
    return min(MOST, FILE // (most * (int(blocks[0]) if blocks else 1)) // UNIT * UNIT)


class Registers:
    """What each warpgroup of a batch has, what its CTA has to give, and who waits."""

    def __init__(self, batch) -> None:
        self.batch = batch
        entry = batch.unit.entry
        self.start = launched_with(entry.directives, batch.threads)
        self.at = np.full(batch.L, -1, np.int64)  # piece at which a lane waits
        groups = batch.L // GROUP if batch.span % GROUP == 0 else 0
        self.held = np.full((groups, GROUP // 32), self.start or 0, np.int64)  # of each warp's threads
        self.pool = np.zeros(batch.cta_count, np.int64)

    def ask(self, pc: int, lanes: np.ndarray) -> None:
        """Lanes have come to a setmaxnreg. Errors: Fault where it cannot be executed by them."""
        batch = self.batch
        inst = batch.unit.pieces[pc].insts[0]
        count = self.count(inst)
        lane = int(lanes[0])
        if not (LEAST <= count <= MOST) or count % UNIT:
            raise Fault(
                "setmaxnreg",
                f"{count} registers: a multiple of {UNIT} from {LEAST} to {MOST} is wanted",
                lane,
            )
        if not self.held.size or batch.threads != batch.span:
            raise Fault("setmaxnreg", f"a block of {batch.threads} threads has no whole warpgroups", lane)
        self.at[lanes] = pc
        for group in np.unique(lanes // GROUP).tolist():
            live = batch.live[group * GROUP : (group + 1) * GROUP]
            if not live.all():
                gone = GROUP - int(live.sum())
                raise Fault("setmaxnreg", f"{gone} threads of its warpgroup have exited", group * GROUP)
        self.serve()

    @staticmethod
    def count(inst) -> int:
        return int(inst.ops[0][1])

    def serve(self) -> None:
        """Lets all warpgroups go on that can: those that give first."""
        batch = self.batch
        pieces = batch.unit.pieces
        waiting = self.at.reshape(-1, GROUP)
        whole = np.flatnonzero((waiting >= 0).all(1))
        for action in ("dec", "inc"):
            for group in whole.tolist():
                pcs = np.unique(waiting[group]).tolist()
                insts = [pieces[pc].insts[0] for pc in pcs if pc >= 0]
                if not insts or not all(action in inst.mods for inst in insts):
                    continue
                counts = np.array([self.count(pieces[pc].insts[0]) for pc in waiting[group, ::32].tolist()])
                if not self.change(group, action, counts):
                    continue
                if len(pcs) > 1 and batch.checker is not None:
                    batch.checker.report(
                        "setmaxnreg",
                        f"threads of one warpgroup, of {batch.thread_name(group * GROUP)}, execute this and PTX line "
                        f"{insts[1].line}, `{insts[1].text}`: undefined by the ISA",
                        insts[0],
                    )
                for pc in pcs:
                    lanes = group * GROUP + np.flatnonzero(waiting[group] == pc)
                    batch.push(pieces[pc].next.pc, lanes)
                waiting[group] = -1

    def change(self, group: int, action: str, counts: np.ndarray) -> bool:
        """Whether the warps of a group now have these counts."""
        if self.start is None:
            return True
        more = counts - self.held[group]
        for warp in np.flatnonzero(more > 0 if action == "dec" else more < 0).tolist():
            lane, held = group * GROUP + warp * 32, int(self.held[group, warp])
            raise Fault("setmaxnreg", f".{action} to {counts[warp]} of a warpgroup that has {held}", lane)
        cta, total = int(self.batch.cta_of[group * GROUP]), int(more.sum()) * 32
        if total > self.pool[cta]:
            return False
        self.pool[cta] -= total
        self.held[group] = counts
        return True

    def stuck_report(self) -> list[str]:
        """Who waits where."""
        batch = self.batch
        out = []
        for pc in np.unique(self.at[self.at >= 0]).tolist():
            part = np.flatnonzero(self.at == pc)
            inst = batch.unit.pieces[pc].insts[0]
            cta = int(batch.cta_of[part[0]])
            out.append(
                f"{part.size} threads (first: {batch.thread_name(int(part[0]))}) wait at PTX line {inst.line}, "
                f"`{inst.text}`; the CTA has {int(self.pool[cta])} registers to give"
            )
        return out
