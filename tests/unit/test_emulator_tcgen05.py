"""tcgen05 on the emulator: products of every kind against NumPy, tensor memory, copies into it, and planted bugs."""

import ml_dtypes
import numpy as np
import pytest

from tileiras.run.emulator import EmulatorError, launch

HEAD = ".version 8.7\n.target sm_100a\n.address_size 64\n"
MODES = {0: 0, 128: 2, 64: 4, 32: 6}


def place(raw, swizzle, trans=False, size=1):
    """(bytes of shared memory, LBO, SBO) of rows of bytes [rows, k * size], by the canonical layouts."""
    rows, width = raw.shape
    line = swizzle or 16
    r, b = np.ix_(np.arange(rows), np.arange(width))
    if trans:
        c, byte, along = b // size, b % size, line // size
        lbo, sbo = 8 * line * -(-(width // size) // 8), 8 * line
        at = r % along * size + byte + r // along * lbo + c % 8 * line + c // 8 * sbo
    else:
        lbo, sbo = (16, 8 * line) if swizzle else (128 * (rows // 8), 128)
        at = r % 8 * line + r // 8 * sbo + (b if swizzle else b // 16 * lbo + b % 16)
    if swizzle:
        at = at ^ (at >> 7 & (line // 16 - 1)) << 4
    out = np.zeros(-(-int(at.max() + 1) // 1024) * 1024, np.uint8)
    out[at] = raw
    return out, lbo, sbo


def descriptor(at, lbo, sbo, swizzle):
    return at >> 4 | lbo >> 4 << 16 | sbo >> 4 << 32 | 1 << 46 | MODES[swizzle] << 61


WAIT = "WAIT: mbarrier.try_wait.parity.shared::cta.b64 %q, [%b], {}; @!%q bra WAIT;"


def kernel(kind, n, *, scaled="", scales="", cp="", wait=None, fence="fence.proxy.async.shared::cta;",
           after="", commit="tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%b];",
           load_wait="tcgen05.wait::ld.sync.aligned;", a="%ad", st="",
           bring="ld.global.b32 %y, [%o]; st.shared.b32 [%tm], %y;"):  # fmt: skip
    wait = WAIT.format(0) if wait is None else wait
    d = [f"%d{i}" for i in range(n)]
    load = f"tcgen05.ld.sync.aligned.32x32b.x{n}.b32 {{{', '.join(d)}}}, [%ta];"
    store = "\n".join(f"st.global.b32 [%pd+{i * 4}], {r};" for i, r in enumerate(d))
    return f"""{HEAD}
.shared .align 1024 .b8 tile[98304]; .shared .align 8 .b64 bar; .shared .align 4 .b32 slot;
.visible .entry k(.param .u64 image, .param .u32 bytes, .param .u64 adesc, .param .u64 bdesc, .param .u32 idesc,
                  .param .u64 sdesc, .param .u64 tdesc, .param .u64 out) {{
.reg .pred %p, %q, %w, %en; .reg .b32 %t, %x, %y, %n, %b, %ta, %tm, %id, %z; .reg .b64 %pi, %pd, %ad, %bd, %o, %sd;
.reg .b32 %d<{n}>;
mov.u32 %t, %tid.x; mov.u32 %b, bar; ld.param.u32 %n, [bytes]; ld.param.u64 %pi, [image]; ld.param.u64 %pd, [out];
ld.param.u64 %ad, [adesc]; ld.param.u64 %bd, [bdesc]; ld.param.u32 %id, [idesc]; setp.eq.u32 %p, %t, 0;
setp.lt.u32 %w, %t, 32; mad.wide.u32 %pd, %t, {4 * n}, %pd; mov.u32 %z, 0;
@%p mbarrier.init.shared::cta.b64 [%b], 1; @%p fence.mbarrier_init.release.cluster;
mov.u32 %x, slot; @!%w bra NOALLOC;
tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%x], 512; tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
NOALLOC: shl.b32 %x, %t, 2;
COPY: setp.ge.u32 %q, %x, %n; @%q bra COPIED; cvt.u64.u32 %o, %x; add.u64 %o, %o, %pi;
mov.u32 %tm, tile; add.u32 %tm, %tm, %x; {bring} add.u32 %x, %x, 512; bra COPY;
COPIED: {fence}
bar.sync 0; ld.shared.b32 %tm, [slot]; shr.u32 %ta, %t, 5; shl.b32 %ta, %ta, 21; add.u32 %ta, %ta, %tm;
{st}
setp.ne.u32 %en, %z, 0; @!%p bra ISSUED;
{cp}
tcgen05.mma.cta_group::1.kind::{kind}{scaled} [%tm], {a}, %bd, %id, {scales} %en;
setp.eq.u32 %en, %z, 0;
tcgen05.mma.cta_group::1.kind::{kind}{scaled} [%tm], {a}, %bd, %id, {scales} %en;
{commit}
ISSUED: {wait}
tcgen05.fence::after_thread_sync;
{load}
{load_wait}
{after}
{store}
bar.sync 0; @!%w bra END; mov.u32 %x, 512; tcgen05.dealloc.cta_group::1.sync.aligned.b32 %tm, %x; END: ret; }}"""


FORMATS = {
    "f16": 0,
    "bf16": 1,
    "tf32": 2,
    "e4m3": 0,
    "e5m2": 1,
    "e2m3": 3,
    "e3m2": 4,
    "e2m1": 5,
    "u8": 0,
    "s8": 1,
}
VALUES = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32, "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2, "e2m3": ml_dtypes.float6_e2m3fn, "e3m2": ml_dtypes.float6_e3m2fn,
    "e2m1": ml_dtypes.float4_e2m1fn, "u8": np.uint8, "s8": np.int8,
}  # fmt: skip


def packed(x, type_):
    """Rows of bytes as shared memory holds elements: six and four bits in the head of each 16 bytes."""
    raw = np.ascontiguousarray(x).view(np.uint8).reshape(x.shape[0], -1)
    if type_ not in ("e2m3", "e3m2", "e2m1"):
        return raw
    bits = 4 if type_ == "e2m1" else 6
    groups = raw.reshape(x.shape[0], -1, 16)
    stream = np.unpackbits(groups[..., None], axis=-1, bitorder="little")[..., :bits].reshape(
        *groups.shape[:2], -1
    )
    out = np.zeros((*groups.shape[:2], 16), np.uint8)
    data = np.packbits(stream, axis=-1, bitorder="little")
    out[..., : data.shape[-1]] = data
    return out.reshape(x.shape[0], -1)


def operands(m, n, k, a_type, b_type, seed=0):
    rng = np.random.default_rng(seed)
    low = 0 if "u8" in (a_type, b_type) else -3
    return (
        rng.integers(low, 4, (r, k)).astype(np.float32).astype(VALUES[t])
        for r, t in ((m, a_type), (n, b_type))
    )


def run(kind, a_type, b_type, d_type, m, n, *, swizzle=128, trans=(0, 0), negate=0, launching=None, **pieces):
    k = {"f16": 16, "tf32": 8}.get(kind, 32)
    a, b = operands(m, n, k, a_type, b_type)
    size = np.dtype(VALUES[a_type]).itemsize
    ai, alo, aso = place(packed(a, a_type), swizzle, trans[0], size)
    bi, blo, bso = place(packed(b, b_type), swizzle, trans[1], size)
    image = np.concatenate([ai, bi])
    idesc = (
        {"f16": 0, "f32": 1, "s32": 2}[d_type] << 4
        | FORMATS[a_type] << 7
        | FORMATS[b_type] << 10
        | negate << 13
    )
    idesc |= trans[0] << 15 | trans[1] << 16 | n >> 3 << 17 | m >> 4 << 24
    out = np.zeros((128, n), np.uint32)
    report = launch(
        kernel(kind, n, **pieces), "k", 1, 128,
        [image, image.size, descriptor(0, alo, aso, swizzle), descriptor(ai.size, blo, bso, swizzle), idesc, 0, 0, out],
        **(launching or {}),
    )  # fmt: skip
    lanes = np.arange(128) if m == 128 else np.arange(64) % 16 + np.arange(64) // 16 * 32
    got = out[lanes]
    got = (
        got.astype(np.uint16).view(np.float16)
        if d_type == "f16"
        else got.view(np.float32 if d_type == "f32" else np.int32)
    )
    want = 2 * (a.astype(np.float64) @ b.T.astype(np.float64)) * (-1 if negate else 1)
    return got.astype(np.float64), want, report


@pytest.mark.parametrize(
    "case",
    ["f16 f16 f16 f32", "f16 bf16 bf16 f32", "f16 f16 f16 f16", "tf32 tf32 tf32 f32", "f8f6f4 e4m3 e5m2 f32",
     "f8f6f4 e2m3 e3m2 f32", "f8f6f4 e2m1 e4m3 f16", "i8 s8 u8 s32", "i8 u8 s8 s32"],
)  # fmt: skip
def test_kinds(case):
    kind, a, b, d = case.split()
    for m, n in ((128, 32), (64, 64), (128, 128)):
        got, want, _ = run(kind, a, b, d, m, n)
        assert (got == want).all(), (m, n)


@pytest.mark.parametrize("swizzle", [0, 32, 64, 128])
def test_layouts(swizzle):
    for trans in ((0, 0), (1, 0), (0, 1), (1, 1)) if swizzle else ((0, 0),):
        got, want, _ = run("f16", "bf16", "bf16", "f32", 128, 64, swizzle=swizzle, trans=trans, negate=1)
        assert (got == want).all(), trans
    got, want, _ = run("i8", "s8", "s8", "s32", 128, 64, swizzle=swizzle or 128, trans=(1, 1))
    assert (got == want).all()


def scale_image(codes):
    """Scales [rows, 4] as the 32 rows of 16 bytes that tcgen05.cp.32x128b.warpx4 copies (128 rows at a time)."""
    out = np.zeros((-(-codes.shape[0] // 128), 32, 4, 4), np.uint8)
    r = np.arange(codes.shape[0])
    out[r // 128, r % 32, r // 32 % 4] = codes
    return out.reshape(-1)


SCALE_TYPES = {"ue8m0": ml_dtypes.float8_e8m0fnu, "ue4m3": ml_dtypes.float8_e4m3fn}
COPIED = """ld.param.u64 %sd, [sdesc]; add.u32 %y, %tm, 256; tcgen05.cp.cta_group::1.32x128b.warpx4 [%y], %sd;
        ld.param.u64 %sd, [tdesc]; add.u32 %x, %tm, 260; tcgen05.cp.cta_group::1.32x128b.warpx4 [%x], %sd;"""
# every thread of a warp stores the word at its lane of four columns; all four warps store the same
STORED = """mov.u32 %x, tile; and.b32 %y, %t, 31; shl.b32 %y, %y, 4; add.u32 %x, %x, %y;
ld.param.u64 %sd, [sdesc]; cvt.u32.u64 %y, %sd; and.b32 %y, %y, 0x3fff; shl.b32 %y, %y, 4; add.u32 %n, %x, %y;
sub.u32 %n, %n, tile;
ld.shared.v4.b32 {{%d0, %d1, %d2, %d3}}, [%n]; add.u32 %y, %ta, 256;
tcgen05.st.sync.aligned.32x32b.x4.b32 [%y], {{%d0, %d1, %d2, %d3}};
ld.param.u64 %sd, [tdesc]; cvt.u32.u64 %y, %sd; and.b32 %y, %y, 0x3fff; shl.b32 %y, %y, 4; add.u32 %n, %x, %y;
sub.u32 %n, %n, tile;
ld.shared.v4.b32 {{%d0, %d1, %d2, %d3}}, [%n]; add.u32 %y, %ta, 260;
{} tcgen05.st.sync.aligned.32x32b.x4.b32 [%y], {{%d0, %d1, %d2, %d3}}; KEPT:
tcgen05.wait::st.sync.aligned; tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync;
add.u32 %y, %tm, 256; add.u32 %x, %tm, 260;"""


def scaled(kind, formats, vector, scale, ident, n=64, m=128, cp=COPIED, st=""):
    """(what a block-scaled product of operands of those formats wrote, what it should have, findings)."""
    per, (a_type, b_type) = {"1X": 1, "2X": 2, "4X": 4}[vector], formats.split()
    k = 32 if kind == "mxf8f6f4" else 64
    a, b = operands(128, n, k, a_type, b_type)
    if kind == "mxf8f6f4":
        raw = packed(a, a_type), packed(b, b_type)
        codes = {"e4m3": 0, "e5m2": 1, "e2m3": 3, "e3m2": 4, "e2m1": 5}
        formats = codes[a_type] << 7 | codes[b_type] << 10
    else:
        raw = tuple((x.view(np.uint8)[:, ::2] | x.view(np.uint8)[:, 1::2] << 4) for x in (a, b))
        formats = 1 << 7 | 1 << 10
    rng = np.random.default_rng(3)
    low, high = (120, 134) if scale == "ue8m0" else (0x30, 0x48)
    sa, sb = (rng.integers(low, high, (r, 4)).astype(np.uint8) for r in (128, n))
    ai, alo, aso = place(raw[0], 32)
    bi, blo, bso = place(raw[1], 32)
    ci, ti = scale_image(sa), scale_image(sb)
    image = np.concatenate([ai, bi, ci, ti])
    at = np.cumsum([0, ai.size, bi.size, ci.size])
    for more in range(1, ti.size // 512):
        cp += f" add.u64 %sd, %sd, {32 * more}; add.u32 %n, %x, {4 * more}; "
        cp += "tcgen05.cp.cta_group::1.32x128b.warpx4 [%n], %sd;"
    idesc = ident << 4 | formats | n >> 3 << 17 | (scale == "ue8m0") << 23 | m >> 4 << 24 | ident << 29
    out = np.zeros((128, n), np.float32)
    report = launch(
        kernel(kind, n, scaled=f".block_scale.scale_vec::{vector}", scales="[%y], [%x],", cp=cp, st=st), "k", 1, 128,
        [image, image.size, descriptor(0, alo, aso, 32), descriptor(int(at[1]), blo, bso, 32), idesc,
         descriptor(int(at[2]), 16, 128, 0), descriptor(int(at[3]), 16, 128, 0), out],
        check=True, seed=1,
    )  # fmt: skip
    value = [s.view(SCALE_TYPES[scale]).astype(np.float64)[:, ident : ident + per] for s in (sa, sb)]
    part = [np.repeat(v, k // per, axis=1) if v.shape[1] == per else 1 for v in value]
    want = 2 * ((a.astype(float) * part[0]) @ (b.astype(float) * part[1]).T)
    return out, want.astype(np.float32), report.findings


@pytest.mark.sampled(3)
@pytest.mark.parametrize("form", [
    "mxf8f6f4 1X ue8m0 0,1,2,3", "mxf4 2X ue8m0 0,2", "mxf4nvf4 2X ue8m0 0,2", "mxf4nvf4 4X ue8m0 0",
    "mxf4nvf4 4X ue4m3 0",
])  # fmt: skip
def test_block_scales(form):
    """Every kind with its types of elements and scales, and every byte of a word at which scales may begin."""
    kind, vector, scale, idents = form.split()
    formats = ["e2m1 e2m1"]
    if kind == "mxf8f6f4":
        formats = ["e4m3 e5m2", "e4m3 e4m3", "e5m2 e5m2", "e2m3 e3m2", "e2m1 e4m3"]
    for ident in map(int, idents.split(",")):
        got, want, findings = scaled(kind, formats[ident % len(formats)], vector, scale, ident)
        assert (got == want).all() and findings == [], ident
    for types in formats:
        for n in (16, 128, 256):
            got, want, findings = scaled(kind, types, vector, scale, 0, n)
            assert (got == want).all() and findings == [], (types, n)


@pytest.mark.parametrize("ident", [1, 2, 3])
def test_the_two_highest_bits_of_an_address_of_scales_are_no_place(ident):
    """CUTLASS keeps there the byte that it also puts into the instruction descriptor."""
    bits = f"or.b32 %y, %y, {ident << 30}; or.b32 %x, %x, {ident << 30};"
    got, want, findings = scaled(
        "mxf8f6f4", "e4m3 e4m3", "1X", "ue8m0", ident, cp="", st=STORED.format("") + bits
    )
    assert (got == want).all() and findings == []


def test_block_scales_from_registers():
    """tcgen05.st brings scales as well, where all four warps store them; else partitions differ."""
    for form in ("mxf8f6f4 1X ue8m0 0", "mxf4nvf4 4X ue4m3 0"):
        kind, vector, scale, ident = form.split()
        types = "e4m3 e4m3" if kind == "mxf8f6f4" else "e2m1 e2m1"
        got, want, findings = scaled(kind, types, vector, scale, int(ident), cp="", st=STORED.format(""))
        assert (got == want).all() and findings == []
        *_, findings = scaled(
            kind, types, vector, scale, int(ident), cp="", st=STORED.format("@!%w bra KEPT;")
        )
        assert "not the same in all four partitions" in str(findings)


def test_block_scales_that_are_none():
    for form, words, message in (
        ("mxf4 2X ue8m0 1", {}, "takes none from byte 1"),
        ("mxf4nvf4 4X ue4m3 2", {}, "takes none from byte 2"),
        ("mxf8f6f4 1X ue8m0 0", {"m": 64}, "no shape M = 64"),
        ("mxf8f6f4 1X ue8m0 0", {"cp": COPIED + "add.u32 %x, %tm, 511;"}, "not allocated"),
        ("mxf8f6f4 1X ue8m0 0", {"cp": COPIED + "add.u32 %x, %x, 0x200000;"}, "begin in lane 32"),
    ):
        kind, vector, scale, ident = form.split()
        types = "e4m3 e4m3" if kind == "mxf8f6f4" else "e2m1 e2m1"
        try:
            *_, findings = scaled(kind, types, vector, scale, int(ident), **words)
        except EmulatorError as error:  # out of bounds ends a launch
            findings = [error]
        assert message in str(findings), form


def test_scales_in_use_are_not_overwritten():
    """A store over scales that a product may still read is found."""
    late = "add.u32 %y, %ta, 256; tcgen05.st.sync.aligned.32x32b.x1.b32 [%y], {%t}; tcgen05.wait::st.sync.aligned;"
    found = 0
    text = kernel("mxf8f6f4", 64, scaled=".block_scale.scale_vec::1X", scales="[%y], [%x],", cp=COPIED,
                  wait=late + WAIT.format(0))  # fmt: skip
    for seed in range(4):
        image = np.zeros(16384, np.uint8)
        idesc = 64 >> 3 << 17 | 1 << 23 | 128 >> 4 << 24
        args = [image, image.size, descriptor(0, 16, 256, 32), descriptor(4096, 16, 256, 32), idesc,
                descriptor(8192, 16, 128, 0), descriptor(8704, 16, 128, 0), np.zeros((128, 64), np.float32)]  # fmt: skip
        found += "tcgen05" in str(launch(text, "k", 1, 128, args, check=True, seed=seed).findings)
    assert found == 4


def test_registers_and_tensor_memory():
    """Every shape of tcgen05.ld reads what 32x32b stored, where the ISA says."""
    for shape, per in (("16x64b", 1), ("16x128b", 2), ("16x256b", 4), ("16x32bx2", 1), ("32x32b.pack", 1)):
        for times in (1, 2, 4)[: 2 if per == 4 else 3]:
            count = times * per
            name, _, pack = shape.partition(".")
            split = f", {times}" if name == "16x32bx2" else ""
            regs = ", ".join(f"%d{i}" for i in range(count))
            loads = f"tcgen05.ld.sync.aligned.{name}.x{times}{'.pack::16b' if pack else ''}.b32 {{{regs}}}, [%ta]{split};"
            text = f"""{HEAD}.shared .b32 slot;
.visible .entry k(.param .u64 out) {{ .reg .pred %w; .reg .b32 %t, %x, %ta, %v<16>, %d<16>; .reg .b64 %o;
mov.u32 %t, %tid.x; setp.lt.u32 %w, %t, 32; mov.u32 %x, slot; ld.param.u64 %o, [out]; mad.wide.u32 %o, %t, {4 * count}, %o;
@!%w bra A; tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%x], 32; A: bar.sync 0; ld.shared.b32 %ta, [slot];
shr.u32 %x, %t, 5; shl.b32 %x, %x, 21; add.u32 %ta, %ta, %x;
{" ".join(f"mad.lo.u32 %v{i}, %t, 16, {i};" for i in range(16))}
tcgen05.st.sync.aligned.32x32b.x16.b32 [%ta], {{{", ".join(f"%v{i}" for i in range(16))}}};
tcgen05.wait::st.sync.aligned;
{loads} tcgen05.wait::ld.sync.aligned;
{" ".join(f"st.global.b32 [%o+{4 * i}], %d{i};" for i in range(count))}
bar.sync 0; @!%w bra Z; ld.shared.b32 %ta, [slot]; tcgen05.dealloc.cta_group::1.sync.aligned.b32 %ta, 32; Z: ret; }}"""
            out = np.zeros((128, count), np.uint32)
            report = launch(text, "k", 1, 128, [out], check=True, seed=0)
            assert report.findings == []
            t, j = np.arange(128)[:, None], np.arange(count)[None, :]
            q = t % 32
            row, col = {
                "16x64b": (q % 2 * 8 + q // 4 + 0 * j, 2 * j + q // 2 % 2),
                "16x128b": (q // 4 + j % 2 * 8, j // 2 * 4 + q % 4),
                "16x256b": (q // 4 + j // 2 % 2 * 8, j // 4 * 8 + q % 4 * 2 + j % 2),
                "16x32bx2": (q % 16 + 0 * j, j + q // 16 * times),
                "32x32b": (q + 0 * j, 2 * j),
            }[name]
            word = (t // 32 * 32 + row) * 16 + col
            want = word % 65536 | (word + 1) % 65536 << 16 if pack else word
            assert (out == want).all(), (shape, times)


def test_a_in_tensor_memory():
    """A is stored by its rows' threads, two 16-bit elements to a column."""
    a, b = operands(128, 32, 16, "f16", "f16")
    raw = np.ascontiguousarray(a).view(np.uint32)
    bi, blo, bso = place(packed(b, "f16"), 32)
    image = np.concatenate([bi, raw.reshape(-1).view(np.uint8)])
    regs = ", ".join(f"%d{i}" for i in range(8))
    st = f"""mov.u32 %x, tile; add.u32 %x, %x, {bi.size}; mad.lo.u32 %x, %t, 32, %x;
        {" ".join(f"ld.shared.b32 %d{i}, [%x+{4 * i}];" for i in range(8))}
        add.u32 %y, %ta, 64; tcgen05.st.sync.aligned.32x32b.x8.b32 [%y], {{{regs}}}; tcgen05.wait::st.sync.aligned;
        tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync; add.u32 %y, %tm, 64;"""
    out = np.zeros((128, 32), np.float32)
    report = launch(
        kernel("f16", 32, st=st, a="[%y]"), "k", 1, 128,
        [image, image.size, 0, descriptor(0, blo, bso, 32), 1 << 4 | 32 >> 3 << 17 | 8 << 24, 0, 0, out],
        check=True, seed=2,
    )  # fmt: skip
    assert (out == 2 * (a.astype(np.float32) @ b.T.astype(np.float32))).all() and report.findings == []


@pytest.mark.parametrize("seed", range(4))
def test_two_sums_of_64_rows_share_columns(seed):
    """Layout F: 64 rows take sixteen lanes of each warp's, from 0 or from 16. A product into the one half is in flight while the
    other half is loaded."""
    a, b = operands(64, 64, 16, "f16", "f16")
    (ai, alo, aso), (bi, blo, bso) = place(packed(a, "f16"), 32), place(packed(b, "f16"), 32)
    upper = f"""@!%p bra SKIP; add.u32 %y, %tm, {16 << 16}; setp.ne.u32 %en, %z, 0;
tcgen05.mma.cta_group::1.kind::f16 [%y], %ad, %bd, %id, %en;
tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%b]; SKIP:"""
    lower = "tcgen05.ld.sync.aligned.16x256b.x8.b32 {" + ", ".join(f"%d{i}" for i in range(32)) + "}, [%ta];"
    text = kernel("f16", 64, after=WAIT.format(1).replace("WAIT", "AGAIN"))
    (load,) = (line for line in text.splitlines() if "tcgen05.ld" in line)
    text = text.replace(load, f"{upper} {lower}")
    idesc = 1 << 4 | 64 >> 3 << 17 | 64 >> 4 << 24
    image, out = np.concatenate([ai, bi]), np.zeros((128, 64), np.float32)
    args = [
        image,
        image.size,
        descriptor(0, alo, aso, 32),
        descriptor(ai.size, blo, bso, 32),
        idesc,
        0,
        0,
        out,
    ]
    report = launch(text, "k", 1, 128, args, check=True, seed=seed)
    t, j = np.arange(128)[:, None], np.arange(32)[None, :]
    row, column = t // 32 * 16 + t % 32 // 4 + j // 2 % 2 * 8, j // 4 * 8 + t % 4 * 2 + j % 2
    assert (out[:, :32] == 2 * (a.astype(np.float32) @ b.T.astype(np.float32))[row, column]).all()
    assert report.findings == []
    report = launch(text.replace(f"%tm, {16 << 16}", "%tm, 0"), "k", 1, 128, args, check=True, seed=seed)
    assert {f.kind for f in report.findings} == {"tensor-memory race"}


@pytest.mark.parametrize(("m", "lane"), [(64, 8), (64, 32), (128, 16)])
def test_accumulators_begin_in_few_lanes(m, lane):
    text = kernel("f16", 32, cp=f"add.u32 %tm, %tm, {lane << 16};")
    args = [np.zeros(16384, np.uint8), 16384, descriptor(0, 16, 256, 32), descriptor(8192, 16, 256, 32)]
    args += [1 << 4 | 32 >> 3 << 17 | m >> 4 << 24, 0, 0, np.zeros((128, 32), np.float32)]
    with pytest.raises(EmulatorError, match=rf"begins in lane {lane}, not in 0{' or 16' * (m == 64)}"):
        launch(text, "k", 1, 128, args)


def test_tensor_memory_must_be_freed():
    text = f"""{HEAD}.shared .b32 slot;
.visible .entry k() {{ .reg .b32 %x; mov.u32 %x, slot;
tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%x], 64; ret; }}"""
    report = launch(text, "k", 1, 32, [], check=True, seed=0)
    assert [f.kind for f in report.findings] == ["tensor memory not freed"]
    assert "64 columns" in report.findings[0].text and "tcgen05.alloc" in report.findings[0].instruction


def test_who_gave_up_the_right_to_allocate_allocates_nothing():
    """PTX ISA on tcgen05.relinquish_alloc_permit: any tcgen05.alloc of the CTA behind it is illegal."""
    alloc = "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%x], 32; ld.shared.b32 %y, [%x];"
    dealloc = "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %y, 32;"
    head = f"{HEAD}.shared .b32 slot;\n.visible .entry k() {{ .reg .b32 %x, %y; mov.u32 %x, slot; "
    relinquish = "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;"
    launch(f"{head}{alloc} {dealloc} {alloc} {relinquish} {dealloc} ret; }}", "k", 2, 32, [])
    with pytest.raises(EmulatorError, match="behind tcgen05"):
        launch(f"{head}{alloc} {relinquish} {dealloc} {alloc} {dealloc} ret; }}", "k", 2, 32, [])


def test_tensor_memory_must_be_allocated():
    text = (
        kernel("f16", 32)
        .replace("[%x], 512; tcgen05.rel", "[%x], 32; tcgen05.rel")
        .replace("[%tm], %ad", "[%t], %ad")
    )
    with pytest.raises(EmulatorError, match=r"columns 0 to 31 of tensor memory|are not allocated"):
        launch(text.replace("@!%w bra NOALLOC;", "bra NOALLOC;"), "k", 1, 128, [np.zeros(64, np.uint8), 0, 0, 0, 1 << 4
               | 4 << 17 | 8 << 24, 0, 0, np.zeros((128, 32), np.uint32)])  # fmt: skip


PLANTED = {
    "no wait": ({"wait": ""}, {"tensor-memory race"}),
    "wrong phase": ({"wait": WAIT.format(1)}, {"tensor-memory race", "deadlock"}),
    "no proxy fence": ({"fence": ""}, {"missing proxy fence"}),
    "no wait for a load": ({"load_wait": ""}, {"tcgen05.ld in flight"}),
    "operand overwritten": (
        {
            "commit": "st.shared.b32 [tile], 0; tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%b];"
        },
        {"shared-memory race"},
    ),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("bug", PLANTED)
def test_planted_bugs_are_found_and_named(bug):
    pieces, kinds = PLANTED[bug]
    found = 0
    for seed in range(20):
        _, _, report = run(
            "f16", "f16", "f16", "f32", 128, 16, launching={"check": True, "seed": seed}, **pieces
        )
        hits = [f for f in report.findings if f.kind in kinds]
        found += bool(hits)
        assert all(f.line and f.instruction for f in hits)
    assert found >= 18


def test_the_correct_twin_has_no_findings():
    for seed in range(20):
        got, want, report = run("f16", "f16", "f16", "f32", 128, 16, launching={"check": True, "seed": seed})
        assert (got == want).all() and report.findings == []


OTHER = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [other];"
COMMIT = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%b];"
AGAIN = "tcgen05.mma.cta_group::1.kind::f16 [%tm], %ad, %bd, %id, %en;"
OVERWRITE = "bar.sync 0; setp.eq.u32 %q, %t, 33; @%q st.shared.b32 [tile], 0;"
# what is committed, what threads do behind the wait for [%b], and whether that is right
COMMITS = {
    "a later commit covers what an earlier one did": (f"{OTHER} {COMMIT}", OVERWRITE, True),
    "one barrier of many": (f"{OTHER * 6} {COMMIT}", OVERWRITE, True),
    "nothing that is issued behind it": (f"{COMMIT} {AGAIN} {OTHER}", OVERWRITE, False),
    "nothing that another thread issued": (
        f"ISSUED: setp.eq.u32 %q, %t, 1; @!%q bra JOIN; {COMMIT} JOIN:",
        OVERWRITE,
        False,
    ),
}


@pytest.mark.parametrize("wait", [None, ""])
def test_both_operands_may_be_one_tile(wait):
    """Who waits for the commit may write where the product read, though it read there twice; who does not may not."""
    a, _ = operands(128, 128, 16, "f16", "f16")
    image, lbo, sbo = place(packed(a, "f16"), 32)
    at = descriptor(0, lbo, sbo, 32)
    text = kernel("f16", 128, after=OVERWRITE, wait=wait)
    found = 0
    for seed in range(20):
        params = [
            image,
            image.size,
            at,
            at,
            1 << 4 | 16 << 17 | 8 << 24,
            0,
            0,
            np.zeros((128, 128), np.uint32),
        ]
        findings = launch(text, "k", 1, 128, params, check=True, seed=seed).findings
        assert wait == "" or findings == []
        found += any(f.kind == "shared-memory race" and "tcgen05" in f.text for f in findings)
    assert found == (20 if wait == "" else 0)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", COMMITS)
def test_what_a_commit_covers(name):
    """PTX ISA on tcgen05.commit: all prior asynchronous tcgen05 operations of the executing thread, not those since the last."""
    commit, after, right = COMMITS[name]
    text = kernel("f16", 16, commit=commit, after=after)
    if "ISSUED:" in commit:
        text = text.replace("JOIN:\nISSUED:", "JOIN:")
    text = text.replace(
        ".shared .align 8 .b64 bar;", ".shared .align 8 .b64 bar; .shared .align 8 .b64 other;"
    )
    text = text.replace(
        "[%b], 1; @%p fence", "[%b], 1; @%p mbarrier.init.shared::cta.b64 [other], 1; @%p fence"
    )
    a, b = operands(128, 16, 16, "f16", "f16")
    ai, alo, aso = place(packed(a, "f16"), 32)
    bi, blo, bso = place(packed(b, "f16"), 32)
    image = np.concatenate([ai, bi])
    params = [
        image,
        image.size,
        descriptor(0, alo, aso, 32),
        descriptor(ai.size, blo, bso, 32),
        1 << 4 | 2 << 17 | 8 << 24,
        0,
        0,
    ]
    found = 0
    for seed in range(20):
        findings = launch(
            text, "k", 1, 128, [*params, np.zeros((128, 16), np.uint32)], check=True, seed=seed
        ).findings
        assert not right or findings == []
        found += any(f.kind == "shared-memory race" and "tcgen05" in f.text for f in findings)
    assert right or found == 20


@pytest.mark.parametrize("seed", [None, 0, 1])
def test_warps_that_a_guard_switches_off_take_no_part(seed):
    """Triton's form: no branch around .sync.aligned instructions, but a guard that a whole warp answers alike."""
    text = f"""{HEAD}.shared .b32 slot;
.visible .entry k(.param .u64 out) {{ .reg .pred %w, %h; .reg .b32 %t, %x, %ta, %v; .reg .b64 %o;
mov.u32 %t, %tid.x; setp.lt.u32 %w, %t, 32; setp.lt.u32 %h, %t, 64; mov.u32 %x, slot; ld.param.u64 %o, [out];
mad.wide.u32 %o, %t, 4, %o;
@%w tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%x], 512; bar.sync 0; ld.shared.b32 %ta, [slot];
@%w tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
shr.u32 %x, %t, 5; shl.b32 %x, %x, 21; add.u32 %x, %ta, %x; mov.u32 %v, %t;
tcgen05.st.sync.aligned.32x32b.x1.b32 [%x], {{%v}}; tcgen05.wait::st.sync.aligned; add.u32 %v, %v, 1000;
@%h tcgen05.st.sync.aligned.32x32b.x1.b32 [%x], {{%v}}; @%h tcgen05.wait::st.sync.aligned; mov.u32 %v, 7;
@!%w tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%v}}, [%x]; tcgen05.wait::ld.sync.aligned;
st.global.b32 [%o], %v; bar.sync 0; @%w tcgen05.dealloc.cta_group::1.sync.aligned.b32 %ta, 512; ret; }}"""
    out = np.zeros(128, np.uint32)
    report = launch(text, "k", 1, 128, [out], check=seed is not None, seed=seed)
    t = np.arange(128)
    assert (out == np.where(t < 32, 7, np.where(t < 64, t + 1000, t))).all() and report.findings == []
    assert sum(n for name, n in report.executed.items() if name.startswith("tcgen05.alloc")) == 32


def test_a_guard_that_a_warp_answers_in_two_ways_is_no_whole_warp():
    text = f"""{HEAD}.shared .b32 slot;
.visible .entry k() {{ .reg .pred %p; .reg .b32 %t, %x; mov.u32 %t, %tid.x; setp.lt.u32 %p, %t, 3; mov.u32 %x, slot;
@%p tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%x], 64; bar.warp.sync -1; ret; }}"""
    with pytest.raises(EmulatorError, match=r"no thread can go on.*PTX line \d+"):
        launch(text, "k", 1, 32, [])


LD, WAIT_LD = "tcgen05.ld.sync.aligned.32x32b.x2.b32 {%a, %b}, [%x];", "tcgen05.wait::ld.sync.aligned;"
STORE = "st.global.b32 [%o], %c;"
# what stands between a load of %a and %b and the end, and what the finding says of a register ("": it is right)
MOVED = {
    "a copy is stored": (f"{LD} mov.b32 %c, %a; {STORE} {WAIT_LD}", "%c, a copy of %a"),
    "a copy of a copy": (f"{LD} mov.b32 %d, %b; mov.b32 %c, %d; {STORE} {WAIT_LD}", "%c, a copy of %b"),
    "a copy in another type": (f"{LD} mov.b32 %f, %a; add.f32 %f, %f, %f; {WAIT_LD}", "%f, a copy of %a"),
    "a pair": (f"{LD} mov.b64 %w, {{%c, %b}}; st.global.b64 [%o], %w; {WAIT_LD}", "%w, a copy of %b"),
    "a pair taken apart": (
        f"{LD} mov.b64 %w, {{%a, %b}}; mov.b64 {{%c, %d}}, %w; {STORE} {WAIT_LD}",
        "%c, a copy of",
    ),
    "a copy in some lanes": (
        f"{LD} mov.b32 %c, 0; @%h mov.b32 %c, %a; {STORE} {WAIT_LD}",
        "%c, a copy of %a",
    ),
    "no wait at all": (f"{LD} mov.b32 %c, %a; {STORE}", "%c, a copy of %a"),
    "overwritten before it is there": (f"{LD} mov.b32 %a, 0; {WAIT_LD} {STORE}", "%a, loaded at"),
    "copied, used behind the wait": (f"{LD} mov.b32 %c, %a; {WAIT_LD} {STORE}", ""),
    "the copy overwritten": (f"{LD} mov.b32 %c, %a; mov.b32 %c, 1; {STORE} {WAIT_LD}", ""),
    "the copy computed anew": (f"{LD} mov.b32 %c, %a; add.u32 %c, %x, 1; {STORE} {WAIT_LD}", ""),
    "copied behind the wait": (f"{LD} {WAIT_LD} mov.b32 %c, %a; {STORE}", ""),
}


@pytest.mark.parametrize("name", MOVED)
def test_a_copy_of_a_register_in_flight_is_in_flight(name):
    """PTX ISA on tcgen05.ld: its registers are there behind tcgen05.wait::ld. A mov alone may be a renaming; a use of what
    it wrote is a use of the register."""
    body, says = MOVED[name]
    text = f"""{HEAD}.shared .b32 slot;
.visible .entry k(.param .u64 out) {{ .reg .pred %h; .reg .b32 %t, %x, %ta, %a, %b, %c, %d; .reg .b64 %o, %w; .reg .f32 %f;
mov.u32 %t, %tid.x; setp.lt.u32 %h, %t, 7; mov.u32 %x, slot; ld.param.u64 %o, [out]; mad.wide.u32 %o, %t, 8, %o;
tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%x], 32; bar.sync 0; ld.shared.b32 %ta, [slot]; mov.u32 %x, %ta;
mov.b32 %c, 5; tcgen05.st.sync.aligned.32x32b.x2.b32 [%x], {{%t, %t}}; tcgen05.wait::st.sync.aligned;
{body}
{WAIT_LD} bar.warp.sync -1; tcgen05.dealloc.cta_group::1.sync.aligned.b32 %ta, 32; ret; }}"""
    report = launch(text, "k", 1, 32, [np.zeros(64, np.uint32)], check=True, seed=0)
    assert [f.kind for f in report.findings] == ["tcgen05.ld in flight"] * bool(says)
    assert not says or says in report.findings[0].text


@pytest.mark.parametrize("fence, missing", [("cp.async.wait_all; fence.proxy.async.shared::cta;", False),
                                            ("cp.async.wait_all;", True),
                                            ("fence.proxy.async.shared::cta; cp.async.wait_all;", True)])  # fmt: skip
def test_copies_of_threads_need_a_proxy_fence(fence, missing):
    for seed in range(5):
        more = {"bring": "cp.async.ca.shared.global [%tm], [%o], 4;", "fence": fence}
        findings = run("f16", "f16", "f16", "f32", 128, 16, launching={"check": True, "seed": seed}, **more)[
            -1
        ].findings
        assert {f.kind for f in findings} == ({"missing proxy fence"} if missing else set())
