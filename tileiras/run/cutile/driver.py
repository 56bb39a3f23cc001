"""A stand-in for the CUDA driver, for the calls that cuTile Python makes when it launches a kernel.

cuTile's extension asks one function, `cuGetProcAddress`, for all others. Here that function and the ones it hands out are
ctypes callbacks: nothing is built, nothing lies on a search path, and only the process that asked for it has it. Device
memory is host memory, streams and events are in order by themselves because a launch returns when its blocks are done,
and a call that is not in the table fails with its name.
"""

from __future__ import annotations

import ctypes
import itertools
import sys
import threading
from ctypes import c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# cuda.h, CUresult
SUCCESS = 0
INVALID_VALUE = 1
INVALID_DEVICE = 101
INVALID_IMAGE = 200
INVALID_HANDLE = 400
NOT_FOUND = 500
LAUNCH_FAILED = 719
NOT_SUPPORTED = 801
OUT_OF_MEMORY = 2
TEXTS = {
    INVALID_VALUE: b"invalid argument",
    OUT_OF_MEMORY: b"out of memory",
    INVALID_DEVICE: b"invalid device ordinal",
    INVALID_IMAGE: b"the image was not made for this run",
    INVALID_HANDLE: b"invalid resource handle",
    NOT_FOUND: b"named symbol not found",
    LAUNCH_FAILED: b"the kernel failed",
    NOT_SUPPORTED: b"tileiras has no such driver call",
}
VERSION = 13040  # CUDA 13.4, whose Tile IR cuTile may then use
MS_BETWEEN_EVENTS = 1.0  # every elapsed time: what runs here says nothing about a GPU

# cuda.h, CUdevice_attribute: what a launcher asks. Limits of the launch are those of every GPU since sm_75.
ATTRIBUTES = {
    1: 1024,  # threads per block
    2: 1024, 3: 1024, 4: 64,  # block dimensions
    5: 2**31 - 1, 6: 65535, 7: 65535,  # grid dimensions
    8: 48 * 1024,  # shared memory per block
    10: 32,  # warp size
    16: 16,  # multiprocessors
    38: 32 << 20,  # L2 cache, bytes
    39: 2048,  # threads per multiprocessor
    41: 1,  # unified addressing
    81: 227 * 1024,  # shared memory per multiprocessor
    97: 227 * 1024,  # shared memory per block, opted in
    115: 0,  # memory pools
}  # fmt: skip
CAPABILITY_MAJOR, CAPABILITY_MINOR = 75, 76
POINTER_CONTEXT, POINTER_MEMORY_TYPE, POINTER_DEVICE, POINTER_HOST, POINTER_ORDINAL = 1, 2, 3, 4, 9
MEMORY_OF_DEVICE = 2

GET_PROC_ADDRESS = ctypes.CFUNCTYPE(c_int, c_char_p, c_void_p, c_int, c_uint64, c_void_p)
UNKNOWN = ctypes.CFUNCTYPE(c_int)  # arguments lie in registers that nobody reads


class LaunchConfig(ctypes.Structure):
    """cuda.h, CUlaunchConfig."""

    _fields_ = [
        ("grid", c_uint * 3),
        ("block", c_uint * 3),
        ("shared", c_uint),
        ("stream", c_void_p),
        ("attributes", c_void_p),
        ("attribute_count", c_uint),
    ]


