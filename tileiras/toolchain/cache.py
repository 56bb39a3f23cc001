"""A store of finished work, keyed by content: the second build of the same kernel is a file copy.

An entry is one file named by the digest of everything that went in.  It is written beside its place and
renamed, so readers see all of it or none, any number of writers may race for it, and kill -9 leaves at most a
stray temporary file, which the next clean-up removes.  Each entry carries a digest of its key and content; a
damaged one, or one that was moved here from another key, is dropped and counts as missing.  A reader touches
what it uses; when the store outgrows its limit, the least recently used entries go.

A store belongs to one user.  What another user owns or may write to, a link, a pipe, a device is never
believed, and nothing is written through a link or into another user's folder.

TILEIRAS_CACHE=0 turns it off, TILEIRAS_CACHE_DIR moves it, TILEIRAS_CACHE_SIZE sets the limit ("2G", "512M").
"""

from __future__ import annotations

import os
import sys

from tileiras.files import is_own, make_own_folder, read_own, remove_quietly, write_atomically
from tileiras.toolchain.digest import digest_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_MAGIC = b"tileiras-cache-2\n"
DEFAULT_LIMIT_BYTES = 1 << 30
MAX_ENTRY_BYTES = 1 << 28  # a larger result is compiled each time; reading never takes more memory than this
FOLDERS = ("objects", "versions", "digests")  # entries; notes about tools
_STRAY_AGE_S = 3600.0  # a temporary file older than this has lost its writer
_CHECK_EVERY = 64  # one put in this many looks at the size of the store
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_OFF = ("0", "off", "no", "false")


def cache_directory(environ: Mapping[str, str] | None = None) -> str | None:
    """Where the cache lives, or None when it is turned off or there is no place for it."""
    env = os.environ if environ is None else environ
    if env.get("TILEIRAS_CACHE", "1").lower() in _OFF:
        return None
    named = env.get("TILEIRAS_CACHE_DIR")
    if named:
        try:
            return os.path.abspath(named)
        except OSError:  # relative to a folder that is gone
            return None
    if sys.platform == "win32":
        base = env.get("LOCALAPPDATA", "")
        return os.path.join(base, "tileiras", "cache") if base else None
    base = env.get("XDG_CACHE_HOME", "")
    if not base:
        home = env.get("HOME", "")
        # No HOME (a build sandbox, a remote worker): nothing to share the cache with, so none.
        if not home or home == "/":
            return None
        base = os.path.join(home, ".cache")
    return os.path.join(base, "tileiras")


def size_limit(environ: Mapping[str, str] | None = None) -> int:
    """The limit in bytes; a TILEIRAS_CACHE_SIZE that makes no sense counts as absent."""
    text = (
        (os.environ if environ is None else environ)
        .get("TILEIRAS_CACHE_SIZE", "")
        .strip()
        .upper()
        .rstrip("B")
    )
    unit = text[-1:] if text[-1:] in ("K", "M", "G", "T") else ""
    number = text[: len(text) - len(unit)]
    sensible = number.isascii() and number.isdecimal() and len(number) <= 18 and int(number) > 0
    return int(number) * _UNITS[unit] if sensible else DEFAULT_LIMIT_BYTES


def source_digest() -> str:
    """A digest of this package's sources by relative name, size and time: a changed compiler is another.

    Stat data, not content, because reading some hundred files would cost more than a small compile; an
    install that restores an old file's size and time with new content is what this would miss.
    """
    rows = [f"{name}\0{stat.st_size}\0{stat.st_mtime_ns}" for name, _, stat in _sources()]
    return digest_bytes("\n".join(rows).encode("utf-8", "surrogateescape"))


def content_digest() -> str:
    """A digest of this package's sources by relative name and content: equal on two machines with equal
    files."""
    parts = []
    for name, path, _ in _sources():
        with open(path, "rb") as file:
            parts += [name.encode("utf-8", "surrogateescape"), file.read()]
    return digest_bytes(*parts)


