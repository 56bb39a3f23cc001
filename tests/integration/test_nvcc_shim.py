"""The nvcc shim against the real nvcc: both routes, exit codes, depfiles, dry runs, failures that leave nothing.

Images come from NVIDIA's assembler here (TILEIRAS_COMPILER=nvidia) wherever the compiler is not the point, so that
these tests judge the shim alone.
"""

from __future__ import annotations

import os
import re
import resource
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import peers
import pytest
from build_support import Installed, clean_environ, ok, run

from tests.fixtures import BYTECODE

MAIN_CU = '__global__ void s(float* p) { p[0] = 1; }\n#include "k_tile.h"\n' + (
    "int main() { return (k_image_size > 0 && k_kernel_count == 1) ? 0 : 3; }\n")  # fmt: skip


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return Installed(tmp_path_factory.mktemp("installed"))


@pytest.fixture
def env(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    nvcc = peers.require("nvcc", "13.4")
    peers.require("tileiras", "13.4")
    folder = tmp_path_factory.mktemp("tmp")
    return clean_environ(TILEIRAS_NVCC=str(nvcc), TILEIRAS_COMPILER="nvidia", TMPDIR=str(folder),
                         TILEIRAS_CACHE_DIR=str(tmp_path_factory.mktemp("cache")))  # fmt: skip


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    shutil.copy(BYTECODE / "add_2d_f32.tilebc", folder / "k.tileir")
    return folder


def script(path: Path, text: str) -> Path:
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)
    return path


# --- the delegate route


def recorder(folder: Path) -> Path:
    """A program that writes down its words, and the environment flags, in the place of nvcc."""
    return script(
        folder / "fake-nvcc",
        'printf "%s\\0" "$NVCC_PREPEND_FLAGS" "$NVCC_APPEND_FLAGS" "$@" > "$RECORD"\nexit 42\n',
    )


DELEGATED = [
    [], ["--version"], ["-h"], ["-c", "a.cu"], ["-c", "a.cu", "-o", "x.tilebc"], ["-cubin", "-arch=sm_90", "a.cu"],
    ["-MD", "-MT", "a b.o", "-MF", "a.d", "-x", "cu", "-c", "a.cu", "-o", "a b.o"], ["-Xcompiler", "-DX='a b'", "-c", "a.cu"],
    ["-I", "dir.tileir", "-c", "a.cu"], ["-Dm=k.tileir", "a.cu"], ["--enable-tile", "-std=c++20", "-c", "a.cu"],
    ["-tilebc", "--tile-only", "a.cu", "-o", "a.tilebc"], ["-Xtileiras", "-O1", "a.cu"], ["-", "-x", "cu"],
    ["-v", "__cmake_determine_cuda"], ["--unknown", "word"], ["-o"], ["-optf", "opts"], ["noext"], ["-c", "comments.cu"],
    ["-c", "é ü.cu"], ["a.cu", "b.o", "-lfoo", "-Xlinker=-z,now", "-run", "-run-args", "x.tileir"],
    ["-gencode", "arch=compute_90,code=[sm_90,compute_90]", "-t4", "a.cu"], ["-Xcompiler", "k.tileir", "a.cu"],
]  # fmt: skip


@pytest.mark.parametrize("words", DELEGATED, ids=lambda words: " ".join(words) or "nothing")
@pytest.mark.parametrize("route", ["first", "known"])
def test_nvcc_gets_the_very_words(words: list[str], route: str, installed: Installed, tmp_path: Path) -> None:
    for name in ("a.cu", "é ü.cu"):
        (tmp_path / name).write_text("int a;\n")
    (tmp_path / "comments.cu").write_text("// one\n\n// two\n/* three */ int a;\n")
    (tmp_path / "noext").write_text("plain text\n")
    (tmp_path / "opts").write_text("-DX -c a.cu")
    fake = recorder(tmp_path)
    record = tmp_path / "record"
    environ = clean_environ(
        TILEIRAS_NVCC=str(fake), RECORD=str(record), TILEIRAS_CACHE_DIR=str(tmp_path / "cache")
    )
    if route == "known":
        assert run([installed.shim, "-c", "a.cu"], tmp_path, environ).returncode == 42
        assert (tmp_path / "cache" / "nvcc" / "routes.sh").exists()
        record.unlink()
    assert run([installed.shim, *words], tmp_path, environ).returncode == 42
    assert record.read_bytes().decode().split("\0")[2:-1] == words


def test_environment_flags_are_left_to_nvcc(installed: Installed, tmp_path: Path) -> None:
    record = tmp_path / "record"
    environ = clean_environ(TILEIRAS_NVCC=str(recorder(tmp_path)), RECORD=str(record), NVCC_PREPEND_FLAGS="-DA -DB",
                            NVCC_APPEND_FLAGS="-O2", TILEIRAS_CACHE_DIR=str(tmp_path / "cache"))  # fmt: skip
    assert run([installed.shim, "-c", "a.cu"], tmp_path, environ).returncode == 42
    assert record.read_bytes().decode().split("\0")[:-1] == ["-DA -DB", "-O2", "-c", "a.cu"]
    # With -MQ, which nvcc lacks, the line is rewritten; then the environment's flags are on it, once.
    assert run([installed.shim, "-c", "a.cu", "-MD", "-MQ", "a b$#"], tmp_path, environ).returncode == 42
    assert record.read_bytes().decode().split("\0")[:-1] == [
        "", "", "-DA", "-DB", "-c", "a.cu", "-MD", "-MT", "a\\ b$$\\#", "-O2"]  # fmt: skip


