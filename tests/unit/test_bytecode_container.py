"""The container: header, sections, varints, tags, and what is said about each kind of damage."""

from __future__ import annotations

import struct

import pytest

import tileiras
from tileiras.compiler.bytecode.reader import read
from tileiras.compiler.bytecode.wire import put_varint, unzigzag, varint, zigzag
from tileiras.compiler.source import load
from tileiras.diag import CompileError, Sink

STRINGS = b"\x01\xcb\xcb\xcb\0\0\0\0k"
TYPES = b"\x03\xcb\xcb\xcb\0\0\0\0\1\0\0\0\2\0\0\0\x00\x03\x10\x00\x00"  # i1, i32, () -> ()
RETURN = b"\x01\x00\x02\x02\x00\x03\x5c\x00\x00"  # one entry whose body is a return


def container(sections: list[tuple[int, int, bytes]], header: bytes = b"\x7fTileIR\0\x0d\x01\0\0") -> bytes:
    """A file of sections (id, alignment, payload) with its end byte."""
    out = bytearray(header)
    for number, alignment, payload in sections:
        out.append(number | 0x80)
        put_varint(out, len(payload))
        out.append(alignment)
        out += b"\xcb" * (-len(out) % alignment) + payload
    return bytes(out + b"\0")


MINIMAL = container([(2, 8, RETURN), (5, 4, TYPES), (1, 4, STRINGS)])


def refused(data: bytes) -> CompileError:
    """The error of a file that must not be read."""
    with pytest.raises(CompileError) as caught:
        read(data, Sink(), file="x.tilebc")
    assert caught.value.exit_code == 3
    return caught.value


def said(error: CompileError) -> str:
    return "\n".join(d.render() for d in error.diagnostics)


def test_smallest_module_is_read() -> None:
    assert len(MINIMAL) == 62
    module = read(MINIMAL, Sink())
    entry = module.regions[0].block.ops[0]
    assert (entry.attrs["sym_name"], module.attrs["bytecode_version"]) == ("k", (13, 1))
    assert [op.name for op in entry.regions[0].block.ops] == ["cuda_tile.return"]


@pytest.mark.parametrize("position", range(8))
def test_bad_magic_names_the_first_wrong_byte(
    position: int,
) -> None:  # bytecode-magic, bytecode-magic-position-7
    data = bytearray(MINIMAL)
    data[position] ^= 0x0A
    text = said(refused(bytes(data)))
    assert f"invalid magic number at position {position}" in text
    assert "input does not correspond to Tile IR bytecode" in text
    assert ("it looks like MLIR bytecode instead" in text) == (position == 7)


def test_stock_mlir_gets_the_hint() -> None:
    assert "(it looks like MLIR bytecode instead)" in said(refused(b"ML\xefR" + MINIMAL[4:]))


@pytest.mark.parametrize(("major", "minor"), [(13, 0), (13, 6), (12, 1), (14, 1)])
def test_other_versions_are_refused(major: int, minor: int) -> None:  # bytecode-version-13-1
    data = bytearray(MINIMAL)
    data[8], data[9] = major, minor
    assert f"unsupported Tile version {major}.{minor}.0" in said(refused(bytes(data)))


@pytest.mark.parametrize("patch", [b"\x01", b"\x07", b"\x7f", b"\x80\x01"])
def test_the_varint_header_of_the_documents_is_accepted(patch: bytes) -> None:  # bytecode-version-triple
    data = container([(2, 8, RETURN), (5, 4, TYPES), (1, 4, STRINGS)], b"\x7fTileIR\0\x0d\x01" + patch)
    assert read(data, Sink()).regions[0].block.ops[0].attrs["sym_name"] == "k"