class Refused(Exception):
    """A call ends with this CUresult."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


CALLS: dict[str, tuple[tuple[Any, ...], Callable[..., int | None]]] = {}


def call(name: str, *types: Any) -> Callable[[Any], Any]:
    def register(function: Any) -> Any:
        CALLS[name] = types, function
        return function

    return register


def put(place: int | None, type: Any, value: Any) -> None:
    """Write a result through a pointer argument."""
    if not place:
        raise Refused(INVALID_VALUE)
    type.from_address(place).value = value


class Driver:
    """One device of the given capability. `run(image, symbol, grid, parameters)` executes a kernel.

    `load(data address)` gives the image object of what a library load points to, or None.
    """

    def __init__(self, capability: tuple[int, int], load: Any, run: Any) -> None:
        self.capability, self.load_image, self.run = capability, load, run
        self.handles = itertools.count(0x7E11_0010, 16)
        self.context = next(self.handles)
        self.libraries: dict[int, Any] = {}
        self.kernels: dict[int, tuple[Any, str]] = {}
        self.allocations: dict[int, tuple[Any, int]] = {}
        self.local = threading.local()  # .failure: why the latest call of this thread failed
        self.given: dict[tuple[str, int], Any] = {}  # callbacks live as long as somebody may call them
        self.get = GET_PROC_ADDRESS(self.get_proc_address)
        self.cell = c_void_p(ctypes.cast(self.get, c_void_p).value)

    @property
    def get_proc_address_cell(self) -> int:
        """Address of a pointer to `cuGetProcAddress`, as `dlsym` would give."""
        return ctypes.addressof(self.cell)

    @property
    def get_proc_address_of(self) -> int:
        """Address of `cuGetProcAddress`."""
        return self.cell.value or 0

    def get_proc_address(
        self, symbol: bytes, place: int | None, version: int, _flags: int, status: int | None
    ) -> int:
        name = symbol.decode()
        if name == "cuCtxGetDevice" and version >= 13000:
            name = "cuCtxGetDevice_v2"
        found = self.given.get((name, 0))
        if found is None:
            found = self.given.setdefault((name, 0), self.callback(name))
        put(place, c_void_p, ctypes.cast(found, c_void_p).value)
        if status:
            put(status, c_int, 0)
        return SUCCESS

    def callback(self, name: str) -> Any:
        row = CALLS.get(name)
        if row is None:
            return UNKNOWN(lambda: self.missing(name))
        types, function = row

        def answer(*args: Any) -> int:
            try:
                return function(self, *args) or SUCCESS
            except Refused as refused:
                return refused.code
            except (
                BaseException
            ) as error:  # nothing may pass through the C++ that called; the launch raises it again
                self.local.failure = error
                return LAUNCH_FAILED

        return ctypes.CFUNCTYPE(c_int, *types)(answer)

    def missing(self, name: str) -> int:
        text = f"the stand-in for the CUDA driver has no {name}"
        self.local.failure = NotImplementedError(text)
        print(f"tileiras: {text}", file=sys.stderr, flush=True)
        return NOT_SUPPORTED

    def take_failure(self) -> BaseException | None:
        """What made this thread's latest failing call fail, once."""
        failure = getattr(self.local, "failure", None)
        self.local.failure = None
        return failure

    def allocate(self, size: int) -> int:
        if not size:
            raise Refused(INVALID_VALUE)
        try:
            raw = (ctypes.c_ubyte * (size + 256))()
        except MemoryError:
            raise Refused(OUT_OF_MEMORY) from None
        address = (ctypes.addressof(raw) + 255) // 256 * 256
        self.allocations[address] = raw, size
        return address

    def release(self, address: int | None) -> None:
        if address and self.allocations.pop(address, None) is None:
            raise Refused(INVALID_VALUE)


# ---- the device


@call("cuInit", c_uint)
def init(_driver: Driver, _flags: int) -> None:
    pass


@call("cuDriverGetVersion", c_void_p)
def driver_version(_driver: Driver, version: int) -> None:
    put(version, c_int, VERSION)


@call("cuGetErrorString", c_int, c_void_p)
def error_string(_driver: Driver, code: int, text: int) -> None:
    put(text, c_char_p, TEXTS.get(code, b"error of the stand-in driver"))


@call("cuDeviceGetCount", c_void_p)
def device_count(_driver: Driver, count: int) -> None:
    put(count, c_int, 1)


@call("cuDeviceGet", c_void_p, c_int)
def device(_driver: Driver, out: int, ordinal: int) -> int | None:
    if ordinal != 0:
        return INVALID_DEVICE
    put(out, c_int, 0)
    return None


