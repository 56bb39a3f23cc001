"""Launches whose kernel takes tensor maps as hidden parameters: hand-written PTX on the emulator, drivers of our own."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tileiras.setuptools_ext.module import write_loader
from unit.test_run_gpu import Driver, install

import tileiras
from tests.integration.test_build_tensor_maps import DRIVER, FIRST, FITTING, MAPS, SECOND
from tests.unit.test_emulator_bulk import DUMP, HEAD, REGS, SHARED, START, WAIT, box_of, image
from tileiras.compiler.target.tensor_maps import Source, TensorMap
from tileiras.driver import Kernel, Program
from tileiras.run import LaunchError, gpu
from tileiras.run.args import encode_arguments
from tileiras.run.tensor_maps import NOTHING_BYTES, nothing_bytes
from tileiras.tools import kernel_test

ENTRY = """cuda_tile.module @m {
  entry @k(%in: tile<ptr<f16>>, %rows: tile<i32>, %columns: tile<i32>, %stride: tile<i64>, %out: tile<ptr<i32>>) { return }
}
"""
# Copies the box at (row 8, column 16) and writes the bytes as they lie in shared memory.
PTX = f"""{HEAD}{SHARED}
.visible .entry k(.param .u64 in, .param .u32 rows, .param .u32 columns, .param .u64 stride, .param .u64 out,
    .param .align 128 .b8 map[128]) {{ {REGS}
{START} mov.u64 %m, map; ld.param.u64 %o, [out]; mov.u32 %z, 1024;
@%p mbarrier.arrive.expect_tx.shared::cta.b64 _, [%b], 1024;
@%p cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%s], [%m, {{16, 8}}], [%b];
{WAIT.format(0, 0)} {DUMP} ret; }}"""
ONE = Source("const", 1)
MAP = TensorMap(
    0, "f16", (Source("param", 1), Source("param", 2)), (Source("param", 3), ONE), (16, 32), "64B", "zeros"
)
CORNER = (8, 16)


def a_program(*maps: TensorMap) -> Any:
    """A program of PTX written here, with the record that the compiler makes of a kernel."""
    program = tileiras.compile(
        ENTRY, gpu_name="sm_100", emit="ptx", launch_abi="simt", tensor_maps="launcher"
    )
    assert isinstance(program, Program)
    program.ptx = PTX
    kernel = program.kernels["k"]
    assert kernel.tensor_maps == ()
    kernel.tensor_maps = maps
    return program


def launched(
    array: np.ndarray, rows: int, columns: int, stride: int, map: TensorMap = MAP, **more: Any
) -> np.ndarray:
    out = np.zeros(256, np.int32)
    a_program(map).launch(
        "k", 1, [array, rows, columns, stride, out], target="emulator", gpu_name="sm_100", **more
    )
    return out.view(np.uint8)


@pytest.mark.parametrize(("rows", "columns"), [(40, 72), (20, 40), (9, 17), (8, 72), (40, 16)])
@pytest.mark.parametrize("check", [False, True])
def test_the_emulator_gets_maps_of_the_actual_arguments(rows: int, columns: int, check: bool) -> None:
    array = np.arange(40 * 72, dtype=np.float16).reshape(40, 72)
    got = launched(array, rows, columns, 72, check=check, seed=3 if check else None)
    assert (got == image(box_of(array[:rows, :columns], CORNER, (16, 32), (1, 1), 0), "64B")).all()


def test_fill_and_constants() -> None:
    array = np.arange(40 * 72, dtype=np.float16).reshape(40, 72)
    const = TensorMap(
        0,
        "f16",
        (Source("const", 12), Source("const", 20)),
        (Source("const", 72), ONE),
        (16, 32),
        "none",
        "nan",
    )
    got = launched(array, 1, 2, 3, const).view(np.float16)
    want = box_of(array[:12, :20], CORNER, (16, 32), (1, 1), np.nan).reshape(-1)
    assert np.array_equal(got, want, equal_nan=True)


@pytest.mark.parametrize(("rows", "columns"), [(0, 72), (40, 0), (0, 0)])
@pytest.mark.parametrize("fill", ["zeros", "nan"])
def test_an_array_without_elements_is_outside_everywhere(rows: int, columns: int, fill: str) -> None:
    """Also where the box begins at its first element, and whatever its address and stride are."""
    map = TensorMap(0, "f16", MAP.extents, MAP.strides, MAP.box, "64B", fill)
    program = a_program(map)
    program.ptx = PTX.replace("{16, 8}", "{0, 0}")
    for address, stride in ((0, 72), (2, 72), (1 << 40, -5)):
        out = np.ones(256, np.int32)
        if rows > 1 and stride < 0:
            continue
        program.launch("k", 1, [address, rows, columns, stride, out], target="emulator", gpu_name="sm_100")
        values = out.view(np.float16)
        assert np.isnan(values).all() if fill == "nan" else (values == 0).all()


@pytest.mark.parametrize(
    ("rows", "stride", "skip", "why"),
    [
        (40, 71, 0, "a stride of 142 bytes is not a multiple of 16"),
        (40, -72, 0, "a stride of -144 bytes is not below 2^40"),
        (40, 1 << 39, 0, "is not below 2^40"),
        (-1, 72, 0, "-1 elements in a dimension are not between 0 and 2^32"),
        (30, 72, 4, "is not a multiple of 16 bytes"),
    ],
)
def test_arguments_that_make_no_map_are_refused(rows: int, stride: int, skip: int, why: str) -> None:
    array = np.zeros(40 * 72 + 8, np.float16)
    with pytest.raises(LaunchError) as stop:
        launched(array[skip:], rows, 72, stride)
    assert "argument 0 of 'k' makes no tensor map: " in str(stop.value) and why in str(stop.value)
    assert stop.value.exit_code == 1


def test_the_stride_of_a_single_row_says_nothing() -> None:
    array = np.arange(40 * 72, dtype=np.float16)
    assert not launched(array, 1, 72, 7).any()  # the box begins in row 8


def test_reference_and_cpu_know_nothing_of_maps() -> None:
    array = np.zeros((40, 72), np.float16)
    out = np.zeros(256, np.int32)
    program = a_program(MAP)
    program.launch("k", 1, [array, 40, 72, 71, out], target="reference", gpu_name="sm_100")
    assert not out.any()


def test_a_test_of_what_was_built_launches_with_maps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`add_tile_test`: PTX, image and kernel table of a target, data from a file."""
    array = np.arange(40 * 72, dtype=np.float16).reshape(40, 72)
    want = image(box_of(array, CORNER, (16, 32), (1, 1), 0), "64B").view(np.int32)
    source, stem = tmp_path / "k.tileir", tmp_path / "k.sm_100"
    source.write_text(ENTRY)
    program = a_program(MAP)
    table = program.table()
    table["kernels"][0]["threads"] = table["kernels"][0]["block"]
    Path(f"{stem}.kernels.json").write_text(json.dumps(table))
    Path(f"{stem}.ptx").write_text(PTX)
    Path(f"{stem}.cubin").write_bytes(b"")
    data = tmp_path / "data.npz"
    numbers = {"arg1": np.int32(40), "arg2": np.int32(72), "arg3": np.int64(72)}
    np.savez(data, arg0=array, **numbers, arg4=np.zeros(256, np.int32), expected4=want)
    options = {"--data": str(data), "--entry": "k", "--arch": "sm_100", "--grid": "1"}
    code = kernel_test.run_case(options, [(f"{stem}.kernels.json", str(source))])
    assert code == 0, capsys.readouterr().out


