"""What the fields of nv_tileas ops cannot say: pipelines and their regions, layout conversions, schedules, TMA.

Rules that look beyond the op itself (the other half of a pipeline) hold for ops that stand in a block: an op under
construction is judged by its own fields only.
"""

from __future__ import annotations

from math import prod

from tileiras.compiler.dialects.nv_tileaa import verify as tensors
from tileiras.compiler.ir import types as T
from tileiras.compiler.ir.verify import Invalid, Rules
from tileiras.diag import Catalogue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tileiras.compiler.ir.core import Op, Value

D = Catalogue("tileiras.compiler.dialects.nv_tileas.diags")
# constraint -> (class in types.py, words)
OWN_TYPES = {
    "pipeline": ("PipelineType", "async pipeline"),
    "tensor_memory": ("TensorMemoryType", "tensor memory"),
    "shared": ("SharedType", "shared buffer"),
    "tma_descriptor": ("TmaDescriptor", "tensor-map descriptor"),
}
MAX_DEPTH = 16
STAGE_UNIT = 1024  # bytes after which the swizzle of 128-byte lines repeats
MAX_BOX = 256  # elements of one box dimension; PTX ISA, cuTensorMapEncodeTiled


def constraint(name: str) -> tuple[Callable[[Any], bool], str] | None:
    if name not in OWN_TYPES:
        return tensors.constraint(name)
    from . import types

    cls = getattr(types, OWN_TYPES[name][0])
    return (lambda t: isinstance(t, cls)), OWN_TYPES[name][1]


def listed(values: Any) -> str:
    return ", ".join(str(getattr(v, "type", v)) for v in values)


def types_of(values: Any) -> list[Any]:
    return [v.type for v in values]


def partners(pipeline: Value, *names: str) -> list[Op]:
    """Ops on a pipeline by short name, in order of use."""
    return [op for op, index in pipeline.uses if index == 0 and op.spec.name.rpartition(".")[2] in names]


def yielded(op: Op) -> list[Value]:
    return op.regions[0].block.ops[-1].operands


def check_create(op: Op) -> None:
    depth = op.attrs.get("depth")
    if not isinstance(depth, int) or not 1 <= depth <= MAX_DEPTH:
        raise Invalid(D.DEPTH, got=depth)


def check_no_args(op: Op) -> None:
    args = op.regions[0].blocks[0].args if op.regions[0].blocks else []
    if args:
        raise Invalid(D.PRODUCER_ARGS, got=f"[{listed(args)}]")


def check_produce_one(op: Op) -> None:
    check_no_args(op)
    if op.block is not None and not partners(op.operands[0], "consume_one"):
        raise Invalid(D.NO_CONSUMER)


def check_transfer(op: Op) -> None:
    check_no_args(op)
    check_yield(op)
    if op.block is not None:
        other = partners(op.operands[0], "produce_one", "consume_one")
        if other:
            raise Invalid(D.LEFT_OVER, other=other[0].spec.full_name)


def check_yield(op: Op) -> None:
    if types_of(op.results) != types_of(yielded(op)):
        raise Invalid(D.YIELD_TYPES, want=listed(op.results), got=listed(yielded(op)))


def check_consume_one(op: Op) -> None:
    check_yield(op)
    if op.block is None:
        return
    args = op.regions[0].block.args
    makers = partners(op.operands[0], "produce_one")
    for maker in makers:
        if types_of(yielded(maker)) != types_of(args):
            raise Invalid(D.CONSUMER_TYPES, want=listed(yielded(maker)), got=listed(args))
    if not makers:
        raise Invalid(D.CONSUMER_TYPES, want="", got=listed(args))


def check_convert_layout(op: Op) -> None:
    source: Any = op.operands[0].type
    result: Any = op.results[0].type
    if not isinstance(source, T.TensorType) or not isinstance(result, T.TensorType) or result.layout is None:  # type: ignore[attr-defined]
        raise Invalid(D.CONVERT_TYPES, got=source, want=result)
    plan = op.attrs.get("plan")
    if plan is not None and source.layout.bits == result.layout.bits:  # type: ignore[attr-defined]
        why = plan_problem(op, plan, source.layout, result.layout)  # type: ignore[attr-defined]
        if why is not None:
            raise Invalid(D.PLAN, plan=plan, why=why)


