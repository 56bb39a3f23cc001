"""Machine code of a cubin as instructions, basic blocks and natural loops, from nvdisasm's text.

`read_sass(text)` gives a `Code` per function. An instruction knows its guard, opcode with modifiers, operands, what
registers it writes and reads, and what class of work it is. Branch targets are nvdisasm's labels. Waiting loops that
ptxas moves out of line (`SYNCS.PHASECHK`, sleep, try again) are told apart from work: `Loop.work` leaves them out.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import NamedTuple

LINE = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(?:(@!?U?P\w+)\s+)?([A-Z][\w.]*)\s*(.*?)\s*;?\s*$")
LABEL = re.compile(r"^(\.L[\w.]+|[A-Za-z_$][\w.$]*):\s*$")
TARGET = re.compile(r"`\((\.L[\w.]+|[A-Za-z_$][\w.$]*)\)")
SWITCH = re.compile(r"BRANCH_TARGETS\s+([^\"*]+)")
SECTION = re.compile(r"^\s*\.section\s+\.text\.([^,\s]+)")
REGISTER = re.compile(r"(?<![\w.])(U?)R(\d+)(?!\w)")
TENSOR = re.compile(r"^(H|Q|I|B|D|O)(G?)MMA(\.|$)")
SHAPE = re.compile(r"\.(\d+)x(\d+)x(\d+)")
TENSOR_MEMORY = {"UTCHMMA": 32, "UTCQMMA": 32, "UTCIMMA": 32, "UTCOMMA": 32}  # bytes of K an instruction
ENDS = {"EXIT", "RET", "BRX", "BRXU", "JMX", "KILL", "RTT"}
JUMPS = {"BRA", "JMP", "CALL", "BRX", "BRXU", "JMX", "BREAK"}
SCALAR = {"FFMA": 2, "FFMA2": 4, "DFMA": 2, "FADD": 1, "FMUL": 1, "DADD": 1, "DMUL": 1}  # flops a lane
VECTOR = {"U8": 8, "S8": 8, "U16": 16, "S16": 16, "64": 64, "128": 128, "256": 256}


class Instruction(NamedTuple):
    """One machine instruction. `guard` is "" or as "@!P0"; `opcode` has the modifiers."""

    address: int
    guard: str
    opcode: str
    operands: str

    @property
    def base(self) -> str:
        return self.opcode.partition(".")[0]

    @property
    def modifiers(self) -> list[str]:
        return self.opcode.split(".")[1:]

    @property
    def bits(self) -> int:
        """Bits that one lane moves, for accesses of memory."""
        if self.base in ("LDSM", "STSM", "LDSMT"):
            return 32 * int(self.modifiers[-1]) if self.modifiers[-1].isdigit() else 32
        return next((VECTOR[m] for m in self.modifiers if m in VECTOR), 32)

    @property
    def kind(self) -> str:
        """tensor, barrier, shared_load, shared_store, global_load, global_store, async_copy, bulk_copy, local, or other."""
        if self.guard == "@!PT":  # ptxas puts such loads before asynchronous copies of sm_80: they do nothing
            return "other"
        return KINDS.get(self.base) or ("tensor" if is_tensor(self.base) else "other")

    @property
    def targets(self) -> list[str]:
        found = SWITCH.search(self.operands)
        if found:
            return [t.strip() for t in found.group(1).split(",") if t.strip()]
        return TARGET.findall(self.operands) if self.base in JUMPS else []

    @property
    def written(self) -> list[int]:
        """Numbers of the vector registers that a load fills."""
        first = REGISTER.match(self.operands.partition(",")[0].strip())
        if not first or first.group(1):
            return []
        start = int(first.group(2))
        return list(range(start, start + max(1, self.bits // 32)))

    @property
    def named(self) -> frozenset[int]:
        """Numbers of all vector registers in the text, a register pair or quad by its first."""
        return frozenset(int(n) for u, n in REGISTER.findall(self.operands) if not u)


KINDS = {
    "BAR": "barrier", "BARRIER": "barrier",
    "LDS": "shared_load", "LDSM": "shared_load", "STS": "shared_store", "STSM": "shared_store",
    "ATOMS": "shared_store",
    "LDG": "global_load", "STG": "global_store", "RED": "global_store", "REDG": "global_store", "ATOM": "global_store",
    "ATOMG": "global_store",
    "LDGSTS": "async_copy", "UTMALDG": "bulk_copy", "UBLKCP": "bulk_copy",
    "LDL": "local", "STL": "local",
    **dict.fromkeys(TENSOR_MEMORY, "tensor"),
}  # fmt: skip


def is_tensor(base: str) -> bool:
    return base in TENSOR_MEMORY or bool(TENSOR.match(base))


def flops(i: Instruction, tile: tuple[int, int] = (128, 128), element_bits: int = 16) -> int:
    """Multiplications and additions of a warp's (HGMMA: warpgroup's) matrix instruction or fused multiply-add, else 0.

    tcgen05's shape is not in the text: it lies in a descriptor, so the caller says the tile of an instruction.
    """
    if i.base in TENSOR_MEMORY:
        return 2 * tile[0] * tile[1] * TENSOR_MEMORY[i.base] * 8 // element_bits
    if is_tensor(i.base):
        found = SHAPE.search(i.opcode)
        if found:
            return 2 * int(found.group(1)) * int(found.group(2)) * int(found.group(3))
        compact = next((m for m in i.modifiers if m.isdigit() and len(m) >= 3), "")
        return 2 * _volume(compact)
    return 32 * SCALAR.get(i.base, 0)


def _volume(shape: str) -> int:
    """m x n x k of a shape as SASS writes it: "16816" is 16 x 8 x 16, "1688" 16 x 8 x 8, "884" 8 x 8 x 4."""
    for m in ("16", "8"):
        rest = shape.removeprefix(m)
        if rest != shape and rest[:1] == "8" and rest[1:] in ("4", "8", "16", "32", "64", "128", "256"):
            return int(m) * 8 * int(rest[1:])
    return 0


class Block(NamedTuple):
    """Instructions [start, end) of the function; numbers of the blocks that may follow."""

    start: int
    end: int
    after: tuple[int, ...]


class Loop(NamedTuple):
    """A natural loop: its header, all its blocks, and those of them that are not waiting loops or reached only by one."""

    header: int
    blocks: frozenset[int]
    work: frozenset[int]


class Code:
    """One function. Blocks and loops are found when first asked for."""

    def __init__(self, name: str, instructions: list[Instruction], labels: dict[str, int]) -> None:
        self.name = name
        self.instructions = instructions
        self.labels = labels

    @functools.cached_property
    def blocks(self) -> list[Block]:
        """Basic blocks in the order of addresses."""
        count = len(self.instructions)
        starts = {0, *(at for at in self.labels.values() if at < count)}
        for at, i in enumerate(self.instructions):
            if i.base in JUMPS or i.base in ENDS:
                starts.add(at + 1)
        order = sorted(s for s in starts if s < count)
        number = {start: n for n, start in enumerate(order)}
        out = []
        for n, start in enumerate(order):
            end = order[n + 1] if n + 1 < len(order) else count
            last = self.instructions[end - 1]
            after = [number[self.labels[t]] for t in last.targets if self.labels.get(t, count) in number]
            if self._falls_through(last) and end in number:
                after.append(number[end])
            out.append(Block(start, end, tuple(dict.fromkeys(after))))
        return out

    @staticmethod
    def _falls_through(last: Instruction) -> bool:
        conditional = bool(last.guard) or bool(re.match(r"(!?U?P\d|!?UPT?\d?\b.*,)", last.operands))
        if last.base in ENDS:
            return conditional
        return conditional or last.base not in ("BRA", "JMP")

    @functools.cached_property
    def dominators(self) -> list[set[int]]:
        """For each block the blocks on every way to it; empty for blocks that nothing reaches."""
        blocks = self.blocks
        before: list[list[int]] = [[] for _ in blocks]
        for n, b in enumerate(blocks):
            for s in b.after:
                before[s].append(n)
        everything = set(range(len(blocks)))
        found = [set(everything) for _ in blocks]
        found[0] = {0}
        reached = _reach(0, [b.after for b in blocks])
        changed = True
        while changed:
            changed = False
            for n in sorted(reached - {0}):
                ways = [found[p] for p in before[n] if p in reached]
                new = set.intersection(*ways) | {n} if ways else {n}
                if new != found[n]:
                    found[n], changed = new, True
        return [found[n] if n in reached else set() for n in range(len(blocks))]

    @functools.cached_property
    def loops(self) -> list[Loop]:
        """Natural loops, those of one header joined, endless padding left out; inner before outer."""
        blocks, dominators = self.blocks, self.dominators
        bodies: dict[int, set[int]] = {}
        before: list[list[int]] = [[] for _ in blocks]
        for n, b in enumerate(blocks):
            for s in b.after:
                before[s].append(n)
        for n, b in enumerate(blocks):
            for header in b.after:
                if header in dominators[n]:
                    body = bodies.setdefault(header, {header})
                    pending = [n]
                    while pending:
                        m = pending.pop()
                        if m not in body:
                            body.add(m)
                            pending += before[m]
        ordered = sorted(bodies.items(), key=lambda item: len(item[1]))
        waits = set[int]()
        for _, body in ordered:
            if self._only_waits(body):
                waits |= body
        out = []
        for header, body in ordered:
            if not body <= waits:
                out.append(Loop(header, frozenset(body), self._work(header, body, waits)))
        return out

    def _only_waits(self, body: set[int]) -> bool:
        inside = [i for n in body for i in self.of_block(n)]
        polls = any(i.base == "SYNCS" and "PHASECHK" in i.modifiers for i in inside)
        return len(inside) <= 1 or (
            polls and len(inside) <= 16 and not any(is_tensor(i.base) for i in inside)
        )

    def _work(self, header: int, body: set[int], waits: set[int]) -> frozenset[int]:
        """Blocks of the body on a way through it that enters no waiting loop; through them where there is no other way."""
        return self._ways(header, body - waits) or self._ways(header, body)

    def _ways(self, header: int, keep: set[int]) -> frozenset[int]:
        """Blocks on a way from the header back to it within `keep`."""
        if header not in keep:
            return frozenset()
        forward = [tuple(s for s in b.after if s in keep) for b in self.blocks]
        reached = _reach(header, forward)
        backward: list[list[int]] = [[] for _ in self.blocks]
        for n in reached:
            for s in forward[n]:
                backward[s].append(n)
        useful = {n for n in reached if header in self.blocks[n].after}
        pending = list(useful)
        while pending:
            n = pending.pop()
            for m in backward[n] if n != header else ():
                if m not in useful:
                    useful.add(m)
                    pending.append(m)
        return frozenset(useful)

    def of_block(self, n: int) -> list[Instruction]:
        return self.instructions[self.blocks[n].start : self.blocks[n].end]

    def of_loop(self, loop: Loop) -> list[Instruction]:
        """The instructions of one pass, waiting loops aside, in the order of addresses."""
        return [i for n in sorted(loop.work) for i in self.of_block(n)]

    def straight(self) -> list[Instruction]:
        """The instructions outside of all loops that anything reaches, without padding."""
        inside = {n for loop in self.loops for n in loop.blocks}
        out = []
        for n in range(len(self.blocks)):
            if n not in inside and self.dominators[n]:
                out += [i for i in self.of_block(n) if i.base != "NOP"]
        return [i for i in out if not (i.base == "BRA" and self._jumps_to_itself(i))]

    def _jumps_to_itself(self, i: Instruction) -> bool:
        return any(
            self.instructions[self.labels[t]].address == i.address for t in i.targets if t in self.labels
        )


def _reach(start: int, after: list[tuple[int, ...]]) -> set[int]:
    seen, pending = {start}, [start]
    while pending:
        for s in after[pending.pop()]:
            if s not in seen:
                seen.add(s)
                pending.append(s)
    return seen


def read_sass(text: str) -> dict[str, Code]:
    """name -> Code of each function in the output of `nvdisasm -c`."""
    out: dict[str, Code] = {}
    for name, lines in _sections(text):
        instructions: list[Instruction] = []
        labels: dict[str, int] = {}
        for line in lines:
            found = LINE.match(line)
            if found:
                address, guard, opcode, operands = found.groups()
                instructions.append(Instruction(int(address, 16), guard or "", opcode, operands))
                continue
            label = LABEL.match(line.strip())
            if label:
                labels[label.group(1)] = len(instructions)
        if instructions:
            out[name] = Code(name, instructions, labels)
    return out


def _sections(text: str) -> Iterator[tuple[str, list[str]]]:
    name, lines = "", list[str]()
    for line in text.splitlines():
        found = SECTION.match(line)
        if found or line.startswith("//-----"):
            if name:
                yield name, lines
            name, lines = (found.group(1) if found else ""), []
        elif name:
            lines.append(line)
    if name:
        yield name, lines


def loads_in_flight(instructions: list[Instruction]) -> int:
    """The most bytes that one thread's global loads have under way before the first of them is used."""
    pending: dict[int, int] = {}
    most = 0
    for i in instructions:
        used = i.named & pending.keys()
        if used:
            for load in {pending[r] for r in used}:
                pending = {r: at for r, at in pending.items() if at != load}
        if i.kind == "global_load" and "R" in i.operands:
            pending.update(dict.fromkeys(i.written, i.address))
            most = max(most, 4 * len(pending))
    return most


def wavefronts(i: Instruction) -> int:
    """The least cycles of shared memory that a warp's access takes, without conflicts; 0 for everything else."""
    if i.kind in ("shared_load", "shared_store", "async_copy"):
        return max(1, i.bits // 32)
    return 0
