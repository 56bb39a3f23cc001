"""What once compiled to a wrong answer or to an internal error: one small program each, on both witnesses."""

from __future__ import annotations

from pathlib import Path

import pytest

np = pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

import tileiras  # noqa: E402

WITNESSES = [("reference", "sm_90"), ("emulator", "sm_75"), ("emulator", "sm_90")]
everywhere = pytest.mark.parametrize(("target", "gpu_name"), WITNESSES)


def launch(text: str, args: list, target: str, gpu_name: str, **more) -> None:
    tileiras.launch(f"cuda_tile.module @m {{\n{text}\n}}\n", "k", grid=(1, 1, 1), args=args, target=target,
                    gpu_name=gpu_name, **more)  # fmt: skip


def spread(pointer: str, elem: str, n: int, name: str) -> str:
    """Lines that make `%name` addresses of n consecutive elements."""
    p = f"ptr<{elem}>"
    return f"""
  %{name}1 = reshape {pointer} : tile<{p}> -> tile<1x{p}>
  %{name}2 = broadcast %{name}1 : tile<1x{p}> -> tile<{n}x{p}>
  %{name}3 = iota : tile<{n}xi32>
  %{name} = offset %{name}2, %{name}3 : tile<{n}x{p}>, tile<{n}xi32> -> tile<{n}x{p}>"""


@everywhere
@pytest.mark.parametrize("elem", ["f16", "f32", "f64"])
@pytest.mark.parametrize("signedness", ["signed", "unsigned"])
def test_float_to_i1_is_not_zero(target: str, gpu_name: str, elem: str, signedness: str) -> None:
    """cuTile writes `astype(bool)` as ftoi to i1; it took bit 0 of the truncated value."""
    text = f"""entry @k(%x: tile<ptr<{elem}>>, %y: tile<ptr<i1>>) {{{spread("%x", elem, 8, "p")}{spread("%y", "i1", 8, "q")}
  %v, %t = load_ptr_tko weak %p : tile<8xptr<{elem}>> -> tile<8x{elem}>, token
  %b = ftoi %v {signedness} : tile<8x{elem}> -> tile<8xi1>
  %u = store_ptr_tko weak %q, %b : tile<8xptr<i1>>, tile<8xi1> -> token
}}"""
    x = np.array(
        [0.0, -0.0, 0.5, -2.0, 3.0, np.nan, np.inf, 6e-8], {"f16": "f2", "f32": "f4", "f64": "f8"}[elem]
    )
    y = np.zeros(8, bool)
    launch(text, [x, y], target, gpu_name)
    assert y.tolist() == [False, False, True, True, True, True, True, True]


AFFINE = """{
    %m = muli %f, %g : tile<i32>
    %n = muli %a, %g : tile<i32>
    %o = addi %n, %b : tile<i32>
    yield %m, %o : tile<i32>, tile<i32>
  }"""


@pytest.mark.sampled(3)
@everywhere
@pytest.mark.parametrize("shape", [(2048, 1), (1, 2048), (16, 64), (64, 16), (2, 512), (256, 128)])
@pytest.mark.parametrize("dim", [0, 1])
def test_reduce_keeps_index_order(target: str, gpu_name: str, shape: tuple[int, int], dim: int) -> None:
    """Composition of affine maps associates and does not commute; registers of far elements were joined first."""
    (m, n), out = shape, shape[1 - dim]
    tile, kept = f"tile<{m}x{n}xi32>", f"tile<{out}xi32>"
    text = f"""entry @k(%x: tile<ptr<i32>>, %y: tile<ptr<i32>>) {{{spread("%x", "i32", m * n, "p")}{spread("%y", "i32", out, "q")}
  %s = reshape %p : tile<{m * n}xptr<i32>> -> tile<{m}x{n}xptr<i32>>
  %v, %t = load_ptr_tko weak %s : tile<{m}x{n}xptr<i32>> -> {tile}, token
  %r:2 = reduce %v, %v dim={dim} identities=[1 : i32, 0 : i32] : {tile}, {tile} -> {kept}, {kept}
  (%f: tile<i32>, %g: tile<i32>, %a: tile<i32>, %b: tile<i32>) {AFFINE}
  %u = store_ptr_tko weak %q, %r#1 : tile<{out}xptr<i32>>, {kept} -> token
}}"""
    x = np.random.default_rng(0).integers(-9, 9, shape).astype(np.int32) * 2 + 1
    y = np.zeros(out, np.int32)
    launch(text, [x, y], target, gpu_name)
    want = np.zeros(out, np.int32)
    for line in np.moveaxis(x, dim, 0):
        want = want * line + line
    assert (y == want).all()


