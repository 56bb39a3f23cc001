"""Operations, values, blocks, regions and use lists: the mutable SSA graph all dialects share.

Ops are plain slotted objects. A value knows its uses as `(op, index)` pairs, so replacing one is a walk over
its own list. What an op means stands in its `OpSpec`; nothing in this file names an op.
"""

from __future__ import annotations

from tileiras.diag import UNKNOWN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from tileiras.diag import Loc

    from .spec import OpSpec
    from .types import Type


class Value:
    """Result of an op or argument of a block."""

    __slots__ = ("index", "name", "op", "owner", "type", "uses")

    def __init__(self, type: Type, owner: Op | Block, index: int, name: str = "") -> None:
        self.type = type
        self.owner = owner
        self.op: Op | None = (
            owner if isinstance(owner, Op) else None
        )  # the defining op, None for a block argument
        self.index = index
        self.name = name  # a hint for printers; never an identity
        self.uses: list[tuple[Op, int]] = []

    def replace_all_uses_with(self, other: Value) -> None:
        for op, index in self.uses:
            op.operands[index] = other
        other.uses.extend(self.uses)
        self.uses = []

    def __repr__(self) -> str:
        return f"<{'arg' if self.op is None else 'result'} {self.index} : {self.type}>"


class Op:
    """One operation. Operands are flat, grouped by the spec; `segments` gives group sizes where they vary."""

    __slots__ = ("attrs", "block", "loc", "operands", "regions", "results", "segments", "spec")

    def __init__(
        self,
        spec: OpSpec,
        operands: Iterable[Value] = (),
        result_types: Iterable[Type] = (),
        attrs: dict[str, Any] | None = None,
        regions: Iterable[Region] = (),
        loc: Loc | None = None,
        segments: tuple[int, ...] | None = None,
    ) -> None:
        self.spec = spec
        self.operands = list(operands)
        for i, value in enumerate(self.operands):
            value.uses.append((self, i))
        self.results = [Value(t, self, i) for i, t in enumerate(result_types)]
        self.attrs = attrs if attrs is not None else {}
        self.regions = list(regions)
        for region in self.regions:
            region.op = self
        self.loc = loc or UNKNOWN
        self.block: Block | None = None
        self.segments = segments  # operands per operand field, in table order; None when all are required

    @property
    def result(self) -> Value:
        return self.results[0]

    @property
    def name(self) -> str:
        return self.spec.full_name

    @property
    def parent(self) -> Op | None:
        return self.block.region.op if self.block is not None and self.block.region is not None else None

    def attr(self, name: str) -> Any:
        """The attribute, or its default in the spec when absent."""
        value = self.attrs.get(name)
        return self.spec.defaults.get(name) if value is None else value

    def group(self, name: str) -> list[Value]:
        """The operands of one field of the spec (a list, for every mode)."""
        index = self.spec.operand_index[name]
        if self.segments is None:
            return self.operands[index : index + 1]
        start = sum(self.segments[:index])
        return self.operands[start : start + self.segments[index]]

    def operand(self, name: str) -> Value | None:
        """The one operand of a required or optional field; None when absent."""
        group = self.group(name)
        return group[0] if group else None

    def set_operand(self, index: int, value: Value) -> None:
        old = self.operands[index]
        old.uses.remove((self, index))
        self.operands[index] = value
        value.uses.append((self, index))

    def drop_operands(self) -> None:
        for i, value in enumerate(self.operands):
            value.uses.remove((self, i))
        self.operands = []

    def erase(self) -> None:
        """Take the op out of its block and its operands' use lists; its results must be unused."""
        for region in self.regions:
            for block in region.blocks:
                for op in reversed(list(block.ops)):
                    op.erase()
        self.drop_operands()
        if self.block is not None:
            self.block.ops.remove(self)
            self.block = None

    def walk(self) -> Iterator[Op]:
        """This op, then all nested ones in program order."""
        yield self
        # One generator for all levels: nested ones would pass each op up through every level above it.
        levels = [_inner(self)] if self.regions else []
        while levels:
            for op in levels[-1]:
                yield op
                if op.regions:
                    levels.append(_inner(op))
                    break
            else:
                levels.pop()

    def __repr__(self) -> str:
        return f"<{self.spec.full_name}>"


def _inner(op: Op) -> Iterator[Op]:
    """The ops of all blocks; those of an only block by its own iterator, which costs less."""
    regions = op.regions
    if len(regions) == 1 and len(regions[0].blocks) == 1:
        return iter(regions[0].blocks[0].ops)
    return (each for region in regions for block in region.blocks for each in block.ops)


class Block:
    """Arguments and a list of ops; the last op is the terminator."""

    __slots__ = ("args", "ops", "region")

    def __init__(self, arg_types: Iterable[Type] = ()) -> None:
        self.args = [Value(t, self, i) for i, t in enumerate(arg_types)]
        self.ops: list[Op] = []
        self.region: Region | None = None

    def add_arg(self, type: Type, name: str = "") -> Value:
        value = Value(type, self, len(self.args), name)
        self.args.append(value)
        return value

    def append(self, op: Op) -> Op:
        op.block = self
        self.ops.append(op)
        return op

    def insert_before(self, anchor: Op, op: Op) -> Op:
        op.block = self
        self.ops.insert(self.ops.index(anchor), op)
        return op

    @property
    def terminator(self) -> Op | None:
        return self.ops[-1] if self.ops and self.ops[-1].spec.is_terminator else None


class Region:
    """Blocks owned by one op."""

    __slots__ = ("blocks", "op")

    def __init__(self, blocks: Iterable[Block] = ()) -> None:
        self.blocks: list[Block] = []
        self.op: Op | None = None
        for block in blocks:
            self.append(block)

    def append(self, block: Block) -> Block:
        block.region = self
        self.blocks.append(block)
        return block

    @property
    def block(self) -> Block:
        """The only block of a single-block region."""
        return self.blocks[0]
