"""Why a pass of the handshake family refuses: the note names what differs, and what is not refused is done."""

from __future__ import annotations

import pytest
from contract.tileas import (
    CREATE,
    D08,
    D09,
    D11,
    LOAD,
    PIPE,
    TMA,
    TO_LLVM,
    TOKEN,
    P,
    S,
    V,
    consume,
    function,
    loop,
    module,
    produce,
    run,
    transfer,
)

WAYS = {
    "element type f32 against i32": "tensor<128xi32, #b>",
    "128 elements against 256": "tensor<256xf32, #linear<8, lane = [1, 2, 4, 8, 16], warp = [32, 64]>>",
    "4 warps against 2": "tensor<128xf32, #linear<7, lane = [1, 2, 4, 8, 16], warp = [32]>>",
    "the result ignores index bits 1 that the source depends on":
        "tensor<128xf32, #linear<7, lane = [0, 2, 4, 8, 16], warp = [32, 64], inv = 1>>",
}  # fmt: skip


@pytest.mark.parametrize("why", WAYS)
def test_d09_says_what_has_no_way(why: str) -> None:
    text = module(function(f"%w = nv_tileas.convert_layout %f : {V} -> {WAYS[why]}"))
    done = run(text, D09, verify_each=False)
    assert len(done.emitted) == 1 and done.word(D09) == 4
    assert [note.text for note in done.emitted[0].notes] == [why]
    assert "convert_layout" in done.ir, "what is refused is left alone"


def test_d09_plans_the_others() -> None:
    """A conversion between equal layouts is gone, its users have its operand; one between others has a plan."""
    chain = f"%w = nv_tileas.convert_layout %f : {V} -> {V}\n%r = nv_tileas.convert_layout %w : {V} -> tensor<128xf32, #r>"
    done = run(module(function(chain)), D09)
    assert done.ok and not done.emitted and done.word(D09) == 0
    (left,) = [op for op in done.context.module.walk() if op.spec.name == "convert_layout"]
    (func,) = [op for op in done.context.module.walk() if op.spec.name == "func"]
    assert left.operands[0] is func.regions[0].block.args[3], "the argument itself"
    assert left.attrs["plan"] in ("rename", "shuffle", "shared")


def test_d08_names_both_instructions() -> None:
    mixed = loop(transfer(producer=TMA) + "\n" + transfer(producer=LOAD, result="%w"))
    good = loop(transfer("%g") + "\n" + transfer("%g", result="%w"))
    done = run(module(function(f"%q = {CREATE}\n{mixed}\n%g = {CREATE}\n{good}")), D08)
    assert len(done.emitted) == 1 and done.word(D08) == 4
    (note,) = done.emitted[0].notes
    assert note.text.endswith("uses load, the first producer of the pipeline uses TMA")
    assert done.ir.count("async.pipeline.transfer") == 2, "the pipeline that differs is left alone"
    assert done.ir.count("async.pipeline.produce_one") == done.ir.count("async.pipeline.consume_one") == 2


def test_d08_feeds_the_users_from_the_consumer() -> None:
    """The value of the transfer is the consumer's; nothing else reads the producer."""
    done = run(
        module(function(f"%q = {CREATE}\n" + loop(transfer() + f"\n%w = nv_tileas.negf %v : {V} -> {V}"))),
        D08,
    )
    assert done.ok and not done.emitted
    (user,) = [op for op in done.context.module.walk() if op.spec.name == "negf"]
    maker = user.operands[0].op
    assert maker is not None and maker.spec.name == "async.pipeline.consume_one"
    assert str(maker.operands[0].type) in PIPE


def deep(depth: int, step: str = "%one", flags: str = "") -> str:
    """A pipeline of some depth around one load, in a loop."""
    made = CREATE.replace("depth = 2", f"depth = {depth}")
    big = f"%big = nv_tileas.constant {{value = dense<1073741824> : !cuda_tile.tile<i32>}} : () -> {S}\n"
    text = loop(transfer(), step=step)
    return module(
        function(f"{big}%q = {made}\n{text.replace(f' : {S}, {S}, {S}', f'{flags} : {S}, {S}, {S}', 1)}")
    )


