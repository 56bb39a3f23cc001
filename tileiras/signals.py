"""Signals that end a command: it cleans up first, and then dies of the signal, so that its caller sees the truth.

status = obey(body, clean)
with held():
    ...  # what has to be done whole: a signal is heard behind it
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any


class Interrupted(BaseException):
    """A signal asked us to stop. Not an Exception: no handler of a mere error may swallow it."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


_holding = 0  # how many held() are open
_waiting = 0  # the signal that came meanwhile


class held:
    """Puts off Interrupted to the end of a with statement."""

    def __enter__(self) -> None:
        global _holding
        _holding += 1

    def __exit__(self, *error: object) -> None:
        global _holding, _waiting
        _holding -= 1
        if _waiting and not _holding:
            number, _waiting = _waiting, 0
            raise Interrupted(number)


def obey(body: Callable[[], int], clean: Callable[[], object] | None = None) -> int:
    """body's status. A signal during `body`, its handlers of errors included, runs `clean` and ends this process by
    that signal; further ones are ignored meanwhile. One before or behind `body` ends it as well, never with a traceback:
    it is heard where it can be caught."""
    global _holding
    outer = _holding
    _holding = outer + 1
    before = _catch()
    try:
        try:
            held().__exit__()
            status = body()
        finally:
            _holding = outer + 1
    except Interrupted as stop:
        _holding = outer
        if clean is not None:
            clean()
        _restore(before)
        return die_of(stop.number)
    except BaseException:
        _leave(before)
        raise
    _leave(before)
    return status


def _leave(before: dict[int, Any]) -> None:
    """Ends what `obey` began; a signal that came behind `body` is obeyed."""
    global _holding, _waiting
    _restore(before)
    _holding -= 1
    if _waiting and not _holding:
        number, _waiting = _waiting, 0
        die_of(number)


def _catch() -> dict[int, Any]:
    """Turns TERM, INT and HUP into Interrupted; what to restore. Does nothing outside the main thread."""
    import _signal

    before: dict[int, Any] = {}

    def stop(number: int, frame: FrameType | None) -> None:
        for each in before:  # a second one must not stop the clean-up
            _signal.signal(each, _signal.SIG_IGN)
        if _holding:
            global _waiting
            _waiting = number
            return
        raise Interrupted(number)

    for name in ("SIGTERM", "SIGINT", "SIGHUP"):
        number = getattr(_signal, name, None)
        if number is None:
            continue
        try:
            # nohup and background jobs of a plain shell ignore these on purpose.
            if _signal.getsignal(number) != _signal.SIG_IGN:
                before[number] = _signal.signal(number, stop)
        except ValueError:
            break
    return before


def _restore(before: dict[int, Any]) -> None:
    import _signal

    for number, handler in before.items():
        _signal.signal(number, _signal.SIG_DFL if handler is None else handler)


def die_of(number: int) -> int:
    """Ends this process by the signal it received; its status in a shell, where it cannot."""
    import _signal

    _signal.signal(number, _signal.SIG_DFL)
    os.kill(os.getpid(), number)
    return 128 + number
