"""wmma on the emulator: every type and shape against NumPy, both layouts, strides, elementwise work on fragments."""

import ml_dtypes
import numpy as np
import pytest
from emulator_kit import entry

from tileiras.run.emulator import launch

BF16 = ml_dtypes.bfloat16
# type of A and B, of C and D, shape, registers of A, B, C and D
CASES = [
    *(("f16", c, s, 8, 8, 8 if c == "f32" else 4) for c in ("f32", "f16") for s in ("m16n16k16", "m8n32k16", "m32n8k16")),
    ("bf16", "f32", "m16n16k16", 4, 4, 8), ("bf16", "f32", "m8n32k16", 2, 8, 8), ("bf16", "f32", "m32n8k16", 8, 2, 8),
    ("tf32", "f32", "m16n16k8", 4, 4, 8), ("f64", "f64", "m8n8k4", 1, 1, 2),
    *((t, "s32", s, a, b, 8) for t in ("s8", "u8") for s, a, b in (("m16n16k16", 2, 2), ("m8n32k16", 1, 4), ("m32n8k16", 4, 1))),
    ("s4", "s32", "m8n8k32", 1, 1, 2), ("u4", "s32", "m8n8k32", 1, 1, 2), ("b1", "s32", "m8n8k128", 1, 1, 2),
]  # fmt: skip
TYPES = {"f16": np.float16, "bf16": BF16, "tf32": np.float32, "f32": np.float32, "f64": np.float64, "s8": np.int8,
         "u8": np.uint8, "s32": np.int32}  # fmt: skip
SMALL = {"s4": (-8, 8, 4), "u4": (0, 16, 4), "b1": (0, 2, 1)}


def packed(x, bits):
    """Rows of small elements as bytes."""
    raw = (x & ((1 << bits) - 1)).astype(np.uint8)
    return np.packbits(
        ((raw[..., None] >> np.arange(bits)) & 1).reshape(len(x), -1).astype(np.uint8),
        axis=-1,
        bitorder="little",
    )


def vector(name, count):
    return "{" + ", ".join(f"%{name}{i}" for i in range(count)) + "}"


@pytest.mark.parametrize(
    "layouts", [("row", "col", "row"), ("col", "row", "col"), ("row", "row", "col"), ("col", "col", "row")]
)
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}-{case[1]}-{case[2]}")
def test_products(case, layouts):
    type_, result, shape, na, nb, nc = case
    if type_ in SMALL and layouts[:2] != ("row", "col"):
        pytest.skip("the ISA has no such layout")
    m, n, k = (int(w) for w in shape[1:].replace("n", " ").replace("k", " ").split())
    rng = np.random.default_rng(m + k)
    low, high, bits = SMALL.get(type_, (0 if type_ == "u8" else -4, 5, 0))
    a, b = rng.integers(low, high, (m, k)), rng.integers(low, high, (n, k))  # B transposed
    c = rng.integers(-4, 5, (m, n))
    arrays, strides = [], []
    for x, along, small in (
        (a, layouts[0] == "row", True),
        (b, layouts[1] == "col", True),
        (c, layouts[2] == "row", False),
    ):
        x = x if along else x.T
        if small and bits:
            arrays.append(packed(x, bits))
            strides.append(x.shape[1])
            continue
        wide = np.zeros((x.shape[0], x.shape[1] + 16), TYPES[type_ if small else result])
        wide[:, : x.shape[1]] = x
        arrays.append(wide)
        strides.append(wide.shape[1])
    width = {"f64": "f64", "f32": "f32"}.get(type_, "b32"), {"f64": "f64", "f32": "f32"}.get(result, "b32")
    kind = f"{result}.{result}" if type_ == "f16" else f"{result}.{type_}.{type_}.{result}"
    op = ".and.popc" if type_ == "b1" else ""
    body = f""".reg .b64 %p<4>; .reg .{width[0]} %a<8>, %b<8>; .reg .{width[1]} %c<8>, %d<8>;
    {" ".join(f"ld.param.u64 %p{i}, [p{i}];" for i in range(4))}
    wmma.load.a.sync.aligned.{layouts[0]}.{shape}.global.{type_} {vector("a", na)}, [%p0], {strides[0]};
    wmma.load.b.sync.aligned.{layouts[1]}.{shape}.global.{type_} {vector("b", nb)}, [%p1], {strides[1]};
    wmma.load.c.sync.aligned.{layouts[2]}.{shape}.{result} {vector("c", nc)}, [%p2], {strides[2]};
    wmma.mma{op}.sync.aligned.{layouts[0]}.{layouts[1]}.{shape}.{kind} {vector("d", nc)}, {vector("a", na)}, {vector("b", nb)},
      {vector("c", nc)};
    wmma.store.d.sync.aligned.{layouts[2]}.{shape}.global.{result} [%p3], {vector("d", nc)}, {strides[2]}; ret;"""
    out = np.zeros_like(arrays[2])
    params = [*arrays, out]
    launch(entry(body, ", ".join(f".param .u64 p{i}" for i in range(4))), "k", 1, 32, params)
    got = out[:, : n if layouts[2] == "row" else m]
    want = a @ b.T + c
    assert (got.astype(np.float64) == (want if layouts[2] == "row" else want.T)).all()
    assert not out[:, got.shape[1] :].any()


