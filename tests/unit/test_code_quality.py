"""Reader of machine code, hot loop and model, on machine code that ptxas makes here from a few lines of PTX."""

from __future__ import annotations

import functools
import json
import re
import subprocess
import sys
from pathlib import Path

import peers
import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import code_quality
import hot_loop
import launches
import production

from tileiras.report import model, sass
from tileiras.report.hot_loop import _copied_beside, _whole_step, tensor_row
from tileiras.report.sass import Instruction

HEAD = ".version 8.5\n.target {target}\n.address_size 64\n"

# A K loop: both operands by asynchronous copies of 16 bytes, two groups left under way, two mma.sync a pass.
PIPELINED = """.visible .entry k(.param .u64 p, .param .u32 n) .reqntid 128
{{
 .shared .align 16 .b8 s[32768]; .reg .b64 %a; .reg .b32 %n, %i, %s; .reg .f32 %c<4>; .reg .b32 %f<4>; .reg .pred %q;
 ld.param.u64 %a, [p]; ld.param.u32 %n, [n]; mov.u32 %i, 0; mov.u32 %s, s;
 mov.f32 %c0, 0f00000000; mov.f32 %c1, %c0; mov.f32 %c2, %c0; mov.f32 %c3, %c0;
L:
 .pragma "nounroll";
 cp.async.cg.shared.global [%s], [%a], 16; cp.async.commit_group; cp.async.wait_group {left};
 bar.sync 0;
 ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%f0, %f1, %f2, %f3}}, [%s];
 mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {{%c0,%c1,%c2,%c3}}, {{%f0,%f1,%f2,%f3}}, {{%f0,%f1}}, {{%c0,%c1,%c2,%c3}};
 mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {{%c0,%c1,%c2,%c3}}, {{%f0,%f1,%f2,%f3}}, {{%f2,%f3}}, {{%c0,%c1,%c2,%c3}};
 add.s64 %a, %a, 64; add.s32 %s, %s, 16; add.s32 %i, %i, 1; setp.lt.s32 %q, %i, %n;
 @%q bra L;
 st.global.v4.f32 [%a], {{%c0,%c1,%c2,%c3}};
 ret;
}}
"""
# An outer loop with stores around an inner one that only loads and adds.
NESTED = """.visible .entry k(.param .u64 p, .param .u32 n) .reqntid 64
{{
 .reg .b64 %a; .reg .b32 %n, %i, %j; .reg .f32 %c, %v<4>; .reg .pred %q;
 ld.param.u64 %a, [p]; ld.param.u32 %n, [n]; mov.u32 %i, 0;
O:
 .pragma "nounroll";
 mov.f32 %c, 0f00000000; mov.u32 %j, 0;
I:
 .pragma "nounroll";
 ld.global.v4.f32 {{%v0,%v1,%v2,%v3}}, [%a]; add.f32 %c, %c, %v0;
 add.f32 %c, %c, %v1; add.f32 %c, %c, %v2; add.f32 %c, %c, %v3;
 add.s64 %a, %a, 16; add.s32 %j, %j, 1; setp.lt.s32 %q, %j, %n;
 @%q bra I;
 st.global.f32 [%a], %c; add.s32 %i, %i, 1; setp.lt.s32 %q, %i, %n;
 @%q bra O;
 ret;
}}
"""
# Waits for a barrier in shared memory, then multiplies by warpgroup: ptxas moves the waiting out of line.
GROUPED = """.visible .entry k(.param .u64 p, .param .u32 n) .reqntid 128
{{
 .shared .align 1024 .b8 s[65536]; .shared .align 8 .b64 m; .reg .b32 %n, %i, %b; .reg .b64 %d, %a;  .reg .f32 %c<4>;
 .reg .pred %q, %w; ld.param.u64 %a, [p]; ld.param.u32 %n, [n]; mov.u32 %i, 0; mov.u32 %b, m; mov.b64 %d, 16384;
 mov.f32 %c0, 0f00000000; mov.f32 %c1, %c0; mov.f32 %c2, %c0; mov.f32 %c3, %c0;
L:
W:
 mbarrier.try_wait.parity.shared.b64 %w, [%b], 0;
 @!%w bra W;
 wgmma.fence.sync.aligned;
 wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {{%c0,%c1,%c2,%c3}}, %d, %d, 1, 1, 1, 0, 0;
 wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
 add.s32 %i, %i, 1; setp.lt.s32 %q, %i, %n;
 @%q bra L;
 st.global.v4.f32 [%a], {{%c0,%c1,%c2,%c3}};
 ret;
}}
"""
# Two agents: one multiplies what the other copies, and hands the stage back before or behind an acquire.
AGENTS = """.visible .entry k(.param .u64 p, .param .u32 n) .reqntid 256
{{
 .shared .align 1024 .b8 s[65536]; .shared .align 8 .b64 m[2]; .reg .b32 %n, %i, %b, %s, %t; .reg .b64 %d, %a;  .reg .f32 %c<4>;
 .reg .pred %q, %w; ld.param.u64 %a, [p]; ld.param.u32 %n, [n]; mov.u32 %i, 0; mov.u32 %b, m; mov.u32 %s, s; mov.b64 %d, 16384;
 mov.u32 %t, %tid.x; setp.ge.u32 %q, %t, 128;
 @%q bra C;
 mov.f32 %c0, 0f00000000; mov.f32 %c1, %c0; mov.f32 %c2, %c0; mov.f32 %c3, %c0;
L:
W:
 mbarrier.try_wait.parity.shared.b64 %w, [%b], 0;
 @!%w bra W;
 wgmma.fence.sync.aligned;
 wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {{%c0,%c1,%c2,%c3}}, %d, %d, 1, 1, 1, 0, 0;
 wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
 {before} mbarrier.arrive.shared.b64 _, [%b+8]; {behind}
 add.s32 %i, %i, 1; setp.lt.s32 %q, %i, %n;
 @%q bra L;
 st.global.v4.f32 [%a], {{%c0,%c1,%c2,%c3}};
 ret;
C:
V:
 mbarrier.try_wait.parity.shared.b64 %w, [%b+8], 0;
 @!%w bra V;
 {copies}
 cp.async.mbarrier.arrive.noinc.shared.b64 [%b];
 add.s32 %i, %i, 1; setp.lt.s32 %q, %i, %n;
 @%q bra C;
 ret;
}}
"""


