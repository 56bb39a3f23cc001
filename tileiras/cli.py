"""The command `tileiras`: flags -> Options -> driver -> exit code. Nothing is left behind by a failure.

Old outputs are unlinked once the input was read (a mistyped name costs nothing) and before the compile starts; new
ones are written to temporary siblings and renamed when everything succeeded.
"""

from __future__ import annotations

import gc
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

VERSIONS = ("13.1", "13.2", "13.3", "13.4", "13.5")

COLLECT_AFTER = 100_000  # objects more than were freed, before the collector looks for circles


def main(argv: list[str]) -> int:
    """The exit status, 0 to 5."""
    if argv == ["--version"] or argv == ["-version"]:
        return tell(version_text())
    if argv == ["--serve"]:
        from tileiras.serve import serve

        return serve()
    from tileiras import modules

    modules.install()
    from tileiras import signals

    try:
        return signals.obey(lambda: within(argv))
    finally:
        modules.remove()


def within(argv: list[str]) -> int:
    """`main` in a process that cleans up after signals by itself: Interrupted is the caller's, who has files of its own."""
    usual = gc.get_threshold()
    gc.set_threshold(COLLECT_AFTER)  # what a compile makes stays in use for most of its time
    try:
        return run(argv)
    finally:
        gc.set_threshold(*usual)


def tell(text: str) -> int:
    """Writes to standard output; the exit status: 2 when it cannot be written."""
    try:
        if sys.stdout is None:
            raise OSError(9, "it is closed")
        sys.stdout.write(text)
        sys.stdout.flush()
    except (OSError, ValueError) as error:
        from tileiras.diag import EXIT_CONFIGURATION, say

        sys.stdout = None  # type: ignore[assignment]  # the interpreter would flush it again, and exit with 120
        if not isinstance(error, BrokenPipeError):  # `tileiras --help | head` has seen enough
            say(f"error: unable to write to standard output: {getattr(error, 'strerror', None) or error}\n")
        return EXIT_CONFIGURATION
    return 0


def version_text() -> str:
    """Release, build and assembler. cuTile keys its cache of cubins with this text, so it says all that decides a cubin:
    a compiler that was edited, or another ptxas, must not be answered with the cubins of the one before. Nothing is
    read or run for it: files speak by size and time."""
    from tileiras.options import disabled_parts
    from tileiras.version import __version__

    disabled = ", ".join(disabled_parts())
    return (
        "tileiras: open CUDA Tile IR optimizing assembler\n"
        f"release {__version__}, Tile IR bytecode {VERSIONS[0]} - {VERSIONS[-1]}\n"
        f"Build {_build_id():08x}\n"
        f"ptxas {_ptxas_identity()}\n" + (f"disabled: {disabled}\n" if disabled else "")
    )


def _build_id() -> int:
    """Changes with every edit of a checkout, and with every installation of a wheel."""
    import os
    from zlib import crc32

    root = os.path.dirname(os.path.abspath(__file__))
    if not os.path.exists(os.path.dirname(root) + "/pyproject.toml"):
        stat = os.stat(root + "/version.py")
        return crc32(f"{stat.st_size} {stat.st_mtime_ns}".encode("utf-8", "surrogateescape"))
    total = 0
    folders = [root]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.name.endswith(".py"):
                    stat = entry.stat()
                    known = f"{entry.path} {stat.st_size} {stat.st_mtime_ns}"
                    total ^= crc32(known.encode("utf-8", "surrogateescape"))  # in any order
                elif entry.is_dir() and entry.name != "__pycache__":
                    folders.append(entry.path)
    return total


def _ptxas_identity() -> str:
    """The ptxas that a compile would use, by path, size and time."""
    import os

    from tileiras.toolchain.locate import candidates

    for path, _ in candidates("ptxas"):
        try:
            stat = os.stat(path)
        except OSError:
            continue
        if os.access(path, os.X_OK):
            return f"{path} {stat.st_size} {stat.st_mtime_ns}"
    return "not found"


