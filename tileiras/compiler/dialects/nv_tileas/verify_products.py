"""Products of operands in shared memory: extents that the instructions have, where operands and sums lie, what is waited for."""

from __future__ import annotations

from tileiras.compiler.ir.verify import Invalid
from tileiras.compiler.layout.linear import dim_bits
from tileiras.compiler.layout.shared import matrix_operand
from tileiras.compiler.target import tcgen05, wgmma
from tileiras.diag import Catalogue

from .verify_buffers import ALIGNMENT, PAIRED_COLUMNS, PAIRED_ROWS, check_pairing, check_place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op, Value

D = Catalogue("tileiras.compiler.dialects.nv_tileas.diags")
FRESH = (0, 1, 2)
LEAST_N = 8


def check_tensor_product(op: Op) -> None:
    """Of a left operand that lies in shared memory or (`product_rows`) in tensor memory."""
    check_pairing(op)
    elem, rows, columns, depth = op.attr("elem"), op.attr("m"), op.attr("n"), op.attr("depth")
    if elem not in tcgen05.TYPES:
        raise Invalid(D.BUFFER, what=f"elements of {elem}, expected one of {', '.join(tcgen05.TYPES)}")
    _, _, log2_k = tcgen05.TYPES[elem]
    check_extents(rows, columns, depth, 1 << log2_k)
    least, most = PAIRED_COLUMNS
    if op.attr("pair") and (rows % PAIRED_ROWS or not least <= columns <= most):
        raise Invalid(
            D.BUFFER,
            what=f"{rows} rows and {columns} columns of each CTA of a pair, expected {PAIRED_ROWS}, {least} to {most} columns",
        )
    size = 1 << 5 - log2_k
    if op.spec.name == "tensor_memory.product":
        check_operand(op, "a", op.operands[2], (rows, depth), size)
    check_operand(op, "b", op.operands[-2], (depth, columns >> bool(op.attr("pair"))), size)
    check_sum(op, rows, columns)


def check_tensor_scaled(op: Op) -> None:
    """Elements of four bits lie two to a byte, and `depth` counts bytes."""
    form = op.attr("elem"), op.attr("scale"), op.attr("block")
    if form not in tcgen05.SCALED:
        raise Invalid(D.BUFFER, what=f"elements of {form[0]} with scales of {form[1]} for {form[2]} of them")
    rows, columns, depth = op.attr("m"), op.attr("n"), op.attr("depth")
    check_extents(rows, columns, depth, tcgen05.SCALED_BYTES)
    check_operand(op, "a", op.operands[3], (rows, depth), 1)
    check_operand(op, "b", op.operands[5], (depth, columns), 1)
    check_sum(op, rows, columns)


def check_wgmma(op: Op) -> None:
    """Of a left operand in shared memory or (`wgmma.registers`) in registers."""
    elem, depth, type = op.attr("elem"), op.attr("depth"), op.results[0].type
    row = wgmma.row_of(elem)
    shape: tuple[int, ...] = getattr(type, "shape", ())
    if row is None or len(shape) != 2:
        raise Invalid(
            D.BUFFER, what=f"elements of {elem} and a result of {type}, which no warpgroup multiplies"
        )
    few = op.spec.name == "wgmma.registers" and shape[0] in tcgen05.FEW
    check_extents(wgmma.M if few else shape[0], shape[1], depth, 1 << row[1])
    layout: Any = getattr(type, "layout", None)
    if layout is None or wgmma.split_groups(shape, len(layout.warp)) is None:
        raise Invalid(D.BUFFER, what=f"a result of {type}, which is not whole rows and columns of warpgroups")
    size = 1 << 5 - row[1]
    if op.spec.name == "wgmma":
        check_operand(op, "a", op.operands[0], (shape[0], depth), size)
    check_operand(op, "b", op.operands[-3], (depth, shape[1]), size)


def check_extents(rows: int, columns: int, depth: int, slice: int) -> None:
    """The instructions take 64 rows, or 128 after 128, and whole slices of K."""
    for what, extent, least in (
        ("rows", rows, wgmma.M),
        ("columns", columns, LEAST_N),
        ("deep", depth, slice),
    ):
        if extent < least or extent & extent - 1:
            raise Invalid(D.BUFFER, what=f"{extent} {what}, expected a power of two from {least}")


