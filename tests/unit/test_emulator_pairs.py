"""What orders the CTAs of a cluster and what pairs of CTAs do together, on hand-written PTX: rules of the ISA kept and broken."""

import numpy as np
import pytest
from emulator_kit import entry

from tileiras.run.emulator import EmulatorError, launch, tensor_map

REGS = """.reg .b32 %r, %t, %w, %x, %y, %b, %ta; .reg .b64 %o, %m; .reg .pred %p, %q, %z; .reg .b16 %k;
mov.u32 %r, %cluster_ctarank; mov.u32 %t, %tid.x; setp.eq.u32 %p, %t, 0; setp.eq.u32 %z, %r, 0; """
SYNC = "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned; "
RELAXED = "barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.acquire.aligned; "


def texts(body, seeds=range(20), params="", values=(), before="", threads=32, cluster=2, **more):
    """The findings of each seed, as texts."""
    text = entry(REGS + body, params, before=before)
    return [
        [
            f.text
            for f in launch(
                text, "k", cluster, threads, list(values), cluster=cluster, check=True, seed=s, **more
            ).findings
        ]
        for s in seeds
    ]


def found(all_texts, pattern):
    return sum(any(pattern in t for t in texts) for texts in all_texts)


# relaxed arrivals
WORD = ".shared .align 16 .b32 word[4]; .shared .b64 bar; "
STORE = (
    "mov.u32 %x, word; mapa.shared::cluster.u32 %y, %x, %w; xor.b32 %w, %r, 1; @%p st.shared.u32 [%x], %r; "
)
TAKE = "mapa.shared::cluster.u32 %y, %x, %w; @%p ld.shared::cluster.u32 %b, [%y]; " + SYNC + "ret;"


@pytest.mark.parametrize("between, good", [
    (SYNC, True), (RELAXED, False), ("fence.acq_rel.cluster; " + RELAXED, True), ("fence.sc.gpu; " + RELAXED, True),
    ("fence.acq_rel.cta; " + RELAXED, False), ("fence.mbarrier_init.release.cluster; " + RELAXED, False),
])  # fmt: skip
def test_a_relaxed_arrival_at_a_clusters_barrier_orders_what_a_fence_does(between, good):
    hits = found(texts(STORE + between + TAKE, before=WORD), "is not ordered after the write")
    assert hits == 0 if good else hits >= 18


INIT = "mov.u32 %x, bar; xor.b32 %w, %r, 1; mapa.shared::cluster.u32 %y, %x, %w; @%p mbarrier.init.shared.b64 [%x], 1; "
ARRIVE = "@%p mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%y]; " + SYNC + "ret;"


@pytest.mark.parametrize("between, good", [
    ("fence.mbarrier_init.release.cluster; " + RELAXED, True), ("fence.acq_rel.cluster; " + RELAXED, True), (RELAXED, False),
    (SYNC, True),
])  # fmt: skip
def test_initialisations_are_told_by_their_own_fence(between, good):
    all_texts = texts(INIT + between + ARRIVE, before=WORD)
    hits = found(all_texts, "nothing orders behind its initialisation")
    assert hits == 0 and not any(all_texts) if good else hits >= 18


def test_initialisations_that_a_fence_tells_of_are_still_written_behind():
    """The memory of an mbarrier that other warps may still use is not stored to."""
    body = (
        INIT
        + "fence.mbarrier_init.release.cluster; setp.eq.u32 %q, %t, 32; @%q st.shared.u32 [%x], %r; "
        + SYNC
        + "ret;"
    )
    assert (
        found(texts(body, before=WORD, threads=64), "nothing orders this behind the fence.mbarrier_init") >= 8
    )


HANDED = """mov.u32 %x, bar; mov.u32 %y, word; @%p mbarrier.init.shared.b64 [%x], 1; bar.sync 0; setp.ge.u32 %q, %t, 32;
@%q bra TAKE; @%p st.shared.u32 [%y], 7; {0} @%p mbarrier.arrive.{1}.cta.shared.b64 _, [%x]; bra DONE;
TAKE: mbarrier.try_wait.parity.{2}.cta.shared.b64 %q, [%x], 0; @!%q bra TAKE; {3} ld.shared.u32 %b, [%y]; DONE: ret;"""
FENCE = "fence.acq_rel.cta;"


