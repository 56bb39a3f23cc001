"""The resolver: the order of places, what it says about them, versions without running tools, release
checks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import peers
import pytest

from tileiras.archs import NVIDIA_NUMBERS, NVIDIA_SINCE, PTXAS_SINCE
from tileiras.diag import CompileError
from tileiras.toolchain import locate
from tileiras.toolchain.catalog import (
    TOOLS,
    ptx_isa_max,
    ptxas_needed,
)


def make_tool(path: Path, version: str = "13.4.92", body: str = "") -> Path:
    """An executable script that answers --version as NVIDIA's tools do."""
    path.parent.mkdir(parents=True, exist_ok=True)
    release = ".".join(version.split(".")[:2])
    path.write_text(f'#!/bin/sh\n{body}\necho "Cuda compilation tools, release {release}, V{version}"\n')
    path.chmod(0o755)
    return path


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """No wheels and no default prefixes: only what a test puts into `environ` is found."""
    monkeypatch.setattr(locate, "site_packages", list)
    monkeypatch.setattr(locate, "default_prefixes", lambda: iter(()))


def test_order_of_places(tmp_path: Path, bare: None, monkeypatch: pytest.MonkeyPatch) -> None:
    site = tmp_path / "site-packages"
    for root in ("conda", "path", "home", "option", "variable"):
        make_tool(tmp_path / root / "bin" / "ptxas")
    make_tool(tmp_path / "bindir" / "ptxas")
    make_tool(tmp_path / "prefix" / "bin" / "ptxas")
    make_tool(site / "nvidia" / "cu13" / "bin" / "ptxas")
    make_tool(site / "nvidia" / "cuda_nvcc" / "bin" / "ptxas")
    monkeypatch.setattr(locate, "site_packages", lambda: [str(site)])
    prefix = locate.Place(str(tmp_path / "prefix"), "default prefix")
    monkeypatch.setattr(locate, "default_prefixes", lambda: iter([prefix]))
    environ = {
        "TILEIRAS_TOOLKIT_ROOT": str(tmp_path / "variable"),
        "CONDA_PREFIX": str(tmp_path / "conda"),
        "CUDA_PATH": str(tmp_path / "path"),
        "CUDA_HOME": str(tmp_path / "home"),
        "PATH": str(tmp_path / "bindir"),
    }
    seen = [locate.find_ptxas(str(tmp_path / "option"), environ)]
    seen.append(locate.find_ptxas(None, environ))
    del environ["TILEIRAS_TOOLKIT_ROOT"]
    for expected in ("cu13", "cuda_nvcc"):
        seen.append(locate.find_ptxas(None, environ))
        assert expected in seen[-1].path
        os.unlink(seen[-1].path)
    for name in ("CONDA_PREFIX", "CUDA_PATH", "CUDA_HOME", "PATH"):
        seen.append(locate.find_ptxas(None, environ))
        assert name in seen[-1].how
        del environ[name]
    seen.append(locate.find_ptxas(None, environ))
    assert [tool.how for tool in seen] == [
        "option --toolkit-root",
        "environment variable TILEIRAS_TOOLKIT_ROOT",
        f"NVIDIA wheels in {site}",
        f"NVIDIA wheels in {site}",
        "environment variable CONDA_PREFIX",
        "environment variable CUDA_PATH",
        "environment variable CUDA_HOME",
        "PATH",
        "default prefix",
    ]


def test_a_named_root_is_final(tmp_path: Path, bare: None) -> None:
    make_tool(tmp_path / "good" / "bin" / "ptxas")
    (tmp_path / "empty").mkdir()
    environ = {"CUDA_HOME": str(tmp_path / "good")}
    for root, variables in (
        (str(tmp_path / "empty"), environ),
        (None, {**environ, "TILEIRAS_TOOLKIT_ROOT": "/no"}),
    ):
        with pytest.raises(CompileError) as caught:
            locate.find_ptxas(root, variables)
        assert caught.value.exit_code == 2
        assert [d.code for d in caught.value.diagnostics] == ["TC-0007"]


