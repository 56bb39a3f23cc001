"""What TileAAMarkExactIntegers says about integers holds for every value that the ops compute, wrapped around or not."""

from __future__ import annotations

import random

import pytest

from tileiras.compiler.dialects.nv_tileaa.ops import BY_NAME
from tileiras.compiler.ir.build import create
from tileiras.compiler.ir.core import Block
from tileiras.compiler.ir.types import I8, I16, I32, Dense, TensorType, TileType
from tileiras.compiler.passes.tileaa.exact_integers import bounds

BITS = {8: I8, 16: I16, 32: I32}
SHAPE = (2,)


def signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def unsigned(value: int, bits: int) -> int:
    return value & ((1 << bits) - 1)


def evaluate(name: str, sign: str, bits: int, a: int, b: int) -> int:
    view = signed if sign == "signed" else unsigned
    if name == "shri":
        return signed(view(a, bits) >> b, bits)
    if name in ("maxi", "mini"):
        pick = max if name == "maxi" else min
        return signed(pick(view(a, bits), view(b, bits)), bits)
    return signed({"addi": a + b, "subi": a - b, "muli": a * b, "andi": a & b}[name], bits)


@pytest.mark.parametrize("seed", range(60))
def test_every_value_lies_within_its_bounds(seed: int) -> None:
    rng = random.Random(seed)
    block = Block()
    pool = []  # value, its bits, what it is in this run
    for bits, elem in BITS.items():
        for _ in range(2):
            pool.append(
                (block.add_arg(TensorType(elem, SHAPE, None)), bits, signed(rng.getrandbits(bits), bits))
            )
        for number in (rng.getrandbits(4), rng.getrandbits(bits)):
            data = number.to_bytes(bits // 8, "little")
            dense = Dense(TileType(elem, SHAPE), data)
            op = create(BY_NAME["constant"], (), (TensorType(elem, SHAPE, None),), {"value": dense})
            pool.append((block.append(op).result, bits, signed(number, bits)))
    for _ in range(40):
        value, bits, now = rng.choice(pool)
        sign = rng.choice(("signed", "unsigned"))
        name = rng.choice(("exti", "trunci", "andi", "addi", "subi", "muli", "shri", "maxi", "mini"))
        if name in ("exti", "trunci"):
            wide = [w for w in BITS if (w > bits if name == "exti" else w < bits)]
            if not wide:
                continue
            to = rng.choice(wide)
            attrs = {"signedness": sign} if name == "exti" else {"overflow": "none"}
            op = create(BY_NAME[name], (value,), (TensorType(BITS[to], SHAPE, None),), attrs)
            got = signed(unsigned(now, bits) if sign == "unsigned" and name == "exti" else now, to)
            pool.append((block.append(op).result, to, got))
            continue
        other, _, there = rng.choice([p for p in pool if p[1] == bits])
        if name == "shri" and not 0 <= there < bits:
            continue
        attrs = {"signedness": sign} if name in ("shri", "maxi", "mini") else {}
        if name in ("addi", "subi", "muli"):
            attrs = {"overflow": "none"}
        op = create(BY_NAME[name], (value, other), (value.type,), attrs)
        pool.append((block.append(op).result, bits, evaluate(name, sign, bits, now, there)))
    for value, _, now in pool:
        low, high = bounds(value, {})
        assert low <= now <= high, (value, now)


def test_a_masked_byte_less_eight_is_within_sixteen_numbers() -> None:
    block = Block()
    byte = block.add_arg(TensorType(I8, SHAPE, None))

    def put(name: str, operands, elem, **attrs):
        return block.append(create(BY_NAME[name], operands, (TensorType(elem, SHAPE, None),), attrs)).result

    mask = put("constant", (), I8, value=Dense(TileType(I8, SHAPE), b"\x0f"))
    eight = put("constant", (), I32, value=Dense(TileType(I32, SHAPE), b"\x08\0\0\0"))
    wide = put("exti", (put("andi", (byte, mask), I8),), I32, signedness="unsigned")
    assert bounds(put("subi", (wide, eight), I32, overflow="none"), {}) == (-8, 7)
