"""Small kernels built op by op, for tests of the interpreter: inputs come from pointers, results go to
pointers.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from tileiras.compiler.dialects.cuda_tile.ops import BY_NAME
from tileiras.compiler.ir import types as T
from tileiras.compiler.ir.core import Block, Op, Region, Value
from tileiras.diag import Loc
from tileiras.run import launch

ELEMS = {
    s.name: s
    for s in (
        T.I1,
        T.I4,
        T.I8,
        T.I16,
        T.I32,
        T.I64,
        T.F16,
        T.BF16,
        T.F32,
        T.TF32,
        T.F64,
        T.F8E4M3FN,
        T.F8E5M2,
        T.F8E8M0FNU,
        T.F4E2M1FN,
        T.FNV8E5M3FNU,
    )
}

# What a user passes for each element type.
DTYPES: dict[str, Any] = {
    "i1": np.bool_,
    "i4": np.uint8,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "tf32": np.float32,
    "f64": np.float64,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E5M2": ml_dtypes.float8_e5m2,
    "f8E8M0FNU": ml_dtypes.float8_e8m0fnu,
    "f4E2M1FN": np.uint8,
    "fnv8E5M3FNU": np.uint8,
}


def tile(elem: str | T.Type, *shape: int) -> Any:
    return T.TileType(ELEMS[elem] if isinstance(elem, str) else elem, tuple(shape))


def pointer(elem: str) -> Any:
    return T.Ptr(ELEMS[elem], None)


class Builder:
    """Appends ops to `block`; `loc` is given to every op made."""

    def __init__(self, block: Block) -> None:
        self.block, self.loc = block, Loc("k.py", 1, 1)

    def op(self, spec: Any, groups: Any, results: Any, attrs: Any, regions: Any) -> Op:
        """An op from operand groups: a Value, None (absent), or a list; verified when the kernel is launched."""
        lists = [[] if group is None else group if isinstance(group, list) else [group] for group in groups]
        sizes = tuple(map(len, lists)) if spec.varies else None
        flat = [value for values in lists for value in values]
        return self.block.append(Op(spec, flat, results, attrs, regions, self.loc, sizes))


class Kernel:
    """An entry `k` under construction. `args` are its parameters: element names, "*f32" for a pointer."""

    def __init__(self, *args: str) -> None:
        params = [tile(pointer(a[1:])) if a[0] == "*" else tile(a) for a in args]
        self.block = Block(params)
        self.builder = Builder(self.block)
        self.args = self.block.args
        self.globals: list[Op] = []

    def op(
        self, op_name: str, groups: Any = (), results: Any = (), regions: Any = (), /, **attrs: Any
    ) -> Any:
        """The op's only result, its results, or the op itself when it has none."""
        self.builder.loc = Loc("k.py", len(self.builder.block.ops) + 1, 1)
        made = self.builder.op(BY_NAME[op_name], groups, results, attrs, regions)
        return made if not made.results else made.result if len(made.results) == 1 else list(made.results)

    def const(self, values: Any, elem: str, *shape: int) -> Value:
        kind = tile(elem, *shape)
        if elem == "i1":
            data = np.packbits(
                np.broadcast_to(np.asarray(values, np.bool_), shape).reshape(-1), bitorder="little"
            )
        elif elem == "tf32":
            words = np.asarray(values, np.float32).reshape(-1).view(np.uint32) >> np.uint32(13)
            data = words.view(np.uint8).reshape(-1, 4)[:, :3]
        else:
            data = np.ascontiguousarray(np.asarray(values).astype(DTYPES[elem])).reshape(-1)
        return self.op("constant", (), [kind], value=T.Dense(kind, data.tobytes()))

    def addresses(self, base: Value, count: int, shape: tuple[int, ...]) -> Value:
        """Tile of pointers to elements 0..count-1 from a scalar pointer, in row-major order."""
        kind = base.type.elem
        one = self.op("reshape", [base], [T.TileType(kind, (1,))])
        many = self.op("broadcast", [one], [T.TileType(kind, (count,))])
        steps = self.op("iota", (), [tile("i32", count)])
        out = self.op("offset", [many, steps], [T.TileType(kind, (count,))])
        return out if shape == (count,) else self.op("reshape", [out], [T.TileType(kind, shape)])

    def load(self, base: Value, *shape: int) -> Value:
        count = int(np.prod(shape, dtype=int))
        where = self.addresses(base, count, shape) if shape else base
        kind = T.TileType(base.type.elem.pointee, shape)
        return self.op(
            "load_ptr_tko", [where, None, None, None], [kind, T.TOKEN], memory_ordering_semantics="weak"
        )[0]

    def store(self, base: Value, value: Value) -> None:
        shape = value.type.shape
        where = self.addresses(base, int(np.prod(shape, dtype=int)), shape) if shape else base
        self.op("store_ptr_tko", [where, value, None, None], [T.TOKEN], memory_ordering_semantics="weak")

    def region(self, *arg_types: Any) -> Region:
        return Region([Block(arg_types)])

    def inside(self, region: Region) -> Inside:
        return Inside(self, region.block)

    def module(self) -> Op:
        entry_type = T.FunctionType(tuple(a.type for a in self.args), ())
        if not self.block.ops or self.block.ops[-1].spec.name != "return":
            self.op("return", [[]])
        entry = Op(
            BY_NAME["entry"], (), (), {"sym_name": "k", "function_type": entry_type}, [Region([self.block])]
        )
        body = Block()
        for op in (*self.globals, entry):
            body.append(op)
        return Op(BY_NAME["module"], (), (), {"sym_name": "kernels"}, [Region([body])])

    def run(self, *args: Any, grid: Any = 1, **more: Any) -> None:
        launch(self.module(), "k", grid, args, "reference", **more)


class Inside:
    """`with kernel.inside(region):` appends to the region's block."""

    def __init__(self, kernel: Kernel, block: Block) -> None:
        self.kernel, self.block = kernel, block

    def __enter__(self) -> list[Value]:
        self.saved = self.kernel.builder.block
        self.kernel.builder.block = self.block
        return self.block.args

    def __exit__(self, *_: object) -> None:
        self.kernel.builder.block = self.saved


def evaluate(
    name: str, inputs: list[tuple[str, Any]], result: str, check: bool = False, **attrs: Any
) -> np.ndarray:
    """An elementwise op on arrays of any length (padded to a power of two), run as a kernel."""
    length = np.size(inputs[0][1])
    count = 1 << (length - 1).bit_length()
    kernel = Kernel(*(f"*{elem}" for elem, _ in inputs), f"*{result}")
    values = [kernel.load(arg, count) for arg in kernel.args[:-1]]
    kernel.store(kernel.args[-1], kernel.op(name, values, [tile(result, count)], **attrs))
    arrays = []
    for elem, data in inputs:
        data = np.asarray(data).astype(DTYPES[elem]).reshape(-1)
        arrays.append(np.concatenate((data, np.repeat(data[-1:], count - length))))
    out = np.zeros(count, DTYPES[result])
    kernel.run(*arrays, out, check=check)
    return out[:length]
