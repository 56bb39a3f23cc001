"""Rules of ops with regions: module, entry, control flow, reductions and scans, and the ops that leave regions."""

from __future__ import annotations

from tileiras.compiler.ir import debug
from tileiras.compiler.ir import types as T
from tileiras.compiler.ir.diags import RULE
from tileiras.compiler.ir.spec import NO_MEMORY_EFFECT, PURE, RECURSIVE_EFFECTS
from tileiras.compiler.ir.verify import Invalid, broken, tname
from tileiras.diag import Catalogue

from .dense import check_dense

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Block, Op, Value

D = Catalogue("tileiras.compiler.dialects.cuda_tile.diags")
VIEWS = T.VIEWS
EXITS = frozenset(("break", "continue", "return", "yield"))


def view_word(type: Any) -> str:
    return "tensor_view" if isinstance(type, T.TensorView) else "tile view"


def require_block(op: Op) -> Block:
    """The block of the first region, which must have an op."""
    region = op.regions[0]
    if not region.blocks or not region.blocks[0].ops:
        raise Invalid(D.EMPTY_BLOCK, "failed to verify constraint: region with 1 blocks")
    return region.blocks[0]


# ---- module, entry, global


def check_module(op: Op) -> None:
    for block in op.regions[0].blocks:
        if block.args:
            raise broken("region should have no arguments")
        for inner in block.ops:
            if inner.spec.name in ("entry", "testing$func"):
                continue
            if debug.scope_of(inner.loc) is not None:
                raise broken(
                    "invalid operation debug info scope: Global variables must not have scope"
                ).remark(inner)
            if inner.spec.dialect != "cuda_tile":
                raise broken("only ops from the 'cuda_tile' dialect are allowed").remark(inner)
            if inner.spec.name != "global":
                raise broken("only function and global ops are allowed in the body").remark(inner)


def check_entry(op: Op) -> None:
    signature = op.attrs["function_type"]
    if not isinstance(signature, T.FunctionType):
        raise broken(
            "attribute 'function_type' failed to satisfy constraint: type attribute of function type"
        )
    block = require_block(op)
    if tuple(a.type for a in block.args) != signature.params:
        raise broken("entry block arguments must match the function signature")
    if op.spec.name == "entry":
        if signature.results:
            raise broken("entry op must not return values")
        for type in signature.params:
            if isinstance(type, T.TileType) and type.shape:
                raise broken("entry op must have scalar types (rank 0 !cuda_tile.tile)")
        check_debug_scope(op)


def check_debug_scope(op: Op) -> None:
    """Scopes of an entry and of its instructions fit together."""
    scope = op.loc.scope
    head = "invalid function debug info scope: "
    if scope is not None:
        if type(scope) is not debug.DISubprogram or op.loc.callers:
            raise broken(head + "Function location must have cuda_tile.di_subprogram debug info scope")
        if scope.linkage_name != op.attrs["sym_name"]:
            text = f'Function name "{op.attrs["sym_name"]}" does not match subprogram scope linkage name "{scope.linkage_name}"'
            raise broken(head + text)
    seen: dict[Any, Any] = {}
    for inner in op.walk():
        loc = inner.loc
        if inner is op or (loc.scope is None and not loc.callers):
            continue
        last = debug.scope_of(loc)
        if last is None:
            continue
        if last not in seen:
            seen[last] = debug.subprogram_of(last)
        if scope is None:
            raise broken(
                "invalid operation debug info scope: Operation has debug info scope, but function debug info scope is undefined"
            )
        if seen[last] is not scope:
            raise broken(
                "invalid operation debug info scope: Operation debug info scope does not match function debug info scope"
            )


def check_global(op: Op) -> None:
    value = op.attrs["value"]
    if type(value) is not T.Dense or not isinstance(value.type, T.TileType):
        raise broken("attribute 'value' failed to satisfy constraint: dense elements attribute")
    if len(value.type.shape) != 1:
        raise broken("type must have rank 1")
    problem = check_dense(value.type, value.data)
    if problem is not None:
        raise broken(problem)
    if op.attr("alignment") < 0:
        raise broken(
            "attribute 'alignment' failed to satisfy constraint: 64-bit signless integer attribute whose minimum value is 0"
        )


