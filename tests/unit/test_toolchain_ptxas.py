"""ptxas: what it is asked, what is read from its words, every ending; with fakes, then with the real ones."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import peers
import pytest

from tileiras import archs
from tileiras.archs import PTXAS_SINCE
from tileiras.diag import NOTE, WARNING, CompileError
from tileiras.toolchain.catalog import ptx_isa_max
from tileiras.toolchain.cubin import read_cubin
from tileiras.toolchain.locate import Tool, find_tool
from tileiras.toolchain.ptxas import assemble, parse_log, ptx_version, ptxas_argv

KERNEL = """\
.version {isa}
.target {target}
.address_size 64
.visible .entry k(.param .u64 p) {{
  .reg .b64 %rd<3>;
  .shared .align 16 .b8 s[{shared}];
  ld.param.u64 %rd1, [p];
  mov.u64 %rd2, s;
  st.shared.u64 [%rd2], %rd1;
  ret;
}}
"""


def kernel(target: str = "sm_80", isa: str = "8.0", shared: int = 64) -> str:
    return KERNEL.format(target=target, isa=isa, shared=shared)


def fake(tmp_path: Path, body: str, version: str = "13.4.92") -> Tool:
    """A ptxas of our own making, which sees its argv as $@."""
    path = tmp_path / "ptxas"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return Tool("ptxas", str(path), str(tmp_path), "test", version, "test")


def real(release: str) -> Tool:
    tool = find_tool("ptxas", str(peers.require_toolkit(release)), {})
    assert tool is not None
    return tool


class TestFakes:
    def test_argv(self) -> None:
        argv = ptxas_argv("/p", "sm_90a", options=["-O1"], lineinfo=True, opt_level=2, extended_smem=True)
        assert argv == [
            "/p",
            "-arch=sm_90a",
            "--opt-level=2",
            "--verbose",
            "--generate-line-info",
            "--enable-extended-smem=true",
            "-O1",
        ]
        assert "--opt-level=0" in ptxas_argv("/p", "sm_90", debug=True, opt_level=3)
        assert "--sanitize=memcheck" in ptxas_argv("/p", "sm_90", sanitize="memcheck")

    def test_failure_carries_words_and_status(self, tmp_path: Path) -> None:
        words = "ptxas /dev/stdin, line 2; error   : Unknown modifier\\nptxas fatal   : aborted"
        tool = fake(tmp_path, f"printf '{words}\\n' >&2; exit 42")
        with pytest.raises(CompileError) as caught:
            assemble(kernel(), target="sm_80", ptxas=tool)
        assert caught.value.exit_code == 5
        texts = [d.text for d in caught.value.diagnostics]
        assert texts[0] == "ptxas: PTX line 2: Unknown modifier"
        assert texts[1] == "ptxas: aborted"
        assert "exit status 42" in texts[2] and tool.path in texts[2]
        assert texts[-1] == "failed to compile Tile IR program"
        (note,) = caught.value.diagnostics[0].notes
        assert note.severity == NOTE and ".target sm_80" in note.text

    @pytest.mark.parametrize(
        ("body", "words"),
        [
            ("kill -9 $$", "signal 9 (SIGKILL)"),
            ("exit 0", "wrote no image"),
            ("echo partial; exit 0", "wrote no image"),
        ],
    )
    def test_other_endings(self, tmp_path: Path, body: str, words: str) -> None:
        with pytest.raises(CompileError) as caught:
            assemble(kernel(), target="sm_80", ptxas=fake(tmp_path, body))
        assert caught.value.exit_code == 5
        assert words in str(caught.value)

    def test_partial_output_of_a_failure_is_not_used(self, tmp_path: Path) -> None:
        tool = fake(tmp_path, "printf '\\177ELF partial'; exit 1")
        with pytest.raises(CompileError):
            assemble(kernel(), target="sm_80", ptxas=tool)

    def test_time_out(self, tmp_path: Path) -> None:
        with pytest.raises(CompileError) as caught:
            assemble(kernel(), target="sm_80", ptxas=fake(tmp_path, "sleep 60"), timeout=0.2)
        assert caught.value.exit_code == 5
        assert "timed out" in str(caught.value)

    def test_missing(self, tmp_path: Path) -> None:
        tool = Tool("ptxas", str(tmp_path / "gone"), str(tmp_path), "test", "13.4.92", "test")
        with pytest.raises(CompileError) as caught:
            assemble(kernel(), target="sm_80", ptxas=tool)
        assert caught.value.exit_code == 5
        assert "No such file" in str(caught.value)

    def test_too_old_is_told_before_running(self, tmp_path: Path) -> None:
        tool = fake(tmp_path, "touch ran; exit 1", "13.1.115")
        with pytest.raises(CompileError) as caught:
            assemble(kernel("sm_107"), target="sm_107", ptxas=tool)
        assert (caught.value.exit_code, caught.value.diagnostics[0].code) == (2, "TC-0005")
        old = fake(tmp_path, "exit 1", "12.4.0")
        with pytest.raises(CompileError) as caught:
            assemble(kernel(), target="sm_80", ptxas=old, extended_smem=True)
        assert caught.value.exit_code == 2
        assert "13.0" in str(caught.value)

    def test_kept_ptx_can_be_repeated(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        keep = tmp_path / "kept.ptx"
        monkeypatch.setenv("TILEIRAS_KEEP_PTX", str(keep))
        with pytest.raises(CompileError) as caught:
            assemble(kernel(), target="sm_80", ptxas=fake(tmp_path, "exit 1"))
        assert keep.read_text() == kernel()
        assert str(keep) in str(caught.value)

    def test_warnings_are_kept_apart(self, tmp_path: Path) -> None:
        body = "printf '\\177ELF'; echo 'ptxas warning : Stack size cannot be determined' >&2"
        result = assemble(kernel(), target="sm_80", ptxas=fake(tmp_path, body))
        (warning,) = result.warnings
        assert warning.severity == WARNING
        assert warning.text == "ptxas: Stack size cannot be determined"

    def test_ptx_version(self) -> None:
        assert ptx_version("//\n.version 9.2\n.target sm_90\n") == (9, 2)
        assert ptx_version(".target sm_90") is None


LOG = """\
ptxas info    : 16 bytes gmem, 8 bytes cmem[3]
ptxas info    : Compiling entry function 'k' for 'sm_90'
ptxas info    : Function properties for helper
    64 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads
