"""From an nv_tileaa function to LLVM: one walk in program order over its ops and regions.

Ops without effects become expressions (tiles.py); stores, reductions, products and the ends of regions ask for them.
Tokens need nothing: program order satisfies them all.
"""

from __future__ import annotations

from tileiras.compiler.ir.dense import dense_bits, num_elements
from tileiras.compiler.ir.types import TensorType, TokenType

from . import convert, floats, integers  # noqa: F401 - elementwise ops register
from .arena import Arena
from .code import BITS, MEMORY, REGISTER, TERMINATORS, Code, Module, bytes_of, const, name_of
from .loops import Loops, node_loads
from .registry import ELEMENTWISE
from .runtime import DIVISION, PLAIN
from .space import ONE, ZERO, Map, bits_of, broadcast_map, dim_ranges, identity, log2, permute_map
from .tiles import Elementwise, Iota, Node, Remapped, Stored, Uniform, store_mapped
from .views import View, ViewLoad

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from tileiras.compiler.ir.core import Block, Op, Value

FIXED = 8  # words of a launch's record before the arguments (see runtime.py)
OPS: dict[str, Callable[[Any, Any], None]] = {}


def lowers(*names: str) -> Callable[[Any], Any]:
    """Registers f(lower, op) for ops of these names."""

    def register(function: Any) -> Any:
        for name in names:
            OPS[name] = function
        return function

    return register


class Unsupported(Exception):
    """An op that the CPU target does not take: (op, why)."""


