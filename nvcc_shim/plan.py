"""What to run for a line with Tile IR inputs: pure, from a parsed line to steps, files and the words for nvcc.

Every Tile input becomes a Job: one compile step per real architecture, then what its phase needs (bundle, generate the
C++ source that carries the image, compile that with the host compiler). What is not Tile IR goes, in the order and
words given, to one nvcc at the end, with a job's object in the place of its input. steps.py runs it.
"""

from __future__ import annotations

import os

from tileiras.diag import Catalogue, suggestion
from tileiras.tools.build.depfile import escape as escape_make

from .arch import select_entries
from .argv import Usage
from .flags import HOST, PHASE, REFUSE, index_flags

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from .arch import Entry
    from .argv import Item, Line

diags = Catalogue(f"{__package__}.diags")

# Phases in the order in which nvcc lets the earlier one win, however they are ordered on the line.
PHASES = ("--generate-dependencies", "--generate-nonsystem-dependencies", "--preprocess", "--cuda", "--ptx",
          "--optix-ir", "--ltoir", "--tilebc", "--tilecubin", "--cubin", "--tilefatbin", "--fatbin", "--compile",
          "--device-c", "--device-w", "--device-link", "--lib", "--run", "--link")  # fmt: skip
SUFFIX = {"--ptx": ".ptx", "--tilebc": ".tilebc", "--tilecubin": ".tile.cubin", "--cubin": ".cubin",
          "--tilefatbin": ".tile.fatbin", "--fatbin": ".fatbin", "--compile": ".o"}  # fmt: skip
OBJECT = "--compile"
NO_TILE_FORM = ("--preprocess", "--cuda", "--optix-ir", "--ltoir")
DEPENDENCIES_ONLY = ("--generate-dependencies", "--generate-nonsystem-dependencies")


class Tools:
    """The programs that steps start, as absolute paths or argv prefixes, and what the Tile compiler can do."""

    __slots__ = ("build", "compiler", "host_compiler", "native", "nvcc", "root", "tile_archs")

    def __init__(self, build: Sequence[str], nvcc: str | None, host_compiler: str, compiler: str,
                 tile_archs: Sequence[int], native: Callable[[], list[int]], root: str | None = None) -> None:  # fmt: skip
        self.root = root  # of the toolkit whose nvcc was named: all tools come from there
        self.build = list(build)  # argv prefix of tileiras-build
        self.nvcc = nvcc  # None: not found; only mixed lines and linking miss it
        self.host_compiler = host_compiler
        self.compiler = compiler  # "builtin" | "nvidia"
        self.tile_archs = tile_archs
        self.native = native


class Step:
    """One process. `output` must exist after it succeeded. Steps of one job with equal `wave` may run together."""

    __slots__ = ("arch", "argv", "inputs", "name", "output", "source", "wave")

    def __init__(self, name: str, source: str, argv: list[str], inputs: list[str], output: str, arch: str, wave: int
                 ) -> None:  # fmt: skip
        self.name, self.source, self.argv, self.inputs = name, source, argv, inputs
        self.output, self.arch, self.wave = output, arch, wave


class Depfile:
    """Where a rule goes and what it says: `target` is text for Make, already escaped where it has to be."""

    __slots__ = ("from_compiler", "path", "phony", "target")

    def __init__(self, path: str | None, target: str, phony: bool, from_compiler: str | None) -> None:
        self.path = path  # None: standard output
        self.target, self.phony = target, phony
        self.from_compiler = from_compiler  # the depfile that a compile step leaves, or None: the input alone


class Job:
    """One Tile input on its way to `output`."""

    __slots__ = ("deliver", "depfile", "is_temp", "output", "source", "steps", "usage")

    def __init__(self, source: str, output: str | None) -> None:
        self.source, self.output = source, output  # output None: only dependencies are wanted
        self.is_temp = False  # the output is an object on its way into a link
        self.deliver = ""  # a device or pipe that gets the bytes: it must be written into, never replaced
        self.steps: list[Step] = []
        self.usage: list[str] = []  # kernel tables whose registers and memory are to be shown
        self.depfile: Depfile | None = None