def run(argv: list[str]) -> int:
    from tileiras.diag import EXIT_CONFIGURATION, EXIT_USAGE, say

    given, files, problem = parse(argv)
    if not problem:
        if given.get("help"):
            return tell(help_text())
        if given.get("version"):
            return tell(version_text())
        if "explain" in given:
            from tileiras.explain import explain

            text, wrong = explain(given["explain"])
            if wrong:
                say(f"tileiras: {wrong}\n")
                return EXIT_CONFIGURATION
            return tell(text)
        if given.get("list_versions"):
            return tell("\n".join(VERSIONS) + "\n")
        if given.get("serve"):
            problem = "--serve stands alone on the command line"
        elif not files:
            say("error: no input file provided\n\n" + help_text())
            return EXIT_USAGE
        elif len(files) > 1:
            problem = (
                "Too many positional arguments specified!\n"
                "Can specify at most 1 positional arguments: See: tileiras --help"
            )
    options, status = None, EXIT_USAGE
    if not problem:
        options, problem, status = _options(given)
    if problem:
        say(f"tileiras: {problem}\n")
        return status
    return compile_file(files[0], given, options)


def check(argv: list[str]) -> int:
    """The exit status that these options alone come to; what is wrong has been said."""
    from tileiras import driver
    from tileiras.diag import EXIT_USAGE, CompileError, Sink, say

    given, files, problem = parse(argv)
    if files:
        problem = problem or f"'{files[0]}' is no option"
    options, wrong, status = _options(given)
    if problem or wrong:
        say(f"tileiras: {problem or wrong}\n")
        return EXIT_USAGE if problem else status
    sink = Sink(lambda emitted: _show(emitted, options, False, "", b""))
    try:
        driver.check_options(options, sink)
        driver.check_named_tools(options)
    except CompileError as error:
        driver.conclude(error, sink)
        return error.exit_code
    return 0


def refused_by_ptxas(argv: list[str]) -> list[str]:
    """What ptxas has against its options on this line (`driver.refused_by_ptxas`)."""
    from tileiras import driver

    return driver.refused_by_ptxas(_options(parse(argv)[0])[0])


def _output_files(given: dict[str, Any]) -> list[str]:
    """The outputs that the line names."""
    fields = ("output", "ptx_output", "kernels_json", "depfile", "remarks_output", "report")
    return [given[field] for field in fields if field in given]


def parse(argv: list[str]) -> tuple[dict[str, Any], list[str], str]:
    """(values by field, input files, problem). One or two dashes, `--x=y` or `--x y`; -ON joined."""
    from tileiras.options import BY_SPELLING

    given: dict[str, Any] = {}
    files: list[str] = []
    problem = ""  # the first one; the rest of the line is still read, for the outputs that it names
    i = 0
    while i < len(argv):
        word = argv[i]
        i += 1
        if word == "--":
            files += argv[i:]
            break
        if not word.startswith("-") or word == "-":
            files.append(word)
            continue
        body = word[2:] if word.startswith("--") else word[1:]
        name, equals, value = body.partition("=")
        row = BY_SPELLING.get(name)
        if row is None and body[:1] in ("O", "o", "l") and not word.startswith("--") and len(body) > 1:
            row, value, equals = BY_SPELLING[body[0]], body[1:], "="
        if row is None or (len(name) == 1 and word.startswith("--")):
            near = _nearest(name, BY_SPELLING)
            hint = f"\ntileiras: Did you mean '{near}'?" if near else ""
            problem = problem or f"Unknown command line argument '{word}'.  Try: 'tileiras --help'{hint}"
            continue
        spelling, kind, field, _ = row
        if kind == "when":  # a value only behind "=": `--color FILE` has none
            given[field] = value if equals else "always"
            continue
        if kind == "flag":
            if equals and value.lower() not in ("true", "false", "1", "0", ""):
                text = f"for the --{spelling} option: '{value}' is invalid value for boolean argument! Try 0 or 1"
                problem = problem or text
            given[field] = not (equals and value.lower() in ("false", "0"))
            continue
        if not equals:
            if spelling == "O":
                problem = problem or "for the -O option: requires a value!"
                continue
            if i >= len(argv):
                dashes = "-" if len(spelling) == 1 else "--"
                problem = problem or f"for the {dashes}{spelling} option: requires a value!"
                break
            value = argv[i]
            i += 1
        if kind == "list":
            given.setdefault(field, []).extend(v for v in value.split(",") if v)
        elif kind == "many":
            given.setdefault(field, []).append(value)
        else:
            given[field] = value
    return given, files, problem


