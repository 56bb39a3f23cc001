"""`tileiras-opt --skip`: without an optional pass the code is other code and right; without another one there is none."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

from scripts import passes_page
from tests.corpus.check import PASS, launch_case
from tests.corpus.export import bytecode_path
from tests.corpus.registry import CASES
from tileiras.compiler import pipeline
from tileiras.tools import opt

PASSES = {row.name: passes_page.told(row) for row in pipeline.PIPELINE}
# optional pass: (kernel, target, whether the launcher makes tensor maps) on which it acts
ACTS = {
    name: re.fullmatch(r"(\w+) on (sm_\d+)( with tensor maps)?", says["acts"]).groups()  # type: ignore[union-attr]
    for name, says in PASSES.items()
    if "acts" in says and says["acts"] != "in the dump alone"
}
# moves ops out of regions that are flattened behind it: the code of the corpus is the same, the dump between them is not
DUMP_ONLY = {name for name, says in PASSES.items() if says.get("acts") == "in the dump alone"}
VERIFIERS = {name for name, says in PASSES.items() if says.get("without") == "not checked"}
# required pass: the op of a staged product that cannot do without it, and the target
NEEDED = {
    name: re.fullmatch(r"(\S+)(?: on (sm_\d+))?", says["needed"]).groups()  # type: ignore[union-attr]
    for name, says in PASSES.items()
    if "needed" in says and not says["needed"].endswith(" of text")
}
PIPELINED = "nv_tileas.async.pipeline.create"
STAGED = str(bytecode_path(CASES["staged_f16_nt"]))


def ptx(source: str, gpu_name: str, capfd: pytest.CaptureFixture[str], *more: str) -> str:
    """What the pipeline prints. The assertion is about its exit code."""
    code = opt.main([source, "--gpu-name", gpu_name, "--pipeline-to", "ptx", "--no-verify-each", *more])
    out, err = capfd.readouterr()
    assert code == 0, err
    return out


def test_each_row_is_optional_or_needed_by_something() -> None:
    required = {row.name for row in pipeline.PIPELINE if not row.optional}
    assert required == {name for name, says in PASSES.items() if "needed" in says}
    assert {row.name for row in pipeline.PIPELINE} - required == ACTS.keys() | VERIFIERS | DUMP_ONLY
    assert VERIFIERS == {row.name for row in pipeline.PIPELINE if getattr(row.load(), "LAYER", 0)}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ACTS)
def test_code_without_an_optional_pass_is_other_code_and_right(
    name: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel, gpu_name, mapped = ACTS[name]
    case = CASES[kernel]
    source = str(bytecode_path(case))
    maps = ["--tensor-maps", "launcher"] if mapped else []
    assert ptx(source, gpu_name, capfd, "--skip", name, *maps) != ptx(source, gpu_name, capfd, *maps)
    given = {"skip": (name,), **({"tensor_maps": "launcher"} if maps else {})}
    compile_module = pipeline.compile_module

    def without(*args: Any, **options: Any) -> Any:
        return compile_module(*args, **{**options, **given})

    monkeypatch.setattr(pipeline, "compile_module", without)
    outcome = launch_case(case, "emulator", gpu_name)
    assert outcome.word == PASS, outcome.reason


def test_verifiers_and_passes_without_work_change_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    want = ptx(STAGED, "sm_90", capfd)
    without = sorted(VERIFIERS | DUMP_ONLY | {"LowerTMALoadStoreToAsync", "TileASSelectAtoms"})
    assert ptx(STAGED, "sm_90", capfd, *(word for names in without for word in ("--skip", names))) == want


@pytest.mark.parametrize("name", NEEDED)
def test_a_skipped_pass_that_is_needed_is_one_error(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    needs, gpu_name = NEEDED[name]
    line = [STAGED, "--gpu-name", gpu_name or "sm_90", "--pipeline-to", "ptx", "--skip", name]
    assert opt.main(line) == 5
    out, err = capfd.readouterr()
    said = f"error: the pass {name} cannot be skipped: '{needs}' needs it"
    assert out == "" and err.count("error:") == 1 and said in err


def test_no_loop_without_a_pipeline_needs_its_passes(capfd: pytest.CaptureFixture[str]) -> None:
    """What nothing needs in this kernel may be left out, whatever other kernels need."""
    chain = [name for name, op in NEEDED.items() if op[0] == PIPELINED]
    plain = ptx(STAGED, "sm_90", capfd, "--skip", "TileASModuloSchedule")
    assert ptx(STAGED, "sm_90", capfd, "--skip", ",".join(["TileASModuloSchedule", *chain])) == plain


def test_the_error_stands_in_the_source(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert (
        opt.main([STAGED, "--gpu-name", "sm_90", "--pipeline-to", "tileas", "--skip", "TileASLowerPipelines"])
        == 5
    )
    assert "matmul.py:" in capfd.readouterr().err.splitlines()[0]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--pipeline-to", "ptx", "--skip", "TileASSlices"], "unknown pass 'TileASSlices'"),
        (["--pass", "TileASSliceProducts", "--skip", "TileASSliceProducts"], "--skip needs --pipeline-to"),
        (["--pipeline-to", "ptx", "--skip"], "option '--skip' needs a value"),
    ],
)
def test_usage(words: list[str], said: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert opt.main([STAGED, *words]) == (2 if "unknown" in said else 1) and said in capfd.readouterr().err


@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_90", "sm_100"])
def test_printed_layouts_have_names_and_are_read_again(
    gpu_name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    source = str(bytecode_path(CASES["staged_attention_small_f16"]))
    assert opt.main([source, "--gpu-name", gpu_name, "--pipeline-to", "tileas"]) == 0
    text = capfd.readouterr().out
    head = [line for line in text.splitlines() if line.startswith("#")]
    assert text.count("#linear<") == len(head) == len({line.partition(" = ")[2] for line in head}) > 3
    again, generic = tmp_path / "k.mlir", tmp_path / "g.mlir"
    again.write_text(text)
    assert opt.main([str(again)]) == 0 and capfd.readouterr().out == text
    assert opt.main([str(again), "--generic", "-o", str(generic)]) == 0
    assert generic.read_text().count("#linear<") == len(head)
    assert opt.main([str(generic), "--generic"]) == 0 and capfd.readouterr().out == generic.read_text()
    assert opt.main([str(again), "--debug"]) == 0 and capfd.readouterr().out.startswith(head[0])
    want = ptx(source, gpu_name, capfd)
    assert ptx(str(again), gpu_name, capfd) == want == ptx(str(generic), gpu_name, capfd)
