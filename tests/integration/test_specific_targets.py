"""Targets spelled with `a` and `f` are kept through every front; what is not spelled is as portable as it can be."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tileiras
from tests import peers
from tests.fixtures import BYTECODE
from tileiras import cli
from tileiras.toolchain.cubin import read_cubin
from tileiras.toolchain.locate import Tool

ROOT = Path(__file__).resolve().parents[2]
AXPY = BYTECODE / "axpy_f32.tilebc"


def call(module: str, *words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", module, *map(str, words)], capture_output=True, text=True)


def target_of(ptx: str) -> str:
    found = re.search(r"^\.target (\w+)", ptx, re.MULTILINE)
    assert found
    return found[1]


@pytest.mark.parametrize(
    ("name", "version"),
    [("sm_90a", "8.1"), ("sm_100f", "8.8"), ("sm_100a", "8.6"), ("sm_121a", "8.8"), ("sm_107f", "9.4")],
)
def test_the_command_keeps_the_spelling(name: str, version: str, tmp_path: Path) -> None:
    out = tmp_path / "k.ptx"
    assert cli.main(["--gpu-name", name, "--emit=ptx", "--launch-abi=simt", str(AXPY), "-o", str(out)]) == 0
    assert target_of(out.read_text()) == name and out.read_text().startswith(f".version {version}\n")


def test_a_spelling_that_does_not_exist_is_refused() -> None:
    for name in ("sm_80a", "sm_90f", "sm_100b", "sm_90aa", "sm_a"):
        with pytest.raises(tileiras.CompileError) as error:
            tileiras.compile(AXPY, name)
        assert error.value.exit_code == 2 and name in str(error.value)


def test_tileiras_build_makes_what_was_asked_for(tmp_path: Path) -> None:
    peers.require("ptxas")
    cubin, ptx, table = tmp_path / "k.cubin", tmp_path / "k.ptx", tmp_path / "k.json"
    done = call(
        "tileiras.tools.build",
        "compile",
        AXPY,
        "-o",
        cubin,
        "--ptx",
        ptx,
        "--kernels-json",
        table,
        "--arch",
        "90a",
    )
    assert done.returncode == 0, done.stderr
    assert target_of(ptx.read_text()) == "sm_90a" and read_cubin(cubin.read_bytes()).arch == "sm_90a"
    assert json.loads(table.read_text())["arch"] == "sm_90a"
    done = call("tileiras.tools.build", "compile", AXPY, "-o", ptx, "--arch", "compute_100f")
    assert done.returncode == 0 and target_of(ptx.read_text()) == "sm_100f", done.stderr


def test_a_module_that_names_its_capability_keeps_the_suffix_of_the_option() -> None:
    text = str(tileiras.load(AXPY))
    head, brace, rest = text.partition(" {")
    text = f"{head} attributes {{nv_tileaa.compute_capability = 90 : i32}}{brace}{rest}"
    assert target_of(tileiras.compile(text, "sm_90a", emit="ptx").ptx) == "sm_90a"
    assert target_of(tileiras.compile(text, "sm_80", emit="ptx").ptx) == "sm_90"


def test_a_kernel_runs_for_a_specific_target() -> None:
    x = np.arange(-64, 64, dtype=np.int32)
    out = np.zeros_like(x)
    kernel = """cuda_tile.module @m { entry @k(%x: tile<ptr<i32>>, %o: tile<ptr<i32>>) {
      %i = iota : tile<128xi32>
      %a = reshape %x : tile<ptr<i32>> -> tile<1xptr<i32>>
      %b = broadcast %a : tile<1xptr<i32>> -> tile<128xptr<i32>>
      %p = offset %b, %i : tile<128xptr<i32>>, tile<128xi32> -> tile<128xptr<i32>>
      %c = reshape %o : tile<ptr<i32>> -> tile<1xptr<i32>>
      %d = broadcast %c : tile<1xptr<i32>> -> tile<128xptr<i32>>
      %q = offset %d, %i : tile<128xptr<i32>>, tile<128xi32> -> tile<128xptr<i32>>
      %t = make_token : token
      %v, %r = load_ptr_tko weak %p token = %t : tile<128xptr<i32>> -> tile<128xi32>, token
      %y = absi %v : tile<128xi32>
      %w = store_ptr_tko weak %q, %y token = %r : tile<128xptr<i32>>, tile<128xi32> -> token
      return } }"""
    tileiras.launch(kernel, "k", grid=(1, 1, 1), args=[x, out], target="emulator", gpu_name="sm_90a")
    assert (out == np.abs(x)).all()


def test_hints_of_the_architecture_hold_for_its_spellings() -> None:
    hinted = "cuda_tile.module @m { entry @k() optimization_hints=<sm_90 = {occupancy = 4}> { return } }"
    plain, raised = (tileiras.compile(hinted, name, emit="ptx").ptx for name in ("sm_90", "sm_90a"))
    assert (
        re.findall(r"\.(?:maxnreg|minnctapersm) \d+", plain)
        == re.findall(r"\.(?:maxnreg|minnctapersm) \d+", raised)
        != []
    )


def test_a_ptxas_too_old_for_the_spelling_names_the_release(tmp_path: Path) -> None:
    old = Tool("ptxas", str(tmp_path / "ptxas"), str(tmp_path), "given", "12.8.93", "test")
    with pytest.raises(tileiras.CompileError) as error:
        tileiras.compile(AXPY, "sm_100f", ptxas=old, launch_abi="simt")
    assert error.value.exit_code == 2 and "12.9" in str(error.value) and "sm_100f" in str(error.value)


def test_portable_code_has_only_what_later_gpus_have() -> None:
    """wgmma raises sm_90 to sm_90a, which no other GPU runs; the entry for later ones must not use it."""
    product = AXPY.with_name("matmul_f16_128.tilebc")
    own, portable = (
        tileiras.compile(product, "sm_90", emit="ptx", portable=flag).ptx for flag in (False, True)
    )
    assert target_of(own) == "sm_90a" and "wgmma.mma_async" in own
    assert target_of(portable) == "sm_90" and "wgmma" not in portable and "mma.sync" in portable