def test_a_delegated_line_starts_no_interpreter(installed: Installed, tmp_path: Path) -> None:
    record = tmp_path / "record"
    (tmp_path / "a.cu").write_text("int a;\n")
    environ = clean_environ(TILEIRAS_NVCC=str(recorder(tmp_path)), RECORD=str(record),
                            TILEIRAS_CACHE_DIR=str(tmp_path / "cache"))  # fmt: skip
    run([installed.shim, "-c", "a.cu"], tmp_path, environ)
    record.unlink()
    copy = tmp_path / "bin"
    shutil.copytree(installed.bin, copy, symlinks=True)
    run([copy / "tileiras-nvcc", "-c", "a.cu"], tmp_path, environ)
    (copy / "python3").unlink()
    script(copy / "python3", "exit 77\n")
    for words in (["-c", "a.cu"], ["--version"], ["-tilebc", "-o", "a.tilebc", "a.cu", "-v"][3:]):
        assert run([copy / "tileiras-nvcc", *words], tmp_path, environ).returncode == 42
    assert run([copy / "tileiras-nvcc", "-c", "k.tileir"], tmp_path, environ).returncode == 77


def test_real_nvcc_answers_as_itself(installed: Installed, env: dict[str, str], work: Path) -> None:
    (work / "a.cu").write_text("__global__ void s(float* p) { p[0] = 1; }\n")
    for words in (["--version"], ["--list-gpu-code"], ["-c", "a.cu", "-nosuch"], ["-cubin", "a.cu", "-arch=sm_90"],
                  ["-v", "__cmake_determine_cuda"], []):  # fmt: skip
        theirs = run([env["TILEIRAS_NVCC"], *words], work, env)
        for _ in range(2):
            ours = run([installed.shim, *words], work, env)
            assert (ours.returncode, ours.stdout, ours.stderr) == (
                theirs.returncode,
                theirs.stdout,
                theirs.stderr,
            )


def test_a_toolkit_that_appears_before_the_known_one_is_noticed(installed: Installed, tmp_path: Path) -> None:
    early, late = tmp_path / "early", tmp_path / "late"
    early.mkdir()
    late.mkdir()
    script(late / "nvcc", "exit 2\n")
    environ = clean_environ(TILEIRAS_CACHE_DIR=str(tmp_path / "cache"))
    environ["PATH"] = f"{early}:{late}:{environ['PATH']}"
    for _ in range(2):
        assert run([installed.shim, "-c", "a.cu"], tmp_path, environ).returncode == 2
    script(early / "nvcc", "exit 1\n")
    assert run([installed.shim, "-c", "a.cu"], tmp_path, environ).returncode == 1
    (early / "nvcc").unlink()
    assert run([installed.shim, "-c", "a.cu"], tmp_path, environ).returncode == 2


def test_a_wheels_nvcc_without_headers_gives_way_to_a_whole_toolkit(tmp_path: Path) -> None:
    """`pip install tileiras[toolkit]` brings nvcc for its ptxas; it must not hide the toolkit that the user has."""
    installed = Installed(tmp_path / "installed")
    wheel = installed.site / "nvidia" / "cu13"
    (wheel / "bin").mkdir(parents=True)
    script(wheel / "bin" / "nvcc", "exit 41\n")
    whole = tmp_path / "whole"
    whole.mkdir()
    environ = clean_environ(TILEIRAS_CACHE_DIR=str(tmp_path / "cache"))
    if not [*Path("/usr/local").glob("cuda*/bin/nvcc"), *Path("/opt").glob("cuda/bin/nvcc")]:
        assert (
            run([installed.shim, "-c", "a.cu"], tmp_path, {**environ, "PATH": "/usr/bin:/bin"}).returncode
            == 41
        )
    script(whole / "nvcc", "exit 42\n")
    environ["PATH"] = f"{whole}:/usr/bin:/bin"
    for _ in range(2):
        assert run([installed.shim, "-c", "a.cu"], tmp_path, environ).returncode == 42
    (wheel / "include").mkdir()
    (wheel / "include" / "cuda_runtime.h").touch()
    assert run([installed.shim, "-c", "a.cu"], tmp_path, environ).returncode == 41


@pytest.mark.parametrize("kind", ["link", "copy"])
def test_the_shim_never_takes_itself_for_nvcc(kind: str, installed: Installed, tmp_path: Path) -> None:
    first, real = tmp_path / "first", tmp_path / "real"
    first.mkdir()
    real.mkdir()
    if kind == "link":
        (first / "nvcc").symlink_to(installed.shim)
    else:
        shutil.copy(installed.shim, first / "nvcc")
        (first / "python3").symlink_to(sys.executable)
    script(real / "nvcc", "exit 42\n")
    environ = clean_environ(TILEIRAS_CACHE_DIR=str(tmp_path / "cache"))
    environ["PATH"] = f"{first}:{real}:{environ['PATH']}"
    assert run(["nvcc", "-c", "a.cu"], tmp_path, environ).returncode == 42
    environ["TILEIRAS_NVCC"] = str(first / "nvcc")
    done = run(["nvcc", "-c", "a.cu"], tmp_path, environ)
    assert done.returncode == 127 and "this shim itself" in done.stderr


