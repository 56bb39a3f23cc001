"""`tileiras-build export`: cuTile Python through the real cuda-tile."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import peers
import pytest
from build_tools import call

from tileiras.toolchain.cubin import read_cubin

KERNEL_SOURCE = """\
import cuda.tile as ct
from helper import SCALE

@ct.kernel
def scale(a, b, n: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(b, index=(i,), tile=ct.load(a, index=(i,), shape=(n,)) * SCALE)
"""


class TestExport:
    @pytest.fixture
    def source(self, tmp_path: Path) -> Path:
        folder = tmp_path / "source dir"
        folder.mkdir()
        (folder / "helper.py").write_text("SCALE = 3.0\n")
        (folder / "kernel.py").write_text(KERNEL_SOURCE)
        return folder / "kernel.py"

    @pytest.mark.parametrize("arch", ["sm_90a", "100f"])
    def test_a_gpu_with_a_suffix_is_named_as_cutile_reads_it(
        self, arch: str, source: Path, tmp_path: Path
    ) -> None:
        """Which is by a number; builds for sm_90a of bytecode that names its GPU ended in an exception of cuTile's."""
        words = ["--python", peers.require_python(), "--entry", "scale", "--signature", "f32[1],f32[1],=128"]
        made = []
        for name in (arch, arch.strip("af")):
            out = tmp_path / "k.tilebc"
            done = call("export", source, *words, "-o", out, "--arch", name, "--bytecode-version=13.1")
            assert done.returncode == 0, done.stderr
            made.append(out.read_bytes())
        assert made[0] == made[1]

    def test_export_and_depfile(self, source: Path, tmp_path: Path) -> None:
        out, depfile = tmp_path / "k.tilebc", tmp_path / "k.d"
        python = peers.require_python()
        words = [
            "export",
            source,
            "--python",
            python,
            "--entry",
            "scale",
            "-o",
            out,
            "--depfile",
            depfile,
            "--arch",
            "sm_90",
        ]
        done = call(*words, "--signature", "f32[1],f32[1]:16,=128", "--symbol", "scale")
        assert (done.returncode, done.stderr) == (0, "")
        escaped = str(source.parent).replace(" ", "\\ ")
        first, *rest = depfile.read_text().split(" \\\n  ")
        assert (first, rest[0]) == (f"{out}: {escaped}/kernel.py", f"{escaped}/helper.py")
        # another cuda-tile exports other bytecode: what its installer writes anew stands for it
        assert [Path(path.strip()).name for path in rest[1:]] == ["__init__.py", "RECORD"]
        cubin = tmp_path / "k.cubin"
        root = peers.require_toolkit()
        words = ["compile", "--compiler", "nvidia", "--toolkit-root", root, out, "-o", cubin, "--arch", "90"]
        assert call(*words).returncode == 0
        assert set(read_cubin(cubin.read_bytes()).kernels) == {"scale"}

    @pytest.mark.parametrize(
        ("text", "signature", "said"),
        [
            ("import sys\nsys.exit(0)\n", "f32[1],f32[1],=128", "cannot be imported: SystemExit: 0"),
            ("import os\nos._exit(0)\n", "f32[1],f32[1],=128", "ended without an error and without"),
            (KERNEL_SOURCE, "f32[1]", "has 1 parameters, and the kernel 3: scale(a, b, n)"),
        ],
        ids=["exits", "vanishes", "counts"],
    )
    def test_a_source_that_makes_nothing_is_an_error(
        self, text: str, signature: str, said: str, source: Path, tmp_path: Path
    ) -> None:
        source.write_text(text)
        out = tmp_path / "k.tilebc"
        words = ["--python", peers.require_python(), "--entry", "scale", "--signature", signature]
        done = call("export", source, *words, "-o", out)
        assert done.returncode in (1, 5) and said in done.stderr
        assert not out.exists()

    def test_the_same_bytes_in_any_place(self, source: Path, tmp_path: Path) -> None:
        """cuTile records file names; they must not be those of one machine's folders."""
        made = []
        for name, more in (("one", []), ("two", []), ("three", ["--file-prefix-map", "{}=/src"])):
            folder = tmp_path / name
            shutil.copytree(source.parent, folder)
            out = folder / "k.tilebc"
            words = [
                "export",
                folder / "kernel.py",
                "--python",
                peers.require_python(),
                "--entry",
                "scale",
                "-o",
                out,
            ]
            more = [word.format(folder) for word in more]
            done = call(*words, "--signature", "f32[1],f32[1],=128", "--arch", "sm_90", *more)
            assert done.returncode == 0, done.stderr
            made.append(out.read_bytes())
        assert made[0] == made[1]
        assert str(tmp_path).encode() not in made[0]
        assert b"kernel.py" in made[0] and b"/src" in made[2]

    def test_matrix(self, source: Path, tmp_path: Path) -> None:
        out, matrix = tmp_path / "k.tilebc", tmp_path / "m.json"
        rows = {
            "values": {"t": ["f16", "f32"], "n": [64, 128]},
            "signature": "{t}[1],{t}[1],={n}",
            "symbol": "scale_{t}_{n}",
            "exclude": [{"t": "f16", "n": 64}],
        }
        matrix.write_text(json.dumps(rows))
        words = [
            "export",
            source,
            "--python",
            peers.require_python(),
            "--entry",
            "scale",
            "-o",
            out,
            "--verbose",
        ]
        done = call(*words, "--matrix", matrix, "--arch", "sm_90")
        assert done.returncode == 0, done.stderr
        names = [line.split(" -> ")[1] for line in done.stderr.splitlines()]
        assert sorted(names) == ["scale_f16_128", "scale_f32_128", "scale_f32_64"]
        del rows["symbol"]
        matrix.write_text(json.dumps({**rows, "typo": 1}))
        assert "unknown key 'typo'" in call(*words, "--matrix", matrix).stderr

    @pytest.mark.parametrize(
        ("text", "signature", "status", "words"),
        [
            (KERNEL_SOURCE, "f32[1],q7[1],=128", 1, "no type 'q7'"),
            (KERNEL_SOURCE, "f32[1],f32[1],=128,i32", 5, "could not export"),
            (KERNEL_SOURCE + "raise RuntimeError('at import')\n", "f32[1],f32[1],=1", 1, "at import"),
            ("def other(): pass\n", "i32", 1, "has no 'scale'"),
        ],
    )
    def test_failures(
        self, source: Path, tmp_path: Path, text: str, signature: str, status: int, words: str
    ) -> None:
        source.write_text(text)
        out = tmp_path / "k.tilebc"
        out.write_bytes(b"of an earlier build")
        command = ["export", source, "--python", peers.require_python(), "--entry", "scale", "-o", out]
        done = call(*command, "--signature", signature, "--arch", "sm_90")
        assert done.returncode == status, done.stderr
        assert words in done.stderr and "Traceback" not in done.stderr
        assert not out.exists()

    def test_why_it_was_exported_again(self, source: Path, tmp_path: Path) -> None:
        out = tmp_path / "k.tilebc"
        words = ["export", source, "--python", peers.require_python(), "--entry", "scale", "-o", out,
                 "--depfile", tmp_path / "k.d", "--signature", "f32[1],f32[1],=128"]  # fmt: skip

        def export(code: int = 0) -> str:
            done = call(*words)
            assert done.returncode == code, done.stderr
            why = call("--why-rebuilt", out, tool="config").stdout
            return done.stderr if code else why

        assert "built for the first time" in export()
        helper = source.parent / "helper.py"
        helper.write_text("SCALE = 5.0\n")
        assert f"input {helper} changed" in export()
        helper.write_text("SCALE = 5.0\nimport nowhere\n")
        said = export(1)
        assert said.count("error:") == 1 and "No module named 'nowhere' (helper.py, line 2)" in said
        assert not out.exists()
        assert "the last build failed" in call("--why-rebuilt", out, tool="config").stdout
        helper.write_text("SCALE = 5.0\n")
        assert "the build before had failed" in export()

    def test_why_bytecode_was_written_again(self, tmp_path: Path) -> None:
        source, out = tmp_path / "k.tileir", tmp_path / "k.tilebc"
        words = ["bytecode", source, "-o", out, "--depfile", tmp_path / "k.d"]
        source.write_text("cuda_tile.module @m { entry @k() { return } }")
        assert call(*words).returncode == 0
        source.write_text("cuda_tile.module @m { entry @other() { return } }")
        assert call(*words).returncode == 0
        assert f"input {source} changed" in call("--why-rebuilt", out, tool="config").stdout
