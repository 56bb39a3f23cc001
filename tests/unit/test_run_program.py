"""Launching compiled programs, arrays of other libraries and lists of arrays; launches from several threads."""

from __future__ import annotations

import concurrent.futures
import ctypes
import gc
import io
import subprocess
import sys
import weakref

import ml_dtypes
import numpy as np
import pytest

import tileiras
from tileiras import driver
from tileiras.compiler.ir.types import F32, Ptr
from tileiras.run import imports
from tileiras.run.args import encode_arguments

TARGETS = ("reference", "emulator")
DOUBLE = """cuda_tile.module @m {
  global @count <i32: [5]> : tile<1xi32>
  entry @double(%x: tile<ptr<f32>>, %n: tile<i32>, %s: tile<i32>) {
    %size = assume bounded<0, ?>, %n : tile<i32>
    %step = assume bounded<0, ?>, %s : tile<i32>
    %v = make_tensor_view %x, shape = [%size], strides = [%step] : tile<i32> -> tensor_view<?xf32, strides=[?]>
    %p = make_partition_view %v : VIEW
    %b, %by, %bz = get_tile_block_id : tile<i32>
    %t = make_token : token
    %a, %r = load_view_tko weak %p[%b] token = %t : VIEW, tile<i32> -> tile<8xf32>, token
    %c = addf %a, %a : tile<8xf32>
    %w = store_view_tko weak %c, %p[%b] token = %r : tile<8xf32>, VIEW, tile<i32> -> token
    return
  }
  entry @bump(%out: tile<ptr<i32>>) {
    %g = get_global @count : tile<ptr<i32>>
    %v, %t = load_ptr_tko weak %g : tile<ptr<i32>> -> tile<i32>, token
    %1 = constant <i32: 1> : tile<i32>
    %w = addi %v, %1 : tile<i32>
    %u = store_ptr_tko weak %g, %w token = %t : tile<ptr<i32>>, tile<i32> -> token
    %o = store_ptr_tko weak %out, %w token = %u : tile<ptr<i32>>, tile<i32> -> token
    return
  }
  entry @say(%x: tile<i32>) {
    %t = print_tko "%d-", %x : tile<i32> -> token
    return
  }
  entry @sum(%list: tile<ptr<i64>>, %out: tile<ptr<f32>>) {
    %a, %t = load_ptr_tko weak %list : tile<ptr<i64>> -> tile<i64>, token
    %p = int_to_ptr %a : tile<i64> -> tile<ptr<f32>>
    %1 = constant <i32: 1> : tile<i32>
    %next = offset %list, %1 : tile<ptr<i64>>, tile<i32> -> tile<ptr<i64>>
    %b, %u = load_ptr_tko weak %next token = %t : tile<ptr<i64>> -> tile<i64>, token
    %q = int_to_ptr %b : tile<i64> -> tile<ptr<f32>>
    %x, %tx = load_ptr_tko weak %p token = %u : tile<ptr<f32>> -> tile<f32>, token
    %y, %ty = load_ptr_tko weak %q token = %tx : tile<ptr<f32>> -> tile<f32>, token
    %s = addf %x, %y : tile<f32>
    %w = store_ptr_tko weak %out, %s token = %ty : tile<ptr<f32>>, tile<f32> -> token
    return
  }
}
""".replace("VIEW", "partition_view<tile=(8), tensor_view<?xf32, strides=[?]>>")


@pytest.fixture(scope="module")
def program() -> driver.Program:
    return tileiras.compile(DOUBLE, gpu_name="sm_90", emit="ptx")


class Lender:
    """Another library's array: DLPack and nothing else."""

    def __init__(self, array: np.ndarray, **facts) -> None:
        self.array, self.facts = array, facts

    def __dlpack__(self, **options):
        if self.facts.get("old") and "max_version" in options:
            raise TypeError("unexpected keyword argument 'max_version'")
        if self.facts.get("why"):
            raise BufferError(self.facts["why"])
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.facts.get("device", (1, 0))


