"""A broken compiler, as a command for `tileiras-reduce`: exit code 0 where its code computes something else than the reference.

    python tests/planted.py FAULT FILE

The fault is planted in the lowering of one operation. FILE is launched on arrays of our own, whatever parameters are left.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

import tileiras
from tileiras.compiler.lower import tileas_to_nvvm
from tileiras.run import LaunchError

ELEMENTS = 1 << 16
FLOATS = {"f16": np.float16, "f32": np.float32}


def operands_swapped(rule: Callable[..., None]) -> Callable[..., None]:
    """The lowering of an op that takes its first two operands, or a select's two values, in the wrong order."""

    def wrong(lowering: Any, op: Any) -> None:
        at = 1 if op.spec.name == "select" else 0
        own = op.operands
        op.operands = [*own[:at], own[at + 1], own[at], *own[at + 2 :]]
        try:
            rule(lowering, op)
        finally:
            op.operands = own

    return wrong


def records_changed(change: Callable[[Any], Any]) -> Callable[..., Callable[..., None]]:
    """The lowering of an op whose last instruction that `change` knows is another."""

    def plant(rule: Callable[..., None]) -> Callable[..., None]:
        def wrong(lowering: Any, op: Any) -> None:
            code = lowering.b.code
            start = len(code)
            rule(lowering, op)
            for at in range(len(code) - 1, start - 1, -1):
                made = change(code[at]) if code[at].__class__ is tuple else None
                if made is not None:
                    code[at] = made
                    return

        return wrong

    return plant


def wrong_lane(record: Any) -> Any:
    """A butterfly that meets half as far away."""
    opcode, into, sources, guard = record
    if opcode.startswith("shfl.sync.bfly") and isinstance(sources[1], int) and sources[1] > 1:
        return opcode, into, (sources[0], sources[1] // 2, *sources[2:]), guard
    return None


def halves_swapped(record: Any) -> Any:
    """A product that takes the two halves of its right fragment in the wrong order."""
    opcode, into, sources, guard = record
    if opcode.startswith("mma.sync"):
        return opcode, into, (sources[0], tuple(reversed(sources[1])), *sources[2:]), guard
    return None


# name -> (op, what is done to its lowering)
FAULTS: dict[str, tuple[str, Callable[..., Callable[..., None]]]] = {
    "select-inverted": ("select", operands_swapped),
    "quotient-inverted": ("divf", operands_swapped),
    "difference-negated": ("subf", operands_swapped),
    "reduction-asks-the-wrong-lane": ("reduce", records_changed(wrong_lane)),
    "product-takes-halves-in-the-wrong-order": ("mmaf", records_changed(halves_swapped)),
}


def plant(name: str) -> Callable[[], None]:
    """Plants a fault; what it returns takes it out again."""
    op, change = FAULTS[name]
    if op not in tileas_to_nvvm.LOWER:
        module = f"{tileas_to_nvvm.__name__}.{tileas_to_nvvm.LAZY[op]}"
        __import__(module)
        tileas_to_nvvm.LOWER.update(sys.modules[module].LOWER)
    own = tileas_to_nvvm.LOWER[op]
    tileas_to_nvvm.LOWER[op] = change(own)
    return lambda: tileas_to_nvvm.LOWER.update({op: own})


def arguments(module: Any) -> list[Any]:
    """An array for each pointer, 64 for each number."""
    (entry,) = (op for op in module.op.regions[0].block.ops if op.spec.name == "entry")
    rng = np.random.default_rng(5)
    made: list[Any] = []
    for value in entry.regions[0].block.args:
        elem = value.type.elem
        pointee = getattr(elem, "pointee", None)
        if pointee is None:
            made.append(64)
        elif pointee.name in FLOATS:
            made.append((rng.random(ELEMENTS) * 2 - 1).astype(FLOATS[pointee.name]))
        else:
            made.append(rng.integers(0, 100, ELEMENTS).astype(getattr(np, f"int{pointee.bits}")))
    return made


def differs(path: str) -> bool:
    """Whether the emulator, on this compiler's code, leaves other numbers than the reference interpreter."""
    module = tileiras.load(path)
    name = module.entries[0]
    results = []
    for target in ("reference", "emulator"):
        values = arguments(module)
        tileiras.launch(path, name, 1, values, target=target, gpu_name="sm_80", check=True)
        results.append([value for value in values if isinstance(value, np.ndarray)])
    return any(
        not np.allclose(a.astype(np.float64), b.astype(np.float64), rtol=1e-3, atol=1e-6, equal_nan=True)
        for a, b in zip(*results)
    )


def main(words: list[str]) -> int:
    heal = plant(words[0])
    try:
        if not differs(words[1]):
            return 1
        heal()
        return 3 if differs(words[1]) else 0
    except (tileiras.CompileError, LaunchError, ValueError):
        return 2  # other parameters, out of the arrays, or a race: another question


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
