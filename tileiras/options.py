"""Options of one compilation, and the command's flags: the rows of `settings.py` as its parser reads them."""

from __future__ import annotations

from tileiras.settings import (
    COMMAND,
    EMITS,
    HOST_ARCHES,
    HOST_OSES,
    LAUNCH_ABIS,
    LIST,
    MANY,
    NUMBER,
    OPT_LEVELS,
    PARTS,
    REMARK_CATEGORIES,
    REMARK_FORMATS,
    REMARK_KINDS,
    SWITCH,
    TENSOR_MAPS,
    WHEN,
    of,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from tileiras.settings import Setting

__all__ = [
    "BY_SPELLING", "DISABLE", "EMITS", "FLAGS", "HOST_ARCHES", "HOST_OSES", "LAUNCH_ABIS", "OPT_LEVELS", "PARTS",
    "REMARK_CATEGORIES", "REMARK_FORMATS", "REMARK_KINDS", "TENSOR_MAPS", "Options", "disabled_parts", "is_number", "renamed",
]  # fmt: skip
DISABLE = "TILEIRAS_DISABLE"  # the variable that disables parts in every compile


class Options:
    """What to compile for. Fields are the command's flags; None means not given."""

    __slots__ = (
        "device_debug", "emit", "file_prefix_map", "gpu_name", "host_arch", "host_os", "kernels_json", "launch_abi", "lineinfo",
        "opt_level", "ptxas", "ptxas_options", "remarks", "sanitize", "toolkit_root", "verify_each", "warnings_as_errors",
        "no_warnings", "portable", "disable", "tensor_maps", "plugins",
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
        self.plugins: tuple[str, ...] = ()  # passes of other installed packages, by name
        for name, value in given.items():
            if name not in Options.__slots__:
                raise TypeError(f"unknown option {name!r}")
            setattr(self, name, value)
        if isinstance(self.remarks, str):  # one category of every kind, as --remarks has it
            self.remarks = dict.fromkeys(REMARK_KINDS, self.remarks)


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


_KINDS = {SWITCH: "flag", WHEN: "when", LIST: "list", MANY: "many"}


def _rows(setting: Setting) -> list[tuple[str, str, str, str]]:
    """The flags of one option: its own spelling, then aliases."""
    spelling, *aliases = setting.spellings(COMMAND)
    text = setting.help_at(COMMAND)
    text = text[0].upper() + text[1:]
    values, default = setting.values_at(COMMAND), setting.default_at(COMMAND)
    if values and len(values) < 8 and not all(value in text for value in values) and setting.kind != NUMBER:
        text += f": {', '.join(values)}"
    text += f". Default: {default}" if default else ""
    kind = _KINDS.get(setting.kind_at(COMMAND), "value")
    dashes = "-" if len(spelling) == 1 else "--"
    alias = f"Alias for {dashes}{spelling}"
    return [(spelling, kind, setting.field, text), *((name, kind, setting.field, alias) for name in aliases)]


# (spelling, kind, field, help): kind "value", "flag", "when" (a value only behind "="), "list" (commas separate) or
# "many" (repeated, commas belong to it).
FLAGS: tuple[tuple[str, Any, str, str], ...] = tuple(row for setting in of(COMMAND) for row in _rows(setting))
BY_SPELLING = {row[0]: row for row in FLAGS}
