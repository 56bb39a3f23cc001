"""Values that tensor cores alone read: of a tf32, they ignore the 13 bits that rounding leaves over."""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileas import ops as tileas
from tileiras.compiler.target import mma

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tileiras.compiler.ir.core import Op, Value

RENAMES = frozenset(("reshape", "permute", "convert_layout"))
ON_SHARED = frozenset((tileas.WGMMA, tileas.WGMMA_REGISTERS, tileas.TENSOR_PRODUCT))
KEEPS = frozenset((tileas.FREE_SHARED, tileas.STORE_SHARED, tileas.COPY_VIEW, tileas.COPY_POINTERS))


def only_multiplied(value: Value) -> bool:
    """Whether every way from a value ends in an operand of a product by tensor cores."""
    seen, work = {value}, [value]
    while work:
        for user, index in work.pop().uses:
            following = _following(user, index)
            if following is None:
                return False
            work += [one for one in following if one not in seen]
            seen.update(following)
    return True


def _following(user: Op, index: int) -> list[Value] | None:
    """The values that an operand goes into; None where more than tensor cores read it."""
    name = user.spec.name
    if user.spec is tileas.LOAD_SHARED and user.results[0].type.elem.name != "tf32":  # type: ignore[attr-defined]
        return []  # what is not rounded yet, or another tile of the buffer
    if name in RENAMES or user.spec is tileas.LOAD_SHARED:
        return list(user.results)
    if user.spec is tileas.STORE_SHARED and index == 2:
        return [user.operands[0]]  # whoever reads the buffer
    if user.spec in KEEPS or user.spec in ON_SHARED:
        return []
    return [] if name == "mmaf" and index < 2 and user.attrs.get("atom") not in (None, mma.FMA) else None
