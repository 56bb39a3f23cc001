"""Every option that makes code, of every front: the command, tileiras-build compile, CMake, Bazel and setuptools.

One row says how an option is spelled at each front that has it, what values it takes and what it is for. The parsers of
the commands and of setuptools are made from the rows; so are `cmake/detail/options.cmake`, `bazel/private/options.bzl` and
`docs/reference/options.md`, which `scripts/option_pages.py` writes, and through the parsers completions and manual pages.
Inputs and outputs that only one build system has (targets, labels, folders) are its own and not here.
"""

from __future__ import annotations

from tileiras.archs import NAMES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

OPT_LEVELS = (0, 1, 2, 3)
LAUNCH_ABIS = ("tile", "simt")
TENSOR_MAPS = ("none", "launcher")  # who encodes the descriptors of bulk tensor copies
HOST_ARCHES = ("x86_64", "aarch64")
HOST_OSES = ("linux", "windows")
SANITIZERS = ("memcheck",)
COMPILERS = ("builtin", "nvidia")
# of the code generator, that a compile may leave out
PARTS = ("wgmma", "tcgen05", "bulk", "arrivals", "roles", "turns", "clusters", "pairs", "cp.async")
EMITS = ("cubin", "ptx", "tilebc")
REMARK_CATEGORIES = ("none", "all", "memory", "tensorcore")
REMARK_FORMATS = ("command-line", "yaml")
REMARK_KINDS = ("passed", "missed", "failed", "analysis")
COLOURS = ("auto", "always", "never")
EMBEDDINGS = ("array", "incbin", "none")
COMPRESSIONS = ("default", "size", "speed", "balance", "none")
REPORTS = ("html", "json")

COMMAND, BUILD, CMAKE, BAZEL, SETUPTOOLS = FRONTS = ("command", "build", "cmake", "bazel", "setuptools")
# how an option takes values: none; one; a whole number; a size such as 100K; one only behind "="; several between
# commas; repeated, or a list
SWITCH, ONE, NUMBER, SIZE, WHEN, LIST, MANY = "switch", "one", "number", "size", "when", "list", "many"


class Setting:
    """One option.

    `spelled`: front -> its spelling there, without dashes; at the command further ones are aliases. `values`: all that it
    takes, () where any. `kinds`, `taken`, `defaults`, `said`: front -> what differs there in kind, values, default, help.
    `field`: where the command keeps it, `metavar`: what a value is called.
    """

    __slots__ = (
        "defaults", "field", "help", "kind", "kinds", "metavar", "name", "said", "spelled", "taken", "values",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        kind: str,
        help: str,
        spelled: Mapping[str, str],
        values: tuple[str, ...] = (),
        *,
        metavar: str = "",
        field: str = "",
        kinds: Mapping[str, str] | None = None,
        taken: Mapping[str, tuple[str, ...]] | None = None,
        defaults: Mapping[str, str] | None = None,
        said: Mapping[str, str] | None = None,
    ) -> None:
        self.name, self.kind, self.help, self.spelled, self.values = name, kind, help, spelled, values
        self.metavar = metavar
        self.field = field or name.replace("-", "_")
        self.kinds, self.taken, self.defaults, self.said = (
            kinds or {},
            taken or {},
            defaults or {},
            said or {},
        )

    def spellings(self, front: str) -> tuple[str, ...]:
        """The spellings at a front, the first its own name; () where it has no such option."""
        return tuple(self.spelled.get(front, "").split())

    def kind_at(self, front: str) -> str:
        return self.kinds.get(front, self.kind)

    def values_at(self, front: str) -> tuple[str, ...]:
        return self.taken.get(front, self.values)

    def default_at(self, front: str) -> str:
        """What is taken when nothing is said; empty where that is nothing, or the help says it."""
        return self.defaults.get(front, self.defaults.get("", ""))

    def help_at(self, front: str) -> str:
        return self.said.get(front, self.help)


def _all(name: str, *, command: str = "", build: str = "") -> dict[str, str]:
    """An option of every front, spelled as each of them does."""
    under = name.replace("-", "_")
    return {
        COMMAND: command or name,
        BUILD: build or name,
        CMAKE: under.upper(),
        BAZEL: under,
        SETUPTOOLS: under,
    }