def test_a_wrapper_that_leads_back_to_the_shim_ends(installed: Installed, tmp_path: Path) -> None:
    wrapper = script(tmp_path / "wrapper", f'exec {installed.shim} "$@"\n')
    environ = clean_environ(TILEIRAS_CACHE_DIR=str(tmp_path / "cache"), TILEIRAS_NVCC=str(wrapper))
    done = run([installed.shim, "-c", "a.cu"], tmp_path, environ, timeout=60)
    assert done.returncode == 1 and "TILEIRAS_NVCC=" in done.stderr


def test_no_nvcc_at_all(installed: Installed, work: Path, tmp_path: Path) -> None:
    environ = clean_environ(
        TILEIRAS_CACHE_DIR=str(tmp_path / "cache"), TILEIRAS_TOOLKIT_ROOT=str(tmp_path / "nothing")
    )
    done = run([installed.shim, "-c", "a.cu"], work, environ)
    assert done.returncode == 127 and "TILEIRAS_NVCC=" in done.stderr and done.stdout == ""
    # -tilebc needs no toolkit; linking does.
    done = run([installed.shim, "k.tileir", "-arch=sm_90", "-o", "p"], work, environ)
    assert done.returncode == 127 and not (work / "p").exists()
    done = run([installed.shim, "--tileiras-nvcc=/no/such", "-c", "a.cu"], work, environ)
    assert done.returncode == 127 and "/no/such" in done.stderr


# --- the native route


def test_native_lines_work_without_nvcc(
    installed: Installed, env: dict[str, str], work: Path, tmp_path: Path
) -> None:
    root = tmp_path / "toolkit"
    (root / "bin").mkdir(parents=True)
    real = Path(env["TILEIRAS_NVCC"]).parent
    for name in ("tileiras", "ptxas", "fatbinary"):
        (root / "bin" / name).symlink_to(real / name)
    (root / "lib").symlink_to(real.parent / "lib")
    (root / "nvvm").symlink_to(real.parent / "nvvm")
    del env["TILEIRAS_NVCC"]
    env["TILEIRAS_TOOLKIT_ROOT"] = str(root)
    ok(run([installed.shim, "-c", "k.tileir", "-arch=sm_90"], work, env))
    assert (work / "k.o").read_bytes().startswith(b"\x7fELF")


def sections(path: Path) -> str:
    return ok(run(["readelf", "-SW", path])).stdout


def test_artifacts(installed: Installed, env: dict[str, str], work: Path) -> None:
    done = ok(run([installed.shim, "-cubin", "k.tileir", "-arch=sm_90"], work, env))
    assert done.stdout == "" and done.stderr == ""
    assert ".nv.info" in sections(work / "k.cubin")
    ok(
        run(
            [installed.shim, "-tilefatbin", "k.tileir", "-gencode=arch=compute_90,code=[sm_90,compute_90]"],
            work,
            env,
        )
    )
    assert (work / "k.tile.fatbin").read_bytes()[:4] == bytes.fromhex("50ed55ba")
    ok(
        run(
            [installed.shim, "-c", "k.tileir", "-arch=sm_90", "-o", "ö $x#1.o", "-Xcompiler=-fPIC"], work, env
        )
    )
    assert "k_image" in ok(run(["nm", "ö $x#1.o"], work)).stdout
    shutil.copy(work / "k.tileir", work / "noext")
    for source in ("noext", "k.tileir"):  # `-x cu`, which CMake always adds, does not decide
        ok(
            run(
                [installed.shim, "-x", "cu", "-cubin", source, "-arch=sm_90", "-o", source + ".out"],
                work,
                env,
            )
        )
        assert (work / (source + ".out")).read_bytes() == (work / "k.cubin").read_bytes()


@pytest.mark.parametrize("words", [["-res-usage", "-cubin"], ["-Xptxas", "-v", "-c"]])
def test_resource_usage_is_shown_also_from_the_cache(
    words: list[str], installed: Installed, env: dict[str, str], work: Path
) -> None:
    env["TILEIRAS_COMPILER"] = "builtin"
    for _ in range(2):
        done = ok(run([installed.shim, "k.tileir", "-arch=sm_90", *words], work, env))
        assert re.search(r"^ptxas info    : Compiling entry function '\w+' for 'sm_90'$", done.stderr, re.M)
        assert re.search(
            r"^ptxas info    : Used [1-9]\d* registers, \d+ bytes spilled, \d+ bytes smem$", done.stderr, re.M
        )


def test_outputs_are_reproducible_in_two_places(
    installed: Installed, env: dict[str, str], work: Path
) -> None:
    other = work.parent / "elsewhere in a longer folder"
    other.mkdir()
    shutil.copy(work / "k.tileir", other)
    for folder in (work, other):
        env["TILEIRAS_CACHE"] = "0"
        ok(run([installed.shim, "-c", "k.tileir", "-arch=sm_90"], folder, env))
    assert (work / "k.o").read_bytes() == (other / "k.o").read_bytes()


