"""Random Tile IR programs whose results do not depend on the order of evaluation, for comparing two witnesses.

A program is drawn step by step from a `choose(list)` function (hypothesis in the tests, so that failures shrink).
Every op used is exact: wrapping integers, one rounding per float op, reductions and scans only with operators that
associate exactly. So the interpreter and the emulated machine code must agree bit for bit.
The text carries its own arguments: the first line is `// outputs DTYPE:COUNT ...`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.corpus.bits import unlike
from tests.corpus.case import DTYPES, place

INPUTS = (("i32", 4096), ("f32", 4096))
INTS, FLOATS = ("i8", "i16", "i32", "i64"), ("f16", "f32", "f64")
SHAPES = ((1,), (2,), (8,), (32,), (128,), (1024,), (4, 8), (16, 16), (64, 2), (2, 64), (1, 32), (32, 1), (8, 4, 2),
          (2, 2, 64), (1, 16, 4), (4, 1, 32), (128, 16), (2, 4, 2, 8))  # fmt: skip
Choose = Callable[[Sequence[Any]], Any]


def tile(dtype: str, shape: Sequence[int]) -> str:
    return f"tile<{'x'.join([*map(str, shape), dtype])}>"


class Program:
    """Text under construction; `values` are the live tiles as (name, dtype, shape)."""

    def __init__(self, choose: Choose) -> None:
        self.choose, self.lines, self.count, self.indent = choose, [], 0, "  "
        self.values: list[tuple[str, str, tuple[int, ...]]] = []

    def emit(self, text: str) -> str:
        """Appends `%n = text` and returns %n."""
        self.count += 1
        self.lines.append(f"{self.indent}%v{self.count} = {text}")
        return f"%v{self.count}"

    def push(self, name: str, dtype: str, shape: Sequence[int]) -> None:
        self.values.append((name, dtype, tuple(shape)))

    def pick(self, dtypes: Sequence[str], shape: Sequence[int] | None = None) -> Any:
        """A live value of one of the types (and of the shape), or None."""
        fits = [v for v in self.values if v[1] in dtypes and (shape is None or v[2] == tuple(shape))]
        return self.choose(fits) if fits else None

    def pointers(self, base: str, dtype: str, shape: Sequence[int]) -> str:
        """Addresses of consecutive elements."""
        if not shape:
            return base
        n, p = math.prod(shape), f"ptr<{dtype}>"
        one = self.emit(f"reshape {base} : tile<{p}> -> {tile(p, (1,))}")
        many = self.emit(f"broadcast {one} : {tile(p, (1,))} -> {tile(p, (n,))}")
        line = self.emit(f"iota : {tile('i32', (n,))}")
        at = self.emit(f"offset {many}, {line} : {tile(p, (n,))}, {tile('i32', (n,))} -> {tile(p, (n,))}")
        return self.emit(f"reshape {at} : {tile(p, (n,))} -> {tile(p, shape)}")

    def constant(self, value: Any, dtype: str, shape: Sequence[int] = ()) -> str:
        return self.emit(f"constant <{dtype}: {value}> : {tile(dtype, shape)}")


def load(p: Program) -> None:
    """A fresh tile from one of the inputs."""
    dtype, shape = p.choose(("i32", "f32")), p.choose(SHAPES)
    at = p.pointers("%a" if dtype == "i32" else "%b", dtype, shape)
    p.count += 1
    name = f"%v{p.count}"
    p.lines.append(
        f"{p.indent}{name}, %t{p.count} = load_ptr_tko weak {at} : {tile(f'ptr<{dtype}>', shape)} -> "
        f"{tile(dtype, shape)}, token"
    )
    p.push(name, dtype, shape)


def masked_load(p: Program) -> None:
    """A load with a mask from an iota and a padding value."""
    shape, n = p.choose(SHAPES), p.choose((0, 1, 3, 17, 100, 2000))
    at = p.pointers("%a", "i32", shape)
    size, flat = math.prod(shape), (math.prod(shape),)
    limit = p.constant(n, "i32", flat)
    line = p.emit(f"iota : {tile('i32', flat)}")
    low = p.emit(f"cmpi less_than {line}, {limit}, signed : {tile('i32', flat)} -> {tile('i1', (size,))}")
    mask = p.emit(f"reshape {low} : {tile('i1', flat)} -> {tile('i1', shape)}")
    pad = p.constant(-7, "i32", shape)
    t = tile("i32", shape)
    p.count += 1
    p.lines.append(
        f"{p.indent}%v{p.count}, %t{p.count} = load_ptr_tko weak {at}, {mask}, {pad} : "
        f"{tile('ptr<i32>', shape)}, {tile('i1', shape)}, {t} -> {t}, token"
    )
    p.push(f"%v{p.count}", "i32", shape)


def binary(p: Program) -> None:
    """Two operands of one type and shape."""
    one = p.pick(INTS + FLOATS)
    if one is None:
        return
    a, dtype, shape = one
    b = p.pick((dtype,), shape)[0]
    t = tile(dtype, shape)
    if dtype in INTS:
        op = p.choose(("addi", "subi", "muli", "andi", "ori", "xori", "maxi", "mini", "mulhii"))
        if op == "mulhii" and dtype == "i8":
            op = "muli"
        sign = f" {p.choose(('signed', 'unsigned'))}" if op in ("maxi", "mini") else ""
        text = f"{op} {a}, {b}{sign} : {t}"
    else:
        op = p.choose(("addf", "subf", "mulf", "maxf", "minf"))
        text = f"{op} {a}, {b} : {t}"
    p.push(p.emit(text), dtype, shape)


def unary(p: Program) -> None:
    one = p.pick(INTS + FLOATS)
    if one is None:
        return
    a, dtype, shape = one
    op = p.choose(("negf", "absf", "floor", "ceil") if dtype in FLOATS else ("negi", "absi"))
    p.push(p.emit(f"{op} {a} : {tile(dtype, shape)}"), dtype, shape)


def shift(p: Program) -> None:
    one = p.pick(INTS)
    if one is None:
        return
    a, dtype, shape = one
    t = tile(dtype, shape)
    by = p.constant(p.choose((0, 1, 3, 7)), dtype, shape)
    text = p.choose(
        (f"shli {a}, {by} : {t}", f"shri {a}, {by} signed : {t}", f"shri {a}, {by} unsigned : {t}")
    )
    p.push(p.emit(text), dtype, shape)


def select(p: Program) -> None:
    one = p.pick(INTS + FLOATS)
    if one is None:
        return
    a, dtype, shape = one
    b = p.pick((dtype,), shape)[0]
    t, m = tile(dtype, shape), tile("i1", shape)
    if dtype in INTS:
        how = p.choose(("less_than", "equal", "greater_than_or_equal"))
        c = p.emit(f"cmpi {how} {a}, {b}, {p.choose(('signed', 'unsigned'))} : {t} -> {m}")
    else:
        how, order = p.choose(("less_than", "not_equal")), p.choose(("ordered", "unordered"))
        c = p.emit(f"cmpf {how} {order} {a}, {b} : {t} -> {m}")
    p.push(p.emit(f"select {c}, {b}, {a} : {m}, {t}"), dtype, shape)


def cast(p: Program) -> None:
    """Conversions that are defined for every value."""
    one = p.pick(INTS + FLOATS)
    if one is None:
        return
    a, dtype, shape = one
    src = tile(dtype, shape)
    if dtype in INTS:
        to = p.choose([d for d in INTS if d != dtype] + ["f32", "f64"])
        sign = p.choose(("signed", "unsigned"))
        if to in FLOATS:
            text = f"itof {a} {sign}"
        else:
            text = f"exti {a} {sign}" if int(to[1:]) > int(dtype[1:]) else f"trunci {a}"
    else:
        to = p.choose([d for d in FLOATS if d != dtype])
        text = f"ftof {a}"
    p.push(p.emit(f"{text} : {src} -> {tile(to, shape)}"), to, shape)


def reshape(p: Program) -> None:
    one = p.pick(INTS + FLOATS)
    if one is None:
        return
    a, dtype, shape = one
    to = p.choose(
        [s for s in SHAPES if math.prod(s) == math.prod(shape)] + [(math.prod(shape),), (1, *shape)]
    )
    if len(to) > 5:
        return
    p.push(p.emit(f"reshape {a} : {tile(dtype, shape)} -> {tile(dtype, to)}"), dtype, to)


def permute(p: Program) -> None:
    one = p.pick(INTS + FLOATS)
    if one is None or len(one[2]) < 2:
        return
    a, dtype, shape = one
    order = list(range(len(shape)))
    order = p.choose((order[::-1], order[1:] + order[:1], [1, 0, *order[2:]]))
    to = [shape[k] for k in order]
    p.push(p.emit(f"permute {a} {order} : {tile(dtype, shape)} -> {tile(dtype, to)}"), dtype, to)


def broadcast(p: Program) -> None:
    one = p.pick(INTS + FLOATS)
    if one is None or 1 not in one[2] or math.prod(one[2]) > 128:
        return
    a, dtype, shape = one
    to = [p.choose((2, 8)) if n == 1 else n for n in shape]
    p.push(p.emit(f"broadcast {a} : {tile(dtype, shape)} -> {tile(dtype, to)}"), dtype, to)


def extract(p: Program) -> None:
    one = p.pick(INTS + FLOATS)
    if one is None or math.prod(one[2]) < 2:
        return
    a, dtype, shape = one
    to = [n // p.choose((1, 2)) if n > 1 else n for n in shape]
    where = [p.constant(p.choose(range(n // m)), "i32") for n, m in zip(shape, to)]
    p.push(p.emit(f"extract {a}[{', '.join(where)}] : {tile(dtype, shape)} -> {tile(dtype, to)}"), dtype, to)


def cat(p: Program) -> None:
    one = p.pick(INTS + FLOATS)
    if one is None or not one[2] or math.prod(one[2]) > 1024:
        return
    a, dtype, shape = one
    b, dim, t = p.pick((dtype,), shape)[0], p.choose(range(len(shape))), tile(dtype, shape)
    to = [2 * n if k == dim else n for k, n in enumerate(shape)]
    p.push(p.emit(f"cat {a}, {b} dim = {dim} : {t}, {t} -> {tile(dtype, to)}"), dtype, to)


def reduce(p: Program) -> None:
    """Integers with any associative operator, floats with max only."""
    one = p.pick(("i32", "i64", "f32"))
    if one is None or not one[2]:
        return
    a, dtype, shape = one
    dim = p.choose(range(len(shape)))
    scan = dtype != "f32" and p.choose((False, False, True))
    to = shape if scan else tuple(n for k, n in enumerate(shape) if k != dim)
    if dtype == "f32":
        body, identity = "maxf %x, %y", "0xFF800000"
    else:
        low = -(2 ** (int(dtype[1:]) - 1))
        body, identity = p.choose((("addi %x, %y", 0), ("xori %x, %y", 0), ("maxi %x, %y signed", low)))
    extra = f" reverse={p.choose(('true', 'false'))}" if scan else ""
    p.count += 1
    p.lines += [
        f"{p.indent}%v{p.count} = {'scan' if scan else 'reduce'} {a} dim={dim}{extra} identities=[{identity} : "
        f"{dtype}] : {tile(dtype, shape)} -> {tile(dtype, to)}",
        f"{p.indent}(%x: tile<{dtype}>, %y: tile<{dtype}>) {{",
        f"{p.indent}  %z = {body} : tile<{dtype}>",
        f"{p.indent}  yield %z : tile<{dtype}>",
        f"{p.indent}}}",
    ]
    p.push(f"%v{p.count}", dtype, to)


def loop(p: Program) -> None:
    """A few rounds with one carried tile and a body of exact ops."""
    one = p.pick(("i32", "f32"))
    if one is None or p.indent != "  ":
        return
    a, dtype, shape = one
    t = tile(dtype, shape)
    zero, end, step = p.constant(0, "i32"), p.constant(p.choose((0, 1, 3)), "i32"), p.constant(1, "i32")
    p.count += 1
    name, saved = f"%v{p.count}", p.values
    p.lines.append(
        f"{p.indent}{name} = for %i{p.count} in ({zero} to {end}, step {step}) : tile<i32> "
        f"iter_values(%c{p.count} = {a}) -> ({t}) {{"
    )
    p.values = [*saved, (f"%c{p.count}", dtype, shape)]
    p.indent = "    "
    for _ in range(p.choose((1, 2, 3))):
        p.choose((binary, unary, select))(p)
    last = p.pick((dtype,), shape)[0]
    p.lines.append(f"{p.indent}continue {last} : {t}")
    p.indent, p.values = "  ", saved
    p.lines.append(f"{p.indent}}}")
    p.push(name, dtype, shape)


STEPS = (load, masked_load, binary, binary, unary, shift, select, cast, reshape, permute, broadcast, extract, cat,
         reduce, loop)  # fmt: skip


def draw_program(choose: Choose) -> str:
    """The text of one program."""
    p = Program(choose)
    load(p)
    for _ in range(choose(range(1, 13))):
        choose(STEPS)(p)
    results = p.values[-3:]
    outputs = []
    for k, (name, dtype, shape) in enumerate(results):
        at = p.pointers(f"%o{k}", dtype, shape)
        p.emit(
            f"store_ptr_tko weak {at}, {name} : {tile(f'ptr<{dtype}>', shape)}, {tile(dtype, shape)} -> token"
        )
        outputs.append((dtype, math.prod(shape)))
    arguments = [f"%{n}: tile<ptr<{d}>>" for n, (d, _) in zip("ab", INPUTS)]
    arguments += [f"%o{k}: tile<ptr<{d}>>" for k, (d, _) in enumerate(outputs)]
    head = "// outputs " + " ".join(f"{d}:{n}" for d, n in outputs)
    body = "\n".join(f"  {line}" for line in p.lines)
    return f"{head}\ncuda_tile.module @fuzz {{\n  entry @k({', '.join(arguments)}) {{\n{body}\n    return\n  }}\n}}\n"


def arguments_of(text: str) -> list[np.ndarray]:
    """Fresh arguments for a program: fixed inputs with extreme values among them, zeroed outputs."""
    rng = np.random.default_rng(7)
    a = rng.integers(-(2**31), 2**31, INPUTS[0][1]).astype(np.int32)
    a[:8] = [0, -1, 1, 2**31 - 1, -(2**31), 255, -256, 65536]
    b = (rng.uniform(-2, 2, INPUTS[1][1]) * 2.0 ** rng.integers(-20, 12, INPUTS[1][1])).astype(np.float32)
    b[:6] = [0.0, -0.0, 1e-41, 3e38, 65520, -1.0]
    out = [tuple(o.split(":")) for o in text.splitlines()[0].split()[2:]]
    return [place(a), place(b)] + [place(np.zeros(int(n), DTYPES[d])) for d, n in out]


def differences(text: str, target: str, gpu_name: str) -> list[str]:
    """What `target` leaves in memory differently from the interpreter, output by output."""
    import tileiras

    got, want = arguments_of(text), arguments_of(text)
    tileiras.launch(text, "k", grid=(1, 1, 1), args=want, target="reference")
    tileiras.launch(text, "k", grid=(1, 1, 1), args=got, target=target, gpu_name=gpu_name)
    return unlike(got, want)
