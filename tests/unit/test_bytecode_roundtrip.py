"""Writer and reader against each other: every op at every version, byte stability, what a version cannot say."""

from __future__ import annotations

import pytest
from op_zoo import SNIPPETS, module_text, names

from tileiras.compiler.bytecode.opcodes import MAX_OPCODE, OPCODES
from tileiras.compiler.bytecode.plan import plan_of
from tileiras.compiler.bytecode.reader import read
from tileiras.compiler.bytecode.writer import write
from tileiras.compiler.dialects.cuda_tile.ops import SPECS
from tileiras.compiler.ir.debug import DICompileUnit, DIFile, DISubprogram
from tileiras.compiler.ir.printer import print_op
from tileiras.compiler.ir.verify import verify
from tileiras.compiler.source import load_text, to_bytecode
from tileiras.diag import CompileError, Loc, Sink

NEWEST = 5


def parsed(text: str):  # type: ignore[no-untyped-def]
    sink = Sink()
    module = load_text(text, sink, "zoo.mlir")
    assert verify(module, sink), [d.render() for d in sink.emitted]
    return module


@pytest.mark.parametrize(("op", "since", "lines"), SNIPPETS, ids=names())
def test_every_version_that_can_hold_it_gives_it_back(op: str, since: int, lines: str) -> None:
    module = parsed(module_text(lines))
    text = print_op(module)
    assert f"{op} " in text or f"{op}\n" in text
    for minor in range(since, NEWEST + 1):
        data = write(module, (13, minor))
        again = read(data, Sink())
        assert again.attrs["bytecode_version"] == (13, minor)
        assert print_op(again) == (text.replace("fpowf", "pow") if minor < 4 else text)
        assert verify(again, Sink())
        assert write(again, (13, minor)) == data


@pytest.mark.parametrize(
    ("op", "since", "lines"),
    [s for s in SNIPPETS if s[1] > 1],
    ids=[f"{s[0]}-{i}" for i, s in enumerate(SNIPPETS) if s[1] > 1],
)
def test_an_older_version_refuses_what_it_cannot_say(op: str, since: int, lines: str) -> None:
    module = parsed(module_text(lines))
    if "inbounds" in lines and not op.startswith("multimem"):
        assert write(module, (13, since - 1))  # a promise about bounds may be dropped
        return
    with pytest.raises(CompileError) as caught:
        write(module, (13, since - 1))
    assert caught.value.exit_code == 3
    assert f"13.{since}" in str(caught.value) or f"version 13.{since - 1}" in str(caught.value)


def test_every_op_is_in_the_zoo() -> None:
    missing = {spec.name for spec in SPECS} - {op for op, _, _ in SNIPPETS}
    assert missing == {"module", "entry", "global", "continue"}  # in every module, or inside of loops
    assert any("continue" in lines for _, _, lines in SNIPPETS)


def test_rosters_by_version() -> None:  # frontend-roster-92
    body = list(SPECS)
    counts = [sum(1 for spec in body if spec.since <= minor) for minor in range(1, 5)]
    assert counts == [92, 93, 100, 105]
    for minor, newest in MAX_OPCODE.items():
        used = [OPCODES[s.name] for s in SPECS if s.since <= minor]
        assert max(used) == newest


def test_containers_are_no_instructions() -> None:
    for name in ("module", "entry", "global"):
        assert plan_of(OPCODES[name], 4) is None


@pytest.mark.parametrize("version", ["13.0", "13.6", "12.1", "13", "x", "13.1.1"])
def test_versions_that_do_not_exist(version: str) -> None:
    with pytest.raises(CompileError) as caught:
        to_bytecode(parsed(module_text("")), version)
    assert "the supported versions are [13.1 - 13.5]" in str(caught.value)


def test_the_oldest_version_that_fits_is_the_default() -> None:
    for lines, minor in (
        ("", 1),
        ("%r = atan2 %f0, %f1 : tile<4xf32>", 2),
        ("%r = fpowi %f0, %i0 : tile<4xf32>, tile<4xi32>", 4),
    ):
        assert to_bytecode(parsed(module_text(lines)))[8:10] == bytes((13, minor))


