"""PTX text in, cubin bytes and resource usage out, through NVIDIA's ptxas.

On Linux both files are anonymous memory (/dev/stdin and /dev/stdout over memfd): measured 0.5 to 2 ms faster
than files in a temporary directory, byte-identical, and a killed compile leaves nothing on disk.  Elsewhere a
private temporary directory serves.  The image does not depend on file names either way, only on the options,
which ptxas records in it; so every option here is a function of what the caller asked for.
"""

from __future__ import annotations

import errno
import os

from tileiras.files import is_planted
from tileiras.options import is_number
from tileiras.toolchain import diags
from tileiras.toolchain.catalog import EXTENDED_SMEM_SINCE, LAUNCH_METADATA_SINCE
from tileiras.toolchain.locate import Tool, check_ptxas, find_ptxas, version_of
from tileiras.toolchain.run import MISSING_TOOL, STDIN, Finished, anonymous_file, read_all, run, write_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tileiras.diag import Emitted

_NEWER_OR_SIMT = (
    "pip install 'tileiras[toolkit]' brings a newer ptxas",
    "--ptxas=FILE (or --toolkit-root, TILEIRAS_TOOLKIT_ROOT) names another one",
    "--launch-abi=simt makes kernels that need no marks and are launched with their real block",
)
SANITIZE_SINCE = (13, 1)  # the oldest release seen with --sanitize
_STDOUT = "/dev/fd/1"


class Resources:
    """What ptxas says one kernel uses. Bytes per thread (stack, spills) or per block (shared)."""

    __slots__ = (
        "barriers",
        "registers",
        "shared_bytes",
        "spill_load_bytes",
        "spill_store_bytes",
        "stack_bytes",
    )

    def __init__(self) -> None:
        self.registers = 0
        self.stack_bytes = 0
        self.spill_store_bytes = 0
        self.spill_load_bytes = 0
        self.shared_bytes = 0
        self.barriers = 0

    @property
    def spill_bytes(self) -> int:
        """Bytes written to local memory because registers ran out."""
        return self.spill_store_bytes

    def __repr__(self) -> str:
        return "Resources(" + ", ".join(f"{name}={getattr(self, name)}" for name in self.__slots__) + ")"


class AssembleResult:
    """The image, what ptxas had to say beyond statistics, and each kernel's resources by symbol."""

    __slots__ = ("cubin", "kernels", "log", "warnings")

    def __init__(
        self, cubin: bytes, log: str, kernels: dict[str, Resources], warnings: list[Emitted]
    ) -> None:
        self.cubin = cubin
        self.log = log
        self.kernels = kernels
        self.warnings = warnings


def check_launch_metadata(tool: Tool) -> None:
    """Errors: CompileError(2) where `.language` on an entry is unknown to this ptxas: an image without its marks looks
    like any other, and fails where it is launched. A ptxas that does not tell its release is left to try.
    """
    if tool.release is None or tool.release >= LAUNCH_METADATA_SINCE:
        return
    raise _too_old(tool, "mark the kernels of --launch-abi=tile", LAUNCH_METADATA_SINCE, _NEWER_OR_SIMT)


def ptx_version(ptx: str) -> tuple[int, int] | None:
    """The number in the `.version` directive, or None."""
    at = ptx.find(".version")
    if at < 0:
        return None
    word = ptx[at + len(".version") : at + 40].split(None, 1)[0:1]
    major, dot, minor = word[0].partition(".") if word else ("", "", "")
    return (int(major), int(minor)) if dot and is_number(major) and is_number(minor) else None


def ptxas_argv(
    path: str,
    target: str,
    *,
    options: Sequence[str] = (),
    lineinfo: bool = False,
    debug: bool = False,
    opt_level: int = 3,
    extended_smem: bool = False,
    sanitize: str | None = None,
) -> list[str]:
    """The command without its files. The caller's options come last, so that they win."""
    argv = [path, f"-arch={target}", f"--opt-level={0 if debug else opt_level}", "--verbose"]
    if debug:
        argv.append("--device-debug")
    if lineinfo:
        argv.append("--generate-line-info")
    if extended_smem:
        argv.append("--enable-extended-smem=true")
    if sanitize:
        argv.append(f"--sanitize={sanitize}")
    argv += options
    return argv


