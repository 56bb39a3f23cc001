"""PyTorch's tensors on the CPU as arguments: of `tileiras.launch`, and of cuTile scripts with and without --map-cuda."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import tileiras

torch = pytest.importorskip("torch", reason="PyTorch is not installed (pip install torch==2.13.0)")
pytestmark = pytest.mark.full
REPOSITORY = Path(__file__).resolve().parents[2]
TARGETS = ("reference", "emulator", "cpu")
ELEMENTS = {
    "float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16", "int8": "i8", "uint8": "i8", "int16": "i16",
    "uint16": "i16", "int32": "i32", "uint32": "i32", "int64": "i64", "uint64": "i64", "float8_e4m3fn": "f8E4M3FN",
    "float8_e5m2": "f8E5M2", "float8_e8m0fnu": "f8E8M0FNU", "bool": "i1", "float4_e2m1fn_x2": "i8",  # two a byte
}  # fmt: skip


def copying(elem: str, n: int) -> str:
    def at(name: str) -> str:
        return f"""%{name}1 = reshape %{name} : tile<ptr<{elem}>> -> tile<1xptr<{elem}>>
    %{name}2 = broadcast %{name}1 : tile<1xptr<{elem}>> -> tile<{n}xptr<{elem}>>
    %{name}3 = offset %{name}2, %i : tile<{n}xptr<{elem}>>, tile<{n}xi32> -> tile<{n}xptr<{elem}>>"""

    return f"""cuda_tile.module {{
  entry @k(%p: tile<ptr<{elem}>>, %q: tile<ptr<{elem}>>) {{
    %i = iota : tile<{n}xi32>
    {at("p")}
    {at("q")}
    %v, %t = load_ptr_tko weak %p3 : tile<{n}xptr<{elem}>> -> tile<{n}x{elem}>, token
    %u = store_ptr_tko weak %q3, %v : tile<{n}xptr<{elem}>>, tile<{n}x{elem}> -> token
    return
  }}
}}"""


def copied(x, target: str, n: int, elem: str = "f32"):
    out = torch.zeros(n, dtype=x.dtype)
    tileiras.launch(copying(elem, n), "k", 1, [x, out], target=target, gpu_name="sm_90")
    return out


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ELEMENTS)
def test_every_dtype(name: str, target: str) -> None:
    dtype = getattr(torch, name, None)
    if dtype is None:
        pytest.skip(f"this PyTorch has no torch.{name}")
    if name == "bool":
        x = torch.tensor([1, 0, 1, 1, 0, 0, 1, 0], dtype=dtype)
    else:
        x = torch.arange(1, 8 * dtype.itemsize + 1).to(torch.uint8).view(dtype)
    out = torch.zeros(8 * dtype.itemsize, dtype=torch.uint8).view(dtype)
    tileiras.launch(copying(ELEMENTS[name], 8), "k", 1, [x, out], target=target, gpu_name="sm_90")
    assert torch.equal(x.view(torch.uint8), out.view(torch.uint8))


@pytest.mark.parametrize("target", TARGETS)
def test_memory_is_passed_as_it_lies(target: str) -> None:
    base = torch.arange(32.0)
    for x, n in (
        (base[::2], 31),
        (base[8:], 24),
        (base.reshape(4, 8).T, 32),
        (torch.tensor(5.0), 1),
        (base[3:4].reshape(1, 1, 1), 1),
        (base[:1].expand(8), 1),
    ):
        n = 1 << (n.bit_length() - 1)
        assert torch.equal(copied(x, target, n), torch.as_strided(x, (n,), (1,)))


@pytest.mark.parametrize("target", TARGETS)
def test_lists_of_tensors_and_memory_behind_addresses(target: str) -> None:
    through = """cuda_tile.module {
  entry @k(%p: tile<ptr<i64>>, %q: tile<ptr<f32>>) {
    %a, %t = load_ptr_tko weak %p : tile<ptr<i64>> -> tile<i64>, token
    %b = int_to_ptr %a : tile<i64> -> tile<ptr<f32>>
    %v, %u = load_ptr_tko weak %b : tile<ptr<f32>> -> tile<f32>, token
    %w = store_ptr_tko weak %q, %v : tile<ptr<f32>>, tile<f32> -> token
    return
  }
}"""
    out, sevens = torch.zeros(1), torch.full((4,), 7.0)
    tileiras.launch(through, "k", 1, [[sevens, torch.ones(2)], out], target=target, gpu_name="sm_90")
    assert out.item() == 7
    out.zero_()
    table = torch.tensor([sevens.data_ptr()])
    tileiras.launch(through, "k", 1, [table, out], target=target, gpu_name="sm_90", memory=[sevens])
    assert out.item() == 7


@pytest.mark.parametrize("target", TARGETS)
def test_threads(target: str) -> None:
    program = tileiras.compile(copying("f32", 8), gpu_name="sm_90", emit="ptx")
    wrong = []

    def work(number: int) -> None:
        for _ in range(3):
            out = torch.zeros(8)
            program.launch("k", 1, [torch.full((8,), float(number)), out], target=target)
            if not (out == number).all():
                wrong.append((number, out))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_tensors_that_no_kernel_can_reach_say_why() -> None:
    imaginary = torch.full((8,), 2 + 3j, dtype=torch.complex64).conj()
    for x, why in (
        (torch.ones(8, requires_grad=True), "detach()"),
        (torch.ones(8, device="meta"), "meta"),
        (torch.ones(8).to_sparse(), "layout"),
        (imaginary.imag, "pass .resolve_neg()"),
        (imaginary, "pass .resolve_conj()"),
        (torch.ones(8, dtype=torch.float64), "float64 (8 bytes)"),
    ):
        with pytest.raises(tileiras.LaunchError) as error:
            tileiras.launch(copying("f32", 8), "k", 1, [x, torch.zeros(8)])
        assert "argument 0 of 'k'" in str(error.value) and why in str(error.value)
    assert copied(imaginary.imag.resolve_neg(), "reference", 8).tolist() == [-3.0] * 8


SCRIPT = """
import sys, threading
import torch
import cuda.tile as ct
device = sys.argv[1]
stream = torch.cuda.current_stream() if device == "cuda" else None

