"""Optimisation remarks: what became of memory accesses, layout conversions and matrix products.

The observer looks at the instructions that an op's lowering appended, so a remark says what is in the PTX and not
what was planned. It exists only when a remark was asked for; otherwise lowering pays one comparison an op.
"""

from __future__ import annotations

from tileiras.compiler.ir.views import unit_dim, view_dims
from tileiras.compiler.layout import convert as plans
from tileiras.compiler.layout.gf2 import apply
from tileiras.compiler.layout.linear import dim_bits, log2, neighbours
from tileiras.compiler.nvvm.inst import PSEUDO
from tileiras.compiler.passes.tileaa.facts import Facts
from tileiras.compiler.target.registers import moved_bytes
from tileiras.diag import REMARK, Diag, Emitted

from .state import Lowering, elem_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tileiras.compiler.ir.core import Op

SECTOR_BYTES = 32  # what the memory system moves at least
WIDEST_BYTES = 16  # what one thread's instruction moves at most

ACCESS = Diag(
    "GlobalAccess", REMARK, "{what}: {count} x {instruction} per thread, {bytes} bytes each", "lowering",
    kind="passed", category="memory",
)  # fmt: skip
"""
cause: A remark: it tells what the compiler made of an access, a product or the kernel.
remedy: Nothing is wrong. Compare the numbers between two versions of a kernel.

in: kernel(%p: tile<ptr<f32>>)
- $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx --remarks=all
+ $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx --remarks=none
      %pa = assume div_by<16>, %p : tile<ptr<f32>>
      %v = make_tensor_view %pa, shape = [512], strides = [1] : tensor_view<512xf32, strides=[1]>
      %w = make_partition_view %v : partition_view<tile=(512), tensor_view<512xf32, strides=[1]>>
      %i = constant <i32: 0> : tile<i32>
      %x, %t = load_view_tko weak %w[%i] : partition_view<tile=(512), tensor_view<512xf32, strides=[1]>>, tile<i32> -> tile<512xf32>, token
      %s = store_view_tko weak %x, %w[%i] token = %t : tile<512xf32>, partition_view<tile=(512), tensor_view<512xf32, strides=[1]>>, tile<i32> -> token
"""  # noqa: E501

NARROW = Diag(
    "GlobalAccessNotVectorized", REMARK,
    "{what} could move {possible} bytes per thread and instruction, moves {bytes}: {reason}", "lowering",
    kind="missed", category="memory",
)  # fmt: skip
"""
cause: A thread moves fewer bytes with an instruction than it could: alignment or contiguity is not known, or the
tile is small.
remedy: Promise alignment and divisibility of strides and extents (assume), or use a wider tile in the contiguous
dimension.

in: kernel(%p: tile<ptr<f32>>)
  $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx --remarks=all
-     %pa = assume div_by<4>, %p : tile<ptr<f32>>
+     %pa = assume div_by<16>, %p : tile<ptr<f32>>
      %v = make_tensor_view %pa, shape = [512], strides = [1] : tensor_view<512xf32, strides=[1]>
      %w = make_partition_view %v : partition_view<tile=(512), tensor_view<512xf32, strides=[1]>>
      %i = constant <i32: 0> : tile<i32>
      %x, %t = load_view_tko weak %w[%i] : partition_view<tile=(512), tensor_view<512xf32, strides=[1]>>, tile<i32> -> tile<512xf32>, token
      %s = store_view_tko weak %x, %w[%i] token = %t : tile<512xf32>, partition_view<tile=(512), tensor_view<512xf32, strides=[1]>>, tile<i32> -> token
"""  # noqa: E501

