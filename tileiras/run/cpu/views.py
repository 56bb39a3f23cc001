"""Tensor views at run time, the ops that make them, and the windows through which ops see one tile of them."""

from __future__ import annotations

from tileiras.compiler.ir.types import GatherScatterView, StridedView

from .access import lane_addresses, load_lanes, store_lanes
from .code import BITS, MEMORY, REGISTER, bytes_of, const, const_vector, name_of, vec
from .formats import FORMATS
from .integers import read
from .registry import lowers
from .space import Chunk, Map, breaks_of, dim_ranges
from .tiles import Node, Survey, Uniform, load_elements, store_elements

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op, Value

    from .lower import Lower

NIBBLES = ("f4E2M1FN", "i4")
FAR = 1 << 40  # no index leads further
# Stores that go past the caches (`Window.streams`).
STREAMED_BYTES = 1 << 24  # of a tensor: half of a large last-level cache, beside which there are loads
STREAMED_ROW = 1024  # bytes of a tile's row: few lines are written in part
STREAMED_AT = 16  # what an address must be a multiple of; NumPy's arrays are


class View:
    """A tensor_view: address, extents and strides in elements, as i64 names or numbers."""

    __slots__ = ("base", "shape", "strides")

    def __init__(self, base: str, shape: list[str], strides: list[str]) -> None:
        self.base, self.shape, self.strides = base, shape, strides


