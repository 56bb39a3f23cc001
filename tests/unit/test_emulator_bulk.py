"""Bulk copies on the emulator: boxes of tensors, swizzles, fills, reductions, clusters, and what goes wrong with them."""

import itertools
import re

import ml_dtypes
import numpy as np
import pytest

from tileiras.run.emulator import EmulatorError, launch, tensor_map
from tileiras.run.emulator.tensor_map import encode

HEAD = ".version 8.6\n.target sm_100a\n.address_size 64\n"
SHARED = ".shared .align 1024 .b8 tile[32768]; .shared .align 8 .b64 bar;"
REGS = ".reg .pred %p, %q; .reg .b32 %t, %x, %y, %z, %b, %s, %r<8>; .reg .b64 %m, %o, %g, %h; .reg .b16 %k;"
WAIT = "WAIT{0}: mbarrier.try_wait.parity.shared::cta.b64 %q, [%b], {1}; @!%q bra WAIT{0};"
START = """mov.u32 %t, %tid.x; mov.u32 %b, bar; mov.u32 %s, tile; setp.eq.u32 %p, %t, 0;
@%p mbarrier.init.shared::cta.b64 [%b], 1; @%p fence.mbarrier_init.release.cluster; bar.sync 0;"""
DUMP = """shl.b32 %x, %t, 2; DUMP: setp.ge.u32 %q, %x, %z; @%q bra END; add.u32 %y, %s, %x; ld.shared.b32 %r0, [%y];
cvt.u64.u32 %h, %x; add.u64 %h, %h, %o; st.global.b32 [%h], %r0; add.u32 %x, %x, 512; bra DUMP; END:"""


def load_kernel(coords, size, wait=None, expect=None):
    wait = WAIT.format(0, 0) if wait is None else wait
    c = ", ".join(map(str, coords))
    return f"""{HEAD}{SHARED}
.visible .entry k(.param .align 128 .b8 map[128], .param .u64 out) {{ {REGS}
{START} mov.u64 %m, map; ld.param.u64 %o, [out]; mov.u32 %z, {size};
@%p mbarrier.arrive.expect_tx.shared::cta.b64 _, [%b], {expect or size};
@%p cp.async.bulk.tensor.{len(coords)}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%s], [%m, {{{c}}}], [%b];
{wait} {DUMP} ret; }}"""


