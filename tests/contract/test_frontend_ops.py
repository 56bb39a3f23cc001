"""How a frontend builds operations: tokens and segments, matrix multiply, reductions, and the common pitfalls."""

from __future__ import annotations

import pytest
from contract.kit import compile_, entry, messages, module, ptx_of
from contract.rules import rule

from tileiras.compiler.dialects.cuda_tile.ops import BY_NAME
from tileiras.compiler.source import load, to_text
from tileiras.diag import Sink

PARTITION = "partition_view<tile=(8x8), tensor_view<?x?xf32, strides=[?,1]>>"
VIEW = f"""\
      %n = cuda_tile.constant <i32: 8> : !cuda_tile.tile<i32>
      %i = cuda_tile.constant <i32: 0> : !cuda_tile.tile<i32>
      %view = cuda_tile.make_tensor_view %p, shape = [%n, %n], strides = [%n, 1]
        : !cuda_tile.tile<i32> -> tensor_view<?x?xf32, strides=[?,1]>
      %tiles = cuda_tile.make_partition_view %view : {PARTITION}
      %mask = cuda_tile.constant <i1: true> : !cuda_tile.tile<8x8xi1>
      %other = cuda_tile.constant <f32: 0.0> : !cuda_tile.tile<8x8xf32>
      %t0 = cuda_tile.make_token : !cuda_tile.token
"""
MASK, OTHER, TOKEN = "tile<8x8xi1>", "tile<8x8xf32>", "!cuda_tile.token"


def load_view(
    operands: str = "%mask, %other, %t0", types: str = f"{MASK}, {OTHER}, {TOKEN}", segments: str | None = "1, 2, 1, 1, 1",
    semantic: str = "relaxed", scope: str | None = "gpu", results: str = f"tile<8x8xf32>, {TOKEN}", name: str = "load_view_tko",
) -> str:  # fmt: skip
    """The document's load, in its own spelling."""
    attrs = [f"mem_semantic = #cuda_tile<mem_semantic {semantic}>"] if semantic else []
    attrs += [f"mem_scope = #cuda_tile<mem_scope {scope}>"] if scope else []
    attrs += [f"operandSegmentSizes = array<i32: {segments}>"] if segments else []
    tail = f", {operands}" if operands else ""
    kinds = f", {types}" if types else ""
    names = "%x, %t1" if "," in results else "%x"
    body = (
        f"{VIEW}      {names} = cuda_tile.{name} %tiles[%i, %i]{tail} {{ {', '.join(attrs)} }}\n"
        f"        : {PARTITION}, tile<i32>, tile<i32>{kinds} -> {results}"
    )
    return module(entry(body, args="%p: !cuda_tile.ptr<f32>"))


def refusal(text: str) -> tuple[int, list[str]]:
    code, found, _ = compile_(text)
    return code, messages(found)


@rule("frontend-load-operand-order")
def test_operand_order() -> None:
    assert compile_(load_view())[:2] == (0, [])
    code, said = refusal(load_view("%t0, %other, %mask", f"{TOKEN}, {OTHER}, {MASK}"))
    assert (code, said[0]) == (5, "expected token operand")


@rule("frontend-segments-five-slots", "frontend-attr-segments")
def test_segments() -> None:
    assert compile_(load_view("%t0", TOKEN, "1, 2, 0, 0, 1"))[:2] == (0, [])
    code, said = refusal(load_view("%t0", TOKEN, "1, 2, 1, 0, 1"))
    assert code == 5 and "operandSegmentSizes" in said[0] and "5" in said[0] and "4 operands" in said[0]
    code, said = refusal(load_view(segments="1, 2, 1, 0, 1"))
    assert code == 5 and "6 operands" in said[0]
    # row 25: real text never spells the sizes, so they may be left out where the operands alone decide.
    assert compile_(load_view(segments=None))[:2] == (0, [])


@rule("frontend-pitfall-operand-order")
def test_wrong_order_names_the_token() -> None:
    code, found, _ = compile_(load_view("%mask, %t0, %other", f"{MASK}, {TOKEN}, {OTHER}"))
    assert code == 5 and found[0].word == 0x103 and found[0].op == "cuda_tile.load_view_tko"
    assert found[0].text == "expected token operand"
    assert found[0].loc is not None and found[0].loc.line == 12


