"""The tensor maps of a launch: the numbers of each from the arguments, and its 128 bytes for the emulator or a GPU.

What a generated launcher does in C (tools/build/cloader.py) is done here for launches from Python, by the same rules:
an address or a stride that is no multiple of 16 bytes starts nothing, the stride of a dimension with one element is not
looked at, and an array without elements is one element of what lies outside any array, because no map has an extent of 0.
"""

from __future__ import annotations

import numpy as np

from tileiras.compiler.target.tensor_maps import (
    ELEMENTS,
    FILLS,
    MAX_EXTENT,
    MAX_STRIDE_BYTES,
    STRIDE_UNIT,
    SWIZZLES,
    TensorMap,
)
from tileiras.diag import ERROR, EXIT_USAGE, Diag, Emitted

from .errors import LaunchError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from .emulator import Memory

NO_MAP = Diag(
    "RUN-0111", ERROR, "argument {index} of '{entry}' makes no tensor map: {why}", "launch arguments"
)
'''
cause: The kernel was compiled with --tensor-maps=launcher and copies boxes of this array in bulk, which the
hardware does only from addresses and with strides that are multiples of 16 bytes.
remedy: Pass an array that starts and whose rows start at multiples of 16 bytes, or compile without --tensor-maps.

  $ python k.py
  import numpy as np
  import tileiras

  kernel = """
  cuda_tile.module @m {
    entry @k(%a: tile<ptr<f16>>, %b: tile<ptr<f16>>, %c: tile<ptr<f32>>) {
      %pa = assume div_by<16>, %a : tile<ptr<f16>>
      %pb = assume div_by<16>, %b : tile<ptr<f16>>
      %va = make_tensor_view %pa, shape = [64, 512], strides = [512, 1] : tensor_view<64x512xf16, strides=[512,1]>
      %vb = make_tensor_view %pb, shape = [512, 64], strides = [64, 1] : tensor_view<512x64xf16, strides=[64,1]>
      %vc = make_tensor_view %c, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
      %ta = make_partition_view %va : partition_view<tile=(64x64), tensor_view<64x512xf16, strides=[512,1]>>
      %tb = make_partition_view %vb : partition_view<tile=(64x64), tensor_view<512x64xf16, strides=[64,1]>>
      %tc = make_partition_view %vc : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>
      %i0 = constant <i32: 0> : tile<i32>
      %i1 = constant <i32: 1> : tile<i32>
      %i8 = constant <i32: 8> : tile<i32>
      %zero = constant <f32: 0.0> : tile<64x64xf32>
      %sum = for %k in (%i0 to %i8, step %i1) : tile<i32> iter_values(%acc = %zero) -> (tile<64x64xf32>) {
        %x, %t0 = load_view_tko weak %ta[%i0, %k] : partition_view<tile=(64x64), tensor_view<64x512xf16, strides=[512,1]>>, tile<i32> -> tile<64x64xf16>, token
        %y, %t1 = load_view_tko weak %tb[%k, %i0] : partition_view<tile=(64x64), tensor_view<512x64xf16, strides=[64,1]>>, tile<i32> -> tile<64x64xf16>, token
        %next = mmaf %x, %y, %acc : tile<64x64xf16>, tile<64x64xf16>, tile<64x64xf32>
        continue %next : tile<64x64xf32>
      }
      %t2 = store_view_tko weak %sum, %tc[%i0, %i0] : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32> -> token
      return
    }
  }
  """
- a = np.zeros(64 * 512 + 8, np.float16)[1:]
+ a = np.zeros(64 * 512, np.float16)
  b = np.zeros(512 * 64, np.float16)
  c = np.zeros((64, 64), np.float32)
  tileiras.launch(kernel, "k", 1, [a, b, c], target="emulator", tensor_maps="launcher")
'''  # noqa: E501

NOTHING_BYTES = 128  # of zeros, and as many of ones, which are NaN in every float type
L2_128B = 2  # CU_TENSOR_MAP_L2_PROMOTION_L2_128B


class Numbers:
    """A map whose numbers are known: extents in elements, strides in bytes (none of the last dimension)."""

    __slots__ = ("address", "extents", "is_empty", "map", "strides")

    def __init__(self, map: TensorMap, address: int, extents: list[int], strides: list[int]) -> None:
        self.map, self.address, self.extents, self.strides = map, address, extents, strides
        self.is_empty = 0 in extents

    def put(self, address: int) -> None:
        """Makes the array without elements one element at `address`."""
        self.address = address + NOTHING_BYTES * FILLS[self.map.fill]
        self.extents = [1] * len(self.extents)
        self.strides = [NOTHING_BYTES] * len(self.strides)