@pytest.mark.parametrize("value", [0, 1, 13, 127, 128, 300, (1 << 21) - 1, 1 << 21, (1 << 63), (1 << 64) - 1])
def test_varints_are_shortest_and_read_back(value: int) -> None:  # bytecode-varint-leb128, -writer-shortest
    out = bytearray()
    put_varint(out, value)
    assert len(out) == max(1, -(-value.bit_length() // 7))
    assert varint(bytes(out), 0) == (value, len(out))


def test_known_encodings() -> None:
    for value, encoded in ((13, b"\x0d"), (127, b"\x7f"), (128, b"\x80\x01"), (300, b"\xac\x02")):
        out = bytearray()
        put_varint(out, value)
        assert bytes(out) == encoded
    assert [unzigzag(zigzag(v)) for v in (0, -1, 1, -(1 << 63), (1 << 63) - 1)] == [
        0,
        -1,
        1,
        -(1 << 63),
        (1 << 63) - 1,
    ]


def test_overlong_varint_is_refused() -> None:  # bytecode-varint-canonical
    data = MINIMAL.replace(b"\x82\x09\x08\xcb\x01", b"\x82\x89\x00\x08\x01")
    assert "non-canonical VarInt" in said(refused(data))


def test_overlong_varints_can_be_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    from tileiras.compiler.bytecode import wire

    monkeypatch.setattr(wire, "ACCEPT_OVERLONG", True)
    assert wire.varint(b"\x81\x80\x00", 0) == (1, 3)
    with pytest.raises(wire.Damage):
        wire.varint(b"\x80" * 10 + b"\x00", 0)


@pytest.mark.parametrize("tag", [0, 13, 14, 99])
def test_unknown_attribute_tag_gives_both_texts(tag: int) -> None:  # bytecode-attrtag-unknown
    body = b"\x01\x00\x02\x06\x00" + bytes((tag, 0, 3)) + b"\x5c\x00\x00"
    data = with_function_section(body)
    text = said(refused(data))
    assert f"unknown attribute tag {tag}" in text
    assert f"unsupported AttributeTag {tag} for self-contained attribute" in text


def with_function_section(payload: bytes) -> bytes:
    """MINIMAL with another function section, which goes last."""
    return container([(5, 4, TYPES), (1, 4, STRINGS), (2, 8, payload)])


def test_sections_in_any_order() -> None:  # bytecode-section-order
    data = with_function_section(RETURN)
    assert read(data, Sink()).regions[0].block.ops[0].attrs["sym_name"] == "k"


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (b"\x01\x00\x02\x00\x00\x03\x5c\x00\x00", "un-expected non-entry function 'k'"),
        (b"\x01\x00\x02\x0a\x00\x03\x5c\x00\x00", "function entry has unrecognized flag bits (0x8);"),
        (b"\x01\x05\x02\x02\x00\x03\x5c\x00\x00", "string index 5 out of bounds (size=1)"),
        (b"\x01\x00\x07\x02\x00\x03\x5c\x00\x00", "type index 7 out of bounds (size=3)"),
        (b"\x01\x00\x01\x02\x00\x03\x5c\x00\x00", "expected a function type"),
        (b"\x01\x00\x02\x02\x01\x03\x5c\x00\x00", "debug index 1 out of bounds (size=0)"),
        (b"\x01\x00\x02\x02\x00\x63\x5c\x00\x00", "body of function 'k' exceeds the section"),
        (b"\x01\x00\x02\x02\x00\x03\x19\x00\x00", "unknown or unimplemented opcode: 25"),
        (b"\x01\x00\x02\x02\x00\x03\x6e\x00\x00", "unsupported opcode 110 for bytecode version 13.1"),
        (b"\x01\x00\x02\x02\x00\x03\x16\x00\x00", "unknown or unimplemented opcode: 22"),
        (b"\x01\x00\x02\x02\x00\x04\x5c\x00\x01\x05", "operand index 5 out of bounds (size=0) for operand 0"),
        (b"\x01\x00\x02\x02\x00\x02\x5c\x00", "unexpected end of the body of function 'k'"),
        (b"\x01\x00\x02\x02\x00\x03\x4f\x01\x00", "operand index 0 out of bounds (size=0) for operand 0"),
        (b"\x02\x00\x02\x02\x00\x03\x5c\x00\x00", "failed to parse function section"),
    ],
)
def test_damaged_functions(payload: bytes, text: str) -> None:
    assert text in said(refused(with_function_section(payload)))


def test_bytes_after_the_last_function_are_padding() -> None:
    assert read(with_function_section(RETURN + b"\xcb\xcb"), Sink())