@pytest.mark.parametrize(
    "release", ["13.4", *(pytest.param(old, marks=pytest.mark.full) for old in ("13.1", "13.5"))]
)
def test_mixed_line_links_one_program(
    release: str, installed: Installed, env: dict[str, str], work: Path
) -> None:
    env["TILEIRAS_NVCC"] = str(peers.require("nvcc", release))
    env["TILEIRAS_COMPILER"] = "builtin"  # NVIDIA's 13.1 assembler reads no newer bytecode
    (work / "main.cu").write_text(MAIN_CU)
    # The 13.1 wheel's profile looks for its libraries in lib64, which the wheel does not have.
    libraries = f"-L{peers.require_toolkit(release) / 'lib'}"
    ok(run([installed.shim, "main.cu", "k.tileir", "-arch=sm_100", "--tileiras-header", "k_tile.h", "-o", "prog", "-MD",
            libraries], work, env))  # fmt: skip
    assert run([work / "prog"]).returncode == 0
    text = (work / "prog.d").read_text()
    assert "main.cu" in text and "prog : k.tileir\n" in text
    assert sorted(path.name for path in work.iterdir()) == [
        "k.tileir",
        "k_tile.h",
        "main.cu",
        "prog",
        "prog.d",
    ]
    assert list(Path(env["TMPDIR"]).iterdir()) == []


@pytest.mark.parametrize("option", ["--enable-tile", "-tile-only", "-tilebc", "-Xtileiras=-O1"])
def test_old_nvcc_is_named(option: str, installed: Installed, env: dict[str, str], work: Path) -> None:
    env["TILEIRAS_NVCC"] = str(peers.require("nvcc", "13.1"))
    (work / "a.cu").write_text("int a;\n")
    for _ in range(2):
        done = run([installed.shim, option, "-c", "a.cu"], work, env)
        assert done.returncode == 1
        assert re.search(
            r"nvcc fatal   : Option '.*' needs nvcc 13\.3 or newer; '.*' is 13\.1\.115", done.stderr
        )


def test_separate_compilation_of_both_kinds_and_a_run(
    installed: Installed, env: dict[str, str], work: Path
) -> None:
    (work / "main.cu").write_text(MAIN_CU.replace("? 0 : 3", "? 7 : 3"))
    ok(
        run(
            [installed.shim, "-c", "k.tileir", "main.cu", "-arch=sm_100", "--tileiras-header=k_tile.h"],
            work,
            env,
        )
    )
    assert {"k.o", "main.o"} <= {path.name for path in work.iterdir()}
    ok(run([installed.shim, "k.o", "main.o", "-arch=sm_100", "-o", "prog"], work, env))
    assert run([work / "prog"]).returncode == 7
    done = run(
        [installed.shim, "-run", "main.cu", "k.tileir", "-arch=sm_100", "--tileiras-header=k_tile.h"],
        work,
        env,
    )
    assert done.returncode == 7  # the program's own


def test_static_library_and_shared_object(installed: Installed, env: dict[str, str], work: Path) -> None:
    ok(run([installed.shim, "-lib", "k.tileir", "-arch=sm_100", "-o", "libk.a"], work, env))
    assert "k_image" in ok(run(["nm", "libk.a"], work)).stdout
    ok(
        run(
            [installed.shim, "-shared", "-Xcompiler=-fPIC", "k.tileir", "-arch=sm_100", "-o", "libk.so"],
            work,
            env,
        )
    )
    assert "k_image" in ok(run(["nm", "-D", "libk.so"], work)).stdout


# --- dry runs


@pytest.mark.parametrize(
    "words", [["-c"], ["-cubin"], ["-fatbin", "-o", "a b$#.fatbin"], ["-c", "-o", "é/k.o", "-lineinfo"]]
)
def test_dryrun_lists_what_a_run_does_and_can_be_replayed(
    words: list[str], installed: Installed, env: dict[str, str], work: Path
) -> None:
    (work / "é").mkdir()
    line = [installed.shim, "k.tileir", "-arch=sm_90", *words]
    dry = ok(run([*line, "--dryrun"], work, env))
    assert dry.stdout == ""
    assert [path.name for path in work.iterdir() if path.name != "é"] == ["k.tileir"]
    lines = dry.stderr.splitlines()
    assert all(one.startswith("#$ ") for one in lines)
    real = ok(run([*line, "-v"], work, env)).stderr
    made = {
        path: path.read_bytes()
        for path in work.rglob("*")
        if path.is_file() and not path.name.startswith(".")
    }
    assert len(made) == 2

    def normal(text: str) -> str:
        return re.sub(r"tileiras_[0-9a-f]{8,}_[0-9a-f]{8}", "TEMP", text)

    assert normal(real) == normal(dry.stderr)
    for path in made:
        if path.name != "k.tileir":
            path.unlink()
    replay = {name: value for name, value in env.items() if name != "TILEIRAS_NVCC"}
    ok(run(["sh", "-e", "-c", "\n".join(one[3:] for one in lines)], work, replay))
    assert {path: path.read_bytes() for path in made} == made
    assert list(Path(env["TMPDIR"]).iterdir()) == []


def test_the_dryrun_of_a_mixed_line_can_be_replayed(
    installed: Installed, env: dict[str, str], work: Path
) -> None:
    """By sh without -e: nvcc's own lines remove files that were never there. From any folder, by any PATH."""
    (work / "main.cu").write_text(MAIN_CU)
    env["PATH"] = f"{work}/tools of mine{os.pathsep}{env['PATH']}"
    line = [
        installed.shim,
        "main.cu",
        "k.tileir",
        "-arch=sm_100",
        "--tileiras-header",
        "k_tile.h",
        "-o",
        "prog",
    ]
    dry = ok(run([*line, "--dryrun"], work, env))
    assert not (work / "prog").exists() and not (work / "k_tile.h").exists()
    text = "\n".join(one[3:] for one in dry.stderr.splitlines() if one.startswith("#$ "))
    assert not re.search(r"^\w+=[^'\n].* ", text, re.MULTILINE), text
    run(["sh", "-c", text], work, {name: value for name, value in env.items() if name != "TILEIRAS_NVCC"})
    assert run([work / "prog"]).returncode == 0
    assert not [path for path in Path(env["TMPDIR"]).iterdir() if path.name.startswith("tileiras_")]


