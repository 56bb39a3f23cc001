"""The driver: gates, texts, where the target comes from, and what ptxas gets and says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from contract.kit import (
    BAD_EXTI,
    GOOD_EXTI,
    MAGIC,
    NOOP,
    bytecode,
    command,
    compile_,
    entry,
    messages,
    module,
    ptx_of,
    stub_ptxas,
)
from contract.rules import rule

import tileiras
from tileiras import program
from tileiras.compiler.lower import tileaa_to_tileas
from tileiras.compiler.source import to_text
from tileiras.diag import CompileError
from tileiras.options import HOST_OSES

CAPABILITY = "nv_tileaa.compute_capability = 90 : i32"
BARE = NOOP.replace(f"{CAPABILITY}, ", "")
RECORDING = """\
cat > "$TILEIRAS_TEST_DIR/ptx"
for word in "$@"; do echo "$word"; done > "$TILEIRAS_TEST_DIR/argv"
printf "\\177ELF image\""""


@rule("driver-four-entry-points")
def test_four_functions(tmp_path: Path) -> None:
    code, handle = program.tileirasProgramCreate(NOOP)
    assert code == 0
    assert program.tileirasProgramCompile(handle) == 0
    code, image = program.tileirasProgramGetOutput(handle)
    assert code == 0
    assert program.tileirasProgramRelease(handle) == 0
    assert command(tmp_path, NOOP).status == 0
    assert (tmp_path / "k.cubin").read_bytes() == image, "the command shares the code path"
    assert tileiras.compile(NOOP).cubin == image
    public = [name for name in vars(program) if name.startswith("tileirasProgram")]
    assert sorted(public) == [
        f"tileirasProgram{verb}" for verb in ("Compile", "Create", "GetOutput", "Release")
    ]


@rule("driver-not-tileir")
@pytest.mark.parametrize(
    "data", [b"#include <cuda.h>\nint main;", bytes(range(1, 60)), b"\x7fELF" + bytes(60), b"x"]
)
def test_not_tile_ir(data: bytes, tmp_path: Path) -> None:
    done = command(tmp_path, data, "--gpu-name=sm_90")
    assert done.status == 3
    assert done.lines()[-1].endswith("error: input does not correspond to Tile IR bytecode")
    good = bytecode(BARE.replace("tt.num_warps = 4 : i32", ""))
    assert good.startswith(MAGIC + b"\x0d\x01\0") and command(tmp_path, good, "--gpu-name=sm_90").status == 0


@rule("driver-mlir-tail", "bytecode-magic-position-7")
@pytest.mark.parametrize(
    ("data", "position", "hint"),
    [
        (MAGIC[:7] + b"\x0a" + b"\x0d\x01\0\0rest", 7, True),
        (b"ML\xefR\x01MLIR20\x00" + bytes(20), 0, True),
        (MAGIC[:7] + b"\x0b" + b"\x0d\x01\0\0rest", 7, False),
        (b"\x93\x11\x85\x00\x01random bytes", 0, False),
        (MAGIC[:5], 5, False),
    ],
)
def test_mlir_tail(data: bytes, position: int, hint: bool) -> None:
    code, found, _ = compile_(data, "sm_90")
    assert code == 3
    tail = " (it looks like MLIR bytecode instead)" if hint else ""
    assert messages(found) == [
        f"invalid magic number at position {position}", f"input does not correspond to Tile IR bytecode{tail}",
    ]  # fmt: skip


@rule("driver-unsupported-gpu")
@pytest.mark.parametrize(
    "name", ["sm_999", "sm_91", "sm_70", "gfx90a", "", "90", "sm_90x", "compute_90", "sm_٩٠"]
)
def test_unsupported_gpu(name: str, tmp_path: Path) -> None:
    # The message ends with the name. The list is the real one plus sm_75; no ptxas of the
    # releases with Tile IR supports sm_70.
    done = command(tmp_path, NOOP, f"--gpu-name={name}")
    assert (done.status, done.lines()) == (2, [f"error: unsupported GPU target '{name}'"])


@rule("driver-unsupported-gpu")
@pytest.mark.parametrize("number", [75, 80, 86, 87, 88, 89, 90, 100, 103, 107, 110, 120, 121])
def test_supported_gpus(number: int) -> None:
    assert f"\n.target sm_{number}" in ptx_of(BARE, f"sm_{number}")


