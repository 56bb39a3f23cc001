"""Planted bugs in asynchronous kernels are found and named by almost every seed, and their correct twins are clean."""

import re

import pytest
from emulator_clusters import CLUSTER_FLAWS, CLUSTER_NAMED, CLUSTERS
from emulator_kernels import FLAWS, KERNELS, NAMED
from emulator_rings import RING_FLAWS, RING_NAMED, RINGS

from tileiras.run.emulator import launch


def run(case, seed, check=True):
    """Findings and the second array. The first one stays where it is: tensor maps hold its address."""
    source, result = case.params[0].copy(), case.params[1].copy()
    params = [case.params[0], result, *case.params[2:]]
    report = launch(
        case.text, "k", case.grid, case.threads, params, memory=case.memory, cluster=case.cluster, check=check, seed=seed
    )  # fmt: skip
    case.params[0][...] = source
    return report.findings, result


def clean(build, seeds):
    case = build("")
    for seed in seeds:
        for check in (True, False) if not seed or seed % 10 == 1 else (True,):
            findings, got = run(case, seed, check)
            assert not findings, (seed, findings)
            assert (got == case.want).all(), (seed, got)


def found(build, flaw, seeds):
    """Seeds whose findings name the flaw, with instruction and line."""
    named = (CLUSTER_NAMED if build in CLUSTERS else RING_NAMED if build in RINGS else NAMED)[flaw]
    case = build(flaw)
    hits = 0
    for seed in seeds:
        texts = [f.text for f in run(case, seed)[0]]
        hits += any(re.search(named, t, re.S) and re.search(r"; PTX line \d+, `", t) for t in texts)
    return hits


@pytest.mark.sampled(4)
@pytest.mark.parametrize("build", (*KERNELS, *RINGS, *CLUSTERS))
def test_correct_kernels_are_clean_and_right(build):
    clean(build, [None, 0, 1])


@pytest.mark.sampled(5)
@pytest.mark.parametrize("build, flaw", [*FLAWS, *RING_FLAWS, *CLUSTER_FLAWS])
def test_planted_bugs_are_named(build, flaw):
    assert found(build, flaw, range(2)) == 2


@pytest.mark.full
@pytest.mark.parametrize("build", (*KERNELS, *RINGS, *CLUSTERS))
def test_correct_kernels_are_clean_under_many_seeds(build):
    clean(build, range(200))


@pytest.mark.full
@pytest.mark.parametrize("build, flaw", [*FLAWS, *RING_FLAWS, *CLUSTER_FLAWS])
def test_planted_bugs_are_found_by_at_least_18_of_20_seeds(build, flaw):
    assert found(build, flaw, range(20)) >= 18