def space_of(vt: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(tensor dimension, elements per step of an index) of each view dimension; gather views count elements."""
    if isinstance(vt, GatherScatterView):
        return tuple(range(len(vt.tile))), (1,) * len(vt.tile)
    return vt.dim_map, (vt.traversal if isinstance(vt, StridedView) else vt.tile)


def padding_of(vt: Any, name: str) -> str:
    """What elements beyond the extent read as, as a scalar constant."""
    type, f = REGISTER[name], FORMATS.get(name)
    if f is None or vt.padding in (None, "zero"):
        return "false" if type == "i1" else "0" if f is None or type.startswith("i") else const(type, 1, 0.0)
    if type in ("float", "double"):
        nan = "0x7FF8000000000000"
        value = {"neg_zero": -0.0, "pos_inf": float("inf"), "neg_inf": float("-inf")}.get(vt.padding)
        return nan if value is None else const(type, 1, value)
    top = f.inf if f.inf is not None else f.nan if f.nan is not None else f.max_code
    sign = 1 << f.sign if f.sign else 0
    code = {
        "neg_zero": sign,
        "nan": f.nan if f.nan is not None else f.max_code,
        "pos_inf": top,
        "neg_inf": top | sign,
    }
    if not f.sign:  # unsigned formats have no place for negative values
        code |= {"neg_zero": 0, "neg_inf": f.nan or 0}
    value = code[vt.padding]
    return str(value - (1 << BITS[type]) if value >> (BITS[type] - 1) else value)


class Window:
    """One tile of a view: where it starts, how far it is inside of the tensor, how its dimensions step in bytes."""

    __slots__ = (
        "ahead", "base", "counts", "extents", "name", "nibble", "origin", "padding", "ranges", "rows", "shape", "size",
        "sparse", "steps",
        "stream", "tensor",
    )  # fmt: skip

    def __init__(self, lower: Any, op: Any, name: str) -> None:
        c = lower.c
        vt = op.group("view")[0].type
        view: View = lower.values[op.group("view")[0]]
        dims, by = space_of(vt)
        self.name, self.shape = name, tuple(vt.tile)
        self.nibble = name in NIBBLES
        self.size = 1 if self.nibble else bytes_of(name)
        self.ranges = dim_ranges(self.shape)
        self.sparse = vt.sparse_dim if isinstance(vt, GatherScatterView) else None
        self.rows: Node | None = None
        self.padding = padding_of(vt, name)
        self.tensor, self.stream = view, ""  # stream: whether stores go past the caches
        self.base, self.origin = view.base, "0"  # origin: 4-bit elements before the tile, two a byte
        self.steps: list[str] = []
        self.counts: list[str] = []
        self.extents: list[str] = []
        self.ahead = "0"  # bytes from this tile to the one of the next round
        for d, (value, m) in enumerate(zip(op.group("index"), dims)):
            stride = c.mul(view.strides[m], str(self.size))
            self.steps.append(stride)
            limit = view.shape[m]
            self.extents.append(limit)
            if d == self.sparse:
                self.rows = lower.values[value]
                lower.force(self.rows)
                self.counts.append(limit)
                continue
            index = lower.scalar(value)
            wide = read(c, 1, index, name_of(value.type.elem), "i64", False)
            wide = c.intrinsic("umin", "i64", 1, wide, str(FAR))
            start = c.mul(wide, str(by[d]))
            left = c.intrinsic("smax", "i64", 1, c.op(f"sub i64 {limit}, {start}"), "0")
            self.counts.append(c.intrinsic("smin", "i64", 1, left, str(self.shape[d])))
            if self.nibble:
                self.origin = c.add(self.origin, c.mul(start, stride))
            else:
                self.base = c.add(self.base, c.mul(start, stride))
                self.ahead = c.add(self.ahead, c.mul(stride, str(by[d] * lower.advance(value))))

    @property
    def plain(self) -> bool:
        return self.sparse is None and not self.nibble

    @property
    def rows_are_dense(self) -> bool:
        """Whether elements of the last dimension are known to follow one another in memory."""
        return self.plain and self.steps[-1:] == [str(self.size)]

    def lane_dimension(self, w: int, map: Map) -> int | None:
        """The dimension whose consecutive elements are the lanes; None when they are not, or there is one lane."""
        for d, (low, high) in enumerate(self.ranges):
            if high - low >= w > 0 and map[low : low + w] == tuple(range(w)):
                others = map[:low] + map[low + w :]
                return d if all(m < 0 or m % (1 << 16) >= w for m in others) else None
        return None

    def dense_conditions(self, lower: Any, w: int, map: Map) -> list[str]:
        """What must hold at run time for loops without masks."""
        c, out = lower.c, []
        if not self.plain:
            return []
        for count, extent in zip(self.counts, self.shape):
            if count != str(extent):
                out.append(c.op(f"icmp eq i64 {count}, {extent}"))
        d = self.lane_dimension(w, map)
        if d is not None and not self.steps[d].lstrip("-").isdigit():
            out.append(c.op(f"icmp eq i64 {self.steps[d]}, {self.size}"))
        return out

    def span(self, lower: Any) -> tuple[str, str] | None:
        """[low, high) addresses that the window can touch."""
        if not self.plain:
            return None
        c, low, high = lower.c, self.base, lower.c.add(self.base, str(self.size))
        for count, step in zip(self.counts, self.steps):
            last = c.intrinsic("smax", "i64", 1, c.op(f"sub i64 {count}, 1"), "0")
            reach = c.mul(last, step)
            low = c.add(low, c.intrinsic("smin", "i64", 1, reach, "0"))
            high = c.add(high, c.intrinsic("smax", "i64", 1, reach, "0"))
        return low, high

    def streams(self, lower: Any) -> str:
        """Whether stores should go past the caches, as an i1; "" where that is known to be wrong.

        So they should where the tensor is larger than what caches hold, because a cache line that is written whole need
        not be read first; and where a row of the tile is many whole lines, at addresses that the instruction takes.
        """
        c = lower.c
        long = [
            d for d, (step, extent) in enumerate(zip(self.steps, self.shape))
            if step == str(self.size) and extent * self.size >= STREAMED_ROW
        ] if self.plain and "stream" in c.features else []  # fmt: skip
        if not long:
            return ""
        total = str(self.size)
        for extent in self.tensor.shape:
            total = c.mul(total, extent)
        if total.isdigit() and int(total) < STREAMED_BYTES:
            return ""
        bits = self.base
        for d, step in enumerate(self.steps):
            if d != long[-1] and not (step.lstrip("-").isdigit() and int(step) % STREAMED_AT == 0):
                bits = c.op(f"or i64 {bits}, {step}")
        out = c.op(f"icmp eq i64 {c.op(f'and i64 {bits}, {STREAMED_AT - 1}')}, 0")
        if not total.isdigit():
            out = c.op(f"and i1 {out}, {c.op(f'icmp uge i64 {total}, {STREAMED_BYTES}')}")
        return out  # type: ignore[no-any-return]

    # ---- one vector

    def place(self, chunk: Chunk, map: Map) -> tuple[str, list[tuple[str, str]], list[list[int]]]:
        """(address of lane 0, per dimension (coordinate of lane 0, limit), lanes' coordinates); dense views only."""
        c, address, inside, lanes = chunk.code, self.base, [], []
        for d, (low, high) in enumerate(self.ranges):
            part = map[low:high]
            at = chunk.offset(part)
            address = c.add(address, c.mul(at, self.steps[d]))
            inside.append((at, self.counts[d]))
            lanes.append(chunk.lane_offsets(part))
        return address, inside, lanes

    def load(self, lower: Any, chunk: Chunk, map: Map) -> str:
        c, n = chunk.code, chunk.lanes
        if not self.plain:
            return self.load_scattered(lower, chunk, map)
        address, inside, lanes = self.place(chunk, map)
        d = self.lane_dimension(chunk.w, map)
        static = d is not None and self.steps[d] == str(self.size)
        same = all(len(set(part)) == 1 for part in lanes)
        if chunk.fast and (n == 1 or same):
            return c.splat(REGISTER[self.name], n, load_elements(c, 1, c.pointer(address), self.name))
        if chunk.fast and d is not None and (static or not self.steps[d].lstrip("-").isdigit()):
            if lower.prefetches and self.ahead != "0":
                prefetch(c, c.pointer(c.add(address, self.ahead)))
            return load_elements(c, n, c.pointer(address), self.name)
        if not chunk.fast and static and n > 1 and can_mask(c, self.name):
            mask = self.row_mask(c, n, d, inside, lanes)
            return masked_load(c, n, c.pointer(address), self.name, mask, self.padding)
        addresses = lane_addresses(c, n, address, lanes, self.steps)
        where = None if chunk.fast else self.mask(c, n, inside, lanes)
        return load_lanes(c, n, addresses, self.name, where, c.splat(REGISTER[self.name], n, self.padding))

    def store(self, lower: Any, chunk: Chunk, map: Map, value: str) -> None:
        c, n = chunk.code, chunk.lanes
        if not self.plain:
            self.store_scattered(lower, chunk, map, value)
            return
        address, inside, lanes = self.place(chunk, map)
        d = self.lane_dimension(chunk.w, map)
        static = d is not None and self.steps[d] == str(self.size)
        if chunk.fast and n == 1:
            store_elements(c, 1, value, c.pointer(address), self.name)
        elif chunk.fast and d is not None and (static or not self.steps[d].lstrip("-").isdigit()):
            if self.stream and static and n * self.size >= STREAMED_AT:
                store_past_caches(c, n, value, c.pointer(address), self.name, self.stream)
            else:
                store_elements(c, n, value, c.pointer(address), self.name)
        elif not chunk.fast and static and n > 1 and can_mask(c, self.name):
            masked_store(c, n, c.pointer(address), self.name, self.row_mask(c, n, d, inside, lanes), value)
        else:
            addresses = lane_addresses(c, n, address, lanes, self.steps)
            store_lanes(
                c, n, addresses, self.name, None if chunk.fast else self.mask(c, n, inside, lanes), value
            )

    def row_mask(self, c: Any, n: int, d: int | None, inside: Any, lanes: Any) -> str:
        """Lanes inside of the tensor, where lanes go along dimension d."""
        left = "0"
        rows = "true"
        for e, (at, count) in enumerate(inside):
            if e == d:
                left = c.op(f"sub i64 {count}, {at}")
            elif count != str(self.shape[e]):
                ok = c.op(f"icmp slt i64 {at}, {count}")
                rows = ok if rows == "true" else c.op(f"and i1 {rows}, {ok}")
        left = c.intrinsic("smin", "i64", 1, c.intrinsic("smax", "i64", 1, left, "0"), str(n))
        if rows != "true":
            left = c.op(f"select i1 {rows}, i64 {left}, i64 0")
        narrow = c.op(f"trunc i64 {left} to i32")
        return c.cmp("ult", "i32", n, const_vector("i32", list(range(n))), c.splat("i32", n, narrow))

    def mask(self, c: Any, n: int, inside: Any, lanes: Any) -> str:
        """Lanes inside of the tensor, wherever lanes lie."""
        out = ""
        for (at, count), steps in zip(inside, lanes):
            place = c.splat("i64", n, at)
            if any(steps):
                place = c.bin("add", "i64", n, place, const_vector("i64", steps))
            ok = c.cmp("slt", "i64", n, place, c.splat("i64", n, count))
            out = c.bin("and", "i1", n, out, ok) if out else ok
        return out or const("i1", n, 1)

    # ---- 4-bit elements, and rows that are named one by one

    def scattered(self, lower: Any, chunk: Chunk, map: Map) -> tuple[str, str, str]:
        """(addresses, mask, which half of the byte) of the lanes; offsets in elements."""
        c, n = chunk.code, chunk.lanes
        total, mask = c.splat("i64", n, self.origin), ""
        for d, (low, high) in enumerate(self.ranges):
            part = map[low:high]
            if d == self.sparse:
                assert self.rows is not None
                index = self.rows.get(lower, chunk, part)
                place = read(c, n, index, self.rows.name, "i64", False)
                ok = c.cmp("ult", "i64", n, place, c.splat("i64", n, self.extents[d]))
            else:
                place = c.splat("i64", n, chunk.offset(part))
                steps = chunk.lane_offsets(part)
                if any(steps):
                    place = c.bin("add", "i64", n, place, const_vector("i64", steps))
                ok = c.cmp("slt", "i64", n, place, c.splat("i64", n, self.counts[d]))
            mask = c.bin("and", "i1", n, mask, ok) if mask else ok
            total = c.bin(
                "add", "i64", n, total, c.bin("mul", "i64", n, place, c.splat("i64", n, self.steps[d]))
            )
        half = ""
        if self.nibble:
            half = c.bin("and", "i64", n, total, const("i64", n, 1))
            total = c.bin("ashr", "i64", n, total, const("i64", n, 1))
        return c.bin("add", "i64", n, c.splat("i64", n, self.base), total), mask or const("i1", n, 1), half

    def load_scattered(self, lower: Any, chunk: Chunk, map: Map) -> str:
        c, n = chunk.code, chunk.lanes
        addresses, mask, half = self.scattered(lower, chunk, map)
        if not self.nibble:
            return load_lanes(c, n, addresses, self.name, mask, c.splat(REGISTER[self.name], n, self.padding))
        byte = load_lanes(c, n, addresses, "i8", mask, const("i8", n, 0))
        by = c.cast("trunc", "i64", "i8", n, c.bin("shl", "i64", n, half, const("i64", n, 2)))
        code = c.bin("and", "i8", n, c.bin("lshr", "i8", n, byte, by), const("i8", n, 15))
        return c.select("i8", n, mask, code, c.splat("i8", n, self.padding))

    def store_scattered(self, lower: Any, chunk: Chunk, map: Map, value: str) -> None:
        c, n = chunk.code, chunk.lanes
        addresses, mask, half = self.scattered(lower, chunk, map)
        if not self.nibble:
            store_lanes(c, n, addresses, self.name, mask, value)
            return
        from .access import store_nibbles

        store_nibbles(c, n, addresses, half, mask, value)


def can_mask(c: Any, name: str) -> bool:
    """Whether the CPU loads and stores vectors of this type under a mask."""
    return ("mask8" if BITS[MEMORY[name]] < 32 else "mask32") in c.features


def store_past_caches(c: Any, n: int, value: str, pointer: str, name: str, condition: str) -> None:
    """A store whose cache lines are not read first where the condition holds; `fence` orders it before others."""
    from .tiles import as_memory

    type, value = MEMORY[name], as_memory(c, n, value, name)
    c.module.declare("!nontemporal", "!0 = !{i32 1}")
    past, plain, done = c.new_label("past"), c.new_label("plain"), c.new_label("done")
    c.branch(condition, past, plain)
    c.begin(past)
    c.do(f"store {vec(type, n)} {value}, ptr {pointer}, align {STREAMED_AT}, !nontemporal !0")
    c.jump(done)
    c.begin(plain)
    c.store(type, n, value, pointer, bytes_of(name))
    c.jump(done)
    c.begin(done)


def prefetch(c: Any, pointer: str) -> None:
    """Asks for a cache line that is read soon, up to the second-level cache; any address will do."""
    c.module.declare("llvm.prefetch.p0", "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
    c.do(f"call void @llvm.prefetch.p0(ptr {pointer}, i32 0, i32 2, i32 1)")


def fence(c: Any, condition: str) -> None:
    """What was stored past the caches comes before what is stored next."""
    c.module.declare("llvm.x86.sse.sfence", "declare void @llvm.x86.sse.sfence()")
    with c.when(condition):
        c.do("call void @llvm.x86.sse.sfence()")


def masked_load(c: Any, n: int, pointer: str, name: str, mask: str, padding: str) -> str:
    from .code import mangled, vec

    type = MEMORY[name]
    t, function = vec(type, n), f"llvm.masked.load.{mangled(type, n)}.p0"
    c.module.declare(function, f"declare {t} @{function}(ptr, i32, <{n} x i1>, {t})")
    other = padding if name != "i1" else "0"
    out = c.op(
        f"call {t} @{function}(ptr {pointer}, i32 {bytes_of(name)}, <{n} x i1> {mask}, {t} {c.splat(type, n, other)})"
    )
    return c.cmp("ne", "i8", n, out, "zeroinitializer") if name == "i1" else out


def masked_store(c: Any, n: int, pointer: str, name: str, mask: str, value: str) -> None:
    from .code import mangled, vec
    from .tiles import as_memory

    type = MEMORY[name]
    t, function = vec(type, n), f"llvm.masked.store.{mangled(type, n)}.p0"
    c.module.declare(function, f"declare void @{function}({t}, ptr, i32, <{n} x i1>)")
    value = as_memory(c, n, value, name)
    c.do(f"call void @{function}({t} {value}, ptr {pointer}, i32 {bytes_of(name)}, <{n} x i1> {mask})")


class ViewLoad(Node):
    """A tile that is read from memory where it is used."""

    __slots__ = ("window",)
    reads = True

    def __init__(self, op: Any, window: Window) -> None:
        super().__init__(window.name, window.shape)
        self.op, self.window, self.cost = op, window, 2

    def compute(self, lower: Any, chunk: Chunk, map: Map) -> str:
        return self.window.load(lower, chunk, map)

    def dense_conditions(self, lower: Any, w: int, map: Map) -> list[str]:
        return self.window.dense_conditions(lower, w, map)

    def span(self, lower: Any) -> tuple[str, str] | None:
        return self.window.span(lower)

    def explore(self, map: Map, into: Survey) -> None:
        into.cost += 1
        for low, high in self.window.ranges:
            into.breaks |= breaks_of(map[low:high])
        if self.window.rows is not None:
            into.widest = max(into.widest, bytes_of(self.window.rows.name))
        into.loads.append((self, map))
        if self.window.rows_are_dense:
            into.reads.append((self, map))


# ---- ops that make views, and ask for their extents


@lowers("make_tensor_view")
def lower_tensor_view(lower: Lower, op: Op) -> None:
    vt: Any = op.result.type
    extents, steps = iter(op.group("dynamicShape")), iter(op.group("dynamicStrides"))
    shape = [wide_scalar(lower, next(extents), False) if e is None else str(e) for e in vt.shape]
    strides = [wide_scalar(lower, next(steps), True) if s is None else str(s) for s in vt.strides]
    lower.values[op.result] = View(lower.scalar(op.group("base")[0]), shape, strides)


def wide_scalar(lower: Lower, value: Value, sign: bool) -> str:
    text, name = lower.scalar(value), name_of(value.type.elem)  # type: ignore[attr-defined]
    if text.isdigit() or name == "i64":
        return text
    return lower.c.op(f"{'sext' if sign else 'zext'} {REGISTER[name]} {text} to i64")


@lowers("make_partition_view", "make_strided_view", "make_gather_scatter_view")
def lower_tile_view(lower: Lower, op: Op) -> None:
    lower.values[op.result] = lower.values[op.operands[0]]


def from_wide(lower: Lower, value: Value, text: str) -> None:
    name = name_of(value.type.elem)  # type: ignore[attr-defined]
    type = REGISTER[name]
    if type != "i64":
        text = lower.c.op(f"trunc i64 {text} to {type}")
    lower.values[value] = Uniform(name, (), text)


@lowers("get_index_space_shape")
def lower_index_space(lower: Lower, op: Op) -> None:
    view: View = lower.values[op.operands[0]]
    dims, by = space_of(op.operands[0].type)
    for result, m, step in zip(op.results, dims, by):
        up = lower.c.add(view.shape[m], str(step - 1))
        from_wide(lower, result, lower.c.op(f"udiv i64 {up}, {step}"))


@lowers("get_tensor_shape")
def lower_tensor_shape(lower: Lower, op: Op) -> None:
    view: View = lower.values[op.operands[0]]
    for result, extent in zip(op.results, view.shape):
        from_wide(lower, result, lower.c.op(f"add i64 {extent}, 0"))
