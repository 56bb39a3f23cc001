"""What the emulator takes for one product through each way of feeding the tensor cores: processor time and memory.

    python benchmarks/emulator_rungs.py [--size 512] [--rung sm_90] [--seed 1]

A bf16 product of --size cubed in tiles of 128x256x64 (sm_120: 128x128x64), compiled for each target without and with tensor maps
from the launcher. Each rung runs in a process of its own, twice: without checks, and with them under a seed; the translation of
the PTX is in both. Prints the instructions that fed it, seconds of processor time of the launch (user and system), the most
memory that the process had, and whether the numbers are NumPy's; the exit code is 1 where one is not, or where the goals are
missed: 1 s, 5 s with checks, 1 GB.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import time
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(REPOSITORY)]

GOALS = {"plain": 1.0, "check": 5.0}  # seconds
MEMORY = 1024  # MB
RUNGS = [("sm_80", False), ("sm_90", False), ("sm_90", True), ("sm_100", False), ("sm_100", True),
         ("sm_120", False), ("sm_120", True)]  # fmt: skip
SEEN = ("cp.async.c", "cp.async.bulk", "mma.sync", "wgmma.mma_async", "tcgen05.mma", "setmaxnreg")


def product(size: int, m: int, n: int, k: int) -> str:
    """The product of two square matrices, a tile of the result to a block."""
    view = f"tensor_view<{size}x{size}x{{}}, strides=[{size},1]>"
    a, o = view.format("bf16"), view.format("f32")
    ta, tb, to = (f"partition_view<tile=({x}x{y}), {v}>" for x, y, v in ((m, k, a), (k, n, a), (m, n, o)))
    made = f"shape = [{size}, {size}], strides = [{size}, 1]"
    return f"""
cuda_tile.module @m {{
  entry @k(%p: tile<ptr<bf16>>, %q: tile<ptr<bf16>>, %o: tile<ptr<f32>>) {{
    %pa = assume div_by<16>, %p : tile<ptr<bf16>>
    %qa = assume div_by<16>, %q : tile<ptr<bf16>>
    %oa = assume div_by<16>, %o : tile<ptr<f32>>
    %t = make_token : token
    %bx, %by, %bz = get_tile_block_id : tile<i32>
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %steps = constant <i32: {size // k}> : tile<i32>
    %c = constant <f32: 0.0> : tile<{m}x{n}xf32>
    %va = make_tensor_view %pa, {made} : {a}
    %vb = make_tensor_view %qa, {made} : {a}
    %vo = make_tensor_view %oa, {made} : {o}
    %ta = make_partition_view %va : {ta}
    %tb = make_partition_view %vb : {tb}
    %to = make_partition_view %vo : {to}
    %d = for %i in (%zero to %steps, step %one) : tile<i32> iter_values(%acc = %c) -> (tile<{m}x{n}xf32>) {{
      %x, %u = load_view_tko weak %ta[%bx, %i] token = %t : {ta}, tile<i32> -> tile<{m}x{k}xbf16>, token
      %y, %w = load_view_tko weak %tb[%i, %by] token = %t : {tb}, tile<i32> -> tile<{k}x{n}xbf16>, token
      %e = mmaf %x, %y, %acc : tile<{m}x{k}xbf16>, tile<{k}x{n}xbf16>, tile<{m}x{n}xf32>
      continue %e : tile<{m}x{n}xf32>
    }}
    %z = store_view_tko weak %d, %to[%bx, %by] token = %t : tile<{m}x{n}xf32>, {to}, tile<i32> -> token
    return
  }}
}}
"""


def measure(size: int, gpu_name: str, maps: bool, seed: int) -> bool:
    """Both launches of a rung in this process; whether they keep to the goals and are right."""
    import ml_dtypes
    import numpy as np

    import tileiras

    m, n, k = (128, 128, 64) if gpu_name == "sm_120" else (128, 256, 64)
    options: dict[str, Any] = {"launch_abi": "simt", "tensor_maps": "launcher"} if maps else {}
    program = tileiras.compile(product(size, m, n, k), gpu_name=gpu_name, emit="ptx", **options)
    feeding = [word for word in SEEN if word in program.ptx]
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-2, 3, (size, size)).astype(ml_dtypes.bfloat16) for _ in range(2))
    want = a.astype(np.float32) @ b.astype(np.float32)
    good = True
    ways: dict[str, dict[str, Any]] = {"plain": {}, "check": {"check": True, "seed": seed}}
    for name, how in ways.items():
        out = np.zeros((size, size), np.float32)
        program.translated = {}  # as for a new process
        start = time.process_time()
        tileiras.launch(
            program, "k", (size // m, size // n, 1), [a, b, out], target="emulator", gpu_name=gpu_name, **how
        )
        seconds = time.process_time() - start
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        right = bool((out == want).all())
        good = good and right and seconds <= GOALS[name] and memory <= MEMORY
        print(
            f"{gpu_name:7} {'maps' if maps else '':4} {name:5} {seconds:6.2f} s {memory:5} MB  "
            f"{'right' if right else 'WRONG'}  {' '.join(feeding)}",
            flush=True,
        )
    return good


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description="The emulator's time and memory for one product, by rung.")
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--rung", default="", help="only targets whose name contains this")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(words)
    failed = 0
    for gpu_name, maps in RUNGS:
        if options.rung not in gpu_name:
            continue
        child = os.fork()
        if child == 0:
            code = 2
            try:
                code = int(not measure(options.size, gpu_name, maps, options.seed))
            except Exception as error:
                print(f"{gpu_name:7} {'maps' if maps else '':4} {error}", flush=True)
            os._exit(code)
        failed |= os.waitpid(child, 0)[1] != 0
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
