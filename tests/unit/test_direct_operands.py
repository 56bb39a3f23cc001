"""Right operands of wgmma that their threads load an iteration or two ahead, and operands whose low bits nobody reads."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

pytest.importorskip("numpy")

import tileiras
from tests.corpus import check as corpus
from tests.corpus.cases.staged import operands, weights
from tests.corpus.export import bytecode_path
from tests.corpus.registry import CASES
from tests.ptx_loops import loops_of
from tileiras.compiler.schedule import direct
from tileiras.compiler.schedule.interval import L2, SHARED, TENSOR, Interval

# steps enough to come round the ring several times, edges on every side; rows of B along N and along K
LONG = {
    "nn": replace(CASES["staged_tf32_nn"], inputs=operands(80, 112, 1040, "f32", "f32", "nn")),
    "nt": replace(CASES["staged_converted_tf32_nt"], inputs=operands(80, 112, 1040, "f32", "f32", "nt")),
    "8 bits, nn": replace(CASES["staged_converted_w8a16_nn"], inputs=weights(80, 144, 1040, "nn")),
    "8 bits, nt": replace(CASES["staged_converted_w8a16_nt"], inputs=weights(80, 144, 1040, "nt")),
    "nn, 128 rows": replace(CASES["staged_tf32_nn_128"], inputs=operands(144, 112, 1040, "f32", "f32", "nn")),
}


def ptx(name: str, **options: object) -> str:
    return tileiras.compile(bytecode_path(CASES[name]), gpu_name="sm_90", **options).ptx  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["staged_tf32_nn", "staged_converted_tf32_nt"])
def test_what_is_written_back_is_loaded_16_bytes_at_once_by_those_who_write_it(name: str) -> None:
    loop = next(text for text in loops_of(ptx(name)) if "wgmma" in text)
    loads = re.findall(r"ld\.global\.(\S+)", loop)
    assert loads and set(loads) == {"v4.b32"}
    assert len(loads) == loop.count("st.shared.v4") > 0 and "cp.async.c" in loop and "ld.shared" not in loop


@pytest.mark.sampled(6)
@pytest.mark.parametrize("form", LONG)
@pytest.mark.parametrize("seed", range(3))
def test_long_loops_under_the_race_check(form: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    launch = tileiras.launch

    def watched(source: object, *args: object, **options: object) -> None:
        launch(source, *args, **{**options, "check": True, "seed": seed})  # type: ignore[arg-type]

    monkeypatch.setattr(tileiras, "launch", watched)
    assert corpus.launch_case(LONG[form], "emulator", "sm_90", 300).word == corpus.PASS


def test_threads_that_have_half_of_16_bytes_of_a_row_load_so_much_at_once() -> None:
    loop = next(text for text in loops_of(ptx("staged_tf32_nn_128")) if "wgmma" in text)
    loads = re.findall(r"ld\.global\.(\S+)", loop)
    assert loads and set(loads) == {"v2.b32"} and "ld.shared" not in loop


def test_where_tensor_cores_are_what_a_step_waits_for_the_operand_keeps_its_stage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    busy = Interval({TENSOR: 4096, L2: 1024, SHARED: 1024})
    monkeypatch.setattr(direct, "interval", lambda *_: busy)
    loop = next(text for text in loops_of(ptx("staged_tf32_nn")) if "wgmma" in text)
    assert "ld.global" not in loop


def test_with_tensor_maps_nothing_is_loaded_by_threads() -> None:
    loops = loops_of(ptx("staged_tf32_nn", launch_abi="simt", tensor_maps="launcher"))
    assert not any("ld.global" in text for text in loops if "wgmma" in text)


@pytest.mark.parametrize("gpu_name", ["sm_90", "sm_100", "sm_120"])
def test_low_bits_stay_where_tensor_cores_alone_read_a_tf32(gpu_name: str) -> None:
    text = tileiras.compile(bytecode_path(CASES["staged_tf32_nn"]), gpu_name=gpu_name).ptx
    assert "cvt.rn.tf32" in text and "4294959104" not in text


def test_low_bits_go_where_somebody_else_reads_a_tf32() -> None:
    text = ptx("op_ftof_tf32_nearest_even")
    assert text.count("cvt.rn.tf32") == text.count("4294959104") > 0
