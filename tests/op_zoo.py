# ruff: noqa: E501 - one line of text per case
"""Every op of cuda_tile with every optional part, as text: what readers, writers, printers and verifiers loop over.

A snippet names the op it is for, the first 13.x version that can hold it, and lines that use the values of PRELUDE.
"""

from __future__ import annotations

ARGS = "%p: tile<ptr<f32>>, %q: tile<ptr<i32>>, %n: tile<i32>, %m: tile<i64>, %x: tile<f32>, %c: tile<i1>"

PRELUDE = """
%f0 = constant <f32: 1.5> : tile<4xf32>
%f1 = constant <f32: [1.0, 2.0, -3.0, 0.1]> : tile<4xf32>
%h0 = constant <f16: 1.0> : tile<4xf16>
%d0 = constant <f64: 3.0> : tile<4xf64>
%i0 = constant <i32: 3> : tile<4xi32>
%i1 = constant <i32: [1, -2, 3, 4]> : tile<4xi32>
%l0 = constant <i64: 7> : tile<4xi64>
%b0 = constant <i8: -5> : tile<16xi8>
%t = constant <i1: true> : tile<4xi1>
%m2 = constant <f32: 0.0> : tile<4x8xf32>
%a16 = constant <f16: 1.0> : tile<16x16xf16>
%c32 = constant <f32: 0.0> : tile<16x16xf32>
%a8 = constant <i8: 1> : tile<16x16xi8>
%ci = constant <i32: 0> : tile<16x16xi32>
%z = constant <i32: 0> : tile<i32>
%pp = reshape %p : tile<ptr<f32>> -> tile<1xptr<f32>>
%ps = broadcast %pp : tile<1xptr<f32>> -> tile<4xptr<f32>>
%qp = reshape %q : tile<ptr<i32>> -> tile<1xptr<i32>>
%qs = broadcast %qp : tile<1xptr<i32>> -> tile<4xptr<i32>>
%tok = make_token : token
%tv = make_tensor_view %p, shape = [%n, 64], strides = [64, 1] : tile<i32> -> tensor_view<?x64xf32, strides=[64,1]>
%pv = make_partition_view %tv : partition_view<tile=(4x8), tensor_view<?x64xf32, strides=[64,1]>>
"""

VIEW = "partition_view<tile=(4x8), tensor_view<?x64xf32, strides=[64,1]>>"
UNARY_FLOAT = (
    "absf",
    "ceil",
    "cos",
    "cosh",
    "floor",
    "log",
    "log2",
    "negf",
    "sin",
    "sinh",
    "tan",
    "exp2",
    "rsqrt",
)
BINARY_INT = ("andi", "ori", "xori")


