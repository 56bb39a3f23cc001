"""ARCHITECTURE.md, "One product, from file to file": a compile meets these functions, in this order."""

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

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
STEPS = re.findall(r"^\| `([\w/]+\.py)` \| `(\w+)` \|", PAGE, re.MULTILINE)


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
