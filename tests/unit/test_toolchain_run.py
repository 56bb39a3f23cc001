"""The harness that runs other programs: streams, endings, time-outs, environment, clean-up."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.processes import holds_a_leash
from tileiras.toolchain import run as harness
from tileiras.toolchain.run import Finished, run, scrubbed_environment


def sh(text: str, **options: object) -> Finished:
    return run(["/bin/sh", "-c", text], **options)  # type: ignore[arg-type]


@pytest.fixture(params=["posix_spawn", "subprocess"])
def both_ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs a test over both implementations: the second serves systems without posix_spawn."""
    if request.param == "subprocess":
        monkeypatch.delattr(os, "posix_spawn")


@pytest.mark.usefixtures("both_ways")
class TestEnding:
    def test_streams_and_status(self) -> None:
        done = sh("echo out; echo err >&2; exit 7")
        assert (done.status, done.stdout, done.stderr) == (7, b"out\n", b"err\n")
        assert done.how() == "exit status 7"

    def test_stdin_is_empty(self) -> None:
        assert sh("cat; echo end").stdout == b"end\n"

    @pytest.mark.parametrize("name", ["KILL", "TERM", "SEGV"])
    def test_signal(self, name: str) -> None:
        number = getattr(signal, "SIG" + name)
        done = sh(f"kill -{name} $$")
        assert (done.status, done.signal) == (128 + number, number)
        assert f"SIG{name}" in done.how()

    def test_missing_and_not_executable(self, tmp_path: Path) -> None:
        plain = tmp_path / "tool"
        plain.write_text("x")
        for path in (tmp_path / "nowhere", plain):
            done = run([str(path)])
            assert done.status == 127
            assert done.how()

    def test_output_larger_than_any_pipe(self) -> None:
        done = sh("head -c 3000000 /dev/zero; head -c 2000000 /dev/zero >&2")
        assert (len(done.stdout), len(done.stderr)) == (3000000, 2000000)

    def test_time_out_ends_the_whole_group(self, tmp_path: Path) -> None:
        mark = tmp_path / "pid"
        done = sh(f"echo before; sleep 60 & echo $! > {mark}; wait", timeout=0.5)
        assert done.timed_out and done.how() == "timed out"
        assert done.status == 124
        pid = int(mark.read_text())
        for _ in range(100):  # the orphan is reaped by init, not by us
            if not _alive(pid):
                break
            time.sleep(0.05)
        assert not _alive(pid)

    def test_within_the_time_out(self) -> None:
        assert sh("exit 3", timeout=60).status == 3


def _alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_stream_held_open_by_a_grandchild_does_not_keep_us_waiting() -> None:
    done = sh("sleep 30 & echo done")
    assert done.stdout == b"done\n"


def test_time_out_without_pidfd(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    assert sh("exit 4", timeout=30).status == 4
    assert sh("sleep 30", timeout=0.1).timed_out


def test_without_memfd(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "memfd_create", raising=False)
    assert sh("echo out; echo err >&2").stderr == b"err\n"


def test_environment_is_scrubbed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in harness.SCRUBBED:
        monkeypatch.setenv(name, "/wrong")
    monkeypatch.setenv("KEPT", "yes")
    done = run(["/usr/bin/env"])
    lines = done.stdout.decode().splitlines()
    assert "KEPT=yes" in lines
    assert not [line for line in lines if line.startswith("CUDA_")]
    assert scrubbed_environment("/root")["CUDA_ROOT"] == "/root"


def test_signals_that_python_ignores_are_reset_for_the_child() -> None:
    # Python ignores SIGPIPE; a child that inherited that would not die of it.
    assert sh("yes | head -1 >/dev/null; kill -PIPE $$; exit 0").signal == signal.SIGPIPE


def test_an_interrupt_ends_the_child(tmp_path: Path, repository: Path) -> None:
    mark = tmp_path / "pid"
    code = (
        f"import sys; sys.path.insert(0, {str(repository)!r})\n"
        "from tileiras.toolchain.run import run\n"
        f"run(['/bin/sh', '-c', 'echo $$ > {mark}.new; mv {mark}.new {mark}; exec sleep 60'])"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL)
    while not mark.exists():
        assert parent.poll() is None
        time.sleep(0.02)
    parent.send_signal(signal.SIGINT)
    assert parent.wait(timeout=30) != 0
    assert not _alive(int(mark.read_text()))


@pytest.mark.skipif(sys.platform != "linux", reason="signals of a pipe that closes are Linux's")
def test_nothing_outlives_a_killed_caller(tmp_path: Path, repository: Path) -> None:
    """cuTile kills a compiler that takes too long by SIGKILL: ptxas, and what it started, must end with it."""
    script = f"echo $$ > {tmp_path}/child; sleep 60 & echo $! > {tmp_path}/half; mv {tmp_path}/half {tmp_path}/pid; wait"
    code = f"from tileiras.toolchain.run import run; run(['/bin/sh', '-c', {script!r}])"
    caller = subprocess.Popen([sys.executable, "-c", code], cwd=repository)
    end = time.monotonic() + 30
    while not (tmp_path / "pid").exists() and time.monotonic() < end:
        time.sleep(0.01)
    pids = [int((tmp_path / name).read_text()) for name in ("child", "pid")]
    # On a busy machine the child may have come this far before its number has reached the caller.
    while not holds_a_leash(caller.pid) and time.monotonic() < end:
        time.sleep(0.01)
    assert holds_a_leash(caller.pid)
    assert all(map(_alive, pids))
    caller.kill()
    caller.wait()
    while any(map(_alive, pids)) and time.monotonic() < end:
        time.sleep(0.01)
    assert not any(map(_alive, pids))


def test_what_a_child_leaves_in_the_background_goes_on(tmp_path: Path) -> None:
    done = sh(f"(while [ ! -e {tmp_path}/go ]; do sleep 0.02; done; : > {tmp_path}/done) & echo $!")
    pid = int(done.stdout)
    assert done.status == 0
    (tmp_path / "go").touch()
    end = time.monotonic() + 30
    while not (tmp_path / "done").exists() and time.monotonic() < end:
        time.sleep(0.01)
    assert (tmp_path / "done").exists(), f"{pid} was ended"
