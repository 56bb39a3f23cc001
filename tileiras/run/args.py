"""Arguments of a launch: flat, in the order of the entry's parameters, encoded as the kernel receives them.

A NumPy array stands for a pointer to its first element (a strided array is addressed as its memory lies), and so does
what another library offers by DLPack or an array interface. A list or tuple of arrays stands for a pointer to their
addresses (in Tile IR: a pointer to i64), a Python or NumPy scalar for a scalar parameter, an integer for a pointer is
an address. 4-bit arrays of ml_dtypes are packed two a byte for the launch and unpacked after it. The same `Arguments`
feeds the interpreter, the emulator and the GPU: per parameter the bytes of the parameter block, plus the arrays that
must stay alive and be reachable.
"""

from __future__ import annotations

import numpy as np

from tileiras.compiler.ir.types import I64, Ptr, Scalar, TileType
from tileiras.diag import ERROR, EXIT_USAGE, Diag, Emitted

from .errors import LaunchError
from .imports import DeviceArray, NotImportable, import_array

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from tileiras.compiler.ir.types import Type

SRC = "launch arguments"
COUNT = Diag("RUN-0101", ERROR, "entry '{entry}' takes {want} arguments, got {got}{hint}", SRC)
"""
cause: An argument of the launch does not fit the parameter of the kernel: in number, kind, type, range or place.
remedy: Pass one argument for each parameter: arrays for pointers, with the element type that the message names,
numbers for scalars.

in: script(%a: tile<i32>, %b: tile<i32>)
- tileiras.launch(kernel, "k", 1, [1])
+ tileiras.launch(kernel, "k", 1, [1, 2])
"""

NEEDS_ARRAY = Diag(
    "RUN-0102",
    ERROR,
    "argument {index} of '{entry}' is a {type}: expected a NumPy array or one with DLPack, got {got}",
    SRC,
)
"""
see: RUN-0101

in: script(%p: tile<ptr<f32>>)
  a = np.zeros(8, np.float32)
- tileiras.launch(kernel, "k", 1, [1.5])
+ tileiras.launch(kernel, "k", 1, [a])
"""

NEEDS_SCALAR = Diag(
    "RUN-0103", ERROR, "argument {index} of '{entry}' is a {type}: expected a scalar, got {got}", SRC
)
"""
see: RUN-0101

in: script(%n: tile<i32>)
  a = np.zeros(8, np.float32)
- tileiras.launch(kernel, "k", 1, [a])
+ tileiras.launch(kernel, "k", 1, [8])
"""

WIDTH = Diag(
    "RUN-0104", ERROR,
    "argument {index} of '{entry}' points to {pointee} ({want} bytes an element), "
    "but the array has dtype {dtype} ({got} bytes){hint}",
    SRC,
)  # fmt: skip
"""
see: RUN-0101

in: script(%p: tile<ptr<f32>>)
- tileiras.launch(kernel, "k", 1, [np.zeros(8)])
+ tileiras.launch(kernel, "k", 1, [np.zeros(8, np.float32)])
"""

RANGE = Diag(
    "RUN-0105", ERROR, "argument {index} of '{entry}': {value} does not fit {type} ({low} .. {high})", SRC
)
"""
see: RUN-0101

in: script(%n: tile<i32>)
- tileiras.launch(kernel, "k", 1, [2**32])
+ tileiras.launch(kernel, "k", 1, [2**32 - 1])
"""

NOT_INTEGER = Diag(
    "RUN-0106", ERROR, "argument {index} of '{entry}': {value} is not an integer, as {type} needs", SRC
)
"""
see: RUN-0101

in: script(%n: tile<i32>)
- tileiras.launch(kernel, "k", 1, [0.5])
+ tileiras.launch(kernel, "k", 1, [1])
"""

UNSUPPORTED = Diag(
    "RUN-0107", ERROR, "argument {index} of '{entry}': a parameter of type {type} cannot be passed", SRC
)
"""
cause: This way to run kernels does not have what the message names.
remedy: Launch on another target: reference, emulator, cpu or gpu.

! The reader and the verifier take scalars and pointers as parameters of kernels, nothing else; only a module built
in memory has others.
"""

