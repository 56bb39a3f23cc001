"""`tileiras-translate` and `tileirdisasm` as commands: streams, versions, exit codes, whole outputs only."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEXT = "cuda_tile.module @kernels {\n  entry @k(%arg0: tile<f32>) {\n    %0 = negf %arg0 : tile<f32>\n    return\n  }\n}\n"


def command(tool: str, *arguments: object, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    line = [sys.executable, "-m", f"tileiras.tools.{tool}", *map(str, arguments)]
    return subprocess.run(
        line, input=stdin, capture_output=True, timeout=120, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )


def test_text_to_bytecode_and_back(tmp_path: Path) -> None:
    source, out = tmp_path / "k.mlir", tmp_path / "k.tilebc"
    source.write_text(TEXT)
    assert command("translate", source, "-o", out).returncode == 0
    assert out.read_bytes()[:10] == b"\x7fTileIR\0\x0d\x01"
    assert command("translate", out).stdout.decode() == TEXT
    assert sorted(p.name for p in tmp_path.iterdir()) == ["k.mlir", "k.tilebc"]  # no scratch left


def test_streams_versions_and_forms() -> None:
    done = command("translate", "--version", "13.3", stdin=TEXT.encode())
    assert done.stdout[:10] == b"\x7fTileIR\0\x0d\x03"
    newer = command("translate", "-", "--version=13.5", stdin=done.stdout)
    assert newer.stdout[9] == 5
    generic = command("translate", "--generic", stdin=newer.stdout).stdout
    assert b'"cuda_tile.negf"(%arg0) : (!cuda_tile.tile<f32>) -> !cuda_tile.tile<f32>' in generic
    assert command("translate", "--to", "text", stdin=generic).stdout.decode() == TEXT
    assert (
        b'loc("<stdin>":3:5)' in command("translate", "--to", "text", "--debug", stdin=TEXT.encode()).stdout
    )


@pytest.mark.parametrize(
    ("arguments", "stdin", "code", "said"),
    [
        (["absent.tilebc"], b"", 1, "No such file or directory"),
        (["--nonsense"], b"", 1, "unknown option"),
        (["-o"], b"", 1, "needs a value"),
        (["--to", "poem"], b"", 1, "takes text or bytecode"),
        ([], b"garbage", 3, "invalid magic number at position 0"),
        ([], b"cuda_tile.module {", 5, "<stdin>:1:19: error"),
        ([], TEXT.replace("negf", "absi").encode(), 5, "must be tile of i1"),
        (
            ["--version", "13.9"],
            TEXT.encode(),
            3,
            "Invalid argument '13.9': the supported versions are [13.1 - 13.5]",
        ),
        (["--version", "12"], TEXT.encode(), 3, "Invalid argument '12': the supported versions"),
    ],
)
def test_exit_codes(arguments: list[str], stdin: bytes, code: int, said: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = command("translate", *arguments, *([] if "-o" in arguments else ["-o", out]), stdin=stdin)
    assert done.returncode == code
    assert said in done.stderr.decode() and "Traceback" not in done.stderr.decode()
    assert not out.exists()


def test_unwritable_output_is_code_2(tmp_path: Path) -> None:
    done = command("translate", "-o", tmp_path / "no" / "where", stdin=TEXT.encode())
    assert done.returncode == 2 and b"unable to write" in done.stderr


def test_disassembler(tmp_path: Path) -> None:
    path = tmp_path / "k.tilebc"
    path.write_bytes(command("translate", stdin=TEXT.encode()).stdout)
    plain = command("disasm", path)
    assert (
        plain.stdout.decode() == "entry @k(%arg0: tile<f32>) {\n  %0 = negf %arg0 : tile<f32>\n  return\n}\n"
    )
    assert (
        command("disasm", "-g", path)
        .stdout.decode()
        .startswith("entry @k(%arg0: tile<f32>) {\n  %0 = negf %arg0 : tile<f32> loc(")
    )
    assert command("disasm").returncode == 2
    assert command("disasm", tmp_path / "absent").returncode == 2
    assert command("disasm", path, path).returncode == 1
    assert command("disasm", "--help").stdout.startswith(b"OVERVIEW: tileirdisasm")
    path.write_bytes(b"\x7fTileIR\0\x0d\x01\0\0\x09\0\0")
    broken = command("disasm", path)
    assert broken.returncode == 3 and b"unknown section ID: 9" in broken.stderr


def test_reading_and_translating_import_little() -> None:
    code = (
        "import sys; from tileiras.compiler.bytecode import reader; from tileiras.compiler.ir import verify;"
        "print([m for m in ('re','typing','dataclasses','argparse','subprocess','logging','numpy') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r}); {code}"],
        capture_output=True,
        text=True,
    )
    assert done.stdout.strip() == "[]", done.stderr