def _nearest(name: str, known: Any) -> str:
    """The closest flag by shared prefix and length, spelled with its dashes; empty when nothing is close."""
    best, score = "", 1
    for candidate in known:
        common = 0
        for a, b in zip(name, candidate):
            if a != b:
                break
            common += 1
        if common * 2 > max(len(name), len(candidate)) and common > score:
            best, score = candidate, common
    return ("-" if len(best) == 1 else "--") + best if best else ""


def help_text() -> str:
    from tileiras.options import FLAGS

    lines = [
        "OVERVIEW: tileiras: open CUDA Tile IR optimizing assembler\n",
        "USAGE: tileiras [options] <tile bytecode or text file>\n\nOPTIONS:",
    ]
    for spelling, kind, _, text in FLAGS:
        dashes = "-" if len(spelling) == 1 else "--"
        head = f"{dashes}{spelling}" + {"flag": "", "when": "[=<when>]"}.get(kind, "=<value>")
        lines.append(f"  {head:<32} - {text}")
    return "\n".join(lines) + "\n"


def _options(given: dict[str, Any]) -> tuple[Any, str, int]:
    """(Options, what is wrong with a value, the exit status for that).

    A value of another form than the option's (a number, OLD=NEW, a name with a suffix) is a line that means nothing; a word
    that the option does not take is a wrong configuration, as are those that the driver finds.
    """
    from tileiras.diag import EXIT_CONFIGURATION, EXIT_SUCCESS, EXIT_USAGE
    from tileiras.options import EMITS, REMARK_CATEGORIES, REMARK_FORMATS, REMARK_KINDS, Options

    options = Options()
    for field in (
        "gpu_name",
        "sanitize",
        "host_arch",
        "host_os",
        "launch_abi",
        "tensor_maps",
        "emit",
        "ptxas",
        "toolkit_root",
    ):
        if given.get(field) is not None:
            setattr(options, field, given[field])
    for field in ("lineinfo", "device_debug", "verify_each", "no_warnings", "warnings_as_errors", "portable"):
        setattr(options, field, bool(given.get(field)))
    options.disable = tuple(given.get("disable", ()))
    options.plugins = tuple(given.get("plugins", ()))
    options.ptxas_options = tuple(given.get("ptxas_options", ()))
    pairs = [word.rpartition("=") for word in given.get("file_prefix_map", ())]
    for old, equals, new in pairs:
        if not old or not equals:
            text = f"for the --file-prefix-map option: '{old}{equals}{new}' is not of the form OLD=NEW"
            return options, text, EXIT_USAGE
    options.file_prefix_map = tuple((old, new) for old, _, new in pairs)
    level = given.get("opt_level", "3")
    try:
        options.opt_level = _integer(level)
    except ValueError:
        return (
            options,
            f"for the --opt-level option: '{level}' value invalid for integer argument!",
            EXIT_USAGE,
        )
    for spelling in ("ptxas", "toolkit-root", "depfile-target", "report"):
        if given.get(spelling.replace("-", "_")) == "":
            return options, f"for the --{spelling} option: its value is empty", EXIT_CONFIGURATION
    if "color" in given:
        from tileiras.terminal import set_colour

        if not given["color"] or not set_colour(given["color"]):
            return options, _not_taken("color", given["color"]), EXIT_CONFIGURATION
    if options.emit not in EMITS:
        text = f"{_not_taken('emit', options.emit)}\ntileiras: it takes {', '.join(EMITS)}"
        return options, text, EXIT_CONFIGURATION
    if "report" in given:
        from tileiras.report.write import wrong_name

        if problem := wrong_name(given["report"]):
            return options, f"for the --report option: {problem}", EXIT_USAGE
    # Options that this release has not: refused as any other that it does not know.
    if given.get("preview"):
        text = f"preview feature '{given['preview']}' is not supported by this version of tileiras"
        return options, text, EXIT_USAGE
    if given.get("library"):
        text = f"tile library '{given['library']}' cannot be linked by this version of tileiras"
        return options, text, EXIT_USAGE
    for kind in ("", *REMARK_KINDS):
        spelling = "remarks" + (f"-{kind}" if kind else "")
        category = given.get("remarks" + (f"_{kind}" if kind else ""))
        if category is None:
            continue
        if category not in REMARK_CATEGORIES:
            return options, _not_taken(spelling, category), EXIT_CONFIGURATION
        for each in (kind,) if kind else REMARK_KINDS:
            options.remarks[each] = category
    if given.get("remark_format", "command-line") not in REMARK_FORMATS:
        return options, _not_taken("remark-format", given["remark_format"]), EXIT_CONFIGURATION
    return options, "", EXIT_SUCCESS