ALIGNMENT = Diag(
    "RUN-0108", ERROR,
    "argument {index} of '{entry}': the array starts at {address}, which is not aligned to {want} bytes", SRC,
)  # fmt: skip
"""
cause: An address is not a multiple of what its access, or the kernel's promise of alignment, needs.
remedy: Pass arrays that begin at such an address, not slices of others; or promise less in the kernel.

in: script(%p: tile<ptr<f32>>)
  raw = np.zeros(64, np.uint8)
- tileiras.launch(kernel, "k", 1, [raw[1:33].view(np.float32)])
+ tileiras.launch(kernel, "k", 1, [raw[4:36].view(np.float32)])
"""

NOT_IMPORTED = Diag("RUN-0109", ERROR, "argument {index} of '{entry}' ({got}): {why}", SRC)
'''
see: RUN-0101

  $ python k.py
  import numpy as np
  import tileiras

  kernel = """
  cuda_tile.module {
    entry @k(%p: tile<ptr<f32>>) {
      return
    }
  }
  """
  class Lost:
      def __dlpack__(self, **_):
          raise BufferError("the buffer is gone")
      def __dlpack_device__(self):
          return 1, 0
- tileiras.launch(kernel, "k", 1, [Lost()])
+ tileiras.launch(kernel, "k", 1, [np.zeros(8, np.float32)])
'''

ON_DEVICE = Diag(
    "RUN-0110", ERROR,
    "argument {index} of '{entry}' lies in the memory of a GPU: copy it to the host, or launch with target='gpu'", SRC,
)  # fmt: skip
'''
see: RUN-0101

  $ python k.py
  import numpy as np
  import tileiras

  kernel = """
  cuda_tile.module {
    entry @k(%p: tile<ptr<f32>>) {
      return
    }
  }
  """
  class OnDevice:
      __cuda_array_interface__ = {"shape": (8,), "typestr": "<f4", "data": (4096, False), "version": 3}
- tileiras.launch(kernel, "k", 1, [OnDevice()])
+ tileiras.launch(kernel, "k", 1, [np.zeros(8, np.float32)])
'''

NOT_MEMORY = Diag("RUN-0203", ERROR, "memory: expected a sequence of NumPy arrays, got {got}", "launch")
"""
see: RUN-0201

in: script
  a = np.zeros(8, np.float32)
- tileiras.launch(kernel, "k", 1, [], memory=a.tolist())
+ tileiras.launch(kernel, "k", 1, [], memory=[a])
"""


LONGEST_VALUE = 60  # characters of a value that a message repeats
NIBBLE_DTYPES = ("float4_e2m1fn", "int4", "uint4")
INT_BYTES = {"i1": 1, "i4": 1, "i8": 1, "i16": 2, "i32": 4, "i64": 8}


class Arguments:
    """Encoded arguments. data[i]: bytes of parameter i; arrays and labels: the memory behind pointers."""

    __slots__ = ("arrays", "data", "keep", "labels", "packed", "sources", "tables", "types")

    def __init__(self) -> None:
        self.data: list[bytes] = []
        self.types: list[Type] = []  # element types of the parameters
        self.arrays: list[np.ndarray] = []
        self.labels: list[str] = []
        self.sources: list[np.ndarray | None] = []  # per parameter: its memory
        self.packed: list[
            tuple[np.ndarray, np.ndarray]
        ] = []  # (4-bit array of the caller, its packed memory)
        self.tables: list[np.ndarray] = []  # those of `arrays` that hold addresses of others
        self.keep: list[Any] = []  # owners of imported memory

    @property
    def block(self) -> bytes:
        """The parameter block: each parameter at its natural alignment."""
        out = b""
        for data in self.data:
            out += b"\0" * (-len(out) % len(data)) + data
        return out

    def unpack(self) -> None:
        """Write what a launch left in packed memory back to the caller's 4-bit arrays."""
        for array, memory in self.packed:
            if array.flags.writeable:
                nibbles = np.stack((memory & np.uint8(15), memory >> np.uint8(4)), -1).reshape(-1)
                array[...] = nibbles[: array.size].view(array.dtype).reshape(array.shape)


def refuse(diag: Diag, **facts: object) -> LaunchError:
    return LaunchError([Emitted(diag, None, None, facts.items())], EXIT_USAGE)