def box_of(x, origin, box, steps, fill):
    """The elements of a box, by index; origin, box and steps outermost first."""
    counts = [-(-b // s) for b, s in zip(box, steps)]
    out = np.full(counts, fill, x.dtype)
    for index in itertools.product(*map(range, counts)):
        at = tuple(o + i * s for o, i, s in zip(origin, index, steps))
        if all(0 <= v < n for v, n in zip(at, x.shape)):
            out[index] = x[at]
    return out


def image(box, swizzle):
    """The bytes of shared memory that hold a box."""
    raw = np.ascontiguousarray(box).view(np.uint8).reshape(-1)
    at = np.arange(raw.size)
    bits = {"none": 0, "32B": 1, "64B": 3, "128B": 7}[swizzle]
    out = np.zeros(raw.size, np.uint8)
    out[at ^ (at >> 7 & bits) << 4] = raw
    return out


def load(x, origin, box, swizzle="none", steps=None, fill="zeros", **launching):
    steps = steps or [1] * x.ndim
    want = box_of(x, origin, box, steps, np.nan if fill == "nan" else 0)
    out = np.zeros(want.nbytes, np.uint8)
    table = tensor_map(x, box, swizzle, steps, fill=fill)
    report = launch(
        load_kernel(origin[::-1], want.nbytes), "k", 1, 128, [table, out], memory=[x], **launching
    )
    return out, image(want, swizzle), report


@pytest.mark.parametrize("swizzle", ["none", "32B", "64B", "128B"])
def test_boxes_of_two_dimensions(swizzle):
    x = np.arange(40 * 72, dtype=np.float16).reshape(40, 72)
    inner = {"none": 24, "32B": 16, "64B": 32, "128B": 64}[swizzle]
    for origin in ((0, 0), (8, 8), (33, 5), (-3, -7), (100, 0), (0, 71)):
        out, want, _ = load(x, origin, (16, inner), swizzle)
        assert (out == want).all(), origin


@pytest.mark.parametrize("rank", [1, 3, 4, 5])
def test_ranks(rank):
    shape = (3, 4, 5, 6, 32)[-rank:]
    x = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
    box = (2, 3, 2, 4, 16)[-rank:]
    for origin in (0,) * rank, (1, 2, 4, 4, 24)[-rank:], (-1,) * rank:
        out, want, report = load(x, origin, box, "64B", check=True, seed=rank)
        assert (out == want).all() and report.findings == []


def test_element_strides_and_nan():
    x = np.arange(30 * 64, dtype=np.float32).reshape(30, 64)
    out, want, _ = load(x, (2, 4), (11, 32), "64B", steps=(3, 2))
    assert (out == want).all()
    x = np.ones((8, 16), ml_dtypes.bfloat16)
    out, want, _ = load(x, (4, 8), (8, 16), "none", fill="nan")
    assert np.array_equal(
        out.view(ml_dtypes.bfloat16).astype(float),
        want.view(ml_dtypes.bfloat16).astype(float),
        equal_nan=True,
    )


def test_a_map_that_cannot_be_is_refused():
    x = np.zeros((16, 72), np.float16)
    for arguments, why in (
        ({"box": (8, 72)}, "at most the swizzle's 128"),
        ({"box": (8, 4), "swizzle": "none"}, "multiple of 16"),
        ({"box": (257, 8)}, "1 to 256"),
        ({"box": (8,)}, "1 to 5 dimensions"),
        ({"box": (8, 8), "interleave": "16B"}, "interleave"),
        ({"box": (8, 8), "swizzle": "96B"}, "swizzle is one of"),
    ):
        with pytest.raises(EmulatorError, match=why):
            tensor_map(x, **arguments)
    with pytest.raises(EmulatorError, match="multiples of 16"):
        tensor_map(np.zeros((4, 9), np.float16), (4, 8), "none")
    with pytest.raises(EmulatorError, match="no tensor map of the emulator"):
        launch(load_kernel((0, 0), 256), "k", 1, 128, [bytes(128), np.zeros(256, np.uint8)])


STORE = f"""{HEAD}{SHARED}
.visible .entry k(.param .align 128 .b8 map[128], .param .u64 src) {{{{ {REGS}
{START} mov.u64 %m, map; ld.param.u64 %o, [src]; mov.u32 %z, {{size}};
shl.b32 %x, %t, 2; FILL: setp.ge.u32 %q, %x, %z; @%q bra FULL; add.u32 %y, %s, %x; cvt.u64.u32 %h, %x; add.u64 %h, %h, %o;
ld.global.b32 %r0, [%h]; st.shared.b32 [%y], %r0; add.u32 %x, %x, 512; bra FILL; FULL:
{{fence}} bar.sync 0;
@%p {{store}}
@%p cp.async.bulk.commit_group;
{{after}} ret; }}}}"""
TILE_STORE = "cp{}.async.bulk.tensor.2d.global.shared::cta{}.tile.bulk_group [%m, {{{}, {}}}], [%s];"
FENCE = "fence.proxy.async.shared::cta;"
DONE = "@%p cp.async.bulk.wait_group 0;"


@pytest.mark.parametrize("swizzle", ["none", "128B"])
@pytest.mark.parametrize("op", ["", "add", "max", "min"])
def test_stores_and_reductions(swizzle, op):
    rng = np.random.default_rng(0)
    for dtype in (np.float32, np.float16, np.int32):
        if dtype == np.int32 and op == "":
            continue
        inner = 64 // np.dtype(dtype).itemsize
        for origin in ((0, 0), (5, 8), (-2, -4)):
            x = rng.integers(-50, 50, (20, 40)).astype(dtype)
            box = rng.integers(-50, 50, (8, inner)).astype(dtype)
            want = x.copy()
            for i, j in itertools.product(range(8), range(inner)):
                r, c = origin[0] + i, origin[1] + j
                if 0 <= r < 20 and 0 <= c < 40:
                    fn = {"": lambda a, b: b, "add": lambda a, b: a + b, "max": max, "min": min}[op]
                    want[r, c] = fn(x[r, c], box[i, j])
            store = TILE_STORE.format(".reduce" if op else "", f".{op}" if op else "", origin[1], origin[0])
            text = STORE.format(size=box.nbytes, fence=FENCE, store=store, after=DONE)
            table = tensor_map(x, (8, inner), swizzle)
            report = launch(text, "k", 1, 128, [table, image(box, swizzle)], memory=[x], check=True, seed=1)
            assert (x == want).all() and report.findings == []


PLAIN = f"""{HEAD}{SHARED}
.visible .entry k(.param .u64 src, .param .u64 dst) {{ {REGS}
{START} ld.param.u64 %g, [src]; ld.param.u64 %o, [dst];
@%p mbarrier.arrive.expect_tx.shared::cta.b64 _, [%b], 4096;
@%p cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%s], [%g], 4096, [%b];
{WAIT.format(0, 0)}
mad.lo.u32 %x, %t, 4, %s; ld.shared.b32 %r0, [%x]; add.u32 %r0, %r0, 1; st.shared.b32 [%x], %r0;
{FENCE} bar.sync 0;
@%p cp.async.bulk.global.shared::cta.bulk_group [%o], [%s], 4096;
add.u64 %h, %o, 4096;
@%p cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%h], [%s], 512;
@%p cp.async.bulk.commit_group; @%p cp.async.bulk.wait_group 0; ret; }}"""


@pytest.mark.parametrize("seed", [None, 0, 1, 2])
def test_plain_copies_and_reductions(seed):
    x, y = np.arange(1024, dtype=np.uint32), np.full(2048, 7, np.uint32)
    want = x.copy()
    want[:128] += 1
    report = launch(PLAIN, "k", 1, 128, [x, y], check=seed is not None, seed=seed)
    assert (y[:1024] == want).all() and (y[1024:1152] == want[:128] + 7).all() and (y[1152:] == 7).all()
    assert report.findings == []


CLUSTER = f"""{HEAD}{SHARED}
.visible .entry k(.param .align 128 .b8 map[128], .param .u64 out) {{ {REGS}
{START} mov.u64 %m, map; ld.param.u64 %o, [out]; mov.u32 %z, 2048;
mov.u32 %r1, %cluster_ctarank; mad.wide.u32 %o, %r1, 2048, %o;
@%p mbarrier.arrive.expect_tx.shared::cta.b64 _, [%b], 2048;
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
mov.u16 %k, 0b1111; mad.lo.u32 %r2, %r1, 512, %s; mul.lo.u32 %r3, %r1, 4; mov.u32 %r4, 0;
@%p cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster
    [%r2], [%m, {{%r4, %r3}}], [%b], %k;
{WAIT.format(0, 0)} {DUMP} ret; }}"""


def test_multicast_to_a_cluster():
    x = np.arange(16 * 64, dtype=np.float16).reshape(16, 64)
    for seed in (None, 0, 1, 2):
        out = np.zeros((4, 16, 64), np.float16)
        report = launch(
            CLUSTER, "k", 4, 128, [tensor_map(x, (4, 64), "none"), out], memory=[x], cluster=4,
            check=seed is not None, seed=seed,
        )  # fmt: skip
        assert (out == x).all() and report.findings == []


REMOTE = f"""{HEAD}{SHARED}
.visible .entry k(.param .u64 out) {{ {REGS}
{START} ld.param.u64 %o, [out]; mov.u32 %r1, %cluster_ctarank; xor.b32 %r2, %r1, 1;
@%p mbarrier.arrive.expect_tx.shared::cta.b64 _, [%b], 1024;
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
mapa.shared::cluster.u32 %r3, %s, %r2; mapa.shared::cluster.u32 %r4, %b, %r2;
mad.lo.u32 %r3, %t, 8, %r3; mad.lo.u32 %r5, %r1, 1000, %t;
st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%r3], {{%r5, %r1}}, [%r4];
{WAIT.format(0, 0)}
mad.lo.u32 %x, %t, 8, %s; ld.shared.v2.b32 {{%r5, %r6}}, [%x]; getctarank.shared::cluster.u32 %r7, %r4;
mad.lo.u32 %r5, %r6, 10000, %r5; mad.lo.u32 %r5, %r7, 100000, %r5;
mad.lo.u32 %x, %r1, 128, %t; mad.wide.u32 %o, %x, 4, %o; st.global.b32 [%o], %r5; ret; }}"""


def test_stores_into_another_cta():
    for seed in (None, 0, 1):
        out = np.zeros((2, 128), np.uint32)
        report = launch(REMOTE, "k", 2, 128, [out], cluster=2, check=seed is not None, seed=seed)
        other = np.array([[1], [0]])
        assert (out == other * 111000 + np.arange(128)).all() and report.findings == []


REPLACE = f"""{HEAD}.shared .align 128 .b8 table[128]; {SHARED}
.visible .entry k(.param .align 128 .b8 map[128], .param .u64 base, .param .u64 slot, .param .u64 out) {{ {REGS}
{START} mov.u64 %m, map; ld.param.u64 %g, [base]; ld.param.u64 %h, [slot]; ld.param.u64 %o, [out]; mov.u32 %z, 1024;
mov.u32 %y, table; setp.lt.u32 %q, %t, 32; @!%q bra SKIP;
mad.lo.u32 %x, %t, 4, %y; mul.wide.u32 %m, %t, 4; mov.u64 %h, map; add.u64 %m, %m, %h; ld.param.b32 %r0, [%m];
st.shared.b32 [%x], %r0; bar.warp.sync 0xffffffff;
@%p tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%y], %g;
@%p tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%y], 1, 3;
@%p tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%y], 0, 256;
@%p tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%y], 0, 32;
@%p tensormap.replace.tile.swizzle_mode.shared::cta.b1024.b32 [%y], 0;
bar.warp.sync 0xffffffff; ld.param.u64 %h, [slot];
tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%h], [%y], 128;
SKIP: bar.sync 0; ld.param.u64 %m, [slot];
fence.proxy.tensormap::generic.acquire.gpu [%m], 128;
@%p mbarrier.arrive.expect_tx.shared::cta.b64 _, [%b], 1024;
@%p cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%s], [%m, {{0, 0}}], [%b];
{WAIT.format(0, 0)} {DUMP} ret; }}"""


def test_tensor_maps_changed_on_the_device():
    x, y = np.zeros((16, 64), np.float16), np.arange(4 * 128, dtype=np.float16).reshape(4, 128)
    slot, out = np.zeros(256, np.uint8), np.zeros((16, 32), np.float16)
    at = slot[-slot.ctypes.data % 128 :][:128]
    launch(REPLACE, "k", 1, 128, [tensor_map(x, (16, 64)), y, at, out], memory=[x])
    assert (out[:3] == y[:3, :32]).all() and (out[3:] == 0).all()


def planted(text, params, kind, *, memory=(), cluster=None, grid=1):
    found = 0
    for seed in range(20):
        report = launch(text, "k", grid, 128, params(), memory=memory, cluster=cluster, check=True, seed=seed)
        hits = [f for f in report.findings if f.kind in kind]
        found += bool(hits)
        assert all(f.line and f.instruction for f in hits)
    return found


X = np.arange(32 * 64, dtype=np.float16).reshape(32, 64)


@pytest.mark.parametrize("bug", ["no wait", "wrong phase"])
def test_a_load_that_nobody_waited_for_is_found(bug):
    wait = {"no wait": "", "wrong phase": WAIT.format(0, 1)}[bug]
    text = load_kernel((0, 0), 4096, wait)
    params = lambda: [tensor_map(X, (32, 64)), np.zeros(4096, np.uint8)]  # noqa: E731
    kinds = "shared-memory race, deadlock"  # a phase that is over already never completes again
    assert planted(text, params, kinds, memory=[X]) >= 18
    assert planted(load_kernel((0, 0), 4096), params, kinds, memory=[X]) == 0


@pytest.mark.parametrize("bug", ["no fence", "source overwritten", "waits for nothing"])
def test_stores_that_are_wrong_are_found(bug):
    y = np.zeros((32, 64), np.float16)
    store = TILE_STORE.format("", "", 0, 0)
    again = "bar.sync 0; shl.b32 %x, %t, 2; add.u32 %y, %s, %x; st.shared.b32 [%y], 0;"
    right = {
        "size": 4096,
        "fence": FENCE,
        "store": store,
        "after": "@%p cp.async.bulk.wait_group.read 0; " + again,
    }
    wrong = {
        "no fence": right | {"fence": ""},
        "source overwritten": right | {"after": again},
        "waits for nothing": right | {"after": "@%p cp.async.bulk.wait_group.read 1; " + again},
    }[bug]
    kind = "missing proxy fence" if bug == "no fence" else "shared-memory race"
    params = lambda: [tensor_map(y, (32, 64)), X]  # noqa: E731
    assert planted(STORE.format(**wrong), params, kind, memory=[y]) >= 18
    assert planted(STORE.format(**right), params, kind, memory=[y]) == 0


def test_a_copy_with_fewer_bytes_than_expected_never_completes():
    with pytest.raises(EmulatorError, match=r"deadlock.*mbarrier\.try_wait"):
        launch(load_kernel((0, 0), 4096, expect=8192), "k", 1, 128, [tensor_map(X, (32, 64)), np.zeros(4096, np.uint8)],
               memory=[X])  # fmt: skip


def test_copies_out_of_bounds_are_named():
    y = np.zeros(1024, np.uint32)
    with pytest.raises(EmulatorError, match=r"4096-byte bulk store at .* bytes at"):
        launch(PLAIN, "k", 1, 128, [y, np.zeros(512, np.uint32)])
    hidden = X.copy()
    with pytest.raises(EmulatorError, match="bulk tensor load of"):
        launch(
            load_kernel((0, 0), 4096), "k", 1, 128, [tensor_map(hidden, (32, 64)), np.zeros(4096, np.uint8)]
        )


ARRIVALS = f"""{HEAD}{SHARED}.shared .align 8 .b64 two;
.visible .entry k(.param .u64 out) {{ {REGS} .reg .b64 %state;
mov.u32 %t, %tid.x; mov.u32 %b, bar; mov.u32 %s, two; setp.eq.u32 %p, %t, 0; ld.param.u64 %o, [out];
@%p mbarrier.init.shared::cta.b64 [%b], 64; @%p mbarrier.init.shared::cta.b64 [%s], 20; bar.sync 0;
setp.lt.u32 %q, %t, 64; selp.b32 %x, %b, %s, %q;
mbarrier.arrive.shared::cta.b64 %state, [%x]; mbarrier.pending_count.b64 %r0, %state;
mad.wide.u32 %h, %t, 4, %o; st.global.b32 [%h], %r0; bar.sync 0;
mov.u32 %z, 0; mbarrier.test_wait.parity.shared::cta.b64 %q, [%b], %z; selp.b32 %r1, 1, 0, %q;
add.u32 %z, %z, 1; mbarrier.test_wait.parity.shared::cta.b64 %q, [%s], %z; selp.b32 %r2, 1, 0, %q;
shl.b32 %r2, %r2, 1; or.b32 %r1, %r1, %r2; st.global.b32 [%h+512], %r1; ret; }}"""


def test_arrivals_of_one_instruction():
    """64 threads end one phase of 64; the other 64 end three of 20 and begin a fourth."""
    out = np.zeros((2, 128), np.uint32)
    launch(ARRIVALS, "k", 1, 128, [out])
    assert sorted(out[0, :64].tolist()) == list(range(1, 65))
    assert sorted(out[0, 64:].tolist()) == sorted([*range(1, 21)] * 3 + [20, 19, 18, 17])
    assert (
        out[1] == 1
    ).all()  # phase 0 of the first is over; the second is in its phase 3, so that of parity 1 is not


def test_copies_that_nobody_waits_for_are_found_at_the_end():
    """Shared memory may belong to another CTA by the time they land, or read it: found whatever the order was."""
    y = np.zeros((32, 64), np.float16)
    text = STORE.format(size=4096, fence=FENCE, store=TILE_STORE.format("", "", 0, 0), after="")
    cases = [
        (load_kernel((0, 0), 4096, "bra END;"), [tensor_map(X, (32, 64)), np.zeros(4096, np.uint8)], X,
         r"nobody|before anybody saw a phase of the mbarrier at shared offset \d+ complete.*cp\.async\.bulk\.tensor"),
        (text, [tensor_map(y, (32, 64)), X], y, r"ended while group 0 of its copies out of shared memory may still read"),
    ]  # fmt: skip
    for text, params, memory, named in cases:
        for seed in (None, 0, 1, 2, 3):
            (finding,) = launch(text, "k", 1, 128, params, memory=[memory], check=True, seed=seed).findings
            assert finding.kind == "copy not waited for" and re.search(named, finding.text)
            assert finding.line and finding.instruction


def test_a_result_is_not_read_before_its_store_was_waited_for():
    """wait_group.read says only that the source may be changed; another thread reads the result behind wait_group."""
    for wait, right in (("cp.async.bulk.wait_group 0;", True), ("cp.async.bulk.wait_group.read 0;", False)):
        y = np.zeros((32, 64), np.float16)
        after = f"@%p {wait} bar.sync 0; ld.param.u64 %g, [map]; ld.global.b32 %r0, [%g]; st.shared.b32 [%s], %r0;"
        text = STORE.format(size=4096, fence=FENCE, store=TILE_STORE.format("", "", 0, 0), after=after)
        for seed in range(4):
            params = [tensor_map(y, (32, 64)), X]
            findings = launch(text, "k", 1, 128, params, memory=[y], check=True, seed=seed).findings
            races = [f for f in findings if f.kind == "global-memory race"]
            assert right or races


CANCEL = f"""{HEAD}.shared .align 16 .b8 answer[16]; .shared .align 8 .b64 bar;
.visible .entry k(.param .u64 out) {{{{ {REGS} .reg .b128 %w; .reg .pred %more;
mov.u32 %t, %tid.x; mov.u32 %b, bar; mov.u32 %s, answer; setp.eq.u32 %p, %t, 0; ld.param.u64 %o, [out];
mov.u32 %x, %ctaid.x; mov.u32 %r1, %cluster_ctarank; setp.eq.u32 %q, %r1, 0; mov.u32 %z, 0; mov.u32 %r7, 0;
@%p mbarrier.init.shared::cta.b64 [%b], 1; @%p fence.mbarrier_init.release.cluster;
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
WORK: mad.wide.u32 %h, %x, 4, %o; @%p red.global.add.u32 [%h], 1;
@%p mbarrier.arrive.expect_tx.shared::cta.b64 _, [%b], 16;
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; selp.u32 %y, 1, 0, %p; setp.eq.u32 %q, %r1, 0;
and.pred %q, %q, %p;
@%q clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes{{}}.b128 [%s], [%b];
WAIT: mbarrier.try_wait.parity.shared::cta.b64 %q, [%b], %z; @!%q bra WAIT; xor.b32 %z, %z, 1;
ld.shared.b128 %w, [%s]; clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %more, %w;
@%more clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %x, %w;
@%more clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {{{{%r2, %r3, %r4, _}}}}, %w;
add.u32 %x, %x, %r1; add.u32 %r7, %r7, 1;
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; @%more bra WORK;
mov.u32 %x, %ctaid.x; add.u32 %x, %x, 32; mad.wide.u32 %h, %x, 4, %o; @%p st.global.u32 [%h], %r7; ret; }}}}"""


@pytest.mark.parametrize("cluster", [1, 2])
def test_clusters_take_over_the_work_of_others(cluster):
    """Each CTA's number is worked on once, by whoever: some clusters are never launched."""
    text = CANCEL.format(".multicast::cluster::all" if cluster == 2 else "")
    taken = set()
    for seed in (None, *range(12)):
        out = np.zeros(64, np.uint32)
        report = launch(text, "k", 12, 64, [out], cluster=cluster, check=seed is not None, seed=seed)
        assert (out[:12] == 1).all() and (out[12:32] == 0).all() and report.findings == []
        launched = np.count_nonzero(out[32:])
        assert out[32:].sum() == 12  # rounds
        taken.add(12 - launched)
    assert len(taken) > 2 and max(taken) > 0


@pytest.mark.parametrize("kind, per, group, room", [(13, 2, 1, 1), (14, 16, 8, 16), (15, 16, 12, 16)])
def test_elements_below_one_byte(kind, per, group, room):
    """b4x16 lies in shared memory as in memory; 16 elements of b4x16_p64 and b6x16_p32 take 16 bytes, of 8 and 12."""
    elements, rows = 128, 12
    rng = np.random.default_rng(kind)
    x = rng.integers(1, 256, (rows, 2 * elements // per * group), np.uint8)  # twice as wide as a box
    for origin in ((0, 0), (elements, 4), (elements, 8), (0, -3)):
        table = encode(x.ctypes.data, kind, (rows, 2 * elements), (x.strides[0],), (8, elements), "128B")
        size = 8 * elements // per * room
        out = np.zeros(size, np.uint8)
        report = launch(load_kernel(origin, size), "k", 1, 128, [table, out], memory=[x], check=True, seed=1)
        raw = np.zeros((8, elements // per, room), np.uint8)
        groups = x.reshape(rows, -1, group)[:, origin[0] // per :][:, : elements // per]
        for row in range(8):
            if 0 <= row + origin[1] < rows:
                raw[row, :, :group] = groups[row + origin[1]]
        assert (out == image(raw, "128B")).all() and report.findings == []
        want = x.copy()
        x2 = np.zeros_like(x)
        table = encode(x2.ctypes.data, kind, (rows, 2 * elements), (x.strides[0],), (8, elements), "128B")
        store = TILE_STORE.format("", "", origin[0], origin[1])
        launch(
            STORE.format(size=size, fence=FENCE, store=store, after=DONE),
            "k",
            1,
            128,
            [table, out],
            memory=[x2],
        )
        low, high = max(origin[1], 0), min(origin[1] + 8, rows)
        first = origin[0] // per * group
        want[:] = 0
        want[low:high, first : first + elements // per * group] = x[
            low:high, first : first + elements // per * group
        ]
        assert (x2 == want).all()
    with pytest.raises(EmulatorError, match="groups of"):
        launch(load_kernel((1, 0), size), "k", 1, 128, [table, np.zeros(size, np.uint8)], memory=[x2])


def pixels(x, at, offsets, box, low, high, steps):
    """What an im2col copy reads of images [N, ..., C], one pixel after another as the ISA walks through them; outermost first."""
    count, channels = box
    spatial = x.shape[1:-1]
    n, *place, c = at
    out = np.zeros((count, channels), x.dtype)
    for row in range(count):
        spot = [p + o for p, o in zip(place, offsets)]
        if n < x.shape[0] and all(0 <= s < e for s, e in zip(spot, spatial)):
            for k in range(channels):
                if 0 <= c + k < x.shape[-1]:
                    out[row, k] = x[(n, *spot, c + k)]
        d = len(place) - 1
        while d >= 0:
            place[d] += steps[d + 1]
            if place[d] <= spatial[d] - 1 + high[d]:
                break
            place[d] = low[d]
            d -= 1
        else:
            n += 1
    return out


def pixel_kernel(mode, coords, offsets, size):
    text = load_kernel(coords, size).replace("global.tile.", f"global.{mode}.")
    text = text.replace(f"tensor.{len(coords)}d", "tensor.2d") if mode == "tile::gather4" else text
    extra = f", {{{', '.join(map(str, offsets))}}}" if offsets else ""
    return text.replace("}], [%b];", f"}}], [%b]{extra};")


@pytest.mark.parametrize(
    "shape, box, low, high, steps, places",
    [
        # the examples of the ISA, which count innermost first
        ((8, 14, 9, 64), (64, 8), (-1, -1), (-1, -1), 1, [((0, 4, 7, 7), (0, 0)), ((7, 12, 7, 60), (1, 1))]),
        ((8, 14, 9, 64), (64, 8), (0, 0), (-2, -2), 1, [((0, 4, 6, 7), (2, 2))]),
        ((8, 14, 8, 64), (32, 16), (-1, -1), (-1, -1), 2, [((0, 5, 5, 7), (1, 1)), ((7, 11, 5, 0), (0, 2))]),
        ((3, 20, 40), (50, 32), (-2,), (1,), 1, [((0, -2, 0), (3,)), ((1, 20, 32), (0,)), ((2, 3, -8), (1,))]),
        ((2, 5, 6, 4, 16), (96, 16), (-1, 0, -1), (-1, -2, 0), 1, [((0, -1, 0, -1, 0), (1, 2, 0)), ((1, 2, 3, 2, 0), (0, 1, 1))]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("swizzle", ["none", "32B", "64B", "128B"])
def test_im2col(shape, box, low, high, steps, places, swizzle):
    x = np.arange(1, 1 + np.prod(shape), dtype=np.float32 if shape[-1] < 64 else np.uint16).reshape(shape)
    if box[1] * x.itemsize > {"none": 1 << 20, "32B": 32, "64B": 64, "128B": 128}[swizzle]:
        return
    step = [1, *[steps] * (len(shape) - 2), 1]
    table = tensor_map(x, box, swizzle, step, corners=(low, high))
    for seed, (at, offsets) in enumerate(places):
        want = pixels(x, at, offsets, box, low, high, step)
        assert want.any()
        out = np.zeros(want.nbytes, np.uint8)
        text = pixel_kernel("im2col", at[::-1], offsets[::-1], want.nbytes)
        report = launch(text, "k", 1, 128, [table, out], memory=[x], check=True, seed=seed)
        assert (out == image(want, swizzle)).all() and report.findings == []


def test_im2col_stores():
    x = np.zeros((2, 6, 5, 16), np.float32)
    low, high, box = (0, 0), (-1, -2), (24, 8)
    table = tensor_map(x, box, "32B", corners=(low, high))
    rows = np.arange(1, 1 + 24 * 8, dtype=np.float32).reshape(box)
    store = "cp.async.bulk.tensor.4d.global.shared::cta.im2col_no_offs.bulk_group [%m, {8, 1, 3, 0}], [%s];"
    text = STORE.format(size=rows.nbytes, fence=FENCE, store=store, after=DONE)
    report = launch(text, "k", 1, 128, [table, image(rows, "32B")], memory=[x], check=True, seed=1)
    number = np.arange(1, 1 + x.size, dtype=np.float32).reshape(x.shape)  # where each element came from
    want = np.zeros_like(x)
    for value, row in zip(pixels(number, (0, 3, 1, 8), (0, 0), box, low, high, [1] * 4), rows):
        if value[0]:
            want.reshape(-1)[value.astype(int) - 1] = row
    assert (x == want).all() and want.any() and report.findings == []


@pytest.mark.parametrize("swizzle", ["none", "128B"])
def test_four_rows_are_gathered_and_scattered(swizzle):
    x = np.arange(1, 1 + 20 * 72, dtype=np.float16).reshape(20, 72)
    table = tensor_map(x, (1, 64), swizzle)
    for column, rows in ((0, (3, 0, 19, 3)), (16, (7, -1, 20, 2)), (-8, (1, 2, 3, 4))):
        want = np.concatenate([box_of(x, (r, column), (1, 64), (1, 1), 0) for r in rows])
        out = np.zeros(want.nbytes, np.uint8)
        text = pixel_kernel("tile::gather4", (column, *rows), (), want.nbytes)
        report = launch(text, "k", 1, 128, [table, out], memory=[x], check=True, seed=0)
        assert (out == image(want, swizzle)).all() and report.findings == []
        y = np.zeros_like(x)
        if column < 0 or rows[0] == rows[3]:
            continue
        places = ", ".join(map(str, (column, *rows)))
        store = (
            f"cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group [%m, {{{places}}}], [%s];"
        )
        text = STORE.format(size=want.nbytes, fence=FENCE, store=store, after=DONE)
        launch(text, "k", 1, 128, [tensor_map(y, (1, 64), swizzle), out], memory=[y], check=True, seed=0)
        kept = [r for r in rows if 0 <= r < 20]
        assert (y[kept, column:] == x[kept, column : column + 64]).all() and np.count_nonzero(y) == 56 * len(
            kept
        )


def test_pixels_that_cannot_be_are_refused():
    x = np.zeros((2, 6, 5, 16), np.float32)
    for arguments, why in (
        ({"box": (8, 8), "corners": ((0, 0), (0,))}, "two corners"),
        ({"box": (8, 8), "corners": ((0, -129), (0, 0))}, "8 bits"),
        ({"box": (1025, 8), "corners": ((0, 0), (0, 0))}, "1,024 pixels"),
        ({"box": (1, 1, 8, 8), "corners": ((0, 0), (0, 0))}, "a box of pixels"),
    ):
        with pytest.raises(EmulatorError, match=why):
            tensor_map(x, swizzle="none", **arguments)
    images, tiles = (
        tensor_map(x, (8, 8), "none", corners=((0, 0), (0, 0))),
        tensor_map(x, (1, 1, 8, 8), "none"),
    )
    out = np.zeros(256, np.uint8)
    for table, coords, offsets, mode, why in (
        (tiles, (0, 0, 0, 0), (0, 0), "im2col", "of its own kind"),
        (images, (0, 0, 0, 0), (), "tile", "of its own kind"),
        (images, (0, 5, 0, 0), (0, 0), "im2col", "outside of the bounding box"),
        (tensor_map(x[0, 0], (2, 8), "none"), (0, 0, 0, 0, 0), (), "tile::gather4", "boxes of one row"),
    ):
        with pytest.raises(EmulatorError, match=why):
            launch(pixel_kernel(mode, coords, offsets, 256), "k", 1, 128, [table, out], memory=[x])
