"""Damaged bytecode through the whole compiler: code 3 or 5, a message that names the place, no defect of ours, no output.

What damages it knows the container: sections are shuffled, lengths lie, versions lie, tables and bodies change here and
there. A part goes through the command; the full tier does ten times as much.
"""

from __future__ import annotations

import random
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from contract.kit import BAD_EXTI, bytecode, command, compile_
from contract.verify_kit import CAPABILITY

from tests.fixtures import BYTECODE
from tileiras import driver
from tileiras.compiler.source import load, to_bytecode
from tileiras.diag import ERROR, CompileError, Sink
from tileiras.options import Options

FILES = [
    path
    for path in (*sorted(BYTECODE.glob("*.tilebc")), *sorted((BYTECODE / "versions").glob("*.tilebc")))
    if path.stat().st_size < 4000
]
HUGE = (0xFF, 0xFFFF, 1 << 20, 1 << 24, 0x7FFFFFFF, 0xFFFFFFFF, 1 << 40, (1 << 63) - 1, (1 << 64) - 1)
TARGETS = ("sm_75", "sm_80", "sm_90", "sm_100", "sm_120")
PLACE = re.compile(
    r"error at offset \d+|invalid magic number at position \d|unsupported Tile version|this is (operation \d+ of )?@"
    r"|:\d+:\d+: error: |'cuda_tile\.\w+' op|(kernel|function|name) '"
)

Section = tuple[int, int, bytes]  # id, alignment, content


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out) + bytes([value])