def _not_taken(spelling: str, value: str) -> str:
    return f"for the --{spelling} option: Cannot find option named '{value}'!"


def _integer(text: str) -> int:
    """A number as LLVM's command lines take it: 32 bits, decimal, 0x, 0b or 0 for octal. Errors: ValueError."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isalnum()):  # int() takes blanks, underscores and other scripts
        raise ValueError(text)
    base = 0 if not digits.isdigit() else 8 if len(digits) > 1 and digits[0] == "0" else 10
    value = int(text, base)
    if not -(1 << 31) <= value < 1 << 31:
        raise ValueError(text)
    return value


def compile_file(path: str, given: dict[str, Any], options: Any) -> int:
    """Compile one file and write its outputs."""
    from tileiras import driver
    from tileiras.diag import EXIT_CONFIGURATION, CompileError, FatalError, Sink, say
    from tileiras.outputs import OutputError, Outputs

    yaml = given.get("remarks_output")
    if yaml is None and given.get("remark_format") == "yaml":
        yaml = given["remarks_output"] = "tileir_remarks.yaml"
    data = b""
    sink = Sink(lambda emitted: _show(emitted, options, yaml is not None, path, data))
    output = given.setdefault("output", "elf.o")
    outputs = Outputs(_output_files(given))
    report: Any = None
    watch: Any = None
    held: list[str] = []  # what ptxas has against its options, which then cost no earlier output
    try:
        data = driver.read_file(path, sink)
        depfile = _depfile(given, path)
        if _may_begin(data, options):
            held = driver.refused_by_ptxas(options)
            outputs.unlink_old(path, keep=bool(held))
        if "report" in given:
            from tileiras.report import write
            from tileiras.report.watch import Watch

            report = write
            report.check(given["report"])
            watch = Watch(data, path)
        program = driver.compile_source(data, options, sink, file=path, watch=watch)
        if options.warnings_as_errors and any(d.severity == 2 for d in sink.emitted):
            sink.emit(driver.D.WARNINGS)
            sink.emit(driver.D.FAILED)
            _report_failure(given, watch, sink, driver.EXIT_COMPILE)
            return driver.EXIT_COMPILE
        if options.emit == "cubin":
            outputs.write(output, program.cubin)
        elif options.emit == "ptx":
            outputs.write(output, program.ptx.encode("utf-8", "surrogateescape"))
        else:
            from tileiras.compiler.source import to_bytecode

            outputs.write(output, to_bytecode(program.module, None, sink))
        if "ptx_output" in given:
            outputs.write(given["ptx_output"], program.ptx.encode("utf-8", "surrogateescape"))
        if "kernels_json" in given:
            import json

            outputs.write(given["kernels_json"], (json.dumps(program.table(), indent=1) + "\n").encode())
        if "depfile" in given:
            outputs.write(given["depfile"], depfile)
        if yaml is not None:
            from tileiras.remarks import to_yaml, wanted

            asked = [d for d in sink.emitted if d.severity == 4 and wanted(d, options.remarks)]
            outputs.write(yaml, to_yaml(asked, options.file_prefix_map).encode("utf-8", "surrogateescape"))
        if report is not None:
            outputs.write(
                given["report"], report.render(given["report"], [report.module_of(watch, sink.emitted)])
            )
        outputs.commit()
        if program.ptxas_log:
            say(program.ptxas_log + "\n")
    except CompileError as error:
        outputs.discard()
        if held and not _says(error, held):
            outputs.unlink_old(path)
        _report_failure(given, watch, sink, error.exit_code)
        from tileiras.terminal import advise

        advise(sink.emitted, bool(given.get("diagnostic_codes")))
        return error.exit_code
    except OutputError as error:
        outputs.discard()
        sink.deliver(error.emitted)
        return EXIT_CONFIGURATION
    except FatalError as fatal:
        _report_failure(given, watch, sink, driver.EXIT_COMPILE)
        abort(fatal)
    except Exception as error:  # nobody foresaw it
        outputs.discard()
        concluded = driver.conclude(error, sink)
        if not isinstance(concluded, CompileError):
            raise
        _report_failure(given, watch, sink, concluded.exit_code)
        return concluded.exit_code
    except BaseException:
        outputs.discard()
        raise
    if given.get("time_passes"):
        for name, seconds in program.times:
            say(f"{seconds * 1000:9.2f} ms  {name}\n")
    return 0


def _says(error: Any, words: list[str]) -> bool:
    """Whether ptxas said no more about the kernel than about its options alone."""
    from tileiras.toolchain.ptxas import words_of

    return words_of(error.diagnostics) == words


def _depfile(given: dict[str, Any], path: str) -> bytes:
    """The depfile that the line asks for. Errors: OutputError for a name that none can say, before anything was done."""
    if "depfile" not in given:
        return b""
    from tileiras.outputs import UNWRITABLE, OutputError
    from tileiras.tools.build.depfile import UnwritableDepfile, write_depfile

    try:
        modules: list[str] = []
        if "plugins" in given:
            from tileiras.compiler import plugins

            modules = plugins.files(given["plugins"])
        text = write_depfile(given.get("depfile_target") or given["output"], [path, *modules])
    except (UnwritableDepfile, OSError) as error:
        raise OutputError(UNWRITABLE, path=given["depfile"], why=error) from None
    return text.encode("utf-8", "surrogateescape")


def _may_begin(data: bytes, options: Any) -> bool:
    """Whether the line asks for something that exists: what is wrong with it costs nobody an earlier output."""
    from tileiras import driver
    from tileiras.compiler import source
    from tileiras.diag import CompileError, Sink

    try:
        driver.check_options(options, Sink(lambda emitted: None))
        driver.check_named_tools(options)
        if options.plugins:
            from tileiras.compiler import plugins

            plugins.rows(options.plugins, Sink(lambda emitted: None))
    except CompileError:
        return False
    # Bytecode has no place for a target.
    return options.gpu_name is not None or source.looks_like_text(data)


def _report_failure(given: dict[str, Any], watch: Any, sink: Any, code: int) -> None:
    """The report of a compile that failed: what there was by then, and why."""
    if watch is None:
        return
    from tileiras.outputs import OutputError
    from tileiras.report import write

    try:
        write.write(given["report"], [write.module_of(watch, sink.emitted, code)])
    except OutputError as error:  # the compile's own failure is what the exit status tells
        from tileiras.diag import say

        say(f"error: {error}\n")


def abort(fatal: Exception) -> None:
    """The fatal-error handler: the text goes straight to stderr and the process dies by SIGABRT. Nothing is cleaned up."""
    import os

    if os.environ.get("TILEIRAS_TRACEBACK"):
        import traceback

        traceback.print_exception(type(fatal), fatal, fatal.__traceback__)
    from tileiras.diag import say

    say(f"fatal error: {fatal}\n")
    try:  # the report is the text; a core of the interpreter helps nobody
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    except (ImportError, OSError, ValueError):
        pass
    os.abort()


def _show(emitted: Any, options: Any, yaml: bool, path: str, data: bytes) -> None:
    """The command's default handler: remarks only when asked for and not written as YAML, warnings unless -w."""
    if emitted.severity == 4:
        from tileiras.remarks import wanted

        if yaml or not wanted(emitted, options.remarks):
            return
    if emitted.severity == 2 and options.no_warnings:
        return
    from tileiras import terminal

    terminal.remember(path, data)
    terminal.show(emitted)