SCATTERED = Diag(
    "GlobalAccessNotCoalesced", REMARK,
    "{what} touches {bytes} neighbouring bytes per warp and row, less than a sector of 32: {reason}", "lowering",
    kind="missed", category="memory",
)  # fmt: skip
"""
cause: Neighbouring threads touch addresses far apart, so that most of each sector of 32 bytes is moved for nothing.
remedy: Let the last dimension of the tile be the contiguous one in memory; transpose after loading, not by strides.

in: kernel(%p: tile<ptr<f32>>)
  $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx --remarks=all
      %pa = assume div_by<16>, %p : tile<ptr<f32>>
-     %v = make_tensor_view %pa, shape = [512], strides = [2] : tensor_view<512xf32, strides=[2]>
-     %w = make_partition_view %v : partition_view<tile=(512), tensor_view<512xf32, strides=[2]>>
+     %v = make_tensor_view %pa, shape = [512], strides = [1] : tensor_view<512xf32, strides=[1]>
+     %w = make_partition_view %v : partition_view<tile=(512), tensor_view<512xf32, strides=[1]>>
      %i = constant <i32: 0> : tile<i32>
-     %x, %t = load_view_tko weak %w[%i] : partition_view<tile=(512), tensor_view<512xf32, strides=[2]>>, tile<i32> -> tile<512xf32>, token
-     %s = store_view_tko weak %x, %w[%i] token = %t : tile<512xf32>, partition_view<tile=(512), tensor_view<512xf32, strides=[2]>>, tile<i32> -> token
+     %x, %t = load_view_tko weak %w[%i] : partition_view<tile=(512), tensor_view<512xf32, strides=[1]>>, tile<i32> -> tile<512xf32>, token
+     %s = store_view_tko weak %x, %w[%i] token = %t : tile<512xf32>, partition_view<tile=(512), tensor_view<512xf32, strides=[1]>>, tile<i32> -> token
"""  # noqa: E501

SHUFFLED = Diag(
    "LayoutThroughShuffles", REMARK, "layout conversion by {shuffles} warp shuffles per thread", "lowering",
    kind="analysis", category="memory",
)  # fmt: skip
"""
cause: Two operations want a value spread over the threads in different ways, so it is exchanged between them.
remedy: Cheaper when rarer: avoid permutes and reductions over other dimensions inside loops, and change shapes
before loading.

in: kernel(%p: tile<ptr<f32>>, %q: tile<ptr<f32>>)
  $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx --remarks=all
      %i = iota : tile<4xi32>
      %pp = reshape %p : tile<ptr<f32>> -> tile<1xptr<f32>>
      %pb = broadcast %pp : tile<1xptr<f32>> -> tile<4xptr<f32>>
      %pi = offset %pb, %i : tile<4xptr<f32>>, tile<4xi32> -> tile<4xptr<f32>>
      %pr = reshape %pi : tile<4xptr<f32>> -> tile<4x1xptr<f32>>
-     %x, %t = load_ptr_tko weak %pr : tile<4x1xptr<f32>> -> tile<4x1xf32>, token
-     %y = broadcast %x : tile<4x1xf32> -> tile<4x8xf32>
+     %pe = broadcast %pr : tile<4x1xptr<f32>> -> tile<4x8xptr<f32>>
+     %y, %t = load_ptr_tko weak %pe : tile<4x8xptr<f32>> -> tile<4x8xf32>, token
      %j = iota : tile<32xi32>
      %qq = reshape %q : tile<ptr<f32>> -> tile<1xptr<f32>>
      %qb = broadcast %qq : tile<1xptr<f32>> -> tile<32xptr<f32>>
      %qi = offset %qb, %j : tile<32xptr<f32>>, tile<32xi32> -> tile<32xptr<f32>>
      %qr = reshape %qi : tile<32xptr<f32>> -> tile<4x8xptr<f32>>
      %s = store_ptr_tko weak %qr, %y : tile<4x8xptr<f32>>, tile<4x8xf32> -> token
"""

ROUND_TRIP = Diag(
    "LayoutThroughSharedMemory", REMARK,
    "layout conversion through {bytes} bytes of shared memory in {rounds} round(s): {stores} stores and {loads} loads per "
    "thread, {store_waves} and {load_waves} wavefronts each where {store_least} and {load_least} are the least", "lowering",
    kind="analysis", category="memory",
)  # fmt: skip
"""
see: LayoutThroughShuffles

in: kernel(%p: tile<ptr<f32>>)
  $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx --remarks=all
      %v = make_tensor_view %p, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
      %w = make_partition_view %v : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>
      %i = constant <i32: 0> : tile<i32>
      %x, %t = load_view_tko weak %w[%i, %i] : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32> -> tile<64x64xf32>, token
-     %y = permute %x [1, 0] : tile<64x64xf32> -> tile<64x64xf32>
+     %y = absf %x : tile<64x64xf32>
      %z = addf %x, %y : tile<64x64xf32>
      %s = store_view_tko weak %z, %w[%i, %i] token = %t : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32> -> token
"""  # noqa: E501