class Lower(Loops):
    """The lowering of one function."""

    def __init__(
        self,
        module: Module,
        func: Op,
        features: frozenset[str],
        vector_bytes: int,
        globals: dict[str, int],
        check: bool = False,
    ) -> None:
        self.func, self.vector_bytes, self.globals, self.check = func, vector_bytes, globals, check
        self.c = Code(module, features)
        self.arena = Arena(self.c)
        self.values: dict[Value, Any] = {}
        self.done: set[Op] = set()
        self.place: Any = None
        self.scopes: list[list[Node]] = [[]]
        self.loads: list[Node] = []  # loads that were not needed so far
        self.targets: list[Target] = []
        self.sites: list[Op] = []  # ops that can fault, by number
        self.prints: list[Op] = []
        self.will_wait = may_wait(func)
        self.waits = False
        self.scratch: list[tuple[int, int]] = []
        self.counters: dict[Value, int] = {}  # of loops whose step is known: what a round adds
        self.prefetches = False  # whether loads ask for what the next round of their loop will load

    def run(self, name: str) -> str:
        """The text of `define void @name(ptr %launch, ptr %arena, ptr %state, i32 %x, i32 %y, i32 %z)`."""
        block = self.func.regions[0].block
        for i, arg in enumerate(block.args):
            elem = name_of(arg.type.elem)
            at = self.c.at_entry(f"getelementptr i64, ptr %launch, i64 {FIXED + i}")
            value = self.c.at_entry(f"load {MEMORY[elem]}, ptr {at}, align 8")
            if elem == "i1":
                value = self.c.at_entry(f"trunc i8 {value} to i1")
            self.values[arg] = Uniform(elem, arg.type.shape, value)
        self.block(block)
        c = self.c
        if not c.lines or not c.lines[-1].startswith(TERMINATORS):
            c.jump("exit")
        c.begin("exit")
        c.do("ret void")
        header = f"define void @{name}(ptr %launch, ptr %arena, ptr %state, i32 %x, i32 %y, i32 %z)"
        return self.arena.place(c.text(header))

    # ---- values

    def node(self, value: Value) -> Node:
        return self.values[value]  # type: ignore[no-any-return]

    def scalar(self, value: Value) -> str:
        """The one element of a rank-0 tile."""
        node = self.values[value]
        if isinstance(node, Uniform):
            return node.value
        assert node.bits == 0
        return self.element(node)

    def element(self, node: Node) -> str:
        """The element of a tile that has one."""
        if self.survey([(node, ())]).loads:
            self.force(node)
        out: list[str] = []
        self.each(0, [(node, ())], lambda chunk: out.append(node.get(self, chunk, ())))
        return out[0]

    def set(self, value: Value, node: Node) -> None:
        """Binds the result of an op; one element is computed at once, what is used often is kept."""
        if node.bits == 0 and not isinstance(node, Uniform):
            node = Uniform(node.name, node.shape, self.element(node))
        self.values[value] = node
        node.home = self.place
        users = {op for op, _ in value.uses}
        owner: Any = value.owner
        block = owner.block if value.op is not None else owner
        inner = any(op.block is not block for op in users)
        if (len(users) > 1 or inner) and not self.is_light(node):
            node.keep = True
            if isinstance(node, Remapped):
                self.force(node.source)
            elif inner and not getattr(node, "reads", False):
                self.force(node)

    def finished(self, value: Value) -> bool:
        """Whether nothing will ask for the value any more."""
        for op, _ in value.uses:
            if op in self.done:
                continue
            if not op.results or op.regions or any(r not in self.values for r in op.results):
                return False
            for result in op.results:
                if is_pending(self.values[result]) and not self.finished(result):
                    return False
        return True

    def settle(self) -> None:
        """Before memory changes: loads that will be asked for later are done now."""
        for load in self.loads:
            if load.buffer is None and not self.finished(load.op.results[0]):
                self.force(load)
        self.loads = [x for x in self.loads if x.buffer is None and not self.finished(x.op.results[0])]

    # ---- regions

    def block(self, block: Block) -> None:
        outside, self.place = self.place, block
        self.scopes.append([])
        for op in block.ops:
            self.op(op)
        for node in self.scopes.pop():
            node.buffer = None
        self.place = outside

    def op(self, op: Op) -> None:
        self.arena.now += 1
        self.arena.op = op
        name = op.spec.name
        function = OPS.get(name)
        if function is not None:
            function(self, op)
            if op.results and is_pending(self.values.get(op.results[0])):
                return
        elif name in ELEMENTWISE:
            self.elementwise(op)
            return
        else:
            raise Unsupported(op, "is not an op of the CPU target")
        self.done.add(op)

    def elementwise(self, op: Op) -> None:
        result = op.results[0]
        name, shape = name_of(result.type.elem), result.type.shape  # type: ignore[attr-defined]
        operands = [self.node(v) for v in op.operands]
        if self.check and op.spec.name in ("divi", "remi"):
            self.check_divisor(op, operands[1])
        if all(isinstance(o, Uniform) for o in operands):
            value = ELEMENTWISE[op.spec.name](self.c, 1, op, *(o.value for o in operands))  # type: ignore[attr-defined]
            self.values[result] = Uniform(name, shape, value)
            return
        self.set(result, Elementwise(op, name, shape, operands))

    def before_region(self, op: Op) -> None:
        """What a region uses from outside lies in memory before it starts, unless it is light."""
        inside = [o for o in op.walk() if o is not op]
        seen: set[Value] = set()
        for o in inside:
            for value in o.operands:
                if value in seen:
                    continue
                seen.add(value)
                node = self.values.get(value)
                if isinstance(node, Node) and (not self.is_light(node) or node_loads(node)):
                    self.force(node)
        if any(writes(o) for o in inside):
            self.settle()

    def slot(self, type: Any) -> Slot | None:
        """A place for a value that several paths set; None for tokens."""
        if isinstance(type, TokenType):
            return None
        if not isinstance(type, TensorType):
            raise Unsupported(self.func, f"values of type {type} are not carried through regions")
        return Slot(self, name_of(type.elem), type.shape)  # type: ignore[attr-defined]

    def slots(self, values: Iterable[Value]) -> list[Slot | None]:
        return [self.slot(v.type) for v in values]

    def assign(self, slots: Sequence[Slot | None], values: Sequence[Value]) -> None:
        """Parallel assignment: no tile is overwritten while another still needs it."""
        todo = []
        scalars = []
        for slot, value in zip(slots, values):
            if slot is None:
                continue
            node = self.node(value)
            if slot.bits == 0:
                scalars.append((slot, self.element_of(node)))
            elif not slot.holds(node):
                todo.append((slot, node))
        for slot, text in scalars:
            slot.set_scalar(self, text)
        while todo:
            for i, (slot, node) in enumerate(todo):
                others = [n for j, (_, n) in enumerate(todo) if j != i]
                if any(reads_buffer(n, slot.buffer, None) for n in others):
                    continue
                if reads_buffer(node, slot.buffer, identity(slot.bits)):
                    continue
                self.write(node, slot.stored)
                del todo[i]
                break
            else:
                slot, node = todo.pop(0)
                copy = Stored(node.name, node.shape, self.arena.new(bytes_of(node.name) << node.bits))
                self.write(node, copy)
                todo.append((slot, copy))

    def element_of(self, node: Node) -> str:
        return node.value if isinstance(node, Uniform) else self.element(node)

    def bind(self, values: Sequence[Value], slots: Sequence[Slot | None]) -> None:
        for value, slot in zip(values, slots):
            self.values[value] = None if slot is None else slot.read(self)

    def end(self, label: str) -> None:
        """A jump that ends a block of ops; what follows in the text is unreachable."""
        self.c.jump(label)
        self.c.begin(self.c.new_label("dead"))

    def fault(
        self, op: Op, condition: str | None, element: str = "0", value: str = "0", kind: int = PLAIN
    ) -> None:
        """Notes a fault of an op where the condition holds (None: always)."""
        c, number = self.c, self.site(op) + (kind << 32)
        done = None
        if condition is not None:
            bad, done = c.new_label("bad"), c.new_label("fine")
            c.branch(condition, bad, done)
            c.begin(bad)
        c.do(
            f"call void @tile.fault(ptr %launch, i64 {number}, i32 %x, i32 %y, i32 %z, i64 {element}, i64 {value})"
        )
        if done is not None:
            c.jump(done)
            c.begin(done)

    def check_divisor(self, op: Op, divisor: Node) -> None:
        """With check: notes every element that divides by zero."""
        map, c = identity(divisor.bits), self.c

        def body(chunk: Any) -> None:
            value = divisor.get(self, chunk, map)
            bad = c.cmp("eq", REGISTER[divisor.name], 1, value, "false" if divisor.name == "i1" else "0")
            self.fault(op, bad, chunk.offset(map), kind=DIVISION)

        if isinstance(divisor, Uniform):
            bad = c.cmp(
                "eq", REGISTER[divisor.name], 1, divisor.value, "false" if divisor.name == "i1" else "0"
            )
            self.fault(op, bad, kind=DIVISION)
        else:
            self.walk(divisor.bits, 0, set(), body, False)

    def check_access(
        self, op: Op, bits: int, size: int, write: bool, place: Callable[[Any], tuple[str, str | None]]
    ) -> None:
        """With check: ends the tile block before an access that leaves the memory which was passed."""
        if not self.check:
            return
        c, number = self.c, self.site(op)

        def body(chunk: Any) -> None:
            address, mask = place(chunk)
            bad = c.alloca("i1", 1)
            c.do(f"store i1 false, ptr {bad}, align 1")
            element = chunk.offset(identity(bits))

            def look() -> None:
                found = c.op(
                    f"call i1 @tile.check(ptr %launch, i64 {number}, i32 %x, i32 %y, i32 %z, i64 {element}, "
                    f"i64 {address}, i64 {size}, i1 {'true' if write else 'false'})"
                )
                c.do(f"store i1 {found}, ptr {bad}, align 1")

            if mask is None:
                look()
            else:
                with c.when(mask):
                    look()
            go = c.new_label("go")
            c.branch(c.op(f"load i1, ptr {bad}, align 1"), "exit", go)
            c.begin(go)

        self.walk(bits, 0, set(), body, False)

    def stop_here(self) -> None:
        """Ends the tile block when the launch is given up: Ctrl-C, a failure elsewhere."""
        c = self.c
        at = c.at_entry("getelementptr i64, ptr %launch, i64 5")
        stop = c.op(f"load atomic volatile i64, ptr {at} monotonic, align 8")
        go = c.new_label("go")
        c.branch(c.op(f"icmp ne i64 {stop}, 0"), "exit", go)
        c.begin(go)

    def site(self, op: Op) -> int:
        if op not in self.sites:
            self.sites.append(op)
        return self.sites.index(op)

    def advance(self, value: Value) -> int:
        """What a round of the loops around adds to an index, as far as that is plain to see."""
        if value in self.counters:
            return self.counters[value]
        op = value.op
        if op is None or op.spec.name not in ("addi", "subi", "muli", "assume"):
            return 0
        steps = [self.advance(v) for v in op.operands]
        if op.spec.name == "muli":
            factors = [getattr(self.values[v], "value", "") for v in op.operands]
            return sum(step * int(f) for step, f in zip(steps, reversed(factors)) if f.isdigit())
        return steps[0] - steps[1] if op.spec.name == "subi" else sum(steps)

    def word(self, number: int) -> str:
        """A word of the launch's record."""
        at = self.c.at_entry(f"getelementptr i64, ptr %launch, i64 {number}")
        return self.c.at_entry(f"load i64, ptr {at}, align 8")


