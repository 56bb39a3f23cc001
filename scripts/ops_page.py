#!/usr/bin/env python3
"""Writes docs/reference/ops.md from the op tables of the dialects: what every op does, its fields, and since when.

`scripts/ops_page.py` rewrites the page, `--stdout` prints it; tests/unit/test_ops_page.py compares.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))

from tileiras.compiler.dialects.cuda_tile import ops as cuda_tile  # noqa: E402
from tileiras.compiler.dialects.cuda_tile.fields import FIELDS, TENSOR_FIELDS  # noqa: E402
from tileiras.compiler.dialects.nv_tileaa import ops as nv_tileaa  # noqa: E402
from tileiras.compiler.dialects.nv_tileas import ops as nv_tileas  # noqa: E402
from tileiras.compiler.ir.spec import OPTIONAL, VARIADIC  # noqa: E402

PAGE = REPOSITORY / "docs" / "reference" / "ops.md"
HEAD = """# Operations

Written by `scripts/ops_page.py` from the op tables in `tileiras/compiler/dialects/*/ops.py`. A field with `?` may be absent, one
with `*` is a list; `since` names the bytecode version where it is not 13.1. Of integers only ops have a sign, not types.
"""
CHAPTERS = (
    ("cuda_tile", "What frontends write. Tiles have extents that are powers of two, up to 2^24 elements.", cuda_tile.SPECS, ()),
    ("nv_tileaa", "Every op of cuda_tile but module and entry, over tensors, and:", nv_tileaa.BY_NAME.all(), cuda_tile.BY_NAME),
    ("nv_tileas", "Every op of nv_tileaa, over tensors with layouts, and:", nv_tileas.BY_NAME.all(), nv_tileaa.BY_NAME),
)  # fmt: skip


def constraint(name: str) -> str:
    """A constraint in words."""
    if name.startswith("tile:") and name in cuda_tile.CONSTRAINTS:
        return "tile of " + ", ".join(cuda_tile.CONSTRAINTS[name])
    if name.startswith("scalar:"):
        return "rank-0 tile of " + name.partition(":")[2]
    return {"any": "any type", "tile:any": "tile", "token": "token"}.get(name, name.replace("_", " "))


def since(minor: int, of: int) -> str:
    return f", since 13.{minor}" if minor > of else ""


def field(arg: Any, op_since: int) -> str:
    """One line of an operand, a result or an attribute."""
    mark = {OPTIONAL: "?", VARIADIC: "*"}.get(getattr(arg, "mode", 0), "")
    if hasattr(arg, "kind"):
        mark = "?" if arg.optional else ""
        kind = " or ".join(f"`{case}`" for case in cuda_tile.ENUMS[arg.enum]) if arg.enum else arg.kind
        kind += f", default `{arg.default}`" if arg.default is not None else ""
    else:
        kind = constraint(arg.constraint)
    said = FIELDS.get(arg.name) or TENSOR_FIELDS[arg.name]
    return f"`{arg.name}`{mark}: {said} ({kind}{since(arg.since, op_since)})"


def described(spec: Any) -> str:
    """The paragraph of an op."""
    lines = [
        f"### {spec.full_name}",
        "",
        spec.doc + (f" Since 13.{spec.since}." if spec.since > 1 else ""),
        "",
    ]
    for word, fields in (("operand", spec.operands), ("attribute", spec.attrs), ("result", spec.results)):
        lines += [f"- {word} {field(arg, spec.since)}" for arg in fields]
    if spec.regions:
        lines.append(f"- {spec.regions} region{'s' if spec.regions > 1 else ''}")
    alike = [f"{', '.join(group)}: one type" for group in spec.same_type]
    alike += [f"{', '.join(group)}: one shape" for group in spec.same_shape]
    alike += [f"{', '.join(group)}: one rank" for group in spec.same_rank]
    alike += [f"{', '.join(group)}: one element type" for group in spec.same_elem]
    lines += [f"- {line}" for line in alike]
    return "\n".join(lines).rstrip() + "\n"


def page() -> str:
    parts = [HEAD]
    for name, text, specs, known in CHAPTERS:
        parts.append(f"## {name}\n\n{text}\n")
        own = (spec for spec in specs if spec.name not in known or spec.name == "module")
        parts += [described(spec) for spec in sorted(own, key=lambda spec: spec.full_name)]
    return "\n".join(parts)


if __name__ == "__main__":
    if "--stdout" in sys.argv:
        sys.stdout.write(page())
    else:
        PAGE.parent.mkdir(exist_ok=True)
        PAGE.write_text(page(), encoding="utf-8")
