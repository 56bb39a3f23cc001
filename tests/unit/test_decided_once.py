"""What is decided in one place: instructions of products in the schedule room, numbers in the cost model."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tileiras.compiler.target import sm
from tileiras.compiler.target.cost import CostModel

ROOT = Path(__file__).resolve().parents[2] / "tileiras" / "compiler"

# numbers outside the cost model, and why none of them is a choice among programs
ELSEWHERE = {
    # bounds on searches: compile time
    "passes/tileaa/short_results.py:DEPTH": "search",
    "passes/tileaa/commute.py:MAX_PAIRS": "search", "passes/tileaa/axis.py:MAX_DIVISOR": "search",
    "lower/tileaa_to_tileas/infer.py:CHEAP_DEPTH": "search",
    "lower/tileas_to_nvvm/guarded.py:_FEW": "search", "lower/tileas_to_nvvm/guarded.py:_PARTS": "search",
    "lower/tileaa_to_tileas/infer.py:CHEAP_HEIGHT": "search", "schedule/products.py:REACH": "search",
    "schedule/restage.py:SEARCH": "search", "schedule/pointer_needs.py:MOST_SCALARS": "search",
    "passes/nvvm/limit_registers.py:MOST_RECORDS": "search",
    "passes/tileaa/transpose_scores.py:MOST_OPS": "search", "passes/tileas/again.py:MOST_OPS": "search",
    "passes/loops/asked_ahead.py:MOST": "search",
    "passes/tileaa/exact_integers.py:DEPTH": "search", "lower/tileaa_to_tileas/rows.py:MOST_OPS": "search",
    # limits of formats, instructions and machines: other values would be wrong
    "passes/nvvm/module_verifier.py:MAX_THREADS": "limit",
    "lower/tileaa_to_tileas/rows.py:MATRIX_BITS": "limit",
    "lower/tileas_to_nvvm/few_bits.py:BYTE": "limit", "lower/tileas_to_nvvm/few_bits.py:SIGN": "limit",
    "passes/tileaa/facts.py:VECTOR_BYTES": "limit", "passes/tileas/place_shared.py:ALIGN": "limit",
    "passes/tileaa/short_results.py:SHORT_BITS": "limit", "schedule/kernel_spec.py:WARPS": "limit",
    "lower/cuda_tile_to_tileaa/scaled.py:MOST_ELEMENTS": "limit", "lower/cuda_tile_to_tileaa/scaled.py:NAN": "limit",
    "lower/tileas_to_nvvm/block_scaled.py:SCALES_A_WORD": "limit", "lower/tileas_to_nvvm/block_scaled.py:ROWS": "limit",
    "lower/tileas_to_nvvm/block_scaled.py:SIGNS": "limit", "lower/tileas_to_nvvm/local.py:LOCAL_BYTES": "limit",
    "lower/tileas_to_nvvm/remarks.py:SECTOR_BYTES": "limit", "lower/tileas_to_nvvm/remarks.py:WIDEST_BYTES": "limit",
    "lower/tileas_to_nvvm/system.py:_CALL_ARGS": "limit", "lower/tileas_to_nvvm/tensor_memory.py:_BARRIERS": "limit",
    "lower/tileas_to_nvvm/tensor_memory.py:LANES_AT": "limit",
    "lower/tileas_to_nvvm/scaled_halves.py:NAN": "limit", "lower/tileas_to_nvvm/scaled_halves.py:SIGNS": "limit",
    "passes/tileaa/agent_verifier.py:WARPGROUP": "limit", "passes/tileaa/agent_verifier.py:LAST_BARRIER": "limit",
    "lower/tileas_to_nvvm/bulk.py:_BEYOND": "limit", "schedule/bulk.py:_MOST_EXTENT": "limit",
    "schedule/bulk.py:SWIZZLED_ROWS": "limit", "schedule/staging.py:ONE": "limit",
    "passes/tileas/tensor_memory_products.py:_RING_BARRIERS": "limit",
    "lower/tileas_to_nvvm/staging.py:(_SCALE_TILE, _SCALE_THREADS)": "limit",
    "lower/tileas_to_nvvm/tensor_memory_scaled.py:_ELEMENT_SIGNS": "limit",
    "lower/tileas_to_nvvm/tensor_memory_scaled.py:_SCALE_SIGNS": "limit",
    "lower/tileas_to_nvvm/mbarriers.py:WHOLE_WARP": "limit", "passes/tileaa/exact_integers.py:LARGEST": "limit",
    "passes/loops/loop_index.py:SELDOM": "limit", "passes/tileas/index_forms.py:(MOST, TERMS)": "limit",
    "passes/loops/join_products.py:ACCUMULATOR": "limit",
    "passes/tileas/unmasked_steps.py:(LEAST, GREATEST)": "limit", "passes/loops/choose_padding.py:LAST": "limit",
}  # fmt: skip


def numbers(path: Path) -> set[str]:
    """Names of a file's numeric constants."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        if not isinstance(node, (ast.Assign, ast.AnnAssign)) or node.value is None:
            continue
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        leaves = [n for n in ast.walk(node.value) if isinstance(n, ast.expr) and not isinstance(n, ast.BinOp)]
        if all(isinstance(n, (ast.Constant, ast.Tuple, ast.UnaryOp)) for n in leaves) and any(
            isinstance(n, ast.Constant) and type(n.value) in (int, float) for n in leaves
        ):
            found.add(ast.unparse(target))
    return found