class Slot:
    """Where a value that crosses regions waits: a local for one element, else a buffer."""

    __slots__ = ("bits", "buffer", "name", "pointer", "shape", "stored")

    def __init__(self, lower: Lower, name: str, shape: Sequence[int]) -> None:
        self.name, self.shape, self.bits = name, tuple(shape), bits_of(shape)
        self.buffer, self.pointer = None, ""
        if self.bits == 0:
            self.pointer = lower.c.alloca(REGISTER[name], 8)
        else:
            self.buffer = lower.arena.new(bytes_of(name) << self.bits)
            self.stored = Stored(name, shape, self.buffer)

    def holds(self, node: Node) -> bool:
        if isinstance(node, Remapped) and node.inner == identity(node.bits):
            return self.holds(node.source)
        return node.buffer is not None and node.buffer is self.buffer

    def set_scalar(self, lower: Lower, text: str) -> None:
        lower.c.do(f"store {REGISTER[self.name]} {text}, ptr {self.pointer}, align 8")

    def read(self, lower: Lower) -> Node:
        if self.bits == 0:
            value = lower.c.op(f"load {REGISTER[self.name]}, ptr {self.pointer}, align 8")
            return Uniform(self.name, self.shape, value)
        lower.arena.touch(self.buffer)
        return Stored(self.name, self.shape, self.buffer)