def assemble(
    ptx: str,
    *,
    target: str,
    ptxas: Tool | str | None = None,
    options: Sequence[str] = (),
    lineinfo: bool = False,
    debug: bool = False,
    opt_level: int = 3,
    extended_smem: bool = False,
    sanitize: str | None = None,
    timeout: float | None = None,
) -> AssembleResult:
    """The cubin for `ptx`. `target` is ptxas's spelling, "sm_90a".

    Errors: CompileError(2) when ptxas is missing or too old for the target, the PTX ISA version or extended
    shared memory (with the release needed); CompileError(5) when it refuses the PTX, dies or runs out of
    time, with its own exit status and everything it said.
    """
    tool = as_tool(ptxas)
    check_ptxas(tool, target, ptx_version(ptx))
    if extended_smem and tool.release is not None and tool.release < EXTENDED_SMEM_SINCE:
        raise _too_old(
            tool,
            "place more than 48 KB of shared memory statically (--enable-extended-smem)",
            EXTENDED_SMEM_SINCE,
        )
    argv = ptxas_argv(
        tool.path,
        target,
        options=options,
        lineinfo=lineinfo,
        debug=debug,
        opt_level=opt_level,
        extended_smem=extended_smem,
        sanitize=sanitize,
    )
    try:
        done, cubin, input_name = _run_on(argv, ptx.encode("utf-8", "surrogateescape"), timeout)
    except OSError as error:  # no room for its files: a limit, a full disk, no descriptor left
        done, cubin, input_name = Finished(MISSING_TOOL, error=error.strerror or str(error)), b"", STDIN
    text = done.stderr.decode("utf-8", "replace") + done.stdout.decode("utf-8", "replace")
    said, kernels = parse_log(text.replace(input_name, "<ptx>"))
    if done.status != 0 and sanitize and "Unknown option" in text and "sanitize" in text:
        raise _too_old(tool, f"instrument code (--sanitize={sanitize})", SANITIZE_SINCE)
    if done.status != 0:
        raise _failure(tool, target, done, said, ptx, argv)
    if cubin[:4] != b"\x7fELF":
        raise diags.fail(
            5,
            diags.one(diags.PTXAS_NO_OUTPUT, path=tool.path, target=target),
            diags.one(diags.COMPILE_FAILED),
        )
    warnings = spoken(said, ptx)
    # Statistics are always asked for; the user sees them on -v.
    asked = any(option in ("-v", "--verbose") for option in options)
    known = set(said)
    info = [
        line for line in text.replace(input_name, "<ptx>").splitlines() if line.strip() and line not in known
    ]
    return AssembleResult(cubin, "\n".join(info if asked else said), kernels, warnings)


def _too_old(tool: Tool, need: str, since: tuple[int, int], advice: Sequence[str] = ()) -> Exception:
    needed = f"{since[0]}.{since[1]}"
    facts = {"tool": "ptxas", "version": tool.version, "path": tool.path, "need": need, "needed": needed}
    error = diags.one(diags.TOOL_TOO_OLD, **facts)
    error.notes = [diags.one(diags.TOOL_ADVICE, advice=line) for line in advice]
    return diags.fail(2, error)


def as_tool(ptxas: Tool | str | None) -> Tool:
    """The tool that `assemble` runs: found, or given by record or path. Errors: CompileError(2) when there is none."""
    if ptxas is None:
        return find_ptxas()
    if isinstance(ptxas, Tool):
        return ptxas
    check_named(ptxas)
    path = os.path.abspath(ptxas)
    version, source = version_of("ptxas", os.path.realpath(path))
    return Tool("ptxas", path, os.path.dirname(os.path.dirname(path)), "given by path", version, source)


def check_named(ptxas: Tool | str) -> None:
    """Errors: CompileError(2) for the path of a file that is not there, or is no program, as for a toolkit without ptxas."""
    if isinstance(ptxas, Tool):
        return
    if not os.path.exists(ptxas):
        why = os.strerror(errno.ENOENT)
    elif not os.path.isfile(ptxas):
        why = os.strerror(errno.EISDIR) if os.path.isdir(ptxas) else "it is no file"
    elif not os.access(ptxas, os.X_OK):
        why = os.strerror(errno.EACCES)
    else:
        return
    raise diags.fail(2, diags.one(diags.TOOL_UNUSABLE, tool="ptxas", path=ptxas, why=why))


def _run_on(argv: list[str], ptx: bytes, timeout: float | None) -> tuple[Finished, bytes, str]:
    """Runs ptxas on `ptx`; returns how it ended, the image, and the name ptxas had for its input."""
    if hasattr(os, "memfd_create") and os.path.exists(STDIN):
        source = anonymous_file("ptx")
        image = anonymous_file("cubin")
        try:
            write_all(source, ptx)
            os.lseek(source, 0, 0)
            done = run([*argv, STDIN, "-o", _STDOUT], timeout=timeout, stdin=source, stdout=image)
            return done, read_all(image), STDIN
        finally:
            os.close(source)
            os.close(image)
    import tempfile

    with tempfile.TemporaryDirectory(prefix="tileiras-") as folder:
        source_path = os.path.join(folder, "kernel.ptx")
        image_path = os.path.join(folder, "kernel.cubin")
        with open(source_path, "wb") as file:
            file.write(ptx)
        done = run([*argv, source_path, "-o", image_path], timeout=timeout)
        cubin = b""
        if os.path.exists(image_path):
            with open(image_path, "rb") as file:
                cubin = file.read()
        return done, cubin, source_path


