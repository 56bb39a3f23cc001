"""Matrices of kernels: one JSON format for `tile_kernel_matrix` of CMake and `--matrix` of `tileiras-build export`.

An object of lists (all combinations), a list of objects (exactly those), or an object that says more:

    {"values": {"t": ["f16", "f32"], "n": [64, 128]}, "exclude": [{"t": "f16", "n": 64}],
     "signature": "@t@[1],@t@[1],=@n@", "symbol": "scale_@t@_@n@"}

Members count in alphabetical order, numbers keep their spelling (0.1 stays 0.1). In `signature` and `symbol` stand
`@t@` or `{t}` for the values. Without `symbol` a kernel is named after its stem and its values: scale_64_f32.

`kernel_matrix.py MATRIX STEM text` prints one line a row for CMake, `unit|key=value|key=value`, `... python SIGNATURE` the
lines `unit|signature`. Exits with 1 and one line on standard error for what is no matrix.
"""

from __future__ import annotations

import itertools
import json
import re
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PYTHON = {True: "True", False: "False", None: "None"}
TEXT = {True: "true", False: "false", None: "null"}
_MORE = ("values", "exclude", "signature", "symbol")


class Number(str):
    """A number as the file spells it."""


class Matrix:
    """The rows, each a dict of spelled values, and the two templates, "" where the file has none."""

    def __init__(self, rows: list[dict[str, str]], signature: str, symbol: str) -> None:
        self.rows = rows
        self.signature = signature
        self.symbol = symbol

    def units(self, stem: str) -> dict[str, dict[str, str]]:
        """The rows by the name of their kernel. Errors: ValueError where two have one name."""
        found: dict[str, dict[str, str]] = {}
        for row in self.rows:
            if self.symbol:
                unit = fill(self.symbol, row)
            else:
                words = (re.sub(rb"[^A-Za-z0-9_]", b"_", value.encode()).decode() for value in row.values())
                unit = "_".join([stem, *words])
            if unit in found:
                raise ValueError(f"two kernels are named '{unit}': {found[unit]} and {row}")
            found[unit] = row
        return found


def read(text: str, constants: dict[Any, str]) -> Matrix:
    """The matrix of a JSON text; true, false and null are spelled as `constants` says. Errors: ValueError."""
    document = json.loads(
        text, parse_int=Number, parse_float=Number, parse_constant=Number, object_pairs_hook=_without_repeats
    )
    exclude: list[dict[str, str]] = []
    signature = symbol = ""
    if (
        isinstance(document, dict)
        and isinstance(document.get("values"), (dict, list))
        and _says_more(document)
    ):
        unknown = sorted(set(document) - set(_MORE))
        if unknown:
            raise ValueError(f"unknown key '{unknown[0]}'")
        exclude = [_spelled(row, constants) for row in document.get("exclude", [])]
        signature, symbol = document.get("signature", ""), document.get("symbol", "")
        if not isinstance(signature, str) or not isinstance(symbol, str):
            raise ValueError("'signature' and 'symbol' are texts")
        document = document["values"]
    rows = [_spelled(row, constants) for row in _combinations(document)]
    kept = [row for row in rows if not any(out.items() <= row.items() for out in exclude)]
    if not kept:
        raise ValueError("it describes no kernel")
    return Matrix(kept, signature, symbol)


def _says_more(document: dict[str, Any]) -> bool:
    # {"values": [1, 2]} alone is a plain matrix whose one member has that name
    return len(document) > 1 or isinstance(document["values"], dict)


def _combinations(document: Any) -> list[dict[str, Any]]:
    if isinstance(document, dict):
        for key, values in document.items():
            if not isinstance(values, list):
                raise ValueError(f"'{key}' is no list of values")
        keys = sorted(document)
        products = itertools.product(*(document[key] for key in keys)) if keys else []
        return [dict(zip(keys, values)) for values in products]
    if isinstance(document, list):
        if not all(isinstance(row, dict) for row in document):
            raise ValueError("a list holds one object for each kernel")
        return [dict(sorted(row.items())) for row in document]
    raise ValueError("neither an object of lists nor a list of objects")


def _spelled(row: Any, constants: dict[Any, str]) -> dict[str, str]:
    if not isinstance(row, dict) or not row:
        raise ValueError("a row without members")
    found = {}
    for key, value in row.items():
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", key):
            raise ValueError(f"'{key}' is no identifier")
        if value is None or isinstance(value, bool):
            value = constants[value]
        elif not isinstance(value, str) or re.search(r"[][{}|;\n\r]", value):
            raise ValueError(f"'{key}' has the value '{json.dumps(value)}', which is no scalar")
        found[key] = value
    return found


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({key for key, _ in pairs}) < len(pairs):
        raise ValueError("an object names one member twice")
    return dict(pairs)


def fill(template: str, row: dict[str, str]) -> str:
    """`template` with the values of `row`. Errors: ValueError that names a placeholder without a member."""

    def value(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        if name not in row:
            raise ValueError(f"no value for '{name}'")
        return row[name]

    return re.sub(r"@([A-Za-z_]\w*)@|\{([A-Za-z_]\w*)\}", value, template)


def main(argv: list[str]) -> int:
    """The exit code."""
    path, stem, language, *more = argv
    try:
        with open(path, encoding="utf-8-sig") as file:
            matrix = read(file.read(), PYTHON if language == "python" else TEXT)
        lines = []
        for unit, row in matrix.units(stem).items():
            if language == "python":
                signature = (more[0] if more else "") or matrix.signature
                if not signature:
                    raise ValueError("no signature, neither there nor as SIGNATURE")
                lines.append(f"{unit}|{fill(signature, row)}\n")
            else:
                lines.append("|".join([unit, *(f"{key}={value}" for key, value in row.items())]) + "\n")
    except (OSError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.buffer.write("".join(lines).encode("utf-8"))
    return 0