@pytest.mark.parametrize("parts, good", [
    (("", "release", "acquire", ""), True), (("", "relaxed", "acquire", ""), False), ((FENCE, "relaxed", "acquire", ""), True),
    (("", "release", "relaxed", ""), False), (("", "release", "relaxed", FENCE), True),
    ((FENCE, "relaxed", "relaxed", FENCE), True),
])  # fmt: skip
def test_relaxed_arrivals_and_waits_at_mbarriers(parts, good):
    all_texts = texts(HANDED.format(*parts), before=WORD, threads=64)
    hits = found(all_texts, "is not ordered after the write")
    assert not any(all_texts) if good else hits >= 18


# st.async
ASYNC = """mov.u32 %x, word; mov.u32 %y, bar; @%p mbarrier.init.shared.b64 [%y], 1; {sync} xor.b32 %w, %r, 1;
@%p mbarrier.arrive.expect_tx.shared.b64 _, [%y], 16; mapa.shared::cluster.u32 %b, %x, %w; mapa.shared::cluster.u32 %w, %y, {to};
@%p st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.u32 [%b], {{%t, %r, %t, %r}}, [%w];
AGAIN: {wait} {fence} ld.param.u64 %o, [p0]; mad.wide.u32 %o, %r, 16, %o; {use} {end} ret;"""
WAIT = "mbarrier.try_wait.parity.shared.b64 %q, [%y], 0; @!%q bra AGAIN; "
COPY = """@%p cp.async.bulk.global.shared::cta.bulk_group [%o], [%x], 16; cp.async.bulk.commit_group;
cp.async.bulk.wait_group 0; """
LOAD = "@%p ld.shared.u32 %b, [%x+4]; @%p st.global.u32 [%o+4], %b; "
PROXY = "fence.proxy.async.shared::cta; "


def stored(cluster=2, seeds=range(20), **parts):
    parts = {"sync": SYNC, "to": "%w", "wait": WAIT, "fence": PROXY, "use": COPY, "end": SYNC} | parts
    out = np.zeros((2, 4), np.uint32)
    got = texts(ASYNC.format(**parts), seeds, ".param .u64 p0", [out], WORD, cluster=cluster)
    return got, out


@pytest.mark.parametrize("use, fence", [(COPY, PROXY), (LOAD, ""), (LOAD, PROXY)])
def test_st_async_is_waited_for_and_crosses_proxies_behind_a_fence(use, fence):
    got, out = stored(use=use, fence=fence)
    assert not any(got) and (out[:, 1] == [1, 0]).all()


def test_st_async_that_is_not_waited_for_or_not_fenced():
    assert found(stored(use=LOAD, wait="")[0], "while the st.async of PTX line") >= 18
    assert found(stored(use=COPY, fence="")[0], "without fence.proxy.async in between") == 20


def test_st_async_that_the_isa_forbids():
    assert found(stored(to="%r")[0], "the destination lies in CTA") == 20  # its mbarrier is the sender's own
    assert found(stored(cluster=1, to="%r", seeds=[0])[0], "needs a cluster of more than one CTA") == 1


def test_st_async_without_an_mbarrier_is_a_release():
    body = """ld.param.u64 %o, [p0]; setp.eq.u32 %q, %r, 1; @%q bra TAKE; @%p st.global.u32 [%o], 5;
    @%p st.async.release.gpu.global.u32 [%o+4], 1; bra DONE; TAKE: ld.acquire.gpu.global.u32 %x, [%o+4]; setp.eq.u32 %q, %x, 0;
    @%q bra TAKE; ld.global.u32 %y, [%o]; @%p st.global.u32 [%o+8], %y; DONE: ret;"""
    out = np.zeros(3, np.uint32)
    for seed in range(5):
        out[:] = 0
        assert not any(texts(body, [seed], ".param .u64 p0", [out])) and (out == [5, 1, 5]).all()


