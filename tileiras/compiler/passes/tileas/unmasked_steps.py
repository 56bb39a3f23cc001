"""TileASUnmaskedSteps: the iterations in which a mask covers nothing run in a loop of their own, without it.

    for %j = %0 to %n {                          %u = the first %j in which some column is no longer below %rows
      %s = product ..                            %a.. = for %j = %0 to %u {
      %m = cmpi %columns, %rows                    %s = product ..
      %x = select %m, %s, -inf          ->         .. %s ..
      ..                                         }
    }                                            for %j = %u to %n (%a..) { as before }

Attention that looks at no later key compares each score's column with its row in each step, and a tile of keys that ends in front
of the first row needs none of it; so it is with keys behind the end of a sequence, of which the last tile alone has some, and
with windows, which have masked steps at both ends. What ends a tile in all steps alike, as rows do behind a bias that was padded,
is asked once: where it does, all steps are masked. Which steps these are is a number that can be computed in front of the loop
where what is compared goes up with the loop's index (`index_forms.py`); it is computed in 64 bits, and where anything that is
compared would wrap around, no step is thought to be unmasked.

It is done when all else is: what runs ahead, its stages and their phases are values that the loop carries, so that one loop goes
on where the other ends, and nothing is waited for in between but products that still add up. A loop that goes on with another
one's sums was divided by who wrote it.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileas import diags as D
from tileiras.compiler.dialects.nv_tileas import ops as tileas
from tileiras.compiler.ir.build import create
from tileiras.compiler.ir.clone import clone_op
from tileiras.compiler.ir.core import Op, Value
from tileiras.compiler.ir.dense import constant_bytes, num_elements
from tileiras.compiler.ir.passes import Context, Pass
from tileiras.compiler.ir.spec import NO_MEMORY_EFFECT, PURE
from tileiras.compiler.ir.types import I1, I32, I64, Dense, Ptr, TensorType, TileType
from tileiras.compiler.ir.walk import erase_unused
from tileiras.compiler.schedule.candidates import constant_int
from tileiras.compiler.schedule.staging import PADDING
from tileiras.compiler.target.cost import CostModel

from .index_forms import Form, form_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

PRODUCTS = frozenset(
    ("mmaf", "mmai", "mma_block_scaled", "wgmma", "wgmma.registers", "tensor_memory.product")
)
IN_FRAGMENTS = frozenset(("mmaf", "mmai", "mma_block_scaled"))  # sums in registers that ptxas spills
WARPGROUP = (tileas.WGMMA, tileas.WGMMA_REGISTERS)
FED = frozenset(("load_shared", "bulk.wait", "wgmma", "wgmma.registers", "tensor_memory.product"))
BELOW = {  # predicate -> (whether the sides change places, what the difference of the sides may be at most)
    "less_than": (False, -1), "less_than_or_equal": (False, 0), "greater_than": (True, -1),
    "greater_than_or_equal": (True, 0),
}  # fmt: skip
NEGATED = {
    "less_than": "greater_than_or_equal", "less_than_or_equal": "greater_than",
    "greater_than": "less_than_or_equal", "greater_than_or_equal": "less_than",
}  # fmt: skip
SIGNED = {"signedness": "signed"}
LEAST, GREATEST = -(1 << 31), (1 << 31) - 1


class UnmaskedSteps(Pass):
    NAME = "TileASUnmaskedSteps"
    SUMMARY = "Run the iterations in which a mask covers nothing without it"
    """
    does: iterations of loops with products in which a mask of rows and columns covers nothing run in a loop of their own,
      without comparisons and choices
    without: each score is compared in each step
    acts: staged_flash_window_64 on sm_90
    """
    __slots__ = ()

    def run(self, func: Any, context: Context) -> bool:
        for loop in [op for op in func.walk() if op.spec.name == "for"]:
            if not divisible(loop):
                continue
            tests = tests_of(loop)
            if tests:
                context.remark(D.UNMASKED, loop)
                divide(loop, tests)
        return True


class Test:
    """A comparison that holds for all elements (`holds`), or for none, in the iterations up to a number, or from one on; or in
    all iterations, where it does in front of the loop."""

    __slots__ = ("difference", "holds", "op", "sides")

    def __init__(self, op: Op, holds: bool, sides: tuple[Form, Form], difference: Form) -> None:
        self.op = op
        self.holds = holds
        self.sides = sides
        self.difference = difference  # not above zero where it is so

    @property
    def ends(self) -> bool:
        """Whether it is so up to a number, not from one on."""
        return self.difference.index > 0


def divisible(loop: Op) -> bool:
    """Whether a loop has products that copies feed, and counts by one, and goes on with no other loop's sums; nor are its own so
    many that each loop would spill some."""
    body = loop.regions[0].block
    if loop.operands[0].type.elem != I32 or loop.attr("unsignedCmp") or constant_int(loop.operands[2]) != 1:  # type: ignore[attr-defined]
        return False
    if any(op.spec.name in ("for", "loop") for op in body.ops):
        return False
    if body.ops[-1].spec.name != "continue" or any(op.spec.name in ("break", "return") for op in loop.walk()):
        return False
    for value in loop.operands[3:]:
        while value.op is not None and value.op.spec is tileas.CONVERT_LAYOUT:
            value = value.op.operands[0]
        if value.op is not None and value.op.spec.name == "for" and multiplies(value.op):
            return False
    if any(op.spec.name in IN_FRAGMENTS for op in body.ops) and carried(loop) > CostModel.divided_sums:
        return False
    return multiplies(loop) and any(op.spec.name in FED for op in body.ops)


def carried(loop: Op) -> int:
    """Registers of a thread that what a loop carries takes."""
    bits = 0
    for value in loop.regions[0].block.args[1:]:
        layout: Any = getattr(value.type, "layout", None)
        if layout is not None:
            elem: Any = value.type.elem  # type: ignore[attr-defined]
            bits += layout.num_regs * (64 if isinstance(elem, Ptr) else elem.bits)
    return bits // 32


def multiplies(loop: Op) -> bool:
    return any(op.spec.name in PRODUCTS for op in loop.regions[0].block.ops)


def tests_of(loop: Op) -> list[Test]:
    """The comparisons that masks of a loop's iterations are made of, as far as it is known where they cover nothing."""
    found: dict[Op, Test] = {}
    for op in loop.regions[0].block.ops:
        if op.spec.name == "select" and num_elements(op.results[0].type.shape) >= CostModel.masked_elements:  # type: ignore[attr-defined]
            kept = [is_number(v) for v in op.operands[1:]]
            if kept.count(True) == 1:
                for test in tests_in(op.operands[0], kept[1], loop):
                    if test.difference.index or PADDING in op.attrs:  # most tiles lie within their tensor
                        found.setdefault(test.op, test)
    return list(found.values()) if any(test.difference.index for test in found.values()) else []


