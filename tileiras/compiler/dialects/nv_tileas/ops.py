"""The nv_tileas dialect: nv_tileaa's ops over tensors with layouts, `convert_layout`, and asynchronous pipelines.

A pipeline hands values from producers to consumers through `depth` slots:

    %p = nv_tileas.async.pipeline.create {depth = 2}
    %v = nv_tileas.async.pipeline.transfer %p { load; yield %x }      before MaterializeAsync
    nv_tileas.async.pipeline.produce_one %p { load; yield %x }        after it: the two halves
    %v = nv_tileas.async.pipeline.consume_one %p { ^bb0(%x): yield %x }

`produce_one` and `transfer` are what rules of the contract call produce-one-like. A pipeline with `transport = "cp.async"` keeps
its slots in shared memory; TileASLowerPipelines turns it into

    %s = nv_tileas.alloc_shared {bytes = 65536, offset = 0}
    nv_tileas.async.copy_view %s, %slot, %runs, %view[..]             global to shared, nobody waits
    nv_tileas.async.copy_pointers %s, %slot, %runs, %pointers, %mask  the same by a tile of pointers
    nv_tileas.async.commit_group                                      what was copied since the last one is a group
    nv_tileas.async.wait_group {pending = 1}                          all but the newest groups have landed
    nv_tileas.barrier                                                 and every warp knows
    %x = nv_tileas.load_shared %s, %slot {arrangement = [..]}
    nv_tileas.free_shared %s

With `transport = "bulk"` one thread issues bulk tensor copies of the function's `tensor_maps`, which complete on an mbarrier of
their stage; a phase of it is one use of the stage:

    nv_tileas.bulk.begin %s {barriers = 65536, stage_bytes = 32768, stages = 2}      mbarriers in their first phase
    nv_tileas.bulk.load %s, %slot, %runs, %i, %j, %k, %l {maps = [0, 1], tile = [128, 64, 64, 128], starts = [0, 16384], ..}
    nv_tileas.bulk.wait %s, %slot, %phase                             the stage has landed
    nv_tileas.bulk.release %s, %slot                                  this warp has read what the next copies overwrite
    nv_tileas.bulk.end %s                                             its bytes may be something else

Copies of threads may arrive on such mbarriers as well, instead of making groups: `bulk.begin` says how many `arrivals` a stage
has.

    nv_tileas.bulk.acquire %s, %slot, %phase                          who read the stage has released it
    nv_tileas.async.copy_view %s, %slot, %runs, %view[..]
    nv_tileas.async.arrive %s, %slot, %runs                           one arrival a thread, when its copies have landed

An arrangement gives, for every bit of a tile's packed index, the bytes that it adds by xor to the place of an element.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileaa.ops import tables
from tileiras.compiler.ir.spec import (
    NO_MEMORY_EFFECT,
    OPTIONAL,
    PURE,
    SINGLE_BLOCK,
    TERMINATOR,
    VARIADIC,
    Arg,
    Attr,
    OpSpec,
)  # fmt: skip

D = "nv_tileas"


# Of accesses of global memory: log2 of the elements that go with an instruction, and under one mask.
_VECTOR = Attr("vector", "i64", optional=True)
_TOGETHER = Attr("together", "i64", optional=True)
_APART = Attr("apart", "i64", optional=True)
_GLOBAL = {
    **dict.fromkeys(("load_view_tko", "store_view_tko"), (_VECTOR, _TOGETHER, _APART)),
    **dict.fromkeys(("load_ptr_tko", "store_ptr_tko"), (_VECTOR, _TOGETHER)),
    **dict.fromkeys(("atomic_rmw_tko", "atomic_cas_tko", "atomic_red_view_tko"), (_TOGETHER,)),
}


def _adapt(spec: OpSpec) -> None:
    """Layouts of operands and results may differ in names only: shapes and elements count. Accesses say how wide they are."""
    spec.attrs += _GLOBAL.get(spec.name, ())
    spec.same_shape += spec.same_type
    spec.same_elem += spec.same_type
    spec.same_type = ()


BY_NAME = tables(D, _adapt)
MODULE = BY_NAME["module"]
FUNC = BY_NAME["func"]

CONVERT_LAYOUT = OpSpec(
    "convert_layout", dialect=D,
    doc="The same elements, spread over the threads as the result's layout says.",
    operands=(Arg("source", "any"),), attrs=(Attr("plan", "string", optional=True),),
    results=(Arg("result", "any"),), traits=PURE,
)  # fmt: skip
CONVERT_LAYOUTS = OpSpec(
    "convert_layouts", dialect=D,
    doc="Several tiles that change their layouts through shared memory together: all are stored, then all are loaded.",
    operands=(Arg("sources", "any", VARIADIC),),
    attrs=(Attr("bytes", "i64"),),  # `columns` and `vectors` of each as convert_layout has them, and where it `starts`
    results=(Arg("results", "any", VARIADIC),), traits=PURE,
)  # fmt: skip
CREATE = OpSpec(
    "async.pipeline.create", dialect=D,
    doc="A pipeline: slots between who makes values and who uses them.",
    attrs=(Attr("depth", "i64"), Attr("transport", "string", optional=True)), results=(Arg("pipeline", "pipeline"),),
    traits=NO_MEMORY_EFFECT,
)  # fmt: skip
TRANSFER = OpSpec(
    "async.pipeline.transfer", dialect=D,
    doc="Makes values by its region and hands them through a pipeline: both halves in one, before MaterializeAsync.",
    operands=(Arg("pipeline", "pipeline"),), results=(Arg("results", "any", VARIADIC),),
    regions=1, traits=SINGLE_BLOCK, terminator="async.pipeline.yield",
)  # fmt: skip
PRODUCE_ONE = OpSpec(
    "async.pipeline.produce_one", dialect=D,
    doc="Makes the values of the next slot by its region.",
    operands=(Arg("pipeline", "pipeline"),), regions=1, traits=SINGLE_BLOCK,
    terminator="async.pipeline.yield",
)  # fmt: skip
CONSUME_ONE = OpSpec(
    "async.pipeline.consume_one", dialect=D,
    doc="The values of the oldest slot, which its region gets.",
    operands=(Arg("pipeline", "pipeline"),),
    results=(Arg("results", "any", VARIADIC),), regions=1, traits=SINGLE_BLOCK, terminator="async.pipeline.yield",
)  # fmt: skip
PIPELINE_YIELD = OpSpec(
    "async.pipeline.yield",
    dialect=D,
    doc="What the region of a pipeline op makes.",
    operands=(Arg("operands", "any", VARIADIC),),
    traits=TERMINATOR,
)
# Operands 2 .. R+1 are the coordinates; R is the box rank of the descriptor on operand 0.
TILED_TMA_LOAD = OpSpec(
    "async.tiled_tma_load", dialect=D,
    doc="Loads a tile by the tensor memory accelerator without waiting; operands 2 .. R+1 are the coordinates.",
    operands=(Arg("descriptor", "tma_descriptor"), Arg("token", "token"), Arg("coordinates", "scalar:int", VARIADIC)),
    results=(Arg("result", "any"), Arg("result_token", "token")),
)  # fmt: skip
SYNC_TMA_LOAD = OpSpec(
    "tiled_tma_load", dialect=D,
    doc="Loads a tile by the tensor memory accelerator and waits.",
    operands=(Arg("descriptor", "tma_descriptor"), Arg("coordinates", "scalar:int", VARIADIC)),
    results=(Arg("result", "any"),),
)  # fmt: skip
COPY = OpSpec(  # cp.async
    "async.copy", dialect=D,
    doc="Loads through pointers without waiting.",
    operands=(Arg("source", "tile:ptr"), Arg("token", "token")),
    results=(Arg("result", "any"), Arg("result_token", "token")),
)  # fmt: skip
WAIT = OpSpec(
    "async.wait",
    dialect=D,
    doc="Waits for asynchronous loads.",
    operands=(Arg("tokens", "token", VARIADIC),),
    results=(Arg("result", "token"),),
)
# Shared memory. `slot` is a byte offset into the buffer, a scalar of the block.
ALLOC_SHARED = OpSpec(
    "alloc_shared", dialect=D,
    doc="A buffer in shared memory.",
    attrs=(Attr("bytes", "i64"), Attr("offset", "i64")),
    results=(Arg("buffer", "shared"),), traits=NO_MEMORY_EFFECT,
)  # fmt: skip
CLEAR_SHARED = OpSpec(  # what tiles of 128 rows of block scales have beyond `filled`, in every slot
    "clear_shared",
    dialect=D,
    doc="Zeros in the holes that few rows of block scales leave in their tiles.",
    operands=(Arg("buffer", "shared"),),
    attrs=(
        Attr("start", "i64"),
        Attr("bytes", "i64"),
        Attr("filled", "i64"),
        Attr("slots", "i64"),
        Attr("stride", "i64"),
    ),
)
FREE_SHARED = OpSpec(
    "free_shared", dialect=D, doc="The end of a buffer in shared memory.", operands=(Arg("buffer", "shared"),)
)
LOAD_SHARED = OpSpec(
    "load_shared", dialect=D,
    doc="A tile from shared memory.",
    operands=(Arg("buffer", "shared"), Arg("slot", "scalar:int")),
    attrs=(Attr("start", "i64"), Attr("plan", "string", optional=True), Attr("vector", "i64", optional=True)),
    results=(Arg("result", "any"),),
)  # fmt: skip
STORE_SHARED = OpSpec(
    "store_shared", dialect=D,
    doc="A tile to shared memory.",
    operands=(Arg("buffer", "shared"), Arg("slot", "scalar:int"), Arg("value", "any")),
    attrs=(Attr("start", "i64"), Attr("plan", "string", optional=True), Attr("vector", "i64", optional=True)),
)  # fmt: skip
COPY_VIEW = OpSpec(  # cp.async of a tile of a view; elements outside of the view arrive as zeros
    "async.copy_view", dialect=D,
    doc="Copies a tile of a view to shared memory, nobody waits; elements outside of the view arrive as zeros.",
    operands=(Arg("buffer", "shared"), Arg("slot", "scalar:int"), Arg("runs", "scalar:int"), Arg("view", "any"),
              Arg("index", "tile:int", VARIADIC), Arg("token", "token", OPTIONAL)),
    attrs=(Attr("start", "i64"), Attr("width", "i64"), Attr("inbounds", "bools", optional=True), _TOGETHER),
)  # fmt: skip
COPY_POINTERS = OpSpec(  # cp.async of what a tile of pointers points at; what is masked off arrives as zeros
    "async.copy_pointers", dialect=D,
    doc="Copies what a tile of pointers points at to shared memory, nobody waits; elements that are masked off arrive as zeros.",
    operands=(Arg("buffer", "shared"), Arg("slot", "scalar:int"), Arg("runs", "scalar:int"), Arg("source", "any"),
              Arg("mask", "any", OPTIONAL), Arg("token", "token", OPTIONAL)),
    attrs=(Attr("start", "i64"), Attr("width", "i64"), _TOGETHER),
)  # fmt: skip
COMMIT_GROUP = OpSpec("async.commit_group", dialect=D, doc="What was copied since the last one is a group.")
WAIT_GROUP = OpSpec(
    "async.wait_group",
    dialect=D,
    doc="Waits until all but the newest groups have landed.",
    attrs=(Attr("pending", "i64"),),
)
_BARRIERS = (
    Attr("barriers", "i64"),
    Attr("stage_bytes", "i64"),
)  # where they begin in the buffer; bytes of a stage
ASYNC_ARRIVE = OpSpec(
    "async.arrive", dialect=D,
    doc="Each thread arrives on a stage's mbarrier when all that it has copied so far has landed.",
    operands=(Arg("buffer", "shared"), Arg("slot", "scalar:int"), Arg("runs", "scalar:int")), attrs=_BARRIERS,
)  # fmt: skip
_PAIR = Attr("pair", "unit", optional=True)  # for both CTAs of a pair, which multiply as one
_CTAS = Attr("ctas", "i64", optional=True)  # of the cluster, where they share copies
_RELEASED = Attr(
    "released", "i64", optional=True
)  # where mbarriers begin on which the warps that have read a stage arrive
BULK_BEGIN = OpSpec(
    "bulk.begin", dialect=D,
    doc="The mbarriers of a ring's stages begin with their first phase; a barrier follows before anyone uses them.",
    operands=(Arg("buffer", "shared"),),
    attrs=(*_BARRIERS, Attr("stages", "i64"), _RELEASED, Attr("readers", "i64", optional=True),
           Attr("arrivals", "i64", optional=True),  # of threads whose copies fill a stage; else one thread's
           _CTAS),
)  # fmt: skip
# `maps`, `bytes` and `starts` have an entry a tile; `index` and `tile` follow the maps' dimensions, outermost first.
BULK_LOAD = OpSpec(
    "bulk.load", dialect=D,
    doc="One thread issues the bulk tensor copies of a stage, which complete on its mbarrier; elements outside of the "
    "tensors arrive as zeros. With a phase it waits first until every warp has released the stage.",
    operands=(Arg("buffer", "shared"), Arg("slot", "scalar:int"), Arg("runs", "scalar:int"),
              Arg("index", "scalar:int", VARIADIC), Arg("phase", "scalar:int", OPTIONAL)),
    attrs=(*_BARRIERS, Attr("bytes", "i32s"), Attr("maps", "i32s"), Attr("tile", "i32s"), Attr("starts", "i32s"),
           Attr("inbounds", "bools", optional=True), _RELEASED, _CTAS,
           Attr("shared", "i32s", optional=True),  # 1 for each tile that the CTAs load together
           _PAIR, Attr("halved", "bools", optional=True)),  # for each dimension, whether each CTA of a pair loads one half of it
)  # fmt: skip
BULK_WAIT = OpSpec(
    "bulk.wait", dialect=D,
    doc="Waits until the copies of a stage have landed; the phase is 0 and 1 in turn.",
    operands=(Arg("buffer", "shared"), Arg("slot", "scalar:int"), Arg("phase", "scalar:int")),
    attrs=(*_BARRIERS, Attr("issuing", "i64", optional=True),  # 1: only the warp whose thread issues products waits
           Attr("proxy_fence", "unit", optional=True)),  # what threads copied is read in the asynchronous way
)  # fmt: skip
BULK_ACQUIRE = OpSpec(
    "bulk.acquire", dialect=D,
    doc="Waits until a stage has been released; the phase before the first counts as complete.",
    operands=(Arg("buffer", "shared"), Arg("slot", "scalar:int"), Arg("phase", "scalar:int")),
    attrs=(*_BARRIERS, Attr("released", "i64")),
)  # fmt: skip
BULK_RELEASE = OpSpec(
    "bulk.release", dialect=D,
    doc="Each warp says that it has read the stage that the next copies overwrite.",
    operands=(Arg("buffer", "shared"), Arg("slot", "scalar:int")),
    attrs=(*_BARRIERS, Attr("released", "i64"), _CTAS, Attr("threads", "unit", optional=True)),  # threads have read it as well
)  # fmt: skip
BULK_COMMIT = OpSpec(
    "bulk.commit", dialect=D,
    doc="The products issued before release their stage when they have read it.",
    operands=(Arg("buffer", "shared"), Arg("slot", "scalar:int")), attrs=(*_BARRIERS, Attr("released", "i64"), _PAIR, _CTAS),
)  # fmt: skip
BULK_END = OpSpec(
    "bulk.end", dialect=D,
    doc="The mbarriers of a ring are none any more; everybody has passed the last wait.",
    operands=(Arg("buffer", "shared"),), attrs=(*_BARRIERS, Attr("stages", "i64"), _RELEASED),
)  # fmt: skip
BARRIER = OpSpec(
    "barrier", dialect=D, doc="Waits for every warp of the block, or of the cluster.",
    attrs=(Attr("cluster", "unit", optional=True),),
)  # fmt: skip
# A product of warpgroups whose operands lie in shared memory, `a_start` and `b_start` bytes into their slots, arranged as
# `a_arrangement` and `b_arrangement` say. The accumulator may be read when its group has been waited for.
WGMMA = OpSpec(
    "wgmma", dialect=D,
    doc="A product of warpgroups whose operands lie in shared memory. The accumulator may be read when its "
    "group has been waited for.",
    operands=(Arg("a_buffer", "shared"), Arg("a_slot", "scalar:int"), Arg("b_buffer", "shared"), Arg("b_slot", "scalar:int"),
              Arg("acc", "any")),
    attrs=(Attr("depth", "i64"), Attr("elem", "string"), Attr("a_start", "i64"), Attr("b_start", "i64")),
    results=(Arg("result", "any"),),
)  # fmt: skip
WGMMA_REGISTERS = OpSpec(  # the same with the left operand in registers
    "wgmma.registers", dialect=D,
    doc="A product of warpgroups whose left operand is in registers.",
    operands=(Arg("a", "any"), Arg("b_buffer", "shared"), Arg("b_slot", "scalar:int"), Arg("acc", "any")),
    attrs=(Attr("depth", "i64"), Attr("elem", "string"), Attr("b_start", "i64")), results=(Arg("result", "any"),),
)  # fmt: skip
WGMMA_COMMIT = OpSpec(
    "wgmma.commit_group", dialect=D, doc="The products of warpgroups since the last one are a group."
)
WGMMA_WAIT = OpSpec(
    "wgmma.wait_group",
    dialect=D,
    doc="Waits until all but the newest groups of products are done.",
    attrs=(Attr("pending", "i64"),),
)
# Two warpgroups of an agent take turns at the tensor cores. Each waits at a named barrier of its own, `barrier` and the one
# behind it, where the other one arrives: `begin` and `end` stand in front of a loop and behind it, a `take` behind `begin`.
_TURN = (Attr("barrier", "i64"),)
TURNS_BEGIN = OpSpec(
    "turns.begin", dialect=D, doc="The second warpgroup lets the first one begin.", attrs=_TURN
)
TURNS_TAKE = OpSpec(
    "turns.take", dialect=D,
    doc="Waits until the other warpgroup has given its turn away; not before the elements of `after` are known.",
    operands=(Arg("after", "any", OPTIONAL),), attrs=_TURN,
)  # fmt: skip
TURNS_GIVE = OpSpec("turns.give", dialect=D, doc="It is the other warpgroup's turn.", attrs=_TURN)
TURNS_END = OpSpec(
    "turns.end", dialect=D, doc="The first warpgroup lets the second one take its last turn.", attrs=_TURN
)
# Products whose accumulator lies in tensor memory. A block allocates once; every product of a loop has an accumulator in
# what was allocated. `count` numbers the products issued there, two may be on their way; `before` says which one to wait
# for: 0 this iteration's, 1 the one before it, 2 the one before that.
_COUNTED = (Arg("memory", "tensor_memory"), Arg("count", "scalar:int"))
TENSOR_ALLOC = OpSpec(
    "tensor_memory.alloc", dialect=D,
    doc="Columns of tensor memory, taken once a block.",
    attrs=(Attr("columns", "i64"), Attr("offset", "i64"), _PAIR),
    results=(Arg("memory", "tensor_memory"),), traits=NO_MEMORY_EFFECT,
)  # fmt: skip
TENSOR_FREE = OpSpec(
    "tensor_memory.free",
    dialect=D,
    doc="Gives the columns back.",
    operands=(Arg("memory", "tensor_memory"),),
    attrs=(_PAIR,),
)
TENSOR_BEGIN = OpSpec(  # the `number`th accumulator of a loop; a barrier follows before anyone uses it
    "tensor_memory.begin", dialect=D,
    doc="The accumulator of one product of a loop; a barrier follows before anyone uses it.",
    operands=(Arg("memory", "tensor_memory"),),
    attrs=(Attr("column", "i64"), Attr("number", "i64"), Attr("readers", "i64", optional=True),
           Attr("writers", "i64", optional=True),  # warps that store operands of its products
           Attr("lane", "i64", optional=True),  # of 64 rows: where they begin in each warp's lanes
           _PAIR),
    results=(Arg("accumulator", "tensor_memory"),), traits=NO_MEMORY_EFFECT,
)  # fmt: skip
# Sums of loop after loop between warps of different roles, `buffers` (1 or 2) of them `stride` columns apart: who multiplies
# acquires one and commits it, the `readers` warps of `tensor_memory.begin` load it and release it.
TENSOR_TURN = OpSpec(
    "tensor_memory.turn", dialect=D,
    doc="The buffer of an accumulator whose turn it is, for the sum of a number.",
    operands=(Arg("memory", "tensor_memory"), Arg("number", "scalar:int")),
    attrs=(Attr("buffers", "i64"), Attr("stride", "i64")), results=(Arg("accumulator", "tensor_memory"),),
    traits=NO_MEMORY_EFFECT,
)  # fmt: skip
TENSOR_ACQUIRE = OpSpec(
    "tensor_memory.acquire",
    dialect=D,
    doc="Waits until every warp has released the sum that lay here before.",
    operands=(Arg("memory", "tensor_memory"),),
    attrs=(_PAIR,),
)
TENSOR_COMMIT = OpSpec(
    "tensor_memory.commit",
    dialect=D,
    doc="An accumulator has its sum when the products issued before are done.",
    operands=(Arg("memory", "tensor_memory"),),
    attrs=(_PAIR,),
)
TENSOR_RELEASE = OpSpec(
    "tensor_memory.release",
    dialect=D,
    doc="Each warp says that it has loaded the sum.",
    operands=(Arg("memory", "tensor_memory"),),
    attrs=(_PAIR,),
)
TENSOR_END = OpSpec(
    "tensor_memory.end",
    dialect=D,
    doc="The end of a loop's accumulator.",
    operands=(Arg("memory", "tensor_memory"),),
    attrs=(Attr("writers", "i64", optional=True),),
)
_MOST = Attr("most", "i64", optional=True)  # registers of a thread that one instruction moves
TENSOR_STORE = OpSpec(
    "tensor_memory.store",
    dialect=D,
    doc="Puts a tile into an accumulator.",
    operands=(Arg("memory", "tensor_memory"), Arg("value", "any")),
    attrs=(_MOST,),
)
TENSOR_PRODUCT = OpSpec(  # `fresh`: 1, it begins at zero; 2, where `count` is 0
    "tensor_memory.product", dialect=D,
    doc="Issues a product whose sum stays in tensor memory.",
    operands=(*_COUNTED, Arg("a_buffer", "shared"), Arg("a_slot", "scalar:int"), Arg("b_buffer", "shared"),
              Arg("b_slot", "scalar:int")),
    attrs=(Attr("m", "i64"), Attr("n", "i64"), Attr("depth", "i64"), Attr("elem", "string"), Attr("a_start", "i64"),
           Attr("b_start", "i64"), Attr("fresh", "i64"), _PAIR),
)  # fmt: skip
_PLACED = (Attr("column", "i64"), Attr("stride", "i64"))  # and columns from one block of 128 rows to the next
TENSOR_STORE_ROWS = OpSpec(  # a left operand, two or four elements a column
    "tensor_memory.store_rows",
    dialect=D,
    doc="Puts the left operand of a product into tensor memory, two or four elements a column.",
    operands=(Arg("memory", "tensor_memory"), Arg("value", "any")),
    attrs=_PLACED,
)
TENSOR_PRODUCT_ROWS = OpSpec(  # a product whose left operand lies so
    "tensor_memory.product_rows", dialect=D,
    doc="Issues a product whose left operand and sum lie in tensor memory.",
    operands=(*_COUNTED, Arg("rows", "tensor_memory"), Arg("b_buffer", "shared"), Arg("b_slot", "scalar:int")),
    attrs=(Attr("m", "i64"), Attr("n", "i64"), Attr("depth", "i64"), Attr("elem", "string"), Attr("b_start", "i64"),
           Attr("fresh", "i64"), *_PLACED),
)  # fmt: skip
# .. whose operands have block scales, in shared memory like them; they are copied to `column`, in turns to as many behind it.
# Elements of four bits lie two to a byte, `depth` counts bytes. Negative scales turn the signs of the elements first.
TENSOR_PRODUCT_SCALED = OpSpec(
    "tensor_memory.product_scaled", dialect=D,
    doc="Issues a product of operands with block scales, which it copies to tensor memory; elements of four bits lie two to a "
    "byte.",
    operands=(*_COUNTED, Arg("scales", "tensor_memory"), Arg("a_buffer", "shared"), Arg("a_slot", "scalar:int"),
              Arg("b_buffer", "shared"), Arg("b_slot", "scalar:int"), Arg("sa_buffer", "shared"), Arg("sa_slot", "scalar:int"),
              Arg("sb_buffer", "shared"), Arg("sb_slot", "scalar:int")),
    attrs=(Attr("m", "i64"), Attr("n", "i64"), Attr("depth", "i64"), Attr("elem", "string"), Attr("scale", "string"),
           Attr("block", "i64"), Attr("a_start", "i64"), Attr("b_start", "i64"), Attr("sa_start", "i64"),
           Attr("sb_start", "i64"), Attr("column", "i64"), Attr("fresh", "i64")),
)  # fmt: skip
TENSOR_WAIT = OpSpec(
    "tensor_memory.wait",
    dialect=D,
    doc="Waits for a product.",
    operands=_COUNTED,
    attrs=(Attr("before", "i64"),),
)
TENSOR_STORED = OpSpec(
    "tensor_memory.stored",
    dialect=D,
    doc="Each warp says that its part of what a product reads lies in shared memory.",
    operands=_COUNTED,
)
TENSOR_WAIT_STORED = OpSpec(
    "tensor_memory.wait_stored",
    dialect=D,
    doc="The warp whose thread issues products waits until every warp has stored its part.",
    operands=_COUNTED,
)
TENSOR_LOAD = OpSpec(  # waits for the product, then brings the sum
    "tensor_memory.load",
    dialect=D,
    doc="Waits for a product, then brings the sum.",
    operands=_COUNTED,
    attrs=(
        Attr("before", "i64"),
        _MOST,
        Attr("apart", "i64", optional=True),
    ),  # 1: each waits for the one before it
    results=(Arg("result", "any"),),
)
TENSOR_SCALE = OpSpec(  # waits for the product before this iteration's, then multiplies the sum by a factor
    "tensor_memory.scale",
    dialect=D,
    doc="Waits for the product before this iteration's, then multiplies the sum by a factor.",
    operands=(*_COUNTED, Arg("factor", "any")),
    attrs=(_MOST, Attr("tested", "i64", optional=True)),  # 1: a warp all of whose factors are 1 does nothing
)
_OWN = (
    TENSOR_ALLOC, TENSOR_FREE, TENSOR_BEGIN, TENSOR_END, TENSOR_STORE, TENSOR_PRODUCT, TENSOR_WAIT, TENSOR_LOAD, TENSOR_SCALE,
    TENSOR_STORE_ROWS, TENSOR_PRODUCT_ROWS, TENSOR_PRODUCT_SCALED, TENSOR_TURN, TENSOR_ACQUIRE, TENSOR_COMMIT, TENSOR_RELEASE,
    TENSOR_STORED, TENSOR_WAIT_STORED,
    ALLOC_SHARED, FREE_SHARED, CLEAR_SHARED, LOAD_SHARED, STORE_SHARED, COPY_VIEW, COPY_POINTERS, COMMIT_GROUP, WAIT_GROUP,
    ASYNC_ARRIVE, BULK_BEGIN, BULK_LOAD, BULK_WAIT, BULK_ACQUIRE, BULK_RELEASE, BULK_COMMIT, BULK_END, BARRIER, WGMMA,
    WGMMA_REGISTERS, WGMMA_COMMIT, WGMMA_WAIT, TURNS_BEGIN, TURNS_TAKE, TURNS_GIVE, TURNS_END, CONVERT_LAYOUT, CREATE,
    CONVERT_LAYOUTS, TRANSFER, PRODUCE_ONE, CONSUME_ONE, PIPELINE_YIELD,
    TILED_TMA_LOAD, SYNC_TMA_LOAD, COPY, WAIT,
)  # fmt: skip
BY_NAME.update({spec.name: spec for spec in _OWN})
PRODUCE_LIKE = (TRANSFER, PRODUCE_ONE)