# ---- GPUs: what the driver is asked


class Recording(Driver):
    """And libcuda: what it is asked for maps, which are bytes that the kernel of a test can read."""

    CUresult = int

    def __init__(self, kernel: Any, code: int = 0) -> None:
        super().__init__(kernel)
        self.code = code
        self.maps: list[tuple[Any, ...]] = []

    def cuTensorMapEncodeTiled(self, place: Any, *words: Any) -> int:
        kind, rank, base, *lists, interleave, swizzle, promotion, fill = words
        extents, strides, box, steps = map(list, lists)
        assert place.value % 128 == 0
        self.maps.append(
            (kind, rank, base.value, extents[:rank], strides[: rank - 1], box[:rank], steps[:rank], interleave, swizzle,
             promotion, fill)
        )  # fmt: skip
        ctypes.memset(place, len(self.maps), 128)
        return self.code


def installed(monkeypatch: pytest.MonkeyPatch, driver: Recording) -> None:
    install(monkeypatch, driver)
    monkeypatch.setattr(gpu, "libcuda", lambda: driver)


def gpu_kernel(*maps: TensorMap) -> Kernel:
    kernel = Kernel("k")
    kernel.block, kernel.launch_abi, kernel.tensor_maps = (128, 1, 1), "simt", maps
    return kernel


