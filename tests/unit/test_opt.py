"""tileiras-opt: arguments, pieces of a file, expected diagnostics, stages, dumps, round trips of every dialect."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.contract import tileas as kit
from tileiras.tools import expect, opt

NOOP = """module attributes {nv_tileaa.compute_capability = 90 : i32} {
  cuda_tile.module {
    cuda_tile.entry @noop() {
      cuda_tile.return
    }
  }
}
"""
BAD = """cuda_tile.module @m {
  entry @k() {
    %a = constant <i32: 1> : tile<i32>
    %b = exti %a signed : tile<i32> -> tile<i32>
    return
  }
}
"""


@pytest.fixture
def run(tmp_path: Path, capfd: Any) -> Any:
    """run(text, *flags) -> (exit code, standard output, standard error)."""

    def go(text: str, *flags: str) -> tuple[int, str, str]:
        path = tmp_path / "k.mlir"
        path.write_text(text, encoding="utf-8")
        code = opt.main([str(path), *flags])
        out, err = capfd.readouterr()
        return code, out, err.replace(f"{tmp_path}/", "")

    return go


def test_parse_verify_print(run: Any) -> None:
    code, out, err = run(NOOP)
    assert (code, err) == (0, "") and "entry @noop()" in out
    assert run(out)[:2] == (0, out), "what it prints, it reads"
    code, out, err = run(BAD)
    assert code == 5 and out == "" and err.startswith("k.mlir:4:5: error: 'cuda_tile.exti' op exti requires")
    assert run(BAD, "--no-verify")[0] == 0
    code, out, _ = run(NOOP, "--generic")
    assert code == 0 and '"cuda_tile.entry"' in out
    assert "loc(" in run(NOOP, "--mlir-print-debuginfo")[1] or run(NOOP, "--debug")[0] == 0


@pytest.mark.parametrize(
    ("stage", "first"),
    [
        ("tileaa", "nv_tileaa.module"),
        ("tileas", "nv_tileas.module"),
        ("nvvm", "nvvm.module"),
        ("ptx", ".version"),
    ],
)
def test_stages(run: Any, stage: str, first: str) -> None:
    code, out, _ = run(NOOP, "--pipeline-to", stage)
    assert code == 0 and out.startswith(first)
    if stage != "ptx":  # and on from there, with the same result
        assert run(out)[:2] == (0, out)
        assert run(out, "--pipeline-to=ptx")[1] == run(NOOP, "--pipeline-to=ptx")[1]


def test_dumps_and_times(run: Any) -> None:
    _, _, err = run(NOOP, "--pipeline-to", "nvvm", "--print-ir-after-all")
    assert err.count("IR dump after") >= 8 and "// -----// IR dump after KernelAttrPass //----- //" in err
    _, _, err = run(NOOP, "--pipeline-to", "nvvm", "--print-ir-after=KernelAttrPass")
    assert err.count("IR dump after") == 1 and "nvvm.kernel" in err
    _, _, err = run(NOOP, "--pipeline-to", "nvvm", "--time-passes")
    assert "ms  ConvertTileASToLLVM" in err


def test_named_passes_and_their_options(run: Any) -> None:
    assert "consume_one" in run(kit.PIPELINED, "--pass", kit.D08)[1]
    both = f"{kit.D08},{kit.D11},{kit.D13}{{ignore-predecessor}}"
    assert run(kit.REFUSED_PIPELINE, "--pass", both)[0] == 0
    nested = f"builtin.module(nv_tileas.module(nv_tileas.func({kit.D08},{kit.D11})))"
    assert (
        run(kit.PIPELINED, f"--pass-pipeline={nested}")[1]
        == run(kit.PIPELINED, "--pass", f"{kit.D08},{kit.D11}")[1]
    )
    for flags, said in (
        (["--pass", "Nothing"], "unknown pass 'Nothing'"),
        (["--pipeline-to", "ptx", "--print-ir-after=Nothing"], "unknown pass 'Nothing'"),
        (["--pass", f"{kit.D13}{{nope}}"], "has no option 'nope'"),
        (["--pipeline-to", "sass"], "takes tileaa"),
        (["--frobnicate"], "unknown option '--frobnicate'"),
        (["-o"], "needs a value"),
        (["other"], "more than one input"),
    ):
        code, out, err = run(NOOP, *flags)
        wrong_word = "unknown pass" in said or "takes" in said
        assert code == (2 if wrong_word else 1) and said in err and out == "", flags


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["-O9"], "error: invalid optimization level: 9"),
        (["--gpu-name", "sm_12"], "error: unsupported GPU target 'sm_12'\nnote: the targets are sm_75, "),
        (["--gpu-name", "sm_90f"], "; did you mean --gpu-name=sm_90?"),
        (["--tensor-maps", "host"], "error: unknown tensor maps 'host', expected none or launcher"),
        (["--disable", "wgma"], "error: unknown part 'wgma', expected wgmma, "),
    ],
)
def test_what_no_compile_takes_is_a_fault_of_the_configuration(run: Any, flags: list[str], said: str) -> None:
    """As at `tileiras`: code 2, and the same note."""
    code, out, err = run(NOOP, *flags)
    assert code == 2 and said in err and out == "", err


def test_output_file_and_missing_input(tmp_path: Path, capfd: Any) -> None:
    source, out = tmp_path / "k.mlir", tmp_path / "out.mlir"
    source.write_text(NOOP)
    assert opt.main([str(source), "-o", str(out)]) == 0 and "entry @noop" in out.read_text()
    source.write_text(BAD)
    out.unlink()
    assert opt.main([str(source), "-o", str(out)]) == 5 and not out.exists()
    assert opt.main([str(tmp_path / "none.mlir")]) == 1
    assert "unable to read input file" in capfd.readouterr().err


@pytest.mark.parametrize("data", [b"", b" \n\t\r\n"])
def test_an_empty_file_is_no_module(data: bytes, tmp_path: Path, capfd: Any) -> None:
    """It was printed as no text at all, code 0: what should have written the file was not noticed."""
    source, out = tmp_path / "k.mlir", tmp_path / "out"
    source.write_bytes(data)
    for more in ([], ["--gpu-name=sm_90", "--pipeline-to=ptx"], ["--split-input-file"]):
        assert opt.main([str(source), "-o", str(out), *more]) == 3 and not out.exists()
        assert f"note: '{source}' is empty: whatever should have written it did not" in capfd.readouterr().err


def test_list_passes_and_help(capfd: Any) -> None:
    from tileiras.compiler.pipeline import PIPELINE

    assert opt.main(["--list-passes"]) == 0
    assert [line.split()[0] for line in capfd.readouterr().out.splitlines()] == [row.name for row in PIPELINE]
    assert opt.main(["--help"]) == 0
    text = capfd.readouterr().out
    assert all(
        name in text
        for name in ("--verify-diagnostics", "--split-input-file", "--pipeline-to", "--print-ir-after-all")
    )


SPLIT = "{}// -----\n{}"
MARKED = BAD.replace("    %b", "    // expected-error @+1 {{exti requires the result width}}\n    %b")


def test_expected_errors(run: Any) -> None:
    both = ("--verify-diagnostics", "--split-input-file")
    assert run(MARKED, *both)[0] == 0
    assert run(SPLIT.format(MARKED, NOOP), "-verify-diagnostics", "-split-input-file")[0] == 0
    code, _, err = run(BAD, *both)
    assert code == 1 and err.startswith("k.mlir:4: error: unexpected error: 'cuda_tile.exti' op")
    code, _, err = run(SPLIT.format(NOOP, MARKED.replace("requires", "demands")), *both)
    assert code == 1 and 'error: expected error "exti demands the result width" was not produced' in err
    assert "k.mlir:12:" in err, "lines of the file, not of the piece"
    note = MARKED.replace("exti requires the result width", "extending to smaller or identical integer")
    assert run(note, *both)[0] == 0, "the words of a note count"
    wrong = MARKED.replace("expected-error", "expected-warning")
    assert run(wrong, *both)[0] == 1


@pytest.mark.parametrize(
    ("place", "before"),
    [("@+1", True), ("@below", True), ("@-1", False), ("@above", False), ("@4", False), ("", None)],
)
def test_places(run: Any, place: str, before: bool | None) -> None:
    lines = BAD.splitlines()
    comment = f"// expected-error {place} {{{{exti requires}}}}"
    if before is None:
        lines[3] += "  " + comment
    else:
        lines.insert(3 if before else 4, comment)
    assert run("\n".join(lines) + "\n", "--verify-diagnostics")[0] == 0


def test_expected_remarks_and_notes(run: Any) -> None:
    text = kit.module(kit.function(kit.BAD_LOOP)).replace(
        "nv_tileas.for",
        "// expected-remark @below {{Failed to pipeline loop}}\n"
        "// expected-note @below {{the step of the loop is no positive constant}}\nnv_tileas.for",
    )
    assert run(text, "--pass", kit.D11, "--verify-diagnostics")[0] == 0
    assert run(text, "--pass", kit.D08, "--verify-diagnostics")[0] == 1
    assert run(text.replace("no positive", "a positive"), "--pass", kit.D11, "--verify-diagnostics")[0] == 1


def test_regular_expressions_and_counts() -> None:
    (found,) = expect.expectations("x // expected-error-re {{got {{[0-9]+}} bytes}}", 0)
    assert found.fits("we got 12 bytes here") and not found.fits("we got many bytes")
    many = expect.expectations("// expected-remark @+1 3 {{again}}\n\n", 10)
    assert [(e.line, e.at) for e in many] == [(12, 11)] * 3
    (nowhere,) = expect.expectations("// expected-warning @unknown {{x}}", 0)
    assert nowhere.line == 0


def test_unregistered_dialects(run: Any) -> None:
    text = '"other.op"() : () -> ()\n'
    assert run(text)[0] == 5 and run(text, "--allow-unregistered-dialect")[:2] == (0, text)


def test_mutated_goldens_end_with_a_diagnostic() -> None:
    """Random damage to the inputs of the golden tests: text is refused with a message, never with an exception."""
    import random

    from tileiras.diag import CompileError, Sink

    rng = random.Random(20)
    sources = []
    for path in sorted((Path(__file__).parents[1] / "golden").glob("*.txt")):
        head, _, rest = path.read_text(encoding="utf-8").partition("\n")
        sources.append((rest.partition("---- expected")[0], head.removeprefix("# run: tileiras-opt").split()))
    tokens = [
        "{",
        "}",
        "(",
        ")",
        "<",
        ">",
        ",",
        "%0",
        "-1",
        "9" * 30,
        '"',
        "#s",
        "tensor<4xf32>",
        ":",
        "\0",
        "\n",
        "^bb0",
        "0x",
    ]
    refused = 0
    for _ in range(150):
        text, words = rng.choice(sources)
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(text))
            text = text[:at] + rng.choice([*tokens, ""]) + text[at + rng.randint(0, 10) :]
        arguments, sink = opt.parse_arguments(["-", *words]), Sink()
        assert arguments is not None
        try:
            opt.work(text, 0, "k.mlir", arguments, sink)
        except CompileError:
            refused += 1
            assert sink.emitted, "refused without a word"
    assert refused > 50


def test_adversarial_text_is_located(run: Any) -> None:
    for text in (
        "nvvm.module sm_90 {\n  func @k( {\n",
        "nvvm.module sm_12 {\n}\n",
        "nv_tileas.module {",
        "#a = #linear<99>",
        "#a = #linear<3, lane = [1]>",
        'nvvm.module sm_90 {\n func @k(u8 "i7") {\n}\n}',
        "\x00",
        'nvvm.module sm_90 {\n  var global @t align 4 size 2 = "xyz"\n}',
        'nvvm.module sm_90 {\n  func @k(u8 "\t") {\n}\n}',
        "%0 = ",
        "module {" * 200,
        "nvvm.module sm_90 {\n func @k() {\n  %r1 = mov.u32 \u00e9\n}\n}",
        "#a = #cute.layout<((1, 2) : 3>",
    ):
        code, out, err = run(text)
        assert (
            code == 5
            and out == ""
            and err.startswith("k.mlir:")
            and "error: " in err
            and "Traceback" not in err
        ), (text, err)


LAUNCHES = """nvvm.module sm_90 {
  func @parent(u64 "ptr<f32>") block 32, 1, 1 attributes {nvvm.kernel} {
    %d1 = ld.param.u64 [parent_param_0]
    launch child, %d1
    ret
  }
  func @child(u64 "ptr<f32>") block 32, 1, 1 attributes {nvvm.kernel} {
    ret
  }
}
"""


def test_a_launch_has_no_ptx(run: Any) -> None:
    """It passes layer 4, which judges it; there is no instruction for it."""
    code, out, err = run(LAUNCHES, "--pipeline-to", "ptx")
    assert (code, out) == (5, "") and "the launch of child in function parent has no PTX" in err
    code, out, _ = run(LAUNCHES.replace("    launch child, %d1\n", ""), "--pipeline-to", "ptx")
    assert code == 0 and ".entry parent" in out


def test_passes_over_code_and_over_ops(run: Any) -> None:
    code, out, err = run(NOOP, "--pass", "NVVMIRVerifier")
    assert (code, out) == (
        5,
        "",
    ) and "pass 'NVVMIRVerifier' works on per-thread code, but there is a module" in err
    code, _, err = run(LAUNCHES, "--pass", "TileASMaterializeAsync")
    assert code == 5 and "works on a module of ops, but there is per-thread code" in err
    assert run(LAUNCHES, "--pass", "NVVMIRVerifier")[0] == 0


NVVM = "nvvm.module sm_90 {{\n  func @k() block 32, 1, 1 {attrs}{{\n    {record}\n    ret\n  }}\n}}\n"


@pytest.mark.parametrize(
    ("attrs", "record", "said"),
    [
        ("attributes {nvvm.cluster_dim} ", "", "2:40: error: .*'nvvm.cluster_dim' must be three numbers"),
        ("attributes {nvvm.cluster_dim = [1, 2]} ", "", "'nvvm.cluster_dim' must be three numbers"),
        ('attributes {nvvm.maxnreg = "x"} ', "", "'nvvm.maxnreg' must be a number"),
        ("attributes {nvvm.kernel = 1} ", "", "'nvvm.kernel' must be a flag"),
        ("", "launch", "3:5: error: .*launch needs a function"),
        ("", "launch %d1", "launch needs a function"),
        ("", "%r1 = mov.u32 " + "9" * 5000, "has too many digits"),
        ("", "%r" + "1" * 5000 + " = mov.u32 1", "has too many digits"),
        ("", "%r1 = mov.u32 " + "{" * 20_000, "operands nest deeper"),
        ("", "%r1 = mov.u32 " + "[" * 20_000, "operands nest deeper"),
    ],
)
def test_malformed_code_is_located(run: Any, attrs: str, record: str, said: str) -> None:
    import re

    code, out, err = run(NVVM.format(attrs=attrs, record=record), "--pipeline-to", "ptx")
    assert (code, out) == (5, "") and re.search(said, err), err
    assert "internal error" not in err and len(err) < 400


def test_advice_is_about_the_file_that_was_refused(run: Any) -> None:
    """What another run in this process read is not spoken of."""
    from tileiras import terminal

    terminal.remember("earlier.ptx", b".version 8.0\n.target sm_90\n")
    code, _, err = run(NVVM.format(attrs="attributes {nvvm.kernel = 1} ", record=""), "--pipeline-to", "ptx")
    assert code == 5 and "earlier.ptx" not in err


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ("raw", "2:8: error: instruction raw .* is not known"),
        ("%r1 = add.s32 %r1", "2:8: error: record 0 .* does not have the operands of add.s32: T = T T"),
        ("bar.sync [%r1]", "does not have the operands of bar.sync: r r?"),
        ("%d1 = add.s32 %r1, %r2", "does not have the operands of add.s32"),
        ("{%r1, %r2} = ld.global.v4.b32 [%d1]", "does not have the operands of ld.global.v4.b32: V = A"),
        ("add.s32 %r1, %r2", "does not have the operands"),
    ],
)
def test_records_that_no_instruction_row_covers(run: Any, record: str, said: str) -> None:
    import re

    code, _, err = run(NVVM.format(attrs="attributes {nvvm.kernel} ", record=record), "--pipeline-to", "ptx")
    assert code == 5 and re.search(said, err), err


def test_long_code_takes_time_by_its_lines(run: Any) -> None:
    """Every record asks whether the next token stands on its line: only what lies between is looked at."""
    from tileiras.compiler.nvvm.text import Reader

    reader = Reader("a b\nc // d\ne", 0)
    seen = []
    while reader.kind != "end":
        reader.step()
        seen.append(reader.same_line())
    assert seen == [True, False, False, False]


AS = 'nv_tileas.module {{sym_name = "m", nv_tileaa.compute_capability = 90 : i32}} {{\n{func}\n}}\n'
FUNC = 'nv_tileas.func {{sym_name = "k", function_type = () -> (){spec}}}'


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("nv_tileas.module {sym_name = \"m\", nv_tileaa.compute_capability = 90 : i32}\n", 0, ""),
        ("nv_tileaa.module {sym_name = \"m\", nv_tileaa.compute_capability = 90 : i32} {}\n", 0, ""),
        (AS.format(func=FUNC.format(spec="")), 5, "region with 1 blocks"),
        (AS.format(func=FUNC.format(spec="") + " {\nnv_tileas.return\n}"), 5, "nv_tileaa.kernel_spec"),
        (AS.format(func='nv_tileas.func {sym_name = "k", function_type = (tensor<4xf32, "x">) -> ()} {\n}'), 5,
         "expected a layout"),
    ],
)  # fmt: skip
def test_modules_with_parts_missing(run: Any, text: str, code: int, said: str) -> None:
    flags = [["--pipeline-to", "ptx"]] + (
        [["--pass", "ConvertTileASToLLVM"]] if "kernel_spec" in said else []
    )
    for words in flags:
        found, _, err = run(text, *words)
        assert found == code and said in err and "internal error" not in err, err


def test_the_pipeline_starts_in_the_middle(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """What a conversion makes is there for the passes behind it, wherever the pipeline began."""
    golden = Path(__file__).parents[1] / "golden" / "stream_products.txt"
    source = tmp_path / "k.mlir"
    source.write_text(golden.read_text().split("---- expected")[0].partition("\n")[2])
    for skip in ((), ("--skip", "TileAAStreamProducts")):
        assert opt.main([str(source), "--pipeline-to", "ptx", "--gpu-name", "sm_80", *skip]) == 0
        assert "mma.sync" in capfd.readouterr().out


@pytest.mark.parametrize(("gpu", "maps"), [("sm_80", "none"), ("sm_90", "launcher"), ("sm_100", "launcher")])
def test_a_schedule_that_stands_in_the_text_is_not_made_again(
    gpu: str, maps: str, tmp_path: Path, capfd: Any
) -> None:
    """What --pipeline-to=tileas wrote is at the end of that stage: again nothing changes, and on it goes to the same PTX."""
    pytest.importorskip("numpy")
    from tests.corpus.export import bytecode_path
    from tests.corpus.registry import CASES

    flags = [f"--gpu-name={gpu}", f"--tensor-maps={maps}"]
    written, again = tmp_path / "k.mlir", tmp_path / "again.mlir"
    kernel = str(bytecode_path(CASES["staged_bf16_nn_128"]))
    assert opt.main([kernel, "--pipeline-to=tileas", "-o", str(written), *flags]) == 0
    assert opt.main([str(written), "--pipeline-to=tileas", "-o", str(again), *flags]) == 0
    assert again.read_text() == written.read_text()
    ptx = []
    for source in (kernel, str(written)):
        assert opt.main([source, "--pipeline-to=ptx", *flags]) == 0
        out, err = capfd.readouterr()
        ptx.append(out)
        assert "Failed to pipeline" not in err
    assert ptx[0] == ptx[1] and ".entry" in ptx[0]