class Target:
    """Where the terminators of a region go: what they assign, and the label."""

    __slots__ = ("break_", "continue_", "kind", "yield_")

    def __init__(self, kind: str, continue_: Any = None, break_: Any = None, yield_: Any = None) -> None:
        self.kind, self.continue_, self.break_, self.yield_ = kind, continue_, break_, yield_


def may_wait(func: Op) -> bool:
    """Whether some loop reads what another tile block may change: an atomic, a load that is more than weak, or any
    load in a `loop`; its result is used.
    """

    def visit(op: Op, loops: tuple[str, ...]) -> bool:
        name = op.spec.name
        if (
            loops
            and name.startswith(("load_", "atomic_"))
            and op.results[0].uses
            and not name.startswith("atomic_red")
        ):
            if "loop" in loops or op.attr("memory_ordering_semantics") != "weak":
                return True
        inner = (*loops, name) if name in ("for", "loop") else loops
        return any(visit(o, inner) for region in op.regions for block in region.blocks for o in block.ops)

    return visit(func, ())


def is_pending(value: Any) -> bool:
    """Whether a result is an expression that is still to be computed."""
    return isinstance(value, Node) and value.buffer is None and not isinstance(value, (Uniform, Stored))


def writes(op: Op) -> bool:
    """Whether an op changes memory."""
    name = op.spec.name
    return name.startswith(("store_", "atomic_"))


def reads_buffer(node: Node, buffer: Any, allowed: Map | None, map: Map | None = None) -> bool:
    """Whether a value is computed from a buffer, other than element by element in `allowed` places."""
    if buffer is None:
        return False
    if map is None:
        map = identity(node.bits)
    if node.buffer is not None:
        return node.buffer is buffer and (allowed is None or map != allowed)
    if isinstance(node, Remapped):
        from .space import compose

        return reads_buffer(node.source, buffer, allowed, compose(node.inner, map))
    extra = getattr(getattr(node, "window", None), "rows", None)
    if extra is not None and reads_buffer(extra, buffer, None):
        return True
    aligned = len(map) == node.bits and not isinstance(
        node, Part
    )  # its elements come from equally placed ones
    return any(
        reads_buffer(s, buffer, allowed, map)
        if aligned and s.bits == node.bits
        else reads_buffer(s, buffer, None)
        for s in node.sources()
    )


# ---- control flow