def test_every_truncation_is_an_error_with_a_message() -> None:
    for length in range(len(MINIMAL)):
        assert refused(MINIMAL[:length]).diagnostics


def test_mandatory_sections() -> None:  # bytecode-section-minimum
    header = MINIMAL[:12]
    assert "string section is mandatory" in said(refused(header + b"\x00"))
    only_strings = header + b"\x81\x01\x04\xcb\x00\x00"
    assert "function section is mandatory" in said(refused(only_strings))
    assert "unknown section ID: 9" in said(refused(header + b"\x09\x00\x00"))
    assert "end section is missing" in said(refused(header))


def test_a_repeated_section_the_last_counts() -> None:
    data = container([(2, 8, RETURN), (5, 4, TYPES), (1, 4, STRINGS), (1, 4, STRINGS[:-1] + b"z")])
    assert read(data, Sink()).regions[0].block.ops[0].attrs["sym_name"] == "z"


def types_file(entries: list[bytes], minor: int = 1) -> bytes:
    """A file with these type entries whose only function has type 0."""
    table = bytearray(bytes((len(entries),)) + b"\xcb" * 3)
    position = 0
    for entry in entries:
        table += struct.pack("<I", position)
        position += len(entry)
    table += b"".join(entries)
    payload = b"\x01\x00\x00\x02\x00\x03\x5c\x00\x00"
    header = MINIMAL[:9] + bytes((minor, 0, 0))
    return container([(5, 4, bytes(table)), (1, 4, STRINGS), (2, 8, payload)], header)


SIGNATURE = b"\x10\x01\x01\x00"  # (type 1) -> ()


@pytest.mark.parametrize(
    ("entry", "minor", "text"),
    [
        (b"\x12", 1, "type 'Float8E8M0FNU' requires bytecode version 13.2+, file version is 13.1"),
        (b"\x13", 2, "type 'Float4E2M1FN' requires bytecode version 13.3+, file version is 13.2"),
        (b"\x0d\x01\x00", 1, "type 1 refers to itself"),
        (b"\x0c\x00", 1, "type 0 refers to itself"),
        (b"\x10\x01\x01\x00", 1, "type 1 refers to itself"),
        (b"\x0d\x02\x05\x00", 1, "list of 5 elements exceeds the remaining data"),
        (b"\x0d\x02", 1, "failed to parse type 1"),
        (b"\x0d\x03\x00", 1, "element type of a tile cannot be"),
        (b"\x17", 1, "unsupported type tag 23"),
    ],
)
def test_damaged_types(entry: bytes, minor: int, text: str) -> None:
    assert text in said(refused(types_file([SIGNATURE, entry, b"\x07", b"\x11"], minor)))


def test_types_of_the_signature_are_read() -> None:
    module = read(types_file([SIGNATURE, b"\x0d\x02\x00", b"\x07"]), Sink())
    assert str(module.regions[0].block.ops[0].attrs["function_type"]) == "(tile<f32>) -> ()"


def test_input_of_no_kind_is_code_3() -> None:
    for data in (b"", b"garbage", b"\0\1\2", b"\x7fELF" + b"\0" * 60):
        with pytest.raises(CompileError) as caught:
            load(data, Sink())
        assert caught.value.exit_code == 3


def test_missing_file_is_code_1(tmp_path) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(CompileError) as caught:
        load(tmp_path / "absent.tilebc", Sink())
    assert caught.value.exit_code == 1
    assert "No such file or directory" in str(caught.value)


def test_hints_of_13_5_have_no_flag() -> None:
    """Since 13.5 hints always follow and the bit that announced them marks external functions, as real readers say."""
    from tileiras.compiler.bytecode.writer import write

    text = "cuda_tile.module @m { entry @k() optimization_hints=<sm_90 = {occupancy = 2}> { return } }"
    module = tileiras.load(text).op
    older, newer = write(module, (13, 4)), write(module, (13, 5))
    for data, version in ((older, (13, 4)), (newer, (13, 5))):
        again = tileiras.load(data).op
        assert again.regions[0].block.ops[0].attrs["optimization_hints"] == {"sm_90": {"occupancy": 2}}
        assert write(again, version) == data