SHARED = Diag(
    "ExchangeThroughSharedMemory", REMARK,
    "{what} exchanges values through shared memory: {stores} stores, {loads} loads, {barriers} barriers", "lowering",
    kind="analysis", category="memory",
)  # fmt: skip
"""
see: LayoutThroughShuffles

in: kernel(%p: tile<ptr<f32>>)
  $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx --remarks=all
-     %v = make_tensor_view %p, shape = [1024], strides = [1] : tensor_view<1024xf32, strides=[1]>
-     %w = make_partition_view %v : partition_view<tile=(1024), tensor_view<1024xf32, strides=[1]>>
+     %v = make_tensor_view %p, shape = [32], strides = [1] : tensor_view<32xf32, strides=[1]>
+     %w = make_partition_view %v : partition_view<tile=(32), tensor_view<32xf32, strides=[1]>>
      %i = constant <i32: 0> : tile<i32>
-     %x, %t = load_view_tko weak %w[%i] : partition_view<tile=(1024), tensor_view<1024xf32, strides=[1]>>, tile<i32> -> tile<1024xf32>, token
-     %y = reduce %x dim=0 identities=[0.0 : f32] : tile<1024xf32> -> tile<f32>
+     %x, %t = load_view_tko weak %w[%i] : partition_view<tile=(32), tensor_view<32xf32, strides=[1]>>, tile<i32> -> tile<32xf32>, token
+     %y = reduce %x dim=0 identities=[0.0 : f32] : tile<32xf32> -> tile<f32>
      (%a: tile<f32>, %b: tile<f32>) {
        %c = addf %a, %b : tile<f32>
        yield %c : tile<f32>
      }
      %s = store_ptr_tko weak %p, %y token = %t : tile<ptr<f32>>, tile<f32> -> token
"""  # noqa: E501

MMA = Diag(
    "TensorCore", REMARK, "matrix product on tensor cores: {instruction}, {count} per thread", "lowering",
    kind="passed", category="tensorcore",
)  # fmt: skip
"""
see: GlobalAccess

in: kernel(%p: tile<ptr<f16>>, %q: tile<ptr<f32>>)
- $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx --remarks=all
+ $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx --remarks=none
      %v = make_tensor_view %p, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf16, strides=[64,1]>
      %w = make_partition_view %v : partition_view<tile=(64x64), tensor_view<64x64xf16, strides=[64,1]>>
      %u = make_tensor_view %q, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
      %o = make_partition_view %u : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>
      %i = constant <i32: 0> : tile<i32>
      %x, %t = load_view_tko weak %w[%i, %i] : partition_view<tile=(64x64), tensor_view<64x64xf16, strides=[64,1]>>, tile<i32> -> tile<64x64xf16>, token
      %c = constant <f32: 0.0> : tile<64x64xf32>
      %y = mmaf %x, %x, %c : tile<64x64xf16>, tile<64x64xf16>, tile<64x64xf32>
      %s = store_view_tko weak %y, %o[%i, %i] token = %t : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32> -> token
"""  # noqa: E501

