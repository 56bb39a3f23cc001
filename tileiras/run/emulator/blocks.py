"""Control flow: a function's body as pieces, in the order the scheduler prefers them.

A *piece* is a run of instructions that lanes execute together. Pieces end where control can change (branch, call,
return) and before every instruction that waits for other lanes (shuffles, MMA, barriers): lanes that arrive without
their partners stop there, whereas complete warps or CTAs run on through many pieces at once (`runs_to`).

Pieces are numbered so that the lowest number is the right one to run first: a callee before its callers, and within a
function in reverse postorder with loop bodies before loop exits, so that diverged lanes meet again at post-dominators.
"""

from __future__ import annotations

import itertools

from .syntax import EmulatorError, Func, Inst, Reg

WARP, CTA, NEVER = 1, 2, 3  # how complete the running set must be to pass a waiting instruction in line

_WARP_SYNC = {
    "shfl",
    "mma",
    "ldmatrix",
    "stmatrix",
    "movmatrix",
    "redux",
    "elect",
    "wmma",
    "wgmma",
}
_ENDS = {"bra", "brx", "ret", "exit", "trap", "brkpt", "$skip"}
_NO_DEST = {
    "bra",
    "brx",
    "ret",
    "exit",
    "trap",
    "brkpt",
    "call",
    "nanosleep",
    "st",
    "red",
    "membar",
    "fence",
    "cp",
    "prefetch",
    "prefetchu",
    "discard",
    "stmatrix",
    "griddepcontrol",
    "setmaxnreg",
    "pmevent",
    "applypriority",
    "tensormap",
}
BUILTINS = {"vprintf", "__assertfail", "malloc", "free"}


# .sync.aligned instructions whose guard all threads of a warp answer alike: a warp that it switches off goes round them.
_WHOLE = {"ldmatrix", "stmatrix", "movmatrix", "mma", "wmma", "wgmma", "tcgen05", "tensormap"}


def goes_round(inst: Inst) -> bool:
    return inst.guard is not None and inst.op in _WHOLE and ("sync" in inst.mods or "aligned" in inst.mods)


def wait_level(inst: Inst, cta_threads: int) -> int:
    """0 for ordinary instructions, else the completeness that lets a set of lanes pass without waiting."""
    op, mods = inst.op, inst.mods
    if op in ("bar", "barrier"):
        if mods[0] == "warp":
            return NEVER if inst.guard else WARP
        if mods[0] == "cluster":
            return NEVER
        if inst.guard or mods[0] == "arrive" or (mods[0] == "cta" and mods[1] == "arrive"):
            return NEVER
        count = barrier_count(inst)
        if count is not None and not (count[0] == "imm" and count[1] == cta_threads):
            return NEVER
        return CTA
    if op == "setmaxnreg" or collective(inst):
        return NEVER
    if (
        op in _WARP_SYNC
        or (op in ("tensormap", "tcgen05") and "sync" in mods)
        or (op == "vote" and "sync" in mods)
        or op == "match"
    ):
        return WARP
    return 0


def collective(inst: Inst) -> bool:
    """Whether a warp of each CTA of a pair executes it, together."""
    return inst.op == "tcgen05" and inst.mods[0] in ("alloc", "dealloc") and "cta_group::2" in inst.mods


def readable(inst: Inst, func: Func) -> bool:
    """Whether an instruction that decides where lanes go or wait has what that is read from."""
    ops, mods = inst.ops, inst.mods
    if inst.op == "bra":
        return bool(ops) and ops[0][0] == "sym"
    if inst.op == "brx":
        return len(ops) == 2 and ops[1][0] == "sym" and ops[1][1] in func.tables
    if inst.op == "call":
        return bool(ops) and (ops[0][0] != "list" or len(ops) > 1) and call_target(inst)[0] in ("sym", "reg")
    if inst.op in ("bar", "barrier"):
        return (
            bool(mods)
            and (mods[0] != "cta" or len(mods) > 1)
            and (mods[0] == "cluster" or len(ops) > ("red" in mods) and ("red" not in mods or len(ops) > 2))
        )
    if inst.op in ("tcgen05", "wgmma", "tensormap"):
        return bool(mods)
    if inst.op == "setmaxnreg":
        return len(ops) == 1 and ops[0][0] == "imm"
    return True