@rule("frontend-token-in-out")
def test_a_load_produces_data_and_token() -> None:
    assert refusal(load_view(results="tile<8x8xf32>"))[0] == 5
    assert compile_(load_view())[0] == 0
    families = {
        "load_view_tko": 2,
        "load_ptr_tko": 2,
        "store_view_tko": 1,
        "store_ptr_tko": 1,
        "atomic_rmw_tko": 2,
    }
    for name, results in families.items():
        spec = BY_NAME[name]
        assert len(spec.results) == results and spec.results[-1].name.endswith("token")


@rule("frontend-attr-memory")
def test_memory_attributes() -> None:
    weak = load_view(semantic="", scope=None)
    assert compile_(weak)[:2] == (0, [])
    assert "load_view_tko weak" in to_text(load(weak, Sink()))
    code, said = refusal(load_view(scope=None))
    assert (code, said[0]) == (5, "non-weak memory ordering requires an explicit scope")
    code, said = refusal(load_view(semantic="weak"))
    assert (code, said[0]) == (5, "weak memory ordering must not carry a scope")
    assert "load_view_tko relaxed device" in to_text(load(load_view(), Sink())), "gpu is the device scope"


@rule("frontend-tko-suffix")
@pytest.mark.parametrize("name", ["load_view", "store_view", "load_ptr", "atomic_rmw", "load_view_tk"])
def test_the_suffix_belongs_to_the_name(name: str) -> None:
    code, said = refusal(load_view(name=name))
    assert code == 5 and f"cuda_tile.{name}" in said[0] and "unknown" in said[0]


def two_loads(chains: int) -> str:
    second = "%t1" if chains == 1 else "%other_chain"
    body = f"""\
      %block, %y, %z = cuda_tile.get_tile_block_id : !cuda_tile.tile<i32>
      %t0 = cuda_tile.make_token : !cuda_tile.token
      %other_chain = cuda_tile.make_token : !cuda_tile.token
      %one = cuda_tile.constant <f32: 1.0> : !cuda_tile.tile<f32>
      %t1 = cuda_tile.store_ptr_tko weak %p, %one token = %t0 : tile<ptr<f32>>, tile<f32> -> token
      %a, %t2 = cuda_tile.load_ptr_tko weak %q token = {second} : tile<ptr<f32>> -> tile<f32>, token
      %both = cuda_tile.join_tokens %t1, %t2 : token
      %t3 = cuda_tile.store_ptr_tko weak %r, %a token = %both : tile<ptr<f32>>, tile<f32> -> token"""
    return module(
        entry(body, args="%p: !cuda_tile.ptr<f32>, %q: !cuda_tile.ptr<f32>, %r: !cuda_tile.ptr<f32>")
    )


@rule("frontend-make-token", "frontend-join-tokens")
def test_token_chains_order_memory() -> None:
    """On one chain the load sees the store's value, also through another pointer; the joined store comes after both."""
    import numpy as np

    import tileiras

    for target in ("reference", "emulator"):
        memory = np.zeros(4, np.float32)
        tileiras.launch(two_loads(1), "k", (1, 1, 1), [memory[:1], memory[:1], memory[1:2]], target=target)
        assert memory.tolist() == [1, 1, 0, 0], target
    assert memory_steps(two_loads(1)) == ["st", "bar", "ld", "bar", "st"]
    assert memory_steps(two_loads(2)) == ["st", "ld", "bar", "st"], (
        "nothing orders the two chains before they are joined"
    )


def memory_steps(text: str) -> list[str]:
    """Loads, stores and barriers of the PTX, in order."""
    words = [
        line.split()[1 if line.strip().startswith("@") else 0]
        for line in ptx_of(text).splitlines()
        if line.strip()
    ]
    return [word.split(".")[0] for word in words if word.startswith(("st.global", "ld.global", "bar.sync"))]


# ---- matrix multiply


