"""check=True: one planted bug of each kind is found, and the same kernel without the bug is clean."""

import re

import numpy as np
import pytest
from emulator_kit import entry

from tileiras.run.emulator import EmulatorError, launch

HEAD = """.reg .b32 %t, %x, %y, %s, %n, %c; .reg .b64 %a, %b, %o; .reg .pred %p, %q; .shared .align 16 .b8 s[1024];
    mov.u32 %t, %tid.x; mov.u32 %c, %ctaid.x; mov.u32 %s, s; mad.lo.u32 %s, %t, 4, %s; mad.lo.u32 %n, %c, 64, %t;
    ld.param.u64 %a, [p0]; mad.wide.u32 %o, %n, 4, %a;"""
SEEDS = range(4)


def findings(body, *, grid=1, threads=64, seeds=SEEDS, size=4096, **options):
    """Kinds of findings over several orders."""
    kinds, texts = set(), []
    for seed in seeds:
        out = np.zeros(size, np.uint32)
        report = launch(
            entry(HEAD + body, ".param .u64 p0"), "k", grid, threads, [out], check=True, seed=seed, **options
        )
        kinds |= {f.kind for f in report.findings}
        texts += [f.text for f in report.findings]
    return kinds, texts


SHARED = "st.shared.u32 [%s], %t; {} xor.b32 %y, %t, {}; mov.u32 %x, s; mad.lo.u32 %x, %y, 4, %x; ld.shared.u32 %y, [%x]; ret;"


@pytest.mark.parametrize("partner", [1, 32])
def test_shared_race(partner):
    kinds, texts = findings(SHARED.format("", partner))
    assert "shared-memory race" in kinds
    assert any(("PTX line" in t and "st.shared" in t) or "ld.shared" in t for t in texts)
    barrier = "bar.sync 0;" if partner == 32 else "bar.warp.sync -1;"
    assert findings(SHARED.format(barrier, partner)) == (set(), [])


def test_warp_barrier_does_not_order_other_warps():
    kinds, _ = findings(SHARED.format("bar.warp.sync -1;", 32))
    assert "shared-memory race" in kinds


LOOP = """mov.u32 %n, 0; mov.u32 %y, 0; st.shared.u32 [s+512], %y;
    L: add.u32 %x, %t, %n; st.shared.u32 [%s], %x; bar.sync 0; xor.b32 %x, %t, 32; mad.lo.u32 %x, %x, 4, 0; mov.u32 %c, s;
    add.u32 %x, %x, %c; ld.shared.u32 %x, [%x]; add.u32 %y, %y, %x; {} add.u32 %n, %n, 1; setp.lt.u32 %p, %n, 3;
        @%p bra L; ret;"""


def test_write_after_read_in_a_loop():
    one_writer = LOOP.replace("st.shared.u32 [s+512], %y;", "")
    assert "shared-memory race" in findings(one_writer.format(""))[0]
    assert findings(one_writer.format("bar.sync 0;")) == (set(), [])


def test_write_write_race_and_broadcast_read():
    assert "shared-memory race" in findings("st.shared.u32 [s], %t; ret;")[0]
    assert (
        findings(
            "setp.ne.u32 %p, %t, 0; @!%p st.shared.u32 [s], %t; bar.sync 0; ld.shared.u32 %x, [s]; ret;"
        )[0]
        == set()
    )


def test_neighbouring_bytes_do_not_race():
    body = "mov.u32 %x, s; add.u32 %x, %x, %t; st.shared.u8 [%x], %t; mad.lo.u32 %y, %t, 2, %x; add.u32 %y, %y, %t; ret;"
    assert findings(body) == (set(), [])
    assert findings("st.global.u32 [%o], %t; ret;", grid=8) == (set(), [])


@pytest.mark.parametrize("seed", [None, *SEEDS])
def test_stores_of_several_warps_to_one_place(seed):
    """Also where all of them run in one step, and although they write the same."""
    seeds = [seed]
    assert findings("st.global.u32 [%a], 7; ret;", grid=2, threads=32, seeds=seeds)[0] == {
        "global-memory race"
    }
    assert findings("st.global.u32 [%a], 7; ret;", threads=64, seeds=seeds)[0] == {"global-memory race"}
    assert not findings("st.global.u32 [%a], 7; ret;", threads=32, seeds=seeds)[0]
    assert findings("mov.u32 %s, s; st.shared.u32 [%s], 7; ret;", seeds=seeds)[0] == {"shared-memory race"}
    assert not findings("st.relaxed.gpu.global.u32 [%a], 7; ret;", grid=2, seeds=seeds)[0]


