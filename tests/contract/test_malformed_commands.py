"""Hostile surroundings of the command: bad option values, streams that are closed or full, no room, signals.

Each ends with the exit code of its cause, a message, no traceback, and no output.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import peers
import pytest
from contract.kit import BAD_EXTI, NOOP, REPOSITORY, Result, command, run, stub_ptxas
from processes import holds_a_leash

SHELL = f'tileiras() {{ {shlex.quote(sys.executable)} -m tileiras "$@"; }}\n'
IMAGE = "printf '\\177ELF image'"


def shell(folder: Path, words: str, source: str = NOOP) -> Result:
    """The command as a shell starts it, with redirections and limits; k.cubin is stale before."""
    (folder / "k.tileir").write_text(source)
    (folder / "k.cubin").write_bytes(b"old")
    return run(["sh", "-c", SHELL + words], folder)


def left(folder: Path) -> list[str]:
    """What lies there beside the input and the tool."""
    return sorted(path.name for path in folder.iterdir() if path.name not in ("k.tileir", "bin"))


VALUES = [
    ("--opt-level=", 1), ("--opt-level=x", 1), ("--opt-level=1.0", 1), ("--opt-level= 3", 1), ("--opt-level=+3", 1),
    ("--opt-level=1_0", 1), ("--opt-level=\u0663", 1), ("--opt-level=08", 1), ("--opt-level=2147483648", 1),
    ("--opt-level=2147483647", 2), ("--opt-level=0x4", 2), ("--opt-level=010", 2), ("-O", 1), ("-Ox", 1),
    ("--emit=", 2), ("--emit=sass", 2), ("--remarks=some", 2), ("--remarks-missed=", 2), ("--remark-format=xml", 2),
    ("--color=pink", 2), ("--ptxas=", 2), ("--toolkit-root=", 2), ("--depfile-target=", 2), ("--report=", 2), ("--report=x", 1),
    ("--lineinfo=maybe", 1), ("--preview=x", 1), ("-lfoo", 1), ("---x", 1), ("--serve", 1), ("-", 1),
    ("--gpu-name=", 2), ("--host-os=", 2), ("--host-arch=arm", 2), ("--sanitize=racecheck", 2), ("--launch-abi=", 2),
    ("--depfile=", 2), ("--depfile=missing/d", 2), ("--ptx-output=.", 2), ("--kernels-json=new/", 2),
    ("--ptxas-options=--no-such-option", 5), ("--ptxas=missing", 2), ("--ptxas=.", 2),
]  # fmt: skip


@pytest.mark.parametrize(("flag", "code"), VALUES)
def test_a_bad_value(flag: str, code: int, tmp_path: Path) -> None:
    ptxas = stub_ptxas(
        tmp_path, f'for word in "$@"; do [ "$word" = --no-such-option ] && exit 255; done; {IMAGE}'
    )
    (tmp_path / "k.cubin").write_bytes(b"old")
    done = command(tmp_path, NOOP, f"--ptxas={ptxas}", flag)
    assert done.status == code and done.err and "Traceback" not in done.err and "internal" not in done.err
    written = flag in ("--depfile=missing/d", "--ptx-output=.")  # seen when the outputs are prepared
    assert left(tmp_path) == (["k.cubin"] if code in (1, 2) and not written else []), (
        "nothing is touched before the input was read"
    )


@pytest.mark.parametrize("kind", ["", "-passed", "-missed", "-failed", "-analysis"])
def test_a_category_of_remarks_is_refused_by_its_flag(kind: str, tmp_path: Path) -> None:
    done = command(tmp_path, NOOP, f"--remarks{kind}=some")
    assert done.err == f"tileiras: for the --remarks{kind} option: Cannot find option named 'some'!\n"


@pytest.mark.parametrize("level", ["0", "3", "0x1", "0b10", "03"])
def test_levels_as_llvm_reads_them(level: str, tmp_path: Path) -> None:
    ptxas = stub_ptxas(tmp_path, IMAGE)
    assert command(tmp_path, NOOP, f"--ptxas={ptxas}", f"--opt-level={level}").status == 0


def test_a_usage_error_keeps_what_may_be_the_input(tmp_path: Path) -> None:
    """`-o` without its value took the only file of the line."""
    source = tmp_path / "k.tileir"
    source.write_text(NOOP)
    done = run([sys.executable, "-m", "tileiras", "--gpu-name=sm_90", "-o", "k.tileir"], tmp_path)
    assert done.status == 1 and source.read_text() == NOOP


INPUTS = [("missing", "No such file or directory"), (".", "Is a directory"), ("", "No such file or directory"),
          ("a" * 300, "File name too long"), ("k.tileir/x", "Not a directory")]  # fmt: skip


@pytest.mark.parametrize(("name", "why"), INPUTS)
def test_an_input_that_cannot_be_read(name: str, why: str, tmp_path: Path) -> None:
    done = shell(tmp_path, f"tileiras --gpu-name=sm_90 {shlex.quote(name)} -o k.cubin")
    assert done.status == 1 and done.err == f"error: unable to read input file '{name}': {why}\n"
    assert left(tmp_path) == ["k.cubin"], "a mistyped name costs nothing"


@pytest.mark.parametrize("source", ["/dev/null", "empty"])
def test_an_empty_input(source: str, tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    done = shell(tmp_path, f"tileiras --gpu-name=sm_90 {source} -o k.cubin")
    assert done.status == 3 and done.lines() == [
        f"{source}: error: invalid magic number at position 0",
        f"{source}: error: input does not correspond to Tile IR bytecode",
    ]
    assert left(tmp_path) == ["empty"]


def test_input_from_a_pipe(tmp_path: Path) -> None:
    done = shell(tmp_path, "cat k.tileir | (tileiras --emit=ptx /dev/stdin -o k.cubin)")
    assert done.status == 0 and b".entry noop" in (tmp_path / "k.cubin").read_bytes()
    assert shell(tmp_path, "tileiras --emit=ptx - -o k.cubin < k.tileir").status == 1, (
        "- names a file, as in NVIDIA's"
    )


STREAMS = ["2>&-", "2>/dev/full", "<&- >&- 2>&-", "2>&1 | true"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("streams", STREAMS)
def test_nobody_reads_the_errors(streams: str, tmp_path: Path) -> None:
    """The code does not depend on whether the message can be written."""
    for source, flag, code in (
        (BAD_EXTI, "", 5),
        (NOOP, "", 0),
        (NOOP, "--bad", 1),
        (NOOP, "--gpu-name=x", 2),
    ):
        shell(
            tmp_path, f"(tileiras --emit=ptx k.tileir -o k.cubin {flag}; echo $? > status) {streams}", source
        )
        assert (tmp_path / "status").read_text() == f"{code}\n"
        assert left(tmp_path) == (["status"] if code == 5 else ["k.cubin", "status"])


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("words", ["--help", "--version", "--list-versions", "--emit=ptx k.tileir -o -"])
def test_standard_output_that_takes_nothing(words: str, tmp_path: Path) -> None:
    for stream in (">/dev/full", ">&-"):
        done = shell(tmp_path, f"tileiras {words} {stream}")
        assert done.status == 2 and len(done.lines()) == 1 and done.err.startswith("error: unable to write")
    assert shell(tmp_path, f"tileiras {words}").status == 0


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("words", ["build --help", "build compile --help", "config --json", "translate --help", "opt --help",
                                   "reduce --help", "report --help", "disasm --help", "run --help", "run --version",
                                   "cutile --help", "cutile --version"])  # fmt: skip
def test_standard_output_of_the_other_commands_that_takes_nothing(words: str, tmp_path: Path) -> None:
    tool, _, rest = words.partition(" ")
    line = f"{shlex.quote(sys.executable)} -m tileiras.tools.{tool} {rest}"
    for stream, why in ((">/dev/full", "No space left on device"), (">&-", "it is closed")):
        done = shell(tmp_path, f"{line} {stream}")
        assert done.status == 2 and done.err.startswith(f"error: unable to write output file '-': {why}\n"), (
            done.err
        )
    assert shell(tmp_path, f"{line} | true").status == 0 and shell(tmp_path, line).status == 0


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_the_shims_own_version_that_nobody_can_read(tmp_path: Path) -> None:
    line = f"{shlex.quote(sys.executable)} -m tileiras.nvcc_shim.main --tileiras-version"
    for stream, why in ((">/dev/full", "No space left on device"), (">&-", "it is closed")):
        done = shell(tmp_path, f"{line} {stream}")
        assert (done.status, done.err) == (2, f"error: unable to write output file '-': {why}\n")
    assert shell(tmp_path, line).out.startswith("tileiras-nvcc ")


LONG = "7" * 4999
TOOL_LINES = [
    "run k.tileir --seed={}", "run k.tileir --seed=-{}", "run k.tileir --rtol={}", "run k.tileir --target={}",
    "run k.tileir --entry={}", "run k.tileir --{}", "run k.tileir --show={}", "run k.tileir --arg=zeros:{}:4",
    "run k.tileir --color={}", "cutile --target {} k.py", "cutile {}", "reduce k.tileir --jobs={} -- true", "report {}",
    "config {}", "opt k.tileir --pass={}", "opt k.tileir -O{}", "translate k.tileir --to={}", "build {}",
    "build compile k.tileir --{}",
    "build compile k.tileir --arch=sm_90 --ptx=o --opt-level={}", "build compile k.tileir --arch=sm_90 -o o --max-registers={}",
]  # fmt: skip


@pytest.mark.parametrize("words", TOOL_LINES)
def test_a_message_does_not_repeat_thousands_of_characters(words: str, tmp_path: Path) -> None:
    """Of this package's own commands: what `tileiras` says of its words is a contract."""
    tool, _, rest = words.partition(" ")
    done = shell(tmp_path, f"{shlex.quote(sys.executable)} -m tileiras.tools.{tool} {rest.format(LONG)}")
    assert done.status in (1, 2) and "Traceback" not in done.err and "7777... (" in done.err.splitlines()[0]
    assert len(done.err.splitlines()[0]) < 500, done.err[:600]


