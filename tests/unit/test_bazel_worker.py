"""The persistent worker: its wire format, and its behaviour as Bazel sees it, without Bazel."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileiras.tools import worker_wire as wire

REPOSITORY = Path(__file__).resolve().parents[2]

# A worker whose requests are small Python programs: what it does with them is what is tested here.
PROGRAM = """
import os, sys
sys.path.insert(0, {repository!r})
from tileiras.tools import worker
def run(words):
    scope = {{"words": words, "code": 0, "sys": sys, "os": os}}
    exec(words[-1], scope)
    return scope["code"]
sys.exit(worker.serve(run, ["startup"]))
"""


def request(program: str, request_id: int = 0, **fields: object) -> wire.WorkRequest:
    made = wire.WorkRequest()
    made.arguments = [program]
    made.request_id = request_id
    for name, value in fields.items():
        setattr(made, name, value)
    return made


class Worker:
    """A worker process; `send` and `receive` play Bazel's part."""

    def __init__(self, cwd: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM.format(repository=str(REPOSITORY))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            bufsize=0,
        )
        self._reader = wire.Reader()
        self._frames: list[bytes] = []

    def send(self, *requests: wire.WorkRequest) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"".join(map(wire.encode_request, requests)))

    def receive(self, timeout: float = 30) -> wire.WorkResponse:
        assert self.process.stdout is not None
        while not self._frames:
            ready, _, _ = select.select([self.process.stdout], [], [], timeout)
            assert ready, "no answer"
            data = os.read(self.process.stdout.fileno(), 1 << 16)
            assert data, f"the worker ended: {self.log()}"
            self._frames += self._reader.frames(data)
        return wire.decode_response(self._frames.pop(0))

    def log(self) -> str:
        assert self.process.stderr is not None
        return self.process.stderr.read().decode()

    def close(self) -> int:
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(30)


@pytest.fixture
def worker(tmp_path: Path):
    started = Worker(tmp_path)
    yield started
    started.process.kill()
    started.process.wait()
    for stream in (started.process.stdin, started.process.stdout, started.process.stderr):
        assert stream is not None
        stream.close()


requests = st.builds(
    lambda arguments, inputs, number, cancel, verbosity, folder: request(
        "", number, arguments=arguments, inputs=inputs, cancel=cancel, verbosity=verbosity, sandbox_dir=folder
    ),
    st.lists(st.text()),
    st.lists(st.tuples(st.text(), st.binary())),
    st.integers(-(2**31), 2**31 - 1),
    st.booleans(),
    st.integers(0, 100),
    st.text(),
)


@given(st.lists(requests, max_size=5), st.data())
def test_any_cut_of_the_stream_gives_the_same_requests(
    sent: list[wire.WorkRequest], data: st.DataObject
) -> None:
    stream = b"".join(map(wire.encode_request, sent))
    reader = wire.Reader()
    got: list[wire.WorkRequest] = []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        got += reader.feed(stream[:size])
        stream = stream[size:]
    fields = wire.WorkRequest.__slots__
    assert [[getattr(r, f) for f in fields] for r in got] == [[getattr(r, f) for f in fields] for r in sent]


@given(st.integers(-(2**31), 2**31 - 1), st.text(), st.integers(0, 2**31 - 1), st.booleans())
def test_response_round_trip(code: int, output: str, number: int, cancelled: bool) -> None:
    frame = wire.Reader().frames(wire.encode_response(wire.WorkResponse(code, output, number, cancelled)))
    got = wire.decode_response(frame[0])
    assert (got.exit_code, got.output, got.request_id, got.was_cancelled) == (code, output, number, cancelled)


def test_known_bytes() -> None:
    # By hand from the format: arguments ["-o", "x"], one input ("a", "\x01"), request_id 300, verbosity 10,
    # sandbox_dir "s", and an unknown field 15 of each wire type, which is skipped.
    body = (
        b"\x0a\x02-o\x0a\x01x"
        + b"\x12\x06\x0a\x01a\x12\x01\x01"
        + b"\x18\xac\x02"
        + b"\x28\x0a"
        + b"\x32\x01s"
    )
    body += b"\x78\x01" + b"\x7a\x01z" + b"\x79" + bytes(8) + b"\x7d" + bytes(4)
    got = wire.Reader().feed(bytes([len(body)]) + body)[0]
    assert (got.arguments, got.inputs, got.request_id) == (["-o", "x"], [("a", b"\x01")], 300)
    assert (got.verbosity, got.sandbox_dir, got.cancel) == (10, "s", False)
    assert (
        wire.encode_response(wire.WorkResponse(5, "no", 300, True))
        == b"\x0b\x08\x05\x12\x02no\x18\xac\x02\x20\x01"
    )


