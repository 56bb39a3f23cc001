"""Reports of a few kernels for the site: those of the tutorial, a softmax, and one that spills. Nothing of it is stored.

python scripts/gallery.py FOLDER     writes them as FOLDER/NAME.html
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
FENCE = re.compile(r'^```tileir title="([^"]+)"\n(.*?)^```$', re.M | re.S)
# name -> (file below docs, architecture, title, what to look at)
REPORTS = {
    "vector-add": ("tutorial/vector-add.md", "sm_90", "Vector add",
                   "the widths of the accesses, and what a hint about alignment would change"),
    "softmax": ("gallery/softmax.tileir", "sm_90", "Softmax of rows",
                "the two reductions: who waits at which barrier, and which banks they ask"),
    "matmul": ("tutorial/matmul.md", "sm_90", "Pipelined matrix product",
               "the ring of stages, the schedule of the loop and what bounds it"),
    "attention": ("tutorial/attention.md", "sm_90", "Attention",
                  "two products and the softmax between them, registers along the code"),
    "blend": ("gallery/blend.tileir", "sm_90", "A kernel that spills",
              "which values hold the registers where they run out, and which hint makes them run out"),
}  # fmt: skip


def source(name: str) -> tuple[str, str]:
    """(file name, text) of a kernel of the gallery."""
    path = REPOSITORY / "docs" / REPORTS[name][0]
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        found = FENCE.search(text)
        assert found is not None, path
        return found[1], found[2]
    return path.name, text


def report(name: str) -> bytes:
    """The page of a kernel: with machine code where ptxas is found."""
    if str(REPOSITORY) not in sys.path:
        sys.path.insert(0, str(REPOSITORY))
    import tileiras
    from tileiras.diag import EXIT_CONFIGURATION, CompileError

    file, text = source(name)
    with tempfile.TemporaryDirectory() as folder:
        kernel, page = Path(folder, file), Path(folder, "page.html")
        kernel.write_text(text, encoding="utf-8")
        renamed = ((folder + "/", ""),)
        chosen: dict[str, Any] = {
            "gpu_name": REPORTS[name][1],
            "launch_abi": "simt",
            "file_prefix_map": renamed,
        }
        try:
            program = tileiras.compile(kernel, **chosen)
        except CompileError as error:  # no ptxas, or one that is too old
            if error.exit_code != EXIT_CONFIGURATION:
                raise
            program = tileiras.compile(kernel, emit="ptx", **chosen)
        program.report(page)
        return page.read_bytes()


def links() -> str:
    """The list of the gallery's page."""
    return "\n".join(
        f"- [{title}](gallery/{name}.html): {what}." for name, (_, _, title, what) in REPORTS.items()
    )


if __name__ == "__main__":
    for each in REPORTS:
        Path(sys.argv[1], f"{each}.html").write_bytes(report(each))
