"""How many compilations run at once: what the user said, else what processors and memory allow; make's tokens.

Order: build_ext -j, TILEIRAS_JOBS, MAX_JOBS, CMAKE_BUILD_PARALLEL_LEVEL, then the processors this process may use,
capped by memory: a machine that swaps itself to death is the commonest complaint about CUDA wheels.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

JOB_BYTES = 1 << 30  # one compilation with its ptxas: a few hundred MB as measured, and room
VARIABLES = ("TILEIRAS_JOBS", "MAX_JOBS", "CMAKE_BUILD_PARALLEL_LEVEL")


def count_jobs(
    parallel: int | bool | None, environ: Mapping[str, str], available_bytes: int | None = None
) -> int:
    """Returns the number of compilations to run at once, at least one."""
    if parallel is not None and parallel is not True and int(parallel) > 0:
        return int(parallel)
    for name in VARIABLES:
        text = environ.get(name, "").strip()
        if text.isascii() and text.isdecimal() and len(text) <= 9 and int(text) > 0:
            return int(text)
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if available_bytes is None:
        available_bytes = read_available_bytes()
    if available_bytes:
        processors = min(processors, available_bytes // JOB_BYTES)
    return max(1, processors)


def read_available_bytes(path: str = "/proc/meminfo") -> int | None:
    """Returns the memory that can be had without swapping, or None where nobody says."""
    try:
        with open(path, encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return None


class Jobserver:
    """GNU make's tokens: one is ours by right, each further job takes one from the pipe and gives it back."""

    __slots__ = ("read", "write")

    def __init__(self, read: int, write: int) -> None:
        self.read, self.write = read, write

    @classmethod
    def connect(cls, environ: Mapping[str, str]) -> Jobserver | None:
        """Returns the jobserver that MAKEFLAGS names, or None when there is none or it cannot be reached."""
        name = ""
        for word in environ.get("MAKEFLAGS", "").split():
            key, equals, value = word.partition("=")
            if equals and key in ("--jobserver-auth", "--jobserver-fds"):
                name = value  # make appends; the last one counts
        try:
            if name.startswith("fifo:"):
                both = os.open(name[5:], os.O_RDWR)
                return cls(both, both)
            read, comma, write = name.partition(",")
            if comma and int(read) >= 0 and int(write) >= 0:
                # A recipe without `+` gets no descriptors: then these numbers are closed, or something else.
                os.fstat(int(read))
                os.fstat(int(write))
                return cls(int(read), int(write))
        except (OSError, ValueError):
            pass
        return None

    def try_acquire(self) -> bytes | None:
        """Returns a token, or None when make has none to spare now. Never waits: the own token is always there."""
        import select

        if not select.select([self.read], [], [], 0)[0]:
            return None
        try:
            # Between select and read another process may win the token; then this read would block for ever.
            blocking = os.get_blocking(self.read)
            os.set_blocking(self.read, False)
            try:
                return os.read(self.read, 1) or None
            finally:
                os.set_blocking(self.read, blocking)
        except (BlockingIOError, OSError):
            return None

    def release(self, token: bytes) -> None:
        os.write(self.write, token)
