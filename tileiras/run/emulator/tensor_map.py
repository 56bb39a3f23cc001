"""Descriptors of bulk tensor copies: `tensor_map` and `encode` make one, `TensorMap` reads it.

The 128 bytes of NVIDIA's descriptors are opaque, so these are our own (little-endian; docs/ptx-emulator.md has them):

    0   u64      global address
    8   u32      0x50414D54, "TMAP"
    12  u8 x 8   rank, element type, swizzle, swizzle atomicity, interleave, fill (numbers of `tensormap.replace`), im2col, 0
    20  u32 x 5  extents, innermost first (0: 2^32)
    40  u64 x 4  strides in bytes of dimensions 1 to 4
    72  u16 x 5  box; im2col: channels per pixel, pixels per column
    82  u16 x 5  element strides
    92  s16 x 6  im2col: lower corner of the bounding box in W, H, D, then the upper one
"""

from __future__ import annotations

import struct

import numpy as np

from .syntax import EmulatorError

MAGIC = 0x50414D54
_FORM = "<QI8B5I4Q5H5H6h24x"
# element type of `tensormap.replace` -> (name, bits in memory, bits in shared memory)
ELEMENTS = {
    0: ("u8", 8, 8), 1: ("u16", 16, 16), 2: ("u32", 32, 32), 3: ("s32", 32, 32), 4: ("u64", 64, 64), 5: ("s64", 64, 64),
    6: ("f16", 16, 16), 7: ("f32", 32, 32), 8: ("f32", 32, 32), 9: ("f64", 64, 64), 10: ("bf16", 16, 16),
    11: ("tf32", 32, 32), 12: ("tf32", 32, 32), 13: ("b4", 4, 4), 14: ("b4", 4, 8), 15: ("b6", 6, 8),
}  # fmt: skip
# elements below one byte travel in groups: (elements, bytes in memory, bytes in shared memory)
GROUPS = {13: (2, 1, 1), 14: (16, 8, 16), 15: (16, 12, 16)}
_OF_DTYPE = {
    "uint8": 0, "int8": 0, "bool": 0, "uint16": 1, "int16": 1, "uint32": 2, "int32": 3, "uint64": 4, "int64": 5,
    "float16": 6, "float32": 7, "float64": 9, "bfloat16": 10,
}  # fmt: skip
_SWIZZLES = {
    "none": (0, 0), "32B": (1, 0), "64B": (2, 0), "128B": (3, 0), "128B_ATOM_32B": (3, 1), "128B_ATOM_64B": (3, 3),
}  # fmt: skip
_FILLS = {"zeros": 0, "nan": 1}
_BY_NAME = {name: number for number, (name, _, _) in reversed(ELEMENTS.items())}
# bits that lie outside a tensor filled with NaN
NANS = {"f16": 0x7E00, "bf16": 0x7FC0, "f32": 0x7FC00000, "tf32": 0x7FC00000, "f64": 0x7FF8 << 48}


