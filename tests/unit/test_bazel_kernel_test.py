"""The command behind tile_test: reading cases, comparing, exit codes."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from tileiras.tools import kernel_test

KERNEL = Path(__file__).resolve().parents[2] / "examples" / "bazel" / "kernels" / "vector_add.tileir"


def case(tmp_path: Path, **arrays: object) -> str:
    path = tmp_path / "case.npz"
    np.savez(path, **{name.replace("__", ":"): array for name, array in arrays.items()})
    return str(path)


def add_arrays(n: int = 100) -> dict[str, object]:
    a = np.linspace(-3, 3, n, dtype=np.float32)
    return {"arg0": a, "arg1": 2 * a, "arg2": np.zeros_like(a), "arg3": np.int32(n), "expected2": a + 2 * a}


def run(data: str, *words: str) -> int:
    return kernel_test.main(
        [str(KERNEL), "--entry", "vector_add", "--data", data, "--target", "reference", *words]
    )


def test_right_and_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arrays = add_arrays()
    assert run(case(tmp_path, **arrays)) == 0
    assert "PASSED: vector_add on reference" in capsys.readouterr().out
    wrong = np.array(arrays["expected2"])
    wrong[[7, 99]] += 0.5
    assert run(case(tmp_path, **{**arrays, "expected2": wrong})) == kernel_test.DIFFERENT
    said = capsys.readouterr().out
    assert "2 of 100 elements (float32)" in said and "at [7]" in said and "at [99]" in said


def test_what_is_left_out_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    for words, said in (
        ([], "a kernel is needed"),
        (["k.tileir"], "--entry is needed"),
        (["k.tileir", "--entry=k"], "--data is"),
    ):
        assert kernel_test.main(words) == 1
        assert said in capsys.readouterr().err


def test_the_cpu_is_a_target(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("llvmlite")
    assert run(case(tmp_path, **add_arrays()), "--target", "cpu") == 0
    assert "PASSED: vector_add on cpu" in capsys.readouterr().out


def test_the_grid_of_the_file_and_of_the_option(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = case(tmp_path, **add_arrays(2000), grid=np.array([2]))
    assert run(data) == 0
    assert "grid 2x1x1" in capsys.readouterr().out
    assert run(data, "--grid", "1,1,1") == kernel_test.DIFFERENT


def test_an_argument_that_nobody_expected_to_change(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arrays = add_arrays()
    del arrays["expected2"]
    arrays["expected0"] = arrays["arg0"]
    assert run(case(tmp_path, **arrays)) == kernel_test.DIFFERENT
    assert "argument 2 was written to" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"arg1": None}, "are not all there"),
        ({"expected2": None}, "could not fail"),
        ({"expected2": np.zeros(3, np.float32)}, "type and shape"),
        ({"other": np.zeros(3)}, "neither arg<i>"),
        ({"arg0__nonsense": np.zeros(3)}, "unknown type"),
        ({"arg0__bfloat16": np.zeros(3, np.uint32)}, "cannot be viewed"),
    ],
)
def test_files_that_are_no_test(
    tmp_path: Path, change: dict[str, object], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arrays = {name: value for name, value in {**add_arrays(), **change}.items() if value is not None}
    assert run(case(tmp_path, **arrays)) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["--grid", "a"],
        ["--rtol", "x"],
        ["--target", "moon"],
        ["--grid"],
        ["--unknown"],
        ["second"],
        ["--entry=nowhere"],
    ],
)
def test_wrong_flags_are_never_a_pass(
    tmp_path: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(case(tmp_path, **add_arrays()), *words) not in (0, kernel_test.DIFFERENT)
    assert capsys.readouterr().err


def test_missing_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(str(tmp_path / "none.npz")) == 1
    (tmp_path / "text.npz").write_text("no zip")
    assert run(str(tmp_path / "text.npz")) == 1
    data = case(tmp_path, **add_arrays())
    assert kernel_test.main(["none.tileir", "--entry", "f", "--data", data]) == 1
    assert "no such file" in capsys.readouterr().err


def test_types_without_a_name_in_npz(tmp_path: Path) -> None:
    values = np.arange(8).astype(ml_dtypes.bfloat16)
    loaded = kernel_test.load_case(
        case(tmp_path, arg0__bfloat16=values.view(np.uint16), expected0__bfloat16=values.view(np.uint16))
    )
    assert loaded.args[0].dtype == ml_dtypes.bfloat16 and (loaded.args[0] == values).all()


def test_comparison() -> None:
    f32 = np.array([1, np.nan, np.inf, -np.inf], np.float32)
    assert kernel_test.difference(f32, f32.copy(), None, None) is None
    for index, other in ((0, 1.001), (1, 0), (2, 1e30), (3, np.inf)):
        changed = f32.copy()
        changed[index] = other
        assert kernel_test.difference(changed, f32, None, None) is not None, index
        assert kernel_test.difference(f32, changed, None, None) is not None, index
    i8 = np.array([1, -128], np.int8)
    assert kernel_test.difference(i8 + np.int8(1), i8, 10.0, 10.0) is not None, "integers have no tolerance"
    close = np.array([1 + 2**-20], np.float32)
    assert kernel_test.difference(close, np.array([1], np.float32), None, None) is None
    assert kernel_test.difference(close, np.array([1], np.float32), 0.0, 0.0) is not None
