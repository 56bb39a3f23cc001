"""Integer instructions of the PTX emulator against Python integers."""

from functools import partial

import numpy as np
import pytest
from emulator_kit import apply

RNG = np.random.default_rng(0)
CORNERS = [
    0,
    1,
    2,
    3,
    7,
    31,
    32,
    33,
    63,
    64,
    127,
    128,
    255,
    256,
    0x7FFF,
    0x8000,
    0xFFFF,
    0x10000,
    0x7FFFFFFF,
    0x80000000,
    0xFFFFFFFF,
    0xFFFFFFFE,
    0x55555555,
    0x80000001,
    1 << 32,
    (1 << 63) - 1,
    1 << 63,
    (1 << 64) - 1,
    (1 << 64) - 2,
]


def values(bits, count=400):
    """Corner cases first, then noise of all magnitudes."""
    noise = [
        int(RNG.integers(0, 1 << 63)) * 2 + int(RNG.integers(0, 2)) >> int(RNG.integers(0, 64))
        for _ in range(count)
    ]
    return np.array([v % (1 << bits) for v in (*CORNERS, *noise)], np.uint64).astype(f"uint{bits}")


def shuffled(a, seed):
    """Another order of the same values, so that pairs mix corners and noise."""
    return np.random.default_rng(seed).permutation(a)


def signed(v, bits):
    v = int(v) % (1 << bits)
    return v - (1 << bits) if v >> bits - 1 else v


def check(code, bits, want, types=None, arity=2, out_bits=None):
    """want(*python ints of each input, unsigned) gives the result modulo the output width."""
    args = [shuffled(values(bits), k) for k in range(arity)]
    if types:
        args = [a.astype(t) for a, t in zip(args, types)]
    out_bits = out_bits or bits
    got = apply(code, args, [f"uint{max(16, out_bits)}"])
    for i in range(args[0].size):
        ints = [int(a[i]) for a in args]
        assert int(got[i]) % (1 << out_bits) == want(*ints) % (1 << out_bits), (code, [hex(v) for v in ints])


def trunc_div(a, b):
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


@pytest.mark.parametrize("bits", [16, 32, 64])
@pytest.mark.parametrize("kind", ["s", "u"])
def test_arithmetic(bits, kind):
    def s(v):
        return signed(v, bits) if kind == "s" else v

    t = f"{kind}{bits}"
    check(f"add.{t} %d0, %a0, %a1;", bits, lambda a, b: a + b)
    check(f"sub.{t} %d0, %a0, %a1;", bits, lambda a, b: a - b)
    check(f"mul.lo.{t} %d0, %a0, %a1;", bits, lambda a, b: a * b)
    check(f"mul.hi.{t} %d0, %a0, %a1;", bits, lambda a, b: s(a) * s(b) >> bits)
    check(f"mad.lo.{t} %d0, %a0, %a1, %a2;", bits, lambda a, b, c: a * b + c, arity=3)
    check(f"mad.hi.{t} %d0, %a0, %a1, %a2;", bits, lambda a, b, c: (s(a) * s(b) >> bits) + c, arity=3)
    check(f"min.{t} %d0, %a0, %a1;", bits, lambda a, b: min(s(a), s(b)))
    check(f"max.{t} %d0, %a0, %a1;", bits, lambda a, b: max(s(a), s(b)))
    check(f"sad.{t} %d0, %a0, %a1, %a2;", bits, lambda a, b, c: c + abs(s(a) - s(b)), arity=3)
    check(f"or.b{bits} %a1, %a1, 1; div.{t} %d0, %a0, %a1;", bits, lambda a, b: trunc_div(s(a), s(b | 1)))
    check(
        f"or.b{bits} %a1, %a1, 1; rem.{t} %d0, %a0, %a1;",
        bits,
        lambda a, b: s(a) - trunc_div(s(a), s(b | 1)) * s(b | 1),
    )
    if bits < 64:
        wide = "%r0, %a0, %a1; mov.b32 %d0, %r0;" if bits == 16 else "%rd0, %a0, %a1; mov.b64 %d0, %rd0;"
        check(f"mul.wide.{t} {wide}", bits, lambda a, b: s(a) * s(b), out_bits=2 * bits)
    if kind == "s":
        check(f"neg.{t} %d0, %a0;", bits, lambda a: -a, arity=1)
        check(f"abs.{t} %d0, %a0;", bits, lambda a: abs(s(a)), arity=1)


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_logic_and_shifts(bits):
    mask = (1 << bits) - 1
    check(f"and.b{bits} %d0, %a0, %a1;", bits, lambda a, b: a & b)
    check(f"or.b{bits} %d0, %a0, %a1;", bits, lambda a, b: a | b)
    check(f"xor.b{bits} %d0, %a0, %a1;", bits, lambda a, b: a ^ b)
    check(f"not.b{bits} %d0, %a0;", bits, lambda a: ~a, arity=1)
    check(f"cnot.b{bits} %d0, %a0;", bits, lambda a: int(a == 0), arity=1)
    types = [f"uint{bits}", "uint32"]

    def amount(n):
        return min(n, 200)

    check(f"shl.b{bits} %d0, %a0, %a1;", bits, lambda a, n: a << amount(n) & mask, types)
    check(f"shr.u{bits} %d0, %a0, %a1;", bits, lambda a, n: a >> amount(n), types)
    check(f"shr.s{bits} %d0, %a0, %a1;", bits, lambda a, n: signed(a, bits) >> amount(n), types)
    check(f"shr.s{bits} %d0, %a0, 5;", bits, lambda a: signed(a, bits) >> 5, arity=1)
    check(f"shl.b{bits} %d0, %a0, 77;", bits, lambda a: 0, arity=1)


