"""strip-mine: runs elementwise chains, reductions and scans over huge tiles as loops over slices.

A tile of 2^20 elements has no room in registers. Ops on tiles above a limit are collected into groups; a group
becomes one loop over slices along one dimension, every op working on its slice. A value that a later group needs
waits in local memory, one slot per slice. A reduction along the sliced dimension is carried through the loop; so is
the running prefix of a scan.

Before: `%s = addf %a, %b : tensor<1048576xf32>`.
After: `for %i in (0 to 128, step 1) { %s = addf %a', %b' : tensor<8192xf32> ... }`.

Token order inside a loop must hold slice by slice: a store that waits for a load joins its loop only when both touch
the same addresses. Ops with no sliced form (matrix products, permutations, carried tiles) keep whole tiles.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileaa.ops import BY_NAME
from tileiras.compiler.ir.core import Block, Op, Region, Value
from tileiras.compiler.ir.dense import constant_bytes, num_elements
from tileiras.compiler.ir.types import I32, I64, TOKEN, Dense, PartitionView, TensorType, TileType, TokenType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

LIMIT_ELEMS = 1 << 15  # the largest tile that stays whole: 64 elements a thread in 16 warps
LOG2_SLICE = 13  # elements of a slice

ELEMENTWISE = frozenset(
    {
        "absf", "absi", "addf", "addi", "andi", "bitcast", "ceil", "cmpf", "cmpi", "cos", "cosh", "divf", "divi", "exp",
        "exp2", "exti", "floor", "fma", "fpowf", "fpowi", "ftof", "ftoi", "int_to_ptr", "itof", "log", "log2", "maxf",
        "maxi", "minf", "mini", "mulf", "mulhii", "muli", "negf", "negi", "offset", "ori", "ptr_to_int", "ptr_to_ptr",
        "remf", "remi", "rsqrt", "select", "shli", "shri", "sin", "sinh", "sqrt", "subf", "subi", "tan", "tanh",
        "trunci", "xori", "atan2", "assume",
    }
)  # fmt: skip
POINTER_OPS = frozenset({"load_ptr_tko", "store_ptr_tko", "atomic_rmw_tko", "atomic_cas_tko"})
VIEW_OPS = frozenset({"load_view_tko", "store_view_tko"})
MEMORY = POINTER_OPS | VIEW_OPS
REGION_FREE = "reduce", "scan"


def is_big(value: Value) -> bool:
    """Whether a value is a tile above the limit."""
    return isinstance(value.type, TensorType) and num_elements(value.type.shape) > LIMIT_ELEMS  # type: ignore[attr-defined]


def needs_strip_mining(func: Op) -> bool:
    return any(is_big(r) for op in func.walk() for r in op.results)


def strip_mine(func: Op) -> Op:
    """The function with loops over slices; the function itself when no tile is above the limit."""
    if not needs_strip_mining(func):
        return func
    worker = _StripMiner()
    region = worker.region(func.regions[0])
    return Op(func.spec, attrs={**func.attrs, "strip_mined": True}, regions=[region], loc=func.loc)


def slicing(shape: tuple[int, ...]) -> tuple[int, int] | None:
    """(dimension, log2 of slices) for a tile shape: the first dimension that is not 1 when it is long enough, else
    the longest; None when none is."""
    total = num_elements(shape).bit_length() - 1
    s = total - LOG2_SLICE
    if s <= 0:
        return None
    first = next((d for d, extent in enumerate(shape) if extent > 1), 0)
    for d in (first, max(range(len(shape)), key=lambda d: shape[d])):
        if shape[d].bit_length() - 1 >= s:
            return d, s
    return None


def _sliced(shape: tuple[int, ...], dim: int, s: int) -> tuple[int, ...]:
    return tuple(e >> s if d == dim else e for d, e in enumerate(shape))


def _is_leading(shape: tuple[int, ...], dim: int) -> bool:
    return all(e == 1 for e in shape[:dim])


def _splat(elem: Any, shape: tuple[int, ...], bits: int) -> Dense:
    size = constant_bytes(elem)
    data = b"\xff" if elem.name == "i1" and bits else bits.to_bytes(size, "little")
    return Dense(TileType(elem, shape), data)


def _is_splat(op: Op | None) -> bool:
    from tileiras.compiler.ir.dense import dense_bits

    return op is not None and op.spec.name == "constant" and len(set(dense_bits(op.attr("value")))) == 1


class _Group:
    """Ops that run in one loop: the slice index count and direction, ops in order, what they made."""

    def __init__(self, s: int) -> None:
        self.s = s
        self.ops: list[Op] = []
        self.made: set[Value] = set()
        self.reverse: bool | None = None


class _StripMiner:
    """Rebuilds regions. `values`: old value -> new whole value. `slots`: old big value -> local memory handle."""

    def __init__(self) -> None:
        self.values: dict[Value, Value] = {}
        self.slots: dict[Value, tuple[Value, int, int]] = {}  # handle, dimension, log2 of slices
        self.dims: dict[Value, int] = {}  # the dimension a sliced value is cut along
        self.op_dim: dict[Op, int] = {}  # the dimension an op's operands are cut along
        self.group: _Group | None = None
        self.block: Block = Block()

    def region(self, region: Region) -> Region:
        out = Region()
        for block in region.blocks:
            outer, self.block = self.block, Block()
            for arg in block.args:
                self.values[arg] = self.block.add_arg(arg.type, arg.name)
            for op in block.ops:
                self.visit(op)
            self.close()
            out.append(self.block)
            self.block = outer
        return out

    def cut(self, value: Value) -> tuple[int, int]:
        """(dimension, log2 of slices) of a huge value."""
        shape = value.type.shape  # type: ignore[attr-defined]
        found = slicing(shape)
        assert found is not None
        return self.dims.get(value, found[0]), found[1]

    # ---- which ops join a group
    def visit(self, op: Op) -> None:
        if op.spec.name == "constant" and is_big(op.result) and _is_splat(op):
            return  # made again wherever it is used
        s = self.joins(op)
        if s is not None:
            if self.group is not None and (self.group.s != s or not self.compatible(op)):
                self.close()
            if self.group is None:
                self.group = _Group(s)
            if op.spec.name == "scan" and self.along(op):
                self.group.reverse = bool(op.attr("reverse"))
            self.group.ops.append(op)
            self.group.made.update(op.results)
            return
        if self.group is not None and self.must_follow(op):
            if op.spec.name == "join_tokens":
                self.group.ops.append(op)
                self.group.made.update(op.results)
                return
            self.close()
        self.whole(op)

    def must_follow(self, op: Op) -> bool:
        """Whether an op that is not sliced has to come behind the open group."""
        assert self.group is not None
        made = self.group.made
        if op.spec.is_terminator or op.spec.name in MEMORY or op.spec.name.endswith("_tko"):
            return True
        return any(v in made for inner in op.walk() for v in inner.operands)

    def joins(self, op: Op) -> int | None:
        """log2 of the slices an op would run in; None when it has no sliced form here. Notes the dimensions."""
        name = op.spec.name
        tiles = [v for v in (*op.operands, *op.results) if is_big(v)]
        if not tiles or slicing(tiles[0].type.shape) is None:  # type: ignore[attr-defined]
            return None
        operands = [v for v in op.operands if is_big(v)]
        if any(not self.can_slice(v) for v in operands):
            return None
        dims = {self.cut(v)[0] for v in operands if not _is_splat(v.op)}
        if len(dims) > 1:
            return None
        dim, s = self.cut(tiles[0])
        if (
            name == "broadcast"
        ):  # a huge operand that is smaller than the result is cut finer than its own loops do
            dim, s = self.cut(op.result)
        if dims:
            dim = dims.pop()
        if any(v.type.shape[dim].bit_length() - 1 < s for v in op.results if name == "broadcast"):  # type: ignore[attr-defined]
            return None
        out = self.result_dim(op, name, dim)
        if out is None:
            return None
        self.op_dim[op] = dim
        for result in op.results:
            if is_big(result):
                self.dims[result] = out
        return s

    def result_dim(self, op: Op, name: str, dim: int) -> int | None:
        """The dimension that results are cut along when operands are cut along `dim`; None: no sliced form."""
        if name in ELEMENTWISE or name in POINTER_OPS:
            shapes = {v.type.shape for v in (*op.operands, *op.results) if isinstance(v.type, TensorType)}  # type: ignore[attr-defined]
            return dim if len(shapes) == 1 else None
        if name == "iota":
            return dim
        if name in VIEW_OPS:
            view = op.operand("view")
            assert view is not None
            return dim if isinstance(view.type, PartitionView) and view.op is not None else None
        if name == "broadcast":
            return dim if is_big(op.result) and slicing(op.result.type.shape) is not None else None  # type: ignore[attr-defined]
        if name == "permute":
            return list(op.attr("permutation")).index(dim)
        if name == "reshape":
            source, target = op.operands[0].type.shape, op.result.type.shape  # type: ignore[attr-defined]
            cut = slicing(target)
            if cut is None or not _is_leading(source, dim) or not _is_leading(target, cut[0]):
                return None
            return cut[0]
        if name in REGION_FREE:
            if any(inner.regions for inner in op.regions[0].block.ops):
                return None
            return None if name == "reduce" and any(is_big(r) for r in op.results) else dim
        return None

    def along(self, op: Op) -> bool:
        """Whether a reduce or scan runs along the sliced dimension."""
        return self.op_dim.get(op) == op.attr("dim")

    def can_slice(self, value: Value) -> bool:
        return (
            _is_splat(value.op)
            or value in self.slots
            or (self.group is not None and value in self.group.made)
        )

    def compatible(self, op: Op) -> bool:
        """Whether an op may run in the open group: results of reductions are whole only after it, and token
        order must hold slice by slice."""
        assert self.group is not None
        made = self.group.made
        for value in op.operands:
            if value in made and value.op is not None and value.op.spec.name == "reduce":
                return False
        if op.spec.name == "scan" and self.along(op):
            if self.group.reverse is not None and self.group.reverse != bool(op.attr("reverse")):
                return False
        if op.spec.name in MEMORY:
            token = op.operand("token")
            for before in self.accesses(token):
                writes = "load" not in op.spec.name or "load" not in before.spec.name
                if writes and not _same_place(before, op):
                    return False
        return True

    def accesses(self, token: Value | None) -> list[Op]:
        """Memory ops of the open group that a token waits for."""
        assert self.group is not None
        found: list[Op] = []
        todo = [token] if token is not None else []
        while todo:
            value = todo.pop()
            op = value.op
            if op is None or value not in self.group.made:
                continue
            if op.spec.name in MEMORY:
                found.append(op)
            todo += [v for v in op.operands if isinstance(v.type, TokenType)]
        return found

    # ---- whole ops
    def whole(self, op: Op) -> None:
        """Copy an op; huge operands are read back from local memory."""
        operands = [self.use(v) for v in op.operands]
        regions = [self.region(r) for r in op.regions]
        new = self.block.append(
            Op(op.spec, operands, [r.type for r in op.results], op.attrs, regions, op.loc, op.segments)
        )
        for old, result in zip(op.results, new.results):
            self.values[old] = result
            result.name = old.name

    def use(self, value: Value) -> Value:
        """The whole value."""
        found = self.values.get(value)
        if found is not None:
            return found
        if _is_splat(value.op):
            assert value.op is not None
            made = Op(value.op.spec, [], [value.type], value.op.attrs, loc=value.op.loc)
            return self.block.append(made).result
        handle, dim, s = self.slots[value]
        whole = Op(BY_NAME["local_read_all"], [handle], [value.type], {"dim": dim, "log2_slices": s})
        return self.block.append(whole).result

    # ---- closing a group: one loop
    def close(self) -> None:
        group, self.group = self.group, None
        if group is not None:
            _Loop(self, group).build()


def _same_place(a: Op, b: Op) -> bool:
    """Whether two memory ops touch the same addresses element by element."""
    if a.spec.name in VIEW_OPS and b.spec.name in VIEW_OPS:
        return a.operand("view") is b.operand("view") and a.group("index") == b.group("index")
    if a.spec.name in POINTER_OPS and b.spec.name in POINTER_OPS:
        return a.operands[0] is b.operands[0]
    return False


class _Loop:
    """Builds the loop of one group."""

    def __init__(self, miner: _StripMiner, group: _Group) -> None:
        self.miner = miner
        self.group = group
        self.body = Block()
        self.slices: dict[Value, Value] = {}
        self.splats: dict[tuple[Value, int], Value] = {}
        self.carried: list[tuple[Value | None, Value]] = []  # (old value or None, initial new value)
        self.next: list[Value] = []
        self.reads: dict[Value, Value] = {}

    def build(self) -> None:
        outer = self.miner.block
        scalar = TensorType(I32, ())

        def constant(value: int) -> Value:
            op = Op(BY_NAME["constant"], [], [scalar], {"value": _splat(I32, (), value)})
            return outer.append(op).result

        bounds = [constant(0), constant(1 << self.group.s), constant(1)]
        iv = self.body.add_arg(scalar, "slice")
        self.index = iv
        if self.group.reverse:
            last = self.op("constant", [], scalar, value=_splat(I32, (), (1 << self.group.s) - 1))
            self.index = self.op("subi", [last, iv], scalar)
        for op in self.group.ops:
            self.lower(op)
        self.keep_outputs()
        yields = [self.next[i] for i in range(len(self.carried))]
        self.body.append(Op(BY_NAME["continue"], yields, [], {}, segments=(len(yields),)))
        inits = [init for _, init in self.carried]
        loop = Op(
            BY_NAME["for"],
            [*bounds, *inits],
            [v.type for v in inits],
            {},
            [Region([self.body])],
            self.group.ops[0].loc,
            (1, 1, 1, len(inits)),
        )
        outer.append(loop)
        for (old, _), result in zip(self.carried, loop.results):
            if old is not None:
                self.miner.values[old] = result

    # ---- helpers
    def op(self, name: str, operands: list[Value], type: Any, segments: Any = None, **attrs: Any) -> Value:
        return self.body.append(Op(BY_NAME[name], operands, [type], attrs, segments=segments)).result

    def carry(self, old: Value | None, initial: Value, name: str = "") -> Value:
        """A loop-carried value; `self.next` gets its following value."""
        self.carried.append((old, initial))
        return self.body.add_arg(initial.type, name)

    def slice(self, value: Value, dim: int) -> Value:
        """The current slice of a huge value; a splat is cut along `dim`."""
        found = self.slices.get(value) or self.splats.get((value, dim))
        if found is not None:
            return found
        type: Any = value.type
        if _is_splat(value.op):
            assert value.op is not None
            from tileiras.compiler.ir.dense import dense_bits

            small = TensorType(type.elem, _sliced(type.shape, dim, self.group.s))
            bits = dense_bits(value.op.attr("value"))[0]
            made = self.op("constant", [], small, value=_splat(type.elem, small.shape, bits))
            self.splats[value, dim] = made
            return made
        handle, dim, s = self.miner.slots[value]
        finer = self.group.s - s
        index = (
            self.op("shri", [self.index, self.number(finer)], self.index.type, signedness="unsigned")
            if finer
            else self.index
        )
        made = self.op("local_read", [handle, index], TensorType(type.elem, _sliced(type.shape, dim, s)))
        if finer:
            part = self.op("andi", [self.index, self.number((1 << finer) - 1)], self.index.type)
            made = self.block_of(made, dim, finer, part)
        self.slices[value] = made
        return made

    def outer_slice(self, value: Value, dim: int, s: int) -> Value:
        """A slice of a value that is not huge but as long in `dim`: cut out of the whole tile."""
        if is_big(value):
            return self.slice(value, dim)
        return self.block_of(self.miner.use(value), dim, s, self.index)

    def number(self, value: int) -> Value:
        return self.op("constant", [], TensorType(I32, ()), value=_splat(I32, (), value))

    def block_of(self, whole: Value, dim: int, s: int, index: Value) -> Value:
        """Block `index` of a tile in 2^s blocks along `dim`."""
        type: Any = whole.type
        zero = self.number(0)
        indices = [index if d == dim else zero for d in range(len(type.shape))]
        small = TensorType(type.elem, _sliced(type.shape, dim, s))
        return self.op("extract", [whole, *indices], small, segments=(1, len(indices)))

    def operand(self, op: Op, value: Value) -> Value:
        """An operand inside the loop: slice, token of this iteration, or a whole outer value."""
        if is_big(value):
            return self.slice(value, self.miner.op_dim.get(op, 0))
        if value in self.slices:
            return self.slices[value]
        return self.miner.use(value)

    # ---- ops
    def lower(self, op: Op) -> None:
        name = op.spec.name
        special: dict[str, Callable[[Op], None]] = {
            "iota": self.iota, "broadcast": self.broadcast, "reduce": self.reduce, "scan": self.scan,
            "load_view_tko": self.view, "store_view_tko": self.view, "assume": self.skip,
        }  # fmt: skip
        handler = special.get(name)
        if handler is not None:
            return handler(op)
        self.plain(op)

    def skip(self, op: Op) -> None:
        self.slices[op.result] = self.operand(op, op.operands[0])

    def plain(self, op: Op) -> None:
        """The same op on slices (elementwise, pointer accesses, reshape, tokens)."""
        new = self.body.append(
            Op(op.spec, [self.operand(op, v) for v in op.operands], [self.sliced_type(op, r) for r in op.results],
               op.attrs, [], op.loc, op.segments)
        )  # fmt: skip
        self.results(op, new)

    def sliced_type(self, op: Op, value: Value) -> Any:
        """The type of a result inside the loop."""
        type: Any = value.type
        return TensorType(type.elem, _sliced(type.shape, *self.miner.cut(value))) if is_big(value) else type

    def results(self, op: Op, new: Op) -> None:
        for old, result in zip(op.results, new.results):
            self.slices[old] = result

    def iota(self, op: Op) -> None:
        type: Any = self.sliced_type(op, op.result)
        elem = type.elem
        base = self.op("iota", [], type)
        start = self.index
        if elem is not I32:
            kind = "exti" if elem.bits > 32 else "trunci"
            attrs = {"signedness": "unsigned"} if kind == "exti" else {}
            start = self.op(kind, [start], TensorType(elem, ()), **attrs)
        length = self.op(
            "constant",
            [],
            TensorType(elem, ()),
            value=_splat(elem, (), type.shape[0] & ((1 << elem.bits) - 1)),
        )
        start = self.op("muli", [start, length], TensorType(elem, ()))
        start = self.op("reshape", [start], TensorType(elem, (1,)))
        start = self.op("broadcast", [start], type)
        self.slices[op.result] = self.op("addi", [base, start], type)

    def broadcast(self, op: Op) -> None:
        dim, s = self.miner.cut(op.result)
        source = op.operands[0]
        if source.type.shape[dim] == 1:  # type: ignore[attr-defined]
            value = self.operand(op, source)
        else:
            value = self.outer_slice(source, dim, s) if source not in self.slices else self.slices[source]
        self.slices[op.result] = self.op("broadcast", [value], self.sliced_type(op, op.result))

    def view(self, op: Op) -> None:
        """A load or store of a partition view: a view of smaller tiles, the index scaled."""
        view = op.operand("view")
        assert view is not None and view.op is not None
        type: Any = view.type
        dim, s = self.miner.op_dim[op], self.group.s
        small = PartitionView(_sliced(type.tile, dim, s), type.view, type.dim_map, type.padding)
        base = self.miner.use(view.op.operands[0])
        made = self.body.append(Op(BY_NAME["make_partition_view"], [base], [small], {}, loc=op.loc)).result
        wide = TensorType(I64, ())
        indices = []
        for d, index in enumerate(op.group("index")):
            value = self.miner.use(index)
            if index.type.elem is not I64:  # type: ignore[attr-defined]
                value = self.op("exti", [value], wide, signedness="unsigned")
            if d == dim:
                count = self.op("constant", [], wide, value=_splat(I64, (), 1 << s))
                step = self.op("exti", [self.index], wide, signedness="unsigned")
                value = self.op("addi", [self.op("muli", [value, count], wide), step], wide)
            indices.append(value)
        token = op.operand("token")
        tokens = [self.operand(op, token)] if token is not None else []
        first = [self.operand(op, op.operand("tile"))] if op.spec.name == "store_view_tko" else []  # type: ignore[arg-type]
        segments = (*[1] * len(first), 1, len(indices), len(tokens))
        new = self.body.append(
            Op(op.spec, [*first, made, *indices, *tokens], [self.sliced_type(op, r) for r in op.results], op.attrs, [],
               op.loc, segments)
        )  # fmt: skip
        self.results(op, new)

    # ---- reductions and scans
    def inline(self, op: Op, earlier: list[Value], later: list[Value], shape: tuple[int, ...]) -> list[Value]:
        """The body of a reduce or scan on whole tiles instead of scalars."""
        body = op.regions[0].block
        env: dict[Value, Value] = {}
        for i, (x, y) in enumerate(zip(earlier, later)):
            env[body.args[2 * i]], env[body.args[2 * i + 1]] = x, y
        for inner in body.ops[:-1]:
            types = [TensorType(r.type.elem, shape) for r in inner.results]  # type: ignore[attr-defined]
            attrs = inner.attrs
            if inner.spec.name == "constant":
                from tileiras.compiler.ir.dense import dense_bits

                bits = dense_bits(inner.attr("value"))[0]
                attrs = {"value": _splat(inner.result.type.elem, shape, bits)}  # type: ignore[attr-defined]
            operands = []
            for v in inner.operands:
                if v in env:
                    operands.append(env[v])
                else:  # an outer scalar
                    spread = self.miner.use(v)
                    elem = v.type.elem  # type: ignore[attr-defined]
                    if shape:
                        spread = self.op("reshape", [spread], TensorType(elem, (1,) * len(shape)))
                        spread = self.op("broadcast", [spread], TensorType(elem, shape))
                    operands.append(spread)
            new = self.body.append(Op(inner.spec, operands, types, attrs, [], inner.loc, inner.segments))
            for old, result in zip(inner.results, new.results):
                env[old] = result
        return [env[v] for v in body.ops[-1].operands]

    def clone(self, op: Op, operands: list[Value], types: list[Any]) -> list[Value]:
        """The op with its body on other operands."""
        region = _copy_region(op.regions[0], self.miner)
        new = self.body.append(Op(op.spec, operands, types, op.attrs, [region], op.loc, op.segments))
        return list(new.results)

    def identity(self, op: Op, i: int, shape: tuple[int, ...]) -> Value:
        attr = op.attr("identities")[i]
        bits = getattr(attr, "bits", None)
        elem = op.operands[i].type.elem  # type: ignore[attr-defined]
        if bits is None:
            bits = int(getattr(attr, "value", attr)) & ((1 << elem.bits) - 1)
        value = Op(BY_NAME["constant"], [], [TensorType(elem, shape)], {"value": _splat(elem, shape, bits)})
        return self.miner.block.append(value).result

    def partial(self, op: Op, operands: list[Value]) -> list[Value]:
        """The reduction of the current slices."""
        shape = operands[0].type.shape  # type: ignore[attr-defined]
        dim = op.attr("dim")
        kept = shape[:dim] + shape[dim + 1 :]
        types = [TensorType(v.type.elem, kept) for v in operands]  # type: ignore[attr-defined]
        if op.spec.name == "reduce":
            return self.clone(op, operands, types)
        reduce = Op(
            BY_NAME["reduce"], operands, types, {"dim": dim, "identities": op.attr("identities")},
            [_copy_region(op.regions[0], self.miner)], op.loc, (len(operands),),
        )  # fmt: skip
        return list(self.body.append(reduce).results)

    def reduce(self, op: Op) -> None:
        operands = [self.operand(op, v) for v in op.operands]
        dim = self.miner.op_dim[op]
        parts = self.partial(op, operands)
        if self.miner.along(op):
            shape = parts[0].type.shape  # type: ignore[attr-defined]
            state = [self.carry(r, self.identity(op, i, shape)) for i, r in enumerate(op.results)]
            if self.group.reverse:
                self.next += self.inline(op, parts, state, shape)
            else:
                self.next += self.inline(op, state, parts, shape)
            return
        # along another dimension: every slice gives a block of the result
        place = dim - (1 if dim > op.attr("dim") else 0)
        zero = self.op("constant", [], TensorType(I32, ()), value=_splat(I32, (), 0))
        for i, (result, part) in enumerate(zip(op.results, parts)):
            whole: Any = result.type
            state_value = self.carry(result, self.identity(op, i, whole.shape))
            indices = [self.index if d == place else zero for d in range(len(whole.shape))]
            self.next.append(
                self.op("insert", [part, state_value, *indices], whole, segments=(1, 1, len(indices)))
            )

    def scan(self, op: Op) -> None:
        operands = [self.operand(op, v) for v in op.operands]
        types = [v.type for v in operands]
        local = self.clone(op, operands, types)
        if not self.miner.along(op):
            for old, value in zip(op.results, local):
                self.slices[old] = value
            return
        totals = self.partial(op, operands)
        shape: Any = operands[0].type.shape  # type: ignore[attr-defined]
        dim = op.attr("dim")
        kept = shape[:dim] + shape[dim + 1 :]
        one = shape[:dim] + (1,) + shape[dim + 1 :]
        prefixes = []
        state = []
        for i, v in enumerate(operands):
            elem = v.type.elem  # type: ignore[attr-defined]
            holder = self.carry(None, self.identity(op, i, kept))
            state.append(holder)
            spread = self.op("reshape", [holder], TensorType(elem, one))
            prefixes.append(self.op("broadcast", [spread], TensorType(elem, shape)))
        # reverse scans take slices from the end, so what was seen comes earlier in scan order either way
        values = self.inline(op, prefixes, local, shape)
        self.next += self.inline(op, state, totals, kept)
        for old, value in zip(op.results, values):
            self.slices[old] = value

    # ---- what later ops need
    def keep_outputs(self) -> None:
        """Values used outside: huge ones to local memory, tokens through the loop."""
        inside = set(self.group.ops)
        for op in self.group.ops:
            for value in op.results:
                if value not in self.slices:
                    continue
                if not any(_outside(user, inside) for user, _ in value.uses):
                    continue
                if isinstance(value.type, TokenType):
                    start = self.miner.block.append(Op(BY_NAME["make_token"], [], [TOKEN])).result
                    self.carry(value, start)
                    self.next.append(self.slices[value])
                    continue
                self.store(value)

    def store(self, value: Value) -> None:
        dim, s = self.miner.cut(value)
        handle = Op(BY_NAME["local_alloc"], [], [TOKEN], {"type": value.type, "log2_slices": s})
        self.miner.block.append(handle)
        self.body.append(Op(BY_NAME["local_write"], [handle.result, self.index, self.slices[value]], [], {}))
        self.miner.slots[value] = (handle.result, dim, s)


def _outside(user: Op, inside: set[Op]) -> bool:
    op: Op | None = user
    while op is not None:
        if op in inside:
            return False
        op = op.parent
    return True


def _copy_region(region: Region, miner: _StripMiner) -> Region:
    """A body copied op by op (bodies hold scalars only)."""
    out = Region()
    env: dict[Value, Value] = {}
    for block in region.blocks:
        new = Block()
        for arg in block.args:
            env[arg] = new.add_arg(arg.type, arg.name)
        for op in block.ops:
            copy = Op(op.spec, [env.get(v) or miner.use(v) for v in op.operands], [r.type for r in op.results], op.attrs, [],
                      op.loc, op.segments)  # fmt: skip
            for old, result in zip(op.results, copy.results):
                env[old] = result
            new.append(copy)
        out.append(new)
    return out
