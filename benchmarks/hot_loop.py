"""What a compiled kernel does where it spends its time, read from its image: resources, the hot loop, the model's terms.

`measure(image, work, gpu)` gives one flat row. For matrix work tileiras/report/hot_loop.py tells which loop counts; for
memory-bound work every loop counts, an element at a time.
"""

from __future__ import annotations

import dataclasses
import functools
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

_HERE = Path(__file__).resolve().parent
sys.path[:0] = [p for p in (str(_HERE), str(_HERE.parent)) if p not in sys.path]

from production import Product, Stream  # noqa: E402

from tileiras.report import sass  # noqa: E402
from tileiras.report.hot_loop import hottest, tensor_row, widths  # noqa: E402
from tileiras.report.model import GPUS, residency  # noqa: E402
from tileiras.report.sass import Code, Instruction, loads_in_flight  # noqa: E402

Row = dict[str, Any]


class MeasureError(Exception):
    """An image cannot be read or disassembled."""


@functools.cache
def _nvdisasm() -> str:
    import peers

    found = peers.tool("nvdisasm")
    if found is None:
        raise MeasureError("nvdisasm not found: python tests/peers.py install")
    return str(found)


def disassemble(image: bytes) -> dict[str, Code]:
    """name -> machine code of the functions of a cubin."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(image)
        file.flush()
        done = subprocess.run([_nvdisasm(), "-c", file.name], capture_output=True, text=True)
    if done.returncode:
        raise MeasureError(done.stderr.strip()[:200])
    return sass.read_sass(done.stdout)


def measure(image: bytes, work: Product | Stream | None, gpu: int, dynamic: int = 0) -> Row:
    """One row about the first entry of an image; `work` is None where nothing is known about a kernel. `dynamic`: bytes of
    shared memory that its launch adds."""
    from tileiras.toolchain.cubin import read_cubin

    name, kernel = next(iter(read_cubin(image).kernels.items()))
    code = disassemble(image)[name]
    block = kernel.block or kernel.max_threads or (0, 1, 1)
    threads = block[0] * block[1] * block[2]
    shared = kernel.static_shared + dynamic
    fits = residency(GPUS[gpu], kernel.registers, shared, threads)
    row: Row = {
        "registers": kernel.registers, "stack": kernel.stack_bytes, "spill": _spilled(code.instructions),
        "shared": shared, "threads": threads, "blocks": fits.blocks,
        "blocks_by": {"registers": fits.by_registers, "shared": fits.by_shared, "threads": fits.by_threads},
        "instructions": len(code.straight()) + sum(len(i) for i in _separate(code)),
        "global": widths(code.instructions),
    }  # fmt: skip
    work = of_one_cta(work, kernel.cluster[0] if kernel.cluster else 1, code)
    if isinstance(work, Stream):
        return {**row, **_stream(code, work, threads, fits.blocks)}
    return {**row, **tensor_row(code, work, threads, fits.blocks, shared, gpu)}


def of_one_cta(work: Product | Stream | None, ctas: int, code: Code) -> Product | Stream | None:
    """What one of the CTAs does that share a tile block: its rows. The other operand all of them read, or each a part for all."""
    if work is None or ctas == 1:
        return work
    if isinstance(work, Stream):
        return dataclasses.replace(work, elements=work.elements // ctas)
    together = any("MULTICAST" in i.modifiers or "2CTA" in i.modifiers for i in code.instructions)
    other = work.bytes * work.n // (work.m + work.n)
    read = (work.bytes - other) // ctas + (other // ctas if together else other)
    return dataclasses.replace(work, flops=work.flops // ctas, m=work.m // ctas, bytes=read)


def _spilled(instructions: list[Instruction]) -> int:
    """Bytes a thread that stores to local memory name: ptxas counts its spill stores so."""
    return sum(i.bits // 8 for i in instructions if i.base == "STL")


def _separate(code: Code) -> list[list[Instruction]]:
    """The work of each loop without that of the loops in it."""
    out = []
    for loop in code.loops:
        inner = {n for other in code.loops if other.blocks < loop.blocks for n in other.blocks}
        out.append([i for n in sorted(loop.work - inner) for i in code.of_block(n)])
    return out


def _stream(code: Code, work: Stream, threads: int, blocks: int) -> Row:
    """Instructions a thread for each element of the main array, loops by the elements that their accesses cover.

    Where bulk copies feed the kernel, a warpgroup besides the others issues them: every instruction is taken to be run by the
    others alone, and a loop without accesses of its own to handle one chunk.
    """
    straight = code.straight()
    bulk = any(i.kind == "bulk_copy" for i in code.instructions)
    running = max(128, threads - 128) if bulk else threads
    total = len(straight) * running / work.elements
    for body in _separate(code):
        moved = sum(i.bits // 8 for i in body if i.kind == "global_store")
        each = work.written
        if not moved or not each:
            moved, each = sum(i.bits // 8 for i in body if i.kind in ("global_load", "async_copy")), work.read
        elements = running * moved / each if moved and each else work.chunk or work.elements
        total += len(body) * running / max(1.0, elements)
    loop = hottest(code)
    inside = code.of_loop(loop) if loop else straight
    everything = code.instructions
    return {
        "hot": len(inside), "loop": loop is not None, "per_element": round(total, 2),
        "bar": sum(i.kind == "barrier" for i in everything), "hot_bar": sum(i.kind == "barrier" for i in inside),
        "sts": sum(i.kind == "shared_store" for i in everything), "lds": sum(i.kind == "shared_load" for i in everything),
        "hot_global": widths(inside), "issued": round(total, 2), "unit": 1,
        "in_flight": max(loads_in_flight(inside), loads_in_flight(everything)) * threads * blocks,
    }  # fmt: skip
