"""Asking a command about candidates: several at a time, each in a folder and a process group of its own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time

from tileiras.diag import Catalogue, Refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

diags = Catalogue("tileiras.tools.diags")

FILE = "candidate.tilebc"


class Judge:
    """Runs the command. `said` tells what it did the last time that it was not content."""

    def __init__(self, command: Sequence[str], timeout: float, jobs: int) -> None:
        self.command = list(command)
        self.timeout = timeout
        self.jobs = jobs
        self.runs = 0
        self.said = ""
        self.folder = tempfile.mkdtemp(prefix="tileiras-reduce-")
        self._live: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Judge:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._live:
            _end(process)
        shutil.rmtree(self.folder, ignore_errors=True)

    def first(self, candidates: Sequence[bytes]) -> int | None:
        """The number of the first interesting candidate. All run at once; the answer does not depend on who is faster."""
        started = [self._start(number, data) for number, data in enumerate(candidates)]
        stop = time.monotonic() + self.timeout
        found = None
        for number, process in enumerate(started):
            try:
                code = process.wait(max(0.0, stop - time.monotonic()) if found is None else 0.0)
                if code == 0 and found is None:
                    found = number
                elif found is None:
                    self.said = f"ended with exit code {code}" if code >= 0 else f"died of signal {-code}"
            except subprocess.TimeoutExpired:
                self.said = f"took longer than {self.timeout:g} s"
            _end(process)
        self._live = []
        return found

    def _start(self, number: int, data: bytes) -> subprocess.Popen[bytes]:
        folder = os.path.join(self.folder, str(number))
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, FILE)
        with open(path, "wb") as stream:
            stream.write(data)
        words = [word.replace("{}", path) for word in self.command]
        try:
            process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # what it starts ends with it
            )
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise Refusal(diags.RED_CANNOT_RUN, program=words[0], why=why) from None
        self.runs += 1
        self._live.append(process)
        return process


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends what is left of a run, with all that it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
    process.wait()
