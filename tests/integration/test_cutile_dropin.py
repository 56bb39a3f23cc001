"""cuTile Python with our `tileiras` and `tileirdisasm` in place of NVIDIA's: its own compile path, no GPU.

cuTile takes NVIDIA's package when that is installed, else the `tileiras` on PATH, else the one of CUDA_HOME. The quick
tests run the installed cuTile with its packages mirrored, less NVIDIA's assembler, and with our command scripts as an
editable installation makes them; the full tier does it in a fresh environment with pip.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import peers
import pytest

from tileiras.toolchain.cubin import read_cubin

REPOSITORY = Path(__file__).resolve().parents[2]

CHILD = """
import json, os, sys
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import kernels
import cuda.tile as ct
from cuda.tile import _compile
from cuda.tile import compilation as cc
from cuda.tile._exception import TileCompilerError, TileCompilerExecutionError

array = cc.ArrayConstraint(
    ct.float32, 1, index_dtype=ct.int32, stride_lower_bound_incl=0, alias_groups=[], may_alias_internally=False,
    stride_constant=[1], shape_divisible_by=16, base_addr_divisible_by=16)
said = {}
for line in json.loads(sys.argv[1]):
    try:
        if line == "find":
            said[line] = [_compile._find_compiler_bin().path, _compile._find_tileirdisasm_bin(),
                          str(int(_compile._get_max_supported_bytecode_version(os.getcwd()))),
                          _compile._tileiras_supports_remarks(os.getcwd()), _compile._get_compiler_version_string()]
        elif line.startswith("parse "):
            message, loc = _compile._parse_tileir_stderr(line[6:])
            said[line] = str(TileCompilerExecutionError(5, message, loc, "", None))
        else:
            kernel, gpu, out = line.split()
            cc.export_kernel(
                getattr(kernels, kernel),
                [cc.KernelSignature([array, array, 256], symbol=kernel,
                                    calling_convention=cc.CallingConvention.cutile_python_v1())],
                out, output_format="cubin", gpu_code=gpu)
            said[line] = "ok"
    except TileCompilerError as error:
        said[line] = type(error).__name__ + ": " + str(error)
print(json.dumps(said))
"""
KERNELS = """
import cuda.tile as ct

def twice(x):
    return x + x