def kind_of(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype}{list(value.shape)}"
    name = type(value).__name__
    if isinstance(value, (list, tuple, dict, set)):
        return f"{name} of {len(value)}"
    text = repr(value) if isinstance(value, (int, float, complex, str, bytes, np.generic)) else ""
    return f"{name} {text}" if 0 < len(text) <= LONGEST_VALUE else name


def encode_arguments(
    entry: str, parameters: Sequence[Type], args: Iterable[Any], *, on_gpu: bool = False
) -> Arguments:
    """Arguments for the parameters of an entry (rank-0 tiles, or bare element types). on_gpu: takes a GPU's memory."""
    values = list(args)
    if len(values) != len(parameters):
        hint = ""
        if len(values) < len(parameters) and any(isinstance(v, np.ndarray) and v.ndim for v in values):
            hint = (
                "; an array stands for its pointer only: pass its extents and strides as the entry lists them"
            )
        raise refuse(COUNT, entry=entry, want=len(parameters), got=len(values), hint=hint)
    out = Arguments()
    for index, (parameter, value) in enumerate(zip(parameters, values)):
        elem = parameter.elem if isinstance(parameter, TileType) else parameter
        facts = {"index": index, "entry": entry, "type": elem}
        value = imported(value, out, facts, on_gpu)
        source = None
        if isinstance(elem, Ptr):
            data, source = encode_memory(elem, value, out, facts, on_gpu)
        elif isinstance(elem, Scalar):
            data = encode_scalar(elem, value, facts)
        else:
            raise refuse(UNSUPPORTED, **facts)
        out.data.append(data)
        out.types.append(elem)
        out.sources.append(source)
    return out


def imported(value: Any, out: Arguments, facts: dict[str, Any], on_gpu: bool) -> Any:
    """The value, or the array that another library's object stands for; `out` keeps the object."""
    try:
        array = import_array(value)
    except NotImportable as why:
        raise refuse(NOT_IMPORTED, got=type(value).__name__, why=why, **facts) from None
    if array is None:
        return value
    if isinstance(array, DeviceArray) and not on_gpu:
        raise refuse(ON_DEVICE, **facts)
    if array is not value:
        out.keep.append(value)
    return array


def encode_memory(
    elem: Ptr, value: Any, out: Arguments, facts: dict[str, Any], on_gpu: bool
) -> tuple[bytes, np.ndarray | None]:
    """(bytes of the pointer, memory behind it) of an array, a list of arrays, an address or None."""
    if isinstance(value, np.ndarray) and value.dtype.name in NIBBLE_DTYPES:
        if getattr(elem.pointee, "bits", 64) != 4:
            got = {"dtype": value.dtype, "got": "half", "hint": ""}
            raise refuse(WIDTH, pointee=elem.pointee, want=getattr(elem.pointee, "bytes", 8), **got, **facts)
        value = pack(value, out)
    elif isinstance(value, (list, tuple)) and elem.pointee == I64:
        value = address_table(value, out, facts, on_gpu)
    data, source = encode_pointer(elem, value, facts)
    if source is not None:
        out.arrays.append(source)
        out.labels.append(f"argument {facts['index']}")
    return data, source


def encode_extra(memory: Iterable[Any]) -> list[np.ndarray]:
    """The arrays that a kernel reaches only through stored pointers; each keeps its owner alive."""
    out = []
    if not hasattr(memory, "__iter__") or hasattr(memory, "__array_interface__"):
        raise refuse(NOT_MEMORY, got=kind_of(memory))
    for value in memory:
        try:
            array = import_array(value)
        except NotImportable:
            array = None
        if not isinstance(array, np.ndarray):
            raise refuse(NOT_MEMORY, got=kind_of(value))
        out.append(array)
    return out


def address_table(values: Sequence[Any], out: Arguments, facts: dict[str, Any], on_gpu: bool) -> np.ndarray:
    """The addresses of a list of arrays: Tile IR keeps a pointer in memory as an i64."""
    table = np.zeros(len(values), np.uint64)
    for place, value in enumerate(values):
        inner = {**facts, "index": f"{facts['index']}[{place}]"}
        array = imported(value, out, inner, on_gpu)
        if isinstance(array, DeviceArray):
            table[place] = array.address
            continue
        if not isinstance(array, np.ndarray) or array.dtype.kind == "O":
            raise refuse(NEEDS_ARRAY, got=kind_of(array), **inner)
        if array.dtype.name in NIBBLE_DTYPES:
            array = pack(array, out)
        table[place] = array.__array_interface__["data"][0]
        out.arrays.append(array)
        out.labels.append(f"argument {inner['index']}")
    out.tables.append(table)
    return table


