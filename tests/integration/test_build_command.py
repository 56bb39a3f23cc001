"""`tileiras-build` and `tileiras-config` as the build systems call them: real tools, and fakes for every bad
ending."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import peers
import pytest
from build_tools import BYTECODE, KERNEL, call, command, compile_images, fake_toolkit
from hypothesis import given, settings
from hypothesis import strategies as st

from tileiras.toolchain.cubin import read_cubin
from tileiras.toolchain.fatbin import read_fatbin
from tileiras.tools.build.depfile import escape, write_depfile
from tileiras.tools.build.table import plain_name


@pytest.fixture
def real() -> Path:
    peers.require("tileiras")
    return peers.require_toolkit()


class TestCompileWithNvidia:
    """The whole contract, on images of NVIDIA's assembler."""

    def compile(
        self, root: Path, out: Path, *more: object, source: Path = KERNEL
    ) -> subprocess.CompletedProcess[str]:
        words = [
            "compile",
            "--compiler",
            "nvidia",
            "--toolkit-root",
            root,
            source,
            "-o",
            out,
            "--arch",
            "sm_90",
        ]
        return call(*words, *more)

    def test_everything(self, real: Path, tmp_path: Path) -> None:
        out = tmp_path / "deep" / "er" / "k.cubin"
        table, depfile, tilebc = tmp_path / "k.json", tmp_path / "k.d", tmp_path / "k.tilebc"
        more = [
            "--kernels-json",
            table,
            "--depfile",
            depfile,
            "--depfile-target",
            "k rel.cubin",
            "--tilebc",
            tilebc,
        ]
        done = self.compile(real, out, *more)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        image = read_cubin(out.read_bytes())
        assert (image.sm, image.host) == (90, "x86_64" if os.uname().machine == "x86_64" else "aarch64")
        facts = json.loads(table.read_text())
        assert facts["version"] == 1
        assert (facts["arch"], facts["compiler"], facts["launch_abi"]) == ("sm_90", "nvidia", "tile")
        (kernel,) = facts["kernels"]
        assert kernel["symbol"] == "add_2d_f32"
        assert [p["type"] for p in kernel["params"]] == ["ptr<f32>", "i32", "i32", "i32", "i32"] * 3
        assert [p["offset"] for p in kernel["params"]] == [
            p.offset for p in image.kernels["add_2d_f32"].params
        ]
        assert kernel["block"] == [1, 1, 1]
        assert tuple(kernel["threads"]) == image.kernels["add_2d_f32"].block
        assert kernel["registers"] == image.kernels["add_2d_f32"].registers
        assert depfile.read_text() == f"k\\ rel.cubin: {escape(str(KERNEL))}\n"
        assert tilebc.read_bytes() == KERNEL.read_bytes()
        assert str(tmp_path) not in table.read_text()
        assert not list(tmp_path.rglob("*.tmp"))

    def test_the_same_bytes_in_any_place(self, real: Path, tmp_path: Path) -> None:
        found = []
        for name in ("one", "two words"):
            folder = tmp_path / name
            folder.mkdir()
            source = folder / "k.tilebc"
            shutil.copy(KERNEL, source)
            out, table = folder / "k.cubin", folder / "k.json"
            env = {**os.environ, "TILEIRAS_CACHE": "0", "TMPDIR": str(folder)}
            words = [
                "compile",
                "--compiler",
                "nvidia",
                "--toolkit-root",
                real,
                source,
                "-o",
                out,
                "--arch",
                "sm_90",
            ]
            assert call(*words, "--kernels-json", table, env=env).returncode == 0
            found.append((out.read_bytes(), table.read_bytes()))
        assert found[0] == found[1]

    def test_the_cache_gives_the_same(self, real: Path, tmp_path: Path) -> None:
        env = {**os.environ, "TILEIRAS_CACHE_DIR": str(tmp_path / "cache")}
        results = []
        for name in ("a", "b"):
            out = tmp_path / f"{name}.cubin"
            words = [
                "compile",
                "--compiler",
                "nvidia",
                "--toolkit-root",
                real,
                KERNEL,
                "-o",
                out,
                "--arch",
                "sm_90",
            ]
            done = call(*words, "--verbose", env=env)
            assert done.returncode == 0
            results.append((out.read_bytes(), "taken from the cache" in done.stderr))
        assert results[0][0] == results[1][0]
        assert [cached for _, cached in results] == [False, True]
        other = call(*words, "--verbose", "--opt-level", "1", env=env)
        assert "taken from the cache" not in other.stderr

    def test_budgets(self, real: Path, tmp_path: Path) -> None:
        out, depfile = tmp_path / "k.cubin", tmp_path / "k.d"
        assert self.compile(real, out, "--depfile", depfile).returncode == 0
        for limit, words in (
            (["--max-registers", "5"], "registers, more than the 5 allowed"),
            (["--max-registers=5", "--no-spills"], "registers"),
        ):
            done = self.compile(real, out, "--depfile", depfile, *limit)
            assert done.returncode == 5
            assert "kernel 'add_2d_f32' (sm_90) uses" in done.stderr and words in done.stderr
            assert done.stderr.startswith("/corpus/")  # the line of the source
            assert not out.exists() and not depfile.exists()
        assert (
            self.compile(
                real, out, "--max-registers", "255", "--no-spills", "--max-shared", "100K"
            ).returncode
            == 0
        )

    def test_entries(self, real: Path, tmp_path: Path) -> None:
        out, table = tmp_path / "k.cubin", tmp_path / "k.json"
        assert self.compile(real, out, "--entry", "add_2d_f32", "--kernels-json", table).returncode == 0
        done = self.compile(real, out, "--entry", "nothere", "--kernels-json", table)
        assert done.returncode == 1
        assert "no kernel 'nothere'" in done.stderr and "add_2d_f32" in done.stderr
        assert out.exists() and table.exists()  # only the name was wrong: nothing was tried

    @pytest.mark.parametrize(
        ("more", "status", "words"),
        [
            (["--launch-abi", "simt"], 2, "launch ABI tile only"),
            (["--ptx", "x.ptx"], 2, "gives no PTX"),
            (["--ptxas-option=-v"], 2, "takes no ptxas options"),
            (["--arch", "sm_75"], 2, "no supported architecture"),
            (["--arch", "sm_66"], 2, "no GPU architecture"),
            (["--arch", "80;90"], 2, "does not name one"),
            (["--debug", "--opt-level", "2"], 2, "--opt-level 0"),
            (["--host-arch", "riscv64"], 2, "unsupported host architecture"),
            (["--opt-level", "4"], 2, "not one of"),
            (["--max-registers", "many"], 1, "no number"),
            (["--nonsense"], 1, "unknown option '--nonsense'"),
            (["--archs", "sm_90"], 1, "did you mean '--arch'"),
            (["--depfile"], 1, "needs a value"),
            (["--toolkit-root", "/nonexistent"], 2, "is no CUDA toolkit"),
        ],
    )
    def test_a_refused_line_touches_nothing(
        self, real: Path, tmp_path: Path, more: list[str], status: int, words: str
    ) -> None:
        out = tmp_path / "k.cubin"
        out.write_bytes(b"of an earlier build")
        done = self.compile(real, out, *more)
        assert done.returncode == status
        assert words in done.stderr
        assert "Traceback" not in done.stderr
        assert out.read_bytes() == b"of an earlier build"

    def test_an_output_that_is_an_input_survives(self, real: Path, tmp_path: Path) -> None:
        source = tmp_path / "k.tilebc"
        shutil.copy(KERNEL, source)
        (tmp_path / "link").symlink_to(source)
        for out in (source, tmp_path / "link"):
            done = self.compile(real, out, source=source)
            assert done.returncode == 2
            assert "both input and output" in done.stderr
            assert source.read_bytes() == KERNEL.read_bytes()
        done = self.compile(real, tmp_path / "x", "--tilebc", tmp_path / "x")
        assert done.returncode == 2

    def test_a_depfile_target_is_the_output_itself(self, real: Path, tmp_path: Path) -> None:
        """As every build rule has it, relative or absolute."""
        for target in ("k.cubin", str(tmp_path / "k.cubin")):
            for joined in (False, True):
                words = ["compile", "--compiler", "nvidia", "--toolkit-root", real, KERNEL, "--arch", "sm_90"]
                words += [f"--depfile-target={target}"] if joined else ["--depfile-target", target]
                done = call(*words, "-o", "k.cubin", "--depfile", "k.d", cwd=tmp_path)
                assert (done.returncode, done.stderr) == (0, "")
                assert (tmp_path / "k.d").read_text() == f"{target}: {escape(str(KERNEL))}\n"

    @pytest.mark.full
    def test_the_oldest_release(self, tmp_path: Path) -> None:
        """13.1 finds libnvvm only where an installed toolkit has it, not where its own wheel puts it."""
        root = peers.require_toolkit("13.1")
        source = BYTECODE / "versions" / "vadd_f32-13.1.tilebc"
        out = tmp_path / "k.cubin"
        done = self.compile(root, out, "--arch", "sm_100", source=source)
        assert (done.returncode, done.stderr) == (0, "")
        image = read_cubin(out.read_bytes())
        assert image.sm == 100 and image.toolkit.startswith("13.1.")
        assert len(image.kernels) == 1
        for arch, kernel, words in (
            ("sm_90", source, "cannot compile for sm_90; release 13.3"),
            ("sm_100", KERNEL, "cannot read bytecode 13.3 (see --bytecode-version); release 13.3"),
        ):
            done = self.compile(root, out, "--arch", arch, source=kernel)
            assert done.returncode == 2
            assert words in done.stderr
            assert out.exists(), "nothing was tried"

    def test_a_path_with_a_line_break(self, real: Path, tmp_path: Path) -> None:
        source = tmp_path / "k\n.tilebc"
        shutil.copy(KERNEL, source)
        more = ["--depfile", tmp_path / "k.d", "--depfile-for", "ninja"]
        done = self.compile(real, tmp_path / "k.cubin", *more, source=source)
        assert done.returncode == 2
        assert "line break" in done.stderr
        assert [path.name for path in tmp_path.iterdir() if path.is_file()] == [source.name]

    def test_devices_are_written_not_replaced(self, real: Path, tmp_path: Path) -> None:
        redirected = tmp_path / "out"
        words = ["compile", "--compiler", "nvidia", "--toolkit-root", real, KERNEL, "--arch", "sm_90"]
        with open(redirected, "wb") as file:
            run = command(*words, "-o", "/dev/stdout", "--kernels-json", "/dev/null")
            assert subprocess.run(run, stdout=file).returncode == 0
        assert read_cubin(redirected.read_bytes()).sm == 90
        assert Path("/dev/stdout").is_symlink()
        assert Path("/dev/null").is_char_device()
        assert call(*words, "-o", "/dev/null", "--nonsense").returncode == 1
        assert Path("/dev/null").is_char_device()

    def test_a_message_names_the_file_it_is_about(self, tmp_path: Path) -> None:
        """Two files of the same content keep their own names in messages; a script's results are not kept."""
        root = fake_toolkit(tmp_path / "toolkit", 'echo "$0 warns about $IN" >&2; cp "$GOOD" "$OUT"')
        tool = root / "bin" / "tileiras"
        tool.write_text(
            tool.read_text().replace(
                "shift; done", 'IN2="$1"; case "$1" in /*.tilebc) IN="$1";; esac; shift; done'
            )
        )
        good = tmp_path / "good.cubin"
        assert self.compile(peers.require_toolkit(), good).returncode == 0
        env = {**os.environ, "GOOD": str(good), "TILEIRAS_CACHE_DIR": str(tmp_path / "cache")}
        for name in ("one", "two"):
            source = tmp_path / f"{name}.tilebc"
            shutil.copy(KERNEL, source)
            words = ["compile", "--compiler", "nvidia", "--toolkit-root", root, source, "--arch", "sm_90"]
            done = call(*words, "-o", tmp_path / "k.cubin", "--verbose", env=env)
            assert done.returncode == 0, done.stderr
            assert f"warns about {source}" in done.stderr
            assert "taken from the cache" not in done.stderr

    def test_input_that_is_not_there(self, real: Path, tmp_path: Path) -> None:
        done = self.compile(real, tmp_path / "k.cubin", source=tmp_path / "none.tilebc")
        assert done.returncode == 1
        assert f"unable to read input file '{tmp_path}/none.tilebc': No such file or directory" in done.stderr

    def test_the_callers_cuda_variables_change_nothing(self, real: Path, tmp_path: Path) -> None:
        env = {**os.environ, "CUDA_HOME": "/nonexistent", "CUDA_PATH": "/nonexistent", "TILEIRAS_CACHE": "0"}
        words = [
            "compile",
            "--compiler",
            "nvidia",
            "--toolkit-root",
            real,
            KERNEL,
            "-o",
            tmp_path / "k.cubin",
        ]
        assert call(*words, "--arch", "sm_90", env=env).returncode == 0

    def test_host_architecture_and_suffix(self, real: Path, tmp_path: Path) -> None:
        out = tmp_path / "k.cubin"
        done = self.compile(real, out, "--host-arch", "arm64", "--arch", "sm_90a", "--verbose")
        assert done.returncode == 0
        assert read_cubin(out.read_bytes()).host == "aarch64"
        assert "takes no suffix" in done.stderr

    def test_compiler_from_the_environment(self, real: Path, tmp_path: Path) -> None:
        words = ["compile", "--toolkit-root", real, KERNEL, "-o", tmp_path / "k.cubin", "--arch", "sm_90"]
        assert call(*words, env={**os.environ, "TILEIRAS_COMPILER": "nvidia"}).returncode == 0
        done = call(*words, env={**os.environ, "TILEIRAS_COMPILER": "other"})
        assert done.returncode == 2
        assert "TILEIRAS_COMPILER" in done.stderr