def barrier_count(inst: Inst):
    """The thread-count operand of a bar instruction, or None."""
    ops = inst.ops
    if "red" in inst.mods:
        return ops[2] if len(ops) == 4 else None
    return ops[1] if len(ops) > 1 else None


class Piece:
    """pc is the global number. next: the piece that follows in the same basic block or by falling through."""

    __slots__ = (
        "block",
        "code",
        "func",
        "index",
        "insts",
        "live_in",
        "live_out",
        "loops",
        "masked",
        "next",
        "pc",
        "runs",
        "targets",
        "wait",
    )

    def __init__(self, func: Func, insts: list[Inst], block: int, index: int) -> None:
        self.func, self.insts, self.block, self.index = func, insts, block, index
        self.pc, self.wait, self.masked = -1, 0, False
        self.next: Piece | None = None
        self.live_in = self.live_out = 0
        self.loops: tuple[
            tuple[int, int], ...
        ] = ()  # around this, outermost first: number, what decides whether it ends
        self.targets: list[Piece] = []
        self.code: dict = {}  # (variant, level) -> compiled function
        self.runs: dict[int, tuple[list[Piece], Piece]] = {}


def copies(body: list, of: set[int], cc: Reg) -> set[int]:
    """The registers that chains of mov copy those `of` a function's body to, maybe some of them among these."""
    edges: dict[int, list[int]] = {}
    for item in body:
        if isinstance(item, Inst) and item.op == "mov":
            defs, uses = defs_uses(item, cc)
            for r in uses:
                edges.setdefault(r.id, []).extend(d.id for d in defs)
    found: set[int] = set()
    new = list(of)
    while new:
        for k in edges.get(new.pop(), ()):
            if k not in found:
                found.add(k)
                new.append(k)
    return found


def _walk(op, into: list[Reg], uses: list[Reg]) -> None:
    """Adds the registers of an operand; those of an address are read."""
    kind = op[0]
    if kind == "reg":
        into.append(op[1])
    elif kind in ("vec", "list"):
        for item in op[1]:
            _walk(item, into, uses)
    elif kind == "pair":
        _walk(op[1], into, uses)
        _walk(op[2], into, uses)
    elif kind in ("not", "neg"):
        _walk(op[1], into, uses)
    elif kind == "mem":
        _walk(op[1], uses, uses)
        for item in op[3]:
            _walk(item, uses, uses)


def defs_uses(inst: Inst, cc: Reg) -> tuple[list[Reg], list[Reg]]:
    """Registers that an instruction writes and reads (a guarded write also reads)."""
    defs: list[Reg] = []
    uses: list[Reg] = []
    ops = inst.ops
    has_dest = inst.op not in _NO_DEST and ops and ops[0][0] in ("reg", "vec", "pair", "sink")
    if inst.op in ("bar", "barrier") and "red" not in inst.mods:
        has_dest = False
    if inst.op == "tcgen05" and inst.mods[0] != "ld":
        has_dest = False
    if inst.op == "call":
        for op in ops:
            _walk(op, uses, uses)
        if len(ops) > 1 and ops[0][0] == "list":  # registers in the return list are written afterwards
            uses.clear()
            for op in ops[1:]:
                _walk(op, uses, uses)
    elif inst.op == "$results":
        for op in ops:
            _walk(op, defs, uses)
    else:
        for i, op in enumerate(ops):
            into = defs if i == 0 and has_dest else uses
            if op[0] == "reg":
                into.append(op[1])
            elif op[0] != "imm":
                _walk(op, into, uses)
        if inst.op == "wgmma" and has_dest:  # accumulates
            _walk(ops[0], uses, uses)
    if "cc" in inst.mods:
        defs.append(cc)
    if inst.op in ("addc", "subc", "madc"):
        uses.append(cc)
    if inst.guard:
        uses.append(inst.guard[0])
        uses.extend(defs)
    return defs, uses


def bit_sets(inst: Inst, cc: Reg) -> tuple[int, int]:
    """The same as bit sets of register ids."""
    defs, uses = defs_uses(inst, cc)
    written = read = 0
    for r in defs:
        written |= 1 << r.id
    for r in uses:
        read |= 1 << r.id
    return written, read


