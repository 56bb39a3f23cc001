"""Caches, sandboxes and workers under Bazel 4.2.3: what must never make a difference to the bytes, or to what runs."""

from __future__ import annotations

import os
import re
import shutil
import signal
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import peers
import pytest
from integration import bazel_support as support

ARCH = "--@tileiras//tile:archs=80,90"
BUILD = """
load("@tileiras//:defs.bzl", "tile_library")

tile_library(
    name = "twice",
    srcs = ["twice.py"],
    hdrs = ["scale.py"],
    compiler = "nvidia",
    entries = ["twice"],
    signature = "f32[1],f32[1],=128",
)

tile_library(name = "axpy", srcs = ["axpy.tilebc"], compiler = "nvidia")
"""
TWICE = """import cuda.tile as ct
from scale import scaled


@ct.kernel
def twice(a, b, n: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(b, index=(i,), tile=scaled(ct.load(a, index=(i,), shape=(n,))))
"""
SCALE = """import cuda.tile as ct


@ct.function
def scaled(x):
    return x + x
"""


class CacheServer:
    """An HTTP cache on the loopback address: PUT keeps, GET and HEAD answer."""

    def __init__(self) -> None:
        store: dict[str, bytes] = {}

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _answer(self, code: int, body: bytes = b"", send: bool = True) -> None:
                self.send_response(code)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if send:
                    self.wfile.write(body)

            def do_GET(self) -> None:
                body = store.get(self.path)
                self._answer(404 if body is None else 200, body or b"")

            def do_HEAD(self) -> None:
                body = store.get(self.path)
                self._answer(404 if body is None else 200, body or b"", send=False)

            def do_PUT(self) -> None:
                if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
                    body = b""
                    while size := int(self.rfile.readline().split(b";")[0], 16):
                        body += self.rfile.read(size)
                        self.rfile.readline()
                    self.rfile.readline()
                else:
                    body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
                store[self.path] = body
                self._answer(200)

            def log_message(self, *_: object) -> None:
                pass

        self.store = store
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


def make(root: Path, user_root: Path, **arguments: str) -> support.Workspace:
    ws = support.Workspace(root, user_root)
    ws.register(**arguments)
    ws.write("k/BUILD", BUILD)
    ws.write("k/twice.py", TWICE)
    ws.write("k/scale.py", SCALE)
    ws.write("k/axpy.tilebc", support.bytecode("axpy_f32").read_bytes())
    return ws


@pytest.fixture
def cache():
    server = CacheServer()
    yield server
    server.close()


@pytest.mark.full
def test_http_cache_two_workspaces_two_output_bases(tmp_path: Path, cache: CacheServer) -> None:
    first = make(tmp_path / "one", tmp_path / "out1")
    second = make(tmp_path / "other-place" / "deep", tmp_path / "out2")
    flag = f"--remote_cache={cache.url}"
    try:
        done = first.build("//k:all", ARCH, flag)
        worked = done.ran()
        assert worked >= 8
        digests = first.digests("k")
        # Another place, another output base, another PATH and more variables in the client.
        env = {
            "PATH": f"{tmp_path}:/usr/bin:/bin:/sbin",
            "CUDA_HOME": "/nowhere",
            "TILEIRAS_X": "1",
            "LANG": "tr_TR",
        }
        done = second.build("//k:all", ARCH, flag, env=env)
        assert done.ran() == 0, done.processes()
        assert done.processes()["remote cache hit"] == worked
        assert second.digests("k") == digests
        # The same without the cache: what came from it is what would have been made.
        second.run("clean")
        assert second.build("//k:all", ARCH).ran() == worked
        assert second.digests("k") == digests
        # A clean build in the first place is all hits.
        first.run("clean")
        assert first.build("//k:all", ARCH, flag).ran() == 0
        # One included file: its export reruns, and what follows from it, and nothing of the other library.
        second.write("k/scale.py", SCALE + "# a comment changes no bytecode\n")
        done = second.build("//k:all", ARCH, flag)
        assert done.ran() == 1, done.processes()
        second.write("k/scale.py", SCALE.replace("x + x", "x * x"))
        done = second.build("//k:twice", ARCH, flag)
        # export, two images, validation, container, header, object(s), archive
        assert 5 <= done.ran() <= 9, done.processes()
        assert second.build("//k:axpy", ARCH, flag).ran() == 0
    finally:
        first.shutdown()
        second.shutdown()


