"""[tool.tileiras] of pyproject.toml: defaults, data kernels and extensions, with no setup.py.

Read from the file itself, because the hook runs before setuptools has parsed any configuration. A key that is not in
the table is an error that names the nearest one.
"""

from __future__ import annotations

import difflib
import glob
import os
from typing import Any

from setuptools.errors import OptionError

from tileiras.diag import Catalogue
from tileiras.terminal import told

from . import options
from .extension import TileExtension, TileKernels

diags = Catalogue(f"{__package__}.diags")

TEXT, FLAG, WORDS = options.TEXT, options.FLAG, options.WORDS
# Keys beside the Tile options: name -> JSON schema.
_STRING: dict[str, Any] = {"type": "string"}
_STRINGS: dict[str, Any] = {"type": "array", "items": _STRING}
_MACROS: dict[str, Any] = {
    "type": "array",
    "items": {"type": "array", "items": _STRING, "minItems": 1, "maxItems": 2},
}
KERNEL_KEYS: dict[str, Any] = {
    "package": {**_STRING, "description": "package that receives the files"},
    "sources": {**_STRINGS, "description": "Tile sources; globs allowed"},
    "depends": {**_STRINGS, "description": "more files the kernels depend on"},
    "loader": {"type": ["boolean", "string"], "description": "write a loader module, or its name"},
    "optional": {"type": "boolean", "description": "a failure is a warning"},
}
EXTENSION_KEYS: dict[str, Any] = {
    "name": {**_STRING, "description": "full name of the module"},
    "sources": {**_STRINGS, "description": "C, C++ and Tile sources; globs allowed"},
    "depends": {**_STRINGS, "description": "more files the module depends on"},
    "extra-compile-args": {"description": "words, or words by compiler", "anyOf": [
        _STRINGS, {"type": "object", "additionalProperties": False,
                   "properties": {"cxx": _STRINGS, "nvcc": _STRINGS, "tileiras": _STRINGS}}]},
    "extra-link-args": _STRINGS, "extra-objects": _STRINGS, "include-dirs": _STRINGS, "library-dirs": _STRINGS,
    "libraries": _STRINGS, "define-macros": _MACROS, "undef-macros": _STRINGS, "language": _STRING,
    "package-data": {"type": "boolean", "description": "install the files of `formats` beside the module"},
    "py-limited-api": {"type": "boolean"}, "optional": {"type": "boolean"},
}  # fmt: skip
TOP_KEYS: dict[str, Any] = {"jobs": {"type": "integer", "minimum": 1, "description": "compilations at once"}}
NOT_COMMON = (
    "prefix",
    "header",
    "namespace",
    "entries",
    "signature",
    "matrix",
    "formats",
)  # belong to a source, not a project


def schema() -> dict[str, Any]:
    """Returns the JSON schema of the table [tool.tileiras]."""
    tile = {option.key: options.schema_of(option) for option in options.OPTIONS}
    common = {key: value for key, value in tile.items() if key.replace("-", "_") not in NOT_COMMON}

    def items(keys: dict[str, Any], required: list[str]) -> dict[str, Any]:
        return {"type": "array", "items": {"type": "object", "additionalProperties": False, "required": required,
                                           "properties": {**keys, **tile}}}  # fmt: skip

    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": "https://github.com/tileiras/tileiras/blob/main/setuptools_ext/tileiras.schema.json",
        "title": "[tool.tileiras]: Tile kernels of a Python package",
        "type": "object",
        "additionalProperties": False,
        "properties": {
            **TOP_KEYS, **common,
            "kernels": items(KERNEL_KEYS, ["package", "sources"]),
            "extensions": items(EXTENSION_KEYS, ["name", "sources"]),
        },
    }  # fmt: skip


