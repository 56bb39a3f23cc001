"""What text of NVIDIA's dialect means here: which fault of an op is named, older names, locations, lossless round trips."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tileiras.compiler.ir.printer import print_op
from tileiras.compiler.ir.verify import verify
from tileiras.compiler.source import load, load_text, to_bytecode
from tileiras.diag import CompileError, Sink
from tileiras.tools import opt, translate

BODY = "cuda_tile.module @kernels {{\n  testing$func @f({args}) {{\n    {op}\n  }}\n}}\n"
PVIEW = "partition_view<tile=(8), tensor_view<128xf32, strides=[1]>>"


def refused(op: str, args: str = "%a: tile<8xf32>, %i: tile<i32>, %p: tile<ptr<f64>>") -> list[str]:
    """Where and what is said about an op: `line: message`, then its notes."""
    sink = Sink()
    try:
        verify(load_text(BODY.format(args=args, op=op), sink, "k.mlir"), sink)
    except CompileError:
        pass
    assert len(sink.emitted) == 1, [e.render() for e in sink.emitted]
    said = sink.emitted[0]
    assert said.loc is not None
    return [f"{said.loc.line}: {said.message}", *[note.message for note in said.notes]]


VIEW = f"%v: {PVIEW}, %a: tile<8xf32>, %i: tile<i32>"


@pytest.mark.parametrize(
    ("op", "args", "said"),
    [
        # The syntax of the whole op comes before what its operands are.
        ("%r = broadcast %r : tile<1x2xf32> -> tile<0x2xf32>", "", "must be powers of two"),
        ("%r = addf %r, %r : tile<8xf32>", "", "use of undeclared SSA value name '%r'"),
        ("%r = select %i, %a, %a : tile<8xf32>", VIEW, "3: custom op 'cuda_tile.select' expected ','"),
        ("%r = select %i, %a, %a : tile<i1>, tile<8xf32>", VIEW, "3: use of value '%i' expects different type"),
        ("loop iter_values(%x = %none) : {}", "", "expected valid keyword or a type"),
        ("loop iter_values(%x = %none) : tile<f32> {}", "", "use of undeclared SSA value name '%none'"),
        # What stands where a case has to stand, and a scope that has no place.
        (f"store_view_tko relaxed near %a, %v[%i] : tile<8xf32>, {PVIEW}, tile<i32> -> token", VIEW,
         'invalid memory_scope attribute specification. Got "near" but expect one of: tl_blk, device, sys'),
        (f"store_view_tko weak device %a, %v[%i] : tile<8xf32>, {PVIEW} -> token", VIEW,
         'but then provides "device" scope, expected no memory scope.'),
        ("assume 32 : i32, %i : tile<i32>", VIEW, "expected assume predicate attribute"),
        ("print_tko : tile<2xf16> -> token", "", "expected attribute value"),
        ("%r = constant <pluto : 42.0> : tile<f32>", "", "custom op 'cuda_tile.constant' unknown type: pluto"),
        ("%r = constant <pluto : 42.0> : tile<f32>", "", "expect element type to be one of i1 or"),
        ("%r = constant <tensor<i32> : 42> : tile<i32>", "", "values, but got 'tensor<i32>'"),
        # A view op names one type; the index of a make_tensor_view may be the wrong thing.
        (f"%r = make_partition_view %v\n    : {PVIEW}\n    -> {PVIEW}", f"%v: {PVIEW}", "expected operation name"),
        (f"%r = make_partition_view %v\n    : tensor_view<128xf32, strides=[1]>\n    -> {PVIEW}",
         "%v: tensor_view<128xf32, strides=[1]>", "4: custom op 'cuda_tile.make_partition_view' expected 'partition_view' type"),
        ("%r = make_tensor_view %p, shape = [%p], strides = [1] : tile<ptr<f64>> -> tensor_view<?xf64, strides=[1]>",
         "%p: tile<ptr<f64>>", "operand #1 must be variadic of 0D tile of i1 or i8 or i16 or i32 or i64"),
        # NVIDIA's form of a reduction says what it means; the documents' `^bb0(%a: f32)` is short for tiles.
        ("%r = reduce %a dim=0 identities=[0.0 : f32] : tile<8xf32> -> tile<f32>\n"
         "(%x: f32, %y: tile<f32>) {\n  yield %y : tile<f32>\n}",
         "%a: tile<8xf32>", "expected TileType for block arguments but got types: 'f32', '!cuda_tile.tile<f32>'"),
        ('"cuda_tile.yield"() : () -> !cuda_tile.tensor_view<f16,>', "", "expected token after element type in 0-d tensor_view"),
        ('"cuda_tile.yield"() : () -> !cuda_tile.tensor_view<f16, strides=[1]>', "",
         "strides must not be provided for 0-d tiles"),
    ],
)  # fmt: skip
def test_what_is_named(op: str, args: str, said: str) -> None:
    found = refused(op, args)
    assert any(said in line for line in found), found


@pytest.fixture
def run(tmp_path: Path, capfdbinary: Any) -> Any:
    """run(tool, text, *flags) -> (exit code, output, standard error)."""

    def go(tool: Any, text: str | bytes, *flags: str) -> tuple[int, bytes, str]:
        path = tmp_path / "k.mlir"
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        code = tool.main([str(path), *flags])
        out, err = capfdbinary.readouterr()
        return code, out, err.decode().replace(f"{tmp_path}/", "")

    return go


POW = "cuda_tile.module @kernels {\n  entry @k(%arg0: tile<f32>) {\n    %0 = NAME %arg0, %arg0 : tile<f32>\n    return\n  }\n}\n"


def test_an_op_keeps_the_name_it_has_in_the_text(run: Any) -> None:
    """`fpowf` was `pow` before 13.4; messages call it as the text does."""
    for name, minor in (("pow", 1), ("fpowf", 4)):
        text = POW.replace("NAME", name)
        assert run(opt, text)[:2] == (0, text.encode())
        assert f'"cuda_tile.{name}"' in run(opt, text, "-mlir-print-op-generic")[1].decode()
        assert f"'cuda_tile.{name}' op operand #0" in run(opt, text.replace("f32", "i32"))[2]
        code, data, _ = run(translate, text)
        assert (code, data[9]) == (0, minor)
        assert run(translate, data)[1] == text.encode()
        assert run(translate, text, "-test-cudatile-roundtrip")[1] == text.encode()
    other = run(translate, run(translate, POW.replace("NAME", "pow"), "--version", "13.4")[1])[1]
    assert b"fpowf" in other


@pytest.mark.parametrize(
    ("old", "new", "minor"),
    [
        ("@kernels", '@kernels attributes {producer = "me"}', 3),
        ("@kernels", "@kernels attributes {tt.num_warps = 8 : i32}", 3),
        ("@kernels", "@kernels", 1),
    ],
)
def test_without_a_version_nothing_is_lost(old: str, new: str, minor: int) -> None:
    module = load_text(POW.replace("NAME", "pow").replace(old, new), Sink(), "k.mlir")
    data = to_bytecode(module)
    assert data[9] == minor
    assert print_op(load(data, Sink())) == print_op(module)


def test_promises_about_bounds_choose_the_version() -> None:
    store = f"store_view_tko weak %c, %v[%i] inbounds = [true] : tile<8xf32>, {PVIEW}, tile<i32> -> token"
    text = f"""cuda_tile.module @kernels {{ entry @k(%p: tile<ptr<f32>>, %i: tile<i32>) {{
  %c = constant <f32: 1.0> : tile<8xf32>
  %t = make_tensor_view %p, shape = [128], strides = [1] : tensor_view<128xf32, strides=[1]>
  %v = make_partition_view %t : {PVIEW}
  %o = {store}
}} }}"""
    module = load_text(text, Sink(), "k.mlir")
    assert "inbounds = [true]" in print_op(load(to_bytecode(module), Sink()))


SPELLINGS = ["--mlir-to-cudatilebc", "-mlir-to-cudatilebc", "--to=bytecode"]


def test_spellings_of_nvidias_tool(run: Any) -> None:
    text = POW.replace("NAME", "pow")
    made = {
        run(translate, text, flag, "-no-implicit-module", "-bytecode-version=13.2")[1] for flag in SPELLINGS
    }
    assert len(made) == 1
    assert run(translate, made.pop(), "-cudatilebc-to-mlir", "-no-implicit-module")[1] == text.encode()
    code, out, err = run(translate, text.replace("tile<f32>", "tile<i32>"), "-bytecode-version=12.0")
    assert (code, out) == (3, b"") and "Invalid argument '12.0': the supported versions are" in err


FOREIGN = """// expected-error @below {{only ops from the 'cuda_tile' dialect are allowed}}
cuda_tile.module @kernels {
  entry @k() {
    // expected-remark @below {{invalid op: test.other}}
    "test.other"() : () -> ()
  }
}
// -----
// expected-error @below {{only function and global ops are allowed in the body}}
cuda_tile.module @kernels {
  // expected-remark @below {{invalid op: cuda_tile.constant}}
  constant <f32: 5.0> : tile<f32>
}
"""


def test_translate_compares_diagnostics_of_pieces(run: Any) -> None:
    flags = (
        "-mlir-to-cudatilebc",
        "-split-input-file",
        "-verify-diagnostics",
        "-allow-unregistered-dialect",
    )
    assert run(translate, FOREIGN, *flags) == (0, b"", "")
    code, _, err = run(translate, FOREIGN.replace("only function", "no function"), *flags)
    assert code == 1 and "k.mlir:9: error: expected error" in err
    cut = FOREIGN.replace("// -----", "// ~~~~~")
    assert run(translate, cut, "--split-input-file=// ~~~~~", *flags[2:])[0] == 0


LOCATIONS = """#loc1 = loc("f.py":1:1)
#loc2 = loc("f.py":1:2)
cuda_tile.module @kernels {{
  entry @k() {{
    %a = constant <i32: 1> : tile<i32> loc({})
    return
  }}
}}
"""


@pytest.mark.parametrize(
    ("loc", "kind"),
    [
        ("fused[#loc1, #loc2]", "FusedLoc"),
        ('"name"(#loc1)', "NameLoc"),
        ('"name"', "NameLoc"),
        ('fused<"pass">[#loc1]', "FusedLoc"),
        ("callsite(fused[#loc1, #loc2] at #loc1)", "FusedLoc"),
        ('callsite(#loc1 at "name"(#loc2))', "NameLoc"),
    ],
)
def test_names_and_fusions_of_locations(run: Any, loc: str, kind: str) -> None:
    """They print as they were; bytecode has no record for them."""
    text = LOCATIONS.format(loc)
    code, out, err = run(translate, text, "-mlir-to-cudatilebc")
    assert (code, out) == (3, b"")
    assert f"unsupported location, got {kind}, expected DILocAttr or CallSiteLoc" in err
    code, printed, _ = run(opt, text, "--mlir-print-debuginfo")
    assert code == 0 and run(opt, printed, "--mlir-print-debuginfo")[1] == printed
    assert loc.split("(")[0].split("[")[0] in printed.decode()
    assert run(translate, text.replace(f" loc({loc})", ""))[0] == 0


def test_scopes_inside_of_names_and_fusions_are_checked(run: Any) -> None:
    head = (
        '#file = #cuda_tile.di_file<"f.py" in "/d">\n#unit = #cuda_tile.di_compile_unit<file = #file>\n'
        '#sub = #cuda_tile.di_subprogram<file = #file, line = 1, name = "k", linkageName = "k", '
        'compileUnit = #unit, scopeLine = 2>\n'
        '#block = #cuda_tile.di_lexical_block<scope = #sub, file = #file, line = 3, column = 4>\n'
        '#in_sub = #cuda_tile.di_loc<loc("f.py":1:1) in #sub>\n#in_block = #cuda_tile.di_loc<loc("f.py":2:1) in #block>\n'
    )  # fmt: skip
    entry = "cuda_tile.module @kernels {{ entry @k() {{ return loc({}) }} loc({}) }}\n"
    assert run(opt, head + entry.format("#in_block", '"n"(#in_sub)'))[0] == 0
    for inner, outer, said in (
        ("#in_sub", '"n"(#in_block)', "Function location must have cuda_tile.di_subprogram"),
        ("#in_sub", "fused[#in_block]", "Function location must have cuda_tile.di_subprogram"),
        ('"n"(#in_sub)', "unknown", "function debug info scope is undefined"),
        ('callsite("f.py":3:3 at fused[#in_block])', "unknown", "function debug info scope is undefined"),
    ):
        code, _, err = run(opt, head + entry.format(inner, outer))
        assert code == 5 and said in err, (inner, outer, err)
    stray = head + 'cuda_tile.module @kernels { "some.op"() : () -> () loc("n"(#in_sub)) }\n'
    assert (
        "Global variables must not have scope"
        in run(opt, stray, "--allow-unregistered-dialect", "--split-input-file")[2]
    )


def test_a_module_has_no_arguments() -> None:
    text = '"cuda_tile.module"() <{sym_name = "m"}> ({\n^bb0(%a: !cuda_tile.tile<f32>):\n}) : () -> ()'
    sink = Sink()
    assert not verify(load_text(text, sink, "k.mlir"), sink)
    assert "region should have no arguments" in sink.emitted[0].message
    assert verify(load_text(text.replace("(%a: !cuda_tile.tile<f32>)", ""), Sink(), "k.mlir"), Sink())


@pytest.mark.parametrize(
    "sizes", ["dense<[1]> : !cuda_tile.tile<1xi32>", "[a]", "array<i1: true>", '"x"', "2"]
)
def test_segment_sizes_are_integers(sizes: str) -> None:
    text = BODY.format(
        args="%a: tile<8xf32>",
        op=f'"cuda_tile.return"(%a) <{{operandSegmentSizes = {sizes}}}> : (!cuda_tile.tile<8xf32>) -> ()',
    )
    with pytest.raises(CompileError, match="'operandSegmentSizes' must be a list of integers"):
        load_text(text, Sink(), "k.mlir")


@pytest.mark.parametrize("list_", ["[a, 0 : i32]", "array<i1: true, false>", '["0", "1"]'])
def test_elements_of_lists_are_of_one_kind(list_: str) -> None:
    types = "(!cuda_tile.tile<2x4xf32>) -> !cuda_tile.tile<4x2xf32>"
    op = f'%r = "cuda_tile.permute"(%a) <{{permutation = {list_}}}> : {types}'
    with pytest.raises(CompileError, match="'permutation' must be a list of integers"):
        load_text(BODY.format(args="%a: tile<2x4xf32>", op=op), Sink(), "k.mlir")


def test_what_cannot_be_written_is_located() -> None:
    text = "cuda_tile.module @m {\n  entry @k() {\n  }\n  entry @t(%a: tensor<2xi16>) {\n  }\n}\n"
    sink = Sink()
    with pytest.raises(CompileError, match=r"k\.mlir:4:3: error: unsupported type in bytecode writer"):
        to_bytecode(load_text(text, sink, "k.mlir"), "13.1", sink)
