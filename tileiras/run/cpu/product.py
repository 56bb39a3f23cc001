"""Matrix products: packed operands, and micro-kernels that keep a block of the accumulator in registers.

The order of sums: an element of the result is its accumulator, to which the products of k = 0, 1, 2, ... are added
one after the other by fused multiply-add, in f32 (f64 for f64, i32 for integers). 16-bit accumulators are widened
to f32 for one op and rounded once at its end. The operands are exact in f32; tf32 ones lose their lower 13 bits.
"""

from __future__ import annotations

import contextlib
import re

from .code import BITS, Code, const, vec
from .formats import narrow, widen
from .registry import lowers
from .shapes import reads_buffer
from .space import Chunk, Map, identity, log2
from .tiles import Elementwise, Node, Remapped, Stored, Survey, Uniform

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from tileiras.compiler.ir.core import Op

    from .lower import Lower


LETTERS = re.compile(r"\W")


class Converted(Node):
    """Elements of another tile, each through a function of (code, lanes, element)."""

    __slots__ = ("function", "source")

    def __init__(self, source: Node, name: str, function: Callable[[Code, int, str], str]) -> None:
        super().__init__(name, source.shape)
        self.source, self.function, self.cost = source, function, source.cost + 2

    def sources(self) -> Sequence[Node]:
        return (self.source,)

    def compute(self, lower: Any, chunk: Chunk, map: Map) -> str:
        return self.function(chunk.code, chunk.lanes, self.source.get(lower, chunk, map))

    def explore(self, map: Map, into: Survey) -> None:
        into.cost += 2
        self.source.survey(map, into)