def numbers(kernel: Any, data: Sequence[bytes], nothing: Callable[[], int]) -> list[Numbers]:
    """The maps of a kernel for a launch.

    data: the visible parameters as the kernel receives them, so with the addresses of its memory. nothing(): address, in
    that memory, of NOTHING_BYTES zeros followed by as many 0xFF; called when an array has no elements.
    Errors: LaunchError(1) for arguments that make no map.
    """
    found = []
    for map in kernel.tensor_maps:
        made = _numbers(map, kernel.name, data)
        if made.is_empty:
            made.put(nothing())
        if made.address % STRIDE_UNIT:
            raise _refuse(map, kernel.name, f"{made.address:#x} is not a multiple of {STRIDE_UNIT} bytes")
        found.append(made)
    return found


def _numbers(map: TensorMap, entry: str, data: Sequence[bytes]) -> Numbers:
    def value(source: Any) -> int:
        if source.kind == "const":
            return int(source.value)
        return int.from_bytes(data[source.value], "little", signed=True)

    extents = [value(source) for source in map.extents]
    strides = []
    for extent, source in zip(extents, map.strides[:-1]):
        stride = value(source) * map.element_bytes
        if extent <= 1:
            stride = NOTHING_BYTES
        elif not 0 <= stride < MAX_STRIDE_BYTES:
            raise _refuse(map, entry, f"a stride of {stride} bytes is not below 2^40")
        elif stride % STRIDE_UNIT:
            raise _refuse(map, entry, f"a stride of {stride} bytes is not a multiple of {STRIDE_UNIT}")
        strides.append(stride)
    for extent in extents:
        if not 0 <= extent <= MAX_EXTENT:
            raise _refuse(map, entry, f"{extent} elements in a dimension are not between 0 and 2^32")
    return Numbers(map, int.from_bytes(data[map.base], "little"), extents, strides)


def _refuse(map: TensorMap, entry: str, why: str) -> LaunchError:
    facts: dict[str, object] = {"index": map.base, "entry": entry, "why": why}
    return LaunchError([Emitted(NO_MAP, None, None, facts.items())], EXIT_USAGE)


def nothing_bytes() -> np.ndarray:
    """What an array without elements points to, aligned as a map needs it."""
    raw = np.zeros(3 * NOTHING_BYTES, np.uint8)
    start = -raw.ctypes.data % NOTHING_BYTES
    made = raw[start : start + 2 * NOTHING_BYTES]
    made[NOTHING_BYTES:] = 0xFF
    return made


_EMULATED = {"i8": "u8", "i16": "u16", "i32": "s32", "i64": "s64", "f16": "f16", "bf16": "bf16", "f32": "f32",
             "tf32": "f32", "f64": "f64"}  # fmt: skip


def for_emulator(kernel: Any, data: Sequence[bytes], space: Memory) -> list[bytes]:
    """The hidden parameters of a launch on the emulator. `space` gets what they point to beside the arguments."""
    from .emulator.tensor_map import encode

    def nothing() -> int:
        return space.add(nothing_bytes(), "what lies outside an array")

    out = []
    for made in numbers(kernel, data, nothing):
        map = made.map
        element = _EMULATED.get(map.element, "u8")
        out.append(
            encode(made.address, element, made.extents, made.strides, map.box, map.swizzle, fill=map.fill)
        )
    return out


def for_driver(made: Numbers) -> tuple[Any, ...]:
    """The arguments of cuTensorMapEncodeTiled behind the map itself, as ctypes; its dimensions innermost first."""
    from ctypes import c_uint32, c_uint64, c_void_p

    map = made.map
    rank = len(map.box)
    wide, narrow = c_uint64 * 5, c_uint32 * 5
    return (
        ELEMENTS[map.element][2], rank, c_void_p(made.address), wide(*made.extents[::-1]), wide(*made.strides[::-1]),
        narrow(*map.box[::-1]), narrow(*[1] * rank), 0, SWIZZLES[map.swizzle], L2_128B, FILLS[map.fill],
    )  # fmt: skip
