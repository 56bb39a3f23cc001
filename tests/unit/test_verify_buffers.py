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
    "a lane between halves": ("column = 64", "column = 64, lane = 8", "lane 8, expected one of 0, 16"),
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


STORED = """#t = #linear<12, reg = [1, 2, 4, 8, 16], lane = [32, 64, 128, 256, 512], warp = [1024, 2048]>
nv_tileas.module {sym_name = "m", nv_tileaa.compute_capability = 100 : i32} {
  nv_tileas.func {sym_name = "k", nv_tileaa.kernel_spec = {num_warps = 4}, function_type = () -> ()} {
  ^bb0(%x: tensor<128x32xf32, #t>):
    %m = nv_tileas.tensor_memory.alloc {columns = 32 : i64, offset = 0 : i64} : () -> MEMORY
    %a = nv_tileas.tensor_memory.begin %m {column = 0 : i64, number = 0 : i64} : MEMORY -> MEMORY
    nv_tileas.tensor_memory.store %a, %x {most = 16 : i64} : MEMORY, tensor<128x32xf32, #t>
    nv_tileas.tensor_memory.free %m : MEMORY
    nv_tileas.return
  }
}
""".replace("MEMORY", "!nv_tileas.tensor_memory")


@pytest.mark.parametrize("most", [0, 2, 48, 256])
def test_registers_that_no_instruction_moves(most: int) -> None:
    assert said(STORED) == ""
    assert f"{most} registers an instruction, expected" in said(STORED.replace("most = 16", f"most = {most}"))


COPIED = """#n = #linear<0, reg = [], lane = [0, 0, 0, 0, 0], warp = [0, 0]>
#t = #linear<BITS>
nv_tileas.module {sym_name = "m", nv_tileaa.compute_capability = 80 : i32} {
  nv_tileas.func {sym_name = "k", nv_tileaa.kernel_spec = {num_warps = 4}, function_type = () -> ()} {
  ^bb0(%i: tensor<i32, #n>, %on: tensor<i1, #n>, %v: !cuda_tile.partition_view<tile=(EXTENT), tensor_view<?xELEM, strides=[1]>>, %t: !cuda_tile.token):
    %b = nv_tileas.alloc_shared {bytes = 1024 : i64, offset = 0 : i64} : () -> !nv_tileas.shared
    nv_tileas.async.copy_view %b, %i, %on, %v, %i, %t {arrangement = array<i32PLACES>, layout = #t, width = WIDTH : i64, start = 0 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1>} : !nv_tileas.shared, tensor<i32, #n>, tensor<i1, #n>, !cuda_tile.partition_view<tile=(EXTENT), tensor_view<?xELEM, strides=[1]>>, tensor<i32, #n>, !cuda_tile.token
    nv_tileas.async.commit_group : ()
    nv_tileas.async.wait_group {pending = 0 : i64} : ()
    nv_tileas.free_shared %b : !nv_tileas.shared
    nv_tileas.return
  }
}
"""  # noqa: E501


@pytest.mark.parametrize(
    ("elem", "bits", "width", "problem"),
    [
        ("f64", 1, 16, ""),
        ("f64", 1, 8, ""),
        ("f64", 1, 4, "chunks of 4 bytes in a tile of 16"),
        ("f64", 0, 16, "chunks of 16 bytes in a tile of 8"),
        ("f16", 3, 16, ""),
        ("f16", 2, 16, "chunks of 16 bytes in a tile of 8"),
        ("i8", 4, 16, ""),
        ("i8", 3, 16, "chunks of 16 bytes in a tile of 8"),
        ("i8", 2, 8, "chunks of 8 bytes in a tile of 4"),
    ],
)
def test_chunks_are_whole_elements_of_one_tile(elem: str, bits: int, width: int, problem: str) -> None:
    size = int(elem[1:]) // 8
    layout = f"{bits}, reg = {[1 << n for n in range(bits)]}, lane = [0, 0, 0, 0, 0], warp = [0, 0]"
    text = COPIED.replace("BITS", layout).replace("EXTENT", str(1 << bits)).replace("ELEM", elem)
    text = text.replace(
        "PLACES", (": " if bits else "") + ", ".join(str(size << n) for n in range(bits))
    ).replace("WIDTH", str(width))
    assert problem in said(text) and bool(problem) == bool(said(text)), said(text)


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


