"""Running a compiled entry: tile blocks taken from one counter by a pool of threads, faults told as diagnostics."""

from __future__ import annotations

import concurrent.futures
import ctypes
import os
import threading
import time

from tileiras.compiler.ir.dense import dense_bits, num_elements
from tileiras.compiler.ir.types import TensorType
from tileiras.diag import ERROR, EXIT_CONFIGURATION, Diag, Emitted
from tileiras.run.errors import (
    ASSERT_FAILED,
    BAD_STEP,
    DEADLOCK,
    MORE,
    NEAREST,
    OUT_OF_BOUNDS,
    UNDEFINED,
    WAITS,
    LaunchError,
)
from tileiras.run.errors import MISALIGNED as MISALIGNED_ACCESS
from tileiras.run.errors import READ_ONLY as READ_ONLY_MEMORY

from .code import bytes_of, name_of
from .kernel import Kernel
from .runtime import DIVISION, FAULT_WORDS, FAULTS, FIXED, MISALIGNED, OUTSIDE, READ_ONLY, STATE_WORDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tileiras.compiler.ir.core import Op

    Region = tuple[int, int, bool, str]

TOO_LARGE = Diag(
    "RUN-0508", ERROR,
    "kernel '{kernel}' needs {bytes} bytes for the tiles of {blocks} resident tile blocks, more than half of this "
    "machine's memory; the largest tile, {largest} bytes, is made here",
    "cpu",
)  # fmt: skip
"""
see: RUN-0520

! Tile blocks that wait for each other are all resident, and their tiles together fill more than half of the memory:
it depends on the machine.
"""

BAD_SETTING = Diag("RUN-0510", ERROR, "{name}={value}: expected {want}", "cpu")
"""
see: RUN-0520

in: script
  import os
- os.environ["TILEIRAS_CPU_THREADS"] = "many"
+ os.environ["TILEIRAS_CPU_THREADS"] = "2"
  tileiras.launch(kernel, "k", 1, [], target="cpu")
"""

RESIDENT = 1056  # tile blocks that are under way at once where blocks wait for each other
PRINT = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.POINTER(ctypes.c_void_p))
KEPT = 64
HEAD = 2  # words before a launch's record

_kernels: dict[tuple[int, str, bool], tuple[Any, Kernel]] = {}
_lock = threading.Lock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)
_pools: dict[tuple[int, int], concurrent.futures.ThreadPoolExecutor] = {}


def kernel_of(module: Op, entry: str, check: bool) -> Kernel:
    """The compiled entry of a module; the last ones are kept."""
    key = id(module), entry, check
    with _lock:
        found = _kernels.get(key)
        if found is not None and found[0] is module:
            _kernels[key] = _kernels.pop(key)
            return found[1]
    made = Kernel(module, entry, check)
    with _lock:
        _kernels[key] = module, made
        while len(_kernels) > KEPT:
            del _kernels[next(iter(_kernels))]
    return made


def setting(name: str, default: float, want: str, least: float) -> float:
    text = os.environ.get(name, "")
    if not text:
        return default
    try:
        value = float(text)
        if least <= value < float("inf") and (want != "a whole number from 1" or value == int(value)):
            return value
    except ValueError:
        pass
    facts = [("name", name), ("value", text), ("want", want)]
    raise LaunchError([Emitted(BAD_SETTING, None, None, facts)], EXIT_CONFIGURATION)


