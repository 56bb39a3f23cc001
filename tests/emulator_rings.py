"""Rings fed by bulk copies, written by hand, with places for a planted bug: plain consumers, wgmma, tcgen05.

One thread issues copies into stages that mbarriers guard (full: the bytes have landed; empty: the stage was read). Each
function gives PTX, the launch and what must come out; `flaw` names what is wrong in it, "" nothing.
"""

import numpy as np

from tileiras.run.emulator import tensor_map

REGS = """.reg .pred %p, %q, %u, %en; .reg .b32 %t, %w, %i, %k, %par, %not, %full, %empty, %at, %bar, %x, %y, %z, %ta, %tm, %id;
.reg .b64 %a, %o, %ma, %mb, %d, %e, %st; .reg .b32 %d<16>; .reg .f32 %f<8>;
"""
WAIT = "{0}: mbarrier.try_wait.parity.shared::cta.b64 %u, [{1}], {2}; @!%u bra {0}; "
TENSOR_COPY = (
    "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
    "[{0}], [{1}, {{{2}, {3}}}], [%full]; "
)


class Ring:
    """One kernel ready to launch, and the expected second array."""

    cluster: tuple[int, ...] | int | None = None

    def __init__(self, text, threads, params, want, memory=(), grid=1):
        self.text, self.threads, self.params, self.want = text.replace("; ", ";\n"), threads, params, want
        self.memory, self.grid = memory, grid


