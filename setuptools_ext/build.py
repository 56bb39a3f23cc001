"""Compiles Tile sources for setuptools: what to run for each, whether it is up to date, several at once.

A Unit is one source of one extension with its own directory below build_temp, so that two extensions may share a source
and two sources a name. Up to date means: the same commands, toolchain and dependencies (the depfile of the last run and
`depends`, by time stamp and size), and every output as it was left. Nothing is ever rebuilt for another reason.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any

from setuptools.errors import CompileError

from tileiras.diag import Catalogue
from tileiras.files import write_atomically
from tileiras.terminal import told

from .jobs import Jobserver
from .options import compile_words

diags = Catalogue(f"{__package__}.diags")

STATE_VERSION = 1
BUDGETS = ("--max-registers=", "--no-spills", "--max-shared=")
ARCH_VARIABLES = ("TILEIRAS_CUDA_ARCHS", "TORCH_CUDA_ARCH_LIST", "CUDAARCHS")


def find_package_root() -> str:
    """Returns the directory that holds the package `tileiras`: on the path of every tool that is started."""
    import tileiras.toolchain

    return os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(tileiras.toolchain.__file__))))


def find_roots(packages: Sequence[str]) -> list[str]:
    """Returns the directories that this process imports the packages from, which an isolated build has in places of its own."""
    from importlib.util import find_spec

    found = [find_spec(name) for name in packages]
    return list(
        dict.fromkeys(os.path.dirname(os.path.dirname(one.origin)) for one in found if one and one.origin)
    )


def find_roots_of_passes(words: Sequence[str]) -> list[str]:
    """Returns the directories in which the packages are installed whose passes the words for the Tile compiler name."""
    from tileiras.tools.build.builtin import plugins_of

    names = plugins_of(list(words))
    if not names:
        return []
    from importlib.metadata import entry_points

    points = [point for name in names for point in entry_points(group="tileiras.passes", name=name)]
    return list(dict.fromkeys(str(point.dist.locate_file("")) for point in points if point.dist))


def tool_command(module: str, packages: Sequence[str] = (), roots: Sequence[str] = ()) -> list[str]:
    """Returns the argv prefix of one of our commands, run by this interpreter from this very installation.

    `packages` are others that it needs, `roots` directories of such. Not `-m`: the project's directory would come first on
    the path, and a folder `tileiras` in it would win.
    """
    roots = [find_package_root(), *find_roots(packages), *roots]
    code = (f"import sys; sys.path[:0] = {roots!r}; from {module} import main; "
            "sys.exit(main(sys.argv[1:]))")  # fmt: skip
    return [sys.executable, "-I", "-S", "-c", code]


def read_fingerprint() -> str:
    """Returns the toolchain's digest from the one resolver (tileiras-config). Errors: CompileError."""
    command = [*tool_command("tileiras.tools.config"), "--fingerprint"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise CompileError(told(diags.CONFIG_FAILED, code=done.returncode, text=done.stderr.strip()))
    return done.stdout.strip()


def find_archs(option: Sequence[str] | None, environ: Mapping[str, str], compiler: str, warn: Callable[[str], None]
               ) -> tuple[list[Any], bool]:  # fmt: skip
    """Returns (GPU architectures, whether the CPU is one more): the option, else the environment.

    Errors: CompileError; never a guess.

    The GPU of the building machine is used only for `native`, and then it is said.
    """
    from tileiras.archs import NUMBERS, NVIDIA_NUMBERS
    from tileiras.diag import CompileError as ToolError
    from tileiras.toolchain.arch import parse_archs, split_cpu

    text: Any = option
    origin = "archs"
    for name in ARCH_VARIABLES:
        if not text and environ.get(name):
            text, origin = environ[name], name
    if not text:
        raise CompileError(told(diags.NO_ARCH, known=', '.join(ARCH_VARIABLES)))  # fmt: skip
    text, for_cpu = split_cpu(text)
    if for_cpu and not text:
        return [], True
    try:
        archs, warnings = parse_archs(text, NVIDIA_NUMBERS if compiler == "nvidia" else NUMBERS)
    except ToolError as error:
        raise CompileError(
            told(diags.OF_ARCHS, origin=origin, why="; ".join(one.message for one in error.diagnostics))
        ) from None
    for emitted in warnings:
        warn(f"{origin}: {emitted.message}")
    if "native" in text:
        warn(f"{origin}: 'native' means the GPUs of this machine: {' '.join(map(str, archs))}; "
             "a wheel built so may not run elsewhere")  # fmt: skip
    return archs, for_cpu


def refuse_for_cpu(values: Mapping[str, Any], archs: Sequence[Any]) -> None:
    """What makes no sense with the CPU among the architectures. Errors: CompileError."""
    if values.get("compiler") == "nvidia":
        raise CompileError(told(diags.CPU_COMPILER))
    for name in ("max_registers", "no_spills", "max_shared"):
        if values.get(name):
            raise CompileError(told(diags.CPU_BUDGET, name=name))
    if values.get("embed") == "incbin" and not archs:
        raise CompileError(told(diags.CPU_EMBED))


def find_host(platform: str) -> tuple[str, str]:
    """Returns (machine, system) of a platform's name: `linux-x86_64`, `manylinux_2_28_aarch64`, `win-arm64`."""
    name = platform.lower().replace("-", "_")
    system = "windows" if name.startswith("win") else "linux"
    for spelled, machine in (
        ("x86_64", "x86_64"),
        ("amd64", "x86_64"),
        ("aarch64", "aarch64"),
        ("arm64", "aarch64"),
    ):
        if name.endswith(spelled):
            return machine, system
    if name and name.rpartition("_")[2] != "universal2":
        return name.rpartition("_")[2], system  # the Tile compiler says that it has none for it
    import platform as running

    machine = running.machine().lower()
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(machine, machine or "x86_64"), system


def find_prefix(stem: str) -> str:
    """Returns the prefix of the C symbols: `my-kernel.v2` -> `my_kernel_v2`, `3d` -> `_3d`."""
    name = "".join(char if char.isascii() and (char.isalnum() or char == "_") else "_" for char in stem)
    return name if name and not name[0].isdigit() else "_" + name


DEPFILE = ("--depfile-for=make",)  # which can say nearly every name; `read_depfile` is its reader
_WORDS = re.compile(
    r"(?P<run>\\+)(?P<escaped>[ \t#:%*?[|]|\$\(or \\;\)|$)?|\$(?:(?P<dollar>\$)|\(or \\?(?P<said>[^)]?)\)|"
    r"(?P<newline>\(\w+\)))|(?P<blank>[ \t]+)|(?P<char>.)",
    re.S,
)


def read_depfile(path: str) -> list[str]:
    """Returns the prerequisites that a depfile of ours names, written for Make."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape", newline="") as file:
            text = file.read().rpartition("endef\n")[2].replace("\\\n", " ").removesuffix("\n")
    except OSError:
        return []
    words = [""]
    for found in _WORDS.finditer(text):
        if found["run"]:
            run, escaped = len(found["run"]), found["escaped"]
            # Doubled backslashes mean themselves in front of what one would escape, an odd last one escapes it.
            words[-1] += "\\" * (run if escaped is None else run // 2)
            if escaped and escaped[0] == "$":
                words[-1] += ";"
            elif escaped and run % 2:
                words[-1] += escaped
            elif escaped:
                words.append("")
        elif found["blank"]:
            words.append("")
        else:
            words[-1] += "\n" if found["newline"] else found["dollar"] or found["said"] or found["char"] or ""
    return [word for word in words if word][1:]  # the first is `target:`


def stamp_of(path: str) -> list[int] | None:
    """Returns [time stamp, size] of a file, None when it is not there."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return [status.st_mtime_ns, status.st_size]


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass


class Command:
    """One process of a unit. Commands of one wave do not depend on each other."""

    __slots__ = ("argv", "wave")

    def __init__(self, argv: list[str], wave: int) -> None:
        self.argv, self.wave = argv, wave


class Unit:
    """One Tile source of one extension, and where everything made from it lies.

    `values` are the options after defaults; `depends` more files it depends on; `extra` the words for the Tile compiler
    from extra_compile_args.
    """

    def __init__(self, source: str, directory: str, values: Mapping[str, Any], archs: Sequence[Any],
                 depends: Sequence[str], extra: Sequence[str], host: tuple[str, str], with_object: bool,
                 for_cpu: bool = False) -> None:  # fmt: skip
        self.source, self.directory, self.values = source, directory, values
        self.archs, self.depends, self.extra, self.host = list(archs), list(depends), list(extra), host
        self.stem = os.path.splitext(os.path.basename(source))[0]
        self.with_object, self.for_cpu = with_object, for_cpu
        self.failure: CompileError | None = None
        self.rebuilt = False

    def path(self, name: str) -> str:
        return os.path.join(self.directory, name)

    @property
    def fatbin(self) -> str:
        return self.path(self.stem + ".fatbin")

    @property
    def header(self) -> str:
        return self.path(self.values.get("header") or self.stem + "_tile.h")

    @property
    def c_source(self) -> str:
        # `_k.tileir.c` -> `_k.tileir.o`: beside a `_k.c` of the same extension there must be no second `_k.o`.
        return self.path(os.path.basename(self.source) + ".c")

    @property
    def prefix(self) -> str:
        return find_prefix(self.values.get("prefix") or self.stem)

    @property
    def bytecode(self) -> str:
        return self.path(self.stem + ".tilebc")

    @property
    def is_python(self) -> bool:
        return self.source.endswith(".py")

    def image(self, arch: Any) -> str:
        return self.path(f"{self.stem}.{arch}" + (".ptx" if arch.kind == "virtual" else ".cubin"))

    def table(self, arch: Any) -> str:
        return self.path(f"{self.stem}.{arch}.kernels.json")

    def report(self, arch: Any) -> str:
        return self.path(f"{self.stem}.{arch}.report.{self.values.get('report')}")

    @property
    def cpu_table(self) -> str:
        """The table that holds the code for the CPU."""
        return self.path(self.stem + ".cpu.kernels.json")

    @property
    def cpu_library(self) -> str:
        """What data kernels are loaded from on the CPU."""
        return self.path(self.stem + ".cpu.so")

    @property
    def tables(self) -> list[str]:
        images = [self.table(arch) for arch in self.archs if not self.is_bytecode_entry(arch)]
        return [*images, self.cpu_table] if self.for_cpu else images

    @property
    def tile_abi(self) -> bool:
        return self.values.get("compiler") == "nvidia" or self.values.get("launch_abi") == "tile"

    def is_bytecode_entry(self, arch: Any) -> bool:
        """Returns whether the fatbin's entry for `arch` is the Tile IR itself."""
        return arch.kind == "virtual" and self.tile_abi

    def commands(self) -> list[Command]:
        """Returns every command that makes this unit, in order of waves."""
        values = dict(self.values)
        values["options"] = [*(values.get("options") or []), *self.extra]
        build = tool_command("tileiras.tools.build", roots=find_roots_of_passes(values["options"]))
        words = compile_words(values)
        words += ["--host-arch", self.host[0], "--host-os", self.host[1]]
        words += [f"--depends={path}" for path in self.depends]
        source = self.source
        commands: list[Command] = []
        if self.is_python:
            words = [word for word in words if not word.startswith("--entry=")]
            # The user's cuda-tile is wherever this interpreter imports from, isolated builds included.
            export = [
                *build,
                "export",
                self.source,
                f"--python={sys.executable}",
                f"--file-prefix-map={os.getcwd()}=.",
            ]
            if len(values.get("entries") or []) != 1:
                raise CompileError(told(diags.ONE_ENTRY, source=self.source))
            export += ["--entry", values["entries"][0]]
            for keyword in ("signature", "matrix", "bytecode_version"):
                if values.get(keyword):
                    export.append(f"--{keyword.replace('_', '-')}={values[keyword]}")
            export += ["-o", self.bytecode, "--depfile", self.path(self.stem + ".export.d")]
            commands.append(Command([*export, *DEPFILE, "--depfile-target", self.bytecode], 0))
            source = self.bytecode
        formats = values.get("formats") or []
        needs_bytecode = "tilebc" in formats or any(self.is_bytecode_entry(arch) for arch in self.archs)
        if needs_bytecode and not self.is_python:
            version = values.get("bytecode_version")
            commands.append(Command([*build, "bytecode", *([f"--bytecode-version={version}"] if version else []),
                                     source, "-o", self.bytecode], 0))  # fmt: skip
        fatbin = [*build, "fatbin", "-o", self.fatbin]
        if values.get("compress"):
            fatbin += ["--compress", values["compress"]]
        pending = True
        for arch in self.archs:
            if self.is_bytecode_entry(arch):
                fatbin += ["--tileir", f"{arch}={self.bytecode}"]
                continue
            # Registers of portable code are the driver's choice: a budget is checked on the images.
            mine = [word for word in words if arch.kind != "virtual" or not word.startswith(BUDGETS)]
            argv = [*build, "compile", *mine, source, "-o", self.image(arch), "--arch", str(arch),
                    "--kernels-json", self.table(arch)]  # fmt: skip
            if pending:
                argv += [
                    "--depfile",
                    self.path(self.stem + ".d"),
                    *DEPFILE,
                    "--depfile-target",
                    self.image(arch),
                ]
                pending = False
            if "ptx" in formats and arch.kind != "virtual" and values.get("compiler") != "nvidia":
                argv += ["--ptx", self.path(f"{self.stem}.{arch}.ptx")]
            if values.get("report") and arch.kind != "virtual":
                argv += ["--report", self.report(arch)]
            commands.append(Command(argv, 1))
            fatbin += ["--ptx" if arch.kind == "virtual" else "--elf", f"{arch}={self.image(arch)}"]
        if self.archs:
            commands.append(Command(fatbin, 2))
        if self.for_cpu:
            commands.append(Command(self._cpu_command(source, pending), 1))
        if self.with_object or self.for_cpu:
            header = [*build, "header", "--prefix", self.prefix, "--language", "C"]
            if self.with_object and self.archs:
                header += ["--embed", values.get("embed") or "array", "--image", self.fatbin]
            if values.get("namespace"):
                header += ["--namespace", values["namespace"]]
            for table in self.tables if self.with_object else [self.cpu_table]:
                header += ["--json", table]
            commands.append(Command([*header, "--header-out", self.header, "--source-out", self.c_source], 3))
        return sorted(commands, key=lambda command: command.wave)

    def _cpu_command(self, source: str, with_depfile: bool) -> list[str]:
        values = self.values
        tool = tool_command("tileiras.tools.build", ("llvmlite", "numpy", "ml_dtypes"))
        words = [*tool, "compile", "--compiler=builtin", "--arch", "cpu"]
        words += [f"--launch-abi={values['launch_abi']}"] if values.get("launch_abi") else []
        words += [] if self.is_python else [f"--entry={name}" for name in values.get("entries") or []]
        words += ["--host-arch", self.host[0], *(f"--depends={path}" for path in self.depends)]
        words += [source, "--kernels-json", self.cpu_table]
        if with_depfile:
            words += ["--depfile", self.path(self.stem + ".d"), *DEPFILE, "--depfile-target", self.cpu_table]
        return words

    def outputs(self) -> list[str]:
        """Returns the files whose presence means that the unit is built."""
        paths = [self.image(arch) for arch in self.archs if not self.is_bytecode_entry(arch)]
        if self.values.get("report"):
            paths += [self.report(arch) for arch in self.archs if arch.kind != "virtual"]
        paths += [self.fatbin] if self.archs else []
        with_source = self.with_object or self.for_cpu
        return paths + self.tables + ([self.header, self.c_source] if with_source else [])

    # --- what is up to date

    @property
    def state_path(self) -> str:
        return self.path(self.stem + ".state.json")

    def key(self, fingerprint: str) -> str:
        """Returns a digest of all that decides the result and is not a dependency's content."""
        what = [STATE_VERSION, fingerprint, [command.argv for command in self.commands()]]
        return hashlib.sha256(json.dumps(what).encode("utf-8", "surrogateescape")).hexdigest()

    def is_current(self, fingerprint: str) -> bool:
        """Returns whether nothing that the outputs were made from has changed."""
        try:
            with open(self.state_path, encoding="utf-8", errors="surrogateescape") as file:
                state = json.load(file)
        except (OSError, ValueError):
            return False
        if not isinstance(state, dict) or state.get("key") != self.key(fingerprint):
            return False
        for group in ("dependencies", "outputs"):
            for path, stamp in state.get(group, {}).items():
                if stamp_of(path) != stamp:
                    return False
        return set(self.outputs()) <= set(state["outputs"])

    def dependencies(self) -> list[str]:
        """Returns what the last run read: the source, `depends`, and what the depfiles name."""
        paths = [self.source, *self.depends]
        for name in (self.stem + ".export.d", self.stem + ".d"):
            paths += read_depfile(self.path(name))
        return list(dict.fromkeys(os.path.abspath(path) for path in paths))

    def remember(self, fingerprint: str, started: Mapping[str, Any]) -> None:
        """Writes the state of a finished run. A dependency that changed meanwhile makes it stale at once."""
        state = {
            "key": self.key(fingerprint),
            "dependencies": {path: started.get(path, stamp_of(path)) for path in self.dependencies()},
            "outputs": {path: stamp_of(path) for path in self.outputs()},
        }
        text = json.dumps(state, indent=1, sort_keys=True)
        write_atomically(self.state_path, text.encode("utf-8", "surrogateescape"))

    def forget(self) -> None:
        """Removes the state and the outputs: after a failure nothing stale may be linked."""
        for path in [self.state_path, *self.outputs()]:
            _unlink(path)


class Builder:
    """Builds units, several commands at once, and reports each failure once."""

    def __init__(self, jobs: int, announce: Callable[[str], None], environ: Mapping[str, str]) -> None:
        self.jobs, self.announce, self.environ = jobs, announce, dict(environ)
        self.jobserver = Jobserver.connect(environ)
        self.processes: set[subprocess.Popen[bytes]] = set()
        self.lock = threading.Lock()
        self.own_token_free = True

    def build(self, units: Sequence[Unit], fingerprint: str) -> None:
        """Builds what is not given up; a unit that fails carries its CompileError and stops nobody else."""
        plans: dict[Unit, list[Command]] = {}
        started: dict[Unit, dict[str, Any]] = {}
        for unit in units:
            os.makedirs(unit.directory, exist_ok=True)
            started[unit] = {os.path.abspath(path): stamp_of(path) for path in (unit.source, *unit.depends)}
            # Outputs stay for now: a header that comes out the same keeps its time, and nothing behind it is redone.
            _unlink(unit.state_path)
            plans[unit] = unit.commands()
        with ThreadPoolExecutor(max_workers=self.jobs) as pool:
            running: dict[Future[None], Unit] = {}
            try:
                for unit in units:
                    self._next_wave(pool, unit, plans[unit], running)
                while running:
                    done, _ = wait(running, return_when=FIRST_COMPLETED)
                    for future in done:
                        unit = running.pop(future)
                        error = future.exception()
                        if isinstance(error, CompileError):
                            unit.failure = unit.failure or error
                        elif error is not None:
                            raise error
                        if unit not in running.values():
                            if unit.failure is not None:
                                unit.forget()
                            elif plans[unit]:
                                self._next_wave(pool, unit, plans[unit], running)
                            else:
                                unit.remember(fingerprint, started[unit])
                                unit.rebuilt = True
            except BaseException:
                # Ctrl-C: nobody may go on in the background, and nothing half done may look finished.
                pool.shutdown(wait=False, cancel_futures=True)
                with self.lock:
                    for process in self.processes:
                        process.terminate()
                for unit in units:
                    if not unit.rebuilt:
                        unit.forget()
                raise

    def _next_wave(self, pool: ThreadPoolExecutor, unit: Unit, plan: list[Command], running: dict[Future[None], Unit]
                   ) -> None:  # fmt: skip
        wave = plan[0].wave
        while plan and plan[0].wave == wave:
            running[pool.submit(self._run, unit, plan.pop(0))] = unit

    @contextmanager
    def _token(self) -> Iterator[None]:
        """Holds one of make's tokens, or the one that this process has by right."""
        if self.jobserver is None:
            yield
            return
        token: bytes | None = None
        while True:
            with self.lock:
                if self.own_token_free:
                    self.own_token_free = False
                    break
            token = self.jobserver.try_acquire()
            if token:
                break
            threading.Event().wait(0.02)
        try:
            yield
        finally:
            if token:
                self.jobserver.release(token)
            else:
                with self.lock:
                    self.own_token_free = True

    def _run(self, unit: Unit, command: Command) -> None:
        if unit.failure is not None:
            return
        with self._token():
            self.announce(" ".join(_shorten(command.argv)))
            try:
                process = subprocess.Popen(command.argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                           stderr=subprocess.STDOUT, env=self.environ)  # fmt: skip
            except OSError as error:
                raise CompileError(
                    told(diags.CANNOT_START, source=unit.source, program=command.argv[0], why=error.strerror)
                ) from None
            with self.lock:
                self.processes.add(process)
            output, _ = process.communicate()
            with self.lock:
                self.processes.discard(process)
            text = output.decode("utf-8", "replace").rstrip("\n")
            if process.returncode:
                code = process.returncode
                how = f"was killed by signal {-code}" if code < 0 else f"failed with exit code {code}"
                raise CompileError(
                    f"{unit.source}: {' '.join(_shorten(command.argv))} {how}\n{text}".rstrip()
                )
            if text:
                sys.stderr.write(text + "\n")
                sys.stderr.flush()


def _shorten(argv: Sequence[str]) -> list[str]:
    """Returns the command as a user would type it: without the interpreter and its bootstrap."""
    from shlex import quote

    if len(argv) > 5 and argv[3] == "-c" and argv[1] == "-I":
        name = "tileiras-config" if "tools.config" in argv[4] else "tileiras-build"
        return [name, *map(quote, argv[5:])]
    return list(map(quote, argv))
