"""libtileiras in hosts as they are: without standard streams, reaping every child, forking, in a folder that is gone."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from contract.kit import NOOP, REPOSITORY, run, stub_ptxas
from contract.test_capi import CC, Library, children

from tileiras.capi.build import build

pytestmark = pytest.mark.skipif(CC is None, reason="needs a C compiler")

STATES = ["plain", "closed", "no-stderr", "no-stdin", "sigchld-ignored", "sigchld-reaped", "signals-blocked",
          "folder-removed", "no-environment", "few-descriptors", "forks", "no-leak"]  # fmt: skip


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An installation under a name that needs quoting everywhere."""
    folder = tmp_path_factory.mktemp("capi") / "with blank \u00fc $HOME"
    build(folder)
    return folder


@pytest.fixture(scope="module")
def host(prefix: Path) -> Path:
    program = prefix / "host"
    source = str(Path(__file__).with_name("capi_host.c"))
    library = prefix / "lib"
    words = [
        "-Wall",
        "-Wextra",
        "-Werror",
        "-pthread",
        f"-I{prefix}/include",
        source,
        f"-L{library}",
        "-ltileiras",
    ]
    subprocess.run([str(CC), *words, "-o", str(program)], check=True)
    return program


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
@pytest.mark.parametrize("state", STATES)
def test_a_host(state: str, host: Path, prefix: Path, tmp_path: Path) -> None:
    (tmp_path / "k.tileir").write_text(NOOP)
    environment = {"PYTHONPATH": "", "LD_LIBRARY_PATH": str(prefix / "lib")}
    done = run([str(host), state, "k.tileir"], tmp_path, environment)
    assert (done.status, done.out, done.err) == (0, "", "")
    assert run([str(host), "no such state", "k.tileir"], tmp_path, environment).status == 4


def test_pkg_config_quotes(prefix: Path, tmp_path: Path) -> None:
    pkg_config = shutil.which("pkg-config")
    if pkg_config is None:
        pytest.skip("needs pkg-config")
    folder = tmp_path / "with blank"
    shutil.copytree(prefix, folder, symlinks=True)
    (tmp_path / "host.c").write_text(
        "#include <tileiras.h>\nint main(void) { return tileirasProgramCompile(0) != 4; }\n"
    )
    words = (
        f"eval cc=$CC; eval $cc host.c $({pkg_config} --cflags --libs tileiras) -o host && ./host 2>/dev/null"
    )
    environment = {
        "CC": str(CC), "PKG_CONFIG_PATH": str(folder / "lib" / "pkgconfig"), "LD_LIBRARY_PATH": str(folder / "lib"),
    }  # fmt: skip
    done = run(["sh", "-c", words], tmp_path, environment)
    assert done.status == 0, done.err


def test_a_compiler_with_a_blank_in_its_path(tmp_path: Path) -> None:
    cc = tmp_path / "my tools" / "cc"
    cc.parent.mkdir()
    cc.symlink_to(str(CC))
    build(tmp_path / "one", cc=str(cc))
    build(tmp_path / "two", cc=f"env {CC}")
    assert all((tmp_path / name / "lib" / "libtileiras.so").exists() for name in ("one", "two"))


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT])
def test_the_worker_is_killed_while_it_compiles(
    number: signal.Signals, prefix: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The real worker, in the middle of ptxas: code 5, the signal is named, the next compile is as good as new."""
    mark = tmp_path / "bin" / "started"
    once = f'if [ ! -e "{mark}" ]; then echo $$ > "{mark}"; exec sleep 60; fi; printf "\\177ELF image"'
    stub_ptxas(tmp_path, once)
    monkeypatch.setenv("TILEIRAS_TOOLKIT_ROOT", str(tmp_path))
    copy = tmp_path / "libtileiras-test.so"
    shutil.copyfile(prefix / "lib" / "libtileiras.so", copy)
    library = Library(copy)
    codes: list[int] = []
    before = children()
    thread = threading.Thread(target=lambda: codes.append(library.compile(NOOP)[0]))
    thread.start()
    deadline = time.monotonic() + 60
    while not mark.exists() or not mark.read_text().endswith("\n"):
        assert thread.is_alive() and time.monotonic() < deadline
        time.sleep(0.02)
    (worker,) = children() - before
    os.kill(worker, number)
    thread.join()
    os.kill(int(mark.read_text()), signal.SIGKILL)
    assert codes == [5]
    assert [text for _, text in library.said] == [
        f"error: the compiler process died (killed by signal {int(number)})", "error: failed to compile Tile IR program",
    ]  # fmt: skip
    assert library.compile(NOOP) == (0, b"\x7fELF image") and len(library.said) == 2


def test_unloading_leaves_no_child(prefix: Path, tmp_path: Path) -> None:
    """dlclose ends the idle workers and reaps them."""
    script = (
        "import ctypes, os, _ctypes\n"
        "from contract.test_capi import Library, children\n"
        "from contract.kit import NOOP\n"
        "from pathlib import Path\n"
        f"library = Library(Path({str(prefix / 'lib' / 'libtileiras.so')!r}))\n"
        "assert library.compile(NOOP)[0] == 0 and len(children()) == 1\n"
        "_ctypes.dlclose(library.c._handle)\n"
        "assert not children(), children()\n"
    )
    done = run([sys.executable, "-c", script], tmp_path, {"PYTHONPATH": f"{REPOSITORY}:{REPOSITORY}/tests"})
    assert done.status == 0, done.err
