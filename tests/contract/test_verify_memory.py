# ruff: noqa: E501 - one line of text per case
"""Memory ops: pointees, shapes, masks, orderings, scopes, tokens, atomics; views are made of what they say."""

from __future__ import annotations

import pytest
from contract.rules import rule
from contract.verify_kit import accepted, refused

POINTEE = "pointer pointee element type must match value element type"
SHAPE = "pointer tile shape must match value shape"
MASK = "mask shape must match value shape"
LOAD_ORDER = "load ordering must be weak, relaxed, or acquire"
STORE_ORDER = "store ordering must be weak, relaxed, or release"
WEAK = "weak memory ordering must not carry a scope"
SCOPE = "non-weak memory ordering requires an explicit scope"
TOKEN = "expected token operand"
INT = "integer rmw mode requires i32 or i64 element type"
ADDF = "floating-add rmw requires a target-supported floating width"
XCHG = "xchg rmw requires a target-supported atomic width"

TENSOR = "tensor_view<?x64xf32, strides=[64,1]>"
VIEW = f"partition_view<tile=(8x8), {TENSOR}>"
MAKE = (
    f"%tensor = cuda_tile.make_tensor_view %p, shape = [%i32, 64], strides = [64, 1] : tile<i32> -> {TENSOR}\n"
    f"%tiles = cuda_tile.make_partition_view %tensor : {VIEW}\n"
)
P = "%p: !cuda_tile.ptr<f32>"


def load(
    order: str = "weak", pointers: str = "8xptr<f32>", result: str = "8xf32", mask: str = "", tail: str = ""
) -> str:
    name = pointer_name(pointers)
    names, kinds = (f", %i1_{mask}", f", tile<{mask}xi1>") if mask else ("", "")
    return f"%r, %t = cuda_tile.load_ptr_tko {order} {name}{names}{tail} : tile<{pointers}>{kinds} -> tile<{result}>, token"


def store(order: str = "weak", pointers: str = "8xptr<f32>", value: str = "8xf32", mask: str = "") -> str:
    name = pointer_name(pointers)
    shape, _, elem = value.rpartition("x")
    names, kinds = (f", %i1_{mask}", f", tile<{mask}xi1>") if mask else ("", "")
    source = f"%{elem}_{shape}" if shape else f"%{elem}"
    return f"%t = cuda_tile.store_ptr_tko {order} {name}, {source}{names} : tile<{pointers}>, tile<{value}>{kinds} -> token"


def pointer_name(pointers: str) -> str:
    shape, _, pointer = pointers.rpartition("x")
    elem = pointer[pointer.index("<") + 1 : -1]
    return f"%ptr_{elem}_{shape}" if shape else f"%ptr_{elem}"


def load_view(order: str = "weak", result: str = "8x8xf32") -> str:
    return (
        MAKE
        + f"%r, %t = cuda_tile.load_view_tko {order} %tiles[%i32, %i32] : {VIEW}, tile<i32>, tile<i32> -> tile<{result}>, token"
    )


def store_view(order: str = "weak", value: str = "8x8xf32") -> str:
    shape, _, elem = value.rpartition("x")
    return MAKE + (
        f"%t = cuda_tile.store_view_tko {order} %{elem}_{shape}, %tiles[%i32, %i32] : tile<{value}>, {VIEW}, tile<i32>, tile<i32> -> token"
    )


@rule("verify-mem-pointee")
@pytest.mark.parametrize("elem", ["f16", "i32", "f64"])
def test_the_pointee_is_the_value_s_type(elem: str) -> None:
    refused(store(pointers=f"8xptr<{elem}>"), POINTEE, "store_ptr_tko",
            real="failed to verify that `destination` type is expected a pointer type of `value` type")  # fmt: skip
    refused(load(pointers=f"8xptr<{elem}>"), POINTEE, "load_ptr_tko",
            real="failed to verify that `source` type is expected a pointer type of `result` type")  # fmt: skip
    accepted(store())
    accepted(load())


@rule("verify-mem-pointee")
def test_a_view_s_element_is_the_value_s_type() -> None:
    real = "expected tile type to be '!cuda_tile.tile<8x8xf32>' (based on view type), got '!cuda_tile.tile<8x8xf16>'"
    refused(load_view(result="8x8xf16"), POINTEE, "load_view_tko", args=P, real=real)
    refused(store_view(value="8x8xf16"), POINTEE, "store_view_tko", args=P, real=real)
    accepted(load_view(), args=P)
    accepted(store_view(), args=P)


