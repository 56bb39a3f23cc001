"""Text that means harm: each gives a located error and exit code 5, no output, and nothing that grows with its nesting."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from tileiras.compiler.ir.text import parse
from tileiras.compiler.source import load
from tileiras.diag import CompileError, Sink
from tileiras.tools import opt, translate

N = 20_000
ENTRY = "cuda_tile.module @m {\n entry @k(%a: tile<f32>) {\n BODY\n }\n}\n"


def body(text: str) -> str:
    return ENTRY.replace("BODY", text)


NESTED = {
    "if": body("%c = constant <i1: true> : tile<i1>\n" + "if %c {\n" * N),
    "module": "module {\n" * N,
    "cuda_tile.module": "cuda_tile.module @m {\n" * N,
    "generic": '"cuda_tile.module"() ({\n' * N,
    "ptr": body("%r = negf %a : tile<" + "ptr<" * N),
    "function": '"cuda_tile.negf"() : ' + "(" * N,
    "array": '"cuda_tile.negf"() <{a = ' + "[" * N + "]" * N + "}> : () -> ()",
    "dictionary": "cuda_tile.module @m attributes " + "{a = " * N,
    "callsite": body("return loc(" + "callsite(" * N),
    "named location": body("return loc(" + '"a"(' * N),
    "dense": body("%r = constant <f32: " + "[" * N + "1.0"),
}


@pytest.mark.parametrize("text", NESTED.values(), ids=NESTED)
def test_nesting(text: str) -> None:
    with pytest.raises(CompileError) as caught:
        parse(text, Sink(), file="k.mlir")
    said = caught.value.diagnostics[0]
    assert caught.value.exit_code == 5 and said.loc is not None and said.loc.line >= 1
    assert "deeper than" in said.text or "too many dimensions" in said.text


ALIASES = {
    "of itself": ("!a = !a\n", "undefined symbol alias id 'a'"),
    "of each other": ("#a = #b\n#b = #a\n", "undefined symbol alias id 'b'"),
    "types that double": (
        "!t0 = (i32) -> i32\n" + "".join(f"!t{i + 1} = (!t{i}, !t{i}) -> (!t{i}, !t{i})\n" for i in range(99)),
        "parts",
    ),
    "attributes that double": (
        "#t0 = [1]\n" + "".join(f"#t{i + 1} = [#t{i}, #t{i}]\n" for i in range(99)),
        "parts",
    ),
    "call sites that double": (
        '#l0 = loc("a":1:1)\n' + "".join(f"#l{i + 1} = loc(callsite(#l{i} at #l{i}))\n" for i in range(99)),
        "call site chain is too long",
    ),
    "fusions that double": (
        '#l0 = loc("a":1:1)\n' + "".join(f"#l{i + 1} = loc(fused[#l{i}, #l{i}])\n" for i in range(99)),
        "parts",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "said"), ALIASES.values(), ids=ALIASES)
def test_aliases(text: str, said: str) -> None:
    with pytest.raises(CompileError, match=said):
        parse(text + body("return"), Sink(), file="k.mlir")


LITERALS = [
    ("%r = constant <i32: " + "9" * N + "> : tile<i32>", "3:22: error: .* is too long"),
    ("%r = constant <f32: 0x" + "f" * N + "> : tile<f32>", "3:22: error: .* is too long"),
    ("%r = negf %a : tile<" + "9" * N + "xf32>", "is too long"),
    ("%r = negf %a : tile<" + "1x" * N + "f32>", "dimensions are too many"),
    ("%r = negf %a : tile<18446744073709551616xf32>", "maximum element count"),
    ('assert %a, "abc', "3:13: error: .* expected attribute value"),
    (r'assert %a, "\q" : tile<f32>', "3:13: error: .* unknown escape in string literal"),
    (r'assert %a, "\4" : tile<f32>', "3:13: error: .* unknown escape in string literal"),
    (r'assert %a, "\+1" : tile<f32>', "3:13: error: .* unknown escape in string literal"),
    (r'assert %a, "\4_" : tile<f32>', "3:13: error: .* unknown escape in string literal"),
    ("\0", r"3:2: error: expected operation name, but got '\\x00'"),
    ("%r = negf %a\0 : tile<f32>", "but got"),
    ("%r:99999999 = negf %a : tile<f32>", "expected a positive number of results"),
    ("%r = negf %a#" + "9" * N + " : tile<f32>", "3:14: error: .*result number of 20000 digits is too large"),
    ("%r = negf %a#9 : tile<f32>", "3:12: error: .*reference to invalid result number 9 of '%a'"),
    ("%a = negf %a : tile<f32>", "3:2: error: redefinition of SSA value '%a'"),
    ("%r = negf %s : tile<f32>\n%s = negf %a : tile<f32>", "3:12: error: use of undeclared SSA value name '%s'"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "said"), LITERALS)
def test_literals_and_names(text: str, said: str) -> None:
    with pytest.raises(CompileError, match=said) as caught:
        load(body(text).encode(), Sink(), file="k.mlir")
    assert caught.value.exit_code == 5


@pytest.mark.parametrize(
    "text",
    ["x" * N, body("x" * N), body(f"%r = negf %{'x' * N} : tile<f32>"), body(f"%r = negf %a : {'x' * N}")],
)
def test_messages_do_not_repeat_long_names(text: str) -> None:
    with pytest.raises(CompileError) as caught:
        parse(text, Sink(), file="k.mlir")
    assert "xxx..." in str(caught.value) and len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("data", "place"),
    [
        (b"cuda_tile.module @m { entry @k(%a\xff: tile<f32>) {} }", "1:34"),
        (b'\ncuda_tile.module @"\xc3\x28" { }', "2:20"),
        (b"cuda_tile.module @m { // \xff\xfe\n }", "1:26"),
        (b'cuda_tile.module @"\xed\xa0\x80" { }', "1:20"),
    ],
)
@pytest.mark.parametrize("tool", [opt, translate], ids=["opt", "translate"])
def test_broken_utf8(tool: Any, data: bytes, place: str, tmp_path: Path, capfd: Any) -> None:
    source, out = tmp_path / "k.mlir", tmp_path / "out"
    source.write_bytes(data)
    for flags in ((), ("--split-input-file",)):
        assert tool.main([str(source), "-o", str(out), *flags]) == 5
        assert f"k.mlir:{place}: error: input is not valid UTF-8" in capfd.readouterr().err
        assert not out.exists()


def test_byte_order_mark_and_line_ends(tmp_path: Path, capfd: Any) -> None:
    text = body("return")
    source = tmp_path / "k.mlir"
    printed = set()
    for data in (text, "\ufeff" + text, text.replace("\n", "\r\n"), "// a\r\n" + text):
        source.write_bytes(data.encode())
        assert opt.main([str(source)]) == 0
        printed.add(capfd.readouterr().out)
    assert len(printed) == 1


def test_blanks_and_comments_take_no_memory_of_their_own() -> None:
    """The parser is between tokens, not in them: memory follows the ops."""
    for filler in (" " * 200_000, "\n" * 50_000, "//x\n" * 50_000, "// " + "x" * 200_000 + "\n"):
        text = filler + body(filler + "return")
        tracemalloc.start()
        parse(text, Sink(), file="k.mlir")
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        lines = text.count("\n")
        assert peak < 1_000_000 + 64 * lines, filler[:4]


THREADS = """nvvm.module sm_90 {
  var global @t align 16 size 8
  func @k(u64 "i64") block 32, 1, 1 shared 16 attributes {nvvm.kernel} {
    ret
  }
}"""


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("i64", "a" * 2_000_000, "unknown parameter type 'aaa"),
        ("i64", "[1 x " * N + "i8" + "]" * N, "deeper than"),
        ("i64", "{" * N + "i8" + "}" * N, "deeper than"),
        ("i64", "view<" + "9" * 5000 + ">", "malformed type 'view<999"),
        ("i64", "view<-5>", "malformed type 'view<-5>'"),
        ("i64", "[\u00b2 x i8]", "malformed type"),
        ("32, 1", "0, 1", "expected a number from 1 on, but got 0"),
        ("32, 1", "-32, 1", "expected a number from 1 on, but got -32"),
        ("shared 16", "shared -16", "expected a number from 0 on, but got -16"),
        ("align 16", "align 0", "expected a number from 1 on, but got 0"),
        ("align 16", "align 3", "expected a power of two, but got 3"),
        ("size 8", "size -8", "expected a number from 0 on, but got -8"),
    ],
)
def test_code_of_one_thread(old: str, new: str, said: str) -> None:
    sink = Sink()
    assert parse(THREADS, sink, file="k.mlir")
    with pytest.raises(CompileError) as caught:
        parse(THREADS.replace(old, new), sink, file="k.mlir")
    found = caught.value.diagnostics[0]
    assert caught.value.exit_code == 5 and said in found.text and len(found.text) < 200
    assert found.loc is not None and found.loc.line in (2, 3)


def test_a_block_without_threads_is_refused(tmp_path: Path, capfd: Any) -> None:
    source = tmp_path / "k.mlir"
    for extent in (0, -1):
        bounds = f"{{nvvm.kernel, nvvm.reqntid = [{extent}, 1, 1]}}"
        source.write_text(THREADS.replace("{nvvm.kernel}", bounds))
        assert opt.main([str(source), "--pipeline-to", "ptx", "-o", str(tmp_path / "out")]) == 5
        assert f"nvvm.reqntid [{extent}, 1, 1] has an extent below 1" in capfd.readouterr().err


def test_resources_have_an_end() -> None:
    assert len(parse(body("return") + "{-# dialect_resources: {} #-}\n", Sink(), file="k.mlir")) == 1
    with pytest.raises(CompileError, match=r"k\.mlir:6:1: error: expected .#-\}., but the input ends"):
        parse(body("return") + "{-# dialect_resources: {}\n", Sink(), file="k.mlir")


def test_symbols_and_terminators_are_located() -> None:
    for text, place in (
        ("cuda_tile.module @m {\n entry @k() {}\n entry @k() {}\n}", "k.mlir:3:2"),
        (body("return\nnegf %a : tile<f32>"), "k.mlir:3:2"),
    ):
        from tileiras.compiler.ir.verify import verify

        sink = Sink()
        assert not verify(parse(text, sink, file="k.mlir")[0], sink)
        assert sink.emitted[0].render().startswith(f"{place}: error: ")


def test_nobody_sees_a_traceback(tmp_path: Path, capfd: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "k.mlir"
    source.write_text(body("return"))
    for error, code, said in (
        (MemoryError(), 1, "out of memory"),
        (KeyError("x"), 5, "internal error: KeyError"),
    ):

        def broken(*_: object, failure: Exception = error) -> None:
            raise failure

        monkeypatch.setattr(opt, "work", broken)
        monkeypatch.setattr(translate, "translate", broken)
        for tool in (opt, translate):
            assert tool.main([str(source), "-o", str(tmp_path / "out")]) == code
            assert said in capfd.readouterr().err and not (tmp_path / "out").exists()


@pytest.mark.parametrize("tool", [opt, translate], ids=["opt", "translate"])
def test_an_output_that_is_the_input_is_refused(tool: Any, tmp_path: Path, capfd: Any) -> None:
    """PTX in the place of the only source of it."""
    source = tmp_path / "k.mlir"
    source.write_text("cuda_tile.module @m { entry @k() { return } }")
    (tmp_path / "link").symlink_to(source)
    before = source.read_bytes()
    for name in ("k.mlir", "link"):
        assert tool.main([str(source), "-o", str(tmp_path / name)]) == 2
        assert "it is the input file" in capfd.readouterr().err
    assert source.read_bytes() == before and sorted(path.name for path in tmp_path.iterdir()) == [
        "k.mlir",
        "link",
    ]