def _builds(name: str, *, build: str = "", bazel: str = "") -> dict[str, str]:
    """An option of everything but the command."""
    spelled = _all(name, build=build)
    del spelled[COMMAND]
    return {**spelled, BAZEL: bazel or spelled[BAZEL]}


def _only(front: str, spelled: str) -> dict[str, str]:
    return {front: spelled}


def _both(name: str, *, command: str = "", build: str = "") -> dict[str, str]:
    """An option of the two commands."""
    return {COMMAND: command or name, BUILD: build or name}


def _packing(name: str) -> dict[str, str]:
    """An option of those that make headers and libraries."""
    under = name.replace("-", "_")
    return {CMAKE: under.upper(), BAZEL: under, SETUPTOOLS: under}


SETTINGS: tuple[Setting, ...] = (
    Setting("gpu-name", ONE, f"Specify name of NVIDIA GPU to generate code for ({NAMES[0]} .. {NAMES[-1]})",
        _only(COMMAND, "gpu-name arch"), NAMES),
    Setting("archs", MANY, "architectures: GPUs in any spelling (sm_90, 100-virtual, 9.0+PTX, all), cpu for the host's processor",
        {BUILD: "arch", CMAKE: "ARCHITECTURES", BAZEL: "archs", SETUPTOOLS: "archs"}, metavar="ARCH", kinds={BUILD: ONE},
        said={BUILD: "sm_90 for an image; compute_90 for portable PTX; cpu for a table with code for the host"}),
    Setting("portable", SWITCH, "use no instruction that later GPUs lack (for PTX that is assembled for one of them)",
        _only(COMMAND, "portable")),
    Setting("compiler", ONE, "which compiler makes the images; default $TILEIRAS_COMPILER, else builtin", _builds("compiler"),
        COMPILERS, said={BAZEL: "which compiler makes the images"}),
    Setting("disable", LIST, f"leave out parts of the code generator (comma list, repeatable): {', '.join(PARTS)}",
        _both("disable"), metavar="PARTS"),
    Setting("plugin", LIST, "run passes that other installed packages offer (comma list, repeatable)",
        _only(COMMAND, "plugin"), field="plugins", metavar="NAMES"),
    Setting("opt-level", NUMBER, "optimisation level, 0 to 3", _all("opt-level", command="opt-level O"),
        tuple(map(str, OPT_LEVELS)), defaults={"": "3"}, said={COMMAND: "Specify optimization level, 0 to 3"}),
    Setting("output", ONE, "the cubin (for a virtual architecture: the PTX)", {COMMAND: "output-file o", BUILD: "o"},
        metavar="FILE", defaults={COMMAND: "elf.o"}, said={COMMAND: "Specify name of output file"}),
    Setting("debug", SWITCH, "debug information, optimisation level 0", _all("debug", command="device-debug g"),
        field="device_debug", said={COMMAND: "Generate debug information (needs -O0)"}),
    Setting("lineinfo", SWITCH, "line tables for profilers", _all("lineinfo"),
        said={COMMAND: "Generate line-number information (if present in the input)"}),
    Setting("sanitize", ONE, "instrument for a sanitizer tool", _all("sanitize"), SANITIZERS),
    Setting("host-arch", ONE, "processor of the machine that launches",
        {COMMAND: "host-arch", BUILD: "host-arch", CMAKE: "HOST_ARCH"}, HOST_ARCHES,
        taken={BUILD: (), CMAKE: (*HOST_ARCHES, "amd64", "arm64")}, metavar="ARCH"),
    Setting("host-os", ONE, "operating system of the machine that launches",
        {COMMAND: "host-os", BUILD: "host-os", CMAKE: "HOST_OS"}, HOST_OSES),
    Setting("launch-abi", ONE, "how a kernel is launched: tile (block 1) or simt (explicit block); NVIDIA's compiler makes tile",
        _all("launch-abi"), LAUNCH_ABIS, defaults={COMMAND: "tile", "": "simt"},
        said={COMMAND: "How the kernel is launched: tile (block 1) or simt (explicit block)"}),
    Setting("tensor-maps", ONE,
        "who encodes descriptors for bulk tensor copies; launcher: kernels take them as hidden parameters", _all("tensor-maps"),
        TENSOR_MAPS, defaults={"": "none"}),
    Setting("emit", ONE, "what the output file receives", _only(COMMAND, "emit"), EMITS, defaults={"": "cubin"}),
    Setting("ptx", ONE, "also write the PTX (built-in compiler)", _both("ptx", command="ptx-output"), field="ptx_output",
        metavar="FILE", said={COMMAND: "also write the PTX"}),
    Setting("tilebc", ONE, "also write the bytecode", _only(BUILD, "tilebc"), metavar="FILE"),
    Setting("kernels-json", ONE, "also write the kernel table", _both("kernels-json"), metavar="FILE"),
    Setting("report", ONE, "also write a report that explains the compile: FILE.html to read, FILE.json as data",
        _both("report"), metavar="FILE"),
    Setting("reports", ONE, "a report of each image, which explains the compile", _packing("report"), REPORTS),
    Setting("depfile", ONE, "write what the output was made from, in Make's form", _both("depfile"), metavar="FILE"),
    Setting("depfile-target", ONE, "target named in the depfile, exactly as the build system spells it; default the output",
        _both("depfile-target"), metavar="NAME"),
    Setting("depfile-for", ONE, "who reads the depfile: an error where that one cannot read a name; both: where no text says "
        "a name to both Make and Ninja, what one of them reads", _only(BUILD, "depfile-for"), ("both", "make", "ninja")),
    Setting("depends", MANY, "one more file the output depends on, for the depfile and the record", _only(BUILD, "depends"),
        metavar="FILE"),
    Setting("file-prefix-map", MANY, "name source files under OLD as NEW in debug information and remarks (repeatable)",
        _both("file-prefix-map"), metavar="OLD=NEW"),
    Setting("options", MANY, "passed to the Tile compiler as they are", _builds("options", build="option", bazel="copts"),
        metavar="X"),
    Setting("ptxas-options", MANY, "passed to ptxas as they are",
        {**_all("ptxas-options", build="ptxas-option"), BAZEL: "ptxasopts"}, metavar="X", kinds={COMMAND: LIST},
        said={COMMAND: "Options handed to ptxas (comma list, repeatable)"}),
    Setting("fatbinary-options", MANY, "passed to fatbinary as they are", _only(CMAKE, "FATBINARY_OPTIONS")),
    Setting("ptxas", ONE, "path of the ptxas to use", _only(COMMAND, "ptxas"), metavar="FILE"),
    Setting("toolkit-root", ONE, "root of the CUDA toolkit to use", _both("toolkit-root"), metavar="DIR"),
    Setting("entries", MANY, "kernels that must be there, and the only ones in the table; of a .py source: what to export",
        _builds("entries", build="entry"), metavar="NAME",
        said={BUILD: "a kernel that must be there; the table lists only these"}),
    Setting("bytecode-version", ONE, "version of the bytecode that is exported, handed on and written",
        _builds("bytecode-version"), metavar="V"),
    Setting("explain", ONE, "tell cause and remedy of a diagnostic by its code, and exit", _only(COMMAND, "explain"),
        metavar="CODE"),
    Setting("diagnostic-codes", SWITCH, "name the code of each error in a last note; a terminal always has it",
        _only(COMMAND, "diagnostic-codes")),
    Setting("remarks", ONE, "category of optimisation remarks",
        {COMMAND: "remarks", BUILD: "remarks", CMAKE: "REMARKS", BAZEL: "remarks"}, REMARK_CATEGORIES),
    *(
        Setting(f"remarks-{kind}", ONE, f"category for {kind} optimisation remarks", _only(COMMAND, f"remarks-{kind}"),
            REMARK_CATEGORIES)
        for kind in REMARK_KINDS
    ),
    Setting("remark-format", ONE, "format of remarks", _only(COMMAND, "remark-format"), REMARK_FORMATS),
    Setting("remarks-output", ONE, "file for remarks as YAML",
        {COMMAND: "remarks-output-file", BUILD: "remarks-output", CMAKE: "REMARKS_FILE"}, metavar="FILE",
        defaults={COMMAND: "tileir_remarks.yaml"}),
    Setting("max-registers", NUMBER, "fail when a kernel uses more registers per thread", _builds("max-registers"), metavar="N"),
    Setting("no-spills", SWITCH, "fail when a kernel spills registers to memory", _builds("no-spills")),
    Setting("max-shared", SIZE, "fail when a kernel uses more shared memory: bytes or 100K", _builds("max-shared"),
        metavar="SIZE"),
    Setting("signature", ONE, "the signature to export (cuTile Python sources)",
        {CMAKE: "SIGNATURE", BAZEL: "signature", SETUPTOOLS: "signature"}, kinds={CMAKE: MANY}),
    Setting("matrix", ONE, "JSON file of the signatures to export (cuTile Python sources)", _only(SETUPTOOLS, "matrix")),
    Setting("symbol", MANY, "names of the kernels, one for each signature (cuTile Python sources)", _only(CMAKE, "SYMBOL")),
    Setting("import-directories", MANY, "where cuTile Python sources import modules from",
        _only(CMAKE, "IMPORT_DIRECTORIES")),
    Setting("formats", MANY, "files that are made or installed", {CMAKE: "FORMATS", BAZEL: "formats", SETUPTOOLS: "formats"},
        taken={
            CMAKE: ("cubin", "fatbin", "tilebc", "ptx", "header", "json", "object"),
            BAZEL: ("cubin", "fatbin", "header", "json", "ptx", "remarks", "report", "tilebc"),
            SETUPTOOLS: ("fatbin", "cubin", "ptx", "tilebc", "json"),
        },
        defaults={BAZEL: "cubin, fatbin, header, json", SETUPTOOLS: "fatbin, json"}),
    Setting("compress", ONE, "compression of the fatbin", _packing("compress"), COMPRESSIONS),
    Setting("prefix", ONE, "prefix of the C symbols; default from the name of the target or source", _packing("prefix")),
    Setting("namespace", ONE, "C++ namespace of the header", _packing("namespace")),
    Setting("header", ONE, "name of the generated header; default <source>_tile.h", {CMAKE: "HEADER", SETUPTOOLS: "header"}),
    Setting("language", ONE, "language of the generated source", {CMAKE: "LANGUAGE", BAZEL: "language"}, ("C", "CXX"),
        defaults={BAZEL: "C"}),
    Setting("embed", ONE, "how the image gets into the object", _packing("embed"), EMBEDDINGS,
        taken={SETUPTOOLS: ("array", "incbin")}, defaults={"": "array"}),
    Setting("launcher", MANY, "command in front of every compile", _only(CMAKE, "LAUNCHER")),
    Setting("jobs", NUMBER, "threads of ptxas", _only(CMAKE, "JOBS")),
    Setting("no-cache", SWITCH, "compile even where the cache has the answer", _only(BUILD, "no-cache")),
    Setting("verbose", SWITCH, "say what is run and where tools were found", _only(BUILD, "verbose")),
    Setting("verify-each", SWITCH, "verify the IR after every pass", _only(COMMAND, "verify-each")),
    Setting("time-passes", SWITCH, "print where the time went", _only(COMMAND, "time-passes")),
    Setting("color", WHEN, "colour in messages (auto: on a terminal, unless NO_COLOR is set)", _only(COMMAND, "color"), COLOURS),
    Setting("no-warnings", SWITCH, "print no warnings", _only(COMMAND, "w")),
    Setting("warnings-as-errors", SWITCH, "warnings are errors", _only(COMMAND, "Werror")),
    Setting("list-versions", SWITCH, "List all supported bytecode versions and exit", _only(COMMAND, "list-versions")),
    Setting("version", SWITCH, "Display the version of this program", _only(COMMAND, "version")),
    Setting("serve", SWITCH, "answer the requests of libtileiras on standard input (alone on the line)", _only(COMMAND, "serve")),
    Setting("help", SWITCH, "Display available options", _only(COMMAND, "help")),
    Setting("preview", ONE, "Preview features of newer frontends (refused by name)", _only(COMMAND, "preview")),
    Setting("library", ONE, "Tile libraries of newer frontends (refused by name)", _only(COMMAND, "l")),
)  # fmt: skip
BY_NAME = {setting.name: setting for setting in SETTINGS}


def of(front: str) -> list[Setting]:
    """The options of a front, in order."""
    return [setting for setting in SETTINGS if front in setting.spelled]
