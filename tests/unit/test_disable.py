"""`--disable`, TILEIRAS_DISABLE and the levels leave out parts of the code generator; what comes out is right without them."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

from contract.kit import NOOP

import tileiras
from tests.corpus.check import PASS, SKIP, launch_case
from tests.corpus.export import bytecode_path
from tests.corpus.registry import CASES
from tileiras import cli
from tileiras.diag import CompileError
from tileiras.options import DISABLE, PARTS
from tileiras.tools import opt
from tileiras.tools.build import main as build

# part, target that has it, what its instructions are called
INSTRUCTIONS = {
    "wgmma": ("sm_90", "wgmma."),
    "tcgen05": ("sm_100", "tcgen05."),
    "cp.async": ("sm_90", "cp.async."),
}
STAGED = "staged_bf16_nn_128"


def ptx(name: str, gpu_name: str, **options: object) -> str:
    return tileiras.compile(bytecode_path(CASES[name]), gpu_name=gpu_name, emit="ptx", **options).ptx


@pytest.mark.parametrize("part", INSTRUCTIONS)
def test_a_disabled_part_is_not_used_and_the_result_is_right(
    part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu_name, instruction = INSTRUCTIONS[part]
    assert instruction in ptx(STAGED, gpu_name)
    monkeypatch.setenv(DISABLE, f" {part},")
    for name in (STAGED, "staged_attention_small_f16"):
        assert instruction not in ptx(name, gpu_name)
        outcome = launch_case(CASES[name], "emulator", gpu_name)
        assert outcome.word == PASS, f"{name}: {outcome.reason}"


@pytest.mark.full
@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_90", "sm_100"])
@pytest.mark.parametrize("parts", ["wgmma", "tcgen05", "cp.async", ",".join(PARTS)])
def test_families_of_products_without_a_part(
    parts: str, gpu_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(DISABLE, parts)
    wrong = []
    for case in CASES.values():
        if case.family in ("staged", "staged_attention", "matmul", "attention"):
            outcome = launch_case(case, "emulator", gpu_name)
            if outcome.word not in (PASS, SKIP):
                wrong.append(f"{case.name}: {outcome.word}: {outcome.reason}")
    assert wrong == []


def test_levels_are_rungs() -> None:
    """-O1 multiplies by mma.sync from shared memory, -O0 loads through registers; nothing is right by luck of a level."""
    for gpu_name, own in (("sm_90", "wgmma."), ("sm_100", "tcgen05.")):
        texts = {level: ptx(STAGED, gpu_name, opt_level=level) for level in (0, 1, 2)}
        assert own in texts[2] and own not in texts[1] and own not in texts[0]
        assert "cp.async." in texts[1] and "cp.async." not in texts[0]
        assert all("mma.sync" in texts[level] for level in (0, 1))
        assert texts[1].count(f".target {gpu_name}\n") == 1


@pytest.mark.parametrize("level", [0, 1])
def test_low_levels_are_right(level: int) -> None:
    import ml_dtypes
    import numpy as np

    rng = np.random.default_rng(3)
    a, b = (rng.uniform(-1, 1, s).astype(ml_dtypes.bfloat16) for s in ((112, 272), (272, 80)))
    c = np.zeros((112, 80), "f4")
    case = CASES["staged_bf16_nn"]
    arguments, memory = case.flat([a, b, c])
    more = {"memory": memory} if memory else {}
    tileiras.launch(
        bytecode_path(case), case.entry, grid=case.grid, args=arguments, target="emulator", gpu_name="sm_90",
        opt_level=level, **more,
    )  # fmt: skip
    np.testing.assert_allclose(c, a.astype("f4") @ b.astype("f4"), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("arch", ["compute_90", "90-virtual", "compute_100"])
def test_virtual_architectures_take_what_later_gpus_have(arch: str, tmp_path: Path) -> None:
    out = tmp_path / "k.ptx"
    status = build(
        ["compile", str(bytecode_path(CASES[STAGED])), "-o", str(out), "--arch", arch, "--no-cache"]
    )
    text = out.read_text()
    assert status == 0 and "wgmma." not in text and "tcgen05." not in text and "cp.async." in text
    assert f".target sm_{arch.removeprefix('compute_').removesuffix('-virtual')}\n" in text


def test_ways_to_say_it_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = str(bytecode_path(CASES[STAGED]))
    want = ptx(STAGED, "sm_90", disable=("wgmma",))
    assert (
        ptx(STAGED, "sm_90", disable="wgmma, bulk")
        == ptx(STAGED, "sm_90", disable=["roles", "wgmma"])
        == want
    )
    out = tmp_path / "k.ptx"
    line = [source, "--gpu-name=sm_90", "--emit=ptx", "-o", str(out)]
    assert cli.main([*line, "--disable=bulk,wgmma"]) == 0 and out.read_text() == want
    assert cli.main([*line, "--disable", "bulk", "--disable", "wgmma"]) == 0 and out.read_text() == want
    monkeypatch.setenv(DISABLE, "wgmma")
    assert cli.main(line) == 0 and out.read_text() == want
    without = ptx(STAGED, "sm_90", disable="cp.async")
    monkeypatch.delenv(DISABLE)
    assert without == ptx(STAGED, "sm_90", disable="cp.async,wgmma")  # wgmma is fed by cp.async


def test_the_cache_of_builds_knows_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEIRAS_CACHE_DIR", str(tmp_path / "cache"))
    source, out = str(bytecode_path(CASES[STAGED])), tmp_path / "k.ptx"
    line = ["compile", source, "-o", str(out), "--arch", "compute_90"]
    assert build(line) == 0 and "cp.async." in out.read_text()
    assert build([*line, "--disable", "cp.async"]) == 0 and "cp.async." not in out.read_text()
    assert build(line) == 0 and "cp.async." in out.read_text()
    monkeypatch.setenv(DISABLE, "cp.async")
    assert build(line) == 0 and "cp.async." not in out.read_text()


def test_cutile_does_not_reuse_images_made_without_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    before = cli.version_text()
    monkeypatch.setenv(DISABLE, "wgmma,bulk")
    assert cli.version_text() == before + "disabled: bulk, wgmma\n"


def test_an_unknown_part_is_a_configuration_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "k.mlir"
    source.write_text(NOOP)
    known = "wgmma, tcgen05, bulk, arrivals, roles, turns, clusters, pairs or cp.async"
    said = f"unknown part 'wgma', expected {known}; did you mean 'wgmma'?"
    line = [str(source), "--gpu-name=sm_90", "-o", str(tmp_path / "k.cubin")]
    assert cli.main([*line, "--disable=bulk,wgma"]) == 2
    assert f"--disable: {said}" in capfd.readouterr().err
    built = ["compile", str(source), "-o", str(tmp_path / "k.ptx"), "--arch", "compute_90"]
    assert build([*built, "--disable", "wgma"]) == 2 and f"--disable: {said}" in capfd.readouterr().err
    assert opt.main([str(source), "--pipeline-to", "ptx", "--disable", "wgma"]) == 2
    assert "unknown part 'wgma'" in capfd.readouterr().err
    monkeypatch.setenv(DISABLE, "wgma")
    assert cli.main(line) == 2 and f"{DISABLE}: {said}" in capfd.readouterr().err
    assert build(built) == 2 and f"{DISABLE}: {said}" in capfd.readouterr().err
    monkeypatch.delenv(DISABLE)
    with pytest.raises(CompileError) as stop:
        tileiras.compile(NOOP, gpu_name="sm_90", emit="ptx", disable=("tcgen5",))
    assert stop.value.exit_code == 2 and "did you mean 'tcgen05'?" in str(stop.value)


@pytest.mark.parametrize("wrong", [3, None, True, [3], {"wgmma": 1}, b"wgmma"], ids=repr)
def test_parts_that_are_no_text_are_an_error_of_the_caller(wrong: object) -> None:
    with pytest.raises(CompileError) as caught:
        tileiras.compile(tileiras.load(NOOP), "sm_90", disable=wrong)  # type: ignore[arg-type]
    assert caught.value.exit_code == 2 and "--disable: unknown part" in str(caught.value)
    assert "internal error" not in str(caught.value)
