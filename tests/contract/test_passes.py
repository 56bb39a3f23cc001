"""The named passes: what each does, what it says, and its place in the pipeline."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

import pytest
from contract.handshake_kernels import LOADS_IN_LOOP
from contract.kit import compile_, entry, messages, ptx_of
from contract.kit import module as tile_module
from contract.rules import rule
from contract.tileas import (
    ANALYSIS,
    COPY,
    CREATE,
    D08,
    D09,
    D10,
    D11,
    D13,
    FAMILY,
    LOAD,
    NO_WAY,
    PIPE,
    PIPELINED,
    REFUSED_PIPELINE,
    TMA,
    TO_LLVM,
    P,
    S,
    V,
    consume,
    function,
    load,
    loop,
    module,
    produce,
    run,
    transfer,
)  # fmt: skip

from tileiras.compiler import passes, pipeline, source
from tileiras.compiler.dialects.cuda_tile.ops import BY_NAME
from tileiras.compiler.ir.passes import Pass, mark_soft_failure
from tileiras.compiler.ir.types import TensorType, TileType
from tileiras.compiler.passes.conversions import ConvertTileASToLLVM
from tileiras.compiler.target import sm
from tileiras.diag import CompileError, Sink

TEXT_D08 = (
    "there are two `produce-one-like` operations using different instructions to generate data into the same pipeline. "
    "It's a bug of MaterializeAsync Pass."
)
FURTHER_ARGS = f", %p: {P}, %f: {V}, %desc: !nv_tileas.tma_descriptor<128xf32>"
ADD = f"%sum = nv_tileas.addi %lo, %hi {{overflow = none}} : {S}, {S} -> {S}"
CAPABILITY = "nv_tileaa.compute_capability = 90 : i32"


def names_in(done: Any) -> list[str]:
    return [op.spec.name for op in done.context.module.walk()]


def trees(text: str, until: str, target: str = "sm_90") -> dict[str, Any]:
    """Module behind every pass of a cuda_tile kernel, up to `until`."""
    seen: dict[str, Any] = {}
    sink = Sink()
    pipeline.compile_module(
        source.load(text, sink), sm.find(target), sink, after=lambda name, ir: seen.setdefault(name, ir)
    )
    assert until in seen
    return seen


# ---- D08


@rule("pass-d08-conflicting-producers")
@pytest.mark.parametrize(("first", "second"), [(TMA, COPY), (COPY, LOAD), (LOAD, TMA)])
def test_two_instructions_on_one_pipeline(first: str, second: str) -> None:
    body = transfer(producer=first) + "\n" + transfer(producer=second, result="%w")
    done = run(module(function(f"%q = {CREATE}\n{body}")), D08)
    assert done.texts == [TEXT_D08] and not done.ok and done.word(D08) == 4
    second_line = done.context.module.walk()
    transfers = [op for op in second_line if op.spec.name.endswith("transfer")]
    assert done.emitted[0].loc is transfers[1].loc, "anchored on the second producer"
    same = transfer(producer=first) + "\n" + transfer(producer=first, result="%w")
    assert run(module(function(f"%q = {CREATE}\n{same}")), D08).texts == []


@rule("pass-d08-keeps-running")
def test_the_sound_pipeline_is_materialised() -> None:
    conflict = f"%q = {CREATE}\n" + loop(transfer(producer=TMA) + "\n" + transfer(producer=COPY, result="%w"))
    sound = f"%r = {CREATE}\n" + loop(transfer("%r"))
    done = run(module(function(conflict + "\n" + sound)), D08, ANALYSIS, D10)
    names = names_in(done)
    assert names.count("async.pipeline.transfer") == 2 and names.count("async.pipeline.produce_one") == 1
    assert done.started() == [D08, ANALYSIS, D10] and not done.ok and done.texts == [TEXT_D08]


@rule("pass-d08-first-is-reference")
def test_the_first_producer_is_the_reference() -> None:
    order = (COPY, COPY, LOAD, LOAD)
    body = "\n".join(transfer(producer=p, result=f"%v{i}") for i, p in enumerate(order))
    done = run(module(function(f"%q = {CREATE}\n{body}")), D08)
    third = [op for op in done.context.module.walk() if op.spec.name.endswith("transfer")][2]
    assert done.texts == [TEXT_D08] and done.emitted[0].loc is third.loc


@rule("pass-d08-materialize-async")
def test_every_transfer_becomes_a_pair() -> None:
    done = run(PIPELINED, D08)
    names = names_in(done)
    assert done.ok and "async.pipeline.transfer" not in names
    assert names.count("async.pipeline.produce_one") == names.count("async.pipeline.consume_one") == 1
    half = run(module(function(f"%q = {CREATE}\n{produce()}")), "TileIROperationAnalysis")
    assert not half.ok and "has no consume_one on its pipeline" in half.texts[0]


# ---- D09, D10


@rule("pass-d09-convert-layout")
def test_a_conversion_without_a_way() -> None:
    done = run(NO_WAY, D09)
    assert done.texts == ["failed to decompose the convert_layout"] and done.word(D09) == 4 and not done.ok
    assert "index bits 1" in done.emitted[0].notes[0].text
    same = run(module(function(f"%w = nv_tileas.convert_layout %f : {V} -> {V}")), D09)
    assert same.ok and same.texts == [] and "convert_layout" not in names_in(same)
    for layout, plan in (
        ("#r", "shared"),
        ("#linear<7, lane = [2, 1, 4, 8, 16], warp = [32, 64]>", "shuffle"),
    ):
        moved = run(
            module(function(f"%w = nv_tileas.convert_layout %f : {V} -> tensor<128xf32, {layout}>")), D09
        )
        assert moved.ok and f'plan = "{plan}"' in moved.ir


@rule("pass-d10-alias")
def test_missing_analysis_and_alias() -> None:
    done = run(PIPELINED, D08, D10)
    assert done.texts == ["Alias is not expected here."] and done.word(D10) == 4 and not done.ok
    assert "no ScheduleAnalysis" in done.emitted[0].notes[0].text
    good = run(PIPELINED, D08, ANALYSIS, D10)
    assert good.ok and good.texts == [] and "schedule = {stages = 2}" in good.ir
    carried = (
        f"%q = {CREATE}\n%o = nv_tileas.for %lo, %hi, %one, %q : {S}, {S}, {S}, {PIPE} -> {PIPE} {{\n"
        f"^bb0(%i: {S}, %c: {PIPE}):\n{produce('%c')}\n{consume('%c')}\nnv_tileas.continue %c : {PIPE}\n}}"
    )
    alias = run(module(function(carried)), ANALYSIS, D10)
    assert "Alias is not expected here." in alias.texts and alias.word(D10) == 4


# ---- D11, D13


@rule("pass-d11-failed-to-pipeline")
@pytest.mark.parametrize(
    ("body", "why"),
    [
        (loop(LOAD, step="%hi"), "step"),
        (f"%b = nv_tileas.cmpi %lo, %hi {{comparison_predicate = equal, signedness = signed}} : {S}, {S} -> tensor<i1, #s>\n"
         + loop(f"nv_tileas.if %b : tensor<i1, #s> {{\n{LOAD}\nnv_tileas.yield\n}}"), "behind a condition"),
        (loop(LOAD + "\n" + loop(LOAD.replace("%x, %t", "%y, %u")).replace("%i", "%j")), "another loop"),
        (loop(f"{LOAD}\n%n = nv_tileas.ftoi %x {{signedness = signed}} : {V} -> tensor<128xi32, #b>\n"
              f"%d = nv_tileas.offset %p, %n : {P}, tensor<128xi32, #b> -> {P}\n"
              + LOAD.replace("%x, %t", "%y, %u").replace("%p ", "%d ")), "the same iteration loads"),
    ],
)  # fmt: skip
def test_loops_that_cannot_be_pipelined(body: str, why: str) -> None:
    done = run(module(function(body)), D11, verify_each=False)
    assert done.texts == ["Failed to pipeline loop"] and why in done.emitted[0].notes[0].text
    assert done.ok and done.word(D11) == 4 and done.emitted[0].word == 0x104
    good = run(module(function(loop(LOAD))), D11)
    assert good.ok and good.texts == [] and good.word(D11) == 0


@rule("pass-d11-failed-to-pipeline")
def test_a_dependence_of_the_next_iteration() -> None:
    at = "tensor<128xptr<f32>, #b>"
    body = (
        f"%o = nv_tileas.for %lo, %hi, %one, %p : {S}, {S}, {S}, {at} -> {at} {{\n^bb0(%i: {S}, %at: {at}):\n"
        + LOAD.replace("%p ", "%at ")
        + f"\n%n = nv_tileas.ftoi %x {{signedness = signed}} : {V} -> tensor<128xi32, #b>\n"
        f"%next = nv_tileas.offset %at, %n : {at}, tensor<128xi32, #b> -> {at}\nnv_tileas.continue %next : {at}\n}}"
    )
    done = run(module(function(body)), D11, verify_each=False)
    assert done.texts == ["Failed to pipeline loop"] and "iteration before" in done.emitted[0].notes[0].text
    bump = body.replace("offset %at, %n", "offset %at, %c7v").replace(
        "%next =", "%c7v = nv_tileas.iota : () -> tensor<128xi32, #b>\n%next ="
    )
    assert run(module(function(bump)), D11, verify_each=False).texts == [], (
        "a pointer that counts on its own is no dependence"
    )


@rule("pass-d13-no-record-walks", "pass-d13-shrinks-regions")
def test_d13_alone_shrinks() -> None:
    inside = f"%m = nv_tileas.muli %lo, %c7 {{overflow = none}} : {S}, {S} -> {S}\n" + LOAD
    text = module(function(f"%q = {CREATE}\n{produce(producer=inside)}\n{consume()}"))
    done = run(text, D13)
    (maker,) = [op for op in done.context.module.walk() if op.spec.name.endswith("produce_one")]
    (moved,) = [op for op in done.context.module.walk() if op.spec.name == "muli"]
    assert moved.block is maker.block and moved.block.ops.index(moved) == moved.block.ops.index(maker) - 1
    assert [op.spec.name for op in maker.regions[0].block.ops] == ["load_ptr_tko", "async.pipeline.yield"]
    assert done.ok and [event[2] for event in done.trace if event[0] == "visit"]


@rule("pass-d13-reads-d11")
def test_d13_after_a_clean_d11_walks() -> None:
    done = run(PIPELINED, D08, ANALYSIS, D10, D11, D13)
    assert done.word(D11) == 0 and [event for event in done.trace if event[0] == "visit"]
    assert not [e for e in run(REFUSED_PIPELINE, D08, ANALYSIS, D10, D11, D13).trace if e[0] == "visit"]


@rule("pass-family-order")
def test_the_family_is_in_order() -> None:
    names = [row.name for row in pipeline.PIPELINE]
    places = [names.index(name) for name in FAMILY]
    assert places == sorted(places)
    for opt_level in (1, 2, 3):
        started = [row.name for row in pipeline.rows_of(opt_level)]
        assert [n for n in started if n in FAMILY] == list(FAMILY)


# ---- lowering


@rule("pass-tileas-to-llvm-continues", "pass-tileas-to-llvm-lift")
def test_every_op_without_code_is_reported() -> None:
    unknown = '%u{} = "nv_tileas.async.wait"() : () -> !cuda_tile.token'
    scalars = function("\n".join((unknown.format(0), ADD, unknown.format(1)))).replace(FURTHER_ARGS, "")
    done = run(module(scalars), TO_LLVM)
    assert len(done.texts) == 2 and all("has no lowering" in t for t in done.texts)
    assert done.word(TO_LLVM, "m") == 4 and not done.ok, "lifted: the function is not complete"
    lines = [e.loc.line for e in done.emitted if e.loc is not None]
    assert len(set(lines)) == 2
    assert run(module(function(ADD).replace(FURTHER_ARGS, "")), TO_LLVM).ok


@rule("pass-tileas-to-llvm-lift")
def test_the_bit_alone_is_not_lifted() -> None:
    """A set bit stops the pipeline where a function is not complete, and only there."""
    whole = module(function(ADD).replace(FURTHER_ARGS, ""))
    partial = whole.replace(ADD, '%u = "nv_tileas.async.wait"() : () -> !cuda_tile.token')

    class Marked(ConvertTileASToLLVM):
        __slots__ = ()

        def run(self, module: Any, context: Any) -> bool:
            ok = super().run(module, context)
            mark_soft_failure(self.record)
            return ok

    kept = run(whole, "ConvertTileFuncToLLVM", Marked(), "KernelAttrPass", verify_each=False)
    assert kept.ok and kept.word(TO_LLVM, "m") == 4 and kept.started()[-1] == "KernelAttrPass", kept.texts
    lifted = run(partial, "ConvertTileFuncToLLVM", Marked(), "KernelAttrPass", verify_each=False)
    assert not lifted.ok and lifted.started()[-1] == TO_LLVM, "nothing behind it has run"
    assert len(lifted.texts) == 1 and "has no lowering" in lifted.texts[0]


@rule("pass-tileas-to-llvm-lift")
def test_per_op_messages_reach_the_user(monkeypatch: Any) -> None:
    from tileiras.compiler.lower import tileas_to_nvvm

    def refuse(lowering: Any, op: Any) -> None:
        raise tileas_to_nvvm.LoweringError(f"no code for {op.spec.name}")

    tileas_to_nvvm.LOWER["addf"]  # the row exists
    monkeypatch.setitem(tileas_to_nvvm.LOWER, "addf", refuse)
    two = LOADS_IN_LOOP.replace("cuda_tile.continue %s", "%h = cuda_tile.addf %x, %x rounding<nearest_even> : tile<128xf32>\n"
                                "        cuda_tile.continue %s")  # fmt: skip
    code, found, _ = compile_(two, "sm_90")
    assert code == 5 and [t for t in messages(found) if "no code for addf" in t] == [
        "has no lowering for sm_90: no code for addf", "has no lowering for sm_90: no code for addf",
    ]  # fmt: skip
    assert messages(found)[-1] == "failed to compile Tile IR program"


@rule("pass-lower-tma-kernel-spec")
def test_tma_needs_a_kernel_spec() -> None:
    tma = f"%x = nv_tileas.tiled_tma_load %desc, %lo : !nv_tileas.tma_descriptor<128xf32>, {S} -> {V}"
    for spec in ("", "nv_tileaa.kernel_spec = {num_warps = 3}, ", "nv_tileaa.kernel_spec = {}, "):
        done = run(module(function(tma, spec=spec)), "LowerTMALoadStoreToAsync", verify_each=False)
        assert (
            done.texts == ["LowerTMALoadStoreToAsync: missing or invalid KernelSpecAttr on function"]
            and not done.ok
        )
    good = run(module(function(tma)), "LowerTMALoadStoreToAsync")
    assert good.ok and {"async.tiled_tma_load", "async.wait"} <= set(names_in(good))


@rule("pass-cuda-tile-to-tileaa-tt-verbatim")
def test_tt_attributes_are_carried() -> None:
    text = tile_module(entry(), attrs=f"{CAPABILITY}, tt.num_warps = 8 : i32, tt.num_stages = 3 : i32")
    found = trees(text, "ConvertCudaTileToTileAA")["ConvertCudaTileToTileAA"].attrs
    assert found["tt.num_warps"] == 8 and found["tt.num_stages"] == 3


@rule("pass-cuda-tile-to-tileaa-tensors")
def test_tensors_appear_after_the_first_conversion() -> None:
    before = source.load(LOADS_IN_LOOP, Sink())
    kinds = {type(v.type) for op in before.walk() for v in op.results}
    assert TensorType not in kinds and TileType in kinds
    after = trees(LOADS_IN_LOOP, "ConvertCudaTileToTileAA")["ConvertCudaTileToTileAA"]
    kinds = {type(v.type) for op in after.walk() for v in (*op.results, *op.operands)}
    assert TileType not in kinds and TensorType in kinds


@rule("pass-cuda-tile-to-tileaa-legality")
def test_internal_ops_are_no_input() -> None:
    sink = Sink()
    made = source.load(tile_module(entry()), sink)
    inner = load(module(function("")), sink).regions[0].block.ops[0]
    made.regions[0].block.ops[0].regions[0].block.insert_before(
        made.regions[0].block.ops[0].regions[0].block.ops[0], inner
    )
    with pytest.raises(CompileError) as error:
        pipeline.compile_module(made, sm.find("sm_90"), sink)
    assert error.value.exit_code == 5
    assert messages(sink.emitted) == ["'nv_tileas.func' is not legal input of ConvertCudaTileToTileAA"]


@rule("pass-tileaa-to-tileas-attaches-spec")
def test_specs_are_attached_to_every_entry() -> None:
    two = tile_module(entry(name="a") + "\n" + entry(name="b"), attrs=f"{CAPABILITY}, tt.num_warps = 8 : i32")
    for name in ("attachKernelSpecAttributes", "ConvertTileAAToTileAS"):
        specs = [op.attrs["nv_tileaa.kernel_spec"] for op in trees(two, name)[name].regions[0].block.ops]
        assert len(specs) == 2 and all(spec.num_warps == 8 for spec in specs)


@rule("pass-kernel-spec-readers", "pass-func-to-llvm-projects")
def test_the_record_decides_reqntid() -> None:
    text = tile_module(entry(), attrs=f"{CAPABILITY}, tt.num_warps = 4 : i32")
    assert ".reqntid 128, 1, 1" in ptx_of(text)
    sink = Sink()

    def widen(name: str, ir: Any) -> None:
        if name == "attachKernelSpecAttributes":
            ir.regions[0].block.ops[0].attrs["nv_tileaa.kernel_spec"].num_warps = 2

    stages = pipeline.compile_module(source.load(text, sink), sm.find("sm_90"), sink, after=widen)
    assert ".reqntid 64, 1, 1" in stages.ptx
    func = trees(text, "ConvertTileFuncToLLVM")["ConvertTileFuncToLLVM"].regions[0].block.ops[0]
    assert func.attrs["nvvm.reqntid"] == (128, 1, 1)


@rule("pass-kernel-spec-readers")
@pytest.mark.parametrize(("stages", "loads"), [(None, 1), (2, 2), (4, 4)])
def test_the_scheduler_reads_the_record(stages: int | None, loads: int) -> None:
    """Whatever the module asked for: what stands in the record behind its attachment is what is scheduled."""
    text = LOADS_IN_LOOP.replace("tt.num_warps", "tt.num_stages = 3 : i32, tt.num_warps")
    assert ptx_of(text, "sm_90").count("ld.global") == 3
    sink = Sink()

    def change(name: str, ir: Any) -> None:
        if name == "attachKernelSpecAttributes":
            ir.regions[0].block.ops[0].attrs["nv_tileaa.kernel_spec"].num_stages = stages

    made = pipeline.compile_module(source.load(text, sink), sm.find("sm_90"), sink, after=change)
    assert made.ptx.count("ld.global") == loads


@rule("pass-kernel-spec-readers")
def test_agents_are_held_against_the_record() -> None:
    for record, warps in ((4, (1, 3)), (8, (4, 4)), (2, (1, 1))):
        attrs = 'sym_name = "m", nv_tileaa.compute_capability = 90 : i32, tt.num_warps = 4 : i32'
        text = agents(*warps).replace("{num_warps = 4}", f"{{num_warps = {record}}}")
        text = text.replace('sym_name = "m"', attrs)
        assert run(text, "TileAAAgentVerifier").ok
        other = run(text.replace(f"{{num_warps = {record}}}", "{num_warps = 16}"), "TileAAAgentVerifier")
        assert f"{sum(warps)} warps together, but its kernel_spec has 16" in other.texts[0]


@rule("pass-func-to-llvm-capability", "pass-missing-capability-other-spelling")
@pytest.mark.parametrize(
    ("level", "text"), [(3, "Failed to get ComputeCapability"), (2, "failed to get compute capability."),
                        (0, "failed to get compute capability.")],
)  # fmt: skip
def test_no_capability(level: int, text: str) -> None:
    bare = module(function(""), attrs="")
    done = run(bare, "ConvertTileFuncToLLVM", target=None, opt_level=level)
    assert done.texts == [text] and not done.ok and done.emitted[0].word == 0x103
    kernel = tile_module(entry(), attrs="tt.num_warps = 4 : i32")
    code, found, _ = compile_(kernel, opt_level=level)
    assert code == 5 and messages(found)[0] == text
    for attrs in ("nv_tileaa.compute_capability = 90 : i32", 'nv_tileaa.target_spec = "sm_90"'):
        assert run(
            module(function(""), attrs=attrs), "ConvertTileFuncToLLVM", target=None, opt_level=level
        ).ok


@rule("pass-func-to-llvm-keeps-direct")
def test_direct_attributes_stay() -> None:
    both = tile_module(
        entry(attrs="nvvm.maxnreg = 64 : i32, nv_tileaa.occupancy = 4 : i32"), attrs=CAPABILITY
    )
    assert ".maxnreg 64" in ptx_of(both)
    assert ".maxnreg 128" in ptx_of(
        tile_module(entry(attrs="nv_tileaa.occupancy = 4 : i32"), attrs=CAPABILITY)
    )


@rule("pass-kernel-attr", "pass-cute-kernel-rewrite")
def test_kernels_are_marked() -> None:
    text = tile_module(entry(name="a") + "\n" + entry(name="b"), attrs=CAPABILITY)
    code = trees(text, "KernelAttrPass")["KernelAttrPass"]
    assert [(fn.name, fn.attrs.get("nvvm.kernel"), "cute.kernel" in fn.attrs) for fn in code.functions] == [
        ("a", True, False), ("b", True, False),
    ]  # fmt: skip
    plain = run(
        "nvvm.module sm_90 {\n  func @helper() block 128, 1, 1 device {\n    ret\n  }\n}\n", "KernelAttrPass"
    )
    assert plain.ok and "nvvm.kernel" not in plain.context.module.functions[0].attrs, (
        "no cute.kernel, no nvvm.kernel"
    )


@rule("pass-tileir-operation-analysis", "pass-nvvm-ir-verifier-slot")
def test_slots_of_the_named_verifiers() -> None:
    names = [row.name for row in pipeline.PIPELINE]
    assert (
        names.index("TileIROperationAnalysis") < names.index("ConvertTileFuncToLLVM") < names.index(TO_LLVM)
    )
    assert names[-1] == "NVVMIRVerifier" and names.index("NVVMIRVerifier") > names.index(TO_LLVM)
    ran = list(trees(tile_module(entry()), "NVVMIRVerifier"))
    assert [n for n in ran if n in names] == sorted((n for n in ran if n in names), key=names.index)
    assert "TileIROperationAnalysis" in ran and ran[-2:] == ["NVVMIRVerifier", "ptx"]
    pointers = ", ".join(['u64 "ptr<f32>"'] * 129)
    text = (
        "nvvm.module {} {{\n  func @k({}) block 128, 1, 1 attributes {{nvvm.kernel}} {{\n    ret\n  }}\n}}\n"
    )
    small = run(text.format("sm_75", pointers), "NVVMIRVerifier", target="sm_75")
    assert not small.ok and "max 1024 bytes" in small.texts[0]
    assert run(text.format("sm_80", pointers), "NVVMIRVerifier", target="sm_80").ok, (
        "only the resolved target differs"
    )
    many = ", ".join(['u64 "ptr<f32>"'] * 4097)
    large = run(text.format("sm_80", many), "NVVMIRVerifier", target="sm_80")
    assert not large.ok and "max 32760 bytes" in large.texts[0]


def agents(*warps: int, ids: tuple[int, ...] = (0, 1, 2), extra: str = "") -> str:
    agent = "    nv_tileaa.agent {{id = {} : i32, num_warps = {} : i32{}}} {{\n    }}\n"
    bodies = "".join(agent.format(i, w, extra) for i, w in zip(ids, warps))
    return (
        'nv_tileaa.module {sym_name = "m"} {\n  nv_tileaa.func {sym_name = "k", function_type = () -> (), '
        f"nv_tileaa.kernel_spec = {{num_warps = 4}}}} {{\n{bodies}    nv_tileaa.return\n  }}\n}}\n"
    )


@rule("pass-tileaa-agent-verifier")
def test_agents_of_a_warp_specialised_function() -> None:
    assert "TileAAAgentVerifier" in [row.name for row in pipeline.PIPELINE]
    good = run(agents(1, 3), "TileAAAgentVerifier")
    assert good.ok and good.started() == ["TileAAAgentVerifier"]
    assert "5 warps together, but its kernel_spec has 4" in run(agents(2, 3), "TileAAAgentVerifier").texts[0]
    assert "agent id 7 is used twice" in run(agents(1, 3, ids=(7, 7)), "TileAAAgentVerifier").texts[0]
    assert (
        "multiple of 8" in run(agents(1, 3, extra=", registers = 30 : i32"), "TileAAAgentVerifier").texts[0]
    )
    for registers, ok in (
        (24, True),
        (256, True),
        (16, False),
        (264, False),
        (31, False),
        (32, True),
        (36, False),
    ):
        done = run(agents(1, 3, extra=f", registers = {registers} : i32"), "TileAAAgentVerifier")
        assert done.ok == ok and len(done.texts) == (0 if ok else 2), registers
    nested = agents(4).replace(
        "{\n    }\n", "{\n nv_tileaa.agent {id = 5 : i32, num_warps = 1 : i32} {\n }\n    }\n", 1
    )
    assert "agent 5 lies inside another agent" in run(nested, "TileAAAgentVerifier").texts
    deeper = nested.replace(
        "num_warps = 1 : i32} {\n }",
        "num_warps = 1 : i32} {\n nv_tileaa.agent {id = 6 : i32, num_warps = 1 : i32} {\n }\n }",
        1,
    )
    said = run(deeper, "TileAAAgentVerifier").texts
    assert said.count("agent 6 lies inside another agent") == 1, "once, however deep"
    plain = run(agents(), "TileAAAgentVerifier")
    assert plain.ok and plain.started() == [], "a kernel without agents has no such pass"


@rule("pass-modulo-scheduler-stages")
def test_num_stages_decides_the_depth() -> None:
    def with_stages(stages: str) -> tuple[str, list[str], int]:
        text = LOADS_IN_LOOP.replace("tt.num_warps", f"{stages}tt.num_warps")
        made = trees(text, "ptx")
        depths = ""
        if "TileASModuloSchedule" in made:
            sink = Sink()
            seen: list[int] = []

            def after(name: str, ir: Any) -> None:
                if name == "TileASModuloSchedule":
                    seen.extend(
                        op.attrs["depth"] for op in ir.walk() if op.spec.name == "async.pipeline.create"
                    )

            pipeline.compile_module(source.load(text, sink), sm.find("sm_90"), sink, after=after)
            depths = str(seen)
        lines = made["ptx"].splitlines()
        loads = sum("ld.global" in line for line in lines)
        return depths, [line for line in lines if line.startswith(".")], loads

    two, directives_two, loads_two = with_stages("tt.num_stages = 2 : i32, ")
    three, directives_three, loads_three = with_stages("tt.num_stages = 3 : i32, ")
    none, directives_none, loads_none = with_stages("")
    assert (two, three, none) == ("[2]", "[3]", "")
    assert directives_two == directives_three == directives_none
    assert (loads_none, loads_two, loads_three) == (1, 2, 3), "a stage more loads once more ahead of the loop"


@rule("pass-modulo-scheduler-stages")
def test_pipelines_are_made_by_the_scheduler() -> None:
    text = LOADS_IN_LOOP.replace("tt.num_warps", "tt.num_stages = 3 : i32, tt.num_warps")
    first: dict[str, str] = {}
    sink = Sink()

    def after(name: str, ir: Any) -> None:
        for op in ir.walk() if hasattr(ir, "walk") else ():
            if ".pipeline." in op.spec.name:
                first.setdefault(op.spec.name, name)

    pipeline.compile_module(source.load(text, sink), sm.find("sm_90"), sink, after=after)
    assert first["async.pipeline.create"] == "TileASModuloSchedule"
    order = [row.name for row in pipeline.PIPELINE]
    assert all(order.index(name) >= order.index("TileASModuloSchedule") for name in first.values()), first
    dialect = BY_NAME.values()
    assert not [spec.name for spec in dialect if "pipeline" in spec.name or "async" in spec.name]
    bad = text.replace("cuda_tile.continue %s", "%q = nv_tileas.async.pipeline.create {depth = 2} : () -> "
                       f"{PIPE}\n        cuda_tile.continue %s")  # fmt: skip
    code, found, _ = compile_(bad, "sm_90")
    assert code == 5 and messages(found)[0] == "unregistered dialect: nv_tileas"


@rule("pass-pipeline-length-53")
def test_the_pipeline_is_one_table_of_passes() -> None:
    """A deviation: the closed assembler's 53 passes are not ours. Every transformation of ours is a row that loads."""
    names = [row.name for row in pipeline.PIPELINE]
    assert len(names) == len(set(names))
    for row in pipeline.PIPELINE:
        assert row.load().NAME == row.name
    for level in range(4):
        rows = pipeline.rows_of(level)
        assert rows == [row for row in pipeline.PIPELINE if row.min_level <= level], (
            "each level in this order"
        )
    found: list[str] = []
    for place in pkgutil.walk_packages(passes.__path__, f"{passes.__name__}."):
        made = vars(importlib.import_module(place.name)).values()
        found += [
            cls.NAME for cls in made
            if isinstance(cls, type) and issubclass(cls, Pass) and cls.NAME and cls.__module__ == place.name
        ]  # fmt: skip
    assert sorted(found) == sorted(names), "no pass is left out of the table"
    ran = [name for name in trees(LOADS_IN_LOOP, "ptx") if name != "ptx"]
    assert len(ran) > 8 and ran == [name for name in names if name in ran], (
        "a compile runs rows, in their order"
    )


