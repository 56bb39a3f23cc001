"""Control flow, warp-wide instructions and barriers of the PTX emulator on hand-written PTX; printf; syntax."""

import numpy as np
import pytest
from emulator_kit import HEAD, apply, entry

from tileiras.run.emulator import EmulatorError, launch, progress

TID = ".reg .b32 %t; .reg .b64 %a, %b, %o; mov.u32 %t, %tid.x;"


def run(body, params, *, threads=32, grid=1, before="", **options):
    spelled = ", ".join(f".param .u64 p{i}" for i in range(len(params)))
    return launch(entry(TID + body, spelled, before=before), "k", grid, threads, params, **options)


def store(value, index=0):
    return f"ld.param.u64 %o, [p{index}]; mad.wide.u32 %o, %t, 4, %o; st.global.u32 [%o], {value};"


@pytest.mark.parametrize("check", [False, True])
def test_loops_and_early_exit(check):
    out = np.zeros(96, np.uint32)
    run(
        f""".reg .b32 %i, %s, %j; .reg .pred %p, %q; mov.u32 %s, 0; mov.u32 %i, 0;
        OUTER: setp.ge.u32 %p, %i, %t; @%p bra END; mov.u32 %j, 0;
        INNER: add.u32 %s, %s, 1; add.u32 %j, %j, 1; setp.lt.u32 %p, %j, %i; setp.gt.u32 %q, %s, 500; @%q bra STOP; @%p bra INNER;
        add.u32 %i, %i, 1; bra OUTER;
        STOP: {store("7777")} exit;
        END: {store("%s")} ret;""",
        [out],
        threads=96,
        check=check,
        seed=1,
    )

    def want(t):
        s = 0
        for i in range(t):
            for _ in range(max(i, 1)):
                s += 1
                if s > 500:
                    return 7777
        return s

    assert out.tolist() == [want(t) for t in range(96)]


def test_branch_tables_and_guards():
    out = np.zeros(64, np.uint32)
    run(
        f""".reg .b32 %i, %v; .reg .pred %p; and.b32 %i, %t, 3; mov.u32 %v, 5; T: .branchtargets L0, L1, L2, L1;
        brx.idx %i, T;
        L0: mov.u32 %v, 100; bra.uni END;
        L1: add.u32 %v, %v, %t;
        L2: add.u32 %v, %v, 1000;
        END: setp.gt.u32 %p, %t, 60; @%p exit; setp.lt.u32 %p, %t, 3; @%p mul.lo.u32 %v, %v, 3;
        {store("%v")}""",
        [out],
        threads=64,
    )
    for t in range(64):
        v = {0: 100, 1: 1005 + t, 2: 1005, 3: 1005 + t}[t & 3]
        assert out[t] == (0 if t > 60 else v * 3 if t < 3 else v)


def test_labels_are_local_to_their_block():
    out = np.zeros(32, np.uint32)
    body = (
        "{ .reg .b32 %x; .reg .pred %p; mov.u32 %x, 0; L: add.u32 %x, %x, 1; setp.lt.u32 %p, %x, %t; "
        "@%p bra L; add.u32 %s, %s, %x; }"
    )
    run(f".reg .b32 %s; mov.u32 %s, 0; {body} {body} {store('%s')} ret;", [out])
    assert out.tolist() == [2 * max(t, 1) for t in range(32)]


def lanes(a):
    return a.reshape(-1, 32)


def test_shuffles():
    x = np.random.default_rng(0).integers(0, 1000, 96).astype(np.uint32)

    def model(mode, b, c, t):
        lane, base = t % 32, t // 32 * 32
        seg, clamp = c >> 8 & 31, c & 31
        top, low = lane & seg | clamp & ~seg & 31, lane & seg
        b &= 31
        j = {"up": lane - b, "down": lane + b, "bfly": lane ^ b, "idx": low | b & ~seg & 31}[mode]
        ok = j >= top if mode == "up" else j <= top
        return (x[base + j] if ok else x[t]), ok

    for mode in ("up", "down", "bfly", "idx"):
        for b, c in ((1, 31), (3, 0x181F), (16, 31), (5, 0x1C07), (7, 0)):
            got, ok = apply(f"shfl.sync.{mode}.b32 %d0|%q0, %a0, {b}, {c}, -1;", [x], [np.uint32, bool])
            want = [model(mode, b, c, t) for t in range(96)]
            assert got.tolist() == [w[0] for w in want] and ok.tolist() == [w[1] for w in want], (mode, b, c)
    by = np.random.default_rng(1).integers(0, 64, 96).astype(np.uint32)
    got = apply("shfl.sync.idx.b32 %d0, %a0, %a1, 31, 0xffffffff;", [x, by], [np.uint32])
    assert got.tolist() == [model("idx", int(by[t]), 31, t)[0] for t in range(96)]


