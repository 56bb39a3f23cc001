# ruff: noqa: E501 - one line of text per case
"""Text in and out: both forms of every op, the documents' spellings, locations, numbers, and errors with a place."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from op_zoo import SNIPPETS, module_text, names

from tileiras.compiler.ir import floats
from tileiras.compiler.ir import types as T
from tileiras.compiler.ir.printer import print_body, print_op
from tileiras.compiler.ir.text import parse
from tileiras.compiler.ir.verify import verify
from tileiras.compiler.source import load, load_text
from tileiras.diag import CompileError, Sink


def parsed(text: str):  # type: ignore[no-untyped-def]
    sink = Sink()
    module = load_text(text, sink, "t.mlir")
    assert verify(module, sink), [d.render() for d in sink.emitted]
    return module


def failed(text: str) -> str:
    sink = Sink()
    with pytest.raises(CompileError) as caught:
        load_text(text, sink, "t.mlir")
    assert caught.value.exit_code == 5
    return sink.emitted[-1].render()


def body(lines: str) -> str:
    """Printed lines of the only entry, behind the prelude."""
    text = print_body(parsed(module_text(lines)))
    plain = print_body(parsed(module_text("")))
    return "\n".join(line.strip() for line in text.splitlines()[len(plain.splitlines()) - 2 : -2])


@pytest.mark.parametrize(("op", "since", "lines"), SNIPPETS, ids=names())
def test_printed_text_parses_to_the_same_text(op: str, since: int, lines: str) -> None:
    module = parsed(module_text(lines))
    text = print_op(module)
    assert print_op(parsed(text)) == text
    assert print_op(parsed(print_body(module))) == text  # without a module around it
    assert print_op(parsed(print_op(module, generic=True))) == text
    assert print_op(parsed(print_op(module, debug=True))) == text


def test_names_follow_the_ops() -> None:
    text = body(
        "%a = constant <i32: -1> : tile<2xi32>\n%b = assume bounded<-1, ?>, %a : tile<2xi32>\n%e = negi %b : tile<2xi32>\n%d = constant <f32: 0.5> : tile<f32>"
    )
    assert text.splitlines()[0].startswith("%cst_-1_i32 = constant <i32: -1>")
    assert "%assume_cst_-1_i32 = assume bounded<-1, ?>, %cst_-1_i32" in text
    assert "%cst_f32_6 = constant <f32: 5.000000e-01>" in text


def test_the_outer_module_of_the_documents() -> None:
    module = parsed(
        "module attributes {nv_tileaa.compute_capability = 90 : i32, tt.num_warps = 4 : i32} {\n"
        "  cuda_tile.module {\n    cuda_tile.entry @noop(%A: !cuda_tile.ptr<f16>, %n: i32) {\n      cuda_tile.return\n    }\n  }\n}"
    )
    assert (module.attrs["sym_name"], module.attrs["tt.num_warps"]) == ("kernels", 4)
    assert str(module.regions[0].block.ops[0].attrs["function_type"]) == "(tile<ptr<f16>>, tile<i32>) -> ()"


PVIEW = "partition_view<tile=(4x8), tensor_view<?x64xf32, strides=[64,1]>>"


def test_a_view_load_with_mask_and_fallback_is_a_select() -> None:
    text = body(
        "%k = constant <i1: true> : tile<4x8xi1>\n"
        "%v, %o = cuda_tile.load_view_tko %pv[%n, %z], %k, %m2, %tok {mem_semantic = #cuda_tile<mem_semantic relaxed>, "
        "mem_scope = #cuda_tile<mem_scope gpu>, operandSegmentSizes = array<i32: 1, 2, 1, 1, 1>} "
        f": {PVIEW}, tile<i32>, tile<i32>, tile<4x8xi1>, tile<4x8xf32>, !cuda_tile.token -> tile<4x8xf32>, !cuda_tile.token\n"
        "%w = negf %v : tile<4x8xf32>\n%j = join_tokens %o, %tok : token"
    ).splitlines()
    assert "load_view_tko relaxed device" in text[1]
    assert text[2].split(" = ")[1].startswith("select ")
    assert text[3].split()[3] == text[2].split()[0]  # the name stands for the select, not for the load
    assert "%result_token" in text[4]


def test_absent_memory_attributes_mean_weak() -> None:
    text = body(
        f"%v, %o = load_view_tko %pv[%n, %z], %tok : {PVIEW}, tile<i32>, tile<i32>, token -> tile<4x8xf32>, token"
    )
    assert "load_view_tko weak" in text and "token = %0" in text


def test_reduce_as_the_documents_write_it() -> None:
    text = body(
        "%id = constant <f32: 0.0> : tile<f32>\n"
        "%s = cuda_tile.reduce %m2, %id { axis = 1 : i32 } : tile<4x8xf32>\n  -> tile<4xf32> {\n"
        "^bb0(%lhs: f32, %rhs: f32):\n  %r = cuda_tile.addf %lhs, %rhs : f32\n  cuda_tile.yield %r : f32\n}"
    )
    assert "dim=1 identities=[0.000000e+00 : f32] : tile<4x8xf32> -> tile<4xf32>" in text
    assert "(%reduce_lhs: tile<f32>, %reduce_rhs: tile<f32>)" in text


def test_other_spellings() -> None:
    assert "fpowf" in body("%r = pow %f0, %f1 : tile<4xf32>")
    assert "print_tko" in body('print "a" -> token')
    assert "constant <i32: 5>" in body("%r = arith.constant 5 : i32\n%s = addi %r, %n : i32")
    assert "fastmath" not in body('%r = addf %f0, %f1 {fastmath = "fast"} : tile<4xf32>')
    chain = body("%r = assume [div_by<4>, bounded<0, ?>], %n : tile<i32>")
    assert chain.count("= assume ") == 2
    text = body(
        "%r = mmai %a8, %a8, %ci {signedness_a = #cuda_tile.signedness<signed>, signedness_b = #cuda_tile.signedness<unsigned>} : tile<16x16xi8>, tile<16x16xi8>, tile<16x16xi32> -> tile<16x16xi32>"
    )
    assert "signed unsigned" in text


MMAI = "%r = mmai %a8, %a8, %ci{attributes} : tile<16x16xi8>, tile<16x16xi8>, tile<16x16xi32>"


def test_the_dictionary_of_mmai_stands_where_that_of_mmaf_does() -> None:
    """Between operands and types, and without result types, which are the accumulator's."""
    own = "signedness_lhs = #cuda_tile.signedness<signed>, signedness_rhs = #cuda_tile.signedness<unsigned>"
    keywords = body(MMAI.format(attributes=" signed unsigned"))
    assert body(MMAI.format(attributes=f" {{{own}}}")) == keywords
    assert body(MMAI.format(attributes=f" {{{own}}}") + " -> tile<16x16xi32>") == keywords
    mmaf = "%r = mmaf %a16, %a16, %c32{} : tile<16x16xf16>, tile<16x16xf16>, tile<16x16xf32>"
    assert body(mmaf.format(" {fast_acc}")) == body(mmaf.format(" fast_acc"))
    assert "expected signedness to be one of" in failed(module_text(MMAI.format(attributes="")))


