"""mmaf_scaled in a loop over K by tcgen05: every pair of scales, scales in tensor memory however they were loaded."""

from __future__ import annotations

import functools
from typing import Any

import pytest

np = pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

import tileiras  # noqa: E402
from tileiras.compiler import pipeline  # noqa: E402
from tileiras.compiler.target import sm  # noqa: E402
from tileiras.diag import Sink  # noqa: E402
from tileiras.run.emulator import launch  # noqa: E402

from .test_scaled_products import FORMS, TYPES  # noqa: E402

SIZE, STEPS = 256, 3
MXFP8, _, MXFP4, MXFP4_BY_16, NVFP4 = FORMS


def view(
    pointer: str, elem: str, shape: tuple[int, ...], tile: tuple[int, ...], name: str, at: str
) -> tuple[str, str]:
    """Lines that make the view of a row-major array of `shape`, and that load `%name`, one of its tiles."""
    strides = [int(np.prod(shape[d + 1 :])) for d in range(len(shape))]
    tensor = f"tensor_view<{'x'.join(map(str, shape))}x{elem}, strides={strides}>"
    part = f"partition_view<tile=({'x'.join(map(str, tile))}), {tensor}>"
    kind = f"tile<{'x'.join(map(str, tile))}x{elem}>"
    made = f"""
      %{name}_view = make_tensor_view {pointer}, shape = {list(shape)}, strides = {strides} : {tensor}
      %{name}_tiles = make_partition_view %{name}_view : {part}"""
    loaded = f"""
        %{name}, %{name}_read = load_view_tko weak %{name}_tiles[{at}] token = %t : {part}, tile<i32> -> {kind}, token"""
    return made, loaded


