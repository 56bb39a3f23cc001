"""Pairs of CTAs that multiply as one (tcgen05.mma.cta_group::2): which kernels, and that they are right in any order."""

from __future__ import annotations

import copy
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

import ml_dtypes
import numpy as np

import tileiras
from tests import peers
from tests.planted_ptx import OTHER, TRY, Edit, NoPlace, changed, unwaited, without
from tileiras.compiler.dialects.nv_tileas import ops as tileas
from tileiras.compiler.ir.passes import Context, PassManager
from tileiras.compiler.ir.text import parse
from tileiras.compiler.passes.tileas.assign_roles import AssignRoles
from tileiras.compiler.target import sm
from tileiras.diag import Sink
from tileiras.run import LaunchError

MAPS: dict[str, Any] = {"launch_abi": "simt", "tensor_maps": "launcher", "emit": "ptx"}
NUMPY = {
    "f16": np.dtype("f2"), "bf16": np.dtype(ml_dtypes.bfloat16), "f8E4M3FN": np.dtype(ml_dtypes.float8_e4m3fn),
    "f8E5M2": np.dtype(ml_dtypes.float8_e5m2), "i8": np.dtype("i1"),
}  # fmt: skip


class Product:
    """A product that asks for `ctas` CTAs: `tile` of m, n, k; whether A and B are contiguous along K; persistent blocks."""

    def __init__(self, tile: tuple[int, int, int], size: tuple[int, int, int], elem: str = "bf16", ctas: int = 2,
                 a_by_k: bool = True, b_by_k: bool = False, blocks: int = 0) -> None:  # fmt: skip
        self.tile, self.size, self.elem, self.ctas = tile, size, elem, ctas
        self.a_by_k, self.b_by_k, self.blocks = a_by_k, b_by_k, blocks

    @property
    def text(self) -> str:
        (m, n, k), e = self.tile, self.elem
        integers = e == "i8"
        s = "i32" if integers else "f32"
        zero = f"constant <{s}: 0{'' if integers else '.0'}> : tile<{m}x{n}x{s}>"
        views, kinds = [], {}
        for name, rows, columns, elem, tile, by_last in (
            ("a", "m", "k", e, (m, k), self.a_by_k),
            ("b", "k", "n", e, (k, n), not self.b_by_k),
            ("c", "m", "n", s, (m, n), True),
        ):
            strides, dynamic = ("[?,1]", f"[%{columns}, 1]") if by_last else ("[1,?]", f"[1, %{rows}]")
            view = f"tensor_view<?x?x{elem}, strides={strides}>"
            padding = "" if name == "c" else "padding_value = zero, "
            kinds[name] = f"partition_view<tile=({tile[0]}x{tile[1]}), {padding}{view}>"
            views.append(f"    %p{name} = assume div_by<16>, %{name} : tile<ptr<{elem}>>")
            shape = f"shape = [%{rows}, %{columns}], strides = {dynamic}"
            views.append(f"    %v{name} = make_tensor_view %p{name}, {shape} : tile<i32> -> {view}")
            views.append(f"    %t{name} = make_partition_view %v{name} : {kinds[name]}")
        multiply = "mmai %x, %y, %acc signed signed" if integers else "mmaf %x, %y, %acc"
        body = f"""      %none = {zero}
      %sum = for %s in (%0 to %steps, step %1) : tile<i32> iter_values(%acc = %none) -> (tile<{m}x{n}x{s}>) {{
        %x, %x1 = load_view_tko weak %ta[%i, %s] : {kinds["a"]}, tile<i32> -> tile<{m}x{k}x{e}>, token
        %y, %y1 = load_view_tko weak %tb[%s, %j] : {kinds["b"]}, tile<i32> -> tile<{k}x{n}x{e}>, token
        %next = {multiply} : tile<{m}x{k}x{e}>, tile<{k}x{n}x{e}>, tile<{m}x{n}x{s}>
        continue %next : tile<{m}x{n}x{s}>
      }}
      %r = store_view_tko weak %sum, %tc[%i, %j] : tile<{m}x{n}x{s}>, {kinds["c"]}, tile<i32> -> token
"""
        if self.blocks:
            body = f"""      %rows, %columns = get_index_space_shape %tc : {kinds["c"]} -> tile<i32>
      %tiles = muli %rows, %columns : tile<i32>
      %w, %w1, %w2 = get_num_tile_blocks : tile<i32>
      for %t in (%bx to %tiles, step %w) : tile<i32> {{
        %i = divi %t, %columns signed : tile<i32>
        %j = remi %t, %columns signed : tile<i32>
{body}        continue
      }}
"""
        ids = "%bx, %by, %bz" if self.blocks else "%i, %j, %z"
        return f"""cuda_tile.module @m {{
  entry @k(%a: tile<ptr<{e}>>, %b: tile<ptr<{e}>>, %c: tile<ptr<{s}>>, %m0: tile<i32>, %n0: tile<i32>, %k0: tile<i32>)
      optimization_hints = <default = {{num_cta_in_cga = {self.ctas}}}> {{
    %m = assume div_by<16>, %m0 : tile<i32>
    %n = assume div_by<16>, %n0 : tile<i32>
    %k = assume div_by<16>, %k0 : tile<i32>
{chr(10).join(views)}
    {ids} = get_tile_block_id : tile<i32>
    %0 = constant <i32: 0> : tile<i32>
    %1 = constant <i32: 1> : tile<i32>
    %u, %steps = get_index_space_shape %ta : {kinds["a"]} -> tile<i32>
{body}    return
  }}
}}
"""

    def compiled(self, gpu_name: str = "sm_100", **more: Any) -> tileiras.Program:
        return tileiras.compile(self.text, **{"gpu_name": gpu_name, **MAPS, **more})

    def check(self, program: tileiras.Program, gpu_name: str = "sm_100", **how: Any) -> None:
        """Launches, and compares with NumPy: small integers, so that every sum is exact."""
        m, n, k = self.size
        rng = np.random.default_rng(m + n + k)
        a = rng.integers(-3, 4, (m, k)).astype("f4").astype(NUMPY[self.elem])
        b = rng.integers(-3, 4, (k, n)).astype("f4").astype(NUMPY[self.elem])
        out = np.full((m, n), 7, "i4" if self.elem == "i8" else "f4")
        grid = (self.blocks, 1, 1) if self.blocks else (-(-m // self.tile[0]), -(-n // self.tile[1]), 1)
        given = [
            a if self.a_by_k else np.ascontiguousarray(a.T),
            b if not self.b_by_k else np.ascontiguousarray(b.T),
            out,
        ]
        tileiras.launch(program, "k", grid, [*given, m, n, k], target="emulator", gpu_name=gpu_name, **how)
        assert np.array_equal(out, a.astype("f4") @ b.astype("f4"))


KERNELS = {
    "bf16": Product((256, 128, 64), (256, 128, 320)),
    "ragged": Product((256, 128, 64), (400, 208, 144)),
    "wide": Product((256, 256, 64), (272, 272, 528)),
    "f16 by K": Product((256, 128, 64), (256, 144, 448), "f16", b_by_k=True),
    "f16 turned": Product((256, 64, 128), (304, 64, 272), "f16", a_by_k=False, b_by_k=True),
    "e4m3": Product((256, 128, 128), (272, 128, 400), "f8E4M3FN", b_by_k=True),
    "e5m2 along N": Product((256, 64, 64), (256, 80, 208), "f8E5M2"),
    "i8": Product((256, 128, 64), (256, 128, 192), "i8"),
    "four": Product((512, 128, 64), (528, 144, 208), ctas=4),
    "four tall": Product((1024, 64, 32), (1040, 64, 96), ctas=4),
    "eight": Product((1024, 64, 64), (1040, 80, 336), ctas=8),
    "odd stages": Product((1024, 32, 256), (1040, 48, 1296), "f8E4M3FN", 8, b_by_k=True),
    "persistent": Product((256, 128, 64), (528, 272, 208), blocks=2),
    "persistent four": Product((512, 64, 64), (1040, 144, 144), ctas=4, blocks=2),
    "one step": Product((256, 128, 64), (256, 128, 16)),
    "no step": Product((256, 128, 64), (256, 128, 0)),
    "no step, persistent": Product((256, 128, 64), (528, 272, 0), blocks=2),
}  # fmt: skip
QUICK = ("ragged", "e4m3", "persistent four", "no step, persistent")


def is_paired(ptx: str) -> bool:
    return "tcgen05.mma.cta_group::2" in ptx


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", KERNELS)
def test_pairs_multiply_as_one(name: str) -> None:
    kernel = KERNELS[name]
    program = kernel.compiled()
    assert program.kernels["k"].cluster == (kernel.ctas, 1, 1)
    assert is_paired(program.ptx) and "cta_group::1" not in program.ptx
    kernel.check(program)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", QUICK)
def test_no_access_races(name: str) -> None:
    KERNELS[name].check(KERNELS[name].compiled(), check=True, seed=5)


@pytest.mark.full
@pytest.mark.parametrize("gpu_name", ["sm_100", "sm_103", "sm_110"])
@pytest.mark.parametrize("name", KERNELS)
def test_right_in_twenty_orders(name: str, gpu_name: str) -> None:
    if name == "i8" and gpu_name == "sm_103":
        pytest.skip("sm_103 has no kind::i8")
    program = KERNELS[name].compiled(gpu_name)
    assert is_paired(program.ptx)
    for seed in range(20):
        KERNELS[name].check(program, gpu_name, check=True, seed=seed)


@pytest.mark.parametrize("kernel", [
    Product((128, 1024, 32), (128, 1024, 96), ctas=4), Product((64, 1024, 32), (64, 1024, 96), "f16", b_by_k=True),
])  # fmt: skip
def test_products_of_few_rows_for_each_cta_are_no_pair(kernel: Product) -> None:
    """32 rows are multiplied transposed: the columns are the left operand then, alike in all CTAs, and the right one is not."""
    program = kernel.compiled(remarks="all")
    assert program.kernels["k"].cluster == (kernel.ctas, 1, 1) and not is_paired(program.ptx)
    said = [d.text for d in program.diagnostics if "multiplies for itself" in d.text]
    assert said == ["each CTA of the cluster multiplies for itself: each CTA has a right operand of its own"]
    kernel.check(program, check=True, seed=1)


def test_each_cta_copies_half_of_the_right_operand() -> None:
    """A stage has 128 rows of A and 128 columns of B, and more of them fit."""
    kernel = Product((256, 256, 64), (256, 256, 256), b_by_k=True)
    whole, half = (kernel.compiled(disable=more, remarks="all") for more in (("pairs", "tcgen05"), ()))
    assert "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r" in half.ptx
    (expected,) = re.findall(r"expect_tx\S+ _, \S+ (\d+);", half.ptx)
    assert int(expected) == 2 * (128 * 64 + 128 * 64) * 2
    boxes = [tuple(map.box) for map in half.kernels["k"].tensor_maps]
    assert boxes == [(128, 64), (128, 64)]
    assert not is_paired(whole.ptx)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("kernel", "more"),
    [
        (KERNELS["bf16"], {"disable": "pairs"}),
        (KERNELS["bf16"], {"disable": "clusters"}),
        (KERNELS["bf16"], {"disable": "roles"}),
        (KERNELS["bf16"], {"disable": "bulk"}),
        (KERNELS["bf16"], {"tensor_maps": "none"}),
        (KERNELS["bf16"], {"opt_level": 1}),
        (Product((128, 128, 64), (128, 128, 64)), {}),  # 64 rows each
        (Product((256, 16, 64), (256, 16, 64)), {}),
    ],
)
def test_else_a_tile_block_is_one_cta(kernel: Product, more: dict[str, Any]) -> None:
    program = kernel.compiled(remarks="all", **more)
    assert program.kernels["k"].cluster == (1, 1, 1) and not is_paired(program.ptx)
    said = [d.text for d in program.diagnostics if "num_cta_in_cga" in d.text]
    assert len(said) == 1
    kernel.check(program)


def test_a_cluster_without_pairs_says_why() -> None:
    """512 rows do not fit one CTA, whether pairs are left out or not."""
    program = KERNELS["four"].compiled(disable="pairs", remarks="all")
    wide = Product((512, 256, 64), (512, 256, 64), ctas=4).compiled(disable="pairs", remarks="all")
    assert program.kernels["k"].cluster == (1, 1, 1) and wide.kernels["k"].cluster == (4, 1, 1)
    said = [d.text for d in wide.diagnostics if "multiplies for itself" in d.text]
    assert said == ["each CTA of the cluster multiplies for itself: pairs of CTAs are left out"]


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("b_start = 16384", "b_start = 17408", "an operand is a part of a tile that copies bring"),
        ("a_start = 0 ", "a_start = 8192 ", "an operand is a part of a tile that copies bring"),
        (
            "b_arrangement = array<i32: 2, 4, 8, 16, 32, 64, 144, 288, 512, 1024, 2048>",
            "b_arrangement = array<i32: 144, 288, 576, 1024, 2048, 2, 4, 8, 16, 32, 64>",
            "its right operand lies in another order than it was loaded",
        ),
    ],
)
def test_operands_that_are_no_tile_of_a_stage_make_no_pair(old: str, new: str, why: str) -> None:
    golden = Path(__file__).parents[1] / "golden" / "assign_roles_pairs.txt"
    text = golden.read_text().partition("---- expected: 0\n")[0].partition("\n")[2]
    for said, changed_text in ((None, text), (why, text.replace(old, new))):
        sink = Sink()
        (module,) = parse(changed_text, sink, file="k.mlir")
        context = Context(module, sm.find("sm_100"), sink)
        context.remarks = {"missed": "all"}
        assert PassManager([AssignRoles()], context).run()
        found = [d.text for d in sink.emitted if "multiplies for itself" in d.text]
        assert found == ([] if said is None else [f"each CTA of the cluster multiplies for itself: {said}"])
        products = [op for op in module.walk() if op.spec is tileas.TENSOR_PRODUCT]
        assert products and all(bool(op.attr("pair")) == (said is None) for op in products)