@pytest.mark.parametrize("check", [False, True])
def test_warp_instructions_of_diverged_halves(check):
    out = np.zeros(64, np.uint32)
    run(
        f""".reg .b32 %v, %x; .reg .pred %p, %q; and.b32 %x, %t, 1; setp.eq.u32 %p, %x, 1; @%p bra ODD;
        shfl.sync.bfly.b32 %v, %t, 2, 31, 0x55555555; redux.sync.add.u32 %v, %v, 0x55555555; bra JOIN;
        ODD: add.u32 %x, %t, 500; shfl.sync.down.b32 %v, %x, 2, 31, 0xaaaaaaaa;
        vote.sync.ballot.b32 %x, %p, 0xaaaaaaaa; xor.b32 %v, %v, %x;
        JOIN: {store("%v")} ret;""",
        [out],
        threads=64,
        check=check,
        seed=3,
    )
    for t in range(64):
        base, lane = t // 32 * 32, t % 32
        if t & 1:
            assert out[t] == (500 + base + (lane + 2 if lane + 2 < 32 else lane)) ^ 0xAAAAAAAA
        else:
            assert out[t] == sum(base + i for i in range(0, 32, 2))


def test_votes_matches_and_reductions():
    x = np.random.default_rng(2).integers(0, 6, 128).astype(np.int32) - 2
    w = lanes(x)
    bit = 1 << np.arange(32, dtype=np.uint64)
    each = lambda v: np.repeat(np.asarray(v), 32)  # noqa: E731
    got = apply(
        "setp.gt.s32 %p0, %a0, 0; vote.sync.ballot.b32 %d0, %p0, -1; vote.sync.any.pred %q0, !%p0, -1;"
        "vote.sync.all.pred %q1, %p0, 0x3; vote.sync.uni.pred %q2, %p0, 0x7; match.any.sync.b32 %d4, %a0, -1;"
        "activemask.b32 %d5;",
        [x],
        [np.uint32, bool, bool, bool, np.uint32, np.uint32],
    )
    assert got[0].tolist() == each(((w > 0) * bit).sum(1)).tolist()
    assert got[1].tolist() == each((w <= 0).any(1)).tolist()
    assert got[2].tolist() == each((w[:, :2] > 0).all(1)).tolist()
    assert got[3].tolist() == each((w[:, :3] > 0).all(1) | (w[:, :3] <= 0).all(1)).tolist()
    assert got[4].tolist() == [int(((row == v) * bit).sum()) for row in w for v in row]
    assert (got[5] == 0xFFFFFFFF).all()
    for op, fn in {
        "add": np.add,
        "min": np.minimum,
        "max": np.maximum,
        "and": np.bitwise_and,
        "or": np.bitwise_or,
        "xor": np.bitwise_xor,
    }.items():
        type_ = "s32" if op in ("add", "min", "max") else "b32"
        got = apply(f"redux.sync.{op}.{type_} %d0, %a0, 0xffffffff;", [x], [np.int32])
        assert got.tolist() == each(fn.reduce(w, axis=1)).tolist(), op
    f = x.astype(np.float32)
    f[40] = np.nan
    got = apply(
        "redux.sync.min.abs.f32 %d0, %a0, -1; redux.sync.max.NaN.f32 %d1, %a0, -1;", [f], [np.float32] * 2
    )
    g = lanes(f)
    assert got[0].tolist() == each(np.nanmin(np.abs(g), axis=1)).tolist()
    want = each(g.max(1))
    assert ((got[1] == want) | (np.isnan(got[1]) & np.isnan(want))).all()
    p, q = apply("elect.sync %d0|%q0, 0xfffffff0;", [x], [np.uint32, bool])
    assert (p == 4).all() and q.tolist() == ([i == 4 for i in range(32)] * 4)