@pytest.mark.parametrize("bits", [32, 64])
def test_bit_counting(bits):
    def tail(op, src):
        return f"{op} %d0, {src};"

    check(tail(f"popc.b{bits}", "%a0"), bits, lambda a: bin(a).count("1"), arity=1, out_bits=32)
    check(tail(f"clz.b{bits}", "%a0"), bits, lambda a: bits - a.bit_length(), arity=1, out_bits=32)
    check(tail(f"bfind.u{bits}", "%a0"), bits, lambda a: a.bit_length() - 1, arity=1, out_bits=32)
    check(
        tail(f"bfind.s{bits}", "%a0"),
        bits,
        lambda a: (a if signed(a, bits) >= 0 else ~a & (1 << bits) - 1).bit_length() - 1,
        arity=1,
        out_bits=32,
    )
    check(
        tail(f"bfind.shiftamt.u{bits}", "%a0"),
        bits,
        lambda a: bits - a.bit_length() if a else -1,
        arity=1,
        out_bits=32,
    )
    check(f"brev.b{bits} %d0, %a0;", bits, lambda a: int(f"{a:0{bits}b}"[::-1], 2), arity=1)

    def field(a, p, n, sign):
        p, n = p & 255, n & 255
        out = 0
        top = signed(a, bits) >> min(p + n - 1, bits - 1) & 1 if n and sign else 0
        for i in range(bits):
            bit = a >> p + i & 1 if i < n and p + i < bits else top
            out |= bit << i
        return out

    types = [f"uint{bits}", "uint32", "uint32"]
    check(f"bfe.u{bits} %d0, %a0, %a1, %a2;", bits, lambda a, p, n: field(a, p, n, False), types, 3)
    check(f"bfe.s{bits} %d0, %a0, %a1, %a2;", bits, lambda a, p, n: field(a, p, n, True), types, 3)

    def insert(a, b, p, n):
        p, n = p & 255, n & 255
        m = (1 << n) - 1 << p
        return b & ~m | a << p & m

    check(f"bfi.b{bits} %d0, %a0, %a1, %a2, %a3;", bits, insert, [f"uint{bits}"] * 2 + ["uint32"] * 2, 4)


