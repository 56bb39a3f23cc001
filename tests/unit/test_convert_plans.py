"""A plan that stands on a convert_layout is held against its layouts: one that would lose elements is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tileiras.tools import opt

TEXT = """\
#b = #linear<7, lane = [1, 2, 4, 8, 16], warp = [32, 64]>
#r = #linear<7, lane = [4, 8, 16, 32, 64], warp = [1, 2]>
nv_tileas.module {{sym_name = "m", nv_tileaa.compute_capability = 90 : i32}} {{
  nv_tileas.func {{sym_name = "k", nv_tileaa.kernel_spec = {{num_warps = 4}}, function_type = () -> ()}} {{
  ^bb0:
    %f = nv_tileas.iota : () -> tensor<128xi32, #b>
    %c = nv_tileas.convert_layout %f {{plan = {plan}}} : tensor<128xi32, #b> -> tensor<128xi32, #r>
    nv_tileas.return
  }}
}}
"""
COLUMNS = "columns = array<i32: 4, 8, 16, 32, 64, 132, 264>"


@pytest.mark.parametrize(
    ("plan", "why"),
    [
        (f'"shared", bytes = 512 : i32, {COLUMNS}', None),
        ('"rename"', "elements change their warp or lane"),
        ('"shuffle"', "elements change their warp or lane"),
        ('"teleport"', "expected rename, shuffle, shared, ldmatrix or stmatrix"),
        (f'"shared", bytes = 256 : i32, {COLUMNS}', "columns beyond 256 bytes"),
        ('"shared", bytes = 512 : i32, columns = array<i32: 4, 8>', "2 columns for 7 index bits"),
        (f'"shared", bytes = 512 : i32, {COLUMNS.replace("264", "128")}', "two elements have one place"),
    ],
)
def test_plans(plan: str, why: str | None, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "k.mlir"
    source.write_text(TEXT.format(plan=plan))
    code = opt.main([str(source)])
    err = capfd.readouterr().err
    assert code == (0 if why is None else 5)
    assert why is None or why in err


def test_lowering_asks_for_what_was_not_decided(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "k.mlir"
    source.write_text(TEXT.format(plan='""').replace(' {plan = ""}', ""))
    assert opt.main([str(source), "--pass", "ConvertTileASToLLVM", "--gpu-name", "sm_90"]) == 5
    assert "attribute 'plan' is missing; TileASMaterializeConvertLayout writes it" in capfd.readouterr().err
