"""Two warpgroups that take turns at the tensor cores (TileASTakeTurns): right under any order, and what goes wrong is found."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

import tileiras
from tests import peers
from tests.corpus import check as corpus
from tests.corpus.export import bytecode_path
from tests.corpus.registry import CASES

LAUNCHER: dict[str, Any] = {
    "launch_abi": "simt",
    "emit": "ptx",
    "tensor_maps": "launcher",
    "gpu_name": "sm_90",
}
# 64, 128 and 256 columns, causal, a bias, groups of heads, half of the rows at a time
TURNS = (
    "staged_attention_f16", "staged_attention_wide_bf16", "staged_attention_full_f16", "staged_attention_full_causal_bf16",
    "staged_distance_attention_128", "staged_distance_attention_d256", "staged_flash_gqa_128",
)  # fmt: skip
GIVE = re.compile(r"\tbar\.arrive %r\d+, 256;\n")
TAKE = re.compile(r"\tbar\.sync %r\d+, 256;\n")


def compiled(name: str, **more: Any) -> tileiras.Program:
    return tileiras.compile(bytecode_path(CASES[name]), **{**LAUNCHER, **more})


def outcome(name: str, monkeypatch: pytest.MonkeyPatch, change: Any = None, **how: Any) -> Any:
    launch = tileiras.launch

    def watched(source: Any, *args: Any, **options: Any) -> None:
        program = tileiras.compile(source, lineinfo=True, **LAUNCHER)
        assert GIVE.search(program.ptx)
        if change is not None:
            right, program.ptx = program.ptx, change(program.ptx)
            assert program.ptx != right
        launch(program, *args, **{**options, **how})

    with monkeypatch.context() as patch:
        patch.setattr(tileiras, "launch", watched)
        return corpus.launch_case(CASES[name], "emulator", "sm_90", 300)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", TURNS)
def test_no_access_races(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    done = outcome(name, monkeypatch, check=True, seed=1)
    assert done.word == corpus.PASS, done.reason


@pytest.mark.full
@pytest.mark.parametrize("name", TURNS)
def test_no_order_races(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(20):
        done = outcome(name, monkeypatch, check=True, seed=seed)
        assert done.word == corpus.PASS, (seed, done.reason)


@pytest.mark.parametrize("more", [{"disable": ("turns",)}, {"disable": ("roles",)}, {"opt_level": 1}])
def test_parts_and_levels_that_leave_them_out(more: dict[str, Any]) -> None:
    assert not GIVE.search(compiled("staged_attention_f16", **more).ptx)


def test_products_without_a_softmax_between_them_have_none() -> None:
    for name in ("staged_bf16_nn_128", "staged_persistent", "staged_flash_bwd_f16_64"):
        assert not GIVE.search(compiled(name).ptx)


def test_each_turn_that_is_given_away_is_taken_again() -> None:
    """One more is taken in front of a loop than in it; the last one is given by the first warpgroup alone."""
    ptx = compiled("staged_attention_f16").ptx
    first = re.findall(r"\t@%p\d+ bar\.arrive (\d+), 256;", ptx)
    assert len(TAKE.findall(ptx)) == len(GIVE.findall(ptx)) + len(first) // 2
    assert first == ["14", "15"] * (len(first) // 2)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "wrong",
    [
        lambda ptx: GIVE.sub("", ptx, count=1),  # a turn that is never given away
        lambda ptx: re.sub(r"\t@%p\d+ bar\.arrive 14, 256;\n", "", ptx, count=1),  # nobody begins
        lambda ptx: re.sub(r"\t@%p\d+ bar\.arrive 15, 256;\n", "", ptx, count=1),  # the last turn is kept
    ],
)
def test_planted_bugs_are_found(wrong: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in (None, 1, 2):
        done = outcome("staged_attention_f16", monkeypatch, wrong, check=True, seed=seed)
        assert done.word != corpus.PASS
        assert "deadlock" in done.reason or "barrier divergence" in done.reason


def test_ptxas_computes_exponentials_before_it_waits(tmp_path: Path) -> None:
    ptxas, nvdisasm = peers.require("ptxas"), peers.require("nvdisasm")
    source, image = tmp_path / "k.ptx", tmp_path / "k.cubin"
    source.write_text(compiled("staged_attention_full_f16").ptx)
    subprocess.run([str(ptxas), "-arch=sm_90a", "-o", str(image), str(source)], check=True)
    code = subprocess.run(
        [str(nvdisasm), "-c", str(image)], check=True, capture_output=True, text=True
    ).stdout
    parts = re.split(r"BAR\.ARV R\d+|BAR\.SYNC\S* R\d+", code)
    kinds = re.findall(r"(BAR\.ARV|BAR\.SYNC)\S* R\d+", code)
    waits = [part.count("MUFU.EX2") for part, kind in zip(parts[1:], kinds) if kind == "BAR.ARV"]
    turns = [part.count("MUFU.EX2") for part, kind in zip(parts[1:], kinds) if kind == "BAR.SYNC"]
    assert waits and min(waits) >= 64, "a thread has 64 scores of a half"
    assert max(turns[:-1]) == 0
