"""Runs one corpus case on one target, in this process, and says what happened.

Outcome words: pass, wrong (numbers differ), error (a CompileError or any other exception), timeout (SIGALRM),
skip (the case needs a newer target). Nothing here imports the compiler before it is needed, so that the table
can be printed and the bytecode validated while the compiler is broken.
"""

from __future__ import annotations

import contextlib
import io
import re
import signal
import time
import traceback
from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.corpus.case import Case
from tests.corpus.export import bytecode_path, together

PASS, WRONG, ERROR, TIMEOUT, SKIP = "pass", "wrong", "error", "timeout", "skip"
# What texts for two targets may differ in and still be one to ptxas: `a` and `f`, what a target has beyond others, stay.
NUMBERS_OF_PTX = re.compile(r"^(\.version |\.target sm_)[\d.]+", re.MULTILINE)


class Outcome:
    """What one case did: word, seconds, one-line reason, and the full text behind it."""

    __slots__ = ("case", "detail", "gpu_name", "reason", "seconds", "target", "word")

    def __init__(
        self,
        case: Case,
        target: str,
        gpu_name: str,
        word: str,
        seconds: float,
        reason: str = "",
        detail: str = "",
    ) -> None:
        self.case, self.target, self.gpu_name, self.word = case, target, gpu_name, word
        self.seconds, self.reason, self.detail = seconds, reason, detail

    def as_dict(self) -> dict[str, Any]:
        return {
            "case": self.case.name,
            "family": self.case.family,
            "target": self.target,
            "gpu_name": self.gpu_name,
            "outcome": self.word,
            "seconds": round(self.seconds, 3),
            "reason": self.reason,
            "detail": self.detail,
        }


