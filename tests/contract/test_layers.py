"""The verifier ladder: a fault is injected at exactly one layer, and that layer reports it."""

from __future__ import annotations

import ast
import shlex
from pathlib import Path
from typing import Any

import pytest
from contract.handshake_kernels import LOADS_IN_LOOP
from contract.kit import NOOP, bytecode, command, compile_, entry, messages, ptx_of, stub_ptxas
from contract.kit import module as tile_module
from contract.rules import rule
from contract.test_nvvm import kernel, overflow
from contract.tileas import (
    CREATE,
    D08,
    D11,
    LAYOUTS,
    LOAD,
    PIPE,
    PIPELINED,
    TOKEN,
    S,
    V,
    consume,
    function,
    load,
    module,
    produce,
    run,
)

from tests.fixtures import BYTECODE
from tileiras.compiler import pipeline, source
from tileiras.compiler.dialects.nv_tileas import ops as tileas
from tileiras.compiler.ir.build import create
from tileiras.compiler.ir.core import Block, Op, Region
from tileiras.compiler.ir.passes import Context, Pass, PassManager, op_names
from tileiras.compiler.ir.rewrite import Rewriter, rewrite
from tileiras.compiler.ir.verify import check_op, verify
from tileiras.compiler.target import sm
from tileiras.diag import CompileError, Loc, Sink

ptxas = pytest.importorskip("tests.peers", reason="the toolkit is found through tests/peers.py").tool("ptxas")
needs_ptxas = pytest.mark.skipif(ptxas is None, reason="ptxas is not installed")
GENERIC = "failed to compile Tile IR program"


class Fault(Pass):
    """A pass that does what a test injects."""

    NAME = "Fault"
    ANCHOR = "module"
    __slots__ = ("body",)

    def __init__(self, body: Any) -> None:
        super().__init__()
        self.body = body

    def run(self, module: Any, context: Context) -> bool:
        return self.body(self, module, context) is not False


