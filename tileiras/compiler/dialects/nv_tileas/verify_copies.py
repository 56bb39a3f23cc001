"""Copies by tensor maps: boxes, the stages of a ring in shared memory, and their mbarriers."""

from __future__ import annotations

from math import prod

from tileiras.compiler.ir.verify import Invalid
from tileiras.diag import Catalogue

from .rings import MAX_DEPTH, MBARRIER_BYTES, STAGE_UNIT, span_of
from .verify import listed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op

D = Catalogue("tileiras.compiler.dialects.nv_tileas.diags")
MAX_ARRIVALS = (1 << 20) - 1  # of a phase of an mbarrier; PTX ISA, mbarrier
PLACES = ("barriers", "stage_bytes", "released")
# one of each is there, and what there is where none is
PARTNERS = (
    (("bulk.load", "async.arrive"), "stages that nobody fills"),
    (("bulk.wait",), "stages that nobody waits for"),
    (("bulk.release", "bulk.commit"), "stages that nobody releases"),
)
MAX_BOX = 256  # elements of one box dimension; PTX ISA, cuTensorMapEncodeTiled


def check_tma_load(op: Op) -> None:
    descriptor: Any = op.operands[0].type
    rank = len(descriptor.box)
    coordinates = len(op.group("coordinates"))
    if coordinates != rank:
        raise Invalid(D.COORD_COUNT, want=rank, got=coordinates)
    if not 1 <= rank <= 5:
        raise Invalid(D.BOX, what=f"rank {rank}, expected 1 to 5")
    if any(not 1 <= d <= MAX_BOX for d in descriptor.box):
        raise Invalid(D.BOX, what=f"extents [{listed(descriptor.box)}], each must be from 1 to {MAX_BOX}")
    if descriptor.space != "shared":
        raise Invalid(D.SPACE, got=descriptor.space)


def check_stages(op: Op) -> None:
    """The mbarriers of a ring, 8 bytes each: behind the stages in the buffer, or in front of it."""
    stage, stages = op.attr("stage_bytes"), op.attrs.get("stages", 1)
    if stage < STAGE_UNIT or stage % STAGE_UNIT:
        raise Invalid(D.STAGES, what=f"stages of {stage} bytes, expected a multiple of {STAGE_UNIT}")
    if not 1 <= stages <= MAX_DEPTH:
        raise Invalid(D.STAGES, what=f"{stages} stages, expected 1 to {MAX_DEPTH}")
    if op.spec.name == "bulk.begin" and (op.attr("released") is None) != (op.attr("readers") is None):
        raise Invalid(
            D.STAGES, what="mbarriers that are released, and no number of readers, or the other way round"
        )
    alloc = op.operands[0].op
    if alloc is not None and alloc.spec.name == "alloc_shared" and stages * stage > alloc.attr("bytes"):
        raise Invalid(D.STAGES, what=f"{stages} stages of {stage} bytes in a buffer of {alloc.attr('bytes')}")
    for which in ("barriers", "released"):
        start = op.attr(which)
        if start is None:
            continue
        end = start + span_of(stage, stages)
        fits = start % MBARRIER_BYTES == 0 and (start >= stages * stage or end <= 0)
        if alloc is not None and alloc.spec.name == "alloc_shared":
            fits = fits and start + alloc.attr("offset") >= 0 and end <= alloc.attr("bytes")
        if not fits:
            where = f"mbarriers from byte {start} to {end}"
            want = f"multiples of {MBARRIER_BYTES} around {stages} stages of {stage}"
            raise Invalid(D.STAGES, what=f"{where}, expected {want}")
    for count in ("readers", "arrivals"):
        if op.attr(count) is not None and not 1 <= op.attr(count) <= MAX_ARRIVALS:
            raise Invalid(D.STAGES, what=f"{op.attr(count)} {count}, expected 1 to {MAX_ARRIVALS}")
    if op.block is not None:
        check_ring(op)


def check_ring(op: Op) -> None:
    """What uses the stages of a ring finds mbarriers that have begun, and each mbarrier has who arrives and who waits."""
    users = [user for user, index in op.operands[0].uses if index == 0]
    if op.spec.name != "bulk.begin":
        for begin in users:
            if begin.spec.name == "bulk.begin" and all(
                op.attrs.get(name, begin.attrs.get(name)) == begin.attrs.get(name) for name in PLACES
            ):
                return
        raise Invalid(
            D.STAGES, what=f"mbarriers from byte {op.attr('barriers')} that no 'nv_tileas.bulk.begin' begins"
        )
    names = {user.spec.name for user in users}
    for partners, missing in PARTNERS:
        if names.isdisjoint(partners) and (op.attr("released") is not None or "bulk.release" not in partners):
            raise Invalid(D.STAGES, what=f"{missing}: none is in a '{op.spec.dialect}.{partners[0]}'")


def check_bulk_load(op: Op) -> None:
    check_stages(op)
    maps, starts, sizes, tile = op.attr("maps"), op.attr("starts"), op.attr("bytes"), op.attr("tile")
    index = op.group("index")
    halved = op.attr("halved") or (False,) * len(tile)
    if len(halved) != len(tile) or any(halved) and not op.attr("pair"):
        raise Invalid(
            D.STAGES, what=f"{len(halved)} of {len(tile)} dimensions halved, which pairs of CTAs share"
        )
    if not len(maps) == len(starts) == len(sizes) > 0:
        raise Invalid(D.STAGES, what=f"{len(maps)} maps, {len(starts)} starts and {len(sizes)} sizes")
    if len(index) != len(tile):
        raise Invalid(D.COORD_COUNT, want=len(tile), got=len(index))
    func = op.parent
    while func is not None and func.spec.name != "func":
        func = func.parent
    if func is None:
        return
    from .tensor_maps import maps_of

    try:
        known = maps_of(func)
    except ValueError:
        return  # the function's own rule says so
    at = 0
    for number, start, size in zip(maps, starts, sizes):
        if not 0 <= number < len(known):
            raise Invalid(D.NO_MAP, map=number, count=len(known))
        box = known[number].box
        part = tuple(
            extent >> half for extent, half in zip(tile[at : at + len(box)], halved[at : at + len(box)])
        )
        at += len(box)
        if len(part) != len(box):
            raise Invalid(D.COORD_COUNT, want=at, got=len(index))
        if any(extent < 1 or extent % side for extent, side in zip(part, box)):
            raise Invalid(D.BOXES, tile=listed(part), box=listed(box))
        if size != prod(part) * known[number].element_bytes:
            raise Invalid(D.STAGES, what=f"{size} bytes for a tile of [{listed(part)}] elements")
        if start % STAGE_UNIT or not 0 <= start <= op.attr("stage_bytes") - size:
            raise Invalid(
                D.STAGES, what=f"{size} bytes at byte {start} of a stage of {op.attr('stage_bytes')}"
            )
    if at != len(index):
        raise Invalid(D.COORD_COUNT, want=at, got=len(index))
