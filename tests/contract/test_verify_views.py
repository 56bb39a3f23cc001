# ruff: noqa: E501 - one line of text per case
"""Ops on views, of memory that devices share, and products with block scales: each rule refuses the kernel beside the one it takes."""

from __future__ import annotations

import pytest
from contract.kit import entry, messages, module
from contract.verify_kit import CAPABILITY

from tileiras.compiler.ir.verify import verify
from tileiras.compiler.source import load
from tileiras.diag import Sink


def said(body: str, args: str = "") -> str:
    """What the verifier says first of a kernel, with its note; empty when it takes it."""
    sink = Sink()
    made = load(module(entry(body, args), CAPABILITY), sink)
    if verify(made, sink):
        return ""
    first = sink.emitted[0]
    return "\n".join([messages(sink.emitted)[0], *(note.text for note in first.notes)])


# ---- products with block scales


def scaled(
    a: str = "16x64", b: str = "64x16", c: str = "16x16", s: str = "16x2", t: str = "2x16", elem: str = "f8E4M3FN", scale: str = "f8E8M0FNU",
) -> str:  # fmt: skip
    kinds = [
        f"tile<{a}x{elem}>",
        f"tile<{b}x{elem}>",
        f"tile<{c}xf32>",
        f"tile<{s}x{scale}>",
        f"tile<{t}x{scale}>",
    ]
    lines = [
        f"%v{i} = cuda_tile.constant <{name}: 1.0> : {kind}"
        for i, (kind, name) in enumerate(zip(kinds, (elem, elem, "f32", scale, scale)))
    ]
    return "\n".join([*lines, f"%r = cuda_tile.mmaf_scaled %v0, %v1, %v2, %v3, %v4 : {', '.join(kinds)}"])


FOUR = {"elem": "f4E2M1FN"}
SHAPES = [
    ({"b": "32x16"}, "mma contracting dimension mismatch"),
    ({"b": "64x8"}, "mma accumulator must agree with A and B on M and N"),
    ({"c": "8x16"}, "mma accumulator must agree with A and B on M and N"),
    ({"s": "8x2"}, "lhs_scale"),
    ({"t": "2x8"}, "rhs_scale"),
    ({"t": "4x16"}, "lhs_scale"),
    ({"scale": "f8E4M3FN"}, "Scale type 'f8E4M3FN' expects lhs and rhs element types to be 'f4E2M1FN', but got 'f8E4M3FN'"),
    ({"s": "16x4", "t": "4x16"}, "f8 element type requires block scale factor of lhs_scale and rhs_scale to be 32, but got 16"),
    ({"s": "16x128", "t": "128x16"}, "K dimension (64) must be divisible by the scale dimension (128)"),
    ({**FOUR, "scale": "f8E4M3FN"}, "f4E2M1FN element type with f8E4M3FN scales requires block scale factor of lhs_scale and rhs_scale to be 16, but got 32"),
    ({**FOUR, "s": "16x8", "t": "8x16"}, "f4E2M1FN element type with f8E8M0FNU scales requires block scale factor of lhs_scale and rhs_scale to be 16 or 32, but got 8"),
    ({"a": "1x1x16x64", "b": "1x1x64x16", "c": "1x1x16x16", "s": "1x1x16x2", "t": "1x1x2x16"}, "mma operand A must be rank-2 or rank-3"),
    ({"a": "2x16x64", "b": "4x64x16", "c": "2x16x16", "s": "2x16x2", "t": "2x2x16"}, "mma accumulator must agree with A and B on M and N"),
    ({"a": "2x16x64", "b": "2x64x16", "c": "2x16x16", "s": "4x16x2", "t": "2x2x16"}, "lhs_scale"),
]  # fmt: skip


@pytest.mark.parametrize(("wrong", "text"), SHAPES, ids=[text[:40] for _, text in SHAPES])
def test_scales_fit_their_product(wrong: dict[str, str], text: str) -> None:
    found = said(scaled(**wrong))
    assert text in found, found


@pytest.mark.parametrize(
    "right",
    [
        {},
        FOUR,
        {**FOUR, "s": "16x4", "t": "4x16"},
        {**FOUR, "scale": "f8E4M3FN", "s": "16x4", "t": "4x16"},
        {"a": "2x16x64", "b": "2x64x16", "c": "2x16x16", "s": "2x16x2", "t": "2x2x16"},
    ],
)
def test_scales_that_fit(right: dict[str, str]) -> None:
    assert said(scaled(**right)) == ""


# ---- views

