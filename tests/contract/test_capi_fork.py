"""libtileiras in server processes: they fork, and neither the parent nor the child may wait for the other."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from contract.kit import REPOSITORY, stub_ptxas
from contract.test_capi import CC

from tileiras.capi.build import build

pytestmark = [
    pytest.mark.skipif(CC is None, reason="needs a C compiler"),
    pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc"),
]

HEAD = """
import os, signal, sys, threading, time
from pathlib import Path
from contract.kit import BAD_EXTI, NOOP
from contract.test_capi import Library, children
signal.alarm(40)  # a deadlock ends the test
here = Path(sys.argv[1])
library = Library(here / "libtileiras-test.so")

def sockets():
    links = []
    for name in os.listdir("/proc/self/fd"):
        try:
            links.append(os.readlink(f"/proc/self/fd/{name}"))
        except OSError:
            pass
    return [link for link in links if link.startswith("socket:")]

def forked(work):
    child = os.fork()
    if child == 0:
        signal.alarm(80)
        status = 99
        try:
            status = work() or 0
        finally:
            os._exit(status)
    return child

def status_of(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
"""


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("capi")
    build(folder)
    return folder


def play(prefix: Path, tmp_path: Path, script: str, **environ: str) -> None:
    """Runs a host program in Python. What it leaves in the background ends with the pipe on its standard input."""
    shutil.copyfile(prefix / "lib" / "libtileiras.so", tmp_path / "libtileiras-test.so")
    env = {**os.environ, "PYTHONPATH": f"{REPOSITORY}:{REPOSITORY}/tests", **environ}
    words = [sys.executable, "-c", HEAD + script, str(tmp_path)]
    with open(tmp_path / "said", "wb") as said:
        host = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=said, stderr=said, env=env)
        try:
            status = host.wait(timeout=120)
        finally:
            host.kill()
            assert host.stdin is not None
            host.stdin.close()
    assert status == 0, (tmp_path / "said").read_text()


def test_the_parents_exit_does_not_wait_for_a_daemon(prefix: Path, tmp_path: Path) -> None:
    """The child holds what the parent had open, and outlives it; it is past the fork handlers, too."""
    play(prefix, tmp_path, """
assert library.compile(NOOP)[0] == 0 and len(children()) == 1
before = sockets()
assert before
def daemon():
    assert not sockets(), sockets()
    os.setsid()
    sys.stdin.buffer.read()  # until the test lets go
daemon = forked(daemon)
# A copy of the socket in a process that no handler could tell: clone() without them.
import ctypes
if ctypes.CDLL(None).syscall(56 if os.uname().machine == "x86_64" else 220, 17, 0, 0, 0, 0) == 0:
    while True:
        time.sleep(0.1)
        try:
            os.kill(os.getppid(), 0)
        except OSError:
            pass
        if os.getppid() == 1 or not Path(f"/proc/{daemon}").exists():
            ctypes.CDLL(None)._exit(0)
""")  # fmt: skip


def test_replacing_a_worker_does_not_wait_for_a_child(prefix: Path, tmp_path: Path) -> None:
    """After 500 requests a worker is ended and reaped, whatever children are about."""
    worker = tmp_path / "worker"
    worker.write_text(f"""#!/bin/sh
"exec" "{sys.executable}" "$0" "$@"
import os, struct
def read(n):
    data = b""
    while len(data) < n:
        part = os.read(0, n - len(data))
        if not part:
            os._exit(0)
        data += part
    return data
os.write(1, struct.pack("<I", 9) + b"H" + b"TILEIRAS1")
while True:
    size, kind = struct.unpack("<Ic", read(5))
    read(size)
    os.write(1, struct.pack("<Ic", 0, b"A") + struct.pack("<Ici", 4, b"R", 0))
""")
    worker.chmod(0o755)
    play(prefix, tmp_path, """
assert library.compile(NOOP)[0] == 0
(first,) = children()
child = forked(lambda: sys.stdin.buffer.read() and 0)
for _ in range(250):
    assert library.compile(NOOP)[0] == 0
assert first not in children()
""", TILEIRAS_COMMAND=str(worker))  # fmt: skip


def test_a_fork_during_another_threads_compile(prefix: Path, tmp_path: Path) -> None:
    """The child may use every program, the one that was being compiled as well, and has a worker of its own."""
    mark = tmp_path / "started"
    stub_ptxas(
        tmp_path,
        f'if [ ! -e "{mark}" ]; then : > "{mark}"; while [ ! -e "{mark}.go" ]; do sleep 0.05; done; fi; '
        'printf "\\177ELF image"',
    )
    play(prefix, tmp_path, """
code, ready = library.create(NOOP)
code, slow = library.create(NOOP)
assert library.c.tileirasProgramCompile(None) == 4
codes = []
thread = threading.Thread(target=lambda: codes.append(library.c.tileirasProgramCompile(slow)))
thread.start()
while not (here / "started").exists():
    time.sleep(0.02)
workers = children()
def child():
    assert not sockets()
    assert library.c.tileirasProgramCompile(slow) == 0
    assert library.output(slow) == (0, b"\\x7fELF image")
    assert library.c.tileirasProgramCompile(ready) == 0
    assert library.compile(NOOP)[0] == 0
    assert len(children()) == 1 and not children() & workers
    import ctypes
    assert library.c.tileirasProgramRelease(ctypes.byref(slow)) == 0
assert status_of(forked(child)) == 0
# A waiting thread, too: what it waited for is not there in the child.
waiting = threading.Thread(target=lambda: codes.append(library.c.tileirasProgramCompile(slow)))
waiting.start()
time.sleep(0.1)
assert status_of(forked(child)) == 0
(here / "started.go").touch()
thread.join()
waiting.join()
assert codes == [0, 0] and library.output(slow) == (0, b"\\x7fELF image")
""", TILEIRAS_TOOLKIT_ROOT=str(tmp_path))  # fmt: skip


def test_a_callback_that_forks(prefix: Path, tmp_path: Path) -> None:
    """In the child the call around the callback ends with code 5; the parent's goes on as if nothing had been."""
    play(prefix, tmp_path, """
pid = os.getpid()
found = []
def fork(record):
    library.on_diagnostic = None
    child = os.fork()
    if child:
        found.append(child)
        os.waitpid(child, os.WNOHANG)
code, handle = library.create(BAD_EXTI)
library.on_diagnostic = fork
code = library.c.tileirasProgramCompile(handle)
if os.getpid() != pid:
    status = 99
    try:
        assert code == 5 and "the compiler process died" in library.said[-2][1], library.said
        assert library.compile(NOOP)[0] == 0
        status = 0
    finally:
        os._exit(status)
assert code == 5 and not any("died" in text for _, text in library.said)
assert status_of(found[0]) == 0
assert library.compile(NOOP)[0] == 0
""")  # fmt: skip


def test_forks_and_threads_at_random(prefix: Path, tmp_path: Path) -> None:
    """Threads that start workers while others fork: no child is born with both ends of a socket, none hangs."""
    play(prefix, tmp_path, """
failures = []
def compile_some():
    for _ in range(3):
        if library.compile(NOOP)[0] != 0:
            failures.append("compile")
threads = [threading.Thread(target=compile_some) for _ in range(3)]
for thread in threads:
    thread.start()
born = []
while any(thread.is_alive() for thread in threads) and len(born) < 40:
    born.append(forked(lambda: len(sockets())))
    time.sleep(0.01)
for thread in threads:
    thread.join()
assert not failures and not any([status_of(child) for child in born])
""")  # fmt: skip