def _arithmetic() -> list[tuple[str, int, str]]:
    found = [(op, 1, f"%r = {op} %f0 : tile<4xf32>") for op in UNARY_FLOAT]
    found += [(op, 1, f"%r = {op} %f0 flush_to_zero : tile<4xf32>") for op in ("exp2", "rsqrt")]
    found += [(op, 1, f"%r = {op} %i0, %i1 : tile<4xi32>") for op in BINARY_INT]
    found += [("absi", 1, "%r = absi %i1 : tile<4xi32>"), ("mulhii", 1, "%r = mulhii %i0, %i1 : tile<4xi32>")]
    found += [
        ("remf", 1, "%r = remf %f0, %f1 : tile<4xf32>"),
        ("fpowf", 1, "%r = fpowf %f0, %f1 : tile<4xf32>"),
    ]
    for op in ("addf", "subf", "mulf", "divf"):
        for mode in ("nearest_even", "zero", "negative_inf", "positive_inf"):
            found.append((op, 1, f"%r = {op} %f0, %f1 rounding<{mode}> flush_to_zero : tile<4xf32>"))
        found.append((op, 1, f"%r = {op} %d0, %d0 : tile<4xf64>"))
    found += [("divf", 1, f"%r = divf %f0, %f1 rounding<{m}> : tile<4xf32>") for m in ("approx", "full")]
    found += [("sqrt", 1, "%r = sqrt %f0 rounding<approx> flush_to_zero : tile<4xf32>")]
    found += [
        ("sqrt", 1, "%r = sqrt %f0 : tile<4xf32>"),
        ("fma", 1, "%r = fma %f0, %f1, %f0 rounding<zero> : tile<4xf32>"),
    ]
    for op in ("addi", "subi", "muli", "shli"):
        for flag in ("none", "no_signed_wrap", "no_unsigned_wrap", "no_wrap"):
            found.append((op, 1, f"%r = {op} %i0, %i1 overflow<{flag}> : tile<4xi32>"))
    for op in ("maxi", "mini", "remi", "shri"):
        found += [(op, 1, f"%r = {op} %i0, %i1 {s} : tile<4xi32>") for s in ("signed", "unsigned")]
    for op in ("maxf", "minf"):
        for flags in ("", " flush_to_zero", " propagate_nan", " flush_to_zero propagate_nan"):
            found.append((op, 1, f"%r = {op} %f0, %f1{flags} : tile<4xf32>"))
    found += [("divi", 1, "%r = divi %i0, %i1 signed rounding<negative_inf> : tile<4xi32>")]
    found += [("divi", 1, "%r = divi %i0, %i1 unsigned rounding<positive_inf> : tile<4xi32>")]
    found += [
        ("divi", 1, "%r = divi %i0, %i1 unsigned : tile<4xi32>"),
        ("negi", 1, "%r = negi %i0 : tile<4xi32>"),
    ]
    found += [("negi", 2, "%r = negi %i0 overflow<no_signed_wrap> : tile<4xi32>")]
    found += [
        ("exp", 1, "%r = exp %f0 : tile<4xf32>"),
        ("exp", 3, "%r = exp %f0 rounding<approx> : tile<4xf32>"),
    ]
    found += [
        ("tanh", 1, "%r = tanh %f0 : tile<4xf32>"),
        ("tanh", 2, "%r = tanh %f0 rounding<approx> : tile<4xf32>"),
    ]
    found += [("atan2", 2, "%r = atan2 %f0, %f1 : tile<4xf32>")]
    found += [("fpowi", 4, "%r = fpowi %f0, %i0 : tile<4xf32>, tile<4xi32>")]
    for predicate in (
        "equal",
        "not_equal",
        "less_than",
        "less_than_or_equal",
        "greater_than",
        "greater_than_or_equal",
    ):
        found.append(("cmpf", 1, f"%r = cmpf {predicate} ordered %f0, %f1 : tile<4xf32> -> tile<4xi1>"))
        found.append(("cmpi", 1, f"%r = cmpi {predicate} %i0, %i1, unsigned : tile<4xi32> -> tile<4xi1>"))
    found += [("cmpf", 1, "%r = cmpf equal unordered %f0, %f1 : tile<4xf32> -> tile<4xi1>")]
    found += [("select", 1, "%r = select %t, %f0, %f1 : tile<4xi1>, tile<4xf32>")]
    return found


def _conversions() -> list[tuple[str, int, str]]:
    return [
        ("bitcast", 1, "%r = bitcast %f0 : tile<4xf32> -> tile<4xi32>"),
        ("exti", 1, "%r = exti %i0 unsigned : tile<4xi32> -> tile<4xi64>"),
        (
            "exti",
            3,
            "%s = trunci %i0 : tile<4xi32> -> tile<4xi4>\n%r = exti %s signed : tile<4xi4> -> tile<4xi8>",
        ),
        ("trunci", 1, "%r = trunci %i0 overflow<no_signed_wrap> : tile<4xi32> -> tile<4xi8>"),
        ("ftof", 1, "%r = ftof %f0 : tile<4xf32> -> tile<4xf16>"),
        ("ftof", 1, "%r = ftof %d0 rounding<zero> : tile<4xf64> -> tile<4xf32>"),
        ("ftof", 1, "%r = ftof %h0 : tile<4xf16> -> tile<4xbf16>"),
        ("ftof", 1, "%r = ftof %f0 : tile<4xf32> -> tile<4xf8E4M3FN>"),
        ("ftof", 2, "%r = ftof %f0 rounding<zero> : tile<4xf32> -> tile<4xf8E8M0FNU>"),
        ("ftof", 3, "%r = ftof %f0 : tile<4xf32> -> tile<4xf4E2M1FN>"),
        ("ftoi", 1, "%r = ftoi %f0 signed : tile<4xf32> -> tile<4xi32>"),
        ("ftoi", 4, "%r = ftoi %f0 unsigned saturating : tile<4xf32> -> tile<4xi32>"),
        ("itof", 1, "%r = itof %i0 signed : tile<4xi32> -> tile<4xf32>"),
        ("int_to_ptr", 1, "%r = int_to_ptr %l0 : tile<4xi64> -> tile<4xptr<f32>>"),
        ("ptr_to_int", 1, "%r = ptr_to_int %ps : tile<4xptr<f32>> -> tile<4xi64>"),
        ("ptr_to_ptr", 1, "%r = ptr_to_ptr %qs : tile<4xptr<i32>> -> tile<4xptr<f32>>"),
        ("offset", 1, "%r = offset %ps, %i0 : tile<4xptr<f32>>, tile<4xi32> -> tile<4xptr<f32>>"),
        ("pack", 3, "%r = pack %f0 : tile<4xf32> -> tile<16xi8>"),
        ("unpack", 3, "%r = unpack %b0 : tile<16xi8> -> tile<4xf32>"),
    ]


