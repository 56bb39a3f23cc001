"""Launching a cubin on a real GPU through cuda-python (the driver API).

Arrays are copied to the device and back. Device addresses differ from host addresses, so memory that a kernel
reaches through stored pointers cannot be passed here; such launches are refused with a message. Arrays that
overlap share one device buffer, so aliasing survives.
"""

from __future__ import annotations

import ctypes
import sys

from tileiras.diag import ERROR, EXIT_CONFIGURATION, Diag, Emitted

from .errors import LaunchError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    import numpy as np

    from .args import Arguments

NO_BINDINGS = Diag(
    "RUN-0401", ERROR, "launching on a GPU needs cuda-python: pip install 'tileiras[run]' ({why})", "gpu"
)
"""
cause: The GPU or its driver cannot run the launch, for the reason named.
remedy: Check `nvidia-smi`, the driver's release and `pip install 'tileiras[run]'`; without a GPU use reference,
emulator or cpu.

! cuda-python is not installed: it depends on the installation.
"""

NO_GPU = Diag("RUN-0402", ERROR, "no usable GPU: {why}", "gpu")
"""
see: RUN-0401

! The driver or the GPU is missing: it depends on the machine.
"""

DRIVER = Diag("RUN-0403", ERROR, "{call} failed: {why}", "gpu")
"""
see: RUN-0401

! The driver refused a call in the middle of a launch: it depends on the driver and the GPU.
"""

STORED_POINTERS = Diag(
    "RUN-0404", ERROR,
    "memory behind stored pointers cannot be passed to a GPU launch: host addresses mean nothing there",
    "gpu",
)  # fmt: skip
"""
see: RUN-0401

! Said by a launch on a GPU that was reached: it needs the machine to have one.
"""


def refuse(diag: Diag, **facts: object) -> LaunchError:
    return LaunchError([Emitted(diag, None, None, facts.items())], EXIT_CONFIGURATION)


def libcuda() -> Any:
    """The driver's library, which cuda-python has loaded."""
    return ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")


