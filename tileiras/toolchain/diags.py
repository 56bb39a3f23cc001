"""What the toolchain can have to say. Codes are ours; the last line of a failed compile is NVIDIA's
wording."""

from __future__ import annotations

from tileiras.diag import ERROR, NOTE, WARNING, WORD_CONFIG, WORD_ERROR, CompileError, Diag, Emitted

TOOL_MISSING = Diag("TC-0001", ERROR, "{tool} not found", src="own", word=WORD_CONFIG)
TOOL_SEARCHED = Diag("TC-0002", NOTE, "searched {place}: {outcome}")
TOOL_ADVICE = Diag("TC-0003", NOTE, "{advice}")
TOOL_TOO_OLD = Diag(
    "TC-0005",
    ERROR,
    "{tool} {version} ({path}) cannot {need}; release {needed} or later is needed",
    word=WORD_CONFIG,
)
RELEASES_DIFFER = Diag(
    "TC-0006",
    WARNING,
    "{first} {first_version} ({first_path}) and {second} {second_version} ({second_path}) differ in release",
    src="own",
)
ROOT_INVALID = Diag("TC-0007", ERROR, "{path} ({how}) is no CUDA toolkit: it has no {tool}", word=WORD_CONFIG)

PTXAS_FAILED = Diag("TC-0101", ERROR, "ptxas ({path}, target {target}) failed: {how}")
PTXAS_SAID = Diag("TC-0102", ERROR, "{text}")
PTXAS_WARNED = Diag("TC-0103", WARNING, "{text}")
PTXAS_LINE = Diag("TC-0106", NOTE, "PTX line {number}: {text}")
PTXAS_NO_OUTPUT = Diag(
    "TC-0104", ERROR, "ptxas ({path}, target {target}) reported success but wrote no image"
)
PTXAS_KEPT = Diag("TC-0105", NOTE, "the PTX was kept; repeat with: {command}")
COMPILE_FAILED = Diag("TC-0199", ERROR, "failed to compile Tile IR program", src="own", word=WORD_ERROR)

CUBIN_MALFORMED = Diag("TC-0201", ERROR, "{name} is not a cubin: {why}")

ARCH_UNKNOWN = Diag("TC-0301", ERROR, "'{text}' is no GPU architecture", src="own", word=WORD_CONFIG)
ARCH_UNSUPPORTED = Diag("TC-0302", WARNING, "ignoring architectures without Tile IR support: {archs}")
ARCH_NONE_LEFT = Diag(
    "TC-0303", ERROR, "no supported architecture in '{text}'; supported: {supported}", word=WORD_CONFIG
)
ARCH_EMPTY = Diag("TC-0304", ERROR, "the list of architectures is empty", word=WORD_CONFIG)
ARCH_NOT_ONE = Diag("TC-0306", ERROR, "'{text}' does not name one architecture", word=WORD_CONFIG)
ARCH_NO_GPU = Diag(
    "TC-0305",
    ERROR,
    "'native' needs a GPU in this machine, and none was found; name an architecture",
    word=WORD_CONFIG,
)

FATBINARY_FAILED = Diag("TC-0401", ERROR, "fatbinary ({path}) failed: {how}")
FATBIN_NO_COMPRESSION = Diag(
    "TC-0403",
    ERROR,
    "'{mode}' needs NVIDIA's fatbinary, not found",
    word=WORD_CONFIG,
)
FATBIN_WRONG_ARCH = Diag("TC-0404", ERROR, "the image given for {label} is for {found}")
FATBIN_NOT_TILEIR = Diag("TC-0405", ERROR, "the Tile IR given for {label} is no Tile IR bytecode")
FATBIN_NOT_PTX = Diag("TC-0406", ERROR, "the PTX given for {label} has no .version")
FATBIN_MALFORMED = Diag("TC-0407", ERROR, "{name} is not a fatbin: {why}")
TOOL_SAID = Diag("TC-0402", ERROR, "{text}")


def fail(exit_code: int, *emitted: Emitted) -> CompileError:
    """The exception to raise for these diagnostics."""
    return CompileError(exit_code, list(emitted))


def one(diag: Diag, **facts: object) -> Emitted:
    """An occurrence of `diag`."""
    return Emitted(diag, facts=facts.items())
