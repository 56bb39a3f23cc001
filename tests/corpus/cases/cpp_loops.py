"""Loops of products in Tile C++ that leave steps out by several `continue`s, or beside two indices that meet."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.corpus.case import Family, like, uniform, wide
from tests.corpus.cases.cpp_algorithms import PRODUCT, product

loops = Family("cpp_loops", "cpp/loops.cu")
i4 = np.int32
KEPT = np.array([0, 3, 1, 0, 1, 2, 1, 0], i4)


def case(name: str, entry: str, depth: int, expect: Any, kept: Any = None, *more: Any) -> None:
    def inputs(rng: Any) -> tuple[Any, ...]:
        a, b = uniform(rng, (80, depth), "bf16"), uniform(rng, (depth, 64), "bf16")
        return (a, b, like((80, 64)), *(() if kept is None else (kept,)), i4(80), i4(64), i4(depth), *more)

    loops(name, entry, [], (2, 1), inputs, expect, module="cpp_loops", **PRODUCT)


def of_steps(takes: Any) -> Any:
    """The product of the columns of those steps, 32 columns each, that the kernel takes: of (number, all, kept, others)."""

    def f(a: Any, b: Any, c: Any, kept: Any, m: Any, n: Any, k: Any, *more: Any) -> dict[int, np.ndarray]:
        x, y = wide(a, b)
        steps = (int(k) + 31) // 32
        columns = np.repeat([takes(s, steps, kept, *more) for s in range(steps)], 32)[: int(k)]
        return {2: (x[:, columns] @ y[columns]).astype("f4")}

    return f


def between(a: Any, b: Any, c: Any, kept: Any, more: Any, m: Any, n: Any, k: Any) -> dict[int, np.ndarray]:
    """A step multiplies what was added up before, too."""
    x, y = wide(a, b)
    out, first, second = np.zeros(c.shape), kept.copy(), more.copy()
    for i in range(2):
        rows = slice(64 * i, 64 * i + 64)
        for s in range((int(k) + 31) // 32):
            takes = more[i, kept[i, s]] if kept[i, s] >= 0 else 0
            if takes:
                columns = slice(32 * s, 32 * s + 32)
                out[rows] = (out[rows] + x[rows, columns] @ y[columns]) * float(takes)
    first[:, 0], second[:, 0] = 7, 8
    return {2: out.astype("f4"), 3: first, 4: second}


thrice = of_steps(lambda s, steps, kept, last: kept[s] != 0 and s != last and s % 3 != 0)
pairs = of_steps(lambda s, steps, kept: kept[min(s, steps - 1 - s)] != 0)
for last in (2, 4, 9):
    case(f"cpp_skipped_thrice_{last}", "loop_skipped_thrice", 240, thrice, KEPT, i4(last))
case("cpp_skipped_behind", "loop_skipped_behind", 240, thrice, KEPT, i4(4))
case("cpp_skipped_alone", "loop_skipped_alone", 240, thrice, KEPT, i4(4))
for depth in (240, 208, 16):  # an even number of steps, an odd one, one step
    if depth > 16:  # the only one of which is left out
        case(f"cpp_skipped_pairs_{depth}", "loop_skipped_pairs", depth, pairs, KEPT)
    case(f"cpp_skipped_pairs_first_{depth}", "loop_skipped_pairs", depth, pairs, 1 - np.minimum(KEPT, 1))
    case(f"cpp_middle_once_{depth}", "loop_middle_once", depth, product())
loops(
    "cpp_skipped_between",
    "loop_skipped_between",
    [],
    (2, 1),
    lambda rng: (
        uniform(rng, (80, 240), "bf16"),
        uniform(rng, (240, 64), "bf16"),
        like((80, 64)),
        np.array([[0, -1, 3, 1, -900000, 2, 2, -1], [-1, 3, 3, -5, 0, 1, 0, 2]], i4),
        np.array([[1, 0, 2, 1], [0, 1, 1, 2]], i4),
        i4(80),
        i4(64),
        i4(240),
    ),
    between,
    module="cpp_loops",
    **PRODUCT,
)
