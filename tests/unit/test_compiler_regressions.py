"""What once compiled to a wrong answer or to an internal error: one small program each, on both witnesses."""

from __future__ import annotations

import pytest

np = pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

import tileiras  # noqa: E402

WITNESSES = [("reference", "sm_90"), ("emulator", "sm_75"), ("emulator", "sm_90")]
everywhere = pytest.mark.parametrize(("target", "gpu_name"), WITNESSES)


def launch(text: str, args: list, target: str, gpu_name: str, **more) -> None:
    tileiras.launch(f"cuda_tile.module @m {{\n{text}\n}}\n", "k", grid=(1, 1, 1), args=args, target=target,
                    gpu_name=gpu_name, **more)  # fmt: skip


def spread(pointer: str, elem: str, n: int, name: str) -> str:
    """Lines that make `%name` addresses of n consecutive elements."""
    p = f"ptr<{elem}>"
    return f"""
  %{name}1 = reshape {pointer} : tile<{p}> -> tile<1x{p}>
  %{name}2 = broadcast %{name}1 : tile<1x{p}> -> tile<{n}x{p}>
  %{name}3 = iota : tile<{n}xi32>
  %{name} = offset %{name}2, %{name}3 : tile<{n}x{p}>, tile<{n}xi32> -> tile<{n}x{p}>"""


@everywhere
@pytest.mark.parametrize("elem", ["f16", "f32", "f64"])
@pytest.mark.parametrize("signedness", ["signed", "unsigned"])
def test_float_to_i1_is_not_zero(target: str, gpu_name: str, elem: str, signedness: str) -> None:
    """cuTile writes `astype(bool)` as ftoi to i1; it took bit 0 of the truncated value."""
    text = f"""entry @k(%x: tile<ptr<{elem}>>, %y: tile<ptr<i1>>) {{{spread("%x", elem, 8, "p")}{spread("%y", "i1", 8, "q")}
  %v, %t = load_ptr_tko weak %p : tile<8xptr<{elem}>> -> tile<8x{elem}>, token
  %b = ftoi %v {signedness} : tile<8x{elem}> -> tile<8xi1>
  %u = store_ptr_tko weak %q, %b : tile<8xptr<i1>>, tile<8xi1> -> token
}}"""
    x = np.array([0.0, -0.0, 0.5, -2.0, 3.0, np.nan, np.inf, 6e-8], {"f16": "f2", "f32": "f4", "f64": "f8"}[elem])
    y = np.zeros(8, bool)
    launch(text, [x, y], target, gpu_name)
    assert y.tolist() == [False, False, True, True, True, True, True, True]
