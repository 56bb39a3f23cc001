"""What a launch counts by PTX line, against what can be counted by hand, and approximate instructions at their bounds."""

import numpy as np
import pytest
from emulator_kit import apply, entry

from tileiras.run.emulator import EmulatorError, launch

HEAD = """.reg .b32 %t, %x<8>; .reg .b64 %a, %b; .reg .pred %p; .shared .align 128 .b8 s[16384]; mov.u32 %t, %tid.x;
    ld.param.u64 %a, [p0];"""


def profile(body, *, threads=32, grid=1, size=1 << 16, **options):
    """PTX line -> (instruction, Counts) of a body whose instructions stand on lines of their own."""
    out = np.zeros(size, np.uint32)
    text = entry(HEAD + "\n" + body.replace("; ", ";\n"), ".param .u64 p0")
    return launch(text, "k", grid, threads, [out], profile=True, **options).profile


def only(found, start):
    (counts,) = [c for text, c in found.values() if text.startswith(start)]
    return counts


SHARED = {
    "consecutive words": ("shl.b32 %x0, %t, 2;", "u32 %x1", 1, 1),
    "one word": ("mov.u32 %x0, 64;", "u32 %x1", 1, 1),
    "stride of two words": ("shl.b32 %x0, %t, 3;", "u32 %x1", 2, 1),
    "one bank": ("shl.b32 %x0, %t, 7;", "u32 %x1", 32, 1),
    "16 bytes each": ("shl.b32 %x0, %t, 4;", "v4.u32 {%x1, %x2, %x3, %x4}", 4, 4),
    "16 bytes each, rows of 128 bytes": ("shl.b32 %x0, %t, 7;", "v4.u32 {%x1, %x2, %x3, %x4}", 32, 4),
    "8 bytes each": ("shl.b32 %x0, %t, 3;", "v2.u32 {%x1, %x2}", 2, 2),
    "bytes": ("mov.u32 %x0, %t;", "u8 %x1", 1, 1),
    "16 bytes, the same": ("mov.u32 %x0, 64;", "v4.u32 {%x1, %x2, %x3, %x4}", 1, 1),
}


@pytest.mark.parametrize("how", SHARED)
def test_wavefronts_of_shared_memory(how):
    where, what, actual, least = SHARED[how]
    type_, regs = what.split(" ", 1)
    found = profile(
        f"{where} mov.u32 %x5, s; add.u32 %x0, %x0, %x5; ld.shared.{type_} {regs}, [%x0]; ret;", grid=3
    )
    c = only(found, "ld.shared")
    assert (c.wavefronts, c.least_wavefronts, c.warps, c.threads) == (3 * actual, 3 * least, 3, 96)


def test_ldmatrix_wavefronts():
    rows = "and.b32 %x0, %t, 15; mul.lo.u32 %x0, %x0, {}; mov.u32 %x1, s; add.u32 %x0, %x0, %x1; "
    load = "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%x2, %x3}, [%x0]; ret;"
    for pitch, cycles in ((16, 2), (128, 16), (144, 2)):
        assert only(profile(rows.format(pitch) + load), "ldmatrix").wavefronts == cycles
    assert only(profile(rows.format(128) + load), "ldmatrix").least_wavefronts == 2


GLOBAL = {
    "consecutive": (4, "u32 %x1", 4, 4),
    "every second": (8, "u32 %x1", 8, 4),
    "far apart": (128, "u32 %x1", 32, 4),
    "16 bytes each": (16, "v4.u32 {%x1, %x2, %x3, %x4}", 16, 16),
    "one word": (0, "u32 %x1", 1, 1),
}


@pytest.mark.parametrize("how", GLOBAL)
def test_sectors_of_global_memory(how):
    stride, what, actual, least = GLOBAL[how]
    type_, regs = what.split(" ", 1)
    out = np.zeros(1 << 15, np.uint32)
    text = entry(
        HEAD
        + f"mad.wide.u32 %b, %t, {stride}, %a;\nld.global.{type_} {regs}, [%b];\nred.global.add.u32 [%b], 1;\nret;",
        ".param .u64 p0",
    )
    found = launch(text, "k", 2, 64, [out], profile=True).profile
    c = only(found, "ld.global")
    assert (c.sectors, c.least_sectors) == (4 * actual, 4 * least) and only(
        found, "red"
    ).sectors >= c.least_sectors // 4


