"""setmaxnreg on the emulator: registers change hands within a CTA, by whole warpgroups."""

import numpy as np
import pytest
from emulator_kit import entry

from tileiras.run.emulator import EmulatorError, launch

HEAD = """.reg .b32 %t, %x, %n; .reg .b64 %o, %a; .reg .pred %p, %q; mov.u32 %t, %tid.x; mov.u32 %n, %ctaid.x;
mad.lo.u32 %n, %n, 384, %t; ld.param.u64 %o, [p0]; mad.wide.u32 %a, %n, 4, %o; setp.lt.u32 %p, %t, 128; """
ROLES = """@%p bra GIVE; setmaxnreg.inc.sync.aligned.u32 {inc}; add.u32 %x, %t, 1000; bra END;
GIVE: {wait} setmaxnreg.dec.sync.aligned.u32 {dec}; add.u32 %x, %t, 2000;
END: st.global.u32 [%a], %x; ret;"""


def run(body, directives=".reqntid 384 .maxnreg 168", threads=384, grid=2, **options):
    out = np.zeros((grid, 384), np.uint32)
    ptx = entry(HEAD + body, ".param .u64 p0", directives=directives)
    launch(ptx, "k", grid, threads, [out], **options)
    return out


@pytest.mark.parametrize("seed", [None, *range(6)])
@pytest.mark.parametrize("dec, inc", [(40, 232), (24, 240)])
@pytest.mark.parametrize("wait", ["", "nanosleep.u32 500;"])
def test_what_one_warpgroup_gives_two_take(seed, dec, inc, wait):
    """(168 - 40) * 128 = (232 - 168) * 256: whoever asks first waits."""
    out = run(ROLES.format(dec=dec, inc=inc, wait=wait), seed=seed, check=seed is not None)
    t = np.arange(384)
    assert (out == np.where(t < 128, 2000 + t, 1000 + t)).all()


@pytest.mark.parametrize("seed", [None, 1, 2])
@pytest.mark.parametrize("dec, inc", [(40, 240), (80, 224), (168, 176)])
def test_more_than_the_cta_has_is_never_given(dec, inc, seed):
    with pytest.raises(EmulatorError, match=r"deadlock.*`setmaxnreg\.inc.*registers to give") as error:
        run(ROLES.format(dec=dec, inc=inc, wait=""), seed=seed)
    assert error.value.line > 0


@pytest.mark.parametrize(
    "body, text",
    [
        ("setmaxnreg.dec.sync.aligned.u32 44; ret;", "44 registers: a multiple of 8 from 24 to 256"),
        ("setmaxnreg.dec.sync.aligned.u32 16; ret;", "16 registers: a multiple of 8 from 24 to 256"),
        ("setmaxnreg.dec.sync.aligned.u32 200; ret;", r"\.dec to 200 of a warpgroup that has 168"),
        ("setmaxnreg.inc.sync.aligned.u32 96; ret;", r"\.inc to 96 of a warpgroup that has 168"),
        ("setp.lt.u32 %q, %t, 32; @%q exit; setmaxnreg.dec.sync.aligned.u32 40; ret;", "32 threads of its warpgroup have exited"),
    ],
)  # fmt: skip
def test_what_cannot_be(body, text):
    with pytest.raises(EmulatorError, match=text) as error:
        run(body)
    assert "setmaxnreg" in str(error.value) and error.value.line > 0


OTHER_WAYS = """and.b32 %x, %t, 127; setp.lt.u32 %q, %x, 32; @%q bra OTHER; setmaxnreg.dec.sync.aligned.u32 40; bra END;
OTHER: setmaxnreg.dec.sync.aligned.u32 {}; END: st.global.u32 [%a], %t; ret;"""


@pytest.mark.parametrize("count", [40, 48])
def test_two_instructions_for_the_warps_of_a_group(count):
    """As GPUs do, which Triton relies on for sm_120, CUTLASS with other counts; the ISA leaves it undefined, checks say so."""
    assert (run(OTHER_WAYS.format(count)) == np.arange(384)).all()
    report = launch(
        entry(HEAD + OTHER_WAYS.format(count), ".param .u64 p0", directives=".reqntid 384 .maxnreg 168"), "k", 1, 384,
        [np.zeros(384, np.uint32)], check=True, seed=1,
    )  # fmt: skip
    assert {f.kind for f in report.findings} == {"setmaxnreg"} and "PTX line" in report.findings[0].text


def test_each_warp_gives_what_it_asks_for():
    """Three warps go down to 40 and one to 48: 128 * 96 + 120 * 32 registers, 63 more for each thread of two groups, so 56."""
    ways = "@!%p bra TAKE;" + OTHER_WAYS.format(48).replace(
        "END: ", "bra END; TAKE: setmaxnreg.inc.sync.aligned.u32 {}; END: "
    )
    for seed in (None, 1):
        assert (run(ways.format(224), seed=seed) == np.arange(384)).all()
        with pytest.raises(EmulatorError, match=r"deadlock.*`setmaxnreg\.inc"):
            run(ways.format(232), seed=seed)


def test_a_warp_that_leaves_out_the_instruction():
    body = "setp.lt.u32 %q, %t, 32; @%q bra OVER; setmaxnreg.dec.sync.aligned.u32 40; OVER: bar.sync 0; ret;"
    with pytest.raises(EmulatorError, match="setmaxnreg"):
        run(body)


def test_blocks_without_whole_warpgroups():
    with pytest.raises(EmulatorError, match="no whole warpgroups"):
        run("setmaxnreg.dec.sync.aligned.u32 40; ret;", directives=".reqntid 96 .maxnreg 168", threads=96)


def test_launch_bounds_say_how_many_a_thread_has():
    """65536 registers of 384 threads are 168 each; without bounds nothing is known, and nothing is refused."""
    good, bad = (ROLES.format(dec=40, inc=inc, wait="") for inc in (232, 240))
    run(good, directives=".maxntid 384")
    with pytest.raises(EmulatorError, match="deadlock"):
        run(bad, directives=".maxntid 384")
    run(bad, directives="")