def test_no_room(tmp_path: Path) -> None:
    """A limit on files is a full disk: PTX cannot be handed on, or the output not written."""
    ptxas = stub_ptxas(tmp_path, IMAGE)
    done = shell(
        tmp_path, f"ulimit -f 0; tileiras {shlex.quote(f'--ptxas={ptxas}')} k.tileir -o k.cubin 2>&1 | cat; :"
    )
    assert "ptxas" in done.out and "File too large" in done.out and left(tmp_path) == []
    done = shell(tmp_path, "ulimit -f 0; tileiras --emit=ptx k.tileir -o k.cubin")
    assert done.status == 2 and "'k.cubin': File too large" in done.err and left(tmp_path) == []
    assert shell(tmp_path, f"tileiras {shlex.quote(f'--ptxas={ptxas}')} k.tileir -o k.cubin").status == 0


def test_the_longest_name(tmp_path: Path) -> None:
    name = "k" * 249 + ".cubin"
    assert shell(tmp_path, f"tileiras --emit=ptx k.tileir -o {name}").status == 0
    assert left(tmp_path) == ["k.cubin", name]
    done = shell(tmp_path, f"tileiras --emit=ptx k.tileir -o {name}x")
    assert (
        done.status == 2
        and f"'{name}x': File name too long" in done.err
        and left(tmp_path) == ["k.cubin", name]
    )


