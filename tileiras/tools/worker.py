"""The build command as Bazel runs it: one shot, or as a persistent worker.

    tile-build @FILE                        one argument a line in FILE, then exit
    tile-build --persistent_worker          WorkRequest messages on stdin, WorkResponse messages on stdout

The protocol is the length-delimited protocol-buffer one, which every Bazel speaks without a flag; `worker_wire`
has the few fields. A worker answers each request in a child of its own, forked from a process that has the
compiler loaded: nothing of one request can reach another, requests may overlap (multiplex), one can be cancelled by
ending its child, and a compiler that crashes takes no other with it. Modules that a child had to import are loaded
by the worker afterwards, so the second request starts warm.

Bazel 4 and 5 do not restart a multiplex worker when its tool's files change. So each request first compares the files of
the loaded modules with what they were when they were loaded; after a change it is carried out by a fresh interpreter.

Only responses go to stdout; whatever a request prints, on either stream, is the text of its response.
"""

from __future__ import annotations

import os
import sys

from tileiras.diag import Catalogue, Refusal, UsageError
from tileiras.tools import worker_wire as wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

diags = Catalogue("tileiras.tools.diags")

FLAG = "--persistent_worker"


def refuse(refusal: Refusal, command: str) -> int:
    from tileiras.tools import bazel_actions

    return bazel_actions.refuse(refusal, command)


def main(argv: list[str]) -> int:
    """Returns the exit code of one build command, or of a worker's life."""
    if FLAG in argv:
        startup = [word for word in argv if word != FLAG]
        return serve(run_request, startup)
    from tileiras.tools.bazel_actions import expand_parameter_files

    try:
        words = expand_parameter_files(argv)
    except UsageError as error:
        return refuse(error, "tile-build")
    return run_request(words)


def run_request(words: list[str]) -> int:
    """Returns the exit code of one build command in this process."""
    from tileiras.tools.bazel_actions import run_action

    return run_action(words)


class _Loaded:
    """What the files behind the loaded modules, and the interpreter, looked like when they were loaded."""

    __slots__ = ("_marks",)

    def __init__(self) -> None:
        self._marks: dict[str, tuple[int, ...] | None] = {}
        self.note()

    def note(self) -> None:
        """Takes in modules that were loaded since."""
        paths = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
        for path in (sys.executable, *paths):
            if path and path not in self._marks:
                self._marks[path] = _mark(path)

    def is_stale(self) -> bool:
        """Whether one of the files is another one by now."""
        return any(_mark(path) != mark for path, mark in self._marks.items())


def _mark(path: str) -> tuple[int, ...] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


class _Job:
    """A request under way: its child, the pipe with the child's output, and what was read of it."""

    __slots__ = ("cancelled", "modules_fd", "names", "output", "output_fd", "pid", "request_id")

    def __init__(self, request_id: int, pid: int, output_fd: int, modules_fd: int) -> None:
        self.request_id = request_id
        self.pid = pid
        self.output_fd = output_fd
        self.modules_fd = modules_fd
        self.output = bytearray()
        self.names = bytearray()
        self.cancelled = False


