"""Random Tile IR programs of wider reach than fuzz.py: views, products, control flow, atomics, bodies that do not
commute, tiles of rank up to 4 with every reshape and permutation.

Drawn like those of fuzz.py, exact like them, and compared bit for bit. Besides two inputs and the outputs a program
has a scratch array `%sc` that is written and read back by token, and the scalars `%k0` to `%k3` (0 to 3), which no
compiler can fold.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.corpus import fuzz as F
from tests.corpus.bits import unlike
from tests.corpus.case import DTYPES, place
from tests.corpus.fuzz import FLOATS, INTS, Choose, tile
from tests.corpus.fuzz_flow import ALL, Wide, branch, loop, until
from tests.corpus.fuzz_memory import SH, atomics, gather, load, scratch_store, view

INPUTS = (("i32", 16384), ("f32", 16384))
MAXN = 8192  # elements of the largest tile that an op may make


def any_shape(p: Wide, n: int) -> tuple[int, ...]:
    """Any shape of n elements and rank 4 or less."""
    r = p.choose((1, 2, 2, 3, 4))
    b = n.bit_length() - 1
    cuts = [p.choose(range(r)) for _ in range(b)]
    return tuple(1 << cuts.count(k) for k in range(r))


def reshape(p: Wide) -> None:
    """To any shape with as many elements."""
    one = p.pick(ALL + ("i1",))
    if not one or not one[2]:
        return
    a, d, s = one
    to = any_shape(p, math.prod(s))
    p.push(p.emit(f"reshape {a} : {tile(d, s)} -> {tile(d, to)}"), d, to)


def permute(p: Wide) -> None:
    """In any order."""
    one = p.pick(ALL + ("i1",))
    if not one or len(one[2]) < 2:
        return
    a, d, s = one
    o = list(range(len(s)))
    q = []
    while o:
        q.append(p.choose(o))
        o.remove(q[-1])
    to = [s[k] for k in q]
    p.push(p.emit(f"permute {a} {q} : {tile(d, s)} -> {tile(d, to)}"), d, to)


def broadcast(p: Wide) -> None:
    """Extents of 1 grow."""
    one = p.pick(ALL + ("i1",))
    if not one or 1 not in one[2] or math.prod(one[2]) > 1024:
        return
    a, d, s = one
    to = [p.choose((1, 2, 8, 16)) if n == 1 else n for n in s]
    if math.prod(to) > MAXN:
        return
    p.push(p.emit(f"broadcast {a} : {tile(d, s)} -> {tile(d, to)}"), d, to)


def scalar_index(p: Wide, limit: int) -> str:
    """A constant below the limit, or the parameter of that value."""
    v = p.choose([k for k in (0, 1, 2, 3) if k < limit])
    return p.choose((p.constant(v, "i32"), f"%k{v}"))


def extract(p: Wide) -> None:
    """A block at constant or run-time indices."""
    one = p.pick(ALL + ("i1",))
    if not one or math.prod(one[2] or (1,)) < 2:
        return
    a, d, s = one
    to = [n // p.choose((1, 2, 4)) if n > 3 else n for n in s]
    w = [scalar_index(p, n // m) for n, m in zip(s, to)]
    p.push(p.emit(f"extract {a}[{', '.join(w)}] : {tile(d, s)} -> {tile(d, to)}"), d, to)


def insert(p: Wide) -> None:
    """A block put into a larger tile."""
    one = p.pick(ALL)
    if not one or not one[2]:
        return
    a, d, s = one
    to = [p.choose((1, 2, 4)) * n for n in s]
    if math.prod(to) > MAXN:
        return
    w = [scalar_index(p, m // n) for n, m in zip(s, to)]
    dst = p.pick((d,), to)
    dst = dst[0] if dst else p.constant(5 if d in INTS else "2.5", d, to)
    p.push(p.emit(f"insert {a}, {dst}[{', '.join(w)}] : {tile(d, s)}, {tile(d, to)}"), d, to)


def cat(p: Wide) -> None:
    """A tile joined with one of its shape."""
    one = p.pick(ALL + ("i1",))
    if not one or not one[2] or math.prod(one[2]) > MAXN // 2:
        return
    a, d, s = one
    b = p.pick((d,), s)[0]
    dim = p.choose(range(len(s)))
    t = tile(d, s)
    to = [2 * n if k == dim else n for k, n in enumerate(s)]
    p.push(p.emit(f"cat {a}, {b} dim = {dim} : {t}, {t} -> {tile(d, to)}"), d, to)


def iota(p: Wide) -> None:
    """Counts up."""
    d = p.choose(INTS)
    n = p.choose((1, 2, 16, 64, 256, 2048))
    if d == "i8":
        n = min(n, 64)
    p.push(p.emit(f"iota : {tile(d, (n,))}"), d, (n,))


def consts(p: Wide) -> None:
    """A dense constant."""
    d = p.choose(("i32", "i8", "f32", "i64"))
    s = p.choose([s for s in SH if math.prod(s) <= 64])
    n = math.prod(s)

    def nest(sh, vals):
        if len(sh) == 1:
            return "[" + ", ".join(vals) + "]"
        k = len(vals) // sh[0]
        return "[" + ", ".join(nest(sh[1:], vals[i * k : (i + 1) * k]) for i in range(sh[0])) + "]"

    vals = [str(p.choose(range(-9, 10))) + (".5" if d == "f32" else "") for _ in range(n)]
    p.push(p.emit(f"constant <{d}: {nest(s, vals)}> : {tile(d, s)}"), d, s)


def compare(p: Wide) -> None:
    """A tile of i1."""
    one = p.pick(ALL)
    if not one:
        return
    a, d, s = one
    b = p.pick((d,), s)[0]
    t, m = tile(d, s), tile("i1", s)
    if d in INTS:
        c = p.emit(
            f"cmpi {p.choose(('less_than', 'equal', 'greater_than_or_equal'))} {a}, {b}, "
            f"{p.choose(('signed', 'unsigned'))} : {t} -> {m}"
        )
    else:
        c = p.emit(
            f"cmpf {p.choose(('less_than', 'not_equal', 'equal'))} {p.choose(('ordered', 'unordered'))} {a}, {b} : {t} -> {m}"
        )
    p.push(c, "i1", s)


def logic(p: Wide) -> None:
    """What tiles of i1 can do."""
    one = p.pick(("i1",))
    if not one:
        return
    a, d, s = one
    b = p.pick((d,), s)[0]
    t = tile("i1", s)
    k = p.choose(range(4))
    if k < 2:
        p.push(
            p.emit(
                f"{p.choose(('andi', 'ori', 'xori', 'addi', 'maxi', 'muli'))} {a}, {b} : {t}".replace(
                    "maxi " + a + ", " + b, "maxi " + a + ", " + b + " unsigned"
                )
            ),
            "i1",
            s,
        )
    elif k == 2:
        to = p.choose(("i8", "i32", "i64"))
        p.push(p.emit(f"exti {a} {p.choose(('signed', 'unsigned'))} : {t} -> {tile(to, s)}"), to, s)
    else:
        o = p.pick(ALL, s)
        if o:
            b = p.pick((o[1],), s)[0]
            p.push(p.emit(f"select {a}, {o[0]}, {b} : {t}, {tile(o[1], s)}"), o[1], s)


def nested(
    p: Wide, op: str, names: Sequence[str], ds: Sequence[str], shs: Sequence[Any], dim: int, idents: Sequence[Any],
    body: Sequence[str], outs: Sequence[Any], rev: str,
) -> None:  # fmt: skip
    """A reduce or scan with its body written out."""
    p.count += 1
    n = p.count
    ins = ", ".join(tile(d, s) for d, s in zip(ds, shs))
    os_ = ", ".join(tile(d, s) for d, s in zip(ds, outs))
    extra = f" reverse={rev}" if op == "scan" else ""
    neutral = ", ".join(f"{i} : {d}" if d != "i1" else i for i, d in zip(idents, ds))
    res = f"%v{n}" + (f":{len(ds)}" if len(ds) > 1 else "")
    args = ", ".join(f"%x{i}: tile<{d}>, %y{i}: tile<{d}>" for i, d in enumerate(ds))
    p.lines += (
        [
            f"{p.indent}{res} = {op} {', '.join(names)} dim={dim}{extra} identities=[{neutral}] : {ins} -> {os_}",
            f"{p.indent}({args}) {{",
        ]
        + [f"{p.indent}  {l}" for l in body]
        + [f"{p.indent}}}"]
    )
    for i, (d, o) in enumerate(zip(ds, outs)):
        p.push(f"%v{n}" + (f"#{i}" if len(ds) > 1 else ""), d, o)


def reduce(p: Wide) -> None:
    """A reduction or scan with one operand; taking the first or the last does not commute."""
    one = p.pick(("i32", "i64", "i8", "i16", "f32", "f64", "f16", "i1"))
    if not one or not one[2]:
        return
    a, d, s = one
    dim = p.choose(range(len(s)))
    scan = p.choose((False, True))
    to = s if scan else tuple(n for k, n in enumerate(s) if k != dim)
    if d in FLOATS:
        op = "maxf %x0, %y0"
        idn = {"f32": "0xFF800000", "f64": "0xFFF0000000000000", "f16": "0xFC00"}[d]
    elif d == "i1":
        op, idn = p.choose((("andi %x0, %y0", "true"), ("ori %x0, %y0", "false"), ("xori %x0, %y0", "false")))
    else:
        low = -(2 ** (int(d[1:]) - 1))
        op, idn = p.choose(
            (
                ("addi %x0, %y0", 0),
                ("xori %x0, %y0", 0),
                ("maxi %x0, %y0 signed", low),
                ("muli %x0, %y0", 1),
                ("mini %x0, %y0 unsigned", -1),
                ("orkeep", 0),
            )
        )
    if op == "orkeep":  # first element / last element: associative non commutative
        op = None
        k = p.choose(("x0", "y0"))
        # identity not respected: but no padding happens
        nested(
            p,
            "scan" if scan else "reduce",
            [a],
            [d],
            [s],
            dim,
            [idn],
            [f"yield %{k} : tile<{d}>"],
            [to],
            p.choose(("true", "false")),
        )
        return
    nested(
        p,
        "scan" if scan else "reduce",
        [a],
        [d],
        [s],
        dim,
        [idn],
        [f"%z = {op} : tile<{d}>", f"yield %z : tile<{d}>"],
        [to],
        p.choose(("true", "false")),
    )


def affine(p: Wide) -> None:
    """Composition of affine maps: two operands, associative, not commutative."""
    d = p.choose(("i32", "i64", "i8"))
    one = p.pick((d,))
    if not one or not one[2]:
        return
    a, d, s = one
    b = p.pick((d,), s)[0]
    dim = p.choose(range(len(s)))
    scan = p.choose((False, True))
    to = s if scan else tuple(n for k, n in enumerate(s) if k != dim)
    t = f"tile<{d}>"
    body = [
        f"%m = muli %x0, %y0 : {t}",
        f"%n = muli %x1, %y0 : {t}",
        f"%o = addi %n, %y1 : {t}",
        f"yield %m, %o : {t}, {t}",
    ]
    nested(
        p,
        "scan" if scan else "reduce",
        [a, b],
        [d, d],
        [s, s],
        dim,
        [1, 0],
        body,
        [to, to],
        p.choose(("true", "false")),
    )


def argmax(p: Wide) -> None:
    """The greatest value with its first place."""
    one = p.pick(("i32", "i8", "i64"))
    if not one or not one[2]:
        return
    a, d, s = one
    dim = p.choose(range(len(s)))
    n = s[dim]
    i = p.emit(f"iota : {tile('i32', (n,))}")
    sh = [n if k == dim else 1 for k in range(len(s))]
    i = p.emit(f"reshape {i} : {tile('i32', (n,))} -> {tile('i32', sh)}")
    i = p.emit(f"broadcast {i} : {tile('i32', sh)} -> {tile('i32', s)}")
    scan = p.choose((False, False, True))
    to = s if scan else tuple(n for k, n in enumerate(s) if k != dim)
    t = f"tile<{d}>"
    body = [
        f"%g = cmpi greater_than %x0, %y0, signed : {t} -> tile<i1>",
        f"%e = cmpi equal %x0, %y0, signed : {t} -> tile<i1>",
        "%f = cmpi less_than %x1, %y1, signed : tile<i32> -> tile<i1>",
        "%h = andi %e, %f : tile<i1>",
        "%q = ori %g, %h : tile<i1>",
        f"%r = select %q, %x0, %y0 : tile<i1>, {t}",
        "%s = select %q, %x1, %y1 : tile<i1>, tile<i32>",
        f"yield %r, %s : {t}, tile<i32>",
    ]
    nested(
        p,
        "scan" if scan else "reduce",
        [a, i],
        [d, "i32"],
        [s, s],
        dim,
        [-(2 ** (int(d[1:]) - 1)), 2147483647],
        body,
        [to, to],
        p.choose(("true", "false")),
    )


def divs(p: Wide) -> None:
    """Division and remainder by small odd numbers, in every rounding."""
    one = p.pick(INTS)
    if not one:
        return
    a, d, s = one
    b = p.pick((d,), s)[0]
    t = tile(d, s)
    seven = p.constant(127 if d == "i8" else 1023, d, s)
    o = p.constant(1, d, s)
    m = p.emit(f"andi {b}, {seven} : {t}")
    m = p.emit(f"ori {m}, {o} : {t}")
    k = p.choose(
        (
            f"divi {a}, {m} signed",
            f"divi {a}, {m} unsigned",
            f"divi {a}, {m} signed rounding<negative_inf>",
            f"divi {a}, {m} unsigned rounding<positive_inf>",
            f"divi {a}, {m} signed rounding<positive_inf>",
            f"remi {a}, {m} signed",
            f"remi {a}, {m} unsigned",
        )
    )
    p.push(p.emit(f"{k} : {t}"), d, s)


def vshift(p: Wide) -> None:
    """Shifts by a tile."""
    one = p.pick(INTS)
    if not one:
        return
    a, d, s = one
    b = p.pick((d,), s)[0]
    t = tile(d, s)
    k = p.constant(int(d[1:]) - 1, d, s)
    m = p.emit(f"andi {b}, {k} : {t}")
    p.push(
        p.emit(f"{p.choose((f'shli {a}, {m}', f'shri {a}, {m} signed', f'shri {a}, {m} unsigned'))} : {t}"),
        d,
        s,
    )


def mma(p: Wide) -> None:
    """Products of small integers, exact in every type."""
    d = p.choose(("f16", "bf16", "i8", "f64", "f32", "tf32", "f8E4M3FN"))
    m, n, k = (p.choose((1, 2, 4, 8, 16, 32, 64)) for _ in range(3))
    bt = p.choose(((), (), (), (1,), (2,), (4,)))

    def operand(s):
        c = [v for v in p.values if v[1] == "i32" and math.prod(v[2] or (1,)) == math.prod(s)]
        if c:
            a = p.choose(c)[0:3]
            x, _, sh = a
            x = p.emit(f"reshape {x} : {tile('i32', sh)} -> {tile('i32', s)}") if tuple(sh) != tuple(s) else x
        else:
            at = p.pointers("%a", "i32", s)
            p.count += 1
            x = f"%v{p.count}"
            p.lines.append(
                f"{p.indent}{x}, %t{p.count} = load_ptr_tko weak {at} : {tile('ptr<i32>', s)} -> {tile('i32', s)}, token"
            )
        if d == "i8":
            return p.emit(f"trunci {x} : {tile('i32', s)} -> {tile('i8', s)}")
        c = p.constant(7, "i32", s)
        x = p.emit(f"andi {x}, {c} : {tile('i32', s)}")
        c = p.constant(3, "i32", s)
        x = p.emit(f"subi {x}, {c} : {tile('i32', s)}")
        if d in ("f16", "f32", "f64", "bf16"):
            return p.emit(f"itof {x} signed : {tile('i32', s)} -> {tile(d, s)}")
        x = p.emit(f"itof {x} signed : {tile('i32', s)} -> {tile('f32', s)}")
        return p.emit(f"ftof {x} : {tile('f32', s)} -> {tile(d, s)}")

    a = operand((*bt, m, k))
    b = operand((*bt, k, n))
    c = (*bt, m, n)
    if p.choose((0, 0, 1)):  # permuted operand
        b2 = operand((*bt, n, k))
        r = len(bt)
        b = p.emit(f"permute {b2} {[*range(r), r + 1, r]} : {tile(d, (*bt, n, k))} -> {tile(d, (*bt, k, n))}")
    ot = {"i8": "i32", "f64": "f64", "f16": p.choose(("f16", "f32"))}.get(d, "f32")
    acc = p.pick((ot,), c) if d == "i8" else None
    acc = acc[0] if acc else p.constant(1 if d == "i8" else "1.0", ot, c)
    sg = f" {p.choose(('signed', 'unsigned'))} {p.choose(('signed', 'unsigned'))}" if d == "i8" else ""
    op = "mmai" if d == "i8" else "mmaf"
    p.push(
        p.emit(f"{op} {a}, {b}, {acc}{sg} : {tile(d, (*bt, m, k))}, {tile(d, (*bt, k, n))}, {tile(ot, c)}"),
        ot,
        c,
    )


def packs(p: Wide) -> None:
    """Elements to bytes and back."""
    one = p.pick(("i32", "i8", "i16", "i64"))
    if not one or len(one[2]) != 1:
        return
    a, d, s = one
    if d != "i8":
        k = int(d[1:]) // 8
        p.push(p.emit(f"pack {a} : {tile(d, s)} -> {tile('i8', (s[0] * k,))}"), "i8", (s[0] * k,))
    else:
        to = p.choose(("i16", "i32", "i64"))
        k = int(to[1:]) // 8
        if s[0] >= k:
            p.push(p.emit(f"unpack {a} : {tile('i8', s)} -> {tile(to, (s[0] // k,))}"), to, (s[0] // k,))


INNER = (
    load,
    F.masked_load,
    F.binary,
    F.binary,
    F.unary,
    F.shift,
    F.select,
    F.cast,
    reshape,
    permute,
    broadcast,
    extract,
    insert,
    cat,
    reduce,
    affine,
    argmax,
    divs,
    vshift,
    gather,
    view,
    compare,
    logic,
    iota,
    consts,
    packs,
    mma,
    branch,
    loop,
    until,
)
STEPS = INNER + (atomics, scratch_store, branch, loop, until, reduce, permute, reshape)


def draw_program(choose: Choose, steps: Sequence[Callable[[Wide], None]] = (), count: int = 0) -> str:
    """The text of one program."""
    p = Wide(choose, INNER)
    load(p)
    load(p)
    for _ in range(count or choose(range(2, 18))):
        choose(steps or STEPS)(p)

    def plain(v: Any) -> bool:
        return v[1] in INTS + FLOATS + ("i1",)

    res = [v for v in p.values if plain(v)]
    res = res[-2:] + ([choose(res)] if len(res) > 2 else [])
    outs = []
    for k, (name, d, s) in enumerate(res):
        if d == "i1":
            name = p.emit(f"exti {name} unsigned : {tile('i1', s)} -> {tile('i8', s)}")
            d = "i8"
        at = p.pointers(f"%o{k}", d, s)
        p.emit(f"store_ptr_tko weak {at}, {name} : {tile(f'ptr<{d}>', s)}, {tile(d, s)} -> token")
        outs.append((d, math.prod(s)))
    args = (
        [f"%{n}: tile<ptr<{d}>>" for n, (d, _) in zip("ab", INPUTS)]
        + [f"%o{k}: tile<ptr<{d}>>" for k, (d, _) in enumerate(outs)]
        + ["%sc: tile<ptr<i32>>"]
        + [f"%k{i}: tile<i32>" for i in range(4)]
    )
    body = "\n".join(f"  {l}" for l in p.lines)
    head = f"// outputs {' '.join(f'{d}:{n}' for d, n in outs)}"
    return (
        f"{head}\ncuda_tile.module @fuzz {{\n  entry @k({', '.join(args)}) {{\n{body}\n    return\n  }}\n}}\n"
    )


def arguments_of(text: str) -> list[Any]:
    """Fresh arguments for a program."""
    rng = np.random.default_rng(7)
    a = rng.integers(-(2**31), 2**31, INPUTS[0][1]).astype(np.int32)
    a[:8] = [0, -1, 1, 2**31 - 1, -(2**31), 255, -256, 65536]
    b = (rng.uniform(-2, 2, INPUTS[1][1]) * 2.0 ** rng.integers(-20, 12, INPUTS[1][1])).astype(np.float32)
    b[:6] = [0.0, -0.0, 1e-41, 3e38, 65520, -1.0]
    out = [tuple(o.split(":")) for o in text.splitlines()[0].split()[2:]]
    return (
        [place(a), place(b)]
        + [place(np.zeros(int(n), DTYPES[d])) for d, n in out]
        + [place(np.arange(16384, dtype=np.int32) * 7)]
        + [np.int32(i) for i in range(4)]
    )


def differences(text: str, gpu_name: str, target: str = "emulator", **more: Any) -> list[str]:
    """What machine code, emulated or of this CPU, leaves in memory differently from the interpreter."""
    import tileiras

    got, want = arguments_of(text), arguments_of(text)
    tileiras.launch(text, "k", grid=(1, 1, 1), args=want, target="reference")
    tileiras.launch(text, "k", grid=(1, 1, 1), args=got, target=target, gpu_name=gpu_name, **more)
    return unlike(got, want)
