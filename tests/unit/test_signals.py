"""A signal that arrives anywhere in a command ends it by that signal: cleaned up, and without a traceback."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

# Counts the instructions of the interpreter that `obey` and what it calls run, and raises the signal at the one asked for.
PROGRAM = """
import os, signal, sys
from tileiras import signals

at = seen = 0

def watch(frame, event, argument):
    global seen
    if frame.f_code.co_filename not in (signals.__file__, __file__):
        return None
    frame.f_trace_opcodes = True
    if event == "opcode":
        seen += 1
        if seen == at:
            sys.settrace(None)
            os.kill(os.getpid(), signal.SIGTERM)
    return watch

class Wrong(Exception):
    pass

def body():
    try:
        with signals.held():
            left.append("held")
        raise Wrong
    except Wrong:  # what a command does about an error: here, too, a signal may come
        left.clear()
        return 5

left = []

def command():
    return signals.obey(body, left.clear)

def traced():
    sys.settrace(watch)
    status = command()
    sys.settrace(None)
    return status

status, whole = traced(), seen
print(status, whole)
for at in range(1, whole - 4):
    seen, child = 0, os.fork()
    if not child:
        os._exit(traced())
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_signal_at_every_instruction(tmp_path: Path) -> None:
    """Before the handler stands and behind `body` it kills by itself; between, by `obey`: never a word, nor a status."""
    script = tmp_path / "command.py"
    script.write_text(PROGRAM)
    done = subprocess.run([sys.executable, "-u", script], capture_output=True, text=True, check=True)
    first, *others = done.stdout.splitlines()
    status, whole = map(int, first.split())
    assert status == 5 and whole > 100
    assert others == [str(-signal.SIGTERM)] * (whole - 5) and not done.stderr
