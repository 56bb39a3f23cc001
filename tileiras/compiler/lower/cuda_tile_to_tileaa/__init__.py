"""ConvertCudaTileToTileAA: lifts tiles to tensors, entries to functions with a kernel spec.

Before: `cuda_tile.addf %a, %b : tile<8xf32>`. After: `nv_tileaa.addf %a, %b : tensor<8xf32>`.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileaa import ops as aa
from tileiras.compiler.ir.build import create
from tileiras.compiler.ir.core import Block, Op, Region, Value
from tileiras.compiler.ir.types import FunctionType, TensorType, TileType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.types import Type


def lift_type(type: Type) -> Type:
    """tile<...> -> tensor<...>; views and tokens stay."""
    return TensorType(type.elem, type.shape) if isinstance(type, TileType) else type


def lower_module(module: Op, native: Any = None) -> Op:
    """An nv_tileaa module from a cuda_tile module; private entries are dropped (they compile to nothing).

    `native`: says of element, scale and length of a block whether the target multiplies with such scales.
    """
    body = Block()
    for op in module.regions[0].block.ops:
        if op.spec.name == "entry":
            body.append(_lower_entry(op, native))
        elif op.spec.name == "global":
            body.append(create(aa.BY_NAME["global"], attrs=dict(op.attrs), loc=op.loc))
    attrs = {
        name: value for name, value in module.attrs.items() if "." in name
    }  # tt.*, nv_tileaa.*, a producer's own
    return create(
        aa.MODULE,
        attrs={"sym_name": module.attrs.get("sym_name", "kernels"), **attrs},
        regions=[Region([body])],
    )


def _lower_entry(entry: Op, native: Any) -> Op:
    source = entry.regions[0].block
    values: dict[Value, Value] = {}
    region = _lower_region(entry.regions[0], values, native)
    scaled = [op for op in entry.walk() if op.spec.name == "mmaf_scaled"] if native is not None else []
    for operand in dict.fromkeys(values[v] for op in scaled for v in op.operands[:2]):
        from tileiras.compiler.ir.walk import erase_unused

        erase_unused(
            operand.op, lambda op: op.spec.is_pure
        )  # elements of four bits that go as the bytes they came from
    attrs = {name: value for name, value in entry.attrs.items() if name not in ("arg_attrs", "res_attrs")}
    attrs["function_type"] = FunctionType(tuple(lift_type(a.type) for a in source.args), ())
    return create(aa.FUNC, attrs=attrs, regions=[region], loc=entry.loc)


def _lower_region(region: Region, values: dict[Value, Value], native: Any) -> Region:
    out = Region()
    for block in region.blocks:
        new = Block()
        for arg in block.args:
            values[arg] = new.add_arg(lift_type(arg.type), arg.name)
        constants: dict[Any, Value] = {}  # a frontend writes one for each use
        for op in block.ops:
            if op.spec.name == "mmaf_scaled":
                from .scaled import lower_mmaf_scaled

                values[op.result] = lower_mmaf_scaled(new, op, [values[v] for v in op.operands], native)
                continue
            if op.spec.name == "constant":
                key = op.attrs["value"], op.result.type
                if key in constants:
                    values[op.result] = constants[key]
                    continue
            regions = [_lower_region(r, values, native) for r in op.regions]
            lifted = create(
                aa.BY_NAME[op.spec.name],
                [values[v] for v in op.operands],
                [lift_type(r.type) for r in op.results],
                op.attrs,
                regions,
                op.loc,
                op.segments,
            )
            for old, result in zip(op.results, lifted.results):
                values[old] = result
                result.name = old.name
            if op.spec.name == "constant":
                constants[key] = lifted.result
            new.append(lifted)
        out.append(new)
    return out
