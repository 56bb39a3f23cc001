"""Atomic updates through tiles of pointers: element after element, also where addresses repeat within a tile."""

from __future__ import annotations

import numpy as np

from .access import Site, observed
from .exact import compute
from .floats import FORMATS, RN
from .ints import as_unsigned
from .memory import Fault
from .registry import effect, elem_name
from .state import Block, raise_fault
from .taint import put, report_use

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tileiras.compiler.ir.core import Op

    from .compile import Compiler
    from .registry import Frame, Step


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


class Mode:
    """What a mode does to stored elements: new = change(old, arg), and ways to do many at once where there are."""

    __slots__ = ("chain", "change", "ufunc")

    def __init__(self, mode: str, name: str) -> None:
        self.change = rmw_function(mode, name)
        plain = mode in UFUNCS and not (mode == "addf" and name == "bf16")
        self.ufunc: Any = UFUNCS[mode] if plain else None
        self.chain: Callable[[Any, Any], Any] | None = None
        if plain:
            ufunc: Any = self.ufunc
            self.chain = lambda base, values: ufunc.accumulate(
                np.concatenate((base, values)), dtype=values.dtype
            )
        elif mode == "xchg":
            self.chain = lambda base, values: np.concatenate((base, values))


UFUNCS = {
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "add": np.add, "addf": np.add,
    "max": np.maximum, "min": np.minimum,
}  # fmt: skip


class Groups:
    """Active positions of a tile by address: `order` sorts them, groups start at `starts` and have `counts`."""

    __slots__ = ("counts", "order", "positions", "starts")

    def __init__(self, flat: Any, positions: Any) -> None:
        self.positions = positions
        addresses = flat[positions]
        self.order = np.argsort(addresses, kind="stable")
        ordered = addresses[self.order]
        fresh = np.ones(ordered.size, np.bool_)
        fresh[1:] = ordered[1:] != ordered[:-1]
        self.starts = np.flatnonzero(fresh)
        self.counts = np.diff(np.append(self.starts, ordered.size))

    def rounds(self) -> list[Any]:
        """Positions split so that no address repeats within a part, in order."""
        if self.starts.size == self.positions.size:
            return [self.positions]
        rank = np.arange(self.order.size) - np.repeat(self.starts, self.counts)
        by_rank = np.argsort(rank, kind="stable")
        cuts = np.cumsum(np.bincount(rank))[:-1]
        return [np.sort(part) for part in np.split(self.positions[self.order[by_rank]], cuts)]

    def chains(self) -> list[Any]:
        """Positions of each address, in order."""
        return np.split(self.positions[self.order], self.starts[1:])

    @property
    def crowded(self) -> bool:
        """Few addresses with many updates each: chains are fewer than rounds."""
        return self.starts.size < int(self.counts.max())


def in_turn(
    site: Site,
    state: Block,
    addresses: Any,
    mask: Any,
    result: Any,
    change: Callable[[Any, Any], Any],
    values: Any = None,
    chain: Callable[[Any, Any], Any] | None = None,
) -> Any:
    """Atomic update of each active element, one after another where addresses repeat; gives the old values.

    change(old, positions) gives the new elements; inactive elements give `result`. chain(base, values) gives
    what the memory holds before and after each of `values` is applied to one element.
    """
    shape = np.shape(addresses)
    flat = np.asarray(addresses).reshape(-1)
    positions = np.arange(flat.size) if mask is None else np.flatnonzero(mask)
    if positions.size == 0:
        return result
    out = np.array(np.broadcast_to(result, shape), site.dtype).reshape(-1)
    groups = Groups(flat, positions)
    try:
        if chain is not None and groups.crowded:
            for part in groups.chains():
                where = flat[part[:1]]
                steps = chain(state.memory.load(where, site.dtype), values[part])
                out[part] = steps[:-1]
                if steps[-1:].tobytes() != steps[:1].tobytes():
                    state.memory.store(where, steps[-1:], site.dtype)
            return out.reshape(shape)
        for part in groups.rounds():
            old = state.memory.load(flat[part], site.dtype)
            new = change(old, part)
            if new.tobytes() != old.tobytes():  # a lock that stays taken is no change: deadlocks must show
                state.memory.store(flat[part], new, site.dtype)
            out[part] = old
    except Fault as fault:
        fault.position = int(np.flatnonzero(flat[positions] == fault.address)[0])
        raise_fault(state, site.op, fault, shape, mask)
    return out.reshape(shape)


def update(site: Site, state: Block, mode: Mode, addresses: Any, mask: Any, values: Any, read: bool) -> Any:
    """The atomic update of a tile; its old values, or anything when nobody reads them."""
    if not read and mode.ufunc is not None:
        chosen, operands = (addresses, values) if mask is None else (addresses[mask], values[mask])
        if not np.size(chosen) or state.memory.combine(mode.ufunc, chosen, operands, site.dtype):
            return site.zero
    flat = np.asarray(values).reshape(-1)
    change = mode.change
    return in_turn(
        site, state, addresses, mask, site.zero, lambda old, part: change(old, flat[part]), flat, mode.chain
    )  # fmt: skip


@effect("atomic_rmw_tko")
def compile_rmw(c: Compiler, op: Op) -> Step:
    value = op.group("arg")[0]
    site, mode = Site(c, op, value.type.elem), Mode(op.attr("mode"), elem_name(value))  # type: ignore[attr-defined]
    pointers, arg, mask = c.at(op, "pointers"), c.at(op, "arg"), c.one(op.operand("mask"))
    d, read = c.slot(op.results[0]), bool(op.results[0].uses)

    def step(s: Frame) -> None:
        lanes = None if mask is None else np.asarray(s[mask])
        if s[0].unspecified:
            report_use(s[0], op, arg, lanes, "stores")
        out = update(site, s[0], mode, np.asarray(s[pointers]), lanes, np.asarray(s[arg]), read)
        if s[0].races is not None:
            site.track(s, s[pointers], lanes, write=True)
            put(s, d, None if lanes is None else ~lanes)
        s[d] = out[()] if np.ndim(out) == 0 else out

    return observed(c, op, step, d)


@effect("atomic_cas_tko")
def compile_cas(c: Compiler, op: Op) -> Step:
    site = Site(c, op, op.results[0].type.elem)  # type: ignore[attr-defined]
    pointers, cmp, val = (c.at(op, name) for name in ("pointers", "cmp", "val"))
    mask, d = c.one(op.operand("mask")), c.slot(op.results[0])
    bits = np.dtype(f"i{site.dtype.itemsize}")

    def step(s: Frame) -> None:
        expected, value = np.asarray(s[cmp]).reshape(-1), np.asarray(s[val]).reshape(-1)

        def change(old: Any, which: Any) -> Any:
            return np.where(old.view(bits) == expected[which].view(bits), value[which], old)

        lanes = None if mask is None else s[mask]
        out = in_turn(site, s[0], s[pointers], lanes, s[cmp], change)
        if s[0].races is not None:
            site.track(s, s[pointers], lanes, write=True)
        s[d] = np.asarray(out)[()] if np.ndim(out) == 0 else out

    return observed(c, op, step, d)
