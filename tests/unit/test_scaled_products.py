"""mmaf_scaled for every pair of scales: 256 rows with a scale each times 256 columns with a scale each, in blocks of 64x64."""

from __future__ import annotations

import functools

import pytest

np = pytest.importorskip("numpy")
ml_dtypes = pytest.importorskip("ml_dtypes")

import tileiras  # noqa: E402

TYPES = {
    "f8E4M3FN": ml_dtypes.float8_e4m3fn, "f8E5M2": ml_dtypes.float8_e5m2, "f4E2M1FN": ml_dtypes.float4_e2m1fn,
    "f8E8M0FNU": ml_dtypes.float8_e8m0fnu,
}  # fmt: skip
FORMS = [
    ("f8E4M3FN", "f8E8M0FNU", 32), ("f8E5M2", "f8E8M0FNU", 32), ("f4E2M1FN", "f8E8M0FNU", 32),
    ("f4E2M1FN", "f8E8M0FNU", 16), ("f4E2M1FN", "f8E4M3FN", 16),
]  # fmt: skip
TILE = 64


def view(pointer: str, elem: str, shape: tuple[int, ...], tile: tuple[int, ...], name: str, at: str) -> str:
    """Lines that load `%name`, a tile of a row-major array of `shape`."""
    strides = ", ".join(str(int(np.prod(shape[d + 1 :]))) for d in range(len(shape)))
    tensor = f"tensor_view<{'x'.join(map(str, shape))}x{elem}, strides=[{strides}]>"
    part = f"partition_view<tile=({'x'.join(map(str, tile))}), {tensor}>"
    kind = f"tile<{'x'.join(map(str, tile))}x{elem}>"
    indices = ", ".join(["tile<i32>"] * 1)
    return f"""
      %{name}_view = make_tensor_view {pointer}, shape = [{", ".join(map(str, shape))}], strides = [{strides}] : {tensor}
      %{name}_tiles = make_partition_view %{name}_view : {part}
      %{name}, %{name}_read = load_view_tko weak %{name}_tiles[{at}] token = %t : {part}, {indices} -> {kind}, token"""


def kernel(elem: str, scale: str, block: int, k: int, acc: float = 0.0) -> str:
    """Block (i, j) writes 64x64 results; four-bit operands come as bytes, each block's tile in one piece."""
    steps, n = k // block, 4 * TILE
    narrow = elem == "f4E2M1FN"
    arg = "i8" if narrow else elem
    if narrow:
        size = TILE * k // 2
        tiles = ""
        for name, pointer, at, shape in (
            ("a", "%pa", "%i", f"{TILE}x{k}"),
            ("b", "%pb", "%j", f"{TILE}x{k}"),
        ):
            tiles += view(pointer, "i8", (4 * size,), (size,), name + "8", at)
            tiles += f"""
      %{name}4 = unpack %{name}8 : tile<{size}xi8> -> tile<{2 * size}xf4E2M1FN>
      %{name}{"" if name == "a" else "t"} = reshape %{name}4 : tile<{2 * size}xf4E2M1FN> -> tile<{shape}xf4E2M1FN>"""
        tiles += f"""
      %b = permute %bt [1, 0] : tile<{TILE}x{k}xf4E2M1FN> -> tile<{k}x{TILE}xf4E2M1FN>"""
    else:
        tiles = view("%pa", elem, (n, k), (TILE, k), "a", "%i, %z") + view(
            "%pb", elem, (k, n), (k, TILE), "b", "%z, %j"
        )
    tiles += view("%ps", scale, (n, steps), (TILE, steps), "s", "%i, %z")
    tiles += view("%pt", scale, (steps, n), (steps, TILE), "u", "%z, %j")
    out = f"tensor_view<{n}x{n}xf32, strides=[{n}, 1]>"
    part = f"partition_view<tile=({TILE}x{TILE}), {out}>"
    types = f"tile<{TILE}x{k}x{elem}>, tile<{k}x{TILE}x{elem}>, tile<{TILE}x{TILE}xf32>"
    types += f", tile<{TILE}x{steps}x{scale}>, tile<{steps}x{TILE}x{scale}>"
    return f"""cuda_tile.module @m {{
    entry @k(%pa: tile<ptr<{arg}>>, %pb: tile<ptr<{arg}>>, %ps: tile<ptr<{scale}>>, %pt: tile<ptr<{scale}>>,
        %pc: tile<ptr<f32>>) {{
      %i, %j, %l = get_tile_block_id : tile<i32>
      %z = constant <i32: 0> : tile<i32>
      %t = make_token : token{tiles}
      %c = constant <f32: {acc}> : tile<{TILE}x{TILE}xf32>
      %r = mmaf_scaled %a, %b, %c, %s, %u : {types}
      %c_view = make_tensor_view %pc, shape = [{n}, {n}], strides = [{n}, 1] : {out}
      %c_tiles = make_partition_view %c_view : {part}
      %w = store_view_tko weak %r, %c_tiles[%i, %j] token = %t : tile<{TILE}x{TILE}xf32>, {part}, tile<i32> -> token
      return
    }}
    }}
    """