@rule("verify-mem-pointer-shape")
@pytest.mark.parametrize("shape", ["16", "1", "2x4"])
def test_pointers_have_the_value_s_shape(shape: str) -> None:
    refused(
        load(pointers=f"{shape}xptr<f32>"),
        SHAPE,
        "load_ptr_tko",
        real="`source` type is expected a pointer type",
    )
    refused(
        store(pointers=f"{shape}xptr<f32>"),
        SHAPE,
        "store_ptr_tko",
        real="`destination` type is expected a pointer type",
    )
    accepted(load())


@rule("verify-mem-pointer-shape")
def test_a_view_s_tile_has_the_value_s_shape() -> None:
    refused(load_view(result="8x16xf32"), SHAPE, "load_view_tko", args=P, real="(based on view type)")
    refused(store_view(value="4x8xf32"), SHAPE, "store_view_tko", args=P, real="(based on view type)")
    rmw = "%r, %t = cuda_tile.atomic_rmw_tko relaxed device %ptr_i32_16, add, %i32_8 : tile<16xptr<i32>>, tile<8xi32> -> tile<8xi32>, token"
    refused(rmw, SHAPE, "atomic_rmw_tko")


@rule("verify-mem-mask-shape")
@pytest.mark.parametrize("mask", ["4", "1", "2x4"])
def test_a_mask_has_the_value_s_shape(mask: str) -> None:
    refused(load(mask=mask), MASK, "load_ptr_tko", real="shape of 'mask' must match the shape of 'source'")
    refused(
        store(mask=mask), MASK, "store_ptr_tko", real="shape of 'destination' must match the shape of 'mask'"
    )
    accepted(load(mask="8"))
    accepted(load())
    accepted(store(mask="8"))


@rule("verify-load-ordering")
@pytest.mark.parametrize("order", ["release", "acq_rel"])
def test_orderings_of_loads(order: str) -> None:
    real = f"expect one of: weak, relaxed, or acquire, but got: {order}"
    refused(load(f"{order} device"), LOAD_ORDER, "load_ptr_tko", real=real)
    refused(load_view(f"{order} device"), LOAD_ORDER, "load_view_tko", args=P, real=real)
    for good in ("weak", "relaxed device", "acquire device", "acquire gpu", "relaxed sys", "acquire tl_blk"):
        accepted(load(good))
        accepted(load_view(good), args=P)


@rule("verify-store-ordering")
@pytest.mark.parametrize("order", ["acquire", "acq_rel"])
def test_orderings_of_stores(order: str) -> None:
    real = f"expect one of: weak, relaxed, or release, but got: {order}"
    refused(store(f"{order} device"), STORE_ORDER, "store_ptr_tko", real=real)
    refused(store_view(f"{order} device"), STORE_ORDER, "store_view_tko", args=P, real=real)
    for good in ("weak", "relaxed device", "release device", "release gpu", "relaxed sys", "release tl_blk"):
        accepted(store(good))
        accepted(store_view(good), args=P)


@rule("verify-weak-no-scope")
@pytest.mark.parametrize("scope", ["device", "gpu", "sys", "tl_blk", "cta"])
def test_weak_has_no_scope(scope: str) -> None:
    refused(load(f"weak {scope}"), WEAK, "load_ptr_tko", real="weak load must not have memory scope")
    refused(store(f"weak {scope}"), WEAK, "store_ptr_tko", real="weak store must not have memory scope")
    refused(load_view(f"weak {scope}"), WEAK, "load_view_tko", args=P)
    refused(store_view(f"weak {scope}"), WEAK, "store_view_tko", args=P)
    accepted(load("weak"))


@rule("verify-non-weak-scope")
def test_the_others_have_one() -> None:
    for order in ("relaxed", "acquire"):
        refused(load(order), SCOPE, "load_ptr_tko", real=f"memory scope is required for {order} load")
        refused(load_view(order), SCOPE, "load_view_tko", args=P)
    for order in ("relaxed", "release"):
        refused(store(order), SCOPE, "store_ptr_tko", real=f"memory scope is required for {order} store")
        refused(store_view(order), SCOPE, "store_view_tko", args=P)
    accepted(load("relaxed device"))


