"""mma.sync atoms: shapes per element type and target, and the layouts of their operands.

One atom multiplies A [M, K] by B [K, N]. Registers of 32 bits hold `pack` neighbours along K. Fragment layouts
follow one scheme for every type (PTX ISA manual, "Matrix fragments for mma"): with g = lane / 4, t = lane % 4,
A holds row g (and g + 8), columns t * pack ..; B holds column g; C holds row g (and g + 8), columns 2t, 2t + 1.

Which rows and columns of a tile an instruction takes is free. With turned rows it takes rows 2g and 2g + 1 of 16 as its
rows g and g + 8; with turned columns two instructions share 16 columns, those of 2g and those of 2g + 1. So what lies
side by side in memory along M or N ends up in registers of one lane.
"""

from __future__ import annotations

from tileiras.compiler.layout.linear import LANE_BITS, LinearLayout, log2

from . import sm
from .products import SCALED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .sm import Sm


class Atom:
    """An instruction shape (log2 of m, n, k), the opcode with its types, and elements per A/B register."""

    __slots__ = ("k", "m", "n", "name", "opcode", "pack")

    def __init__(self, m: int, n: int, k: int, opcode: str, pack: int) -> None:
        self.m = log2(m)
        self.n = log2(n)
        self.k = log2(k)
        self.opcode = opcode
        self.pack = log2(pack)
        self.name = f"m{m}n{n}k{k}"

    @property
    def first_sm(self) -> int:
        """The number of the first target that has it."""
        elem = self.opcode.split(".")[-2]
        if elem in _PTX.values():
            feature = sm.MMA_FP8
        elif self.name == "m16n8k8" and elem == "f16":
            feature = sm.MMA_F16_M16N8K8
        else:
            feature = sm.MMA_I8 if self.name == "m8n8k16" else sm.MMA_SM80
        return sm.FEATURES[feature][1]


ROW_LANES = 2  # bits of the lanes that hold a row of an accumulator
FMA = "fma"  # the name of what is left without an atom
_MMA = "mma.sync.aligned."
_PTX = {"f8E4M3FN": "e4m3", "f8E5M2": "e5m2"}


def _atoms() -> list[Atom]:
    out = []
    for t in ("f16", "bf16"):
        out.append(Atom(16, 8, 16, f"{_MMA}m16n8k16.row.col.f32.{t}.{t}.f32", 2))
    for t in _PTX.values():
        out.append(Atom(16, 8, 32, f"{_MMA}m16n8k32.row.col.f32.{t}.{t}.f32", 4))
    for types in ("s8.s8", "s8.u8", "u8.s8", "u8.u8"):
        out.append(Atom(16, 8, 32, f"{_MMA}m16n8k32.row.col.s32.{types}.s32", 4))
        out.append(Atom(8, 8, 16, f"{_MMA}m8n8k16.row.col.s32.{types}.s32", 4))
    out.append(Atom(16, 8, 8, f"{_MMA}m16n8k8.row.col.f32.f16.f16.f32", 2))
    for k in (8, 16):  # never chosen: sums of products are f32
        out.append(Atom(16, 8, k, f"{_MMA}m16n8k{k}.row.col.f16.f16.f16.f16", 2))
    out.append(Atom(16, 8, 8, f"{_MMA}m16n8k8.row.col.f32.tf32.tf32.f32", 1))
    out.append(Atom(8, 8, 4, f"{_MMA}m8n8k4.row.col.f64.f64.f64.f64", 1))
    return out


BY_NAME = {atom.opcode: atom for atom in _atoms()}


def find_atom(target: Sm, elem: str, signed: tuple[bool, bool] = (True, True)) -> Atom | None:
    """The mma.sync atom for an operand type; None where the target has none (then FMA code is used)."""
    modern = target.has(sm.MMA_SM80)
    if elem == "i8":
        types = ".".join("s8" if s else "u8" for s in signed)
        return BY_NAME[f"{_MMA}{'m16n8k32' if modern else 'm8n8k16'}.row.col.s32.{types}.s32"]
    if elem == "f16" and not modern:
        return BY_NAME[f"{_MMA}m16n8k8.row.col.f32.f16.f16.f32"]
    if not modern:
        return None
    if elem in ("f16", "bf16"):
        return BY_NAME[f"{_MMA}m16n8k16.row.col.f32.{elem}.{elem}.f32"]
    if elem == "tf32":
        return BY_NAME[f"{_MMA}m16n8k8.row.col.f32.tf32.tf32.f32"]
    if elem == "f64":
        return BY_NAME[f"{_MMA}m8n8k4.row.col.f64.f64.f64.f64"]
    if elem in _PTX and target.has(sm.MMA_FP8):
        return BY_NAME[f"{_MMA}m16n8k32.row.col.f32.{_PTX[elem]}.{_PTX[elem]}.f32"]
    return None