class TimedOut(BaseException):
    """Not an Exception: code under test that catches those must not swallow the alarm."""


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raises TimedOut in the main thread after so many seconds (0: never)."""

    def ring(_signal: int, _frame: Any) -> None:
        raise TimedOut

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def arch_number(gpu_name: str) -> int:
    """90 from "sm_90a"."""
    return int(re.sub(r"\D", "", gpu_name))


def compare(got: np.ndarray, want: np.ndarray, rtol: float, atol: float) -> str:
    """ "" when the arrays agree, else the first difference and how many there are.

    With no tolerance the comparison is by value with the sign of zero; any NaN equals any NaN.
    """
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"formula gives {want.dtype}{list(want.shape)}, the array is {got.dtype}{list(got.shape)}"
    if got.dtype.kind in "iub":
        bad = got != want
        g, w = got, want
    else:
        g, w = got.astype(np.float64), want.astype(np.float64)
        with np.errstate(invalid="ignore"):
            near = np.isfinite(w) & (
                np.abs(g - w) <= atol + rtol * np.abs(w)
            )  # near infinity is not infinity
            close = (g == w) if rtol == atol == 0 else near | (g == w)
        close |= np.isnan(g) & np.isnan(w)
        if rtol == atol == 0:
            close &= (np.signbit(g) == np.signbit(w)) | np.isnan(w)
        bad = ~close
    if not bad.any():
        return ""
    where = tuple(int(i) for i in np.argwhere(bad)[0])
    with np.errstate(invalid="ignore", over="ignore"):
        worst = (
            ""
            if got.dtype.kind in "iub"
            else f", worst |difference| {np.nanmax(np.abs(g - w)[bad]):.3g}"
            if np.isfinite((g - w)[bad]).any()
            else ", none of them finite"
        )
    count = f"{int(bad.sum())} of {bad.size} differ, first at {list(where)}"
    return f"{count}: got {got[where]}, want {want[where]}{worst}"


def judge(case: Case, before: list[Any], after: list[Any]) -> str:
    """ "" when every array is as it must be after the launch."""
    with np.errstate(all="ignore"):
        expected = case.expect(*before)
    problems = []
    for k, (old, new) in enumerate(zip(before, after)):
        if isinstance(new, np.ndarray):
            if k in expected:
                problem = compare(
                    new, np.asarray(expected[k]).astype(new.dtype, copy=False), case.rtol, case.atol
                )
            else:
                problem = compare(new, old, 0, 0)
                problem = problem and "changed though it is an input: " + problem
            if problem:
                problems.append(f"argument {k}: {problem}")
        elif isinstance(new, list) and k in expected:
            for j, (array, want) in enumerate(zip(new, expected[k])):
                problem = compare(
                    array, np.asarray(want).astype(array.dtype, copy=False), case.rtol, case.atol
                )
                if problem:
                    problems.append(f"argument {k}[{j}]: {problem}")
    return "; ".join(problems)


def copy_of(values: list[Any]) -> list[Any]:
    return [
        v.copy() if isinstance(v, np.ndarray) else copy_of(v) if isinstance(v, list) else v for v in values
    ]


def attempt(case: Case, target: str, gpu_name: str, limit: float, action: Any) -> Outcome:
    """What `action` did: "" is a pass, a text what is wrong, an exception an error, over `limit` seconds (not 0) a timeout."""
    if target not in ("reference", "cpu") and arch_number(gpu_name) < case.min_arch:
        return Outcome(case, target, gpu_name, SKIP, 0.0, f"needs sm_{case.min_arch}")
    start = time.perf_counter()
    try:
        with time_limit(limit):
            problem = action()
        word, reason, detail = (WRONG, problem, problem) if problem else (PASS, "", "")
    except TimedOut:
        word, reason, detail = TIMEOUT, f"over {limit:g} s", traceback.format_exc()
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        frame = traceback.extract_tb(error.__traceback__)[-1]
        place = f" ({'/'.join(frame.filename.rsplit('/', 2)[-2:])}:{frame.lineno})"
        word, reason = ERROR, f"{type(error).__name__}: {lines[0] if lines else ''}{place}"
        detail = traceback.format_exc()
    return Outcome(case, target, gpu_name, word, time.perf_counter() - start, reason, detail)


def entrance(path: Any) -> tuple[Any, Any]:
    """(launch function, source to give it): `tileiras.launch` and the path, as any user would."""
    import tileiras

    if hasattr(tileiras, "launch"):
        return tileiras.launch, path
    from tileiras.compiler.source import load
    from tileiras.diag import Sink
    from tileiras.run import launch

    return launch, load(path, Sink())


def launch_case(case: Case, target: str, gpu_name: str, limit: float = 60.0, **options: object) -> Outcome:
    """Launches a case's bytecode on `target` and compares what it leaves in memory with the formula. Options are `launch`'s."""

    def action() -> str:
        launch, source = entrance(bytecode_path(case))
        values = case.make_values()
        before = copy_of(values)
        flat, memory = case.flat(values)
        more = {**options, **({"memory": memory} if memory else {})}
        with contextlib.redirect_stdout(io.StringIO()):
            launch(source, case.entry, grid=case.grid, args=flat, target=target, gpu_name=gpu_name, **more)
        return judge(case, before, values)

    return attempt(case, target, gpu_name, limit, action)


def compile_case(case: Case, gpu_name: str, limit: float = 60.0, seen: set[str] | None = None) -> Outcome:
    """Compiles a case's bytecode for `gpu_name` down to a cubin that has every entry of the file that is a case.

    Most kernels have one text for many targets: PTX that is in `seen` but for the numbers of its first lines is not assembled
    again, what is assembled joins `seen`."""

    def action() -> str:
        import tileiras

        program = tileiras.compile(bytecode_path(case), gpu_name=gpu_name, emit="ptx")
        missing = {c.entry for c in together(case)} - set(program.kernels)
        if missing:
            return f"no kernel {sorted(missing)} in {sorted(program.kernels)}"
        text = NUMBERS_OF_PTX.sub(r"\1", program.ptx)
        if seen is not None and text in seen:
            return ""
        program = tileiras.compile(bytecode_path(case), gpu_name=gpu_name)
        if program.cubin[:4] != b"\x7fELF":
            return "the cubin is not an ELF file"
        if seen is not None:
            seen.add(text)
        return ""

    return attempt(case, "compile", gpu_name, limit, action)
