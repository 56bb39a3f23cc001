"""16-bit results of products are stored in 16 bytes, through shared memory."""

from __future__ import annotations

import re

import pytest

import tileiras
from tests.fixtures import BYTECODE


@pytest.mark.parametrize("name", ["staged_bf16_nn_128", "staged_f16_nt"])
@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_90", "sm_120"])
def test_results_leave_in_16_bytes(name: str, gpu_name: str) -> None:
    ptx = tileiras.compile((BYTECODE / f"{name}.tilebc").read_bytes(), gpu_name=gpu_name).ptx
    assert set(re.findall(r"st\.global\.[\w.]+", ptx)) == {"st.global.v4.b32"}
    assert ("stmatrix.sync.aligned.m8n8.x4.shared.b16" in ptx) == (gpu_name != "sm_80")