def mma(a: str, b: str, c: str, d: str | None = None, attrs: str = "") -> str:
    ins = {"a": a, "b": b, "c": c}
    body = "".join(
        f"      %{n} = cuda_tile.constant <{t[-3:]}: 1.0> : !cuda_tile.tile<{t}>\n" for n, t in ins.items()
    )
    tail = f" {{ {attrs} }}" if attrs else ""
    return module(
        entry(body + f"      %d = cuda_tile.mmaf %a, %b, %c{tail} : tile<{a}>, tile<{b}>, tile<{d or c}>")
    )


@rule("frontend-mma-shapes")
@pytest.mark.parametrize(
    ("a", "b", "c", "text"),
    [
        ("16x32xf16", "32x16xf16", "16x16xf32", None),
        ("4x16x32xf16", "4x32x16xf16", "4x16x16xf32", None),
        ("16x32xf16", "16x16xf16", "16x16xf32", "mma contracting dimension mismatch"),
        ("16x32xf16", "32x16xf16", "32x16xf32", "mma accumulator must agree with A and B on M and N"),
        ("16x32xf16", "32x16xf16", "16x32xf32", "mma accumulator must agree with A and B on M and N"),
        ("4x16x32xf16", "8x32x16xf16", "4x16x16xf32", "mma accumulator must agree with A and B on M and N"),
        ("4x16x32xf16", "32x16xf16", "16x16xf32", "mma operands must share rank"),
        ("32xf16", "32xf16", "16xf32", "mma operand A must be rank-2 or rank-3"),
    ],
)
def test_mma_shapes(a: str, b: str, c: str, text: str | None) -> None:
    code, said = refusal(mma(a, b, c))
    assert (code, said[0] if said else None) == (5 if text else 0, text)


@rule("frontend-mmaf-rounding-optional")
def test_rounding_is_optional() -> None:
    plain = mma("16x16xf16", "16x16xf16", "16x16xf32")
    spelled = mma("16x16xf16", "16x16xf16", "16x16xf32", attrs="rounding = #cuda_tile.rounding<nearest_even>")
    assert compile_(plain)[:2] == (0, [])
    assert ptx_of(spelled) == ptx_of(plain), "row 30: nearest_even is what there is"


MMA_LOOP = """\
      %lower = cuda_tile.constant <i32: 0> : !cuda_tile.tile<i32>
      %upper = cuda_tile.constant <i32: 4> : !cuda_tile.tile<i32>
      %step = cuda_tile.constant <i32: 1> : !cuda_tile.tile<i32>
      %a = cuda_tile.constant <f16: 1.0> : !cuda_tile.tile<64x64xf16>
      %zero = cuda_tile.constant <f32: 0.0> : !cuda_tile.tile<64x64xf32>
      %sum = cuda_tile.for %k in (%lower to %upper, step %step) : tile<i32> iter_values(%acc = %zero) -> (tile<64x64xf32>) {
        %next = cuda_tile.mmaf %a, %a, %acc : tile<64x64xf16>, tile<64x64xf16>, tile<64x64xf32>
        cuda_tile.continue %next : tile<64x64xf32>
      }
      %flat = cuda_tile.reshape %sum : tile<64x64xf32> -> tile<4096xf32>
      %lane = cuda_tile.iota : tile<4096xi32>
      %base = cuda_tile.reshape %p : tile<ptr<f32>> -> tile<1xptr<f32>>
      %wide = cuda_tile.broadcast %base : tile<1xptr<f32>> -> tile<4096xptr<f32>>
      %at = cuda_tile.offset %wide, %lane : tile<4096xptr<f32>>, tile<4096xi32> -> tile<4096xptr<f32>>
      %done = cuda_tile.store_ptr_tko weak %at, %flat : tile<4096xptr<f32>>, tile<4096xf32> -> token"""


@rule("frontend-mma-same-ssa")
def test_the_accumulator_flows_through() -> None:
    text = module(entry(MMA_LOOP, args="%p: !cuda_tile.ptr<f32>"))
    assert compile_(text)[:2] == (0, [])
    import numpy as np

    import tileiras

    out = np.zeros(4096, np.float32)
    tileiras.launch(text, "k", (1, 1, 1), [out], target="emulator")
    assert (out == 256).all()