def parts(flaw, stages, stage_bytes, bytes_, consumers):
    """(initialisation, start of a step, wait for empty, expectation, wait for full) of a ring, with a flaw in one of them.

    A step's number is in %i; then %at is its stage, %par the parity of its phase, %full and %empty its mbarriers.
    """
    skipped = 1 if flaw == "uninitialised" else -1
    init = "".join(
        f"@%p mbarrier.init.shared::cta.b64 [%bar+{8 * i}], {1 if i < stages else consumers}; "
        for i in range(2 * stages) if i != skipped
    )  # fmt: skip
    step = f"""rem.u32 %x, %i, {stages}; div.u32 %y, %i, {stages}; and.b32 %par, %y, 1; xor.b32 %not, %par, 1;
        mad.lo.u32 %full, %x, 8, %bar; add.u32 %empty, %full, {8 * stages}; mov.u32 %at, tile;
        mad.lo.u32 %at, %x, {stage_bytes}, %at; """
    wait_empty = "" if flaw == "missing empty wait" else WAIT.format("EMPTY", "%empty", "%not")
    size = {"expects too little": bytes_ // 2, "expects too much": bytes_ + 64}.get(flaw, bytes_)
    expect = f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [%full], {size}; "
    if flaw == "expects nothing":
        expect = "mbarrier.arrive.shared::cta.b64 _, [%full]; "
    parity = {"wrong phase": "%not"}.get(flaw, "%par")
    wait_full = "" if flaw == "missing wait" else WAIT.format("FULL", "%full", parity)
    return init, step, wait_empty, expect, wait_full


def plain_ring(flaw, n=232, stages=3):
    """Tiles of 64 words by plain bulk copies, a warp reads each backwards; the last tile is shorter."""
    count = -(-n // 64)
    init, step, wait_empty, expect, wait_full = parts(flaw, stages, 256, 256, 32)
    last = (n - 1) % 64 + 1
    # a shorter last tile expects its own bytes
    expect = expect.replace(", 256;", ", %z;")
    store = "st.global.u32 [%d], 0; " if flaw == "store to the source" else ""
    arrive = "mbarrier.arrive.shared::cta.b64 _, [%empty]; "
    body = f"""setp.eq.u32 %p, %t, 0; {init} @%p fence.mbarrier_init.release.cluster; bar.sync 0; mov.u32 %i, 0;
        setp.ge.u32 %q, %t, 32; @%q bra CONSUME; @!%p bra DONE;
        PRODUCE: {step} {wait_empty}
        add.u32 %k, %i, 1; setp.eq.u32 %q, %k, {count}; selp.u32 %z, {last * 4}, 256, %q;
        {expect} mad.wide.u32 %d, %i, 256, %a;
        cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%at], [%d], %z, [%full]; {store}
        add.u32 %i, %i, 1; setp.lt.u32 %q, %i, {count}; @%q bra PRODUCE; bra DONE;
        CONSUME: sub.u32 %w, %t, 32;
        TAKE: {step} {wait_full}
        add.u32 %k, %i, 1; setp.eq.u32 %q, %k, {count}; selp.u32 %z, {last}, 64, %q; mov.u32 %ta, 0; mov.u32 %tm, 0;
        sub.u32 %x, 63, %w; setp.lt.u32 %q, %x, %z; mad.lo.u32 %y, %x, 4, %at; @%q ld.shared.u32 %ta, [%y];
        sub.u32 %x, 31, %w; setp.lt.u32 %q, %x, %z; mad.lo.u32 %y, %x, 4, %at; @%q ld.shared.u32 %tm, [%y];
        {arrive} mad.lo.u32 %x, %i, 64, %w; mad.wide.u32 %d, %x, 4, %o; st.global.u32 [%d], %ta; st.global.u32 [%d+128], %tm;
        add.u32 %i, %i, 1; setp.lt.u32 %q, %i, {count}; @%q bra TAKE; DONE: ret; """
    text = f""".version 8.7
        .target sm_90a
        .address_size 64
        .shared .align 1024 .b8 tile[{256 * stages}]; .shared .align 8 .b64 bars[{2 * stages}];
        .visible .entry k(.param .u64 p0, .param .u64 p1) {{ {REGS}
        mov.u32 %t, %tid.x; mov.u32 %bar, bars; ld.param.u64 %a, [p0]; ld.param.u64 %o, [p1]; {body} }}"""
    x = np.arange(1, n + 1, dtype=np.uint32)
    padded = np.zeros(count * 64, np.uint32)
    padded[:n] = x
    want = padded.reshape(count, 64)[:, ::-1].reshape(-1)
    return Ring(text, 64, [x, np.zeros_like(want)], want)


def matrices(m, n, k):
    rng = np.random.default_rng(m + n + k)
    return (rng.integers(-3, 4, (rows, k)).astype(np.float16) for rows in (m, n))


def wgmma_ring(flaw, m=60, n=8, k=72, stages=3):
    """[m, k] times [n, k] transposed, 16 of K a step: a producer warp, a warpgroup that multiplies; m and k are ragged."""
    kp = -(-k // 8) * 8  # rows are multiples of 16 bytes
    count = -(-k // 16)
    stage = 64 * 32 + 8 * 32 + 768  # operands, padded to 1024 bytes
    init, step, wait_empty, expect, wait_full = parts(flaw, stages, stage, 64 * 32 + 8 * 32, 128)
    fence = "" if flaw == "missing fence" else "wgmma.fence.sync.aligned; "
    drain = "" if flaw == "operand overwritten" else "wgmma.wait_group.sync.aligned 0; "
    late = "wgmma.wait_group.sync.aligned 0; " if flaw == "operand overwritten" else ""
    store = "st.global.u16 [%a], %h; " if flaw == "store to the source" else ""
    zero = "".join(f"mov.f32 %f{i}, 0f00000000; " for i in range(4))
    # the accumulator is written by a thread in every step: the fence orders that
    touch = "add.f32 %f0, %f0, 0f00000000; "
    body = f"""setp.eq.u32 %p, %t, 0; {init} @%p fence.mbarrier_init.release.cluster; bar.sync 0; mov.u32 %i, 0;
        setp.lt.u32 %q, %t, 128; @%q bra CONSUME; setp.ne.u32 %q, %t, 128; @%q bra DONE;
        PRODUCE: {step} {wait_empty} {expect} shl.b32 %k, %i, 4;
        {TENSOR_COPY.format("%at", "%ma", "%k", "0")} add.u32 %y, %at, 2048; {TENSOR_COPY.format("%y", "%mb", "%k", "0")}
        {store} add.u32 %i, %i, 1; setp.lt.u32 %q, %i, {count}; @%q bra PRODUCE; bra DONE;
        CONSUME: {zero}
        TAKE: {step} {wait_full} shr.u32 %x, %at, 4; cvt.u64.u32 %d, %x; or.b64 %d, %d, {16 << 32 | 1 << 16 | 3 << 62};
        add.u64 %e, %d, 128; setp.ne.u32 %en, 1, 0; {touch}
        {fence} wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{%f0, %f1, %f2, %f3}}, %d, %e, %en, 1, 1, 0, 0;
        wgmma.commit_group.sync.aligned; {drain} mbarrier.arrive.shared::cta.b64 _, [%empty]; {late}
        add.u32 %i, %i, 1; setp.lt.u32 %q, %i, {count}; @%q bra TAKE;
        and.b32 %x, %t, 31; shr.u32 %y, %t, 5; shr.u32 %z, %x, 2; mad.lo.u32 %y, %y, 16, %z; and.b32 %x, %x, 3;
        mad.lo.u32 %y, %y, 8, 0; mad.lo.u32 %y, %x, 2, %y; mad.wide.u32 %d, %y, 4, %o; st.global.v2.f32 [%d], {{%f0, %f1}};
        st.global.v2.f32 [%d+256], {{%f2, %f3}}; DONE: ret; """
    text = f""".version 8.7
        .target sm_90a
        .address_size 64
        .shared .align 1024 .b8 tile[{stage * stages}]; .shared .align 8 .b64 bars[{2 * stages}];
        .visible .entry k(.param .u64 p0, .param .u64 p1, .param .align 128 .b8 map_a[128], .param .align 128 .b8 map_b[128]) {{
        {REGS} .reg .b16 %h; mov.b16 %h, 0; mov.u32 %t, %tid.x; mov.u32 %bar, bars; ld.param.u64 %a, [p0];
        ld.param.u64 %o, [p1]; mov.u64 %ma, map_a; mov.u64 %mb, map_b; {body} }}"""
    a, b = matrices(m, n, kp)
    a[:, k:] = b[:, k:] = 0
    want = np.zeros((64, 8), np.float32)
    want[:m, :n] = a.astype(np.float32) @ b.T.astype(np.float32)
    params = [a, np.zeros((64, 8), np.float32), tensor_map(a, (64, 16), "32B"), tensor_map(b, (8, 16), "32B")]
    return Ring(text, 160, params, want, [b])


RELINQUISH = "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned; "
COMMIT = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [{}]; "


def tensor_ring(flaw, m=100, n=16, k=72, stages=3):
    """[m, k] times [n, k] transposed in tensor memory: a thread copies, one multiplies, four warps read the result."""
    kp = -(-k // 8) * 8
    count = -(-k // 16)
    stage = 128 * 32 + 16 * 32 + 512
    init, step, wait_empty, expect, wait_full = parts(flaw, stages, stage, 128 * 32 + 16 * 32, 1)
    init += f"@%p mbarrier.init.shared::cta.b64 [%bar+{16 * stages}], 1; "
    release = COMMIT.format("%empty")
    if flaw == "operand overwritten":
        release = "mbarrier.arrive.shared::cta.b64 _, [%empty]; "
    done = COMMIT.format("%z")
    if flaw == "missing commit":
        done = "mbarrier.arrive.shared::cta.b64 _, [%z]; "
    after = "" if flaw == "missing fence" else "tcgen05.fence::after_thread_sync; "
    wait_done = "" if flaw == "missing wait for the end" else WAIT.format("END", "%z", "0")
    wait_load = "" if flaw == "missing tcgen05.wait" else "tcgen05.wait::ld.sync.aligned; "
    free = "" if flaw == "missing dealloc" else "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %tm, 32; "
    store = "st.global.u16 [%a], %h; " if flaw == "store to the source" else ""
    d = [f"%d{i}" for i in range(16)]
    alloc = ("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%x], 32; ", RELINQUISH)
    if flaw == "allocated behind the permit":
        alloc = alloc[::-1]
    elif flaw == "permit given up by another warp":
        alloc = (alloc[0], "")
    other = "" if all(alloc) else f"setp.eq.u32 %q, %w, 2; @!%q bra KEPT; {RELINQUISH} KEPT: "
    meet = "tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync; "
    if flaw == "freed under loads":
        meet = ""
    early = ""
    if flaw == "freed under products":  # the warp that frees has no part in the result: it frees at once
        early = f"setp.eq.u32 %q, %w, 1; @!%q bra LATER; {free} bra DONE; LATER: "
        meet = free = ""
    body = f"""setp.eq.u32 %p, %t, 0; {init} @%p fence.mbarrier_init.release.cluster; shr.u32 %w, %t, 5;
        setp.eq.u32 %q, %w, 1; mov.u32 %x, slot; @!%q bra ALLOCATED;
        {"".join(alloc)}
        ALLOCATED: {other} tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync;
        ld.shared.u32 %tm, [slot]; mov.u32 %i, 0;
        setp.eq.u32 %q, %t, 64; @%q bra PRODUCE; setp.eq.u32 %q, %t, 96; @%q bra MULTIPLY; bra EPILOGUE;
        PRODUCE: {step} {wait_empty} {expect} shl.b32 %k, %i, 4;
        {TENSOR_COPY.format("%at", "%ma", "%k", "0")} add.u32 %y, %at, 4096; {TENSOR_COPY.format("%y", "%mb", "%k", "0")}
        {store} add.u32 %i, %i, 1; setp.lt.u32 %q, %i, {count}; @%q bra PRODUCE; bra EPILOGUE;
        MULTIPLY: {step} {wait_full} {after} shr.u32 %x, %at, 4; cvt.u64.u32 %d, %x;
        or.b64 %d, %d, {16 << 32 | 1 << 16 | 1 << 46 | 6 << 61}; add.u64 %e, %d, 256; setp.ne.u32 %en, %i, 0;
        mov.u32 %id, {1 << 4 | 16 >> 3 << 17 | 128 >> 4 << 24};
        tcgen05.mma.cta_group::1.kind::f16 [%tm], %d, %e, %id, %en; {release}
        add.u32 %i, %i, 1; setp.lt.u32 %q, %i, {count}; @%q bra MULTIPLY; add.u32 %z, %bar, {16 * stages}; {done}
        EPILOGUE: bar.warp.sync 0xffffffff; {early} add.u32 %z, %bar, {16 * stages}; {wait_done} {after}
        shl.b32 %x, %w, 21; add.u32 %ta, %tm, %x; bar.warp.sync 0xffffffff;
        tcgen05.ld.sync.aligned.32x32b.x16.b32 {{{", ".join(d)}}}, [%ta]; {wait_load}
        mad.wide.u32 %d, %t, 64, %o; {" ".join(f"st.global.b32 [%d+{4 * i}], {r};" for i, r in enumerate(d))}
        {meet} setp.eq.u32 %q, %w, 1; @!%q bra DONE; {free} DONE: ret; """
    text = f""".version 8.7
        .target sm_100a
        .address_size 64
        .shared .align 1024 .b8 tile[{stage * stages}]; .shared .align 8 .b64 bars[{2 * stages + 1}]; .shared .b32 slot;
        .visible .entry k(.param .u64 p0, .param .u64 p1, .param .align 128 .b8 map_a[128], .param .align 128 .b8 map_b[128]) {{
        {REGS} .reg .b16 %h; mov.b16 %h, 0; mov.u32 %t, %tid.x; mov.u32 %bar, bars; ld.param.u64 %a, [p0];
        ld.param.u64 %o, [p1]; mov.u64 %ma, map_a; mov.u64 %mb, map_b; {body} }}"""
    a, b = matrices(m, n, kp)
    a[:, k:] = b[:, k:] = 0
    want = np.zeros((128, 16), np.float32)
    want[:m, :n] = a.astype(np.float32) @ b.T.astype(np.float32)
    params = [
        a,
        np.zeros((128, 16), np.float32),
        tensor_map(a, (128, 16), "32B"),
        tensor_map(b, (16, 16), "32B"),
    ]
    return Ring(text, 128, params, want, [b])


RINGS = (plain_ring, wgmma_ring, tensor_ring)
_EVERYWHERE = ("missing wait", "wrong phase", "uninitialised", "missing empty wait", "expects too little", "expects too much",
               "expects nothing", "store to the source")  # fmt: skip
RING_FLAWS = [
    *((ring, flaw) for ring in RINGS for flaw in _EVERYWHERE),
    *((wgmma_ring, flaw) for flaw in ("operand overwritten", "missing fence")),
    *((tensor_ring, flaw) for flaw in ("operand overwritten", "missing commit", "missing wait for the end",
                                       "missing tcgen05.wait", "missing dealloc", "freed under loads",
                                       "freed under products", "allocated behind the permit",
                                       "permit given up by another warp")),
]  # fmt: skip
_DEADLOCK = r"deadlock: .* waits for shared offset \d+, whose phase \d+ lacks \d+ arrivals"
_RACE = r"while the (cp\.async\.bulk|tcgen05|wgmma) of PTX line \d+ may still be (reading|writing) it"
RING_NAMED = {  # what a finding says of each
    "missing wait": rf"{_RACE} \(the copy engine tells of it with phase \d+ of the mbarrier at|before anything wrote it",
    "wrong phase": rf"{_RACE}|{_DEADLOCK}",
    "uninitialised": r"the mbarrier at shared offset \d+ was never initialised",
    "missing empty wait": rf"{_RACE}|not ordered after the read|more arrivals than the \d+ expected .* phase \d+|{_DEADLOCK}",
    "expects too little": r"phase 0 lacks 0 arrivals and has \d+ bytes more than were expected",
    "expects too much": r"phase 0 lacks 0 arrivals and 64 bytes that no copy brings",
    "expects nothing": _RACE,
    "store to the source": r"may still be reading it \(nobody has seen a phase of the mbarrier at shared offset \d+ complete",
    "operand overwritten": rf"{_RACE}|not ordered after the read at PTX line \d+.*its last wait .* phase \d+",
    "missing fence": r"was written by .* after its last wgmma\.fence",
    "missing commit": r"tensor memory.*may still be writing it \(the thread has seen no tcgen05\.commit behind it complete\)",
    "missing wait for the end": r"tensor memory.*may still be writing it \(the thread has seen no tcgen05\.commit behind it",
    "missing tcgen05.wait": r"loaded at PTX line \d+, is used by .* before tcgen05\.wait::ld",
    "freed under loads": r"freeing of tensor memory.* is not ordered after the read at PTX line \d+ by warp|not allocated",
    "freed under products": r"freeing of tensor memory.* while the tcgen05 of PTX line \d+ may still be writing it|not allocated",
    "allocated behind the permit": r"allocates nothing behind tcgen05\.relinquish_alloc_permit",
    "permit given up by another warp": r"gives up its CTA's right to allocate, and nothing orders that|allocates nothing behind",
    "missing dealloc": r"ended with 32 columns of tensor memory allocated",
}