def _shapes() -> list[tuple[str, int, str]]:
    return [
        ("broadcast", 1, "%s = reshape %x : tile<f32> -> tile<1x1xf32>\n%r = broadcast %s : tile<1x1xf32> -> tile<4x8xf32>"),
        ("reshape", 1, "%r = reshape %f0 : tile<4xf32> -> tile<2x2xf32>"),
        ("cat", 1, "%r = cat %f0, %f1 dim = 0 : tile<4xf32>, tile<4xf32> -> tile<8xf32>"),
        ("extract", 1, "%r = extract %f0[%z] : tile<4xf32> -> tile<2xf32>"),
        ("insert", 4, "%s = extract %f0[%z] : tile<4xf32> -> tile<2xf32>\n%r = insert %s, %f1[%n] : tile<2xf32>, tile<4xf32>"),
        ("permute", 1, "%r = permute %m2 [1, 0] : tile<4x8xf32> -> tile<8x4xf32>"),
        ("iota", 1, "%r = iota : tile<128xi8>"),
        ("constant", 1, "%r = constant <i1: [[true, false], [false, true]]> : tile<2x2xi1>"),
        ("constant", 1, "%r = constant <f32: 0x7FC00000> : tile<f32>"),
        ("constant", 1, "%r = constant <f64: 2.718281828459045> : tile<f64>"),
        ("constant", 1, "%r = constant <bf16: -1.5> : tile<2xbf16>"),
        ("constant", 1, "%r = constant <f8E5M2: 2.0> : tile<2xf8E5M2>"),
        ("constant", 1, "%r = constant <i64: -9223372036854775808> : tile<i64>"),
        ("get_tile_block_id", 1, "%r, %s, %u = get_tile_block_id : tile<i32>"),
        ("get_num_tile_blocks", 1, "%r, %s, %u = get_num_tile_blocks : tile<i32>"),
        ("get_global", 1, "%r = get_global @table : tile<ptr<f32>>"),
        ("assert", 1, 'assert %t, "oops \\"q\\"\\n" : tile<4xi1>'),
        ("assume", 1, "%r = assume div_by<16>, %p : tile<ptr<f32>>"),
        ("assume", 1, "%r = assume div_by<4, every 2 along 0>, %i0 : tile<4xi32>"),
        ("assume", 1, "%r = assume bounded<-3, ?>, %i0 : tile<4xi32>"),
        ("assume", 1, "%r = assume bounded<?, 9>, %n : tile<i32>\n%s = assume div_by<2>, %r : tile<i32>"),
        ("assume", 1, "%r = assume same_elements<[2]>, %i0 : tile<4xi32>"),
        ("assume", 1, "%r = assume div_by<64>, %tv : tensor_view<?x64xf32, strides=[64,1]>"),
        ("mmaf", 1, "%r = mmaf %a16, %a16, %c32 : tile<16x16xf16>, tile<16x16xf16>, tile<16x16xf32>"),
        ("mmaf", 3, "%r = mmaf %a16, %a16, %c32 fast_acc : tile<16x16xf16>, tile<16x16xf16>, tile<16x16xf32>"),
        ("mmai", 1, "%r = mmai %a8, %a8, %ci signed unsigned : tile<16x16xi8>, tile<16x16xi8>, tile<16x16xi32>"),
        ("mmaf_scaled", 3, """%s = constant <f8E4M3FN: 1.0> : tile<16x32xf8E4M3FN>
%u = constant <f8E4M3FN: 1.0> : tile<32x16xf8E4M3FN>
%v = constant <f8E8M0FNU: 1.0> : tile<16x1xf8E8M0FNU>
%w = constant <f8E8M0FNU: 2.0> : tile<1x16xf8E8M0FNU>
%r = mmaf_scaled %s, %u, %c32, %v, %w : tile<16x32xf8E4M3FN>, tile<32x16xf8E4M3FN>, tile<16x16xf32>, tile<16x1xf8E8M0FNU>, tile<1x16xf8E8M0FNU>"""),
    ]  # fmt: skip


