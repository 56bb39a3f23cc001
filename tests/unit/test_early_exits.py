"""What leaves a region early carries the types of where it goes, at any depth: text, bytecode, tensor dialects, NVIDIA."""

import subprocess

import peers
import pytest
from contract.tileas import load as parse

from tileiras.compiler.ir.verify import verify
from tileiras.compiler.source import load, to_bytecode
from tileiras.diag import Sink

TYPES = "early-exit operand types must match the enclosing region contract"
PLACE = "early-exit must be enclosed by a compatible loop or for"
HEAD = """
  %c = constant <i1: 1> : tile<i1>
  %z = constant <i32: 0> : tile<i32>
  %o = constant <i32: 1> : tile<i32>
  %f = constant <f32: 0.0> : tile<f32>
"""
LOOPS = {
    "for": "%r = for %i in (%z to %o, step %o) : tile<i32> iter_values(%a = %f) -> (tile<f32>) {{ {} continue %a : tile<f32> }}",
    "loop": "%r = loop iter_values(%a = %f) : tile<f32> -> tile<i32> {{ {} break %z : tile<i32> }}",
}
EXITS = {
    "continue %a : tile<f32>": {"for": "", "loop": ""},
    "continue %z : tile<i32>": {"for": TYPES, "loop": TYPES},
    "continue %a, %a : tile<f32>, tile<f32>": {"for": TYPES, "loop": TYPES},
    "continue": {"for": TYPES, "loop": TYPES},
    "break %z : tile<i32>": {"for": PLACE, "loop": ""},
    "break %a : tile<f32>": {"for": PLACE, "loop": TYPES},
    "break": {"for": PLACE, "loop": TYPES},
}
CASES = [(loop, text, want) for text, row in EXITS.items() for loop, want in row.items()]
BRANCHES = {  # both ways of a branch that has a result
    "yield %f : tile<f32> } else { yield %f : tile<f32>": "",
    "yield %f : tile<f32> } else { yield %z : tile<i32>": "expected TileType for operand and terminator types",
    "yield %z : tile<i32> } else { continue %a : tile<f32>": "expected TileType for operand and terminator types",
    "yield %f : tile<f32> } else { continue %a : tile<f32>": "",
    "yield %f : tile<f32> } else { continue %z : tile<i32>": TYPES,
}


def module(loop, inside, depth):
    for _ in range(depth):
        inside = f"if %c {{ {inside} }}"
    return f"cuda_tile.module @m {{ entry @k() {{ {HEAD} {LOOPS[loop].format(inside)} return }} }}"


def refusal(source):
    sink = Sink()
    module = (
        load(source, sink)
        if isinstance(source, bytes) or "cuda_tile.module" in source
        else parse(source, sink)
    )
    good = verify(module, sink)
    assert good is not bool(sink.emitted)
    return "" if good else sink.emitted[0].text


def as_bytecode(text):
    """What a frontend without a verifier would write."""
    return to_bytecode(load(text, Sink()), "13.1")


def agrees(source, want):
    got = refusal(source)
    return got.startswith(want) if want else not got


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize(("loop", "text", "want"), CASES)
def test_types_of_exits_in_branches(loop, text, want, depth):
    source = module(loop, text, depth)
    assert agrees(source, want) and agrees(as_bytecode(source), want)


@pytest.mark.parametrize("depth", [0, 1, 2])
@pytest.mark.parametrize("branch", BRANCHES)
@pytest.mark.parametrize("loop", LOOPS)
def test_types_of_branches_with_results(loop, branch, depth):
    source = module(loop, f"%q = if %c -> (tile<f32>) {{ {branch} }}", depth)
    assert agrees(source, BRANCHES[branch]) and agrees(as_bytecode(source), BRANCHES[branch])


@pytest.mark.parametrize(("loop", "text", "want"), CASES)
def test_nvidias_verifier_draws_the_same_line(loop, text, want, tmp_path):
    source = tmp_path / "k.tilebc"
    source.write_bytes(as_bytecode(module(loop, text, 2)))
    tool = peers.require("tileiras")
    done = subprocess.run(
        [tool, source, "--gpu-name=sm_90", "-o", tmp_path / "k.cubin"], capture_output=True, check=False
    )
    assert (done.returncode == 0) is not bool(want), done.stderr


