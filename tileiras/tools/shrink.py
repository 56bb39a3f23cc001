"""The edits by which a module becomes smaller, for ``tileiras-reduce``: what can go, and how to take it away.

An `Edit` names its sites in a module and applies any set of them. Sites are numbers, in an order that a copy of the
module repeats, so a choice that was made on one copy can be applied to another. An edit may leave a module that the
verifier refuses, or one that is no smaller: whoever asks checks with `measure` and the verifier.
"""

from __future__ import annotations

from tileiras.compiler.dialects.cuda_tile.ops import BY_NAME
from tileiras.compiler.ir import types as T
from tileiras.compiler.ir.core import Block, Op, Value
from tileiras.compiler.ir.dense import constant_bytes, dense_bits, num_elements
from tileiras.compiler.ir.spec import OPTIONAL
from tileiras.diag import UNKNOWN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from typing import Any

    Edit = tuple[str, Callable[[Op], list[Any]], Callable[[Op, Any], None]]

_LEAVES = ("constant", "make_token", "return", "yield", "continue", "break")


def measure(module: Op) -> tuple[int, ...]:
    """The size of a module; a smaller tuple is a smaller module. Ops that only fill a place count last."""
    real = ops = values = facts = elements = 0
    for op in module.walk():
        ops += 1
        real += op.spec.name not in _LEAVES
        values += len(op.operands) + len(op.results) + sum(len(b.args) for r in op.regions for b in r.blocks)
        facts += len(op.attrs) + (op.loc is not UNKNOWN)
        for value in (*op.results, *(a for r in op.regions for b in r.blocks for a in b.args)):
            shape = getattr(value.type, "shape", None) or getattr(value.type, "tile", None)
            elements += num_elements(tuple(shape)) if shape and None not in shape else 1
            elements += num_elements(value.type.tile) if isinstance(value.type, T.TILE_VIEWS) else 0
        constant = op.attrs.get("value")
        elements += len(constant.data) if isinstance(constant, T.Dense) else 0
    return real, ops, values, elements, facts


# Replacements for a value whose op goes.


def _stand_in(op: Op, value: Value) -> Value | None:
    """A value of the same type to use instead: an operand of the op, a new constant or token, or an earlier value."""
    for operand in op.operands:
        if operand.type is value.type:
            return operand
    made = _filler(value.type)
    if made is not None and op.spec.name not in _LEAVES:
        assert op.block is not None
        op.block.insert_before(op, made)
        return made.result
    place: Op | None = op
    while place is not None and place.block is not None and place.spec.name != "entry":
        block = place.block
        for earlier in block.ops[: block.ops.index(place)]:
            for result in earlier.results:
                if result.type is value.type:
                    return result
        for arg in block.args:
            if arg.type is value.type:
                return arg
        place = place.parent
    return None


def _filler(type: Any) -> Op | None:
    """An op that makes some value of the type: a token, or a splat of one."""
    if type is T.TOKEN:
        return Op(BY_NAME["make_token"], result_types=[type])
    if not isinstance(type, T.TileType) or not isinstance(type.elem, T.Scalar):
        return None
    elem = type.elem
    ones = {"f16": 0x3C00, "bf16": 0x3F80, "f32": 0x3F800000, "f64": 0x3FF << 52, "tf32": 0x3F800000 >> 13,
            "f8E4M3FN": 0x38, "f8E5M2": 0x3C, "f8E8M0FNU": 0x7F, "f4E2M1FN": 2}  # fmt: skip
    bits = ones.get(elem.name) if elem.is_float else 1
    if bits is None:
        return None
    data = b"\xff" if elem.name == "i1" else bits.to_bytes(constant_bytes(elem), "little")
    return Op(BY_NAME["constant"], result_types=[type], attrs={"value": T.Dense(type, data)})


# Symbols and ops


def _symbols(module: Op) -> list[Any]:
    return list(module.regions[0].block.ops)


def _drop_symbols(module: Op, chosen: Any) -> None:
    for op in reversed(chosen):
        op.erase()


def _ops(module: Op) -> list[Any]:
    """Every op below a symbol, last first: so a chunk of them frees what the next chunk needs."""
    found = [op for op in module.walk() if op.parent is not None and op.parent is not module]
    return [op for op in reversed(found) if not op.spec.is_terminator]


def _drop_ops(module: Op, chosen: Any) -> None:
    gone: set[Op] = set()
    for op in chosen:  # last first
        if op in gone or op.block is None:
            continue
        instead = []
        for result in op.results:
            new = _stand_in(op, result) if result.uses else None
            if result.uses and new is None:
                break
            instead.append((result, new))
        else:
            for result, new in instead:
                if new is not None:
                    result.replace_all_uses_with(new)
            gone.update(op.walk())
            op.erase()


def _unused(module: Op) -> list[Any]:
    return [op for op in _ops(module) if op.spec.is_pure and not any(r.uses for r in op.results)]


