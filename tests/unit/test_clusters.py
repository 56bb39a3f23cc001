"""The hint num_cta_in_cga (cuTile's num_ctas): tile blocks that the CTAs of a cluster share, and those that stay one CTA."""

from __future__ import annotations

import itertools
import random
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

import tileiras
from tests import peers
from tests.corpus.check import PASS, launch_case
from tests.corpus.export import bytecode_path
from tests.corpus.fuzz_products import differences, draw_program
from tests.corpus.registry import CASES
from tileiras.compiler.dialects.nv_tileas.tensor_maps import BOX, parts, shares
from tileiras.compiler.passes.loops import cluster_worth
from tileiras.compiler.schedule import bulk
from tileiras.toolchain.cubin import read_cubin

FAMILY = [name for name in CASES if name.startswith("cluster_")]
ALONE = [name for name in FAMILY if name.endswith("_refused")]
SHARED = [name for name in FAMILY if name not in ALONE]
QUICK = (
    "cluster_product_2_128x64x32",
    "cluster_persistent_2_128x64x32_ragged",
    "cluster_gather_rows",
    "cluster_branches",
)
TARGETS = ("sm_90", "sm_100", "sm_120")


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clusters wherever CTAs can share a tile block, whether it pays or not."""
    monkeypatch.setenv("TILEIRAS_CACHE", "0")
    monkeypatch.setattr(cluster_worth, "slower", lambda division, target: None)


def compiled(source: Any, gpu_name: str = "sm_90", **more: Any) -> tileiras.Program:
    return tileiras.compile(source, **{"gpu_name": gpu_name, "launch_abi": "simt", "emit": "ptx", **more})


def kernel_of(name: str, gpu_name: str = "sm_90", **more: Any) -> Any:
    case = CASES[name]
    return compiled(bytecode_path(case), gpu_name, **more).kernels[case.entry]


def reasons(source: Any, gpu_name: str = "sm_90", **more: Any) -> list[str]:
    """Why the hint is not used."""
    found = compiled(source, gpu_name, remarks={"missed": "all"}, **more).diagnostics
    return [e.text.partition("not used: ")[2] for e in found if "num_cta_in_cga" in e.text]


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("name", SHARED)
def test_ctas_share_the_tile_block(name: str) -> None:
    case = CASES[name]
    program = compiled(bytecode_path(case))
    ctas = program.kernels[case.entry].cluster[0]
    assert program.kernels[case.entry].cluster == (ctas, 1, 1) and ctas in (2, 4)
    assert f".reqnctapercluster {ctas}, 1, 1\n.blocksareclusters" in program.ptx
    assert re.search(r"mov\.u32 %r\d+, %cluster_ctarank;", program.ptx)
    assert not reasons(bytecode_path(case))


@pytest.mark.sampled(10)
@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("name", QUICK)
@pytest.mark.parametrize("gpu_name", TARGETS)
@pytest.mark.parametrize("maps", ["none", "launcher"])
def test_right_in_any_order(name: str, gpu_name: str, maps: str) -> None:
    for seed in (None, 1, 2):
        how: dict[str, Any] = {} if seed is None else {"check": True, "seed": seed}
        outcome = launch_case(CASES[name], "emulator", gpu_name, tensor_maps=maps, **how)
        assert outcome.word == PASS, (seed, outcome.reason)


@pytest.mark.full
@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("name", SHARED)
@pytest.mark.parametrize("gpu_name", TARGETS)
@pytest.mark.parametrize("maps", ["none", "launcher"])
def test_right_in_twenty_orders(name: str, gpu_name: str, maps: str) -> None:
    for seed in range(20):
        outcome = launch_case(
            CASES[name], "emulator", gpu_name, tensor_maps=maps, check=True, seed=seed, limit=120
        )
        assert outcome.word == PASS, (seed, outcome.reason)


MAPS: dict[str, Any] = {"tensor_maps": "launcher"}
COPIED = "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"


@pytest.mark.usefixtures("undivided")
@pytest.mark.parametrize(
    ("name", "own", "together"),
    [
        ("cluster_product_2_128x64x32", 1, 1),  # one box, cut into two
        ("cluster_product_2_128x128x64_ragged", 1, 1),  # two panels, one each
        ("cluster_product_4_256x128x64_ragged", 1, 2),  # two panels, a fourth of the rows each
        ("cluster_persistent_2_128x64x32_ragged", 1, 1),
        ("cluster_attention", 0, 2),  # keys and values
    ],
)
def test_what_all_ctas_load_alike_is_copied_once(name: str, own: int, together: int) -> None:
    case = CASES[name]
    ptx = compiled(bytecode_path(case), **MAPS).ptx
    copies = [line for line in ptx.splitlines() if "cp.async.bulk.tensor" in line]
    shared = [line for line in copies if ".multicast::cluster" in line]
    ctas = int(re.search(r"reqnctapercluster (\d)", ptx)[1])  # type: ignore[index]
    assert len(shared) == together and ptx.count("mapa.shared::cluster") == 1
    alone = [line for line in copies if line not in shared and COPIED in line]
    assert name == "cluster_attention" or len(alone) == own
    assert ptx.count("barrier.cluster.arrive.release;") == ptx.count("barrier.cluster.wait.acquire;") == 3
    readers = int(re.search(r"reqntid (\d+)", ptx)[1]) // 32 - 4  # type: ignore[index]
    assert (
        f"{ctas * readers};" in "".join(re.findall(r"mbarrier\.init.*", ptx)) or f", {ctas * readers};" in ptx
    )
    for more in ({"disable": "clusters"}, {"disable": "roles"}, {"tensor_maps": "none"}):
        assert "multicast" not in compiled(bytecode_path(case), **{**MAPS, **more}).ptx


def product(m: int, n: int, steps: str = "", rows: str = "%i", elem: str = "bf16", hints: str = "") -> str:
    """A product of blocks of m x n x 64 that asks for two CTAs. `steps`: what is done to the left operand of a step."""
    kind = {
        name: f"partition_view<tile=({tile}), padding_value = zero, tensor_view<?x?x{elem}, strides=[?,1]>>"
        for name, tile in (("a", f"{m}x64"), ("b", f"64x{n}"))
    }
    kind["c"] = f"partition_view<tile=({m}x{n}), tensor_view<?x?xf32, strides=[?,1]>>"
    types = {"a": f"{m}x64x{elem}", "b": f"64x{n}x{elem}", "c": f"{m}x{n}xf32"}
    views = "".join(
        f"""    %p{v} = assume div_by<16>, %{v} : tile<ptr<{e}>>
    %v{v} = make_tensor_view %p{v}, shape = [%s, %s], strides = [%s, 1] : tile<i32> -> tensor_view<?x?x{e}, strides=[?,1]>
    %t{v} = make_partition_view %v{v} : {kind[v]}
