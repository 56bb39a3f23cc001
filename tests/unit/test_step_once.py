"""TileAAStepOnce: products outside of loops multiply in tensor memory where that pays, and what else a kernel does stays."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

import numpy as np

import tileiras
from tests.corpus.check import PASS, launch_case
from tests.corpus.export import bytecode_path
from tests.corpus.registry import CASES
from tileiras.tools import opt

OPTIONS: dict[str, Any] = {"gpu_name": "sm_100", "launch_abi": "simt", "emit": "ptx"}
ONCE = [name for name, case in CASES.items() if case.family == "once"]
MOVED = [name for name in ONCE if name != "once_cross_few"]
LOADED = {"x": (128, 64), "y": (64, 64), "z": (64, 64)}
TYPES = {name: f"tile<{rows}x{columns}xf16>" for name, (rows, columns) in LOADED.items()}
SUM = "tile<128x64xf32>"


def kernel(body: str, loads: str = "xyz", kept: str = "") -> str:
    """A kernel with tiles %x, %y and %z, of which `loads` are loaded in front of the body, that stores %sum. `kept`: a second
    result."""
    views = "".join(
        f"""
        %q{name} = assume div_by<16>, %p{name} : tile<ptr<f16>>
        %v{name} = make_tensor_view %q{name}, shape = [{rows}, 64], strides = [64, 1] : tensor_view<{rows}x64xf16, strides=[64,1]>
        %t{name} = make_partition_view %v{name} : partition_view<tile=({rows}x64), tensor_view<{rows}x64xf16, strides=[64,1]>>"""
        for name, (rows, _) in LOADED.items()
    )
    results = "".join(
        f"""
        %v{name} = make_tensor_view %p{name}, shape = [128, 64], strides = [64, 1] : tensor_view<128x64xf32, strides=[64,1]>
        %t{name} = make_partition_view %v{name} : partition_view<tile=(128x64), tensor_view<128x64xf32, strides=[64,1]>>"""
        for name in "or"
    )
    return f"""
    cuda_tile.module @m {{
      entry @k(%px: tile<ptr<f16>>, %py: tile<ptr<f16>>, %pz: tile<ptr<f16>>, %po: tile<ptr<f32>>, %pr: tile<ptr<f32>>,
               %n: tile<i32>) {{
        %t = make_token : token
        %zero = constant <i32: 0> : tile<i32>
        %none = constant <f32: 0.0> : {SUM}{views}{results}
        {"".join(load(name) for name in loads)}
        {body}
        {store("sum", "o")}
        {store(kept, "r") if kept else ""}
        return
      }}
    }}
    """


def load(name: str, token: str = "t") -> str:
    rows = LOADED[name][0]
    view = f"partition_view<tile=({rows}x64), tensor_view<{rows}x64xf16, strides=[64,1]>>"
    place = f"%t{name}[%zero, %zero] token = %{token}"
    return f"%{name}, %u{name} = load_view_tko weak {place} : {view}, tile<i32> -> {TYPES[name]}, token\n"


def store(value: str, to: str, token: str = "t") -> str:
    view = "partition_view<tile=(128x64), tensor_view<128x64xf32, strides=[64,1]>>"
    return f"%s{to} = store_view_tko weak %{value}, %t{to}[%zero, %zero] token = %{token} : {SUM}, {view}, tile<i32> -> token\n"


def product(result: str, left: str, right: str, sum: str = "none") -> str:
    return f"%{result} = mmaf %{left}, %{right}, %{sum} : {TYPES['x']}, {TYPES['y']}, {SUM}\n"


CHAIN = product("s", "x", "y") + f"%p = ftof %s : {SUM} -> {TYPES['x']}\n" + product("sum", "p", "z")


def launched(text: str, seed: int, n: int = 1, **options: Any) -> tuple[Any, ...]:
    """(x, y, z, what is stored in o, in r) of a launch that is checked."""
    rng = np.random.default_rng(seed)
    x, y, z = (rng.integers(-2, 3, shape).astype(np.float16) for shape in LOADED.values())
    out, kept = np.full((2, 128, 64), 7, np.float32)
    program = tileiras.compile(text, **OPTIONS, **options)
    tileiras.launch(
        program,
        "k",
        1,
        [x, y, z, out, kept, np.int32(n)],
        target="emulator",
        gpu_name="sm_100",
        check=True,
        seed=seed,
    )
    return x.astype(np.float32), y.astype(np.float32), z.astype(np.float32), out, kept


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", MOVED)
def test_products_outside_of_loops_add_up_in_tensor_memory(name: str) -> None:
    ptx = tileiras.compile(bytecode_path(CASES[name]), **OPTIONS).ptx
    assert "tcgen05.mma" in ptx and "mma.sync" not in ptx
    for seed in range(2):
        outcome = launch_case(CASES[name], "emulator", "sm_100", check=True, seed=seed)
        assert outcome.word == PASS, outcome.detail


@pytest.mark.parametrize("name", ("once_cross", "once_in_a_row"))
def test_they_do_not_where_tensor_memory_is_left_out(name: str) -> None:
    disabled = tileiras.compile(bytecode_path(CASES[name]), **OPTIONS, disable=["tcgen05"])
    assert "tcgen05" not in disabled.ptx and "mma.sync" in disabled.ptx
    assert launch_case(CASES[name], "emulator", "sm_100", disable=["tcgen05"]).word == PASS


def test_results_in_the_step_are_there_behind_it() -> None:
    text = kernel(CHAIN, kept="s")
    assert "mma.sync" not in tileiras.compile(text, **OPTIONS).ptx
    for seed in range(3):
        x, y, z, out, kept = launched(text, seed)
        assert (kept == x @ y).all() and (out == (x @ y) @ z).all()


def test_a_product_that_goes_on_where_another_one_ended_shares_its_sum() -> None:
    text = kernel(product("s", "x", "y") + product("sum", "x", "z", "s"))
    assert "mma.sync" not in tileiras.compile(text, **OPTIONS).ptx
    for seed in range(3):
        x, y, z, out, _ = launched(text, seed)
        assert (out == x @ y + x @ z).all()


def test_products_of_a_branch_multiply_in_it() -> None:
    body = f"""
    %one = constant <i32: 1> : tile<i32>
    %some = cmpi equal %n, %one, signed : tile<i32> -> tile<i1>
    %sum = if %some -> ({SUM}) {{
      {load("x")}{load("y")}{product("s", "x", "y")}
      yield %s : {SUM}
    }} else {{
      yield %none : {SUM}
    }}
    """
    text = kernel(body, loads="")
    assert "mma.sync" not in tileiras.compile(text, **OPTIONS).ptx
    for seed in range(2):
        x, y, _, out, _ = launched(text, seed)
        assert (out == x @ y).all()
        assert (launched(text, seed, n=2)[3] == 0).all()


def test_a_load_behind_a_store_of_the_step_sees_it() -> None:
    """What a token orders is not copied in front of it: here the second operand lies where the first product is stored."""
    half = "partition_view<tile=(128x64), tensor_view<128x64xf32, strides=[64,1]>>"
    body = (
        product("s", "x", "y") + store("s", "r")
        + f"%again, %w = load_view_tko weak %tr[%zero, %zero] token = %sr : {half}, tile<i32> -> {SUM}, token\n"
        + f"%p = ftof %again : {SUM} -> {TYPES['x']}\n" + product("sum", "p", "z")
    )  # fmt: skip
    for seed in range(3):
        x, y, z, out, kept = launched(kernel(body), seed)
        assert (kept == x @ y).all() and (out == (x @ y) @ z).all()


def test_a_product_behind_a_loop_of_products_has_a_step_of_its_own() -> None:
    body = f"""
    %one = constant <i32: 1> : tile<i32>
    %s = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %none) -> ({SUM}) {{
      {load("x")}{load("y")}{product("next", "x", "y", "acc")}
      continue %next : {SUM}
    }}
    {load("z")}
    %p = ftof %s : {SUM} -> {TYPES["x"]}
    {product("sum", "p", "z")}
    """
    text = kernel(body, loads="")
    assert "mma.sync" not in tileiras.compile(text, **OPTIONS).ptx
    for seed in range(3):
        x, y, z, out, _ = launched(text, seed, n=3)
        assert (out == (3 * (x @ y)) @ z).all()


def test_a_loop_in_front_of_them_keeps_its_warps_and_its_instruction() -> None:
    """256 columns of sums take eight warps in tensor memory, the scores of the product behind them four."""
    wide = "tile<128x256xf32>"
    text = f"""
    cuda_tile.module @m {{
      entry @k(%px: tile<ptr<f16>>, %py: tile<ptr<f16>>, %po: tile<ptr<f32>>, %pr: tile<ptr<f32>>, %n: tile<i32>) {{
        %t = make_token : token
        %zero = constant <i32: 0> : tile<i32>
        %one = constant <i32: 1> : tile<i32>
        %none = constant <f32: 0.0> : {wide}
        %less = constant <f32: 0.0> : {SUM}
        %qx = assume div_by<16>, %px : tile<ptr<f16>>
        %qy = assume div_by<16>, %py : tile<ptr<f16>>
        %vx = make_tensor_view %qx, shape = [128, 256], strides = [256, 1] : tensor_view<128x256xf16, strides=[256,1]>
        %vy = make_tensor_view %qy, shape = [256, 256], strides = [256, 1] : tensor_view<256x256xf16, strides=[256,1]>
        %vo = make_tensor_view %po, shape = [128, 256], strides = [256, 1] : tensor_view<128x256xf32, strides=[256,1]>
        %vr = make_tensor_view %pr, shape = [128, 64], strides = [64, 1] : tensor_view<128x64xf32, strides=[64,1]>
        %tx = make_partition_view %vx : partition_view<tile=(128x64), tensor_view<128x256xf16, strides=[256,1]>>
        %ty = make_partition_view %vy : partition_view<tile=(64x256), tensor_view<256x256xf16, strides=[256,1]>>
        %tz = make_partition_view %vy : partition_view<tile=(64x64), tensor_view<256x256xf16, strides=[256,1]>>
        %to = make_partition_view %vo : partition_view<tile=(128x256), tensor_view<128x256xf32, strides=[256,1]>>
        %tr = make_partition_view %vr : partition_view<tile=(128x64), tensor_view<128x64xf32, strides=[64,1]>>
        %s = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %none) -> ({wide}) {{
          %x, %ux = load_view_tko weak %tx[%zero, %i] token = %t : partition_view<tile=(128x64), tensor_view<128x256xf16, strides=[256,1]>>, tile<i32> -> {TYPES["x"]}, token
          %y, %uy = load_view_tko weak %ty[%i, %zero] token = %t : partition_view<tile=(64x256), tensor_view<256x256xf16, strides=[256,1]>>, tile<i32> -> tile<64x256xf16>, token
          %next = mmaf %x, %y, %acc : {TYPES["x"]}, tile<64x256xf16>, {wide}
          continue %next : {wide}
        }}
        %a, %ua = load_view_tko weak %tx[%zero, %zero] token = %t : partition_view<tile=(128x64), tensor_view<128x256xf16, strides=[256,1]>>, tile<i32> -> {TYPES["x"]}, token
        %b, %ub = load_view_tko weak %tz[%zero, %zero] token = %t : partition_view<tile=(64x64), tensor_view<256x256xf16, strides=[256,1]>>, tile<i32> -> {TYPES["y"]}, token
        %sum = mmaf %a, %b, %less : {TYPES["x"]}, {TYPES["y"]}, {SUM}
        %so = store_view_tko weak %s, %to[%zero, %zero] token = %t : {wide}, partition_view<tile=(128x256), tensor_view<128x256xf32, strides=[256,1]>>, tile<i32> -> token
        %sr = store_view_tko weak %sum, %tr[%zero, %zero] token = %t : {SUM}, partition_view<tile=(128x64), tensor_view<128x64xf32, strides=[64,1]>>, tile<i32> -> token
        return
      }}
    }}
    """  # noqa: E501
    program = tileiras.compile(text, **OPTIONS)
    assert "tcgen05.mma" in program.ptx and ".reqntid 256" in program.ptx
    rng = np.random.default_rng(1)
    x, y = (rng.integers(-2, 3, shape).astype(np.float16) for shape in ((128, 256), (256, 256)))
    out, kept = np.full((128, 256), 7, np.float32), np.full((128, 64), 7, np.float32)
    args = [x, y, out, kept, np.int32(4)]
    tileiras.launch(program, "k", 1, args, target="emulator", gpu_name="sm_100", check=True, seed=1)
    x, y = x.astype(np.float32), y.astype(np.float32)
    assert (out == x @ y).all() and (kept == x[:, :64] @ y[:64, :64]).all()


@pytest.mark.parametrize(
    ("name", "gpu_name"),
    [
        ("once_cross_few", "sm_100"),
        ("matmul_f16_ragged", "sm_100"),
        ("once_cross", "sm_90"),
        ("once_cross", "sm_80"),
    ],
)
def test_what_does_not_pay_stays_as_it_was(
    name: str, gpu_name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    found = []
    for more in ([], ["--skip=TileAAStepOnce"]):
        source = str(bytecode_path(CASES[name]))
        assert (
            opt.main([source, "--gpu-name", gpu_name, "--pipeline-to", "ptx", "--no-verify-each", *more]) == 0
        )
        found.append(capfd.readouterr().out)
    assert "mma" in found[0] and found[0] == found[1]
