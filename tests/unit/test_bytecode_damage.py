"""Damaged files, byte by byte: the whole line that each one gets, its offset with it, and the sound file beside it."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from tileiras.compiler.bytecode.reader import read
from tileiras.compiler.bytecode.wire import put_varint
from tileiras.diag import CompileError, Sink

HEADER = b"\x7fTileIR\0\x0d%c\0\0"
STRINGS = (b"k", b"a")
TYPES = (b"\x00", b"\x03", b"\x10\x00\x00", b"\x0d\x01\x00", b"\x10\x01\x03\x00")
I32, NO_ARGS, TILE, ONE_ARG = 1, 2, 3, 4  # indices into TYPES: i32, () -> (), tile<i32>, (tile<i32>) -> ()
RETURN = b"\x00\x03\x5c\x00\x00"  # no location, three bytes of body
SOUND = b"\x01\x00\x02\x02" + RETURN  # one entry `k`
NOT_BYTECODE = "error: input does not correspond to Tile IR bytecode"


def table(entries: tuple[bytes, ...], code: str = "I") -> bytes:
    """An offset table and its data, as the string, type and constant sections have it."""
    align = 8 if code == "Q" else 4
    out = bytearray((len(entries),)) + b"\xcb" * (align - 1)
    position = 0
    for one in entries:
        out += struct.pack(f"<{code}", position)
        position += len(one)
    return bytes(out + b"".join(entries))


def section(id: int, align: int, payload: bytes, pos: int, length: int | None = None) -> bytes:
    out = bytearray((id | 128,))
    put_varint(out, len(payload) if length is None else length)
    out.append(align)
    out += b"\xcb" * (-(pos + len(out)) % align) if align else b""
    return bytes(out + payload)


def container(minor: int, *sections: tuple[int, int, bytes], tail: bytes = b"\0") -> bytes:
    out = HEADER % minor
    for id, align, payload in sections:
        out += section(id, align, payload, len(out))
    return out + tail


def file(minor: int = 1, tail: bytes = b"\0", **parts: bytes) -> bytes:
    """A sound file, but for the given sections (strings, types, constants, globals, functions)."""
    parts = {"types": table(TYPES), "strings": table(STRINGS), "functions": SOUND, **parts}
    numbers = {
        "types": (5, 4),
        "strings": (1, 4),
        "constants": (4, 8),
        "globals": (6, 8),
        "functions": (2, 8),
    }
    return container(minor, *((*numbers[name], parts[name]) for name in numbers if name in parts), tail=tail)


def said(data: bytes) -> str:
    """The first of the two lines of a refusal with code 3."""
    with pytest.raises(CompileError) as caught:
        read(data, Sink())
    lines = [d.render() for d in caught.value.diagnostics]
    assert caught.value.exit_code == 3 and lines[1:] == [NOT_BYTECODE], lines
    return lines[0]


def damage(offset: int, what: str) -> str:
    return f"error: error at offset {offset}: {what}"


def entry(data: bytes) -> dict[str, Any]:
    """The attributes of the last op of a file that is read: its entry."""
    return read(data, Sink()).regions[0].block.ops[-1].attrs


# ---- sections


def test_end_section() -> None:
    sound = file()
    size = len(sound)
    assert entry(sound)["sym_name"] == "k"
    assert said(file(tail=b"")) == damage(size - 1, "end section is missing")
    assert said(file(tail=b"\x80")) == damage(size - 1, "end section must not be aligned")
    assert said(file(tail=b"\0\0")) == damage(size, "end section is not the last section")


@pytest.mark.parametrize("id", [8, 9, 127])
def test_unknown_section(id: int) -> None:
    at = len(file()) - 1
    assert said(file(tail=bytes((id, 0, 0)))) == damage(at, f"unknown section ID: {id}")
    assert (
        entry(file(tail=b"\x07\x01\x01\0"))
        and read(file(tail=b"\x07\x01\x01\0"), Sink()).attrs["producer"] == "a"
    )


@pytest.mark.parametrize("align", [0, 3, 6, 12])
def test_alignment_is_a_power_of_two(align: int) -> None:
    at = len(file()) - 1
    text = f"alignment {align} of the producer section is not a power of two"
    assert said(file(tail=bytes((0x87, 1, align)) + b"\xcb" * 16)) == damage(at, text)


@pytest.mark.parametrize("align", [1, 2, 4, 64])
def test_alignment_moves_to_the_next_multiple(align: int) -> None:
    front = file(tail=b"")
    data = front + section(7, align, b"\x01", len(front)) + b"\0"
    assert read(data, Sink()).attrs["producer"] == "a"


@pytest.mark.parametrize("tail", [b"\x07", b"\x07\x80", b"\x87\x01"])
def test_section_header_is_cut(tail: bytes) -> None:
    assert said(file(tail=tail)) == damage(len(file()) - 1, "failed to parse producer section")


def test_section_length() -> None:
    at = len(file()) - 1
    text = "failed to parse producer section: 2 bytes exceed the file; end section is not the last section"
    assert said(file(tail=b"\x07\x02\x00")) == damage(at, text)
    assert said(file(tail=b"\x07\x01\x00")) == damage(at + 3, "end section is missing")


# ---- offset tables


def offset_of(data: bytes, part: bytes) -> int:
    """Where the payload is in the file; it is there once."""
    assert data.count(part) == 1
    return data.index(part)


def test_more_entries_than_the_section_holds() -> None:
    strings = b"\x02\xcb\xcb\xcb" + struct.pack("<II", 0, 0)
    assert entry(file(strings=strings))["sym_name"] == ""  # the table may fill the section
    data = file(strings=strings[:-1])
    text = "failed to parse string section: 2 entries exceed the section"
    assert said(data) == damage(offset_of(data, strings[:-1]), text)


@pytest.mark.parametrize(
    ("offsets", "bad"), [((0, 3), 0), ((2, 1), 0), ((3, 3), 0), ((0, 2, 1), 1), ((0, 1, 3), 1)]
)
def test_offsets_rise_within_the_section(offsets: tuple[int, ...], bad: int) -> None:
    """An entry ends where the next one starts: the first whose end is wrong is named."""
    count = len(offsets)
    strings = bytes((count,)) + b"\xcb\xcb\xcb" + struct.pack(f"<{count}I", *offsets) + b"ka"
    data = file(strings=strings)
    text = f"failed to parse string section: entry {bad} has invalid offset {offsets[bad]}"
    assert said(data) == damage(offset_of(data, strings) + 4 + 4 * bad, text)


def test_offsets_may_meet_and_end_with_the_section() -> None:
    for offsets, name in (((0, 2), "ka"), ((1, 1), ""), ((2, 2), ""), ((1, 2), "a")):
        strings = b"\x02\xcb\xcb\xcb" + struct.pack("<II", *offsets) + b"ka"
        assert entry(file(strings=strings))["sym_name"] == name


def test_offsets_of_constants_have_eight_bytes() -> None:
    constants = table((b"\x01x", b"\x01y"), "Q")
    assert entry(file(constants=constants))
    worse = constants[:16] + struct.pack("<Q", 9) + constants[24:]
    data = file(constants=worse)
    text = "failed to parse constant section: entry 0 has invalid offset 0"
    assert said(data) == damage(offset_of(data, worse) + 8, text)


def test_constant_exceeds_its_entry() -> None:
    constants = table((b"\x02x", b"\x01y"), "Q")
    data = file(constants=constants)
    at = offset_of(data, constants) + 24
    assert said(data) == damage(at, "constant of 2 bytes exceeds its entry")
    cut = table((b"\x80",), "Q")
    data = file(constants=cut)
    assert said(data) == damage(offset_of(data, cut) + 16, "failed to parse constant section")
    assert entry(file(constants=table((b"\x01x", b"\x00"), "Q")))


# ---- globals


def with_global(minor: int, payload: bytes) -> bytes:
    return file(
        minor, globals=payload, constants=table((b"\x04\x07\0\0\0",), "Q"), functions=functions(minor)
    )


def functions(
    minor: int, type: int = NO_ARGS, attributes: bytes | None = None, hints: bytes = b"\x0b\x00"
) -> bytes:
    """One entry as the version has it: 13.5 writes hints and a list of argument attributes always."""
    head = bytes((1, 0, type, 2, 0))
    return (
        head
        + (hints + (b"\x06\x00" if attributes is None else attributes) if minor >= 5 else b"")
        + RETURN[1:]
    )


GLOBAL = bytes((1, 1, TILE, 0, 4))  # `a`: tile<i32>, constant 0, alignment 4


@pytest.mark.parametrize("flag", [0, 1])
def test_constant_flag_of_a_global(flag: int) -> None:
    found = read(with_global(3, GLOBAL + bytes((0, flag))), Sink()).regions[0].block.ops[0]
    assert (found.name, found.attrs["sym_name"], found.attrs["alignment"]) == ("cuda_tile.global", "a", 4)
    assert found.attrs.get("constant", False) == bool(flag)


@pytest.mark.parametrize("flag", [2, 3, 127])
def test_no_other_constant_flag_of_a_global(flag: int) -> None:
    payload = GLOBAL + bytes((0, flag))
    data = with_global(3, payload)
    assert said(data) == damage(offset_of(data, payload) + 1, f"invalid constant flag of a global: {flag}")


def test_visibility_and_type_of_a_global() -> None:
    for number, name in ((0, None), (1, "private")):
        found = read(with_global(3, GLOBAL + bytes((number, 0))), Sink()).regions[0].block.ops[0]
        assert found.attrs.get("symbol_visibility") == name and ("symbol_visibility" in found.attrs) == bool(
            name
        )
    payload = GLOBAL + b"\x09\x00"
    data = with_global(3, payload)
    assert said(data) == damage(offset_of(data, payload) + 1, "unknown SymbolVisibility value: 9")
    payload = bytes((1, 1, I32, 0, 4))
    data = with_global(1, payload)
    assert said(data) == damage(offset_of(data, payload) + 1, "global has type 'i32', expected a tile")


@pytest.mark.parametrize(("minor", "whole"), [(2, GLOBAL), (3, GLOBAL + b"\0\0")])
def test_global_section_is_cut(minor: int, whole: bytes) -> None:
    assert len(read(with_global(minor, whole), Sink()).regions[0].block.ops) == 2
    for length in range(len(whole)):
        data = with_global(minor, whole[:length])
        text = "failed to parse global section"
        place = data.rindex(b"\x82", 0, data.rindex(RETURN[1:]))  # the function section follows
        assert said(data) == damage(place, text), length


# ---- functions


def test_signature_flags_and_body() -> None:
    for payload, back, what in (
        (bytes((1, 2, NO_ARGS, 2)) + RETURN, 1, "string index 2 out of bounds (size=2)"),
        (bytes((1, 0, 5, 2)) + RETURN, 1, "type index 5 out of bounds (size=5)"),
        (bytes((1, 0, I32, 2)) + RETURN, 1, "function 'k' has type 'i32', expected a function type"),
        (bytes((1, 0, NO_ARGS, 0)) + RETURN, 3, "un-expected non-entry function 'k'"),
        (bytes((1, 0, NO_ARGS, 0x12)) + RETURN, 3, "function entry has unrecognized flag bits (0x10);"),
        (bytes((1, 0, NO_ARGS, 2, 0, 4)) + RETURN[2:], 6, "body of function 'k' exceeds the section"),
    ):
        data = file(functions=payload)
        assert said(data) == damage(offset_of(data, payload) + back, what)
    for cut in (SOUND[:1], SOUND[:3], SOUND[:4], SOUND[:5]):
        data = file(functions=cut)
        assert said(data) == damage(len(data) - 1, "failed to parse function section")


def test_flags_of_13_5() -> None:
    assert "optimization_hints" not in entry(file(5, functions=functions(5)))
    payload = functions(5).replace(b"\x02\x02\x00", b"\x02\x06\x00", 1)
    data = file(5, functions=payload)
    assert said(data) == damage(
        offset_of(data, payload) + 3, "function entry cannot be both kernel and extern impl"
    )
    hinted = bytes((1, 0, NO_ARGS, 6, 0)) + b"\x0b\x00" + RETURN[1:]
    assert entry(file(4, functions=hinted))["sym_name"] == "k"  # there the bit means: hints follow


def test_hints_are_hints() -> None:
    for hints in (b"\x0a\x00", b"\x06\x00", b"\x05\x01"):
        payload = functions(5, hints=hints)
        data = file(5, functions=payload)
        text = "hints of function 'k' are not an optimization hints attribute"
        assert said(data) == damage(offset_of(data, payload) + 7, text)
    inner = b"\x0b\x01\x01"  # one architecture, `a`
    payload = functions(5, hints=inner + b"\x05\x01")
    data = file(5, functions=payload)
    text = "optimization hints of 'a' are not a dictionary"
    assert said(data) == damage(offset_of(data, payload) + 5 + len(inner) + 2, text)
    sound = functions(5, hints=inner + b"\x0a\x01\x01\x05\x00")
    assert entry(file(5, functions=sound))["optimization_hints"] == {"a": {"a": "k"}}


ONE = b"\x0a\x01\x01\x05\x00"  # {a = "k"}
NONE = b"\x0a\x00"


@pytest.mark.parametrize(
    "attributes",
    [
        NONE,
        b"\x05\x01",
        b"\x03\x01",
        b"\x06\x01\x05\x01",
        b"\x06\x02" + ONE + b"\x05\x01",
        b"\x06\x01\x06\x00",
    ],
)
def test_argument_attributes_are_a_list_of_dictionaries(attributes: bytes) -> None:
    payload = functions(5, ONE_ARG, attributes)
    data = file(5, functions=payload)
    text = "argument attributes of function 'k' are not a list of dictionaries"
    assert said(data) == damage(offset_of(data, payload) + 7 + len(attributes), text)


@pytest.mark.parametrize(
    ("type", "attributes", "count"),
    [
        (ONE_ARG, b"\x06\x02" + NONE + NONE, 2),
        (ONE_ARG, b"\x06\x02" + ONE + ONE, 2),
        (NO_ARGS, b"\x06\x01" + NONE, 1),
        (NO_ARGS, b"\x06\x01" + ONE, 1),
    ],
)
def test_argument_attributes_are_as_many_as_arguments(type: int, attributes: bytes, count: int) -> None:
    payload = functions(5, type, attributes)
    data = file(5, functions=payload)
    arguments = int(type == ONE_ARG)
    text = f"{count} argument attributes for {arguments} arguments of function 'k'"
    assert said(data) == damage(offset_of(data, payload) + 7 + len(attributes), text)


def test_sound_argument_attributes() -> None:
    for attributes, wanted in (
        (b"\x06\x00", None),
        (b"\x06\x01" + NONE, None),
        (b"\x06\x01" + ONE, ({"a": "k"},)),
    ):
        found = entry(file(5, functions=functions(5, ONE_ARG, attributes)))
        assert found.get("arg_attrs") == wanted
        assert str(found["function_type"]) == "(tile<i32>) -> ()"


def test_functions_of_13_5_are_entries() -> None:
    payload = functions(5).replace(b"\x02\x02\x00", b"\x02\x00\x00", 1)
    data = file(5, functions=payload)
    with pytest.raises(CompileError) as caught:
        read(data, Sink())
    first = caught.value.diagnostics[0]
    text = "preview content of bytecode version 13.5 is not supported: function 'k' is not an entry"
    at = offset_of(data, payload) + 3
    assert caught.value.exit_code == 3 and first.text == text
    assert [note.text for note in first.notes] == [
        f"error at offset {at}: un-expected non-entry function 'k'"
    ]
