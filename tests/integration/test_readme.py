"""What README.md shows is what happens: its kernel compiles, its Python prints what the comment says, its commands exist."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]


def indented_blocks() -> list[str]:
    """Returns the indented code blocks, in order, without their indentation."""
    text = (REPOSITORY / "README.md").read_text()
    return [textwrap.dedent(block) for block in re.findall(r"(?:^(?:    .*)?\n)*^    .*\n", text, re.M)]


def block_with(word: str) -> str:
    """Returns the one block that holds a word."""
    found = [block for block in indented_blocks() if word in block]
    assert len(found) == 1, (word, found)
    return found[0].strip("\n") + "\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the README's kernel."""
    (tmp_path / "scale.tileir").write_text(block_with("cuda_tile.module"))
    return tmp_path


def run(folder: Path, *argv: str, check: bool = True) -> str:
    """Returns what a Python command prints, with this checkout's package."""
    env = os.environ | {"PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run([sys.executable, *argv], cwd=folder, env=env, capture_output=True, text=True)
    assert not check or done.returncode == 0, done.stderr
    return done.stdout


def test_the_python_example(folder: Path) -> None:
    pytest.importorskip("numpy")
    code = block_with("import numpy as np")
    expected = re.findall(r"print\(.*\)\s+# (.*)", code)
    assert expected
    assert run(folder, "-c", code).splitlines() == expected
    assert (folder / "scale.cubin").read_bytes().startswith(b"\x7fELF")


def test_the_shell_example(folder: Path) -> None:
    numpy = pytest.importorskip("numpy")
    modules = {"tileiras": "tileiras", "tileiras-translate": "tileiras.tools.translate"}
    modules["tileiras-run"] = "tileiras.tools.run"
    ran = []
    for line in filter(None, block_with("tileiras-translate").splitlines()):
        name, *words = shlex.split(line)
        ran.append(name)
        run(folder, *(["-m", modules[name]] if name in modules else []), *words)
    assert {*modules, "python"} == {*ran}
    assert (folder / "scale.cubin").read_bytes().startswith(b"\x7fELF")
    assert (numpy.load(folder / "out.npy") == 2 * numpy.arange(300)).all()


def test_every_command_in_the_table_is_a_script() -> None:
    text = (REPOSITORY / "README.md").read_text()
    commands = re.findall(r"^\| `(tile[\w-]+)` \| ", text, re.M)
    scripts = re.findall(r'^ +"(tile[\w-]+)\|', (REPOSITORY / "CMakeLists.txt").read_text(), re.M)
    assert sorted(commands) == sorted(scripts)


def test_links_lead_somewhere() -> None:
    for page in ("README.md", "CONTRIBUTING.md"):
        for target in re.findall(r"\]\(([^)#:]+)\)", (REPOSITORY / page).read_text()):
            assert (REPOSITORY / target).exists(), f"{page}: {target}"