def test_dryrun_echoes_environment_flags_as_nvcc_does(
    installed: Installed, env: dict[str, str], work: Path
) -> None:
    env["NVCC_APPEND_FLAGS"] = "-lineinfo"
    done = ok(run([installed.shim, "--dryrun", "-cubin", "k.tileir", "-arch=sm_90"], work, env))
    assert done.stderr.splitlines()[0] == "#$ NVCC_APPEND_FLAGS=-lineinfo"
    assert "--lineinfo" in done.stderr


# --- failures


def broken(work: Path) -> None:
    (work / "k.tileir").write_bytes(b"\x7fTileIR\x00 no bytecode")


@pytest.mark.parametrize("threads", [[], ["-t", "2"], ["-t0"]])
def test_the_tools_own_exit_code_also_in_parallel(
    threads: list[str], installed: Installed, env: dict[str, str], work: Path
) -> None:
    ok(run([installed.shim, "-c", "k.tileir", "-arch=sm_90", "-MD"], work, env))
    broken(work)
    done = run([installed.shim, "-c", "k.tileir", "-gencode=arch=compute_80,code=sm_80",
                "-gencode=arch=compute_90,code=sm_90", "-MD", *threads], work, env)  # fmt: skip
    assert done.returncode == 3
    assert not (work / "k.o").exists() and not (work / "k.d").exists()
    assert list(Path(env["TMPDIR"]).iterdir()) == []


def test_colour(installed: Installed, env: dict[str, str], work: Path, tmp_path: Path) -> None:
    """--color reaches the steps, whose output is collected, and what nvcc starts; never nvcc itself."""
    env.pop("TILEIRAS_COMPILER")
    (work / "bad.tileir").write_text("cuda_tile.module @m { entry @k() { retrun } }\n")
    line = ["-t", "2", "-arch=sm_90", "-fatbin", "bad.tileir", "-o", "bad.fatbin"]
    plain = run([installed.shim, *line], work, env)
    assert plain.returncode == 5 and "\x1b" not in plain.stderr
    assert plain.stderr.count("retrun } }") == 1, "the same for image and PTX: said once"
    coloured = run([installed.shim, "--color=always", *line], work, env)
    assert coloured.returncode == 5 and "\x1b[1;31merror: " in coloured.stderr
    assert "\x1b" not in run([installed.shim, "--color=never", *line], work, env).stderr
    wrong = run([installed.shim, "--color=pink", *line], work, env)
    assert (wrong.returncode, wrong.stderr) == (
        1,
        "nvcc fatal   : Value 'pink' is not defined for option 'color'\n",
    )

    record = tmp_path / "record"
    env.update(TILEIRAS_NVCC=str(recorder(tmp_path)), RECORD=str(record))
    run([installed.shim, "--color=always", "-c", "a.cu"], work, env)
    assert record.read_text().split("\0")[2:-1] == ["-c", "a.cu"]


def test_stops_at_the_first_failing_input(installed: Installed, env: dict[str, str], work: Path) -> None:
    shutil.copy(work / "k.tileir", work / "later.tileir")
    (work / "main.cu").write_text("int main() { return 0; }\n")
    broken(work)
    done = run([installed.shim, "-c", "k.tileir", "later.tileir", "main.cu", "-arch=sm_90"], work, env)
    assert done.returncode == 3
    assert not list(work.glob("*.o"))


def test_host_compile_and_link_errors_are_passed_on(
    installed: Installed, env: dict[str, str], work: Path
) -> None:
    (work / "main.cu").write_text("int main() { return undefined_function(); }\n")
    done = run([installed.shim, "main.cu", "k.tileir", "-arch=sm_90", "-o", "p"], work, env)
    assert done.returncode in (1, 2) and not (work / "p").exists()
    done = run([installed.shim, "-c", "k.tileir", "-arch=sm_90", "-Xcompiler=--no-such-option"], work, env)
    assert done.returncode == 1 and not (work / "k.o").exists()
    done = run([installed.shim, "-c", "k.tileir", "-arch=sm_90", "-ccbin", "/no/such/g++"], work, env)
    assert done.returncode == 127 and "/no/such/g++" in done.stderr and not (work / "k.o").exists()


@pytest.mark.parametrize("target", ["missing/k.o", "k.tileir/k.o", "/proc/k.o"])
def test_an_output_that_cannot_be_written(
    target: str, installed: Installed, env: dict[str, str], work: Path
) -> None:
    done = run([installed.shim, "-c", "k.tileir", "-arch=sm_90", "-o", target], work, env)
    assert done.returncode not in (0, 255) and done.stderr
    assert sorted(path.name for path in work.iterdir()) == ["k.tileir"]