# stores to another CTA that an asynchronous instruction reads there
FAR = """mov.u32 %x, word; xor.b32 %w, %r, 1; mapa.shared::cluster.u32 %y, %x, %w; {start}
@%p st.shared::cluster.v4.u32 [%y], {{%t, %r, %t, %r}}; {sender} {sync}
{receiver} ld.param.u64 %o, [p0]; mad.wide.u32 %o, %r, 16, %o; {copy} {sync} ret;"""


@pytest.mark.parametrize(
    "sender, receiver", [(PROXY, ""), ("", PROXY), ("fence.proxy.async; ", ""), ("", "")]
)
def test_stores_to_the_peer_cross_proxies_behind_a_fence_of_either(sender, receiver):
    out = np.zeros((2, 4), np.uint32)
    body = FAR.format(sender=sender, receiver=receiver, sync=SYNC, copy=COPY, start=SYNC)
    hits = found(
        texts(body, params=".param .u64 p0", values=[out], before=WORD),
        "without fence.proxy.async in between",
    )
    assert hits == (0 if sender or receiver else 20) and (out[:, 1] == [1, 0]).all()


# copies to CTAs of the cluster
BULK = """mov.u32 %x, word; mov.u32 %y, bar; @%p mbarrier.init.shared.b64 [%y], 1; {sync} ld.param.u64 %o, [p0];
mov.u16 %k, {mask}; @%p mbarrier.{expect} _, [%y]{bytes}; mapa.shared::cluster.u32 %w, %y, {to}; and.pred %q, %p, %z;
@%q cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes{form} [%x], [%o], 16, [%w]{operand}; {then} {sync} ret;"""
WAITED = "AGAIN: mbarrier.try_wait.parity.shared.b64 %q, [%y], 0; @!%q bra AGAIN; "
EXPECT = {"expect": "arrive.expect_tx.shared.b64", "bytes": ", 16"}
MULTICAST = {"form": ".multicast::cluster", "operand": ", %k"}


def copied(seeds=range(20), **parts):
    parts = {"sync": SYNC, "mask": 3, "to": "%r", "then": WAITED, "form": "", "operand": ""} | EXPECT | parts
    return texts(BULK.format(**parts), seeds, ".param .u64 p0", [np.arange(4, dtype=np.uint32)], WORD)


def test_multicasts_need_mbarriers_that_expect_them():
    assert not any(copied(**MULTICAST))
    # the receivers arrive without expecting: their phases end early, and the bytes are left over
    plain = {"expect": "arrive.shared.b64", "bytes": ""}
    told = ("has 16 bytes more than were expected", "got 16 bytes that nobody expected", "may end before")
    assert all(any(what in t for t in one for what in told) for one in copied(**MULTICAST, **plain))
    # only some are sent to: the others expect bytes that never come
    assert found(copied(**MULTICAST | {"mask": 1}), "lacks 0 arrivals and 16 bytes that no copy brings") == 20
    assert found(copied(**MULTICAST | {"mask": 1, "then": ""}), "expects 16 bytes that no copy brings") >= 18


def test_masks_and_mbarriers_of_copies_that_the_isa_forbids():
    assert found(copied(**MULTICAST | {"mask": 7}, seeds=[0]), "mask 0x7 names CTA 2 of a cluster of 2") == 1
    assert found(copied(to="1", seeds=[0]), "the mbarrier that tells of it in CTA 1") == 1


# pairs
PAIR = """.shared .b32 slot; """
ALLOC = """mov.u32 %x, slot; tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%x], {0}; bar.warp.sync -1;
ld.shared.u32 %ta, [%x]; bar.warp.sync -1; """
FREE = "tcgen05.dealloc.cta_group::2.sync.aligned.b32 %ta, {0}; "


def pair(body, seeds=range(6), **more):
    return texts(body, seeds, before=PAIR, **more)


