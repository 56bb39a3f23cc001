"""`tileiras-opt --skip`: without an optional pass the code is other code and right; without another one there is none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

from tests.corpus.check import PASS, launch_case
from tests.corpus.export import bytecode_path
from tests.corpus.registry import CASES
from tileiras.compiler import pipeline
from tileiras.tools import opt

# optional pass: kernel and target on which it acts
ACTS = {
    "TileAAFoldScalars": ("cpp_matmul_f16", "sm_80"),
    "TileAANarrowConditions": ("cpp_add_2d", "sm_80"),
    "TileAALoopsToFor": ("cpp_moving_pointer", "sm_80"),
    "TileAADropUnitBatch": ("staged_batched_wide", "sm_90"),
    "TileAATransposeScores": ("staged_flash_bwd_f16_64", "sm_90"),
    "TileAARuntimeVersions": ("matmul_f16_128", "sm_80"),
    "TileAASplitBlocks": ("cluster_add_2_1024", "sm_90"),
    "TileAAMarkShortResults": ("attention_causal_f16", "sm_80"),
    "TileAAMarkNonPositive": ("attention_causal_f32", "sm_80"),
    "TileAAMarkExactIntegers": ("staged_packed_weights_bf16", "sm_80"),
    "TileAATurnFewRows": ("matmul_f16_ragged", "sm_100"),
    "TileAAShortenSteps": ("large_matmul_64x64x256", "sm_80"),
    "TileAAHalveRows": ("staged_attention_full_f16", "sm_90"),
    "TileAACutHugeTiles": ("large_gelu_65536", "sm_80"),
    "TileAACutLongChains": ("large_gelu_16384", "sm_80"),
    "TileAAStreamProducts": ("large_matmul_64x64x256", "sm_80"),
    "TileASHoistConversions": ("attention_full_f16", "sm_90"),
    "TileASModuloSchedule": ("staged_f16_nt", "sm_90"),
    "TileASSliceProducts": ("staged_f16_nt", "sm_80"),
    "TileASWarpgroupProducts": ("staged_f16_nt", "sm_90"),
    "TileASTensorMemoryProducts": ("staged_bf16_nn_128", "sm_100"),
    "TileASAssignRoles": ("staged_f16_nt", "sm_90"),
    "TileASMulticast": ("cluster_product_2_128x64x32", "sm_90"),
    "TileASTakeTurns": ("staged_attention_f16", "sm_90"),
}
MAPPED = {
    "TileASAssignRoles",
    "TileASMulticast",
    "TileASTakeTurns",
}  # works where the launcher makes tensor maps
VERIFIERS = {
    "TileAAAgentVerifier",
    "TileASAgentVerifier",
    "TileIROperationAnalysis",
    "ModuleVerifier",
    "NVVMIRVerifier",
}
# moves ops out of regions that are flattened behind it: the code of the corpus is the same, the dump between them is not
DUMP_ONLY = {"TileASOptimizePipelineRegion"}
PIPELINED = "nv_tileas.async.pipeline.create"
# required pass: the op of a staged product that cannot do without it
NEEDED = {
    "ConvertCudaTileToTileAA": "cuda_tile.module",
    "attachKernelSpecAttributes": "nv_tileaa.module",
    "ConvertTileAAToTileAS": "nv_tileaa.module",
    "TileASMaterializeAsync": PIPELINED,
    "TileASMaterializeConvertLayout": "nv_tileas.convert_layout",
    "TileASScheduleAnalysis": PIPELINED,
    "TileASMaterializeSchedule": PIPELINED,
    "TileASUnspecializedPipeline": PIPELINED,
    "TileASLowerPipelines": PIPELINED,
    "TileASPlaceShared": "nv_tileas.module",
    "ConvertTileFuncToLLVM": "nv_tileas.module",
    "ConvertTileASToLLVM": "nv_tileas.module",
    "KernelAttrPass": "nvvm.module",
}
# of text alone, or of products that warpgroups do not take: nothing in a staged product needs them
NO_SUBJECT = {"LowerTMALoadStoreToAsync", "TileASSelectAtoms"}
STAGED = str(bytecode_path(CASES["staged_f16_nt"]))


def ptx(source: str, gpu_name: str, capfd: pytest.CaptureFixture[str], *more: str) -> str:
    """What the pipeline prints. The assertion is about its exit code."""
    code = opt.main([source, "--gpu-name", gpu_name, "--pipeline-to", "ptx", "--no-verify-each", *more])
    out, err = capfd.readouterr()
    assert code == 0, err
    return out


def test_each_row_is_optional_or_needed_by_something() -> None:
    required = {row.name for row in pipeline.PIPELINE if not row.optional}
    assert required == NEEDED.keys() | NO_SUBJECT
    assert {row.name for row in pipeline.PIPELINE} - required == ACTS.keys() | VERIFIERS | DUMP_ONLY


@pytest.mark.parametrize("name", ACTS)
def test_code_without_an_optional_pass_is_other_code_and_right(
    name: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    case, gpu_name = CASES[ACTS[name][0]], ACTS[name][1]
    source = str(bytecode_path(case))
    maps = ["--tensor-maps", "launcher"] if name in MAPPED else []
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
    without = sorted(VERIFIERS | DUMP_ONLY | NO_SUBJECT)
    assert ptx(STAGED, "sm_90", capfd, *(word for names in without for word in ("--skip", names))) == want


@pytest.mark.parametrize("name", NEEDED)
def test_a_skipped_pass_that_is_needed_is_one_error(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    line = [STAGED, "--gpu-name", "sm_90", "--pipeline-to", "ptx", "--skip", name]
    assert opt.main(line) == 5
    out, err = capfd.readouterr()
    said = f"error: the pass {name} cannot be skipped: '{NEEDED[name]}' needs it"
    assert out == "" and err.count("error:") == 1 and said in err


def test_no_loop_without_a_pipeline_needs_its_passes(capfd: pytest.CaptureFixture[str]) -> None:
    """What nothing needs in this kernel may be left out, whatever other kernels need."""
    chain = [name for name, op in NEEDED.items() if op == PIPELINED]
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
    assert opt.main([STAGED, *words]) == 1 and said in capfd.readouterr().err


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