def is_number(value: Value) -> bool:
    """Whether a tile is one number that stands in the program: what masked elements become."""
    while value.op is not None and value.op.spec.name in ("convert_layout", "broadcast", "reshape"):
        value = value.op.operands[0]
    return value.op is not None and value.op.spec.name == "constant"


def tests_in(mask: Value, holds: bool, loop: Op) -> list[Test]:
    """The comparisons of a mask all of which hold, or none, where the mask does, or does not."""
    found = []
    work = [mask]
    while work:
        op = work.pop().op
        if op is None or op.block is not loop.regions[0].block:
            continue
        name = op.spec.name
        if name in ("convert_layout", "broadcast", "reshape") or name == ("andi" if holds else "ori"):
            work += op.operands
        elif name == "cmpi" and (test := test_of(op, holds, loop)) is not None:
            found.append(test)
    return found


def test_of(op: Op, holds: bool, loop: Op) -> Test | None:
    predicate = op.attr("comparison_predicate")
    if op.attr("signedness") != "signed" or predicate not in BELOW:
        return None
    swapped, most = BELOW[predicate if holds else NEGATED[predicate]]
    left, right = (form_of(v, loop) for v in op.operands)
    if left is None or right is None:
        return None
    sides = (right, left) if swapped else (left, right)
    difference = sides[0].plus(sides[1], -1)
    difference = Form(difference.index, difference.terms, difference.low - most, difference.high - most)
    step = abs(difference.index)
    if step & (step - 1) or not difference.small:
        return None
    return Test(op, holds, (left, right), difference)