def pack(value: np.ndarray, out: Arguments) -> np.ndarray:
    """Memory for a 4-bit array of ml_dtypes, which keeps one element a byte: two a byte, the low half first."""
    codes = np.zeros(value.size + value.size % 2, np.uint8)
    codes[: value.size] = np.ascontiguousarray(value).reshape(-1).view(np.uint8) & np.uint8(15)
    memory = codes[0::2] | codes[1::2] << np.uint8(4)
    out.packed.append((value, memory))
    return memory


def encode_pointer(elem: Any, value: Any, facts: dict[str, Any]) -> tuple[bytes, np.ndarray | None]:
    if value is None:
        return bytes(8), None
    if isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.bool_)):
        number = int(value)
        if not -(1 << 63) <= number < 1 << 64:
            raise refuse(RANGE, value=number, low=-(1 << 63), high=(1 << 64) - 1, **facts)
        return number.to_bytes(8, "little", signed=number < 0), None
    if not isinstance(value, (np.ndarray, DeviceArray)):
        raise refuse(NEEDS_ARRAY, got=kind_of(value), **facts)
    want = getattr(elem.pointee, "bytes", 8)
    nibbles = getattr(elem.pointee, "bits", 64) == 4
    if value.dtype.itemsize != want or value.dtype.kind == "O" or not value.dtype.isnative:
        hint = "; pass its bytes with .view(np.uint8)" if nibbles else ""
        raise refuse(
            WIDTH,
            pointee=elem.pointee,
            want=want,
            dtype=value.dtype,
            got=value.dtype.itemsize,
            hint=hint,
            **facts,
        )
    address = value.address if isinstance(value, DeviceArray) else value.__array_interface__["data"][0]
    if address % want and value.size:
        raise refuse(ALIGNMENT, address=f"{address:#x}", want=want, **facts)
    return address.to_bytes(8, "little"), value if isinstance(value, np.ndarray) else None


def encode_scalar(elem: Any, value: Any, facts: dict[str, Any]) -> bytes:
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if isinstance(value, (np.ndarray, DeviceArray, str, bytes)) or value is None:
        raise refuse(NEEDS_SCALAR, got=kind_of(value), **facts)
    if elem.is_int:
        return encode_integer(elem, value, facts)
    from .reference.floats import FORMATS, decode64, encode

    fmt = FORMATS[elem.name]
    try:
        number = np.float64(float(value))
    except OverflowError:
        raise refuse(RANGE, value=value, low=-fmt.max, high=fmt.max, **facts) from None
    except (TypeError, ValueError):
        raise refuse(NEEDS_SCALAR, got=kind_of(value), **facts) from None
    with np.errstate(all="ignore"):
        stored = np.asarray(encode(number, fmt))
        lost = not np.isfinite(decode64(stored, fmt)) if fmt.has_inf or fmt.has_nan else abs(number) > fmt.max
    if np.isfinite(number) and lost:
        raise refuse(RANGE, value=value, low=-fmt.max, high=fmt.max, **facts)
    return stored.tobytes()


def encode_integer(elem: Any, value: Any, facts: dict[str, Any]) -> bytes:
    if isinstance(value, (float, np.floating)) and not float(value).is_integer():
        raise refuse(NOT_INTEGER, value=value, **facts)
    try:
        number = int(value)
    except (TypeError, ValueError):
        raise refuse(NEEDS_SCALAR, got=kind_of(value), **facts) from None
    bits = elem.bits
    low, high = -(1 << (bits - 1)), (1 << bits) - 1  # integers carry no sign: both readings fit
    if not low <= number <= high:
        raise refuse(RANGE, value=number, low=low, high=high, **facts)
    return (number & ((1 << bits) - 1)).to_bytes(INT_BYTES[elem.name], "little")