def check_get_global(op: Op) -> None:
    name = op.attrs["name"]
    top: Any = op
    while top is not None and top.spec.name != "module":
        top = top.parent
    if top is None:
        return
    for block in top.regions[0].blocks:
        for other in block.ops:
            if other.spec.name == "global" and other.attrs.get("sym_name") == name:
                elem, pointer = other.attrs["value"].type.elem, op.results[0].type.elem
                if pointer.pointee is not elem:
                    text = f"pointee type of result type '{tname(pointer)}' does not match type '{elem}' of the global @{name}"
                    raise broken(text)
                return
    raise broken(f"'{name}' does not reference a valid global")


# ---- if, for, loop


def check_if(op: Op) -> None:
    if not op.regions[0].blocks:
        raise Invalid(D.IF_THEN)
    if op.results and not op.regions[1].blocks:
        raise Invalid(D.IF_ELSE, "has non-empty return type, must define else branch")
    types = [v.type for v in op.results]
    for region, word in zip(op.regions, ("then", "else")):
        if not region.blocks:
            continue
        if region.blocks[0].args:
            raise broken(f"expects no arguments of the {word} block")
        last = region.blocks[0].ops[-1] if region.blocks[0].ops else None
        if last is None:
            raise Invalid(D.EMPTY_BLOCK)
        if last.spec.name != "yield":
            continue
        check_if_yield(last, types, word)
    for i, type in enumerate(types):
        if isinstance(type, VIEWS):
            raise Invalid(D.IF_VIEW, f"result type {i} is a {view_word(type)}, which is not supported")


def check_if_yield(last: Op, types: list[Any], word: str) -> None:
    found = [v.type for v in last.operands]
    if len(found) != len(types):
        if not types:
            real = f"does not return a value, but {word} branch yields {quoted(found)}"
            raise broken(real)
        real = f"has return type of {quoted(types)} but {word} branch does not yield anything"
        if found:
            real = f"type does not match yield type, {word} branch yields {quoted(found)} but op result type is {quoted(types)}"
        raise Invalid(D.TERMINATOR_COUNT, real, got=len(found), want=len(types))
    for got, want in zip(found, types):
        if got is not want:
            real = f"type does not match yield type, {word} branch yields {quoted(found)} but op result type is {quoted(types)}"
            raise Invalid(D.TERMINATOR_TYPE, real, got=tname(got), want=tname(want))


def quoted(types: Any) -> str:
    return ", ".join(f"'{tname(t)}'" for t in types)


def check_for(op: Op) -> None:
    block = require_block(op)
    bound = op.operands[0].type
    if not block.args or block.args[0].type is not bound:
        real = f"expected induction variable to be same type as bounds and step: '{tname(bound)}'"
        raise Invalid(D.FOR_TYPES, real)
    inits = [v.type for v in op.operands[3:]]
    carried = [a.type for a in block.args[1:]]
    check_carried(inits, carried, "FOR_INIT")
    results = [v.type for v in op.results]
    if results != carried:
        raise Invalid(
            D.FOR_RESULTS,
            f"result types {quoted(results)} differ from those of the region iter_values {quoted(carried)}",
        )
    for i, type in enumerate(results):
        if isinstance(type, VIEWS):
            raise Invalid(
                D.FOR_VIEW, f"loop-carried value {i} is a {view_word(type)}, which is not supported"
            )


def check_carried(inits: list[Any], carried: list[Any], diag: str) -> None:
    real = None
    if len(inits) != len(carried):
        real = f"mismatch in number of region iterator values and loop iterator inits: {len(carried)} vs {len(inits)}"
    else:
        for i, (init, value) in enumerate(zip(inits, carried)):
            if init is not value:
                real = f"init value {i} and region iter_value {i} have different type: '{tname(init)}' != '{tname(value)}'"
                break
    if real is not None:
        raise Invalid(getattr(D, diag), real) if diag else broken(real)


def check_loop(op: Op) -> None:
    block = require_block(op)
    inits = [v.type for v in op.operands]
    check_carried(inits, [a.type for a in block.args], "")
    for i, type in enumerate(inits):
        if isinstance(type, VIEWS):
            raise broken(f"loop-carried value {i} is a {view_word(type)}, which is not supported")
    for i, value in enumerate(op.results):
        if isinstance(value.type, VIEWS):
            raise broken(f"result type {i} is a {view_word(value.type)}, which is not supported")


