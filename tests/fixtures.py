"""The bytecode fixtures: kept in archives, read as files.

tests/data/bytecode holds one archive a family of the corpus, and tests/data/bytecode/versions one a bytecode version. Members
are stored as they are, in the order of their names and without dates, so that the same members are the same bytes and git
keeps what changes between two revisions. The comment of a member says what it was made from (tests/corpus/export.py).

`BYTECODE` is a folder with all members as files, `NAME.tilebc` and `versions/NAME-13.x.tilebc`, for tests that give a path to
a command. It lies under .cache and is named for the archives' contents: whoever comes first makes it, nobody changes it.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import tempfile
import zipfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
ARCHIVES = REPOSITORY / "tests" / "data" / "bytecode"
UNPACKED = REPOSITORY / ".cache" / "bytecode"

Members = dict[str, tuple[bytes, str]]  # file name -> contents, what they were made from


def archives() -> list[Path]:
    """All archives, in a fixed order."""
    return sorted(ARCHIVES.rglob("*.zip"))


def read(path: Path) -> Members:
    """The members of one archive; none when there is no such file."""
    if not path.exists():
        return {}
    with zipfile.ZipFile(path) as archive:
        return {i.filename: (archive.read(i), i.comment.decode()) for i in archive.infolist()}


def write(path: Path, members: Members) -> None:
    """Makes an archive anew; without members it goes."""
    if not members:
        path.unlink(missing_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(f".{os.getpid()}.tmp")
    with zipfile.ZipFile(partial, "w", zipfile.ZIP_STORED) as archive:
        for name, (data, comment) in sorted(members.items()):
            info = zipfile.ZipInfo(name)
            info.create_system = 3
            info.comment = comment.encode()
            archive.writestr(info, data)
    os.replace(partial, path)


def loose() -> list[Path]:
    """Files that lie beside the archives as they once did: nothing reads them."""
    return sorted(p for p in ARCHIVES.rglob("*") if p.name == "manifest.json" or p.suffix == ".tilebc")


def unpack() -> Path:
    """A folder with the members of all archives as they are now."""
    digest = hashlib.sha256()
    for path in archives():
        digest.update(f"{path.relative_to(ARCHIVES)} {path.stat().st_size}\n".encode() + path.read_bytes())
    folder = UNPACKED / digest.hexdigest()[:16]
    if not folder.exists():
        UNPACKED.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(dir=UNPACKED))
        for path in archives():
            target = partial / path.parent.relative_to(ARCHIVES)
            target.mkdir(exist_ok=True)
            with zipfile.ZipFile(path) as archive:
                archive.extractall(target)
        try:
            partial.rename(folder)
        except OSError:  # another process was faster
            shutil.rmtree(partial)
    return folder


@functools.cache
def _bytecode() -> Path:
    return unpack()


def __getattr__(name: str) -> Path:
    """`BYTECODE`, when it is first asked for."""
    if name == "BYTECODE":
        return _bytecode()
    raise AttributeError(name)