class Device:
    """The first GPU, with a context that is current."""

    def __init__(self) -> None:
        try:
            from cuda.bindings import driver
        except ImportError as missing:
            raise refuse(NO_BINDINGS, why=missing) from None
        self.driver: Any = driver
        try:
            (error,) = driver.cuInit(0)
        except RuntimeError as missing:  # cuda-python could not load libcuda, and does not say why
            try:
                libcuda()
            except OSError as unloadable:
                why = f"the driver's library cannot be loaded ({unloadable})"
                raise refuse(NO_GPU, why=why) from None
            raise refuse(NO_GPU, why=f"the driver's library is none of NVIDIA's ({missing})") from None
        if int(error) != 0:
            raise refuse(NO_GPU, why=self.text(error))
        if self.call("cuDeviceGetCount") == 0:
            raise refuse(NO_GPU, why="the driver reports no device")
        device = self.call("cuDeviceGet", 0)
        attribute = driver.CUdevice_attribute
        major = self.call(
            "cuDeviceGetAttribute", attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device
        )
        minor = self.call(
            "cuDeviceGetAttribute", attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device
        )
        self.arch = f"sm_{major}{minor}"
        self.call("cuCtxSetCurrent", self.call("cuDevicePrimaryCtxRetain", device))

    def text(self, error: Any) -> str:
        _, name = self.driver.cuGetErrorName(error)
        return name.decode() if isinstance(name, bytes) else str(error)

    def call(self, name: str, *args: Any) -> Any:
        """One driver call; its result, or LaunchError."""
        error, *results = getattr(self.driver, name)(*args)
        if int(error) != 0:
            raise refuse(DRIVER, call=name, why=self.text(error))
        return results[0] if len(results) == 1 else tuple(results)

    def launch(
        self,
        cubin: bytes,
        kernel: Any,
        entry: str,
        grid: tuple[int, int, int],
        arguments: Arguments,
        memory: list[np.ndarray],
    ) -> None:
        """Copy in, launch, wait, copy out."""
        if memory:
            raise refuse(STORED_POINTERS)
        from .reference.memory import Memory

        if (
            arguments.keep
        ):  # memory of other libraries may have work in flight, also behind an address in a table
            self.call("cuCtxSynchronize")
        space = Memory()  # merges arrays that overlap
        for array, label in zip(arguments.arrays, arguments.labels):
            space.add_array(array, label)
        module = self.call("cuModuleLoadData", cubin)
        buffers: list[tuple[Any, Any]] = []
        try:
            function = self.call("cuModuleGetFunction", module, getattr(kernel, "symbol", entry).encode())
            for region in space.regions:
                size = region.end - region.start
                skew = region.start % 256  # keeps every array as aligned on the device as it is on the host
                buffer = self.call("cuMemAlloc", size + 256)
                buffers.append((region, buffer))
                self.call("cuMemcpyHtoD", int(buffer) + skew, region.bytes.ctypes.data, size)
            for table in arguments.tables:
                moved = table.copy()
                for place, address in enumerate(table):
                    moved[place] = self.translate(int(address), buffers)
                if table.size:
                    self.call(
                        "cuMemcpyHtoD",
                        self.translate(table.ctypes.data, buffers),
                        moved.ctypes.data,
                        table.nbytes,
                    )
            values = []
            for data, source in zip(arguments.data, arguments.sources):
                if source is not None and source.size:
                    data = self.translate(int.from_bytes(data, "little"), buffers).to_bytes(8, "little")
                values.append((ctypes.c_ubyte * len(data)).from_buffer_copy(data))
            maps = self.tensor_maps(kernel, [bytes(value) for value in values], buffers)
            places = [*map(ctypes.addressof, values), *(each.ctypes.data for each in maps)]
            pointers = (ctypes.c_void_p * max(1, len(places)))(*places)
            shared = kernel.dynamic_shared
            if shared:
                limit = self.driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
                self.call("cuFuncSetAttribute", function, limit, shared)
            block = (1, 1, 1) if getattr(kernel, "launch_abi", "simt") == "tile" else kernel.block
            self.call("cuLaunchKernel", function, *grid, *block, shared, 0, ctypes.addressof(pointers), 0)
            self.call("cuCtxSynchronize")
            for region, buffer in buffers:
                if region is not None and not region.read_only:
                    size = region.end - region.start
                    self.call(
                        "cuMemcpyDtoH", region.bytes.ctypes.data, int(buffer) + region.start % 256, size
                    )
        finally:
            for _, buffer in buffers:
                self.driver.cuMemFree(buffer)
            self.driver.cuModuleUnload(module)

    def tensor_maps(self, kernel: Any, data: list[bytes], buffers: list[tuple[Any, Any]]) -> list[np.ndarray]:
        """The hidden parameters of a launch. What they point to beside the arguments joins `buffers`."""
        found = getattr(kernel, "tensor_maps", ())
        if not found:
            return []
        import numpy as np

        from tileiras.compiler.target.tensor_maps import ALIGN, BYTES

        from .tensor_maps import for_driver, nothing_bytes, numbers

        def nothing() -> int:
            content = nothing_bytes()
            buffer = self.call("cuMemAlloc", content.nbytes)
            buffers.append((None, buffer))
            self.call("cuMemcpyHtoD", int(buffer), content.ctypes.data, content.nbytes)
            return int(buffer)

        # Not by cuda-python, whose CUtensorMap need not lie where the driver wants one.
        encode = libcuda().cuTensorMapEncodeTiled
        out = []
        for made in numbers(kernel, data, nothing):
            place = np.zeros(2 * BYTES, np.uint8)
            place = place[-place.ctypes.data % ALIGN :][:BYTES]
            code = encode(ctypes.c_void_p(place.ctypes.data), *for_driver(made))
            if code:
                why = self.text(self.driver.CUresult(code))
                raise refuse(DRIVER, call="cuTensorMapEncodeTiled", why=why)
            out.append(place)
        return out

    @staticmethod
    def translate(address: int, buffers: list[tuple[Any, Any]]) -> int:
        for region, buffer in buffers:
            if region is not None and region.start <= address < region.end:
                return int(buffer) + region.start % 256 + address - region.start
        return address