def test_special_registers():
    out = np.zeros((2 * 3 * 96, 10), np.uint32)
    names = [
        "%laneid",
        "%warpid",
        "%ctaid.x",
        "%ctaid.y",
        "%nctaid.y",
        "%tid.y",
        "%lanemask_lt",
        "%lanemask_ge",
        "%ntid.x",
        "%clusterid.x",
    ]
    body = "".join(f"mov.u32 %x, {name}; st.global.u32 [%o+{4 * i}], %x;" for i, name in enumerate(names))
    run(
        f""".reg .b32 %x, %y, %n; .reg .b64 %c, %c2; .reg .pred %p; mov.u32 %x, %ctaid.y;
        mov.u32 %n, %ctaid.x; mad.lo.u32 %x, %x, 2, %n; mov.u32 %y, %tid.y;
        mad.lo.u32 %n, %y, 12, %t; mad.lo.u32 %n, %x, 96, %n; ld.param.u64 %o, [p0]; mad.wide.u32 %o, %n, 40, %o;
        mov.u64 %c, %clock64; mov.u64 %c2, %globaltimer; mov.u32 %x, %smid; {body} ret;""",
        [out],
        threads=(12, 8),
        grid=(2, 3),
    )
    i = np.arange(out.shape[0])
    t, cta = i % 96, i // 96
    want = [
        t % 32,
        t // 32,
        cta % 2,
        cta // 2,
        3 + 0 * i,
        t // 12,
        (1 << t % 32) - 1,
        (0xFFFFFFFF << t % 32) & 0xFFFFFFFF,
        12 + 0 * i,
        cta % 2,
    ]
    for k, w in enumerate(want):
        assert (out[:, k] == w).all(), names[k]


@pytest.mark.parametrize("check", [False, True])
def test_partial_blocks_and_exited_threads(check):
    """45 threads; those of the last 5 leave early; warp instructions and shared memory go on without them."""
    out = np.zeros(45, np.uint32)
    run(
        f""".reg .b32 %v; .reg .pred %p; setp.ge.u32 %p, %t, 40; @%p exit; activemask.b32 %v; {store("%v")} ret;""",
        [out],
        threads=45,
        check=check,
        seed=0,
    )
    if not check:
        assert out.tolist() == [0xFFFFFFFF] * 32 + [0xFF] * 8 + [0] * 5


@pytest.mark.parametrize("check", [False, True])
def test_named_barriers_pass_data_between_warps(check):
    """Warp 0 produces, warps 1 and 2 consume; arrive and sync with counts."""
    out = np.zeros(96, np.uint32)
    report = run(
        f""".shared .align 4 .b8 s[128]; .reg .b32 %v, %s, %l, %i; .reg .pred %p, %q; and.b32 %l, %t, 31; mov.u32 %s, s;
        mad.lo.u32 %s, %l, 4, %s; setp.lt.u32 %p, %t, 32; mov.u32 %i, 0; mov.u32 %v, 0; @!%p bra CONSUME;
        PRODUCE: mad.lo.u32 %v, %i, 100, %l; st.shared.u32 [%s], %v; barrier.cta.arrive.aligned 1, 96; bar.sync 2, 96;
        add.u32 %i, %i, 1; setp.lt.u32 %q, %i, 4; @%q bra PRODUCE; bra END;
        CONSUME: bar.sync 1, 96; ld.shared.u32 %l, [%s]; add.u32 %v, %v, %l; bar.arrive 2, 96; add.u32 %i, %i, 1;
        setp.lt.u32 %q, %i, 4; @%q bra CONSUME;
        END: {store("%v")} ret;""",
        [out],
        threads=96,
        check=check,
        seed=4,
    )
    assert report.findings == []
    want = np.array([600 + 4 * k for k in range(32)])
    assert (out[32:64] == want).all() and (out[64:] == want).all()


def test_barrier_reductions_in_one_and_in_parts():
    out = np.zeros((64, 3), np.uint32)
    code = """.reg .b32 %c, %x<3>; .reg .pred %p, %q, %r; setp.gt.u32 %p, %t, 40; PRE
        bar.red.popc.u32 %c, 0, %p; bar.red.and.pred %q, 0, !%p; bar.red.or.pred %r, 0, 64, %p;
        selp.u32 %x1, 1, 0, %q; selp.u32 %x2, 1, 0, %r; ld.param.u64 %o, [p0]; mad.wide.u32 %o, %t, 12, %o;
        st.global.u32 [%o], %c; st.global.u32 [%o+4], %x1; st.global.u32 [%o+8], %x2; ret;"""
    for pre in (
        "",
        "setp.lt.u32 %q, %t, 32; @%q bra W0; bar.red.popc.u32 %c, 0, %p; bra J; W0: bar.red.popc.u32 %c, 0, %p; J: ",
    ):
        out[:] = 0
        run(code.replace("PRE", pre), [out], threads=64)
        assert (out == [23, 0, 1]).all()