@pytest.mark.parametrize(
    ("words", "code", "named"),
    [
        (["-c", "-o", "no/k.o"], 1, "no/k.o"),
        (["-cubin", "-o", "no/k.cubin"], 2, "no/k.cubin"),
        (["-fatbin", "-o", "no/k.fatbin"], 1, "no/k.fatbin"),
        (["-c", "-odir", "no"], 1, "no/k.o"),
        (["-c", "-MD", "-MF", "no/k.d"], 1, "no/k.d"),
        (["-c", "--keep", "--keep-dir", "no"], 1, "no/k."),
    ],
    ids=lambda value: "-".join(value[:2]) if isinstance(value, list) else None,
)
def test_folders_are_not_made(
    words: list[str], code: int, named: str, installed: Installed, env: dict[str, str], work: Path
) -> None:
    """As with nvcc, whose tools answer so: a misspelt folder is an error, and stays none."""
    done = run([installed.shim, "-arch=sm_90", *words, "k.tileir"], work, env)
    assert done.returncode == code and f"cannot write '{named}" in done.stderr
    assert sorted(path.name for path in work.iterdir()) == ["k.tileir"]


def test_a_toolkit_of_links_is_the_toolkit(
    installed: Installed, env: dict[str, str], work: Path, tmp_path: Path
) -> None:
    """nvcc follows no link to itself: what lies beside the link is its toolkit, and so it is for the Tile inputs."""
    farm = tmp_path / "farm" / "bin"
    farm.mkdir(parents=True)
    for one in (peers.require_toolkit("13.4") / "bin").iterdir():
        (farm / one.name).symlink_to(one)
    (farm / "ptxas").unlink()
    (farm / "ptxas").write_text('#!/bin/sh\ncase "$*" in *--version*) echo "release 13.4, V13.4.92"; exit;; esac\n'
                                "echo our own ptxas >&2; exit 9\n")  # fmt: skip
    (farm / "ptxas").chmod(0o755)
    env |= {"TILEIRAS_NVCC": str(farm / "nvcc"), "TILEIRAS_COMPILER": "builtin", "TILEIRAS_CACHE": "0"}
    done = run([installed.shim, "-arch=sm_90", "-cubin", "k.tileir"], work, env)
    assert done.returncode and "our own ptxas" in done.stderr


def test_a_pipe_is_no_input(installed: Installed, env: dict[str, str], work: Path) -> None:
    """Each architecture's step would read it: refused at once, instead of waiting for a second writer."""
    os.mkfifo(work / "p.tileir")
    done = run([installed.shim, "-arch=sm_90", "-cubin", "p.tileir"], work, env, timeout=60)
    assert done.returncode == 1 and "'p.tileir': not a regular file" in done.stderr


def test_names_that_look_like_options(installed: Installed, env: dict[str, str], work: Path) -> None:
    (work / "k.tileir").rename(work / "-k.tileir")
    for words in (["-cubin"], ["-c", "-MD"]):
        ok(run([installed.shim, "-arch=sm_90", *words, "./-k.tileir"], work, env))
    assert {"-k.cubin", "-k.o", "-k.d"} <= {path.name for path in work.iterdir()}


def test_an_object_fits_a_shared_library(installed: Installed, env: dict[str, str], work: Path) -> None:
    ok(run([installed.shim, "-arch=sm_90", "-shared", "k.tileir", "-o", "libk.so"], work, env))
    assert (work / "libk.so").is_file()


def limit_files(size: int) -> Callable[[], None]:
    def apply() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    return apply


@pytest.mark.parametrize("size", [pytest.param(0, marks=pytest.mark.full), 300, 4096, 12000])
@pytest.mark.parametrize(
    "words",
    [
        ["-c", "-MD"],
        pytest.param(["-cubin"], marks=pytest.mark.full),
        pytest.param(["-fatbin"], marks=pytest.mark.full),
    ],
)
def test_a_full_disk_leaves_no_partial_file(
    size: int, words: list[str], installed: Installed, env: dict[str, str], work: Path
) -> None:
    env["TILEIRAS_CACHE"] = "0"
    line = [installed.shim, *words, "k.tileir", "-arch=sm_90"]
    whole = ok(run(line, work, env))
    made = {path.name: path.read_bytes() for path in work.iterdir() if path.is_file()}
    assert whole.returncode == 0
    done = run(line, work, env, preexec_fn=limit_files(size))
    left = {path.name: path.read_bytes() for path in work.iterdir() if path.is_file()}
    if done.returncode == 0:
        assert left == made
    else:
        assert {name for name in left if not name.startswith(".")} == {"k.tileir"}
    assert list(Path(env["TMPDIR"]).iterdir()) == []


def with_build(installed: Installed, folder: Path, text: str) -> Path:
    """Returns the shim of a copy of the commands in which tileiras-build is a script of ours."""
    copy = folder / "bin"
    shutil.copytree(installed.bin, copy, symlinks=True)
    (copy / "tileiras-build").unlink()
    script(copy / "tileiras-build", text)
    return copy / "tileiras-nvcc"


@pytest.mark.parametrize("name", ["TERM", "INT", "KILL", "SEGV"])
@pytest.mark.parametrize("threads", ["1", "3"])
def test_a_killed_tool_is_named_and_answered_with_its_signal(
    name: str, threads: str, installed: Installed, env: dict[str, str], work: Path, tmp_path: Path
) -> None:
    number = getattr(signal, "SIG" + name)
    shim = with_build(installed, tmp_path, f"ulimit -c 0; kill -{name} $$\nsleep 5\n")
    (work / "k.o").write_text("old")
    done = run(
        [shim, "-c", "k.tileir", "-arch=sm_90", "-t", threads, "-gencode=arch=compute_80,code=sm_80"],
        work,
        env,
    )
    assert done.returncode == 128 + number
    assert f"'tileiras-build compile' died due to signal {int(number)} " in done.stderr
    assert not (work / "k.o").exists()