@functools.cache
def operands(elem: str, scale: str, block: int, k: int):
    """Operands, scales, and the 256x256 products in the order that the op means: block by block, in f32."""
    rng = np.random.default_rng(block)
    narrow = elem == "f4E2M1FN"
    if narrow:
        x, y = rng.integers(0, 16, (2, 4 * TILE, k), dtype=np.uint8).view(TYPES[elem]).astype(np.float64)
    else:  # few bits at an exponent for each row or column, up to both ends of the type: sums are exact in f32
        most, low, high = (15, -9, 4) if elem == "f8E4M3FN" else (7, -16, 13)
        x, y = (
            rng.integers(-most, most + 1, (4 * TILE, k)) * 2.0 ** rng.integers(low, high + 1, (4 * TILE, 1))
            for _ in "xy"
        )
    if k > block:  # of one sign, so that no order of additions overflows where another does not
        x, y = abs(x), abs(y)
    codes = [v.astype(TYPES[elem]).view(np.uint8) for v in (x, y)]
    each = np.arange(256, dtype=np.uint8)
    s = np.repeat(each[:, None], k // block, 1)
    value = s.view(TYPES[scale]).astype(np.float64)
    total = np.zeros((4 * TILE, 4 * TILE), np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        for at in range(0, k, block):
            part = x[:, at : at + block] @ y[:, at : at + block].T
            n = at // block
            total = (total + part.astype(np.float32) * np.outer(value[:, n], value[:, n])).astype(np.float32)
    if narrow:  # tiles in one piece, two elements a byte
        a = codes[0].ravel()
        b = codes[1].ravel()
        a, b = ((v[0::2] | v[1::2] << 4).view(np.int8) for v in (a, b))
    else:
        a, b = codes[0].view(TYPES[elem]), np.ascontiguousarray(codes[1].T).view(TYPES[elem])
    return a, b, s.view(TYPES[scale]), np.ascontiguousarray(s.T).view(TYPES[scale]), total


TARGETS = [("reference", "sm_100"), ("cpu", "sm_100")] + [
    ("emulator", gpu) for gpu in ("sm_75", "sm_80", "sm_89", "sm_100", "sm_120", "sm_121a")
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("elem,scale,block", FORMS, ids=lambda v: str(v))
@pytest.mark.parametrize("target,gpu_name", TARGETS)
def test_all_pairs_of_scales(target: str, gpu_name: str, elem: str, scale: str, block: int) -> None:
    for k in (block, 64):
        *arrays, want = operands(elem, scale, block, k)
        out = np.full(want.shape, 7, np.float32)
        tileiras.launch(
            kernel(elem, scale, block, k),
            "k",
            grid=(4, 4, 1),
            args=[*arrays, out],
            target=target,
            gpu_name=gpu_name,
        )
        np.testing.assert_array_equal(np.isnan(out), np.isnan(want))
        np.testing.assert_allclose(out, want, rtol=2e-6, atol=3e-45)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("elem,scale,block", FORMS, ids=lambda v: str(v))
def test_instructions_of_the_target(elem: str, scale: str, block: int) -> None:
    """Block scales go into mma.sync where the target's `f` spelling has it; all else is f16 products and multiplications."""
    native = (elem, scale, block) != ("f4E2M1FN", "f8E8M0FNU", 16)
    text = kernel(elem, scale, block, 64)
    for gpu_name, expected in (("sm_100", False), ("sm_120", native), ("sm_121a", native)):
        ptx = tileiras.compile(text, gpu_name=gpu_name).ptx
        assert (".block_scale" in ptx) == expected
        assert ("m16n8k16.row.col.f32.f16.f16.f32" in ptx) != expected


@pytest.mark.parametrize("elem", ["f8E4M3FN", "f8E5M2"])
@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_90", "sm_120"])
def test_elements_that_are_no_numbers(elem: str, gpu_name: str) -> None:
    """Every code of an element, NaN and infinity among them, in a row and a column of its own beside ones."""
    scale, block, k = "f8E8M0FNU", 32, 64
    each = np.arange(256, dtype=np.uint8)
    one = np.ones(1, TYPES[elem]).view(np.uint8)[0]
    a, b = np.full((256, k), one), np.full((k, 256), one)
    a[:, 7], b[40, :] = each, each
    s = np.full((256, k // block), 127, np.uint8)
    x, y = (v.view(TYPES[elem]).astype(np.float64) for v in (a, b))
    with np.errstate(invalid="ignore"):
        want = (x @ y).astype(np.float32)
    out = np.zeros((256, 256), np.float32)
    args = [
        a.view(TYPES[elem]),
        b.view(TYPES[elem]),
        s.view(TYPES[scale]),
        np.ascontiguousarray(s.T).view(TYPES[scale]),
    ]
    text = kernel(elem, scale, block, k)
    tileiras.launch(text, "k", grid=(4, 4, 1), args=[*args, out], target="emulator", gpu_name=gpu_name)
    np.testing.assert_allclose(out, want, rtol=1e-6)
