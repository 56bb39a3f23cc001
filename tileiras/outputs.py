"""Output files of a command: old ones go first, new ones appear whole or not at all.

`-` is standard output. Devices, pipes and what lies under /dev and /proc are written into, never replaced: /dev/stdout
names a regular file when the shell redirects it. A symbolic link stays; the file behind it is the output.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


class OutputError(Exception):
    """An output cannot be written: the text names the file and the reason (exit code 2)."""


def is_stream(path: str) -> bool:
    """Whether an output is written into where it is: standard output, a device, a pipe."""
    if path == "-" or path.startswith(("/dev/", "/proc/")):
        return True
    return os.path.exists(path) and not os.path.isfile(path)


class Outputs:
    """Files that one run will write."""

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = list(paths)
        self._staged: list[tuple[str, str]] = []  # (temporary, final)
        self._streams: list[tuple[str, bytes]] = []

    def unlink_old(self, source: str) -> None:
        """Remove earlier outputs, so that a failure leaves no stale one. Streams and the input itself stay."""
        seen = set()
        try:
            kept = os.stat(source)
        except OSError:
            kept = None
        for path in self.paths:
            if is_stream(path):
                continue
            real = os.path.realpath(path)
            if real in seen:
                raise OutputError(f"output file '{path}' is named twice")
            seen.add(real)
            try:
                if os.path.exists(real) and not (kept and os.path.samestat(os.stat(real), kept)):
                    os.unlink(real)
            except OSError as error:
                raise OutputError(f"unable to write output file '{path}': {error.strerror}") from None

    def write(self, path: str, data: bytes) -> None:
        """Stage one output."""
        if is_stream(path):
            self._streams.append((path, data))
            return
        real = os.path.realpath(path)
        temporary = f"{real}.{os.getpid()}.tmp"
        self._staged.append((temporary, real))
        try:
            with open(temporary, "wb") as handle:
                handle.write(data)
        except OSError as error:
            raise OutputError(f"unable to write output file '{path}': {error.strerror}") from None

    def commit(self) -> None:
        """Rename everything staged; when one rename fails, none of the outputs remains."""
        done = []
        path = ""
        try:
            for temporary, path in self._staged:
                os.replace(temporary, path)
                done.append(path)
            for path, data in self._streams:
                # Appending: what the shell redirects with >> keeps what it had.
                descriptor = os.dup(1) if path == "-" else os.open(path, os.O_WRONLY | os.O_APPEND)
                with open(descriptor, "wb") as handle:
                    handle.write(data)
        except OSError as error:
            for finished in done:
                os.unlink(finished)
            raise OutputError(f"unable to write output file '{path}': {error.strerror}") from None
        self._staged = []

    def discard(self) -> None:
        for temporary, _ in self._staged:
            try:
                os.unlink(temporary)
            except OSError:
                pass
        self._staged = []