def parse_log(text: str) -> tuple[list[str], dict[str, Resources]]:
    """(lines that are no statistics, resources per kernel symbol) of what `ptxas --verbose` wrote.

    Statistics carry a compile time that differs from run to run, so they never reach a log of ours.
    """
    said: list[str] = []
    kernels: dict[str, Resources] = {}
    symbol = ""  # the entry that the following lines are about
    function = ""  # the function whose properties follow; device functions have lines of their own
    for line in text.splitlines():
        if not line.strip():
            continue
        if line.startswith("ptxas info"):
            body = line.partition(":")[2].strip()
            if body.startswith("Compiling entry function "):
                symbol = _quoted(body)
                kernels[symbol] = Resources()
            elif body.startswith("Function properties for "):
                function = body[len("Function properties for ") :].strip("'")
            elif body.startswith("Used ") and symbol:
                _read_usage(body, kernels[symbol])
            elif not body.startswith(("Compile time", "0 bytes gmem")) and " bytes gmem" not in body:
                said.append(line)
        elif line.startswith("    ") and "bytes stack frame" in line:
            if function == symbol and symbol:
                _read_stack(line, kernels[symbol])
        else:
            said.append(line)
    return said, kernels


def spoken(said: list[str], ptx: str) -> list[Emitted]:
    """Lines of ptxas as diagnostics, with the lines of the PTX that they are about."""
    lines = ptx.splitlines() if said else []
    return [_emitted(line, lines) for line in said]


def words_of(emitted: Iterable[Emitted]) -> list[str]:
    """What ptxas itself said, among diagnostics."""
    return [str(one.text) for one in emitted if one.code in (diags.PTXAS_SAID.code, diags.PTXAS_WARNED.code)]


def _emitted(line: str, lines: list[str]) -> Emitted:
    """A line of ptxas as a diagnostic: "ptxas <ptx>, line 4; error   : Unknown modifier" and its kin."""
    head, colon, message = line.partition(":")
    if not colon or not head.startswith("ptxas"):
        return diags.one(diags.PTXAS_SAID, text=line)
    words = head.replace(",", " ").replace(";", " ").split()
    diag = diags.PTXAS_WARNED if words[-1] in ("warning", "info") else diags.PTXAS_SAID
    if "line" not in words[:-1]:
        return diags.one(diag, text=f"ptxas: {message.strip()}")
    word = words[words.index("line") + 1]
    emitted = diags.one(diag, text=f"ptxas: PTX line {word}: {message.strip()}")
    if is_number(word) and 0 < int(word) <= len(lines):
        emitted.notes.append(
            diags.one(diags.PTXAS_LINE, number=word, text=lines[int(word) - 1].strip()[:200])
        )
    return emitted


def _quoted(text: str) -> str:
    return text.split("'")[1] if "'" in text else ""


def _read_usage(body: str, into: Resources) -> None:
    """ "Used 10 registers, used 1 barriers, 100000 bytes smem, 360 bytes cmem[0]"."""
    for part in body.split(","):
        words = part.split()
        numbers = [int(word) for word in words if is_number(word)]
        if not numbers:
            continue
        if "registers" in words:
            into.registers = numbers[0]
        elif "barriers" in words:
            into.barriers = numbers[0]
        elif "smem" in words:
            into.shared_bytes = numbers[0]


def _read_stack(line: str, into: Resources) -> None:
    """ "    0 bytes stack frame, 8 bytes spill stores, 8 bytes spill loads"."""
    for part in line.split(","):
        words = part.split()
        if not words or not is_number(words[0]):
            continue
        if "stack" in words:
            into.stack_bytes = int(words[0])
        elif "stores" in words:
            into.spill_store_bytes = int(words[0])
        elif "loads" in words:
            into.spill_load_bytes = int(words[0])


def _failure(
    tool: Tool, target: str, done: Finished, said: list[str], ptx: str, argv: list[str]
) -> Exception:
    """Code 5 with ptxas's own words and status; TILEIRAS_KEEP_PTX names a file to keep the PTX in."""
    failed = diags.one(diags.PTXAS_FAILED, path=tool.path, target=target, how=done.how())
    keep = os.environ.get("TILEIRAS_KEEP_PTX")
    if keep and not is_planted(keep):
        try:
            with open(keep, "w", encoding="utf-8") as file:
                file.write(ptx)
        except OSError:
            pass
        else:
            import shlex

            failed.notes.append(
                diags.one(diags.PTXAS_KEPT, command=shlex.join([*argv, keep, "-o", os.devnull]))
            )
    return diags.fail(5, *spoken(said, ptx), failed, diags.one(diags.COMPILE_FAILED))