def test_a_folder_that_was_removed(tmp_path: Path) -> None:
    gone = "mkdir gone; cd gone; rmdir ../gone; "
    done = shell(
        tmp_path, f"{gone} tileiras --emit=ptx {shlex.quote(f'{tmp_path}/k.tileir')} -o o --depfile=d"
    )
    assert done.status == 2 and "unable to write output file 'o': No such file or directory" in done.err
    target = shlex.quote(f"{tmp_path}/o")
    done = shell(tmp_path, f"{gone} tileiras --emit=ptx {shlex.quote(f'{tmp_path}/k.tileir')} -o {target}")
    assert done.status == 0 and left(tmp_path) == ["k.cubin", "o"]


def test_names_in_another_encoding(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path)
    for name, content in ((b"k\xe4.tileir", NOOP), (b"bad\xe4.tileir", BAD_EXTI)):
        Path(os.fsdecode(folder + b"/" + name)).write_text(content)
    words = [sys.executable, "-m", "tileiras", "--emit=ptx"]
    good = [
        *words,
        b"k\xe4.tileir",
        "-o",
        b"o\xe4",
        b"--depfile=d\xe4",
        "--kernels-json=j",
        "--remarks-output-file=y",
    ]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(good, cwd=tmp_path, capture_output=True, env=environment)
    assert (done.returncode, done.stderr) == (0, b"")
    assert os.listdir(folder).count(b"o\xe4") == 1
    assert (Path(os.fsdecode(folder + b"/d\xe4"))).read_bytes() == b"o\xe4: " + folder + b"/k\xe4.tileir\n"
    bad = [*words, b"bad\xe4.tileir", "-o", b"o\xe4"]
    done = subprocess.run(bad, cwd=tmp_path, capture_output=True, env=environment)
    assert done.returncode == 5 and b"bad" in done.stderr and b"Traceback" not in done.stderr


