"""Outputs of one command: written beside their places, renamed together at the end, removed on any failure.

A build system judges by what lies on disk.  So: nothing partial ever has an output's name; after a failure
the old outputs and the depfile are gone as well, because a stale cubin beside a failed build is used by the
next one, unless only the command line was wrong, when nothing was tried; and outputs that may keep their time
stamp (headers) are left untouched when their content did not change.

A device named as an output (/dev/stdout, /dev/null) is written to, never renamed over and never removed. A symbolic link
stays, and the file behind it is the output, unless another user may have put the link there: that is an error.
"""

from __future__ import annotations

import errno
import os
import stat

from tileiras.files import (
    PLANTED,
    is_of_system,
    is_planted,
    remove_quietly,
    sweep_siblings,
    temporary_sibling,
    write_new,
)
from tileiras.outputs import UNWRITABLE, OutputError


class Outputs:
    """The files one command promises. `declare` first, then `put`, then `commit`; `discard` on failure."""

    def __init__(self) -> None:
        self._declared: list[str] = []
        self._keep_if_same: set[str] = set()
        self._staged: dict[str, str] = {}  # final -> temporary
        self._direct: list[tuple[str, bytes]] = []
        self._scratch: dict[str, str] = {}  # path -> the output that it lies beside
        self._unswept: list[str] = []  # what was committed

    def declare(self, path: str | None, keep_if_same: bool = False) -> None:
        """Promises `path`: from now on a failure removes it. Errors: OutputError for what another user has planted."""
        if path:
            _refuse_planted(path)
            path = place_of(path)
            self._declared.append(path)
            if keep_if_same:
                self._keep_if_same.add(path)

    def scratch(self, beside: str, suffix: str) -> str:
        """A name for a file that must not outlive the command, on the file system of `beside`."""
        if is_special(beside):
            import tempfile

            path = temporary_sibling(os.path.join(tempfile.gettempdir(), "tileiras" + suffix))
        else:
            try:
                _make_folder(beside)
            except OSError as error:
                raise _unwritable(beside, error) from error
            path = temporary_sibling(beside + suffix)
        self._scratch[path] = beside
        return path

    def in_users_words(self, text: str) -> str:
        """`text` with the outputs' names for those of the files that stand for them: no user ever saw the latter."""
        for path, beside in self._scratch.items():  # a name with 48 random bits stands nowhere else
            text = text.replace(path, beside)
        return text

    def put(self, path: str, data: bytes) -> None:
        """Stages `data` for `path`. Errors: OutputError."""
        _refuse_planted(path)
        if is_special(path):
            self._direct.append((path, data))
            return
        spelled, path = path, place_of(path)
        if path in self._staged:
            remove_quietly(self._staged[path])
        staged = self._staged[path] = temporary_sibling(path)
        try:
            try:
                write_new(staged, data)
            except FileNotFoundError:
                _make_folder(path)
                write_new(staged, data)
        except OSError as error:
            raise _unwritable(spelled, error) from error

    def commit(self, is_last: bool = True) -> None:
        """Renames all that was staged. Errors: OutputError, after which `discard` cleans up.

        `is_last`: no other unit of work follows, so that what killed processes left is swept; that reads whole folders.
        """
        for path, staged in self._staged.items():
            if path in self._keep_if_same and _same(path, staged):
                remove_quietly(staged)
                continue
            try:
                os.replace(staged, path)
            except OSError as error:
                raise _unwritable(path, error) from error
        for path, data in self._direct:
            try:
                with open(path, "wb") as file:
                    file.write(data)
            except OSError as error:
                raise _unwritable(path, error) from error
        self._staged.clear()
        self._direct.clear()
        self._drop_scratch()
        self._unswept += self._declared
        if is_last:
            sweep_siblings(*(path for path in self._unswept if not is_special(path)))
            self._unswept.clear()

    def forget(self) -> None:
        """What was committed or discarded is no longer promised: another unit of work begins."""
        self._declared.clear()
        self._keep_if_same.clear()

    def discard(self, promised: bool = True) -> None:
        """Removes everything staged and, unless only the command line was wrong, everything promised."""
        for path in self._staged.values():
            remove_quietly(path)
        for path in self._declared:
            if promised and not is_special(path):
                remove_quietly(path)
        self._staged.clear()
        self._direct.clear()
        self._drop_scratch()

    def _drop_scratch(self) -> None:
        for path in self._scratch:
            remove_quietly(path)
        self._scratch.clear()


def _unwritable(path: str, error: OSError) -> OutputError:
    """The user knows the output's name, not that of its temporary sibling, nor of a folder that would have been made."""
    code = errno.ENOTDIR if error.errno == errno.EEXIST else error.errno
    return OutputError(UNWRITABLE, path=path, why=os.strerror(code or errno.EIO))


def place_of(path: str) -> str:
    """Where an output goes: behind a link that is the user's own."""
    if not os.path.islink(path) or is_special(path):
        return path
    return os.path.realpath(path)


def _refuse_planted(path: str) -> None:
    if is_planted(path):
        raise OutputError(UNWRITABLE, path=path, why=PLANTED)


def is_special(path: str) -> bool:
    """Whether `path` is no place for a file of ours: a device, a pipe, or a link of the system to one."""
    # /dev/stdout is a link to whatever standard output is: a plain file when it was redirected.
    if is_of_system(path):
        return True
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def _make_folder(path: str) -> None:
    folder = os.path.dirname(path)
    if folder:
        os.makedirs(folder, exist_ok=True)


def _same(path: str, staged: str) -> bool:
    try:
        if os.path.getsize(path) != os.path.getsize(staged):
            return False
        with open(path, "rb") as old, open(staged, "rb") as new:
            return old.read() == new.read()
    except OSError:
        return False
