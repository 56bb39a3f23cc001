"""Every op and every field says what it is, and docs/reference/ops.md is what the tables say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tileiras.compiler.dialects.cuda_tile import ops as cuda_tile
from tileiras.compiler.dialects.cuda_tile.fields import FIELDS, TENSOR_FIELDS
from tileiras.compiler.dialects.nv_tileaa import ops as nv_tileaa
from tileiras.compiler.dialects.nv_tileas import ops as nv_tileas

REPOSITORY = Path(__file__).resolve().parents[2]
SPECS = (*cuda_tile.SPECS, *nv_tileaa.BY_NAME.all(), *nv_tileas.BY_NAME.all())


def test_every_op_has_a_sentence() -> None:
    wrong = [s.full_name for s in SPECS if not s.doc.endswith((".", "?")) or s.doc != s.doc.strip()]
    assert not wrong


def test_every_field_is_explained_and_nothing_else_is() -> None:
    names = {f.name for s in SPECS for f in (*s.operands, *s.attrs, *s.results)}
    assert names == FIELDS.keys() | TENSOR_FIELDS.keys() and not FIELDS.keys() & TENSOR_FIELDS.keys()


def test_the_page_is_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, str(REPOSITORY / "scripts" / "ops_page.py"), "--stdout"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    page = (REPOSITORY / "docs" / "reference" / "ops.md").read_text(encoding="utf-8")
    assert page == done.stdout, "run scripts/ops_page.py"
    assert all(f"### {s.full_name}\n" in page for s in cuda_tile.SPECS)


def test_who_reads_is_said_of_both_that_are_read() -> None:
    """One line serves every op with the field: `bulk.begin` has stages, `tensor_memory.begin` a sum."""
    assert {s.name for s in nv_tileas.BY_NAME.all() if any(a.name == "readers" for a in s.attrs)} == {
        "bulk.begin",
        "tensor_memory.begin",
    }
    assert "stage" in TENSOR_FIELDS["readers"] and "sum in tensor memory" in TENSOR_FIELDS["readers"]