def test_pairs_allocate_and_free_together():
    good = ALLOC.format(64) + SYNC + FREE.format(64) + "ret;"
    assert not any(pair(good))
    assert (
        found(
            pair("@%z bra DONE; " + ALLOC.format(64) + FREE.format(64) + "DONE: ret;"),
            "for a warp of the peer CTA",
        )
        == 6
    )
    uneven = ALLOC.format(64) + "@%z bra DONE; " + FREE.format(64) + "DONE: ret;"
    assert found(pair(uneven), "for a warp of the peer CTA") == 6
    different = ALLOC.format("%y").replace("mov.u32", "selp.u32 %y, 32, 64, %z; mov.u32", 1) + "ret;"
    assert found(pair(different), "columns from 0 on, while its peer allocates") == 6


def test_allocations_do_not_grow():
    body = ALLOC.format(32) + FREE.format(32) + ALLOC.format(64) + FREE.format(64) + "ret;"
    assert found(pair(body), "allocates 64 columns behind an allocation of 32") == 6
    body = ALLOC.format(64) + FREE.format(64) + ALLOC.format(32) + FREE.format(32) + "ret;"
    assert not any(pair(body))


def test_a_kernel_has_one_cta_group():
    body = ALLOC.format(32) + "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %ta, 32; ret;"
    with pytest.raises(
        EmulatorError, match=r"instructions have one \.cta_group: that at PTX line \d+ has another"
    ):
        pair(body)


@pytest.mark.parametrize("sync, good", [(SYNC, True), ("bar.sync 0; ", False)])
def test_tensor_memory_of_both_is_freed_behind_the_accesses_of_both(sync, good):
    load = "tcgen05.st.sync.aligned.32x32b.x1.b32 [%ta], {%r}; tcgen05.wait::st.sync.aligned; "
    hits = found(
        pair(ALLOC.format(32) + load + sync + FREE.format(32) + "ret;", range(20)), "freeing of tensor memory"
    )
    assert hits == 0 if good else hits >= 18


def test_commits_to_ctas_that_are_not_there():
    body = (
        ALLOC.format(32)
        + """mov.u32 %x, slot; mov.u16 %k, 5;
    @%p tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%x], %k; ret;"""
    )
    assert found(pair(body), "mask 0x5 names CTA 2 of a cluster of 2") == 6


def test_copies_of_a_pair_may_tell_an_mbarrier_of_the_peer():
    """With cta_group::2, and without only their own: the second CTA's copy completes in the first, which waits for both."""
    x = np.arange(128, dtype=np.uint32)
    body = """mov.u32 %x, tile; mov.u32 %y, bar; @%p mbarrier.init.shared.b64 [%y], 1; {sync} and.pred %q, %p, %z;
    mov.u64 %m, map; @%q mbarrier.arrive.expect_tx.shared.b64 _, [%y], 512; mapa.shared::cluster.u32 %w, %y, 0;
    mul.lo.u32 %b, %r, 64;
    @%p cp.async.bulk.tensor.1d{group}.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%x], [%m, {{%b}}], [%w];
    @!%z bra OVER; AGAIN: mbarrier.try_wait.parity.shared.b64 %q, [%y], 0; @!%q bra AGAIN; OVER: {sync}
    ld.shared.u32 %b, [tile+4]; ld.param.u64 %o, [p0]; mad.wide.u32 %o, %r, 4, %o; @%p st.global.u32 [%o], %b; ret;"""
    before = ".shared .align 128 .b8 tile[256]; .shared .b64 bar; "
    params = ".param .u64 p0, .param .align 128 .b8 map[128]"
    out = np.zeros(2, np.uint32)
    values = [out, tensor_map(x, (64,), "none")]
    got = texts(body.format(sync=SYNC, group=".cta_group::2"), range(20), params, values, before, memory=[x])
    assert not any(got) and (out == [1, 65]).all()
    got = texts(body.format(sync=SYNC, group=""), range(3), params, values, before, memory=[x])
    assert (
        found(got, "the destination lies in CTA 1 of the cluster, and the mbarrier that tells of it in CTA 0")
        == 3
    )
