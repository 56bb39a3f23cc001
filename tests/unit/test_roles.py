"""Warps that only copy (TileASAssignRoles): right under any order, whatever lies around the loops they feed."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

import numpy as np

import tileiras
from tests import peers
from tests.corpus import check as corpus
from tests.corpus.export import bytecode_path
from tests.corpus.registry import CASES
from tileiras.compiler.schedule.needed_registers import registers

LAUNCHER: dict[str, Any] = {
    "launch_abi": "simt",
    "emit": "ptx",
    "tensor_maps": "launcher",
    "gpu_name": "sm_90",
}
# one loop, several blocks, persistent, batches, split K, attention in all forms, its backward pass, block scales
TAKEN = (
    "staged_bf16_nn_128", "staged_bf16_nn", "staged_bf16_one_step", "staged_f16_nt", "staged_f16_tn", "staged_f16_wide",
    "staged_e4m3_nt", "staged_e5m2_nt", "staged_batched_wide", "staged_persistent", "staged_persistent_128",
    "staged_split_k", "staged_scaled_sums_e4m3", "staged_scaled_sums_f16", "staged_attention_causal_bf16",
    "staged_attention_d256_bf16", "staged_attention_f16", "staged_attention_of_batches",
    "staged_attention_wide_bf16", "staged_flash_bwd_f16_64", "staged_flash_gqa_128",
    "staged_flash_window_64", "staged_attention_full_f16", "staged_attention_full_causal_bf16",
)  # fmt: skip
QUICK = ("staged_bf16_nn_128", "staged_persistent", "staged_attention_causal_bf16", "staged_flash_bwd_f16_64")


TARGETS = ("sm_90", "sm_100")


def compiled(source: Any, **more: Any) -> tileiras.Program:
    return tileiras.compile(source, **{**LAUNCHER, **more})


def has_roles(ptx: str) -> bool:
    return "bar.sync \t1," in ptx.replace("bar.sync 1,", "bar.sync \t1,")


def run_case(
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    gpu_name: str = "sm_90",
    disable: tuple[str, ...] = (),
    **how: Any,
) -> None:
    launch = tileiras.launch

    def watched(source: Any, *args: Any, **options: Any) -> None:
        program = compiled(source, lineinfo=True, gpu_name=gpu_name, disable=disable)
        assert has_roles(program.ptx) == (not disable)
        launch(program, *args, **{**options, **how})

    monkeypatch.setattr(tileiras, "launch", watched)
    outcome = corpus.launch_case(CASES[name], "emulator", gpu_name, 300)
    assert outcome.word == corpus.PASS, outcome.reason


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", TAKEN)
def test_kernels_of_the_corpus_are_right(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run_case(name, monkeypatch)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", QUICK)
def test_no_access_races(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run_case(name, monkeypatch, check=True, seed=3)


@pytest.mark.full
@pytest.mark.parametrize("name", TAKEN)
def test_no_order_races(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(20):
        with monkeypatch.context() as patch:
            run_case(name, patch, check=True, seed=seed)


def test_disabled_and_low_levels_have_none() -> None:
    source = bytecode_path(CASES["staged_bf16_nn_128"])
    for gpu_name in TARGETS:
        for more in (
            {"disable": ("roles",)},
            {"opt_level": 1},
            {"tensor_maps": "none", "disable": ("arrivals",)},
        ):
            ptx = compiled(source, gpu_name=gpu_name, **more).ptx
            assert not has_roles(ptx) and "setmaxnreg" not in ptx and ".reqntid 384" not in ptx


# sums in tensor memory, which one warp adds up: one loop, several blocks, persistent, batches, split K, integers, bytes
SUMMED = (
    "staged_bf16_nn_128", "staged_bf16_one_step", "staged_f16_nt", "staged_f16_wide", "staged_e4m3_nt", "staged_i8_nn",
    "staged_persistent", "staged_persistent_128", "staged_batched_wide", "staged_split_k",
)  # fmt: skip


@pytest.mark.parametrize("name", ("staged_bf16_one_step", "staged_e4m3_nt", "staged_persistent"))
def test_sums_in_tensor_memory_are_right_and_no_access_races(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_case(name, monkeypatch, "sm_100", check=True, seed=4)


@pytest.mark.full
@pytest.mark.parametrize("disable", [(), ("roles",)])
@pytest.mark.parametrize("name", SUMMED)
def test_no_order_of_sums_races(name: str, disable: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(20):
        with monkeypatch.context() as patch:
            run_case(name, patch, "sm_100", disable, check=True, seed=seed)


@pytest.mark.parametrize("disable", [(), ("roles",)])
def test_loops_of_tensor_memory_have_no_barrier(disable: tuple[str, ...]) -> None:
    ptx = compiled(bytecode_path(CASES["staged_persistent"]), gpu_name="sm_100", disable=disable).ptx
    loop = ptx[ptx.index("tcgen05.mma") : ptx.rindex("tcgen05.commit")]
    assert "bar.sync" not in loop and ptx.count("tcgen05.commit") == 2
    assert (".reqntid 192" in ptx) == (not disable) and "tcgen05.alloc" in ptx


def test_sums_have_two_buffers_where_loops_follow_each_other() -> None:
    def columns(name: str, **more: Any) -> int:
        ptx = compiled(bytecode_path(CASES[name]), gpu_name="sm_100", **more).ptx
        (register,) = re.findall(r"tcgen05\.alloc\S* \[\S+\], (%r\d+);", ptx)
        return int(re.search(rf"mov\.b32 {register}, (\d+);", ptx)[1])  # type: ignore[index]

    assert columns("staged_persistent") == 2 * columns("staged_persistent", disable=("roles",))
    assert columns("staged_bf16_nn_128") == columns("staged_bf16_nn_128", disable=("roles",))


# ---- ptxas keeps setmaxnreg


def assembled(ptx: str, folder: Path) -> str:
    ptxas = peers.require("ptxas")
    source = folder / "k.ptx"
    source.write_text(ptx)
    made = subprocess.run(
        [str(ptxas), "-arch=sm_90a", "-v", "-o", str(folder / "k.cubin"), str(source)],
        capture_output=True,
        text=True,
    )
    assert made.returncode == 0, made.stderr
    return made.stdout + made.stderr


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", TAKEN)
def test_ptxas_keeps_what_warps_give_and_take(name: str, tmp_path: Path) -> None:
    ptx = compiled(bytecode_path(CASES[name])).ptx
    said = assembled(ptx, tmp_path)
    assert "setmaxnreg" not in said and "C7508" not in said, said
    if "setmaxnreg" not in ptx:
        return
    start = int(re.search(r"\.maxnreg (\d+)", ptx)[1])  # type: ignore[index]
    threads = int(re.search(r"\.reqntid (\d+)", ptx)[1])  # type: ignore[index]
    inc, dec = (int(re.search(rf"setmaxnreg\.{w}\S* (\d+)", ptx)[1]) for w in ("inc", "dec"))  # type: ignore[index]
    assert (threads - 128) * inc + 128 * dec <= threads * start <= 65536


@pytest.mark.parametrize("maps", ["none", "launcher"])
def test_scores_in_halves_of_the_rows_do_not_spill(maps: str, tmp_path: Path) -> None:
    """256x128 with 128 columns: together, scores and sums are all registers of a thread, and ptxas serialises the products."""
    ptx = compiled(bytecode_path(CASES["staged_attention_full_f16"]), tensor_maps=maps).ptx
    said = assembled(ptx, tmp_path)
    assert "C7512" not in said
    assert int(re.findall(r"(\d+) bytes spill stores", said)[0]) <= 64


def test_ptxas_says_so_where_it_drops_them(tmp_path: Path) -> None:
    """The twin of the test above: without the entry's bounds the note is there."""
    ptx = compiled(bytecode_path(CASES["staged_bf16_nn_128"])).ptx
    assert "C7508" in assembled(re.sub(r"\.(reqntid|maxnreg) [\d, ]+\n", "", ptx), tmp_path)


