"""The nv_tileas dialect: nv_tileaa's ops over tensors with layouts, `convert_layout`, and asynchronous pipelines.

A pipeline hands values from producers to consumers through `depth` slots:

    %p = nv_tileas.async.pipeline.create {depth = 2}
    %v = nv_tileas.async.pipeline.transfer %p { load; yield %x }      before MaterializeAsync
    nv_tileas.async.pipeline.produce_one %p { load; yield %x }        after it: the two halves
    %v = nv_tileas.async.pipeline.consume_one %p { ^bb0(%x): yield %x }

`produce_one` and `transfer` are what the documents call produce-one-like.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileaa.ops import tables
from tileiras.compiler.ir.spec import (
    NO_MEMORY_EFFECT,
    PURE,
    SINGLE_BLOCK,
    TERMINATOR,
    VARIADIC,
    Arg,
    Attr,
    OpSpec,
)  # fmt: skip

D = "nv_tileas"

BY_NAME: dict[str, OpSpec] = tables(D)
for (
    _spec
) in BY_NAME.values():  # layouts of operands and results may differ in names only: shapes and elements count
    _spec.same_shape += _spec.same_type
    _spec.same_elem += _spec.same_type
    _spec.same_type = ()
MODULE = BY_NAME["module"]
FUNC = BY_NAME["func"]

CONVERT_LAYOUT = OpSpec(
    "convert_layout", dialect=D, operands=(Arg("source", "any"),), attrs=(Attr("plan", "string", optional=True),),
    results=(Arg("result", "any"),), traits=PURE,
)  # fmt: skip
CREATE = OpSpec(
    "async.pipeline.create", dialect=D, attrs=(Attr("depth", "i64"),), results=(Arg("pipeline", "pipeline"),),
    traits=NO_MEMORY_EFFECT,
)  # fmt: skip
TRANSFER = OpSpec(
    "async.pipeline.transfer", dialect=D, operands=(Arg("pipeline", "pipeline"),), results=(Arg("results", "any", VARIADIC),),
    regions=1, traits=SINGLE_BLOCK, terminator="async.pipeline.yield",
)  # fmt: skip
PRODUCE_ONE = OpSpec(
    "async.pipeline.produce_one", dialect=D, operands=(Arg("pipeline", "pipeline"),), regions=1, traits=SINGLE_BLOCK,
    terminator="async.pipeline.yield",
)  # fmt: skip
CONSUME_ONE = OpSpec(
    "async.pipeline.consume_one", dialect=D, operands=(Arg("pipeline", "pipeline"),),
    results=(Arg("results", "any", VARIADIC),), regions=1, traits=SINGLE_BLOCK, terminator="async.pipeline.yield",
)  # fmt: skip
PIPELINE_YIELD = OpSpec(
    "async.pipeline.yield", dialect=D, operands=(Arg("operands", "any", VARIADIC),), traits=TERMINATOR
)
# Operands 2 .. R+1 are the coordinates; R is the box rank of the descriptor on operand 0.
TILED_TMA_LOAD = OpSpec(
    "async.tiled_tma_load", dialect=D,
    operands=(Arg("descriptor", "tma_descriptor"), Arg("token", "token"), Arg("coordinates", "scalar:int", VARIADIC)),
    results=(Arg("result", "any"), Arg("result_token", "token")),
)  # fmt: skip
SYNC_TMA_LOAD = OpSpec(
    "tiled_tma_load", dialect=D,
    operands=(Arg("descriptor", "tma_descriptor"), Arg("coordinates", "scalar:int", VARIADIC)),
    results=(Arg("result", "any"),),
)  # fmt: skip
COPY = OpSpec(  # cp.async
    "async.copy", dialect=D, operands=(Arg("source", "tile:ptr"), Arg("token", "token")),
    results=(Arg("result", "any"), Arg("result_token", "token")),
)  # fmt: skip
WAIT = OpSpec(
    "async.wait", dialect=D, operands=(Arg("tokens", "token", VARIADIC),), results=(Arg("result", "token"),)
)
BY_NAME.update(
    {spec.name: spec for spec in (CONVERT_LAYOUT, CREATE, TRANSFER, PRODUCE_ONE, CONSUME_ONE, PIPELINE_YIELD,
                                  TILED_TMA_LOAD, SYNC_TMA_LOAD, COPY, WAIT)}
)  # fmt: skip
SPECS = tuple(BY_NAME.values())
PRODUCE_LIKE = (TRANSFER, PRODUCE_ONE)