@rule("verify-mem-order")
def test_memory_checks_have_an_order() -> None:
    for make, op, message in ((load, "load_ptr_tko", LOAD_ORDER), (store, "store_ptr_tko", STORE_ORDER)):
        bad = "release" if make is load else "acquire"
        other = "result" if make is load else "value"
        all_wrong = {"pointers": "8xptr<f16>", "mask": "2", other: "4xf32"}
        refused(make(bad, **all_wrong), POINTEE, op)
        all_wrong["pointers"] = "8xptr<f32>"
        refused(make(bad, **all_wrong), SHAPE, op)
        refused(make(bad, mask="2"), MASK, op)
        refused(make(bad), message, op)
        refused(make("acq_rel"), message, op)
        refused(make("relaxed"), SCOPE, op)


# ---- tokens


def typed(op: str, operands: str, types: str, results: str, segments: str, names: str) -> str:
    attrs = f"memory_ordering_semantics = #cuda_tile.memory_ordering_semantics<weak>, operandSegmentSizes = array<i32: {segments}>"
    return f'{names}"cuda_tile.{op}"({operands}) <{{{attrs}}}> : ({types}) -> {results}'


@rule("verify-mem-tokens")
def test_memory_ops_give_a_token() -> None:
    """A token to take is optional in the released format, the one that is given is not."""
    result = "in bytecode the number of results is the op's"
    stored = ("%ptr_f32_8, %f32_8", "tile<8xptr<f32>>, tile<8xf32>")
    refused(
        typed("store_ptr_tko", *stored, "()", "1, 1, 0, 0", ""),
        "expected 1 results, but found 0",
        "store_ptr_tko",
        text_only=result,
    )
    accepted(typed("store_ptr_tko", *stored, "!cuda_tile.token", "1, 1, 0, 0", "%t = "))
    loaded = ("%ptr_f32_8", "tile<8xptr<f32>>")
    refused(typed("load_ptr_tko", *loaded, "tile<8xf32>", "1, 0, 0, 0", "%r = "), "expected 2 results, but found 1", "load_ptr_tko",
            text_only=result)  # fmt: skip
    accepted(typed("load_ptr_tko", *loaded, "(tile<8xf32>, !cuda_tile.token)", "1, 0, 0, 0", "%r, %t = "))
    refused(typed("load_ptr_tko", *loaded, "(tile<8xf32>, tile<8xf32>)", "1, 0, 0, 0", "%r, %t = "),
            "result #1 must be cuda tile token type, but got '!cuda_tile.tile<8xf32>'", "load_ptr_tko")  # fmt: skip


@rule("verify-expected-token-operand")
@pytest.mark.parametrize(
    ("operands", "types", "segments"),
    [
        ("%tok, %i1_8x8, %f32_8x8", "token, tile<8x8xi1>, tile<8x8xf32>", "1, 2, 1, 1, 1"),
        ("%i1_8x8, %tok, %f32_8x8", "tile<8x8xi1>, token, tile<8x8xf32>", "1, 2, 1, 1, 1"),
        ("%i1_8x8, %f32_8x8", "tile<8x8xi1>, tile<8x8xf32>", "1, 2, 1, 1, 0"),
        ("", "", "1, 2, 0, 0, 0"),
        ("%f32_8x8", "tile<8x8xf32>", "1, 2, 0, 0, 1"),
    ],
)
def test_the_token_is_last(operands: str, types: str, segments: str) -> None:
    """Where the sizes are spelled, the last is the token's and is 1."""
    more, kinds = (f", {operands}", f", {types}") if operands else ("", "")
    made = MAKE + "%tok = cuda_tile.make_token : token\n"
    line = f"%r, %s = cuda_tile.load_view_tko %tiles[%i32, %i32]{more} {{operandSegmentSizes = array<i32: {segments}>}} : {VIEW}, tile<i32>, tile<i32>{kinds} -> tile<8x8xf32>, token"
    refused(
        made + line, TOKEN, "load_view_tko", args=P, text_only="bytecode has a flag for the token, not sizes"
    )
    good = "%r, %s = cuda_tile.load_view_tko %tiles[%i32, %i32], %i1_8x8, %f32_8x8, %tok {operandSegmentSizes = array<i32: 1, 2, 1, 1, 1>} : "
    accepted(
        made
        + good
        + f"{VIEW}, tile<i32>, tile<i32>, tile<8x8xi1>, tile<8x8xf32>, token -> tile<8x8xf32>, token",
        args=P,
    )