# ---- what may lie around the loop

MATRIX = "tensor_view<?x?xf16, strides=[?,1]>"
TILES = "tensor_view<?x64x64xf32, strides=[4096,64,1]>"
TA = f"partition_view<tile=(64x32), padding_value = zero, {MATRIX}>"
TB = f"partition_view<tile=(32x64), padding_value = zero, {MATRIX}>"
TO = f"partition_view<tile=(1x64x64), {TILES}>"
VIEWS = f"""
    %pa = assume div_by<16>, %p : tile<ptr<f16>>
    %qa = assume div_by<16>, %q : tile<ptr<f16>>
    %s = assume div_by<8>, %pitch : tile<i32>
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %two = constant <i32: 2> : tile<i32>
    %c = constant <f32: 0.0> : tile<64x64xf32>
    %va = make_tensor_view %pa, shape = [%rows, %depth], strides = [%s, 1] : tile<i32> -> {MATRIX}
    %vb = make_tensor_view %qa, shape = [%depth, %columns], strides = [%s, 1] : tile<i32> -> {MATRIX}
    %vo = make_tensor_view %o, shape = [%tiles, 64, 64], strides = [4096, 64, 1] : tile<i32> -> {TILES}
    %ta = make_partition_view %va : {TA}
    %tb = make_partition_view %vb : {TB}
    %to = make_partition_view %vo : {TO}
"""  # fmt: skip