def test_cluster_barrier_and_distributed_shared_memory():
    out = np.zeros(4 * 32, np.uint32)
    text = entry(
        """.shared .align 4 .b8 s[128]; .reg .b32 %t, %r, %n, %s, %d, %v, %g; .reg .b64 %o, %q; mov.u32 %t, %tid.x;
        mov.u32 %r, %cluster_ctarank; mov.u32 %n, %cluster_nctarank; mov.u32 %s, s; mad.lo.u32 %s, %t, 4, %s;
        mad.lo.u32 %v, %r, 100, %t; st.shared.u32 [%s], %v; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
        add.u32 %r, %r, 1; rem.u32 %r, %r, %n; mapa.shared::cluster.u32 %d, %s, %r; ld.shared::cluster.u32 %v, [%d];
        getctarank.shared::cluster.u32 %g, %d; mad.lo.u32 %v, %g, 1000, %v;
        barrier.cluster.arrive; barrier.cluster.wait; mov.u32 %g, %ctaid.x; mad.lo.u32 %g, %g, 32, %t; ld.param.u64 %o, [p0];
        mad.wide.u32 %o, %g, 4, %o; st.global.u32 [%o], %v; ret;""",
        ".param .u64 p0",
        directives=".reqnctapercluster 2, 1, 1",
    )
    for check in (False, True):
        out[:] = 0
        report = launch(text, "k", 4, 32, [out], check=check, seed=1)
        assert report.findings == []
        i = np.arange(128)
        other = 1 - i // 32 % 2
        assert (out == other * 1100 + i % 32).all()


def test_deadlock_is_reported():
    with pytest.raises(EmulatorError, match=r"no thread can go on: 32 threads .*bar\.sync 1, 64"):
        run(
            ".reg .pred %p; setp.lt.u32 %p, %t, 32; @%p bra A; bar.sync 2, 64; A: bar.sync 1, 64; ret;",
            [],
            threads=64,
        )
    with pytest.raises(EmulatorError, match="gave up after 1000 steps"):
        run(".reg .b32 %n; .reg .pred %p; mov.u32 %n, 1; L: add.u32 %n, %n, 2; setp.ne.u32 %p, %n, 0; @%p bra L; ret;", [],
            max_steps=1000)  # fmt: skip


POLL = ".reg .b64 %a, %c; .reg .b32 %x, %n; .reg .pred %p, %q; .shared .b32 s; ld.param.u64 %a, [p0]; mov.u32 %n, 0; "
WAITS = {
    "ld.acquire": "L: ld.acquire.gpu.global.u32 %x, [%a]; setp.eq.u32 %p, %x, 0; @%p bra L; ret;",
    "ld.global": "L: ld.global.u32 %x, [%a]; setp.eq.u32 %p, %x, 0; @%p bra L; ret;",
    "atom.global.cas": "L: atom.global.cas.b32 %x, [%a], 1, 2; setp.ne.u32 %p, %x, 1; @%p bra L; ret;",
    "ld.volatile": "mov.u32 %n, 8; L: ld.volatile.global.u32 %x, [%a]; nanosleep.u32 %n; min.u32 %n, %n, 128; "
    "add.u32 %n, %n, %n; setp.eq.u32 %p, %x, 0; @%p bra L; ret;",
    "ld.relaxed": "L: setp.ne.u32 %q, %t, 0; @!%q ld.relaxed.gpu.global.u32 %x, [%a]; @!%q st.shared.u32 [s], %x; "
    "bar.sync 0; ld.shared.u32 %x, [s]; bar.sync 0; setp.eq.u32 %p, %x, 0; @%p bra L; ret;",
    "ld.relaxed.sys": "L: ld.relaxed.sys.global.u32 %x, [%a]; add.u32 %n, %n, 3; setp.eq.u32 %p, %x, 0; @%p bra L; "
    "st.global.u32 [%a+8], %n; ret;",  # counts its rounds
    "ld.acquire.sys": "M: add.u32 %n, %n, 1; L: ld.acquire.sys.global.u32 %x, [%a]; add.u32 %n, %n, 1; setp.eq.u32 %p, %x, 0; "
    "@%p bra L; setp.lt.u32 %p, %n, 900; @%p bra M; ret;",  # the next loop counts its rounds
    "ld.relaxed.cta": "L: ld.relaxed.cta.global.u32 %x, [%a]; add.u32 %n, %n, 32; nanosleep.u32 %n; "
    "setp.eq.u32 %p, %x, 0; @%p bra L; ret;",
    "mbarrier.try_wait": "mbarrier.init.shared.b64 [m], 2; L: mbarrier.try_wait.parity.shared.b64 %p, [m], 0; @!%p bra L; ret;",
}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("seed", [None, 3])
@pytest.mark.parametrize("waits", WAITS)
def test_waiting_for_what_nobody_does_is_a_deadlock(waits, seed):
    body = POLL + ".shared .align 8 .b64 m; " + WAITS[waits]
    for grid in (1, 200) if waits == "ld.acquire" else (2,):  # 200: more than one batch
        with pytest.raises(
            EmulatorError, match=rf"deadlock: kernel 'k' never ends: .* waits for .*{waits}.*;"
        ) as error:
            run(body, [np.zeros(4, np.uint32)], threads=96, grid=grid, seed=seed)
        assert error.value.line > 0