@pytest.mark.parametrize("seed", [None, 0, 1])
def test_two_warps_through_shared_memory(seed):
    """D = 2 (A B + A B), scaled element by element in its fragment; each warp has its own tiles."""
    a, b = (np.random.default_rng(s).integers(-3, 4, (2, 16, 16)).astype(np.float16) for s in (1, 2))
    out = np.zeros((2, 16, 16), np.float32)
    scale = " ".join(f"mul.f32 %d{i}, %d{i}, 0f40000000;" for i in range(8))
    body = f""".reg .b64 %p<3>; .reg .b32 %t, %w, %s, %x, %a<8>, %b<8>; .reg .f32 %d<8>; .shared .align 32 .b8 tile[1024];
    mov.u32 %t, %tid.x; shr.u32 %w, %t, 5; and.b32 %t, %t, 31;
    {" ".join(f"ld.param.u64 %p{i}, [p{i}]; mad.wide.u32 %p{i}, %w, {512 << (i == 2)}, %p{i};" for i in range(3))}
    mov.u32 %s, tile; mad.lo.u32 %s, %w, 512, %s; mad.lo.u32 %x, %t, 16, %s; .reg .b64 %q; .reg .b32 %v<4>;
    mad.wide.u32 %q, %t, 16, %p0; ld.global.v4.b32 {{%v0, %v1, %v2, %v3}}, [%q]; st.shared.v4.b32 [%x], {{%v0, %v1, %v2, %v3}};
    bar.sync 0;
    wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {vector("a", 8)}, [%s];
    wmma.load.b.sync.aligned.row.m16n16k16.global.f16 {vector("b", 8)}, [%p1], 16;
    {" ".join(f"mov.f32 %d{i}, 0f00000000;" for i in range(8))}
    wmma.mma.sync.aligned.row.row.m16n16k16.f32.f32 {vector("d", 8)}, {vector("a", 8)}, {vector("b", 8)}, {vector("d", 8)};
    wmma.mma.sync.aligned.row.row.m16n16k16.f32.f32 {vector("d", 8)}, {vector("a", 8)}, {vector("b", 8)}, {vector("d", 8)};
    {scale} wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [%p2], {vector("d", 8)}, 16; ret;"""
    report = launch(
        entry(body, ", ".join(f".param .u64 p{i}" for i in range(3))),
        "k",
        1,
        64,
        [a, b, out],
        check=seed is not None,
        seed=seed,
    )
    assert (out == 4 * (a.astype(np.float32) @ b.astype(np.float32))).all() and report.findings == []


def test_whole_numbers_are_clamped_where_that_is_asked():
    a, b = np.full((16, 16), -128, np.int8), np.full((16, 16), -128, np.int8)
    c, outs = np.full((16, 16), 2**31 - 1000, np.int32), []
    for mode in ("", ".satfinite"):
        out = np.zeros((16, 16), np.int32)
        body = f""".reg .b64 %p<4>; .reg .b32 %a<2>, %b<2>, %c<8>;
        {" ".join(f"ld.param.u64 %p{i}, [p{i}];" for i in range(4))}
        wmma.load.a.sync.aligned.row.m16n16k16.global.s8 {vector("a", 2)}, [%p0];
        wmma.load.b.sync.aligned.col.m16n16k16.global.s8 {vector("b", 2)}, [%p1];
        wmma.load.c.sync.aligned.row.m16n16k16.global.s32 {vector("c", 8)}, [%p2];
        wmma.mma.sync.aligned.row.col.m16n16k16.s32.s8.s8.s32{mode} {vector("c", 8)}, {vector("a", 2)}, {vector("b", 2)},
          {vector("c", 8)};
        wmma.store.d.sync.aligned.row.m16n16k16.global.s32 [%p3], {vector("c", 8)}; ret;"""
        launch(entry(body, ", ".join(f".param .u64 p{i}" for i in range(4))), "k", 1, 32, [a, b, c, out])
        outs.append(out)
    assert (outs[0] == -(2**31) - 1000 + 128 * 128 * 16).all() and (outs[1] == 2**31 - 1).all()
