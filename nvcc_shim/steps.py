"""Runs a plan: processes in waves, exit codes kept, signals passed on, nothing left behind by a failure.

A step's failure stops everything after it; its own exit code is the answer, also when several ran at once. A child
killed by signal n is named and answered with 128+n; a program that cannot be started is 127. Whatever the end, the
intermediates go; after a failure or a signal the outputs and depfiles of the plan go as well.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import contextmanager

from tileiras.diag import Catalogue, Refusal
from tileiras.files import PLANTED, is_planted
from tileiras.tools.build.depfile import escape as escape_make

from .argv import OURS, refuse
from .home import quote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from .plan import Depfile, Job, Plan, Step

common = Catalogue("tileiras.tools.diags")
diags = Catalogue(f"{__package__}.diags")

NOT_STARTED = 127
UNWRITABLE = {"tileiras-build compile": 2}  # the code of the assembler for an output that it cannot write
HEADINGS = (
    "source file name , phase name , phase input files , phase output file , arch , tool, metric , unit"
)


class Interrupted(BaseException):
    """A signal asked this process to end."""

    def __init__(self, number: int) -> None:
        self.number = number


class Failed(Exception):
    """A step failed; what there was to say has been said."""

    def __init__(self, code: int) -> None:
        self.code = code


def say(text: str) -> None:
    sys.stdout.flush()
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def _on_signal(number: int, frame: object) -> None:
    raise Interrupted(number)


ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Runner:
    """Starts processes and knows which are alive."""

    __slots__ = ("alive", "environ", "scratch", "timings", "verbose")

    def __init__(self, environ: Mapping[str, str], verbose: bool) -> None:
        self.environ, self.verbose = environ, verbose
        self.scratch = ""
        self.alive: dict[int, str] = {}
        self.timings: list[tuple[Step, float]] = []

    def start(self, argv: Sequence[str], outputs: tuple[int, int] | None = None) -> int:
        """Returns the process id. Errors: Failed(127) when the program cannot be started."""
        actions = []
        if outputs is not None:
            actions = [(os.POSIX_SPAWN_DUP2, outputs[0], 1), (os.POSIX_SPAWN_DUP2, outputs[1], 2)]
        sys.stdout.flush()
        sys.stderr.flush()
        # Between the spawn and the note of its id no signal may come in: the child would outlive us unseen.
        environ = dict(self.environ)
        if self.scratch:
            environ["TMPDIR"] = os.path.abspath(self.scratch)
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
        try:
            spawn = os.posix_spawn if os.sep in argv[0] else os.posix_spawnp
            pid = spawn(argv[0], list(argv), environ, file_actions=actions, setsigmask=[],
                        setsigdef=heard())  # fmt: skip
            self.alive[pid] = argv[0]
        except OSError as error:
            raise self.missing(argv[0], error) from None
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
        return pid

    @staticmethod
    def missing(name: str, error: OSError) -> Failed:
        refuse(Refusal(diags.CANNOT_START, path=name, why=error.strerror), OURS)
        return Failed(NOT_STARTED)

    def wait(self) -> tuple[int, int]:
        """Returns (process id, wait status) of whichever of ours ends first."""
        pids = list(self.alive)
        while True:
            if len(pids) == 1:
                pid, status = os.waitpid(pids[0], 0)
            else:
                pid, status = os.waitpid(-1, 0)
            if pid in self.alive:
                del self.alive[pid]
                return pid, status

    def stop_all(self) -> None:
        """Ends every living child: politely, then for good."""
        for pid in self.alive:
            _kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + 5.0
        while self.alive:
            for pid in list(self.alive):
                try:
                    if os.waitpid(pid, os.WNOHANG)[0]:
                        del self.alive[pid]
                except ChildProcessError:
                    del self.alive[pid]
            if self.alive and time.monotonic() > deadline:
                for pid in self.alive:
                    _kill(pid, signal.SIGKILL)
                deadline += 3600.0
            if self.alive:
                time.sleep(0.01)

    def run_wave(self, steps: Sequence[Step], threads: int) -> None:
        """Runs steps that do not depend on each other, `threads` at a time. Errors: Failed with the first step's code.

        With several at once each one's output is kept apart and shown whole, in the order of the steps.
        """
        for step in steps:
            if self.verbose:
                say("#$ " + " ".join(quote(word) for word in step.argv))
        if threads <= 1 or len(steps) == 1:
            for step in steps:
                started = time.monotonic()
                pid = self.start(step.argv)
                _, status = self.wait()
                self.timings.append((step, time.monotonic() - started))
                del pid
                self.check(step, status)
            return
        self._run_together(steps, threads)

    def _run_together(self, steps: Sequence[Step], threads: int) -> None:
        import tempfile

        waiting = list(steps)
        running: dict[int, tuple[Step, float]] = {}
        streams: dict[Step, tuple[object, object]] = {}
        ended: dict[Step, int] = {}
        failure: Failed | None = None
        while running or (waiting and failure is None):
            while waiting and len(running) < threads and failure is None:
                step = waiting.pop(0)
                out, err = tempfile.TemporaryFile(), tempfile.TemporaryFile()
                streams[step] = (out, err)
                try:
                    running[self.start(step.argv, (out.fileno(), err.fileno()))] = (step, time.monotonic())
                except Failed as error:
                    failure = error
            if not running:
                break
            pid, status = self.wait()
            step, started = running.pop(pid)
            self.timings.append((step, time.monotonic() - started))
            ended[step] = status
            if status and failure is None:
                failure = Failed(1)
                self.stop_others(running)
        stopped = failure is not None
        said: set[bytes] = set()
        for step in steps:
            if step not in ended or (stopped and _is_our_kill(ended[step])):
                continue  # what it was about when it was stopped is no answer
            for stream, descriptor in zip(streams[step], (1, 2)):
                stream.seek(0)  # type: ignore[attr-defined]
                data = stream.read()  # type: ignore[attr-defined]
                if ended[step] and data in said:
                    continue  # a source's error, found again for another architecture
                said.add(data)
                sys.stdout.flush()
                sys.stderr.flush()
                while data:
                    data = data[os.write(descriptor, data) :]
        for step in steps:
            if step in ended and ended[step] and not (stopped and _is_our_kill(ended[step])):
                self.check(step, ended[step])
        if failure is not None:
            for step in steps:
                if ended.get(step):
                    self.check(step, ended[step])
            raise failure
        for step in steps:
            self.check(step, 0)

    def stop_others(self, running: Mapping[int, object]) -> None:
        for pid in running:
            _kill(pid, signal.SIGTERM)

    def check(self, step: Step, status: int) -> None:
        """Returns when the step succeeded and its output is there. Errors: Failed, after a word about signals."""
        report(step.name, status)
        if step.output and not os.path.lexists(step.output):
            refuse(Refusal(diags.NO_STEP_OUTPUT, name=step.name, output=step.output), OURS)
            raise Failed(1)


def report(name: str, status: int) -> None:
    """Returns for status 0. Errors: Failed with the process's own code, or 128+n after naming the signal."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        refuse(Refusal(diags.SIGNAL, name=name, number=number, what=signal.strsignal(number)), OURS)
        raise Failed(128 + number)
    code = os.WEXITSTATUS(status)
    if code:
        raise Failed(code)


