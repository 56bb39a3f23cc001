#!/usr/bin/env python3
"""All set-up, then the tests: `python3 scripts/run_tests.py [--full] [pytest arguments...]`.

Makes the environment of the peers (tests/peers.py: NVIDIA's published tools, cuTile Python, pytest), installs this
checkout into it as an editable package, and runs the quick tier; `--full` runs every tier. What follows is handed to
pytest, so `scripts/run_tests.py tests/unit -k layout` works. The last line is pytest's; the exit code, too.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from environment import (
    REPOSITORY,
    SetupError,
    cache_root,
    clean_environ,
    digest_of,
    locked,
    run,
    share_equal_files,
    venv_python,
)


def set_up(quick: bool) -> Path:
    """Returns the interpreter that has the package, its extras and pytest, and what the tier compares with."""
    sys.path.insert(0, str(REPOSITORY / "tests"))
    import peers

    with locked(cache_root() / "tests.lock"):
        home = peers.install(quick=quick)
        python = venv_python(home / peers.VENV)
        # An editable installation sees edits of the sources; only these files make another one necessary.
        parts = [
            REPOSITORY / "pyproject.toml",
            REPOSITORY / "CMakeLists.txt",
            REPOSITORY / "scripts" / "command.in",
        ]
        wanted = digest_of(str(REPOSITORY), *parts)
        stamp = home / f"{peers.VENV}.editable"
        if not stamp.exists() or stamp.read_text() != wanted:
            print("installing this checkout, editable", flush=True)
            run([python, "-m", "pip", "install", "--quiet", "--no-compile", "-e", f"{REPOSITORY}[run,test]", "cmake", "ninja"],
                "installing the package")  # fmt: skip
            share_equal_files(
                *sorted(path for path in home.iterdir() if path.is_dir()), cache_root() / "examples" / "venv"
            )
            stamp.write_text(wanted)
        return python


def main(argv: list[str]) -> int:
    """Returns pytest's exit code, or 1 when the set-up failed."""
    full = "--full" in argv
    arguments = [word for word in argv if word != "--full"]
    try:
        python = set_up(quick=not full)
    except SetupError as error:
        print(f"run_tests: {error}", file=sys.stderr)
        return 1
    # PATH stays as it is: with our `tileiras` on it, cuTile Python would compare us with ourselves.
    env = clean_environ()
    # With it, each command that a test starts, and each collection, would compile its modules from their sources again.
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    if "TILEIRAS_PEERS" in os.environ:
        env["TILEIRAS_PEERS"] = os.path.abspath(os.environ["TILEIRAS_PEERS"])
    tier = ["-m", "full or not full"] if full else []
    if not any(a in ("-n", "-x", "-s", "--pdb") or os.path.exists(a.split("::")[0]) for a in arguments):
        # A whole tier uses all processors; a file stays on one, so that its fixtures are made once.
        tier += ["-n", str(os.cpu_count() or 1), "--dist", "loadfile"]
    # Paths among the arguments may be relative to the caller's folder.
    arguments = [
        os.path.abspath(a) if not a.startswith("-") and os.path.exists(a.split("::")[0]) else a
        for a in arguments
    ]
    return subprocess.call([os.fspath(python), "-m", "pytest", *tier, *arguments], cwd=REPOSITORY, env=env)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
