"""Finds NVIDIA's published tools that the tests compare with, and installs them: `python tests/peers.py install`.

Peers are test dependencies only. They live in one folder: $TILEIRAS_PEERS, else `.cache/peers` of the checkout. In it
`v134` is a virtual environment with the 13.4.92 tools, cuTile Python and the test tools; every other release is a
plain tree of wheels (`pip install --target`), because releases cannot share an environment. Versions are pinned; an
interrupted installation goes on where it stopped; a complete one costs a few milliseconds. Room matters: the quick tier
(QUICK) does without releases and wheels that only marked tests use, and nothing keeps tools that no test calls.

A test that needs a peer calls `require("tileirdisasm", "13.5")` and is skipped, naming that peer, where it is absent.
TILEIRAS_REQUIRE_PEERS=1 (set by .ci/run) turns such a skip into a failure.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "scripts"))
from environment import (
    SetupError,
    cache_root,
    clean_environ,
    create_venv,
    digest_of,
    locked,
    run,
    venv_python,
)

MAIN_RELEASE = "13.4"


def _nvidia(version: str, *names: str, **others: str) -> tuple[str, ...]:
    """Returns pinned requirements for NVIDIA's wheels; `others` are names whose patch version differs."""
    pins = dict.fromkeys(names, version) | others
    prefix = {"nvvm": "nvidia-nvvm"}
    return tuple(f"{prefix.get(name, 'nvidia-cuda-' + name)}=={pin}" for name, pin in pins.items())


TOOLS = ("tileiras", "nvcc", "nvvm", "crt", "runtime", "nvdisasm", "cuobjdump")

# release -> (folder, requirements)
TREES: dict[str, tuple[str, tuple[str, ...]]] = {
    "13.1": ("t13.1.115", _nvidia("13.1.115", "nvcc", "nvvm", "crt", runtime="13.1.80", tileiras="13.1.80")),
    "13.2": ("t13.2", _nvidia("13.2.86", "tileiras")),
    "13.3": ("t13.3", _nvidia("13.3.36", "tileiras")),
    "13.5": ("t13.5.37", _nvidia("13.5.37", *TOOLS)),
}
# What the quick tier has of them; the tests that need more are marked full.
QUICK: dict[str, tuple[str, ...]] = {
    "13.1": _nvidia("13.1.115", "nvcc"),
    "13.5": _nvidia("13.5.37", "nvcc", "tileiras", "nvdisasm", "cuobjdump"),
}
# Files that are removed after an installation. NVIDIA's assembler does not load the JIT linker, and no unmarked test
# compiles CUDA C++ with another release than the main one, or Tile IR with NVIDIA's assembler of another one.
UNUSED = ("nvidia/cu13/lib/libnvJitLink.so.*", "cmake/data/bin/cpack")
UNUSED_OF = {
    "cmake-3.25": ("cmake/data/bin/ctest", "cmake/data/doc", "cmake/data/man"),
    "cutlass": ("nvidia/cu13/lib/libcurand.so.*",),
}
UNUSED_QUICK = {
    "13.1": ("nvidia/cu13/bin/nvlink", "nvidia/cu13/bin/cudafe++"),
    "13.5": tuple(f"nvidia/cu13/bin/{name}" for name in ("nvlink", "cudafe++", "nvcc", "tileiras")),
}
# Build tools of the oldest version that is tested: name -> (folder, requirements)
BUILD_TOOLS: dict[str, tuple[str, tuple[str, ...]]] = {"cmake-3.25": ("cmake325", ("cmake==3.25.2",))}
# Sources of experts' kernels, with the headers that they need: what the full tier compiles for the emulator.
HEADERS: dict[str, tuple[str, tuple[str, ...]]] = {
    # of cuRAND the headers: examples of CUTLASS fill their matrices by it
    "cutlass": (
        "cutlass",
        ("nvidia-cutlass==4.2.0.0", "nvidia-cuda-cccl==13.3.5.0.6", "nvidia-curand==10.4.5.25"),
    ),
}
# Another compiler of kernels, which the emulator is tried on. It is a gigabyte, so it comes only where it is asked for by name.
TRITON: dict[str, tuple[str, tuple[str, ...]]] = {"triton": ("triton", ("triton==3.9.0",))}
# Optional: tools of other registries, brought where that can be done quietly; their tests are skipped without them.
BUILDIFIER = ("buildifier", "@bazel/buildifier@8.2.1")  # folder, npm's name
# The generator of the site from docs/, in an environment of its own: only the full tier builds the site.
DOCS = ("docs", ("mkdocs-material==9.8.*", "mkdocstrings[python]==1.0.*"))  # folder, requirements
OPTIONAL_LIMIT_S = 240.0  # a registry that does not answer must not hold up the tests
DEBIAN = {  # program -> packages; Bazel is 4.2.3
    "bazel": ("bazel-bootstrap",),
    "chromedriver": ("chromium", "chromium-driver"),
}
VENV = "v134"
VENV_REQUIREMENTS = (
    "cuda-tile==1.7.0",
    *_nvidia("13.4.92", *TOOLS),
    "numpy", "ml_dtypes", "llvmlite>=0.45", "pytest", "hypothesis", "mpmath", "ruff==0.17.*", "mypy==2.4.*", "cmake", "ninja",
    "build", "setuptools>=64", "wheel", "pytest-xdist",
)  # fmt: skip


