"""`tileiras-reduce` as a user runs it, on five faults planted in the lowering: COMMAND compares emulator and reference."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import planted
import pytest
from unit.test_reduce_miscompiles import KERNEL

import tileiras

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, str(ROOT / "tests" / "planted.py")]
SOFTMAX = (ROOT / "docs" / "gallery" / "softmax.tileir").read_text()
MATMUL = re.search(
    r"^```tileir[^\n]*\n(.*?)^```$", (ROOT / "docs/tutorial/matmul.md").read_text(), re.M | re.S
)
assert MATMUL is not None
# fault -> (kernel, the op to blame, operations left at most)
PLANTED = {
    "select-inverted": (KERNEL, "select", 10),
    "quotient-inverted": (SOFTMAX, "divf", 14),
    "difference-negated": (SOFTMAX, "subf", 14),
    "reduction-asks-the-wrong-lane": (SOFTMAX, "reduce", 16),
    "product-takes-halves-in-the-wrong-order": (MATMUL[1], "mmaf", 18),
}


def ask(fault: str, path: Path) -> int:
    return subprocess.run([*COMMAND, fault, str(path)], env={**os.environ, "TILEIRAS_CACHE": "0"}).returncode


def reduction(fault: str, path: Path, *options: str) -> list[str]:
    asked = [*COMMAND, fault, "{}"]
    return [sys.executable, "-m", "tileiras.tools.reduce", str(path), *options, "--", *asked]


@pytest.mark.full
@pytest.mark.parametrize("fault", PLANTED)
def test_a_planted_fault_shrinks_to_its_op(fault: str, tmp_path: Path) -> None:
    assert set(PLANTED) == set(planted.FAULTS)
    text, op, most = PLANTED[fault]
    path = tmp_path / "k.tileir"
    path.write_text(text)
    assert ask(fault, path) == 0, "the fault shows, and nothing but the fault"
    line = reduction(fault, path, "--jobs", "2", "--timeout", "60")
    done = subprocess.run(line, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    small = tmp_path / "k.reduced.tilebc"
    assert ask(fault, small) == 0
    module = tileiras.load(small)
    module.verify()
    left = [
        each.spec.name
        for each in module.op.walk()
        if each.spec.name not in ("module", "entry", "return", "yield")
    ]
    assert op in left and len(left) <= most < text.count("\n"), left
    assert op in (tmp_path / "k.reduced.tileir").read_text()


@pytest.mark.full
def test_an_interrupt_leaves_a_smaller_kernel_that_shows_the_fault(tmp_path: Path) -> None:
    path = tmp_path / "k.tileir"
    path.write_text(KERNEL)
    line = reduction("select-inverted", path, "--jobs", "2", "--timeout", "60")
    with subprocess.Popen(
        line, env={**os.environ, "PYTHONPATH": str(ROOT)}, stderr=subprocess.PIPE, text=True
    ) as process:
        small = tmp_path / "k.reduced.tilebc"
        before = len(tileiras.load(path).to_bytecode())
        while not small.exists() or small.stat().st_size >= before:
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=120)[1]
    assert process.returncode == -signal.SIGINT and "interrupted; the smallest so far:" in said
    tileiras.load(small).verify()
    assert ask("select-inverted", small) == 0
