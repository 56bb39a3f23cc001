"""Approximate instructions at the ends of the error that the PTX ISA manual (9.1, 9.7.3 and 9.7.4) allows them.

The emulator's own answer is correctly rounded. What the manual lists as exact (zero, infinity, NaN in or out, 2^0)
stays, and so does what has no bound (sin and cos beyond 100 pi).
"""

from __future__ import annotations

import numpy as np

__all__ = ["nudge"]

# (relative, absolute, units in the last place) of f32, f16 and bf16 results
_BOUNDS = {
    ("ex2", "f32"): (0.0, 0.0, 2),
    ("ex2", "f16"): (2.0**-9.9, 0.0, 0),
    ("ex2", "bf16"): (2.0**-7, 0.0, 0),
    ("tanh", "f32"): (2.0**-11, 0.0, 0),
    ("tanh", "f16"): (0.0, 2.0**-10.987, 0),
    ("tanh", "bf16"): (0.0, 2.0**-8, 0),
    ("rsqrt", "f32"): (2.0**-22.9, 0.0, 0),
    ("sqrt", "f32"): (2.0**-23, 0.0, 0),
    ("rcp", "f32"): (0.0, 0.0, 1),
    ("div", "f32"): (0.0, 0.0, 2),
    ("lg2", "f32"): (2.0**-22, 0.0, 0),  # absolute from 0.5 to 2
}
_NEAR, _FAR = (2 * np.pi, 2.0**-20.5), (100 * np.pi, 2.0**-14.7)  # sin and cos: absolute


def nudge(op: str, type_: str, end: int, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The least (end -1) or greatest (1) f32 result that op may give for x instead of y."""
    value = y.astype(np.float64)
    given = np.broadcast_to(x.astype(np.float64), value.shape)
    usable = np.isfinite(value) & np.isfinite(given)
    if op in ("sin", "cos"):
        size = np.abs(given)
        error = np.where(size <= _NEAR[0], _NEAR[1], np.where(size <= _FAR[0], _FAR[1], 0.0))
        usable &= given != 0
    else:
        relative, absolute, units = _BOUNDS[op, type_]
        error = (
            np.abs(value) * relative
            + absolute
            + units * np.spacing(np.abs(y.astype(np.float32))).astype(float)
        )
        if op == "lg2":
            error = np.where((given > 0.5) & (given < 2.0), relative, error)
        else:
            usable &= value != 0
        if op == "ex2":
            usable &= given != 0
    out = np.where(usable, value + end * np.where(usable, error, 0.0), value)
    if op == "tanh":
        out = np.clip(out, -1.0, 1.0)
    return _towards(out, end)


def _towards(value: np.ndarray, end: int) -> np.ndarray:
    """f32 within the bound: rounded towards the correct result."""
    near = value.astype(np.float32)
    beyond = (near > value) if end > 0 else (near < value)
    return np.where(beyond, np.nextafter(near, np.float32(-end * np.inf)), near)