@rule("frontend-mma-atom-not-selectable")
def test_the_lowering_picks_the_atom() -> None:
    text = module(entry(MMA_LOOP, args="%p: !cuda_tile.ptr<f32>"), attrs="")
    shapes = {}
    for gpu in ("sm_75", "sm_80"):
        lines = [line for line in ptx_of(text, gpu).splitlines() if "mma" in line]
        shapes[gpu] = {
            word for line in lines for word in line.split(".") if word.startswith("m") and word[1:2].isdigit()
        }
    assert shapes == {"sm_75": {"m16n8k8"}, "sm_80": {"m16n8k16"}}
    assert not any("atom" in attr.name for name in ("mmaf", "mmai") for attr in BY_NAME[name].attrs)


# ---- reductions


def reduction(body: str, tail: str = "") -> str:
    return module(
        entry(
            f"""\
      %t0 = cuda_tile.make_token : !cuda_tile.token
      %a = cuda_tile.constant <f32: 1.0> : !cuda_tile.tile<8x16xf32>
      %zero = cuda_tile.constant <f32: 0.0> : !cuda_tile.tile<f32>
      %sum = cuda_tile.reduce %a, %zero {{ axis = 1 : i32 }} : tile<8x16xf32> -> tile<8xf32> {{
{body}
      }}{tail}""",
            args="%p: !cuda_tile.ptr<f32>",
        )
    )


@rule("frontend-reduce-combiner")
def test_combiner() -> None:
    # Axis is dim, a constant identity operand is the identity, f32 in a body means tile<f32>.
    good = """\
      ^bb0(%lhs: f32, %rhs: f32):
        %r = cuda_tile.addf %lhs, %rhs : f32
        cuda_tile.yield %r : f32"""
    assert compile_(reduction(good))[:2] == (0, [])
    from_memory = "%r, %t = cuda_tile.load_ptr_tko weak %p : tile<ptr<f32>> -> tile<f32>, token"
    load = good.replace("%r = cuda_tile.addf %lhs, %rhs : f32", from_memory)
    code, said = refusal(reduction(load))
    assert (code, said[0]) == (5, "only pure operations allowed")
    ranked = good.replace("%lhs: f32, %rhs: f32", "%lhs: tile<4xf32>, %rhs: tile<4xf32>").replace(
        ": f32", ": tile<4xf32>"
    )
    code, said = refusal(reduction(ranked))
    assert (code, said[0]) == (5, "expect 0-rank tile type at index: 0")
    assert refusal(reduction(good.replace("%lhs: f32, %rhs: f32", "%lhs: f32")))[0] == 5
    assert refusal(reduction(good.replace("f32", "f16")))[0] == 5, (
        "the combiner has the element type of the input"
    )


# ---- attributes of operations, and the pitfalls


ADD = """\
      %x = cuda_tile.constant <f32: 1.0> : !cuda_tile.tile<8xf32>
      %y = cuda_tile.addf %x, %x{attrs} : !cuda_tile.tile<8xf32>"""


@rule("frontend-attr-optimization-hints")
def test_hints_are_advice() -> None:
    plain = module(entry(ADD.format(attrs="")))
    hinted = module(
        entry(
            ADD.format(attrs=" { optimization_hints = #cuda_tile.optimization_hints<sm_90 = {latency = 3}> }")
        )
    )
    assert ptx_of(plain) == ptx_of(hinted)


@rule("frontend-attr-fastmath")
@pytest.mark.parametrize("value", ["#arith.fastmath<fast>", "#arith.fastmath<nnan,ninf>", '"fast"'])
def test_fastmath_is_optional_and_changes_nothing(value: str) -> None:
    # No operation of the real dialect has it, so it is accepted and ignored.
    plain = module(entry(ADD.format(attrs="")))
    flagged = module(entry(ADD.format(attrs=f" {{ fastmath = {value} }}")))
    assert ptx_of(flagged) == ptx_of(plain)
    assert "fast" not in to_text(load(flagged, Sink()))


@rule("frontend-no-nv-tileas-input")
@pytest.mark.parametrize(
    "form", ['"nv_tileas.async.pipeline.produce_one"() : () -> ()', "nv_tileas.async.pipeline.produce_one"]
)
def test_no_pipeline_operations(form: str) -> None:
    code, said = refusal(module(entry(f"      {form}")))
    assert (code, said[0]) == (5, "unregistered dialect: nv_tileas")
    attrs = "nv_tileaa.compute_capability = 90 : i32, tt.num_stages = 3 : i32"
    assert compile_(module(entry(), attrs=attrs))[:2] == (0, [])