# ---- planted bugs
HALVED = r"(expect_tx\S+ _, \[[^]]+\]), (\d+);"
ALONE = r"(tcgen05\.commit\S*)\.multicast::cluster(\S* \[[^]]+\]), %h\d+;"
TURNED = rf"^(.*)({TRY}\S* %p\d+, \[[^]]+\], )(%r\d+|\d+);"
STUCK, EARLY = r"deadlock: .*lacks \d+ arrivals", r"race: .* may still be writing it|before anything wrote it"


def own_mbarrier(text: str) -> str:
    """Copies complete on the mbarrier of their own CTA."""
    found = re.search(r"mapa\.shared::cluster\.u32 (%r\d+), (%r\d+), \S+;\n(?=\s*cp\.async\.bulk)", text)
    if found is None:
        raise NoPlace("mapa")
    return text.replace(found[0], f"mov.u32 {found[1]}, {found[2]};\n")


def without_cluster_barrier(*which: int, instead: str = "") -> Edit:
    def edit(text: str) -> str:
        for number in which:
            text = changed(r"barrier\.cluster\.arrive\.release;", instead, number)(text)
            text = without(r"barrier\.cluster\.wait", number)(text)
        return text

    return edit


def counted_once(text: str) -> str:
    """The mbarriers of free stages, which are initialised behind those of full ones, expect as many arrivals as these."""
    counts = re.findall(r"mbarrier\.init\S+ \[[^]]+\], (%r\d+);", text)
    return re.sub(
        rf"(mbarrier\.init\S+ \[[^]]+\]), {next(c for c in counts if c != counts[0])};",
        rf"\1, {counts[0]};",
        text,
    )