@pytest.mark.full
def test_disk_cache_and_a_changed_tool(tmp_path: Path) -> None:
    """The digest of a tool is part of every action: another ptxas, or another file of the package, reruns all."""
    toolkit = tmp_path / "cuda"
    real = peers.require_toolkit()
    for path in ("bin/ptxas", "bin/fatbinary", "bin/tileiras", "lib/libnvvm.so.4"):
        (toolkit / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(real / path, toolkit / path)
    package = tmp_path / "package" / "tileiras"
    support.copy_package(package)
    ws = make(tmp_path / "ws", tmp_path / "out", path=str(toolkit), package=str(package))
    flag = f"--disk_cache={tmp_path / 'disk'}"
    try:
        worked = ws.build("//k:axpy", ARCH, flag).ran()
        ws.run("clean")
        assert ws.build("//k:axpy", ARCH, flag).ran() == 0
        assert ws.build("//k:axpy", ARCH, flag).ran() == 0
        ptxas = toolkit / "bin" / "ptxas"
        with ptxas.open("ab") as file:
            file.write(b"\0")
        tools = ws.build("//k:axpy", ARCH, flag).ran()
        # Everything but the C++ actions; unchanged outputs of the tools spare those.
        assert tools >= 4, "a changed ptxas went unnoticed"
        before = ws.digests("k")
        entry = package / "tools" / "build" / "__init__.py"
        text, said = entry.read_text(), "    sys.stderr.write('NEW PACKAGE\\n')\n"
        line = re.search(r"^def _main\(.*\n", text, re.M)
        assert line is not None
        entry.write_text(text[: line.end()] + said + text[line.end() :])
        done = ws.build("//k:axpy", ARCH, flag)
        assert done.ran() == tools
        # The worker that compiled before must not answer for the changed package.
        assert "NEW PACKAGE" in done.err and any("worker" in kind for kind in done.processes()), done.err
        assert ws.digests("k") == before
        assert worked >= tools
    finally:
        ws.shutdown()


@pytest.mark.full
def test_nothing_outside_the_input_tree(tmp_path: Path) -> None:
    """As on a remote worker: sandbox without network, PATH unset, HOME empty and unwritable by name."""
    ws = make(tmp_path / "ws", tmp_path / "out")
    try:
        flags = ["--spawn_strategy=linux-sandbox", "--sandbox_default_allow_network=false"]
        flags += [f"--sandbox_block_path={ws.user_root / 'home'}", "--incompatible_strict_action_env"]
        ws.build("//k:axpy", ARCH, *flags)
        sandboxed = ws.digests("k")
        ws.run("clean")
        ws.build("//k:axpy", ARCH, "--spawn_strategy=local")
        assert ws.digests("k") == sandboxed
        assert not list((ws.user_root / "home").iterdir()), "an action wrote to HOME"
    finally:
        ws.shutdown()


def worker_pids(output_root: Path) -> list[int]:
    """Returns the worker processes below an output root (not the children that they fork)."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            cwd = os.readlink(entry / "cwd")
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            parent_words = Path(f"/proc/{parent}/cmdline").read_bytes().split(b"\0")
        except (OSError, ValueError):
            continue
        if b"--persistent_worker" in words and cwd.startswith(str(output_root)):
            if b"--persistent_worker" not in parent_words:
                found.append(int(entry.name))
    return found


@pytest.mark.full
def test_killed_worker_is_an_error_and_the_next_build_restarts_it(tmp_path: Path) -> None:
    toolkit = tmp_path / "cuda"
    real = peers.require_toolkit()
    for path in ("bin/ptxas", "bin/fatbinary", "bin/tileiras", "lib/libnvvm.so.4"):
        (toolkit / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(real / path, toolkit / path)
    # An assembler that waits until the test lets it go on.
    started, go = tmp_path / "started", tmp_path / "go"
    (toolkit / "bin" / "tileiras").rename(toolkit / "bin" / "tileiras.real")
    slow = toolkit / "bin" / "tileiras"
    slow.write_text(
        f'#!/bin/sh\ncase "$*" in *version*) exec {toolkit}/bin/tileiras.real "$@";; esac\n: > "{started}"\n'
        f'while [ ! -e "{go}" ]; do sleep 0.05; done\nexec {toolkit}/bin/tileiras.real "$@"\n'
    )
    slow.chmod(0o755)
    ws = make(tmp_path / "ws", tmp_path / "out", path=str(toolkit))
    results: list[support.Result] = []
    flags = [ARCH, "--strategy=TileCompile=worker"]
    try:
        build = threading.Thread(target=lambda: results.append(ws.build("//k:axpy", *flags, check=None)))
        build.start()
        for _ in range(2000):
            if started.exists() or not build.is_alive():
                break
            time.sleep(0.02)
        assert started.exists(), results[0].text if results else "no compile started"
        pids = worker_pids(ws.user_root)
        assert pids, "no worker runs"
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        build.join(120)
        assert results and results[0].code != 0, results[0].text
        assert "worker" in results[0].err.lower()
        assert not list((ws.bin / "k").resolve().rglob("*.cubin")), "a killed compile left an image"
        go.touch()
        ws.build("//k:axpy", *flags)
        assert len(list((ws.bin / "k").resolve().rglob("*.cubin"))) == 2
    finally:
        go.touch()
        ws.shutdown()
