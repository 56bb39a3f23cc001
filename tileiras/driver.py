"""Runs the stages in order and keeps each artefact: source -> verified module -> PTX -> cubin.

The command, `tileiras.compile` and the C API share this path. Checks come in the order of the real tool:
magic and version (3), target (2), optimisation level and host (2), reading (3), verification and compilation (5).

A stage stops by raising `CompileError`; whatever ends with code 5 ends with the generic line. An exception that is no
`CompileError` is a broken invariant: `FatalError`, on which the command aborts and which `contain` turns into code 5.
"""

from __future__ import annotations

from tileiras.diag import (
    EXIT_COMPILE,
    EXIT_CONFIGURATION,
    EXIT_USAGE,
    NO_CAPABILITY,
    NO_CAPABILITY_O2,
    OUT_OF_MEMORY,
    UNREADABLE,
    Catalogue,
    CompileError,
    Emitted,
    FatalError,
    Sink,
    suggestion,
)  # fmt: skip
from tileiras.options import (
    DISABLE,
    HOST_ARCHES,
    HOST_OSES,
    LAUNCH_ABIS,
    OPT_LEVELS,
    PARTS,
    REMARK_CATEGORIES,
    REMARK_KINDS,
    TENSOR_MAPS,
    Options,
    disabled_parts,
    renamed,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from typing import Any

D = Catalogue("tileiras.diags")
STATIC_SHARED_BYTES = 48 * 1024  # above: extended static (tile) or dynamic (simt)


class Kernel:
    """One kernel of a program, as a launcher needs it."""

    __slots__ = (
        "block", "cluster", "dynamic_shared", "launch_abi", "module", "name", "params", "registers", "spill_bytes",
        "static_shared", "symbol", "tensor_maps",
    )  # fmt: skip

    def __init__(self, name: str) -> None:
        self.name = name
        self.symbol = name
        self.params: list[dict[str, Any]] = []  # type (element type text), size, offset in bytes
        self.tensor_maps: tuple[
            Any, ...
        ] = ()  # of hidden parameters behind those, compiler/target/tensor_maps.py
        self.block = (1, 1, 1)
        self.cluster = (1, 1, 1)
        self.static_shared = 0
        self.dynamic_shared = 0
        self.launch_abi = "tile"
        self.registers: int | None = None
        self.spill_bytes: int | None = None
        self.module: Any = None  # where the entry stands

    @property
    def cpu_bytes(self) -> int:
        """Bytes for the tiles of one tile block on the target cpu, for which the kernel is compiled now if it was not.

        Errors: LaunchError where the CPU target is missing or does not take the kernel.
        """
        from tileiras.run.cpu import kernel_of

        return kernel_of(self.module, self.name, False).cpu_bytes

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "symbol": self.symbol,
            "params": self.params,
            "hidden": [each.as_dict() for each in self.tensor_maps],  # where each lies, the image says
            "block": list(self.block),
            "cluster": list(self.cluster),
            "static_shared": self.static_shared,
            "dynamic_shared": self.dynamic_shared,
            "registers": self.registers,
            "spill_bytes": self.spill_bytes,
        }