def build(func: Func, cta_threads: int, cc: Reg) -> list[Piece]:
    """The pieces of a function in priority order; `pc` is left to the caller."""
    labels: dict[str, list[tuple[tuple[int, ...], int]]] = {}
    insts: list[Inst] = []
    skipped: list[int] = []  # what a $skip goes round
    for item in func.body:
        if isinstance(item, tuple):
            labels.setdefault(item[1], []).append((item[2], len(insts)))
        else:
            if goes_round(item):
                assert item.guard is not None
                reg, negated = item.guard
                insts.append(Inst("$skip", (), [], (reg, not negated), item.line, item.text, item.path))
                item = Inst(item.op, item.mods, item.ops, None, item.line, item.text, item.path)
                skipped.append(len(insts))
            insts.append(item)
            if item.op == "call" and not is_builtin(item) and call_results(item):
                insts.append(
                    Inst("$results", (), [call_results(item)], item.guard, item.line, item.text, item.path)
                )
    insts.append(Inst("ret", (), [], None, insts[-1].line if insts else func.line, "ret;"))
    for inst in insts:
        if inst.op == "ret":  # results in registers are read by the return
            inst.ops = [("list", [("reg", r) for r in func.returns if isinstance(r, Reg)])]

    def find(name: str, inst: Inst) -> int:
        best = None
        for path, at in labels.get(name, ()):
            if inst.path[: len(path)] == path and (best is None or len(path) > len(best[0])):
                best = (path, at)
        if best is None:
            raise EmulatorError(f"PTX line {inst.line}: no label {name} for `{inst.text}`")
        return best[1]

    leaders = {0} | {at for places in labels.values() for _, at in places} | {at + 1 for at in skipped}
    for i, inst in enumerate(insts):
        if inst.op in _ENDS or (inst.op == "call" and not is_builtin(inst)):
            leaders.add(i + 1)
    starts = sorted(x for x in leaders if x < len(insts))
    block_of = {s: b for b, s in enumerate(starts)}
    blocks: list[list[Piece]] = []
    for b, start in enumerate(starts):
        end = starts[b + 1] if b + 1 < len(starts) else len(insts)
        cuts = [start]
        for i in range(start, end):
            level = wait_level(insts[i], cta_threads)
            if level and i not in cuts:
                cuts.append(i)
            if (
                level
                and insts[i].op in ("bar", "barrier", "setmaxnreg")
                and i + 1 < end
                and i + 1 not in cuts
            ):
                cuts.append(i + 1)
        cuts.append(end)
        pieces = []
        for k in range(len(cuts) - 1):
            piece = Piece(func, insts[cuts[k] : cuts[k + 1]], b, k)
            piece.wait = wait_level(piece.insts[0], cta_threads)
            pieces.append(piece)
        for left, right in itertools.pairwise(pieces):
            left.next = right
        blocks.append(pieces)
    succ: list[list[int]] = []
    for b, pieces in enumerate(blocks):
        last = pieces[-1].insts[-1]
        out: list[int] = []
        if last.op == "bra":
            out.append(block_of[find(last.ops[0][1], last)])
        elif last.op == "$skip":
            out.append(b + 2)
        elif last.op == "brx":
            out += [block_of[find(n, last)] for n in func.tables[last.ops[1][1]]]
        pieces[-1].targets = [blocks[t][0] for t in out]
        if (last.op not in _ENDS or last.guard) and b + 1 < len(blocks):
            out.append(b + 1)
            pieces[-1].next = blocks[b + 1][0]
        succ.append(out)
    sets = {id(inst): bit_sets(inst, cc) for inst in insts}
    _liveness(blocks, succ, sets)
    _needs(blocks, succ, sets)
    return [piece for b in _order(succ) for piece in blocks[b]]


def is_builtin(inst: Inst) -> bool:
    return call_target(inst)[0] == "sym" and call_target(inst)[1] in BUILTINS


def call_target(inst: Inst):
    return inst.ops[1] if inst.ops[0][0] == "list" else inst.ops[0]


def call_args(inst: Inst) -> list:
    rest = inst.ops[2:] if inst.ops[0][0] == "list" else inst.ops[1:]
    return rest[0][1] if rest and rest[0][0] == "list" else []


def call_results(inst: Inst):
    return inst.ops[0] if inst.ops[0][0] == "list" and inst.ops[0][1] else None