def _memory() -> list[tuple[str, int, str]]:
    loads = [
        "weak %ps : tile<4xptr<f32>>",
        "weak %ps, %t : tile<4xptr<f32>>, tile<4xi1>",
        "relaxed device %ps, %t, %f0 token=%tok : tile<4xptr<f32>>, tile<4xi1>, tile<4xf32>",
        "acquire sys %ps, %f0 token=%tok : tile<4xptr<f32>>, tile<4xf32>",
        "weak %ps token=%tok optimization_hints = <sm_100 = {latency = 3}> : tile<4xptr<f32>>",
    ]
    stores = [
        "weak %ps, %f0 : tile<4xptr<f32>>, tile<4xf32>",
        "release tl_blk %ps, %f0, %t token=%tok optimization_hints = <sm_90 = {latency = 1}> : tile<4xptr<f32>>, tile<4xf32>, tile<4xi1>",
    ]
    found = [("load_ptr_tko", 1, f"%r, %s = load_ptr_tko {text} -> tile<4xf32>, token") for text in loads]
    found += [("store_ptr_tko", 1, f"%r = store_ptr_tko {text} -> token") for text in stores]
    view = f"{VIEW}, tile<i32> -> tile<4x8xf32>, token"
    found += [
        ("load_view_tko", 1, f"%r, %s = load_view_tko weak %pv[%n, %z] : {view}"),
        ("load_view_tko", 1, f"%r, %s = load_view_tko relaxed sys %pv[%n, %z] token = %tok optimization_hints = <sm_90 = {{allow_tma = false, latency = 2}}> : {view}"),
        ("load_view_tko", 4, f"%r, %s = load_view_tko weak %pv[%n, %z] inbounds = [false, true] : {view}"),
        ("store_view_tko", 1, f"%r = store_view_tko weak %m2, %pv[%n, %z] token = %tok : tile<4x8xf32>, {VIEW}, tile<i32> -> token"),
        ("store_view_tko", 4, f"%r = store_view_tko weak %m2, %pv[%n, %z] inbounds = [true, true] : tile<4x8xf32>, {VIEW}, tile<i32> -> token"),
        ("atomic_rmw_tko", 1, "%r, %s = atomic_rmw_tko relaxed device %ps, addf, %f0 : tile<4xptr<f32>>, tile<4xf32> -> tile<4xf32>, token"),
        ("atomic_cas_tko", 1, "%r, %s = atomic_cas_tko acq_rel sys %qs, %i0, %i1, %t token=%tok : tile<4xptr<i32>>, tile<4xi32>, tile<4xi1> -> tile<4xi32>, token"),
        ("atomic_red_view_tko", 3, f"%r = atomic_red_view_tko relaxed device %pv[%n, %z], addf, %m2 token = %tok : tile<4x8xf32>, {VIEW}, tile<i32> -> token"),
        ("make_token", 1, "%r = make_token : token"),
        ("join_tokens", 1, "%r = join_tokens %tok, %tok : token"),
        ("print_tko", 1, 'print_tko "x=%f %%\\0A", %f0 : tile<4xf32> -> token'),
        ("print_tko", 2, '%r = print_tko "none" token=%tok -> token\n%s = join_tokens %r, %tok : token'),
        ("alloca", 3, "%r = alloca num_elem = 64, alignment = 128 : tile<ptr<f32>>"),
        ("alloca", 3, "%r = alloca num_elem = 64, alignment = 16 global : tile<ptr<f32>>"),
        ("gdc_launch_dependents_tko", 4, "%r = gdc_launch_dependents_tko token = %tok -> token"),
        ("gdc_wait_tko", 4, "%r = gdc_wait_tko -> token"),
        ("memory_fence_alias_tko", 4, "%r = memory_fence_alias_tko %tok"),
    ]  # fmt: skip
    for mode in ("and", "or", "xor", "add", "max", "min", "umax", "umin", "xchg"):
        text = f"acquire sys %qs, {mode}, %i0, %t token=%tok : tile<4xptr<i32>>, tile<4xi32>, tile<4xi1> -> tile<4xi32>, token"
        found.append(("atomic_rmw_tko", 1, f"%r, %s = atomic_rmw_tko {text}"))
    return found


