"""Makes virtual environments below the checkout, also on machines whose `venv` module is half installed.

Debian and Ubuntu split `ensurepip` out of Python, so `python3 -m venv` fails there half way unless `python3-venv` is
installed. This file then builds the environment without pip and puts pip in with whatever the machine has: a pip of
the running interpreter, or `virtualenv`, or `uv`. When nothing is left it says what to install, in one line.
Used by scripts/run_examples.py, scripts/run_tests.py and tests/peers.py, which therefore need only the standard library.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PYTHON_MIN = (3, 10)
REPOSITORY = Path(__file__).resolve().parent.parent


class SetupError(Exception):
    """A step of the set-up failed; the text says which, and what the user can do."""


def require_python() -> None:
    """Returns nothing; stops when the running interpreter is too old to install the package."""
    if sys.version_info < PYTHON_MIN:
        raise SetupError(
            f"Python {PYTHON_MIN[0]}.{PYTHON_MIN[1]} or newer is needed, this is {sys.version.split()[0]} "
            f"({sys.executable})"
        )


def cache_root() -> Path:
    """Returns the folder for everything that set-up creates: `.cache` of the checkout, ignored by git."""
    return REPOSITORY / ".cache"


def clean_environ(**extra: str) -> dict[str, str]:
    """Returns this process's environment without the variables that point Python at somebody else's packages."""
    drop = (
        "PYTHONPATH",
        "PYTHONHOME",
        "VIRTUAL_ENV",
        "PIP_USER",
        "PIP_TARGET",
        "PIP_PREFIX",
        "PIP_REQUIRE_VIRTUALENV",
    )
    env = {k: v for k, v in os.environ.items() if k not in drop}
    env.update(PIP_DISABLE_PIP_VERSION_CHECK="1", **extra)
    return env


def run(
    argv: Sequence[str | os.PathLike[str]],
    what: str,
    env: dict[str, str] | None = None,
    timeout_s: float | None = None,
) -> None:
    """Returns when the command has succeeded; its output goes to the user's terminal.

    A command told to be quiet may take minutes: a terminal then shows what is being done, and for how long already.
    """
    if str(REPOSITORY) not in sys.path:
        sys.path.append(str(REPOSITORY))
    from tileiras.progress import watched

    try:
        with watched(what) if "--quiet" in argv else contextlib.nullcontext():
            code = subprocess.call(
                [os.fspath(a) for a in argv],
                env=env if env is not None else clean_environ(),
                stdin=subprocess.DEVNULL,
                timeout=timeout_s,
            )
    except subprocess.TimeoutExpired:
        raise SetupError(f"{what} took more than {timeout_s:g} s: {' '.join(map(str, argv))}") from None
    if code:
        raise SetupError(f"{what} failed with exit code {code}: {' '.join(map(str, argv))}")


def venv_python(directory: Path) -> Path:
    """Returns the path of the environment's interpreter, whether or not it exists yet."""
    return directory / "bin" / "python3"


def _has_pip(python: Path) -> bool:
    if not python.exists():
        return False
    probe = subprocess.run([python, "-I", "-m", "pip", "--version"], capture_output=True, env=clean_environ())
    return probe.returncode == 0