ATTRIBUTES = """module attributes {nv_tileaa.compute_capability = 90 : i32, tt.num_warps = 4 : i32,
    tt.cluster_dim = array<i32: 2, 1, 1>, my.tag = "x"} {
  cuda_tile.module {
    cuda_tile.entry @k(%p: !cuda_tile.ptr<f16>) attributes {nvvm.maxnreg = 64 : i32, nvvm.blocksareclusters} {
      cuda_tile.return
    }
  }
}
"""


@pytest.mark.parametrize("version", ["13.1", "13.2", "13.3", "13.4", "13.5"])
def test_launch_attributes_survive_the_bytecode(version: str) -> None:
    module = parsed(ATTRIBUTES)
    again = read(to_bytecode(module, version), Sink())
    launch = {k: v for k, v in again.attrs.items() if "." in k}
    assert launch == {
        "nv_tileaa.compute_capability": 90, "tt.num_warps": 4, "tt.cluster_dim": (2, 1, 1), "my.tag": "x",
    }  # fmt: skip
    entry = again.regions[0].block.ops[0]
    assert (entry.attrs["nvvm.maxnreg"], entry.attrs["nvvm.blocksareclusters"]) == (64, True)
    assert "optimization_hints" not in entry.attrs
    del again.attrs["bytecode_version"]
    assert print_op(again) == print_op(module)


def test_attributes_without_a_field_start_at_13_3() -> (
    None
):  # assemblers before 13.3 refuse unknown hint keys
    assert to_bytecode(parsed(ATTRIBUTES))[9] == 3


@pytest.mark.parametrize("version", ["13.4", "13.5"])
def test_what_an_entry_says_besides(version: str) -> None:
    """Attributes of arguments, lists of numbers and a private entry: in hints of ours, or in fields since 13.5."""
    text = (
        'module attributes {my.list = [1 : i32, 2 : i64, "x"], my.flag} { cuda_tile.module @m {'
        " entry @k(%p: ptr<f32> {nvvm.align = 16 : i32, my.arg}, %q: ptr<f32>) attributes {my.own = [3 : i32]} { return }"
        " entry private @h(%p: ptr<f32>) { return } } }"
    )
    again = read(to_bytecode(parsed(text), version), Sink())
    assert {k: v for k, v in again.attrs.items() if k.startswith("my.")} == {
        "my.list": (1, 2, "x"), "my.flag": True,
    }  # fmt: skip
    assert type(again.attrs["my.list"][0]) is int, "a number of 32 bits comes back bare"
    assert again.attrs["sym_name"] == "kernels" and again.attrs["bytecode_version"] == (13, int(version[3:]))
    first, second = again.regions[0].block.ops
    assert first.attrs["arg_attrs"] == ({"nvvm.align": 16, "my.arg": True}, {}) and first.attrs["my.own"] == (
        3,
    )
    assert first.attrs.get("sym_visibility") in (None, "public")
    assert second.attrs["sym_visibility"] == "private" and "arg_attrs" not in second.attrs


def test_attributes_of_ours_that_do_not_fit_are_left_out() -> None:
    """Hints under our name in a file of somebody else: neither fields nor other numbers of arguments come from them."""
    hints = {
        "module.sym_name": "other", "module.producer": "p", "module.bytecode_version": 9, "module.my.tag": 1,
        "entry.sym_name": "other", "entry.my.tag": 2, "other.my.tag": 3,
    }  # fmt: skip
    for arguments, kept in (
        (({"a.b": 1},), ({"a.b": 1},)),
        (({"a.b": 1}, {}), None),
        (({},), None),
        ((1,), None),
        (5, None),
    ):
        module = parsed("cuda_tile.module @m { entry @k(%p: ptr<f32>) { return } }")
        own = {**hints, "arguments": arguments}
        module.regions[0].block.ops[0].attrs["optimization_hints"] = {"tileiras": own}
        again = read(write(module, (13, 4)), Sink())
        entry = again.regions[0].block.ops[0]
        assert entry.attrs.get("arg_attrs") == kept
        assert (again.attrs["my.tag"], entry.attrs["my.tag"]) == (1, 2)
        assert again.attrs["sym_name"] == "kernels" and again.attrs["bytecode_version"] == (13, 4)
        assert "producer" not in again.attrs and entry.attrs["sym_name"] == "k"