def names(done: object) -> list[str]:
    return [op.spec.name for op in done.context.module.walk()]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (produce() + "\n" + produce() + "\n" + consume(), "two producers share a pipeline"),
        (
            produce() + "\n" + consume() + "\n" + consume(result="%w"),
            "has no consumer of its own in the loop",
        ),
    ],
)
def test_d11_says_why_a_pipeline_does_not_fit(body: str, why: str) -> None:
    done = run(module(function(f"%q = {CREATE}\n" + loop(body))), D11)
    assert done.ok and done.word(D11) == 4 and done.texts == ["Failed to pipeline loop"]
    assert [note.text for note in done.emitted[0].notes if why in note.text]
    good = run(module(function(f"%q = {CREATE}\n" + loop(produce() + "\n" + consume()))), D11)
    assert good.ok and not good.emitted and good.word(D11) == 0


def test_d11_stays_within_the_counter() -> None:
    """What is fetched ahead is computed in the counter's type: three stages of 2^30 leave it, two do not."""
    refused = run(deep(3, "%big"), D08, D11)
    assert refused.word(D11) == 4
    assert [note.text for note in refused.emitted[0].notes] == [
        "the steps of the stages overflow the induction variable"
    ]
    assert run(deep(2, "%big"), D08, D11).word(D11) == 0


@pytest.mark.parametrize("depth", [2, 3, 4])
def test_d11_guards_every_stage_that_runs_ahead(depth: int) -> None:
    """The first stage asks whether the loop runs at all, each further one also whether it gets that far."""
    done = run(deep(depth), D08, D11)
    assert done.ok and not done.emitted
    found = names(done)
    before = found[: found.index("for")]
    assert before.count("if") == depth - 1, "one prologue a stage"
    assert before.count("andi") == depth - 2, "the first has one condition, the others two"


def test_d11_compares_as_the_loop_does() -> None:
    for flags, signedness in (("", "signed"), (" {unsignedCmp}", "unsigned")):
        done = run(deep(2, flags=flags), D08, D11)
        assert done.ok and not done.emitted
        first = next(op for op in done.context.module.walk() if op.spec.name == "cmpi")  # lower < upper
        assert (first.attrs["comparison_predicate"], first.attrs["signedness"]) == ("less_than", signedness)


def test_a_kernel_without_its_spec() -> None:
    done = run(
        module(function("", spec=""), function("", name="other")),
        "TileIROperationAnalysis",
        verify_each=False,
    )
    assert not done.ok and done.texts == ["kernel 'k' has no nv_tileaa.kernel_spec"]
    assert run(module(function("")), "TileIROperationAnalysis").ok


@pytest.mark.parametrize(
    "value", ["!nv_tileas.type_ref<2>", "[1 : i32, !nv_tileas.type_ref<2>]", "{a = [!nv_tileas.type_ref<2>]}"]
)
def test_references_are_found_inside_of_attributes(value: str) -> None:
    table = "nv_tileaa.compute_capability = 90 : i32, nv_tileaa.type_table = [f32, i32]"
    for number, ok in ((2, False), (1, True)):
        own = value.replace("<2>", f"<{number}>")
        body = f"%z = nv_tileas.addi %lo, %hi {{overflow = none, my.type = {own}}} : {S}, {S} -> {S}"
        done = run(module(function(body), attrs=table), "TileIROperationAnalysis")
        assert done.ok == ok and (ok or "'my.type'" in done.texts[0])


def test_d11_keeps_pipelines_of_one_loop_apart() -> None:
    body = loop(transfer() + "\n" + transfer("%g", result="%w"))
    done = run(module(function(f"%q = {CREATE}\n%g = {CREATE}\n{body}")), D08, D11)
    assert done.ok and not done.emitted and done.word(D11) == 0
    found = names(done)
    assert found[: found.index("for")].count("async.pipeline.produce_one") == 2, "each is filled ahead"


