"""The reference interpreter: what a Tile IR kernel means, computed with NumPy, tile block by tile block.

It runs any op on any element type with exact rounding, on real addresses, and knows nothing of the compiler's
lowerings: it is one of the three witnesses that a kernel is right.
"""

from __future__ import annotations

import random
from contextvars import ContextVar

import numpy as np

from tileiras.run.entries import find_entry

from . import access, atomics, compile, convert, diags, effects, floatops, ints, shapes, views  # noqa: F401 - ops register
from .compile import Compiler
from .floats import storage_dtype
from .memory import Memory
from .schedule import Scheduler
from .state import Block, Launch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, TextIO

    from tileiras.compiler.ir.core import Op
    from tileiras.run.args import Arguments


# Called with (tile blocks that have ended, tile blocks of the grid) as a launch goes on; who shows progress sets it.
watcher: ContextVar[Callable[[int, int], None] | None] = ContextVar("watcher", default=None)


def place_globals(module: Op, launch: Launch) -> None:
    """Give each global of the module memory with its initial value."""
    for op in module.regions[0].block.ops:
        if op.spec.name != "global":
            continue
        dense, name = op.attr("value"), op.attr("sym_name")
        values = np.ascontiguousarray(shapes.dense_to_array(dense))
        if dense.type.elem.name == "i1":
            values = values.astype(np.uint8)
        size = values.nbytes
        start, raw = launch.allocate(size, max(op.attr("alignment") or 0, 256), f"global @{name}")
        launch.keep.append(raw)
        if size:
            region = launch.memory.find(start, start + size)
            assert region is not None
            region.bytes[start - region.start : start - region.start + size] = values.reshape(-1).view(
                np.uint8
            )
            region.read_only = bool(op.attr("constant"))
        launch.globals[name] = start


def decode_scalar(data: bytes, elem: Any) -> Any:
    """The value of a scalar parameter from its encoded bytes."""
    dtype = storage_dtype(elem)
    if dtype.kind == "b":
        return np.bool_(data[0] != 0)
    return np.frombuffer(data, dtype)[0]


def launch(
    module: Op,
    entry: str,
    grid: tuple[int, int, int],
    arguments: Arguments,
    memory: Iterable[np.ndarray] = (),
    check: bool = False,
    seed: int | None = None,
    out: TextIO | None = None,
) -> None:
    """Run `entry` of a cuda_tile module for every tile block of `grid`.

    memory: arrays that the kernel reaches only through stored pointers. check: also report undefined behaviour
    (false assumptions, division by zero, broken overflow promises, indices outside of the index space), and
    fill what has no specified value with patterns that show. seed: run the tile blocks in a shuffled order.
    Errors: LaunchError with one diagnostic per finding.
    """
    op = find_entry(module, entry)
    space = Memory()
    for i, array in enumerate(arguments.arrays):
        space.add_array(array, arguments.labels[i])
    for i, array in enumerate(memory):
        space.add_array(array, f"memory[{i}]")
    state = Launch(space, grid, check, out)
    place_globals(module, state)

    with np.errstate(all="ignore"):
        compiler = Compiler(module, op, check)
        block = op.regions[0].block
        slots = compiler.slots_of(block.args)
        run = compiler.block(block)
        template = compiler.template
        for slot, value, data in zip(slots, block.args, arguments.data):
            template[slot] = decode_scalar(data, value.type.elem)  # type: ignore[attr-defined]

        total = grid[0] * grid[1] * grid[2]
        ids: Iterable[tuple[int, int, int]] = (
            (x, y, z) for z in range(grid[2]) for y in range(grid[1]) for x in range(grid[0])
        )
        if seed is not None:
            ids = list(ids)
            random.Random(seed).shuffle(ids)
        scheduler = None
        tell, ended = watcher.get(), 0

        def run_block(id: tuple[int, int, int]) -> None:
            nonlocal ended
            tile_block = Block(state, id)
            if scheduler is not None:
                tile_block.observe = scheduler.watch()
            frame = template.copy()
            frame[0] = tile_block
            try:
                run(frame)
            finally:
                tile_block.release()
            ended += 1
            if tell is not None:
                tell(ended, total)

        if compiler.waits:
            scheduler = state.scheduler = Scheduler(entry, state, ids, total, run_block)
            scheduler.start()
        else:
            for id in ids:
                run_block(id)
    state.finish()
