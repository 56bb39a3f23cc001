"""The built-in compiler, in this process, through the command line it offers everybody."""

from __future__ import annotations

import io
import json
import sys
from _thread import RLock

from tileiras.toolchain.arch import VIRTUAL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tileiras.tools.build.job import Job, Result
    from tileiras.tools.build.outputs import Outputs

_ONE_AT_A_TIME = RLock()  # a worker with several threads shares standard error


def tools(job: Job) -> dict[str, str]:
    """What decides the outcome beside input and options: the compiler's sources, and ptxas where it is
    used."""
    from tileiras.toolchain.cache import source_digest
    from tileiras.toolchain.locate import find_ptxas
    from tileiras.version import __version__

    found = {"tileiras": f"{__version__} {source_digest()}"}
    for name in plugins_of(job.arguments.option):
        from tileiras.compiler.plugins import identity

        found[f"plugin {name}"] = identity(name)
    if job.arch.kind != VIRTUAL:
        found["ptxas"] = find_ptxas(job.arguments.toolkit_root).identity()
    return found


def plugins_of(words: list[str]) -> list[str]:
    """The passes of other packages that words for `tileiras` (--option) name."""
    if not words:
        return []
    from tileiras import cli

    return list(cli.parse(words)[0].get("plugins", ()))


def modules_of(words: list[str]) -> list[str]:
    """The files of those passes, which an image depends on as on its source."""
    names = plugins_of(words)
    if not names:
        return []
    from tileiras.compiler.plugins import files

    return files(names)


def check_options(words: list[str]) -> None:
    """Words for `tileiras` itself (--option). Errors: Failed with its exit code, its words already said."""
    from tileiras import cli
    from tileiras.tools.build.command import Failed

    status, log = _call(cli.check, words)
    if status != 0:
        sys.stderr.write(log)
        raise Failed(None, status)


def compile(job: Job, outputs: Outputs) -> Result:
    """The parts, by one call of `tileiras.cli`. Errors: Failed with its exit code, its words already said."""
    import os

    from tileiras import cli
    from tileiras.tools.build import table
    from tileiras.tools.build.command import Failed, say
    from tileiras.tools.build.job import Result

    arguments = job.arguments
    beside = arguments.o or arguments.ptx or arguments.tilebc or arguments.kernels_json
    virtual = job.arch.kind == VIRTUAL
    image = outputs.scratch(beside, ".image")
    kernels = outputs.scratch(beside, ".kernels")
    argv = [
        f"--gpu-name={job.arch.gpu_name}",
        f"--opt-level={job.opt_level}",
        f"--host-arch={job.host_arch}",
        f"--host-os={job.host_os}",
        f"--launch-abi={job.launch_abi}",
        f"--tensor-maps={job.tensor_maps}",
        f"--emit={'ptx' if virtual else 'cubin'}",
        f"--kernels-json={kernels}",
        f"--output-file={image}",
    ]
    argv += ["--portable"] if virtual else []
    argv += [f"--disable={','.join(job.disable)}"] if job.disable else []
    extra: dict[str, str] = {}
    if arguments.ptx and not virtual:
        extra["ptx"] = outputs.scratch(beside, ".ptx")
        argv.append(f"--ptx-output={extra['ptx']}")
    if arguments.remarks:
        argv.append(f"--remarks={arguments.remarks}")
    if arguments.remarks_output:
        extra["remarks"] = outputs.scratch(beside, ".remarks")
        argv += ["--remark-format=yaml", f"--remarks-output-file={extra['remarks']}"]
    argv += ["--lineinfo"] if arguments.lineinfo else []
    argv += ["--device-debug"] if arguments.debug else []
    argv += [f"--file-prefix-map={pair}" for pair in arguments.file_prefix_map]
    argv += [f"--sanitize={arguments.sanitize}"] if arguments.sanitize else []
    argv += [f"--report={arguments.report}"] if arguments.report else []
    argv += [f"--ptxas-options={option}" for option in arguments.ptxas_option]
    argv += [f"--toolkit-root={arguments.toolkit_root}"] if arguments.toolkit_root else []
    argv += arguments.option
    argv.append(job.source)
    if arguments.verbose:
        say("tileiras " + " ".join(argv))
    from tileiras import terminal

    if terminal.is_terminal(sys.stderr):  # which the assembler does not see
        argv.append("--diagnostic-codes")
    status, log = _call(cli.within, argv)
    if status != 0:
        sys.stderr.write(outputs.in_users_words(log))
        refused = cli.refused_by_ptxas(argv)
        raise Failed(None, status, of_line=bool(refused) and all(words in log for words in refused))
    parts = {"ptx" if virtual else "cubin": _read(image)}
    for name, path in extra.items():
        parts[name] = _read(path) if os.path.exists(path) else b""
    if arguments.tilebc:
        from tileiras.tools.build.bytecode_verb import to_bytecode

        parts["tilebc"] = to_bytecode(job.data, arguments.bytecode_version, job.source)
    reported = json.loads(_read(kernels))
    parts["table"] = table.as_text(table.complete(reported, job, parts.get("cubin")))
    return Result(parts, terminal.plain(log), {})


def _call(main, argv: list[str]) -> tuple[int, str]:  # type: ignore[no-untyped-def]
    """(exit code, what it said)."""
    from tileiras import terminal

    with _ONE_AT_A_TIME:
        held, said = sys.stderr, io.StringIO()
        before = terminal.colour_of(held)
        sys.stderr = said
        try:
            status = main(argv)
        except SystemExit as stop:
            status = stop.code
        finally:
            sys.stderr = held
            terminal.set_colour(before)
    return (status if isinstance(status, int) else 0 if status is None else 1), said.getvalue()


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