def load_table(path: str) -> dict[str, Any] | None:
    """Returns the table [tool.tileiras], or None when the file or the table is not there."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError:
        return None
    if b"tileiras" not in data:
        return None
    try:
        import tomllib
    except ImportError:
        import tomli as tomllib  # type: ignore[no-redef]
    try:
        table = tomllib.loads(data.decode("utf-8")).get("tool", {}).get("tileiras")
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        return None  # setuptools itself says what is wrong with the file
    if table is not None and not isinstance(table, dict):
        raise OptionError(told(diags.TABLE))
    return table


def _check_keys(table: dict[str, Any], allowed: list[str], where: str) -> None:
    for key in table:
        if key in allowed:
            continue
        near = difflib.get_close_matches(key.replace("_", "-"), allowed, n=1)
        hint = f"; did you mean '{near[0]}'?" if near else f"; known: {', '.join(sorted(allowed))}"
        raise OptionError(told(diags.KEY, where=where, key=key, hint=hint))


PYTHON_TYPES: dict[str, type] = {
    "string": str,
    "boolean": bool,
    "integer": int,
    "array": list,
    "object": dict,
}


def _check_type(value: Any, rule: dict[str, Any], what: str) -> None:
    """Checks the few forms that the key tables above use."""
    if "anyOf" in rule:
        for one in rule["anyOf"]:
            try:
                _check_type(value, one, what)
                return
            except OptionError:
                continue
        raise OptionError(told(diags.UNEXPECTED, what=what, value=value))
    kinds: list[str] = rule["type"] if isinstance(rule["type"], list) else [rule["type"]]
    allowed = tuple(PYTHON_TYPES[one] for one in kinds)
    if not isinstance(value, allowed) or (isinstance(value, bool) and bool not in allowed):
        names = " or ".join(("an " if one[0] in "aio" else "a ") + one for one in kinds)
        raise OptionError(told(diags.OF_TYPE, what=what, names=names, value=value))
    if isinstance(value, list):
        for one in value:
            _check_type(one, rule["items"], what)
    if isinstance(value, dict):
        _check_keys(value, list(rule["properties"]), what)
        for key, one in value.items():
            _check_type(one, rule["properties"][key], f"{what}.{key}")
    if kinds == ["integer"] and value < rule.get("minimum", value):
        raise OptionError(told(diags.AT_LEAST, what=what, least=rule["minimum"], value=value))


def _tile_values(table: dict[str, Any], names: list[str], where: str) -> dict[str, Any]:
    try:
        return {option.name: options.check_value(option, table[option.key], where)
                for option in options.OPTIONS if option.key in table and option.name in names}  # fmt: skip
    except options.OptionError as error:
        raise OptionError(f"pyproject.toml: {error}") from None


def _expand(patterns: list[str], root: str, where: str) -> list[str]:
    """Returns the files that the patterns name, sorted per pattern, each once. Errors: OptionError for no match."""
    found: dict[str, None] = {}
    for pattern in patterns:
        if glob.has_magic(pattern):
            names = sorted(glob.glob(pattern, root_dir=root, recursive=True))
            if not names:
                raise OptionError(told(diags.NO_MATCH, where=where, pattern=pattern))
        else:
            names = [pattern]
        found.update(dict.fromkeys(name.replace(os.sep, "/") for name in names))
    return list(found)


def read_project(table: dict[str, Any], root: str) -> tuple[dict[str, Any], int | None, list[Any]]:
    """Returns (defaults, jobs, extensions) of a [tool.tileiras] table. Errors: OptionError, naming the key."""
    every = [option.name for option in options.OPTIONS]
    common = [name for name in every if name not in NOT_COMMON]
    tile_keys = [option.key for option in options.OPTIONS]
    where = "[tool.tileiras]"
    _check_keys(
        table, [*TOP_KEYS, *(options.BY_NAME[name].key for name in common), "kernels", "extensions"], where
    )
    for key, rule in TOP_KEYS.items():
        if key in table:
            _check_type(table[key], rule, f"tool.tileiras.{key}")
    defaults = _tile_values(table, common, where)
    extensions: list[Any] = []
    for group, keys, required in (("kernels", KERNEL_KEYS, ("package", "sources")),
                                  ("extensions", EXTENSION_KEYS, ("name", "sources"))):  # fmt: skip
        entries = table.get(group, [])
        if not isinstance(entries, list) or not all(isinstance(one, dict) for one in entries):
            raise OptionError(told(diags.ARRAY_OF_TABLES, group=group))
        for entry in entries:
            where = f"[[tool.tileiras.{group}]]"
            _check_keys(entry, [*keys, *tile_keys], where)
            for key in required:
                if not entry.get(key):
                    raise OptionError(told(diags.MISSING_KEY, where=where, key=key))
            for key, rule in keys.items():
                if key in entry:
                    _check_type(entry[key], rule, f"tool.tileiras.{group}.{key}")
            values: dict[str, Any] = {key.replace("-", "_"): entry[key] for key in keys if key in entry}
            values["sources"] = _expand(values["sources"], root, where)
            if "depends" in values:
                values["depends"] = _expand(values["depends"], root, where)
            if "define_macros" in values:
                values["define_macros"] = [
                    (one[0], one[1] if len(one) > 1 else None) for one in values["define_macros"]
                ]
            values.update(_tile_values(entry, every, where))
            try:
                extensions.append(TileKernels(**values) if group == "kernels" else TileExtension(**values))
            except options.OptionError as error:
                raise OptionError(f"pyproject.toml: {where}: {error}") from None
    return defaults, table.get("jobs"), extensions


def write_schema(path: str) -> None:
    """Writes the schema file that editors read; a test compares it with the tables."""
    import json

    with open(path, "w", encoding="utf-8") as file:
        json.dump(schema(), file, indent=2)
        file.write("\n")


if __name__ == "__main__":
    write_schema(os.path.join(os.path.dirname(os.path.abspath(__file__)), "tileiras.schema.json"))