class Before:
    """Makes scalars in front of a loop."""

    def __init__(self, loop: Op) -> None:
        self.loop = loop
        self.layout = loop.operands[0].type.layout  # type: ignore[attr-defined]
        self.long: dict[Value, Value] = {}

    def __call__(
        self, name: str, operands: Iterable[Value], elem: Any, attrs: dict[str, Any] | None = None
    ) -> Value:
        block = self.loop.block
        assert block is not None
        made = create(
            tileas.BY_NAME[name], operands, (TensorType(elem, (), self.layout),), attrs, (), self.loop.loc
        )
        return block.insert_before(self.loop, made).result

    def number(self, value: int, elem: Any = I64) -> Value:
        data = (value % (1 << elem.bits)).to_bytes(constant_bytes(elem), "little")
        return self("constant", (), elem, {"value": Dense(TileType(elem, ()), data)})

    def extended(self, value: Value) -> Value:
        if value not in self.long:
            self.long[value] = self("exti", (value,), I64, SIGNED)
        return self.long[value]

    def sum(self, terms: dict[Value, int], plus: int) -> Value:
        """The terms, each a scalar of 32 bits times its number, and a constant."""
        out = None
        for value, by in terms.items():
            part = self.extended(value)
            if by not in (1, -1) or out is None and by == -1:
                part = self("muli", (part, self.number(by)), I64)
                by = 1
            out = part if out is None else self("addi" if by == 1 else "subi", (out, part), I64)
        if out is None:
            return self.number(plus)
        return self("addi", (out, self.number(plus)), I64) if plus else out

    def within(self, form: Form, lower: Value, upper: Value) -> Value | None:
        """Whether a form is a number of 32 bits in all iterations; None: it is one itself."""
        if not form.index and form.low == form.high == 0 and list(form.terms.values()) in ([], [1]):
            return None
        if not form.index and not form.terms and LEAST <= form.low and form.high <= GREATEST:
            return None
        tests = []
        for end, at, predicate, limit in (
            (form.low, lower if form.index > 0 else upper, "greater_than_or_equal", LEAST),
            (form.high, upper if form.index > 0 else lower, "less_than_or_equal", GREATEST),
        ):
            terms = {**form.terms, at: form.terms.get(at, 0) + form.index} if form.index else form.terms
            attrs = {"comparison_predicate": predicate, **SIGNED}
            tests.append(self("cmpi", (self.sum(terms, end), self.number(limit)), I1, attrs))
        return self("andi", tests, I1)

    def boundary(self, test: Test, lower: Value, upper: Value) -> Value:
        """The first iteration in which a test is no longer so, or the first in which it is; 64 bits, within the loop's bounds."""
        form, step = test.difference, abs(test.difference.index)
        shift = step.bit_length() - 1
        if test.ends:  # index <= (-terms - high) / step
            at = self.sum({value: -by for value, by in form.terms.items()}, step - form.high)
        else:  # index >= (terms + high) / step
            at = self.sum(form.terms, form.high + step - 1)
        if shift:
            at = self("shri", (at, self.number(shift)), I64, SIGNED)
        at = self("maxi", (at, self.extended(lower)), I64, SIGNED)
        return self("mini", (at, self.extended(upper)), I64, SIGNED)


