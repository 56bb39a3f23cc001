"""Launch arguments, the launch function and the command tileiras-run."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from unit.reference_kit import DTYPES, ELEMS, Kernel, pointer, tile

import tileiras
from tileiras.diag import CompileError
from tileiras.run import LaunchError, launch, normalise_grid
from tileiras.run.args import encode_arguments
from tileiras.tools import run as tool
from tileiras.tools.run_values import parse_value


def encode(kind, value) -> bytes:
    return encode_arguments("k", [kind], [value]).data[0]


def refused(kind, value) -> str:
    with pytest.raises(LaunchError) as error:
        encode(kind, value)
    assert error.value.exit_code == 1
    return str(error.value)


def test_scalars_are_encoded_by_the_parameter_type() -> None:
    assert encode(tile("i32"), 5) == struct.pack("<i", 5) and encode(tile("i32"), -1) == b"\xff" * 4
    assert encode(tile("i32"), 2**32 - 1) == b"\xff" * 4  # integers carry no sign
    assert encode(tile("i8"), np.int64(-128)) == b"\x80" and encode(tile("i64"), 2**63) == struct.pack(
        "<Q", 2**63
    )
    assert encode(tile("i1"), True) == b"\x01" and encode(tile("i1"), 0) == b"\x00"
    assert encode(tile("f32"), 1) == struct.pack("<f", 1.0) and encode(
        tile("f64"), np.float32(0.5)
    ) == struct.pack("<d", 0.5)
    assert encode(tile("f16"), 0.1) == np.float16(0.1).tobytes()
    assert encode(tile("bf16"), ml_dtypes.bfloat16(1.5)) == ml_dtypes.bfloat16(1.5).tobytes()
    assert encode(tile("f8E4M3FN"), 2.0) == ml_dtypes.float8_e4m3fn(2.0).tobytes()
    assert encode(tile("i32"), 3.0) == struct.pack("<i", 3) and encode(
        tile("i32"), np.array(7)
    ) == struct.pack("<i", 7)
    assert encode(tile("f32"), float("nan"))[3] & 0x7F == 0x7F and encode(
        tile("f32"), -np.inf
    ) == struct.pack("<f", -np.inf)


def test_what_does_not_fit_is_refused_with_a_reason() -> None:
    assert "does not fit i32" in refused(tile("i32"), 2**32) and "does not fit i8" in refused(
        tile("i8"), -129
    )
    assert "does not fit i1" in refused(tile("i1"), 2)
    assert "not an integer" in refused(tile("i32"), 0.5) and "not an integer" in refused(
        tile("i32"), float("inf")
    )
    assert "expected a scalar" in refused(tile("i32"), np.zeros(3)) and "expected a scalar" in refused(
        tile("f32"), "1"
    )
    assert "expected a NumPy array" in refused(tile(pointer("f32")), [1.0]) and "float" in refused(
        tile(pointer("f32")), 1.0
    )
    assert "8 bytes" in refused(tile(pointer("f32")), np.zeros(3)) and "dtype float64" in refused(
        tile(pointer("f32")), np.zeros(3)
    )
    assert "does not fit f16" in refused(tile("f16"), 1e6)


def test_pointers_take_arrays_of_their_element_width() -> None:
    for name, elem in ELEMS.items():
        if elem.bits >= 8:
            array = np.zeros(4, DTYPES[name])
            assert encode(tile(pointer(name)), array) == struct.pack("<Q", array.ctypes.data)
    same_width = np.zeros(4, np.uint32)  # reinterpretation of the same width is fine
    assert encode(tile(pointer("f32")), same_width) == struct.pack("<Q", same_width.ctypes.data)
    assert encode(tile(pointer("f32")), None) == bytes(8) and encode(
        tile(pointer("f32")), 4096
    ) == struct.pack("<Q", 4096)


def test_a_misaligned_array_is_refused() -> None:
    raw = np.zeros(64, np.uint8)
    array = raw[(-raw.ctypes.data % 4) + 1 :][:16].view(np.float32)
    assert "not aligned" in refused(tile(pointer("f32")), array)


def test_the_number_of_arguments_and_the_hint_about_views() -> None:
    with pytest.raises(LaunchError) as error:
        encode_arguments("k", [tile(pointer("f32")), tile("i32"), tile("i32")], [np.zeros(4, np.float32)])
    assert "takes 3 arguments, got 1" in str(error.value) and "extents" in str(error.value)


def test_the_parameter_block_has_natural_alignment() -> None:
    kinds = [tile("i8"), tile("f64"), tile("i16"), tile("i32"), tile("i1")]
    block = encode_arguments("k", kinds, [1, 2.0, 3, 4, True]).block
    assert block == struct.pack("<b7xdh2xi?", 1, 2.0, 3, 4, True)


def test_arguments_keep_arrays_alive() -> None:
    arguments = encode_arguments("k", [tile(pointer("f32"))], [np.arange(4, dtype=np.float32)])
    assert arguments.arrays[0].tolist() == [0, 1, 2, 3] and arguments.sources[0] is arguments.arrays[0]


@pytest.mark.parametrize(
    "grid,want", [(4, (4, 1, 1)), ((2, 3), (2, 3, 1)), ([1, 2, 3], (1, 2, 3)), (np.int32(2), (2, 1, 1))]
)
def test_grids(grid, want) -> None:
    assert normalise_grid(grid) == want


@pytest.mark.parametrize("grid", [0, (), (1, 2, 3, 4), (2, -1), (1.5,), "a", (1 << 24,), None])
def test_bad_grids_are_refused(grid) -> None:
    with pytest.raises(LaunchError) as error:
        normalise_grid(grid)
    assert error.value.exit_code == 1


HUGE = 10**5000  # which Python refuses to write


@pytest.mark.parametrize("kind", ["*f32", "f32", "f64", "i1", "i64"])
@pytest.mark.parametrize("value", [HUGE, -HUGE, 1 << 64], ids=["huge", "-huge", "2^64"])
def test_numbers_that_fit_no_parameter_are_refused(kind: str, value: int) -> None:
    if kind in ("f32", "f64") and value == 1 << 64:
        pytest.skip("a float holds it")
    with pytest.raises(LaunchError, match="argument 0"):
        launch(Kernel(kind).module(), "k", grid=1, args=[value])


@pytest.mark.parametrize("number", [HUGE, -HUGE], ids=["huge", "-huge"])
def test_options_of_a_compile_may_be_any_number(number: int) -> None:
    text = "cuda_tile.module @m { entry @k() { return } }"
    for options in ({"opt_level": number}, {"gpu_name": number}, {"launch_abi": number}):
        with pytest.raises(CompileError, match="<5001 digits>"):
            tileiras.compile(text, **{"gpu_name": "sm_90", **options})


@pytest.mark.parametrize(
    "more,text",
    [
        ({"seed": -1}, "seed -1"),
        ({"seed": "x"}, "seed 'x'"),
        ({"seed": 1.5}, "seed 1.5"),
        ({"memory": None}, "got NoneType"),
        ({"memory": np.zeros(4, np.float32)}, "got an array of float32"),
        ({"memory": [3]}, "got int"),
        ({"seed": -HUGE}, "seed -<5001 digits>"),
        ({"args": [HUGE]}, "<5001 digits>"),
        ({"grid": (HUGE, 1, 1)}, "<5001 digits>"),
        ({"grid": (1, -HUGE, 1)}, "-<5001 digits>"),
        ({"grid": [HUGE] * 9}, "<5001 digits>"),
        ({"grid": (1, 65536, 1), "target": "emulator"}, "at most 65535"),
        ({"grid": (1, 1, 65536), "target": "emulator"}, "at most 65535"),
    ],
)
def test_bad_options_of_a_launch_are_named(more, text) -> None:
    with pytest.raises(LaunchError) as error:
        launch(Kernel("i32").module(), "k", **{"grid": 1, "args": [1], **more})
    assert error.value.exit_code == 1 and text in str(error.value)


def test_the_second_dimension_of_a_grid_may_be_large_on_the_interpreter() -> None:
    launch(Kernel("i32").module(), "k", grid=(1, 65537, 1), args=[1], seed=np.int64(3))


def test_unknown_entry_and_target() -> None:
    module = Kernel("i32").module()
    for facts in ({"entry": "nope"}, {"entry": "k", "target": "tpu"}):
        with pytest.raises(LaunchError) as error:
            launch(module, grid=1, args=[1], **facts)
        assert error.value.exit_code == 1 and ("k" in str(error.value))


# ---- tileiras-run


@pytest.fixture
def double(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder with x.npy; `load_module` gives an entry k(*f32 x, *f32 y, f32 scale) over 8 elements."""
    k = Kernel("*f32", "*f32", "f32")
    x = k.load(k.args[0], 8)
    scale = k.op("broadcast", [k.op("reshape", [k.args[2]], [tile("f32", 1)])], [tile("f32", 8)])
    k.store(k.args[1], k.op("mulf", [x, scale], [x.type], rounding_mode="nearest_even"))
    module = k.module()
    monkeypatch.setattr("tileiras.run.load_module", lambda source: module)
    np.save(tmp_path / "x.npy", np.arange(8, dtype=np.float32))
    np.savez(tmp_path / "d.npz", x=np.arange(8, dtype=np.float32), y=np.zeros(8))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def command(*args: str) -> int:
    try:
        return tool.main(["k.tileir", *args])
    except SystemExit as stop:
        return int(stop.code or 0)


