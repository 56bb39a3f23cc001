"""Shape ops, constants, products, reductions and scans."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from unit.reference_kit import DTYPES, ELEMS, Kernel, tile

from tileiras.compiler.ir import types as T


def test_permute_reshape_broadcast_cat_extract_insert() -> None:
    x = np.arange(32, dtype=np.float32).reshape(4, 8)
    k = Kernel("*f32", *["*f32"] * 6)
    v = k.load(k.args[0], 4, 8)
    one, zero = k.const(1, "i32"), k.const(0, "i32")
    k.store(k.args[1], k.op("permute", [v], [tile("f32", 8, 4)], permutation=(1, 0)))
    k.store(k.args[2], k.op("reshape", [v], [tile("f32", 2, 16)]))
    row = k.op("extract", [v, [one, zero]], [tile("f32", 1, 8)])
    k.store(k.args[3], k.op("broadcast", [row], [tile("f32", 4, 8)]))
    k.store(k.args[4], k.op("cat", [v, v], [tile("f32", 4, 16)], dim=1))
    k.store(k.args[5], k.op("extract", [v, [one, one]], [tile("f32", 2, 4)]))
    k.store(k.args[6], k.op("insert", [row, v, [zero, zero]], [tile("f32", 4, 8)]))
    outs = [np.zeros(n, np.float32) for n in (32, 32, 32, 64, 8, 32)]
    k.run(x, *outs)
    want = x.copy()
    want[0] = x[1]
    for got, expected in zip(
        outs, (x.T, x, np.broadcast_to(x[1:2], (4, 8)), np.concatenate((x, x), 1), x[2:4, 4:8], want)
    ):
        np.testing.assert_array_equal(got, expected.reshape(-1))


def test_permute_of_rank_three_follows_the_permutation() -> None:
    x = np.arange(64, dtype=np.int32).reshape(2, 4, 8)
    k = Kernel("*i32", "*i32")
    k.store(
        k.args[1],
        k.op("permute", [k.load(k.args[0], 2, 4, 8)], [tile("i32", 8, 2, 4)], permutation=(2, 0, 1)),
    )
    out = np.zeros(64, np.int32)
    k.run(x, out)
    np.testing.assert_array_equal(out, x.transpose(2, 0, 1).reshape(-1))


@pytest.mark.parametrize("name", [n for n in ELEMS if n != "i4"])
def test_constants_of_every_type(name: str) -> None:
    values = np.array([0, 1, 1, 0, 1, 0, 0, 1]) if name == "i1" else np.arange(8)
    k = Kernel(f"*{name}", f"*{name}")
    k.store(k.args[0], k.const(values, name, 8))
    splat = T.Dense(tile(name, 8), k.const(values[1:2], name, 1).op.attr("value").data)
    k.store(
        k.args[1],
        k.op("constant", (), [splat.type], value=splat if name != "i1" else T.Dense(tile("i1", 8), b"\xff")),
    )
    out, same = np.zeros(8, DTYPES[name]), np.zeros(8, DTYPES[name])
    k.run(out, same)
    np.testing.assert_array_equal(out.view(np.uint8), values.astype(DTYPES[name]).view(np.uint8))
    np.testing.assert_array_equal(
        same.view(np.uint8), np.repeat(values[1:2], 8).astype(DTYPES[name]).view(np.uint8)
    )


MMA = [
    ("f16", "f16"),
    ("f16", "f32"),
    ("bf16", "f32"),
    ("tf32", "f32"),
    ("f32", "f32"),
    ("f64", "f64"),
    ("f8E4M3FN", "f16"),
    ("f8E4M3FN", "f32"),
    ("f8E5M2", "f16"),
    ("f8E5M2", "f32"),
]


@pytest.mark.parametrize("operand,acc", MMA)
@pytest.mark.parametrize("batch", [(), (2,)])
def test_mmaf_for_every_pair(operand: str, acc: str, batch: tuple[int, ...]) -> None:
    rng = np.random.default_rng(2)
    a = rng.integers(-4, 5, (*batch, 8, 16)).astype(DTYPES[operand])
    b = rng.integers(-4, 5, (*batch, 16, 4)).astype(DTYPES[operand])
    c = rng.integers(-9, 9, (*batch, 8, 4)).astype(DTYPES[acc])
    k = Kernel(f"*{operand}", f"*{operand}", f"*{acc}", f"*{acc}")
    args = [k.load(p, *x.shape) for p, x in zip(k.args, (a, b, c))]
    k.store(k.args[3], k.op("mmaf", args, [args[2].type]))
    out = np.zeros_like(c)
    k.run(a, b, c, out)
    want = np.matmul(a.astype(np.float64), b.astype(np.float64)) + c.astype(np.float64)
    np.testing.assert_array_equal(out.astype(np.float64), want)  # small integers: every step is exact


def test_mmaf_rounds_the_exact_sum_once() -> None:
    a = np.array([[1.0, 2.0**-12] + [0.0] * 14], np.float32)
    b = np.zeros((16, 1), np.float32)
    b[0], b[1] = 1.0, 2.0**-12
    k = Kernel("*f32", "*f32", "*f32")
    acc = k.const(0.0, "f32", 1, 1)
    k.store(k.args[2], k.op("mmaf", [k.load(k.args[0], 1, 16), k.load(k.args[1], 16, 1), acc], [acc.type]))
    out = np.zeros((1, 1), np.float32)
    k.run(a, b, out)
    assert out[0, 0] == np.float32(1.0)  # 1 + 2**-24: a tie, to even


def test_tf32_operands_count_their_upper_bits_only() -> None:
    a = np.full((4, 4), 1 + 2.0**-12, np.float32)
    k = Kernel("*tf32", "*tf32", "*f32")
    acc = k.const(0.0, "f32", 4, 4)
    k.store(k.args[2], k.op("mmaf", [k.load(k.args[0], 4, 4), k.load(k.args[1], 4, 4), acc], [acc.type]))
    out = np.zeros((4, 4), np.float32)
    k.run(a, np.eye(4, dtype=np.float32), out)
    np.testing.assert_array_equal(out, np.ones((4, 4)))


def test_mmai_signedness_per_side_and_wrap() -> None:
    rng = np.random.default_rng(3)
    a, b = rng.integers(0, 256, (8, 32), dtype=np.uint8), rng.integers(0, 256, (32, 8), dtype=np.uint8)
    c = np.full((8, 8), 2**31 - 5, np.int32)
    for left in ("signed", "unsigned"):
        for right in ("signed", "unsigned"):
            k = Kernel("*i8", "*i8", "*i32", "*i32")
            args = [k.load(p, *x.shape) for p, x in zip(k.args, (a, b, c))]
            k.store(k.args[3], k.op("mmai", args, [args[2].type], signedness_lhs=left, signedness_rhs=right))
            out = np.zeros_like(c)
            k.run(a.view(np.int8), b.view(np.int8), c, out)
            read = lambda x, s: (x.view(np.int8) if s == "signed" else x).astype(np.int64)  # noqa: E731
            np.testing.assert_array_equal(out, (read(a, left) @ read(b, right) + c).astype(np.int32))


@pytest.mark.parametrize("operand,scale,block", [("f8E4M3FN", "f8E8M0FNU", 32), ("f8E5M2", "f8E8M0FNU", 32)])
def test_mmaf_scaled(operand: str, scale: str, block: int) -> None:
    rng = np.random.default_rng(4)
    a = rng.integers(-3, 4, (4, 64)).astype(DTYPES[operand])
    b = rng.integers(-3, 4, (64, 4)).astype(DTYPES[operand])
    sa = (2.0 ** rng.integers(-3, 3, (4, 64 // block))).astype(np.float32).astype(DTYPES[scale])
    sb = (2.0 ** rng.integers(-3, 3, (64 // block, 4))).astype(np.float32).astype(DTYPES[scale])
    k = Kernel(f"*{operand}", f"*{operand}", "*f32", f"*{scale}", f"*{scale}", "*f32")
    c = np.ones((4, 4), np.float32)
    args = [k.load(p, *x.shape) for p, x in zip(k.args, (a, b, c, sa, sb))]
    k.store(k.args[5], k.op("mmaf_scaled", args, [args[2].type]))
    out = np.zeros_like(c)
    k.run(a, b, c, sa, sb, out)
    x = a.astype(np.float64) * np.repeat(sa.astype(np.float64), block, 1)
    y = b.astype(np.float64) * np.repeat(sb.astype(np.float64), block, 0)
    np.testing.assert_array_equal(out, x @ y + 1)


def test_mmaf_scaled_on_nibbles() -> None:
    rng = np.random.default_rng(5)
    codes_a, codes_b = (
        rng.integers(0, 16, (4, 32), dtype=np.uint8),
        rng.integers(0, 16, (32, 4), dtype=np.uint8),
    )
    pack = lambda x: (x.reshape(-1)[0::2] | x.reshape(-1)[1::2] << 4).view(np.int8)  # noqa: E731
    sa, sb = (
        np.full((4, 2), 2.0).astype(ml_dtypes.float8_e4m3fn),
        np.full((2, 4), 0.5).astype(ml_dtypes.float8_e4m3fn),
    )
    k = Kernel("*i8", "*i8", "*f8E4M3FN", "*f8E4M3FN", "*f32")
    a = k.op(
        "reshape",
        [k.op("unpack", [k.load(k.args[0], 64)], [tile("f4E2M1FN", 128)])],
        [tile("f4E2M1FN", 4, 32)],
    )
    b = k.op(
        "reshape",
        [k.op("unpack", [k.load(k.args[1], 64)], [tile("f4E2M1FN", 128)])],
        [tile("f4E2M1FN", 32, 4)],
    )
    acc = k.const(0.0, "f32", 4, 4)
    k.store(
        k.args[4],
        k.op("mmaf_scaled", [a, b, acc, k.load(k.args[2], 4, 2), k.load(k.args[3], 2, 4)], [acc.type]),
    )
    out = np.zeros((4, 4), np.float32)
    k.run(pack(codes_a), pack(codes_b), sa, sb, out)
    value = lambda x: x.view(ml_dtypes.float4_e2m1fn).astype(np.float64)  # noqa: E731
    np.testing.assert_array_equal(out, value(codes_a) @ value(codes_b))


# ---- reduce and scan


def aggregate(
    name: str, inputs: list[np.ndarray], elems: list[str], dim: int, body, **attrs
) -> list[np.ndarray]:
    """Run reduce or scan; body(kernel, earlier values, later values) -> results."""
    k = Kernel(*(f"*{e}" for e in elems), *(f"*{e}" for e in elems))
    shape = inputs[0].shape
    operands = [k.load(p, *shape) for p in k.args[: len(elems)]]
    region = k.region(*(tile(e) for e in elems for _ in range(2)))
    with k.inside(region) as args:
        k.op("yield", [body(k, args[0::2], args[1::2])])
    out_shape = shape if name == "scan" else shape[:dim] + shape[dim + 1 :]
    identities = tuple(T.IntegerAttr(ELEMS[e], 0) for e in elems)
    results = k.op(
        name,
        [operands],
        [tile(e, *out_shape) for e in elems],
        [region],
        dim=dim,
        identities=identities,
        **attrs,
    )
    results = results if isinstance(results, list) else [results]
    for pointer, value in zip(k.args[len(elems) :], results):
        k.store(pointer, value)
    outs = [np.zeros(out_shape, DTYPES[e]) for e in elems]
    k.run(*inputs, *outs)
    return outs


def add(k, a, b):
    return [k.op("addi", [a[0], b[0]], [a[0].type])]


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_reduce_along_any_dimension(dim: int) -> None:
    x = np.random.default_rng(6).integers(-100, 100, (4, 8, 2), dtype=np.int32)
    (out,) = aggregate("reduce", [x], ["i32"], dim, add)
    np.testing.assert_array_equal(out, x.sum(dim))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_scan_along_any_dimension(dim: int, reverse: bool) -> None:
    x = np.random.default_rng(7).integers(-100, 100, (4, 8, 16), dtype=np.int64)
    (out,) = aggregate("scan", [x], ["i64"], dim, add, reverse=reverse)
    want = np.flip(np.cumsum(np.flip(x, dim), dim), dim) if reverse else np.cumsum(x, dim)
    np.testing.assert_array_equal(out, want)


def affine(k, first, second):
    """Composition of x -> a x + b, earlier one first: associative, not commutative."""
    (a, b), (c, d) = first, second
    kind = a.type
    return [k.op("muli", [a, c], [kind]), k.op("addi", [k.op("muli", [b, c], [kind]), d], [kind])]


@pytest.mark.parametrize("reverse", [False, True])
def test_the_order_of_a_body_that_does_not_commute(reverse: bool) -> None:
    rng = np.random.default_rng(8)
    a, b = rng.integers(-3, 4, (2, 16), dtype=np.int64), rng.integers(-3, 4, (2, 16), dtype=np.int64)
    got_a, got_b = aggregate("scan", [a, b], ["i64", "i64"], 1, affine, reverse=reverse)
    order = range(15, -1, -1) if reverse else range(16)
    for row in range(2):
        x, y = 1, 0
        for i in order:
            x, y = x * int(a[row, i]), y * int(a[row, i]) + int(b[row, i])
            assert (got_a[row, i], got_b[row, i]) == (x, y)
    last_a, last_b = aggregate("reduce", [a, b], ["i64", "i64"], 1, affine)
    if not reverse:
        np.testing.assert_array_equal(last_a, got_a[:, -1])
        np.testing.assert_array_equal(last_b, got_b[:, -1])


def argmax(k, first, second):
    """Larger value; the smaller index among equals: select on an `if`, which a body may have."""
    (v, i), (w, j) = first, second
    better = k.op(
        "cmpf", [w, v], [tile("i1")], comparison_predicate="greater_than", comparison_ordering="ordered"
    )
    then, other = k.region(), k.region()
    with k.inside(then):
        k.op("yield", [[w, j]])
    with k.inside(other):
        k.op("yield", [[v, i]])
    return k.op("if", [better], [v.type, i.type], [then, other])


def test_bodies_may_branch() -> None:
    x = np.random.default_rng(9).integers(0, 10, (8, 32)).astype(np.float32)
    index = np.broadcast_to(np.arange(32, dtype=np.int32), x.shape).copy()
    value, place = aggregate("reduce", [x, index], ["f32", "i32"], 1, argmax)
    np.testing.assert_array_equal(value, x.max(1))
    np.testing.assert_array_equal(place, x.argmax(1))


def gcd_step(k, first, second):
    """A body with a loop: runs element by element."""
    loop = k.region(tile("i32"), tile("i32"))
    with k.inside(loop) as (a, b):
        done = k.op(
            "cmpi", [b, k.const(0, "i32")], [tile("i1")], comparison_predicate="equal", signedness="signed"
        )
        leave = k.region()
        with k.inside(leave):
            k.op("break", [[a]])
        k.op("if", [done], [], [leave, T_region()])
        k.op("continue", [[b, k.op("remi", [a, b], [tile("i32")], signedness="unsigned")]])
    return [k.op("loop", [[first[0], second[0]]], [tile("i32")], [loop])]


def T_region():
    from tileiras.compiler.ir.core import Region

    return Region()


def test_bodies_may_loop() -> None:
    x = (np.random.default_rng(10).integers(1, 50, (4, 8)) * 6).astype(np.int32)
    (out,) = aggregate("reduce", [x], ["i32"], 1, gcd_step)
    np.testing.assert_array_equal(out, np.gcd.reduce(x, 1))


def test_reduce_gives_the_same_bits_every_time() -> None:
    x = np.random.default_rng(11).standard_normal((1, 4096)).astype(np.float32)
    body = lambda k, a, b: [k.op("addf", [a[0], b[0]], [a[0].type], rounding_mode="nearest_even")]  # noqa: E731
    first, second = (aggregate("reduce", [x], ["f32"], 1, body)[0] for _ in range(2))
    assert first.tobytes() == second.tobytes() and abs(first[0] - x.astype(np.float64).sum()) < 1e-2