class Plan:
    __slots__ = ("clean", "directory", "dryrun", "jobs", "jobserver", "keep", "linked", "rest", "rest_depfile", "threads",
                 "time_file", "verbose", "warnings")  # fmt: skip

    def __init__(self) -> None:
        self.jobs: list[Job] = []
        self.directory = ""  # holds the intermediates; made before the first step, removed at the end
        self.rest: list[str] | None = None  # words for nvcc, without argv[0]
        self.rest_depfile: Depfile | None = None  # nvcc's rule for the linked program, which ours completes
        self.linked: str | None = None  # what the last nvcc writes
        self.warnings: list[str] = []
        self.dryrun = self.verbose = self.keep = self.clean = False
        self.threads = 1
        self.jobserver = False  # more than one process only by make's tokens
        self.time_file: str | None = None


def find_phase(line: Line) -> str:
    """Returns the long name of the phase that nvcc would stop at; linking without any."""
    given = {item.flag.long for item in line.items if item.flag is not None and item.flag.action == PHASE}
    return next((name for name in PHASES if name in given), "--link")


def _spell(flag_long: str, line: Line) -> str:
    for item in line.items:
        if item.flag is not None and item.flag.long == flag_long:
            return f"{flag_long} ({item.flag.short})"
    return flag_long


def plan_line(
    line: Line,
    tools: Tools,
    directory: str,
    cwd: str,
    environ: Mapping[str, str] | None = None,
    is_text: Callable[[str], bool] = lambda path: False,
    is_device: Callable[[str], bool] = lambda path: False,
) -> Plan:
    """Returns the plan. Errors: Usage, in nvcc's words where nvcc has them.

    `directory` will hold the intermediates; `is_text(path)` says that a Tile input is text, not bytecode;
    `is_device(path)` that an output is there and no regular file.
    """
    plan = Plan()
    plan.warnings = list(line.warnings)
    inputs = line.inputs()
    tiles = [item for item in inputs if item.is_tile]
    others = [item for item in inputs if not item.is_tile]
    phase = find_phase(line)
    _check_line(line, phase, tiles, inputs)
    plan.dryrun, plan.clean = line.has("--dryrun"), line.has("--clean-targets")
    plan.verbose = line.has("--verbose") or line.has("--verbose2") or plan.dryrun
    plan.keep = line.has("--keep") or line.has("--save-temps")
    plan.time_file = line.one("--time")
    plan.threads = _threads(line)
    plan.jobserver = line.has("--jobserver")

    output = line.one("--output-file")
    if output == "":
        output = None
    to_link = phase in ("--link", "--lib", "--run")
    if phase == "--device-link":
        # Tile code is whole-program: nothing for nvlink, and the host object goes to the final link only.
        plan.rest = _rest_words(line, {id(item): None for item in tiles})
        if not others:
            raise Usage(diags.NO_INPUTS)
        return plan
    if output is not None and len(inputs) > 1 and not to_link:
        raise Usage(diags.ONE_OUTPUT)
    form = OBJECT if to_link or phase in ("--device-c", "--device-w") else phase
    entries: list[Entry] = []
    if phase not in DEPENDENCIES_ONLY and form != "--tilebc":
        entries = select_entries(line, tools.tile_archs, tools.native, plan.warnings)
        _check_single(line, form, entries)
    _warn_unhonoured(line, tools, plan)

    plan.directory = directory
    names = Names(directory, line.one("--keep-dir") or "", plan.keep)
    replaced: dict[int, str | None] = {}
    taken: set[str] = set()
    for item in tiles:
        source = item.values[0]
        stem = os.path.splitext(os.path.basename(source))[0]
        if phase in DEPENDENCIES_ONLY:
            job = Job(source, None)
        else:
            if to_link:
                target = names.temp(stem + ".tile.o")
            else:
                target = output or os.path.join(line.one("--output-directory") or "", stem + SUFFIX[form])
                if target.startswith("-") and target != "-":
                    target = os.path.join(".", target)  # the tools would take it for an option
                if os.path.normpath(os.path.join(cwd, target)) == os.path.normpath(os.path.join(cwd, source)):
                    raise Usage(diags.OUTPUT_IS_INPUT, path=target)
                if os.path.normpath(target) in taken:
                    raise Usage(diags.TWO_TO_ONE, path=target)
                taken.add(os.path.normpath(target))
            job = Job(source, target)
            if target == "-" or is_device(target):
                job.deliver = "/dev/stdout" if target == "-" else target
                job.output = names.temp(stem + SUFFIX[form])
                job.is_temp = True
            _add_steps(job, form, stem, entries, line, tools, names, is_text(source), environ or {})
            if to_link:
                job.is_temp = True
                replaced[id(item)] = target
        if not to_link:
            replaced[id(item)] = None
        plan.jobs.append(job)
        job.depfile = _depfile(line, phase, job, tools, names, output)
    if to_link:
        plan.linked = output or ("a.a" if phase == "--lib" else "a.out")
        if any(job.depfile for job in plan.jobs):
            plan.rest_depfile = plan.jobs[0].depfile
    if to_link or others:
        plan.rest = _rest_words(line, replaced)
    return plan


