"""--lineinfo and -g: what a disassembler and a debugger get to see, compared with NVIDIA's assembler on the same bytecode."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import peers
import pytest

import tileiras
from tests.fixtures import BYTECODE

QUICK = ("black_scholes", "softmax_row_f32")
KERNELS = [
    *QUICK,
    *(
        pytest.param(n, marks=pytest.mark.full)
        for n in ("matmul_f16_ragged", "argmax_last", "spin_lock", "layer_norm_f16")
    ),
]

TEXT = """cuda_tile.module @m {
  entry @k(%p: tile<ptr<f32>>) {
    %x, %r = load_ptr_tko weak %p : tile<ptr<f32>> -> tile<f32>, token LOAD
    %y = exp %x : tile<f32> EXP
    %t = store_ptr_tko weak %p, %y : tile<ptr<f32>>, tile<f32> -> token STORE
    return
  }
}
"""


def text(load: str, exp: str, store: str) -> str:
    return TEXT.replace("LOAD", load).replace("EXP", exp).replace("STORE", store)


def lines_of(image: bytes, folder: Path, flag: str = "--print-line-info") -> set[str]:
    """The positions that nvdisasm prints: `file:line`, and `file:line @ file:line` for inlined code."""
    path = folder / "image.cubin"
    path.write_bytes(image)
    done = subprocess.run([peers.require("nvdisasm"), flag, path], capture_output=True, text=True, check=True)
    found = set()
    for line in done.stdout.splitlines():
        if "//## File" in line:
            places = [f"{file}:{number}" for file, number in re.findall(r'"([^"]*)", line (\d+)', line)]
            found.add(" @ ".join(places))
    return found


def positions_of(source: Path) -> tuple[set[str], set[str]]:
    """(every position that the bytecode names, every position that has called one)."""
    places, callers = set(), set()
    for op in tileiras.load(source).op.walk():
        unit = op.loc.scope
        places.add(f"{op.loc.file}:{op.loc.line}")
        if unit is not None and hasattr(unit, "line"):
            places.add(f"{op.loc.file}:{unit.line}")
        callers |= {f"{caller.file}:{caller.line}" for caller in op.loc.callers}
    return places, callers


def nvidia(source: Path, folder: Path, *flags: str) -> bytes:
    out = folder / "nvidia.cubin"
    subprocess.run([peers.require("tileiras"), source, "-o", out, "--gpu-name=sm_90", *flags], check=True)
    return out.read_bytes()


@pytest.mark.parametrize("name", KERNELS)
def test_lines_are_those_of_the_bytecode_and_of_nvidia(name: str, tmp_path: Path) -> None:
    source = BYTECODE / f"{name}.tilebc"
    places, callers = positions_of(source)
    ours = lines_of(tileiras.compile(source, "sm_90", lineinfo=True).cubin, tmp_path)
    theirs = lines_of(nvidia(source, tmp_path, "--lineinfo"), tmp_path)
    assert ours and ours <= places | callers
    accesses = {
        f"{op.loc.file}:{op.loc.line}"
        for op in tileiras.load(source).op.walk()
        if re.match("load|store|atomic|mma", op.spec.name)
    }
    assert accesses & theirs and accesses & theirs <= ours, "every access that NVIDIA's code has a line for"
    other = {place for place in theirs if place.startswith("/corpus")}
    assert len(ours & other) >= 0.6 * len(other), (ours, other)


def test_without_the_flag_there_are_none(tmp_path: Path) -> None:
    program = tileiras.compile(BYTECODE / "black_scholes.tilebc", "sm_90")
    assert ".loc" not in program.ptx and ".file" not in program.ptx
    assert not lines_of(program.cubin, tmp_path)


def test_inlined_code_says_where_it_was_inlined(tmp_path: Path) -> None:
    source = BYTECODE / "black_scholes.tilebc"
    program = tileiras.compile(source, "sm_90", lineinfo=True)
    ours = lines_of(program.cubin, tmp_path, "--print-line-info-inline")
    theirs = lines_of(nvidia(source, tmp_path, "--lineinfo"), tmp_path, "--print-line-info-inline")
    inlined = {place for place in ours if " @ " in place}
    assert inlined & {place for place in theirs if " @ " in place}
    wanted = {
        f"{op.loc.file}:{op.loc.line} @ {op.loc.callers[0].file}:{op.loc.callers[0].line}"
        for op in tileiras.load(source).op.walk() if op.loc.callers
    }  # fmt: skip
    assert inlined <= wanted
    names = {op.loc.scope.linkage_name for op in tileiras.load(source).op.walk() if op.loc.callers}
    table = program.ptx[program.ptx.index(".debug_str") :]
    strings = [bytes(map(int, row.split(","))) for row in re.findall(r"\.b8 ([\d, ]+)", table)]
    assert {name.encode() + b"\0" for name in names} >= set(strings) and strings


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("written", "shown"),
    [("/abs/k.py", "/abs/k.py"), ("pkg/k.py", "pkg/k.py"), ("k.py", "/src/pkg/k.py")],
)  # fmt: skip
def test_paths_are_as_the_debug_information_says(written: str, shown: str, tmp_path: Path) -> None:
    from tileiras.compiler.ir.debug import DICompileUnit, DIFile, DISubprogram
    from tileiras.diag import Loc

    file = DIFile("k.py", "/src/pkg")
    unit = DISubprogram(file, 7, "k", "k", DICompileUnit(file), 7, None)
    module = tileiras.load(text("", "", ""))
    for i, op in enumerate(module.op.walk()):
        op.loc = Loc(written, 10 + i, 2, scope=unit)
    again = tileiras.load(module.to_bytecode("13.1"))  # as a frontend hands it over
    assert lines_of(tileiras.compile(again, "sm_90", lineinfo=True).cubin, tmp_path) <= {
        f"{shown}:{n}" for n in range(7, 40)
    }
    assert f'.file 1 "{shown}"' in tileiras.compile(again, "sm_90", lineinfo=True, emit="ptx").ptx


def test_text_input_has_lines_too(tmp_path: Path) -> None:
    source = tmp_path / "k.tileir"
    source.write_text(text("", "", ""))
    program = tileiras.compile(source, "sm_90", lineinfo=True)
    found = lines_of(program.cubin, tmp_path)
    assert found and found <= {f"{source}:{n}" for n in (2, 3, 4, 5, 6)}
    assert f"{source}:5" in found
    source.write_text(
        text('loc("a.py":30:1)', 'loc(callsite("b.py":4:0 at "a.py":31:2))', 'loc("a.py":32:1)')
    )
    assert {"a.py:30", "b.py:4", "a.py:32"} <= lines_of(
        tileiras.compile(source, "sm_90", lineinfo=True).cubin, tmp_path
    )


def test_several_kernels_share_one_file_table() -> None:
    a = text('loc("one.py":1:0)', 'loc("two.py":2:0)', 'loc("one.py":3:0)')
    body = a[a.index("  entry") : a.rindex("}")]
    both = a[: a.rindex("}")] + body.replace("@k", "@l").replace("one.py", "three.py") + "}\n"
    ptx = tileiras.compile(both, "sm_80", lineinfo=True).ptx
    files = re.findall(r'\.file (\d+) "([^"]+)"', ptx)
    assert len({number for number, _ in files}) == len(files) and {"one.py", "two.py", "three.py"} <= {
        f for _, f in files
    }
    numbers = {file: number for number, file in files}
    second = ptx[ptx.index(".entry l(") :]
    assert f".loc {numbers['three.py']} 1 0" in second and f".loc {numbers['one.py']} " not in second


def test_debug_build_describes_the_kernels(tmp_path: Path) -> None:
    source = BYTECODE / "black_scholes.tilebc"
    program = tileiras.compile(source, "sm_90", opt_level=0, device_debug=True)
    assert program.ptx.splitlines()[1] == ".target sm_90, debug" and not program.diagnostics
    image = tmp_path / "debug.cubin"
    image.write_bytes(program.cubin)
    readelf = subprocess.run(["readelf", "--debug-dump=info", image], capture_output=True, text=True)
    if readelf.returncode:
        pytest.skip("readelf is not installed")
    assert (
        "DW_AT_name        : black_scholes" in readelf.stdout
        and "DW_AT_name        : _normal" in readelf.stdout
    )
    high = re.search(r"DW_AT_high_pc\s*: 0x([0-9a-f]+)", readelf.stdout)
    assert high and int(high[1], 16) > 0
    assert any("@" in place for place in lines_of(program.cubin, tmp_path, "--print-line-info-inline"))


@pytest.mark.full
@pytest.mark.parametrize("release", ["13.1", "13.4", "13.5"])
@pytest.mark.parametrize(
    "flags", [{"lineinfo": True}, {"device_debug": True, "opt_level": 0}], ids=["lineinfo", "debug"]
)
def test_every_ptxas_takes_it(release: str, flags: dict[str, object]) -> None:
    ptxas = str(peers.require("ptxas", release))
    abi = "simt" if release == "13.1" else "tile"  # that one cannot mark kernels
    for gpu in ("sm_75", "sm_120"):
        assert not tileiras.compile(
            BYTECODE / "black_scholes.tilebc",
            gpu,
            ptxas=ptxas,
            launch_abi=abi,
            **flags,  # type: ignore[arg-type]
        ).diagnostics


def test_a_debug_build_without_debug_information_says_nothing() -> None:
    bare = tileiras.load(text("", "", ""))
    from tileiras.diag import UNKNOWN

    for op in bare.op.walk():
        op.loc = UNKNOWN
    assert not tileiras.compile(bare.to_bytecode("13.1"), "sm_90", opt_level=0, device_debug=True).diagnostics


def test_memcheck_instruments(tmp_path: Path) -> None:
    source = BYTECODE / "vadd_f32.tilebc"
    plain = tileiras.compile(source, "sm_90")
    checked = tileiras.compile(source, "sm_90", sanitize="memcheck")
    assert b"__cuda_sanitizer_memcheck" in checked.cubin and b"__cuda_sanitizer_memcheck" not in plain.cubin
    assert b"__cuda_sanitizer_memcheck" in nvidia(source, tmp_path, "--sanitize=memcheck")


def test_a_ptxas_without_the_sanitizer_is_code_2(tmp_path: Path) -> None:
    ptxas = tmp_path / "ptxas"
    ptxas.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && { echo "Cuda compilation tools, release 12.8, V12.8.93"; exit 0; }\n'
        "echo \"ptxas fatal   : Unknown option '-sanitize'\" >&2; exit 1\n"
    )
    ptxas.chmod(0o755)
    with pytest.raises(tileiras.CompileError, match=r"release 13\.1 or later is needed") as caught:
        tileiras.compile(
            BYTECODE / "vadd_f32.tilebc", "sm_90", sanitize="memcheck", launch_abi="simt", ptxas=str(ptxas)
        )
    assert caught.value.exit_code == 2


def test_ptx_alone_is_not_instrumented_and_says_so() -> None:
    found = tileiras.compile(
        BYTECODE / "vadd_f32.tilebc", "sm_90", sanitize="memcheck", emit="ptx"
    ).diagnostics
    assert ["not instrumented" in emitted.text for emitted in found] == [True]


def test_lowering_errors_stand_at_the_frontends_position() -> None:
    from tileiras.diag import Loc

    module = tileiras.load(
        "cuda_tile.module @m { entry @k(%p: tile<i32>) { %a = exti %p unsigned : tile<i32> -> tile<i64>\n return } }"
    )
    op = next(op for op in module.op.walk() if op.spec.name == "exti")
    op.loc = Loc("/src/k.py", 12, 4)
    op.results[0].type = op.operands[0].type  # what no reader lets through
    with pytest.raises(tileiras.CompileError) as caught:
        tileiras.compile(module, "sm_90")
    assert str(caught.value).startswith("/src/k.py:12:4: error: 'cuda_tile.exti' op ")
