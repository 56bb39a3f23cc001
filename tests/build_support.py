"""What the setuptools and nvcc shim tests share: the package as it is installed, its commands, kernels to compile.

`Installed(folder)` lays the checkout out as a wheel does and renders the command scripts beside an interpreter; what runs in
a test is then the text that users run.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import peers

REPOSITORY = Path(__file__).resolve().parent.parent
COMMANDS = (
    ("tileiras", "tileiras.cli"),
    ("tileiras-nvcc", "tileiras.nvcc_shim.main"),
    ("tileiras-build", "tileiras.tools.build"),
    ("tileiras-config", "tileiras.tools.config"),
)


def map_checkout() -> None:
    """Makes `tileiras.nvcc_shim` and `tileiras.setuptools_ext` importable in this process from the checkout."""
    import tileiras

    if str(REPOSITORY) not in list(tileiras.__path__):
        tileiras.__path__.append(str(REPOSITORY))


class Installed:
    """One layout: `site` to import from, `bin` with the commands."""

    def __init__(self, folder: Path) -> None:
        self.site, self.bin = folder / "site", folder / "bin"
        package = self.site / "tileiras"
        ignore = shutil.ignore_patterns("__pycache__", "*.pyc")
        # Copies: an edit of the checkout during a test changes the toolchain's fingerprint, and with it what is rebuilt.
        shutil.copytree(REPOSITORY / "tileiras", package, ignore=ignore)
        for name in ("nvcc_shim", "setuptools_ext", "cmake", "bazel"):
            shutil.copytree(REPOSITORY / name, package / name, ignore=ignore, symlinks=True)
        self.bin.mkdir()
        (self.bin / "python3").symlink_to(sys.executable)
        template = (REPOSITORY / "scripts" / "command.in").read_text()
        for name, module in COMMANDS:
            prelude = (
                (REPOSITORY / "nvcc_shim" / "delegate.sh").read_text() if name == "tileiras-nvcc" else ""
            )
            text = (template.replace("@TILEIRAS_PRELUDE@", prelude).replace("@TILEIRAS_MODULE@", module)
                    .replace("@TILEIRAS_PYTHON_FLAGS@", "-I -S").replace("@TILEIRAS_SOURCE_DIR@", str(self.site)))  # fmt: skip
            script = self.bin / name
            script.write_text(text)
            script.chmod(0o755)

    @property
    def shim(self) -> str:
        return str(self.bin / "tileiras-nvcc")


def run(argv: list[object], cwd: Path | None = None, env: dict[str, str] | None = None, **keywords: object
        ) -> subprocess.CompletedProcess[str]:  # fmt: skip
    """Runs a command and keeps what it said."""
    keywords.setdefault("timeout", 300)
    return subprocess.run([str(one) for one in argv], cwd=cwd, env=env, capture_output=True, text=True,
                          errors="surrogateescape", **keywords)  # type: ignore[call-overload,no-any-return]  # fmt: skip


def ok(done: subprocess.CompletedProcess[str]) -> subprocess.CompletedProcess[str]:
    """Returns the finished process; fails with everything it said unless it succeeded."""
    assert done.returncode == 0, f"{done.args}\nexit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def clean_environ(**extra: str) -> dict[str, str]:
    """Returns the environment without what steers a toolchain, plus `extra`."""
    drop = (
        "CUDA",
        "NVCC_",
        "TILEIRAS_",
        "PYTHON",
        "CONDA_",
        "MAKEFLAGS",
        "MAX_JOBS",
        "VIRTUAL_ENV",
        "TORCH_",
        "XDG_",
    )
    env = {name: value for name, value in os.environ.items() if not name.startswith(drop)}
    env.update(extra)
    return env


KERNEL = """\
import cuda.tile as ct
from {helper} import combine


@ct.kernel
def vadd(a, b, c, n: ct.Constant[int]):
    i = ct.bid(0)
    x = ct.load(a, index=(i,), shape=(n,))
    y = ct.load(b, index=(i,), shape=(n,))
    ct.store(c, index=(i,), tile=combine(x, y))
"""


def export_vadd(folder: Path, installed: Installed, version: str = "13.1") -> Path:
    """Returns bytecode of a vector addition, made by the real frontend; skips the test where that is missing."""
    python = peers.require_python()
    source = folder / "vadd_kernel.py"
    source.write_text(KERNEL.format(helper="vadd_helper"))
    (folder / "vadd_helper.py").write_text("def combine(x, y):\n    return x + y\n")
    target = folder / "vadd.tilebc"
    ok(run([installed.bin / "tileiras-build", "export", source, "--entry=vadd", "--signature=f32[1],f32[1],f32[1],=128",
            f"--python={python}", f"--bytecode-version={version}", "--arch=sm_90", "-o", target]))  # fmt: skip
    return target