def _views() -> list[tuple[str, int, str]]:
    inner = "tensor_view<?x64xf32, strides=[64,1]>"
    found = [
        ("make_tensor_view", 1, "%r = make_tensor_view %p, shape = [], strides = [] : tensor_view<f32>"),
        ("make_tensor_view", 1, "%r = make_tensor_view %p, shape = [%m, 8], strides = [%m, 1] : tile<i64> -> tensor_view<?x8xf32, strides=[?,1]>"),
        ("make_partition_view", 1, f"%r = make_partition_view %tv : partition_view<tile=(4x8), {inner}, dim_map=[1, 0]>"),
        ("make_strided_view", 3, f"%r = make_strided_view %tv : strided_view<tile=(4x8), traversal_strides=[3,5], padding_value = nan, {inner}, dim_map=[1, 0]>"),
        ("make_gather_scatter_view", 3, f"%r = make_gather_scatter_view %tv : gather_scatter_view<tile=(4x8), padding_value = zero, {inner}, sparse_dim=0>"),
        ("load_view_tko", 3, f"%s = make_gather_scatter_view %tv : gather_scatter_view<tile=(4x8), {inner}, sparse_dim=0>\n"
         f"%r, %u = load_view_tko weak %s[%i0, %z] : gather_scatter_view<tile=(4x8), {inner}, sparse_dim=0>, tile<4xi32>, tile<i32> -> tile<4x8xf32>, token"),
        ("get_tensor_shape", 1, f"%r:2 = get_tensor_shape %tv : {inner} -> tile<i64>"),
        ("get_index_space_shape", 1, f"%r:2 = get_index_space_shape %pv : {VIEW} -> tile<i32>\n%s = addi %r#0, %r#1 : tile<i32>"),
    ]  # fmt: skip
    for padding in ("zero", "neg_zero", "nan", "pos_inf", "neg_inf"):
        text = f"partition_view<tile=(4x8), padding_value = {padding}, {inner}>"
        found.append(("make_partition_view", 1, f"%r = make_partition_view %tv : {text}"))
    return found


def _control() -> list[tuple[str, int, str]]:
    body = "{\n  %s = addf %a, %b : tile<f32>\n  yield %s : tile<f32>\n}"
    args = "(%a: tile<f32>, %b: tile<f32>)"
    return [
        ("if", 1, "if %c {\n} "),
        ("if", 1, "if %c {\n  return\n} else {\n}"),
        ("if", 1, "%r = if %c -> (tile<4xf32>) {\n  yield %f0 : tile<4xf32>\n} else {\n  yield %f1 : tile<4xf32>\n}"),
        ("if", 1, "%r:2 = if %c -> (tile<f32>, token) {\n  yield %x, %tok : tile<f32>, token\n} else {\n  yield %x, %tok : tile<f32>, token\n}"),
        ("for", 1, "for %i in (%z to %n, step %n) : tile<i32> {\n}"),
        ("for", 1, "%r:2 = for %i in (%z to %n, step %n) : tile<i32> iter_values(%a = %x, %b = %tok) -> (tile<f32>, token) {\n"
         "  if %c {\n    continue %a, %b : tile<f32>, token\n  }\n  %s = addf %a, %x : tile<f32>\n  continue %s, %b : tile<f32>, token\n}"),
        ("for", 2, "for unsigned %i in (%z to %n, step %n) : tile<i32> {\n  for %j in (%z to %i, step %n) : tile<i32> {\n  }\n}"),
        ("loop", 1, "loop {\n  break\n}"),
        ("loop", 1, "%r = loop : tile<f32> {\n  break %x : tile<f32>\n}"),
        ("loop", 1, "%r = loop iter_values(%a = %n) : tile<i32> -> tile<f32> {\n  if %c {\n    break %x : tile<f32>\n  }\n  continue %a : tile<i32>\n}"),
        ("break", 1, "loop {\n  if %c {\n    if %c {\n      break\n    }\n  }\n}"),
        ("return", 1, "if %c {\n  return\n}"),
        ("reduce", 1, f"%r = reduce %f0 dim=0 identities=[0.0 : f32] : tile<4xf32> -> tile<f32>\n{args} {body}"),
        ("reduce", 1, "%r:2 = reduce %m2, %m2 dim=1 identities=[0xFF800000 : f32, 0.0 : f32] : tile<4x8xf32>, tile<4x8xf32> -> tile<4xf32>, tile<4xf32>\n"
         "(%a: tile<f32>, %b: tile<f32>, %e: tile<f32>, %g: tile<f32>) {\n  yield %a, %e : tile<f32>, tile<f32>\n}"),
        ("reduce", 1, "%r = reduce %d0 dim=0 identities=[0.0 : f64] : tile<4xf64> -> tile<f64>\n(%a: tile<f64>, %b: tile<f64>) {\n  yield %a : tile<f64>\n}"),
        ("reduce", 1, "%r = reduce %t dim=0 identities=[true] : tile<4xi1> -> tile<i1>\n(%a: tile<i1>, %b: tile<i1>) {\n  yield %a : tile<i1>\n}"),
        ("scan", 1, f"%r = scan %f0 dim=0 reverse=true identities=[0.0 : f32] : tile<4xf32> -> tile<4xf32>\n{args} {body}"),
        ("yield", 1, "%r = scan %l0 dim=0 reverse=false identities=[-1 : i64] : tile<4xi64> -> tile<4xi64>\n(%a: tile<i64>, %b: tile<i64>) {\n  yield %b : tile<i64>\n}"),
    ]  # fmt: skip


