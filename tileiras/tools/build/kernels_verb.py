"""``tileiras-build kernels``: several sources for several architectures in one process, down to header and source.

What compile, fatbin and header make one by one, for build systems with hundreds of kernels: starting a process costs more
than taking a result from the cache. One kernel's failure does not keep the others from being made, and a file whose
content would not change keeps its time, so that no more is built again than if each file had a command of its own.
"""

from __future__ import annotations

import os

from tileiras.diag import Catalogue, CompileError, Refusal
from tileiras.outputs import OutputError
from tileiras.progress import Line
from tileiras.toolchain.arch import VIRTUAL, Arch
from tileiras.toolchain.fatbin import COMPRESS_MODES, Image, make_fatbin
from tileiras.tools.build import builtin, compile_verb, cpu_verb, fatbin_verb, header_verb, record
from tileiras.tools.build.arguments import MANY, ONE, SWITCH, Arguments, Flag, UsageError, parse
from tileiras.tools.build.command import Failed, of_system, read_input, say
from tileiras.tools.build.depfile import READERS
from tileiras.tools.build.depfile import text_of as depfile_text
from tileiras.tools.build.job import Job, Result
from tileiras.tools.build.outputs import Outputs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tileiras.toolchain.locate import Tool

    _Made = tuple[record.Record, Job, Result]

diags = Catalogue("tileiras.tools.build.diags")

SYNOPSIS = "--folder DIR --arch sm_90... [options] -- SOURCE STEM PREFIX [SOURCE STEM PREFIX]..."

_OF_COMPILE = (
    "--compiler",
    "--opt-level",
    "--disable",
    "--lineinfo",
    "--debug",
    "--file-prefix-map",
    "--sanitize",
    "--launch-abi",
    "--tensor-maps",
    "--host-arch",
    "--host-os",
    "--option",
    "--ptxas-option",
    "--entry",
    "--bytecode-version",
    "--max-registers",
    "--no-spills",
    "--max-shared",
    "--toolkit-root",
    "--no-cache",
    "--verbose",
)
_BUDGETS = ("max_registers", "no_spills", "max_shared")
FLAGS = (
    Flag(
        "--folder", ONE, "where the artefacts go: STEM.sm_90.cubin, STEM.fatbin, STEM_tile.h and so on", "DIR"
    ),
    Flag("--code-folder", ONE, "where header and source go, if elsewhere", "DIR"),
    Flag(
        "--arch",
        MANY,
        "sm_90 for an image; compute_90 for the entry that a driver compiles; cpu for code for the host",
        "ARCH",
    ),
    Flag("--stamp", ONE, "a file that is written anew when all is done", "FILE"),
    Flag("--depfile", ONE, "what it was made from, in Make's form", "FILE"),
    Flag("--depfile-target", ONE, "the target in the depfile; default the stamp", "NAME"),
    Flag("--depfile-for", ONE, "who reads it: an error where that one cannot read a name", choices=READERS),
    Flag("--fatbin", SWITCH, "a container of each kernel's images"),
    Flag("--header", SWITCH, "and header and source that embed it"),
    Flag("--tilebc", SWITCH, "the bytecode of each kernel"),
    Flag("--compress", ONE, "as for fatbin", choices=COMPRESS_MODES, default="default"),
    Flag("--fatbinary-option", MANY, "handed to fatbinary as it is", "X"),
    *(flag for flag in header_verb.FLAGS if flag.name in ("--language", "--embed", "--namespace")),
    *(flag for flag in compile_verb.FLAGS if flag.name in _OF_COMPILE),
)