@rule("driver-invalid-opt-level")
def test_opt_levels(tmp_path: Path) -> None:
    for level in ("4", "-1", "100"):
        done = command(tmp_path, NOOP, f"--opt-level={level}")
        assert (done.status, done.lines()) == (2, [f"error: invalid optimization level: {level}"])
    for flag in ("-O4", "-O=4"):
        assert command(tmp_path, NOOP, flag).lines() == ["error: invalid optimization level: 4"]
    for level in range(4):
        assert compile_(NOOP, opt_level=level)[:2] == (0, [])


@rule("driver-unsupported-host-os")
def test_host_os(tmp_path: Path) -> None:
    done = command(tmp_path, NOOP, "--host-os=plan9")
    assert (done.status, done.lines()) == (2, ["error: unsupported host operating system 'plan9'"])
    assert HOST_OSES == ("linux", "windows")
    for name in (None, *HOST_OSES):
        assert compile_(NOOP, host_os=name)[:2] == (0, [])


@rule("driver-failed-to-compile")
def test_generic_line() -> None:
    code, found, _ = compile_(BAD_EXTI)
    assert code == 5 and messages(found)[-1] == "failed to compile Tile IR program"
    for emitted in compile_(NOOP, "sm_1")[1] + compile_(b"\0" * 16)[1]:
        assert emitted.text != "failed to compile Tile IR program", "codes 2 and 3 have their own words only"


@rule("driver-gpu-name-injects-capability", "frontend-capability-required", "frontend-pitfall-capability")
def test_the_option_is_written_onto_the_module(monkeypatch: pytest.MonkeyPatch) -> None:
    modules: list[str] = []
    real = tileaa_to_tileas.lower_module

    def spy(module: Any, *rest: Any, **options: Any) -> Any:
        modules.append(to_text(module))
        return real(module, *rest, **options)

    monkeypatch.setattr(tileaa_to_tileas, "lower_module", spy)
    assert compile_(BARE, "sm_90")[:2] == (0, [])
    assert CAPABILITY in modules[0]
    assert compile_(BARE, "sm_120")[:2] == (0, [])
    assert "nv_tileaa.compute_capability = 120 : i32" in modules[1]
    code, found, _ = compile_(BARE)
    assert code == 5 and messages(found) == [
        "Failed to get ComputeCapability",
        "failed to compile Tile IR program",
    ]
    assert found[0].word == 0x103
    for level in (0, 1, 2):  # The other spelling below O3
        assert messages(compile_(BARE, opt_level=level)[1])[0] == "failed to get compute capability."
    assert compile_(NOOP)[:2] == (0, [])


def test_bytecode_without_a_gpu_name(tmp_path: Path) -> None:
    """Bytecode has no place for a capability: the real tool's text and status."""
    done = command(tmp_path, bytecode(BARE, "13.3"))
    assert done.status == 2
    assert done.lines() == [
        "error: GPU architecture sm_0 is not supported by this version of tileiras. You may need a newer toolchain that "
        "supports this architecture (bytecode in file is version 13.3)."
    ]


@rule("driver-attribute-beats-option")
def test_the_attribute_wins() -> None:
    assert "\n.target sm_90" in ptx_of(NOOP, "sm_80")
    assert "\n.target sm_80" in ptx_of(BARE, "sm_80")


@rule("driver-ptx-to-ptxas")
def test_what_ptxas_gets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ptxas = stub_ptxas(tmp_path, RECORDING)
    done = command(
        tmp_path, NOOP, f"--ptxas={ptxas}", "--ptx-output=k.ptx", env={"TILEIRAS_TEST_DIR": str(tmp_path)}
    )
    assert done.status == 0, done.err
    argv = (tmp_path / "argv").read_text().splitlines()
    assert "-arch=sm_90" in argv and "--opt-level=3" in argv
    name = next(word for word in argv if not word.startswith("-"))
    received = (tmp_path / "ptx").read_bytes() if name == "/dev/stdin" else Path(name).read_bytes()
    assert received == (tmp_path / "k.ptx").read_bytes() and received.isascii() and b".entry noop" in received
    done = command(
        tmp_path,
        NOOP.replace("90 : i32", "80 : i32"),
        f"--ptxas={ptxas}",
        "-O1",
        env={"TILEIRAS_TEST_DIR": str(tmp_path)},
    )
    argv = (tmp_path / "argv").read_text().splitlines()
    assert "-arch=sm_80" in argv and "--opt-level=1" in argv