MULTIMEM_TYPE = "tensor_view<64x64xi32, strides=[64,1], #cuda_tile.ptr_attr<multicast>>"
MULTIMEM_VIEW = f"partition_view<tile=(4x8), {MULTIMEM_TYPE}>"
MULTIMEM = f"""%u = constant <i64: 0> : tile<i64>
%v = int_to_ptr %u : tile<i64> -> tile<ptr<i32, <multicast>>>
%w = make_tensor_view %v, shape = [64, 64], strides = [64, 1] : tile<ptr<i32, <multicast>>> -> {MULTIMEM_TYPE}
%y = make_partition_view %w : {MULTIMEM_VIEW}
%o = constant <i32: 1> : tile<4x8xi32>
"""


def _multimem() -> list[tuple[str, int, str]]:
    tail = f": {MULTIMEM_VIEW}"
    reduce = "attributes {reduction = #cuda_tile.multimem_reduction_kind<umax>}"
    return [
        ("multimem_load_reduce_view_tko", 5, MULTIMEM + f"%r, %s = multimem_load_reduce_view_tko weak %y[%n, %z] {tail}, tile<i32> -> tile<4x8xi32>, token"),
        ("multimem_load_reduce_view_tko", 5, MULTIMEM + f"%r, %s = multimem_load_reduce_view_tko relaxed device %y[%n, %z] token = %tok inbounds = [true, false] {reduce} {tail}, tile<i32>, token -> tile<4x8xi32>, token"),
        ("multimem_reduce_view_tko", 5, MULTIMEM + f"%r = multimem_reduce_view_tko relaxed sys %y, %o[%n, %z] {reduce} {tail}, tile<4x8xi32>, tile<i32> -> token"),
        ("multimem_store_view_tko", 5, MULTIMEM + f"%r = multimem_store_view_tko weak %y, %o[%n, %z] token = %tok {tail}, tile<4x8xi32>, tile<i32>, token -> token"),
    ]  # fmt: skip


SNIPPETS = [*_arithmetic(), *_conversions(), *_shapes(), *_memory(), *_views(), *_control(), *_multimem()]
CONTAINERS = ("entry", "global", "module")


def module_text(
    lines: str, *, hints: str = "", globals_: str = "global @table <f32: [1.0, 2.0]> : tile<2xf32>"
) -> str:
    """A module whose only entry holds PRELUDE and the lines."""
    return f"cuda_tile.module @kernels {{\n{globals_}\nentry @k({ARGS}){hints} {{{PRELUDE}{lines}\n}}\n}}\n"


def names() -> list[str]:
    """An id for each snippet."""
    return [f"{op}-{i}" for i, (op, _, _) in enumerate(SNIPPETS)]
