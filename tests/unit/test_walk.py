"""What ARCHITECTURE.md says of files is so: a product meets its functions in their order, and files that are named exist."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import tileiras
from tests.corpus.export import bytecode_path
from tests.corpus.registry import CASES
from tileiras.compiler.pipeline import PIPELINE
from tileiras.tools import opt

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
ROOTS = ("tileiras", "tests", "scripts", "benchmarks", "examples", "nvcc_shim", "setuptools_ext")
STEPS = re.findall(r"^\| `([\w/]+\.py)` \| `(\w+)` \|", PAGE, re.MULTILINE)


def test_passes_stand_at_a_glance_in_the_order_in_which_they_run() -> None:
    page = PAGE.split("## The pipeline at a glance", 1)[1].split("\n## ", 1)[0]
    named = re.findall(r"^      \|  ((?:\w+ ?)+)", page, re.MULTILINE)
    short = [re.sub("^TileA[AS]|Attributes$", "", row.name) for row in PIPELINE]
    words = [word for word in " ".join(named).split() if word != "ptx" and not re.fullmatch(r"D\d\d", word)]
    assert len(words) > 30 and set(words) <= set(short)
    assert words == sorted(words, key=short.index)


def test_a_product_goes_from_file_to_file_as_the_map_says(monkeypatch: pytest.MonkeyPatch) -> None:
    met: dict[tuple[str, str], int] = {}

    def called(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            path = frame.f_code.co_filename
            met.setdefault((path, frame.f_code.co_name), len(met))

    source = bytecode_path(CASES["staged_bf16_nn"])
    sys.setprofile(called)
    try:
        tileiras.compile(source, gpu_name="sm_90", emit="ptx", launch_abi="simt")
    finally:
        sys.setprofile(None)
    at = [met.get((str(ROOT / "tileiras" / file), name), -1) for file, name in STEPS]
    assert len(STEPS) > 20 and [step for step, order in zip(STEPS, at) if order < 0] == []
    assert [step for step, order, following in zip(STEPS, at, at[1:]) if order > following] == []


def test_the_text_that_the_map_shows_of_a_product_is_what_is_decided_for_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its layout letter for letter, its ops in their order."""
    text = tmp_path / "k.tileir"
    text.write_text(str(tileiras.load(bytecode_path(CASES["staged_bf16_nn"]))))
    assert opt.main([str(text), "--pipeline-to=tileas", "--gpu-name=sm_90"]) == 0
    dump = capsys.readouterr().out
    layout = re.search(r"^    (#c = #linear<.*>)$", PAGE, re.MULTILINE)
    assert layout and layout[1] in dump
    shown = PAGE.split("### Roles and agents", 1)[1].split("\n### ", 1)[0]
    ops = re.findall(r"^    (?:  )*(?:%sum = )?(?:nv_tileas\.)?([a-z_.]+)(?:$| (?!\.))", shown, re.MULTILINE)
    made = iter(re.findall(r"nv_tileas\.([a-z_.]+) ", dump))
    assert len(ops) > 10 and [op for op in ops if op not in made] == []


def test_files_that_the_documents_name_are_there() -> None:
    pages = [ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
    there = [f"/{path.relative_to(ROOT).as_posix()}" for top in ROOTS for path in (ROOT / top).rglob("*.py")]
    gone = []
    for page in pages:
        for name in re.findall(r"`((?:[a-z_]+/)*[a-z_]+\.py)`", page.read_text(encoding="utf-8")):
            if not any(path.endswith(f"/{name}") for path in there):
                gone.append(f"{page.name}: {name}")
    assert gone == []
