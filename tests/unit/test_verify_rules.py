# ruff: noqa: E501 - one line of text per case
"""Each rule of the cuda_tile verifier: the smallest text that breaks it, what is said, and a neighbour that passes.

The id of a case is the rule's id in the contract. The text is the error; `real` is part of a note.
"""

from __future__ import annotations

import pytest
from op_zoo import module_text

from tileiras.compiler.ir.verify import verify
from tileiras.compiler.source import load_text
from tileiras.diag import ERROR, CompileError, Emitted, Sink

G = "!cuda_tile."
REDUCE = '"cuda_tile.reduce"({v}) <{{dim = {dim} : i32, identities = [{ids}]}}> ({{\n^bb0({args}):\n{body}\n}}) : ({t}) -> {r}'


def reduce(
    v: str = "%f0",
    dim: int = 0,
    ids: str = "0.0 : f32",
    args: str = "",
    body: str = "",
    t: str = "",
    r: str = "",
) -> str:
    """A reduction in generic form, right unless told otherwise."""
    return REDUCE.format(
        v=v,
        dim=dim,
        ids=ids,
        args=args or f"%a: {G}tile<f32>, %b: {G}tile<f32>",
        body=body or f'"cuda_tile.yield"(%a) : ({G}tile<f32>) -> ()',
        t=t or f"{G}tile<4xf32>",
        r=r or f"{G}tile<f32>",
    )


def store(
    pointer: str = "%ps", value: str = "%f0", rest: str = "", order: str = "weak", types: str = ""
) -> str:
    types = types or "tile<4xptr<f32>>, tile<4xf32>"
    return f"store_ptr_tko {order} {pointer}, {value}{rest} : {types} -> token"


def load(order: str = "weak", rest: str = "", result: str = "4xf32", types: str = "tile<4xptr<f32>>") -> str:
    return f"%r, %s = load_ptr_tko {order} %ps{rest} : {types} -> tile<{result}>, token"


def rmw(mode: str, value: str, elem: str, pointer: str = "") -> str:
    pointer = pointer or f"%w = int_to_ptr %l0 : tile<4xi64> -> tile<4xptr<{elem}>>\n"
    shape = f"tile<4x{elem}>"
    return f"{pointer}%r, %s = atomic_rmw_tko relaxed device %w, {mode}, {value} : tile<4xptr<{elem}>>, {shape} -> {shape}, token"


H = "%i16 = trunci %i0 : tile<4xi32> -> tile<4xi16>\n"
MMA = "%r = mmaf {a}, {b}, {c} : {ta}, {tb}, {tc}"
MMAI = '"cuda_tile.mmai"({a}, {b}, {c}) <{{{attrs}}}> : ({ta}, {tb}, {tc}) -> {r}'
A8, CI = f"{G}tile<16x16xi8>", f"{G}tile<16x16xi32>"
SIGNED = "signedness_lhs = #cuda_tile.signedness<signed>, signedness_rhs = #cuda_tile.signedness<signed>"
VIEW = "!cuda_tile.tensor_view<?x64xf32, strides=[64,1]>"
PVIEW = "partition_view<tile=(4x8), tensor_view<?x64xf32, strides=[64,1]>>"


def mmai(attrs: str = SIGNED, a: str = "%a8", ta: str = A8, c: str = "%ci", tc: str = CI, r: str = CI) -> str:
    return "%r = " + MMAI.format(a=a, b="%a8", c=c, attrs=attrs, ta=ta, tb=A8, tc=tc, r=r)


def for_op(args: str, inits: str, types: str, results: str, body: str = "", names: str = "") -> str:
    body = body or '"cuda_tile.continue"() : () -> ()'
    return f'{names}"cuda_tile.for"(%z, %n, %n{inits}) ({{\n^bb0({args}):\n{body}\n}}) : ({G}tile<i32>, {G}tile<i32>, {G}tile<i32>{types}) -> {results}'


I, F = f"{G}tile<i32>", f"{G}tile<f32>"
CONTINUE = '"cuda_tile.continue"(%a) : (' + F + ") -> ()"

