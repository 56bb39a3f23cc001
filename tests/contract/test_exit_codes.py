"""Exit codes: one flat table from 0 to 5 for the command, the library and the four functions."""

from __future__ import annotations

import shlex
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from contract.kit import (
    BAD_EXTI,
    GOOD_EXTI,
    MAGIC,
    NOOP,
    bytecode,
    command,
    compile_,
    entry,
    messages,
    module,
    run,
    stub_ptxas,
)
from contract.rules import rule

import tileiras
from tests.fixtures import BYTECODE
from tileiras import cli, diag, driver, program
from tileiras.compiler import pipeline
from tileiras.diag import CompileError, Diag, FatalError, Sink

GENERIC = "failed to compile Tile IR program"
BARE = NOOP.replace("nv_tileaa.compute_capability = 90 : i32, tt.num_warps = 4 : i32", "")
GOOD_BYTES = bytecode(BARE)


def api(data: Any, **options: Any) -> tuple[int, list[Any], list[str]]:
    """(code, record words, texts) of create and compile."""
    words: list[int] = []
    texts: list[str] = []

    def diagnostic(record: Any, text: str, user: object) -> None:
        words.append(int.from_bytes(bytes(record)[0x10:0x12], "little"))
        texts.append(text)

    code, handle = program.tileirasProgramCreate(data, diagnostic=diagnostic, **options)
    return (code or program.tileirasProgramCompile(handle)), words, texts


@rule("exit-0-success", "frontend-minimal-kernel")
def test_success(tmp_path: Path) -> None:
    done = command(tmp_path, NOOP, "--emit=ptx", output="k.ptx")
    assert (done.status, done.out, done.err) == (0, "", "")
    assert ".entry noop" in (tmp_path / "k.ptx").read_text()


@rule("exit-1-allocation")
@pytest.mark.parametrize("answer", ["null", "raises"])
def test_allocation_of_the_handle(monkeypatch: pytest.MonkeyPatch, answer: str) -> None:
    # The command uses 1 for usage errors and unreadable input, too; test_capi.py makes
    # the C allocator return NULL.
    def nothing(*_: object) -> None:
        if answer == "raises":
            raise MemoryError

    assert api(NOOP)[0] == 0
    monkeypatch.setattr(program, "allocate", nothing)
    code, words, _ = api(NOOP)
    assert code == 1 and words == [0x103]


