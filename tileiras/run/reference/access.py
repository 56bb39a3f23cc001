"""Loads, stores and atomics through tiles of pointers and through views.

One path does the work for all: a tile of addresses and a mask of active elements. Views whose tile is a
rectangle in memory take a short way, as a strided array over the region.
"""

from __future__ import annotations

import numpy as np

from tileiras.compiler.ir.types import GatherScatterView, StridedView

from . import diags
from .exact import compute
from .floats import FORMATS, RN, storage_dtype
from .ints import as_unsigned
from .memory import Fault, Spread
from .registry import effect, elem_name, pure
from .state import Block, raise_fault

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tileiras.compiler.ir.core import Op, Value

    from .compile import Compiler
    from .registry import Frame, Step

NIBBLES = ("f4E2M1FN", "i4")
UINT8 = np.dtype(np.uint8)


class Site:
    """A memory op: the element type it moves, and how its faults are told."""

    __slots__ = ("dtype", "elem", "is_bool", "nibble", "op", "stored", "zero")

    def __init__(self, op: Op, elem: Any) -> None:
        self.op, self.elem = op, elem
        name = getattr(elem, "name", "ptr")
        self.dtype = storage_dtype(elem)
        self.is_bool, self.nibble = name == "i1", name in NIBBLES
        self.stored = UINT8 if self.is_bool else self.dtype  # as it lies in memory
        self.zero = self.dtype.type(0)

    def unspecified(self, state: Block) -> Any:
        """What an element without a value reads as: zero, or with check=True a value that shows."""
        if not state.launch.poison or self.is_bool:
            return self.zero
        if self.dtype.kind == "f":
            return self.dtype.type(np.nan)
        name = getattr(self.elem, "name", "ptr")
        if name in FORMATS:
            return self.dtype.type(FORMATS[name].canonical_nan)
        return np.frombuffer(b"\xa5" * self.dtype.itemsize, self.dtype)[0]

    # addresses and mask: any shape; mask None means all. Nibbles: which half of the byte, or None.

    def load(self, state: Block, addresses: Any, mask: Any, padding: Any, half: Any = None) -> Any:
        shape = np.shape(addresses)
        if mask is not None:
            if mask.all():
                mask = None
            elif not mask.any():
                return np.broadcast_to(padding, shape)
        try:
            values = state.memory.load(addresses if mask is None else addresses[mask], self.stored)
        except Fault as fault:
            raise_fault(state, self.op, fault, shape, mask)
        if self.nibble:
            values = values >> half_of(half, mask) & np.uint8(15)
        elif self.is_bool:
            values = values != 0
        if mask is None:
            return values
        out = np.array(np.broadcast_to(padding, shape), self.dtype)
        out[mask] = values
        return out

    def store(self, state: Block, addresses: Any, values: Any, mask: Any, half: Any = None) -> None:
        shape = np.shape(addresses)
        values = np.broadcast_to(values, shape)
        if mask is not None:
            if mask.all():
                mask = None
            elif not mask.any():
                return
            else:
                addresses, values = addresses[mask], values[mask]
        try:
            if self.nibble:
                self.store_nibbles(state, np.asarray(addresses), values, half_of(half, mask))
            else:
                state.memory.store(
                    addresses, values.astype(np.uint8) if self.is_bool else values, self.stored
                )
        except Fault as fault:
            raise_fault(state, self.op, fault, shape, mask)

    def store_nibbles(self, state: Block, addresses: Any, values: Any, shift: Any) -> None:
        shift = np.broadcast_to(shift, addresses.shape)
        for place in (0, 4):  # two elements share a byte: one half after the other
            which = shift == place
            if which.any():
                old = state.memory.load(addresses[which], UINT8)
                new = (old & np.uint8(0xF0 >> place)) | ((values[which] & np.uint8(15)) << np.uint8(place))
                state.memory.store(addresses[which], new, UINT8)


def half_of(half: Any, mask: Any) -> Any:
    """Bit position of each nibble."""
    if half is None:
        return np.uint8(0)
    half = half if mask is None else half[mask]
    return half.astype(np.uint8) * np.uint8(4)


def waits(c: Compiler, op: Op) -> bool:
    """Whether an op may be part of a loop that waits for another tile block."""
    if c.in_loop() and op.attr("memory_ordering_semantics") != "weak":
        c.waits = True
        return True
    return False


def observed(c: Compiler, op: Op, step: Step, slot: int) -> Step:
    """The step, after which the tile block may let others run if it keeps reading the same."""
    if not waits(c, op):
        return step
    site = id(op)

    def watch(s: Frame) -> None:
        step(s)
        observe = s[0].observe
        if observe is not None:
            observe(site, op, s[slot])

    return watch


# ---- tiles of pointers


