"""The math library against mpmath: generated PTX on the emulator stays within the bounds of docs/accuracy.md."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
pytest.importorskip("mpmath")
sys.path.insert(0, str(ROOT / "scripts"))
import measure_accuracy  # noqa: E402

BOUND_ULP: dict[str, dict[str, float]] = {}  # functions allowed more than two
QUICK = {"exp", "log", "sin", "tanh", "fpowf", "remf"}


def documented() -> dict[tuple[str, str], float]:
    """Maximum errors by (function, type) as the page says them."""
    out = {}
    for line in (ROOT / "docs" / "accuracy.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 5 and cells[1].replace(".", "").isdigit():
            out[cells[0], "f32"], out[cells[0], "f64"] = float(cells[1]), float(cells[2])
    return out


CASES = [
    pytest.param(name, elem, marks=[] if name in QUICK else [pytest.mark.full])
    for name in (*measure_accuracy.UNARY, *measure_accuracy.BINARY)
    for elem in ("f32", "f64")
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("name", "elem"), CASES)
def test_errors_stay_within_the_bound(name: str, elem: str) -> None:
    worst, case = measure_accuracy.measure(name, elem, "emulator", seed=77)
    bound = BOUND_ULP.get(name, {}).get(elem, 2.0)
    assert worst <= bound, case


@pytest.mark.parametrize(("name", "elem"), CASES)
def test_the_page_is_not_better_than_the_bound(name: str, elem: str) -> None:
    assert documented()[name, elem] <= BOUND_ULP.get(name, {}).get(elem, 2.0)
