"""The options of nvcc as a sorted table: long spelling, short spelling, how the value is taken, what we do with it.

nvcc knows exactly two spellings per option, `--long` and `-short`; a value follows after `=` or as the next word, and
joined without `=` for the few short names in JOINED. Nothing else is accepted, not even another letter case. The last
column says what the native route (the input is Tile IR) does; a line without Tile input never reaches this table.
Source: `nvcc --help` of 13.0 to 13.5, and experiments where the help leaves the value out (-MF, -qpp-config).
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

NO = 0  # no value
ONE = 1  # one value; given again, the last one wins, with a warning when they differ
LIST = 2  # comma-separated values that accumulate

PHASE = "phase"  # names the phase; of several the earliest one wins
TAKE = "take"  # plan.py reads it
HOST = "host"  # kept for the host compilation of the generated source, and for nvcc
LINK = "link"  # kept for the final nvcc of a mixed line; nothing to do with a Tile image
IGNORE = "ignore"  # accepted: means nothing for Tile IR
REFUSE = "refuse"  # cannot be had from Tile IR: an error that says so
ASK = "ask"  # answers a question instead of compiling: always the delegate's

# (long, short, value, action, allowed values or None)
BOOL = ("true", "false")
TABLE: tuple[tuple[str, str, int, str, tuple[str, ...] | None], ...] = (
    ("--Ofast-compile", "-Ofc", ONE, IGNORE, ("0", "min", "mid", "max")),
    ("--Wconversion", "-Wconversion", NO, IGNORE, None),
    ("--Wdefault-stream-launch", "-Wdefault-stream-launch", NO, IGNORE, None),
    ("--Werror", "-Werror", LIST, TAKE, ("all-warnings", "cross-execution-space-call", "reorder",
                                         "default-stream-launch", "missing-launch-bounds",
                                         "ext-lambda-captures-this", "deprecated-declarations", "conversion")),
    ("--Wext-lambda-captures-this", "-Wext-lambda-captures-this", NO, IGNORE, None),
    ("--Wmissing-launch-bounds", "-Wmissing-launch-bounds", NO, IGNORE, None),
    ("--Wno-deprecated-declarations", "-Wno-deprecated-declarations", NO, IGNORE, None),
    ("--Wno-deprecated-gpu-targets", "-Wno-deprecated-gpu-targets", NO, IGNORE, None),
    ("--Wreorder", "-Wreorder", NO, IGNORE, None),
    ("--allow-unsupported-compiler", "-allow-unsupported-compiler", NO, IGNORE, None),
    ("--apply-controls", "-apply-controls", ONE, IGNORE, None),
    ("--archive-options", "-Xarchive", LIST, LINK, None),
    ("--archiver-binary", "-arbin", ONE, LINK, None),
    ("--augment-host-linker-script", "-aug-hls", NO, LINK, None),
    ("--brief-diagnostics", "-brief-diag", ONE, IGNORE, BOOL),
    ("--clean-targets", "-clean", NO, TAKE, None),
    ("--compile", "-c", NO, PHASE, None),
    ("--compile-as-tools-patch", "-astoolspatch", NO, REFUSE, None),
    ("--compiler-bindir", "-ccbin", ONE, TAKE, None),
    ("--compiler-options", "-Xcompiler", LIST, HOST, None),
    ("--compress-mode", "-compress-mode", ONE, TAKE, ("default", "size", "speed", "balance", "none")),
    ("--concat", "-concat", NO, IGNORE, None),
    ("--cubin", "-cubin", NO, PHASE, None),
    ("--cuda", "-cuda", NO, PHASE, None),
    ("--cudadevrt", "-cudadevrt", ONE, LINK, ("none", "static")),
    ("--cudart", "-cudart", ONE, LINK, ("none", "shared", "static")),
    ("--debug", "-g", NO, HOST, None),
    ("--default-stream", "-default-stream", ONE, IGNORE, ("legacy", "null", "per-thread")),
    ("--define-macro", "-D", LIST, IGNORE, None),
    ("--dependency-drive-prefix", "-ddp", ONE, IGNORE, None),
    ("--dependency-output", "-MF", ONE, TAKE, None),
    ("--dependency-target-name", "-MT", ONE, TAKE, None),
    ("--device-c", "-dc", NO, PHASE, None),
    ("--device-debug", "-G", NO, TAKE, None),
    ("--device-entity-has-hidden-visibility", "-device-entity-has-hidden-visibility", ONE, IGNORE, BOOL),
    ("--device-link", "-dlink", NO, PHASE, None),
    ("--device-stack-protector", "-device-stack-protector", ONE, IGNORE, BOOL),
    ("--device-w", "-dw", NO, PHASE, None),
    ("--diag-error", "-diag-error", LIST, IGNORE, None),
    ("--diag-suppress", "-diag-suppress", LIST, IGNORE, None),
    ("--diag-warn", "-diag-warn", LIST, IGNORE, None),
    ("--disable-warnings", "-w", NO, TAKE, None),
    ("--display-error-number", "-err-no", NO, IGNORE, None),
    ("--dlink-time-opt", "-dlto", NO, REFUSE, None),
    ("--dont-use-profile", "-noprof", NO, LINK, None),
    ("--dopt", "-dopt", ONE, TAKE, ("on",)),
    ("--drive-prefix", "-dp", ONE, IGNORE, None),
    ("--dryrun", "-dryrun", NO, TAKE, None),
    ("--enable-tile", "-enable-tile", NO, TAKE, None),
    ("--entries", "-e", LIST, TAKE, None),
    ("--expt-extended-lambda", "-expt-extended-lambda", NO, IGNORE, None),
    ("--expt-relaxed-constexpr", "-expt-relaxed-constexpr", NO, IGNORE, None),
    ("--extended-lambda", "-extended-lambda", NO, IGNORE, None),
    ("--extensible-whole-program", "-ewp", NO, IGNORE, None),
    ("--extra-device-vectorization", "-extra-device-vectorization", NO, IGNORE, None),
    ("--fatbin", "-fatbin", NO, PHASE, None),
    ("--fdevice-sanitize", "-fdevice-sanitize", ONE, TAKE, None),
    ("--fdevice-syntax-only", "-fdevice-syntax-only", NO, REFUSE, None),
    ("--fdevice-time-trace", "-fdevice-time-trace", ONE, IGNORE, None),
    ("--fdevice-time-trace-granularity", "-fdevice-time-trace-granularity", ONE, IGNORE, None),
    ("--fmad", "-fmad", ONE, IGNORE, BOOL),
    ("--fmax-errors", "-fmax-errors", ONE, IGNORE, None),
    ("--force-cl-env-setup", "-force-cl-env-setup", NO, LINK, None),
    ("--forward-unknown-opts", "-forward-unknown-opts", NO, TAKE, None),
    ("--forward-unknown-to-host-compiler", "-forward-unknown-to-host-compiler", NO, TAKE, None),
    ("--forward-unknown-to-host-linker", "-forward-unknown-to-host-linker", NO, TAKE, None),
    ("--frandom-seed", "-frandom-seed", ONE, IGNORE, None),
    ("--ftemplate-backtrace-limit", "-ftemplate-backtrace-limit", ONE, IGNORE, None),
    ("--ftemplate-depth", "-ftemplate-depth", ONE, IGNORE, None),
    ("--ftz", "-ftz", ONE, IGNORE, BOOL),
    ("--gen-opt-lto", "-gen-opt-lto", NO, IGNORE, None),
    ("--generate-code", "-gencode", LIST, TAKE, None),
    ("--generate-dependencies", "-M", NO, PHASE, None),
    ("--generate-dependencies-with-compile", "-MD", NO, TAKE, None),
    ("--generate-dependency-targets", "-MP", NO, TAKE, None),
    ("--generate-line-info", "-lineinfo", NO, TAKE, None),
    ("--generate-nonsystem-dependencies", "-MM", NO, PHASE, None),
    ("--generate-nonsystem-dependencies-with-compile", "-MMD", NO, TAKE, None),
    ("--gpu-architecture", "-arch", ONE, TAKE, None),
    ("--gpu-code", "-code", LIST, TAKE, None),
    ("--help", "-h", NO, ASK, None),
    ("--host-linker-script", "-hls", ONE, LINK, ("use-lcs", "gen-lcs")),
    ("--include-path", "-I", LIST, IGNORE, None),
    ("--input-drive-prefix", "-idp", ONE, IGNORE, None),
    ("--jobserver", "-jobserver", NO, TAKE, None),
    ("--jump-table-density", "-jtd", ONE, IGNORE, None),
    ("--keep", "-keep", NO, TAKE, None),
    ("--keep-device-functions", "-keep-device-functions", NO, IGNORE, None),
    ("--keep-dir", "-keep-dir", ONE, TAKE, None),
    ("--lib", "-lib", NO, PHASE, None),
    ("--libdevice-directory", "-ldir", ONE, IGNORE, None),
    ("--library", "-l", LIST, LINK, None),
    ("--library-path", "-L", LIST, LINK, None),
    ("--link", "-link", NO, PHASE, None),
    ("--linker-options", "-Xlinker", LIST, LINK, None),
    ("--list-gpu-arch", "-arch-ls", NO, ASK, None),
    ("--list-gpu-code", "-code-ls", NO, ASK, None),
    ("--lto", "-lto", NO, REFUSE, None),
    ("--ltoir", "-ltoir", NO, PHASE, None),
    ("--m64", "-m64", NO, IGNORE, None),
    ("--machine", "-m", ONE, IGNORE, ("64",)),
    ("--maxrregcount", "-maxrregcount", ONE, TAKE, None),
    ("--no-align-double", "--no-align-double", NO, IGNORE, None),
    ("--no-compress", "-no-compress", NO, TAKE, None),
    ("--no-device-link", "-nodlink", NO, LINK, None),
    ("--no-display-error-number", "-no-err-no", NO, IGNORE, None),
    ("--no-exceptions", "-noeh", NO, IGNORE, None),
    ("--no-host-device-initializer-list", "-nohdinitlist", NO, IGNORE, None),
    ("--no-host-device-move-forward", "-nohdmoveforward", NO, IGNORE, None),
    ("--nvlink-options", "-Xnvlink", LIST, LINK, None),
    ("--nvprune-options", "-Xnvprune", LIST, IGNORE, None),
    ("--objdir-as-tempdir", "-objtemp", NO, TAKE, None),
    ("--optimization-info", "-opt-info", LIST, IGNORE, None),
    ("--optimize", "-O", ONE, IGNORE, None),
    ("--options-file", "-optf", LIST, TAKE, None),
    ("--optix-ir", "-optix-ir", NO, PHASE, None),
    ("--output-directory", "-odir", ONE, TAKE, None),
    ("--output-file", "-o", ONE, TAKE, None),
    ("--pre-include", "-include", LIST, IGNORE, None),
    ("--prec-div", "-prec-div", ONE, IGNORE, BOOL),
    ("--prec-sqrt", "-prec-sqrt", ONE, IGNORE, BOOL),
    ("--preprocess", "-E", NO, PHASE, None),
    ("--profile", "-pg", NO, HOST, None),
    ("--prune", "-prune", NO, IGNORE, None),
    ("--ptx", "-ptx", NO, PHASE, None),
    ("--ptxas-options", "-Xptxas", LIST, TAKE, None),
    ("--qpp-config", "-qpp-config", ONE, IGNORE, None),
    ("--relocatable-device-code", "-rdc", ONE, IGNORE, BOOL),
    ("--relocatable-link", "-r", NO, LINK, None),
    ("--relocatable-ptx", "-reloc-ptx", NO, IGNORE, None),
    ("--resource-usage", "-res-usage", NO, TAKE, None),
    ("--restrict", "-restrict", NO, IGNORE, None),
    ("--run", "-run", NO, PHASE, None),
    ("--run-args", "-run-args", LIST, LINK, None),
    ("--safety-compatibility", "-safety-compat", NO, IGNORE, None),
    ("--save-temps", "-save-temps", NO, TAKE, None),
    ("--shared", "-shared", NO, LINK, None),
    ("--simt-only", "-simt-only", NO, REFUSE, None),
    ("--skip-ptx-semantics-check", "-skip-ptx-semantics-check", NO, IGNORE, None),
    ("--source-in-ptx", "-src-in-ptx", NO, IGNORE, None),
    ("--split-compile", "-split-compile", ONE, IGNORE, None),
    ("--split-compile-extended", "-split-compile-extended", ONE, IGNORE, None),
    ("--static-global-template-stub", "-static-global-template-stub", ONE, IGNORE, BOOL),
    ("--std", "-std", ONE, IGNORE, ("c++03", "c++11", "c++14", "c++17", "c++20", "c++23")),
    ("--stdlib", "-stdlib", ONE, IGNORE, ("libc++", "libstdc++")),
    ("--system-include", "-isystem", LIST, IGNORE, None),
    ("--target-directory", "-target-dir", ONE, LINK, None),
    ("--threads", "-t", ONE, TAKE, None),
    ("--tile-only", "-tile-only", NO, TAKE, None),
    ("--tile-preview", "-tile-preview", ONE, TAKE, None),
    ("--tilebc", "-tilebc", NO, PHASE, None),
    ("--tilecubin", "-tilecubin", NO, PHASE, None),
    ("--tilefatbin", "-tilefatbin", NO, PHASE, None),
    ("--tileiras-options", "-Xtileiras", LIST, TAKE, None),
    ("--time", "-time", ONE, TAKE, None),
    ("--undefine-macro", "-U", LIST, IGNORE, None),
    ("--use-local-env", "-use-local-env", NO, IGNORE, None),
    ("--use_fast_math", "-use_fast_math", NO, IGNORE, None),
    ("--utf-8", "-utf-8", NO, IGNORE, None),
    ("--verbose", "-v", NO, TAKE, None),
    ("--verbose2", "-v2", NO, TAKE, None),
    ("--version", "-V", NO, ASK, None),
    ("--x", "-x", ONE, TAKE, ("c", "c++", "cu")),
)  # fmt: skip

# Ours: they say what nvcc has no word for, and are taken off the line before anything reaches nvcc.
OURS: tuple[tuple[str, str, int, str, tuple[str, ...] | None], ...] = (
    ("--dependency-quoted-target-name", "-MQ", ONE, TAKE, None),
    ("--tileiras-compiler", "--tileiras-compiler", ONE, TAKE, ("builtin", "nvidia")),
    ("--tileiras-header", "--tileiras-header", ONE, TAKE, None),
    ("--tileiras-launch-abi", "--tileiras-launch-abi", ONE, TAKE, ("simt", "tile")),
    ("--tileiras-nvcc", "--tileiras-nvcc", ONE, TAKE, None),
    ("--tileiras-prefix", "--tileiras-prefix", ONE, TAKE, None),
    ("--tileiras-version", "--tileiras-version", NO, ASK, None),
)

JOINED = ("-D", "-I", "-L", "-O", "-U", "-l", "-m", "-t")

# Options that only nvcc 13.3 and later have; older ones read `-tilebc` as `-t ilebc`.
TILE_OPTIONS = ("--enable-tile", "--tile-only", "--simt-only", "--tile-preview", "--tilebc", "--tilecubin",
                "--tilefatbin", "--tileiras-options")  # fmt: skip


class Flag:
    """One row of the table."""

    __slots__ = ("action", "choices", "long", "ours", "short", "value")

    def __init__(
        self, long: str, short: str, value: int, action: str, choices: tuple[str, ...] | None, ours: bool
    ) -> None:
        self.long, self.short, self.value, self.action, self.choices, self.ours = (
            long, short, value, action, choices, ours)  # fmt: skip

    def values_are_words(self) -> bool:
        """Returns whether the values are options of another tool (-Xcompiler a,b), not the option's argument."""
        return self.value == LIST

    def __repr__(self) -> str:
        return f"Flag({self.long})"


def index_flags(learned: Iterable[tuple[str, str, int]] = ()) -> dict[str, Flag]:
    """Returns spelling -> Flag for both spellings of every row, the learned ones (parse_help) included."""
    index: dict[str, Flag] = {}
    for ours, table in ((False, TABLE), (True, OURS)):
        for long, short, value, action, choices in table:
            index[long] = index[short] = Flag(long, short, value, action, choices, ours)
    for long, short, value in learned:
        if long not in index:
            index[long] = index[short] = Flag(long, short, value, IGNORE, None, False)
    return index


def parse_help(text: str) -> list[tuple[str, str, int]]:
    """Returns the (long, short, value) rows of an `nvcc --help` text: how a newer nvcc's options become known."""
    rows = []
    for line in text.splitlines():
        if not line.startswith("--"):
            continue
        words = line.split()
        long, short, value = words[0], words[-1].strip("()"), " ".join(words[1:-1])
        if not short.startswith("-"):
            continue
        rows.append((long, short, LIST if value.endswith(",...") else ONE if value else NO))
    return rows
