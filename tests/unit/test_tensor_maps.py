"""Tensor maps of a launcher: the option, the record of a map, the kernel table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import tileiras
from tests.unit.test_opt import NOOP
from tileiras import cli
from tileiras.compiler.target import sm
from tileiras.compiler.target.tensor_maps import Source, TensorMap, from_dict
from tileiras.diag import CompileError
from tileiras.driver import Kernel
from tileiras.tools import opt
from tileiras.tools.build import main as build

ONE = Source("const", 1)


def a_map(**other: Any) -> TensorMap:
    """f16 [param 1, 512] behind param 0, rows param 2 elements apart, boxes of 64 x 64."""
    fields: dict[str, Any] = {
        "base": 0, "element": "f16", "extents": (Source("param", 1), Source("const", 512)),
        "strides": (Source("param", 2), ONE), "box": (64, 64), "swizzle": "128B", "fill": "zeros",
    }  # fmt: skip
    return TensorMap(**{**fields, **other})


def test_a_map_is_a_value() -> None:
    made = a_map()
    assert made == a_map() and hash(made) == hash(a_map()) and made != a_map(fill="nan")
    assert from_dict(json.loads(json.dumps(made.as_dict()))) == made
    assert made == TensorMap(0, "f16", made.extents, made.strides, (64, 64), "128B", "zeros")
    with pytest.raises(AttributeError):
        made.base = 3
    with pytest.raises(TypeError):
        Source("param")


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"element": "f4E2M1FN"}, "elements of type f4E2M1FN"),
        ({"box": (64,)}, "a box of 1 dimensions"),
        ({"box": (257, 64)}, r"a box of \(257, 64\)"),
        ({"box": (64, 4)}, "rows of the box have 8 bytes"),
        ({"box": (64, 128)}, "256 bytes, more than swizzle 128B holds"),
        ({"swizzle": "256B"}, "swizzle 256B"),
        ({"strides": (ONE, Source("const", 2))}, "the last stride is not const 1"),
        ({"extents": (ONE,) * 6, "strides": (ONE,) * 6, "box": (8,) * 6}, "6 extents"),
        ({"element": "i8", "box": (64, 64), "fill": "nan"}, "NaN outside an array of i8"),
    ],
)
def test_what_is_no_map_is_refused(wrong: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        a_map(**wrong)


@pytest.mark.parametrize(
    "row",
    [
        {},
        {"array": 0},
        {**a_map().as_dict(), "extents": [{"argument": 1}]},
        {**a_map().as_dict(), "box": None},
    ],
)
def test_a_row_of_a_table_that_is_no_map_is_refused(row: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="tensor map"):
        from_dict(row)


def test_the_target_carries_the_choice() -> None:
    target = sm.find("sm_90")
    assert target is not None and target.tensor_maps == "none"
    assert sm.restricted(target, 3) is target
    made = sm.restricted(target, 3, (), "launcher")
    assert made.tensor_maps == "launcher" and made.has(sm.TMA) and target.tensor_maps == "none"


def test_the_record_of_a_kernel_lists_hidden_parameters_behind_the_visible() -> None:
    kernel = Kernel("k")
    assert kernel.as_dict()["hidden"] == []
    kernel.params = [{"type": "ptr<f16>", "size": 8, "offset": 0}, {"type": "i32", "size": 4, "offset": 8}]
    kernel.tensor_maps = (a_map(), a_map(base=1))
    assert kernel.as_dict()["hidden"] == [a_map().as_dict(), a_map(base=1).as_dict()]


def test_the_option_of_every_front(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    source, out = tmp_path / "k.mlir", tmp_path / "k.ptx"
    source.write_text(NOOP)
    line = [str(source), "--gpu-name=sm_90", "--emit=ptx", "-o", str(out)]
    assert cli.main([*line, "--tensor-maps=launcher"]) == 2
    assert "the launch ABI 'tile' has no place for, use --launch-abi=simt" in capfd.readouterr().err
    assert cli.main([*line, "--tensor-maps=host"]) == 2
    assert "unknown tensor maps 'host', expected none or launcher" in capfd.readouterr().err
    table = tmp_path / "k.json"
    assert cli.main([*line, "--launch-abi=simt", "--tensor-maps=launcher", f"--kernels-json={table}"]) == 0
    assert json.loads(table.read_text())["kernels"][0]["hidden"] == []
    with pytest.raises(CompileError) as stop:
        tileiras.compile(NOOP, gpu_name="sm_90", emit="ptx", tensor_maps="launcher")
    assert stop.value.exit_code == 2
    program = tileiras.compile(NOOP, gpu_name="sm_90", emit="ptx", launch_abi="simt", tensor_maps="launcher")
    assert program.kernels["noop"].tensor_maps == ()
    assert opt.main([str(source), "--pipeline-to", "ptx", "--tensor-maps", "launcher"]) == 0
    assert opt.main([str(source), "--pipeline-to", "ptx", "--tensor-maps", "host"]) == 2
    capfd.readouterr()
    built = ["compile", str(source), "-o", str(out), "--arch", "compute_90", "--tensor-maps"]
    assert build([*built, "launcher"]) == 0
    assert build([*built, "launcher", "--launch-abi", "tile"]) == 2
    assert "--tensor-maps launcher needs --launch-abi simt" in capfd.readouterr().err
    assert build([*built, "launcher", "--compiler", "nvidia"]) == 2 and build([*built, "host"]) == 2
