"""--remarks: what a user learns about memory accesses and tensor cores, as text and as YAML, and at what price."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import peers
import pytest

import tileiras
from tests.fixtures import BYTECODE
from tileiras import cli
from tileiras.options import REMARK_KINDS


def view(extent: str, align: int, tile: int = 1024, count: str = "") -> str:
    """A kernel that copies one tile of a vector; base address and extent are known as far as told."""
    shape = f"[{extent}]" if extent.isdigit() else "[%m]"
    dims = extent if extent.isdigit() else "?"
    tensor = f"tensor_view<{dims}xf32, strides=[1]>"
    part = f"partition_view<tile=({tile}), {tensor}>"
    dynamic = "" if extent.isdigit() else "tile<i32> -> "
    return f"""
cuda_tile.module @m {{
  entry @k(%p: tile<ptr<f32>>, %q: tile<ptr<f32>>, %n: tile<i32>) {{
    %pa = assume div_by<{align}>, %p : tile<ptr<f32>>
    %qa = assume div_by<16>, %q : tile<ptr<f32>>
    %m = assume div_by<{count or 1}>, %n : tile<i32>
    %v = make_tensor_view %pa, shape = {shape}, strides = [1] : {dynamic}{tensor}
    %w = make_tensor_view %qa, shape = {shape}, strides = [1] : {dynamic}{tensor}
    %a = make_partition_view %v : {part}
    %b = make_partition_view %w : {part}
    %c = constant <i32: 0> : tile<i32>
    %x, %t = load_view_tko weak %a[%c] : {part}, tile<i32> -> tile<{tile}xf32>, token
    %u = store_view_tko weak %x, %b[%c] : tile<{tile}xf32>, {part}, tile<i32> -> token
    return
  }}
}}
"""


TRANSPOSE = """
cuda_tile.module @m {
  entry @k(%p: tile<ptr<f32>>, %q: tile<ptr<f32>>) {
    %v = make_tensor_view %p, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
    %w = make_tensor_view %q, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
    %a = make_partition_view %v : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>
    %b = make_partition_view %w : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>
    %c = constant <i32: 0> : tile<i32>
    %x, %t = load_view_tko weak %a[%c, %c] : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32> -> tile<64x64xf32>, token
    %y = permute %x [1, 0] : tile<64x64xf32> -> tile<64x64xf32>
    %z = addf %x, %y : tile<64x64xf32>
    %u = store_view_tko weak %z, %b[%c, %c] : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32> -> token
    return
  }
}
"""  # noqa: E501


def remarks(source: Any, gpu: str = "sm_90", emit: str = "ptx", **asked: str) -> list[Any]:
    wanted = asked or dict.fromkeys(REMARK_KINDS, "all")
    return tileiras.compile(source, gpu, emit=emit, remarks=wanted).diagnostics


def named(found: list[Any], code: str) -> list[dict[str, Any]]:
    return [dict(emitted.facts) for emitted in found if emitted.code == code]


def test_vectors_are_reported() -> None:
    found = remarks(view("1024", 16))
    load, store = named(found, "GlobalAccess")
    assert load["what"] == "load" and load["bytes"] == 16 and load["instruction"].startswith("ld.global.v4")
    assert store["what"] == "store" and store["bytes"] == 16
    assert not named(found, "GlobalAccessNotVectorized") and not named(found, "GlobalAccessNotCoalesced")


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (view("1024", 4), "base address is only known to be a multiple of 4 bytes"),
        (view("?", 16), "extent of dimension 0 is only known to be a multiple of 1 elements"),
    ],
)
def test_what_prevents_vectors_is_named(source: str, reason: str) -> None:
    missed = named(remarks(source), "GlobalAccessNotVectorized")
    assert missed and reason in missed[0]["reason"]
    assert missed[0]["bytes"] < missed[0]["possible"]
    assert {facts["function"] for facts in missed} == {"k"}


def test_a_known_multiple_brings_the_vectors_back() -> None:
    assert not named(remarks(view("?", 16, count="4")), "GlobalAccessNotVectorized")


def test_scattered_accesses_are_reported() -> None:
    found = named(remarks(BYTECODE / "vadd_f32_strided.tilebc"), "GlobalAccessNotCoalesced")
    assert found and "stride 1" in found[0]["reason"] and found[0]["bytes"] < 32


def test_conversions_through_shared_memory_count_their_conflicts() -> None:
    trips = named(remarks(TRANSPOSE), "LayoutThroughSharedMemory")
    assert trips
    for facts in trips:
        assert facts["bytes"] > 0 and facts["stores"] > 0 and facts["loads"] > 0 and facts["rounds"] >= 1
        assert (
            facts["store_waves"] >= facts["store_least"] >= 1
            and facts["load_waves"] >= facts["load_least"] >= 1
        )


def test_every_other_exchange_is_counted() -> None:
    found = named(remarks(BYTECODE / "softmax_row_f32.tilebc"), "ExchangeThroughSharedMemory")
    assert found and all(facts["what"] == "reduction" and facts["barriers"] for facts in found)
    matmul = remarks(BYTECODE / "matmul_f16_ragged.tilebc")
    moved = named(matmul, "LayoutThroughSharedMemory") + named(matmul, "ExchangeThroughSharedMemory")
    assert moved and all(facts["stores"] and facts["loads"] for facts in moved)


@pytest.mark.parametrize(
    ("name", "gpu", "atom"),
    [
        ("matmul_f16_ragged", "sm_80", "m16n8k16.row.col.f32.f16"),
        ("matmul_f16_ragged", "sm_75", "m16n8k8.row.col.f32.f16"),
        ("cpp_matmul_i8", "sm_90", ".s8.s8"),
        ("large_matmul_f32", "sm_90", None),
    ],
)
def test_matrix_products_say_what_they_use(name: str, gpu: str, atom: str | None) -> None:
    found = remarks(BYTECODE / f"{name}.tilebc", gpu, passed="tensorcore", missed="tensorcore")
    assert {emitted.diag.category for emitted in found} == {"tensorcore"}
    if atom is None:
        assert [emitted.code for emitted in found] == ["NoTensorCore"] and "f32" in found[0].text
    else:
        assert any(atom in facts["instruction"] for facts in named(found, "TensorCore"))


def test_spills_and_resources_come_from_ptxas() -> None:
    peers.require("ptxas")
    found = remarks(BYTECODE / "matmul_f16_ragged.tilebc", emit="cubin", analysis="memory")
    (facts,) = named(found, "KernelResources")
    assert facts["registers"] > 8 and facts["threads"] >= 32
    assert not named(remarks(BYTECODE / "vadd_f32.tilebc", emit="cubin", missed="memory"), "RegistersSpilled")


def test_spills_are_missed_optimisations(monkeypatch: pytest.MonkeyPatch) -> None:
    """What ptxas reports, by a ptxas that reports spills: no kernel of ours is meant to have any."""
    from tileiras.toolchain import ptxas

    real = ptxas.assemble

    def spilling(*arguments: Any, **options: Any) -> Any:
        result = real(*arguments, **options)
        for resources in result.kernels.values():
            resources.spill_store_bytes, resources.spill_load_bytes = 24, 40
        return result

    monkeypatch.setattr(ptxas, "assemble", spilling)
    (facts,) = named(remarks(BYTECODE / "vadd_f32.tilebc", emit="cubin", missed="memory"), "RegistersSpilled")
    assert (facts["function"], facts["bytes"], facts["loaded"]) == ("vadd_f32", 24, 40)


@pytest.mark.parametrize(
    "name", ["softmax_row_f32", "matmul_f16_ragged", "cumsum_rows_f32", "histogram", "gather_rows"]
)
def test_remarks_change_no_code(name: str) -> None:
    source = BYTECODE / f"{name}.tilebc"
    plain = tileiras.compile(source, "sm_80", emit="ptx")
    assert not plain.diagnostics
    assert (
        tileiras.compile(source, "sm_80", emit="ptx", remarks=dict.fromkeys(REMARK_KINDS, "all")).ptx
        == plain.ptx
    )


@pytest.mark.parametrize("word", ["none", "all", "memory", "tensorcore"])
def test_a_word_asks_for_every_kind_as_the_command_does(word: str) -> None:
    source = BYTECODE / "gather_rows.tilebc"
    each = tileiras.compile(source, "sm_80", emit="ptx", remarks=dict.fromkeys(REMARK_KINDS, word))
    one = tileiras.compile(source, "sm_80", emit="ptx", remarks=word)
    assert [d.render() for d in one.diagnostics] == [d.render() for d in each.diagnostics]
    assert bool(one.diagnostics) == (word in ("all", "memory"))


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ("everything", "'everything'"), (["all"], "['all']"), (None, "None"), (3, "3"), ({"bogus": "all"}, "'bogus'"),
        ({"passed": "bogus"}, "'bogus'"), ({"passed": None}, "None"),
    ],
)  # fmt: skip
def test_remarks_that_there_are_not(asked: Any, named: str) -> None:
    with pytest.raises(
        tileiras.CompileError, match=re.escape(f"unknown remarks {named}, expected none, all")
    ) as error:
        tileiras.compile(BYTECODE / "vadd_f32.tilebc", "sm_80", emit="ptx", remarks=asked)
    assert error.value.exit_code == 2


def test_nothing_of_it_is_loaded_unasked(tmp_path: Path) -> None:
    """The price when remarks are off: the module is not even imported."""
    import sys

    script = (
        "import sys, tileiras\n"
        f"tileiras.compile({str(BYTECODE / 'vadd_f32.tilebc')!r}, 'sm_90', emit='ptx')\n"
        "print([m for m in sys.modules if m.endswith(('tileas_to_nvvm.remarks', 'tileas_to_nvvm.debug', 'ptx.debug'))])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True,
                          cwd=Path(tileiras.__file__).parents[1])  # fmt: skip
    assert done.stdout.strip() == "[]"


def command(folder: Path, *flags: str) -> int:
    return cli.main(
        [
            str(BYTECODE / "matmul_f16_ragged.tilebc"),
            "--gpu-name=sm_90",
            "-o",
            str(folder / "k.cubin"),
            *flags,
        ]
    )


def test_text_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(tmp_path) == 0 and capsys.readouterr().err == ""
    assert command(tmp_path, "--remarks=tensorcore") == 0
    lines = capsys.readouterr().err.splitlines()
    assert lines and all(
        re.match(
            r"/corpus/python/matmul\.py:\d+:\d+: remark: (?:matrix product |the product is (?:not )?issued by )",
            line,
        )
        for line in lines
    )


def documents(text: str) -> list[dict[str, str]]:
    """The documents of a remark file: tag, scalar keys, and the arguments."""
    found = []
    for part in text.split("--- ")[1:]:
        rows = part.splitlines()
        assert rows[-1] == "..."
        keys = {"tag": rows[0]}
        for row in rows[1:-1]:
            key, _, value = row.strip().removeprefix("- ").partition(":")
            keys[key] = value.strip()
        found.append(keys)
    return found


def test_yaml_has_the_shape_of_nvidias(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "r.yaml"
    flags = ("--remarks=all", "--remark-format=yaml", f"--remarks-output-file={out}")
    assert command(tmp_path, *flags) == 0 and capsys.readouterr().err == ""
    ours = documents(out.read_text())
    assert {"!Passed", "!Analysis"} <= {d["tag"] for d in ours} and {"Memory", "Tensor-core"} == {
        d["Pass"] for d in ours
    }
    theirs_file = tmp_path / "n.yaml"
    subprocess.run(
        [peers.require("tileiras"), BYTECODE / "matmul_f16_ragged.tilebc", "--gpu-name=sm_90", "-o", tmp_path / "n.cubin",
         "--remarks=all", "--remark-format=yaml", f"--remarks-output-file={theirs_file}"], check=True,
    )  # fmt: skip
    theirs = documents(theirs_file.read_text())
    shared = {"tag", "Pass", "Name", "DebugLoc", "Function", "Args", "Remark"}
    assert all(shared <= set(d) for d in theirs) and all(shared <= set(d) for d in ours)
    assert {d["Pass"] for d in theirs} <= {d["Pass"] for d in ours}
    place = re.compile(r"\{ File: '[^']*', Line: \d+, Column: \d+ \}")
    assert all(place.fullmatch(d["DebugLoc"]) for d in theirs + ours)
    products = {d["DebugLoc"] for d in theirs if d["Pass"] == "Tensor-core"}
    assert products == {d["DebugLoc"] for d in ours if d["Pass"] == "Tensor-core"}, (
        "the same mmaf at the same place"
    )


def test_every_remark_names_its_function(tmp_path: Path) -> None:
    """Also those of passes, as NVIDIA's do."""
    out = tmp_path / "r.yaml"
    flags = ["--remarks=all", "--remark-format=yaml", f"--remarks-output-file={out}"]
    source = str(BYTECODE / "while_break_continue.tilebc")
    assert cli.main([source, "--gpu-name=sm_90", "-o", str(tmp_path / "k.cubin"), *flags]) == 0
    found = documents(out.read_text())
    assert "'AS-0304'" in {d["Name"] for d in found}
    assert {d["Function"] for d in found} == {"'while_break_continue'"}
