"""What a launch in clusters is, by the directives of an entry, on hand-written PTX."""

import numpy as np
import pytest
from emulator_kit import entry

from tileiras.run.emulator import EmulatorError, launch, watcher

AXES = [f"%{what}.{axis}" for what in ("ctaid", "nctaid", "clusterid", "nclusterid", "cluster_ctaid", "cluster_nctaid")
        for axis in "xyz"]  # fmt: skip
NAMES = [*AXES, "%cluster_ctarank", "%cluster_nctarank"]
# each CTA writes its special registers where its number among all CTAs says, and its rank's hundred into its neighbour's
BODY = f""".shared .b32 word; .reg .b32 %n, %x, %y, %r, %w; .reg .b64 %o; .reg .pred %p; ld.param.u64 %o, [p0];
mov.u32 %n, %ctaid.z; mov.u32 %x, %nctaid.y; mov.u32 %y, %ctaid.y; mad.lo.u32 %n, %n, %x, %y; mov.u32 %x, %nctaid.x;
mov.u32 %y, %ctaid.x; mad.lo.u32 %n, %n, %x, %y; mad.wide.u32 %o, %n, {4 * (len(NAMES) + 2)}, %o;
{"".join(f"mov.u32 %x, {name}; st.global.u32 [%o+{4 * i}], %x;" for i, name in enumerate(NAMES))}
mov.pred %p, %is_explicit_cluster; selp.u32 %x, 1, 0, %p; st.global.u32 [%o+{4 * len(NAMES)}], %x;
mov.u32 %r, %cluster_ctarank; add.u32 %x, %r, 1; mov.u32 %y, %cluster_nctarank; rem.u32 %x, %x, %y;
mul.lo.u32 %r, %r, 100; mov.u32 %w, word; mapa.shared::cluster.u32 %w, %w, %x;
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; st.shared::cluster.u32 [%w], %r;
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; ld.shared.u32 %x, [word];
st.global.u32 [%o+{4 * len(NAMES) + 4}], %x; ret;"""


def registers(directives, grid, ctas, seed=None, **more):
    """[z, y, x, register] of a launch with one thread a CTA."""
    out = np.full((*ctas[::-1], len(NAMES) + 2), 0xDEAD, np.uint32)
    text = entry(BODY, ".param .u64 p0", directives=directives)
    report = launch(text, "k", grid, 1, [out], check=seed is not None, seed=seed, **more)
    assert report.findings == [] and report.executed["mapa.shared::cluster.u32"] == np.prod(ctas)
    return out


def wanted(ctas, cluster):
    z, y, x = np.indices(ctas[::-1])
    at = [x, y, z]
    each = [*at, *ctas, *(i // c for i, c in zip(at, cluster)), *(n // c for n, c in zip(ctas, cluster)),
            *(i % c for i, c in zip(at, cluster)), *cluster]  # fmt: skip
    size = int(np.prod(cluster))
    rank = x % cluster[0] + cluster[0] * (y % cluster[1] + cluster[1] * (z % cluster[2]))
    each += [rank, size, 1, (rank - 1) % size * 100]
    return np.stack([np.broadcast_to(v, x.shape) for v in each], -1)


@pytest.mark.parametrize("cluster", [(2, 1, 1), (1, 2, 1), (2, 1, 2), (2, 2, 2), (1, 1, 1)])
@pytest.mark.parametrize("seed", [None, 0, 1])
def test_a_grid_of_clusters(cluster, seed):
    """The launch gives 3x2x1 clusters; the CTAs that run are as many times more as a cluster has, and number themselves."""
    directives = f".reqntid 1, 1, 1 .reqnctapercluster {', '.join(map(str, cluster))}"
    ctas = tuple(n * c for n, c in zip((3, 2, 1), cluster))
    want = wanted(ctas, cluster)
    assert (registers(f"{directives} .blocksareclusters", (3, 2, 1), ctas, seed) == want).all()
    assert (registers(directives, ctas, ctas, seed) == want).all()  # the same CTAs, counted by the launch
    assert (registers(f".blocksareclusters {directives}", (3, 2), ctas, seed, cluster=cluster) == want).all()


REQUIRED = ".reqntid 1 .reqnctapercluster 2"
REFUSED = [
    (".blocksareclusters .reqnctapercluster 2", 4, None, r"\.blocksareclusters, but not both"),
    (".blocksareclusters .reqntid 1", 4, 2, r"\.blocksareclusters, but not both"),
    (f"{REQUIRED} .blocksareclusters", (1, 40000), (1, 2), r"requires clusters of \(2, 1, 1\).*with \(1, 2, 1\)"),
    (".reqntid 1 .reqnctapercluster 1, 2 .blocksareclusters", (1, 40000), None, r"of clusters \(1, 2, 1\) is larger"),
    (REQUIRED, 4, 4, r"requires clusters of \(2, 1, 1\) \(\.reqnctapercluster\), launched with \(4, 1, 1\)"),
    (REQUIRED, 3, None, r"grid \(3, 1, 1\) is not a multiple of cluster \(2, 1, 1\)"),
    (".explicitcluster", 4, None, r"launched in clusters only \(\.explicitcluster\)"),
    (".maxclusterrank 4", 8, 8, r"allows clusters of 4 CTAs \(\.maxclusterrank\)"),
]  # fmt: skip


@pytest.mark.parametrize("directives, grid, cluster, text", REFUSED)
def test_launches_that_the_directives_forbid(directives, grid, cluster, text):
    with pytest.raises(EmulatorError, match=text):
        launch(entry("ret;", directives=directives), "k", grid, 1, [], cluster=cluster)


def test_launches_that_the_directives_allow():
    for directives, cluster in (
        (".explicitcluster", 2),
        (".maxclusterrank 4", 4),
        (".maxclusterrank 4", None),
    ):
        text = entry("ret;", directives=directives)
        assert launch(text, "k", 4, 1, [], cluster=cluster).executed["ret"] == 4
    text = entry("ret;", directives=".explicitcluster .reqnctapercluster 2")
    assert launch(text, "k", 4, 1, []).executed["ret"] == 4


def test_progress_is_told_in_what_the_launch_counts():
    told = []
    token = watcher.set(lambda ended, total: told.append((ended, total)))
    try:
        for more, total in ((" .blocksareclusters", 6), ("", 12)):
            text = entry("ret;", directives=f".reqntid 1 .reqnctapercluster 2 {more}")
            launch(text, "k", total, 1, [])
            assert told[-1] == (total, total)
    finally:
        watcher.reset(token)