def _nearest(word: str) -> str:
    """Which option a mistyped one may have been, of nvcc and of ours, as the end of a sentence."""
    return suggestion(word.partition("=")[0], index_flags())


def _check_line(line: Line, phase: str, tiles: list[Item], inputs: list[Item]) -> None:
    forward = any(line.has(name) for name in ("--forward-unknown-opts", "--forward-unknown-to-host-compiler",
                                              "--forward-unknown-to-host-linker"))  # fmt: skip
    unknown = line.unknown()
    if unknown and not forward:
        raise Usage(diags.UNKNOWN, option=unknown[0], hint=_nearest(unknown[0]))
    first = tiles[0].values[0]
    if phase in NO_TILE_FORM:
        raise Usage(diags.NOT_WITH_TILE, option=_spell(phase, line), input=first)
    for item in line.items:
        if item.flag is not None and item.flag.action == REFUSE:
            raise Usage(diags.NOT_WITH_TILE, option=f"{item.flag.long} ({item.flag.short})", input=first)
    with_compile = line.has("--generate-dependencies-with-compile") or line.has(
        "--generate-nonsystem-dependencies-with-compile")  # fmt: skip
    if line.one("--dependency-output") is not None and not with_compile and phase not in DEPENDENCIES_ONLY:
        raise Usage(diags.DEPENDENCY_FILE)
    if line.one("--fdevice-sanitize") not in (None, "memcheck"):
        raise Usage(diags.SANITIZE)
    wanted = line.one("--machine")
    if wanted not in (None, "64"):
        raise Usage(diags.VALUE, value=wanted, option="machine")


def _threads(line: Line) -> int:
    text = line.one("--threads")
    if text is None:
        return 1
    if not (text.isascii() and text.isdecimal() and len(text) <= 9):
        raise Usage(diags.NUMBER, text=text)
    return int(text) or (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )


def _check_single(line: Line, form: str, entries: list[Entry]) -> None:
    """-cubin and -tilecubin hold one image. A virtual entry beside the real one is CMake's way to spell it."""
    spelled = _spell(form, line)
    if form == "--ptx":
        many = len({entry.number for entry in entries}) > 1
    elif form in ("--cubin", "--tilecubin"):
        real = [entry for entry in entries if entry.kind == "elf"]
        if not real:
            raise Usage(diags.VIRTUAL_ONLY, option=spelled)
        many = len(real) > 1
    else:
        return
    if many:
        raise Usage(diags.SEVERAL_ARCHS, option=spelled)


def _warn_unhonoured(line: Line, tools: Tools, plan: Plan) -> None:
    """nvcc drops these for tile code without a word; we honour them with our own compiler, or say so."""
    if tools.compiler == "builtin":
        return
    for long in ("--ptxas-options", "--maxrregcount", "--resource-usage"):
        if line.has(long):
            plan.warnings.append(
                f"option '{_spell(long, line)}' has no effect on Tile IR inputs with compiler 'nvidia'"
            )