def tensors(inside, last="continue %a : tensor<f32>", dialect="nv_tileaa", results="tensor<f32>"):
    """A loop of tensors, as a pass may have left it; `for` or, with a `break` at the end, `loop`."""
    kind = "loop" if last.startswith("break") else "for"
    bounds = (
        ("", "", "")
        if kind == "loop"
        else ("%z, %z, %z, ", "tensor<i32>, tensor<i32>, tensor<i32>, ", "%i: tensor<i32>, ")
    )
    sizes = "1" if kind == "loop" else "1, 1, 1, 1"
    body = f"""
nv_tileaa.module {{sym_name = "m"}} {{ nv_tileaa.func {{sym_name = "k", function_type = () -> ()}} {{
  %z = nv_tileaa.constant {{value = dense<"0x00000000"> : !cuda_tile.tile<i32>}} : () -> tensor<i32>
  %f = nv_tileaa.constant {{value = dense<"0x00000000"> : !cuda_tile.tile<f32>}} : () -> tensor<f32>
  %c = nv_tileaa.cmpi %z, %z {{comparison_predicate = less_than, signedness = signed}} : tensor<i32>, tensor<i32> -> tensor<i1>
  %r = nv_tileaa.{kind} {bounds[0]}%f {{operandSegmentSizes = array<i32: {sizes}>}} : {bounds[1]}tensor<f32> -> {results} {{
  ^bb0({bounds[2]}%a: tensor<f32>):
    {inside}
    nv_tileaa.{last}
  }}
  nv_tileaa.return
}} }}"""
    return body.replace("nv_tileaa.", f"{dialect}.")


def nested(text, depth):
    text = f"nv_tileaa.if %c : tensor<i1> {{ {text} }} {{ }}"
    return text if depth == 1 else nested(f"{text} nv_tileaa.yield", depth - 1)


@pytest.mark.parametrize("dialect", ["nv_tileaa", "nv_tileas"])
@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize(
    ("text", "last", "results", "want"),
    [
        ("continue %a : tensor<f32>", "continue %f : tensor<f32>", "tensor<f32>", ""),
        ("continue %z : tensor<i32>", "continue %f : tensor<f32>", "tensor<f32>", TYPES),
        ("continue", "continue %f : tensor<f32>", "tensor<f32>", TYPES),
        ("continue %a : tensor<f32>", "continue %z : tensor<i32>", "tensor<f32>", TYPES),
        ("continue %a : tensor<f32>", "continue %a : tensor<f32>", "tensor<i32>", "for result types must match"),
        ("break %f : tensor<f32>", "continue %f : tensor<f32>", "tensor<f32>", PLACE),
        ("continue %a : tensor<f32>", "break %z : tensor<i32>", "tensor<i32>", ""),
        ("break %z : tensor<i32>", "break %z : tensor<i32>", "tensor<i32>", ""),
        ("break %f : tensor<f32>", "break %z : tensor<i32>", "tensor<i32>", TYPES),
        ("continue %z : tensor<i32>", "break %z : tensor<i32>", "tensor<i32>", TYPES),
    ],
)  # fmt: skip
def test_loops_of_tensors(text, last, results, want, depth, dialect):
    source = tensors(nested(f"nv_tileaa.{text}", depth), last, dialect, results)
    assert agrees(source, want)


@pytest.mark.parametrize(
    ("then", "otherwise", "want"),
    [
        ("yield %f : tensor<f32>", "yield %f : tensor<f32>", ""),
        (
            "yield %f : tensor<f32>",
            "yield %z : tensor<i32>",
            "expected TileType for operand and terminator types",
        ),
        (
            "yield",
            "yield %f : tensor<f32>",
            "expect number of terminators operands (0) to match expected (1)",
        ),
        ("yield %f : tensor<f32>", "continue %a : tensor<f32>", ""),
        ("yield %f : tensor<f32>", "continue %z : tensor<i32>", TYPES),
    ],
)
def test_branches_of_tensors(then, otherwise, want):
    inside = (
        f"%q = nv_tileaa.if %c : tensor<i1> -> tensor<f32> {{ nv_tileaa.{then} }} {{ nv_tileaa.{otherwise} }}"
    )
    assert agrees(tensors(inside), want)