def sections(data: bytes) -> Iterator[Section]:
    """The sections of a good file."""
    from tileiras.compiler.bytecode.wire import varint as read

    at = 12
    while data[at] & 127:
        head = data[at]
        length, at = read(data, at + 1)
        alignment = 1
        if head & 128:
            alignment, at = read(data, at)
            at = -(-at // alignment) * alignment
        yield head & 127, alignment, data[at : at + length]
        at += length


def container(head: bytes, found: list[Section], lie: tuple[int, int] = (-1, 0)) -> bytes:
    """A file of sections; the length of section lie[0] is wrong by lie[1]."""
    out = bytearray(head)
    for i, (number, alignment, content) in enumerate(found):
        length = max(0, len(content) + (lie[1] if i == lie[0] else 0))
        out += bytes([number | (128 if alignment > 1 else 0)]) + varint(length)
        if alignment > 1:
            out += varint(alignment)
            out += b"\xcb" * (-len(out) % alignment)
        out += content
    return bytes(out) + b"\0"


def edit(content: bytes, chance: random.Random) -> bytes:
    """A few bytes of a section."""
    out = bytearray(content)
    for _ in range(chance.randint(1, 3) if out else 0):
        i = chance.randrange(len(out))
        how = chance.randrange(6)
        if how < 2:
            out[i] = (out[i] + chance.choice((1, -1, 2))) % 256
        elif how == 2:
            out[i] = chance.choice(out)
        elif how == 3:
            out[i] ^= 1 << chance.randrange(8)
        elif how == 4:
            out[i] = chance.choice((0, 1, 2, 16, 127, 128, 255))
        else:
            out[i : i + 1] = varint(chance.choice(HUGE))
    return bytes(out)


def damage(data: bytes, chance: random.Random) -> bytes:
    found = list(sections(data))
    how = chance.choice(
        "truncate flip insert cut lie version garbage drop rename twice".split() + ["edit"] * 20
    )
    i = chance.randrange(12, len(data))
    if how == "truncate":
        return data[: chance.randrange(len(data))]
    if how == "flip":
        return data[:i] + bytes([data[i] ^ 1 << chance.randrange(8)]) + data[i + 1 :]
    if how == "insert":
        return data[:i] + chance.randbytes(chance.randint(1, 4)) + data[i:]
    if how == "cut":
        return data[:i] + data[i + chance.randint(1, 6) :]
    if how == "version":
        return (
            data[:9]
            + bytes([chance.choice((0, 1, 2, 3, 4, 5, 6, 255)), chance.choice((0, 1)), 0])
            + data[12:]
        )
    if how == "garbage":
        return data + chance.randbytes(chance.randint(1, 20))
    k = chance.randrange(len(found))
    number, alignment, content = found[k]
    if how == "lie":
        return container(data[:12], found, (k, chance.choice((-5, -1, 1, 2, 100, 1 << 20, 1 << 62))))
    if how == "drop":
        found.pop(k)
    elif how == "twice":
        found.insert(chance.randrange(len(found) + 1), found[k])
    elif how == "rename":
        found[k] = (chance.randrange(1, 10), alignment, content)
    else:
        found[k] = (number, alignment, edit(content, chance))
    return container(data[:12], found)


class Slow(BaseException):
    pass


def stop(*_: Any) -> None:
    raise Slow


def judge(data: bytes, chance: random.Random) -> int:
    """The code of a compile to PTX, after everything about its diagnostics was looked at."""
    sink = Sink()
    options = Options(
        gpu_name=chance.choice(TARGETS),
        emit="ptx",
        opt_level=chance.choice((0, 3, 3)),
        lineinfo=chance.random() < 0.3,
    )
    code = 0
    signal.alarm(30)
    try:
        driver.compile_source(data, options, sink, file="k.tilebc")
    except CompileError as error:
        code = error.exit_code
    finally:
        signal.alarm(0)
    said = [emitted.render() for emitted in sink.emitted if emitted.severity == ERROR]
    if code == 0:
        assert not said, said
        return 0
    assert code in (3, 5) and not any("internal error" in text for text in said), said
    assert len(said) > 1 or "unsupported Tile version" in said[0], said
    assert PLACE.search(said[0]), said
    assert (
        said[-1].endswith(
            driver.D.FAILED.text if code == 5 else ("Tile IR bytecode", "versions [13.1 - 13.5]")
        )
        or code == 3
    )
    return code


@pytest.fixture(autouse=True)
def no_hang() -> Iterator[None]:
    before = signal.signal(signal.SIGALRM, stop)
    yield
    signal.signal(signal.SIGALRM, before)


def run_many(seed: int, count: int) -> None:
    chance = random.Random(seed)
    seen = dict.fromkeys((0, 3, 5), 0)
    for number in range(count):
        path = chance.choice(FILES)
        data = damage(path.read_bytes(), chance)
        try:
            seen[judge(data, chance)] += 1
        except BaseException as problem:
            raise AssertionError(f"seed {seed}, number {number}: {path.name}: {data.hex()}") from problem
    assert all(seen.values()), f"the damage reaches every stage: {seen}"


@pytest.mark.parametrize("seed", range(3))
def test_damaged_files(seed: int) -> None:
    run_many(seed, 200)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(100, 112))
def test_damaged_files_at_length(seed: int) -> None:
    run_many(seed, 500)


