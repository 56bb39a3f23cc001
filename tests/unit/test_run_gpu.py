"""The GPU launcher against a driver that is played by host memory: what it copies, which addresses it passes."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stub_drivers
from unit.reference_kit import pointer, tile

from tileiras.run import LaunchError, gpu
from tileiras.run.args import encode_arguments


class Driver(types.ModuleType):
    """Enough of cuda.bindings.driver; device memory is host memory elsewhere."""

    class Names:
        def __getattr__(self, name: str) -> str:
            return name

    CUdevice_attribute = Names()
    CUfunction_attribute = Names()

    def __init__(self, kernel: Any = None, init: int = 0, devices: int = 1) -> None:
        super().__init__("driver")
        self.kernel, self.init, self.devices = kernel, init, devices
        self.buffers: dict[int, Any] = {}
        self.calls: list[str] = []
        self.shared = 0

    def cuInit(self, _flags: int) -> tuple[int]:
        return (self.init,)

    def cuDeviceGetCount(self) -> tuple[int, int]:
        return 0, self.devices

    def cuDeviceGetAttribute(self, name: str, _device: int) -> tuple[int, int]:
        return 0, 9 if "MAJOR" in name else 0

    def cuGetErrorName(self, error: int) -> tuple[int, bytes]:
        return 0, b"CUDA_ERROR_%d" % error

    def cuMemAlloc(self, size: int) -> tuple[int, int]:
        raw = (ctypes.c_ubyte * (size + 256))()
        at = (ctypes.addressof(raw) + 255) // 256 * 256
        self.buffers[at] = raw
        return 0, at

    def cuMemFree(self, at: int) -> tuple[int]:
        del self.buffers[at]
        return (0,)

    def cuMemcpyHtoD(self, target: int, source: int, size: int) -> tuple[int]:
        ctypes.memmove(target, source, size)
        return (0,)

    cuMemcpyDtoH = cuMemcpyHtoD

    def cuFuncSetAttribute(self, _function: Any, name: str, value: int) -> tuple[int]:
        assert "SHARED" in name
        self.shared = value
        return (0,)

    def cuLaunchKernel(self, _function: Any, *rest: Any) -> tuple[int]:
        *shape, shared, stream, params, extra = rest
        assert (stream, extra) == (0, 0)
        return (self.kernel(shape, shared, params) or 0,)

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("cu"):
            raise AttributeError(name)
        return lambda *args: (0, 1)


class Kernel:
    symbol, block, dynamic_shared = "k", (128, 1, 1), 60000


def install(monkeypatch: pytest.MonkeyPatch, driver: Driver | None) -> None:
    bindings = types.ModuleType("cuda.bindings")
    if driver is not None:
        bindings.driver = driver  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cuda.bindings", bindings)
    monkeypatch.delitem(sys.modules, "cuda.bindings.driver", raising=False)  # another test may have loaded it


def read(params: int, kinds: list[Any]) -> list[Any]:
    pointers = (ctypes.c_void_p * len(kinds)).from_address(params)
    return [kind.from_address(at).value for kind, at in zip(kinds, pointers)]


def test_arrays_travel_and_keep_their_aliasing_and_alignment(monkeypatch: pytest.MonkeyPatch) -> None:
    base = np.arange(32, dtype=np.float32)
    low, high, scale = base[:20], base[12:], 3.0
    seen: dict[str, Any] = {}

    def kernel(shape: list[int], shared: int, params: int) -> None:
        a, b, factor, n = read(params, [ctypes.c_uint64, ctypes.c_uint64, ctypes.c_float, ctypes.c_int8])
        seen.update(shape=shape, shared=shared, gap=b - a, skew=a % 256, n=n, host=a == low.ctypes.data)
        (ctypes.c_float * 20).from_address(a)[0] = factor
        (ctypes.c_float * 20).from_address(b)[19] = -1.0

    driver = Driver(kernel)
    install(monkeypatch, driver)
    kinds = [tile(pointer("f32")), tile(pointer("f32")), tile("f32"), tile("i8")]
    arguments = encode_arguments("k", kinds, [low, high, scale, -5])
    device = gpu.Device()
    assert device.arch == "sm_90"
    device.launch(b"cubin", Kernel(), "k", (4, 2, 1), arguments, [])
    assert seen == {
        "shape": [4, 2, 1, 128, 1, 1],
        "shared": 60000,
        "gap": 48,
        "skew": low.ctypes.data % 256,
        "n": -5,
        "host": False,
    }
    assert base[0] == 3.0 and base[31] == -1.0 and base[1:31].tolist() == list(range(1, 31))
    assert driver.shared == 60000 and not driver.buffers


def test_read_only_arrays_are_not_written_back(monkeypatch: pytest.MonkeyPatch) -> None:
    array = np.zeros(4, np.int32)
    array.flags.writeable = False

    def kernel(_shape: list[int], _shared: int, params: int) -> None:
        (at,) = read(params, [ctypes.c_uint64])
        ctypes.c_int32.from_address(at).value = 7

    install(monkeypatch, Driver(kernel))
    arguments = encode_arguments("k", [tile(pointer("i32"))], [array])
    gpu.Device().launch(b"", Kernel(), "k", (1, 1, 1), arguments, [])
    assert array[0] == 0


def test_failures_name_the_call_and_free_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver(lambda *_: 700)
    install(monkeypatch, driver)
    arguments = encode_arguments("k", [tile(pointer("i32"))], [np.zeros(4, np.int32)])
    with pytest.raises(LaunchError, match=r"cuLaunchKernel failed: CUDA_ERROR_700"):
        gpu.Device().launch(b"", Kernel(), "k", (1, 1, 1), arguments, [])
    assert not driver.buffers
    with pytest.raises(LaunchError, match="stored pointers"):
        gpu.Device().launch(b"", Kernel(), "k", (1, 1, 1), arguments, [np.zeros(1)])


@pytest.mark.parametrize(
    "driver,text",
    [
        (None, "pip install"),
        (Driver(init=100), "CUDA_ERROR_100"),
        (Driver(devices=0), "no device"),
    ],
)
def test_a_machine_without_a_gpu_says_so(
    monkeypatch: pytest.MonkeyPatch, driver: Driver | None, text: str
) -> None:
    install(monkeypatch, driver)
    with pytest.raises(LaunchError, match=text) as error:
        gpu.Device()
    assert error.value.exit_code == 2


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("missing", "the driver's library cannot be loaded (libcuda.so.1: cannot open shared object file"),
        ("no library", "the driver's library cannot be loaded ({folder}/libcuda.so.1: file too short)"),
        ("not the driver", "the driver's library is none of NVIDIA's ("),
        ("no device", "CUDA_ERROR_NO_DEVICE"),
        ("too old", "the driver reports no device"),
    ],
)
def test_drivers_that_are_no_use(kind: str, why: str, tmp_path: Path) -> None:
    pytest.importorskip("cuda.bindings.driver")
    code = (
        "import tileiras\n"
        "try: tileiras.launch('cuda_tile.module { entry @k() { return } }', 'k', 1, [], target='gpu')\n"
        "except tileiras.LaunchError as error: print(error.exit_code, error)"
    )
    env = stub_drivers.environment(tmp_path, kind)
    done = subprocess.run([sys.executable, "-c", code], env=env, check=True, capture_output=True, text=True)
    assert done.stdout.startswith(f"2 error: no usable GPU: {why.format(folder=tmp_path)}"), done.stdout