ptxas info    : Function properties for k
    128 bytes stack frame, 100 bytes spill stores, 200 bytes spill loads
ptxas info    : Used 10 registers, used 2 barriers, 128 bytes cumulative stack size, 33024 bytes smem, 360 bytes cmem[0]
ptxas info    : Compile time = 2.569 ms
ptxas info    : Compiling entry function 'k2' for 'sm_90'
ptxas info    : Function properties for k2
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 255 registers
ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized
"""


def test_log() -> None:
    said, kernels = parse_log(LOG)
    first = kernels["k"]
    assert (first.registers, first.barriers, first.shared_bytes) == (10, 2, 33024)
    assert (first.stack_bytes, first.spill_store_bytes, first.spill_load_bytes) == (128, 100, 200)
    assert (kernels["k2"].registers, kernels["k2"].shared_bytes) == (255, 0)
    assert len(said) == 1 and "Potential Performance Loss" in said[0]


class TestReal:
    @pytest.mark.parametrize("release", ["13.1", "13.4", "13.5"])
    def test_tables_agree_with_the_tool(self, release: str) -> None:
        tool = real(release)
        assert tool.release is not None
        listed = subprocess.run(
            [tool.path, "--list-version"], capture_output=True, text=True, check=True
        ).stdout
        assert ".".join(map(str, ptx_isa_max(tool.release))) == listed.split()[-1]
        archs = subprocess.run([tool.path, "--list-arch"], capture_output=True, text=True, check=True).stdout
        known = {target.removeprefix("sm_") for target, since in PTXAS_SINCE.items() if since <= tool.release}
        assert {name for name in known if name.isdigit()} == set(archs.split())

    @pytest.mark.parametrize("target", sorted(t for t, since in PTXAS_SINCE.items() if since <= (13, 4)))
    def test_every_target(self, target: str) -> None:
        isa = "9.4" if target.startswith("sm_107") else "9.0"
        result = assemble(kernel(target, isa), target=target, ptxas=real("13.4"))
        image = read_cubin(result.cubin)
        assert image.arch.rstrip("a") == target.rstrip("af")
        assert image.arch.endswith("a") == target.endswith("a") or target.startswith("sm_7")
        assert result.kernels["k"].shared_bytes == 64
        assert result.kernels["k"].registers == image.kernels["k"].registers > 0
        assert result.log == ""

    def test_extended_shared_memory(self) -> None:
        big = kernel("sm_90", "8.0", 100_000)
        with pytest.raises(CompileError) as caught:
            assemble(big, target="sm_90", ptxas=real("13.4"))
        assert caught.value.exit_code == 5
        assert "too much shared data" in str(caught.value)
        result = assemble(big, target="sm_90", ptxas=real("13.4"), extended_smem=True)
        assert result.kernels["k"].shared_bytes == 100_000
        assert read_cubin(result.cubin).kernels["k"].static_shared == 100_000

    def test_refused_ptx(self) -> None:
        with pytest.raises(CompileError) as caught:
            assemble(kernel().replace("st.shared", "st.shred"), target="sm_80", ptxas=real("13.4"))
        assert caught.value.exit_code == 5
        assert "exit status 255" in str(caught.value)
        assert "PTX line 9: " in str(caught.value)
        assert "/dev/" not in str(caught.value)

    def test_same_bytes_with_and_without_memfd(self, monkeypatch: pytest.MonkeyPatch) -> None:
        one = assemble(kernel(), target="sm_80", ptxas=real("13.4"), lineinfo=True).cubin
        monkeypatch.delattr(os, "memfd_create", raising=False)
        other = assemble(kernel(), target="sm_80", ptxas=real("13.4"), lineinfo=True).cubin
        assert one == other

    def test_nothing_is_left_on_disk(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TMPDIR", str(tmp_path))
        monkeypatch.chdir(tmp_path)
        assemble(kernel(), target="sm_80", ptxas=real("13.4"))
        assert list(tmp_path.iterdir()) == []

    def test_debug_and_sanitizer(self) -> None:
        debug = read_cubin(assemble(kernel(), target="sm_80", ptxas=real("13.4"), debug=True).cubin)
        assert ".debug_frame" in debug.sections and ".debug_line" in debug.sections
        checked = assemble(kernel(), target="sm_80", ptxas=real("13.4"), sanitize="memcheck")
        assert read_cubin(checked.cubin).kernels["k"].code_bytes > 0


def test_many_lines_are_read_in_one_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The work grows with the lines, not with their square: the PTX is cut into lines once, and no line is searched for."""
    count = 40_000
    tool = fake(
        tmp_path,
        f'i=0; yes "ptxas <x>, line 2; warning : again" | head -{count} >&2; printf "\\177ELF"',
    )

    class Text(str):
        cuts = 0

        def splitlines(self, keepends: bool = False) -> list[str]:
            Text.cuts += 1
            return super().splitlines(keepends)

    done = assemble(Text(kernel()), target="sm_80", ptxas=tool, options=["-v"])
    assert len(done.warnings) == count and Text.cuts == 1
    assert done.warnings[-1].notes[0].text == "PTX line 2: .target sm_80"