PRODUCT = """#a = #linear<8, reg = [1, 128, 8], lane = [2, 4, 16, 32, 64], warp = []>
#b = #linear<7, reg = [8, 64], lane = [16, 32, 1, 2, 4], warp = []>
#c = #linear<7, reg = [1, 64], lane = [2, 4, 8, 16, 32], warp = []>
#x = #linear<8, reg = [1, 2, 4], lane = [8, 16, 32, 64, 128], warp = []>
#y = #linear<7, reg = [1, 2], lane = [4, 8, 16, 32, 64], warp = []>
#z = #linear<8, reg = [1, 128, 8], lane = [2, 4, 32, 16, 64], warp = []>
nv_tileas.module {sym_name = "m", nv_tileaa.compute_capability = 80 : i32} {
  nv_tileas.func {sym_name = "k", nv_tileaa.kernel_spec = {num_warps = 1}, function_type = () -> ()} {
  ^bb0():
    %i = nv_tileas.iota : () -> tensor<256xi32, #a>
    %j = nv_tileas.iota : () -> tensor<128xi32, #b>
    %f = nv_tileas.itof %i {signedness = signed, rounding_mode = nearest_even} : tensor<256xi32, #a> -> tensor<256xf16, #a>
    %g = nv_tileas.itof %j {signedness = signed, rounding_mode = nearest_even} : tensor<128xi32, #b> -> tensor<128xf16, #b>
    %l = nv_tileas.reshape %f : tensor<256xf16, #a> -> tensor<16x16xf16, #a>
    %r = nv_tileas.reshape %g : tensor<128xf16, #b> -> tensor<16x8xf16, #b>
    %n = nv_tileas.iota : () -> tensor<128xi32, #c>
    %h = nv_tileas.itof %n {signedness = signed, rounding_mode = nearest_even} : tensor<128xi32, #c> -> tensor<128xf32, #c>
    %s = nv_tileas.reshape %h : tensor<128xf32, #c> -> tensor<16x8xf32, #c>
    %d = nv_tileas.mmaf %l, %r, %s : tensor<16x16xf16, #a>, tensor<16x8xf16, #b>, tensor<16x8xf32, #c> -> tensor<16x8xf32, #c>
    nv_tileas.return
  }
}
"""


def to_ptx(text: str, tmp_path: Path) -> int:
    (tmp_path / "k.mlir").write_text(text)
    return opt.main([str(tmp_path / "k.mlir"), "--pipeline-to", "ptx", "-o", str(tmp_path / "k.ptx")])


def test_a_product_of_fragments_is_lowered(tmp_path: Path) -> None:
    assert to_ptx(PRODUCT, tmp_path) == 0
    assert "mma.sync.aligned.m16n8k16" in (tmp_path / "k.ptx").read_text()


def body(old: str, new: str) -> str:
    """The product with a layout exchanged for another one wherever it stands but in its definition."""
    head, _, rest = PRODUCT.partition("nv_tileas.module")
    return head + "nv_tileas.module" + rest.replace(f", {old}>", f", {new}>")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (body("#a", "#x"), "the left operand lies in"),
        (body("#a", "#z"), "the left operand lies in"),  # every register is there, of other rows
        (body("#b", "#y"), "the right operand lies in"),
        (body("#c", "#y"), "the result lies in"),
        (LOWERED, "a convert_layout is missing"),
        (LOWERED.replace("capability = 90", "capability = 64"), "unsupported GPU target 'sm_64'"),
    ],
    ids=[
        "a left operand that is no fragment",
        "a left operand with other rows",
        "a right operand that is no fragment",
        "a sum that is no fragment",
        "an operand in another layout",
        "a GPU that there is not",
    ],
)
def test_text_that_cannot_be_lowered(
    text: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = to_ptx(text, tmp_path)
    said = capsys.readouterr().err
    assert status == 5 and words in said and "internal error" not in said


PRODUCER = """#b = #linear<7, reg = [], lane = [1, 2, 4, 8, 16], warp = [32, 64]>
nv_tileas.module {sym_name = "m", nv_tileaa.compute_capability = 90 : i32} {
  nv_tileas.func {sym_name = "k", nv_tileaa.kernel_spec = {num_warps = 4}, function_type = () -> ()} {
  ^bb0():
    %q = nv_tileas.async.pipeline.create {depth = 2, transport = "cp.async", width = 16 : i32, bytes = 512 : i32, arrangement = array<i32: 4, 8, 16, 32, 64, 128, 256>, layout = #b} : () -> !nv_tileas.async.pipeline
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
"""  # noqa: E501


def test_what_travels_by_copies_is_loaded() -> None:
    assert "has no load, and its pipeline says how loads travel" in said(PRODUCER)
    assert said(PRODUCER.replace(', transport = "cp.async"', "")) == ""
