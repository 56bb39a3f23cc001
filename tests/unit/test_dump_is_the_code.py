"""What the last nv_tileas dump says is what the PTX does: barriers, conversions, instructions of products, shared memory.

The lowering spells and decides nothing, so each can be counted on both sides. Of a conversion of layout, that is how it moves
what it moves: not at all, by shuffles, or through shared memory by plain accesses or by matrices. Quick tier: every seventh
kernel of the corpus; full tier: all of them.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import tileiras
from tests.fixtures import BYTECODE
from tileiras.compiler import pipeline
from tileiras.compiler.lower.tileas_to_nvvm.remarks import Observer
from tileiras.compiler.target import sm
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


class Conversions(Observer):
    """Notes the instructions that move elements for each conversion of layout."""

    __slots__ = ("found",)

    def __init__(self, lowering: Any, found: list[tuple[str, set[str]]]) -> None:
        super().__init__(lowering, {})
        self.found = found

    def watch(self, op: Any, rule: Any) -> None:
        code = self.lowering.b.code
        start = len(code)
        super().watch(op, rule)
        if op.spec.name == "convert_layout":
            text = [record[0] for record in code[start:]]
            every = set().union(*MOVES.values())
            self.found.append((op.attr("plan"), {w for w in every if any(t.startswith(w) for t in text)}))


class Watch:
    """What the pipeline asks for an observer."""

    def __init__(self) -> None:
        self.found: list[tuple[str, set[str]]] = []

    def observer(self, lowering: Any, _remarks: Any) -> Conversions:
        return Conversions(lowering, self.found)


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


@pytest.mark.parametrize("target", TARGETS)
def test_dump_and_code_agree(target: str) -> None:
    compare(KERNELS[::7], target)


@pytest.mark.full
@pytest.mark.parametrize("target", (*TARGETS, "sm_120"))
def test_dump_and_code_agree_everywhere(target: str) -> None:
    compare(KERNELS, target)


def compare(kernels: list[Path], target: str) -> None:
    compared = 0
    plans: set[str] = set()
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
        for name, (barriers, words, size) in done(stages.ptx).items():
            want = found[name]
            assert (barriers, size) == (want[0], want[2]), f"{kernel.stem}: {name}"
            assert words == want[1], f"{kernel.stem}: {name}"
            compared += 1
    assert compared > len(kernels) // 2
    assert plans >= {"shared", "ldmatrix"}