@functools.cache
def image(text: str, target: str, **fields: object) -> bytes:
    ptxas = peers.require("ptxas")
    peers.require("nvdisasm")
    ptx = HEAD.format(target=target) + text
    done = subprocess.run(
        [str(ptxas), f"--gpu-name={target}", "-o", "/dev/stdout", "-"],
        input=ptx.encode(),
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def code(text: str, target: str, **fields: object) -> sass.Code:
    return hot_loop.disassemble(image(text.format(**fields), target))["k"]


def bases(instructions: list[sass.Instruction]) -> list[str]:
    return [i.base for i in instructions]


def test_the_hot_loop_of_a_pipelined_product() -> None:
    found = code(PIPELINED, "sm_80", left=2)
    loop = hot_loop.hottest(found)
    assert loop is not None
    inside = found.of_loop(loop)
    names = bases(inside)
    assert names.count("LDGSTS") == names.count("LDSM") == names.count("BAR") == 1
    assert names.count("HMMA") >= 2 and "STG" not in names and "STG" in bases(found.straight())
    assert {sass.flops(i) for i in inside if i.base == "HMMA"} == {2 * 16 * 8 * 16}
    assert [sass.wavefronts(i) for i in inside if i.base in ("LDGSTS", "LDSM")] == [4, 4]


@pytest.mark.parametrize("left, fed", [(2, True), (0, False)])
def test_fed_is_a_wait_that_leaves_a_group_under_way(left: int, fed: bool) -> None:
    warps = 4
    work = production.Product("bf16", 2 * 2 * 16 * 8 * 16 * warps, 128 * 16, 64, 16, 16)
    row = hot_loop.measure(image(PIPELINED.format(left=left), "sm_80"), work, 80)
    assert row["fed"] is fed
    assert row["in_flight"] == left * 16 * 128
    assert row["steps"] == pytest.approx(row["mma"] / 2)
    assert row["shared"] == 32768 and row["threads"] == 128 and row["blocks"] == 4
    assert row["bound"] == "latency" if not fed else row["bound"] in "TISL"


@pytest.mark.parametrize("before, behind, fed", [("", "", True), ("", "ACQ", True), ("ACQ", "", False)])
def test_copies_that_an_acquire_holds_up_do_not_feed(before: str, behind: str, fed: bool) -> None:
    """An agent whose copies begin behind what the other acquires in each step has none under way while that multiplies."""
    fence = {"ACQ": "fence.acq_rel.gpu;", "": ""}
    work = production.Product("bf16", 2 * 64 * 8 * 16, 128 * 16, 64, 8, 16)
    copies = " ".join(f"cp.async.cg.shared.global [%s+{16 * k}], [%a+{16 * k}], 16;" for k in range(16))
    text = AGENTS.format(before=fence[before], behind=fence[behind], copies=copies)
    row = hot_loop.measure(image(text, "sm_90a"), work, 90)
    assert row["roles"] and row["fed"] is fed


def test_loops_nest_and_traffic_is_told_by_width() -> None:
    found = code(NESTED, "sm_90")
    assert len(found.loops) == 2
    inner, outer = found.loops
    assert inner.blocks < outer.blocks
    assert "LDG" in bases(found.of_loop(inner)) and "STG" not in bases(found.of_loop(inner))
    assert hot_loop.hottest(found) == inner
    own = hot_loop._separate(found)[1]
    assert "STG" in bases(own) and "LDG" not in bases(own)
    assert [i.bits for i in found.of_loop(inner) if i.base == "LDG"] == [128]
    assert sass.loads_in_flight(found.of_loop(inner)) == 16


def test_a_streamed_element_counts_every_loop_once() -> None:
    """64 threads: the inner loop loads 4 elements a thread and pass, the outer stores 1."""
    found = code(NESTED, "sm_90")
    inner, outer = (len(i) for i in hot_loop._separate(found))
    row = hot_loop.measure(image(NESTED.format(), "sm_90"), production.Stream(1024, 4, 4), 90)
    expected = inner / 4 + outer / 1 + len(found.straight()) * 64 / 1024
    assert row["per_element"] == pytest.approx(expected, abs=0.01)


def test_waiting_loops_are_no_work() -> None:
    found = code(GROUPED, "sm_90a")
    loop = hot_loop.hottest(found)
    assert loop is not None and loop.work < loop.blocks
    inside = found.of_loop(loop)
    assert [sass.flops(i) for i in inside if i.base == "HGMMA"] == [2 * 64 * 8 * 16]
    assert sum("PHASECHK" in i.modifiers for i in inside) == 1
    assert "NANOSLEEP" not in bases(inside)


def test_a_wait_that_every_way_leads_through_stays() -> None:
    """A loop around a polling loop that was not moved out of line: its work is not lost with the wait."""
    lines = [
        ("", "HGMMA.64x128x16.F32.BF16", "R24, gdesc[UR4], R24"),
        ("", "SYNCS.PHASECHK.TRANS64", "P1, [R3+URZ], R2"),
        ("@!P1", "BRA", "`(.L_1)"),
        ("@P0", "BRA", "`(.L_0)"),
        ("", "EXIT", ""),
    ]
    found = sass.Code(
        "k", [sass.Instruction(16 * n, *line) for n, line in enumerate(lines)], {".L_0": 0, ".L_1": 1}
    )
    (loop,) = found.loops
    assert bases(found.of_loop(loop)) == ["HGMMA", "SYNCS", "BRA", "BRA"]


# The outer loop loads what the inner one only multiplies.
ROLLED = """.visible .entry k(.param .u64 p, .param .u32 n) .reqntid 64
{{
 .shared .align 16 .b8 s[8192]; .reg .b64 %a; .reg .b32 %n, %i, %j, %s; .reg .f32 %c, %v, %w; .reg .pred %q;
 ld.param.u64 %a, [p]; ld.param.u32 %n, [n]; mov.u32 %i, 0; mov.f32 %c, 0f00000000;
O:
 .pragma "nounroll";
 ld.global.f32 %v, [%a]; mov.u32 %s, s; st.shared.f32 [%s], %v; bar.sync 0; mov.u32 %j, 0;
I:
 .pragma "nounroll";
 ld.shared.v2.f32 {{%v, %w}}, [%s]; fma.rn.f32 %c, %v, %w, %c; add.s32 %s, %s, 8; add.s32 %j, %j, 1; setp.lt.s32 %q, %j, %n;
 @%q bra I;
 add.s64 %a, %a, 4; add.s32 %i, %i, 1; setp.lt.s32 %q, %i, %n;
 @%q bra O;
 st.global.f32 [%a], %c;
 ret;
}}
"""


def test_a_loop_that_only_multiplies_counts_with_the_one_that_loads() -> None:
    """A step of 16 multiply-adds a thread is 16 inner passes and one outer."""
    found = code(ROLLED, "sm_90")
    loop = hot_loop.hottest(found)
    assert loop is not None and bases(found.of_loop(loop)).count("FFMA") == 1
    row = hot_loop.measure(
        image(ROLLED.format(), "sm_90"), production.Product("f32", 2 * 16 * 64, 256, 8, 8, 16), 90
    )
    assert row["steps"] == 1 and row["lds"] == 16 and row["sts"] == row["bar"] == 1
    assert row["mma_kind"] == "FFMA" and row["fed"] is False


@pytest.mark.parametrize(("wait", "size"), [("SYNCS.PHASECHK.TRANS64", 3), ("NOP", 15)])
def test_a_loop_that_waits_for_stages_is_a_step_though_the_one_around_it_loads(wait: str, size: int) -> None:
    """Persistent attention: the rows of Q come between two loops over keys, which others copy."""
    lines = [
        ("", "LDG.E.128", "R4, [R2.64]"),
        ("", wait, "P1, [R3+URZ], R2"),
        ("", "HGMMA.64x128x16.F32.BF16", "R24, gdesc[UR4], R24"),
        ("@P0", "BRA", "`(.L_1)"),
        ("", "MOV", "R2, R3"),
        ("@P2", "BRA", "`(.L_0)"),
        ("", "EXIT", ""),
    ]
    instructions = [sass.Instruction(16 * n, *line) for n, line in enumerate(lines)]
    found = sass.Code("k", instructions, {".L_0": 0, ".L_1": 1})
    loop = hot_loop.hottest(found)
    assert loop is not None
    step = production.Product(
        "bf16", 4 * 2 * 64 * 128 * 16, 4096, 64, 128, 64
    )  # four products of the instruction
    assert len(_whole_step(found, loop, step, 32)) == size


def test_the_page_names_both_compilers_and_what_spills(tmp_path: Path) -> None:
    import quality_page

    name = quality_page.DETAIL
    rows = [
        row(kernel=name, hot=300, threads=256, shared=1024, spill=100, fed=True),
        row(kernel=name, who="nvidia", share=0.25),
    ]
    text = quality_page.page(rows)
    assert f"| {name} | 50 / 25 (2.00)* |" in text and f"{name} on sm_80 100 (NVIDIA 0)" in text
    assert "| sm_80, products and attention | 1 | 2.00 | 0 |" in text
    assert "ours: none." in text
    text = quality_page.page([row(kernel=name, target=t, own_flops=0.5, own_bytes=0.96) for t in (80, 90)])
    assert f"Flops by other instructions, more than 5 per cent of ours: {name} (sm_80 50, sm_90 50)." in text
    assert "Bytes by loads, more than 5 per cent of ours: none." in text
    assert quality_page.main([str(tmp_path / "absent.json")]) == 1


def test_what_lies_below_nvidias_keeps_the_cause_that_the_page_gives() -> None:
    import quality_page

    rows = [row(kernel="slow", share=0.4), row(kernel="slow", who="nvidia", share=0.5)]
    rows += [row(kernel="slower", share=0.3), row(kernel="slower", who="nvidia", share=0.5)]
    line = "| slow | sm_80 | 40 / 50 (0.80) | {} |"
    assert line.format("?") in quality_page.page(rows)
    known = quality_page.causes(f"text\n{line.format('no two stages fit')}\n")
    text = quality_page.page(rows, known)
    assert text.index("| slower | sm_80 | 30 / 50 (0.60) | ? |") < text.index(
        line.format("no two stages fit")
    )


def test_the_page_gives_a_cause_for_each_pair_below_nvidias_in_its_table() -> None:
    import quality_page

    text = quality_page.PAGE.read_text(encoding="utf-8")
    lower, seen = set(), 0
    heads = ["sm_80", "sm_90", "sm_100", "sm_120"]
    for line in text.splitlines():
        name, *cells = line.strip("| ").split(" | ")
        found = [re.search(r"\((\d+\.\d\d)\)\*?$", cell) for cell in cells]
        if len(cells) == len(heads) and any(found):
            seen += 1
            lower |= {
                (name, gpu) for gpu, quotient in zip(heads, found) if quotient and float(quotient[1]) < 1
            }
    assert seen > 100 and lower == set(quality_page.causes(text))


def test_spilled_bytes_are_those_that_ptxas_counts() -> None:
    """Sixty values live across a loop with 24 registers allowed."""
    loads = "".join(f" ld.volatile.global.f32 %v{n}, [%a+{4 * n}];\n" for n in range(60))
    adds = "".join(f" add.f32 %c, %c, %v{n};\n" for n in reversed(range(60)))
    text = f""".visible .entry k(.param .u64 p) .reqntid 32 .maxnreg 24
{{ .reg .b64 %a; .reg .f32 %c, %v<60>; ld.param.u64 %a, [p]; mov.f32 %c, 0f00000000;
{loads}{adds} st.volatile.global.f32 [%a], %c; ret; }}
"""
    ptxas = peers.require("ptxas")
    done = subprocess.run(
        [str(ptxas), "-v", "--gpu-name=sm_80", "-o", "/dev/null", "-"],
        input=HEAD.format(target="sm_80") + text, capture_output=True, text=True,
    )  # fmt: skip
    said = int(done.stderr.split(" bytes spill stores")[0].split()[-1])
    assert said > 0
    assert hot_loop.measure(image(text, "sm_80"), None, 80)["spill"] == said


@pytest.mark.parametrize("opcode, operands, expected", [
    ("HMMA.16816.F32.BF16", "R4, R8, R12, R4", 4096),
    ("HMMA.1688.F32.TF32", "R4, R8, R12, R4", 2048),
    ("IMMA.16832.S8.S8", "R4, R8.ROW, R12.COL, R4", 8192),
    ("DMMA.884", "R4, R8, R12, R4", 512),
    ("DMMA.16x8x16", "R4, R8, R12, R4", 4096),
    ("HGMMA.64x128x16.F32.BF16", "R24, gdesc[UR4], R24, gsb0", 2 * 64 * 128 * 16),
    ("QGMMA.64x256x32.F32.E4M3.E4M3", "R24, gdesc[UR4], R24", 2 * 64 * 256 * 32),
    ("UTCHMMA", "gdesc[UR4], gdesc[UR6], tmem[UR8], tmem[UR9], idesc[UR10]", 2 * 128 * 128 * 16),
    ("FFMA", "R4, R8, R12, R4", 64),
    ("IMAD", "R4, R8, R12, R4", 0),
])  # fmt: skip
def test_flops_of_an_instruction(opcode: str, operands: str, expected: int) -> None:
    assert sass.flops(sass.Instruction(0, "", opcode, operands)) == expected


LOOP = [("", "LDTM.x64", "R4, tmem[UR8]"), ("", "LDGSTS.E.BYPASS.128", "[R2], desc[UR4][R68.64]"),
        ("", "UTCHMMA", "gdesc[UR4], gdesc[UR6], tmem[UR8], tmem[UR9], idesc[UR10]"),
        ("", "UTCHMMA", "gdesc[UR4], gdesc[UR6], tmem[UR8], tmem[UR9], idesc[UR10]")]  # fmt: skip


@pytest.mark.parametrize("threads, warps", [(128, 4), (256, 8)])
def test_a_loop_that_multiplies_and_reads_its_sums_is_run_by_all_warps(threads: int, warps: int) -> None:
    lines = [*LOOP, ("@P0", "BRA", "`(.L_0)"), ("", "EXIT", "")]
    found = sass.Code("k", [sass.Instruction(16 * n, *line) for n, line in enumerate(lines)], {".L_0": 0})
    row = tensor_row(
        found, production.Product("bf16", 2 * 128 * 128 * 32, 32768, 128, 128, 32), threads, 1, 0, 100
    )
    assert row["issued"] == 5 * warps and not row["roles"]


@pytest.mark.parametrize(
    ("waits", "fed"),
    [("SB0, 0x1", True), ("SB0, 0x1, {2}", True), ("SB0, 0x0, {4,3}", False), ("{5}", False)],
)
def test_a_wait_that_leaves_copies_under_way_may_be_for_other_scoreboards_as_well(
    waits: str, fed: bool
) -> None:
    lines = [
        ("", "LDGSTS.E.BYPASS.128", "[R2], desc[UR4][R68.64]"),
        ("", "LDGDEPBAR", ""),
        ("", "DEPBAR.LE", waits),
        ("", "HMMA.16816.F32", "R4, R8, R12, R4"),
        ("@P0", "BRA", "`(.L_0)"),
        ("", "EXIT", ""),
    ]
    code = sass.Code("k", [sass.Instruction(16 * n, *line) for n, line in enumerate(lines)], {".L_0": 0})
    row = tensor_row(code, production.Product("f16", 8 * 4096, 4096, 64, 64, 64), 256, 1, 65536, 80)
    assert row["fed"] is fed and (row["in_flight"] > 0) is fed


def agents(*multiply: int) -> sass.Code:
    """Loops of so many mma.sync each, one behind the other, and one of bulk copies behind them."""
    lines, labels = [], {}
    for number, count in enumerate((*multiply, 0)):
        labels[f".L_{number}"] = len(lines)
        lines += [("", "HMMA.16816.F32", "R4, R8, R12, R4")] * count
        lines += [] if count else [("", "UTMALDG.2D", "[UR4], [UR8]")]
        lines += [("", "BAR.SYNC.DEFER_BLOCKING", "0x0"), ("@P0", "BRA", f"`(.L_{number})")]
    lines.append(("", "EXIT", ""))
    return sass.Code("k", [sass.Instruction(16 * n, *line) for n, line in enumerate(lines)], labels)


@pytest.mark.parametrize(
    ("multiply", "flops", "counted", "warps"),
    [
        ((3, 2), 5 * 4, (3, 2), 4),  # eight warps of the first would make 1.2 steps: four run each
        (
            (3, 1),
            3 * 8,
            (3,),
            8,
        ),  # a whole step: the other loop is another version, or another loop of the same warps
        ((3, 2), 3 * 7, (3,), 8),  # no whole step together either
    ],
)
def test_loops_of_different_warps_that_make_a_step_together_count_together(
    multiply: tuple[int, ...], flops: int, counted: tuple[int, ...], warps: int
) -> None:
    work = production.Product("f16", flops * 4096, 4096, 64, 64, 64)
    row = tensor_row(agents(*multiply), work, 384, 1, 65536, 120)
    assert row["roles"] and row["warps"] == warps and row["mma"] == sum(counted)
    assert row["issued"] == sum(count + 2 for count in counted) * warps and row["bar"] == len(counted)


def fed_by_an_agent(multiply: list[tuple[str, str, str]], copy: list[tuple[str, str, str]]) -> bool:
    """Whether a loop that multiplies behind mbarriers is fed by another loop, which issues bulk copies."""
    copy = [*copy, *[("", "UIADD3", "UR6, UR6, 0x8, URZ")] * 16]  # shorter ones only wait
    lines = [*multiply, ("@P1", "BRA", "`(.L_0)"), *copy, ("@P1", "BRA", "`(.L_1)"), ("", "EXIT", "")]
    labels = {".L_0": 0, ".L_1": len(multiply) + 1}
    code = sass.Code("k", [sass.Instruction(16 * n, *line) for n, line in enumerate(lines)], labels)
    work = production.Product("bf16", 2 * 64 * 256 * 16, 10240, 64, 256, 16)
    return bool(tensor_row(code, work, 256, 1, 65536, 90)["fed"])


def test_copies_feed_unless_they_wait_for_another_loop_that_acquires() -> None:
    """What a warp that copies acquires from the cluster, before it announces its own bytes, hands nothing to itself."""
    wait, product = (
        ("", "SYNCS.PHASECHK.TRANS64.TRYWAIT", "P0, [UR20], R8"),
        ("", "HGMMA.64x256x16.F32.BF16", "R24, gdesc[UR4], R24"),
    )
    acquire = ("@P0", "CCTL.IVALL", "")
    bytes, copy = (
        ("", "SYNCS.ARRIVE.TRANS64", "RZ, [UR9], R0"),
        ("", "UTMALDG.2D.MULTICAST", "[UR12], [UR22], UR29"),
    )
    assert fed_by_an_agent([wait, product], [wait, acquire, bytes, copy])
    handed = [wait, product, acquire, ("", "SYNCS.ARRIVE.TRANS64.RED.A1T0", "RZ, [R5+URZ+0x30], RZ")]
    asked = ("", "SYNCS.PHASECHK.TRANS64.TRYWAIT", "P0, [UR6+0x30], R0")
    assert not fed_by_an_agent(handed, [asked, bytes, copy])
    assert fed_by_an_agent(handed, [wait, bytes, copy])


def test_f64_reaches_its_peak_by_mma_sync() -> None:
    """Neither wgmma nor tcgen05 has f64: the share of their peak that other types reach by mma.sync says nothing of it."""
    lines = [("", "DMMA.16x8x16", "R4, R8, R12, R4"), ("@P0", "BRA", "`(.L_0)"), ("", "EXIT", "")]
    found = sass.Code("k", [sass.Instruction(16 * n, *line) for n, line in enumerate(lines)], {".L_0": 0})
    for gpu in (80, 90, 100):
        row = tensor_row(found, production.Product("f64", 4 * 4096, 0, 16, 8, 64), 128, 1, 0, gpu)
        assert row["terms"]["T"] == row["terms"]["P"] > 0


def carried(gpu: int, *lines: tuple[str, str], element: str = "f16") -> tuple[float, float]:
    """(share of flops in the target's own tensor instructions, share of bytes by asynchronous copies) of a loop."""
    body = [("", *line) for line in lines] + [("@P0", "BRA", "`(.L_0)"), ("", "EXIT", "")]
    code = sass.Code("k", [sass.Instruction(16 * n, *line) for n, line in enumerate(body)], {".L_0": 0})
    row = tensor_row(code, production.Product(element, 16384, 4096, 64, 8, 16), 128, 1, 32768, gpu)
    return row["own_flops"], row["own_bytes"]


def test_what_the_targets_own_instructions_carry() -> None:
    warp, group = ("HMMA.16816.F32", "R4, R8, R12, R4"), ("HGMMA.64x8x16.F32", "R24, gdesc[UR4], R24")
    copy, load = ("LDGSTS.E.BYPASS.128", "[R2], [R4.64]"), ("LDG.E", "R6, [R4.64]")
    assert carried(80, warp, copy) == carried(120, warp, copy) == (1, 1)
    assert carried(90, group, copy, load) == (1, 0.8)
    assert carried(90, warp, copy) == (0, 1)  # sm_90's own are those of a warpgroup
    assert carried(90, warp, warp, group, ("UTMALDG.2D", "[UR4], [UR8]")) == (0.333, 1)
    assert carried(90, warp, ("UTMALDG.2D", "[UR4], [UR8]"), load) == (0, 0.875)  # 512 of 4,096 bytes
    assert carried(90, ("DMMA.16x8x16", "R4, R8, R12, R4"), element="f64")[0] == 1
    assert carried(90, group) == (1, 0)


@pytest.mark.parametrize("gpu", [90, 100])
def test_products_of_copies_of_few_rows_are_no_more_steps(gpu: int) -> None:
    """Attention of 16 rows by 64 keys with heads of 128: scores as 64 rows, sums of 128 rows by 16."""
    if gpu == 90:
        products = 8 * [("HGMMA.64x64x16.F32", "R24, gdesc[UR4], R24")]
        products += 8 * [("HGMMA.64x16x16.F32", "R24, gdesc[UR4], R24")]
    else:
        products = 12 * [("UTCHMMA", "gdesc[UR4], gdesc[UR6], tmem[UR8], tmem[UR10], idesc[UR11], UP0")]
    body = [("", *line) for line in products] + [("@P0", "BRA", "`(.L_0)"), ("", "EXIT", "")]
    code = sass.Code("k", [sass.Instruction(16 * n, *line) for n, line in enumerate(body)], {".L_0": 0})
    row = tensor_row(code, production.Product("f16", 4 * 16 * 64 * 128, 32768, 16, 64, 128), 128, 1, 0, gpu)
    assert row["steps"] == 1
    assert row["terms"]["T"] == pytest.approx(2.5 * row["terms"]["P"])


# ---- the model, against terms worked out by hand for bf16 128x128x64: 2 MFlop and 32 KB a step
def one_step(
    fed: bool, issued: float, tensor: float, fronts: float, barriers: int, which: str = "mma"
) -> model.Pass:
    flops = 2.0 * 128 * 128 * 64
    return model.Pass("bf16", {which: flops}, {which: "f16"}, issued, tensor, fronts, 32768, barriers, fed)


def test_a_loop_that_is_not_fed_pays_for_everything_in_turn() -> None:
    found = model.terms(model.GPUS[80], one_step(False, 8 * 344, 8 * 64, 1024, 4), 1)
    assert (found.P, found.T, found.L, found.S, found.other_I) == (1024, 1024, 512, 1024, 560)
    assert found.share == pytest.approx(1024 / (model.LATENCY + 120 + 512 + 1024 + 1024))


def test_two_resident_blocks_share_latency_and_barriers() -> None:
    found = model.terms(model.GPUS[80], one_step(False, 8 * 344, 8 * 64, 1024, 4), 2)
    assert found.share == pytest.approx(2048 / (model.LATENCY + 120 + 2 * (512 + 1024 + 1024)))


@pytest.mark.parametrize("gpu, which, share", [
    (80, "mma", 0.9),  # tensor-bound
    (90, "mma", 0.9 * 0.63),  # mma.sync cannot reach the peak
    (90, "group", 0.9),
    (100, "group", 0.9 * 256 / 512),  # 32 KB from L2 take longer than the product
])  # fmt: skip
def test_a_fed_loop_pays_for_its_largest_term(gpu: int, which: str, share: float) -> None:
    found = model.terms(model.GPUS[gpu], one_step(True, 4 * 70, 4 * 8, 0, 0, which), 1)
    assert found.share == pytest.approx(share)


@pytest.mark.parametrize("gpu, registers, shared, threads, expected", [
    (80, 174, 16384, 256, (1, 9, 8)),
    (80, 128, 16384, 256, (2, 9, 8)),
    (90, 168, 197784, 384, (1, 1, 5)),
    (120, 64, 48 * 1024, 128, (8, 2, 12)),
])  # fmt: skip
def test_residency(
    gpu: int, registers: int, shared: int, threads: int, expected: tuple[int, int, int]
) -> None:
    found = model.residency(model.GPUS[gpu], registers, shared, threads)
    assert (found.by_registers, found.by_shared, found.by_threads) == expected
    assert found.blocks == min(expected)


def test_copies_beside_the_hot_loop_count_unless_a_thread_asks_for_bulk_copies() -> None:
    threads = [
        Instruction(16 * n, "", word, "") for n, word in enumerate(("LDGSTS.E.BYPASS.128", "IADD3", "BRA"))
    ]
    assert _copied_beside([threads], 4, 2 * 16 * 32 * 4)[0] == 2 * len(threads) * 4, (
        "two passes of four warps"
    )
    bulk = [Instruction(0, "", "UTMALDG.2D", ""), threads[2]]
    assert _copied_beside([threads, bulk], 4, 2 * 16 * 32 * 4) == (0, 0)


# ---- comparison and the command
def row(**fields: object) -> dict[str, object]:
    base = {"kernel": "k", "target": 80, "kind": "tensor", "who": "ours", "issued": 100, "unit": 1, "bar": 2,
            "spill": 0, "blocks": 2, "share": 0.5}  # fmt: skip
    return base | fields


@pytest.mark.parametrize("change, said", [
    ({}, ""),
    ({"issued": 101}, ""),
    ({"issued": 110}, "instructions issued 100 -> 110"),
    ({"issued": 110, "bar": 4, "unit": 2}, ""),  # twice the work a pass
    ({"bar": 3}, "barriers 2 -> 3"),
    ({"spill": 8}, "spilled bytes 0 -> 8"),
    ({"blocks": 1}, "resident blocks 2 -> 1"),
    ({"share": 0.4}, "modelled share 0.5 -> 0.4"),
])  # fmt: skip
def test_what_got_worse(change: dict[str, object], said: str) -> None:
    assert "; ".join(code_quality.worse(row(**change), row())) == said


def test_compare_fails_on_worse_and_on_kernels_that_no_longer_compile(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert code_quality.compare([row()], [row()]) == 0
    assert code_quality.compare([row(spill=4)], [row()]) == 1
    lost = {"kernel": "k", "target": 80, "kind": "tensor", "who": "ours", "problem": "refused"}
    assert code_quality.compare([lost], [row()]) == 1
    assert "no longer compiles: refused" in capsys.readouterr().out


def test_compare_says_what_a_worse_kernel_gained(capsys: pytest.CaptureFixture[str]) -> None:
    assert code_quality.compare([row(blocks=1, share=0.9)], [row()]) == 1
    said = capsys.readouterr().out
    assert "resident blocks 2 -> 1   for modelled share 0.5 -> 0.9" in said
    assert "1 worse (1 faster all the same)" in said
    streams = [{**row(blocks=b, per_element=p), "share": 0} for b, p in ((1, 5.0), (2, 5.05))]
    assert code_quality.compare(streams[:1], streams[1:]) == 1
    assert "1 worse (0 faster all the same)" in capsys.readouterr().out


def test_one_call_measures_and_compares(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    peers.require("nvdisasm")
    pytest.importorskip("cuda.tile")
    monkeypatch.setenv("TILEIRAS_QUALITY_CACHE", str(tmp_path / "cache"))
    base = tmp_path / "base.json"
    words = ["--target", "80", "--ours-only", "-k", "mm_bf16_64x64x64_nn", "vadd"]
    assert code_quality.main([*words, "--json", str(base)]) == 0
    rows = {r["kernel"]: r for r in json.loads(base.read_text())["rows"]}
    assert rows["mm_bf16_64x64x64_nn"]["mma_kind"] == "HMMA" and rows["mm_bf16_64x64x64_nn"]["steps"] == 1
    assert rows["vadd_f32"]["per_element"] > 0
    assert code_quality.main([*words, "--compare", str(base)]) == 0
    assert code_quality.main([*words, "--compare", str(tmp_path / "absent.json")]) == 1
    assert code_quality.main(["-k", "no such kernel"]) == 1


def test_every_production_kernel_has_its_own_name() -> None:
    for which in ("standard", "full", "unproven"):
        names = [k.name for k in production.kernels(which)]
        assert len(names) == len(set(names))


def test_launches_that_are_described_fit_the_kernels() -> None:
    """What a GPU is to time: as many parameters as the entry has, arrays that a GPU holds; what has no description says so."""
    described = 0
    for kernel in production.kernels():
        spec = launches.launch_of(kernel)
        if spec is None:
            continue
        described += 1
        arrays, numbers = (
            [p for p in kernel.signature if isinstance(p, kind)]
            for kind in (production.Array, production.Scalar)
        )
        if kernel.signature:
            assert len(spec["parameters"]) == sum(1 + 2 * a.ndim for a in arrays) + len(numbers), kernel.name
        assert all(0 < array["elements"] < 1 << 31 for array in spec["arrays"]), kernel.name
    assert described > 40