@call("cuDeviceGetAttribute", c_void_p, c_int, c_int)
def device_attribute(driver: Driver, out: int, attribute: int, _device: int) -> None:
    if attribute == CAPABILITY_MAJOR:
        value = driver.capability[0]
    elif attribute == CAPABILITY_MINOR:
        value = driver.capability[1]
    else:
        value = ATTRIBUTES.get(attribute, 0)  # a feature that nobody listed is not there
    put(out, c_int, value)


@call("cuDevicePrimaryCtxRetain", c_void_p, c_int)
def primary_context(driver: Driver, out: int, _device: int) -> None:
    put(out, c_void_p, driver.context)


@call("cuCtxGetCurrent", c_void_p)
@call("cuCtxPopCurrent", c_void_p)
def current_context(driver: Driver, out: int) -> None:
    put(out, c_void_p, driver.context)


@call("cuCtxSetCurrent", c_void_p)
@call("cuCtxPushCurrent", c_void_p)
def set_context(_driver: Driver, _context: int) -> None:
    pass


@call("cuCtxGetDevice", c_void_p)
def context_device(_driver: Driver, out: int) -> None:
    put(out, c_int, 0)


@call("cuCtxGetDevice_v2", c_void_p, c_void_p)
def device_of_context(_driver: Driver, out: int, _context: int) -> None:
    put(out, c_int, 0)


@call("cuCtxGetId", c_void_p, c_void_p)
def context_id(driver: Driver, _context: int, out: int) -> None:
    put(out, c_uint64, driver.context)


@call("cuCtxSynchronize")
def synchronize(_driver: Driver) -> None:
    pass


# ---- streams and events: everything has happened when a call returns


@call("cuEventCreate", c_void_p, c_uint)
@call("cuStreamCreate", c_void_p, c_uint)
def create(driver: Driver, out: int, _flags: int) -> None:
    put(out, c_void_p, next(driver.handles))


@call("cuEventDestroy", c_void_p)
@call("cuEventQuery", c_void_p)
@call("cuStreamDestroy", c_void_p)
@call("cuStreamSynchronize", c_void_p)
def nothing(_driver: Driver, _handle: int) -> None:
    pass


@call("cuEventRecord", c_void_p, c_void_p)
def record(_driver: Driver, _event: int, _stream: int) -> None:
    pass


@call("cuStreamWaitEvent", c_void_p, c_void_p, c_uint)
def wait(_driver: Driver, _stream: int, _event: int, _flags: int) -> None:
    pass


@call("cuEventElapsedTime", c_void_p, c_void_p, c_void_p)
def elapsed(_driver: Driver, out: int, _start: int, _end: int) -> None:
    put(out, ctypes.c_float, MS_BETWEEN_EVENTS)


@call("cuStreamGetCtx", c_void_p, c_void_p)
def stream_context(driver: Driver, _stream: int, out: int) -> None:
    put(out, c_void_p, driver.context)


@call("cuStreamGetId", c_void_p, c_void_p)
def stream_id(_driver: Driver, stream: int | None, out: int) -> None:
    put(out, c_uint64, stream or 0)


@call("cuStreamIsCapturing", c_void_p, c_void_p)
def is_capturing(_driver: Driver, _stream: int, out: int) -> None:
    put(out, c_int, 0)


# ---- memory


@call("cuMemAlloc", c_void_p, c_size_t)
@call("cuMemAllocHost", c_void_p, c_size_t)
def allocate(driver: Driver, out: int, size: int) -> None:
    put(out, c_void_p, driver.allocate(size))


@call("cuMemFree", c_void_p)
@call("cuMemFreeHost", c_void_p)
def free(driver: Driver, address: int) -> None:
    driver.release(address)


@call("cuMemGetAddressRange", c_void_p, c_void_p, c_void_p)
def address_range(driver: Driver, base: int | None, size: int | None, address: int) -> int | None:
    for start, (_, length) in list(driver.allocations.items()):
        if start <= (address or 0) < start + length:
            if base:
                put(base, c_void_p, start)
            if size:
                put(size, c_size_t, length)
            return None
    return NOT_FOUND


