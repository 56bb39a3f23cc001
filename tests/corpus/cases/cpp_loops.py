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


thrice = of_steps(lambda s, steps, kept, last: kept[s] != 0 and s != last and s % 3 != 0)
pairs = of_steps(lambda s, steps, kept: kept[min(s, steps - 1 - s)] != 0)
for last in (2, 4, 9):
    case(f"cpp_skipped_thrice_{last}", "loop_skipped_thrice", 240, thrice, KEPT, i4(last))
case("cpp_skipped_behind", "loop_skipped_behind", 240, thrice, KEPT, i4(4))
case("cpp_skipped_alone", "loop_skipped_alone", 240, thrice, KEPT, i4(4))
for depth in (240, 208, 16):  # an even number of steps, an odd one, one step
    case(f"cpp_skipped_pairs_{depth}", "loop_skipped_pairs", depth, pairs, KEPT)
    case(f"cpp_skipped_pairs_first_{depth}", "loop_skipped_pairs", depth, pairs, 1 - np.minimum(KEPT, 1))
    case(f"cpp_middle_once_{depth}", "loop_middle_once", depth, product())
