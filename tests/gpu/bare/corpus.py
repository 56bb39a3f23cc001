"""The corpus on a GPU: each case's images, inputs and expected memory come from the archive. Standard library only.

A case is memory segments, parameters (an address within a segment, or the bytes of a scalar), tensor maps behind them and, for
each segment, what it must hold afterwards: the same bytes, or values within a tolerance.
"""

from __future__ import annotations

import json
import zipfile

from bare.cuda import Gpu
from bare.values import difference

GUARD = 256  # bytes around each segment that no kernel may touch
FILL = b"\xa5"


def run_case(gpu: Gpu, archive: zipfile.ZipFile, name: str) -> str:
    """ "" when all memory is as it must be after the launch, else what is wrong. Errors: CudaError."""
    case = json.loads(archive.read(f"corpus/{name}.json"))
    data = archive.read(f"corpus/{name}.bin")
    image = archive.read(f"images/{case['image']}.cubin")
    function = gpu.function(image, case["symbol"], case["shared"])
    bases = []
    for segment in case["segments"]:
        size = segment["size"]
        base = gpu.allocate(size + 2 * GUARD)
        gpu.write(base, FILL * GUARD + data[segment["at"] : segment["at"] + size] + FILL * GUARD)
        bases.append(base + GUARD)
    parameters = [
        (bases[p["segment"]] + p["offset"]).to_bytes(8, "little")
        if "segment" in p
        else bytes.fromhex(p["bytes"])
        for p in case["parameters"]
    ]
    for made in case["maps"]:
        parameters.append(gpu.tensor_map(int.from_bytes(parameters[made["parameter"]], "little"), made))
    gpu.launch(function, case["grid"], case["block"], case["shared"], parameters)
    gpu.wait()
    problems = []
    for number, (segment, base) in enumerate(zip(case["segments"], bases)):
        size = segment["size"]
        found = gpu.read(base - GUARD, size + 2 * GUARD)
        if found[:GUARD] != FILL * GUARD or found[GUARD + size :] != FILL * GUARD:
            problems.append(f"segment {number}: written beyond its ends")
        want = data[segment["want"] : segment["want"] + size]
        said = difference(
            found[GUARD : GUARD + size], want, segment["kind"], segment["rtol"], segment["atol"]
        )
        if said:
            problems.append(f"segment {number}: {said}")
        gpu.free(base - GUARD)
    return "; ".join(problems)
