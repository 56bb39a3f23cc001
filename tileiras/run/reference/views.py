"""Tensor views and the tiles they are cut into: partition, strided, and gather/scatter views.

A tile that is a rectangle in memory is read and written as a strided array over its region; every other access
goes element by element through addresses and a mask.
"""

from __future__ import annotations

import numpy as np

from tileiras.compiler.ir.types import GatherScatterView, StridedView

from . import diags
from .access import Site, observed
from .atomics import Mode, update
from .effects import tell_broken
from .floats import FORMATS, encode, storage_dtype
from .ints import as_unsigned
from .memory import Spread
from .registry import effect, elem_name, pure
from .taint import put, report_use

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op, Value

    from .compile import Compiler
    from .registry import Frame, Step


class View:
    """A tensor_view at run time: address, extents and strides in elements."""

    __slots__ = ("base", "shape", "strides")

    def __init__(self, base: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> None:
        self.base, self.shape, self.strides = base, shape, strides


@effect("make_tensor_view")
def compile_tensor_view(c: Compiler, op: Op) -> Step:
    vt, base, d = op.result.type, c.at(op, "base"), c.slot(op.result)
    extents = iter([(c.slot(v), elem_name(v)) for v in op.group("dynamicShape")])
    steps = iter([c.slot(v) for v in op.group("dynamicStrides")])
    shape = [next(extents) if extent is None else extent for extent in vt.shape]  # type: ignore[attr-defined]
    strides = [(next(steps),) if stride is None else stride for stride in vt.strides]  # type: ignore[attr-defined]

    def step(s: Frame) -> None:
        s[d] = View(
            int(s[base]),
            tuple([int(as_unsigned(s[e[0]], e[1])) if isinstance(e, tuple) else e for e in shape]),
            tuple([int(s[t[0]]) if isinstance(t, tuple) else t for t in strides]),  # strides may be negative
        )

    dims = [m for m, stride in enumerate(strides) if isinstance(stride, tuple)]
    assumed = [
        (m, assumption)
        for m, value in zip(dims, op.group("dynamicStrides"))
        for assumption in c.assumed.get(value, ())
    ]
    if not assumed:
        return step

    def checked(s: Frame) -> None:
        step(s)
        for m, assumption in assumed:
            if s[d].shape[m] > 1:
                tell_broken(s, assumption, s[strides[m][0]])

    return checked


@pure("make_partition_view", "make_strided_view", "make_gather_scatter_view")
def build_tile_view(op: Op) -> Any:
    return lambda view: view


def space_of(vt: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(dim_map, how many elements one step of an index moves along each view dimension).

    Indices of a gather_scatter_view count elements, in its dense dimensions too: the frontend passes element
    offsets and NVIDIA's code uses them as they are (seen in its SASS).
    """
    if isinstance(vt, GatherScatterView):
        return tuple(range(len(vt.tile))), (1,) * len(vt.tile)
    return vt.dim_map, (vt.traversal if isinstance(vt, StridedView) else vt.tile)


def to_type(number: int, value: Value) -> Any:
    dtype = storage_dtype(value.type.elem)  # type: ignore[attr-defined]
    return np.array(number & ((1 << 64) - 1), np.uint64).astype(dtype)[()]


@effect("get_index_space_shape")
def compile_index_space(c: Compiler, op: Op) -> Step:
    source, results = c.slot(op.operands[0]), [(c.slot(r), r) for r in op.results]
    dim_map, steps = space_of(op.operands[0].type)

    def step(s: Frame) -> None:
        for (d, value), m, by in zip(results, dim_map, steps):
            s[d] = to_type(-(-s[source].shape[m] // by), value)

    return step


@effect("get_tensor_shape")
def compile_tensor_shape(c: Compiler, op: Op) -> Step:
    source, results = c.slot(op.operands[0]), [(c.slot(r), r) for r in op.results]

    def step(s: Frame) -> None:
        for (d, value), extent in zip(results, s[source].shape):
            s[d] = to_type(extent, value)

    return step


class Window:
    """Where one tile of a view lies: compiled once per op."""

    __slots__ = (
        "dim_map",
        "inbounds",
        "indices",
        "loads",
        "nibble",
        "op",
        "site",
        "size",
        "sparse",
        "steps",
        "tile",
        "view",
    )

    def __init__(self, c: Compiler, op: Op, site: Site) -> None:
        vt: Any = op.group("view")[0].type
        self.op, self.site, self.view, self.tile = op, site, c.at(op, "view"), vt.tile
        self.dim_map, self.steps = space_of(vt)
        # a load from beyond the index space gives padding: NVIDIA's code tests for it, and frontends' loops rely on it
        self.loads = op.spec.name == "load_view_tko"
        self.indices = [(c.slot(v), elem_name(v)) for v in op.group("index")]
        self.size = 1 if site.nibble else site.stored.itemsize
        self.sparse = vt.sparse_dim if isinstance(vt, GatherScatterView) else None
        self.inbounds = tuple(op.attr("inbounds") or ()) if "inbounds" in op.spec.attr_by_name else ()

    def starts(self, s: Frame) -> list[Any]:
        """First element of the tile along each view dimension; the row numbers along a sparse one."""
        out = []
        for d, (slot, name) in enumerate(self.indices):
            index = as_unsigned(s[slot], name)
            out.append(index if d == self.sparse else int(index) * self.steps[d])
        return out

    def valid(self, s: Frame, starts: list[Any]) -> list[int]:
        """How many elements of the tile lie inside of the tensor, along each dimension of a dense view."""
        shape = s[self.view].shape
        counts = [
            extent if start + extent <= shape[m] else max(0, shape[m] - start)
            for start, m, extent in zip(starts, self.dim_map, self.tile)
        ]
        if s[0].launch.check:
            self.check(s, starts, counts)
        return counts

    def check(self, s: Frame, starts: list[Any], counts: list[int]) -> None:
        state, shape = s[0], s[self.view].shape
        for d, (start, m) in enumerate(zip(starts, self.dim_map)):
            what = None
            if d < len(self.inbounds) and self.inbounds[d] and counts[d] < self.tile[d]:
                what = f"the tile crosses the end of dimension {d}, which inbounds rules out"
            elif start >= shape[m] and not self.loads:
                space = -(-shape[m] // self.steps[d])
                index = start // self.steps[d]
                what = f"index {index} is outside of the index space of dimension {d} ({space} tiles)"
            if what:
                state.launch.report(
                    diags.UNDEFINED, self.op, what=what, block=state.id_text, element=f"[{d}]"
                )

    def addresses(self, s: Frame) -> tuple[Any, Any, Any]:
        """(addresses, mask, half) of every element: the general way."""
        view = s[self.view]
        rank = len(self.tile)
        offset: Any = np.zeros((1,) * rank, np.int64)
        mask: Any = np.ones((1,) * rank, np.bool_)
        for d, (start, m, extent) in enumerate(zip(self.starts(s), self.dim_map, self.tile)):
            limit = view.shape[m]
            if d == self.sparse:
                ok = start.astype(np.uint64) < np.uint64(limit)
                place = np.where(ok, start, start.dtype.type(0)).astype(np.int64)
            else:
                place = np.arange(extent, dtype=np.int64) + (start if start < limit else 0)
                ok = (place < limit) if start < limit else np.zeros(extent, np.bool_)
            column = (-1,) + (1,) * (rank - 1 - d)
            offset = offset + (np.where(ok, place, 0) * view.strides[m]).reshape(column)
            mask = mask & ok.reshape(column)
        if self.site.nibble:
            return view.base + (offset >> 1), np.broadcast_to(mask, self.tile), offset & 1
        return view.base + offset * self.size, np.broadcast_to(mask, self.tile), None

    def array(self, s: Frame, starts: list[Any], counts: list[int], verb: str) -> Any:
        """The part of the tile inside of the tensor, as an array over memory."""
        view, address, strides = s[self.view], 0, []
        for start, m in zip(starts, self.dim_map):
            stride = view.strides[m] * self.size
            address += start * stride
            strides.append(stride)
        return s[0].memory.block(view.base + address, tuple(counts), tuple(strides), self.site.stored, verb)

    @property
    def dense(self) -> bool:
        return self.sparse is None and not self.site.nibble


PADDING = {"neg_zero": -0.0, "nan": np.nan, "pos_inf": np.inf, "neg_inf": -np.inf}


def padding_of(vt: Any, site: Site) -> Any:
    """What elements beyond the extent read as; zero where the view does not say."""
    if vt.padding is None:
        return site.zero
    name = getattr(site.elem, "name", "ptr")
    if vt.padding == "zero" or name not in FORMATS:
        return site.zero
    return encode(np.float64(PADDING[vt.padding]), FORMATS[name])[()]


@effect("load_view_tko")
def compile_load_view(c: Compiler, op: Op) -> Step:
    site = Site(c, op, op.results[0].type.elem)  # type: ignore[attr-defined]
    window, d = Window(c, op, site), c.slot(op.results[0])
    vt: Any = op.group("view")[0].type
    padding, bare = padding_of(vt, site), vt.padding is None
    tile = window.tile

    def general(s: Frame) -> None:
        addresses, mask, half = window.addresses(s)
        s[d] = site.load(
            s[0],
            np.broadcast_to(addresses, tile),
            mask,
            padding,
            None if half is None else np.broadcast_to(half, tile),
        )
        if s[0].races is not None:
            site.track(s, np.broadcast_to(addresses, tile), mask, write=False)
            put(s, d, ~mask if bare else None)

    def rectangle(s: Frame) -> None:
        starts = window.starts(s)
        counts = window.valid(s, starts)
        if s[0].races is not None:
            general(s)
            return
        whole = tuple(counts) == tile
        if not whole and 0 in counts:
            s[d] = np.broadcast_to(padding, tile)
            return
        try:
            part = window.array(s, starts, counts, "reads")
        except Spread:
            general(s)
            return
        if site.is_bool:
            part = part != 0
        if whole:
            s[d] = np.array(part)
            return
        out = np.full(tile, padding, site.dtype)
        out[tuple(map(slice, counts))] = part
        s[d] = out

    return observed(c, op, rectangle if window.dense else general, d)


@effect("store_view_tko")
def compile_store_view(c: Compiler, op: Op) -> Step:
    value = op.operand("tile")
    site = Site(c, op, value.type.elem)  # type: ignore[union-attr]
    window, source = Window(c, op, site), c.slot(value)  # type: ignore[arg-type]
    tile = window.tile

    def general(s: Frame) -> None:
        addresses, mask, half = window.addresses(s)
        if s[0].unspecified:
            report_use(s[0], op, source, mask, "stores")
        site.store(
            s[0],
            np.broadcast_to(addresses, tile),
            s[source],
            mask,
            None if half is None else np.broadcast_to(half, tile),
        )
        if s[0].races is not None:
            site.track(s, np.broadcast_to(addresses, tile), mask, write=True)

    def rectangle(s: Frame) -> None:
        starts = window.starts(s)
        counts = window.valid(s, starts)
        if s[0].races is not None:
            general(s)
            return
        if 0 in counts:
            return
        try:
            part = window.array(s, starts, counts, "writes")
        except Spread:
            general(s)
            return
        s[0].memory.changes += 1
        part[...] = s[source] if tuple(counts) == tile else s[source][tuple(map(slice, counts))]

    return rectangle if window.dense else general


@effect("atomic_red_view_tko")
def compile_red_view(c: Compiler, op: Op) -> Step:
    value = op.group("value")[0]
    site, mode = Site(c, op, value.type.elem), Mode(op.attr("mode"), elem_name(value))  # type: ignore[attr-defined]
    window, source = Window(c, op, site), c.slot(value)

    def step(s: Frame) -> None:
        addresses, mask, _ = window.addresses(s)
        update(
            site, s[0], mode, np.broadcast_to(addresses, window.tile), mask, np.asarray(s[source]), read=False
        )

    return step
