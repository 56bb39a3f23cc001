"""Rings fed by multicast in clusters, written by hand, with places for a planted bug: plain consumers, wgmma, pairs of tcgen05.

Every CTA of a cluster copies a part of what all read and sends it to those that need it; each has mbarriers of its own for what
has landed in its shared memory (full) and for what everybody has read of what it copied (empty). `flaw` as in emulator_rings.
"""

import functools

import numpy as np
from emulator_rings import REGS, WAIT, Ring, matrices

from tileiras.run.emulator import tensor_map

SYNC = "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned; "
MULTICAST = "mbarrier::complete_tx::bytes.multicast::cluster "


class ClusterRing(Ring):
    def __init__(self, text, threads, params, want, memory, grid, cluster):
        super().__init__(text, threads, params, want, memory, grid)
        self.cluster = cluster


def parts(flaw, stages, stage_bytes, empties, more=0):
    """(initialisation, start of a step, end of the kernel): as in emulator_rings, and what clusters need around it."""
    counts = [1] * stages + [empties] * stages + [1] * more
    init = "setp.eq.u32 %p, %t, 0; "
    init += "".join(f"@%p mbarrier.init.shared::cta.b64 [%bar+{8 * i}], {n}; " for i, n in enumerate(counts))
    init += "@%p fence.mbarrier_init.release.cluster; "
    init += "bar.sync 0; " if flaw == "no cluster barrier behind init" else SYNC
    step = f"""rem.u32 %x, %i, {stages}; div.u32 %y, %i, {stages}; and.b32 %par, %y, 1; xor.b32 %not, %par, 1;
        mad.lo.u32 %full, %x, 8, %bar; add.u32 %empty, %full, {8 * stages}; mov.u32 %at, tile;
        mad.lo.u32 %at, %x, {stage_bytes}, %at; """
    return init, step, "" if flaw == "no cluster barrier before exit" else SYNC


def module(target, stage_bytes, stages, body, params, regs="", more=0):
    return f""".version 8.7
        .target {target}
        .address_size 64
        .shared .align 1024 .b8 tile[{stage_bytes * stages}]; .shared .align 8 .b64 bars[{2 * stages + more}]; .shared .b32 slot;
        .visible .entry k({params}) {{ {REGS} .reg .b16 %mask, %m2; .reg .b32 %rank, %far, %size, %x2, %cid; {regs}
        mov.u32 %t, %tid.x; mov.u32 %bar, bars; mov.u32 %rank, %cluster_ctarank; mov.u32 %cid, %clusterid.x; {body} }}"""


def released(ranks):
    """A lane for each rank arrives on the empty mbarrier of that CTA: %far has the rank, %q who arrives."""
    return f"""bar.warp.sync 0xffffffff; and.b32 %x, %t, 31; setp.lt.u32 %q, %x, {ranks};
        mapa.shared::cluster.u32 %y, %empty, %far; @%q mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%y]; """


