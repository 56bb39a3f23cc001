"""The stages that TileASMaterializeSchedule writes are what TileASUnspecializedPipeline does: text with others gives others."""

from __future__ import annotations

from pathlib import Path

import pytest

from tileiras.tools import opt

TEXT = """\
#s = #linear<0, lane = [0, 0, 0, 0, 0], warp = [0, 0]>
#b = #linear<7, lane = [1, 2, 4, 8, 16], warp = [32, 64]>
nv_tileas.module {sym_name = "m", nv_tileaa.compute_capability = 90 : i32} {
  nv_tileas.func {sym_name = "k", nv_tileaa.kernel_spec = {num_warps = 4}, function_type = () -> ()} {
  ^bb0(%lo: tensor<i32, #s>, %hi: tensor<i32, #s>, %p: tensor<128xptr<f32>, #b>):
    %one = nv_tileas.constant {value = dense<1> : !cuda_tile.tile<i32>} : () -> tensor<i32, #s>
    %t = nv_tileas.make_token : () -> !cuda_tile.token
    %q = nv_tileas.async.pipeline.create {depth = 4} : () -> !nv_tileas.async.pipeline
    nv_tileas.for %lo, %hi, %one {operandSegmentSizes = array<i32: 1, 1, 1, 0>}
      : tensor<i32, #s>, tensor<i32, #s>, tensor<i32, #s> {
    ^bb0(%i: tensor<i32, #s>):
      %v = nv_tileas.async.pipeline.transfer %q : !nv_tileas.async.pipeline -> tensor<128xf32, #b> {
        %x, %t2 = nv_tileas.load_ptr_tko %p {memory_ordering_semantics = weak, operandSegmentSizes = array<i32: 1, 0, 0, 0>}
          : tensor<128xptr<f32>, #b> -> tensor<128xf32, #b>, !cuda_tile.token
        nv_tileas.async.pipeline.yield %x : tensor<128xf32, #b>
      }
      nv_tileas.continue
    }
    nv_tileas.return
  }
}
"""
DECIDE = "TileASMaterializeAsync,TileASScheduleAnalysis,TileASMaterializeSchedule"


def run(text: str, passes: str, folder: Path, capfd: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    source = folder / "k.mlir"
    source.write_text(text)
    code = opt.main([str(source), "--pass", passes])
    return code, *capfd.readouterr()


@pytest.mark.parametrize(("stage", "ahead"), [(0, 3), (1, 2), (2, 1), (3, 0)])
def test_a_producer_runs_ahead_by_its_stage(
    stage: int, ahead: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code, text, _ = run(TEXT, DECIDE, tmp_path, capfd)
    assert code == 0 and "schedule = {stages = 4" in text and text.count("stage = 0 : i32") == 1
    edited = text.replace("stage = 0 : i32", f"stage = {stage} : i32")
    code, out, _ = run(edited, "TileASUnspecializedPipeline", tmp_path, capfd)
    assert code == 0
    assert out.split("nv_tileas.for ")[0].count("pipeline.produce_one") == ahead


def test_stages_beyond_the_slots_are_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    _, text, _ = run(TEXT, DECIDE, tmp_path, capfd)
    edited = text.replace("stages = 4", "stages = 6").replace("stage = 3 : i32", "stage = 5 : i32")
    code, out, err = run(edited, "TileASUnspecializedPipeline", tmp_path, capfd)
    assert code == 0 and "Failed to pipeline loop" in err
    assert "stages 5 apart need more than the 4 slots of the pipeline" in err
    assert "pipeline.produce_one" not in out.split("nv_tileas.for ")[0]
