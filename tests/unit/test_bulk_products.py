"""Products fed by bulk tensor copies (`--tensor-maps=launcher`): right on the emulator under any order, on each target.

Corpus kernels are held to their formulas; kernels of this file vary extents, tiles and places.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

import numpy as np

import tileiras
from tests.corpus import check as corpus
from tests.corpus.export import bytecode_path
from tests.corpus.registry import CASES
from tileiras.tools import opt

COPY = "cp.async.bulk.tensor"
LAUNCHER: dict[str, Any] = {"launch_abi": "simt", "emit": "ptx", "tensor_maps": "launcher"}
# bf16, f16, f8, tf32, f64, i8; both layouts of both operands; several blocks a kernel; operands written back, both transports
STAGED = (
    "staged_bf16_nn_128", "staged_f16_nt", "staged_f16_tn", "staged_bf16_one_step", "staged_f16_narrow", "staged_f16_wide",
    "staged_e4m3_nn", "staged_e5m2_nt", "staged_tf32_nn", "staged_f64_nn", "staged_i8_nn", "staged_persistent",
    "staged_batched", "staged_split_k", "staged_dequantized", "staged_converted_tf32_tn", "staged_converted_tf32_tt",
    "staged_converted_i8_tt", "staged_converted_w8a16_nn", "staged_attention_f16", "staged_attention_causal_bf16",
    "staged_flash_gqa_128", "staged_flash_bwd_f16_64",
)  # fmt: skip
RACES = (
    "staged_bf16_nn_128", "staged_f16_tn", "staged_persistent", "staged_converted_i8_tn", "staged_converted_tf32_tn",
    "staged_attention_causal_bf16",
)  # fmt: skip
TARGETS = ("sm_90", "sm_100", "sm_120")


def run_case(name: str, gpu_name: str, monkeypatch: pytest.MonkeyPatch, **how: Any) -> str:
    """PTX of a corpus case that ran with its maps and left what its formula says, without a finding."""
    launch, seen = tileiras.launch, []

    def watched(source: Any, *args: Any, **options: Any) -> None:
        program = tileiras.compile(source, gpu_name=gpu_name, lineinfo=True, **LAUNCHER)
        seen.append(program.ptx)
        launch(program, *args, **{**options, **how})

    monkeypatch.setattr(tileiras, "launch", watched)
    outcome = corpus.launch_case(CASES[name], "emulator", gpu_name, 300)
    assert outcome.word == corpus.PASS, outcome.reason
    return str(seen[0])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("gpu_name", TARGETS)
@pytest.mark.parametrize("name", STAGED)
def test_products_fed_by_bulk_copies_are_right(
    name: str, gpu_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if corpus.arch_number(gpu_name) < CASES[name].min_arch:
        pytest.skip(f"needs sm_{CASES[name].min_arch}")
    ptx = run_case(name, gpu_name, monkeypatch)
    if gpu_name == "sm_90":
        assert COPY in ptx


@pytest.mark.sampled(4)
@pytest.mark.parametrize("gpu_name", TARGETS)
@pytest.mark.parametrize("name", RACES)
def test_no_access_races(name: str, gpu_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run_case(name, gpu_name, monkeypatch, check=True, seed=3)


@pytest.mark.full
@pytest.mark.parametrize("gpu_name", TARGETS)
@pytest.mark.parametrize("name", RACES)
def test_no_order_races(name: str, gpu_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(20):
        with monkeypatch.context() as patch:
            run_case(name, gpu_name, patch, check=True, seed=seed)


# ---- one product, with all that a map can be


def product(
    rows: str = "64", depth: str = "1024", columns: str = "32", tile: tuple[int, int, int] = (64, 32, 64)
) -> str:
    """A kernel of `rows` x `depth` by `depth` x `columns`, of which one block computes one tile."""
    m, n, k = tile
    a = f"tensor_view<{'?' if rows[0] == '%' else rows}x{'?' if depth[0] == '%' else depth}xf16, strides=[?,1]>"
    b = f"tensor_view<{'?' if depth[0] == '%' else depth}x{'?' if columns[0] == '%' else columns}xf16, strides=[?,1]>"
    o = f"tensor_view<{m}x{n}xf32, strides=[{n},1]>"
    ta, tb = (
        f"partition_view<tile=({x}x{y}), padding_value = zero, {v}>" for x, y, v in ((m, k, a), (k, n, b))
    )
    to = f"partition_view<tile=({m}x{n}), {o}>"
    return f"""