def test_numbers_that_choices_are_made_by_stand_in_the_cost_model() -> None:
    found = set()
    for room in ("passes", "lower", "schedule"):
        for path in (ROOT / room).rglob("*.py"):
            if "math" not in path.parts:  # coefficients
                found |= {f"{path.relative_to(ROOT)}:{name}" for name in numbers(path)}
    found = {name for name in found if name.rpartition(":")[2] != "(READ, WRITE)"}
    assert found == set(ELSEWHERE)


def test_every_number_of_the_cost_model_has_a_source_and_a_reader() -> None:
    path = ROOT / "target" / "cost.py"
    text = path.read_text()
    body = next(n for n in ast.parse(text).body if isinstance(n, ast.ClassDef)).body
    lines = text.splitlines()
    readers = "".join(p.read_text() for p in ROOT.rglob("*.py") if p != path)
    names = []
    for node in body:
        if isinstance(node, (ast.Assign, ast.AnnAssign)):
            name = ast.unparse(node.targets[0] if isinstance(node, ast.Assign) else node.target)
            if name == "__slots__":
                continue
            names.append(name)
            assert re.search(r"  # .*\w \([GWLSTF]\)$", lines[node.lineno - 1]), f"{name} has a source"
            assert re.search(rf"\.{name}\b", readers), f"{name} is read"
    assert len(names) > 30


def test_only_the_schedule_room_asks_for_the_instruction_of_a_product() -> None:
    asking = {
        str(path.relative_to(ROOT))
        for path in ROOT.rglob("*.py")
        if re.search(r"\bfind_(atom|scaled)\(", path.read_text()) and path.parts[-2] != "target"
    }
    # whether a scaled product stays one is asked where Tile IR is lifted
    assert asking == {"schedule/instructions.py", "passes/conversions.py"}


def test_the_lowering_looks_for_no_facts() -> None:
    """Widths and masks of accesses stand in the text (schedule/global_moves.py); a remark may say why they are what they are."""
    room = ROOT / "lower" / "tileas_to_nvvm"
    asking = {
        path.name for path in room.rglob("*.py") if re.search(r"\bFacts\b|\bfacts_of\b", path.read_text())
    }
    assert asking == {"remarks.py"}


def test_whether_a_remark_was_asked_for_is_found_out_in_one_place() -> None:
    asking = {
        str(path.relative_to(ROOT.parent))
        for path in ROOT.parent.rglob("*.py")
        if re.search(r"\.kind\b[^\n]*\"none\"", path.read_text())
    }
    assert asking == {"diag.py"}


@pytest.mark.parametrize("number", [75, 80, 86, 90, 100, 120])
def test_a_model_for_each_target(number: int) -> None:
    cost = CostModel(sm.ROWS[number])
    assert cost.shared_bytes < sm.ROWS[number].smem_bytes_max
    assert 2 <= cost.wanted(10) <= cost.max_stages and cost.wanted(10**6) == 3
    assert cost.wanted(10, 7) == 7, "a hint wins"
    assert cost.stages(10, cost.shared_bytes, 0) == 1, "what does not fit is not there"


def test_a_stage_that_costs_the_copies_of_a_block_is_left_out() -> None:
    cost, stage = CostModel(sm.ROWS[120]), 16 << 10  # 99 KiB a block, 100 an SM
    assert cost.stages(256, stage, 0) == 5, "alone, it wants four on their way"
    assert cost.stages(256, stage, 0, most_blocks=2) == 3, "two blocks have two each"
    assert cost.stages(256, stage, 4 << 10, most_blocks=2) == 5, "a second one does not fit"
    assert cost.stages(256, stage, 0, wish=5, most_blocks=2) == 5, "a hint wins"
    larger = CostModel(sm.ROWS[90])  # 227 and 228 KiB
    assert larger.stages(256, stage, 0, most_blocks=2) == 5, "two blocks fit as it is"
    assert larger.stages(256, stage, 0, most_blocks=4) == 4, (
        "three blocks have nine under way, two eight, four eight"
    )


EDITS = {"set_operand", "erase", "insert_before", "insert_after", "replace_all_uses_with", "move_before"}
EDITORS = tuple(f"tileiras.compiler.ir.{name}" for name in ("build", "clone", "inline", "rewrite"))


def test_plans_do_not_edit() -> None:
    """What the schedule room decides, a pass carries out: a plan that is refused leaves the IR as it was."""
    found = []
    for path in sorted((ROOT / "schedule").glob("*.py")):
        tree = ast.parse(path.read_text())
        checked = [
            n for n in tree.body if not (isinstance(n, ast.If) and "TYPE_CHECKING" in ast.unparse(n.test))
        ]
        for node in (n for top in checked for n in ast.walk(top)):
            imported = isinstance(node, ast.ImportFrom) and node.module in EDITORS
            called = (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in EDITS
            )
            stored = isinstance(node, (ast.Assign, ast.AugAssign)) and any(
                isinstance(t, ast.Subscript) and ast.unparse(t.value).endswith(".attrs")
                for t in (node.targets if isinstance(node, ast.Assign) else [node.target])
            )
            if imported or called or stored:
                found.append(f"{path.name}:{node.lineno}: {ast.unparse(node)}")
    assert found == []
