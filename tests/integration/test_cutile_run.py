"""cuTile Python scripts on a machine without a GPU: the command, the variable, the pytest plugin, `tileiras-run k.py`."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import peers
import pytest

REPOSITORY = Path(__file__).resolve().parents[2]

SCRIPT = """
import dataclasses, sys, threading
import numpy as np, ml_dtypes
import cuda.tile as ct
import beside                     # a module of the script's folder

class Lender:                     # another library's array
    def __init__(self, array): self.array = array
    def __dlpack__(self, **options): return self.array.__dlpack__(**options)
    def __dlpack_device__(self): return self.array.__dlpack_device__()

class Stream:
    def __cuda_stream__(self): return 0, 16

@ct.kernel
def combine(x, rows, y, scale, n: ct.Constant[int]):
    i = ct.bid(0)
    t = ct.load(x, (i,), (n,)) * scale
    for k in range(len(rows)):
        t = t + ct.load(rows[k], (i,), (n,))
    ct.store(y, (i,), t)

@ct.kernel
def pair(ab, out):
    ct.store(out, (0, 0), ct.load(ab[0], (0, 0), (4, 4)) @ ct.load(ab[1], (0, 0), (4, 4)))

@ct.kernel
def convert(x, y):
    ct.store(y, (0,), ct.load(x, (0,), (16,)).astype(ct.float32))

def check(x, y):
    for stream in (None, 0, Stream()):
        y[:] = 0
        ct.launch(stream, (3,), combine, (x, [Lender(x), x], y, 3, 8))
        assert (y == 5 * x).all(), y

if __name__ == "__main__":
    assert sys.argv[1:] == ["--size", "20"] and __file__ == sys.argv[0] and beside.HERE == 5
    x, y = np.arange(20, dtype=np.float32), np.zeros(20, np.float32)
    check(x, y)
    strided = np.arange(60, dtype=np.float32)
    check(strided[::3], np.zeros(20, np.float32))
    a, out = np.arange(16, dtype=np.float32).reshape(4, 4), np.zeros((4, 4), np.float32)
    ct.launch(0, (1, 1, 1), pair, ((a, a.T), out))
    assert (out == a @ a.T).all()
    for kind in (ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, np.int8, np.float16, np.bool_):
        source, wide = (np.arange(16) % 3).astype(kind), np.zeros(16, np.float32)
        ct.launch(0, (1,), convert, (source, wide))
        assert (wide == source.astype(np.float32)).all(), kind
    made = [np.zeros(20, np.float32) for _ in range(6)]
    threads = [threading.Thread(target=check, args=(x, one)) for one in made]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    assert all((one == 5 * x).all() for one in made)
    import io
    from cuda.tile import compilation
    made = compilation.KernelSignature.from_kernel_args(
        convert, (x, y), compilation.CallingConvention.cutile_python_v1())
    exported = io.BytesIO()
    compilation.export_kernel(
        convert, [made], exported, gpu_code="sm_90", output_format="tileir_bytecode", bytecode_version="13.1")
    assert exported.getvalue()[1:7] == b"TileIR"
    print("all of it")
    sys.exit(7)
"""

FAULTS = """
import numpy as np
import cuda.tile as ct
import tileiras

@ct.kernel
def outside(x, far: ct.Constant[int]):
    t = ct.gather(x, ct.arange(8, dtype=ct.int32) + far, check_bounds=False)   # line 8
    ct.store(x, (0,), t)

@ct.kernel
def wrong(x):
    t = ct.load(x, (0,), (7,))                       # line 13

@ct.kernel
def refused(x):
    ct.store(x, (0,), ct.load(x, (0,), (8,)))

x = np.arange(8, dtype=np.float32)
for kernel, args in ((outside, (x, 1 << 20)), (wrong, (x,))):
    try:
        ct.launch(None, (1,), kernel, args)
    except ct.TileError as error:
        print(type(error).__name__, isinstance(error, RuntimeError), str(error).replace("\\n", "|"))
