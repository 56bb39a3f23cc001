"""Runs another program: empty stdin, captured streams, time-out, shell-style exit status.

Built on ``os.posix_spawn`` because importing ``subprocess`` costs more than a small compile.  Both streams
are captured in anonymous files, not pipes: the child can never block on a full pipe, a grandchild that keeps
a stream open cannot keep us waiting, and nothing is left on disk whatever dies.  The child leads a process
group of its own, so that a time-out or a signal to us ends the tools it started as well.  On Linux that holds for
SIGKILL too, by which cuTile ends a compiler that takes too long, and which we cannot answer: see `_Leash`.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# Each of these redirects where NVIDIA's tools look for their siblings: two shells must
# not give two answers, so no tool of ours sees the caller's.
SCRUBBED = ("CUDA_ROOT", "CUDA_HOME", "CUDA_PATH")

MISSING_TOOL = 127


class Finished:
    """How a program ended. `status` is its exit code, 128+n for signal n, 127 when it could not be
    started."""

    __slots__ = ("error", "signal", "status", "stderr", "stdout", "timed_out")

    def __init__(
        self,
        status: int,
        stdout: bytes = b"",
        stderr: bytes = b"",
        signal: int = 0,
        timed_out: bool = False,
        error: str = "",
    ) -> None:
        self.status = status
        self.stdout = stdout
        self.stderr = stderr
        self.signal = signal
        self.timed_out = timed_out
        self.error = error  # why it could not be started

    def how(self) -> str:
        """The ending in words: "exit status 255", "killed by signal 9 (SIGKILL)", "timed out"."""
        if self.error:
            return self.error
        if self.timed_out:
            return "timed out"
        if self.signal:
            return f"killed by signal {self.signal} ({signal_name(self.signal)})"
        return f"exit status {self.status}"


def signal_name(number: int) -> str:
    """ "SIGKILL" for 9; the number itself where this system has no name for it."""
    import signal

    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)


def scrubbed_environment(
    cuda_root: str | None = None, environ: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The caller's environment without the variables that redirect NVIDIA's tools; CUDA_ROOT set when
    asked."""
    env = dict(os.environ if environ is None else environ)
    for name in SCRUBBED:
        env.pop(name, None)
    if cuda_root:
        env["CUDA_ROOT"] = cuda_root
    return env


def anonymous_file(name: str) -> int:
    """A descriptor of a nameless, growing file, above 2 so that it can be moved onto a standard stream."""
    if hasattr(os, "memfd_create"):
        try:
            return _above_stdio(os.memfd_create(name))
        except OSError:  # a sandbox may forbid it
            pass
    import tempfile

    with tempfile.TemporaryFile() as file:
        return _above_stdio(os.dup(file.fileno()))


def _above_stdio(fd: int) -> int:
    if fd > 2:
        return fd
    import fcntl

    moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)
    os.close(fd)
    return moved


def read_all(fd: int) -> bytes:
    """Everything in an anonymous file, from its start."""
    size = os.fstat(fd).st_size
    parts = []
    offset = 0
    while offset < size:
        part = os.pread(fd, size - offset, offset)
        if not part:
            break
        parts.append(part)
        offset += len(part)
    return b"".join(parts)


