"""Reports as data: what they say of kernels whose answers are known, what they promise, and what they cost others."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import peers
import pytest

import tileiras
from tests.fixtures import BYTECODE
from tileiras import cli, driver
from tileiras.diag import CompileError, Sink
from tileiras.options import Options
from tileiras.report import collect, diff, html, memory, pressure, shared, write
from tileiras.report.watch import Watch
from tileiras.tools import report as command

ROOT = Path(__file__).resolve().parents[2]
MATMUL = (ROOT / "examples/cmake/kernels/matmul.tileir").read_text()
HOSTILE = "</script><script>document.title='taken'</script>"

COPY = """
cuda_tile.module @m {
  entry @k(%p: tile<ptr<f32>>, %q: tile<ptr<f32>>) {
    %v = make_tensor_view %p, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
    %w = make_tensor_view %q, shape = [64, 64], strides = [1, 64] : tensor_view<64x64xf32, strides=[1,64]>
    %a = make_partition_view %v : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>
    %b = make_partition_view %w : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[1,64]>>
    %c = constant <i32: 0> : tile<i32>
    %x, %t = load_view_tko weak %a[%c, %c] : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32> -> tile<64x64xf32>, token
    %u = store_view_tko weak %x, %b[%c, %c] : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[1,64]>>, tile<i32> -> token
    return
  }
}
"""  # noqa: E501

VIEW = "tensor_view<1024x32xf32, strides=[32,1]>"
PART = f"partition_view<tile=(16x32), {VIEW}>"
COUNT = 14
# Tiles of 4 registers a thread that all wait for their sum, where sixteen blocks an SM leave 32.
CROWDED = "\n".join((
    "cuda_tile.module @m {", "  entry @k(%p: tile<ptr<f32>>) optimization_hints=<sm_80 = {occupancy = 16}> {",
    f"    %v = make_tensor_view %p, shape = [1024, 32], strides = [32, 1] : {VIEW}",
    f"    %a = make_partition_view %v : {PART}", "    %s0 = constant <f32: 0.0> : tile<16x32xf32>",
    *(
        f"    %c{i} = constant <i32: {i}> : tile<i32>\n"
        f"    %x{i}, %t{i} = load_view_tko weak %a[%c{i}, %c0] : {PART}, tile<i32> -> tile<16x32xf32>, token\n"
        f"    %s{i + 1} = addf %s{i}, %x{i} : tile<16x32xf32>"
        for i in range(COUNT)
    ),
    *(
        f"    %m{i} = mulf %x{i}, %s{COUNT} : tile<16x32xf32>\n"
        f"    %u{i} = store_view_tko weak %m{i}, %a[%c{i}, %c0] token = %t{i} : tile<16x32xf32>, {PART}, tile<i32> -> token"
        for i in range(COUNT)
    ),
    "    return", "  }", "}",
))  # fmt: skip


def watched(text: str | bytes, gpu: str = "sm_90", **options: Any) -> tuple[dict[str, Any], Watch]:
    """(the data of a compile, its watch); failed compiles too."""
    data = text.encode() if isinstance(text, str) else text
    sink, watch = Sink(), Watch(data, "k.tileir")
    code = 0
    try:
        driver.compile_source(data, Options(gpu_name=gpu, **options), sink, file="k.tileir", watch=watch)
    except CompileError as error:
        code = error.exit_code
    return collect.module(watch, sink.emitted, code), watch


def line_with(level: dict[str, Any], text: str) -> int:
    return next(i for i, line in enumerate(level["lines"]) if text in line)


def test_a_line_of_ptx_leads_to_its_line_of_the_source() -> None:
    module, _ = watched(MATMUL, emit="ptx")
    levels = module["levels"]
    at = line_with(levels["ptx"], "wgmma.mma_async")
    for level, text in (("nv_tileas", "nv_tileas.wgmma"), ("cuda_tile", "mmaf"), ("source", "mmaf")):
        below = {"nv_tileas": "ptx", "cuda_tile": "nv_tileas", "source": "cuda_tile"}[level]
        at = levels[below]["up"][at]
        assert text in levels[level]["lines"][at]
    assert sum(up >= 0 for up in levels["ptx"]["up"]) > 0.9 * len(levels["ptx"]["up"])
    for name, level in levels.items():
        assert len(level["up"]) == len(level["lines"]), name


def test_links_do_not_need_distinct_positions() -> None:
    """Bytecode without debug information has one position for all ops; its lines are linked all the same."""
    data = tileiras.load(COPY).to_bytecode("13.1")
    sink, watch = Sink(), Watch(data, "k.tilebc")
    driver.compile_source(data, Options(gpu_name="sm_90", emit="ptx"), sink, file="k.tilebc", watch=watch)
    levels = collect.module(watch, sink.emitted)["levels"]
    store = line_with(levels["ptx"], "st.global")
    assert (
        "store_view_tko"
        in levels["cuda_tile"]["lines"][levels["nv_tileas"]["up"][levels["ptx"]["up"][store]]]
    )


@pytest.mark.parametrize("gpu", ["sm_75", "sm_80", "sm_90", "sm_100", "sm_120"])
def test_the_watched_compile_is_the_compile(gpu: str) -> None:
    options = Options(gpu_name=gpu, emit="ptx", lineinfo=True)
    plain = driver.compile_source(MATMUL.encode(), options, Sink(), file="k.tileir")
    _, watch = watched(MATMUL, gpu, emit="ptx", lineinfo=True)
    assert watch.ptx == plain.ptx


def test_a_watch_adds_no_remark_to_a_compile() -> None:
    quiet = tileiras.compile(MATMUL, gpu_name="sm_90", emit="ptx").diagnostics
    sink, watch = Sink(), Watch(MATMUL, "")
    program = driver.compile_source(MATMUL, Options(gpu_name="sm_90", emit="ptx"), sink, watch=watch)
    assert [d.render() for d in program.diagnostics] == [d.render() for d in quiet]
    assert {r.diag.code for r in watch.remarks} >= {"GlobalAccess", "TensorCore"}


def test_layouts_place_every_element() -> None:
    module, _ = watched(MATMUL, "sm_80", emit="ptx")
    for value in module["values"]:
        layout = module["layouts"][value["layout"]]
        count = 1
        for extent in value["shape"]:
            count *= extent
        places = {0}
        for columns in (layout["reg"], layout["lane"], layout["warp"]):
            for column in columns:
                places |= {place ^ column for place in places}
        assert {place | layout["inv"] for place in places} == {i | layout["inv"] for i in range(count)}, value


def test_a_loop_that_is_fed_and_its_ring() -> None:
    module, _ = watched(MATMUL, "sm_90", emit="ptx")
    fed = next(loop for loop in module["loops"] if loop["fed"])
    assert fed["ring"]["stages"] * fed["ring"]["stage_bytes"] <= 227 << 10 and fed["ring"]["ahead"] >= 1
    assert fed["flops"] == 2 * 64 * 64 * 32 and fed["bytes"] == 2 * 64 * 32 * 2
    assert {"wait", "product"} <= {step["role"] for step in fed["steps"]} and not fed["barriers"]
    other = next(loop for loop in module["loops"] if not loop["fed"])
    assert other["fallback"] and other["bound"] == "latency" and other["interval"] > fed["interval"]
    copies = {step["line"] for step in fed["steps"] if step["role"] == "copy"}
    (landed,) = (b for b in module["barriers"] if b["channel"] == "landed" and b["loop"])
    assert copies and set(landed["for"]) >= copies and fed["feeder"] is None
    assert set(landed["then"]) >= {step["line"] for step in fed["steps"] if step["role"] == "product"}
    (row,) = module["roofline"]
    assert row["intensity"] == 32, "half of what the ridge of 64 flops a byte has"
    assert row["share"] == pytest.approx(0.45, abs=1e-3)


def test_a_loop_that_is_fed_by_its_own_copies() -> None:
    module, _ = watched(MATMUL, "sm_90", emit="ptx", disable=("arrivals",))
    fed = next(loop for loop in module["loops"] if loop["fed"])
    assert fed["flops"] == 2 * 64 * 64 * 32 and fed["bytes"] == 2 * 64 * 32 * 2 and fed["feeder"] is None
    assert {"copy", "wait", "product"} <= {step["role"] for step in fed["steps"]}
    waits = [b for b in module["barriers"] if b["kind"] == "copies" and b["loop"]]
    copies = {step["line"] for step in fed["steps"] if step["role"] == "copy"}
    assert waits and set(waits[0]["for"]) <= copies and waits[0]["pending"] == fed["ring"]["ahead"] - 1


@pytest.mark.parametrize("maps", ["none", "launcher"])
def test_a_loop_that_is_fed_by_another_agent_is_bound_by_both(maps: str) -> None:
    """Whoever copies: an iteration moves the operands of its products, which is what the roof of memory is about."""
    module = exported("staged_bf16_nn_128", "sm_90", tensor_maps=maps)
    reads, copies = module["loops"]
    assert reads["feeder"] == copies["line"] and reads["bytes"] == copies["bytes"] == 2 * 128 * 64 * 2
    for unit in ("global memory", "shared memory"):
        assert reads["totals"][unit] == copies["totals"][unit] > 0
    issued = sum(step["clocks"].get("CUDA cores", 0.0) for loop in (reads, copies) for step in loop["steps"])
    assert reads["totals"]["CUDA cores"] == pytest.approx(issued)
    (row,) = module["roofline"]
    assert row["bytes"] == reads["bytes"] and row["intensity"] == 64 and row["terms"]["global memory"] == 512
    (landed,) = (b for b in module["barriers"] if b["channel"] == "landed")
    assert landed["loop"] and set(landed["for"]) <= {
        s["line"] for s in copies["steps"] if s["role"] == "copy"
    }
    assert set(landed["then"]) >= {s["line"] for s in reads["steps"] if s["role"] == "product"}


@pytest.mark.full
def test_terms_of_machine_code_count_what_another_agent_copies() -> None:
    peers.require("nvdisasm")
    terms = []
    for disable in ((), ("arrivals",)):
        module, _ = watched(exported_bytes("staged_bf16_nn_128"), "sm_90", launch_abi="simt", disable=disable)
        assert module["roofline"][0]["from"] == "machine code"
        terms.append(module["roofline"][0]["terms"])
    for unit in ("global memory", "shared memory"):
        assert terms[0][unit] == terms[1][unit] > 0, "the same copies, whoever issues them"
    own, _ = watched(
        exported_bytes("staged_attention_full_f16"), "sm_90", launch_abi="simt", tensor_maps="launcher"
    )
    assert own["roofline"][0]["fed"] and own["roofline"][0]["terms"]["global memory"] == 1024, (
        "its keys and values of 128 x 128"
    )


def test_what_is_not_coalesced_and_why() -> None:
    module, _ = watched(
        COPY.replace("strides = [64, 1]", "strides = [64, 2]").replace("[64,1]", "[64,2]"), emit="ptx"
    )
    load = next(row for row in module["accesses"] if row["what"] == "load")
    assert load["sectors"] > load["least"] and "stride 1" in load["narrow"] + load["scattered"]
    found = next(f for f in module["findings"] if f["kind"] == "coalescing")
    assert found["remedy"] and found["refs"] == [["nv_tileas", load["line"]]]


def kernel(name: str) -> str:
    folder = ROOT / ("docs/gallery" if name == "blend" else "tests/data/report")
    return (folder / f"{name}.tileir").read_text()


def finding(module: dict[str, Any], kind: str) -> dict[str, Any]:
    found: dict[str, Any] = next(f for f in module["findings"] if f["kind"] == kind)
    return found


def test_a_tile_of_one_element_in_the_contiguous_dimension_is_named() -> None:
    module, _ = watched(kernel("column_mean"), emit="ptx")
    found = finding(module, "coalescing")
    assert found["title"] == "load at line 14 of the source is not coalesced"
    assert found["why"].count("one element in dimension 1, which is the one of stride 1") == 1
    assert found["remedy"].startswith("take more elements of that dimension")
    wider = kernel("column_mean").replace("256x1x", "32x8x").replace("(256x1)", "(32x8)")
    wider = wider.replace("tile=(256),", "tile=(32),").replace("tile<256xf32>", "tile<32xf32>").replace(
        "%r = reshape %s : tile<32x8xf32> -> tile<32xf32>",
        "%r = reduce %s dim=1 identities=[0.0 : f32] : tile<32x8xf32> -> tile<32xf32>\n"
        "(%a: tile<f32>, %b: tile<f32>) {\n%c = addf %a, %b : tile<f32>\nyield %c : tile<f32>\n}",
    )  # fmt: skip
    module, _ = watched(wider, emit="ptx")
    assert module["exit_code"] == 0 and not any(
        f["kind"] == "coalescing" and "load" in f["title"] for f in module["findings"]
    ), "the remedy helps"


def test_a_hint_that_makes_a_kernel_spill_is_named() -> None:
    peers.require("ptxas")
    module, _ = watched(kernel("blend"))
    found = finding(module, "spill")
    assert "occupancy = 8 asks for blocks that leave a thread 64 registers" in found["why"]
    assert found["remedy"].startswith("lower the hint occupancy = 8")
    module, _ = watched(kernel("blend").replace(", occupancy = 8", ""))
    assert not [f for f in module["findings"] if f["kind"] == "spill"], "the remedy helps"


@pytest.mark.parametrize("remarks", ["none", "memory"])
def test_a_ring_that_shared_memory_cuts(remarks: str) -> None:
    """Whether or not the remark is asked for; a ring that is as deep as was wanted is no finding."""
    data = Path(BYTECODE / "staged_bf16_nn_128.tilebc").read_bytes()
    for stages, cut in ((0, False), (8, True)):
        module = tileiras.load(data).op
        if stages:
            module.attrs["tt.num_stages"] = stages
        sink, watch = Sink(), Watch(data, "k.tilebc")
        options = Options(gpu_name="sm_80", emit="ptx", remarks=dict.fromkeys(("passed", "missed"), remarks))
        driver.compile_loaded(module, options, sink, watch=watch)
        assert ("AS-0307" in {e.code for e in sink.emitted}) == (remarks == "memory")
        found = [f for f in write.module_of(watch, sink.emitted)["findings"] if f["kind"] == "stages"]
        assert len(found) == cut
        if cut:
            assert "8 were wanted" in found[0]["why"] and found[0]["refs"], "and says at which loop"


def test_a_loop_that_meets_at_barriers() -> None:
    module, _ = watched(kernel("running"), emit="ptx")
    (loop,) = module["loops"]
    inside = [row for row in module["barriers"] if row["loop"]]
    assert loop["barriers"] == len(inside) == 6 and loop["totals"]["waits"] == 6 * 30 and not loop["carried"]
    found = finding(module, "barriers")
    assert (
        "scan at line 14 of the source" in found["why"] and "reduce at line 19 of the source" in found["why"]
    )
    assert "num_worker_warps_per_cta = 1" in found["remedy"]
    assert "a tile block for each iteration" in finding(module, "loop")["remedy"]
    op = {step["line"]: step["op"] for step in loop["steps"]}
    for row in inside:
        assert row["for"] or (row["read"] and row["write"]), "each says for whom it waits, and who may go on"
    assert {op[line] for row in inside for line in row["read"]} == {"convert_layout", "scan", "reduce"}
    one = kernel("running").replace(
        "%steps: tile<i32>) {",
        "%steps: tile<i32>) optimization_hints = <sm_90 = {num_worker_warps_per_cta = 1}> {",
    )
    module, _ = watched(one, emit="ptx")
    assert not module["barriers"] and not [f for f in module["findings"] if f["kind"] == "barriers"]


def test_elementwise_work_is_work() -> None:
    module, _ = watched(kernel("running"), emit="ptx")
    (row,) = module["roofline"]
    assert row["flops"] == 3 * 1024, "an addition of the scan, a maximum of the reduction, a division"
    assert 0 < row["share"] < 0.1 and row["element"] == "f32"


def test_lanes_of_generated_code() -> None:
    from tileiras.compiler.nvvm.code import Addr, Reg, Sym
    from tileiras.report.lanes import Lanes

    tid, low, four, at, twice = (Reg("r", n) for n in range(5))
    first = Reg("p", 0)
    code = [
        ("mov.u32", tid, (Sym("%tid.x"),), None), ("and.b32", low, (tid, 3), None), ("shl.b32", four, (low, 2), None),
        ("sub.s32", at, (0, four), None), ("mov.u32", twice, (0,), None), ("mov.u32", twice, (1,), None),
        ("setp.eq.u32", first, (tid, 0), None),
    ]  # fmt: skip
    lanes = Lanes(code)
    assert lanes.value(Addr(four, 16)) == tuple(16 + 4 * (n & 3) for n in range(32))
    assert lanes.value(at) == tuple(-4 * (n & 3) for n in range(32)), "signed"
    assert lanes.value(twice) is None, "written twice"
    assert lanes.active(first) == [0] and lanes.active((first, True)) == list(range(1, 32))


def test_wavefronts_of_known_accesses() -> None:
    assert shared.wavefronts([4 * lane for lane in range(32)], 4)[:2] == (1, 1)
    assert shared.wavefronts([8 * lane for lane in range(32)], 4)[:2] == (2, 1)
    assert shared.wavefronts([128 * lane for lane in range(32)], 4)[:2] == (32, 1)
    assert shared.wavefronts([64] * 32, 4)[:2] == (1, 1)
    assert shared.wavefronts([16 * lane for lane in range(32)], 16)[:2] == (4, 4)
    assert shared.wavefronts([128 * lane for lane in range(32)], 16)[:2] == (32, 4)
    assert shared.wavefronts([2 * lane for lane in range(32)], 2)[:2] == (1, 1)
    waves, _, banks = shared.wavefronts([256 * lane for lane in range(32)], 4)
    assert banks == [32] + [0] * 31 and waves == 32


def test_demand_of_registers_through_a_loop() -> None:
    from tileiras.compiler.nvvm.code import Label, Reg

    a, b, c, wide = Reg("r", 1), Reg("r", 2), Reg("r", 3), Reg("d", 1)
    top = Label(1)
    code = [
        ("mov.b32", a, (1,), None),  # used in the loop: alive to its end
        ("mov.b32", b, (0,), None),
        top,
        ("add.s32", c, (a, b), None),
        ("mov.b32", b, (c,), None),
        ("mov.b64", wide, (0,), None),
        ("st.global.b64", None, (wide,), None),
        ("bra", None, (top,), None),
        ("st.global.b32", None, (b,), None),
    ]
    demand = pressure.Demand(code)
    assert demand.spans[a] == (0, 7) and demand.spans[b] == (1, 8)
    assert demand.live == [1, 2, 2, 3, 2, 4, 2, 1, 0] and demand.peak == 5


def test_spills_name_their_holders() -> None:
    peers.require("ptxas")
    module, _ = watched(CROWDED, "sm_80", launch_abi="simt")
    kernel = module["kernels"][0]
    assert kernel["spill_stores"] and kernel["limit"] == 32
    first = module["findings"][0]
    assert first["kind"] == "spill" and "held by" in first["why"] and "occupancy" in first["remedy"]
    loads = {row["line"] for row in module["accesses"] if row["what"] == "load"}
    row = module["pressure"][0]
    assert (
        row["ptx"]["peak"] > 4 * COUNT
        and len(loads - {holder["line"] for holder in row["ptx"]["holders"]}) <= 1
    )


def test_machine_code_is_linked_where_nvdisasm_is() -> None:
    peers.require("nvdisasm")
    module, _ = watched(MATMUL, "sm_90", launch_abi="simt")
    sass, ptx = module["levels"]["sass"], module["levels"]["ptx"]
    at = line_with(sass, "HGMMA")
    links = [ptx["lines"][up] for line, up in zip(sass["lines"], sass["up"]) if "HGMMA" in line]
    assert "HGMMA" in sass["lines"][at] and all("wgmma.mma_async" in line for line in links)
    assert links == [line for line in ptx["lines"] if "wgmma.mma_async" in line]
    live = module["pressure"][0]["sass"]
    assert (
        live["peak"] <= module["kernels"][0]["registers"]
        and sum(h["registers"] for h in live["holders"]) > live["peak"] // 2
    )
    assert module["roofline"][0]["from"] == "machine code" and 0 < module["roofline"][0]["share"] <= 0.9


@pytest.mark.parametrize(
    "options", [{"lineinfo": True}, {"device_debug": True, "opt_level": 0}], ids=["lineinfo", "debug"]
)
def test_machine_code_is_linked_where_the_source_is_in_its_tables(options: dict[str, Any]) -> None:
    peers.require("nvdisasm")
    module, _ = watched(MATMUL, **options)
    sass, ptx = module["levels"]["sass"], module["levels"]["ptx"]["lines"]
    linked = [(text, ptx[up]) for text, up in zip(sass["lines"], sass["up"]) if up >= 0]
    assert len(linked) > 0.8 * len(sass["lines"]) and not module["notes"]
    stores = [line for text, line in linked if " STG" in text]
    assert stores and all("st.global" in line for line in stores)


def test_without_nvdisasm_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    peers.require("ptxas")
    from tileiras.toolchain import locate

    monkeypatch.setattr(locate, "find_tool", lambda *_, **__: None)
    monkeypatch.setattr(locate, "find_tool_beside", lambda *_, **__: None)
    from tileiras.toolchain.locate import Tool

    found = peers.tool("ptxas")
    module, _ = watched(MATMUL, "sm_90", launch_abi="simt", ptxas=str(found))
    assert "sass" not in module["levels"] and any("nvdisasm" in note for note in module["notes"])
    assert module["loops"] and module["pressure"][0]["sass"] is None and Tool


def test_same_input_same_bytes(tmp_path: Path) -> None:
    source = tmp_path / "k.tileir"
    source.write_text(MATMUL)
    made = []
    for seed, name in (("1", "a.html"), ("2", "b.html"), ("3", "a.json")):
        done = subprocess.run(
            [sys.executable, "-m", "tileiras", str(source), "--gpu-name=sm_90", "--emit=ptx", "-o", str(tmp_path / "o"),
             f"--report={tmp_path / name}"], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0 and done.stderr == "", done.stderr
        made.append((tmp_path / name).read_bytes())
    assert made[0] == made[1] and len(made[0]) < 1_000_000
    read = [html.read(data, "r", collect.SCHEMA) for data in made]
    assert read[0] == read[2]


def test_nothing_of_the_input_is_markup(tmp_path: Path) -> None:
    text = COPY.replace("@m ", f'@"{HOSTILE}" ').replace(
        "cuda_tile.module", f"// {HOSTILE}\ncuda_tile.module"
    )
    name = tmp_path / "<img src=x onerror=alert(1)>.tileir"
    name.write_text(text)
    page = tmp_path / "r.html"
    assert (
        cli.main([str(name), "--gpu-name=sm_90", "--emit=ptx", f"-o{tmp_path / 'o'}", f"--report={page}"])
        == 0
    )
    found = page.read_text()
    assert HOSTILE not in found and "<img" not in found
    assert len(re.findall("<script", found)) == 2 and "https://" not in found.replace(
        "http://www.w3.org/2000/svg", ""
    )
    assert "innerHTML" not in found and "default-src 'none'" in found
    assert HOSTILE in json.dumps(html.read(page.read_bytes(), "r", collect.SCHEMA), ensure_ascii=False)


@pytest.mark.parametrize(
    ("text", "code", "has"),
    [
        ("cuda_tile.module @m { entry @k( }", 5, {"source"}),
        (COPY.replace("return\n", "%z = addf %x, %y : tile<64x64xf32>\n    return\n"), 5, {"source"}),
        (COPY.replace("entry @k", 'entry @"a b"'), 5, {"source", "cuda_tile"}),
    ],
)  # fmt: skip
def test_a_failed_compile_writes_what_there_is(tmp_path: Path, text: str, code: int, has: set[str]) -> None:
    source, out = tmp_path / "k.tileir", tmp_path / "r.json"
    source.write_text(text)
    assert cli.main([str(source), "--gpu-name=sm_90", f"-o{tmp_path / 'o'}", f"--report={out}"]) == code
    module = html.read(out.read_bytes(), "r", collect.SCHEMA)["modules"][0]
    assert module["exit_code"] == code and not module["finished"] and set(module["levels"]) >= has
    assert module["findings"][0]["kind"] == "failure" and any(
        r["severity"] == "error" for r in module["remarks"]
    )
    assert not (tmp_path / "o").exists()


def test_a_wrong_target_is_in_the_report(tmp_path: Path) -> None:
    source, out = tmp_path / "k.tileir", tmp_path / "r.html"
    source.write_text(COPY)
    assert cli.main([str(source), "--gpu-name=sm_1", f"-o{tmp_path / 'o'}", f"--report={out}"]) == 2
    module = html.read(out.read_bytes(), "r", collect.SCHEMA)["modules"][0]
    assert module["exit_code"] == 2 and "cuda_tile" in module["levels"] or "source" in module["levels"]


def test_an_unwritable_file_is_code_2_before_the_compile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "k.tileir"
    source.write_text(COPY)
    monkeypatch.setattr(driver, "compile_source", lambda *_, **__: pytest.fail("it was compiled"))
    (tmp_path / "folder.html").mkdir()
    for name in ("no/such/folder/r.html", "folder.html", "k.tileir/r.json"):
        status = cli.main(
            [str(source), "--gpu-name=sm_90", f"-o{tmp_path / 'o'}", f"--report={tmp_path / name}"]
        )
        assert status == 2 and "unable to write" in capsys.readouterr().err, name
    assert cli.main([str(source), "--gpu-name=sm_90", "--report=r.txt"]) == 1
    assert ".html or .json" in capsys.readouterr().err


def test_other_outputs_are_there_with_the_report(tmp_path: Path) -> None:
    source = tmp_path / "k.tileir"
    source.write_text(COPY)
    line = [str(source), "--gpu-name=sm_90", "--emit=ptx", f"--report={tmp_path / 'r.json'}"]
    assert cli.main([*line, f"-o{tmp_path / 'with'}"]) == 0
    assert cli.main([*line[:-1], f"-o{tmp_path / 'without'}"]) == 0
    assert (tmp_path / "with").read_bytes() == (tmp_path / "without").read_bytes()
    assert cli.main([*line, f"-o{tmp_path / 'r.json'}"]) == 2, "one file cannot be both"


def test_a_compile_without_report_loads_nothing_of_it(tmp_path: Path) -> None:
    script = (
        "import sys; from tileiras.cli import main; "
        "code = main([sys.argv[1], '--gpu-name=sm_90', '--emit=ptx', '-o', sys.argv[2]]); "
        "print(code, [m for m in sys.modules if m.startswith('tileiras.report')])"
    )
    kernel = BYTECODE / "axpy_f32.tilebc"
    done = subprocess.run(
        [sys.executable, "-c", script, str(kernel), str(tmp_path / "k.ptx")], capture_output=True, text=True
    )
    assert done.stdout.split() == ["0", "[]"], done.stderr


def test_many_operations_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collect, "MOST_OPS", 5)
    module, _ = watched(COPY, emit="ptx")
    assert module["cut_ops"] and "more than 5" in module["cut"][0] and not module["values"]
    assert module["levels"]["ptx"]["lines"]


def test_long_texts_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    from tileiras.report import levels

    monkeypatch.setattr(levels, "MOST_LINES", 20)
    module, _ = watched(MATMUL, emit="ptx")
    assert all(len(level["lines"]) <= 40 for level in module["levels"].values())
    assert any("nv_tileas" in text for text in module["cut"])
    for level in module["levels"].values():
        assert len(level["up"]) == len(level["lines"])


def test_a_report_keeps_to_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    module, _ = watched(MATMUL, emit="ptx")
    whole = len(write.render("r.json", [json.loads(json.dumps(module))]))
    monkeypatch.setattr(collect, "MOST_BYTES", whole - 100)
    found = json.loads(write.render("r.json", [module]))["modules"][0]
    assert not found["levels"]["ptx"]["lines"] and any("left out" in text for text in found["cut"])
    assert found["levels"]["nv_tileas"]["lines"]


def test_program_report(tmp_path: Path) -> None:
    program = tileiras.compile(MATMUL, gpu_name="sm_90", emit="ptx")
    program.report(tmp_path / "r.html")
    module = html.read((tmp_path / "r.html").read_bytes(), "r", collect.SCHEMA)["modules"][0]
    assert module["finished"] and module["emulator"] is None
    assert "\n".join(module["levels"]["source"]["lines"]) == MATMUL.rstrip("\n")
    with pytest.raises(ValueError, match="html"):
        program.report(tmp_path / "r.pdf")
    with pytest.raises(tileiras.CompileError) as failed:
        program.report(tmp_path / "no" / "r.html")
    assert failed.value.exit_code == 2


def test_counts_of_the_emulator_are_in_the_report(tmp_path: Path) -> None:
    np = pytest.importorskip("numpy")
    pytest.importorskip("ml_dtypes")
    from tileiras.run.profile import Profile

    program = tileiras.compile(COPY, gpu_name="sm_90", emit="ptx", launch_abi="simt")
    x, y = np.arange(4096, dtype=np.float32), np.zeros(4096, np.float32)
    program.launch("k", 1, [x, y], target="emulator", profile=Profile())
    program.report(tmp_path / "r.json")
    module = json.loads((tmp_path / "r.json").read_text())["modules"][0]
    assert module["emulator"]["total"]["sectors"] >= 1024
    stores = [row for row in module["emulator"]["lines"] if row["instruction"].startswith("st.global")]
    assert stores and all("st.global" in module["levels"]["ptx"]["lines"][row["ptx"]] for row in stores)


@pytest.mark.parametrize("elem", ["f32", "f16", "f64"])
def test_wavefronts_are_those_that_the_emulator_counts(tmp_path: Path, elem: str) -> None:
    np = pytest.importorskip("numpy")
    pytest.importorskip("ml_dtypes")
    from tileiras.run.profile import Profile

    source = COPY.replace("[1,64]", "[64,1]").replace("[1, 64]", "[64, 1]").replace("weak %x,", "weak %z,")
    sum_ = "%y = permute %x [1, 0] : TILE -> TILE\n    %z = addf %x, %y : TILE\n    %u =".replace(
        "TILE", "tile<64x64xf32>"
    )
    source = source.replace("%u =", sum_).replace("f32", elem)
    program = tileiras.compile(source, gpu_name="sm_90", emit="ptx", launch_abi="simt")
    type = {"f32": np.float32, "f16": np.float16, "f64": np.float64}[elem]
    program.launch("k", 1, [np.zeros(4096, type), np.zeros(4096, type)], target="emulator", profile=Profile())
    program.report(tmp_path / "r.json")
    module = json.loads((tmp_path / "r.json").read_text())["modules"][0]
    up = module["levels"]["ptx"]["up"]
    accesses = module["shared"][0]["accesses"]
    assert {row["role"] for row in accesses} == {"read", "write"}
    for row in accesses:
        start = ("st.shared",) if row["role"] == "write" else ("ld.shared", "ldmatrix")
        lines = [line for line in module["emulator"]["lines"] if up[line["ptx"]] == row["line"]]
        lines = [
            line for line in lines if any(word.startswith(start) for word in line["instruction"].split())
        ]
        assert lines, row
        for line in lines:
            matrices = int((re.findall(r"ldmatrix.*\.x([124])\.", line["instruction"]) or ["1"])[0])
            assert line["wavefronts"] == line["warps"] * matrices * row["wavefronts"], (row, line)


def test_exchanges_ask_the_banks_that_the_emulator_counts(tmp_path: Path) -> None:
    np = pytest.importorskip("numpy")
    pytest.importorskip("ml_dtypes")
    from tileiras.run.profile import Profile

    program = tileiras.compile(kernel("running"), gpu_name="sm_90", emit="ptx", launch_abi="simt")
    x = np.ones((1, 1024), np.float32)
    program.launch("running", 1, [x, np.zeros_like(x), 1], target="emulator", profile=Profile())
    program.report(tmp_path / "r.json")
    module = json.loads((tmp_path / "r.json").read_text())["modules"][0]
    up = module["levels"]["ptx"]["up"]
    accesses = [row for row in module["shared"][0]["accesses"] if row["op"] in ("scan", "reduce")]
    assert [(row["what"], row["role"]) for row in accesses] == [
        ("scan", "write"), ("scan", "read"), ("reduction", "write"), ("reduction", "read"),
    ]  # fmt: skip
    for row in accesses:
        start = "st.shared" if row["role"] == "write" else "ld.shared"
        lines = [
            line
            for line in module["emulator"]["lines"]
            if up[line["ptx"]] == row["line"] and start in line["instruction"]
        ]
        assert lines and max(line["wavefronts"] / line["warps"] for line in lines) == row["wavefronts"], row


def test_diff(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, gpu in (("a.html", "sm_80"), ("b.json", "sm_90")):
        tileiras.compile(MATMUL, gpu_name=gpu, emit="ptx").report(tmp_path / name)
    a, b = str(tmp_path / "a.html"), str(tmp_path / "b.json")
    assert command.main(["diff", a, a]) == 0 and capsys.readouterr().out == "no difference\n"
    assert command.main(["diff", a, b]) == 0
    said = capsys.readouterr().out
    assert "target" in said and "stages" in said and "->" in said
    assert command.main(["diff", a, b, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {"what", "name", "before", "after"} == set(rows[0]) and len(rows) == len(said.splitlines())
    assert command.main(["html", b, "-o", str(tmp_path / "c.html")]) == 0
    assert html.read((tmp_path / "c.html").read_bytes(), "c", collect.SCHEMA) == json.loads(
        Path(b).read_text()
    )


def test_diff_refuses_what_is_no_report_of_this_schema(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "a.json"
    tileiras.compile(COPY, gpu_name="sm_90", emit="ptx").report(page)
    other = tmp_path / "b.json"
    other.write_text(page.read_text().replace('"schema":1', '"schema":2'))
    assert command.main(["diff", str(page), str(other)]) == 2
    assert "schema 2" in capsys.readouterr().err
    (tmp_path / "c.html").write_text("<html></html>")
    assert command.main(["diff", str(page), str(tmp_path / "c.html")]) == 2
    assert command.main(["diff", str(page), str(tmp_path / "none.html")]) == 1
    assert (
        command.main(["diff", str(page)]) == 1 and command.main([]) == 1 and command.main(["show", "x"]) == 1
    )
    capsys.readouterr()


def test_names_in_a_diff_do_not_steer_the_terminal() -> None:
    assert diff.plain("a\x1b[31m\nb") == "a?[31m?b"


def test_loops_of_warps_that_only_copy_and_of_the_others() -> None:
    """One warp copies, eight multiply: both loops know their ring and how far it runs ahead, and neither waits for memory."""
    from tests.corpus.export import bytecode_path
    from tests.corpus.registry import CASES

    data = Path(bytecode_path(CASES["staged_bf16_nn_128"])).read_bytes()
    sink, watch = Sink(), Watch(data, "k.tilebc")
    options = Options(gpu_name="sm_90", emit="ptx", launch_abi="simt", tensor_maps="launcher")
    driver.compile_source(data, options, sink, file="k.tilebc", watch=watch)
    module = collect.module(watch, sink.emitted, 0)
    multiplying, copying = module["loops"]
    assert multiplying["warps"] == 8 and copying["warps"] == 1
    for loop in module["loops"]:
        assert loop["fed"] and loop["ring"]["stages"] == 5 and loop["ring"]["ahead"] == 3
        assert loop["bound"] != "latency"
    assert multiplying["flops"] == 2 * 128 * 128 * 64 and copying["bytes"] == 2 * 128 * 64 * 2
    assert not any("waits for memory" in finding["title"] for finding in module["findings"])


def test_mbarriers_lie_behind_the_ring_that_bulk_copies_fill(tmp_path: Path) -> None:
    from tests.corpus.export import bytecode_path
    from tests.corpus.registry import CASES

    out = tmp_path / "r.json"
    words = [
        str(bytecode_path(CASES["staged_bf16_nn_128"])),
        "--gpu-name=sm_90",
        "--emit=ptx",
        "-o",
        str(tmp_path / "k.ptx"),
    ]
    assert cli.main([*words, "--launch-abi=simt", "--tensor-maps=launcher", f"--report={out}"]) == 0
    (module,) = json.loads(out.read_text())["modules"]
    (kernel,) = module["shared"]
    ring, mbarriers = (
        next(b for b in kernel["buffers"] if b["what"] == what)
        for what in ("ring of stages", "mbarriers of the ring")
    )
    assert ring["stage_bytes"] * ring["stages"] == ring["bytes"]
    assert ring["stage_bytes"] == sum(member["bytes"] for member in ring["members"])
    assert mbarriers["offset"] == ring["offset"] + ring["bytes"] and mbarriers["bytes"] >= 8 * ring["stages"]


def exported_bytes(name: str) -> bytes:
    """The bytecode of a kernel of the corpus."""
    from tests.corpus.export import bytecode_path
    from tests.corpus.registry import CASES

    return Path(bytecode_path(CASES[name])).read_bytes()


def exported(name: str, gpu: str, **options: Any) -> dict[str, Any]:
    """The report of a kernel of the corpus."""
    data = exported_bytes(name)
    sink, watch = Sink(), Watch(data, "k.tilebc")
    driver.compile_source(
        data,
        Options(gpu_name=gpu, emit="ptx", launch_abi="simt", **options),
        sink,
        file="k.tilebc",
        watch=watch,
    )
    return collect.module(watch, sink.emitted, 0)


def said_of(module: dict[str, Any], lines: list[int]) -> list[str]:
    """The ops of lines of nv_tileas."""
    text = module["levels"]["nv_tileas"]["lines"]
    return [found[1] for line in lines if (found := re.search(r"nv_tileas\.([\w.]+)", text[line]))]


def test_waits_for_mbarriers_name_who_arrives_on_them() -> None:
    module = exported("staged_bf16_nn_128", "sm_90", tensor_maps="launcher")
    phases = {row["channel"]: row for row in module["barriers"] if row["kind"] == "phase"}
    assert said_of(module, phases["landed"]["for"]) == ["bulk.load"]
    assert "wgmma" in said_of(module, phases["landed"]["then"])
    assert said_of(module, phases["released"]["for"]) == ["bulk.release"]
    assert said_of(module, phases["released"]["then"]) == ["bulk.load"]
    meeting = [row for row in module["barriers"] if row["kind"] == "barrier"]
    assert {row["warps"] for row in meeting} == {None, 8}
    assert all("bulk.load" not in said_of(module, row["then"]) for row in meeting if row["warps"] == 8), (
        "another agent runs the copies"
    )
    (start,) = (row for row in meeting if row["warps"] is None)
    assert said_of(module, start["for"]) == ["bulk.begin"]


def test_copies_of_another_agent_count_at_its_mbarriers_and_at_no_barrier() -> None:
    """Four warps copy by cp.async, eight multiply: nobody meets in the loops."""
    module = exported("staged_bf16_nn_128", "sm_90")
    reads, copies = module["loops"]
    assert reads["agent"]["warps"] == 8 and copies["agent"] == {"id": 1, "warps": 4, "issuing": 4}
    meeting = [row for row in module["barriers"] if row["kind"] == "barrier"]
    assert meeting and not any(row["loop"] for row in meeting)
    assert not any("async.copy_view" in said_of(module, row["for"]) for row in meeting)
    landed, released = (
        next(row for row in module["barriers"] if row["channel"] == channel)
        for channel in ("landed", "released")
    )
    assert set(said_of(module, landed["for"])) == {"async.copy_view"}
    assert "wgmma" in said_of(module, landed["then"])
    assert said_of(module, released["for"]) == ["bulk.release"]
    assert set(said_of(module, released["then"])) == {"async.copy_view"}


def test_copies_count_at_a_barrier_once_they_are_awaited() -> None:
    module = exported("staged_bf16_nn_128", "sm_90", disable=("arrivals",))
    meeting = [row for row in module["barriers"] if row["kind"] == "barrier"]
    inside = next(row for row in meeting if row["loop"])
    assert set(said_of(module, inside["for"])) == {"async.copy_view"}
    assert all("async.copy_view" not in said_of(module, row["for"]) for row in meeting if not row["loop"])


def test_copies_that_arrive_on_mbarriers_count_there_and_at_no_barrier() -> None:
    module = exported("staged_bf16_nn_128", "sm_100")
    meeting = [row for row in module["barriers"] if row["kind"] == "barrier"]
    assert not any(row["loop"] for row in meeting)
    begun, allocated, *_ = (said_of(module, row["for"]) for row in meeting)
    assert begun == ["bulk.begin"]
    assert allocated == ["tensor_memory.alloc"], "the copies under way are none of its business"
    assert not any("async.copy_view" in said_of(module, row["for"]) for row in meeting)
    landed, released, product = (row for row in module["barriers"] if row["kind"] == "phase")
    assert [row["channel"] for row in (landed, released, product)] == ["landed", "released", "product"]
    copies = [step["line"] for step in module["loops"][0]["steps"] if step["role"] == "copy"]
    assert set(said_of(module, landed["for"])) == {"async.copy_view"} and set(copies) < set(landed["for"])
    assert "tensor_memory.product" in said_of(module, landed["then"])
    assert said_of(module, released["for"]) == ["bulk.commit"] and released["then"] == copies
    assert said_of(module, product["for"]) == ["tensor_memory.product"] and not product["loop"]


def test_operands_that_warps_store_are_awaited_at_an_mbarrier() -> None:
    module = exported("staged_tf32_nn", "sm_100")
    (stored,) = (row for row in module["barriers"] if row["channel"] == "stored")
    assert said_of(module, stored["for"]) == ["tensor_memory.stored"]
    assert "tensor_memory.product" in said_of(module, stored["then"])


def test_copies_that_arrive_on_mbarriers_run_ahead() -> None:
    """As many as there are in front of the loop: nothing of it waits for memory."""
    module = exported("staged_bf16_nn_128", "sm_100")
    (loop,) = module["loops"]
    assert loop["fed"] and loop["bound"] != "latency" and not loop["barriers"]
    assert loop["ring"]["ahead"] == 2 == loop["ring"]["stages"] - 1 - loop["ring"]["spare"]
    assert [step["op"] for step in loop["steps"] if step["role"] == "wait"] == ["bulk.wait", "bulk.acquire"]
    assert not any("waits for memory" in finding["title"] for finding in module["findings"])


def test_agents_that_share_a_ring_are_a_pair() -> None:
    module = exported("staged_bf16_nn_128", "sm_90", tensor_maps="launcher")
    reads, copies = module["loops"]
    assert reads["feeder"] == copies["line"] and copies["reader"] == reads["line"]
    assert reads["agent"] == {"id": 0, "warps": 8, "issuing": 8}
    assert copies["agent"] == {"id": 1, "warps": 4, "issuing": 1}
    assert [f["title"] for f in module["findings"] if f["kind"] == "loop"] and not any(
        ["nv_tileas", copies["line"]] in finding["refs"] for finding in module["findings"]
    ), "an agent that waits for free stages limits nothing"
    (kernel,) = module["kernels"]
    assert [agent["registers"] for agent in kernel["agents"]] == [240, 24] and kernel["limit"] == 240
    assert reads["ring"]["spare"] + reads["ring"]["ahead"] + 1 == reads["ring"]["stages"]


@pytest.mark.parametrize("maps", ["none", "launcher"])
def test_columns_of_tensor_memory(maps: str) -> None:
    module = exported("staged_bf16_nn_128", "sm_100", tensor_maps=maps)
    (kernel,) = module["shared"]
    (memory,) = kernel["tensor_memory"]
    (sum,) = memory["regions"]
    assert (memory["columns"], memory["of"], memory["lanes"]) == (128, 512, 128)
    assert (sum["column"], sum["columns"], sum["what"]) == (0, 128, "sum of 128 x 128")
    # agents stand behind each other: the last line of the text that works on the sum is that of the agent that multiplies
    ending = "tensor_memory.commit" if maps == "launcher" else "tensor_memory.end"
    assert said_of(module, [sum["line"], sum["end"], *sum["by"]]) == [
        "tensor_memory.begin", ending, "tensor_memory.product",
    ]  # fmt: skip
    assert memory["first"] < sum["line"] < sum["end"] <= memory["last"]
    rings = [b for b in kernel["buffers"] if b["what"] == "ring of stages"]
    assert rings and all(0 < b["bytes"] < kernel["bytes"] for b in kernel["buffers"])
    if (
        maps == "launcher"
    ):  # tensor memory's own mbarriers lie in front of the ring, and the ring's among them
        ours = next(b for b in kernel["buffers"] if b["what"] == "mbarriers of the ring")
        assert (
            8 * rings[0]["stages"] <= ours["bytes"] and ours["offset"] + ours["bytes"] <= rings[0]["offset"]
        )


def test_three_agents_wait_for_each_other() -> None:
    """One warp copies, one multiplies in tensor memory, eight take the sums: who arrives on which mbarrier."""
    module = exported("staged_bf16_nn_128", "sm_100", tensor_maps="launcher")
    (kernel,) = module["kernels"]
    assert [agent["warps"] for agent in kernel["agents"]] == [8, 1, 1]
    waits: dict[str, set[str]] = {}
    for row in module["barriers"]:
        if row["kind"] == "phase":
            waits.setdefault(row["channel"], set()).update(said_of(module, row["for"]))
    assert waits["landed"] == {"bulk.load"} and waits["released"] == {"bulk.commit"}
    assert waits["product"] == {"tensor_memory.product"}
    copies, reads = (loop for loop in module["loops"] if not loop["inner"] and loop["ring"])
    assert (copies["reader"], reads["feeder"]) == (reads["line"], copies["line"])


def regions_of(name: str) -> list[tuple[int, int, str]]:
    (memory,) = exported(name, "sm_100")["shared"][0]["tensor_memory"]
    return [(r["column"], r["columns"], r["what"]) for r in memory["regions"]]


def test_scales_and_left_operands_in_tensor_memory() -> None:
    """Scales take turns behind the sum: of 128 rows and of 128 columns, 4 columns for four scales along K."""
    assert regions_of("scaled_mxfp8_128") == [
        (0, 128, "sum of 128 x 128"),
        (128, 8, "block scales of every even product"),
        (136, 8, "block scales of every odd product"),
    ]
    assert regions_of("staged_attention_f16") == [
        (0, 64, "sum of 128 x 64"),
        (64, 64, "sum of 128 x 64"),
        (128, 32, "left operand, 128 x 64 f16"),
    ]
    full = regions_of("staged_attention_full_f16")
    assert [row[2] for row in full] == ["sum of 256 x 128", "left operand, 256 x 128 f16", "sum of 256 x 128"]
    assert full[0][0] == full[1][0] == 0 and full[0][1] == full[2][0] == 256, (
        "probabilities overwrite their scores"
    )


def test_the_order_of_scales_is_no_advice() -> None:
    module = exported("scaled_mxfp8_128", "sm_100")
    fixed = [row for row in module["shared"][0]["accesses"] if row["fixed"]]
    assert fixed and all(row["wavefronts"] > row["least"] for row in fixed)
    lines = {row["line"] for row in fixed}
    assert not any(
        f["kind"] == "banks" and lines & {line for _, line in f["refs"]} for f in module["findings"]
    )


def test_part_of_a_sector_has_a_reason() -> None:
    """Half a sector a request, as fragments of a product are stored or loaded: the page says why, where nothing else does."""
    for what, word in (("store", "made"), ("load", "uses")):
        row: dict[str, Any] = {
            "sectors": 8,
            "least": 4,
            "narrow": "",
            "scattered": "",
            "partial": "",
            "gather": "",
        }
        memory.partial(row, what)
        assert "16 of the 32 bytes" in row["partial"] and word in row["partial"] and row["gather"]
    for known in ({"narrow": "a reason"}, {"scattered": "a reason"}, {"sectors": 4}, {"sectors": None}):
        row = {"sectors": 8, "least": 4, "narrow": "", "scattered": "", "partial": "", "gather": "", **known}
        memory.partial(row, "store")
        assert not row["partial"]
    for name, gpu in (("staged_attention_f16", "sm_100"), ("staged_bf16_nn_128", "sm_80")):
        for row in exported(name, gpu)["accesses"]:
            if row["sectors"] and row["sectors"] > row["least"]:
                assert row["narrow"] or row["scattered"] or row["partial"], row


INLINED = """
import cuda.tile as ct

