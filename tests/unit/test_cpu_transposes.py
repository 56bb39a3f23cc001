"""The CPU target transposes squares of vectors in registers: every element type, any permutation, ragged edges."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import tileiras
from tileiras.run import launch
from tileiras.run.cpu.kernel import Kernel

DTYPES = {"f64": np.float64, "f32": np.float32, "f16": np.float16, "i64": np.int64, "i32": np.int32, "i16": np.int16,
          "i8": np.int8, "i1": np.bool_}  # fmt: skip


def permuting(
    dtype: str, tile: tuple[int, ...], permutation: tuple[int, ...], inner: str = "1", op: str = ""
) -> str:
    """b = a.transpose(permutation), tile block by tile block; extents and outer strides are arguments."""
    rank = len(tile)
    turned = tuple(tile[p] for p in permutation)
    text = ["cuda_tile.module @m {", "entry @k(%pa: tile<ptr<D>>, %pb: tile<ptr<D>>,"]
    names = [f"{v}{kind}{d}" for v in "ab" for kind in "ns" for d in range(rank)]
    text.append(", ".join(f"%{n}: tile<i64>" for n in names) + ") {")
    for v, shape in (("a", tile), ("b", turned)):
        strides = ["?"] * rank
        given = [f"%{v}s{d}" for d in range(rank)]
        if inner == "1":
            strides[-1] = given[-1] = "1"
        tensor = f"tensor_view<{'?x' * rank}D, strides=[{','.join(strides)}]>"
        extents = ", ".join(f"%{v}n{d}" for d in range(rank))
        text.append(
            f"%v{v} = make_tensor_view %p{v}, shape = [{extents}], strides = [{', '.join(given)}] : tile<i64> -> {tensor}"
        )
        text.append(
            f"%t{v} = make_partition_view %v{v} : partition_view<tile=({'x'.join(map(str, shape))}), {tensor}>"
        )
    view = "partition_view<tile=({}), tensor_view<{}D, strides=[{}]>>"
    steps = ",".join(["?"] * (rank - 1) + ["1" if inner == "1" else "?"])
    types = [view.format("x".join(map(str, s)), "?x" * rank, steps) for s in (tile, turned)]
    tiles = [f"tile<{'x'.join(map(str, s))}xD>" for s in (tile, turned)]
    at = ["%x", "%y", "%z"][:rank]
    text.append("%x, %y, %z = get_tile_block_id : tile<i32>")
    text.append(
        f"%l, %tk = load_view_tko weak %ta[{', '.join(at)}] : {types[0]}, tile<i32> -> {tiles[0]}, token"
    )
    text.append(f"%r0 = permute %l [{', '.join(map(str, permutation))}] : {tiles[0]} -> {tiles[1]}")
    text.append(f"%r = {op} %r0 : {tiles[1]}" if op else f"%r = reshape %r0 : {tiles[1]} -> {tiles[1]}")
    place = ", ".join(at[p] for p in permutation)
    text.append(f"%s = store_view_tko weak %r, %tb[{place}] : {tiles[1]}, {types[1]}, tile<i32> -> token")
    return "\n".join([*text, "return } }"]).replace("D", dtype)


def run(
    dtype: str,
    shape: tuple[int, ...],
    tile: tuple[int, ...],
    permutation: tuple[int, ...],
    inner: str = "1",
    op: str = "",
) -> None:
    rng = np.random.default_rng(len(shape) * 100 + tile[0])
    a = rng.integers(0 if dtype == "i1" else -100, 2 if dtype == "i1" else 100, shape).astype(DTYPES[dtype])
    b = np.zeros([shape[p] for p in permutation], a.dtype)
    numbers = [
        *a.shape,
        *(s // a.itemsize for s in a.strides),
        *b.shape,
        *(s // b.itemsize for s in b.strides),
    ]
    grid = tuple(-(-n // t) for n, t in zip(shape, tile)) + (1,) * (3 - len(shape))
    launch(permuting(dtype, tile, permutation, inner, op), "k", grid, [a, b, *numbers], target="cpu")
    want = a.transpose(permutation)
    np.testing.assert_array_equal(b, -want if op.startswith("neg") else want)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("tile", [(64, 64), (16, 16), (8, 32), (64, 4), (2, 128)])
def test_a_matrix_of_any_type_is_transposed(dtype: str, tile: tuple[int, int]) -> None:
    run(dtype, (128, 128), tile, (1, 0))


@pytest.mark.parametrize("dtype", ["f64", "f32", "f16", "i8"])
def test_ragged_edges_are_transposed(dtype: str) -> None:
    run(dtype, (77, 131), (32, 64), (1, 0))


@pytest.mark.parametrize("permutation", list(itertools.permutations(range(3))))
@pytest.mark.parametrize("dtype", ["f32", "i8"])
def test_three_dimensions_in_any_order(dtype: str, permutation: tuple[int, ...]) -> None:
    run(dtype, (20, 17, 40), (4, 16, 32), permutation)


@pytest.mark.parametrize("inner", ["1", "?"])
def test_arithmetic_follows_the_transposition(inner: str) -> None:
    run("f32", (50, 70), (32, 32), (1, 0), inner, "negf")


def test_rows_of_a_view_are_transposed_without_a_copy_of_the_tile() -> None:
    """The one tile in memory is for a store that overlaps what is still to be loaded."""
    module = tileiras.load(permuting("f32", (64, 64), (1, 0)))
    module.verify()
    assert Kernel(module.op, "k").cpu_bytes == 64 * 64 * 4