def kernel(
    elem: str,
    scale: str,
    block: int,
    tile: tuple[int, int],
    step: int,
    inner: tuple[bool, bool] = (True, True),
    proven: int = 16,
) -> str:
    """Block (i, j) writes a tile of results after steps over K. `inner`: whether B, and its scales, have K innermost."""
    (m, n), k, s = tile, step * STEPS, step // block
    narrow = elem == "f4E2M1FN"
    arg = "i8" if narrow else elem
    views, loop = "", ""

    def load(*fields: Any) -> None:
        nonlocal views, loop
        made, loaded = view(*fields)
        views, loop = views + made, loop + loaded

    if narrow:
        for name, rows, at in (("a", m, "%i"), ("b", n, "%j")):
            load(f"%p{name}", "i8", (SIZE, k // 2), (rows, step // 2), name + "8", f"{at}, %k")
            loop += f"""
        %{name}flat = reshape %{name}8 : tile<{rows}x{step // 2}xi8> -> tile<{rows * step // 2}xi8>
        %{name}4 = unpack %{name}flat : tile<{rows * step // 2}xi8> -> tile<{rows * step}xf4E2M1FN>
        %{name}{"" if name == "a" else "t"} = reshape %{name}4 : tile<{rows * step}xf4E2M1FN> -> tile<{rows}x{step}xf4E2M1FN>"""
    else:
        load("%pa", elem, (SIZE, k), (m, step), "a", "%i, %k")
        if inner[0]:
            load("%pb", elem, (SIZE, k), (n, step), "bt", "%j, %k")
        else:
            load("%pb", elem, (k, SIZE), (step, n), "b", "%k, %j")
    if narrow or inner[0]:
        loop += f"""
        %b = permute %bt [1, 0] : tile<{n}x{step}x{elem}> -> tile<{step}x{n}x{elem}>"""
    load("%ps", scale, (SIZE, s * STEPS), (m, s), "s", "%i, %k")
    if inner[1]:
        load("%pu", scale, (SIZE, s * STEPS), (n, s), "ut", "%j, %k")
        loop += f"""
        %u = permute %ut [1, 0] : tile<{n}x{s}x{scale}> -> tile<{s}x{n}x{scale}>"""
    else:
        load("%pu", scale, (s * STEPS, SIZE), (s, n), "u", "%k, %j")
    out = f"tensor_view<{SIZE}x{SIZE}xf32, strides=[{SIZE}, 1]>"
    part, acc = f"partition_view<tile=({m}x{n}), {out}>", f"tile<{m}x{n}xf32>"
    types = f"tile<{m}x{step}x{elem}>, tile<{step}x{n}x{elem}>, {acc}, tile<{m}x{s}x{scale}>, tile<{s}x{n}x{scale}>"
    aligned = "".join(
        f"""
      %p{name} = assume div_by<{proven}>, %q{name} : tile<ptr<{arg if name in "ab" else scale}>>"""
        for name in "absu"
    )
    return f"""cuda_tile.module @m {{
    entry @k(%qa: tile<ptr<{arg}>>, %qb: tile<ptr<{arg}>>, %qs: tile<ptr<{scale}>>, %qu: tile<ptr<{scale}>>,
        %pc: tile<ptr<f32>>) {{{aligned}
      %i, %j, %l = get_tile_block_id : tile<i32>
      %t = make_token : token
      %zero = constant <i32: 0> : tile<i32>
      %one = constant <i32: 1> : tile<i32>
      %steps = constant <i32: {STEPS}> : tile<i32>{views}
      %c = constant <f32: 0.0> : {acc}
      %r = for %k in (%zero to %steps, step %one) : tile<i32> iter_values(%acc = %c) -> ({acc}) {{{loop}
        %d = mmaf_scaled %a, %b, %acc, %s, %u : {types}
        continue %d : {acc}
      }}
      %c_view = make_tensor_view %pc, shape = [{SIZE}, {SIZE}], strides = [{SIZE}, 1] : {out}
      %c_tiles = make_partition_view %c_view : {part}
      %w = store_view_tko weak %r, %c_tiles[%i, %j] token = %t : {acc}, {part}, tile<i32> -> token
      return
    }}
    }}
    """


@functools.cache
def operands(elem: str, scale: str, block: int, step: int, inner: tuple[bool, bool]):
    """Operands, row r and column c with scale number r and c, and their products in f64."""
    rng = np.random.default_rng(block + step)
    k, narrow = step * STEPS, elem == "f4E2M1FN"
    if narrow:
        x, y = rng.integers(0, 16, (2, SIZE, k), dtype=np.uint8).view(TYPES[elem]).astype(np.float64)
    else:
        most, low, high = (15, -9, 4) if elem == "f8E4M3FN" else (7, -16, 13)
        x, y = (
            rng.integers(-most, most + 1, (SIZE, k)) * 2.0 ** rng.integers(low, high + 1, (SIZE, 1))
            for _ in "xy"
        )
    x, y = abs(x), abs(y)  # of one sign, so that no order of additions overflows where another does not
    codes = [v.astype(TYPES[elem]).view(np.uint8) for v in (x, y)]
    s = np.repeat(np.arange(256, dtype=np.uint8)[:, None], k // block, 1)
    value = s.view(TYPES[scale]).astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        want = ((x * np.repeat(value, block, 1)) @ (y * np.repeat(value, block, 1)).T).astype(np.float32)
    if narrow:
        a, b = ((c[:, 0::2] | c[:, 1::2] << 4).view(np.int8) for c in codes)
    else:
        a, b = (c.view(TYPES[elem]) for c in codes)
        b = b if inner[0] else np.ascontiguousarray(b.T)
    u = s if inner[1] else np.ascontiguousarray(s.T)
    return a, b, s.view(TYPES[scale]), u.view(TYPES[scale]), want


def close(out: Any, want: Any) -> None:
    np.testing.assert_array_equal(np.isnan(out), np.isnan(want))
    np.testing.assert_allclose(
        out, want, rtol=2e-6, atol=4e-44
    )  # a rounding of subnormal sums for each block


def agrees(
    form: Any, tile: tuple[int, int], step: int, inner: tuple[bool, bool], gpu_name: str, **how: Any
) -> str:
    """Runs all pairs of scales on a target; the PTX."""
    text = kernel(*form, tile, step, inner)
    *arrays, want = operands(*form, step, inner)
    out = np.full(want.shape, 7, np.float32)
    how = {"target": "emulator", **how}
    grid = (SIZE // tile[0], SIZE // tile[1], 1)
    tileiras.launch(text, "k", grid=grid, args=[*arrays, out], gpu_name=gpu_name, **how)
    close(out, want)
    return tileiras.compile(text, gpu_name=gpu_name).ptx


BOTH = (True, True)
CASES = [(MXFP8, (128, 128), 64, BOTH), (MXFP4, (128, 128), 128, BOTH), (NVFP4, (128, 128), 128, BOTH)]
MORE = [
    *((form, (128, 128), step, BOTH) for form in FORMS for step in (64, 128)),
    (MXFP8, (128, 128), 32, BOTH), (MXFP8, (128, 64), 64, (False, True)), (MXFP8, (128, 128), 128, (False, False)),
    (MXFP8, (256, 64), 128, BOTH), (MXFP4, (128, 32), 256, BOTH), (MXFP4_BY_16, (128, 16), 128, BOTH),
    (NVFP4, (128, 256), 128, BOTH), (NVFP4, (128, 64), 128, (True, False)), (NVFP4, (256, 32), 256, BOTH),
]  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_all_pairs_of_scales(case: Any) -> None:
    ptx = agrees(*case, "sm_100", check=True, seed=3)
    form, _, step, _ = case
    kind = {8: "mxf8f6f4.block_scale", 4: "mxf4.block_scale"}[4 if form[0] == "f4E2M1FN" else 8]
    kind = "mxf4nvf4.block_scale.block16" if form[2] == 16 else kind
    assert f"tcgen05.mma.cta_group::1.kind::{kind} " in ptx and "\tmma.sync" not in ptx
    assert ptx.count("tcgen05.mma.") == step // (64 if form[0] == "f4E2M1FN" else 32)
    assert ptx.count("tcgen05.cp.") == 2 * max(1, step // form[2] // 4)
    agrees(*case, "sm_100", target="reference")


@pytest.mark.full
@pytest.mark.parametrize("gpu_name", ["sm_100", "sm_103", "sm_110a"])
@pytest.mark.parametrize("case", MORE, ids=str)
def test_all_pairs_of_scales_in_every_shape(case: Any, gpu_name: str) -> None:
    for seed in (0, 1):
        ptx = agrees(*case, gpu_name, check=True, seed=seed)
        assert "tcgen05.mma." in ptx


def test_signs_turn_where_a_scale_is_negative_and_only_there() -> None:
    """One negative scale among 256 of a step, in each lane and word in turn."""
    text = kernel(*NVFP4, (128, 128), 128)
    a, b, s, u, _ = operands(*NVFP4, 128, BOTH)
    x, y = (np.stack([v.view(np.uint8) & 15, v.view(np.uint8) >> 4], -1).reshape(SIZE, -1) for v in (a, b))
    x, y = (v.view(TYPES["f4E2M1FN"]).astype(np.float64) for v in (x, y))
    for number in range(0, 24, 5):
        s, u = (np.full(v.shape, 0x38, np.uint8) for v in (s, u))
        s[number * 5 % 128 :: 128, number] = 0xB8
        u[number * 11 % 128 :: 64, 23 - number] |= 0x80
        value = [np.repeat(v.view(TYPES["f8E4M3FN"]).astype(np.float64), 16, 1) for v in (s, u)]
        out = np.zeros((SIZE, SIZE), np.float32)
        scales = [v.view(TYPES["f8E4M3FN"]) for v in (s, u)]
        tileiras.launch(
            text, "k", grid=(2, 2, 1), args=[a, b, *scales, out], target="emulator", gpu_name="sm_100"
        )
        np.testing.assert_array_equal(out, ((x * value[0]) @ (y * value[1]).T).astype(np.float32))


def test_without_what_it_needs() -> None:
    """A pass or a part that is left out leaves products of f16, which are right."""
    for form, step, inner in ((NVFP4, 128, (True, False)), (MXFP8, 64, (False, True))):
        *arrays, want = operands(*form, step, inner)
        gpu = sm.find("sm_100")
        assert gpu is not None
        ways: list[dict[str, Any]] = [
            {"skip": [name]} for name in ("TileASTensorMemoryProducts", "TileASModuloSchedule")
        ]
        for way in (*ways, {"disable": ["tcgen05"]}, {"disable": ["cp.async"]}, {"opt_level": 1}):
            module = tileiras.load(kernel(*form, (128, 128), step, inner)).op
            ptx = pipeline.compile_module(module, gpu, Sink(), **way).ptx
            assert "tcgen05.mma" not in ptx and "\tmma.sync.aligned.m16n8k16.row.col.f32.f16" in ptx
            threads = int(ptx.partition(".reqntid ")[2].split(",")[0].split()[0])
            out = np.zeros((SIZE, SIZE), np.float32)
            launch(ptx, "k", (2, 2, 1), threads, [*(v.view(np.int8) for v in arrays), out])
            close(out, want)


ACC = "tile<128x128xf32>"


def product_line(text: str) -> str:
    return next(line for line in text.splitlines() if "= mmaf_scaled" in line)


def fresh(text: str) -> str:
    """Each step's product begins at zero and is added to what the loop carries."""
    line = product_line(text)
    made = line.replace("%d =", "%e =").replace("%acc,", "%c,")
    return text.replace(line, f"{made}\n        %d = addf %acc, %e : {ACC}")


def halved(text: str) -> str:
    """Each step halves the sum first."""
    line = product_line(text)
    first = f"        %h = constant <f32: 0.5> : {ACC}\n        %g = mulf %acc, %h : {ACC}\n"
    return text.replace(line, first + line.replace("%acc,", "%g,"))


def twice(text: str) -> str:
    """Two sums of one pair of operands."""
    line = product_line(text)
    second = line.replace("%d =", "%f =").replace("%acc,", "%acc2,")
    text = text.replace(line, f"{line}\n{second}").replace(
        f"continue %d : {ACC}", f"continue %d, %f : {ACC}, {ACC}"
    )
    text = text.replace(
        f"iter_values(%acc = %c) -> ({ACC})", f"iter_values(%acc = %c, %acc2 = %c) -> ({ACC}, {ACC})"
    )
    text = text.replace("%r = for", "%r1, %r2 = for")
    return text.replace("      %c_view", f"      %r = addf %r1, %r2 : {ACC}\n      %c_view", 1)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("form", [MXFP4, NVFP4], ids=str)
@pytest.mark.parametrize("change", [fresh, halved, twice])
def test_roles_of_sums(change: Any, form: Any) -> None:
    """Against the interpreter, with races looked for. Signs turn for one product of a loop only."""
    text = change(kernel(*form, (128, 128), 128))
    *arrays, _ = operands(*form, 128, BOTH)
    found = []
    for target, how in (("reference", {}), ("emulator", {"check": True, "seed": 4})):
        out = np.zeros((SIZE, SIZE), np.float32)
        tileiras.launch(
            text, "k", grid=(2, 2, 1), args=[*arrays, out], target=target, gpu_name="sm_100", **how
        )
        found.append(out)
    close(*found)
    expected = {fresh: 2, halved: 2, twice: 0 if form is NVFP4 else 4}[change]
    assert tileiras.compile(text, gpu_name="sm_100").ptx.count("tcgen05.mma.") == expected


def test_two_products_of_large_tiles_have_registers_when_they_come_back() -> None:
    """Two sums of 128x128 in 128 threads are more than ptxas finds registers for."""
    text = twice(kernel(*MXFP8, (128, 128), 64)).replace("f8E4M3FN", "bf16")
    line = product_line(text)
    types = f": tile<128x64xbf16>, tile<64x128xbf16>, {ACC}"
    for name, acc in (("%d", "%acc"), ("%f", "%acc2")):
        line = next(x for x in text.splitlines() if f"{name} = mmaf_scaled" in x)
        text = text.replace(line, f"        {name} = mmaf %a, %b, {acc} {types}")
    program = tileiras.compile(text, gpu_name="sm_100")
    assert program.ptx.count("tcgen05.mma.") == 8 and program.cubin


def test_alignment_that_is_not_proven_is_tested() -> None:
    text = kernel(*MXFP8, (128, 128), 128, BOTH, 1)
    ptx = tileiras.compile(text, gpu_name="sm_100").ptx
    assert "tcgen05.mma." in ptx and "\tmma.sync" in ptx
    *arrays, want = operands(*MXFP8, 128, BOTH)
    out = np.zeros((SIZE, SIZE), np.float32)
    tileiras.launch(text, "k", grid=(2, 2, 1), args=[*arrays, out], target="emulator", gpu_name="sm_100")
    close(out, want)


@pytest.mark.parametrize(
    "form,tile,step,inner,reason",
    [
        (MXFP8, (64, 64), 64, BOTH, "64x64 results of 64 bytes along K are no multiple of 128x16x32"),
        (NVFP4, (128, 16), 64, BOTH, "fewer than 32 columns have scales with signs"),
    ],
)
def test_what_is_refused_says_why(form: Any, tile: Any, step: int, inner: Any, reason: str) -> None:
    gpu = sm.find("sm_100")
    sink = Sink()
    module = tileiras.load(kernel(*form, tile, step, inner)).op
    ptx = pipeline.compile_module(module, gpu, sink, remarks={"missed": "all"}).ptx
    assert "tcgen05.mma" not in ptx
    assert [str(d) for d in sink.emitted if d.diag.code == "AS-0313" and reason in str(d)]