def shapes() -> dict[tuple[int, int, int, str, str], int]:
    """(M, N, K, type of the operands, of the sums) of every instruction without block scales -> first target."""
    names = {short: name for name, short in _PTX.items()} | {"s8": "i8", "u8": "i8", "s32": "i32"}
    out = {}
    for opcode, atom in BY_NAME.items():
        if opcode not in SCALES:
            *_, elem, acc = opcode.split(".")
            key = (1 << atom.m, 1 << atom.n, 1 << atom.k, names.get(elem, elem), names.get(acc, acc))
            out[key] = atom.first_sm
    return out


SCALED_BYTES = 32  # of K that a block-scaled instruction takes
_KINDS = {  # element, scale, elements of a block -> the modifiers that differ, scales of an instruction along K
    ("f8E4M3FN", "f8E8M0FNU", 32): ("m16n8k32", "mxf8f6f4", 1, "e4m3", "ue8m0"),
    ("f8E5M2", "f8E8M0FNU", 32): ("m16n8k32", "mxf8f6f4", 1, "e5m2", "ue8m0"),
    ("f4E2M1FN", "f8E8M0FNU", 32): ("m16n8k64", "mxf4", 2, "e2m1", "ue8m0"),
    ("f4E2M1FN", "f8E4M3FN", 16): ("m16n8k64", "mxf4nvf4", 4, "e2m1", "ue4m3"),
}


def _scaled() -> dict[tuple[str, str, int], tuple[str, int]]:
    return {
        form: (f"{_MMA}{shape}.row.col.kind::{kind}.block_scale.scale_vec::{n}X.f32.{t}.{t}.f32.{scale}", n)
        for form, (shape, kind, n, t, scale) in _KINDS.items()
    }


_SCALED = _scaled()
SCALES = dict(_SCALED.values())  # of an instruction along K
HALVES = (
    f"{_MMA}m16n8k16.row.col.f32.f16.f16.f32"  # multiplies elements with block scales where nothing else does
)
_IN_HALVES = frozenset((*_KINDS, ("f4E2M1FN", "f8E8M0FNU", 16)))
# fragments of all of them are those of 8-bit elements, in bytes
SCALED_ATOM = Atom(16, 8, SCALED_BYTES, "", 4)


def find_scaled(target: Sm, elem: str, scale: str, block: int) -> str | None:
    """What multiplies elements with such scales and length of blocks: block-scaled mma.sync, or that of f16 around which
    scales are applied; None where the target has neither."""
    found = _SCALED.get((elem, scale, block))
    if found is not None and target.has(sm.MMA_F8F6F4):
        return found[0]
    return HALVES if (elem, scale, block) in _IN_HALVES and target.has(sm.MMA_SM80) else None


def fragments_of(name: str, opcode: str | None) -> Atom | None:
    """The atom whose fragments a product takes that was given an instruction; None without one."""
    if name == SCALED and (opcode in SCALES or opcode == HALVES):
        return SCALED_ATOM
    return BY_NAME.get(opcode or "")


STRAIGHT = (False, False)  # whether rows, and columns, are turned


def split_warps(
    shape: Sequence[int],
    atom: Atom,
    log2_warps: int,
    rows: int | None = None,
    turned: tuple[bool, bool] = STRAIGHT,
) -> list[tuple[int, int]]:
    """For every warp bit (dimension, bit of that dimension) it walks; (-1, 0) for a bit that only copies.

    The last two dimensions are M and N; a batch dimension comes first. Tops of M first, then N, in turns; with `rows`
    so many bits of M first, then N.
    """
    rank = len(shape)
    free = {rank - 2: [log2(shape[-2]), atom.m], rank - 1: [log2(shape[-1]), atom.n + turned[1]]}
    out: list[tuple[int, int]] = []
    if rank == 3:
        batch = log2(shape[0])
        while batch and len(out) < log2_warps:
            batch -= 1
            out.append((0, batch))
    while len(out) < log2_warps:
        room_m = free[rank - 2][0] - free[rank - 2][1]
        room_n = free[rank - 1][0] - free[rank - 1][1]
        if room_m <= 0 and room_n <= 0:
            out.append((-1, 0))
            continue
        first = room_m >= room_n if rows is None else rows > 0
        d = rank - 2 if room_m > 0 and first or room_n <= 0 else rank - 1
        if rows is not None and d == rank - 2:
            rows -= 1
        free[d][0] -= 1
        out.append((d, free[d][0]))
    return out


def can_turn(shape: Sequence[int], atom: Atom, k: int) -> bool:
    """Whether a product of tiles, accumulator of `shape`, is large enough for turned rows or columns."""
    return atom.m == 4 and shape[-2] >= 16 and shape[-1] >= 16 and k >= 1 << atom.k


