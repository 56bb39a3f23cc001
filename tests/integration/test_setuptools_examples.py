"""The examples of the Python ways in, built and run as their first lines say."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import peers
import pytest
from build_support import REPOSITORY, Installed, clean_environ, ok, run
from environment import clean_environ as clean_for_pip
from environment import create_venv
from setuptools_support import install_metadata, need_bdist_wheel

pytest.importorskip("setuptools", minversion="64")
np = pytest.importorskip("numpy")
EXAMPLES = REPOSITORY / "examples"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    made = Installed(tmp_path_factory.mktemp("installed"))
    install_metadata(made)
    return made


def copy_example(name: str, tmp_path: Path) -> Path:
    target = tmp_path / name
    shutil.copytree(
        EXAMPLES / name, target, ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__", "dist")
    )
    return target


@pytest.mark.parametrize("name", ["setuptools", "pyproject_only"])
def test_build_and_run(name: str, installed: Installed, tmp_path: Path) -> None:
    need_bdist_wheel()
    root = copy_example(name, tmp_path)
    env = clean_environ(PYTHONPATH=str(installed.site), TILEIRAS_TOOLKIT_ROOT=str(peers.require_toolkit("13.4")),
                        TILEIRAS_CACHE_DIR=os.environ["TILEIRAS_CACHE_DIR"])  # fmt: skip
    dist = tmp_path / "dist"
    dist.mkdir()
    ok(
        run(
            [sys.executable, "-c", f"import setuptools.build_meta as b; b.build_wheel({str(dist)!r})"],
            root,
            env,
            timeout=600,
        )
    )
    (wheel,) = dist.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    env["PYTHONPATH"] = f"{tmp_path / 'site'}{os.pathsep}{installed.site}"
    done = ok(run([sys.executable, "-m", "tile_add"], tmp_path, env, timeout=600))
    assert done.stdout.endswith("vector_add: right\n")


@pytest.mark.full
def test_the_shims_example(installed: Installed, tmp_path: Path) -> None:
    root = copy_example("nvcc_shim", tmp_path)
    env = clean_environ(PYTHONPATH=str(installed.site), TILEIRAS_NVCC=str(peers.require("nvcc", "13.4")),
                        TILEIRAS_CACHE_DIR=os.environ["TILEIRAS_CACHE_DIR"])  # fmt: skip
    done = ok(
        run(["make", "check", f"NVCC={installed.shim}", f"PYTHON={sys.executable}"], root, env, timeout=600)
    )
    assert "both kernels on the emulator: right" in done.stdout
    assert "Nothing to be done" in ok(run(["make", "all", f"NVCC={installed.shim}"], root, env)).stdout
    ok(run(["make", "clean"], root, env))
    assert sorted(path.name for path in root.iterdir()) == sorted(path.name for path in (EXAMPLES / "nvcc_shim").iterdir()
                                                                  if path.suffix in (".cu", ".py", ".tileir", ""))  # fmt: skip


@pytest.fixture(scope="session")
def venv(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A fresh environment, and a folder with the wheel of this checkout. Skips where the index cannot be reached."""
    folder = tmp_path_factory.mktemp("venv")
    python = create_venv(folder / "venv")
    wheels = folder / "wheels"
    done = subprocess.run([python, "-m", "pip", "wheel", "-q", "--no-deps", "-w", wheels, REPOSITORY], env=clean_for_pip(),
                          capture_output=True, text=True)  # fmt: skip
    if done.returncode and "scikit-build-core" in done.stderr:
        pytest.skip("needs a package index (scikit-build-core)")
    assert done.returncode == 0, done.stderr
    return python, wheels


@pytest.mark.full
@pytest.mark.parametrize(("name", "package"), [("setuptools", "tile_add"), ("pyproject_only", "tile_add"),
                                               ("scikit_build_core", "tile_bindings")])  # fmt: skip
def test_pip_install_in_an_isolated_build(
    name: str, package: str, venv: tuple[Path, Path], tmp_path: Path
) -> None:
    python, wheels = venv
    root = copy_example(name, tmp_path)
    env = clean_for_pip(PIP_FIND_LINKS=f"{wheels} {os.environ.get('PIP_FIND_LINKS', '')}".strip())
    pip = [python, "-m", "pip"]
    ok(run([*pip, "install", "-q", "--force-reinstall", "--no-deps", "tileiras"], tmp_path, env, timeout=900))
    assert ok(run([python.parent / "tileiras-nvcc", "--tileiras-version"], tmp_path)).stdout.startswith(
        "tileiras-nvcc "
    )
    assert "tileiras.nvcc_shim" in (python.parent / "tileiras-nvcc").read_text()
    assert (
        "shim_routes" in (python.parent / "tileiras-nvcc").read_text()
    )  # the fast route is in the installed command
    ok(run([*pip, "install", "-q", root], tmp_path, env, timeout=900))
    done = ok(run([python, "-m", package], tmp_path, env, timeout=600))
    assert done.stdout.endswith("vector_add: right\n")
    ok(run([*pip, "uninstall", "-q", "-y", package.replace("_", "-")], tmp_path, env))
    if name != "scikit_build_core":
        for settings in ([], ["--config-settings", "editable_mode=strict"]):
            ok(run([*pip, "install", "-q", "-e", root, *settings], tmp_path, env, timeout=900))
            done = ok(run([python, "-m", package], tmp_path, env, timeout=600))
            assert done.stdout.endswith("vector_add: right\n")
            ok(run([*pip, "uninstall", "-q", "-y", package.replace("_", "-")], tmp_path, env))
