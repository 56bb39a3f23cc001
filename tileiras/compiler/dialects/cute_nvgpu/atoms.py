"""Copy, MMA and TMA atoms: what one instruction moves or multiplies, from where to where, and the first SM that has it.

Sources: PTX ISA manual, data movement instructions, target ISA notes of each; MMA shapes are those of target/mma.py.
"""

from __future__ import annotations

from tileiras.compiler.ir import types as T

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# kind -> (source space, destination space, bits of one access, first SM)
COPY_KINDS: dict[str, tuple[str, str, tuple[int, ...], int]] = {
    "universal": ("any", "any", (8, 16, 32, 64, 128), 75),
    "ldmatrix": ("shared", "register", (128, 256, 512), 75),
    "cp_async": ("global", "shared", (32, 64, 128), 80),
    "stmatrix": ("register", "shared", (128, 256, 512), 90),
    "tma_load": ("global", "shared", (128,), 90),
    "tma_store": ("shared", "global", (128,), 90),
}
CopyAtom = T._interned(
    "CopyAtom",
    ("kind", "source", "target", "bits"),
    "One copy instruction: spaces and bits of an access.",
    lambda a: f"#cute_nvgpu.copy_atom<{a.kind}, {a.source} -> {a.target}, {a.bits}>",
)
MmaAtom = T._interned(
    "MmaAtom",
    ("m", "n", "k", "elem", "acc"),
    "One MMA instruction.",
    lambda a: f"#cute_nvgpu.mma_atom<{a.m}, {a.n}, {a.k}, {a.elem}, {a.acc}>",
)
TmaAtom = T._interned(
    "TmaAtom",
    ("box", "elem", "space", "swizzle_bytes"),
    "One bulk tensor copy: box, element, destination space, swizzle.",
    lambda a: f"#cute_nvgpu.tma_atom<{'x'.join(map(str, a.box))}x{a.elem}, {a.space}, {a.swizzle_bytes}>",
)
for _attr in (CopyAtom, MmaAtom, TmaAtom):
    _attr.DIALECT = "cute_nvgpu"
    _attr.IS_ATTR = True


def parse_copy(p: Any) -> Any:
    p.expect("<")
    kind = p.word("a copy kind")
    p.expect(",")
    source = p.word("a state space")
    p.expect("->")
    target = p.word("a state space")
    p.expect(",")
    bits = p.integer()
    p.expect(">")
    return CopyAtom(kind, source, target, bits)


def parse_mma(p: Any) -> Any:
    p.expect("<")
    sizes = []
    for _ in range(3):
        sizes.append(p.integer())
        p.expect(",")
    elem = p.type()
    p.expect(",")
    acc = p.type()
    p.expect(">")
    return MmaAtom(*sizes, elem, acc)


def parse_tma(p: Any) -> Any:
    p.expect("<")
    box = p.dims()
    elem = p.type()
    p.expect(",")
    space = p.word("a state space")
    p.expect(",")
    swizzle = p.integer()
    p.expect(">")
    return TmaAtom(box, elem, space, swizzle)