@rule("frontend-pitfall-tensor-type")
def test_tensor_instead_of_tile() -> None:
    good = "      %a = cuda_tile.constant <f32: 1.0> : !cuda_tile.tile<8xf32>"
    assert compile_(module(entry(good)))[:2] == (0, [])
    code, said = refusal(module(entry(good.replace("!cuda_tile.tile<8xf32>", "tensor<8xf32>"))))
    assert code == 5 and "tensor<8xf32>" in said[0]


@rule("frontend-pitfall-power-of-two")
def test_ragged_tile() -> None:
    good = "      %a = cuda_tile.constant <f32: 1.0> : !cuda_tile.tile<128xf32>"
    assert compile_(module(entry(good)))[:2] == (0, [])
    code, found, _ = compile_(module(entry(good.replace("128", "100"))))
    assert code == 5 and messages(found)[0] == "tile dimensions must be powers of two"
    assert "100" in found[0].notes[0].text


IF_VIEW = """\
      %c = cuda_tile.constant <i1: true> : !cuda_tile.tile<i1>
      %n = cuda_tile.constant <i32: 8> : !cuda_tile.tile<i32>
      %v = cuda_tile.make_tensor_view %p, shape = [%n], strides = [1] : !cuda_tile.tile<i32> -> tensor_view<?xf32, strides=[1]>
"""


@rule("frontend-entry-no-view-results", "frontend-pitfall-view-result")
def test_views_are_not_returned() -> None:
    view = "tensor_view<?xf32, strides=[1]>"
    args = "%p: !cuda_tile.ptr<f32>"
    yields = f"{{ cuda_tile.yield %v : {view} }}"
    code, said = refusal(
        module(entry(f"{IF_VIEW}      %r = cuda_tile.if %c -> ({view}) {yields} else {yields}", args=args))
    )
    assert (code, said[0]) == (5, "view-typed if results are not permitted")
    loop = f"""\
      %one = cuda_tile.constant <i32: 1> : !cuda_tile.tile<i32>
      %r = cuda_tile.for %i in (%one to %n, step %one) : tile<i32> iter_values(%w = %v) -> ({view}) {{
        cuda_tile.continue %w : {view}
      }}"""
    code, said = refusal(module(entry(IF_VIEW + loop, args=args)))
    assert (code, said[0]) == (5, "view-typed for results are not permitted")
    inside = f"""\
      cuda_tile.if %c {{
        %tiles = cuda_tile.make_partition_view %v : partition_view<tile=(8), {view}>
        %x, %t = cuda_tile.load_view_tko weak %tiles[%n] : partition_view<tile=(8), {view}>, tile<i32> -> tile<8xf32>, token
      }}"""
    assert compile_(module(entry(IF_VIEW + inside, args=args)))[:2] == (0, [])


@rule("frontend-roster-92")
def test_roster() -> None:
    """A file of 13.1 holds 92 operations exactly; those that came later are refused by name or by what they need."""
    from op_zoo import SNIPPETS, module_text

    from tileiras.compiler.source import load, to_bytecode
    from tileiras.diag import CompileError, Sink

    more = "global @g <f32: 1.0> : tile<1xf32>\n"
    loop = "for %i in (%n to %n, step %n) : tile<i32> {\n continue\n}"
    held, refused = set[str](), set[str]()
    for name, _, lines in (*SNIPPETS, ("continue", 1, loop), ("global", 1, "")):
        if name in held:
            continue
        text = module_text(lines)
        if name == "global":
            text = text.replace("{", "{\n" + more, 1)
        try:
            data = to_bytecode(load(text, Sink()), "13.1")
        except CompileError:
            refused.add(name)
            continue
        held |= {op.spec.name for op in load(data, Sink()).walk()}
    assert len(held) == 92, sorted(held)
    assert {"pack", "unpack", "alloca", "mmaf_scaled", "atan2"} <= refused - held