def run(arguments: Arguments, outputs: Outputs) -> None:
    """The verb. Errors: Failed with the code of the first kernel that failed, after all others were made."""
    words = arguments.inputs
    if not words or len(words) % 3:
        raise UsageError(diags.THREE_WORDS)
    if not arguments.folder or not arguments.arch:
        raise UsageError(diags.FOLDER_AND_ARCH)
    compiler = compile_verb.the_compiler(arguments)
    archs = [compile_verb.the_arch(text, compiler) for text in arguments.arch if text != cpu_verb.CPU]
    for_cpu = cpu_verb.CPU in arguments.arch
    if for_cpu:
        cpu_verb.refuse(arguments, compiler, alone=not archs)
    if arguments.embed == "incbin" and not archs:
        raise UsageError(diags.NOTHING_EMBEDDED, rest=" for --arch cpu alone")
    units = [_Unit(arguments, *words[at : at + 3]) for at in range(0, len(words), 3)]
    _check(units, archs, for_cpu, arguments)
    if arguments.depfile and not (arguments.depfile_target or arguments.stamp):
        raise UsageError(diags.DEPFILE_TARGET, option="--stamp")
    modules = builtin.modules_of(arguments.option)
    depfile = depfile_text(arguments, arguments.stamp, [*(unit.source for unit in units), *modules])
    tools = _Tools()
    for arch in archs:
        if arch.kind != VIRTUAL or arguments.launch_abi != "tile":
            units[0].prepare(arch, tools)
    if for_cpu:
        cpu_verb.check_processor(arguments)
    if arguments.bytecode_version:
        from tileiras.tools.build.bytecode_verb import check_version

        check_version(arguments.bytecode_version)
    name = (
        os.path.basename(arguments.stamp) if arguments.stamp else f"{os.path.basename(units[0].stem)}.kernels"
    )
    histories = record.Batch(arguments.folder, name.removesuffix(".batch"))
    worst = 0
    line = Line()
    for number, unit in enumerate(units):
        unit.line, unit.modules = line, modules
        line.tell(f"kernel {number + 1} of {len(units)}: {unit.source}")
        try:
            made = unit.make(archs, for_cpu, tools, histories, outputs)
            outputs.commit(is_last=False)
            for history, job, result in made:
                history.succeeded(job, result)
        except (Failed, UsageError, OutputError, CompileError, OSError) as error:
            outputs.discard(promised=not (isinstance(error, Failed) and error.of_line))
            line.clear()
            code = _report(error)  # of every kernel
            worst = worst or code
        outputs.forget()
    line.clear()
    histories.save()
    if worst:
        outputs.commit()  # nothing but the sweeping is left
        outputs.declare(arguments.depfile)
        raise Failed(None, worst)
    if arguments.stamp:
        outputs.put(arguments.stamp, b"")
    if depfile:
        outputs.put(arguments.depfile, depfile)
    outputs.commit()


def _check(units: list[_Unit], archs: list[Arch], for_cpu: bool, arguments: Arguments) -> None:
    """Errors: UsageError where two kernels would make one file or one C name, or an output is a source."""
    names = [str(arch) for arch in archs]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(diags.ARCH_TWICE, name=name)
    made: dict[str, str] = {}  # path -> what makes it
    if arguments.stamp:
        made[os.path.abspath(arguments.stamp)] = "--stamp"
    if arguments.depfile:
        made[os.path.abspath(arguments.depfile)] = "--depfile"
    sources = {os.path.realpath(unit.source) for unit in units}
    prefixes: dict[str, str] = {}
    for unit in units:
        if not unit.stem:
            raise UsageError(diags.EMPTY_STEM, source=unit.source)
        if arguments.header:
            header_verb.the_namespace(arguments.namespace, unit.prefix)
        for path in unit.paths(archs, for_cpu):
            other = made.get(os.path.abspath(path))
            if other is not None:
                raise UsageError(diags.MADE_TWICE, path=path, other=other, source=unit.source)
            made[os.path.abspath(path)] = unit.source
        if arguments.header and unit.prefix in prefixes:
            other = prefixes[unit.prefix]
            raise UsageError(diags.PREFIX_TWICE, other=other, source=unit.source, prefix=unit.prefix)
        prefixes[unit.prefix] = unit.source
    folders: dict[str, str] = {}  # as spelled -> without links: most outputs share one
    for path in made:
        folder, name = os.path.split(path)
        if folder not in folders:
            folders[folder] = os.path.realpath(folder)
        real = os.path.realpath(path) if os.path.islink(path) else os.path.join(folders[folder], name)
        if real in sources:
            raise UsageError(diags.INPUT_IS_OUTPUT, path=path)