def check_early_exit(op: Op) -> None:
    """break and continue reach their loop through ifs only, and carry its types."""
    name = op.spec.name
    parents = ("loop",) if name == "break" else ("for", "loop")
    parent = op.parent
    while parent is not None and parent.spec.name == "if":
        parent = parent.parent
    if parent is None or parent.spec.name not in parents:
        names = ", ".join(f"'cuda_tile.{p}'" for p in (*parents, "if"))
        problem = Invalid(D.EARLY_EXIT, f"can only be nested within a ancestor chain of {names} operations")
        raise problem if parent is None else problem.blame(parent, "see unexpected ancestor operation")
    if name == "break":
        want = [v.type for v in parent.results]
    elif parent.spec.name == "for":
        want = [v.type for v in parent.results]
    else:
        want = [v.type for v in parent.operands]
    if [v.type for v in op.operands] != want:
        what = "loop result types" if name == "break" else "loop iter_values"
        real = f"operand types must correspond to the parent {what}"
        if name == "continue" and parent is op.parent:
            what = "return types" if parent.spec.name == "for" else "iter_values"
            should = f"`continue` op should have operand types that match the parent loop {what}"
            found = quoted([v.type for v in op.operands])
            real = f"`{parent.spec.name}` is missing a valid terminator. {should}: ({quoted(want)}), but found: ({found})"
        raise Invalid(D.EARLY_EXIT_TYPES, real)


def check_return(op: Op) -> None:
    parent = op.parent
    if parent is not None and parent.spec.name in ("reduce", "scan"):
        return  # the reduction names it
    while parent is not None and parent.spec.name in ("if", "loop"):
        parent = parent.parent
    if parent is None or parent.spec.name not in ("entry", "testing$func"):
        raise broken("expects parent op to be one of 'cuda_tile.entry, cuda_tile.if, cuda_tile.loop'")
    results = parent.attrs["function_type"].results
    if len(op.operands) != len(results):
        name = parent.attrs["sym_name"]
        raise broken(
            f"has {len(op.operands)} operands, but enclosing function (@{name}) returns {len(results)}"
        )
    for i, (value, type) in enumerate(zip(op.operands, results)):
        if value.type is not type:
            text = f"type of return operand {i} ('{tname(value.type)}') doesn't match function result type ('{tname(type)}')"
            raise broken(f"{text} in function @{parent.attrs['sym_name']}")


# ---- reduce, scan


def has_effects(op: Op) -> bool:
    """Whether an op in a combiner reads or writes memory, nested ops included."""
    if op.spec.traits & RECURSIVE_EFFECTS:
        return any(
            has_effects(inner) for region in op.regions for block in region.blocks for inner in block.ops
        )
    return not op.spec.traits & (PURE | NO_MEMORY_EFFECT) and op.spec.name not in ("assume", *EXITS)


def check_aggregate(op: Op) -> None:
    inputs = [v.type for v in op.operands]
    if not inputs:
        raise Invalid(D.AGG_INPUTS, "expect at least one operand")
    if len(op.results) != len(inputs):
        raise Invalid(D.AGG_RESULTS, "expect same number of operands and results")
    dim, rank = op.attrs["dim"], len(inputs[0].shape)
    if not 0 <= dim < rank:
        real = f"dimension ({dim}) is out of bound [0, {rank})"
        if dim < 0:
            real = "attribute 'dim' failed to satisfy constraint: 32-bit signless integer attribute whose value is non-negative"
        raise Invalid(D.AGG_DIM, real)
    check_identities(op, inputs)
    check_body(op, inputs)
    check_aggregate_results(op, inputs, dim)


