"""`python -m tests.corpus.seeds`: what it runs, and that a kernel which is wrong in some order ends it with 1."""

from __future__ import annotations

import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

from tests.corpus import seeds

LINE = ["--gpu-name", "sm_100", "--seeds", "2", "-k", "once_cross_64"]


def test_each_seed_and_each_part_that_changes_the_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert seeds.main(LINE) == 0
    kernels, runs, wrong, left_out = [int(n) for n in capsys.readouterr().out.split() if n.isdecimal()]
    assert (kernels, wrong, left_out) == (1, 0, 0) and runs > 2
    assert seeds.main([*LINE, "--no-parts"]) == 0
    assert ", 2 runs, 0 wrong" in capsys.readouterr().out


def test_kernels_that_do_nothing_asynchronously_are_not_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert seeds.main(["--gpu-name", "sm_90", "-k", "axpy_f32"]) == 0
    assert capsys.readouterr().out.startswith("0 asynchronous kernels, 0 runs")


def test_a_wrong_one_is_named_with_its_seed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = seeds.launch
    monkeypatch.setattr(seeds, "launch", lambda *a: "1 of 4 differ" if a[-1] == 1 else ran(*a))
    assert seeds.main([*LINE, "--no-parts"]) == 1
    said = capsys.readouterr().out
    assert "wrong once_cross_64 sm_100, seed 1: 1 of 4 differ" in said and ", 2 runs, 1 wrong" in said