def _liveness(blocks: list[list[Piece]], succ: list[list[int]], sets: dict[int, tuple[int, int]]) -> None:
    """live_in and live_out of every piece, as bit sets of register ids."""
    summary = []
    for pieces in blocks:
        per = []
        for piece in pieces:
            gen = kill = 0
            for inst in reversed(piece.insts):
                written, read = sets[id(inst)]
                gen = gen & ~written | read
                kill |= written
            per.append((gen, kill))
        summary.append(per)
    live_in = [0] * len(blocks)
    changed = True
    while changed:
        changed = False
        for b in range(len(blocks) - 1, -1, -1):
            live = 0
            for s in succ[b]:
                live |= live_in[s]
            for piece, (gen, kill) in zip(reversed(blocks[b]), reversed(summary[b])):
                piece.live_out = live
                live = gen | live & ~kill
                piece.live_in = live
            if live != live_in[b]:
                live_in[b] = live
                changed = True


# What only computes: without a reader of its result it might as well not be there. Loads may fault, so they count as
# accesses.
_COMPUTES = frozenset(
    "abs add addc and bfe bfi bfind bmsk brev clz cnot copysign cos cvt cvta div ex2 fma fns lg2 lop3 mad mad24 madc max "
    "min mov mul mul24 neg not or popc prmt rcp rem rsqrt sad selp set setp shf shl shr sin slct sqrt sub subc szext tanh "
    "testp xor".split()
)


_numbers = itertools.count()


def _needs(blocks: list[list[Piece]], succ: list[list[int]], sets: dict[int, tuple[int, int]]) -> None:
    """`loops` of every piece: per loop around it the live registers that decide its jumps and accesses.

    A register that only counts, say, and is read behind a loop or by the next one around it, decides nothing of that loop.
    """
    for comp in _loops(succ):
        number = next(_numbers)
        at_start = dict.fromkeys(comp, 0)
        needed_at: dict[Piece, int] = {}
        changed = True
        while changed:
            changed = False
            for b in sorted(comp, reverse=True):
                needed = 0
                for s in succ[b]:
                    needed |= at_start.get(s, 0)
                for piece in reversed(blocks[b]):
                    for inst in reversed(piece.insts):
                        written, read = sets[id(inst)]
                        if inst.op not in _COMPUTES or needed & written:
                            needed = needed & ~written | read
                    needed_at[piece] = needed
                if needed != at_start[b]:
                    at_start[b] = needed
                    changed = True
        for piece, needed in needed_at.items():
            piece.loops += ((number, needed),)


def _order(succ: list[list[int]]) -> list[int]:
    """Blocks in reverse postorder, where the successor that leaves a loop is visited first and so comes last."""
    depth = _loop_depths(succ)
    seen = [False] * len(succ)
    post: list[int] = []
    stack = [(0, iter(sorted(succ[0], key=lambda s: depth[s])))]
    seen[0] = True
    while stack:
        b, it = stack[-1]
        for s in it:
            if not seen[s]:
                seen[s] = True
                stack.append((s, iter(sorted(succ[s], key=lambda x: depth[x]))))
                break
        else:
            post.append(b)
            stack.pop()
    return post[::-1]


def _loop_depths(succ: list[list[int]]) -> list[int]:
    """Nesting depth of each block."""
    depth = [0] * len(succ)
    for comp in _loops(succ):
        for b in comp:
            depth[b] += 1
    return depth


def _loops(succ: list[list[int]]) -> list[list[int]]:
    """The blocks of each loop, outer loops before those inside them: components, split again at their entry."""
    out = []
    work = [list(range(len(succ)))]
    while work:
        nodes = work.pop()
        for comp in _components(nodes, succ):
            if len(comp) == 1 and comp[0] not in succ[comp[0]]:
                continue
            out.append(comp)
            header = min(comp)
            rest = [b for b in comp if b != header]
            if rest:
                work.append(rest)
    return out


def _components(nodes: list[int], succ: list[list[int]]) -> list[list[int]]:
    """Strongly connected components (Tarjan, iterative) of the sub-graph over nodes."""
    inside = set(nodes)
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on: set[int] = set()
    out = []
    for root in nodes:
        if root in index:
            continue
        work = [(root, iter(succ[root]))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on.add(root)
        while work:
            b, it = work[-1]
            for s in it:
                if s not in inside:
                    continue
                if s not in index:
                    index[s] = low[s] = len(index)
                    stack.append(s)
                    on.add(s)
                    work.append((s, iter(succ[s])))
                    break
                if s in on:
                    low[b] = min(low[b], index[s])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[b])
                if low[b] == index[b]:
                    comp = []
                    while True:
                        x = stack.pop()
                        on.discard(x)
                        comp.append(x)
                        if x == b:
                            break
                    out.append(comp)
    return out