@lowers("if")
def lower_if(lower: Lower, op: Op) -> None:
    c = lower.c
    condition = lower.scalar(op.operands[0])
    lower.before_region(op)
    slots = lower.slots(op.results)
    then, other, done = c.new_label("if"), c.new_label("else"), c.new_label("endif")
    has_else = len(op.regions) > 1 and bool(op.regions[1].blocks)
    c.branch(condition, then, other if has_else else done)
    lower.targets.append(Target("if", yield_=(slots, done)))
    for label, region in zip((then, other), op.regions):
        if not region.blocks:
            continue
        c.begin(label)
        start = list(lower.loads)
        lower.block(region.block)
        lower.loads = start
        lower.end(done) if region.block.terminator is None else None
    lower.targets.pop()
    c.jump(done)
    c.begin(done)
    lower.bind(op.results, slots)


@lowers("yield")
def lower_yield(lower: Lower, op: Op) -> None:
    slots, label = lower.targets[-1].yield_
    lower.assign(slots, op.operands)
    lower.end(label)


@lowers("for")
def lower_for(lower: Lower, op: Op) -> None:
    c = lower.c
    block = op.regions[0].block
    name = name_of(block.args[0].type.elem)  # type: ignore[attr-defined]
    type, unsigned = REGISTER[name], bool(op.attr("unsignedCmp"))
    low, high, by = (lower.scalar(v) for v in op.operands[:3])
    lower.before_region(op)
    slots = lower.slots(block.args[1:])
    if not (by.isdigit() and int(by) > 0):
        bad = c.op(f"icmp sle {type} {by}, 0") if not unsigned else c.op(f"icmp eq {type} {by}, 0")
        ok = c.new_label("step")
        stop = c.new_label("nostep")
        c.branch(bad, stop, ok)
        c.begin(stop)
        lower.fault(op, None, "0", "0")
        c.jump("exit")
        c.begin(ok)
    lower.assign(slots, op.operands[3:])
    counter = c.alloca(type, 8)
    c.do(f"store {type} {low}, ptr {counter}, align 8")
    head, body, latch, done = (c.new_label(x) for x in ("for", "body", "next", "endfor"))
    lower.arena.now += 1
    start = lower.arena.now
    c.jump(head)
    c.begin(head)
    iv = c.op(f"load {type}, ptr {counter}, align 8")
    c.branch(c.op(f"icmp {'ult' if unsigned else 'slt'} {type} {iv}, {high}"), body, done)
    c.begin(body)
    lower.values[block.args[0]] = Uniform(name, (), iv)
    if by.isdigit():
        lower.counters[block.args[0]] = int(by)
    lower.bind(block.args[1:], slots)
    lower.targets.append(Target("for", continue_=(slots, latch), break_=(slots, done)))
    before = list(lower.loads)
    lower.block(block)
    lower.loads = before
    lower.targets.pop()
    c.jump(latch)
    c.begin(latch)
    lower.stop_here()
    following = c.op(f"add {type} {iv}, {by}")
    c.do(f"store {type} {following}, ptr {counter}, align 8")
    wrapped = c.op(f"icmp {'ult' if unsigned else 'slt'} {type} {following}, {iv}")
    c.branch(wrapped, done, head)
    c.begin(done)
    lower.arena.now += 1
    lower.arena.loops.append((start, lower.arena.now))
    lower.bind(op.results, slots)


@lowers("loop")
def lower_loop(lower: Lower, op: Op) -> None:
    c = lower.c
    block = op.regions[0].block
    lower.before_region(op)
    slots, results = lower.slots(block.args), lower.slots(op.results)
    lower.assign(slots, op.operands)
    head, done = c.new_label("loop"), c.new_label("endloop")
    lower.arena.now += 1
    start = lower.arena.now
    c.jump(head)
    c.begin(head)
    lower.stop_here()
    lower.bind(block.args, slots)
    lower.targets.append(Target("loop", continue_=(slots, head), break_=(results, done)))
    before = list(lower.loads)
    lower.block(block)
    lower.loads = before
    lower.targets.pop()
    c.jump(head)
    c.begin(done)
    lower.arena.now += 1
    lower.arena.loops.append((start, lower.arena.now))
    lower.bind(op.results, results)


def innermost(lower: Lower) -> Target:
    return next(t for t in reversed(lower.targets) if t.kind != "if")


@lowers("continue")
def lower_continue(lower: Lower, op: Op) -> None:
    slots, label = innermost(lower).continue_
    lower.assign(slots, op.operands)
    lower.end(label)


