"""Tile C++ through the unchanged nvcc 13.3 and later: its private home makes it call our assembler.

The proof is in the bytes: what `nvcc -tilecubin` writes through the shim equals what our `tileiras` makes of the same
nvcc's bytecode, and differs from what NVIDIA's assembler makes of it. The toolkit root that our assembler is told is
the one of that nvcc, so its ptxas is too.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import peers
import pytest
from build_support import Installed, clean_environ, ok, run

from tests.fixtures import BYTECODE

KERNEL = """\
#include <cuda_tile.h>
namespace ct = cuda::tiles;
extern "C" __tile_global__ void vadd(const float *x, const float *y, float *z, int n) {
  auto i = ct::iota<ct::tile<int, ct::shape<128>>>() + int(ct::bid().x) * 128;
  auto m = i < n;
  ct::store_masked(z + i, ct::load_masked(x + i, m) + ct::load_masked(y + i, m), m);
}
"""
FIRST = pytest.mark.parametrize("release", ["13.4"], indirect=True)  # what no release of nvcc can change


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return Installed(tmp_path_factory.mktemp("installed"))


@pytest.fixture(params=["13.4", pytest.param("13.5", marks=pytest.mark.full)])
def release(request: pytest.FixtureRequest) -> str:
    peers.require("nvcc", request.param)
    return str(request.param)


@pytest.fixture
def env(release: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    # A cache folder with a blank and a letter beyond ASCII: the home's path goes into a profile and onto PATH.
    return clean_environ(TILEIRAS_NVCC=str(peers.require("nvcc", release)),
                         TILEIRAS_CACHE_DIR=str(tmp_path_factory.mktemp("ca che é")))  # fmt: skip


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "k.cu").write_text(KERNEL)
    (folder / "main.cu").write_text(
        "#include <cstdio>\n" + KERNEL + 'int main() { std::puts("linked"); return 0; }\n'
    )
    return folder


TILE = ["-std=c++20", "-arch=sm_90"]


def test_the_assembler_called_by_nvcc_is_ours(
    installed: Installed, env: dict[str, str], work: Path, tmp_path: Path, release: str
) -> None:
    root = peers.require_toolkit(release)
    copy = tmp_path / "bin"
    shutil.copytree(installed.bin, copy, symlinks=True)
    (copy / "tileiras").rename(copy / "ours")
    recorder = copy / "tileiras"
    recorder.write_text('#!/bin/sh\nprintf "%s\\n" "$TILEIRAS_TOOLKIT_ROOT" "$CUDA_ROOT" "$*" >> "$RECORD"\n'
                        'exec "${0%/*}/ours" "$@"\n')  # fmt: skip
    recorder.chmod(0o755)
    env["RECORD"] = str(tmp_path / "record")
    # CUDA_HOME and friends of the user's shell must not lead our assembler to another release.
    env.update(CUDA_HOME="/nonexistent", CUDA_PATH="/nonexistent")
    for _ in range(2):  # the first call makes the home, the second goes through sh alone
        (tmp_path / "record").unlink(missing_ok=True)
        ok(
            run(
                [copy / "tileiras-nvcc", *TILE, "--enable-tile", "-c", "k.cu", "-Xtileiras=-O2", "-lineinfo"],
                work,
                env,
            )
        )
        seen = (tmp_path / "record").read_text().splitlines()
        assert [Path(one).resolve() for one in seen[:2]] == [root.resolve()] * 2
        words = seen[2].split()
        assert words[:3] == ["--host-arch=x86_64", "--host-os=linux", "-arch=sm_90"]
        assert "-O2" in words and "--lineinfo" in words and words[-2] == "-o"
        assert len(seen) == 3
        assert "nv_fatbin" in ok(run(["readelf", "-SW", "k.o"], work)).stdout


def test_the_cubin_came_from_us(installed: Installed, env: dict[str, str], work: Path, release: str) -> None:
    root = peers.require_toolkit(release)
    vendor = peers.require("tileiras", release)
    ok(run([installed.shim, *TILE, "--tile-only", "-tilebc", "k.cu"], work, env))
    ok(run([installed.shim, *TILE, "--tile-only", "-tilecubin", "k.cu"], work, env))
    ours = {**env, "TILEIRAS_TOOLKIT_ROOT": str(root)}
    del ours["TILEIRAS_NVCC"]
    ok(run([installed.bin / "tileiras", "--host-arch=x86_64", "--host-os=linux", "-arch=sm_90", "k.tilebc", "-o", "ours.cubin"],
           work, ours))  # fmt: skip
    ok(run([vendor, "--host-arch=x86_64", "--host-os=linux", "-arch=sm_90", "k.tilebc", "-o", "theirs.cubin"], work,
           {**clean_environ(), "CUDA_ROOT": str(root)}))  # fmt: skip
    made = (work / "k.tile.cubin").read_bytes()
    assert made == (work / "ours.cubin").read_bytes()
    assert made != (work / "theirs.cubin").read_bytes()
    # COMPILER nvidia: the same command, the other assembler.
    line = [installed.shim, *TILE, "--tile-only", "-tilecubin", "k.cu"]
    ok(run([*line, "-o", "v.cubin"], work, {**env, "TILEIRAS_COMPILER": "nvidia"}))
    assert (work / "v.cubin").read_bytes() == (work / "theirs.cubin").read_bytes()
    ok(run([*line, "-o", "w.cubin", "--tileiras-compiler=nvidia"], work, env))
    assert (work / "w.cubin").read_bytes() == (work / "theirs.cubin").read_bytes()


def test_a_tile_program_links_and_runs(installed: Installed, env: dict[str, str], work: Path) -> None:
    ok(run([installed.shim, *TILE, "--enable-tile", "main.cu", "-o", "prog"], work, env))
    done = ok(run([work / "prog"]))
    assert done.stdout == "linked\n"


@FIRST
def test_a_failure_of_our_assembler_is_nvccs_failure(
    installed: Installed, env: dict[str, str], work: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "bin"
    shutil.copytree(installed.bin, copy, symlinks=True)
    (copy / "tileiras").unlink()
    (copy / "tileiras").write_text("#!/bin/sh\necho 'tileiras: no' >&2\nexit 5\n")
    (copy / "tileiras").chmod(0o755)
    for _ in range(2):
        done = run([copy / "tileiras-nvcc", *TILE, "--enable-tile", "-c", "k.cu"], work, env)
        assert done.returncode == 5 and "tileiras: no" in done.stderr


def test_a_tile_program_beside_tile_ir(installed: Installed, env: dict[str, str], work: Path) -> None:
    """One line, both kinds: the .cu goes through nvcc with our assembler, the .tilebc through us alone."""
    ok(run([installed.shim, *TILE, "--tile-only", "-tilebc", "k.cu", "-o", "other.tilebc"], work, env))
    done = ok(
        run(
            [installed.shim, *TILE, "--enable-tile", "main.cu", "other.tilebc", "-o", "prog", "-v"], work, env
        )
    )
    assert "tileiras-build compile" in done.stderr and "#$ tileiras --host-arch" in done.stderr
    assert ok(run([work / "prog"])).stdout == "linked\n"
    assert "other_image" in ok(run(["nm", "prog"], work)).stdout


@FIRST
def test_without_a_cache_the_home_lives_as_long_as_nvcc(
    installed: Installed, env: dict[str, str], work: Path
) -> None:
    env.update(TILEIRAS_CACHE="0", TMPDIR=str(work.parent / "tmp"))
    os.mkdir(env["TMPDIR"])
    ok(run([installed.shim, *TILE, "--enable-tile", "-c", "k.cu"], work, env))
    assert list(Path(env["TMPDIR"]).iterdir()) == []
    (work / "k.cu").write_text("error\n")
    assert run([installed.shim, *TILE, "--enable-tile", "-c", "k.cu"], work, env).returncode == 2
    assert list(Path(env["TMPDIR"]).iterdir()) == []


@FIRST
@pytest.mark.parametrize("cache", ["off", "open to all"])
def test_tile_ir_beside_tile_cpp_without_a_usable_cache(
    installed: Installed, env: dict[str, str], work: Path, cache: str
) -> None:
    """Our assembler makes the image of the .cu beside a Tile IR input, too, and its home goes with nvcc."""
    shutil.copy(BYTECODE / "add_2d_f32.tilebc", work / "other.tilebc")
    env.update(TMPDIR=str(work.parent / "tmp"))
    os.mkdir(env["TMPDIR"])
    if cache == "off":
        env["TILEIRAS_CACHE"] = "0"
    else:
        shared = work.parent / "shared"
        shared.mkdir()
        shared.chmod(0o777)
        env["TILEIRAS_CACHE_DIR"] = str(shared)
        (shared / "nvcc").symlink_to(work)
    line = [installed.shim, *TILE, "--enable-tile", "-c", "k.cu", "other.tilebc", "-v"]
    done = ok(run(line, work, env))
    assert "Traceback" not in done.stderr and f"{env['TMPDIR']}/tileiras-nvcc-" in done.stderr
    assert (work / "k.o").exists() and (work / "other.o").exists()
    assert list(Path(env["TMPDIR"]).iterdir()) == []


@pytest.mark.full
@FIRST
def test_many_first_calls_at_once_make_one_home(
    installed: Installed, env: dict[str, str], work: Path
) -> None:
    import subprocess

    line = [installed.shim, *TILE, "--enable-tile", "-c", "k.cu"]
    started = [subprocess.Popen([*line, "-o", f"{index}.o"], cwd=work, env=env) for index in range(6)]
    assert [process.wait(timeout=300) for process in started] == [0] * 6
    homes = [path for path in (Path(env["TILEIRAS_CACHE_DIR"]) / "nvcc").iterdir() if path.is_dir()]
    assert len(homes) == 1 and not homes[0].name.startswith(".")


def test_tile_code_that_nvcc_would_drop_is_mentioned(
    installed: Installed, env: dict[str, str], work: Path
) -> None:
    for _ in range(2):
        done = ok(run([installed.shim, "-std=c++20", "--enable-tile", "-c", "k.cu"], work, env))
        assert "nvcc leaves tile code out for sm_75" in done.stderr
    done = ok(run([installed.shim, "-std=c++20", "--enable-tile", "-c", "k.cu", "-arch=sm_90"], work, env))
    assert done.stderr == ""


def test_a_tilecubin_that_nvcc_does_not_write_is_an_error(
    installed: Installed, env: dict[str, str], work: Path
) -> None:
    """CMake's order of codes: nvcc answers 0 and writes nothing."""
    line = [
        "-std=c++20",
        "--tile-only",
        "-tilecubin",
        "k.cu",
        "--generate-code=arch=compute_100,code=[compute_100,sm_100]",
    ]
    (work / "k.tile.cubin").write_text("old")
    for _ in range(2):
        done = run([installed.shim, *line], work, env)
        assert (
            done.returncode == 1
            and "wrote no 'k.tile.cubin'" in done.stderr
            and not (work / "k.tile.cubin").exists()
        )


@pytest.mark.sampled(3)
@FIRST
@pytest.mark.parametrize(
    "words", [["-G"], ["-lineinfo"], ["-w"], ["-Werror", "all-warnings"], ["-Xtileiras", "-O1,--lineinfo"]]
)
def test_options_that_nvcc_hands_on_are_understood(
    words: list[str], installed: Installed, env: dict[str, str], work: Path
) -> None:
    ok(run([installed.shim, *TILE, "--tile-only", "-tilecubin", "k.cu", *words], work, env))
    assert (work / "k.tile.cubin").stat().st_size > 500
