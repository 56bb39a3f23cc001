"""For the tests of `tileiras-build` and `tileiras-config`: calling them, toolkits of our own making."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import peers

from tests.fixtures import BYTECODE

REPOSITORY = Path(__file__).resolve().parents[1]
KERNEL = BYTECODE / "add_2d_f32.tilebc"


def command(*words: object, tool: str = "build") -> list[str]:
    path = f"import sys; sys.path.insert(0, {str(REPOSITORY)!r})"
    code = f"{path}; from tileiras.tools.{tool} import main; sys.exit(main())"
    return [sys.executable, "-c", code, *map(str, words)]


def call(*words: object, tool: str = "build", **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*words, tool=tool), capture_output=True, text=True, **options)  # type: ignore[call-overload]


def fake_toolkit(root: Path, body: str, version: str = "13.4.92") -> Path:
    """A toolkit whose tileiras does `body`, with $OUT the output it was asked for."""
    find_out = 'while [ $# -gt 0 ]; do [ "$1" = -o ] && OUT="$2"; shift; done'
    for name in ("tileiras", "ptxas"):
        path = root / "bin" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            f'#!/bin/sh\nif [ "$1" = --version ]; then echo "release 13.4, V{version}"; exit 0; fi\n'
            f"{find_out}\n{body if name == 'tileiras' else ''}\n"
        )
        path.chmod(0o755)
    return root


def compile_images(folder: Path) -> Path:
    """Fills `folder` with cubins and tables of one kernel for two architectures, and their container."""
    root = peers.require_toolkit()
    for arch in ("sm_90", "sm_100"):
        words = ["compile", "--compiler", "nvidia", "--toolkit-root", root, KERNEL, "--arch", arch]
        done = call(*words, "-o", folder / f"{arch}.cubin", "--kernels-json", folder / f"{arch}.json")
        assert done.returncode == 0, done.stderr
    elf = [word for arch in ("sm_90", "sm_100") for word in ("--elf", f"{arch}={folder / arch}.cubin")]
    done = call(
        "fatbin", "-o", folder / "k.fatbin", *elf, "--tileir", f"compute_120={KERNEL}", "--compress", "none"
    )
    assert done.returncode == 0, done.stderr
    return folder