@effect("load_ptr_tko")
def compile_load_ptr(c: Compiler, op: Op) -> Step:
    site = Site(op, op.results[0].type.elem)  # type: ignore[attr-defined]
    source, mask, padding = (
        c.at(op, "source"),
        c.one(op.operand("mask")),
        c.one(op.operand("paddingValue")),
    )
    d = c.slot(op.results[0])

    def step(s: Frame) -> None:
        state = s[0]
        m = None if mask is None else s[mask]
        pad = s[padding] if padding is not None else site.unspecified(state) if m is not None else None
        s[d] = site.load(state, s[source], m, pad)

    return observed(c, op, step, d)


@effect("store_ptr_tko")
def compile_store_ptr(c: Compiler, op: Op) -> Step:
    site = Site(op, op.operand("value").type.elem)  # type: ignore[union-attr]
    destination, value, mask = (
        c.at(op, "destination"),
        c.at(op, "value"),
        c.one(op.operand("mask")),
    )

    def step(s: Frame) -> None:
        site.store(s[0], s[destination], s[value], None if mask is None else s[mask])

    return step


def rmw_function(mode: str, name: str) -> Callable[[Any, Any], Any]:
    """new = fn(old, arg) on stored elements."""
    if mode == "addf":
        fmt = FORMATS[name]
        return lambda old, arg: compute("add", fmt, RN, old, arg) if fmt.bits == 16 else old + arg
    if mode in ("umax", "umin"):
        pick = np.maximum if mode == "umax" else np.minimum
        return lambda old, arg: pick(as_unsigned(old, name), as_unsigned(arg, name)).view(old.dtype)
    plain: dict[str, Any] = {
        "and": np.bitwise_and,
        "or": np.bitwise_or,
        "xor": np.bitwise_xor,
        "add": np.add,
        "max": np.maximum,
        "min": np.minimum,
        "xchg": lambda old, arg: arg,
    }
    return plain[mode]


def in_turn(
    site: Site, state: Block, addresses: Any, mask: Any, result: Any, change: Callable[[Any, Any], Any]
) -> Any:
    """Atomic update of each active element, one after another where addresses repeat; gives the old values.

    change(old, positions) gives the new elements; inactive elements give `result`.
    """
    shape = np.shape(addresses)
    flat = np.asarray(addresses).reshape(-1)
    positions = np.arange(flat.size) if mask is None else np.flatnonzero(mask)
    if positions.size == 0:
        return result
    out = np.array(np.broadcast_to(result, shape), site.dtype).reshape(-1)
    try:
        for round_ in rounds(flat, positions):
            old = state.memory.load(flat[round_], site.dtype)
            new = change(old, round_)
            if new.tobytes() != old.tobytes():  # a lock that stays taken is no change: deadlocks must show
                state.memory.store(flat[round_], new, site.dtype)
            out[round_] = old
    except Fault as fault:
        fault.position = int(np.flatnonzero(flat[positions] == fault.address)[0])
        raise_fault(state, site.op, fault, shape, mask)
    return out.reshape(shape)


AT_ONCE = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "add": np.add, "max": np.maximum,
           "min": np.minimum, "addf": np.add}  # fmt: skip


def without_result(site: Site, state: Block, addresses: Any, mask: Any, values: Any, combine: Any) -> bool:
    """Atomic updates whose old values nobody reads, element after element by `ufunc.at`; False: not possible here."""
    if mask is not None:
        addresses, values = addresses[mask], values[mask]
    if not np.size(addresses):
        return True
    return state.memory.combine(combine, addresses, values, site.dtype)


def rounds(flat: Any, positions: Any) -> list[Any]:
    """Positions split so that no address repeats within a part, in order."""
    addresses = flat[positions]
    order = np.argsort(addresses, kind="stable")
    ordered = addresses[order]
    fresh = np.ones(ordered.size, np.bool_)
    fresh[1:] = ordered[1:] != ordered[:-1]
    if fresh.all():
        return [positions]
    starts = np.flatnonzero(fresh)
    rank = np.arange(ordered.size) - np.repeat(starts, np.diff(np.append(starts, ordered.size)))
    by_rank = np.argsort(rank, kind="stable")
    cuts = np.cumsum(np.bincount(rank))[:-1]
    return [np.sort(part) for part in np.split(positions[order[by_rank]], cuts)]