def _report(error: Refusal | CompileError | OSError) -> int:
    """Says what stopped one kernel; its exit code."""
    from tileiras.terminal import refuse, show_all

    if isinstance(error, CompileError):
        return show_all(error)
    if isinstance(error, OSError):
        return refuse(of_system(error, error.filename))
    return refuse(error, "" if isinstance(error, Failed) else "tileiras-build kernels")


class _Tools:
    """The tools that are used: found for the first kernel, the same for all."""

    def __init__(self) -> None:
        self.of_compiler: dict[
            bool, dict[str, str]
        ] = {}  # for virtual architectures or not -> name -> identity
        self._fatbinary: tuple[Tool | None, str] | None = None

    def fatbinary(self, root: str | None) -> tuple[Tool | None, str]:
        """(tool, identity); (None, "") without one."""
        if self._fatbinary is None:
            from tileiras.toolchain.locate import find_tool

            tool = find_tool("fatbinary", root)
            self._fatbinary = tool, tool.identity() if tool else ""
        return self._fatbinary


class _Unit:
    """One kernel file and what is made of it."""

    line: Line  # that shows progress
    modules: list[str]  # of passes from outside

    def __init__(self, arguments: Arguments, source: str, stem: str, prefix: str) -> None:
        self.arguments = arguments
        self.source = source
        self.stem = stem
        self.prefix = prefix
        self.base = os.path.join(arguments.folder, stem)
        self.code = os.path.join(arguments.code_folder or arguments.folder, stem)

    def prepare(self, arch: Arch, tools: _Tools) -> None:
        """Checks the options, which are those of all units, and finds the tools. Errors: as of the verb compile."""
        job = Job(self._compile_arguments(arch), arch, self.source, b"")
        compile_verb.refuse(job)
        if (arch.kind == VIRTUAL) not in tools.of_compiler:
            tools.of_compiler[arch.kind == VIRTUAL] = compile_verb.tools_of(job)

    def make(
        self, archs: list[Arch], for_cpu: bool, tools: _Tools, histories: record.Batch, outputs: Outputs
    ) -> list[_Made]:
        """Stages every artefact; what to note of each compilation once they are in place."""
        arguments = self.arguments
        data = read_input(self.source, again=True)
        for path in self.paths(archs, for_cpu):
            outputs.declare(path, keep_if_same=True)
        made: list[_Made] = []
        images: list[Image] = []
        tables: list[tuple[str, bytes]] = []
        bytecode = b""
        is_portable = arguments.launch_abi == "tile" and any(arch.kind == VIRTUAL for arch in archs)
        if arguments.tilebc or is_portable:
            from tileiras.tools.build.bytecode_verb import to_bytecode

            bytecode = to_bytecode(data, arguments.bytecode_version, self.source)
        if arguments.tilebc:
            outputs.put(f"{self.base}.tilebc", bytecode)
        for arch in archs:
            virtual = arch.kind == VIRTUAL
            if virtual and arguments.launch_abi == "tile":
                # Portable tile code is the Tile IR itself: the driver compiles it for a later GPU.
                images.append(Image("tileir", arch.label, bytecode))
                continue
            job = Job(self._compile_arguments(arch), arch, self.source, data)
            job.modules = self.modules
            history = histories.record(job.arguments.o)
            try:
                result = self._compile(job, outputs, tools.of_compiler[virtual])
            except (CompileError, Failed) as error:
                if not (isinstance(error, Failed) and error.of_line):
                    history.failed()
                raise
            made.append((history, job, result))
            compile_verb.write(job, result, outputs)
            images.append(
                Image("ptx" if virtual else "elf", arch.label, result.parts["ptx" if virtual else "cubin"])
            )
            tables.append((str(job.arguments.kernels_json), result.parts["table"]))
        if for_cpu:
            table = cpu_verb.table_of(arguments, self.source, data)
            outputs.put(self.cpu_table, table)
            tables.append((self.cpu_table, table))
        if arguments.fatbin or arguments.header:
            self._bundle(images, tables, tools, outputs)
        return made

    @property
    def cpu_table(self) -> str:
        """The table with the code for the CPU."""
        return f"{self.base}.cpu.kernels.json"

    def paths(self, archs: list[Arch], for_cpu: bool) -> list[str]:
        """Every artefact."""
        arguments = self.arguments
        paths = [f"{self.base}.tilebc"] if arguments.tilebc else []
        paths += [self.cpu_table] if for_cpu else []
        for arch in archs:
            if arch.kind != VIRTUAL or arguments.launch_abi != "tile":
                paths += self._image_paths(arch)
        if archs and (arguments.fatbin or arguments.header):
            paths.append(f"{self.base}.fatbin")
        if arguments.header:
            paths += self._generated()
        return paths

    def _image_paths(self, arch: Arch) -> tuple[str, str]:
        suffix = "ptx" if arch.kind == VIRTUAL else "cubin"
        return f"{self.base}.{arch}.{suffix}", f"{self.base}.{arch}.kernels.json"

    def _generated(self) -> tuple[str, str]:
        suffix = "cpp" if self.arguments.language == "CXX" else "c"
        return f"{self.code}_tile.h", f"{self.code}_tile.{suffix}"

    def _compile_arguments(self, arch: Arch) -> Arguments:
        """What `tileiras-build compile` would have been told."""
        own = parse(compile_verb.FLAGS, [])
        for flag in compile_verb.FLAGS:
            if flag.name in _OF_COMPILE and not (arch.kind == VIRTUAL and flag.key in _BUDGETS):
                setattr(own, flag.key, getattr(self.arguments, flag.key))
        own.o, own.kernels_json = self._image_paths(arch)  # type: ignore[attr-defined]
        own.arch = str(arch)  # type: ignore[attr-defined]
        return own

    def _compile(self, job: Job, outputs: Outputs, tools: dict[str, str]) -> Result:
        result = compile_verb.compile_or_recall(job, outputs, tools)
        if result.log:
            self.line.clear()
            say(result.log.rstrip("\n"))
        compile_verb.check_budgets(job, result)
        return result

    def _bundle(
        self, images: list[Image], tables: list[tuple[str, bytes]], tools: _Tools, outputs: Outputs
    ) -> None:
        arguments = self.arguments
        path = f"{self.base}.fatbin"
        container = self._container(images, tools) if images else b""
        if images:
            outputs.put(path, container)
        if arguments.header:
            header, source = self._generated()
            unit = header_verb.gather(
                self.prefix, header_verb.the_namespace(arguments.namespace, self.prefix), tables
            )
            texts = header_verb.texts(unit, container, path, os.path.basename(header), arguments.embed)
            outputs.put(header, texts[0])
            outputs.put(source, texts[1])

    def _container(self, images: list[Image], tools: _Tools) -> bytes:
        """The fatbin; what fatbinary made of these images before is taken from the cache."""
        from tileiras.toolchain import cache
        from tileiras.toolchain.locate import SCRIPT

        arguments = self.arguments
        if arguments.compress == "none" and not arguments.fatbinary_option:
            return make_fatbin(images, "none")
        tool, identity = tools.fatbinary(arguments.toolkit_root)
        store = None if arguments.no_cache or identity.endswith(SCRIPT) else cache.open_cache()
        words = ["fatbin", identity, arguments.compress, *arguments.fatbinary_option]
        parts = [part for image in images for part in (image.kind, image.arch, image.data)]
        key = cache.key_of(*words, "images", *parts) if store is not None else ""
        found = store.get(key) if store is not None else None
        if found is not None and "fatbin" in found:
            return found["fatbin"]
        made = fatbin_verb.container(images, arguments.compress, tool, arguments.fatbinary_option)
        if store is not None:
            store.put(key, {"fatbin": made})
        return made