@everywhere
def test_broadcast_of_a_huge_tile_to_a_larger_one(target: str, gpu_name: str) -> None:
    """A tile of 2^16 waits in 8 slices and its broadcast of 2^17 runs in 16: every slice read came out double."""
    n = 1 << 16
    text = f"""entry @k(%y: tile<ptr<i32>>) {{{spread("%y", "i32", 2 * n, "q")}
  %i = iota : tile<{n}xi32>
  %c = reshape %i : tile<{n}xi32> -> tile<{n}x1xi32>
  %w = broadcast %c : tile<{n}x1xi32> -> tile<{n}x2xi32>
  %p = reshape %q : tile<{2 * n}xptr<i32>> -> tile<{n}x2xptr<i32>>
  %u = store_ptr_tko weak %p, %w : tile<{n}x2xptr<i32>>, tile<{n}x2xi32> -> token
}}"""
    y = np.zeros((n, 2), np.int32)
    launch(text, [y], target, gpu_name)
    assert (y == np.arange(n)[:, None]).all()


@pytest.mark.parametrize("name", ["smem", "smem_dynamic", "stack", "k_const0", "k_str0", "k2", "tid", "r1"])
def test_names_of_users_are_theirs(name: str) -> None:
    """A global called like the compiler's own arena was read from shared memory."""
    text = f"""global @{name} <i32: [5, 6]> : tile<2xi32>
entry @k(%x: tile<ptr<i32>>, %y: tile<ptr<i32>>) {{{spread("%x", "i32", 2048, "p")}
  %v, %t = load_ptr_tko weak %p : tile<2048xptr<i32>> -> tile<2048xi32>, token
  %s = reduce %v dim=0 identities=[0 : i32] : tile<2048xi32> -> tile<i32>
  (%a: tile<i32>, %b: tile<i32>) {{
    %c = addi %a, %b : tile<i32>
    yield %c : tile<i32>
  }}
  %k = constant <i32: [3, 4, 5, 6]> : tile<4xi32>
  %z = constant <i32: 2> : tile<i32>
  %e = extract %k[%z] : tile<4xi32> -> tile<1xi32>
  %f = reshape %e : tile<1xi32> -> tile<i32>
  %g = get_global @{name} : tile<ptr<i32>>
  %h, %w = load_ptr_tko weak %g : tile<ptr<i32>> -> tile<i32>, token
  %i = addi %s, %f : tile<i32>
  %j = addi %i, %h : tile<i32>
  %u = store_ptr_tko weak %y, %j : tile<ptr<i32>>, tile<i32> -> token
}}"""
    x, y = np.arange(2048, dtype=np.int32), np.zeros(1, np.int32)
    launch(text, [x, y], "emulator", "sm_80")
    assert y[0] == x.sum() + 5 + 5


