"""Runs what a change of the compiler changed: `python -m tests.corpus.changed`.

--write FILE in front of the change keeps a digest of each kernel's PTX; --against FILE behind it compiles all again and runs
the kernels with another PTX, on the emulator with its race checks. What the full tier said of the others still holds.

--gpu-name sm_90 ...    targets
--tensor-maps ...       none and launcher; both without it
--seeds 2               orders of warps, copies and products
-k SUBSTR, --share 1/2  some kernels; every second changed one, the first of them: for several processes
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tileiras
from tests.corpus.case import Case
from tests.corpus.check import PASS, SKIP, arch_number, attempt
from tests.corpus.export import bytecode_path, together
from tests.corpus.registry import CASES, one_per_module
from tests.corpus.seeds import launch

ENTRY = re.compile(r"^\.visible \.entry ([\w$]+)", re.MULTILINE)


def compiled(case: Case, gpu_name: str, tensor_maps: str) -> Any:
    """The program of a case's file, as the emulator launches it."""
    return tileiras.compile(
        bytecode_path(case), gpu_name=gpu_name, emit="ptx", launch_abi="simt", tensor_maps=tensor_maps
    )


def digests(ptx: str) -> dict[str, str]:
    """Kernel -> digest of its PTX, with what stands in front of all kernels."""
    starts = list(ENTRY.finditer(ptx))
    ends = [m.start() for m in starts[1:]] + [len(ptx)]
    head = ptx[: starts[0].start()] if starts else ""
    return {
        m[1]: hashlib.sha256((head + ptx[m.start() : end]).encode()).hexdigest()[:16]
        for m, end in zip(starts, ends)
    }


def all_digests(cases: list[Case], gpu_names: list[str], tensor_maps: list[str]) -> Iterator[tuple[str, str]]:
    """("case target maps", digest) of every kernel; of a file that does not compile, the error."""
    for first in one_per_module(cases):
        for gpu_name in gpu_names:
            if arch_number(gpu_name) < first.min_arch:
                continue
            for maps in tensor_maps:
                try:
                    found = digests(compiled(first, gpu_name, maps).ptx)
                except tileiras.CompileError as error:
                    found = {case.entry: f"error: exit code {error.exit_code}" for case in together(first)}
                for case in together(first):
                    yield f"{case.name} {gpu_name} {maps}", found.get(case.entry, "no such kernel")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        formatter_class=argparse.RawDescriptionHelpFormatter, description=__doc__
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--write", type=Path)
    what.add_argument("--against", type=Path)
    parser.add_argument("--gpu-name", nargs="+", default=["sm_80", "sm_90", "sm_100", "sm_120"])
    parser.add_argument(
        "--tensor-maps", nargs="+", choices=["none", "launcher"], default=["none", "launcher"]
    )
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("-k", default="")
    parser.add_argument("--limit", type=float, default=120.0)
    parser.add_argument("--share", default="1/1")
    options = parser.parse_args(argv)
    cases = [case for case in CASES.values() if options.k in case.name]
    found = dict(all_digests(cases, options.gpu_name, options.tensor_maps))
    if options.write:
        options.write.write_text(json.dumps(found, indent=0))
        print(f"{len(found)} kernels")
        return 0
    before = json.loads(options.against.read_text())
    changed = [key for key, digest in found.items() if before.get(key) != digest]
    first, of = map(int, options.share.split("/"))
    wrong = runs = 0
    for key in changed[first - 1 :: of]:
        name, gpu_name, maps = key.split()
        program = None if found[key].startswith("error") else compiled(CASES[name], gpu_name, maps)
        for seed in range(options.seeds if program else 0):
            action = functools.partial(launch, program, CASES[name], gpu_name, seed)
            outcome = attempt(CASES[name], "emulator", gpu_name, options.limit, action)
            runs += 1
            if outcome.word not in (PASS, SKIP):
                wrong += 1
                print(f"{outcome.word} {key}, seed {seed}: {outcome.reason}", flush=True)
        if not program:
            wrong += 1
            print(f"{key}: {found[key]}", flush=True)
    others = sorted({key.split()[0] for key in changed if key in before})
    if others:
        print("changed: " + " ".join(others))
    new = sum(key not in before for key in changed)
    print(f"{len(changed)} of {len(found)} kernels changed ({new} are new), {runs} runs, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