# class of bug: (edit, kernels, what a finding says)
ANY, AGAIN, PAIRS = (0, 1, 2), (2, 3), (4, 5)
PLANTED: dict[str, tuple[Edit, tuple[int, ...], str]] = {
    "sums and stages are committed to one CTA": (changed(ALONE, r"\1\2;"), ANY, STUCK),
    "stages are committed to one CTA": (changed(ALONE, r"\1\2;", 0), ANY, STUCK),
    "sums are committed to one CTA": (changed(ALONE, r"\1\2;", -1), ANY, STUCK),
    "the bytes of one CTA are expected": (
        changed(HALVED, lambda m: f"{m[1]}, {int(m[2]) // 2};"), ANY, rf"{EARLY}|deadlock: .*bytes more than were expected"),
    "copies complete on the mbarrier of their own CTA": (own_mbarrier, ANY, STUCK),
    "both CTAs expect the bytes": (
        changed(r"@%p\d+ (mbarrier\.arrive\.expect_tx)", r"\1"), ANY, "more arrivals than the 1 expected"),
    "each takes itself for the leader": (
        changed(r"mov\.u32 (%r\d+), %cluster_ctarank;", r"mov.u32 \1, 0;"), ANY, "more arrivals than the 1 expected"),
    "copies do not wait for a free stage": (unwaited(2), ANY, EARLY),
    "products do not wait for copies": (unwaited(-1), ANY, EARLY),
    "products wait for the other phase": (changed(TURNED, OTHER, -1), ANY, rf"{EARLY}|deadlock"),
    "no barrier behind init": (without_cluster_barrier(0), ANY, "nothing orders behind its init|never initialised"),
    "a barrier of the block behind init": (
        without_cluster_barrier(0, instead="bar.sync 0;"), ANY, "nothing orders behind its init|never initialised"),
    "no cluster barrier before exit": (
        without_cluster_barrier(-1, -1, -1), ANY,
        r"CTA \(\d+, \d+, 0\) (may end before .* is done with its|has ended before this)"),
    "one CTA frees tensor memory": (changed(r"tcgen05\.dealloc", "@%even tcgen05.dealloc"), ANY, "for a warp of the peer CTA"),
    "the next sum does not wait": (unwaited(-2), AGAIN, r"race: .*tensor memory"),
    "sums are released to the own CTA": (
        changed(r"mapa\.shared::cluster\.u32 (%r\d+), (%r\d+), \S+;", r"mov.u32 \1, \2;", 0), AGAIN, STUCK),
    "stages are committed to one pair": (
        changed(r"mov\.b16 (%h\d+), 15;", r"mov.b16 \1, 3;"), PAIRS, STUCK),
    "copies for several pairs go to one": (
        changed(r"\.multicast::cluster(\.cta_group::2 .*), %h\d+;", r"\1;"), PAIRS, STUCK),
    "free stages count one pair": (counted_once, PAIRS, rf"{EARLY}|{STUCK}"),
}  # fmt: skip


