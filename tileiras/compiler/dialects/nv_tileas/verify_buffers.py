"""Buffers in shared memory and columns of tensor memory: how large, where, apart from each other; waits for groups."""

from __future__ import annotations

from tileiras.compiler.ir.verify import Invalid
from tileiras.compiler.layout.linear import LinearLayout
from tileiras.diag import Catalogue

from ..nv_tileaa.kernel_spec import KEY
from .rings import BUFFER_BYTES
from .verify_accesses import check_widths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from tileiras.compiler.ir.core import Op, Value

D = Catalogue("tileiras.compiler.dialects.nv_tileas.diags")
ALIGNMENT = 16  # bytes of the widest access
WIDTHS = (4, 8, 16)  # bytes that cp.async copies
PAIRED_ROWS, PAIRED_COLUMNS = (
    128,
    (32, 256),
)  # of each CTA of a pair; of a product of theirs, least and most; PTX ISA
COLUMNS = (32, 64, 128, 256, 512)  # that tcgen05.alloc gives; PTX ISA
PIECES = (4, 128)  # registers of a thread that tcgen05.ld and st move, in each form; PTX ISA
LANES = (
    0,
    16,
)  # where accumulators begin in those of a warp: of 64 rows two lie in the same columns; PTX ISA, layout F


def check_alloc_shared(op: Op) -> None:
    start, size = op.attr("offset"), op.attr("bytes")
    if start < 0 or start % ALIGNMENT or size < 1 or start + size > BUFFER_BYTES:
        what = f"{size} bytes from byte {start}, expected a multiple of {ALIGNMENT}, and {BUFFER_BYTES} bytes at most"
        raise Invalid(D.BUFFER, what=what)
    for other in beside(op):
        there, length = other.attr("offset"), other.attr("bytes")
        if there is not None and length is not None and start < there + length and there < start + size:
            what = f"bytes {start} to {start + size}, and another that lives has {there} to {there + length}"
            raise Invalid(D.BUFFER, what=what)


def check_copy(op: Op) -> None:
    """The tile has a place for each element, and a layout of the threads that copy chunks of a width that there is."""
    layout, width = op.attrs.get("layout"), op.attr("width")
    if not isinstance(layout, LinearLayout):
        raise Invalid(D.BUFFER, what=f"layout {layout}, expected which thread copies what")
    if width not in WIDTHS:
        raise Invalid(
            D.BUFFER, what=f"chunks of {width} bytes, expected one of {', '.join(map(str, WIDTHS))}"
        )
    source: Any = op.operands[3].type
    elem = source.view.elem if op.spec.name == "async.copy_view" else getattr(source.elem, "pointee", None)
    size = max(1, getattr(elem, "bits", 8) // 8)
    if width < size or layout.bits < (width // size).bit_length() - 1:
        raise Invalid(D.BUFFER, what=f"chunks of {width} bytes in a tile of {size << layout.bits}")
    if op.attrs.get("together"):
        check_widths(op)
    check_place("start", op.attr("start"), arranged(op, layout.bits), size, op.operands[0])


def check_tile_in_shared(op: Op) -> None:
    tile: Any = (op.results[0] if op.results else op.operands[2]).type
    bits = getattr(getattr(tile, "layout", None), "bits", None)
    if bits is None:
        raise Invalid(D.BUFFER, what=f"a tile of {tile}, expected a tensor with a layout")
    size = max(1, getattr(tile.elem, "bits", 8) // 8)
    check_place("start", op.attr("start"), arranged(op, bits), size, op.operands[0])


def arranged(op: Op, bits: int) -> tuple[int, ...]:
    """Where the elements of a tile lie in a slot: bytes for each bit of their index."""
    found = op.attrs.get("arrangement")
    if (
        not isinstance(found, tuple)
        or len(found) != bits
        or not all(isinstance(c, int) and c >= 0 for c in found)
    ):
        raise Invalid(D.BUFFER, what=f"arrangement {found}, expected {bits} places of bytes")
    return found


def check_place(
    name: str, start: int, arrangement: Sequence[int], size: int, buffer: Value, alignment: int = 1
) -> None:
    """A tile lies inside of a buffer, from a byte on at which what accesses it is aligned."""
    maker = buffer.op
    if maker is None or maker.spec.name != "alloc_shared":
        return
    end, most = start + size, maker.attr("bytes")
    seen = 0
    for column in arrangement:
        seen |= column
    if start < 0 or start % alignment or end + seen > most:
        what = f"{name} {start}, from which a tile goes to byte {end + seen}, in a buffer of {most} bytes"
        raise Invalid(D.BUFFER, what=what)


def beside(op: Op) -> Iterator[Op]:
    """The buffers that are allocated while this one lives: in its block, up to where it is freed, and in the regions there.
    Warps that read a ring free it: others no longer fill it then."""
    block = op.block
    if block is None:
        return
    buffer = op.results[0]
    for later in block.ops[block.ops.index(op) + 1 :]:
        if later.spec.name == "free_shared" and later.operands[0] is buffer:
            return
        agent = later.spec.name == "agent"
        for inner in later.walk() if later.regions else (later,):
            if agent and inner.spec.name == "free_shared" and inner.operands[0] is buffer:
                return
            if inner.spec.name == "alloc_shared":
                yield inner


def check_tensor_alloc(op: Op) -> None:
    columns, start = op.attr("columns"), op.attr("offset")
    if columns not in COLUMNS or start < 0:
        raise Invalid(D.BUFFER, what=f"{columns} columns, expected one of {', '.join(map(str, COLUMNS))}")
    func = op.parent
    while func is not None and func.spec.name != "func":
        func = func.parent
    if op.attr("pair") and func is not None:
        spec = func.attrs.get(KEY)
        if (getattr(spec, "cluster_dim", None) or (1,))[0] % 2:
            raise Invalid(D.BUFFER, what="columns of a pair of CTAs, and an odd number of CTAs in a cluster")


def check_pairing(op: Op) -> None:
    """Tensor memory is one CTA's or a pair's for all that is done with it."""
    maker = op.operands[0].op
    while maker is not None and maker.spec.name in ("tensor_memory.begin", "tensor_memory.turn"):
        maker = maker.operands[0].op
    if maker is None or maker.spec.name != "tensor_memory.alloc":
        return
    if bool(maker.attr("pair")) != bool(op.attr("pair")):
        whose = "a pair's" if maker.attr("pair") else "one CTA's"
        raise Invalid(D.BUFFER, what=f"{whose} columns")


def check_tensor_begin(op: Op) -> None:
    check_pairing(op)
    column, alloc = op.attr("column"), op.operands[0].op
    most = (
        alloc.attr("columns")
        if alloc is not None and alloc.spec.name == "tensor_memory.alloc"
        else COLUMNS[-1]
    )
    if not 0 <= column < most:
        raise Invalid(D.BUFFER, what=f"column {column} of {most}")
    lane = op.attr("lane") or 0
    if lane not in LANES:
        raise Invalid(D.BUFFER, what=f"lane {lane}, expected one of {', '.join(map(str, LANES))}")


def check_pieces(op: Op) -> None:
    """An instruction moves a power of two of registers, of a block of rows 128 at most."""
    most = op.attr("most")
    if most is not None and (most & (most - 1) or not PIECES[0] <= most <= PIECES[1]):
        what = f"{most} registers an instruction, expected a power of two from {PIECES[0]} to {PIECES[1]}"
        raise Invalid(D.BUFFER, what=what)


def check_wait_group(op: Op) -> None:
    if op.attr("pending") < 0:
        raise Invalid(D.BUFFER, what=f"{op.attr('pending')} groups that may be pending")