def divide(loop: Op, tests: list[Test]) -> None:
    """Makes of a loop one for the masked iterations in front, one for the others, and one for the masked ones behind."""
    put = Before(loop)
    lower, upper, step = loop.operands[:3]
    begins: Value | None = None
    ends: Value | None = None
    fits: Value | None = None
    for test in tests:
        if not test.difference.index:  # of all steps or of none
            attrs = {"comparison_predicate": "less_than_or_equal", **SIGNED}
            form = test.difference
            so = put("cmpi", (put.sum(form.terms, form.high), put.number(0)), I1, attrs)
            fits = so if fits is None else put("andi", (fits, so), I1)
            continue
        at = put.boundary(test, lower, upper)
        if test.ends:
            ends = at if ends is None else put("mini", (ends, at), I64, SIGNED)
        else:
            begins = at if begins is None else put("maxi", (begins, at), I64, SIGNED)
        for side in test.sides:
            inside = put.within(side, lower, upper)
            if inside is not None:
                fits = inside if fits is None else put("andi", (fits, inside), I1)
    first = lower if begins is None else put("trunci", (begins,), I32)
    if ends is not None:
        last = put("maxi", (put("trunci", (ends,), I32), first), I32, SIGNED)
        last = last if fits is None else put("select", (fits, last, first), I32)
    else:
        last = upper
        first = first if fits is None else put("select", (fits, first, upper), I32)
    carried = loop.operands[3:]
    waits = any(op.spec in WARPGROUP for op in loop.regions[0].block.ops)
    bounds = [(first, last, True)]
    if begins is not None:
        bounds.insert(0, (lower, first, False))
    if ends is not None:
        bounds.append((last, upper, False))
    block = loop.block
    assert block is not None
    for low, high, unmasked in bounds:
        made = clone_op(loop, {})
        for index, value in enumerate((low, high, step, *carried)):
            if made.operands[index] is not value:
                made.set_operand(index, value)
        block.insert_before(loop, made)
        if unmasked:
            unmask(loop, made, tests)
        if waits and high is not upper:  # the next loop copies sums to registers of its own
            block.insert_before(loop, create(tileas.WGMMA_WAIT, (), (), {"pending": 0}, (), loop.loc))
        carried = made.results
    for old, new in zip(loop.results, carried):
        old.replace_all_uses_with(new)
    loop.erase()


def unmask(loop: Op, made: Op, tests: list[Test]) -> None:
    """Puts what is known of comparisons into the copy of a loop."""
    copies = dict(zip(loop.regions[0].block.ops, made.regions[0].block.ops))
    decided: dict[bool, set[Value]] = {True: set(), False: set()}  # masks of one truth
    for test in tests:
        op = copies[test.op]
        type: Any = op.result.type
        value = Dense(TileType(I1, type.shape), b"\xff" if test.holds else b"\0")
        known = create(tileas.BY_NAME["constant"], (), (type,), {"value": value}, (), op.loc)
        assert op.block is not None
        op.block.insert_before(op, known)
        op.result.replace_all_uses_with(known.result)
        erase_unused(op, pure)
        fold(known.result, test.holds, decided[test.holds])


def fold(value: Value, holds: bool, decided: set[Value]) -> None:
    """Does without what a mask of one truth for all elements decides. `decided`: others of that truth, and those that follow."""
    work = [value]
    while work:
        value = work.pop()
        decided.add(value)
        for user, index in list(value.uses):
            name, result = user.spec.name, user.results[0] if user.results else None
            if result is None:
                continue
            kept: Value | None = None
            if name in ("convert_layout", "broadcast", "reshape") or name == ("ori" if holds else "andi"):
                work.append(result)
            elif name == ("andi" if holds else "ori"):
                kept = user.operands[1 - index]
                if kept in decided:  # their layouts may differ
                    work.append(result)
                    continue
            elif name == "select" and index == 0:
                kept = user.operands[1 if holds else 2]
            if kept is not None and kept.type == result.type:
                result.replace_all_uses_with(kept)
                erase_unused(user, pure)


def pure(op: Op) -> bool:
    return bool(op.spec.traits & (PURE | NO_MEMORY_EFFECT)) and not op.regions
