"""What the commands show around their diagnostics: source lines, carets, colour, advice, versions; and a reader that leaves."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from contract.kit import NOOP, REPOSITORY, bytecode

from tileiras import terminal
from tileiras.advice import describe, nearest_target
from tileiras.archs import NAMES

BAD = (
    NOOP.replace("cuda_tile.return", "cuda_tile.retrun")
    if "cuda_tile.return" in NOOP
    else NOOP.replace("return", "retrun")
)
MODULES = {
    "tileiras": "tileiras.cli",
    "tileiras-build": "tileiras.tools.build",
    "tileiras-config": "tileiras.tools.config",
    "tileiras-cutile": "tileiras.tools.cutile",
    "tileiras-opt": "tileiras.tools.opt",
    "tileiras-translate": "tileiras.tools.translate",
    "tileiras-reduce": "tileiras.tools.reduce",
    "tileiras-report": "tileiras.tools.report",
    "tileiras-run": "tileiras.tools.run",
    "tileirdisasm": "tileiras.tools.disasm",
}


def words(command: str, *arguments: object) -> list[str]:
    start = f"import sys; sys.path.insert(0, {str(REPOSITORY)!r}); from {MODULES[command]} import main"
    return [sys.executable, "-c", f"{start}; sys.exit(main(sys.argv[1:]))", *map(str, arguments)]


def run(command: str, *arguments: object, **environ: str) -> subprocess.CompletedProcess[str]:
    env = {
        **{k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "TERM")},
        "TERM": "xterm",
        **environ,
    }
    return subprocess.run(words(command, *arguments), capture_output=True, text=True, env=env)


def on_terminal(command: str, *arguments: object, **environ: str) -> str:
    """What a command writes on standard error when that is a terminal."""
    import pty

    ours, theirs = pty.openpty()
    env = {
        **{k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "TERM")},
        "TERM": "xterm",
        **environ,
    }
    with subprocess.Popen(words(command, *arguments), stdout=subprocess.DEVNULL, stderr=theirs, env=env):
        os.close(theirs)
        said = b""
        try:
            while part := os.read(ours, 4096):
                said += part
        except OSError:  # how a terminal ends
            pass
    os.close(ours)
    return said.decode().replace("\r\n", "\n")


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    path = tmp_path / "k.tileir"
    path.write_text(BAD)
    return path


@pytest.mark.parametrize(
    ("command", "more"),
    [
        ("tileiras", ["--gpu-name=sm_90", "-o", "/dev/null"]),
        ("tileiras-translate", ["-o", "/dev/null"]),
        ("tileiras-opt", []),
        ("tileiras-build", ["--arch", "compute_90", "-o", "/dev/null"]),
        ("tileiras-run", []),
        ("tileiras-reduce", ["--", "true", "{}"]),
    ],
)
def test_text_errors_show_the_line_and_a_caret(bad: Path, command: str, more: list[str]) -> None:
    verb = ["compile"] if command == "tileiras-build" else []
    done = run(command, *verb, bad, *more)
    assert done.returncode == 5
    first, source, caret = done.stderr.splitlines()[:3]
    place, line, column = first.split(": error: ")[0].rsplit(":", 2)
    assert place == str(bad) and source == BAD.split("\n")[int(line) - 1]
    assert caret == " " * (int(column) - 1) + "^" and source[int(column) - 1 :].lstrip().startswith(
        ("cuda_tile", "retrun")
    )
    assert "\x1b" not in done.stderr


def test_bytecode_errors_have_no_source_line(tmp_path: Path) -> None:
    path = tmp_path / "k.tilebc"
    path.write_bytes(bytecode(NOOP)[:-3])
    said = run("tileiras", path, "--gpu-name=sm_90").stderr
    assert "^" not in said


def test_carets_under_tabs_wide_characters_and_long_lines() -> None:
    from tileiras.diag import ERROR, Diag, Emitted, Loc

    def excerpt(line: str, column: int) -> list[str]:
        terminal.remember("x", b"module\n" + line.encode())
        try:
            return terminal.present(Emitted(Diag("", ERROR, "m"), Loc("x", 2, column))).split("\n")[1:]
        finally:
            terminal._inputs.clear()

    assert excerpt("\t\tab", 4) == ["\t\tab", "\t\t ^"]
    assert excerpt('"\u4e2d\u6587" x', 6) == ['"\u4e2d\u6587" x', " " * 7 + "^"]
    assert excerpt("a\x1b[31mb", 7) == ["a\ufffd[31mb", " " * 6 + "^"], (
        "no escape of the file reaches the terminal"
    )
    shown, caret = excerpt("x" * 5000 + "!" + "y" * 5000, 5001)
    assert len(shown) <= 160 and shown[caret.index("^")] == "!"
    assert excerpt("", 1) == ["", "^"]


def test_colour_is_for_terminals(bad: Path) -> None:
    line = [bad, "--gpu-name=sm_90"]
    assert "\x1b[1;31merror: " in on_terminal("tileiras", *line)
    assert "\x1b" not in on_terminal("tileiras", *line, NO_COLOR="1")
    assert "\x1b" not in on_terminal("tileiras", *line, TERM="dumb")
    assert "\x1b" not in on_terminal("tileiras", *line, "--color=never")
    assert "\x1b" in run("tileiras", *line, "--color=always", NO_COLOR="1").stderr, "what is said wins"
    assert "\x1b" in on_terminal("tileiras-build", "compile", bad, "-o", "/dev/null", "--arch", "compute_90")


@pytest.mark.parametrize(
    ("command", "more"),
    [
        ("tileiras", []), ("tileiras-translate", []), ("tileiras-opt", []), ("tileiras-run", []), ("tileirdisasm", []),
        ("tileiras-cutile", []), ("tileiras-reduce", ["--", "true", "{}"]), ("tileiras-build", ["json", "-o", "-"]),
        ("tileiras-build", ["compile", "--arch=sm_90"]), ("tileiras-build", ["nothing"]), ("tileiras-config", ["--nothing"]),
    ],
)  # fmt: skip
def test_errors_without_a_diagnostic_have_colours_too(command: str, more: list[str], tmp_path: Path) -> None:
    missing = tmp_path / "missing.tileir"
    before, after = (more, [missing]) if command == "tileiras-build" else ([missing], more)
    bold, red, plain = "\x1b[1m", "\x1b[1;31m", "\x1b[0m"
    done = run(command, "--color=always", *before, *after)
    assert done.returncode in (1, 2) and f"{red}error: {plain}" in done.stderr, done.stderr
    without = done.stderr
    for code in (bold, red, plain):
        without = without.replace(code, "")
    assert without == run(command, *before, *after).stderr


@pytest.mark.parametrize("verb", ["compile --arch=compute_90", "bytecode", "kernels"])
def test_every_verb_shows_the_line_and_says_what_helps(verb: str, bad: Path, tmp_path: Path) -> None:
    python = tmp_path / "k.py"
    python.write_text("import cuda.tile as ct\n")
    for path, last in ((bad, "tileiras --explain"), (python, f"note: '{python}' is Python source")):
        line = [*verb.split(), path, "-o", tmp_path / "out"]
        if verb == "kernels":
            line = [
                "kernels",
                "--tilebc",
                "--folder",
                tmp_path,
                "--arch=compute_90",
                "--launch-abi=simt",
                path,
                "k",
                "k",
            ]
        said = on_terminal("tileiras-build", *line, "--color=never")
        assert last in said, said
        if path == bad:
            assert "retrun" in said.splitlines()[1] and said.splitlines()[2].strip() == "^"


@pytest.mark.parametrize("command", MODULES)
def test_every_command_takes_color_and_version(command: str) -> None:
    done = run(command, "--version")
    assert done.returncode == 0 and "0." in done.stdout and done.stderr == ""
    done = run(command, "--color=sometimes", "x")
    assert done.returncode == 1 and "sometimes" in done.stderr and "Traceback" not in done.stderr
    listed = run(command, "--help")
    assert "--color" in listed.stdout and listed.returncode == 0


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("SM90", "sm_90"), ("90", "sm_90"), ("9.0", "sm_90"), ("compute_90", "sm_90"), ("sm_9", "sm_90"), ("sm_91", "sm_90"),
        ("sm_90b", "sm_90"), ("sm90a", "sm_90a"), ("hopper", "sm_90"), ("RTX 4090", "sm_89"), ("B200", "sm_100"),
        ("sm_70", "sm_75"), ("sm_999", "sm_121"), ("gfx", ""), ("", ""), ("9" * 5000, ""), ("sm_\u0669\u0660", ""),
    ],
)  # fmt: skip
def test_a_target_that_is_none_gets_the_nearest(name: str, near: str) -> None:
    assert nearest_target(name) == near and (not near or near.rstrip("a") in NAMES)


def test_targets_are_listed(tmp_path: Path, bad: Path) -> None:
    for line in (["--gpu-name=SM90", bad], [tmp_path / "k.tilebc"]):
        (tmp_path / "k.tilebc").write_bytes(bytecode(NOOP))
        said = run("tileiras", *line).stderr.splitlines()
        assert said[0].startswith("error: ") and said[-1].startswith("note: the targets are sm_75, sm_80, ")
        assert said[-1].endswith("--gpu-name=sm_90" + ("?" if len(line) == 2 else ""))


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("k.tilebc", b"", "is empty"),
        ("k.tilebc", b"\n \n", "is empty"),
        ("k.py", b'"""Doc."""\nimport cuda.tile as ct\n', "is Python source: export its kernel first"),
        ("kernel", b"from cuda import tile\n", "is Python source"),
        ("k.ptx", b"//\n// Generated by nvcc\n\n.version 8.0\n.target sm_90\n", "is PTX"),
        ("k.cubin", b"\x7fELF\2\1\1", "is an ELF file"),
        ("k.cu", b"__global__ void k() {}\n", "is C++ source"),
        ("k.ll", b"; ModuleID = 'k'\n", "is LLVM IR"),
    ],
)
def test_a_file_that_is_no_tile_ir_says_what_it_is(name: str, data: bytes, said: str, tmp_path: Path) -> None:
    assert describe(name, data).startswith(said)
    (tmp_path / name).write_bytes(data)
    done = run("tileiras", tmp_path / name, "--gpu-name=sm_90", "-o", tmp_path / "out")
    assert done.returncode in (3, 5) and done.stderr.splitlines()[-1].startswith(
        f"note: '{tmp_path / name}' {said}"
    )


@pytest.mark.parametrize(
    ("command", "arguments"), [("tileiras-config", ["--json"]), ("tileiras-run", ["--help"]), ("tileiras-build", ["--help"]),
                               ("tileiras-opt", ["--help"]), ("tileiras-translate", ["--help"]), ("tileiras", ["--help"])],
)  # fmt: skip
def test_a_reader_that_leaves_is_no_error_of_ours(command: str, arguments: list[str]) -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(words(command, *arguments), stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert done.stderr == "" and done.returncode in (0, 2, 141)


@pytest.mark.parametrize(
    ("command", "arguments"),
    [("tileiras", ["--gpu-name=sm_90", "-o", "/dev/null"]), ("tileiras-translate", []), ("tileiras-opt", []),
     ("tileiras-run", []), ("tileirdisasm", []), ("tileiras-cutile", []), ("tileiras-reduce", ["--", "true", "{}"]),
     ("tileiras-build", ["json", "-o", "-"]), ("tileiras-build", ["compile", "--arch=sm_90", "-o", "/dev/null"])],
)  # fmt: skip
def test_an_input_without_end_is_an_error_like_any_other(command: str, arguments: list[str]) -> None:
    import resource

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (1500 << 20, 1500 << 20))

    before, after = (arguments, ["/dev/zero"]) if command == "tileiras-build" else (["/dev/zero"], arguments)
    env = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # each thread reserves memory
    done = subprocess.run(
        words(command, *before, *after), capture_output=True, text=True, env=env, preexec_fn=limit
    )
    assert done.returncode == 1 and "out of memory" in done.stderr and "Traceback" not in done.stderr, (
        done.stderr
    )


def test_a_scalar_says_its_type(tmp_path: Path) -> None:
    pytest.importorskip("numpy")
    from tileiras.tools.run import tile_types

    assert tile_types("f32") == ("f32", "tf32") and tile_types("float64") == ("f64",)
    assert "i32" in tile_types("uint32") and "i32" in tile_types("i32") and "f32" not in tile_types("i32")
    text = NOOP.replace("@noop()", "@noop(%n: !cuda_tile.tile<i32>)")
    assert text != NOOP
    (tmp_path / "k.tileir").write_text(text)
    done = run("tileiras-run", tmp_path / "k.tileir", "--arg", "f32:300")
    assert (done.returncode, done.stderr) == (
        1,
        "tileiras-run: error: argument 0 of 'noop' is i32, not f32\n",
    )
    assert run("tileiras-run", tmp_path / "k.tileir", "--arg", "uint32:300").returncode == 0
