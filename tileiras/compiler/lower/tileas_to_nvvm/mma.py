"""mmaf and mmai: mma.sync over fragments, or fused multiply-adds where no atom fits.

Layout assignment gave operands and accumulator the atom's fragment layouts, so registers are found by packed
index. Extents below the atom's: missing rows and columns are copies (their results are copies too), missing K
is zero in one operand.
"""

from __future__ import annotations

from tileiras.compiler.layout import convert
from tileiras.compiler.layout.linear import dim_bits
from tileiras.compiler.target import mma as atoms

from .state import Lowering, LoweringError, Tile
from .transfer import pack_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op


def lower_mma(lowering: Lowering, op: Op) -> None:
    name = op.attrs.get("atom")
    if name == atoms.FMA:
        from .fma import lower_fma_mma

        return lower_fma_mma(lowering, op)
    atom = atoms.fragments_of(op.spec.name, name)
    if atom is None:
        raise lowering.undecided(op, "atom", "TileASSelectAtoms")
    check_fragments(op, atom)
    b = lowering.b
    lhs, rhs = lowering.tile(op.operands[0]), lowering.tile(op.operands[1])
    result = op.results[0]
    layout = result.type.layout  # type: ignore[attr-defined]
    acc = list(lowering.regs_as(op.operands[2], layout))
    narrow = result.type.elem.name == "f16"  # type: ignore[attr-defined]
    if narrow:
        acc = [b.emit("cvt.f32.f16", x) for x in acc]
    shape = result.type.shape  # type: ignore[attr-defined]
    rank = len(shape)
    acc_dims = dim_bits(shape)
    a_dims, b_dims = dim_bits(lhs.shape), dim_bits(rhs.shape)
    m_low, n_low = acc_dims[-2][0], acc_dims[-1][0]
    k_bits = a_dims[-1][1]
    # blocks: register offsets of the accumulator with the atom's own bits cleared
    m_bits, n_bits = atoms.atom_bits(atoms.turned(layout, shape))
    inner = sum(1 << m_low + bit for bit in m_bits[: atom.m] if bit < acc_dims[-2][1])
    inner |= sum(1 << n_low + bit for bit in n_bits if bit < acc_dims[-1][1])
    far = 1 << m_bits[3]  # the second half of the instruction's rows
    reg_of = layout.reg_of
    blocks = sorted({offset & ~inner for offset in layout.reg_table})
    k_blocks = [k << atom.k for k in range(max(1, 1 << max(0, k_bits - atom.k)))]
    scales = None
    if op.spec.name == "mma_block_scaled":
        from .block_scaled import scales_of

        scales = scales_of(lowering, op)
    a_words: dict[tuple[int, int, int], list[Any]] = {}
    b_words: dict[tuple[int, int, int], list[Any]] = {}
    for block in blocks:
        m = block >> m_low & ((1 << acc_dims[-2][1]) - 1)
        n = block >> n_low & ((1 << acc_dims[-1][1]) - 1)
        batch = block >> acc_dims[0][0] if rank == 3 else 0
        # the four (or two) accumulator registers: columns 0, 1 of row 0, then of row 8
        places = []
        for i in range(4 if atom.m > 3 else 2):
            column = (i & 1) << n_bits[0] if acc_dims[-1][1] > 0 else 0
            row = far if i & 2 and acc_dims[-2][1] > 3 else 0
            places.append(reg_of[block | column << n_low | row << m_low])
        d = [acc[p] for p in places]
        for k in k_blocks:
            if (batch, m, k) not in a_words:
                words = _fragment(lowering, atom, lhs, a_dims, 0, batch, m, k, k_bits, far)
                a_words[batch, m, k] = words if scales is None else scales.prepared(words, 0, m, k)
            if (batch, n, k) not in b_words:
                words = _fragment(lowering, atom, rhs, b_dims, 1, batch, n, k, k_bits, far)
                b_words[batch, n, k] = words if scales is None else scales.prepared(words, 1, n, k)
            if scales is not None:
                d = scales.multiply(d, a_words[batch, m, k], b_words[batch, n, k], m, n, k)
                continue
            d = _mma(lowering, atom, d, a_words[batch, m, k], b_words[batch, n, k])
        for p, value in zip(places, d):
            acc[p] = value
    if narrow:
        acc = [b.emit("cvt.rn.f16.f32", x) for x in acc]
    lowering.define(result, acc)


