"""The container as the documents and the real format have it. Where they differ, the real one decides, and the test
says which row: a file that a real frontend writes must compile and mean what it means there."""

from __future__ import annotations

import pytest
from contract.kit import MAGIC, NOOP, bytecode, compile_, entry, messages, module
from contract.rules import rule

from tests.fixtures import BYTECODE
from tileiras.compiler.bytecode import opcodes, reader, wire
from tileiras.compiler.bytecode.wire import put_varint, varint
from tileiras.compiler.source import load, to_bytecode, to_text
from tileiras.diag import CompileError, Sink

PLAIN = module(entry(name="noop"), attrs="")
BODY = bytecode(PLAIN)[12:]  # sections of a module with one empty entry
RETURN = b"\x03\x5c\x00\x00"  # body: length, and one return


def sections(data: bytes) -> list[tuple[int, int, bytes]]:
    """(id, alignment, payload) of a file with the 12-byte header."""
    found = []
    at = 12
    while data[at]:
        number, aligned = data[at] & 127, data[at] & 128
        length, at = varint(data, at + 1)
        alignment = 1
        if aligned:
            alignment, at = varint(data, at)
            at = -(-at // alignment) * alignment
        found.append((number, alignment, data[at : at + length]))
        at += length
    return found


def assemble(parts: list[tuple[int, int, bytes]], header: bytes = MAGIC + b"\x0d\x01\0\0") -> bytes:
    """A file of these sections and the end marker."""
    out = bytearray(header)
    for number, alignment, payload in parts:
        out.append(number | (128 if alignment > 1 else 0))
        put_varint(out, len(payload))
        if alignment > 1:
            put_varint(out, alignment)
            out += b"\xcb" * (-len(out) % alignment)
        out += payload
    return bytes(out + b"\0")


def entry_names(data: bytes) -> list[str]:
    return [op.attrs["sym_name"] for op in reader.read(data, Sink()).regions[0].block.ops]


def refusal(data: bytes) -> tuple[int, list[str]]:
    """(code, messages) of a file that is not read."""
    code, found, _ = compile_(data, "sm_90")
    return code, messages(found)


@rule("bytecode-magic")
def test_magic() -> None:
    assert wire.MAGIC == MAGIC == b"\x7fTileIR\0"
    assert bytecode(PLAIN)[:8] == MAGIC
    assert compile_(MAGIC + b"\x0d\x01\0\0" + BODY, "sm_90")[:2] == (0, [])
    assert refusal(b"\x7fTILEIR\0\x0d\x01\0\0" + BODY)[0] == 3


@rule("bytecode-version-triple")
@pytest.mark.parametrize(
    ("triple", "version"), [(b"\x0d\x01\x00", "13.1"), (b"\x0d\x01\x05", "13.1"), (b"\x0d\x02\x00", "13.2")]
)
def test_version_triple(triple: bytes, version: str) -> None:
    # The documents' header has 11 bytes; the real one has a u16 tag in place of the patch, so 12. Byte 11 tells them
    # apart: 0 in real files, a section id otherwise. Sections are aligned from the file start.
    short = assemble(sections(bytecode(PLAIN)), MAGIC + triple)
    assert short[11] != 0
    assert reader.check_header(short, Sink()) == version and entry_names(short) == ["noop"]
    long = assemble(sections(bytecode(PLAIN)), MAGIC + triple + b"\0")
    assert reader.check_header(long, Sink()) == version and entry_names(long) == ["noop"]


@rule("bytecode-version-13-1")
def test_versions() -> None:
    # 13.1.x of the documents, any x; 13.2 to 13.5 too, because real frontends write them.
    parts = sections(bytecode(PLAIN))
    for patch in (b"\0", b"\1", b"\x7f", b"\x80\x01"):
        assert compile_(assemble(parts, MAGIC + b"\x0d\x01" + patch), "sm_90")[:2] == (0, [])
    for minor in (2, 3, 4):
        assert compile_(assemble(parts, MAGIC + bytes((13, minor, 0, 0))), "sm_90")[:2] == (0, [])
    assert compile_(bytecode(PLAIN, "13.5"), "sm_90")[:2] == (0, [])
    for major, minor in ((13, 0), (13, 6), (12, 1), (14, 1)):
        code, said = refusal(assemble(parts, MAGIC + bytes((major, minor, 0, 0))))
        assert code == 3 and len(said) == 1
        assert said[0].startswith(f"unsupported Tile version {major}.{minor}.0")
    code, said = refusal(MAGIC + b"\x0d\x01")
    assert code == 3, "a truncated triple"


@rule("bytecode-dialect-cuda-tile")
@pytest.mark.parametrize(
    "body", ['"foo.entry"() : () -> ()', "func.func @k() { func.return }", "llvm.func @k()"]
)
def test_only_cuda_tile_is_a_program(body: str) -> None:
    # Bytecode has no dialect list: what it holds is cuda_tile by definition. In text the operations count.
    code, found, _ = compile_(f"module {{\n  {body}\n}}", "sm_90")
    assert code == 5 and messages(found)[0].startswith("unregistered dialect: ")
    assert found[0].loc is not None and found[0].loc.line == 2
    assert compile_("module { cuda_tile.module { cuda_tile.entry @k() { cuda_tile.return } } }", "sm_90")[
        :2
    ] == (0, [])


@rule("bytecode-dialect-builtin")
@pytest.mark.parametrize("outer", ["module {", "builtin.module {", "module @named {"])
def test_builtin_needs_no_mention(outer: str) -> None:
    text = f"{outer} cuda_tile.module {{ cuda_tile.entry @noop() {{ cuda_tile.return }} }} }}"
    assert compile_(text, "sm_90")[:2] == (0, [])
    assert compile_(text.replace("module {", "modul {").replace("module @", "modul @", 1), "sm_90")[0] != 0


@rule("bytecode-dialect-allow")
def test_arith_constants() -> None:
    # row 35: arith.constant is read as the cuda_tile constant; func has no meaning here and is refused by name.
    arith = entry(
        "      %c = arith.constant 7 : i32\n      %d = cuda_tile.addi %c, %c : !cuda_tile.tile<i32>"
    )
    own = arith.replace("arith.constant 7 : i32", "cuda_tile.constant <i32: 7> : !cuda_tile.tile<i32>")
    assert to_text(load(module(arith), Sink())) == to_text(load(module(own), Sink()))
    assert (
        messages(compile_(module(entry('      "func.call"() : () -> ()')))[1])[0]
        == "unregistered dialect: func"
    )
    assert (
        messages(compile_(module(entry("      %c = arith.addi %d, %d : i32")))[1])[0]
        == "unregistered dialect: arith"
    )


@rule("bytecode-dialect-unknown")
def test_unknown_dialect() -> None:
    for line in ('"foo.op"() : () -> ()', "foo.op", "%a = foo.op"):
        code, found, _ = compile_(module(entry(f"      {line}")))
        assert code == 5 and messages(found)[0] == "unregistered dialect: foo"
    assert compile_(module(entry()))[:2] == (0, [])


@rule("bytecode-dialect-deny", "frontend-pitfall-dialect")
@pytest.mark.parametrize(
    "name", ["nv_tileaa", "nv_tileas", "cute", "cute_nvgpu", "cutlass", "nvgpu", "nvvm", "llvm"]
)
def test_internal_dialects_are_refused(name: str) -> None:
    for text in (
        module(entry(f'      "{name}.op"() : () -> ()')),
        module(entry(f"      {name}.op")),
        module(entry(args=f"%p: !{name}.ptr")),
        module(f"    {name}.func @f() {{ }}\n" + entry()),
    ):
        code, found, _ = compile_(text)
        assert code == 5 and messages(found)[0] == f"unregistered dialect: {name}", text
        assert found[0].loc is not None and found[0].loc.line >= 3
    # Names of attributes need no dialect.
    assert compile_(module(entry(attrs=f"{name}.note = 1 : i32")))[:2] == (0, [])


@rule("bytecode-only-cuda-tile-reader")
def test_one_reader() -> None:
    from tileiras.compiler.dialects.cuda_tile.ops import BY_NAME

    known = [name for name in opcodes.NAMES.values() if not name.startswith("preview$")]  # refused by name
    assert len(known) > 100 and {BY_NAME[name].dialect for name in known} == {"cuda_tile"}
    assert not hasattr(reader, "register"), "no other dialect can add itself"


TAGS = {name: value for name, value in vars(wire).items() if name.startswith("A_")}


@rule("bytecode-attrtag-count")
def test_tags() -> None:
    # The released format has 12 tags, 1 to 12 without a gap; the documents' table of 13 was never released.
    assert sorted(TAGS.values()) == list(range(1, 13))


def hints_file(tag: int, rest: bytes) -> bytes:
    """A file whose entry has an attribute record with this tag where the hints are."""
    parts = {number: (number, alignment, payload) for number, alignment, payload in sections(bytecode(PLAIN))}
    parts[wire.FUNC] = (wire.FUNC, 8, b"\x01\x00\x00\x06\x00" + bytes((tag,)) + rest + RETURN)
    return assemble(list(parts.values()))


@rule("bytecode-attrtag-unknown", "frontend-pitfall-attrtag")
@pytest.mark.parametrize("tag", [0, 13, 14, 99, 127])
def test_unknown_tag(tag: int) -> None:
    code, found, _ = compile_(hints_file(tag, b"\0"), "sm_90")
    assert code == 3, "damage of any record is 3"
    assert messages(found)[0] == f"unknown attribute tag {tag}"
    assert f"unsupported AttributeTag {tag} for self-contained attribute" in found[0].notes[0].text
    assert compile_(hints_file(wire.A_HINTS, b"\0"), "sm_90")[:2] == (0, [])


def test_a_known_tag_of_another_kind_is_no_hints() -> None:
    code, said = refusal(hints_file(wire.A_BOOL, b"\1"))
    assert code == 3 and "are not an optimization hints attribute" in said[0]


def round_trip(line: str, name: str) -> tuple[bytes, object]:
    """(bytes, attribute read back) of one op's attribute."""
    data = to_bytecode(load(module(entry(line), attrs=""), Sink()), "13.1")
    for op in reader.read(data, Sink()).walk():
        if name in op.attrs:
            return data, op.attrs[name]
    raise AssertionError(f"no attribute {name}")


def hint_record(value: str) -> tuple[bytes, object]:
    """(record bytes behind the key, value read back) of an attribute in an entry's hints."""
    hints = f"#cuda_tile.optimization_hints<sm_90 = {{num_cta_in_cga = {value}}}>"
    text = module(entry(attrs=f"optimization_hints = {hints}"), attrs="")
    data = to_bytecode(load(text, Sink()), "13.1")
    (op,) = reader.read(data, Sink()).regions[0].block.ops
    return data, op.attrs["optimization_hints"]["sm_90"]["num_cta_in_cga"]


@rule("bytecode-attrtag-1")
def test_tag_1_is_an_integer() -> None:
    # row 8: 1 is Integer in every released file; the documents' StringAttr has tag 5 there.
    data, value = hint_record("2")
    assert TAGS["A_INTEGER"] == 1
    assert getattr(value, "value", value) == 2
    function = {number: payload for number, _, payload in sections(data)}[wire.FUNC]
    assert bytes((wire.A_INTEGER,)) in function
    assert refusal(hints_file(1, b"\0\2"))[0] == 3, "an integer where hints are expected"


@rule("bytecode-attrtag-4")
def test_tag_4_is_a_type() -> None:
    # row 8: 4 is Type; DenseElements has 7.
    assert (TAGS["A_TYPE"], TAGS["A_DENSE"]) == (4, 7)
    code, said = refusal(hints_file(4, b"\x63"))
    assert code == 3 and "type index 99 out of bounds" in said[0], "decoded as a type"
    assert (
        "constant index" in refusal(hints_file(7, b"\0\x63"))[1][0]
        or "type" in refusal(hints_file(7, b"\0\x63"))[1][0]
    )


@rule("bytecode-attrtag-5")
def test_tag_5_is_a_string() -> None:
    # row 8: 5 is String, an index into the string table; no released tag is a dense array of strings.
    assert TAGS["A_STRING"] == 5
    code, said = refusal(hints_file(5, b"\x63"))
    assert code == 3 and "string index 99 out of bounds" in said[0], "decoded as a string"


@rule("bytecode-attrtag-13")
def test_assume_predicates() -> None:
    # row 8: predicates are DivBy 8, SameElements 9 and Bounded 12; 13 is unknown to every released reader.
    assert (TAGS["A_DIV_BY"], TAGS["A_SAME"], TAGS["A_BOUNDED"]) == (8, 9, 12)
    assert refusal(hints_file(13, b"\0"))[1][0] == "unknown attribute tag 13"
    for predicate, tag in (("div_by<16>", 8), ("bounded<0, 7>", 12)):
        line = "      %a = cuda_tile.constant <i32: 1> : !cuda_tile.tile<i32>\n"
        line += f"      %b = cuda_tile.assume {predicate}, %a : !cuda_tile.tile<i32>"
        data, value = round_trip(line, "predicate")
        assert str(value) in (predicate, f"#cuda_tile.{predicate}"), value
        function = {number: payload for number, _, payload in sections(data)}[wire.FUNC]
        assert bytes((tag,)) in function


@rule("bytecode-varint-leb128")
def test_leb128() -> None:
    for value, encoded in (
        (0, "00"),
        (13, "0d"),
        (127, "7f"),
        (128, "8001"),
        (300, "ac02"),
        (2**64 - 1, "ff" * 9 + "01"),
    ):
        out = bytearray()
        put_varint(out, value)
        assert out.hex() == encoded
        assert varint(bytes(out) + b"\x55", 0) == (value, len(out))


@rule("bytecode-varint-canonical")
def test_overlong_varints_are_refused() -> None:
    data = bytecode(PLAIN)
    assert data[12] == wire.FUNC | 128 or data[12] == wire.STRING | 128
    length = data[13]
    assert length < 128
    parts = sections(data)
    number, alignment, payload = parts[0]
    overlong = bytearray(data[:12]) + bytes((number | 128, length | 128, 0, alignment))
    overlong += b"\xcb" * (-len(overlong) % alignment) + payload + assemble(parts[1:], b"")
    code, said = refusal(bytes(overlong))
    assert code == 3 and said[0] == "non-canonical VarInt"
    assert compile_(data, "sm_90")[:2] == (0, [])


@rule("bytecode-varint-writer-shortest")
def test_the_writer_is_canonical() -> None:
    powers = [128**k + d for k in range(1, 9) for d in (-2, -1, 0, 1, 2)]
    for value in [*range(0, 2**21, 97), *range(300), *powers, 2**63, 2**64 - 1]:
        out = bytearray()
        put_varint(out, value)
        assert len(out) == max(1, -(-value.bit_length() // 7))
        assert varint(bytes(out), 0) == (value, len(out))


@rule("bytecode-section-order", "bytecode-section-out-of-order")
def test_sections_in_any_order() -> None:
    # row 6: both real writers put functions before types and strings last, so order cannot be an error. An index that
    # points nowhere is one, whatever the order.
    import itertools

    parts = sections(bytecode(PLAIN))
    assert {number for number, _, _ in parts} >= {wire.STRING, wire.FUNC, wire.TYPE}
    for order in itertools.permutations(parts):
        assert entry_names(assemble(list(order))) == ["noop"]
    for order in itertools.permutations(parts):
        broken = [
            (n, a, p.replace(b"\x01\x00\x00\x02", b"\x01\x00\x05\x02", 1) if n == wire.FUNC else p)
            for n, a, p in order
        ]
        code, said = refusal(assemble(broken))
        assert code == 3 and "type index 5 out of bounds" in said[0] and "section" not in said[0]


@rule("bytecode-section-minimum")
def test_mandatory_sections() -> None:
    # row 7: strings and functions are mandatory; types and constants only where something refers to them.
    parts = sections(bytecode(PLAIN))
    for missing, text in (
        (wire.STRING, "string section is mandatory"),
        (wire.FUNC, "function section is mandatory"),
    ):
        code, said = refusal(assemble([part for part in parts if part[0] != missing]))
        assert code == 3 and text in said[0]
    code, said = refusal(assemble([part for part in parts if part[0] != wire.TYPE]))
    assert code == 3 and "type index 0 out of bounds" in said[0]
    code, said = refusal(assemble(parts)[:-1])
    assert code == 3 and "end section is missing" in said[0]
    assert wire.CONSTANT not in {number for number, _, _ in parts}


@rule("bytecode-section-optional")
def test_debug_section_is_optional() -> None:
    # The real format has no resource section; debug information may be there or not.

    data = (BYTECODE / "abs_f16.tilebc").read_bytes()
    with_debug = sections(data)
    assert wire.DEBUG in {number for number, _, _ in with_debug}
    names = entry_names(data)
    functions = {number: payload for number, _, payload in sections(bytecode(PLAIN))}
    assert wire.DEBUG not in functions and entry_names(bytecode(PLAIN)) == ["noop"] and names


@rule("frontend-minimal-256-bytes")
def test_size_of_the_minimal_kernel() -> None:
    # Deterministic and at most 256 bytes; the real format has no padding to reach that number.
    data = to_bytecode(load(NOOP, Sink()))
    assert 0 < len(data) <= 256 and data == to_bytecode(load(NOOP, Sink()))
    assert compile_(data, "sm_90")[:2] == (0, [])


@rule("frontend-pitfall-attrtag")
def test_another_numbering_shows_as_a_wrong_kind() -> None:
    """A writer with another tag table is understood wrongly, and the first use that does not fit says so."""
    with pytest.raises(CompileError) as caught:
        reader.read(hints_file(5, b"\0"), Sink())
    assert caught.value.exit_code == 3 and "hints of function 'noop'" in str(caught.value)
