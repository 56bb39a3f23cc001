"""`tileiras --serve`: the worker process behind libtileiras. Frames on descriptor 0 in, frames on descriptor 1 out.

A frame is a u32 length, a kind byte, and `length` bytes. All numbers are little-endian.

    worker:  H  "TILEIRAS1"                                              once, at the start
    client:  K  i32 level, u32 flags, gpu, arch, os, input               check magic, version and options
             C  the same                                                 compile
    worker:  A                                                           the request was read
             D  u32 text bytes, u32 pointers, u32 places[], text, arena  a diagnostic: rendered, and its record
             R  i32 code, output                                         the result

A string is a u32 length (0xffffffff for NULL) and its bytes; the input is the rest. The worker has one request at a
time and ends when its input does. A crash costs the client one request, which ends with code 5.
"""

from __future__ import annotations

import os
import struct
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

HELLO = b"TILEIRAS1"
NULL = 0xFFFFFFFF
LINEINFO, DEVICE_DEBUG, SANITIZE_MEMCHECK, ABI_SIMT = 1, 2, 4, 8


class _Channel:
    __slots__ = ("source", "target")

    def __init__(self, source: int, target: int) -> None:
        self.source = source
        self.target = target

    def read(self, size: int) -> bytes:
        parts = []
        while size:
            part = os.read(self.source, min(size, 1 << 20))
            if not part:
                raise EOFError
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def send(self, kind: bytes, *payload: bytes) -> None:
        data = b"".join(payload)
        view = memoryview(struct.pack("<I", len(data)) + kind + data)
        while view:
            view = view[os.write(self.target, view) :]


def serve() -> int:
    """Answer requests until the client is gone; 0."""
    import signal

    # Ctrl-C in a terminal reaches every process of the group; the client decides what becomes of us.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # What the client had open is none of our business: a listening socket must not outlive it in here.
    for descriptor in open_descriptors():
        try:
            os.close(descriptor)
        except OSError:
            pass
    empty = os.open(os.devnull, os.O_RDWR)
    if empty == 2:  # the host has no standard error, and neither have we
        empty = os.dup(empty)
    source, target = os.dup(0), os.dup(1)
    os.dup2(empty, 0)
    os.dup2(2, 1)  # stray prints must not reach the channel
    channel = _Channel(source, target)
    try:
        channel.send(b"H", HELLO)
        while True:
            size, kind = struct.unpack("<Ic", channel.read(5))
            payload = channel.read(size)
            channel.send(b"A")
            code, output = answer(kind, payload, channel)
            channel.send(b"R", struct.pack("<i", code), output)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return 0


def open_descriptors() -> list[int]:
    """Descriptors above 2, as far as the system tells."""
    try:
        return [int(name) for name in os.listdir("/proc/self/fd") if int(name) > 2]
    except (OSError, ValueError):
        return list(range(3, 1024))


def decode_request(payload: bytes) -> tuple[bytes, Any]:
    """(input, Options) of a request."""
    from tileiras.options import Options

    level, flags = struct.unpack_from("<iI", payload)
    at = 8
    texts: list[str | None] = []
    for _ in range(3):
        length = struct.unpack_from("<I", payload, at)[0]
        at += 4
        if length == NULL:
            texts.append(None)
        else:
            texts.append(payload[at : at + length].decode("utf-8", "replace"))
            at += length
    options = Options(
        gpu_name=texts[0],
        opt_level=level,
        host_arch=texts[1],
        host_os=texts[2],
        lineinfo=bool(flags & LINEINFO),
        device_debug=bool(flags & DEVICE_DEBUG),
        sanitize="memcheck" if flags & SANITIZE_MEMCHECK else None,
        launch_abi="simt" if flags & ABI_SIMT else "tile",
    )
    return payload[at:], options


def answer(kind: bytes, payload: bytes, channel: _Channel) -> tuple[int, bytes]:
    """(code, output) of one request; its diagnostics have been sent."""
    from tileiras.capi.record import encode
    from tileiras.diag import Sink
    from tileiras.program import check, compile_program

    def deliver(emitted: Any) -> None:
        arena = encode(emitted)
        text = emitted.render().encode("utf-8", "surrogateescape")
        head = struct.pack(f"<{2 + len(arena.pointers)}I", len(text), len(arena.pointers), *arena.pointers)
        channel.send(b"D", head, text, bytes(arena.memory[: arena.used]))

    data, options = decode_request(payload)
    sink = Sink(deliver)
    if kind == b"K":
        return check(data, options, sink), b""
    return compile_program(data, options, sink)


if __name__ == "__main__":
    sys.exit(serve())
