"""``tileiras-build compile``: one source, one architecture, by either compiler.

The built-in compiler runs in this process through `tileiras.cli`, NVIDIA's as a child with an environment
that leads it to the ptxas of its own release.  Both write to temporary names; what the build system sees
appears at the end, together.  The same inputs, options and tools give the same bytes, so the result is also
kept in the cache.
"""

from __future__ import annotations

import os

from tileiras.archs import NUMBERS, NVIDIA_NUMBERS
from tileiras.diag import EXIT_COMPILE, Catalogue, CompileError, Emitted, Loc, suggestion
from tileiras.options import DISABLE, PARTS, disabled_parts, is_number
from tileiras.settings import BUILD, COMPILERS, LIST, Setting, of
from tileiras.settings import MANY as SETTING_MANY
from tileiras.settings import SWITCH as SETTING_SWITCH
from tileiras.toolchain.arch import REAL, VIRTUAL, Arch, parse_archs
from tileiras.toolchain.locate import SCRIPT
from tileiras.tools.build.arguments import MANY, ONE, SWITCH, Arguments, Flag, UsageError
from tileiras.tools.build.command import Failed, read_input, say
from tileiras.tools.build.depfile import text_of
from tileiras.tools.build.job import Job, Result
from tileiras.tools.build.outputs import Outputs

diags = Catalogue("tileiras.tools.build.diags")
driver = Catalogue("tileiras.diags")
toolchain = Catalogue("tileiras.toolchain.diags")

SYNOPSIS = "[options] INPUT -o OUT.cubin --arch sm_90"
_KINDS = {SETTING_SWITCH: SWITCH, LIST: MANY, SETTING_MANY: MANY}


def _flag(setting: Setting) -> Flag:
    (spelling,) = setting.spellings(BUILD)
    default = setting.default_at(BUILD)
    text = setting.help_at(BUILD) + (f"; default {default}" if default else "")
    name = ("-" if len(spelling) == 1 else "--") + spelling
    kind = _KINDS.get(setting.kind_at(BUILD), ONE)
    return Flag(name, kind, text, setting.metavar, setting.values_at(BUILD))


FLAGS = tuple(map(_flag, of(BUILD)))


def run(arguments: Arguments, outputs: Outputs) -> None:
    """The verb."""
    from tileiras.tools.build import builtin, record

    if len(arguments.inputs) != 1:
        raise UsageError(diags.ONE_INPUT, count=len(arguments.inputs))
    source = arguments.inputs[0]
    data = read_input(source, again=bool(arguments.depfile))
    if not arguments.arch:
        raise Failed(diags.NO_ARCH)
    compiler = the_compiler(arguments)
    if arguments.arch == "cpu":
        if arguments.report:
            raise Failed(diags.REPORT_OF_CPU)
        from tileiras.tools.build import cpu_verb

        cpu_verb.run(arguments, outputs, source, data, compiler)
        return
    arch = the_arch(arguments.arch, compiler)
    if arch.kind == VIRTUAL and arguments.o and arguments.ptx:
        raise UsageError(diags.PTX_TWICE)
    wanted = (arguments.o, arguments.ptx, arguments.tilebc, arguments.kernels_json)
    if not any(wanted):
        raise UsageError(diags.NO_OUTPUT)
    if arguments.depfile and not (arguments.depfile_target or arguments.o):
        raise UsageError(diags.DEPFILE_TARGET, option="-o")
    if arguments.report:
        _check_report(arguments.report)
    if bool(arguments.remarks_output) > bool(arguments.remarks):
        raise UsageError(diags.REMARKS_OUTPUT)
    job = Job(arguments, arch, source, data)
    refuse(job)
    job.modules = builtin.modules_of(arguments.option)
    tools = tools_of(job)
    depfile = text_of(arguments, arguments.o, job.depends)
    history = record.open_record(arguments)
    declare(arguments, outputs)
    try:
        result = compile_or_recall(job, outputs, tools)
        if result.log:
            say(result.log.rstrip("\n"))
        check_budgets(job, result)
    except (CompileError, Failed) as error:
        if not (isinstance(error, Failed) and error.of_line):
            history.failed()
        raise
    write(job, result, outputs, depfile)
    outputs.commit()
    history.succeeded(job, result)


