"""The cache: what counts as the same, damage, racing writers, kill -9, eviction, settings."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileiras.files import write_atomically
from tileiras.toolchain import cache as module
from tileiras.toolchain.cache import (
    Cache,
    cache_directory,
    key_of,
    pack,
    size_limit,
    unpack,
)


def test_round_trip(tmp_path: Path) -> None:
    store = Cache(str(tmp_path))
    key = key_of(b"input", "option", "tool")
    assert store.get(key) is None
    assert store.put(key, {"cubin": b"\0\1", "log": b""})
    assert store.get(key) == {"cubin": b"\0\1", "log": b""}


def test_keys_keep_parts_apart() -> None:
    assert len({key_of("ab", "c"), key_of("a", "bc"), key_of("abc"), key_of("abc", "")}) == 4


@given(st.dictionaries(st.text(max_size=8), st.binary(max_size=64), max_size=4))
def test_pack(parts: dict[str, bytes]) -> None:
    data = pack("key", parts)
    assert unpack("key", data) == parts and unpack("other", data) is None


@given(st.binary(max_size=40), st.integers(0, 10**6), st.integers(1, 255))
def test_any_damage_is_a_miss(payload: bytes, where: int, flip: int) -> None:
    data = bytearray(pack("key", {"part": payload}))
    data[where % len(data)] ^= flip
    assert unpack("key", bytes(data)) is None
    assert unpack("key", pack("key", {"part": payload})[: where % len(data)]) is None


def test_a_damaged_entry_is_dropped(tmp_path: Path) -> None:
    store = Cache(str(tmp_path))
    key = key_of("x")
    store.put(key, {"a": b"1"})
    path = Path(store._path(key))
    path.write_bytes(path.read_bytes()[:-1])
    assert store.get(key) is None
    assert not path.exists()


def test_least_recently_used_goes_first(tmp_path: Path) -> None:
    store = Cache(str(tmp_path), limit_bytes=10_000)
    keys = [key_of(str(i)) for i in range(20)]
    for age, key in enumerate(keys):
        store.put(key, {"x": bytes(900)})
        path = store._path(key)
        if os.path.exists(path):
            os.utime(path, (1_000_000 + age, 1_000_000 + age))
    oldest = next(key for key in keys if os.path.exists(store._path(key)))
    assert store.get(oldest) is not None  # reading makes it the youngest
    store.trim()
    assert store.get(oldest) is not None
    total = sum(path.stat().st_size for path in (tmp_path / "objects").rglob("*") if path.is_file())
    assert total <= 10_000


def test_an_entry_larger_than_the_limit_is_not_kept(tmp_path: Path) -> None:
    assert not Cache(str(tmp_path), limit_bytes=100).put(key_of("x"), {"a": bytes(1000)})


def test_old_strays_are_removed_and_young_ones_left(tmp_path: Path) -> None:
    folder = tmp_path / "objects" / "aa"
    folder.mkdir(parents=True)
    old, young = folder / ".x.1.tmp", folder / ".x.2.tmp"
    for path in (old, young):
        path.write_bytes(b"partial")
    os.utime(old, (1, 1))
    Cache(str(tmp_path)).trim()
    assert not old.exists() and young.exists()


def test_a_disk_that_refuses_is_a_miss(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    store = Cache(str(blocked))
    assert not store.put(key_of("x"), {"a": b"1"})
    assert store.get(key_of("x")) is None


WRITER = """
import sys; sys.path.insert(0, sys.argv[1])
from tileiras.toolchain.cache import Cache, key_of
store = Cache(sys.argv[2])
seed = int(sys.argv[3])
for round in range(int(sys.argv[4])):
    for i in range(8):
        found = store.get(key_of(str(i)))
        assert found is None or (set(found) == {"x"} and len(set(found["x"])) == 1), "torn entry"
        store.put(key_of(str(i)), {"x": bytes([seed]) * 50_000})