def encoded(array: Any, rows: int, stride: int) -> Any:
    import tileiras.compiler.source as source
    from tileiras.diag import Sink

    module = source.load(ENTRY, Sink())
    types = [a.type for a in module.regions[0].block.ops[0].regions[0].block.args]
    return encode_arguments("k", types, [array, rows, 72, stride, np.zeros(256, np.int32)])


def test_a_gpu_gets_maps_of_device_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    array = np.zeros((40, 72), np.float16)
    seen: dict[str, Any] = {}

    def kernel(_shape: Any, _shared: int, params: int) -> None:
        pointers = (ctypes.c_void_p * 7).from_address(params)
        seen["base"] = ctypes.c_uint64.from_address(pointers[0]).value
        seen["maps"] = [ctypes.string_at(pointers[i], 128) for i in (5, 6)]

    driver = Recording(kernel)
    installed(monkeypatch, driver)
    other = TensorMap(4, "i32", (Source("const", 64),), (ONE,), (16,), "none", "zeros")
    gpu.Device().launch(b"cubin", gpu_kernel(MAP, other), "k", (1, 1, 1), encoded(array, 40, 72), [])
    base = seen["base"]
    assert base != array.ctypes.data
    first, second = driver.maps
    assert first == (6, 2, base, [72, 40], [144], [32, 16], [1, 1], 0, 2, 2, 0)
    assert second[:2] == (3, 1) and second[3:] == ([64], [], [16], [1], 0, 0, 2, 0)
    assert seen["maps"] == [bytes([1] * 128), bytes([2] * 128)]
    assert not driver.buffers


def test_a_gpu_gets_fill_for_an_array_without_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}

    def kernel(_shape: Any, _shared: int, _params: int) -> None:
        seen["outside"] = ctypes.string_at(driver.maps[0][2], 16)

    driver = Recording(kernel)
    installed(monkeypatch, driver)
    map = TensorMap(0, "f16", MAP.extents, MAP.strides, MAP.box, "64B", "nan")
    gpu.Device().launch(b"cubin", gpu_kernel(map), "k", (1, 1, 1), encoded(None, 0, 7), [])
    assert driver.maps[0][3:5] == ([1, 1], [NOTHING_BYTES]) and seen["outside"] == b"\xff" * 16
    assert not driver.buffers


def test_a_gpu_launch_without_a_map_starts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Recording(lambda *_: pytest.fail("launched"), code=1)
    installed(monkeypatch, driver)
    array = np.zeros((40, 72), np.float16)
    with pytest.raises(LaunchError, match="cuTensorMapEncodeTiled failed: CUDA_ERROR_1"):
        gpu.Device().launch(b"cubin", gpu_kernel(MAP), "k", (1, 1, 1), encoded(array, 40, 72), [])
    with pytest.raises(LaunchError, match="a stride of 142 bytes"):
        gpu.Device().launch(b"cubin", gpu_kernel(MAP), "k", (1, 1, 1), encoded(array, 40, 71), [])
    assert not driver.buffers


