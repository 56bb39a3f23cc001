"""Whether two runs of one program left the same bits: what every fuzzer of the corpus asks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np


def unlike(got: Iterable[Any], want: Iterable[Any]) -> list[str]:
    """One line per array argument that differs. Zeros must agree in sign; any NaN equals any other. Scalars are skipped."""
    found = []
    for k, (g, w) in enumerate(zip(got, want, strict=True)):
        if not isinstance(g, np.ndarray):
            continue
        with np.errstate(invalid="ignore"):
            same = g == w
            if g.dtype.kind != "i":
                same = (same & (np.signbit(g) == np.signbit(w))) | np.isnan(g) & np.isnan(w)
        if not same.all():
            at = int(np.flatnonzero(~same)[0])
            found.append(
                f"argument {k}: {int((~same).sum())} of {g.size} differ, first [{at}]: {g[at]} against {w[at]}"
            )
    return found
