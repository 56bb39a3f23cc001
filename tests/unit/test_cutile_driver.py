"""The stand-in for the CUDA driver, called as C calls it; arrays on loan; settings of a run."""

from __future__ import annotations

import ctypes
import dataclasses
import typing
from ctypes import byref, c_int, c_size_t, c_void_p

import ml_dtypes
import numpy as np
import pytest

from tileiras.archs import PTXAS_SINCE
from tileiras.run.cutile.arrays import Lent, lend
from tileiras.run.cutile.driver import INVALID_HANDLE, INVALID_VALUE, LAUNCH_FAILED, NOT_SUPPORTED, Driver
from tileiras.run.cutile.settings import BadSettings, Settings, parse_variable
from tileiras.run.cutile.torch_cuda import RESOLUTION_MS, Event, Stream
from tileiras.run.imports import NotImportable, import_array


class Caller:
    """Asks a driver for functions by name, as cuTile does."""

    def __init__(self, driver: Driver) -> None:
        pointer = c_void_p.from_address(driver.get_proc_address_cell).value
        prototype = ctypes.CFUNCTYPE(c_int, ctypes.c_char_p, c_void_p, c_int, ctypes.c_uint64, c_void_p)
        self.get = prototype(pointer or 0)

    def __call__(self, name: str, *args: typing.Any, version: int = 12000) -> int:
        place, status = c_void_p(), c_int(-1)
        asked = self.get(name.encode(), ctypes.addressof(place), version, 0, ctypes.addressof(status))
        assert asked == 0 and status.value == 0
        return ctypes.CFUNCTYPE(c_int)(place.value or 0)(*args)


def test_a_kernel_is_loaded_found_and_started() -> None:
    started: list[typing.Any] = []

    def run(image: str, symbol: str, grid: tuple[int, int, int], parameters: int) -> None:
        first = (c_void_p * 1).from_address(parameters)[0]
        started.append((image, symbol, grid, c_int.from_address(first).value))

    driver = Driver((12, 1), lambda address: "image" if ctypes.string_at(address, 2) == b"ok" else None, run)
    call = Caller(driver)
    major, library, kernel, function = c_int(), c_void_p(), c_void_p(), c_void_p()
    assert call("cuInit", 0) == 0
    assert call("cuDeviceGetAttribute", byref(major), 75, 0) == 0 and major.value == 12
    assert call("cuLibraryLoadData", byref(library), b"no", None, None, 0, None, None, 0) == 200
    assert call("cuLibraryLoadData", byref(library), b"ok", None, None, 0, None, None, 0) == 0
    assert call("cuLibraryGetKernel", byref(kernel), library, b"k") == 0
    assert call("cuKernelGetFunction", byref(function), kernel) == 0
    value = c_int(7)
    parameters = (c_void_p * 1)(ctypes.addressof(value))
    assert call("cuLaunchKernel", function, 3, 2, 1, 1, 1, 1, 0, None, parameters, None) == 0
    config = (ctypes.c_uint * 16)(5, 4, 3)
    assert call("cuLaunchKernelEx", config, function, parameters, None) == 0
    assert started == [("image", "k", (3, 2, 1), 7), ("image", "k", (5, 4, 3), 7)]
    assert call("cuLibraryUnload", library) == 0 and call("cuLibraryUnload", library) == INVALID_HANDLE
    assert call("cuLaunchKernelEx", config, function, parameters, None) == INVALID_HANDLE


def test_a_failing_launch_keeps_its_exception_for_the_thread_that_called() -> None:
    def run(*_facts: object) -> None:
        raise ValueError("why")

    driver = Driver((9, 0), lambda _address: "image", run)
    call = Caller(driver)
    library, kernel = c_void_p(), c_void_p()
    call("cuLibraryLoadData", byref(library), b"ok", None, None, 0, None, None, 0)
    call("cuLibraryGetKernel", byref(kernel), library, b"k")
    assert call("cuLaunchKernel", kernel, 1, 1, 1, 1, 1, 1, 0, None, None, None) == LAUNCH_FAILED
    assert isinstance(driver.take_failure(), ValueError) and driver.take_failure() is None


def test_memory_is_aligned_and_given_back() -> None:
    driver = Driver((9, 0), None, None)
    call = Caller(driver)
    at, base, size = c_void_p(), c_void_p(), c_size_t()
    assert call("cuMemAlloc", byref(at), c_size_t(1000)) == 0 and at.value and at.value % 256 == 0
    assert call("cuMemcpyHtoDAsync", at, b"abc", c_size_t(3), None) == 0
    assert ctypes.string_at(at.value, 3) == b"abc"
    inside = c_void_p(at.value + 999)
    assert call("cuMemGetAddressRange", byref(base), byref(size), inside) == 0
    assert (base.value, size.value) == (at.value, 1000)
    assert call("cuMemFree", at) == 0 and call("cuMemFree", at) == INVALID_VALUE
    assert call("cuMemAlloc", byref(at), c_size_t(0)) == INVALID_VALUE and not driver.allocations


