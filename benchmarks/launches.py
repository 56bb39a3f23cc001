"""How to launch a production kernel for timing: arrays, parameters, grid, and the least work that it stands for.

`launch_of(kernel)` gives plain data (JSON), because the machine that launches has no NumPy; None where a launch needs more
than arrays and numbers. Sizes fill a large GPU: products of 8192^3 (f32 and f64: 4096^3), attention over 16,384 keys.
"""

from __future__ import annotations

import struct
from typing import Any

from production import Product, Production, Stream

from tests.corpus.case import Array

SIDE = {"f32": 4096, "f64": 4096}
KEYS = {64: 16384, 128: 16384, 256: 8192}
HEADS = 16
ROWS = 16384
STREAM = 1 << 26
EPSILON, SCALE, RATE = 1e-5, 0.08, 1e-3


class Plan:
    """Collects the parameters of a launch in the order of the entry's."""

    def __init__(self) -> None:
        self.arrays: list[dict[str, Any]] = []
        self.parameters: list[dict[str, Any]] = []

    def pointer(self, kind: str, elements: int, fill: str = "random") -> int:
        """Returns the array's number."""
        self.arrays.append({"kind": kind, "elements": elements, "fill": fill})
        self.parameters.append({"array": len(self.arrays) - 1})
        return len(self.arrays) - 1

    def number(self, value: int | float) -> None:
        form = "<f" if isinstance(value, float) else "<i"
        self.parameters.append({"bytes": struct.pack(form, value).hex()})

    def array(self, kind: str, *shape: int, fill: str = "random") -> int:
        """A packed array as cuTile Python passes it: pointer, extents, strides. Returns its number."""
        elements, strides = 1, list[int]()
        for extent in reversed(shape):
            strides.insert(0, elements)
            elements *= extent
        number = self.pointer(kind, elements, fill)
        for value in (*shape, *strides):
            self.number(value)
        return number

    def done(
        self, grid: list[int | str], result: int, element: str, flops: float, moved: float
    ) -> dict[str, Any]:
        return {"arrays": self.arrays, "parameters": self.parameters, "grid": grid, "result": result,
                "element": element, "flops": flops, "bytes": moved}  # fmt: skip


# Products of square matrices, a block for each tile of the result.
SQUARE = frozenset((
    "product", "product_tf32", "product_int8", "product_float64", "product_2", "weights_8bit", "transposed_in_registers",
    "linear_gelu", "persistent", "grouped_order", "split_k", "hinted", "residual", "by_index", "by_index_tf32",
    "positive_part", "f32_in_parts", "cpp_product", "cpp_pointers", "cpp_pointers_whole", "cpp_product_aligned",
))  # fmt: skip


def launch_of(kernel: Production) -> dict[str, Any] | None:
    """The launch of one kernel, or None."""
    if kernel.source.endswith("unusual.py"):
        return None
    if isinstance(kernel.work, Stream):
        return _stream(kernel)
    if kernel.name.startswith("attn_"):
        return _attention(kernel)
    return _product(kernel, kernel.work) if kernel.kernel in SQUARE else None


