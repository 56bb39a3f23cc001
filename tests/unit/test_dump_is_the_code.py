"""What the last nv_tileas dump says is what the PTX does: barriers, conversions, instructions of products, shared memory.

The lowering spells and decides nothing, so each can be counted on both sides. Of a conversion of layout, that is how it moves
what it moves: not at all, by shuffles, or through shared memory by plain accesses or by matrices; of a load from a buffer and a
store to one, the same, and how many bytes an access has; of an asynchronous copy and of a load or store of global memory, how
many instructions, of how many bytes, and under how many masks.
Quick tier: every seventh kernel of the corpus; full tier: all of them.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import tileiras
from tests.fixtures import BYTECODE
from tileiras.compiler import pipeline
from tileiras.compiler.layout.linear import dim_bits
from tileiras.compiler.lower.tileas_to_nvvm.remarks import Observer
from tileiras.compiler.target import sm, tcgen05
from tileiras.compiler.target.registers import CLASS_BYTES, reg_class
from tileiras.diag import Sink

KERNELS = sorted(BYTECODE.glob("*.tilebc"))
TARGETS = ("sm_75", "sm_80", "sm_90", "sm_100")
WARP_PRODUCTS = ("wgmma", "wgmma.registers")


def said(module: Any) -> dict[str, tuple[int, set[str], int]]:
    """Per function: barriers, instructions of products and conversions, bytes of shared memory, as the dump has them."""
    out = {}
    for func in module.regions[0].block.ops:
        if func.spec.name == "func":
            barriers, words = 0, set()
            for op in func.walk():
                barriers += barriers_of(op)
                words |= words_of(op)
            out[func.attr("sym_name")] = barriers, words, func.attrs.get("nv_tileas.shared_bytes", 0)
    return out


def barriers_of(op: Any) -> int:
    """An exchange waits once a round between stores and loads, and once between rounds; what stands in front of it is an
    op of its own."""
    if op.spec.name in (
        "barrier",
        "tensor_memory.alloc",
        "tensor_memory.free",
        "tensor_memory.stored",
        "turns.take",
    ):
        return 1
    if op.spec.name == "bulk.release":  # a warp whose threads have read the stage
        return int("threads" in op.attrs)
    if op.spec.name == "tensor_memory.product_scaled":  # a warp that turns signs
        return int(op.attr("scale") == "f8E4M3FN")
    if "scratch" not in op.attrs:
        return 0
    rounds = 1
    if op.spec.name == "convert_layout":
        rounds = 1 << len(op.attrs.get("rounds", ()))
    elif op.attrs.get("order") == "index":
        layout = op.attrs["layout"]
        given = list(op.attrs.get("rounds", ()))
        rounds = sum(1 << bin(fixed).count("1") for fixed in given) if given else groups(op, layout)
    elif op.attrs.get("atom") == "fma":
        depth = op.operands[0].type.shape[-1]
        rounds = depth // op.attrs.get("round_depth", depth)
    return 2 * rounds - 1 + ("joined" in op.attrs)  # once more within the warps, whose lanes join results


def groups(op: Any, layout: Any) -> int:
    """How often neighbouring index bits of the reduced dimension lie in warps."""
    shape = op.operands[0].type.shape
    low = sum(e.bit_length() - 1 for e in shape[op.attr("dim") + 1 :])
    bits = [1 << k for k in range(low, low + shape[op.attr("dim")].bit_length() - 1)]
    crossing = [bit in layout.warp and not bit & layout.inv for bit in bits]
    return sum(1 for i, c in enumerate(crossing) if c and not (i and crossing[i - 1]))


# plan of a conversion -> instructions that move its elements
MOVES: dict[str, set[str]] = {
    "rename": set(), "shuffle": {"shfl"}, "shared": {"st.shared", "ld.shared"}, "ldmatrix": {"st.shared", "ldmatrix"},
    "stmatrix": {"stmatrix", "ld.shared"},
}  # fmt: skip


COPIES = ("async.copy_view", "async.copy_pointers")
GLOBAL = ("load_view_tko", "load_ptr_tko", "store_view_tko", "store_ptr_tko")
KINDS = {"st.shared": "store", "ld.shared": "load", "ldmatrix": "ldmatrix", "stmatrix": "stmatrix"}


class Conversions(Observer):
    """Notes the instructions that move elements for each conversion of layout, each copy and each access of a buffer."""

    __slots__ = ("coming", "found", "moved", "parts")

    def __init__(
        self, lowering: Any, found: list[tuple[str, set[str]]], moved: list[tuple[Any, Any]]
    ) -> None:
        super().__init__(lowering, {})
        self.found = found
        self.moved = moved
        self.coming: list[Any] = []  # loads in parts
        self.parts: list[Any] = []  # of sums, out of tensor memory

    def watch(self, op: Any, rule: Any) -> None:
        code = self.lowering.b.code
        start = len(code)
        super().watch(op, rule)
        name = op.spec.name
        records = [record for record in code[start:] if record.__class__ is tuple]
        if op.regions and self.parts:  # what came amid the loop's sums
            words = [len(r[1]) for r in records if r[0].startswith("tcgen05.ld.")]
            assert {most_of(load, self.lowering) for load in self.parts} <= set(words)
            assert sum(words) >= sum(load.results[0].type.layout.num_regs for load in self.parts)
            self.parts = []
        if name == "convert_layout":
            text = [record[0] for record in records]
            every = set().union(*MOVES.values())
            self.found.append((op.attr("plan"), {w for w in every if any(t.startswith(w) for t in text)}))
        elif name in COPIES:
            type: Any = op.operand("source" if name == "async.copy_pointers" else "view").type
            size = type.elem.pointee.bytes if name == "async.copy_pointers" else type.view.elem.bytes
            width = op.attr("width")
            each = f"cp.async.{'cg' if width == 16 else 'ca'}.shared.global", width
            issued = [r for r in records if r[0].startswith("cp.async")]
            copies = [(r[0], r[2][2]) for r in issued]
            parts = 1 << sum(1 for c in op.attrs["layout"].reg if c & op.attrs.get("part_mask", 0))
            self.moved.append(([each] * (op.attrs["layout"].num_regs * size // width // parts), copies))
            assert masks_are_shared(op, op.attrs["layout"], {r[2][3:] for r in issued}, width // size)
            if any(r[0] == "max.s32" for r in records):  # bytes of a chunk in which the tensor may end
                assert width // size > 1 << op.attr("together")
        elif name in GLOBAL and name.startswith("load") and "apart" in op.attrs:
            self.coming.append(op)  # amid what stores it
        elif name in GLOBAL:
            for each in (op, *self.coming):
                self.access(each, records)
            self.coming = []
        elif name == "tensor_memory.load" and "apart" in op.attrs:
            self.parts.append(op)  # amid the sums that it is added to
        elif name in ACCUMULATORS:
            words = [r[1] if ".ld." in r[0] else r[2][-1] for r in records if r[0].startswith(MOVED)]
            assert max(map(len, words)) == most_of(op, self.lowering)
            assert bool(op.attrs.get("tested")) == any(r[0].startswith("vote.") for r in records)
        elif op.attrs.get("atom") == "fma":
            depth = op.operands[0].type.shape[-1]
            sums = op.results[0].type.layout.num_regs
            made = [r for r in records if r[0].startswith(("fma.rn", "mad.lo.s32"))]
            if "unroll" not in op.attrs:  # a slice of K, whose operands threads have
                assert len(made) == sums * depth
                return
            made = [r for r in made if r[1] is r[2][-1]]
            rounds = depth // op.attrs.get("round_depth", depth)
            assert len(made) == sums * op.attr("unroll") * rounds
        elif name == "reduce" and op.attrs.get("beside") == (1,) and len(op.operands) == 1:
            (low, count), layout = dim_bits(op.operands[0].type.shape)[op.attr("dim")], op.attrs["layout"]
            parts = 1 << sum(1 for c in layout.warp if c >> low & (1 << count) - 1)
            size = CLASS_BYTES[reg_class(op.operands[0].type.elem)]
            loads = {bytes_of(r[0]) for r in records if r[0].startswith("ld.shared")}
            assert size == 1 or loads == {min(16, parts * size)}
        elif name in ("load_shared", "store_shared"):
            moved = {moves_of(r[0]) for r in records if r[0].startswith(tuple(KINDS))}
            self.moved.append(({said_of(op)}, moved))

    def access(self, op: Any, records: list[Any]) -> None:
        """Compares what is said of a load or a store with its instructions among some."""
        name = op.spec.name
        value = (
            op.results[0] if name.startswith("load") else op.operand("tile" if "view" in name else "value")
        )
        layout = op.attrs.get("layout", value.type.layout)
        space = f"{name[:2] if name.startswith('st') else 'ld'}{self.lowering.space}"
        issued = [
            r for r in records if r[0].startswith((f"{space}.", f"{space[:2]}.relaxed", ACQUIRES[space[:2]]))
        ]
        size = getattr(value.type.elem, "bytes", 8)
        wanted = [size << op.attr("vector")] * (layout.num_regs >> op.attr("vector"))
        self.moved.append((wanted, [bytes_of(r[0]) for r in issued]))
        assert masks_are_shared(op, layout, {r[3] for r in issued}, 1 << op.attr("vector"))


ACCUMULATORS = ("tensor_memory.store", "tensor_memory.load", "tensor_memory.scale")
MOVED = ("tcgen05.ld.", "tcgen05.st.")


def most_of(op: Any, lowering: Any) -> int:
    """Registers that an instruction of an access of tensor memory moves: columns of a block of rows, as many as the op says."""
    type = (op.results or op.operands[-1:])[0].type
    layout = type.layout
    if op.spec.name == "tensor_memory.scale":
        layout = tcgen05.layout_of(type.shape, lowering.log2_warps, bool(op.attr("rows_of_halves")))
    row = dim_bits(type.shape)[0][0]
    rows = sum(1 for c in layout.reg if c >> row and type.shape[0] != tcgen05.HALF)
    return int(min(op.attr("most"), layout.num_regs >> rows))


ACQUIRES = {"ld": "ld.acquire", "st": "st.release"}


def masks_are_shared(op: Any, layout: Any, found: set[Any], elements: int) -> bool:
    """Whether the instructions of an access have no more masks than its groups of neighbours."""
    together = op.attrs.get("together", op.attrs.get("vector", 0))
    return len(found) <= max(1, layout.num_regs >> together) or elements > 1 << together


def bytes_of(opcode: str) -> int:
    found = re.search(r"(?:\.v(\d))?\.[bu](\d+)$", opcode)
    assert found is not None
    return int(found[1] or 1) * int(found[2]) // 8


def said_of(op: Any) -> tuple[str, int]:
    """What one instruction of an access of a buffer does by its op: (how, bytes of a thread; of matrices 0)."""
    if op.attr("plan") != "shared":
        return op.attr("plan"), 0
    loads = op.spec.name == "load_shared"
    elem = (op.results[0] if loads else op.operands[2]).type.elem
    return "load" if loads else "store", elem.bytes << (op.attr("vector") if elem.name != "i1" else 0)


def moves_of(opcode: str) -> tuple[str, int]:
    kind = next(kind for word, kind in KINDS.items() if opcode.startswith(word))
    return kind, 0 if kind.endswith("matrix") else bytes_of(opcode)


class Watch:
    """What the pipeline asks for an observer."""

    def __init__(self) -> None:
        self.found: list[tuple[str, set[str]]] = []
        self.moved: list[tuple[Any, Any]] = []

    def observer(self, lowering: Any, _remarks: Any) -> Conversions:
        return Conversions(lowering, self.found, self.moved)


def words_of(op: Any) -> set[str]:
    name = op.spec.name
    if name in ("mmaf", "mmai", "mma_block_scaled"):
        return {op.attr("atom")} - {"fma"}
    if name in WARP_PRODUCTS:
        return {"wgmma.mma_async"}
    if name in ("tensor_memory.product", "tensor_memory.product_scaled"):
        return {"tcgen05.mma"}
    return set()


def done(ptx: str) -> dict[str, tuple[int, set[str], int]]:
    out = {}
    for part in ptx.split(".entry ")[1:]:
        name = re.match(r"[\w$.]+", part)
        assert name is not None
        arena = re.search(r"\$smem\[(\d+)\]", part)
        words = set(re.findall(r"\tmma\.sync[\w.:]+|\twgmma\.mma_async|\ttcgen05\.mma(?=\.)", part))
        barriers = len(re.findall(r"\tbar\.(?:sync|warp\.sync) ", part))
        out[name[0]] = barriers, {w.strip() for w in words}, int(arena[1]) if arena else 0
    return out


@pytest.mark.sampled(2)
@pytest.mark.parametrize("target", TARGETS)
def test_dump_and_code_agree(target: str) -> None:
    compare(KERNELS[::13], target)


@pytest.mark.full
@pytest.mark.parametrize("target", (*TARGETS, "sm_120"))
def test_dump_and_code_agree_everywhere(target: str) -> None:
    compare(KERNELS, target)


def compare(kernels: list[Path], target: str) -> None:
    compared = 0
    plans: set[str] = set()
    copied = False
    widths: set[int] = set()
    for kernel in kernels:
        found: dict[str, Any] = {}

        def look(name: str, module: Any, found: dict[str, Any] = found) -> None:
            if name == "TileIROperationAnalysis":  # the last dump of nv_tileas
                found.update(said(module))

        gpu = sm.find(target)
        assert gpu is not None
        try:
            watch = Watch()
            stages = pipeline.compile_module(tileiras.load(kernel).op, gpu, Sink(), after=look, watch=watch)
        except tileiras.CompileError:
            continue  # needs a newer target
        for plan, moves in watch.found:
            assert moves == MOVES[plan], f"{kernel.stem}: {plan}"
            plans.add(plan)
        for wanted, moved in watch.moved:
            assert wanted == moved, kernel.stem
            copied = copied or isinstance(moved, list) and isinstance(moved[0], tuple)
            widths |= {size for size in moved if isinstance(size, int)}
        for name, (barriers, words, size) in done(stages.ptx).items():
            want = found[name]
            assert (barriers, size) == (want[0], want[2]), f"{kernel.stem}: {name}"
            assert words == want[1], f"{kernel.stem}: {name}"
            compared += 1
    assert compared > len(kernels) // 2
    assert plans >= {"shared", "ldmatrix"}
    assert copied == (target != "sm_75")
    assert widths == {1, 2, 4, 8, 16}, widths
