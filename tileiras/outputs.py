"""Output files of a command: old ones go first, new ones appear whole or not at all."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


class OutputError(Exception):
    """An output cannot be written: the text names the file and the reason (exit code 2)."""


class Outputs:
    """Files that one run will write."""

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = list(paths)
        self._staged: list[tuple[str, str]] = []  # (temporary, final)

    def unlink_old(self, source: str) -> None:
        """Remove earlier outputs, so that a failure leaves no stale one. Devices and the input itself stay."""
        seen = set()
        try:
            kept = os.stat(source)
        except OSError:
            kept = None
        for path in self.paths:
            if os.path.abspath(path) in seen:
                raise OutputError(f"output file '{path}' is named twice")
            seen.add(os.path.abspath(path))
            try:
                if os.path.isfile(path) and not (kept and os.path.samestat(os.stat(path), kept)):
                    os.unlink(path)
            except OSError as error:
                raise OutputError(f"unable to write output file '{path}': {error.strerror}") from None

    def write(self, path: str, data: bytes) -> None:
        """Stage one file. Devices such as /dev/stdout are written at once."""
        try:
            if os.path.exists(path) and not os.path.isfile(path):
                with open(path, "wb") as handle:
                    handle.write(data)
                return
            temporary = f"{path}.{os.getpid()}.tmp"
            self._staged.append((temporary, path))
            with open(temporary, "wb") as handle:
                handle.write(data)
        except OSError as error:
            raise OutputError(f"unable to write output file '{path}': {error.strerror}") from None

    def commit(self) -> None:
        """Rename everything staged; when one rename fails, none of the outputs remains."""
        done = []
        try:
            for temporary, path in self._staged:
                os.replace(temporary, path)
                done.append(path)
        except OSError as error:
            for path in done:
                os.unlink(path)
            raise OutputError(f"unable to write output file '{path}': {error.strerror}") from None
        self._staged = []

    def discard(self) -> None:
        for temporary, _ in self._staged:
            try:
                os.unlink(temporary)
            except OSError:
                pass
        self._staged = []
