"""How wide accesses of global memory are stands in the nv_tileas text: what is decided, what a text may say, what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tileiras.tools import opt

KERNEL = """cuda_tile.module @m {
  entry @k(%p: tile<ptr<f32>>, %q: tile<ptr<f32>>, %n: tile<i32>) {
    %pa = assume div_by<16>, %p : tile<ptr<f32>>
    %qa = assume div_by<32>, %q : tile<ptr<f32>>
    %m = assume bounded<0, ?>, %n : tile<i32>
    %size = assume div_by<16>, %m : tile<i32>
    %from = make_tensor_view %pa, shape = [%size], strides = [1] : tile<i32> -> tensor_view<?xf32, strides=[1]>
    %to = make_tensor_view %qa, shape = [%size], strides = [1] : tile<i32> -> tensor_view<?xf32, strides=[1]>
    %v = make_partition_view %from : partition_view<tile=(1024), tensor_view<?xf32, strides=[1]>>
    %w = make_partition_view %to : partition_view<tile=(1024), tensor_view<?xf32, strides=[1]>>
    %b, %by, %bz = get_tile_block_id : tile<i32>
    %x, %t = load_view_tko weak %v[%b] : partition_view<tile=(1024), tensor_view<?xf32, strides=[1]>>, tile<i32> -> tile<1024xf32>, token
    %s = store_view_tko weak %x, %w[%b] token = %t : tile<1024xf32>, partition_view<tile=(1024), tensor_view<?xf32, strides=[1]>>, tile<i32> -> token
    return
  }
}
"""  # noqa: E501
WEAK = "memory_ordering_semantics = weak"


def made(text: str, tmp_path: Path, *words: str) -> tuple[int, str]:
    """(exit code, output) of tileiras-opt."""
    source, out = tmp_path / "k.mlir", tmp_path / "out"
    source.write_text(text)
    out.unlink(missing_ok=True)
    code = opt.main([str(source), "--gpu-name", "sm_90", *words, "-o", str(out)])
    return code, out.read_text() if out.exists() else ""


def dump(tmp_path: Path) -> str:
    code, text = made(KERNEL, tmp_path, "--pipeline-to", "tileas")
    assert code == 0, text
    return text


def unaligned(text: str) -> str:
    """Without what is known of the pointer to which is stored."""
    assert "div_by<32>" in text
    return text.replace("div_by<32>", "div_by<4>")


def line(text: str, word: str) -> str:
    return next(each for each in text.splitlines() if word in each)


def test_the_dump_says_how_wide(tmp_path: Path) -> None:
    text = dump(tmp_path)
    assert all("vector = 2 : i64" in line(text, word) for word in ("load_view_tko", "store_view_tko"))
    assert "together" not in text
    code, ptx = made(text, tmp_path, "--pipeline-to", "ptx")
    assert code == 0 and ptx.count("ld.global.v4.b32") == 2 and ptx.count("st.global.v4.b32") == 2


def test_neighbours_that_are_not_aligned_are_inside_together(tmp_path: Path) -> None:
    text = unaligned(dump(tmp_path)).replace(", layout = #b, vector = 2 : i64", ", layout = #b")
    code, text = made(text, tmp_path, "--pipeline-to", "tileas")
    assert code == 0 and "vector = 0 : i64, together = 2 : i64" in line(text, "store_view_tko")
    code, ptx = made(text, tmp_path, "--pipeline-to", "ptx")
    assert code == 0 and ptx.count("ld.global.v4.b32") == 2 and ptx.count("st.global.b32") == 8
    assert ptx.count("setp.lt.u32") + ptx.count("setp.gt.u32") == 2, "one comparison for four of them"


def test_a_text_may_say_less(tmp_path: Path) -> None:
    code, ptx = made(dump(tmp_path).replace("vector = 2", "vector = 1"), tmp_path, "--pipeline-to", "ptx")
    assert code == 0 and ptx.count("ld.global.v2.b32") == 4


REFUSED = {
    "more than is aligned": ("div_by<32>", "div_by<4>", "only 1 of a thread's elements are known to be aligned"),
    "wider than instructions": ("vector = 2 : i64", "vector = 3 : i64", "at most 2, the neighbours in memory"),
    "less than an element": ("vector = 2 : i64", "vector = -1 : i64", "expected at least 0"),
    "more inside together than is known": ("vector = 2 : i64", "vector = 1 : i64, together = 3 : i64", "at most 2"),
    "parts of no elements": ("vector = 2 : i64", "apart = 0 : i64", "of a thread's 8 elements at a time"),
    "parts that are not equal": ("vector = 2 : i64", "apart = 3 : i64", "of a thread's 8 elements at a time"),
    "no number": ("vector = 2 : i64", 'vector = "wide"', "attribute 'vector' must be an i"),
    "parts that are ordered": (
        WEAK, "memory_ordering_semantics = relaxed, memory_scope = device, apart = 4 : i64", "a weak access of so many"
    ),
    "vectors that are ordered": (WEAK, "memory_ordering_semantics = relaxed, memory_scope = device", "goes alone"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_moved_so_is_refused_at_the_op(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new, words = REFUSED[name]
    text = dump(tmp_path)
    assert old in text
    code, ptx = made(text.replace(old, new, 1), tmp_path, "--pipeline-to", "ptx")
    said = capsys.readouterr().err
    assert code == 5 and not ptx
    assert words in said and "_view_tko" in said


def test_the_lowering_asks_for_what_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = dump(tmp_path).replace(", vector = 2 : i64", "")
    code, _ = made(text, tmp_path, "--pass", "ConvertTileFuncToLLVM,ConvertTileASToLLVM")
    assert code == 5
    assert "attribute 'vector' is missing; TileASPlaceShared writes it" in capsys.readouterr().err
