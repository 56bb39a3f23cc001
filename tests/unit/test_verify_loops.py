# ruff: noqa: E501 - one line of text per case
"""Loops and branches of the tensor dialects, written by hand: values that go round have one type, and exits have a loop."""

from __future__ import annotations

from pathlib import Path

import pytest

from tileiras.tools import opt

KERNEL = """nv_tileaa.module {sym_name = "m", nv_tileaa.compute_capability = 80 : i32} {
  nv_tileaa.func {sym_name = "k", function_type = (tensor<i32>, tensor<i1>, tensor<i64>) -> ()} {
  ^bb0(%n: tensor<i32>, %c: tensor<i1>, %wide: tensor<i64>):
    %f = nv_tileaa.for %n, %n, %n, %n {operandSegmentSizes = array<i32: 1, 1, 1, 1>} : tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32> -> tensor<i32> {
    ^bb1(%i: tensor<i32>, %s: tensor<i32>):
      nv_tileaa.if %c : tensor<i1> {
        nv_tileaa.continue %s : tensor<i32>
      } {
        nv_tileaa.yield
      }
      %q = nv_tileaa.addi %s, %n : tensor<i32>, tensor<i32> -> tensor<i32>
      nv_tileaa.continue %q : tensor<i32>
    }
    %l = nv_tileaa.loop %n : tensor<i32> -> tensor<i32> {
    ^bb2(%t: tensor<i32>):
      nv_tileaa.break %t : tensor<i32>
    }
    %v = nv_tileaa.if %c : tensor<i1> -> tensor<i32> {
      nv_tileaa.yield %n : tensor<i32>
    } {
      nv_tileaa.yield %l : tensor<i32>
    }
    nv_tileaa.return
  }
}
"""
FOR = "nv_tileaa.for %n, %n, %n, %n {operandSegmentSizes = array<i32: 1, 1, 1, 1>} : tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>"
BAD = {
    "a bound of another type": (FOR, FOR.replace("%n, %n, %n, %n", "%n, %wide, %n, %n").replace(
        "tensor<i32>, tensor<i32>, tensor<i32>", "tensor<i32>, tensor<i64>, tensor<i32>", 1),
        "all of {lowerBound, upperBound, step} have same type"),
    "an index of another type": ("^bb1(%i: tensor<i32>", "^bb1(%i: tensor<i64>", "for induction, lower, upper, and step must share an integer type"),
    "a result of another type": (f"{FOR} -> tensor<i32>", f"{FOR} -> tensor<i64>",
                                 "for result types must match region iter-arg types"),
    "a value of another type goes in": ("loop %n : tensor<i32>", "loop %wide : tensor<i64>",
                                        "for init values must match region iter-arg types"),
    "a value of another type goes round": ("continue %q : tensor<i32>", "continue %wide : tensor<i64>",
                                           "early-exit operand types must match the enclosing region contract"),
    "a value of another type goes round from a branch": ("continue %s : tensor<i32>", "continue %wide : tensor<i64>",
                                                         "early-exit operand types must match"),
    "a value of another type comes out": ("break %t : tensor<i32>", "break %wide : tensor<i64>",
                                          "early-exit operand types must match"),
    "a break out of a loop that counts": ("continue %s : tensor<i32>", "break %s : tensor<i32>",
                                          "early-exit must be enclosed by a compatible loop or for"),
    "a branch less": (" {\n      nv_tileaa.yield %l : tensor<i32>\n    }", "", "if with results requires an else-region"),
    "a branch of another type": ("yield %l : tensor<i32>", "yield %wide : tensor<i64>",
                                 "expected TileType for operand and terminator types but got: tensor<i64> vs tensor<i32>"),
    "a branch of more values": ("yield %l : tensor<i32>", "yield %l, %l : tensor<i32>, tensor<i32>",
                                "expect number of terminators operands (2) to match expected (1)"),
}  # fmt: skip


@pytest.fixture
def check(tmp_path: Path, capsys: pytest.CaptureFixture[str]):  # type: ignore[no-untyped-def]
    def run(text: str) -> tuple[int, str]:
        source = tmp_path / "k.mlir"
        source.write_text(text)
        return opt.main([str(source), "-o", str(tmp_path / "out")]), capsys.readouterr().err

    return run


def test_as_it_is_it_is_right(check) -> None:  # type: ignore[no-untyped-def]
    assert check(KERNEL) == (0, "")


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_go_round(name: str, check) -> None:  # type: ignore[no-untyped-def]
    old, new, said = BAD[name]
    assert KERNEL.count(old) == 1
    code, err = check(KERNEL.replace(old, new))
    assert code == 5 and said in err, err