def test_missing_tool_lists_every_place(tmp_path: Path, bare: None) -> None:
    environ = {
        "CONDA_PREFIX": str(tmp_path / "a"),
        "CUDA_PATH": str(tmp_path / "b"),
        "PATH": str(tmp_path / "c"),
    }
    with pytest.raises(CompileError) as caught:
        locate.find_ptxas(None, environ)
    assert caught.value.exit_code == 2
    text = str(caught.value)
    for name in ("a", "b", "c"):
        assert str(tmp_path / name) in text
    assert "pip install nvidia-cuda-nvcc" in text


def test_a_file_that_cannot_run_is_no_tool(tmp_path: Path, bare: None) -> None:
    make_tool(tmp_path / "bin" / "ptxas").chmod(0o644)
    (tmp_path / "other" / "ptxas").mkdir(parents=True)  # a directory of that name
    assert locate.find_tool("ptxas", str(tmp_path), {}) is None
    assert locate.find_tool("ptxas", str(tmp_path / "other"), {}) is None


@pytest.mark.parametrize("name", ["tileiras", "tileirdisasm"])
def test_our_own_commands_are_no_part_of_a_toolkit(
    tmp_path: Path, bare: None, repository: Path, name: str
) -> None:
    """They have the names of NVIDIA's, and lie on PATH in every environment that has this package."""
    (tmp_path / "ours").mkdir()
    ours = tmp_path / "ours" / name
    ours.write_text(
        (repository / "scripts" / "command.in").read_text().replace("@TILEIRAS_MODULE@", "tileiras.cli")
    )
    ours.chmod(0o755)
    theirs = make_tool(tmp_path / "theirs" / "bin" / name)
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / name).symlink_to(ours)
    path = f"{ours.parent}:{tmp_path / 'links'}"
    assert locate.find_tool(name, None, {"PATH": path}) is None
    tool = locate.find_tool(name, None, {"PATH": f"{path}:{theirs.parent}"})
    assert tool is not None and tool.path == str(theirs)


def test_a_bin_directory_given_as_root(tmp_path: Path, bare: None) -> None:
    make_tool(tmp_path / "bin" / "ptxas")
    tool = locate.find_tool("ptxas", str(tmp_path / "bin"), {})
    assert tool is not None
    assert tool.root == str(tmp_path)


def test_root_of_a_link_on_path_is_the_real_toolkit(tmp_path: Path, bare: None) -> None:
    real = make_tool(tmp_path / "cuda-13.4" / "bin" / "ptxas")
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "ptxas").symlink_to(real)
    tool = locate.find_tool("ptxas", None, {"PATH": str(tmp_path / "links")})
    assert tool is not None
    assert tool.root == str(tmp_path / "cuda-13.4")
    assert tool.path == str(tmp_path / "links" / "ptxas")


def test_numbered_prefixes_highest_first(tmp_path: Path) -> None:
    for name in ("cuda-13.9", "cuda-13.10", "cuda-12.4", "cuda-old", "cuda-"):
        (tmp_path / name).mkdir()
    found = [os.path.basename(path) for path in locate._numbered(str(tmp_path), "cuda-")]
    assert found == ["cuda-13.10", "cuda-13.9", "cuda-12.4"]


