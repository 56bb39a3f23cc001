"""Elements without a specified value, followed through the kernel (check=True only).

A load gives unspecified elements where it is masked off or beyond the extent and has no padding. They may be
computed with, so undefined operations on them are no finding; what is reported is storing one, or branching on
one. The block's `unspecified` maps a slot to the mask of such elements; a slot without any is absent.
"""

from __future__ import annotations

import numpy as np

from . import diags
from .registry import ELEMENTWISE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tileiras.compiler.ir.core import Op

    from .registry import Frame, Step
    from .state import Block

MOVES = ("reshape", "broadcast", "permute", "cat", "extract", "insert")
PRODUCTS = ("mmaf", "mmai", "mmaf_scaled")


def full(mask: Any, value: Any) -> Any:
    """A mask in the shape of its value."""
    return np.zeros(np.shape(value), np.bool_) if mask is None else np.broadcast_to(mask, np.shape(value))


def spread_step(op: Op, fn: Callable[..., Any], args: tuple[int, ...], d: int) -> Step:
    """The step that gives the result of a pure op its mask, from those of its operands."""
    name = op.spec.name
    if not args:
        return lambda s: None

    def masks_of(name: str, s: Frame, masks: list[Any]) -> Any:
        values = [s[a] for a in args]
        if name == "select":
            chosen = np.where(values[0], full(masks[1], values[1]), full(masks[2], values[2]))
            return chosen if masks[0] is None else chosen | masks[0]
        if name in ELEMENTWISE:
            out: Any = np.False_
            for mask in masks:
                if mask is not None:
                    out = out | mask
            return out
        if name in MOVES:
            tiles = 2 if name in ("cat", "insert") else 1
            return fn(*(full(m, v) for m, v in zip(masks[:tiles], values[:tiles])), *values[tiles:])
        if name in PRODUCTS:
            out = full(masks[2], values[2])
            if masks[0] is not None:
                out = out | full(masks[0], values[0]).any(-1)[..., :, None]
            if masks[1] is not None:
                out = out | full(masks[1], values[1]).any(-2)[..., None, :]
            return out
        return (
            np.ones(np.shape(s[d]), np.bool_) if any(np.any(m) for m in masks if m is not None) else np.False_
        )

    def step(s: Frame) -> None:
        unspecified = s[0].unspecified
        if not unspecified:
            return
        masks = [unspecified.get(a) for a in args]
        mask = None
        if any(m is not None for m in masks):
            mask = masks_of(name, s, masks)
        put(s, d, mask)

    return step


def put(s: Frame, slot: int, mask: Any) -> None:
    """Set the mask of a slot; None or nothing set: the slot has none."""
    unspecified = s[0].unspecified
    if mask is not None and np.any(mask):
        unspecified[slot] = mask
    else:
        unspecified.pop(slot, None)


def move_masks(s: Frame, source: tuple[int, ...], target: tuple[int, ...]) -> None:
    """Masks follow a parallel assignment of slots."""
    unspecified = s[0].unspecified
    if unspecified:
        masks = [unspecified.get(a) for a in source]
        for d, mask in zip(target, masks):
            put(s, d, mask)


def specified(state: Block, args: tuple[int, ...], bad: Any) -> Any:
    """`bad` without the elements that an unspecified operand makes meaningless."""
    for a in args:
        mask = state.unspecified.get(a)
        if mask is not None:
            bad = bad & ~mask
    return bad


def report_use(state: Block, op: Op, slot: int, active: Any, what: str) -> None:
    """Report active elements of a slot that have no specified value."""
    mask = state.unspecified.get(slot)
    if mask is not None:
        bad = mask if active is None else mask & active
        if np.any(bad):
            state.launch.report_elements(diags.UNSPECIFIED, op, state, bad, what=what)