def planted(kernel: Product, edit: Edit, seed: int) -> str:
    """What a launch with checks finds."""
    program = copy.copy(kernel.compiled())
    program.ptx = edit(program.ptx)
    at = program.ptx.index("\n{\n") + 3
    head = ".reg .pred %even; .reg .b32 %own; mov.u32 %own, %cluster_ctarank; setp.eq.u32 %even, %own, 0;\n"
    program.ptx = program.ptx[:at] + head + program.ptx[at:]
    program.translated = {}
    try:
        kernel.check(program, check=True, seed=seed)
    except LaunchError as error:
        return "\n".join(d.message for d in error.diagnostics)
    return ""


LONG = (
    Product((256, 128, 64), (256, 128, 1024)), Product((256, 64, 128), (272, 80, 1552), "f8E4M3FN", b_by_k=True),
    Product((256, 128, 64), (784, 272, 720), blocks=1), Product((256, 256, 64), (784, 272, 592), "f16", blocks=1),
    Product((512, 128, 64), (512, 128, 1040), ctas=4),
    Product((512, 128, 64), (528, 144, 720), "f16", 4, b_by_k=True, blocks=1),
)  # fmt: skip


@pytest.mark.sampled(6)
@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_found(bug: str) -> None:
    edit, kernels, says = PLANTED[bug]
    found = planted(LONG[kernels[0]], edit, 1)
    assert re.search(says, found), found


