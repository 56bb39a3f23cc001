"""What verification of ops when they are made costs (layer 1): share of the time from Tile IR to PTX, in one run.

    python benchmarks/verification_cost.py [--gpu-name sm_90] [--every N] [--repeats 5] [-k SUBSTR]

Each kernel is compiled in forked processes that have loaded nothing of the compiler, as the command has not, in turn with
the checks and without them; the shortest CPU time of each counts, from reading the bytecode to PTX. Prints the share of
the sum over all kernels, and quartiles of the kernels' own shares.
"""

from __future__ import annotations

import argparse
import os
import statistics
import struct
import sys
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(REPOSITORY)]


def seconds(data: bytes, gpu_name: str, checked: bool) -> float:
    """CPU time of a compile in a child that begins with nothing."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            from tileiras.compiler import pipeline
            from tileiras.compiler.ir import build, verify
            from tileiras.compiler.source import load
            from tileiras.compiler.target import sm
            from tileiras.diag import Sink

            if not checked:
                build.check_op = lambda op: None
            start = time.process_time()
            sink = Sink()
            module = load(data, sink)
            verify.verify(module, sink)
            pipeline.compile_module(module, sm.find(gpu_name), sink)
            os.write(write, struct.pack("d", time.process_time() - start))
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as result:
        got = result.read()
    os.waitpid(child, 0)
    return struct.unpack("d", got)[0] if got else 0.0


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gpu-name", default="sm_90")
    parser.add_argument("--every", type=int, default=25)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("-k", default="")
    options = parser.parse_args()
    files = sorted((REPOSITORY / "tests" / "data" / "bytecode").glob("*.tilebc"))
    files = [file for file in files if options.k in file.name][:: options.every]
    on_sum = off_sum = 0.0
    shares = []
    for file in files:
        data = file.read_bytes()
        best = {True: 1e9, False: 1e9}
        for _ in range(options.repeats):
            for checked in (True, False):
                best[checked] = min(best[checked], seconds(data, options.gpu_name, checked) or 1e9)
        if best[True] > 1e8 or best[False] > 1e8:
            continue
        on_sum, off_sum = on_sum + best[True], off_sum + best[False]
        shares.append(1 - best[False] / best[True])
    quartiles = statistics.quantiles(shares, n=4)
    print(
        f"{len(shares)} kernels on {options.gpu_name}: {1 - off_sum / on_sum:.2%} of {on_sum * 1e3 / len(shares):.1f} ms; "
        f"quartiles {', '.join(f'{q:.2%}' for q in quartiles)}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