# (rule, lines that break it, the error's text, part of the note, lines that pass)
RULES = [
    ("verify-region-non-empty", reduce().replace(f'"cuda_tile.yield"(%a) : ({F}) -> ()', ""), "expect non-empty block", "empty", reduce()),
    ("verify-region-tile-args", reduce(args="%a: f32, %b: f32", body='"cuda_tile.yield"(%a) : (f32) -> ()'),
     "expected TileType for block arguments but got types: 'f32', 'f32'", "0-rank tile type at index: 0 but got: 'f32'", reduce()),
    ("verify-region-rank0-args", reduce(args=f"%a: {F}, %b: {G}tile<8xf32>"), "expect 0-rank tile type at index: 1", "'!cuda_tile.tile<8xf32>'", reduce()),
    ("verify-region-terminator-count", reduce(body=f'"cuda_tile.yield"(%a, %b) : ({F}, {F}) -> ()'),
     "expect number of terminators operands (2) to match expected (1)", "number of operands (1)", reduce()),
    ("verify-region-terminator-type", reduce(body=f'"cuda_tile.yield"(%n) : ({I}) -> ()'),
     "expected TileType for operand and terminator types but got: !cuda_tile.tile<i32> vs !cuda_tile.tile<f32>", "'f32' and 'i32'", reduce()),
    ("verify-region-pure", reduce(body=store() + f'\n"cuda_tile.yield"(%a) : ({F}) -> ()'), "only pure operations allowed", "memory-effect-free", reduce()),
    ("verify-region-invalid-op", reduce(body='"cuda_tile.return"() : () -> ()'), "invalid op: cuda_tile.return", "", reduce()),
    ("verify-float-types", f'%r = "cuda_tile.addf"(%f0, %h0) <{{rounding_mode = #cuda_tile.rounding<zero>}}> : ({G}tile<4xf32>, {G}tile<4xf16>) -> {G}tile<4xf32>',
     "expected matching operand and result element types", "all of {lhs, rhs, result} have same type", "%r = addf %f0, %f1 : tile<4xf32>"),
    ("verify-float-ftz", "%r = addf %h0, %h0 flush_to_zero : tile<4xf16>", "flush-to-zero is only legal for f32 element type", "'f16'", "%r = addf %f0, %f0 flush_to_zero : tile<4xf32>"),
    ("verify-divf-rounding", "%r = divf %f0, %f1 rounding<nearest_int_to_zero> : tile<4xf32>", "invalid rounding mode for divf", "approx, full]", "%r = divf %f0, %f1 rounding<zero> : tile<4xf32>"),
    ("verify-divf-approx-f32", "%r = divf %d0, %d0 rounding<approx> : tile<4xf64>", "approx and full rounding modes require f32", "'f64'", "%r = divf %f0, %f0 rounding<approx> : tile<4xf32>"),
    ("verify-divf-approx-f32", "%r = divf %h0, %h0 rounding<full> : tile<4xf16>", "approx and full rounding modes require f32", "full modifier", "%r = divf %f0, %f0 rounding<full> : tile<4xf32>"),
    ("verify-float-rounding-outside-divf", "%r = addf %f0, %f1 rounding<approx> : tile<4xf32>", "rounding mode not allowed outside divf", "positive_inf]", "%r = addf %f0, %f1 : tile<4xf32>"),
    ("verify-float-order", "%r = addf %h0, %h0 rounding<approx> flush_to_zero : tile<4xf16>", "flush-to-zero is only legal for f32 element type", "", "%r = addf %h0, %h0 : tile<4xf16>"),
    ("verify-exti", "%r = exti %i0 signed : tile<4xi32> -> tile<4xi32>", "exti requires the result width to be strictly greater than the input width", "smaller or identical", "%r = exti %i0 signed : tile<4xi32> -> tile<4xi64>"),
    ("verify-trunci", "%r = trunci %i0 : tile<4xi32> -> tile<4xi64>", "trunci requires the result width to be strictly less than the input width", "larger or identical", "%r = trunci %i0 : tile<4xi32> -> tile<4xi16>"),
    ("verify-ftof-identity", "%r = ftof %f0 : tile<4xf32> -> tile<4xf32>", "ftof rejects identity conversions", "no-op", "%r = ftof %f0 : tile<4xf32> -> tile<4xf16>"),
    ("verify-ftof-rounding", "%r = ftof %f0 rounding<positive_inf> : tile<4xf32> -> tile<4xf16>", "ftof requires nearest-even rounding", "Only 'nearest_even'", "%r = ftof %f0 : tile<4xf32> -> tile<4xf16>"),
    ("verify-itof-rounding", "%r = itof %i0 signed rounding<zero> : tile<4xi32> -> tile<4xf32>", "itof requires nearest-even rounding", "Only 'nearest_even'", "%r = itof %i0 signed : tile<4xi32> -> tile<4xf32>"),
    ("verify-ftoi-rounding", "%r = ftoi %f0 signed rounding<nearest_even> : tile<4xf32> -> tile<4xi32>", "ftoi requires truncation toward zero", "nearest_int_to_zero", "%r = ftoi %f0 signed : tile<4xf32> -> tile<4xi32>"),
    ("verify-bitcast-width", "%r = bitcast %f0 : tile<4xf32> -> tile<4xi64>", "bitcast requires equal-width source and destination element types", "width 32 to type 'i64' of width 64", "%r = bitcast %f0 : tile<4xf32> -> tile<4xi32>"),
    ("verify-mem-pointee", store("%qs", types="tile<4xptr<i32>>, tile<4xf32>"), "pointer pointee element type must match value element type", "`destination`", store()),
    ("verify-mem-pointer-shape", load(result="8xf32"), "pointer tile shape must match value shape", "`source`", load()),
    ("verify-mem-mask-shape", "%k = reshape %c : tile<i1> -> tile<1xi1>\n" + load(rest=", %k", types="tile<4xptr<f32>>, tile<1xi1>"), "mask shape must match value shape", "'mask'", load(rest=", %t", types="tile<4xptr<f32>>, tile<4xi1>")),
    ("verify-load-ordering", load("release device"), "load ordering must be weak, relaxed, or acquire", "but got: release", load("acquire device")),
    ("verify-store-ordering", store(order="acquire device"), "store ordering must be weak, relaxed, or release", "but got: acquire", store(order="release device")),
    ("verify-weak-no-scope", load("weak device"), "weak memory ordering must not carry a scope", "weak load", load()),
    ("verify-non-weak-scope", load("relaxed"), "non-weak memory ordering requires an explicit scope", "relaxed load", load("relaxed device")),
    ("verify-mem-order", load("release", ", %t", "8xf32", "tile<4xptr<f32>>, tile<4xi1>"), "pointer tile shape must match value shape", "", load()),
    ("verify-atomic-int", H + rmw("add", "%i16", "i16"), "integer rmw mode requires i32 or i64 element type", "'add' works only", rmw("add", "%i0", "i32")),
    ("verify-atomic-int", rmw("xor", "%f0", "f32"), "integer rmw mode requires i32 or i64 element type", "'xor' works only", rmw("xor", "%l0", "i64")),
    ("verify-atomic-addf", rmw("addf", "%i0", "i32"), "floating-add rmw requires a target-supported floating width", "'addf' works only", rmw("addf", "%f0", "f32")),
    ("verify-atomic-xchg", H + rmw("xchg", "%i16", "i16"), "xchg rmw requires a target-supported atomic width", "'xchg' works only", rmw("xchg", "%f0", "f32")),
    ("verify-reshape-element-type", "%r = reshape %f0 : tile<4xf32> -> tile<4xi32>", "reshape requires matching element types", "same element type", "%r = reshape %f0 : tile<4xf32> -> tile<2x2xf32>"),
    ("verify-reshape-count", "%r = reshape %m2 : tile<4x8xf32> -> tile<8x16xf32>", "reshape element-count mismatch: source has 32 elements, result has 128", "same number", "%r = reshape %m2 : tile<4x8xf32> -> tile<32xf32>"),
    ("verify-if-then", '"cuda_tile.if"(%c) ({}, {}) : (' + G + "tile<i1>) -> ()", "if requires a then-region", "", "if %c {\n}"),
    ("verify-if-else", "%r = if %c -> (tile<f32>) {\n  yield %x : tile<f32>\n}", "if with results requires an else-region", "must define else branch", "if %c {\n}"),
    ("verify-if-yields", "%r = if %c -> (tile<f32>) {\n  yield %x : tile<f32>\n} else {\n  yield %n : tile<i32>\n}",
     "expected TileType for operand and terminator types but got: !cuda_tile.tile<i32> vs !cuda_tile.tile<f32>", "else branch yields", "%r = if %c -> (tile<f32>) {\n  yield %x : tile<f32>\n} else {\n  yield %x : tile<f32>\n}"),
    ("verify-if-view", f"%r = if %c -> ({PVIEW}) {{\n  yield %pv : {PVIEW}\n}} else {{\n  yield %pv : {PVIEW}\n}}", "view-typed if results are not permitted", "tile view", "if %c {\n}"),
    ("verify-for-types", for_op(f"%i: {F}", "", "", "()"), "for induction, lower, upper, and step must share an integer type", "induction variable", for_op(f"%i: {I}", "", "", "()")),
    ("verify-for-init", for_op(f"%i: {I}, %a: {I}", ", %x", f", {F}", F, '"cuda_tile.continue"(%x) : (' + F + ") -> ()", "%r = "), "for init values must match region iter-arg types", "init value 0", for_op(f"%i: {I}, %a: {F}", ", %x", f", {F}", F, CONTINUE, "%r = ")),
    ("verify-for-results", for_op(f"%i: {I}, %a: {F}", ", %x", f", {F}", I, CONTINUE, "%r = "), "for result types must match region iter-arg types", "result types", for_op(f"%i: {I}, %a: {F}", ", %x", f", {F}", F, CONTINUE, "%r = ")),
    ("verify-for-view", for_op(f"%i: {I}, %a: {VIEW}", ", %tv", f", {VIEW}", VIEW, f'"cuda_tile.continue"(%a) : ({VIEW}) -> ()', "%r = "), "view-typed for results are not permitted", "a tensor_view", for_op(f"%i: {I}", "", "", "()")),
    ("verify-early-exit-parent", "if %c {\n  break\n}", "early-exit must be enclosed by a compatible loop or for", "ancestor chain", "loop {\n  if %c {\n    break\n  }\n}"),
    ("verify-early-exit-parent", "for %i in (%z to %n, step %n) : tile<i32> {\n  if %c {\n    break\n  }\n}", "early-exit must be enclosed by a compatible loop or for", "'cuda_tile.loop', 'cuda_tile.if'", "for %i in (%z to %n, step %n) : tile<i32> {\n  if %c {\n    continue\n  }\n}"),
    ("verify-early-exit-operands", "%r = loop : tile<f32> {\n  break %n : tile<i32>\n}", "early-exit operand types must match the enclosing region contract", "parent loop result types", "%r = loop : tile<f32> {\n  break %x : tile<f32>\n}"),
    ("verify-early-exit-nested-ifs", "if %c {\n  if %c {\n    continue\n  }\n}", "early-exit must be enclosed by a compatible loop or for", "", "loop {\n  if %c {\n    if %c {\n      if %c {\n        break\n      }\n    }\n  }\n}"),
    ("verify-agg-inputs", '"cuda_tile.reduce"() <{dim = 0 : i32, identities = []}> ({\n^bb0:\n"cuda_tile.yield"() : () -> ()\n}) : () -> ()', "reduce/scan requires at least one input", "", reduce()),
    ("verify-agg-results", reduce(r="()"), "reduce/scan must produce one result per input", "same number", reduce()),
    ("verify-agg-dim", reduce(dim=1), "reduction dimension is out of range", "[0, 1)", reduce()),
    ("verify-agg-dim", reduce(dim=-1), "reduction dimension is out of range", "non-negative", reduce()),
    ("verify-agg-identity", reduce(ids="0 : i32"), "identity element type must match input element type", "'f32' and 'i32'".replace("'f32' and 'i32'", "identity at index: 0"), reduce()),
    ("verify-agg-body-args", reduce(args=f"%a: {F}"), "reduce/scan body must take two rank-zero arguments per input", "expect 2 block arguments but got: 1", reduce()),
    ("verify-agg-yields", reduce(body='"cuda_tile.yield"() : () -> ()'), "expect number of terminators operands (0) to match expected (1)", "", reduce()),
    ("verify-agg-order", reduce(dim=7, ids="0 : i32"), "reduction dimension is out of range", "", reduce()),
    ("verify-mma-rank", MMA.format(a="%h0", b="%a16", c="%c32", ta="tile<4xf16>", tb="tile<16x16xf16>", tc="tile<16x16xf32>"), "mma operand A must be rank-2 or rank-3", "same rank", MMA.format(a="%a16", b="%a16", c="%c32", ta="tile<16x16xf16>", tb="tile<16x16xf16>", tc="tile<16x16xf32>")),
    ("verify-mma-share-rank", "%k = reshape %a16 : tile<16x16xf16> -> tile<1x16x16xf16>\n" + MMA.format(a="%k", b="%a16", c="%c32", ta="tile<1x16x16xf16>", tb="tile<16x16xf16>", tc="tile<16x16xf32>"), "mma operands must share rank", "same rank", ""),
    ("verify-mma-k", "%k = reshape %a16 : tile<16x16xf16> -> tile<8x32xf16>\n" + MMA.format(a="%k", b="%a16", c="%c32", ta="tile<8x32xf16>", tb="tile<16x16xf16>", tc="tile<16x16xf32>"), "mma contracting dimension mismatch", "dim 1 of lhs (32) and dim 0 of rhs (16)", ""),
    ("verify-mma-mn", "%k = reshape %c32 : tile<16x16xf32> -> tile<8x32xf32>\n" + MMA.format(a="%a16", b="%a16", c="%k", ta="tile<16x16xf16>", tb="tile<16x16xf16>", tc="tile<8x32xf32>"), "mma accumulator must agree with A and B on M and N", "dim 0 of lhs (16) and dim 0 of acc (8)", ""),
    ("verify-mma-acc-result-shape", f'%r = "cuda_tile.mmaf"(%a16, %a16, %c32) : ({G}tile<16x16xf16>, {G}tile<16x16xf16>, {G}tile<16x16xf32>) -> {G}tile<16x32xf32>', "mma accumulator and result shapes must match", "", ""),
    ("verify-mmai-signedness", mmai(""), "expect signedness attribute for operand A", "signedness_lhs", mmai()),
    ("verify-mmai-signedness", mmai(SIGNED.split(", ")[0]), "expect signedness attribute for operand A", "signedness_rhs", mmai()),
    ("verify-mmai-acc-i32", "%k = trunci %ci : tile<16x16xi32> -> tile<16x16xi16>\n" + mmai(c="%k", tc=f"{G}tile<16x16xi16>", r=f"{G}tile<16x16xi16>"), "integer mma accumulator and result must be i32", "i32 values", mmai()),
    ("verify-mmai-inputs", mmai(a="%ci", ta=CI), "integer mma inputs must share a legal integer element type", "i8 values", mmai()),
    ("verify-mmaf-tuple", "%k = ftof %c32 : tile<16x16xf32> -> tile<16x16xf64>\n%e = ftof %c32 : tile<16x16xf32> -> tile<16x16xf16>\n" + MMA.format(a="%k", b="%k", c="%e", ta="tile<16x16xf64>", tb="tile<16x16xf64>", tc="tile<16x16xf16>"), "floating mma input/accumulator pair is not supported on the target", "one of {'f64'}", ""),
    ("verify-mmaf-acc-result-type", f'%r = "cuda_tile.mmaf"(%a16, %a16, %c32) : ({G}tile<16x16xf16>, {G}tile<16x16xf16>, {G}tile<16x16xf32>) -> {G}tile<16x16xf16>', "floating mma accumulator and result must share type", "", ""),
    ("verify-mma-order", "%k = trunci %ci : tile<16x16xi32> -> tile<16x16xi8>\n%e = reshape %k : tile<16x16xi8> -> tile<8x32xi8>\n" + mmai("", a="%e", ta=f"{G}tile<8x32xi8>"), "mma contracting dimension mismatch", "", mmai()),
    ("verify-expected-token-operand", "%r, %s = load_view_tko %pv[%n, %z], %tok, %t {operandSegmentSizes = array<i32: 1, 2, 1, 0, 1>} : "
     f"{PVIEW}, tile<i32>, tile<i32>, token, tile<4xi1> -> tile<4x8xf32>, token", "expected token operand", "", "%r, %s = load_view_tko %pv[%n, %z], %tok {operandSegmentSizes = array<i32: 1, 2, 0, 0, 1>} : "
     f"{PVIEW}, tile<i32>, tile<i32>, token -> tile<4x8xf32>, token"),
]  # fmt: skip