def serve(
    run: Callable[[list[str]], int], startup: list[str], source: int = 0, sink: int | None = None
) -> int:
    """Answers requests from descriptor `source` on `sink` (default: stdout) until `source` ends; returns 0.

    Errors: 1 when the stream is not the worker protocol (what was said on it so far is answered).
    """
    if sink is None:
        # Stray prints must not reach the channel: from here on descriptor 1 is the log.
        sink = os.dup(1)
        os.dup2(2, 1)
    if not hasattr(os, "fork"):
        return _serve_by_processes(startup, source, sink)
    import select
    import signal

    die_with_parent = _parent_death_signal()
    loaded = _Loaded()
    _preload(["tileiras.tools.bazel_actions", "tileiras.tools.build"], loaded)
    program = os.path.abspath(sys.argv[0])  # a request may change the working directory
    reader = wire.Reader()
    jobs: dict[int, _Job] = {}  # by each of its two descriptors
    open_input = True
    status = 0

    def end(job: _Job) -> None:
        try:
            os.killpg(job.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            try:
                os.kill(job.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def on_term(_signal: int, _frame: object) -> None:
        for job in set(jobs.values()):
            end(job)
        os._exit(143)

    signal.signal(signal.SIGTERM, on_term)
    while open_input or jobs:
        ready, _, _ = select.select([*([source] if open_input else []), *jobs], [], [])
        for descriptor in ready:
            if descriptor == source and open_input:
                data = os.read(source, 1 << 16)
                if not data:
                    open_input = False
                    # Bazel has gone: nobody will read the answers, and late outputs would be stale files.
                    for job in set(jobs.values()):
                        end(job)
                    continue
                try:
                    requests = reader.feed(data)
                except wire.WireError as error:
                    refuse(UsageError(diags.BZL_BAD_REQUEST, what=error), "tile-build worker")
                    open_input = False
                    status = 1
                    continue
                for request in requests:
                    if request.cancel:
                        for job in set(jobs.values()):
                            if job.request_id == request.request_id and not job.cancelled:
                                job.cancelled = True
                                end(job)
                        continue
                    fresh = program if loaded.is_stale() else ""
                    job = _start(run, startup, request, sink, source, jobs, die_with_parent, fresh)
                    jobs[job.output_fd] = jobs[job.modules_fd] = job
            elif descriptor in jobs:
                _drain(descriptor, jobs, sink, loaded)
    return status


def _start(
    run: Callable[[list[str]], int],
    startup: list[str],
    request: wire.WorkRequest,
    sink: int,
    source: int,
    jobs: dict[int, _Job],
    die_with_parent: Callable[[], None],
    fresh: str,
) -> _Job:
    """Forks the child that carries out `request`; `fresh` is the program to start anew for it, or empty."""
    output_read, output_write = os.pipe()
    modules_read, modules_write = os.pipe()
    parent = os.getpid()
    pid = os.fork()
    if pid:
        os.close(output_write)
        os.close(modules_write)
        try:
            os.setpgid(
                pid, pid
            )  # the child does the same; whoever comes first, a cancellation finds the group
        except OSError:
            pass
        if request.verbosity > 0:
            sys.stderr.write(f"tile-build worker: request {request.request_id} in process {pid}\n")
            sys.stderr.flush()
        return _Job(request.request_id, pid, output_read, modules_read)
    code = 1
    try:
        import signal

        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.setpgid(0, 0)
        die_with_parent()
        if os.getppid() != parent:
            os._exit(1)  # the worker died between fork and here
        for descriptor in (output_read, modules_read, sink, *([source] if source != 0 else []), *jobs):
            os.close(descriptor)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.dup2(output_write, 1)
        os.dup2(output_write, 2)
        os.close(output_write)
        os.close(null)
        known = set(sys.modules)
        words = [*startup, *request.arguments]
        problem = _enter(request)
        if problem:
            raise SystemExit(refuse(UsageError(diags.BZL_BAD_REQUEST, what=problem), "tile-build"))
        if fresh:
            escaped = ["@" + word if word.startswith("@") else word for word in words]
            os.execv(sys.executable, [sys.executable, "-I", "-S", "-B", "-u", fresh, *escaped])
        code = run(words)
        names = [name for name in sys.modules if name not in known and _loadable(name)]
        with os.fdopen(modules_write, "w", encoding="utf-8") as channel:
            channel.write("\n".join(names))
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except BaseException as error:  # the child must never return into the worker's loop
        import traceback

        traceback.print_exception(type(error), error, error.__traceback__)
        code = 1
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)
    raise AssertionError("unreachable")


def _enter(request: wire.WorkRequest) -> str:
    """Makes the request's folder the working directory; what is wrong with the request, or empty."""
    for word in request.arguments:
        if "\0" in word:
            return f"an argument has a NUL byte in it: {word[:80]!r}"
    try:
        if request.sandbox_dir:
            os.chdir(request.sandbox_dir)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "it has a NUL byte in it"
        return f"the folder of the request cannot be entered: {request.sandbox_dir[:200]!r}: {why}"
    return ""


def _drain(descriptor: int, jobs: dict[int, _Job], sink: int, loaded: _Loaded) -> None:
    """Reads what a child wrote; answers the request when both of its pipes have ended."""
    job = jobs[descriptor]
    data = os.read(descriptor, 1 << 16)
    if data:
        (job.output if descriptor == job.output_fd else job.names).extend(data)
        return
    os.close(descriptor)
    del jobs[descriptor]
    if job in (
        jobs.get(job.output_fd),
        jobs.get(job.modules_fd),
    ):  # a closed number may be a later job's by now
        return
    _, status = os.waitpid(job.pid, 0)
    text = job.output.decode("utf-8", "replace")
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        if not job.cancelled:
            text += f"tile-build: ended by signal {-code}\n"
        code = 128 - code
    response = wire.WorkResponse(code, text, job.request_id, job.cancelled)
    try:
        _write_all(sink, wire.encode_response(response))
    except BrokenPipeError:
        return  # Bazel has gone
    if code == 0 and not job.cancelled:
        _preload(job.names.decode("utf-8").split("\n"), loaded)


def _loadable(name: str) -> bool:
    """Whether the worker may load a module that a child needed: ours or Python's, never a user's."""
    top = name.partition(".")[0]
    return top == "tileiras" or top in sys.stdlib_module_names


def _preload(names: list[str], loaded: _Loaded) -> None:
    import gc
    import importlib

    if loaded.is_stale():
        return  # old and new modules must not meet in one process
    for name in names:
        if name and name not in sys.modules and _loadable(name):
            try:
                importlib.import_module(name)
            except Exception:  # a speed-up only: the request that needs it will say what is wrong
                pass
    loaded.note()
    gc.collect()
    gc.freeze()  # a child's collections must not copy the pages of everything loaded


def _parent_death_signal() -> Callable[[], None]:
    """Returns what a child calls so that it dies with the worker.

    An orphan that finished late would rename its output over the one of the next build: a stale file.
    """
    if not sys.platform.startswith("linux"):
        return lambda: None
    try:
        import ctypes

        prctl = ctypes.CDLL(None, use_errno=True).prctl
    except (ImportError, OSError, AttributeError):
        return lambda: None
    return lambda: prctl(1, 9, 0, 0, 0)  # PR_SET_PDEATHSIG, SIGKILL


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _serve_by_processes(startup: list[str], source: int, sink: int) -> int:
    """The worker where there is no fork: each request in a fresh interpreter, one after the other."""
    import subprocess

    reader = wire.Reader()
    while data := os.read(source, 1 << 16):
        for request in reader.feed(data):
            if request.cancel:
                continue
            here = os.getcwd()
            problem = _enter(request)
            os.chdir(here)
            if problem:
                response = wire.WorkResponse(1, f"tile-build: {problem}\n", request.request_id, False)
                _write_all(sink, wire.encode_response(response))
                continue
            command = [sys.executable, "-I", "-S", "-B", sys.argv[0], *startup, *request.arguments]
            done = subprocess.run(
                command,
                cwd=request.sandbox_dir or None,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
            text = done.stdout.decode("utf-8", "replace")
            response = wire.WorkResponse(done.returncode, text, request.request_id, False)
            _write_all(sink, wire.encode_response(response))
    return 0