@pytest.mark.parametrize("name", ["TERM", "INT", "HUP"])
@pytest.mark.parametrize("threads", ["1", "3"])
def test_a_signal_ends_the_shim_its_tools_and_its_files(
    name: str, threads: str, installed: Installed, env: dict[str, str], work: Path, tmp_path: Path
) -> None:
    shim = with_build(installed, tmp_path, f"echo $$ >> {shlex.quote(str(tmp_path))}/pids; exec sleep 60\n")
    (work / "k.o").write_text("old")
    process = subprocess.Popen([shim, "-c", "k.tileir", "-t", threads, "-gencode=arch=compute_80,code=sm_80",
                                "-gencode=arch=compute_90,code=sm_90"], cwd=work, env=env)  # fmt: skip
    deadline = time.monotonic() + 30
    wanted = 1 if threads == "1" else 2
    while time.monotonic() < deadline:
        if (tmp_path / "pids").exists() and len((tmp_path / "pids").read_text().split()) == wanted:
            break
        time.sleep(0.02)
    process.send_signal(getattr(signal, "SIG" + name))
    assert process.wait(timeout=30) == -getattr(signal, "SIG" + name)
    for pid in (tmp_path / "pids").read_text().split():
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid), 0)
    assert not (work / "k.o").exists() and list(Path(env["TMPDIR"]).iterdir()) == []


def test_success_without_an_output_is_a_failure(
    installed: Installed, env: dict[str, str], work: Path, tmp_path: Path
) -> None:
    done = run([with_build(installed, tmp_path, "exit 0\n"), "-cubin", "k.tileir", "-arch=sm_90"], work, env)
    assert done.returncode == 1 and "there is no 'k.cubin'" in done.stderr


def test_a_stale_output_is_not_taken_for_a_new_one(
    installed: Installed, env: dict[str, str], work: Path, tmp_path: Path
) -> None:
    (work / "k.cubin").write_text("old")
    done = run([with_build(installed, tmp_path, "exit 0\n"), "-cubin", "k.tileir", "-arch=sm_90"], work, env)
    assert done.returncode == 1 and not (work / "k.cubin").exists()


def test_parallel_output_is_whole_and_in_order(
    installed: Installed, env: dict[str, str], work: Path, tmp_path: Path
) -> None:
    text = ('case "$*" in *sm_80*) sleep 0.3;; esac\n'
            'for a; do case $a in sm_*) echo "out $a"; echo "err $a" >&2;; esac; done\nexit 9\n')  # fmt: skip
    done = run([with_build(installed, tmp_path, text), "-c", "k.tileir", "-t2", "-gencode=arch=compute_80,code=sm_80",
                "-gencode=arch=compute_90,code=sm_90"], work, env)  # fmt: skip
    assert done.returncode == 9
    assert done.stdout.splitlines() in (["out sm_80", "out sm_90"], ["out sm_90"])


# --- dependencies


def test_depfile_text(installed: Installed, env: dict[str, str], work: Path) -> None:
    source = work / "a b#c$d.tileir"
    (work / "k.tileir").rename(source)
    ok(run([installed.shim, "-c", source.name, "-arch=sm_90", "-MD", "-MF", "x.d", "-MQ", "o ut$.o", "-o", "x.o"],
           work, env))  # fmt: skip
    escaped = source.name.replace(" ", "\\ ").replace("#", "\\#").replace("$", "$$")
    assert (work / "x.d").read_text() == f"o\\ ut$$.o : {escaped}\n"
    done = ok(run([installed.shim, "-M", source.name], work, env))
    assert done.stdout == f"a\\ b\\#c$$d.o : {escaped}\n"
    assert not (work / "a b#c$d.o").exists()


@pytest.mark.parametrize("tool", ["make", "ninja"])
def test_build_tools_rebuild_through_the_depfile(
    tool: str, installed: Installed, env: dict[str, str], work: Path
) -> None:
    if shutil.which(tool) is None:
        pytest.skip(f"needs {tool}")
    command = f"{installed.shim} -arch=sm_90 -MD -MF k.d -MT k.cubin -x cu -cubin k.tileir -o k.cubin"
    if tool == "make":
        (work / "Makefile").write_text(f"k.cubin:\n\t{command}\n-include k.d\n")
        build = ["make"]
    else:
        (work / "build.ninja").write_text(
            f"rule cc\n command = {command}\n depfile = k.d\n deps = gcc\nbuild k.cubin: cc\n"
        )
        build = ["ninja"]
    ok(run(build, work, env))
    first = (work / "k.cubin").stat().st_mtime_ns
    idle = ok(run(build, work, env)).stdout
    assert "no work to do" in idle or "up to date" in idle
    time.sleep(0.02)
    shutil.copy(BYTECODE / "axpy_f16.tilebc", work / "k.tileir")
    os.utime(work / "k.tileir")
    ok(run(build, work, env))
    assert (work / "k.cubin").stat().st_mtime_ns != first


# --- small things