@lowers("break")
def lower_break(lower: Lower, op: Op) -> None:
    slots, label = innermost(lower).break_
    lower.assign(slots, op.operands)
    lower.end(label)


@lowers("return")
def lower_return(lower: Lower, op: Op) -> None:
    lower.end("exit")


# ---- constants, shapes, places


@lowers("constant")
def lower_constant(lower: Lower, op: Op) -> None:
    dense: Any = op.attr("value")
    shape, name = op.result.type.shape, name_of(dense.type.elem)  # type: ignore[attr-defined]
    lower.values[op.result] = constant_node(lower, dense, name, shape)


def constant_node(lower: Lower, dense: Any, name: str, shape: Sequence[int]) -> Node:
    bits = dense_bits(dense)
    count = num_elements(tuple(shape))
    if len(bits) == 1 or len(set(bits)) == 1:
        return Uniform(name, shape, scalar_constant(name, bits[0]))
    size = bytes_of(name)
    if name == "tf32":
        bits = [b << 13 for b in bits]
    data = b"".join(b.to_bytes(size, "little") for b in bits[:count])
    return Stored(name, shape, None, lower.c.module.constant(data))


def scalar_constant(name: str, bits: int) -> str:
    """The LLVM literal of a bit pattern."""
    import struct

    type = REGISTER[name]
    if type == "i1":
        return "true" if bits & 1 else "false"
    if type == "float":
        word = bits << 13 if name == "tf32" else bits
        value = struct.unpack("<f", word.to_bytes(4, "little"))[0]
        if value != value:
            return f"bitcast (i32 {word} to float)"
        return const("float", 1, value)
    if type == "double":
        return f"0x{bits:016X}"
    return str(bits - (1 << BITS[type]) if bits >> (BITS[type] - 1) else bits)


@lowers("iota")
def lower_iota(lower: Lower, op: Op) -> None:
    type: Any = op.result.type
    lower.set(op.result, Iota(name_of(type.elem), type.shape))


@lowers("reshape", "broadcast", "permute")
def lower_places(lower: Lower, op: Op) -> None:
    source, shape = lower.node(op.operands[0]), op.result.type.shape  # type: ignore[attr-defined]
    if isinstance(source, Uniform):
        lower.values[op.result] = Uniform(source.name, shape, source.value)
        return
    if op.spec.name == "reshape":
        inner: Map = identity(source.bits)
    elif op.spec.name == "broadcast":
        inner = broadcast_map(source.shape, shape)
        if not lower.is_light(source) and source.bits != bits_of(shape):
            lower.force(source)
    else:
        inner = permute_map(source.shape, op.attr("permutation"))
        if not lower.is_light(source) and not reads_rows(op.operands[0], source):
            lower.force(source)
    if source.bits == 0:
        lower.values[op.result] = Uniform(source.name, shape, lower.element_of(source))
        return
    lower.set(op.result, Remapped(source, shape, inner))


def reads_rows(value: Value, node: Node) -> bool:
    """Whether a tile is nothing but rows that are still to be loaded, for one user: loops transpose them in registers."""
    while isinstance(node, Remapped) and node.inner == identity(node.source.bits):
        node = node.source
    while value.op is not None and value.op.spec.name == "reshape" and len(value.uses) == 1:
        value = value.op.operands[0]
    return isinstance(node, ViewLoad) and node.window.rows_are_dense and len(value.uses) == 1


@lowers("extract")
def lower_extract(lower: Lower, op: Op) -> None:
    source, shape = lower.node(op.operands[0]), op.result.type.shape  # type: ignore[attr-defined]
    if isinstance(source, Uniform):
        lower.values[op.result] = Uniform(source.name, shape, source.value)
        return
    inner, start = block_place(lower, shape, source.shape, op.operands[1:])
    pointer = lower.c.gep(lower.pointer_of(source), start, MEMORY[source.name])
    part = Part(source, shape, pointer, inner)
    lower.set(op.result, part)


class Part(Node):
    """A block of a stored tile."""

    __slots__ = ("inner", "pointer", "source")

    def __init__(self, source: Node, shape: Sequence[int], pointer: str, inner: Map) -> None:
        super().__init__(source.name, shape)
        self.source, self.pointer, self.inner, self.cost = source, pointer, inner, 0

    def sources(self) -> Sequence[Node]:
        return (self.source,)

    def compute(self, lower: Any, chunk: Any, map: Map) -> str:
        from .space import compose
        from .tiles import load_mapped

        lower.pointer_of(self.source)
        return load_mapped(chunk, self.pointer, self.name, compose(self.inner, map))

    def explore(self, map: Map, into: Any) -> None:
        from .space import breaks_of, compose

        into.breaks |= breaks_of(compose(self.inner, map))