@pytest.mark.parametrize("seed", [None, 1])
def test_kernels_that_end_while_their_loop_is_looked_at(seed):
    for rounds in range(280, 820, 60):
        count = f"mov.u32 %n, 0; L: add.u32 %n, %n, 1; setp.lt.u32 %p, %n, {rounds}; @%p bra L; "
        report = run(f".reg .b32 %n; .reg .pred %p; {count} ret;", [], threads=1, seed=seed)
        assert report.executed["bra"] == rounds


def test_loops_that_end_by_themselves_are_no_deadlock():
    """Counted polls, a wait in registers only, a counter in local memory, and a clock."""
    out = np.zeros(4, np.uint32)
    counted = (
        "L: ld.acquire.gpu.global.u32 %x, [%a]; add.u32 %n, %n, 1; setp.lt.u32 %p, %n, 9000; @%p bra L; "
        "st.global.u32 [%a+4], %n; ret;"
    )
    run(POLL + counted, [out], threads=1)
    local = (
        ".local .b32 c; st.local.u32 [c], 0; L: ld.local.u32 %n, [c]; add.u32 %n, %n, 1; st.local.u32 [c], %n; "
        "setp.lt.u32 %p, %n, 9000; @%p bra L; st.global.u32 [%a+8], %n; ret;"
    )
    run(POLL + local, [out], threads=1)
    clock = (
        "mov.u64 %c, %clock64; add.u64 %c, %c, 100000; L: ld.acquire.gpu.global.u32 %x, [%a]; { .reg .b64 %d; "
        "mov.u64 %d, %clock64; setp.lt.u64 %p, %d, %c; } @%p bra L; st.global.u32 [%a+12], 1; ret;"
    )
    run(POLL + clock, [out], threads=1)
    assert out.tolist() == [0, 9000, 9000, 1]
    searched = np.zeros(5000, np.uint32)
    searched[4990] = 6
    search = (
        "L: ld.volatile.global.u32 %x, [%a]; add.u64 %a, %a, 4; setp.eq.u32 %p, %x, 0; @%p bra L; "
        "st.global.u32 [%a], %x; ret;"
    )
    run(POLL + search, [searched], threads=1)
    assert searched[4991] == 6
    outer = (
        "M: mov.u32 %x, 0; add.u32 %n, %n, 1; L: add.u32 %x, %x, 1; setp.lt.u32 %q, %x, 7; @%q bra L; "
        "setp.lt.u32 %p, %n, 3000; @%p bra M; st.global.u32 [%a], %n; ret;"
    )
    run(POLL + outer, [out], threads=1)
    assert out[0] == 3000


@pytest.mark.parametrize("seed", [None, 0, 1])
def test_a_late_answer_is_no_deadlock(seed):
    """The first CTA waits for the last of more CTAs than run at once, which computes for long before it answers."""
    out = np.zeros(2, np.uint32)
    body = """mov.u32 %x, %ctaid.x; setp.eq.u32 %p, %x, 0; @%p bra L; setp.ne.u32 %p, %x, 299; @%p exit;
        C: add.u32 %n, %n, 1; setp.lt.u32 %p, %n, 5000; @%p bra C; st.release.gpu.global.u32 [%a], %n; ret;
        L: ld.acquire.gpu.global.u32 %x, [%a]; setp.eq.u32 %p, %x, 0; @%p bra L; st.global.u32 [%a+4], %x; ret;"""
    run(POLL + body, [out], threads=64, grid=300, seed=seed)
    assert out.tolist() == [5000, 5000]


