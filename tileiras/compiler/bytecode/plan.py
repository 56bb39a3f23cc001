"""Decode plans: an OpSpec at one bytecode version, flattened into what reader and writer loop over.

Made on first use of an op, once per version. No op is named here: everything follows from the fields.
"""

from __future__ import annotations

from tileiras.compiler.dialects.cuda_tile.ops import BY_NAME, ENUMS
from tileiras.compiler.ir.spec import ISOLATED, OPERAND_SEGMENTS, OPTIONAL, REQUIRED, SYMBOL, VARIADIC

from .opcodes import NAMES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tileiras.compiler.ir.spec import OpSpec

FIXED, COUNTED, SEGMENTED = 0, 1, 2


class Plan:
    """How one op lies in the file."""

    __slots__ = (
        "absent", "attrs", "encoding", "flags", "has_flags", "operands", "regions", "required",
        "result_count", "results", "spec", "units",
    )  # fmt: skip

    def __init__(self, spec: OpSpec, minor: int) -> None:
        self.spec = spec
        # A variadic operand or result puts the number of results into the file.
        self.result_count = any(a.mode == VARIADIC for a in spec.operands + spec.results)
        self.results = sum(1 for r in spec.results if r.since <= minor)  # without a count: always this many
        self.absent = tuple(r for r in spec.results if r.since > minor)  # results newer than the file
        bits = {name: bit for bit, (name, since) in enumerate(spec.flag_bits) if since <= minor}
        first = min((since for _, since in spec.flag_bits), default=99)
        self.has_flags = first <= minor
        self.flags = bits
        self.attrs = tuple(
            (a.name, bits.get(a.name, -1), a.kind, a.enum)
            for a in spec.attrs
            if a.since <= minor and a.kind != "unit" and not (a.optional and a.name not in bits)
        )
        self.units = tuple(
            (a.name, 1 << bits[a.name]) for a in spec.attrs if a.kind == "unit" and a.name in bits
        )
        modes = [o.mode for o in spec.operands]
        if all(mode == REQUIRED for mode in modes):
            self.encoding = FIXED
        else:
            self.encoding = SEGMENTED if spec.traits & OPERAND_SEGMENTS else COUNTED
        self.required = sum(1 for mode in modes if mode == REQUIRED)
        # Segmented: (mode, flag bit); an optional operand newer than the file has no bit and is absent.
        self.operands = tuple((o.mode, 1 << bits[o.name] if o.name in bits else 0) for o in spec.operands)
        self.regions = spec.regions


PLANS: dict[tuple[int, int], Plan | None] = {}
CASES: dict[str, tuple[str | None, ...]] = {}  # enum -> case name by number


def plan_of(opcode: int, minor: int) -> Plan | None:
    """The plan of an opcode in 13.`minor`, or None when the number means nothing (to this version)."""
    key = (opcode, minor)
    try:
        return PLANS[key]
    except KeyError:
        spec = BY_NAME.get(NAMES.get(opcode, ""))
        # Containers (module, entry, global) are sections or records of sections, never instructions.
        usable = spec is not None and spec.since <= minor and not spec.traits & (ISOLATED | SYMBOL)
        found = Plan(spec, minor) if usable else None  # type: ignore[arg-type]
        return PLANS.setdefault(key, found)


def cases_of(enum: str) -> tuple[str | None, ...]:
    """Names of the cases by their number (they are dense)."""
    cases = CASES.get(enum)
    if cases is None:
        table = ENUMS[enum]
        row: list[str | None] = [None] * (max(table.values()) + 1)
        for name, number in table.items():
            row[number] = name
        cases = CASES.setdefault(enum, tuple(row))
    return cases


__all__ = ["COUNTED", "FIXED", "OPTIONAL", "REQUIRED", "SEGMENTED", "VARIADIC", "Plan", "cases_of", "plan_of"]
