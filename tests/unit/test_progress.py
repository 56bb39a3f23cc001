"""The line that shows long work: on a terminal and nowhere else, never in the way of other output, gone at the end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from contract.kit import NOOP, REPOSITORY

# Without the two seconds in which nothing is shown.
START = (
    f"import sys; sys.path[:0] = [{str(REPOSITORY)!r}, {str(REPOSITORY / 'scripts')!r}]\n"
    "import tileiras.progress as p; p.AFTER_S = 0\n"
)
WATCHED = """
import time
with p.watched("baking") as line:
    out = line.beside(sys.stdout) or sys.stdout
    while not line._is_shown and line.is_active: time.sleep(.01)
    out.write("half ")
    line._next = 0
    line.tell("never inside of a line")
    out.write("a line\\n")
"""
SET_UP = "import environment; environment.run([sys.executable, '-c', 'import time; time.sleep(.3)', '--quiet'], 'setting up')"
ERASE = "\r\x1b[K"


def screen(code: str, *arguments: object, **environ: str) -> str:
    """What a program writes to a terminal that is its standard output and error."""
    import pty

    ours, theirs = pty.openpty()
    env = {**os.environ, "TERM": "xterm", **environ}
    words = [sys.executable, "-c", START + code, *map(str, arguments)]
    with subprocess.Popen(words, stdout=theirs, stderr=theirs, env=env) as process:
        os.close(theirs)
        said = b""
        try:
            while part := os.read(ours, 4096):
                said += part
        except OSError:  # how a terminal ends
            pass
    os.close(ours)
    assert process.returncode == 0, said.decode()
    return said.decode().replace("\r\n", "\n")


def piped(code: str, *arguments: object) -> str:
    words = [sys.executable, "-c", START + code, *map(str, arguments)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout


def test_other_output_takes_the_place_of_the_line() -> None:
    said = screen(WATCHED)
    assert said.startswith(f"{ERASE}baking: 0 s\r")
    assert said.endswith(f"{ERASE}half a line\n") and "never" not in said


def test_nothing_where_there_is_no_terminal() -> None:
    assert piped(WATCHED) == "half a line\n"
    assert screen(WATCHED, TERM="dumb") == "half a line\n"


def test_a_launch_is_shown(tmp_path: Path) -> None:
    (tmp_path / "k.tileir").write_text(NOOP)
    code = "from tileiras.tools.run import main; sys.exit(main(sys.argv[1:]))"
    words = [tmp_path / "k.tileir", "--target", "emulator", "--quiet"]
    said = screen(code, *words)
    assert " on emulator: 0 s\r" in said and said.endswith(ERASE)
    assert piped(code, *words) == ""


@pytest.mark.parametrize("target", ["emulator", "reference"])
def test_a_launch_tells_how_many_tile_blocks_have_ended(target: str, tmp_path: Path) -> None:
    (tmp_path / "k.tileir").write_text(NOOP)
    code = (  # a line at every report instead of every second
        "import tileiras.tools.run as run; import contextlib\n"
        f"import tileiras.run.{target} as runner\n"
        "class Told:\n"
        "    is_active = True\n"
        "    beside = lambda self, stream: stream\n"
        "    def __setattr__(self, name, value): print(value, file=sys.stderr)\n"
        "p.watched = lambda text: contextlib.nullcontext(Told())\n"
        "sys.exit(run.main(sys.argv[1:]))"
    )
    words = [tmp_path / "k.tileir", "--target", target, "--quiet", "--grid", "70,20"]
    said = screen(code, *words).split("\n")
    assert said[0] == "0 of 1400 tile blocks, " and said[-2] == "1400 of 1400 tile blocks, " and len(said) > 3


def test_a_batch_names_the_kernel_at_work(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.tileir").write_text(NOOP)
    code = "p.EVERY_S = 0; from tileiras.tools.build import main; sys.exit(main(sys.argv[1:]))"
    words = ["kernels", "--folder", tmp_path, "--arch", "compute_90", "--launch-abi=simt"]
    words += [tmp_path / "a.tileir", "a", "a", tmp_path / "b.tileir", "b", "b"]
    said = screen(code, *words)
    assert f"kernel 2 of 2: {tmp_path}"[:40] in said and said.endswith(ERASE)
    assert piped(code, *words) == ""


def test_set_up_is_shown() -> None:
    said = screen(SET_UP)
    assert said.startswith(f"{ERASE}setting up: 0 s\r") and said.endswith(ERASE)
    assert piped(SET_UP) == ""