ROUNDS = {
    "others each time": "L: and.b32 %x, %n, 12; cvt.u64.u32 %c, %x; add.u64 %c, %a, %c; ld.acquire.gpu.global.u32 %x, [%c]; "
    "add.u32 %n, %n, 4; setp.eq.u32 %p, %x, 0; @%p bra L; ret;",
    "to 2^31": "L: ld.acquire.gpu.global.u32 %x, [%a]; add.u32 %n, %n, 1; setp.eq.u32 %p, %x, 0; "
    "setp.lt.and.s32 %p, %n, 2147483647, %p; @%p bra L; ret;",
    "kept in memory": "L: ld.acquire.gpu.global.u32 %x, [%a]; add.u32 %n, %n, 1; st.global.u32 [%a+8], %n; "
    "setp.eq.u32 %p, %x, 0; @%p bra L; ret;",
    "kept in local memory": ".local .b32 c; st.local.u32 [c], 0; L: ld.acquire.gpu.global.u32 %x, [%a]; "
    "ld.local.u32 %n, [c]; add.u32 %n, %n, 1; st.local.u32 [c], %n; setp.eq.u32 %p, %x, 0; @%p bra L; ret;",
    "by one thread for all": "L: setp.ne.u32 %q, %t, 0; @%q bra N; ld.acquire.gpu.global.u32 %x, [%a]; "
    "st.shared.u32 [s], %x; N: bar.sync 0; ld.shared.u32 %x, [s]; add.u32 %n, %n, 1; bar.sync 0; setp.eq.u32 %p, %x, 0; "
    "setp.lt.and.s32 %p, %n, 2147483647, %p; @%p bra L; ret;",
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", [None, 3])
@pytest.mark.parametrize("rounds", ROUNDS)
def test_counting_rounds_is_no_progress(rounds, seed, monkeypatch):
    """Where no state comes again, as a counter decides something: nobody reads what had not been read."""
    monkeypatch.setattr(progress, "FIRST_WATCH", 500)
    monkeypatch.setattr(progress, "QUIET", 3000)
    with pytest.raises(
        EmulatorError, match=r"deadlock: kernel 'k' never ends: .* in 3000 steps .* waits for "
    ) as error:
        run(POLL + ROUNDS[rounds], [np.zeros(4, np.uint32)], threads=64, grid=2, seed=seed)
    assert error.value.line > 0


def test_what_is_new_is_progress(monkeypatch):
    """Beside a thread that polls: another computes, fills an array or prints for long."""
    monkeypatch.setattr(progress, "FIRST_WATCH", 500)
    monkeypatch.setattr(progress, "QUIET", 1000)
    wait = (
        "setp.ge.u32 %p, %t, 32; @%p bra C; L: ld.acquire.gpu.global.u32 %x, [%a]; add.u32 %n, %n, 1; "
        "setp.eq.u32 %p, %x, 0; setp.lt.and.s32 %p, %n, 2147483647, %p; @%p bra L; ret; C: "
    )
    end = "add.u32 %n, %n, 1; setp.lt.u32 %p, %n, 3000; @%p bra D; st.release.gpu.global.u32 [%a], 1; ret;"
    for work in (
        "D: ",
        "add.u64 %c, %a, 16; D: ld.relaxed.gpu.global.u32 %x, [%a+8]; st.global.u32 [%c], %n; add.u64 %c, %c, 4; ",
    ):
        out = np.zeros(4000, np.uint32)
        run(POLL + wait + work + end, [out], threads=64)
        assert out[0] == 1


def test_a_thread_that_may_leave_its_loop_is_not_stuck():
    """One warp waits in shared memory, is let go by another, computes for long, and lets that one go in its turn."""
    body = (
        POLL
        + """setp.ge.u32 %p, %t, 32; @%p bra C;
        L: ld.volatile.shared.u32 %x, [s]; setp.eq.u32 %p, %x, 0; @%p bra L;
        D: add.u32 %n, %n, 1; setp.lt.u32 %p, %n, 4000; @%p bra D; st.release.gpu.global.u32 [%a], 1; ret;
        C: add.u32 %n, %n, 1; setp.lt.u32 %p, %n, 700; @%p bra C; st.volatile.shared.u32 [s], 1;
        E: ld.acquire.gpu.global.u32 %x, [%a]; setp.eq.u32 %p, %x, 0; @%p bra E; st.global.u32 [%a+4], %x; ret;"""
    )
    body = body.replace("mov.u32 %n, 0;", "mov.u32 %n, 0; st.volatile.shared.u32 [s], 0; bar.sync 0;", 1)
    for seed in (None, 0, 1, 2):
        for count in (10, 300, 450, 700):
            out = np.zeros(4, np.uint32)
            run(body.replace("%n, 700", f"%n, {count}"), [out], threads=64, seed=seed)
            assert out[1] == 1


def test_trap_and_assert():
    with pytest.raises(
        EmulatorError, match=r"trap executed; CTA \(1, 0, 0\) thread \(0, 0, 0\); PTX line \d+, `@%p trap;`"
    ):
        run(
            ".reg .pred %p; .reg .b32 %c; mov.u32 %c, %ctaid.x; setp.eq.u32 %p, %c, 1; @%p trap; ret;",
            [],
            grid=3,
        )
    before = """.extern .func __assertfail (.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, .param .b64 e);
        .global .align 1 .b8 m[6] = {105, 32, 60, 32, 51, 0}; .global .align 1 .b8 f[4] = {97, 46, 99, 0};\n"""
    body = """.reg .pred %p; setp.ne.u32 %p, %t, 9; @%p bra OK; { .param .b64 a; .param .b64 b; .param .b32 c;
        .param .b64 d; .param .b64 e;
        mov.u64 %a, m; st.param.b64 [a], %a; mov.u64 %b, f; st.param.b64 [b], %b; st.param.b32 [c], 12; st.param.b64 [d], %b;
        st.param.b64 [e], 1; call.uni __assertfail, (a, b, c, d, e); } OK: ret;"""
    with pytest.raises(
        EmulatorError, match=r"a\.c:12: a\.c: Assertion `i < 3` failed; CTA \(0, 0, 0\) thread \(9, 0, 0\)"
    ):
        run(body, [], before=before)
    report = run(body, [], before=before, check=True, seed=0)
    assert [f.kind for f in report.findings] == ["assert"]


FORMATS = [
    ("%d|%5d|%-5d|%05d|%+d", [42, -7, 8, -9, 3], "42|   -7|8    |-0009|+3"),
    ("%u %x %X %#x %o", [2**32 - 1, 255, 255, 255, 8], "4294967295 ff FF 0xff 10"),
    ("%hd %hu %hhd", [70000, 70000, 200], "4464 4464 -56"),
    ("%c%c%%", [72, 105], "Hi%"), ("%*d|%-*d|", [6, 1, 4, 2], "     1|2   |"),
]  # fmt: skip


@pytest.mark.parametrize("text, args, want", FORMATS)
def test_printf_integers(text, args, want):
    assert printed(text, [("i", a) for a in args]) == want


def test_printf_wide_and_floating():
    assert printed("%lld %llu %lx", [("q", -(2**40)), ("q", -1), ("q", 255)]) == f"{-(2**40)} {2**64 - 1} ff"
    assert (
        printed(
            "%f %.2f %e %g %10.3f|%-10.1f|", [("d", v) for v in (1.5, 2.345, 12345.678, 1e-7, 3.14159, 2.5)]
        )
        == "1.500000 2.35 1.234568e+04 1e-07      3.142|2.5       |"
    )
    assert printed("%f %F %5.1f", [("d", np.inf), ("d", -np.inf), ("d", np.nan)]) == "inf -INF   nan"
    assert printed("%a", [("d", 1.5)]) == "0x1.8p+0"
    assert printed("%d %f %d", [("i", 1), ("d", 2.0), ("i", 3)]) == "1 2.000000 3"
    assert printed("plain text\n", []) == "plain text\n"


def printed(text, args):
    """What one thread's vprintf writes."""
    data = text.encode() + b"\0"
    layout, at, stores = [], 0, []
    for kind, value in args:
        size = 4 if kind == "i" else 8
        at = -(-at // size) * size
        raw = (
            np.array([value]).astype({"i": np.int64, "q": np.int64, "d": np.float64}[kind]).view(np.uint64)[0]
        )
        if kind == "i":
            stores.append(f"st.local.b32 [buf+{at}], {int(raw) & 0xFFFFFFFF};")
        else:
            stores.append(f"mov.b64 %b, {int(raw)}; st.local.b64 [buf+{at}], %b;")
        layout.append(at)
        at += size
    before = f""".extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);
        .global .align 1 .b8 fmt[{len(data)}] = {{{", ".join(map(str, data))}}};\n"""
    report = run(
        f""".local .align 8 .b8 buf[{max(at, 8)}]; {"".join(stores)} mov.u64 %a, fmt;
        cvta.global.u64 %a, %a; mov.u64 %b, buf;
        cvta.local.u64 %b, %b; {{ .param .b64 p; .param .b64 q; .param .b32 r; st.param.b64 [p], %a; st.param.b64 [q], %b;
        call.uni (r), vprintf, (p, q); ld.param.b32 %t, [r]; }} ret;""",
        [],
        threads=1,
        before=before,
    )
    assert len(report.printed) == 1
    return report.printed[0]


# syntax
def test_directives_comments_and_constants():
    out = np.zeros(9, np.uint64)
    launch(
        HEAD
        + """
        .file 1 "some file.cu"  // comment
        .section .debug_abbrev { .b8 1, 2, 3
          .b8 4 }
        /* block
           comment */
        .weak .global .align 8 .b8 grid[2][3] = {{1, 2, 3}, {4, 5}};
        .global .f32 floats[3] = {0f3F800000, 2.5, 0fC0400000};
        .extern .func ignored (.param .b32 x);
        .visible .entry k(
            .param .u64 .ptr .global .align 8 p0)
        .maxntid 32, 1, 1
        .language 7
        {
            .pragma "nounroll";
            .reg .b64 %rd<4>; .reg .v2 .b32 %v; .reg .f32 f;
            .loc 1 5 3
            ld.param.u64 %rd0, [p0];
            mov.u64 %rd1, 0x10 + 0b101 * 2 - (7 << 1) + 017;  st.global.u64 [%rd0], %rd1;
            mov.u64 %rd1, (5 > 3 ? 11 : 12);                  st.global.u64 [%rd0+8], %rd1;
            ld.global.u8 %rd1, [grid+4];                      st.global.u64 [%rd0+0x10], %rd1;
            ld.global.f32 f, [floats+8];
            mov.b32 %v.x, f; mov.b32 %v.y, 1;  mov.b64 %rd1, %v; st.global.u64 [%rd0+24], %rd1;
            mov.u64 %rd1, WARP_SZ;                            st.global.u64 [%rd0+32], %rd1;
            mov.u64 %rd2, floats[2]; mov.u64 %rd3, floats; sub.s64 %rd2, %rd2, %rd3; st.global.u64 [%rd0+64], %rd2;
            mov.s64 %rd1, -3;                                 st.global.u64 [%rd0+40], %rd1;
            st.global.v2.u64 [%rd0+48], {1, ~0};
            { .reg .b64 %rd1; mov.u64 %rd1, 9; }
            ret;
        }""",
        "k",
        1,
        1,
        [out],
    )
    assert out.tolist() == [16 + 10 - 14 + 15, 11, 5, 0x1_C0400000, 32, 2**64 - 3, 1, 2**64 - 1, 8]


def test_unknown_instruction_is_refused_with_its_line():
    text = entry(
        ".reg .pred %p; .reg .b32 %t; mov.u32 %t, %tid.x; setp.gt.u32 %p, %t, 99; "
        "@!%p bra OK;\n frobnicate.b32 %t, 1;\n OK: ret;"
    )
    launch(text, "k", 1, 32, [])
    with pytest.raises(
        EmulatorError, match=r"PTX line 5: .* not supported by the emulator: `frobnicate\.b32 %t, 1;`"
    ):
        launch(text, "k", 1, 128, [])


@pytest.mark.parametrize(
    "body, message",
    [
        ("add.u32 %t, %t, ;", "unexpected operand"),
        ("bra nowhere;", "no label nowhere"),
        ("mov.u32 %t, $;", "unknown name"),
        ("add.u32 %t, %t, 1", "not closed|expected"),
    ],
)
def test_syntax_errors_name_the_line(body, message):
    with pytest.raises(EmulatorError, match=f"PTX line 4: .*({message})"):
        run(body + " ret;" if body[-1] == ";" else body, [])
