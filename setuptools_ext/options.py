"""The options of a Tile source as a table: keyword, pyproject key, type, and the words for `tileiras-build`.

One table feeds the keywords of TileExtension and TileKernels, the keys of [tool.tileiras], the JSON schema and the
command lines, so that none of them can have an option that another lacks.
"""

from __future__ import annotations

from tileiras.options import TENSOR_MAPS
from tileiras.tools.config import BYTECODE_VERSIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

TEXT, NUMBER, FLAG, WORDS, SIZE = "string", "integer", "boolean", "array", "size"


class Option:
    """One row. `flag` is the word of `tileiras-build compile`, "" where another command takes the value."""

    __slots__ = ("choices", "flag", "help", "kind", "name")

    def __init__(self, name: str, kind: str, flag: str, help: str, choices: tuple[str, ...] = ()) -> None:
        self.name, self.kind, self.flag, self.help, self.choices = name, kind, flag, help, choices

    @property
    def key(self) -> str:
        """The name in pyproject.toml."""
        return self.name.replace("_", "-")


FORMATS = ("fatbin", "cubin", "ptx", "tilebc", "json")
OPTIONS: tuple[Option, ...] = (
    Option(
        "archs",
        WORDS,
        "",
        "architectures: GPUs in any spelling (sm_90, 100-virtual, 9.0+PTX, all), cpu for the host's processor",
    ),
    Option("compiler", TEXT, "--compiler", "which compiler makes the images", ("builtin", "nvidia")),
    Option("opt_level", NUMBER, "--opt-level", "optimisation level, 0 to 3"),
    Option("debug", FLAG, "--debug", "debug information, optimisation level 0"),
    Option("lineinfo", FLAG, "--lineinfo", "line tables for profilers"),
    Option("sanitize", TEXT, "--sanitize", "instrument for a sanitizer", ("memcheck",)),
    Option("launch_abi", TEXT, "--launch-abi", "how a launch names the block", ("simt", "tile")),
    Option(
        "tensor_maps",
        TEXT,
        "--tensor-maps",
        "who encodes descriptors for bulk tensor copies; launcher: the launchers and loaders that are made",
        TENSOR_MAPS,
    ),
    Option("options", WORDS, "--option", "passed to the Tile compiler as they are"),
    Option("ptxas_options", WORDS, "--ptxas-option", "passed to ptxas as they are"),
    Option("entries", WORDS, "--entry", "kernels that must be there; the table lists only these"),
    Option("signature", TEXT, "", "cuTile Python sources: the signature to export"),
    Option("matrix", TEXT, "", "cuTile Python sources: JSON file of the signatures to export"),
    Option(
        "bytecode_version",
        TEXT,
        "--bytecode-version",
        "version of the bytecode handed on and written",
        BYTECODE_VERSIONS,
    ),
    Option("max_registers", NUMBER, "--max-registers", "fail when a kernel uses more registers per thread"),
    Option("no_spills", FLAG, "--no-spills", "fail when a kernel spills registers to memory"),
    Option("max_shared", SIZE, "--max-shared", "fail when a kernel uses more shared memory: bytes or 100K"),
    Option("report", TEXT, "", "a report of each image, which explains the compile", ("html", "json")),
    Option(
        "compress", TEXT, "", "compression of the fatbin", ("default", "size", "speed", "balance", "none")
    ),
    Option("prefix", TEXT, "", "prefix of the C symbols; default the name of the source"),
    Option("namespace", TEXT, "", "C++ namespace of the header"),
    Option("header", TEXT, "", "name of the generated header; default <source>_tile.h"),
    Option("embed", TEXT, "", "how the image gets into the object", ("array", "incbin")),
    Option("formats", WORDS, "", "files to install beside the module", FORMATS),
)
BY_NAME = {option.name: option for option in OPTIONS}


class OptionError(Exception):
    """A value of the wrong kind; the text names keyword and value."""


def check_value(option: Option, value: Any, where: str) -> Any:
    """Returns the value in its canonical form. Errors: OptionError."""
    if value is None:
        return None
    what = f"{where}: {option.key if where.startswith('[') else option.name}"
    if option.kind == WORDS:
        if isinstance(value, str):
            value = [value]
        if not isinstance(value, (list, tuple)) or not all(isinstance(one, str) for one in value):
            raise OptionError(f"{what} is a list of strings, not {value!r}")
        value = list(value)
    elif option.kind == FLAG:
        if not isinstance(value, bool):
            raise OptionError(f"{what} is true or false, not {value!r}")
    elif option.kind == NUMBER:
        if isinstance(value, bool) or not isinstance(value, int):
            raise OptionError(f"{what} is a whole number, not {value!r}")
    elif option.kind == SIZE:
        if isinstance(value, bool) or not isinstance(value, (int, str)):
            raise OptionError(f"{what} is a size such as 49152 or '48K', not {value!r}")
    elif not isinstance(value, str):
        raise OptionError(f"{what} is a string, not {value!r}")
    for one in value if option.kind == WORDS else [value]:
        if option.choices and one not in option.choices:
            raise OptionError(f"{what}: '{one}' is not one of {', '.join(option.choices)}")
    return value


def compile_words(values: Mapping[str, Any]) -> list[str]:
    """Returns the options of `tileiras-build compile` for these values, in the order of the table."""
    words: list[str] = []
    for option in OPTIONS:
        value = values.get(option.name)
        if not option.flag or value is None or value is False:
            continue
        if option.kind == FLAG:
            words.append(option.flag)
        else:
            # With `=`, because a value may begin with a dash.
            words += [f"{option.flag}={one}" for one in (value if option.kind == WORDS else [value])]
    return words


def schema_of(option: Option) -> dict[str, Any]:
    """Returns the JSON schema of one option."""
    one: dict[str, Any] = {"type": "string"}
    if option.choices:
        one["enum"] = list(option.choices)
    kinds: dict[str, dict[str, Any]] = {
        TEXT: one, NUMBER: {"type": "integer"}, FLAG: {"type": "boolean"},
        SIZE: {"anyOf": [{"type": "integer"}, {"type": "string", "pattern": "^[0-9]+[KkMm]?$"}]},
        WORDS: {"anyOf": [one, {"type": "array", "items": one}]},
    }  # fmt: skip
    return {"description": option.help, **kinds[option.kind]}


def pick(values: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: values[name] for name in names if values.get(name) is not None}