@pytest.mark.full
@pytest.mark.parametrize(
    ("bug", "kernel"), [(bug, kernel) for bug, row in PLANTED.items() for kernel in row[1]]
)
def test_planted_bugs_are_found_by_at_least_18_of_20_seeds(bug: str, kernel: int) -> None:
    edit, _, says = PLANTED[bug]
    assert sum(bool(re.search(says, planted(LONG[kernel], edit, seed))) for seed in range(20)) >= 18


@pytest.mark.sampled(12)
@pytest.mark.parametrize("kernel", LONG)
def test_the_kernels_as_they_are_have_no_findings(kernel: Product) -> None:
    assert planted(kernel, lambda text: text, 1) == ""


@pytest.mark.parametrize("gpu_name", ["sm_100a", "sm_103a", "sm_110a"])
def test_ptxas_takes_it_without_a_word(gpu_name: str, tmp_path: Path) -> None:
    ptxas = peers.require("ptxas")
    for name in ("ragged", "persistent four"):
        path = tmp_path / "k.ptx"
        path.write_text(KERNELS[name].compiled(gpu_name).ptx)
        done = subprocess.run([str(ptxas), f"-arch={gpu_name}", str(path), "-o", str(tmp_path / "k.cubin")],
                              capture_output=True, text=True, check=True)  # fmt: skip
        assert not done.stdout + done.stderr


