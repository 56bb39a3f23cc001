"""Register classes: i1 is a predicate (p), f16 and bf16 take 16 bits (h), 64-bit types and pointers 64 (d), all others 32
(r) with undefined upper bits."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_CLASS = {"i1": "p", "f16": "h", "bf16": "h", "i64": "d", "f64": "d"}
CLASS_BYTES = {"p": 1, "h": 2, "r": 4, "d": 8}  # of one element that crosses shared memory


def reg_class(elem: Any) -> str:
    """p, h, r or d for an element type; a pointer has no name."""
    name = getattr(elem, "name", None)
    return "d" if name is None else _CLASS.get(name, "r")


def shared_bytes(elem: Any) -> int:
    """Bytes that an element takes while threads exchange it through shared memory."""
    return CLASS_BYTES[reg_class(elem)]


def moved_bytes(elem: Any) -> int:
    """Bytes that an element takes while a tile changes its layout through shared memory: bytes are packed into words."""
    return 1 if getattr(elem, "bits", 0) == 8 else shared_bytes(elem)


def registers_of_element(elem: Any) -> int:
    """32-bit registers that an element takes while a thread computes with it: narrow ones take a whole one each."""
    return max(1, getattr(elem, "bits", 64) // 32)


def registers_apart(type: Any) -> int:
    """32-bit registers of a thread that a tile takes where each of its elements has its own."""
    return type.layout.num_regs * registers_of_element(type.elem)  # type: ignore[no-any-return]


def registers_packed(type: Any) -> int:
    """32-bit registers of a thread that a tile takes where narrow elements share one; predicates are no registers."""
    bits = getattr(type.elem, "bits", 64)
    return type.layout.num_regs * (0 if bits == 1 else bits) // 32  # type: ignore[no-any-return]