def test_options_file_with_many_inputs(
    installed: Installed, env: dict[str, str], work: Path, tmp_path: Path
) -> None:
    for index in range(200):
        shutil.copy(work / "k.tileir", work / f"in {index}.tileir")
    (work / "options").write_text(
        "-cubin -arch=sm_90\n" + "\n".join(f'"in {index}.tileir"' for index in range(200))
    )
    text = 'while [ $# -gt 0 ]; do [ "$1" = -o ] && : > "$2"; shift; done\n'
    ok(run([with_build(installed, tmp_path, text), "-optf", "options"], work, env))
    assert len(list(work.glob("in *.cubin"))) == 200


def test_keep_time_and_clean(installed: Installed, env: dict[str, str], work: Path) -> None:
    (work / "kept").mkdir()
    line = [installed.shim, "-c", "k.tileir", "-arch=sm_90"]
    ok(run([*line, "--keep", "--keep-dir", "kept", "-time", "t.csv", "-MD"], work, env))
    assert {"k.sm_90.tile.cubin", "k.tile.fatbin", "k_tile.cpp", "k_tile.h"} <= {
        path.name for path in (work / "kept").iterdir()
    }
    rows = (work / "t.csv").read_text().splitlines()
    assert rows[0].startswith("source file name , phase name") and len(rows) == 5
    assert all(row.count(",") == 7 for row in rows)
    ok(run([*line, "-time", "t.csv"], work, env))
    assert (work / "t.csv").read_text().count("source file name") == 1
    ok(run([*line, "-MD", "-clean"], work, env))
    assert not (work / "k.o").exists() and not (work / "k.d").exists()


def test_an_output_that_is_no_file_is_written_into(
    installed: Installed, env: dict[str, str], work: Path
) -> None:
    line = [installed.shim, "-cubin", "k.tileir", "-arch=sm_90"]
    ok(run(line, work, env))
    image = (work / "k.cubin").read_bytes()
    os.mkfifo(
        work / "pipe"
    )  # stands for /dev/null and /dev/stdout: a rename over those would harm the machine
    reader = subprocess.Popen(["cat", "pipe"], cwd=work, stdout=subprocess.PIPE)
    ok(run([*line, "-o", "pipe"], work, env))
    assert reader.communicate(timeout=30)[0] == image
    assert stat.S_ISFIFO((work / "pipe").stat().st_mode)
    broken(work)
    assert run([*line, "-o", "pipe"], work, env).returncode == 3
    assert stat.S_ISFIFO((work / "pipe").stat().st_mode)
    shutil.copy(BYTECODE / "add_2d_f32.tilebc", work / "k.tileir")
    done = subprocess.run([*line, "-o", "-"], cwd=work, env=env, capture_output=True, check=True)
    assert done.stdout == image


def test_an_output_that_is_the_input_under_another_name(
    installed: Installed, env: dict[str, str], work: Path
) -> None:
    (work / "same.o").symlink_to("k.tileir")
    before = (work / "k.tileir").read_bytes()
    done = run([installed.shim, "-c", "k.tileir", "-arch=sm_90", "-o", "same.o"], work, env)
    assert done.returncode == 1 and "also an input file" in done.stderr
    assert (work / "k.tileir").read_bytes() == before


@pytest.mark.parametrize(
    "words",
    [("-MD", "-MF", "k.tileir"), ("--tileiras-header=./k.tileir",), ("-MMD", "-MF", "same.d")],
    ids=["depfile", "header", "link"],
)  # fmt: skip
def test_a_further_output_that_is_the_input(
    installed: Installed, env: dict[str, str], work: Path, words: tuple[str, ...]
) -> None:
    """It was removed as an output of an earlier run, or written over."""
    (work / "same.d").symlink_to("k.tileir")
    before = (work / "k.tileir").read_bytes()
    done = run([installed.shim, "-c", "k.tileir", "-arch=sm_90", "-o", "k.o", *words], work, env)
    assert done.returncode == 1 and "also an input file" in done.stderr
    assert (work / "k.tileir").read_bytes() == before and not (work / "k.o").exists()


def test_a_program_that_is_its_own_source(installed: Installed, env: dict[str, str], work: Path) -> None:
    (work / "main.cpp").write_text("int main() { return 0; }\n")
    before = {name: (work / name).read_bytes() for name in ("k.tileir", "main.cpp")}
    for name in before:
        done = run([installed.shim, "main.cpp", "k.tileir", "-arch=sm_90", "-o", name], work, env)
        assert done.returncode == 1 and "also an input file" in done.stderr
        assert {name: (work / name).read_bytes() for name in before} == before


def test_version_of_the_shim(installed: Installed) -> None:
    done = ok(run([installed.shim, "--tileiras-version"]))
    assert re.fullmatch(r"tileiras-nvcc \d+\.\d+\.\d+\S*\n", done.stdout)


@pytest.mark.parametrize("launcher", ["ccache", "sccache"])
def test_compiler_caches_in_front(
    launcher: str, installed: Installed, env: dict[str, str], work: Path
) -> None:
    if shutil.which(launcher) is None:
        pytest.skip(f"needs {launcher}")
    (work / "a.cu").write_text("__global__ void s(float* p) { p[0] = 1; }\n")
    env["CCACHE_DIR"] = str(work / "ccache")
    for source in ("a.cu", "k.tileir"):
        for _ in range(2):
            ok(run([launcher, installed.shim, "-arch=sm_90", "-c", source, "-o", "x.o"], work, env))
            assert (work / "x.o").read_bytes().startswith(b"\x7fELF")
