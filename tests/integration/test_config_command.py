"""`tileiras-config`: what it finds, and how it says so."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import peers
import pytest
from build_tools import call, fake_toolkit

from tileiras.toolchain.cache import content_digest


class TestConfig:
    def test_json(self) -> None:
        root = peers.require_toolkit()
        done = call("--json", "--toolkit-root", root, tool="config")
        assert (done.returncode, done.stderr) == (0, "")
        answer = json.loads(done.stdout)
        assert answer["toolkit"] == {
            "root": str(root),
            "version": "13.4.92",
            "origin": "option --toolkit-root",
        }
        assert answer["tools"]["ptxas"]["path"] == str(root / "bin" / "ptxas")
        assert answer["tools"]["cicc"]["path"] == str(root / "nvvm" / "bin" / "cicc")
        assert answer["supported_architectures"][:3] == ["75", "80", "86"]
        assert answer["first_with_suffix"] == {"a": 90, "f": 100}
        assert answer["bytecode_versions"][0] == "13.1"
        assert answer["ptx_isa_max"] == "9.4"
        assert answer["problems"] == []
        assert {
            "tool": "ptxas",
            "path": str(root / "bin" / "ptxas"),
            "origin": "option --toolkit-root",
            "found": True,
        } in (answer["searched"])
        assert len(answer["fingerprint"]) == 40

    def test_the_fingerprint_is_stable(self) -> None:
        root = peers.require_toolkit()
        for _ in range(5):
            before = content_digest()
            prints = {
                call(word, "--toolkit-root", root, tool="config").stdout for word in ["--fingerprint"] * 2
            }
            if content_digest() == before:  # nobody edited the sources meanwhile
                assert len(prints) == 1
                return
        pytest.skip("the sources change while the tests run")

    def test_another_toolkit_is_another_fingerprint(self) -> None:
        prints = {
            json.loads(
                call("--json", "--toolkit-root", peers.require_toolkit(release), tool="config").stdout
            )["fingerprint"]
            for release in ("13.1", "13.4", "13.5")
        }
        assert len(prints) == 3

    def test_an_old_toolkit_says_what_it_lacks(self) -> None:
        root = peers.require_toolkit("13.1")
        answer = json.loads(call("--json", "--toolkit-root", root, tool="config").stdout)
        assert "107" not in answer["supported_architectures"]
        assert answer["architectures_needing_newer_ptxas"] == {"107": "13.4"}

    def test_tools_of_different_releases(self, tmp_path: Path) -> None:
        root = fake_toolkit(tmp_path, "exit 0")
        (root / "bin" / "ptxas").write_text('#!/bin/sh\necho "release 13.1, V13.1.115"\n')
        done = call("--json", "--toolkit-root", root, tool="config")
        assert done.returncode == 0
        (problem,) = json.loads(done.stdout)["problems"]
        assert "13.1.115" in problem and "13.4.92" in problem
        assert problem in done.stderr

    def test_no_toolkit_at_all(self, tmp_path: Path) -> None:
        done = call("--json", "--toolkit-root", tmp_path, tool="config")
        assert done.returncode == 2
        assert "is no CUDA toolkit" in done.stderr

    def test_text_and_directories(self) -> None:
        root = peers.require_toolkit()
        done = call("--toolkit-root", root, tool="config")
        assert done.returncode == 0
        assert "13.4.92" in done.stdout and "option --toolkit-root" in done.stdout
        assert (Path(call("--cmake-dir", tool="config").stdout.strip()) / "TileirasConfig.cmake").exists()
        assert (Path(call("--bazel-dir", tool="config").stdout.strip()) / "defs.bzl").exists()
        for words in (["--nonsense"], ["--json", "--version"], ["--why-rebuilt"]):
            done = call(*words, tool="config")
            assert done.returncode == 1
            assert "usage" in done.stderr

    def test_an_empty_name_is_refused(self, tmp_path: Path) -> None:
        """A view without a name was written into the folder that the command ran in."""
        for name in ("--toolkit-view", "--toolkit-root", "--why-rebuilt"):
            done = call(f"{name}=", tool="config", cwd=tmp_path)
            assert done.returncode == 2 and f"option '{name}': its value is empty" in done.stderr
        assert list(tmp_path.iterdir()) == []

    def test_toolkit_view(self, tmp_path: Path) -> None:
        root = peers.require_toolkit()
        view = tmp_path / "view"
        for _ in range(2):  # the second run finds everything in place
            done = call("--toolkit-view", view, "--toolkit-root", root, tool="config")
            assert done.returncode == 0, done.stderr
        assert (view / "lib64" / "libcudart.so").exists()
        said = subprocess.run(
            [view / "bin" / "nvcc", "--version"], capture_output=True, text=True, check=True
        )
        assert "13.4" in said.stdout

    @pytest.mark.skipif(shutil.which("cmake") is None, reason="needs cmake")
    def test_cmake_finds_the_view(self, tmp_path: Path) -> None:
        view = tmp_path / "view"
        words = ["--toolkit-view", view, "--toolkit-root", peers.require_toolkit()]
        assert call(*words, tool="config").returncode == 0
        (tmp_path / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.20)\nproject(p LANGUAGES C)\n"
            "find_package(CUDAToolkit REQUIRED)\n"
        )
        command = ["cmake", "-S", tmp_path, "-B", tmp_path / "b", f"-DCUDAToolkit_ROOT={view}"]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