def test_memory_that_runs_out_in_a_pass(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def nothing(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr(pipeline, "compile_module", nothing)
    with pytest.raises(CompileError, match="out of memory") as caught:
        tileiras.compile(NOOP)
    assert caught.value.exit_code == 1


def test_the_generic_line_of_a_compile_within_a_compile_is_said_once() -> None:
    with pytest.raises(CompileError) as inner:
        tileiras.compile(BAD_EXTI)
    assert [each.text for each in inner.value.diagnostics].count(driver.D.FAILED.text) == 1
    sink = Sink()
    outer = driver.conclude(inner.value, sink)
    assert isinstance(outer, CompileError) and outer.exit_code == 5
    assert [each.text for each in sink.emitted].count(driver.D.FAILED.text) == 1


@rule("exit-2-configuration", "exit-fm-config")
@pytest.mark.parametrize(
    ("data", "options"),
    [(None, {}), (NOOP, {"opt_level": 4}), (NOOP, {"opt_level": -1}), (NOOP, {"gpu_name": "sm_999"}),
     (NOOP, {"host_os": "plan9"}),
     (GOOD_BYTES, {}), (GOOD_BYTES, {"gpu_name": "sm_90", "opt_level": 9}),
     *((NOOP, {"device_debug": True, "opt_level": level}) for level in (1, 2, 3))],
)  # fmt: skip
def test_configuration(data: Any, options: dict[str, Any]) -> None:
    code, words, _ = api(data, **options)
    assert code == 2 and words == [0x503]
    assert api(data or NOOP, gpu_name="sm_90", opt_level=3, host_os="linux")[:2] == (0, [])


@rule("exit-3-bytecode", "bytecode-magic")
@pytest.mark.parametrize("position", range(8))
def test_any_wrong_magic_byte(position: int) -> None:
    data = bytearray(GOOD_BYTES)
    data[position] ^= 0x20
    code, words, texts = api(bytes(data), gpu_name="sm_90")
    assert code == 3 and set(words) == {0x104}
    assert texts[0] == f"error: invalid magic number at position {position}"
    assert texts[-1] == "error: input does not correspond to Tile IR bytecode"
    assert api(GOOD_BYTES, gpu_name="sm_90")[0] == 0


@rule("exit-3-bytecode")
@pytest.mark.parametrize("version", [b"\x0c\x01", b"\x0e\x01", b"\x0d\x00", b"\x0d\x06"])
def test_wrong_version(version: bytes) -> None:
    # 13.2 to 13.5 are accepted: real frontends write them.
    code, words, texts = api(MAGIC + version + GOOD_BYTES[10:], gpu_name="sm_90")
    assert code == 3 and words == [0x104]
    assert texts[0].startswith(f"error: unsupported Tile version {version[0]}.{version[1]}.0")


@rule("exit-4-handle-state", "exit-per-call-site")
def test_handle_state(capsys: Any) -> None:
    assert program.tileirasProgramCreate(None) == (2, None)
    assert program.tileirasProgramGetOutput(None) == (4, None)
    assert program.tileirasProgramCompile(None) == 4
    assert program.tileirasProgramRelease(None) == 4
    code, handle = program.tileirasProgramCreate(NOOP)
    assert code == 0
    assert program.tileirasProgramGetOutput(handle) == (4, None)
    assert program.tileirasProgramCompile(handle) == 0
    code, cubin = program.tileirasProgramGetOutput(handle)
    assert code == 0 and cubin is not None and cubin[:4] == b"\x7fELF"
    assert program.tileirasProgramRelease(handle) == 0
    assert program.tileirasProgramGetOutput(handle) == (4, None)
    assert program.tileirasProgramRelease(handle) == 4


@rule("exit-5-compile", "exit-fm-op-verification")
def test_compile_failure() -> None:
    code, words, texts = api(BAD_EXTI)
    assert code == 5 and words == [0x103, 0x103]
    assert "exti requires the result width to be strictly greater than the input width" in texts[0]
    assert api(GOOD_EXTI)[:2] == (0, [])


CASES = {
    "unknown option": (NOOP, ["--no-such-flag"], 1),
    "two inputs": (NOOP, ["other.tileir"], 1),
    "level": (NOOP, ["-O4"], 2),
    "gpu": (NOOP, ["--gpu-name=sm_91"], 2),
    "host": (NOOP, ["--host-os=plan9"], 2),
    "no gpu": (GOOD_BYTES, [], 2),
    "debug": (NOOP, ["-g"], 2),
    "zeros": (b"\0" * 16, ["--gpu-name=sm_90"], 3),
    "empty": (b"", ["--gpu-name=sm_90"], 3),
    "cut": (GOOD_BYTES[:-4], ["--gpu-name=sm_90"], 3),
    "verifier": (BAD_EXTI, [], 5),
    "syntax": ("module {", ["--gpu-name=sm_90"], 5),
    "no capability": (BARE, [], 5),
}


@rule("exit-namespace-0-5")
@pytest.mark.parametrize("name", CASES)
def test_failing_corpus(name: str, tmp_path: Path) -> None:
    source, flags, code = CASES[name]
    stale = tmp_path / "k.cubin"
    stale.write_bytes(b"old")
    done = command(tmp_path, source, *flags)
    assert done.status == code and done.out == "" and done.err
    assert "Traceback" not in done.err
    if code in (1, 2):
        assert stale.read_bytes() == b"old", "a refused line touches nothing"
        stale.unlink()
    assert [p.name for p in tmp_path.iterdir()] == ["k.tileir"], "neither a stale output nor a partial one"


def test_a_mistyped_input_costs_no_output(tmp_path: Path) -> None:
    stale = tmp_path / "k.cubin"
    stale.write_bytes(b"old")
    done = command(tmp_path, None, "missing.tilebc", "-o", str(stale))
    assert done.status == 1 and stale.read_bytes() == b"old"
    assert done.err == "error: unable to read input file 'missing.tilebc': No such file or directory\n"


def test_unwritable_output(tmp_path: Path) -> None:
    done = command(tmp_path, NOOP, output="missing/k.cubin")
    assert done.status == 2 and "unable to write output file" in done.err and "missing/k.cubin" in done.err


@rule("exit-numbers-stable-strings-change")
def test_numbers() -> None:
    # Hosts switch on the integer only: the names' values are the contract, in Python and in C.
    codes = {name: value for name, value in vars(diag).items() if name.startswith("EXIT_")}
    assert codes == {"EXIT_SUCCESS": 0, "EXIT_USAGE": 1, "EXIT_CONFIGURATION": 2, "EXIT_BYTECODE": 3,
                     "EXIT_HANDLE_STATE": 4, "EXIT_COMPILE": 5}  # fmt: skip
    header = (Path(tileiras.__file__).parent / "capi" / "include" / "tileiras.h").read_text()
    for name, value in (("SUCCESS", 0), ("ERROR_ALLOCATION", 1), ("ERROR_CONFIGURATION", 2), ("ERROR_BYTECODE", 3),
                        ("ERROR_HANDLE_STATE", 4), ("ERROR_COMPILE", 5)):  # fmt: skip
        assert f"TILEIRAS_{name} = {value}" in header


@rule("exit-main-propagates")
@pytest.mark.parametrize("code", [1, 2, 3, 4, 5])
def test_main_returns_the_code_unchanged(code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object, **__: object) -> None:
        raise CompileError(code, [])

    source = tmp_path / "k.tileir"
    source.write_text(NOOP)
    assert cli.main([str(source), "--emit=ptx", "-o", str(tmp_path / "k.ptx")]) == 0
    monkeypatch.setattr(driver, "check_input", stop)
    assert cli.main([str(source), "--emit=ptx", "-o", str(tmp_path / "k.ptx")]) == code


@rule("exit-main-propagates")
@pytest.mark.parametrize("name", ["level", "zeros", "verifier"])
def test_command_and_functions_agree(name: str, tmp_path: Path) -> None:
    source, flags, code = CASES[name]
    options = {"level": {"opt_level": 4}}.get(name, {"gpu_name": "sm_90"})
    assert command(tmp_path, source, *flags).status == api(source, **options)[0] == code


@rule("exit-fm-magic", "driver-config-gates-first")
@pytest.mark.parametrize(
    ("data", "gpu", "code", "text"),
    [
        (b"\0" * 16, "sm_90", 3, "input does not correspond to Tile IR bytecode"),
        (NOOP, "sm_999", 2, "unsupported GPU target 'sm_999'"),
        (GOOD_BYTES, "sm_999", 2, "unsupported GPU target 'sm_999'"),
    ],
)
def test_gates_come_before_any_pass(
    data: Any, gpu: str, code: int, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str] = []
    real = pipeline.compile_module

    def spy(*args: Any, **options: Any) -> Any:
        started.append("pipeline")
        return real(*args, **options)

    monkeypatch.setattr(pipeline, "compile_module", spy)
    found = compile_(data, gpu)
    assert found[0] == code and messages(found[1])[-1] == text
    assert started == []
    assert compile_(NOOP)[0] == 0 and started == ["pipeline"]


def test_order_of_the_checks() -> None:
    """Magic and version, target, level, rest: the first that fails decides."""
    assert compile_(b"\0" * 16, "sm_1", opt_level=9)[0] == 3
    assert messages(compile_(GOOD_BYTES, "sm_1", opt_level=9)[1]) == ["unsupported GPU target 'sm_1'"]
    assert messages(compile_(GOOD_BYTES, "sm_90", opt_level=9, host_os="x")[1]) == [
        "invalid optimization level: 9"
    ]
    assert compile_(GOOD_BYTES[:-1], "sm_90", opt_level=9)[0] == 2, (
        "a damaged section is found by reading, later"
    )
    assert compile_(BAD_EXTI, opt_level=9)[0] == 2


@rule("exit-fm-op-dialect-unregistered")
def test_unregistered_dialect_of_an_operation() -> None:
    # Bytecode has no dialects, so this shows in text, on the offending operation.
    code, found, _ = compile_(module(entry('      "foo.bar"() : () -> ()')))
    assert code == 5 and found[0].loc is not None and (found[0].loc.line, found[0].loc.col) == (4, 7)
    assert messages(found) == ["unregistered dialect: foo", GENERIC]


@rule("exit-parser-fallthrough-5")
@pytest.mark.parametrize(
    "symbol", ["!cuda_tile.bogus", "!cuda_tile.tile<", "#cuda_tile.nothing", "!cuda_tile", "!other.type"]
)
def test_malformed_dialect_symbol(symbol: str, tmp_path: Path) -> None:
    good = module(entry(args="%p: !cuda_tile.ptr<f32>"))
    assert compile_(good)[:2] == (0, [])
    done = command(tmp_path, good.replace("!cuda_tile.ptr<f32>", symbol))
    assert done.status == 5 and done.lines()[-1] == f"error: {GENERIC}"
    assert "k.tileir:3:" in done.lines()[0]


@rule("exit-fm-subprocess")
def test_subprocess_failure(tmp_path: Path) -> None:
    bad = stub_ptxas(tmp_path, "exit 1")
    done = command(tmp_path, NOOP, f"--ptxas={bad}")
    assert done.status == 5 and "exit status 1" in done.err and not (tmp_path / "k.cubin").exists()
    good = stub_ptxas(tmp_path, "printf '\\177ELF image'")
    done = command(tmp_path, NOOP, f"--ptxas={good}")
    assert done.status == 0 and (tmp_path / "k.cubin").read_bytes() == b"\x7fELF image"
    # One that is not there never ran: the configuration is wrong, as with a toolkit that has none.
    for word in (f"--ptxas={tmp_path}/none", f"--toolkit-root={tmp_path}/none"):
        assert command(tmp_path, NOOP, word).status == 2


FATAL = """
import atexit, sys
import tileiras.compiler.pipeline as pipeline
from tileiras.diag import FatalError
atexit.register(lambda: sys.stderr.write("cleanup hook\\n"))
def broken(*_, **__):
    raise {error}
pipeline.compile_module = broken
from tileiras.cli import main
status = main([{source!r}, "-o", {output!r}])
sys.stderr.write("main returned\\n")
sys.exit(status)
"""


UNSELECTABLE = """
import atexit, sys
from tileiras.compiler.nvvm import inst
atexit.register(lambda: sys.stderr.write("cleanup hook\\n"))
del inst.ROWS["fma"]  # the back end has lost an instruction that the lowering asks for
from tileiras.cli import main
status = main([{source!r}, "--gpu-name=sm_90", "-o", {output!r}])
sys.stderr.write("main returned\\n")
sys.exit(status)
"""


@rule("exit-fm-codegen-abort", "exit-abort-unclean", "handshake-path-fatal")
def test_an_instruction_that_cannot_be_selected_aborts(tmp_path: Path) -> None:
    """Raised by the lowering itself: one bare line, no generic line, no cleanup, no exit code, no output."""
    source = BYTECODE / "axpy_f32.tilebc"
    assert compile_(source.read_bytes(), "sm_90")[0] == 0
    script = UNSELECTABLE.format(source=str(source), output=str(tmp_path / "k.cubin"))
    done = run([sys.executable, "-c", script], tmp_path)
    assert done.status == -signal.SIGABRT, done.err
    assert done.err.startswith("fatal error: Cannot select: fma.") and done.err.count("\n") == 1
    assert not (tmp_path / "k.cubin").exists()


@rule("exit-fm-codegen-abort", "exit-abort-unclean")
def test_a_fatal_error_aborts_the_command(tmp_path: Path) -> None:
    error, text = (
        "FatalError('Cannot select: nvvm.frobnicate')",
        "fatal error: Cannot select: nvvm.frobnicate",
    )
    source = tmp_path / "k.tileir"
    source.write_text(NOOP)
    script = FATAL.format(error=error, source=str(source), output=str(tmp_path / "k.cubin"))
    done = run([sys.executable, "-c", script], tmp_path)
    assert done.status == -signal.SIGABRT, "134 in a shell"
    assert done.err == text + "\n", "no generic line, no cleanup hook, main does not return"
    assert not (tmp_path / "k.cubin").exists()
    shell = run(
        ["sh", "-c", f'{shlex.quote(sys.executable)} -c "$SCRIPT" 2>/dev/null; echo $?'],
        tmp_path,
        {"SCRIPT": script},
    )
    assert shell.out.split()[-1] == "134"


UNFORESEEN = """
import sys
import tileiras.{place} as place
def broken(*_, **__):
    raise KeyError("frobnicate")
{name} = broken
from tileiras.cli import main
sys.exit(main([{source!r}, "--emit=ptx", "-o", {output!r}]))
"""


@rule("exit-abort-unclean")
@pytest.mark.parametrize(
    ("place", "name"),
    [("compiler.source", "place.load"), ("compiler.pipeline", "place.compile_module"),
     ("outputs", "place.Outputs.write"), ("outputs", "place.Outputs.commit")],
)  # fmt: skip
def test_nothing_else_ends_without_an_exit_code(tmp_path: Path, place: str, name: str) -> None:
    """A defect in the reader, in a pass or where outputs are written: code 5, by a process that returns."""
    source = tmp_path / "k.tileir"
    source.write_text(NOOP)
    script = UNFORESEEN.format(place=place, name=name, source=str(source), output=str(tmp_path / "k.ptx"))
    done = run([sys.executable, "-c", script], tmp_path)
    assert done.status == 5 and "KeyError: 'frobnicate'" in done.err and GENERIC in done.err, done.err
    assert not (tmp_path / "k.ptx").exists()


def test_a_defect_of_ours_is_a_failed_compile_and_says_so(tmp_path: Path) -> None:
    """An exception that no stage foresaw is no broken state of the process: code 5, one line, nothing left."""
    source = tmp_path / "k.tileir"
    source.write_text(NOOP)
    script = FATAL.format(
        error="KeyError('frobnicate')", source=str(source), output=str(tmp_path / "k.cubin")
    )
    done = run([sys.executable, "-c", script], tmp_path)
    assert done.status == 5
    assert (
        done.err.startswith("error: internal error: KeyError: 'frobnicate'") and "Traceback" not in done.err
    )
    assert GENERIC in done.err
    assert not (tmp_path / "k.cubin").exists()


def test_a_fatal_error_is_code_5_in_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise FatalError("Cannot select: nvvm.frobnicate")

    monkeypatch.setattr(pipeline, "compile_module", broken)
    code, words, texts = api(NOOP)
    assert code == 5 and words == [0x103, 0x103]
    assert texts == ["error: Cannot select: nvvm.frobnicate", f"error: {GENERIC}"]
    with pytest.raises(CompileError) as caught:
        tileiras.compile(NOOP)
    assert caught.value.exit_code == 5


@rule("exit-one-directional")
def test_failure_goes_one_way(monkeypatch: pytest.MonkeyPatch) -> None:
    from tileiras.compiler.lower import cuda_tile_to_tileaa, tileaa_to_tileas, tileas_to_nvvm

    started: list[str] = []
    broken = Diag("T", diag.ERROR, "structurally impossible")

    def spy(package: Any, name: str) -> None:
        real = package.lower_module

        def lower_module(*args: Any, **options: Any) -> Any:
            started.append(name)
            if name == "tileas" and len(started) < 4:
                args[2].emit(broken)
                raise args[2].fail(5)
            return real(*args, **options)

        monkeypatch.setattr(package, "lower_module", lower_module)

    spy(cuda_tile_to_tileaa, "tileaa")
    spy(tileaa_to_tileas, "tileas")
    spy(tileas_to_nvvm, "nvvm")
    code, found, _ = compile_(NOOP)
    assert code == 5 and messages(found) == ["structurally impossible", GENERIC]
    assert started == ["tileaa", "tileas"], "nothing after the stage that failed"
    started += ["", ""]
    assert compile_(NOOP)[:2] == (0, []) and started[-3:] == ["tileaa", "tileas", "nvvm"]


def test_bytecode_output_is_verified(tmp_path: Path) -> None:
    done = command(tmp_path, BAD_EXTI, "--emit=tilebc", output="k.tilebc")
    assert done.status == 5 and not (tmp_path / "k.tilebc").exists()
    assert command(tmp_path, GOOD_EXTI, "--emit=tilebc", output="k.tilebc").status == 0
    assert (tmp_path / "k.tilebc").read_bytes()[:8] == MAGIC


@rule("exit-2-configuration", "exit-5-compile")
def test_the_toolchain_has_the_drivers_words(tmp_path: Path) -> None:
    with pytest.raises(CompileError) as caught:
        tileiras.compile(NOOP, toolkit_root=str(tmp_path))
    assert caught.value.exit_code == 2 and [emitted.word for emitted in caught.value.diagnostics] == [0x503]
    with pytest.raises(CompileError) as caught:
        tileiras.compile(NOOP, ptxas=str(stub_ptxas(tmp_path, "exit 1")))
    assert caught.value.exit_code == 5 and caught.value.diagnostics[-1].word == 0x103
    old = stub_ptxas(tmp_path, "exit 0")
    old.write_text(old.read_text().replace("13.4", "11.8"))
    with pytest.raises(CompileError) as caught:
        tileiras.compile(NOOP.replace("90", "120"), ptxas=str(old))
    assert caught.value.exit_code == 2 and [emitted.word for emitted in caught.value.diagnostics] == [0x503]
