"""The distribution as users meet it: what the wheel holds, how the commands start, from wheels and editable installations.

Builds go through pip with build isolation, as a user's do. Environments lie below folders with a blank in the name.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
FOLDERS = {"tileiras": "tileiras", "cmake": "tileiras/cmake", "bazel": "tileiras/bazel",
           "setuptools_ext": "tileiras/setuptools_ext", "nvcc_shim": "tileiras/nvcc_shim"}  # fmt: skip
COMMANDS = ("tileiras", "tileiras-build", "tileiras-config", "tileiras-cutile", "tileiras-nvcc", "tileiras-opt",
            "tileiras-reduce", "tileiras-report", "tileiras-run", "tileiras-translate", "tileirdisasm")  # fmt: skip


def clean(**extra: str) -> dict[str, str]:
    """Returns an environment that names no Python and no toolkit."""
    drop = ("PYTHON", "VIRTUAL_ENV", "TILEIRAS", "CUDA", "PIP_USER")
    return {k: v for k, v in os.environ.items() if not k.startswith(drop)} | extra


def run(*argv: str | Path, env: dict[str, str] | None = None, cwd: Path | None = None) -> str:
    """Returns what a command prints; fails the test with it when the exit code is not 0."""
    done = subprocess.run([os.fspath(a) for a in argv], env=env or clean(), cwd=cwd, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip
    if done.returncode:
        pytest.fail(f"{' '.join(map(str, argv))}\nexit code {done.returncode}\n{done.stdout}", pytrace=False)
    return done.stdout


def source_files() -> set[str]:
    """Returns the names that the mapped folders should have in the wheel."""
    names = set()
    for folder, place in FOLDERS.items():
        for path in (REPOSITORY / folder).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts and not path.name.startswith("."):
                names.add(f"{place}/{path.relative_to(REPOSITORY / folder).as_posix()}")
    return names


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout."""
    out = tmp_path_factory.mktemp("wheel house")
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", out, REPOSITORY)
    return next(out.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin folder of an environment with the wheel."""
    home = tmp_path_factory.mktemp("with blank") / "the env"
    run(sys.executable, "-m", "venv", home)
    run(home / "bin" / "python3", "-m", "pip", "install", "--quiet", "--no-deps", wheel)
    return home / "bin"


@pytest.fixture(scope="module")
def editable(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin folder of an environment with an editable installation."""
    home = tmp_path_factory.mktemp("edit able") / "env"
    run(sys.executable, "-m", "venv", home)
    run(home / "bin" / "python3", "-m", "pip", "install", "--quiet", "--no-deps", "-e", REPOSITORY)
    return home / "bin"


def test_the_wheel_holds_one_package_and_all_of_it(wheel: Path) -> None:
    assert wheel.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    tops = {name.partition("/")[0] for name in names}
    stem = "-".join(wheel.name.split("-")[:2])
    # One name to import; the .pth file is what makes TILEIRAS_CUTILE work in every interpreter of the environment.
    assert tops == {"tileiras", "tileiras_cutile.pth", f"{stem}.dist-info", f"{stem}.data"}
    # Files that others edit while the wheel is built may come or go; nothing that is there for long may be missing.
    missing = {name for name in source_files() if name not in names}
    assert not missing
    assert {f"{stem}.data/scripts/{command}" for command in COMMANDS} <= names
    for place in (
        "man/man1/{}.1",
        "bash-completion/completions/{}",
        "zsh/site-functions/_{}",
        "fish/vendor_completions.d/{}.fish",
    ):
        assert {f"{stem}.data/data/share/{place.format(command)}" for command in COMMANDS} <= names
    assert not [name for name in names if "__pycache__" in name or "/tests/" in name]


@pytest.mark.full
def test_the_variable_takes_effect_when_an_interpreter_starts(installed: Path) -> None:
    show = "import sys; print('tileiras.run.cutile' in sys.modules)"
    python = installed / "python3"
    assert run(python, "-c", show, env=clean(TILEIRAS_CUTILE="reference")).strip() == "True"
    assert run(python, "-c", show, env=clean()).strip() == "False"


def test_one_source_of_the_version(wheel: Path, installed: Path) -> None:
    from tileiras.version import __version__

    assert wheel.name.split("-")[1] == __version__
    assert __version__ in run(installed / "tileiras", "--version")
    assert __version__ in run(installed / "tileiras-config", "--version")


def test_a_script_of_the_wheel_names_no_interpreter(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if "/scripts/" in name:
                assert archive.read(name).startswith(b"#!/bin/sh\n"), name


@pytest.mark.parametrize("kind", ["installed", "editable"])
def test_commands_start_through_links_and_without_path(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    bin_dir = request.getfixturevalue(kind)
    link = tmp_path / "a link"
    link.symlink_to(bin_dir / "tileiras")
    again = tmp_path / "again"
    again.symlink_to("a link")  # a relative link to a link
    direct = run(bin_dir / "tileiras", "--version").splitlines()[
        :3
    ]  # the fourth names the ptxas that PATH leads to
    for argv, env in (
        ((link, "--version"), clean()),
        ((again, "--version"), clean(PATH="")),
        (("/bin/sh", "-c", "again --version"), clean(PATH=f"{tmp_path}:/nonexistent")),
        (
            (bin_dir / "tileiras", "--version"),
            clean(PATH="/nonexistent", PYTHONPATH="/nonexistent", PYTHONHOME="/x"),
        ),
    ):
        assert run(*argv, env=env, cwd=Path("/")).splitlines()[:3] == direct


@pytest.mark.parametrize("kind", ["installed", "editable"])
def test_the_mapped_folders_import_and_data_files_are_found(
    kind: str, request: pytest.FixtureRequest
) -> None:
    python = request.getfixturevalue(kind) / "python3"
    out = run(python, "-c", "import tileiras.setuptools_ext, tileiras.nvcc_shim, tileiras.bazel; "
                            "from tileiras.cmake_dir import cmake_dir; print(cmake_dir())", cwd=Path("/"))  # fmt: skip
    assert (Path(out.strip()) / "TileirasConfig.cmake").exists()
    path = run(python, "-c", "import sys; print(*sys.path, sep='\\n')", cwd=Path("/")).splitlines()
    assert str(REPOSITORY.parent) not in path, (
        "an editable installation opens the checkout at most, not what is around it"
    )
    if kind == "installed":
        assert not {p.name for p in Path(path[-1]).iterdir()} & {
            "cmake",
            "bazel",
            "setuptools_ext",
            "nvcc_shim",
            "scripts",
        }


def test_exit_codes_reach_the_caller(installed: Path) -> None:
    done = subprocess.run(
        [installed / "tileiras", "--no-such-flag"], env=clean(), capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr and done.stderr


def test_commands_of_a_target_installation(wheel: Path, tmp_path: Path) -> None:
    target = tmp_path / "a target"
    run(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", target, wheel)
    # No interpreter lies beside these scripts; any Python from 3.10 on will do.
    env = clean(PATH=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    assert run(target / "bin" / "tileiras", "--version", env=env)


def test_cmake_finds_an_active_environment_without_a_hint(installed: Path, tmp_path: Path) -> None:
    from cmake_project import find_cmake

    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.20)\nproject(x LANGUAGES NONE)\nfind_package(Tileiras 0.1 REQUIRED)\n"
        'message(STATUS "found ${Tileiras_EXECUTABLE}")\n'
    )
    path = f"{installed}{os.pathsep}{os.environ['PATH']}"
    make = ["-G", "Unix Makefiles"]
    out = run(find_cmake(), *make, "-S", tmp_path, "-B", tmp_path / "b", env=clean(PATH=path))
    assert f"found {installed / 'tileiras'}" in out
    hint = f"-DCMAKE_PREFIX_PATH={next(installed.parent.glob('lib/python3*/site-packages'))}"
    out = run(find_cmake(), *make, hint, "-S", tmp_path, "-B", tmp_path / "c")
    assert f"found {installed / 'tileiras'}" in out


def test_a_version_that_is_not_there_is_refused(installed: Path, tmp_path: Path) -> None:
    from cmake_project import find_cmake

    verdicts = {"0.1": True, "0.1.0...<0.2": True, "0.2": False, "1": False, "99.1": False}
    for number, (wanted, good) in enumerate(verdicts.items()):
        (tmp_path / "CMakeLists.txt").write_text(
            f"cmake_minimum_required(VERSION 3.20)\nproject(x LANGUAGES NONE)\nfind_package(Tileiras {wanted} REQUIRED)\n"
        )
        argv = [find_cmake(), "-G", "Unix Makefiles", "-S", tmp_path, "-B", tmp_path / f"b{number}"]
        env = clean(PATH=f"{installed}{os.pathsep}{os.environ['PATH']}")
        assert (subprocess.run(argv, env=env, capture_output=True).returncode == 0) == good, wanted


@pytest.mark.full
def test_the_sdist_makes_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    pytest.importorskip("build")
    run(sys.executable, "-m", "build", "--sdist", "--outdir", tmp_path, REPOSITORY)
    archive = next(tmp_path.glob("*.tar.gz"))
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", tmp_path, archive)
    with zipfile.ZipFile(wheel) as first, zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as second:
        assert set(first.namelist()) == set(second.namelist())


@pytest.mark.full
def test_the_toolkit_extra_installs_beside_cuda_tile(wheel: Path, tmp_path: Path) -> None:
    home = tmp_path / "env"
    run(sys.executable, "-m", "venv", home)
    report = run(home / "bin" / "python3", "-m", "pip", "install", "--dry-run", "--quiet", "--report", "-",
                 f"tileiras[toolkit,run] @ {wheel.as_uri()}", "cuda-tile[tileiras]")  # fmt: skip
    releases = set(
        re.findall(r'"name": "nvidia-(?:cuda-nvcc|cuda-tileiras|nvvm)",\s*"version": "(\d+\.\d+)', report)
    )
    assert len(releases) == 1, releases


def test_readme_commands_are_the_first_code_blocks() -> None:
    blocks = re.findall(r"^```\w*\n(.*?)^```", (REPOSITORY / "README.md").read_text(), re.S | re.M)
    assert len(blocks) >= 2
    for block in blocks[:2]:
        words = block.split()
        assert block.count("\n") == 1 and words[0] == "python3"
        assert (REPOSITORY / words[1]).exists()
    assert Path(blocks[1].split()[1]).name in (REPOSITORY / ".ci" / "run").read_text()