def test_32_bit_specials():
    m32 = 0xFFFFFFFF
    check("shf.l.wrap.b32 %d0, %a0, %a1, %a2;", 32, lambda a, b, n: (b << 32 | a) << (n & 31) >> 32, arity=3)
    check(
        "shf.l.clamp.b32 %d0, %a0, %a1, %a2;",
        32,
        lambda a, b, n: (b << 32 | a) << min(n, 32) >> 32 & m32,
        arity=3,
    )
    check("shf.r.wrap.b32 %d0, %a0, %a1, %a2;", 32, lambda a, b, n: (b << 32 | a) >> (n & 31), arity=3)
    check("shf.r.clamp.b32 %d0, %a0, %a1, %a2;", 32, lambda a, b, n: (b << 32 | a) >> min(n, 32), arity=3)
    check("mul24.lo.u32 %d0, %a0, %a1;", 32, lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF))
    check("mul24.hi.u32 %d0, %a0, %a1;", 32, lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF) >> 16)
    check("mad24.lo.s32 %d0, %a0, %a1, %a2;", 32, lambda a, b, c: signed(a, 24) * signed(b, 24) + c, arity=3)

    def dp4(a, b, c, ks, kt):
        parts = [
            (
                signed(a >> 8 * i, 8) if ks == "s" else a >> 8 * i & 255,
                signed(b >> 8 * i, 8) if kt == "s" else b >> 8 * i & 255,
            )
            for i in range(4)
        ]
        return c + sum(x * y for x, y in parts)

    for ks in "su":
        for kt in "su":
            check(f"dp4a.{ks}32.{kt}32 %d0, %a0, %a1, %a2;", 32, partial(dp4, ks=ks, kt=kt), arity=3)
    check(
        "dp2a.lo.s32.u32 %d0, %a0, %a1, %a2;",
        32,
        lambda a, b, c: c + sum(signed(a >> 16 * i, 16) * (b >> 8 * i & 255) for i in range(2)),
        arity=3,
    )
    check(
        "dp2a.hi.u32.s32 %d0, %a0, %a1, %a2;",
        32,
        lambda a, b, c: c + sum((a >> 16 * i & 0xFFFF) * signed(b >> 16 + 8 * i, 8) for i in range(2)),
        arity=3,
    )
    check("szext.wrap.s32 %d0, %a0, %a1;", 32, lambda a, n: signed(a, n & 31) if n & 31 else 0)
    check("szext.clamp.u32 %d0, %a0, %a1;", 32, lambda a, n: a & (1 << min(n, 32)) - 1)
    check("bmsk.wrap.b32 %d0, %a0, %a1;", 32, lambda a, b: ((1 << (b & 31)) - 1) << (a & 31) & m32)
    check("bmsk.clamp.b32 %d0, %a0, %a1;", 32, lambda a, b: ((1 << min(b, 32)) - 1) << min(a, 32) & m32)
    check(
        "add.sat.s32 %d0, %a0, %a1;",
        32,
        lambda a, b: min(max(signed(a, 32) + signed(b, 32), -(2**31)), 2**31 - 1),
    )


@pytest.mark.parametrize(
    "table", [0x00, 0x96, 0xE8, 0xCA, 0x80, 0xFE, 0x1B, 0x6A, 0x78, 0xF8, 0xA8, 0xE2, 0xEA, 0xFF]
)
def test_lop3(table):
    def want(a, b, c):
        return sum(
            (table >> ((a >> i & 1) << 2 | (b >> i & 1) << 1 | c >> i & 1) & 1) << i for i in range(32)
        )

    check(f"lop3.b32 %d0, %a0, %a1, %a2, {table};", 32, want, arity=3)


def test_prmt():
    def default(a, b, c):
        out = 0
        for i in range(4):
            nib = c >> 4 * i & 15
            byte = (b << 32 | a) >> 8 * (nib & 7) & 255
            out |= (0xFF if byte >> 7 else 0) << 8 * i if nib & 8 else byte << 8 * i
        return out

    def by(choose):
        return lambda a, b, c: sum(((b << 32 | a) >> 8 * choose(c & 3, i) & 255) << 8 * i for i in range(4))

    check("prmt.b32 %d0, %a0, %a1, %a2;", 32, default, arity=3)
    check("prmt.b32.f4e %d0, %a0, %a1, %a2;", 32, by(lambda s, i: s + i), arity=3)
    check("prmt.b32.b4e %d0, %a0, %a1, %a2;", 32, by(lambda s, i: (s - i) % 8), arity=3)
    check("prmt.b32.rc8 %d0, %a0, %a1, %a2;", 32, by(lambda s, i: s), arity=3)
    check("prmt.b32.ecl %d0, %a0, %a1, %a2;", 32, by(max), arity=3)
    check("prmt.b32.ecr %d0, %a0, %a1, %a2;", 32, by(min), arity=3)
    check("prmt.b32.rc16 %d0, %a0, %a1, %a2;", 32, by(lambda s, i: (s & 1) * 2 + (i & 1)), arity=3)