def _check_report(path: str) -> None:
    """Errors: UsageError for a name that says no form, OutputError for a file that cannot be written."""
    from tileiras.report import write

    if problem := write.wrong_name(path):
        raise UsageError(diags.REPORT_NAME, problem=problem)
    write.check(path)


def the_compiler(arguments: Arguments) -> str:
    """ "builtin" or "nvidia"."""
    compiler = arguments.compiler or os.environ.get("TILEIRAS_COMPILER") or "builtin"
    if compiler not in COMPILERS:
        raise Failed(diags.COMPILER, compiler=compiler, known=", ".join(COMPILERS))
    return compiler


def declare(arguments: Arguments, outputs: Outputs) -> None:
    """Promises what the line names: from here on it is the source, or a tool, that fails."""
    for path in (
        arguments.o,
        arguments.ptx,
        arguments.tilebc,
        arguments.kernels_json,
        arguments.depfile,
        arguments.remarks_output,
    ):
        outputs.declare(path)


def the_arch(text: str, compiler: str) -> Arch:
    """The one architecture that `text` names."""
    supported = NVIDIA_NUMBERS if compiler == "nvidia" else NUMBERS
    archs, _ = parse_archs(text, supported)
    reals = [arch for arch in archs if arch.kind == REAL]
    if len(archs) == 1:
        return archs[0]
    if len(reals) == 1:  # "90" names one GPU here; only in a list does it stand for two entries
        return reals[0]
    raise Failed(toolchain.ARCH_NOT_ONE, 2, text=text)


def refuse(job: Job) -> None:
    """What an option cannot be, or the chosen compiler cannot do, is said, never ignored."""
    arguments = job.arguments
    _number(arguments.max_registers, "--max-registers")
    parse_size(arguments.max_shared)
    for word in arguments.file_prefix_map:
        old, equals, _ = word.rpartition("=")
        if not old or not equals:
            raise UsageError(diags.PREFIX_MAP, option="option '--file-prefix-map'", word=word)
    if arguments.bytecode_version:
        from tileiras.tools.build.bytecode_verb import check_version

        check_version(arguments.bytecode_version)
    if job.host_arch not in ("x86_64", "aarch64"):
        raise Failed(driver.BAD_HOST_ARCH, 2, name=job.host_arch)
    for part in job.disable:
        if part not in PARTS:
            place = "--disable" if part in disabled_parts(arguments.disable, "") else DISABLE
            known = f"{', '.join(PARTS[:-1])} or {PARTS[-1]}"
            raise Failed(
                driver.BAD_PART, 2, place=place, name=part, known=known, near=suggestion(part, PARTS)
            )
    if arguments.debug and arguments.opt_level not in (None, "0"):
        raise Failed(diags.DEBUG_LEVEL)
    if job.arch.kind == VIRTUAL and (arguments.max_registers or arguments.no_spills):
        raise Failed(diags.VIRTUAL_BUDGET, arch=job.arch, label=job.arch.label)
    if job.tensor_maps == "launcher" and job.compiler == "builtin" and job.launch_abi != "simt":
        raise Failed(diags.TENSOR_MAPS_ABI)
    if job.compiler != "nvidia":
        if arguments.option:
            from tileiras.tools.build import builtin

            builtin.check_options(["--emit=ptx"] * (job.arch.kind == VIRTUAL) + arguments.option)
        return
    if job.wants_ptx:
        what = f"PTX for {job.arch}" if job.arch.kind == VIRTUAL else "--ptx"
        raise Failed(diags.NVIDIA_PTX, what=what)
    if job.launch_abi == "simt":
        raise Failed(diags.NVIDIA_SIMT)
    if arguments.report:
        raise Failed(diags.NVIDIA_REPORT)
    if arguments.disable:
        raise Failed(diags.NVIDIA_DISABLE)
    if job.tensor_maps == "launcher":
        raise Failed(diags.NVIDIA_TENSOR_MAPS)
    if arguments.ptxas_option:
        raise Failed(diags.NVIDIA_PTXAS)