class Program:
    """The result of a compilation. `cubin` is empty when only PTX was asked for."""

    __slots__ = (
        "cubin",
        "diagnostics",
        "kernels",
        "module",
        "options",
        "profile",
        "ptx",
        "ptxas_log",
        "source",
        "target",
        "times",
        "translated",
    )

    def __init__(self, options: Options, target: Any, module: Any) -> None:
        self.options = options
        self.target = target
        self.module = module
        self.ptx = ""
        self.cubin = b""
        self.ptxas_log = ""  # what ptxas says of registers and memory, when it was asked with -v
        self.kernels: dict[str, Kernel] = {}
        self.diagnostics: list[Emitted] = []
        self.times: list[tuple[str, float]] = []
        self.translated: dict[str, Any] = {}  # kernels that launches have made ready, by name
        self.source: tuple[bytes | str, str] = (b"", "")  # what was compiled, and its file's name
        self.profile: Any = None  # of the last launch on the emulator that was given one

    def launch(
        self, kernel: str | Kernel, grid: Any, args: Any, target: str = "emulator", **more: Any
    ) -> None:
        """Run a kernel of this program over a grid of tile blocks; what a launch makes of it serves the next ones.

        Arguments, `memory`, `check`, `seed` and `out` as in `tileiras.launch`; any number of threads may launch at once.
        """
        from tileiras.run import launch

        launch(self, kernel.name if isinstance(kernel, Kernel) else kernel, grid, args, target, **more)

    def report(self, path: str | os.PathLike[str]) -> None:
        """Write what explains this compile to a file: .html to read, .json as data (docs/report.md).

        The module is compiled once more, and watched. The counts of the last launch on the emulator that was given a
        profile are in it. Errors: CompileError(2) for a file that cannot be written, ValueError for another ending.
        """
        from tileiras.report.program import report_of

        report_of(self, path)

    def table(self) -> dict[str, Any]:
        """The kernel table that build rules read (kernels.json)."""
        return {
            "version": 1,
            "arch": self.target.name,
            "compiler": "builtin",
            "launch_abi": self.options.launch_abi,
            "host_arch": self.options.host_arch or host_arch(),
            "kernels": [kernel.as_dict() for kernel in self.kernels.values()],
        }


def host_arch() -> str:
    import os

    machine = os.uname().machine if hasattr(os, "uname") else "x86_64"
    return {"arm64": "aarch64", "AMD64": "x86_64"}.get(machine, machine)


def read_file(path: str, sink: Sink) -> bytes:
    """The bytes of an input file. Errors: exit code 1."""
    try:
        with open(path, "rb") as handle:
            return handle.read()
    except (OSError, ValueError) as error:
        sink.emit(UNREADABLE, path=str(path), why=getattr(error, "strerror", None) or str(error))
        raise sink.fail(EXIT_USAGE) from None


def check_options(options: Options, sink: Sink) -> None:
    """Everything the options alone can get wrong, before any pass runs. Errors: exit code 2."""
    from tileiras.compiler.target import sm

    if options.gpu_name is not None and sm.find(options.gpu_name) is None:
        sink.emit(D.UNSUPPORTED_TARGET, name=options.gpu_name)
    elif options.opt_level not in OPT_LEVELS:
        sink.emit(D.BAD_OPT_LEVEL, level=options.opt_level)
    elif options.host_os is not None and options.host_os not in HOST_OSES:
        sink.emit(D.BAD_HOST_OS, name=options.host_os)
    elif options.host_arch is not None and options.host_arch not in HOST_ARCHES:
        sink.emit(D.BAD_HOST_ARCH, name=options.host_arch)
    elif options.device_debug and options.opt_level != 0:
        sink.emit(D.DEBUG_NEEDS_O0)
    elif options.launch_abi not in LAUNCH_ABIS:
        sink.emit(D.BAD_ABI, name=options.launch_abi)
    elif options.tensor_maps not in TENSOR_MAPS:
        sink.emit(D.BAD_TENSOR_MAPS, name=options.tensor_maps)
    elif options.tensor_maps == "launcher" and options.launch_abi != "simt":
        sink.emit(D.MAPS_NEED_SIMT, abi=options.launch_abi)
    elif options.sanitize not in (None, "memcheck"):
        sink.emit(D.BAD_SANITIZER, name=options.sanitize)
    elif (wrong := wrong_remarks(options.remarks)) is not None:
        sink.emit(D.BAD_REMARKS, name=wrong)
    elif (wrong := wrong_disabled(options.disable)) is not None:
        known = f"{', '.join(PARTS[:-1])} or {PARTS[-1]}"
        sink.emit(D.BAD_PART, place="--disable", name=wrong, known=known, near="")
    elif unknown := [part for part in disabled_parts(options.disable) if part not in PARTS]:
        place = "--disable" if unknown[0] in disabled_parts(options.disable, "") else DISABLE
        sink.emit(
            D.BAD_PART,
            place=place,
            name=unknown[0],
            known=f"{', '.join(PARTS[:-1])} or {PARTS[-1]}",
            near=suggestion(unknown[0], PARTS),
        )
    else:
        return
    raise sink.fail(EXIT_CONFIGURATION)


