"""What the elements of a tile of 32-bit integers are in an iteration of a loop: a multiple of its index, numbers that stand in
front of the loop, and a range.

    %c = addi (broadcast (muli %j, 64)), (iota : 64)        64 * %j + [0, 63]
    %r = addi (broadcast %first), (iota : 64)               %first + [0, 63]

Sums and products of the machine wrap around at 32 bits, those of a form do not: an element is what its form says where that
fits 32 bits, whatever wrapped on the way.
"""

from __future__ import annotations

from tileiras.compiler.ir.dense import dense_bits
from tileiras.compiler.ir.types import I32
from tileiras.compiler.ir.walk import DEEP
from tileiras.compiler.schedule.candidates import constant_int, is_outside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tileiras.compiler.ir.core import Op, Value

SAME_ELEMENTS = frozenset(("reshape", "broadcast", "permute", "convert_layout", "assume"))
# of multiples and constants, and of terms: sums of so many with 32-bit numbers stay far from the end of 64 bits
MOST, TERMS = 1 << 16, 4


class Form:
    """`index` times the loop's index, each of `terms` (a scalar in front of the loop, signed) times its number, and what lies
    from `low` to `high`."""

    __slots__ = ("high", "index", "low", "terms")

    def __init__(self, index: int, terms: dict[Value, int], low: int, high: int) -> None:
        self.index = index
        self.terms = terms
        self.low = low
        self.high = high

    def plus(self, other: Form, times: int = 1) -> Form:
        """This form and `times` another."""
        terms = dict(self.terms)
        for value, by in other.terms.items():
            terms[value] = terms.get(value, 0) + by * times
        ends = sorted((other.low * times, other.high * times))
        return Form(
            self.index + other.index * times,
            {value: by for value, by in terms.items() if by},
            self.low + ends[0],
            self.high + ends[1],
        )

    @property
    def small(self) -> bool:
        """Whether 64 bits hold it, and what is compared with it, for all numbers of 32 bits."""
        numbers = (self.index, self.low >> 16, self.high >> 16, *self.terms.values())
        return len(self.terms) <= TERMS and all(-MOST <= n <= MOST for n in numbers)


NOTHING = Form(0, {}, 0, 0)


def form_of(value: Value, loop: Op, depth: int = 0) -> Form | None:
    """The form of a tile or a scalar in the iterations of a loop; None: it is computed otherwise."""
    type = value.type
    if getattr(type, "elem", None) != I32 or depth > DEEP:
        return None
    op = value.op
    if value is loop.regions[0].block.args[0]:
        return Form(1, {}, 0, 0)
    name = op.spec.name if op is not None else ""
    if op is not None and name == "constant":
        numbers = [n - (1 << 32) if n >> 31 else n for n in dense_bits(op.attr("value"))]
        return Form(0, {}, min(numbers), max(numbers))
    if type.shape == () and is_outside(value, loop):  # type: ignore[attr-defined]
        return Form(0, {value: 1}, 0, 0)
    if op is None:
        return None
    if name == "iota":
        return Form(0, {}, 0, type.shape[0] - 1)  # type: ignore[attr-defined]
    if name in SAME_ELEMENTS:
        return form_of(op.operands[0], loop, depth + 1)
    if name in ("addi", "subi"):
        left, right = (form_of(v, loop, depth + 1) for v in op.operands)
        found = None if left is None or right is None else left.plus(right, 1 if name == "addi" else -1)
        return found if found is not None and found.small else None
    if name == "muli":
        for side in (0, 1):
            by = constant_int(op.operands[side])
            other = form_of(op.operands[1 - side], loop, depth + 1) if by is not None else None
            if by is not None and other is not None:
                found = NOTHING.plus(other, by)
                return found if found.small else None
    return None