class Names:
    """Paths of intermediates: in the temporary directory, or with -keep where the user keeps them.

    The last part of a name never depends on the process: it ends up in the objects that the host compiler writes.
    """

    __slots__ = ("directory", "keep", "keep_directory", "used")

    def __init__(self, directory: str, keep_directory: str, keep: bool) -> None:
        self.directory, self.keep_directory, self.keep = directory, keep_directory, keep
        self.used: dict[str, int] = {}

    def temp(self, name: str) -> str:
        """A temporary whatever -keep says."""
        return os.path.join(self.directory, self._unique(name))

    def of(self, name: str) -> str:
        return os.path.join(self.keep_directory, self._unique(name)) if self.keep else self.temp(name)

    def _unique(self, name: str) -> str:
        count = self.used[name] = self.used.get(name, 0) + 1
        stem, dot, suffix = name.partition(".")
        return name if count == 1 else f"{stem}-{count}{dot}{suffix}"


def _root_words(tools: Tools) -> list[str]:
    return ["--toolkit-root", tools.root] if tools.root else []


def _compile_options(line: Line, tools: Tools) -> list[str]:
    words = ["--compiler", tools.compiler, *_root_words(tools)]
    if line.has("--device-debug") and line.one("--dopt") != "on":
        words += ["--debug", "--opt-level", "0", "--lineinfo"]
    elif line.has("--generate-line-info") or line.has("--device-debug"):
        words.append("--lineinfo")
    if line.one("--fdevice-sanitize"):
        words += ["--sanitize", "memcheck"]
    if tools.compiler == "builtin":
        words += ["--launch-abi", line.one("--tileiras-launch-abi") or "simt"]
    for value in line.all("--entries"):
        words += ["--entry", value]
    for value in line.all("--tileiras-options"):
        words += [f"--option={value}"]
    if line.has("--disable-warnings"):
        words.append("--option=-w")
    if "all-warnings" in line.all("--Werror"):
        words.append("--option=--Werror")
    if tools.compiler == "builtin":
        if line.one("--maxrregcount") is not None:
            words.append(f"--ptxas-option=--maxrregcount={line.one('--maxrregcount')}")
        # What -v asks for is told from the kernel table, once (see _wants_usage).
        words += [f"--ptxas-option={value}" for value in line.all("--ptxas-options") if value not in _VERBOSE]
    return words


