"""A store of finished work, keyed by content: the second build of the same kernel is a file copy.

An entry is one file named by the digest of everything that went in.  It is written beside its place and
renamed, so readers see all of it or none, any number of writers may race for it, and kill -9 leaves at most a
stray temporary file, which the next clean-up removes.  Each entry carries its own digest; a damaged one is a
miss.  A reader touches what it uses; when the store outgrows its limit, the least recently used entries go.

TILEIRAS_CACHE=0 turns it off, TILEIRAS_CACHE_DIR moves it, TILEIRAS_CACHE_SIZE sets the limit ("2G", "512M").
"""

from __future__ import annotations

import os
import sys

from tileiras.toolchain.digest import digest_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_MAGIC = b"tileiras-cache-1\n"
DEFAULT_LIMIT_BYTES = 1 << 30
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
        return os.path.abspath(named)
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
    return int(number) * _UNITS[unit] if number.isdigit() and int(number) > 0 else DEFAULT_LIMIT_BYTES


def write_atomically(path: str, data: bytes, mode: int = 0o666) -> None:
    """Puts `data` at `path` through a temporary sibling and a rename; no partial file under any ending."""
    temporary = temporary_sibling(path)
    try:
        # O_EXCL: two writers that drew the same name must not share a file.
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), mode)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(fd, view) :]
        finally:
            os.close(fd)
        os.replace(temporary, path)
    except BaseException:
        remove_quietly(temporary)
        raise


def temporary_sibling(path: str) -> str:
    """A name beside `path` that nobody else draws; it never reaches any output. It tells whose it is."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name[:40]}.{os.urandom(6).hex()}-{os.getpid()}.tmp")


def sweep_siblings(path: str) -> None:
    """Removes temporary siblings of `path` that a process left which was killed before it could."""
    folder, name = os.path.split(path)
    try:
        names = os.listdir(folder or ".")
    except OSError:
        return
    for sibling in names:
        if (
            sibling.endswith(".tmp")
            and sibling.startswith(".")
            and sibling.lstrip(".").startswith(name[:40].lstrip("."))
        ):
            owner = sibling[:-4].rpartition("-")[2]
            if owner.isdecimal() and not _is_alive(int(owner)):
                remove_quietly(os.path.join(folder, sibling))


def _is_alive(pid: int) -> bool:
    if os.name == "nt":
        return True  # there kill() would end the process instead of asking for it
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True  # another user's
    return True


def remove_quietly(path: str) -> None:
    """Removes `path` if it is there and can be removed."""
    try:
        os.unlink(path)
    except OSError:
        pass


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
                    found.append(
                        (os.path.relpath(entry.path, root).replace(os.sep, "/"), entry.path, entry.stat())
                    )
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
        path = self._path(key)
        try:
            with open(path, "rb") as file:
                data = file.read()
        except OSError:
            return None
        parts = unpack(data)
        if parts is None:
            remove_quietly(path)
            return None
        try:
            os.utime(path)
        except OSError:
            pass  # only the order of eviction suffers
        return parts

    def put(self, key: str, parts: Mapping[str, bytes]) -> bool:
        """Stores `parts`; False when the disk would not have it."""
        data = pack(parts)
        if len(data) > self.limit_bytes:
            return False
        path = self._path(key)
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            write_atomically(path, data)
            if os.urandom(1)[0] % _CHECK_EVERY == 0 or len(data) > self.limit_bytes // _CHECK_EVERY:
                self.trim()
        except OSError:
            return False
        return True

    def trim(self) -> int:
        """Removes strays, and the least recently used entries down to 90 % of the limit; returns bytes
        removed."""
        import time

        now = time.time()
        entries: list[tuple[float, int, str]] = []
        removed = 0
        for folder, _, names in os.walk(os.path.join(self.directory, "objects")):
            for name in names:
                path = os.path.join(folder, name)
                try:
                    stat = os.stat(path)
                except OSError:
                    continue  # another process was quicker
                if name.endswith(".tmp"):
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


def pack(parts: Mapping[str, bytes]) -> bytes:
    """One file of named parts: magic, digest of the rest, then per part two lengths, name and bytes."""
    body = b"".join(
        len(name.encode()).to_bytes(4, "little") + len(data).to_bytes(8, "little") + name.encode() + data
        for name, data in sorted(parts.items())
    )
    return _MAGIC + digest_bytes(body).encode("ascii") + body


def unpack(data: bytes) -> dict[str, bytes] | None:
    """The parts of `pack`, or None when a byte is wrong or missing."""
    start = len(_MAGIC) + 40
    body = data[start:]
    if data[: len(_MAGIC)] != _MAGIC or data[len(_MAGIC) : start] != digest_bytes(body).encode("ascii"):
        return None
    parts: dict[str, bytes] = {}
    at = 0
    while at < len(body):
        name_size = int.from_bytes(body[at : at + 4], "little")
        data_size = int.from_bytes(body[at + 4 : at + 12], "little")
        at += 12
        name = body[at : at + name_size].decode()
        parts[name] = body[at + name_size : at + name_size + data_size]
        at += name_size + data_size
    return parts