def turned(layout: LinearLayout, shape: Sequence[int]) -> tuple[bool, bool]:
    """Whether the rows and the columns of an accumulator are turned."""
    n = log2(shape[-1])
    return layout.lane[2] == 2 << n, layout.lane[0] == 4 and n > 2


def atom_bits(turned: tuple[bool, bool]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Bits of M that the rows of an instruction stand for, bits of N that its columns do."""
    return (1, 2, 3, 0) if turned[0] else (0, 1, 2, 3), (1, 2, 3) if turned[1] else (0, 1, 2)


def accumulator_layout(
    shape: Sequence[int], atom: Atom, warps: Sequence[tuple[int, int]], turned: tuple[bool, bool] = STRAIGHT
) -> LinearLayout:
    """C and D: register bit 0 is column bit 0, lanes hold columns 1-2 and rows 0-2, then row bit 3, then the rest. Of turned
    columns, registers hold bits 0 and 1, lanes 2-3."""
    m, n = atom_bits(turned)
    return _fragment(
        shape,
        warps,
        reg=[(-1, i) for i in range(n[0] + 1)] + ([(-2, m[3])] if atom.m > 3 else []),
        lane=[(-1, n[1]), (-1, n[2]), (-2, m[0]), (-2, m[1]), (-2, m[2])],
    )


def operand_layout(
    shape: Sequence[int],
    atom: Atom,
    which: int,
    warps: Sequence[tuple[int, int]],
    turned: tuple[bool, bool] = STRAIGHT,
) -> LinearLayout:
    """A (which = 0, shape [.., M, K]) or B (which = 1, shape [.., K, N])."""
    k, other = (-1, -2) if which == 0 else (-2, -1)
    bits = atom_bits(turned)[which]
    pack = atom.pack
    reg = [(k, i) for i in range(pack)]
    lane = [(k, pack), (k, pack + 1), (other, bits[0]), (other, bits[1]), (other, bits[2])]
    if which == 0 and atom.m > 3:
        reg.append((other, bits[3]))
    reg += [(k, i) for i in range(pack + 2, atom.k)]
    rank = len(shape)
    mine = rank - 2 if which == 0 else rank - 1
    own = [(d, bit) if d == mine or (d == 0 and rank == 3) else (-1, 0) for d, bit in warps]
    return _fragment(shape, own, reg, lane)


def scale_layout(
    shape: Sequence[int],
    which: int,
    warps: Sequence[tuple[int, int]],
    rows_in_registers: bool,
    of_results: bool = False,
) -> LinearLayout:
    """Scales of A ([M, blocks]) or B ([blocks, N]) for mma.sync: four neighbours along K make a register, lane 4 g holds
    row (column) g, lane 4 g + 1 row g + 8 of A; with `rows_in_registers` every lane of the four holds both. `of_results`:
    lane 4 g + t holds those of B that its results have, columns 2 t and 2 t + 1."""
    k, other = (-1, -2) if which == 0 else (-2, -1)
    reg = [(k, 0), (k, 1)]
    lane = [(0, 99), (0, 99), (other, 0), (other, 1), (other, 2)]
    if which == 1 and of_results:
        reg.append((other, 0))
        lane = [(other, 1), (other, 2), (0, 99), (0, 99), (0, 99)]
    elif which == 0:
        if rows_in_registers:
            reg.append((other, 3))
        else:
            lane[0] = (other, 3)
    own = [(d, bit) if d == which else (-1, 0) for d, bit in warps]
    return _fragment(shape, own, reg, lane)


def _fragment(
    shape: Sequence[int],
    warps: Sequence[tuple[int, int]],
    reg: list[tuple[int, int]],
    lane: list[tuple[int, int]],
) -> LinearLayout:
    """Columns from (dimension, bit) pairs; bits the tile does not have become copies, the rest go to registers."""
    rank = len(shape)
    counts = [log2(e) for e in shape]
    low = [0] * rank
    total = 0
    for d in reversed(range(rank)):
        low[d] = total
        total += counts[d]
    used = set()

    def column(d: int, bit: int) -> int:
        if d < 0:
            d += rank
        if d < 0 or bit >= counts[d]:
            return 0
        used.add((d, bit))
        return 1 << (low[d] + bit)

    lanes = [column(*p) for p in lane]
    warp = [column(*p) if p[0] >= 0 else 0 for p in warps]
    regs = [column(*p) for p in reg]
    regs = [c for c in regs if c]
    for d in reversed(range(rank)):
        for bit in range(counts[d]):
            if (d, bit) not in used:
                regs.append(1 << (low[d] + bit))
    assert len(lanes) == LANE_BITS
    return LinearLayout(total, regs, lanes, warp)