def wrong_disabled(asked: Any) -> str | None:
    """What in the parts to leave out is no text; None where all are."""
    if isinstance(asked, str):
        return None
    if not isinstance(asked, (list, tuple, set, frozenset)):
        return repr(asked)
    return next((repr(part) for part in asked if not isinstance(part, str)), None)


def wrong_remarks(asked: Any) -> str | None:
    """What in the remarks asked for is neither a kind nor a category; None where everything is one."""
    if not isinstance(asked, dict):
        return repr(asked)
    wrong = [kind for kind in asked if kind not in REMARK_KINDS]
    wrong += [category for category in asked.values() if category not in REMARK_CATEGORIES]
    return repr(wrong[0]) if wrong else None


def find_target(options: Options, sink: Sink, version: str, module: Any) -> Any:
    """The target row. The module's attribute wins over the option, which is then written onto the module.

    Errors: exit code 2; 5 for text that names no capability anywhere.
    """
    from tileiras.compiler.target import sm

    capability = module.attrs.get("nv_tileaa.compute_capability")
    spec = module.attrs.get("nv_tileaa.target_spec")
    name = options.gpu_name
    if capability is not None:
        name = f"sm_{getattr(capability, 'value', capability)}"
        if options.gpu_name is not None and options.gpu_name[:-1] == name and sm.find(options.gpu_name):
            name = options.gpu_name  # the same GPU, spelled sm_90a
    elif name is None and spec is not None:
        name = str(spec)
    if name is None:
        if version:
            sink.emit(D.NO_TARGET, version=version)
            raise sink.fail(EXIT_CONFIGURATION)
        sink.emit(NO_CAPABILITY if options.opt_level == 3 else NO_CAPABILITY_O2)
        raise sink.fail(EXIT_COMPILE)
    target = sm.find(name, sm.PORTABLE if options.portable else "")
    if target is None:
        sink.emit(D.UNSUPPORTED_TARGET, name=name)
        raise sink.fail(EXIT_CONFIGURATION)
    return target


def check_input(data: bytes | str, options: Options, sink: Sink, *, file: str = "") -> str:
    """Magic, version and options, in this order; the version of bytecode, "" of text. No pass has run.

    Errors: exit codes 3 and 2.
    """
    from tileiras.compiler import source
    from tileiras.compiler.bytecode.reader import check_header

    version = ""
    if isinstance(data, bytes) and not source.looks_like_text(data):
        version = check_header(data, sink, file=file)
    check_options(options, sink)
    if version and options.gpu_name is None:  # bytecode has no place for a target
        sink.emit(D.NO_TARGET, version=version)
        raise sink.fail(EXIT_CONFIGURATION)
    return version


def compile_source(
    data: bytes | str, options: Options, sink: Sink, *, file: str = "", watch: Any = None
) -> Program:
    """Compile bytecode or text. Errors: CompileError with the stage's exit code; the sink saw everything.

    `watch`: who collects what a report shows (`tileiras.report.watch.Watch`).
    """
    from tileiras.compiler import source

    if isinstance(data, str) and "\n" not in data and "{" not in data:
        data = data.encode()  # text without a line break is content here, never a path
    try:
        version = check_input(data, options, sink, file=file)
        module = source.load(data, sink, file=file)
    except Exception as error:
        raise conclude(error, sink) from error
    program = compile_loaded(module, options, sink, version=version, watch=watch)
    program.source = (data, file)
    return program