def drop_unused(module: Op, only: tuple[str, ...] = ()) -> None:
    """Takes away pure ops whose results nobody needs; of these names alone, when there are any."""
    while found := [op for op in _unused(module) if not only or op.spec.name in only]:
        for op in found:
            op.erase()


# Regions


def _wrappers(module: Op) -> list[Any]:
    """(op, region number) for each region that may stand in place of its op."""
    names = ("if", "for", "loop")
    return [(op, i) for op in _ops(module) if op.spec.name in names for i in range(len(op.regions))]


def _inline(module: Op, chosen: Any) -> None:
    for op, number in chosen:
        block = op.block
        if block is None or not op.regions or not op.regions[number].blocks:
            continue
        body = op.regions[number].block
        last = body.terminator
        if last is None or len(last.operands) < len(op.results):
            continue  # an `if` that leaves by a return or a break
        for arg, value in zip(body.args, _entry_values(op)):
            arg.replace_all_uses_with(value)
        for result, value in zip(op.results, list(last.operands)):
            if result.type is not value.type:
                break
            result.replace_all_uses_with(value)
        last.erase()
        for inner in list(body.ops):
            body.ops.remove(inner)
            block.insert_before(op, inner)
        if not any(result.uses for result in op.results):
            op.erase()


def _entry_values(op: Op) -> list[Value]:
    """What the arguments of the body are the first time."""
    return [op.operands[0], *op.operands[3:]] if op.spec.name == "for" else list(op.operands)


# Values that are carried


def _carried(module: Op) -> list[Any]:
    """(op, result number) of each result of a region op that nobody uses."""
    names = ("if", "for", "loop")
    found = [op for op in _ops(module) if op.spec.name in names]
    return [(op, i) for op in found for i, r in reversed(list(enumerate(op.results))) if not r.uses]


def _drop_carried(module: Op, chosen: Any) -> None:
    for op, index in chosen:  # of one op: the last result first, so that the other numbers stay true
        fixed = 3 if op.spec.name == "for" else 0
        if op.spec.name == "loop" and len(op.operands) != len(op.results):
            continue  # what it carries and what it gives differ
        if op.spec.name != "if":
            body = op.regions[0].block
            at = index + (1 if fixed else 0)
            body.args[at].replace_all_uses_with(op.operands[fixed + index])
            del body.args[at]
            _number(body.args)
            _without_operand(op, fixed + index)
        for end in _ends(op):
            _without_operand(end, index)
        del op.results[index]
        _number(op.results)


def _ends(op: Op) -> list[Op]:
    """The terminators that give an `if` its results, or a loop its next or last values."""
    if op.spec.name == "if":
        lasts = [r.block.terminator for r in op.regions if r.blocks]
        return [end for end in lasts if end is not None and end.spec.name == "yield"]
    found: list[Op] = []
    blocks: list[Block] = [op.regions[0].block]
    while blocks:
        for inner in blocks.pop().ops:
            if inner.spec.name in ("continue", "break"):
                found.append(inner)
            elif inner.spec.name == "if":
                blocks += [block for region in inner.regions for block in region.blocks]
    return found


def _number(values: list[Value]) -> None:
    for i, value in enumerate(values):
        value.index = i


def _without_operand(op: Op, index: int) -> None:
    values = list(op.operands)
    field = 0
    if op.segments is not None:
        sizes, left = list(op.segments), index
        while left >= sizes[field]:
            left -= sizes[field]
            field += 1
        sizes[field] -= 1
        op.segments = tuple(sizes)
    op.drop_operands()
    del values[index]
    op.operands = values
    for i, value in enumerate(values):
        value.uses.append((op, i))


# Parameters, optional operands and attributes


def _parameters(module: Op) -> list[Any]:
    entries = [op for op in module.regions[0].block.ops if op.spec.name == "entry"]
    return [(e, a) for e in entries for a in reversed(e.regions[0].block.args) if not a.uses]


def _drop_parameters(module: Op, chosen: Any) -> None:
    for entry, arg in chosen:
        args = entry.regions[0].block.args
        at = args.index(arg)
        del args[at]
        _number(args)
        about = entry.attrs.get("arg_attrs")
        if about:
            entry.attrs["arg_attrs"] = type(about)([*about[:at], *about[at + 1 :]])
        _sign(entry)


def _sign(entry: Op) -> None:
    """Makes the signature that of the body."""
    old = entry.attrs["function_type"]
    types = tuple(arg.type for arg in entry.regions[0].block.args)
    entry.attrs["function_type"] = T.FunctionType(types, old.results)


def _options(module: Op) -> list[Any]:
    """(op, name) of each optional operand that is there."""
    return [
        (op, arg.name) for op in _ops(module) for arg in op.spec.operands if arg.mode == OPTIONAL and op.group(arg.name)
    ]  # fmt: skip


