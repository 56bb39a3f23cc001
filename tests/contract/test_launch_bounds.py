"""The bounds of a launch, one by one: each limit holds, and the next number is refused by name."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tileiras.compiler.passes.nvvm.module_verifier import launch_bound_problems
from tileiras.compiler.target import sm


def problems(target: str = "sm_90", block: tuple[int, int, int] = (128, 1, 1), **attrs: Any) -> list[str]:
    """What is wrong with a kernel of these attributes ("maxnreg" for nvvm.maxnreg)."""
    named = {f"nvvm.{name}": value for name, value in attrs.items()}
    fn = SimpleNamespace(attrs=named, block=block, cluster=attrs.get("cluster_dim", (1, 1, 1)))
    return launch_bound_problems(fn, sm.find(target))


def test_threads() -> None:
    assert problems(block=(1024, 1, 1)) == problems(block=(16, 8, 8)) == []
    assert problems(block=(1025, 1, 1)) == ["nvvm.reqntid [1025, 1, 1] is more than 1024 threads"]
    assert problems(block=(32, 33, 1)) == ["nvvm.reqntid [32, 33, 1] is more than 1024 threads"]
    assert problems(block=(16, 8, 9)) == ["nvvm.reqntid [16, 8, 9] is more than 1024 threads"]


@pytest.mark.parametrize(
    ("name", "low", "high"), [("maxnreg", 1, 255), ("minctasm", 1, 32), ("maxclusterrank", 1, 16)]
)
def test_numbers(name: str, low: int, high: int) -> None:
    for value in (low, high):
        assert problems(**{name: value}) == []
    for wrong in (low - 1, high + 1, "8"):
        assert problems(**{name: wrong}) == [f"nvvm.{name} must be from {low} to {high}, but is {wrong}"]


def test_clusters() -> None:
    """Where the target has none, the directives are not written and their numbers mean nothing."""
    assert problems(cluster_dim=(4, 4, 1)) == []
    assert problems(cluster_dim=(17, 1, 1)) == ["nvvm.cluster_dim [17, 1, 1] is more than 16 CTAs"]
    assert problems("sm_80", cluster_dim=(17, 1, 1)) == []
    assert problems(cluster_dim=(2, 1, 1), maxclusterrank=8) == [
        "nvvm.maxclusterrank 8 and nvvm.cluster_dim [2, 1, 1] exclude each other"
    ]
    assert problems(cluster_dim=(1, 1, 1), maxclusterrank=8) == []
    assert problems("sm_80", cluster_dim=(2, 1, 1), maxclusterrank=8) == []
    wrong = (
        "nvvm.blocksareclusters is only legal with cluster_dim [1, 1, 1], not with nvvm.cluster_dim [1, 2, 1]"
    )
    assert problems(cluster_dim=(1, 2, 1), blocksareclusters=True) == [wrong]
    assert problems(cluster_dim=(1, 2, 1), blocksareclusters=False) == []
    assert problems(blocksareclusters=True) == []