def conclude(error: Exception, sink: Sink) -> Exception:
    """How a failed compile ends: everything delivered, the generic line last.

    A defect of ours in one compile is a failed compile (code 5) and says so; only a stage that declares its own
    state broken aborts. TILEIRAS_TRACEBACK=1 lets the exception through.
    """
    if isinstance(error, FatalError):
        return error
    if isinstance(error, MemoryError):
        sink.emit(OUT_OF_MEMORY)
        return sink.fail(EXIT_USAGE)
    if not isinstance(error, CompileError):
        import os

        if os.environ.get("TILEIRAS_TRACEBACK"):
            return error
        sink.emit(D.INTERNAL, what=f"{type(error).__name__}: {error}")
        sink.emit(D.FAILED)
        return sink.fail(EXIT_COMPILE)
    seen = set(map(id, sink.emitted))
    for emitted in error.diagnostics:  # a stage with a sink of its own
        if id(emitted) not in seen:
            sink.deliver(emitted)
    if error.exit_code == EXIT_COMPILE and not (sink.emitted and sink.emitted[-1].text == D.FAILED.text):
        sink.emit(D.FAILED)
    return sink.fail(error.exit_code)


def contain(fatal: FatalError, sink: Sink) -> CompileError:
    """A fatal error as the library reports it: code 5."""
    sink.emit(D.FATAL, text=str(fatal))
    sink.emit(D.FAILED)
    return sink.fail(EXIT_COMPILE)


def compile_loaded(
    module: Any, options: Options, sink: Sink, *, version: str = "", watch: Any = None
) -> Program:
    """Compile a cuda_tile module that was read or parsed. Errors: as `compile_source`."""
    try:
        if watch is not None:
            watch.loaded(module)
        check_options(options, sink)
        return _compile(module, find_target(options, sink, version, module), options, sink, watch)
    except Exception as error:
        raise conclude(error, sink) from error


def _compile(module: Any, target: Any, options: Options, sink: Sink, watch: Any = None) -> Program:
    from time import perf_counter

    from tileiras.compiler.ir.verify import verify

    program = Program(options, target, module)
    if watch is not None:
        watch.begins(program)
    clock = perf_counter()

    def lap(name: str) -> None:
        nonlocal clock
        now = perf_counter()
        program.times.append((name, now - clock))
        clock = now

    if not verify(module, sink):
        raise sink.fail(EXIT_COMPILE)
    lap("verify")
    if options.sanitize and options.emit != "cubin":
        sink.emit(D.NOT_INSTRUMENTED, name=options.sanitize, emit=options.emit)
    if options.emit == "tilebc":
        return program
    _check_names(module, sink)
    from tileiras.compiler import pipeline

    tool, launch_metadata = _assembler(options)

    def after(name: str, ir: Any) -> None:
        lap(name)
        if watch is not None:
            watch.after(name, ir)

    def aside(emitted: Emitted) -> bool:
        from tileiras.remarks import wanted

        if not emitted.diag.kind or wanted(emitted, options.remarks):
            return False
        watch.unheard(emitted)
        return True

    asked = options.remarks if any(c != "none" for c in options.remarks.values()) else None
    if watch is not None:  # passes say all, and the report takes what nobody else asked for
        asked, sink.aside = dict.fromkeys(REMARK_KINDS, "all"), aside
    try:
        stages = pipeline.compile_module(
            module,
            target,
            sink,
            opt_level=options.opt_level,
            lineinfo=options.lineinfo,
            device_debug=options.device_debug,
            rename=lambda path: renamed(path, options.file_prefix_map),
            launch_abi=options.launch_abi,
            launch_metadata=launch_metadata,
            disable=disabled_parts(options.disable),
            plugins=options.plugins,
            tensor_maps=options.tensor_maps,
            remarks=asked,
            after=after,
            watch=watch,
            verify_each=options.verify_each,
        )
    finally:
        sink.aside = None
    program.ptx = stages.ptx
    _kernels(program, stages, sink)
    if options.emit == "cubin":
        _assemble(program, stages, tool, sink, watch)
        lap("ptxas")
    if watch is not None:
        watch.done(tool)
    program.diagnostics = list(sink.emitted)
    return program