def root() -> Path:
    """Returns the folder that holds, or will hold, the peers."""
    chosen = os.environ.get("TILEIRAS_PEERS")
    return Path(chosen).absolute() if chosen else cache_root() / "peers"


def site_packages(release: str = MAIN_RELEASE) -> Path | None:
    """Returns the import root of a release's wheels, or None when that release is not installed."""
    if release == MAIN_RELEASE:
        return next(iter(sorted((root() / VENV / "lib").glob("python3.*/site-packages"))), None)
    if release not in TREES:
        raise ValueError(
            f"unknown peer release {release!r}: one of {', '.join(sorted((*TREES, MAIN_RELEASE)))}"
        )
    tree = root() / TREES[release][0]
    return tree if tree.is_dir() else None


def toolkit(release: str = MAIN_RELEASE) -> Path | None:
    """Returns the toolkit root (with bin/, nvvm/, include/) of a release, or None."""
    site = site_packages(release)
    home = site / "nvidia" / "cu13" if site else None
    return home if home and (home / "bin").is_dir() else None


def tool(name: str, release: str = MAIN_RELEASE) -> Path | None:
    """Returns the path of an NVIDIA tool (`ptxas`, `tileiras`, `nvcc`, ...) of a release, or None."""
    home = toolkit(release)
    path = home / "bin" / name if home else None
    return path if path and os.access(path, os.X_OK) else None


def python(release: str = MAIN_RELEASE) -> Path | None:
    """Returns the interpreter that has cuTile Python of a release (only 13.4 has one), or None."""
    path = venv_python(root() / VENV) if release == MAIN_RELEASE else None
    return path if path and path.exists() else None


def cmake(version: str) -> Path | None:
    """Returns a pinned old CMake (`3.25`), or None."""
    row = BUILD_TOOLS.get(f"cmake-{version}")
    path = root() / row[0] / "cmake" / "data" / "bin" / "cmake" if row else None
    return path if path and os.access(path, os.X_OK) else None


def cutlass() -> Path:
    """Returns the tree with CUTLASS's sources and CCCL's headers, else skips the calling test."""
    path = root() / HEADERS["cutlass"][0]
    if not (path / "cutlass_library" / "source").is_dir():
        missing("cutlass")
    return path


def triton() -> Path:
    """Returns the tree with Triton, else skips the calling test."""
    path = root() / TRITON["triton"][0]
    if not (path / "triton").is_dir():
        missing("triton")
    return path


def mkdocs() -> Path:
    """Returns the generator of the site, else skips the calling test."""
    path = root() / DOCS[0] / "bin" / "mkdocs"
    if not os.access(path, os.X_OK):
        missing("mkdocs")
    return path


def buildifier() -> Path | None:
    """Returns the formatter of Starlark files, from PATH or of the peers, or None."""
    found = shutil.which("buildifier")
    path = Path(found) if found else root() / BUILDIFIER[0] / "node_modules" / ".bin" / "buildifier"
    return path if os.access(path, os.X_OK) and (found or shutil.which("node")) else None