@ct.kernel
def double(a, b, n: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(b, index=(i,), tile=twice(ct.load(a, index=(i,), shape=(n,))))

@ct.kernel(opt_level=1)
def gentle(a, b, n: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(b, index=(i,), tile=ct.exp(ct.load(a, index=(i,), shape=(n,))))
"""


def write_commands(folder: Path, python: Path) -> Path:
    """The scripts of an editable installation, beside a link to an interpreter. Returns the folder of the commands."""
    bin_dir = folder / "bin"
    bin_dir.mkdir(parents=True)
    template = (REPOSITORY / "scripts" / "command.in").read_text()
    for command, module in (("tileiras", "tileiras.cli"), ("tileirdisasm", "tileiras.tools.disasm")):
        words = {"PRELUDE": "", "PYTHON_FLAGS": "-I -S", "SOURCE_DIR": str(REPOSITORY), "MODULE": module}
        text = template
        for word, value in words.items():
            text = text.replace(f"@TILEIRAS_{word}@", value)
        (bin_dir / command).write_text(text)
        (bin_dir / command).chmod(0o755)
    (bin_dir / "python3").symlink_to(python)
    return bin_dir


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A prefix with our commands, a mirror of cuTile's packages without NVIDIA's assembler, and the kernels."""
    python = peers.require_python()
    site = peers.site_packages()
    assert site is not None
    home = tmp_path_factory.mktemp("cutile")
    mirror = home / "mirror"
    mirror.mkdir()
    for entry in site.iterdir():
        if not entry.name.startswith("nvidia_cuda_tileiras"):
            (mirror / entry.name).symlink_to(entry)
    (home / "kernels.py").write_text(KERNELS)
    (home / "child.py").write_text(CHILD)
    return {"bin": write_commands(home / "prefix", python), "mirror": mirror, "home": home,
            "python": Path(os.path.realpath(python)), "ptxas": peers.require("ptxas").parent}  # fmt: skip


def cutile(
    place: dict[str, Path], *lines: str, path: str | None = None, **env: str
) -> tuple[dict[str, Any], str]:
    """(what the child answered to each line, its stderr)."""
    settings = {
        "PATH": f"{place['bin']}:{place['ptxas']}:/usr/bin:/bin" if path is None else path,
        "PYTHONPATH": str(place["mirror"]), "HOME": str(place["home"]), "CUDA_TILE_CACHE_DIR": "0", **env,
    }  # fmt: skip
    done = subprocess.run(
        [place["python"], "-S", place["home"] / "child.py", json.dumps(lines)],
        env=settings, cwd=place["home"], capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1]), done.stderr


def test_cutile_finds_ours_and_compiles_with_it(place: dict[str, Path]) -> None:
    lines = ["double sm_90 a.cubin", "double sm_80 b.cubin", "gentle sm_120 c.cubin"]
    said, err = cutile(place, "find", *lines, CUDA_TILE_LOGS="TILEIR")
    tool, disassembler, version, remarks, text = said.pop("find")
    assert (tool, disassembler) == (str(place["bin"] / "tileiras"), str(place["bin"] / "tileirdisasm"))
    assert version == "130400", "the newest version that cuTile's probe can write"
    assert remarks is True and "\nBuild " in text and "\nptxas " in text, "the key of cuTile's cache"
    assert said == dict.fromkeys(lines, "ok"), said
    for name, kernel, arch in (("a", "double", 90), ("b", "double", 80), ("c", "gentle", 120)):
        image = read_cubin((place["home"] / f"{name}.cubin").read_bytes())
        assert image.sm == arch and list(image.kernels) == [kernel]
        assert image.kernels[kernel].language == 7 and ".debug_line" in image.sections, (
            "--lineinfo is what cuTile asks for"
        )
    assert "entry @double(" in err and "Failed to disassemble" not in err, (
        "CUDA_TILE_LOGS=TILEIR goes through tileirdisasm"
    )


def test_cuda_home_leads_to_ours_too(place: dict[str, Path]) -> None:
    said, _ = cutile(
        place,
        "find",
        path=f"{place['ptxas'].parent / 'no'}:/usr/bin:/bin",
        CUDA_HOME=str(place["bin"].parent),
    )
    assert said["find"][0] == str(place["bin"] / "tileiras")


def test_disk_cache_and_remarks(place: dict[str, Path], tmp_path: Path) -> None:
    """cuTile stores our remarks beside each image, and takes the image from there the second time."""
    import sqlite3

    cache, line = tmp_path / "cache", "double sm_90 d.cubin"
    assert cutile(place, line, CUDA_TILE_CACHE_DIR=str(cache))[0] == {line: "ok"}
    image = (place["home"] / "d.cubin").read_bytes()
    base = sqlite3.connect(cache / "cache.db")
    tables = [row[0] for row in base.execute("select name from sqlite_master where type = 'table'")]
    stored = str([base.execute(f'select * from "{table}"').fetchall() for table in tables])
    base.close()
    assert "--- !Passed" in stored and "GlobalAccess" in stored and "open CUDA Tile IR" in stored
    (place["home"] / "d.cubin").unlink()
    assert cutile(place, line, CUDA_TILE_CACHE_DIR=str(cache))[0] == {line: "ok"}
    assert (place["home"] / "d.cubin").read_bytes() == image


def test_debug_build(place: dict[str, Path]) -> None:
    said, _ = cutile(place, "double sm_90 e.cubin", EXPERIMENTAL_CUDA_TILE_DEBUG_BUILD="1")
    assert said == {"double sm_90 e.cubin": "ok"}
    assert ".debug_info" in read_cubin((place["home"] / "e.cubin").read_bytes()).sections


def stub_ptxas(folder: Path, body: str) -> str:
    """A PATH entry with a ptxas of release 13.4 that runs `body`."""
    folder.mkdir()
    path = folder / "ptxas"
    path.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && {{ echo "release 13.4, V13.4.92"; exit 0; }}\n{body}\n'
    )
    path.chmod(0o755)
    return str(folder)