@pytest.mark.parametrize(
    "data", [b"\xff" * 11, b"\x02\x0a\x05", b"\x01\x0b", b"\x02\x02a", b"\x01\x00"], ids=repr
)
def test_damaged_stream_is_refused(data: bytes) -> None:
    with pytest.raises(wire.WireError):
        wire.Reader().feed(data)


def test_singleplex(worker: Worker) -> None:
    worker.send(request("print('out'); print('err', file=sys.stderr); code = 3"))
    answer = worker.receive()
    assert (answer.exit_code, answer.request_id, answer.was_cancelled) == (3, 0, False)
    assert sorted(answer.output.split()) == ["err", "out"]
    worker.send(request("assert words[0] == 'startup'"))
    assert worker.receive().exit_code == 0
    assert worker.close() == 0


def test_multiplex_answers_as_requests_end(worker: Worker, tmp_path: Path) -> None:
    wait = f"import time\nwhile not os.path.exists({str(tmp_path / 'go')!r}): time.sleep(0.01)"
    worker.send(request(wait, 1), request("code = 2", 2))
    first = worker.receive()
    assert (first.request_id, first.exit_code) == (2, 2)
    (tmp_path / "go").touch()
    second = worker.receive()
    assert (second.request_id, second.exit_code) == (1, 0)


def test_a_request_whose_pipe_number_is_taken_again_is_answered(worker: Worker, tmp_path: Path) -> None:
    """The first ends one of its two pipes; those that begin then get its number."""
    wait = "import time\nwhile not os.path.exists({!r}): time.sleep(0.01)\n"
    early, late = tmp_path / "early", tmp_path / "late"
    worker.send(request("os.closerange(3, 64)\n" + wait.format(str(early)) + "os._exit(0)", 1))
    time.sleep(0.5)  # until its end was seen; too short would hide the fault, not make one
    worker.send(*[request(wait.format(str(late)), number) for number in (2, 3, 4, 5)])
    time.sleep(0.2)
    early.touch()
    assert worker.receive().request_id == 1
    late.touch()
    assert sorted(worker.receive().request_id for _ in range(4)) == [2, 3, 4, 5]


def test_no_state_passes_from_one_request_to_the_next(worker: Worker, tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    dirty = (
        "os.environ['LEAK'] = '1'; sys.leak = 1; os.chdir('/'); os.umask(0o777); sys.path.insert(0, '/leak')"
    )
    worker.send(request(dirty, 1))
    assert worker.receive().exit_code == 0
    check = "print(os.environ.get('LEAK'), hasattr(sys, 'leak'), os.getcwd(), os.umask(0) == 0o777, '/leak' in sys.path)"
    worker.send(request(check, 2))
    assert worker.receive().output.split() == ["None", "False", str(tmp_path), "False", "False"]


def test_sandbox_dir_is_the_working_directory(worker: Worker, tmp_path: Path) -> None:
    (tmp_path / "sandbox").mkdir()
    worker.send(request("open('made', 'w').close()", 1, sandbox_dir="sandbox"))
    assert worker.receive().exit_code == 0
    assert (tmp_path / "sandbox" / "made").exists()


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"sandbox_dir": "missing/folder"}, "cannot be entered: 'missing/folder': No such file or directory"),
        ({"sandbox_dir": "nul\0"}, "cannot be entered: 'nul\\x00': it has a NUL byte in it"),
        ({"arguments": ["a\0b", "pass"]}, "an argument has a NUL byte in it: 'a\\x00b'"),
    ],
)
def test_a_request_that_cannot_be_meant_is_answered(
    worker: Worker, fields: dict[str, object], said: str
) -> None:
    worker.send(request("print('ran')", 4, **fields))
    answer = worker.receive()
    assert (answer.exit_code, answer.request_id) == (1, 4)
    assert said in answer.output and answer.output.count("\n") == 1, answer.output
    worker.send(request("print('still here')"))
    assert worker.receive().output == "still here\n"


def test_cancel_ends_the_request_and_what_it_started(worker: Worker, tmp_path: Path) -> None:
    program = (
        "import subprocess, time\n"
        "child = subprocess.Popen(['sleep', '600'])\n"
        "open('pid.tmp', 'w').write(str(child.pid)); os.rename('pid.tmp', 'pid')\n"
        "time.sleep(600)"
    )
    worker.send(request(program, 7))
    pid_file = tmp_path / "pid"
    for _ in range(1000):
        if pid_file.exists():
            break
        time.sleep(0.01)
    worker.send(request("", 7, arguments=[], cancel=True), request("print('next')", 8))
    answers = {answer.request_id: answer for answer in (worker.receive(), worker.receive())}
    assert answers[7].was_cancelled
    assert answers[8].output == "next\n" and not answers[8].was_cancelled
    assert not _alive(int(pid_file.read_text()))