cuda_tile.module @m {{
  entry @k(%p: tile<ptr<f16>>, %q: tile<ptr<f16>>, %o: tile<ptr<f32>>, %rows: tile<i32>, %depth: tile<i32>,
           %columns: tile<i32>, %pitch: tile<i32>, %row: tile<i32>, %column: tile<i32>, %n: tile<i32>) {{
    %pa = assume div_by<16>, %p : tile<ptr<f16>>
    %qa = assume div_by<16>, %q : tile<ptr<f16>>
    %s = assume div_by<8>, %pitch : tile<i32>
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %c = constant <f32: 0.0> : tile<{m}x{n}xf32>
    %va = make_tensor_view %pa, shape = [{rows}, {depth}], strides = [%s, 1] : tile<i32> -> {a}
    %vb = make_tensor_view %qa, shape = [{depth}, {columns}], strides = [%s, 1] : tile<i32> -> {b}
    %vo = make_tensor_view %o, shape = [{m}, {n}], strides = [{n}, 1] : {o}
    %ta = make_partition_view %va : {ta}
    %tb = make_partition_view %vb : {tb}
    %to = make_partition_view %vo : {to}
    %d = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %c) -> (tile<{m}x{n}xf32>) {{
      %x, %u = load_view_tko weak %ta[%row, %i] token = %t : {ta}, tile<i32> -> tile<{m}x{k}xf16>, token
      %y, %w = load_view_tko weak %tb[%i, %column] token = %t : {tb}, tile<i32> -> tile<{k}x{n}xf16>, token
      %e = mmaf %x, %y, %acc : tile<{m}x{k}xf16>, tile<{k}x{n}xf16>, tile<{m}x{n}xf32>
      continue %e : tile<{m}x{n}xf32>
    }}
    %z = store_view_tko weak %d, %to[%zero, %zero] token = %t : tile<{m}x{n}xf32>, {to}, tile<i32> -> token
    return
  }}
}}
"""


def numbers(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).integers(-4, 5, shape).astype(np.float16)


def run(text: str, args: list[Any], gpu_name: str = "sm_90", **how: Any) -> tileiras.Program:
    program = tileiras.compile(text, gpu_name=gpu_name, **LAUNCHER)
    assert COPY in program.ptx and "cp.async.c" not in program.ptx
    tileiras.launch(program, "k", 1, args, target="emulator", gpu_name=gpu_name, **how)
    return program


def multiply(text: str, extents: tuple[int, int, int], tile: tuple[int, int, int] = (64, 32, 64), gpu_name: str = "sm_90",
             place: tuple[int, int] = (0, 0), steps: int | None = None) -> tileiras.Program:  # fmt: skip
    """Runs the kernel of `product` on arrays with rows of 512 elements, and compares what it makes of them."""
    rows, depth, columns = extents
    a, b = numbers(rows, 512), numbers(depth, 512)
    m, n, k = tile
    out = np.full((m, n), 7, np.float32)
    count = -(-depth // k) if steps is None else steps
    args = [a, b, out, *map(np.int32, (rows, depth, columns, 512, *place, count))]
    program = run(text, args, gpu_name)
    want = a[:, :depth].astype(np.float32) @ b[:, :columns].astype(np.float32)
    part = want[place[0] * m :, place[1] * n :][:m, :n] if min(place) >= 0 else want[:0, :0]
    whole = np.zeros((m, n), np.float32)
    whole[: part.shape[0], : part.shape[1]] = part
    assert (out == whole).all()
    return program


@pytest.mark.parametrize("gpu_name", TARGETS)
@pytest.mark.parametrize(
    "extents", [(64, 192, 32), (64, 64, 32), (50, 200, 27), (1, 8, 1), (64, 129, 255), (64, 0, 32)]
)
def test_edges_arrive_as_zeros(extents: tuple[int, int, int], gpu_name: str) -> None:
    multiply(product("%rows", "%depth", "%columns"), extents, gpu_name=gpu_name)


@pytest.mark.parametrize("name", ["scaled_mxfp4_by_16", "scaled_nvfp4_narrow"])
def test_tiles_with_lines_of_four_bytes_take_no_box(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run_case(name, "sm_100", monkeypatch)


def test_steps_beyond_the_depth_add_nothing() -> None:
    for depth in (0, 100):
        multiply(product("%rows", "%depth", "%columns"), (64, depth, 32), steps=9)


@pytest.mark.parametrize(
    "place", [(1, 0), (0, 3), (1 << 25, 0), (0, 1 << 26), (-1, 0), (1 << 30, 0), (0, -(1 << 31))]
)
def test_tiles_beyond_the_tensor_are_zeros_also_where_a_coordinate_would_wrap(place: tuple[int, int]) -> None:
    multiply(product("%rows", "%depth", "%columns"), (100, 128, 128), place=place)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("gpu_name", TARGETS)
@pytest.mark.parametrize(
    "tile", [(64, 64, 32), (128, 128, 64), (64, 128, 16), (128, 32, 128), (64, 256, 64), (512, 16, 16)]
)
def test_boxes_of_all_widths_and_swizzles(tile: tuple[int, int, int], gpu_name: str) -> None:
    m, n, k = tile
    program = multiply(
        product("%rows", "%depth", "%columns", tile), (m - 3, 3 * k - 1, n), tile=tile, gpu_name=gpu_name
    )
    if gpu_name == "sm_120":  # where steps may be shorter
        return
    maps = program.kernels["k"].tensor_maps
    assert maps[0].box == (min(m, 256), min(k, 64)) and maps[1].box == (k, min(n, 64))
    assert {each.swizzle for each in maps} == {{16: "32B", 32: "64B"}.get(min(x, 64), "128B") for x in (k, n)}


def test_the_kernel_table_and_the_dump_name_the_maps(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    text = product("%rows", "1024", "%columns")
    source = tmp_path / "k.tileir"
    source.write_text(text)
    program = tileiras.compile(source, gpu_name="sm_90", **LAUNCHER)
    kernel = program.kernels["k"]
    assert [h["array"] for h in kernel.as_dict()["hidden"]] == [0, 1]
    assert kernel.as_dict()["hidden"][0]["extents"] == [{"param": 3}, {"const": 1024}]
    declared = re.findall(r"\.param \.align (?:64|128) \.b8 k_param_(\d+)\[128\]", program.ptx)
    assert declared == ["10", "11"]
    for stage, word in (("tileas", "nv_tileas.tensor_maps = [{array = 0"), ("nvvm", ' map "')):
        line = [str(source), "--gpu-name", "sm_90", "--tensor-maps", "launcher", "--pipeline-to", stage]
        assert opt.main(line) == 0
        said = capfd.readouterr().out
        assert word in said
        again = tmp_path / f"{stage}.mlir"
        again.write_text(said)
        assert opt.main([str(again)]) == 0 and capfd.readouterr().out == said


# ---- where there is no map


def reasons(text: str, **more: Any) -> list[str]:
    options = {**LAUNCHER, "remarks": {"missed": "memory"}, **more}
    program = tileiras.compile(text, gpu_name="sm_90", **options)
    assert COPY not in program.ptx and not any(k.tensor_maps for k in program.kernels.values())
    return sorted({d.message.partition(": ")[2] for d in program.diagnostics if d.diag.code == "AS-0311"})


MISSED = {
    "no assumption of the whole kernel makes a stride a multiple of 16 bytes": (
        "div_by<8>, %pitch",
        "div_by<2>, %pitch",
    ),
    "no assumption of the whole kernel makes its pointer a multiple of 16 bytes": (
        "div_by<16>, %p ",
        "div_by<2>, %p ",
    ),
    "the step of the loop is known at run time only": ("step %one)", "step %pitch)"),
    "the hint allow_tma = false": (
        "token = %t : part",
        "token = %t optimization_hints = <default = {allow_tma = false}> : part",
    ),
}


@pytest.mark.parametrize("reason", MISSED)
def test_what_has_no_map_travels_by_cp_async_and_says_why(reason: str) -> None:
    before, after = MISSED[reason]
    text = product("%rows", "%depth", "%columns")
    assert before in text
    text = text.replace(before, after)
    if "%p " in before:
        text = text.replace("div_by<16>, %q", "div_by<2>, %q")
    assert reasons(text) == [reason]
    assert "cp.async.c" in tileiras.compile(text, gpu_name="sm_90", **LAUNCHER).ptx


def test_an_extent_that_is_computed_has_no_map() -> None:
    text = product("%rows", "%depth", "%columns").replace(
        "%t = make_token", "%more = addi %depth, %rows : tile<i32>\n    %t = make_token"
    )
    text = text.replace("[%rows, %depth]", "[%rows, %more]").replace(
        "[%depth, %columns]", "[%more, %columns]"
    )
    assert reasons(text) == ["an extent is neither a parameter of the kernel nor a constant"]


def test_what_the_kernel_wrote_is_not_read_in_bulk() -> None:
    text = product("%rows", "%depth", "%columns").replace(
        "%d = for",
        "%e0 = constant <f16: 1.0> : tile<64x64xf16>\n    %s0 = store_view_tko weak %e0, %ta[%zero, %zero] token = %t : "
        "tile<64x64xf16>, partition_view<tile=(64x64), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>, "
        "tile<i32> -> token\n    %d = for",
    )
    text = text.replace("%ta[%row, %i] token = %t", "%ta[%row, %i] token = %s0").replace(
        "%tb[%i, %column] token = %t", "%tb[%i, %column] token = %s0"
    )
    assert reasons(text) == ["it is ordered behind other accesses of the kernel"]


def test_arithmetic_that_says_a_parameter_in_many_words_is_one() -> None:
    text = product("%rows", "%depth", "%columns").replace(
        "%t = make_token",
        "%two = muli %rows, %one : tile<i32>\n    %three = addi %zero, %two : tile<i32>\n"
        "    %yes = cmpi equal %one, %one, signed : tile<i32> -> tile<i1>\n"
        "    %four = select %yes, %three, %depth : tile<i1>, tile<i32>\n    %t = make_token",
    )
    head, tail = text.split("%t = make_token : token\n", 1)
    constants, rest = tail.split("    %c =", 1)
    before, arithmetic = head.split("    %two", 1)
    text = before + constants + "    %two" + arithmetic + "%t = make_token : token\n    %c =" + rest
    multiply(text.replace("[%rows, %depth]", "[%four, %depth]"), (50, 100, 32))


@pytest.mark.parametrize("more", [{"disable": ("bulk",)}, {"opt_level": 1}, {"gpu_name": "sm_80"}])
def test_without_the_part_the_code_is_that_without_the_option(more: dict[str, Any]) -> None:
    text = product("%rows", "%depth", "%columns")
    options = {"gpu_name": "sm_90", **more}
    plain = tileiras.compile(text, launch_abi="simt", emit="ptx", **options)
    assert tileiras.compile(text, **LAUNCHER, **options).ptx == plain.ptx and COPY not in plain.ptx


def test_the_hint_is_answered_where_no_map_is_made() -> None:
    hint = " optimization_hints = <default = {allow_tma = true}>"
    text = product("%rows", "%depth", "%columns").replace("token = %t : part", f"token = %t{hint} : part")

    def said(**more: Any) -> int:
        options = {**LAUNCHER, "remarks": {"missed": "memory"}, **more}
        found = tileiras.compile(text, gpu_name="sm_90", **options).diagnostics
        return sum("allow_tma" in d.message for d in found)

    assert said() == 0 and said(tensor_maps="none") == said(disable=("bulk",)) == 2


# ---- the check finds what is missing


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "line",
    [
        r"\$L\d+:\n\tmbarrier\.try_wait[^\n]*\n[^\n]*bra[^\n]*\n(?=\twgmma\.wait_group)",  # until the stage has landed
        r"\$L\d+:\n\tmbarrier\.try_wait[^\n]*\n[^\n]*bra[^\n]*\n(?=\telect)",  # until every warp has read the stage
        r"\t@%p\d+ mbarrier\.arrive\.shared[^\n]*\n",  # nobody says that a stage was read: the thread waits for ever
    ],
)
def test_a_missing_wait_or_barrier_is_found(line: str) -> None:
    text = product("%rows", "%depth", "%columns", (128, 64, 64))
    a, b, out = numbers(128, 1024), numbers(1024, 256), np.zeros((128, 64), np.float32)

    def without(ptx: str) -> str:
        assert len(re.findall(line, ptx)) >= 1
        return re.sub(line, "", ptx, count=1)

    program = tileiras.compile(text, gpu_name="sm_90", **LAUNCHER)
    program.ptx = without(program.ptx)
    found = 0
    for seed in range(6):
        args = [a, b, out, *map(np.int32, (128, 1024, 64, 256, 0, 0, 16))]
        try:
            tileiras.launch(program, "k", 1, args, target="emulator", check=True, seed=seed)
        except tileiras.LaunchError:
            found += 1
    assert found >= 5


@pytest.mark.sampled(6)
@pytest.mark.parametrize("gpu_name", TARGETS)
def test_many_steps_go_round_the_ring_in_step(gpu_name: str) -> None:
    program = tileiras.compile(
        product("%rows", "%depth", "%columns", (128, 64, 64)), gpu_name=gpu_name, **LAUNCHER
    )
    a, b = numbers(128, 1344), numbers(1344, 256)
    for seed in range(4):
        out = np.zeros((128, 64), np.float32)
        args = [a, np.ascontiguousarray(np.pad(b, ((0, 0), (0, 1344 - 256)))), out]
        more = [*map(np.int32, (128, 1344, 64, 1344, 0, 0, 21))]
        tileiras.launch(program, "k", 1, [*args, *more], target="emulator", check=True, seed=seed)
        assert (out == a.astype(np.float32) @ b[:, :64].astype(np.float32)).all()


@pytest.mark.usefixtures("undivided")
@pytest.mark.parametrize("name", ["staged_bf16_nn_128", "staged_attention_causal_bf16"])
def test_loops_of_warpgroups_have_no_barrier(name: str) -> None:
    text = tileiras.compile(bytecode_path(CASES[name]), gpu_name="sm_90", **LAUNCHER).ptx
    head, tail = text.index("wgmma.mma_async"), text.rindex("wgmma.mma_async")
    assert (
        "bar.sync"
        not in text[text.rindex("try_wait", 0, head) : text.index("mbarrier.inval", tail)].rpartition(
            "bar.sync"
        )[0]
    )
    assert text.count("mbarrier.arrive.shared::cta.b64") == 1


def test_products_queue_for_wgmma_where_threads_copy_and_not_beside_warps_of_their_own() -> None:
    """Two stages are one too few for what threads copy; bulk copies come in time with them, and nothing waits in a queue."""

    def compiled(**more: Any) -> Any:
        case = bytecode_path(CASES["staged_distance_attention_d256"])
        return tileiras.compile(case, gpu_name="sm_90", remarks={"passed": "all"}, **more)

    bulk, threads = compiled(**LAUNCHER), compiled(emit="ptx")
    said = [[e.message for e in program.diagnostics] for program in (bulk, threads)]
    queues = [any("queue in shared memory for its 2 products" in m for m in found) for found in said]
    assert queues == [False, True]
    assert COPY in bulk.ptx and "cp.async.cg" not in bulk.ptx
    assert "wgmma.mma_async" in bulk.ptx and "wgmma.mma_async" in threads.ptx


def test_mbarriers_beside_tensor_memory_take_no_shared_memory() -> None:
    def shared(**more: Any) -> int:
        program = tileiras.compile(
            bytecode_path(CASES["staged_bf16_nn_128"]), gpu_name="sm_100", **{**LAUNCHER, **more}
        )
        return int(next(iter(program.kernels.values())).dynamic_shared)

    assert shared() == shared(tensor_maps="none")


@pytest.mark.parametrize("name", ["staged_bf16_nn_128", "staged_attention_f16", "staged_converted_i8_tn"])
def test_barriers_of_the_dump_are_those_of_the_code(name: str) -> None:
    from tests.unit import test_dump_is_the_code as both

    assert callable(both.said)
    modules: dict[str, Any] = {}
    from tileiras.compiler import pipeline
    from tileiras.compiler.target import sm
    from tileiras.diag import Sink

    target = sm.find("sm_90")
    stages = pipeline.compile_module(
        tileiras.load(bytecode_path(CASES[name])).op, target, Sink(), launch_abi="simt", tensor_maps="launcher",
        after=lambda at, ir: modules.update({at: both.said(ir)}) if at == "TileIROperationAnalysis" else None,
    )  # fmt: skip
    assert COPY in stages.ptx
    for function, (barriers, words, _) in modules["TileIROperationAnalysis"].items():
        done = both.done(stages.ptx)[function]
        assert done[0] == barriers and done[1] == words