@effect("atomic_rmw_tko")
def compile_rmw(c: Compiler, op: Op) -> Step:
    elem = op.operand("arg").type.elem  # type: ignore[union-attr]
    site, fn = Site(op, elem), rmw_function(op.attr("mode"), elem_name(op.operand("arg")))  # type: ignore[arg-type]
    pointers, arg, mask = c.at(op, "pointers"), c.at(op, "arg"), c.one(op.operand("mask"))
    d = c.slot(op.results[0])

    combine = (
        None
        if op.results[0].uses or elem_name(op.group("arg")[0]) == "bf16"
        else AT_ONCE.get(op.attr("mode"))
    )

    def step(s: Frame) -> None:
        state, value = s[0], np.asarray(s[arg]).reshape(-1)
        if combine is not None:
            lanes = None if mask is None else np.asarray(s[mask])
            if without_result(site, state, np.asarray(s[pointers]), lanes, np.asarray(s[arg]), combine):
                s[d] = site.zero
                return
        out = in_turn(
            site, state, s[pointers], None if mask is None else s[mask], site.unspecified(state),
            lambda old, which: fn(old, value[which]),
        )  # fmt: skip
        s[d] = out[()] if np.ndim(out) == 0 else out

    return observed(c, op, step, d)


@effect("atomic_cas_tko")
def compile_cas(c: Compiler, op: Op) -> Step:
    site = Site(op, op.results[0].type.elem)  # type: ignore[attr-defined]
    pointers, cmp, val = (c.at(op, name) for name in ("pointers", "cmp", "val"))
    mask, d = c.one(op.operand("mask")), c.slot(op.results[0])
    bits = np.dtype(f"i{site.dtype.itemsize}")

    def step(s: Frame) -> None:
        expected, value = np.asarray(s[cmp]).reshape(-1), np.asarray(s[val]).reshape(-1)

        def change(old: Any, which: Any) -> Any:
            return np.where(old.view(bits) == expected[which].view(bits), value[which], old)

        out = in_turn(site, s[0], s[pointers], None if mask is None else s[mask], s[cmp], change)
        s[d] = np.asarray(out)[()] if np.ndim(out) == 0 else out

    return observed(c, op, step, d)


# ---- views


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

    return step


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
            elif start >= shape[m]:
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


def padding_of(vt: Any, site: Site) -> Callable[[Block], Any]:
    from .floats import encode

    if vt.padding is None:
        return site.unspecified
    name = getattr(site.elem, "name", "ptr")
    if vt.padding == "zero" or name not in FORMATS:
        value = site.zero if name != "f8E8M0FNU" else np.uint8(0)
    else:
        value = encode(np.float64(PADDING[vt.padding]), FORMATS[name])[()]
    return lambda state: value


@effect("load_view_tko")
def compile_load_view(c: Compiler, op: Op) -> Step:
    site = Site(op, op.results[0].type.elem)  # type: ignore[attr-defined]
    window, d = Window(c, op, site), c.slot(op.results[0])
    padding = padding_of(op.operand("view").type, site)  # type: ignore[union-attr]
    tile = window.tile

    def general(s: Frame) -> None:
        addresses, mask, half = window.addresses(s)
        s[d] = site.load(
            s[0],
            np.broadcast_to(addresses, tile),
            mask,
            padding(s[0]),
            None if half is None else np.broadcast_to(half, tile),
        )

    def rectangle(s: Frame) -> None:
        starts = window.starts(s)
        counts = window.valid(s, starts)
        whole = tuple(counts) == tile
        if not whole and 0 in counts:
            s[d] = np.broadcast_to(padding(s[0]), tile)
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
        out = np.full(tile, padding(s[0]), site.dtype)
        out[tuple(map(slice, counts))] = part
        s[d] = out

    return observed(c, op, rectangle if window.dense else general, d)


@effect("store_view_tko")
def compile_store_view(c: Compiler, op: Op) -> Step:
    value = op.operand("tile")
    site = Site(op, value.type.elem)  # type: ignore[union-attr]
    window, source = Window(c, op, site), c.slot(value)  # type: ignore[arg-type]
    tile = window.tile

    def general(s: Frame) -> None:
        addresses, mask, half = window.addresses(s)
        site.store(
            s[0],
            np.broadcast_to(addresses, tile),
            s[source],
            mask,
            None if half is None else np.broadcast_to(half, tile),
        )

    def rectangle(s: Frame) -> None:
        starts = window.starts(s)
        counts = window.valid(s, starts)
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
    value = op.operand("value")
    site, fn = Site(op, value.type.elem), rmw_function(op.attr("mode"), elem_name(value))  # type: ignore[union-attr, arg-type]
    window, source = Window(c, op, site), c.slot(value)  # type: ignore[arg-type]
    combine = None if elem_name(value) == "bf16" else AT_ONCE.get(op.attr("mode"))  # type: ignore[arg-type]

    def step(s: Frame) -> None:
        addresses, mask, _ = window.addresses(s)
        values = np.asarray(s[source])
        addresses = np.broadcast_to(addresses, window.tile)
        if combine is not None and without_result(site, s[0], addresses, mask, values, combine):
            return
        values = values.reshape(-1)
        in_turn(
            site,
            s[0],
            np.broadcast_to(addresses, window.tile),
            mask,
            site.zero,
            lambda old, which: fn(old, values[which]),
        )

    return step
