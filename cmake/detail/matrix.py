"""The rows of a matrix for `tile_kernel_matrix`: `python3 -I -S matrix.py MATRIX.json STEM text|python`.

Prints one line a row, `unit|key=value|key=value`: the name of its kernel file, then the value of each member, members in
alphabetical order. Numbers keep their spelling (0.1 stays 0.1); true, false and null are spelled as the language of the
template does. Exits with 1 and one line on standard error for what is no matrix.
"""

import itertools
import json
import re
import sys

PYTHON = {True: "True", False: "False", None: "None"}
TEXT = {True: "true", False: "false", None: "null"}


class Number(str):
    """A number as the file spells it."""


def spelled(key, value, constants):
    if value is None or isinstance(value, bool):
        return constants[value]
    if not isinstance(value, str) or re.search(r"[][{}|;\n\r]", value):
        raise ValueError(f"'{key}' has the value '{json.dumps(value)}', which is no scalar")
    return value


def rows_of(matrix, constants):
    if isinstance(matrix, dict):
        for key, values in matrix.items():
            if not isinstance(values, list):
                raise ValueError(f"'{key}' is no list of values")
        keys = sorted(matrix)
        combinations = itertools.product(*(matrix[key] for key in keys))
        rows = [list(zip(keys, values)) for values in combinations] if keys else []
    elif isinstance(matrix, list):
        if not all(isinstance(row, dict) for row in matrix):
            raise ValueError("a list holds one object for each kernel")
        rows = [sorted(row.items()) for row in matrix]
    else:
        raise ValueError("neither an object of lists nor a list of objects")
    if not all(rows):
        raise ValueError("a row without members")
    if not rows:
        raise ValueError("it describes no kernel")
    for key, _ in itertools.chain(*rows):
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", key):
            raise ValueError(f"'{key}' is no identifier")
    return [[(key, spelled(key, value, constants)) for key, value in row] for row in rows]


def without_repeats(pairs):
    if len({key for key, _ in pairs}) < len(pairs):
        raise ValueError("an object names one member twice")
    return dict(pairs)


def main(path, stem, language):
    try:
        with open(path, encoding="utf-8-sig") as file:
            matrix = json.load(file, parse_int=Number, parse_float=Number, parse_constant=Number,
                               object_pairs_hook=without_repeats)  # fmt: skip
        rows = rows_of(matrix, PYTHON if language == "python" else TEXT)
        units = {}
        for row in rows:
            unit = "_".join(
                [stem, *(re.sub(rb"[^A-Za-z0-9_]", b"_", value.encode()).decode() for _, value in row)]
            )
            if unit in units:
                raise ValueError(f"two kernels are named '{unit}': {units[unit]} and {dict(row)}")
            units[unit] = dict(row)
    except (OSError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    text = "".join("|".join([unit, *(f"{key}={value}" for key, value in row.items())]) + "\n"
                   for unit, row in units.items())  # fmt: skip
    sys.stdout.buffer.write(text.encode("utf-8"))
    return 0


sys.exit(main(*sys.argv[1:]))
