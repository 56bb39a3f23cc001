"""Tensor maps: what the host is to encode for a kernel that copies boxes of tensors in bulk (cp.async.bulk.tensor).

A kernel takes its maps as hidden parameters of 128 bytes, in order, behind those of its source. A `TensorMap` says how
one is made from the visible arguments of a launch; whoever launches encodes it anew for every launch, because the
128 bytes are the driver's (cuTensorMapEncodeTiled) and the arguments are known no earlier.
Sources: CUDA driver API, tensor map object management; PTX ISA manual, section Tensors.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

BYTES, ALIGN = 128, 128  # of a map as a parameter (64 would do up to CUDA 12)
MAX_RANK = 5
MAX_BOX = 256  # elements along a dimension of a box
MAX_EXTENT = 1 << 32  # elements along a dimension of an array
MAX_STRIDE_BYTES = 1 << 40  # strides are below
STRIDE_UNIT = 16  # bytes that addresses and strides are multiples of, and rows of a box
SWIZZLES = {"none": 0, "32B": 1, "64B": 2, "128B": 3}  # -> number of the driver
FILLS = {"zeros": 0, "nan": 1}
# Tile IR element type -> (bytes, the driver's data type: name behind CU_TENSOR_MAP_DATA_TYPE_ and number)
ELEMENTS = {
    "i8": (1, "UINT8", 0),
    "f8E4M3FN": (1, "UINT8", 0),
    "f8E5M2": (1, "UINT8", 0),
    "f8E8M0FNU": (1, "UINT8", 0),
    "i16": (2, "UINT16", 1),
    "i32": (4, "INT32", 3),
    "i64": (8, "INT64", 5),
    "f16": (2, "FLOAT16", 6),
    "f32": (4, "FLOAT32", 7),
    "tf32": (4, "FLOAT32", 7),  # as it lies in memory: a copy changes no bits
    "f64": (8, "FLOAT64", 8),
    "bf16": (2, "BFLOAT16", 9),
}
FLOATS = frozenset(("f16", "f32", "tf32", "f64", "bf16"))  # whose outside may be NaN


class _Record:
    """A value of named fields: positional or keyword arguments, equality, no change afterwards."""

    __slots__: tuple[str, ...] = ()

    def __init__(self, *values: Any, **named: Any) -> None:
        given = dict(zip(self.__slots__, values), **named)
        if len(values) > len(self.__slots__) or set(given) != set(self.__slots__):
            raise TypeError(f"{type(self).__name__} takes {', '.join(self.__slots__)}")
        for name, value in given.items():
            object.__setattr__(self, name, value)
        self.check()

    def check(self) -> None:
        """Errors: ValueError for what no map can be."""

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a {type(self).__name__} does not change")

    def values(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self.__slots__)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.values() == self.values()  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash(self.values())

    def __repr__(self) -> str:
        pairs = zip(self.__slots__, self.values())
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in pairs)})"


class Source(_Record):
    """Where a number of a map comes from: `kind` "param" with the index of a visible integer parameter, or "const"."""

    __slots__ = ("kind", "value")
    kind: str
    value: int

    def check(self) -> None:
        if self.kind not in ("param", "const") or self.value < 0:
            raise ValueError(f"no source of a tensor map: {self!r}")


class TensorMap(_Record):
    """One map. Dimensions stand outermost first, as in a shape.

    `base`: index of the visible pointer parameter. `element`: a type of ELEMENTS. `extents`: elements of the array in
    each dimension. `strides`: elements from one to the next, the last const 1. `box`: elements that one copy moves.
    `swizzle`: "none", "32B", "64B" or "128B". `fill`: what lies outside the array, "zeros" or "nan".
    Errors: ValueError for a map that no driver encodes, whatever the arguments.
    """

    __slots__ = ("base", "box", "element", "extents", "fill", "strides", "swizzle")
    base: int
    element: str
    extents: tuple[Source, ...]
    strides: tuple[Source, ...]
    box: tuple[int, ...]
    swizzle: str
    fill: str

    def __init__(
        self,
        base: int,
        element: str,
        extents: tuple[Source, ...],
        strides: tuple[Source, ...],
        box: tuple[int, ...],
        swizzle: str,
        fill: str = "zeros",
    ) -> None:
        super().__init__(
            base=base, element=element, extents=tuple(extents), strides=tuple(strides), box=tuple(box),
            swizzle=swizzle, fill=fill,
        )  # fmt: skip

    @property
    def element_bytes(self) -> int:
        return ELEMENTS[self.element][0]

    def check(self) -> None:
        problem = self.problem()
        if problem:
            raise ValueError(f"no tensor map: {problem}")

    def problem(self) -> str:
        """What keeps this from being a map; empty when nothing does."""
        rank = len(self.extents)
        if self.element not in ELEMENTS:
            return f"elements of type {self.element}"
        if not 1 <= rank <= MAX_RANK or len(self.strides) != rank or len(self.box) != rank:
            return f"{rank} extents, {len(self.strides)} strides, a box of {len(self.box)} dimensions"
        if self.strides[-1] != Source("const", 1):
            return "the last stride is not const 1"
        if not all(1 <= size <= MAX_BOX for size in self.box):
            return f"a box of {self.box}"
        row = self.box[-1] * self.element_bytes
        if row % STRIDE_UNIT:
            return f"rows of the box have {row} bytes, no multiple of {STRIDE_UNIT}"
        if self.swizzle not in SWIZZLES or self.fill not in FILLS:
            return f"swizzle {self.swizzle}, fill {self.fill}"
        if self.swizzle != "none" and row > int(self.swizzle[:-1]):
            return f"rows of the box have {row} bytes, more than swizzle {self.swizzle} holds"
        if self.fill == "nan" and self.element not in FLOATS:
            return f"NaN outside an array of {self.element}"
        return ""

    def as_dict(self) -> dict[str, Any]:
        """As the kernel table has it: {"kind": "tensor_map", "array", "element", "extents", ...}."""
        return {
            "kind": "tensor_map",
            "array": self.base,
            "element": self.element,
            "extents": [{source.kind: source.value} for source in self.extents],
            "strides": [{source.kind: source.value} for source in self.strides],
            "box": list(self.box),
            "swizzle": self.swizzle,
            "fill": self.fill,
        }


def from_dict(row: Mapping[str, Any]) -> TensorMap:
    """The map that a row of a kernel table describes. Errors: ValueError."""
    try:
        return TensorMap(
            base=int(row["array"]),
            element=row["element"],
            extents=_sources(row["extents"]),
            strides=_sources(row["strides"]),
            box=tuple(int(size) for size in row["box"]),
            swizzle=row["swizzle"],
            fill=row["fill"],
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"no tensor map of a kernel table: {error!r}") from None


def _sources(rows: list[Mapping[str, int]]) -> tuple[Source, ...]:
    return tuple(Source(kind, int(value)) for row in rows for kind, value in row.items())