@pytest.mark.parametrize("name", ["TERM", "INT", "HUP"])
def test_a_signal_while_ptxas_works(name: str, tmp_path: Path) -> None:
    """The command dies of the signal, takes ptxas with it, and leaves nothing."""
    mark = tmp_path / "bin" / "started"
    ptxas = stub_ptxas(tmp_path, f"echo $$ > {shlex.quote(str(mark))}; exec sleep 60")
    process = start(tmp_path, f"--ptxas={ptxas}")
    pid = wait_for(mark)
    number = getattr(signal, f"SIG{name}")
    process.send_signal(number)
    _, err = process.communicate(timeout=30)
    assert process.returncode == -number and err == ""
    assert left(tmp_path) == []
    deadline = time.monotonic() + 30
    while alive(pid):
        assert time.monotonic() < deadline, "ptxas outlived the command"
        time.sleep(0.02)


INTERRUPTED = """
import sys, time
from tileiras.terminal import until_broken_pipe
def main(words):
    with open({mark!r}, "w") as mark:
        mark.write("1\\n")
    time.sleep(60)
sys.exit(until_broken_pipe(main))
"""
SHIM = """
import os, sys
from tileiras.nvcc_shim import plan, steps
done = plan.Plan()
done.rest = ["-c", "echo $$ > bin; sleep 1; exit 7"]  # in the place of nvcc
sys.exit(steps.execute(done, "/bin/sh", dict(os.environ), os.getcwd()))
"""


def test_an_interrupt_of_the_other_commands_has_no_traceback(tmp_path: Path) -> None:
    mark = tmp_path / "bin"
    process = start(tmp_path, script=INTERRUPTED.format(mark=str(mark)))
    wait_for(mark)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (-signal.SIGINT, "")


@pytest.mark.parametrize("ignored", [True, False])
def test_an_interrupt_that_was_ignored_at_the_start_stays_so_in_the_shim(
    ignored: bool, tmp_path: Path
) -> None:
    """`tileiras-nvcc ... &` in a script, and Ctrl-C for what runs before it: shim and nvcc went away, too."""
    process = start(tmp_path, script=SHIM, ignored=ignored)
    wait_for(tmp_path / "bin")
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (7 if ignored else -signal.SIGINT, "")