class TestVersion:
    """A version is read where the package says it; the tool is run only where nothing does."""

    BROKEN = "echo must not be run >&2; exit 9"

    def test_wheel_metadata(self, tmp_path: Path) -> None:
        tool = make_tool(tmp_path / "nvidia" / "cu13" / "bin" / "ptxas", body=self.BROKEN)
        (tmp_path / "nvidia_cuda_nvcc-13.2.51.dist-info").mkdir()
        (tmp_path / "nvidia_cuda_nvcc_helper-9.9.9.dist-info").mkdir()
        assert locate.version_of("ptxas", str(tool)) == ("13.2.51", "wheel metadata")

    def test_metadata_of_cuda_12(self, tmp_path: Path) -> None:
        tool = make_tool(tmp_path / "nvidia" / "cuda_nvcc" / "bin" / "ptxas", body=self.BROKEN)
        (tmp_path / "nvidia_cuda_nvcc_cu12-12.9.86.dist-info").mkdir()
        assert locate.version_of("ptxas", str(tool))[0] == "12.9.86"

    def test_two_metadata_folders_are_no_answer(self, tmp_path: Path) -> None:
        tool = make_tool(tmp_path / "nvidia" / "cu13" / "bin" / "ptxas", "13.4.92")
        (tmp_path / "nvidia_cuda_nvcc-13.2.51.dist-info").mkdir()
        (tmp_path / "nvidia_cuda_nvcc-13.4.92.dist-info").mkdir()
        assert locate.version_of("ptxas", str(tool)) == ("13.4.92", "tool --version")

    def test_version_json(self, tmp_path: Path) -> None:
        tool = make_tool(tmp_path / "bin" / "ptxas", body=self.BROKEN)
        (tmp_path / "version.json").write_text(
            '{"cuda": {"name": "CUDA SDK", "version": "13.1.0"},\n'
            ' "cuda_nvcc": {"name": "CUDA NVCC", "version" : "13.1.115"}}'
        )
        assert locate.version_of("ptxas", str(tool)) == ("13.1.115", "version.json")

    def test_a_script_is_asked_every_time(self, tmp_path: Path) -> None:
        tool = make_tool(tmp_path / "x" / "ptxas", body=f'cat "{tmp_path}/answer"; exit 0')
        for release in ("13.1", "13.4"):
            (tmp_path / "answer").write_text(f"release {release}, V{release}.7\n")
            assert locate.version_of("ptxas", str(tool))[0] == f"{release}.7"

    def test_a_binary_is_asked_once(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        binary = tmp_path / "x" / "ptxas"
        binary.parent.mkdir()
        binary.write_bytes(b"\x7fELF")
        from tileiras.toolchain import run as module

        calls = []

        def fake(argv: list[str], **_: object) -> module.Finished:
            calls.append(argv)
            return module.Finished(0, b"Cuda compilation tools, release 13.4, V13.4.92\n")

        monkeypatch.setattr(module, "run", fake)
        monkeypatch.delenv("TILEIRAS_CACHE", raising=False)
        assert locate.version_of("ptxas", str(binary))[0] == "13.4.92"
        assert locate.version_of("ptxas", str(binary)) == ("13.4.92", "tool --version, kept")
        assert len(calls) == 1
        binary.write_bytes(b"\x7fELF changed")
        assert locate.version_of("ptxas", str(binary))[0] == "13.4.92"
        assert len(calls) == 2

    def test_a_tool_that_does_not_answer(self, tmp_path: Path) -> None:
        tool = make_tool(tmp_path / "x" / "ptxas", body="exit 3")
        assert locate.version_of("ptxas", str(tool))[0] == ""


class TestChecks:
    """Releases of one set, and what a target needs."""

    @staticmethod
    def tool(name: str, version: str) -> locate.Tool:
        return locate.Tool(name, f"/x/{name}", "/x", "test", version, "test")

    def test_releases_differ(self) -> None:
        tools = {"ptxas": self.tool("ptxas", "13.4.92"), "tileiras": self.tool("tileiras", "13.3.36")}
        (found,) = locate.check_releases(tools)
        assert found.code == "TC-0006"
        assert "/x/ptxas" in found.text and "/x/tileiras" in found.text

    def test_patch_releases_may_differ(self) -> None:
        tools = {"ptxas": self.tool("ptxas", "13.1.115"), "tileiras": self.tool("tileiras", "13.1.80")}
        assert locate.check_releases(tools) == []

    def test_unknown_version_is_not_judged(self) -> None:
        assert (
            locate.check_releases({"ptxas": self.tool("ptxas", ""), "nvcc": self.tool("nvcc", "13.1.0")})
            == []
        )

    @pytest.mark.parametrize(
        ("version", "target", "isa", "words"),
        [
            ("13.1.115", "sm_107", None, "13.4"),
            ("12.6.20", "sm_100", None, "12.7"),
            ("12.8.61", "sm_100f", None, "12.9"),
            ("13.1.115", "sm_90", (9, 2), "read PTX ISA 9.2; release 13.2"),
            ("12.4.1", "sm_90", (8, 6), "release 12.7"),
        ],
    )
    def test_too_old(self, version: str, target: str, isa: tuple[int, int] | None, words: str) -> None:
        with pytest.raises(CompileError) as caught:
            locate.check_ptxas(self.tool("ptxas", version), target, isa)
        assert caught.value.exit_code == 2
        assert words in str(caught.value)

    def test_new_enough(self) -> None:
        for target, since in PTXAS_SINCE.items():
            locate.check_ptxas(self.tool("ptxas", f"{since[0]}.{since[1]}.1"), target)

    def test_isa_and_release_tables_agree(self) -> None:
        for release in [(12, 0), (12, 6), (12, 9), (13, 0), (13, 4), (13, 7)]:
            assert ptxas_needed("sm_75", ptx_isa_max(release)) <= release


@pytest.mark.parametrize(
    "release",
    ["13.4", *(pytest.param(other, marks=pytest.mark.full) for other in ("13.1", "13.2", "13.3", "13.5"))],
)
def test_architectures_of_nvidias_assembler(release: str) -> None:
    said = subprocess.run(
        [peers.require("tileiras", release), "--help"], capture_output=True, text=True
    ).stdout
    listed = {int(word[4:]) for word in said.split() if word.startswith("=sm_")}
    assert listed == {n for n, since in NVIDIA_SINCE.items() if since <= tuple(map(int, release.split(".")))}
    assert set(NVIDIA_SINCE) == set(NVIDIA_NUMBERS)


def test_host_names() -> None:
    assert [locate.normalize_host_arch(n) for n in ("arm64", "AArch64", "AMD64", "x86_64")] == [
        "aarch64",
        "aarch64",
        "x86_64",
        "x86_64",
    ]
    arch, system = locate.host()
    assert arch and system in ("linux", "windows")


def test_digest_keeps_parts_apart() -> None:
    assert locate.digest_bytes(b"ab", b"c") != locate.digest_bytes(b"a", b"bc")


def test_wheels_are_found_without_site(repository: Path) -> None:
    """The commands run under -I -S, where sys.path and sys.prefix know nothing of the environment."""
    interpreter = peers.require_python()
    code = (
        f"import sys; sys.path.insert(0, {str(repository)!r})\n"
        "from tileiras.toolchain.locate import find_ptxas; print(find_ptxas().path)"
    )
    env = {"PATH": "/nonexistent"}
    got = subprocess.run(
        [interpreter, "-I", "-S", "-c", code], capture_output=True, text=True, env=env, check=True
    )
    assert Path(got.stdout.strip()) == peers.require("ptxas")


def test_the_compile_path_imports_little(repository: Path) -> None:
    """What finding and running ptxas loads, beyond what Python has loaded anyway."""
    ptxas = peers.require("ptxas")
    code = (
        f"import sys; sys.path.insert(0, {str(repository)!r}); before = set(sys.modules)\n"
        "from tileiras.toolchain.ptxas import assemble\n"
        "ptx = '.version 8.0\\n.target sm_80\\n.entry k() { ret; }'\n"
        f"assemble(ptx, target='sm_80', ptxas={str(ptxas)!r})\n"
        "print(' '.join(sorted(set(sys.modules) - before)))"
    )
    got = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    loaded = set(got.stdout.split())
    assert "tileiras.toolchain.ptxas" in loaded
    heavy = {
        "subprocess",
        "re",
        "typing",
        "json",
        "hashlib",
        "argparse",
        "logging",
        "dataclasses",
        "signal",
        "tempfile",
    }
    assert not loaded & heavy


@pytest.mark.parametrize("release", ["13.1", "13.4", "13.5"])
def test_metadata_agrees_with_the_tools(release: str) -> None:
    root = peers.require_toolkit(release)
    for name in TOOLS:
        tool = locate.find_tool(name, str(root), {})
        if tool is None:
            continue
        assert tool.version.startswith(release + ".")
        assert tool.version_from == "wheel metadata"
        if name in ("ptxas", "fatbinary", "nvcc"):
            said = subprocess.run([tool.path, "--version"], capture_output=True, text=True, check=True).stdout
            assert locate.parse_version(said) == tool.version
