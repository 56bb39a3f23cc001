"""What the fields of nv_tileas ops cannot say: layout conversions, schedules of loops, functions; collects the other families.

A family of checks is loaded with the first op that it is about.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileaa import verify as tensors
from tileiras.compiler.ir import types as T
from tileiras.compiler.ir.verify import Invalid, Rules, later
from tileiras.diag import Catalogue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tileiras.compiler.ir.core import Op

D = Catalogue("tileiras.compiler.dialects.nv_tileas.diags")
# constraint -> (class in types.py, words)
OWN_TYPES = {
    "pipeline": ("PipelineType", "async pipeline"),
    "tensor_memory": ("TensorMemoryType", "tensor memory"),
    "shared": ("SharedType", "shared buffer"),
    "tma_descriptor": ("TmaDescriptor", "tensor-map descriptor"),
}


def constraint(name: str) -> tuple[Callable[[Any], bool], str] | None:
    if name not in OWN_TYPES:
        return tensors.constraint(name)
    from . import types

    cls = getattr(types, OWN_TYPES[name][0])
    return (lambda t: isinstance(t, cls)), OWN_TYPES[name][1]


def listed(values: Any) -> str:
    return ", ".join(str(getattr(v, "type", v)) for v in values)


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


def check_convert_layouts(op: Op) -> None:
    """Every tile has one that it becomes, and a place of its own."""
    from tileiras.compiler.layout import convert

    types: list[Any] = [v.type for v in (*op.operands, *op.results)]
    sources, results = types[: len(op.operands)], types[len(op.operands) :]
    tiles = all(isinstance(t, T.TensorType) and t.layout is not None for t in types)
    if not tiles or len(sources) != len(results):
        raise Invalid(D.CONVERT_TYPES, got=listed(op.operands), want=listed(op.results))
    columns, size = op.attrs.get("columns", ()), op.attr("bytes")
    starts = (*op.attrs.get("starts", ()), size)
    why = None
    if len(starts) != len(sources) + 1 or len(op.attrs.get("vectors", ())) != 2 * len(sources):
        why = f"places of {len(starts) - 1} of {len(sources)} tiles"
    elif len(columns) != sum(source.layout.bits for source in sources):
        why = f"{len(columns)} columns for {sum(source.layout.bits for source in sources)} index bits"
    elif list(starts) != sorted(starts) or starts[0] < 0:
        why = "places that are not one behind the other"
    for n, (source, result) in enumerate(zip(sources, results)):
        if source.elem is not result.elem or source.shape != result.shape:
            raise Invalid(D.CONVERT_TYPES, got=source, want=result)
        own, columns = columns[: source.layout.bits], columns[source.layout.bits :]
        why = why or place_problem(own, starts[n + 1] - starts[n], source.layout, 0)
    if why is not None:
        raise Invalid(D.PLAN, plan=convert.SHARED, why=why)


def plan_problem(op: Op, plan: str, source: Any, target: Any) -> str | None:
    """Why a plan would lose elements; None when it moves them all."""
    from tileiras.compiler.layout import convert
    from tileiras.compiler.layout.linear import with_inv

    if plan in (convert.RENAME, convert.SHUFFLE):
        kind = convert.plan(source, with_inv(target, source.inv)).kind
        return None if kind in (plan, convert.RENAME) else "elements change their warp or lane"
    if plan not in (convert.SHARED, convert.MATRICES, convert.STMATRIX):
        return "expected rename, shuffle, shared, ldmatrix or stmatrix"
    return place_problem(
        op.attrs.get("columns", ()), op.attrs.get("bytes", 0), source, sum(op.attrs.get("rounds", ()))
    )


def place_problem(columns: tuple[int, ...], size: int, source: Any, rounds: int) -> str | None:
    """Why so many bytes do not hold what moves of a tile at once, element by element; None where they do."""
    from tileiras.compiler.layout.gf2 import rank

    if len(columns) != source.bits:
        return f"{len(columns)} columns for {source.bits} index bits"
    if any(c < 0 or c >= size for c in columns):
        return f"columns beyond {size} bytes"
    fixed = source.inv | rounds
    live = [c for k, c in enumerate(columns) if not fixed >> k & 1]
    return None if rank(live) == len(live) else "two elements have one place"


def check_func(op: Op) -> None:
    known = tensors.RULES.checks.get("func")
    if known is not None:
        known(op)
    if op.regions and op.regions[0].blocks:
        from .verify_products import check_partners

        check_partners(op)
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


def check_for(op: Op) -> None:
    tensors.check_loop(op)
    check_schedule(op)


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


def check_worked_in(op: Op) -> None:
    """No result carries the layout in which the op works: an attribute does."""
    known = tensors.RULES.checks.get(op.spec.name)
    if known is not None:
        known(op)
    if op.block is None:  # not in its place yet
        return
    value: Any = op.group(WORKED_ON[op.spec.name])[0].type
    layout = op.attrs.get("layout")
    have = getattr(value, "layout", None)
    if have is not None and getattr(layout, "bits", None) != have.bits:
        raise Invalid(D.BUFFER, what=f"layout {layout}, expected one of {have.bits} index bits")


def check_access(op: Op) -> None:
    """A load or store of global memory: what its layout says, where it says how wide it is."""
    check = check_worked_in if op.spec.name in WORKED_ON else tensors.RULES.checks.get(op.spec.name)
    if check is not None:
        check(op)
    if op.attrs.get("vector") or op.attrs.get("together") or "apart" in op.attrs:
        check_widths(op)


check_widths = later("nv_tileas.verify_accesses", "check_widths")
# ops -> the operand that has the layout in which they work
WORKED_ON = {
    "store_view_tko": "tile", "store_ptr_tko": "value", "atomic_red_view_tko": "value", "reduce": "operands",
    "local_write": "value",
}  # fmt: skip
ACCESSES = (
    "load_view_tko", "load_ptr_tko", "atomic_rmw_tko", "atomic_cas_tko", "store_view_tko", "store_ptr_tko",
    "atomic_red_view_tko",
)  # fmt: skip
RULES = Rules()
RULES.constraint = constraint
RULES.type_problem = tensors.type_problem
RULES.checks = {
    **tensors.RULES.checks,
    **dict.fromkeys(WORKED_ON, check_worked_in),
    **dict.fromkeys(ACCESSES, check_access),
    "convert_layout": check_convert_layout,
    "convert_layouts": check_convert_layouts,
    "func": check_func,
    "async.pipeline.create": later("nv_tileas.verify_pipelines", "check_create"),
    "async.pipeline.transfer": later("nv_tileas.verify_pipelines", "check_transfer"),
    "async.pipeline.produce_one": later("nv_tileas.verify_pipelines", "check_produce_one"),
    "async.pipeline.consume_one": later("nv_tileas.verify_pipelines", "check_consume_one"),
    "for": check_for,
    "async.tiled_tma_load": later("nv_tileas.verify_copies", "check_tma_load"),
    "tiled_tma_load": later("nv_tileas.verify_copies", "check_tma_load"),
    "bulk.begin": later("nv_tileas.verify_copies", "check_stages"),
    "bulk.load": later("nv_tileas.verify_copies", "check_bulk_load"),
    "bulk.wait": later("nv_tileas.verify_copies", "check_stages"),
    "bulk.acquire": later("nv_tileas.verify_copies", "check_stages"),
    "async.arrive": later("nv_tileas.verify_copies", "check_stages"),
    "bulk.release": later("nv_tileas.verify_copies", "check_stages"),
    "bulk.commit": later("nv_tileas.verify_copies", "check_stages"),
    "bulk.end": later("nv_tileas.verify_copies", "check_stages"),
    "alloc_shared": later("nv_tileas.verify_buffers", "check_alloc_shared"),
    "tensor_memory.alloc": later("nv_tileas.verify_buffers", "check_tensor_alloc"),
    "tensor_memory.begin": later("nv_tileas.verify_buffers", "check_tensor_begin"),
    "tensor_memory.product": later("nv_tileas.verify_products", "check_tensor_product"),
    "tensor_memory.product_rows": later("nv_tileas.verify_products", "check_tensor_product"),
    "tensor_memory.product_scaled": later("nv_tileas.verify_products", "check_tensor_scaled"),
    **{
        f"tensor_memory.{name}": later("nv_tileas.verify_buffers", "check_pieces")
        for name in ("store", "load", "scale")
    },
    "tensor_memory.turn": later("nv_tileas.verify_products", "check_turn"),
    "wgmma": later("nv_tileas.verify_products", "check_wgmma"),
    "wgmma.registers": later("nv_tileas.verify_products", "check_wgmma"),
    **{
        f"tensor_memory.{name}": later("nv_tileas.verify_buffers", "check_pairing")
        for name in ("free", "commit", "acquire", "release")
    },
    "async.copy_view": later("nv_tileas.verify_buffers", "check_copy"),
    "async.copy_pointers": later("nv_tileas.verify_buffers", "check_copy"),
    "load_shared": later("nv_tileas.verify_buffers", "check_tile_in_shared"),
    "store_shared": later("nv_tileas.verify_buffers", "check_tile_in_shared"),
    "async.wait_group": later("nv_tileas.verify_buffers", "check_wait_group"),
    "wgmma.wait_group": later("nv_tileas.verify_buffers", "check_wait_group"),
}