def _product(kernel: Production, work: Product) -> dict[str, Any]:
    n = SIDE.get(work.element, 8192)
    plan = Plan()
    tiles: list[int | str] = [n // work.m, n // work.n, 1]
    if kernel.source.endswith(".cu"):
        plan.pointer("bf16", n * n)
        plan.pointer("bf16", n * n)
        result = plan.pointer("bf16", n * n, "zero")
        for _ in range(3):
            plan.number(n)
    else:
        for position, parameter in enumerate(p for p in kernel.signature if isinstance(p, Array)):
            last = position == sum(isinstance(p, Array) for p in kernel.signature) - 1
            shape = (n,) * parameter.ndim
            result = plan.array(parameter.dtype, *shape, fill="zero" if last else "random")
    if kernel.kernel in ("persistent", "grouped_order"):
        count = (n // work.m) * (n // work.n)
        tiles = ["multiprocessors", 1, 1] if kernel.kernel == "persistent" else [count, 1, 1]
    elif kernel.kernel == "split_k":
        tiles[2] = kernel.signature[-1]
    return plan.done(tiles, result, work.element, 2.0 * n**3, 0)


def _attention(kernel: Production) -> dict[str, Any] | None:
    if kernel.kernel != "forward":
        return None
    m, _, d, causal, group = kernel.signature[5:]
    element, length = kernel.work.element, KEYS[d]  # type: ignore[union-attr]
    plan = Plan()
    plan.array(element, HEADS, length, d)
    for _ in range(2):
        plan.array(element, HEADS // group, length, d)
    result = plan.array(element, HEADS, length, d, fill="zero")
    plan.number(SCALE)
    flops = 4.0 * HEADS * length * length * d / (2 if causal else 1)
    return plan.done([length // m, HEADS, 1], result, element, flops, 0)


def _stream(kernel: Production) -> dict[str, Any] | None:
    """Arrays of STREAM elements, or ROWS rows."""
    work = kernel.work
    assert isinstance(work, Stream)
    plan = Plan()
    arrays = [p for p in kernel.signature if isinstance(p, Array)]
    numbers = [p for p in kernel.signature if isinstance(p, int)]
    name, first = kernel.kernel, arrays[0].dtype
    grid: list[int | str] = [STREAM // work.elements, 1, 1]
    elements = STREAM
    if name in ("vadd", "gelu", "silu_mul"):
        for number, a in enumerate(arrays):
            result = plan.array(a.dtype, STREAM, fill="zero" if number == len(arrays) - 1 else "random")
    elif name == "adamw":
        result = plan.array("f32", STREAM)
        plan.array("bf16", STREAM)
        plan.array("f32", STREAM)
        plan.array("f32", STREAM, fill="zero")
        plan.number(RATE)
    elif name in ("softmax_row", "quantize"):
        columns, elements = numbers[0], ROWS * numbers[0]
        plan.array(first, ROWS, columns)
        result = plan.array(arrays[1].dtype, ROWS, columns, fill="zero")
        if name == "quantize":
            plan.array("f32", ROWS, fill="zero")
        grid = [ROWS, 1, 1]
    elif name == "layer_norm":
        columns, elements = work.elements, ROWS * work.elements
        plan.array(first, ROWS, columns)
        plan.array(first, columns)
        plan.array(first, columns)
        result = plan.array(first, ROWS, columns, fill="zero")
        plan.number(EPSILON)
        grid = [ROWS, 1, 1]
    elif name == "rms_norm_rope":
        heads, half = numbers
        elements = ROWS * heads * half * 2
        plan.array(first, ROWS, heads, 2, half)
        plan.array(first, 2, half)
        plan.array("f32", ROWS, half)
        plan.array("f32", ROWS, half)
        result = plan.array(first, ROWS, heads, 2, half, fill="zero")
        plan.number(EPSILON)
        grid = [ROWS, 1, 1]
    elif name == "embedding":
        columns, elements = numbers[0], ROWS * numbers[0]
        plan.array(first, ROWS, columns)
        plan.array("i32", ROWS, fill=f"index {ROWS}")
        result = plan.array(first, ROWS, columns, fill="zero")
        grid = [ROWS, 1, 1]
    elif name == "row_sum":
        columns = 4096
        elements = ROWS * columns
        plan.array(first, ROWS, columns)
        result = plan.array("f32", ROWS, fill="zero")
        grid = [ROWS // numbers[0], 1, 1]
    elif name == "transpose_tiles":
        side = 8192
        elements = side * side
        plan.array(first, side, side)
        result = plan.array(first, side, side, fill="zero")
        grid = [side // numbers[0], side // numbers[1], 1]
    elif name == "cross_entropy":
        columns = work.elements
        elements = 4096 * columns
        plan.array(first, 4096, columns)
        plan.array("i32", 4096, fill=f"index {columns}")
        result = plan.array("f32", 4096, fill="zero")
        grid = [4096, 1, 1]
    else:
        return None
    return plan.done(grid, result, first, 0, float(elements * (work.read + work.written)))
