"""`python -m tests.corpus.changed`: it runs what has another PTX than before, that alone, and names what is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

from tests.corpus import changed

LINE = ["--gpu-name", "sm_80", "-k", "axpy_f32"]
KEYS = ["axpy_f32 sm_80 none", "axpy_f32 sm_80 launcher"]


@pytest.fixture
def before(tmp_path: Path) -> Path:
    """Digests of what the compiler makes now."""
    path = tmp_path / "before.json"
    assert changed.main([*LINE, "--write", str(path)]) == 0
    assert list(json.loads(path.read_text())) == KEYS
    return path


def test_what_is_as_before_is_not_run(before: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert changed.main([*LINE, "--against", str(before)]) == 0
    assert capsys.readouterr().out.endswith("0 of 2 kernels changed (0 are new), 0 runs, 0 wrong\n")


def test_what_changed_runs_in_each_order(before: Path, capsys: pytest.CaptureFixture[str]) -> None:
    known = json.loads(before.read_text())
    before.write_text(json.dumps({**known, KEYS[1]: "another"}))
    assert changed.main([*LINE, "--against", str(before)]) == 0
    assert capsys.readouterr().out.endswith("1 of 2 kernels changed (0 are new), 2 runs, 0 wrong\n")


def test_a_wrong_one_is_named_with_its_seed(
    before: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before.write_text(json.dumps({KEYS[0]: json.loads(before.read_text())[KEYS[0]]}))
    ran = changed.launch
    monkeypatch.setattr(changed, "launch", lambda *a: "1 of 4 differ" if a[-1] == 1 else ran(*a))
    assert changed.main([*LINE, "--against", str(before)]) == 1
    said = capsys.readouterr().out
    assert f"wrong {KEYS[1]}, seed 1: 1 of 4 differ" in said and said.endswith("2 runs, 1 wrong\n")


def test_a_kernel_that_no_longer_compiles_is_wrong(
    before: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise changed.tileiras.CompileError(3, [])

    monkeypatch.setattr(changed, "compiled", refuse)
    assert changed.main([*LINE, "--against", str(before)]) == 1
    assert f"{KEYS[0]}: error: exit code 3" in capsys.readouterr().out


def test_a_digest_is_of_one_kernel_and_what_stands_in_front_of_all() -> None:
    a, b = ".visible .entry a()\n{ ret; }\n", ".visible .entry b()\n{ ret; }\n"
    both = changed.digests(".version 8.7\n" + a + b)
    other = changed.digests(".version 8.7\n" + a + b.replace("ret", "trap"))
    assert both["a"] == other["a"] and both["b"] != other["b"]
    assert changed.digests(".version 8.8\n" + a + b)["a"] != both["a"]