PHASES = [
    "tileiras.compiler.source",
    "tileiras.compiler.ir.verify",
    "tileiras.compiler.pipeline",
    "tileiras.compiler.ptx.text",
]
SLOW_IMPORT = """
import sys, time
class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == {phase!r}:
            with open({mark!r}, "w") as mark:  # a file that is only forgotten swallows what a signal raises while it is written
                mark.write("1\\n")
            time.sleep(60)
class Before(list):
    def insert(self, index, finder):  # the command's own finder comes behind this one
        super().insert(max(index, 1), finder)
sys.meta_path = Before([Slow(), *sys.meta_path])
from tileiras.cli import main
sys.exit(main({words!r}))
"""


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_in_each_phase(phase: str, number: signal.Signals, tmp_path: Path) -> None:
    """Every stage is loaded when it is reached; one that takes for ever stands for all of its work."""
    mark = tmp_path / "bin"
    script = SLOW_IMPORT.format(
        phase=phase, mark=str(mark), words=["k.tileir", "-o", "k.cubin", "--emit=ptx"]
    )
    process = start(tmp_path, script=script)
    wait_for(mark)
    process.send_signal(number)
    _, err = process.communicate(timeout=30)
    assert process.returncode == -number and err == ""
    reads = phase == "tileiras.compiler.source"  # the input has not been read: nothing is touched
    assert left(tmp_path) == (["k.cubin"] if reads else [])


def test_a_signal_between_the_outputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of several outputs all are there or none."""
    from tileiras.outputs import Outputs
    from tileiras.signals import Interrupted

    real = os.replace

    def interrupted(old: str, new: str) -> None:
        real(old, new)
        if new.endswith("b"):
            raise Interrupted(15)

    outputs = Outputs([str(tmp_path / name) for name in "abc"])
    for path in outputs.paths:
        outputs.write(path, b"new")
    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(Interrupted):
        outputs.commit()
    outputs.discard()
    assert left(tmp_path) == []


def start(folder: Path, *flags: str, script: str = "", ignored: bool = False) -> subprocess.Popen[str]:
    """The command under way, in a group of its own, its stale output in place; `ignored`: it was started with `&`."""
    (folder / "k.tileir").write_text(NOOP)
    (folder / "k.cubin").write_bytes(b"old")
    words = ["-c", script] if script else ["-m", "tileiras", "k.tileir", "-o", "k.cubin", *flags]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    return subprocess.Popen(
        [sys.executable, *words], cwd=folder, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN if ignored else signal.default_int_handler),
    )  # fmt: skip


def wait_for(mark: Path) -> int:
    """The number that a file holds, once it is there."""
    deadline = time.monotonic() + 60
    while not mark.exists() or not mark.read_text().endswith("\n"):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return int(mark.read_text())


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_signal_while_a_report_reads_machine_code_leaves_no_folder(tmp_path: Path) -> None:
    """nvdisasm runs in a thread that nobody waits for then."""
    real = peers.require("ptxas")
    mark, temporary = tmp_path / "bin", tmp_path / "tmp"
    temporary.mkdir()
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "ptxas").write_text(f'#!/bin/sh\nexec {shlex.quote(str(real))} "$@"\n')
    slow = tools / "nvdisasm"
    slow.write_text(
        f'#!/bin/sh\ncase "$1" in --version) echo "release 13.4, V13.4.92";; *) echo $$ > {mark}; exec sleep 60;; esac\n'
    )
    for path in tools.iterdir():
        path.chmod(0o755)
    (tmp_path / "k.tileir").write_text(NOOP)
    words = ["-m", "tileiras", "k.tileir", "-o", "k.cubin", "--report=r.html"]
    environment = {
        **os.environ,
        "PYTHONPATH": str(REPOSITORY),
        "TMPDIR": str(temporary),
        "TILEIRAS_TOOLKIT_ROOT": str(tools),
    }
    process = subprocess.Popen(
        [sys.executable, *words], cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True
    )
    tool = wait_for(mark)
    end = time.monotonic() + 30
    while not holds_a_leash(process.pid):  # on a busy machine the tool may be there first
        assert time.monotonic() < end
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=30)
    assert process.returncode == -signal.SIGTERM and err == ""
    assert list(temporary.iterdir()) == [] and left(tmp_path) == ["tmp", "tools"]
    deadline = time.monotonic() + 10
    while alive(tool):
        assert time.monotonic() < deadline
        time.sleep(0.02)
