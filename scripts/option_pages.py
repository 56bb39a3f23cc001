#!/usr/bin/env python3
"""Writes what other languages need of `tileiras/settings.py`: keywords for CMake, attributes for Bazel, the page of options.

`scripts/option_pages.py` rewrites the files; tests/unit/test_settings.py compares them with the table.
"""

from __future__ import annotations

import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))

from tileiras.settings import (  # noqa: E402
    BAZEL,
    BUILD,
    CMAKE,
    COMMAND,
    FRONTS,
    MANY,
    NUMBER,
    SETTINGS,
    SETUPTOOLS,
    SIZE,
    SWITCH,
    Setting,
    of,
)

BAZEL_FLAGS = (
    "archs",
    "compiler",
    "debug",
    "launch_abi",
    "opt_level",
)  # of //tile, which stand for what is not said
HEADS = {
    COMMAND: "`tileiras`",
    BUILD: "`tileiras-build compile`",
    CMAKE: "CMake",
    BAZEL: "Bazel",
    SETUPTOOLS: "setuptools",
}
PAGE_HEAD = """# Options

Written by `scripts/option_pages.py` from `tileiras/settings.py`, which the parsers are made from too. `add_tile_kernel`,
`tile_library` and `TileExtension` hand to `tileiras-build` what they have in common with it. Defaults are in bold where every
front has the same; a front that differs says so.

"""


def verdict(values: tuple[str, ...]) -> str:
    """What is said of a value that is none of these."""
    if len(values) == 1:
        return f"is not {values[0]}"
    return (
        f"is neither {values[0]} nor {values[1]}" if len(values) == 2 else f"is none of {', '.join(values)}"
    )


def cmake() -> str:
    """cmake/detail/options.cmake."""
    kinds: dict[str, list[str]] = {"flags": [], "single": [], "several": []}
    lines = [
        "# Written by scripts/option_pages.py from tileiras/settings.py: the options among the keywords of add_tile_kernel,",
        "# and the values that they take, as a pattern and as what is said of another one.",
        "include_guard(GLOBAL)",
        "",
        "macro(_tileiras_options)",
    ]
    for setting in of(CMAKE):
        (keyword,) = setting.spellings(CMAKE)
        kind = setting.kind_at(CMAKE)
        kinds["flags" if kind == SWITCH else "several" if kind == MANY else "single"].append(keyword)
        values = setting.values_at(CMAKE)
        if values:
            lines.append(f'  set(_values_{keyword} "{"|".join(values)}")')
            lines.append(f'  set(_verdict_{keyword} "{verdict(setting.values or values)}")')
        elif kind == NUMBER:
            lines += [f'  set(_values_{keyword} "[0-9]+")', f'  set(_verdict_{keyword} "is no number")']
        elif kind == SIZE:
            lines.append(f'  set(_values_{keyword} "[0-9]+ *[KkMm]?[Ii]?[Bb]?")')
            lines.append(f'  set(_verdict_{keyword} "is no size (examples: 49152, 100K)")')
    lines += [f"  set(_option_{kind} {' '.join(words)})" for kind, words in kinds.items()]
    return "\n".join([*lines, "endmacro()", ""])


def attribute(setting: Setting) -> str:
    """A line of bazel/private/options.bzl."""
    (name,) = setting.spellings(BAZEL)
    kind, values, default = setting.kind_at(BAZEL), setting.values_at(BAZEL), setting.default_at(BAZEL)
    text = setting.help_at(BAZEL)
    fields = []
    if name in BAZEL_FLAGS:
        text += f"; default --@tileiras//tile:{name}"
    elif default and is_code(setting):
        text += f"; default {default}"
    if kind == SWITCH:
        form = "bool"
    elif kind == NUMBER:
        form = "int"
        if values:  # 0 is one of them
            fields = ["default = -1", f"values = [{', '.join(['-1', *values])}]"]
            text += " (-1: not said)"
        else:
            text += " (0: any number)"
    elif kind == MANY:
        form = "string_list"
        if default:
            fields = ["default = [" + ", ".join(f'"{word}"' for word in default.split(", ")) + "]"]
        if values:
            text += f": {', '.join(values)}"
    else:
        form = "string"
        if default and not is_code(setting):
            fields = [
                f'default = "{default}"',
                "values = [" + ", ".join(f'"{value}"' for value in values) + "]",
            ]
        elif values:
            fields = ["values = [" + ", ".join(f'"{value}"' for value in ("", *values)) + "]"]
    fields.append(f'doc = "{text[0].upper()}{text[1:]}."')
    return f"    {name} = attr.{form}({', '.join(fields)}),"


def is_code(setting: Setting) -> bool:
    """Whether an option makes code, and is not one of how it is packed."""
    return BUILD in setting.spelled and setting.name != "archs" or setting.name in ("reports", "signature")


def bazel() -> str:
    """bazel/private/options.bzl."""
    rows = sorted(of(BAZEL), key=lambda setting: setting.spelled[BAZEL])
    lines = ['"""Options of the Tile rules; written by scripts/option_pages.py from tileiras/settings.py."""']
    for name, about in (("CODE_OPTIONS", True), ("LIBRARY_OPTIONS", False)):
        lines += ["", f"{name} = dict(", *(attribute(row) for row in rows if is_code(row) == about), ")"]
    formats = next(row for row in rows if row.name == "formats").values_at(BAZEL)
    return "\n".join([*lines, "", f"FORMATS = [{', '.join(map(repr, formats))}]".replace("'", '"'), ""])


def spelled_at(setting: Setting, front: str) -> str:
    """How a front spells an option, as code."""
    words = []
    for spelling in setting.spellings(front):
        if front in (COMMAND, BUILD):
            spelling = ("-" if len(spelling) == 1 else "--") + spelling
        words.append(f"`{spelling}`")
    return ", ".join(words)


def page() -> str:
    """docs/reference/options.md."""
    heads = [HEADS[front] for front in FRONTS]
    lines = [f"| {' | '.join(heads)} | values | meaning |", "|" + "---|" * (len(heads) + 2)]
    for setting in SETTINGS:
        default = setting.defaults.get("", "")
        values = [f"**{value}**" if value == default else value for value in setting.values]
        if len(values) > 8:
            values = [values[0], "...", values[-1]]
        said = ", ".join(values)
        if default and default not in setting.values:
            said = f"**{default}**"
        own = []
        for front in of_setting(setting):
            if setting.taken.get(front):
                own.append(f"{HEADS[front]}: {', '.join(setting.taken[front])}")
            if front in setting.defaults:
                own.append(f"{HEADS[front]}: default {setting.defaults[front]}")
        said = "; ".join(filter(None, [said, *own]))
        cells = [spelled_at(setting, front) for front in FRONTS]
        lines.append(f"| {' | '.join([*cells, said, setting.help])} |")
    return PAGE_HEAD + "\n".join([*lines, ""])


def of_setting(setting: Setting) -> list[str]:
    """The fronts that have an option."""
    return [front for front in FRONTS if front in setting.spelled]


def pages() -> dict[str, str]:
    """Path in the repository -> text, of every file."""
    return {
        "cmake/detail/options.cmake": cmake(),
        "bazel/private/options.bzl": bazel(),
        "docs/reference/options.md": page(),
    }


def main() -> int:
    for name, text in pages().items():
        (REPOSITORY / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