# Tools that `install` does not bring, because of their size: a test that wants one may always be skipped.
OPTIONAL = ("torch", "mkdocs", "triton")


def missing(what: str) -> None:
    """Skips the calling test because `what` is absent; fails it instead when TILEIRAS_REQUIRE_PEERS is set."""
    import pytest

    text = f"peer not installed: {what} (python tests/peers.py install)"
    if what not in OPTIONAL and os.environ.get("TILEIRAS_REQUIRE_PEERS", "0") not in ("", "0"):
        pytest.fail(text, pytrace=False)
    pytest.skip(text)


def require(name: str, release: str = MAIN_RELEASE) -> Path:
    """Returns the path of a tool; the calling test is skipped, naming the tool and release, when it is absent."""
    path = tool(name, release)
    if path is None:
        missing(f"{name} {release}")
    assert path is not None
    return path


def require_toolkit(release: str = MAIN_RELEASE) -> Path:
    """Returns the toolkit root of a release, else skips the calling test."""
    path = toolkit(release)
    if path is None:
        missing(f"CUDA toolkit {release}")
    assert path is not None
    return path


def require_python(release: str = MAIN_RELEASE) -> Path:
    """Returns the interpreter that imports `cuda.tile`, else skips the calling test."""
    path = python(release)
    if path is None:
        missing(f"cuda-tile for {release}")
    assert path is not None
    return path


def _complete(folder: Path, requirements: tuple[str, ...]) -> bool:
    stamp = folder.with_name(folder.name + ".complete")
    return folder.is_dir() and stamp.exists() and stamp.read_text() == digest_of(*requirements)


def _mark(folder: Path, requirements: tuple[str, ...]) -> None:
    folder.with_name(folder.name + ".complete").write_text(digest_of(*requirements))


def _install_venv(home: Path) -> None:
    folder = home / VENV
    if _complete(folder, VENV_REQUIREMENTS) and python() is not None:
        return
    print(f"peers: {MAIN_RELEASE} and cuTile Python -> {folder}", flush=True)
    interpreter = create_venv(folder)
    words = ["install", "--quiet", "--no-compile", *VENV_REQUIREMENTS]  # what is imported is compiled then
    run([interpreter, "-m", "pip", *words], "installing the 13.4 peers")
    for site in (folder / "lib").glob("python3.*/site-packages"):
        _remove(site, UNUSED)
    _mark(folder, VENV_REQUIREMENTS)


def _remove(site: Path, patterns: tuple[str, ...]) -> None:
    for pattern in patterns:
        for path in site.glob(pattern):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()


