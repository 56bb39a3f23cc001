"""Arrays of other libraries as NumPy sees them: by `__array_interface__`, DLPack or `__cuda_array_interface__`.

Nothing is copied: an import is a view of the other library's memory with its strides, and keeps what owns the memory
alive. Memory of a GPU becomes a `DeviceArray`, which only the GPU target takes.
"""

from __future__ import annotations

import ctypes
import math

import numpy as np

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# DLPack: dlpack.h, versions 0.8 and 1.1
CPU_DEVICES = (1, 3, 11)  # kDLCPU, kDLCUDAHost, kDLROCMHost: addresses that the CPU can follow
CUDA_DEVICES = (2, 13)  # kDLCUDA, kDLCUDAManaged
READ_ONLY_FLAG = 1
LEGACY_DEFAULT_STREAM = 1
CODES = {0: "int", 1: "uint", 2: "float", 5: "complex"}
NAMED = {
    (4, 16): "bfloat16", (6, 8): "bool", (8, 8): "float8_e4m3", (10, 8): "float8_e4m3fn", (12, 8): "float8_e5m2",
    (14, 8): "float8_e8m0fnu",
}  # fmt: skip


PACKED_F4 = (17, 4, 2)  # kDLFloat4_e2m1fn, two a byte


class NotImportable(Exception):
    """An object that offers memory which a launch cannot use; the text says why."""


class DeviceArray:
    """An array in the memory of a GPU: address, shape, strides in bytes, dtype and its owner."""

    __slots__ = ("address", "dtype", "owner", "shape", "strides")

    def __init__(self, address: int, shape: Any, strides: Any, dtype: np.dtype[Any], owner: Any) -> None:
        self.address, self.shape, self.strides = address, tuple(shape), tuple(strides)
        self.dtype, self.owner = dtype, owner

    @property
    def size(self) -> int:
        return math.prod(self.shape)


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", DLTensor),
    ]


_get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_get_pointer.restype, _get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.restype, _is_valid.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_char_p]


def import_array(value: Any) -> np.ndarray | DeviceArray | None:
    """The array behind an object of another library; None when it offers none.

    Errors: NotImportable (read-only memory, an element type without a name here, an unknown device).
    """
    if isinstance(value, np.ndarray):
        return value
    if isinstance(value, np.generic) or isinstance(value, type):
        return None
    try:
        check_bits(value)
        if hasattr(value, "__array_interface__"):
            return _from_interface(value)
        if hasattr(value, "__dlpack__"):
            return _from_dlpack(value)
        if hasattr(value, "__cuda_array_interface__"):
            return _from_cuda_interface(value)
    except NotImportable:
        raise
    except Exception as error:  # the other library's refusal, such as a tensor that records gradients
        first = str(error).strip().splitlines()[:1]
        raise NotImportable(f"it cannot be imported: {first[0] if first else type(error).__name__}") from None
    return None


def check_bits(value: Any) -> None:
    """Errors: NotImportable for a PyTorch tensor whose memory holds other values than the tensor: negated or conjugated ones."""
    for bit, remedy in (("is_neg", "resolve_neg"), ("is_conj", "resolve_conj")):
        asked = getattr(value, bit, None)
        if callable(asked) and hasattr(value, remedy) and asked():
            raise NotImportable(f"its memory holds other values than it has ({bit}): pass .{remedy}()")


def _from_interface(value: Any) -> np.ndarray:
    array = np.asarray(value)
    if not array.flags.writeable:
        raise NotImportable("its memory is read-only")
    return array


def _from_cuda_interface(value: Any) -> DeviceArray:
    facts = value.__cuda_array_interface__
    address, read_only = facts["data"]
    if read_only:
        raise NotImportable("its memory is read-only")
    dtype = np.dtype(facts["typestr"])
    shape = tuple(facts["shape"])
    strides = facts.get("strides") or _dense_strides(shape, dtype.itemsize)
    return DeviceArray(address or 0, shape, strides, dtype, value)


def _dense_strides(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    out = []
    for extent in reversed(shape):
        out.append(itemsize)
        itemsize *= max(extent, 1)
    return tuple(reversed(out))


def _from_dlpack(value: Any) -> np.ndarray | DeviceArray:
    on_gpu = False
    if hasattr(value, "__dlpack_device__"):
        device = int(value.__dlpack_device__()[0])
        on_gpu = device in CUDA_DEVICES
        if not on_gpu and device not in CPU_DEVICES:
            raise NotImportable(f"its memory lies on a device of DLPack type {device}")
    # The default stream of CUDA: the producer's work is ordered before ours.
    stream = {"stream": LEGACY_DEFAULT_STREAM} if on_gpu else {}
    try:
        capsule = value.__dlpack__(max_version=(1, 1), **stream)
    except TypeError:
        capsule = value.__dlpack__(**stream)
    flags = 0
    if _is_valid(capsule, b"dltensor_versioned"):
        managed = _Versioned.from_address(_get_pointer(capsule, b"dltensor_versioned"))
        if managed.major != 1:
            raise NotImportable(f"it speaks DLPack {managed.major}.{managed.minor}")
        tensor, flags = managed.tensor, managed.flags
    elif _is_valid(capsule, b"dltensor"):
        tensor = DLTensor.from_address(_get_pointer(capsule, b"dltensor"))
    else:
        raise NotImportable("its __dlpack__ gives no unused DLPack capsule")
    if flags & READ_ONLY_FLAG:
        raise NotImportable("its memory is read-only")
    dtype = _dtype_of(tensor)
    shape = tuple(tensor.shape[:ndim]) if (ndim := tensor.ndim) else ()
    if ndim and tensor.strides:
        strides = tuple(step * dtype.itemsize for step in tensor.strides[:ndim])
    else:
        strides = _dense_strides(shape, dtype.itemsize)
    address = (tensor.data or 0) + tensor.byte_offset
    owner = (value, capsule)  # a capsule that nobody consumes releases its tensor when it goes
    if tensor.device_type in CPU_DEVICES:
        return borrow(address, shape, strides, dtype, owner)
    return DeviceArray(address, shape, strides, dtype, owner)


def _dtype_of(tensor: DLTensor) -> np.dtype[Any]:
    name = NAMED.get((tensor.code, tensor.bits)) or f"{CODES.get(tensor.code, '?')}{tensor.bits}"
    if (tensor.code, tensor.bits, tensor.lanes) == PACKED_F4:
        return np.dtype(np.uint8)  # as memory that is packed already is passed
    try:
        if tensor.lanes != 1:
            raise TypeError
        if hasattr(np, name) or name == "bool":
            return np.dtype(name)
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, name))
    except (TypeError, AttributeError):
        what = f"code {tensor.code}, {tensor.bits} bits, {tensor.lanes} lanes"
        raise NotImportable(f"its elements have a DLPack type without a name here ({what})") from None


class _Borrowed:
    """Memory of somebody else, as NumPy asks for it."""

    def __init__(self, facts: dict[str, Any], owner: Any) -> None:
        self.__array_interface__ = facts
        self.owner = owner


def borrow(address: int, shape: Any, strides: Any, dtype: np.dtype[Any], owner: Any) -> np.ndarray:
    """An array over memory of somebody else; its base keeps the owner. Strides in bytes."""
    bits = dtype.str if dtype.isbuiltin == 1 else f"|V{dtype.itemsize}"  # ml_dtypes have no letter
    facts = {"version": 3, "data": (address, False), "shape": shape, "strides": strides, "typestr": bits}
    array = np.asarray(_Borrowed(facts, owner))
    return array.view(dtype) if array.dtype != dtype else array
