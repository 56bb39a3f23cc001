"""The worker's side of the protocol, spoken to directly: every frame in its order, whatever else happens around it."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from contract.kit import BAD_EXTI, NOOP, REPOSITORY

import tileiras
from tileiras.serve import ABI_SIMT, DEVICE_DEBUG, LINEINFO, NULL, SANITIZE_MEMCHECK, decode_request


def request(
    source: str | bytes, gpu: str | None = "sm_90", level: int = 3, flags: int = 0, arch: str | None = None
) -> bytes:
    """A request's payload, written by hand."""
    out = struct.pack("<iI", level, flags)
    for text in (gpu, arch, None):
        out += struct.pack("<I", NULL) if text is None else struct.pack("<I", len(text)) + text.encode()
    return out + (source.encode() if isinstance(source, str) else source)


class Worker:
    def __init__(self, **options: Any) -> None:
        env = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tileiras", "--serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=env,
            **options,
        )

    def read(self) -> tuple[bytes, bytes]:
        assert self.process.stdout is not None
        size, kind = struct.unpack("<Ic", self.process.stdout.read(5))
        return kind, self.process.stdout.read(size)

    def send(self, kind: bytes, payload: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(struct.pack("<Ic", len(payload), kind) + payload)
        self.process.stdin.flush()

    def ask(self, kind: bytes, payload: bytes) -> list[tuple[bytes, bytes]]:
        """Every frame up to the result."""
        self.send(kind, payload)
        frames = [self.read()]
        while frames[-1][0] != b"R":
            frames.append(self.read())
        return frames


@pytest.fixture
def worker() -> Iterator[Worker]:
    made = Worker()
    assert made.read() == (b"H", b"TILEIRAS1")
    yield made
    made.process.kill()
    made.process.wait()
    for stream in (made.process.stdin, made.process.stdout):
        if stream is not None:
            stream.close()


def test_frames_in_order(worker: Worker) -> None:
    frames = worker.ask(b"K", request(NOOP))
    assert frames == [(b"A", b""), (b"R", struct.pack("<i", 0))]
    frames = worker.ask(b"C", request(NOOP))
    assert [kind for kind, _ in frames] == [b"A", b"R"]
    assert frames[-1][1] == struct.pack("<i", 0) + tileiras.compile(NOOP).cubin
    frames = worker.ask(b"C", request(BAD_EXTI))
    assert [kind for kind, _ in frames] == [b"A", b"D", b"D", b"R"] and frames[-1][1] == struct.pack("<i", 5)
    assert worker.ask(b"K", request(NOOP, level=7))[-1][1] == struct.pack("<i", 2), (
        "nothing of one request reaches another"
    )


def test_a_diagnostic_frame(worker: Worker) -> None:
    """The text, and a record whose pointers are offsets at the places that are listed."""
    frame = worker.ask(b"C", request(BAD_EXTI))[1][1]
    size, pointers = struct.unpack_from("<II", frame)
    places = struct.unpack_from(f"<{pointers}I", frame, 8)
    text = frame[8 + 4 * pointers :][:size].decode()
    arena = frame[8 + 4 * pointers + size :]
    assert text.startswith("<input>:5:7: error: 'cuda_tile.exti' op ") and "\n<input>:5:7: note: " in text
    assert struct.unpack_from("<H", arena, 0x10)[0] == 0x103 and len(set(places)) == pointers
    for place in places:
        assert struct.unpack_from("<Q", arena, place)[0] < len(arena)
    where = struct.unpack_from("<Q", arena, 0)[0]
    file = struct.unpack_from("<Q", arena, where)[0]
    assert arena[file : arena.index(0, file)] == b"<input>"


def test_ctrl_c_is_the_clients_business(worker: Worker) -> None:
    worker.process.send_signal(signal.SIGINT)
    assert worker.ask(b"K", request(NOOP))[-1][1] == struct.pack("<i", 0)


def test_ends_with_its_client(worker: Worker) -> None:
    assert worker.process.stdin is not None
    worker.process.stdin.close()
    assert worker.process.wait(timeout=30) == 0


def test_a_client_that_is_gone_is_no_crash() -> None:
    made = Worker(stderr=subprocess.PIPE)
    made.read()
    assert made.process.stdout is not None and made.process.stdin is not None
    made.process.stdout.close()
    made.send(b"C", request(NOOP))
    made.process.stdin.close()
    assert made.process.wait(timeout=60) == 0
    assert made.process.stderr is not None and made.process.stderr.read() == b""
    made.process.stderr.close()


def test_descriptors_of_the_client_are_closed() -> None:
    """A pipe of the host stays the host's: its reader sees the end though the worker lives on."""
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)
    made = Worker(close_fds=False)
    try:
        made.read()
        os.close(writer)
        assert os.read(reader, 1) == b""
    finally:
        made.process.kill()
        made.process.wait()
        os.close(reader)
        for stream in (made.process.stdin, made.process.stdout):
            assert stream is not None
            stream.close()


def test_options() -> None:
    data, options = decode_request(
        request(b"input", gpu=None, level=-1, flags=LINEINFO | ABI_SIMT, arch="aarch64")
    )
    assert (data, options.gpu_name, options.opt_level, options.host_arch, options.host_os) == (
        b"input",
        None,
        -1,
        "aarch64",
        None,
    )
    assert (
        options.lineinfo
        and options.launch_abi == "simt"
        and not options.device_debug
        and options.sanitize is None
    )
    _, options = decode_request(request(b"", flags=DEVICE_DEBUG | SANITIZE_MEMCHECK))
    assert (
        options.device_debug
        and options.sanitize == "memcheck"
        and options.launch_abi == "tile"
        and not options.lineinfo
    )
    assert (LINEINFO, DEVICE_DEBUG, SANITIZE_MEMCHECK, ABI_SIMT) == (1, 2, 4, 8), "as in tileiras.h"