def _check_names(module: Any, sink: Sink) -> None:
    """Errors: exit code 5 for a kernel or global whose name PTX cannot spell, or has another use for."""
    symbols = [op for op in module.regions[0].block.ops if op.spec.name in ("entry", "global")]
    entries = {op.attrs["sym_name"] for op in symbols if op.spec.name == "entry"}
    for op in symbols:
        name = op.attrs["sym_name"]
        if not is_ptx_identifier(name):
            sink.emit(D.BAD_NAME, loc=op.loc, name=name)
        elif what := taken_by(name, entries):
            sink.emit(D.TAKEN_NAME, loc=op.loc, name=name, what=what)
        else:
            continue
        raise sink.fail(EXIT_COMPILE)


def taken_by(name: str, entries: set[str]) -> str:
    """What the PTX of a module with these entries, or PTX itself, calls `name`; empty when it is free."""
    known = _TAKEN.get(name)
    if known or name.startswith("$L") and name[2:].isdigit():
        return known or "a label of generated code"
    for mark, what in (("$str", "a string"), ("_param_", "a parameter")):
        owner, found, number = name.rpartition(mark)
        if found and number.isdigit() and owner in entries:
            return f"{what} of kernel '{owner}'"
    return ""


_TAKEN = {
    "WARP_SZ": "the number of lanes in a warp",
    "vprintf": "the function behind print_tko",
    "__assertfail": "the function behind assert",
    "___NV_TILE_LAUNCH_META_DATA___": "the mark of tile kernels",
    "$smem": "the shared memory of a kernel",
    "$smem_dynamic": "the shared memory of a kernel",
    "$stack": "the local memory of a kernel",
}


def is_ptx_identifier(name: str) -> bool:
    """Whether PTX can spell a symbol: what it cannot would end up as text between its directives."""
    rest = name.replace("_", "a").replace("$", "a")
    return rest.isascii() and rest.isalnum() and not rest[0].isdigit() and name not in ("_", "$")


def _kernels(program: Program, stages: Any, sink: Sink) -> None:
    for fn in stages.nvvm.functions:
        kernel = Kernel(fn.name)
        offset = 0
        for (_, size), type in zip(fn.params, fn.param_types):
            offset = (offset + size - 1) // size * size
            kernel.params.append({"type": type, "size": size, "offset": offset})
            offset += size
        kernel.tensor_maps = tuple(fn.tensor_maps)
        kernel.block = fn.block
        kernel.cluster = fn.cluster
        kernel.static_shared = 0 if fn.dynamic_shared_bytes else fn.shared_bytes
        kernel.dynamic_shared = fn.dynamic_shared_bytes
        kernel.launch_abi = program.options.launch_abi
        kernel.module = program.module
        program.kernels[fn.name] = kernel
        if fn.shared_bytes > program.target.smem_bytes_max:
            sink.emit(
                D.NEEDS_SHARED, loc=_most_shared(stages.tileas, fn.name), kernel=fn.name, need=fn.shared_bytes,
                target=program.target.name, have=program.target.smem_bytes_max,
            )  # fmt: skip
    if sink.errors:
        raise sink.fail(EXIT_COMPILE)


def _most_shared(module: Any, name: str) -> Any:
    """Where the op of a kernel stands that takes most shared memory."""
    function = next(f for f in module.regions[0].block.ops if f.attrs.get("sym_name") == name)

    def taken(op: Any) -> int:
        size: int = op.attr("bytes") if op.spec.name == "alloc_shared" else op.attrs.get("scratch", (0, 0))[1]
        return size

    return max(function.walk(), key=taken).loc


def _assembler(options: Options) -> tuple[Any, bool]:
    """(ptxas, whether its PTX carries the marks of tile kernels). PTX that nobody here assembles stays portable.

    Errors: exit code 2 for tile images and a ptxas that cannot mark them.
    """
    if options.emit != "cubin":
        return None, False
    from tileiras.toolchain import locate, ptxas

    tool = ptxas.as_tool(locate.find_ptxas(options.toolkit_root) if options.ptxas is None else options.ptxas)
    if options.launch_abi == "tile":
        ptxas.check_launch_metadata(tool)
    return tool, options.launch_abi == "tile"