def sum_over(name: str, lower: str, upper: str, row: str, column: str = "%zero") -> str:
    """`name`: the product of a block of rows and one of columns, steps from `lower` to `upper`."""
    return f"""
    %{name} = for %i{name} in (%{lower} to %{upper}, step %one) : tile<i32> iter_values(%acc = %c) -> (tile<64x64xf32>) {{
      %x, %u = load_view_tko weak %ta[{row}, %i{name}] token = %t : {TA}, tile<i32> -> tile<64x32xf16>, token
      %y, %w = load_view_tko weak %tb[%i{name}, {column}] token = %t : {TB}, tile<i32> -> tile<32x64xf16>, token
      %e = mmaf %x, %y, %acc : tile<64x32xf16>, tile<32x64xf16>, tile<64x64xf32>
      continue %e : tile<64x64xf32>
    }}
    """  # fmt: skip


def store(value: str, place: str, token: str = "z") -> str:
    return f"""
    %b{token} = reshape {value} : tile<64x64xf32> -> tile<1x64x64xf32>
    %{token} = store_view_tko weak %b{token}, %to[{place}, %zero, %zero] token = %t : tile<1x64x64xf32>, {TO}, tile<i32> -> token
    """  # fmt: skip


def kernel(body: str) -> str:
    return f"""
cuda_tile.module @m {{
  entry @k(%p: tile<ptr<f16>>, %q: tile<ptr<f16>>, %o: tile<ptr<f32>>, %rows: tile<i32>, %depth: tile<i32>,
           %columns: tile<i32>, %pitch: tile<i32>, %tiles: tile<i32>, %n: tile<i32>, %m: tile<i32>) {{
    {VIEWS}{body}
    return
  }}
}}
"""


def run(text: str, n: int, m: int = 0, tiles: int = 1, extents: tuple[int, int, int] = (64, 352, 64),
        seeds: Any = (None, 1), roles: bool = True, gpu_name: str = "sm_90") -> Any:  # fmt: skip
    """What a kernel makes of arrays with rows of 352 elements: `tiles` blocks of 64 x 64, filled with 7 before."""
    program = compiled(text, gpu_name=gpu_name)
    assert has_roles(program.ptx) == roles
    rows, depth, columns = extents
    rng = np.random.default_rng(5)
    a, b = (rng.integers(-4, 5, s).astype(np.float16) for s in ((rows, 352), (depth, 352)))
    made = None
    for seed in seeds:
        out = np.full((tiles, 64, 64), 7, np.float32)
        how = {} if seed is None else {"seed": seed, "check": True}
        args = [a, b, out, *map(np.int32, (rows, depth, columns, 352, tiles, n, m))]
        tileiras.launch(program, "k", 1, args, target="emulator", gpu_name=gpu_name, **how)
        assert made is None or (made == out).all()
        made = out
    padded = np.zeros((rows + 64, 352 * 2), np.float32), np.zeros((352 * 2, columns + 64), np.float32)
    padded[0][:rows, :depth] = a[:, :depth]
    padded[1][:depth, :columns] = b[:, :columns]
    return made, *padded


def product(a: Any, b: Any, start: int, end: int, row: int = 0) -> Any:
    return a[64 * row : 64 * row + 64, 32 * start : 32 * end] @ b[32 * start : 32 * end, :64]


@pytest.mark.sampled(8)
@pytest.mark.parametrize("extents", [(64, 352, 64), (50, 345, 61)])
@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 5, 6, 7, 11])
@pytest.mark.parametrize("gpu_name", TARGETS)
def test_loops_of_any_length(n: int, extents: tuple[int, int, int], gpu_name: str) -> None:
    """Six stages, of which four are filled ahead."""
    text = kernel(sum_over("d", "zero", "n", "%zero") + store("%d", "%zero"))
    out, a, b = run(text, n, extents=extents, gpu_name=gpu_name)
    assert (out[0] == product(a, b, 0, n)).all()


