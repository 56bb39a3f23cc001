"""The 208-byte record: what a C program finds at which offset."""

from __future__ import annotations

import ctypes
import struct
from typing import Any

import pytest
from contract.kit import BAD_EXTI, compile_, entry, module
from contract.rules import rule

from tileiras.capi import record
from tileiras.capi.record import Arena, Body, Record, encode
from tileiras.compiler.ir import types as T
from tileiras.diag import ERROR, Diag, Emitted, Loc, Sink

LOC = Loc("k.tileir", 3, 7)


def streamed(*args: object) -> Emitted:
    """A body with exactly these arguments."""
    body = Sink().error(LOC).append(*args)
    body.report()
    return body.body


def field(memory: bytes | bytearray, offset: int, form: str) -> int:
    return struct.unpack_from("<" + form, memory, offset)[0]


def text_at(address: int) -> str:
    return ctypes.string_at(address).decode()


def arguments(found: Record) -> list[Any]:
    """The arguments as a C consumer reads them: from args_begin, 24 bytes a step."""
    body = bytes(found)
    begin = field(body, 0x18, "Q")
    values: list[Any] = []
    for i in range(field(body, 0x20, "I")):
        kind, value, length = struct.unpack("<QqQ", ctypes.string_at(begin + 24 * i, 24))
        if kind == record.INTEGER:
            values.append(value)
        elif kind == record.DOUBLE:
            values.append(struct.unpack("<d", struct.pack("<q", value))[0])
        else:
            assert len(ctypes.string_at(value)) == length
            values.append((kind, text_at(value)))
    return values


@rule("diag-body-size-208")
@pytest.mark.parametrize("count", [0, 4, 9])
def test_size(count: int) -> None:
    emitted = streamed(*range(count))
    assert len(bytes(Record(emitted))) == 208 == record.SIZE
    arena = Arena()
    Body(arena)
    assert arena.used == 208, "a spill is outside of the body"


@rule("diag-body-zero-filled")
def test_zero_filled() -> None:
    dirty = Arena(bytearray(b"\xee" * 4096))
    memory = encode(streamed(), dirty).memory
    fields = [
        (0x00, 8),
        (0x10, 2),
        (0x18, 8),
        (0x20, 8),
        (0xCF, 1),
    ]  # location, severity, argument header, guard
    written = {at + i for at, size in fields for i in range(size)}
    assert all(memory[i] == 0 for i in range(208) if i not in written)
    clean = encode(streamed()).memory
    assert memory[:208] == clean[:208]


@rule("diag-offset-location")
def test_location() -> None:
    error = compile_(BAD_EXTI)[1][0]
    assert error.op == "cuda_tile.exti"
    found = Record(error)
    where = field(bytes(found), 0x00, "Q")
    assert where != 0
    file, line, column, caller = struct.unpack("<QIIQ", ctypes.string_at(where, 24))
    assert (text_at(file), line, column, caller) == ("k.tileir", 5, 7, 0)
    unknown = Record(compile_(BAD_EXTI)[1][-1])
    assert field(bytes(unknown), 0x00, "Q") != 0, "alive, though it has no place in the source"
    moved = Sink().error(LOC)
    moved.move()
    assert field(bytes(Record(moved.body)), 0x00, "Q") == 0


@rule("diag-offset-severity")
def test_severity() -> None:
    assert field(bytes(Record(compile_(BAD_EXTI)[1][0])), 0x10, "H") == 0x0103
    assert field(bytes(Record(streamed("x"))), 0x10, "H") == 0x0003
    config = compile_(BAD_EXTI, "sm_1")[1][0]
    assert bytes(Record(config))[0x10:0x14] == b"\x03\x05\0\0"


@rule("diag-offset-args")
def test_inline_buffer() -> None:
    one = Record(streamed(7))
    body = bytes(one)
    assert field(body, 0x18, "Q") == one.address + 0x28
    assert struct.unpack_from("<QqQ", body, 0x28) == (record.INTEGER, 7, 0)
    four = bytes(Record(streamed(1, 2, 3, 4)))
    assert [field(four, 0x28 + 24 * i + 8, "Q") for i in range(4)] == [1, 2, 3, 4]
    assert four[0x88:0xCF] == bytes(0xCF - 0x88), "the inline area ends at +0x87"


@rule("diag-arg-stride-24")
def test_stride() -> None:
    three = ["expects ", 3, T.TileType(T.F32, (8,))]
    want = [(record.STRING, "expects "), 3, (record.TYPE, str(three[2]))]
    assert arguments(Record(streamed(*three))) == want
    assert arguments(Record(streamed(*three, *three, 0.5, -1))) == [*want, *want, 0.5, -1]
    assert record.ARG_SIZE == 24


@rule("diag-inline-four-then-heap")
def test_the_fifth_argument_spills() -> None:
    for count in range(1, 12):
        values = [f"argument {i}" if i % 2 else i for i in range(count)]
        found = Record(streamed(*values))
        begin = field(bytes(found), 0x18, "Q")
        inside = found.address <= begin < found.address + 208
        assert inside == (count <= 4)
        assert arguments(found) == [(record.STRING, v) if isinstance(v, str) else v for v in values]