def _add_steps(job: Job, form: str, stem: str, entries: list[Entry], line: Line, tools: Tools, names: Names,
               text: bool, environ: Mapping[str, str]) -> None:  # fmt: skip
    """Appends the steps that lead from job.source to job.output."""
    assert job.output is not None
    options = _compile_options(line, tools)
    # A Tile IR entry is forward-compatible only where the launch ABI is the driver's own (architecture, section 6).
    tile_abi = tools.compiler == "nvidia" or line.one("--tileiras-launch-abi") == "tile"

    if form == "--tilebc":
        argv = [*tools.build, "bytecode", job.source, "-o", job.output]
        job.steps.append(Step("tileiras-build bytecode", job.source, argv, [job.source], job.output, "", 0))
        return
    single = form in ("--cubin", "--tilecubin", "--ptx")
    if form == "--ptx" and tools.compiler == "nvidia":
        raise Usage(diags.NVIDIA_PTX, option=_spell("--ptx", line))
    bytecode = job.source
    if tile_abi and text and not single and any(entry.kind == "virtual" for entry in entries):
        bytecode = names.of(stem + ".tilebc")
        argv = [*tools.build, "bytecode", job.source, "-o", bytecode]
        job.steps.append(Step("tileiras-build bytecode", job.source, argv, [job.source], bytecode, "", 0))
    images: dict[Entry, str] = {}
    tables: list[str] = []
    depfile = _wants_depfile(line)
    for target, kind in _compilations(form, entries, tile_abi, tools.compiler):
        if single:
            image = job.output
        else:
            image = names.of(f"{stem}.{target}" + (".ptx" if kind == "virtual" else ".tile.cubin"))
        argv = [*tools.build, "compile", *options, job.source, "-o", image, "--arch", target]
        show = kind == "elf" and tools.compiler == "builtin" and _wants_usage(line)
        if form == OBJECT or show:
            table = names.of(f"{stem}.{target}.kernels.json")
            tables.append(table)
            argv += ["--kernels-json", table]
            if show:
                job.usage.append(table)
        if depfile:
            argv += ["--depfile", names.temp(stem + ".d"), "--depfile-target", job.output]
            depfile = False
        for entry in entries:
            if entry.kind == kind and entry.target(tools.compiler) == target:
                images[entry] = image
        job.steps.append(Step("tileiras-build compile", job.source, argv, [job.source], image, target, 1))
    if single:
        return

    fatbin = job.output if form != OBJECT else names.of(stem + ".tile.fatbin")
    argv = [*tools.build, "fatbin", *_root_words(tools), "-o", fatbin]
    inputs: list[str] = []
    for entry in entries:
        kind = "--elf" if entry.kind == "elf" else "--tileir" if tile_abi else "--ptx"
        image = bytecode if kind == "--tileir" else images[entry]
        argv += [kind, f"{entry.label}={image}"]
        inputs.append(image)
    mode = "none" if line.has("--no-compress") else line.one("--compress-mode")
    if mode:
        argv += ["--compress", mode]
    job.steps.append(Step("tileiras-build fatbin", job.source, argv, inputs, fatbin, "", 2))
    if form != OBJECT:
        return

    prefix = line.one("--tileiras-prefix") or identifier(stem)
    source = names.of(stem + "_tile.cpp")
    header = line.one("--tileiras-header") or names.of(stem + "_tile.h")
    argv = [
        *tools.build,
        "header",
        "--prefix",
        prefix,
        "--language",
        "CXX",
        "--embed",
        "array",
        "--image",
        fatbin,
    ]
    for table in tables:
        argv += ["--json", table]
    argv += ["--header-out", header, "--source-out", source]
    job.steps.append(Step("tileiras-build header", job.source, argv, [fatbin, *tables], source, "", 3))
    argv = [host_compiler(line, tools, environ), "-c", "-x", "c++", "-O2", "-m64", "-fPIC", *host_options(line),
            "-I", os.path.dirname(header) or ".", source, "-o", job.output]  # fmt: skip
    job.steps.append(Step("host compiler", job.source, argv, [source], job.output, "", 4))


def _compilations(
    form: str, entries: Sequence[Entry], tile_abi: bool, compiler: str
) -> list[tuple[str, str]]:
    """Returns (architecture as the Tile compiler spells it, "elf" | "virtual") for every compilation, each once.

    -ptx is made for a virtual architecture. With the tile ABI a virtual entry is the bytecode itself: nothing to
    compile, unless it stands alone; then one compilation checks it and gives the kernel table.
    """
    if form == "--ptx":
        return [(entries[0].target(compiler).replace("sm_", "compute_"), "virtual")]
    found: list[tuple[str, str]] = []
    for entry in entries:
        if entry.kind == "virtual" and (tile_abi or form in ("--cubin", "--tilecubin")):
            continue
        one = (entry.target(compiler), entry.kind)
        if one not in found:
            found.append(one)
    return found or [(entries[0].target(compiler).replace("compute_", "sm_"), "elf")]


_VERBOSE = ("-v", "--verbose")


def _wants_usage(line: Line) -> bool:
    """Returns whether -res-usage or ptxas's own -v asks what each kernel uses."""
    return line.has("--resource-usage") or any(word in _VERBOSE for word in line.all("--ptxas-options"))


def _wants_depfile(line: Line) -> bool:
    return line.has("--generate-dependencies-with-compile") or line.has(
        "--generate-nonsystem-dependencies-with-compile")  # fmt: skip