def multicast_ring(flaw, n=1100, size=2, stages=2):
    """Tiles of 64 words for each CTA of a cluster, by plain bulk copies to all of them; a warp of each reads whole tiles
    backwards. The last tile is shorter, its last parts are empty; each cluster has every other tile."""
    words, clusters = 64 * size, 2
    count = -(-n // words // clusters)  # tiles of a cluster
    own = flaw == "counts own consumers"
    init, step, leave = parts(flaw, stages, 4 * words, 1 if own else size)
    everyone = (1 << size) - 1
    mask = everyone >> 1 if flaw == "wrong mask" else everyone
    # %size: bytes of the tile that begins at word %k; %z: those of this CTA's part of it
    sizes = f"""mad.lo.u32 %k, %i, {clusters}, %cid; mul.lo.u32 %k, %k, {words}; sub.u32 %size, {n}, %k;
        setp.gt.s32 %q, %k, {n}; selp.u32 %size, 0, %size, %q; min.u32 %size, %size, {words}; mul.lo.u32 %size, %size, 4; """
    expected = "%z" if flaw == "expects own bytes" else "%size"
    release = "mov.u32 %far, %rank; " + released(1) if own else "and.b32 %far, %t, 31; " + released(size)
    body = f"""{init} mov.u32 %i, 0; ld.param.u64 %a, [p0]; ld.param.u64 %o, [p1]; mov.u16 %mask, {mask};
        setp.ge.u32 %q, %t, 32; @%q bra CONSUME; @!%p bra LEAVE;
        PRODUCE: {step} {WAIT.format("EMPTY", "%empty", "%not")} {sizes} mul.lo.u32 %x, %rank, 256; add.u32 %at, %at, %x;
        sub.s32 %z, %size, %x; max.s32 %z, %z, 0; min.u32 %z, %z, 256;
        mbarrier.arrive.expect_tx.shared::cta.b64 _, [%full], {expected}; mad.lo.u32 %k, %rank, 64, %k;
        mad.wide.u32 %d, %k, 4, %a; setp.ne.u32 %q, %z, 0;
        @%q cp.async.bulk.shared::cluster.global.{MULTICAST} [%at], [%d], %z, [%full], %mask;
        add.u32 %i, %i, 1; setp.lt.u32 %q, %i, {count}; @%q bra PRODUCE; bra LEAVE;
        CONSUME: sub.u32 %w, %t, 32; mul.lo.u32 %x, %cid, {words * 4 * count};
        mad.lo.u32 %x, %rank, {words * 4 * count * clusters}, %x;
        cvt.u64.u32 %d, %x; add.u64 %o, %o, %d;
        TAKE: {step} {WAIT.format("FULL", "%full", "%par")} {sizes} shr.u32 %size, %size, 2; mov.u32 %x2, %w;
        WORD: sub.u32 %x, {words - 1}, %x2; setp.lt.u32 %q, %x, %size; mad.lo.u32 %y, %x, 4, %at; mov.u32 %z, 0;
        @%q ld.shared.u32 %z, [%y]; mad.lo.u32 %x, %i, {words}, %x2; mad.wide.u32 %d, %x, 4, %o; st.global.u32 [%d], %z;
        add.u32 %x2, %x2, 32; setp.lt.u32 %q, %x2, {words}; @%q bra WORD; {release}
        add.u32 %i, %i, 1; setp.lt.u32 %q, %i, {count}; @%q bra TAKE; LEAVE: bar.warp.sync 0xffffffff; {leave} ret; """
    text = module("sm_90a", 4 * words, stages, body, ".param .u64 p0, .param .u64 p1")
    x = np.zeros(-(-n // 4) * 4, np.uint32)
    x[:n] = np.arange(1, n + 1)
    padded = np.zeros(count * clusters * words, np.uint32)
    padded[:n] = x[:n]
    want = padded.reshape(count, clusters, words)[:, :, ::-1].transpose(1, 0, 2)
    want = np.broadcast_to(want, (size, clusters, count, words)).copy()
    return ClusterRing(text, 64, [x, np.zeros_like(want)], want, (), clusters * size, size)


def crossed_multicast(flaw, n=600, stages=2):
    """Clusters of 2x2: a row and a column of tiles, each read by the two CTAs that lie there and copied in halves by these."""
    count = -(-n // 64)
    own = flaw == "counts own consumers"
    init, step, leave = parts(flaw, stages, 512, 1 if own else 3)
    expected = "%size" if flaw == "expects own bytes" else "%x2"
    masks = "mov.u16 %mask, 3; shl.b16 %mask, %mask, %y; mov.u16 %m2, 5; shl.b16 %m2, %m2, %x; "
    if flaw == "wrong mask":  # columns go where rows should
        masks = "mov.u16 %m2, 3; shl.b16 %m2, %m2, %y; mov.u16 %mask, %m2; "
    # lanes 0 to 2 tell this CTA, the other one of the row and the other one of the column
    release = "and.b32 %far, %t, 31; xor.b32 %far, %far, %rank; " + released(3)
    if own:
        release = "mov.u32 %far, %rank; " + released(1)
    copy = f"cp.async.bulk.shared::cluster.global.{MULTICAST}"
    # %z: bytes of this tile's row, which is as long as its column; %size: of the half that this CTA copies
    sizes = f"""mul.lo.u32 %k, %i, 64; sub.u32 %z, {n}, %k; min.u32 %z, %z, 64; mul.lo.u32 %z, %z, 4; """
    half = (
        "mul.lo.u32 %y, {0}, 128; sub.s32 %size, %z, %y; max.s32 %size, %size, 0; min.u32 %size, %size, 128; "
    )
    body = f"""{init} mov.u32 %i, 0; ld.param.u64 %a, [p0]; ld.param.u64 %o, [p1]; and.b32 %tm, %rank, 1; shr.u32 %ta, %rank, 1;
        mov.u32 %x, %tm; mul.lo.u32 %y, %ta, 2; {masks}
        setp.ge.u32 %q, %t, 32; @%q bra CONSUME; @!%p bra LEAVE;
        PRODUCE: {step} {WAIT.format("EMPTY", "%empty", "%not")} {sizes} mul.lo.u32 %x2, %z, 2; {half.format("%tm")}
        mov.u32 %far, %size; {half.format("%ta")} add.u32 %size, %size, %far;
        mbarrier.arrive.expect_tx.shared::cta.b64 _, [%full], {expected};
        {half.format("%tm")} mad.lo.u32 %x, %ta, {n + 8}, %k; mad.wide.u32 %d, %x, 4, %a; cvt.u64.u32 %e, %y; add.u64 %d, %d, %e;
        add.u32 %far, %at, %y; setp.ne.u32 %q, %size, 0; @%q {copy} [%far], [%d], %size, [%full], %mask;
        {half.format("%ta")} add.u32 %x, %tm, 2; mad.lo.u32 %x, %x, {n + 8}, %k; mad.wide.u32 %d, %x, 4, %a; cvt.u64.u32 %e, %y;
        add.u64 %d, %d, %e; add.u32 %y, %y, 256; add.u32 %far, %at, %y; setp.ne.u32 %q, %size, 0;
        @%q {copy} [%far], [%d], %size, [%full], %m2;
        add.u32 %i, %i, 1; setp.lt.u32 %q, %i, {count}; @%q bra PRODUCE; bra LEAVE;
        CONSUME: sub.u32 %w, %t, 32; mul.lo.u32 %x, %rank, {256 * count}; cvt.u64.u32 %d, %x; add.u64 %o, %o, %d;
        TAKE: {step} {WAIT.format("FULL", "%full", "%par")} {sizes} shr.u32 %z, %z, 2; mov.u32 %x2, %w;
        WORD: setp.lt.u32 %q, %x2, %z; mad.lo.u32 %y, %x2, 4, %at; mov.u32 %x, 0; mov.u32 %far, 0; @%q ld.shared.u32 %x, [%y];
        @%q ld.shared.u32 %far, [%y+256]; add.u32 %x, %x, %far; mad.lo.u32 %y, %i, 64, %x2; mad.wide.u32 %d, %y, 4, %o;
        st.global.u32 [%d], %x; add.u32 %x2, %x2, 32; setp.lt.u32 %q, %x2, 64; @%q bra WORD; {release}
        add.u32 %i, %i, 1; setp.lt.u32 %q, %i, {count}; @%q bra TAKE; LEAVE: bar.warp.sync 0xffffffff; {leave} ret; """
    text = module("sm_90a", 512, stages, body, ".param .u64 p0, .param .u64 p1")
    x = np.random.default_rng(n).integers(0, 1 << 20, (4, n + 8)).astype(np.uint32)  # two rows, two columns
    want = np.zeros((2, 2, count * 64), np.uint32)
    want[:, :, :n] = x[:2, None, :n] + x[None, 2:, :n]
    return ClusterRing(text, 64, [x, np.zeros_like(want)], want, (), (2, 2), (2, 2))


def wgmma_multicast(flaw, m=108, n=12, k=104, stages=3):
    """[m, k] times [n, k] transposed, 16 of K a step: 64 rows a CTA, each copies half of the right operand to both."""
    kp, count = -(-k // 8) * 8, -(-k // 16)
    own = flaw == "counts own consumers"
    init, step, leave = parts(flaw, stages, 3072, 4 if own else 8)
    bytes_ = 2048 + (256 if flaw == "expects own bytes" else 512)
    mask = {"wrong mask": "1"}.get(flaw, "3")
    release = "mov.u32 %far, %rank; " + released(1) if own else "and.b32 %far, %t, 31; " + released(2)
    copy = "cp.async.bulk.tensor.2d.shared::cluster.global.tile."
    sums = [f"%f{i}" for i in range(8)]
    body = f"""{init} mov.u32 %i, 0; ld.param.u64 %o, [p1]; mov.u64 %ma, map_a; mov.u64 %mb, map_b; mov.u16 %mask, {mask};
        setp.lt.u32 %q, %t, 128; @%q bra CONSUME; setp.ne.u32 %q, %t, 128; @%q bra LEAVE; mul.lo.u32 %z, %rank, 64;
        mul.lo.u32 %w, %rank, 8;
        PRODUCE: {step} {WAIT.format("EMPTY", "%empty", "%not")} mbarrier.arrive.expect_tx.shared::cta.b64 _, [%full], {bytes_};
        shl.b32 %k, %i, 4; {copy}mbarrier::complete_tx::bytes [%at], [%ma, {{%k, %z}}], [%full];
        mad.lo.u32 %y, %rank, 256, %at; add.u32 %y, %y, 2048; {copy}{MULTICAST} [%y], [%mb, {{%k, %w}}], [%full], %mask;
        add.u32 %i, %i, 1; setp.lt.u32 %q, %i, {count}; @%q bra PRODUCE; bra LEAVE;
        CONSUME: {"".join(f"mov.f32 {f}, 0f00000000; " for f in sums)}
        TAKE: {step} {WAIT.format("FULL", "%full", "%par")} and.b32 %x, %at, 0xffffff; shr.u32 %x, %x, 4; cvt.u64.u32 %d, %x;
        or.b64 %d, %d, {16 << 32 | 1 << 16 | 3 << 62}; add.u64 %e, %d, 128; setp.ne.u32 %en, 1, 0; wgmma.fence.sync.aligned;
        wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {{{", ".join(sums)}}}, %d, %e, %en, 1, 1, 0, 0;
        wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; {release}
        add.u32 %i, %i, 1; setp.lt.u32 %q, %i, {count}; @%q bra TAKE;
        and.b32 %x, %t, 31; shr.u32 %y, %t, 5; shr.u32 %z, %x, 2; mad.lo.u32 %y, %y, 16, %z; mad.lo.u32 %y, %rank, 64, %y;
        and.b32 %x, %x, 3; mul.lo.u32 %y, %y, 16; mad.lo.u32 %y, %x, 2, %y; mad.wide.u32 %d, %y, 4, %o;
        {"".join(f"st.global.v2.f32 [%d+{at}], {{{a}, {b}}}; " for at, a, b in zip((0, 512, 32, 544), sums[::2], sums[1::2]))}
        LEAVE: bar.warp.sync 0xffffffff; {leave} ret; """
    params = (
        ".param .u64 p0, .param .u64 p1, .param .align 128 .b8 map_a[128], .param .align 128 .b8 map_b[128]"
    )
    text = module("sm_90a", 3072, stages, body, params)
    a, b = matrices(m, n, kp)
    a[:, k:] = b[:, k:] = 0
    want = np.zeros((128, 16), np.float32)
    want[:m, :n] = a.astype(np.float32) @ b.T.astype(np.float32)
    maps = [tensor_map(a, (64, 16), "32B"), tensor_map(b, (8, 16), "32B")]
    return ClusterRing(text, 160, [a, np.zeros_like(want), *maps], want, [b], 2, 2)


def pair_product(flaw, m=200, n=32, k=72, stages=3, rows=128):
    """[m, k] times [n, k] transposed by two CTAs as one (cta_group::2): `rows` rows and half of the columns' operand in each;
    copies of both complete on the first one's mbarrier, its thread issues the products, commits tell both."""
    kp, count = -(-k // 8) * 8, -(-k // 16)
    stage = rows * 32 + n * 16
    stage_bytes, width = -(-stage // 1024) * 1024, n if rows == 128 else n // 2
    init, step, _ = parts(flaw, stages, stage_bytes, 1, more=1)
    bytes_ = stage if flaw in ("expects own bytes", "peer's operand not waited for") else 2 * stage
    leader = (
        "mov.u32 %far, %full; "
        if flaw == "peer's operand not waited for"
        else "and.b32 %far, %full, 0xfeffffff; "
    )
    here = "%p" if flaw == "peer's operand not waited for" else "%en"
    commit = "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster{}.b64 [{}]{}; "
    both, alone = (".multicast::cluster", ", %mask"), ("", "")

    def told(what, barrier):
        some = alone if flaw == f"commit of {what} to one" else both
        return commit.format(some[0], barrier, some[1])

    copy = "cp.async.bulk.tensor.2d.cta_group::2.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
    d = [f"%d{i}" for i in range(width)]
    idesc = 1 << 4 | n >> 3 << 17 | 2 * rows >> 4 << 24
    over = "bar.sync 0; " if flaw == "freed before the peer is done" else SYNC
    issues = (
        "mov.pred %en, 1; bra MULTIPLY;"
        if flaw == "products issued by both"
        else "@%en bra MULTIPLY; bra EPILOGUE;"
    )
    place = f"mad.lo.u32 %x, %rank, {rows}, %t; mul.lo.u32 %x, %x, {n}; "
    if rows == 64:  # lanes from 64 on have the second half of the columns
        place = f"""and.b32 %x, %t, 63; mad.lo.u32 %x, %rank, 64, %x; mul.lo.u32 %x, %x, {n}; shr.u32 %y, %t, 6;
        mad.lo.u32 %x, %y, {width}, %x; """
    body = f"""{init} ld.param.u64 %o, [p1]; mov.u64 %ma, map_a; mov.u64 %mb, map_b; mov.u16 %mask, 3; shr.u32 %w, %t, 5;
        setp.eq.u32 %q, %w, 1; mov.u32 %x, slot; @!%q bra ALLOCATED;
        tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%x], {max(width, 32)};
        tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;
        ALLOCATED: tcgen05.fence::before_thread_sync; {SYNC} tcgen05.fence::after_thread_sync;
        ld.shared.u32 %tm, [slot]; mov.u32 %i, 0; add.u32 %z, %bar, {16 * stages}; setp.eq.u32 %en, %rank, 0;
        setp.eq.u32 %q, %t, 64; @%q bra PRODUCE; setp.ne.u32 %q, %t, 96; @%q bra EPILOGUE; {issues}
        PRODUCE: mov.pred %p, 1; mul.lo.u32 %y, %rank, {rows}; mov.u32 %ta, %y; mul.lo.u32 %tm, %rank, {n // 2};
        FILL: {step} {WAIT.format("EMPTY", "%empty", "%not")}
        @{here} mbarrier.arrive.expect_tx.shared::cta.b64 _, [%full], {bytes_}; shl.b32 %k, %i, 4; {leader}
        {copy} [%at], [%ma, {{%k, %ta}}], [%far]; add.u32 %y, %at, {rows * 32}; {copy} [%y], [%mb, {{%k, %tm}}], [%far];
        add.u32 %i, %i, 1; setp.lt.u32 %q, %i, {count}; @%q bra FILL; bra EPILOGUE;
        MULTIPLY: {step} {WAIT.format("FULL", "%full", "%par")} tcgen05.fence::after_thread_sync; and.b32 %x, %at, 0xffffff;
        shr.u32 %x, %x, 4; cvt.u64.u32 %d, %x; or.b64 %d, %d, {16 << 32 | 1 << 16 | 1 << 46 | 6 << 61};
        add.u64 %e, %d, {rows * 2}; setp.ne.u32 %en, %i, 0; mov.u32 %id, {idesc};
        tcgen05.mma.cta_group::2.kind::f16 [%tm], %d, %e, %id, %en; {told("stages", "%empty")}
        add.u32 %i, %i, 1; setp.lt.u32 %q, %i, {count}; @%q bra MULTIPLY; {told("sums", "%z")}
        EPILOGUE: bar.warp.sync 0xffffffff; ld.shared.u32 %tm, [slot]; {WAIT.format("END", "%z", "0")}
        tcgen05.fence::after_thread_sync; shl.b32 %x, %w, 21; add.u32 %ta, %tm, %x; bar.warp.sync 0xffffffff;
        tcgen05.ld.sync.aligned.32x32b.x{width}.b32 {{{", ".join(d)}}}, [%ta]; tcgen05.wait::ld.sync.aligned;
        {place} mad.wide.u32 %d, %x, 4, %o; {" ".join(f"st.global.b32 [%d+{4 * i}], {r};" for i, r in enumerate(d))}
        tcgen05.fence::before_thread_sync; {over} tcgen05.fence::after_thread_sync; setp.eq.u32 %q, %w, 1; @!%q bra DONE;
        tcgen05.dealloc.cta_group::2.sync.aligned.b32 %tm, {max(width, 32)}; DONE: ret; """
    params = (
        ".param .u64 p0, .param .u64 p1, .param .align 128 .b8 map_a[128], .param .align 128 .b8 map_b[128]"
    )
    text = module("sm_100a", stage_bytes, stages, body, params, more=1)
    text = text.replace(".reg .b32 %d<16>;", ".reg .b32 %d<64>;")
    a, b = matrices(m, n, kp)
    a[:, k:] = b[:, k:] = 0
    want = np.zeros((2 * rows, n), np.float32)
    want[:m] = a.astype(np.float32) @ b.T.astype(np.float32)
    maps = [tensor_map(a, (rows, 16), "32B"), tensor_map(b, (n // 2, 16), "32B")]
    return ClusterRing(text, 128, [a, np.zeros_like(want), *maps], want, [b], 2, 2)


def named(build, name, **more):
    made = functools.partial(build, **more)
    made.__name__ = name
    return made


four_multicast = named(multicast_ring, "four_multicast", n=2100, size=4, stages=2)
deep_pair = named(pair_product, "deep_pair", m=256, n=64, k=136, stages=2)
narrow_pair = named(pair_product, "narrow_pair", m=100, n=32, k=88, stages=2, rows=64)
MULTICASTS = (multicast_ring, crossed_multicast, wgmma_multicast)
PAIRS = (pair_product, deep_pair, narrow_pair)
CLUSTERS = (*MULTICASTS, four_multicast, *PAIRS)
CLUSTER_FLAWS = [
    *((ring, flaw) for ring in (*MULTICASTS, four_multicast)
      for flaw in ("no cluster barrier behind init", "no cluster barrier before exit", "wrong mask", "expects own bytes",
                   "counts own consumers")),
    *((ring, flaw) for ring in PAIRS
      for flaw in ("commit of sums to one", "commit of stages to one", "peer's operand not waited for", "expects own bytes",
                   "freed before the peer is done", "products issued by both")),
]  # fmt: skip
_LACKS = r"deadlock: .* waits for shared offset \d+, whose phase \d+ lacks \d+ arrivals"
_FLYING = r"while the cp\.async\.bulk of PTX line \d+ may still be writing it|before anything wrote it"
CLUSTER_NAMED = {  # what a finding says of each
    "no cluster barrier behind init": r"the mbarrier at shared offset \d+ is used by .*, which nothing orders behind its init",
    "no cluster barrier before exit": r"CTA \(\d, \d, 0\) (may end before .* is done with its|has ended before this)",
    "wrong mask": rf"{_LACKS}|{_FLYING}",
    "expects own bytes": rf"{_LACKS} and has \d+ bytes more than were expected|{_FLYING}",
    "counts own consumers": r"write of .* is not ordered after the read at PTX line \d+ by warp \d+.* of another CTA|while the "
    r"wgmma of PTX line \d+ may still be reading it",
    "commit of sums to one": _LACKS,
    "commit of stages to one": _LACKS,
    "peer's operand not waited for": _FLYING,
    "freed before the peer is done": r"freeing of tensor memory, .* is not ordered after the read",
    "products issued by both": rf"{_LACKS}|more arrivals than the|while the tcgen05 of PTX line \d+ may still be",
}
