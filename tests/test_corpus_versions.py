"""The same kernels in every bytecode version compute the same numbers, and read as the same module."""

from __future__ import annotations

import dataclasses
import struct
from pathlib import Path

import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

from tests.corpus import check
from tests.corpus.case import Case
from tests.corpus.registry import CASES
from tests.corpus.versions import CPP, CPP_VERSION, LATER, PYTHON, WRITER, path_of, versions_of
from tests.fixtures import BYTECODE

ALL = [(name, v) for name in (*PYTHON, *WRITER) for v in versions_of(CASES[name])]
STRAIGHT = ("vadd_f32", "padding_modes_f32", "atomic_integers_i32", "exp_special_f32")
CPP_CASES = [c.name for c in CASES.values() if c.frontend == "cpp"]


def run_file(case: Case, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Launches `case` from another file than its own."""
    monkeypatch.setattr(check, "bytecode_path", lambda _: path)
    outcome = check.launch_case(case, "reference", "sm_90")
    assert outcome.word == check.PASS, f"{outcome.reason}\n{outcome.detail}"


@pytest.mark.parametrize(("name", "version"), ALL)
def test_every_version_computes_the_same(name: str, version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = path_of(name, version)
    major, minor = struct.unpack_from("<BB", path.read_bytes(), 8)
    assert f"{major}.{minor}" == version
    run_file(CASES[name], path, monkeypatch)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", CPP_CASES)
def test_nvcc_of_the_next_release(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES[name]
    run_file(case, path_of("cpp_" + Path(case.source).stem, CPP_VERSION), monkeypatch)


@pytest.mark.parametrize("name", [*STRAIGHT, *WRITER])
def test_every_version_reads_as_the_same_text(name: str) -> None:
    """Apart from hints, which name an architecture before 13.3. Kernels without loops: from 13.3 on the frontend
    also hoists views out of them."""
    import tileiras

    texts = {}
    for version in versions_of(CASES[name]):
        text = str(tileiras.load(path_of(name, version)))
        texts[version] = text.replace("sm_90 = {", "default = {")
    assert len(set(texts.values())) == 1, {v: len(t) for v, t in texts.items()}


def test_every_file_is_listed() -> None:
    expected = {path_of(*pair).name for pair in ALL} | {
        path_of(f"cpp_{s}", CPP_VERSION).name for s in (*CPP, LATER)
    }
    assert {p.name for p in (BYTECODE / "versions").glob("*.tilebc")} == expected
    assert {p.stem for p in BYTECODE.glob("*.tilebc")} == {c.module for c in CASES.values()}


@pytest.mark.parametrize("name", PYTHON)
@pytest.mark.parametrize("version", ["13.1", "13.3", "13.4"])
def test_written_in_another_version_computes_the_same(
    name: str, version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Our writer: what the 13.4 frontend wrote, read and written as `version`."""
    import tileiras

    case = dataclasses.replace(CASES[name], version=version)
    path = tmp_path / "again.tilebc"
    path.write_bytes(tileiras.load(path_of(name, "13.4")).to_bytecode(version))
    run_file(case, path, monkeypatch)