def tools_of(job: Job) -> dict[str, str]:
    """What decides the outcome of `job` beside input and options."""
    from tileiras.tools.build import builtin, nvidia

    return (nvidia if job.compiler == "nvidia" else builtin).tools(job)


def compile_or_recall(job: Job, outputs: Outputs, tools: dict[str, str]) -> Result:
    """The parts that `job` asks for, from the cache where it has them."""
    from tileiras.toolchain import cache
    from tileiras.tools.build import builtin, nvidia

    compiler = nvidia if job.compiler == "nvidia" else builtin
    # What a report shows is seen by compiling; the image is the one that the cache has.
    store = None if job.arguments.no_cache or job.arguments.report else cache.open_cache()
    if any(identity.endswith(SCRIPT) for identity in tools.values()) or any(
        map(_names_a_tool, job.arguments.option)
    ):
        store = None  # what such a tool does depends on more than is known here
    key = ""
    if store is not None:
        key = _key(job, tools)
        found = store.get(key)
        if found is not None and not _is_result(found, job):
            store.drop(key)
            found = None
        # Another file of the same bytes must not be reported under the name of the first.
        if found is not None and found["log"] and found["source"] != os.fsencode(job.source):
            found = None
        store.count("misses" if found is None else "hits")
        if found is not None:
            if job.arguments.verbose:
                say(f"{job.source}: taken from the cache ({store.directory})")
            del found["source"]
            return Result(found, found.pop("log").decode("utf-8", "replace"), tools)
    result = compiler.compile(job, outputs)
    result.tools = tools
    if store is not None and _is_unchanged(job):
        said = {"log": result.log.encode("utf-8", "replace"), "source": os.fsencode(job.source)}
        store.put(key, {**result.parts, **said})
    return result


def _names_a_tool(option: str) -> bool:
    return option.lstrip("-").partition("=")[0] in ("ptxas", "toolkit-root")


def _is_result(parts: dict[str, bytes], job: Job) -> bool:
    """Whether an entry of the cache holds what this job makes, in a form that the rest of the verb can read."""
    import json

    arguments = job.arguments
    needed = ["log", "source", "table", "ptx" if job.arch.kind == VIRTUAL else "cubin"]
    wanted = (("ptx", arguments.ptx), ("tilebc", arguments.tilebc), ("remarks", arguments.remarks_output))
    needed += [name for name, path in wanted if path]
    if not all(name in parts for name in needed):
        return False
    try:
        kernels = json.loads(parts["table"])["kernels"]
        return all(isinstance(kernel["symbol"], str) for kernel in kernels)
    except (ValueError, TypeError, KeyError, RecursionError):
        return False


def _is_unchanged(job: Job) -> bool:
    """Whether the source is what it was: compiled bytes of a file saved meanwhile must not stand for the old ones."""
    try:
        return os.path.isfile(job.source) and read_input(job.source) == job.data
    except Failed:
        return False


def _key(job: Job, tools: dict[str, str]) -> str:
    from tileiras.toolchain import cache

    arguments = job.arguments
    positions = arguments.lineinfo or arguments.debug or arguments.remarks_output
    words: list[str] = [
        "compile",
        job.compiler,
        str(job.arch),
        job.opt_level,
        f"disable={','.join(job.disable)}",
        job.launch_abi,
        f"tensor-maps={job.tensor_maps}",
        job.host_arch,
        job.host_os,
        # positions in debug information and remarks are in the source's own words, where it has none in this file
        *((job.source, *arguments.file_prefix_map) if positions else ()),
        *(
            f"{name}={getattr(arguments, name)}"
            for name in ("lineinfo", "debug", "sanitize", "bytecode_version")
        ),
        *(f"wants {name}={bool(getattr(arguments, name))}" for name in ("ptx", "tilebc", "remarks_output")),
        f"remarks={arguments.remarks}",
        *(f"option={x}" for x in arguments.option),
        *(f"ptxas-option={x}" for x in arguments.ptxas_option),
        *(f"{name}: {identity}" for name, identity in sorted(tools.items())),
    ]
    return cache.key_of(job.data, *words)


