"""Tiles of pointers that feed products: which are copied asynchronously, how wide, and what their loops carry.

The corpus family `pointers` holds the numbers against formulas on every target, test_staged_products.py the order of accesses.
"""

from __future__ import annotations

import re

import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

import tileiras
from tests.corpus.export import bytecode_path
from tests.corpus.registry import CASES

TENSOR = {"sm_80": "mma.sync", "sm_90": "wgmma.mma_async", "sm_100": "tcgen05.mma", "sm_120": "mma.sync"}


def kernel(name: str, gpu_name: str) -> str:
    """The PTX of one kernel."""
    text = tileiras.compile(bytecode_path(CASES[name]), gpu_name=gpu_name).ptx
    return next(p for p in text.split(".visible .entry ")[1:] if p.startswith(CASES[name].entry + "("))


def loop_of(text: str) -> str:
    return text[text.index("cp.async.wait_group") : text.rindex("cp.async.commit_group")]


@pytest.mark.parametrize("gpu_name", TENSOR)
@pytest.mark.parametrize("name", ["pointers_bf16_nn_128", "pointers_f16_nt"])
def test_both_operands_travel_by_copies_of_16_bytes(name: str, gpu_name: str) -> None:
    text = kernel(name, gpu_name)
    assert TENSOR[gpu_name] in text and "cp.async.cg.shared.global" in text and "ld.global" not in text
    if gpu_name == "sm_100":  # copies arrive on mbarriers
        assert "cp.async.mbarrier.arrive" in text and "cp.async.wait_group" not in text
        return
    loop = loop_of(text)
    assert "cp.async.cg.shared.global" in loop and "cp.async.wait_group 0" not in loop
    assert loop.count("bar.sync") == 1 and "st.shared" not in loop


@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_120"])
def test_elements_that_are_converted_lie_in_shared_memory_as_they_were_loaded(gpu_name: str) -> None:
    text = kernel("pointers_tf32_nn", gpu_name)
    loop = text[text.index("cp.async.wait_group") : text.rindex("mma.sync")]
    assert "cp.async.cg.shared.global" in loop and "st.shared" not in loop and loop.count("bar.sync") == 1


@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_90"])
def test_pointers_that_step_are_carried_as_far_ahead_as_their_copies(gpu_name: str) -> None:
    loop = loop_of(kernel("cpp_pointers_stepping", gpu_name))
    assert "cp.async.cg.shared.global" in loop and "ld.global" not in loop and "st.shared" not in loop


@pytest.mark.parametrize("name", ["pointers_gathered_rows", "pointers_convolution"])
def test_rows_of_a_list_are_turned_to_the_copying_threads_once(name: str) -> None:
    loop = loop_of(kernel(name, "sm_80"))
    assert "cp.async.cg.shared.global" in loop and "st.shared" not in loop and loop.count("bar.sync") == 1


@pytest.mark.parametrize(
    ("name", "widths"),
    [
        ("cpp_pointers_stepping", {"16"}),
        ("cpp_pointers_stepping_narrow", {"4", "8", "16"}),
        ("cpp_pointers_stepping_unaligned", {"16"}),
    ],
)
def test_copies_are_as_wide_as_the_facts_allow_or_a_test_finds(name: str, widths: set[str]) -> None:
    copies = re.findall(
        r"cp\.async\.c[ag]\.shared\.global \[[^]]*\], \[[^]]*\], (\d+)", kernel(name, "sm_80")
    )
    assert set(copies) == widths


def test_only_zeros_can_be_filled_in_by_a_copy() -> None:
    text = kernel("pointers_other_padding", "sm_80")
    assert "cp.async.cg.shared.global" in text and "ld.global" in text
