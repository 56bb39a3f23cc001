"""Options of one compilation, and the command's flags: spelling, help and default in one place."""

from __future__ import annotations

from tileiras.archs import NAMES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

OPT_LEVELS = (0, 1, 2, 3)
LAUNCH_ABIS = ("tile", "simt")
TENSOR_MAPS = ("none", "launcher")  # who encodes the descriptors of bulk tensor copies
HOST_ARCHES = ("x86_64", "aarch64")
HOST_OSES = ("linux", "windows")
PARTS = (
    "wgmma",
    "tcgen05",
    "bulk",
    "roles",
    "cp.async",
)  # of the code generator, that a compile may leave out
DISABLE = "TILEIRAS_DISABLE"  # the variable that disables parts in every compile
EMITS = ("cubin", "ptx", "tilebc")
REMARK_CATEGORIES = ("none", "all", "memory", "tensorcore")
REMARK_FORMATS = ("command-line", "yaml")
REMARK_KINDS = ("passed", "missed", "failed", "analysis")


class Options:
    """What to compile for. Fields are the command's flags; None means not given."""

    __slots__ = (
        "device_debug", "emit", "file_prefix_map", "gpu_name", "host_arch", "host_os", "kernels_json", "launch_abi", "lineinfo",
        "opt_level", "ptxas", "ptxas_options", "remarks", "sanitize", "toolkit_root", "verify_each", "warnings_as_errors",
        "no_warnings", "portable", "disable", "tensor_maps",
    )  # fmt: skip

    def __init__(self, **given: Any) -> None:
        self.gpu_name: str | None = None
        self.opt_level: int = 3
        self.launch_abi = "tile"
        self.lineinfo = False
        self.device_debug = False
        self.sanitize: str | None = None
        self.host_arch: str | None = None
        self.host_os: str | None = None
        self.emit = "cubin"
        self.ptxas: Any = None
        self.ptxas_options: tuple[str, ...] = ()
        self.toolkit_root: str | None = None
        self.verify_each = False
        self.remarks: dict[str, str] = {}  # kind -> category
        self.kernels_json: str | None = None
        self.file_prefix_map: tuple[tuple[str, str], ...] = ()  # (old, new) of `renamed`
        self.warnings_as_errors = False
        self.no_warnings = False
        self.portable = False  # only what later GPUs have too: PTX that a driver assembles for one of them
        self.tensor_maps = "none"
        self.disable: tuple[str, ...] = ()  # parts of PARTS, beside those of the variable
        for name, value in given.items():
            if name not in Options.__slots__:
                raise TypeError(f"unknown option {name!r}")
            setattr(self, name, value)


def renamed(path: str, pairs: tuple[tuple[str, str], ...] | list[tuple[str, str]]) -> str:
    """`path` with the first prefix of `pairs` that fits (whole folders only) replaced."""
    for old, new in pairs:
        folder = old.rstrip("/") + "/"
        if path == old or path.startswith(folder):
            rest = path[len(folder) :]
            return f"{new.rstrip('/')}/{rest}" if new else rest
    return path


def disabled_parts(given: str | Iterable[str] = (), variable: str | None = None) -> tuple[str, ...]:
    """The parts to leave out, sorted, each once: `given` (words, or one text of them between commas), and those of
    the variable. Whether there are such parts is for the driver to say."""
    import os

    words = [given] if isinstance(given, str) else [str(word) for word in given]
    words.append(os.environ.get(DISABLE, "") if variable is None else variable)
    return tuple(sorted({part.strip() for word in words for part in word.split(",") if part.strip()}))


def is_number(text: str) -> bool:
    """Whether these are the decimal digits of a number that may be meant: Python refuses to read some thousand of them."""
    return text.isascii() and text.isdecimal() and len(text) <= 18


