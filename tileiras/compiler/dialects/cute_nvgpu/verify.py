"""Rules of the cute_nvgpu dialect: mode patterns of copy atoms, atoms against the SM, TMA descriptors."""

from __future__ import annotations

from tileiras.compiler.ir.verify import Invalid, Rules
from tileiras.compiler.target import mma

from . import diags as D
from .atoms import COPY_KINDS, CopyAtom, MmaAtom, TmaAtom

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op


def atom_of(op: Op, kind: Any, name: str) -> Any:
    atom = op.attrs["atom"]
    if type(atom) is not kind:
        raise Invalid(D.WRONG, want=f"#cute_nvgpu.{name}")
    return atom


def check_arch(op: Op, name: str, need: int) -> None:
    have = op.attrs["arch"]
    if have < need:
        raise Invalid(D.ARCH, atom=name, need=need, have=have)


def check_copy(op: Op) -> None:
    atom = atom_of(op, CopyAtom, "copy_atom")
    row = COPY_KINDS.get(atom.kind)
    if row is None:
        raise Invalid(D.KIND, got=atom.kind)
    source, target, bits, need = row
    if source != "any" and (atom.source, atom.target) != (source, target):
        raise Invalid(
            D.MODES, kind=atom.kind, want=f"{source} -> {target}", got=f"{atom.source} -> {atom.target}"
        )
    if atom.bits not in bits:
        raise Invalid(D.BITS, kind=atom.kind, want=", ".join(map(str, bits)), got=atom.bits)
    check_arch(op, atom.kind, need)


def check_mma(op: Op) -> None:
    atom = atom_of(op, MmaAtom, "mma_atom")
    need = mma.shapes().get((atom.m, atom.n, atom.k, str(atom.elem), str(atom.acc)))
    if need is None:
        raise Invalid(D.MMA, m=atom.m, n=atom.n, k=atom.k, elem=atom.elem, acc=atom.acc)
    check_arch(op, f"m{atom.m}n{atom.n}k{atom.k} of {atom.elem}", need)


def check_tma(op: Op) -> None:
    atom = atom_of(op, TmaAtom, "tma_atom")
    if not 1 <= len(atom.box) <= 5 or any(d is None or not 1 <= d <= 256 for d in atom.box):
        raise Invalid(D.BOX, box=", ".join(map(str, atom.box)))
    inner = atom.box[-1] * atom.elem.bits // 8
    if inner % 16:
        raise Invalid(D.INNER, got=inner)
    if atom.space != "shared":
        raise Invalid(D.SPACE, got=atom.space)
    if atom.swizzle_bytes and inner > atom.swizzle_bytes:
        raise Invalid(D.SWIZZLE, got=inner, want=atom.swizzle_bytes)
    check_arch(op, "tma_load", COPY_KINDS["tma_load"][3])


RULES = Rules()
RULES.checks = {"copy": check_copy, "mma": check_mma, "tma_load": check_tma}