@ct.kernel
def copy1(a, o, T: ct.Constant[int]):
    i = ct.bid(0); ct.store(o, (i,), ct.load(a, (i,), (T,)))

@ct.kernel
def copy2(a, o, T: ct.Constant[int]):
    i, j = ct.bid(0), ct.bid(1); ct.store(o, (i, j), ct.load(a, (i, j), (T, T)))

@ct.kernel
def add(rows, o, T: ct.Constant[int]):
    t = ct.zeros((T,), ct.float32)
    for k in range(len(rows)):
        t = t + ct.load(rows[k], (0,), (T,))
    ct.store(o, (0,), t)

def copied(x, **more):
    y = torch.zeros(x.shape, dtype=x.dtype, device=device, **more)
    if x.ndim == 1:
        ct.launch(stream, (-(-len(x) // 16), 1, 1), copy1, (x, y, 16))
    else:
        ct.launch(stream, (-(-x.shape[0] // 16), -(-x.shape[1] // 16), 1), copy2, (x, y, 16))
    return y

names = "float32 float64 float16 bfloat16 int8 uint8 int16 uint16 int32 uint32 int64 uint64 float8_e4m3fn float8_e5m2".split()
for dtype in (getattr(torch, name) for name in names):
    x = torch.arange(1, 32 * dtype.itemsize + 1, device=device).to(torch.uint8).view(dtype)
    assert torch.equal(copied(x).view(torch.uint8), x.view(torch.uint8)), dtype
x = torch.tensor([1, 0, 1, 1] * 8, dtype=torch.bool, device=device)
assert torch.equal(copied(x), x)
base = torch.arange(64.0 * 48, device=device).reshape(64, 48)
for x in (base[0], base[:, 3], base.T, base[::2, 1::3], base[:, :1], base[:1], base[5:6, 7:8], base[:1].expand(16, 48)):
    assert torch.equal(copied(x), x), x.shape
x = torch.nn.Parameter(torch.ones(32, device=device))
y = copied(x, requires_grad=True)
assert (y == 1).all() and y.grad is None
out = torch.zeros(16, device=device)
ct.launch(stream, (1, 1, 1), add, ([torch.full((16,), float(i), device=device) for i in range(5)], out, 16))
assert (out == 10).all()
wrong = []
def work(number):
    for _ in range(3):
        x = torch.full((32,), float(number), device=device)
        if not torch.equal(copied(x), x): wrong.append(number)
threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert not wrong
for x, why in ((torch.ones(32, dtype=torch.complex64).conj().imag, "resolve_neg"), (torch.ones(32).to_sparse(), "layout"),
               (torch.ones(32, device="meta"), "device 'meta'")):
    try:
        ct.launch(stream, (1, 1, 1), copy1, (x, torch.zeros(32), 16))
        raise SystemExit("no error: " + why)
    except TypeError as error:
        assert why in str(error), error
if device == "cuda":
    x = torch.ones(16, device="cuda", requires_grad=True)
    y = x.detach().cpu()
    y += 1
    assert x.is_cuda and not y.is_cuda and (x == 1).all()
    (x * 2).sum().backward()
    assert x.grad.is_cuda
print("all of it")
"""


@pytest.mark.parametrize("words", [["--target=cpu"], ["--target=reference", "--check"], ["--target=emulator", "--check"],
                                   ["--target=cpu", "--map-cuda"], ["--target=emulator", "--map-cuda"]])  # fmt: skip
def test_scripts(words: list[str], tmp_path: Path) -> None:
    pytest.importorskip("cuda.tile")
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "-m", "tileiras.tools.cutile", *words, "script.py", "cuda" if "--map-cuda" in words else "cpu"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(REPOSITORY)}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0 and done.stdout.endswith("all of it\n"), done.stdout + done.stderr
