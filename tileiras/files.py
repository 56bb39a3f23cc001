"""Files that appear whole or not at all, also in a folder that other users may write to.

What is unfinished lies beside its place under a name that nobody else draws. It is opened with O_EXCL and O_NOFOLLOW: a
link that somebody planted there is refused, never followed.
"""

from __future__ import annotations

import os

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


def write_atomically(path: str, data: bytes, mode: int = 0o666) -> None:
    """Puts `data` at `path` through a temporary sibling and a rename; no partial file under any ending.

    Errors: OSError that names `path`.
    """
    temporary = temporary_sibling(path)
    try:
        write_new(temporary, data, mode)
        try:
            os.replace(temporary, path)
        except BaseException:
            remove_quietly(temporary)
            raise
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from None


def write_new(path: str, data: bytes, mode: int = 0o666) -> None:
    """Writes a file that is not there yet. Errors: OSError, FileExistsError too; nothing of ours is left then."""
    descriptor = os.open(path, _NEW, mode)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
    except BaseException:
        os.close(descriptor)
        remove_quietly(path)
        raise
    os.close(descriptor)


def temporary_sibling(path: str) -> str:
    """A name beside `path` that nobody else draws; it never reaches any output. It tells whose it is."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name[:40]}.{os.urandom(6).hex()}-{os.getpid()}.tmp")


def sweep_siblings(*paths: str) -> None:
    """Removes temporary siblings of `paths` that a process left which was killed before it could."""
    by_folder: dict[str, list[str]] = {}
    for path in paths:
        folder, name = os.path.split(path)
        by_folder.setdefault(folder, []).append(name[:40].lstrip("."))
    for folder, stems in by_folder.items():
        try:
            names = os.listdir(folder or ".")
        except OSError:
            continue
        for sibling in names:
            if sibling.startswith(".") and sibling.endswith(".tmp"):
                owner = sibling[:-4].rpartition("-")[2]
                is_ours = any(sibling.lstrip(".").startswith(stem) for stem in stems)
                if is_ours and owner.isdecimal() and not _is_alive(int(owner)):
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
    except (OSError, ValueError):
        pass


PLANTED = "it is another user's link or pipe in a folder for everybody"
_KIND, _LINK, _PIPE = 0o170000, 0o120000, 0o010000
_MAX_LINKS = 40  # as Linux has it


def is_planted(path: str) -> bool:
    """Whether `path` goes by a link, or is a pipe, that another user may have put there: one not to follow.

    The rule of Linux's protected_symlinks and protected_fifos, which a path that is resolved by hand escapes: in a sticky
    folder that anybody may write to, a link counts only when it is ours or the folder's owner's. Each part of the path and
    of what links on it name is looked at.
    """
    if not hasattr(os, "geteuid"):
        return False
    where, parts, links = ("/" if path.startswith("/") else "."), path.split("/")[::-1], 0
    try:
        while parts and links <= _MAX_LINKS:
            part = parts.pop()
            if part in ("", "."):
                continue
            entry = os.path.join(where, part)
            found = os.lstat(entry)
            kind = found.st_mode & _KIND
            if kind in (_LINK, _PIPE):
                folder = os.stat(where)
                shared = folder.st_mode & 0o1002 == 0o1002
                if shared and found.st_uid not in (os.geteuid(), folder.st_uid):
                    return True
            if kind != _LINK:
                where = entry
                continue
            links += 1
            target = os.readlink(entry)
            where = "/" if target.startswith("/") else where
            parts += target.split("/")[::-1]
    except (OSError, ValueError):  # it ends here: what is missing is nobody's
        pass
    return False


def is_of_system(path: str) -> bool:
    """Whether the system names something by `path`: /dev/stdout may be a regular file, and is written into all the same."""
    try:
        place = os.path.abspath(path)
    except OSError:  # the folder that relative names are looked up in was removed
        return False
    return place.startswith(("/dev/", "/proc/")) and not place.startswith("/dev/shm/")


def is_own(stat: os.stat_result) -> bool:
    """Whether nobody else can have written what has this status."""
    return not hasattr(os, "geteuid") or (stat.st_uid == os.geteuid() and not stat.st_mode & 0o022)


def read_own(path: str, limit_bytes: int, touch: bool = False) -> bytes | None:
    """The bytes of a plain file that only we can have written; None when it is not there, or anything else.

    What is no such file, or larger than the limit, is removed where that is possible. Never waits: a pipe or a device is
    not read. `touch` notes the use in the file's time.
    """
    flags = os.O_RDONLY
    for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_NOCTTY", "O_BINARY"):
        flags |= getattr(os, name, 0)
    try:
        descriptor = os.open(path, flags)
    except FileNotFoundError:
        return None
    except (OSError, ValueError):  # a link, a socket, no permission
        remove_quietly(path)
        return None
    try:
        stat = os.fstat(descriptor)
        if stat.st_mode & 0o170000 == 0o100000 and is_own(stat) and stat.st_size <= limit_bytes:
            parts = []
            left = stat.st_size
            while left > 0 and (part := os.read(descriptor, left)):
                parts.append(part)
                left -= len(part)
            if touch and os.utime in os.supports_fd:
                os.utime(descriptor)
            return b"".join(parts)
    except (OSError, MemoryError):
        pass
    finally:
        os.close(descriptor)
    remove_quietly(path)
    return None


def make_own_folder(path: str) -> bool:
    """Whether `path` is a folder, no link, that only we may write to; it is made when it is missing. Errors: OSError."""
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        pass
    stat = os.lstat(path)
    if stat.st_mode & 0o170000 != 0o040000:
        return False
    if is_own(stat):
        return True
    if stat.st_uid != os.geteuid():
        return False
    os.chmod(path, stat.st_mode & 0o7755)  # made under a generous umask
    return True
