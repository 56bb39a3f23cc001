"""Interned types and attributes.

Every type is built once per value and compared with `is`. Pools are filled with `dict.setdefault`, so that
two threads which build the same type at the same time end with one object. Nothing here checks rules of a
dialect: `dialects/*/types.py` does, with a location at hand.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

DYNAMIC = -(1 << 63)  # a dynamic extent or stride, as the bytecode spells it


class Type:
    """Base of all types. `str()` gives NVIDIA's assembly form without the dialect prefix."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    def __reduce__(self) -> Any:  # interning must survive copy and pickle
        cls = type(self)
        return cls, tuple(getattr(self, name) for name in cls.FIELDS)  # type: ignore[attr-defined]

    def __deepcopy__(self, memo: Any) -> Type:
        return self


def _interned(name: str, fields: tuple[str, ...], doc: str, text: Any) -> Any:
    """A type class over `fields`, interned by their values. One function makes them all alike."""
    pool: dict[tuple[Any, ...], Any] = {}
    count = len(fields)

    def __new__(cls: Any, *args: Any) -> Any:
        self = pool.get(args)
        if self is None:
            if len(args) < count:
                args = args + (None,) * (count - len(args))
                return __new__(cls, *args)
            self = object.__new__(cls)
            for field, value in zip(fields, args):
                object.__setattr__(self, field, value)
            self = pool.setdefault(args, self)
        return self

    return type(
        name,
        (Type,),
        {
            "__slots__": fields,
            "FIELDS": fields,
            "__doc__": doc,
            "__new__": __new__,
            "__str__": text,
            "__module__": __name__,
        },
    )


def _dims(shape: tuple[int | None, ...]) -> str:
    return "".join(("?" if d is None else str(d)) + "x" for d in shape)


class Scalar(Type):
    """An element type: `name`, storage `bits`, and whether it is a float."""

    __slots__ = ("bits", "is_float", "name")
    FIELDS = ("name",)
    POOL: dict[str, Scalar] = {}

    def __new__(cls, name: str, bits: int = 0, is_float: bool = False) -> Scalar:
        self = cls.POOL.get(name)
        if self is None:
            self = object.__new__(cls)
            self.name, self.bits, self.is_float = name, bits, is_float
            self = cls.POOL.setdefault(name, self)
        return self

    @property
    def is_int(self) -> bool:
        return not self.is_float

    @property
    def bytes(self) -> int:
        """Bytes of one element in memory (4-bit types: 1, they are packed two per byte by the memory ops)."""
        return (self.bits + 7) // 8

    def __str__(self) -> str:
        return self.name


I1, I4, I8 = Scalar("i1", 1), Scalar("i4", 4), Scalar("i8", 8)
I16, I32, I64 = Scalar("i16", 16), Scalar("i32", 32), Scalar("i64", 64)
F16, BF16 = Scalar("f16", 16, True), Scalar("bf16", 16, True)
F32, TF32, F64 = Scalar("f32", 32, True), Scalar("tf32", 32, True), Scalar("f64", 64, True)
F8E4M3FN, F8E5M2 = Scalar("f8E4M3FN", 8, True), Scalar("f8E5M2", 8, True)
F8E8M0FNU, F4E2M1FN = Scalar("f8E8M0FNU", 8, True), Scalar("f4E2M1FN", 4, True)
FNV8E5M3FNU = Scalar("fnv8E5M3FNU", 8, True)

Ptr = _interned(
    "Ptr",
    ("pointee", "attr"),
    "Pointer to `pointee`; `attr` is a PtrAttr case name or None.",
    lambda t: f"ptr<{t.pointee}>" if t.attr is None else f"ptr<{t.pointee}, <{t.attr}>>",
)
Ptr.bytes = 8  # of a pointer in memory, as `Scalar.bytes`
TileType = _interned(
    "TileType",
    ("elem", "shape"),
    "Tile of `elem` over `shape` (elements per dimension, outermost first; () is a scalar).",
    lambda t: f"tile<{_dims(t.shape)}{t.elem}>",
)
TokenType = _interned(
    "TokenType", (), "Orders memory operations; has no value at run time.", lambda t: "token"
)
FunctionType = _interned(
    "FunctionType",
    ("params", "results"),
    "Signature of an entry.",
    lambda t: f"({', '.join(map(str, t.params))}) -> ({', '.join(map(str, t.results))})",
)


