"""What the commands say behind an error: the op or form that would take the place of what was refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tileiras import cli


def said_of(path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    code = cli.main([str(path), "--gpu-name=sm_90", "--emit=ptx", "-o", str(path.with_suffix(".ptx"))])
    return code, capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("i32", "f32"),
        ("f32", "i32"),
        ("f16", "f32"),
        ("f32", "bf16"),
        ("i32", "i64"),
        ("i64", "i8"),
        ("i1", "i32"),
    ],
)
def test_the_conversion_that_is_named_compiles(
    given: str, wanted: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    op = "addf" if "f" in wanted else "addi"
    lines = [
        "cuda_tile.module @m {", "  entry @k() {",
        f"    %i = constant <{given}: {'true' if given == 'i1' else '1.0' if 'f' in given else 1}> : tile<8x16x{given}>",
        f"    %c = constant <{wanted}: {'1.0' if 'f' in wanted else 1}> : tile<8x16x{wanted}>",
        f"    %s = {op} %c, %i : tile<8x16x{wanted}>", "    return", "  }", "}", "",
    ]  # fmt: skip
    path = tmp_path / "k.tileir"
    path.write_text("\n".join(lines))
    code, err = said_of(path, capsys)
    note = next(line for line in err.splitlines() if "makes the wanted type: " in line)
    assert code == 5 and ":5:" in err
    lines.insert(4, note.partition("makes the wanted type: ")[2].replace("%u", "%i"))
    lines[5] = lines[5].replace("%i", "%v")
    path.write_text("\n".join(lines))
    assert said_of(path, capsys) == (0, "")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("%x = load_ptr_tko weak %p : tile<ptr<f32>> -> tile<f32>", "two results, the value and a token: %x, %t = load_ptr_tko"),
        ("%x = iota : tile<33554432xi32>", "give each tile block a part"),
        ("%x = constant <f32: 1.0> : tile<8xf32>\n%y = constant <f32: 1.0> : tile<1xf32>\n%z = addf %x, %y : tile<8xf32>",
         "broadcast makes tile<8xf32> of tile<1xf32>"),
    ],
)  # fmt: skip
def test_what_would_take_the_place_is_said(
    line: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "k.tileir"
    path.write_text(f"cuda_tile.module @m {{\nentry @k(%p: tile<ptr<f32>>) {{\n{line}\nreturn\n}}\n}}\n")
    code, err = said_of(path, capsys)
    assert code == 5 and err.splitlines()[-1].startswith("note: ") and said in err.splitlines()[-1]


@pytest.mark.parametrize(
    ("op", "element", "twin"),
    [("addf", "i32", "addi"), ("maxi", "f32", "maxf"), ("negf", "i64", "negi"), ("subi", "bf16", "subf")],
)
def test_the_op_for_the_type_at_hand_is_named(
    op: str, element: str, twin: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = "1.0" if "f" in element else "1"
    text = (
        f"cuda_tile.module @m {{\nentry @k() {{\n%a = constant <{element}: {one}> : tile<8x{element}>\n"
        f"%b = {op} %a{'' if 'neg' in op else ', %a'}{' signed' if op[:3] in ('max', 'min') else ''} : tile<8x{element}>\n"
        "return\n}\n}\n"
    )
    path = tmp_path / "k.tileir"
    path.write_text(text)
    code, err = said_of(path, capsys)
    assert code == 5 and f"note: {twin} is {op} for {element}" in err
    path.write_text(
        text.replace(f"= {op} ", f"= {twin} ").replace(" signed", "" if twin.endswith("f") else " signed")
    )
    assert said_of(path, capsys) == (0, "")


def test_elements_of_eight_bits_are_converted_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "k.tileir"
    text = (
        "cuda_tile.module @m {\nentry @k() {\n%a = constant <f8E4M3FN: 1.0> : tile<8xf8E4M3FN>\n"
        "%b = mulf %a, %a : tile<8xf8E4M3FN>\nreturn\n}\n}\n"
    )
    path.write_text(text)
    code, err = said_of(path, capsys)
    line = next(line for line in err.splitlines() if "makes a type that mulf takes: " in line)
    converted = line.partition("takes: ")[2].replace("%u", "%a")
    assert code == 5
    path.write_text(
        text.replace("%b = mulf %a, %a : tile<8xf8E4M3FN>", f"{converted}\n%b = mulf %v, %v : tile<8xf32>")
    )
    assert said_of(path, capsys) == (0, "")
