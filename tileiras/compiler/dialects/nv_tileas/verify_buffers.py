"""Buffers in shared memory and columns of tensor memory: how large, where, apart from each other; waits for groups."""

from __future__ import annotations

from tileiras.compiler.ir.verify import Invalid
from tileiras.diag import Catalogue

from ..nv_tileaa.kernel_spec import KEY
from .rings import BUFFER_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from tileiras.compiler.ir.core import Op

D = Catalogue("tileiras.compiler.dialects.nv_tileas.diags")
ALIGNMENT = 16  # bytes of the widest access
PAIRED_ROWS, PAIRED_COLUMNS = (
    128,
    (32, 256),
)  # of each CTA of a pair; of a product of theirs, least and most; PTX ISA
COLUMNS = (32, 64, 128, 256, 512)  # that tcgen05.alloc gives; PTX ISA
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
        if start < there + length and there < start + size:
            what = f"bytes {start} to {start + size}, and another that lives has {there} to {there + length}"
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


def check_wait_group(op: Op) -> None:
    if op.attr("pending") < 0:
        raise Invalid(D.BUFFER, what=f"{op.attr('pending')} groups that may be pending")