def check_fragments(op: Op, atom: Any) -> None:
    """What a product takes and makes lies in the atom's fragments: else a text was written by hand."""
    type: Any = op.result.type
    shape, layout = type.shape, type.layout
    turned = atoms.turned(layout, shape)
    place_of = {
        1 << low + bit: (d, bit) for d, (low, count) in enumerate(dim_bits(shape)) for bit in range(count)
    }
    warps = [place_of.get(column, (-1, 0)) for column in layout.warp]
    want = atoms.accumulator_layout(shape, atom, warps, turned)
    found = [(layout, want, "the result lies")]
    for which, words in ((0, "the left operand lies"), (1, "the right operand lies")):
        side: Any = op.operands[which].type
        found.append((side.layout, atoms.operand_layout(side.shape, atom, which, warps, turned), words))
    if op.spec.name == "mma_block_scaled":
        halves = op.attr("atom") == atoms.HALVES
        for which, words in ((0, "the left operand's scales lie"), (1, "the right operand's scales lie")):
            scales: Any = op.operands[3 + which].type
            signed = scales.elem.name == "f8E4M3FN"
            want = atoms.scale_layout(scales.shape, which, warps, signed or halves, halves and not signed)
            found.append((scales.layout, want, words))
    for have, want, words in found:
        if have is not want and convert.plan(have, want).kind != convert.RENAME:
            raise LoweringError(f"{words} in {have} where {want} is wanted: a convert_layout is missing")


def _fragment(
    lowering: Lowering,
    atom: Any,
    tile: Tile,
    dims: Any,
    which: int,
    batch: int,
    other: int,
    k: int,
    k_bits: int,
    far: int,
) -> list[Any]:
    """The 32-bit (f64: 64-bit) registers of one A or B fragment. `far`: from a row of A to its second one."""
    b = lowering.b
    k_low = dims[-1][0] if which == 0 else dims[-2][0]
    o_low, o_bits = dims[-2] if which == 0 else dims[-1]
    base = batch << dims[0][0] if len(dims) == 3 else 0
    reg_of = tile.layout.reg_of
    keep = ~tile.layout.inv
    pack = 1 << atom.pack
    halves = [0, far] if which == 0 and atom.m > 3 else [0]
    steps = [s << (atom.pack + 2) for s in range(1 << (atom.k - atom.pack - 2))]
    wide = tile.elem.name == "f64"  # type: ignore[attr-defined]
    words = []
    for step in steps:
        for half in halves:
            row = half if o_bits > 3 else 0
            values: list[Any] = []
            for i in range(pack):
                place = k + step + i
                if place >> k_bits:  # beyond the tile's K
                    values.append(None)
                    continue
                index = base | place << k_low | (other | row) << o_low
                values.append(tile.regs[reg_of[index & keep]])
            words.append(_word(lowering, tile, values, wide))
    if k_bits < atom.pack + 2:  # lanes that stand for missing K hold copies: they must not count twice
        missing = sum(1 << i for i in range(2) if atom.pack + i >= k_bits)
        own = b.entry("setp.eq.u32", b.entry("and.b32", b.tid, missing), 0)
        if which == 0:
            kind = "f64" if wide else "b32"
            zero = b.float("d", 0) if wide else 0
            words = [w if isinstance(w, int) else b.emit(f"selp.{kind}", w, zero, own) for w in words]
    return words


def _word(lowering: Lowering, tile: Tile, values: list[Any], wide: bool) -> Any:
    b = lowering.b
    if all(v is None for v in values):
        return b.float("d", 0) if wide else b.entry("mov.b32", 0)
    if len(values) == 1:
        return b.materialize(values[0], "d" if wide else "r")
    half = tile.elem.name in ("f16", "bf16")  # type: ignore[attr-defined]
    filled = [b.imm16(0) if v is None and half else 0 if v is None else v for v in values]
    return pack_words(lowering, filled, tile.elem)[0]


def _mma(lowering: Lowering, atom: Any, d: list[Any], a: list[Any], b_regs: list[Any]) -> list[Any]:
    b = lowering.b
    cls = "d" if atom.opcode.endswith("f64") else "r"
    out = tuple(b.reg(cls) for _ in d)
    c = tuple(b.materialize(x, cls) for x in d)
    if cls == "d":
        a = [b.materialize(x, "d") for x in a]
        b_regs = [b.materialize(x, "d") for x in b_regs]
    b.emit_to(out, atom.opcode, tuple(a), tuple(b_regs), c)
    return list(out)


LOWER = {"mmaf": lower_mma, "mmai": lower_mma, "mma_block_scaled": lower_mma}
