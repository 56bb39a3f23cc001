"""Bounds of kernel specs and tensors."""

from __future__ import annotations

import pytest

from tileiras.compiler.dialects.nv_tileaa.kernel_spec import read
from tileiras.compiler.dialects.nv_tileaa.verify import spec_problem


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("num_warps", (1, 2, 4, 8, 16, 32), (0, 3, 9, 33, 64)),
        ("num_ctas", (1, 16), (0, 17, "x")),
        ("cluster_dim", ((1, 1, 1), (2, 1, 4)), ((0, 1, 1), (1, 1), 2, ("x", 1, 1))),
        ("num_stages", (1, 2), (0, "x")),
        ("occupancy", (1, 32), (0, 33, "x")),
    ],
)
def test_entries_of_a_kernel_spec(name: str, good: tuple[object, ...], bad: tuple[object, ...]) -> None:
    for value in good:
        assert spec_problem(read({"num_warps": 4, name: value})) is None
    for value in bad:
        assert spec_problem(read({"num_warps": 4, name: value})) == (name, value)


def test_a_spec_has_warps() -> None:
    assert spec_problem({}) == spec_problem(None) == spec_problem({"num_ctas": 1}) == ("num_warps", "missing")
    assert spec_problem(read({"num_warps": 4, "warps": 2})) == ("warps", 2)
