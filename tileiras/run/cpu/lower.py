"""From an nv_tileaa function to LLVM: one walk in program order over its ops and regions.

Ops without effects become expressions (tiles.py); stores, reductions, products and the ends of regions ask for them.
Tokens need nothing: program order satisfies them all.
"""

from __future__ import annotations

from tileiras.compiler.ir.types import TensorType, TokenType

from . import (  # noqa: F401 - ops register
    atomics,
    convert,
    effects,
    floats,
    integers,
    memory,
    product,
    reduce,
    views,
)
from .arena import Arena
from .code import MEMORY, TERMINATORS, Code, Module, bytes_of, name_of
from .faults import Faults
from .loops import Loops, node_loads
from .regions import Slot, Target, may_wait
from .registry import ELEMENTWISE, OPS, Unsupported
from .runtime import FIXED
from .shapes import reads_buffer
from .space import identity
from .tiles import Elementwise, Node, Remapped, Stored, Uniform

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from tileiras.compiler.ir.core import Block, Op, Value


class Lower(Loops, Faults):
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


def is_pending(value: Any) -> bool:
    """Whether a result is an expression that is still to be computed."""
    return isinstance(value, Node) and value.buffer is None and not isinstance(value, (Uniform, Stored))


def writes(op: Op) -> bool:
    """Whether an op changes memory."""
    name = op.spec.name
    return name.startswith(("store_", "atomic_"))