def test_launch_save_and_compare(double: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = ("--arg", "x.npy", "--arg", "y=zeros:f32:8", "--arg", "f32:2")
    np.save("want.npy", np.arange(8, dtype=np.float32) * 2)
    assert command(*base, "--expect", "y=want.npy", "--save", "y=out.npy", "--show", "1") == 0
    np.testing.assert_array_equal(np.load("out.npy"), np.arange(8) * 2)
    assert "PASS" in capsys.readouterr().out
    assert command(*base, "--expect", "1=x.npy") == 6
    out = capsys.readouterr().out
    assert "7 of 8 elements differ, first at [1]" in out and "FAIL" in out
    assert command(*base, "--expect", "y=x.npy", "--rtol", "1.1") == 0
    assert (
        command(
            "--arg", "d.npz:x", "--arg", "y=@0", "--arg", "0.5", "--expect", "y=arange:f32:8", "--atol", "4"
        )
        == 0
    )
    assert np.load("x.npy").tolist() == list(range(8))  # inputs on disk stay as they are


def test_list_shows_parameters(double: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command("--list") == 0
    assert capsys.readouterr().out == "k(0: tile<ptr<f32>>, 1: tile<ptr<f32>>, 2: tile<f32>)\n"


@pytest.mark.parametrize(
    "args,text",
    [
        (("--bogus",), "unrecognized"),
        (("--grid", "0"), "--grid"),
        (("--grid", "1,2,3,4"), "--grid"),
        (("--arg", "nothere.npy"), "cannot read"),
        (("--arg", "d.npz"), "archive"),
        (("--arg", "d.npz:q"), "no array 'q'"),
        (("--arg", "zeros:f33:8"), "f33"),
        (("--arg", "zeros:f32:axb"), "shape"),
        (("--arg", "hello"), "neither"),
        (("--arg", "@y"), "no earlier argument"),
        (("--arg", "i8:300"), "does not fit"),
        (("--tensor", "3"), "not an array"),
        (("--arg", "x.npy", "--expect", "q=x.npy"), "no argument 'q'"),
        (("--arg", "x.npy", "--save", "0"), "expected ARG="),
        (("--arg", "x.npy"), "takes 3 arguments"),
        (("--arg", "x.npy", "--arg", "zeros:f64:8", "--arg", "1"), "8 bytes"),
        (("--arg", "x.npy", "--arg", "x.npy", "--arg", "f64:1"), "not f64"),
        (
            (
                "--arg",
                "x.npy:f64",
            ),
            "4 bytes",
        ),
    ],
)
def test_wrong_use_is_exit_code_1_with_a_reason(
    double: Path, capsys: pytest.CaptureFixture[str], args, text: str
) -> None:
    assert command(*args) == 1
    assert text in capsys.readouterr().err


def test_results_are_not_saved_over_the_kernel_nor_over_each_other(
    double: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("k.tileir").write_text("the source")
    base = ("--arg", "x=x.npy", "--arg", "y=zeros:f32:8", "--arg", "1")
    for saves, said in (
        (("y=k.tileir",), "it is the input file"),
        (("y=out.npy", "x=./out.npy"), "output file './out.npy' is named twice"),
    ):
        assert command(*base, *(word for save in saves for word in ("--save", save))) == 2
        assert said in capsys.readouterr().err
    assert Path("k.tileir").read_text() == "the source" and not Path("out.npy").exists()


def test_a_fault_is_exit_code_5_and_saves_nothing(double: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save("old.npy", np.ones(3))
    assert command("--arg", "x.npy", "--arg", "y=zeros:f32:4", "--arg", "1", "--save", "y=old.npy") == 5
    assert "RUN" not in capsys.readouterr().err and np.load("old.npy").tolist() == [1, 1, 1]
    assert [f for f in os.listdir() if ".part" in f] == []


def test_bf16_files_are_read_by_type(double: Path) -> None:
    np.save("b.npy", np.array([1.5, 2], ml_dtypes.bfloat16))
    value = parse_value("b.npy:bf16", {})
    assert value.dtype == ml_dtypes.bfloat16 and value.astype(float).tolist() == [1.5, 2.0]


def test_made_arrays_are_repeatable() -> None:
    for text in ("random:f32:4x8", "random:i8:16:7", "normal:f16:8", "random:i1:8"):
        first, second = parse_value(text, {}), parse_value(text, {})
        np.testing.assert_array_equal(first, second)
        assert np.unique(first).size > 1
    assert parse_value("full:i64:2x2:-3", {}).tolist() == [[-3, -3], [-3, -3]]
    assert parse_value("full:bf16:2:0.5", {}).astype(float).tolist() == [0.5, 0.5]
    assert parse_value("ones:f8E5M2:2", {}).astype(float).tolist() == [1.0, 1.0]


def test_the_help_names_every_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert command("--help") == 0
    text = capsys.readouterr().out
    for code in (0, 1, 2, 3, 5, 6):
        assert f"  {code}  " in text


def test_the_manual_lists_every_finding() -> None:
    from tileiras.diag import ERROR, Diag
    from tileiras.run.reference import diags

    page = (Path(__file__).parents[2] / "docs" / "running-kernels.md").read_text()
    usage = {"NO_ENTRY", "UNSUPPORTED"}
    for name, row in vars(diags).items():
        if isinstance(row, Diag) and row.severity == ERROR and name not in usage:
            assert f"| {row.code} |" in page, name
