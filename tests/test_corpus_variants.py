"""Corpus kernels in shapes, types, strides and assumptions that nobody chose: exported anew, run, compared with NumPy.

Needs cuda-tile. A failure prints the variant; once understood it becomes a case of its family.
"""

from __future__ import annotations

import importlib.util
import tempfile
from pathlib import Path

import pytest

np = pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")
pytest.importorskip("hypothesis")

from hypothesis import HealthCheck, given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from tests.corpus import check  # noqa: E402
from tests.corpus.case import Array, Case, integers, like, strided_in, transposed, uniform, wide  # noqa: E402

WITNESSES = [("reference", "sm_90"), ("emulator", "sm_80"), ("emulator", "sm_90")]
if importlib.util.find_spec("llvmlite"):
    WITNESSES.append(("cpu", ""))
POWERS = [1, 2, 4, 8, 16, 32, 64, 128]


def run_variant(case: Case) -> None:
    """Exports one case and runs it on every witness."""
    pytest.importorskip("cuda.tile")
    from tests.corpus.export import export_python

    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        path = Path(folder) / "variant.tilebc"
        export_python([case], path)
        patch.setattr(check, "bytecode_path", lambda _: path)
        for target, gpu_name in WITNESSES:
            outcome = check.launch_case(case, target, gpu_name)
            story = f"{target} {gpu_name} {outcome.word}: {outcome.reason}\n{case.signature} grid {case.grid}"
            assert outcome.word == check.PASS, f"{story}\n{outcome.detail}"


def variant(source: str, kernel: str, signature: list, grid: tuple, inputs, expect, **more) -> Case:
    return Case("variant", "variant", source, kernel, tuple(signature), (*grid, 1, 1)[:3], inputs, expect,
                entry="variant", module="variant", **more)  # fmt: skip


def tiles(extent: int, tile: int) -> int:
    return -(-extent // tile)


def matrix(draw, rng, shape, dtype):
    """(array, its constraint): packed, column-major or with gaps."""
    value = integers(rng, shape, dtype) if dtype[0] in "iu" else uniform(rng, shape, dtype)
    layout = draw(st.sampled_from(["packed", "columns", "gaps"]))
    if layout == "packed":
        return value, Array(dtype, 2, align=draw(st.sampled_from([1, 16])))
    if layout == "columns":
        return transposed(value), Array(dtype, 2, strided=True)
    return strided_in(value, (draw(st.sampled_from([1, 3])), draw(st.sampled_from([1, 2])))), Array(
        dtype, 2, strided=True, index=draw(st.sampled_from(["i32", "i64"]))
    )


def blank(output):
    """The output as it was before any launch: views stay where they are, so an earlier result must go."""
    output[...] = 1
    return output


FUZZ = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
TYPES = st.sampled_from(["f32", "f16", "i32", "i8", "f64", "bf16", "i64"])


@pytest.mark.full
@given(data=st.data())
@FUZZ
def test_add_2d(data: st.DataObject) -> None:
    rng = np.random.default_rng(1)
    dtype = data.draw(TYPES)
    shape = (data.draw(st.integers(1, 70)), data.draw(st.integers(1, 70)))
    tile = (data.draw(st.sampled_from(POWERS)), data.draw(st.sampled_from(POWERS[:7])))
    (x, ax), (y, ay), (z, az) = (matrix(data.draw, rng, shape, dtype) for _ in range(3))

    def added(x, y, z):
        with np.errstate(over="ignore"):
            return {2: x + y}

    grid = (tiles(shape[0], tile[0]), tiles(shape[1], tile[1]))
    version = data.draw(st.sampled_from(["13.1", "13.2", "13.3", "13.4"]))
    run_variant(variant("python/elementwise.py", "add_2d", [ax, ay, az, *tile], grid, lambda _: (x, y, blank(z)), added,
                        version=version))  # fmt: skip


@pytest.mark.full
@given(data=st.data())
@FUZZ
def test_transpose(data: st.DataObject) -> None:
    rng = np.random.default_rng(2)
    dtype = data.draw(TYPES)
    shape = (data.draw(st.integers(1, 90)), data.draw(st.integers(1, 90)))
    tile = (data.draw(st.sampled_from(POWERS[:7])), data.draw(st.sampled_from(POWERS)))
    x, ax = matrix(data.draw, rng, shape, dtype)
    y, ay = matrix(data.draw, rng, shape[::-1], dtype)
    kernel = data.draw(st.sampled_from(["transpose_tiles", "transpose_by_order"]))
    m, n = shape if kernel == "transpose_tiles" else shape[::-1]
    grid = (tiles(m, tile[0]), tiles(n, tile[1]))
    run_variant(variant("python/shapes.py", kernel, [ax, ay, *tile], grid, lambda _: (x, blank(y)), lambda x, y: {1: x.T},
                        version="13.4"))  # fmt: skip


@pytest.mark.full
@given(data=st.data())
@FUZZ
def test_sum(data: st.DataObject) -> None:
    rng = np.random.default_rng(3)
    dtype, axis = data.draw(st.sampled_from(["f32", "i32", "i64", "f64"])), data.draw(st.sampled_from([0, 1]))
    width, kept = data.draw(st.sampled_from([1, 2, 16, 64, 512])), data.draw(st.sampled_from(POWERS[:6]))
    reduced, count = data.draw(st.integers(1, width)), data.draw(st.integers(1, 50))
    shape = (count, reduced) if axis else (reduced, count)
    x, ax = matrix(data.draw, rng, shape, dtype)
    tile = (kept, width) if axis else (width, kept)

    def summed(x, y):
        with np.errstate(over="ignore"):
            return {
                1: (
                    x.sum(axis, dtype=x.dtype)
                    if x.dtype.kind == "i"
                    else wide(x)[0].sum(axis).astype(x.dtype)
                )
            }

    bound = {} if dtype[0] == "i" else {"rtol": 1e-5, "atol": 1e-4}
    run_variant(variant("python/reductions.py", "sum_axis", [ax, Array(dtype, 1), *tile, axis], (tiles(count, kept),),
                        lambda _: (x, like(count, dtype)), summed, version="13.3", **bound))  # fmt: skip


@pytest.mark.full
@given(data=st.data())
@FUZZ
def test_matmul(data: st.DataObject) -> None:
    rng = np.random.default_rng(4)
    dtype = data.draw(st.sampled_from(["f16", "bf16", "f32"]))
    m, n, k = (data.draw(st.integers(1, 70)) for _ in range(3))
    tm, tn, tk = (data.draw(st.sampled_from([4, 8, 16, 32, 64])) for _ in range(3))
    (a, aa), (b, ab) = matrix(data.draw, rng, (m, k), dtype), matrix(data.draw, rng, (k, n), dtype)

    def product(a, b, c):
        return {2: (wide(a)[0] @ wide(b)[0]).astype("f4")}

    run_variant(variant("python/matmul.py", "matmul", [aa, ab, Array("f32", 2), tm, tn, tk], (tiles(m, tm), tiles(n, tn)),
                        lambda _: (a, b, like((m, n))), product, rtol=2e-6, atol=4e-4, version="13.4"))  # fmt: skip