def test_classes_barriers_and_guards():
    found = profile("""setp.lt.u32 %p, %t, 32; @%p bra L; add.u32 %x0, %t, 1; L: bar.sync 0; cvt.rn.f32.u32 %x1, %t; ret;""",
                    threads=96, grid=3)  # fmt: skip
    assert only(found, "bar.sync").barriers == 9 and only(found, "add").warps == 6
    assert only(found, "cvt").by_class == {"float": 9} and only(found, "add").by_class == {"integer": 6}


PIPELINE = """shl.b32 %x0, %t, 4; mov.u32 %x1, s; add.u32 %x0, %x0, %x1; mul.wide.u32 %b, %t, 16; add.s64 %b, %a, %b;
    cp.async.cg.shared.global [%x0], [%b], 16; cp.async.commit_group;
    cp.async.cg.shared.global [%x0+2048], [%b], 16, 8; cp.async.commit_group; cp.async.wait_group {keep};
    mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {{{four}}}, {{{four}}}, {{%x2, %x3}}, {{{four}}}; ret;"""


@pytest.mark.parametrize("keep, bytes_", [(2, 32 * 64 - 8 * 64), (1, 8 * 64), (0, 0)])
def test_bytes_in_flight_at_a_product(keep, bytes_):
    found = profile(PIPELINE.format(keep=keep, four="%x2, %x3, %x4, %x5"), threads=64, grid=3)
    product = only(found, "mma")
    assert product.in_flight == (bytes_, bytes_, bytes_) and product.products == 3
    copies = [c.copied for text, c in found.values() if "shared.global" in text]
    assert copies == [3 * 64 * 16, 3 * 64 * 8] and product.by_class == {"tensor": 6}


# approximate instructions
RANGE = np.concatenate([np.linspace(-20, 20, 4001), np.logspace(-30, 30, 1000)]).astype(np.float32)
EXACT = {
    "ex2": np.exp2, "lg2": np.log2, "rcp": lambda x: 1 / x, "rsqrt": lambda x: 1 / np.sqrt(x), "tanh": np.tanh,
    "sin": np.sin, "cos": np.cos, "sqrt": np.sqrt,
}  # fmt: skip


