"""NVIDIA's own assembler, with the ptxas of its own release and nothing of the caller's CUDA variables."""

from __future__ import annotations

import os
import sys

from tileiras.diag import Catalogue
from tileiras.files import write_new
from tileiras.toolchain.locate import Tool, check_releases, find_tool, find_tool_beside, require, too_old
from tileiras.toolchain.run import run, scrubbed_environment

_FINDS_LIBNVVM_SINCE = (13, 2)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tileiras.toolchain.run import Finished
    from tileiras.tools.build.job import Job, Result
    from tileiras.tools.build.outputs import Outputs

texts = Catalogue("tileiras.tools.build.diags")


def find_pair(toolkit_root: str | None) -> tuple[Tool, Tool]:
    """(tileiras, ptxas): one root where possible. Errors: exit code 2 when one is missing or ptxas is the
    older.

    An older ptxas under a newer assembler is the most reported failure of Tile programs ("failed to compile
    Tile IR program", no location), so it is refused here, by name; a newer ptxas works and gets a warning.
    """
    assembler = require("tileiras", toolkit_root)
    ptxas = find_tool_beside("ptxas", assembler) or find_tool("ptxas", toolkit_root)
    if ptxas is None:
        ptxas = require("ptxas", toolkit_root)
    if assembler.release and ptxas.release and ptxas.release < assembler.release:
        needs = f"serve tileiras {assembler.version} ({assembler.path})"
        raise too_old("ptxas", ptxas, needs, assembler.release)
    return assembler, ptxas


def tools(job: Job) -> dict[str, str]:
    """The programs that decide the outcome."""
    from tileiras.toolchain.cache import source_digest

    assembler, ptxas = find_pair(job.arguments.toolkit_root)
    _check(job, assembler)
    # The package as well: it writes the kernel table.
    return {"nvidia tileiras": assembler.identity(), "ptxas": ptxas.identity(), "tileiras": source_digest()}


def _check(job: Job, assembler: Tool) -> None:
    """Errors: exit code 2, where this assembler is known not to take the architecture or the bytecode.

    It would say "Cannot find option named 'sm_90'", or 13.1 for a newer bytecode "invalid GPU architecture:
    100".
    """
    from tileiras.archs import NVIDIA_SINCE
    from tileiras.tools.build.bytecode_verb import MAGIC, is_bytecode

    release = assembler.release
    if release is None:
        return
    needs = [(NVIDIA_SINCE[job.arch.number], f"compile for {job.arch.plain_name}")]
    if is_bytecode(job.data) and len(job.data) > len(MAGIC) + 1 and not job.arguments.bytecode_version:
        version = (job.data[len(MAGIC)], job.data[len(MAGIC) + 1])
        if version[0] == 13:  # anything else is damage, and the assembler's to report
            needs.append((version, f"read bytecode {version[0]}.{version[1]} (see --bytecode-version)"))
    for needed, need in needs:
        if release < needed:
            raise too_old("NVIDIA's tileiras", assembler, need, needed)


def compile(job: Job, outputs: Outputs) -> Result:
    """The parts, by one run of the assembler. Errors: Failed with its exit code, its words already said."""
    from tileiras.tools.build import table
    from tileiras.tools.build.bytecode_verb import is_bytecode, to_bytecode
    from tileiras.tools.build.command import Failed, say
    from tileiras.tools.build.job import Result

    arguments = job.arguments
    assembler, ptxas = find_pair(arguments.toolkit_root)
    log = "".join(
        emitted.render() + "\n" for emitted in check_releases({"ptxas": ptxas, "tileiras": assembler})
    )
    beside = arguments.o or arguments.tilebc or arguments.kernels_json
    bytecode = job.data
    source = job.source
    if not is_bytecode(job.data) or arguments.bytecode_version:
        bytecode = to_bytecode(job.data, arguments.bytecode_version, job.source)
        source = outputs.scratch(beside, ".tilebc")
        write_new(source, bytecode)
    image = outputs.scratch(beside, ".image")
    remarks = outputs.scratch(beside, ".remarks") if arguments.remarks_output else ""
    argv = [
        assembler.path,
        f"--gpu-name={job.arch.plain_name}",
        f"--host-arch={job.host_arch}",
        f"--host-os={job.host_os}",
        f"--opt-level={job.opt_level}",
    ]
    argv += ["--lineinfo"] if arguments.lineinfo else []
    argv += ["--device-debug"] if arguments.debug else []
    argv += [f"--sanitize={arguments.sanitize}"] if arguments.sanitize else []
    argv += [f"--remarks={arguments.remarks}"] if arguments.remarks else []
    argv += ["--remark-format=yaml", f"--remarks-output-file={remarks}"] if remarks else []
    argv += [*arguments.option, os.path.abspath(source), "-o", image]
    if arguments.verbose:
        if job.arch.suffix:
            say(f"{job.arch}: NVIDIA's assembler takes no suffix, so it is given {job.arch.plain_name}")
        say(f"CUDA_ROOT={ptxas.root} " + " ".join(argv))
    done = _run(argv, assembler, ptxas)
    said = respell(
        (done.stdout + done.stderr).decode("utf-8", "replace"), os.path.abspath(source), job.source
    )
    if done.status != 0 or not os.path.exists(image):
        sys.stderr.write(outputs.in_users_words(log + said))
        if done.signal or done.error:
            raise Failed(texts.TOOL_FAILED, done.status, path=assembler.path, how=done.how())
        if done.status == 0:
            raise Failed(texts.TOOL_SILENT, path=assembler.path)
        row = None if said.strip() else texts.TOOL_FAILED
        raise Failed(row, done.status, path=assembler.path, how=done.how())
    with open(image, "rb") as file:
        cubin = file.read()
    parts = {"cubin": cubin, "tilebc": bytecode}
    if remarks:
        parts["remarks"] = _read_if_there(remarks)
    parts["table"] = table.as_text(table.complete(table.empty(job), job, cubin, bytecode))
    return Result(parts, log + said, {})


def respell(text: str, path: str, name: str) -> str:
    """`text` with `name` for `path` where it stands as a whole word: "/k" is no part of "/a/k"."""
    import re

    whole = rf"(?<![\w./\\-]){re.escape(path)}(?![\w/\\-]|\.\w)"
    return re.sub(whole, lambda _: name, text)


def _run(argv: list[str], assembler: Tool, ptxas: Tool) -> Finished:
    """One run with CUDA_ROOT at the toolkit of `ptxas`, for 13.1 in the shape it insists on."""
    old = assembler.release is not None and assembler.release < _FINDS_LIBNVVM_SINCE
    if not old or os.path.exists(os.path.join(ptxas.root, "nvvm", "lib64", "libnvvm.so")):
        return run(argv, env=scrubbed_environment(ptxas.root))
    import tempfile

    from tileiras.toolchain.view import make_view

    with tempfile.TemporaryDirectory(prefix="tileiras-") as folder:
        make_view(ptxas.root, folder)
        return run(argv, env=scrubbed_environment(folder))


def _read_if_there(path: str) -> bytes:
    """NVIDIA's assembler writes no remark file when there is no remark; the build system was promised one."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return b""