def _alive(pid: int) -> bool:
    for _ in range(500):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return False
        if state == "Z":
            return False
        time.sleep(0.01)
    return True


def test_a_crash_is_an_answer(worker: Worker) -> None:
    worker.send(request("os.kill(os.getpid(), 11)", 1))
    answer = worker.receive()
    assert answer.exit_code == 128 + 11 and "signal 11" in answer.output
    worker.send(request("raise RuntimeError('on purpose')", 2))
    answer = worker.receive()
    assert answer.exit_code == 1 and "on purpose" in answer.output
    worker.send(request("sys.exit(4)", 3))
    assert worker.receive().exit_code == 4
    worker.send(request("pass", 4))
    assert worker.receive().exit_code == 0


def test_changed_tool_files_are_not_answered_for_by_old_code(tmp_path: Path) -> None:
    import shutil

    site = tmp_path / "site"
    package = site / "tileiras"
    shutil.copytree(REPOSITORY / "tileiras", package, ignore=shutil.ignore_patterns("__pycache__"))
    main = tmp_path / "bin" / "tile_build.py"
    main.parent.mkdir()
    shutil.copy(REPOSITORY / "bazel" / "private" / "tile_build.py", main)
    started = Worker.__new__(Worker)
    started.process = subprocess.Popen(
        [sys.executable, "-I", "-S", "-B", "bin/tile_build.py", "--persistent_worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        bufsize=0,
    )
    started._reader, started._frames = wire.Reader(), []
    ask = request("", 3, arguments=["compile", "--no-such-option", "-o", "x"])
    try:
        started.send(ask)
        before = started.receive()
        assert before.exit_code == 1 and "--no-such-option" in before.output
        entry = package / "tools" / "build" / "__init__.py"
        text = entry.read_text()
        line = "    words = take_words("
        assert line in text
        entry.write_text(text.replace(line, f"    sys.stderr.write('NEW PACKAGE\\n')\n{line}", 1))
        for _ in range(2):
            started.send(ask)
            after = started.receive()
            assert "NEW PACKAGE" in after.output and after.exit_code == 1 and after.request_id == 3
        assert started.close() == 0
    finally:
        started.process.kill()
        started.process.wait()


def test_large_output_and_bytes_that_are_no_text(worker: Worker) -> None:
    worker.send(request("os.write(2, b'x' * 3_000_000 + b'\\xff')"))
    answer = worker.receive()
    assert len(answer.output) == 3_000_001 and answer.output.endswith("\ufffd")


def test_killed_worker_takes_its_requests_along(worker: Worker, tmp_path: Path) -> None:
    worker.send(request("open('pid', 'w').write(str(os.getpid())) and None; import time; time.sleep(600)", 1))
    for _ in range(1000):
        if (tmp_path / "pid").exists() and (tmp_path / "pid").read_text():
            break
        time.sleep(0.01)
    worker.process.kill()
    worker.process.wait()
    if sys.platform.startswith("linux"):
        assert not _alive(int((tmp_path / "pid").read_text()))


@pytest.mark.parametrize("how", ["close", "terminate"])
def test_end_of_the_worker_ends_its_requests(worker: Worker, tmp_path: Path, how: str) -> None:
    worker.send(
        request("f = open('pid', 'w'); f.write(str(os.getpid())); f.close(); import time; time.sleep(600)", 1)
    )
    for _ in range(1000):
        if (tmp_path / "pid").exists() and (tmp_path / "pid").read_text():
            break
        time.sleep(0.01)
    if how == "close":
        assert worker.close() == 0
    else:
        worker.process.send_signal(signal.SIGTERM)
        assert worker.process.wait(30) == 143
    assert not _alive(int((tmp_path / "pid").read_text()))


def test_garbage_on_the_channel_ends_the_worker_with_a_message(worker: Worker) -> None:
    assert worker.process.stdin is not None
    worker.process.stdin.write(b'{"arguments":["-o"]}' * 10)
    worker.process.stdin.close()
    assert worker.process.wait(30) == 1
    assert "tile-build worker" in worker.log()


def test_one_shot_reads_parameter_files(tmp_path: Path) -> None:
    from tileiras.tools.bazel_actions import UsageError, expand_parameter_files

    (tmp_path / "args").write_bytes("compile\n\nk é\u2028x.tileir\n@inner\n".encode())
    got = expand_parameter_files([f"@{tmp_path / 'args'}", "@@literal", "@"])
    assert got == ["compile", "", "k é\u2028x.tileir", "@inner", "@literal", "@"]
    with pytest.raises(UsageError, match="No such file"):
        expand_parameter_files([f"@{tmp_path / 'none'}"])