NO_MMA = Diag(
    "NoTensorCore", REMARK, "matrix product by fused multiply-adds: {reason}", "lowering",
    kind="missed", category="tensorcore",
)  # fmt: skip
"""
cause: A matrix product runs as multiplications and additions; the remark names why no tensor core takes it.
remedy: Use element types and extents that the target's tensor cores have: f16, bf16, tf32, 8-bit types, M and N of
at least 16 and 8.

  $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx --remarks=all
  cuda_tile.module @m {
-   entry @k(%p: tile<ptr<f32>>, %q: tile<ptr<f32>>) {
-     %v = make_tensor_view %p, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
-     %w = make_partition_view %v : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>
+   entry @k(%p: tile<ptr<f16>>, %q: tile<ptr<f32>>) {
+     %v = make_tensor_view %p, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf16, strides=[64,1]>
+     %w = make_partition_view %v : partition_view<tile=(64x64), tensor_view<64x64xf16, strides=[64,1]>>
      %u = make_tensor_view %q, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
      %o = make_partition_view %u : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>
      %i = constant <i32: 0> : tile<i32>
-     %x, %t = load_view_tko weak %w[%i, %i] : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32> -> tile<64x64xf32>, token
+     %x, %t = load_view_tko weak %w[%i, %i] : partition_view<tile=(64x64), tensor_view<64x64xf16, strides=[64,1]>>, tile<i32> -> tile<64x64xf16>, token
      %c = constant <f32: 0.0> : tile<64x64xf32>
-     %y = mmaf %x, %x, %c : tile<64x64xf32>, tile<64x64xf32>, tile<64x64xf32>
+     %y = mmaf %x, %x, %c : tile<64x64xf16>, tile<64x64xf16>, tile<64x64xf32>
      %s = store_view_tko weak %y, %o[%i, %i] token = %t : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32> -> token
      return
    }
  }
"""  # noqa: E501


_WHAT = {
    "load_view_tko": "load", "load_ptr_tko": "load", "store_view_tko": "store", "store_ptr_tko": "store",
    "atomic_rmw_tko": "atomic", "atomic_cas_tko": "atomic", "atomic_red_view_tko": "atomic", "reduce": "reduction",
    "scan": "scan", "convert_layout": "layout conversion", "convert_layouts": "layout conversion",
}  # fmt: skip


class Observer:
    """Emits the remarks of one function."""

    __slots__ = ("asked", "facts", "lowering", "trips")

    def __init__(self, lowering: Lowering, asked: dict[str, str]) -> None:
        self.lowering = lowering
        self.asked = asked  # kind -> category
        self.facts = Facts()
        self.trips: list[
            Any
        ] = []  # (layout, layout, SharedPlan) of the round trips of the op at hand, from convert.py

    def watch(self, op: Op, rule: Callable[[Lowering, Op], None]) -> None:
        """Run the lowering of an op and report on what it made."""
        report = _REPORTS.get(op.spec.name)
        if report is None:
            return rule(self.lowering, op)
        code = self.lowering.b.code
        start = len(code)
        self.trips = []
        rule(self.lowering, op)
        counts: dict[str, int] = {}
        for record in code[start:] if self.lowering.b.code is code else ():
            if record.__class__ is tuple and record[0] not in PSEUDO:
                counts[record[0]] = counts.get(record[0], 0) + 1
        report(self, op, counts)

    def replaced(self, records: list[tuple[Any, Any]]) -> None:
        """Records took the places of others."""

    def say(self, diag: Diag, op: Op, **facts: object) -> None:
        if diag.wanted(self.asked):
            facts = {"function": self.lowering.fn.name, **facts}
            self.lowering.sink.deliver(Emitted(diag, op.loc, facts=facts.items()))


def _picked(counts: dict[str, int], *prefixes: str) -> dict[str, int]:
    return {opcode: n for opcode, n in counts.items() if opcode.startswith(prefixes)}


def _bytes_of(opcode: str) -> int:
    """Bytes that one thread moves with an ld, st, atom or red."""
    lanes, bits = 1, 32
    for word in opcode.split("."):
        if word[0] == "v" and word[1:].isdigit():
            lanes = int(word[1:])
        elif word[0] in "bufs" and word[1:].isdigit():
            bits = int(word[1:])
    return lanes * bits // 8


def _access(observer: Observer, op: Op, counts: dict[str, int]) -> None:
    what = _WHAT[op.spec.name]
    space = observer.lowering.space
    found = _picked(
        counts, f"ld{space}.", f"st{space}.", "ld.relaxed", "ld.acquire", "st.relaxed", "st.release"
    )
    if not found:
        return
    widest = max(found, key=_bytes_of)
    moved = _bytes_of(widest)
    observer.say(ACCESS, op, what=what, bytes=moved, instruction=widest, count=sum(found.values()))
    if what == "load":
        value: Any = op.results[0].type
        layout = value.layout
    else:
        value = op.operand("tile" if "view" in op.spec.name else "value").type  # type: ignore[union-attr]
        layout = op.attrs["layout"]
    size = elem_bytes(value.elem)
    possible = min(WIDEST_BYTES, size * layout.num_regs)
    if moved < possible:
        reason = _narrow(observer.facts, op, value, layout, size, possible)
        observer.say(NARROW, op, what=what, possible=possible, bytes=moved, reason=reason)
    if size * (1 << value_bits(value)) < SECTOR_BYTES:
        return  # the whole tile is smaller than what the memory moves
    covered, reason = _warp_bytes(op, value, layout, size, moved)
    if covered < SECTOR_BYTES:
        observer.say(SCATTERED, op, what=what, bytes=covered, reason=reason)