def test_d11_leaves_loops_with_exits_alone() -> None:
    for text, why in (
        (
            f"nv_tileas.loop {{\n{LOAD}\nnv_tileas.break\n}}",
            "the loop has no static step: it ends by an early exit",
        ),
        (
            loop(f"{LOAD}\nnv_tileas.if %b {{\nnv_tileas.continue\n}}"),
            "the loop has an early exit: nv_tileas.continue",
        ),
        (
            loop(f"nv_tileas.if %b {{\n{LOAD}\nnv_tileas.yield\n}}"),
            "the loop has no producer: what it loads stands behind a condition",
        ),
    ):
        flag = "%b = nv_tileas.constant {value = dense<1> : !cuda_tile.tile<i1>} : () -> tensor<i1, #s>\n"
        done = run(
            module(function(flag + text.replace("if %b", "if %b : tensor<i1, #s>"))), D11, verify_each=False
        )
        assert [note.text for note in done.emitted[0].notes] == [why]


def test_d11_says_nothing_of_loops_that_load_nothing() -> None:
    """Nobody tried to pipeline them; a loop within is looked at."""
    add = f"%w = nv_tileas.addf %f, %f {{rounding_mode = nearest_even}} : {V}, {V} -> {V}"
    exits = f"nv_tileas.loop {{\n{add}\nnv_tileas.break\n}}"
    done = run(module(function(loop("") + "\n" + loop(exits) + "\n" + exits)), D11)
    assert done.ok and not done.emitted and done.word(D11) == 0
    inner = f"nv_tileas.loop {{\n{LOAD}\nnv_tileas.break\n}}"
    done = run(module(function(loop(inner))), D11)
    assert [note.text for note in done.emitted[0].notes] == [
        "the loop has no static step: it ends by an early exit"
    ]


@pytest.mark.parametrize("step", [0, -1])
def test_d11_counts_upwards(step: int) -> None:
    made = f"%step = nv_tileas.constant {{value = dense<{step}> : !cuda_tile.tile<i32>}} : () -> {S}\n"
    done = run(module(function(made + loop(LOAD, step="%step"))), D11)
    assert [note.text for note in done.emitted[0].notes] == ["the step of the loop is no positive constant"]


def test_d11_keeps_loads_behind_the_writes_that_their_tokens_name() -> None:
    """A load that waits for an access of its loop stays there when the loop writes; without a write nothing can change."""
    attrs = "{{memory_ordering_semantics = weak, operandSegmentSizes = array<i32: 1, {}>}}"
    waits = f"%y, %u = nv_tileas.load_ptr_tko %p, %t {attrs.format('0, 0, 1')} : {P}, {TOKEN} -> {V}, {TOKEN}"
    own = attrs.replace("{{", "{{layout = #b, ").format("1, 0, 0")
    store = f"%t = nv_tileas.store_ptr_tko %p, %f {own} : {P}, {V} -> {TOKEN}"
    outside = f"%t = nv_tileas.make_token : () -> {TOKEN}\n"
    refused = run(module(function(loop(f"{store}\n{waits}"))), D11)
    (note,) = refused.emitted[0].notes
    assert note.text == "nv_tileas.load_ptr_tko is ordered behind an access of the loop"
    other = store.replace("%t =", "%s =")
    for text in (outside + loop(f"{other}\n{waits}"), outside + loop(waits)):
        done = run(module(function(text)), D11)
        assert done.ok and not done.emitted


EMPTY = module(
    '\n  nv_tileas.func {sym_name = "k", nv_tileaa.kernel_spec = {num_warps = 4}, function_type = () -> ()} {\n'
    "    nv_tileas.return\n  }"
)


@pytest.mark.parametrize(
    ("level", "text"), [(3, "Failed to get ComputeCapability"), (2, "failed to get compute capability.")]
)
def test_the_conversion_to_threads_needs_a_target(level: int, text: str) -> None:
    done = run(module(function("")), TO_LLVM, target=None, opt_level=level, verify_each=False)
    assert not done.ok and done.texts == [text] and not done.context.soft_failures, "hard, without the bit"
    assert run(EMPTY, TO_LLVM, opt_level=level).ok


def test_an_incomplete_function_goes_no_further() -> None:
    """An op that cannot be lowered sets the bit; the verifier behind the walk then lifts it, and no pass follows."""
    text = module(function(f'%u = "nv_tileas.async.wait"() : () -> {TOKEN}'))
    done = run(text, TO_LLVM, "KernelAttrPass", verify_each=False)
    assert not done.ok and done.started() == [TO_LLVM] and done.emitted
    assert run(EMPTY, TO_LLVM, "KernelAttrPass").started() == [TO_LLVM, "KernelAttrPass"]