def test_short_partition_view_is_fully_dynamic() -> None:
    ops = parse("cuda_tile.module { testing$func @f(%v: !cuda_tile.partition_view<128x64xf32>) {} }", Sink())
    view = ops[0].regions[0].block.ops[0].regions[0].block.args[0].type
    assert str(view) == "partition_view<tile=(128x64), tensor_view<?x?xf32, strides=[?,?]>>"


def test_every_op_has_the_place_of_its_text() -> None:
    module = parsed(
        'cuda_tile.module {\n  entry @k() {\n    %a = iota : tile<4xi32>\n    %b = iota : tile<4xi32> loc("f.py":7:3)\n  }\n}'
    )
    ops = module.regions[0].block.ops[0].regions[0].block.ops
    assert [str(op.loc) for op in ops] == ["t.mlir:3:5", "f.py:7:3", "t.mlir:5:3"]


def test_location_aliases_may_come_last() -> None:
    text = """cuda_tile.module @kernels {
  entry @k() {
    %a = iota : tile<4xi32> loc(#loc3)
    return loc(#loc)
  } loc(#loc2)
}
#file = #cuda_tile.di_file<"f.py" in "/d">
#loc = loc("/d/f.py":8:0)
#unit = #cuda_tile.di_compile_unit<file = #file>
#sub = #cuda_tile.di_subprogram<file = #file, line = 7, name = "k", linkageName = "k", compileUnit = #unit, scopeLine = 7>
#loc2 = #cuda_tile.di_loc<#loc in #sub>
#loc3 = loc(callsite(#cuda_tile.di_loc<loc("/d/g.py":1:2) in #sub> at #loc2))
"""
    module = parsed(text)
    entry = module.regions[0].block.ops[0]
    iota = entry.regions[0].block.ops[0]
    assert (str(entry.loc), str(iota.loc), [str(c) for c in iota.loc.callers]) == (
        "/d/f.py:8:0",
        "/d/g.py:1:2",
        ["/d/f.py:8:0"],
    )
    again = print_op(module, debug=True)
    assert print_op(parsed(again), debug=True) == again


