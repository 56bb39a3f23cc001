"""Launching on the CPU target: what it shares with the other targets is put in here."""

from __future__ import annotations

import ctypes
import sys

import numpy as np

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TextIO

    from tileiras.compiler.ir.core import Op

    from .args import Arguments


def run_cpu(
    module: Op,
    entry: str,
    grid: tuple[int, int, int],
    arguments: Arguments,
    memory: list[np.ndarray],
    check: bool,
    out: TextIO | None,
) -> None:
    """Compile an entry to native code and run it on all cores."""
    from .cpu import launch

    def write(op: Op, values: list[tuple[int, str, tuple[int, ...]]]) -> None:
        (out or sys.stdout).write(printed(op, values))

    regions = None
    if check:
        from .reference.memory import Memory

        space = Memory()
        for array, label in zip(arguments.arrays, arguments.labels):
            space.add_array(array, label)
        for i, array in enumerate(memory):
            space.add_array(array, f"memory[{i}]")
        regions = [(r.start, r.end, r.read_only, r.label) for r in space.regions]
    launch(module, entry, grid, arguments.data, write, regions)


class Everywhere:
    """All memory of the process, for strings that a kernel prints."""

    def load(self, addresses: Any, dtype: Any) -> Any:
        return np.array([ctypes.c_uint8.from_address(int(a)).value for a in addresses], dtype)


def printed(op: Op, values: list[tuple[int, str, tuple[int, ...]]]) -> str:
    """What a print op writes, by the reference interpreter's formatting."""
    from .reference.effects import format_value, split_format
    from .reference.floats import STORAGE

    parts = split_format(op.attr("str").split("\0", 1)[0])
    text = []
    for i, (literal, conversion) in enumerate(parts):
        text.append(literal)
        if conversion and i < len(values):
            address, name, shape = values[i]
            dtype = STORAGE.get(name, np.dtype(np.int64))
            size = dtype.itemsize * int(np.prod(shape, dtype=np.int64))
            raw = bytes((ctypes.c_ubyte * size).from_address(address))
            value = np.frombuffer(raw, dtype).reshape(shape)
            text.append(format_value(conversion, value, name, Everywhere()))
    return "".join(text)