def test_global_races():
    between_warps = "st.global.u32 [%o], %t; {} xor.b32 %y, %n, 32; mad.wide.u32 %b, %y, 4, %a; ld.global.u32 %y, [%b]; ret;"
    assert "global-memory race" in findings(between_warps.format(""))[0]
    assert findings(between_warps.format("bar.sync 0;")) == (set(), [])
    between_ctas = (
        "st.global.u32 [%o], %t; bar.sync 0; xor.b32 %y, %n, 64; mad.wide.u32 %b, %y, 4, %a; "
        "ld.global.u32 %y, [%b]; ret;"
    )
    kinds, texts = findings(between_ctas, grid=2)
    assert kinds == {"global-memory race"}
    assert "another CTA" in texts[0] and "'p0'" in texts[0]
    assert "global-memory race" in findings("st.global.u32 [%a], %t; ret;", grid=2, threads=1)[0]


def test_atomics_do_not_race_with_each_other_but_with_plain_accesses():
    assert findings("atom.global.add.u32 %x, [%a], 1; red.global.max.u32 [%a+4], %t; ret;", grid=4) == (
        set(),
        [],
    )
    assert findings("st.shared.u32 [%s], 0; bar.sync 0; atom.shared.add.u32 %x, [s], 1; ret;") == (set(), [])
    assert (
        "global-memory race"
        in findings("atom.global.add.u32 %x, [%a], 1; ld.global.u32 %y, [%a]; ret;", grid=2)[0]
    )


MESSAGE = """setp.eq.u32 %p, %c, 1; @%p bra READER; st.global.u32 [%o+256], %t; bar.sync 0; setp.ne.u32 %q, %t, 0; @%q exit;
    {} [%a], 1; exit;
    READER: setp.ne.u32 %q, %t, 0; @%q bra WAIT; SPIN: {} %x, [%a]; setp.eq.u32 %q, %x, 0; @%q bra SPIN;
    WAIT: {} bar.sync 0; mad.wide.u32 %b, %t, 4, %a; ld.global.u32 %y, [%b+256]; add.u32 %y, %y, 7;
        st.global.u32 [%b+1024], %y; ret;"""


@pytest.mark.parametrize(
    "store, load, fence",
    [
        ("st.release.gpu.global.u32", "ld.acquire.gpu.global.u32", ""),
        ("fence.acq_rel.gpu; st.relaxed.gpu.global.u32", "ld.relaxed.gpu.global.u32", "fence.acq_rel.gpu;"),
        ("membar.gl; st.volatile.global.u32", "ld.volatile.global.u32", "membar.gl;"),
    ],
)
def test_messages_between_ctas(store, load, fence):
    body = MESSAGE.format(store, load, fence)
    assert findings(body, grid=2) == (set(), [])
    weak = MESSAGE.format(
        store.replace("release", "relaxed").split("; ")[-1], load.replace("acquire", "relaxed"), ""
    )
    assert "global-memory race" in findings(weak, grid=2)[0]


RIGHT = ("st.release.gpu.global.u32", "ld.acquire.gpu.global.u32", "")
FENCED = ("fence.acq_rel.gpu; st.relaxed.gpu.global.u32", "ld.relaxed.gpu.global.u32", "fence.acq_rel.gpu;")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("right, part", [(RIGHT, 0), (RIGHT, 1), (FENCED, 0), (FENCED, 2)])
@pytest.mark.parametrize("scope", ["cta", "cluster"])
def test_a_scope_that_is_too_small_hands_nothing_on(right, part, scope):
    small = list(right)
    small[part] = small[part].replace(".gpu", f".{scope}")
    kinds, _ = findings(MESSAGE.format(*small), grid=2, seeds=range(20))
    assert kinds == {"global-memory race"}
    assert findings(MESSAGE.format(*small), grid=2, cluster=2)[0] == (
        {"global-memory race"} if scope == "cta" else set()
    )


@pytest.mark.parametrize(
    "small", ["atom.cta.global.add.u32 %x, [%a], 1;", "st.relaxed.cta.global.u32 [%a], 1;"]
)
def test_strong_accesses_in_a_scope_that_is_too_small_race(small):
    for seed in range(10):
        kinds, texts = findings(small + "ret;", grid=2, threads=32, seeds=[seed])
        assert kinds == {"global-memory race"} and "the scope of one is too small" in texts[0]
    assert findings(small + "ret;", grid=1, threads=64) == (set(), [])
    assert findings(small.replace(".cta", ".gpu") + "ret;", grid=4) == (set(), [])


