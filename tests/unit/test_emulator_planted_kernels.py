"""Bugs planted in what `tileiras` makes of real kernels (tests/planted_ptx.py) are found; docs/ptx-emulator.md has the table."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

from tests.planted_ptx import BUGS, findings

PAIRS = [(bug, kernel) for bug, (_, kernels, _) in BUGS.items() for kernel in kernels]
KERNELS = sorted({kernel for _, kernel in PAIRS})


def found(bug: str, kernel: str, seeds: range) -> int:
    """Seeds that find it, by name, with instruction and line."""
    edit, _, says = BUGS[bug]
    texts = [findings(kernel, edit, seed) for seed in seeds]
    return sum(
        bool(re.search(says, t, re.DOTALL) and re.search(r"PTX line \d+, `|kernel '", t)) for t in texts
    )


def unchanged(text: str) -> str:
    return text


@pytest.mark.sampled(5)
@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found(bug: str) -> None:
    assert found(bug, BUGS[bug][1][0], range(1)) == 1


@pytest.mark.sampled(5)
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_kernels_as_they_are_have_no_findings(kernel: str) -> None:
    assert findings(kernel, unchanged, 0) == ""


@pytest.mark.full
@pytest.mark.parametrize("bug, kernel", PAIRS)
def test_planted_bugs_are_found_by_at_least_18_of_20_seeds(bug: str, kernel: str) -> None:
    assert found(bug, kernel, range(20)) >= 18


@pytest.mark.full
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_kernels_as_they_are_have_no_findings_under_20_seeds(kernel: str) -> None:
    for seed in range(20):
        assert findings(kernel, unchanged, seed) == ""
