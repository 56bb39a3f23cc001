"""The table of docs/passes.md, from the pipeline's rows and what stands below each pass's SUMMARY as a string that Python drops:

does: what the pass does
without: what becomes of a kernel without it             of optional ones (`--skip`); verifiers: not checked
needed: OP [on GPU]                                      of the others: the op of a staged product that needs it
acts: KERNEL on GPU [with tensor maps]                   of optional ones: where code without it is other code
called: the number that the contract has for it
"""

from __future__ import annotations

import ast
import functools
import inspect
import re
from pathlib import Path

from tileiras.compiler import pipeline

REPOSITORY = Path(__file__).resolve().parents[1]
PAGE = REPOSITORY / "docs" / "passes.md"
FIELDS = {"does", "without", "needed", "acts", "called"}
DIALECTS = {"": "cuda_tile", "tileaa": "nv_tileaa", "tileas": "nv_tileas", "nvvm": "nvvm"}


@functools.cache
def told(row: pipeline.Row) -> dict[str, str]:
    """What the file of a row's pass says of it, by field. Errors: ValueError where it says nothing, or an unknown field."""
    path = REPOSITORY / "tileiras" / "compiler" / "passes" / (row.file.replace(".", "/") + ".py")
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef) and node.name == row.cls:
            for above, below in zip(node.body, node.body[1:]):
                if isinstance(above, ast.Assign) and ast.unparse(above.targets[0]) == "SUMMARY":
                    text = below.value.value if isinstance(below, ast.Expr) else None  # type: ignore[attr-defined]
                    if not isinstance(text, str):
                        break
                    lines = re.sub(r"\n +", " ", inspect.cleandoc(text)).splitlines()
                    found = dict(line.split(": ", 1) for line in lines)
                    if wrong := found.keys() - FIELDS:
                        raise ValueError(f"{path}: {', '.join(sorted(wrong))}?")
                    return found
    raise ValueError(f"{path}: nothing below the SUMMARY of {row.cls}")


def line(row: pipeline.Row, before: str) -> str:
    """A row of the table. `before`: the stage in front of the pass."""
    says = told(row)
    called = f" ({says['called']})" if "called" in says else ""
    return f"| {row.name}{called} | {DIALECTS[before]} | {says['does']} | {says.get('without', 'error')} |"


def page() -> str:
    """docs/passes.md with its table."""
    stages = ["", *(row.stage for row in pipeline.PIPELINE)]
    lines = [line(row, before) for row, before in zip(pipeline.PIPELINE, stages)]
    text = PAGE.read_text(encoding="utf-8")
    return re.sub(
        r"(\| pass \|.*\n\|---.*\n)(\|.*\n)*", lambda m: m[1] + "\n".join(lines) + "\n", text, count=1
    )
