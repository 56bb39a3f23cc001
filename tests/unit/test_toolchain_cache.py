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

from tileiras.toolchain import cache as module
from tileiras.toolchain.cache import (
    Cache,
    cache_directory,
    key_of,
    pack,
    size_limit,
    unpack,
    write_atomically,
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
    data = pack(parts)
    assert unpack(data) == parts


@given(st.binary(max_size=40), st.integers(0, 10**6), st.integers(1, 255))
def test_any_damage_is_a_miss(payload: bytes, where: int, flip: int) -> None:
    data = bytearray(pack({"part": payload}))
    data[where % len(data)] ^= flip
    assert unpack(bytes(data)) is None
    assert unpack(pack({"part": payload})[: where % len(data)]) is None


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
        for bad in ("", "much", "-1", "0"):
            assert size_limit({"TILEIRAS_CACHE_SIZE": bad}) == module.DEFAULT_LIMIT_BYTES


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
