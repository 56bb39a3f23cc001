"""Sums in tensor memory that begin with what their step has computed, and results that share columns one after the other."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

import numpy as np

import tileiras
from tests.corpus.check import PASS, launch_case
from tests.corpus.registry import CASES
from tileiras.tools import opt

OPTIONS: dict[str, Any] = {"gpu_name": "sm_100", "launch_abi": "simt", "emit": "ptx"}
STEPS = 3


def kernel(element: str, number: str, mma: str, twice: str, add: str, rows: int, body: str) -> str:
    """A loop that adds up what `body` makes of %x, %y and %z, `rows` x 64 and 64 x 64, in %more."""
    sum = f"tile<{rows}x64x{number}>"
    left, right = f"tile<{rows}x64x{element}>", f"tile<64x64x{element}>"

    def viewed(name: str, height: int, width: int, type: str) -> str:
        view = f"tensor_view<{height}x{width}x{type}, strides=[{width},1]>"
        return f"""
        %q{name} = assume div_by<16>, %{name} : tile<ptr<{type}>>
        %v{name} = make_tensor_view %q{name}, shape = [{height}, {width}], strides = [{width}, 1] : {view}
        %t{name} = make_partition_view %v{name} : partition_view<tile=({height}x64), {view}>
        """

    def loaded(name: str, height: int) -> str:
        part = f"partition_view<tile=({height}x64), tensor_view<{height}x{64 * STEPS}x{element}, strides=[{64 * STEPS},1]>>"
        type = left if name in "ac" else right
        return f"%l{name}, %u{name} = load_view_tko weak %t{name}[%zero, %k] token = %t : {part}, tile<i32> -> {type}, token\n"

    part = f"partition_view<tile=({rows}x64), tensor_view<{rows}x64x{number}, strides=[64,1]>>"
    known = {
        "sum": sum, "left": left, "right": right, "mma": mma, "twice": twice, "add": add,
        "sides": f"{left}, {right}, {sum}",
    }  # fmt: skip
    return f"""
    cuda_tile.module @m {{
      entry @k(%a: tile<ptr<{element}>>, %b: tile<ptr<{element}>>, %c: tile<ptr<{element}>>, %o: tile<ptr<{number}>>) {{
        %t = make_token : token
        %zero = constant <i32: 0> : tile<i32>
        %one = constant <i32: 1> : tile<i32>
        %steps = constant <i32: {STEPS}> : tile<i32>
        %none = constant <{number}: 0{".0" if number[0] == "f" else ""}> : {sum}
        {viewed("a", rows, 64 * STEPS, element)}{viewed("b", 64, 64 * STEPS, element)}{viewed("c", rows, 64 * STEPS, element)}
        {viewed("o", rows, 64, number)}
        %all = for %k in (%zero to %steps, step %one) : tile<i32> iter_values(%acc = %none) -> ({sum}) {{
          {loaded("a", rows)}{loaded("b", 64)}{loaded("c", rows)}
          {body.format(**known)}
          %next = {add} %acc, %more{" overflow<none>" if add == "addi" else ""} : {sum}
          continue %next : {sum}
        }}
        %d = store_view_tko weak %all, %to[%zero, %zero] token = %t : {sum}, {part}, tile<i32> -> token
        return
      }}
    }}
    """


BEGUN = """%s = {mma} %la, %lb, %none{sign} : {sides}
          %double = {add} %s, %s : {sum}
          %more = {mma} %lc, %lb, %double{sign} : {sides}"""


@pytest.mark.sampled(3)
@pytest.mark.parametrize("rows", [64, 128])
@pytest.mark.parametrize("element", ["f16", "i8"])
def test_what_a_sum_begins_with_is_added_when_it_is_read(element: str, rows: int) -> None:
    number, mma, add = ("f32", "mmaf", "addf") if element == "f16" else ("i32", "mmai", "addi")
    body = BEGUN.replace("{sign}", "" if element == "f16" else " signed signed")
    text = kernel(element, number, mma, "", add, rows, body)
    program = tileiras.compile(text, **OPTIONS)
    assert "tcgen05.mma" in program.ptx and "mma.sync" not in program.ptx
    rng = np.random.default_rng(5)
    kind = np.float16 if element == "f16" else np.int8
    a, b, c = (rng.integers(-2, 3, (height, 64 * STEPS)).astype(kind) for height in (rows, 64, rows))
    want = np.zeros((rows, 64))
    for k in range(STEPS):
        x, y, z = (m[:, 64 * k : 64 * k + 64].astype(float) for m in (a, b, c))
        want += 2 * (x @ y) + z @ y
    for seed in range(3):
        out = np.full((rows, 64), 7, np.float32 if element == "f16" else np.int32)
        args = [a, b, c, out]
        tileiras.launch(program, "k", 1, args, target="emulator", gpu_name="sm_100", check=True, seed=seed)
        assert (out == want).all()


GATED = ("staged_gated_delta_rule_64x128", "staged_gated_delta_rule_64x64", "staged_gated_delta_rule_128x128")


@pytest.mark.full
@pytest.mark.parametrize("name", (*GATED, "staged_delta_rule_bf16", "staged_delta_rule_f16"))
def test_states_that_are_corrected_are_right_whoever_runs_first(name: str) -> None:
    outcome = launch_case(CASES[name], "emulator", "sm_100", limit=0, check=True, seed=len(name))
    assert outcome.word == PASS, outcome.detail


def test_results_that_were_read_leave_their_columns_to_others(capsys: pytest.CaptureFixture[str]) -> None:
    """Five sums of 128 columns in 512: the state keeps its own, and a barrier stands where others are written again."""
    from tests.corpus.export import bytecode_path

    source = str(bytecode_path(CASES["staged_gated_delta_rule_128x128"]))
    assert opt.main([source, "--gpu-name", "sm_100", "--pipeline-to", "tileas"]) == 0
    text = capsys.readouterr().out
    begun = [line for line in text.splitlines() if "tensor_memory.begin" in line]
    columns = [line.split("column = ")[1].split(" ")[0] for line in begun]
    assert len(columns) == 5 and len(set(columns)) == 4
    again = next(c for c in columns if columns.count(c) == 2)
    sums = [line.split(" = ")[0].strip() for line, c in zip(begun, columns) if c == again]
    lines = text.splitlines()
    for sum in sums:
        product = next(
            n for n, line in enumerate(lines) if "tensor_memory.product" in line and f" {sum}," in line
        )
        before = [
            line for line in lines[:product] if "nv_tileas.barrier" in line or "tensor_memory.load" in line
        ]
        assert "nv_tileas.barrier" in before[-1]
