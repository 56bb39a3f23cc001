"""Matrices of kernels: one JSON format for `tile_kernel_matrix` of CMake and `--matrix` of `tileiras-build export`.

An object of lists (all combinations), a list of objects (exactly those), or an object that says more:

    {"values": {"t": ["f16", "f32"], "n": [64, 128]}, "exclude": [{"t": "f16", "n": 64}],
     "signature": "@t@[1],@t@[1],=@n@", "symbol": "scale_@t@_@n@"}

Members count in alphabetical order, numbers keep their spelling (0.1 stays 0.1). In `signature` and `symbol` stand
`@t@` or `{t}` for the values. Without `symbol` a kernel is named after its stem and its values: scale_64_f32.

`kernel_matrix.py MATRIX STEM text` prints one line a row for CMake, `unit|key=value|key=value`, `... python SIGNATURE` the
lines `unit|signature`. Exits with 1 and a diagnostic on standard error for what is no matrix.
"""

from __future__ import annotations

import itertools
import json
import re
import sys

from tileiras.diag import UNREADABLE, Catalogue, Diag, Refusal
from tileiras.terminal import refuse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PYTHON = {True: "True", False: "False", None: "None"}
TEXT = {True: "true", False: "false", None: "null"}
diags = Catalogue("tileiras.tools.build.matrix_diags")
_MORE = ("values", "exclude", "signature", "symbol")


class NoMatrix(Refusal):
    """What a file, or its text, has against being a matrix."""


class Number(str):
    """A number as the file spells it."""


class Matrix:
    """The rows, each a dict of spelled values, and the two templates, "" where the file has none."""

    def __init__(self, path: str, text: str, constants: dict[Any, str]) -> None:
        """Of a JSON text; true, false and null are spelled as `constants` says. Errors: NoMatrix, which names `path`."""
        self.path = path
        self.constants = constants
        self.signature = self.symbol = ""
        exclude: list[dict[str, str]] = []
        document = self._document(text)
        if isinstance(document, dict) and _says_more(document):
            unknown = sorted(set(document) - set(_MORE))
            if unknown:
                raise self._error(diags.KEY, key=unknown[0])
            listed = document.get("exclude", [])
            if not isinstance(listed, list):
                raise self._error(diags.EXCLUDE)
            exclude = [self._spelled(row) for row in listed]
            self.signature = self._template(document, "signature")
            self.symbol = self._template(document, "symbol")
            document = document["values"]
        rows = [self._spelled(row) for row in self._combinations(document)]
        self.rows = [row for row in rows if not any(out.items() <= row.items() for out in exclude)]
        if not self.rows:
            raise self._error(diags.NO_KERNEL)

    def units(self, stem: str) -> dict[str, dict[str, str]]:
        """The rows by the name of their kernel. Errors: NoMatrix where two have one name."""
        found: dict[str, dict[str, str]] = {}
        for row in self.rows:
            if self.symbol:
                unit = self.filled(self.symbol, row)
            else:
                words = (re.sub(rb"[^A-Za-z0-9_]", b"_", value.encode()).decode() for value in row.values())
                unit = "_".join([stem, *words])
            if unit in found:
                raise self._error(diags.ONE_NAME, unit=unit, first=found[unit], second=row)
            found[unit] = row
        return found

    def signatures(self, given: str, option: str) -> str:
        """The template of the signatures: the matrix's own or the one that is `given`. Errors: NoMatrix without either."""
        if not (given or self.signature):
            raise self._error(diags.NO_SIGNATURE, option=option)
        return given or self.signature

    def filled(self, template: str, row: dict[str, str]) -> str:
        """`template` with the values of `row`. Errors: NoMatrix for a placeholder without a member."""

        def value(match: re.Match[str]) -> str:
            name = match[1] or match[2]
            if name not in row:
                raise self._error(diags.HOLE, name=name)
            return row[name]

        return re.sub(r"@([A-Za-z_]\w*)@|\{([A-Za-z_]\w*)\}", value, template)

    def _error(self, row: Diag, **facts: Any) -> NoMatrix:
        return NoMatrix(row, path=self.path, **facts)

    def _document(self, text: str) -> Any:
        try:
            found = json.loads(
                text,
                parse_int=Number,
                parse_float=Number,
                parse_constant=Number,
                object_pairs_hook=self._object,
            )
            json.dumps(found, ensure_ascii=False).encode()  # halves of surrogate pairs are no text
        except ValueError as error:
            raise self._error(diags.NO_MATRIX, why=error) from error
        except RecursionError as error:
            raise self._error(diags.NO_MATRIX, why="it is nested too deeply") from error
        return found

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({key for key, _ in pairs}) < len(pairs):
            raise self._error(diags.TWICE)
        return dict(pairs)

    def _template(self, document: dict[str, Any], key: str) -> str:
        found = document.get(key, "")
        if not isinstance(found, str) or re.search(r"[|;\n\r]", found):
            raise self._error(diags.TEMPLATE, key=key)
        return found

    def _combinations(self, document: Any) -> list[dict[str, Any]]:
        if isinstance(document, dict):
            for key, values in document.items():
                if not isinstance(values, list):
                    raise self._error(diags.NO_LIST, key=key)
            keys = sorted(document)
            products = itertools.product(*(document[key] for key in keys)) if keys else []
            return [dict(zip(keys, values)) for values in products]
        if isinstance(document, list):
            if not all(isinstance(row, dict) for row in document):
                raise self._error(diags.LIST)
            return [dict(sorted(row.items())) for row in document]
        raise self._error(diags.FORM)

    def _spelled(self, row: Any) -> dict[str, str]:
        if not isinstance(row, dict) or not row:
            raise self._error(diags.ROW)
        found = {}
        for key, value in row.items():
            if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", key):
                raise self._error(diags.MEMBER, key=key)
            if value is None or isinstance(value, bool):
                value = self.constants[value]
            elif not isinstance(value, str) or re.search(r"[][{}|;\n\r]", value):
                raise self._error(diags.SCALAR, key=key, value=json.dumps(value))
            found[key] = value
        return found


def read(path: str, data: bytes, constants: dict[Any, str]) -> Matrix:
    """The matrix of a file with these bytes. Errors: NoMatrix."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise NoMatrix(diags.NO_MATRIX, path=path, why=error) from error
    return Matrix(path, text, constants)


def _says_more(document: dict[str, Any]) -> bool:
    # {"values": [1, 2]} alone is a plain matrix whose one member has that name
    values = document.get("values")
    return isinstance(values, dict) or (isinstance(values, list) and len(document) > 1)


def main(argv: list[str]) -> int:
    """The exit code."""
    path, stem, language, *more = argv
    try:
        with open(path, "rb") as file:
            matrix = read(path, file.read(), PYTHON if language == "python" else TEXT)
        lines = []
        template = matrix.signatures("".join(more), "SIGNATURE") if language == "python" else ""
        for unit, row in matrix.units(stem).items():
            if template:
                lines.append(f"{unit}|{matrix.filled(template, row)}\n")
            else:
                lines.append("|".join([unit, *(f"{key}={value}" for key, value in row.items())]) + "\n")
    except OSError as error:
        return refuse(NoMatrix(UNREADABLE, path=path, why=error.strerror))
    except NoMatrix as error:
        return refuse(error)
    sys.stdout.buffer.write("".join(lines).encode("utf-8"))
    return 0