def test_a_release_covers_only_what_its_own_warp_knows():
    """Also between CTAs: without the barrier, the other warp's stores may come after the flag."""
    body = MESSAGE.format(*RIGHT)
    early = body.replace("st.global.u32 [%o+256], %t; bar.sync 0;", "st.global.u32 [%o+256], %t;")
    for seed in range(20):
        assert findings(early, grid=2, seeds=[seed])[0] == {"global-memory race"}
    every = body.replace(
        "bar.sync 0; setp.ne.u32 %q, %t, 0; @%q exit;",
        "membar.gl; bar.sync 0; setp.ne.u32 %q, %t, 0; @%q exit;",
    )
    assert findings(every.replace("st.release", "st.relaxed"), grid=2, seeds=range(8)) == (set(), [])


GRID_BARRIER = """st.global.u32 [%o+64], %n; bar.sync 0; setp.ne.u32 %p, %t, 0; @%p bra HERE; {} mov.u32 %y, %nctaid.x;
    WAIT: ld.acquire.gpu.global.u32 %x, [%a]; setp.lt.u32 %q, %x, %y; @%q bra WAIT;
    HERE: bar.sync 0; mov.u32 %y, %nctaid.x; add.u32 %x, %c, 1; rem.u32 %x, %x, %y; mad.lo.u32 %x, %x, 64, %t;
    mad.wide.u32 %b, %x, 4, %a; ld.global.u32 %x, [%b+64]; ret;"""


def test_a_barrier_over_the_grid():
    right = GRID_BARRIER.format("red.release.gpu.global.add.u32 [%a], 1;")
    assert findings(right, grid=12, seeds=range(6)) == (set(), [])
    for flaw in ("red.relaxed.gpu.global.add.u32 [%a], 1;", "red.release.cta.global.add.u32 [%a], 1;"):
        assert findings(GRID_BARRIER.format(flaw), grid=12)[0] == {"global-memory race"}


def test_a_barrier_hands_on_what_one_warp_has_acquired():
    """Also where the other warps arrive at it one by one."""
    body = MESSAGE.format("st.release.gpu.global.u32", "ld.acquire.gpu.global.u32", "")
    assert findings(body, grid=2, threads=64, seeds=range(24)) == (set(), [])


def test_uninitialised_shared_memory():
    kinds, texts = findings(
        "setp.lt.u32 %p, %t, 60; @%p st.shared.u32 [%s], %t; bar.sync 0; ld.shared.u32 %x, [%s]; ret;"
    )
    assert kinds == {"uninitialised shared memory"}
    assert "byte 240" in texts[0] and "ld.shared.u32 %x, [%s]" in texts[0]
    kinds, _ = findings("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%x}, [s]; ret;", threads=32)
    assert kinds == {"uninitialised shared memory"}


def test_misaligned_and_out_of_bounds():
    kinds, texts = findings("add.u32 %s, %s, 2; st.shared.u32 [%s], %t; ret;", seeds=[0])
    assert kinds == {"misaligned"} and "thread (0, 0, 0)" in texts[0]
    with pytest.raises(EmulatorError, match="out of bounds") as error:
        findings("st.global.u32 [%o+16384], %t; ret;", seeds=[0])
    assert error.value.report.findings[0].kind == "out of bounds"


def test_barrier_divergence():
    assert findings("setp.lt.u32 %p, %t, 16; @%p bra A; bar.sync 0; bra B; A: bar.sync 0; B: ret;")[0] == {
        "barrier divergence"
    }
    kinds, texts = findings("setp.lt.u32 %p, %t, 40; @%p exit; bar.sync 0; ret;")
    assert kinds == {"barrier divergence"} and "40 of 64 threads exited" in texts[0]
    kinds, texts = findings("setp.lt.u32 %p, %t, 32; @%p bra A; bar.sync 1; A: bar.sync 0; ret;")
    assert kinds == {"barrier divergence"} and "no thread can go on" in texts[-1]
    # whole warps may meet at different bar instructions
    assert findings("setp.lt.u32 %p, %t, 32; @%p bra A; bar.sync 0; bra B; A: bar.sync 0; B: ret;") == (
        set(),
        [],
    )
    # one half of a warp waits at a barrier that does not require convergence
    assert findings(
        "setp.lt.u32 %p, %t, 16; @%p bra A; barrier.sync 0; bra B; A: barrier.sync 0; B: ret;"
    ) == (set(), [])


COPY = """mad.wide.u32 %b, %t, 4, %a; cp.async.ca.shared.global [%s], [%b], 4; cp.async.commit_group; {} xor.b32 %y, %t, 32;
    mov.u32 %x, s; mad.lo.u32 %x, %y, 4, %x; ld.shared.u32 %y, [%x]; ret;"""