def check_operand(op: Op, name: str, buffer: Value, shape: tuple[int, int], size: int) -> None:
    """An operand of an extent in shared memory: arranged as a matrix that a descriptor says, inside of its buffer."""
    start, arrangement = op.attr(f"{name}_start"), op.attrs.get(f"{name}_arrangement")
    first, second = dim_bits(shape)
    k, other = (second, first) if name == "a" else (first, second)
    bits = first[1] + second[1]
    if not isinstance(arrangement, tuple) or len(arrangement) != bits:
        raise Invalid(D.BUFFER, what=f"{name}_arrangement {arrangement}, expected {bits} places of bytes")
    if min(arrangement) < 0 or matrix_operand(arrangement, k, other, size) is None:
        raise Invalid(D.BUFFER, what=f"{name}_arrangement {arrangement}, of which no descriptor is made")
    check_place(f"{name}_start", start, arrangement, size, buffer, ALIGNMENT)


def check_sum(op: Op, rows: int, columns: int) -> None:
    """The columns of a sum are among those that were allocated, in each of its buffers."""
    fresh, width = op.attr("fresh"), tcgen05.columns_of((rows, columns))
    if fresh not in FRESH:
        raise Invalid(D.BUFFER, what=f"fresh = {fresh}, expected 0, 1 or 2")
    first, maker = 0, op.operands[0].op
    while maker is not None and maker.spec.name in ("tensor_memory.begin", "tensor_memory.turn"):
        if maker.spec.name == "tensor_memory.begin":
            first += maker.attr("column")
        else:
            first += (maker.attr("buffers") - 1) * maker.attr("stride")
        maker = maker.operands[0].op
    if maker is None or maker.spec.name != "tensor_memory.alloc":
        return
    most = maker.attr("columns")
    if first + width > most:
        raise Invalid(D.BUFFER, what=f"a sum in columns {first} to {first + width} of {most}")


def check_turn(op: Op) -> None:
    buffers, stride = op.attr("buffers"), op.attr("stride")
    if buffers not in (1, 2) or not 0 <= stride <= tcgen05.COLUMNS:
        raise Invalid(D.BUFFER, what=f"{buffers} buffers {stride} columns apart, expected 1 or 2 of them")


# ops -> what has to be in the function, too, and what is missing where it is not
PARTNERS = {
    ("async.copy_view", "async.copy_pointers"): (("async.commit_group", "async.arrive"), "copies of no group"),
    ("async.commit_group",): (("async.wait_group",), "groups of copies that nobody waits for"),
    ("wgmma", "wgmma.registers"): (("wgmma.commit_group",), "products of no group"),
    ("wgmma.commit_group",): (("wgmma.wait_group",), "groups of products that nobody waits for"),
    ("tensor_memory.product", "tensor_memory.product_rows", "tensor_memory.product_scaled"): (
        ("tensor_memory.wait", "tensor_memory.load", "tensor_memory.scale"), "products that nobody waits for"),
    ("tensor_memory.turn",): (("tensor_memory.commit",), "sums that nobody commits"),
    ("tensor_memory.commit",): (
        ("tensor_memory.product", "tensor_memory.product_rows", "tensor_memory.product_scaled"), "sums of no products"),
    ("tensor_memory.acquire",): (("tensor_memory.release",), "sums that nobody releases"),
    ("tensor_memory.release",): (("tensor_memory.acquire",), "sums that are released for nobody"),
    ("tensor_memory.wait_stored",): (("tensor_memory.stored",), "operands that nobody stores"),
    ("tensor_memory.stored",): (("tensor_memory.wait_stored",), "stored operands that nobody waits for"),
}  # fmt: skip


def check_partners(func: Op) -> None:
    """Who waits has something to wait for in the function, and what goes its own way is waited for."""
    names = {op.spec.name for op in func.walk() if op.spec.dialect == "nv_tileas"}
    for some, (others, missing) in PARTNERS.items():
        if not names.isdisjoint(some) and names.isdisjoint(others):
            first = next(name for name in some if name in names)
            raise Invalid(D.BUFFER, what=f"{missing}: 'nv_tileas.{first}' without 'nv_tileas.{others[0]}'")
