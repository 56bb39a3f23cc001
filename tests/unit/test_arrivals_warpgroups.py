"""Rings that threads fill by cp.async and wgmma reads: stages have mbarriers, their loop no barrier; all warps copy, or four."""

from __future__ import annotations

import re
from typing import Any

import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

import numpy as np

import tileiras
from benchmarks.hot_loop import disassemble
from tests import peers
from tests.corpus import check as corpus
from tests.corpus.export import bytecode_path
from tests.corpus.registry import CASES
from tests.unit.test_arrivals import ARRIVE, NEST
from tests.unit.test_roles import kernel, product, store, sum_over
from tileiras.compiler.passes.tileas import arrive_warpgroups
from tileiras.compiler.schedule import issue
from tileiras.compiler.target.cost import CostModel
from tileiras.report.hot_loop import hottest

OPTIONS: dict[str, Any] = {"launch_abi": "simt", "emit": "ptx", "gpu_name": "sm_90", "lineinfo": True}
FORMS: dict[str, tuple[str, ...]] = {"warps that copy": (), "all warps copy": ("roles",)}
# ragged extents, one step, a persistent kernel, halves of K, operands of bytes, scaled sums, attention in three forms; the last
# three have stages that threads read as well
TAKEN = (
    "staged_bf16_nn", "staged_bf16_one_step", "staged_f16_tn", "staged_f16_wide", "staged_e4m3_nt", "staged_persistent",
    "staged_batched_wide", "staged_split_k", "staged_scaled_sums_f16", "staged_attention_causal_bf16",
    "staged_attention_d256_bf16", "staged_flash_window_64", "staged_flash_bwd_bf16_128", "staged_running_states_01",
    "staged_converted_rounded_left", "staged_complex", "staged_quantized_attention_128",
)  # fmt: skip
WAIT = r"\$L\d+:\n\tmbarrier\.try_wait[^\n]*\n[^\n]*bra[^\n]*\n"
PLAIN = sum_over("d", "zero", "n", "%zero") + store("%d", "%zero")


def judge(name: str, form: str, monkeypatch: pytest.MonkeyPatch, seed: int) -> str:
    """What the formula of a corpus case says about a run under the race check, whatever mbarriers cost it."""
    launch = tileiras.launch
    monkeypatch.setattr(arrive_warpgroups, "issue_clocks", lambda *_: 0)

    def watched(source: Any, *args: Any, **options: Any) -> None:
        program = tileiras.compile(source, **OPTIONS, disable=FORMS[form])
        assert ARRIVE in program.ptx
        launch(program, *args, **{**options, "check": True, "seed": seed})

    monkeypatch.setattr(tileiras, "launch", watched)
    return corpus.launch_case(CASES[name], "emulator", "sm_90", 300).word