def test_a_call_that_is_not_there_fails_by_name(capfd: pytest.CaptureFixture[str]) -> None:
    driver = Driver((9, 0), None, None)
    assert Caller(driver)("cuMulticastCreate", 1, 2, 3) == NOT_SUPPORTED
    assert "no cuMulticastCreate" in str(driver.take_failure())
    assert "no cuMulticastCreate" in capfd.readouterr().err


class Row(typing.NamedTuple):
    a: np.ndarray
    n: int


@dataclasses.dataclass(frozen=True)
class Pair:
    a: np.ndarray
    n: int


def test_containers_are_copied_as_far_as_they_hold_arrays() -> None:
    x, arrays = np.arange(6, dtype=np.int16).reshape(2, 3), []
    plain = (1, [2.5, "s"], (None,), Pair)
    assert lend(plain, arrays) is plain and not arrays
    pair = Pair(x, 2)
    lent = lend((x, [x.T, x], Row(x, 3), pair, 4), arrays)
    assert isinstance(lent[0], Lent) and isinstance(lent[1], list) and isinstance(lent[2], Row)
    assert lent[2].n == 3 and lent[3].n == 2 and isinstance(lent[3].a, Lent) and pair.a is x and lent[4] == 4
    assert type(lent[0]).__name__ == "ndarray", "cuTile's messages name the type of an argument"
    assert len(arrays) == 5 and all(np.shares_memory(one, x) for one in arrays)


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint64", "float16", "complex64", *("bfloat16", "float8_e5m2")]
)
def test_a_loan_says_type_shape_and_strides(dtype: str) -> None:
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    array = np.zeros((4, 6), kind)[::2, ::3]

    class OnHost(Lent):
        """The same loan under the name of the host's memory, so that it can be read back here."""

        def __dlpack_device__(self) -> tuple[int, int]:
            return 1, 0

        def __dlpack__(self, **options: typing.Any) -> typing.Any:
            from tileiras.run.cutile import arrays

            before, arrays.CUDA_DEVICE = arrays.CUDA_DEVICE, 1
            try:
                return super().__dlpack__(**options)
            finally:
                arrays.CUDA_DEVICE = before

    back = import_array(OnHost(array))
    assert isinstance(back, np.ndarray) and back.dtype == kind and back.strides == array.strides
    assert np.shares_memory(back, array) and back.shape == (2, 2)


def test_what_dlpack_cannot_say_is_refused() -> None:
    with pytest.raises(BufferError, match="no type"):
        Lent(np.zeros(2, "V3")).__dlpack__()
    with pytest.raises(BufferError, match="multiples"):
        Lent(np.zeros(4, [("a", "i1"), ("b", "i2")])["b"]).__dlpack__()

    class Gradient:
        def __dlpack__(self, **_options: typing.Any) -> None:
            raise BufferError("Can't export")

    with pytest.raises(NotImportable, match="Can't export"):
        lend((Gradient(),), [])


def test_settings_and_the_variable_say_the_same() -> None:
    for text, target, gpu in (
        ("reference", "reference", "sm_100"), ("emulator", "emulator", "sm_90"),
        ("emulator:sm_80:check", "emulator", "sm_80"), (" reference:map-cuda ", "reference", "sm_100"),
    ):  # fmt: skip
        settings = parse_variable(text)
        assert (settings.target, settings.gpu_name) == (target, gpu)
        assert parse_variable(settings.as_variable()).as_variable() == settings.as_variable()
        assert (settings.check, settings.map_cuda) == ("check" in text, "map" in text)
    assert Settings("reference", "sm_121").capability == (12, 1)
    for text in (
        "nope",
        "emulator:sm_91",
        "emulator:sm_90f",
        "emulator:compute_90",
        "reference:fast",
        "emulator:sm_",
    ):
        with pytest.raises(BadSettings):
            parse_variable(text)


@pytest.mark.parametrize("name", PTXAS_SINCE)
def test_every_gpu_is_seen_by_its_number_and_compiled_for_by_its_name(name: str) -> None:
    """cuTile names the GPU after the capability of the device, which knows no suffix."""
    settings = parse_variable(f"emulator:{name}")
    seen = "sm_{}{}".format(*settings.capability)
    assert seen == name.rstrip("af") and settings.spelled(seen) == name
    assert settings.spelled("sm_99") == "sm_99", "what cuTile is asked for itself"


def test_events_of_pytorch_are_as_far_apart_as_they_were_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A benchmark that repeats until 100 ms have passed ends, whatever a launch takes here."""
    times = iter([1.0, 1.25, 1.25])
    monkeypatch.setattr("tileiras.run.cutile.torch_cuda.time.perf_counter", lambda: next(times))
    start, end = Event(enable_timing=True), Event(enable_timing=True)
    with pytest.raises(RuntimeError, match="must be recorded"):
        start.elapsed_time(end)
    start.record()
    end.record(Stream())
    assert start.elapsed_time(end) == 250.0
    assert end.elapsed_time(Stream().record_event()) == RESOLUTION_MS, "never zero: scripts divide by it"