def _sources() -> list[tuple[str, str, os.stat_result]]:
    """(relative name, path, stat) of every file that decides what the compiler does, by name."""
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    found = []
    stack = [root]
    while stack:
        folder = stack.pop()
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    if entry.name != "__pycache__":
                        stack.append(entry.path)
                elif entry.name.endswith((".py", ".json", ".toml")):
                    name = entry.path[len(root) + 1 :].replace(os.sep, "/")
                    found.append((name, entry.path, entry.stat()))
    return sorted(found)


def key_of(*parts: bytes | str) -> str:
    """The name of an entry; each part counts apart, so ("ab", "c") and ("a", "bc") differ."""
    return digest_bytes(*(p.encode("utf-8", "surrogateescape") if isinstance(p, str) else p for p in parts))


class Cache:
    """The store in one directory. Every trouble with the disk is a miss, never a failed compile."""

    __slots__ = ("directory", "limit_bytes")

    def __init__(self, directory: str, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> None:
        self.directory = directory
        self.limit_bytes = limit_bytes

    def _path(self, key: str) -> str:
        return os.path.join(self.directory, "objects", key[:2], key[2:])

    def get(self, key: str) -> dict[str, bytes] | None:
        """The parts stored under `key` (name -> bytes), or None."""
        data = read_own(self._path(key), min(self.limit_bytes, MAX_ENTRY_BYTES), touch=True)
        if data is None:
            return None
        parts = unpack(key, data)
        if parts is None:
            self.drop(key)
        return parts

    def drop(self, key: str) -> None:
        """Forgets an entry that is of no use."""
        remove_quietly(self._path(key))

    def put(self, key: str, parts: Mapping[str, bytes]) -> bool:
        """Stores `parts`; False when the disk would not have it."""
        data = pack(key, parts)
        if len(data) > min(self.limit_bytes, MAX_ENTRY_BYTES):
            return False
        path = self._path(key)
        try:
            if not own_root(self.directory):
                return False
            folder = os.path.dirname(path)
            if not (make_own_folder(os.path.dirname(folder)) and make_own_folder(folder)):
                return False
            write_atomically(path, data, 0o600)
            if os.urandom(1)[0] % _CHECK_EVERY == 0 or len(data) > self.limit_bytes // _CHECK_EVERY:
                self.trim()
        except OSError:
            return False
        return True

    def count(self, event: str) -> None:
        """Notes a hit or a miss: one byte more in the file of that name, which any number of processes may do at once."""
        flags = (
            os.O_WRONLY
            | os.O_CREAT
            | os.O_APPEND
            | getattr(os, "O_NOFOLLOW", 0)
            | getattr(os, "O_NONBLOCK", 0)
        )
        try:
            if own_root(self.directory) and make_own_folder(os.path.join(self.directory, "counts")):
                descriptor = os.open(os.path.join(self.directory, "counts", event), flags, 0o600)
                try:
                    os.write(descriptor, b".")
                finally:
                    os.close(descriptor)
        except OSError:
            pass

    def files(self) -> list[tuple[str, os.stat_result]]:
        """(path, status) of every file below the folders of the store; no link is followed."""
        found = []
        for name in FOLDERS:
            top = os.path.join(self.directory, name)
            if os.path.islink(top):
                continue
            for folder, _, names in os.walk(top):
                for each in names:
                    path = os.path.join(folder, each)
                    try:
                        found.append((path, os.lstat(path)))
                    except OSError:
                        continue  # another process was quicker
        return found

    def statistics(self) -> dict[str, int]:
        """Entries, their bytes, what else lies there, and how often the store was asked."""
        objects = os.path.join(self.directory, "objects") + os.sep
        rows = self.files()
        entries = [stat for path, stat in rows if path.startswith(objects) and not path.endswith(".tmp")]
        found = {
            "entries": len(entries),
            "bytes": sum(stat.st_size for _, stat in rows),
            "unfinished": sum(path.endswith(".tmp") for path, _ in rows),
            "not_ours": sum(not is_own(stat) for _, stat in rows),
        }
        for event in ("hits", "misses"):
            try:
                found[event] = os.lstat(os.path.join(self.directory, "counts", event)).st_size
            except OSError:
                found[event] = 0
        return found

    def clear(self) -> tuple[int, int]:
        """(files, bytes) removed: everything that lies in the store, counts too. The folder itself stays."""
        removed = size = 0
        for path, stat in self.files():
            try:
                os.unlink(path)
            except OSError:
                continue
            removed += 1
            size += stat.st_size
        for event in ("hits", "misses"):
            remove_quietly(os.path.join(self.directory, "counts", event))
        return removed, size

    def trim(self) -> int:
        """Removes strays, and the least recently used entries down to 90 % of the limit; returns bytes
        removed."""
        import time

        now = time.time()
        entries: list[tuple[float, int, str]] = []
        removed = 0
        for path, stat in self.files():
            if path.endswith(".tmp"):
                if now - stat.st_mtime > _STRAY_AGE_S:
                    remove_quietly(path)
                    removed += stat.st_size
            else:
                entries.append((stat.st_mtime, stat.st_size, path))
        total = sum(size for _, size, _ in entries)
        if total <= self.limit_bytes:
            return removed
        for _, size, path in sorted(entries):
            if total <= self.limit_bytes * 9 // 10:
                break
            remove_quietly(path)
            total -= size
            removed += size
        return removed


def open_cache(environ: Mapping[str, str] | None = None) -> Cache | None:
    """The user's cache, or None when it is off."""
    directory = cache_directory(environ)
    return Cache(directory, size_limit(environ)) if directory else None


def own_root(directory: str) -> bool:
    """Whether a store may be written in `directory`, which is made when it is missing; a link to it is the user's affair.

    It is ours, or the system's with the rule that nobody removes what others put there (/tmp). Errors: OSError.
    """
    if not os.path.isdir(directory):
        os.makedirs(os.path.dirname(directory), exist_ok=True)
        return make_own_folder(directory)
    stat = os.stat(directory)
    if is_own(stat):
        return True
    if stat.st_uid == 0 and (stat.st_mode & 0o1000 or not stat.st_mode & 0o022):
        return True
    return make_own_folder(os.path.realpath(directory))


def note_about(folder: str, kind: str, path: str, stat: os.stat_result) -> str:
    """The file that keeps a short fact about the tool at `path` as it is now: another size or time is another file."""
    from tileiras.toolchain.digest import digest_text

    return os.path.join(folder, kind, digest_text(f"{path}\0{stat.st_size}\0{stat.st_mtime_ns}"))


def read_note(note: str) -> str:
    """The fact that was kept, or nothing."""
    data = read_own(note, 100)
    return data.decode("ascii", "replace") if data else ""


def write_note(note: str, text: str) -> None:
    """Keeps a fact; a cache that cannot be written only costs time."""
    folder = os.path.dirname(note)
    try:
        if own_root(os.path.dirname(folder)) and make_own_folder(folder):
            write_atomically(note, text.encode("ascii"), 0o600)
    except OSError:
        pass


def pack(key: str, parts: Mapping[str, bytes]) -> bytes:
    """One file of named parts: magic, digest of key and rest, then per part two lengths, name and bytes."""
    body = b"".join(
        len(name.encode()).to_bytes(4, "little") + len(data).to_bytes(8, "little") + name.encode() + data
        for name, data in sorted(parts.items())
    )
    return _MAGIC + digest_bytes(key.encode(), body).encode("ascii") + body


def unpack(key: str, data: bytes) -> dict[str, bytes] | None:
    """The parts of `pack`, or None when a byte is wrong or missing, or the entry is that of another key."""
    start = len(_MAGIC) + 40
    body = data[start:]
    if data[:start] != _MAGIC + digest_bytes(key.encode(), body).encode("ascii"):
        return None
    parts: dict[str, bytes] = {}
    at = 0
    while at < len(body):
        name_end = at + 12 + int.from_bytes(body[at : at + 4], "little")
        end = name_end + int.from_bytes(body[at + 4 : at + 12], "little")
        if end > len(body):  # a digest says that nothing changed, not that it was written by pack
            return None
        try:
            name = body[at + 12 : name_end].decode()
        except UnicodeDecodeError:
            return None
        parts[name] = body[name_end:end]
        at = end
    return parts