@ct.kernel
def k(x, y):
    t = ct.load(x, (0,), (128,))
    ct.store(y, (0,), t.astype(ct.float16))
"""


def test_lines_of_a_file_have_its_numbers_and_libraries_are_left_out(tmp_path: Path) -> None:
    """An op that a library made belongs to the author's line that called it, under the number that an editor shows."""
    pytest.importorskip("cuda.tile")
    (tmp_path / "scale.py").write_text(INLINED)
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]); import scale, cuda.tile as ct\n"
        "from cuda.tile import compilation as cc\n"
        "a = lambda d: cc.ArrayConstraint(d, 1, index_dtype=ct.int32, stride_lower_bound_incl=0, alias_groups=[], "
        "may_alias_internally=False, stride_constant=[1], stride_divisible_by=1, shape_divisible_by=1, "
        "base_addr_divisible_by=4)\n"
        "s = cc.KernelSignature([a(ct.float32), a(ct.float16)], symbol='k', "
        "calling_convention=cc.CallingConvention.cutile_python_v1())\n"
        "cc.export_kernel(scale.k, [s], sys.argv[2], output_format='tileir_bytecode', bytecode_version='13.3', gpu_code=None)"
    )
    made = tmp_path / "k.tilebc"
    subprocess.run([sys.executable, "-c", script, str(tmp_path), str(made)], check=True)
    out = tmp_path / "r.json"
    assert (
        cli.main([str(made), "--gpu-name=sm_90", "--emit=ptx", f"-o{tmp_path / 'k.ptx'}", f"--report={out}"])
        == 0
    )
    (module,) = json.loads(out.read_text())["modules"]
    source = module["levels"]["source"]
    assert not any("def astype" in line for line in source["lines"]), "a library's text is not the kernel's"
    (head, run) = source["places"]
    assert head == [0, "", 0] and run[1:] == ["scale.py", 1]
    store = line_with(module["levels"]["cuda_tile"], "ftof")
    at = module["levels"]["cuda_tile"]["up"][store]
    assert "t.astype" in source["lines"][at]
    assert INLINED.split("\n")[run[2] + at - run[0] - 1] == source["lines"][at]


@pytest.mark.parametrize(
    "hint, said",
    [
        ("sm_90 = {ocupancy = 4}", "ocupancy is not known hint for current Operation"),
        ("sm_90 = {occupancy = 99}", "integer value in the range [1, 32] is expected for sm_90.occupancy"),
        ("sm_9 = {occupancy = 4}", "unknown hint key sm_9"),
    ],
)
def test_a_hint_that_nothing_reads_is_a_finding(hint: str, said: str) -> None:
    text = COPY.replace("{\n    %v", f"optimization_hints = <{hint}> {{\n    %v")
    assert text != COPY
    module, _ = watched(text, emit="ptx")
    (found,) = (f for f in module["findings"] if f["kind"] == "hint")
    assert found["title"].startswith("a hint is not read: ") and found["title"].endswith(said)
    assert found["why"] and found["remedy"]
    module, _ = watched(COPY, emit="ptx")
    assert not any(f["kind"] == "hint" for f in module["findings"])