def test_copies_that_nobody_waited_for():
    kinds, texts = findings(COPY.format("bar.sync 0;"))
    assert "shared-memory race" in kinds and any(
        "cp.async" in t and "may still be writing" in t for t in texts
    )
    assert "shared-memory race" in findings(COPY.format("cp.async.wait_group 0;"))[0]
    assert findings(COPY.format("cp.async.wait_group 0; bar.sync 0;")) == (set(), [])


SOURCE = """mad.wide.u32 %b, %t, 4, %a; cp.async.ca.shared.global [%s], [%b], 4; cp.async.commit_group; {} {}
    cp.async.wait_group 0; bar.sync 0; ld.shared.u32 %x, [%s]; st.global.u32 [%b+1024], %x; ret;"""
SOURCE_STORES = {
    "own": "st.global.u32 [%b], 7;",
    "other warp": "xor.b32 %x, %t, 32; mad.wide.u32 %o, %x, 4, %a; st.global.u32 [%o], 7;",
    "half": "add.s64 %o, %b, 2; st.global.u16 [%o], 7;",
    "atomic": "red.global.add.u32 [%b], 7;",
}


@pytest.mark.parametrize("store", SOURCE_STORES)
def test_the_source_of_a_copy_in_flight_may_not_be_stored_to(store):
    for seed in range(10):
        for barrier in ("", "bar.sync 0;"):  # the barrier orders the issue, not the copy
            kinds, texts = findings(SOURCE.format(barrier, SOURCE_STORES[store]), seeds=[seed])
            assert "global-memory race" in kinds
        assert any(
            "the cp.async of PTX line" in t and "may still be reading it" in t and "group 0" in t
            for t in texts
        )
    after = SOURCE_STORES[store]
    right = SOURCE.format("cp.async.wait_group 0; bar.sync 0;", after)
    assert findings(right, seeds=range(10)) == (set(), [])


@pytest.mark.parametrize(
    "touch", ["ld.shared.u32 %x, [%s];", "st.shared.u32 [%s], 1;", "red.shared.add.u32 [%s], 1;"]
)
def test_the_destination_of_a_copy_in_flight_may_not_be_touched(touch):
    for seed in range(10):
        kinds, texts = findings("st.shared.u32 [%s], 0; bar.sync 0;" + SOURCE.format("", touch), seeds=[seed])
        assert kinds == {"shared-memory race"} and "may still be writing it" in texts[0]


def test_partial_copies_read_what_they_read():
    body = """mad.wide.u32 %b, %t, 4, %a; and.b32 %x, %t, 1; mul.lo.u32 %x, %x, 4;
        cp.async.ca.shared.global [%s], [%b], 4, %x; cp.async.commit_group; setp.eq.u32 %p, %x, {}; @%p st.global.u32 [%b], 7;
        cp.async.wait_group 0; ret;"""
    assert findings(body.format(0)) == (set(), [])
    assert findings(body.format(4))[0] == {"global-memory race"}


@pytest.mark.parametrize("check", [False, True])
def test_copies_land_at_any_moment(check):
    """Old and new bytes are both seen, at both ends of a copy, by seed; without one only what comes last."""
    body = """st.shared.u32 [%s], 5; bar.sync 0; mad.wide.u32 %b, %t, 4, %a; cp.async.ca.shared.global [%s], [%b], 4;
        ld.shared.u32 %x, [%s]; bar.sync 0; ld.shared.u32 %y, [%s]; st.global.u32 [%b], 9; bar.sync 0;
        cp.async.wait_all; bar.sync 0; ld.shared.u32 %c, [%s]; st.global.u32 [%b+256], %x; st.global.u32 [%b+512], %y;
        st.global.u32 [%b+768], %c; ret;"""
    seen = []
    for seed in [None, *range(30)]:
        out = np.full(256, 3, np.uint32)
        launch(
            entry(HEAD + body, ".param .u64 p0"),
            "k",
            1,
            64,
            [out],
            check=check and seed is not None,
            seed=seed,
        )
        seen.append({tuple(v) for v in out.reshape(4, 64)[1:].T.tolist()})
    assert seen[0] == {(5, 5, 9)}
    assert set().union(*seen) == {(5, 5, 9), (5, 5, 3), (5, 3, 3), (3, 3, 3)}


MBARRIER = """.shared .align 8 .b64 m; .reg .b64 %st; mov.u32 %y, m; {init} {sync}
    mad.wide.u32 %b, %t, 4, %a; cp.async.ca.shared.global [%s], [%b], 4;
    cp.async.mbarrier.arrive{noinc}.shared.b64 [%y]; {arrive}
    W: mbarrier.try_wait.parity.shared.b64 %p, [%y], {parity}; @!%p bra W; {again}
    xor.b32 %x, %t, 32; mov.u32 %s, s; mad.lo.u32 %x, %x, 4, %s; ld.shared.u32 %y, [%x]; st.global.u32 [%b+1024], %y; ret;"""