@pytest.mark.sampled(3)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "name",
    (
        "staged_bf16_nn",
        "staged_persistent",
        "staged_flash_window_64",
        "staged_converted_rounded_left",
        "staged_complex",
    ),
)
def test_results_are_right_and_no_access_races(name: str, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert judge(name, form, monkeypatch, 4) == corpus.PASS


@pytest.mark.full
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", TAKEN)
def test_no_order_races(name: str, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(20):
        with monkeypatch.context() as patch:
            assert judge(name, form, patch, seed) == corpus.PASS


@pytest.mark.parametrize("form", FORMS)
def test_their_loops_have_no_barrier(form: str) -> None:
    ptx = tileiras.compile(bytecode_path(CASES["staged_bf16_nn_128"]), **OPTIONS, disable=FORMS[form]).ptx
    loop = ptx[ptx.index("mbarrier.try_wait") : ptx.rindex("wgmma.commit_group")]
    assert "bar.sync" not in loop and loop.count("fence.proxy.async") == 1
    assert ("setmaxnreg" in ptx) == (form == "warps that copy")
    copying = ptx[ptx.index("setmaxnreg.dec") :] if form == "warps that copy" else ptx
    assert "cp.async.cg" in copying and ARRIVE in copying
    if form == "warps that copy":  # four warps fill stages, whoever reads them
        assert "cp.async" not in ptx[: ptx.index("setmaxnreg.dec")] and "cp.async.wait_group 0" in copying


@pytest.mark.parametrize("name", ("staged_converted_rounded_left", "staged_complex"))
def test_loops_whose_stages_threads_read_as_well_have_no_barrier(name: str) -> None:
    """Operands that are rounded, or turn their signs, on their way to a product: a warp releases them when all its threads have
    read them."""
    ptx = tileiras.compile(bytecode_path(CASES[name]), **OPTIONS).ptx
    loop = ptx[ptx.index("mbarrier.try_wait") : ptx.rindex("wgmma.commit_group")]
    assert "bar.sync" not in loop and re.search(r"ld\.shared|ldmatrix", loop)
    released = loop.index("mbarrier.arrive.shared::cta.b64 _")
    assert "bar.warp.sync" in loop[:released]
    assert "setmaxnreg" in ptx


def test_disabled_and_low_levels_have_none() -> None:
    for more in ({"disable": ("arrivals",)}, {"disable": ("cp.async",)}, {"opt_level": 1}):
        assert (
            ARRIVE not in tileiras.compile(bytecode_path(CASES["staged_bf16_nn_128"]), **OPTIONS, **more).ptx
        )


def reasons(program: tileiras.Program) -> list[str]:
    """Why loops keep groups of copies and a barrier."""
    return [d.message.partition(": ")[2] for d in program.diagnostics if d.diag.code == "AS-0319"]


def test_what_keeps_groups_and_a_barrier_is_named() -> None:
    for name, reason in (
        ("staged_tf32_nn", "threads use other buffers of shared memory in the loop"),
        ("staged_linear_attention_d64", "threads use other buffers of shared memory in the loop"),
        ("staged_latent_attention_64", "a step waits for copies, or at barriers, more than once"),
        ("staged_flash_bwd_fused_bf16_64", "copies wait at a barrier for what orders them"),
        ("staged_flash_gqa_128", r"its instructions take (\d+) clocks, its products and copies 512"),
    ):
        program = tileiras.compile(bytecode_path(CASES[name]), **OPTIONS, remarks={"missed": "memory"})
        assert (
            "wgmma.mma" in program.ptx and ARRIVE not in program.ptx and "cp.async.wait_group" in program.ptx
        )
        found = reasons(program)
        assert found and all(re.fullmatch(reason, said) for said in found)
    arrived = tileiras.compile(
        bytecode_path(CASES["staged_bf16_nn"]), **OPTIONS, remarks={"missed": "memory"}
    )
    assert ARRIVE in arrived.ptx and not reasons(arrived)


def test_a_loop_that_waits_for_its_instructions_keeps_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways around: one clock more or less than what its products take."""
    source = bytecode_path(CASES["staged_attention_f16"])
    busy = 512
    for clocks, arrives in ((busy, True), (busy + 1, False)):
        with monkeypatch.context() as patch:
            patch.setattr(arrive_warpgroups, "issue_clocks", lambda *_, said=clocks: said)
            program = tileiras.compile(source, **OPTIONS, remarks={"missed": "memory"})
            assert (ARRIVE in program.ptx) == arrives and bool(reasons(program)) != arrives


@pytest.mark.sampled(3)
@pytest.mark.usefixtures("undivided")
@pytest.mark.parametrize(
    "name", ("staged_bf16_nn_128", "staged_attention_d256_bf16", "staged_flash_bwd_dq_bf16_128")
)
def test_what_a_step_issues_is_known_beforehand(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The count in nv_tileas text, beside that of machine code: NVIDIA's disassembler and hot_loop.py know nothing of it."""
    peers.require("nvdisasm")
    said: list[int] = []

    def counted(block: Any, warps: int, more: int = 0) -> int:
        said.append(issue.issue_clocks(block, warps) * CostModel.issued_threads // (32 * warps))
        return 1 << 20

    monkeypatch.setattr(arrive_warpgroups, "issue_clocks", counted)
    options = {**OPTIONS, "emit": "cubin"}
    image = tileiras.compile(bytecode_path(CASES[name]), **options).cubin
    (code,) = disassemble(image).values()
    loop = hottest(code)
    assert loop is not None and said
    assert 0.75 <= min(said) / len(code.of_loop(loop)) <= 1.1


# ---- loops longer than their ring, entered once and again; test_roles.py has the kernels
def run(program: tileiras.Program, n: int, m: int, extents: tuple[int, int, int], seed: int) -> bool:
    """Whether a kernel's blocks of 64 x 64 are right."""
    rows, depth, columns = extents
    rng = np.random.default_rng(5)
    a, b = (rng.integers(-4, 5, s).astype(np.float16) for s in ((rows, 352), (depth, 352)))
    out = np.full((max(1, m), 64, 64), 7, np.float32)
    args = [a, b, out, *map(np.int32, (rows, depth, columns, 352, max(1, m), n, m))]
    tileiras.launch(program, "k", 1, args, target="emulator", gpu_name="sm_90", check=True, seed=seed)
    x, y = np.zeros((rows + 64, 704), np.float32), np.zeros((704, columns + 64), np.float32)
    x[:rows, :depth] = a[:, :depth]
    y[:depth, :columns] = b[:, :columns]
    if m == 0:
        return bool((out[0] == product(x, y, 0, n)).all())
    return all((out[j] == product(x, y, 0, n + j, j)).all() for j in range(m))


@pytest.mark.sampled(5)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("extents", [(64, 352, 64), (50, 345, 61)])
@pytest.mark.parametrize("n", [0, 1, 4, 5, 6, 7, 11])
def test_loops_of_any_length(n: int, extents: tuple[int, int, int], form: str) -> None:
    program = tileiras.compile(kernel(PLAIN), **OPTIONS, disable=FORMS[form])
    assert ARRIVE in program.ptx
    for seed in range(3):
        assert run(program, n, 0, extents, seed)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("n, m", [(0, 3), (1, 4), (5, 3), (7, 3), (3, 1)])
def test_nests(n: int, m: int, form: str) -> None:
    program = tileiras.compile(kernel(NEST), **OPTIONS, disable=FORMS[form])
    assert ARRIVE in program.ptx
    for seed in range(3):
        assert run(program, n, m, (60 * m, 352, 64), seed)


BUGS = {
    "copies are not fenced": (r"(bra[^\n]*\n)\tfence\.proxy\.async\.shared::cta;\n", r"\1"),
    "a stage is read before its copies have landed": (WAIT + r"(?=\tfence\.proxy)", ""),
    "a stage is overwritten before products have read it": (
        WAIT + r"(?=(?:(?!try_wait|bar\.sync)[^\n]*\n)*?[^\n]*cp\.async\.c)", "",
    ),
    "a stage is released while a product reads it": (r"\twgmma\.wait_group\.sync\.aligned 1;\n", ""),
    "warps do not release what they have read": (r"\t@%p\d+ mbarrier\.arrive\.shared::cta\.b64 _[^\n]*\n", ""),
    "copies of the loop do not arrive": (rf"(?s)(.*)\n[^\n]*{re.escape(ARRIVE)}[^\n]*\n", "\\1\n"),
    "half of the copies are not counted": (
        r"(mov\.b32 %r\d+, )128(;(?:[^\n]*\n)*?[^\n]*mbarrier\.init)", r"\g<1>64\2",
    ),
    "the phase does not turn": (r"(xor\.b32 %r\d+, %r\d+, )1;", r"\g<1>0;"),
}  # fmt: skip
KERNELS = {
    "once": (PLAIN, 11, 0, (64, 352, 64)),
    "ragged": (PLAIN, 11, 0, (50, 345, 61)),
    "nest": (NEST, 11, 2, (128, 352, 64)),
}


@pytest.mark.full
@pytest.mark.parametrize("which", KERNELS)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("bug", BUGS)
def test_planted_bugs_are_found(bug: str, form: str, which: str) -> None:
    body, n, m, extents = KERNELS[which]
    program = tileiras.compile(kernel(body), **OPTIONS, disable=FORMS[form])
    right = program.ptx
    program.ptx = re.sub(*BUGS[bug], right, count=1)
    assert program.ptx != right
    found = 0
    for seed in range(20):
        try:
            found += not run(program, n, m, extents, seed)
        except tileiras.LaunchError:
            found += 1
    assert found >= 18
