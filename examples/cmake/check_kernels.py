"""Runs the kernels of this example on the CPU with `tileiras-run` and compares with NumPy. Exit code 1 when one is wrong.

`reference` interprets the Tile IR; `emulator` compiles it for a GPU and executes the PTX. Both see ragged sizes: no
extent is a multiple of a tile. Uses the `tileiras-run` beside the interpreter that runs this file. `cpu`, native code on all
cores, gets real sizes and is timed beside NumPy.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

KERNELS = Path(__file__).resolve().parent / "kernels"
TARGETS = ("reference", "emulator")


def vector_add(
    rng: np.random.Generator, n: int = 3000
) -> tuple[list[object], tuple[int, int, int], int, np.ndarray]:
    """Returns the arguments, the grid, the index of the result and its right value."""
    a, b = rng.standard_normal((2, n), dtype=np.float32)
    return [a, b, np.zeros(n, np.float32), f"i32:{n}"], (-(-n // 1024), 1, 1), 2, a + b


def softmax(
    rng: np.random.Generator, rows: int = 7, cols: int = 300
) -> tuple[list[object], tuple[int, int, int], int, np.ndarray]:
    """The same for one row per tile block."""
    x = (2 * rng.standard_normal((rows, cols))).astype(np.float32)
    e = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    return (
        [x, np.zeros_like(x), f"i32:{rows}", f"i32:{cols}"],
        (rows, 1, 1),
        1,
        e / e.sum(axis=1, keepdims=True),
    )


def matmul(
    rng: np.random.Generator, m: int = 100, n: int = 90, k: int = 72
) -> tuple[list[object], tuple[int, int, int], int, np.ndarray]:
    """The same for f16 matrices, summed in f32."""
    a = rng.standard_normal((m, k)).astype(np.float16)
    b = rng.standard_normal((k, n)).astype(np.float16)
    right = a.astype(np.float64) @ b.astype(np.float64)
    return (
        [a, b, np.zeros((m, n), np.float32), f"i32:{m}", f"i32:{n}", f"i32:{k}"],
        (-(-m // 64), -(-n // 64), 1),
        2,
        right,
    )


# kernel -> (inputs, absolute tolerance): float32 arithmetic on these sizes; softmax uses the fast exp
CASES = {"vector_add": (vector_add, 1e-6), "softmax": (softmax, 1e-6), "matmul": (matmul, 1e-4)}


def launch(name: str, target: str, args: list[object], grid: tuple[int, int, int], result: int) -> np.ndarray:
    """Returns argument `result` as the kernel left it."""
    command = Path(sys.executable).parent / "tileiras-run"
    with tempfile.TemporaryDirectory(prefix="tileiras-example-") as folder:
        argv = [
            str(command),
            str(KERNELS / f"{name}.tileir"),
            "--entry",
            name,
            "--target",
            target,
            "--gpu-name",
            "sm_90",
            "-q",
        ]
        argv += ["--grid", ",".join(map(str, grid))]
        for i, arg in enumerate(args):
            if isinstance(arg, np.ndarray):
                path = Path(folder) / f"arg{i}.npy"
                np.save(path, arg)
                argv += ["--arg", str(path)]
            else:
                argv += ["--arg", str(arg)]
        out = Path(folder) / "out.npy"
        subprocess.run([*argv, "--save", f"{result}={out}"], check=True)
        return np.load(out)


def main() -> int:
    """Returns 0 when every kernel is right on every target."""
    wrong = 0
    print(f"{'kernel':<12} {'target':<10} {'first values':<34} {'NumPy':<34} {'max error':>10}")
    for name, (make, tolerance) in CASES.items():
        for target in TARGETS:
            args, grid, result, right = make(np.random.default_rng(0))
            try:
                got = launch(name, target, args, grid, result)
            except subprocess.CalledProcessError as error:
                print(f"{name:<12} {target:<10} tileiras-run ended with exit code {error.returncode}")
                wrong += 1
                continue
            error_max = float(np.max(np.abs(got.astype(np.float64) - right)))
            is_right = got.shape == right.shape and error_max <= tolerance  # False for NaN
            wrong += not is_right
            values = [" ".join(f"{v:+.5g}" for v in array.ravel()[:3]) for array in (got, right)]
            print(
                f"{name:<12} {target:<10} {values[0]:<34} {values[1]:<34} {error_max:>10.2e} {'' if is_right else 'WRONG'}"
            )
    native, wrong_native = on_the_cpu()
    total, wrong = len(CASES) * len(TARGETS) + native, wrong + wrong_native
    print(f"{total - wrong} of {total} right")
    return 1 if wrong else 0


def numpy_softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


# kernel -> (real size, what NumPy does instead, given the arguments)
REAL: dict[str, tuple[dict[str, int], Callable[..., np.ndarray]]] = {
    "vector_add": ({"n": 1 << 24}, lambda a, b, *_: a + b),
    "softmax": ({"rows": 20000, "cols": 500}, lambda x, *_: numpy_softmax(x)),
    "matmul": (
        {"m": 1024, "n": 1024, "k": 1024},
        lambda a, b, *_: a.astype(np.float32) @ b.astype(np.float32),
    ),
}


def best_of(times: int, run: Callable[[], object]) -> float:
    """Returns the milliseconds of the fastest of some runs."""
    found = []
    for _ in range(times):
        start = time.perf_counter()
        run()
        found.append(time.perf_counter() - start)
    return 1e3 * min(found)


def on_the_cpu() -> tuple[int, int]:
    """Returns how many kernels ran as native code, at real sizes, and how many are wrong; prints their time beside NumPy's."""
    try:
        import llvmlite  # noqa: F401

        import tileiras
    except ImportError as missing:
        print(f"target cpu was left out: {missing}")
        return 0, 0
    wrong = 0
    print(f"\n{'kernel':<12} {'size':<24} {'cpu, ms':>9} {'NumPy, ms':>10}   max error")
    for name, (size, numpy) in REAL.items():
        make, tolerance = CASES[name]
        args, grid, result, right = make(np.random.default_rng(0), **size)
        plain = [int(a[4:]) if isinstance(a, str) else a for a in args]
        module = tileiras.load(KERNELS / f"{name}.tileir")
        ours = best_of(3, lambda m=module, g=grid, p=plain, k=name: tileiras.launch(m, k, g, p, target="cpu"))
        theirs = best_of(3, lambda f=numpy, p=plain: f(*p))
        error_max = float(np.max(np.abs(plain[result].astype(np.float64) - right)))
        is_right = error_max <= 20 * tolerance  # more terms than in the small sizes
        wrong += not is_right
        text = "x".join(map(str, size.values()))
        print(
            f"{name:<12} {text:<24} {ours:>9.1f} {theirs:>10.1f}   {error_max:.2e} {'' if is_right else 'WRONG'}"
        )
    print()
    return len(REAL), wrong


if __name__ == "__main__":
    sys.exit(main())