PARTS = {
    "init": "setp.ne.u32 %p, %t, 0; @!%p mbarrier.init.shared.b64 [%y], 64;", "sync": "bar.sync 0;", "noinc": ".noinc",
    "arrive": "", "parity": 0, "again": "",
}  # fmt: skip
COUNTED = {"noinc": "", "arrive": "mbarrier.arrive.shared.b64 %st, [%y];"}
# a thread may wait for its own copies before their arrival is made
WAITED = {"arrive": "cp.async.wait_all;"}


@pytest.mark.parametrize("more", [{}, COUNTED, WAITED])
def test_copies_that_arrive_on_an_mbarrier(more):
    for seed in range(10):
        out = np.arange(512, dtype=np.uint32)
        text = entry(HEAD + MBARRIER.format(**{**PARTS, **more}), ".param .u64 p0")
        report = launch(text, "k", 1, 64, [out], check=True, seed=seed)
        assert not report.findings and (out[256:320] == np.arange(64) ^ 32).all()
        out = np.arange(512, dtype=np.uint32)
        launch(text, "k", 1, 64, [out], seed=None if seed == 0 else seed)
        assert (out[256:320] == np.arange(64) ^ 32).all()


FLAWS = {
    "never initialised": ({"init": ""}, "never initialised"),
    "initialised late": (
        {"sync": ""},
        "never initialised|not ordered after the write|nothing orders behind its init",
    ),
    "wrong phase": ({"parity": 1}, "may still be writing it|copy engine|deadlock.*try_wait"),
    "too many arrivals": (
        {"arrive": "mbarrier.arrive.shared.b64 %st, [%y], 65;"},
        "more arrivals than the 64 expected .*phase 0",
    ),
    "invalidated": ({"sync": "@!%p mbarrier.inval.shared.b64 [%y]; bar.sync 0;"}, "was invalidated"),
    "next phase": (
        {"again": "V: mbarrier.try_wait.parity.shared.b64 %p, [%y], 1; @!%p bra V;"},
        "deadlock.*try_wait",
    ),
}


@pytest.mark.parametrize("flaw", FLAWS)
def test_misuse_of_mbarriers_is_named(flaw):
    more, want = FLAWS[flaw]
    found = 0
    for seed in range(5):
        _, texts = findings(MBARRIER.format(**{**PARTS, **more}), seeds=[seed], size=2048)
        found += any(re.search(want, t) and "PTX line" in t for t in texts)
    assert found == 5


def test_a_race_names_the_last_wait():
    body = MBARRIER.format(**{**PARTS, "again": "st.shared.u32 [%s], 1;"})
    _, texts = findings(body, size=2048)
    assert any(
        "its last wait at PTX line" in t and "phase 0 of the mbarrier at shared offset 1024" in t
        for t in texts
    )


def test_orders_differ_by_seed_and_repeat():
    """A kernel whose result depends on the order of CTAs shows it; the same seed gives the same result."""
    body = (
        "setp.ne.u32 %p, %t, 0; @%p exit; atom.global.exch.b32 %x, [%a], %c; mad.wide.u32 %b, %c, 4, %a; "
        "st.global.u32 [%b+4], %x; ret;"
    )
    results = []
    for seed, check in ((0, True), (0, True), (1, True), (2, False), (3, False)):
        out = np.zeros(100, np.uint32)
        launch(entry(HEAD + body, ".param .u64 p0"), "k", 64, 64, [out], check=check, seed=seed)
        results.append(out.tolist())
    assert results[0] == results[1]
    assert len({tuple(r) for r in results}) > 2


def test_no_warp_is_lost_at_an_instruction_that_waits():
    """Warps that come later meet those of which some lanes are still elsewhere."""
    body = """setp.ne.u32 %p, %t, 0; @%p bra JOIN; mov.u32 %x, 5; add.u32 %x, %x, %t; st.shared.u32 [%s], %x;
        JOIN: shfl.sync.idx.b32 %y, %t, 1, 31, 0xffffffff; st.global.u32 [%o], %y; ret;"""
    for seed in range(12):
        out = np.zeros(256, np.uint32)
        launch(entry(HEAD + body.replace("%n", "%t"), ".param .u64 p0"), "k", 1, 256, [out], seed=seed)
        assert (out == np.arange(256) // 32 * 32 + 1).all()
