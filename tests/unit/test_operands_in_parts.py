"""Operands of wgmma of which a tile makes several: its high and its low part."""

from __future__ import annotations

import re

import pytest

import tileiras
from tests.corpus.export import bytecode_path
from tests.corpus.registry import CASES
from tests.ptx_loops import loops_of

FORMS = ["staged_converted_tf32_nn_in_parts", "staged_converted_tf32_nt_in_parts"]


@pytest.mark.parametrize("name", FORMS)
def test_parts_are_computed_where_products_want_them(name: str) -> None:
    """The left tile is read as fragments, once; both parts of the right one are written, 16 bytes at a time."""
    ptx = tileiras.compile(bytecode_path(CASES[name]), gpu_name="sm_90", emit="ptx").ptx
    assert ptx is not None
    loop = next(text for text in loops_of(ptx) if "wgmma" in text)
    rows, columns, depth = (t for t in CASES[name].signature[3:6])
    threads = int(ptx.split(".reqntid ")[1].split(",")[0].split()[0])
    assert loop.count("st.shared.v4.b32") == 2 * depth * columns // threads // 4
    assert loop.count("st.shared") == loop.count("st.shared.v4.b32")
    assert loop.count("ldmatrix") == rows * depth // threads // 4
    words = sum(int(n) for n in re.findall(r"ld\.shared\.v([24])", loop))
    assert words == depth * columns // threads  # of the right tile
