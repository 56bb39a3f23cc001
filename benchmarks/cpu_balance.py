"""How evenly the CPU target's threads end, for tile blocks of unequal length.

    python benchmarks/cpu_balance.py [--threads 2] [--blocks 512] [--repeats 15]

A row is a distribution of work over the tile blocks of one launch. `idle`: what part of the threads' time, from the launch's
first block to its last, a thread had nothing to do; `least`: what the best possible schedule of these blocks leaves idle,
which no stealing could improve on, because a block is never divided. The best of the repeats, in which other work of the
machine took least.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np

import tileiras
from tileiras.run.cpu.launch import kernel_of

TEXT = """cuda_tile.module @m {
  entry @k(%work: tile<ptr<i32>>, %out: tile<ptr<f32>>) {
    %x, %y, %z = get_tile_block_id : tile<i32>
    %p = offset %work, %x : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
    %n, %t = load_ptr_tko weak %p : tile<ptr<i32>> -> tile<i32>, token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %start = constant <f32: 1.5> : tile<256xf32>
    %end = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%v = %start) -> (tile<256xf32>) {
      %w = sqrt %v rounding<nearest_even> : tile<256xf32>
      %a = addf %w, %start rounding<nearest_even> : tile<256xf32>
      continue %a : tile<256xf32>
    }
    %s = reduce %end dim=0 identities=[0.0 : f32] : tile<256xf32> -> tile<f32> (%u : tile<f32>, %q : tile<f32>) {
      %r = addf %u, %q rounding<nearest_even> : tile<f32>
      yield %r : tile<f32>
    }
    %o = offset %out, %x : tile<ptr<f32>>, tile<i32> -> tile<ptr<f32>>
    %k = store_ptr_tko weak %o, %s : tile<ptr<f32>>, tile<f32> -> token
    return
  }
}
"""


def distributions(blocks: int, each: int) -> dict[str, np.ndarray]:
    """Rounds of the loop of each block; `each`: their mean."""
    rng = np.random.default_rng(1)
    long = np.full(blocks, each)
    long[-1] = each * blocks // 8
    kinds = {
        "equal": np.full(blocks, each),
        "growing": np.linspace(0, 2 * each, blocks),
        "shrinking": np.linspace(2 * each, 0, blocks),
        "random (exponential)": rng.exponential(each, blocks),
        "a tenth does all": np.where(rng.random(blocks) < 0.1, 10 * each, 0),
        "one long, first": long[::-1],
        "one long, last": long,
    }
    return {name: np.ascontiguousarray(work.astype(np.int32)) for name, work in kinds.items()}


def least_idle(work: np.ndarray, threads: int) -> float:
    """Of the schedule that gives the longest block left to the thread that is free first."""
    ends = [0.0] * threads
    for one in sorted(map(float, work), reverse=True):
        ends[ends.index(min(ends))] += one
    return 1 - sum(ends) / (threads * max(ends))


def main() -> int:
    parser = argparse.ArgumentParser(
        formatter_class=argparse.RawDescriptionHelpFormatter, description=__doc__
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--blocks", type=int, default=512)
    parser.add_argument("--repeats", type=int, default=15)
    options = parser.parse_args()
    os.environ["TILEIRAS_CPU_THREADS"] = str(options.threads)
    module = tileiras.load(TEXT)
    module.verify()
    kernel = kernel_of(module.op, "k", False)
    spans: list[tuple[float, float]] = []
    original = kernel.code.run

    def timed(*args: Any) -> None:
        start = time.perf_counter()
        original(*args)
        spans.append((start, time.perf_counter()))

    kernel.code.run = timed  # type: ignore[assignment]
    out = np.zeros(options.blocks, np.float32)
    print(f"{'blocks of length':24}{'idle':>8}{'least':>8}{'ms':>8}")
    for name, work in distributions(options.blocks, 400).items():
        best = (1.0, 0.0)
        for _ in range(options.repeats):
            spans.clear()
            tileiras.launch(module.op, "k", options.blocks, [work, out], target="cpu")
            first, last = min(s for s, _ in spans), max(e for _, e in spans)
            idle = sum(last - end for _, end in spans) / (len(spans) * (last - first))
            best = min(best, (idle, (last - first) * 1e3))
        print(f"{name:24}{best[0]:8.1%}{least_idle(work, options.threads):8.1%}{best[1]:8.1f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