BODIES = {
    "argmax": ("""
    %p = cmpf greater_than ordered %f, %g : tile<f32> -> tile<i1>
    %q = cmpf equal ordered %f, %g : tile<f32> -> tile<i1>
    %r = cmpi less_than %a, %b, signed : tile<i32> -> tile<i1>
    %s = andi %q, %r : tile<i1>
    %t = ori %p, %s : tile<i1>
    %m = select %t, %f, %g : tile<i1>, tile<f32>
    %n = select %t, %a, %b : tile<i1>, tile<i32>""", True),
    "argmax that leaves out NaN": ("""
    %p = cmpf greater_than ordered %f, %g : tile<f32> -> tile<i1>
    %q = cmpf equal ordered %f, %g : tile<f32> -> tile<i1>
    %o = cmpf equal ordered %f, %f : tile<f32> -> tile<i1>
    %u = cmpf not_equal unordered %g, %g : tile<f32> -> tile<i1>
    %v = andi %o, %u : tile<i1>
    %w = cmpf not_equal unordered %f, %f : tile<f32> -> tile<i1>
    %x = andi %w, %u : tile<i1>
    %y = ori %q, %x : tile<i1>
    %r = cmpi less_than %a, %b, signed : tile<i32> -> tile<i1>
    %s = andi %y, %r : tile<i1>
    %z = ori %p, %v : tile<i1>
    %t = ori %z, %s : tile<i1>
    %m = select %t, %f, %g : tile<i1>, tile<f32>
    %n = select %t, %a, %b : tile<i1>, tile<i32>""", True),
    "first NaN": ("""
    %p = cmpf greater_than ordered %f, %g : tile<f32> -> tile<i1>
    %q = cmpf equal ordered %f, %g : tile<f32> -> tile<i1>
    %o = cmpf not_equal unordered %f, %f : tile<f32> -> tile<i1>
    %r = cmpi less_than %a, %b, signed : tile<i32> -> tile<i1>
    %s = andi %q, %r : tile<i1>
    %u = ori %p, %o : tile<i1>
    %t = ori %u, %s : tile<i1>
    %m = select %t, %f, %g : tile<i1>, tile<f32>
    %n = select %t, %a, %b : tile<i1>, tile<i32>""", False),
    "sums": ("\n    %m = addf %f, %g : tile<f32>\n    %n = maxi %b, %a signed : tile<i32>", True),
    "difference": ("\n    %m = subf %f, %g : tile<f32>\n    %n = maxi %b, %a signed : tile<i32>", False),
    "first greatest": ("""
    %t = cmpf greater_than_or_equal unordered %f, %g : tile<f32> -> tile<i1>
    %m = select %t, %f, %g : tile<i1>, tile<f32>
    %n = select %t, %a, %b : tile<i1>, tile<i32>""", False),
    "crossed": ("""
    %t = cmpi less_than %a, %b, signed : tile<i32> -> tile<i1>
    %m = select %t, %f, %g : tile<i1>, tile<f32>
    %n = mini %a, %a signed : tile<i32>""", False),
}  # fmt: skip


@pytest.mark.parametrize("name", BODIES)
def test_which_bodies_commute(name: str) -> None:
    """Only a body that is known to commute may take elements in any order."""
    from tileiras.compiler.passes.tileaa.commute import commutes

    body, want = BODIES[name]
    module = tileiras.load(f"""cuda_tile.module @m {{
entry @k() {{
  %in = constant <f32: 1.0> : tile<8xf32>
  %at = iota : tile<8xi32>
  %out:2 = reduce %in, %at dim=0 identities=[0.0 : f32, 0 : i32] : tile<8xf32>, tile<8xi32> -> tile<f32>, tile<i32>
  (%f: tile<f32>, %g: tile<f32>, %a: tile<i32>, %b: tile<i32>) {{{body}
    yield %m, %n : tile<f32>, tile<i32>
  }}
}}
}}
""")
    reduce = next(op for op in module.op.walk() if op.spec.name == "reduce")
    assert commutes(reduce.regions[0].block) == want


@everywhere
def test_remainder_by_a_subnormal(target: str, gpu_name: str) -> None:
    """The long division of f64 took a step too wide for exact quotients where the divisor was subnormal."""
    text = f"""entry @k(%x: tile<ptr<f64>>, %y: tile<ptr<f64>>) {{{spread("%x", "f64", 8, "p")}{spread("%y", "f64", 8, "q")}
  %v, %t = load_ptr_tko weak %p : tile<8xptr<f64>> -> tile<8xf64>, token
  %w, %u = load_ptr_tko weak %q : tile<8xptr<f64>> -> tile<8xf64>, token
  %r = remf %v, %w : tile<8xf64>
  %s = store_ptr_tko weak %q, %r token = %u : tile<8xptr<f64>>, tile<8xf64> -> token
}}"""
    x = np.array([-1.9518541000069058e-144, 1.7e308, 1.0, -1e300, 4.0e-308, 3e-310, 2.5e-320, np.inf])
    y = np.array([4.20944984e-315, 4.9e-324, 1.5e-323, 2.2e-308, 3.3e-311, 7e-320, 1e-322, 1e-310])
    with np.errstate(invalid="ignore"):
        want = np.fmod(x, y)
    launch(text, [x, y], target, gpu_name)
    np.testing.assert_array_equal(y, want)