ARGS = "%p: !cuda_tile.tile<ptr<f32>>, %m: !cuda_tile.tile<ptr<i32, <multicast>>>, %i: !cuda_tile.tile<i32>, %n: !cuda_tile.tile<i64>"
PLAIN = "tensor_view<64x64xf32, strides=[64,1]>"
TILES = f"partition_view<tile=(4x8), {PLAIN}>"
ROWS = f"gather_scatter_view<tile=(4x8), {PLAIN}, sparse_dim=0>"
MADE = f"""%tensor = cuda_tile.make_tensor_view %p, shape = [64, 64], strides = [64, 1] : {PLAIN}
%tiles = cuda_tile.make_partition_view %tensor : {TILES}
%rows = cuda_tile.make_gather_scatter_view %tensor : {ROWS}
%four = cuda_tile.constant <i32: 0> : tile<4xi32>
%eight = cuda_tile.constant <i32: 0> : tile<8xi32>
%v = cuda_tile.constant <f32: 0.0> : tile<4x8xf32>
"""
GENERIC_LOAD = (
    '%r, %t = "cuda_tile.load_view_tko"(%tiles, %i, %i) <{{memory_ordering_semantics = #cuda_tile.x<weak>, inbounds = {}, '
    "operandSegmentSizes = array<i32: 1, 2, 0>}}> : (" + TILES + ", tile<i32>, tile<i32>) -> (tile<4x8xf32>, !cuda_tile.token)"
)  # fmt: skip
ON_VIEWS = [
    (GENERIC_LOAD.format("[true, false, true]"), GENERIC_LOAD.format("[true, false]"), "inbounds size (3) must match the number of index dimensions (2)"),
    (f"%r, %t = cuda_tile.load_view_tko weak %rows[%eight, %i] : {ROWS}, tile<8xi32>, tile<i32> -> tile<4x8xf32>, token",
     f"%r, %t = cuda_tile.load_view_tko weak %rows[%four, %i] : {ROWS}, tile<4xi32>, tile<i32> -> tile<4x8xf32>, token",
     "expected index type at sparse dimension 0 to be a rank-1 tile of 4 elements, got '!cuda_tile.tile<8xi32>'"),
    (f'%a, %b, %c = "cuda_tile.get_index_space_shape"(%tiles) : ({TILES}) -> (tile<i32>, tile<i32>, tile<i32>)',
     f"%a, %b = cuda_tile.get_index_space_shape %tiles : {TILES} -> tile<i32>",
     "expected 2 results due to view index space rank, but got 3"),
    (f'%a, %b = "cuda_tile.get_tensor_shape"(%tensor) : ({PLAIN}) -> (tile<i32>, tile<i64>)',
     f'%a, %b = "cuda_tile.get_tensor_shape"(%tensor) : ({PLAIN}) -> (tile<i32>, tile<i32>)',
     "requires the same type for all results"),
    ("%w = cuda_tile.make_tensor_view %m, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xi32, strides=[64,1]>",
     "%w = cuda_tile.make_tensor_view %m, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xi32, strides=[64,1], #cuda_tile.ptr_attr<multicast>>",
     "expected the pointer attribute of the tensor_view to be that of the base pointer"),
]  # fmt: skip


@pytest.mark.parametrize(("bad", "good", "text"), ON_VIEWS, ids=[case[2][:40] for case in ON_VIEWS])
def test_ops_on_views(bad: str, good: str, text: str) -> None:
    found = said(MADE + bad, ARGS)
    assert text in found, found
    assert said(MADE + good, ARGS) == ""


def add(
    view: str = "%tiles", kind: str = TILES, index: str = "%i, %i", indices: str = "tile<i32>, tile<i32>"
) -> str:
    return f"%r = cuda_tile.atomic_red_view_tko relaxed device {view}[{index}], addf, %v : tile<4x8xf32>, {kind}, {indices} -> token"


SHARED = "tensor_view<64x64xf32, strides=[64,1], #cuda_tile.ptr_attr<multicast>>"
IN_SHARED = f"partition_view<tile=(4x8), {SHARED}>"
MADE_SHARED = f"""%q = cuda_tile.int_to_ptr %n : tile<i64> -> tile<ptr<f32, <multicast>>>
%stensor = cuda_tile.make_tensor_view %q, shape = [64, 64], strides = [64, 1] : {SHARED}
%shared = cuda_tile.make_partition_view %stensor : {IN_SHARED}
"""
ADDS = [
    (add("%rows", ROWS, "%four, %i", "tile<4xi32>, tile<i32>"), "gather_scatter_view is not supported; use partition_view instead"),
    (MADE_SHARED + add("%shared", IN_SHARED), "multicast ptr_attr is not allowed"),
    (add(index="%i", indices="tile<i32>"), "expected 2 index operand(s) for view with tile rank 2, got 1"),
    (add(index="%i, %four", indices="tile<i32>, tile<4xi32>"), "index operand 1 must be a scalar tile (rank 0), got shape 4"),
]  # fmt: skip


@pytest.mark.parametrize(("bad", "text"), ADDS, ids=[text[:40] for _, text in ADDS])
def test_reductions_into_views(bad: str, text: str) -> None:
    found = said(MADE + bad, ARGS)
    assert text in found, found
    assert said(MADE + add(), ARGS) == ""


