"""wgmma on the emulator: every type, swizzle, transpose and width against NumPy, and what happens in flight."""

import ml_dtypes
import numpy as np
import pytest

from tileiras.run.emulator import EmulatorError, launch

HEAD = ".version 8.4\n.target sm_90a\n.address_size 64\n"
DTYPES = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32, "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2, "s8": np.int8, "u8": np.uint8,
}  # fmt: skip
MODES = {0: 0, 128: 1, 64: 2, 32: 3}


def place(x, swizzle, trans):
    """(bytes in shared memory, LBO, SBO) of an operand [rows, k], by the canonical layouts, byte by byte."""
    rows, k = x.shape
    size = x.dtype.itemsize
    width = swizzle or 16
    out = np.zeros(1 << 16, np.uint8)
    raw = np.ascontiguousarray(x).view(np.uint8).reshape(rows, k, size)
    per = 16 // size
    if trans:
        along = width // size  # elements of M or N in one line
        if swizzle:
            lbo, sbo = 8 * width * -(-k // 8), 8 * width
        else:
            lbo, sbo = 128, 128 * -(-k // 8)
    elif swizzle:
        lbo, sbo = 16, 8 * width
    else:
        lbo, sbo = 128 * (rows // 8), 128
    r, c, byte = np.ix_(np.arange(rows), np.arange(k), np.arange(size))
    if not trans:
        at = r % 8 * width + r // 8 * sbo
        at = at + c * size if swizzle else at + c * size // 16 * lbo + c * size % 16
    elif swizzle:
        at = r % along * size + r // along * lbo + c % 8 * width + c // 8 * sbo
    else:
        at = r % per * size + r // per * sbo + c % 8 * 16 + c // 8 * lbo
    if swizzle:
        at = at ^ (at >> 7 & (width // 16 - 1)) << 4
    out[at + byte] = raw
    return out[: -(-int(at.max() + size) // 1024) * 1024], lbo, sbo


def descriptor(at, lbo, sbo, swizzle):
    return at >> 4 | lbo >> 4 << 16 | sbo >> 4 << 32 | MODES[swizzle] << 62


STORED = "ld.global.b32 %y, [%o]; mov.u32 %x, tile; add.u32 %x, %x, %i; st.shared.b32 [%x], %y;"
COPIED_IN = "mov.u32 %x, tile; add.u32 %x, %x, %i; cp.async.ca.shared.global [%x], [%o], 4;"


def kernel(
    op, count, immediates, *, a_registers=0, d_type="f32", before="", after="", twice="", bring=STORED
):
    """One warpgroup: copies an image into shared memory, multiplies, stores its accumulators by thread."""
    d = ", ".join(f"%d{i}" for i in range(count))
    a = "{" + ", ".join(f"%a{i}" for i in range(a_registers)) + "}" if a_registers else "%ad"
    kind = {"f32": "f32", "s32": "b32", "f16": "b32"}[d_type]
    wgmma = f"wgmma.mma_async.sync.aligned.{op} {{{d}}}, {a}, %bd, %scale{immediates};"
    loads = "\n".join(f"ld.global.b32 %a{i}, [%pa+{i * 4}];" for i in range(a_registers))
    zero = "\n".join(f"ld.global.{kind} %d{i}, [%pd+{i * 4}];" for i in range(count))
    store = "\n".join(f"st.global.{kind} [%pd+{i * 4}], %d{i};" for i in range(count))
    return f"""{HEAD}
.shared .align 1024 .b8 tile[65536];
.visible .entry k(.param .u64 image, .param .u32 bytes, .param .u64 afrag, .param .u64 out, .param .u64 adesc,
                  .param .u64 bdesc, .param .u32 accumulate) {{
.reg .pred %p, %scale; .reg .b32 %t, %i, %n, %x, %y; .reg .b64 %pi, %pa, %pd, %ad, %bd, %o; .reg .{kind} %d<{count}>;
.reg .b32 %a<4>;
mov.u32 %t, %tid.x; ld.param.u32 %n, [bytes]; ld.param.u64 %pi, [image]; ld.param.u64 %pa, [afrag];
ld.param.u64 %pd, [out]; ld.param.u64 %ad, [adesc]; ld.param.u64 %bd, [bdesc]; ld.param.u32 %x, [accumulate];
setp.ne.u32 %scale, %x, 0;
mad.wide.u32 %pa, %t, 16, %pa; mad.wide.u32 %pd, %t, {count * 4}, %pd;
shl.b32 %i, %t, 2;
COPY: setp.ge.u32 %p, %i, %n; @%p bra DONE;
cvt.u64.u32 %o, %i; add.u64 %o, %o, %pi; {bring} add.u32 %i, %i, 512; bra COPY;
DONE:
{loads}
{zero}
{before or "fence.proxy.async; bar.sync 0;"}
wgmma.fence.sync.aligned;
{wgmma}
{twice and f"{twice} {wgmma}"}
wgmma.commit_group.sync.aligned;
{after or "wgmma.wait_group.sync.aligned 0;"}
{store}
ret; }}"""


def fragments(a):
    """Registers of A [64, k] by thread: [128, 4]."""
    raw = np.ascontiguousarray(a).view(np.uint32)  # [64, 8]
    t, r = np.arange(128)[:, None], np.arange(4)[None, :]
    return raw[t // 32 * 16 + t % 32 // 4 + r % 2 * 8, t % 4 + r // 2 * 4]


def unpack(d, n, d_type):
    """Accumulators by thread as [64, n]."""
    d = d.view({"f32": np.float32, "s32": np.int32, "f16": np.float16}[d_type])
    out = np.zeros((64, n), d.dtype)
    t, i = np.arange(128)[:, None], np.arange(n // 2)[None, :]
    out[t // 32 * 16 + t % 32 // 4 + (i >> 1 & 1) * 8, i // 4 * 8 + t % 4 * 2 + i % 2] = d
    return out


def operands(a_type, b_type, n, seed=0):
    rng = np.random.default_rng(seed)
    k = 32 // np.dtype(DTYPES[a_type]).itemsize
    low = 0 if a_type == "u8" else -4
    a = rng.integers(low, 5, (64, k)).astype(DTYPES[a_type])
    b = rng.integers(0 if b_type == "u8" else -4, 5, (n, k)).astype(DTYPES[b_type])
    return a, b


def run(a_type, b_type, d_type, n, a_swizzle=128, b_swizzle=128, trans=(0, 0), signs=(1, 1), accumulate=True,
        in_registers=False, **launching):  # fmt: skip
    a, b = operands(a_type, b_type, n)
    ai, alo, aso = place(a, a_swizzle, trans[0])
    bi, blo, bso = place(b, b_swizzle, trans[1])
    image = np.concatenate([ai, bi])
    count = n // 4 if d_type == "f16" else n // 2
    first = np.random.default_rng(1).integers(-3, 4, (128, n // 2))
    out = first.astype({"f32": np.float32, "s32": np.int32, "f16": np.float16}[d_type]).view(np.uint32)
    start = unpack(out, n, d_type)
    if d_type == "s32":
        immediates = ""
    elif a_type in ("f16", "bf16"):
        immediates = f", {signs[0]}, {signs[1]}, " + (
            f"{trans[1]}" if in_registers else f"{trans[0]}, {trans[1]}"
        )
    else:
        immediates = f", {signs[0]}, {signs[1]}"
    op = f"m64n{n}k{a.shape[1]}.{d_type}.{a_type}.{b_type}"
    pieces = {k: launching.pop(k) for k in ("before", "after", "twice", "bring") if k in launching}
    text = kernel(op, count, immediates, a_registers=4 if in_registers else 0, d_type=d_type, **pieces)
    report = launch(
        text, "k", 1, 128,
        [image, image.size, fragments(a), out, descriptor(0, alo, aso, a_swizzle),
         descriptor(ai.size, blo, bso, b_swizzle), int(accumulate)],
        **launching,
    )  # fmt: skip
    got = unpack(out, n, d_type)
    want = a.astype(np.float64) @ b.T.astype(np.float64) * signs[0] * signs[1]
    want = want + start.astype(np.float64) * accumulate
    return got.astype(np.float64), want, report


@pytest.mark.parametrize("kind", ["f16.f16", "f32.f16", "f32.bf16", "f32.tf32"])
@pytest.mark.parametrize("seed", [None, 1])
def test_types(kind, seed):
    d_type, a_type = kind.split(".")
    for in_registers in (False, True):
        got, want, _ = run(a_type, a_type, d_type, 16, in_registers=in_registers, signs=(-1, 1), seed=seed)
        assert (got == want).all()
        got, want, _ = run(a_type, a_type, d_type, 24, accumulate=False, in_registers=in_registers, seed=seed)
        assert (got == want).all()


@pytest.mark.parametrize(
    "kind", ["f32.e4m3.e5m2", "f16.e5m2.e4m3", "s32.s8.u8", "s32.u8.s8", "s32.s8.s8", "f32.e4m3.e4m3"]
)
def test_bytes(kind):
    d_type, a_type, b_type = kind.split(".")
    for in_registers in (False, True):
        got, want, _ = run(a_type, b_type, d_type, 32, in_registers=in_registers)
        assert (got == want).all()


@pytest.mark.parametrize("swizzle", [0, 32, 64, 128])
@pytest.mark.parametrize("trans", [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_swizzles_and_transposes(swizzle, trans):
    for n in (64, 128):
        got, want, _ = run("bf16", "bf16", "f32", n, swizzle, swizzle, trans)
        assert (got == want).all()


def test_every_width():
    for n in range(8, 257, 8):
        got, want, _ = run("f16", "f16", "f32", n, b_swizzle=32)
        assert (got == want).all(), n


def test_bytes_have_no_transpose_and_bad_shapes_are_named():
    with pytest.raises(EmulatorError, match="no such shape of wgmma"):
        launch(kernel("m64n12k16.f32.f16.f16", 6, ", 1, 1, 0, 0"), "k", 1, 128, [0] * 7)
    with pytest.raises(EmulatorError, match=r"matrix descriptor .* reaches shared offset"):
        run_bad = kernel("m64n8k16.f32.f16.f16", 4, ", 1, 1, 0, 0")
        out = np.zeros((128, 4), np.float32)
        launch(run_bad, "k", 1, 128, [out, 0, out, out, descriptor(65536 - 64, 16, 1024, 128), 0, 0])


def test_two_products_in_one_group_and_a_clean_run_has_no_findings():
    for seed in range(10):
        got, want, report = run("f16", "f16", "f32", 64, twice=" ", accumulate=False, check=True, seed=seed)
        assert (got == want).all()
        assert report.findings == []


PLANTED = {
    "no wait": ({"after": "// "}, "wgmma in flight"),
    "waits for too little": ({"after": "wgmma.wait_group.sync.aligned 1;"}, "wgmma in flight"),
    "no proxy fence": ({"before": "bar.sync 0;"}, "missing proxy fence"),
    "operand overwritten": (
        {"after": "mov.u32 %x, tile; shl.b32 %i, %t, 2; add.u32 %x, %x, %i; st.shared.b32 [%x], 0; "
         "wgmma.wait_group.sync.aligned 0;"},
        "shared-memory race",
    ),
    "no barrier": ({"before": "fence.proxy.async;"}, "shared-memory race"),
    "no wgmma.fence": ({"twice": "add.f32 %d0, %d0, %d1;"}, "missing wgmma.fence"),
}  # fmt: skip


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", PLANTED)
def test_planted_bugs_are_found_and_named(name):
    pieces, kind = PLANTED[name]
    found = 0
    for seed in range(20):
        _, _, report = run("f16", "f16", "f32", 64, check=True, seed=seed, **pieces)
        hits = [f for f in report.findings if f.kind == kind]
        found += bool(hits)
        assert all(f.line and f.instruction for f in hits)
    assert found >= 18


BARRIER = """.shared .align 8 .b64 bar; mov.u32 %x, bar; setp.eq.u32 %p, %t, 0; @%p mbarrier.init.shared.b64 [%x], 128;
bar.sync 0;
{} cp.async.mbarrier.arrive.noinc.shared.b64 [%x]; W: mbarrier.try_wait.parity.shared.b64 %p, [%x], 0; @!%p bra W; {}"""
TWO_BARRIERS = """.shared .align 8 .b64 bar[2]; mov.u32 %x, bar; setp.eq.u32 %p, %t, 0;
@%p mbarrier.init.shared.b64 [%x], 128; @%p mbarrier.init.shared.b64 [%x+8], 128; bar.sync 0;
cp.async.mbarrier.arrive.noinc.shared.b64 [%x]; cp.async.mbarrier.arrive.noinc.shared.b64 [%x+8];
W: mbarrier.try_wait.parity.shared.b64 %p, [%x], 0; @!%p bra W; {}"""
# cp.async writes through the generic proxy: what stands between copies and product, and whether a fence is missing
FED = {
    "the writer fences behind its wait": ("cp.async.wait_all; fence.proxy.async; bar.sync 0;", False),
    "the writer fences behind its group": (
        "cp.async.commit_group; cp.async.wait_group 0; fence.proxy.async.shared::cta; bar.sync 0;", False),
    "the reader fences": ("cp.async.wait_all; bar.sync 0; fence.proxy.async.shared::cta;", False),
    "nobody fences": ("cp.async.wait_all; bar.sync 0;", True),
    "a fence before the wait": ("fence.proxy.async; cp.async.wait_all; bar.sync 0;", True),
    "another fence": ("cp.async.wait_all; fence.acq_rel.cta; bar.sync 0;", True),
    "an mbarrier, then the reader fences": (BARRIER.format("", "fence.proxy.async;"), False),
    "an mbarrier, while later copies are handed to another": (
        BARRIER.format("", "").replace(
            " W:",
            " .shared .align 16 .b8 more[4096]; .shared .align 8 .b64 next; mov.u32 %y, next;"
            "@%p mbarrier.init.shared.b64 [%y], 128; bar.sync 0; mov.u32 %i, more; mad.lo.u32 %i, %t, 16, %i;"
            "cp.async.ca.shared.global [%i], [%pi], 4; cp.async.mbarrier.arrive.noinc.shared.b64 [%y]; W:",
        ) + "fence.proxy.async;", False),
    "an mbarrier, and nobody fences": (BARRIER.format("", ""), True),
    "a second mbarrier that nobody waits for, then the reader fences": (
        TWO_BARRIERS.format("fence.proxy.async;"), False),
    "a second mbarrier that nobody waits for, and nobody fences": (TWO_BARRIERS.format(""), True),
    "an mbarrier, and a fence before the copies' end": (BARRIER.format("fence.proxy.async;", ""), True),
}  # fmt: skip


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", FED)
def test_copies_of_threads_need_a_proxy_fence(name):
    before, missing = FED[name]
    for seed in range(10):
        got, want, report = run(
            "f16", "f16", "f32", 64, check=True, seed=seed, bring=COPIED_IN, before=before
        )
        assert (got == want).all()
        kinds = {f.kind for f in report.findings}
        assert kinds == ({"missing proxy fence"} if missing else set()), report.findings
        assert not missing or "cp.async.ca.shared.global" in text_at(report.findings[0], before)


def text_at(finding, before):
    """The instruction that a finding blames for the write."""
    text = kernel("m64n64k16.f32.f16.f16", 32, ", 1, 1, 0, 0", bring=COPIED_IN, before=before)
    return text.split("\n")[int(finding.text.split("written by PTX line ")[1].split()[0]) - 1]


WAIT = "wgmma.wait_group.sync.aligned 0;"
# what stands between a product and the end, and what the finding says of a register ("": it is right)
COPIED = {
    "a copy is used": (f"mov.b32 %y, %d3; add.u32 %x, %y, 1; {WAIT}", "%y (copy of the accumulator %d3 of"),
    "a copy of a copy": (
        f"mov.b32 %x, %d3; mov.b32 %y, %x; add.u32 %i, %y, 1; {WAIT}",
        "%y (copy of the accumulator %d3 of",
    ),
    "a copy in some lanes": (
        f"mov.b32 %y, 0; setp.lt.u32 %p, %t, 9; @%p mov.b32 %y, %d3; add.u32 %x, %y, 1; {WAIT}",
        "%y (copy of the accumulator %d3 of",
    ),
    "a copy behind the wait for another group": (
        f"wgmma.wait_group.sync.aligned 1; mov.b32 %y, %d3; add.u32 %x, %y, 1; {WAIT}",
        "%y (copy of the accumulator %d3 of",
    ),
    "an accumulator itself, behind a copy": (f"mov.b32 %y, %d3; add.f32 %d4, %d4, 0f00000000; {WAIT}", "%d4 (accumulator of"),
    "a copy used behind the wait": (f"mov.b32 %y, %d3; {WAIT} add.u32 %x, %y, 1;", ""),
    "the copy overwritten": (f"mov.b32 %y, %d3; mov.b32 %y, 1; add.u32 %x, %y, 1; {WAIT}", ""),
    "the copy computed anew": (f"mov.b32 %y, %d3; add.u32 %y, %t, 1; add.u32 %x, %y, 1; {WAIT}", ""),
}  # fmt: skip


@pytest.mark.parametrize("name", COPIED)
def test_a_copy_of_an_accumulator_in_flight_is_in_flight(name):
    after, says = COPIED[name]
    for seed in range(3):
        _, _, report = run("f16", "f16", "f32", 64, check=True, seed=seed, after=after)
        assert [f.kind for f in report.findings][:1] == ["wgmma in flight"] * bool(says)
        assert not says or says in report.findings[0].text


def test_operands_are_read_as_late_as_the_wait():
    """Without checks a seed may show the wrong numbers of an operand that was overwritten."""
    pieces = PLANTED["operand overwritten"][0]
    wrong = 0
    for seed in range(20):
        got, want, _ = run("f16", "f16", "f32", 64, seed=seed, **pieces)
        wrong += bool((got != want).any())
    assert 5 <= wrong < 20