@pytest.mark.sampled(4)
@pytest.mark.parametrize("n, m", [(0, 3), (1, 4), (2, 5), (5, 3), (6, 2), (7, 3), (11, 2), (3, 0)])
@pytest.mark.parametrize("gpu_name", TARGETS)
def test_nests_carry_on_with_the_next_stage(n: int, m: int, gpu_name: str) -> None:
    """Each pass has one more step than the one before it would leave even."""
    body = f"""
    for %j in (%zero to %m, step %one) : tile<i32> {{
      %more = addi %n, %j : tile<i32>
      {sum_over("d", "zero", "more", "%j")} {store("%d", "%j")}
      continue
    }}"""
    out, a, b = run(kernel(body), n, m, tiles=max(1, m), extents=(60 * max(1, m), 352, 64), gpu_name=gpu_name)
    for j in range(m):
        assert (out[j] == product(a, b, 0, n + j, j)).all()
    assert m or (out == 7).all()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("n, m", [(2, 3), (7, 4)])
@pytest.mark.parametrize("gpu_name", TARGETS)
def test_nests_of_three(n: int, m: int, gpu_name: str) -> None:
    body = f"""
    for %j in (%zero to %m, step %one) : tile<i32> {{
      for %k in (%zero to %two, step %one) : tile<i32> {{
        {sum_over("d", "k", "n", "%j")}
        %h = muli %j, %two : tile<i32>
        %at = addi %h, %k : tile<i32>
        {store("%d", "%at")}
        continue
      }}
      continue
    }}"""
    out, a, b = run(kernel(body), n, m, tiles=2 * m, extents=(64 * m, 352, 64), gpu_name=gpu_name)
    for j in range(m):
        for k in range(2):
            assert (out[2 * j + k] == product(a, b, k, n, j)).all()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("n, m", [(5, 0), (5, 1), (7, 3)])
@pytest.mark.parametrize("gpu_name", TARGETS)
def test_early_exits(n: int, m: int, gpu_name: str) -> None:
    body = f"""
    %none = cmpi less_than %m, %one, signed : tile<i32> -> tile<i1>
    if %none {{
      return
    }}
    {sum_over("d", "zero", "n", "%zero")} {store("%d", "%zero")}
    %last = cmpi less_than %m, %two, signed : tile<i32> -> tile<i1>
    if %last {{
      return
    }}
    {store("%d", "%one", "y")}"""
    out, a, b = run(kernel(body), n, m, tiles=2, gpu_name=gpu_name)
    want = product(a, b, 0, n)
    for at in range(2):
        assert (out[at] == (want if at < m else 7)).all()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("n, m", [(0, 2), (3, 1), (7, 2)])
@pytest.mark.parametrize("gpu_name", TARGETS)
def test_loops_that_end_by_a_break(n: int, m: int, gpu_name: str) -> None:
    body = f"""
    loop iter_values(%j = %zero) : tile<i32> {{
      %over = cmpi greater_than_or_equal %j, %m, signed : tile<i32> -> tile<i1>
      if %over {{
        break
      }}
      {sum_over("d", "zero", "n", "%j")} {store("%d", "%j")}
      %following = addi %j, %one : tile<i32>
      continue %following : tile<i32>
    }}"""
    out, a, b = run(kernel(body), n, m, tiles=m, extents=(64 * m, 352, 64), gpu_name=gpu_name)
    for j in range(m):
        assert (out[j] == product(a, b, 0, n, j)).all()


@pytest.mark.parametrize("n, m", [(5, 0), (5, 3)])
@pytest.mark.parametrize("gpu_name", TARGETS)
def test_branches(n: int, m: int, gpu_name: str) -> None:
    body = f"""
    %some = cmpi greater_than %m, %zero, signed : tile<i32> -> tile<i1>
    %g = if %some -> (tile<64x64xf32>) {{
      {sum_over("d", "zero", "n", "%zero")}
      yield %d : tile<64x64xf32>
    }} else {{
      yield %c : tile<64x64xf32>
    }}
    {store("%g", "%zero")}"""
    out, a, b = run(kernel(body), n, m, gpu_name=gpu_name)
    assert (out[0] == (product(a, b, 0, n) if m else 0)).all()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("n, m", [(5, 3), (1, 1), (0, 4), (4, 0), (7, 11), (11, 7)])
