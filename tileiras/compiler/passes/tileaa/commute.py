"""Whether the body of a reduction commutes: by its one op, or by trying every way two elements can compare.

A body like argmax chooses one of two elements by comparisons. Its operand pairs relate in few ways (less, equal,
greater, either or both NaN); when the choice follows the elements in all of them as the elements change places,
order does not matter, up to the sign of zero and the payload of NaN. A body that never asks whether an element is
NaN does not associate when one is, so no order is right then, and none is kept.
"""

from __future__ import annotations

from itertools import product

from tileiras.compiler.ir.dense import dense_bits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

COMMUTES = frozenset({"addi", "addf", "muli", "mulf", "maxi", "mini", "maxf", "minf", "andi", "ori", "xori"})
_ORDER = {"less_than": ("lt",), "less_than_or_equal": ("lt", "eq"), "greater_than": ("gt",), "equal": ("eq",),
          "greater_than_or_equal": ("gt", "eq"), "not_equal": ("lt", "gt")}  # fmt: skip
_SWAPPED = {"lt": "gt", "gt": "lt", "x_nan": "y_nan", "y_nan": "x_nan"}
_SAME = ("eq", "nan")
WAYS = ("lt", "eq", "gt", "x_nan", "y_nan", "nan")
MAX_PAIRS = 4  # 6^4 ways


def is_one_op(block: Any) -> bool:
    """Whether the body is one commutative op on (earlier, later)."""
    return (
        len(block.ops) == 2
        and block.ops[0].spec.name in COMMUTES
        and list(block.ops[-1].operands) == list(block.ops[0].results)
        and set(block.ops[0].operands) == set(block.args)
    )


def commutes(block: Any) -> bool:
    """Whether the body is known to commute, up to the sign of zero and the payload of NaN."""
    if is_one_op(block):
        return True
    pairs = len(block.args) // 2
    if pairs > MAX_PAIRS:
        return False
    place = {arg: k for k, arg in enumerate(block.args)}
    asks = any(op.spec.name == "cmpf" and op.operands[0] is op.operands[1] for op in block.ops)
    ways = []
    for i in range(pairs):
        nan = asks and not str(block.args[2 * i].type.elem).startswith("i")
        ways.append(WAYS if nan else WAYS[:3])
    try:
        for way in product(*ways):
            back = [_SWAPPED.get(w, w) for w in way]
            if all(w in _SAME for w in way):
                _choices(block, place, way)
                continue
            for i, (here, there) in enumerate(zip(_choices(block, place, way), _choices(block, place, back))):
                if here == there and here is not None and way[i] not in _SAME:
                    return False
    except _Unknown:
        return False
    return True


def earlier_is_chosen(block: Any) -> frozenset[str] | None:
    """How two elements relate of which a body chooses the earlier one and its number, where numbers increase: argmax, argmin.
    None where a body of an element and a number does anything else."""
    if len(block.args) != 4:
        return None
    place = {arg: k for k, arg in enumerate(block.args)}
    found = set()
    try:
        for way in WAYS:
            value, number = _choices(block, place, (way, "lt"))
            if value is None or value != number:
                return None
            if not value:
                found.add(way)
    except _Unknown:
        return None
    return frozenset(found)


def chooses_alike(block: Any) -> bool:
    """Whether a body of an element and a number chooses the same pair whichever of the two comes first, where numbers differ."""
    if len(block.args) != 4:
        return False
    place = {arg: k for k, arg in enumerate(block.args)}
    try:
        for way in product(WAYS, ("lt", "gt")):
            value, number = _choices(block, place, way)
            there = _choices(block, place, [_SWAPPED.get(w, w) for w in way])
            if value is None or value != number or there != [1 - value] * 2:
                return False
    except _Unknown:
        return False
    return True


class _Unknown(Exception):
    """The body does something that comparisons do not tell."""


def _choices(block: Any, place: dict[Any, int], way: Any) -> list[int | None]:
    """For every yielded value: 0 the earlier element, 1 the later one, None a commutative mix of the two."""
    truth: dict[Any, bool] = {}
    mixed: dict[Any, int] = {}  # pair that a value mixes
    chosen: dict[Any, int] = {}  # argument that a value is
    signs: dict[int, str] = {}

    def known(value: Any) -> bool:
        if value not in truth:
            raise _Unknown
        return truth[value]

    for op in block.ops[:-1]:
        name, result = op.spec.name, op.results[0]
        where = [place.get(v, -1) for v in op.operands]
        if name in ("cmpf", "cmpi"):
            a, b = where
            if a < 0 or b < 0 or a // 2 != b // 2:
                raise _Unknown
            if name == "cmpi" and signs.setdefault(a // 2, op.attr("signedness")) != op.attr("signedness"):
                raise _Unknown
            truth[result] = _compare(op, a, b, way[a // 2])
        elif name == "constant" and str(result.type.elem) == "i1":
            truth[result] = bool(dense_bits(op.attr("value"))[0] & 1)
        elif name in ("andi", "ori", "xori") and str(result.type.elem) == "i1" and min(where) < 0:
            x, y = (known(v) for v in op.operands)
            truth[result] = x and y if name == "andi" else x or y if name == "ori" else x != y
        elif name == "select" and min(where[1:]) >= 0 and where[1] // 2 == where[2] // 2:
            chosen[result] = where[1] if known(op.operands[0]) else where[2]
        elif name in COMMUTES and sorted(where) == [2 * (where[0] // 2), 2 * (where[0] // 2) + 1]:
            mixed[result] = where[0] // 2
        else:
            raise _Unknown
    out: list[int | None] = []
    for i, value in enumerate(block.ops[-1].operands):
        if mixed.get(value) == i:
            out.append(None)
        elif value in chosen and chosen[value] // 2 == i:
            out.append(chosen[value] % 2)
        else:
            raise _Unknown
    return out


def _compare(op: Any, a: int, b: int, relation: str) -> bool:
    """A comparison of two arguments of one pair that relate so."""
    if a == b:
        relation = "nan" if relation in ("nan", "y_nan" if a % 2 else "x_nan") else "eq"
    elif a % 2:
        relation = _SWAPPED.get(relation, relation)
    if relation.endswith("nan"):
        return op.attr("comparison_ordering") == "unordered"
    return relation in _ORDER[op.attr("comparison_predicate")]