@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        ("cuda_tile.module {\n  entry @k() {\n    %a = foo\n  }\n}", "3:10", "custom op 'foo' is unknown (tried 'cuda_tile.foo' as well)"),
        ("cuda_tile.module { entry @k() { cuda_tile.load_view } }", "1:33", "unknown operation 'cuda_tile.load_view'"),
        ("cuda_tile.module { entry @k() { nv_tileas.async.pipeline.produce_one } }", "1:33", "unregistered dialect: nv_tileas"),
        ("cuda_tile.module { entry @k(%p: !llvm.ptr) {} }", "1:33", "unregistered dialect: llvm"),
        ('cuda_tile.module { entry @k() { "foo.bar"() : () -> () } }', "1:33", "unregistered dialect: foo"),
        ("cuda_tile.module { func.func @k() { } }", "1:20", "unregistered dialect: func"),
        ("cuda_tile.module { entry @k() { %a = negf %b : tile<f32> } }", "1:43", "use of undeclared SSA value name '%b'"),
        ("cuda_tile.module { entry @k(%a: tile<f32>, %a: tile<f32>) {} }", "1:44", "redefinition of SSA value '%a'"),
        ("cuda_tile.module { entry @k(%a: tile<f32>) { %b = negf %a : tile<f64> } }", "1:51", "use of value '%a' expects different type than prior uses: '!cuda_tile.tile<f64>' vs '!cuda_tile.tile<f32>'"),
        ("cuda_tile.module {", "1:19", "expected '}', but the input ends"),
        ("cuda_tile.module { \0 }", "1:20", "expected operation name"),
        ("cuda_tile.module { entry @k() { %a = constant <f32: 0xFFFFFFFFF> : tile<f32> } }", "1:53", "out of range"),
        ("cuda_tile.module { entry @k() { %a = constant <i8: 300> : tile<i8> } }", "1:52", "integer constant out of range for type"),
        ("cuda_tile.module { entry @k() { return loc(#nowhere) } }", "1:40", "operation location alias was never defined: '#nowhere'"),
        ("// only a comment\n", "1:1", "expected one cuda_tile.module, but got 0"),
    ],
)  # fmt: skip
def test_errors_have_a_place(text: str, place: str, said: str) -> None:
    rendered = failed(text)
    assert rendered.startswith(f"t.mlir:{place}: error: "), rendered
    assert said in rendered


ADVERSARIAL = {
    "regions": "cuda_tile.module @k { entry @e(%c: tile<i1>) {" + "if %c {" * 5000 + "}" * 5000 + "} }",
    "types": "cuda_tile.module @k { entry @e(%c: " + "tile<" * 20000 + ") {} }",
    "functions": "cuda_tile.module @k { entry @e(%c: " + "(" * 20000 + ") {} }",
    "attributes": "cuda_tile.module @k attributes {a = " + "[" * 20000 + "]" * 20000 + "} {}",
    "literals": "cuda_tile.module @k { entry @e() { %c = constant <f32: " + "[" * 30000 + "> : tile<f32> } }",
    "locations": "cuda_tile.module @k { entry @e() { return loc(" + "callsite(" * 20000 + " } }",
    "digits": "cuda_tile.module @k { entry @e() { %c = constant <i32: " + "9" * 100_000 + "> : tile<i32> } }",
    "extent": "cuda_tile.module @k { entry @e() { %c = iota : tile<" + "9" * 5000 + "xi32> } }",
    "rank": "cuda_tile.module @k { entry @e() { %c = iota : tile<" + "1x" * 50_000 + "i32> } }",
    "aliases": "#a0 = [1]\n" + "".join(f"#a{i + 1} = [#a{i}, #a{i}]\n" for i in range(80)) + "cuda_tile.module @k attributes {x = #a80} {}",
    "type aliases": "!t0 = tile<f32>\n" + "".join(f"!t{i + 1} = (!t{i}, !t{i}) -> !t{i}\n" for i in range(80)) + "cuda_tile.module @k {}",
    "call sites": '#l0 = loc("f":1:1)\n' + "".join(f"#l{i + 1} = loc(callsite(#l{i} at #l{i}))\n" for i in range(60)) + "cuda_tile.module @k {}",
    "string": 'cuda_tile.module @k { entry @"abc',
}  # fmt: skip


@pytest.mark.parametrize("name", ADVERSARIAL)
def test_adversarial_text_is_an_error_with_a_place(name: str) -> None:
    assert failed(ADVERSARIAL[name]).startswith("t.mlir:")