class TensorMap:
    """A descriptor's fields; dimensions innermost first."""

    __slots__ = ("address", "atomicity", "box", "corners", "element", "extents", "fill", "interleave", "rank", "steps",
                 "strides", "swizzle")  # fmt: skip

    def __init__(self, raw: bytes) -> None:
        v = struct.unpack(_FORM, raw)
        if v[1] != MAGIC:
            raise EmulatorError(
                "these 128 bytes are no tensor map of the emulator (tileiras.run.emulator.tensor_map makes them)"
            )
        self.address = v[0]
        self.rank, self.element, self.swizzle, self.atomicity, self.interleave, self.fill = v[2:8]
        self.extents = [x or 1 << 32 for x in v[10:15]]
        self.strides = [0, *v[15:19]]
        self.box, self.steps = list(v[19:24]), list(v[24:29])
        # of an im2col map: lower and upper, innermost first
        self.corners = (list(v[29:32]), list(v[32:35])) if v[8] else None
        if not 1 <= self.rank <= 5 or self.element not in ELEMENTS:
            raise EmulatorError("a tensor map with a rank or element type that does not exist")
        if self.interleave:
            raise EmulatorError("interleaved tensor maps are not supported by the emulator")

    @property
    def counts(self) -> list[int]:
        """Elements of the box that shared memory holds, per dimension."""
        return [-(-b // s) for b, s in zip(self.box[: self.rank], self.steps)]

    @property
    def name(self) -> str:
        return ELEMENTS[self.element][0]

    @property
    def group(self) -> tuple[int, int, int]:
        """What is moved as one: elements of the innermost dimension, their bytes in memory and in shared memory."""
        size = ELEMENTS[self.element][1] // 8
        return GROUPS.get(self.element, (1, size, size))

    def box_bytes(self, mode: str = "tile") -> int:
        """Bytes of shared memory that a copy fills; mode: "tile", "im2col", or "rows" of tile::gather4."""
        total = ELEMENTS[self.element][2]
        for c in {"tile": self.counts, "im2col": self.box[:2], "rows": [self.box[0], 4]}[mode]:
            total *= c
        return total // 8

    def where(self, address: np.ndarray) -> np.ndarray:
        """Where the swizzle moves 16-byte chunks of shared memory."""
        if not self.swizzle:
            return address
        if self.swizzle == 3 and self.atomicity:
            shift = {1: 5, 3: 6}.get(self.atomicity)
            if shift is None:
                raise EmulatorError("this swizzle atomicity of a tensor map is not supported by the emulator")
            return address ^ ((address >> 7 & (128 // (1 << shift) - 1)) << shift)
        return address ^ ((address >> 7 & ((1 << self.swizzle) - 1)) << 4)


def replace(raw: bytes, field: str, ordinal: int, value: int) -> bytes:
    """The descriptor with one field changed."""
    v = list(struct.unpack(_FORM, raw))
    at = {"global_address": 0, "rank": 2, "elemtype": 3, "swizzle_mode": 4, "swizzle_atomicity": 5,
          "interleave_layout": 6, "fill_mode": 7, "global_dim": 10, "global_stride": 15, "box_dim": 19,
          "element_stride": 24}.get(field)  # fmt: skip
    if at is None:
        raise EmulatorError(f"tensormap.replace has no field {field}")
    v[1] = MAGIC
    v[at + (ordinal if field in ("global_dim", "global_stride", "box_dim", "element_stride") else 0)] = (
        value + 1 if field == "rank" else value & 0xFFFFFFFF if field == "global_dim" else value
    )
    return struct.pack(_FORM, *v)


def tensor_map(
    array: np.ndarray,
    box,
    swizzle: str = "128B",
    element_strides=None,
    interleave: str = "none",
    fill: str = "zeros",
    element: int | None = None,
    corners=None,
) -> bytes:
    """The 128 bytes that a kernel takes as descriptor of `array`: pass them as parameter, and the array in `memory`.

    box and element_strides follow the array's dimensions, outermost first; the array's last dimension is contiguous.
    element overrides the element type, by its number in `tensormap.replace`. corners makes a map for im2col, and is the lower
    and the upper corner of the bounding box, outermost first; box is then (pixels per column, channels per pixel).
    """
    size = array.dtype.itemsize
    if array.size and array.shape[-1] > 1 and array.strides[-1] != size:
        raise EmulatorError("the last dimension of a tensor map is contiguous")
    kind = (
        element
        if element is not None
        else _OF_DTYPE.get(array.dtype.name, {1: 0, 2: 1, 4: 2, 8: 4}.get(size))
    )
    if kind is None:
        raise EmulatorError(f"tensor maps have no elements of {array.dtype}")
    if kind in ELEMENTS and ELEMENTS[kind][1] not in (4, 6, 8 * size):
        raise EmulatorError(f"elements of type {ELEMENTS[kind][0]} for an array of {array.dtype}")
    return encode(
        array.ctypes.data,
        kind,
        array.shape,
        array.strides[:-1],
        box,
        swizzle,
        element_strides,
        interleave,
        fill,
        corners,
    )


def encode(
    address: int,
    element: int | str,
    extents,
    strides,
    box,
    swizzle: str = "128B",
    element_strides=None,
    interleave: str = "none",
    fill: str = "zeros",
    corners=None,
) -> bytes:
    """The 128 bytes of a tensor at an address. Lists stand outermost dimension first.

    element: a name or number of ELEMENTS. extents: elements in each dimension. strides: bytes from one element to the
    next in each dimension but the last. What the driver's cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col refuse is an
    EmulatorError.
    """
    extents, strides, box = ([int(n) for n in numbers] for numbers in (extents, strides, box))
    rank = len(extents)
    steps = [int(s) for s in element_strides] if element_strides is not None else [1] * rank
    kind = _BY_NAME.get(element, -1) if isinstance(element, str) else element
    if kind not in ELEMENTS:
        raise EmulatorError(f"tensor maps have no elements of type {element}")
    if corners is not None:
        check_corners(rank, box, corners)
    if (
        not 1 <= rank <= 5
        or len(steps) != rank
        or len(strides) != rank - 1
        or (corners is None and len(box) != rank)
    ):
        raise EmulatorError(
            "a tensor map has 1 to 5 dimensions, and box and element_strides one number for each"
        )
    if interleave != "none":
        raise EmulatorError(f"interleave {interleave!r} is not supported by the emulator")
    if swizzle not in _SWIZZLES or fill not in _FILLS:
        raise EmulatorError(f"swizzle is one of {', '.join(_SWIZZLES)}; fill one of {', '.join(_FILLS)}")
    if min(extents) < 1 or max(extents) > 1 << 32:
        raise EmulatorError(f"a tensor map has 1 to 2^32 elements in each dimension, not {extents}")
    most = [256] * rank if corners is None else [1024, 256]
    if min(box) < 1 or any(b > m for b, m in zip(box, most)) or min(steps) < 1 or max(steps) > 8:
        raise EmulatorError(
            f"a box has 1 to 256 elements a dimension (a column up to 1,024 pixels) and element strides of 1 to 8, not {box}, "
            f"{steps}"
        )
    mode, atomicity = _SWIZZLES[swizzle]
    inner = -(-box[-1] // steps[-1]) * ELEMENTS[kind][2] // 8
    if inner % 16 or (mode and inner > 16 << mode):
        raise EmulatorError(
            f"the box's inner dimension has {inner} bytes: a multiple of 16, and at most the swizzle's {16 << mode}"
        )
    if fill == "nan" and ELEMENTS[kind][0] not in NANS:
        raise EmulatorError(f"elements of type {ELEMENTS[kind][0]} have no NaN to fill with")
    strides = strides[::-1]
    if address % 16 or any(s % 16 or s < 0 for s in strides):
        raise EmulatorError(f"address {address:#x} and strides {strides} of a tensor map are multiples of 16")
    if any(s >= 1 << 40 for s in strides):
        raise EmulatorError(f"strides of a tensor map are below 2^40 bytes, not {strides}")
    pad = [0] * (5 - rank)
    low, high = ([*map(int, c)][::-1] for c in corners or ((), ()))
    return struct.pack(
        _FORM, address, MAGIC, rank, kind, mode, atomicity, 0, _FILLS[fill], corners is not None, 0,
        *[x & 0xFFFFFFFF for x in extents[::-1]], *pad, *strides, *pad, *box[::-1], *([0] * (5 - len(box))), *steps[::-1], *pad,
        *low, *([0] * (3 - len(low))), *high, *([0] * (3 - len(high))),
    )  # fmt: skip


def check_corners(rank: int, box: list[int], corners) -> None:
    """Errors: EmulatorError for a bounding box that im2col does not have."""
    if not 3 <= rank <= 5 or len(box) != 2 or len(corners) != 2 or any(len(c) != rank - 2 for c in corners):
        raise EmulatorError(
            "a tensor map for im2col has 3 to 5 dimensions, a box of pixels and channels, and two corners of two dimensions less"
        )
    bits = {3: 15, 4: 7, 5: 4}[rank]
    if any(not -(1 << bits) <= c < 1 << bits for corner in corners for c in corner):
        raise EmulatorError(f"corners of an im2col map of rank {rank} have {bits + 1} bits: {corners}")
