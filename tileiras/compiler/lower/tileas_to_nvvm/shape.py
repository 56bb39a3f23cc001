"""Ops that only rename: constants, iota, reshape, broadcast, permute, ids, tokens.

Layouts are computed in `tileaa_to_tileas`; here registers are matched by packed index.
"""

from __future__ import annotations

from tileiras.compiler.ir.dense import dense_bits
from tileiras.compiler.layout.linear import dim_bits
from tileiras.compiler.nvvm.build import _sym
from tileiras.compiler.nvvm.code import Var
from tileiras.compiler.nvvm.directives import tile_ctas
from tileiras.compiler.target.registers import reg_class

from .convert import join64, split64
from .state import Lowering, LoweringError, elem_bytes
from .transfer import load_elements

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op
    from tileiras.compiler.ir.types import Type


def constant_operand(lowering: Lowering, elem: Type, bits: int) -> Any:
    """The operand for a bit pattern of an element type."""
    b = lowering.b
    cls = reg_class(elem)
    name = str(elem)
    if cls == "p":
        return b.true(bool(bits & 1))
    if cls == "h":
        return b.imm16(bits)
    if name == "f32":
        return b.float("r", bits)
    if name == "f64":
        return b.float("d", bits)
    if name == "tf32":  # held as the f32 pattern
        return bits << 13
    return bits


def lower_constant(lowering: Lowering, op: Op) -> None:
    result = op.results[0]
    type = result.type
    values = dense_bits(op.attr("value"))
    elem = type.elem  # type: ignore[attr-defined]
    if len(values) == 1 or len(set(values)) == 1:
        lowering.define(result, [constant_operand(lowering, elem, values[0])] * type.layout.num_regs)  # type: ignore[attr-defined]
        return
    # a table in constant data, read by index
    layout = type.layout  # type: ignore[attr-defined]
    size = elem_bytes(elem)
    shift = 13 if str(elem) == "tf32" else 0
    data = b"".join((v << shift).to_bytes(size, "little") for v in values)
    name = f"{lowering.fn.name}$const{len(lowering.fn.variables)}"
    lowering.fn.variables.append(Var(name, "global", len(data), 16, data))
    b = lowering.b
    base = b.entry("mov.u64", _sym(name))
    thread = b.thread_linear([c * size for c in layout.lane], [c * size for c in layout.warp])
    out = []
    for offset in layout.reg_table:
        where = b.add(64, base, b.wide(b.xor(32, thread, offset * size), signed=False))
        out.append(load_elements(lowering, elem, b.address(where), "ld.global.nc"))
    lowering.define(result, out)


def lower_iota(lowering: Lowering, op: Op) -> None:
    result = op.results[0]
    layout = result.type.layout  # type: ignore[attr-defined]
    b = lowering.b
    bits = result.type.elem.bits  # type: ignore[attr-defined]
    out = []
    for index in coordinates(lowering, layout, 0, layout.bits):
        out.append(
            b.wide(index, signed=False) if bits == 64 else _as_pred(lowering, index) if bits == 1 else index
        )
    lowering.define(result, out)


def _as_pred(lowering: Lowering, index: Any) -> Any:
    b = lowering.b
    if isinstance(index, int):
        return b.true(bool(index & 1))
    return b.emit("setp.ne.b32", b.and_(32, index, 1), 0)


def coordinates(lowering: Lowering, layout: Any, low: int, count: int) -> list[Any]:
    """For every register the value of index bits [low, low + count): the coordinate in one dimension, 32 bits."""
    b = lowering.b
    mask = ((1 << count) - 1) << low
    thread = b.thread_linear(
        [(c & mask) >> low for c in layout.lane], [(c & mask) >> low for c in layout.warp]
    )
    used = 0
    for c in (*layout.lane, *layout.warp):
        used |= c & mask
    used >>= low
    out = []
    seen: dict[int, Any] = {}
    for offset in layout.reg_table:
        part = (offset & mask) >> low
        if part not in seen:
            if isinstance(thread, int):
                seen[part] = thread ^ part
            elif part & used:
                seen[part] = b.xor(32, thread, part)
            else:  # disjoint bits: an add, which folds into addresses
                seen[part] = b.add(32, thread, part)
        out.append(seen[part])
    return out


def _rename(lowering: Lowering, op: Op, move: Any) -> None:
    """Registers of the result by the index they come from: `move(result index) -> source index`."""
    source = lowering.tile(op.operands[0])
    result = op.results[0]
    layout = result.type.layout  # type: ignore[attr-defined]
    reg_of = source.layout.reg_of
    keep = ~source.layout.inv
    try:
        regs = [source.regs[reg_of[move(offset) & keep]] for offset in layout.reg_table]
    except KeyError as error:  # a text written by hand
        raise LoweringError(
            f"no thread has what {layout} wants of {source.layout}: a convert_layout is missing"
        ) from error
    lowering.define(result, regs)


