"""exp(x - max(x)): as exact as exp of any number, subnormal results, infinities and NaN included."""

from __future__ import annotations

import pytest

np = pytest.importorskip("numpy")

import tileiras  # noqa: E402

N = 512
TEXT = f"""cuda_tile.module @m {{
entry @k(%x: tile<ptr<f32>>, %y: tile<ptr<f32>>) {{
  %i = iota : tile<{N}xi32>
  %x1 = reshape %x : tile<ptr<f32>> -> tile<1xptr<f32>>
  %x2 = broadcast %x1 : tile<1xptr<f32>> -> tile<{N}xptr<f32>>
  %p = offset %x2, %i : tile<{N}xptr<f32>>, tile<{N}xi32> -> tile<{N}xptr<f32>>
  %y1 = reshape %y : tile<ptr<f32>> -> tile<1xptr<f32>>
  %y2 = broadcast %y1 : tile<1xptr<f32>> -> tile<{N}xptr<f32>>
  %q = offset %y2, %i : tile<{N}xptr<f32>>, tile<{N}xi32> -> tile<{N}xptr<f32>>
  %v, %t = load_ptr_tko weak %p : tile<{N}xptr<f32>> -> tile<{N}xf32>, token
  %m = reduce %v dim=0 identities=[0xFF800000 : f32] : tile<{N}xf32> -> tile<f32> (%a: tile<f32>, %b: tile<f32>) {{
    %n = maxf %a, %b : tile<f32>
    yield %n : tile<f32>
  }}
  %m1 = reshape %m : tile<f32> -> tile<1xf32>
  %m2 = broadcast %m1 : tile<1xf32> -> tile<{N}xf32>
  %d = subf %v, %m2 rounding<nearest_even> : tile<{N}xf32>
  %e = exp %d : tile<{N}xf32>
  %u = store_ptr_tko weak %q, %e : tile<{N}xptr<f32>>, tile<{N}xf32> -> token
}}
}}
"""


@pytest.mark.parametrize("gpu_name", ["sm_75", "sm_90"])
@pytest.mark.parametrize("top", [0.0, 3.0, np.inf])
def test_exp_below_a_maximum(gpu_name: str, top: float) -> None:
    x = np.linspace(-106, 0, N, dtype=np.float32) + np.float32(min(top, 3.0))
    x[-1], x[0], x[1] = top, -np.inf, np.nan
    program = tileiras.compile(TEXT, gpu_name=gpu_name)
    y = np.zeros(N, np.float32)
    program.launch("k", 1, [x, y], target="emulator")
    with np.errstate(invalid="ignore", under="ignore"):
        want = np.exp((x - np.float32(top)).astype(np.float64))
    np.testing.assert_array_equal(np.isnan(y), np.isnan(want))
    good = ~np.isnan(want)
    assert np.all(abs(y[good] - want[good]) <= np.spacing(want[good].astype(np.float32)))
