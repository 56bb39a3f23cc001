"""Damaged bytecode: exit code 3 or 5 and a message, never a traceback, never a hang."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from op_zoo import SNIPPETS, module_text

from tileiras.compiler.bytecode.reader import read
from tileiras.compiler.bytecode.writer import write
from tileiras.compiler.ir.printer import print_op
from tileiras.compiler.ir.verify import verify
from tileiras.compiler.source import load_text
from tileiras.diag import CompileError, Sink

SETTINGS = {"deadline": 10_000, "suppress_health_check": list(HealthCheck)}


@cache
def seed_file(index: int) -> bytes:
    """Bytecode of one zoo module."""
    _, since, lines = SNIPPETS[index]
    return write(load_text(module_text(lines), Sink(), "seed"), (13, since))


EDITS = st.lists(
    st.tuples(
        st.sampled_from(("set", "add", "cut", "insert", "copy")), st.integers(8, 1 << 14), st.integers(0, 255)
    ),
    min_size=1,
    max_size=6,
)


def damage(data: bytes, edits: list[tuple[str, int, int]]) -> bytes:
    out = bytearray(data)
    for kind, where, value in edits:
        i = where % len(out)
        if kind == "set":
            out[i] = value
        elif kind == "add":
            out[i] = (out[i] + (1 if value & 1 else 255)) % 256
        elif kind == "cut":
            del out[i : i + 1 + value % 4]
        elif kind == "insert":
            out[i:i] = bytes((value, value >> 1))
        else:
            out[i : i + 8] = out[value % len(out) :][:8]
        if len(out) < 9:
            break
    return bytes(out)


def survives(data: bytes) -> None:
    sink = Sink()
    try:
        module = read(data, sink)
    except CompileError as error:
        assert error.exit_code == 3
        assert sink.emitted and sink.emitted[-1].text
        return
    if not verify(module, sink):
        assert sink.emitted[-1].text
        print_op(module)  # what was read can be looked at
        return
    version = module.attrs["bytecode_version"]
    once = write(module, version)
    twice = write(read(once, Sink()), version)
    assert write(read(twice, Sink()), version) == twice


@given(st.integers(0, len(SNIPPETS) - 1), EDITS)
@settings(max_examples=400, **SETTINGS)
def test_damaged_files(index: int, edits: list[tuple[str, int, int]]) -> None:
    survives(damage(seed_file(index), edits))


@pytest.mark.full
@given(st.integers(0, len(SNIPPETS) - 1), EDITS)
@settings(max_examples=20_000, **SETTINGS)
def test_damaged_files_at_length(index: int, edits: list[tuple[str, int, int]]) -> None:
    survives(damage(seed_file(index), edits))


@given(st.binary(max_size=200))
@settings(max_examples=300, **SETTINGS)
def test_random_bytes_behind_a_good_header(tail: bytes) -> None:
    survives(b"\x7fTileIR\0\x0d\x04\0\0" + tail)


def test_every_truncation() -> None:
    data = seed_file(0)
    for length in range(0, len(data), 3):
        survives(data[:length])


def test_nested_regions_have_a_limit() -> None:
    deep = "if %c {\n" * 60 + "}\n" * 60
    module = load_text(module_text(deep), Sink(), "deep")
    assert read(write(module, (13, 1)), Sink())
    inner = b"\x32\x00\x00\x02"  # if, 0 results, condition 0, 2 regions
    body = b"".join(inner + b"\x01\x00\x01" for _ in range(600))
    data = bytearray(write(load_text("cuda_tile.module { entry @k(%c: tile<i1>) {} }", Sink(), ""), (13, 1)))
    assert data
    from tileiras.compiler.bytecode.read_body import Body
    from tileiras.compiler.bytecode.reader import _Reader
    from tileiras.compiler.bytecode.wire import Damage
    from tileiras.compiler.ir.core import Block
    from tileiras.compiler.ir.types import I1, TileType

    reader = _Reader(bytes(data))
    code = Body(reader, body, iter(()))
    code.values = Block([TileType(I1, ())]).args
    with pytest.raises(Damage) as caught:
        code.instructions(Block(), -1, 0)
    assert "levels" in caught.value.diag.text  # type: ignore[union-attr]
