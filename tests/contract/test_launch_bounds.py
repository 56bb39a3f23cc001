"""The bounds of a launch, one by one: each limit holds, and the next number is refused by name."""

from __future__ import annotations

import itertools
import subprocess
from types import SimpleNamespace
from typing import Any

import peers
import pytest
from contract.kit import compile_, entry, messages, module

from tileiras.compiler import pipeline, source
from tileiras.compiler.passes.nvvm.module_verifier import launch_bound_problems
from tileiras.compiler.target import sm
from tileiras.diag import Sink


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


@pytest.mark.parametrize("extents", [(0, 1, 1), (4, -1, 1), (-2, -2, 1)])
def test_extents_below_1(extents: tuple[int, int, int]) -> None:
    listed = ", ".join(map(str, extents))
    assert problems(block=extents) == [f"nvvm.reqntid [{listed}] has an extent below 1"]
    assert problems(cluster_dim=extents) == [f"nvvm.cluster_dim [{listed}] has an extent below 1"]
    assert problems("sm_80", cluster_dim=extents) == []


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


# What a frontend may write, one by one: attributes of the module, attributes of the entry.
BOUNDS = {
    "cluster": ("tt.cluster_dim = [2, 1, 1]", ""),
    "maxnreg": ("", "nvvm.maxnreg = 64 : i32"),
    "minctasm": ("", "nvvm.minctasm = 2 : i32"),
    "maxclusterrank": ("", "nvvm.maxclusterrank = 8 : i32"),
    "blocksareclusters": ("", "nvvm.blocksareclusters"),
    "occupancy": ("", "nv_tileaa.occupancy = 2 : i32"),
}
EXCLUDED = {
    ("cluster", "maxclusterrank"): "nvvm.maxclusterrank 8 and nvvm.cluster_dim [2, 1, 1] exclude each other",
    ("cluster", "blocksareclusters"):
        "nvvm.blocksareclusters is only legal with cluster_dim [1, 1, 1], not with nvvm.cluster_dim [2, 1, 1]",
    ("maxclusterrank", "blocksareclusters"): "nvvm.maxclusterrank 8 and nvvm.blocksareclusters exclude each other",
}  # fmt: skip


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_every_pair_is_refused_here_or_taken_by_ptxas(target: str) -> None:
    """What layer 3 lets through, ptxas assembles: no pair of bounds is an error of ptxas."""
    peers.require("ptxas")
    for first, second in itertools.combinations_with_replacement(BOUNDS, 2):
        chosen = [BOUNDS[name] for name in dict.fromkeys((first, second))]
        number = int(target[3:])
        outer = [f"nv_tileaa.compute_capability = {number} : i32", *(m for m, _ in chosen if m)]
        text = module(entry(attrs=", ".join(e for _, e in chosen if e)), attrs=", ".join(outer))
        code, found, _ = compile_(text, target, emit="cubin")
        said = EXCLUDED.get((first, second))
        if target == "sm_80" and "maxclusterrank" in (first, second):
            said = None  # no clusters there: the directive is not written
        if said is None:
            assert code == 0, (first, second, messages(found))
        else:
            assert code == 5 and said in messages(found)[0], (first, second, messages(found))


@pytest.mark.parametrize("target", ["sm_90", "sm_100"])
@pytest.mark.parametrize(
    ("pair", "refused"),
    [(("cluster", "maxclusterrank"), True), (("maxclusterrank", "blocksareclusters"), True),
     (("cluster", "blocksareclusters"), False)],
)  # fmt: skip
def test_what_is_refused_here_ptxas_refuses(
    pair: tuple[str, str], refused: bool, target: str, tmp_path: Any
) -> None:
    """Without layer 3 the PTX of an excluded pair is an error of ptxas; the one that it takes the contract forbids."""
    ptxas = peers.require("ptxas")
    chosen = [BOUNDS[name] for name in pair]
    outer = [f"nv_tileaa.compute_capability = {target[3:]} : i32", *(m for m, _ in chosen if m)]
    text = module(entry(attrs=", ".join(e for _, e in chosen if e)), attrs=", ".join(outer))
    sink, path = Sink(), tmp_path / "k.ptx"
    made = pipeline.compile_module(source.load(text, sink), sm.find(target), sink, skip=("ModuleVerifier",))
    path.write_text(made.ptx)
    done = subprocess.run(
        [str(ptxas), "-arch", target, str(path), "-o", str(tmp_path / "k.cubin")],
        capture_output=True,
        text=True,
    )
    assert (done.returncode != 0) == refused, done.stderr
    assert not refused or "Conflicting directives" in done.stderr + done.stdout
