"""Schedules written by hand that no GPU has: an error at the op, never code."""

from __future__ import annotations

from pathlib import Path

import pytest

from tileiras.compiler.ir.text import parse
from tileiras.compiler.ir.verify import verify
from tileiras.diag import Sink
from tileiras.tools import opt

TEXT = """nv_tileas.module {sym_name = "m", nv_tileaa.compute_capability = 100 : i32} {
  nv_tileas.func {sym_name = "k", nv_tileaa.kernel_spec = {num_warps = 4}, function_type = () -> ()} {
  ^bb0():
    %one = nv_tileas.alloc_shared {bytes = 4096 : i64, offset = 1024 : i64} : () -> !nv_tileas.shared
    %two = nv_tileas.alloc_shared {bytes = 4096 : i64, offset = 5120 : i64} : () -> !nv_tileas.shared
    %m = nv_tileas.tensor_memory.alloc {columns = 128 : i64, offset = 0 : i64} : () -> !nv_tileas.tensor_memory
    %a = nv_tileas.tensor_memory.begin %m {column = 64 : i64, number = 0 : i64} : !nv_tileas.tensor_memory -> MEMORY
    nv_tileas.async.wait_group {pending = 3 : i64} : ()
    nv_tileas.tensor_memory.free %m : !nv_tileas.tensor_memory
    nv_tileas.free_shared %two : !nv_tileas.shared
    nv_tileas.free_shared %one : !nv_tileas.shared
    %three = nv_tileas.alloc_shared {bytes = 8192 : i64, offset = 1024 : i64} : () -> !nv_tileas.shared
    nv_tileas.free_shared %three : !nv_tileas.shared
    nv_tileas.return
  }
}
""".replace("MEMORY", "!nv_tileas.tensor_memory")
BAD = {
    "two buffers in one place": ("offset = 5120", "offset = 5104", "bytes 1024 to 5120, and another"),
    "beyond all of shared memory": ("bytes = 8192", "bytes = 231425", "231425 bytes from byte 1024"),
    "an end beyond 64 bits": ("offset = 1024 : i64} : () -> !nv_tileas.shared\n    %two", "offset = 9223372036854775792 : i64} : "
                              "() -> !nv_tileas.shared\n    %two", "from byte 9223372036854775792"),
    "nothing": ("bytes = 8192", "bytes = 0", "0 bytes from byte 1024"),
    "in front of shared memory": ("bytes = 8192 : i64, offset = 1024", "bytes = 8192 : i64, offset = -16", "from byte -16"),
    "not aligned": ("offset = 5120", "offset = 5128", "from byte 5128"),
    "columns that are no power of two": ("columns = 128", "columns = 100", "100 columns"),
    "more columns than there are": ("columns = 128", "columns = 1024", "1024 columns"),
    "a column of nobody": ("column = 64", "column = 128", "column 128 of 128"),
    "a column below zero": ("column = 64", "column = -1", "column -1 of 128"),
    "fewer groups than none": ("pending = 3", "pending = -1", "-1 groups that may be pending"),
}  # fmt: skip


def said(text: str) -> str:
    sink = Sink()
    for op in parse(text, sink, file="k.mlir"):
        verify(op, sink)
    return "\n".join(d.render() for d in sink.emitted)


def test_what_is_right_passes() -> None:
    assert said(TEXT) == ""


@pytest.mark.parametrize("name", BAD)
def test_what_no_gpu_has(name: str) -> None:
    old, new, words = BAD[name]
    assert old in TEXT and words in said(TEXT.replace(old, new, 1))


LOWERED = """#s = #linear<0, reg = [], lane = [0, 0, 0, 0, 0], warp = [0, 0]>
#b = #linear<7, reg = [], lane = [1, 2, 4, 8, 16], warp = [32, 64]>
#c = #linear<7, reg = [], lane = [64, 2, 4, 8, 16], warp = [32, 1]>
nv_tileas.module {sym_name = "m", nv_tileaa.compute_capability = 90 : i32} {
  nv_tileas.func {sym_name = "k", nv_tileaa.kernel_spec = {num_warps = 4}, function_type = () -> ()} {
  ^bb0():
    %x = nv_tileas.iota : () -> tensor<128xi32, #b>
    %c = nv_tileas.cmpi %x, %x {comparison_predicate = equal, signedness = signed} : tensor<128xi32, #b>, tensor<128xi32, #b> -> tensor<128xi1, #c>
    nv_tileas.return
  }
}
"""  # noqa: E501


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (LOWERED, "a convert_layout is missing"),
        (LOWERED.replace("capability = 90", "capability = 64"), "unsupported GPU target 'sm_64'"),
    ],
    ids=["an operand in another layout", "a GPU that there is not"],
)
def test_text_that_cannot_be_lowered(
    text: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "k.mlir").write_text(text)
    status = opt.main([str(tmp_path / "k.mlir"), "--pipeline-to", "ptx", "-o", str(tmp_path / "k.ptx")])
    said = capsys.readouterr().err
    assert status == 5 and words in said and "internal error" not in said


PRODUCER = """#b = #linear<7, reg = [], lane = [1, 2, 4, 8, 16], warp = [32, 64]>
nv_tileas.module {sym_name = "m", nv_tileaa.compute_capability = 90 : i32} {
  nv_tileas.func {sym_name = "k", nv_tileaa.kernel_spec = {num_warps = 4}, function_type = () -> ()} {
  ^bb0():
    %q = nv_tileas.async.pipeline.create {depth = 2, transport = "cp.async"} : () -> !nv_tileas.async.pipeline
    nv_tileas.async.pipeline.produce_one %q : !nv_tileas.async.pipeline {
      %x = nv_tileas.iota : () -> tensor<128xi32, #b>
      nv_tileas.async.pipeline.yield %x : tensor<128xi32, #b>
    }
    %v = nv_tileas.async.pipeline.consume_one %q : !nv_tileas.async.pipeline -> tensor<128xi32, #b> {
    ^bb0(%a: tensor<128xi32, #b>):
      nv_tileas.async.pipeline.yield %a : tensor<128xi32, #b>
    }
    nv_tileas.return
  }
}
"""


def test_what_travels_by_copies_is_loaded() -> None:
    assert "has no load, and its pipeline says how loads travel" in said(PRODUCER)
    assert said(PRODUCER.replace(', transport = "cp.async"', "")) == ""