@call("cuMemcpyHtoDAsync", c_void_p, c_void_p, c_size_t, c_void_p)
def copy(_driver: Driver, target: int, source: int, size: int, _stream: int) -> None:
    ctypes.memmove(target, source, size)


@call("cuPointerGetAttribute", c_void_p, c_int, c_void_p)
def pointer_attribute(driver: Driver, out: int, attribute: int, address: int) -> int | None:
    if attribute == POINTER_CONTEXT:
        put(out, c_void_p, driver.context)
    elif attribute == POINTER_MEMORY_TYPE:
        put(out, c_uint, MEMORY_OF_DEVICE)
    elif attribute in (POINTER_DEVICE, POINTER_HOST):
        put(out, c_void_p, address)
    elif attribute == POINTER_ORDINAL:
        put(out, c_int, 0)
    else:
        return INVALID_VALUE
    return None


@call("cuIpcGetMemHandle", c_void_p, c_void_p)
@call("cuIpcCloseMemHandle", c_void_p, c_void_p)
def no_sharing(_driver: Driver, _handle: int, _address: int) -> int:
    return NOT_SUPPORTED  # cuTile then measures in its own process


# ---- code


@call("cuLibraryLoadData", c_void_p, c_void_p, c_void_p, c_void_p, c_uint, c_void_p, c_void_p, c_uint)
def load(driver: Driver, out: int, code: int, *_options: Any) -> int | None:
    image = driver.load_image(code)
    if image is None:
        return INVALID_IMAGE
    handle = next(driver.handles)
    driver.libraries[handle] = image
    put(out, c_void_p, handle)
    return None


@call("cuLibraryUnload", c_void_p)
def unload(driver: Driver, library: int) -> int | None:
    image = driver.libraries.pop(library, None)
    if image is None:
        return INVALID_HANDLE
    for handle in [one for one, (owner, _) in list(driver.kernels.items()) if owner is image]:
        driver.kernels.pop(handle, None)
    return None


@call("cuLibraryGetKernel", c_void_p, c_void_p, c_char_p)
def find_kernel(driver: Driver, out: int, library: int, name: bytes) -> int | None:
    image = driver.libraries.get(library)
    if image is None:
        return INVALID_HANDLE
    handle = next(driver.handles)
    driver.kernels[handle] = image, name.decode()
    put(out, c_void_p, handle)
    return None


@call("cuKernelGetFunction", c_void_p, c_void_p)
def function_of(_driver: Driver, out: int, kernel: int) -> None:
    put(out, c_void_p, kernel)


@call("cuKernelGetAttribute", c_void_p, c_int, c_void_p, c_int)
def kernel_attribute(_driver: Driver, out: int, _attribute: int, _kernel: int, _device: int) -> None:
    put(out, c_int, 0)


@call("cuKernelSetAttribute", c_int, c_int, c_void_p, c_int)
def set_kernel_attribute(_driver: Driver, _attribute: int, _value: int, _kernel: int, _device: int) -> None:
    pass


def start(driver: Driver, kernel: int, grid: tuple[int, int, int], parameters: int | None) -> int | None:
    found = driver.kernels.get(kernel)
    if found is None:
        return INVALID_HANDLE
    driver.run(*found, grid, parameters)
    return None


@call("cuLaunchKernel", c_void_p, *[c_uint] * 7, c_void_p, c_void_p, c_void_p)
def launch(driver: Driver, kernel: int, x: int, y: int, z: int, *rest: Any) -> int | None:
    return start(driver, kernel, (x, y, z), rest[5])


@call("cuLaunchKernelEx", c_void_p, c_void_p, c_void_p, c_void_p)
def launch_ex(driver: Driver, config: int, kernel: int, parameters: int, _extra: int) -> int | None:
    x, y, z = LaunchConfig.from_address(config).grid
    return start(driver, kernel, (x, y, z), parameters)