# Rules whose words only the real verifier has.
REAL = [
    ("verify-atomic-cas-width", H + "%w = int_to_ptr %l0 : tile<4xi64> -> tile<4xptr<i16>>\n%r, %s = atomic_cas_tko relaxed device %w, %i16, %i16 : tile<4xptr<i16>>, tile<4xi16> -> tile<4xi16>, token", "expect only float or integer types with 32 or 64 bit"),
    ("verify-tensor-view-pointee", "%r = make_tensor_view %q, shape = [4], strides = [1] : tensor_view<4xf32, strides=[1]>", "expected pointer to 'f32' to build tensor_view of this type, got 'i32'"),
    ("verify-tensor-view-dynamic-count", f'%r = "cuda_tile.make_tensor_view"(%p, %n) <{{operandSegmentSizes = array<i32: 1, 1, 0>}}> : ({G}tile<ptr<f32>>, {I}) -> {G}tensor_view<?x?xf32, strides=[64,1]>', "expected 2 dynamic shape operands, got 1"),
    ("verify-partition-view-tensor", f'%r = "cuda_tile.make_partition_view"(%tv) : ({VIEW}) -> {G}partition_view<tile=(4x8), tensor_view<?x64xf16, strides=[64,1]>>', "to be the same as the view's tensor_view type"),
    ("verify-extract-divides", "%r = extract %f0[%z] : tile<4xf32> -> tile<8xf32>", "must be evenly divisible"),
    ("verify-cat-inputs", "%r = cat %f0, %h0 dim = 0 : tile<4xf32>, tile<4xf16> -> tile<8xf32>", "the same element type"),
    ("verify-cat-inputs", "%k = reshape %m2 : tile<4x8xf32> -> tile<8x4xf32>\n%r = cat %m2, %k dim = 0 : tile<4x8xf32>, tile<8x4xf32> -> tile<8x8xf32>", "invalid concat"),
    ("verify-permute-dense", "%r = permute %m2 [0, 0] : tile<4x8xf32> -> tile<4x8xf32>", "expect permutation elements to be unique"),
    ("verify-permute-dense", "%r = permute %m2 [0, 2] : tile<4x8xf32> -> tile<4x8xf32>", "permutation element at index 1 (2) is out of bound [0, 2)"),
    ("verify-iota-extent", "%r = iota : tile<512xi8>", "exceeds the maximum value of element type 'i8'"),
    ("verify-iota-extent", "%r = iota : tile<4x4xi32>", "expects result type to be 1-d tile"),
    ("verify-iota-extent", "%r = iota : tile<4xf32>", "must be tile of i1 or i8 or i16 or i32 or i64 values"),
    ("verify-assume-known-predicates", "%r = assume div_by<0>, %i0 : tile<4xi32>", "divisor must be a power of 2"),
    ("verify-assume-known-predicates", "%r = assume bounded<5, 3>, %i0 : tile<4xi32>", "lower bound to be less than or equal to upper bound"),
    ("verify-assume-known-predicates", "%r = assume same_elements<[1, 1]>, %i0 : tile<4xi32>", "to match rank of constrained tile"),
    ("verify-mem-tokens", f'%r = "cuda_tile.load_ptr_tko"(%ps) <{{memory_ordering_semantics = #cuda_tile.x<weak>}}> : ({G}tile<4xptr<f32>>) -> {G}tile<4xf32>', "expected 2 results, but found 1"),
    ("verify-generic-first", f'%r = "cuda_tile.addf"(%f0) <{{rounding_mode = #cuda_tile.rounding<approx>}}> : ({G}tile<4xf32>) -> {G}tile<4xf32>', "expected 2 operands, but found 1"),
    ("constant", f'%k = constant <f32: 1.0> : tile<2xf32>\n%r = "cuda_tile.constant"() <{{value = dense<1.0> : {G}tile<4xf32>}}> : () -> {G}tile<2xf32>', "all of {value, result} have same type"),
    ("attribute", f'%r = "cuda_tile.cat"(%f0, %f0) : ({G}tile<4xf32>, {G}tile<4xf32>) -> {G}tile<8xf32>', "requires attribute 'dim'"),
    ("join", "%r = join_tokens %tok : token", "expect two or more tokens"),
    ("print", 'print_tko "%d %i" , %n : tile<i32> -> token', "incorrect number of operands: expected 2, found 1"),
    ("global", "%r = get_global @nothing : tile<ptr<f32>>", "'nothing' does not reference a valid global"),
    ("pack", "%r = pack %i0 : tile<4xi32> -> tile<8xi8>", "expects source and result to have the same size in bytes"),
    ("alloca", "%r = alloca num_elem = 4, alignment = 3 : tile<ptr<f32>>", "'alignment' must be power of two"),
    ("index types", f"%r, %s = load_view_tko weak %pv[%n, %m] : {PVIEW}, tile<i32>, tile<i64> -> tile<4x8xf32>, token", "expected index type 1 to be the same as other index types"),
    ("atomic view", f"%r = atomic_red_view_tko relaxed sys %pv[%n, %z], addf, %m2 : tile<4x8xf32>, {PVIEW}, tile<i32> -> token", "use 'tl_blk' or 'device'"),
    ("return", "for %i in (%z to %n, step %n) : tile<i32> {\n  return\n}", "expects parent op to be one of 'cuda_tile.entry, cuda_tile.if, cuda_tile.loop'"),
]  # fmt: skip


