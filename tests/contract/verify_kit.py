"""Input for the rules of the cuda_tile verifier: the op that breaks a rule, in an entry that makes its values.

A body names its constants by type and shape, and they are made for it: `%f32_8x16` is a constant tile<8x16xf32>,
`%i32` a tile<i32>, `%ptr_f16_8` a tile<8xptr<f16>>. `refused` wants exactly one diagnostic and everything about it;
`accepted` wants a compile without any.
"""

from __future__ import annotations

import re

from contract.kit import compile_, diagnostics_of, entry, module

from tileiras.compiler.source import load, to_bytecode
from tileiras.diag import ERROR, NOTE, CompileError, Sink

GENERIC_LINE = "failed to compile Tile IR program"
CAPABILITY = "nv_tileaa.compute_capability = 90 : i32"
NAME = re.compile(
    r"%((ptr)_)?(f64|f32|f16|bf16|tf32|f8E4M3FN|f8E5M2|i64|i32|i16|i8|i1)(?:_(\d+(?:x\d+)*))?(?![\w])"
)


def kernel(body: str, args: str = "", capability: str = CAPABILITY) -> str:
    """The contract's shell around an entry with the body, its constants in front."""
    made: dict[str, str] = {}
    for found in NAME.finditer(body):
        _, pointer, elem, shape = found.groups()
        dims = f"{shape}x" if shape else ""
        if pointer:
            address = f"%i64_{shape}" if shape else "%i64"
            make(made, address, "i64", dims)
            line = f"{found[0]} = cuda_tile.int_to_ptr {address} : tile<{dims}i64> -> tile<{dims}ptr<{elem}>>"
            made[found[0]] = line
        else:
            make(made, found[0], elem, dims)
    lines = [f"      {line}" for line in made.values()] + [
        f"      {line}" for line in body.strip("\n").splitlines()
    ]
    return module(entry("\n".join(lines), args), capability)


def make(made: dict[str, str], name: str, elem: str, dims: str) -> None:
    value = "true" if elem == "i1" else "0.0" if "f" in elem else "0"
    made[name] = f"{name} = cuda_tile.constant <{elem}: {value}> : tile<{dims}{elem}>"


def position(text: str, marker: str) -> tuple[int, int]:
    """Line and column of the statement that holds the marker, the only one that does."""
    lines = [(i, line) for i, line in enumerate(text.splitlines(), 1) if marker in line]
    assert len(lines) == 1, f"{marker!r} is on {len(lines)} lines of\n{text}"
    number, line = lines[0]
    return number, len(line) - len(line.lstrip()) + 1


def as_bytecode(text: str) -> bytes:
    """The module as it was parsed, broken rules and all."""
    return to_bytecode(load(text.replace(CAPABILITY, ""), Sink()), "13.4")


def refused(
    body: str, message: str, op: str, *, args: str = "", at: str | None = None, real: str = "", text_only: str = "",
    whole: str | None = None,
) -> None:  # fmt: skip
    """One diagnostic, `'cuda_tile.<op>' op <message>`, at the op (or at `at`), code 5 and the generic line.

    From text and from bytecode, unless `text_only` says why bytecode cannot hold the fault. `real` is a part of what
    the real verifier says, which follows as a note. `whole` is a text that is used as it is.
    """
    text = whole if whole is not None else kernel(body, args)
    name = f"cuda_tile.{op}"
    line, column = position(text, at or f"{name} " if f"{name} " in text or at else f'"{name}"')
    code, found, program = compile_(text)
    said = [emitted.render() for emitted in found]
    assert code == 5 and program is None, said
    assert [emitted.text for emitted in found] == [message, GENERIC_LINE], said
    first = found[0]
    assert (first.severity, first.word, first.op) == (ERROR, 0x103, name), said
    assert said[0].splitlines()[0] == f"k.tileir:{line}:{column}: error: '{name}' op {message}"
    assert said[1] == f"error: {GENERIC_LINE}"
    if real:
        assert any(real in note.text and note.severity == NOTE for note in first.notes), said
    if text_only:
        return
    code, found, program = compile_(as_bytecode(text), "sm_90")
    said = [emitted.render() for emitted in found]
    assert code == 5 and program is None and [emitted.text for emitted in found] == [message, GENERIC_LINE], (
        said
    )
    assert (found[0].severity, found[0].word, found[0].op) == (ERROR, 0x103, name), said


def refused_type(body: str, message: str, at: str, *, args: str = "", real: str = "") -> None:
    """A type that cannot be: refused where it is spelled, without an op in front."""
    text = kernel(body, args)
    line, _ = position(text, at)
    code, found, _ = compile_(text)
    said = [emitted.render() for emitted in found]
    assert code == 5 and [emitted.text for emitted in found] == [message, GENERIC_LINE], said
    assert found[0].op is None and found[0].severity == ERROR and found[0].loc is not None
    assert found[0].loc.line == line and said[0].startswith(f"k.tileir:{line}:"), said
    assert not real or any(real in note.text for note in found[0].notes), said


def accepted(body: str, *, args: str = "", whole: str | None = None, capability: str = CAPABILITY) -> None:
    """The neighbour: compiles to PTX, nothing is said; the same from bytecode."""
    text = whole if whole is not None else kernel(body, args, capability)
    code, found, _ = compile_(text)
    assert (code, [emitted.render() for emitted in found]) == (0, [])


def said_by_command(err: str) -> list[str]:
    """The command's lines without notes."""
    return [line for line in diagnostics_of(err) if ": note: " not in line and not line.startswith("note: ")]


__all__ = [
    "CompileError",
    "accepted",
    "as_bytecode",
    "kernel",
    "position",
    "refused",
    "refused_type",
    "said_by_command",
]