"""


def test_racing_writers_and_readers(tmp_path: Path, repository: Path) -> None:
    command = [sys.executable, "-c", WRITER, str(repository), str(tmp_path)]
    children = [subprocess.Popen([*command, str(seed), "25"]) for seed in (1, 2, 3)]
    assert [child.wait(timeout=120) for child in children] == [0, 0, 0]


def test_kill_9_leaves_a_usable_cache(tmp_path: Path, repository: Path) -> None:
    command = [sys.executable, "-c", WRITER, str(repository), str(tmp_path)]
    for seed in range(1, 5):
        child = subprocess.Popen([*command, str(seed), "100000"])
        objects = tmp_path / "objects"
        while not objects.exists():
            time.sleep(0.01)
        time.sleep(0.03 * seed)
        child.send_signal(signal.SIGKILL)
        child.wait()
    store = Cache(str(tmp_path))
    for i in range(8):
        found = store.get(key_of(str(i)))
        assert found is None or len(set(found["x"])) == 1
        assert store.put(key_of(str(i)), {"x": b"new"})
        assert store.get(key_of(str(i))) == {"x": b"new"}


class TestSettings:
    def test_directory(self) -> None:
        assert cache_directory({"TILEIRAS_CACHE_DIR": "/c", "HOME": "/h"}) == "/c"
        assert cache_directory({"TILEIRAS_CACHE_DIR": "/c", "TILEIRAS_CACHE": "0"}) is None
        assert cache_directory({"XDG_CACHE_HOME": "/x", "HOME": "/h"}) == "/x/tileiras"
        assert cache_directory({"HOME": "/h"}) == "/h/.cache/tileiras"
        assert cache_directory({}) is None  # a build sandbox

    def test_limit(self) -> None:
        assert size_limit({"TILEIRAS_CACHE_SIZE": "512M"}) == 512 << 20
        assert size_limit({"TILEIRAS_CACHE_SIZE": "2GB"}) == 2 << 30
        assert size_limit({"TILEIRAS_CACHE_SIZE": "123"}) == 123
        for bad in ("", "much", "-1", "0", "\u00b2", "9" * 5000, "9" * 5000 + "G", "\u0663", "1_0"):
            assert size_limit({"TILEIRAS_CACHE_SIZE": bad}) == module.DEFAULT_LIMIT_BYTES


class TestForeignEntries:
    """A store that somebody else got at: nothing of it is believed, nothing hangs, and it is no store for writing."""

    KEY = key_of("x")
    PARTS = {"a": b"right"}

    def put(self, tmp_path: Path) -> tuple[Cache, Path]:
        store = Cache(str(tmp_path))
        assert store.put(self.KEY, self.PARTS)
        return store, Path(store._path(self.KEY))

    def test_a_right_digest_does_not_make_an_entry(self, tmp_path: Path) -> None:
        store, path = self.put(tmp_path)
        head = module._MAGIC
        bodies = (
            b"\xff" * 3,  # shorter than a head
            b"\x01\0\0\0" + b"\xff" * 8 + b"a",  # longer than the file
            b"\xff\xff\xff\xff" + bytes(8),
            b"\x01\0\0\0" + bytes(8) + b"\xff",  # a name that is no text
        )
        for body in bodies:
            path.write_bytes(head + module.digest_bytes(self.KEY.encode(), body).encode() + body)
            path.chmod(0o600)
            assert store.get(self.KEY) is None and not path.exists()

    def test_an_entry_of_another_key(self, tmp_path: Path) -> None:
        store, path = self.put(tmp_path)
        other = key_of("y")
        assert store.put(other, {"a": b"wrong"})
        os.replace(store._path(other), path)
        assert store.get(self.KEY) is None and not path.exists()

    @pytest.mark.parametrize("what", ["fifo", "zero", "link", "sparse", "socket", "open"])
    def test_what_is_no_plain_private_file(self, tmp_path: Path, what: str) -> None:
        store, path = self.put(tmp_path)
        data = path.read_bytes()
        path.unlink()
        if what == "fifo":
            os.mkfifo(path)
        elif what == "zero":
            path.symlink_to("/dev/zero")
        elif what == "link":
            (tmp_path / "elsewhere").write_bytes(data)
            path.symlink_to(tmp_path / "elsewhere")
        elif what == "sparse":
            with path.open("wb") as file:
                file.truncate(20 << 30)
            path.chmod(0o600)
        elif what == "socket":
            import socket

            with socket.socket(socket.AF_UNIX) as server:
                here = os.getcwd()
                os.chdir(path.parent)  # a socket's path is short
                try:
                    server.bind(path.name)
                finally:
                    os.chdir(here)
        else:
            path.write_bytes(data)
            path.chmod(0o666)
        assert store.get(self.KEY) is None and not os.path.lexists(path)
        assert store.put(self.KEY, self.PARTS) and store.get(self.KEY) == self.PARTS

    def test_folders_that_are_links(self, tmp_path: Path) -> None:
        outside = tmp_path / "outside"
        outside.mkdir()
        for below in ("objects", f"objects/{self.KEY[:2]}"):
            store = Cache(str(tmp_path / below.replace("/", "-")))
            path = Path(store.directory, below)
            path.parent.mkdir(parents=True, mode=0o700)
            path.symlink_to(outside)
            assert not store.put(self.KEY, self.PARTS) and os.listdir(outside) == []
            (outside / "kept").touch()
            store.trim()
            store.clear()
            assert (outside / "kept").exists(), "nothing is removed through a link"
            (outside / "kept").unlink()

    def test_a_generous_umask_is_mended(self, tmp_path: Path) -> None:
        store, path = self.put(tmp_path)
        for folder in (path.parent, path.parent.parent, tmp_path):
            folder.chmod(0o777)
        assert store.put(self.KEY, self.PARTS)
        assert [folder.stat().st_mode & 0o022 for folder in (path.parent, path.parent.parent, tmp_path)] == [
            0
        ] * 3

    @pytest.mark.skipif(os.geteuid() != 0, reason="needs root to play two users")
    def test_another_users(self, tmp_path: Path) -> None:
        store, path = self.put(tmp_path)
        os.chown(path, 12345, 12345)
        assert store.get(self.KEY) is None, "whose it is decides, not whether its digest is right"
        for folder in (tmp_path / "objects", tmp_path):
            os.chown(folder, 12345, 12345)
            assert not store.put(self.KEY, self.PARTS)
            os.chown(folder, 0, 0)
        assert store.put(self.KEY, self.PARTS)

    def test_notes_about_tools(self, tmp_path: Path) -> None:
        note = module.note_about(str(tmp_path), "versions", "/bin/tool", os.stat("/bin/sh"))
        assert module.read_note(note) == ""
        module.write_note(note, "13.4.1")
        assert module.read_note(note) == "13.4.1"
        os.unlink(note)
        os.mkfifo(note)
        assert module.read_note(note) == ""
        Path(note).write_bytes(b"9" * 1000)
        assert module.read_note(note) == ""


def test_statistics_and_clear(tmp_path: Path) -> None:
    store = Cache(str(tmp_path))
    for i in range(3):
        store.put(key_of(str(i)), {"a": b"1"})
    store.count("hits")
    store.count("hits")
    store.count("misses")
    found = store.statistics()
    assert (found["entries"], found["hits"], found["misses"], found["not_ours"]) == (3, 2, 1, 0)
    assert store.clear() == (3, found["bytes"])
    assert store.statistics() == dict.fromkeys(found, 0)


def test_write_atomically_keeps_the_old_file_on_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"old")

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError):
        write_atomically(str(path), b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_digests_of_the_sources_are_stable() -> None:
    assert module.source_digest() == module.source_digest()
    assert module.content_digest() == module.content_digest()