def write_all(fd: int, data: bytes) -> None:
    """Writes all of `data`, however many calls that takes."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def run(
    argv: Sequence[str],
    *,
    timeout: float | None = None,
    env: Mapping[str, str] | None = None,
    stdin: int | None = None,
    stdout: int | None = None,
    cwd: str | None = None,
) -> Finished:
    """Runs `argv` (its first word is a path) to the end and returns how it ended, with what it wrote.

    `stdin` and `stdout` are descriptors to use instead of nothing and of a capture.  Never raises for
    anything the child does; KeyboardInterrupt and the like end the child first and then pass on.
    """
    env = scrubbed_environment() if env is None else env
    if not hasattr(os, "posix_spawn") or cwd is not None:
        return _run_by_subprocess(argv, timeout, env, stdin, stdout, cwd)
    err = anonymous_file("stderr")
    out = anonymous_file("stdout") if stdout is None else stdout
    leash = _Leash()
    try:
        actions: list[tuple] = [(os.POSIX_SPAWN_DUP2, out, 1), (os.POSIX_SPAWN_DUP2, err, 2)]
        if stdin is None:
            actions.insert(0, (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0))
        else:
            actions.insert(0, (os.POSIX_SPAWN_DUP2, stdin, 0))
        pid = 0
        timed_out = False
        # A signal between the start of the child and the note of its number would leave it running.
        held = _hold_signals()
        try:
            # Python ignores SIGPIPE and SIGXFSZ; a child that inherited that would misreport a full disk.
            pid = os.posix_spawn(
                argv[0],
                list(argv),
                env,
                file_actions=actions,
                setpgroup=0,
                setsigmask=held,
                setsigdef=_reset_signals(),
            )
            leash.tie(pid)
            _release_signals(held)
            status = _wait(pid, timeout)
            if status is None:
                timed_out = True
                status = _end(pid)
        except OSError as error:
            _release_signals(held)
            if pid:
                raise
            return Finished(MISSING_TOOL, error=error.strerror or str(error))
        except BaseException:
            _release_signals(held)
            if pid:
                _end(pid)
            raise
        captured = read_all(out) if stdout is None else b""
        said = read_all(err)
    finally:
        leash.drop()
        os.close(err)
        if stdout is None:
            os.close(out)
    if timed_out:
        return Finished(124, captured, said, timed_out=True)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return Finished(128 + number, captured, said, signal=number)
    return Finished(os.WEXITSTATUS(status), captured, said)


STDIN = "/dev/stdin"


def run_on(argv: Sequence[str], data: bytes) -> Finished:
    """How `argv` ended with the path of a file behind it that holds `data`: one without a name, so that nothing of it is left
    whatever ends this process, also in a thread that nobody waits for."""
    if hasattr(os, "memfd_create") and os.path.exists(STDIN):
        source = anonymous_file("input")
        try:
            write_all(source, data)
            os.lseek(source, 0, 0)
            return run([*argv, STDIN], stdin=source)
        finally:
            os.close(source)
    import tempfile

    with tempfile.TemporaryDirectory(prefix="tileiras-") as folder:
        path = os.path.join(folder, "input")
        with open(path, "wb") as file:
            file.write(data)
        return run([*argv, path])


class _Leash:
    """Ends the child's process group when this process is gone, whatever ended it. Does nothing where it cannot.

    A pipe whose reading end the child holds, unread, and whose writing end only we hold: with our death it closes, and
    the kernel signals the owner of the reading end, the group. (prctl's PDEATHSIG has to be set in the child, between
    fork and exec: a fork of Python costs more than this.)

    The group has no number before the child is there: SIGKILL in the microseconds until `tie` leaves it running.
    """

    __slots__ = ("_ours", "_theirs")

    def __init__(self) -> None:
        self._ours = self._theirs = -1
        if sys.platform == "linux":
            try:
                self._theirs, self._ours = os.pipe()
                os.set_inheritable(self._theirs, True)
            except OSError:  # no descriptor left: the start of the child will say so, or can do without
                pass

    def tie(self, pid: int) -> None:
        """Names the group that `pid` leads as the owner."""
        if self._theirs < 0:
            return
        import _signal
        import fcntl

        try:
            os.set_inheritable(self._theirs, False)
            fcntl.fcntl(self._theirs, fcntl.F_SETSIG, _signal.SIGKILL)
            fcntl.fcntl(self._theirs, fcntl.F_SETOWN, -pid)
            fcntl.fcntl(self._theirs, fcntl.F_SETFL, os.O_RDONLY | os.O_ASYNC)
        except OSError:  # a sandbox may forbid it
            pass

    def drop(self) -> None:
        """The child is over; what it left in the background, such as a compiler cache's server, may go on."""
        if self._theirs < 0:
            return
        import fcntl

        try:
            fcntl.fcntl(self._theirs, fcntl.F_SETFL, os.O_RDONLY)
        except OSError:
            pass
        os.close(self._theirs)
        os.close(self._ours)
        self._ours = self._theirs = -1


def _hold_signals() -> set[int]:
    """Delays the signals that end a program; returns what was delayed before."""
    import _signal

    return _signal.pthread_sigmask(_signal.SIG_BLOCK, {_signal.SIGTERM, _signal.SIGINT, _signal.SIGHUP})


def _release_signals(held: set[int]) -> None:
    import _signal

    _signal.pthread_sigmask(_signal.SIG_SETMASK, held)


def _reset_signals() -> list[int]:
    # _signal is the built-in half of `signal`; the module itself builds three enums when imported.
    import _signal

    return [getattr(_signal, name) for name in ("SIGPIPE", "SIGXFSZ") if hasattr(_signal, name)]


def _wait(pid: int, timeout: float | None) -> int | None:
    """The wait status of `pid`, or None when `timeout` seconds pass first."""
    if timeout is None:
        return os.waitpid(pid, 0)[1]
    if hasattr(os, "pidfd_open"):
        try:
            fd = os.pidfd_open(pid)
        except OSError:
            fd = -1
        if fd >= 0:
            import select

            try:
                poll = select.poll()
                poll.register(fd, select.POLLIN)
                if not poll.poll(max(0, timeout) * 1000):
                    return None
            finally:
                os.close(fd)
            return os.waitpid(pid, 0)[1]
    import time

    end = time.monotonic() + timeout
    pause = 0.001
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return status
        left = end - time.monotonic()
        if left <= 0:
            return None
        time.sleep(min(pause, left))
        pause = min(pause * 2, 0.02)


def _end(pid: int) -> int:
    """Kills the child's whole group and reaps the child."""
    import _signal

    for target in (-pid, pid):
        try:
            os.kill(target, _signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
    try:
        return os.waitpid(pid, 0)[1]
    except ChildProcessError:
        return 0


def _run_by_subprocess(
    argv: Sequence[str],
    timeout: float | None,
    env: Mapping[str, str],
    stdin: int | None,
    stdout: int | None,
    cwd: str | None,
) -> Finished:
    """The same where posix_spawn is missing (Windows) or cannot serve (a working directory)."""
    import subprocess

    try:
        child = subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL if stdin is None else stdin,
            stdout=subprocess.PIPE if stdout is None else stdout,
            stderr=subprocess.PIPE,
            env=dict(env),
            cwd=cwd,
            start_new_session=sys.platform != "win32",
        )
    except OSError as error:
        return Finished(MISSING_TOOL, error=error.strerror or str(error))
    try:
        out, err = child.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        _end_popen(child)
        out, err = child.communicate()
        return Finished(124, out or b"", err or b"", timed_out=True)
    except BaseException:
        _end_popen(child)
        child.wait()
        raise
    if child.returncode < 0:
        return Finished(128 - child.returncode, out or b"", err or b"", signal=-child.returncode)
    return Finished(child.returncode, out or b"", err or b"")


def _end_popen(child) -> None:  # type: ignore[no-untyped-def]
    if sys.platform == "win32":
        child.kill()
        return
    import _signal

    try:
        os.killpg(child.pid, _signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        child.kill()