# ---- what the verifier refuses in text
@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("pattern", "new", "said"),
    [
        (r"(tensor_memory\.free %\d+) \{pair\}", r"\1", "a pair's columns"),
        (r"(tensor_memory\.release %\d+) \{pair\}", r"\1", "a pair's columns"),
        (r"(offset = 0 : i64), pair\}", r"\1}", "one CTA's columns"),
        (r"n = 32 : i64", "n = 512 : i64", "128 rows and 512 columns of each CTA of a pair"),
        (r"m = 128 : i64", "m = 64 : i64", "64 rows and 32 columns of each CTA of a pair"),
        (r"cluster_dim = \[2, 1, 1\]", "cluster_dim = [1, 1, 1]", "an odd number of CTAs in a cluster"),
        (r"halved = array<i1: \w+, ", "halved = array<i1: ", "3 of 4 dimensions halved"),
        (r"pair, halved", "halved", "4 of 4 dimensions halved, which pairs of CTAs share"),
    ],
)
def test_the_verifier_refuses_half_a_pair(pattern: str, new: str, said: str, tmp_path: Path) -> None:
    golden = Path(__file__).parents[1] / "golden" / "assign_roles_pairs.txt"
    text = golden.read_text().partition("---- expected: 0\n")[2]
    assert re.search(pattern, text)
    path = tmp_path / "k.mlir"
    for what, code in ((text, 0), (re.sub(pattern, new, text, count=1), 5)):
        path.write_text(what)
        done = subprocess.run(
            [sys.executable, "-m", "tileiras.tools.opt", str(path)], capture_output=True, text=True
        )
        assert (done.returncode, code and said in done.stderr) == (code, bool(code)), done.stderr
