"""Rules of the cuda_tile verifier about types by themselves, conversions, assumptions and empty bodies."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from contract.verify_kit import accepted, refused

from tileiras.compiler.dialects.cuda_tile import diags as D
from tileiras.compiler.dialects.cuda_tile.verify import check_div_by, reword
from tileiras.compiler.dialects.cuda_tile.verify_arith import check_ftof
from tileiras.compiler.dialects.cuda_tile.verify_types import type_problem
from tileiras.compiler.ir import types as T
from tileiras.compiler.ir.verify import Invalid

ELEMENTS = (
    "f16 or bf16 or f32 or tf32 or f64 or f8E4M3FN or f8E5M2 or f8E8M0FNU or f4E2M1FN "
    "or i1 or i8 or i16 or i32 or i64"
)
SCALARS = (
    T.F16, T.BF16, T.F32, T.TF32, T.F64, T.F8E4M3FN, T.F8E5M2, T.F8E8M0FNU, T.F4E2M1FN,
    T.I1, T.I8, T.I16, T.I32, T.I64,
)  # fmt: skip
PTR = T.Ptr(T.F32, None)
MODES = ("nearest_even", "zero", "negative_inf", "positive_inf")


def text_of(problem: Invalid | None) -> str:
    """The whole message of a rule that is broken."""
    assert problem is not None
    if problem.real:
        return problem.real[0]
    return problem.diag.text.format(**problem.facts)


def view(shape: tuple[int | None, ...], strides: tuple[int | None, ...], elem: Any = T.F32) -> Any:
    return T.TensorView(elem, shape, strides, None)


# ---- elements


@pytest.mark.parametrize("elem", SCALARS, ids=str)
def test_elements_there_are(elem: T.Scalar) -> None:
    pointer = T.Ptr(elem, None)
    for type in (pointer, T.TileType(elem, (4,)), T.TileType(pointer, (4,)), view((4,), (1,), elem)):
        assert type_problem(type) is None, type


@pytest.mark.parametrize("pointee", [T.I4, PTR, T.TOKEN], ids=str)
def test_pointees(pointee: Any) -> None:
    text = f"failed to verify 'pointeeType': {ELEMENTS}"
    for type in (T.Ptr(pointee, None), T.TileType(T.Ptr(pointee, None), (4,))):
        problem = type_problem(type)
        assert text_of(problem) == text and problem is not None and not problem.prefix


@pytest.mark.parametrize("elem", [T.TOKEN, view((4,), (1,)), T.TileType(T.F32, ())], ids=str)
def test_elements_of_tiles(elem: Any) -> None:
    text = f"failed to verify 'elementType': {ELEMENTS} or Pointer type"
    assert text_of(type_problem(T.TileType(elem, (4,)))) == text


@pytest.mark.parametrize("elem", [T.I4, PTR, T.TOKEN], ids=str)
def test_elements_of_tensor_views(elem: Any) -> None:
    text = f"failed to verify 'elementType': {ELEMENTS}"
    assert text_of(type_problem(view((4,), (1,), elem))) == text


def test_halves_of_bytes_come_in_pairs() -> None:
    assert text_of(type_problem(T.TileType(T.F4E2M1FN, ()))) == (
        "F4E2M1FN tiles must have an even number of elements"
    )
    assert type_problem(T.TileType(T.F4E2M1FN, (1, 2))) is None
    assert type_problem(T.TileType(T.F8E5M2, ())) is None


def test_dimensions_of_tiles() -> None:
    for shape, text in (
        ((4, 0), "all dimensions must be positive constants, got 4, 0"),
        ((4, -2), "all dimensions must be positive constants, got 4, -2"),
        ((6, 4), "all dimensions must be powers of two, got 6, 4"),
        ((1 << 12, 1 << 13), "tile would exceed the maximum of 16777216 elements"),
    ):
        assert text_of(type_problem(T.TileType(T.F32, shape))) == text
    for shape in ((4, 1), (4, 8), (1 << 12, 1 << 12)):
        assert type_problem(T.TileType(T.F32, shape)) is None


# ---- tensor views


def test_extents_and_strides_are_positive() -> None:
    for value in (0, -1):
        text = f"strides must have strictly positive constant values but got [?, {value}]"
        assert text_of(type_problem(view((4, 4), (None, value)))) == text
        text = f"dimensions must have strictly positive constant sizes but got [?, {value}]"
        assert text_of(type_problem(view((None, value), (4, 1)))) == text
    for strides in ((None, 1), (1, None), (1, 1), (None, None)):
        assert type_problem(view((4, None), strides)) is None
        assert type_problem(view((1, 1), strides)) is None


def test_as_many_strides_as_extents() -> None:
    text = "expected shape and stride to be of same rank but got shape of rank 2 and stride of rank 1"
    assert text_of(type_problem(view((4, 4), (1,)))) == text
    assert type_problem(view((4, 4), (4, 1))) is None


# ---- views of tiles


def strided(*traversal: int) -> Any:
    return T.StridedView((4, 8), traversal, view((64, 64), (64, 1)), (0, 1), None)


def test_traversal_strides() -> None:
    for count in ((4,), (4, 8, 1), ()):
        text = f"expected 2 traversal strides, got {len(count)}"
        assert text_of(type_problem(strided(*count))) == text
    for value in (0, -1):
        text = f"traversal strides must be strictly positive but got [4, {value}]"
        assert text_of(type_problem(strided(4, value))) == text
    for sound in ((1, 1), (4, 8), (3, 5)):
        assert type_problem(strided(*sound)) is None


def test_sparse_dimension() -> None:
    for dim in (-1, 2, 3):
        text = f"sparse dimension must be within [0, 2), got {dim}"
        assert text_of(type_problem(T.GatherScatterView((4, 8), view((64, 64), (64, 1)), dim, None))) == text
    for dim in (0, 1):
        assert type_problem(T.GatherScatterView((4, 8), view((64, 64), (64, 1)), dim, None)) is None


# ---- conversions of floats


def convert(source: T.Scalar, target: T.Scalar, mode: str) -> Invalid | None:
    """What check_ftof says about a scalar conversion."""
    op: Any = SimpleNamespace(
        operands=[SimpleNamespace(type=T.TileType(source, ()))],
        results=[SimpleNamespace(type=T.TileType(target, ()))],
        attr=lambda name: mode if name == "rounding_mode" else None,
    )
    try:
        check_ftof(op)
    except Invalid as problem:
        return problem
    return None


@pytest.mark.parametrize(
    ("source", "target", "modes"),
    [
        (T.F64, T.F32, MODES),
        (T.F64, T.F16, MODES[:2]),
        (T.F64, T.BF16, MODES[:2]),
        (T.F64, T.TF32, MODES[:2]),
        (T.F32, T.F64, (*MODES, "nearest_away")),
        (T.F16, T.F32, (*MODES, "nearest_away")),
        (T.F32, T.F16, MODES[:2]),
        (T.F16, T.BF16, MODES[:2]),
        (T.F32, T.TF32, (*MODES[:2], "nearest_away")),
        (T.F16, T.TF32, (*MODES, "nearest_away")),
        (T.TF32, T.F32, MODES[:2]),
        (T.F8E4M3FN, T.F32, MODES[:2]),
        (T.F64, T.F8E5M2, MODES[:1]),
        (T.F32, T.F8E4M3FN, MODES[:1]),
        (T.F32, T.F4E2M1FN, MODES[:1]),
        (T.F8E8M0FNU, T.F64, (*MODES, "nearest_away")),
        (T.F8E8M0FNU, T.F32, MODES[:2]),
        (T.F64, T.F8E8M0FNU, ("zero", "positive_inf")),
        (T.F32, T.F8E8M0FNU, ("zero", "positive_inf")),
    ],
    ids=str,
)
def test_rounding_of_a_conversion(source: T.Scalar, target: T.Scalar, modes: tuple[str, ...]) -> None:
    for mode in (*MODES, "nearest_away", "approx"):
        problem = convert(source, target, mode)
        if mode in modes:
            assert problem is None, mode
        elif target is T.F8E8M0FNU:
            assert text_of(problem) == (
                "invalid rounding mode specified for conversion to f8E8M0FNU. "
                "Only 'zero' and 'positive_inf' are supported"
            )
        else:
            assert problem is not None and problem.diag is D.FTOF_ROUNDING, mode
            assert problem.real == ("invalid rounding mode specified. Only 'nearest_even' is supported",)


def test_a_conversion_converts() -> None:
    for elem in (T.F64, T.F8E8M0FNU):
        problem = convert(elem, elem, "zero")
        assert problem is not None and problem.diag is D.FTOF_IDENTITY
        assert problem.real == ("converting tiles must not be a no-op",)


def test_rounding_of_f64_in_a_kernel() -> None:
    line = "%r = cuda_tile.ftof %f64 rounding<{}> : tile<f64> -> tile<{}>"
    real = "invalid rounding mode specified. Only 'nearest_even' is supported"
    for mode in ("negative_inf", "positive_inf"):
        refused(line.format(mode, "f16"), "ftof requires nearest-even rounding", "ftof", real=real)
        accepted(line.format(mode, "f32"))


# ---- assumptions


def divided(
    value: Any,
    divisor: int = 16,
    every: int | None = None,
    along: int | None = None,
    tile: bool | None = None,
) -> str:
    """What check_div_by says; empty when it says nothing. `tile`: whether integers or pointers are in it."""
    if tile is None:
        tile = isinstance(value, T.TileType)
    try:
        check_div_by(T.DivBy(divisor, every, along), value, tile)
    except Invalid as problem:
        return text_of(problem)
    return ""


TILE = T.TileType(T.I32, (4, 8))
DIV_BY = "'cuda_tile.div_by'"


def test_what_is_divided() -> None:
    text = f"{DIV_BY} is valid only for tile of integer/pointer or tensor_view values"
    assert divided(T.TOKEN) == divided(T.TileType(T.F32, (4, 8)), tile=False) == text
    assert divided(TILE) == divided(view((4,), (1,))) == divided(T.TileType(T.I32, ())) == ""


@pytest.mark.parametrize("value", [TILE, view((4,), (1,))], ids=str)
def test_divisors(value: Any) -> None:
    for divisor in (-4, -1, 0, 3, 6, (1 << 62) + 1, (1 << 63) - 1):
        assert divided(value, divisor) == f"{DIV_BY} divisor must be a power of 2", divisor
    assert divided(value, 1 << 63) == f"{DIV_BY} divisor is too large"
    for divisor in (1, 2, 1 << 61, 1 << 62):
        assert divided(value, divisor) == "", divisor


def test_every_goes_with_along() -> None:
    text = f"{DIV_BY} 'every'/'along' must be used in combination"
    for value in (TILE, view((4,), (1,))):
        assert divided(value, 16, 2, None) == divided(value, 16, None, 0) == text
    assert divided(TILE, 16, 2, 0) == divided(TILE, 16, None, None) == ""


def test_every_and_along_are_of_a_tile_with_dimensions() -> None:
    text = f"{DIV_BY} 'every'/'along' cannot be used if the constrained value is a "
    assert divided(view((4,), (1,)), 16, 2, 0) == text + "tensor_view"
    assert divided(T.TileType(T.I32, ()), 16, 0, 0) == text + "0D tile"
    assert divided(T.TileType(T.I32, (1,)), 16, 0, 0) == ""


def test_along_is_a_dimension() -> None:
    for along in (-1, 2, 3):
        text = f"{DIV_BY} every_dim ({along}) must be >= 0 and < tile rank (2)"
        assert divided(TILE, 16, 1, along) == text
    assert divided(TILE, 16, 1, 0) == divided(TILE, 16, 1, 1) == ""


@pytest.mark.parametrize(("along", "size"), [(0, 4), (1, 8)])
def test_every_is_at_most_the_size(along: int, size: int) -> None:
    text = f"expected {DIV_BY} every_dim to be within 0 and the size of the respective dimension ({size})"
    assert divided(TILE, 16, -1, along) == divided(TILE, 16, size + 1, along) == text
    assert divided(TILE, 16, 0, along) == divided(TILE, 16, size, along) == ""


# ---- bodies without an end


@pytest.mark.parametrize(
    ("name", "count"), [("reduce", 1), ("reduce", 2), ("scan", 3), ("for", 3), ("loop", 0)]
)
def test_what_an_empty_body_lacks(name: str, count: int) -> None:
    op: Any = SimpleNamespace(spec=SimpleNamespace(name=name), operands=[None] * count)
    problem = reword(op, "empty", "it is empty")
    assert problem is not None and problem.diag is D.EMPTY_BLOCK
    also = (
        "region #0 ('body') failed to verify constraint: region with 1 blocks",
        f"expect number of terminators operands (0) to match number of operands ({count})",
    )
    assert problem.real == (
        "invalid block structure: it is empty",
        *(also if name in ("reduce", "scan") else ()),
    )
    assert reword(op, "parent", "it is empty") is None


@pytest.mark.parametrize("op", ["reduce", "scan"])
def test_an_empty_body_in_a_kernel(op: str) -> None:
    reverse = ", reverse = false" if op == "scan" else ""
    result = "tile<8xi32>" if op == "scan" else "tile<i32>"
    text = (
        f'%r = "cuda_tile.{op}"(%i32_8) <{{dim = 0 : i32, identities = [0 : i32]{reverse}}}> ({{\n'
        f"^bb0(%a: tile<i32>, %b: tile<i32>):\n  BODY\n}}) : (tile<8xi32>) -> {result}"
    )
    real = "expect number of terminators operands (0) to match number of operands (1)"
    refused(
        text.replace("BODY", ""), "expect non-empty block", op, real=real, text_only="no empty block there"
    )
    accepted(text.replace("BODY", '"cuda_tile.yield"(%a) : (tile<i32>) -> ()'))
