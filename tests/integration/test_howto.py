"""Python of the how-to pages runs as it is printed, with the kernel and the arrays that the page speaks of."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import peers
import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
DOCS = REPOSITORY / "docs"
VADD = """cuda_tile.module @m {
  entry @vadd(%a: tile<ptr<f32>>, %n: tile<i32>, %s: tile<i32>, %b: tile<ptr<f32>>, %bn: tile<i32>, %bs: tile<i32>,
              %c: tile<ptr<f32>>, %cn: tile<i32>, %cs: tile<i32>) {
    %av = make_tensor_view %a, shape = [%n], strides = [1] : tile<i32> -> tensor_view<?xf32, strides=[1]>
    %bv = make_tensor_view %b, shape = [%bn], strides = [1] : tile<i32> -> tensor_view<?xf32, strides=[1]>
    %cv = make_tensor_view %c, shape = [%cn], strides = [1] : tile<i32> -> tensor_view<?xf32, strides=[1]>
    %at = make_partition_view %av : partition_view<tile=(128), tensor_view<?xf32, strides=[1]>>
    %bt = make_partition_view %bv : partition_view<tile=(128), tensor_view<?xf32, strides=[1]>>
    %ct = make_partition_view %cv : partition_view<tile=(128), tensor_view<?xf32, strides=[1]>>
    %i, %j, %k = get_tile_block_id : tile<i32>
    %x, %t1 = load_view_tko weak %at[%i] : partition_view<tile=(128), tensor_view<?xf32, strides=[1]>>, tile<i32> -> tile<128xf32>, token
    %y, %t2 = load_view_tko weak %bt[%i] : partition_view<tile=(128), tensor_view<?xf32, strides=[1]>>, tile<i32> -> tile<128xf32>, token
    %z = addf %x, %y : tile<128xf32>
    %t3 = store_view_tko weak %z, %ct[%i] : tile<128xf32>, partition_view<tile=(128), tensor_view<?xf32, strides=[1]>>, tile<i32> -> token
    return
  }
}
"""  # noqa: E501
START = "import numpy as np, tileiras\n"


def readme_kernel() -> str:
    """The kernel `scale` of README.md."""
    found = re.search(
        r"^    cuda_tile\.module @scale \{\n(.*?)^    \}$",
        (REPOSITORY / "README.md").read_text(),
        re.M | re.S,
    )
    assert found is not None
    return "\n".join(line[4:] for line in found[0].splitlines()) + "\n"


def blocks(page: str) -> list[str]:
    """The Python of a page: fenced as such, or indented and about tileiras."""
    text = (DOCS / page).read_text()
    found = re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S)
    for block in re.findall(r"(?:^    .*\n)+", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S), re.M):
        lines = [line[4:] for line in block.splitlines()]
        if any(re.match(r"program\b|from tileiras|import", line) for line in lines):
            found.append("\n".join(lines) + "\n")
    return found


# (page, the Python before what it prints, the Python behind)
PAGES = {
    "running-kernels.md": (
        START
        + "source = open('vadd.tileir').read()\na = np.arange(1000, dtype='f4'); b = np.ones(1000, 'f4'); out = a * 0\n"
        "batches = [np.arange(300, dtype='f4')]\n",
        "assert (out == a + b).all() and (batches[0] == 2 * np.arange(300)).all()\n",
    ),
    "embedding.md": (
        "data = open('scale.tileir', 'rb').read()\n",
        "assert code == 0 and cubin[:4] == b'\\x7fELF'\n",
    ),
    "report.md": (
        START
        + "import shutil; shutil.copy('scale.tileir', 'k.tileir')\nx = np.ones(300, 'f4')\ngrid, args = 3, [x, 300]\n",
        "assert b'tileiras-report' in open('k.html', 'rb').read() and (x == 2).all()\n",
    ),
}


@pytest.mark.parametrize("page", PAGES)
def test_python_of_a_page_runs_as_printed(page: str, tmp_path: Path) -> None:
    peers.require("ptxas")
    (tmp_path / "vadd.tileir").write_text(VADD)
    (tmp_path / "scale.tileir").write_text(readme_kernel())
    before, behind = PAGES[page]
    printed = blocks(page)
    assert printed
    script = before + "".join(printed) + behind
    if page == "report.md":
        script = script.replace('"k", grid', '"scale", grid')  # the page's kernel is called as its file
        assert script.count('"scale", grid') == 1
    env = {**os.environ, "PYTHONPATH": str(REPOSITORY), "TILEIRAS_CACHE": "0"}
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
