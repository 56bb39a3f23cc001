"""One corpus case as data: where the kernel is, how it is exported, launched, and what must come out.

A case names its *logical* arguments (one per kernel parameter that is not a constant). `flat` turns them into
the flat argument list of the entry: an array of a cuda.tile kernel becomes pointer, extents, strides (in
elements); a Tile C++ kernel has C parameters and takes its arguments as they are.
`expect` gets copies of the logical arguments as they were before the launch and returns {index: array}; every
array it does not name must come back unchanged, which finds stray stores.
"""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np

VERSIONS = ("13.1", "13.2", "13.3", "13.4")

DTYPES: dict[str, Any] = {
    "i1": np.bool_,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "u8": np.uint8,
    "u16": np.uint16,
    "u32": np.uint32,
    "u64": np.uint64,
    "f16": np.float16,
    "f32": np.float32,
    "f64": np.float64,
    "bf16": ml_dtypes.bfloat16,
    "tf32": np.float32,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "e8m0": ml_dtypes.float8_e8m0fnu,
}


@dataclasses.dataclass(frozen=True)
class Array:
    """An array parameter of a cuda.tile kernel and what the frontend may assume about it.

    strided: no stride is promised to be 1. div: extents and outer strides are multiples of it.
    index: type of extents and strides. alias: parameters with a group in common may overlap.
    """

    dtype: str
    ndim: int
    strided: bool = False
    div: int = 1
    align: int = 16
    index: str = "i32"
    alias: tuple[str, ...] = ()
    overlaps: bool = False


@dataclasses.dataclass(frozen=True)
class Scalar:
    """A scalar parameter."""

    dtype: str