def create_venv(directory: Path) -> Path:
    """Returns the interpreter of a virtual environment that has pip; an environment that already works is kept.

    An environment made by another interpreter version, or moved from another path, is made anew: its scripts would
    start the wrong Python.
    """
    require_python()
    python = venv_python(directory)
    stamp = directory / ".made-by"
    identity = f"{sys.version_info[0]}.{sys.version_info[1]} {sys.base_prefix} {directory}\n"
    if _has_pip(python) and (not stamp.exists() or stamp.read_text() == identity):
        return python
    if directory.is_symlink():
        raise SetupError(f"{directory} is a link to an environment that does not work; remove or repair it")
    if directory.exists():
        shutil.rmtree(directory)
    directory.parent.mkdir(parents=True, exist_ok=True)
    tried = []
    for name, attempt in (
        ("python3 -m venv", _by_venv),
        ("pip --target", _by_pip_target),
        ("virtualenv", _by_virtualenv),
        ("uv", _by_uv),
    ):
        problem = attempt(directory)
        if not problem and _has_pip(python):
            stamp.write_text(identity)
            return python
        tried.append(f"  {name}: {problem or 'made no environment with pip'}")
        shutil.rmtree(directory, ignore_errors=True)
    raise SetupError(
        "cannot make a virtual environment. On Debian and Ubuntu: apt install python3-venv; elsewhere install "
        "virtualenv or uv.\n" + "\n".join(tried)
    )


def _attempt(argv: Sequence[str | os.PathLike[str]]) -> str:
    """Returns an empty string, or the last line that the failing command printed."""
    try:
        done = subprocess.run(
            [os.fspath(a) for a in argv], capture_output=True, text=True, env=clean_environ()
        )
    except OSError as error:
        return str(error)
    if done.returncode == 0:
        return ""
    lines = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
    return lines[-1].strip() if lines else f"exit code {done.returncode}"


def _by_venv(directory: Path) -> str:
    try:
        import ensurepip  # noqa: F401  (absent on Debian without python3-venv; venv would leave half an environment)
        import venv  # noqa: F401
    except ImportError as error:
        return str(error)
    return _attempt([sys.executable, "-I", "-m", "venv", directory])


def _by_pip_target(directory: Path) -> str:
    problem = _attempt([sys.executable, "-I", "-m", "venv", "--without-pip", directory])
    if problem:
        return problem
    libraries = list((directory / "lib").glob("python3.*/site-packages"))
    if not libraries:
        return "no site-packages folder in the new environment"
    return _attempt([sys.executable, "-m", "pip", "install", "--quiet", "--target", libraries[0], "pip"])


def _by_virtualenv(directory: Path) -> str:
    return _attempt([sys.executable, "-m", "virtualenv", "--python", sys.executable, directory])


def _by_uv(directory: Path) -> str:
    uv = shutil.which("uv")
    return _attempt([uv, "venv", "--seed", "--python", sys.executable, directory]) if uv else "no uv on PATH"


def digest_of(*parts: str | os.PathLike[str]) -> str:
    """Returns a fingerprint of strings and of the files that the paths name: equal input, nothing to do again."""
    h = hashlib.sha256()
    for part in parts:
        h.update(Path(part).read_bytes() if isinstance(part, os.PathLike) else str(part).encode())
        h.update(b"\0")
    return h.hexdigest()


def share_equal_files(*folders: Path) -> int:
    """Returns how many bytes were saved by making equal files of these folders one file with several names.

    Two environments with the same wheels then take the room of one; small files count, because each takes a block. pip
    replaces files by new ones and never writes into them, so an update of one environment leaves the other as it is.
    """
    by_size: dict[tuple[int, int, int], list[str]] = {}
    for folder in folders:
        for place, _, names in os.walk(folder):
            for name in names:
                path = os.path.join(place, name)
                found = os.lstat(path)
                if stat.S_ISREG(found.st_mode) and found.st_size:
                    by_size.setdefault((found.st_size, found.st_mode, found.st_dev), []).append(path)
    saved = 0
    for (size, _, _), paths in by_size.items():
        first: dict[str, str] = {}
        for path in paths if len(paths) > 1 else ():
            kept = first.setdefault(digest_of(Path(path)), path)
            if os.path.samefile(kept, path):
                continue
            partial = path + ".shared"
            try:
                os.link(kept, partial)
                os.replace(partial, path)
            except OSError:  # a file system without links
                return saved
            saved += size
    return saved


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Holds a lock on `path`, so that two set-ups in one checkout take turns; the kernel drops it on any death."""
    import fcntl

    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a", encoding="ascii") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