@rule("verify-expected-token-operand")
@pytest.mark.parametrize(
    ("segments", "token", "missing"),
    [("1, 1, 0, 0", True, True), ("1, 1, 1, 1", True, False), ("1, 1, 0, 1", False, True), ("1, 1, 1, 0", False, True),
     ("1, 2, 0, 1", True, False)],
)  # fmt: skip
def test_sizes_that_do_not_fit(segments: str, token: bool, missing: bool) -> None:
    """The token is to blame where it is missing or not counted; else the sizes are."""
    made = "%tok = cuda_tile.make_token : token\n"
    operands, types = "%ptr_f32_8, %f32_8", "tile<8xptr<f32>>, tile<8xf32>"
    if token:
        operands, types = f"{operands}, %tok", f"{types}, !cuda_tile.token"
    sizes = [int(size) for size in segments.split(",")]
    real = f"operandSegmentSizes has 4 entries with sum {sum(sizes)} for {2 + token} operands"
    line = made + typed("store_ptr_tko", operands, types, "!cuda_tile.token", segments, "%t = ")
    refused(
        line,
        TOKEN if missing else real,
        "store_ptr_tko",
        real=real if missing else "",
        text_only="no sizes there",
    )


def test_sizes_of_an_op_without_a_token() -> None:
    refused(
        tensor_view().replace("array<i32: 1, 2, 1>", "array<i32: 1, 2, 2>"),
        "operandSegmentSizes has 3 entries with sum 5 for 4 operands",
        "make_tensor_view",
        text_only="no sizes there",
    )
    accepted(tensor_view())


@rule("verify-expected-token-operand")
def test_the_token_of_the_others_is_a_token() -> None:
    made = "%tok = cuda_tile.make_token : token\n"
    stored = ("%ptr_f32_8, %f32_8, {}", "tile<8xptr<f32>>, tile<8xf32>, {}")
    for value, type in (("%i1_8", "tile<8xi1>"), ("%f32_8", "tile<8xf32>")):
        operands, types = (part.format(x) for part, x in zip(stored, (value, type)))
        refused(made + typed("store_ptr_tko", operands, types, "!cuda_tile.token", "1, 1, 0, 1", "%t = "), TOKEN, "store_ptr_tko",
                real=f"operand #2 must be cuda tile token type, but got '!cuda_tile.{type}'")  # fmt: skip
    operands, types = (part.format(x) for part, x in zip(stored, ("%tok", "!cuda_tile.token")))
    accepted(made + typed("store_ptr_tko", operands, types, "!cuda_tile.token", "1, 1, 0, 1", "%t = "))


# ---- atomics

MODES = ("and", "or", "xor", "add", "max", "min", "umax", "umin")


def rmw(mode: str, elem: str, order: str = "relaxed device", mask: str = "", pointers: str = "") -> str:
    names, kinds = (f", %i1_{mask}", f", tile<{mask}xi1>") if mask else ("", "")
    pointee = pointers or elem
    return (
        f"%r, %t = cuda_tile.atomic_rmw_tko {order} %ptr_{pointee}_8, {mode}, %{elem}_8{names} : "
        f"tile<8xptr<{pointee}>>, tile<8x{elem}>{kinds} -> tile<8x{elem}>, token"
    )


def cas(elem: str, order: str = "relaxed device", mask: str = "", pointee: str = "") -> str:
    names, kinds = (f", %i1_{mask}", f", tile<{mask}xi1>") if mask else ("", "")
    return (
        f"%r, %t = cuda_tile.atomic_cas_tko {order} %ptr_{pointee or elem}_8, %{elem}_8, %{elem}_8{names} : "
        f"tile<8xptr<{pointee or elem}>>, tile<8x{elem}>{kinds} -> tile<8x{elem}>, token"
    )


