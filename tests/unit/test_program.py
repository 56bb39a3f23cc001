"""The C interface in Python: the word and the text of each refusal, and the states of a handle."""

from __future__ import annotations

from typing import Any

import pytest
from contract.kit import NOOP

from tileiras import program
from tileiras.diag import WORD_CONFIG, WORD_ERROR
from tileiras.options import Options

NULL = "error: null program handle\n"


class Heard:
    """A callback and what it was told."""

    def __init__(self) -> None:
        self.told: list[tuple[int, str, object]] = []

    def __call__(self, record: Any, text: str, user: object) -> None:
        self.told.append((int.from_bytes(bytes(record)[0x10:0x12], "little"), text, user))


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The inputs that were compiled; each becomes "cubin" without a compiler."""
    seen: list[bytes] = []

    def compile_program(data: bytes, options: Options, sink: Any) -> tuple[int, bytes]:
        seen.append(data)
        return 0, b"cubin"

    monkeypatch.setattr(program, "compile_program", compile_program)
    return seen


def create(data: Any = NOOP, **options: Any) -> Any:
    code, handle = program.tileirasProgramCreate(data, **options)
    assert code == 0 and handle is not None
    return handle


def test_no_input() -> None:
    heard = Heard()
    assert program.tileirasProgramCreate(None, diagnostic=heard, user="me") == (2, None)
    assert heard.told == [(WORD_CONFIG, "error: null input pointer", "me")]
    assert create(diagnostic=heard).data == NOOP.encode() and len(heard.told) == 1


def test_an_option_nobody_knows() -> None:
    heard = Heard()
    assert program.tileirasProgramCreate(NOOP, diagnostic=heard, gpu="sm_90") == (2, None)
    assert heard.told == [(WORD_CONFIG, "error: unknown option 'gpu'", None)]
    handle = create(diagnostic=heard, gpu_name="sm_90", opt_level=2)
    assert (handle.options.gpu_name, handle.options.opt_level) == ("sm_90", 2) and len(heard.told) == 1


def test_every_field_is_an_option() -> None:
    for name in program.FIELDS:
        assert getattr(create(**{name: getattr(Options(), name)}).options, name) == getattr(Options(), name)


def test_options_are_judged_at_create() -> None:
    heard = Heard()
    assert program.tileirasProgramCreate(NOOP, diagnostic=heard, opt_level=4) == (2, None)
    assert [word for word, _, _ in heard.told] == [WORD_CONFIG]
    assert create(diagnostic=heard, opt_level=3).state == "created" and len(heard.told) == 1


def test_bytecode_is_judged_at_create() -> None:
    heard = Heard()
    code, handle = program.tileirasProgramCreate(
        b"\x7fTileIX\0" + bytes(8), diagnostic=heard, gpu_name="sm_90"
    )
    assert (code, handle) == (3, None)
    assert heard.told[0][1] == "error: invalid magic number at position 6"


@pytest.mark.parametrize("answer", [None, MemoryError])
def test_no_memory_for_a_handle(monkeypatch: pytest.MonkeyPatch, answer: Any) -> None:
    def nothing(*_: object) -> None:
        if answer is not None:
            raise answer

    monkeypatch.setattr(program, "allocate", nothing)
    heard = Heard()
    assert program.tileirasProgramCreate(NOOP, diagnostic=heard) == (1, None)
    assert heard.told == [(WORD_ERROR, "error: allocation of the program handle failed", None)]


def test_output_before_compile(compiled: list[bytes]) -> None:
    heard = Heard()
    handle = create(diagnostic=heard, user=7)
    assert program.tileirasProgramGetOutput(handle) == (4, None)
    assert heard.told == [(WORD_ERROR, "error: the program is not compiled", 7)]
    assert program.tileirasProgramCompile(handle) == 0
    assert program.tileirasProgramGetOutput(handle) == (0, b"cubin") and len(heard.told) == 1


def test_a_program_is_compiled_once(compiled: list[bytes]) -> None:
    handle = create()
    assert program.tileirasProgramCompile(handle) == program.tileirasProgramCompile(handle) == 0
    assert compiled == [NOOP.encode()]


def test_a_failed_compile_leaves_the_state(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [(5, b"half"), (0, b"cubin")]
    monkeypatch.setattr(program, "compile_program", lambda *_: answers.pop(0))
    handle = create(diagnostic=Heard())
    assert program.tileirasProgramCompile(handle) == 5 and handle.output == b""
    assert program.tileirasProgramGetOutput(handle) == (4, None)
    assert program.tileirasProgramCompile(handle) == 0
    assert program.tileirasProgramGetOutput(handle) == (0, b"cubin")


CALLS = (
    (program.tileirasProgramCompile, 4),
    (program.tileirasProgramGetOutput, (4, None)),
    (program.tileirasProgramRelease, 4),
)


@pytest.mark.parametrize(("call", "answer"), CALLS)
def test_a_null_handle(call: Any, answer: Any, capsys: Any) -> None:
    assert call(None) == answer
    assert capsys.readouterr() == ("", NULL)


@pytest.mark.parametrize(("call", "answer"), CALLS)
def test_a_released_handle(call: Any, answer: Any, capsys: Any, compiled: list[bytes]) -> None:
    heard = Heard()
    handle = create(diagnostic=heard)
    assert program.tileirasProgramCompile(handle) == program.tileirasProgramRelease(handle) == 0
    assert (handle.data, handle.output) == (b"", b"") and capsys.readouterr() == ("", "")
    assert call(handle) == answer
    assert capsys.readouterr() == ("", NULL), "the callback of a released program is not called"
    assert heard.told == [] and len(compiled) == 1


def test_the_word_of_a_null_handle() -> None:
    assert program.NULL_HANDLE.word == WORD_ERROR == 0x103
    assert program.NULL_INPUT.word == program.UNKNOWN_OPTION.word == WORD_CONFIG == 0x503
    codes = (
        program.NO_HANDLE,
        program.NULL_INPUT,
        program.UNKNOWN_OPTION,
        program.NULL_HANDLE,
        program.NOT_COMPILED,
    )
    assert [diag.code for diag in codes] == ["API-0101", "API-0201", "API-0202", "API-0401", "API-0402"]
