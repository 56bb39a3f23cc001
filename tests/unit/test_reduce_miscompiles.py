"""`tileiras-reduce` on planted miscompiles: the PTX does something else than the kernel says, and a launch shows it."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

import tileiras
from tileiras.compiler.bytecode.reader import read
from tileiras.compiler.ir.verify import verify
from tileiras.compiler.source import load, to_bytecode
from tileiras.diag import Sink
from tileiras.run.emulator import launch as emulate
from tileiras.tools import reduce

KERNEL = """cuda_tile.module @kernels {
  entry @k(%x: tile<ptr<f32>>, %y: tile<ptr<f32>>) {
    %i = iota : tile<32xi32>
    %x1 = reshape %x : tile<ptr<f32>> -> tile<1xptr<f32>>
    %xb = broadcast %x1 : tile<1xptr<f32>> -> tile<32xptr<f32>>
    %y1 = reshape %y : tile<ptr<f32>> -> tile<1xptr<f32>>
    %yb = broadcast %y1 : tile<1xptr<f32>> -> tile<32xptr<f32>>
    %xp = offset %xb, %i : tile<32xptr<f32>>, tile<32xi32> -> tile<32xptr<f32>>
    %yp = offset %yb, %i : tile<32xptr<f32>>, tile<32xi32> -> tile<32xptr<f32>>
    %t = make_token : token
    %v, %t1 = load_ptr_tko weak %xp token=%t : tile<32xptr<f32>> -> tile<32xf32>, token
    %three = constant <f32: 3.0> : tile<32xf32>
    %five = constant <i32: 5> : tile<32xi32>
    %a = mulf %v, %three : tile<32xf32>
    %b = addf %a, %v : tile<32xf32>
    %c = maxf %b, %three : tile<32xf32>
    %n = xori %i, %five : tile<32xi32>
    %f = itof %n signed : tile<32xi32> -> tile<32xf32>
    %d = subf %c, %f : tile<32xf32>
    %p = cmpf greater_than ordered %d, %v : tile<32xf32> -> tile<32xi1>
    %e = select %p, %d, %a : tile<32xi1>, tile<32xf32>
    %t2 = store_ptr_tko weak %yp, %e token=%t1 : tile<32xptr<f32>>, tile<32xf32> -> token
    return
  }
}
"""
# What a broken compiler would have printed in place of what ours prints, and the operation that is to blame.
PLANTED = {
    "addf": (r"add\.rn\.f32", "sub.rn.f32"),
    "maxf": (r"max(\.NaN)?\.f32", r"min\1.f32"),
    "mulf": (r"mul\.rn\.f32", "add.rn.f32"),
    "xori": (r"xor\.b32", "or.b32"),
    "itof": (r"cvt\.rn\.f32\.s32", "cvt.rz.f32.u32"),
}


class Compared:
    """Interesting is what computes something else than the reference interpreter, on the same arrays."""

    jobs = 1

    def __init__(self, break_: Callable[[str], str]) -> None:
        self.break_ = break_

    def first(self, candidates: Sequence[bytes]) -> int | None:
        return 0 if self.ask(candidates[0]) else None

    def ask(self, data: bytes) -> bool:
        x = np.linspace(4, -4, 32, dtype=np.float32)
        want, got = np.zeros(32, np.float32), np.zeros(32, np.float32)
        with contextlib.redirect_stdout(io.StringIO()):
            try:
                tileiras.launch(
                    data, "k", grid=1, args=[x.copy(), want], target="reference", gpu_name="sm_90"
                )
                program = tileiras.compile(data, gpu_name="sm_90", emit="ptx", launch_abi="simt")
                report = emulate(
                    self.break_(program.ptx),
                    "k",
                    (1, 1, 1),
                    program.kernels["k"].block,
                    [x.copy(), got],
                    check=True,
                )
            except (tileiras.CompileError, tileiras.LaunchError, ValueError):
                return False  # other parameters, or out of the arrays: another question
        return not report.findings and not np.array_equal(want, got, equal_nan=True)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("op", PLANTED)
def test_a_planted_miscompile_shrinks_to_its_operation(op: str, tmp_path: Path) -> None:
    pattern, wrong = PLANTED[op]
    start = to_bytecode(load(KERNEL, Sink()))
    question = Compared(lambda ptx: re.sub(pattern, wrong, ptx))
    if op == "itof":  # the operand has to have a sign, which xori of these does not give
        start = to_bytecode(load(KERNEL.replace("<i32: 5>", "<i32: -5>"), Sink()))
    assert question.ask(start) and not Compared(lambda ptx: ptx).ask(start)
    out = tmp_path / "k.reduced.tilebc"
    search = reduce.Reducer(start, question, [str(out), str(tmp_path / "k.reduced.tileir")], True)
    search.write()
    search.reduce()
    assert question.ask(out.read_bytes())
    module = read(out.read_bytes(), Sink(), file="")
    assert verify(module, Sink())
    left = [
        o.spec.name for o in module.walk() if o.spec.name not in ("module", "entry", "return", "constant")
    ]
    assert op in left and len(left) <= 11, left
