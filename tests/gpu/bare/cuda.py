"""libcuda through ctypes: devices, memory, images, launches, timers. Standard library only."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping, Sequence
from typing import Any

LIBRARY = os.environ.get("TILEIRAS_LIBCUDA", "libcuda.so.1")
SHARED_OPT_IN = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES


class NoDriver(Exception):
    """libcuda cannot be loaded, or it has no device."""


class CudaError(Exception):
    """A call of the driver failed; the text has its name and the error's."""


class Gpu:
    """The first device with a current context. After a failed launch the context is lost: use a process for each risk."""

    def __init__(self) -> None:
        try:
            self.lib = ctypes.CDLL(LIBRARY)
        except OSError as error:
            raise NoDriver(str(error)) from None
        try:
            self.call("cuInit", 0)
        except CudaError as error:
            raise NoDriver(str(error)) from None
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.device = device
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)

    def call(self, name: str, *arguments: object) -> None:
        error = getattr(self.lib, name)(*arguments)
        if error:
            text = ctypes.c_char_p()
            self.lib.cuGetErrorName(error, ctypes.byref(text))
            raise CudaError(f"{name}: {(text.value or str(error).encode()).decode()}")

    # ---- what the device is
    def attribute(self, number: int) -> int:
        value = ctypes.c_int()
        self.call("cuDeviceGetAttribute", ctypes.byref(value), number, self.device)
        return value.value

    @property
    def arch(self) -> str:
        return f"sm_{self.attribute(75)}{self.attribute(76)}"

    @property
    def multiprocessors(self) -> int:
        return self.attribute(16)

    def describe(self) -> dict[str, object]:
        """Name, architecture, driver version, clocks and memory."""
        name = ctypes.create_string_buffer(256)
        self.call("cuDeviceGetName", name, 256, self.device)
        version, total = ctypes.c_int(), ctypes.c_size_t()
        self.call("cuDriverGetVersion", ctypes.byref(version))
        self.call("cuDeviceTotalMem_v2", ctypes.byref(total), self.device)
        return {
            "device": name.value.decode(), "arch": self.arch, "driver": f"{version.value // 1000}.{version.value % 1000 // 10}",
            "multiprocessors": self.multiprocessors, "clock_khz": self.attribute(13), "memory_clock_khz": self.attribute(36),
            "memory_bus_bits": self.attribute(37), "l2_bytes": self.attribute(38), "memory_bytes": total.value,
        }  # fmt: skip

    # ---- memory
    def allocate(self, size: int) -> int:
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(max(1, size)))
        return address.value

    def free(self, address: int) -> None:
        self.call("cuMemFree_v2", ctypes.c_uint64(address))

    def write(self, address: int, data: bytes) -> None:
        if data:
            self.call("cuMemcpyHtoD_v2", ctypes.c_uint64(address), data, ctypes.c_size_t(len(data)))

    def read(self, address: int, size: int) -> bytes:
        out = ctypes.create_string_buffer(max(1, size))
        self.call("cuMemcpyDtoH_v2", out, ctypes.c_uint64(address), ctypes.c_size_t(size))
        return out.raw[:size]

    def copy(self, target: int, source: int, size: int) -> None:
        self.call(
            "cuMemcpyDtoDAsync_v2",
            ctypes.c_uint64(target),
            ctypes.c_uint64(source),
            ctypes.c_size_t(size),
            None,
        )

    def clear(self, address: int, size: int) -> None:
        self.call("cuMemsetD8Async", ctypes.c_uint64(address), ctypes.c_ubyte(0), ctypes.c_size_t(size), None)

    def fill(self, address: int, size: int, pattern: bytes) -> None:
        """Repeats the pattern over the memory, by copies that double."""
        self.write(address, pattern[:size])
        done = min(size, len(pattern))
        while done < size:
            step = min(done, size - done)
            self.copy(address + done, address, step)
            done += step
        self.wait()

    def wait(self) -> None:
        self.call("cuCtxSynchronize")

    # ---- kernels
    def function(self, image: bytes, entry: str, shared: int = 0) -> ctypes.c_void_p:
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), image)
        self.call("cuModuleGetFunction", ctypes.byref(function), module, entry.encode())
        if shared:
            self.call("cuFuncSetAttribute", function, SHARED_OPT_IN, shared)
        return function

    def tensor_map(self, address: int, made: Mapping[str, Any]) -> bytes:
        """The 128 bytes of a descriptor for bulk tensor copies; `made` has its numbers, dimensions innermost first."""
        wide, narrow = ctypes.c_uint64 * 5, ctypes.c_uint32 * 5
        rank = len(made["box"])
        owner = (ctypes.c_ubyte * 256)()
        at = ctypes.addressof(owner) + -ctypes.addressof(owner) % 128
        self.call(
            "cuTensorMapEncodeTiled", ctypes.c_void_p(at), made["type"], rank, ctypes.c_void_p(address),
            wide(*made["extents"]), wide(*made["strides"]), narrow(*made["box"]), narrow(*[1] * rank), 0, made["swizzle"],
            2, made["fill"],
        )  # fmt: skip
        return ctypes.string_at(at, 128)

    def launch(
        self,
        function: ctypes.c_void_p,
        grid: Sequence[int],
        block: Sequence[int],
        shared: int,
        parameters: Sequence[bytes],
    ) -> None:
        held = [(ctypes.c_ubyte * len(p)).from_buffer_copy(p) for p in parameters]
        pointers = (ctypes.c_void_p * max(1, len(held)))(*(ctypes.addressof(h) for h in held))
        self.call("cuLaunchKernel", function, *map(int, grid), *map(int, block), shared, None, pointers, None)

    # ---- time
    def event(self) -> ctypes.c_void_p:
        event = ctypes.c_void_p()
        self.call("cuEventCreate", ctypes.byref(event), 0)
        return event

    def record(self, event: ctypes.c_void_p) -> None:
        self.call("cuEventRecord", event, None)

    def seconds(self, start: ctypes.c_void_p, end: ctypes.c_void_p) -> float:
        """Between two events, behind the second."""
        milliseconds = ctypes.c_float()
        self.call("cuEventSynchronize", end)
        self.call("cuEventElapsedTime", ctypes.byref(milliseconds), start, end)
        return milliseconds.value / 1000