KERNEL_TEXT = """cuda_tile.module @m {

  entry @one(%p: tile<ptr<f32>>) {
    %c = constant <f32: 1.0> : tile<f32>
    %t = store_ptr_tko weak %p, %c : tile<ptr<f32>>, tile<f32> -> token
    return
  }
}
"""


def text_call(*words: object) -> subprocess.CompletedProcess[str]:
    return call("compile", "--compiler", "builtin", *words)


class TestCompileWithBuiltin:
    """The same contract over the compiler of this package."""

    def compile(self, *words: object) -> subprocess.CompletedProcess[str]:
        return call(
            "compile", "--compiler", "builtin", "--toolkit-root", peers.require_toolkit(), KERNEL, *words
        )

    def test_everything(self, tmp_path: Path) -> None:
        out, ptx, table, depfile = (tmp_path / name for name in ("k.cubin", "k.ptx", "k.json", "k.d"))
        more = ["-o", out, "--ptx", ptx, "--kernels-json", table, "--depfile", depfile]
        done = self.compile("--arch", "sm_90", *more)
        assert (done.returncode, done.stderr) == (0, "")
        image = read_cubin(out.read_bytes())
        facts = json.loads(table.read_text())
        assert (facts["compiler"], facts["launch_abi"], facts["arch"]) == ("builtin", "simt", "sm_90")
        (kernel,) = facts["kernels"]
        found = image.kernels["add_2d_f32"]
        assert [p["type"] for p in kernel["params"]] == ["ptr<f32>", "i32", "i32", "i32", "i32"] * 3
        assert [(p["offset"], p["size"]) for p in kernel["params"]] == [
            (p.offset, p.size) for p in found.params
        ]
        assert tuple(kernel["block"]) == tuple(kernel["threads"]) == found.block
        assert kernel["registers"] == found.registers
        assert ".entry add_2d_f32" in ptx.read_text()
        assert depfile.read_text() == f"{out}: {escape(str(KERNEL))}\n"
        assert sorted(path.name for path in tmp_path.iterdir()) == [
            ".tileiras-record",
            "k.cubin",
            "k.d",
            "k.json",
            "k.ptx",
        ]

    def test_an_output_behind_a_link(self, tmp_path: Path) -> None:
        """The link stays, as with `tileiras -o`; a failed compile removes what is behind it."""
        real, link, dangling = tmp_path / "real", tmp_path / "k.ptx", tmp_path / "new.ptx"
        real.mkdir()
        (real / "k.ptx").write_text("old")
        link.symlink_to(real / "k.ptx")
        dangling.symlink_to(real / "new.ptx")
        for out in (link, dangling):
            assert self.compile("--arch", "compute_90", "-o", out).returncode == 0
            assert out.is_symlink() and ".target sm_90" in (real / out.name).read_text()
        assert sorted(path.name for path in real.iterdir()) == ["k.ptx", "new.ptx"]
        assert self.compile("--arch", "compute_90", "-o", link, "--entry", "nothing").returncode == 1
        assert link.is_symlink() and (real / "k.ptx").exists()  # only the name was wrong: nothing was tried
        broken = tmp_path / "broken.tileir"
        broken.write_text("cuda_tile.module @m { entry @k() { %x = nothing } }")
        line = [
            "compile",
            "--toolkit-root",
            peers.require_toolkit(),
            broken,
            "--arch",
            "compute_90",
            "-o",
            link,
        ]
        assert call(*line).returncode not in (0, 1)
        assert link.is_symlink() and not (real / "k.ptx").exists()

    def test_portable_ptx(self, tmp_path: Path) -> None:
        out, table = tmp_path / "k.ptx", tmp_path / "k.json"
        assert self.compile("--arch", "compute_90", "-o", out, "--kernels-json", table).returncode == 0
        assert ".target sm_90" in out.read_text()
        facts = json.loads(table.read_text())
        assert facts["arch"] == "compute_90"
        kernel = facts["kernels"][0]
        assert kernel["registers"] is None and kernel["spill_bytes"] is None
        done = self.compile("--arch", "compute_90", "-o", out, "--no-spills")
        assert done.returncode == 2
        done = call("fatbin", "-o", tmp_path / "k.fatbin", "--ptx", f"compute_90={out}", "--compress", "none")
        assert done.returncode == 0  # the refusal above left it alone

    def test_tables_alone(self, tmp_path: Path) -> None:
        table = tmp_path / "k.json"
        assert self.compile("--arch", "sm_80", "--kernels-json", table).returncode == 0
        assert [path.name for path in tmp_path.iterdir()] == ["k.json"]

    def test_the_same_bytes_again(self, tmp_path: Path) -> None:
        for name in ("a", "b"):
            out, ptx = tmp_path / f"{name}.cubin", tmp_path / f"{name}.ptx"
            assert self.compile("--arch", "sm_100", "-o", out, "--ptx", ptx, "--no-cache").returncode == 0
        assert (tmp_path / "a.cubin").read_bytes() == (tmp_path / "b.cubin").read_bytes()
        assert (tmp_path / "a.ptx").read_bytes() == (tmp_path / "b.ptx").read_bytes()

    def test_budget(self, tmp_path: Path) -> None:
        out = tmp_path / "k.cubin"
        done = self.compile("--arch", "sm_90", "-o", out, "--max-registers", "4")
        assert done.returncode == 5
        assert "kernel 'add_2d_f32' (sm_90) uses" in done.stderr
        assert not out.exists()

    def test_a_budget_names_the_line_of_text(self, tmp_path: Path) -> None:
        source = tmp_path / "k.tileir"
        source.write_text(KERNEL_TEXT)
        done = text_call(source, "-o", tmp_path / "k.cubin", "--arch", "sm_90", "--max-registers", "2")
        assert done.returncode == 5
        assert done.stderr.startswith(f"{source}:3: error: kernel 'one' (sm_90) uses"), done.stderr

    def test_a_cached_answer_names_its_own_file(self, tmp_path: Path) -> None:
        remarks = tmp_path / "remarks.yaml"
        for name in ("first", "second"):
            source = tmp_path / f"{name}.tileir"
            source.write_text(KERNEL_TEXT)
            words = (
                "-o",
                tmp_path / "k.cubin",
                "--arch",
                "sm_90",
                "--remarks",
                "all",
                "--remarks-output",
                remarks,
            )
            assert text_call(source, *words).returncode == 0
            assert set(re.findall(r"(\w+)\.tileir", remarks.read_text())) == {name}

    def test_a_source_saved_during_the_compilation_is_not_remembered(self, tmp_path: Path) -> None:
        source, out = tmp_path / "k.tileir", tmp_path / "k.cubin"
        ptxas = tmp_path / "toolkit" / "bin" / "ptxas"
        ptxas.parent.mkdir(parents=True)
        edited = KERNEL_TEXT.replace("1.0", "2.0")
        # The edit happens between the reading for the cache's key and the end of the compilation.
        ptxas.write_text(f"#!/bin/sh\ncase \"$*\" in *-o*) printf '%s' '{edited}' > '{source}';; esac\n"
                         f"exec '{peers.require('ptxas')}' \"$@\"\n")  # fmt: skip
        ptxas.chmod(0o755)
        words = ("-o", out, "--arch", "sm_90", "--toolkit-root", tmp_path / "toolkit")
        seen = []
        for _ in range(2):
            source.write_text(KERNEL_TEXT)
            done = text_call(source, *words, "--verbose")
            assert done.returncode == 0, done.stderr
            seen.append("taken from the cache" in done.stderr)
        assert seen == [False, False]

    @pytest.mark.parametrize("flag", ["--lineinfo", "--debug"])
    def test_debug_information_of_files_with_odd_names(self, flag: str, tmp_path: Path) -> None:
        folder = tmp_path / 'é "q"\\ü'
        folder.mkdir()
        source = folder / "ß$ #.tileir"
        source.write_text(KERNEL_TEXT)
        ptx = tmp_path / "k.ptx"
        done = text_call(source, "-o", tmp_path / "k.cubin", "--arch", "sm_90", "--ptx", ptx, flag)
        assert done.returncode == 0, done.stderr
        assert '/%C3%A9 %22q%22%5C%C3%BC/%C3%9F$ #.tileir"' in ptx.read_text()

    def test_damaged_input(self, tmp_path: Path) -> None:
        source, out = tmp_path / "k.tilebc", tmp_path / "k.cubin"
        source.write_bytes(KERNEL.read_bytes()[:100])
        out.write_bytes(b"of an earlier build")
        done = call("compile", "--compiler", "builtin", source, "-o", out, "--arch", "sm_90")
        assert done.returncode == 3
        assert "Traceback" not in done.stderr and done.stderr
        assert not out.exists()

    def test_ptxas_that_fails(self, tmp_path: Path) -> None:
        root, out = fake_toolkit(tmp_path / "toolkit", "exit 0"), tmp_path / "k.cubin"
        (root / "bin" / "ptxas").write_text(
            '#!/bin/sh\n[ "$1" = --version ] && echo "release 13.4, V13.4.92" && exit 0\n'
            "echo 'ptxas fatal   : out of luck' >&2\nexit 7\n"
        )
        done = call("compile", KERNEL, "-o", out, "--arch", "sm_90", "--toolkit-root", root)
        assert done.returncode == 5
        assert "out of luck" in done.stderr and "exit status 7" in done.stderr
        assert not out.exists()

    def test_an_image_for_many_gpus_with_loader(self, tmp_path: Path) -> None:
        tables: list[object] = []
        entries: list[object] = []
        for arch, kind in (("sm_80", "elf"), ("sm_90", "elf"), ("sm_120", "elf"), ("compute_90", "ptx")):
            out, table = tmp_path / f"k.{arch}", tmp_path / f"k.{arch}.json"
            assert self.compile("--arch", arch, "-o", out, "--kernels-json", table).returncode == 0
            tables += ["--json", table]
            entries += [f"--{kind}", f"{arch}={out}"]
        assert call("fatbin", "-o", tmp_path / "k.fatbin", *entries).returncode == 0
        outputs = ["--header-out", tmp_path / "k.h", "--source-out", tmp_path / "k.c"]
        done = call("header", "--prefix", "k", "--image", tmp_path / "k.fatbin", *tables, *outputs)
        assert done.returncode == 0, done.stderr
        assert '"sm_80 sm_90 sm_120 compute_90"' in (tmp_path / "k.c").read_text()