@pytest.fixture
def inject(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Puts a faulty pass behind a pass of the pipeline."""

    def install(behind: str, body: Any, stage: str = "tileas") -> None:
        class Row(pipeline.Row):
            __slots__ = ()

            def load(self, **options: Any) -> Pass:
                return Fault(body)

        rows = list(pipeline.PIPELINE)
        at = next(i for i, row in enumerate(rows) if row.name == behind) + 1
        rows.insert(at, Row(stage, "Fault", "", ""))
        monkeypatch.setattr(pipeline, "PIPELINE", tuple(rows))

    return install


def trace_of(text: str | bytes, target: str = "sm_90", **options: Any) -> tuple[int, list[Any], list[str]]:
    """(code, events, messages) of a compile to PTX."""
    sink, trace = Sink(), []  # type: ignore[var-annotated]
    try:
        made = source.load(text, sink, file="k.tileir")
        assert verify(made, sink)
        pipeline.compile_module(made, sm.find(target), sink, trace=trace, **options)
    except CompileError as error:
        return error.exit_code, trace, messages(sink.emitted)
    return 0, trace, messages(sink.emitted)


def layers(trace: list[Any]) -> list[tuple[int, str]]:
    return [(event[1], event[2]) for event in trace if event[0] == "layer"]


def started(trace: list[Any]) -> list[str]:
    return [event[1] for event in trace if event[0] == "pass"]


STAGED = LOADS_IN_LOOP.replace("tt.num_warps", "tt.num_stages = 2 : i32, tt.num_warps")


# ---- the ladder as a whole


@rule("layer-five-ordered", "layer-3-where", "layer-4-once")
def test_the_ladder_of_a_clean_compile() -> None:
    code, trace, _ = trace_of(STAGED, verify_each=True)
    assert code == 0
    passes = started(trace)
    for name in passes:  # layer 2 stands behind every pass, layer 1 inside
        at = trace.index(("pass", name))
        behind = trace.index(("layer", 2, name))
        inside = [event for event in trace[at + 1 : behind] if event[0] in ("pass", "layer")]
        assert all(event[0] == "layer" and event[1] in (1, 3, 4) for event in inside)
    assert {name for number, name in layers(trace) if number == 1} >= {
        "nv_tileas.async.pipeline.create",
        "nv_tileas.async.pipeline.produce_one",
    }
    assert [name for number, name in layers(trace) if number == 3] == [
        "TileIROperationAnalysis",
        "ModuleVerifier",
    ]
    assert [name for number, name in layers(trace) if number == 4] == ["NVVMIRVerifier"]
    ends = [i for i, event in enumerate(trace) if event[:2] == ("layer", 4)]
    assert max(trace.index(("pass", name)) for name in passes) < ends[0] < trace.index(("codegen", "ptx"))


@rule("layer-five-ordered", "layer-5-only-after-success")
def test_ptxas_runs_last_and_only_after_success(tmp_path: Path, inject: Any) -> None:
    calls = tmp_path / "calls"
    tool = stub_ptxas(
        tmp_path,
        f'echo call >> {shlex.quote(str(calls))}; while [ $# -gt 1 ]; do [ "$1" = -o ] && : > "$2"; shift; done',
    )
    failing = [
        tile_module(entry("      %a = cuda_tile.iota : tile<3xi32>")),  # layer 1
        kernel(129, 75),  # layer 4
    ]
    for text in failing:
        assert compile_(text, emit="cubin", ptxas=str(tool))[0] == 5 and not calls.exists()
    compile_(NOOP, emit="cubin", ptxas=str(tool))
    assert calls.read_text().count("call") == 1
    calls.unlink()
    inject("ConvertTileAAToTileAS", orphan_consumer)  # layer 2
    assert compile_(NOOP, emit="cubin", ptxas=str(tool), verify_each=True)[0] == 5 and not calls.exists()
    inject("KernelAttrPass", strip_attributes, "nvvm")  # layer 3
    assert compile_(NOOP, emit="cubin", ptxas=str(tool))[0] == 5 and not calls.exists()


# ---- layer 1


def op_of(text: str, name: str) -> Op:
    (found,) = [op for op in load(text).walk() if op.spec.name == name]
    return found


@rule(
    "layer-1-on-construction",
    "layer-1-before-linking",
    "layer-1-create-returns-null",
    "layer-1-diag-location",
)
def test_create_verifies_before_it_links() -> None:
    seen: dict[str, Any] = {}

    def body(p: Pass, module_: Any, context: Context) -> bool:
        old = next(op for op in module_.walk() if op.spec.name == "load_ptr_tko")
        old.loc = Loc("k.mlir", 7, 3)
        block = old.block
        before = list(block.ops)
        found = Rewriter(context, old).create(tileas.CREATE, (), (), {"depth": 2})  # without its result
        seen.update(
            found=found,
            same=block.ops == before,
            good=Rewriter(context, old).create(tileas.BY_NAME["make_token"], (), (old.results[1].type,)),
        )
        return found is not None

    done = run(module(function(LOAD)), Fault(body), D11)
    assert seen["found"] is None and seen["same"] and seen["good"] is not None
    assert not done.ok and len(done.emitted) == 1
    assert (
        done.emitted[0].op == "nv_tileas.async.pipeline.create" and str(done.emitted[0].loc) == "k.mlir:7:3"
    )


@rule("layer-1-before-run-returns", "layer-catch-operand-count")
def test_a_malformed_op_ends_the_pass_before_layer_2() -> None:
    def body(p: Pass, module_: Any, context: Context) -> bool:
        old = next(op for op in module_.walk() if op.spec.name == "load_ptr_tko")
        return (
            Rewriter(context, old).create(tileas.BY_NAME["addi"], [old.operands[0], old.operands[0]], ())
            is not None
        )

    done = run(module(function(LOAD)), Fault(body), D11)
    assert not done.ok and not [event for event in done.trace if event[:2] == ("layer", 2)]
    assert done.started() == ["Fault"]


@rule("layer-1-create-returns-null")
def test_a_pattern_that_ignores_the_null_fails_the_pass() -> None:
    def careless(op: Op, rewriter: Rewriter) -> None:
        rewriter.create(tileas.CREATE, (), (), {"depth": 2})

    def silent(op: Op, rewriter: Rewriter) -> None:
        pass

    for pattern, text in ((careless, "expected 1 results"), (silent, "was not replaced")):
        body = lambda p, m, c, pattern=pattern: rewrite(m, "nv_tileas.load_ptr_tko", pattern, c)  # noqa: E731
        done = run(module(function(LOAD)), Fault(body))
        assert not done.ok and len(done.emitted) == 1 and text in done.texts[0]


@rule("layer-1-on-construction", "layer-1-checks")
@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_90", "sm_100"])
def test_layer_1_sees_every_op_that_a_real_compile_makes(gpu_name: str) -> None:
    sizes: list[int] = []

    def after(_name: str, ir: Any) -> None:
        if hasattr(ir, "walk"):
            sizes.append(len(list(ir.walk())))

    for path in [p for name in ("flash_bwd_bf16", "adamw_bf16") for p in BYTECODE.rglob(f"{name}.tilebc")]:
        sink, trace = Sink(), []
        sizes.clear()
        pipeline.compile_module(source.load(path, sink), sm.find(gpu_name), sink, trace=trace, after=after)
        made = sum(event[:2] == ("layer", 1) for event in trace)
        assert made >= sizes[0] + sizes[-1] > 100, "each lowering makes its ops anew"
        assert ("layer", 1, "nv_tileaa.func") in trace and ("layer", 1, "nv_tileas.func") in trace


@rule("layer-1-before-run-returns", "layer-1-diag-location")
def test_a_malformed_op_outside_a_rewriter_ends_its_pass() -> None:
    def body(p: Pass, module_: Any, context: Context) -> bool:
        old = next(op for op in module_.walk() if op.spec.name == "load_ptr_tko")
        old.block.append(create(tileas.BY_NAME["negi"], (), (), {}, (), Loc("k.mlir", 7, 3)))
        return True

    done = run(module(function(LOAD)), Fault(body), D11)
    assert not done.ok and done.started() == ["Fault"] and len(done.emitted) == 1
    assert str(done.emitted[0].loc) == "k.mlir:7:3" and done.emitted[0].op == "nv_tileas.negi"


@pytest.mark.parametrize("name", ["flash_bwd_bf16", "cpp_matmul_f16", "top_p"])
def test_the_ir_counts_the_names_of_ops(name: str) -> None:
    path = BYTECODE / f"{name}.tilebc"
    sink = Sink()
    context = Context(source.load(path, sink), sm.find("sm_90"), sink)
    seen: list[str] = []

    def after(pass_: str, ir: Any) -> None:
        assert op_names(ir) <= context.names, pass_
        seen.append(pass_)

    rows = pipeline.loaded(pipeline.rows_of(), context)
    assert PassManager(rows, context, after=after).run() and len(seen) > 8
    assert not context.names, "per-thread code has records"


def test_lowerings_and_passes_make_no_op_that_is_not_verified() -> None:
    rooms = Path(pipeline.__file__).parent
    raw = [
        f"{path.relative_to(rooms)}:{node.lineno}"
        for room in ("lower", "passes", "schedule")
        for path in (rooms / room).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Op"
    ]
    assert not raw, raw


@rule("layer-1-hook-offset")
@pytest.mark.parametrize("verify_each", [False, True])
def test_the_hook_is_selected_by_operation_name(verify_each: bool) -> None:
    """One signature under several names: of each op its own hook speaks, and of one whose rules hold none."""
    said = {
        "exti": ["exti requires the result width to be strictly greater than the input width"],
        "trunci": ["trunci requires the result width to be strictly less than the input width"],
        "bitcast": [],
    }
    for name, expected in said.items():
        sign = " signed" if name == "exti" else ""
        body = f"{ADDF}      %r = cuda_tile.{name} %i{sign} : tile<i32> -> tile<i32>"
        code, found, _ = compile_(tile_module(entry(body)), verify_each=verify_each)
        assert messages(found)[:-1] == expected and code == (5 if expected else 0), name
        assert not expected or found[0].op == f"cuda_tile.{name}"


ADDF = "      %a = cuda_tile.constant <f32: 1.0> : tile<f32>\n      %i = cuda_tile.constant <i32: 1> : tile<i32>\n"


def generic(
    operands: str, types: str, attrs: str = "rounding_mode = #cuda_tile.rounding<nearest_even>"
) -> str:
    return tile_module(
        entry(
            f'{ADDF}      %r = "cuda_tile.addf"({operands}) <{{{attrs}}}> : ({types}) -> !cuda_tile.tile<f32>'
        )
    )


TILE, INT = "!cuda_tile.tile<f32>", "!cuda_tile.tile<i32>"
REDUCE = tile_module(
    entry(
        """      %a = cuda_tile.constant <f32: 1.0> : tile<8xf32>
      %r = "cuda_tile.reduce"(%a) <{dim = DIM, identities = [0.0 : f32]}> ({
      ^bb0(%x: !cuda_tile.tile<f32>, %y: !cuda_tile.tile<f32>):
        %s = cuda_tile.addf %x, %y rounding<nearest_even> : tile<f32>
        cuda_tile.yield %s : tile<f32>
      }) : (!cuda_tile.tile<8xf32>) -> !cuda_tile.tile<f32>"""
    )
)
CATCHES = [
    (
        "layer-catch-operand-count",
        generic("%a", TILE),
        generic("%a, %a", f"{TILE}, {TILE}"),
        "cuda_tile.addf",
    ),
    (
        "layer-catch-operand-type",
        generic("%i, %i", f"{INT}, {INT}"),
        generic("%a, %a", f"{TILE}, {TILE}"),
        "cuda_tile.addf",
    ),
    ("layer-catch-attribute-type", REDUCE.replace("DIM", '"x"'), REDUCE.replace("DIM", "0 : i32"), "dim"),
]


@rule("layer-catch-operand-count", "layer-catch-operand-type", "layer-catch-attribute-type", "layer-1-checks")
@pytest.mark.parametrize(("_name", "bad", "good", "said"), CATCHES, ids=[row[0] for row in CATCHES])
def test_layer_1_catches(_name: str, bad: str, good: str, said: str) -> None:
    code, found, _ = compile_(bad)
    assert code == 5 and messages(found)[-1] == GENERIC
    assert said in found[0].message and found[0].loc is not None and found[0].loc.file == "k.tileir"
    assert compile_(good)[:2] == (0, [])


@rule("layer-catch-missing-terminator", "layer-1-checks")
def test_layer_1_catches_a_missing_terminator() -> None:
    made = source.load(NOOP, Sink())
    (noop,) = [op for op in made.walk() if op.spec.name == "entry"]
    noop.regions[0].block.ops[-1].erase()
    sink = Sink()
    assert not verify(made, sink) and "cuda_tile.entry" in sink.emitted[0].message
    assert verify(source.load(NOOP, Sink()), Sink())
    # Text may leave the return out: the reader adds it, so the fault is injected behind the reader.
    assert compile_(NOOP.replace("cuda_tile.return", ""))[0] == 0


@rule("layer-1-checks")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            f"%q = nv_tileas.async.pipeline.create {{depth = 2}} : () -> {S}",
            "result #0 must be async pipeline",
        ),
        (f'%q = "nv_tileas.async.pipeline.create"() : () -> {PIPE}', "requires attribute 'depth'"),
        (f'%q = {CREATE}\n"nv_tileas.async.pipeline.produce_one"(%q) : ({PIPE}) -> ()', "requires 1 region"),
        (
            f"%q = {CREATE}\n"
            + produce().replace(f"nv_tileas.async.pipeline.yield %x : {V}", "")
            + "\n"
            + consume(),
            "expects regions to end with 'nv_tileas.async.pipeline.yield', found 'nv_tileas.load_ptr_tko'",
        ),
        (f"%q = nv_tileas.async.pipeline.create {{depth = 99}} : () -> {PIPE}", "from 1 to 16, but got 99"),
        (
            f"%q = {CREATE}\n%v = nv_tileas.async.pipeline.transfer %lo : {S} -> {V} {{\n{LOAD}\n"
            f"nv_tileas.async.pipeline.yield %x : {V}\n}}",
            "operand #0 must be async pipeline",
        ),
    ],
)
def test_every_property_has_a_check(text: str, said: str) -> None:
    done = run(module(function(text)), "TileIROperationAnalysis")
    assert not done.ok and said in done.texts[0], done.texts


@rule("layer-1-checks")
def test_isolated_regions_see_nothing_outside() -> None:
    made = load(module(function(LOAD)))
    inner = next(op for op in made.walk() if op.spec.name == "load_ptr_tko")
    (func,) = [op for op in made.walk() if op.spec.name == "func"]
    other = load(module(function("")))
    stranger = next(op for op in other.walk() if op.spec.name == "func").regions[0].block.args[2]
    inner.set_operand(0, stranger)
    sink = Sink()
    assert not verify(made, sink) and "does not dominate" in sink.emitted[0].text and func is not None


@rule("layer-1-tma-coordinates")
@pytest.mark.parametrize(("rank", "count"), [(3, 2), (3, 4), (1, 0), (3, 3), (1, 1)])
def test_tma_coordinates(rank: int, count: int) -> None:
    box = "x".join(["8", "16", "32"][-rank:])
    coordinates = "".join([", %lo"] * count)
    types = "".join([f", {S}"] * count)
    text = module(
        function(
            f"%k = nv_tileas.make_token : () -> {TOKEN}\n%x, %t = nv_tileas.async.tiled_tma_load %d, %k{coordinates} : "
            f"!nv_tileas.tma_descriptor<{box}xf32>, {TOKEN}{types} -> {V}, {TOKEN}"
        ).replace("%desc: !nv_tileas.tma_descriptor<128xf32>", f"%d: !nv_tileas.tma_descriptor<{box}xf32>")
    )
    done = run(text, "TileIROperationAnalysis")
    if rank == count:
        assert done.texts == []
    else:
        want = f"'nv_tileas.async.tiled_tma_load' op expects {rank} coordinates, but got {count}"
        assert [e.message for e in done.emitted] == [want] and not done.ok and done.emitted[0].word == 0x103


@rule("layer-1-local-view", "layer-2-includes-layer-1")
def test_what_only_layer_2_sees() -> None:
    made = load(module(function(f"%q = {CREATE}\n{consume()}")))
    (taker,) = [op for op in made.walk() if op.spec.name.endswith("consume_one")]
    block = taker.block
    block.ops.remove(taker)
    taker.block = None
    check_op(taker)  # alone it is valid
    taker.block = block
    block.ops.insert(len(block.ops) - 1, taker)
    assert not verify(made, Sink())
    # A use that escapes the region that defines it.
    pair = load(module(function(f"%q = {CREATE}\n{produce()}\n{consume()}")))
    inner = next(op for op in pair.walk() if op.spec.name == "load_ptr_tko")
    user = Op(
        tileas.BY_NAME["addf"],
        [inner.results[0]] * 2,
        [inner.results[0].type],
        {"rounding_mode": "nearest_even"},
    )
    check_op(user)
    outer = next(op for op in pair.walk() if op.spec.name == "func").regions[0].block
    outer.insert_before(outer.ops[-1], user)
    sink = Sink()
    assert not verify(pair, sink) and "dominate" in sink.emitted[0].text


# ---- layer 2


def orphan_consumer(p: Pass, module_: Any, context: Context) -> None:
    """Leaves a consume_one without its produce_one, as a half rewrite does."""
    block = next(op for op in module_.walk() if op.spec.name == "func").regions[0].block
    create = block.insert_before(block.ops[-1], Op(tileas.CREATE, (), [tileas_pipeline()], {"depth": 2}))
    inner = Block()
    inner.append(Op(tileas.PIPELINE_YIELD, (), segments=(0,)))
    block.insert_before(block.ops[-1], Op(tileas.CONSUME_ONE, [create.result], (), {}, [Region([inner])]))


def tileas_pipeline() -> Any:
    from tileiras.compiler.dialects.nv_tileas.types import PIPELINE

    return PIPELINE


@rule("layer-2-after-each-pass", "layer-2-aborts-pipeline", "layer-2-names-pass-and-op", "layer-2-default")
def test_layer_2_stops_behind_the_pass_that_broke_it(inject: Any) -> None:
    inject("ConvertTileAAToTileAS", orphan_consumer)
    code, trace, said = trace_of(NOOP, verify_each=True)
    assert code == 5 and started(trace)[-1] == "Fault" and layers(trace)[-1] == (2, "Fault")
    status, found, _ = compile_(NOOP, verify_each=True)
    assert status == 5 and found[0].op == "nv_tileas.async.pipeline.consume_one"
    assert "after the pass Fault" in [note.text for note in found[0].notes]
    assert said[0] == found[0].text
    # Off, as in the installed command: nothing stops here, and the broken state surfaces later.
    code, trace, said = trace_of(NOOP)
    assert code == 5 and not [e for e in layers(trace) if e[0] == 2] and started(trace)[-1] != "Fault"


@rule("layer-2-default")
def test_verify_each_is_on_in_tests_and_opt() -> None:
    from tileiras.options import Options
    from tileiras.tools.opt import Arguments

    assert Arguments().verify_each and not Options().verify_each
    assert [e for e in run(PIPELINED, D08).trace if e[:2] == ("layer", 2)]
    assert not [e for e in run(PIPELINED, D08, verify_each=False).trace if e[:2] == ("layer", 2)]


@rule("layer-2-consume-one-types")
def test_consumer_and_producer_types() -> None:
    wrong = "tensor<128xi32, #b>"
    done = run(
        module(function(f"%q = {CREATE}\n{produce()}\n{consume(type=wrong)}")), "TileIROperationAnalysis"
    )
    layout = "#linear<7, reg = [], lane = [1, 2, 4, 8, 16], warp = [32, 64]>"
    assert [e.message for e in done.emitted] == [
        "'nv_tileas.async.pipeline.consume_one' op expects region arguement types to match with producer types "
        f"[tensor<128xf32, {layout}>], but got: [tensor<128xi32, {layout}>]"
    ]
    alone = run(module(function(f"%q = {CREATE}\n{consume()}")), "TileIROperationAnalysis")
    assert f"producer types [], but got: [tensor<128xf32, {layout}>]" in alone.texts[0] and not alone.ok
    assert (
        run(module(function(f"%q = {CREATE}\n{produce()}\n{consume()}")), "TileIROperationAnalysis").texts
        == []
    )


@rule("layer-catch-region-asymmetric")
def test_a_producer_rewritten_without_its_consumer() -> None:
    def narrow(both: bool) -> Any:
        def body(p: Pass, module_: Any, context: Context) -> None:
            for op in module_.walk():
                if op.spec is tileas.CONSUME_ONE and both or op.spec is tileas.PRODUCE_ONE:
                    last = op.regions[0].block.ops[-1]
                    last.drop_operands()
                    last.segments = (0,)
                    if op.spec is tileas.CONSUME_ONE:
                        op.results = []
                        op.regions[0].block.args = []

        return body

    text = module(function(f"%q = {CREATE}\n{produce()}\n{consume()}"))
    half = run(text, Fault(narrow(False)), "TileIROperationAnalysis")
    assert not half.ok and "arguement" in half.texts[0] and half.started() == ["Fault"]
    assert run(text, Fault(narrow(True)), "TileIROperationAnalysis").ok


@rule("layer-catch-partial-rewrite")
def test_a_source_op_that_is_left_behind() -> None:
    def body(p: Pass, module_: Any, context: Context) -> None:
        (op,) = [op for op in module_.walk() if op.spec is tileas.TRANSFER]
        inner = Block()
        inner.append(Op(tileas.PIPELINE_YIELD, (), segments=(0,)))
        op.block.insert_before(op, Op(tileas.PRODUCE_ONE, [op.operands[0]], (), {}, [Region([inner])]))
        other = Block()
        other.append(Op(tileas.PIPELINE_YIELD, (), segments=(0,)))
        op.block.insert_before(op, Op(tileas.CONSUME_ONE, [op.operands[0]], (), {}, [Region([other])]))

    done = run(PIPELINED, Fault(body), D11)
    assert (
        not done.ok
        and "is left over" in done.texts[0]
        and done.emitted[0].op == "nv_tileas.async.pipeline.transfer"
    )
    assert run(PIPELINED, D08, D11).ok


# ---- layer 3


def strip_attributes(p: Pass, module_: Any, context: Context) -> None:
    for fn in module_.functions:
        fn.attrs.clear()


@rule(
    "layer-3-kernel-metadata",
    "layer-catch-missing-kernel-metadata",
    "layer-3-diag-content",
    "pass-kernel-attr",
)
def test_stripped_metadata(inject: Any) -> None:
    gemm = NOOP.replace("@noop", "@gemm")
    assert trace_of(gemm)[0] == 0
    inject("KernelAttrPass", strip_attributes, "nvvm")
    code, trace, said = trace_of(gemm, verify_each=True)
    assert code == 5 and said == ["kernel gemm has no nvvm.kernel metadata"]
    assert started(trace)[-1] == "ModuleVerifier" and ("codegen", "ptx") not in trace
    assert compile_(gemm)[0] == 5


CALL = '"nv_tileas.call"() <{{callee = @{}}}> : () -> ()'


@rule("layer-3-symbols", "layer-catch-unresolved-symbol", "layer-3-diag-content")
def test_unresolved_symbols() -> None:
    empty = (
        function("", name="helper")
        .replace(
            f"%lo: {S}, %hi: {S}, %p: tensor<128xptr<f32>, #b>, %f: {V}, %desc: !nv_tileas.tma_descriptor<128xf32>",
            "",
        )
        .replace("^bb0():", "")
    )
    done = run(module(function(CALL.format("missing"))), "TileIROperationAnalysis", D11)
    assert not done.ok and done.texts == [
        "symbol '@missing' called in function 'k' is not defined in the module"
    ]
    assert done.started() == ["TileIROperationAnalysis"]
    assert run(module(function(CALL.format("helper")), empty), "TileIROperationAnalysis").texts == []
    wrong = run(module(function(CALL.format("k"))), "TileIROperationAnalysis")
    assert "has types" in wrong.texts[0]


@rule("layer-3-attribute-types")
def test_types_of_attributes_are_in_the_table() -> None:
    body = f"%z = nv_tileas.addi %lo, %hi {{overflow = none, my.type = !nv_tileas.type_ref<2>}} : {S}, {S} -> {S}"
    table = "nv_tileaa.compute_capability = 90 : i32, nv_tileaa.type_table = [f32, i32]"
    done = run(module(function(body), attrs=table), "TileIROperationAnalysis")
    assert not done.ok and "'my.type'" in done.texts[0] and "type_ref<2>" in done.texts[0]
    assert (
        run(module(function(body.replace("<2>", "<1>")), attrs=table), "TileIROperationAnalysis").texts == []
    )


@rule("layer-3-launch-bounds")
@pytest.mark.parametrize(
    ("attrs", "said"),
    [
        (
            "nvvm.blocksareclusters, nvvm.cluster_dim = [2, 1, 1]",
            "nvvm.blocksareclusters is only legal with cluster_dim [1, 1, 1]",
        ),
        ("nvvm.blocksareclusters, nvvm.cluster_dim = [1, 1, 1]", ""),
        ("nvvm.maxclusterrank = 8, nvvm.cluster_dim = [2, 1, 1]", "exclude each other"),
        ("nvvm.cluster_dim = [4, 4, 2]", "more than 16 CTAs"),
        ("nvvm.maxnreg = 300", "nvvm.maxnreg must be from 1 to 255"),
        ("nvvm.maxnreg = 255", ""),
    ],
)
def test_launch_bounds(attrs: str, said: str) -> None:
    text = f"nvvm.module sm_90 {{\n  func @gemm() block 128, 1, 1 attributes {{nvvm.kernel, {attrs}}} {{\n    ret\n  }}\n}}\n"
    done = run(text, "ModuleVerifier")
    if said:
        assert not done.ok and "kernel gemm" in done.texts[0] and said in done.texts[0]
    else:
        assert done.texts == []


@rule("layer-3-launch-bounds")
def test_launch_bounds_from_text() -> None:
    attrs = "nv_tileaa.compute_capability = 90 : i32, tt.cluster_dim = [{}, 1, 1]"
    both = tile_module(entry(attrs="nvvm.blocksareclusters"), attrs=attrs)
    code, found, _ = compile_(both.replace("{}", "2"))
    assert code == 5 and "blocksareclusters" in messages(found)[0]
    assert ".blocksareclusters" in ptx_of(both.replace("{}", "1"))


# ---- layers 4 and 5


@rule("layer-4-signal", "layer-higher-message-actionable", "layer-catch-param-overflow")
def test_layer_4_stops_before_instruction_selection(tmp_path: Path) -> None:
    code, trace, said = trace_of(kernel(129, 75), "sm_75", verify_each=True)
    assert code == 5 and said == [overflow(1032, 1024)] and ("codegen", "ptx") not in trace
    calls = tmp_path / "calls"
    tool = stub_ptxas(tmp_path, f"touch {shlex.quote(str(calls))}; exit 1")
    status, found, _ = compile_(kernel(129, 75), emit="cubin", ptxas=str(tool))
    assert status == 5 and messages(found) == [overflow(1032, 1024), GENERIC] and not calls.exists()


@rule("layer-omission-4", "layer-catch-param-overflow")
@needs_ptxas
def test_without_layer_4_ptxas_rejects_it(monkeypatch: Any) -> None:
    monkeypatch.setattr(
        pipeline, "PIPELINE", tuple(r for r in pipeline.PIPELINE if r.name != "NVVMIRVerifier")
    )
    # 40000 bytes: the documents' 1024 of sm_75 are no limit of today's ptxas, 32764 bytes are.
    code, found, _ = compile_(kernel(5000, 80), emit="cubin", ptxas=str(ptxas))
    assert code == 5 and "Formal parameter space overflowed" not in messages(found)[0]
    assert any("param" in text.lower() for text in messages(found))


@rule("layer-omission-1")
def test_without_layer_1_the_fault_surfaces_later(inject: Any, monkeypatch: Any) -> None:
    from tileiras.compiler.ir import build as module_

    def body(p: Pass, made: Any, context: Context) -> bool:
        block = next(op for op in made.walk() if op.spec.name == "func").regions[0].block
        return (
            Rewriter(context, block.ops[-1]).create(tileas.BY_NAME["negi"], (), (), {"overflow": "none"})
            is not None
        )

    inject("ConvertTileAAToTileAS", body)
    code, trace, _ = trace_of(NOOP)
    assert code == 5 and started(trace)[-1] == "Fault", "at its construction"
    monkeypatch.setattr(module_, "check_op", lambda op: None)
    code, trace, _ = trace_of(NOOP, verify_each=True)
    assert code == 5 and layers(trace)[-1] == (2, "Fault"), "layer 2 at the earliest"
    sink, trace = Sink(), []
    with pytest.raises(Exception):  # noqa: B017
        pipeline.compile_module(source.load(NOOP, sink), sm.find("sm_90"), sink, trace=trace)
    assert started(trace)[-1] == "ConvertTileASToLLVM", "far from its source"


@rule(
    "layer-5-unique-class",
    "layer-catch-ptx-syntax",
    "layer-catch-ptx-registers",
    "layer-catch-maxntid-reqntid",
    "layer-context-names",
)
@needs_ptxas
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("\tret;", "\trett;"),
        ("\tret;", "\tmov.b32 %r9999, 0;\n\tret;"),
        (".reqntid", ".maxntid 128\n.reqntid"),
    ],
)
def test_malformed_ptx_is_seen_by_ptxas_only(monkeypatch: Any, old: str, new: str) -> None:
    from tileiras.compiler.ptx import text

    real = text.print_module
    monkeypatch.setattr(text, "print_module", lambda *a, **k: real(*a, **k).replace(old, new, 1))
    assert trace_of(NOOP, verify_each=True)[0] == 0, "layers 1 to 4 are silent"
    code, found, _ = compile_(NOOP, emit="cubin", ptxas=str(ptxas), verify_each=True)
    assert code == 5 and messages(found)[-1] == GENERIC
    assert any("line" in m and "ptxas" in m for m in messages(found)) or any(
        e.loc and e.loc.line for e in found
    ), found
    monkeypatch.undo()
    assert compile_(NOOP, emit="cubin", ptxas=str(ptxas))[0] == 0


@rule("layer-catch-intrinsic-too-new")
@needs_ptxas
def test_ptxas_also_knows_what_a_target_lacks(tmp_path: Path) -> None:
    from tileiras.toolchain import ptxas as harness

    body = ".version 8.6\n.target sm_90\n.address_size 64\n.visible .entry k()\n{\n\ttcgen05.wait::ld.sync.aligned;\n\tret;\n}\n"
    with pytest.raises(CompileError) as error:
        harness.assemble(body, target="sm_90", ptxas=str(ptxas))
    assert error.value.exit_code == 5
    layer4 = run(
        "nvvm.module sm_90 {\n  func @k() block 128, 1, 1 attributes {nvvm.kernel} {\n    tcgen05.wait::ld.sync.aligned\n"
        "    ret\n  }\n}\n",
        "NVVMIRVerifier",
    )
    assert layer4.texts[0] not in str(error.value) and "tcgen05" in layer4.texts[0]


@rule("layer-context-names")
def test_each_layer_names_what_it_knows(inject: Any) -> None:
    _, found, _ = compile_(generic("%i, %i", f"{INT}, {INT}"))
    assert found[0].op == "cuda_tile.addf", "layer 1: the op kind"
    _, found, _ = compile_(kernel(129, 75))
    assert "1024" in found[0].text and "1032" in found[0].text, "layer 4: limit and size"
    inject("KernelAttrPass", strip_attributes, "nvvm")
    _, found, _ = compile_(NOOP)
    assert "nvvm.kernel" in found[0].text, "layer 3: the invariant"
    inject("ConvertTileAAToTileAS", orphan_consumer)
    _, found, _ = compile_(NOOP, verify_each=True)
    assert any("Fault" in note.text for note in found[0].notes), "layer 2: the pass"


# ---- what no layer sees

RACE = tile_module(
    entry(
        """      %i = cuda_tile.iota : tile<128xi32>
      %b = cuda_tile.reshape %p : tile<ptr<i32>> -> tile<1xptr<i32>>
      %v = cuda_tile.broadcast %b : tile<1xptr<i32>> -> tile<128xptr<i32>>
      %q = cuda_tile.offset %v, %i : tile<128xptr<i32>>, tile<128xi32> -> tile<128xptr<i32>>
      %u = cuda_tile.store_ptr_tko weak %q, %i : tile<128xptr<i32>>, tile<128xi32> -> token
      %x, %t = cuda_tile.load_ptr_tko weak %q : tile<128xptr<i32>> -> tile<128xi32>, token
      %w = cuda_tile.store_ptr_tko weak %q, %x : tile<128xptr<i32>>, tile<128xi32> -> token""",
        args="%p: !cuda_tile.tile<ptr<i32>>",
    )
)


@rule("layer-uncaught-data-race")
def test_no_layer_sees_a_race() -> None:
    code, trace, said = trace_of(RACE, verify_each=True)
    assert (code, said) == (0, []), "accesses without tokens between them compile"
    assert compile_(RACE)[0] == 0 and trace


@rule("layer-uncaught-numerical-drift")
def test_no_layer_sees_a_fused_multiply_add(inject: Any) -> None:
    def fuse(p: Pass, module_: Any, context: Context) -> None:
        for op in list(module_.walk()):
            if (
                op.spec.name == "addf"
                and op.operands[0].op is not None
                and op.operands[0].op.spec.name == "mulf"
            ):
                product = op.operands[0].op
                new = Op(
                    tileas.BY_NAME["fma"],
                    [*product.operands, op.operands[1]],
                    [op.results[0].type],
                    {"rounding_mode": "nearest_even"},
                    (),
                    op.loc,
                )
                op.block.insert_before(op, new)
                op.results[0].replace_all_uses_with(new.results[0])
                op.erase()

    before = ptx_of(LOADS_IN_LOOP)
    inject("ConvertTileAAToTileAS", fuse)
    code, trace, said = trace_of(LOADS_IN_LOOP, verify_each=True)
    assert (code, said) == (0, []) and "Fault" in started(trace)
    assert "fma.rn.f32" in ptx_of(LOADS_IN_LOOP) and "fma.rn.f32" not in before


@rule("layer-uncaught-bad-schedule")
def test_no_layer_sees_a_bad_schedule(inject: Any) -> None:
    def deepen(p: Pass, module_: Any, context: Context) -> None:
        for op in module_.walk():
            if op.spec is tileas.CREATE:
                op.attrs["depth"] += 1

    before = ptx_of(STAGED)
    inject("TileASModuloSchedule", deepen)
    code, trace, said = trace_of(STAGED, verify_each=True)
    assert (code, said) == (0, []) and "Fault" in started(trace) and ptx_of(STAGED) != before


# ---- dialect families

CUTE = [
    (
        "cute.make_layout",
        "%a = cute.make_layout {layout = #cute.layout<(4, 8) : (8, 1)>} : () -> !cute.layout<2>",
        [
            ("(4, 8) : (8, (1, 2))", "differ in their nesting"),
            ("(4, 8, 2) : (8, 1, 1)", "has rank 3"),
            ("(4, 0) : (8, 1)", "positive"),
        ],
    ),
    (
        "cute.composition",
        "%a = cute.make_layout {layout = #cute.layout<4 : 1>} : () -> !cute.layout<1>\n"
        "%b = cute.composition %a, %a {lhs_layout = #cute.layout<16 : 1>, rhs_layout = #cute.layout<(4, 8) : (8, 1)>} : "
        "!cute.layout<1>, !cute.layout<1> -> !cute.layout<1>",
        [("(4, 8) : (8, 1)", "reaches offset 31, but 'lhs_layout' has 16")],
    ),
    (
        "cute_nvgpu.copy",
        '"cute_nvgpu.copy"() <{atom = #cute_nvgpu.copy_atom<cp_async, global -> shared, 128>, arch = 80 : i32}> : () -> ()',
        [
            ("global -> shared", "cp_async copies global -> shared"),
            ("128>", "moves one of"),
            ("80 : i32", "needs sm_80, but 'arch' is sm_75"),
            ("cp_async", "unknown copy kind"),
        ],
    ),
    (
        "cute_nvgpu.mma",
        '"cute_nvgpu.mma"() <{atom = #cute_nvgpu.mma_atom<16, 8, 16, f16, f32>, arch = 80 : i32}> : () -> ()',
        [("16, 8, 16", "there is no MMA instruction"), ("80 : i32", "needs sm_80")],
    ),
    (
        "cute_nvgpu.tma_load",
        '"cute_nvgpu.tma_load"() <{atom = #cute_nvgpu.tma_atom<64x64xf16, shared, 128>, arch = 90 : i32}> : () -> ()',
        [
            ("64x64xf16", "1 to 256 elements"),
            ("64xf16,", "no multiple of 16"),
            ("shared,", "destination space is 'global'"),
            ("90 : i32", "needs sm_90"),
            (", 128>", "wider than the swizzle"),
        ],
    ),
]
SWAPS = {
    "global -> shared": "shared -> global",
    "128>": "256>",
    "80 : i32": "75 : i32",
    "cp_async": "teleport",
    "16, 8, 16": "16, 8, 17",
    "64x64xf16": "64x512xf16",
    "64xf16,": "7xf16,",
    "shared,": "global,",
    "90 : i32": "80 : i32",
    ", 128>": ", 32>",
}


def opt_verify(text: str) -> list[str]:
    from tileiras.compiler.ir.text import parse

    sink = Sink()
    for op in parse(text, sink, file="k.mlir"):
        verify(op, sink)
    return [e.message for e in sink.emitted]


@rule("layer-family-subjects")
@pytest.mark.parametrize(("name", "good", "faults"), CUTE, ids=[row[0] for row in CUTE])
def test_cute_families(name: str, good: str, faults: list[tuple[str, str]]) -> None:
    clean = opt_verify(good.replace("<16 : 1>", "<32 : 1>") if "composition" in name else good)
    assert clean == []
    for old, said in faults:
        new = old if old not in good or "composition" in name else SWAPS.get(old, "")
        bad = good.replace(old, new, 1) if new and old in good else good.replace("(4, 8) : (8, 1)", old)
        found = opt_verify(bad)
        assert len(found) == 1 and said in found[0] and f"'{name}' op" in found[0], (bad, found)


@rule("layer-family-subjects")
@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("tensor<128xf32, #b>", "tensor<64xf32, #b>", "layout of 7 index bits does not fit the shape [64]"),
        ("align = 16", "align = 12", "power of two of at least the element size 4, got 12"),
        ("align = 16", "align = 2", "at least the element size"),
        ("[128], align", "[128, 1], align", "has rank 2, but the tensor has rank 1"),
        (
            "memory_ordering_semantics = weak",
            "memory_ordering_semantics = release",
            "load ordering must be weak, relaxed, or acquire",
        ),
        (
            "memory_ordering_semantics = weak",
            "memory_ordering_semantics = relaxed",
            "requires an explicit scope",
        ),
    ],
)
def test_tensor_families(old: str, new: str, said: str) -> None:
    tile = LOAD.replace("weak,", "weak, tile = #nv_tileaa.tile<[128], align = 16>,")
    good = module(function(tile))
    assert opt_verify(good) == []
    head, _, body = good.partition("%c7")
    found = opt_verify(head + "%c7" + body.replace(old, new))
    assert len(found) == 1 and said in found[0]


@rule("layer-family-subjects")
def test_schedule_regions() -> None:
    from contract.tileas import loop

    staged = loop(
        f"%m = nv_tileas.addi %i, %one {{overflow = none, stage = 1 : i32}} : {S}, {S} -> {S}\n"
        f"%n = nv_tileas.addi %m, %one {{overflow = none, stage = 1 : i32}} : {S}, {S} -> {S}"
    )
    good = module(
        function(
            staged.replace("for %lo, %hi, %one :", "for %lo, %hi, %one {schedule = {stages = 2 : i32}} :")
        )
    )
    assert opt_verify(good) == []
    early = good.replace("stage = 1", "stage = 0").replace("stage = 0", "stage = 1", 1)
    assert "but uses a value of stage 1" in opt_verify(early)[0]
    assert "has stage 5, expected 0 to 1" in opt_verify(good.replace("stage = 1", "stage = 5", 1))[0]


def test_layer_messages_have_a_place(tmp_path: Path) -> None:
    """Layer 3 and 4 messages of text input point at the function; of bytecode at its debug location."""
    _, found, _ = compile_(kernel(129, 75))
    assert found[0].loc is not None and found[0].loc.file == "k.tileir" and found[0].loc.line == 3
    done = command(tmp_path, kernel(129, 75), "--emit=ptx", output="k.ptx")
    assert done.status == 5 and "k.tileir:3:" in done.err.splitlines()[0]
    assert LAYOUTS and bytecode()