def _is_our_kill(status: int) -> bool:
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGTERM


def _kill(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def remove(path: str) -> None:
    """Removes a file that we may have written; devices, pipes and directories stay."""
    try:
        if os.path.isfile(path) or os.path.islink(path):
            os.unlink(path)
    except OSError:
        pass


# --- depfiles


def read_prerequisites(path: str) -> list[str]:
    """Returns the prerequisites of the first rule of a Make depfile, unescaped."""
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        text = file.read().replace("\\\n", " ")
    words, word, index = [], "", 0
    rule = text.split("\n", 1)[0]
    while index < len(rule):
        char = rule[index]
        following = rule[index + 1] if index + 1 < len(rule) else ""
        if char == "\\" and following in (" ", "#", "\\", ":"):
            # A doubled backslash means one only in front of a blank or #; a lone pair stands for itself.
            word += following
            index += 1
        elif char == "$" and following == "$":
            word += "$"
            index += 1
        elif char.isspace():
            if word:
                words.append(word)
            word = ""
        elif char == ":" and (not following or following.isspace()):
            words.append(word + ":") if word else words.append(":")
            word = ""
        else:
            word += char
        index += 1
    if word:
        words.append(word)
    for at, one in enumerate(words):
        if one.endswith(":"):
            return words[at + 1 :]
    return []


def render_rule(depfile: Depfile, source: str) -> str:
    """Returns the rule in nvcc's shape: `target : source \\`, one prerequisite per line, empty rules with -MP.

    Names are as the line gave them, as nvcc's are.
    """
    paths = [source]
    if depfile.from_compiler and os.path.exists(depfile.from_compiler):
        for path in read_prerequisites(depfile.from_compiler):
            if os.path.abspath(path) != os.path.abspath(source) and path not in paths:
                paths.append(path)
    text = f"{depfile.target} : " + " \\\n    ".join(escape_make(path) for path in paths) + "\n"
    if depfile.phony:
        text += "".join(f"\n{escape_make(path)}:\n" for path in paths[1:])
    return text


def write_file(path: str, text: str) -> None:
    """Writes through a temporary sibling and a rename; a device or pipe is written to directly."""
    data = text.encode("utf-8", "surrogateescape")
    if os.path.exists(path) and not os.path.isfile(path):
        with open(path, "wb") as file:
            file.write(data)
        return
    from tileiras.files import write_atomically

    write_atomically(path, data)


# --- the whole plan


def outputs_of(plan: Plan) -> list[str]:
    """Returns every file that must not survive a failure: outputs and depfiles, not intermediates."""
    paths = []
    for job in plan.jobs:
        if job.output and not job.is_temp and not os.path.isdir(job.output):
            paths.append(job.output)
        if job.depfile and job.depfile.path:
            paths.append(job.depfile.path)
    if plan.linked:
        paths.append(plan.linked)
    return paths


def _check_folders(plan: Plan) -> None:
    """nvcc makes no folders: a misspelt -o, -odir or -keep-dir is an error. Errors: Failed, as the writing tool would."""
    last = {job.output: job.steps[-1].name for job in plan.jobs if job.steps}
    kept = [step.output for job in plan.jobs for step in job.steps if plan.keep and step.output != job.output]
    for path in [*outputs_of(plan), *kept]:
        folder = os.path.dirname(path)
        if folder and folder != plan.directory and not os.path.isdir(folder):
            what = "Not a directory" if os.path.exists(folder) else "No such file or directory"
            refuse(Refusal(common.CANNOT_WRITE, path=path, why=what), OURS)
            raise Failed(UNWRITABLE.get(last.get(path, ""), 1))
    for path in [*outputs_of(plan), *(job.deliver for job in plan.jobs if job.deliver)]:
        if is_planted(path):  # nvcc and the host's compiler would follow it
            refuse(Refusal(common.CANNOT_WRITE, path=path, why=PLANTED), OURS)
            raise Failed(UNWRITABLE.get(last.get(path, ""), 1))


def heard() -> list[signal.Signals]:
    """The signals that end us: nohup and background jobs of a plain shell ignore some on purpose."""
    return [number for number in ENDING if signal.getsignal(number) != signal.SIG_IGN]


def execute(
    plan: Plan, nvcc: str | None, environ: Mapping[str, str], cwd: str, missing: Refusal | None = None
) -> int:
    """Returns the exit code of the plan after running it; `missing` says why `nvcc` is None."""
    runner = Runner(environ, plan.verbose)
    handlers = {number: signal.signal(number, _on_signal) for number in heard()}
    try:
        try:
            if plan.rest is not None and nvcc is None and not plan.dryrun:
                refuse(missing or Refusal(diags.NO_NVCC, where=""), OURS)
                return NOT_STARTED
            if plan.clean:
                return _clean(plan, nvcc, runner)
            if plan.dryrun:
                return _show(plan, nvcc, runner, missing)
            _check_folders(plan)
            if any(job.steps for job in plan.jobs):
                if plan.verbose:
                    say("#$ mkdir " + quote(plan.directory))
                os.mkdir(plan.directory, 0o700)
                # A tool that is killed leaves its temporaries in ours, which goes away as a whole.
                runner.scratch = plan.directory
                # What is there now must never pass for what this run makes.
                for path in outputs_of(plan):
                    remove(path)
            for job in plan.jobs:
                _run_job(job, plan, runner, cwd)
            if plan.rest is not None:
                assert nvcc is not None
                _run_nvcc(plan, nvcc, runner, cwd)
            _write_times(plan, runner)
            return 0
        except BaseException as error:
            # From here to the end a second signal must not leave half of the clean-up undone.
            for number in ENDING:
                signal.signal(number, signal.SIG_IGN)
            runner.stop_all()
            if not plan.dryrun:
                for path in outputs_of(plan):
                    if not is_planted(path):
                        remove(path)
            if isinstance(error, Failed):
                return error.code
            if isinstance(error, OSError):
                refuse(Refusal(diags.OS_ERROR, path=error.filename or "", why=error.strerror), OURS)
                return 1
            raise
        finally:
            if plan.directory and os.path.isdir(plan.directory) and not plan.dryrun:
                if plan.verbose:
                    say("#$ rm -r " + quote(plan.directory))
                import shutil

                shutil.rmtree(plan.directory, ignore_errors=True)
    except Interrupted as error:
        signal.signal(error.number, signal.SIG_DFL)
        os.kill(os.getpid(), error.number)
        return 128 + error.number
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _run_job(job: Job, plan: Plan, runner: Runner, cwd: str) -> None:
    if job.output and os.path.isdir(job.output):
        refuse(Refusal(diags.IS_DIRECTORY, output=job.output), OURS)
        raise Failed(1)
    for wave in sorted({step.wave for step in job.steps}):
        steps = [step for step in job.steps if step.wave == wave]
        with _threads(plan, len(steps), runner.environ) as threads:
            runner.run_wave(steps, threads)
    for path in job.usage:
        _show_usage(path)
    if job.deliver:
        if runner.verbose:
            say(_delivery(job))
        _deliver(str(job.output), job.deliver)
    if job.depfile and not plan.linked:
        text = render_rule(job.depfile, job.source)
        if job.depfile.path is None:
            sys.stdout.write(text)
            sys.stdout.flush()
        else:
            write_file(job.depfile.path, text)


def _show_usage(path: str) -> None:
    """Prints what ptxas -v prints, from the kernel table: the compiler may have answered from its cache."""
    import json

    with open(path, encoding="utf-8") as file:
        table = json.load(file)
    for row in table["kernels"]:
        say(f"ptxas info    : Compiling entry function '{row['symbol']}' for '{table['arch']}'")
        say(f"ptxas info    : Used {row['registers']} registers, {row['spill_bytes']} bytes spilled, "
            f"{row['static_shared'] + row['dynamic_shared']} bytes smem")  # fmt: skip


@contextmanager
def _threads(plan: Plan, wanted: int, environ: Mapping[str, str]) -> Iterator[int]:
    """Holds make's tokens for what runs beside the first process, where -jobserver asks for it."""
    threads = min(plan.threads, wanted)
    if not plan.jobserver or threads == 1:
        yield threads
        return
    from tileiras.setuptools_ext.jobs import Jobserver

    server = Jobserver.connect(environ)
    tokens: list[bytes] = []
    try:
        while server is not None and len(tokens) < threads - 1:
            token = server.try_acquire()
            if token is None:
                break
            tokens.append(token)
        yield threads if server is None else 1 + len(tokens)
    finally:
        for token in tokens:
            assert server is not None
            server.release(token)


def _delivery(job: Job) -> str:
    return f"#$ cat {quote(str(job.output))} > {quote(job.deliver)}"


def _deliver(path: str, device: str) -> None:
    with open(path, "rb") as source, open(device, "wb", buffering=0) as target:
        data = source.read()
        while data:
            data = data[target.write(data) :]


def _run_nvcc(plan: Plan, nvcc: str, runner: Runner, cwd: str) -> None:
    assert plan.rest is not None
    runner.scratch = ""
    started = runner.start([nvcc, *plan.rest])
    _, status = runner.wait()
    del started
    report("nvcc", status)
    if plan.rest_depfile and plan.rest_depfile.path:
        # nvcc has written the rule of its own source, if it had one; ours completes it.
        path, text = plan.rest_depfile.path, ""
        if os.path.isfile(path) and any(
            word.endswith((".cu", ".c", ".cc", ".cpp", ".cxx")) for word in plan.rest
        ):
            with open(path, encoding="utf-8", errors="surrogateescape") as file:
                text = file.read().rstrip("\n") + "\n"
        for job in plan.jobs:
            if job.depfile:
                text += render_rule(job.depfile, job.source)
        write_file(path, text)


def _show(plan: Plan, nvcc: str | None, runner: Runner, missing: Refusal | None) -> int:
    """--dryrun: the lines of a real run, each one a command for sh."""
    started = any(job.steps for job in plan.jobs)
    if started:
        say("#$ mkdir " + quote(plan.directory))
    for job in plan.jobs:
        for step in sorted(job.steps, key=lambda step: step.wave):
            say("#$ " + " ".join(quote(word) for word in step.argv))
        if job.deliver:
            say(_delivery(job))
    if plan.rest is not None:
        if nvcc is None:
            refuse(missing or Refusal(diags.NO_NVCC, where=""), OURS)
            return NOT_STARTED
        _show_lines_of_nvcc([nvcc, *plan.rest], runner)
    if started:
        say("#$ rm -r " + quote(plan.directory))
    return 0


def _show_lines_of_nvcc(argv: Sequence[str], runner: Runner) -> None:
    """nvcc has --dryrun itself; its lines as they are, but for assignments (PATH=/a b/bin:...), which it does not quote."""
    import tempfile

    with tempfile.TemporaryFile() as said:
        runner.start(argv, (1, said.fileno()))
        status = runner.wait()[1]
        said.seek(0)
        text = said.read().decode("utf-8", "surrogateescape")
    for line in text.splitlines():
        name, equals, value = line.removeprefix("#$ ").partition("=")
        if line.startswith("#$ ") and equals and name.isidentifier():
            line = f"#$ {name}={quote(value) if value.strip() else value}"
        say(line)
    report("nvcc", status)


def _clean(plan: Plan, nvcc: str | None, runner: Runner) -> int:
    """-clean: removes what the line would create."""
    for path in outputs_of(plan):
        if plan.verbose:
            say("#$ rm -f " + quote(path))
        if not plan.dryrun:
            remove(path)
    if plan.rest is not None and nvcc is not None and not plan.linked:
        runner.start([nvcc, *plan.rest])
        report("nvcc", runner.wait()[1])
    return 0


def _write_times(plan: Plan, runner: Runner) -> None:
    if plan.time_file is None:
        return
    rows = [f"{step.source} , {step.name} , {' '.join(step.inputs)}  , {step.output} , {step.arch} , tileiras-nvcc , "
            f"{seconds * 1000.0:.4f} , ms\n" for step, seconds in runner.timings]  # fmt: skip
    if plan.time_file == "-":
        sys.stdout.write(HEADINGS + "\n" + "".join(rows))
        sys.stdout.flush()
        return
    with open(plan.time_file, "a", encoding="utf-8", errors="surrogateescape") as file:
        if file.tell() == 0:
            file.write(HEADINGS + "\n")
        file.write("".join(rows))
