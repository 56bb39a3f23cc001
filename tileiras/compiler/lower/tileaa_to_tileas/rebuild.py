"""Rebuilds a function in nv_tileas with the inferred layouts, inserting convert_layout.

A value that is cheap to compute again is cloned into the wanted layout instead of being moved. Each conversion
is made once per value and layout in the block that holds the value's first user of it.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileas import ops as tileas
from tileiras.compiler.ir.build import create
from tileiras.compiler.ir.core import Block, Op, Region, Value
from tileiras.compiler.ir.types import FunctionType, TensorType
from tileiras.compiler.layout import convert as plans
from tileiras.compiler.layout.linear import LinearLayout, splat, unbroadcasted, unpermuted, with_inv
from tileiras.compiler.target.products import SIDES

from .infer import Inference

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


# ops that work in the layout of an operand, which may be narrower than what they need (a splat, say)
_VALUE_OPERAND = {
    "store_view_tko": "tile", "store_ptr_tko": "value", "atomic_red_view_tko": "value", "reduce": "operands",
    "local_write": "value",
}  # fmt: skip


def rebuild(func: Op, inference: Inference) -> Op:
    """The nv_tileas function."""
    return _Rebuild(inference).function(func)


class _Rebuild:
    def __init__(self, inference: Inference) -> None:
        self.inf = inference
        self.values: dict[Value, Value] = {}
        self.scopes: list[dict[tuple[Value, LinearLayout], Value]] = [{}]  # conversions, by block

    def function(self, func: Op) -> Op:
        region = self.region(func.regions[0])
        attrs = dict(func.attrs)
        attrs["function_type"] = FunctionType(tuple(a.type for a in region.block.args), ())
        return create(tileas.FUNC, attrs=attrs, regions=[region], loc=func.loc)

    def typed(self, value: Value) -> Any:
        type = value.type
        if isinstance(type, TensorType):
            return TensorType(type.elem, type.shape, self.inf.layouts[value])  # type: ignore[attr-defined]
        return type

    def region(self, region: Region) -> Region:
        out = Region()
        for block in region.blocks:
            new = Block()
            for arg in block.args:
                self.values[arg] = new.add_arg(self.typed(arg), arg.name)
            self.scopes.append({})
            for op in block.ops:
                self.op(new, op)
            self.scopes.pop()
            out.append(new)
        return out

    def op(self, block: Block, op: Op) -> None:
        wanted = self.wanted(op)
        operands = [self.use(block, v, w) for v, w in zip(op.operands, wanted)]
        regions = [self.region(r) for r in op.regions]
        new = self.append(block, op, operands, [self.typed(r) for r in op.results], regions, define=True)
        products = self.inf.products
        if op in products.of_warpgroups:
            back = products.of_warpgroups[op]
            forms = {f"restage_{SIDES[which]}": form.arrangement for which, form in back.items()}
            new.attrs = {**op.attrs, "atom": "wgmma", **forms}
        elif op in products.in_tensor_memory:
            new.attrs = {**op.attrs, "atom": "tcgen05"}
        value = _VALUE_OPERAND.get(op.spec.name)
        if value is not None:  # no result carries the layout the op works in
            index = next(i for i, v in enumerate(op.operands) if v is op.group(value)[0])
            new.attrs = {**op.attrs, "layout": wanted[index]}

    def append(
        self,
        block: Block,
        op: Op,
        operands: list[Value],
        types: list[Any],
        regions: list[Region],
        define: bool,
    ) -> Op:
        new = create(tileas.BY_NAME[op.spec.name], operands, types, op.attrs, regions, op.loc, op.segments)
        block.append(new)
        if define:
            for old, result in zip(op.results, new.results):
                self.values[old] = result
                result.name = old.name
        return new

    def wanted(self, op: Op) -> list[LinearLayout | None]:
        """Operand layouts an op insists on."""
        name = op.spec.name
        layouts = self.inf.layouts
        if name == "for":
            scalar = splat(0, self.inf.log2_warps)
            return [scalar, scalar, scalar, *[layouts[a] for a in op.regions[0].block.args[1:]]]
        if name == "loop":
            return [layouts[a] for a in op.regions[0].block.args]
        if name == "if":
            return [splat(0, self.inf.log2_warps)]
        if name == "return":
            return [None] * len(op.operands)
        if name in ("continue", "break", "yield"):
            owner = op.parent
            while owner is not None and name != "yield" and owner.spec.name == "if":
                owner = owner.parent
            assert owner is not None
            if name == "yield" and owner.spec.name in ("reduce", "scan"):
                return [splat(0, self.inf.log2_warps)] * len(op.operands)
            if name == "continue":
                args = owner.regions[0].block.args
                return [layouts[a] for a in (args[1:] if owner.spec.name == "for" else args)]
            return [layouts[r] for r in owner.results]
        return self.inf.wanted[op]

    def use(self, block: Block, value: Value, want: LinearLayout | None) -> Value:
        """`value` in a layout that renames to `want`."""
        new = self.values[value]
        have = getattr(new.type, "layout", None)
        if want is None or have is None or have is want:
            return new
        if plans.plan(have, want).kind == plans.RENAME:
            return new
        target = with_inv(want, have.inv)
        for scope in reversed(self.scopes):
            found = scope.get((value, target))
            if found is not None:
                return found
        if self.inf.is_cheap(value):
            converted = self.clone(block, value, want, {})
        else:
            type = TensorType(new.type.elem, new.type.shape, target)  # type: ignore[attr-defined]
            made = create(
                tileas.CONVERT_LAYOUT, [new], [type], {}, loc=value.op.loc if value.op is not None else None
            )
            converted = block.append(made).result
        self.scopes[-1][value, target] = converted
        return converted

    def clone(
        self, block: Block, value: Value, want: LinearLayout, made: dict[tuple[Value, LinearLayout], Value]
    ) -> Value:
        """A cheap value computed again in `want` (or in a layout that renames to it); `made`: what already is, for this use.
        Calls itself as often as a value is high (`Inference.is_cheap`)."""
        new = self.values[value]
        have: LinearLayout = new.type.layout  # type: ignore[attr-defined]
        if have is want or plans.plan(have, want).kind == plans.RENAME:
            return new
        op = value.op
        assert op is not None
        name = op.spec.name
        target = with_inv(want, have.inv)
        if (value, target) in made:
            return made[value, target]
        operands = []
        for v in op.operands:
            shape = v.type.shape  # type: ignore[attr-defined]
            if name == "broadcast":
                wanted = unbroadcasted(target, shape, value.type.shape)  # type: ignore[attr-defined]
            elif name == "permute":
                wanted = unpermuted(target, shape, op.attr("permutation"))
            else:
                wanted = target
            if self.inf.is_cheap(v):
                operands.append(self.clone(block, v, wanted, made))
            else:
                operands.append(self.use(block, v, wanted))
        type = TensorType(value.type.elem, value.type.shape, target)  # type: ignore[attr-defined]
        again = self.append(block, op, operands, [type], [], define=False).result
        made[value, target] = again
        return again
