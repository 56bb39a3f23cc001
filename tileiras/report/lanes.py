"""Addresses of the 32 lanes of a warp, computed from the records of the generated code.

Only integers that depend on the thread number and on constants are followed, in warp 0; shared memory begins at 0. A
register that is written twice, loaded, or made by anything else is not known, and neither is what depends on it.
"""

from __future__ import annotations

from tileiras.compiler.nvvm.code import Addr, Reg, Sym

from .shared import BANKS, wavefronts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

LANES = 32
WORD = 0xFFFFFFFF
SPECIAL = {
    "%tid.x": tuple(range(LANES)),
    "%laneid": tuple(range(LANES)),
    "%tid.y": (0,) * LANES,
    "%tid.z": (0,) * LANES,
}
EXCHANGES = {"reduce": "reduction", "scan": "scan", "atomic_rmw_tko": "atomic", "atomic_cas_tko": "atomic"}


def _signed(value: int) -> int:
    return (value & WORD) - ((value & 0x80000000) << 1)


_OPERATIONS: dict[str, Callable[..., int]] = {
    "mov": lambda a: a, "cvt": lambda a: a, "add": lambda a, b: a + b, "sub": lambda a, b: a - b,
    "and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b, "not": lambda a: ~a,
    "shl": lambda a, b: a << min(b, 64), "shr": lambda a, b: a >> min(b, 64), "mul": lambda a, b: a * b,
    "mad": lambda a, b, c: a * b + c, "selp": lambda a, b, p: a if p else b, "min": min, "max": max,
}  # fmt: skip
_TESTS: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b, "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
}  # fmt: skip


class Lanes:
    """The integers that the lanes of warp 0 hold in the registers of a kernel."""

    def __init__(self, code: list[Any]) -> None:
        self.writer: dict[Reg, Any] = {}
        for record in code:
            if record.__class__ is tuple and record[1].__class__ is Reg:
                self.writer[record[1]] = None if record[1] in self.writer else record
        self.known: dict[Reg, tuple[int, ...] | None] = {}

    def value(self, x: Any) -> tuple[int, ...] | None:
        """An operand by lane; None where it is not known."""
        kind = x.__class__
        if kind is int or kind is bool:
            return (x,) * LANES
        if kind is Sym:
            return SPECIAL.get(x.name, (0,) * LANES if x.name.startswith("$smem") else None)
        if kind is Addr:
            base = self.value(x.base)
            return None if base is None else tuple(each + x.offset_bytes for each in base)
        if kind is not Reg:
            return None
        if x not in self.known:
            self.known[x] = None  # what depends on itself is not known
            self.known[x] = self._made(self.writer.get(x))
        return self.known[x]

    def _made(self, record: Any) -> tuple[int, ...] | None:
        if record is None or record[3] is not None:
            return None
        name, *modifiers = record[0].split(".")
        width = modifiers[-1] if modifiers else ""
        if name == "setp" and len(modifiers) == 2 and modifiers[0] in _TESTS:
            make: Callable[..., int] = _TESTS[modifiers[0]]
        elif name in _OPERATIONS and width[:1] in ("b", "u", "s", "p") and "hi" not in modifiers:
            make = _OPERATIONS[name]
        else:
            return None
        sources = [self.value(source) for source in record[2]]
        if any(source is None for source in sources):
            return None
        own = (lambda v: _signed(v)) if width == "s32" else (lambda v: v & WORD) if width[1:] == "32" else int
        try:
            return tuple(
                own(make(*(own(v) for v in each)))
                for each in zip(*sources)  # type: ignore[arg-type]
            )
        except (TypeError, ValueError):
            return None

    def active(self, guard: Any) -> list[int] | None:
        """The lanes that a guard lets through; None where it is not known."""
        if guard is None:
            return list(range(LANES))
        register, negated = guard if guard.__class__ is tuple else (guard, False)
        found = self.value(register)
        return None if found is None else [n for n in range(LANES) if bool(found[n]) != bool(negated)]


def _width(opcode: str) -> int:
    """Bytes of a thread."""
    count, bits = 1, 32
    for word in opcode.split("."):
        if word[:1] == "v" and word[1:].isdigit():
            count = int(word[1:])
        elif word[:1] in ("b", "u", "s", "f") and word[1:].isdigit():
            bits = int(word[1:])
    return count * bits // 8


def exchanges(code: list[Any], owner: Callable[[Any], tuple[Any, int]]) -> list[dict[str, Any]]:
    """The accesses to shared memory of reductions, scans and atomics: of each op the worst write and the worst read.

    owner(record): (its op of nv_tileas or None, its line).
    """
    lanes: Lanes | None = None
    found: dict[tuple[int, str], dict[str, Any]] = {}
    for record in code:
        if record.__class__ is not tuple or not record[0].startswith(("st.shared", "ld.shared")):
            continue
        op, line = owner(record)
        what = EXCHANGES.get(op.spec.name) if op is not None and line >= 0 else None
        if what is None:
            continue
        lanes = lanes or Lanes(code)
        addresses = lanes.value(next((s for s in record[2] if s.__class__ is Addr), None))
        active = lanes.active(record[3])
        if addresses is None or not active:
            continue
        role = "write" if record[0].startswith("st") else "read"
        width = _width(record[0])
        waves, least, banks = wavefronts([addresses[n] for n in active], width)
        row = {
            "line": line, "op": op.spec.name, "role": role, "what": what, "width": width, "wavefronts": waves,
            "least": least, "banks": banks, "fixed": False,
        }  # fmt: skip
        assert len(banks) == BANKS
        best = found.get((line, role))
        if best is None or (waves / least, waves) > (best["wavefronts"] / best["least"], best["wavefronts"]):
            found[line, role] = row
    return list(found.values())