def block_place(
    lower: Lower, shape: Sequence[int], whole: Sequence[int], indices: Sequence[Any]
) -> tuple[Map, str]:
    """(bits of the whole tile in those of the block, element at which block `indices` starts)."""
    c, start = lower.c, "0"
    inner: list[int] = []
    mine, all_ = dim_ranges(shape), dim_ranges(whole)
    for d in reversed(range(len(whole))):
        low, high = mine[d]
        inner += [*range(low, high), *[ZERO] * (all_[d][1] - all_[d][0] - (high - low))]
    for d, value in enumerate(indices):
        count = whole[d] // shape[d]
        index = lower.scalar(value)
        wide = (
            str(int(index) % count)
            if index.lstrip("-").isdigit()
            else c.op(f"and i64 {c.op(f'sext i32 {index} to i64')}, {count - 1}")
        )
        start = c.add(start, c.shl(wide, all_[d][0] + log2(shape[d])))
    return tuple(inner), start


@lowers("insert")
def lower_insert(lower: Lower, op: Op) -> None:
    source, whole = lower.node(op.operands[0]), lower.node(op.operands[1])
    buffer = lower.arena.new(bytes_of(whole.name) << whole.bits)
    result = Stored(whole.name, whole.shape, buffer)
    lower.write(whole, result)
    inner, start = block_place(lower, source.shape, whole.shape, op.operands[2:])
    put_block(lower, source, result, inner, lower.c.gep(buffer.pointer, start, MEMORY[whole.name]))
    lower.set(op.result, result)


def put_block(lower: Lower, source: Node, result: Stored, inner: Map, pointer: str) -> None:
    """Stores a tile as a block of another."""
    map = identity(source.bits)

    def body(chunk: Any) -> None:
        value = source.get(lower, chunk, map)
        lower.arena.touch(result.buffer)
        store_mapped(chunk, pointer, source.name, inner, value)

    width = 0
    while width < source.bits and inner[width : width + 1] == (width,):
        width += 1
    lower.each(source.bits, [(source, map)], body, limit=width)


@lowers("cat")
def lower_cat(lower: Lower, op: Op) -> None:
    dim, type = op.attr("dim"), op.result.type
    shape: Any = type.shape  # type: ignore[attr-defined]
    name = name_of(type.elem)  # type: ignore[attr-defined]
    buffer = lower.arena.new(bytes_of(name) << bits_of(shape))
    result = Stored(name, shape, buffer)
    for part, bit in zip(op.operands, (ZERO, ONE)):
        node = lower.node(part)
        inner: list[int] = []
        ranges = dim_ranges(node.shape)
        for d in reversed(range(len(shape))):
            inner += range(*ranges[d])
            if d == dim:
                inner.append(bit)
        put_block(lower, node, result, tuple(inner), buffer.pointer)
    lower.set(op.result, result)


@lowers("get_tile_block_id")
def lower_block_id(lower: Lower, op: Op) -> None:
    for result, name in zip(op.results, ("%x", "%y", "%z")):
        lower.values[result] = Uniform("i32", (), name)


@lowers("get_num_tile_blocks")
def lower_num_blocks(lower: Lower, op: Op) -> None:
    for i, result in enumerate(op.results):
        value = lower.c.at_entry(f"trunc i64 {lower.word(i)} to i32")
        lower.values[result] = Uniform("i32", (), value)


@lowers("make_token", "join_tokens", "gdc_launch_dependents_tko", "gdc_wait_tko", "memory_fence_alias_tko")
def lower_token(lower: Lower, op: Op) -> None:
    lower.values[op.result] = None


@lowers("assume")
def lower_assume(lower: Lower, op: Op) -> None:
    source = lower.values[op.operands[0]]
    if isinstance(source, Node) and not isinstance(source, Uniform):
        lower.set(op.result, Remapped(source, source.shape, identity(source.bits)))
    else:
        lower.values[op.result] = source


# ---- views


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
    from .views import space_of

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