# (spelling, kind, field, help): kind "value", "flag", "when" (a value only behind "="), "list" (commas separate) or
# "many" (repeated, commas belong to it).
FLAGS: tuple[tuple[str, Any, str, str], ...] = (
    (
        "gpu-name",
        "value",
        "gpu_name",
        f"Specify name of NVIDIA GPU to generate code for ({NAMES[0]} .. {NAMES[-1]}).",
    ),
    ("arch", "value", "gpu_name", "Alias for --gpu-name"),
    (
        "portable",
        "flag",
        "portable",
        "Use no instruction that later GPUs lack (for PTX that is assembled for one of them)",
    ),
    (
        "disable",
        "list",
        "disable",
        f"Leave out parts of the code generator (comma list, repeatable): {', '.join(PARTS)}",
    ),
    ("opt-level", "value", "opt_level", "Specify optimization level, 0 to 3. Default Value: 3."),
    ("O", "value", "opt_level", "Alias for --opt-level"),
    ("output-file", "value", "output", "Specify name of output file. Default: elf.o."),
    ("o", "value", "output", "Alias for --output-file"),
    ("device-debug", "flag", "device_debug", "Generate debug information (needs -O0)"),
    ("g", "flag", "device_debug", "Alias for --device-debug"),
    ("lineinfo", "flag", "lineinfo", "Generate line-number information (if present in the input)"),
    ("sanitize", "value", "sanitize", "Enable instrumentation for a sanitizer tool: memcheck"),
    ("host-arch", "value", "host_arch", "Architecture of the host code: x86_64, aarch64"),
    ("host-os", "value", "host_os", "Operating system of the host code: linux, windows"),
    (
        "launch-abi",
        "value",
        "launch_abi",
        "How the kernel is launched: tile (block 1) or simt (explicit block). Default: tile",
    ),
    (
        "tensor-maps",
        "value",
        "tensor_maps",
        "Who encodes descriptors for bulk tensor copies: none, or launcher (hidden parameters). Default: none",
    ),
    ("emit", "value", "emit", "What the output file receives: cubin, ptx or tilebc. Default: cubin"),
    ("ptx-output", "value", "ptx_output", "Also write the PTX to this file"),
    ("kernels-json", "value", "kernels_json", "Also write the kernel table to this file"),
    (
        "report",
        "value",
        "report",
        "Also write a report that explains the compile: FILE.html to read, FILE.json as data",
    ),
    ("depfile", "value", "depfile", "Write a Make dependency file"),
    (
        "depfile-target",
        "value",
        "depfile_target",
        "Target named in the dependency file. Default: the output file",
    ),
    (
        "file-prefix-map",
        "many",
        "file_prefix_map",
        "Name source files under OLD as NEW in debug information and remarks: OLD=NEW (repeatable)",
    ),
    ("ptxas-options", "list", "ptxas_options", "Options handed to ptxas (comma list, repeatable)"),
    ("ptxas", "value", "ptxas", "Path of the ptxas to use"),
    ("toolkit-root", "value", "toolkit_root", "Root of the CUDA toolkit to use"),
    ("explain", "value", "explain", "Tell cause and remedy of a diagnostic by its code, and exit"),
    (
        "diagnostic-codes",
        "flag",
        "diagnostic_codes",
        "Name the code of each error in a last note; a terminal always has it",
    ),
    ("remarks", "value", "remarks", "Enable all remarks of a category: none, all, memory, tensorcore"),
    ("remarks-passed", "value", "remarks_passed", "Category for passed optimization remarks"),
    ("remarks-missed", "value", "remarks_missed", "Category for missed optimization remarks"),
    ("remarks-failed", "value", "remarks_failed", "Category for failed optimization remarks"),
    ("remarks-analysis", "value", "remarks_analysis", "Category for analysis optimization remarks"),
    ("remark-format", "value", "remark_format", "Format of remarks: command-line or yaml"),
    ("remarks-output-file", "value", "remarks_output", "File for YAML remarks. Default: tileir_remarks.yaml"),
    ("verify-each", "flag", "verify_each", "Verify the IR after every pass"),
    ("time-passes", "flag", "time_passes", "Print where the time went"),
    (
        "color",
        "when",
        "color",
        "Colour in messages: auto (on a terminal, unless NO_COLOR is set), always, never",
    ),
    ("w", "flag", "no_warnings", "Print no warnings"),
    ("Werror", "flag", "warnings_as_errors", "Warnings are errors"),
    ("list-versions", "flag", "list_versions", "List all supported bytecode versions and exit"),
    ("version", "flag", "version", "Display the version of this program"),
    ("serve", "flag", "serve", "Answer the requests of libtileiras on standard input (alone on the line)"),
    ("help", "flag", "help", "Display available options"),
    ("preview", "value", "preview", "Preview features of newer frontends (refused by name)"),
    ("l", "value", "library", "Tile libraries of newer frontends (refused by name)"),
)
BY_SPELLING = {row[0]: row for row in FLAGS}