def _drop_options(module: Op, chosen: Any) -> None:
    for op, name in chosen:
        assert op.segments is not None
        _without_operand(op, sum(op.segments[: op.spec.operand_index[name]]))


def _attributes(module: Op) -> list[Any]:
    return [
        (op, name) for op in module.walk() for name in op.attrs
        if name in op.spec.attr_by_name and (op.spec.attr_by_name[name].optional or name in op.spec.defaults)
    ]  # fmt: skip


def _drop_attributes(module: Op, chosen: Any) -> None:
    for op, name in chosen:
        op.attrs.pop(name, None)


def _places(module: Op) -> list[Any]:
    return [op for op in module.walk() if op.loc is not UNKNOWN]


def _drop_places(module: Op, chosen: Any) -> None:
    for op in chosen:
        op.loc = UNKNOWN


# Shapes


def _extents(module: Op) -> list[Any]:
    """(old extent, new extent): everywhere at once, the boldest first; then all extents cut to one limit."""
    seen: set[int] = set()
    for op in module.walk():
        for type in _types(op):
            if isinstance(type, T.TileType):
                seen.update(type.shape)
            elif isinstance(type, T.TILE_VIEWS):
                seen.update(type.tile)
    most = max(seen, default=1)
    limits = [1 << i for i in range(most.bit_length()) if 1 << i < most]
    each = [(extent, 1 << i) for extent in sorted(seen, reverse=True) for i in range(extent.bit_length() - 1)]
    return [(0, limit) for limit in limits] + each


def _types(op: Op) -> list[Any]:
    args = [a for r in op.regions for b in r.blocks for a in b.args]
    return [value.type for value in (*op.results, *args)]


def _cut_extents(module: Op, chosen: Any) -> None:
    def cut(shape: tuple[int, ...]) -> tuple[int, ...]:
        for old, new in chosen:
            shape = tuple(new if (e == old if old else e > new) else e for e in shape)
        return shape

    def smaller(type: Any) -> Any:
        if isinstance(type, T.TileType):
            return T.TileType(type.elem, cut(type.shape))
        if isinstance(type, T.PartitionView):
            return T.PartitionView(cut(type.tile), type.view, type.dim_map, type.padding)
        if isinstance(type, T.StridedView):
            return T.StridedView(cut(type.tile), type.traversal, type.view, type.dim_map, type.padding)
        if isinstance(type, T.GatherScatterView):
            return T.GatherScatterView(cut(type.tile), type.view, type.sparse_dim, type.padding)
        return type

    for op in module.walk():
        for value in op.results:
            value.type = smaller(value.type)
        for region in op.regions:
            for block in region.blocks:
                for arg in block.args:
                    arg.type = smaller(arg.type)
        constant = op.attrs.get("value")
        if op.spec.name == "constant" and isinstance(constant, T.Dense):
            op.attrs["value"] = _cut_constant(constant, smaller(constant.type))
        if op.spec.name == "entry":
            _sign(op)


def _cut_constant(constant: Any, type: Any) -> Any:
    """The first elements of a constant, in its smaller type."""
    bits = dense_bits(constant)
    if len(bits) == 1 and num_elements(constant.type.shape) != 1:
        bits = bits * num_elements(type.shape)
    bits = bits[: num_elements(type.shape)]
    if len(set(bits)) == 1:
        bits = bits[:1]
    if type.elem.name == "i1":
        if len(bits) == 1:
            return T.Dense(type, b"\xff" if bits[0] else b"\0")
        packed = sum(bit << i for i, bit in enumerate(bits))
        return T.Dense(type, packed.to_bytes((len(bits) + 7) // 8, "little"))
    size = constant_bytes(type.elem)
    return T.Dense(type, b"".join(bit.to_bytes(size, "little") for bit in bits))


EDITS: tuple[Edit, ...] = (
    ("symbols", _symbols, _drop_symbols),
    ("operations", _ops, _drop_ops),
    # Again, where an operation may stay whose result nobody uses then.
    ("users", _ops, _drop_ops),
    ("regions", _wrappers, _inline),
    ("carried values", _carried, _drop_carried),
    ("optional operands", _options, _drop_options),
    ("parameters", _parameters, _drop_parameters),
    ("shapes", _extents, _cut_extents),
    ("attributes", _attributes, _drop_attributes),
    ("locations", _places, _drop_places),
)
# Edits whose sites are alternatives: one at a time, never several.
ALTERNATIVES = frozenset(("shapes",))


def apply(edit: Edit, module: Op, numbers: Collection[int]) -> None:
    """Edits `module` at the sites with these numbers, and takes away what nobody needs then: fillers only, save where ops go."""
    _, sites, change = edit
    found = sites(module)
    change(module, [found[number] for number in numbers if number < len(found)])
    drop_unused(module, () if edit[0] in ("symbols", "operations") else _LEAVES[:2])