def value_bits(type: Any) -> int:
    bits = 0
    for extent in type.shape:
        bits += extent.bit_length() - 1
    return bits


def _narrow(facts: Facts, op: Op, value: Any, layout: Any, size: int, possible: int) -> str:
    """Why a thread's neighbouring elements travel one by one."""
    if op.attr("memory_ordering_semantics") != "weak":
        return f"{op.attr('memory_ordering_semantics')} accesses are made element by element"
    if "view" in op.spec.name:
        known = _known_of_view(facts, op, value, size, possible)
        if known:
            return known
        unit, _ = _row(op)
        run = 1 << neighbours(layout, *dim_bits(value.shape)[unit], log2(WIDEST_BYTES // size))
        alignment = facts.view_alignment(op, unit)
        if run > 1 and alignment < min(possible, run * size):
            return f"the address is only known to be a multiple of {alignment} bytes"
        if facts.view_together(op, unit) < run:
            return "neighbouring elements have different masks: the extent is not known to be a multiple of the vector"
    else:
        pointers: Any = op.operand("source" if op.results[0].type is value else "destination")
        run = 1 << facts.pointer_run(pointers, op.operand("mask"), layout, size)
    if run == 1:
        return "the elements of a thread are not neighbours in memory, or not known to be"
    return f"a thread holds {run} neighbouring elements of {size} bytes"


def _no_row(op: Op) -> str:
    """Why no dimension of a view's tile has neighbours in memory."""
    from .views import view_steps

    type: Any = op.operand("view").type  # type: ignore[union-attr]
    for d, m in enumerate(view_steps(type)[1]):
        if type.view.strides[m] == 1 and d != getattr(type, "sparse_dim", -1):
            return f"the tile has one element in dimension {d}, which is the one of stride 1"
    return "no dimension of the tile is known to have stride 1"


def _row(op: Op) -> tuple[int, int]:
    """(tile dimension whose elements are neighbours in memory, its tensor dimension); (-1, -1) for none."""
    type: Any = op.operand("view").type  # type: ignore[union-attr]
    unit = unit_dim(type)
    return unit, view_dims(type)[unit] if unit >= 0 else -1


def _known_of_view(facts: Any, op: Op, value: Any, size: int, possible: int) -> str:
    """What about a view is not known well enough for vectors; "" when all is."""
    view: Any = op.operand("view")
    d, m = _row(op)
    if d < 0:
        return _no_row(op)
    if value.shape[d] * size < possible:
        return f"the tile has {value.shape[d]} neighbouring elements of {size} bytes in a row"
    if facts.pointer_alignment(view) < possible:
        return f"the base address is only known to be a multiple of {facts.pointer_alignment(view)} bytes"
    for other in range(len(view.type.view.shape)):
        if other != m and facts.stride_alignment(view, other, size) < possible:
            known = facts.stride_alignment(view, other, size)
            return f"the stride of dimension {other} is only known to be a multiple of {known} bytes"
    inbounds = op.attr("inbounds") if "inbounds" in op.spec.attr_by_name else None
    if (
        not (inbounds and d < len(inbounds) and inbounds[d])
        and facts.extent_divisor(view, m) * size < possible
    ):
        return f"the extent of dimension {m} is only known to be a multiple of {facts.extent_divisor(view, m)} elements"
    return ""


def _warp_bytes(op: Op, value: Any, layout: Any, size: int, moved: int) -> tuple[int, str]:
    """(neighbouring bytes that the lanes of a warp touch together, why there are not more)."""
    shape = value.shape
    if "view" not in op.spec.name:
        run_dim = len(shape) - 1  # pointers: by the order of elements, which is all that is known
        if not shape:
            return SECTOR_BYTES, ""
    else:
        run_dim, _ = _row(op)
        if run_dim < 0:
            return min(moved, SECTOR_BYTES), _no_row(op)
    low = sum(extent.bit_length() - 1 for extent in shape[run_dim + 1 :])
    count = shape[run_dim].bit_length() - 1
    mine = {
        c
        for c in (*layout.lane, *layout.reg)
        if c and c & (c - 1) == 0 and low <= c.bit_length() - 1 < low + count
    }
    run = 0
    while run < count and 1 << (low + run) in mine:
        run += 1
    if run == count:
        return size << run, f"the tile has {shape[run_dim]} neighbouring elements of {size} bytes in a row"
    return (
        size << run,
        f"the lanes of a warp do not walk dimension {run_dim} of the tile, which is the one of stride 1",
    )


def _convert(observer: Observer, op: Op, counts: dict[str, int]) -> None:
    stores, loads = _picked(counts, "st.shared"), _picked(counts, "ld.shared")
    if not observer.trips:
        shuffles = sum(_picked(counts, "shfl.").values())
        if shuffles:
            observer.say(SHUFFLED, op, shuffles=shuffles)
        return _exchange(observer, op, counts)  # by other means than a planned round trip: ldmatrix
    source, target, plan = observer.trips[0]  # the others differ in what they leave out only
    size = moved_bytes(op.operands[0].type.elem)  # type: ignore[attr-defined]
    keep = (1 << len(plan.columns)) - 1

    def waves(layout: Any, vec: int) -> tuple[int, int]:
        width = size << vec
        lanes = [apply(plan.columns, c & keep & ~source.inv) for c in layout.lane]
        least = max(1, width // 4)  # 128 bytes are one wavefront
        return plans.bank_conflicts(lanes, width) * least, least

    store_waves, store_least = waves(source, plan.store_vec)
    load_waves, load_least = waves(target, plan.load_vec)
    read = sum(loads.values()) or target.num_regs >> plan.load_vec  # those that come in parts are read later
    observer.say(
        ROUND_TRIP, op, bytes=plan.bytes, rounds=len(observer.trips), stores=sum(stores.values()), loads=read,
        store_waves=store_waves, load_waves=load_waves, store_least=store_least, load_least=load_least,
    )  # fmt: skip


def _exchange(observer: Observer, op: Op, counts: dict[str, int]) -> None:
    stores = sum(_picked(counts, "st.shared").values())
    loads = sum(_picked(counts, "ld.shared", "ldmatrix").values())
    if stores or loads:
        barriers = sum(_picked(counts, "bar.sync", "barrier.").values())
        observer.say(SHARED, op, what=_WHAT[op.spec.name], stores=stores, loads=loads, barriers=barriers)


def _product(observer: Observer, op: Op, counts: dict[str, int]) -> None:
    found = _picked(counts, "mma.", "wgmma.mma_async", "tcgen05.mma")
    if found:
        for opcode, count in found.items():
            observer.say(MMA, op, instruction=opcode, count=count)
        return
    before = op.operands[2].op
    if before is not None and before.spec is op.spec and before.loc == op.loc and before.block is op.block:
        return  # a slice of a product, that adds to the slice before it
    elem = op.operands[0].type.elem.name  # type: ignore[attr-defined]
    target = observer.lowering.target.name
    observer.say(NO_MMA, op, reason=f"no tensor-core instruction for {elem} operands on {target} is used")


_REPORTS: dict[str, Callable[[Observer, Op, dict[str, int]], None]] = {
    "load_view_tko": _access, "load_ptr_tko": _access, "store_view_tko": _access, "store_ptr_tko": _access,
    "convert_layout": _convert, "convert_layouts": _exchange, "reduce": _exchange, "scan": _exchange, "atomic_rmw_tko": _exchange,
    "atomic_cas_tko": _exchange, "mmaf": _product, "mmai": _product, "mmaf_scaled": _product,
    "wgmma": _product, "wgmma.registers": _product, "tensor_memory.product": _product,
    "tensor_memory.product_rows": _product, "tensor_memory.product_scaled": _product,
}  # fmt: skip
