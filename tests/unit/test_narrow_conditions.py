"""TileAANarrowConditions: what C++ keeps in bytes selects as the reference says, and no byte is left of it."""

from __future__ import annotations

import random
from typing import Any

import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

import numpy as np

import tileiras
from tests.corpus.case import place
from tileiras.tools import opt

N = 64


def program(seed: int) -> str:
    """Random logic of masks in bytes and in 32-bit integers, held against zero at the end."""
    rng = random.Random(seed)
    lines = [
        "%i = iota : tile<64xi32>",
        "%j = constant <i32: 37> : tile<64xi32>",
        "%x = andi %i, %j : tile<64xi32>",
    ]
    live: dict[str, list[str]] = {"i8": [], "i32": []}

    def put(text: str, width: str) -> str:
        name = f"%v{len(lines)}"
        lines.append(f"{name} = {text}")
        live[width].append(name)
        return name

    def narrow(text: str) -> str:
        name = f"%v{len(lines)}"
        lines.append(f"{name} = {text}")
        return name

    for value in (0, 1):
        for w in live:
            put(f"constant <{w}: {value}> : tile<64x{w}>", w)
    for _ in range(14):
        w = rng.choice(("i8", "i32"))
        kind = rng.randrange(4)
        t = f"tile<64x{w}>"
        if kind == 0:
            bound = narrow(f"constant <i32: {rng.randrange(40)}> : tile<64xi32>")
            p = narrow(
                f"cmpi {rng.choice(('less_than', 'not_equal'))} %x, {bound}, signed : tile<64xi32> -> tile<64xi1>"
            )
            put(f"exti {p} {rng.choice(('unsigned', 'unsigned', 'signed'))} : tile<64xi1> -> {t}", w)
        elif kind == 1:
            a, b = rng.choice(live[w]), rng.choice(live[w])
            put(f"{rng.choice(('andi', 'ori', 'xori'))} {a}, {b} : {t}", w)
        elif kind == 2:
            put(f"exti {rng.choice(live['i8'])} unsigned : tile<64xi8> -> tile<64xi32>", "i32")
        else:
            put(f"trunci {rng.choice(live['i32'])} : tile<64xi32> -> tile<64xi8>", "i8")
    w = rng.choice(("i8", "i32"))
    t = f"tile<64x{w}>"
    zero = narrow(f"constant <{w}: 0> : {t}")
    p = narrow(
        f"cmpi {rng.choice(('equal', 'not_equal'))} {live[w][-1]}, {zero}, signed : {t} -> tile<64xi1>"
    )
    body = "\n".join(lines)
    return f"""cuda_tile.module @m {{ entry @k(%o: tile<ptr<i32>>) {{
{body}
%r = select {p}, %i, %j : tile<64xi1>, tile<64xi32>
%b = reshape %o : tile<ptr<i32>> -> tile<1xptr<i32>>
%c = broadcast %b : tile<1xptr<i32>> -> tile<64xptr<i32>>
%d = offset %c, %i : tile<64xptr<i32>>, tile<64xi32> -> tile<64xptr<i32>>
%e = store_ptr_tko weak %d, %r : tile<64xptr<i32>>, tile<64xi32> -> token
return }} }}"""


@pytest.mark.parametrize("seed", range(24))
def test_masks_select_as_the_reference_says(seed: int) -> None:
    found: list[Any] = []
    for target in ("reference", "emulator"):
        out = place(np.zeros(N, np.int32))
        tileiras.launch(program(seed), "k", grid=(1, 1, 1), args=[out], target=target, gpu_name="sm_80")
        found.append(np.array(out))
    assert np.array_equal(*found)


def test_no_byte_is_left_of_a_mask(capsys: pytest.CaptureFixture[str], tmp_path: Any) -> None:
    source = tmp_path / "k.tileir"
    source.write_text(
        """cuda_tile.module @m { entry @k(%o: tile<ptr<i32>>, %n: tile<i32>) {
%i = iota : tile<64xi32>
%zero = constant <i8: 0> : tile<64xi8>
%five = constant <i32: 5> : tile<64xi32>
%nine = constant <i32: 9> : tile<64xi32>
%p = cmpi less_than %i, %nine, signed : tile<64xi32> -> tile<64xi1>
%q = cmpi greater_than %i, %five, signed : tile<64xi32> -> tile<64xi1>
%a = exti %p unsigned : tile<64xi1> -> tile<64xi8>
%b = exti %q unsigned : tile<64xi1> -> tile<64xi8>
%c = andi %a, %b : tile<64xi8>
%m = cmpi not_equal %c, %zero, signed : tile<64xi8> -> tile<64xi1>
%r = select %m, %i, %five : tile<64xi1>, tile<64xi32>
%s = reshape %o : tile<ptr<i32>> -> tile<1xptr<i32>>
%t = broadcast %s : tile<1xptr<i32>> -> tile<64xptr<i32>>
%u = offset %t, %i : tile<64xptr<i32>>, tile<64xi32> -> tile<64xptr<i32>>
%v = store_ptr_tko weak %u, %r : tile<64xptr<i32>>, tile<64xi32> -> token
return } }"""
    )
    assert opt.main(["--pass", "ConvertCudaTileToTileAA,TileAANarrowConditions", str(source)]) == 0
    out = capsys.readouterr().out
    assert "i8" not in out and "nv_tileaa.andi" in out


@pytest.mark.parametrize(("count", "operand"), [(60, "%a{0}"), (3000, "%a0")])
def test_long_logic_takes_one_look_at_each_step(count: int, operand: str) -> None:
    """Neither every path to a mask used twice is gone, nor does a chain nest calls."""
    steps = "\n".join(f"%a{k + 1} = ori %a{k}, {operand.format(k)} : tile<64xi8>" for k in range(count))
    text = f"""cuda_tile.module @m {{ entry @k(%o: tile<ptr<i32>>) {{
%i = iota : tile<64xi32>
%z = constant <i8: 0> : tile<64xi8>
%n = constant <i32: 5> : tile<64xi32>
%p = cmpi less_than %i, %n, signed : tile<64xi32> -> tile<64xi1>
%a0 = exti %p unsigned : tile<64xi1> -> tile<64xi8>
{steps}
%m = cmpi not_equal %a{count}, %z, signed : tile<64xi8> -> tile<64xi1>
%r = select %m, %i, %n : tile<64xi1>, tile<64xi32>
%s = reshape %o : tile<ptr<i32>> -> tile<1xptr<i32>>
%t = broadcast %s : tile<1xptr<i32>> -> tile<64xptr<i32>>
%u = offset %t, %i : tile<64xptr<i32>>, tile<64xi32> -> tile<64xptr<i32>>
%v = store_ptr_tko weak %u, %r : tile<64xptr<i32>>, tile<64xi32> -> token
return }} }}"""
    assert ".entry k" in tileiras.compile(text, "sm_80", emit="ptx").ptx