@pytest.mark.parametrize("stages", [2, 3, 5])
@pytest.mark.parametrize(("low", "high"), [(0, 0), (0, 1), (1, 2), (0, 3), (0, 7), (4, 2), (2, 9)])
def test_pipelined_loops_compute_the_same(stages: int, low: int, high: int) -> None:
    np = pytest.importorskip("numpy")
    import tileiras

    text = LOADS_IN_LOOP.replace("tt.num_warps", f"tt.num_stages = {stages} : i32, tt.num_warps")
    data = np.random.default_rng(stages).random(128 * 10, dtype=np.float32)
    found = []
    for target in ("reference", "emulator"):
        out = np.zeros(128, np.float32)
        args = [data, out, np.int32(low), np.int32(high)]
        tileiras.launch(text, "k", grid=(1, 1, 1), args=args, target=target, gpu_name="sm_90")
        found.append(out)
    assert (found[0] == found[1]).all()


@pytest.mark.parametrize(
    ("elements", "stages", "depth"), [(128, 4, 4), (4096, 4, 3), (8192, 4, 2), (16384, 4, None)]
)
def test_slots_fit_the_registers(elements: int, stages: int, depth: int | None) -> None:
    warps, registers = 4, elements // 128
    text = LOADS_IN_LOOP.replace("128x", f"{elements}x").replace(
        "tt.num_warps = 4", f"tt.num_stages = {stages} : i32, tt.num_warps = {warps}"
    )
    depths: list[int] = []

    def after(name: str, ir: Any) -> None:
        if name == "TileASModuloSchedule":
            depths.extend(op.attrs["depth"] for op in ir.walk() if op.spec.name == "async.pipeline.create")

    sink = Sink()
    pipeline.compile_module(source.load(text, sink), sm.find("sm_90"), sink, after=after)
    assert depths == ([] if depth is None else [depth]), registers
