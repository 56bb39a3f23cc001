"""Every exhibit compiles and is right, or fails with op, line, cause and a remedy that works.

What the kernels that work compute is also checked by all tests of the corpus, on every target and witness.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

from tests import peers
from tests.corpus.check import PASS, launch_case
from tests.corpus.export import bytecode_path
from tests.corpus.registry import CASES
from tests.museum.exhibits import HERE, Exhibit, exhibits
from tileiras import compile as compile_kernel
from tileiras.explain import table

ROOT = HERE.parents[1]
LIMIT_S = 60.0
WORKING = [e for e in exhibits() if e.case]
FAILING = [e for e in exhibits() if e.text]


def names(rows: list[Exhibit]) -> list[str]:
    return [e.name for e in rows]


def small(exhibit: Exhibit) -> bool:
    return "large" not in CASES[exhibit.case].tags


def command(folder: Path, text: str, *words: str) -> subprocess.CompletedProcess[str]:
    """tileiras on a text, from the folder it lies in."""
    (folder / "k.tileir").write_text(text)
    line = [sys.executable, "-m", "tileiras", "k.tileir", "--emit=ptx", "-o", "k.ptx", *words]
    env = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    return subprocess.run(line, cwd=folder, env=env, capture_output=True, text=True, timeout=LIMIT_S)


def test_the_table_is_whole() -> None:
    rows = exhibits()
    addresses = [address for row in rows for address, _ in row.threads]
    assert len(set(addresses)) >= 60
    assert all(re.fullmatch(r"https://github\.com/[\w.-]+/[\w.-]+/(issues|pull)/\d+", a) for a in addresses)
    assert len(set(names(rows))) == len(rows)
    assert {e.case for e in WORKING} <= set(CASES) and all(bool(e.case) != bool(e.text) for e in rows)
    assert {f"{e.text}.tileir" for e in FAILING} == {p.name for p in (HERE / "texts").iterdir()}
    shown = {e.case for e in WORKING} | {"museum_naive_dft_small"}
    assert shown == {name for name, case in CASES.items() if case.family == "museum"}


@pytest.mark.parametrize("exhibit", WORKING, ids=names(WORKING))
def test_it_compiles_for_the_gpu_of_the_report(exhibit: Exhibit) -> None:
    data = bytecode_path(CASES[exhibit.case]).read_bytes()
    program = compile_kernel(data, gpu_name=exhibit.gpu, emit="ptx")
    assert program.ptx and not any(d.severity == 3 for d in program.diagnostics)


@pytest.mark.parametrize("exhibit", [e for e in WORKING if e.spills is not None], ids=lambda e: e.name)
def test_it_spills_no_more_than_it_must(exhibit: Exhibit) -> None:
    peers.require("ptxas")
    program = compile_kernel(bytecode_path(CASES[exhibit.case]).read_bytes(), gpu_name=exhibit.gpu)
    assert [kernel.spill_bytes for kernel in program.kernels.values()] == [exhibit.spills]


RUN = [e for e in WORKING if small(e)] + [
    pytest.param(e, marks=pytest.mark.full) for e in WORKING if not small(e)
]


@pytest.mark.parametrize("exhibit", RUN, ids=lambda e: e.name)
def test_it_is_right_on_the_gpu_of_the_report(exhibit: Exhibit) -> None:
    case = CASES[exhibit.case]
    gpu = exhibit.gpu if int(exhibit.gpu[3:]) >= case.min_arch else f"sm_{case.min_arch}"
    outcome = launch_case(case, "emulator", gpu, LIMIT_S)
    assert outcome.word == PASS, f"{outcome.word}: {outcome.reason}\n{outcome.detail}"


@pytest.mark.parametrize("exhibit", FAILING, ids=names(FAILING))
def test_it_fails_with_op_line_cause_and_remedy(exhibit: Exhibit, tmp_path: Path) -> None:
    done = command(tmp_path, exhibit.source(), f"--gpu-name={exhibit.gpu}", "--diagnostic-codes")
    assert done.returncode == 5 and not (tmp_path / "k.ptx").exists()
    first = done.stderr.splitlines()[0]
    assert first.startswith(f"k.tileir:{exhibit.line}:") and ": error: " in first
    assert f"'{exhibit.op}' " in done.stderr
    assert f"note: code {exhibit.code}; tileiras --explain {exhibit.code}" in done.stderr
    cause, remedy = table()[exhibit.code].split("\n")[:2]
    assert cause.startswith("cause: ") and remedy.startswith("remedy: ")


@pytest.mark.parametrize("exhibit", FAILING, ids=names(FAILING))
def test_the_remedy_compiles(exhibit: Exhibit, tmp_path: Path) -> None:
    done = command(tmp_path, exhibit.remedied(), f"--gpu-name={exhibit.gpu}")
    assert done.returncode == 0, done.stderr
    assert ".entry k(" in (tmp_path / "k.ptx").read_text()


def test_without_ptxas_the_reason_is_told_and_the_remedy_works(tmp_path: Path) -> None:
    """What the first reports of a bare return code look like on a machine whose toolkit lacks a tool."""
    kernel = bytecode_path(CASES["museum_add_16_f32"])
    (tmp_path / "empty").mkdir()
    line = [
        sys.executable,
        "-m",
        "tileiras",
        str(kernel),
        "--gpu-name=sm_90",
        "-o",
        "k.out",
        "--diagnostic-codes",
    ]
    env = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "TILEIRAS_CACHE": "0"}

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*line, *words], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=LIMIT_S
        )

    done = run("--toolkit-root=empty")
    assert done.returncode == 2 and "is no CUDA toolkit: it has no ptxas" in done.stderr
    assert "note: code TC-0007" in done.stderr and "--emit=ptx" in table()["TC-0007"]
    assert run("--toolkit-root=empty", "--emit=ptx").returncode == 0