def threads() -> int:
    """How many threads run tile blocks: TILEIRAS_CPU_THREADS, else the CPUs that this process may use."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return int(setting("TILEIRAS_CPU_THREADS", count, "a whole number from 1", 1))


def pool(size: int) -> concurrent.futures.ThreadPoolExecutor:
    """Threads that stay between launches; a forked process has its own."""
    key = os.getpid(), size
    with _lock:
        found = _pools.get(key)
        if found is None:
            found = _pools[key] = concurrent.futures.ThreadPoolExecutor(size, "tile blocks")
        return found


def memory_bytes() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 1 << 62


class Space:
    """Bytes on a 64-byte boundary; pages that are never touched cost nothing."""

    __slots__ = ("address", "raw")

    def __init__(self, size: int) -> None:
        import mmap

        self.raw = mmap.mmap(-1, max(size, 1) + 64) if size >= 1 << 16 else bytearray(size + 64)
        start = ctypes.addressof((ctypes.c_char * 1).from_buffer(self.raw))
        self.address = (start + 63) // 64 * 64


def global_bytes(op: Op) -> tuple[bytes, int]:
    """(initial value, alignment) of a global."""
    dense: Any = op.attr("value")
    name, count = name_of(dense.type.elem), num_elements(dense.type.shape)
    size, bits = bytes_of(name), dense_bits(dense)
    if name == "tf32":
        bits = [b << 13 for b in bits]
    data = b"".join(b.to_bytes(size, "little") for b in (bits * count if len(bits) == 1 else bits)[:count])
    return data, max(op.attr("alignment") or 0, 256)


def place_globals(kernel: Kernel) -> list[tuple[Any, int]]:
    """(owner, address) of fresh memory with the initial value of each global."""
    out = []
    for op in kernel.globals:
        data, alignment = global_bytes(op)
        raw = ctypes.create_string_buffer(len(data) + alignment)
        address = (ctypes.addressof(raw) + alignment - 1) // alignment * alignment
        ctypes.memmove(address, data, len(data))
        out.append((raw, address))
    return out


def launch(
    module: Op,
    entry: str,
    grid: tuple[int, int, int],
    data: list[bytes],
    write: Callable[[Op, list[tuple[int, str, tuple[int, ...]]]], None],
    regions: list[Region] | None = None,
) -> None:
    """Run `entry` of a verified cuda_tile module for every tile block of `grid`.

    data: the encoded bytes of each parameter. write: prints, given the op and (address, element type, shape) of
    each argument. regions: (start, end, read-only, label) of the memory that was passed, to check every access
    against; None: no checks. Errors: LaunchError.
    """
    kernel = kernel_of(module, entry, regions is not None)
    globals = place_globals(kernel)
    total = grid[0] * grid[1] * grid[2]
    words = (ctypes.c_int64 * (HEAD + FIXED + len(data) + len(globals)))()
    faults = (ctypes.c_int64 * (1 + FAULTS * FAULT_WORDS))()
    words[HEAD - 1] = ctypes.addressof(faults)
    words[HEAD : HEAD + 4] = [*grid, total]
    failures: list[BaseException] = []

    def printed(number: int, table: Any) -> None:
        try:
            op = kernel.sites[number]
            types: list[Any] = [v.type for v in op.group("args")]
            write(op, [(table[i], name_of(t.elem), t.shape) for i, t in enumerate(types)])
        except BaseException as failure:
            failures.append(failure)
            words[HEAD + 5] = 1

    callback = PRINT(printed) if kernel.prints else None
    if callback is not None:
        words[HEAD + 7] = ctypes.cast(callback, ctypes.c_void_p).value or 0
    for i, value in enumerate(data):
        words[HEAD + FIXED + i] = int.from_bytes(value.ljust(8, b"\0"), "little", signed=True)
    for i, (_, address) in enumerate(globals):
        words[HEAD + FIXED + len(data) + i] = address
    most = threads()
    workers = min(total, RESIDENT if kernel.waits else 1 if kernel.prints else most)
    if workers * kernel.cpu_bytes > memory_bytes() // 2:
        size, op = kernel.largest
        facts = [
            ("kernel", entry),
            ("bytes", workers * kernel.cpu_bytes),
            ("blocks", workers),
            ("largest", size),
        ]
        raise LaunchError(
            [Emitted(TOO_LARGE, op.loc if op else None, op.spec.source_name if op else None, facts)]
        )
    if regions is not None:
        for op, (raw, address) in zip(kernel.globals, globals):
            size = max(1, len(raw) - max(op.attr("alignment") or 0, 256))
            regions = [
                *regions,
                (address, address + size, bool(op.attr("constant")), f"global @{op.attr('sym_name')}"),
            ]
    run(kernel, words, workers, total, regions)
    if failures:
        raise failures[0]
    tell(kernel, faults, regions or [])


def run(kernel: Kernel, words: Any, workers: int, total: int, regions: list[Region] | None) -> None:
    record = ctypes.addressof(words) + 8 * HEAD
    step = (kernel.cpu_bytes + 127) // 64 * 64
    arena = Space(workers * step)
    known = [(r[0], r[1], int(r[2])) for r in regions or ()]
    known.append((arena.address, arena.address + workers * step, 0))  # where the kernel's own memory lies
    table = (ctypes.c_int64 * (1 + 3 * len(known)))(len(known), *(n for r in known for n in r))
    words[HEAD - 2] = ctypes.addressof(table)
    states = (ctypes.c_int64 * (STATE_WORDS * workers))()
    first = ctypes.addressof(states)
    share = total + 1 if kernel.waits else 4 * workers

    def one(i: int) -> None:
        kernel.code.run(record, arena.address + i * step, first + 8 * STATE_WORDS * i, share)

    if kernel.waits:
        together(kernel, one, words, states, workers, total)
        return
    # signals reach Python only in the main thread, and only while it is not in native code
    mine = 0 if threading.current_thread() is threading.main_thread() else 1
    crew = [pool(threads()).submit(one, i) for i in range(mine, workers)]
    try:
        if mine:
            one(0)
        concurrent.futures.wait(crew)
    except BaseException:
        words[HEAD + 5] = 1
        concurrent.futures.wait(crew)
        raise
    for each in crew:
        each.result()


def together(
    kernel: Kernel, one: Callable[[int], None], words: Any, states: Any, workers: int, total: int
) -> None:
    """One thread for each resident block, watched: when all wait and memory does not change, that is a deadlock."""
    patience = setting("TILEIRAS_CPU_TIMEOUT", 2.0, "a number of seconds, 0 for never", 0)
    before = threading.stack_size()
    crew = []
    try:
        threading.stack_size(1 << 20)
        for i in range(workers):
            thread = threading.Thread(target=one, args=(i,), name="tile block", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the system gives no more threads: those that run must do
                states[STATE_WORDS * i + 6] = 1
                continue
            crew.append(thread)
    finally:
        threading.stack_size(before)
    changes, since = words[HEAD + 6], time.monotonic()
    stuck = None
    try:
        for thread in crew:
            while thread.is_alive():
                thread.join(0.05)
                if not thread.is_alive() or not patience or stuck:
                    continue
                waiting = [i for i in range(workers) if not states[STATE_WORDS * i + 6]]
                quiet = words[HEAD + 6] == changes and all(states[STATE_WORDS * i + 3] for i in waiting)
                if not quiet:
                    changes, since = words[HEAD + 6], time.monotonic()
                elif waiting and time.monotonic() - since > patience:
                    stuck = (
                        list(states[STATE_WORDS * waiting[0] : STATE_WORDS * (waiting[0] + 1)]),
                        len(waiting),
                    )
                    words[HEAD + 5] = 1
    except BaseException:
        words[HEAD + 5] = 1
        for thread in crew:
            thread.join()
        raise
    if stuck:
        state, count = stuck
        op, place = kernel.sites[state[0]], f"{state[4]:#x}" if state[4] else "of a tile"
        facts = [
            ("block", block_text(state[5], words[HEAD], words[HEAD + 1])), ("address", place), ("seconds", patience),
        ]  # fmt: skip
        told = [("kernel", kernel.name), ("count", count), ("total", total)]
        found = Emitted(DEADLOCK, op.loc, op.spec.source_name, told)
        found.notes.append(Emitted(WAITS, op.loc, None, facts))
        raise LaunchError([found])


def block_text(number: int, x: int, y: int) -> str:
    return f"({number % x}, {number // x % y}, {number // (x * y)})"


def tell(kernel: Kernel, faults: Any, regions: list[Region]) -> None:
    """Raises what the launch found."""
    count = faults[0]
    if not count:
        return
    found = []
    for i in range(min(count, FAULTS)):
        found.append(told(kernel, faults[1 + FAULT_WORDS * i : 1 + FAULT_WORDS * (i + 1)], regions))
    kept = found[:8]
    if count > len(kept):
        kept[-1].notes.append(Emitted(MORE, kept[-1].loc, None, [("count", count - len(kept))]))
    raise LaunchError(kept)


def told(kernel: Kernel, words: list[int], regions: list[Region]) -> Emitted:
    """One fault as a diagnostic."""
    site, x, y, z, element, value = words
    op, kind, block = kernel.sites[site & 0xFFFFFFFF], site >> 32, f"({x}, {y}, {z})"
    loc, name = op.loc, op.spec.source_name
    shape: Any = ()
    for v in (*op.operands, *op.results):
        shape = max(shape, getattr(v.type, "shape", ()), key=len) if hasattr(v.type, "elem") else shape
    if kind in (OUTSIDE, MISALIGNED, READ_ONLY):
        elem: Any = next(
            v.type.elem  # type: ignore[attr-defined]
            for v in (*op.results, *op.operands[::-1])
            if isinstance(v.type, TensorType) and name_of(v.type.elem) not in ("i1", "ptr")  # type: ignore[attr-defined]
        ) if kind != READ_ONLY else None  # fmt: skip
        verb = "reads" if op.spec.name.startswith("load") else "writes"
        near = nearest(value, regions)
        if kind == READ_ONLY:
            label = near[0] if near else ""
            return Emitted(READ_ONLY_MEMORY, loc, name, [("label", label), ("block", block)])
        facts = [
            ("verb", verb),
            ("size", bytes_of(name_of(elem))),
            ("address", f"{value & (1 << 64) - 1:#x}"),
        ]
        facts += [("block", block), ("element", place_text(element, shape))]
        out = Emitted(OUT_OF_BOUNDS if kind == OUTSIDE else MISALIGNED_ACCESS, loc, name, facts)
        if near and kind == OUTSIDE:
            out.notes.append(Emitted(NEAREST, loc, None, [("label", near[0]), ("distance", near[1])]))
        return out
    if kind == DIVISION:
        where = place_text(element, shape)
        return Emitted(
            UNDEFINED, loc, name, [("what", "division by zero"), ("block", block), ("element", where)]
        )
    if op.spec.name == "assert":
        where = f"element {place_text(element, shape)}" if shape else "scalar condition"
        return Emitted(
            ASSERT_FAILED, loc, name, [("message", op.attr("message")), ("block", block), ("where", where)]
        )
    return Emitted(UNDEFINED, loc, name, [("what", BAD_STEP), ("block", block), ("element", "[]")])


def nearest(address: int, regions: list[Region]) -> tuple[str, str] | None:
    """(label of the region closest to an address, how far it is)."""
    best = None
    for start, end, _, label in regions:
        distance = start - address if address < start else max(0, address - end)
        if best is None or distance < best[0]:
            inside = start <= address < end
            where = (
                f"the access starts {end - address} bytes before its end and passes it" if inside
                else f"{distance} bytes past its end" if address >= end else f"{distance} bytes before its start"
            )  # fmt: skip
            best = distance, label, where
    return best[1:] if best else None


def place_text(number: int, shape: tuple[int, ...]) -> str:
    """[i, j] of a packed element number."""
    out = []
    for extent in reversed(shape):
        out.append(number % extent)
        number //= extent
    return "[" + ", ".join(map(str, reversed(out))) + "]"