def test_fns():
    def want(mask, base, n):
        base, n = base & 31, signed(n, 32)
        if n == 0:
            return base if mask >> base & 1 else 0xFFFFFFFF
        steps = range(base, 32) if n > 0 else range(base, -1, -1)
        found = [i for i in steps if mask >> i & 1]
        return found[abs(n) - 1] if len(found) >= abs(n) else 0xFFFFFFFF

    masks = values(32, 60)
    for n in (-3, -1, 0, 1, 2):
        counts = np.full(masks.size, n, np.int32)
        got = apply(
            "and.b32 %a1, %a1, 31; fns.b32 %d0, %a0, %a1, %a2;",
            [masks, shuffled(masks, 1), counts],
            ["uint32"],
        )
        assert got.tolist() == [want(int(m), int(b), n) for m, b in zip(masks, shuffled(masks, 1))]


def test_carry_chains():
    a, b = values(64), shuffled(values(64), 3)
    code = """mov.b64 {%r0, %r1}, %a0; mov.b64 {%r2, %r3}, %a1;
        add.cc.u32 %r4, %r0, %r2; addc.cc.u32 %r5, %r1, %r3; addc.u32 %r6, 0, 0;
        sub.cc.u32 %r7, %r0, %r2; subc.cc.u32 %r8, %r1, %r3; subc.u32 %r9, 0, 0;
        mad.lo.cc.u32 %r10, %r0, %r2, %r3; madc.hi.cc.u32 %r11, %r0, %r2, %r1; addc.u32 %r12, 0, 0;
        mov.b64 %d0, {%r4, %r5}; mov.b32 %d1, %r6; mov.b64 %d2, {%r7, %r8}; mov.b32 %d3, %r9;
        mov.b64 %d4, {%r10, %r11}; mov.b32 %d5, %r12;"""
    s, c, d, br, m, mc = apply(code, [a, b], ["uint64", "uint32", "uint64", "uint32", "uint64", "uint32"])
    for i in range(a.size):
        x, y = int(a[i]), int(b[i])
        assert int(s[i]) | int(c[i]) << 64 == x + y
        assert int(d[i]) == (x - y) % 2**64 and int(br[i]) == (0xFFFFFFFF if x < y else 0)
        total = (x & 0xFFFFFFFF) * (y & 0xFFFFFFFF) + (y >> 32) + (x >> 32 << 32)
        assert int(m[i]) | int(mc[i]) << 64 == total


@pytest.mark.parametrize("type_", ["s16", "u16", "s32", "u32", "s64", "u64"])
def test_comparisons_and_selection(type_):
    bits = int(type_[1:])
    a = values(bits, 60)
    b = np.where(np.arange(a.size) % 4 == 0, a, shuffled(a, 5))

    def v(x):
        return signed(x, bits) if type_[0] == "s" else int(x)

    for cmp, fn in {
        "eq": lambda x, y: x == y,
        "ne": lambda x, y: x != y,
        "lt": lambda x, y: x < y,
        "le": lambda x, y: x <= y,
        "gt": lambda x, y: x > y,
        "ge": lambda x, y: x >= y,
    }.items():
        p, q = apply(f"setp.{cmp}.{type_} %q0|%q1, %a0, %a1;", [a, b], [bool, bool])
        want = [fn(v(x), v(y)) for x, y in zip(a, b)]
        assert p.tolist() == want and q.tolist() == [not w for w in want]
    if type_[0] == "u":
        p = apply(f"setp.lo.{type_} %q0, %a0, %a1;", [a, b], [bool])
        assert p.tolist() == (a < b).tolist()
    got = apply(
        f"setp.lt.{type_} %p0, %a0, %a1; setp.ge.and.{type_} %q0, %a0, 3, %p0; setp.eq.xor.{type_} %q1, %a1, 7, !%p0;",
        [a, b],
        [bool, bool],
    )
    less = [v(x) < v(y) for x, y in zip(a, b)]
    assert got[0].tolist() == [v(x) >= 3 and w for x, w in zip(a, less)]
    assert got[1].tolist() == [(v(y) == 7) != (not w) for y, w in zip(b, less)]
    got = apply(f"setp.lt.{type_} %p0, %a0, %a1; selp.b{bits} %d0, %a0, %a1, %p0;", [a, b], [a.dtype])
    assert got.tolist() == [int(x) if w else int(y) for x, y, w in zip(a, b, less)]
    got = apply(f"set.gt.u32.{type_} %d0, %a0, %a1;", [a, b], ["uint32"])
    assert got.tolist() == [0xFFFFFFFF if v(x) > v(y) else 0 for x, y in zip(a, b)]
    got = apply(f"set.gt.f32.{type_} %d0, %a0, %a1;", [a, b], ["float32"])
    assert got.tolist() == [float(v(x) > v(y)) for x, y in zip(a, b)]