def test_a_program_translates_a_kernel_once_and_starts_each_launch_afresh(program, monkeypatch) -> None:
    from tileiras.run.emulator import unit

    parsed: list[int] = []
    parse = unit.parse
    monkeypatch.setattr(unit, "parse", lambda text: parsed.append(1) or parse(text))
    monkeypatch.setattr(driver, "compile_source", None)
    monkeypatch.setattr(driver, "compile_loaded", None)
    for target in TARGETS:
        for _ in range(3):
            out = np.zeros(1, np.int32)
            program.launch("bump", grid=1, args=[out], target=target)
            assert out[0] == 6, "a global has its initial value at the start of every launch"
    tileiras.launch(program, "bump", 1, [out], "emulator")
    assert len(parsed) == 1
    assert program.kernels["bump"].launch_abi == "tile"


def test_a_program_refuses_what_belongs_to_compiling(program) -> None:
    out = np.zeros(1, np.int32)
    for facts, code, text in (
        ({"opt_level": 0}, 1, "'opt_level' belongs to tileiras.compile"),
        ({"gpu_name": "sm_120"}, 2, "compiled for sm_90, not for sm_120"),
        ({"target": "gpuu"}, 1, "unknown launch target"),
    ):
        with pytest.raises(tileiras.LaunchError, match=text) as caught:
            tileiras.launch(program, "bump", 1, [out], **{"target": "emulator", **facts})
        assert caught.value.exit_code == code
    with pytest.raises(tileiras.LaunchError, match="nope"):
        program.launch("nope", 1, [out])
    with pytest.raises(TypeError, match="optlevel"):
        program.launch("bump", 1, [out], optlevel=3)
    checked = tileiras.compile(DOUBLE, gpu_name="sm_90", emit="tilebc")
    with pytest.raises(tileiras.LaunchError, match="emit='tilebc', which makes no PTX"):
        checked.launch("bump", 1, [out])


@pytest.mark.parametrize("target", TARGETS)
def test_arrays_of_other_libraries_are_read_and_written_where_they_lie(program, target) -> None:
    base = np.arange(32, dtype=np.float32)
    every_other = base[::2]

    class Interface:
        __array_interface__ = every_other.__array_interface__
        owner = base

    for lent in (Lender(every_other), Lender(every_other, old=True), Interface()):
        base[:] = np.arange(32)
        program.launch("double", 2, [lent, 16, 2], target)
        assert base[::2].tolist() == [2.0 * i for i in range(0, 32, 2)]
        assert base[1::2].tolist() == list(range(1, 32, 2))
    program.launch("double", 1, [Lender(base[:8]), Lender(np.array(8)), np.int32(1)], target)


def test_imports_that_cannot_be_used_say_why() -> None:
    frozen = np.zeros(4, np.float32)
    frozen.flags.writeable = False

    class Interface:
        __array_interface__ = frozen.__array_interface__

    class OnGpu:
        __cuda_array_interface__ = {"data": (4096, False), "shape": (4,), "typestr": "<f4", "version": 3}

    for value, text in (
        (Lender(frozen), "read-only"),
        (Interface(), "read-only"),
        (Lender(frozen, why="use tensor.detach()\nmore"), "use tensor.detach()"),
        (Lender(frozen, device=(8, 0)), "device of DLPack type 8"),
        (OnGpu(), "lies in the memory of a GPU"),
        (Lender(np.zeros(4)), "float64"),
    ):
        with pytest.raises(tileiras.LaunchError) as caught:
            tileiras.launch(DOUBLE, "double", 1, [value, 4, 1])
        assert text in str(caught.value) and "argument 0 of 'double'" in str(caught.value)
        assert "more" not in str(caught.value) and caught.value.exit_code == 1
    arguments = encode_arguments("k", [Ptr(F32)], [OnGpu()], on_gpu=True)
    assert arguments.data == [(4096).to_bytes(8, "little")] and not arguments.arrays