@rule("driver-ptxas-stderr-forwarded")
def test_what_ptxas_says(tmp_path: Path) -> None:
    ptxas = stub_ptxas(
        tmp_path,
        "echo 'cannot allocate the unobtainium' >&2; echo 'ptxas fatal   : Out of beads' >&2; exit 1",
    )
    seen: list[str] = []
    with pytest.raises(CompileError) as caught:
        tileiras.compile(NOOP, ptxas=str(ptxas))
    seen = messages(caught.value.diagnostics)
    assert seen[0] == "cannot allocate the unobtainium" and "Out of beads" in seen[1]
    assert "exit status 1" in seen[2] and seen[-1] == "failed to compile Tile IR program"
    done = command(tmp_path, NOOP, f"--ptxas={ptxas}")
    assert "error: cannot allocate the unobtainium" in done.lines()


@rule("driver-ptxas-failure-no-cubin")
def test_a_failing_ptxas_leaves_nothing(tmp_path: Path) -> None:
    outputs = ["--ptx-output=k.ptx", "--kernels-json=k.json", "--depfile=k.d"]
    good = stub_ptxas(tmp_path, "printf '\\177ELF image'")
    assert command(tmp_path, NOOP, f"--ptxas={good}", *outputs).status == 0
    made = {"k.cubin", "k.ptx", "k.json", "k.d"}
    assert made <= {p.name for p in tmp_path.iterdir()}
    table = json.loads((tmp_path / "k.json").read_text())
    assert [kernel["name"] for kernel in table["kernels"]] == ["noop"]
    bad = stub_ptxas(tmp_path, "printf '\\177ELF partial'; exit 1")
    assert command(tmp_path, NOOP, f"--ptxas={bad}", *outputs).status == 5
    assert {p.name for p in tmp_path.iterdir()} == {"k.tileir", "bin"}, "neither partial nor stale"


def test_one_file_named_twice(tmp_path: Path) -> None:
    done = command(tmp_path, NOOP, "--ptx-output=k.cubin")
    assert done.status == 2 and "named twice" in done.err and not (tmp_path / "k.cubin").exists()


def test_verify_each_names_the_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Off in the installed command; with it, IR that a pass broke is found behind that pass."""
    from tileiras.compiler.lower import cuda_tile_to_tileaa

    real = cuda_tile_to_tileaa.lower_module

    def breaks(*args: Any, **options: Any) -> Any:
        lowered = real(*args, **options)
        ops = lowered.regions[0].block.ops[0].regions[0].block.ops
        ops[0], ops[1] = ops[1], ops[0]  # a use in front of its definition
        return lowered

    assert compile_(GOOD_EXTI, verify_each=True)[:2] == (0, [])
    monkeypatch.setattr(cuda_tile_to_tileaa, "lower_module", breaks)
    code, found, _ = compile_(GOOD_EXTI, verify_each=True)
    assert code == 5 and messages(found)[-1] == "failed to compile Tile IR program"
    assert any("ConvertCudaTileToTileAA" in note.text for emitted in found for note in emitted.notes)


@pytest.mark.parametrize("name", ['"; exit"', '"a b"', '"k\\00"', '"9k"', '"a.b"', '"\u00e4"'])
def test_a_name_that_ptx_cannot_spell(name: str, tmp_path: Path) -> None:
    code, found, _ = compile_(NOOP.replace("noop", name))
    assert code == 5 and "is no PTX identifier" in messages(found)[0]
    assert found[0].loc is not None and found[0].loc.line == 3
    for good in ("_k", "k$1", '"k9"', "_ZN1a1bEv"):
        assert compile_(NOOP.replace("noop", good))[:2] == (0, [])


def test_kernel_table(tmp_path: Path) -> None:
    """What a launcher reads: parameters with C layout, threads, memory, registers."""
    text = module(
        entry(name="k", args="%a: i8, %p: !cuda_tile.ptr<f16>, %b: i16, %c: f64, %d: i32"), attrs=CAPABILITY
    )
    done = command(tmp_path, text, "--kernels-json=k.json", "--launch-abi=simt")
    assert done.status == 0, done.err
    table = json.loads((tmp_path / "k.json").read_text())
    assert (table["version"], table["arch"], table["compiler"], table["launch_abi"]) == (
        1,
        "sm_90",
        "builtin",
        "simt",
    )
    (kernel,) = table["kernels"]
    assert [(p["size"], p["offset"]) for p in kernel["params"]] == [(1, 0), (8, 8), (2, 16), (8, 24), (4, 32)]
    assert (
        kernel["name"] == kernel["symbol"] == "k"
        and kernel["block"] == [128, 1, 1]
        and kernel["cluster"] == [1, 1, 1]
    )
    assert (
        kernel["registers"] > 0
        and kernel["spill_bytes"] == 0
        and kernel["static_shared"] == kernel["dynamic_shared"] == 0
    )