def test_what_outside_elements_are_made_of() -> None:
    raw = nothing_bytes()
    assert raw.ctypes.data % 128 == 0 and not raw[:128].any() and (raw[128:] == 255).all()
    for kind in (np.float16, np.float32, np.float64):
        assert np.isnan(raw[128:].view(kind)).all()


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_the_loader_module_of_a_package_makes_maps(tmp_path: Path) -> None:
    """Against a driver of our own, compiled; the same that generated launchers are tried with."""
    (tmp_path / "driver.c").write_text(DRIVER)
    library = tmp_path / "libcuda.so.1"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, tmp_path / "driver.c"], check=True)
    (tmp_path / "loader.py").write_text(write_loader("p.loader", {"k": "k.fatbin"}))
    (tmp_path / "k.fatbin").write_bytes(b"image")
    params = [
        {"type": kind, "size": 8 if kind[0] == "p" else 4, "offset": 0}
        for kind in ["ptr<f32>", *["i32"] * 4] * 3
    ]
    row = {"name": "k", "symbol": "k", "params": params, "block": [128, 1, 1], "dynamic_shared": 0,
           "hidden": [each.as_dict() for each in MAPS]}  # fmt: skip
    table = {"version": 1, "images": [{"arch": "sm_90", "kernels": [row]}]}
    (tmp_path / "k.kernels.json").write_text(json.dumps(table))
    code = f"""
import sys, loader
words = [int(word, 0) for word in {FITTING!r}]
kernel = loader.load("k")["k"]
def launch(**new):
    changed = [new.get("a%d" % i, word) for i, word in enumerate(words)]
    try:
        kernel.launch((2,), changed, stream=0x55)
    except (ValueError, loader.DriverError) as error:
        print(error, file=sys.stderr)
launch()
launch(a1=1, a3=-7)
launch(a0=0, a2=0, a5=1, a6=0)
launch(a3=401)
launch(a0=0x1004)
launch(a1=-1)
launch(a2=4242)
"""
    env = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.stderr.splitlines() == [
        "argument 0 makes no tensor map: strides are multiples of 16 bytes below 2^40, not 1604",
        "argument 0 makes no tensor map: it points to 0x1004, no multiple of 16 bytes",
        "argument 0 makes no tensor map: extents are 0 to 2^32, not [-1, 200]",
        "cuTensorMapEncodeTiled failed with CUresult 801",
    ]
    launched_line = "launch on 0x55, argument 14 is 99, maps ccc ddd"
    outside = "base 7000 extents 1 1 strides 128"
    assert done.stdout.splitlines()[:-1] == [
        FIRST, SECOND, launched_line,
        FIRST.replace("200 100 strides 1600", "200 1 strides 128"), SECOND, launched_line,
        "alloc 256 on 0x55", "fill 7000 0 x 128", "fill 7080 255 x 128",
        FIRST.replace("base 1000 extents 200 100 strides 1600", outside),
        SECOND.replace("base 2000 extents 4294967296 300 3 strides 1024 17179869184", "base 7080 extents 1 1 1 strides 128 128"),
        launched_line, "free 7000",
    ]  # fmt: skip


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_a_gpu_launch_calls_the_library(tmp_path: Path) -> None:
    (tmp_path / "driver.c").write_text(DRIVER)
    library = tmp_path / "libcuda.so.1"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, tmp_path / "driver.c"], check=True)
    code = """
import sys
sys.path[:0] = sys.argv[1:]
from tileiras.driver import Kernel
from tileiras.run import gpu
from tests.integration.test_build_tensor_maps import MAPS
kernel = Kernel("k")
kernel.tensor_maps = MAPS
numbers = [0x1000, 100, 200, 400, 1, 0x2000, 300, 7, 512, 1]
data = [number.to_bytes(8 if i % 5 == 0 else 4, "little") for i, number in enumerate(numbers)]
maps = object.__new__(gpu.Device).tensor_maps(kernel, data, [])
print([bytes(each)[125:] for each in maps], flush=True)
"""
    root = Path(tileiras.__file__).parents[1]
    env = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}
    words = [sys.executable, "-c", code, str(root), str(root / "tests")]
    done = subprocess.run(words, env=env, capture_output=True, text=True)
    assert sorted(done.stdout.splitlines()) == sorted([FIRST, SECOND, "[b'ccc', b'ddd']"]), done.stderr
