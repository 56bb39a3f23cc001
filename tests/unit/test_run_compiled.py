"""A fault that the emulator sees in the PTX names the line of the kernel that it comes from."""

from __future__ import annotations

from pathlib import Path

import pytest

np = pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

import tileiras  # noqa: E402
from tileiras.run.compiled import source_of  # noqa: E402

KERNEL = """cuda_tile.module @m {
entry @k(%x: tile<ptr<f32>>) {
  %1 = reshape %x : tile<ptr<f32>> -> tile<1xptr<f32>>
  %2 = broadcast %1 : tile<1xptr<f32>> -> tile<8xptr<f32>>
  %3 = iota : tile<8xi32>
  %p = offset %2, %3 : tile<8xptr<f32>>, tile<8xi32> -> tile<8xptr<f32>>
  %v, %t = load_ptr_tko weak %p : tile<8xptr<f32>> -> tile<8xf32>, token
  %w = addf %v, %v : tile<8xf32>
  %u = store_ptr_tko weak %p, %w token = %t : tile<8xptr<f32>>, tile<8xf32> -> token
}
}
"""


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize("name", ["k.tileir", 'two words, "é" 100%41.tileir'])
def test_fault_names_the_source(tmp_path: Path, name: str, check: bool) -> None:
    path = tmp_path / name
    path.write_text(KERNEL)
    with pytest.raises(tileiras.LaunchError) as caught:
        tileiras.launch(path, "k", grid=1, args=[np.zeros(4, np.float32)], target="emulator", check=check)
    found = caught.value.diagnostics[0]
    assert (Path(found.loc.file).name, found.loc.line) == (name, 7)
    assert "ld.global" in found.text
    tileiras.launch(path, "k", grid=1, args=[np.zeros(8, np.float32)], target="emulator", check=check)


def test_only_positions_of_the_same_function_count() -> None:
    lines = ['.file 1 "a.py"', ".visible .entry f()", ".loc 1 4 2", "ret;", ".visible .entry g()", "trap;"]
    loc = source_of("\n".join(lines), 4)
    assert loc is not None and str(loc) == "a.py:4:2"
    assert source_of("\n".join(lines), 6) is None
