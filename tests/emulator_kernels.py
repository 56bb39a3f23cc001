"""Small asynchronous kernels with places for a planted bug, ragged ends included, written by hand.

Each function gives PTX, the launch and what must come out; `flaw` names what is wrong in it, "" nothing.
"""

import ml_dtypes
import numpy as np
from emulator_kit import entry

REGS = """.reg .b32 %t, %n, %s, %x, %y, %z, %i, %k, %c, %v, %w, %m, %h, %r<8>; .reg .f32 %f<4>; .reg .b64 %a, %o, %b, %d, %e;
    .reg .pred %p, %q, %u; .shared .align 128 .b8 s[8192]; .shared .align 8 .b64 bars[4]; mov.u32 %t, %tid.x; mov.u32 %s, s;
    mov.u32 %m, bars; ld.param.u64 %a, [p0]; ld.param.u64 %o, [p1]; ld.param.u32 %n, [n]; """
PARAMS = ".param .u64 p0, .param .u64 p1, .param .u32 n"


class Case:
    """One kernel ready to launch: text, threads, grid, parameters, and the expected second array."""

    memory = ()
    cluster = None

    def __init__(self, body, threads, params, want, grid=1):
        self.text = entry(REGS + body.replace("; ", ";\n"), PARAMS)
        self.threads, self.grid, self.params, self.want = threads, grid, params, want