@rule("verify-atomic-base-first")
def test_atomics_are_memory_ops_first() -> None:
    refused(rmw("add", "f32", mask="4"), MASK, "atomic_rmw_tko", real="have same shape")
    refused(
        rmw("add", "f32", pointers="i32"),
        POINTEE,
        "atomic_rmw_tko",
        real="expected pointee type ('i32') to match element type of 'arg' ('f32')",
    )
    refused(rmw("xchg", "i8", pointers="i32", mask="4"), POINTEE, "atomic_rmw_tko")
    refused(cas("i8", mask="4"), MASK, "atomic_cas_tko")
    refused(cas("i32", pointee="i64"), POINTEE, "atomic_cas_tko")
    refused(rmw("add", "f32"), INT, "atomic_rmw_tko")
    accepted(rmw("add", "i32", mask="8"))
    accepted(cas("i32", mask="8"))


@rule("verify-atomic-base-first")
def test_atomics_are_not_weak() -> None:
    for source, op in (
        (rmw("add", "i32", "weak device"), "atomic_rmw_tko"),
        (cas("i32", "weak device"), "atomic_cas_tko"),
    ):
        refused(source, "memory ordering semantics must be one of: relaxed, acquire, release, acq_rel", op)
    for order in ("relaxed", "acquire", "release", "acq_rel"):
        accepted(rmw("add", "i32", f"{order} device"))
        accepted(cas("i32", f"{order} device"))


@rule("verify-atomic-int")
@pytest.mark.parametrize("mode", MODES)
def test_integer_modes(mode: str) -> None:
    for elem in ("i16", "i8", "f32", "f64", "f16"):
        refused(rmw(mode, elem), INT, "atomic_rmw_tko", real=f"'{mode}' works only with integers i32 and i64")
    for elem in ("i32", "i64"):
        accepted(rmw(mode, elem))


@rule("verify-atomic-addf")
def test_float_add() -> None:
    """f16, bf16, f32 and f64, as the released verifier has it."""
    for elem in ("i32", "i64", "f8E4M3FN", "f8E5M2", "tf32"):
        refused(
            rmw("addf", elem),
            ADDF,
            "atomic_rmw_tko",
            real="'addf' works only with floats f16, bf16, f32, and f64",
        )
    for elem in ("f16", "bf16", "f32", "f64"):
        accepted(rmw("addf", elem))


@rule("verify-atomic-xchg")
def test_exchange() -> None:
    for elem in ("i8", "i16", "f16", "bf16"):
        refused(
            rmw("xchg", elem),
            XCHG,
            "atomic_rmw_tko",
            real="'xchg' works only with integers or float of 32 or 64 bitwidth",
        )
    for elem in ("i32", "i64", "f32", "f64"):
        accepted(rmw("xchg", elem))


@rule("verify-atomic-cas-width")
def test_compare_and_swap() -> None:
    """The contract gives no text: the released verifier's."""
    for elem in ("i8", "i16", "f16", "bf16", "i1"):
        refused(cas(elem), "expect only float or integer types with 32 or 64 bit", "atomic_cas_tko")
    for elem in ("i32", "i64", "f32", "f64"):
        accepted(cas(elem))


def reduction(
    mode: str = "add", elem: str = "i32", value: str = "", order: str = "relaxed device", padding: str = ""
) -> str:
    tensor = f"tensor_view<?x64x{elem}, strides=[64,1]>"
    view = f"partition_view<tile=(8x8), {padding}{tensor}>"
    shape, _, kind = (value or f"8x8x{elem}").rpartition("x")
    return (
        f"%tensor = cuda_tile.make_tensor_view %ptr_{elem}, shape = [%i32, 64], strides = [64, 1] : tile<i32> -> {tensor}\n"
        f"%tiles = cuda_tile.make_partition_view %tensor : {view}\n"
        f"%t = cuda_tile.atomic_red_view_tko {order} %tiles[%i32, %i32], {mode}, %{kind}_{shape} : tile<{shape}x{kind}>, {view}, tile<i32> -> token"
    )


