"""split-block: the code of one CTA of a cluster that shares a tile block (see split_demand for who computes what).

Before: `%x = load %a[%i, %k] : 256x64; %c = mmaf %x, %y, %d : 256x128; store %c, %v[%i, %j]`.
After, for two CTAs: `%r = get_cta_rank; %x = load %a'[2 %i + %r, %k] : 128x64; %c = mmaf %x, %y, %d : 128x128; store ..`.
"""

from __future__ import annotations

from tileiras.compiler.ir.build import create
from tileiras.compiler.ir.core import Block, Op, Region, Value
from tileiras.compiler.ir.dense import dense_bits
from tileiras.compiler.ir.types import I32, I64, TOKEN, PartitionView, TensorType, TokenType

from .slice_ops import Slicer, copy_region, is_splat, splat_constant
from .slices import sliced
from .split_demand import CONTROL, JUMPS, Division

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .slice_plan import Plan
    from .slices import Cut


def split_block(division: Division) -> Op:
    """The function of one of the CTAs."""
    func, worker = division.func, CtaCode(division)
    region = worker.region(func.regions[0])
    return create(func.spec, attrs=dict(func.attrs), regions=[region], loc=func.loc)


class CtaCode(Slicer):
    """Rebuilds the function. `made`: (old value, cut) -> new value."""

    def __init__(self, division: Division) -> None:
        super().__init__()
        self.division = division
        self.s = division.s
        self.made: dict[tuple[Value, Cut], Value] = {}
        self.tokens: list[Value] = []  # those that the forms of the current op made

    # ---- what Slicer asks
    def use(self, value: Value) -> Value:
        return self.made[value, ()]

    def operand(self, plan: Plan, i: int) -> Value:
        return self.made[plan.op.operands[i], plan.wants[i][0] if i in plan.wants else ()]

    def index_type(self, op: Op, cut: Cut) -> Any:
        """32 bits, as loops count, where no number of 32 bits is that of a tile inside and wraps."""
        view = op.operand("view")
        assert view is not None and view.op is not None
        type: Any = view.type
        narrow = isinstance(type, PartitionView) and all(
            _is_short(view.op.operands[0], type.dim_map[d]) for d in set(cut)
        )
        return I32 if narrow and all(v.type.elem.bits <= 32 for v in op.group("index")) else I64  # type: ignore[attr-defined]

    def keep(self, plan: Plan, i: int, value: Value) -> None:
        old = plan.op.results[i]
        if isinstance(old.type, TokenType):
            self.tokens.append(value)
        else:
            self.made[old, plan.results[i] or ()] = value

    # ---- regions
    def region(self, region: Region) -> Region:
        division, out = self.division, Region()
        for old in region.blocks:
            outer, self.block = self.block, Block()
            owner = region.op
            for arg in old.args:
                counts = owner is not division.func and owner.spec.name == "for" and arg.index == 0  # type: ignore[union-attr]
                for cut in [()] if owner is division.func or counts else division.needs.get(arg, ()):
                    self.made[arg, cut] = self.block.add_arg(_form(arg, cut), arg.name)
            if owner is division.func:
                self.index = self.op("get_cta_rank", [], TensorType(I32, ()))
            for op in old.ops:
                self.visit(op)
            out.append(self.block)
            self.block = outer
        return out

    def visit(self, op: Op) -> None:
        name = op.spec.name
        if name in JUMPS:
            self.jump(op)
        elif name in CONTROL:
            if op in self.division.open:
                self.control(op)
        else:
            self.forms(op)

    def forms(self, op: Op) -> None:
        """An op whole, its parts, or both."""
        self.tokens = []
        if op in self.division.whole:
            regions = [copy_region(r, self.use) for r in op.regions]
            types = [r.type for r in op.results]
            new = create(
                op.spec, [self.use(v) for v in op.operands], types, op.attrs, regions, op.loc, op.segments
            )
            self.block.append(new)
            for old, result in zip(op.results, new.results):
                result.name = old.name
                self.made[old, ()] = result
                if isinstance(old.type, TokenType):
                    self.tokens.append(result)
        for cut, plan in self.division.plans.get(op, {}).items():
            if op.spec.name == "constant":
                self.made[op.result, cut] = self.constant(op, cut)
            elif plan is not None and op.spec.name in ("reduce", "scan"):
                operands = [self.operand(plan, i) for i in range(len(op.operands))]
                types = [self.result_type(plan, i) for i in range(len(op.results))]
                for i, result in enumerate(self.clone(op, operands, types)):
                    self.keep(plan, i, result)
            elif plan is not None:
                self.twin(plan)
        token = next((r for r in op.results if isinstance(r.type, TokenType)), None)
        if token is not None and () in self.division.needs.get(token, ()):
            self.made[token, ()] = self.joined(op)

    def joined(self, op: Op) -> Value:
        """The token of all forms of an access; of one that nobody needs, the token that it would have waited for."""
        if len(self.tokens) > 1:
            return self.op("join_tokens", self.tokens, TOKEN, (len(self.tokens),))
        if self.tokens:
            return self.tokens[0]
        waits = op.operand("token") if "token" in op.spec.operand_index else None
        return self.use(waits) if waits is not None else self.op("make_token", [], TOKEN)

    def constant(self, op: Op, cut: Cut) -> Value:
        if not is_splat(op):
            return self.extract(self.use(op.result), self.index, cut)
        type: Any = op.result.type
        small = sliced(type.shape, cut)
        value = splat_constant(type.elem, small, dense_bits(op.attr("value"))[0])
        return self.op("constant", [], TensorType(type.elem, small), value=value)

    # ---- loops and branches
    def control(self, op: Op) -> None:
        name, division = op.spec.name, self.division
        first = {"for": 3, "if": 1, "loop": 0}[name]
        operands = [self.use(v) for v in op.operands[:first]]
        segments, carried = op.segments, []
        if name != "if":
            carried = division.slots(op.regions[0].block.args[name == "for" :])
            operands += [self.made[op.operands[first + i], cut] for i, cut in carried]
            segments = (1, 1, 1, len(carried)) if name == "for" else (len(carried),)
        yielded = carried if name == "for" else division.slots(op.results)
        types = [_form(op.results[i], cut) for i, cut in yielded]
        regions = [self.region(r) for r in op.regions]
        new = self.block.append(create(op.spec, operands, types, op.attrs, regions, op.loc, segments))
        for (i, cut), result in zip(yielded, new.results):
            self.made[op.results[i], cut] = result
            result.name = op.results[i].name

    def jump(self, op: Op) -> None:
        name, target = op.spec.name, self.division.target(op)
        assert target is not None
        values: Any = ()
        if name == "continue":
            values = target.regions[0].block.args[target.spec.name == "for" :]
        elif name != "return":
            values = target.results
        operands = [self.made[op.operands[i], cut] for i, cut in self.division.slots(values)]
        segments = (len(operands),) if op.segments is not None else None
        self.block.append(create(op.spec, operands, [], op.attrs, [], op.loc, segments))


def _form(value: Value, cut: Cut) -> Any:
    type: Any = value.type
    return TensorType(type.elem, sliced(type.shape, cut)) if cut else type


def _is_short(view: Value, dim: int) -> bool:
    """Whether a dimension of a tensor view has less than 2^31 elements, for certain."""
    type: Any = view.type
    extent = type.shape[dim]
    if extent is not None:
        return bool(extent < 1 << 31)
    assert view.op is not None
    dynamic = view.op.group("dynamicShape")
    return bool(dynamic[0].type.elem.bits <= 32)  # type: ignore[attr-defined]