def test_minimal_kernel_stays_small() -> None:  # frontend-minimal-256-bytes: at most
    text = "cuda_tile.module { cuda_tile.entry @noop() { cuda_tile.return } }"
    assert len(to_bytecode(parsed(text))) <= 256


def test_negative_infinity_of_f64_is_what_the_frontend_meant() -> None:
    # cuTile doubles the unsigned pattern: 65 bits, which NVIDIA's reader cuts to +inf.
    from tileiras.compiler.bytecode.wire import float_bits, put_float_bits

    pattern = 0xFFF0000000000000
    doubled = bytes([0x80] * 7 + [0x80, 0xF0, 0xFF, 0x03][1:])
    assert float_bits(doubled, 0, 64) == (pattern, len(doubled))
    out = bytearray()
    put_float_bits(out, pattern, 64)
    assert float_bits(bytes(out), 0, 64) == (pattern, len(out))


def test_print_of_13_1_has_no_number_for_its_token() -> None:
    module = parsed(
        module_text('print_tko "a" -> token\n%r = addf %f0, %f1 : tile<4xf32>\n%s = negf %r : tile<4xf32>')
    )
    again = read(write(module, (13, 1)), Sink())
    ops = again.regions[0].block.ops[1].regions[0].block.ops
    negf = next(op for op in ops if op.spec.name == "negf")
    assert negf.operands[0].op.spec.name == "addf"
    assert [v.type for op in ops if op.spec.name == "print_tko" for v in op.results] == [parsed_token()]


def parsed_token():  # type: ignore[no-untyped-def]
    from tileiras.compiler.ir.types import TOKEN

    return TOKEN


def test_tf32_takes_three_bytes() -> None:
    text = module_text("%eight = constant <tf32: [1.000000e+00, 2.000000e+00, 4.000000e+00, -6.000000e+00]> : tile<4xtf32>\n"
                       "%nine = constant <tf32: 2.500000e+00> : tile<8xtf32>")  # fmt: skip
    module = parsed(text)
    data = write(module, (13, 4))
    patterns = (0x1FC00, 0x20000, 0x20400, 0x60600)  # sign, 8 bits of exponent, 10 of fraction
    assert b"".join(bits.to_bytes(3, "little") for bits in patterns) in data
    again = read(data, Sink())
    assert print_op(again) == print_op(module)
    assert verify(again, Sink())


def test_call_sites_a_thousand_deep() -> None:
    """What cuTile Python writes for a kernel that calls itself; the reader once took the chain for a cycle."""
    module = parsed(module_text("%only = constant <i32: 1> : tile<i32>"))
    entry = module.regions[0].block.ops[-1]
    assert entry.spec.name == "entry"
    subprogram = DISubprogram(
        DIFile("k.py", "/d"),
        1,
        entry.attrs["sym_name"],
        entry.attrs["sym_name"],
        DICompileUnit(DIFile("k.py", "/d")),
        1,
    )
    entry.loc = Loc("k.py", 1, 1, scope=subprogram)
    op = entry.regions[0].block.ops[0]
    callers = tuple(Loc("k.py", 3 + k, 5, scope=subprogram) for k in range(999))
    op.loc = Loc("k.py", 2, 5, callers, subprogram)
    again = read(write(module, (13, 4)), Sink())
    found = again.regions[0].block.ops[-1].regions[0].block.ops[0].loc
    assert [c.line for c in found.callers] == [c.line for c in callers]
