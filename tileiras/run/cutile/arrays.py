"""Host arrays as cuTile's launch takes them: lent by DLPack under the name of a GPU's memory.

cuTile reads address, shape and strides and hands them to the driver, which here is the stand-in; nobody follows a
pointer on the way. Containers of the arguments are copied as far as they hold arrays.
"""

from __future__ import annotations

import copy
import ctypes
import dataclasses
import sys

import ml_dtypes
import numpy as np

from tileiras.run.imports import (
    CODES,
    NAMED,
    DeviceArray,
    DLTensor,
    NotImportable,
    borrow,
    check_bits,
    import_array,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

CUDA_DEVICE = 2  # kDLCUDA
_DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype, _new_capsule.argtypes = (
    ctypes.py_object,
    [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p],
)

_KINDS = {name[0]: code for code, name in CODES.items() if name in ("int", "uint", "float", "complex")}
_CODE_OF = {name: code for (code, _), name in NAMED.items()}
ELSEWHERE = "the memory of a GPU: copy it to the host, or run the script with --target gpu"
_loans: dict[type, type[Lent]] = {}
_lent: dict[int, Any] = {}  # structures that a consumer may still look at, by address


class _Managed(ctypes.Structure):
    _fields_ = [("tensor", DLTensor), ("context", ctypes.c_void_p), ("deleter", _DELETER)]


@_DELETER
def _give_back(address: int) -> None:
    _lent.pop(address, None)


class Lent:
    """An array on loan: what cuTile sees of it."""

    __slots__ = ("array",)

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack_device__(self) -> tuple[int, int]:
        return CUDA_DEVICE, 0

    def __dlpack__(self, **_options: Any) -> Any:
        array = self.array
        item = array.itemsize
        if any(step % item for step in array.strides):
            raise BufferError("strides are no multiples of the element size")
        managed = _Managed()
        tensor = managed.tensor
        shape = (ctypes.c_int64 * max(1, array.ndim))(*array.shape)
        strides = (ctypes.c_int64 * max(1, array.ndim))(*(step // item for step in array.strides))
        tensor.data = array.__array_interface__["data"][0]
        tensor.device_type, tensor.device_id, tensor.ndim = CUDA_DEVICE, 0, array.ndim
        tensor.code, tensor.bits, tensor.lanes = type_code(array.dtype), 8 * item, 1
        tensor.shape = ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64))
        tensor.strides = ctypes.cast(strides, ctypes.POINTER(ctypes.c_int64))
        managed.deleter = _give_back
        address = ctypes.addressof(managed)
        _lent[address] = managed, shape, strides, array
        return _new_capsule(address, b"dltensor", None)


def type_code(dtype: np.dtype[Any]) -> int:
    """DLPack's code of an element type. Errors: BufferError."""
    code = _CODE_OF.get(dtype.name, _KINDS.get(dtype.kind) if dtype.isbuiltin == 1 else None)
    if code is None:
        raise BufferError(f"DLPack has no type for {dtype}")
    return code


def lend(value: Any, arrays: list[np.ndarray]) -> Any:
    """The argument with every array in it on loan; `arrays` collects them."""
    if isinstance(value, (list, tuple)):
        items = [lend(item, arrays) for item in value]
        if all(new is old for new, old in zip(items, value)):
            return value
        if hasattr(value, "_fields"):  # a named tuple
            return type(value)(*items)
        return type(value)(items)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return lend_fields(value, arrays)
    array = array_of(value)
    if array is None:
        return value
    arrays.append(array)
    return loan_class(type(value))(array)


def loan_class(kind: type) -> type[Lent]:
    """Loans of one kind of array, under its name: cuTile's messages name the type of an argument."""
    found = _loans.get(kind)
    if found is None:
        found = _loans.setdefault(kind, type(kind.__name__, (Lent,), {"__slots__": ()}))
    return found


def lend_fields(value: Any, arrays: list[np.ndarray]) -> Any:
    found = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    lent = {name: lend(item, arrays) for name, item in found.items()}
    if all(lent[name] is item for name, item in found.items()):
        return value
    out = copy.copy(value)
    for name, item in lent.items():
        object.__setattr__(out, name, item)  # also where the class is frozen
    return out


def array_of(value: Any) -> np.ndarray | None:
    """The host memory behind an argument; None for what is no array.

    Errors: NotImportable, for memory of a GPU, too: nothing here could follow its addresses.
    """
    if isinstance(value, np.generic):
        return None
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        with torch._C.DisableTorchFunction():  # --map-cuda answers for a GPU
            return array_of_tensor(value.detach())  # a launch records no gradient
    array = import_array(value)
    if isinstance(array, DeviceArray):
        raise NotImportable(f"a {type(value).__name__} lies in {ELSEWHERE}")
    return array


def array_of_tensor(tensor: Any) -> np.ndarray:
    """The memory of a PyTorch tensor on the CPU. Errors: NotImportable."""
    if tensor.device.type == "cuda":
        raise NotImportable(f"a tensor lies in {ELSEWHERE}")
    if tensor.device.type != "cpu":
        raise NotImportable(f"a tensor on the device '{tensor.device}' has no memory that a kernel can reach")
    check_bits(tensor)
    if str(tensor.layout) != "torch.strided":
        raise NotImportable(f"a tensor of layout {tensor.layout} is no array")
    name = str(tensor.dtype).removeprefix("torch.")
    try:
        dtype = np.dtype(name) if hasattr(np, name) else np.dtype(getattr(ml_dtypes, name))
    except (AttributeError, TypeError):
        raise NotImportable(f"elements of type {tensor.dtype} have no name here") from None
    strides = tuple(step * dtype.itemsize for step in tensor.stride())
    return borrow(tensor.data_ptr(), tuple(tensor.shape), strides, dtype, tensor)