def write(job: Job, result: Result, outputs: Outputs, depfile: bytes = b"") -> None:
    """Stages what the line asks for."""
    arguments = job.arguments
    parts = result.parts
    primary = "ptx" if job.arch.kind == VIRTUAL else "cubin"
    for path, part in (
        (arguments.o, primary),
        (arguments.ptx, "ptx"),
        (arguments.tilebc, "tilebc"),
        (arguments.remarks_output, "remarks"),
    ):
        if path:
            outputs.put(path, parts[part])
    if arguments.kernels_json:
        outputs.put(arguments.kernels_json, parts["table"])
    if depfile:
        outputs.put(arguments.depfile, depfile)


def check_budgets(job: Job, result: Result) -> None:
    """Errors: Failed(5), one line for each kernel and limit."""
    import json

    from tileiras.tools.build.table import as_text

    arguments = job.arguments
    registers = _number(arguments.max_registers, "--max-registers")
    shared = parse_size(arguments.max_shared)
    if not arguments.entry and not arguments.no_spills and registers is None and shared is None:
        return
    table = json.loads(result.parts["table"])
    kernels = table["kernels"]
    if arguments.entry:
        known = {name: kernel for kernel in kernels for name in (kernel["name"], kernel["symbol"])}
        missing = [entry for entry in arguments.entry if entry not in known]
        if missing:
            there = ", ".join(sorted(kernel["symbol"] for kernel in kernels)) or "none"
            raise Failed(diags.NO_KERNEL, of_line=True, name=missing[0], source=job.source, there=there)
        chosen = {known[entry]["symbol"] for entry in arguments.entry}
        table["kernels"] = kernels = [kernel for kernel in kernels if kernel["symbol"] in chosen]
        result.parts["table"] = as_text(table)
    complaints: list[Emitted] = []
    for kernel in kernels:
        used = kernel["static_shared"] + kernel["dynamic_shared"]
        beyond = (
            (diags.REGISTERS, kernel["registers"] or 0, registers),
            (diags.SPILLS, kernel["spill_bytes"] or 0, 0 if arguments.no_spills else None),
            (diags.SHARED, used, shared),
        )
        for row, count, most in beyond:
            if most is not None and count > most:
                facts = {"name": kernel["name"], "arch": table["arch"], "count": count, "most": most}
                complaints.append(Emitted(row, Loc(_source_of(job, kernel["symbol"])), facts=facts.items()))
    if complaints:
        raise CompileError(EXIT_COMPILE, complaints)


def _source_of(job: Job, symbol: str) -> str:
    """ "kernel.py:12" for the entry, or "" where the source does not say."""
    from tileiras.tools.build.bytecode_verb import entry_facts

    try:
        facts = entry_facts(job.data, job.source).get(symbol)
    except CompileError:
        return ""
    return (facts.source or "") if facts is not None else ""


def _number(text: str | None, flag: str) -> int | None:
    if text is None:
        return None
    if not is_number(text):
        raise UsageError(diags.NO_NUMBER, option=flag, text=text)
    return int(text)


def parse_size(text: str | None) -> int | None:
    """The value of --max-shared in bytes: 102400 for "100K"; the units are 1024."""
    if text is None:
        return None
    body = text.strip().upper().removesuffix("B").removesuffix("I")
    unit = {"K": 1 << 10, "M": 1 << 20}.get(body[-1:], 1)
    digits = body[:-1] if unit > 1 else body
    if not is_number(digits):
        raise UsageError(diags.NO_SIZE, option="--max-shared", text=text)
    return int(digits) * unit