def test_errors_reach_the_user(place: dict[str, Path], tmp_path: Path) -> None:
    broken = stub_ptxas(tmp_path / "broken", "echo 'ptxas fatal   : this one is broken' >&2; exit 255")
    path = f"{place['bin']}:{broken}:/usr/bin:/bin"
    said, _ = cutile(place, "double sm_90 f.cubin", "double sm_42 g.cubin", path=path)
    failed, refused = said["double sm_90 f.cubin"], said["double sm_42 g.cubin"]
    assert (
        "Return code 5" in failed
        and "this one is broken" in failed
        and "failed to compile Tile IR program" in failed
    )
    assert "Return code 2" in refused and "unsupported GPU target 'sm_42'" in refused
    assert not (place["home"] / "f.cubin").exists()


def test_located_errors_keep_their_place_and_words(place: dict[str, Path]) -> None:
    """Our form of a position passes cuTile's parser whole. (It also knows `loc("file":line:col): error:`, but cuTile 1.7
    then fails to print its own exception: the position it makes has no function.)"""
    from tileiras.diag import ERROR, Diag, Emitted, Loc

    loc = Loc("/src/k.py", 12, 4, (Loc("/src/k.py", 30, 8),))
    line = "parse " + Emitted(Diag("T", ERROR, "needs 70000 bytes"), loc, "cuda_tile.mmaf").render()
    said, _ = cutile(place, line, "find")
    assert "/src/k.py:12:4: error: 'cuda_tile.mmaf' op needs 70000 bytes" in said[line]
    assert "/src/k.py:12:4: note: called from /src/k.py:30:8" in said[line]


def test_time_limit(place: dict[str, Path], tmp_path: Path) -> None:
    body = f"grep -q '[.]entry' /dev/stdin && exec sleep 20\nexec '{place['ptxas']}/ptxas' \"$@\""  # probes have no entry
    slow = stub_ptxas(tmp_path / "slow", body)
    path = f"{place['bin']}:{slow}:/usr/bin:/bin"
    said, _ = cutile(place, "double sm_90 h.cubin", path=path, CUDA_TILE_COMPILER_TIMEOUT_SEC="3")
    assert "exceeded timeout 3" in said["double sm_90 h.cubin"]
    assert not (place["home"] / "h.cubin").exists()


@pytest.mark.full
def test_a_fresh_environment(tmp_path: Path) -> None:
    """As a user does it: cuda-tile without NVIDIA's assembler, ours from an editable installation, ptxas from its wheel."""
    peers.require_python()
    home = tmp_path / "fresh env"
    subprocess.run([sys.executable, "-m", "venv", home], check=True)
    python = home / "bin" / "python"
    for words in (
        ["cuda-tile==1.7.0", "nvidia-cuda-nvcc==13.4.92", "numpy"],
        ["--no-deps", "-e", str(REPOSITORY)],
    ):
        subprocess.run([python, "-m", "pip", "install", "--quiet", *words], check=True)
    (tmp_path / "kernels.py").write_text(KERNELS)
    (tmp_path / "child.py").write_text(CHILD)
    done = subprocess.run(
        [python, tmp_path / "child.py", json.dumps(["find", "double sm_90 a.cubin"])], cwd=tmp_path, capture_output=True,
        text=True, env={"PATH": f"{home / 'bin'}:/usr/bin:/bin", "HOME": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["find"][0] == str(home / "bin" / "tileiras") and said["double sm_90 a.cubin"] == "ok"
    assert read_cubin((tmp_path / "a.cubin").read_bytes()).sm == 90
