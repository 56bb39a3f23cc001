"""What long work is doing, as one line of standard error that is written again and again: on a terminal only.

Nothing appears in the first two seconds, and nothing is left behind. The cursor stays at the start of the line, so that
whatever else is printed meanwhile takes its place.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time

from tileiras.terminal import is_terminal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

AFTER_S = 2.0
EVERY_S = 0.1  # at most ten times a second


class Line:
    """The line. Where standard error is no terminal (or a dumb one), nothing is ever written."""

    def __init__(self) -> None:
        self.is_active = is_terminal(sys.stderr) and os.environ.get("TERM") != "dumb"
        self._next = time.monotonic() + AFTER_S
        self._is_shown = False
        self._is_open = False  # somebody else's line has begun and not ended
        self._lock = threading.RLock()
        self.detail = ""  # how far the work is, of a line that tells the time

    def tell(self, text: str) -> None:
        """Shows `text` where it is time to."""
        if not self.is_active or time.monotonic() < self._next:
            return
        with self._lock:
            if not self._is_open:
                self._next = time.monotonic() + EVERY_S
                self._write(f"\r\x1b[K{text[: _columns() - 1]}\r")
                self._is_shown = True

    def clear(self) -> None:
        """Takes the line away, because something else is to be printed or the work is done."""
        with self._lock:
            if self._is_shown:
                self._write("\r\x1b[K")
                self._is_shown = False

    def _write(self, text: str) -> None:
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except (OSError, ValueError):  # the terminal went away
            self.is_active = False

    def beside(self, stream: Any) -> Any:
        """A stream that writes to `stream`, never into the line; None, the default, where no line is shown."""
        return _Beside(self, stream) if self.is_active and stream is not None else None


class _Beside:
    """See `Line.beside`."""

    def __init__(self, line: Line, stream: Any) -> None:
        self._line, self._stream = line, stream

    def write(self, text: str) -> int:
        with self._line._lock:
            self._line.clear()
            if text:
                self._line._is_open = not text.endswith("\n")
            count = int(self._stream.write(text))
            self._stream.flush()
            return count

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _columns() -> int:
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


@contextlib.contextmanager
def watched(text: str) -> Iterator[Line]:
    """A line that says `text` and for how long already, until the block ends."""
    line = Line()
    if not line.is_active:
        yield line
        return
    start = time.monotonic()
    ended = threading.Event()

    def tick() -> None:
        wait = AFTER_S
        while not ended.wait(wait):
            line.tell(f"{text}: {line.detail}{time.monotonic() - start:.0f} s")
            wait = 1.0

    thread = threading.Thread(target=tick, daemon=True)
    thread.start()
    try:
        yield line
    finally:
        ended.set()
        thread.join()
        line.clear()