def test_dlpack_types_that_numpy_lacks_come_from_ml_dtypes() -> None:
    for code, bits, dtype in (
        (4, 16, ml_dtypes.bfloat16),
        (10, 8, ml_dtypes.float8_e4m3fn),
        (6, 8, np.bool_),
    ):
        assert imports._dtype_of(imports.DLTensor(code=code, bits=bits, lanes=1)) == np.dtype(dtype)
    with pytest.raises(imports.NotImportable, match="code 2, 32 bits, 4 lanes"):
        imports._dtype_of(imports.DLTensor(code=2, bits=32, lanes=4))
    memory = np.arange(6, dtype=np.uint16)
    view = imports.borrow(memory.ctypes.data, (3,), (4,), np.dtype(ml_dtypes.bfloat16), memory)
    assert view.dtype == ml_dtypes.bfloat16 and view.view(np.uint16).tolist() == [0, 2, 4]


@pytest.mark.parametrize("target", TARGETS)
def test_a_list_of_arrays_is_a_table_of_their_addresses(program, target) -> None:
    out = np.zeros(1, np.float32)
    program.launch("sum", 1, [[np.float32([1.5]), Lender(np.float32([2.25]))], out], target)
    assert out[0] == 3.75
    program.launch("sum", 1, ((out, out), out), target)
    assert out[0] == 7.5


def test_lists_elsewhere_are_one_short_error_with_their_place() -> None:
    huge = [np.zeros(1 << 12, np.float32)] * 500
    for args, place, wanted in (
        ([huge, 8, 1], "argument 0 of 'double' is a ptr<f32>", "got list of 500"),
        ([huge[0], tuple(huge), 1], "argument 1 of 'double' is a i32", "got tuple of 500"),
        ([huge[0], "x" * 5000, 1], "argument 1 of 'double' is a i32", "got str"),
    ):
        with pytest.raises(tileiras.LaunchError) as caught:
            tileiras.launch(DOUBLE, "double", 1, args)
        text = str(caught.value)
        assert place in text and wanted in text and len(text) < 160
    with pytest.raises(tileiras.LaunchError, match=r"argument 0\[1\] of 'sum'.*got int 5"):
        tileiras.launch(DOUBLE, "sum", 1, [[huge[0], 5], huge[0]])
    with pytest.raises(tileiras.LaunchError, match="args: expected a list of arguments, got int"):
        tileiras.launch(DOUBLE, "bump", 1, 5)  # type: ignore[arg-type]


def test_temporaries_live_until_the_launch_returns() -> None:
    class Owner(np.ndarray):
        pass

    array = np.zeros(4, np.float32).view(Owner)
    watch = weakref.ref(array)
    lender = Lender(array)
    arguments = encode_arguments("k", [Ptr(F32)], [lender])
    del array, lender
    gc.collect()
    assert watch() is not None
    ctypes.c_float.from_address(int.from_bytes(arguments.data[0], "little")).value = 2.0
    assert arguments.arrays[0][0] == 2.0
    del arguments
    gc.collect()
    assert watch() is None, "an import is released with its launch"


@pytest.mark.parametrize("target", TARGETS)
def test_eight_threads_launch_one_program_at_once(program, target) -> None:
    def work(number: int) -> str:
        text = io.StringIO()
        for _ in range(3):
            x = np.full(40, number, np.float32)
            program.launch("double", 5, [x, 40, 1], target)
            assert x.tolist() == [2.0 * number] * 40
            program.launch("say", 1, [number], target, out=text)
            out = np.zeros(1, np.int32)
            tileiras.launch(program, "bump", 1, [out], target)
            assert out[0] == 6
        return text.getvalue()

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        printed = list(pool.map(work, range(8)))
    assert printed == [f"{number}-" * 3 for number in range(8)], "each launch prints to its own stream"


def test_launching_without_numpy_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['numpy'] = None\n"
        "import tileiras\n"
        "try: tileiras.launch('cuda_tile.module @m {}', 'k', 1, [])\n"
        "except tileiras.LaunchError as error: print(error.exit_code, error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("2 ") and "pip install 'tileiras[run]'" in done.stdout


def test_compiling_leaves_the_module_as_it_was() -> None:
    module = tileiras.load(DOUBLE)
    before = str(module)
    tileiras.compile(module, gpu_name="sm_90", emit="ptx")
    assert str(module) == before