class Blocking:
    """Registers of a micro-kernel: `rows` x `vectors` accumulators of `lanes` columns each."""

    __slots__ = ("columns", "lanes", "rows", "vectors")

    def __init__(self, lower: Lower, m: int, n: int, type: str) -> None:
        wide = lower.vector_bytes >= 64
        self.lanes = min(n, max(1, lower.vector_bytes * 8 // BITS[type]))
        self.vectors = min(n // self.lanes, 4 if wide else 2)
        budget = 16 if wide else 8
        self.rows = min(m, max(1, budget // self.vectors))
        self.columns = self.lanes * self.vectors


def own_accumulator(lower: Lower, op: Op, acc: Node, others: Sequence[Node], name: str) -> Stored | None:
    """A buffer that holds the accumulator, or what it is computed from, and that nobody needs afterwards."""
    from .code import bytes_of

    for arg in op.block.args if op.block is not None else ():
        held = lower.values.get(arg)
        if not isinstance(held, Stored) or held.buffer is None or held.bits != acc.bits:
            continue
        if bytes_of(held.name) != bytes_of(name) or not lower.finished(arg):
            continue
        if reads_buffer(acc, held.buffer, identity(acc.bits)) or any(
            reads_buffer(o, held.buffer, None) for o in others
        ):
            continue
        if reads_buffer(acc, held.buffer, None):
            return Stored(name, acc.shape, held.buffer)
    value = op.group("acc")[0]
    made = value.op
    if (
        isinstance(acc, Stored) and acc.buffer is not None and made is not None and made.block is op.block
        and made.spec.name in ("mmaf", "mmai") and lower.finished(value)
    ):  # fmt: skip
        return acc
    return None


def packed(lower: Lower, node: Node, columns: int) -> str:
    """The address of an operand [.., K, N] laid out in panels of so many columns."""
    *_, k, n = node.shape
    if n > columns:
        low, rows, high = log2(columns), log2(k), log2(n)
        # panel layout: columns of the panel, then k, then panels, then batches; as bits of the row-major tile
        inner: Map = (
            *range(low),
            *range(low + rows, high + rows),
            *range(low, low + rows),
            *range(high + rows, node.bits),
        )
        node = Remapped(node, node.shape, inner)
    lower.prefetches = True
    lower.force(node)
    lower.prefetches = False
    return lower.pointer_of(node)


@lowers("mmaf")
def lower_mmaf(lower: Lower, op: Op) -> None:
    operands = [lower.node(op.group(name)[0]) for name in ("lhs", "rhs")]
    acc = lower.node(op.group("acc")[0])
    lower.done.add(op)
    source, target = operands[0].name, acc.name
    type = "double" if source == "f64" else "float"
    wide_name = "f64" if type == "double" else "f32"
    a, b = (wide_operand(o, source, wide_name) for o in operands)
    total = acc
    if target not in ("f32", "f64"):
        total = Converted(acc, "f32", lambda c, n, x: widen(c, n, x, target))
    out = multiply(lower, op, a, b, total, wide_name, type, operands)
    result: Node = out
    if target not in ("f32", "f64"):
        result = Converted(out, target, lambda c, n, x: narrow(c, n, x, target))
        lower.force(result)
    lower.set(op.result, result)


def wide_operand(node: Node, source: str, wide: str) -> Node:
    if source == wide:
        return node
    if source == "tf32":

        def cut(c: Code, n: int, x: str) -> str:
            bits = c.bin(
                "and", "i32", n, c.cast("bitcast", "float", "i32", n, x), const("i32", n, 0xFFFFE000)
            )
            return c.cast("bitcast", "i32", "float", n, bits)

        return Converted(node, "f32", cut)
    return Converted(node, "f32", lambda c, n, x: widen(c, n, x, source))


def multiply(
    lower: Lower, op: Op, a: Node, b: Node, acc: Node, name: str, type: str, operands: Sequence[Node]
) -> Stored:
    """acc + a * b in a buffer, by the micro-kernel of this shape."""
    *batch, m, k = a.shape
    n = b.shape[-1]
    blocking = Blocking(lower, m, n, type)
    left = packed(lower, a, k)
    right = packed(lower, b, blocking.columns)
    target = own_accumulator(lower, op, acc, (a, b, *operands), name)
    if target is None:
        target = Stored(name, acc.shape, lower.arena.new(BITS[type] // 8 << acc.bits))
    start, factors = "", row_factors(acc, target, n)
    if isinstance(acc, Uniform) and not acc.value.startswith("%"):
        start = acc.value
    elif factors is None and not (acc.buffer is not None and acc.buffer is target.buffer):
        lower.write(acc, target)
    count = 1
    for extent in batch:
        count *= extent
    function = f"multiply.{type}.{m}.{n}.{k}{'.from.' + LETTERS.sub('_', start) if start else '.scaled' if factors else ''}"
    if function not in lower.c.module.functions:
        lower.c.module.functions[function] = micro_kernel(
            lower, function, m, n, k, type, blocking, start, factors is not None
        )
    places = [(left, m * k), (right, k * n), (lower.arena.touch(target.buffer), m * n)]
    if factors is not None:
        places.append((lower.pointer_of(factors), m))
    call(lower, function, count, places, type)
    return target


def row_factors(acc: Node, target: Stored, n: int) -> Node | None:
    """One number a row, where the accumulator is what lies in `target` times those: attention's rescaling."""
    if not isinstance(acc, Elementwise) or acc.op.spec.name != "mulf" or acc.op.attr("flush_to_zero"):
        return None
    if (acc.op.attr("rounding_mode") or "nearest_even") != "nearest_even":
        return None
    rows = tuple(range(log2(n), acc.bits))
    for held, other in (acc.operands, acc.operands[::-1]):
        if held.buffer is target.buffer and isinstance(other, Remapped) and other.buffer is None:
            if other.inner == rows and other.source.bits == len(rows):
                return other.source
    return None


def call(lower: Lower, function: str, count: int, places: Sequence[tuple[str, int]], type: str) -> None:
    c = lower.c
    if count == 1:
        c.call(function, "void", [("ptr", p) for p, _ in places])
        return
    with c.loop(str(count)) as batch:
        c.call(function, "void", [("ptr", c.gep(p, c.mul(batch, str(step)), type)) for p, step in places])


@contextlib.contextmanager
def summing(
    c: Code, t: str, first: list[list[str]], k: int, step: int = 1
) -> Iterator[tuple[str, list[list[str]], list[list[str]]]]:
    """A loop over k that carries sums of type t, `first` before it: yields its index, the sums so far, and the names of the
    next ones, which the body defines and which hold behind the loop.
    """
    head, done, before = c.new_label("k"), c.new_label("summed"), c.label
    iv, following = c.fresh(), c.fresh()
    names = [[c.fresh() for _ in row] for row in first]
    sums = [[c.fresh() for _ in row] for row in first]
    c.jump(head)
    c.begin(head)
    c.do(f"{iv} = phi i64 [ 0, %{before} ], [ {following}, %{head} ]")
    for row, name_row, sum_row in zip(first, names, sums):
        for start, name, total in zip(row, name_row, sum_row):
            c.do(f"{name} = phi {t} [ {start}, %{before} ], [ {total}, %{head} ]")
    yield iv, names, sums
    c.do(f"{following} = add nuw nsw i64 {iv}, {step}")
    c.branch(c.op(f"icmp ult i64 {following}, {k}"), head, done)
    c.begin(done)


def micro_kernel(
    lower: Lower, name: str, m: int, n: int, k: int, type: str, blocking: Blocking, start: str = "", scaled: bool = False,
) -> str:  # fmt: skip
    """c[m, n] += a[m, k] * b, b in panels of blocking.columns; c = start + ..., or c = c * s[m] + ... if scaled."""
    c = Code(lower.c.module, lower.c.features)
    lanes, vectors, rows, columns = blocking.lanes, blocking.vectors, blocking.rows, blocking.columns
    size = BITS[type] // 8
    t = vec(type, lanes)
    fused = "fma" in c.features
    with c.loop(str(n // columns)) as panel, c.loop(str(m // rows)) as block:
        b = c.gep("%b", c.mul(panel, str(k * columns)), type)
        a = c.gep("%a", c.mul(block, str(rows * k)), type)
        base = c.add(c.mul(block, str(rows * n)), c.mul(panel, str(columns)))
        out = c.gep("%c", base, type)
        cells = [[c.gep(out, str(r * n + v * lanes), type) for v in range(vectors)] for r in range(rows)]
        if start:
            first = [[c.splat(type, lanes, start) for _ in row] for row in cells]
        else:
            first = [[c.load(type, lanes, p, size) for p in row] for row in cells]
        if scaled:
            by = c.gep("%s", c.mul(block, str(rows)), type)
            for r, row in enumerate(first):
                factor = c.splat(type, lanes, c.load(type, 1, c.gep(by, str(r), type), size))
                row[:] = [c.bin("fmul", type, lanes, x, factor) for x in row]
        with summing(c, t, first, k) as (iv, before, sums):
            line = c.gep(b, c.mul(iv, str(columns)), type)
            right = [c.load(type, lanes, c.gep(line, str(v * lanes), type), size) for v in range(vectors)]
            for r in range(rows):
                one = c.load(type, 1, c.gep(c.gep(a, iv, type), str(r * k), type), size)
                left = c.splat(type, lanes, one)
                for v in range(vectors):
                    if fused:
                        fma = f"llvm.fma.{mangle(type, lanes)}"
                        c.module.declare(fma, f"declare {t} @{fma}({t}, {t}, {t})")
                        c.do(
                            f"{sums[r][v]} = call {t} @{fma}({t} {left}, {t} {right[v]}, {t} {before[r][v]})"
                        )
                    else:
                        product = c.bin("fmul", type, lanes, left, right[v])
                        c.do(f"{sums[r][v]} = fadd {t} {before[r][v]}, {product}")
        for r in range(rows):
            for v in range(vectors):
                c.store(type, lanes, sums[r][v], cells[r][v], size)
    c.do("ret void")
    more = ", ptr noalias %s" if scaled else ""
    return c.text(
        f"define internal void @{name}(ptr noalias %a, ptr noalias %b, ptr noalias %c{more}) noinline"
    )


def mangle(type: str, lanes: int) -> str:
    from .code import mangled

    return mangled(type, lanes)


# ---- integers


@lowers("mmai")
def lower_mmai(lower: Lower, op: Op) -> None:
    operands = [lower.node(op.group(name)[0]) for name in ("lhs", "rhs")]
    acc = lower.node(op.group("acc")[0])
    lower.done.add(op)
    signs = [op.attr(f"signedness_{side}") == "signed" for side in ("lhs", "rhs")]

    def wide(node: Node, sign: bool) -> Node:
        return Converted(node, "i16", lambda c, n, x: c.cast("sext" if sign else "zext", "i8", "i16", n, x))

    a, b = (wide(o, s) for o, s in zip(operands, signs))
    *batch, m, k = a.shape
    n = b.shape[-1]
    blocking = Blocking(lower, m, n, "i32")
    left = packed(lower, a, k)
    right = packed(lower, b, blocking.columns)
    target = own_accumulator(lower, op, acc, (a, b, *operands), "i32")
    if target is None:
        target = Stored("i32", acc.shape, lower.arena.new(4 << acc.bits))
    if not (acc.buffer is not None and acc.buffer is target.buffer):
        lower.write(acc, target)
    count = 1
    for extent in batch:
        count *= extent
    function = f"multiply.i16.{m}.{n}.{k}"
    if function not in lower.c.module.functions:
        lower.c.module.functions[function] = integer_kernel(lower, function, m, n, k, blocking)
    places = [(left, m * k), (right, k * n)]
    c = lower.c
    out = lower.arena.touch(target.buffer)
    if count == 1:
        c.call(function, "void", [("ptr", left), ("ptr", right), ("ptr", out)])
    else:
        with c.loop(str(count)) as i:
            args = [("ptr", c.gep(p, c.mul(i, str(step)), "i16")) for p, step in places]
            c.call(function, "void", [*args, ("ptr", c.gep(out, c.mul(i, str(m * n)), "i32"))])
    lower.set(op.result, target)


def integer_kernel(lower: Lower, name: str, m: int, n: int, k: int, blocking: Blocking) -> str:
    """c[m, n] += a[m, k] * b in i32; pairs of k go through the CPU's multiply-add of 16-bit pairs."""
    c = Code(lower.c.module, lower.c.features)
    lanes, vectors, rows, columns = blocking.lanes, blocking.vectors, blocking.rows, blocking.columns
    t = vec("i32", lanes)
    pairs = 2 if k > 1 else 1
    with c.loop(str(n // columns)) as panel:
        b = c.gep("%b", c.mul(panel, str(k * columns)), "i16")
        if pairs == 2:  # columns of two rows side by side, once for all rows of a
            mixed = c.alloca(f"[{k * columns} x i16]")
            with c.loop(str(k // 2)) as i:
                line = c.gep(b, c.mul(i, str(2 * columns)), "i16")
                for v in range(vectors):
                    x = c.load("i16", lanes, c.gep(line, str(v * lanes), "i16"), 2)
                    y = c.load("i16", lanes, c.gep(line, str(columns + v * lanes), "i16"), 2)
                    both = c.shuffle("i16", lanes, x, y, [j // 2 + (j & 1) * lanes for j in range(2 * lanes)])
                    at = c.add(c.mul(i, str(2 * columns)), str(2 * v * lanes))
                    c.store("i16", 2 * lanes, both, c.gep(mixed, at, "i16"), 2)
            b = mixed
        with c.loop(str(m // rows)) as block:
            a = c.gep("%a", c.mul(block, str(rows * k)), "i16")
            out = c.gep("%c", c.add(c.mul(block, str(rows * n)), c.mul(panel, str(columns))), "i32")
            cells = [[c.gep(out, str(r * n + v * lanes), "i32") for v in range(vectors)] for r in range(rows)]
            first = [[c.load("i32", lanes, p, 4) for p in row] for row in cells]
            with summing(c, t, first, k, pairs) as (iv, before, sums):
                line = c.gep(b, c.mul(iv, str(columns)), "i16")
                wide = pairs * lanes
                right = [c.load("i16", wide, c.gep(line, str(v * wide), "i16"), 2) for v in range(vectors)]
                right = [c.cast("sext", "i16", "i32", wide, x) for x in right]
                for r in range(rows):
                    at = c.gep(c.gep(a, iv, "i16"), str(r * k), "i16")
                    if pairs == 2:
                        one = c.splat("i32", lanes, c.load("i32", 1, at, 2))
                        left = c.op(f"bitcast {t} {one} to {vec('i16', wide)}")
                    else:
                        left = c.splat("i16", lanes, c.load("i16", 1, at, 2))
                    left = c.cast("sext", "i16", "i32", wide, left)
                    for v in range(vectors):
                        product = c.bin("mul", "i32", wide, left, right[v])
                        if pairs == 2:
                            evens = c.shuffle("i32", wide, product, None, list(range(0, wide, 2)))
                            odds = c.shuffle("i32", wide, product, None, list(range(1, wide, 2)))
                            product = c.bin("add", "i32", lanes, evens, odds)
                        c.do(f"{sums[r][v]} = add {t} {before[r][v]}, {product}")
            for r in range(rows):
                for v in range(vectors):
                    c.store("i32", lanes, sums[r][v], cells[r][v], 4)
    c.do("ret void")
    return c.text(f"define internal void @{name}(ptr noalias %a, ptr noalias %b, ptr noalias %c) noinline")
