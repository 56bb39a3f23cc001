"""Constants as arguments of print: ptxas takes no immediate where a value is converted."""

from __future__ import annotations

import io
import re

import pytest

import tileiras

TEXT = """cuda_tile.module @m {{
  entry @k() {{
    %a = constant <{type}: {value}> : tile<{type}>
    %t = print_tko "got {spec}\\n", %a : tile<{type}> -> token
    return
  }}
}}"""


@pytest.mark.parametrize(("type", "value", "spec", "want"), [
    ("f32", "2.5", "%f", "2.500000"),
    ("f16", "2.5", "%f", "2.500000"),
    ("bf16", "2.5", "%f", "2.500000"),
    ("f64", "2.5", "%f", "2.500000"),
    ("f32", "2.5", "%d", "2"),
    ("f64", "2.5", "%d", "2"),
    ("i32", "7", "%f", "7.000000"),
    ("i64", "7", "%f", "7.000000"),
    ("i8", "7", "%d", "7"),
])  # fmt: skip
def test_a_constant_is_printed(type: str, value: str, spec: str, want: str) -> None:
    module = tileiras.load(TEXT.format(type=type, value=value, spec=spec))
    ptx = tileiras.compile(module, gpu_name="sm_90", emit="ptx").ptx
    assert not re.findall(r"^\s*cvt\S* \S+, -?[0-9].*$", ptx, flags=re.M)
    out = io.StringIO()
    tileiras.launch(module, "k", 1, [], target="emulator", out=out)
    assert out.getvalue() == f"got {want}\n"