def diagnosed(lines: str) -> list[Emitted]:
    """What parsing and verifying the lines says."""
    sink = Sink()
    try:
        verify(load_text(module_text(lines), sink, "rule.mlir"), sink)
    except CompileError as error:
        assert error.exit_code == 5
    return [d for d in sink.emitted if d.severity == ERROR]


@pytest.mark.parametrize(
    ("rule", "lines", "text", "real", "passing"), RULES, ids=[f"{r[0]}-{i}" for i, r in enumerate(RULES)]
)
def test_rule(rule: str, lines: str, text: str, real: str, passing: str) -> None:
    found = diagnosed(lines)
    assert [d.text for d in found] == [text], [d.render() for d in found]
    assert found[0].op is not None and found[0].word == 0x103
    assert (
        found[0].render().startswith("rule.mlir:")
        and f"error: '{found[0].op}' op {text}" in found[0].render()
    )
    assert real in "\n".join(note.text for note in found[0].notes)
    assert not diagnosed(passing), rule


@pytest.mark.parametrize(("rule", "lines", "text"), REAL, ids=[f"{r[0]}-{i}" for i, r in enumerate(REAL)])
def test_rule_without_a_contract_text(rule: str, lines: str, text: str) -> None:
    found = diagnosed(lines)
    assert len(found) == 1 and text in found[0].render(), [d.render() for d in found]


