"""Files that a build leaves where packages are made from: copies that are right by content, and none of an earlier build.

setuptools copies what is newer and packs whatever lies in the build directory. Both go wrong for images: two builds
that share a source tree (two Pythons, two sets of architectures) overwrite each other's copy with an older time stamp,
and a kernel that left the project would be packed for ever. So copies are compared by content, and a record says which
files were ours.
"""

from __future__ import annotations

import hashlib
import json
import os

from tileiras.files import write_atomically

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def read_bytes(path: str) -> bytes | None:
    """Returns the content of a file, None when it is not there."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return None


def write_if_new(path: str, data: bytes) -> bool:
    """Writes through a temporary sibling; a file that would not change keeps its time stamp. Returns whether it wrote."""
    if read_bytes(path) == data:
        return False
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    write_atomically(path, data)
    return True


def remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass


def digest_of(path: str) -> str | None:
    data = read_bytes(path)
    return None if data is None else hashlib.sha256(data).hexdigest()


class Installed:
    """The record of one build directory: path -> digest of every file that was put there."""

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            with open(path, encoding="utf-8", errors="surrogateescape") as file:
                found = json.load(file)
        except (OSError, ValueError):
            found = None
        self.files: dict[str, str] = found if isinstance(found, dict) else {}

    def sweep(self, wanted: Iterable[str], folder: str) -> list[str]:
        """Removes what an earlier build put below `folder` and this one will not; returns those paths.

        A file that somebody else wrote there since is not ours any more, and stays.
        """
        kept = set(wanted)
        prefix = os.path.join(folder, "")
        gone = [path for path in self.files if path.startswith(prefix) and path not in kept]
        for path in gone:
            if digest_of(path) == self.files.pop(path):
                remove(path)
        return gone

    def remember(self, copied: Mapping[str, str]) -> None:
        """Adds path -> digest and writes the record."""
        self.files.update(copied)
        text = json.dumps(self.files, indent=1, sort_keys=True, ensure_ascii=False)
        write_if_new(self.path, text.encode("utf-8", "surrogateescape"))