def lower_reshape(lowering: Lowering, op: Op) -> None:
    _rename(lowering, op, lambda index: index)


def lower_permute(lowering: Lowering, op: Op) -> None:
    shape = op.operands[0].type.shape  # type: ignore[attr-defined]
    permutation = op.attr("permutation")
    source = dim_bits(shape)
    result = dim_bits([shape[p] for p in permutation])

    def move(index: int) -> int:
        out = 0
        for i, p in enumerate(permutation):
            out |= (index >> result[i][0] & ((1 << result[i][1]) - 1)) << source[p][0]
        return out

    _rename(lowering, op, move)


def lower_broadcast(lowering: Lowering, op: Op) -> None:
    source_shape = op.operands[0].type.shape  # type: ignore[attr-defined]
    target_shape = op.results[0].type.shape  # type: ignore[attr-defined]
    source = dim_bits(source_shape)
    target = dim_bits(target_shape)

    def move(index: int) -> int:
        out = 0
        for (slow, scount), (tlow, _) in zip(source, target):
            out |= (index >> tlow & ((1 << scount) - 1)) << slow
        return out

    _rename(lowering, op, move)


def bytes_of(lowering: Lowering, value: Any, elem: Any, count: int) -> list[Any]:
    """The bytes of one element in 32-bit registers, low first (upper bits undefined)."""
    b = lowering.b
    cls = reg_class(elem)
    if cls == "p":
        return [b.emit("selp.b32", 1, 0, value)]
    if cls == "d":
        low, high = split64(lowering, value)
        words = [low, high]
    elif cls == "h":
        words = [b.emit("cvt.u32.u16", value)]
    else:
        words = [b.materialize(value, "r")]
    return [words[i // 4] if i % 4 == 0 else b.shr(32, words[i // 4], 8 * (i % 4)) for i in range(count)]


def from_bytes(lowering: Lowering, parts: list[Any], elem: Any) -> Any:
    """One element from its bytes."""
    b = lowering.b
    cls = reg_class(elem)
    if len(parts) == 1:
        return b.emit("setp.ne.b32", b.and_(32, parts[0], 0xFF), 0) if cls == "p" else parts[0]
    words = []
    for i in range(0, len(parts), 4):
        group = parts[i : i + 4]
        low = b.emit("prmt.b32", group[0], group[1], 0x0040)
        if len(group) == 4:
            low = b.emit("prmt.b32", low, b.emit("prmt.b32", group[2], group[3], 0x0040), 0x5410)
        words.append(low)
    if cls == "d":
        return join64(lowering, *words)
    return b.emit("cvt.u16.u32", words[0]) if cls == "h" else words[0]


def lower_tile_block_id(lowering: Lowering, op: Op) -> None:
    lower_grid(lowering, op, "ctaid")


def lower_num_tile_blocks(lowering: Lowering, op: Op) -> None:
    lower_grid(lowering, op, "nctaid")


def lower_grid(lowering: Lowering, op: Op, name: str) -> None:
    """Numbers of tile blocks from those of CTAs; the CTAs that share one lie side by side along x."""
    b = lowering.b
    shared = tile_ctas(lowering.fn)
    for result, axis in zip(op.results, "xyz"):
        number = b.entry("mov.u32", _sym(f"%{name}.{axis}"))
        if axis == "x" and shared > 1:
            number = b.entry("shr.u32", number, shared.bit_length() - 1)
        lowering.define(result, [number])


def lower_cta_rank(lowering: Lowering, op: Op) -> None:
    lowering.define(op.result, [lowering.b.entry("mov.u32", _sym("%cluster_ctarank"))])


def lower_assume(lowering: Lowering, op: Op) -> None:
    """The facts were taken by the analysis; the value passes through."""
    lowering.env[op.results[0]] = lowering.env[op.operands[0]]


def lower_token(lowering: Lowering, op: Op) -> None:
    lowering.env[op.results[0]] = None


LOWER = {
    "constant": lower_constant, "iota": lower_iota, "reshape": lower_reshape, "permute": lower_permute,
    "broadcast": lower_broadcast,
    "get_tile_block_id": lower_tile_block_id, "get_num_tile_blocks": lower_num_tile_blocks,
    "get_cta_rank": lower_cta_rank,
    "assume": lower_assume, "make_token": lower_token, "join_tokens": lower_token,
}  # fmt: skip