def ends(op, x, type_="f32"):
    """Results at both ends of the error."""
    out = []
    for end in ("low", "exact", "high"):
        results = np.zeros(x.size, np.float32)
        code = f"{op}.approx.f32 %f1, %f0;"
        if type_ == "f16":
            code = f"cvt.rn.f16.f32 %h, %f0; {op}.approx.f16 %h, %h; cvt.f32.f16 %f1, %h;"
        text = entry(
            ".reg .b32 %t; .reg .b64 %a, %b, %o; .reg .f32 %f<2>; .reg .b16 %h; mov.u32 %t, %ctaid.x; ld.param.u64 %a, [p];"
            "mad.lo.u32 %t, %t, 128, 0; { .reg .b32 %u; mov.u32 %u, %tid.x; add.u32 %t, %t, %u; } mul.wide.u32 %o, %t, 4;"
            "add.s64 %a, %a, %o; ld.param.u64 %b, [q]; add.s64 %b, %b, %o; ld.global.f32 %f0, [%a];"
            + code + "st.global.f32 [%b], %f1; ret;",
            ".param .u64 p, .param .u64 q",
        )  # fmt: skip
        padded = np.zeros(-(-x.size // 128) * 128, np.float32)
        padded[: x.size] = x
        results = np.zeros_like(padded)
        launch(text, "k", padded.size // 128, 128, [padded, results], approximate=end)
        out.append(results[: x.size].astype(np.float64))
    return out


BOUND = {
    "tanh": lambda x, y: np.abs(y) * 2.0**-11, "rsqrt": lambda x, y: np.abs(y) * 2.0**-22.9,
    "ex2": lambda x, y: 2.5 * np.spacing(y.astype(np.float32)),
    "rcp": lambda x, y: 1.5 * np.spacing(np.abs(y).astype(np.float32)),
    "lg2": lambda x, y: np.where((x > 0.5) & (x < 2), 1, np.abs(y)) * 2.0**-22, "sqrt": lambda x, y: np.abs(y) * 2.0**-23,
    "sin": lambda x, y: np.where(np.abs(x) <= 2 * np.pi, 2.0**-20.5, 2.0**-14.7),
    "cos": lambda x, y: np.where(np.abs(x) <= 2 * np.pi, 2.0**-20.5, 2.0**-14.7),
}  # fmt: skip


@pytest.mark.parametrize("op", EXACT)
def test_approximate_instructions_reach_both_ends_of_their_error(op):
    x = RANGE[np.abs(RANGE) < 300] if op in ("sin", "cos") else RANGE
    x = x[x > 0] if op in ("lg2", "rsqrt", "sqrt") else x
    low, exact, high = ends(op, x)
    with np.errstate(all="ignore"):
        want = EXACT[op](x.astype(np.float64))
        usable = np.isfinite(want) & (np.abs(want) > 1e-30) & (np.abs(want) < 1e30) & (x != 0)
        if op == "tanh":
            usable &= np.abs(want) < 0.999  # never beyond 1
    low, exact, high, want, x = (v[usable] for v in (low, exact, high, want, x))
    bound = BOUND[op](x, want)
    half = np.spacing(np.abs(want).astype(np.float32)) / 2 + 1e-45
    assert (low <= exact).all() and (exact <= high).all()
    assert (np.abs(low - want) <= bound + half).all() and (np.abs(high - want) <= bound + half).all()
    assert ((high - want) >= 0.4 * bound).mean() > 0.85 and ((want - low) >= 0.4 * bound).mean() > 0.85


def test_exact_results_and_halves():
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan], np.float32)
    for end in ends("ex2", special):
        assert end[:4].tolist() == [1, 1, np.inf, 0] and np.isnan(end[4])
    low, exact, high = ends("tanh", np.linspace(-1, 1, 64, dtype=np.float32), "f16")
    assert (high - low > 2.0**-11).all() and (high - exact < 2.0**-9).all()
    with pytest.raises(EmulatorError, match="approximate must be one of exact, low, high"):
        launch(entry("ret;"), "k", 1, 1, [], approximate="worst")
    assert (
        apply("ex2.approx.f32 %f0, %a0; mov.b32 %d0, %f0;", [np.ones(4, np.float32)], [np.float32]).tolist()
        == [2] * 4
    )


def test_counts_by_line_of_the_kernel(tmp_path, capsys):
    """A Profile of tileiras.launch, and the table of tileiras-run."""
    import tileiras
    from tileiras.run.profile import Profile
    from tileiras.tools.run import main

    path = tmp_path / "k.tileir"
    path.write_text("""cuda_tile.module @m {
entry @k(%x: tile<ptr<f32>>) {
  %1 = reshape %x : tile<ptr<f32>> -> tile<1xptr<f32>>
  %2 = broadcast %1 : tile<1xptr<f32>> -> tile<256xptr<f32>>
  %3 = iota : tile<256xi32>
  %p = offset %2, %3 : tile<256xptr<f32>>, tile<256xi32> -> tile<256xptr<f32>>
  %v, %t = load_ptr_tko weak %p : tile<256xptr<f32>> -> tile<256xf32>, token
  %w = addf %v, %v : tile<256xf32>
  %u = store_ptr_tko weak %p, %w token = %t : tile<256xptr<f32>>, tile<256xf32> -> token
}
}
""")
    profile, x = Profile(), np.ones(256, np.float32)
    tileiras.launch(path, "k", grid=1, args=[x], target="emulator", profile=profile)
    by_line = {key[1]: counts for key, counts in profile.kernel.items() if key is not None}
    assert by_line[7].sectors == by_line[7].least_sectors == by_line[9].sectors == 32
    assert by_line[8].by_class["float"] * 32 >= 256 and profile.total.sectors == 64
    assert {profile.positions[line][1] for line, (text, _) in profile.ptx.items() if "ld.global" in text} == {
        7
    }
    assert main([str(path), "--target", "emulator", "--arg", "ones:f32:256", "--profile", "-q"]) == 0
    table = capsys.readouterr().out.splitlines()
    assert table[0] == str(path) and table[1].split()[:3] == ["line", "warps", "tensor"]
    rows = {line.split()[0]: line.split() for line in table[2:]}
    assert rows["7"][-1] == "32/32" and rows["total"][-1] == "64/64"
    assert main([str(path), "--arg", "ones:f32:256", "--profile"]) == 1
    assert "--target emulator" in capsys.readouterr().err
    for more in ({"profile": profile}, {"approximate": "low"}, {"approximate": "x", "target": "emulator"}):
        with pytest.raises(tileiras.LaunchError) as error:
            tileiras.launch(path, "k", grid=1, args=[x], **more)
        assert error.value.exit_code == 1


def test_stmatrix_and_ldmatrix_of_bytes():
    """Rows of 16 bytes, eight to a cycle where they lie in different banks."""
    rows = "and.b32 %x0, %t, 15; mul.lo.u32 %x0, %x0, {}; mov.u32 %x1, s; add.u32 %x0, %x0, %x1; "
    store = "stmatrix.sync.aligned.m8n8.x2.shared.b16 [%x0], {%x2, %x3}; ret;"
    load = "ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {%x2, %x3}, [%x0]; ret;"
    for code in (store, load):
        for pitch, cycles in ((16, 2), (128, 16), (144, 2)):
            c = only(profile(rows.format(pitch) + code), code.split(".")[0])
            assert (c.wavefronts, c.least_wavefronts) == (cycles, 2)


BULK = """.reg .pred %q; .reg .b32 %f<8>; .reg .f32 %g<4>; .shared .align 8 .b64 bars[3]; mov.u32 %x0, bars; mov.u32 %x1, s;
    setp.eq.u32 %p, %t, 0; @%p mbarrier.init.shared.b64 [%x0], 1; @%p mbarrier.init.shared.b64 [%x0+8], 1;
    @%p mbarrier.init.shared.b64 [%x0+16], 1; bar.sync 0; {copies} {waits} ret;"""


def test_bulk_copies_in_flight_and_their_sectors():
    """Three copies, each waited for before one product: bytes count until their mbarrier was seen, landed or not."""
    sizes = (256, 512, 1024)
    copies = "".join(
        f"@%p mbarrier.arrive.expect_tx.shared.b64 _, [%x0+{8 * i}], {size}; add.s64 %b, %a, {4096 * i + 16}; "
        f"@%p cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%x1], [%b], {size}, [%x0+{8 * i}]; "
        f"add.u32 %x1, %x1, {size}; "
        for i, size in enumerate(sizes)
    )  # fmt: skip
    fragment = "{%g0, %g1, %g2, %g3}"
    waits = "".join(
        f"W{i}: mbarrier.try_wait.parity.shared.b64 %q, [%x0+{8 * i}], 0; @!%q bra W{i}; "
        f"mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {fragment}, {{%f0, %f1}}, {{%f2}}, {fragment}; "
        for i in range(3)
    )
    found = profile(BULK.format(copies=copies, waits=waits), threads=64)
    at = [c.in_flight for text, c in found.values() if text.startswith("mma")]
    assert at == [(1536, 1536, 1536), (1024, 1024, 1024), (0, 0, 0)]
    bulk = [c for text, c in found.values() if "cp.async.bulk" in text]
    assert [(c.copied, c.sectors, c.least_sectors) for c in bulk] == [
        (size, size // 32 + 1, size // 32)
        for size in sizes  # 16 bytes behind a boundary
    ]


def test_products_in_tensor_memory():
    """Every tcgen05.mma of a ring is a product, with what is under way for it: at most the stages ahead."""
    from emulator_rings import tensor_ring

    case = tensor_ring("", k=72, stages=3)
    report = launch(case.text, "k", 1, case.threads, case.params, memory=case.memory, profile=True)
    (mma,) = [c for text, c in report.profile.values() if "tcgen05.mma" in text]
    loads = [c for text, c in report.profile.values() if "shared::cluster.global.tile" in text]
    assert mma.products == 5 and mma.in_flight[2] <= 2 * (128 + 16) * 32
    assert [c.copied for c in loads] == [5 * 128 * 32, 5 * 16 * 32]
    # rows of 144 bytes, every other one begins within a sector; the last step has 16 bytes of each
    assert loads[1].sectors == 4 * (8 + 16) + 16