def check_identities(op: Op, inputs: list[Any]) -> None:
    identities = op.attrs["identities"]
    if len(identities) != len(inputs):
        counts = f"{len(inputs)} operands and {len(identities)} identities"
        real = f"expect identities to match the number of operands but got: {counts}"
        raise broken(real)
    for i, (type, identity) in enumerate(zip(inputs, identities)):
        found = T.I1 if isinstance(identity, bool) else getattr(identity, "type", None)
        if found is type.elem or {found, type.elem} == {T.F16, T.BF16}:
            continue
        real = f"expect same type for operand at index: {i} and identity at index: {i} but got: '{type.elem}' and '{found}'"
        raise Invalid(D.AGG_IDENTITY, real)


def check_body(op: Op, inputs: list[Any]) -> None:
    """Arguments, ops and yield of the combiner."""
    if not op.regions[0].blocks or not op.regions[0].blocks[0].ops:
        raise Invalid(D.EMPTY_BLOCK, "region #0 ('body') failed to verify constraint: region with 1 blocks")
    block = op.regions[0].blocks[0]
    types = [a.type for a in block.args]
    if len(types) != 2 * len(inputs):
        raise Invalid(D.AGG_ARGS, f"expect {2 * len(inputs)} block arguments but got: {len(types)}")
    for i, type in enumerate(types):
        real = f"expect 0-rank tile type at index: {i} but got: '{tname(type)}'"
        if not isinstance(type, T.TileType):
            raise Invalid(D.BLOCK_ARG_TYPES, real, types=quoted(types))
        if type.shape:
            raise Invalid(D.BLOCK_ARG_RANK, real, index=i)
    for i, type in enumerate(inputs):
        first, second = types[2 * i].elem, types[2 * i + 1].elem
        if first is not second:
            indices = f"{2 * i} and {2 * i + 1}"
            text = f"expect same element type for block argument at index: {indices} but got: '{first}' and '{second}'"
            raise broken(text)
        if first is not type.elem:
            sides = f"operand at index: {i} and block argument at index: {2 * i}"
            text = f"expect same type for {sides} but got: '{type.elem}' and '{first}'"
            raise broken(text)
    for inner in block.ops:
        if has_effects(inner):
            where = f"inside '{op.spec.full_name}'"
            problem = Invalid(D.NOT_PURE, f"only memory-effect-free operations are allowed {where}")
            raise problem.blame(inner, f"only pure operations are allowed {where}")
        if inner.spec.name in EXITS and inner.spec.name != "yield":
            raise Invalid(D.INVALID_OP, name=inner.spec.full_name)
    check_aggregate_yield(block.ops[-1], inputs, block.args)


def check_aggregate_yield(last: Op, inputs: list[Any], args: list[Value]) -> None:
    found = [v.type for v in last.operands]
    if len(found) != len(inputs):
        real = f"expect number of terminators operands ({len(found)}) to match number of operands ({len(inputs)})"
        raise Invalid(D.TERMINATOR_COUNT, real, got=len(found), want=len(inputs))
    for i, (got, type) in enumerate(zip(found, inputs)):
        if not isinstance(got, T.TileType) or got.elem is not type.elem:
            elem = getattr(got, "elem", got)
            sides = f"operand at index: {i} and terminator argument at index: {i}"
            real = f"expect same type for {sides} but got: '{type.elem}' and '{elem}'"
            raise Invalid(D.TERMINATOR_TYPE, real, got=tname(got), want=tname(args[2 * i].type))


def check_aggregate_results(op: Op, inputs: list[Any], dim: int) -> None:
    found = [v.type for v in op.results]
    want = inputs
    if op.spec.name == "reduce":
        want = [T.TileType(t.elem, t.shape[:dim] + t.shape[dim + 1 :]) for t in inputs]
        if found != want:
            text = f"inferred type(s) {quoted(want)} are incompatible with return type(s) of operation {quoted(found)}"
            raise Invalid(RULE, "failed to infer returned types", text=text)
    for i, (got, type) in enumerate(zip(found, want)):
        if got is not type:
            raise broken(f"expect same type for operand at index: {i} and result at index: {i}")


CHECKS = {
    "module": check_module,
    "entry": check_entry,
    "testing$func": check_entry,
    "global": check_global,
    "get_global": check_get_global,
    "if": check_if,
    "for": check_for,
    "loop": check_loop,
    "break": check_early_exit,
    "continue": check_early_exit,
    "return": check_return,
    "reduce": check_aggregate,
    "scan": check_aggregate,
}