@dataclasses.dataclass(frozen=True)
class ListOf:
    """A list of arrays: passed as a pointer to i64 records (address, extents, strides) and an i32 length."""

    element: Array


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    family: str
    source: str  # "python/x.py" or "cpp/x.cu", relative to tests/corpus
    kernel: str
    signature: tuple[Any, ...]
    grid: tuple[int, ...]
    inputs: Callable[[np.random.Generator], Sequence[Any]]
    expect: Callable[..., dict[int, np.ndarray]]
    rtol: float = 0.0
    atol: float = 0.0
    since: str = "13.1"
    version: str = ""
    min_arch: int = 75
    tags: tuple[str, ...] = ()
    entry: str = ""
    module: str = ""  # bytecode file stem; cases of one C++ file with several entries share it

    @property
    def frontend(self) -> str:
        return self.source.split("/", 1)[0]

    @property
    def seed(self) -> int:
        return zlib.crc32(self.name.encode())

    def make_values(self) -> list[Any]:
        """Logical arguments, each array copied to memory aligned as cudaMalloc would."""
        rng = np.random.default_rng(self.seed)
        return [place(v) for v in self.inputs(rng)]

    def flat(self, values: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """(flat arguments in the order of the entry's parameters, memory reached only through pointers)."""
        if self.frontend != "python":
            return list(values), []
        flat: list[Any] = []
        memory: list[Any] = []
        params = [p for p in self.signature if isinstance(p, (Array, Scalar, ListOf))]
        if len(params) != len(values):
            raise ValueError(f"{self.name}: {len(params)} parameters but {len(values)} arguments")
        for param, value in zip(params, values):
            if isinstance(param, Array):
                index = DTYPES[param.index]
                flat.append(value)
                flat += [index(n) for n in value.shape]
                flat += [index(n // value.itemsize) for n in value.strides]
            elif isinstance(param, ListOf):
                records = np.array(
                    [[a.ctypes.data, *a.shape, *(s // a.itemsize for s in a.strides)] for a in value],
                    np.int64,
                )
                flat += [place(records), np.int32(len(value))]
                memory += list(value)
            else:
                flat.append(DTYPES[param.dtype](value))
        return flat, memory


class Kept(np.ndarray):
    """Marks a view whose place in memory is part of the case: it is passed on as it lies."""


def keep(view: np.ndarray) -> np.ndarray:
    """The same view, to be passed as it lies in memory."""
    return view.view(Kept)


def place(value: Any, align: int = 256) -> Any:
    """A copy of an array that starts on an `align` byte boundary; what `keep` marked stays where it is."""
    if isinstance(value, (list, tuple)):
        return [place(v, align) for v in value]
    if not isinstance(value, np.ndarray):
        return value
    if isinstance(value, Kept):
        return value.view(np.ndarray)
    raw = np.zeros(value.nbytes + align, np.uint8)
    skip = -raw.ctypes.data % align
    out = raw[skip : skip + value.nbytes].view(value.dtype).reshape(value.shape)
    out[...] = value
    return out


def strided_in(value: np.ndarray, steps: Sequence[int], fill: Any = 0) -> np.ndarray:
    """A view with the contents of `value` whose axis k moves steps[k] times as far as in a packed array."""
    shape = [n * s for n, s in zip(value.shape, steps)]
    base = place(np.full(shape, fill, value.dtype))
    view = base[tuple(slice(None, None, s) for s in steps)]
    view[...] = value
    return keep(view)


def transposed(value: np.ndarray) -> np.ndarray:
    """The same contents held column-major."""
    base = place(np.ascontiguousarray(value.T))
    return keep(base.T)


def fma(a: Any, b: Any, c: Any) -> np.ndarray:
    """a * b + c with one rounding, in the type of the first array among the three.

    Both frontends contract a product and a sum to the op `fma`, so a formula that must be exact needs it too.
    f64 goes through rationals. Narrower types: the product is exact in f64; the sum is rounded to odd there
    (its error decides the last bit), which makes the second rounding the only one that counts.
    """
    dtype = next(np.asarray(v).dtype for v in (a, b, c) if np.ndim(v))
    a, b, c = np.broadcast_arrays(*(np.asarray(v).astype(dtype).astype(np.float64) for v in (a, b, c)))
    if dtype == np.float64:
        exact = [float(Fraction(x) * Fraction(y) + Fraction(z)) for x, y, z in zip(a.flat, b.flat, c.flat)]
        return np.array(exact).reshape(a.shape)
    with np.errstate(all="ignore"):
        product = a * b
        total = product + c
        part = total - product
        error = (product - (total - part)) + (c - part)
        bits = total.view(np.int64)
        inexact = (error != 0) & np.isfinite(total) & (bits & 1 == 0)
        step = np.where((error > 0) == (total > 0), 1, -1)
        return (bits + np.where(inexact, step, 0)).view(np.float64).astype(dtype)


def default_version(name: str, since: str) -> str:
    """A bytecode version for a case: spread over all that can hold it, stable from run to run."""
    choices = [v for v in VERSIONS if v >= since]
    return choices[zlib.crc32(name.encode()) % len(choices)]


class Family:
    """Collects cases: `case = Family("softmax", "python/rows.py")`, then `case(name, ...)`."""

    def __init__(self, family: str, source: str) -> None:
        self.family, self.source, self.cases = family, source, []

    def __call__(
        self,
        name: str,
        kernel: str,
        signature: Sequence[Any],
        grid: Sequence[int],
        inputs: Callable[..., Any],
        expect: Callable[..., Any],
        **more: Any,
    ) -> Case:
        since = more.setdefault("since", "13.1")
        cpp = self.source.startswith("cpp/")
        more.setdefault("version", "13.4" if cpp else default_version(name, since))
        more.setdefault("entry", kernel if cpp else name)
        more.setdefault("module", more["entry"])
        grid3 = tuple(grid) + (1,) * (3 - len(grid))
        case = Case(name, self.family, self.source, kernel, tuple(signature), grid3, inputs, expect, **more)
        self.cases.append(case)
        return case


def uniform(
    rng: np.random.Generator, shape: Any, dtype: str = "f32", low: float = -2.0, high: float = 2.0
) -> np.ndarray:
    """Uniform numbers, rounded to the element type."""
    return (
        rng.uniform(low, high, shape)
        .astype(np.float32 if dtype != "f64" else np.float64)
        .astype(DTYPES[dtype])
    )


def integers(
    rng: np.random.Generator, shape: Any, dtype: str = "i32", low: int | None = None, high: int | None = None
) -> np.ndarray:
    """Integers of the whole range of the type, or of [low, high)."""
    info = np.iinfo(DTYPES[dtype])
    low = info.min if low is None else low
    high = info.max if high is None else high - 1
    return rng.integers(low, high, shape, dtype=DTYPES[dtype], endpoint=True)


def like(shape: Any, dtype: str = "f32", fill: Any = 0) -> np.ndarray:
    """An output array. The fill is what a kernel that stores nothing would leave."""
    return np.full(shape, fill, DTYPES[dtype])


def wide(*arrays: np.ndarray) -> list[np.ndarray]:
    """The arrays in double precision, for formulas whose error must not count."""
    return [np.asarray(a).astype(np.float64) for a in arrays]
