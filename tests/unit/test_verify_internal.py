"""Rules of the verifiers of nv_tileaa and nv_tileas: what is refused, in which words, and what stands next to it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from contract.tileas import CREATE, YIELD, V, consume, function, load, loop, module, produce, transfer

from tileiras.compiler.dialects.nv_tileaa import verify as tileaa
from tileiras.compiler.dialects.nv_tileaa.kernel_spec import read
from tileiras.compiler.dialects.nv_tileaa.types import TileAttr
from tileiras.compiler.dialects.nv_tileas import verify as tileas
from tileiras.compiler.dialects.nv_tileas import verify_copies as copies
from tileiras.compiler.dialects.nv_tileas import verify_pipelines as pipelines
from tileiras.compiler.dialects.nv_tileas.types import TmaDescriptor
from tileiras.compiler.ir import types as T
from tileiras.compiler.ir.verify import Invalid, verify
from tileiras.diag import Sink


def op(
    operands: Any = (), results: Any = (), attrs: Any = None, regions: Any = (), **groups: Any
) -> SimpleNamespace:
    """What a check sees of an op; operands and results by their types."""
    return SimpleNamespace(
        operands=[SimpleNamespace(type=t, op=None) for t in operands],
        results=[SimpleNamespace(type=t) for t in results],
        attrs=attrs or {},
        regions=regions,
        block=None,
        spec=SimpleNamespace(name=""),
        group=lambda name: groups[name],
    )


def said(problem: Invalid | None) -> str:
    return "" if problem is None else problem.diag.text.format(**problem.facts)


def refusal(check: Any, subject: Any) -> str:
    """What the check says, "" where it has nothing to say."""
    try:
        check(subject)
    except Invalid as problem:
        return said(problem)
    return ""


def verified(text: str) -> list[str]:
    sink = Sink()
    assert verify(load(text, sink), sink) is not bool(sink.emitted)
    return [emitted.text for emitted in sink.emitted]


# nv_tileas


def tma(*box: int, space: str = "shared") -> str:
    return refusal(
        copies.check_tma_load, op([TmaDescriptor(T.F32, box, space)], coordinates=[None] * len(box))
    )


@pytest.mark.parametrize("box", [(1,), (256,), (1, 256), (8, 8, 8, 8, 8)])
def test_boxes_that_fit(box: tuple[int, ...]) -> None:
    assert tma(*box) == ""


@pytest.mark.parametrize(
    ("box", "what"),
    [
        ((), "rank 0, expected 1 to 5"),
        ((1,) * 6, "rank 6, expected 1 to 5"),
        ((0,), "extents [0], each must be from 1 to 256"),
        ((257,), "extents [257], each must be from 1 to 256"),
        ((64, 257), "extents [64, 257], each must be from 1 to 256"),
        ((0, 64), "extents [0, 64], each must be from 1 to 256"),
    ],
)
def test_boxes_that_do_not(box: tuple[int, ...], what: str) -> None:
    assert tma(*box) == f"operand #0: box of the descriptor has {what}"


def test_a_box_ends_in_shared_memory() -> None:
    want = "operand #0: the descriptor's destination lies in 'global', expected 'shared'"
    assert tma(64, space="global") == want


@pytest.mark.parametrize("got", [0, -1, 17, None, 2.0])
def test_depths_that_cannot_be(got: object) -> None:
    want = f"attribute 'depth' must be from 1 to 16, but got {got}"
    assert refusal(pipelines.check_create, op(attrs={"depth": got})) == want


@pytest.mark.parametrize("depth", [1, 2, 16])
def test_depths_that_can(depth: int) -> None:
    assert refusal(pipelines.check_create, op(attrs={"depth": depth})) == ""


def test_a_depth_is_not_left_out() -> None:
    want = "attribute 'depth' must be from 1 to 16, but got None"
    assert refusal(pipelines.check_create, op()) == want


def region(*yielded: Any, args: Any = ()) -> list[Any]:
    block = SimpleNamespace(args=[SimpleNamespace(type=t) for t in args], ops=[op(yielded)])
    return [SimpleNamespace(block=block, blocks=[block])]


@pytest.mark.parametrize(
    "check", [pipelines.check_yield, pipelines.check_transfer, pipelines.check_consume_one]
)
def test_a_region_yields_the_results(check: Any) -> None:
    assert refusal(check, op(results=[T.F32, T.I32], regions=region(T.F32, T.I32))) == ""
    assert refusal(check, op(results=[], regions=region())) == ""
    got = refusal(check, op(results=[T.F32, T.I32], regions=region(T.I32)))
    assert got == "expects the region to yield [f32, i32], but got: [i32]"
    got = refusal(check, op(results=[T.F32], regions=region()))
    assert got == "expects the region to yield [f32], but got: []"


@pytest.mark.parametrize("check", [pipelines.check_transfer, pipelines.check_produce_one])
def test_a_producer_takes_no_arguments(check: Any) -> None:
    assert refusal(check, op(regions=region())) == ""
    got = refusal(check, op(regions=region(args=[T.F32, T.I32])))
    assert got == "expects a region without arguments, but got [f32, i32]"


def test_pipelines_in_a_module() -> None:
    def kernel(body: str) -> str:
        return module(function(f"%q = {CREATE}\n" + loop(body)))

    assert verified(kernel(transfer())) == verified(kernel(produce() + "\n" + consume())) == []
    assert [t.partition("op ")[2] or t for t in verified(kernel(produce()))] == [
        "has no consume_one on its pipeline"
    ]
    wrong = transfer().replace(YIELD, YIELD.replace("%x", "%lo").replace(V, "tensor<i32, #s>"))
    (text,) = verified(kernel(wrong))
    assert "expects the region to yield [" in text and text.count("tensor<i32") == 1


def body_of(*stages: object, needs: Any = ()) -> Any:
    """A loop of two stages whose ops have the stages given; `needs` are (user, made by)."""
    block = SimpleNamespace(args=[], ops=[])
    for stage in stages:
        made = op(attrs={} if stage is None else {"stage": stage})
        made.block, made.spec = block, SimpleNamespace(full_name="nv_tileas.negf")
        block.ops.append(made)
    for user, maker in needs:
        block.ops[user].operands.append(SimpleNamespace(type=T.F32, op=block.ops[maker]))
    block.ops.append(op())
    region = SimpleNamespace(block=block)
    return op(attrs={"schedule": {"stages": 2}}, regions=[region])


@pytest.mark.parametrize("got", [2, -1, "x"])
def test_a_stage_is_one_of_the_schedule(got: object) -> None:
    want = f"op 'nv_tileas.negf' at position 1 of the schedule region has stage {got}, expected 0 to 1"
    assert refusal(tileas.check_schedule, body_of(0, got)) == want
    assert refusal(tileas.check_schedule, body_of(None, 0, 1)) == ""
    loose = body_of(0, got)
    loose.attrs = {}
    assert refusal(tileas.check_schedule, loose) == "", "a loop without a schedule"


def test_a_stage_does_not_come_before_what_it_uses() -> None:
    want = "op 'nv_tileas.negf' at position 1 of the schedule region has stage 0, but uses a value of stage 1"
    assert refusal(tileas.check_schedule, body_of(1, 0, needs=[(1, 0)])) == want
    assert refusal(tileas.check_schedule, body_of(1, 0)) == "", "nothing is used"
    assert refusal(tileas.check_schedule, body_of(1, 1, needs=[(1, 0)])) == ""
    assert refusal(tileas.check_schedule, body_of(0, 1, needs=[(1, 0)])) == ""


# nv_tileaa


@pytest.mark.parametrize(
    ("shape", "listed"),
    [((0,), "0"), ((-2,), "-2"), ((3,), "3"), ((4, 6), "4, 6"), ((12, 8), "12, 8")],
)
def test_shapes_that_are_no_powers(shape: tuple[int, ...], listed: str) -> None:
    problem = tileaa.type_problem(T.TensorType(T.F32, shape, None))
    assert said(problem) == f"tensor dimensions must be powers of two, got [{listed}]"
    assert problem is not None and problem.prefix is False


@pytest.mark.parametrize("shape", [(), (1,), (2,), (128,), (4, 8)])
def test_shapes_that_are(shape: tuple[int, ...]) -> None:
    assert tileaa.type_problem(T.TensorType(T.F32, shape, None)) is None
    assert tileaa.type_problem(T.I32) is None, "no tensor"


@pytest.mark.parametrize("shape", [(4,), (1,), ()])
def test_constants_fill_their_result(shape: tuple[int, ...]) -> None:
    result = T.TensorType(T.F32, (4,), None)
    value = SimpleNamespace(type=T.TileType(T.F32, shape))
    assert refusal(tileaa.check_constant, op(results=[result], attrs={"value": value})) == ""


@pytest.mark.parametrize(
    ("elem", "shape", "got"),
    [
        (T.F32, (2,), "tile<2xf32>"),
        (T.F32, (8,), "tile<8xf32>"),
        (T.I32, (4,), "tile<4xi32>"),
        (T.I32, (), "tile<i32>"),
        (None, (), "None"),
    ],
)
def test_constants_that_do_not(elem: Any, shape: tuple[int, ...], got: str) -> None:
    result = T.TensorType(T.F32, (4,), None)
    value = SimpleNamespace(type=T.TileType(elem, shape)) if elem else None
    text = refusal(tileaa.check_constant, op(results=[result], attrs={"value": value}))
    assert text == f"attribute 'value' of type '{got}' does not fill the result '{result}'"


def test_a_constant_is_a_tensor() -> None:
    value = SimpleNamespace(type=T.TileType(T.F32, ()))
    text = refusal(tileaa.check_constant, op(results=[T.F32], attrs={"value": value}))
    assert text == "attribute 'value' of type 'tile<f32>' does not fill the result 'f32'"


POINTER = T.Ptr(T.F32)


def aligned(elem: Any, alignment: int, shape: tuple[int, ...] = (4,)) -> str:
    tensor = T.TensorType(elem, (4,), None)
    return refusal(tileaa.check_tile_attr, op(results=[tensor], attrs={"tile": TileAttr(shape, alignment)}))


@pytest.mark.parametrize(("elem", "size"), [(T.F32, 4), (T.F16, 2), (T.I64, 8), (POINTER, 8)])
def test_an_alignment_holds_an_element(elem: Any, size: int) -> None:
    assert aligned(elem, size) == aligned(elem, 2 * size) == ""
    want = f"tile attribute alignment must be a power of two of at least the element size {size}, got "
    for got in (size // 2, 0, 3 * size, size + 1):
        assert aligned(elem, got) == want + str(got)


def test_a_tile_has_the_rank_of_the_tensor() -> None:
    assert aligned(T.F32, 4, (2,)) == ""
    assert aligned(T.F32, 4, (2, 2)) == "tile attribute has rank 2, but the tensor has rank 1"
    assert refusal(tileaa.check_tile_attr, op(results=[T.TOKEN], attrs={"tile": TileAttr((2, 2), 3)})) == ""


def test_a_function_has_a_body() -> None:
    empty = op(regions=[SimpleNamespace(blocks=[])])
    assert refusal(tileaa.check_func, empty) == (
        "region #0 failed to verify constraint: region with 1 blocks"
    )
    assert refusal(tileaa.check_func, op(regions=region())) == ""


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        ({"num_warps": 4}, ""),
        (None, ""),
        ({"num_warps": 3}, "kernel_spec entry 'num_warps' is invalid: 3"),
        ({}, "kernel_spec entry 'num_warps' is invalid: missing"),
        ({"num_warps": 4, "occupancy": 33}, "kernel_spec entry 'occupancy' is invalid: 33"),
    ],
)
def test_the_spec_of_a_function(spec: Any, want: str) -> None:
    func = op(attrs={} if spec is None else {"nv_tileaa.kernel_spec": read(spec)}, regions=region())
    assert refusal(tileaa.check_func, func) == want