def test_two_loops_of_one_form_share_a_ring(n: int, m: int) -> None:
    body = sum_over("d", "zero", "n", "%zero") + store("%d", "%zero")
    body += sum_over("g", "one", "m", "%zero") + store("%g", "%one", "y")
    out, a, b = run(kernel(body), n, m, tiles=2)
    assert (out[0] == product(a, b, 0, n)).all() and (out[1] == product(a, b, 1, max(1, m))).all()


# ---- what roles cannot take


def reasons(text: str) -> list[str]:
    program = compiled(text, remarks={"missed": "memory"})
    assert not has_roles(program.ptx)
    return [d.message.partition(": ")[2] for d in program.diagnostics if d.diag.code == "AS-0315"]


def test_what_is_in_the_way_is_named() -> None:
    ticket = "%j, %tk = atomic_rmw_tko relaxed device %count, add, %one : tile<ptr<i32>>, tile<i32> -> tile<i32>, token"
    text = kernel(ticket + sum_over("d", "zero", "n", "%j") + store("%d", "%zero"))
    text = text.replace("%tiles: tile<i32>,", "%tiles: tile<i32>, %count: tile<ptr<i32>>,")
    assert reasons(text) == ["nv_tileas.atomic_rmw_tko: a copy needs the result of an op with effects"]
    wide = sum_over("g", "one", "m", "%zero").replace("%ta", "%tc").replace("%tb", "%te")
    wide = wide.replace("64x32", "64x64").replace("32x64", "64x64")
    views = "%tc = make_partition_view %va : " + TA.replace("64x32", "64x64") + "\n"
    views += "%te = make_partition_view %vb : " + TB.replace("32x64", "64x64") + "\n"
    twice = sum_over("d", "zero", "n", "%zero") + store("%d", "%zero") + views + wide
    (said,) = reasons(kernel(twice + store("%g", "%one", "y")))
    assert said == "nv_tileas.alloc_shared: its bytes are those of a ring that is filled ahead"
    program = compiled(bytecode_path(CASES["staged_keys_of_groups_128x64_d64"]), remarks={"missed": "memory"})
    said = [d.message for d in program.diagnostics if d.diag.code == "AS-0315"]
    assert len(said) == 1 and said[0].endswith("fewer blocks would fit an SM")
    assert not has_roles(program.ptx)
    assert (
        registers(8, (255, 96), 150 << 10, None, 24, 2048)
        == "its registers do not suffice for warps that only copy as well"
    )


def test_warps_that_copy_by_threads_cost_no_block() -> None:
    """Four blocks of four warps fit an SM: with four warps more, two. One thread's bulk copies are worth that."""
    assert registers(4, (112, 64), 49280, None, 56, 2048) == "fewer blocks would fit an SM"
    assert registers(4, (112, 64), 49280, None, 24, 2048) == (80, 136, 24)
    source = (Path(__file__).parents[2] / "examples/cmake/kernels/matmul.tileir").read_text()
    program = tileiras.compile(source, gpu_name="sm_90", emit="ptx", remarks={"missed": "memory"})
    assert not has_roles(program.ptx) and "cp.async.mbarrier.arrive" in program.ptx
    assert [d.message.partition(": ")[2] for d in program.diagnostics if d.diag.code == "AS-0315"] == [
        "nv_tileas.for: fewer blocks would fit an SM"
    ]


def test_what_sums_need_is_named() -> None:
    def said(text: str) -> list[str]:
        program = compiled(text, gpu_name="sm_100", remarks={"missed": "memory"})
        assert not has_roles(program.ptx) and "tcgen05.mma" in program.ptx
        return [d.message.partition(": ")[2] for d in program.diagnostics if d.diag.code == "AS-0315"]

    plain = sum_over("d", "zero", "n", "%zero") + store("%d", "%zero")
    started = kernel(plain).replace("f32: 0.0", "f32: 1.0")
    assert said(started) == ["nv_tileas.tensor_memory.store: sums begin with other numbers than zero"]
    twice = plain + sum_over("g", "one", "m", "%zero") + store("%g", "%one", "y")
    assert said(kernel(twice)) == ["nv_tileas.for: sums of two loops lie in tensor memory"]


# ---- the witness


