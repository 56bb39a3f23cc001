"""Right operands of wgmma that are one number, a row or a column over and over: shared memory gets all of their elements."""

from __future__ import annotations

import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

import ml_dtypes
import numpy as np

import tileiras
from tests.tile_text import tile, view_type
from tileiras.compiler.layout.linear import LinearLayout, splat, with_inv, without_inv

M, N, K, STEPS = 64, 32, 64, 3
TYPES = {"bf16": ml_dtypes.bfloat16, "f8E4M3FN": ml_dtypes.float8_e4m3fn}
# what the operand is made of: the shape of what is loaded, None where nothing is
FORMS: dict[str, tuple[int, int] | None] = {
    "constant": None,
    "scalar": (1, 1),
    "row": (1, N),
    "column": (K, 1),
}


def kernel(form: str, elem: str, inside: bool) -> str:
    """C = sum of A_s B, B broadcast in the loop (`inside`) or in front of it."""
    shape = FORMS[form]
    whole, acc = tile((K, N), elem), tile((M, N), "f32")
    va, vo = view_type((M, STEPS * K), elem), view_type((M, N), "f32")
    lines = [f"%b = constant <{elem}: 1.0> : {whole}"]
    parts = ""
    left, out = f"partition_view<tile=({M}x{K}), {va}>", f"partition_view<tile=({M}x{N}), {vo}>"
    if shape is not None:
        vb = view_type(shape, elem)
        part = f"partition_view<tile=({shape[0]}x{shape[1]}), {vb}>"
        parts = f"""%vb = make_tensor_view %qa, shape = [{shape[0]}, {shape[1]}], strides = [{shape[1]}, 1] : {vb}
    %tb = make_partition_view %vb : {part}"""
        lines = [
            f"%l, %lt = load_view_tko weak %tb[%zero, %zero] token = %t : {part}, tile<i32> -> {tile(shape, elem)}, token",
            f"%b = broadcast %l : {tile(shape, elem)} -> {whole}",
        ]
    made = "\n    ".join(lines)
    return f"""
cuda_tile.module @m {{
  entry @k(%p: tile<ptr<{elem}>>, %q: tile<ptr<{elem}>>, %o: tile<ptr<f32>>) {{
    %pa = assume div_by<16>, %p : tile<ptr<{elem}>>
    %qa = assume div_by<16>, %q : tile<ptr<{elem}>>
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %steps = constant <i32: {STEPS}> : tile<i32>
    %c = constant <f32: 0.0> : {acc}
    %va = make_tensor_view %pa, shape = [{M}, {STEPS * K}], strides = [{STEPS * K}, 1] : {va}
    %ta = make_partition_view %va : {left}
    {parts}
    {"" if inside else made}
    %d = for %i in (%zero to %steps, step %one) : tile<i32> iter_values(%s = %c) -> ({acc}) {{
      %a, %k = load_view_tko weak %ta[%zero, %i] token = %t : {left}, tile<i32> -> {tile((M, K), elem)}, token
      {made if inside else ""}
      %n = mmaf %a, %b, %s : {tile((M, K), elem)}, {whole}, {acc}
      continue %n : {acc}
    }}
    %vo = make_tensor_view %o, shape = [{M}, {N}], strides = [{N}, 1] : {vo}
    %to = make_partition_view %vo : {out}
    %e = store_view_tko weak %d, %to[%zero, %zero] token = %t : {acc}, {out}, tile<i32> -> token
    return
  }}
}}
"""


@pytest.mark.parametrize("inside", [False, True], ids=["in front of the loop", "in the loop"])
@pytest.mark.parametrize("elem", TYPES)
@pytest.mark.parametrize("form", FORMS)
def test_every_element_is_stored(form: str, elem: str, inside: bool) -> None:
    rng = np.random.default_rng(3)
    a = rng.uniform(-1, 1, (M, STEPS * K)).astype(TYPES[elem])
    b = rng.uniform(-1, 1, FORMS[form] or (1, 1)).astype(TYPES[elem])
    right = np.broadcast_to(np.float64(1) if FORMS[form] is None else b.astype(np.float64), (K, N))
    want = sum(a[:, s * K : (s + 1) * K].astype(np.float64) @ right for s in range(STEPS))
    program = tileiras.compile(kernel(form, elem, inside), gpu_name="sm_90", launch_abi="simt", emit="ptx")
    assert "wgmma.mma_async" in program.ptx
    out = np.zeros((M, N), np.float32)
    tileiras.launch(program, "k", grid=(1, 1, 1), args=[a, b, out], target="emulator", check=True, seed=1)
    assert np.allclose(out, want, rtol=1e-2, atol=1e-2)


def test_all_threads_store_a_part_of_a_constant_16_bytes_at_once() -> None:
    ptx = tileiras.compile(
        kernel("constant", "bf16", False), gpu_name="sm_90", launch_abi="simt", emit="ptx"
    ).ptx
    assert K * N * 2 // 16 == 2 * 128  # 128 threads
    assert ptx.count("st.shared.v4") == 2


@pytest.mark.parametrize(
    "layout",
    [
        splat(6, 2),
        with_inv(LinearLayout(8, (1, 2), (4, 8, 16, 32, 64), (128, 0)), 0b00111100),
        with_inv(LinearLayout(8, (16,), (1, 2, 4, 8, 0), (32, 64 + 128)), 0b10000001),
    ],
)
def test_a_layout_without_inv_has_the_same_values_and_a_place_for_each_element(layout: LinearLayout) -> None:
    out = without_inv(layout, 0b11)
    assert layout.inv and not out.inv and out.problem is None
    lanes, warps = len(layout.lane), len(layout.warp)
    named = set()
    for thread in range(1 << (lanes + warps)):
        lane, warp = thread & ((1 << lanes) - 1), thread >> lanes
        held = {layout(r, lane, warp) for r in range(layout.num_regs)}
        for r in range(out.num_regs):
            index = out(r, lane, warp)
            named.add(index)
            assert index & ~layout.inv in held
    assert len(named) == 1 << layout.bits