def test_numbers_that_are_none(tmp_path: Path) -> None:
    tool = fake(
        tmp_path,
        'echo "ptxas x, line \u00b2; warning : odd" >&2; '
        "echo \"ptxas info : Compiling entry function 'k' for 'sm_80'\" >&2; "
        f'echo "ptxas info : Used {"9" * 5000} registers, \u00b2 barriers" >&2; printf "\\177ELF"',
    )
    done = assemble(kernel(), target="sm_80", ptxas=tool)
    assert done.kernels["k"].registers == 0 and len(done.warnings) == 1


@pytest.mark.parametrize("row", archs.ROWS, ids=lambda row: f"sm_{row[0]}")
def test_shared_memory_of_a_block_is_what_ptxas_gives(row: tuple, tmp_path: Path) -> None:
    number, kib = row[:2]
    if number == 107:
        kib = 327  # of which 227 are used
    isa = max(row[4][0][1], (8, 0))
    for size, fits in ((kib << 10, True), ((kib << 10) + 16, False)):
        file = tmp_path / "k.ptx"
        file.write_text(kernel(f"sm_{number}", "{}.{}".format(*isa), size))
        argv = [
            peers.require("ptxas"),
            "--enable-extended-smem=true",
            f"-arch=sm_{number}",
            file,
            "-o",
            tmp_path / "k.cubin",
        ]
        done = subprocess.run(argv, capture_output=True, text=True)
        assert (done.returncode == 0) == fits, done.stdout + done.stderr