def test_sections_in_any_order() -> None:
    """Real writers put them in one order; the format has none."""
    chance = random.Random(1)
    for path in FILES[:: len(FILES) // 12]:
        data = path.read_bytes()
        found = list(sections(data))
        code, _, program = compile_(data, "sm_90")
        assert code == 0 and container(data[:12], found) == data
        for _ in range(3):
            chance.shuffle(found)
            code, said, other = compile_(container(data[:12], found), "sm_90")
            assert (code, said) == (0, []) and other.ptx == program.ptx


def test_the_command(tmp_path: Path) -> None:
    """The same judgement from outside: status, streams, nothing left."""
    chance = random.Random(7)
    for _ in range(12):
        data = damage(chance.choice(FILES).read_bytes(), chance)
        (tmp_path / "k.ptx").write_text("stale")
        done = command(tmp_path, data, "--gpu-name=sm_90", "--emit=ptx", output="k.ptx")
        code = compile_(data, "sm_90")[0]
        assert done.status == code and done.out == "" and bool(done.err) == bool(code)
        assert (tmp_path / "k.ptx").exists() == (code == 0) and "Traceback" not in done.err
        assert sorted(p.name for p in tmp_path.iterdir() if p.suffix != ".ptx") == ["k.tileir"]


def test_without_debug_information_the_operation_is_counted() -> None:
    """The file, the entry and the number of the op stand in for a line."""
    data = to_bytecode(load(BAD_EXTI.replace(f"{CAPABILITY}, ", ""), Sink()), "13.4")
    sink = Sink()
    with pytest.raises(CompileError):
        driver.compile_source(data, Options(gpu_name="sm_90", emit="ptx"), sink, file="some.tilebc")
    said = sink.emitted[0].render().splitlines()
    text = "exti requires the result width to be strictly greater than the input width"
    assert said[0] == f"some.tilebc: error: 'cuda_tile.exti' op {text}"
    assert said[-1] == "some.tilebc: note: this is operation 2 of @k, cuda_tile.exti"
    sink = Sink()
    with pytest.raises(CompileError):
        driver.compile_source(data, Options(gpu_name="sm_90", emit="ptx"), sink)
    assert sink.emitted[0].render().startswith("error: 'cuda_tile.exti' op "), (
        "without a file there is none to name"
    )


@pytest.mark.parametrize("name", [b"caf\xe9.py", b"\xff\xfe", "\u00fc.py".encode()])
def test_strings_in_any_encoding(name: bytes, tmp_path: Path) -> None:
    """A source file in a folder of another encoding: NVIDIA's reader takes any bytes, and so does every stage here."""
    path = BYTECODE / "vadd_f32.tilebc"
    found = list(sections(path.read_bytes()))
    k = next(i for i, (number, _, _) in enumerate(found) if number == 1)
    (number, alignment, content) = found[k]
    old = max(re.findall(rb"/corpus/[\w/]+|[\w]+\.py", content), key=len)
    found[k] = (number, alignment, content.replace(old, name.ljust(len(old), b"x")[: len(old)]))
    data = container(path.read_bytes()[:12], found)
    assert data != path.read_bytes()
    done = command(tmp_path, data, "--gpu-name=sm_90", "--lineinfo", "--emit=ptx", output="k.ptx")
    assert (done.status, done.err) == (0, "")
    assert b".file" in (tmp_path / "k.ptx").read_bytes()
    assert to_bytecode(load(data, Sink())) == to_bytecode(load(to_bytecode(load(data, Sink())), Sink()))


def test_bytecode_of_our_own_making_is_not_damaged() -> None:
    assert judge(bytecode(), random.Random(0)) == 0


def said_of(data: bytes) -> str:
    """The reader's first line; the file must be refused with code 3."""
    code, found, _ = compile_(data, "sm_90")
    assert code == 3
    return found[0].text


def test_lengths_that_leave_the_file() -> None:
    data = (BYTECODE / "vadd_f32.tilebc").read_bytes()
    found = list(sections(data))
    for k in range(len(found)):
        assert "bytes exceed the file; end section is not the last section" in said_of(
            container(data[:12], found, (k, 1 << 20))
        )
    for length in range(8, 12):
        assert said_of(data[:length]) == "error at offset 8: failed to parse the version"


def test_globals_that_are_wrong() -> None:
    """Their type is a tile, their visibility one of the known ones, their flag a bit."""
    data = (BYTECODE / "versions" / "op_global_public-13.4.tilebc").read_bytes()
    found = list(sections(data))
    k = next(i for i, (number, _, _) in enumerate(found) if number == 6)
    number, alignment, content = found[k]
    said = set()
    for at in range(1, len(content)):
        for value in range(8):
            changed = content[:at] + bytes([value]) + content[at + 1 :]
            file = container(data[:12], [*found[:k], (number, alignment, changed), *found[k + 1 :]])
            code, emitted, _ = compile_(file, "sm_90")
            if code == 3:
                said.add(re.sub(r"\d+|'[^']*'", "_", emitted[0].text))
    for text in (
        "global has type _, expected a tile",
        "unknown SymbolVisibility value: _",
        "invalid constant flag of a global: _",
    ):
        assert f"error at offset _: {text}" in said, said