def check_named_tools(options: Options) -> None:
    """Errors: exit code 2 where the ptxas or the toolkit that the options name cannot be used."""
    if options.emit != "cubin":
        return
    if options.ptxas is not None:
        from tileiras.toolchain import ptxas

        ptxas.check_named(options.ptxas)
    elif options.toolkit_root is not None:
        from tileiras.toolchain import locate

        locate.find_ptxas(options.toolkit_root)


def refused_by_ptxas(options: Options) -> list[str]:
    """What ptxas says to its options on this line where it does not take them, tried on a module without kernels.

    [] where it does, or is not asked, or cannot be; then the compile says what is wrong. An option may also
    name what only the kernel has: so this alone is no error, but the same words about the kernel are the option's.
    """
    if not options.ptxas_options or options.emit != "cubin":
        return []
    from tileiras.archs import ROWS
    from tileiras.toolchain import locate, ptxas

    row = next((row for row in ROWS if f"sm_{row[0]}" == (options.gpu_name or "").rstrip("af")), ROWS[1])
    target = options.gpu_name or f"sm_{row[0]}"
    major, minor = next(
        (since for suffix, since, _ in row[4] if target == f"sm_{row[0]}{suffix}"), row[4][0][1]
    )
    try:
        tool = ptxas.as_tool(
            locate.find_ptxas(options.toolkit_root) if options.ptxas is None else options.ptxas
        )
        ptxas.assemble(
            f".version {major}.{minor}\n.target {target}\n.address_size 64\n",
            target=target, ptxas=tool, options=options.ptxas_options, opt_level=options.opt_level,
        )  # fmt: skip
    except CompileError as error:
        return ptxas.words_of(error.diagnostics)
    return []


def _assemble(program: Program, stages: Any, tool: Any, sink: Sink, watch: Any = None) -> None:
    from tileiras.compiler.ptx.text import spell_target
    from tileiras.toolchain import ptxas

    options = program.options
    result = ptxas.assemble(
        program.ptx,
        target=spell_target(stages.nvvm),
        ptxas=tool,
        options=options.ptxas_options,
        lineinfo=options.lineinfo and not options.device_debug,
        debug=options.device_debug,
        opt_level=options.opt_level,
        extended_smem=any(
            fn.shared_bytes > STATIC_SHARED_BYTES and not fn.dynamic_shared_bytes
            for fn in stages.nvvm.functions
        ),
        sanitize=options.sanitize,
    )
    program.cubin = result.cubin
    if "-v" in options.ptxas_options or "--verbose" in options.ptxas_options:
        program.ptxas_log = result.log
    for warning in result.warnings:
        sink.deliver(warning)
    for name, resources in result.kernels.items():
        kernel = program.kernels.get(name)
        if kernel is not None:
            if watch is not None:
                watch.resources[name] = resources
            kernel.registers = resources.registers
            kernel.spill_bytes = resources.spill_bytes
            if options.remarks:
                _remark_resources(program, kernel, resources, sink)


def _remark_resources(program: Program, kernel: Kernel, resources: Any, sink: Sink) -> None:
    """What ptxas made of the registers, at the head of the kernel."""
    from tileiras.remarks import wanted

    head = next((op for op in program.module.walk() if op.attrs.get("sym_name") == kernel.name), None)
    x, y, z = kernel.block
    facts: dict[str, object] = {"function": kernel.name}
    found = [Emitted(D.RESOURCES, head and head.loc, facts={
        **facts, "registers": resources.registers, "threads": x * y * z,
        "shared": kernel.static_shared + kernel.dynamic_shared,
    }.items())]  # fmt: skip
    if resources.spill_bytes:
        spilled = {**facts, "bytes": resources.spill_bytes, "loaded": resources.spill_load_bytes}
        found.append(Emitted(D.SPILLED, head and head.loc, facts=spilled.items()))
    for emitted in found:
        if wanted(emitted, program.options.remarks):
            sink.deliver(emitted)