@rule("diag-inline-live-until-spill")
def test_a_reference_into_the_inline_buffer_stays_valid() -> None:
    body = Body(Arena())
    first = body.append(41)
    used = body.arena.used
    for value in (1, 2, 3):
        body.append(value)
        assert body.word(record.ARGS_BEGIN, "Q") == body.at + 0x28
        assert struct.unpack_from("<QqQ", body.arena.memory, first) == (record.INTEGER, 41, 0)
    assert body.arena.used == used, "no heap buffer yet"
    body.append(4)
    assert body.word(record.ARGS_BEGIN, "Q") >= 208 and body.arena.used > used


def test_op_name_and_notes() -> None:
    error = compile_(BAD_EXTI)[1][0]
    found = Record(error)
    body = bytes(found)
    assert text_at(field(body, record.OP_NAME, "Q")) == "cuda_tile.exti"
    assert field(body, record.NOTE_COUNT, "I") == len(error.notes) == 1
    (note,) = struct.unpack("<Q", ctypes.string_at(field(body, record.NOTES, "Q"), 8))
    assert field(ctypes.string_at(note, 208), 0x10, "H") == 0x101


def test_extreme_arguments() -> None:
    """Nothing that a message can hold breaks a record."""
    values = [2**63 - 1, -(2**63), 2**64, True, "", "ä\udcff", "nul\0inside", None, float("nan")]
    found = Record(streamed(*values))
    assert field(bytes(found), 0x20, "I") == len(values)
    begin = field(bytes(found), 0x18, "Q")
    kinds = [struct.unpack("<Q", ctypes.string_at(begin + 24 * i, 8))[0] for i in range(len(values))]
    assert kinds == [2, 2, 1, 1, 1, 1, 1, 1, 3]


def test_arguments_concatenate_to_the_text() -> None:
    diag = Diag("T", ERROR, "op {{braces}} {a}/{b} at {b} of 0x{c:02X}")
    emitted = Emitted(diag, LOC, facts=(("a", 1), ("b", "two"), ("c", 10)))
    assert emitted.text == "op {braces} 1/two at two of 0x0A"
    assert emitted.args == ["op {braces} ", 1, "/", "two", " at ", "two", " of 0x0A"]


def pointers(count: int, capability: int) -> str:
    """A kernel with this many 8-byte parameters."""
    args = ", ".join(f"%p{i}: !cuda_tile.ptr<f32>" for i in range(count))
    return module(
        entry(args=args, name="big_kernel"), attrs=f"nv_tileaa.compute_capability = {capability} : i32"
    )


@rule("diag-worked-example-arguments", "exit-fm-param-overflow")
def test_the_overflow_streams_six_arguments() -> None:
    code, found, _ = compile_(pointers(129, 75))
    assert code == 5
    overflow = found[0]
    text = "Formal parameter space overflowed (1032 bytes required, max 1024 bytes allowed) in function big_kernel"
    assert overflow.word == 0x103 and overflow.op is None
    assert overflow.render() == f"k.tileir:3:5: error: {text}", (
        "worded without an op prefix, whatever bit 8 says"
    )
    record = Record(overflow)
    assert field(bytes(record), 0x20, "I") == 6
    begin = field(bytes(record), 0x18, "Q")
    assert not record.address <= begin < record.address + 208, "six arguments are on the heap"
    words = [argument[1] if isinstance(argument, tuple) else argument for argument in arguments(record)]
    assert words == [
        "Formal parameter space overflowed (", 1032, " bytes required, max ", 1024, " bytes allowed) in function ", "big_kernel",
    ]  # fmt: skip
    assert "".join(map(str, words)) == text == overflow.text
    assert found[-1].text == "failed to compile Tile IR program"
    assert compile_(pointers(128, 75))[:2] == (0, [])


def test_call_sites() -> None:
    """A location knows the call sites it was inlined through, innermost first."""
    outer = Loc("c.py", 30, 3)
    inlined = Emitted(Diag("T", ERROR, "x"), Loc("a.py", 10, 1, callers=(Loc("b.py", 20, 2), outer)))
    found = Record(inlined)
    at = field(bytes(found), 0, "Q")
    chain = []
    while at:
        file, line, column, at = struct.unpack("<QIIQ", ctypes.string_at(at, 24))
        chain.append((text_at(file), line, column))
    assert chain == [("a.py", 10, 1), ("b.py", 20, 2), ("c.py", 30, 3)]
    assert field(bytes(found), record.NOTE_COUNT, "I") == 2
    notes = struct.unpack("<2Q", ctypes.string_at(field(bytes(found), record.NOTES, "Q"), 16))
    said = ["".join(text_at(field(ctypes.string_at(field(ctypes.string_at(note, 208), 0x18, "Q") + 24 * i, 24), 8, "Q"))
                    for i in range(2)) for note in notes]  # fmt: skip
    assert said == ["called from b.py:20:2", "called from c.py:30:3"]