def plan_problem(op: Op, plan: str, source: Any, target: Any) -> str | None:
    """Why a plan would lose elements; None when it moves them all."""
    from tileiras.compiler.layout import convert
    from tileiras.compiler.layout.gf2 import rank
    from tileiras.compiler.layout.linear import with_inv

    if plan in (convert.RENAME, convert.SHUFFLE):
        kind = convert.plan(source, with_inv(target, source.inv)).kind
        return None if kind in (plan, convert.RENAME) else "elements change their warp or lane"
    if plan not in (convert.SHARED, convert.MATRICES, convert.STMATRIX):
        return "expected rename, shuffle, shared, ldmatrix or stmatrix"
    columns, size = op.attrs.get("columns", ()), op.attrs.get("bytes", 0)
    if len(columns) != source.bits:
        return f"{len(columns)} columns for {source.bits} index bits"
    if any(c < 0 or c >= size for c in columns):
        return f"columns beyond {size} bytes"
    fixed = source.inv | sum(op.attrs.get("rounds", ()))
    live = [c for k, c in enumerate(columns) if not fixed >> k & 1]
    return None if rank(live) == len(live) else "two elements have one place"


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


def check_schedule(op: Op) -> None:
    """A loop with a schedule: every op of its body has a stage, and none runs before a stage it depends on."""
    schedule = op.attrs.get("schedule")
    if not isinstance(schedule, dict):
        return
    stages = schedule.get("stages", 1)
    body = op.regions[0].block
    for index, inner in enumerate(body.ops[:-1]):
        stage = inner.attrs.get("stage", 0)
        if not isinstance(stage, int) or not 0 <= stage < stages:
            raise Invalid(
                D.SCHEDULE_STAGE, name=inner.spec.full_name, index=index, got=stage, last=stages - 1
            )
        need = max(
            (v.op.attrs.get("stage", 0) for v in inner.operands if v.op is not None and v.op.block is body),
            default=0,
        )
        if stage < need:
            raise Invalid(D.SCHEDULE_ORDER, name=inner.spec.full_name, index=index, got=stage, need=need)


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
    for which in ("barriers", "released"):
        start = op.attr(which)
        if start is None:
            continue
        end = start + span_of(stage, stages)
        fits = start % 8 == 0 and (start >= stages * stage or end <= 0)
        if alloc is not None and alloc.spec.name == "alloc_shared":
            fits = fits and start + alloc.attr("offset") >= 0 and end <= alloc.attr("bytes")
        if not fits:
            what = f"mbarriers from byte {start} to {end}, expected multiples of 8 around {stages} stages of {stage}"
            raise Invalid(D.STAGES, what=what)


def span_of(stage_bytes: int, stages: int) -> int:
    """Bytes from the first mbarrier of a ring to behind its last: the offset of a stage is shifted to that of its mbarrier."""
    return 8 * ((stages - 1) * stage_bytes // (stage_bytes & -stage_bytes) + 1)


def check_bulk_load(op: Op) -> None:
    check_stages(op)
    maps, starts, sizes, tile = op.attr("maps"), op.attr("starts"), op.attr("bytes"), op.attr("tile")
    index = op.group("index")
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
        part = tile[at : at + len(box)]
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


def check_func(op: Op) -> None:
    known = tensors.RULES.checks.get("func")
    if known is not None:
        known(op)
    if "nv_tileas.tensor_maps" in op.attrs:
        from .tensor_maps import maps_of

        try:
            maps = maps_of(op)
        except ValueError as error:
            raise Invalid(D.MAPS, why=str(error)) from None
        count = len(op.regions[0].block.args) if op.regions and op.regions[0].blocks else 0
        for map in maps:
            used = [map.base, *(s.value for s in (*map.extents, *map.strides) if s.kind == "param")]
            if max(used) >= count:
                raise Invalid(D.MAPS, why=f"parameter {max(used)} of {count}")


RULES = Rules()
RULES.constraint = constraint
RULES.type_problem = tensors.type_problem
RULES.checks = {
    **tensors.RULES.checks,
    "convert_layout": check_convert_layout,
    "async.pipeline.create": check_create,
    "async.pipeline.transfer": check_transfer,
    "async.pipeline.produce_one": check_produce_one,
    "async.pipeline.consume_one": check_consume_one,
    "async.tiled_tma_load": check_tma_load,
    "tiled_tma_load": check_tma_load,
    "bulk.begin": check_stages,
    "bulk.load": check_bulk_load,
    "bulk.wait": check_stages,
    "bulk.end": check_stages,
    "func": check_func,
    "for": check_schedule,
}
