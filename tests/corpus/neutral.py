"""Rewrites machine paths in the string table of a bytecode file: `neutral_strings(data, {"/opt/x/include":
"/cuda"})`.

nvcc puts the working directory and the toolkit's include folder into debug information. Files that are
committed must not say where they were made. Only the String section changes; every other section refers
to strings by number. Sections keep their order and alignment, so the result is what the frontend would
have written there.
"""

from __future__ import annotations

import itertools
import struct


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def sections(data: bytes) -> list[tuple[int, int, bytes]]:
    """(id, alignment or 0, payload) of every section before the end byte."""
    found, at = [], 12
    while data[at]:
        head = data[at]
        length, at = read_varint(data, at + 1)
        align = 0
        if head & 0x80:
            align, at = read_varint(data, at)
            at += -at % align
        found.append((head & 0x7F, align, data[at : at + length]))
        at += length
    return found


def neutral_strings(data: bytes, replace: dict[str, str]) -> bytes:
    """The same module with each key of `replace` exchanged inside every string."""
    out = bytearray(data[:12])
    for kind, align, payload in sections(data):
        if kind == 1:
            payload = _strings(payload, replace)
        out.append(kind | (0x80 if align else 0))
        out += varint(len(payload))
        if align:
            out += varint(align)
            out += b"\xcb" * (-len(out) % align)
        out += payload
    return bytes(out) + b"\0"


def _strings(payload: bytes, replace: dict[str, str]) -> bytes:
    # The payload starts on a multiple of its alignment (at least 4): padding counts from its own start.
    count, at = read_varint(payload, 0)
    at += -at % 4
    starts = [*struct.unpack_from(f"<{count}I", payload, at), len(payload) - at - 4 * count]
    texts = [payload[at + 4 * count + a : at + 4 * count + b] for a, b in itertools.pairwise(starts)]
    for old, new in replace.items():
        texts = [t.replace(old.encode(), new.encode()) for t in texts]
    head = varint(count)
    head += b"\xcb" * (-len(head) % 4)
    places, total = [], 0
    for text in texts:
        places.append(total)
        total += len(text)
    return head + struct.pack(f"<{count}I", *places) + b"".join(texts)