@pytest.mark.parametrize(
    "bug",
    [
        (r"\ttcgen05\.commit[^;]*\[%r\d+\];\n", "", 1),  # no stage is released, or no sum arrives
        (r"\t@%p\d+ mbarrier\.arrive\.shared::cta\.b64 _, [^;]+;\n", "", 1),  # no sum is released
        (r"bar\.sync 1, 128;", "bar.sync 0;", 1),  # a barrier that warps which copy or multiply never come to
        (r"(\$L\d+:\n\tmbarrier\.try_wait[^\n]*\n[^\n]*bra[^\n]*\n)(?=[^\n]*elect)", "", 1),  # no free stage
        (r"(\$L\d+:\n\tmbarrier\.try_wait[^\n]*\n[^\n]*bra[^\n]*\n)(?=\ttcgen05\.fence::after_thread_sync;\n(\t[^\n]*\n)?\ttcgen05\.ld)",
         "", 1),  # a sum that is not there
        (r"(\$L\d+:\n\tmbarrier\.try_wait[^\n]*\n[^\n]*bra[^\n]*\n)(?=\ttcgen05\.fence::after_thread_sync;\n\tmov)",
         "", 1),  # a sum that is not read yet
    ],
)  # fmt: skip
@pytest.mark.full
def test_planted_bugs_of_sums_are_found(bug: tuple[str, str, int]) -> None:
    body = f"""
    for %j in (%zero to %m, step %one) : tile<i32> {{
      {sum_over("d", "zero", "n", "%j")} {store("%d", "%j")}
      continue
    }}"""
    program = compiled(kernel(body), gpu_name="sm_100")
    right = program.ptx
    program.ptx = re.sub(*bug[:2], right, count=bug[2])
    assert program.ptx != right
    rng = np.random.default_rng(1)
    found = 0
    for seed in range(20):
        a, b = (rng.integers(-4, 5, s).astype(np.float16) for s in ((256, 352), (352, 352)))
        args = [a, b, np.zeros((4, 64, 64), np.float32), *map(np.int32, (256, 352, 64, 352, 4, 8, 4))]
        try:
            tileiras.launch(
                program, "k", 1, args, target="emulator", gpu_name="sm_100", check=True, seed=seed
            )
        except tileiras.LaunchError:
            found += 1
    assert found >= 18


@pytest.mark.parametrize(
    "bug",
    [
        (r"\t@%p\d+ mbarrier\.arrive\.shared::cta\.b64 _, [^;]+;\n", ""),  # no stage is ever released
        (r"(setmaxnreg\.dec\.sync\.aligned\.u32) 24", r"\1 40"),  # more registers than there are
        (r"bar\.sync 1, 128;", "bar.sync 0;"),  # a barrier that the copying warps never come to
    ],
)
def test_planted_bugs_are_found(bug: tuple[str, str]) -> None:
    text = kernel(sum_over("d", "zero", "n", "%zero") + store("%d", "%zero"))
    program = compiled(text)
    program.ptx = wrong = re.sub(bug[0], bug[1], program.ptx)
    assert wrong != compiled(text).ptx
    zeros = (
        np.zeros((64, 352), np.float16),
        np.zeros((352, 352), np.float16),
        np.zeros((1, 64, 64), np.float32),
    )
    args = [*zeros, *map(np.int32, (64, 352, 64, 352, 1, 11, 0))]
    for seed in range(4):
        with pytest.raises(tileiras.LaunchError):
            tileiras.launch(program, "k", 1, args, target="emulator", gpu_name="sm_90", check=True, seed=seed)


def test_a_copy_that_does_not_wait_for_its_stage_is_found() -> None:
    text = kernel(sum_over("d", "zero", "n", "%zero") + store("%d", "%zero"))
    program = compiled(text)
    head, tail = (
        program.ptx[: program.ptx.index("elect.sync")],
        program.ptx[program.ptx.index("elect.sync") :],
    )
    at = head.rindex("mbarrier.try_wait")
    line = head.rindex("\n", 0, at) + 1
    after = head.index("bra", at)
    program.ptx = head[:line] + head[head.index("\n", after) + 1 :] + tail
    rng = np.random.default_rng(1)
    found = 0
    for seed in range(20):
        a, b = (rng.integers(-4, 5, s).astype(np.float16) for s in ((64, 352), (352, 352)))
        args = [a, b, np.zeros((1, 64, 64), np.float32), *map(np.int32, (64, 352, 64, 352, 1, 11, 0))]
        try:
            tileiras.launch(program, "k", 1, args, target="emulator", gpu_name="sm_90", check=True, seed=seed)
        except tileiras.LaunchError:
            found += 1
    assert found >= 18
