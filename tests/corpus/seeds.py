"""Runs the asynchronous kernels of the corpus in many orders and without each part: `python -m tests.corpus.seeds`.

A kernel is asynchronous when its PTX copies, multiplies or waits asynchronously. It runs on the emulator with its race checks,
once for each seed (another order of warps, copies and products), and once more for each part of the code generator that changes
its PTX when it is left out. What it leaves in memory is compared with the case's formula.

--gpu-name sm_90 ...    targets; --rotate runs the n-th kernel on the n-th of them alone
--tensor-maps launcher  with tensor maps
--seeds 20, --no-parts, -k SUBSTR, --limit SECONDS for one kernel on one target (what is left out then is counted)
--share 1/2             every second kernel, the first of them: for several processes
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import io
import re
import sys
import time
from typing import Any

import tileiras
from tests.corpus.case import Case
from tests.corpus.check import PASS, SKIP, arch_number, attempt, copy_of, judge
from tests.corpus.export import bytecode_path
from tests.corpus.registry import CASES
from tileiras.options import PARTS

ASYNCHRONOUS = re.compile(r"cp\.async|mbarrier|wgmma|tcgen05")


def programs(case: Case, gpu_name: str, tensor_maps: str, parts: bool) -> dict[str, Any]:
    """The case compiled as it is (key "") and without each part that changes its PTX; empty when it is not asynchronous."""

    def compiled(*disable: str) -> Any:
        return tileiras.compile(
            bytecode_path(case),
            gpu_name=gpu_name,
            launch_abi="simt",
            tensor_maps=tensor_maps,
            disable=disable,
        )

    whole = compiled()
    if not ASYNCHRONOUS.search(whole.ptx):
        return {}
    found, texts = {"": whole}, {whole.ptx}
    for part in PARTS if parts else ():
        less = compiled(part)
        if less.ptx not in texts:
            texts.add(less.ptx)
            found[part] = less
    return found


def launch(program: Any, case: Case, gpu_name: str, seed: int) -> str:
    """ "" when a launch in the order of `seed` has no race and leaves what the formula says."""
    values = case.make_values()
    before = copy_of(values)
    flat, memory = case.flat(values)
    more = {"memory": memory} if memory else {}
    with contextlib.redirect_stdout(io.StringIO()):
        tileiras.launch(
            program, case.entry, grid=case.grid, args=flat, target="emulator", gpu_name=gpu_name, check=True,
            seed=seed, **more,
        )  # fmt: skip
    return judge(case, before, values)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        formatter_class=argparse.RawDescriptionHelpFormatter, description=__doc__
    )
    parser.add_argument("--gpu-name", nargs="+", default=["sm_80", "sm_90", "sm_100", "sm_120"])
    parser.add_argument("--rotate", action="store_true")
    parser.add_argument("--tensor-maps", choices=["none", "launcher"], default="none")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--no-parts", action="store_true")
    parser.add_argument("-k", default="")
    parser.add_argument("--limit", type=float, default=60.0)
    parser.add_argument("--share", default="1/1")
    options = parser.parse_args(argv)
    first, of = map(int, options.share.split("/"))
    cases = [case for case in CASES.values() if options.k in case.name]
    kernels = runs = left_out = 0
    wrong = []
    for number, case in enumerate(cases):
        if number % of != first - 1:
            continue
        names = options.gpu_name
        for gpu_name in [names[number // of % len(names)]] if options.rotate else names:
            if arch_number(gpu_name) < case.min_arch:
                continue
            found = programs(case, gpu_name, options.tensor_maps, not options.no_parts)
            kernels += bool(found)
            jobs = [("", seed) for seed in range(options.seeds)] if found else []
            jobs += [(part, seed) for seed, part in enumerate(found, start=options.seeds) if part]
            end = time.monotonic() + options.limit
            for done, (part, seed) in enumerate(jobs):
                if time.monotonic() > end:
                    left_out += len(jobs) - done
                    break
                action = functools.partial(launch, found[part], case, gpu_name, seed)
                outcome = attempt(case, "emulator", gpu_name, 0, action)
                runs += 1
                if outcome.word not in (PASS, SKIP):
                    wrong.append(outcome)
                    without = f" without {part}" if part else ""
                    print(
                        f"{outcome.word} {case.name} {gpu_name}{without}, seed {seed}: {outcome.reason}",
                        flush=True,
                    )
    print(f"{kernels} asynchronous kernels, {runs} runs, {len(wrong)} wrong, {left_out} left out for time")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