@pytest.mark.parametrize(
    ("type", "text", "real"),
    [
        ("tile<7x9xf32>", "tile dimensions must be powers of two", "got 7, 9"),
        ("tile<0xf32>", "tile dimensions must be powers of two", "positive constants"),
        ("tile<8192x4096xf32>", "tile would exceed the maximum element count", "16777216"),
        (
            "partition_view<tile=(3), tensor_view<4xf32, strides=[1]>>",
            "tile shape dimensions must have power of two length but got [3]",
            "",
        ),
        (
            "partition_view<tile=(4x4), tensor_view<4xf32, strides=[1]>>",
            "expected tensor_view rank and tile rank to match, got tensor_view of rank 1 and tiles of rank 2",
            "",
        ),
    ],
)  # verify-tile-power-of-two, verify-tile-element-ceiling
def test_types_are_checked_where_they_stand(type: str, text: str, real: str) -> None:
    sink = Sink()
    with pytest.raises(CompileError) as caught:
        load_text(f"cuda_tile.module {{\n  testing$func @f(%a: {type}) {{}}\n}}", sink, "t.mlir")
    assert caught.value.exit_code == 5
    error = sink.emitted[0]
    assert error.text == text and error.op is None and error.loc.line == 2
    assert real in "".join(n.text for n in error.notes)
    neighbour = "cuda_tile.module { testing$func @f(%a: tile<2048x4096xf32>, %b: tile<1xf32>, %c: tile<4096x4096xf32>) {} }"
    assert verify(load_text(neighbour, sink, "t.mlir"), sink)