assert (x == np.arange(8)).all(), "nothing was written"
real = tileiras.Module.verify
def verify(module):
    from tileiras.diag import CompileError, Diag, Emitted, ERROR
    store = next(op for op in module.op.walk() if op.spec.name == "store_view_tko")
    raise CompileError(5, [Emitted(Diag("T-1", ERROR, "no such thing", "test"), store.loc)])
tileiras.Module.verify = verify
try:
    ct.launch(None, (1,), refused, (x,))
except ct.TileCompilerExecutionError as error:
    print("refused", str(error).replace("\\n", "|"))
tileiras.Module.verify = real
ct.launch(None, (1,), outside, (x, 1 << 20))          # last line
"""

ONES = """
import numpy as np
import cuda.tile as ct

@ct.kernel
def rows(a, b, TM: ct.Constant[int], TN: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(b, (i, 0), ct.load(a, (i, 0), (TM, TN)) + 1)

@ct.kernel
def outer(a, b, c, T: ct.Constant[int]):
    i, j = ct.bid(0), ct.bid(1)
    ct.store(c, (i, j), ct.load(a, (i, 0), (T, 1)) * ct.load(b, (0, j), (1, T)))

@ct.kernel
def column(a, o, TM: ct.Constant[int], TN: ct.Constant[int]):
    ct.store(o, (0, 0), ct.sum(ct.load(a, (0, 0), (TM, TN)), axis=0, keepdims=True))

@ct.kernel
def through(a, o, T: ct.Constant[int]):
    index = ct.arange(T, dtype=ct.int32)
    ct.scatter(o, (index, 0), ct.gather(a, (index, 0)))

@ct.kernel
def twice(a, o):
    ct.store(o, (0, 0, 0), ct.load(a, (0, 0, 0), (1, 1, 1)) * 2)

def made(*shape):
    return np.arange(1, 1 + np.prod(shape), dtype=np.float32).reshape(shape)

base = made(8, 6)
views = [np.asarray(made(*shape), order=order)
         for shape in ((1, 8), (8, 1), (1, 1), (5, 1), (1, 13), (16, 1), (1, 16)) for order in "CF"]
views += [base[:, 2:3], base[3:4], base[::2, 1:2], base[7:8, 5:6], base.T[1:2], base[:, ::-1][:, 2:3]]
for view in views:
    for tm, tn in ((1, 8), (8, 1), (4, 4), (16, 16)):
        out = np.zeros(view.shape, np.float32)
        ct.launch(None, (-(-view.shape[0] // tm), 1, 1), rows, (view, out, tm, tn))
        assert (out[:, :tn] == view[:, :tn] + 1).all() and not out[:, tn:].any(), (view.shape, view.strides, tm, tn)
x, y, z = made(32, 1), made(1, 32), np.zeros((32, 32), np.float32)
ct.launch(None, (2, 2, 1), outer, (x, y, z, 16))
assert (z == x * y).all()
a, o = made(16, 4), np.zeros((1, 4), np.float32)
ct.launch(None, (1, 1, 1), column, (a, o, 16, 4))
assert (o == a.sum(0)).all()
for n in (16, 9):
    a, o = made(n, 1), np.zeros((n, 1), np.float32)
    ct.launch(None, (1, 1, 1), through, (a, o, 16))
    assert (o == a).all()
a, o = made(1, 1, 1), np.zeros((1, 1, 1), np.float32)
ct.launch(None, (1, 1, 1), twice, (a, o))
assert o == 2 * a

class OfAGpu:                     # as CuPy's: this interface alone
    __cuda_array_interface__ = {**a.__array_interface__, "version": 3}
try:
    ct.launch(None, (1, 1, 1), twice, (OfAGpu(), o))
except TypeError as error:
    print(error)
print("all of it")
"""

TUNED = """
import numpy as np, sys
import cuda.tile as ct
from cuda.tile import tune

@ct.kernel
def count(runs, x, n: ct.Constant[int]):
    ct.atomic_add(runs, (0,), 1)
    ct.store(x, (ct.bid(0),), ct.load(x, (ct.bid(0),), (n,)) + 1)

runs, x = np.zeros(1, np.int32), np.zeros(16, np.float32)
found = tune.exhaustive_search(
    [4, 3, 8], 0, lambda n: (1,), count, lambda n: (runs, x, n), quiet=True, single_run_timeout_sec=9)
assert [one.config for one in found.successes] == [4, 8] and found.failures[0][0] == 3
assert found.best.config == 4 and runs[0] == 4, runs
tuned = count.replace_hints(occupancy=2)
ct.launch(0, (1,), tuned, (runs, x, found.best.config))
assert runs[0] == 5
"""


@pytest.fixture(scope="module", autouse=True)
def cutile() -> None:
    if importlib.util.find_spec("cuda") is None or importlib.util.find_spec("cuda.tile") is None:
        peers.missing("cuda-tile")


def run(*words: str | Path, cwd: Path, code: int = 0, **variables: str) -> subprocess.CompletedProcess[str]:
    env = {key: value for key, value in os.environ.items() if not key.startswith("TILEIRAS_CUTILE")}
    env = {
        **env,
        "PYTHONPATH": os.pathsep.join([*variables.pop("path", "").split(), str(REPOSITORY)]),
        **variables,
    }
    done = subprocess.run(
        [sys.executable, *map(str, words)], cwd=cwd, env=env, capture_output=True, text=True
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done


@pytest.mark.sampled(3)
@pytest.mark.parametrize("target", ["cpu", "reference", "emulator"])
def test_extents_of_one_and_memory_of_a_gpu(target: str, tmp_path: Path) -> None:
    (tmp_path / "ones.py").write_text(ONES)
    done = run("-m", "tileiras.tools.cutile", "--check", f"--target={target}", "ones.py", cwd=tmp_path)
    assert done.stdout == (
        "an argument of the launch cannot be used: a OfAGpu lies in the memory of a GPU: copy it to the host, "
        "or run the script with --target gpu\nall of it\n"
    )


def test_help_and_wrong_use(tmp_path: Path) -> None:
    command = ("-m", "tileiras.tools.cutile")
    assert "TILEIRAS_CUTILE=" in run(*command, "--help", cwd=tmp_path).stdout
    for words, code, text in (
        ((), 1, "a script is needed"),
        (("--target", "moon", "k.py"), 1, "moon"),
        (("nowhere.py",), 1, "cannot read 'nowhere.py'"),
        (("--target", "reference", "--gpu-name", "sm_91", "k.py"), 2, "unknown GPU 'sm_91'"),
        (("--target", "gpu", "--check", "k.py"), 2, "no meaning for --target gpu"),
    ):
        assert text in run(*command, *words, cwd=tmp_path, code=code).stderr


@pytest.mark.sampled(3)
@pytest.mark.parametrize("target", ["cpu", "reference", "emulator"])
def test_a_script_runs_unchanged_and_its_status_is_passed_on(tmp_path: Path, target: str) -> None:
    if target == "cpu" and importlib.util.find_spec("llvmlite") is None:
        peers.missing("llvmlite")
    folder = tmp_path / "scripts here"
    folder.mkdir()
    (folder / "script.py").write_text(SCRIPT)
    (folder / "beside.py").write_text("HERE = 5\n")
    words = ("-m", "tileiras.tools.cutile", "--target", target, "--gpu-name", "sm_90", folder / "script.py")
    assert run(*words, "--size", "20", cwd=tmp_path, code=7).stdout == "all of it\n"


@pytest.mark.full
def test_a_gpu_with_a_suffix_is_compiled_for(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "beside.py").write_text("HERE = 5\n")
    words = (
        "--target",
        "emulator",
        "--gpu-name",
        "sm_90a",
        "--report",
        "r.json",
        "script.py",
        "--size",
        "20",
    )
    assert run("-m", "tileiras.tools.cutile", *words, cwd=tmp_path, code=7).stdout == "all of it\n"
    assert '"sm_90a"' in (tmp_path / "r.json").read_text()


def test_faults_and_compile_errors_are_cutile_exceptions_with_the_line(tmp_path: Path) -> None:
    (tmp_path / "faults.py").write_text(FAULTS)
    done = run("-m", "tileiras.tools.cutile", "--target", "reference", "faults.py", cwd=tmp_path, code=1)
    outside, wrong, refused = done.stdout.splitlines()
    assert outside.startswith("KernelFault True") and '"faults.py", line 8' in outside
    assert "outside of all memory" in outside
    assert wrong.startswith("TypeCheckingError False") and "line 13" in wrong and "power of two" in wrong
    assert "Return code 5|no such thing" in refused and "line 17" in refused
    trace = done.stderr.splitlines()
    last = len(FAULTS.splitlines())
    assert trace[0].startswith("Traceback") and f'faults.py", line {last}, in <module>' in trace[1]
    assert 'faults.py", line 8' in done.stderr and "tools/cutile.py" not in done.stderr


EXPORTS = """
import ctypes, io
from ctypes import byref, c_char_p, c_int, c_int32, c_uint, c_uint64, c_void_p
import numpy as np
import cuda.tile as ct
from cuda.tile import compilation
from cuda.tile._load_libcuda import _cuGetProcAddress_v2 as get

@ct.kernel
def double(x, y):
    ct.store(y, (0,), ct.load(x, (0,), (16,)) * 2)

x, y = np.arange(16, dtype=np.float32), np.zeros(16, np.float32)
signature = compilation.KernelSignature.from_kernel_args(
    double, (x, y), compilation.CallingConvention.cutile_python_v1())
made = io.BytesIO()
compilation.export_kernel(double, [signature], made, gpu_code="sm_100", output_format="cubin")
cubin = made.getvalue()
name = signature.with_mangled_symbol("double").symbol.encode()

get.argtypes, get.restype = [c_char_p, ctypes.POINTER(c_void_p), c_int, c_uint64, c_void_p], c_int
def call(name, version, *args):
    found = c_void_p()
    assert get(name, byref(found), version, 0, None) == 0
    types = [type(one) if isinstance(one, ctypes._SimpleCData) else c_void_p for one in args]
    return ctypes.cast(found, ctypes.CFUNCTYPE(c_int, *types))(*args)

library, kernel = c_void_p(), c_void_p()
unknown = cubin[:-1] + bytes([cubin[-1] ^ 1])
zero = c_uint(0)
load = lambda image: call(b"cuLibraryLoadData", 12000, byref(library), image, None, None, zero, None, None, zero)
assert load(unknown) == 200 and load(cubin) == 0
assert call(b"cuLibraryGetKernel", 12000, byref(kernel), library, name) == 0
values = [c_void_p(x.ctypes.data), c_int32(16), c_int32(1), c_void_p(y.ctypes.data), c_int32(16), c_int32(1)]
places = (c_void_p * len(values))(*(ctypes.addressof(one) for one in values))
one = c_uint(1)
assert call(b"cuLaunchKernel", 7000, kernel, one, one, one, one, one, one, c_uint(0), None, places, None) == 0
assert (y == 2 * x).all(), y
print("launched what was exported")
"""


def test_an_exported_cubin_is_launched_by_the_driver_s_functions(tmp_path: Path) -> None:
    if importlib.util.find_spec("llvmlite") is None:
        peers.missing("llvmlite")
    (tmp_path / "exports.py").write_text(EXPORTS)
    done = run("-m", "tileiras.tools.cutile", "--target", "cpu", "exports.py", cwd=tmp_path)
    assert done.stdout == "launched what was exported\n"


ASSERTS = """
import sys
import numpy as np
import cuda.tile as ct

@ct.kernel
def careful(x, y):
    t = ct.load(x, (ct.bid(0),), (8,))
    ct.assert_(t > 0, "not all of them are positive")
    ct.store(y, (ct.bid(0),), t)

x, y = np.arange(16, dtype=np.float32), np.zeros(16, np.float32)
try:
    ct.launch(None, (2,), careful, (x, y))
except ct.TileError as error:
    print(type(error).__name__, str(error), file=sys.stderr)
x += 1
ct.launch(None, (2,), careful, (x, y))
assert (x == y).all()
"""


@pytest.mark.parametrize("target", ["cpu", "reference", "emulator"])
def test_a_failed_assertion_is_told_once_on_standard_output(tmp_path: Path, target: str) -> None:
    if target == "cpu" and importlib.util.find_spec("llvmlite") is None:
        peers.missing("llvmlite")
    (tmp_path / "careful.py").write_text(ASSERTS)
    done = run("-m", "tileiras.tools.cutile", "--target", target, "careful.py", cwd=tmp_path)
    (line,) = done.stdout.splitlines()
    assert "not all of them are positive" in line
    assert done.stderr.startswith("KernelFault") and "not all of them are positive" in done.stderr


def test_tuning_runs_each_configuration_without_timing(tmp_path: Path) -> None:
    (tmp_path / "tuned.py").write_text(TUNED)
    run("-m", "tileiras.tools.cutile", "--target", "reference", "tuned.py", cwd=tmp_path)


def test_the_variable_reaches_child_processes_and_a_wrong_one_runs_no_kernel(tmp_path: Path) -> None:
    # What the installed .pth file says, where this environment was installed before there was one.
    (tmp_path / "sitecustomize.py").write_text((REPOSITORY / "scripts" / "tileiras_cutile.pth").read_text())
    (tmp_path / "child.py").write_text("import cuda.tile._cext as c; print(c.get_compute_capability())")
    (tmp_path / "parent.py").write_text(
        "import subprocess, sys; subprocess.run([sys.executable, 'child.py'], check=True)"
    )
    here = {"cwd": tmp_path, "path": str(tmp_path)}
    assert run("child.py", TILEIRAS_CUTILE="emulator:sm_86", **here).stdout == "(8, 6)\n"
    words = ("-m", "tileiras.tools.cutile", "--target", "reference", "--gpu-name", "sm_120", "parent.py")
    assert run(*words, TILEIRAS_CUTILE="emulator:sm_86", **here).stdout == "(12, 0)\n"
    assert (
        "TILEIRAS_CUTILE=moon: unknown target"
        in run("child.py", TILEIRAS_CUTILE="moon", code=1, **here).stderr
    )
    assert run("-c", "print(1)", TILEIRAS_CUTILE="moon", **here).stdout == "1\n"


def test_the_pytest_plugin_runs_tests_and_names_the_target(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("import cuda.tile\n")
    (tmp_path / "test_k.py").write_text(
        "import numpy as np, cuda.tile as ct\n"
        "@ct.kernel\n"
        "def k(x): ct.store(x, (0,), ct.load(x, (0,), (8,)) + 1)\n"
        "def test_k():\n"
        "    x = np.zeros(8, np.float32)\n"
        "    ct.launch(None, (1,), k, (x,))\n"
        "    assert (x == 1).all()\n"
    )
    words = ("-m", "pytest", "-p", "tileiras.pytest", "-p", "no:cacheprovider", "--tileiras-target=reference")
    done = run(*words, "--tileiras-gpu-name=sm_90", cwd=tmp_path)
    assert "cuTile kernels run on: reference:sm_90" in done.stdout and "1 passed" in done.stdout


@pytest.mark.full
def test_the_suite_script_runs_a_checkouts_tests_and_says_whose_fault_it_is(tmp_path: Path) -> None:
    tests = tmp_path / "test"
    tests.mkdir()
    (tests / "test_a.py").write_text(
        "import pytest, time\n"
        "def test_passes(): pass\n"
        "def test_ours(): assert 1 + 1 == 3\n"
        "def test_skipped(): pytest.skip('no')\n"
        "def test_graph(): raise RuntimeError('CUDAGraph')\n"
        "def test_slow(): time.sleep(60)\n"
        "def test_child():\n"
        "    import subprocess, sys\n"
        "    subprocess.run([sys.executable, '-c', 'import not_here'], check=True)\n"
    )
    (tests / "test_b.py").write_text("def test_crash():\n    import os; os.kill(os.getpid(), 11)\n")
    (tests / "test_c.py").write_text("def test_slow():\n    import time; time.sleep(60)\n")
    (tests / "test_d.py").write_text("raise ImportError('cannot import name x')\n")
    script = REPOSITORY / "scripts" / "cutile_suite.py"
    words = (script, tmp_path, "--target=reference", "--jobs", "1", "-o", tmp_path / "report.txt")
    run(*words, "--limit-s", "10", "test/test_a.py", "test/test_b.py", "test/test_d.py", cwd=tmp_path, code=1)
    report = (tmp_path / "report.txt").read_text()
    assert "8 tests in" in report and ": 1 passed, 6 failed, 1 skipped" in report
    groups = {part.splitlines()[0].split(":")[0]: part for part in report.split("\n\n")[1:]}
    assert groups.pop("skipped") == "skipped: no (1)\n"
    assert sorted(groups) == ["needs a GPU", "other release", "ours", "test environment", "time limit"]
    assert "test_ours: assert (1 + 1) == 3" in groups["ours"] and "ended with -11" in groups["ours"]
    assert "test_graph" in groups["needs a GPU"] and "test_d.py" in groups["other release"]
    assert "test_child" in groups["test environment"]
    run(*words, "--file-limit-s", "8", "test/test_c.py", cwd=tmp_path)
    assert "ended with -1: " in (tmp_path / "report.txt").read_text()
    (tmp_path / "conftest.py").write_text("def pytest_sessionstart(): raise OSError('no triton')\n")
    run(*words, "test/test_a.py", cwd=tmp_path)
    assert "needs a GPU" in (tmp_path / "report.txt").read_text()


def test_tileiras_run_launches_one_kernel_of_a_python_file(tmp_path: Path) -> None:
    (tmp_path / "k.py").write_text(
        "import cuda.tile as ct\n"
        "from factor import TWO\n"
        "@ct.kernel\n"
        "def scale(x, y, n: ct.Constant[int]):\n"
        "    ct.store(y, (ct.bid(0),), ct.load(x, (ct.bid(0),), (n,)) * TWO)\n"
        "@ct.kernel\n"
        "def other(x): ct.store(x, (0,), ct.load(x, (0,), (3,)))\n"
        "if __name__ == '__main__': raise SystemExit(9)\n"
    )
    (tmp_path / "factor.py").write_text("TWO = 2\n")
    command = ("-m", "tileiras.tools.run", tmp_path / "k.py")
    assert run(*command, "--list", cwd=tmp_path).stdout == "scale(x, y, n: constant)\nother(x)\n"
    words = (
        "--entry",
        "scale",
        "--grid",
        "2",
        "--arg",
        "arange:f32:16",
        "--tensor",
        "y=zeros:f32:16",
        "--arg",
        "8",
    )
    done = run(
        *command, *words, "--target", "emulator", "--expect", "0=arange:f32:16", "--show", "y", cwd=tmp_path
    )
    assert "28. 30." in done.stdout and "PASS" in done.stdout
    assert "it has scale, other" in run(*command, "--entry", "none", cwd=tmp_path, code=1).stderr
    bad = run(*command, "--entry", "other", "--arg", "ones:f32:4", cwd=tmp_path, code=5)
    assert "power of two" in bad.stderr and "line 7" in bad.stderr and "Traceback" not in bad.stderr


def test_a_pytorch_script_for_cuda_runs_on_the_cpu(tmp_path: Path) -> None:
    if importlib.util.find_spec("torch") is None:
        peers.missing("torch")
    (tmp_path / "script.py").write_text(TORCH)
    done = run(
        "-m", "tileiras.tools.cutile", "--target", "reference", "--map-cuda", "script.py", cwd=tmp_path
    )
    assert done.stdout == "all of it\n"


TORCH = """
import threading
import torch, cuda.tile as ct

@ct.kernel
def vadd(a, b, c, n: ct.Constant[int]):
    ct.store(c, (ct.bid(0),), ct.load(a, (ct.bid(0),), (n,)) + ct.load(b, (ct.bid(0),), (n,)))

def add(a, b):
    assert a.is_cuda and a.device == b.device and a.device.type == "cuda"
    c = torch.empty_like(a)
    ct.launch(torch.cuda.current_stream(), (ct.cdiv(a.shape[0], 64),), vadd, (a, b, c, 64))
    return c

assert torch.cuda.is_available() and torch.cuda.get_device_capability() == (10, 0)
for dtype in (torch.float32, torch.float16, torch.bfloat16):
    a = torch.randn(1000, dtype=dtype, device="cuda")
    b = torch.rand(1000, device=torch.device("cuda")).to(dtype)
    torch.testing.assert_close(add(a, b), a + b)
    assert (a + b).is_cuda and not a.cpu().is_cuda and not torch.zeros(3).is_cuda
host = torch.ones(64)
device = host.cuda()
device += 1
back = device.cpu()
device += 1
assert host[0] == 1 and back[0] == 2 and device[0] == 3, "each side has its own memory"
layer = torch.nn.Linear(4, 4).to("cuda")
x = torch.randn(2, 4, device="cuda", requires_grad=True)
layer(x).sum().backward()
assert layer.weight.is_cuda and x.grad.is_cuda
assert torch.rand(2, generator=torch.Generator(device="cuda").manual_seed(3), device="cuda").is_cuda
start = torch.cuda.Event(enable_timing=True)
start.record()
with torch.cuda.stream(torch.cuda.Stream()):
    torch.cuda.synchronize()
def work():
    zeros = torch.zeros(64, device="cuda")
    seen.append(add(zeros, zeros + 1)[0].item())
seen = []
thread = threading.Thread(target=work)
thread.start()
thread.join()
assert seen == [1.0]
torch.manual_seed(5)
first = torch.rand(3, device="cuda")
torch.cuda.manual_seed(5)
assert (torch.rand(3, device="cuda") == first).all()
weight = torch.ones(8, dtype=torch.bfloat16, device="cuda", requires_grad=True)
rows = torch.randn(4096, 8, dtype=torch.bfloat16, device="cuda")
torch.nn.functional.layer_norm(rows, (8,), weight).sum().backward()
wide = torch.nn.functional.layer_norm(rows.float(), (8,)).sum(0)
torch.testing.assert_close(weight.grad.float(), wide, atol=1.0, rtol=1e-2)    # summed in f32, as on a GPU
from torch.nn.attention import SDPBackend, sdpa_kernel
q = torch.randn(1, 2, 8, 16, device="cuda")
half = torch.ones(4, 4, dtype=torch.float16, device="cuda")
assert torch.mm(half, half, out_dtype=torch.float32).dtype is torch.float32
assert torch.mm(half, half, torch.float32).is_cuda
with sdpa_kernel([SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION]):
    assert torch.nn.functional.scaled_dot_product_attention(q, q, q).is_cuda
torch.set_default_device("cuda")
assert torch.zeros(2).is_cuda
print("all of it")
"""