def test_slct_and_predicate_logic():
    a, b, c = values(32), shuffled(values(32), 1), shuffled(values(32), 2)
    got = apply("slct.b32.s32 %d0, %a0, %a1, %a2;", [a, b, c], ["uint32"])
    assert got.tolist() == np.where(c.view(np.int32) >= 0, a, b).tolist()
    got = apply(
        "setp.lt.u32 %p0, %a0, %a1; setp.lt.u32 %p1, %a1, %a2; xor.pred %p2, %p0, %p1; not.pred %p3, %p2;"
        "and.pred %q0, %p3, %p0; or.pred %q1, %p2, %p1; mov.pred %p4, 1; selp.b32 %d2, 5, 6, %p4;",
        [a, b, c],
        [bool, bool, "uint32"],
    )
    p, q = a < b, b < c
    assert got[0].tolist() == (~(p ^ q) & p).tolist() and got[1].tolist() == ((p ^ q) | q).tolist()
    assert (got[2] == 5).all()


def test_vectors_in_registers():
    a = values(64)
    got = apply(
        "mov.b64 {%r0, %r1}, %a0; mov.b32 {%h0, %h1}, %r0; mov.b32 {%h2, _}, %r1; mov.b64 %rd0, {%h1, %h0, %h2, %h2};"
        "mov.b64 %d0, %rd0;",
        [a],
        ["uint64"],
    )
    for x, y in zip(a.tolist(), got.tolist()):
        h = [x >> 16 * i & 0xFFFF for i in range(4)]
        assert y == h[1] | h[0] << 16 | h[2] << 32 | h[2] << 48
    got = apply(
        "mov.b128 %x0, {%a0, %a1}; mov.b128 {%rd0, %rd1}, %x0; xor.b64 %d0, %rd0, %rd1;",
        [a, shuffled(a, 1)],
        ["uint64"],
    )
    assert (got == (a ^ shuffled(a, 1))).all()


def test_simd_minmax():
    a, b = values(32), shuffled(values(32), 1)
    got = apply(
        "min.s16x2 %d0, %a0, %a1; max.u16x2 %d1, %a0, %a1; add.u16x2 %d2, %a0, %a1;", [a, b], ["uint32"] * 3
    )
    s, u = (lambda x: x.view(np.int16)), (lambda x: x.view(np.uint16))
    assert (s(got[0]) == np.minimum(s(a), s(b))).all()
    assert (u(got[1]) == np.maximum(u(a), u(b))).all()
    assert (u(got[2]) == u(a) + u(b)).all()


def test_bytes_and_halves_of_words():
    """vadd4 and its like, with saturation and as sums; averages of whole numbers round away from zero."""
    rng = np.random.default_rng(9)
    x, y, z = rng.integers(0, 1 << 32, (3, 500)).astype(np.uint32)
    for parts in (2, 4):
        for sign in "us":
            kind = np.dtype(f"{'u' if sign == 'u' else ''}int{32 // parts}")
            a, b = (v.view(kind).reshape(-1, parts).astype(np.int64) for v in (x, y))
            t = f"{sign}32.{sign}32.{sign}32"
            half = np.where(a + b >= 0, (a + b + 1) // 2, -((-(a + b) + 1) // 2))
            for op, want in (
                ("vadd", a + b), ("vsub", a - b), ("vavrg", half), ("vmin", np.minimum(a, b)), ("vmax", np.maximum(a, b)),
                ("vabsdiff", abs(a - b)),
            ):  # fmt: skip
                plain, clamped, total = apply(
                    f"{op}{parts}.{t} %d0, %a0, %a1, %a2; {op}{parts}.{t}.sat %d1, %a0, %a1, %a2;"
                    f"{op}{parts}.{t}.add %d2, %a0, %a1, %a2;",
                    [x, y, z], [np.uint32] * 3,
                )  # fmt: skip
                limits = np.iinfo(kind)
                assert (plain.view(kind).reshape(-1, parts) == want.astype(kind)).all(), (op, parts, sign)
                assert (clamped.view(kind).reshape(-1, parts) == np.clip(want, limits.min, limits.max)).all()
                assert (total == (z + want.sum(1)).astype(np.uint32)).all()
            got = apply(f"vset{parts}.{sign}32.{sign}32.lt %d0, %a0, %a1, %a2;", [x, y, z], [np.uint32])
            assert (got.view(f"u{4 // parts}").reshape(-1, parts) == (a < b)).all()
