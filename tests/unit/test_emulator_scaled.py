"""Block-scaled mma.sync and packed f32 arithmetic on the emulator, against NumPy."""

import ml_dtypes
import numpy as np
import pytest
from emulator_kit import HEAD, apply

from tileiras.run.emulator import launch

KERNEL = """{head}.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 sa, .param .u64 sb, .param .u64 d) {{
.reg .b32 %t, %x, %y, %q, %a<4>, %b<2>, %s<2>; .reg .b64 %pa, %pb, %ps, %pt, %pd, %o; .reg .f32 %d<4>;
.reg .pred %p; .reg .b16 %h<4>;
mov.u32 %t, %tid.x; ld.param.u64 %pa, [a]; ld.param.u64 %pb, [b]; ld.param.u64 %ps, [sa]; ld.param.u64 %pt, [sb];
ld.param.u64 %pd, [d]; mad.wide.u32 %pa, %t, 16, %pa; mad.wide.u32 %pb, %t, 8, %pb; mad.wide.u32 %ps, %t, 4, %ps;
mad.wide.u32 %pt, %t, 4, %pt; mad.wide.u32 %pd, %t, 16, %pd;
ld.global.v4.b32 {{%a0, %a1, %a2, %a3}}, [%pa]; ld.global.v2.b32 {{%b0, %b1}}, [%pb];
ld.global.b32 %s0, [%ps]; ld.global.b32 %s1, [%pt]; mov.u16 %h0, {sel[0]}; mov.u16 %h1, {sel[1]};
mov.f32 %d0, 0f3F800000; mov.f32 %d1, 0f3F800000; mov.f32 %d2, 0f3F800000; mov.f32 %d3, 0f3F800000;
mma.sync.aligned.{op} {{%d0, %d1, %d2, %d3}}, {{%a0, %a1, %a2, %a3}}, {{%b0, %b1}}, {{%d0, %d1, %d2, %d3}},
    {{%s0}}, {{%h0, %h1}}, {{%s1}}, {{{sel[2]}, {sel[3]}}};
st.global.v4.f32 [%pd], {{%d0, %d1, %d2, %d3}}; ret; }}"""


@pytest.mark.parametrize(
    "case",
    ["mxf8f6f4 1X e4m3 e5m2 ue8m0 0,0,0,0", "mxf8f6f4 1X e5m2 e4m3 ue8m0 3,1,2,3", "mxf4 2X e2m1 e2m1 ue8m0 2,0,0,1",
     "mxf4nvf4 4X e2m1 e2m1 ue4m3 0,1,0,2", "mxf4nvf4 2X e2m1 e2m1 ue8m0 0,0,2,0"],
)  # fmt: skip
def test_block_scaled_products(case):
    kind, vector, at, bt, st, sel = case.split()
    sel = [int(v) for v in sel.split(",")]
    blocks, k = int(vector[0]), 32 if kind == "mxf8f6f4" else 64
    types = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2, "e2m1": ml_dtypes.float4_e2m1fn}
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, (r, k)).astype(np.float32).astype(types[t]) for r, t in ((16, at), (8, bt)))
    raw = [x.view(np.uint8) for x in (a, b)]
    if k == 64:
        raw = [x[:, ::2] | x[:, 1::2] << 4 for x in raw]
    wa, wb = (np.ascontiguousarray(x).view(np.uint32) for x in raw)  # [16, 8], [8, 8]
    g, t = np.arange(32) // 4, np.arange(32) % 4
    fa = np.ascontiguousarray(np.stack([wa[g, t], wa[g + 8, t], wa[g, t + 4], wa[g + 8, t + 4]], 1))
    fb = np.ascontiguousarray(np.stack([wb[g, t], wb[g, t + 4]], 1))
    low, high = (110, 140) if st == "ue8m0" else (0x30, 0x50)
    sa, sb = (rng.integers(low, high, (32, 4)).astype(np.uint8) for _ in range(2))  # every lane's own word
    d = np.zeros((32, 4), np.float32)
    op = f"m16n8k{k}.row.col.kind::{kind}.block_scale.scale_vec::{vector}.f32.{at}.{bt}.f32.{st}"
    launch(KERNEL.format(head=HEAD, op=op, sel=sel), "k", 1, 32, [fa, fb, sa, sb, d])

    def value(codes):
        return (
            np.exp2(codes.astype(float) - 127) if st == "ue8m0" else codes.view(types["e4m3"]).astype(float)
        )

    rows = np.array([(r % 8) * 4 + 2 * sel[1] + r // 8 for r in range(16)])
    columns = np.arange(8) * 4 + sel[3]
    scale_a = np.repeat(value(sa[rows][:, sel[0] : sel[0] + blocks]), k // blocks, 1)
    scale_b = np.repeat(value(sb[columns][:, sel[2] : sel[2] + blocks]), k // blocks, 1)
    want = (a.astype(float) * scale_a) @ (b.astype(float) * scale_b).T + 1
    got = np.zeros((16, 8), np.float32)
    for lane in range(32):
        for i in range(4):
            got[lane // 4 + i // 2 * 8, lane % 4 * 2 + i % 2] = d[lane, i]
    assert (got == want.astype(np.float32)).all()


def test_packed_f32():
    rng = np.random.default_rng(1)
    x, y, z = (rng.normal(size=400).astype(np.float32) for _ in range(3))
    pair = lambda v: v.view(np.uint64)  # noqa: E731
    add = apply("add.rn.f32x2 %d0, %a0, %a1;", [pair(x), pair(y)], [np.uint64])
    mul = apply("mul.rz.f32x2 %d0, %a0, %a1;", [pair(x), pair(y)], [np.uint64])
    fma = apply("fma.rn.f32x2 %d0, %a0, %a1, %a2;", [pair(x), pair(y), pair(z)], [np.uint64])
    assert (add.view(np.float32) == x + y).all()
    exact = x.astype(np.float64) * y
    toward = exact.astype(np.float32)
    toward = np.where(np.abs(toward) > np.abs(exact), np.nextafter(toward, np.float32(0)), toward)
    assert (mul.view(np.float32) == toward).all()
    wide = (x.astype(np.longdouble) * y + z).astype(np.float32)
    assert (fma.view(np.float32) == wide).all()


def test_rounding_to_tf32():
    x = np.random.default_rng(2).normal(size=1000).astype(np.float32)
    got = apply("cvt.rn.tf32.f32 %d0, %a0;", [x.view(np.uint32)], [np.uint32])
    bits = x.view(np.uint32).astype(np.uint64)
    want = (bits + 0xFFF + (bits >> 13 & 1)) & 0xFFFFE000
    assert (got == want.astype(np.uint32)).all()