def _tensor_view_text(t: Any) -> str:
    attr = "" if t.ptr_attr is None else f", #cuda_tile.ptr_attr<{t.ptr_attr}>"
    if not t.shape:
        return f"tensor_view<{t.elem}{attr}>"
    strides = ",".join("?" if s is None else str(s) for s in t.strides)
    return f"tensor_view<{_dims(t.shape)}{t.elem}, strides=[{strides}]{attr}>"


TensorView = _interned(
    "TensorView",
    ("elem", "shape", "strides", "ptr_attr"),
    "View of global memory: extents and strides in elements, None where dynamic.",
    _tensor_view_text,
)


def _tile_dims(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))


def _dim_map(t: Any) -> str:
    identity = tuple(range(len(t.dim_map)))
    return "" if t.dim_map == identity else f", dim_map=[{', '.join(map(str, t.dim_map))}]"


def _padding(t: Any) -> str:
    return "" if t.padding is None else f", padding_value = {t.padding}"


PartitionView = _interned(
    "PartitionView",
    ("tile", "view", "dim_map", "padding"),
    "Grid of tiles over a TensorView; view dimension d walks tensor dimension dim_map[d].",
    lambda t: f"partition_view<tile=({_tile_dims(t.tile)}){_padding(t)}, {t.view}{_dim_map(t)}>",
)
StridedView = _interned(
    "StridedView",
    ("tile", "traversal", "view", "dim_map", "padding"),
    "Tiles that start every `traversal[d]` elements; they may overlap or leave gaps.",
    lambda t: (
        f"strided_view<tile=({_tile_dims(t.tile)}), traversal_strides=[{','.join(map(str, t.traversal))}]"
        f"{_padding(t)}, {t.view}{_dim_map(t)}>"
    ),
)
GatherScatterView = _interned(
    "GatherScatterView",
    ("tile", "view", "sparse_dim", "padding"),
    "Tiles whose rows along `sparse_dim` are named one by one by an index tile.",
    lambda t: (
        f"gather_scatter_view<tile=({_tile_dims(t.tile)}){_padding(t)}, {t.view}, sparse_dim={t.sparse_dim}>"
    ),
)
TensorType = _interned(
    "TensorType",
    ("elem", "shape", "layout"),
    "A tile inside the compiler: nv_tileaa has no layout yet, nv_tileas has one.",
    lambda t: tensor_text(t, t.layout),
)


def tensor_text(t: Any, layout: Any) -> str:
    """A tensor type as text, its layout as it is spelled here (None: it has none)."""
    return f"tensor<{_dims(t.shape)}{t.elem}{'' if layout is None else f', {layout}'}>"


TOKEN = TokenType()
UNRESOLVED = _interned(
    "Unresolved", (), "Of a value that a text uses and does not define.", lambda t: "<<unresolved>>"
)()
TILE_VIEWS = (PartitionView, StridedView, GatherScatterView)
VIEWS = (TensorView, *TILE_VIEWS)

# ---- attributes. Enum cases are their names (str), flags are True, integers int, strings str.

IntegerAttr = _interned(
    "IntegerAttr",
    ("type", "value"),
    "Typed integer; `value` is zero-extended.",
    lambda a: f"{a.value} : {a.type}",
)
FloatAttr = _interned(
    "FloatAttr", ("type", "bits"), "Typed float as its bit pattern.", lambda a: f"0x{a.bits:X} : {a.type}"
)
Dense = _interned(
    "Dense",
    ("type", "data"),
    "Constant data of a tile type. `data`: raw bytes as in the constant section (one element = splat).",
    lambda a: f"dense<{a.data.hex()}> : {a.type}",
)
DivBy = _interned(
    "DivBy",
    ("divisor", "every", "along"),
    "Assumption: divisible by `divisor`; with every/along only the first of each group along a dimension.",
    lambda a: (
        f"div_by<{a.divisor}" + (f", every {a.every} along {a.along}" if a.every is not None else "") + ">"
    ),
)
SameElements = _interned(
    "SameElements",
    ("values",),
    "Assumption: equal values in blocks of this shape.",
    lambda a: f"same_elements<[{', '.join(map(str, a.values))}]>",
)
Bounded = _interned(
    "Bounded",
    ("lower", "upper"),
    "Assumption: inclusive signed range; None is open.",
    lambda a: f"bounded<{'?' if a.lower is None else a.lower}, {'?' if a.upper is None else a.upper}>",
)
