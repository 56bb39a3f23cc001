"""Just enough of the CUDA driver for an example: memory on the GPU, with nothing but ctypes."""

import ctypes

import numpy as np


class Device:
    """The first GPU. OSError when there is none."""

    def __init__(self) -> None:
        self.driver = ctypes.CDLL("libcuda.so.1")
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)

    def call(self, name: str, *arguments: object) -> None:
        code = getattr(self.driver, name)(*arguments)
        if code:
            raise OSError(f"{name}: CUDA error {code}")

    def to_device(self, array: np.ndarray) -> int:
        """A device pointer to a copy of the array."""
        pointer = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(array.nbytes))
        self.call(
            "cuMemcpyHtoD_v2", pointer, ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(array.nbytes)
        )
        return pointer.value

    def to_host(self, pointer: int, array: np.ndarray) -> None:
        """Waits for the GPU and copies back."""
        self.call(
            "cuMemcpyDtoH_v2",
            ctypes.c_void_p(array.ctypes.data),
            ctypes.c_uint64(pointer),
            ctypes.c_size_t(array.nbytes),
        )
