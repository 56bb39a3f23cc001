"""What `tileiras-build compile` believes of its cache, what it says of files, and odd numbers on its line."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from contract.kit import NOOP, stub_ptxas

from tileiras.toolchain import cache as cache_module
from tileiras.toolchain.cache import Cache
from tileiras.tools.build import builtin, compile_verb
from tileiras.tools.build import main as build
from tileiras.tools.build.job import Result


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cache:
    monkeypatch.setenv("TILEIRAS_CACHE_DIR", str(tmp_path / "cache"))
    return Cache(str(tmp_path / "cache"))


def ptx(source: Path, out: Path, *more: str) -> int:
    return build(["compile", str(source), "-o", str(out), "--arch", "compute_90", *more])


def test_an_entry_of_right_digest_and_wrong_content(store: Cache, tmp_path: Path) -> None:
    source, out = tmp_path / "k.tileir", tmp_path / "k.ptx"
    source.write_text(NOOP)
    assert ptx(source, out) == 0
    right = out.read_bytes()
    (path,) = [Path(path) for path, _ in store.files() if "objects" in path]
    key = path.parent.name + path.name
    parts = store.get(key)
    assert parts is not None
    bad: list[dict[str, bytes]] = [{}, {"ptx": b"x"}]
    bad += [{**parts, "table": table} for table in (b"\xff", b"{}", b'{"kernels": [1]}', b"[" * 100_000)]
    bad += [{name: data for name, data in parts.items() if name != left_out} for left_out in parts]
    for entry in bad:
        store.put(key, entry)
        assert ptx(source, out) == 0 and out.read_bytes() == right
        assert store.get(key) == parts, "the bad entry is replaced by a good one"
    found = store.statistics()
    assert (found["hits"], found["misses"]) == (0, 1 + len(bad))
    assert ptx(source, out) == 0 and store.statistics()["hits"] == 1


def test_a_tool_that_is_a_script_is_run_each_time(
    store: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may read files that no key knows of."""
    fact = tmp_path / "fact"
    stub_ptxas(tmp_path, f'printf "\\177ELF "; cat "{fact}"')
    monkeypatch.setattr("tileiras.tools.build.table.complete", lambda table, job, cubin: table)
    source, out = tmp_path / "k.tileir", tmp_path / "k.cubin"
    source.write_text(NOOP)
    for text in ("one", "two"):
        fact.write_text(text)
        words = ["--arch", "sm_90", "--toolkit-root", str(tmp_path)]
        assert build(["compile", str(source), "-o", str(out), *words]) == 0
        assert out.read_bytes() == b"\x7fELF " + text.encode()
    assert store.statistics()["entries"] == 0


def test_an_option_that_names_a_tool_is_not_cached(store: Cache, tmp_path: Path) -> None:
    source, out = tmp_path / "k.tileir", tmp_path / "k.ptx"
    source.write_text(NOOP)
    assert ptx(source, out, "--option=--ptxas=/some/ptxas") == 0
    assert store.statistics()["entries"] == 0


@pytest.mark.parametrize("first", ["a", "k", "warning", ": ", "error: a"])
def test_a_cached_message_names_its_own_file(
    store: Cache,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    first: str,
) -> None:
    """Whatever the file is called: its name may be a part of any word of the message."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(builtin, "tools", lambda job: {"ptxas": "binary"})
    text = "{0}:1:2: warning: a kernel takes a lot; see {0}\n"

    def compile(job: object, outputs: object) -> Result:
        table = json.dumps({"kernels": []}).encode()
        return Result({"ptx": b"p", "table": table}, text.format(job.source), {})  # type: ignore[attr-defined]

    monkeypatch.setattr(builtin, "compile", compile)
    for name in (first, first, "other.tileir", first):
        Path(name).write_text(NOOP)
        assert ptx(Path(name), tmp_path / "out.ptx") == 0
        assert capfd.readouterr().err == text.format(name)
    assert store.statistics()["hits"] == 1


@pytest.mark.parametrize("flag", ["--max-registers", "--max-shared"])
@pytest.mark.parametrize("value", ["9" * 5000, "9" * 5000 + "K", "\u00b2", "\u0663", "", "-1", "1e3"])
def test_odd_numbers(
    store: Cache, tmp_path: Path, capfd: pytest.CaptureFixture[str], flag: str, value: str
) -> None:
    source, out = tmp_path / "k.tileir", tmp_path / "k.ptx"
    source.write_text(NOOP)
    out.write_text("old")
    status = build(["compile", str(source), "-o", str(out), "--arch", "compute_90", f"{flag}={value}"])
    said = capfd.readouterr().err
    assert (status == 1 or flag == "--max-registers" and status == 2) and "Traceback" not in said
    assert len(said) < 200 and flag in said or status == 2
    assert out.read_text() == "old"  # a refused line touches nothing


def test_a_full_disk_names_the_output(
    store: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    source, out = tmp_path / "k.tileir", tmp_path / "k.ptx"
    source.write_text(NOOP)
    write = os.write

    def refuse(descriptor: int, data: bytes) -> int:
        if "k.ptx" in os.readlink(f"/proc/self/fd/{descriptor}"):
            raise OSError(28, "No space left on device")
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", refuse)
    assert ptx(source, out) == 2
    assert capfd.readouterr().err == f"error: unable to write output file '{out}': No space left on device\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache", "k.tileir"]


def test_statistics_and_clear_of_the_command(
    store: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from tileiras.tools.config import main as config

    source = tmp_path / "k.tileir"
    source.write_text(NOOP)
    for name in ("a.ptx", "b.ptx"):
        assert ptx(source, tmp_path / name) == 0
    capsys.readouterr()
    assert config(["--cache-stats"]) == 0
    said = dict(line.split(None, 1) for line in capsys.readouterr().out.splitlines())
    assert (said["entries"], said["hits"]) == ("1", "1 of 2 (50 %)") and said["cache"] == store.directory
    assert config(["--cache-clear"]) == 0
    assert capsys.readouterr().out.startswith("1 files, ")
    assert store.statistics()["entries"] == 0
    monkeypatch.setenv("TILEIRAS_CACHE", "0")
    assert config(["--cache-stats"]) == config(["--cache-clear"]) == 0
    assert capsys.readouterr().out == "cache        off\nthe cache is off\n"
    assert cache_module.open_cache() is None and compile_verb.parse_size("100K") == 102400