def identifier(stem: str) -> str:
    """Returns a C identifier made of a file's stem: `my-kernel.v2` -> `my_kernel_v2`, `3d` -> `_3d`."""
    name = "".join(char if char.isascii() and (char.isalnum() or char == "_") else "_" for char in stem)
    return name if name and not name[0].isdigit() else "_" + name


def host_compiler(line: Line, tools: Tools, environ: Mapping[str, str]) -> str:
    """Returns the host compiler as nvcc chooses it: -ccbin (a program or its directory), NVCC_CCBIN, gcc."""
    chosen = line.one("--compiler-bindir") or environ.get("NVCC_CCBIN") or ""
    if chosen and os.path.isdir(chosen):
        return os.path.join(chosen, "gcc")
    return chosen or tools.host_compiler


def host_options(line: Line) -> list[str]:
    """Returns the words of the line that are meant for the host compiler."""
    words: list[str] = []
    forward = line.has("--forward-unknown-to-host-compiler") or line.has("--forward-unknown-opts")
    for item in line.items:
        if item.flag is None:
            if forward and not item.is_input:
                words += item.words
        elif item.flag.action == HOST:
            words += item.values if item.flag.values_are_words() else [item.flag.short]
    return words


def _rest_words(line: Line, replaced: Mapping[int, str | None]) -> list[str]:
    """Returns the line for nvcc: options files expanded, ours and the Tile inputs taken out, objects put in."""
    # `-x cu` would make nvcc read the objects as C++. Where suffixes say the same, -x goes; else the linker gets them.
    others = [item.values[0] for item in line.inputs() if not item.is_tile]
    has_objects = any(value is not None for value in replaced.values())
    plain = all(name.endswith((".cu", ".o", ".a", ".so", ".obj", ".lib")) for name in others)
    drop_x = has_objects and plain and line.one("--x") in (None, "cu")
    through_linker = has_objects and line.one("--x") is not None and not drop_x
    if through_linker and line.has("--lib"):
        raise Usage(diags.X_AND_LIB)
    words: list[str] = []
    for item in line.items:
        if id(item) in replaced:
            path = replaced[id(item)]
            if path is not None:
                words += ["-Xlinker", path] if through_linker else [path]
        elif item.flag is not None and item.flag.long == "--dependency-quoted-target-name":
            words += ["-MT", escape_make(item.values[0])]
        elif item.flag is not None and (item.flag.ours or (drop_x and item.flag.long == "--x")):
            continue
        else:
            words += item.words
    return words


def _depfile(
    line: Line, phase: str, job: Job, tools: Tools, names: Names, output: str | None
) -> Depfile | None:
    """Returns the rule to write, named as nvcc names it: -MF, else from -o, else from the input."""
    only = phase in DEPENDENCIES_ONLY
    if not only and not _wants_depfile(line):
        return None
    stem = os.path.splitext(os.path.basename(job.source))[0]
    path = line.one("--dependency-output")
    if path is None and output is not None:
        path = output if only else os.path.splitext(output)[0] + ".d"
    if path is None and not only:
        path = os.path.join(line.one("--output-directory") or "", stem + ".d")
    # nvcc calls the target k.o whatever is made; ours is what the line really writes.
    real = output if not only and output else job.output
    if only or real is None:
        real = os.path.join(line.one("--output-directory") or "", stem + ".o")
    if phase in ("--link", "--lib", "--run"):
        real = output or ("a.a" if phase == "--lib" else "a.out")
        if path is None or output is None:
            path = line.one("--dependency-output") or os.path.join(
                line.one("--output-directory") or "", stem + ".d"
            )
    quoted, verbatim = line.one("--dependency-quoted-target-name"), line.one("--dependency-target-name")
    if quoted is not None:
        target = escape_make(quoted)
    elif verbatim is not None and verbatim != output:
        target = verbatim
    else:
        # CMake names the output by -MT: one file, whatever characters it has.
        target = escape_make(verbatim if verbatim is not None else real)
    left = None
    for step in job.steps:
        if "--depfile" in step.argv:
            left = step.argv[step.argv.index("--depfile") + 1]
    return Depfile(path, target, line.has("--generate-dependency-targets"), left)