def _install_tree(home: Path, release: str, quick: bool) -> None:
    name, requirements = (TREES | BUILD_TOOLS | HEADERS | TRITON)[release]
    folder = home / name
    if _complete(folder, requirements):
        return
    if quick:
        requirements = QUICK.get(release, requirements)
        if _complete(folder, requirements):
            return
    print(f"peers: {release} -> {folder}", flush=True)
    partial = folder.with_name(name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    interpreter = python() or create_venv(home / VENV)
    run(
        [
            interpreter,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-compile",
            "--no-deps",
            "--target",
            partial,
            *requirements,
        ],
        f"installing the {release} peers",
    )
    _remove(partial, (*UNUSED, *UNUSED_OF.get(release, ())))
    if quick:
        _remove(partial, UNUSED_QUICK.get(release, ()))
    shutil.rmtree(folder, ignore_errors=True)
    partial.rename(folder)
    _mark(folder, requirements)


def _install_docs(home: Path) -> None:
    name, requirements = DOCS
    folder = home / name
    if _complete(folder, requirements):
        return
    print(f"peers: mkdocs -> {folder}", flush=True)
    words = ["install", "--quiet", "--no-compile", *requirements]
    run([create_venv(folder), "-m", "pip", *words], "installing mkdocs")
    _mark(folder, requirements)


def _install_buildifier(home: Path) -> None:
    name, package = BUILDIFIER
    folder = home / name
    npm = shutil.which("npm")
    if _complete(folder, (package,)) or npm is None:
        return
    print(f"peers: {package} -> {folder}", flush=True)
    partial = folder.with_name(name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    words = [
        npm,
        "install",
        "--silent",
        "--no-audit",
        "--no-fund",
        "--ignore-scripts",
        "--fetch-retries=0",
        "--prefix",
        partial,
        package,
    ]
    try:
        run(words, "installing buildifier", timeout_s=OPTIONAL_LIMIT_S)
    except SetupError as error:  # no network to that registry: one test of style is skipped
        print(f"peers: {error}", file=sys.stderr)
        return
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, "")
    for path in partial.glob("node_modules/@bazel/buildifier/buildifier-*_*"):  # one for each system
        if path.name != f"buildifier-{sys.platform}_{machine}":
            path.unlink()
    shutil.rmtree(folder, ignore_errors=True)
    partial.rename(folder)
    _mark(folder, (package,))


def _install_debian(program: str) -> None:
    """A program of Debian's, on a machine of CI alone: nobody's own system gets packages from a set-up of tests."""
    apt = shutil.which("apt-get")
    packages = DEBIAN[program]
    if shutil.which(program) or apt is None or os.environ.get("CI") != "true" or os.geteuid() != 0:
        return
    print(f"peers: {' '.join(packages)} -> system", flush=True)
    env = clean_environ(DEBIAN_FRONTEND="noninteractive")
    quick = (
        "-qq",
        "-o",
        "Acquire::Retries=0",
        "-o",
        "Acquire::http::Timeout=20",
        "-o",
        "Acquire::https::Timeout=20",
    )
    try:
        run([apt, "update", *quick], "apt-get update", env, OPTIONAL_LIMIT_S)
        words = [apt, "install", "-y", *quick, "--no-install-recommends", *packages]
        run(words, f"installing {program}", env, OPTIONAL_LIMIT_S)
    except SetupError as error:
        print(f"peers: {error}", file=sys.stderr)


def install(directory: Path | None = None, releases: tuple[str, ...] = (), quick: bool = False) -> Path:
    """Returns the peers' folder after installing what is missing of `releases` (default: all, or those of the quick tier)."""
    if directory is not None:
        os.environ["TILEIRAS_PEERS"] = str(directory.absolute())
    home = root()
    trees = tuple(QUICK) if quick else (*TREES, *HEADERS)
    docs = () if quick else ("docs",)
    wanted = releases or (MAIN_RELEASE, *trees, *BUILD_TOOLS, *docs, "buildifier", *DEBIAN)
    with locked(home / ".lock"):
        for release in wanted:
            if release == MAIN_RELEASE:
                _install_venv(home)
            elif release in TREES | BUILD_TOOLS | HEADERS | TRITON:
                _install_tree(home, release, quick)
            elif release == "docs":
                _install_docs(home)
            elif release == "buildifier":
                _install_buildifier(home)
            elif release in DEBIAN:
                _install_debian(release)
            else:
                raise SetupError(
                    f"unknown release {release!r}: one of "
                    f"{', '.join((MAIN_RELEASE, *TREES, *HEADERS, *TRITON, *BUILD_TOOLS, 'docs', 'buildifier', *DEBIAN))}"
                )
    return home


def main(argv: list[str]) -> int:
    """Returns the exit code of `install [DIR] [--release R]...` or `list`."""
    import argparse

    parser = argparse.ArgumentParser(
        prog="tests/peers.py", description="NVIDIA's published tools, for tests."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    installer = commands.add_parser("install", help="install what is missing")
    installer.add_argument("directory", nargs="?", type=Path)
    installer.add_argument(
        "--release", action="append", default=[], metavar="R", help="13.1 ... 13.5; default all"
    )
    commands.add_parser("list", help="say what is installed")
    options = parser.parse_args(argv)
    if options.command == "list":
        for release in (MAIN_RELEASE, *TREES):
            home = toolkit(release)
            print(f"{release}: {home or 'not installed'}")
        print(f"buildifier: {buildifier() or 'not installed'}")
        for program in DEBIAN:
            print(f"{program}: {shutil.which(program) or 'not installed'}")
        return 0
    try:
        print(install(options.directory, tuple(options.release)))
    except SetupError as error:
        print(f"peers: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