"""
        for v, e in (("a", elem), ("b", elem), ("c", "f32"))
    )
    return f"""cuda_tile.module @m {{
  entry @k(%a: tile<ptr<{elem}>>, %b: tile<ptr<{elem}>>, %c: tile<ptr<f32>>, %n: tile<i32>)
      optimization_hints = <default = {{num_cta_in_cga = 2}}> {{
    %s = assume div_by<64>, %n : tile<i32>
{views}    %i, %j, %z = get_tile_block_id : tile<i32>
    %0 = constant <i32: 0> : tile<i32>
    %1 = constant <i32: 1> : tile<i32>
    %none = constant <f32: 0.0> : tile<{types["c"]}>
    %sum = for %k in (%0 to %n, step %1) : tile<i32> iter_values(%acc = %none) -> (tile<{types["c"]}>) {{
      %x, %x1 = load_view_tko weak %ta[{rows}, %k]{hints} : {kind["a"]}, tile<i32> -> tile<{types["a"]}>, token
      %y, %y1 = load_view_tko weak %tb[%k, %j] : {kind["b"]}, tile<i32> -> tile<{types["b"]}>, token
      {steps or f"%w = reshape %x : tile<{types['a']}> -> tile<{types['a']}>"}
      %next = mmaf %w, %y, %acc : tile<{types["a"]}>, tile<{types["b"]}>, tile<{types["c"]}>
      continue %next : tile<{types["c"]}>
    }}
    %r = store_view_tko weak %sum, %tc[%i, %j] : tile<{types["c"]}>, {kind["c"]}, tile<i32> -> token
    return
  }}
}}
"""


NO_MAP = " optimization_hints = <default = {allow_tma = false}>"
RELU = "%w = maxf %x, %x : tile<128x64xbf16>"


@pytest.mark.parametrize(
    ("gpu_name", "maps", "text", "followed"),
    [
        ("sm_90", "none", product(128, 128), False),
        ("sm_90", "none", product(256, 256), True),  # one CTA would take it in parts
        ("sm_90", "launcher", product(128, 128), True),  # copied once
        ("sm_100", "none", product(128, 128), False),
        ("sm_100", "none", product(256, 128), False),
        ("sm_100", "none", product(256, 256), False),  # tensor memory holds it
        ("sm_100", "launcher", product(128, 128), False),  # 64 rows each
        ("sm_100", "launcher", product(256, 128), True),  # pairs multiply as one
        ("sm_100", "launcher", product(256, 256), True),
        ("sm_103", "launcher", product(256, 128, elem="f8E4M3FN"), True),
        ("sm_100", "launcher", product(256, 16), False),  # too few columns
        ("sm_100", "launcher", product(256, 128, RELU.replace("128x", "256x")), False),
        ("sm_100", "launcher", product(256, 128, hints=NO_MAP), False),
        ("sm_120", "launcher", product(256, 128), False),
        ("sm_120", "launcher", product(256, 256), True),
        # not copied once: computed on its way, no map, rows that do not suffice, a right operand that is turned
        ("sm_90", "launcher", product(128, 128, RELU), False),
        ("sm_90", "launcher", product(128, 128, hints=NO_MAP), False),
        ("sm_90", "launcher", product(64, 128), False),
        ("sm_90", "launcher", product(128, 128, elem="f8E4M3FN"), False),
    ],
)
def test_clusters_where_they_pay(gpu_name: str, maps: str, text: str, followed: bool) -> None:
    program = compiled(text, gpu_name, tensor_maps=maps, remarks="all")
    said = [
        e.text for e in program.diagnostics if "CTAs of a cluster" in e.text or "num_cta_in_cga" in e.text
    ]
    assert program.kernels["k"].cluster == ((2, 1, 1) if followed else (1, 1, 1))
    assert (".reqnctapercluster 2, 1, 1" in program.ptx) == followed
    assert ("bytes.multicast::cluster" in program.ptx) == (
        followed and (gpu_name, maps) == ("sm_90", "launcher")
    )
    if followed:
        assert len(said) == 1 and "2 CTAs of a cluster share the tile block" in said[0]
    else:
        assert len(said) == 1 and said[0].endswith(cluster_worth.SLOWER)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("cluster_softmax_row_refused", "every CTA would need the whole 'reduce' of tensor<1x256xf32>"),
        ("cluster_order_refused", "'load_ptr_tko' waits for a 'store_view_tko' that another CTA may perform"),
        ("cluster_atomics_refused", "'atomic_rmw_tko' would run once for each CTA"),
    ],
)
def test_what_cannot_be_shared_says_why(name: str, why: str) -> None:
    assert kernel_of(name).cluster == (1, 1, 1)
    assert reasons(bytecode_path(CASES[name])) == [
        f"the CTAs of a cluster cannot share the tile block: {why}"
    ]


def test_it_can_be_left_out() -> None:
    name = "cluster_add_2_1024"
    path = bytecode_path(CASES[name])
    why = ["a tile block is one CTA: the target has no clusters, or they are left out"]
    for gpu_name, more in (
        ("sm_80", {}),
        ("sm_90", {"disable": "clusters"}),
        ("sm_90", {"opt_level": 1}),
    ):
        assert kernel_of(name, gpu_name, **more).cluster == (1, 1, 1)
        assert reasons(path, gpu_name, **more) == why
        assert "blocksareclusters" not in compiled(path, gpu_name, **more).ptx


KERNEL = """cuda_tile.module @m attributes {MODULE} {
  entry @k(%p: tile<ptr<f32>>) optimization_hints = <default = {num_cta_in_cga = CTAS}> {
    %z = constant <i32: 0> : tile<i32>
    %v = make_tensor_view %p, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
    %t = make_partition_view %v : partition_view<tile=(16x16), tensor_view<64x64xf32, strides=[64,1]>>
    BODY
    return
  }
}
"""
VIEW = "partition_view<tile=(16x16), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32>"
LOAD = f"%x, %a = load_view_tko weak %t[%z, %z] : {VIEW} -> tile<16x16xf32>, token"
STORE = "%b = store_view_tko weak %x, %t[%z, %z] TOKEN: tile<16x16xf32>, " + VIEW + " -> token"


def kernel(body: str, ctas: int = 2, module: str = "") -> str:
    return KERNEL.replace("BODY", body).replace("CTAS", str(ctas)).replace("{MODULE}", f"{{{module}}}")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (kernel(""), "the kernel stores nothing"),
        (kernel(LOAD), "the kernel stores nothing"),
        (kernel(f"{LOAD}\n{STORE.replace('weak', 'relaxed device').replace('TOKEN', '')}"), "'store_view_tko' that is not weak"),
        (kernel(f"{LOAD}\n{STORE.replace('TOKEN', '')}", 16), "a cluster of more than 8 CTAs needs a launch attribute"),
        (kernel(f"{LOAD}\n{STORE.replace('TOKEN', '')}", 2, "tt.num_ctas = 2 : i32"), "clusters of its own"),
    ],
)  # fmt: skip
def test_reasons(text: str, why: str) -> None:
    (found,) = reasons(text)
    assert why in found


def test_an_order_within_a_part_is_kept() -> None:
    """A CTA loads and stores its own part in an order that tokens give: the other one has no part in it."""
    text = kernel(f"{LOAD}\n{STORE.replace('TOKEN', 'token = %a ')}")
    program = compiled(text)
    assert program.kernels["k"].cluster == (2, 1, 1) and not reasons(text)


@pytest.mark.sampled(3)
@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("seed", (0, 1, 2, 4, 5, 8, 9, 10))
def test_random_products_with_the_hint(seed: int) -> None:
    text = hinted(draw_program(random.Random(seed).choice), 2 + 2 * (seed % 2))
    gpu_name = TARGETS[seed % 3]
    maps = {"launch_abi": "simt", "tensor_maps": "launcher"} if seed % 2 else {}
    found = differences(text, gpu_name, check=seed % 4 == 0, seed=seed, **maps)
    assert not found, "\n".join([*found, text])


LEFT, RIGHT, SUMS = (
    f"partition_view<tile=({tile}), tensor_view<2x64x64x{elem}, strides=[4096,64,1]>>"
    for tile, elem in (("2x64x32", "f16"), ("2x64x32", "f16"), ("2x64x64", "f32"))
)
BATCHES = f"""// 1x1x1 f16:8192 f16:8192 f32:8192!
cuda_tile.module @m {{
  entry @k(%a: tile<ptr<f16>>, %b: tile<ptr<f16>>, %c: tile<ptr<f32>>) optimization_hints = <default = {{num_cta_in_cga = 4}}> {{
    %pa = assume div_by<16>, %a : tile<ptr<f16>>
    %pb = assume div_by<16>, %b : tile<ptr<f16>>
    %va = make_tensor_view %pa, shape = [2, 64, 64], strides = [4096, 64, 1] : tensor_view<2x64x64xf16, strides=[4096,64,1]>
    %vb = make_tensor_view %pb, shape = [2, 64, 64], strides = [4096, 64, 1] : tensor_view<2x64x64xf16, strides=[4096,64,1]>
    %vc = make_tensor_view %c, shape = [2, 64, 64], strides = [4096, 64, 1] : tensor_view<2x64x64xf32, strides=[4096,64,1]>
    %ta = make_partition_view %va : {LEFT}
    %tb = make_partition_view %vb : {RIGHT}
    %tc = make_partition_view %vc : {SUMS}
    %0 = constant <i32: 0> : tile<i32>
    %1 = constant <i32: 1> : tile<i32>
    %2 = constant <i32: 2> : tile<i32>
    %none = constant <f32: 0.0> : tile<2x64x64xf32>
    %sum = for %i in (%0 to %2, step %1) : tile<i32> iter_values(%s = %none) -> (tile<2x64x64xf32>) {{
      %x, %x1 = load_view_tko weak %ta[%0, %0, %i] : {LEFT}, tile<i32> -> tile<2x64x32xf16>, token
      %y, %y1 = load_view_tko weak %tb[%0, %0, %i] : {RIGHT}, tile<i32> -> tile<2x64x32xf16>, token
      %z = permute %y [0, 2, 1] : tile<2x64x32xf16> -> tile<2x32x64xf16>
      %next = mmaf %x, %z, %s : tile<2x64x32xf16>, tile<2x32x64xf16>, tile<2x64x64xf32>
      continue %next : tile<2x64x64xf32>
    }}
    %r = store_view_tko weak %sum, %tc[%0, %0, %0] : tile<2x64x64xf32>, {SUMS}, tile<i32> -> token
    return
  }}
}}
"""


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("ctas", [4, 8])
@pytest.mark.parametrize("gpu_name", TARGETS)
def test_the_right_operands_of_a_batch_are_shared(gpu_name: str, ctas: int) -> None:
    """Two matrices of 64 rows, of which each CTA copies a fourth or an eighth: rows that follow each other where they lie."""
    text = BATCHES.replace("cga = 4", f"cga = {ctas}")
    program = compiled(text, gpu_name, tensor_maps="launcher")
    assert program.kernels["k"].cluster == (ctas, 1, 1)
    assert {map.box[0] for map in program.kernels["k"].tensor_maps} == {1, 2}
    maps = {"launch_abi": "simt", "tensor_maps": "launcher"}
    assert not differences(text.replace("@m", "@fuzz"), gpu_name, check=True, seed=ctas, **maps)


@pytest.mark.parametrize("ctas", [2, 4, 8])
@pytest.mark.parametrize(
    "tile", [(128, 64), (2, 64, 32), (4, 2, 64, 16), (8, 1, 64), (64, 4, 32), (512, 32), (2, 2, 32)]
)
def test_the_rows_of_a_divided_box_follow_each_other(tile: tuple[int, ...], ctas: int) -> None:
    box = bulk.divided(tile, bulk.box_of(tile, 2), ctas)
    lines = list(itertools.product(*map(range, tile[:-1])))
    for first in parts(tile, box):
        at = lines.index(first[:-1])
        inside = [tuple(f + k for f, k in zip(first, n)) for n in itertools.product(*map(range, box[:-1]))]
        assert lines[at : at + len(inside)] == inside


def hinted(text: str, ctas: int) -> str:
    """A program with the hint, beside those that its entry has."""
    if "num_cta_in_cga" in text:
        return text
    hint = f"num_cta_in_cga = {ctas}"
    given = re.search(r"\) optimization_hints ?= ?<\w+ = {", text)
    if given is not None:
        return text[: given.end()] + hint + ", " + text[given.end() :]
    return re.sub(r"(entry @\w+\([^)]*\))", rf"\1 optimization_hints = <default = {{{hint}}}>", text, count=1)


def test_the_cubin_says_that_a_launch_counts_clusters(tmp_path: Path) -> None:
    peers.require("ptxas")
    dump = peers.require("cuobjdump")
    path = tmp_path / "k.cubin"
    for abi in ("tile", "simt"):
        program = compiled(bytecode_path(CASES["cluster_add_4_256"]), emit="cubin", launch_abi=abi)
        path.write_bytes(program.cubin)
        assert next(iter(read_cubin(program.cubin).kernels.values())).cluster == (4, 1, 1)
        said = subprocess.run(
            [str(dump), "-elf", str(path)], capture_output=True, text=True, check=True
        ).stdout
        assert "EIATTR_BLOCKS_ARE_CLUSTERS" in said


@pytest.mark.parametrize("ctas", [2, 4, 8])
@pytest.mark.parametrize(
    "tile, box", [((64, 256), (64, 64)), ((128, 128), (64, 64)), ((4, 64, 128), (2, 32, 64)), ((16,), (2,))]
)
def test_ranks_share_out_all_boxes_once(tile: tuple[int, ...], box: tuple[int, ...], ctas: int) -> None:
    """Box n of CTA r is box n * ctas + r of the tile, also where boxes lie in several lines."""
    every = list(itertools.product(*(range(0, extent, size) for extent, size in zip(tile, box))))
    assert sorted(parts(tile, box)) == every
    share = shares(tile, box, ctas)
    if share is None:
        assert len(every) < ctas
        return
    own = 1 << len(share.ins[BOX])
    got = [share.split(share(box=n, block=r)) for n in range(own) for r in range(ctas)]
    assert got == parts(tile, box)