class TestBadEndings:
    """A compiler that fails in every way it can."""

    def words(self, root: Path, folder: Path) -> list[object]:
        outputs = ["-o", folder / "k.cubin", "--depfile", folder / "k.d", "--kernels-json", folder / "k.json"]
        return [
            "compile",
            "--compiler",
            "nvidia",
            "--toolkit-root",
            root,
            KERNEL,
            *outputs,
            "--arch",
            "sm_90",
        ]

    def stale(self, folder: Path) -> None:
        for name in ("k.cubin", "k.d", "k.json"):
            (folder / name).write_text("of an earlier build")

    @pytest.mark.parametrize(
        ("body", "status", "words"),
        [
            ("echo 'error: no' >&2; exit 5", 5, "error: no"),
            ("printf partial > \"$OUT\"; exit 3", 3, "exit status 3"),
            ("exit 0", 5, "wrote no image"),
            ("printf partial > \"$OUT\"; kill -SEGV $$", 139, "signal 11 (SIGSEGV)"),
            ("printf partial > \"$OUT\"; kill -KILL $$", 137, "signal 9 (SIGKILL)"),
            ("printf garbage > \"$OUT\"; exit 0", 1, "is not a cubin"),
        ],
    )  # fmt: skip
    def test_ending(self, tmp_path: Path, body: str, status: int, words: str) -> None:
        root = fake_toolkit(tmp_path / "toolkit", body)
        folder = tmp_path / "out"
        folder.mkdir()
        self.stale(folder)
        done = call(*self.words(root, folder))
        assert done.returncode == status
        assert words in done.stderr
        assert [path.name for path in folder.iterdir()] == [".tileiras-record"]

    @pytest.mark.parametrize(
        "words",
        [
            ["compile", "typo.tilebc", "-o", "k.cubin", "--depfile", "k.d", "--kernels-json", "k.json", "--arch=sm_90"],
            ["compile", KERNEL, "-o", "k.cubin", "--depfile", "k.d", "--kernels-json", "k.json", "--arhc=sm_90"],
            ["bytecode", "typo.tileir", "-o", "k.cubin", "--depfile", "k.d"],
            ["export", "typo.py", "--entry=k", "--signature=f32[1]", "-o", "k.cubin", "--depfile", "k.d"],
            ["fatbin", "--elf", "sm_90=typo.cubin", "-o", "k.cubin"],
            ["header", "--prefix=k", "--image=typo", "--json=typo", "--header-out=k.cubin", "--source-out=k.d"],
            ["object", "--prefix=k", "--image=typo", "-o", "k.cubin"],
            ["json", "typo.cubin", "-o", "k.json"],
        ],
        ids=lambda words: words[0],
    )  # fmt: skip
    def test_a_mistyped_line_costs_no_output(self, tmp_path: Path, words: list[object]) -> None:
        """Nothing is touched before the input was read."""
        self.stale(tmp_path)
        done = call(*words, cwd=tmp_path)
        assert done.returncode == 1, done.stderr
        assert {path.read_text() for path in tmp_path.iterdir()} == {"of an earlier build"}
        assert sorted(path.name for path in tmp_path.iterdir()) == ["k.cubin", "k.d", "k.json"]

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
    def test_signal_to_the_command(self, tmp_path: Path, number: signal.Signals) -> None:
        mark = tmp_path / "started"
        root = fake_toolkit(tmp_path / "toolkit", f'printf partial > "$OUT"; echo $$ > {mark}; sleep 60')
        folder = tmp_path / "out"
        folder.mkdir()
        self.stale(folder)
        child = subprocess.Popen(command(*self.words(root, folder)), stderr=subprocess.DEVNULL)
        while not mark.exists() or not mark.read_text().strip():
            assert child.poll() is None
            time.sleep(0.02)
        child.send_signal(number)
        assert child.wait(timeout=30) == -number
        assert [path.name for path in folder.iterdir() if path.name != ".tileiras-record"] == []
        tool = int(mark.read_text())
        for _ in range(100):
            if not Path(f"/proc/{tool}").exists() or " Z " in Path(f"/proc/{tool}/stat").read_text():
                break
            time.sleep(0.05)
        else:
            pytest.fail("the compiler outlived the command")

    def test_what_a_killed_command_left_is_removed_by_the_next(self, tmp_path: Path) -> None:
        mark = tmp_path / "started"
        root = fake_toolkit(tmp_path / "toolkit", f'printf partial > "$OUT"; echo $$ > {mark}; exec sleep 60')
        out = tmp_path / "out" / "k.cubin"
        stuck = subprocess.Popen(command(*self.words(root, out.parent)), stderr=subprocess.DEVNULL)
        while not mark.exists() or not mark.read_text().strip():
            assert stuck.poll() is None
            time.sleep(0.02)
        call("compile", KERNEL, "-o", out, "--arch", "sm_90")
        assert list(out.parent.glob(".*.tmp"))  # of a command that is alive
        stuck.kill()
        stuck.wait()
        os.kill(int(mark.read_text()), signal.SIGKILL)
        assert call("compile", KERNEL, "-o", out, "--arch", "sm_90").returncode == 0
        assert [path.name for path in out.parent.glob(".*.tmp")] == []

    def test_older_ptxas_than_tileiras(self, tmp_path: Path) -> None:
        root = fake_toolkit(tmp_path / "toolkit", "exit 0")
        ptxas = root / "bin" / "ptxas"
        ptxas.write_text('#!/bin/sh\necho "release 13.1, V13.1.115"\n')
        done = call(*self.words(root, tmp_path))
        assert done.returncode == 2
        assert str(ptxas) in done.stderr and str(root / "bin" / "tileiras") in done.stderr
        assert "13.4 or later is needed" in done.stderr

    def test_a_full_disk(self, tmp_path: Path) -> None:
        """A limit on file size stands for it: the image is made, and cannot be written."""
        good = tmp_path / "good.cubin"
        words = ["compile", "--compiler", "nvidia", "--toolkit-root", peers.require_toolkit(), KERNEL]
        env = {**os.environ, "TILEIRAS_CACHE_DIR": str(tmp_path / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}
        assert call(*words, "-o", good, "--arch", "sm_90", env=env).returncode == 0
        folder = tmp_path / "out"
        folder.mkdir()
        self.stale(folder)
        run = command(*words, "-o", folder / "k.cubin", "--depfile", folder / "k.d", "--arch", "sm_90")
        limited = ["/bin/sh", "-c", 'ulimit -f 8; exec "$@"', "sh", *run]
        done = subprocess.run(limited, capture_output=True, text=True, env=env)
        assert done.returncode == 2
        assert f"'{folder}/k.cubin'" in done.stderr and "Traceback" not in done.stderr
        assert [path.name for path in folder.iterdir() if not path.name.startswith(".tileiras")] == ["k.json"]

    def test_output_directory_that_cannot_be_made(self, tmp_path: Path) -> None:
        root = fake_toolkit(tmp_path / "toolkit", "exit 0")
        (tmp_path / "file").write_text("")
        done = call(*self.words(root, tmp_path / "file" / "under"))
        assert done.returncode == 2
        assert "Traceback" not in done.stderr


class TestRecord:
    def test_why_rebuilt(self, real: Path, tmp_path: Path) -> None:
        source = tmp_path / "k.tilebc"
        shutil.copy(KERNEL, source)
        out = tmp_path / "k.cubin"

        def build(*more: object) -> int:
            words = [
                "compile",
                "--compiler",
                "nvidia",
                "--toolkit-root",
                real,
                source,
                "-o",
                out,
                "--arch",
                "sm_90",
            ]
            return call(*words, "--depfile", tmp_path / "k.d", *more).returncode

        def why() -> list[str]:
            lines = call("--why-rebuilt", out, tool="config").stdout.splitlines()
            return [line.removeprefix(f"{out}: ") for line in lines]

        assert "no record" in why()[0]
        assert build() == 0
        assert why() == ["it was built for the first time"]
        assert build("--opt-level", "2") == 0
        assert why() == ["option --opt-level=2 was added"]
        assert build("--opt-level", "1") == 0
        assert why() == ["option --opt-level=2 became --opt-level=1"]
        shutil.copy(BYTECODE / "add_2d_f16.tilebc", source)
        assert why()[1:] == [f"since then: input {source} changed"]
        assert build("--opt-level", "1") == 0
        assert why() == [f"input {source} changed"]
        assert build("--opt-level", "1") == 0
        assert "nothing that it is made from changed" in why()[0]
        assert build("--opt-level", "1", "--max-registers", "1") == 5
        assert "the last build failed" in why()[0]
        assert build("--opt-level", "1") == 0
        assert why() == ["the build before had failed"]
        out.unlink()
        assert why()[-1] == f"since then: output {out} was removed"

    def test_a_changed_tool_is_named(self) -> None:
        from tileiras.tools.build.record import differences

        before = {"inputs": {}, "options": [], "tools": {"ptxas": "ptxas 13.1.115 1 1"}}
        after = {"inputs": {}, "options": [], "tools": {"ptxas": "ptxas 13.4.92 2 2"}}
        assert differences(before, after) == ["tool ptxas changed: ptxas 13.1.115 1 1 -> ptxas 13.4.92 2 2"]
        assert differences(after, after) == []


PATHS = st.text(
    st.characters(
        min_codepoint=32, max_codepoint=0x2FF, blacklist_characters="/\x7f;%|*?[]<>\"'`&()!~,{}\\^@"
    ),
    min_size=1,
    max_size=12,
).filter(lambda name: name.strip() == name and name.strip(".") != "" and not name.startswith("-"))


class TestDepfile:
    """Read back by the tools that read them."""

    @pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
    @settings(max_examples=25, deadline=None)
    @given(name=PATHS)
    def test_make_reads_the_name(self, tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
        folder = tmp_path_factory.mktemp("make")
        source = folder / name
        source.write_text("")
        (folder / "k.d").write_text(write_depfile("out", [str(source)]))
        (folder / "Makefile").write_text("out:\n\ttouch out\ninclude k.d\n")
        run = [shutil.which("make"), "-s", "out"]
        subprocess.run(run, cwd=folder, check=True)
        os.utime(folder / "out", (2_000_000_000, 2_000_000_000))
        assert subprocess.run([*run, "-q"], cwd=folder).returncode == 0
        os.utime(source, (2_100_000_000, 2_100_000_000))
        assert subprocess.run([*run, "-q"], cwd=folder, stderr=subprocess.DEVNULL).returncode == 1
        source.unlink()
        assert subprocess.run([*run, "-q"], cwd=folder, capture_output=True).returncode == 2

    @pytest.mark.skipif(shutil.which("ninja") is None, reason="needs ninja")
    @settings(max_examples=25, deadline=None)
    @given(name=PATHS.filter(lambda name: not name.endswith(":")))  # which no word of a depfile is to Ninja
    def test_ninja_reads_the_name(self, tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
        folder = tmp_path_factory.mktemp("ninja")
        source = folder / name
        source.write_text("")
        (folder / "proto.d").write_text(write_depfile("out", [str(source)]))
        (folder / "build.ninja").write_text(
            "rule r\n  command = cp proto.d out.d && touch out\n  depfile = out.d\nbuild out: r\n"
        )
        subprocess.run(["ninja", "-C", folder], check=True, capture_output=True)
        null = subprocess.run(["ninja", "-C", folder], check=True, capture_output=True, text=True)
        assert "no work to do" in null.stdout
        os.utime(source, (2_100_000_000, 2_100_000_000))
        again = subprocess.run(["ninja", "-C", folder, "-n"], check=True, capture_output=True, text=True)
        assert "no work to do" not in again.stdout

    @pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
    @pytest.mark.parametrize("name", ["a=b", "x=", "=x", "a:=b", "a:b", "a\\b", "a#b", "a$b", "a b", "a|b", "a*b", "a?b",
                                      "a[b]", "~a", "a\\=b", "a\\ b", "a,b", "a'b", "define", "a =|*b", "a;b"])  # fmt: skip
    def test_make_reads_targets_that_are_written_for_it(self, tmp_path: Path, name: str) -> None:
        source = tmp_path / f"in{name}"
        source.write_text("")
        (tmp_path / "k.d").write_text(write_depfile(name, [str(source)], "make"))
        (tmp_path / "Makefile").write_text("include k.d\n")
        made = subprocess.run(["make", "-pqrR"], cwd=tmp_path, capture_output=True, text=True)
        assert f"{name}: {source}" in made.stdout.splitlines()

    @pytest.mark.skipif(shutil.which("ninja") is None, reason="needs ninja")
    @pytest.mark.parametrize("name", ["a=b", "x=", "a%b", "a:b", "a\\b", "a#b", "a$b", "a b", "a'b"])
    def test_ninja_reads_the_target(self, tmp_path: Path, name: str) -> None:
        version = subprocess.run(["ninja", "--version"], check=True, capture_output=True, text=True).stdout
        if "'" in name and tuple(map(int, version.split(".")[:2])) < (1, 13):
            pytest.skip("Ninja 1.11 ends a word of a depfile at an apostrophe")
        (tmp_path / "in").write_text("")
        (tmp_path / "proto.d").write_text(write_depfile(name, [str(tmp_path / "in")]))
        spelled = name.replace("$", "$$").replace(":", "$:").replace(" ", "$ ")
        quoted = shlex.quote(name).replace("$", "$$")
        (tmp_path / "build.ninja").write_text(
            f"rule r\n  command = cp proto.d out.d && touch {quoted}\n  depfile = out.d\nbuild {spelled}: r\n"
        )
        subprocess.run(["ninja", "-C", tmp_path], check=True, capture_output=True)
        assert (
            "no work to do"
            in subprocess.run(["ninja", "-C", tmp_path], capture_output=True, text=True).stdout
        )
        os.utime(tmp_path / "in", (2_100_000_000, 2_100_000_000))
        again = subprocess.run(["ninja", "-C", tmp_path, "-n"], check=True, capture_output=True, text=True)
        assert "no work to do" not in again.stdout

    def test_a_depfile_for_make(self, tmp_path: Path) -> None:
        words = [
            "compile",
            KERNEL,
            "--arch",
            "compute_90",
            "-o",
            "a=b.ptx",
            "--depfile",
            "k.d",
            "--depfile-for=make",
        ]
        assert call(*words, cwd=tmp_path).returncode == 0
        assert (tmp_path / "k.d").read_text().startswith("a$(or =)b.ptx: ")

    def test_escapes(self) -> None:
        assert escape("a b#c$d") == "a\\ b\\#c$$d"
        assert escape("a\\ b") == "a\\\\\\ b"
        assert escape("a:b") == "a\\:b" and escape("a\\|c") == "a\\\\\\|c"
        for bad in ("a\nb", "a(b;)", "a\0b"):
            with pytest.raises(ValueError):
                escape(bad)
        with pytest.raises(ValueError):
            write_depfile("out", [])

    def test_repeats_and_order(self) -> None:
        assert write_depfile("o", ["/b", "/a", "/b"]) == "o: /b \\\n  /a\n"
        # Make would read `o: /a=b` as a variable of its own
        assert write_depfile("o", ["/a=b", "/c"]) == "o: /c \\\n  /a=b\n"
        first, second = write_depfile("o", ["/a=b"]).removeprefix("o: ").split(" \\\n  ")
        assert os.path.isfile(first.replace("\\ ", " ")) and second == "/a=b\n"


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with cubins and tables of one kernel for two architectures, and their container."""
    return compile_images(tmp_path_factory.mktemp("images"))


class TestFatbin:
    def test_entries(self, images: Path) -> None:
        found = read_fatbin((images / "k.fatbin").read_bytes())
        assert [(image.kind, image.arch) for image in found] == [
            ("elf", "90"),
            ("elf", "100"),
            ("tileir", "120"),
        ]

    @pytest.mark.parametrize(
        ("words", "status"),
        [
            (["--elf", "sm_100={0}/sm_90.cubin"], 1),  # only this one gets as far as a container
            (["--elf", "sm_90={0}/none.cubin"], 1),
            (["--elf", "compute_90={0}/sm_90.cubin"], 1),
            (["--elf", "sm_90={0}/sm_90.cubin", "--elf", "90={0}/sm_90.cubin"], 1),
            (["--elf", "sm_90"], 1),
            ([], 1),
            (["--elf", "sm_66={0}/sm_90.cubin"], 2),
        ],
    )
    def test_refusals(self, images: Path, tmp_path: Path, words: list[str], status: int) -> None:
        out = tmp_path / "k.fatbin"
        out.write_bytes(b"of an earlier build")
        done = call("fatbin", "-o", out, *[word.format(images) for word in words])
        assert done.returncode == status
        assert done.stderr and "Traceback" not in done.stderr
        assert out.exists() == (words != ["--elf", "sm_100={0}/sm_90.cubin"])

    def test_table_of_a_cubin(self, images: Path) -> None:
        done = call("json", "-o", "-", images / "sm_90.cubin")
        table = json.loads(done.stdout)
        assert table["launch_abi"] == "tile"
        assert [p["type"] for p in table["kernels"][0]["params"]] == ["ptr", "b32", "b32", "b32", "b32"] * 3


class TestBytecode:
    def test_bytecode_is_verified_and_handed_on(self, tmp_path: Path) -> None:
        out, depfile = tmp_path / "k.tilebc", tmp_path / "k.d"
        assert call("bytecode", KERNEL, "-o", out, "--depfile", depfile).returncode == 0
        assert out.read_bytes() == KERNEL.read_bytes()
        assert depfile.read_text() == f"{out}: {escape(str(KERNEL))}\n"

    @pytest.mark.parametrize("damage", [lambda data: data[:60], lambda data: data[:8] + b"\x0e" + data[9:]])
    def test_damage(self, tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
        source, out = tmp_path / "k.tilebc", tmp_path / "out.tilebc"
        source.write_bytes(damage(KERNEL.read_bytes()))
        out.write_bytes(b"of an earlier build")
        done = call("bytecode", source, "-o", out)
        assert done.returncode == 3
        assert done.stderr and "Traceback" not in done.stderr
        assert not out.exists()


class TestCommandLine:
    def test_help_of_every_verb(self) -> None:
        from tileiras.tools.build import VERBS

        for verb in VERBS:
            if verb != "test":
                done = call(verb, "--help")
                assert done.returncode == 0
                assert f"usage: tileiras-build {verb}" in done.stdout

    def test_unknown_verb(self) -> None:
        done = call("compil")
        assert done.returncode == 1
        assert "compile" in done.stderr

    def test_arguments_from_a_file(self, tmp_path: Path, images: Path) -> None:
        (tmp_path / "args").write_text(f"-o\n{tmp_path}/t.json\n{images}/sm_90.cubin\n")
        assert call("json", f"@{tmp_path}/args").returncode == 0
        assert json.loads((tmp_path / "t.json").read_text())["version"] == 1


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("vadd", "vadd"),
        ("vadd_Kt1_A1f16_1l0_I256", "vadd"),
        ("_Z4vaddPf", "vadd"),
        ("_ZN2my4vaddEPf", "vadd"),
        ("_Z", "_Z"),
        ("a_Kb", "a_Kb"),
    ],
)
def test_plain_names(symbol: str, name: str) -> None:
    assert plain_name(symbol) == name
