"""Outputs of one command: written beside their places, renamed together at the end, removed on any failure.

A build system judges by what lies on disk.  So: nothing partial ever has an output's name; after a failure
the old outputs and the depfile are gone as well, because a stale cubin beside a failed build is used by the
next one; and outputs that may keep their time stamp (headers) are left untouched when their content did not
change.
"""

from __future__ import annotations

import os

from tileiras.toolchain.cache import remove_quietly, temporary_sibling, write_atomically


class Outputs:
    """The files one command promises. `declare` first, then `put`, then `commit`; `discard` on failure."""

    def __init__(self) -> None:
        self._declared: list[str] = []
        self._keep_if_same: set[str] = set()
        self._staged: dict[str, str] = {}
        self._scratch: list[str] = []

    def declare(self, path: str | None, keep_if_same: bool = False) -> None:
        """Promises `path`: from now on a failure removes it."""
        if path:
            self._declared.append(path)
            if keep_if_same:
                self._keep_if_same.add(path)

    def stage(self, path: str) -> str:
        """A name beside `path` to write to; `commit` renames it."""
        self._make_folder(path)
        if path not in self._staged:
            self._staged[path] = temporary_sibling(path)
        return self._staged[path]

    def scratch(self, beside: str, suffix: str) -> str:
        """A name for a file that must not outlive the command."""
        self._make_folder(beside)
        path = temporary_sibling(beside + suffix)
        self._scratch.append(path)
        return path

    def put(self, path: str, data: bytes) -> None:
        """Stages `data` for `path`."""
        staged = self.stage(path)
        write_atomically(staged, data)

    def commit(self) -> None:
        """Renames all that was staged. Errors: OSError, after which `discard` cleans up."""
        for path, staged in self._staged.items():
            if path in self._keep_if_same and _same(path, staged):
                remove_quietly(staged)
                continue
            os.replace(staged, path)
        self._staged.clear()
        self._drop_scratch()

    def discard(self) -> None:
        """Removes everything promised and everything staged."""
        for path in (*self._staged.values(), *self._declared):
            # A device such as /dev/null may have been named as an output; only real files are ours to remove.
            if os.path.islink(path) or os.path.isfile(path):
                remove_quietly(path)
        self._staged.clear()
        self._drop_scratch()

    def _drop_scratch(self) -> None:
        for path in self._scratch:
            remove_quietly(path)
        self._scratch.clear()

    @staticmethod
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
