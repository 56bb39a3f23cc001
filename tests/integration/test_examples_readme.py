"""examples/README.md, followed to the letter: a clean copy, a fresh environment, every command as it stands."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from build_support import REPOSITORY
from environment import clean_environ

README = REPOSITORY / "examples" / "README.md"
BLOCK = re.compile(r"^## \[(\w+)\].*?^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
SECTIONS: dict[str, str] = dict(BLOCK.findall(README.read_text()))
# The last line that a successful run ends with, on a machine without a GPU.
ENDS = {
    "cmake": r"right",
    "cpu": r"matmul on the CPU: right\n$",
    "fetchcontent": r"vector_add: 4 parameters(?s:.*)vector_add on the emulator: right\n$",
    "setuptools": r"vector_add: right\n$",
    "pyproject_only": r"vector_add: right\n$",
    "scikit_build_core": r"vector_add: right\n$",
    "nvcc_shim": r"both kernels on the emulator: right\n$",
    "capi": r"for sm_90 is complete\nvector_add on the emulator: right\n$",
}


def test_every_example_has_its_commands() -> None:
    folders = {path.name for path in (REPOSITORY / "examples").iterdir() if path.is_dir()}
    assert set(SECTIONS) == folders == {*ENDS, "bazel"}  # test_bazel_example.py follows Bazel's, offline
    assert all(text.startswith(f"cd examples/{name}\n") for name, text in SECTIONS.items())


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what is under version control, with the environment that the first block makes."""
    root = tmp_path_factory.mktemp("examples") / "checkout"
    names = subprocess.run(["git", "ls-files", "-z"], cwd=REPOSITORY, capture_output=True, text=True)
    if names.returncode:
        pytest.skip("needs git and a checkout")
    for name in names.stdout.split("\0"):
        if name and (REPOSITORY / name).is_file():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(REPOSITORY / name, root / name)
    found = re.search(r"^```sh\n(.*?)^```", README.read_text(), re.MULTILINE | re.DOTALL)
    assert found is not None
    done = follow(root, found[1])
    if (
        done.returncode
        and "Could not find a version that satisfies the requirement scikit-build-core" in done.stdout
    ):
        pytest.skip("needs a package index")
    assert done.returncode == 0, done.stdout
    return root


def follow(root: Path, text: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["sh", "-e", "-c", text], cwd=root, env=clean_environ(), text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=900)  # fmt: skip


@pytest.mark.full
@pytest.mark.parametrize("name", sorted(ENDS))
def test_the_commands_do_what_they_say(name: str, checkout: Path) -> None:
    export = re.search(r"^export .*\n", README.read_text(), re.MULTILINE)
    assert export is not None
    entered = f". env/bin/activate\n{export[0]}"
    done = follow(checkout, entered + SECTIONS[name])
    assert done.returncode == 0, done.stdout
    assert re.search(ENDS[name], done.stdout), done.stdout
