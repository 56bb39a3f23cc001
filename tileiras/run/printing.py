"""What a print op writes, as data: a C runtime formats from it without Python (tools/build/cpuprint.py)."""

from __future__ import annotations

from .reference.effects import CONVERSION, split_format
from .reference.floats import FORMATS, STORAGE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op

    Item = dict[str, Any]

UNTOLD = "print with '{conversion}' of {name} needs tileiras.launch"
WIDE = {"f16": "half", "bf16": "brain", "f32": "float", "tf32": "tf32", "f64": "double"}


def items_of(op: Op) -> tuple[list[Item], str]:
    """(pieces of the text in order, why they cannot be formatted in C).

    A piece: "text" before the value, and, where there is a value: "conversion" of C for `long`, `double`, `int` or a
    string ("as"), "read": how an element is read, "size" in bytes, "shape", "table": floats of up to 8 bits as the bits
    of f32 for each byte.
    """
    parts = split_format(op.attr("str").split("\0", 1)[0])
    types: list[Any] = [value.type for value in op.group("args")]
    items: list[Item] = []
    for i, (text, conversion) in enumerate(parts):
        item: Item = {"text": text}
        items.append(item)
        if not conversion or i >= len(types):
            continue
        name = getattr(types[i].elem, "name", "ptr")
        found = value_of(conversion, name)
        if found is None:
            return [], UNTOLD.format(conversion=conversion, name=name)
        item.update(found, shape=list(types[i].shape))
    return items, ""


def value_of(conversion: str, name: str) -> Item | None:
    """How an element is read and written; None for what C does not write as the reference interpreter does."""
    match = CONVERSION.fullmatch(conversion)
    assert match is not None
    flags, width, precision, _, kind = match.groups()
    if width == "*" or precision == "*":
        return None
    spec = f"%{flags}{width or ''}" + (f".{precision or ''}" if "." in conversion else "")
    size = 8 if name == "ptr" else STORAGE[name].itemsize
    item: Item = {"size": size, "read": "signed"}
    if name in FORMATS:
        item["read"] = WIDE.get(name, "table")
        table = FORMATS[name].table
        if item["read"] == "table" and table is not None:
            import numpy as np

            item["table"] = [int(bits) for bits in np.asarray(table, np.float32).view(np.uint32)]
    elif kind in "uoxXcp" or name in ("i1", "ptr"):
        item["read"] = "unsigned"
    elif name == "i4":
        item["read"] = "nibble"
    if kind in "diuoxX":
        return {**item, "as": "long", "conversion": f"{spec}l{kind}"}
    if kind in "eEfFgGaA":
        return {**item, "as": "double", "conversion": spec + kind}
    if kind == "c":
        return {**item, "as": "int", "conversion": f"{spec}c"}
    if kind == "p" and name not in FORMATS:
        return {**item, "as": "long", "conversion": "0x%lx"}
    if kind == "s" and name == "ptr":
        return {**item, "as": "string", "conversion": f"%{flags}{width or ''}s"}
    return None