@rule("verify-atomic-int", "verify-atomic-addf", "verify-mem-pointee", "verify-mem-pointer-shape")
def test_reductions_into_a_view_follow_the_same_rules() -> None:
    op = "atomic_red_view_tko"
    refused(reduction("add", "f32"), INT, op)
    refused(reduction("max", "i16"), INT, op)
    refused(reduction("addf", "i32"), ADDF, op)
    refused(
        reduction("add", "i32", "8x8xi64"),
        POINTEE,
        op,
        real="view element type ('i32') must match value element type ('i64')",
    )
    refused(
        reduction("add", "i32", "8x16xi32"),
        SHAPE,
        op,
        real="view tile shape 8, 8 must match value shape 8, 16",
    )
    refused(reduction("xchg"), "atomic_red_view_tko op cannot use xchg operation", op)
    refused(
        reduction(order="acquire device"),
        "only 'relaxed' memory ordering is supported for view-based atomic reductions",
        op,
    )
    refused(reduction(order="relaxed sys"),
            "memory scope 'sys' is not supported for view-based atomic reductions; use 'tl_blk' or 'device' for TMA compatibility", op)  # fmt: skip
    refused(
        reduction(padding="padding_value = zero, "),
        "views with padding_value are not supported for atomic reductions",
        op,
    )
    accepted(reduction())
    accepted(reduction("addf", "f32"))


# ---- views


def tensor_view(
    pointee: str = "f32",
    elem: str = "f32",
    shape: str = "?x?",
    strides: str = "?,1",
    sizes: int = 2,
    steps: int = 1,
) -> str:
    dynamic = ", ".join(["%i32"] * (sizes + steps))
    types = "".join([", tile<i32>"] * (sizes + steps))
    comma = ", " if dynamic else ""
    segments = f"operandSegmentSizes = array<i32: 1, {sizes}, {steps}>"
    return (
        f'%v = "cuda_tile.make_tensor_view"(%ptr_{pointee}{comma}{dynamic}) <{{{segments}}}> : '
        f"(tile<ptr<{pointee}>>{types}) -> !cuda_tile.tensor_view<{shape}x{elem}, strides=[{strides}]>"
    )


@rule("verify-tensor-view-pointee")
@pytest.mark.parametrize("pointee", ["f16", "i32", "f64"])
def test_a_tensor_view_has_its_pointer_s_type(pointee: str) -> None:
    """The contract gives no text: the released verifier's."""
    refused(
        tensor_view(pointee),
        f"expected pointer to 'f32' to build tensor_view of this type, got '{pointee}'",
        "make_tensor_view",
    )
    accepted(tensor_view())


@rule("verify-tensor-view-dynamic-count")
def test_a_tensor_view_has_a_value_per_dynamic_slot() -> None:
    op = "make_tensor_view"
    for sizes in (0, 1, 3):
        refused(tensor_view(sizes=sizes), f"expected 2 dynamic shape operands, got {sizes}", op)
    for steps in (0, 2):
        refused(tensor_view(steps=steps), f"expected 1 dynamic stride operands, got {steps}", op)
    refused(tensor_view(shape="8x8", strides="8,1"), "expected 0 dynamic shape operands, got 2", op)
    accepted(tensor_view())
    accepted(tensor_view(shape="8x?", sizes=1))
    accepted(tensor_view(shape="8x8", strides="8,1", sizes=0, steps=0))


@rule("verify-tensor-view-dynamic-count")
def test_dynamic_values_have_one_type() -> None:
    mixed = (
        tensor_view()
        .replace("%i32, %i32, %i32", "%i32, %i64, %i32")
        .replace("tile<i32>, tile<i32>, tile<i32>", "tile<i32>, tile<i64>, tile<i32>")
    )
    refused(mixed, "expected dynamic shape index 1 to be of the same type as the other dynamic values (!cuda_tile.tile<i32>), "
            "got !cuda_tile.tile<i64>", "make_tensor_view")  # fmt: skip


@rule("verify-partition-view-tensor")
@pytest.mark.parametrize(
    "other",
    [
        "tensor_view<?x64xf16, strides=[64,1]>",
        "tensor_view<?x32xf32, strides=[64,1]>",
        "tensor_view<?x64xf32, strides=[?,1]>",
    ],
)
def test_a_partition_is_of_its_tensor(other: str) -> None:
    first = MAKE.splitlines()[0] + "\n"
    line = '%tiles = "cuda_tile.make_partition_view"(%tensor) : (!cuda_tile.{}) -> !cuda_tile.partition_view<tile=(8x8), {}>'
    refused(first + line.format(TENSOR, other),
            f"expected the type of the provided tensor_view value (!cuda_tile.{TENSOR}) to be the same as the view's tensor_view type "
            f"(!cuda_tile.{other})", "make_partition_view", args=P)  # fmt: skip
    accepted(first + line.format(TENSOR, TENSOR), args=P)