def test_entry_rules() -> None:
    def said(text: str) -> str:
        sink = Sink()
        try:
            verify(load_text(text, sink, "t"), sink)
        except CompileError:
            pass
        return "\n".join(d.render() for d in sink.emitted)

    assert "entry op must have scalar types (rank 0 !cuda_tile.tile)" in said(
        "cuda_tile.module { entry @k(%a: tile<4xf32>) {} }"
    )
    assert "entry op must not return values" in said("cuda_tile.module { entry @k() -> tile<f32> {} }")
    assert "redefinition of symbol named 'k'" in said("cuda_tile.module { entry @k() {}\n entry @k() {} }")
    assert "only function and global ops are allowed in the body" in said(
        "cuda_tile.module { %0 = iota : tile<4xi32> }"
    )
    assert said("cuda_tile.module { entry @k(%a: !cuda_tile.ptr<f32>, %n: i32) {} }") == ""


def test_each_entry_reports_its_first_fault() -> None:  # verify-first-failure-stops
    bad = "  %r = iota : tile<512xi8>\n  %s = iota : tile<512xi8>\n"
    sink = Sink()
    text = f"cuda_tile.module {{\nentry @a() {{\n{bad}}}\nentry @b() {{\n{bad}}}\n}}"
    assert not verify(load_text(text, sink, "t"), sink)
    assert [d.loc.line for d in sink.emitted] == [3, 7]


def test_dominance_after_a_bad_rewrite() -> None:
    from tileiras.compiler.ir.core import Op

    sink = Sink()
    module = load_text(module_text("%r = negf %f0 : tile<4xf32>\n%s = absf %r : tile<4xf32>"), sink, "t")
    block = module.regions[0].block.ops[1].regions[0].block
    negf = next(op for op in block.ops if op.spec.name == "negf")
    block.ops.remove(negf)
    block.ops.insert(len(block.ops) - 1, negf)
    assert not verify(module, sink)
    assert sink.emitted[0].render().endswith("'cuda_tile.absf' op operand #0 does not dominate this use")
    assert isinstance(negf, Op)


def test_an_op_inside_of_a_function_can_be_verified_alone() -> None:
    sink = Sink()
    module = load_text(
        module_text("for %i in (%z to %n, step %n) : tile<i32> {\n  %r = addi %i, %n : tile<i32>\n}"),
        sink,
        "t",
    )
    loop = next(op for op in module.walk() if op.spec.name == "for")
    assert verify(loop, sink) and not sink.emitted
    block = loop.regions[0].block
    block.ops.insert(0, block.ops.pop())
    assert not verify(loop, sink)
