"""The nv_tileaa dialect: every cuda_tile body op over tensors, and functions that carry a kernel spec.

Its table is derived from cuda_tile's, because a lifted op means the same; `module`, `func`, `call` and the agents of
warp-specialised code are its own.
"""

from __future__ import annotations

from tileiras.compiler.dialects.cuda_tile import ops as cuda_tile
from tileiras.compiler.ir.spec import (
    I1_OF_LHS,
    ISOLATED,
    PURE,
    SINGLE_BLOCK,
    SYMBOL,
    SYMBOL_TABLE,
    VARIADIC,
    Arg,
    Attr,
    Derived,
    OpSpec,
    derive,
)  # fmt: skip

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

D = "nv_tileaa"


KEEP_TILES = ("constant", "reduce", "scan")  # their attributes keep the tile types they were written with


def tables(dialect: str, adapt: Callable[[OpSpec], None] | None = None) -> Derived:
    """cuda_tile's body ops and the ops that both tensor dialects have, by name. `adapt` changes each of the former."""

    def make(source: OpSpec) -> OpSpec:
        spec = derive(source, dialect)
        if spec.name in KEEP_TILES:
            spec.same_type = ()
        spec.parents = ()  # the lowering of one op may open a region of its own
        spec.elementwise = source.elementwise  # comparisons as well, whose rule is one about tiles
        spec.traits &= ~I1_OF_LHS
        if adapt is not None:
            adapt(spec)
        return spec

    found = Derived(cuda_tile.BY_NAME, ("module", "entry"), make)
    found["module"] = OpSpec(
        "module", dialect=dialect, doc="Functions and globals of one file.", attrs=(Attr("sym_name", "symbol"),), regions=1,
        traits=ISOLATED | SYMBOL_TABLE | SINGLE_BLOCK,
    )  # fmt: skip
    found["func"] = OpSpec(
        "func",
        dialect=dialect,
        doc="A function of tensors; of a kernel, with its kernel spec.",
        attrs=(
            Attr("sym_name", "symbol"),
            Attr("function_type", "type"),
            Attr("nv_tileaa.kernel_spec", "spec", optional=True),
        ),
        regions=1,
        traits=ISOLATED | SYMBOL | SINGLE_BLOCK,
    )
    found["module"].source_name, found["func"].source_name = "cuda_tile.module", "cuda_tile.entry"
    # A call of a function of the module; symbols are resolved by the TileIR operation analysis.
    found["call"] = OpSpec(
    "call", dialect=dialect,
    doc="Calls a function of the module.",
    operands=(Arg("operands", "any", VARIADIC),), results=(Arg("results", "any", VARIADIC),),
        attrs=(Attr("callee", "symbol"),),
    )  # fmt: skip
    # Warps that run code of their own: `agent {id, num_warps} { ... }`, side by side in a function.
    found["agent"] = OpSpec(
    "agent", dialect=dialect,
    doc="Warps that run code of their own, beside those of the function's other agents.",
    attrs=(Attr("id", "i32"), Attr("num_warps", "i32"), Attr("registers", "i32", optional=True),
           Attr("issuing_warps", "i32", optional=True)),  # the first ones, which alone run the code
        regions=1, traits=SINGLE_BLOCK,
    )  # fmt: skip
    # mmaf_scaled for instructions that take fragments. Operands of four bits come as bytes, two neighbours along K in each:
    # `element` says what they hold, `block` how many of them a scale has. `first`: the number of the scales that the first
    # element has.
    found["mma_block_scaled"] = OpSpec(
    "mma_block_scaled", dialect=dialect,
    doc="mmaf_scaled for instructions that take fragments; elements of four bits come as bytes, two "
    "along K in each.",
        operands=tuple(Arg(n, "any") for n in ("lhs", "rhs", "acc", "lhs_scale", "rhs_scale")),
        attrs=(Attr("element", "type"), Attr("block", "i64"), Attr("first", "i64", optional=True)),
        results=(Arg("result", "any"),), traits=PURE,
    )  # fmt: skip
    # Of the CTAs of a cluster that share a tile block (passes/tileaa/split_block.py).
    found["get_cta_rank"] = OpSpec(
        "get_cta_rank",
        dialect=dialect,
        doc="Number of this CTA among those that share the tile block.",
        results=(Arg("rank", "any"),),
        traits=PURE,
    )
    # Slices of huge tiles in per-thread local memory (passes/tileaa/strip_mine.py). A handle is a token-typed value.
    handle, index = Arg("handle", "any"), Arg("slice", "any")
    slots = Attr("log2_slices", "i64")
    found["local_alloc"] = OpSpec(
        "local_alloc",
        dialect=dialect,
        doc="Local memory of each thread for the slices of a huge tile.",
        attrs=(Attr("type", "type"), slots),
        results=(handle,),
    )
    found["local_write"] = OpSpec(
        "local_write",
        dialect=dialect,
        doc="Keeps one slice of a huge tile.",
        operands=(handle, index, Arg("value", "any")),
    )
    found["local_read"] = OpSpec(
        "local_read",
        dialect=dialect,
        doc="One slice of a huge tile.",
        operands=(handle, index),
        results=(Arg("value", "any"),),
    )
    found["local_read_all"] = OpSpec(
    "local_read_all", dialect=dialect,
    doc="A huge tile from its slices.",
    operands=(handle,), attrs=(Attr("cut", "i32s"),),
        results=(Arg("value", "any"),),
    )  # fmt: skip
    return found


def plain_spec(value: Any) -> Any:
    """A kernel spec from text as the lowering keeps it: plain integers and tuples."""
    inner = getattr(value, "value", value)
    if isinstance(inner, tuple):
        return tuple(map(plain_spec, inner))
    return {k: plain_spec(v) for k, v in inner.items()} if isinstance(inner, dict) else inner


BY_NAME = tables(D)
MODULE = BY_NAME["module"]
FUNC = BY_NAME["func"]