def reversed_tiles(n, threads, stages, words, flaw):
    """Tiles of threads * words through shared memory, copied `stages - 1` ahead, each written out backwards."""
    width, tile = 4 * words, threads * words
    count = -(-n // tile)
    vector = {1: "u32", 4: "v4.u32"}[words]
    regs = {1: "%r0", 4: "{%r0, %r1, %r2, %r3}"}[words]
    store = "@%p st.global.u32 [%b], %x;" if flaw == "store to the source" else ""

    def copy(number):
        return f"""mad.lo.u32 %x, {number}, {threads}, %t; mul.lo.u32 %x, %x, {words}; mad.wide.u32 %b, %x, 4, %a;
            sub.s32 %z, %n, %x; max.s32 %z, %z, 0; min.s32 %z, %z, {words}; shl.b32 %z, %z, 2; setp.gt.u32 %p, %z, 0;
            selp.b64 %b, %b, %a, %p; and.b32 %y, {number}, {stages - 1}; mad.lo.u32 %y, %y, {tile * 4}, %s;
            mad.lo.u32 %y, %t, {width}, %y; cp.async.ca.shared.global [%y], [%b], {width}, %z; cp.async.commit_group;
            {store} """

    wait = "" if flaw == "missing wait" else f"cp.async.wait_group {stages - 1}; "
    first, last = ("" if flaw == f"missing {name} barrier" else "bar.sync 0; " for name in ("first", "last"))
    body = "".join(f"mov.u32 %i, {i}; {copy('%i')}" for i in range(stages - 1))
    body += f"""mov.u32 %i, 0; L: add.u32 %k, %i, {stages - 1}; {copy("%k")} {wait}{first}
        sub.u32 %x, {threads - 1}, %t; and.b32 %y, %i, {stages - 1}; mad.lo.u32 %y, %y, {tile * 4}, %s;
        mad.lo.u32 %y, %x, {width}, %y;
        ld.shared.{vector} {regs}, [%y]; mad.lo.u32 %x, %i, {threads}, %t; mul.wide.u32 %b, %x, {width}; add.s64 %b, %o, %b;
        st.global.{vector} [%b], {regs}; {last} add.u32 %i, %i, 1; setp.lt.u32 %q, %i, {count}; @%q bra L; ret; """
    x = np.arange(1, n + 1, dtype=np.uint32)
    padded = np.zeros(count * tile, np.uint32)
    padded[:n] = x
    want = padded.reshape(count, threads, words)[:, ::-1].reshape(-1)
    room = np.zeros(-(-n // 4) * 4, np.uint32)
    room[:n] = x
    return Case(body, threads, [room, np.zeros_like(want), n], want)


def double_buffer(flaw):
    return reversed_tiles(300, 64, 2, 1, flaw)


def four_stages(flaw):
    return reversed_tiles(1090, 96, 4, 4, flaw)


def product(flaw, depth=70):
    """[16, K] times [16, K] transposed in bf16 by two warps, three of four stages in flight; K is ragged."""
    pitch = -(-depth // 8) * 8
    steps = -(-depth // 16)
    store = "@%p st.global.u16 [%b], %h16;" if flaw == "store to the source" else ""

    def copy(step):
        return f"""mad.lo.u32 %x, {step}, 16, %k; sub.s32 %z, {depth}, %x; max.s32 %z, %z, 0; min.s32 %z, %z, 8;
            shl.b32 %z, %z, 1;
            setp.gt.u32 %p, %z, 0; mad.lo.u32 %x, %v, {pitch}, %x; mad.wide.u32 %b, %x, 2, %a; selp.b64 %b, %b, %a, %p;
            and.b32 %y, {step}, 3; mad.lo.u32 %y, %y, 1024, %w; cp.async.cg.shared.global [%y], [%b], 16, %z;
            cp.async.commit_group; {store} """

    wait = "" if flaw == "missing wait" else "cp.async.wait_group 3; "
    first, last = ("" if flaw == f"missing {name} barrier" else "bar.sync 0; " for name in ("first", "last"))
    body = f""".reg .b16 %h16; mov.b16 %h16, 0; shr.u32 %v, %t, 1; and.b32 %k, %t, 1; shl.b32 %k, %k, 3;
        mad.lo.u32 %w, %t, 16, %s;
        {"".join(copy(i) for i in range(3))}
        mov.f32 %f0, 0f00000000; mov.f32 %f1, 0f00000000; mov.f32 %f2, 0f00000000; mov.f32 %f3, 0f00000000; mov.u32 %i, 0;
        L: add.u32 %h, %i, 3; {copy("%h")} {wait}{first} and.b32 %y, %i, 3; mad.lo.u32 %y, %y, 1024, %s; and.b32 %x, %t, 31;
        and.b32 %z, %x, 15; mad.lo.u32 %z, %z, 32, %y; shr.u32 %x, %x, 4; mad.lo.u32 %z, %x, 16, %z;
        ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%r0, %r1, %r2, %r3}}, [%z]; and.b32 %x, %t, 7; shr.u32 %z, %t, 5;
        mad.lo.u32 %x, %z, 8, %x; mad.lo.u32 %x, %x, 32, %y; and.b32 %z, %t, 8; mad.lo.u32 %x, %z, 2, %x; add.u32 %x, %x, 512;
        ldmatrix.sync.aligned.m8n8.x2.shared.b16 {{%r4, %r5}}, [%x];
        mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {{%f0, %f1, %f2, %f3}}, {{%r0, %r1, %r2, %r3}},
        {{%r4, %r5}}, {{%f0, %f1, %f2, %f3}};
        {last} add.u32 %i, %i, 1; setp.lt.u32 %q, %i, {steps}; @%q bra L; and.b32 %x, %t, 31; shr.u32 %y, %x, 2;
        and.b32 %x, %x, 3;
        shr.u32 %z, %t, 5; mad.lo.u32 %y, %y, 16, 0; mad.lo.u32 %y, %z, 8, %y; mad.lo.u32 %y, %x, 2, %y;
        mad.wide.u32 %b, %y, 4, %o;
        st.global.v2.f32 [%b], {{%f0, %f1}}; st.global.v2.f32 [%b+512], {{%f2, %f3}}; ret; """  # fmt: skip
    body = body.replace(
        "and.b32 %z, %t, 8; mad.lo.u32 %x, %z, 2, %x;", "and.b32 %z, %t, 8; mad.lo.u32 %x, %z, 2, %x;"
    )
    values = np.random.default_rng(3).integers(-4, 5, (32, pitch)).astype(ml_dtypes.bfloat16)
    values[:, depth:] = np.nan
    a, b = (values[k : k + 16, :depth].astype(np.float32) for k in (0, 16))
    return Case(body, 64, [values, np.zeros((16, 16), np.float32), depth], a @ b.T)


WAIT = "{label}: mbarrier.try_wait.parity.shared.b64 %u, [{bar}], {parity}; @!%u bra {label}; "
INIT = "setp.ne.u32 %q, %t, 0; @!%q mbarrier.init.shared.b64 [%m], {count}; bar.sync 0; "


def arrivals_of_copies(flaw, n=150):
    """Every thread's copy arrives on one mbarrier, two buffers, a phase a tile."""
    count = -(-n // 64)
    parity = "0" if flaw == "wrong phase" else "%v"
    init = "bar.sync 0; " if flaw == "uninitialised" else INIT.format(count=64)
    body = f"""{init} mov.u32 %i, 0; L: mad.lo.u32 %x, %i, 64, %t; mad.wide.u32 %b, %x, 4, %a; setp.lt.u32 %p, %x, %n;
        selp.b64 %b, %b, %a, %p; selp.u32 %z, 4, 0, %p; and.b32 %v, %i, 1; mad.lo.u32 %w, %v, 256, %s;
        mad.lo.u32 %y, %t, 4, %w;
        cp.async.ca.shared.global [%y], [%b], 4, %z; cp.async.mbarrier.arrive.noinc.shared.b64 [%m];
        {WAIT.format(label="W", bar="%m", parity=parity)} xor.b32 %x, %t, 63; mad.lo.u32 %y, %x, 4, %w;
        ld.shared.u32 %r0, [%y];
        mad.lo.u32 %x, %i, 64, %t; mad.wide.u32 %b, %x, 4, %o; st.global.u32 [%b], %r0; add.u32 %i, %i, 1;
        setp.lt.u32 %q, %i, {count}; @%q bra L; ret; """
    return backwards(body, n, 64)


def producer_and_consumer(flaw, n=200):
    """The first warp copies tiles of 32, the second reads them; two stages with a full and an empty mbarrier each."""
    count = -(-n // 32)
    full = "0" if flaw == "wrong phase" else "%v"
    init = "".join(f"@!%q mbarrier.init.shared.b64 [%m+{8 * k}], 32; " for k in range(4)
                   if not (flaw == "uninitialised" and k == 1))  # fmt: skip
    stage = """and.b32 %k, %i, 1; mad.lo.u32 %w, %k, 128, %s; mad.lo.u32 %h, %k, 8, %m; add.u32 %c, %h, 16; shr.u32 %v, %i, 1;
        and.b32 %v, %v, 1; """
    body = f"""setp.ne.u32 %q, %t, 0; {init} bar.sync 0; mov.u32 %i, 0; setp.ge.u32 %q, %t, 32; @%q bra CONSUMER;
        P: {stage} xor.b32 %z, %v, 1; {WAIT.format(label="E", bar="%c", parity="%z")}
        mad.lo.u32 %x, %i, 32, %t; mad.wide.u32 %b, %x, 4, %a; setp.lt.u32 %p, %x, %n; selp.b64 %b, %b, %a, %p;
        selp.u32 %z, 4, 0, %p;
        mad.lo.u32 %y, %t, 4, %w; cp.async.ca.shared.global [%y], [%b], 4, %z; cp.async.mbarrier.arrive.noinc.shared.b64 [%h];
        add.u32 %i, %i, 1; setp.lt.u32 %q, %i, {count}; @%q bra P; ret;
        CONSUMER: and.b32 %t, %t, 31; C: {stage} {WAIT.format(label="F", bar="%h", parity=full)}
        xor.b32 %x, %t, 31; mad.lo.u32 %y, %x, 4, %w; ld.shared.u32 %r0, [%y]; mbarrier.arrive.shared.b64 %d, [%c];
        mad.lo.u32 %x, %i, 32, %t; mad.wide.u32 %b, %x, 4, %o; st.global.u32 [%b], %r0; add.u32 %i, %i, 1;
        setp.lt.u32 %q, %i, {count}; @%q bra C; ret; """
    return backwards(body, n, 32, 64)


def exchange(flaw, n=230):
    """Plain stores handed on by a split barrier: arrive, then wait for the phase; two buffers."""
    count = -(-n // 64)
    parity = "0" if flaw == "wrong phase" else "%v"
    init = "bar.sync 0; " if flaw == "uninitialised" else INIT.format(count=64)
    body = f"""{init} mov.u32 %i, 0; L: mad.lo.u32 %x, %i, 64, %t; mad.wide.u32 %b, %x, 4, %a; setp.lt.u32 %p, %x, %n;
        mov.u32 %r0, 0; @%p ld.global.u32 %r0, [%b]; and.b32 %v, %i, 1; mad.lo.u32 %w, %v, 256, %s; mad.lo.u32 %y, %t, 4, %w;
        st.shared.u32 [%y], %r0; mbarrier.arrive.shared.b64 %d, [%m]; {WAIT.format(label="W", bar="%m", parity=parity)}
        xor.b32 %x, %t, 63; mad.lo.u32 %y, %x, 4, %w; ld.shared.u32 %r0, [%y]; mad.lo.u32 %x, %i, 64, %t;
        mad.wide.u32 %b, %x, 4, %o;
        st.global.u32 [%b], %r0; add.u32 %i, %i, 1; setp.lt.u32 %q, %i, {count}; @%q bra L; ret; """
    return backwards(body, n, 64)


def backwards(body, n, tile, threads=None):
    x = np.arange(1, n + 1, dtype=np.uint32)
    padded = np.zeros(-(-n // tile) * tile, np.uint32)
    padded[:n] = x
    want = padded.reshape(-1, tile)[:, ::-1].reshape(-1)
    return Case(body, threads or tile, [x, np.zeros_like(want), n], want)


def flag(flaw):
    """CTA 0 writes, the last one reads after a flag; between them a third that only computes."""
    scope = ".cta" if flaw == "scope too small" else ".gpu"
    body = f"""mov.u32 %c, %ctaid.x; setp.eq.u32 %p, %c, 2; @%p bra READ; setp.ne.u32 %p, %c, 0; @%p exit;
        setp.lt.u32 %p, %t, %n;
        mad.wide.u32 %b, %t, 4, %a; mad.lo.u32 %x, %t, 3, 1; @%p st.global.u32 [%b+64], %x;
        {"" if flaw == "missing barrier" else "bar.sync 0;"}
        setp.ne.u32 %q, %t, 0; @%q exit; st.release{scope}.global.u32 [%a], 1; exit;
        READ: setp.ne.u32 %q, %t, 0; @%q bra HERE; W: ld.acquire.gpu.global.u32 %x, [%a]; setp.eq.u32 %u, %x, 0; @%u bra W;
        HERE: bar.sync 0; setp.lt.u32 %p, %t, %n; mad.wide.u32 %b, %t, 4, %a; mad.wide.u32 %d, %t, 4, %o;
        @%p ld.global.u32 %x, [%b+64];
        @%p st.global.u32 [%d], %x; ret; """
    want = np.zeros(96, np.uint32)
    want[:70] = np.arange(70) * 3 + 1
    return Case(body, 96, [np.zeros(128, np.uint32), np.zeros(96, np.uint32), 70], want, grid=3)


def grid_barrier(flaw):
    """Each CTA writes its part, all meet at a counter, each reads its neighbour's; the last part is ragged."""
    scope = ".cta" if flaw == "scope too small" else ".gpu"
    body = f"""mov.u32 %c, %ctaid.x; mov.u32 %k, %nctaid.x; mad.lo.u32 %x, %c, 64, %t; setp.lt.u32 %p, %x, %n;
        mad.wide.u32 %b, %x, 4, %a;
        @%p st.global.u32 [%b+64], %x; {"" if flaw == "missing barrier" else "bar.sync 0;"} setp.ne.u32 %q, %t, 0;
        @%q bra HERE;
        red.release{scope}.global.add.u32 [%a], 1; W: ld.acquire.gpu.global.u32 %y, [%a]; setp.lt.u32 %u, %y, %k; @%u bra W;
        HERE: bar.sync 0; add.u32 %y, %c, 1; rem.u32 %y, %y, %k; mad.lo.u32 %y, %y, 64, %t; setp.lt.u32 %p, %y, %n;
        mad.wide.u32 %b, %y, 4, %a; mov.u32 %z, 7; @%p ld.global.u32 %z, [%b+64]; mad.wide.u32 %b, %x, 4, %o;
        st.global.u32 [%b], %z; ret; """
    n = 300
    source = (np.arange(320) + 64) % 320
    return Case(
        body,
        64,
        [np.zeros(400, np.uint32), np.zeros(320, np.uint32), n],
        np.where(source < n, source, 7),
        grid=5,
    )


def last_block(flaw):
    """Every CTA leaves a partial sum; the one that counts last adds them up (fences around a relaxed counter)."""
    scope = ".cta" if flaw == "scope too small" else ".gpu"
    body = f"""mov.u32 %c, %ctaid.x; mov.u32 %k, %nctaid.x; mad.lo.u32 %x, %c, 32, %t; setp.lt.u32 %p, %x, %n; mov.u32 %y, 0;
        mad.wide.u32 %b, %x, 4, %a; @%p ld.global.u32 %y, [%b]; setp.ge.u32 %q, %t, 32; @%q bra MEET;
        redux.sync.add.u32 %y, %y, 0xffffffff;
        setp.ne.u32 %q, %t, 0; mad.wide.u32 %d, %c, 4, %o; @!%q st.global.u32 [%d+16], %y;
        MEET: {"" if flaw == "missing barrier" else "bar.sync 0;"} setp.ne.u32 %q, %t, 63; @%q exit; fence.acq_rel{scope};
        atom.relaxed.gpu.global.add.u32 %z, [%o], 1; fence.acq_rel.gpu; add.u32 %z, %z, 1; setp.ne.u32 %q, %z, %k; @%q exit;
        mov.u32 %i, 0;
        mov.u32 %y, 0; L: mad.wide.u32 %d, %i, 4, %o; ld.global.u32 %x, [%d+16]; add.u32 %y, %y, %x; add.u32 %i, %i, 1;
        setp.lt.u32 %q, %i, %k; @%q bra L; st.global.u32 [%o+4], %y; ret; """
    n = 150
    x = np.arange(1, n + 1, dtype=np.uint32)
    want = np.zeros(16, np.uint32)
    want[:2] = 5, x.sum()
    padded = np.zeros(160, np.uint32)
    padded[:n] = x
    want[4:9] = padded.reshape(5, 32).sum(1)
    return Case(body, 64, [x, np.zeros(16, np.uint32), n], want, grid=5)


COPIES = (double_buffer, four_stages, product)
BARRIERS = (arrivals_of_copies, producer_and_consumer, exchange)
MESSAGES = (flag, grid_barrier, last_block)
KERNELS = (*COPIES, *BARRIERS, *MESSAGES)
FLAWS = [
    *((k, flaw) for k in COPIES
      for flaw in ("missing wait", "missing first barrier", "missing last barrier", "store to the source")),
    *((k, flaw) for k in BARRIERS for flaw in ("wrong phase", "uninitialised")),
    *((k, flaw) for k in MESSAGES for flaw in ("scope too small", "missing barrier")),
]  # fmt: skip
NAMED = {  # what a finding says of each
    "missing wait": r"while the cp\.async of PTX line \d+ may still be writing it \(group \d+",
    "missing first barrier": r"not ordered after the write at PTX line|may still be writing it",
    "missing last barrier": r"not ordered after the read at PTX line",
    "store to the source": r"while the cp\.async of PTX line \d+ may still be reading it",
    "wrong phase": r"may still be writing it|copy engine|not ordered after.*its last wait.*phase \d+|deadlock.*try_wait",
    "uninitialised": r"the mbarrier at shared offset \d+ was never initialised",
    "scope too small": r"not ordered after the write at PTX line \d+ by warp \d+.* of another CTA",
    "missing barrier": r"not ordered after the write at PTX line \d+ by warp \d+.* of (another|the same) CTA",
}