def test_no_atomic_takes_an_address_that_several_devices_share() -> None:
    for op, pointer, text in (
        ("atomic_rmw_tko", "%m", "multicast pointer is not supported for atomic_rmw"),
        ("atomic_cas_tko", "%m", "multicast pointer is not supported for atomic_cas"),
        ("atomic_rmw_tko", "%o", ""),
        ("atomic_cas_tko", "%o", ""),
    ):
        kind = "tile<ptr<i32, <multicast>>>" if pointer == "%m" else "tile<ptr<i32>>"
        value = "add, %i" if op == "atomic_rmw_tko" else "%i, %i"
        line = f"%r, %t = cuda_tile.{op} relaxed device {pointer}, {value} : {kind}, tile<i32> -> tile<i32>, token"
        found = said(line, f"{ARGS}, %o: !cuda_tile.tile<ptr<i32>>")
        assert text in found and bool(found) == bool(text), (op, found)


# ---- memory of several devices


def multimem(
    op: str = "reduce", elem: str = "f32", reduction: str = "add", order: str = "relaxed", scope: str = "sys", attr: str = "multicast",
    view: str = "partition_view<tile=(4x8), {}>",
) -> str:  # fmt: skip
    mark = f", #cuda_tile.ptr_attr<{attr}>" if attr else ""
    tensor = f"tensor_view<64x64x{elem}, strides=[64,1]{mark}>"
    kind = view.format(tensor)
    pointer = f"tile<ptr<{elem}, <{attr}>>>" if attr else f"tile<ptr<{elem}>>"
    make = kind.partition("_view")[0]
    zero = "1.0" if "f" in elem else "0"
    lines = [
        f"%q = cuda_tile.int_to_ptr %n : tile<i64> -> {pointer}",
        f"%w = cuda_tile.make_tensor_view %q, shape = [64, 64], strides = [64, 1] : {tensor}",
        f"%y = cuda_tile.make_{make}_view %w : {kind}",
        f"%x = cuda_tile.constant <{elem}: {zero}> : tile<4x8x{elem}>",
    ]
    how = f"attributes {{reduction = #cuda_tile.multimem_reduction_kind<{reduction}>}}"
    where = f"{order} {scope}".strip()
    if op == "reduce":
        lines.append(
            f"%r = cuda_tile.multimem_reduce_view_tko {where} %y, %x[%i, %i] {how} : {kind}, tile<4x8x{elem}>, tile<i32> -> token"
        )
    elif op == "load_reduce":
        lines.append(
            f"%r, %t = cuda_tile.multimem_load_reduce_view_tko {where} %y[%i, %i] {how} : {kind}, tile<i32> -> tile<4x8x{elem}>, token"
        )
    else:
        lines.append(
            f"%r = cuda_tile.multimem_store_view_tko {where} %y, %x[%i, %i] : {kind}, tile<4x8x{elem}>, tile<i32> -> token"
        )
    return "\n".join(lines)


FAULTS = [
    ({"view": "strided_view<tile=(4x8), traversal_strides=[4,8], {}>"}, "multimem view operations support only partition_view; got"),
    ({"attr": ""}, "expected a multicast pointer, but got none"),
    ({"attr": "unicast"}, "expected a multicast pointer, but got unicast"),
    ({"elem": "f8E4M3FN"}, "multimem supports only f16, bf16, f32, and f64 floating-point element types"),
    ({"elem": "i16"}, "multimem requires 32- or 64-bit integer/index element types; got 'i16'"),
    ({"reduction": "max"}, "supports only add for floating-point element types"),
    ({"op": "load_reduce", "reduction": "max"}, "min/max supports f16 and bf16 float types only; got 'f32'"),
    ({"op": "load_reduce", "order": "weak"}, "weak memory ordering must not carry a scope"),
    ({"op": "load_reduce", "scope": ""}, "non-weak memory ordering requires an explicit scope"),
]  # fmt: skip


@pytest.mark.parametrize(("wrong", "text"), FAULTS, ids=[text[:40] for _, text in FAULTS])
def test_memory_of_several_devices(wrong: dict[str, str], text: str) -> None:
    found = said(multimem(**wrong), ARGS)
    assert text in found, found


@pytest.mark.parametrize(
    "right",
    [
        {},
        {"elem": "i32", "reduction": "umax"},
        {"op": "load_reduce"},
        {"op": "load_reduce", "elem": "f16", "reduction": "max"},
        {"op": "load_reduce", "order": "weak", "scope": ""},
        {"op": "store"},
        {"op": "store", "order": "weak", "scope": ""},
    ],
    ids=str,
)
def test_memory_of_several_devices_that_is_used_well(right: dict[str, str]) -> None:
    assert said(multimem(**right), ARGS) == ""