def test_broken_utf8_has_a_place() -> None:
    sink = Sink()
    with pytest.raises(CompileError) as caught:
        load(b"cuda_tile.module @k {\n  \xff }", sink)
    assert caught.value.exit_code == 5
    assert str(sink.emitted[0].loc) == "<input>:2:3"


PIECES = [
    "{",
    "}",
    "(",
    ")",
    "<",
    ">",
    "[",
    "]",
    "%",
    "@",
    "#",
    "!",
    '"',
    "\\",
    "loc(",
    "tile<",
    "->",
    ":",
    ",",
    "=",
    "-",
    "\0",
    "x",
    "9" * 40,
    "0x",
    "1.5",
    "if",
    "reduce",
    "^bb0",
    "\udcff",
    "//",
    "index",
    "f32",
]
EDITS = st.lists(
    st.tuples(st.integers(0, 1 << 14), st.integers(0, 12), st.sampled_from(["", *PIECES])),
    min_size=1,
    max_size=6,
)


def survives(text: str) -> None:
    sink = Sink()
    try:
        module = load_text(text, sink, "t.mlir")
    except CompileError as error:
        assert error.exit_code == 5
        assert sink.emitted[-1].loc.file == "t.mlir" and sink.emitted[-1].loc.line >= 1
        return
    if verify(module, sink):
        once = print_op(module)
        assert print_op(load_text(once, Sink(), "again")) == once
    else:
        print_op(module)
        print_op(module, generic=True)


def edited(index: int, edits: list[tuple[int, int, str]]) -> str:
    text = module_text(SNIPPETS[index][2])
    for where, length, piece in edits:
        i = where % (len(text) + 1)
        text = text[:i] + piece + text[i + length :]
    return text


@given(st.integers(0, len(SNIPPETS) - 1), EDITS)
@settings(max_examples=300, deadline=20_000, suppress_health_check=list(HealthCheck))
def test_damaged_text(index: int, edits: list[tuple[int, int, str]]) -> None:
    survives(edited(index, edits))


@pytest.mark.full
@given(st.integers(0, len(SNIPPETS) - 1), EDITS)
@settings(max_examples=8000, deadline=20_000, suppress_health_check=list(HealthCheck))
def test_damaged_text_at_length(index: int, edits: list[tuple[int, int, str]]) -> None:
    survives(edited(index, edits))


FLOATS = [T.F16, T.BF16, T.F32, T.TF32, T.F64, T.F8E4M3FN, T.F8E5M2, T.F8E8M0FNU, T.F4E2M1FN, T.FNV8E5M3FNU]


@given(st.sampled_from(FLOATS), st.integers(0, (1 << 64) - 1))
@settings(max_examples=1500, deadline=None)
def test_a_spelled_float_reads_back(elem, bits: int) -> None:  # type: ignore[no-untyped-def]
    bits &= (1 << floats.width_of(elem)) - 1
    text = floats.spell(bits, elem)
    again = int(text, 16) if text.startswith("0x") else floats.parse_decimal(text, elem)
    assert again == bits


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
@settings(max_examples=500, deadline=None)
def test_decimal_f32_and_f64_agree_with_python(value: float) -> None:
    import struct

    for text in (repr(value), f"{value:.3e}", f"{value:.17e}"):
        assert floats.parse_decimal(text, T.F64) == struct.unpack("<Q", struct.pack("<d", float(text)))[0]
    assert floats.parse_decimal(repr(value), T.F32) == struct.unpack("<I", struct.pack("<f", value))[0]


@pytest.mark.parametrize(
    ("bits", "elem", "text"),
    [
        (0x3F800000, T.F32, "1.000000e+00"), (0x80000000, T.F32, "-0.000000e+00"), (0x7FC00000, T.F32, "0x7FC00000"),
        (0x3C23D70A, T.F32, "0.00999999977"), (0x4005BF0A8B145769, T.F64, "2.7182818284590451"), (0xFC00, T.F16, "0xFC00"),
        (0xC248, T.F16, "-3.140630e+00"), (0x3DCCCCCD, T.F32, "1.000000e-01"),
    ],
)  # fmt: skip
def test_floats_are_spelled_as_mlir_does(bits: int, elem, text: str) -> None:  # type: ignore[no-untyped-def]
    assert floats.spell(bits, elem) == text


@pytest.mark.parametrize("results", ["token", "(token, token)"])
def test_functions_print_what_they_return(results: str) -> None:
    values, types = ("%t, %t", "token, token") if "," in results else ("%t", "token")
    text = f"cuda_tile.module @m {{ testing$func @f() -> {results} {{ %t = make_token : token\n return {values} : {types} }} }}"
    once = print_op(parsed(text))
    assert f"@f() -> {results} {{" in once and print_op(parsed(once)) == once