@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_90", "sm_100", "sm_120"])
def test_a_product_that_is_refused_its_instruction_finds_its_fragments(gpu_name: str) -> None:
    """Layouts for wgmma or tcgen05 are chosen before copies are; without any, mma.sync reads other places."""
    import tileiras
    from tests.fixtures import BYTECODE

    text = tileiras.compile(BYTECODE / "museum_scaled_loop.tilebc", gpu_name, emit="ptx").ptx
    assert "mma.sync" in text


EARLY = """cuda_tile.module @m { entry @k(%p: tile<ptr<f16>>, %q: tile<ptr<f32>>, %n: tile<i32>) {
  %i = iota : tile<4096xi32>
  %a1 = reshape %p : tile<ptr<f16>> -> tile<1xptr<f16>>
  %a2 = broadcast %a1 : tile<1xptr<f16>> -> tile<4096xptr<f16>>
  %a3 = offset %a2, %i : tile<4096xptr<f16>>, tile<4096xi32> -> tile<4096xptr<f16>>
  %a, %t = load_ptr_tko weak %a3 : tile<4096xptr<f16>> -> tile<4096xf16>, token
  %x = reshape %a : tile<4096xf16> -> tile<1x64x64xf16>
  %z = constant <f32: 0.0> : tile<1x64x64xf32>
  %w = constant <f32: 1.0> : tile<1x64x64xf32>
  %c0 = constant <i32: 0> : tile<i32>
  %c1 = constant <i32: 1> : tile<i32>
  %c2 = constant <i32: 2> : tile<i32>
  %s = for %j in (%c0 to %n, step %c1) : tile<i32> iter_values(%acc = %z) -> (tile<1x64x64xf32>) {
    %odd = cmpi equal %j, %c2, signed : tile<i32> -> tile<i1>
    if %odd {
      continue %w : tile<1x64x64xf32>
    }
    %y = mmaf %x, %x, %acc : tile<1x64x64xf16>, tile<1x64x64xf16>, tile<1x64x64xf32>
    continue %y : tile<1x64x64xf32>
  }
  %r = reshape %s : tile<1x64x64xf32> -> tile<4096xf32>
  %b1 = reshape %q : tile<ptr<f32>> -> tile<1xptr<f32>>
  %b2 = broadcast %b1 : tile<1xptr<f32>> -> tile<4096xptr<f32>>
  %b3 = offset %b2, %i : tile<4096xptr<f32>>, tile<4096xi32> -> tile<4096xptr<f32>>
  %u = store_ptr_tko weak %b3, %r token = %t : tile<4096xptr<f32>>, tile<4096xf32> -> token
  return } }"""


@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_90"])
def test_sums_of_one_batch_survive_an_early_continue(gpu_name: str, tmp_path: Path) -> None:
    """Both ways to the next iteration carry the same type; every pass leaves valid IR."""
    from tileiras.tools import opt

    source = tmp_path / "k.tileir"
    source.write_text(EARLY)
    out = tmp_path / "out"
    assert opt.main([str(source), "--gpu-name", gpu_name, "--pipeline-to", "tileaa", "-o", str(out)]) == 0
    carried = {line.rpartition(" : ")[2] for line in out.read_text().splitlines() if "aa.continue" in line}
    assert len(carried) == 1
    x = np.random.default_rng(0).uniform(-1, 1, (64, 64)).astype("f2")
    y = np.zeros((64, 64), "f4")
    tileiras.launch(EARLY, "k", 1, [x, y, np.int32(5)], target="emulator", gpu_name=gpu_name)
    square = x.astype("f8") @ x.astype("f8")
    np.testing.assert_allclose(y, 1 + 2 * square, rtol=1e-3, atol=1e-3)
